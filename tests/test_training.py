"""Where training starts, how it climbs, and what it does when a step fails."""

import warnings
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import dense
from reference.compare import error, properties
from reference.problems import Problem, problems

from sparse_pep import model as models
from sparse_pep import training
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.interdomain import GaussianBlur, Wavelet
from sparse_pep.kernels import (
    Linear,
    SquaredExponential,
)
from sparse_pep.likelihoods import (
    Gaussian,
    NegativeBinomial,
    NoisyProbit,
    Poisson,
    Probit,
    StudentT,
)
from sparse_pep.means import LinearMean
from sparse_pep.model import (
    Model,
    from_vector,
    model_evidence,
    model_gradient,
    to_vector,
)
from sparse_pep.multiclass import Softmax
from sparse_pep.shards import Piece
from sparse_pep.training import (
    SITE_TOL,
    WINDOW,
    Ascent,
    TimeLimit,
    WarmGradient,
    climb,
    column_spread,
    disturbed,
    greedy_points,
    initial_kernel,
    kmeans_points,
    train,
    units_of,
)


def wave(N=60, seed=0, noise=0.1):
    """A noisy sine (N, 1), (N,)."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 6, size=(N, 1)), axis=0)
    return X, np.sin(X[:, 0]) + noise * rng.normal(size=N)


DATA = Piece(0, *wave())


def start(M=6, likelihood=None):
    points = InducingPoints(np.linspace(0.2, 5.8, M)[:, None])
    return Model(SquaredExponential(1.0, [1.0]), points, likelihood or Gaussian(0.5))


@properties
@given(problems)
def test_parameters_go_round(p):
    parameters = p.model.parameters()
    vector = to_vector(parameters)
    back = p.model.with_parameters(from_vector(vector, parameters)).parameters()
    assert list(back) == list(parameters)
    for name, value in parameters.items():
        assert np.shape(back[name]) == np.shape(value)
        assert error(back[name], value, 1.0 + np.max(np.abs(value))) < 1e-15
    assert vector.shape == (sum(np.size(value) for value in parameters.values()),)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_vector_of_another_length_is_refused(change):
    parameters = start().parameters()
    with pytest.raises(ValueError, match=r"expected 9 parameters.*got"):
        from_vector(np.zeros(9 + change), parameters)


@properties
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from(["se", "matern12", "matern52"]))
def test_greedy_points_are_the_pivots_of_a_dense_cholesky(seed, M, name):
    p = Problem(seed, 20, 3, 2, name)
    chosen = greedy_points(p.model.kernel, p.X, M)
    K = p.model.kernel(p.X)
    # A constant diagonal ties the first pivot: both take the first row.
    np.testing.assert_array_equal(chosen, p.X[dense.pivoted_cholesky(K, M)])


def test_greedy_points_follow_the_diagonal_of_a_kernel_that_is_not_stationary():
    X = np.random.default_rng(0).normal(size=(15, 2))
    kernel = Linear(1.0) + SquaredExponential(0.1, 0.7)
    np.testing.assert_array_equal(greedy_points(kernel, X, 6), X[dense.pivoted_cholesky(kernel(X), 6)])


def test_greedy_points_stop_when_nothing_is_left_to_explain():
    """A linear kernel in two columns has rank 2, whatever variance the first row has."""
    X = np.random.default_rng(0).normal(size=(15, 2))
    X[0] = 0.0
    assert len(greedy_points(Linear(1.0), X, 6)) == 2


def test_kmeans_looks_at_a_sample_of_many_rows(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 2))
    monkeypatch.setattr(training, "SAMPLE_ROWS", 10)
    sample = kmeans_points(X, 10, np.random.default_rng(0))
    assert len(sample) == 10
    assert all(np.any(np.all(X == row, axis=1)) for row in sample)


@properties
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 12))
def test_no_method_puts_two_points_in_one_place(seed, n_distinct, M):
    rng = np.random.default_rng(seed)
    distinct = rng.normal(size=(n_distinct, 2))
    X = distinct[np.resize(np.arange(n_distinct), 20)]
    for Z in (kmeans_points(X, M, rng), greedy_points(SquaredExponential(1.0, 1.0), X, M, 1e-8)):
        assert Z.shape == (len(Z), 2)
        assert 1 <= len(Z) <= min(M, n_distinct)
        assert len(np.unique(np.round(Z, 9), axis=0)) == len(Z)
    if M >= n_distinct:
        np.testing.assert_array_equal(kmeans_points(X, M, rng), np.unique(distinct, axis=0))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_kmeans_does_not_depend_on_the_units_of_a_column(scale):
    X = np.random.default_rng(3).normal(size=(80, 2))
    units = np.array([scale, 1.0])
    here, there = (kmeans_points(data, 5, np.random.default_rng(1)) for data in (X, X * units))
    assert error(there / units, here) < 1e-9


def test_the_unit_of_inducing_inputs_lies_between_their_spread_and_their_distance():
    wide = np.random.default_rng(0).normal(size=(16, 2)) * [1.0, 100.0]
    for features in (InducingPoints(wide), GaussianBlur(wide, [1.0, 1.0])):
        parameters = Model(SquaredExponential(1.0, 1.0), features, Gaussian(1.0), LinearMean(0.0, [0.0, 0.0])).parameters()
        units = units_of(parameters)
        twice = wide.std(axis=0)  # 2 * 16^(-1/4) = 1
        np.testing.assert_allclose(np.log2(units.pop("features.Z")), np.tile(np.round(np.log2(twice)), (16, 1)))
        assert np.all(to_vector(units) == 1.0)


@pytest.mark.parametrize("rate, factor", [(1.0, 1.0), (1 / 60, 8.0), (4.1, 0.5), (1e-9, 16.0), (0.0, 1.0)])
def test_the_unit_of_inducing_inputs_is_measured(rate, factor):
    """The gradient changes `rate` times as fast with the scaled inducing inputs as with the other parameters."""
    model, rng = Model(SquaredExponential(1.0, 1.0), InducingPoints(np.arange(4.0)[:, None]), Gaussian(1.0)), np.random.default_rng(0)
    ascent = Ascent(model, None)
    units, places = ascent.units, ascent.places
    assert np.array_equal(places, np.arange(len(places)) >= 3)
    points = np.cumsum(rng.normal(size=(9, len(units))), axis=0)
    ascent.early = [(units * x, np.where(places, rate, 1.0) * x / units) for x in points]
    assert ascent.rescale() == (factor != 1.0)
    np.testing.assert_array_equal(ascent.units, np.where(places, factor, 1.0) * units)


@pytest.mark.parametrize("features", [lambda Z: InducingPoints(Z[:1]), lambda Z: InducingPoints(Z * [1, 0]), lambda Z: Wavelet(Z, np.ptp(Z, axis=0) / 9, 3 / np.ptp(Z, axis=0))])
def test_training_takes_the_same_path_in_all_units(features):
    """Also with one inducing point, with points in a row, and with trained frequencies."""
    X, paths = np.random.default_rng(0).normal(size=(30, 2)), []
    for unit in (1.0, 2.0**-70, 2.0**70):
        start = Model(SquaredExponential(1.0, [unit, unit]), features(unit * X[:5]), Gaussian(0.1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            paths.append(train(start, Piece(0, unit * X, np.sin(X[:, 0])), max_iter=9).history)
    np.testing.assert_allclose(paths[1:], [paths[0]] * 2, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.7, -np.pi * 1e9])
@pytest.mark.parametrize("N", [1, 10, 13])
def test_spread_of_a_constant_column_is_one(value, N):
    """Also where the mean is rounded, so that the standard deviation as computed is not quite 0."""
    X = np.column_stack([np.full(N, value), value + np.arange(N)])
    assert column_spread(X)[0] == 1.0
    assert error(column_spread(X)[1], np.std(np.arange(N)) if N > 1 else 1.0) < 1e-6


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_initial_kernel_has_the_units_of_the_data(scale):
    X = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 10.0, scale]
    y = scale * X[:, 0]
    kernel = initial_kernel(X, y)
    assert error(kernel.variance, np.var(y)) < 1e-14
    assert error(kernel.lengthscale, np.sqrt(3) * X.std(0)) < 1e-14


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_training_climbs_to_a_level_place_and_reports_it(power):
    result = train(start(), DATA, power, tol=1e-9)
    assert result.converged
    assert result.log_evidence > model_evidence(start(), DATA, power, 1e-8).log_evidence + 10
    assert result.log_evidence == model_evidence(result.model, DATA, power, 1e-8).log_evidence
    assert len(result.history) == result.n_iter + 1
    assert np.all(np.diff(result.history) >= 0)
    assert 0 <= result.log_evidence - result.history[-1] < 1e-6
    assert result.n_evaluations >= result.n_iter
    _, gradient = model_gradient(result.model, DATA, power, 1e-8)
    assert np.max(np.abs(to_vector(gradient))) < 0.5
    assert 0.05 < np.sqrt(result.model.likelihood.noise_variance) < 0.2


@pytest.mark.parametrize(
    "fixed", [{"features.Z"}, {"log_noise_variance"}, {"kernel.log_lengthscale", "kernel.log_variance"}]
)
def test_what_is_fixed_stays_and_the_rest_moves(fixed):
    before, after = (
        start().parameters(),
        train(start(), DATA, fixed=fixed, max_iter=10, n_restarts=1).model.parameters(),
    )
    for name, value in before.items():
        if name in fixed:
            assert error(after[name], value, 1.0) < 1e-15
        else:
            assert np.all(after[name] != value)


def test_running_out_of_iterations_is_said():
    result = train(start(), DATA, max_iter=2)
    assert not result.converged
    assert result.n_iter == 2
    assert "ITERATIONS" in result.message.upper()


def test_it_stops_when_it_hardly_rises_any_more():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X).sum(1) + 0.1 * rng.normal(size=60)
    first = Model(
        SquaredExponential(1.0, np.ones(3)), InducingPoints(X[:15]), Gaussian(0.5)
    )  # many parameters, a long climb
    result = train(first, Piece(0, X, y), tol=1e-2)
    assert result.converged
    assert "gained less than 0.01 nats per data point" in result.message
    gains = result.history[WINDOW:] - result.history[:-WINDOW]
    assert gains[-1] < 1e-2 * len(y)
    assert np.all(gains[:-1] >= 1e-2 * len(y))


def test_restarts_start_elsewhere_and_the_best_is_kept():
    # A start that takes everything for noise and stays there
    poor = Model(SquaredExponential(1e-3, [1e3]), start().features, Gaussian(1.0))
    alone = train(poor, DATA, 0.5, max_iter=30, fixed={"features.Z"})
    ends = [train(poor, DATA, 0.5, max_iter=30, fixed={"features.Z"}, n_restarts=n).log_evidence for n in (1, 6)]
    assert alone.log_evidence <= ends[0] <= ends[1]
    rng = np.random.default_rng(0)
    model = disturbed(poor, rng, {"log_noise_variance"})
    assert model.kernel.variance != poor.kernel.variance
    assert error(model.likelihood.noise_variance, poor.likelihood.noise_variance) < 1e-15
    np.testing.assert_array_equal(model.features.Z, poor.features.Z)
    climbs = [
        climb(m, lambda m: model_gradient(m, DATA, 0.5, 1e-8), 60, 30, fixed={"features.Z"}).log_evidence
        for m in (poor, disturbed(poor, np.random.default_rng(0), {"features.Z"}))
    ]
    assert ends[0] == max(climbs)


def test_a_restart_that_cannot_start_is_passed_over():
    edge = Model(
        start().kernel, start().features, Gaussian(np.exp(99.9))
    )  # disturbed, it falls out of range half of the time
    result = train(edge, DATA, 0.5, max_iter=3, n_restarts=6)
    assert np.isfinite(result.log_evidence)


def test_a_diverged_fit_is_neither_compared_nor_trained_from(monkeypatch):
    search = models.fixed_point

    def astray(*given, **options):
        return replace(search(*given, **options), converged=False, change=20.0, log_evidence=1e15)

    monkeypatch.setattr(models, "fixed_point", astray)
    assert np.isnan(model_evidence(start(), DATA, 0.5).log_evidence)
    with pytest.raises(np.linalg.LinAlgError, match="start from a smaller kernel variance or more noise"):
        train(start(), DATA, 0.5)
    *_, sweep = training.held_out_power(start(), DATA, np.random.default_rng(0), powers=(0.0, 1.0))
    assert np.all(np.isneginf(sweep["log_density"]))


def test_a_run_whose_sites_have_not_converged_is_not_the_best(monkeypatch):
    good = train(start(), DATA, 0.5, max_iter=1)
    loose = replace(good, fit=replace(good.fit, converged=False), log_evidence=1e15)
    runs = iter([loose, good, loose])
    monkeypatch.setattr(training, "climb", lambda *given: next(runs))
    assert train(start(), DATA, 0.5, n_restarts=2) is good


@pytest.mark.parametrize("rows", ["memory", "pieces"])
def test_training_ends_at_the_first_iteration_after_its_time(rows, monkeypatch, tmp_path):
    data = DATA if rows == "memory" else ArraySource(DATA.X, DATA.y, piece_rows=25)
    monkeypatch.setattr(training, "perf_counter", count(1.0).__next__)  # a second for every look at the clock
    file, four = {"checkpoint": tmp_path / "c.npz"}, train(start(), data, 0.5, max_iter=4)
    late = train(start(), data, 0.5, max_time=TimeLimit(4.0, begun=0.0), **file)
    assert (late.converged, late.limit, late.n_iter) == (False, "max_time", 4)
    assert late.message == "the limit of 4 s was reached after 4 iterations"
    assert late.log_evidence == four.log_evidence == max(late.history)
    resumed, whole = train(start(), data, 0.5, **file), train(start(), data, 0.5)
    assert resumed.converged and resumed.log_evidence == whole.log_evidence
    assert resumed.n_evaluations == whole.n_evaluations


def test_restarts_for_which_no_time_is_left_are_left_out(monkeypatch):
    monkeypatch.setattr(training, "perf_counter", count(1.0).__next__)
    first = train(start(), DATA, 0.5)
    given = {"n_restarts": 3, "max_time": TimeLimit(first.n_iter + 1.0, begun=0.0)}
    result = train(start(), DATA, 0.5, **given)
    assert first.converged and result.log_evidence == first.log_evidence
    assert (result.converged, result.limit) == (False, "max_time")
    assert result.message.endswith("was reached after 1 of 4 starts")


@pytest.mark.parametrize("failure", ["exception", "nan", "infinite slope"])
def test_a_step_that_fails_is_turned_back_from(failure):
    """The evidence cannot be computed at noise below 0.3, where the climb would go: it stops short of there."""
    failed = []

    def gradient_of(model):
        fit, gradient = model_gradient(model, DATA, 0.5, 1e-8)
        if model.likelihood.noise_variance < 0.3:
            failed.append(model)
            if failure == "exception":
                raise np.linalg.LinAlgError("Kuu")
            if failure == "nan":
                object.__setattr__(fit, "log_evidence", np.nan)
            else:
                gradient["log_noise_variance"] = np.array(np.inf)
        return fit, gradient

    result = climb(start(), gradient_of, DATA.n_data, max_iter=5)  # later steps leave the range of the parameters, which is a rejection as well
    assert failed
    assert result.n_rejected == len(failed)
    assert result.log_evidence > model_evidence(start(), DATA, 0.5, 1e-8).log_evidence + 1
    assert result.model.likelihood.noise_variance >= 0.3
    # SciPy may return the value of the last trial with the point before it: value and model must belong together.
    assert result.log_evidence == model_evidence(result.model, DATA, 0.5, 1e-8).log_evidence
    assert result.log_evidence >= result.history[-1]


def test_a_single_failure_does_not_end_the_climb():
    calls = []

    def gradient_of(model):
        calls.append(model)
        if len(calls) == 4:
            raise np.linalg.LinAlgError("once")
        return model_gradient(model, DATA, 0.5, 1e-8)

    result = climb(start(), gradient_of, DATA.n_data, tol=1e-7)
    best = train(start(), DATA, 0.5, tol=1e-7)
    assert result.n_rejected == 1
    assert result.n_iter > 5
    assert error(result.log_evidence, best.log_evidence) < 0.02


def test_a_start_that_cannot_be_evaluated_is_an_error():
    def gradient_of(model):
        raise np.linalg.LinAlgError("at the start")

    with pytest.raises(np.linalg.LinAlgError, match="at the start"):
        climb(start(), gradient_of, 10)


def test_other_errors_are_not_swallowed():
    calls = []

    def gradient_of(model):
        calls.append(model)
        if len(calls) == 3:
            raise TypeError("a mistake")
        return model_gradient(model, DATA, 0.5, 1e-8)

    with pytest.raises(TypeError, match="a mistake"):
        climb(start(), gradient_of, DATA.n_data)


def test_jitter_that_was_needed_on_the_way_is_reported():
    singular = Model(
        SquaredExponential(1.0, [1.0]), InducingPoints(np.repeat(np.linspace(0, 6, 4), 3)[:, None]), Gaussian(0.5)
    )
    result = train(singular, DATA, jitter=0.0, max_iter=5)
    assert result.jitter > 0.0
    assert train(start(), DATA, jitter=0.0, max_iter=5, fixed={"features.Z", "kernel.log_lengthscale"}).jitter == 0.0


@pytest.mark.parametrize("case", ["duplicates", "constant column", "large offset", "y tiny", "two data"])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_odd_data_train_without_an_exception(case, power):
    X, y = wave(20)
    X = np.column_stack([X, np.cos(3 * X)])
    if case == "duplicates":
        X, y = np.vstack([X, X]), np.concatenate([y, y])
    elif case == "constant column":
        X[:, 1] = 7.0
    elif case == "large offset":
        X = X + 1e6
    elif case == "y tiny":
        y = 1e-9 * y
    else:
        X, y = X[:2], y[:2]
    Z = InducingPoints(kmeans_points(X, 5, np.random.default_rng(0)))
    first = Model(initial_kernel(X, y), Z, Gaussian(float(np.var(y))))
    result = train(first, Piece(0, X, y), power, max_iter=25)
    assert np.isfinite(result.log_evidence)
    assert result.log_evidence > model_evidence(first, Piece(0, X, y), power, 1e-8).log_evidence


def counted(N=30, seed=0):
    """Counts of a wave (N, 1), (N,)."""
    X, y = wave(N, seed)
    return X, np.random.default_rng(seed).poisson(np.exp(1.0 + y)).astype(float)


def counting(likelihood=None):
    return start(likelihood=likelihood or Poisson())


def test_names_of_the_parameters():
    assert list(start().parameters()) == [
        "kernel.log_variance",
        "kernel.log_lengthscale",
        "log_noise_variance",
        "features.Z",
    ]
    own = {
        Probit(): [],
        NegativeBinomial(): ["log_dispersion"],
        StudentT(): ["log_scale"],
        NoisyProbit(): ["log_odds_flip"],
    }
    for likelihood, names in own.items():
        model = counting(likelihood=likelihood)
        assert list(model.parameters()) == ["kernel.log_variance", "kernel.log_lengthscale", *names, "features.Z"]
        moved = model.with_parameters({name: value + 0.5 for name, value in model.parameters().items()})
        assert type(moved.likelihood) is type(likelihood)
        for name, value in model.parameters().items():
            assert error(moved.parameters()[name], value + 0.5, 1.0 + np.max(np.abs(value))) < 1e-13


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_training_with_sites_that_are_searched_for(power):
    X, y = counted()
    poor = replace(counting(), kernel=SquaredExponential(0.1, [0.3]))
    result = train(poor, Piece(0, X, y), power, max_iter=30)
    first = model_evidence(poor, Piece(0, X, y), power, 1e-8).log_evidence
    assert result.log_evidence > first + 10
    fresh = model_evidence(result.model, Piece(0, X, y), power, 1e-8)
    assert error(result.log_evidence, fresh.log_evidence) < SITE_TOL**2
    assert np.all(np.diff(result.history) >= 0)
    assert 0 < result.n_sweeps < 5 * result.n_evaluations
    assert error(result.fit.log_evidence, result.log_evidence) == 0
    assert result.fit.shards is None
    again = model_evidence(result.model, Piece(0, X, y), power, 1e-8, start=result.fit.start)
    assert again.n_sweeps < fresh.n_sweeps
    assert train(start(), Piece(0, *wave()), power, max_iter=3).n_sweeps == 0


def test_each_inference_starts_from_the_last_that_converged(monkeypatch):
    """And from nothing where that leads nowhere, or breaks."""
    X, y = counted()
    starts = []

    search = models.fixed_point

    def watched(shards, Kuu, sites, tol, **options):
        starts.append(sites)
        if sites is not None and len(starts) == 3:
            raise np.linalg.LinAlgError("improper")
        fit = search(shards, Kuu, sites, tol, **options)
        return replace(fit, converged=False, n_sweeps=1000) if len(starts) == 5 else fit

    monkeypatch.setattr(models, "fixed_point", watched)
    gradient_of = WarmGradient(Piece(0, X, y), power=0.5, jitter=1e-8)
    model, fits = counting(), []
    for variance in (1.0, 1.1, 1.2, 1.3):
        fits.append(gradient_of(replace(model, kernel=SquaredExponential(variance, [1.0])))[0])
    at = [fit.start for fit in fits]
    expected = [None, at[0], at[1], None, at[2], None]
    assert [sites is None for sites in starts] == [sites is None for sites in expected]
    for got, sites in zip(starts, expected):
        if sites is not None:
            np.testing.assert_array_equal(got, sites)
    assert fits[3].converged
    assert 1000 < fits[3].n_sweeps < 1100


def test_sites_that_do_not_settle_are_turned_back_from():
    X, y = counted()

    def gradient_of(model):
        fit, gradient = model_gradient(model, Piece(0, X, y), 0.5, 1e-8)
        return (replace(fit, converged=False) if model.kernel.variance > 1.1 else fit), gradient

    result = climb(counting(), gradient_of, len(y), max_iter=8)
    assert result.n_rejected > 0
    assert result.model.kernel.variance <= 1.1
    assert result.fit.converged
    outside = replace(counting(), kernel=SquaredExponential(1.2, [1.0]))
    assert np.isfinite(climb(outside, gradient_of, len(y), max_iter=1).log_evidence)  # a start has to do


def test_a_likelihood_at_the_edge_of_its_range_is_turned_back_from():
    """exp(40) odds round a flip probability to one half, which is none."""
    X, y = wave(25)
    model = counting(likelihood=NoisyProbit(0.05))
    objective = Ascent(model, lambda m: model_gradient(m, Piece(0, X, np.sign(y)), 1.0, 1e-8))
    vector = to_vector(model.parameters())
    value, _ = objective(vector)
    vector[2] = 40.0
    worse, slope = objective(vector)
    assert worse > value
    assert not slope.any()
    assert objective.n_rejected == 1


def test_where_the_latent_function_starts():
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    assert Gaussian().latent_variance(y) == np.var(y)
    assert 0.7 < StudentT().latent_variance(np.append(y, [1e6, -1e6])) < 1.3
    flat = np.append(np.zeros(20), [1.0, 2.0])
    assert StudentT().latent_variance(flat) == np.var(flat)  # its middle half has no width
    counts = rng.poisson(50.0, size=400).astype(float)
    assert error(Poisson().latent_variance(counts), np.log(50) ** 2) < 0.02
    assert Probit().latent_variance(np.sign(y)) == Softmax(3).latent_variance(np.arange(3.0)) == 1.0
    assert Gaussian(1e9).within_range(y).noise_variance == np.var(y)
    assert Gaussian(1e-9).within_range(y).noise_variance == 1e-3 * np.var(y)
    assert Gaussian(0.1).within_range(y) == Gaussian(0.1)
    assert StudentT(3.0, 1e9).within_range(y).df == 3.0
    assert 0.7 < StudentT(3.0, 1e9).within_range(y).scale < 1.3
    assert NegativeBinomial(7.0).within_range(counts) == NegativeBinomial(7.0)


def test_a_line_search_that_makes_the_function_absurdly_wide_is_turned_back():
    """Its quadrature would take minutes, for several classes."""
    X, labels = np.random.default_rng(42).uniform(size=(15, 30)), np.arange(15) % 3
    wide = Model(SquaredExponential(1e8, np.ones(30)), InducingPoints(X[:4]), Softmax(3))
    gradient_of = WarmGradient(Piece(0, X, labels), power=0.5, jitter=1e-8)
    gradient_of(replace(wide, kernel=SquaredExponential(1.0, np.ones(30))))
    with pytest.raises(np.linalg.LinAlgError, match="out of range"):
        gradient_of(wide)
