"""The closed form against dense references, and the laws it must obey, over shapes, scales and
powers.
"""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from laws.adapter import chunks_of
from reference import dense
from reference.compare import error, gradient_error, properties, slopes
from reference.highprec import Regression
from reference.problems import RandomProblem, problems
from threadpoolctl import threadpool_limits

from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_bounds, model_evidence, model_gradient, model_predict
from sparse_pep.regression import predict_f_cov
from sparse_pep.sites import q_moments, unexplained_variance


def problem_of(p, jitter=0.0):
    """Rows and power of a random problem."""
    if np.ndim(p.power):
        return Problem(Rows(p.X, p.y, power=p.power), jitter=jitter)
    return Problem(Rows(p.X, p.y), p.power, jitter=jitter)


@properties
@given(problems)
def test_evidence_posterior_and_prediction_against_dense(p):
    fit = model_evidence(p.model, problem_of(p))
    arrays = p.arrays()
    noise = p.model.likelihood.noise_variance
    assert fit.jitter == 0.0
    expected = dense.log_evidence(*arrays, p.y, noise, p.power)
    assert error(fit.log_evidence, expected, abs(expected) + len(p.y)) < 1e-11
    q = dense.posterior(*arrays, p.y, noise, p.power)
    for got, exact in zip(q_moments(fit.posteriors[0]), q, strict=True):
        assert error(got, exact) < 1e-9
    kernel = p.model.kernel
    Kus = p.model.features.Kuf(kernel, p.X_test)
    Kss = kernel(p.X_test)
    mean, cov = dense.predict(arrays[0], Kus, Kss, *q)
    got_mean, got_var = model_predict(p.model, fit.posteriors[0], p.X_test)
    largest = np.max(np.abs(q[0]))
    assert error(got_mean, mean, largest) < 1e-9
    assert error(got_var, np.diag(cov), kernel.diag(p.X_test)[0]) < 1e-10
    joint_mean, joint_cov = predict_f_cov(fit.posteriors[0], Kus, Kss)
    assert error(joint_mean, mean, largest) < 1e-9
    assert error(joint_cov, cov, kernel.diag(p.X_test)[0]) < 1e-10


@properties
@given(problems)
def test_upper_bound_is_its_definition_and_above_the_exact_value(p):
    Kuu, Kuf, kff = p.arrays()
    noise = float(p.model.likelihood.noise_variance)
    with chunks_of(4):
        low, got = model_bounds(p.model, Problem(Rows(p.X, p.y)))
    Qff = dense.projected(Kuu, Kuf)
    eye = np.eye(len(p.y))
    inflated = noise + np.maximum(kff - np.diag(Qff), 0.0).sum()
    quadratic = p.y @ np.linalg.solve(Qff + inflated * eye, p.y)
    expected = -0.5 * (dense.log_det(Qff + noise * eye) + quadratic + len(p.y) * np.log(2 * np.pi))
    scale = abs(expected) + len(p.y) * (1.0 + abs(np.log(noise)))
    assert error(got, expected, scale) < 1e-9
    exact = dense.exact_log_evidence(p.model.kernel(p.X), p.y, noise)
    assert exact <= got + 1e-9 * scale
    assert (
        error(
            low, dense.tight_bound(Kuu, Kuf, np.diag(kff), p.y, noise, np.arange(len(p.y))), scale
        )
        < 1e-11
    )
    assert (
        dense.titsias_bound(Kuu, Kuf, kff, p.y, noise) - 1e-9 * scale <= low <= exact + 1e-9 * scale
    )


@pytest.mark.parametrize("limit", [1, 2])
def test_the_same_call_gives_the_same_bits(limit):
    p = RandomProblem(6, 400, 6, 2)
    with threadpool_limits(limit, user_api="blas"), chunks_of(16):
        (fit, gradient), (again, same) = (model_gradient(p.model, problem_of(p)) for _ in range(2))
        predicted = [model_predict(p.model, one.posteriors, p.X_test) for one in (fit, again)]
    assert fit.log_evidence == again.log_evidence
    for one, other in zip(
        (*predicted[0], *gradient.values()), (*predicted[1], *same.values()), strict=True
    ):
        np.testing.assert_array_equal(one, other)


CONSTANT = lambda table: table * [1.0, 0.0] + [0.0, 3.0]
DEGENERATE = {  # X, y and Z
    "all rows equal": lambda X, y, Z: (np.repeat(X[:1], len(X), axis=0), y, Z),
    "constant column": lambda X, y, Z: (CONSTANT(X), y, CONSTANT(Z)),
    "points twice": lambda X, y, Z: (X, y, np.vstack([Z, Z])),
    "points on duplicate data": lambda X, y, Z: (np.vstack([X[:4]] * 3), y, X[:4]),
    "y constant": lambda X, y, Z: (X, np.full(len(y), 2.0), Z),
}


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data_give_finite_answers_that_are_right(power, case):
    p = RandomProblem(11, 12, 4, 2, "matern52", power)
    X, y, Z = DEGENERATE[case](p.X, p.y, p.model.features.Z)
    model = Model(p.model.kernel, InducingPoints(Z), p.model.likelihood)
    fit, gradient = model_gradient(model, Problem(Rows(X, y), power))
    distinct = InducingPoints(np.unique(Z, axis=0))
    Kuu = distinct.Kuu(p.model.kernel)
    Kuf = distinct.Kuf(p.model.kernel, X)
    kff = p.model.kernel.diag(X)
    expected = dense.log_evidence(Kuu, Kuf, kff, y, p.model.likelihood.noise_variance, power)
    # A jitter j, where one was needed, moves the evidence by about j times N variance/noise.
    allowed = (
        1e-11
        + fit.jitter * len(y) * float(p.model.kernel.variance) / p.model.likelihood.noise_variance
    )
    assert fit.jitter <= 1e-11
    assert error(fit.log_evidence, expected, abs(expected)) < allowed
    mean, var = model_predict(model, fit.posteriors[0], p.X_test)
    assert all(np.all(np.isfinite(value)) for value in (mean, *gradient.values()))
    assert np.all(var > 0)


@pytest.mark.parametrize("jitter", [1e-6, 1e-3])
@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
def test_gradient_is_right_when_jitter_was_added(power, jitter):
    p = RandomProblem(3, 10, 4, 2, "se", power)
    fit, gradient = model_gradient(p.model, problem_of(p, jitter))
    Kuu, Kuf, kff = p.arrays()
    noise = p.model.likelihood.noise_variance
    assert fit.jitter == jitter
    assert (
        error(
            fit.log_evidence,
            dense.log_evidence(Kuu + jitter * np.diag(np.diag(Kuu)), Kuf, kff, p.y, noise, power),
        )
        < 1e-12
    )

    def value(parameters):
        return model_evidence(
            p.model.with_parameters(parameters), problem_of(p, jitter)
        ).log_evidence

    assert gradient_error(*slopes(value, p.model.parameters(), gradient, 1e-3)) < 1e-9


@pytest.mark.parametrize("spacing", [1.0, 0.4, 0.25, 0.16])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_digits_where_Kuu_is_ill_conditioned(spacing, power):
    """No more digits are lost than the condition number of the Cholesky factor takes: half of
    those of Kuu.
    """
    rng = np.random.default_rng(8)
    Z = spacing * np.arange(8.0)[:, None]
    X = rng.uniform(0, Z.max(), size=(14, 1))
    X_test = rng.uniform(0, Z.max(), size=(3, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=14)
    noise = 0.05
    exact = Regression(("se", 1.3, [1.0]), X, y, Z, noise, power)
    model = Model(SquaredExponential(1.3, [1.0]), InducingPoints(Z), Gaussian(noise))
    fit = model_evidence(model, Problem(Rows(X, y), power))
    assert fit.jitter == 0.0
    limit = 1e-14 * np.sqrt(exact.condition())
    assert error(fit.log_evidence, exact.log_evidence) < limit
    f_mean, f_var = model_predict(model, fit.posteriors[0], X_test)
    exact_mean, exact_var = exact.predict_f(X_test)
    assert error(f_mean, exact_mean) < limit
    assert error(f_var, exact_var, 1.3) < limit


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_memory_holds_no_array_of_data_by_inducing_points(power):
    rng = np.random.default_rng(0)
    N = 300_000
    M = 100
    X = rng.normal(size=(N, 2))
    y = rng.normal(size=N)
    model = Model(
        SquaredExponential(1.0, [1.0, 1.0]), InducingPoints(rng.normal(size=(M, 2))), Gaussian(0.1)
    )
    tracemalloc.start()
    try:
        fit, _ = model_gradient(model, Problem(Rows(X, y), power, jitter=1e-8))
        model_predict(model, fit.posteriors[0], X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < N * M * 8 / 3


def test_unexplained_variance_is_never_negative_and_the_clipping_is_counted():
    V = np.array([[1.0, 0.6, 0.0], [1e-8, 0.8, 0.5]])
    dff, clipped = unexplained_variance(np.array([1.0 - 1e-15, 1.5, 1.0]), V)
    assert error(dff, [0.0, 0.5, 0.75]) < 1e-15
    assert clipped == 1
    p = RandomProblem(1, 30, 30, 1)
    # a point on each datum: nothing but rounding is left
    fit = model_evidence(p.model, Problem(Rows(p.model.features.Z, p.y)))
    assert np.min(fit.dff) == 0.0
    assert 0 < fit.sums.n_clipped <= np.sum(fit.dff == 0.0)
