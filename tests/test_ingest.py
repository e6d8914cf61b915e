"""An array in memory is looked at twice and copied twice on its way from the user to inference."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.estimators import base, ingest
from sparse_pep.training.initialise import SAMPLE_ROWS

N_ROWS = 5 * SAMPLE_ROWS  # so many that starting values are taken from a sample
CHECKS = [
    (ingest, "has_gaps"),
    (ingest, "require_finite"),
    (np, "isnan"),
    (np, "isfinite"),
    (np, "abs"),
    (np, "argwhere"),
    (pd, "isna"),
]
ESTIMATORS = [SparsePEPRegressor, SparsePEPClassifier]


class Reached(Exception):
    """Inference would begin now."""


@pytest.fixture
def road(monkeypatch):
    """Runs a fit up to where inference begins, and returns the peak of the memory it took."""

    def reached(*arguments):
        raise Reached

    def run(estimator, X, y):
        monkeypatch.setattr(base, "train_as_asked", reached)
        tracemalloc.start()
        with pytest.raises(Reached):
            estimator(n_inducing=5, random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    return run


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 20))
    return X, X[:, 0] > rng.normal(size=N_ROWS)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_X_is_copied_at_most_twice(road, data, estimator):
    X, y = data
    road(estimator, X[:100], y[:100])  # loads what is loaded once
    assert road(estimator, X, y) < 2.5 * X.nbytes


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_X_is_looked_through_for_bad_cells_at_most_twice(road, data, monkeypatch, estimator):
    X, y = data
    looks = []

    def counted(module, name):
        original = getattr(module, name)

        def look(values, *arguments, **options):
            if np.size(values) == X.size:
                looks.append(name)
            return original(values, *arguments, **options)

        monkeypatch.setattr(module, name, look)

    for module, name in CHECKS:
        counted(module, name)
    road(estimator, X, y)
    assert len(looks) <= 2
