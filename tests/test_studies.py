"""The runner of studies: killed, shared, stopped and damaged studies, with real processes where it matters."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.squares import COLUMNS, dying, square, squares, until

from sparse_pep.studies import runner
from sparse_pep.studies.runner import (
    Study,
    StudyStopped,
    jobs_left,
    read_results,
    run_study,
    seed_of,
)

HERE = Path(__file__).parent


def run_here(study, folder, n_workers=1):
    with ThreadPoolExecutor(n_workers) as executor:
        return run_study(study, folder, n_workers, executor=executor)


def calls(trace):
    """x → the processes that did it."""
    return {int(path.name[4:]): [int(pid) for pid in path.read_text().split()] for path in trace.glob("call*")}


def is_alive(pid):
    """Not gone, and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def trace(tmp_path):
    folder = tmp_path / "trace"
    folder.mkdir()
    return folder


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


# ---- killed and stopped ----------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted(folder, trace):
    """A study on two processes in a group of their own: three jobs are done, two have begun; always killed."""
    (trace / "hold").touch()
    lines = [
        "from reference.squares import squares",
        "from sparse_pep.studies.runner import run_study",
        "if __name__ == '__main__':",
        f"    run_study(squares({str(trace)!r}), {str(folder)!r}, 2)",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background it is ignored
    )
    try:
        until(lambda: len(list(folder.glob("squares.parts/*.csv"))) == 3 and len(calls(trace)) == 5)
        yield process
    finally:
        (trace / "hold").unlink(missing_ok=True)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_an_interrupted_study_resumes_and_repeats_nothing(interrupted, folder, trace, tmp_path, end):
    """Killed, the parent cannot tell its workers, whose jobs would last for ever; stopped by Ctrl-C, it writes the table."""
    study, workers = squares(trace), {pid for pids in calls(trace).values() for pid in pids}
    if end == "kill":
        interrupted.kill()
        interrupted.wait()
        done = {int(path.read_text().splitlines()[1].split(",")[0]) for path in folder.glob("squares.parts/*.csv")}
    else:
        os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does
        errors = interrupted.communicate(timeout=20)[1]
        assert interrupted.returncode == -signal.SIGINT
        assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")  # none of the workers
        done = set(read_results(folder / "squares.csv")["x"])
        assert json.loads((folder / "squares.json").read_text())["jobs_done"] == 3
    until(lambda: not any(map(is_alive, workers)), 10.0)
    assert len(done) == 3 and len(set(calls(trace)) - done) == 2

    with pytest.raises(ValueError, match="other settings"):  # known since before the first job
        run_here(squares(trace, offset=1.0), folder)
    (trace / "hold").unlink()
    rows = run_here(study, folder)
    again = set(calls(trace)) - done
    assert {x: len(pids) for x, pids in calls(trace).items() if x in done} == dict.fromkeys(done, 1)
    assert len(again) == 5 and jobs_left(study, folder) == 0
    other = run_here(squares(trace), tmp_path / "uninterrupted")
    pd.testing.assert_frame_equal(rows.drop(columns="seconds"), other.drop(columns="seconds"))
    notes = [json.loads((tmp_path / name / "squares.json").read_text()) for name in ("results", "uninterrupted")]
    assert notes[0] == notes[1] and notes[0]["jobs_done"] == 8 and len(notes[0]["versions"]) == 1


def test_a_worker_that_dies_is_one_line_and_costs_nothing_that_is_done(trace, folder, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with pytest.raises(StudyStopped) as caught:
        run_study(squares(trace, dying), folder, 2)
    message = str(caught.value)
    assert "\n" not in message and message.startswith("squares: ") and "worker process, which died" in message
    assert "What is done is kept" in message and os.environ["OMP_NUM_THREADS"] == "2"
    kept = read_results(folder / "squares.csv")
    assert len(kept) >= 3 and 0 not in set(kept["x"]) and set(kept["square"]) == {1}  # one thread for each of two workers
    rows = run_here(squares(trace), folder)
    assert rows["x"].tolist() == list(range(8)) and sum(rows["square"] == 1) >= len(kept)


def test_one_worker_has_all_threads_and_default_is_one_for_each_core(monkeypatch):
    monkeypatch.setattr(runner, "_n_cores", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with runner._workers() as (_, n_workers):
        assert n_workers == 3
    with runner._workers(1) as (executor, n_workers):
        assert n_workers == 1 and executor.submit(os.getenv, "OMP_NUM_THREADS").result() == "2"
    monkeypatch.undo()
    assert 1 <= runner._n_cores() <= os.cpu_count()


# ---- shared ----------------------------------------------------------------------------------------------------------


def test_two_runs_share_a_folder(folder, trace):
    """Two in one process, which know of each other as two processes do: through the files alone."""
    study, found = squares(trace, n=40), []
    both = [threading.Thread(target=lambda: found.append(run_here(study, folder))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert max(map(len, found)) == 40 and jobs_left(study, folder) == 0
    times = [len(done) for done in calls(trace).values()]
    assert len(times) == 40 and sum(times) < 70  # not everything twice
    assert run_here(study, folder)["x"].tolist() == list(range(40))


def test_gathering_again_and_again_loses_nothing(trace, folder):
    study, errors, end = squares(trace, n=60), [], threading.Event()
    results = runner._Results(study, folder)

    def keep_gathering():
        try:
            while not end.is_set():
                runner._Results(study, folder).gather()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=keep_gathering) for _ in range(2)]
    for thread in threads:
        thread.start()
    for job in study.jobs:
        results.add(job, [{"square": job["x"] ** 2}])
    end.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert results.gather()["square"].tolist() == [x**2 for x in range(60)]


def test_a_job_done_by_another_run_meanwhile_is_not_done_again(trace, folder):
    study = squares(trace, n=2)

    def does_both(job, trace, offset):
        for other in study.jobs:
            runner._Results(study, folder).add(other, [{"square": 7.0}])
        return square(job, trace, offset)

    rows = run_here(squares(trace, does_both, n=2), folder)
    assert len(calls(trace)) == 1 and sorted(rows["square"] == 7.0) == [False, True]


def test_jobs_of_an_earlier_grid_stay_behind_those_of_this_one(trace, folder):
    run_here(squares(trace, n=3), folder)
    later = squares(trace, n=4)
    later = Study("squares", later.jobs[:1:-1], square, COLUMNS, {"offset": 0.0}, local=later.local)
    assert run_here(later, folder)["x"].tolist() == [3, 2, 0, 1]
    assert json.loads((folder / "squares.json").read_text())["jobs_done"] == 2


# ---- errors of jobs --------------------------------------------------------------------------------------------------


def test_what_ended_beside_a_broken_job_is_kept(trace, folder):
    study = squares(trace, n=4)
    results, done, futures = runner._Results(study, folder), [], [Future() for _ in range(4)]
    futures[0].set_exception(TypeError("no\nnumber"))
    futures[1].set_result([{"square": 1.0}])
    futures[2].set_exception(np.linalg.LinAlgError("not\npositive"))
    futures[3].set_result([{"square": 9.0}])
    with pytest.raises(StudyStopped, match=r"^squares: 0/\d+ ended with TypeError: no number\. What is done") as caught:
        runner._keep(results, dict(zip(futures, study.jobs)), done.append)
    assert isinstance(caught.value.__cause__, TypeError)
    assert done == [study.jobs[1], study.jobs[3]] and len(results.gather()) == 2
    good = dict(zip(futures[1:], study.jobs[1:]))
    assert runner._keep(results, good, done.append) == [f"2/{study.jobs[2]['seed']}: not positive"]


def test_after_a_stop_the_same_process_can_go_on(trace, folder):
    def wrong(job, trace, offset):
        raise TypeError(f"job {job['x']}")

    with pytest.raises(StudyStopped, match="TypeError"):
        run_here(squares(trace, wrong), folder, 2)
    with ThreadPoolExecutor(1) as executor:
        pass  # shut down: every submission raises a RuntimeError
    with pytest.raises(StudyStopped) as caught:
        run_study(squares(trace), folder, 2, executor=executor)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert len(run_here(squares(trace), folder)) == 8


@pytest.mark.parametrize(
    "error",
    [ValueError("too\nbad"), np.linalg.LinAlgError("too bad"), FloatingPointError("too bad"), MemoryError("too bad")],
)
def test_failing_jobs_are_warned_of_and_tried_again(trace, folder, error):
    def failing(job, trace, offset):
        if job["x"] == 1:
            raise error
        return square(job, trace, offset)

    with pytest.warns(UserWarning) as caught:
        rows = run_here(squares(trace, failing, n=3), folder)
    assert [str(warning.message) for warning in caught] == [f"squares: 1/{seed_of('squares', 1)}: too bad"]
    assert rows["x"].tolist() == [0, 2] and jobs_left(squares(trace, n=3), folder) == 1
    assert run_here(squares(trace, n=3), folder)["x"].tolist() == [0, 1, 2]
    assert [len(calls(trace)[x]) for x in range(3)] == [1, 1, 1]


def test_warnings_of_jobs_stay_there(trace, folder, recwarn):
    def warned(job, trace, offset):
        import warnings

        warnings.warn("not converged", stacklevel=1)
        return square(job, trace, offset)

    run_here(squares(trace, warned, n=2), folder)
    assert not recwarn.list


@pytest.mark.parametrize(
    "rows, words",
    [
        ([{"square": 1.0, "cube": 2.0}], "'cube' is no column to fill in"),
        ([{"square": 1.0, "x": 5}], "'x' is no column to fill in"),
        ([], "no rows came"),
    ],
)
def test_rows_that_do_not_fit_are_a_failed_job(trace, folder, rows, words):
    with pytest.warns(UserWarning, match=words):
        assert run_here(squares(trace, lambda job, trace, offset: rows, n=1), folder).empty


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "jobs, words",
    [
        ([], "is empty"),
        ([{"x": 1}, {"y": 1}], "same names"),
        ([{"x": 1}, {"x": 2, "y": 1}], "same names"),
        ([{"x": 1, "y": 2}, {"y": 1, "x": 2}], "same names"),
        ([{"z": 1}], "all of them columns"),
        ([{"x": 0.5}, {"x": np.float64(0.5)}], "same job twice"),
    ],
)
def test_jobs_are_checked(jobs, words):
    with pytest.raises(ValueError, match=f"`jobs` of the study 'a'.*{words}"):
        Study("a", jobs, square, ("x", "y"))


def test_other_settings_or_columns_are_refused(trace, folder):
    run_here(squares(trace, n=2), folder)
    for columns, chosen in ((COLUMNS, {"offset": 1.0}), (COLUMNS, {}), (COLUMNS[:-1], {"offset": 0.0})):
        study = Study("squares", squares(trace).jobs, square, columns, chosen)
        with pytest.raises(ValueError, match=r"squares\.json' has results with other settings.*name another folder"):
            run_study(study, folder)
    (folder / "squares.json").unlink()
    with pytest.raises(ValueError, match=r"squares\.csv' has other columns"):
        run_study(Study("squares", squares(trace).jobs, square, COLUMNS[::-1], {"offset": 0.0}), folder)


def test_of_two_that_start_at_once_with_other_settings_one_is_refused(trace, folder):
    one, other = runner._Results(squares(trace), folder), runner._Results(squares(trace, offset=1.0), folder)
    one.gather()
    with pytest.raises(ValueError, match="other settings"):
        other.gather()


DAMAGES = [
    (lambda text: "", "values to unpack"),
    (lambda text: text[:-3], "cut off"),
    (lambda text: text[: text.rindex(",")] + "\n", "has 4 cells under 5 names"),
    (lambda text: text.replace("yes,", "yes,1,"), "has 6 cells under 5 names"),
    (lambda text: text.replace("\n2,", '\n"2,'), "unexpected end of data"),
    (lambda text: text + "\0" * 100, "has 1 cells"),
    (lambda text: text[:-1] + "\xff\n", "utf-8"),
]


@pytest.mark.parametrize("what", ["squares.csv", "squares.parts"])
@pytest.mark.parametrize("damage, words", DAMAGES)
def test_a_damaged_file_is_named_and_left_as_it_is(trace, folder, damage, words, what):
    study = squares(trace, n=3)
    run_here(study, folder)
    path = folder / what if what.endswith("csv") else runner._Results(study, folder).part(study.jobs[2])
    path.write_text(damage(path.read_text()), encoding="latin-1")
    before = path.read_bytes(), (folder / "squares.csv").read_bytes()
    for read in (lambda: read_results(path), lambda: run_here(squares(trace, n=4), folder)):
        with pytest.raises(ValueError) as caught:
            read()
        assert f"'{path}' is damaged: " in str(caught.value) and words in str(caught.value)
    assert (path.read_bytes(), (folder / "squares.csv").read_bytes()) == before
    path.unlink()
    assert len(run_here(study, folder)) == 3


def test_damaged_notes_are_named(trace, folder):
    run_here(squares(trace, n=2), folder)
    for content in ("", "[]", '{"settings": {}}', "\xff"):
        (folder / "squares.json").write_text(content, encoding="latin-1")
        with pytest.raises(ValueError, match=r"squares\.json' is damaged"):
            run_study(squares(trace), folder)


def test_there_is_a_worker_at_least(trace, folder):
    with pytest.raises(ValueError, match="`n_workers` must be at least 1; got 0"):
        run_study(squares(trace), folder, 0)


def test_pandas_is_an_extra(monkeypatch, trace, folder):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match=r"need pandas: pip install 'sparse_pep\[tables\]'"):
        run_here(squares(trace), folder)
    assert not calls(trace)  # known before the first job


# ---- rows, seeds, notes, progress ------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1), st.booleans()), min_size=1))
def test_results_are_read_back_to_the_last_bit(tmp_path_factory, values):
    study = Study("a", [{"x": 0}], square, ("x", "u", "v", "w"))
    results = runner._Results(study, tmp_path_factory.mktemp("bits"))
    results.add(study.jobs[0], [dict(zip("uvw", row)) for row in values])
    found = results.gather()
    for name, column in zip("uvw", zip(*values)):
        assert list(map(repr, found[name].tolist())) == list(map(repr, column))


def test_text_and_missing_cells_are_read_back(tmp_path):
    study = Study("a", [{"x": 0}], square, ("x", "u", "v"))
    results = runner._Results(study, tmp_path)
    texts = ["yacht", "a,b", 'a "b"', "two\nlines", "é"]
    results.add(study.jobs[0], [{"u": text, "v": empty} for text in texts for empty in (None, np.nan)])
    found = results.gather()
    assert found["u"].tolist() == np.repeat(texts, 2).tolist() and found["v"].isna().all()


def test_values_of_numpy_are_those_of_python():
    values = [np.float64(0.1), np.float32(0.1), np.int64(3), np.bool_(True), np.float64("nan"), np.str_("a")]
    assert [runner._cell(value) for value in values] == ["0.1", repr(float(np.float32(0.1))), "3", "yes", "", "a"]


def test_seeds_are_those_of_every_machine():
    assert seed_of("yacht", 0, 50) == zlib.crc32(b"yacht/0/50") == 3489860221
    seeds = {seed_of(name, split, M) for name in "abc" for split in range(10) for M in (10, 20, 50)}
    assert len(seeds) == 90 and all(0 <= seed < 2**32 for seed in seeds)


def test_versions_of_later_runs_are_added(trace, folder, monkeypatch):
    run_here(squares(trace, n=2), folder)
    now = runner._versions()
    assert set(now) == {"python", "sparse_pep", "numpy", "scipy", "scikit-learn"}
    monkeypatch.setattr(runner, "_versions", lambda: now | {"numpy": "9.9"})
    run_here(squares(trace, n=3), folder)
    run_here(squares(trace, n=3), folder)
    notes = json.loads((folder / "squares.json").read_text())
    assert notes["versions"] == [now, now | {"numpy": "9.9"}]
    assert (notes["study"], notes["settings"], notes["columns"]) == ("squares", {"offset": 0.0}, list(COLUMNS))
    assert (notes["jobs"], notes["jobs_done"]) == (3, 3)


def test_the_bar_goes_by_cost_and_says_how_long(trace, folder, capsys, monkeypatch):
    def slow(job, trace, offset):
        time.sleep(0.1)
        return square(job, trace, offset)

    study = squares(trace, slow, n=3)
    costs = (study.settings, lambda job: 10.0 ** job["x"], study.local)
    with ThreadPoolExecutor(1) as executor:
        run_study(Study("squares", study.jobs[:2], slow, COLUMNS, *costs), folder, executor=executor)
        quiet = capsys.readouterr()
        assert quiet.out == quiet.err == ""
        run_study(Study("squares", study.jobs, slow, COLUMNS, *costs), folder, executor=executor, progress=True)
    out, err = capsys.readouterr()
    first, *_, last = [line for line in err.split("\r") if line.strip()]
    assert out == "" and "squares:  10% |" in first and "about ? left" in first
    assert "squares: 100% |" in last and "about 00:00 left, 3/3 jobs" in last


# ---- clusters --------------------------------------------------------------------------------------------------------


def test_a_cluster_gives_the_same_rows(trace, tmp_path):
    distributed = pytest.importorskip("distributed")
    (tmp_path / "there").mkdir()
    with distributed.LocalCluster(2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        spread = run_study(squares(tmp_path / "there"), tmp_path / "spread", scheduler=cluster.scheduler_address)
    local = run_here(squares(trace), tmp_path / "local")
    pd.testing.assert_frame_equal(local.drop(columns="seconds"), spread.drop(columns="seconds"))
    assert len(calls(tmp_path / "there")) == 8


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x"])
def test_a_scheduler_that_does_not_answer(trace, folder, address, monkeypatch):
    distributed = pytest.importorskip("distributed")
    client = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda address, timeout: client(address, timeout="0.2s"))
    with pytest.raises(ValueError, match=f"`scheduler`: no Dask scheduler answers at '{address}'"):
        run_study(squares(trace), folder, scheduler=address)


def test_dask_is_an_extra(trace, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"`scheduler` needs Dask: pip install 'sparse_pep\[distributed\]'"):
        run_study(squares(trace), folder, scheduler="tcp://127.0.0.1:1")
