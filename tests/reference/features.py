"""Inter-domain covariances from their definitions: double integrals on grids, derivatives in
50 digits.
"""

import mpmath as mp
import numpy as np

from reference.highprec import kernel as exact_kernel

mp.mp.dps = 50


def window(z, width, frequency, phase=0.0, level=0.0, nodes=41, reach=8.0):
    """A window as a sum: points (G, D) and weights (G,); the trapezoid rule, which for Gaussians
    is exact to rounding.
    """
    t, step = np.linspace(-reach, reach, nodes, retstep=True)
    table = np.stack(np.meshgrid(*[t] * len(z), indexing="ij"), axis=-1).reshape(-1, len(z))
    weights = np.prod(np.exp(-(table**2) / 2) * step / np.sqrt(2 * np.pi), axis=1)
    wave = np.cos((table * width) @ np.broadcast_to(frequency, np.shape(z)) + phase) - level
    return z + table * width, weights * wave


def point(z):
    """The window that is a function value."""
    return np.atleast_2d(z), np.ones(1)


def covariance(kernel, one, other):
    """The double integral of two windows and a kernel (any function of two tables of points)."""
    return one[1] @ kernel(one[0], other[0]) @ other[1]


def covariances(kernel, ones, others):
    """All pairs, (M, n); of a list with itself each once."""
    if ones is not others:
        return np.array([[covariance(kernel, one, other) for other in others] for one in ones])
    lower = [
        [covariance(kernel, one, other) for other in ones[: i + 1]] + [0.0] * (len(ones) - i - 1)
        for i, one in enumerate(ones)
    ]
    return np.tril(lower) + np.tril(lower, -1).T


def slope_covariance(covariance, z1, d1, z2, d2):
    """Covariance of values (d = -1) and partial derivatives: the kernel differentiated
    numerically in 50 digits.
    """

    def along(*steps):
        moved = [
            [mp.mpf(float(value)) + step * (i == d) for i, value in enumerate(z)]
            for z, d, step in zip((z1, z2), (d1, d2), steps, strict=True)
        ]
        return exact_kernel(*covariance, *moved)

    return mp.diff(along, (0, 0), (int(d1 >= 0), int(d2 >= 0)))
