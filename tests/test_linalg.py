"""Properties of the numerical ground floor, over shapes and scales."""

from contextlib import suppress
from threading import Event, Thread
from time import sleep

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import error, properties
from threadpoolctl import threadpool_limits

from sparse_pep.numerics.linalg import (
    HOLD,
    add_outer,
    add_weighted,
    chunk_slices,
    column_dots,
    factorise,
    log1p_ratio,
    lower_gram,
    map_chunks,
    mirror,
    one_blas_thread,
    scale_columns,
    solve_lower,
    thin_product,
    weighted_product,
)

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
@given(st.floats(-1.0, 1e300, exclude_min=True))
def test_log1p_ratio_is_exact_everywhere(x):
    with mp.workdps(50):
        exact = float(mp.log1p(mp.mpf(x)) / mp.mpf(x)) if x else 1.0
    assert error(log1p_ratio(x), exact) < 5e-16


@pytest.mark.parametrize("x", [5e-324, 1e-308, 1e-160, -1e-160, 1e-17, -1e-17, 1e-9, -1.0 + 2**-53, 1e308])
def test_log1p_ratio_at_the_ends(x):
    with mp.workdps(400):
        exact = float(mp.log1p(mp.mpf(x)) / mp.mpf(x))
    assert error(log1p_ratio(np.array([x])), [exact]) < 5e-16


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


def test_a_variable_without_variance_takes_the_jitter_of_the_others():
    factor = factorise(np.diag([2.0, 0.0]), 1e-6)
    assert factor.jitter == 1e-6 and factor.lower[1, 1] == np.sqrt(1e-6)


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


def test_a_hopeless_matrix_is_refused_by_name():
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


@pytest.mark.parametrize("seed", range(5))
def test_residual_stays_small_where_the_factor_is_ill_conditioned(seed):
    """A solve leaves a residual of a rounding; a product with the inverse of so ill-conditioned a factor leaves more."""
    factor = factorise(covariance(40, seed, decades=13.5))
    assert np.linalg.cond(factor.lower) > 2e6
    right = factor.lower @ np.random.default_rng(seed).normal(size=(40, 5))
    assert error(factor.lower @ solve_lower(factor, right), right) < 5e-16


@properties
@given(sizes, st.integers(0, 9), seeds)
def test_add_outer_and_mirror(M, n, seed):
    rng = np.random.default_rng(seed)
    S, V = rng.normal(size=(M, M)), rng.normal(size=(M, n))
    S = S + S.T
    expected, upper = S + V @ V.T, np.triu(S, 1)
    add_outer(S, V)
    np.testing.assert_array_equal(np.triu(S, 1), upper)
    assert error(mirror(S), expected, 1.0 + n) < 1e-14


@properties
@given(sizes, st.integers(0, 9), seeds, st.booleans())
def test_columns_scaled_dotted_and_summed(M, n, seed, common):
    rng = np.random.default_rng(seed)
    A, V, U = rng.normal(size=(M, M)), rng.normal(size=(M, n)), rng.normal(size=(M, n))
    weight = np.full(n, 0.7) if common else rng.integers(0, 3, size=n) * 0.3
    D = np.diag(weight)
    assert error(scale_columns(V, weight), V @ D, 1.0) < 1e-14
    assert error(column_dots(V, U), np.diag(V.T @ U), 1.0 + M) < 1e-14
    assert error(weighted_product(A, V, weight, out=np.empty((M, n))), A @ V @ D, 1.0 + M) < 1e-14
    assert error(lower_gram(np.tril(A)), np.tril(A).T @ np.tril(A), 1.0 + M) < 1e-14
    S, work = np.zeros((M, M)), np.empty((M, n))
    add_weighted(S, V, weight, work)
    add_weighted(S, V, weight, work)
    assert error(S, np.tril(2.0 * V @ D @ V.T), 1.0 + n) < 1e-14


@pytest.mark.parametrize(
    "M, n, D", [(1, 1, 1), (12, 100_000, 3), (7, 200_000, 4), (6, 300_000, 4), (0, 5, 2), (4, 0, 2)]
)
def test_thin_products_in_groups_of_rows(M, n, D):
    rng = np.random.default_rng(0)
    W, B = rng.normal(size=(M, n)), rng.normal(size=(n, D))
    for left in (W, np.asfortranarray(W)):
        assert thin_product(left, B).shape == (M, D)
        assert error(thin_product(left, B), W @ B, 1.0 + n**0.5) < 1e-13


@properties
@given(st.integers(0, 500), st.integers(1, 2000), st.none() | st.integers(1, 600))
def test_chunks_cover_every_row_once_and_in_order(N, M, chunk_size):
    slices = chunk_slices(N, M, chunk_size)
    rows = np.arange(N)
    np.testing.assert_array_equal(np.concatenate([rows[s] for s in slices] or [rows]), rows)
    assert all(1 <= s.stop - s.start <= (chunk_size or N) for s in slices)


@pytest.mark.parametrize("chunk_size", [0, -1])
def test_chunks_of_no_rows_are_refused(chunk_size):
    with pytest.raises(ValueError, match="chunk_size"):
        chunk_slices(10, 3, chunk_size)


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_map_chunks_gives_every_chunk_to_one_thread(limit, n):
    slices = chunk_slices(n, 1, 1)
    with threadpool_limits(limit, user_api="blas"):
        shares = map_chunks(list, slices)
    assert sorted(s.start for share in shares for s in share) == list(range(n))
    assert len(shares) <= min(limit, n)
    assert all(share == sorted(share, key=lambda s: s.start) for share in shares)


@pytest.mark.parametrize("limit", [1, 2])
def test_an_error_in_a_chunk_comes_out(limit):
    def work(slices):
        raise np.linalg.LinAlgError("in a chunk")

    with threadpool_limits(limit, user_api="blas"), pytest.raises(np.linalg.LinAlgError, match="in a chunk"):
        map_chunks(work, chunk_slices(9, 1, 2))


def test_an_error_in_a_chunk_does_not_lock_the_others_out():
    entered, ended = Event(), Event()

    def work(slices):
        if slices[0].start == 0:
            entered.wait(30.0)
            raise np.linalg.LinAlgError("in a chunk")
        entered.set()
        sleep(0.3)  # until the error has reached the outside
        with one_blas_thread(), HOLD.lend(5):
            ended.set()

    def run():
        with threadpool_limits(2, user_api="blas"), suppress(np.linalg.LinAlgError):
            map_chunks(work, chunk_slices(2, 1, 1))

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(30.0)
    assert not thread.is_alive() and ended.is_set() and HOLD.depth == 0


def test_lent_memory_is_the_same_again_and_nobody_elses():
    with one_blas_thread():
        with HOLD.lend(10) as first, HOLD.lend(10) as second:
            assert first.size >= 10 and not np.shares_memory(first, second)
        with HOLD.lend(7) as again, HOLD.lend(20) as longer:
            assert np.shares_memory(again, first) or np.shares_memory(again, second)
            assert longer.size >= 20 and not np.shares_memory(again, longer)
        with HOLD.lend(5) as one, HOLD.lend(5) as other:
            assert not np.shares_memory(one, other)
        with pytest.raises(ZeroDivisionError), HOLD.lend(20):
            raise ZeroDivisionError
    assert HOLD.spare.size == 0  # nothing is held when nobody is inside
    with HOLD.lend(5) as outside:
        assert outside.size >= 5
    assert HOLD.spare.size == 0
