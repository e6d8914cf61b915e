"""Sums over pieces of data: the numbers of one array in memory, whatever the cut, in memory that does not grow with the data."""

import gc
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import error, gradient_error, properties
from reference.problems import problems

from sparse_pep.data import scale
from sparse_pep.data.scale import (
    Moments,
    moments_of,
    source_gradient,
    source_inference,
    source_moments,
    source_predict,
    source_start,
    train_source,
    write_predictions,
)
from sparse_pep.data.sources import ArraySource, Piece, Source
from sparse_pep.features import InducingPoints
from sparse_pep.inference import infer
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, NoisyProbit, Poisson, Probit, StudentT
from sparse_pep.means import ConstantMean, LinearMean
from sparse_pep.model import (
    Extras,
    Model,
    chunk_covariances,
    model_gradient,
    model_predict,
)
from sparse_pep.multiclass import Softmax
from sparse_pep.numerics.checkpoints import Sites
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.training import column_spread, kmeans_points, train

rng = np.random.default_rng(5)
N = 40
X = rng.uniform(-3.0, 3.0, size=(N, 2))
f = 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]
y = f + 0.3 * rng.normal(size=N)
signs = np.where(rng.uniform(size=N) < 0.15, -1.0, 1.0) * np.sign(f)
weight = rng.integers(0, 4, size=N) * 1.0
powers = np.resize([0.0, 1.0, 0.5, 1e-7], N)
kernel, points = SquaredExponential(4.0, [1.0, 2.0]), InducingPoints(X[:6].copy())
gaussian = Model(kernel, points, Gaussian(0.1))


# --- regression -------------------------------------------------------------------------------------------------------


@properties
@given(problems, st.integers(1, 16), st.integers(0, 2), st.sampled_from(["zero", "level", "plane"]), st.booleans())
def test_regression_is_that_of_all_rows(p, rows, K, mean, extra):
    own, D = np.random.default_rng(rows), p.X.shape[1]
    targets = p.y if K == 0 else own.normal(size=(len(p.y), K)) * np.max(np.abs(p.y))
    columns = {"weight": own.integers(0, 3, size=len(p.y)) + 0.5} if extra else {}
    if extra:
        columns["known_variance"] = p.model.likelihood.noise_variance * own.uniform(size=len(p.y))
    size = float(np.max(np.abs(p.y)))
    level, slope = np.full(targets.shape[1:], size), own.normal(size=(D, *targets.shape[1:]))
    means = {"level": ConstantMean(level), "plane": LinearMean(level, slope * size / np.max(np.abs(p.X)))}
    model = Model(p.model.kernel, p.model.features, p.model.likelihood, means.get(mean, p.model.mean))
    fit, gradient = model_gradient(model, p.X, targets, p.power, extras=Extras(**columns))
    private = {"power": p.power} if np.ndim(p.power) else {}
    source = ArraySource(p.X, targets, **columns, **private, piece_rows=rows)
    found, slopes = source_gradient(model, source, 0.3 if private else p.power)
    assert error(found.log_evidence, fit.log_evidence, abs(fit.log_evidence) + targets.size) < 1e-12
    assert error(found.posterior.b, fit.posterior.b, np.max(np.abs(fit.posterior.b)) + 1.0) < 1e-10
    assert found.n_clipped == fit.n_clipped
    assert gradient_error(slopes, gradient) < 1e-8 or all(
        error(slopes[name], gradient[name], max(np.max(np.abs(gradient[name])), targets.size)) < 1e-10
        for name in slopes
    )


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_gradients_agree_to_ten_digits(power, rows):
    fit, gradient = model_gradient(gaussian, X, y, power)
    found, slopes = source_gradient(gaussian, ArraySource(X, y, piece_rows=rows), power)
    assert error(found.log_evidence, fit.log_evidence) < 1e-12
    assert gradient_error(slopes, gradient) < 1e-10


@pytest.mark.parametrize("power", [0.0, "private", "known"])
def test_the_short_way_is_for_data_that_are_all_at_power_0(power, monkeypatch):
    taken = []
    through = scale.backward_sums
    monkeypatch.setattr(scale, "backward_sums", lambda *a, short: taken.append(short) or through(*a, short=short))
    more = {"private": {"power": powers}, "known": {"known_variance": np.linspace(0.0, 1.0, N)}}.get(power, {})
    extras = Extras(known_variance=more.get("known_variance", 0.0))
    _, gradient = model_gradient(gaussian, X, y, more.get("power", 0.0), extras=extras)
    _, slopes = source_gradient(gaussian, ArraySource(X, y, **more, piece_rows=4), 0.0)
    assert set(taken) == {power == 0.0} and gradient_error(slopes, gradient) < 1e-10


# --- any likelihood ---------------------------------------------------------------------------------------------------

SEARCHES = {
    "probit": (Model(kernel, points, Probit()), signs),
    "noisy": (Model(SquaredExponential(30.0, [1.0, 2.0]), points, NoisyProbit(0.05)), signs),
    "student": (Model(kernel, points, StudentT(0.3, 4.0), LinearMean(0.3, [0.1, 0.2])), y),
    "counts": (Model(kernel, points, Poisson(), ConstantMean(0.2)), np.round(np.exp(np.clip(f, -3, 2)))),
    "classes": (Model(SquaredExponential(1.0, [1.0, 2.0]), points, Softmax(3)), 1.0 * (f > 1) + (f > -1)),
}


@pytest.mark.parametrize("power", [0.0, 0.5, "private"])
@pytest.mark.parametrize("case", SEARCHES)
def test_a_search_is_that_of_all_rows(case, power, tmp_path):
    model, targets = SEARCHES[case]
    given = powers if power == "private" else power
    fit, gradient = model_gradient(model, X, targets, given, extras=Extras(weight))
    private = {"power": powers, "sites_dir": tmp_path} if power == "private" else {}
    source = ArraySource(X, targets, weight, **private, piece_rows=9)
    found, slopes = source_gradient(model, source, 0.5 if private else power)
    assert found.converged and found.n_sweeps == fit.n_sweeps and found.step == fit.step
    assert error(found.log_evidence, fit.log_evidence) < 1e-10
    assert error(found.trace, fit.trace) < 1e-8
    assert error(found.smallest_cavity, fit.smallest_cavity) < 1e-8
    assert error(found.change, fit.change, 1.0) < 1e-9
    assert error(found.quadrature_error, fit.quadrature_error, 1.0) < 1e-9
    assert gradient_error(slopes, gradient) < 1e-10
    own = np.concatenate([np.array(found.sites[k][0]) for k in range(5)], axis=-1)
    assert error(own, np.stack([fit.site_precision, fit.site_shift])) < 1e-8
    assert len(found.sites[0]) == 1  # nothing but the sites is left of the search


@pytest.mark.parametrize("sweeps", [0, 1, 25])
def test_a_search_that_is_damped_or_does_not_end_takes_the_same_steps(sweeps):
    model = Model(SquaredExponential(3000.0, [1.0, 2.0]), points, Probit())
    given = points.Kuu(model.kernel), chunk_covariances(model, X), model.likelihood, signs, 1.0
    fit = infer(*given, max_sweeps=sweeps)
    found = source_inference(model, ArraySource(X, signs, piece_rows=9), 1.0, max_sweeps=sweeps)
    assert found.converged == fit.converged == (sweeps == 25)
    assert found.n_sweeps == fit.n_sweeps and found.step == fit.step
    assert len(found.trace) == len(fit.trace) and error(found.trace, fit.trace) < 1e-8
    assert error(found.log_evidence, fit.log_evidence) < 1e-8


def turned_back(model, targets, start, power, sweeps, rows=9):
    """Searches from given sites, over all rows and over pieces."""
    given = points.Kuu(model.kernel), chunk_covariances(model, X), model.likelihood, targets, power
    fit = infer(*given, start=Sites(*start), max_sweeps=sweeps)
    own = [(start[..., first : first + rows],) for first in range(0, N, rows)]
    Kuu = factorise(points.Kuu(model.kernel), 0.0, "Kuu")
    walk = scale.Walk(model, ArraySource(X, targets, piece_rows=rows), power, Kuu, own)
    return fit, scale.settle_pieces(walk, model.likelihood.log_concave, 1e-8, sweeps)


@pytest.mark.parametrize("sweeps", [0, 2, 40])
@pytest.mark.parametrize("start", ["no cavity", "no posterior"])
def test_sites_that_are_no_good_are_turned_back(start, sweeps):
    model, targets = Model(kernel, points, StudentT(0.3, 4.0)), y
    sites = np.zeros((2, 1, N))
    sites[0] = -5.0 if start == "no posterior" else 0.0
    if start == "no cavity":
        sites[0, 0, :12], sites[0, 0, 30] = -0.1, 1.5
    fit, found = turned_back(model, targets, sites, 1.0, sweeps)
    assert fit.step < 1.0 and found.n_sweeps == fit.n_sweeps and found.step == fit.step
    assert found.converged == fit.converged and error(found.log_evidence, fit.log_evidence) < 1e-9
    assert error(found.trace, fit.trace, 1.0 + abs(fit.log_evidence)) < 1e-8


STEPS = {  # what the searches must do: keep precisions of labels positive, give up a step that does not help
    "guard": (Model(SquaredExponential(1000.0, [1.0, 2.0]), points, Probit()), signs, 1.0),
    "stall": (Model(SquaredExponential(1000.0, [0.3, 0.5]), points, StudentT(0.3, 4.0)), y, 0.36),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_search_that_is_held_back_takes_the_same_steps(case):
    model, targets, below = STEPS[case]
    fit = infer(points.Kuu(model.kernel), chunk_covariances(model, X), model.likelihood, targets, 0.0, max_sweeps=80)
    found = source_inference(model, ArraySource(X, targets, piece_rows=9), 0.0, max_sweeps=80)
    assert fit.converged and found.converged and found.n_sweeps == fit.n_sweeps and found.step == fit.step <= below
    assert len(found.trace) == len(fit.trace) and error(found.trace, fit.trace) < 1e-6
    assert error(found.log_evidence, fit.log_evidence) < 1e-8


def test_a_posterior_that_only_jitter_makes_is_none():
    sites, Kuu = np.zeros((2, 1, N)), factorise(points.Kuu(kernel), 0.0, "Kuu")
    v = solve_lower(Kuu, kernel(points.Z, X[20:21]))[:, 0]
    sites[0, 0, 20] = -(1.0 + 1e-14) / (v @ v)  # I + Στvvᵀ is singular, and all cavities are distributions
    model = Model(kernel, points, StudentT(0.3, 4.0))
    fit, found = turned_back(model, y, sites, 1.0, 0)
    assert fit.step == found.step == 0.7 and error(found.log_evidence, fit.log_evidence) < 1e-12


def test_a_search_starts_from_earlier_sites_or_else_anew():
    model, targets = SEARCHES["probit"]
    source = ArraySource(X, targets, piece_rows=9)
    cold = source_inference(model, source, 0.5)
    near = model.with_parameters(model.parameters() | {"kernel.log_variance": np.array(1.4)})
    expected = source_inference(near, source, 0.5)
    warm = source_inference(near, source, 0.5, start=cold.sites)
    assert warm.n_sweeps < expected.n_sweeps and error(warm.log_evidence, expected.log_evidence) < 1e-10
    again = source_inference(model, source, 0.5, start=cold.sites)
    assert again.n_sweeps == 0
    astray = [(np.full((2, 1, len(own[0][0, 0])), 1e8),) for own in cold.sites]
    found = source_inference(model, source, 0.5, start=astray, max_sweeps=9)
    assert found.converged and found.n_sweeps == 9 + cold.n_sweeps


# --- memory -----------------------------------------------------------------------------------------------------------


class Endless(Source):
    """Rows that exist while they are looked at."""

    n_dims, rows = 1, 1_000

    def __init__(self, n_pieces, labels=False, sites_dir=None):
        super().__init__(sites_dir)
        self.n_pieces, self.labels = n_pieces, labels

    def pieces(self):
        for k in range(self.n_pieces):
            X = np.linspace(0.0, 3.0, self.rows)[:, None] + 1e-3 * k
            y = np.sin(2.0 * X[:, 0])
            yield Piece(k * self.rows, X, np.sign(y) if self.labels else y)


def peak(work):
    """The most memory at a time, in bytes, where nothing is found as garbage before the end."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


ENDLESS = InducingPoints(np.linspace(0.0, 3.0, 4)[:, None])
LEVELS, LABELS = (Model(SquaredExponential(), ENDLESS, likelihood) for likelihood in (Gaussian(0.1), Probit()))
WORKS = {
    "regression": lambda n, folder: source_gradient(LEVELS, Endless(n), 0.5),
    "search": lambda n, folder: source_gradient(LABELS, Endless(n, True, folder), 1.0, tol=1e-30),
    "prediction": lambda n, folder: sum(
        mean.sum()
        for _, mean, _ in source_predict(LEVELS, source_gradient(LEVELS, Endless(1))[0].posteriors, Endless(n))
    ),
    "start": lambda n, folder: source_start(Endless(n), Gaussian(), 4),
}


def peaks(work, folder):
    """Of a few pieces, and of thirty more; for a process of its own."""
    scale.KMEANS_ROWS = 50
    scale.source_inference = partial(source_inference, max_sweeps=6)  # as many for all
    WORKS[work](2, folder)
    return [peak(lambda: WORKS[work](n, folder)) for n in (4, 34)]


@pytest.fixture(scope="module")
def alone():
    """A process in which nobody else takes memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("work", WORKS)
def test_memory_does_not_grow_with_the_data(alone, work, tmp_path):
    few, many = alone.submit(peaks, work, tmp_path).result()
    assert many < few + 120_000  # 30 pieces more: one number a datum would be 240 kB


# --- prediction -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["one", "outputs", "classes"])
def test_predictions_come_in_order(case):
    model, targets = SEARCHES["classes"] if case == "classes" else (gaussian, y)
    if case == "outputs":
        targets = np.c_[y, -y, y**2]
    fit, _ = source_gradient(model, ArraySource(X, targets), 0.5)
    found = list(source_predict(model, fit.posteriors, ArraySource(X, piece_rows=9)))
    assert [first for first, _, _ in found] == [0, 9, 18, 27, 36]
    expected = model_predict(model, fit.posteriors, X)
    for k in (0, 1):
        assert error(np.concatenate([part[k + 1] for part in found], axis=-1), expected[k]) < 1e-12


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_predictions_are_written_in_pieces(form, tmp_path):
    pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")
    pandas = pytest.importorskip("pandas", reason="the extra `tables` is not installed")
    read = pandas.read_csv if form == "csv" else pandas.read_parquet
    fit, _ = source_gradient(gaussian, ArraySource(X, np.c_[y, -y]), 0.5)
    path, source = tmp_path / f"out.{form}", ArraySource(X, piece_rows=9)
    assert write_predictions(path, gaussian, fit.posteriors, source) == N
    table, (mean, var) = read(path), model_predict(gaussian, fit.posteriors, X)
    assert list(table.columns) == ["mean_0", "mean_1", "var"]
    assert error(table.to_numpy().T, np.vstack([mean, var])) < 1e-12
    write_predictions(path, gaussian, fit.posteriors, source, lambda mean, var: {"std": np.sqrt(var)})
    assert error(read(path)["std"], np.sqrt(var)) < 1e-12
    bad = X.copy()
    bad[30] = np.nan
    before = path.read_bytes()
    with pytest.raises(ValueError, match="row 30"):
        write_predictions(path, gaussian, fit.posteriors, ArraySource(bad, piece_rows=9))
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1  # whole or not at all
    with pytest.raises(ValueError, match="`path`: there is no folder"):
        write_predictions(tmp_path / "no" / "out.csv", gaussian, fit.posteriors, source)


# --- starts and training ----------------------------------------------------------------------------------------------


@properties
@given(st.integers(1, 41), st.sampled_from([0.0, 1e8]), st.booleans())
def test_moments_are_those_of_all_rows(rows, level, weighted):
    columns, w = np.c_[X, np.ones(N)] + level, np.where(np.arange(N) < 9, 0.0, weight) if weighted else np.ones(N)
    of_X, of_y = source_moments(ArraySource(columns, np.c_[y, -y], w, piece_rows=rows))
    kept = np.repeat(np.arange(N), w.astype(int))
    assert of_X.weight == of_y.weight == len(kept)
    assert (
        error(of_X.mean, columns[kept].mean(axis=0)) < 1e-12
        and error(of_y.mean, [y[kept].mean(), -y[kept].mean()]) < 1e-12
    )
    assert error(of_X.spread, column_spread(columns[kept])) < (1e-7 if level else 1e-12)
    assert error(of_y.variance, np.var(np.c_[y, -y][kept], axis=0)) < 1e-12
    assert of_X.spread[2] == 1.0 and error(of_y.spread, column_spread(np.c_[y, -y][kept])) < 1e-12


def test_moments_of_nothing():
    nothing, something = moments_of(X, 0.0), moments_of(X, 1.0)
    assert isinstance(nothing + nothing, Moments) and (nothing + nothing).weight == 0.0
    for total in (nothing + something, something + nothing, sum([something, nothing])):
        assert np.array_equal(total.mean, something.mean) and total.weight == N
    with pytest.raises(ValueError, match="`weight` is 0 for all rows"):
        source_moments(ArraySource(X, y, weight=0.0))


def test_a_start_is_that_of_the_rows_that_count():
    start = source_start(ArraySource(X, y, weight, piece_rows=7), Gaussian(0.2), 5, np.random.default_rng(1))
    kept = weight > 0
    draws = np.random.default_rng(1)
    assert error(start.features.Z, kmeans_points(X[kept], 5, draws, weight[kept])) < 1e-12
    assert error(start.kernel.lengthscale, np.sqrt(2) * column_spread(X, weight)) < 1e-12
    assert error(start.kernel.variance, Gaussian().latent_variance(y[kept], weight[kept])) < 1e-12
    assert start.likelihood.noise_variance == 0.2
    with pytest.raises(ValueError, match="no targets"):
        source_start(ArraySource(X), Gaussian())
    with pytest.raises(ValueError, match="`weight` is 0 for all rows"):
        source_start(ArraySource(X, y, weight=0.0), Gaussian())


@pytest.mark.parametrize("case", ["regression", "probit"])
def test_training_is_that_of_all_rows(case):
    model, targets = (gaussian, y) if case == "regression" else SEARCHES["probit"]
    expected = train(model, X, targets, 0.5, max_iter=6, fixed=["features.Z"], extras=Extras(weight))
    found = train_source(model, ArraySource(X, targets, weight, piece_rows=9), 0.5, max_iter=6, fixed=["features.Z"])
    assert found.n_evaluations == expected.n_evaluations and found.n_sweeps == expected.n_sweeps
    assert error(found.history, expected.history) < 1e-7
    assert np.array_equal(found.model.features.Z, points.Z)


@pytest.mark.parametrize("case", ["regression", "probit"])
def test_training_goes_on_after_a_stop(case, tmp_path, monkeypatch):
    model, targets = (gaussian, y) if case == "regression" else SEARCHES["probit"]
    source, through = ArraySource(X, targets, piece_rows=9), scale.source_gradient
    given, how = (model, source, 0.5), {"max_iter": 8, "checkpoint": tmp_path / "c.npz", "checkpoint_every": 0.0}
    whole, calls = train_source(*given, max_iter=8), []

    def stopping(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return through(*arguments)

    monkeypatch.setattr(scale, "source_gradient", stopping)
    monkeypatch.setattr("sparse_pep.numerics.checkpoints.RARELY", 0.0)
    with pytest.raises(KeyboardInterrupt):
        train_source(*given, **how)
    found = train_source(*given, **how)
    assert len(calls) == 1 + whole.n_evaluations  # none twice, but for the one that was stopped
    assert error(found.history, whole.history) < (1e-12 if case == "regression" else 1e-4)
    other = ArraySource(X, -targets, piece_rows=9)
    with pytest.raises(ValueError, match="other data or arguments"):
        train_source(model, other, 0.5, checkpoint=tmp_path / "c.npz")


def test_a_variance_of_f_that_takes_minutes_is_turned_back():
    model, targets = SEARCHES["classes"]
    ask = scale.SourceGradient(ArraySource(X[:5], targets[:5]), 0.5)
    ask(model)
    wide = model.with_parameters(model.parameters() | {"kernel.log_variance": np.log(2.0 * model.likelihood.widest)})
    with pytest.raises(np.linalg.LinAlgError, match="out of range"):
        ask(wide)


# --- what is refused --------------------------------------------------------------------------------------------------

REFUSED = {
    "no targets": ({"source": ArraySource(X)}, "no targets `y`"),
    "powers": ({"power": powers}, "`power` must be one number; give rows powers of their own"),
    "range": ({"power": 1.5}, r"`power` must lie in \[0, 1\]"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Probit()])
def test_refused(case, likelihood):
    options, message = REFUSED[case]
    given = {"source": ArraySource(X, signs), "power": 0.5, **options}
    with pytest.raises(ValueError, match=message):
        source_gradient(Model(kernel, points, likelihood), **given)
    with pytest.raises(ValueError, match="`fixed` must name parameters"):
        train_source(gaussian, ArraySource(X, y), fixed=["Z"])
