"""Kernels, features, likelihoods and means with wrong arguments, and functions of arrays."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse

from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    StackedFeatures,
    Wavelet,
)
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.blocks import Partition
from sparse_pep.inference.fixed_point import infer
from sparse_pep.kernels import (
    Categorical,
    Linear,
    Matern12,
    Matern32,
    Periodic,
    SquaredExponential,
    Sum,
    White,
)
from sparse_pep.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    NegativeBinomial,
    NoisyProbit,
    Ordinal,
    Probit,
    Softmax,
    StudentT,
    Tobit,
    Weibull,
)
from sparse_pep.means import ConstantMean, LinearMean
from sparse_pep.model import Model
from sparse_pep.training import TrainingOptions, train

from .checks import INF, NAN, SE, X, Z, cases, refused, y

WRONG = [0.0, -1.0, NAN, INF, "a", None, 1j, [], {}, [[1.0]]]
NUMBERS = [0.0, -1.0, NAN, INF, "a", None, [1.0], np.ones(2), True, 1j]
DIMS = [(-1,), (0, 0), (), (0.5,), "a", (NAN,), ([0, 1],), (None,), True]
BLUR = partial(GaussianBlur, X[:3])
WAVELET = partial(Wavelet, X[:3], 1.0)
DERIVATIVE = partial(Derivative, X[:3])
WAVES = partial(Fourier, 0.0, 1.0)
POSITIVE = {
    Gaussian: "noise_variance",
    StudentT: "df scale",
    NegativeBinomial: "dispersion",
    HeteroscedasticGaussian: "base_variance gain",
    Tobit: "noise_variance",
    Beta: "concentration",
    Gamma: "shape",
    Weibull: "shape",
}
SCALARS = (  # class, argument, wrong values
    (SquaredExponential, "variance", WRONG),
    (SquaredExponential, "lengthscale", WRONG),
    (Periodic, "period", WRONG),
    (Linear, "variance", WRONG),
    (White, "variance", WRONG),
    (Matern32, "active_dims", DIMS),
    (BLUR, "width", [-1.0, [0.1, -0.1], INF, "a", None, [1.0], np.ones(3), np.ones((2, 2)), 1j]),
    (WAVELET, "frequency", ["a", None]),
    (DERIVATIVE, "dims", [0, ["a"] * 3, [NAN] * 3, [0, 1, 0.5], [0, 1], None]),
    (WAVES, "frequencies", [-2, 2.5, [NAN], [1.0, 1.0], [-1.0], "a", None]),
    *((kind, name, NUMBERS) for kind, names in POSITIVE.items() for name in names.split()),
    (NoisyProbit, "flip", [*NUMBERS, 0.5]),
    (Binomial, "trials", [*NUMBERS, 2.5]),
    (Ordinal, "cut_points", [(), (1.0, 1.0), (2.0, 1.0), (0.0, INF)]),
    (Softmax, "n_classes", [1, 0, -1, 2.0, 2.5, NAN, "a", None, [3], True]),
    (ConstantMean, "intercept", [NAN, INF, "a", None, 1j, [[1.0], [1.0, 2.0]]]),
    (partial(LinearMean, 0.0), "slope", [NAN, "a", None]),
    (InducingPoints, "Z", [X[:, 0], np.full((2, 2), NAN), [["a"]], np.ones((2, 0)), 3.0, None]),
    (InducingPoints, "Z", [X + 1j, [[1.0], [1.0, 2.0]], scipy.sparse.csr_matrix(X)]),
)
# which name themselves, as one of several in a sum or a product
NAMED = SquaredExponential, Periodic, Linear, White, ConstantMean, LinearMean


@pytest.mark.parametrize(
    "kind, name, value",
    [(kind, name, value) for kind, name, values in SCALARS for value in values],
)
def test_arguments_of_parts(kind, name, value):
    part = getattr(kind, "func", kind)
    sketch = f"`{name}` of ... {part.__name__}" if part in NAMED else f"`{name}`"
    refused(lambda: kind(**{name: value}), sketch)


MATHS = {
    "two variances": (lambda: SquaredExponential([1.0, 2.0]), "`variance` ... one number"),
    "one lengthscale of zero": (lambda: Matern32(1.0, [1.0, 0.0]), "`lengthscale`"),
    "linear variances for other columns": (lambda: Linear(np.ones(3))(X), "`variance` ... 3 ... 2"),
    "inputs of other widths": (lambda: SE(X, X[:, :1]), "`X2` ... 1 ... 2"),
    "one dimension": (lambda: SE(X[:, 0]), "`X1` ... (12,) ... X[:, None]"),
    "kernel plus a number": (lambda: SE + 1.0, "Kernel", TypeError),
    "sum of numbers": (lambda: Sum((1.0, SE)), "`kernels`"),
    "waves from text": (lambda: Fourier("x", 1.0, 3), "`a`"),
    "waves on no interval": (lambda: Fourier(1.0, 1.0, 3), "`a` ... less ... `b`"),
    "waves of two columns": (lambda: WAVES(3).Kuf(Matern32(), X), "`X` ... one column ... 2"),
    "waves of two lengthscales": (
        lambda: WAVES(3).Kuu(Matern32(1.0, [1.0, 2.0])),
        "`lengthscale` ... 2",
    ),
    "waves along another column": (
        lambda: WAVES(3).Kuu(Matern32(active_dims=(1,))),
        "`active_dims`",
    ),
    "no windows": (lambda: GaussianBlur(X[:0], 0.1), "`Z` ... at least one"),
    "windows without a width": (lambda: BLUR(0.0), "`width` ... positive ... InducingPoints"),
    "phases for others": (lambda: WAVELET(1.0, phase=np.ones(4)), "`phase` ... (3,)"),
    "slopes along no column": (lambda: DERIVATIVE([0, 1, 2]), "`dims` ... to 1"),
    "windows for other columns": (
        lambda: BLUR(0.1).Kuf(SE, X[:, :1]),
        "`X` ... 1 columns ... have 2",
    ),
    "windows for other lengthscales": (
        lambda: BLUR(0.1).Kuu(SquaredExponential(1.0, [1.0, 1.0, 1.0])),
        "`lengthscale` ... 3",
    ),
    "windows over codes": (
        lambda: BLUR(0.1).Kuu(SE * Categorical(active_dims=[1])),
        "`width` of GaussianBlur ... column 1",
    ),
    "features of nothing": (lambda: StackedFeatures([]), "`features` ... at least one"),
    "features in no list": (lambda: StackedFeatures(Z), "`features` ... list"),
    "features of other columns": (
        lambda: StackedFeatures([Z, InducingPoints(X[:, :1])]),
        "`features` ... columns ... [1, 2]",
    ),
    **{
        f"a class {wrong}": (lambda wrong=wrong: Softmax(3).check([wrong, 1.0]), "`y` ... row 0")
        for wrong in (0.5, 3.0, -1.0, NAN)
    },
    "labels other than signs": (lambda: Probit().check([0.0, 1.0]), "`y` ... row 0"),
}


NO_CLOSED_FORM = [  # features, a kernel, sketch of the message
    (DERIVATIVE([0, 0, 0]), Matern12(), "Derivative ... Matern12"),
    (DERIVATIVE([0, 0, 0]), SE + White(), "Derivative ... White"),
    (WAVES(3), SE, "Fourier ... SquaredExponential"),
    (
        StackedFeatures([WAVES(3), Derivative(X[:3, :1], [0] * 3)]),
        Matern32(),
        "Derivative ... Fourier ... Matern32",
    ),
]


@pytest.mark.parametrize("features, kernel, sketch", NO_CLOSED_FORM)
def test_features_without_covariances_in_closed_form(features, kernel, sketch):
    refused(lambda: features.Kuu(kernel), sketch, NotImplementedError)


@cases(MATHS)
def test_parts_that_do_not_fit_each_other(case):
    refused(*case)


def covariances(rows):
    return Z.Kuf(SE, X[rows]), SE.diag(X[rows]), None


GIVEN = {
    infer: dict(Kuu=Z.Kuu(SE), covariances=covariances, likelihood=Gaussian(0.1), y=y, power=0.5),
    train: dict(model=Model(SE, Z, Gaussian(0.1)), problem=Problem(Rows(X, y))),
}


def called(function, **other):
    return lambda: function(**GIVEN[function] | other)


@cases(
    {
        "infer, Kuu that is not one": (called(infer, Kuu=-Z.Kuu(SE)), "Kuu", np.linalg.LinAlgError),
        "train, X of other columns": (
            called(train, problem=Problem(Rows(X[:, :1], y))),
            "`X` ... 2",
        ),
        "train, no targets": (called(train, problem=Problem(Rows(X))), "targets `y`"),
        "train, a parameter that is none": (
            called(train, options=TrainingOptions(fixed=["Z"])),
            "`fixed` must name parameters",
        ),
        "train, known variances below 0": (
            called(train, problem=Problem(Rows(X, y, known_variance=-1.0))),
            "`noise_variance` must lie in",
        ),
        "train, power of others": (
            called(train, problem=Problem(Rows(X, y), np.ones(5))),
            "`power`",
        ),
    }
)
def test_functions_of_arrays(case):
    refused(*case)


LABELS = [[], [0.0, NAN], np.array([0, "a"], dtype=object), np.zeros((2, 2)), 3]
POWERS = {
    "in [0, 1]": [1.5, NAN, [0.0, -0.1, 0.0]],
    "3 blocks or 4 data": [np.ones(5), np.ones((4, 1))],
    "same for all data of a block, which has one site; in block 1": [[0.5, 0.0, 0.6, 1.0]],
}


@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_a_partition(labels):
    refused(lambda: Partition(labels), "`labels`")


@pytest.mark.parametrize(
    "power, sketch", [(power, words) for words, powers in POWERS.items() for power in powers]
)
def test_powers_of_a_partition(power, sketch):
    refused(lambda: Partition([1, 0, 1, 2]).powers(power), f"`power` ... {sketch}")


@pytest.mark.parametrize(
    "name, value",
    [
        ("power", 1.5),
        ("power", NAN),
        ("power", np.ones(5)),
        ("weight", -1.0),
        ("weight", NAN),
    ],
)
def test_numbers_of_rows_for_inference(name, value):
    refused(called(infer, **{name: value}), f"`{name}`")
