"""Sparse Gaussian processes by Power Expectation Propagation, for every power from 0 (variational) to 1 (EP)."""

__version__ = "0.1.0"

from sparse_pep.estimators import SparsePEPRegressor, load

__all__ = ["SparsePEPRegressor", "load"]
