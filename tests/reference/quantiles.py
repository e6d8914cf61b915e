"""Distribution functions of targets by SciPy's distributions: given f, and for f ~ N(mean, var) by
very many equal steps.
"""

import numpy as np
from scipy import stats
from scipy.special import expit, ndtr

from sparse_pep.likelihoods.binary import Binary


def ordinal(one, y, f):
    return ndtr([*one.cut_points, np.inf][int(y)] - f) if y >= 0 else 0.0 * f


def tobit(one, y, f):
    low, high = one.limits
    inside = stats.norm.cdf(y, f, np.sqrt(one.noise_variance))
    return np.where(y >= high, 1.0, np.where(y < low, 0.0, inside))


def labels(one, y, f):
    flip = getattr(one, "flip", 0.0)
    minus = expit(-f) if type(one).__name__ == "Logit" else flip + (1 - 2 * flip) * ndtr(-f)
    return np.where(y >= 1, 1.0, np.where(y >= -1, minus, 0.0))


GIVEN_F = {
    "Gaussian": lambda one, y, f: stats.norm.cdf(y, f, np.sqrt(one.noise_variance)),
    "StudentT": lambda one, y, f: stats.t.cdf(y, one.df, f, one.scale),
    "Poisson": lambda one, y, f: stats.poisson.cdf(y, np.exp(f)),
    "NegativeBinomial": lambda one, y, f: stats.nbinom.cdf(
        y, one.dispersion, one.dispersion / (one.dispersion + np.exp(f))
    ),
    "Gamma": lambda one, y, f: stats.gamma.cdf(y, one.shape, scale=np.exp(f) / one.shape),
    "Weibull": lambda one, y, f: stats.weibull_min.cdf(y, one.shape, scale=np.exp(f)),
    "Beta": lambda one, y, f: stats.beta.cdf(
        y, one.concentration * expit(f), one.concentration * expit(-f)
    ),
    "Binomial": lambda one, y, f: stats.binom.cdf(y, one.trials, expit(f)),
    "Ordinal": ordinal,
    "Tobit": tobit,
}


def cdf(likelihood, y, mean, var, given_f=None):
    """P(Y ≤ y) for f ~ N(mean, var)."""
    given_f = given_f or (
        labels if isinstance(likelihood, Binary) else GIVEN_F[type(likelihood).__name__]
    )
    x = np.arange(-96, 97) / 12
    return given_f(likelihood, y, mean + np.sqrt(var) * x) @ stats.norm.pdf(x) / 12


def noise_cdf(likelihood, y, mean, var):
    """The same for noise that depends on a second function."""

    def given_g(one, y, g):
        noise = one.base_variance * np.exp(one.gain * g)
        return stats.norm.cdf(y, mean[0], np.sqrt(var[0] + noise))

    return cdf(likelihood, y, mean[1], var[1], given_g)
