"""Batches: sums, sites, estimates and gradients of a partition are those of all data; training
ends where it would.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from conftest import value_error
from laws.adapter import ended
from laws.problems import BLOCKS, PROBLEMS, N, X
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from reference.compare import error
from sklearn.base import clone

from sparse_pep.data.sources import Source
from sparse_pep.datasets import banana_like
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.shard import start_sites
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Probit, StudentT
from sparse_pep.means import LinearMean
from sparse_pep.model import Model, evidence_and_gradient, from_vector, model_evidence
from sparse_pep.streaming import summarise_posterior
from sparse_pep.training import LBFGS, Adam, TrainingOptions, run, stochastic, train
from sparse_pep.training.stochastic import (
    AdamDirections,
    Batches,
    CachedSiteSums,
    batch_of,
    check_convergence,
    cosine_schedule,
    posteriors_with,
    random_batches,
    step_lengths,
    visit,
)

JITTER = 1e-8
rng = default_rng(5)
ROWS = np.array_split(rng.permutation(N), 3)  # of 7, 7 and 6: not all alike
CASES = [name for name, problem in PROBLEMS.items() if problem.gaussian or not problem.tight]


class Case:
    """A problem of the table, cut into batches; its blocks stay together. `earlier`: with a
    memory of earlier data.
    """

    def __init__(self, name, earlier=False):
        problem = PROBLEMS[name]
        self.known = problem.gaussian
        self.power = problem.common_power
        self.model = problem.model
        self.data = Rows(**problem.data)
        rows = random_batches(N, 7, default_rng(0), BLOCKS) if "blocks" in problem.data else ROWS
        self.memory = None
        if earlier:
            before = Rows(X[::2] + 0.3, problem.y[::2])
            fit = model_evidence(self.model, Problem(before, jitter=JITTER))
            self.memory = replace(
                summarise_posterior(fit.posteriors, fit.log_evidence, self.model.features),
                kept=False,
            )
        self.tight = problem.tight
        self.batches = Batches(self.model, self.problem(JITTER), rows)

    def problem(self, jitter=1e-8):
        return Problem(self.data, self.power, self.tight, jitter, self.memory)

    def exact(self):
        """The fit of all data, and its gradient."""
        problem = self.problem(JITTER)
        fit = model_evidence(self.model, problem, tol=1e-10)
        return fit, evidence_and_gradient(self.model, problem, tol=1e-10)[1]


class FixedPoint(NamedTuple):
    """A case, the fit of all its data with the gradient, and the sums of its batches there."""

    case: Case
    fit: object
    gradient: np.ndarray
    sums: list[np.ndarray]


@cache
def at_the_fixed_point(name, earlier):
    case = Case(name, earlier)
    fit, gradient = case.exact()
    batches = case.batches
    if not case.known:
        batches.sites[:] = fit.start
    for k, rows in enumerate(batches.numbers):
        batches.next = k
        shard = batches.batch(case.model).shard
        sums = start_sites(shard, None if case.known else fit.start[:, :, rows])
        batches.held.put(k, batches.held.without(k), sums)
    total = batches.held.total
    return FixedPoint(case, fit, gradient, [total.precision.copy(), total.shift.copy()])


@cache
def visited(name, earlier):
    """The estimates of log Z of all batches, the sum of their gradients, and how far their sites
    drift, after a visit of each.
    """
    case = at_the_fixed_point(name, earlier).case
    batches = case.batches
    values = []
    slopes = []
    drifts = []
    for k in range(len(batches.numbers)):
        batches.next = k
        estimate, slope = batches(case.model)
        values.append(estimate.log_evidence)
        slopes.append(slope / len(batches.numbers))
        drifts.append(np.linalg.norm(estimate.drift) / np.linalg.norm(batches.held.total.shift))
    return values, sum(slopes), drifts


PARTITIONS = [(name, False) for name in CASES]
PARTITIONS += [("gaussian, weighted outputs", True), ("probit, blocks", True)]
each_partition = pytest.mark.parametrize("name, earlier", PARTITIONS)


@each_partition
def test_sums_of_a_partition_are_those_of_all_data(name, earlier):
    case, fit, _, sums = at_the_fixed_point(name, earlier)
    batch = batch_of(case.model, replace(case.problem(JITTER), earlier=None))
    whole = start_sites(batch.shard, fit.start)
    assert error(sums[0], whole.precision) < 1e-12
    assert error(sums[1], whole.shift) < 1e-12


@each_partition
def test_gradients_of_a_partition_add_up_to_that_of_all_data(name, earlier):
    gradient = at_the_fixed_point(name, earlier).gradient
    assert error(visited(name, earlier)[1], gradient) < 3e-6


@each_partition
def test_energies_of_a_partition_average_to_that_of_all_data(name, earlier):
    case, fit, *_ = at_the_fixed_point(name, earlier)
    values, _, _ = visited(name, earlier)
    constant = 0.0 if case.memory is None else case.memory.log_constant
    assert np.mean(values) + constant == pytest.approx(fit.log_evidence, rel=1e-7, abs=1e-7)


@each_partition
def test_a_visit_at_the_fixed_point_changes_no_site(name, earlier):
    case, fit, *_ = at_the_fixed_point(name, earlier)
    assert max(visited(name, earlier)[2]) < 1e-10
    if not case.known:
        assert error(case.batches.sites, fit.start) < 2e-6


def by_batches(model, rows, **how):
    """A training by Adam with these arguments."""
    return train(model, Problem(rows, jitter=JITTER), TrainingOptions(Adam(**how)))


def student_batch(power=1.0, n=N):
    problem = PROBLEMS["student"]
    rows = Rows(X[:n], problem.y[:n])
    return batch_of(problem.model, Problem(rows, power, jitter=JITTER))


def test_what_is_no_distribution_is_turned_back_from():
    proper = np.zeros((2, 1, N))
    greedy = np.stack([np.full((1, N), -5.0), np.zeros((1, N))])
    found = []
    batch = student_batch()
    assert (
        posteriors_with(
            batch, start_sites(batch.shard, greedy), CachedSiteSums(1, (1, 5)).without(0)
        )
        is None
    )
    for sites in (greedy, proper):  # negative precisions are dropped where they do harm
        batch = student_batch()
        assert visit(batch, CachedSiteSums(1, (1, 5)), 0, sites) is not None
        found.append(batch.shard.sites.state.sites)
    assert error(*found) < 1e-12
    held = CachedSiteSums(2, (1, 5))
    held.precision[1] = -2.0 * np.eye(5)
    held.add_up()
    before = [total.copy() for total in held.total]
    assert visit(student_batch(), held, 0, proper) is None
    assert all(np.array_equal(new, old) for new, old in zip(held.total, before, strict=True))


def test_a_step_that_goes_too_far_is_shortened(monkeypatch):
    """Sites so negative that only a quarter of the way to them leaves a distribution."""
    batch = student_batch(0.0)
    held = CachedSiteSums(1, (1, 5))
    V = batch.shard.V_of(0)
    aim = np.full((1, 20), -3.0 / np.linalg.eigvalsh(V @ V.T)[-1])
    monkeypatch.setattr(
        "sparse_pep.inference.row_sites.new_site", lambda *arguments: (aim, np.ones((1, 20)))
    )
    assert visit(batch, held, 0, np.zeros((2, 1, 20))) is not None
    assert error(batch.shard.sites.state.sites[0], 0.25 * aim) < 1e-12
    assert error(held.total.precision[0], V * (0.25 * aim[0]) @ V.T) < 1e-12


@pytest.mark.parametrize("broken", ["visit", "batch_gradient"])
def test_a_failed_visit_or_gradient_moves_nothing_and_is_counted(broken, monkeypatch):
    start = PROBLEMS["probit"].model
    data = Rows(**PROBLEMS["probit"].data)
    working = getattr(stochastic, broken)
    answer = None if broken == "visit" else np.full(10, np.nan)
    now_and_then = mock.Mock(
        side_effect=lambda *arguments: (
            answer if now_and_then.call_count % 2 else working(*arguments)
        )
    )
    monkeypatch.setattr(stochastic, broken, now_and_then)
    result = by_batches(start, data, batch_size=N, n_epochs=4)
    # six visits, two of them before
    assert result.counts["n_rejected"] == 3
    assert result.counts["n_evaluations"] == 2
    assert np.isfinite(result.log_evidence)
    monkeypatch.setattr(stochastic, broken, lambda *arguments: answer)
    result = by_batches(start, data, batch_size=8, n_epochs=1)
    assert result.counts["n_evaluations"] == 0
    assert np.all(np.isnan(result.history))
    assert_array_equal(result.model.theta, start.theta)


def test_adam_is_as_published():
    gradients = rng.normal(size=(6, 3))
    adam = AdamDirections(3)
    first = np.zeros(3)
    second = np.zeros(3)
    for t, g in enumerate(gradients, start=1):  # algorithm 1 of the paper, line by line
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g**2
        expected = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        assert error(adam(g), expected) < 1e-12


def test_inducing_inputs_move_in_units_of_the_inputs_and_the_rate_falls_to_nothing():
    wide = X * [1.0, 100.0]
    model = Model(
        SquaredExponential(),
        InducingPoints(wide[:3]),
        StudentT(4.0, 0.2),
        LinearMean(0.0, [0.0, 0.0]),
    )
    units = from_vector(step_lengths(model.parameters(), wide), model.parameters())
    assert_allclose(units.pop("features.Z"), np.tile(wide.std(axis=0), (3, 1)))
    assert all(np.all(unit == 1.0) for unit in units.values())
    assert cosine_schedule(0.0) == 1.0
    assert cosine_schedule(0.5) == pytest.approx(0.5)
    assert cosine_schedule(1.0) == pytest.approx(0.0, abs=1e-15)


MANY_X, MANY_Y = banana_like(300, seed=1)
MANY_Y = np.where(default_rng(3).uniform(size=300) < 0.1, -1, 1) * MANY_Y.astype(float)
MANY = Rows(MANY_X, MANY_Y)
START = Model(SquaredExponential(2.0, np.array([1.0, 1.0])), InducingPoints(MANY_X[::25]), Probit())


@pytest.mark.parametrize("name", ["probit", "gaussian, outputs", "probit, blocks"])
def test_an_optimum_is_stayed_at(name):
    """From the end of training on all data batches lead nowhere else: their gradients have no
    bias.
    """
    case = Case(name, earlier="outputs" in name)
    problem = replace(case.problem(1e-6), tight=False)

    end = train(case.model, problem, TrainingOptions(LBFGS(tol=1e-9)))
    found, moved = (
        train(
            model,
            problem,
            TrainingOptions(Adam(batch_size=7, learning_rate=0.01, n_epochs=n_epochs)),
        )
        for model, n_epochs in ((end.model, 25), (case.model, 1))
    )
    assert moved.log_evidence < end.log_evidence - 0.5
    assert abs(found.log_evidence - end.log_evidence) < 0.05


@pytest.mark.parametrize("name", ["gaussian, outputs", "probit"])
def test_training_that_was_stopped_resumes_to_the_last_bit(name, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr("sparse_pep.training.checkpoint.RARELY", 0.0)
    case = Case(name)
    saving = Adam(batch_size=7, n_epochs=5, checkpoint=tmp_path / "file")
    counted = []

    def stop(epoch):
        counted.append(epoch.number)
        if len(counted) == 3:
            raise KeyboardInterrupt

    def trained(adam, callback=None):
        problem = replace(case.problem(), tight=False)
        return train(case.model, problem, TrainingOptions(adam, callback=callback))

    assert trained(saving, stop).message == "it was interrupted after 2 epochs"
    resumed = trained(saving, stop)
    whole = trained(Adam(batch_size=7, n_epochs=5))
    assert counted == [0, 1, 2, 2, 3, 4, 5]  # the third epoch was not saved when it was stopped
    assert_array_equal(resumed.model.theta, whole.model.theta)
    assert_array_equal(resumed.history, whole.history)
    assert resumed.log_evidence == whole.log_evidence == trained(saving).log_evidence
    for name, value in (("learning_rate", 0.1), ("n_epochs", 6)):
        with value_error("belongs to a training with other"):
            trained(clone(saving).set_params(**{name: value}))


def test_convergence_is_said_honestly(monkeypatch):
    rows = Rows(X, PROBLEMS["gaussian"].y)
    few = by_batches(PROBLEMS["gaussian, power 1"].model, rows, batch_size=10, n_epochs=2)
    assert few.fit.start is None
    assert not few.converged
    assert "too few" in few.message
    assert check_convergence(np.array([9.0] * 6 + [1.0, 3.0, 6.0, 8.0]), 10.0, 0.6) == (
        True,
        mock.ANY,
    )
    for rise, words in (
        (20.0, "gained 2.0e+01"),
        (-20.0, "lost 2.0e+01 nats per data point; a lower `learning_rate`"),
    ):
        converged, message = check_convergence(np.repeat([0.0, rise * 300], [9, 3]), 300.0, 10.0)
        assert not converged
        assert words in message
    kept = stochastic.model_evidence
    monkeypatch.setattr(
        stochastic, "model_evidence", lambda *a, **k: ended(kept(*a, **k), converged=False)
    )
    assert not by_batches(START, MANY, batch_size=100, n_epochs=8, tol=10.0).converged


def test_rows_that_have_no_numbers_are_refused():
    class Rowless(Source):
        n_dims = 2

        def pieces(self):
            yield Rows(X, np.sign(X[:, 0]))

    with value_error("draw rows by their numbers"):
        by_batches(PROBLEMS["probit"].model, Rowless())
