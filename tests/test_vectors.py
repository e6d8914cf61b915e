"""Exact numbers, computed elsewhere, of every regression case."""

from dataclasses import replace

import numpy as np
import pytest
from reference.compare import error
from reference.problems import GRADIENTS, SearchedGaussian, described, labels_of

from sparse_pep.features import Derivative, GaussianBlur, InducingPoints, Wavelet
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.blocks import Partition
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_evidence, model_gradient, model_predict
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.sites import (
    gaussian_tilted,
    posterior_from_sums,
    q_moments,
    sequential_sweep,
    unexplained_variance,
)

RESULTS = "logZ", "q_mean", "q_cov", "f_mean", "f_var"
PROBLEMS = ["r01_se_1d", "r02_se_ard_2d", "r06_matern12", "r08_matern52", "r14_Z_equals_X"]
INTERDOMAIN = ["r09_blur_shared", "r11_derivative", "r12_gabor_1d"]
BLOCKS = ["r03_blocks", "r04_blocks_private_alpha", "r15_one_big_block"]


class VectorProblem:
    """One problem of the file, with its cases and the model that they are about."""

    def __init__(self, vectors, name):
        self.raw = next(problem for problem in vectors["regression"] if problem["id"] == name)
        self.cases = self.raw["cases"]
        kernel, self.X, self.y, Z, self.X_test = described(self.raw)
        self.labels = labels_of(self.raw["blocks"]) if self.raw["blocks"] else None
        kinds = {
            "points": lambda: InducingPoints(Z),
            "blur": lambda widths: GaussianBlur(Z, widths),
            "deriv": lambda dims: Derivative(Z, dims),
            "gabor": lambda widths, freqs, phases, dc=0: Wavelet(
                Z, widths, freqs, phases, zero_mean=bool(dc)
            ),
        }
        features = dict(self.raw["features"] or {"type": "points"})
        features = kinds[features.pop("type")](**features)
        self.model = Model(kernel, features, Gaussian(self.raw["noise_var"]))

    def results(self, power):
        """What the functions give, under the names of the file, and the gradient."""
        power = power if self.labels is None else Partition(self.labels).powers(power)
        rows = Rows(self.X, self.y, power=power, blocks=self.labels)
        fit, gradient = model_gradient(self.model, Problem(rows))
        values = (
            fit.log_evidence,
            *q_moments(fit.posteriors[0]),
            *model_predict(self.model, fit.posteriors, self.X_test),
        )
        assert fit.jitter == 0.0
        return dict(zip(RESULTS, values, strict=True)), gradient


def check(got, gradient, case, limit=1e-8, gradient_limit=1e-7):
    """Each quantity and each gradient, relative to its largest entry."""
    for name, value in got.items():
        assert error(value, case[name]) < limit, name
    largest = max(np.max(np.abs(value)) for value in case["grad"].values())
    for name, value in case["grad"].items():
        exact = np.array(value)
        # With Z = X the evidence is level in Z, the exact gradient 0: what counts is its share of
        # the whole.
        assert (
            error(
                gradient[GRADIENTS[name]],
                exact,
                largest if np.max(np.abs(exact)) < 1e-12 * largest else None,
            )
            < gradient_limit
        ), name


def test_no_case_is_left_out(vectors):
    found = {
        problem["id"]: (problem["features"] is not None, problem["blocks"] is not None)
        for problem in vectors["regression"]
    }
    assert found == {name: (name in INTERDOMAIN, name in BLOCKS) for name in found}
    assert set(found) == {*PROBLEMS, *INTERDOMAIN, *BLOCKS}


@pytest.mark.parametrize("name", INTERDOMAIN)
def test_inter_domain_covariances(vectors, name):
    problem = VectorProblem(vectors, name)
    assert (
        error(problem.model.features.Kuu(problem.model.kernel), np.array(problem.raw["Kuu"]))
        < 1e-14
    )
    assert (
        error(
            problem.model.features.Kuf(problem.model.kernel, problem.X),
            np.array(problem.raw["Kuf"]),
        )
        < 1e-14
    )


@pytest.mark.parametrize("name", PROBLEMS + INTERDOMAIN)
def test_every_quantity(vectors, name):
    problem = VectorProblem(vectors, name)
    assert problem.cases
    for case in problem.cases:
        check(*problem.results(case["alpha"]), case)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_and_private_powers(vectors, name):
    """From the closed form, and by the search that any likelihood takes."""
    problem = VectorProblem(vectors, name)
    assert problem.cases
    for case in problem.cases:
        check(*problem.results(case["alpha"]), case, 1e-10, 1e-10)
        model = replace(problem.model, likelihood=SearchedGaussian(problem.raw["noise_var"]))
        power = Partition(problem.labels).powers(case["alpha"])
        rows = Rows(problem.X, problem.y, power=power, blocks=problem.labels)
        fit = model_evidence(model, Problem(rows))
        q_mean, q_cov = q_moments(fit.posteriors[0])
        assert fit.searched
        assert fit.converged
        assert error(fit.log_evidence, case["logZ"]) < 1e-10
        assert error(q_mean, case["q_mean"]) < 1e-9
        assert error(q_cov, case["q_cov"]) < 1e-9


def test_passes_of_the_procedure(vectors):
    problem = VectorProblem(vectors, vectors["regression_iterations"]["problem"])
    factor = factorise(problem.model.features.Kuu(problem.model.kernel))
    V = solve_lower(factor, problem.model.features.Kuf(problem.model.kernel, problem.X))
    dff, _ = unexplained_variance(problem.model.kernel.diag(problem.X), V)

    def tilted(rows, cavity_mean, cavity_var, power):
        return gaussian_tilted(
            problem.y[rows], problem.raw["noise_var"], cavity_mean, cavity_var, power
        )

    assert vectors["regression_iterations"]["cases"]
    for case in vectors["regression_iterations"]["cases"]:
        precision = np.zeros(len(problem.y))
        shift = np.zeros(len(problem.y))
        done = 0
        for state in case["after_passes"]:
            for _ in range(state["passes"] - done):
                precision, shift = sequential_sweep(
                    factor, V, dff, tilted, precision, shift, case["alpha"], step=case["alpha"]
                )
            done = state["passes"]
            q_mean, q_cov = q_moments(posterior_from_sums(factor, V * precision @ V.T, V @ shift))
            assert error(q_mean, state["q_mean"]) < 1e-8
            assert error(q_cov, state["q_cov"]) < 1e-8
