"""What the tests of refusals share: data and estimators that are fitted in no time, and the rule.

The rule: an error in one line, which names the culprit, never a traceback from the depths. Tests
sketch a message by its words: "`X` ... row 3" is one with "`X`", and after it "row 3".
"""

import re
import traceback
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sparse_pep.estimators import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential

NAN = np.nan
INF = np.inf
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (12, 2))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=12)
LABELS = np.where(X[:, 0] > 0.0, "right", "left")
COUNTS = np.round(np.exp(X[:, 0]))
Z = InducingPoints(X[:4])
SE = SquaredExponential()
TARGETS = {"regressor": y, "classifier": LABELS, "counts": COUNTS}


def changed(array, index, value, dtype=None):
    """The array with another value at one place."""
    array = np.array(array, dtype=dtype)
    array[index] = value
    return array


def estimator(kind="regressor", **arguments):
    """An estimator that is fitted in no time."""
    arguments = {"features": Z, "kernel": SE, "training": None} | arguments
    if kind == "counts":
        return SparsePEP(**{"likelihood": "poisson"} | arguments)
    return {"regressor": SparsePEPRegressor, "classifier": SparsePEPClassifier}[kind](**arguments)


@cache
def fitted(kind="regressor"):
    """One of each kind, fitted once."""
    return estimator(kind).fit(X, TARGETS[kind])


def innermost(error):
    """The package, or library, that raised the error."""
    file = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    if "site-packages" in file.parts:
        return file.parts[file.parts.index("site-packages") + 1]
    return "sparse_pep" if "sparse_pep" in file.parts else file.parent.name


def holds(message, sketch):
    """Whether the words of a sketch follow each other in a message."""
    return re.search(".*".join(map(re.escape, sketch.split(" ... "))), message) is not None


def refused(call, sketch, kind=ValueError):
    """Check that the call raises an error of this kind, in one line of this sketch, from no
    depth.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(kind) as caught:
            call()
    error = caught.value
    message = str(error)
    assert type(error) is kind or kind in (OSError, NotFittedError), repr(error)
    assert "\n" not in message, message
    assert holds(message, sketch), message
    from_files = isinstance(error, OSError)  # Python's own
    assert from_files or innermost(error) in ("sparse_pep", "sklearn"), message


def cases(table):
    """The values of a table as parameters of a test, named by its keys."""
    names = [re.sub(r" at 0x\w+", "", str(key))[:70] for key in table]
    return pytest.mark.parametrize("case", list(table.values()), ids=names)
