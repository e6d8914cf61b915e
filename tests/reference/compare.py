"""How far two results are apart, and settings that all property tests share."""

import numpy as np
from hypothesis import HealthCheck, settings

# The same examples in every run: a red test must be red again.
properties = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def error(got, expected, scale=None):
    """Largest difference, relative to the largest entry of `expected` (or to `scale`)."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    assert np.all(np.isfinite(got)), "not finite"
    scale = np.max(np.abs(expected), initial=0.0) if scale is None else scale
    largest = np.max(np.abs(got - expected), initial=0.0)
    return largest / scale if largest else 0.0


def gradient_error(got, expected):
    """Largest `error` over a dictionary of gradients; entries far below the largest of all are judged by that one."""
    assert set(got) == set(expected)
    largest = max(np.max(np.abs(value)) for value in expected.values())
    return max(error(got[key], expected[key], max(np.max(np.abs(expected[key])), 1e-6 * largest)) for key in expected)


def differences(f, x, step=1e-4):
    """The gradient of f by central differences with one extrapolation, error of order step^4."""
    x, gradient = np.asarray(x, dtype=float), np.empty(np.shape(x))

    def slope(index, h):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * h
            ends.append(f(moved))
        return (ends[0] - ends[1]) / (2 * h)

    for index in np.ndindex(gradient.shape):
        gradient[index] = (4 * slope(index, step) - slope(index, 2 * step)) / 3
    return gradient
