"""The engine of studies: killed, shared, stopped, broken and damaged, with real processes where it matters."""

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
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparse_pep.studies import runner as studies
from sparse_pep.studies.runner import (
    Results,
    Study,
    StudyStopped,
    key_of,
    read_results,
    run_study,
    seed_of,
    workers_of,
)

HERE = Path(__file__).parent
COLUMNS = ("x", "seed", "square", "converged", "seconds")


# ---- work, which other processes import from here --------------------------------------------------------------------


def square(job, trace, offset=0.0):
    """One row, after a line with the number of its process in a file of its own. A file `hold` stops jobs from 3 on."""
    with open(Path(trace) / f"call{job['x']}", "a") as file:
        file.write(f"{os.getpid()}\n")
    while job["x"] >= 3 and (Path(trace) / "hold").exists():
        time.sleep(0.01)
    time.sleep(0.005 * (job["x"] % 3))
    row = {"square": (0.1 * job["x"]) ** 2 + offset, "converged": job["x"] != 1}
    return [row | {"seconds": time.perf_counter()}]


def dying(job, trace, offset=0.0):
    """Job 3 ends its process, once the first three are written."""
    if job["x"] == 3:
        until(lambda: len(list(Path(trace).parent.glob("results/squares.parts/*.json"))) >= 3)
        os._exit(1)
    return square(job, trace, offset)


def threads_there():
    """Those of the BLAS libraries of a worker, SciPy's among them, and what its environment says."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info()}, os.environ["OMP_NUM_THREADS"]


def squares(trace, work=square, n=8, offset=0.0):
    jobs = [{"x": x, "seed": seed_of("squares", x)} for x in range(n)]
    return Study("squares", jobs, work, COLUMNS, {"offset": offset}, local={"trace": str(trace)})


def run_here(study, folder, n_workers=1):
    with ThreadPoolExecutor(n_workers) as executor:
        return run_study(study, folder, n_workers, executor=executor)


def without_seconds(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def start(folder, how):
    """A process, and a group of its own, that runs the study."""
    lines = [
        "from test_studies import *",
        f"folder = Path({str(folder)!r})",
        "if __name__ == '__main__':",
        f"    {how}",
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join(lines)],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # where the tests run in the background it is ignored
    )


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def calls(trace):
    """x → the processes that did it."""
    return {int(path.name[4:]): path.read_text().split() for path in trace.glob("call*")}


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


# ---- killed ----------------------------------------------------------------------------------------------------------


POOL = "run_study(squares(folder.parent / 'trace'), folder, 2)"


@pytest.fixture
def interrupted(folder, trace):
    """A study on two processes, of which jobs 0 to 2 are done and two are stopped in the middle; always killed."""
    (trace / "hold").touch()
    process = start(folder, POOL)
    parts = folder / "squares.parts"
    try:
        until(lambda: len(list(parts.glob("*.json"))) == 3 and {3, 4} <= set(calls(trace)))
        yield process
    finally:
        (trace / "hold").unlink(missing_ok=True)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("with_workers", [True, False])
def test_a_killed_study_resumes_and_repeats_nothing(interrupted, folder, trace, tmp_path, with_workers):
    study = squares(trace)
    results, held = Results(study, folder), study.jobs[3:5]
    workers = [int(calls(trace)[x][0]) for x in (3, 4)]
    assert [results.claim(job) for job in held] == [None, None]
    if with_workers:
        os.killpg(interrupted.pid, signal.SIGKILL)
    else:  # workers that are not even able to notice
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        interrupted.kill()
    interrupted.wait()
    assert with_workers or all(map(is_alive, workers))
    locks = [results.claim(job) for job in held]
    assert all(locks)  # gone with the process
    for lock in locks:
        lock.release()
    if not with_workers:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
    until(lambda: not any(map(is_alive, workers)), 10.0)  # although their jobs would last for ever

    with pytest.raises(ValueError, match="other settings"):
        Results(squares(trace, offset=1.0), folder)
    (trace / "hold").unlink()
    rows = run_here(study, folder)
    assert {x: len(pids) for x, pids in calls(trace).items()} == {x: 2 if x in (3, 4) else 1 for x in range(8)}
    (tmp_path / "other").mkdir()
    assert without_seconds(rows) == without_seconds(run_here(squares(tmp_path / "other"), tmp_path / "uninterrupted"))
    notes = [json.loads((tmp_path / name / "squares.json").read_text()) for name in ("results", "uninterrupted")]
    assert notes[0] == notes[1] and notes[0]["jobs_done"] == 8 and len(notes[0]["versions"]) == 1
    assert not list(results.parts.iterdir())


def test_stopping_ends_the_workers_and_gathers_what_is_done(interrupted, folder, trace):
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does
    errors = interrupted.communicate(timeout=20)[1]  # jobs 3 and 4 would last for ever
    assert interrupted.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")  # none of the workers
    assert [row["x"] for row in read_results(folder / "squares.csv")] == [0, 1, 2]
    assert json.loads((folder / "squares.json").read_text())["jobs_done"] == 3
    (trace / "hold").unlink()
    assert len(run_here(squares(trace), folder)) == 8
    assert [len(calls(trace)[x]) for x in range(3)] == [1, 1, 1]


def test_killed_between_the_table_and_its_parts(trace, folder):
    study = squares(trace, n=3)
    results = Results(study, folder)
    for job in study.jobs[:2]:
        results.add(job, square(job, trace))
    parts = {path: path.read_bytes() for path in results.parts.glob("*.json")}
    results.gather()
    for path, content in parts.items():
        path.write_bytes(content)
    assert [row["x"] for row in run_here(study, folder)] == [0, 1, 2]
    assert len(calls(trace)[0]) == 1 and not list(results.parts.iterdir())


# ---- shared ----------------------------------------------------------------------------------------------------------


def test_two_processes_share_a_folder(folder, trace):
    how = "(folder.parent / f'ready{os.getpid()}').touch(); until((folder.parent / 'go').exists); "
    how += "run_here(squares(folder.parent / 'trace', n=40), folder)"
    processes = [start(folder, how) for _ in range(2)]
    try:
        until(lambda: len(list(folder.parent.glob("ready*"))) == 2)
        (folder.parent / "go").touch()
        errors = [process.communicate(timeout=30)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert errors == ["", ""] and [process.returncode for process in processes] == [0, 0]
    done = calls(trace)
    assert sorted(done) == list(range(40)) and all(len(pids) == 1 for pids in done.values())
    assert len({pids[0] for pids in done.values()}) == 2  # neither did all
    assert [row["x"] for row in read_results(folder / "squares.csv")] == list(range(40))
    assert not list((folder / "squares.parts").iterdir())


def test_what_another_one_holds_is_tried_again_at_the_end(trace, folder):
    study = squares(trace, n=3)
    lock = Results(study, folder).claim(study.jobs[0])
    assert [row["x"] for row in run_here(study, folder)] == [1, 2]
    pairs = studies.claimed(Results(squares(trace, n=5), folder))
    first = next(pairs)
    assert first[0]["x"] == 3
    lock.release()  # its holder was killed
    rest = list(pairs)
    assert [job["x"] for job, _ in rest] == [4, 0]
    for _, held in [first, *rest]:
        held.release()


def test_a_job_done_meanwhile_is_not_claimed(trace, folder):
    study = squares(trace, n=2)
    one, other = Results(study, folder), Results(study, folder)
    one.add(study.jobs[0], square(study.jobs[0], trace))
    assert other.claim(study.jobs[0]) is None  # a part
    one.gather()
    assert other.claim(study.jobs[0]) is None  # in the table
    other.claim(study.jobs[1]).release()


def test_gathering_again_and_again_loses_nothing(trace, folder):
    study, errors = squares(trace, n=60), []
    results = Results(study, folder)
    end = threading.Event()

    def keep(what):
        try:
            while not end.is_set():
                what()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=keep, args=(what,)) for what in (results.gather, results.gather, results.rows)]
    for thread in threads:
        thread.start()
    for job in study.jobs:
        results.add(job, [{"square": job["x"] ** 2}])
    end.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [row["square"] for row in results.gather()] == [x**2 for x in range(60)]


def test_a_part_that_is_gathered_while_it_is_read(trace, folder, monkeypatch):
    study = squares(trace, n=2)
    results, read = Results(study, folder), studies.read_json
    results.add(study.jobs[0], [{"square": 0.0}])

    def gather_first(path, *names):
        if "key" in names:
            monkeypatch.setattr(studies, "read_json", read)
            Results(study, folder).gather()
        return read(path, *names)

    monkeypatch.setattr(studies, "read_json", gather_first)
    assert list(results.rows()) == [key_of(study.jobs[0])]


def test_the_end_of_a_small_grid_leaves_a_larger_one_alone(trace, folder, monkeypatch):
    small, large = squares(trace, n=2), squares(trace, n=5)
    one, other = Results(small, folder), Results(large, folder)
    for job in small.jobs:
        one.claim(job).release()
        one.add(job, [{"square": 0.0}])
    (one.parts / f".{one.part(small.jobs[0]).name}.x.part").touch()  # killed while writing
    unfinished = other.parts / f".{other.part(large.jobs[3]).name}.x.part"
    unfinished.touch()
    other.add(large.jobs[2], [{"square": 4.0}])
    lock, rows = other.claim(large.jobs[3]), Results.rows

    def rows_then_one_more(results):
        found = rows(results)
        other.add(large.jobs[4], [{"square": 16.0}])
        return found

    monkeypatch.setattr(Results, "rows", rows_then_one_more)
    assert [row["x"] for row in one.gather()] == [0, 1, 2]
    monkeypatch.undo()
    assert other.claim(large.jobs[3]) is None and unfinished.exists()
    assert {path.name for path in other.parts.iterdir()} == {
        other.part(large.jobs[4]).name,
        unfinished.name,
        other.part(large.jobs[3]).with_suffix(".lock").name,
    }
    lock.release()
    assert [row["x"] for row in other.gather()] == [0, 1, 2, 4]


def test_jobs_of_an_earlier_grid_stay_behind_those_of_this_one(trace, folder):
    run_here(squares(trace, n=3), folder)
    later = squares(trace, n=4)
    later = Study("squares", later.jobs[:1:-1], square, COLUMNS, {"offset": 0.0}, local=later.local)
    assert [row["x"] for row in run_here(later, folder)] == [3, 2, 0, 1]
    assert json.loads((folder / "squares.json").read_text())["jobs_done"] == 2


# ---- errors of jobs and workers --------------------------------------------------------------------------------------


def test_a_worker_that_dies_is_one_line_and_costs_nothing_that_is_done(trace, folder):
    with pytest.raises(StudyStopped) as caught:
        run_study(squares(trace, dying), folder, 2)
    message = str(caught.value)
    assert "\n" not in message and message.startswith("squares: ") and "worker process, which died" in message
    assert "What is done is kept" in message
    kept = [row["x"] for row in read_results(folder / "squares.csv")]
    assert {0, 1, 2} <= set(kept) and 3 not in kept
    rows = run_here(squares(trace), folder)
    assert [row["x"] for row in rows] == list(range(8))
    assert all(len(calls(trace)[x]) == 1 for x in kept)


def test_what_ended_beside_a_broken_job_is_kept(trace, folder):
    study = squares(trace, n=4)
    results, done = Results(study, folder), []
    futures = [Future() for _ in range(4)]
    futures[0].set_exception(TypeError("no\nnumber"))
    futures[1].set_result([{"square": 1.0}])
    futures[2].set_exception(np.linalg.LinAlgError("not\npositive"))
    futures[3].set_result([{"square": 9.0}])
    with pytest.raises(StudyStopped, match=r"^squares: 0/\d+ ended with TypeError: no number\. What is done") as caught:
        studies.write_down(results, dict(zip(futures, study.jobs)), done.append)
    assert isinstance(caught.value.__cause__, TypeError)
    assert done == [study.jobs[1], study.jobs[3]] and len(results.gather()) == 2
    good = dict(zip(futures[1:], study.jobs[1:]))
    assert studies.write_down(results, good, done.append) == [f"2/{study.jobs[2]['seed']}: not positive"]


def test_after_a_stop_the_same_process_can_go_on(trace, folder):
    class Strange(Exception):
        pass

    def wrong(job, trace, offset):
        raise Strange(f"job {job['x']}")

    with pytest.raises(StudyStopped) as kept:  # holds the frames, and with them every lock that was not released
        run_here(squares(trace, wrong), folder, 2)
    assert "Strange" in str(kept.value)
    assert len(run_here(squares(trace), folder)) == 8


def test_a_broken_pool_lets_go_of_its_locks(trace, folder):
    study = squares(trace, n=3)
    with ThreadPoolExecutor(1) as executor:
        pass  # shut down: every submission raises a RuntimeError
    with pytest.raises(StudyStopped) as kept:
        run_study(study, folder, 2, executor=executor)
    assert kept.value.__cause__
    assert len(run_here(study, folder)) == 3


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
    assert [row["x"] for row in rows] == [0, 2]
    assert [row["x"] for row in run_here(squares(trace, n=3), folder)] == [0, 1, 2]
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
        assert run_here(squares(trace, lambda job, trace, offset: rows, n=1), folder) == []


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "jobs, words",
    [
        ([], "is empty"),
        ([{"x": 1}, {"y": 1}], "same names"),
        ([{"x": 1}, {"x": 2, "y": 1}], "same names"),
        ([{"x": 1, "y": 2}, {"y": 1, "x": 2}], "same names"),
        ([{"z": 1}], "all of them columns"),
        ([{"x": 1}, {"x": 2}, {"x": 1}], "same job twice"),
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
        with pytest.raises(ValueError, match=r"squares\.json' has results of other settings.*name another folder"):
            run_study(study, folder)
    (folder / "squares.json").unlink()
    with pytest.raises(ValueError, match=r"squares\.csv' has other columns"):
        run_study(Study("squares", squares(trace).jobs, square, COLUMNS[::-1], {"offset": 0.0}), folder)


def test_settings_are_known_before_the_first_job(trace, folder):
    """Two that start at once on an empty folder: one of them is refused."""
    one, other = Results(squares(trace), folder), Results(squares(trace, offset=1.0), folder)
    one.gather()
    with pytest.raises(ValueError, match="other settings"):
        other.gather()

    def asks(job, trace, offset):
        with pytest.raises(ValueError, match="other settings"):
            Results(squares(trace, offset=1.0), folder / "new")
        return square(job, trace, offset)

    assert len(run_here(squares(trace, asks, n=1), folder / "new")) == 1


@pytest.mark.parametrize("content", ["", '{"key": ["0"', "null", "{}", '{"key": ["0", "1"]}', "\xff"])
def test_a_torn_part_is_named(trace, folder, content):
    study = squares(trace)
    results = Results(study, folder)
    path = results.part(study.jobs[0])
    path.write_text(content, encoding="latin-1")
    with pytest.raises(ValueError) as caught:
        run_study(study, folder)
    assert f"'{path}' is damaged; remove it" in str(caught.value)
    path.unlink()
    assert len(run_here(study, folder)) == 8


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda text: "", "no table"),
        (lambda text: text[:-3], "cut off"),
        (lambda text: text[: text.rindex(",")] + "\n", "row 3 has 4 cells under 5 names"),
        (lambda text: text.replace("no,", "no,1,"), "row 2 has 6 cells under 5 names"),
        (lambda text: text.replace("\n2,", '\n"2,'), "no table"),
        (lambda text: text + "\0" * 100, "row 4 has 1 cells"),
        (lambda text: text[:-1] + "\xff\n", "no table"),
    ],
)
def test_a_damaged_table_is_named_and_left_as_it_is(trace, folder, damage, words):
    run_here(squares(trace, n=3), folder)
    path = folder / "squares.csv"
    path.write_text(damage(path.read_text()), encoding="latin-1")
    before = path.read_bytes()
    for read in (lambda: read_results(path), lambda: run_study(squares(trace, n=4), folder)):
        with pytest.raises(ValueError) as caught:
            read()
        assert f"'{path}' is damaged" in str(caught.value) and words in str(caught.value)
    assert path.read_bytes() == before


def test_damaged_notes_are_named(trace, folder):
    run_here(squares(trace, n=2), folder)
    for content in ("", "[]", '{"settings": {}}'):
        (folder / "squares.json").write_text(content)
        with pytest.raises(ValueError, match=r"squares\.json' is damaged"):
            run_study(squares(trace), folder)


def test_there_is_a_worker_at_least(trace, folder):
    with pytest.raises(ValueError, match="`n_workers` must be at least 1; got 0"):
        run_study(squares(trace), folder, 0)


# ---- rows, seeds, notes ----------------------------------------------------------------------------------------------


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.sampled_from(["yacht", "a,b", 'a "b"', "two\nlines", "é"]),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3))
def test_results_are_read_back_to_the_last_bit(tmp_path_factory, pairs):
    study = Study("a", [{"x": 0}], square, ("x", "u", "v"))
    results = Results(study, tmp_path_factory.mktemp("bits"))
    results.add(study.jobs[0], [{"u": u, "v": v} for u, v in pairs])
    found = results.gather()
    expected = [{"x": 0, "u": u, "v": v} for u, v in pairs]
    assert [[(type(value), repr(value)) for value in row.values()] for row in found] == [
        [(type(value), repr(value)) for value in row.values()] for row in expected
    ]


def test_values_of_numpy_are_those_of_python():
    values = [np.float64(0.1), np.float32(0.1), np.int64(3), np.bool_(True), np.float64("nan"), np.str_("a")]
    assert [studies.cell_of(value) for value in values] == ["0.1", repr(float(np.float32(0.1))), "3", "yes", "", "a"]


def test_seeds_are_those_of_every_machine():
    assert seed_of("yacht", 0, 50) == zlib.crc32(b"yacht/0/50") == 3489860221
    seeds = {seed_of(name, split, M) for name in "abc" for split in range(10) for M in (10, 20, 50)}
    assert len(seeds) == 90 and all(0 <= seed < 2**32 for seed in seeds)


def test_versions_of_later_runs_are_added(trace, folder, monkeypatch):
    run_here(squares(trace, n=2), folder)
    now = studies.versions()
    assert set(now) == {"python", "sparse_pep", "numpy", "scipy", "scikit-learn"}
    monkeypatch.setattr(studies, "versions", lambda: now | {"numpy": "9.9"})
    run_here(squares(trace, n=3), folder)
    run_here(squares(trace, n=3), folder)
    notes = json.loads((folder / "squares.json").read_text())
    assert notes["versions"] == [now, now | {"numpy": "9.9"}]
    assert (notes["study"], notes["settings"], notes["columns"]) == ("squares", {"offset": 0.0}, list(COLUMNS))
    assert (notes["jobs"], notes["jobs_done"]) == (3, 3)


def test_the_bar_goes_by_cost_and_says_how_long(trace, folder, capsys):
    def slow(job, trace, offset):
        time.sleep(0.2)
        return square(job, trace, offset)

    study = squares(trace, slow, n=3)
    study = Study("squares", study.jobs, slow, COLUMNS, study.settings, lambda job: 10.0 ** job["x"], study.local)
    with ThreadPoolExecutor(1) as executor:
        run_study(
            Study("squares", study.jobs[:2], slow, COLUMNS, study.settings, local=study.local),
            folder,
            executor=executor,
        )
        quiet = capsys.readouterr()
        assert quiet.out == quiet.err == ""
        run_study(study, folder, executor=executor, progress=True)
    out, err = capsys.readouterr()
    first, *_, last = [line for line in err.split("\r") if line.strip()]
    assert out == "" and "squares:  10% |" in first and "about ? left" in first
    assert "squares: 100% |" in last and "about 00:00 left, 3/3 jobs" in last


# ---- workers ---------------------------------------------------------------------------------------------------------


def test_workers_have_one_thread_each_and_one_has_all(monkeypatch):
    for name in studies.THREADS:
        monkeypatch.setenv(name, "2")
    with workers_of(2) as (executor, count):
        assert count == 2 and executor.submit(threads_there).result() == ({1}, "1")
    with workers_of(1) as (executor, count):
        assert count == 1 and executor.submit(threads_there).result()[1] == "2"
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_as_many_workers_as_cores(monkeypatch):
    monkeypatch.setattr(studies, "n_cores", lambda: 3)
    with workers_of() as (_, count):
        assert count == 3
    monkeypatch.undo()
    assert 1 <= studies.n_cores() <= os.cpu_count()


def test_a_cluster_and_local_processes_give_the_same_rows(trace, tmp_path):
    distributed = pytest.importorskip("distributed")
    local = run_study(squares(trace), tmp_path / "local", 2)
    (tmp_path / "there").mkdir()
    study = squares(tmp_path / "there")
    with distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        spread = run_study(study, tmp_path / "spread", scheduler=cluster.scheduler_address)
    assert without_seconds(local) == without_seconds(spread) and len(spread) == 8
    pids = [{pid for pids in calls(where).values() for pid in pids} for where in (trace, tmp_path / "there")]
    assert not pids[0] & pids[1] and str(os.getpid()) not in pids[0] | pids[1]


def test_a_scheduler_that_does_not_answer(trace, folder):
    pytest.importorskip("distributed")
    start_time = time.monotonic()
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(ValueError, match=f"`scheduler`: no Dask scheduler answers at '{address}'"):
            run_study(squares(trace), folder, scheduler=address)
    assert time.monotonic() - start_time < 15.0


def test_dask_is_an_extra(trace, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"`scheduler` needs Dask: pip install 'sparse_pep\[distributed\]'"):
        run_study(squares(trace), folder, scheduler="tcp://127.0.0.1:1")
