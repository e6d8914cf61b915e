"""The surrogate problems, solved by dense regression, are the models they were made from."""

from dataclasses import replace

import numpy as np
import pytest
from reference import dense, limits

from sparse_pep.blocks import Partition, block_infer
from sparse_pep.features import InducingPoints
from sparse_pep.inference import infer, posterior_terms
from sparse_pep.kernels import Matern52
from sparse_pep.likelihoods import Gaussian, HeteroscedasticGaussian, Logit, NoisyProbit, Poisson, Probit, StudentT
from sparse_pep.multiclass import Softmax
from sparse_pep.sites import q_moments
from sparse_pep.surrogate import Surrogate, compress, surrogate

POWERS = [0.0, 1e-9, 0.3, 1.0, "private"]
LIKELIHOODS = [Probit(), Logit(), Poisson(), NoisyProbit(0.05), StudentT(3.0, 0.3), HeteroscedasticGaussian(0.3, 0.8), Softmax(3)]


class Problem:
    """Inputs, inducing inputs and covariances; `K` as the dense references take them."""

    def __init__(self, seed=0, N=18, M=5, D=2):
        self.rng = np.random.default_rng(seed)
        self.X, Z = self.rng.normal(size=(N, D)), self.rng.normal(size=(M, D))
        kernel, features = Matern52(2.0, 0.8), InducingPoints(Z)
        self.Kuu, self.Kuf = features.Kuu(kernel), features.Kuf(kernel, self.X)
        self.kff, ff = kernel.diag(self.X), kernel(self.X)
        self.K = limits.Covariances(self.Kuu, self.Kuf, ff, self.Kuf, ff, ff)
        self.f = 2 * np.sin(2 * self.X[:, 0])

    def covariances(self, rows):
        return self.Kuf[:, rows].copy(), self.kff[rows], None

    def power(self, power):
        return np.resize([0.0, 1.0, 0.5, 1e-7], len(self.X)) if power == "private" else power

    def targets(self, likelihood):
        if isinstance(likelihood, Softmax):
            return self.rng.integers(3, size=len(self.X))
        f = self.f if likelihood.n_latent == 1 else np.stack([self.f, self.f])
        return likelihood.sample(f, self.rng)

    def infer(self, likelihood, power, y=None):
        y = self.targets(likelihood) if y is None else y
        return infer(self.Kuu, self.covariances, likelihood, y, self.power(power), tol=1e-11)


def assert_solved(problem, fit, tau, nu, c=0):
    """Dense regression on sites gives q(u) of latent function c; returns its log integral."""
    m, S, value = limits.natural_regression(problem.K, tau, nu)
    mean, cov = q_moments(fit.posteriors[c])
    np.testing.assert_allclose(mean, m, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(cov, S, rtol=1e-8, atol=1e-10)
    return value


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda one: type(one).__name__)
def test_sites_of_any_likelihood_solved_by_dense_regression(likelihood, power):
    problem = Problem()
    fit = problem.infer(likelihood, power)
    found = surrogate(fit)
    values = [assert_solved(problem, fit, tau, nu, c) for c, (tau, nu) in enumerate(zip(found.precision, found.shift))]
    np.testing.assert_allclose(sum(values) + found.log_constant, fit.log_evidence, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(posterior_terms(fit.posteriors), sum(values), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("power", POWERS)
def test_gaussian_noise_observes_the_data_with_more_noise(power):
    problem = Problem(1)
    y, alpha = problem.f + problem.rng.normal(size=18), problem.power(power)
    fit = problem.infer(Gaussian(0.3), power, y)
    found = surrogate(fit)
    np.testing.assert_allclose(found.observations[0], y, rtol=1e-12)
    np.testing.assert_allclose(found.noise_variance[0], alpha * fit.dff + 0.3, rtol=1e-12)
    W = np.linalg.solve(problem.Kuu, problem.Kuf).T
    expected = limits.linear_regression(problem.K, W, y, np.diag(alpha * fit.dff + 0.3))
    np.testing.assert_allclose(expected.log_evidence + found.log_scale(), fit.log_evidence, rtol=1e-11)
    ends = {0.0: -fit.dff.sum() / 0.6, 1.0: 0.0}
    if power in ends:
        np.testing.assert_allclose(found.log_scale(), ends[power], rtol=1e-9, atol=1e-9)


def solved(problem, posterior, small):
    """Exact regression on the compressed observations gives the posterior; its log evidence."""
    A, targets = small.weights, small.observations
    S = np.linalg.inv(np.linalg.inv(problem.Kuu) + A.T @ A)
    mean, cov = q_moments(posterior)
    np.testing.assert_allclose(S @ A.T @ targets, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(S, cov, rtol=1e-8, atol=1e-10)
    K = A @ problem.Kuu @ A.T + np.eye(len(A))
    return dense.log_normal(targets, K) - 0.5 * len(A) * small.log_noise_variance


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("likelihood", [Probit(), Poisson(), Softmax(3)], ids=lambda one: type(one).__name__)
def test_compressed_solved_by_dense_regression(likelihood, power):
    problem = Problem(2)
    fit = problem.infer(likelihood, power)
    small = compress(fit)
    assert all(one.weights.shape == (5, 5) for one in small)
    total = sum(solved(problem, q, one) for q, one in zip(fit.posteriors, small, strict=True))
    np.testing.assert_allclose(total, fit.log_evidence, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("N", [1, 3])
def test_no_more_observations_than_data(N):
    problem = Problem(3, N=N)
    fit = problem.infer(Gaussian(0.2), 0.5, problem.f + problem.rng.normal(size=N))
    (small,) = compress(fit)
    assert small.weights.shape == (N, 5)
    np.testing.assert_allclose(solved(problem, fit.posteriors[0], small), fit.log_evidence, rtol=1e-10)


@pytest.mark.parametrize("noise", [1e-6, 1e6])
def test_noise_beyond_the_range_of_doubles_is_kept_as_its_logarithm(noise):
    problem = Problem(4, N=3000, M=3)
    y = 100 * problem.f + problem.rng.normal(size=3000)
    fit = problem.infer(Gaussian(noise), 0.0, y)
    (small,) = compress(fit)
    assert abs(small.log_noise_variance) > 1500  # exp of it is 0 or infinite
    A = small.weights @ problem.Kuu @ small.weights.T + np.eye(3)
    value = dense.log_normal(small.observations, A) - 1.5 * small.log_noise_variance
    np.testing.assert_allclose(value, fit.log_evidence, rtol=1e-9)


def test_what_is_no_observation_is_refused():
    problem = Problem(5, N=2)
    fit = problem.infer(StudentT(3.0, 0.2), 1.0, np.array([9.0, -9.0]))
    found = surrogate(fit)
    assert np.all(found.precision < 0.0)
    with pytest.raises(ValueError, match="2 of 2 are not"):
        found.log_scale()
    with pytest.raises(ValueError, match="less certain than the prior"):
        compress(fit)
    assert_solved(problem, fit, found.precision[0], found.shift[0])


def test_sites_of_zero_are_no_observations():
    problem = Problem(6)
    weights = np.where(np.arange(18) < 4, 0.0, 1.0)
    y = problem.f + problem.rng.normal(size=18)
    whole = surrogate(problem.infer(Gaussian(0.3), 1.0, y))
    tau, nu = weights * whole.precision[0], weights * whole.shift[0]
    found = Surrogate(tau[None], nu[None], whole.log_constant)
    assert np.all(np.isnan(found.observations[0, :4])) and np.all(np.isinf(found.noise_variance[0, :4]))
    np.testing.assert_allclose(found.observations[0, 4:], y[4:], rtol=1e-12)
    counted = 0.5 * np.sum(np.log(2 * np.pi / tau[4:]) + nu[4:] ** 2 / tau[4:])
    np.testing.assert_allclose(found.log_scale(), found.log_constant + counted, rtol=1e-12)
    nu[0] = 1.0  # a shift without precision: a plane wave, not an observation
    with pytest.raises(ValueError, match="1 of 18 are not"):
        Surrogate(tau[None], nu[None], whole.log_constant).log_scale()


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), Probit()], ids=lambda one: type(one).__name__)
def test_sites_outlive_the_data(likelihood):
    problem = Problem(7)
    fit = problem.infer(likelihood, 1.0)
    found, again = surrogate(fit), surrogate(fit.released())
    np.testing.assert_array_equal(again.precision, found.precision)
    np.testing.assert_array_equal(again.shift, found.shift)
    assert again.log_constant == found.log_constant
    with pytest.raises(ValueError, match="a site for each data point, in memory"):
        surrogate(replace(fit, site_precision=None))  # of a source


def test_nothing_learned_cannot_be_compressed():
    problem = Problem(8)
    blind = (lambda rows: (0.0 * problem.Kuf[:, rows], problem.kff[rows], None),)
    fit = infer(problem.Kuu, *blind, Gaussian(0.3), problem.f, 1.0)
    with pytest.raises(ValueError, match="must have learned something"):
        compress(fit)


@pytest.mark.parametrize("likelihood, power", [(Gaussian(0.3), 0.0), (Gaussian(0.3), 0.5), (Gaussian(0.3), 1.0), (Probit(), 0.5)])
def test_sites_of_blocks_are_compressed_too(likelihood, power):
    problem, kernel = Problem(9), Matern52(2.0, 0.8)

    def by_blocks(chunk):
        stacks = [np.stack([kernel(problem.X[block]) for block in group]) for group in chunk.members]
        return problem.Kuf[:, chunk.rows].copy(), stacks, None

    given = Partition(np.arange(18) // 5), likelihood, problem.targets(likelihood), power
    fit = block_infer(problem.Kuu, by_blocks, *given, tol=1e-11)
    (small,) = compress(fit)
    np.testing.assert_allclose(solved(problem, fit.posteriors[0], small), fit.log_evidence, rtol=1e-10)
    for one in (fit, fit.released()):
        with pytest.raises(ValueError, match="for blocks use `compress`"):
            surrogate(one)
