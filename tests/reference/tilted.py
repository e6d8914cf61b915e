"""Tilted moments of one datum in 60 digits, for any cavity; `python -m reference.tilted` (in
`tests/`) makes `tilted.json.gz`.
"""

import gzip
import json
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import mpmath as mp
import numpy as np
from mpmath.calculus.quadrature import GaussLegendre

DIGITS = 60
TOLERANCE = mp.mpf("1e-25")
TABLE = Path(__file__).with_name("tilted.json.gz")


def probit(f, y):
    """log Phi(y f), without loss on either side."""
    t = y * f
    root = mp.sqrt(2)
    log_p = mp.log1p(-mp.erfc(t / root) / 2) if t > 0 else mp.log(mp.erfc(-t / root) / 2)
    ratio = mp.npdf(t) / mp.exp(log_p)
    return log_p, y * ratio, -ratio * (t + ratio)


def logit(f, y):
    """log 1/(1 + exp(-y f))."""
    wrong = 1 / (1 + mp.exp(y * f))
    return -mp.log1p(mp.exp(-y * f)), y * wrong, -wrong * (1 - wrong)


def noisy_probit(f, y, eps):
    """log(eps + (1 - 2 eps) Phi(y f)): labels flipped with probability eps."""
    t = y * f
    p = eps + (1 - 2 * eps) * mp.erfc(-t / mp.sqrt(2)) / 2
    slope = (1 - 2 * eps) * mp.npdf(t) / p
    return mp.log(p), y * slope, -slope * (t + slope)


def poisson(f, y):
    """Counts with mean exp(f)."""
    mean = mp.exp(f)
    return y * f - mean - mp.loggamma(y + 1), y - mean, -mean


def negative_binomial(f, y, dispersion):
    """Counts with mean exp(f) and variance mean + mean^2/dispersion."""
    mean = mp.exp(f)
    r = dispersion
    choose = mp.loggamma(y + r) - mp.loggamma(r) - mp.loggamma(y + 1) if y else 0
    log_p = choose - (y + r) * mp.log1p(mean / r) + y * (f - mp.log(r))
    return log_p, r * (y - mean) / (r + mean), -(y + r) * r * mean / (r + mean) ** 2


def student_t(f, y, df, scale):
    """Student's t in (y - f)/scale."""
    u = (y - f) / scale
    constant = (
        mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(mp.pi * df) / 2 - mp.log(scale)
    )
    slope = (df + 1) * u / (df + u**2) / scale
    return (
        constant - (df + 1) / 2 * mp.log1p(u**2 / df),
        slope,
        -(df + 1) * (df - u**2) / (scale * (df + u**2)) ** 2,
    )


# log p(y|f) and its first two derivatives in f, of parameters that have been made mpf
LIKELIHOODS = {
    function.__name__: function
    for function in (probit, logit, noisy_probit, poisson, negative_binomial, student_t)
}


def centre_of(name, y):
    """Where a likelihood bends."""
    if name in ("poisson", "negative_binomial"):
        return mp.log(y) if y else mp.mpf(0)
    return y if name == "student_t" else mp.mpf(0)


@cache
def rule(degree):
    """Nodes and weights of Gauss and Legendre on [-1, 1]: 24 for degree 4, 48 for degree 5."""
    return GaussLegendre(mp.mp).calc_nodes(degree, mp.mp.prec)


def panel(integrands, a, b, degree):
    """The integrals from a to b of all the integrands."""
    middle = (a + b) / 2
    half = (b - a) / 2
    nodes, weights = zip(*rule(degree), strict=True)
    return [
        half * mp.fdot(weights, column)
        for column in zip(*(integrands(middle + half * x) for x in nodes), strict=True)
    ]


def integrate(integrands, breaks, degree):
    """All integrals, every panel halved until no integral sees a difference (relative to its own
    size).
    """
    panels = [(a, b, panel(integrands, a, b, degree)) for a, b in pairwise(breaks)]
    done = []
    while panels:
        sizes = [
            mp.fsum(abs(value) for value in column)
            for column in zip(*done, *(whole for *_, whole in panels), strict=True)
        ]
        left = []
        for a, b, whole in panels:
            middle = (a + b) / 2
            halves = [panel(integrands, *ends, degree) for ends in ((a, middle), (middle, b))]
            both = [sum(pair) for pair in zip(*halves, strict=True)]
            if all(
                abs(w - h) <= TOLERANCE * size
                for w, h, size in zip(whole, both, sizes, strict=True)
            ):
                done.append(both)
            else:
                left += [(a, middle, halves[0]), (middle, b, halves[1])]
        panels = left
    return [mp.fsum(column) for column in zip(*done, strict=True)]


def breaks_between(low, high, features, ratio):
    """Ends of panels that grow geometrically away from each feature (place, width)."""
    breaks = {low, high}
    for place, width in features:
        step = width / 2
        while step < high - low:
            breaks |= {point for point in (place - step, place + step) if low < point < high}
            step *= ratio
    return sorted(breaks)


def moments(log_p, centre, mean, var, power, ratio, degree):
    """z, d1 and d2 from panels with the given ratio of widths and degree of rule."""
    spread = mp.sqrt(var)
    low, high = left, right = min(mean, centre) - 50 * spread, max(mean, centre) + 50 * spread
    for _ in range(100):  # where N(f; mean, var) p^power is stationary, by bisection
        middle = (left + right) / 2
        left, right = (
            (middle, right) if power * log_p(middle)[1] > (middle - mean) / var else (left, middle)
        )
    mode = left
    width = 1 / mp.sqrt(max(1 / var - power * log_p(left)[2], 1 / var))
    slope_there = log_p(mode)[1]
    twice = 2 * var
    height = mp.sqrt(2 * mp.pi * var)

    def integrands(f):
        log_density, slope, curvature = log_p(f)
        cavity = mp.exp(-((f - mean) ** 2) / twice) / height
        gain = max(power * log_density, -(mp.mpf(10) ** 15))  # keeps exp of it within reach
        weight = cavity * mp.exp(gain)
        slope = slope - slope_there
        excess = mp.expm1(gain) / power if power else log_density
        return weight, cavity * excess, weight * slope, weight * curvature, weight * slope**2

    features = (mean, spread), (mode, width), (centre, mp.mpf(1) / 8)
    total, excess, *rest = integrate(integrands, breaks_between(low, high, features, ratio), degree)
    slope, curvature, square = (value / total for value in rest)
    z = (
        excess
        if not power
        else mp.log1p(power * excess) / power
        if power * excess > -0.5
        else mp.log(total) / power
    )
    return z, slope_there + slope, curvature + power * (square - slope**2)


def tilted(name, y, mean, var, power, **parameters):
    """z = log E[p(y|f)^power]/power (E[log p] at power 0) for f ~ N(mean, var), and its first two
    derivatives in mean.

    Computed twice, on different panels by different rules; `ArithmeticError` if 20 digits do not
    agree. Numbers beyond 1e-250 or 1e250 in size are nan.
    """
    with mp.workdps(DIGITS):
        y, mean, var, power = (mp.mpf(float(value)) for value in (y, mean, var, power))
        parameters = {key: mp.mpf(float(value)) for key, value in parameters.items()}
        log_p = cache(lambda f: LIKELIHOODS[name](f, y, **parameters))
        first, second = (
            moments(log_p, centre_of(name, y), mean, var, power, *layout)
            for layout in ((10, 4), (20, 5))
        )
        reached = [1e-250 <= abs(value) <= 1e250 for value in first]
        if any(
            within and abs(a - b) > mp.mpf("1e-20") * abs(a)
            for within, a, b in zip(reached, first, second, strict=True)
        ):
            raise ArithmeticError(
                f"{name} {y} at {mean}, {var}, power {power}: {first} and {second}"
            )
    return tuple(value if within else mp.nan for within, value in zip(reached, first, strict=True))


MEANS = (-30.0, -8.0, -2.5, -0.3, 1.0, 5.0, 12.0, 30.0)
VARIANCES = (1e-6, 1e-3, 0.1, 1.0, 9.0, 100.0, 1e4, 1e6)
POWERS = (0.0, 1e-6, 0.01, 0.1, 0.5, 0.8, 1.0)
CASES = (
    ("probit", 1, {}),
    ("logit", 1, {}),
    ("noisy_probit", 1, {"eps": 0.01}),
    ("student_t", 0.3, {"df": 4, "scale": 0.5}),
    *(("poisson", y, {}) for y in (0, 1, 3, 40, 1000)),
    *(
        ("negative_binomial", y, {"dispersion": r})
        for y, r in ((0, 0.5), (50, 0.5), (2, 5), (50, 5))
    ),
)


def load_table():
    """One dictionary a case: name, y, parameters, and mean, var, power, z, d1, d2 as arrays (nan
    beyond 1e250).
    """
    content = json.loads(gzip.decompress(TABLE.read_bytes()))
    grid = np.meshgrid(content["means"], content["variances"], content["powers"], indexing="ij")
    keys = "mean", "var", "power", "z", "d1", "d2"
    rows = []
    for row in content["cases"]:
        columns = *(axis.ravel() for axis in grid), *np.array(row.pop("moments"), dtype=float).T
        rows.append({**row, **dict(zip(keys, columns, strict=True))})
    return rows


if __name__ == "__main__":  # the same bytes for the same rows: no time in the header
    grid = list(product(MEANS, VARIANCES, POWERS))
    rows = []
    for name, y, parameters in CASES:
        found = [
            [
                None if mp.isnan(value) else float(value)
                for value in tilted(name, y, *at, **parameters)
            ]
            for at in grid
        ]
        rows.append({"name": name, "y": y, "parameters": parameters, "moments": found})
    content = {"means": MEANS, "variances": VARIANCES, "powers": POWERS, "cases": rows}
    TABLE.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))
