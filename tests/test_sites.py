"""Delete, project, update: against quadrature, dense algebra and the closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import error, properties
from scipy.stats import norm

from sparse_pep.numerics.linalg import factorise
from sparse_pep.sites import cavity, parallel_sweep, sequential_sweep

shapes = st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(0, 2**32 - 1))


def problem(M, N, seed):
    """Kuu factor, V, D, targets and noise of a random problem with whitened features."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(M, M + 3))
    factor = factorise(np.ascontiguousarray(A @ A.T))
    V = rng.normal(size=(M, N))
    dff = rng.exponential(size=N) * rng.integers(0, 2, N)
    return factor, V, dff, rng.normal(size=N), float(rng.uniform(0.05, 2.0))


@pytest.mark.parametrize("precision", [1.0, 1.5])
def test_a_site_that_holds_all_of_the_posterior_cannot_be_deleted(precision):
    with pytest.raises(ValueError, match="cavity"):
        cavity(np.zeros(2), np.ones(2), np.array([0.1, precision]), np.zeros(2), 1.0)


def probit(y):
    """Projection for p(y|f) = Phi(yf) at power 1: sites that, unlike Gaussian ones, depend on
    the cavity.
    """

    def tilted(rows, mean, var, power):
        z = y[rows] * mean / np.sqrt(1 + var)
        ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
        return norm.logcdf(z), y[rows] * ratio / np.sqrt(1 + var), -ratio * (z + ratio) / (1 + var)

    return tilted


@properties
@given(shapes, st.sampled_from([0.3, 1.0]), st.booleans())
def test_sweeps_against_posteriors_computed_afresh(shape, step, sequential):
    factor, V, dff, y, _ = problem(*shape)
    tilted = probit(np.sign(y))
    N = len(y)
    sweep = sequential_sweep if sequential else parallel_sweep
    precision = np.zeros(N)
    shift = np.zeros(N)
    for _ in range(3):
        got = sweep(factor, V, dff, tilted, precision, shift, 1.0, step)
        start = precision.copy(), shift.copy()
        for n in range(N):
            source = (precision, shift) if sequential else start
            S = np.linalg.inv(np.eye(len(V)) + V * source[0] @ V.T)
            v = V[:, n]
            tau = source[0][n]
            nu = source[1][n]
            left = 1 / (v @ S @ v) - tau
            cavity_mean = (v @ S @ V @ source[1] / (v @ S @ v) - nu) / left
            cavity_var = 1 / left
            _, d1, d2 = tilted(n, cavity_mean, cavity_var + dff[n], 1.0)
            rho = 1 + d2 * cavity_var
            precision[n] = (1 - step) * tau - step * d2 / rho
            shift[n] = (1 - step) * nu + step * (d1 - d2 * cavity_mean) / rho
        assert error(got[0], precision) < 1e-9
        assert error(got[1], shift) < 1e-9
