"""Delete, project, update: against quadrature, dense algebra and the closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import highprec
from reference.compare import error, properties
from scipy.stats import norm

from sparse_pep.numerics.linalg import factorise
from sparse_pep.regression import gaussian_sites
from sparse_pep.sites import cavity, determined_directions, gaussian_tilted, marginals, new_site, parallel_sweep, posterior_from_sums, q_moments, sequential_sweep

shapes = st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**32 - 1))
powers = st.sampled_from([0.0, 1e-9, 0.1, 0.5, 0.9, 1.0])


def problem(M, N, seed):
    """Kuu factor, V, D, targets and noise of a random problem with whitened features."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, M + 3))
    factor = factorise(np.ascontiguousarray(A @ A.T))
    V, dff = rng.normal(size=(M, N)), rng.exponential(size=N) * rng.integers(0, 2, size=N)
    return factor, V, dff, rng.normal(size=N), float(rng.uniform(0.05, 2.0))


def gaussian(y, noise):
    return lambda rows, mean, var, power: gaussian_tilted(y[rows], noise, mean, var, power)


@properties
@given(shapes)
def test_posterior_marginals_and_moments_against_dense(shape):
    factor, V, _, y, _ = problem(*shape)
    precision = np.random.default_rng(shape[2]).exponential(size=len(y))
    posterior = posterior_from_sums(factor, V * precision @ V.T, V @ y)
    S = np.linalg.inv(np.eye(len(V)) + V * precision @ V.T)
    mean, var = marginals(posterior, V)
    assert error(mean, V.T @ S @ V @ y) < 1e-11
    assert error(var, np.diag(V.T @ S @ V)) < 1e-11
    q_mean, q_cov = q_moments(posterior)
    assert error(q_mean, factor.lower @ S @ V @ y) < 1e-11
    assert error(q_cov, factor.lower @ S @ factor.lower.T) < 1e-11


@properties
@given(powers, st.integers(0, 2**32 - 1))
def test_what_is_deleted_can_be_put_back(power, seed):
    rng = np.random.default_rng(seed)
    mean, var, shift = rng.normal(size=5), rng.exponential(size=5) + 0.1, rng.normal(size=5)
    precision = rng.uniform(0.0, 0.9, size=5) / var
    cavity_mean, cavity_var = cavity(mean, var, precision, shift, power)
    assert error(1 / cavity_var + power * precision, 1 / var) < 1e-13
    assert error(cavity_mean / cavity_var + power * shift, mean / var) < 1e-12


@pytest.mark.parametrize("precision", [1.0, 1.5])
def test_a_site_that_holds_all_of_the_posterior_cannot_be_deleted(precision):
    with pytest.raises(ValueError, match="cavity"):
        cavity(np.zeros(2), np.ones(2), np.array([0.1, precision]), np.zeros(2), 1.0)


@pytest.mark.parametrize("power", [0.0, 1e-12, 0.3, 1.0])
@pytest.mark.parametrize("noise, mean, var", [(0.1, 0.4, 0.7), (2.0, -1.5, 0.01), (0.01, 0.1, 3.0)])
def test_tilted_against_quadrature(power, noise, mean, var):
    got = gaussian_tilted(np.array([0.9]), noise, np.array([mean]), np.array([var]), power)
    exact = highprec.tilted(0.9, noise, mean, var, power)
    for value, expected in zip(got, exact):
        assert error(value, [expected]) < 1e-11


@properties
@given(powers, st.integers(0, 2**32 - 1))
def test_new_site_turns_the_cavity_into_the_projection(power, seed):
    """A fraction `power` of the new site, times the cavity, has the moments of the tilted distribution."""
    rng = np.random.default_rng(seed)
    mean, var, y, dff, noise = (rng.normal(size=4), rng.exponential(size=4), rng.normal(size=4), rng.exponential(size=4), 0.3)
    _, d1, d2 = gaussian_tilted(y, noise, mean, var + dff, power)
    precision, shift = new_site(d1, d2, mean, var, power)
    new_var = 1 / (1 / var + power * precision)
    assert error(new_var, var + power * var**2 * d2) < 1e-12
    assert error(new_var * (mean / var + power * shift), mean + power * var * d1) < 1e-12


@properties
@given(shapes, powers, st.booleans())
def test_one_full_sweep_reaches_the_closed_form_from_any_start(shape, power, sequential):
    """For Gaussian noise a full-strength site does not depend on the cavity."""
    factor, V, dff, y, noise = problem(*shape)
    rng = np.random.default_rng(shape[2])
    start = rng.uniform(0.0, 0.1, size=len(y)), rng.normal(size=len(y))
    sweep = sequential_sweep if sequential else parallel_sweep
    precision, shift = sweep(factor, V, dff, gaussian(y, noise), *start, power)
    expected_precision, expected_shift, _ = gaussian_sites(y, dff, noise, power)
    assert error(precision, expected_precision) < 1e-10
    assert error(shift, expected_shift) < 1e-10


@properties
@given(shapes, st.floats(0.1, 1.0), st.booleans())
def test_damped_sweeps_converge_and_stay(shape, step, sequential):
    factor, V, dff, y, noise = problem(*shape)
    power = np.resize([0.0, 1.0, 0.5], len(y))
    sweep = sequential_sweep if sequential else parallel_sweep
    sites = np.zeros(len(y)), np.zeros(len(y))
    for k in range(1, 4):
        sites = sweep(factor, V, dff, gaussian(y, noise), *sites, power, step)
        # what is missing shrinks by (1 - step) in each sweep
        for got, full in zip(sites, gaussian_sites(y, dff, noise, power)):
            assert error(got, (1 - (1 - step) ** k) * full, np.max(np.abs(full))) < 1e-10
    *fixed, _ = gaussian_sites(y, dff, noise, power)
    again = sweep(factor, V, dff, gaussian(y, noise), *fixed, power, step)
    assert error(again[0], fixed[0]) < 1e-11
    assert error(again[1], fixed[1]) < 1e-11


def probit(y):
    """Projection for p(y|f) = Phi(yf) at power 1: sites that, unlike Gaussian ones, depend on the cavity."""

    def tilted(rows, mean, var, power):
        z = y[rows] * mean / np.sqrt(1 + var)
        ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
        return norm.logcdf(z), y[rows] * ratio / np.sqrt(1 + var), -ratio * (z + ratio) / (1 + var)

    return tilted


@properties
@given(shapes, st.sampled_from([0.3, 1.0]), st.booleans())
def test_sweeps_against_posteriors_computed_afresh(shape, step, sequential):
    factor, V, dff, y, _ = problem(*shape)
    tilted, N = probit(np.sign(y)), len(y)
    sweep = sequential_sweep if sequential else parallel_sweep
    precision, shift = np.zeros(N), np.zeros(N)
    for _ in range(3):
        got = sweep(factor, V, dff, tilted, precision, shift, 1.0, step)
        start = precision.copy(), shift.copy()
        for n in range(N):
            source = (precision, shift) if sequential else start
            S = np.linalg.inv(np.eye(len(V)) + V * source[0] @ V.T)
            v, tau, nu = V[:, n], source[0][n], source[1][n]
            left = 1 / (v @ S @ v) - tau
            cavity_mean, cavity_var = (v @ S @ V @ source[1] / (v @ S @ v) - nu) / left, 1 / left
            _, d1, d2 = tilted(n, cavity_mean, cavity_var + dff[n], 1.0)
            rho = 1 + d2 * cavity_var
            precision[n] = (1 - step) * tau - step * d2 / rho
            shift[n] = (1 - step) * nu + step * (d1 - d2 * cavity_mean) / rho
        assert error(got[0], precision) < 1e-9
        assert error(got[1], shift) < 1e-9


@properties
@given(shapes)
def test_determined_directions_are_what_the_posterior_knows(shape):
    factor, V, *_ = problem(*shape)
    tau = np.random.default_rng(shape[2]).exponential(size=V.shape[1])
    posterior = posterior_from_sums(factor, V * tau @ V.T, np.zeros(len(V)))
    got = determined_directions(posterior)
    eigenvalues = np.linalg.eigvalsh(V * tau @ V.T)
    assert error(got, np.sum(eigenvalues / (1.0 + eigenvalues)), len(V)) < 1e-9
    assert -1e-9 <= got <= min(V.shape) + 1e-9
