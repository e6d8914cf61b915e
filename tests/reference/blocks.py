"""Power EP with blocks, by the procedure itself: delete, project, update, one block after the other.

`power` is an array (N,), the same for all data of a block; `labels` (N,) says which block each datum is in.
"""

import numpy as np

from reference.dense import log_det, projected


def members(labels):
    """The data of each block."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def mass(P, h):
    """log of the integral of exp(h'x - x'Px/2), without the constant that depends on the dimension alone."""
    return 0.5 * (h @ np.linalg.solve(P, h) - log_det(P))


def inner_ep(likelihood, y, mean, cov, power, sweeps=200):
    """log Z-tilted, mean and covariance of N(f; mean, cov) p(y|f)^power, by EP with a factor for each datum."""
    prior = np.linalg.inv(cov)
    tau, nu, parts = np.zeros(len(y)), np.zeros(len(y)), np.zeros(len(y))
    for _ in range(sweeps):
        before = tau.copy(), nu.copy()
        for n in range(len(y)):
            S = np.linalg.inv(prior + np.diag(tau))
            m = S @ (prior @ mean + nu)
            left, shift = 1 / S[n, n] - tau[n], m[n] / S[n, n] - nu[n]
            found = likelihood.tilted(y[n : n + 1], np.array([shift / left]), np.array([1 / left]), power)
            new_mean = shift / left + power * found.d1[0] / left
            new_var = 1 / left + power * found.d2[0] / left**2
            tau[n], nu[n] = 1 / new_var - left, new_mean / new_var - shift
            cavity, q = shift**2 / left - np.log(left), new_mean**2 / new_var + np.log(new_var)
            parts[n] = power * found.log_z[0] + 0.5 * (cavity - q)
        if max(np.max(np.abs(a - b)) for a, b in zip(before, (tau, nu))) < 1e-13 * (1 + np.max(np.abs(nu))):
            break
    P, h = prior + np.diag(tau), prior @ mean + nu
    S = np.linalg.inv(P)
    return mass(P, h) - mass(prior, prior @ mean) + parts.sum(), S @ h, S


def power_ep(Kuu, Kuf, Kff, y, likelihood, labels, power, sweeps=300):
    """log Z, mean and covariance of q(u), for powers above 0.

    Sites are M x M matrices and vectors of length M.
    """
    W, prior, blocks = np.linalg.solve(Kuu, Kuf), np.linalg.inv(Kuu), members(labels)
    D = Kff - projected(Kuu, Kuf)
    P, h = np.zeros((len(blocks), *Kuu.shape)), np.zeros((len(blocks), len(Kuu)))
    for _ in range(sweeps):
        before, total = h.copy(), 0.0
        for b, rows in enumerate(blocks):
            a, w = power[rows[0]], W[:, rows]
            left, left_h = prior + P.sum(0) - a * P[b], h.sum(0) - a * h[b]
            S = np.linalg.inv(left)
            mean, cov = w.T @ S @ left_h, w.T @ S @ w + D[np.ix_(rows, rows)]
            log_z, new_mean, new_cov = inner_ep(likelihood, y[rows], mean, cov, a)
            gain = S @ w @ np.linalg.inv(cov)
            q_mean, q_cov = S @ left_h + gain @ (new_mean - mean), S + gain @ (new_cov - cov) @ gain.T
            new_P = np.linalg.inv(q_cov)
            new_P = 0.5 * (new_P + new_P.T)  # else rounding grows from sweep to sweep
            P[b] += (new_P - left) - a * P[b]  # the paper's step
            h[b] += (new_P @ q_mean - left_h) - a * h[b]
            total += (log_z + mass(left, left_h) - mass(new_P, new_P @ q_mean)) / a
        if np.max(np.abs(h - before)) < 1e-11 * (1 + np.max(np.abs(h))):
            break
    whole, whole_h = prior + P.sum(0), h.sum(0)
    S = np.linalg.inv(whole)
    return total + mass(whole, whole_h) - mass(prior, np.zeros(len(prior))), S @ whole_h, S
