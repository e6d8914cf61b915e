"""Tilted moments of many classes: by a trapezoid rule in the C − 1 differences f_y − f_j, along
the columns of their Cholesky factor, and by equal steps over one height and each f.
"""

import numpy as np
from scipy.special import gamma, logsumexp


def softmax_log_density(d):
    """log p, its gradient and its Hessian's diagonal in d (C − 1, K)."""
    log_p = -logsumexp(np.concatenate([np.zeros((1, d.shape[1])), -d]), axis=0)
    q = np.exp(-d + log_p)
    own = q.sum(0)
    return (
        log_p,
        np.concatenate([own[None], -q]),
        np.concatenate([(-own * (1 - own))[None], -q * (1 - q)]),
    )


def grid(steps, reach):
    """Nodes of a trapezoid rule for independent standard normals (n, K), log weights (K,)."""
    axes = [np.arange(-np.ceil(reach / h), np.ceil(reach / h) + 1) * h for h in steps]
    x = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")])
    return x, -0.5 * (x**2).sum(0) + np.log(steps / np.sqrt(2 * np.pi)).sum()


def tilted(log_density, y, mean, var, power, fine=0.3, widest=0.45, reach=9.0):
    """z, d1 (C,) and d2 (C,) of one datum; mean, var (C,)."""
    n_classes = len(mean)
    order = np.r_[y, np.delete(np.arange(n_classes), y)]
    m = mean[order]
    s = var[order]
    root = np.linalg.cholesky(np.diag(s[1:]) + s[0])
    steps = np.minimum(widest, fine / np.abs(root).max(axis=0))
    x, log_weight = grid(steps, reach)
    ell, first, second = log_density((m[0] - m[1:])[:, None] + root @ x)
    log_tilted = log_weight + power * ell
    log_mass = logsumexp(log_tilted)
    w = np.exp(log_tilted - log_mass)
    if power == 0:
        z = np.exp(log_weight) @ ell
    elif power * abs(np.exp(log_weight) @ ell) < 1:
        z = np.log1p(np.exp(log_weight) @ np.expm1(power * ell)) / power
    else:
        z = log_mass / power
    d1 = first @ w
    d2 = second @ w + power * ((first - (first @ w)[:, None]) ** 2 @ w)
    back = np.argsort(order)
    return z, d1[back], d2[back]


def coupled(y, mean, cov, power, fine=0.3, widest=0.45, reach=9.0):
    """z, d1 (C,) and d2 (C, C) of one datum of the softmax with cavity covariance (C, C)."""
    C = len(mean)
    apart = np.eye(C)[y] - np.delete(np.eye(C), y, axis=0)  # f_y − f_j
    root = np.linalg.cholesky(apart @ cov @ apart.T)
    steps = np.minimum(widest, fine / np.abs(root).max(axis=0))
    x, log_weight = grid(steps, reach)
    d = (apart @ mean)[:, None] + root @ x
    ell = -logsumexp(np.concatenate([np.zeros((1, d.shape[1])), -d]), axis=0)
    p = np.insert(np.exp(ell - d), y, np.exp(ell), axis=0)
    w = np.exp(log_weight)
    level = logsumexp(power * ell, b=w) / power if power else w @ ell
    if power:
        level += np.log1p(w @ np.expm1(power * (ell - level)) + (w.sum() - 1.0)) / power
    w = w * np.exp(power * (ell - level))
    w /= w.sum()
    first = np.eye(C)[y][:, None] - p
    d1 = first @ w
    off = first - d1[:, None]
    return level, d1, (w * p) @ p.T - np.diag(p @ w) + power * (w * off) @ off.T


def by_heights(y, mean, var, powers, step=0.35, reach=7.5):
    """z, d1 (C,) and d2 (C,) of one data point for each power, with some thousands of heights
    and of nodes for each class.
    """
    spread = reach * np.sqrt(var)
    classes = np.arange(len(mean))
    results = []
    r = np.arange(np.min(mean - spread) - 5.0, np.max(mean + spread) + 32.0, step)

    def averages(c, tilt):
        f_step = min(step, spread[c] / 60.0)
        f = np.arange(mean[c] - spread[c], mean[c] + spread[c], f_step)
        out = np.zeros((2, len(r)))
        for part in np.array_split(f, len(f) // 300 + 1):
            x = part[:, None] - r
            weight = (
                f_step
                * np.exp(-0.5 * (part - mean[c]) ** 2 / var[c])
                / np.sqrt(2.0 * np.pi * var[c])
            )
            falling = tilt * x - np.exp(np.minimum(x, 700.0))
            out += weight @ np.exp(falling), weight @ np.exp(falling + x)
        return out

    others = {c: averages(c, 0.0) for c in classes[classes != y]}
    for power in powers:
        below, slope = np.transpose(
            [averages(c, power) if c == y else others[c] for c in classes], (1, 0, 2)
        )
        chi = slope / np.maximum(below, 1e-300)
        rest = np.prod(below[classes != y], axis=0)
        mass = below[y] * rest
        one = step * mass @ chi.T
        two = step * np.array([(mass * chi[c]) @ chi[classes != c].sum(0) for c in classes])
        z = (
            np.log(one.sum() / gamma(1.0 + power)) / power
            if power
            else -step * below[y] @ (1.0 - rest)
        )
        p = one / one.sum()
        q = np.array([one[classes != c].sum() for c in classes]) / one.sum()
        results.append((z, np.where(classes == y, q, -p), power * p * q - two / one.sum()))
    return results
