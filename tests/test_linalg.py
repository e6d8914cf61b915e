"""Linear algebra over shapes and scales, and BLAS routines in place: against NumPy, and bit for
bit the same without the capsules.
"""

import numpy as np
import pytest
from conftest import value_error
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from reference.compare import error, properties
from scipy.linalg import solve_triangular

from sparse_pep.numerics import linalg as blas
from sparse_pep.numerics.linalg import factorise, solve_lower

seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 12)
scales = st.sampled_from([1e-150, 1e-6, 1.0, 1e6, 1e150])


def covariance(M, seed, decades=2.0):
    """A random covariance matrix (M, M) with eigenvalues from 1 down to 10^-decades."""
    rng = default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(M, M)))
    K = (Q * 10.0 ** -np.linspace(0.0, decades, M)) @ Q.T
    return np.ascontiguousarray((K + K.T) / 2)


@properties
@given(sizes, seeds, scales)
def test_factor_is_that_of_the_matrix(M, seed, scale):
    K = scale * covariance(M, seed)
    before = K.copy()
    factor = factorise(K)
    assert_array_equal(K, before)
    assert factor.jitter == 0.0
    assert not np.any(np.triu(factor.lower, 1))
    assert error(factor.lower @ factor.lower.T, K) < 1e-14
    assert (
        error(factor.half_log_det, 0.5 * np.linalg.slogdet(K)[1], M + abs(np.log(scale)) * M)
        < 1e-13
    )


@properties
@given(sizes, seeds, st.sampled_from([0.0, 1e-8, 1e-2]))
def test_units_of_each_variable_do_not_matter(M, seed, jitter):
    K = covariance(M, seed)
    units = 10.0 ** default_rng(seed).integers(-8, 9, M)
    scaled = factorise(units[:, None] * K * units, jitter)
    assert scaled.jitter == jitter
    assert error(scaled.lower / units[:, None], factorise(K, jitter).lower) < 1e-12


@properties
@given(st.integers(2, 12), seeds, scales)
def test_a_singular_matrix_is_factorised_with_the_least_jitter_that_works(M, seed, scale):
    rng = default_rng(seed)
    v = rng.uniform(0.5, 2.0, (M, 1)) * rng.choice([-1.0, 1.0], size=(M, 1))
    K = scale * (v @ v.T)
    K -= 1e-15 * np.trace(K) * np.eye(M)  # surely not positive definite
    factor = factorise(K)
    assert 0.0 < factor.jitter <= 1e-12
    assert error(factor.lower @ factor.lower.T, K) < 1e-11


def test_escalation_starts_above_the_jitter_asked_for_and_goes_on_until_it_works():
    Q, _ = np.linalg.qr(default_rng(0).normal(size=(4, 4)))
    K = (Q * [1.0, 1.0, 1.0, -1e-5]) @ Q.T
    for asked in (0.0, 1e-7, 1e-6):
        used = factorise(K, asked).jitter
        assert used > asked
        enough, less = (
            np.linalg.eigvalsh(K + j * np.diag(np.diag(K)))[0] for j in (used, 0.0999 * used)
        )
        assert less < 0.0 < enough


def test_a_variable_without_variance_takes_the_jitter_of_the_others():
    factor = factorise(np.diag([2.0, 0.0]), 1e-6)
    assert factor.jitter == 1e-6
    assert factor.lower[1, 1] == np.sqrt(1e-6)
    with pytest.raises(np.linalg.LinAlgError, match="Kuu.*jitter"):
        factorise(np.diag([1.0, -1.0]), name="Kuu")
    with pytest.raises(np.linalg.LinAlgError, match="Kuu.*finite"):
        factorise(np.diag([1.0, np.nan]), name="Kuu")


@properties
@given(sizes, st.integers(0, 9), seeds, st.sampled_from([1.0, 8.0, 11.0]), st.booleans())
def test_solve_lower_against_scipy(M, n, seed, decades, transpose):
    rng = default_rng(seed)
    factor = factorise(covariance(M, seed, decades))
    right = rng.normal(size=(M, n))
    expected = solve_triangular(factor.lower, right, lower=True, trans=int(transpose))
    before = right.copy()
    got = solve_lower(factor, right, transpose)
    assert_array_equal(right, before)
    condition = np.linalg.cond(factor.lower)
    assert error(got, expected) < 1e-15 * condition if n else got.shape == (M, 0)
    if n:
        assert error(solve_lower(factor, right[:, 0], transpose), got[:, 0]) < 1e-15 * condition
        assert error(solve_lower(factor, np.asfortranarray(right), transpose), got) == 0.0


@properties
@given(sizes, st.integers(0, 9), seeds, st.booleans())
def test_weighted_columns_are_summed(M, n, seed, common):
    rng = default_rng(seed)
    V = rng.normal(size=(M, n))
    S = np.zeros((M, M))
    weight = np.full(n, rng.choice([0.7, -0.7])) if common else rng.integers(-1, 3, n) * 0.3
    for columns, work in ((V, np.empty((M, n))), (V.copy(), V.copy()), (own := V.copy(), own)):
        blas.add_weighted(S, columns, weight, work)
    assert error(S, np.tril(3.0 * V @ np.diag(weight) @ V.T), 1.0 + n) < 1e-14


CASES = {  # the call, which of its arguments (L, K, S, T, b, d) it changes, and into what
    "product": (lambda L, K, *_: blas.triangular(L, K), 1, lambda L, K, *_: np.tril(L) @ K),
    "product transposed": (
        lambda L, K, *_: blas.triangular(L, K, transpose=True),
        1,
        lambda L, K, *_: np.tril(L).T @ K,
    ),
    "solve": (
        lambda L, K, *_: blas.triangular(L, K, solve=True),
        1,
        lambda L, K, *_: solve_triangular(L, K, lower=True),
    ),
    "solve transposed": (
        lambda L, K, *_: blas.triangular(L, K, True, True),
        1,
        lambda L, K, *_: solve_triangular(L, K, lower=True, trans=1),
    ),
    "syrk": (
        lambda L, K, S, *_: blas.syrk(S, K, -0.3),
        2,
        lambda L, K, S, *_: np.triu(S, 1) + np.tril(S - 0.3 * K @ K.T),
    ),
    "dger": (
        lambda L, K, S, T, b, d: blas.dger(T, b, d),
        3,
        lambda L, K, S, T, b, d: T + np.outer(b, d),
    ),
}


def arrays(M, n, seed):
    """L (M, M), whose upper triangle must not be read, K (M, n), S (M, M), T (M, n), b (M,) and
    d (n,).
    """
    rng = default_rng(seed)
    shapes = (M, M), (M, n), (M, M), (M, n), (M,), (n,)
    L, *others = (rng.normal(size=shape) for shape in shapes)
    return [L + 4 * M * np.eye(M), *others]


@properties
@given(
    st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32 - 1), st.sampled_from(sorted(CASES))
)
def test_routines_change_their_argument_and_nothing_else(M, n, seed, name):
    before = arrays(M, n, seed)
    results = []
    call, place, dense = CASES[name]
    expected = dense(*before)
    for plain in (False, True):
        after = [array.copy() for array in before]
        with pytest.MonkeyPatch.context() as patch:
            if plain:
                patch.setattr(blas, "ROUTINES", dict.fromkeys(blas.ROUTINES))
            call(*after)
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            if i != place:
                assert_array_equal(new, old)
        results.append(after[place])
        assert not expected.size or error(after[place], expected, 1.0 + n + M) < 1e-14
    assert_array_equal(*results)


def test_without_the_expected_capsule_the_ordinary_path_is_taken(monkeypatch):
    assert all(blas.ROUTINES.values())
    assert blas._routine("dger") is not None  # this SciPy has them
    for value, ordinary in (("1", True), ("0", False)):
        monkeypatch.setenv("SPARSE_PEP_PLAIN_BLAS", value)
        assert (blas._routine("dger") is None) == ordinary
    for other in ("iiddididd", "iidddddid", "?iddididdi"):
        monkeypatch.setitem(blas.SIGNATURES, "dger", other)
        assert blas._routine("dger") is None
    monkeypatch.undo()
    monkeypatch.setattr(blas.cython_blas, "__pyx_capi__", {})
    assert blas._routine("dger") is None


@pytest.mark.parametrize(
    "wrong", [np.ones((5, 3)).T, np.ones((3, 5), dtype=np.float32), np.ones((3, 10))[:, ::2]]
)
def test_buffers_that_blas_would_read_as_something_else_are_refused(wrong):
    with value_error("`K` must be a C-ordered float64 array"):
        blas.triangular(np.eye(3), wrong)
    with value_error("`[SV]` must be a C-ordered float"):
        blas.syrk(np.eye(3), wrong)
    with value_error("`T` must be a C-ordered float64 array"):
        blas.dger(wrong, np.ones(3), np.ones(5))
    with value_error(r"`L` must be a C-ordered float64 array \(3, 3\)"):
        blas.triangular(np.eye(4), np.ones((3, 5)), solve=True)
