"""The exact process, which `n_inducing="auto"` tries first."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor

X = np.random.default_rng(0).uniform(-2.0, 2.0, size=(120, 2))
SMOOTH = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2
NOISY = SMOOTH + 0.1 * np.random.default_rng(1).normal(size=120)
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
    noise = np.random.default_rng(3).normal(size=120)
    assert SparsePEPRegressor(**AUTO).fit(X, SMOOTH + noise).diagnostics_["jitter"] == 1e-8


def test_the_exact_process_of_a_simulator_beats_trained_points():
    new = np.random.default_rng(2).uniform(-1.8, 1.8, size=(300, 2))
    truth = np.sin(2.0 * new[:, 0]) + new[:, 1] ** 2
    errors = []
    for n_inducing in ("auto", 30):
        model = SparsePEPRegressor(n_inducing=n_inducing, random_state=0).fit(X, SMOOTH)
        errors.append(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
    assert errors[0] < 0.3 * errors[1]


def test_labels_have_a_point_at_every_row():
    model = SparsePEPClassifier(**AUTO).fit(X, NOISY > 1.0)
    assert len(model.features_) == 120
