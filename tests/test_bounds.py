"""The tight form of the energy: exact numbers, dense references, and estimators that
use it.
"""

from dataclasses import replace

import numpy as np
import pytest
from reference import dense
from reference.compare import error, gradient_error
from reference.problems import (
    GRADIENTS,
    KERNELS,
    RandomProblem,
    SearchedGaussian,
    described,
    labels_of,
)

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.features import GaussianBlur, InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.likelihoods import Gaussian, Poisson, Probit
from sparse_pep.means import ConstantMean
from sparse_pep.model import (
    Model,
    model_evidence,
    model_gradient,
    model_leave_one_out,
    model_predict,
)
from sparse_pep.regression import evidence
from sparse_pep.sites import q_moments
from sparse_pep.training import LBFGS, Adam


def moments_of(model, fit, X_test):
    """The moments of u and of f, under the names of the file."""
    values = *q_moments(fit.posteriors[0]), *model_predict(model, fit.posteriors, X_test)
    return dict(zip(("q_mean", "q_cov", "f_mean", "f_var"), values, strict=True))


def as_in_the_file(gradient, expected):
    """The derivatives that the file has, under its names and in its shapes."""
    return {
        name: gradient[GRADIENTS[name]].reshape(np.shape(value)) for name, value in expected.items()
    }


def gaussian_model(problem):
    """The model of a problem with Gaussian noise, and its rows without blocks; all noise beyond
    the least is known.
    """
    kernel, X, y, Z, _ = described(problem)
    noise = np.array(problem["noise_var"])
    features = InducingPoints(Z)
    if problem["features"]:
        features = GaussianBlur(Z, problem["features"]["widths"])
    weight = 1.0 if problem["weights"] is None else np.array(problem["weights"])
    rows = Rows(X, y, weight, noise - noise.min())
    return Model(kernel, features, Gaussian(noise.min())), rows


def tight_cases(problem):
    return [case for case in problem["cases"] if case["method"] in ("t", "bt", "tpep")]


def check_exact_numbers(problem, case):
    model, rows = gaussian_model(problem)
    if case.get("use_blocks"):
        rows = rows._replace(blocks=labels_of(problem["blocks"]))
    fit, gradient = model_gradient(model, Problem(rows, case.get("alpha", 0.0), tight=True))
    assert abs(fit.log_evidence / case["logZ"] - 1) < 1e-8
    moments = moments_of(model, fit, np.array(problem["Xtest"]))
    moments["q_mean"] = moments["q_mean"].T  # (K, M) of K outputs, as in the file
    for name, value in moments.items():
        assert error(value, case[name]) < 1e-8
    expected = {name: case["grad"][name] for name in GRADIENTS if name in case["grad"]}
    assert gradient_error(as_in_the_file(gradient, expected), expected) < 1e-8
    of_noise = model.likelihood.noise_variance * np.sum(case["grad"]["noise_var"])
    assert error(gradient["log_noise_variance"], of_noise) < 1e-8


def test_exact_numbers(beyond):
    cases = [(problem, case) for problem in beyond["gaussian"] for case in tight_cases(problem)]
    assert len(cases) == 20
    for problem, case in cases:
        check_exact_numbers(problem, case)


def test_exact_numbers_with_one_scale_for_the_conditional(beyond):
    likelihoods = {"probit": Probit(), "poisson": Poisson()}
    assert {problem["likelihood"] for problem in beyond["scalar_v"]} == likelihoods.keys()
    for problem in beyond["scalar_v"]:
        kernel, X, y, Z, X_test = described(problem)
        expected = problem["tight"]
        model = Model(kernel, InducingPoints(Z), likelihoods[problem["likelihood"]])
        fit, gradient = model_gradient(model, Problem(Rows(X, y), 0.0, tight=True))
        found = moments_of(model, fit, X_test) | {
            "v": fit.scale[0, 0],
            "logZ": fit.log_evidence,
            "tau": fit.site_precision[0],
            "nu": fit.site_shift[0],
        }
        for name, value in found.items():
            assert error(value, expected[name]) < 1e-6, name
        found = as_in_the_file(gradient, expected["grad"])
        assert gradient_error(found, expected["grad"]) < 1e-6
        assert fit.log_evidence > model_evidence(model, Problem(Rows(X, y), 0.0)).log_evidence + 1.0


def test_one_scale_for_gaussian_noise_is_the_spherical_bound():
    """Which takes the mean of the ratios of unexplained variance to noise for each of them."""
    p = RandomProblem(3, 12, 3, 2)
    noise = float(p.model.likelihood.noise_variance)
    model = replace(p.model, likelihood=SearchedGaussian(noise))
    start = model_evidence(model, Problem(Rows(p.X, p.y), 0.0)).start
    # from sites that do not change
    fit = model_evidence(model, Problem(Rows(p.X, p.y), 0.0, tight=True), start=start)
    plain = evidence(*p.arrays(), p.y, noise, 0.0)
    ratios = plain.dff / noise
    spherical = plain.log_evidence + 0.5 * (ratios.sum() - 12 * np.log1p(ratios.mean()))
    assert error(fit.log_evidence, spherical, 12 + abs(spherical)) < 1e-9
    assert spherical > plain.log_evidence + 0.1


rng = np.random.default_rng(5)
N = 24
X = rng.normal(size=(N, 2))
LABELS = np.arange(N) // 3
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.3 * rng.normal(size=(N, 2))
POWER = rng.uniform(size=N)[LABELS]
KNOWN = rng.uniform(size=N)
MODEL = Model(
    KERNELS["se"](1.2, [0.9, 1.3]),
    InducingPoints(X[:5] + 0.1),
    Gaussian(0.2),
    ConstantMean([0.2, -0.1]),
)


LEARN = {
    "n_inducing": 4,
    "tight": True,
    "training": LBFGS(max_iter=3),
    "standardize": False,
    "random_state": 0,
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"power": 0.0, "blocks": 4},
        {"training": LBFGS(max_iter=3, n_restarts=1)},
        {"training": Adam(n_epochs=1, batch_size=12)},
        {"power": "held_out"},
    ],
    ids=str,
)
def test_the_estimator_trains_and_reports_the_tight_form(more):
    # rows that are equal are not merged, because they would be blocks
    twice = np.r_[np.arange(N), :4]
    model = SparsePEPRegressor(**LEARN | more).fit(
        X[twice], Y[twice, 0], known_variance=KNOWN[twice]
    )
    rows = Rows(X[twice], Y[twice, 0], 1.0, KNOWN[twice], blocks=model._state.settings.blocks)
    problem = Problem(rows, model.power_, tight=True, jitter=1e-8)
    fit, gradient = model_gradient(model._state.model, problem)
    assert error(model.log_marginal_likelihood_value_, fit.log_evidence) < 1e-12
    trace = model.diagnostics_["log_evidence_trace"]
    assert trace[-1] > trace[0]
    assert isinstance(model.training, Adam) or error(trace[-1], fit.log_evidence) < 1e-9
    assert "tight form" in model.summary()
    model.set_params(tight=False)  # a fitted model stays as it is
    assert gradient_error(model.log_marginal_likelihood_gradient(), gradient) < 1e-9
    expected = model_leave_one_out(model._state.model, fit, problem)
    assert error(model.leave_one_out(), expected) < 1e-9


def test_later_data_and_bounds_have_the_tight_form():
    given = {
        "features": MODEL.features,
        "kernel": MODEL.kernel,
        "training": None,
        "noise_variance": 0.2,
    }
    whole = SparsePEPRegressor(**given, power=0.3, tight=True).fit(X, Y[:, 0])
    parts = (
        SparsePEPRegressor(**given, power=0.3, tight=True)
        .fit(X[:9], Y[:9, 0])
        .partial_fit(X[9:], Y[9:, 0])
    )
    assert error(parts.log_marginal_likelihood_value_, whole.log_marginal_likelihood_value_) < 1e-9
    for blocks in (None, 4):
        bound = SparsePEPRegressor(
            **given, power=0.0, blocks=blocks, tight=True, random_state=0
        ).fit(X, Y[:, 0])
        other = SparsePEPRegressor(**given, power=0.7, blocks=blocks, random_state=0).fit(
            X, Y[:, 0]
        )
        low, _ = other.log_marginal_likelihood_bounds()
        assert error(low, bound.log_marginal_likelihood_value_) < 1e-12
        assert low < dense.exact_log_evidence(MODEL.kernel(X), Y[:, 0], 0.2)


def test_the_classifier_has_the_tight_form_at_power_0_only():
    labels = X[:, 0] > 0.0
    given = {"n_inducing": 2, "training": None, "random_state": 0}
    plain, tight = (
        SparsePEPClassifier(power=0.0, tight=tight, **given).fit(X, labels)
        for tight in (False, True)
    )
    assert tight.log_marginal_likelihood_value_ > plain.log_marginal_likelihood_value_ + 0.1
    for more in (
        {"power": 0.5},
        {"power": POWER},
        {"power": 0.0, "blocks": 3},
        {"power": 0.0, "training": "adam"},
    ):
        with pytest.raises(ValueError, match="`tight=True` needs Gaussian noise"):
            SparsePEPClassifier(tight=True, **given | more).fit(X, labels)
