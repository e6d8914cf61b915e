"""Power EP for any likelihood against exact numbers, dense references and itself."""

import numpy as np
import pytest
from reference import classification as dense
from reference.compare import differences, error
from scipy.special import log_ndtr

from sparse_pep.energies import energy_adjoints
from sparse_pep.features import InducingPoints
from sparse_pep.inference import add_weighted_outer, infer, leave_one_out
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import (
    Gaussian,
    Logit,
    NegativeBinomial,
    NoisyProbit,
    Poisson,
    Probit,
    StudentT,
)
from sparse_pep.numerics.linalg import solve_lower
from sparse_pep.numerics.memory import Scratch
from sparse_pep.regression import evidence, predict_f
from sparse_pep.sites import q_moments

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
        Kuu_bar, pulled, own = energy_adjoints(self.infer(power), self.covariances, self.likelihood, self.y, power)
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


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_the_dense_sequential_iteration(power):
    problem = small(Probit(), seed=3)
    expected, fit = dense.iterated(dense.probit, problem.y, *problem.arrays(), power), problem.infer(power)
    assert error(fit.site_precision[0], expected.site_precision) < 1e-6
    assert fit.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)


@pytest.mark.parametrize("power", [0.0, 1e-6, 0.3, 1.0])
def test_gaussian_noise_takes_one_sweep(power):
    problem = small(Gaussian(0.2))
    Kuu, _, _ = problem.arrays()
    closed = evidence(Kuu, problem.covariances, problem.y, 0.2, power)
    fit = problem.infer(power)
    assert fit.converged and fit.n_sweeps <= 1
    assert error(fit.log_evidence, closed.log_evidence) < 1e-9
    assert error(np.array(q_moments(fit.posteriors[0])[0]), q_moments(closed.posterior)[0]) < 1e-9
    assert error(fit.site_precision[0], 1 / (power * closed.dff + 0.2)) < 1e-9


def test_power_zero_is_the_variational_optimum():
    problem = small(Probit(), N=20, M=4)
    Kuu, Kuf, kff = problem.arrays()
    bound, q_mean, q_cov = dense.variational_optimum(dense.probit, problem.y, Kuu, Kuf, kff)
    fit = problem.infer(0.0)
    assert fit.log_evidence >= bound - 1e-7
    assert abs(fit.log_evidence - bound) < 1e-6
    got_mean, got_cov = q_moments(fit.posteriors[0])
    assert error(got_mean, q_mean) < 1e-5 and error(got_cov, q_cov) < 1e-5


def test_all_inputs_as_pseudo_inputs_and_power_one_is_textbook_ep():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-3, 3, size=(14, 1)), axis=0) + 0.05 * np.arange(14)[:, None]
    y = np.where(rng.normal(size=14) > 0, 1.0, -1.0)
    problem = Problem(SquaredExponential(2.0, 0.5), X, X, y, Probit())
    K, _, _ = problem.arrays()
    reference, fit = dense.ep_classification(K, y), problem.infer(1.0)
    assert abs(fit.log_evidence - reference.log_evidence) < 1e-6
    X_test = np.linspace(-4, 4, 9)[:, None]
    mean, var = problem.predict(fit, X_test)
    expected = dense.ep_predict(K, problem.kernel(X, X_test), problem.kernel.diag(X_test), reference)
    expected = expected if isinstance(expected, np.ndarray) else expected[-1]
    assert error(np.exp(log_ndtr(mean / np.sqrt(1 + var))), expected) < 1e-6


@pytest.mark.parametrize(
    "likelihood",
    [Probit(), Logit(), NoisyProbit(0.05), Poisson(), NegativeBinomial(2.0), StudentT(4.0, 0.5), Gaussian(0.3)],
    ids=lambda likelihood: type(likelihood).__name__,
)
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
def test_gradient_against_differences_of_the_energy(likelihood, power):
    problem = small(likelihood, seed=2, N=12, M=3)
    theta = likelihood.parameters()

    def energy(x):
        kernel = SquaredExponential(np.exp(x[0]), np.exp(x[1]))
        own = likelihood.with_parameters(dict(zip(theta, x[5:])))
        moved = Problem(kernel, x[2:5, None], problem.X, problem.y, own)
        return moved.infer(power, tol=1e-11).log_evidence

    x = np.concatenate([np.log([2.0, 0.9]), problem.features.Z[:, 0], [float(v) for v in theta.values()]])
    assert error(problem.gradient(power), differences(energy, x, 1e-3)) < 1e-5


@pytest.mark.parametrize("power", [0.2, 1.0])
def test_three_ways_to_one_fixed_point(power):
    problem = small(Logit(), N=20)
    sites = [problem.infer(power, method=m).site_shift for m in ("parallel", "sequential", "fractional")]
    assert error(sites[1], sites[0]) < 1e-7 and error(sites[2], sites[0]) < 1e-7


def test_chunks_do_not_matter():
    problem = small(Probit(), N=40)
    whole, cut = problem.infer(0.5), problem.infer(0.5, chunk_size=7)
    assert error(cut.site_precision, whole.site_precision) < 1e-8
    assert error(cut.log_evidence, whole.log_evidence) < 1e-11


def test_nothing_kept_in_memory(monkeypatch):
    problem = small(Probit(), N=40)
    kept = problem.infer(0.5)
    monkeypatch.setattr("sparse_pep.inference.KEPT_ENTRIES", 0)
    again = problem.infer(0.5)
    assert again.data.kept == {} and kept.data.kept
    assert error(again.site_precision, kept.site_precision) < 1e-10


def test_a_warm_start_takes_fewer_sweeps_and_ends_at_the_same_place():
    problem = small(Probit(), N=40)
    first = problem.infer(0.5)
    again = problem.infer(0.5, start=first)
    assert again.n_sweeps == 0 and again.converged
    assert again.log_evidence == pytest.approx(first.log_evidence, abs=1e-9)


def test_stopped_early_says_so():
    fit = small(Probit()).infer(0.5, max_sweeps=2)
    assert not fit.converged and fit.n_sweeps == 2 and fit.change > 1e-10
    assert len(fit.trace) == 3


def test_fractional_step_stands_still_at_power_zero():
    assert not small(Probit()).infer(0.0, method="fractional", max_sweeps=20).converged


def test_unknown_method():
    with pytest.raises(ValueError, match="`method` must be one of parallel"):
        small(Probit()).infer(0.5, method="serial")


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("likelihood", [StudentT(2.0, 0.05), NoisyProbit(0.001)], ids=["student", "noisy"])
def test_not_log_concave_is_never_nan(likelihood, seed, power):
    problem = small(likelihood, seed=seed, N=40, M=8, variance=50.0)
    if isinstance(likelihood, StudentT):
        problem.y[::5] += 30.0 * (-1) ** np.arange(8)
    fit = problem.infer(power, max_sweeps=60)
    mean, var = problem.predict(fit, np.linspace(-5, 5, 50)[:, None])
    assert np.isfinite(fit.log_evidence) and np.all(np.isfinite(mean)) and np.all(var > 0)
    assert fit.smallest_cavity > 0 and np.all(np.isfinite(fit.site_precision))


def test_leave_one_out_is_the_posterior_of_the_others():
    """Exact where the cavity is: Gaussian noise."""
    problem = small(Gaussian(0.3), N=15)
    fit = problem.infer(0.0)
    scores = leave_one_out(fit, problem.likelihood, problem.y)
    V = np.hstack([fit.data.V(rows) for rows in fit.data.slices])
    for n in (0, 7):
        others = np.arange(15) != n
        B = np.eye(5) + V[:, others] @ V[:, others].T / 0.3
        mean = V[:, n] @ np.linalg.solve(B, V[:, others] @ problem.y[others] / 0.3)
        var = V[:, n] @ np.linalg.solve(B, V[:, n]) + fit.dff[n] + 0.3
        expected = -0.5 * (np.log(2 * np.pi * var) + (problem.y[n] - mean) ** 2 / var)
        assert scores[n] == pytest.approx(expected, abs=1e-9)


def test_solve_lower_is_what_the_chunks_hold():
    problem = small(Probit())
    fit = problem.infer(0.5)
    Kuu, Kuf, _ = problem.arrays()
    V = np.hstack([fit.data.V(rows) for rows in fit.data.slices])
    assert error(V, solve_lower(fit.data.Kuu, Kuf)) < 1e-12
    assert error(fit.data.Kuu.lower @ fit.data.Kuu.lower.T, Kuu) < 1e-12


def test_weights_of_any_sign():
    rng = np.random.default_rng(0)
    V, weight, S = rng.normal(size=(4, 9)), rng.normal(size=9), np.zeros((4, 4))
    assert np.any(weight < 0)
    add_weighted_outer(S, V, weight, Scratch())
    assert error(np.tril(S), np.tril(V * weight @ V.T)) < 1e-13
