"""Methods of the literature from their own definitions, by dense matrices: what Power EP must
equal at its corners.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import norm

from . import dense


class Covariances(NamedTuple):
    """Of inducing variables u, data f and test values s, under the true prior."""

    uu: np.ndarray
    uf: np.ndarray
    ff: np.ndarray
    us: np.ndarray
    fs: np.ndarray
    ss: np.ndarray

    def Q(self, left, right):
        """K_au Kuu^-1 K_ub, for `left`, `right` of "f" and "s"."""
        return getattr(self, "u" + left).T @ np.linalg.solve(self.uu, getattr(self, "u" + right))

    def within(self, blocks):
        """The covariance of the data that is right within each block, and else Q."""
        return np.where(blocks[:, None] == blocks, self.ff, self.Q("f", "f"))


class Result(NamedTuple):
    """Mean and covariance at the test inputs, and the log of the evidence, as the method itself
    defines them.
    """

    mean: np.ndarray
    cov: np.ndarray
    log_evidence: float


def conditioned(ff, fs, ss, y, noise):
    """Exact regression under the prior covariance of data and test values that a method puts in
    the place of the true one.
    """
    noisy = ff + noise * np.eye(len(y))
    gain = np.linalg.solve(noisy, fs).T
    return Result(gain @ y, ss - gain @ fs, dense.log_normal(y, noisy))


def pseudo_inputs(K, y, noise):
    """Exact regression of u on y = W u + noise, in which each datum has its own noise, and of
    the function on u.
    """
    W = np.linalg.solve(K.uu, K.uf).T
    own = np.diag(np.diag(K.ff - W @ K.uf) + noise)
    S = np.linalg.inv(np.linalg.inv(K.uu) + W.T @ np.linalg.solve(own, W))
    return Result(
        *dense.predict(K.uu, K.us, K.ss, S @ W.T @ np.linalg.solve(own, y), S),
        dense.log_normal(y, W @ K.uu @ W.T + own),
    )


def titsias(K, y, noise):
    """The posterior of DTC, and the collapsed bound."""
    posterior = conditioned(K.Q("f", "f"), K.Q("f", "s"), K.ss, y, noise)
    return posterior._replace(log_evidence=dense.titsias_bound(K.uu, K.uf, np.diag(K.ff), y, noise))


def probit(f, y):
    """log Phi(y f) of labels -1 and +1."""
    return log_ndtr(y * f)


def variational_optimum(log_p, y, Kuu, Kuf, kff):
    """The largest sum_n E_q[log p(y_n|f_n)] - KL(q(u) || p(u)), found by BFGS: the bound, q's mean
    and covariance.

    Expectations of `log_p(f, y)`, f (N, nodes) and y (N, 1), and their derivatives (by parts) are
    those of a trapezoid rule.
    """
    L = np.linalg.cholesky(Kuu)
    V = np.linalg.solve(L, Kuf)
    M = len(L)
    lower = np.tril_indices(len(L))

    def minus_bound(x):
        m = x[:M]
        C = np.zeros((M, M))
        C[lower] = x[M:]
        sd = np.sqrt(kff - np.sum(V**2, axis=0) + np.sum((C.T @ V) ** 2, axis=0))
        step = min(1 / 6, 0.05 / np.max(sd))
        t = np.arange(-13, 13 + step, step)
        weights = norm.pdf(t) * step
        values = log_p((V.T @ m)[:, None] + sd[:, None] * t, y[:, None])
        z = values @ weights
        d1 = values @ (weights * t) / sd
        d2 = values @ (weights * (t**2 - 1)) / sd**2
        kl = (np.sum(C**2) + m @ m - M) / 2 - np.sum(np.log(np.abs(np.diag(C))))
        # d/dvar of an expectation is half its second derivative in the mean
        C_bar = V * d2 @ V.T @ C - C + np.diag(1 / np.diag(C))
        return kl - z.sum(), -np.append(V @ d1 - m, C_bar[lower])

    start = np.append(np.zeros(M), np.eye(M)[lower])
    found = minimize(
        minus_bound, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000}
    )
    C = np.zeros((M, M))
    C[lower] = found.x[M:]
    return -found.fun, L @ found.x[:M], L @ C @ C.T @ L.T


def uncollapsed(K, y, log_p):
    """The prediction at that optimum."""
    bound, m, S = variational_optimum(log_p, y, K.uu, K.uf, np.diag(K.ff))
    return Result(*dense.predict(K.uu, K.us, K.ss, m, S), bound)


class OnlineProcess:
    """A process with mean k'a and covariance k(x,x') + k' C k', which absorbs sites on w'u."""

    def __init__(self, K):
        self.K = K
        self.W = np.linalg.solve(K.uu, K.uf)
        self.a = np.zeros(len(K.uu))
        self.C = np.zeros(K.uu.shape)

    def moments(self, n):
        """Mean and variance of w'u of a datum, and what the variance of f has beyond it."""
        k = self.K.uf[:, n]
        prior = self.W[:, n] @ k
        return k @ self.a, prior + k @ self.C @ k, self.K.ff[n, n] - prior

    def absorb(self, n, tau, nu):
        """Multiply by a site on w'u of a datum."""
        mean, var, _ = self.moments(n)
        s = self.C @ self.K.uf[:, n] + self.W[:, n]
        self.a = self.a + s * (nu - tau * mean) / (1 + tau * var)
        self.C = self.C - tau / (1 + tau * var) * np.outer(s, s)


def sparse_ep(K, y, slopes, sweeps=200):
    """Csató and Opper's recursion, iterated: each datum is taken out before it is put in again.

    `slopes(y, mean, var)` are log E[p(y|f)] and its first two derivatives in the mean. What a datum
    has put in is a site on w'u; taking it out is putting it in with the opposite signs. log Z is
    the integral of prior times sites, each site scaled so that the tilted mass is right.
    """
    process = OnlineProcess(K)
    tau, nu, log_c = np.zeros((3, len(y)))
    for _ in range(sweeps):
        for n in range(len(y)):
            process.absorb(n, -tau[n], -nu[n])
            mean, var, excess = process.moments(n)
            log_z, q, r = slopes(y[n], mean, var + excess)
            tau[n] = -r / (1 + r * var)
            nu[n] = (q - r * mean) / (1 + r * var)
            cavity = 0.5 * mean**2 / var - 0.5 * (mean / var + nu[n]) ** 2 / (1 / var + tau[n])
            log_c[n] = log_z + 0.5 * np.log1p(tau[n] * var) + cavity
            process.absorb(n, tau[n], nu[n])
    W = process.W
    S = np.linalg.inv(np.linalg.inv(K.uu) + W * tau @ W.T)
    integral = 0.5 * (nu @ W.T @ S @ W @ nu + dense.log_det(S) - dense.log_det(K.uu))
    cov = K.ss + K.us.T @ process.C @ K.us
    return Result(K.us.T @ process.a, cov, integral + log_c.sum())


def ep(K, y, prior, cross):
    """EP for labels under the covariance `prior` of the data, and `cross` of data and test
    values: `sparse_ep` with u = f.
    """
    return sparse_ep(K._replace(uu=prior, uf=prior, ff=prior, us=cross), y, probit_slopes)


def gaussian_slopes(noise):
    """Those of `sparse_ep` for y = f + noise."""
    return lambda y, mean, var: (
        norm.logpdf(y, mean, np.sqrt(var + noise)),
        (y - mean) / (var + noise),
        -1 / (var + noise),
    )


def probit_slopes(y, mean, var):
    """Those of `sparse_ep` for labels."""
    z = y * mean / np.sqrt(1 + var)
    ratio = np.exp(norm.logpdf(z) - log_ndtr(z))
    return log_ndtr(z), y * ratio / np.sqrt(1 + var), -ratio * (z + ratio) / (1 + var)
