"""Power EP for any likelihood: exact numbers, the paper's own procedure, and searches that are
hard.
"""

import numpy as np
import pytest
from laws import adapter
from laws.adapter import in_memory
from numpy.random import default_rng
from reference import limits
from reference.compare import error
from reference.problems import GRADIENTS, RandomProblem, described

from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import HeteroscedasticGaussian, Logit, NoisyProbit, Probit, StudentT
from sparse_pep.model import Model
from sparse_pep.sites import q_moments

PROBLEMS = ["c01_1d", "c03_per_datum_alpha", "c04_Z_equals_X", "c05_matern32", "c07_large_variance"]


class SearchProblem:
    """A model and its data."""

    def __init__(self, kernel, Z, X, y, likelihood):
        self.X = X
        self.y = y
        self.model = Model(kernel, InducingPoints(Z), likelihood)

    def search(self, power, **options):
        return adapter.search(
            self.model, in_memory(self.X, self.y), power, **{"tol": 1e-10} | options
        )

    def predict(self, fit, X):
        return adapter.predict(self.model, fit.posteriors, X)

    arrays = RandomProblem.arrays


def small(likelihood, seed=0, N=25, M=5, variance=2.0):
    rng = default_rng(seed)
    X = rng.uniform(-3, 3, (N, 1))
    y = likelihood.sample(1.5 * np.sin(1.7 * X[:, 0]), rng)
    return SearchProblem(
        SquaredExponential(variance, 0.9), np.linspace(-2.5, 2.5, M)[:, None], X, y, likelihood
    )


def exact_problem(vectors, name):
    """A problem of the file, its test inputs and its cases."""
    (data,) = (problem for problem in vectors["classification"] if problem["id"] == name)
    kernel, X, y, Z, X_test = described(data)
    assert data["cases"]
    return SearchProblem(kernel, Z, X, y, Probit()), X_test, data["cases"]


def results_of(problem, fit, X_test):
    """What a fit says, under the names of the file."""
    q_mean, q_cov = q_moments(fit.posteriors[0])
    mean, var = problem.predict(fit, X_test)
    return {
        "logZ": fit.log_evidence,
        "tau": fit.site_precision[0],
        "nu": fit.site_shift[0],
        "q_mean": q_mean,
        "q_cov": q_cov,
        "f_mean": mean,
        "f_var": var,
        "prob": Probit().predict_proba(mean, var)[:, 1],
    }


def test_all_exact_numbers_are_known(vectors):
    assert [problem["id"] for problem in vectors["classification"]] == PROBLEMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_exact_numbers(vectors, name):
    problem, X_test, cases = exact_problem(vectors, name)
    for case in cases:
        rows = in_memory(problem.X, problem.y, power=np.array(case["alpha"]))
        fit, gradient = adapter.gradient(problem.model, rows, 0.5, tol=1e-10)
        assert fit.converged
        assert fit.jitter == 0.0
        for key, value in results_of(problem, fit, X_test).items():
            assert error(value, case[key]) < 1e-7, (key, case["alpha"])
        if "grad" in case:
            ours = [np.ravel(gradient[GRADIENTS[key]]) for key in case["grad"]]
            theirs = [np.ravel(value) for value in case["grad"].values()]
            assert error(np.concatenate(ours), np.concatenate(theirs)) < 1e-6


def test_power_zero_is_the_variational_optimum():
    problem = small(Probit(), N=20, M=4)
    Kuu, Kuf, kff = problem.arrays()
    bound, q_mean, q_cov = limits.variational_optimum(limits.probit, problem.y, Kuu, Kuf, kff)
    fit = problem.search(0.0)
    assert fit.log_evidence >= bound - 1e-7
    assert abs(fit.log_evidence - bound) < 1e-6
    got_mean, got_cov = q_moments(fit.posteriors[0])
    assert error(got_mean, q_mean) < 1e-5
    assert error(got_cov, q_cov) < 1e-5


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "likelihood", [StudentT(2.0, 0.05), NoisyProbit(0.001)], ids=["student", "noisy"]
)
def test_not_log_concave_is_never_nan(likelihood, seed, power):
    problem = small(likelihood, seed=seed, N=40, M=8, variance=50.0)
    if isinstance(likelihood, StudentT):
        problem.y[::5] += 30.0 * (-1) ** np.arange(8)
    fit = problem.search(power, max_sweeps=60)
    mean, var = problem.predict(fit, np.linspace(-5, 5, 50)[:, None])
    assert np.isfinite(fit.log_evidence)
    assert np.all(np.isfinite(mean))
    assert np.all(var > 0)
    assert fit.smallest_cavity > 0
    assert np.all(np.isfinite(fit.site_precision))


@pytest.mark.parametrize("likelihood", [Probit(), Logit()])
def test_changes_by_rounding_are_not_progress_that_can_be_lost(likelihood):
    """Inducing points that explain nothing: the sites hardly matter, so they change by rounding
    only.
    """
    for seed in range(10):
        rng = default_rng(seed)
        X = rng.normal(size=(8, 1))
        y = np.sign(rng.normal(size=8))
        fit = SearchProblem(SquaredExponential(), np.full((1, 1), 5.0), X, y, likelihood).search(
            0.0
        )
        assert fit.converged
        assert fit.n_sweeps < 5


@pytest.mark.parametrize(
    "least, largest, power", [(-6, 1, 0.5), (-6, 1, 0.8), (-6, 1, 1.0), (-7, -1, 0.25)]
)
def test_noise_that_varies_strongly_does_not_lead_the_acceleration_astray(least, largest, power):
    X = np.linspace(-3.0, 3.0, 60)[:, None]
    rng = default_rng(1)
    y = np.sin(2.0 * X[:, 0]) + np.exp(np.linspace(least, largest, 60)) * rng.normal(size=60)
    Z = np.linspace(-2.7, 2.7, 8)[:, None]
    problem = SearchProblem(SquaredExponential(), Z, X, y, HeteroscedasticGaussian())
    plain, fit = (problem.search(power, tol=1e-6, depth=depth) for depth in (0, 5))
    assert fit.converged
    assert fit.n_sweeps < 60
    assert error(fit.log_evidence, plain.log_evidence) < 1e-8
