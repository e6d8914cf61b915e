"""BLAS routines in place: against NumPy, and the ordinary path bit for bit the one without the lock."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import error, properties

from sparse_pep.numerics import blas

ROUTINES = {
    "dtrmm": lambda L, K, S, T, b, d: blas.dtrmm(L, K),
    "dtrmm transposed": lambda L, K, S, T, b, d: blas.dtrmm(L, K, transpose=True),
    "dtrsm": lambda L, K, S, T, b, d: blas.dtrsm(L, K),
    "dtrsm transposed": lambda L, K, S, T, b, d: blas.dtrsm(L, K, transpose=True),
    "dsyrk": lambda L, K, S, T, b, d: blas.dsyrk(S, K, -0.3),
    "dger": lambda L, K, S, T, b, d: blas.dger(T, b, d),
}
DENSE = {
    "dtrmm": lambda L, K, S, T, b, d: (1, np.tril(L) @ K),
    "dtrmm transposed": lambda L, K, S, T, b, d: (1, np.tril(L).T @ K),
    "dtrsm": lambda L, K, S, T, b, d: (1, scipy.linalg.solve_triangular(L, K, lower=True)),
    "dtrsm transposed": lambda L, K, S, T, b, d: (1, scipy.linalg.solve_triangular(L, K, lower=True, trans=1)),
    "dsyrk": lambda L, K, S, T, b, d: (2, np.triu(S, 1) + np.tril(S - 0.3 * K @ K.T)),
    "dger": lambda L, K, S, T, b, d: (3, T + np.outer(b, d)),
}


def problem(M, n, seed):
    """L (M, M), whose upper triangle must not be read, K (M, n), S (M, M), T (M, n), b (M,) and d (n,)."""
    rng = np.random.default_rng(seed)
    shapes = (M, M), (M, n), (M, M), (M, n), (M,), (n,)
    L, *others = (rng.normal(size=shape) for shape in shapes)
    return [L + 4 * M * np.eye(M), *others]


@properties
@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 2**32 - 1), st.sampled_from(sorted(ROUTINES)))
def test_routines_change_their_argument_and_nothing_else(M, n, seed, name):
    before = problem(M, n, seed)
    place, expected = DENSE[name](*before)
    results = []
    for plain in (False, True):
        after = [array.copy() for array in before]
        with pytest.MonkeyPatch.context() as patch:
            if plain:
                patch.setattr(blas, "_routine", lambda name: None)
            ROUTINES[name](*after)
        for i, (old, new) in enumerate(zip(before, after)):
            if i != place:
                np.testing.assert_array_equal(new, old)
        results.append(after[place])
        assert not expected.size or error(after[place], expected, 1.0 + n + M) < 1e-14
    np.testing.assert_array_equal(*results)


def test_this_scipy_has_the_expected_signatures():
    assert all(blas._routine(name) is not None for name in blas.SIGNATURES)


def test_without_the_expected_capsule_the_ordinary_path_is_taken(monkeypatch):
    routine = blas._routine.__wrapped__
    assert routine("dger") is not None
    monkeypatch.setitem(blas.SIGNATURES, "dger", "iiddididd")
    assert routine("dger") is None
    monkeypatch.undo()
    monkeypatch.setattr(blas.cython_blas, "__pyx_capi__", {})
    assert routine("dger") is None


def test_a_signature_with_other_types_is_not_the_expected_one():
    assert blas._letters(b"void (int64_t *, int *, double *)") == "?id"
    assert blas._letters(b"long (int *)") == "?"


def test_an_environment_variable_selects_the_ordinary_path():
    code = "from sparse_pep.numerics import blas; print([blas._routine(name) for name in blas.SIGNATURES])"
    for value, ordinary in (("1", True), ("0", False)):
        environment = os.environ | {"SPARSE_PEP_PLAIN_BLAS": value}
        out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
        assert (out.strip() == "[None, None, None, None]") == ordinary


@pytest.mark.parametrize("wrong", [np.ones((5, 3)).T, np.ones((3, 5), dtype=np.float32), np.ones((3, 10))[:, ::2]])
def test_buffers_that_blas_would_read_as_something_else_are_refused(wrong):
    with pytest.raises(ValueError, match="`K` must be a C-ordered float64 array"):
        blas.dtrmm(np.eye(3), wrong)
    with pytest.raises(ValueError, match="`V` must be a C-ordered float64 array"):
        blas.dsyrk(np.eye(3), wrong)
    with pytest.raises(ValueError, match="`T` must be a C-ordered float64 array"):
        blas.dger(wrong, np.ones(3), np.ones(5))
    with pytest.raises(ValueError, match=r"`L` must be a C-ordered float64 array \(3, 3\)"):
        blas.dtrsm(np.eye(4), np.ones((3, 5)))
