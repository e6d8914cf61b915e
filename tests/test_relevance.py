"""Relevance of the inputs: losses of log density by shuffling."""

import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import value_error
from numpy.testing import assert_allclose, assert_array_equal

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.kernels import Constant, Linear, SquaredExponential
from sparse_pep.training import LBFGS

rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=60), 1e3 * rng.normal(size=60), rng.normal(size=60)])
y = np.sin(X[:, 0]) + 1e-3 * X[:, 1]
GIVEN = {"n_inducing": 10, "training": None}
KERNEL = SquaredExponential(1.0, [1.0, 2e3, 1e9])
MODEL = SparsePEPRegressor(kernel=KERNEL, noise_variance=0.01, random_state=0, **GIVEN).fit(
    X[:40], y[:40]
)


def test_the_loss_is_that_of_shuffled_groups():
    groups = {"first two": [0, 1], "third": [2]}
    found = MODEL.relevance(X, y, groups, n_repeats=200, random_state=1)
    before = MODEL.predict_log_density(X, y).mean()
    after = []
    for _ in range(200):
        mixed = X.copy()
        mixed[:, :2] = X[rng.permutation(60), :2]  # rows of the group stay together
        after.append(MODEL.predict_log_density(mixed, y).mean())
    error = np.hypot(np.std(after), found.loss_std[0]) / np.sqrt(200)
    assert abs(found.loss[0] - (before - np.mean(after))) < 4 * error
    assert found.loss[0] > 30 * error
    assert abs(found.loss[1]) < 1e-6
    apart = MODEL.relevance(X, y, {"first": [0], "second": [1]}, n_repeats=200)
    assert np.all(apart.loss > 0.1)
    assert abs(apart.loss.sum() - found.loss[0]) > 10 * error


def test_what_stands_for_one_column_is_shuffled_together():
    place = np.where(X[:, 0] > 0.0, "hill", "vale")
    table = pd.DataFrame({"place": place, "size": X[:, 2]})
    model = SparsePEPRegressor(standardize=True, random_state=0, **GIVEN).fit(table, X[:, 0])
    assert len(model.columns_.names) == 3
    found = model.relevance(table, X[:, 0])
    assert found.names == ("place", "size")
    assert found.loss[0] > 0.05
    encoded = model.columns_.transform(table)
    same = model.relevance(encoded, X[:, 0], {"place": [0, 1], "size": [2]})
    assert_array_equal(found.loss, same.loss)


def test_scaled_targets_and_labels_are_judged(tmp_path):
    given = {"standardize": True, "n_inducing": 10, "training": LBFGS(max_iter=5, tol=1e3)}
    labels = np.where(y > 0.0, "high", "low")
    fits = SparsePEPRegressor(**given).fit(X, y), SparsePEPClassifier(**given).fit(X, labels)
    for model, targets in zip(fits, (y, labels), strict=True):
        assert "relevance" not in model.summary()
        found = model.relevance(X, targets)
        assert np.argmin(found.loss) == 2
        assert str(found) in model.summary()
        model.save(tmp_path / "model.npz")
        assert str(found) in load(tmp_path / "model.npz").summary()


@pytest.mark.parametrize(
    "groups",
    [
        {},
        {"a": [3]},
        {"a": [-1]},
        {"a": [0, 0]},
        {"a": [0], "b": [0]},
        {"a": [0.5]},
        {"a": []},
        {"a": ["x9"]},
    ],
    ids=str,
)
def test_groups_must_be_columns(groups):
    with value_error(
        "`groups` must give each name a list of names of columns, or of numbers from 0 to 2",
    ):
        MODEL.relevance(X, y, groups)


def told(work):
    """The warnings of a call, as text."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(warning.message) for warning in found]


FAR = SquaredExponential(1.0, [1.0, 2e3, 50.0])
LOWEST = X.min(axis=0)
HIGHEST = X.max(axis=0)
PLACES = {  # which columns of a row are beyond, for a kernel
    "inside": (FAR, LOWEST, []),
    "within a lengthscale": (FAR, HIGHEST + [0.9, 1.9e3, 49.0], []),
    "above": (FAR, HIGHEST + [1.1, 1.9e3, 51.0], ["x1", "x3"]),
    "below": (FAR, LOWEST - [0.9, 2.1e3, 49.0], ["x2"]),
    "a sum": (FAR + SquaredExponential(1.0, [9.0, 1.0, 1.0]), HIGHEST + [8.0, 2.1e3, 0.0], ["x2"]),
    "a product": (
        FAR * SquaredExponential(1.0, [9.0, 1.0, 1.0]),
        HIGHEST + [8.0, 0.0, 0.0],
        ["x1"],
    ),
    "a trend": (FAR + Linear(1.0, active_dims=[0]), HIGHEST + [8.0, 2.1e3, 0.0], ["x2"]),
    "a constant": (Constant() + FAR, HIGHEST + [8.0, 0.0, 0.0], ["x1"]),
}


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("place", PLACES)
def test_rows_beyond_the_training_data_are_told_of_once(place, standardize):
    kernel, row, columns = PLACES[place]
    model = SparsePEPRegressor(kernel=kernel, standardize=standardize, **GIVEN).fit(X, y)
    rows = np.vstack([X, row])
    pieces = ArraySource(rows, piece_rows=20)
    said = [
        told(lambda work=work: work(rows))
        for work in (
            model.predict,
            model.predict_f,
            model.predict_interval,
            model.sample_f,
            model.sample_y,
        )
    ]
    said += [
        told(lambda: model.predict(pieces)),
        told(lambda: model.predict(pieces, return_std=True)),
    ]
    assert all(one == said[0] for one in said)
    assert len(said[0]) == bool(columns)
    assert not told(lambda: model.predict(X))
    for name in ("x1", "x2", "x3"):
        assert (f"1 row in {name!r} outside" in str(said[0])) == (name in columns)


def test_the_range_is_that_of_all_rows_that_count_and_is_kept(tmp_path):
    model = SparsePEPRegressor(kernel=FAR, **GIVEN).fit(X, y, sample_weight=1.0 * (X[:, 0] < 1.0))
    assert_allclose(model.x_range_[1, 0], np.max(X[X[:, 0] < 1.0, 0]), rtol=1e-12)
    whole = SparsePEPRegressor(kernel=FAR, **GIVEN).fit(ArraySource(X, y, piece_rows=7))
    assert_allclose(whole.x_range_, [LOWEST, HIGHEST], rtol=1e-12)
    first = (
        SparsePEPRegressor(kernel=FAR, **GIVEN).partial_fit(X[:9], y[:9]).partial_fit(X[9:], y[9:])
    )
    assert_allclose(first.x_range_, [LOWEST, HIGHEST], rtol=1e-12)
    first.save(tmp_path / "model.npz")
    assert (
        told(lambda: load(tmp_path / "model.npz").predict(X + 1e9))
        == told(lambda: first.predict(X + 1e9))
        != []
    )


def test_a_forecast_is_told_of_from_a_tenth_of_a_lengthscale_on():
    days = np.arange(400)
    table = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=400), "x": days % 7})
    model = SparsePEPRegressor(n_inducing=20, random_state=0).fit(
        table[:300], np.sin(days[:300] / 60.0)
    )
    reach = 0.1 * model.kernel_.lengthscale[0] * model.x_scale_[0]
    n_beyond = np.sum(days[300:] - 299 > reach)
    assert 80 < n_beyond < 100
    (text,) = told(lambda: model.predict(table[300:]))
    assert f"{n_beyond} rows in 'day' outside 2020-01-01 to 2020-10-26" in text
    assert "Intervals of a forecast by the default kernel" in text


def test_groups_have_names_of_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    model = SparsePEPRegressor(n_inducing=5, training=None).fit(table, table["a"])
    named = model.relevance(table, table["a"], groups={"both": ["a", "c"], "one": "b"})
    numbered = model.relevance(table, table["a"], groups={"both": [0, 2], "one": [1]})
    assert str(named) == str(numbered)
    with value_error("the columns are .'a', 'b', 'c'."):
        model.relevance(table, table["a"], groups={"one": ["d"]})
