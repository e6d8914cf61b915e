"""Batches: sums, sites, estimates and gradients of a partition are those of all data; training ends where it would."""

import time
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np
import pytest
from reference.compare import error, gradient_error

from sparse_pep import stochastic
from sparse_pep.data.sources import Source
from sparse_pep.datasets import banana_like
from sparse_pep.features import InducingPoints
from sparse_pep.interdomain import GaussianBlur
from sparse_pep.kernels import Linear, Matern32, SquaredExponential
from sparse_pep.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    Logit,
    Poisson,
    Probit,
    StudentT,
)
from sparse_pep.means import ConstantMean, LinearMean
from sparse_pep.model import (
    Model,
    model_evidence,
    model_gradient,
    model_predict,
    to_vector,
)
from sparse_pep.multiclass import Softmax
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.quadrature import Accuracy
from sparse_pep.shards import Piece, Sums, projections, site_sums
from sparse_pep.stochastic import (
    Adam,
    Batches,
    HeldSums,
    batch_gradient,
    batch_of,
    decay,
    is_proper,
    posteriors_with,
    random_batches,
    rise_at_end,
    step_lengths,
    train_stochastic,
    visit,
)
from sparse_pep.streaming import Memory, remember
from sparse_pep.training import train

rng = np.random.default_rng(5)
N, JITTER = 50, 1e-8
X = rng.uniform(-2, 2, size=(N, 2))
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
SIGN = np.where(F + 0.5 * rng.normal(size=N) > 0, 1.0, -1.0)
NUMBER = F + 0.2 * rng.normal(size=N)
COUNT = rng.poisson(np.exp(F)).astype(float)
SEVERAL = np.column_stack([NUMBER, -0.5 * NUMBER + 0.1 * rng.normal(size=N)])
CLASS = (F > -0.5).astype(float) + (F > 0.5)
WEIGHT = rng.uniform(0.5, 2.0, size=N)
KNOWN = rng.uniform(0.0, 0.3, size=N)
PRIVATE = rng.uniform(0.0, 1.0, size=N)
SE, POINTS = SquaredExponential(1.5, [0.9, 1.4]), InducingPoints(X[:7] + 0.05)
LARGEST = SquaredExponential(1.2, 1.0) + Linear(0.3)
ROWS = np.array_split(rng.permutation(N), 4)  # of 13, 13, 12 and 12: not all alike
BLOCKS = np.arange(N) // 3
WHOLE = random_batches(N, 13, np.random.default_rng(0), BLOCKS)  # blocks stay together


@dataclass
class Case:
    """A model and its data."""

    model: Model
    y: np.ndarray
    power: float | np.ndarray = 0.5
    more: dict = field(default_factory=dict)
    memory: Memory | None = None
    tol: float = 1e-10

    @property
    def data(self):
        power = self.power if np.ndim(self.power) else None
        return Piece(0, X, self.y, power=power, **self.more)

    @property
    def alpha(self):
        return 0.5 if np.ndim(self.power) else self.power

    @property
    def known(self):
        return isinstance(self.model.likelihood, Gaussian)


def with_memory(model, y):
    fit = model_evidence(model, Piece(0, X[::2] + 0.3, y[::2]), 0.5, JITTER)
    return replace(remember(fit.posteriors, fit.log_evidence, model.features), kept=False)


CASES = {
    "probit, power 0": Case(Model(SE, POINTS, Probit()), SIGN, 0.0),
    "probit": Case(Model(SE, POINTS, Probit()), SIGN),
    "probit, power 1": Case(Model(SE, POINTS, Probit()), SIGN, 1.0),
    "probit, private powers": Case(Model(SE, POINTS, Probit()), SIGN, PRIVATE),
    "probit, weights": Case(Model(SE, POINTS, Probit(), ConstantMean(0.2)), SIGN, 0.5, {"weight": WEIGHT}),
    "logit, sum of kernels": Case(Model(LARGEST, POINTS, Logit()), SIGN, 1.0),
    "logit, mean": Case(Model(SE, POINTS, Logit(), ConstantMean(0.3)), SIGN),
    "poisson, linear mean": Case(Model(SE, POINTS, Poisson(), LinearMean(0.1, [0.2, -0.1])), COUNT, 0.0),
    "poisson, blurred": Case(Model(SE, GaussianBlur(X[:6], [0.3, 0.2]), Poisson()), COUNT, 0.7),
    "student": Case(Model(Matern32(1.5, 1.1), POINTS, StudentT(4.0, 0.3)), NUMBER),
    "gaussian, power 0": Case(Model(SE, POINTS, Gaussian(0.2)), NUMBER, 0.0),
    "gaussian": Case(Model(SE, POINTS, Gaussian(0.2), ConstantMean(0.1)), NUMBER),
    "gaussian, power 1": Case(Model(SE, POINTS, Gaussian(0.2)), NUMBER, 1.0),
    "gaussian, known": Case(Model(SE, POINTS, Gaussian(0.2), ConstantMean(0.2)), NUMBER, 0.5, {"weight": WEIGHT, "known_variance": KNOWN}),
    "gaussian, outputs": Case(
        Model(SE, POINTS, Gaussian(0.2), LinearMean(np.zeros(2), np.ones((2, 2)))), SEVERAL, PRIVATE
    ),
    "heteroscedastic": Case(Model(SE, POINTS, HeteroscedasticGaussian(0.3, 0.7)), NUMBER, 0.5),
    "softmax": Case(Model(SE, POINTS, Softmax(3)), CLASS, 0.5, tol=1e-8),
}
several = Model(SE, POINTS, Gaussian(0.2), ConstantMean([0.2, -0.1]))
CASES["gaussian, known outputs"] = replace(CASES["gaussian, known"], model=several, y=SEVERAL)
for name in ("probit, power 0", "probit", "gaussian, known", "gaussian, known outputs"):
    case, weight = CASES[name], np.resize([1.0, 2.0, 0.5], 17)[BLOCKS]
    more = case.more | {"blocks": BLOCKS, "weight": weight}
    CASES[name + ", blocks"] = replace(case, more=more)
for name in ("probit", "gaussian", "gaussian, outputs", "probit, blocks"):
    case = CASES[name]
    CASES[name + ", memory"] = replace(case, memory=with_memory(case.model, case.y))


def rows_of(case):
    """The rows of four batches."""
    return WHOLE if "blocks" in case.more else ROWS


def batches_at(case, fit):
    """`Batches` at the fixed point, with sums that are not out of date."""
    rows = rows_of(case)
    found = Batches(case.model, case.data, case.alpha, JITTER, case.memory, rows)
    if not case.known:
        found.sites[:] = fit.start
    for k, mine in enumerate(rows):
        own = site_sums(found.batch(case.model, k).shard, None if case.known else fit.start[:, :, mine])
        found.held.put(k, found.held.without(k), own)
    return found


def exact(case):
    """The fit of all data, and its gradient."""
    given, how = (case.model, case.data, case.alpha, JITTER), {"memory": case.memory, "tol": case.tol}
    return model_evidence(*given, **how), model_gradient(*given, **how)[1]


# ---- sums -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_sums_of_a_partition_are_those_of_all_data(name):
    case = CASES[name]
    fit, _ = exact(case)
    sums = batches_at(case, fit).held
    whole = site_sums(batch_of(case.model, case.data, case.alpha, JITTER).shard, fit.start)
    assert error(sums.total[0], whole.precision) < 1e-12 and error(sums.total[1], whole.shift) < 1e-12
    if "blocks" in case.more:
        return
    Kuu = factorise(case.model.features.Kuu(case.model.kernel), JITTER)
    V, weight = solve_lower(Kuu, case.model.features.Kuf(case.model.kernel, X)), case.more.get("weight", np.ones(N))
    precision, shift = fit.site_precision, fit.site_shift
    if case.y.ndim == 2:
        assert error(whole.precision[0], V * (weight * precision[0]) @ V.T) < 1e-12
        assert error(whole.shift[0], V @ (weight * shift).T) < 1e-12
        return
    for c, (P, s) in enumerate(zip(whole.precision, whole.shift, strict=True)):
        assert error(P, V * (weight * precision[c]) @ V.T) < 1e-12 and error(s, V @ (weight * shift[c])) < 1e-12


def test_parts_are_replaced_one_at_a_time():
    sums, blank = HeldSums(3, (1, 2)), Sums(*[0.0] * len(Sums._fields))
    news = [blank._replace(precision=rng.normal(size=(1, 2, 2)), shift=rng.normal(size=(1, 2))) for _ in range(5)]
    for k, new in zip((0, 1, 2, 1, 0), news, strict=True):
        sums.put(k, sums.without(k), new)
    for order, name in enumerate(("precision", "shift")):
        parts = [getattr(new, name) for new in news]
        assert error(sums.total[order], parts[4] + parts[3] + parts[2]) < 1e-14
        assert error(sums.without(1)[order], parts[4] + parts[2]) < 1e-14
    before = [total.copy() for total in sums.total]
    sums.total = tuple(total + 1.0 for total in sums.total)
    sums.add_up()
    assert all(error(new, old) < 1e-14 for new, old in zip(sums.total, before, strict=True))


@pytest.mark.parametrize("batch_size", [1, 7, 13, 200])
def test_batches_have_every_row_once_and_whole_blocks(batch_size):
    labels = rng.integers(0, 15, size=N)
    for blocks in (None, labels):
        rows = random_batches(N, batch_size, np.random.default_rng(1), blocks)
        np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(N))
        assert all(np.all(np.diff(mine) > 0) for mine in rows)
    assert sum(len(np.unique(labels[mine])) for mine in rows) == len(np.unique(labels))


# ---- sites, estimates, gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_partition_has_the_gradient_the_energy_and_the_sites_of_all_data(name):
    """At the fixed point: gradients of batches add up to the gradient; estimates of log Z average to log Z; and a
    visit changes nothing.
    """
    case = CASES[name]
    fit, gradient = exact(case)
    batches, total, values = batches_at(case, fit), 0.0, []
    earlier = 0.0 if case.memory is None else case.memory.log_constant
    for k in range(len(batches.rows)):
        batch, found = batches.visit(case.model, k)
        values.append(found.log_evidence)
        assert np.linalg.norm(found.stale) < 1e-10 * np.linalg.norm(batches.held.total[1])
        part = batch_gradient(case.model, batch, found, len(batches.rows))
        total = total + to_vector(part)
    if not case.known:
        assert error(batches.sites, fit.start) < 2e-6
    assert np.mean(values) + earlier == pytest.approx(fit.log_evidence, rel=1e-7, abs=1e-7)
    assert error(total, to_vector(gradient)) < 3e-6 and set(part) == set(gradient)


def test_the_batches_own_gradient_is_symmetric_in_the_coordinates():
    """A rotation of whitened coordinates changes nothing: inducing points in another order have the same gradients."""
    case, order = CASES["probit"], np.array([6, 2, 0, 5, 1, 4, 3])
    turned = replace(case, model=replace(case.model, features=InducingPoints(POINTS.Z[order])))
    parts = []
    for one in (case, turned):
        batches = batches_at(one, exact(one)[0])
        parts.append(batch_gradient(one.model, *batches.visit(one.model, 0), len(ROWS)))
    parts[0]["features.Z"] = parts[0]["features.Z"][order]
    assert gradient_error(parts[1], parts[0]) < 1e-6


@pytest.mark.parametrize(
    "name", ["probit, power 0", "probit", "probit, power 1", "poisson, linear mean", "student", "softmax", "probit, blocks"]
)
def test_visits_lead_to_the_fixed_point(name):
    case = CASES[name]
    fit, _ = exact(case)
    batches = Batches(case.model, case.data, case.alpha, JITTER, case.memory, rows_of(case))
    for _ in range(18 if name == "softmax" else 15):
        values = [batches.visit(case.model, k)[1].log_evidence for k in range(len(batches.rows))]
    assert error(batches.sites, fit.start) < 1e-4
    assert np.mean(values) == pytest.approx(fit.log_evidence, rel=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("gaussian")])
def test_gaussian_noise_needs_one_visit(name):
    case = CASES[name]
    fit, _ = exact(case)
    batches = Batches(case.model, case.data, case.alpha, JITTER, case.memory, rows_of(case))
    assert batches.sites is None
    for k in range(len(batches.rows)):
        batches.visit(case.model, k)
    mean, var = model_predict(case.model, batches.posteriors(case.model), X)
    expected = model_predict(case.model, fit.posteriors, X)
    assert error(mean, expected[0]) < 1e-10
    assert error(np.atleast_2d(var)[0], np.atleast_2d(expected[1])[0]) < 1e-10


def nothing():
    """Sums of no batch."""
    return HeldSums(1, (1, 7))


def test_what_is_no_distribution_is_turned_back_from():
    case = CASES["student"]

    def fresh(power=1.0):
        return batch_of(case.model, Piece(0, X, case.y), power, JITTER)

    proper, greedy = np.zeros((2, 1, N)), np.stack([np.full((1, N), -5.0), np.zeros((1, N))])
    batch = fresh()
    assert posteriors_with(batch, site_sums(batch.shard, greedy), nothing().without(0)) is None
    # negative precisions are dropped where they do harm
    found, batch = [], None
    for sites in (greedy, proper):
        batch = fresh()
        assert visit(batch, nothing(), 0, sites) is not None
        found.append(batch.shard.state.sites)
    assert error(*found) < 1e-12
    held = HeldSums(2, (1, 7))
    held.precision[1] = -2.0 * np.eye(7)
    held.add_up()
    before = [total.copy() for total in held.total]
    assert visit(fresh(), held, 0, proper) is None
    assert all(np.array_equal(new, old) for new, old in zip(held.total, before, strict=True))


@pytest.mark.parametrize(("power", "proper"), [(0.0, True), (1.0, False)])
def test_a_posterior_without_jitter_and_proper_cavities(power, proper):
    def fresh():
        return batch_of(CASES["probit"].model, Piece(0, X[:1], SIGN[:1]), power, JITTER)

    batch = fresh()
    ((_, V, _),) = batch.shard.visit([0])
    v = V[:, 0]
    along = np.outer(v, v)[None] / (v @ v)
    sums = site_sums(batch.shard, np.array([[[5.0 / (v @ v)]], [[0.0]]]))
    # 1 − 2 + 5 is a precision, and 1 − 2, that of the cavity at power 1, is none
    posteriors = posteriors_with(batch, sums, (-2.0 * along, np.zeros((1, 7))))
    assert posteriors is not None and is_proper(batch.shard, posteriors) == proper
    assert np.isfinite(projections(batch.shard, posteriors, Accuracy(1e-6, 0.1), 0).terms) == proper
    bare = site_sums(fresh().shard, np.zeros((2, 1, 1)))
    assert posteriors_with(batch, bare, (-1.0 * along, np.zeros((1, 7)))) is None  # singular: only with jitter


def test_a_step_that_goes_too_far_is_shortened(monkeypatch):
    """Sites so negative that only a quarter of the way to them leaves a distribution."""
    case = CASES["student"]
    batch = batch_of(case.model, Piece(0, X[:20], case.y[:20]), 0.0, JITTER)
    ((_, V, _),) = batch.shard.visit([0])
    aim = np.full((1, 20), -3.0 / np.linalg.eigvalsh(V @ V.T)[-1])

    def asked(d1, d2, mean, var, power):
        return aim, np.ones((1, 20))

    monkeypatch.setattr("sparse_pep.shards.new_site", asked)
    held = nothing()
    assert visit(batch, held, 0, np.zeros((2, 1, 20))) is not None
    assert error(batch.shard.state.sites[0], 0.25 * aim) < 1e-12
    assert error(held.total[0][0], V * (0.25 * aim[0]) @ V.T) < 1e-12


def test_a_failed_visit_changes_nothing_and_is_counted(monkeypatch):
    case = CASES["probit"]
    start, kept = case.model, stochastic.visit
    fails = mock.Mock(side_effect=lambda *given: None if fails.call_count % 2 else kept(*given))
    monkeypatch.setattr(stochastic, "visit", fails)
    result = train_stochastic(start, case.data, batch_size=N, n_epochs=4)
    assert result.n_skipped == 3 and result.n_steps == 2  # six visits, two of them before the climb
    assert np.isfinite(result.log_evidence)
    monkeypatch.setattr(stochastic, "visit", lambda *given: None)
    result = train_stochastic(start, case.data, batch_size=20, n_epochs=1)
    assert result.n_steps == 0 and np.all(np.isnan(result.history))
    for name, value in result.model.parameters().items():
        np.testing.assert_array_equal(value, start.parameters()[name])


def test_a_gradient_that_is_not_finite_moves_nothing(monkeypatch):
    kept = stochastic.batch_gradient

    def broken(*given):
        return {name: np.full_like(value, np.nan) for name, value in kept(*given).items()}

    monkeypatch.setattr(stochastic, "batch_gradient", broken)
    start = CASES["probit"].model
    result = train_stochastic(start, CASES["probit"].data, batch_size=25, n_epochs=3)
    assert result.n_steps == 0 and result.n_skipped == 6
    np.testing.assert_array_equal(result.model.features.Z, POINTS.Z)


# ---- Adam -----------------------------------------------------------------------------------------------------------


def test_adam_is_as_published():
    gradients, adam = rng.normal(size=(6, 3)), Adam(3)
    first, second = np.zeros(3), np.zeros(3)
    for t, g in enumerate(gradients, start=1):  # algorithm 1 of the paper, line by line
        first = 0.9 * first + 0.1 * g
        second = 0.999 * second + 0.001 * g**2
        expected = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        assert error(adam(g), expected) < 1e-12


def test_inducing_inputs_move_in_units_of_the_inputs():
    wide = X * [1.0, 100.0]
    model = Model(SE, InducingPoints(wide[:3]), StudentT(4.0, 0.2), LinearMean(0.0, [0.0, 0.0]))
    units = step_lengths(model.parameters(), wide)
    names = np.concatenate([[name] * np.size(value) for name, value in model.parameters().items()])
    assert len(units) == len(names)
    np.testing.assert_allclose(units[names == "features.Z"].reshape(3, 2), np.tile(wide.std(axis=0), (3, 1)))
    assert np.all(units[names != "features.Z"] == 1.0)
    blurred = step_lengths(Model(SE, GaussianBlur(wide[:3], [1.0, 1.0])).parameters(), wide)
    assert np.sum(blurred != 1.0) == 6


def test_the_learning_rate_falls_to_nothing():
    assert decay(0.0) == 1.0 and decay(0.5) == pytest.approx(0.5) and decay(1.0) == pytest.approx(0.0, abs=1e-15)
    assert np.all(np.diff([decay(t) for t in np.linspace(0, 1, 20)]) < 0)


def test_the_rise_is_that_of_the_last_quarter():
    assert rise_at_end(np.array([9.0, 9.0, 9.0, 9.0, 1.0, 3.0, 6.0, 8.0])) == pytest.approx(5.0)
    assert rise_at_end(np.array([1.0, 4.0])) == 3.0


# ---- training -------------------------------------------------------------------------------------------------------

MANY_X, MANY_Y = banana_like(300, seed=1)
MANY_Y = np.where(np.random.default_rng(3).uniform(size=300) < 0.1, -1, 1) * MANY_Y.astype(float)
MANY = Piece(0, MANY_X, MANY_Y)
START = Model(SquaredExponential(2.0, np.array([1.0, 1.0])), InducingPoints(MANY_X[::25]), Probit())


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_training_by_batches_ends_where_training_on_all_data_ends(power):
    how = {"fixed": ["features.Z"], "jitter": 1e-6}
    whole = train(START, MANY, power, tol=1e-8, **how)
    found = train_stochastic(START, MANY, power, 100, 0.05, 120, **how)
    assert found.converged and found.n_steps == 360 and found.n_skipped == 0
    assert abs(whole.log_evidence - found.log_evidence) < 0.02
    assert found.history[-1] == pytest.approx(found.log_evidence, abs=0.005)
    grid = np.random.default_rng(0).uniform([-1.5, -1], [2.5, 1.5], size=(200, 2))
    both = []
    for model in (whole.model, found.model):
        fit = model_evidence(model, MANY, power, 1e-6)
        both.append(Probit().predict_proba(*model_predict(model, fit.posteriors, grid))[:, 1])
    assert np.max(np.abs(both[0] - both[1])) < 0.01
    np.testing.assert_array_equal(found.model.features.Z, START.features.Z)


@pytest.mark.parametrize("name", ["logit, mean", "gaussian, outputs, memory", "probit, blocks"])
def test_an_optimum_is_stayed_at(name):
    """From the end of training on all data batches lead nowhere else: their gradients have no bias."""
    case = CASES[name]
    how, given = {"jitter": 1e-6, "memory": case.memory}, (case.data, case.alpha)
    end = train(case.model, *given, tol=1e-9, **how)
    found = train_stochastic(end.model, *given, 13, 0.01, 25, **how)
    moved = train_stochastic(case.model, *given, 13, 0.01, 1, **how)
    assert moved.log_evidence < end.log_evidence - 0.5
    assert abs(found.log_evidence - end.log_evidence) < 0.05


def test_the_same_seed_the_same_bits():
    results = [
        train_stochastic(START, MANY, 0.5, 60, n_epochs=3, rng=np.random.default_rng(s)) for s in (1, 1, 2)
    ]
    vectors = [to_vector(result.model.parameters()) for result in results]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.any(vectors[0] != vectors[2])
    np.testing.assert_array_equal(results[0].history, results[1].history)


@pytest.mark.parametrize(("batch_size", "n_batches"), [(1000, 1), (300, 1), (100, 3), (7, 43)])
def test_each_datum_is_in_one_batch(batch_size, n_batches, monkeypatch):
    seen, kept = [], Batches.visit

    def noted(self, model, k):
        seen.append(self.rows)
        return kept(self, model, k)

    monkeypatch.setattr(Batches, "visit", noted)
    result = train_stochastic(START, MANY, 0.5, batch_size, n_epochs=1)
    assert result.n_steps == n_batches and len(seen) == 3 * n_batches
    np.testing.assert_array_equal(np.sort(np.concatenate(seen[0])), np.arange(300))
    sizes = [len(rows) for rows in seen[0]]
    assert len(sizes) == n_batches and max(sizes) - min(sizes) <= 1


def test_what_the_callback_is_told():
    told = []

    def callback(epoch):
        told.append(epoch)
        time.sleep(0.05)

    given = START, MANY, 0.5, 75
    result = train_stochastic(*given, n_epochs=5, callback=callback)
    quiet = train_stochastic(*given, n_epochs=5)
    np.testing.assert_array_equal(to_vector(result.model.parameters()), to_vector(quiet.model.parameters()))
    assert [epoch.number for epoch in told] == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal([epoch.log_evidence for epoch in told], result.history)
    np.testing.assert_array_equal([epoch.drift for epoch in told], result.drift)
    seconds = np.array([epoch.seconds for epoch in told])
    assert np.all(np.diff(seconds) > 0)
    assert told[0].model is START and told[0].drift == 0.0
    assert told[-1].model is result.model
    # the posteriors belong to the model: at the end, with nothing moving any more, they are nearly those of the end
    mean, var = model_predict(told[-1].model, told[-1].posteriors, MANY_X)
    exact_mean, exact_var = model_predict(result.model, result.fit.posteriors, MANY_X)
    assert error(mean, exact_mean) < 0.05 and error(var, exact_var) < 0.05


def test_the_callbacks_time_is_not_counted(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(stochastic, "perf_counter", lambda: clock[0])
    kept, told = stochastic.Climber.epoch, []

    def slow(self, order, moving):
        clock[0] += 1.0
        return kept(self, order, moving)

    def callback(epoch):
        told.append(epoch.seconds)
        clock[0] += 100.0

    monkeypatch.setattr(stochastic.Climber, "epoch", slow)
    train_stochastic(START, MANY, 0.5, 150, n_epochs=3, callback=callback)
    assert told == [2.0, 3.0, 4.0, 5.0]  # two passes first


def test_the_path_and_the_end(monkeypatch):
    monkeypatch.setattr(stochastic, "KEPT_POINTS", 8)
    result = train_stochastic(START, MANY, 0.5, 150, n_epochs=20, fixed=["kernel.log_variance"])
    steps = result.path["iteration"]
    assert steps.tolist() == [0, 3, 6, 9, 12, 15, 18, 20]  # at most 8, and the end
    for name, value in result.model.parameters().items():
        assert result.path["values"][name].shape == (len(steps), *np.shape(value))
        np.testing.assert_allclose(result.path["values"][name][-1], value, rtol=1e-14)
        np.testing.assert_allclose(result.path["values"][name][0], START.parameters()[name], rtol=1e-14)
    assert result.model.kernel.variance == pytest.approx(2.0) and result.n_iter == 20
    again = model_evidence(result.model, MANY, 0.5, 1e-6, start=result.fit.start)
    assert again.n_sweeps <= 1 and again.log_evidence == pytest.approx(result.log_evidence, rel=1e-9)


def test_convergence_is_said_honestly(monkeypatch):
    few = train_stochastic(Model(SE, POINTS, Gaussian(0.5)), Piece(0, X, NUMBER), 0.5, 25, n_epochs=2)
    assert few.fit.start is None and not few.converged and "too few" in few.message
    given = START, MANY, 0.5, 100, 0.03, 8
    rising = train_stochastic(*given, tol=1e-6)
    assert not rising.converged and "the last quarter of 8 epochs gained" in rising.message
    assert train_stochastic(*given, tol=10.0).converged
    with monkeypatch.context() as patch:
        patch.setattr(stochastic, "rise_at_end", lambda history: -20.0 * MANY.n_data)
        falling = train_stochastic(*given, tol=10.0)
    assert not falling.converged and "lost 2.0e+01 nats per data point; a lower `learning_rate`" in falling.message
    kept = stochastic.model_evidence
    unsettled = mock.Mock(
        side_effect=lambda *given, **more: (lambda fit: replace(fit, converged=False))(kept(*given, **more))
    )
    monkeypatch.setattr(stochastic, "model_evidence", unsettled)
    assert not train_stochastic(*given, tol=10.0).converged


class Rowless(Source):
    """Rows that cannot be had by number."""

    n_dims = 2

    def __init__(self, X, y):
        super().__init__()
        self.given = X, y

    def pieces(self):
        yield Piece(0, *self.given)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"batch_size": 0}, "`batch_size` must be a positive whole number; got 0"),
        ({"batch_size": 1.5}, "`batch_size` must be a positive whole number; got 1.5"),
        ({"n_epochs": -1}, "`n_epochs` must be a positive whole number; got -1"),
        ({"learning_rate": 0.0}, "`learning_rate` must be a positive number; got 0.0"),
        ({"learning_rate": np.inf}, "`learning_rate` must be a positive number; got inf"),
        ({"tol": np.nan}, "`tol` must be a positive number; got nan"),
        (
            {"fixed": ["kernel.log_period"]},
            r"`fixed` must name parameters of the model \(kernel.log_variance.*log_period",
        ),
        ({"data": Rowless(X, SIGN)}, "draw rows by their numbers"),
    ],
)
def test_bad_arguments(more, words):
    with pytest.raises(ValueError, match=words):
        train_stochastic(**({"model": CASES["probit"].model, "data": Piece(0, X, SIGN)} | more))


def test_data_are_left_as_they_are():
    inputs, labels, weight = MANY_X.copy(), MANY_Y.copy(), np.ones(300)
    for array in (inputs, labels, weight):
        array.flags.writeable = False
    train_stochastic(START, Piece(0, inputs, labels, weight=weight), 0.5, 100, n_epochs=1)
    memory = CASES["probit, memory"].memory
    before = [np.array(part, copy=True) for part in memory.observations]
    train_stochastic(CASES["probit"].model, Piece(0, X, SIGN), 0.5, 25, n_epochs=1, memory=memory)
    for part, old in zip(memory.observations, before, strict=True):
        np.testing.assert_array_equal(part, old)
