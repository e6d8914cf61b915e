"""Where training starts, how it rises, and what it does when a step fails."""

import warnings
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest
from conftest import user_warning, value_error
from laws.adapter import ended
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from reference import dense
from reference.compare import error
from sklearn.exceptions import ConvergenceWarning

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep import model as models
from sparse_pep.data.sources import ArraySource
from sparse_pep.datasets import load_regression
from sparse_pep.estimators import conclude
from sparse_pep.features import InducingPoints, Wavelet
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import Linear, SquaredExponential
from sparse_pep.likelihoods import (
    Gaussian,
    NegativeBinomial,
    NoisyProbit,
    Poisson,
    Softmax,
    StudentT,
)
from sparse_pep.model import Model, evidence_and_gradient, model_evidence
from sparse_pep.training import (
    LBFGS,
    Adam,
    TrainingOptions,
    greedy_points,
    held_out_power,
    initial_kernel,
    kmeans_points,
    lbfgs,
    options,
    run,
    stochastic,
    train,
)
from sparse_pep.training.initialise import (
    NOISES,
    SHORTER,
    column_spread,
    search_initial_lengthscale,
)
from sparse_pep.training.lbfgs import (
    SITE_TOL,
    Objective,
    WarmEvidence,
    maximise,
)
from sparse_pep.training.options import Clock
from sparse_pep.training.run import perturbed


def wave(N=60, seed=0, noise=0.1):
    """A noisy sine (N, 1), (N,)."""
    rng = default_rng(seed)
    X = np.sort(rng.uniform(0, 6, (N, 1)), axis=0)
    return X, np.sin(X[:, 0]) + noise * rng.normal(size=N)


DATA = Rows(*wave())
PROBLEM = Problem(DATA, jitter=1e-8)


def start(M=6, likelihood=None):
    points = InducingPoints(np.linspace(0.2, 5.8, M)[:, None])
    return Model(SquaredExponential(1.0, [1.0]), points, likelihood or Gaussian(0.5))


def trained(model, rows=DATA, clock=None, **how):
    """A training by L-BFGS with these arguments."""
    return train(model, Problem(rows, jitter=1e-8), TrainingOptions(LBFGS(**how)), clock=clock)


def counts_of_a_wave():
    """Counts, and a model of them."""
    X, y = wave(30)
    return Rows(X, default_rng(0).poisson(np.exp(1.0 + y)).astype(float)), start(
        likelihood=Poisson()
    )


def evidence_of(model):
    return evidence_and_gradient(model, PROBLEM)


def test_greedy_points_follow_the_diagonal_and_stop_when_nothing_is_left_to_explain():
    X = default_rng(0).normal(size=(15, 2))
    kernel = Linear(1.0) + SquaredExponential(0.1, 0.7)  # not stationary
    assert_array_equal(greedy_points(kernel, X, 6), X[dense.pivoted_cholesky(kernel(X), 6)])
    X[0] = 0.0
    assert len(greedy_points(Linear(1.0), X, 6)) == 2  # the rank


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_starting_values_have_the_units_of_the_data(scale):
    X = default_rng(0).normal(size=(60, 2))
    first, second = (kmeans_points(X * [1.0, s], 6, default_rng(0)) for s in (1.0, scale))
    assert error(second, first * [1.0, scale], np.max(np.abs(second))) < 1e-9
    kernel = initial_kernel(X * [1.0, scale], scale * X[:, 0])
    assert error(kernel.variance, scale**2 * np.var(X[:, 0])) < 1e-14
    assert error(kernel.lengthscale, np.sqrt(2) * X.std(0) * [1.0, scale]) < 1e-14


@pytest.mark.parametrize("value", [0.0, 0.1, 0.7, -np.pi * 1e9])
@pytest.mark.parametrize("N", [1, 10, 13])
def test_spread_of_a_constant_column_is_one(value, N):
    """Also where the mean is rounded, so that the standard deviation as computed is not quite 0."""
    X = np.column_stack([np.full(N, value), value + np.arange(N)])
    assert column_spread(X)[0] == 1.0
    assert error(column_spread(X)[1], np.std(np.arange(N)) if N > 1 else 1.0) < 1e-6


WAVES = lambda Z: Wavelet(Z, np.ptp(Z, axis=0) / 9, 3 / np.ptp(Z, axis=0))


@pytest.mark.parametrize(
    "features", [lambda Z: InducingPoints(Z[:1]), lambda Z: InducingPoints(Z * [1, 0]), WAVES]
)
def test_training_takes_the_same_path_in_all_units(features):
    """Also with one inducing point, with points in a row, and with trained frequencies."""
    X = default_rng(0).normal(size=(30, 2))
    paths = []
    for unit in (1.0, 2.0**-70, 2.0**70):
        first = Model(SquaredExponential(1.0, [unit, unit]), features(unit * X[:5]), Gaussian(0.1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            paths.append(trained(first, Rows(unit * X, np.sin(X[:, 0])), max_iter=9).history)
    assert_allclose(paths[1:], [paths[0]] * 2, rtol=1e-6)


def test_where_the_latent_function_starts():
    y = (rng := default_rng(0)).normal(size=400)
    assert Gaussian().latent_variance(y) == np.var(y)
    # its middle half has no width
    assert StudentT().latent_variance(flat := np.append(np.zeros(20), [1.0, 2.0])) == np.var(flat)
    counts = rng.poisson(50.0, size=400).astype(float)
    assert Gaussian(1e9).within_range(y).noise_variance == np.var(y)
    assert Gaussian(1e-9).within_range(y).noise_variance == 1e-3 * np.var(y)
    assert Gaussian(0.1).within_range(y) == Gaussian(0.1)
    assert 0.7 < StudentT(3.0, 1e9).within_range(y).scale < 1.3
    assert NegativeBinomial(7.0).within_range(counts) == NegativeBinomial(7.0)


def test_it_stops_when_it_hardly_rises_any_more():
    X = (rng := default_rng(0)).normal(size=(120, 5))
    y = np.sin(2 * X).sum(1) + 0.1 * rng.normal(size=120)
    # a long way
    first = Model(SquaredExponential(1.0, np.ones(5)), InducingPoints(X[:20]), Gaussian(0.5))
    result = trained(first, Rows(X, y))
    windows = np.clip(0.15 * np.arange(result.n_iter + 1), 20, 60).astype(int)
    steps = np.arange(result.n_iter + 1)
    full = steps >= windows
    history = np.array(result.history)
    gains = (history - history[np.maximum(steps - windows, 0)])[full]
    assert result.converged
    assert (
        result.message
        == f"the last {windows[-1]} iterations gained less than 0.0005 nats per data point"
    )
    assert windows[-1] > 20
    assert gains[-1] < 5e-4 * len(y)
    assert np.all(gains[:-1] >= 5e-4 * len(y))


def test_restarts_start_elsewhere_and_the_best_is_kept():
    # takes everything for noise
    fixed = {"features.Z"}
    poor = Model(SquaredExponential(1e-3, [1e3]), start().features, Gaussian(1.0))
    ends = [
        train(
            poor, PROBLEM, TrainingOptions(LBFGS(max_iter=30, n_restarts=n), fixed=fixed)
        ).log_evidence
        for n in (0, 1, 6)
    ]
    assert ends[0] <= ends[1] <= ends[2]
    model = perturbed(poor, default_rng(0), {"log_noise_variance"})
    assert model.kernel.variance != poor.kernel.variance
    assert error(model.likelihood.noise_variance, poor.likelihood.noise_variance) < 1e-15
    assert_array_equal(model.features.Z, poor.features.Z)
    both = poor, perturbed(poor, default_rng(0), fixed)
    assert ends[1] == max(
        maximise(Objective(model, evidence_of, fixed), LBFGS(max_iter=30), 60).log_evidence
        for model in both
    )


def test_eleven_iterations_take_at_most_sixteen_evidences(monkeypatch):
    search = models.fixed_point
    computed = []

    def counted(*arguments):
        computed.append(arguments)
        return search(*arguments)

    monkeypatch.setattr(models, "fixed_point", counted)
    data = load_regression("diabetes")
    model = SparsePEPRegressor(n_inducing=30, random_state=0, training=LBFGS(max_iter=11))
    with pytest.warns(ConvergenceWarning):
        model.fit(data.X, data.y)
    assert model.n_iter_ == 11
    assert len(computed) <= 16


@pytest.mark.parametrize("turns", [1, 5, 30])
def test_the_initial_lengthscale_is_that_of_the_highest_evidence(turns):
    X = np.linspace(0.0, 1.0, 200)[:, None]
    rows = Rows(X, np.sin(2 * np.pi * turns * X[:, 0]))
    model = Model(initial_kernel(X, rows.y), InducingPoints(X[::3]), Gaussian())
    evidences = {}
    for factor in SHORTER:
        lengthscale = factor * model.kernel.lengthscale
        for share in NOISES:
            kernel = replace(model.kernel, lengthscale=lengthscale)
            noisy = Model(kernel, model.features, Gaussian(share * kernel.variance))
            evidence = model_evidence(noisy, Problem(rows, jitter=1e-8)).log_evidence
            evidences[evidence] = lengthscale
    chosen = search_initial_lengthscale(model, rows)
    assert chosen.kernel.lengthscale == evidences[max(evidences)]


def test_a_restart_that_cannot_start_is_passed_over():
    # out of range half of the time
    edge = Model(start().kernel, start().features, Gaussian(np.exp(99.9)))
    assert np.isfinite(trained(edge, max_iter=3, n_restarts=6).log_evidence)


def test_a_diverged_fit_is_neither_compared_nor_trained_from(monkeypatch):
    search = models.fixed_point

    def astray(*arguments, **options):
        fit = replace(search(*arguments, **options), log_evidence=1e15)
        return ended(fit, converged=False, usable=False, change=20.0)

    monkeypatch.setattr(models, "fixed_point", astray)
    assert np.isnan(model_evidence(start(), Problem(DATA)).log_evidence)
    with pytest.raises(
        np.linalg.LinAlgError, match="start from a smaller kernel variance or more noise"
    ):
        train(start(), PROBLEM)
    *_, sweep = held_out_power(start(), PROBLEM, rng=default_rng(0), powers=(0.0, 1.0))
    assert np.all(np.isneginf(sweep["log_density"]))


def test_a_run_whose_sites_have_not_converged_is_not_the_best(monkeypatch):
    good = trained(start(), max_iter=1)
    loose = replace(good, fit=ended(good.fit, converged=False), objective=1e15)
    monkeypatch.setattr(
        run,
        "maximise",
        partial(lambda runs, *arguments: next(runs), iter([loose, good, loose])),
    )
    assert trained(start(), n_restarts=2) is good


@pytest.mark.parametrize("rows", ["memory", "pieces"])
def test_training_ends_before_the_first_evaluation_after_its_time(rows, monkeypatch, tmp_path):
    data = DATA if rows == "memory" else ArraySource(DATA.X, DATA.y, piece_rows=25)
    # a second for every look at the clock: before an evaluation and at the end of an iteration
    monkeypatch.setattr(options, "perf_counter", count(1.0).__next__)
    saved = {"checkpoint": tmp_path / "c.npz"}
    two = trained(start(), data, max_iter=2)
    assert (two.converged, two.limit, two.message) == (
        False,
        "max_iter",
        "still rising after 2 iterations",
    )
    late = trained(start(), data, Clock(8.0, begun=0.0), **saved)
    assert (late.converged, late.limit, late.n_iter) == (False, "max_time", 2)
    assert late.message == "the limit of 8 s was reached after 2 iterations"
    assert late.log_evidence == two.log_evidence == max(late.history)
    resumed = trained(start(), data, **saved)
    whole = trained(start(), data)
    assert resumed.converged
    assert resumed.log_evidence == whole.log_evidence
    assert resumed.counts == whole.counts
    with value_error("other data or arguments"):
        trained(start(), ArraySource(DATA.X, -DATA.y, piece_rows=25), **saved)


@pytest.mark.parametrize("seconds", range(1, 25, 4))
def test_a_search_for_sites_ends_with_the_time_and_the_checkpoint_does_not_know(
    seconds, monkeypatch, tmp_path
):
    counts, model = counts_of_a_wave()
    saved = {"checkpoint": tmp_path / "c.npz"}
    whole = trained(model, counts, max_iter=5)
    with monkeypatch.context() as patch:  # a second for every sweep
        patch.setattr(options, "perf_counter", count(1.0).__next__)
        late = trained(model, counts, Clock(seconds, begun=0.0), max_iter=5, **saved)
    assert late.counts["n_sweeps"] <= seconds + options.GRACE
    assert (late.converged, late.limit) == (False, "max_time")
    assert f"the limit of {seconds} s was reached" in late.message
    resumed = trained(model, counts, max_iter=5, **saved)
    assert resumed.log_evidence == whole.log_evidence
    assert resumed.counts == whole.counts


@pytest.mark.parametrize("likelihood", ["poisson", "beta", "ordinal", "heteroscedastic_gaussian"])
def test_a_fit_without_time_for_the_first_search_gives_the_starting_values(likelihood, monkeypatch):
    X, y = wave()
    y = {"beta": 0.5 + 0.3 * y, "heteroscedastic_gaussian": y}.get(likelihood, np.round(2 * y + 3))
    monkeypatch.setattr(options, "GRACE", -1.0)
    hurried = SparsePEP(likelihood=likelihood, n_inducing=5, training=LBFGS(max_time=1e-9))
    with pytest.warns(ConvergenceWarning, match="before the sites of the starting values"):
        hurried.fit(X, y)
    assert (hurried.converged_, hurried.n_iter_) == (False, 0)
    assert hurried.diagnostics_["sweeps_last"] == 0
    assert np.isfinite(hurried.predict(X)).all()
    assert "the limit of 1e-09 s was reached" in hurried.summary()


def test_a_limit_of_time_holds_within_a_pass_over_the_rows(monkeypatch):
    labels = np.arange(600) % 60
    X = np.cos(labels)[:, None]
    model = SparsePEPClassifier(n_inducing=5, training=None).fit(X, labels % 2)
    model.training = LBFGS(max_time=3.0)
    looks = count(options.perf_counter() + 1.0)  # a second apart
    monkeypatch.setattr(options, "perf_counter", looks.__next__)
    with value_error(r"`max_time` is 3 s: after 1. s no pass over the 600 rows"):
        model.fit(X, labels)
    assert len(model.classes_) == 2  # those of before


HOLDS = {"n_inducing": 5, "random_state": 0}
STOPPED = {  # what calls `evidence_and_gradient` or `visit`, and when it is stopped
    "memory": ({"training": LBFGS(max_iter=9)}, [2, 5]),
    "pieces": ({"training": LBFGS(max_iter=9)}, [2, 5]),
    "restarts": ({"training": LBFGS(max_iter=5, tol=1e-9, n_restarts=2)}, [3, 9, 16]),
    "growth": ({"training": LBFGS(max_iter=5, tol=1e-9), "n_inducing": "auto"}, [3, 5]),
    "search for a power": (
        {"training": LBFGS(max_iter=5, tol=1e-9), "power": "held_out"},
        [3, 8, 33],
    ),
    "batches": ({"training": Adam(batch_size=30, n_epochs=5)}, [7, 12]),
}


@pytest.mark.parametrize("case", STOPPED)
def test_ctrl_c_keeps_the_best_model_so_far(case, monkeypatch):
    options, moments = STOPPED[case]
    calls = []
    stops = set()
    given = (ArraySource(DATA.X, DATA.y, piece_rows=25),) if case == "pieces" else (DATA.X, DATA.y)

    def stopping(through, *arguments, **named):
        if calls.append(0) or len(calls) in stops:
            raise KeyboardInterrupt
        return through(*arguments, **named)

    def fitted(*when):
        calls.clear(), stops.clear(), stops.update(when)
        return SparsePEPRegressor(**HOLDS | options).fit(*given)

    # growth of few rows would begin with the exact process
    monkeypatch.setattr("sparse_pep.estimators.strategies.MOST_INPUTS", (0, 0))
    for module, name in ((lbfgs, "evidence_and_gradient"), (stochastic, "visit")):
        monkeypatch.setattr(module, name, partial(stopping, getattr(module, name)))
    # the last inference
    monkeypatch.setattr(conclude, "model_evidence", partial(stopping, models.model_evidence))
    whole = fitted()
    last = len(calls)
    for moment in (*moments, last):
        with pytest.warns(
            ConvergenceWarning, match="it was interrupted.*the model is the best so far"
        ):
            model = fitted(moment)
        assert model.diagnostics_["interrupted"]
        assert not model.converged_
        assert "training was interrupted" in model.summary()
        assert (
            case == "batches"
            or model.log_marginal_likelihood_value_
            > max(model.diagnostics_["log_evidence_trace"]) - 1e-6
        )
    assert np.array_equal(model.predict(DATA.X), whole.predict(DATA.X))
    assert not whole.diagnostics_["interrupted"]
    for passed_on in ((1,), (last, last + 1)):  # there is nothing to keep, or it comes again
        with pytest.raises(KeyboardInterrupt):
            fitted(*passed_on)


@pytest.mark.parametrize("failure", ["exception", "nan", "infinite slope", "sites"])
def test_a_step_that_fails_is_turned_back_from(failure):
    """The evidence cannot be computed at noise below 0.3, where training would go: it stops
    short of there.
    """
    failed = []

    def evidence(model):
        fit, gradient = evidence_of(model)
        if model.likelihood.noise_variance < 0.3:
            failed.append(model)
            if failure == "exception":
                raise np.linalg.LinAlgError("Kuu")
            if failure == "infinite slope":
                gradient[2] = np.inf
            fit = replace(fit, log_evidence=np.nan) if failure == "nan" else fit
            fit = ended(fit, converged=False) if failure == "sites" else fit
        return fit, gradient

    # later steps leave the range of the parameters, which is a rejection as well
    result = maximise(Objective(start(), evidence), LBFGS(max_iter=5), DATA.n_data)
    assert failed
    assert result.counts["n_rejected"] == len(failed)
    assert result.log_evidence > model_evidence(start(), PROBLEM).log_evidence + 1
    assert result.model.likelihood.noise_variance >= 0.3
    assert result.fit.converged
    # SciPy may return the value of the last trial with the point before it: value and model must
    # belong together
    assert result.log_evidence == model_evidence(result.model, PROBLEM).log_evidence
    assert result.log_evidence >= result.history[-1]


def test_a_run_that_scipy_ends_early_goes_on_without_its_history(monkeypatch):
    """It calls a step that ends where it began convergence."""
    real = lbfgs.minimize
    ends = []

    def early(*arguments, options, **given):
        ends.append(
            real(
                *arguments,
                options=options | {"maxiter": options["maxiter"] if ends else 2},
                **given,
            )
        )
        ends[-1].update(status=0, success=True)
        return ends[-1]

    monkeypatch.setattr(lbfgs, "minimize", early)
    assert maximise(Objective(start(), evidence_of), LBFGS(), DATA.n_data).log_evidence > 35.7
    assert len(ends) == 3


@pytest.mark.parametrize(
    "error_, at", [(np.linalg.LinAlgError, 4), (np.linalg.LinAlgError, 1), (TypeError, 3)]
)
def test_one_failure_ends_training_at_the_start_or_if_it_is_a_mistake(error_, at):
    calls = []

    def evidence(model):
        calls.append(model)
        if len(calls) == at:
            raise error_("once")
        return evidence_of(model)

    if at != 4:
        with pytest.raises(error_, match="once"):
            maximise(Objective(start(), evidence), LBFGS(), DATA.n_data)
        return
    result = maximise(Objective(start(), evidence), LBFGS(tol=1e-7), DATA.n_data)
    best = trained(start(), tol=1e-7)
    assert result.counts["n_rejected"] == 1
    assert result.n_iter > 5
    assert error(result.log_evidence, best.log_evidence) < 0.02


def test_a_start_whose_sites_have_not_converged_has_to_do():
    outside = lambda model: (ended(evidence_of(model)[0], converged=False), evidence_of(model)[1])
    assert np.isfinite(maximise(Objective(start(), outside), LBFGS(max_iter=1), 60).log_evidence)


def test_a_likelihood_at_the_edge_of_its_range_is_turned_back_from():
    """exp(40) odds round a flip probability to one half, which is none."""
    X, y = wave(25)
    model = start(likelihood=NoisyProbit(0.05))
    objective = Objective(
        model, lambda m: evidence_and_gradient(m, Problem(Rows(X, np.sign(y)), 1.0, jitter=1e-8))
    )
    objective(objective.start)
    vector = objective.start.copy()
    vector[2] = 40.0
    with pytest.raises(np.linalg.LinAlgError, match="out of range"):
        objective(vector)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_training_with_sites_that_are_searched_for(power):
    data, model = counts_of_a_wave()
    poor = replace(model, kernel=SquaredExponential(0.1, [0.3]))
    result = train(poor, Problem(data, power, jitter=1e-8), TrainingOptions(LBFGS(max_iter=30)))
    problem = Problem(data, power, jitter=1e-8)
    assert result.log_evidence > model_evidence(poor, problem).log_evidence + 10
    fresh = model_evidence(result.model, problem)
    assert error(result.log_evidence, fresh.log_evidence) < SITE_TOL**2
    assert np.all(np.diff(result.history) >= 0)
    assert 0 < result.counts["n_sweeps"] < 5 * result.counts["n_evaluations"]
    assert result.fit.shards is None
    assert model_evidence(result.model, problem, result.fit.start).n_sweeps < fresh.n_sweeps


def test_each_inference_starts_from_the_last_that_converged(monkeypatch):
    """And from nothing where that leads nowhere, or breaks."""
    data, model = counts_of_a_wave()
    starts = []
    search = models.fixed_point

    def watched(shards, Kuu, search_options):
        starts.append(search_options.start)
        if starts[-1] is not None and len(starts) == 3:
            raise np.linalg.LinAlgError("improper")
        fit = search(shards, Kuu, search_options)
        return ended(fit, converged=False, n_sweeps=1000) if len(starts) == 5 else fit

    monkeypatch.setattr(models, "fixed_point", watched)
    evidence = WarmEvidence(Problem(data, jitter=1e-8))
    fits = []
    for variance in (1.0, 1.1, 1.2, 1.3):
        fits.append(evidence(replace(model, kernel=SquaredExponential(variance, [1.0])))[0])
    expected = [None, fits[0].start, fits[1].start, None, fits[2].start, None]
    for got, sites in zip(starts, expected, strict=True):
        assert_array_equal(got, sites)
    assert fits[3].converged
    assert 1000 < fits[3].n_sweeps < 1100


@pytest.mark.parametrize("pieces", [False, True])
def test_a_line_search_that_makes_the_function_absurdly_wide_is_turned_back(pieces):
    """Its quadrature would take minutes, for several classes."""
    X = default_rng(42).uniform(size=(15, 30))
    labels = np.arange(15) % 3.0
    data = ArraySource(X, labels, piece_rows=2) if pieces else Rows(X, labels)
    wide = Model(SquaredExponential(1e8, np.ones(30)), InducingPoints(X[:4]), Softmax(3))
    evidence = WarmEvidence(Problem(data, jitter=1e-8))
    evidence(replace(wide, kernel=SquaredExponential(1.0, np.ones(30))))
    with pytest.raises(np.linalg.LinAlgError, match="out of range"):
        evidence(wide)


def test_targets_with_sentinels_are_scaled_by_their_median_and_quartiles():
    rng = default_rng(0)
    x = np.linspace(0.0, 10.0, 300)[:, None]
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=300)
    y[rng.choice(300, 15, replace=False)] = -9999.0
    model = SparsePEP(likelihood="student_t", n_inducing=15, random_state=0).fit(x, y)
    assert np.sqrt(np.mean((model.predict(x) - np.sin(x[:, 0])) ** 2)) < 0.03


@pytest.mark.parametrize("weight", [None, np.ones(40)])
def test_the_robust_scale_is_found_where_most_targets_are_equal(weight):
    y = np.append(np.zeros(30), [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1e6, 1e6])
    centre, scale = StudentT().target_scale(y, weight)
    assert centre == 0.0 and 1.0 < scale < 2.0
    assert StudentT().target_scale(np.full(5, 3.0)) is None


X_FAR = np.linspace(0.0, 1.0, 40)[:, None]
LOG_RATE = 12.0 + np.sin(6.0 * X_FAR[:, 0])
FAR_TARGETS = {
    "poisson": lambda rng: rng.poisson(np.exp(LOG_RATE)),
    "negative_binomial": lambda rng: rng.poisson(np.exp(LOG_RATE) * rng.gamma(20.0, 0.05, 40)),
    "gamma": lambda rng: np.exp(LOG_RATE) * rng.gamma(20.0, 0.05, 40),
    "weibull": lambda rng: np.exp(LOG_RATE) * rng.weibull(5.0, 40),
    "beta": lambda rng: 1.0 / (1.0 + np.exp(7.0 - LOG_RATE + 0.1 * rng.normal(size=40))),
    "tobit": lambda rng: np.maximum(0.0, np.exp(LOG_RATE) + 1e3 * rng.normal(size=40)),
}


@pytest.mark.parametrize("name", FAR_TARGETS)
def test_far_from_the_data_amounts_return_to_the_level_of_the_data(name):
    y = FAR_TARGETS[name](default_rng(0))
    model = SparsePEP(likelihood=name, n_inducing=10, random_state=0).fit(X_FAR, y)
    with user_warning("beyond the training data"):
        (far,) = model.predict_quantiles([[9.0]], 0.5)[:, 0]
    assert y.min() < far < y.max()


def test_parameters_that_are_kept_as_given_have_no_mean_of_their_own():
    counts = 5.0 + (X_FAR[:, 0] > 0.5)
    model = SparsePEP(likelihood="poisson", training=None).fit(X_FAR, counts)
    assert model.mean_.parameters() == {}


def series_with_outages():
    rng = default_rng(2)
    hours = np.arange(300.0)
    y = 103.0 + 0.7 * np.sin(2.0 * np.pi * hours / 24.0) + 0.4 * rng.normal(size=300)
    for start, length in ((100, 5), (200, 8)):
        y[start : start + length] = 25.0 + rng.uniform(0.0, 40.0, length)
    rows = np.sort(rng.permutation(300)[:225])
    return hours[rows, None], y[rows]


@pytest.mark.parametrize("column", [False, True])
def test_outages_are_not_explained_as_noise_that_costs_nothing(column):
    X, y = series_with_outages()
    with user_warning("cannot be trusted.* at power 0 was taken"):
        model = SparsePEPRegressor(random_state=0).fit(X, y[:, None] if column else y)
    direct = SparsePEPRegressor(random_state=0, power=0.0).fit(X, y)
    low, _ = model.log_marginal_likelihood_bounds()
    assert model.power_ == 0.0 and model.diagnostics_["power_replaced"] == 0.5
    assert low == pytest.approx(direct.log_marginal_likelihood_bounds()[0], rel=1e-3)


def test_a_power_near_1_is_kept_with_a_warning():
    X, y = series_with_outages()
    with user_warning("cannot be trusted.*Compare with `power=0.0`"):
        model = SparsePEPRegressor(random_state=0, power=1.0).fit(X, y)
    assert model.power_ == 1.0


@pytest.mark.parametrize("power", [1.0, 0.9])
def test_rows_that_are_given_twice_in_a_block_are_warned_of_with_the_remedy(power):
    """The evidence rises without bound as each row predicts its copy."""
    rng = default_rng(0)
    X = rng.normal(size=(100, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=100)
    blocks = np.arange(100) // 10
    model = SparsePEPRegressor(power=power, n_inducing=15, random_state=0)
    words = "100 rows equal another row of their block.*give such rows once.*`sample_weight`"
    with user_warning(words):
        model.set_params(blocks=np.tile(blocks, 2)).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(blocks=blocks).fit(X, y, sample_weight=np.full(100, 2.0))
    assert 0.2 < model.noise_std_ < 0.6


@pytest.mark.filterwarnings("error")
def test_a_fit_with_narrow_bounds_keeps_its_power_in_silence():
    X, y = series_with_outages()
    model = SparsePEPRegressor(random_state=0, n_inducing=30).fit(X[:60], y[:60])
    assert model.power_ == 0.5


@pytest.mark.parametrize(
    "training", [LBFGS(max_iter=2.0, n_restarts=1.0), Adam(n_epochs=2.0, batch_size=10.0)], ids=repr
)
def test_whole_numbers_may_be_floats(training):
    rng = default_rng(0)
    X = rng.normal(size=(30, 1))
    model = SparsePEPRegressor(n_inducing=3.0, training=training, random_state=0)
    model.fit(X, np.sin(X[:, 0]))
    assert len(model.set_params(n_inducing=5.0).partial_fit(X + 0.1, X[:, 0]).features_) == 5
