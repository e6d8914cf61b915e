"""log Z of Power EP as one dense formula in all its sites, which at a fixed point does not
change with any of them.
"""

from dataclasses import dataclass
from functools import partial

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


def posterior(V, outer, blocks, weights):
    """G of the prior and the sites of a latent function, and mean and covariance of q(v)."""
    P = np.zeros((len(V), len(V)))
    h = np.zeros(len(V))
    for rows, weight, (T, nu) in zip(blocks, weights, outer, strict=True):
        P += weight * V[:, rows] @ T @ V[:, rows].T
        h += weight * V[:, rows] @ nu
    return gaussian(np.zeros(len(h)), np.eye(len(h)), P, h, 1.0)


def cavities(mean, cov, inside, outer, inner, power):
    """G of what is deleted from a block and put in its place, and mean (n,) and variance (n,) of f
    without the sites of single data; `mean` and `cov` are those of w_b'u under q.
    """
    T, nu = outer
    deleted, mean, cov = gaussian(mean, cov, -T, -nu, power)
    tau, shift = inner
    added, mean, cov = gaussian(mean, cov + inside, np.diag(tau), shift, power)
    total = deleted + added
    moments = np.empty((2, len(tau)))
    for n in range(len(tau)):
        row = [n]
        value, m, v = gaussian(
            mean[row], cov[np.ix_(row, row)], -np.diag(tau[row]), -shift[row], power
        )
        total += value
        moments[:, n] = m[0], v[0, 0]
    return total, moments


def log_evidence(z, V, D, blocks, powers, weights, outer, inner):
    """log Z, and the largest variance in each block under q, of w_b'u (at least a millionth of that
    of f), by latent function.

    Sites enter with G, and are deleted with the same G at -T and -nu. z(rows, mean, var, power) is
    log E[p^power] / power for each row, with mean and var (C, n); V is (C, M, N) and D (C, N, N).
    `outer` holds T (n, n) and nu (n,) by latent function and block, `inner` tau and nu (2, C, N) of
    single data.
    """
    total = 0.0
    moments = np.empty((2, *inner.shape[1:]))
    units = np.empty((len(V), len(blocks)))
    for c, V_c in enumerate(V):
        value, m, S = posterior(V_c, outer[c], blocks, weights)
        total += value
        for b, (rows, power, weight) in enumerate(zip(blocks, powers, weights, strict=True)):
            W = V_c[:, rows]
            cov = W.T @ S @ W
            inside = D[c][np.ix_(rows, rows)]
            units[c, b] = np.max(np.diag(cov + 1e-6 * inside))
            value, moments[:, c, rows] = cavities(
                W.T @ m, cov, inside, outer[c][b], inner[:, c, rows], power
            )
            total += weight * value
    for rows, power, weight in zip(blocks, powers, weights, strict=True):
        total += weight * np.sum(z(rows, *moments[:, :, rows], power))
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


@dataclass(frozen=True)
class Data:
    """Targets, the mean of f (C, N), the number of each row's likelihood (N,), and the rows,
    powers and weights of the blocks.
    """

    y: np.ndarray
    offset: np.ndarray
    groups: np.ndarray
    blocks: list
    powers: list
    weights: list

    def levels(self, likelihood, rows, mean, var, power):
        """log E[p^power] / power for each of some rows, mean and var (C, n)."""
        levels = np.empty(len(rows))
        for number in np.unique(self.groups[rows]):
            same = self.groups[rows] == number
            offset = self.offset[:, rows[same]] + mean[:, same]
            part = likelihood.part(int(number))
            levels[same] = level(part, self.y[rows[same]], offset, var[:, same], power)
        return levels


def coupled_log_evidence(data, V, D, T, nu):
    """log Z of classes with joint sites T (N, C, C) and nu (N, C), and the largest variance of each
    row under q, from V (M, N) and D (N,). The functions of the classes are those of the prior, so
    that their covariance under q is (C M, C M).
    """
    C = len(data.offset)
    M, N = V.shape
    eye = np.eye(C)
    weighted = [(w, n) for w, rows in zip(data.weights, data.blocks, strict=True) for n in rows]
    P = sum(w * np.kron(T[n], np.outer(V[:, n], V[:, n])) for w, n in weighted)
    h = sum(w * np.kron(nu[n], V[:, n]) for w, n in weighted)
    total, m, S = gaussian(np.zeros(C * M), np.eye(C * M), P, h, 1.0)
    units = np.empty(N)
    for rows, power, weight in zip(data.blocks, data.powers, data.weights, strict=True):
        for n in rows:
            W = np.kron(eye, V[:, n : n + 1])
            cov = W.T @ S @ W
            units[n] = np.max(np.diag(cov))
            deleted, mean, cov = gaussian(W.T @ m, cov, -T[n], -nu[n], power)
            mean = mean + data.offset[:, n]
            z = multiclass.coupled(int(data.y[n]), mean, cov + D[n] * eye, power)[0]
            total += weight * (deleted + z)
    return total, units


def coupled_at_fit(data, fit, Kuu, Kuf, Kff):
    """The result of `at_fit` for classes with joint sites."""
    T = np.moveaxis(fit.site_precision, -1, 0)
    nu = fit.site_shift.T
    V = np.linalg.solve(np.linalg.cholesky(Kuu), Kuf)
    D = np.maximum(np.diag(Kff) - np.sum(V**2, axis=0), 0.0)
    C = nu.shape[1]
    n_rows = np.dot(data.weights, [len(rows) for rows in data.blocks])
    centre = np.eye(C) - 1.0 / C

    def log_z(outer, inner, factor=1.0):
        scale = float(fit.scale[0, 0]) * factor
        excess = 0.5 * (C - 1) * n_rows * (scale - 1.0 - np.log(scale))
        sites = [np.stack(part) for part in zip(*outer[0], strict=True)]
        sites = centre @ sites[0] @ centre, sites[1] @ centre
        return coupled_log_evidence(data, V, scale * D, *sites)[0] - excess

    outer = [list(zip(T, nu, strict=True))]
    units = coupled_log_evidence(data, V, D, T, nu)[1]
    inner = np.zeros((2, 1, 1))
    return partial(log_z, outer, inner), lambda rng, enough: slope(
        log_z, outer, inner, units[None], np.max(Kff), rng, enough
    )


def at_fit(likelihood, data, fit, Kuu, Kuf, Kff):
    """log Z at the sites of a fit, as a function of a factor of the scale of the conditional; its
    slope when all sites move at once, given a generator and what is small enough.
    """
    if likelihood.is_coupled:
        return coupled_at_fit(data, fit, Kuu, Kuf, Kff)
    n_latent = likelihood.n_latent
    blocks = data.blocks
    sites = np.stack([fit.site_precision, fit.site_shift])
    V = np.linalg.solve(np.linalg.cholesky(Kuu), Kuf)
    D = Kff - V.T @ V
    np.fill_diagonal(D, np.maximum(np.diag(D), 0.0))
    n_rows = np.dot(data.weights, [len(rows) for rows in blocks])

    def parts(scale, outer, inner):
        z = partial(data.levels, likelihood)
        residual = scale[:, :, None] * D
        rest = (blocks, data.powers, data.weights, outer, inner)
        return log_evidence(z, [V] * n_latent, residual, *rest)

    def log_z(outer, inner, factor=1.0):
        scale = fit.scale * factor
        excess = 0.5 * n_rows * np.sum(scale - 1.0 - np.log(scale))
        return parts(scale, outer, inner)[0] - excess

    # of w'u, as those of blocks of one are; what is inside of such a block cancels
    if fit.own_sites:
        outer = [
            [(tau[None, None], nu[None]) for tau, nu in zip(*pair, strict=True)]
            for pair in zip(*sites, strict=True)
        ]
        inner = np.zeros(sites.shape)
    else:
        outer = outer_sites([D] * n_latent, *sites, blocks, data.powers)
        inner = sites
    units = parts(np.ones(fit.scale.shape), outer, inner)[1]
    return partial(log_z, outer, inner), lambda rng, enough: slope(
        log_z, outer, inner, units, np.max(Kff), rng, enough
    )
