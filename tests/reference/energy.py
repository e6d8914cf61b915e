"""log Z of Power EP as one dense formula in all its sites, which at a fixed point does not
change with any of them.
"""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from sparse_pep.likelihoods import Gaussian

from . import multiclass


def gaussian(mean, cov, T, nu, power):
    """G = log E[exp(a (nu'f - f'Tf/2))] / a for f ~ N(mean, cov), also at power a = 0, and mean
    and covariance of the density under it.
    """
    R = np.linalg.inv(np.eye(len(mean)) + power * cov @ T)
    grown = np.linalg.eigvals(cov @ T).real
    log_det = np.sum(np.log1p(power * grown) / power if power else grown)
    value = 0.5 * (2 * nu @ R @ mean - mean @ T @ R @ mean + power * nu @ R @ cov @ nu - log_det)
    return value, R @ (mean + power * cov @ nu), R @ cov


def log_evidence(z, V, D, blocks, powers, weights, outer, inner):
    """log Z, and the largest variance in each block under q, of w_b'u (at least a millionth of that
    of f), by latent function.

    Sites enter with G, and are deleted with the same G at -T and -nu. z(rows, mean, var, power) is
    log E[p^power] / power for each row, with mean and var (C, n); V is (C, M, N) and D (C, N, N).
    `outer` holds T (n, n) and nu (n,) by latent function and block, `inner` tau and nu (2, C, N) of
    single data.
    """
    total = 0.0
    q = []
    units = np.empty((len(V), len(blocks)))
    for c, V_c in enumerate(V):
        P = sum(
            w * V_c[:, rows] @ T @ V_c[:, rows].T
            for rows, w, (T, _) in zip(blocks, weights, outer[c], strict=True)
        )
        h = sum(
            w * V_c[:, rows] @ nu
            for rows, w, (_, nu) in zip(blocks, weights, outer[c], strict=True)
        )
        value, *moments = gaussian(np.zeros(len(h)), np.eye(len(h)), P, h, 1.0)
        total = total + value
        _ = q.append(moments)
    for b, (rows, a, w) in enumerate(zip(blocks, powers, weights, strict=True)):
        part = 0.0
        cavities = np.empty((2, len(V), len(rows)))
        for c, (m, S) in enumerate(q):
            W = V[c][:, rows]
            (T, nu) = outer[c][b]
            (tau, shift) = inner[:, c, rows]
            inside = D[c][np.ix_(rows, rows)]
            units[c, b] = np.max(np.diag(W.T @ S @ W + 1e-6 * inside))
            gone, mean, cov = gaussian(W.T @ m, W.T @ S @ W, -T, -nu, a)
            held, mean, cov = gaussian(mean, cov + inside, np.diag(tau), shift, a)
            each = [
                gaussian(mean[[i]], cov[[i]][:, [i]], -tau[[i]][:, None], -shift[[i]], a)
                for i in range(len(rows))
            ]
            part += gone + held + sum(one[0] for one in each)
            cavities[:, c] = np.array([[one[1][0], one[2][0, 0]] for one in each]).T
        total += w * (part + np.sum(z(rows, *cavities, a)))
    return total, units


def outer_sites(D, tau, nu, blocks, powers):
    """The sites of blocks that follow from those of single data: D is (C, N, N), tau and nu (C,
    N).
    """
    each = []
    for c in range(len(D)):
        R = [
            np.linalg.inv(np.eye(len(rows)) + a * tau[c, rows, None] * D[c][np.ix_(rows, rows)])
            for rows, a in zip(blocks, powers, strict=True)
        ]
        each.append(
            [(R_b * tau[c, rows], R_b @ nu[c, rows]) for R_b, rows in zip(R, blocks, strict=True)]
        )
    return each


def slope(log_z, outer, inner, units, variance, rng, enough):
    """The derivative of log_z(outer, inner) when all sites move at once, at random, in `units` and
    in that of the variance of f.

    Of three steps the one that finds the smallest: a long one has the error of its length, a short
    one that of rounding. Where log z bends strongly, it is the distance from the fixed point that
    counts: the slope over a hundredth of the second derivative.
    """
    moves = [
        [
            (rng.normal(size=T.shape) / unit, rng.normal(size=len(T)) / np.sqrt(unit))
            for (T, _), unit in zip(*pair, strict=True)
        ]
        for pair in zip(outer, units, strict=True)
    ]
    d_inner = rng.normal(size=inner.shape) / np.reshape([variance, np.sqrt(variance)], (2, 1, 1))
    found = np.inf

    def at(x):
        moved = [
            [(T + x * (dT + dT.T), nu + x * dnu) for (T, nu), (dT, dnu) in zip(*pair, strict=True)]
            for pair in zip(outer, moves, strict=True)
        ]
        return log_z(moved, inner + x * d_inner)

    here = at(0.0)
    for h in (1e-4, 1e-5, 1e-3):
        if not abs(found) <= enough:
            left2, left, right, right2 = (at(x * h) for x in (-2, -1, 1, 2))
            bend = (left + right - 2 * here) / h**2
            found = min(
                found,
                (8 * (right - left) - right2 + left2) / (12 * h) / max(1.0, 0.01 * abs(bend)),
                key=abs,
            )
    return found


def one_dimensional(log_p, mean, var, power, width):
    """log E[p^power] / power of each datum, f ~ N(mean, var), by a trapezoid rule that resolves
    `width`; log_p(f) for f (N, nodes).
    """
    h = min(1 / 6, 0.05 * width / np.sqrt(np.max(var)))
    t = np.arange(-30.0, 30.0 + h, h)  # data far from the cavity, and steep log p, move the mass
    weights = norm.pdf(t) * h
    ell = log_p(mean[:, None] + np.sqrt(var)[:, None] * t)
    if not power:
        return ell @ weights
    level = logsumexp(power * ell, b=weights, axis=1) / power
    return level + np.log1p(np.expm1(power * (ell - level[:, None])) @ weights) / power


def of_gaussian(rest, var, noise, power):
    """log E[N(rest; f, noise)^power] / power for f ~ N(0, var)."""
    grown = np.log1p(power * var / noise) / power if power else var / noise
    return -0.5 * (np.log(2 * np.pi * noise) + rest**2 / (noise + power * var) + grown)


def level(likelihood, y, mean, var, power):
    """log E[p(y|f)^power] / power of each datum, by fine quadrature over log p where it is not
    Gaussian; mean and var are (C, n).
    """
    if type(likelihood) is Gaussian:
        return of_gaussian(y - mean[0], var[0], likelihood.noise_variance, power)
    if hasattr(likelihood, "n_classes"):
        each = (
            multiclass.tilted(
                multiclass.softmax_log_density, int(y[n]), mean[:, n], var[:, n], power
            )[0]
            for n in range(len(y))
        )
        return np.array(list(each))
    if likelihood.n_latent == 1:
        return one_dimensional(
            lambda f: likelihood.log_density(y[:, None], f)[0],
            mean[0],
            var[0],
            power,
            likelihood.width,
        )

    def at_g(g):  # noise whose logarithm is the second function: the integral over f in closed form
        v = likelihood.base_variance * np.exp(likelihood.gain * g)
        return of_gaussian((y - mean[0])[:, None], var[0][:, None], v, power)

    return one_dimensional(at_g, mean[1], var[1], power, 0.6 / likelihood.gain)


def at_fit(likelihood, y, offset, fit, Kuu, Kuf, Kff, blocks, powers, weights, groups):
    """log Z at the sites of a fit, as a function of a factor of the scale of the conditional; its
    slope when all sites move at once, given a generator and what is small enough. `offset` (C, N)
    is the mean of f, `blocks` the rows of each block, `groups` (N,) their likelihoods.
    """
    C = likelihood.n_latent
    sites = np.stack([fit.site_precision, fit.site_shift])
    V = np.linalg.solve(np.linalg.cholesky(Kuu), Kuf)
    D = Kff - V.T @ V
    total = np.dot(weights, [len(rows) for rows in blocks])
    np.fill_diagonal(D, np.maximum(np.diag(D), 0.0))

    def z(rows, mean, var, a):
        found = np.empty(len(rows))
        for k in np.unique(groups[rows]):
            own = groups[rows] == k
            found[own] = level(
                likelihood.part(int(k)),
                y[rows[own]],
                offset[:, rows[own]] + mean[:, own],
                var[:, own],
                a,
            )
        return found

    def log_z(outer, inner, v=1.0):
        scale = fit.scale * v
        excess = 0.5 * total * np.sum(scale - 1.0 - np.log(scale))
        return (
            log_evidence(z, [V] * C, scale[:, :, None] * D, blocks, powers, weights, outer, inner)[
                0
            ]
            - excess
        )

    # of w'u, as those of blocks of one are; what is inside of such a block cancels
    if fit.own_sites:
        outer = [
            [(t[None, None], n[None]) for t, n in zip(*own, strict=True)]
            for own in zip(*sites, strict=True)
        ]
        inner = np.zeros(sites.shape)
    else:
        outer = outer_sites([D] * C, *sites, blocks, powers)
        inner = sites
    units = log_evidence(z, [V] * C, [D] * C, blocks, powers, weights, outer, inner)[1]
    return lambda v=1.0: log_z(outer, inner, v), lambda rng, enough: slope(
        log_z, outer, inner, units, np.max(Kff), rng, enough
    )
