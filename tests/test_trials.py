"""One fit on one split: training, prediction, scores, warnings, tables."""

import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import Dataset, load_regression, random_splits, snelson_like
from sparse_pep.features import InducingPoints
from sparse_pep.trials import check_classes, estimator_for, format_table, one_line_warnings, power_name, predictions, require_learnable, run_split, score_rows


@pytest.fixture
def labels():
    """One input; "up" where its sine with some noise is positive, else "down"."""
    rng = np.random.default_rng(1)
    dose = rng.uniform(0.0, 5.0, 60)
    return dose[:, None], np.where(np.sin(dose) + 0.3 * rng.standard_normal(60) > 0.0, "up", "down")


def test_a_class_without_a_training_row_is_named():
    y = np.array(["a", "b", "a", "b", "c"])
    check_classes(y, np.array([0, 1, 4]), np.array([2, 3]), "here")
    with pytest.raises(ValueError, match="here: the class 'c' is held out"):
        check_classes(y, np.array([0, 1]), np.array([2, 3, 4]), "here")


def test_the_nll_of_a_sure_mistake_is_not_infinite(labels):
    X, y = labels
    model = estimator_for("logit", n_inducing=3, training=None).fit(X, y)
    model.predict_log_density = lambda X, y: np.full(len(y), -800.0)
    assert score_rows(model, X, y, np.arange(60), np.array([0]))["NLL"] == 800.0


def test_a_row_says_what_was_trained():
    X, y = snelson_like(80)
    data = Dataset("one", X, y, ("x",), random_splits(80, 2))
    row, model = run_split(data, 1, 0.0, n_inducing=6, tol=1e-3, max_iter=500)
    assert list(row) == ["data", "power", "name", "split", "log ML/N", "SMSE", "SMLL", "converged", "seconds"]
    assert (row["data"], row["power"], row["name"], row["split"]) == ("one", 0.0, "VFE", 1)
    assert row["log ML/N"] == model.log_marginal_likelihood_value_ / 72
    assert row["converged"] == "yes" and row["seconds"] > 0.0
    np.testing.assert_allclose(model.y_mean_, np.mean(y[data.splits[1][0]]), rtol=1e-12)
    np.testing.assert_allclose(model.x_mean_, np.mean(X[data.splits[1][0]]), rtol=1e-12)
    assert run_split(data, 1, 0.0, n_inducing=6, max_iter=1)[0]["converged"] == "no"


def test_a_table_is_aligned():
    text = format_table([{"a": "x", "b": 1.0}, {"a": "long", "b": -10.26}], {"a": "", "b": ".1f"})
    assert text == "a         b\nx       1.0\nlong  -10.3"
    assert format_table([], {"a": "", "b": ".1f"}) == "a  b"
    assert (
        format_table([{"b": 1.0, "long": "x"}], {"b": ".1f", "long": ""}) == "  b  long\n1.0  x"
    )  # no blanks at the end


def test_names_of_powers():
    assert [power_name(power) for power in (0, 1e-9, 0.5, 1)] == ["VFE", "Power EP", "Power EP", "FITC"]
    assert [power_name(power, "probit") for power in (0, 0.5, 1)] == ["VFE", "Power EP", "EP"]


def test_equal_warnings_are_shown_once_and_others_are_left_to_python(capsys):
    with one_line_warnings("here: "):
        warnings.warn("two\nlines", stacklevel=1)
        warnings.warn("two\nlines", stacklevel=1)
        warnings.warn("another", stacklevel=1)
    assert capsys.readouterr().err == "Warning: here: two lines\nWarning: here: another\n"
    with pytest.raises(ValueError), one_line_warnings():
        warnings.warn("before the end", stacklevel=1)
        raise ValueError
    assert capsys.readouterr().err == "Warning: before the end\n"


@settings(max_examples=15, deadline=None)
@given(units=st.tuples(*[st.floats(-6, 6).map(lambda e: 10.0**e)] * 3), shifts=st.tuples(*[st.floats(-100, 100)] * 3))
def test_a_change_of_units_changes_nothing_but_the_units(units, shifts):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (30, 2))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(30)
    unit, shift = np.array(units[:2]), np.array(shifts[:2])
    features = InducingPoints(rng.uniform(-2, 2, (8, 2)))
    options = {"features": features, "training": None, "noise_variance": 0.05}
    there = unit * (X + shift)
    mean, std = predictions(estimator_for(**options).fit(X, y), X)
    mean_there, std_there = predictions(estimator_for(**options).fit(there, units[2] * (y + shifts[2])), there)
    np.testing.assert_allclose(mean_there / units[2] - shifts[2], mean, atol=1e-6)
    np.testing.assert_allclose(std_there / units[2], std, rtol=1e-6)


def test_what_cannot_be_learned_from_is_named():
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="^the target 'price' has fewer than two different values in 3 rows"):
        require_learnable(X, np.ones(3), target="price")
    with pytest.raises(ValueError, match="^the target has fewer than two"):
        require_learnable(X, np.array(["a", "a", "a"]))
    with pytest.raises(ValueError, match="^column 'age' holds values too large"):
        require_learnable(np.c_[X, 1e200 * X], y, names=["dose", "age"])
    with pytest.raises(ValueError, match="^column 1 holds values too large"):
        require_learnable(np.c_[X, 1e200 * X], y)
    with pytest.raises(ValueError, match="^the target holds values too large"):
        require_learnable(X, 1e200 * y)
    require_learnable(X, np.array(["a", "b", "a"]))


@pytest.mark.parametrize(
    "likelihood, kind, scaled",
    [
        ("gaussian", SparsePEPRegressor, True),
        ("student_t", SparsePEP, True),
        ("heteroscedastic_gaussian", SparsePEP, True),
        ("poisson", SparsePEP, False),
        ("tobit", SparsePEP, False),
        ("negative_binomial", SparsePEP, False),
        ("probit", SparsePEPClassifier, None),
        ("auto", SparsePEPClassifier, None),
    ],
)
def test_a_likelihood_has_its_estimator_and_only_real_targets_are_scaled(likelihood, kind, scaled):
    rng = np.random.default_rng(0)
    X = 100.0 + 10.0 * rng.uniform(size=(20, 1))
    y = (np.arange(20) % 2 if kind is SparsePEPClassifier else rng.poisson(3.0, 20)).astype(float)
    options = {"likelihood": likelihood, "n_inducing": 3, "training": None}
    model = estimator_for(**options).fit(X, y)
    assert type(model) is kind and np.all(np.abs(model.features_.Z) < 3.0)
    if scaled is not None:
        np.testing.assert_allclose((model.y_scale_, model.y_mean_), (np.std(y), np.mean(y)) if scaled else (1.0, 0.0), rtol=1e-14)
        plain = estimator_for(standardize=False, **options).fit(X, y)
        assert plain.y_scale_ == 1.0 and plain.x_mean_ == 0.0


def test_scores_of_a_regressor_are_those_of_their_definitions():
    X, y = snelson_like(60)
    train, test, known = np.arange(40), np.arange(40, 60), np.linspace(0.1, 0.6, 60)
    model = estimator_for(n_inducing=6, training=None, noise_variance=0.1).fit(X[train], y[train])
    mean, std = predictions(model, X[test])
    trivial = norm.logpdf(y[test], y[train].mean(), y[train].std())
    for more, given_variance in ((0.0, None), (known[test], known)):
        row = score_rows(model, X, y, train, test, given_variance)
        density = norm.logpdf(y[test], mean, np.sqrt(std**2 + more))
        assert row["SMLL"] == pytest.approx(np.mean(trivial - density), rel=1e-12)
        assert row["SMSE"] == pytest.approx(np.mean((y[test] - mean) ** 2) / np.var(y[test]), rel=1e-12)


def test_scores_of_labels_and_counts(labels):
    X, y = labels
    train, test = np.arange(45), np.arange(45, 60)
    model = estimator_for("probit", n_inducing=5, training=None).fit(X[train], y[train])
    label, proba = predictions(model, X[test])
    row = score_rows(model, X, y, train, test)
    up = np.where(y[test] == "up", proba[:, 1], proba[:, 0])
    assert row["NLL"] == pytest.approx(-np.mean(np.log(up)), rel=1e-10)
    assert row["error"] == np.mean(label != y[test]) == np.mean((proba[:, 1] > 0.5) != (y[test] == "up"))
    counts = np.random.default_rng(0).poisson(np.exp(1.0 + np.sin(X[:, 0]))).astype(float)
    model = estimator_for("poisson", n_inducing=5, training=None).fit(X[train], counts[train])
    row = score_rows(model, X, counts, train, test)
    assert list(row) == ["SMSE", "NLL"] and 0.0 < row["NLL"] < 3.0


def test_a_quiet_split_leaves_warnings_to_python(capsys):
    X, y = snelson_like(40)
    data, said = Dataset("one", X, y, ("x",), random_splits(40, 1)), []
    run_split(data, 0, 0.5, said, n_inducing=4, max_iter=1)
    assert len(said) == 1 and said[0].startswith("one, power 0.5, split 0: ")
    assert capsys.readouterr().err == f"Warning: {said[0]}\n"
    with pytest.warns(UserWarning, match="1 iteration"):
        run_split(data, 0, 0.5, said, quiet=True, n_inducing=4, max_iter=1)
    assert capsys.readouterr().err == "" and len(said) == 1


def test_durations_that_had_not_ended_are_scored_by_their_density_only():
    X, y = np.arange(6.0)[:, None], np.array([1.0, 2.0, 3.0, 4.0, -5.0, 2.5])
    model = SparsePEP(likelihood="weibull", n_inducing=3, training=None).fit(X, y)
    mean, density = model.predict(X), model.predict_log_density(X, y)
    scores = score_rows(model, X, y, np.arange(6), np.arange(6))
    assert scores["SMSE"] == pytest.approx(np.mean((y - mean)[y > 0.0] ** 2) / np.var(y[y > 0.0]), rel=1e-12)
    assert scores["NLL"] == pytest.approx(-np.mean(density), rel=1e-12)


def test_a_fit_that_fails_is_named(monkeypatch):
    failing = mock.Mock(side_effect=np.linalg.LinAlgError("the sites did not settle"))
    monkeypatch.setattr(SparsePEPRegressor, "fit", failing)
    with pytest.raises(np.linalg.LinAlgError, match="^diabetes, power 0.5, split 1: the sites did not settle$"):
        run_split(load_regression("diabetes"), 1, 0.5)
