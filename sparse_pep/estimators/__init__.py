"""The estimators, with the interface of scikit-learn: a regressor, a classifier, and one for any likelihood."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparse_pep.estimators.classifier import SparsePEPClassifier
    from sparse_pep.estimators.general import SparsePEP
    from sparse_pep.estimators.persistence import load
    from sparse_pep.estimators.regressor import SparsePEPRegressor

__all__ = ["SparsePEP", "SparsePEPClassifier", "SparsePEPRegressor", "load"]
HOMES = {
    "SparsePEP": "general",
    "SparsePEPClassifier": "classifier",
    "SparsePEPRegressor": "regressor",
    "load": "persistence",
}


def __getattr__(name: str):
    """Import an estimator when it is first asked for."""
    if name in HOMES:
        return getattr(import_module(f"sparse_pep.estimators.{HOMES[name]}"), name)
    raise AttributeError(f"module 'sparse_pep.estimators' has no attribute {name!r}")
