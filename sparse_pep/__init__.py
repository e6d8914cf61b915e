"""Sparse Gaussian processes by Power Expectation Propagation, for every power from 0 (variational)
to 1 (EP).
"""

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .estimators import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
    from .training import LBFGS, Adam

__all__ = ["SparsePEPRegressor", "SparsePEPClassifier", "SparsePEP", "LBFGS", "Adam", "load"]


MODULES = frozenset("datasets features kernels likelihoods means observations plots priors".split())


def __getattr__(name: str):
    """An estimator, an optimiser, or a module of what they take, imported when it is first used,
    because loading scikit-learn takes most of a second.
    """
    if name in MODULES:
        return import_module(f"sparse_pep.{name}")
    if name in __all__:
        home = "training" if name in ("LBFGS", "Adam") else "estimators"
        return getattr(import_module(f"sparse_pep.{home}"), name)
    raise AttributeError(f"module 'sparse_pep' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What people call: the estimators, `load`, and the modules of what they take."""
    return [*__all__, *sorted(MODULES), "__doc__", "__version__"]
