"""Laws that every feature set obeys, for several kernels. A new one is tested by one more line in FEATURES."""

import json

import numpy as np
import pytest
from reference.compare import differences, error

from sparse_pep.features import InducingPoints, features_from_config, features_to_config
from sparse_pep.kernels import (
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    SquaredExponential,
    White,
)

RNG = np.random.default_rng(1)
X = RNG.normal(size=(8, 2))
FEATURES = {
    "points": InducingPoints(RNG.normal(size=(5, 2))),
    "one point": InducingPoints(RNG.normal(size=(1, 2))),
    "points on data": InducingPoints(X[:4]),
    "more points than data": InducingPoints(RNG.normal(size=(11, 2))),
}
KERNELS = {
    "se": SquaredExponential(1.3, [0.8, 1.5]),
    "matern12": Matern12(1.3, [0.8, 1.5]),
    "matern32": Matern32(1.3, 0.9),
    "matern52": Matern52(1.3, 0.9),
    "periodic": Periodic(1.3, 0.9, 2.1),
    "sum": SquaredExponential(1.3, [0.8, 1.5]) + Linear(0.3) + White(0.2),
    "product": Matern32(1.3, 0.9) * Linear(0.3),
}
pytestmark = [
    pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys()),
    pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys()),
]


def covariances(features, kernel):
    """Kuu and Kuf; skipped where the pair has no closed form."""
    try:
        return features.Kuu(kernel), features.Kuf(kernel, X)
    except NotImplementedError:
        pytest.skip("no closed form")


def test_jointly_positive_semi_definite_with_the_function(features, kernel):
    Kuu, Kuf = covariances(features, kernel)
    M = len(features)
    assert Kuu.shape == (M, M)
    assert Kuf.shape == (M, len(X))
    assert error(Kuu, Kuu.T) < 1e-15
    assert np.linalg.eigvalsh(Kuu)[0] > -1e-14 * np.trace(Kuu)
    joint = np.block([[Kuu, Kuf], [Kuf.T, kernel(X)]])
    assert np.linalg.eigvalsh(joint)[0] > -1e-14 * np.trace(joint)


@pytest.mark.parametrize("name", ["Kuu", "Kuf"])
def test_pull_back_equals_finite_differences(features, kernel, name):
    covariances(features, kernel)
    inputs = () if name == "Kuu" else (X,)

    def matrix(f, k):
        return getattr(f, name)(k, *inputs)

    K, pull = getattr(features, f"{name}_vjp")(kernel, *inputs)
    np.testing.assert_array_equal(K, matrix(features, kernel))
    bar = np.random.default_rng(2).normal(size=K.shape)
    kernel_gradient, features_gradient = pull(bar.copy())
    for gradient, owner, rebuilt in (
        (kernel_gradient, kernel, lambda p: matrix(features, kernel.with_parameters(p))),
        (features_gradient, features, lambda p: matrix(features.with_parameters(p), kernel)),
    ):
        parameters = owner.parameters()
        assert gradient.keys() == parameters.keys()
        for key, value in parameters.items():
            numeric = differences(lambda v, key=key, p=parameters, r=rebuilt: np.vdot(bar, r({**p, key: v})), value)
            assert error(gradient[key], numeric, max(1e-3, np.max(np.abs(numeric)))) < 1e-8, key


def test_description_goes_through_json_without_a_change(features, kernel):
    Kuu, Kuf = covariances(features, kernel)
    back = features_from_config(json.loads(json.dumps(features_to_config(features))))
    assert type(back) is type(features)
    np.testing.assert_array_equal(back.Kuu(kernel), Kuu)
    np.testing.assert_array_equal(back.Kuf(kernel, X), Kuf)


def test_parameters_go_round(features, kernel):
    Kuu, Kuf = covariances(features, kernel)
    back = features.with_parameters(features.parameters())
    assert type(back) is type(features)
    assert len(back) == len(features)
    assert error(back.Kuu(kernel), Kuu) < 1e-14
    assert error(back.Kuf(kernel, X), Kuf, np.max(np.abs(Kuu))) < 1e-14


def test_each_column_depends_on_its_datum_only(features, kernel):
    Kuu, Kuf = covariances(features, kernel)
    apart = np.column_stack([features.Kuf(kernel, x[None]) for x in X])
    assert error(Kuf, apart, np.max(np.abs(Kuu))) < 1e-14


def test_wrong_number_of_columns_is_refused(features, kernel):
    with pytest.raises(ValueError, match="column"):
        features.Kuf(kernel, np.ones((3, 5)))
