"""Power EP with blocks, by N x N matrices and by the procedure itself: delete, project, update, one block after the other.

`power` is an array (N,), the same for all data of a block; `labels` (N,) says which block each datum is in.
"""

import numpy as np

from reference.dense import kernel, log_det, log_normal, projected


def members(labels):
    """The data of each block."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def log_evidence(Kuu, Kuf, Kff, y, noise, labels, power):
    """log Z_PEP of section 3.6, with the sign of the correction set right."""
    Q = projected(Kuu, Kuf)
    cov, correction = Q + noise * np.eye(len(y)), 0.0
    for rows in members(labels):
        inside = np.ix_(rows, rows)
        D, a = (Kff - Q)[inside], power[rows[0]]
        cov[inside] = cov[inside] + a * D
        correction = correction + 0.5 * (1 - a) * log_det_over(D / noise, a)
    return log_normal(y, cov) - correction


def log_det_over(S, power):
    """log|I + αS|/α; by its series where α is so small that the determinant would lose digits."""
    if power * np.abs(S).sum() > 1e-3:
        return log_det(np.eye(len(S)) + power * S) / power
    return sum((-power) ** k / (k + 1) * np.trace(np.linalg.matrix_power(S, k + 1)) for k in range(6))


def posterior(Kuu, Kuf, Kff, y, noise, labels, power):
    """Mean and covariance of q(u)."""
    Q = projected(Kuu, Kuf)
    root = np.sqrt(power)
    together = labels[:, None] == labels
    cov = Q + together * (root[:, None] * (Kff - Q) * root) + noise * np.eye(len(y))
    return Kuf @ np.linalg.solve(cov, y), Kuu - Kuf @ np.linalg.solve(cov, Kuf.T)


def model_log_evidence(name, parameters, X, y, labels, power):
    """`log_evidence` of a stationary kernel with inducing points, from the package's own dictionary of parameters."""
    Z = parameters["features.Z"]
    covariance = (name, np.exp(parameters["kernel.log_variance"]), np.exp(parameters["kernel.log_lengthscale"]))
    noise = np.exp(parameters["log_noise_variance"])
    matrices = (kernel(*covariance, A, B) for A, B in ((Z, Z), (Z, X), (X, X)))
    return log_evidence(*matrices, y, noise, labels, power)


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


def grid(n_sides, step=0.1):
    """Points (n_sides, n) and log weights (n,) for a standard normal."""
    side = np.arange(-9.0, 9.0 + step / 2, step)
    points = np.stack([one.ravel() for one in np.meshgrid(*[side] * n_sides)])
    return points, -0.5 * (points**2).sum(0) + n_sides * np.log(step / np.sqrt(2 * np.pi))


def by_grid(likelihood, y, mean, cov, power):
    """The same by quadrature over all dimensions; for blocks of two."""
    points, log_weight = grid(len(y))
    f = mean[:, None] + np.linalg.cholesky(cov) @ points
    log_mass = log_weight + power * likelihood.log_density(y[:, None], f)[0].sum(0)
    total = np.exp(log_mass).sum()
    weight = np.exp(log_mass) / total
    m = f @ weight
    return np.log(total), m, (f - m[:, None]) * weight @ (f - m[:, None]).T


def power_ep(Kuu, Kuf, Kff, y, likelihood, labels, power, tilted=inner_ep, sweeps=300):
    """log Z, mean and covariance of q(u), for powers above 0.

    Sites are M x M matrices and vectors of length M; `tilted` gives log Z-tilted and the moments of the tilted density.
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
            log_z, new_mean, new_cov = tilted(likelihood, y[rows], mean, cov, a)
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
