"""Relevance of the inputs: shares by lengthscales, and losses of log density by shuffling."""

import numpy as np
import pandas as pd
import pytest

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.kernels import Linear, SquaredExponential
from sparse_pep.training import LBFGS

rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=60), 1e3 * rng.normal(size=60), rng.normal(size=60)])
y = np.sin(X[:, 0]) + 1e-3 * X[:, 1]
GIVEN = {"n_inducing": 10, "training": None}
KERNEL = SquaredExponential(1.0, [1.0, 2e3, 1e9])
MODEL = SparsePEPRegressor(kernel=KERNEL, noise_variance=0.01, random_state=0, **GIVEN).fit(X[:40], y[:40])


def test_shares_are_those_of_the_squared_distances():
    found = MODEL.relevance(X, y)
    spread = X.std(axis=0) / KERNEL.lengthscale
    np.testing.assert_allclose(found.share, spread**2 / np.sum(spread**2), rtol=1e-12)
    assert found.names == ("x1", "x2", "x3")
    plain = SparsePEPRegressor(kernel=Linear(), **GIVEN).fit(X[:40], y[:40]).relevance(X, y)
    assert np.all(np.isnan(plain.share)) and np.all(np.isfinite(plain.loss)) and "share" not in str(plain)


def test_the_loss_is_that_of_shuffled_groups():
    groups = {"first two": [0, 1], "third": [2]}
    found = MODEL.relevance(X, y, groups, n_repeats=200, random_state=1)
    before, after = MODEL.predict_log_density(X, y).mean(), []
    for _ in range(200):
        mixed = X.copy()
        mixed[:, :2] = X[rng.permutation(60), :2]  # rows of the group stay together
        after.append(MODEL.predict_log_density(mixed, y).mean())
    error = np.hypot(np.std(after), found.loss_std[0]) / np.sqrt(200)
    assert abs(found.loss[0] - (before - np.mean(after))) < 4 * error and found.loss[0] > 30 * error
    assert abs(found.loss[1]) < 1e-6
    apart = MODEL.relevance(X, y, {"first": [0], "second": [1]}, n_repeats=200)
    assert np.all(apart.loss > 0.1) and abs(apart.loss.sum() - found.loss[0]) > 10 * error


def test_what_stands_for_one_column_is_shuffled_together():
    place = np.where(X[:, 0] > 0.0, "hill", "vale")
    table = pd.DataFrame({"place": place, "size": X[:, 2]})
    model = SparsePEPRegressor(standardize=True, random_state=0, **GIVEN).fit(table, X[:, 0])
    assert len(model.columns_.names) == 3
    found = model.relevance(table, X[:, 0])
    assert found.names == ("place", "size") and found.loss[0] > 0.05
    encoded = model.columns_.transform(table)
    same = model.relevance(encoded, X[:, 0], {"place": [0, 1], "size": [2]})
    np.testing.assert_array_equal((found.loss, found.share), (same.loss, same.share))


def test_scaled_targets_and_labels_are_judged(tmp_path):
    given = {"standardize": True, "n_inducing": 10, "training": LBFGS(max_iter=5, tol=1e3)}
    labels = np.where(y > 0.0, "high", "low")
    fits = SparsePEPRegressor(**given).fit(X, y), SparsePEPClassifier(**given).fit(X, labels)
    for model, targets in zip(fits, (y, labels)):
        assert "relevance" not in model.summary()
        found = model.relevance(X, targets)
        assert np.argmin(found.loss) == 2 and str(found) in model.summary()
        model.save(tmp_path / "model.npz")
        assert str(found) in load(tmp_path / "model.npz").summary()


@pytest.mark.parametrize("groups", [{}, {"a": [3]}, {"a": [-1]}, {"a": [0, 0]}, {"a": [0], "b": [0]}, {"a": [0.5]}, {"a": []}, {"a": ["x1"]}], ids=str)
def test_groups_must_be_columns(groups):
    with pytest.raises(ValueError, match="`groups` must give each name a list of column numbers from 0 to 2"):
        MODEL.relevance(X, y, groups)
