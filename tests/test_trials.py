"""One fit on one split: training, prediction, scores, warnings, tables."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss, roc_auc_score

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.cli.options import ModelOptions
from sparse_pep.cli.output import format_table
from sparse_pep.cli.trial import (
    beats_constant,
    estimator_for,
    power_name,
    run_split,
    score_rows,
)
from sparse_pep.datasets import Dataset, random_splits, snelson_like


def test_a_row_says_what_was_trained(capsys, monkeypatch):
    X, y = snelson_like(80)
    data = Dataset("one", X, y, ("x",), random_splits(80, 2))
    options = ModelOptions(power=0.0, n_inducing=6, tol=1e-3, max_iter=500)
    row, model = run_split(data, 1, options)
    assert (row["data"], row["power"], row["name"], row["split"]) == ("one", 0.0, "VFE", 1)
    assert row["log ML/N"] == model.log_marginal_likelihood_value_ / 72
    assert row["converged"] == "yes"
    assert row["seconds"] > 0.0
    assert_allclose(model.y_mean_, np.mean(y[data.splits[1][0]]), rtol=1e-12)
    assert_allclose(model.x_mean_, np.mean(X[data.splits[1][0]]), rtol=1e-12)
    stopped, _ = run_split(data, 1, replace(options, tol=5e-4, max_iter=1))
    assert stopped["converged"] == "no"
    said = capsys.readouterr().err
    assert said.startswith("Warning: one, power 0, split 1: ")
    assert said.count("\n") == 1
    monkeypatch.setattr(
        SparsePEPRegressor, "fit", mock.Mock(side_effect=np.linalg.LinAlgError("no such luck"))
    )
    with pytest.raises(np.linalg.LinAlgError, match="^one, power 0.5, split 1: no such luck$"):
        run_split(data, 1, ModelOptions())


def test_a_table_is_aligned():
    table = pd.DataFrame({"a": ["x", "long"], "b": [1.0, -10.26]})
    formats = {"a": "", "b": ".1f"}
    assert format_table(table, formats) == "a         b\nx       1.0\nlong  -10.3"
    assert format_table(table[:0], formats) == "a  b"


@pytest.mark.parametrize(
    "likelihood, names",
    [("gaussian", ["VFE", "Power EP", "FITC"]), ("poisson", ["VFE", "Power EP", "EP"])],
)
def test_a_power_has_the_name_of_its_method(likelihood, names):
    X = np.arange(6.0)[:, None]
    model = estimator_for(ModelOptions(likelihood=likelihood, n_inducing=3))
    model.set_params(training=None)
    powers = (0.0, 1e-9, 1.0)
    assert [power_name(model.set_params(power=power).fit(X, X[:, 0])) for power in powers] == names


KINDS = {  # whether the target is scaled
    SparsePEPRegressor: {"gaussian": True},
    SparsePEP: {
        "student_t": True,
        "heteroscedastic_gaussian": True,
        "poisson": False,
        "tobit": False,
    },
    SparsePEPClassifier: {"probit": None, "auto": None},
}


@pytest.mark.parametrize(
    "kind, likelihood", [(kind, name) for kind, names in KINDS.items() for name in names]
)
def test_a_likelihood_has_its_estimator_and_only_real_targets_are_scaled(kind, likelihood):
    rng = np.random.default_rng(0)
    X = 100.0 + 10.0 * rng.uniform(size=(20, 1))
    y = (np.arange(20) % 2 if kind is SparsePEPClassifier else rng.poisson(3.0, 20)).astype(float)
    scaled = KINDS[kind][likelihood]
    options = ModelOptions(likelihood=likelihood, n_inducing=3)
    model = estimator_for(options).set_params(training=None).fit(X, y)
    assert type(model) is kind
    assert np.all(np.abs(model.features_.Z) < 3.0)
    if scaled is not None:
        units = (np.mean(y), np.std(y)) if scaled else (0.0, 1.0)
        assert_allclose((model.y_mean_, model.y_scale_), units, rtol=1e-14)


def test_a_sure_mistake_costs_its_log_density_and_not_infinity():
    X, y = snelson_like(20)
    rows = np.arange(20)
    model = SparsePEPClassifier(n_inducing=3, training=None).fit(X, y > 0.0)
    model.predict_log_density = lambda X, y: np.full(len(y), -800.0)
    assert score_rows(model, X, y > 0.0, rows, rows)["log loss"] == 800.0


def test_durations_that_had_not_ended_are_scored_by_their_density_only():
    X = np.arange(6.0)[:, None]
    y = np.array([1.0, 2.0, 3.0, 4.0, -5.0, 2.5])
    model = SparsePEP(likelihood="weibull", n_inducing=3, training=None).fit(X, y)
    mean = model.predict(X)
    density = model.predict_log_density(X, y)
    scores = score_rows(model, X, y, np.arange(6), np.arange(6))
    assert scores["SMSE"] == pytest.approx(
        np.mean((y - mean)[y > 0.0] ** 2) / np.var(y[y > 0.0]), rel=1e-12
    )
    assert scores["NLL"] == pytest.approx(-np.mean(density), rel=1e-12)


def test_scores_by_name_are_those_of_scikit_learn():
    X, y = snelson_like(60)
    train = np.arange(40)
    test = np.arange(40, 60)
    model = estimator_for(ModelOptions(n_inducing=5)).set_params(training=None)
    scores = score_rows(model.fit(X[train], y[train]), X, y, train, test)
    low, high = model.predict_interval(X[test], level=0.9)
    assert scores["RMSE"] == pytest.approx(
        np.sqrt(np.mean((y[test] - model.predict(X[test])) ** 2))
    )
    assert scores["coverage"] == np.mean((low <= y[test]) & (y[test] <= high))
    labels = np.where(y > 0.0, "up", "down")
    model = estimator_for(ModelOptions(likelihood="probit", n_inducing=5))
    model.set_params(training=None).fit(X[train], labels[train])
    scores = score_rows(model, X, labels, train, test)
    proba = model.predict_proba(X[test])
    assert scores["AUC"] == pytest.approx(roc_auc_score(labels[test], proba[:, 1]))
    assert scores["log loss"] == pytest.approx(log_loss(labels[test], proba))


def test_what_is_worse_than_a_constant_is_named():
    train = np.array([0.0, 2.0])
    test = np.array([0.0, 1.0])
    assert beats_constant({"SMSE": 0.9, "SMLL": -0.1}, train, test)
    assert not beats_constant({"SMSE": 0.9, "SMLL": 0.1}, train, test)
    assert not beats_constant({"SMSE": 1.1, "NLL": 3.0}, train, test)
    labels = np.array(["a", "a", "a", "b"])
    constant = -np.mean(np.log([0.75, 0.25]))
    assert beats_constant({"log loss": constant - 1e-9}, labels, labels[2:])
    assert not beats_constant({"log loss": constant + 1e-9}, labels, labels[2:])
    assert beats_constant({"log loss": 9.0}, labels, np.array(["c"]))  # which nobody could know
