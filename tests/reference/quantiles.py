"""Distribution functions of targets in 25 digits (mpmath): given f, and for f ~ N(mean, var) by
very many equal steps.
"""

import mpmath as mp

from sparse_pep.likelihoods.binary import Binary


def beta(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def ordinal(one, y, f):
    return mp.ncdf(one.cut_points[int(y)] - f) if 0 <= y < len(one.cut_points) else mp.mpf(y >= 0)


def tobit(one, y, f):
    return (
        mp.mpf(1)
        if y >= one.limits[1]
        else mp.mpf(0)
        if y < one.limits[0]
        else mp.ncdf((y - f) / mp.sqrt(one.noise_variance))
    )


def labels(one, y, f):
    flip = getattr(one, "flip", 0)
    minus = (
        1 / (1 + mp.exp(f))
        if type(one).__name__ == "Logit"
        else flip + (1 - 2 * flip) * mp.ncdf(-f)
    )
    return mp.mpf(y >= 1) if y >= 1 or y < -1 else minus


def student(one, y, f):
    t = (y - f) / one.scale
    tail = beta(one.df / mp.mpf(2), mp.mpf("0.5"), one.df / (one.df + t**2)) / 2
    return tail if t < 0 else 1 - tail


GIVEN_F = {
    "Gaussian": lambda one, y, f: mp.ncdf((y - f) / mp.sqrt(one.noise_variance)),
    "StudentT": student,
    "Poisson": lambda one, y, f: (
        mp.gammainc(y + 1, mp.exp(f), regularized=True) if y >= 0 else mp.mpf(0)
    ),
    "NegativeBinomial": lambda one, y, f: (
        beta(one.dispersion, y + 1, one.dispersion / (one.dispersion + mp.exp(f)))
        if y >= 0
        else mp.mpf(0)
    ),
    "Gamma": lambda one, y, f: mp.gammainc(
        one.shape, 0, one.shape * y * mp.exp(-f), regularized=True
    ),
    "Weibull": lambda one, y, f: 1 - mp.exp(-((y * mp.exp(-f)) ** one.shape)),
    "Beta": lambda one, y, f: beta(
        one.concentration / (1 + mp.exp(-f)), one.concentration / (1 + mp.exp(f)), y
    ),
    "Binomial": lambda one, y, f: (
        beta(one.trials - y, y + 1, 1 / (1 + mp.exp(f))) if 0 <= y < one.trials else mp.mpf(y >= 0)
    ),
    "Ordinal": ordinal,
    "Tobit": tobit,
}


def cdf(likelihood, y, mean, var, given_f=None):
    """P(Y ≤ y) for f ~ N(mean, var)."""
    given_f = given_f or (
        labels if isinstance(likelihood, Binary) else GIVEN_F[type(likelihood).__name__]
    )
    with mp.workdps(25):
        step = mp.mpf(1) / 12
        y = mp.mpf(float(y))
        nodes = [step * k for k in range(-96, 97)]
        return (
            mp.fsum(
                given_f(likelihood, y, mp.mpf(mean) + mp.sqrt(var) * x) * mp.npdf(x) for x in nodes
            )
            * step
        )


def noise_cdf(likelihood, y, mean, var):
    """The same for noise that depends on a second function."""
    noise = lambda one, g: one.base_variance * mp.exp(one.gain * g)
    return cdf(
        likelihood,
        y,
        mean[1],
        var[1],
        lambda one, y, g: mp.ncdf((y - mean[0]) / mp.sqrt(var[0] + noise(one, g))),
    )
