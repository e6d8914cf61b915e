"""Mean functions: laws that every kind obeys, and what a mean does to evidence, predictions and training."""

import numpy as np
import pytest
from reference import dense
from reference.compare import differences, error, slopes
from reference.problems import Problem

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.estimators.persistence import from_config, to_config
from sparse_pep.likelihoods import Gaussian, Poisson, Probit
from sparse_pep.means import MEANS, ConstantMean, LinearMean, ZeroMean, starting_mean
from sparse_pep.model import Model, model_evidence, model_gradient, model_predict
from sparse_pep.shards import Rows
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
    def test_the_pull_back_is_the_derivative(self, mean):
        bar = rng.normal(size=mean(X).shape)
        gradient = mean.pull(X, bar)
        given, found = slopes(lambda p: np.vdot(bar, mean.with_parameters(p)(X)), mean.parameters(), gradient)
        for name, value in found.items():
            assert error(given[name], value, 10.0) < 1e-9

    def test_parameters_go_round(self, mean):
        again = mean.with_parameters(mean.parameters())
        assert type(again) is type(mean) and np.array_equal(again(X), mean(X))

    def test_a_description_goes_round_to_the_last_bit(self, mean):
        again = from_config(to_config(mean, "mean"), "mean")
        assert type(again) is type(mean)
        for name, value in mean.parameters().items():
            assert again.parameters()[name].tobytes() == value.tobytes()

    def test_rows_are_independent(self, mean):
        assert np.allclose(mean(X)[3:5], mean(X[3:5]), rtol=1e-14)


def test_every_kind_is_tested_and_saved():
    assert {type(mean) for mean in KINDS.values()} == set(MEANS.values())


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("mean", [KINDS["constant"], KINDS["linear"]], ids=["constant", "linear"])
def test_with_gaussian_noise_it_is_taken_off_the_targets(mean, power):
    p = Problem(3, 12, 4, 2, power=power)
    arrays, noise = p.arrays(), p.model.likelihood.noise_variance
    model = Model(p.model.kernel, p.model.features, p.model.likelihood, mean)
    fit, gradient = model_gradient(model, Rows(p.X, p.y), p.power)
    assert error(fit.log_evidence, dense.log_evidence(*arrays, p.y - mean(p.X), noise, power)) < 1e-10
    for name in mean.parameters():

        def at(value, name=name):
            moved = mean.with_parameters({**mean.parameters(), name: value})
            return dense.log_evidence(*arrays, p.y - moved(p.X), noise, power)

        assert error(gradient[f"mean.{name}"], differences(at, getattr(mean, name)), 1.0) < 1e-7
    bare = model_evidence(p.model, Rows(p.X, p.y - mean(p.X)), power)
    plain = model_predict(p.model, bare.posteriors, p.X_test)
    got = model_predict(model, fit.posteriors, p.X_test)
    assert error(got[0], plain[0] + mean(p.X_test)) < 1e-12 and np.array_equal(got[1], plain[1])


@pytest.mark.parametrize("blocks", [None, np.arange(12) // 4], ids=["single", "blocks"])
@pytest.mark.parametrize("likelihood", [Probit(), Poisson(), Gaussian(0.2)], ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("power", [0.0, 0.6])
def test_the_gradient_for_any_likelihood_and_for_blocks(likelihood, power, blocks):
    p = Problem(7, 12, 3, 2)
    y = {"Probit": np.sign(p.y), "Poisson": np.round(np.exp(0.3 * p.y)), "Gaussian": p.y}[type(likelihood).__name__]
    start = Model(p.model.kernel, p.model.features, likelihood, LinearMean(0.2, [0.1, -0.3]))
    data = Rows(p.X, y, blocks=blocks)
    _, gradient = model_gradient(start, data, power, tol=1e-11)
    own = {name: value for name, value in start.parameters().items() if name.startswith("mean.")}

    def value(moved):
        return model_evidence(start.with_parameters({**start.parameters(), **moved}), data, power, tol=1e-11).log_evidence

    given, found = slopes(value, own, {name: gradient[name] for name in own}, 1e-3)
    for name in ("mean.intercept", "mean.slope"):
        assert error(given[name], found[name], 1.0) < 1e-6


def test_the_gradient_with_weights():
    p = Problem(7, 12, 4, 2)
    start = Model(p.model.kernel, p.model.features, Probit(), ConstantMean(0.2))
    given = Rows(p.X, np.sign(p.y), weight=rng.integers(0, 4, size=12)), 0.6
    _, gradient = model_gradient(start, *given, tol=1e-11)

    def at(value):
        moved = Model(start.kernel, start.features, Probit(), ConstantMean(value))
        return model_evidence(moved, *given, tol=1e-11).log_evidence

    assert error(gradient["mean.intercept"], differences(at, 0.2, 1e-3), 1.0) < 1e-6


def test_training_finds_a_trend_and_goes_on_with_it():
    t = np.linspace(0, 5, 80)[:, None]
    y = 3.0 - 2.0 * t[:, 0] + 0.3 * np.sin(4 * t[:, 0]) + 0.05 * rng.normal(size=80)
    model = SparsePEPRegressor(n_inducing=15, mean="linear", standardize=False, random_state=0).fit(t, y)
    assert abs(model.mean_.slope[0] + 2.0) < 0.2 and set(model.parameters()) >= {"mean.intercept", "mean.slope"}
    assert abs(model.predict([[20.0]])[0] - (3.0 - 40.0)) < 3.0
    assert abs(model.predict_f([[20.0]])[0][0] - model.predict([[20.0]])[0]) < 1e-12
    draws = model.sample_f(t[:3], 4000, random_state=1)
    assert np.allclose(draws.mean(axis=1), model.predict(t[:3]), atol=0.05)
    assert np.allclose(model.sample_y(t[:3], 4000, random_state=1).mean(axis=1), model.predict(t[:3]), atol=0.05)
    kept = SparsePEPRegressor(
        n_inducing=15, mean=LinearMean(0.0, [1.0]), fixed=["mean.slope", "mean.intercept"], random_state=0
    ).fit(t, y)
    assert kept.mean_.slope[0] == 1.0 and kept.mean_.intercept == 0.0


def test_several_classes_have_a_level_each():
    labels = np.repeat([0, 1, 2], [20, 6, 4])
    model = SparsePEPClassifier(n_inducing=4, mean="constant", training=LBFGS(max_iter=20, tol=1e-2), random_state=0).fit(
        rng.normal(size=(30, 1)), labels
    )
    levels = model.mean_.intercept
    assert (
        levels.shape == (3,) and levels[0] > levels[1] and levels[0] > levels[2]
    )  # the most frequent is the most probable
    assert np.all(model.predict(np.array([[1e6]])) == 0)


@pytest.mark.parametrize(
    ("mean", "message"),
    [("cubic", "'cubic'"), (3.0, "got 3.0"), (LinearMean(0.0, [1.0]), "2 columns"), (ConstantMean, "ConstantMean")],
)
def test_what_is_no_mean_is_refused(mean, message):
    with pytest.raises(ValueError, match=message):
        SparsePEPRegressor(mean=mean).fit(X, X[:, 0])


@pytest.mark.parametrize("wrong", [np.nan, [0.0, np.inf]])
def test_coefficients_are_finite(wrong):
    with pytest.raises(ValueError, match="intercept.*ConstantMean"):
        ConstantMean(wrong)


def test_the_start_is_the_weighted_least_squares_plane():
    y, weight = rng.normal(size=12), rng.uniform(0, 2, size=12)
    start = starting_mean("linear", X, y, weight)
    residual = weight * (y - start(X))
    assert np.allclose([residual.sum(), *(residual @ X)], 0.0, atol=1e-10)
    assert starting_mean("linear", X, None, n_functions=3).slope.shape == (2, 3)
