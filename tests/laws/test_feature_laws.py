"""Laws that every feature set obeys, for several kernels. A new one is tested by one more line
in FEATURES.
"""

import json
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from reference.compare import error, slopes

from sparse_pep.estimators.config import from_config, to_config
from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    StackedFeatures,
    Wavelet,
)
from sparse_pep.kernels import (
    ChangePoint,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Projected,
    SquaredExponential,
    White,
)

RNG = np.random.default_rng(1)
X = RNG.normal(size=(8, 2))
Z = RNG.normal(size=(5, 2))
Z_far = Z + RNG.normal(size=Z.shape)
FREQUENCIES = RNG.normal(size=(5, 2))
FEATURES = {
    "points": InducingPoints(RNG.normal(size=(5, 2))),
    "one point": InducingPoints(RNG.normal(size=(1, 2))),
    "points on data": InducingPoints(X[:4]),
    "more points than data": InducingPoints(RNG.normal(size=(11, 2))),
    "blurs": GaussianBlur(Z, [0.4, 0.9]),
    "blurs, each its width": GaussianBlur(Z, RNG.uniform(0.1, 1.0, (5, 2))),
    "blurs on data": GaussianBlur(X[:4], 0.3),
    "wavelets": Wavelet(Z, [0.4, 0.9], [2.0, -1.0], phase=0.3),
    "wavelets, each its own": Wavelet(
        Z, RNG.uniform(0.3, 1.0, (5, 2)), FREQUENCIES, phase=RNG.normal(size=5)
    ),
    "wavelets of no mean": Wavelet(
        Z, [0.4, 0.9], FREQUENCIES, phase=RNG.normal(size=5), zero_mean=True
    ),
    "wavelets that stand still": Wavelet(Z, [0.4, 0.9], [0.0, 0.0]),
    "wavelets, some of which stand still": StackedFeatures(
        [Wavelet(Z[:2], 0.4, 0.0), Wavelet(Z[1:], 0.6, FREQUENCIES[1:])]
    ),
    "derivatives": Derivative(Z, [-1, 0, 1, 1, 0]),
    "values": Derivative(Z, [-1] * 5),
    "points and derivatives": StackedFeatures(
        [InducingPoints(Z[:2]), Derivative(Z_far, [0, 1, -1, 0, 1])]
    ),
    "points and points": StackedFeatures([InducingPoints(Z[:3]), InducingPoints(Z[3:])]),
    "every window": StackedFeatures(
        [
            Wavelet(Z[:2], 0.5, FREQUENCIES[:2], phase=0.4, zero_mean=True),
            InducingPoints(Z_far[:2]),
            GaussianBlur(Z[2:], [0.4, 0.9]),
            Derivative(Z_far[2:], [0, 1, -1]),
            Wavelet(Z[3:], 0.7, [1.0, 0.0]),
        ]
    ),
}
KERNELS = {
    "se": SquaredExponential(1.3, [0.8, 1.5]),
    "se, one length": SquaredExponential(1.3, 0.8),
    "se of one column": SquaredExponential(1.3, 0.8, active_dims=(1,)),
    "matern12": Matern12(1.3, [0.8, 1.5]),
    "matern32": Matern32(1.3, 0.9),
    "matern52": Matern52(1.3, [0.9, 1.4]),
    "matern52 of one column": Matern52(1.3, 0.9, active_dims=(0,)),
    "periodic": Periodic(1.3, 0.9, 2.1),
    "linear": Linear([0.3, 0.5]),
    "sum": SquaredExponential(1.3, [0.8, 1.5]) + Linear(0.3) + White(0.2),
    "sum without noise": Constant(0.4) + SquaredExponential(1.3, [0.8, 1.5]) + Linear(0.3),
    "product": Matern32(1.3, 0.9) * Linear(0.3),
    "change point": ChangePoint(
        Matern52(1.3, 0.9), SquaredExponential(0.7, [0.8, 1.5]) + Linear(0.2), 0.3, 2.0, (1,)
    ),
    "projected": Projected(Matern52(1.3, [0.9, 1.4]), [[0.7, -0.4], [0.2, 0.9]]),
    "projected to one": Projected(SquaredExponential() + Linear(0.2), [[0.0, 1.2]]),
}
X_line = RNG.uniform(-1.0, 3.0, (8, 1))  # inside and outside the interval
ON_A_LINE = {
    "fourier": Fourier(-0.5, 2.0, 4),
    "fourier, any frequencies": Fourier(-0.5, 2.0, [0.7, 0.0, 2.0]),
    "fourier, one": Fourier(-0.5, 2.0, [1.0]),
    "fourier and points": StackedFeatures(
        [InducingPoints(X_line[:2] + 0.1), Fourier(-0.5, 2.0, 3), InducingPoints(X_line[3:6] + 0.1)]
    ),
    "wavelets on a line": Wavelet(X_line[:3] + 0.2, 0.5, [[0.0], [2.0], [6.0]], zero_mean=True),
}
KERNELS_ON_A_LINE = {
    "matern12": Matern12(1.3, 0.9),
    "matern32": Matern32(1.3, [0.9]),
    "matern52": Matern52(1.3, 0.9, active_dims=(0,)),
    "se": SquaredExponential(1.3, [0.9]),
}
PAIRS = []
REFUSED = []
for kinds, kernels, inputs in [(FEATURES, KERNELS, X), (ON_A_LINE, KERNELS_ON_A_LINE, X_line)]:
    for (name, features), (kernel_name, kernel) in product(kinds.items(), kernels.items()):
        try:
            features.Kuu(kernel)
            PAIRS.append(pytest.param(features, kernel, inputs, id=f"{kernel_name}-{name}"))
        except NotImplementedError as refusal:
            REFUSED.append((features, kernel, inputs, str(refusal)))
every_pair = pytest.mark.parametrize("features, kernel, X", PAIRS)


def test_slopes_of_kernels_without_them_are_refused_by_both():
    assert (len(PAIRS), len(REFUSED)) == (262, 13)
    for features, kernel, X, refusal in REFUSED:
        assert type(kernel).__name__ in refusal or hasattr(kernel, "kernels")
        with pytest.raises(NotImplementedError):
            features.Kuf(kernel, X)


def covariances(features, kernel, X):
    return features.Kuu(kernel), features.Kuf(kernel, X)


@every_pair
def test_jointly_positive_semi_definite_with_the_function(features, kernel, X):
    Kuu, Kuf = covariances(features, kernel, X)
    assert Kuu.shape == (len(features), len(features))
    assert Kuf.shape == (len(features), len(X))
    assert error(Kuu, Kuu.T) < 1e-15
    assert all(K.flags.c_contiguous and K.dtype == np.float64 for K in (Kuu, Kuf))
    joint = np.block([[Kuu, Kuf], [Kuf.T, kernel(X)]])
    assert np.linalg.eigvalsh(joint)[0] > -1e-14 * np.trace(joint)


@every_pair
@pytest.mark.parametrize("name", ["Kuu", "Kuf"])
def test_pull_back_equals_finite_differences(features, kernel, X, name):
    inputs = () if name == "Kuu" else (X,)

    def matrix(f, k):
        return getattr(f, name)(k, *inputs)

    K, pull = getattr(features, f"{name}_vjp")(kernel, *inputs)
    assert_array_equal(K, matrix(features, kernel))
    bar = np.random.default_rng(2).normal(size=K.shape)
    kernel_gradient, features_gradient = pull(bar.copy())
    rounding = 1e-3 + 1e-4 * np.sum(np.abs(bar * K))  # of that sum over a step of 1e-4, times 1e8
    for gradient, owner, rebuilt in (
        (kernel_gradient, kernel, lambda p: matrix(features, kernel.with_parameters(p))),
        (features_gradient, features, lambda p: matrix(features.with_parameters(p), kernel)),
    ):
        claimed, numeric = slopes(
            lambda p, rebuilt=rebuilt: np.vdot(bar, rebuilt(p)), owner.parameters(), gradient
        )
        for key, value in numeric.items():
            assert error(claimed[key], value, max(rounding, abs(value))) < 1e-8, key


@every_pair
def test_description_and_parameters_go_round_and_columns_are_independent(features, kernel, X):
    Kuu, Kuf = covariances(features, kernel, X)
    described = from_config(json.loads(json.dumps(to_config(features, "features"))), "features")
    rebuilt = features.with_parameters(features.parameters())
    assert type(described) is type(rebuilt) is type(features)
    assert len(rebuilt) == len(features)
    for got, expected in zip(covariances(described, kernel, X), (Kuu, Kuf), strict=True):
        assert_array_equal(got, expected)
    # of |cov(u, f)|, at most
    apart = np.column_stack([features.Kuf(kernel, x[None]) for x in X])
    scale = np.sqrt(np.max(np.abs(Kuu)) * np.max(kernel.diag(X)))
    assert error(rebuilt.Kuu(kernel), Kuu) < 1e-14
    assert error(rebuilt.Kuf(kernel, X), Kuf, scale) < 1e-14
    assert error(apart, Kuf, scale) < 1e-14
    with pytest.raises(ValueError, match="column"):
        features.Kuf(kernel, np.ones((3, 5)))
