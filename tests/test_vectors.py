"""Exact numbers, computed elsewhere: every regression case with single-datum factors, inter-domain features included."""

from dataclasses import replace

import numpy as np
import pytest
from reference.compare import error
from reference.highprec import Regression
from reference.searched import SearchedGaussian

from sparse_pep.blocks import Partition
from sparse_pep.estimators import SparsePEPRegressor
from sparse_pep.features import Derivative, GaussianBlur, InducingPoints, Wavelet
from sparse_pep.kernels import Matern12, Matern32, Matern52, SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_evidence, model_gradient, model_predict
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.shards import Rows
from sparse_pep.sites import gaussian_tilted, posterior_from_sums, q_moments, sequential_sweep, unexplained_variance

KERNELS = {"se": SquaredExponential, "matern12": Matern12, "matern32": Matern32, "matern52": Matern52}
PROBLEMS = ["r01_se_1d", "r02_se_ard_2d", "r06_matern12", "r08_matern52", "r14_Z_equals_X"]
INTERDOMAIN = ["r09_blur_shared", "r11_derivative", "r12_gabor_1d"]
BLOCKS = ["r03_blocks", "r04_blocks_private_alpha", "r15_one_big_block"]
GRADIENTS = {
    "log_variance": "kernel.log_variance",
    "log_lengthscales": "kernel.log_lengthscale",
    "log_noise_var": "log_noise_variance",
    "Z": "features.Z",
    "log_widths_shared": "features.log_width",
    "freqs": "features.frequency",
}
TINY_POWERS = (1e-6, 1e-9, 1e-12)


def features_of(problem):
    """The features that the file describes."""
    Z, description = np.array(problem["Z"]), dict(problem["features"] or {"type": "points"})
    kinds = {
        "points": lambda: InducingPoints(Z),
        "blur": lambda widths: GaussianBlur(Z, widths),
        "deriv": lambda dims: Derivative(Z, dims),
        "gabor": lambda widths, freqs, phases, dc=0: Wavelet(Z, widths, freqs, phases, zero_mean=bool(dc)),
    }
    return kinds[description.pop("type")](**description)


class Problem:
    """One problem of the file, with its cases and the model that they are about."""

    def __init__(self, problem):
        self.cases = problem["cases"]
        self.X, self.y, self.Z, self.X_test = (np.array(problem[name]) for name in ("X", "y", "Z", "Xtest"))
        parts = problem["kernel"]
        self.covariance = parts["name"], parts["variance"], parts["lengthscales"]
        self.noise = problem["noise_var"]
        self.blocks = None
        if problem["blocks"]:
            self.blocks = np.empty(len(self.y), dtype=int)
            for b, members in enumerate(problem["blocks"]):
                self.blocks[members] = b
        self.model = Model(KERNELS[parts["name"]](*self.covariance[1:]), features_of(problem), Gaussian(self.noise))

    def piece(self):
        """All data."""
        return Rows(self.X, self.y, blocks=self.blocks)

    def powers(self, power):
        """Those of the data, from one for all or one for each block."""
        return power if self.blocks is None else Partition(self.blocks).powers(power)

    def results(self, power):
        """What the functions give, under the names of the file."""
        given = self.model, self.piece(), self.powers(power)
        fit, gradient = model_gradient(*given)
        assert fit.log_evidence == model_evidence(*given).log_evidence
        assert fit.jitter == 0.0
        q_mean, q_cov = q_moments(fit.posteriors[0])
        f_mean, f_var = model_predict(self.model, fit.posteriors, self.X_test)
        return {"logZ": fit.log_evidence, "q_mean": q_mean, "q_cov": q_cov, "f_mean": f_mean, "f_var": f_var}, gradient

    def estimator_results(self, power):
        """The same from the estimator."""
        model = SparsePEPRegressor(kernel=self.model.kernel, features=self.model.features, power=power, noise_variance=self.noise, training=None, jitter=0.0).fit(self.X, self.y)
        assert model.diagnostics_["jitter"] == 0.0
        f_mean, f_var = model.predict_f(self.X_test)
        values = (model.log_marginal_likelihood_value_, model.q_mean_, model.q_cov_, f_mean, f_var)
        return dict(zip(("logZ", "q_mean", "q_cov", "f_mean", "f_var"), values)), model.log_marginal_likelihood_gradient()


def problem_of(vectors, name):
    return Problem(next(problem for problem in vectors["regression"] if problem["id"] == name))


def relative_errors(got, gradient, case):
    """Name of a quantity to its error relative to its largest entry."""
    errors = {name: error(value, case[name]) for name, value in got.items()}
    largest = max(np.max(np.abs(value)) for value in case["grad"].values())
    for name, value in case["grad"].items():
        key, exact = GRADIENTS[name], np.array(value)
        # With Z = X the evidence is level in Z, the exact gradient 0: what counts is its share of the whole.
        scale = largest if np.max(np.abs(exact)) < 1e-12 * largest else None
        errors[name] = error(gradient[key], exact, scale)
    return errors


def check(errors):
    for name, value in errors.items():
        limit = 1e-7 if name in GRADIENTS else 1e-8
        assert value < limit, f"{name}: relative error {value:.1e}"


def test_no_case_is_left_out(vectors):
    plain = [problem["id"] for problem in vectors["regression"] if problem["features"] is None and problem["blocks"] is None]
    assert plain == PROBLEMS
    assert [problem["id"] for problem in vectors["regression"] if problem["blocks"] is not None] == BLOCKS
    assert [problem["id"] for problem in vectors["regression"] if problem["features"] is not None] == INTERDOMAIN


@pytest.mark.parametrize("name", INTERDOMAIN)
def test_inter_domain_covariances(vectors, name):
    raw = next(problem for problem in vectors["regression"] if problem["id"] == name)
    problem = Problem(raw)
    model = problem.model
    assert error(model.features.Kuu(model.kernel), np.array(raw["Kuu"])) < 1e-14
    assert error(model.features.Kuf(model.kernel, problem.X), np.array(raw["Kuf"])) < 1e-14


@pytest.mark.parametrize("name", PROBLEMS + INTERDOMAIN)
@pytest.mark.parametrize("way", ["results", "estimator_results"])
def test_every_quantity(vectors, name, way):
    problem = problem_of(vectors, name)
    assert problem.cases
    for case in problem.cases:
        check(relative_errors(*getattr(problem, way)(case["alpha"]), case))


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_and_private_powers(vectors, name):
    problem = problem_of(vectors, name)
    assert problem.cases
    for case in problem.cases:
        errors = relative_errors(*problem.results(case["alpha"]), case)
        assert max(errors.values()) < 1e-10, errors
        # the same by the search that any likelihood takes
        model = replace(problem.model, likelihood=SearchedGaussian(problem.noise))
        fit = model_evidence(model, problem.piece(), problem.powers(case["alpha"]))
        q_mean, q_cov = q_moments(fit.posteriors[0])
        assert fit.searched and fit.converged
        assert error(fit.log_evidence, case["logZ"]) < 1e-10
        assert error(q_mean, case["q_mean"]) < 1e-9
        assert error(q_cov, case["q_cov"]) < 1e-9


@pytest.mark.parametrize("name", ["r01_se_1d", "r02_se_ard_2d", "r06_matern12", "r08_matern52"])
def test_private_powers_against_fifty_digits(vectors, name):
    problem = problem_of(vectors, name)
    power = np.resize([0.0, 1.0, 0.5, 1e-6, 0.3, 1.0, 0.0], len(problem.y))
    exact = Regression(problem.covariance, problem.X, problem.y, problem.Z, problem.noise, power)
    (q_mean, q_cov), (f_mean, f_var) = exact.q(), exact.predict_f(problem.X_test)
    expected = {"logZ": exact.log_evidence, "q_mean": q_mean, "q_cov": q_cov, "f_mean": f_mean, "f_var": f_var}
    got, _ = problem.estimator_results(power)
    for key, value in expected.items():
        assert error(got[key], value) < 1e-8, key


def test_passes_of_the_procedure(vectors):
    problem = problem_of(vectors, vectors["regression_iterations"]["problem"])
    factor = factorise(problem.model.features.Kuu(problem.model.kernel))
    V = solve_lower(factor, problem.model.features.Kuf(problem.model.kernel, problem.X))
    dff, _ = unexplained_variance(problem.model.kernel.diag(problem.X), V)

    def tilted(rows, cavity_mean, cavity_var, power):
        return gaussian_tilted(problem.y[rows], problem.noise, cavity_mean, cavity_var, power)

    for case in vectors["regression_iterations"]["cases"]:
        precision, shift, done = np.zeros(len(problem.y)), np.zeros(len(problem.y)), 0
        for state in case["after_passes"]:
            for _ in range(state["passes"] - done):
                precision, shift = sequential_sweep(factor, V, dff, tilted, precision, shift, case["alpha"], step=case["alpha"])
            done = state["passes"]
            q_mean, q_cov = q_moments(posterior_from_sums(factor, V * precision @ V.T, V @ shift))
            assert error(q_mean, state["q_mean"]) < 1e-8
            assert error(q_cov, state["q_cov"]) < 1e-8
