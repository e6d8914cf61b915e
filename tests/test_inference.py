"""Power EP for any likelihood against exact numbers, dense references and itself."""

from dataclasses import replace

import numpy as np
import pytest
from reference import classification as dense
from reference.compare import error

from sparse_pep.features import InducingPoints
from sparse_pep.inference import energy_gradient, infer
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    Logit,
    NoisyProbit,
    Poisson,
    Probit,
    StudentT,
)
from sparse_pep.multiclass import Softmax
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.quadrature import STRICT
from sparse_pep.regression import predict_f
from sparse_pep.shards import Shard
from sparse_pep.sites import q_moments, sequential_sweep

KERNELS = {"se": SquaredExponential, "matern32": Matern32}
PROBLEMS = ["c01_1d", "c03_per_datum_alpha", "c04_Z_equals_X", "c05_matern32", "c07_large_variance"]


def covariances_of(kernel, features, X):
    """covariances(rows) → Kuf, kff, pull of adjoints onto log parameters and Z, one vector."""

    def covariances(rows):
        Kuf, pull_Kuf = features.Kuf_vjp(kernel, X[rows])
        kff, pull_kff = kernel.diag_vjp(X[rows])

        def pull(Kuf_bar, kff_bar):
            (by_kernel, by_features), by_diagonal = pull_Kuf(Kuf_bar), pull_kff(kff_bar)
            parts = [by_kernel[name] + by_diagonal[name] for name in by_kernel]
            return np.concatenate([np.ravel(part) for part in (*parts, by_features["Z"])])

        return Kuf, kff, pull

    return covariances


class Problem:
    """Kernel, inducing points, data and likelihood, and what the functions make of them."""

    def __init__(self, kernel, Z, X, y, likelihood):
        self.kernel, self.features, self.X, self.y = kernel, InducingPoints(Z), X, y
        self.likelihood, self.covariances = likelihood, covariances_of(kernel, self.features, X)

    def infer(self, power, **options):
        return infer(
            self.features.Kuu(self.kernel), self.covariances, self.likelihood, self.y, power, **{"tol": 1e-10} | options
        )

    def gradient(self, power):
        """∂ log Z over the kernel's parameters, Z and the likelihood's, one vector."""
        Kuu, pull_Kuu = self.features.Kuu_vjp(self.kernel)
        Kuu_bar, pulled, own, _ = energy_gradient(self.infer(power))
        by_kernel, by_features = pull_Kuu(Kuu_bar)
        more = [np.ravel(part) for part in (*by_kernel.values(), by_features["Z"])]
        return np.concatenate([pulled + np.concatenate(more), own])

    def predict(self, fit, X):
        return predict_f(fit.posteriors[0], self.features.Kuf(self.kernel, X), self.kernel.diag(X))

    def arrays(self):
        """Kuu, Kuf, kff."""
        return self.features.Kuu(self.kernel), self.features.Kuf(self.kernel, self.X), self.kernel.diag(self.X)


def of_file(vectors, name):
    data = next(problem for problem in vectors["classification"] if problem["id"] == name)
    kernel = KERNELS[data["kernel"]["name"]](data["kernel"]["variance"], data["kernel"]["lengthscales"])
    problem = Problem(kernel, np.array(data["Z"]), np.array(data["X"]), np.array(data["y"]), Probit())
    return problem, data


def small(likelihood, seed=0, N=25, M=5, variance=2.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(N, 1))
    y = likelihood.sample(1.5 * np.sin(1.7 * X[:, 0]), rng)
    return Problem(SquaredExponential(variance, 0.9), np.linspace(-2.5, 2.5, M)[:, None], X, y, likelihood)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_exact_numbers(vectors, name):
    problem, data = of_file(vectors, name)
    assert data["cases"]
    for case in data["cases"]:
        fit = problem.infer(np.array(case["alpha"]))
        assert fit.converged and fit.jitter == 0.0
        mean, var = problem.predict(fit, np.array(data["Xtest"]))
        q_mean, q_cov = q_moments(fit.posteriors[0])
        got = {
            "logZ": fit.log_evidence,
            "q_mean": q_mean,
            "q_cov": q_cov,
            "tau": fit.site_precision[0],
            "nu": fit.site_shift[0],
            "f_mean": mean,
            "f_var": var,
            "prob": Probit().predict_proba(mean, var)[:, 1],
        }
        for key, value in got.items():
            assert error(value, case[key]) < 1e-7, (key, case["alpha"])
        if "grad" in case:
            order = ("log_variance", "log_lengthscales", "Z")
            exact = np.concatenate([np.ravel(case["grad"][key]) for key in order])
            assert error(problem.gradient(np.array(case["alpha"])), exact) < 1e-6


def test_all_problems_of_the_file_are_tested(vectors):
    assert [problem["id"] for problem in vectors["classification"]] == PROBLEMS


def test_power_zero_is_the_variational_optimum():
    problem = small(Probit(), N=20, M=4)
    Kuu, Kuf, kff = problem.arrays()
    bound, q_mean, q_cov = dense.variational_optimum(dense.probit, problem.y, Kuu, Kuf, kff)
    fit = problem.infer(0.0)
    assert fit.log_evidence >= bound - 1e-7
    assert abs(fit.log_evidence - bound) < 1e-6
    got_mean, got_cov = q_moments(fit.posteriors[0])
    assert error(got_mean, q_mean) < 1e-5 and error(got_cov, q_cov) < 1e-5


@pytest.mark.parametrize("likelihood", [Logit(), Poisson()], ids=lambda likelihood: type(likelihood).__name__)
@pytest.mark.parametrize(("power", "step"), [(0.0, 0.7), (0.2, 1.0), (1.0, 1.0), (0.5, 0.5)])
def test_the_fixed_point_is_that_of_one_datum_after_the_other(likelihood, power, step):
    """The paper's procedure, with full steps and with those of fractional EP."""
    problem = small(likelihood, N=20)
    fit = problem.infer(power)
    Kuu, Kuf, _ = problem.arrays()
    Luu = factorise(Kuu)
    V, sites = solve_lower(Luu, Kuf), (np.zeros(20), np.zeros(20))

    def tilted(rows, mean, var, power):
        found = likelihood.tilted(problem.y[[rows]], np.array([mean]), np.array([var]), power)
        return [value[0] for value in found[:3]]

    for _ in range(40):
        before, sites = sites, sequential_sweep(Luu, V, fit.dff, tilted, *sites, power, step=step)
        if np.allclose(sites[0], before[0], rtol=1e-10, atol=0.0):
            break
    assert error(fit.site_precision[0], sites[0]) < 1e-7 and error(fit.site_shift[0], sites[1]) < 1e-7


@pytest.mark.parametrize("memory", [0, 2, 5])
def test_acceleration_changes_the_way_and_not_the_end(memory):
    problem = small(Probit(), N=40, M=8, variance=20.0)
    plain, fit = problem.infer(0.3, memory=0), problem.infer(0.3, memory=memory)
    assert fit.converged and error(fit.site_precision, plain.site_precision) < 1e-7
    assert fit.n_sweeps <= plain.n_sweeps if memory == 0 else fit.n_sweeps < plain.n_sweeps


@pytest.mark.parametrize("likelihood", [Probit(), Softmax(3)], ids=lambda likelihood: type(likelihood).__name__)
def test_nothing_kept_in_memory(likelihood, monkeypatch):
    problem = small(Probit(), N=40)
    problem.likelihood = likelihood
    problem.y = problem.y if isinstance(likelihood, Probit) else np.arange(40) % 3
    kept = problem.infer(0.5)
    monkeypatch.setattr("sparse_pep.shards.KEPT_V", 0)
    monkeypatch.setattr("sparse_pep.shards.KEPT_KUF", 0)
    again = problem.infer(0.5)
    assert kept.shards.local[0].kept and not again.shards.local[0].kept
    assert error(again.site_precision, kept.site_precision) < 1e-10
    for one, two in zip(energy_gradient(again), energy_gradient(kept)):
        assert error(one, two, 1.0) < 1e-8


def test_digits_of_the_projections_follow_the_search(monkeypatch):
    """A cold search begins with five and a warm one with nine; both end with nine."""
    problem, asked = small(Logit(), N=60), []
    through = Logit.tilted

    def recorded(self, y, mean, var, power, accuracy=STRICT):
        asked.append(accuracy.relative)
        return through(self, y, mean, var, power, accuracy)

    monkeypatch.setattr(Logit, "tilted", recorded)
    cold = problem.infer(0.5, tol=1e-8)
    assert asked[0] == 1e-9  # the start itself, under the prior
    assert asked[1] == 1e-5
    assert asked[-1] == 1e-9
    assert len(set(asked[1:])) > 2
    asked.clear()
    warm = problem.infer(0.5, tol=1e-8, start=cold.start)
    assert asked == [1e-9]
    assert warm.converged
    assert max(cold.quadrature_error, warm.quadrature_error) <= 1e-9


def test_stopped_early_says_so():
    fit = small(Probit()).infer(0.5, max_sweeps=2)
    assert not fit.converged and fit.n_sweeps == 2 and fit.change > 1e-10
    assert len(fit.trace) == 3


@pytest.mark.parametrize(
    ("power", "more", "words"),
    [
        (1.5, {}, "`power`"),
        (np.full(3, 0.5), {}, "`power`.*each of the 25 rows"),
        (0.5, {"weight": -1.0}, "`weight`"),
        (0.5, {"weight": np.full(25, np.nan)}, "`weight`"),
    ],
)
def test_what_does_not_fit_the_data(power, more, words):
    with pytest.raises(ValueError, match=words):
        small(Probit()).infer(power, **more)


def test_noise_variances_that_are_none():
    with pytest.raises(ValueError, match="`noise_variance`"):
        small(Gaussian(0.2)).infer(0.5, noise_variance=np.linspace(0.0, 1.0, 25))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("likelihood", [StudentT(2.0, 0.05), NoisyProbit(0.001)], ids=["student", "noisy"])
def test_not_log_concave_is_never_nan(likelihood, seed, power):
    problem = small(likelihood, seed=seed, N=40, M=8, variance=50.0)
    if isinstance(likelihood, StudentT):
        problem.y[::5] += 30.0 * (-1) ** np.arange(8)
    fit = problem.infer(power, max_sweeps=60)
    mean, var = problem.predict(fit, np.linspace(-5, 5, 50)[:, None])
    assert np.isfinite(fit.log_evidence) and np.all(np.isfinite(mean)) and np.all(var > 0)
    assert fit.smallest_cavity > 0 and np.all(np.isfinite(fit.site_precision))


@pytest.mark.parametrize("likelihood", [Probit(), Logit()])
def test_changes_by_rounding_are_not_progress_that_can_be_lost(likelihood):
    """Inducing points that explain nothing: the sites hardly matter, so they change by rounding only."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(8, 1)), np.sign(rng.normal(size=8))
        fit = Problem(SquaredExponential(), np.full((1, 1), 5.0), X, y, likelihood).infer(0.0)
        assert fit.converged and fit.n_sweeps < 5


@pytest.mark.parametrize("least, largest, power", [(-6, 1, 0.5), (-6, 1, 0.8), (-6, 1, 1.0), (-7, -1, 0.25)])
def test_noise_that_varies_strongly_does_not_lead_the_acceleration_astray(least, largest, power):
    X, rng = np.linspace(-3.0, 3.0, 60)[:, None], np.random.default_rng(1)
    y = np.sin(2.0 * X[:, 0]) + np.exp(np.linspace(least, largest, 60)) * rng.normal(size=60)
    Z = np.linspace(-2.7, 2.7, 8)[:, None]
    problem = Problem(SquaredExponential(), Z, X, y, HeteroscedasticGaussian())
    plain, fit = (problem.infer(power, tol=1e-6, memory=memory) for memory in (0, 5))
    assert fit.converged and fit.n_sweeps < 60 and error(fit.log_evidence, plain.log_evidence) < 1e-8


@pytest.mark.parametrize(("power", "most"), [(0.0, 45), (0.5, 30)])
def test_separable_classes_settle_in_few_sweeps(power, most):
    """A shift that all latent functions share decays slowly unless the step takes it away."""
    kernel, Z = SquaredExponential(300.0, 1.4), np.linspace(-3.0, 3.0, 8)[:, None]
    X = np.linspace(-3.0, 3.0, 45)[:, None]
    y = np.digitize(X[:, 0], [-1.0, 1.0]).astype(float)
    given = kernel(Z), lambda rows: (kernel(Z, X[rows]), kernel.diag(X[rows]), None), Softmax(3), y, power
    fit = infer(*given, jitter=1e-8)
    slow = infer(*given, jitter=1e-8, kind=lambda **named: Shard(**named | {"centred": False}))
    assert fit.converged and fit.n_sweeps <= most < 1.5 * fit.n_sweeps
    assert slow.n_sweeps > most and error(fit.log_evidence, slow.log_evidence) < 1e-9


def test_what_may_be_compared_has_settled_or_nearly():
    fit = replace(small(Probit()).infer(0.5), converged=False, change=0.9)
    steady, moving = np.full(30, fit.log_evidence), fit.log_evidence + np.linspace(-9.0, 0.0, 30)
    assert replace(fit, trace=steady).usable
    assert replace(fit, trace=moving, converged=True).usable
    assert not replace(fit, trace=moving).usable
    assert not replace(fit, trace=steady, change=1.1).usable
