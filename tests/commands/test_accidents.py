"""Signals, full disks and other accidents: no file is half written, and one line says why."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from command_line import accept, run

from sparse_pep import load
from sparse_pep.cli.output import write_csv
from sparse_pep.cli.trial import estimator_for
from sparse_pep.numerics.files import atomic_write
from sparse_pep.training import lbfgs

from .conftest import TRAIN

FIT = f"fit trial.csv {TRAIN}"


@pytest.mark.parametrize(
    "error, status, kind, said",
    [
        (ValueError("first\n  second"), 2, SystemExit, "Error: first second\n"),
        (KeyboardInterrupt(), 130, SystemExit, "Stopped.\n"),
        (ZeroDivisionError(), 1, ZeroDivisionError, ""),
        (ImportError("no module"), 1, ImportError, ""),
    ],
)
def test_what_goes_wrong_within_a_command(monkeypatch, error, status, kind, said):
    """An error of several lines becomes one, a stop is no error of the user, and our own errors
    keep their traceback.
    """

    def fail(*_, **__):
        raise error

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("sparse_pep.cli.fit.fit", fail)
    result = run("fit trial.csv --target y")
    assert result.exit_code == status
    assert result.stderr.lstrip() == said
    assert isinstance(result.exception, kind)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "error, detail",
    [
        (MemoryError("Unable to allocate 47.7 MiB"), "Unable to allocate 47.7 MiB"),
        (MemoryError(), "an allocation failed"),
        (ImportError("libx.so: failed to map segment"), "libx.so: failed to map segment"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "[Errno 12] Cannot allocate memory"),
    ],
)
def test_want_of_memory_is_one_line_and_leaves_the_model(monkeypatch, trial, error, detail):
    accept(FIT)
    before = Path("model.npz").read_bytes()

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(lbfgs, "evidence_and_gradient", fail)
    result = run(FIT)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: there is not enough memory ({detail}). Free some, ")
    assert result.stderr.count("\n") == 1
    assert Path("model.npz").read_bytes() == before


def test_a_command_does_not_begin_to_load_libraries_for_which_there_is_no_memory(monkeypatch):
    """SciPy's BLAS would wait for memory for ever, while it is loaded."""
    monkeypatch.setattr("sparse_pep.cli.app.LOADED", 2**48)
    assert "there is not enough memory" in run("predict model.npz new.csv").stderr
    assert run("predict --help").exit_code == 0


@pytest.fixture
def evaluations(monkeypatch):
    """The evaluations of the evidence so far, of which the fourth is stopped by Ctrl-C."""
    calls = []
    evaluate = lbfgs.evidence_and_gradient

    def stopped(*given):
        calls.append(given)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return evaluate(*given)

    monkeypatch.setattr(lbfgs, "evidence_and_gradient", stopped)
    return calls


CHECKPOINT = "--checkpoint c.npz"


def test_ctrl_c_writes_the_best_model_so_far(trial, evaluations):
    result = run(FIT, CHECKPOINT)
    assert result.exit_code == 3
    assert "iterations: interrupted; this is the best model so far" in result.stdout
    assert "interrupted after" in result.stderr
    assert load("model.npz").diagnostics_["interrupted"]
    assert Path("c.npz").exists()


def test_the_checkpoint_of_training_that_ran_out_of_time_stays(trial):
    run(FIT, CHECKPOINT, "--tol 1e-12 --max-time 0.01")
    assert load("model.npz").diagnostics_["limit"] == "max_time"
    assert Path("c.npz").exists()
    accept(FIT, CHECKPOINT, "--tol 1e-2")
    assert not Path("c.npz").exists()


def test_the_same_command_goes_on_after_ctrl_c(trial, evaluations):
    run(FIT, CHECKPOINT)
    told = accept(FIT, CHECKPOINT).stdout
    assert not Path("c.npz").exists()
    assert len(evaluations) == 1 + load("model.npz").diagnostics_["n_evaluations"]
    assert load("model.npz").training.checkpoint is None
    assert accept(FIT).stdout == told


def test_ctrl_c_ends_a_comparison(trial, evaluations):
    assert run("compare trial.csv --target response").exit_code == 130
    assert len(evaluations) == 4


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


FAULTS = {  # function that fails, what is said
    "sparse_pep.report.fit_report": "no report was written to 'report.html'",
    "sparse_pep.cli.fit.atomic_write": "No space left",
    "sparse_pep.cli.fit.score_rows": "the held-out rows are not scored",
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_was_trained_is_saved_whatever_happens_afterwards(trial, monkeypatch, name):
    monkeypatch.setattr(name, full)
    result = run(FIT, "--test-fraction 0.2 --report report.html --quiet")
    assert result.exit_code == 0
    assert Path("model.npz").exists()
    told = [line for line in result.stderr.splitlines() if "training stopped" not in line]
    assert len(told) == 1
    assert told[0].startswith("Warning: ")
    assert FAULTS[name] in told[0]
    assert "the model is in 'model.npz'" in told[0]
    scores_failed = name.endswith("score_rows")
    assert Path("report.html").exists() is scores_failed
    assert ("report.html" in result.stdout) is scores_failed
    assert ("rows held out" in result.stdout) is not scores_failed


def test_a_model_without_room_is_named_and_the_checkpoint_stays(trial, monkeypatch):
    monkeypatch.setattr("sparse_pep.numerics.files.os.fsync", lambda handle: None)
    monkeypatch.setattr(
        "sparse_pep.estimators.persistence.write_archive", lambda path, *_: atomic_write(path, full)
    )
    result = run(FIT, "--quiet", CHECKPOINT)
    assert result.exit_code == 2
    said = "model.npz': No space left on device (what was there is unchanged; make room"
    assert said in result.stderr
    assert sorted(os.listdir()) == ["c.npz", "trial.csv"]


def test_standard_output_without_room_is_named(trial, monkeypatch):
    monkeypatch.setattr("sparse_pep.cli.fit.fit", full)
    assert run(FIT).stderr == "Error: 'standard output': No space left on device.\n"


def test_a_model_that_another_process_wrote_meanwhile_is_replaced_with_a_word(trial, monkeypatch):
    def disturbed(*given, **more):
        Path("model.npz").write_bytes(b"other")
        return estimator_for(*given, **more)

    monkeypatch.setattr("sparse_pep.cli.fit.estimator_for", disturbed)
    said = "'model.npz' was written by another process during this fit; it is replaced"
    assert said in accept(FIT, "--quiet").stderr
    assert "another process" not in accept("predict model.npz trial.csv").stderr
    assert load("model.npz").n_features_in_ == 3


def test_a_model_may_have_the_longest_name_that_a_folder_allows(trial):
    name = "m" * (os.pathconf(".", "PC_NAME_MAX") - 4) + ".npz"
    accept(FIT, "--quiet --out", name)
    assert load(name).n_features_in_ == 3


def test_a_file_is_whole_or_as_it_was_and_a_link_stays_a_link():
    def torn():
        yield pd.DataFrame({"a": [1]})
        raise RuntimeError

    Path("real").mkdir()
    Path("link.csv").symlink_to("real/there.csv")
    write_csv("link.csv", [pd.DataFrame({"a": [0.1, 1e300]})])
    with pytest.raises(RuntimeError):
        write_csv("link.csv", torn())
    assert Path("link.csv").is_symlink()
    assert Path("real/there.csv").read_text() == "a\n0.1\n1e+300\n"
    assert os.listdir("real") == ["there.csv"]


def start(line, patch=""):
    """The program in a process of its own."""
    program = f"import os, signal\n{patch}\nfrom sparse_pep.cli import main; main()"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", program, *line.split()]
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, env=env)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP")
def test_a_signal_leaves_no_partial_files(trial):
    """The program is told to end while the file beside the model is open."""
    patch = "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGTERM)"
    process = start(f"{FIT} --quiet", patch)
    _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in err
    assert os.listdir() == ["trial.csv"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP")
def test_a_signal_is_handled_as_before_afterwards(trial, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(os, "fsync", lambda handle: os.kill(os.getpid(), signal.SIGHUP))
    assert run(FIT, "--quiet").exit_code == 128 + signal.SIGHUP
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN
    assert os.listdir() == ["trial.csv"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_process_killed_between_writing_and_renaming_leaves_no_model(trial):
    patch = "os.replace = os.rename = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)"
    killed = start("fit trial.csv --target response --inducing 5 --max-iter 1 --out out", patch)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not Path("out").exists()


def test_a_process_in_a_pipe_prints_what_the_command_prints(model):
    process = start("predict model.npz - --out -")
    out, err = process.communicate(Path("trial.csv").read_bytes())
    assert process.returncode == 0
    assert err == b""
    assert out.decode() == accept("predict model.npz trial.csv --out -").stdout


def test_labels_that_standard_output_cannot_show_are_escaped():
    """The model is written by then, so the status must not say that there is none."""
    Path("words.csv").write_text("a,y\n" + "1,\u65e5\n2,\xe9\n" * 9, "utf-8")
    line = "fit words.csv --target y --likelihood auto --quiet --max-iter 1"
    process = start(line, "import sys; sys.stdout.reconfigure(encoding='latin-1')")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert b"classes \xe9, \\u65e5" in out


@pytest.mark.parametrize(
    "command, closed, status",
    [
        ("fit trial.csv --target response --inducing 3 --max-iter 1 --json", "2>&-", 0),
        ("predict model.npz trial.csv --out -", ">&-", 2),
        ("predict model.npz trial.csv --json", ">&-", 2),
        ("compare trial.csv --target response", ">&-", 2),
        ("predict model.npz trial.csv --out p.csv", ">&- 2>&-", 0),
        ("predict model.npz trial.csv --out p.csv", ">&- 2>/dev/full", 0),
        ("demo", ">&-", 2),
        ("--version", ">&-", 2),
        ("fit trial.csv --target response --inducing 3 --max-iter 1", ">/dev/full", 2),
    ],
)
def test_a_process_without_a_stream_loses_no_result_in_silence(model, command, closed, status):
    code = "from sparse_pep.cli import main; main()"
    words = f'{sys.executable} -c "{code}" {command} {closed}'
    done = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == status
    if "/dev/full" in closed and status:
        assert "printed (No space left on device), but the model is in 'model.npz'" in done.stderr
    elif status:
        assert "standard output is closed" in done.stderr
    elif "--json" in command:
        assert json.loads(done.stdout)["n_rows"] == 80
    else:
        assert len(Path("p.csv").read_text().splitlines()) == 81
