"""Mean functions: laws that every kind obeys, and what a mean does to evidence, predictions and
training.
"""

import numpy as np
import pytest

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.estimators.config import from_config, to_config
from sparse_pep.means import MEANS, ConstantMean, LinearMean, ZeroMean, starting_mean
from sparse_pep.training import LBFGS

rng = np.random.default_rng(5)
X = rng.normal(size=(12, 2))
KINDS = {
    "zero": ZeroMean(),
    "constant": ConstantMean(1.5),
    "constants": ConstantMean([1.5, -0.5, 0.1]),
    "linear": LinearMean(0.3, [1.0, -2.0]),
    "planes": LinearMean([0.3, 0.1], [[1.0, 0.0], [-2.0, 0.5]]),
}


@pytest.mark.parametrize("mean", KINDS.values(), ids=KINDS)
class TestLaws:
    def test_parameters_go_round(self, mean):
        again = mean.with_parameters(mean.parameters())
        assert type(again) is type(mean)
        assert np.array_equal(again(X), mean(X))

    def test_a_description_goes_round_to_the_last_bit(self, mean):
        again = from_config(to_config(mean, "mean"), "mean")
        assert type(again) is type(mean)
        for name, value in mean.parameters().items():
            assert again.parameters()[name].tobytes() == value.tobytes()


def test_every_kind_is_tested_and_saved():
    assert {type(mean) for mean in KINDS.values()} == set(MEANS.values())


def test_training_finds_a_trend_and_goes_on_with_it():
    t = np.linspace(0, 5, 80)[:, None]
    y = 3.0 - 2.0 * t[:, 0] + 0.3 * np.sin(4 * t[:, 0]) + 0.05 * rng.normal(size=80)
    model = SparsePEPRegressor(n_inducing=15, mean="linear", standardize=False, random_state=0).fit(
        t, y
    )
    assert abs(model.mean_.slope[0] + 2.0) < 0.2
    assert set(model.parameters()) >= {
        "mean.intercept",
        "mean.slope",
    }
    assert abs(model.predict([[20.0]])[0] - (3.0 - 40.0)) < 3.0
    assert abs(model.predict_f([[20.0]])[0][0] - model.predict([[20.0]])[0]) < 1e-12
    draws = model.sample_f(t[:3], 4000, random_state=1)
    for drawn in (draws, model.sample_y(t[:3], 4000, random_state=1)):
        assert np.allclose(drawn.mean(axis=1), model.predict(t[:3]), atol=0.05)
    kept = SparsePEPRegressor(
        n_inducing=15,
        mean=LinearMean(0.0, [1.0]),
        fixed=["mean.slope", "mean.intercept"],
        random_state=0,
    ).fit(t, y)
    assert kept.mean_.slope[0] == 1.0
    assert kept.mean_.intercept == 0.0


def test_several_classes_have_a_level_each():
    labels = np.repeat([0, 1, 2], [20, 6, 4])
    model = SparsePEPClassifier(
        n_inducing=4, mean="constant", training=LBFGS(max_iter=20, tol=1e-2), random_state=0
    ).fit(rng.normal(size=(30, 1)), labels)
    levels = model.mean_.intercept
    assert levels.shape == (3,)
    assert levels[0] > levels[1]
    assert levels[0] > levels[2]  # the most frequent is the most probable
    assert np.all(model.predict(np.array([[1e6]])) == 0)


def test_the_start_is_the_weighted_least_squares_plane():
    y = rng.normal(size=12)
    weight = rng.uniform(0, 2, 12)
    start = starting_mean("linear", X, y, weight)
    residual = weight * (y - start(X))
    assert np.allclose([residual.sum(), *(residual @ X)], 0.0, atol=1e-10)
    assert starting_mean("linear", X, None, n_functions=3).slope.shape == (2, 3)
