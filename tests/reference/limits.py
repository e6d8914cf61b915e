"""Methods of the literature, each from its own definition, by dense matrices: what Power EP must equal at its corners.

Regression methods that change the model say what they take for the prior of the function values at the data and at
test inputs; the rest is exact inference. The others say how they arrive at q(u).
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import norm

from . import classification, dense


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


class Result(NamedTuple):
    """Mean and covariance at the test inputs, and the log of the evidence, as the method itself defines them."""

    mean: np.ndarray
    cov: np.ndarray
    log_evidence: float


def conditioned(ff, fs, ss, y, noise):
    """Exact regression under a prior covariance given in pieces."""
    noisy = ff + noise * np.eye(len(y))
    gain = np.linalg.solve(noisy, fs).T
    return Result(gain @ y, ss - gain @ fs, dense.log_normal(y, noisy))


def block_diagonal(K, blocks):
    """K where row and column are in one block, else 0."""
    return np.where(blocks[:, None] == blocks, K, 0.0)


def exact(K, y, noise):
    """The GP itself."""
    return conditioned(K.ff, K.fs, K.ss, y, noise)


def subset_of_regressors(K, y, noise):
    """f is a linear function of u everywhere (Silverman 1985; Smola and Bartlett 2001)."""
    return conditioned(K.Q("f", "f"), K.Q("f", "s"), K.Q("s", "s"), y, noise)


def deterministic_training_conditional(K, y, noise):
    """f is a linear function of u at the data only (Seeger et al. 2003, Quiñonero-Candela and Rasmussen 2005)."""
    return conditioned(K.Q("f", "f"), K.Q("f", "s"), K.ss, y, noise)


def linear_regression(K, W, y, noise_cov):
    """Exact regression of u on y = W u + noise, and of the function on u."""
    S = np.linalg.inv(np.linalg.inv(K.uu) + W.T @ np.linalg.solve(noise_cov, W))
    m = S @ W.T @ np.linalg.solve(noise_cov, y)
    mean, cov = dense.predict(K.uu, K.us, K.ss, m, S)
    return Result(mean, cov, dense.log_normal(y, W @ K.uu @ W.T + noise_cov))


def fully_independent(K, y, noise):
    """FITC: as DTC, with the right variances at the data (Quiñonero-Candela and Rasmussen 2005)."""
    Q = K.Q("f", "f")
    return conditioned(Q + np.diag(np.diag(K.ff - Q)), K.Q("f", "s"), K.ss, y, noise)


def pseudo_input_process(K, y, noise):
    """Snelson and Ghahramani (2006): data are independent given u, each with its own noise."""
    W = np.linalg.solve(K.uu, K.uf)
    return linear_regression(K, W.T, y, np.diag(np.diag(K.ff) - np.sum(K.uf * W, axis=0) + noise))


def partially_independent(K, y, noise, blocks):
    """PITC: right covariances within each block (Quiñonero-Candela and Rasmussen 2005)."""
    Q = K.Q("f", "f")
    return conditioned(Q + block_diagonal(K.ff - Q, blocks), K.Q("f", "s"), K.ss, y, noise)


def partially_independent_conditional(K, y, noise, blocks, test_blocks):
    """PIC (Snelson and Ghahramani 2007): as PITC, and test inputs belong to blocks too."""
    Q, cross = K.Q("f", "f"), K.Q("f", "s")
    cross = np.where(blocks[:, None] == test_blocks, K.fs, cross)
    return conditioned(Q + block_diagonal(K.ff - Q, blocks), cross, K.ss, y, noise)


def titsias(K, y, noise):
    """Titsias (2009): DTC's posterior, and the collapsed bound."""
    mean, cov, _ = deterministic_training_conditional(K, y, noise)
    return Result(mean, cov, dense.titsias_bound(K.uu, K.uf, np.diag(K.ff), y, noise))


def uncollapsed(K, y, log_p):
    """Hensman et al. (2013, 2015): the bound sum_n E_q[log p(y_n|f_n)] - KL(q(u) || p(u)), climbed by BFGS."""
    bound, m, S = classification.variational_optimum(log_p, y, K.uu, K.uf, np.diag(K.ff))
    return Result(*dense.predict(K.uu, K.us, K.ss, m, S), bound)


def csato_opper(K, y, slopes):
    """Csató and Opper (2002), sparse online GP with fixed basis vectors: one pass, each datum seen once.

    `slopes(y, mean, var)` are the first two derivatives of log E[p(y|f)] in the mean. The process has mean k'a and
    covariance k(x,x') + k' C k', in weights a and C; a datum adds to them along s = C k + Kuu^-1 k, its own direction
    projected onto the basis (the projection that is best in KL). log Z adds up the predictive densities.
    """
    M, total = len(K.uu), 0.0
    a, C = np.zeros(M), np.zeros((M, M))
    for n, k in enumerate(K.uf.T):
        log_z, q, r = slopes(y[n], k @ a, K.ff[n, n] + k @ C @ k)
        s = C @ k + np.linalg.solve(K.uu, k)
        a, C, total = a + q * s, C + r * np.outer(s, s), total + log_z
    return Result(K.us.T @ a, K.ss + K.us.T @ C @ K.us, total)


def gaussian_slopes(noise):
    """Those of `csato_opper` for y = f + noise."""

    def slopes(y, mean, var):
        total = var + noise
        return -0.5 * (np.log(2 * np.pi * total) + (y - mean) ** 2 / total), (y - mean) / total, -1 / total

    return slopes


def ep_under(prior, K, y, sweeps=500, through_u=False):
    """EP for labels (Rasmussen and Williams, section 3.6) under a prior covariance `prior` of the data.

    With the prior of FITC: Naish-Guzman and Holden (2008), Hernández-Lobato and Hernández-Lobato (2016). Test values are
    correlated with the data as in FITC, or, if `prior` is the true one and not `through_u`, as they truly are.
    """
    fit = classification.ep_classification(prior, y, sweeps=sweeps)
    cross = K.Q("f", "s") if through_u or not np.array_equal(prior, K.ff) else K.fs
    B = np.eye(len(y)) + fit.site_precision[:, None] * prior
    weights = np.linalg.solve(B, np.column_stack([fit.site_shift, fit.site_precision[:, None] * cross]))
    return Result(cross.T @ weights[:, 0], K.ss - cross.T @ weights[:, 1:], fit.log_evidence)


def natural_regression(K, tau, nu):
    """Sites of any sign on w'u: mean and covariance of u, and the log of the integral of prior times sites."""
    W = np.linalg.solve(K.uu, K.uf)
    S = np.linalg.inv(np.linalg.inv(K.uu) + W * tau @ W.T)
    m = S @ W @ nu
    return m, S, 0.5 * (m @ W @ nu + dense.log_det(S) - dense.log_det(K.uu))


def sparse_ep(K, y, slopes, sweeps=200):
    """Csató and Opper's recursion iterated: each datum is taken out before it is put in again.

    What a datum has put in is kept as an observation g of w'u with noise v; taking it out is putting in an observation
    with noise -v. log Z is the integral of prior times sites, each site scaled so that the tilted mass is right.
    """
    W = np.linalg.solve(K.uu, K.uf)
    M, N = K.uf.shape
    a, C = np.zeros(M), np.zeros((M, M))
    tau, nu, log_c = np.zeros((3, N))

    def absorb(a, C, n, tau, nu):
        """Put in a site on w'u of datum n, or take it out with the signs of tau and nu changed."""
        k = K.uf[:, n]
        mean, var = k @ a, W[:, n] @ k + k @ C @ k
        s = C @ k + W[:, n]
        return a + s * (nu - tau * mean) / (1 + tau * var), C - tau / (1 + tau * var) * np.outer(s, s)

    for _ in range(sweeps):
        for n, k in enumerate(K.uf.T):
            a, C = absorb(a, C, n, -tau[n], -nu[n])
            mean, var = k @ a, W[:, n] @ k + k @ C @ k
            log_z, q, r = slopes(y[n], mean, K.ff[n, n] + k @ C @ k)
            tau[n] = -r / (1 + r * var)
            nu[n] = (q - r * mean) / (1 + r * var)
            cavity = 0.5 * mean**2 / var - 0.5 * (mean / var + nu[n]) ** 2 / (1 / var + tau[n])
            log_c[n] = log_z + 0.5 * np.log1p(tau[n] * var) + cavity
            a, C = absorb(a, C, n, tau[n], nu[n])
    value = natural_regression(K, tau, nu)[2] + log_c.sum()
    return Result(K.us.T @ a, K.ss + K.us.T @ C @ K.us, value)


def probit_slopes(y, mean, var):
    """Those of `csato_opper` and `sparse_ep` for labels."""
    z = y * mean / np.sqrt(1 + var)
    ratio = np.exp(norm.logpdf(z) - log_ndtr(z))
    return log_ndtr(z), y * ratio / np.sqrt(1 + var), -ratio * (z + ratio) / (1 + var)
