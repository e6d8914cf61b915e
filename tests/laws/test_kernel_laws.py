"""Laws that every kernel obeys. A new kernel is tested by one more line in KERNELS."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from conftest import value_error
from numpy.testing import assert_allclose, assert_array_equal
from reference.compare import differences, error, slopes

from sparse_pep.estimators.config import from_config, to_config
from sparse_pep.kernels import (
    Categorical,
    ChangePoint,
    Constant,
    Coregion,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Projected,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
    White,
)
from sparse_pep.kernels.base import Combination
from sparse_pep.numerics.parameters import added

ARD = np.array([0.8, np.sqrt(3.0), 2.6])  # three columns, one number of many digits
W = np.array([[0.7, -0.4, 0.3], [0.2, 0.9, -0.6]])
KERNELS = {
    "se": SquaredExponential(1.3, 0.9),
    "se ard": SquaredExponential(1.3, ARD),
    "se of one column": SquaredExponential(0.4, 1.1, active_dims=(1,)),
    "matern12": Matern12(1.3, 0.9),
    "matern12 ard": Matern12(1.3, ARD),
    "matern32": Matern32(1.3, 0.9),
    "matern32 ard": Matern32(1.3, ARD),
    "matern52": Matern52(1.3, 0.9),
    "matern52 ard": Matern52(1.3, ARD),
    "rational quadratic": RationalQuadratic(1.3, 0.9, shape=0.7),
    "rational quadratic ard": RationalQuadratic(1.3, ARD, shape=2.0),
    "periodic": Periodic(1.3, 0.9, 2.3),
    "periodic ard": Periodic(1.3, ARD, 2.3),
    "linear": Linear(0.7),
    "linear ard": Linear(ARD),
    "constant": Constant(0.7),
    "white": White(0.7),
    "categorical": Categorical(1.3, 0.4, active_dims=(2,)),
    "categorical of several columns": Categorical(1.3, 0.4, active_dims=(0, 2)),
    "coregion": Coregion(
        rank=2,
        variance=[0.3, 0.7, 0.4],
        weights=[[0.9, 0.1], [-0.4, 0.8], [0.2, 0.5]],
        active_dims=[2],
    ),
    "sum": SquaredExponential(1.3, ARD) + Linear(0.4),
    "stationary sum": Matern32(1.3, ARD) + Constant(0.4) + SquaredExponential(0.2, 2.0),
    "product": Matern52(1.3, ARD) * Periodic(1.0, 1.2, 3.1),
    "stationary product": SquaredExponential(1.3, ARD) * RationalQuadratic(0.8, 1.9, shape=1.2),
    "product of three": SquaredExponential(1.3, 0.9) * Linear(0.6) * Constant(1.4),
    "nested": (SquaredExponential(1.3, ARD) + Linear(0.4, active_dims=(0, 2)))
    * Matern32(0.9, 1.1, active_dims=(1,))
    + White(0.3),
    "outputs": Matern32(1.3, ARD[:2], active_dims=(0, 1)) * Coregion(3, 2, active_dims=[2])
    + Categorical(0.2, 0.5, active_dims=[2]),
    "change point": ChangePoint(
        SquaredExponential(1.3, ARD), Matern32(0.8, 0.6), 0.2, 3.0, active_dims=(0,)
    ),
    "change of a change": ChangePoint(
        Linear(0.7), ChangePoint(Constant(0.4), Periodic(), -0.3, 2.0, (1,)), 0.2, 1.0, (1,)
    )
    * SquaredExponential(),
    "projected": Projected(Matern52(1.3, [0.8, 1.4]), W),
    "projected with one length": Projected(RationalQuadratic(0.7, 1.2), W, active_dims=(2, 0, 1)),
    "projected to one of two": Projected(SquaredExponential(0.7, 1.2, active_dims=(1,)), W),
    "projected sum": Projected(SquaredExponential(0.7) + Linear(0.4), W),
}


def each(condition):
    """A test of every kernel that meets a condition."""
    chosen = {name: kernel for name, kernel in KERNELS.items() if condition(kernel)}
    return pytest.mark.parametrize("kernel", chosen.values(), ids=chosen.keys())


every_kernel = each(lambda kernel: True)
RNG = np.random.default_rng(0)
X1 = RNG.normal(size=(7, 3))
X2 = RNG.normal(size=(9, 3))
# codes for the kernels that need them, numbers for the others
X1[:, 2] = np.arange(7) % 3
X2[:, 2] = np.arange(9) % 3
BAR = RNG.normal(size=(7, 9))
BAR_SELF = RNG.normal(size=(7, 7))
BAR_DIAG = RNG.normal(size=9)


def leaves(kernel):
    """The kernels without parts that `kernel` is made of."""
    return (
        [leaf for part in kernel.kernels for leaf in leaves(part)]
        if isinstance(kernel, Combination)
        else [kernel]
    )


def stationary(kernel):
    return all(isinstance(leaf, (Stationary, Constant)) for leaf in leaves(kernel))


@every_kernel
def test_symmetric_and_positive_semi_definite_with_its_diagonal(kernel):
    K = kernel(X2)
    assert K.shape == (9, 9)
    assert error(K, K.T) < 1e-15
    assert error(kernel.diag(X2), np.diag(K)) < 1e-14
    values = np.linalg.eigvalsh(K)
    assert values[0] > -1e-14 * values[-1]
    assert values[-1] > 0


@every_kernel
def test_both_call_forms_agree_but_for_white_noise(kernel):
    beyond = kernel(X1) - kernel(X1, X1.copy())
    if any(isinstance(leaf, White) for leaf in leaves(kernel)):
        assert np.min(np.diag(beyond)) > 0.1
        beyond -= np.diag(np.diag(beyond))
    assert np.max(np.abs(beyond)) < 1e-14 * np.max(kernel.diag(X1))


@every_kernel
def test_each_entry_depends_on_its_two_rows_only(kernel):
    apart = np.array(
        [[kernel(X1[m : m + 1], X2[n : n + 1])[0, 0] for n in range(9)] for m in range(7)]
    )
    assert error(kernel(X1, X2), apart) < 1e-13


@every_kernel
def test_a_stack_of_sets_is_each_of_them(kernel):
    sets = np.stack([X1, X2[:7]])
    bars = np.stack([BAR_SELF, BAR_SELF.T])
    K, pull = kernel.stack_vjp(sets)
    each = [kernel.vjp(points) for points in sets]
    assert error(K, np.stack([matrix for matrix, _ in each])) < 1e-14
    expected = added([pull_one(bar)[0] for (_, pull_one), bar in zip(each, bars, strict=True)])
    gradient = pull(bars)
    assert gradient.keys() == expected.keys()
    for name, value in expected.items():
        assert error(gradient[name], value, np.max(np.abs(value)) + 1e-3) < 1e-12, name


def check_gradient(kernel, gradient, f, tolerance):
    """The slopes of a function of a kernel are those of its gradient by the parameters."""
    claimed, found = slopes(lambda p: f(kernel.with_parameters(p)), kernel.parameters(), gradient)
    for name, value in found.items():
        assert error(claimed[name], value, max(1e-3, abs(value))) < tolerance, name


@every_kernel
@pytest.mark.parametrize("alone", [False, True], ids=["k(X1, X2)", "k(X1)"])
def test_pull_back_equals_finite_differences(kernel, alone):
    other, bar = (None, BAR_SELF) if alone else (X2, BAR)
    before = bar.copy()
    moving = [d for d in range(3) if d not in kernel.categorical_dims]
    gradient, X1_bar = kernel.vjp(X1, other)[1](bar)
    assert_array_equal(bar, before)
    check_gradient(kernel, gradient, lambda moved: np.vdot(bar, moved(X1, other)), 1e-8)

    def at(part):
        X = X1.copy()
        X[:, moving] = part
        return np.vdot(bar, kernel(X, other))

    numeric = np.zeros_like(X1)
    numeric[:, moving] = differences(at, X1[:, moving])
    assert error(X1_bar, numeric, max(1e-3, np.max(np.abs(numeric)))) < 1e-8


@every_kernel
def test_pull_back_of_the_diagonal_equals_finite_differences(kernel):
    gradient = kernel.diag_vjp(X2)[1](BAR_DIAG.copy())
    check_gradient(kernel, gradient, lambda moved: BAR_DIAG @ moved.diag(X2), 1e-9)


@each(lambda k: "active_dims" in {f.name for f in fields(k)} and k.active_dims is None)
def test_active_dims_is_the_kernel_on_those_columns(kernel):
    dims = (4, 0, 2)
    wide1 = RNG.normal(size=(7, 5))
    wide2 = RNG.normal(size=(9, 5))
    chosen = replace(kernel, active_dims=dims)
    for other, narrow, bar in ((wide2, wide2[:, dims], BAR), (None, None, BAR_SELF)):
        K, pull = chosen.vjp(wide1, other)
        expected, narrow_pull = kernel.vjp(np.ascontiguousarray(wide1[:, dims]), narrow)
        assert error(K, expected) < 1e-15
        gradient, X_bar = pull(bar)
        expected_gradient, narrow_bar = narrow_pull(bar)
        assert error(X_bar[:, dims], narrow_bar) < 1e-14
        assert not np.any(X_bar[:, [1, 3]])
        for key in gradient:  # a sum of terms of both signs: rounding counts against their sizes
            assert (
                error(gradient[key], expected_gradient[key], np.vdot(np.abs(bar), np.abs(expected)))
                < 1e-14
            )
    assert error(chosen.diag(wide1), kernel.diag(wide1[:, dims])) < 1e-15


@every_kernel
def test_description_goes_through_json_without_a_change(kernel):
    back = from_config(json.loads(json.dumps(to_config(kernel, "kernel"))), "kernel")
    assert type(back) is type(kernel)
    assert_array_equal(back(X1, X2), kernel(X1, X2))


@every_kernel
def test_shown_is_a_call_that_makes_it_again(kernel):
    back = eval(repr(kernel))
    parameters = kernel.parameters()
    assert list(back.parameters()) == list(parameters)
    assert repr(back) == repr(kernel)
    assert "array" not in repr(kernel)
    for name, value in back.parameters().items():  # to three digits of numbers up to 4
        assert_allclose(value, parameters[name], rtol=0.0, atol=5e-3)
    assert error(back(X1, X2), kernel(X1, X2)) < 0.01


@every_kernel
@pytest.mark.parametrize(
    "case", ["duplicates", "constant columns", "far apart", "close by", "one row"]
)
def test_finite_where_data_are_odd(kernel, case):
    rows = {
        "duplicates": np.vstack([X1, X1[:3], X1[:3]]),
        "constant columns": np.column_stack([X1[:, 0], np.full(7, 3.0), np.zeros(7)]),
        "far apart": np.vstack([X1, np.full((1, 3), 1e100), np.full((1, 3), -1e100)]),
        "close by": np.vstack([X1, X1 + 1e-160, X1 * (1 + 1e-15)]),
        "one row": X1[:1].copy(),
    }[case]
    rows[:, kernel.categorical_dims] = 1.0
    for other in (None, rows.copy(), X2):
        K, pull = kernel.vjp(rows, other)
        gradient, X_bar = pull(np.ones_like(K))
        assert all(np.all(np.isfinite(value)) for value in (K, X_bar, *gradient.values()))
    assert np.all(np.isfinite(kernel.diag(rows)))


@pytest.mark.parametrize("factor", [1e-6, 0.3, 1e6])
@each(lambda k: stationary(k) or isinstance(k, Periodic))
def test_stretching_inputs_and_lengths_changes_nothing(kernel, factor):
    lengths = ("log_period",) if isinstance(kernel, Periodic) else ("log_lengthscale",)
    wider = kernel.with_parameters(
        {
            key: value + np.log(factor) * key.endswith(lengths)
            for key, value in kernel.parameters().items()
        }
    )
    assert error(wider(factor * X1, factor * X2), kernel(X1, X2)) < 1e-13
    _, X1_bar = wider.vjp(factor * X1, factor * X2)[1](BAR)
    assert error(factor * X1_bar, kernel.vjp(X1, X2)[1](BAR)[1], 1.0) < 1e-12


@each(stationary)
def test_a_large_offset_changes_nothing(kernel):
    # so that 1e6 more is still exact
    A, B = (np.round(X * 2**20) / 2**20 for X in (X1, X2))
    scale = kernel.diag(A)[0]
    for other, bar in ((B, BAR), (None, BAR_SELF)):
        (K, pull), (expected, pull_here) = (
            kernel.vjp(A + c, None if other is None else B + c) for c in (1e6, 0.0)
        )
        gradient, X_bar = pull(bar)
        expected_gradient, expected_bar = pull_here(bar)
        assert error(K, expected, scale) < 1e-9
        assert error(X_bar, expected_bar, 10.0 * scale) < 1e-9
        assert all(
            error(gradient[key], expected_gradient[key], 10.0 * scale) < 1e-9
            for key in expected_gradient
        )


@pytest.mark.parametrize(
    "kind",
    [
        SquaredExponential,
        Matern12,
        Matern32,
        Matern52,
        RationalQuadratic,
        Periodic,
        Linear,
        Constant,
        White,
        Categorical,
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_parameters_must_be_positive_and_finite(kind, value):
    assert kind.trained
    for name in kind.trained:
        with value_error(name):
            kind(**{name: value})


DESCRIPTIONS = [
    (what, config)
    for what in ("kernel", "likelihood")
    for config in ({}, {"kind": "Exotic"}, {"kind": "likelihood"})
]
DESCRIPTIONS += [
    ("kernel", {"kind": "Matern32", "colour": 1}),
    ("kernel", {"kind": "Sum"}),
    ("kernel", {"kind": "Sum", "kernels": [{}]}),
    ("likelihood", {"kind": "Probit", "colour": 1}),
]


@pytest.mark.parametrize("what, config", DESCRIPTIONS)
def test_a_description_of_nothing_is_refused(what, config):
    with value_error(f"its `{what}` is described by .* known kinds.*(StudentT|Matern32)"):
        from_config(config, what)


def test_sums_and_products_are_flat():
    a = SquaredExponential()
    b = Linear()
    c = White()
    assert (a + b + c).kernels == (a + (b + c)).kernels == (a, b, c)
    assert (a * b * c).kernels == (a * (b * c)).kernels == (a, b, c)
    assert [len(k.kernels) for k in (a * b + c, (a + b) * c)] == [2, 2]
    for combine in (lambda: a + 1.0, lambda: a * 2.0):
        with pytest.raises(TypeError, match="kernel.*float"):
            combine()
