"""Weights, known variances and several outputs: the same as longer, noisier and separate data."""

import warnings

import numpy as np
import pytest
from reference import dense
from reference.compare import error
from sklearn.base import clone

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import snelson_like
from sparse_pep.estimators.fitting import distinct_rows
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_bounds
from sparse_pep.training import LBFGS

rng = np.random.default_rng(8)
X = np.sort(rng.uniform(0, 4, (30, 1)), axis=0)
y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=30)
copies = np.resize([1, 0, 3, 2, 1], 30)
rows = np.repeat(np.arange(30), copies)
FIXED = {
    "training": None,
    "kernel": SquaredExponential(1.0, 0.7),
    "features": InducingPoints(np.linspace(0.2, 3.8, 7)[:, None]),
}


def test_bounds_hold_with_weights_and_known_variances():
    known = np.linspace(0.01, 0.3, 30)
    counts = np.maximum(copies, 1)
    model = Model(FIXED["kernel"], FIXED["features"], Gaussian(0.05))
    low, high = model_bounds(model, Problem(Rows(X, y, counts, known)))
    again = np.repeat(np.arange(30), counts)
    exact = dense.exact_log_evidence(model.kernel(X[again]), y[again], 0.05 + known[again])
    assert low < exact < high < low + 10.0


class TestEstimators:
    def test_the_latent_function_left_out(self):
        """Its density is the leave-one-out score, for one output and for two, with a mean."""
        given = FIXED | {"noise_variance": 0.1, "standardize": True, "mean": "constant"}
        counts = np.maximum(copies, 1)
        model = SparsePEPRegressor(**given).fit(X, y, counts)
        mean, var = model.leave_one_out_f()
        var = var + model.noise_std_**2
        assert (
            error(-0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var), model.leave_one_out())
            < 1e-10
        )
        both = SparsePEPRegressor(**given).fit(X, np.column_stack([y, -2.0 * y]), counts)
        means, variances = both.leave_one_out_f()
        assert error(means[:, 0], mean) < 1e-10
        assert error(means[:, 1], -2.0 * mean) < 1e-10
        assert variances.shape == (30, 2)
        assert error(variances[:, 1], 4.0 * variances[:, 0]) < 1e-10

    def test_poor_measurements_that_say_so_do_little_harm(self):
        poor = np.arange(30) % 2 == 0
        seen = np.where(poor, y + 3.0 * rng.normal(size=30), y)
        told = SparsePEPRegressor(n_inducing=8, random_state=0).fit(
            X, seen, known_variance=np.where(poor, 9.0, 0.0)
        )
        silent = SparsePEPRegressor(n_inducing=8, random_state=0).fit(X, seen)
        truth = np.sin(2 * X[:, 0])
        assert np.mean((told.predict(X) - truth) ** 2) < 0.3 * np.mean(
            (silent.predict(X) - truth) ** 2
        )
        assert told.noise_variance_ < 0.2

    def test_fixed_noise_stays_and_targets_far_from_zero_are_said(self):
        model = SparsePEPRegressor(
            n_inducing=5,
            noise_variance=1e-9,
            fixed=["log_noise_variance"],
            training=LBFGS(max_iter=3, tol=1e9),
            random_state=0,
        )
        assert model.fit(X, y).noise_variance_ == pytest.approx(1e-9)
        with pytest.warns(UserWarning, match="mean of `y` is .* times"):
            SparsePEPRegressor(
                n_inducing=5, training=LBFGS(max_iter=1, tol=1e9), standardize=False
            ).fit(X, y + 1000.0)


Y = np.column_stack([y, 100.0 + 10.0 * np.cos(X[:, 0])])
OUTPUTS = FIXED | {
    "noise_variance": 0.1,
    "standardize": True,
    "features": InducingPoints((FIXED["features"].Z - X.mean()) / X.std()),
}


@pytest.fixture(scope="class", params=[None, np.arange(30) // 4], ids=["single", "blocks"])
def joint_and_apart(request):
    """A model of two outputs, and one of each."""
    model = SparsePEPRegressor(**OUTPUTS, blocks=request.param)
    return clone(model).fit(X, Y), [clone(model).fit(X, column) for column in Y.T]


class TestOutputs:
    def test_shapes_end_in_the_outputs(self, joint_and_apart):
        joint, _ = joint_and_apart
        assert joint.q_mean_.shape == (7, 2)
        assert joint.site_shift_.shape == (30, 2)
        assert joint.predict(X[:4], return_cov=True)[1].shape == (4, 4, 2)
        assert joint.sample_y(X[:4], 5).shape == joint.sample_f(X[:4], 5).shape == (4, 2, 5)

    def test_each_output_is_predicted_as_if_alone(self, joint_and_apart):
        joint, apart = joint_and_apart
        mean, std = joint.predict(X, return_std=True)
        _, cov = joint.predict(X[:4], return_cov=True)
        for k, model in enumerate(apart):
            expected = model.predict(X, return_std=True)
            assert error(mean[:, k], expected[0]) < 1e-10
            assert error(std[:, k], expected[1]) < 1e-10
            assert error(cov[..., k], model.predict(X[:4], return_cov=True)[1]) < 1e-10
            assert error(joint.predict_f(X)[1][:, k], model.predict_f(X)[1]) < 1e-10
            assert abs(joint.noise_std_[k] - model.noise_std_) < 1e-12

    @pytest.mark.parametrize(
        "summed",
        [
            lambda model, y: model.predict_log_density(X, y),
            lambda model, y: model.leave_one_out(),
            lambda model, y: model.log_marginal_likelihood_value_,
            lambda model, y: np.array(model.log_marginal_likelihood_bounds()),
        ],
        ids=["log density", "leave one out", "evidence", "bounds"],
    )
    def test_log_probabilities_of_outputs_add_up(self, joint_and_apart, summed):
        joint, apart = joint_and_apart
        parts = [summed(model, column) for model, column in zip(apart, Y.T, strict=True)]
        assert error(summed(joint, Y), sum(parts)) < 1e-9

    def test_outputs_have_one_score(self, joint_and_apart):
        assert joint_and_apart[0].score(X, Y) > 0.9

    def test_a_column_is_one_output(self):
        model = SparsePEPRegressor(**OUTPUTS).fit(X, y[:, None])
        assert model.predict(X).shape == (30, 1)


class TestDistinctRows:
    @pytest.mark.parametrize(
        "estimator, more, targets",
        [
            (SparsePEPRegressor, {}, y),
            (
                SparsePEPRegressor,
                {"power": "held_out", "standardize": True},
                np.column_stack([y, y**2]),
            ),
            (SparsePEPClassifier, {}, np.where(y > 0, "up", "down")),
            (SparsePEP, {"likelihood": "student_t"}, y),
            (SparsePEP, {"likelihood": "negative_binomial"}, np.round(np.exp(y + 1))),
        ],
        ids=["regressor", "outputs", "classifier", "student-t", "counts"],
    )
    def test_weights_and_repeats_train_to_the_same_bits(self, estimator, more, targets):
        """Whatever the order of the rows, and k-means and the scales of the targets included."""
        order = rng.permutation(len(rows))
        options = {
            "n_inducing": 5,
            "training": LBFGS(max_iter=6, tol=1e9),
            "random_state": 0,
        } | more
        longer = estimator(**options).fit(X[rows][order], targets[rows][order])
        weighted = estimator(**options).fit(X[::-1], targets[::-1], copies[::-1])
        for name, value in longer.parameters().items():
            assert np.array_equal(value, weighted.parameters()[name]), name
        assert error(np.array(weighted.predict_f(X)), np.array(longer.predict_f(X))) < 1e-7
        assert longer.site_precision_.shape[-1] == len(rows)
        once, turned = (
            estimator(**options).fit(X[::step], targets[::step]).parameters() for step in (1, -1)
        )
        assert all(np.array_equal(once[name], turned[name]) for name in once)

    def test_what_differs_in_anything_is_different(self):
        twice = np.vstack([X, X])
        same = np.append(y, y)
        assert len(distinct_rows(Rows(twice, same))[0].X) == 30
        for piece in (
            Rows(twice, np.append(y, y + 1e-12)),
            Rows(twice, same, known_variance=np.arange(60.0)),
            Rows(twice, same, power=np.repeat([0.2, 0.3], 30)),
            Rows(twice, same, blocks=np.repeat([0, 1], 30)),
            Rows(twice, np.repeat(["a", "b"], 30)),
            Rows(X, y),
        ):
            assert len(distinct_rows(piece)[0].X) == len(piece.X)


@pytest.mark.parametrize("heavy, said", [(1e6, 0), (1e8, 1), (1e20, 1)])
def test_weights_beside_which_others_hardly_count_are_warned_of(heavy, said):
    X, y = snelson_like(30)
    weight = np.where(np.arange(30) < 3, heavy, 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SparsePEPRegressor(n_inducing=8, training=None).fit(X, y, sample_weight=weight)
    assert sum("`sample_weight` goes from 1 to" in str(one.message) for one in caught) == said


@pytest.mark.filterwarnings("error")
def test_weights_that_fade_with_age_are_not_warned_of():
    X, y = snelson_like(30)
    model = SparsePEPRegressor(n_inducing=8, training=None)
    model.fit(X, y, sample_weight=np.exp(-3.0 * np.arange(30)))


def test_rows_of_weight_0_keep_their_places_where_each_row_is_left_out():
    X, y = snelson_like(30)
    weight = np.ones(30)
    weight[[0, 7]] = 0.0
    kept = weight > 0.0
    model = SparsePEPRegressor(n_inducing=8, training=None, random_state=0)
    alone = model.fit(X[kept], y[kept]).leave_one_out()
    density = model.fit(X, y, sample_weight=weight).leave_one_out()
    assert density.shape == (30,) and np.all(np.isnan(density[~kept]))
    assert error(density[kept], alone) < 1e-12
