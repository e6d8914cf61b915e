"""The quadrature: right on both of its ways, honest about its error, and defined where nothing
is left to integrate.
"""

import mpmath
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from reference.compare import error

from sparse_pep import quadrature
from sparse_pep.likelihoods import Beta, Logit, Poisson, Probit, StudentT
from sparse_pep.numerics.linalg import expm1_ratio
from sparse_pep.quadrature import (
    Accuracy,
    adaptive_quadrature,
    tilted_moments,
)


def density(likelihood, y):
    """log p of data y as a function of rows and f, as the quadrature asks for it."""
    return lambda rows, f: likelihood.log_density(y[rows][:, None], f)


def random_cavities(size, variances, seed=0):
    rng = default_rng(seed)
    return rng.uniform(-30.0, 30.0, size), 10.0 ** rng.uniform(*np.log10(variances), size)


def relative_errors(got, expected, var):
    """The worst of z, d1 and d2 (N,), each by its own size; d1 may be 0. Numbers beyond 1e-250
    do not count.
    """
    floors = 0.0, 0.01 * np.abs(expected[2]) * np.sqrt(var), 0.0
    parts = zip(got, expected, floors, strict=True)
    return np.max(
        [
            np.where(np.abs(b) > 1e-250, np.abs(a - b) / (np.abs(b) + c + 1e-300), 0.0)
            for a, b, c in parts
        ],
        axis=0,
    )


@pytest.fixture
def by_panels(monkeypatch):
    """How many data went to the panels, call by call."""
    calls = []

    def counted(at, rows, *asked):
        calls.append(len(rows))
        return adaptive_quadrature(at, rows, *asked)

    monkeypatch.setattr(quadrature, "adaptive_quadrature", counted)
    return calls


def test_panels_are_reached_where_they_are_needed(by_panels):
    """A cavity a thousand times wider than the likelihood, and two that put the bend three
    deviations away.
    """
    mean = np.array([-4.0, 28.0, 9.5, 0.1])
    var = np.array([1e6, 1e2, 1e1, 2.0])
    ones = np.ones(4)
    got, exact = (f(ones, mean, var, ones) for f in (Probit().quadrature, Probit().closed_form))
    assert by_panels == [3]
    assert np.max(relative_errors(got[:3], exact[:3], var)) < 1e-10
    rng = default_rng(0)
    for likelihood in (Probit(), Logit()):
        likelihood.quadrature(
            np.ones(500),
            rng.normal(scale=4.0, size=500),
            rng.uniform(1.0, 5.0, 500),
            np.full(500, 0.5),
        )
    # the mode is far from the mean of the cavity
    StudentT(4.0, 0.3).quadrature(4.0 * ones, np.arange(-1.0, 3.0), ones, ones)
    assert by_panels == [3]


def test_no_data_and_no_further_functions():
    got = tilted_moments(density(Logit(), np.zeros(0)), np.zeros(0), np.zeros(0), 0.5)
    assert [value.shape for value in got] == [(0,)] * 4 + [(0, 0)]


@pytest.mark.parametrize("factor", [1e-5, 0.02, 1e4])
def test_units_do_not_matter(factor):
    mean, var = random_cavities(100, (1e-3, 1e3), seed=4)
    y = np.resize([-20.0, 0.0, 0.5, 11.0], 100)
    power = np.resize([0.0, 0.4, 1.0], 100)
    here = StudentT(4.0, 0.3).tilted(y, mean, var, power)
    there = StudentT(4.0, 0.3 * factor).tilted(factor * y, factor * mean, factor**2 * var, power)
    assert_allclose(there.log_z + np.log(factor), here.log_z, rtol=1e-8, atol=1e-8)
    assert (
        np.max(
            relative_errors((here.log_z, factor * there.d1, factor**2 * there.d2), here[:3], var)
        )
        < 1e-7
    )
    assert_allclose(there.averages, here.averages, rtol=1e-7, atol=1e-8)


def test_a_mode_far_outside_the_cavity():
    """A count of 0 and a rate of e^1000: the cavity itself has no weight, in doubles, where the
    mass is.
    """
    mean = np.array([30.0, 1e3, 1e6])
    got = Poisson().tilted(np.zeros(3), mean, np.ones(3), 1.0)
    assert np.all((got.log_z < -300.0) & (got.d1 < -20.0) & (got.d2 < 0.0) & (got.d2 > -1.0))
    assert np.all(np.abs(got.log_z / (-0.5 * mean**2) - 1.0) < [0.3, 0.02, 1e-4])


def test_whole_numbers_are_real_numbers():
    """With a mode that is rounded to a whole number the derivatives are those of another place."""
    whole = Poisson().tilted(np.array([3]), np.array([200]), np.array([0.01]), 1)
    real = Poisson().tilted(np.array([3.0]), np.array([200.0]), np.array([0.01]), 1.0)
    assert whole.error < 1e-9
    assert whole.d1 == real.d1
    assert whole.d2 == real.d2


def test_laplace_where_doubles_end():
    """A million deviations into the tail: mode and bend are all there is, and the error says so."""
    y = np.array([3.0])
    mean = np.array([1e6])
    var = np.array([1e-12])
    power = 0.5
    got = Poisson().tilted(y, mean, var, power)
    mode = mean + power * var * got.d1
    assert got.error == 1.0
    assert error(got.log_z, -0.5 * (mode - mean) ** 2 / var / power) < 1e-4
    assert error(got.d1, -np.exp(mode)) < 0.5
    assert error(got.d2, np.array([-1.0 / (var[0] * power)])) < 1e-4


def test_expm1_ratio():
    x = np.array([[0.0, 1e-300, -1e-17], [1e-8, -1e-3, 1.0], [-40.0, -1e300, 700.0]])
    exact = [
        [1.0, 1.0, 1.0],
        [1.00000000500000001667, 0.99950016662500833194, 1.71828182845904523536],
        [0.02499999999999999989, 1e-300, 1.4489029353357206e301],
    ]
    assert_allclose(expm1_ratio(x)[:2], exact[:2], rtol=4e-16)
    assert_allclose(expm1_ratio(x)[2], exact[2], rtol=1e-12)
    with np.errstate(over="ignore"):
        assert expm1_ratio(800.0) == np.inf


def test_a_floor_spares_what_is_next_to_nothing(by_panels):
    """A label far on its own side: nine digits of a d2 of 1e-40 take panels, an absolute error
    does not.
    """
    mean = np.array([40.0])
    var = np.array([8.0])
    ones = np.ones(1)
    strict, loose = (
        Probit().quadrature(ones, mean, var, ones, accuracy)
        for accuracy in (Accuracy(), Accuracy(1e-9, 0.1))
    )
    assert by_panels == [1]
    assert abs(loose.d2[0] - strict.d2[0]) < 1e-10
    assert abs(loose.log_z[0] - strict.log_z[0]) < 1e-10


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_interpolation_keeps_the_accuracy_required(likelihood):
    """In cavities of any width, for both labels, and for one data point as for many."""
    rng = default_rng(3)
    size = 300
    asked = Accuracy(1e-5, 0.1)
    mean = rng.normal(scale=6.0, size=size)
    var = 10.0 ** rng.uniform(-6, 3, size)
    y = rng.choice([-1.0, 1.0], size)
    for power in (0.0, 0.5):
        powers = np.full(size, power)
        quick, exact = (
            likelihood.quadrature(y, mean, var, powers, accuracy)
            for accuracy in (asked, Accuracy())
        )
        units = np.stack([np.ones(size), np.sqrt(var), var])
        gap = np.abs(np.subtract(quick[:3], exact[:3])) * units
        assert np.all(gap <= 1e-5 * np.maximum(np.abs(exact[:3]) * units, 0.1))
        assert np.all(quick.error <= 1e-5)
        assert np.all(quick.d2 <= 0.0)
        assert len(np.unique(quick.error)) < 0.5 * size  # most are those of tiles
        alone = likelihood.quadrature(y[:1], mean[:1], var[:1], powers[:1], asked)
        assert abs(alone.d2[0] - quick.d2[0]) <= 1e-15


@pytest.mark.parametrize("concentration", [1e2, 1e4, 1e8, 1e12, 1e16])
@pytest.mark.parametrize("distance", [0.0, 1.0, -3.0])  # from the mode, in standard deviations
def test_fractions_keep_their_digits_at_every_concentration(concentration, distance):
    likelihood = Beta(concentration)
    y = 0.7
    f = np.log(y / (1.0 - y)) + distance / np.sqrt(concentration * y * (1.0 - y))
    with mpmath.workdps(60):
        a = concentration / (1 + mpmath.exp(-mpmath.mpf(f)))
        b = concentration - a
        log_y = mpmath.log(mpmath.mpf(y))
        log_rest = mpmath.log(1 - mpmath.mpf(y))
        ell = mpmath.loggamma(concentration) - mpmath.loggamma(a) - mpmath.loggamma(b)
        ell += (a - 1) * log_y + (b - 1) * log_rest
        slope = a * b / concentration * (log_y - log_rest - mpmath.psi(0, a) + mpmath.psi(0, b))
        theta = concentration * mpmath.psi(0, mpmath.mpf(concentration))
        theta += a * (log_y - mpmath.psi(0, a)) + b * (log_rest - mpmath.psi(0, b))
        expected = np.array([float(ell), float(slope) / np.sqrt(concentration), float(theta)])
    got_ell, got_slope, _ = likelihood.log_density(np.array([y]), np.array([f]))
    (got_theta,) = likelihood.parameter_gradients(np.array([y]), np.array([f]))
    got = np.hstack([got_ell, got_slope / np.sqrt(concentration), got_theta])
    # the digits of f: its rounding moves the density by this part of a standard deviation
    allowed = 1e-13 + 2e-16 * np.sqrt(concentration)
    assert_allclose(got, expected, rtol=allowed, atol=10.0 * allowed)


def test_rounding_errors_do_not_make_panels_without_end(monkeypatch):
    def rough(rows, f):
        noise = 1e-3 * np.sin(1e9 * f)
        return -0.5 * f**2 + noise, -f, np.full_like(f, -1.0)

    counts = []

    def counted(at, rows, start, end, panel_sums=quadrature.panel_sums):
        counts.append(len(rows))
        return panel_sums(at, rows, start, end)

    monkeypatch.setattr(quadrature, "panel_sums", counted)
    got = tilted_moments(rough, np.zeros(3), np.full(3, 1e4), 0.5)
    assert sum(counts) < 3 * 1500
    assert_allclose(got.log_z, -np.log1p(0.5e4), rtol=2e-3)  # log of (1 + 0.5 s)^(-1/2), over 0.5
