"""Linear algebra: properties over shapes and scales, on both paths to the BLAS."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import error, properties

from sparse_pep.numerics.linalg import add_weighted, factorise, solve_lower

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 12)
scales = st.sampled_from([1e-150, 1e-6, 1.0, 1e6, 1e150])


def covariance(M, seed, decades=2.0):
    """A random covariance matrix (M, M) with eigenvalues from 1 down to 10^-decades."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(M, M)))
    K = (Q * 10.0 ** -np.linspace(0.0, decades, M)) @ Q.T
    return np.ascontiguousarray((K + K.T) / 2)


@properties
@given(sizes, seeds, scales)
def test_factor_is_that_of_the_matrix(M, seed, scale):
    K = scale * covariance(M, seed)
    before = K.copy()
    factor = factorise(K)
    np.testing.assert_array_equal(K, before)
    assert factor.jitter == 0.0 and not np.any(np.triu(factor.lower, 1)) and error(factor.lower @ factor.lower.T, K) < 1e-14
    assert error(factor.half_log_det, 0.5 * np.linalg.slogdet(K)[1], M + abs(np.log(scale)) * M) < 1e-13


@properties
@given(sizes, seeds, st.sampled_from([0.0, 1e-8, 1e-2]))
def test_units_of_each_variable_do_not_matter(M, seed, jitter):
    K, units = covariance(M, seed), 10.0 ** np.random.default_rng(seed).integers(-8, 9, M)
    scaled = factorise(units[:, None] * K * units, jitter)
    assert scaled.jitter == jitter and error(scaled.lower / units[:, None], factorise(K, jitter).lower) < 1e-12


@properties
@given(st.integers(2, 12), seeds, scales)
def test_a_singular_matrix_is_factorised_with_the_least_jitter_that_works(M, seed, scale):
    rng = np.random.default_rng(seed)
    v = rng.uniform(0.5, 2.0, size=(M, 1)) * rng.choice([-1.0, 1.0], size=(M, 1))
    K = scale * (v @ v.T)
    K -= 1e-15 * np.trace(K) * np.eye(M)  # surely not positive definite
    factor = factorise(K)
    assert 0.0 < factor.jitter <= 1e-12 and error(factor.lower @ factor.lower.T, K) < 1e-11


def test_escalation_starts_above_the_jitter_asked_for_and_goes_on_until_it_works():
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    K = (Q * [1.0, 1.0, 1.0, -1e-5]) @ Q.T
    for asked in (0.0, 1e-7, 1e-6):
        used = factorise(K, asked).jitter
        assert used > asked
        enough, less = (np.linalg.eigvalsh(K + j * np.diag(np.diag(K)))[0] for j in (used, 0.0999 * used))
        assert less < 0.0 < enough


def test_a_variable_without_variance_takes_the_jitter_of_the_others_and_a_hopeless_matrix_is_refused_by_name():
    factor = factorise(np.diag([2.0, 0.0]), 1e-6)
    assert factor.jitter == 1e-6 and factor.lower[1, 1] == np.sqrt(1e-6)
    with pytest.raises(np.linalg.LinAlgError, match="Kuu.*jitter"):
        factorise(np.diag([1.0, -1.0]), name="Kuu")
    with pytest.raises(np.linalg.LinAlgError, match="Kuu.*finite"):
        factorise(np.diag([1.0, np.nan]), name="Kuu")


@properties
@given(sizes, st.integers(0, 9), seeds, st.sampled_from([1.0, 8.0, 11.0]), st.booleans())
def test_solve_lower_against_scipy(M, n, seed, decades, transpose):
    rng = np.random.default_rng(seed)
    factor, right = factorise(covariance(M, seed, decades)), rng.normal(size=(M, n))
    expected = scipy.linalg.solve_triangular(factor.lower, right, lower=True, trans=int(transpose))
    before = right.copy()
    got = solve_lower(factor, right, transpose)
    np.testing.assert_array_equal(right, before)
    condition = np.linalg.cond(factor.lower)
    assert error(got, expected) < 1e-15 * condition if n else got.shape == (M, 0)
    if n:
        assert error(solve_lower(factor, right[:, 0], transpose), got[:, 0]) < 1e-15 * condition
        assert error(solve_lower(factor, np.asfortranarray(right), transpose), got) == 0.0


@properties
@given(sizes, st.integers(0, 9), seeds, st.booleans())
def test_weighted_columns_are_summed(M, n, seed, common):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(M, n))
    weight = np.full(n, rng.choice([0.7, -0.7])) if common else rng.integers(-1, 3, size=n) * 0.3
    D = np.diag(weight)
    S, work = np.zeros((M, M)), np.empty((M, n))
    add_weighted(S, V, weight, work)
    add_weighted(S, V.copy(), weight, V.copy())
    add_weighted(S, own := V.copy(), weight, own)
    assert error(S, np.tril(3.0 * V @ D @ V.T), 1.0 + n) < 1e-14
