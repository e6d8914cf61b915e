"""Training that is stopped at any moment, by any signal, goes on and ends where it would have
ended.
"""

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from conftest import value_error
from numpy.testing import assert_array_equal, assert_equal

from sparse_pep import SparsePEPRegressor, load
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import Constant, Linear, Matern32, SquaredExponential
from sparse_pep.likelihoods import Gaussian, Poisson, Probit
from sparse_pep.model import Model, evidence_and_gradient, model_gradient
from sparse_pep.numerics.files import read_archive
from sparse_pep.priors import LogNormal
from sparse_pep.streaming import summarise_posterior
from sparse_pep.training import LBFGS, TrainingOptions, train
from sparse_pep.training.checkpoint import CachedEvaluation, Checkpoint

rng = np.random.default_rng(6)
X = rng.uniform(0, 5, (80, 2))
y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=80)
BLOCKS = np.arange(80) // 5
TARGETS = {"gaussian": y, "probit": np.sign(y), "poisson": np.round(np.exp(y))}


class Killed(BaseException):
    """Not an error that anything may catch."""


def start(likelihood):
    return Model(SquaredExponential(1.0, np.ones(2)), InducingPoints(X[:6]), likelihood)


def earlier():
    """What is left of other data."""
    model = start(Gaussian(0.1))
    fit, _ = model_gradient(model, Problem(Rows(X[::2] + 0.1, y[::2])))
    return summarise_posterior(fit.posteriors, fit.log_evidence, model.features)


def counted(limit, calls):
    """`evidence_and_gradient`, noting its calls in `calls`; killed once there have been `limit`
    of them.
    """

    def mortal(*arguments, **named):
        if len(calls) == limit:
            raise Killed
        calls.append(0)
        return evidence_and_gradient(*arguments, **named)

    return mortal


LIMITS = {"max_iter": 8, "n_restarts": 1}
LIKELIHOODS = {"gaussian": Gaussian(0.1), "probit": Probit(), "poisson": Poisson()}


@pytest.fixture(autouse=True)
def saved_at_once(monkeypatch):
    """Every evaluation is saved."""
    monkeypatch.setattr("sparse_pep.training.run.SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr("sparse_pep.training.checkpoint.RARELY", 0.0)


def trained(name, in_blocks=False, **more):
    """A training of this likelihood."""
    rows = Rows(X, TARGETS[name], blocks=BLOCKS if in_blocks else None)
    options = TrainingOptions(LBFGS(**LIMITS | more))
    return train(start(LIKELIHOODS[name]), Problem(rows, jitter=1e-8), options)


uninterrupted = cache(trained)


# the first evaluation, the first run, and the second one
@pytest.mark.parametrize("after", [1, 7, 17])
@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("in_blocks", [False, True], ids=["single", "blocks"])
def test_killed_after_any_evaluation_it_ends_the_same(
    name, in_blocks, after, tmp_path, monkeypatch
):
    path = tmp_path / "c.npz"
    whole = uninterrupted(name, in_blocks)
    before = []
    later = []
    monkeypatch.setattr("sparse_pep.training.lbfgs.evidence_and_gradient", counted(after, before))
    with pytest.raises(Killed):
        trained(name, in_blocks, checkpoint=path)
    owner = read_archive(path, "sparse_pep checkpoint", 1)["owner"]
    held = len(Checkpoint(path, owner).evaluations)
    assert 1 <= held <= after == len(before)
    monkeypatch.setattr("sparse_pep.training.lbfgs.evidence_and_gradient", counted(None, later))
    resumed = trained(name, in_blocks, checkpoint=path)
    assert_array_equal(resumed.model.theta, whole.model.theta)
    for field in ("log_evidence", "n_iter", "message", "counts"):
        assert getattr(resumed, field) == getattr(whole, field), field
    assert np.array_equal(resumed.history, whole.history)
    assert np.array_equal(resumed.fit.start, whole.fit.start)
    assert (whole.fit.start is None) == (name == "gaussian")
    assert (
        len(later) == len(Checkpoint(path, owner).evaluations) - held
    )  # nothing is computed twice


def test_a_finished_training_is_answered_from_the_file_and_may_go_further(tmp_path, monkeypatch):
    calls = []
    ask = partial(trained, "probit", n_restarts=0, checkpoint=tmp_path / "c.npz")
    first = ask(max_iter=4)
    monkeypatch.setattr("sparse_pep.training.lbfgs.evidence_and_gradient", counted(None, calls))
    again = ask(max_iter=4)
    assert not calls
    assert again.log_evidence == first.log_evidence
    assert isinstance(again.fit, CachedEvaluation)
    further = ask(max_iter=8)
    assert calls
    assert further.log_evidence > first.log_evidence
    whole = trained("probit", n_restarts=0, max_iter=8)
    assert_array_equal(further.model.theta, whole.model.theta)


OWNER = replace(start(Gaussian(0.1)), kernel=Constant(1.0) + Linear(1.0))
ROWS = Rows(X, y)
OTHERS = {  # than the model, the problem and what is fixed in the training that wrote a checkpoint
    "inputs": {"rows": Rows(X + 1e-9, y)},
    "targets": {"rows": Rows(X, y[::-1].copy())},
    "power": {"power": 0.4},
    "jitter": {"jitter": 1e-7},
    "fixed": {"fixed": ["features.Z"]},
    "weights": {"rows": Rows(X, y, weight=np.full(80, 2.0))},
    "weight": {"rows": Rows(X, y, weight=2.0)},
    "known variance": {"rows": Rows(X, y, known_variance=np.full(80, 2.0))},
    "powers": {"rows": Rows(X, y, power=np.full(80, 0.4))},
    "blocks": {"rows": Rows(X, y, blocks=BLOCKS)},
    "earlier data": {"earlier": earlier()},
    "tight": {"tight": True},
    "priors": {"model": replace(OWNER, priors={"log_noise_variance": LogNormal(0.2, 1.0)})},
    "likelihood": {"model": replace(OWNER, likelihood=Gaussian(0.2))},
    "kernel": {"model": replace(OWNER, kernel=Matern32(1.0, np.ones(2)))},
    "parameters with the same names": {"model": replace(OWNER, kernel=Linear(1.0) + Constant(1.0))},
    "columns": {"model": replace(OWNER, kernel=Constant(1.0) + Linear(1.0, active_dims=[0]))},
}


def train_owner(checkpoint, model=OWNER, fixed=(), rows=ROWS, jitter=1e-8, **how):
    """A short training with this checkpoint."""
    options = TrainingOptions(LBFGS(max_iter=2, checkpoint=checkpoint), fixed=fixed)
    return train(model, Problem(rows, jitter=jitter, **how), options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The checkpoint of a training that has ended."""
    path = tmp_path_factory.mktemp("finished") / "c.npz"
    train_owner(path)
    return path


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_a_checkpoint_of_another_training_is_refused(other, finished):
    before = finished.read_bytes()
    with value_error("other data or arguments.*delete it, or name another file"):
        train_owner(finished, **other)
    assert finished.read_bytes() == before


def test_a_file_that_is_no_checkpoint_is_refused_and_left_alone(tmp_path):
    SparsePEPRegressor(training=None, n_inducing=3).fit(X, y).save(tmp_path / "model.npz")
    with value_error("is not a sparse_pep checkpoint file"):
        SparsePEPRegressor(
            training=LBFGS(checkpoint=tmp_path / "model.npz"), n_inducing=3, random_state=0
        ).fit(X, y)
    assert load(tmp_path / "model.npz").n_features_in_ == 2


def test_failed_evaluations_are_remembered_as_failed(tmp_path, monkeypatch):
    calls = []

    def fragile(*arguments, **named):
        calls.append(0)
        if len(calls) == 4:
            raise np.linalg.LinAlgError("no")
        return evidence_and_gradient(*arguments, **named)

    monkeypatch.setattr("sparse_pep.training.lbfgs.evidence_and_gradient", fragile)
    options = TrainingOptions(LBFGS(max_iter=10, checkpoint=tmp_path / "c.npz"))
    ask = partial(train, start(Gaussian(0.1)), Problem(ROWS, jitter=1e-8), options)
    first = ask()
    assert first.counts["n_rejected"] == 1
    monkeypatch.setattr(
        "sparse_pep.training.lbfgs.evidence_and_gradient",
        lambda *a, **k: pytest.fail("computed again"),
    )
    again = ask()
    assert (again.counts, again.log_evidence) == (first.counts, first.log_evidence)


def test_saving_waits_for_its_time_and_for_ten_times_what_a_save_takes(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("sparse_pep.training.checkpoint.time.monotonic", lambda: now[0])
    record = Checkpoint(tmp_path / "c.npz", "me", every=5.0)
    saved = []
    monkeypatch.setattr(
        record, "save", lambda: saved.append(now[0]) or setattr(record, "saved", now[0])
    )

    def add_every_second(start, end):
        for second in range(start, end):
            now[0] = float(second)
            record.add(CachedEvaluation("q", 0.0, np.zeros(1)))

    add_every_second(0, 13)
    assert saved == [5.0, 10.0]
    monkeypatch.setattr("sparse_pep.training.checkpoint.RARELY", 10.0)
    record.pause = 2.0
    add_every_second(13, 40)
    assert saved == [5.0, 10.0, 30.0]


def test_the_second_of_two_writers_says_so_and_leaves_the_file(tmp_path, recwarn):
    first, second = (Checkpoint(tmp_path / "c.npz", "me", every=0.0) for _ in range(2))
    first.add(CachedEvaluation("q", 1.0, np.zeros(1)))
    assert not recwarn.list
    for _ in range(2):  # said once
        second.add(CachedEvaluation("q", 2.0, np.zeros(1)))
    assert [str(one.message).split(": ")[1] for one in recwarn] == [
        "another process writes it too. Training goes on without it, and the next save tries again."
    ]
    assert Checkpoint(tmp_path / "c.npz", "me").evaluations[0].log_evidence == 1.0
    first.add(CachedEvaluation("q", 3.0, np.zeros(1)))
    (tmp_path / "c.npz").unlink()  # and whoever is left goes on
    second.add(CachedEvaluation("q", 4.0, np.zeros(1)))
    assert len(recwarn) == 1
    assert len(Checkpoint(tmp_path / "c.npz", "me").evaluations) == 3


KILLED = """
import os, signal
import sparse_pep.training.run as training
from sparse_pep.cli import main
from sparse_pep.training import checkpoint
training.SECONDS_BETWEEN_SAVES = checkpoint.RARELY = 0.0
saves, write = [], checkpoint.write_archive
def counted(*arguments):
    saves.append(write(*arguments))
    if len(saves) == int(os.environ.get("SAVES", 0)):
        os.kill(os.getpid(), signal.SIGKILL)
checkpoint.write_archive = counted
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_fit_killed_by_the_system_goes_on(tmp_path):
    """kill -9 in the middle, twice; the model is the one of a run left in peace."""
    inputs = np.random.default_rng(0).normal(size=(200, 4))
    labels = np.sin(3 * inputs[:, 0]) * inputs[:, 1] + 0.1 * inputs[:, 2] > 0
    table = np.column_stack([inputs, labels])
    layout = {"delimiter": ",", "header": "a,b,c,d,y", "comments": "", "fmt": "%.17g"}
    np.savetxt(tmp_path / "data.csv", table, **layout)
    line = "fit data.csv --target y --likelihood auto --inducing 8 --max-iter 30 --quiet --out "

    def run(words, saves="0"):
        env = os.environ | {"OMP_NUM_THREADS": "1", "SAVES": saves}
        words = [sys.executable, "-c", KILLED, *(line + words).split()]
        return subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True)

    assert run("whole.npz").returncode == 0
    for n_evaluations in (7, 14):
        killed = run("model.npz --checkpoint c.npz", saves="7")
        assert killed.returncode == -signal.SIGKILL
        assert not (tmp_path / "model.npz").exists()
        state = read_archive(tmp_path / "c.npz", "sparse_pep checkpoint", 1)
        assert len(state["evaluations"]) == n_evaluations
    done = run("model.npz --checkpoint c.npz --json")
    assert json.loads(done.stdout)["file"] == "model.npz"
    assert not (tmp_path / "c.npz").exists()
    ours, theirs = (load(tmp_path / name) for name in ("model.npz", "whole.npz"))
    assert_equal(ours.parameters(), theirs.parameters())
    assert_equal(ours.predict_f(inputs[:50]), theirs.predict_f(inputs[:50]))
    assert all(path.suffix == ".part" for path in tmp_path.glob(".*"))  # what a killed save leaves


@pytest.mark.parametrize("room", [False, True])
def test_a_full_disk_does_not_end_the_training(tmp_path, monkeypatch, room):
    """No checkpoint can be written: one warning. If there is room again, the next save succeeds."""
    whole = uninterrupted("gaussian", False)
    attempts = []
    fsync = os.fsync

    def full(handle):
        attempts.append(handle)
        if len(attempts) == 1 or not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "c.npz"
    with pytest.warns(
        RuntimeWarning, match="c.npz' cannot be written: No space left on device"
    ) as said:
        found = trained("gaussian", checkpoint=path)
    assert found.log_evidence == whole.log_evidence
    assert len(said) == 1
    assert len(attempts) > 1
    assert [file.name for file in tmp_path.iterdir()] == (["c.npz"] if room else [])
