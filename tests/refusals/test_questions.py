"""Questions to an estimator that are refused: before a fit, or with arguments out of range."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sparse_pep import plots, report
from sparse_pep.estimators import SparsePEPRegressor

from .checks import NAN, X, cases, changed, estimator, fitted, refused, y

UNFITTED = {
    "predict": [X],
    "predict_f": [X],
    "predict_proba": [X],
    "sample_y": [X],
    "save": ["m.npz"],
    "summary": [],
    "parameters": [],
    "score": [X, y],
    "log_marginal_likelihood": [],
    "predict_log_density": [X, y],
    "log_marginal_likelihood_gradient": [],
    "leave_one_out": [],
    "add_inducing": [1],
    "log_marginal_likelihood_bounds": [],
    "sample_functions": [],
    "sensitivity": [],
}


@pytest.mark.parametrize("name", UNFITTED)
def test_questions_before_a_fit(name):
    model = estimator("classifier" if "proba" in name else "regressor")
    refused(lambda: getattr(model, name)(*UNFITTED[name]), "not fitted", NotFittedError)


def test_parts_before_a_fit():
    refused(lambda: estimator().noise_variance_, "not fitted", NotFittedError)
    refused(lambda: plots.plot_posterior_2d(estimator(), X, y), "not fitted", NotFittedError)


SIZES = (0, -1, 1.5, "two", None, NAN, True, [2])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "name, kind",
    [("sample_f", "regressor"), ("sample_y", "classifier"), ("sample_y", "counts")],
)
def test_numbers_of_samples(name, kind, size):
    refused(lambda: getattr(fitted(kind), name)(X, n_samples=size), "`n_samples`")


@pytest.mark.parametrize("size", SIZES)
def test_numbers_of_functions(size):
    refused(lambda: fitted().sample_functions(size), "`n`")


N_PARAMETERS = 8 + 3  # entries of Z, and of the kernel and the noise


@pytest.mark.parametrize(
    "theta, sketch",
    [
        (np.zeros(2), f"`theta` ... {N_PARAMETERS}"),
        (np.full(N_PARAMETERS, NAN), "`theta` ... finite"),
        (np.full(N_PARAMETERS, 1e4), "`theta`"),
        (np.zeros((N_PARAMETERS, 1)), "`theta`"),
    ],
)
def test_parameters_of_the_evidence(theta, sketch):
    refused(lambda: fitted().log_marginal_likelihood(theta), sketch)


@cases(
    {
        "a level": (lambda: fitted().predict_interval(X, 90), "`level` ... between 0 and 1 ... 90"),
        "a quantile": (
            lambda: fitted().predict_quantiles(X, [0.5, 1.0]),
            "`q` ... between 0 and 1",
        ),
        "std and cov": (
            lambda: fitted().predict(X, return_std=True, return_cov=True),
            "`return_std` ... `return_cov`",
        ),
        "seed of samples": (lambda: fitted().sample_y(X, random_state="a"), "`random_state`"),
        "an unknown parameter": (lambda: SparsePEPRegressor().set_params(alpha=1.0), "'alpha'"),
        "report of NaN": (
            lambda: report.fit_report(fitted(), changed(X, (2, 0), NAN), y),
            "X ... row 2",
        ),
        "plot on one axes": (lambda: plots.plot_posterior_2d(fitted(), X, y, axes=3), "`axes`"),
        "plot on no axes": (lambda: plots.plot_residuals(y, y, y**2 + 1, ax="a"), "`ax`"),
        "plot with a negative margin": (
            lambda: plots.plot_posterior_2d(fitted(), X, y, margin=-1.0),
            "`margin`",
        ),
    }
)
def test_arguments_of_questions(case):
    refused(*case)


def test_thresholds_of_classes():
    words = "`predict_proba(X)` has the probability of each class"
    refused(lambda: fitted("classifier").predict_probability(X, above=1.0), words)


@pytest.mark.parametrize("n_draws", SIZES)
def test_numbers_of_draws_of_sensitivity(n_draws):
    refused(lambda: fitted("regressor").sensitivity(n_draws=n_draws), "`n_draws` must be")


def test_rows_of_sensitivity():
    refused(lambda: fitted("regressor").sensitivity([[1.0, 2.0, 3.0, 4.0, 5.0]]), "features")
