"""Warnings of many fits: one of a kind for each line of the user."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from sparse_pep import LBFGS, SparsePEPRegressor

PROGRAM = """
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score
from sparse_pep import LBFGS, SparsePEPRegressor
X = np.linspace(0.0, 9.0, 60)[:, None]
model = SparsePEPRegressor(n_inducing=5, training=LBFGS(max_iter=1), random_state=0)
cross_val_score(model, X, np.sin(X[:, 0]), cv=5, n_jobs={n_jobs})
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_each_process_of_a_cross_validation_warns_once(n_jobs):
    program = PROGRAM.format(n_jobs=n_jobs)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 1 <= done.stderr.count("ConvergenceWarning") <= n_jobs


def test_all_warnings_are_there_for_who_asks_for_them():
    X = np.linspace(0.0, 9.0, 30)[:, None]
    model = SparsePEPRegressor(n_inducing=3, training=LBFGS(max_iter=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_val_score(model, X, np.sin(X[:, 0]), cv=3)
    places = [one.filename for one in caught if one.category is ConvergenceWarning]
    assert places == [__file__] * 3
