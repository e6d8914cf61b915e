"""The exact process, which `n_inducing="auto"` tries first, and which few rows have, and rows
without noise.
"""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import list_datasets, load_regression
from sparse_pep.kernels import SquaredExponential
from sparse_pep.training import LBFGS

X = default_rng(0).uniform(-2.0, 2.0, (120, 2))
SMOOTH = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2
NOISY = SMOOTH + 0.1 * default_rng(1).normal(size=120)
AUTO = {"n_inducing": "auto", "random_state": 0}


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_auto_has_the_exact_evidence_at_every_power(power):
    model = SparsePEPRegressor(**AUTO, power=power, standardize=False).fit(X, NOISY)
    covariance = model.kernel_(X) + model.noise_variance_ * np.eye(120)
    exact = multivariate_normal.logpdf(NOISY, cov=covariance)
    assert np.isclose(model.log_marginal_likelihood_value_, exact, rtol=1e-4)


def test_auto_has_no_more_points_than_distinct_rows():
    model = SparsePEPRegressor(**AUTO).fit(np.tile(X[:40], (3, 1)), NOISY)
    assert len(model.features_) <= 40


def test_a_summary_says_that_the_process_is_exact():
    assert "exact: all 120 distinct rows" in str(SparsePEPRegressor(**AUTO).fit(X, NOISY).summary())


def test_jitter_is_lowered_below_a_small_noise():
    assert SparsePEPRegressor(**AUTO).fit(X, SMOOTH).diagnostics_["jitter"] < 1e-9


def test_jitter_stays_where_the_noise_is_larger():
    noise = default_rng(3).normal(size=120)
    assert SparsePEPRegressor(**AUTO).fit(X, SMOOTH + noise).diagnostics_["jitter"] == 1e-8


def test_the_exact_process_of_a_simulator_beats_trained_points():
    new = default_rng(2).uniform(-1.8, 1.8, (300, 2))
    truth = np.sin(2.0 * new[:, 0]) + new[:, 1] ** 2
    errors = []
    for n_inducing in ("auto", 30):
        model = SparsePEPRegressor(n_inducing=n_inducing, random_state=0).fit(X, SMOOTH)
        errors.append(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    assert errors[0] < 0.3 * errors[1]


def test_labels_have_a_point_at_every_row():
    model = SparsePEPClassifier(**AUTO).fit(X, NOISY > 1.0)
    assert len(model.features_) == 120


def test_the_evidence_of_a_fit_whose_noise_vanishes_is_finite():
    """With more columns than few rows determine, the evidence may rise until no noise is left."""
    wide = default_rng(0).normal(size=(30, 12))
    flat = np.maximum(wide[:, 0], 0.0)
    model = SparsePEPRegressor(**AUTO, kernel="se").fit(wide, flat)
    assert abs(model.log_marginal_likelihood_value_) < 1e3
    assert np.allclose(model.predict(wide), flat, atol=1e-3)


def test_few_rows_have_the_exact_evidence_by_default():
    """At least as high as that of scikit-learn's process, which starts once."""
    scaled = (X[:80] - X[:80].mean(axis=0)) / X[:80].std(axis=0)
    targets = (NOISY[:80] - NOISY[:80].mean()) / NOISY[:80].std()
    model = SparsePEPRegressor(random_state=0, n_inducing=80).fit(scaled, targets)
    kernel = ConstantKernel() * RBF(np.ones(2)) + WhiteKernel(0.1)
    other = GaussianProcessRegressor(kernel).fit(scaled, targets)
    height = model.log_marginal_likelihood_value_
    assert height > other.log_marginal_likelihood_value_ - 0.01
    assert len(model.features_) == 80


def wave(seed, n_rows, n_columns):
    """Rows of which two columns count, with much noise."""
    rng = default_rng(seed)
    inputs = rng.normal(size=(n_rows, n_columns))
    return inputs, np.sin(3.0 * inputs[:, 0]) + inputs[:, 1] + 0.3 * rng.normal(size=n_rows)


def test_few_rows_try_several_starts():
    """The first leads to a maximum where the curve is noise."""
    inputs, targets = wave(4, 50, 4)
    model = SparsePEPRegressor(random_state=0, n_inducing=50).fit(inputs, targets)
    assert model.score(inputs, targets) > 0.9
    assert_array_equal(np.unique(model.features_.Z, axis=0), model.features_.Z)


def test_a_kernel_that_is_given_starts_where_it_is():
    kernel = SquaredExponential(1.0, [1.0, 1.0])
    training = LBFGS(max_iter=1)
    given = {"kernel": kernel, "training": training, "n_inducing": 60, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        model = SparsePEPRegressor(**given).fit(X[:60], NOISY[:60])
    assert model.diagnostics_["n_evaluations"] <= 5
    assert np.allclose(model.kernel_.lengthscale, 1.0, rtol=0.9)


def test_points_move_where_the_noise_of_few_rows_vanishes():
    model = SparsePEPRegressor(random_state=0, n_inducing=40, standardize=False)
    model.fit(X[:40], SMOOTH[:40])
    assert "exact" not in model.diagnostics_


def test_points_of_few_labels_stay_where_they_are():
    model = SparsePEPClassifier(random_state=0, n_inducing=60, standardize=False)
    model.fit(X[:60], NOISY[:60] > 1.0)
    assert_array_equal(model.features_.Z, np.unique(X[:60], axis=0))


def test_a_sample_of_more_rows_than_points_chooses_their_start():
    inputs, targets = wave(2, 200, 8)
    model = SparsePEPRegressor(random_state=0).fit(inputs, targets)
    assert model.score(inputs, targets) > 0.9
    assert len(model.features_) == 100


def test_known_noise_counts_where_no_other_is_left():
    model = SparsePEPRegressor(random_state=0, n_inducing=60)
    noise = 0.1 * default_rng(3).normal(size=60)
    model.fit(X[:60], SMOOTH[:60] + noise, known_variance=np.full(60, 0.05))
    assert "exact" in model.diagnostics_


def test_a_summary_of_few_rows_does_not_advise_fewer_points():
    model = SparsePEPRegressor(random_state=0, n_inducing=60).fit(X[:60], X[:60, 0] + NOISY[60:])
    assert "exact: all 60 distinct rows" in str(model.summary())
    assert "smaller `n_inducing`" not in str(model.summary())


def test_runs_of_a_simulator_are_points_by_default():
    """From its first start, and its second, training on a sample ends where the curve is noise."""
    runs = default_rng(0).uniform(-1.0, 1.0, (150, 3))
    outcome = np.sin(3.0 * runs[:, 0]) + 2.0 * runs[:, 1] ** 2 + runs[:, 0] * runs[:, 2] ** 3
    model = SparsePEPRegressor(random_state=0).fit(runs, outcome)
    assert "exact: all 150 distinct rows" in str(model.summary())
    trained = SparsePEPRegressor(n_inducing=99, random_state=0).fit(runs, outcome)
    assert len(trained.features_) == 99


def test_copies_of_rows_do_not_pass_for_a_simulator():
    targets = np.sin(3.0 * X[:, 0]) + 0.3 * default_rng(1).normal(size=120)
    repeated = np.vstack([X, X[:60]]), np.append(targets, targets[:60])
    assert len(SparsePEPRegressor(random_state=0).fit(*repeated).features_) == 100


@pytest.mark.parametrize("seconds", [1e-3, 60.0])
def test_with_a_limit_of_time_auto_begins_as_the_default(seconds):
    """And then has the exact process, if there is time."""
    wide = default_rng(5).normal(size=(120, 4))
    noisy = wide[:, 0] + NOISY
    ends = []
    for n_inducing in (100, "auto"):
        training = LBFGS(max_time=seconds)
        model = SparsePEPRegressor(n_inducing=n_inducing, training=training, random_state=0)
        ends.append(model.fit(wide, noisy))
    default, auto = ends
    if seconds > 1.0:
        assert "exact" in auto.diagnostics_
        return
    assert auto.diagnostics_["growth_ended"] == "the limit of 0.001 s was reached"
    assert_array_equal(auto.predict(wide), default.predict(wide))


def test_a_small_map_is_exact_by_default():
    rng = default_rng(0)
    places = rng.uniform(0.0, 6.0, (500, 2))
    heights = np.abs(np.sin(2.0 * places[:, 0])) + np.abs(places[:, 1] - 3.0)
    noisy = heights + 0.1 * rng.normal(size=500)
    errors = []
    for n_inducing in (100, 99):
        model = SparsePEPRegressor(n_inducing=n_inducing, random_state=0)
        model.fit(places[:200], noisy[:200])
        errors.append(np.sqrt(np.mean((model.predict(places[200:]) - heights[200:]) ** 2)))
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.skipif("pol" not in list_datasets(), reason="the data are not there")
def test_codes_do_not_pass_for_the_output_of_a_simulator():
    """A process without noise is sure of the wrong side of each of their steps."""
    pol = load_regression("pol")
    order = default_rng(1).permutation(len(pol.y))
    rows = order[:350]
    new = order[350:1350]
    model = SparsePEPRegressor(random_state=0).fit(pol.X[rows], pol.y[rows])
    assert np.mean(model.predict_log_density(pol.X[new], pol.y[new])) > -4.0
