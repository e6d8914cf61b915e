"""Gaussian noise with a variance that is a latent function: what is predicted, and
its units.
"""

import numpy as np
import pytest
from numpy.random import default_rng
from reference import quantiles as exact
from reference.compare import error

from sparse_pep import SparsePEP
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import HeteroscedasticGaussian
from sparse_pep.training import LBFGS

LIKELIHOOD = HeteroscedasticGaussian(0.3, 0.8)


@pytest.mark.parametrize("q", [0.05, 0.8])
def test_quantiles_are_those_of_the_exact_distribution(q):
    mean = np.array([[0.4], [-0.7]])
    var = np.array([[0.3], [1.2]])
    (y,) = LIKELIHOOD.quantile(q, mean, var)
    assert (
        exact.noise_cdf(LIKELIHOOD, y - 1e-6, mean[:, 0], var[:, 0])
        < q
        < exact.noise_cdf(LIKELIHOOD, y + 1e-6, mean[:, 0], var[:, 0])
    )


@pytest.mark.parametrize("power", [0.0, 1e-12, 0.5, 1.0])
def test_finite_for_every_cavity(power):
    grid = np.meshgrid(
        [-2.0, 7.0],
        [-1e6, 0.0, 1e3],
        [-1e6, -1.0, 0.0, 1e3],
        [1e-300, 1e-12, 1.0, 1e8],
        [1e-300, 1e-12, 1.0, 1e8],
    )
    y, *cavity = (axis.ravel() for axis in grid)
    found = LIKELIHOOD.tilted(y, np.stack(cavity[:2]), np.stack(cavity[2:]), power)
    assert all(np.all(np.isfinite(part)) for part in found)
    assert np.all(found.error <= 1.0)
    # as in a line search: no error
    HeteroscedasticGaussian(1.0, 5e4).tilted(
        y, 1e39 * np.stack(cavity[:2]), np.stack(cavity[2:]), power
    )


def test_samples_have_the_predicted_moments():
    f = np.repeat([[0.5], [1.2]], 40_000, axis=1)
    mean, var = LIKELIHOOD.predict(f[:, :1], np.zeros((2, 1)))
    draws = LIKELIHOOD.sample(f, default_rng(0))
    assert abs(draws.mean() - mean[0]) < 5.0 * np.sqrt(var[0] / 40_000)
    assert abs(draws.var() / var[0] - 1.0) < 5.0 * np.sqrt(2.0 / 40_000)
    spread = np.array([[0.7], [0.9]])
    g = 1.2 + np.sqrt(0.9) * default_rng(1).normal(size=400_000)
    assert LIKELIHOOD.predict(f[:, :1], spread)[1][0] == pytest.approx(
        0.7 + LIKELIHOOD.noise(g).mean(), rel=0.01
    )


def test_only_the_mean_has_the_units_of_y():
    """A model of (y - 5)/3 is that of y with parameters in other units; g has none."""
    rng = default_rng(0)
    X = rng.uniform(0.0, 5.0, (40, 1))
    X, y = (X - X.mean()) / X.std(), np.sin(X[:, 0]) * (1.0 + 0.3 * rng.normal(size=40))
    y = (y - np.mean(y)) / np.std(y)
    given = {
        "likelihood": LIKELIHOOD,
        "kernel": SquaredExponential(1.0, 1.0),
        "training": None,
        "features": InducingPoints(X[::5]),
        "random_state": 0,
    }
    plain, scaled = (
        SparsePEP(**given, standardize=other).fit(X, 5.0 + 3.0 * y if other else y)
        for other in (False, True)
    )
    mean, var = plain.predict_f(X)
    found = scaled.predict_f(X)
    assert error(found[0], mean * [3.0, 1.0] + [5.0, 0.0]) < 1e-9
    assert error(found[1], var * [9.0, 1.0]) < 1e-9
    assert error(scaled.sample_f(X[:4])[:, 1], plain.sample_f(X[:4])[:, 1]) < 1e-6
    assert (
        error(scaled.leave_one_out_f()[0][:, 0], 5.0 + 3.0 * plain.leave_one_out_f()[0][:, 0])
        < 1e-9
    )
    assert (
        error(
            scaled.predict_log_density(X, 5.0 + 3.0 * y),
            plain.predict_log_density(X, y) - np.log(3.0),
        )
        < 1e-9
    )
    mean, std = scaled.predict(X, return_std=True)
    assert error(mean, found[0][:, 0]) < 1e-12
    assert np.all(std**2 > found[1][:, 0])


def test_the_summary_says_that_the_posterior_is_a_product():
    rng = default_rng(0)
    X = rng.uniform(0, 3, (20, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=20)
    model = SparsePEP(
        likelihood=HeteroscedasticGaussian(), n_inducing=4, training=LBFGS(max_iter=2)
    )
    assert "their correlation is lost" in model.fit(X, y).summary()
