"""Many classes: accuracy against product quadrature, symmetries, derivatives, refusals."""

import tracemalloc

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from reference import multiclass as reference
from reference.compare import error, gradient_error
from scipy.special import ndtr

from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Logit, Softmax, multiclass
from sparse_pep.means import ConstantMean
from sparse_pep.model import Model, model_gradient
from sparse_pep.quadrature import STRICT, Accuracy

POWERS = (0.0, 1e-6, 0.5, 1.0)


def cases(n_classes, n, seed, spread=6.0, low=-3.0, high=1.5):
    rng = default_rng(seed)
    mean = rng.uniform(-spread, spread, (n_classes, n))
    return rng.integers(n_classes, size=n), mean, 10 ** rng.uniform(low, high, mean.shape)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("n_classes", (2, 3))
def test_softmax_against_product_quadrature(n_classes, power):
    y, mean, var = cases(n_classes, 8, seed=n_classes)
    here = Softmax(n_classes).tilted(y, mean, var, power)
    for n in range(8):
        z, d1, d2 = reference.tilted(
            reference.softmax_log_density, y[n], mean[:, n], var[:, n], power
        )
        assert_allclose(here.log_z[n], z, rtol=1e-8)
        assert_allclose(here.d1[:, n], d1, rtol=1e-8)
        assert_allclose(here.d2[:, n], d2, rtol=1e-8)
    assert here.error.max() < 1e-8


def off(found, expected, var, floor):
    """The largest error of z, d1 and d2 of each data point, relative to the value or to a floor
    in units of the cavity (N,).
    """
    units = np.ones(var.shape[1]), np.sqrt(var), var
    parts = (
        np.abs(a - b) * unit / np.maximum(np.abs(b) * unit, floor)
        for a, b, unit in zip(found[:3], expected[:3], units, strict=True)
    )
    return np.max([np.max(np.atleast_2d(part), axis=0) for part in parts], axis=0)


WIDTHS = {
    "narrow": [0.1],
    "of order one": [1.0],
    "wide": [100.0],
    "very wide": [1e4],
    "mixed": [0.1, 1e3, 3.0, 40.0],
    "mixed more": [1e4, 0.1],
}


@pytest.mark.parametrize(
    "n_classes, widths",
    [
        (20, "narrow"),
        (20, "of order one"),
        (20, "wide"),
        (2, "very wide"),
        (4, "very wide"),
        (8, "mixed"),
        (3, "mixed more"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_many_classes_and_widths_by_brute_force(n_classes, widths):
    var = np.resize(WIDTHS[widths], n_classes)
    mean = default_rng(n_classes).normal(size=n_classes) * np.sqrt(np.median(var))
    y = n_classes // 2
    for power, expected in zip(
        (0.0, 0.5, 1.0), reference.by_heights(y, mean, var, (0.0, 0.5, 1.0)), strict=True
    ):
        for accuracy, tolerance in (
            (STRICT, 1e-6),
            (Accuracy(1e-9, 0.1), 1e-6),
            (Accuracy(1e-5, 0.1), 3e-5),
        ):
            found = Softmax(n_classes).tilted(
                np.array([y]), mean[:, None], var[:, None], power, accuracy
            )
            expected = [
                np.reshape(part, np.shape(value))
                for part, value in zip(expected, found[:3], strict=True)
            ]
            assert off(found, expected, var[:, None], 0.1)[0] < tolerance


@pytest.mark.parametrize(
    "stretch",
    [(1.0, 1.0), (3.0, 1.0), (1.0, 3.0)],
    ids=["as they are", "far apart", "growing fast"],
)
def test_the_error_is_estimated(stretch, monkeypatch):
    """Also where the heights are too far from each other: never by much less than it is."""
    y, mean, var = cases(4, 60, seed=7, low=-1.0, high=3.0)
    exact = Softmax(4).tilted(y, mean, var, 0.5)
    height_range = multiclass.height_range

    def stretched(*arguments, **options):
        ranges = height_range(*arguments, **options)
        ends = np.stack([ranges.first, ranges.last])
        ends = np.sinh(ranges.growth * ends) * ranges.step / ranges.growth
        step = stretch[0] * ranges.step
        growth = stretch[1] * ranges.growth
        first, last = np.round(np.arcsinh(ends * growth / step) / growth)
        return multiclass.HeightRanges(ranges.origin, step, growth, first, last)

    monkeypatch.setattr(multiclass, "height_range", stretched)
    rough = Softmax(4).tilted(y, mean, var, 0.5, Accuracy(1e-5, 0.1))
    true = off(rough, exact, var, 0.1)
    assert np.all(rough.error > 0.1 * true)
    assert exact.error.max() < 1e-7
    assert np.max(true) > 1e-3 if max(stretch) > 1.0 else rough.error.max() < 1e-3


def test_softmax_keeps_digits_when_certain():
    """One class far above the others: z, d1 and d2 are tiny and still right."""
    mean = np.array([[25.0], [0.0], [-3.0]])
    var = np.full((3, 1), 0.5)
    for power in POWERS:
        here = Softmax(3).tilted(np.zeros(1), mean, var, power)
        odds = np.exp(mean[1:, 0] - 25.0 + 0.5)  # E[e^(f_j − f_y)], to first order
        assert_allclose(here.log_z, -odds.sum(), rtol=1e-8)
        assert_allclose(here.d1[1:, 0], -odds, rtol=1e-8)
        assert_allclose(here.d2[:, 0], -np.r_[odds.sum(), odds], rtol=1e-8)


def test_a_cavity_has_a_row_for_each_class():
    with pytest.raises(ValueError, match="`mean`.*one row for each class"):
        Softmax(3).tilted(np.zeros(4), np.zeros((2, 4)), np.ones((2, 4)), 0.5)


@pytest.mark.parametrize("power", POWERS)
def test_mass_far_from_the_means(power):
    """Certain labels: what little there is lies where the tail of one class meets another."""
    mean = np.array([[60.0], [-60.0]])
    var = np.array([[100.0], [0.01]])
    for label, sign in ((0, 1.0), (1, -1.0)):  # certain and right, certain and wrong
        here = Softmax(2).tilted(np.array([label]), mean, var, power)
        difference = mean[0] - mean[1]
        logit = Logit().tilted(np.array([sign]), difference, var.sum(0), power)
        assert_allclose(here.log_z, logit.log_z, rtol=1e-7)
        assert_allclose(here.d1[0], logit.d1, rtol=1e-7)
        assert_allclose(here.d2[1], logit.d2, rtol=1e-7)


@pytest.mark.parametrize("power", [0.0, 0.5, "private"])
@pytest.mark.parametrize("blocks", [None, np.arange(36) // 4], ids=["single", "blocks"])
def test_taking_the_shared_shift_away_moves_no_fixed_point(blocks, power, monkeypatch):
    rng = default_rng(0)
    of_block = np.arange(36) // 4
    X = rng.uniform(-3.0, 3.0, (36, 2))
    y = rng.integers(0, 11, 36).astype(float)
    own = np.resize([0.0, 1.0, 0.5], 9)[of_block] if power == "private" else None
    data = Rows(X, y, weight=1.0 + of_block % 3, blocks=blocks, power=own)
    mean = ConstantMean(np.resize([0.3, -1.0, 0.5], 11))  # more classes than are coupled
    model = Model(
        SquaredExponential(20.0, [1.0, 1.5]), InducingPoints(X[:7].copy()), Softmax(11), mean
    )
    power = 0.5 if power == "private" else power
    fit, gradient = model_gradient(model, Problem(data, power), tol=1e-11)
    monkeypatch.setattr(Softmax, "shift_invariant", False)
    plain, expected = model_gradient(model, Problem(data, power), tol=1e-11)
    assert fit.converged
    assert plain.converged
    assert fit.n_sweeps < 0.7 * plain.n_sweeps
    assert error(fit.log_evidence, plain.log_evidence) < 1e-12
    assert gradient_error(gradient, expected) < 1e-9


def test_classes_that_are_far_apart_take_little_memory():
    mean = np.array([[0.0, 0.0], [1e4, -1e4], [0.0, 1.0]])
    tracemalloc.start()
    near = Softmax(3).predict_proba(mean, np.full((3, 2), 100.0))
    with pytest.raises(np.linalg.LinAlgError, match="too far apart .* by 1e\\+06 in f"):
        Softmax(3).predict_proba(100.0 * mean, np.ones((3, 2)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8  # 4e8 if the tables below are computed as a whole
    # the logistic function of a Gaussian with variance 200, by the usual approximation
    assert_allclose(near[0], [0.0, 1.0, 0.0], atol=1e-9)
    assert_allclose(near[1, 2], ndtr(1.0 / np.sqrt(200.0 + np.pi**2 / 3.0)), atol=1e-5)
