"""An estimator is its arguments and one fitted state, which is replaced as a whole."""

import inspect
from operator import attrgetter

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_equal

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.encoder import Encoder
from sparse_pep.estimators.state import OPTIONAL, PUBLIC

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(2.0 * X[:, 0])
OTHER = {"X": 3.0 * X + 5.0, "y": 100.0 - 20.0 * Y}  # other inputs, another scale
KEPT = {"n_inducing": 6, "training": None, "random_state": 0}


def regressor(**arguments):
    return SparsePEPRegressor(**KEPT | arguments).fit(X, Y)


LABELS = np.where(Y > 0.0, "up", "down")


def classifier():
    return SparsePEPClassifier(**KEPT).fit(X, LABELS)


ASKED = {
    "predict": lambda model: model.predict(X),
    "predict_f": lambda model: model.predict_f(X),
    "sample_f": lambda model: model.sample_f(X[:5], 2),
    "sample_y": lambda model: model.sample_y(X[:5], 2),
}
OF_REGRESSOR = ASKED | {
    "std": lambda model: model.predict(X, return_std=True),
    "cov": lambda model: model.predict(X, return_cov=True),
    "quantiles": lambda model: model.predict_quantiles(X, [0.1, 0.9]),
    "predict_log_density": lambda model: model.predict_log_density(X, Y),
}
OF_CLASSIFIER = ASKED | {
    "predict_proba": lambda model: model.predict_proba(X),
    "predict_log_proba": lambda model: model.predict_log_proba(X),
    "decision_function": lambda model: model.decision_function(X),
    "predict_log_density": lambda model: model.predict_log_density(X, LABELS),
}


def refit_within(monkeypatch, model, y):
    """Let the next encoding of inputs for `model` fit it to other data first."""
    encode = Encoder.inputs
    waiting = [model]

    def inputs(encoder, rows):
        encoded = encode(encoder, rows)
        if waiting:
            waiting.pop().fit(OTHER["X"], y)
        return encoded

    monkeypatch.setattr(Encoder, "inputs", inputs)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OF_REGRESSOR)
def test_a_prediction_during_another_fit_belongs_to_one_regressor(name, monkeypatch):
    model = regressor()
    expected = OF_REGRESSOR[name](model)
    refit_within(monkeypatch, model, OTHER["y"])
    assert_equal(OF_REGRESSOR[name](model), expected)
    assert model.y_mean_ > 10.0  # it was fitted to the other data


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OF_CLASSIFIER)
def test_a_prediction_during_another_fit_belongs_to_one_classifier(name, monkeypatch):
    model = classifier()
    expected = OF_CLASSIFIER[name](model)
    refit_within(monkeypatch, model, np.digitize(X[:, 1], [-0.5, 0.5]))
    assert_equal(OF_CLASSIFIER[name](model), expected)
    assert len(model.classes_) == 3


@pytest.mark.parametrize("make", [regressor, classifier])
def test_an_estimator_is_its_arguments_its_state_and_what_is_published(make):
    model = make()
    arguments = inspect.signature(type(model)).parameters
    assert set(vars(model)) - set(arguments) - {"_state"} <= set(PUBLIC)
    for name, path in PUBLIC.items():
        value = attrgetter(path)(model._state)
        if value is None and name in OPTIONAL:
            assert not hasattr(model, name)
        else:
            assert_equal(getattr(model, name), value)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.fit(X, np.full(len(X), np.nan)),
        lambda model: model.partial_fit(X[:, :1], Y),
        lambda model: model.set_params(fixed=["kernel.width"]).partial_fit(X, Y),
        lambda model: model.add_inducing(0),
        lambda model: model.remove_inducing(6),
        lambda model: model.set_params(kernel="cubic").fit(X, Y),
    ],
    ids=["fit", "partial_fit", "later argument", "add_inducing", "remove_inducing", "an argument"],
)
def test_a_failed_change_leaves_the_old_state(change):
    model = regressor()
    before = dict(vars(model))
    with pytest.raises(ValueError):
        change(model)
    assert model._state is before["_state"]
    assert set(vars(model)) == set(before)


def test_attributes_that_the_next_fit_does_not_have_go():
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = SparsePEPClassifier(**KEPT).fit(frame, LABELS)
    assert list(model.feature_names_in_) == ["a", "b"]
    model.fit(X, LABELS)
    assert not hasattr(model, "feature_names_in_")


def test_later_data_replace_the_state():
    model = regressor()
    first = model._state
    model.partial_fit(X, Y)
    assert model._state is not first
    assert model.n_samples_seen_ == 2 * len(X)
    assert first.report.n_samples == len(X)
