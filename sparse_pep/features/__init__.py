"""Inducing variables: points, windows, Fourier features, and several kinds in one set."""

from .fourier import Fourier
from .points import Features, InducingPoints
from .stacked import StackedFeatures
from .windows import Derivative, GaussianBlur, Wavelet

__all__ = [
    "Derivative",
    "Features",
    "Fourier",
    "GaussianBlur",
    "InducingPoints",
    "StackedFeatures",
    "Wavelet",
]
