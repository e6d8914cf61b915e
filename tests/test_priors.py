"""Priors of the hyper-parameters: the objective, its gradient, and its maximum wherever and
however a model is trained.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from sklearn.base import clone

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, evidence_and_gradient, to_vector
from sparse_pep.priors import LogNormal, LogUniform, Normal, Uniform, limits_of, log_prior
from sparse_pep.training import LBFGS, Adam, TrainingOptions, train
from sparse_pep.training.lbfgs import Objective

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=40)
DATA = Rows(X, y)
MODEL = Model(SquaredExponential(1.0, [1.0, 1.0]), InducingPoints(X[:8]), Gaussian(0.1))
PRIORS = {
    "kernel.log_lengthscale": LogNormal([1.0, 3.0], 0.5),
    "kernel.log_variance": Normal(0.5, 1.0),
    "log_noise_variance": LogNormal(0.1, 1.0),
}
LIMITS = {
    "kernel.log_lengthscale": LogUniform([0.1, 0.1], [0.5, 3.0]),
    "log_noise_variance": Uniform(-9.0, -3.0),
}


def test_the_gradient_is_that_of_the_sum():
    model = replace(MODEL, priors=PRIORS)
    objective = Objective(
        model, lambda model: evidence_and_gradient(model, Problem(DATA)), fixed=("features.Z",)
    )
    at = objective.start + 0.1
    value, slope, fit = objective(at)
    log_density, _ = log_prior(PRIORS, objective.model_at(at).parameters())
    assert value == pytest.approx(fit.log_evidence + log_density, rel=1e-12)
    assert_allclose(
        slope, approx_fprime(at, lambda vector: objective(vector)[0], 1e-6), rtol=1e-3, atol=1e-4
    )


GIVEN = {"n_inducing": 5, "random_state": 0, "training": LBFGS(tol=1e-8), "fixed": ("features.Z",)}
ROUTES = {
    "arrays": {},
    "pieces": {},
    "blocks": {"blocks": 4},
    "tight": {"tight": True, "power": 0.0},
    "restarts": {"training": LBFGS(n_restarts=1), "n_inducing": "auto", "standardize": False},
    "held out": {"power": "held_out"},
    "batches": {"training": Adam(batch_size=20, learning_rate=0.1, n_epochs=80, tol=1e-2)},
}


@cache
def trained(route, name):
    """A model trained on this route with priors that have limits or none, and its log prior."""
    rows = (ArraySource(X, y, piece_rows=11),) if route == "pieces" else (X, y)
    priors = {"densities": PRIORS, "limits": LIMITS}[name]
    return SparsePEPRegressor(priors=priors, **GIVEN | ROUTES[route]).fit(*rows)


each_route = pytest.mark.parametrize(
    "route, name", [(route, name) for route in ROUTES for name in ("densities", "limits")]
)


def trained_parameters(model):
    """The parameters that were trained."""
    return {name: value for name, value in model.parameters().items() if name != "features.Z"}


@each_route
def test_training_ends_where_the_sum_is_largest_within_the_limits(route, name):
    model = trained(route, name)
    parameters = trained_parameters(model)
    _, of_prior = log_prior(model.priors_, parameters)
    gradient = model.log_marginal_likelihood_gradient()
    slope = to_vector({key: gradient[key] + of_prior[key] for key in parameters})
    low, high = limits_of(model.priors_, parameters)
    at = to_vector(parameters)
    assert np.all((low <= at) & (at <= high))
    assert np.any(at == high) == (name == "limits")
    assert np.max(np.abs(slope[at < high])) < (0.5 if route == "batches" else 0.05)
    assert np.all(slope[at == high] > 0.0)


@each_route
def test_a_model_says_its_log_prior(route, name):
    model = trained(route, name)
    value, _ = log_prior(model.priors_, trained_parameters(model))
    assert model.diagnostics_["log_prior"] == pytest.approx(value)
    assert "maximised the sum" in model.summary()


@each_route
def test_the_traces_end_at_the_sum_of_the_model(route, name):
    model = trained(route, name)
    diagnostics = model.diagnostics_
    last = diagnostics["log_evidence_trace"][-1] + diagnostics["log_prior_trace"][-1]
    objective = model.log_marginal_likelihood_value_ + diagnostics["log_prior"]
    assert abs(last - objective) < (1.0 if route == "batches" else 1e-3)


def test_the_best_start_is_that_of_the_largest_sum():
    narrow = replace(MODEL, priors={"kernel.log_lengthscale": LogNormal(0.05, 0.02)})
    result = train(
        narrow, Problem(DATA, jitter=1e-8), TrainingOptions(LBFGS(n_restarts=2, max_iter=50))
    )
    assert result.objective == pytest.approx(result.log_evidence + result.log_prior[-1])
    assert (
        result.objective
        >= train(narrow, Problem(DATA, jitter=1e-8), TrainingOptions(LBFGS(max_iter=50))).objective
    )


def test_later_data_copies_and_files_keep_the_priors(tmp_path):
    model = SparsePEPRegressor(priors="weak", **GIVEN).fit(X[:30], y[:30])
    assert clone(model).priors == "weak"
    assert model.priors_
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    before = repr(model.priors_)
    assert repr(again.priors) == before
    for one in (model, again):
        one.partial_fit(X[30:], y[30:])
        assert repr(one.priors_) == before
        assert "log_prior" in one.diagnostics_
    assert_allclose(to_vector(again.parameters()), to_vector(model.parameters()), rtol=1e-9)
    assert repr(clone(again.set_params(priors=PRIORS)).priors) == repr(PRIORS)


def test_what_is_not_trained_needs_no_prior():
    given = GIVEN | {
        "fixed": ("log_noise_variance",),
        "priors": {"log_noise_variance": Normal(3.0, 0.01)},
    }
    model = SparsePEPRegressor(noise_variance=0.01, **given).fit(X, y)
    assert model.noise_variance_ == pytest.approx(0.01)
    assert model.diagnostics_["log_prior"] == 0.0
    kept = SparsePEPRegressor(n_inducing=8, training=None, priors="weak").fit(X, y)
    assert "log_prior" not in kept.diagnostics_


def test_a_classifier_takes_priors():
    given = {
        "n_inducing": 4,
        "training": LBFGS(max_iter=5, tol=1e3),
        "priors": {"kernel.log_lengthscale": LogUniform(2.0, 9.0)},
    }
    model = SparsePEPClassifier(**given).fit(X, y > 0.0)
    assert np.min(model.kernel_.lengthscale) == pytest.approx(2.0)
