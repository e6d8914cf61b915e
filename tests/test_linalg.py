"""Linear algebra: properties over shapes and scales, on both paths to the BLAS."""

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import error, properties

from sparse_pep.numerics.linalg import add_weighted, factorise, inverse_gram, log1p_ratio, mirror, solve_lower, thin_product

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 12)
scales = st.sampled_from([1e-150, 1e-6, 1.0, 1e6, 1e150])


def covariance(M, seed, decades=2.0):
    """A random covariance matrix (M, M) with eigenvalues from 1 down to 10^-decades."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(M, M)))
    K = (Q * 10.0 ** -np.linspace(0.0, decades, M)) @ Q.T
    return np.ascontiguousarray((K + K.T) / 2)


def test_log1p_ratio_is_exact_everywhere():
    ends = [0.0, 5e-324, 1e-308, 1e-160, -1e-160, 1e-17, -1e-17, 1e-9, -1.0 + 2**-53, 1e308]
    spread = np.random.default_rng(0).uniform(-300.0, 300.0, 300)
    x = np.array([*ends, *(10.0**spread), *(-(10.0 ** -np.abs(spread[:100] / 10.0)))])
    with mp.workdps(400):
        exact = [float(mp.log1p(mp.mpf(each)) / mp.mpf(each)) if each else 1.0 for each in x]
    np.testing.assert_allclose(log1p_ratio(x), exact, rtol=5e-16)


@properties
@given(sizes, seeds, scales)
def test_factor_is_that_of_the_matrix(M, seed, scale):
    K = scale * covariance(M, seed)
    before = K.copy()
    factor = factorise(K)
    np.testing.assert_array_equal(K, before)
    assert factor.jitter == 0.0
    assert not np.any(np.triu(factor.lower, 1))
    assert error(factor.lower @ factor.lower.T, K) < 1e-14
    assert error(factor.half_log_det, 0.5 * np.linalg.slogdet(K)[1], M + abs(np.log(scale)) * M) < 1e-13


@properties
@given(sizes, seeds, scales, st.sampled_from([1e-12, 1e-6, 1e-2]))
def test_jitter_asked_for_is_relative_to_each_entry_of_the_diagonal(M, seed, scale, jitter):
    K = scale * covariance(M, seed)
    K *= np.outer(*[np.random.default_rng(seed).uniform(0.5, 2.0, M)] * 2)
    factor = factorise(K, jitter)
    assert factor.jitter == jitter
    own = jitter * np.diag(K)
    assert error(factor.lower @ factor.lower.T, K + np.diag(own)) < 1e-14
    assert error(np.diag(factor.lower @ factor.lower.T) - np.diag(K), own, np.max(K)) < 1e-14


@properties
@given(sizes, seeds, st.sampled_from([0.0, 1e-8, 1e-2]))
def test_units_of_each_variable_do_not_matter(M, seed, jitter):
    K, units = covariance(M, seed), 10.0 ** np.random.default_rng(seed).integers(-8, 9, M)
    scaled = factorise(units[:, None] * K * units, jitter)
    assert scaled.jitter == jitter
    assert error(scaled.lower / units[:, None], factorise(K, jitter).lower) < 1e-12


@properties
@given(st.integers(2, 12), seeds, scales)
def test_a_singular_matrix_is_factorised_with_the_least_jitter_that_works(M, seed, scale):
    rng = np.random.default_rng(seed)
    v = rng.uniform(0.5, 2.0, size=(M, 1)) * rng.choice([-1.0, 1.0], size=(M, 1))
    K = scale * (v @ v.T)
    K -= 1e-15 * np.trace(K) * np.eye(M)  # surely not positive definite
    factor = factorise(K)
    assert 0.0 < factor.jitter <= 1e-12
    assert error(factor.lower @ factor.lower.T, K) < 1e-11


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
@given(sizes, seeds, st.sampled_from([1.0, 8.0, 13.0]))
def test_the_inverse_of_a_matrix_from_its_factor(M, seed, decades):
    K = covariance(M, seed, decades)
    inverse = inverse_gram(factorise(K))
    np.testing.assert_array_equal(inverse, inverse.T)
    condition = np.linalg.cond(K)
    assert error(inverse, np.linalg.inv(K)) < 1e-14 * condition


@pytest.mark.parametrize("seed", range(5))
def test_residual_stays_small_where_the_factor_is_ill_conditioned(seed):
    """A solve leaves a residual of a rounding; a product with the inverse of so ill-conditioned a factor leaves more."""
    factor = factorise(covariance(40, seed, decades=13.5))
    assert np.linalg.cond(factor.lower) > 2e6
    right = factor.lower @ np.random.default_rng(seed).normal(size=(40, 5))
    assert error(factor.lower @ solve_lower(factor, right), right) < 5e-16


@properties
@given(sizes, st.integers(0, 9), seeds)
def test_outer_products_are_added_to_the_lower_triangle(M, n, seed):
    rng = np.random.default_rng(seed)
    S, V = rng.normal(size=(M, M)), rng.normal(size=(M, n))
    S = S + S.T
    expected, upper = S + V @ V.T, np.triu(S, 1)
    add_weighted(S, V, 1.0)
    np.testing.assert_array_equal(np.triu(S, 1), upper)
    assert error(mirror(S), expected, 1.0 + n) < 1e-14


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


@pytest.mark.parametrize(
    "M, n, D", [(1, 1, 1), (12, 100_000, 3), (7, 200_000, 4), (6, 300_000, 4), (0, 5, 2), (4, 0, 2)]
)
def test_thin_products_in_groups_of_rows(M, n, D):
    rng = np.random.default_rng(0)
    W, B = rng.normal(size=(M, n)), rng.normal(size=(n, D))
    for left in (W, np.asfortranarray(W)):
        assert thin_product(left, B).shape == (M, D)
        assert error(thin_product(left, B), W @ B, 1.0 + n**0.5) < 1e-13
