"""Sparse regression by Power EP in 50-digit arithmetic (mpmath), for a few data."""

import mpmath as mp
import numpy as np

mp.mp.dps = 50


def kernel(name, variance, lengthscale, x1, x2):
    """k(x1, x2) of two points."""
    r2 = mp.fsum(
        ((mp.mpf(a) - mp.mpf(b)) / mp.mpf(ell)) ** 2
        for a, b, ell in zip(x1, x2, lengthscale, strict=True)
    )
    if name == "se":
        return mp.mpf(variance) * mp.exp(-r2 / 2)
    degree = {"matern12": 1, "matern32": 3, "matern52": 5}[name]
    r = mp.sqrt(degree * r2)
    return mp.mpf(variance) * (1 + (degree > 1) * r + (degree > 3) * r**2 / 3) * mp.exp(-r)


def gram(covariance, X1, X2):
    """k(X1, X2); `covariance` is (name, variance, lengthscales)."""
    return mp.matrix([[kernel(*covariance, x1, x2) for x2 in X2] for x1 in X1])


def log_det(K):
    """log |K| of a positive definite matrix."""
    L = mp.cholesky(K)
    return 2 * mp.fsum(mp.log(L[i, i]) for i in range(K.rows))


class Regression:
    """log Z_PEP, q(u) and predictions of f, exact for the given float64 inputs, as float64
    numbers.
    """

    def __init__(self, covariance, X, y, Z, noise, power):
        self.covariance = covariance
        self.Z = Z
        power = np.broadcast_to(power, len(y))
        self.Kuu = gram(covariance, Z, Z)
        self.Kuf = gram(covariance, Z, X)
        Kff = gram(covariance, X, X)
        self.log_evidence, _ = log_evidence(
            self.Kuu, self.Kuf, Kff, y, np.full(len(y), noise), np.arange(len(y)), power
        )
        D = Kff - self.Kuf.T * self.Kuu**-1 * self.Kuf
        weighted = self.Kuf * mp.diag(
            [1 / (mp.mpf(float(a)) * D[n, n] + mp.mpf(noise)) for n, a in enumerate(power)]
        )
        self.A = self.Kuu + weighted * self.Kuf.T
        self.weights = self.A**-1 * weighted * mp.matrix(y.tolist())

    def predict_f(self, X):
        """Mean (S,) and variance (S,) of f."""
        Kus = gram(self.covariance, self.Z, X)
        lost = Kus.T * self.Kuu**-1 * Kus
        gained = Kus.T * self.A**-1 * Kus
        var = [kernel(*self.covariance, x, x) - lost[s, s] + gained[s, s] for s, x in enumerate(X)]
        return as_float(Kus.T * self.weights).ravel(), np.array([float(v) for v in var])

    def condition(self):
        """Condition number of Kuu in the 1-norm."""
        return float(mp.mnorm(self.Kuu, 1) * mp.mnorm(self.Kuu**-1, 1))


def as_float(K):
    """A matrix of mpmath as an array of float64."""
    return np.array(K.tolist(), dtype=float)


def block_noise(inside, noise, power, tight):
    """The covariance that stands for a block's noise and what the inducing points leave, and the
    penalty of the block; `inside` is that residual (n, n), `noise` a list of n variances.
    """
    own = mp.diag(noise)
    one = mp.eye(len(noise))
    root = mp.diag([1 / mp.sqrt(variance) for variance in noise])
    share = root * inside * root
    if tight:
        precision = (1 - power) * own**-1 + power * (own + inside) ** -1
        return precision**-1, log_det(one + (1 - power) * share) / 2
    if power:
        penalty = (1 - power) / (2 * power) * log_det(one + power * share)
    else:
        penalty = mp.fsum(share[i, i] for i in range(len(noise))) / 2
    return own + power * inside, penalty


def log_evidence(Kuu, Kuf, Kff, y, noise, labels, powers, tight=False):
    """log Z of Gaussian noise from covariances, noise and powers in float64, a block for each
    label, and the size of its terms.
    """
    Kuu, Kuf, K = (mp.matrix(A.tolist()) for A in (Kuu, Kuf, Kff))
    cov = Kuf.T * Kuu**-1 * Kuf
    D = K - cov
    penalty = mp.mpf(0)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label).tolist()
        inside = mp.matrix([[D[r, s] for s in rows] for r in rows])
        variances = [mp.mpf(float(noise[r])) for r in rows]
        added, part = block_noise(inside, variances, mp.mpf(float(powers[rows[0]])), tight)
        penalty += part
        for i, r in enumerate(rows):
            for j, s in enumerate(rows):
                cov[r, s] += added[i, j]
    targets = mp.matrix(y.tolist())
    fit = (targets.T * mp.cholesky_solve(cov, targets))[0]
    det = log_det(cov)
    value = -(fit + det + len(y) * mp.log(2 * mp.pi)) / 2 - penalty
    return float(value), float(fit + abs(det) + abs(penalty))
