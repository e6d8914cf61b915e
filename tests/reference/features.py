"""Inter-domain covariances from their definitions: double integrals on grids, derivatives and
inner products in 50 digits.
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


class MaternSpace:
    """The Hilbert space of a Matérn kernel of order p - 1/2 on [a, b], by quadrature.

    The inner product is written with the operator (d/dx + rate)^p and the covariance of the state
    at a, which is taken from the derivatives of the kernel, as is the strength of the noise (from p
    = 1, 2, 3 by the kernel at 0).
    """

    def __init__(self, p, variance, lengthscale, a, b):
        self.p = p
        self.a = mp.mpf(a)
        self.b = mp.mpf(b)
        self.variance = mp.mpf(variance)
        self.rate = mp.sqrt(2 * p - 1) / mp.mpf(lengthscale)
        self.noise = {1: 2, 2: 4, 3: mp.mpf(16) / 3}[p] * self.rate ** (2 * p - 1) * self.variance
        # cov(f^(i), f^(j)) = (-1)^j k^(i+j)(0), from the series of k on the right of 0; odd ones
        # vanish up to order 2p - 2
        series = [
            mp.diff(self.correlation, 0, n, direction=1) if n % 2 == 0 else 0
            for n in range(2 * p - 1)
        ]
        self.state = mp.matrix(p, p)
        for i in range(p):
            for j in range(p):
                self.state[i, j] = self.variance * (-1) ** j * series[i + j]

    def correlation(self, r):
        x = self.rate * r
        return (1 + (self.p > 1) * x + (self.p > 2) * x**2 / 3) * mp.exp(-x)

    def section(self, x):
        """k(x, .) as a function with all its derivatives, by cases of the sign."""

        def value(t, order=0):
            side = 1 if t >= x else -1
            return self.variance * side**order * mp.diff(self.correlation, side * (t - x), order)

        return value

    def inner(self, g, h, kinks=()):
        """<g, h> of functions given as f(t, order)."""

        def applied(f, t):
            return mp.fsum(
                mp.binomial(self.p, j) * self.rate ** (self.p - j) * f(t, j)
                for j in range(self.p + 1)
            )

        ends = sorted({self.a, self.b, *(mp.mpf(x) for x in kinks if self.a < x < self.b)})
        integral = mp.quad(lambda t: applied(g, t) * applied(h, t), ends)
        states = [mp.matrix([f(self.a, j) for j in range(self.p)]) for f in (g, h)]
        return integral / self.noise + (states[0].T * mp.lu_solve(self.state, states[1]))[0]


def wave(omega, quarter, a):
    """cos(omega (t - a)), or sin where `quarter` is 1, with its derivatives."""

    def value(t, order=0):
        return mp.mpf(omega) ** order * mp.cos(
            mp.mpf(omega) * (t - mp.mpf(a)) + (order - quarter) * mp.pi / 2
        )

    return value
