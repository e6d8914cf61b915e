"""BLAS routines in place: against NumPy, and the ordinary path bit for bit the one without the lock."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import error, properties
from scipy.linalg import solve_triangular

from sparse_pep.numerics import linalg as blas

CASES = {  # the call, which of its arguments (L, K, S, T, b, d) it changes, and into what
    "product": (lambda L, K, *_: blas.triangular(L, K), 1, lambda L, K, *_: np.tril(L) @ K),
    "product transposed": (lambda L, K, *_: blas.triangular(L, K, transpose=True), 1, lambda L, K, *_: np.tril(L).T @ K),
    "solve": (lambda L, K, *_: blas.triangular(L, K, solve=True), 1, lambda L, K, *_: solve_triangular(L, K, lower=True)),
    "solve transposed": (lambda L, K, *_: blas.triangular(L, K, True, True), 1, lambda L, K, *_: solve_triangular(L, K, lower=True, trans=1)),
    "syrk": (lambda L, K, S, *_: blas.syrk(S, K, -0.3), 2, lambda L, K, S, *_: np.triu(S, 1) + np.tril(S - 0.3 * K @ K.T)),
    "dger": (lambda L, K, S, T, b, d: blas.dger(T, b, d), 3, lambda L, K, S, T, b, d: T + np.outer(b, d)),
}


def problem(M, n, seed):
    """L (M, M), whose upper triangle must not be read, K (M, n), S (M, M), T (M, n), b (M,) and d (n,)."""
    rng = np.random.default_rng(seed)
    shapes = (M, M), (M, n), (M, M), (M, n), (M,), (n,)
    L, *others = (rng.normal(size=shape) for shape in shapes)
    return [L + 4 * M * np.eye(M), *others]


@properties
@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32 - 1), st.sampled_from(sorted(CASES)))
def test_routines_change_their_argument_and_nothing_else(M, n, seed, name):
    before, results, (call, place, dense) = problem(M, n, seed), [], CASES[name]
    expected = dense(*before)
    for plain in (False, True):
        after = [array.copy() for array in before]
        with pytest.MonkeyPatch.context() as patch:
            if plain:
                patch.setattr(blas, "ROUTINES", dict.fromkeys(blas.ROUTINES))
            call(*after)
        for i, (old, new) in enumerate(zip(before, after)):
            if i != place:
                np.testing.assert_array_equal(new, old)
        results.append(after[place])
        assert not expected.size or error(after[place], expected, 1.0 + n + M) < 1e-14
    np.testing.assert_array_equal(*results)


def test_without_the_expected_capsule_the_ordinary_path_is_taken(monkeypatch):
    assert all(blas.ROUTINES.values()) and blas._routine("dger") is not None  # this SciPy has them
    for value, ordinary in (("1", True), ("0", False)):
        monkeypatch.setenv("SPARSE_PEP_PLAIN_BLAS", value)
        assert (blas._routine("dger") is None) == ordinary
    for other in ("iiddididd", "iidddddid", "?iddididdi"):
        monkeypatch.setitem(blas.SIGNATURES, "dger", other)
        assert blas._routine("dger") is None
    monkeypatch.undo()
    monkeypatch.setattr(blas.cython_blas, "__pyx_capi__", {})
    assert blas._routine("dger") is None


@pytest.mark.parametrize("wrong", [np.ones((5, 3)).T, np.ones((3, 5), dtype=np.float32), np.ones((3, 10))[:, ::2]])
def test_buffers_that_blas_would_read_as_something_else_are_refused(wrong):
    with pytest.raises(ValueError, match="`K` must be a C-ordered float64 array"):
        blas.triangular(np.eye(3), wrong)
    with pytest.raises(ValueError, match="`[SV]` must be a C-ordered float"):
        blas.syrk(np.eye(3), wrong)
    with pytest.raises(ValueError, match="`T` must be a C-ordered float64 array"):
        blas.dger(wrong, np.ones(3), np.ones(5))
    with pytest.raises(ValueError, match=r"`L` must be a C-ordered float64 array \(3, 3\)"):
        blas.triangular(np.eye(4), np.ones((3, 5)), solve=True)
