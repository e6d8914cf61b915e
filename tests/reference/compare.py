"""How far two results are apart, and settings that all property tests share."""

import numpy as np
from hypothesis import HealthCheck, settings

# The same examples in every run: a red test must be red again.
properties = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def error(got, expected, scale=None):
    """Largest difference, relative to the largest entry of `expected` (or to `scale`)."""
    got = np.asarray(got, dtype=float)
    expected = np.asarray(expected, dtype=float)
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    assert np.all(np.isfinite(got)), "not finite"
    scale = np.max(np.abs(expected), initial=0.0) if scale is None else scale
    largest = np.max(np.abs(got - expected), initial=0.0)
    return largest / scale if largest else 0.0


def gradient_error(got, expected):
    """Largest `error` over a dictionary of gradients; entries far below the largest of all are
    judged by that one.
    """
    assert set(got) == set(expected)
    largest = max(np.max(np.abs(value)) for value in expected.values())
    return max(
        error(got[key], expected[key], max(np.max(np.abs(expected[key])), 1e-6 * largest))
        for key in expected
    )


def slope(f, x, direction, step=1e-4):
    """The slope of f along `direction` by central differences with one extrapolation, error of
    order step^4.
    """
    x = np.asarray(x, dtype=float)
    near, far = ((f(x + h * direction) - f(x - h * direction)) / (2 * h) for h in (step, 2 * step))
    return (4 * near - far) / 3


def differences(f, x, step=1e-4):
    """The gradient of f, entry by entry."""
    gradient = np.empty(np.shape(x))
    for index in np.ndindex(gradient.shape):
        unit = np.zeros(gradient.shape)
        unit[index] = 1.0
        gradient[index] = slope(f, x, unit, step)
    return gradient


def slopes(f, parameters, gradient, step=1e-4):
    """For each parameter the slope of f along a random direction: from `gradient`, and by
    differences.

    A wrong entry of the gradient shows in the slope with probability one. The directions have no
    component near zero, and there is one for each parameter, so that none hides behind a larger
    one.
    """
    assert gradient.keys() == parameters.keys()
    rng = np.random.default_rng(0)
    claimed = {}
    found = {}
    for name, value in parameters.items():
        direction = rng.choice([-1.0, 1.0], np.shape(value)) * rng.uniform(
            0.5, 1.5, np.shape(value)
        )
        claimed[name] = np.vdot(direction, gradient[name])
        found[name] = slope(
            lambda at, name=name: f({**parameters, name: at}), value, direction, step
        )
    return claimed, found
