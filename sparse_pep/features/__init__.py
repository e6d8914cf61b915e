"""Inducing variables: points, windows, Fourier features, and mixtures of them."""

from .fourier import Fourier, StackedFeatures
from .points import Features, InducingPoints
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
