"""Iterated EP, Power EP and variational inference by dense matrices and brute-force integrals; slow and obvious.

`log_p(f, y)` is the log likelihood, of f (N, nodes) and y (N, 1); an argument `power` is a number or one a datum.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from . import dense


class Fit(NamedTuple):
    """A fixed point: log Z, sites (N,), q (of u, or of f where there is no u) and the sweeps that it took."""

    log_evidence: float
    site_precision: np.ndarray
    site_shift: np.ndarray
    q_mean: np.ndarray
    q_cov: np.ndarray
    n_sweeps: int


def probit(f, y):
    """log Phi(y f) of labels -1 and +1."""
    return log_ndtr(y * f)


def ep_site(label, mean, var, tau, nu):
    """New tau and nu of a probit site from the marginal under q, and log c: c exp(nu f - tau f^2/2) is the site."""
    s = 1 / (1 / var - tau)
    m = s * (mean / var - nu)
    z = label * m / np.sqrt(1 + s)
    ratio = np.exp(norm.logpdf(z) - log_ndtr(z))
    new_mean = m + label * s * ratio / np.sqrt(1 + s)
    new_var = s - s**2 * ratio * (z + ratio) / (1 + s)
    tau, nu = 1 / new_var - 1 / s, new_mean / new_var - m / s
    spread = 1 + tau * s
    cavity_of_gaussian = (s * nu**2 + 2 * m * nu - tau * m**2) / (2 * spread) - np.log(spread) / 2
    return tau, nu, log_ndtr(z) - cavity_of_gaussian


def ep_classification(K, y, sweeps=500, tolerance=1e-13):
    """EP for a GP with probit likelihood (Rasmussen and Williams, section 3.6), one site after the other; q is of f."""
    tau, nu, log_c = np.zeros((3, len(y)))
    n_sweeps, change = 0, np.inf
    while n_sweeps < sweeps and change > tolerance:
        before = np.append(tau, nu)
        for n, label in enumerate(y):
            cov = np.linalg.solve(np.eye(len(y)) + K * tau, K)
            tau[n], nu[n], log_c[n] = ep_site(label, cov[n] @ nu, cov[n, n], tau[n], nu[n])
        n_sweeps, change = n_sweeps + 1, np.max(np.abs(np.append(tau, nu) - before))
    B = np.eye(len(y)) + K * tau
    cov = np.linalg.solve(B, K)
    return Fit(log_c.sum() + nu @ cov @ nu / 2 - dense.log_det(B) / 2, tau, nu, cov @ nu, cov, n_sweeps)


def tilted(log_p, y, mean, var, power):
    """z, d1 and d2 of each datum by a trapezoid rule; no derivative of log_p is needed (integration by parts).

    Exact to rounding while the tilted mass is within 13 deviations of the cavity and bends on a scale of 0.1 or more.
    """
    step = min(1 / 6, 0.05 / np.sqrt(np.max(var)))
    t = np.arange(-13, 13 + step, step)
    weights = norm.pdf(t) * step
    log_density = log_p(mean[:, None] + np.sqrt(var)[:, None] * t, y[:, None])
    power = np.broadcast_to(power, mean.shape)
    a = np.where(power == 0, 1, power)[:, None]  # stands for any number where there is none to divide by
    level = np.where(power == 0, log_density @ weights, logsumexp(a * log_density, b=weights, axis=1) / a[:, 0])
    gain = log_density - level[:, None]  # E[exp(power gain)] is 1 but for rounding: no cancellation in what follows
    excess = np.where(power[:, None] == 0, gain, np.expm1(power[:, None] * gain) / a)
    e0, e1, e2 = excess @ weights, excess @ (weights * t) / np.sqrt(var), excess @ (weights * (t**2 - 1)) / var
    total = 1 + power * e0
    d1 = e1 / total
    return level + e0, d1, e2 / total - power * d1**2


def whiten(Kuu, Kuf, kff):
    """Luu, V and dff."""
    L = np.linalg.cholesky(Kuu)
    V = np.linalg.solve(L, Kuf)
    return L, V, kff - np.sum(V**2, axis=0)


def variational_optimum(log_p, y, Kuu, Kuf, kff):
    """The largest sum_n E_q[log p(y_n|f_n)] - KL(q(u) || p(u)), found by BFGS: the bound, q's mean and covariance."""
    L, V, dff = whiten(Kuu, Kuf, kff)
    M = len(L)
    lower = np.tril_indices(M)

    def unpack(x):
        C = np.zeros((M, M))
        C[lower] = x[M:]
        return x[:M], C

    def minus_bound(x):
        m, C = unpack(x)
        z, d1, d2 = tilted(log_p, y, V.T @ m, dff + np.sum((C.T @ V) ** 2, axis=0), 0.0)
        diagonal = np.diag(C)
        kl = (np.sum(C**2) + m @ m - M) / 2 - np.sum(np.log(np.abs(diagonal)))
        # d/dvar of an expectation is half its second derivative in the mean
        C_bar = V * d2 @ V.T @ C - C + np.diag(1 / diagonal)
        return kl - z.sum(), -np.append(V @ d1 - m, C_bar[lower])

    start = np.append(np.zeros(M), np.eye(M)[lower])
    result = minimize(minus_bound, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    m, C = unpack(result.x)
    return -result.fun, L @ m, L @ C @ C.T @ L.T
