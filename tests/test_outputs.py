"""Codes as inputs: correlated outputs, targets with gaps, and inducing inputs that keep their
codes.
"""

from functools import cache

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from reference.compare import error
from scipy.stats import multivariate_normal
from sklearn.base import clone

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import (
    Categorical,
    Coregion,
    Matern32,
    SquaredExponential,
    output_rows,
    stack_outputs,
    unstack_outputs,
)
from sparse_pep.likelihoods import Gaussian, GroupedGaussian
from sparse_pep.model import Model, model_evidence
from sparse_pep.training import LBFGS, Adam
from sparse_pep.training.run import perturbed

RNG = default_rng(0)
X = RNG.uniform(0.0, 6.0, (40, 2))
F = np.sin(X[:, 0]) + 0.3 * X[:, 1]
Y = np.column_stack([F, -0.8 * F]) + 0.1 * RNG.normal(size=(40, 2))
GAPS = Y.copy()
GAPS[:5, 0] = GAPS[X[:, 0] > 3.0, 1] = np.nan
ROWS, ALL = stack_outputs(X, GAPS)
KERNEL = Matern32(1.0, 2.0) * Coregion(n_outputs=2, rank=1, active_dims=[2])
FIXED = ["kernel.0.log_variance"]


def regressor(**arguments):
    return SparsePEPRegressor(
        **{
            "kernel": KERNEL,
            "n_inducing": 15,
            "noise_variance": 0.05,
            "random_state": 0,
            "fixed": FIXED,
            "training": LBFGS(max_iter=100, tol=1e-3),
        }
        | arguments
    )


def test_evidence_is_that_of_the_dense_process_with_correlated_outputs():
    outputs = Coregion(weights=[[0.9, 0.2], [-0.5, 0.4]], variance=[0.3, 0.1], active_dims=[2])
    own = Matern32(1.0, [1.5, 2.5], active_dims=[0, 1])
    fit = model_evidence(
        Model(own * outputs, InducingPoints(ROWS), Gaussian(0.1)),
        Problem(Rows(ROWS, ALL)),
    )
    seen = ~np.isnan(GAPS.T.ravel())
    dense = np.kron(outputs.covariance, Matern32(1.0, [1.5, 2.5])(X))[np.ix_(seen, seen)]
    assert (
        error(fit.log_evidence, multivariate_normal.logpdf(ALL, cov=dense + 0.1 * np.eye(len(ALL))))
        < 1e-7
    )


def test_an_output_with_gaps_learns_from_the_other(tmp_path):
    model = regressor().fit(ROWS, ALL)
    assert model.kernel_.kernels[0].active_dims == (0, 1)
    assert set(model.features_.Z[:, 2]) == {
        0.0,
        1.0,
    }
    missing = np.isnan(GAPS[:, 1])
    predicted = unstack_outputs(model.predict(output_rows(X, 2)), 2)
    alone = (
        regressor(kernel=Matern32(1.0, 2.0), fixed=())
        .fit(X[~missing], GAPS[~missing, 1])
        .predict(X[missing])
    )
    ours, theirs = (
        np.sqrt(np.mean((part - Y[missing, 1]) ** 2)) for part in (predicted[missing, 1], alone)
    )
    assert ours < 0.2 < 0.4 < theirs
    covariance = model.kernel_.kernels[1].covariance
    assert covariance[0, 1] < -0.8 * np.sqrt(np.prod(np.diag(covariance)))
    model.save(tmp_path / "m.npz")
    assert_array_equal(load(tmp_path / "m.npz").predict(ROWS), model.predict(ROWS))


TRAININGS = {
    "standardize": {"standardize": True},
    "source": {"standardize": True},
    "adam": {"training": Adam(batch_size=20, n_epochs=10)},
    "auto": {"n_inducing": "auto"},
    "named twice": {  # the code is also a number
        "kernel": SquaredExponential(active_dims=[0, 2]) * Categorical(active_dims=[2]),
        "fixed": (),
    },
    "classes": {"standardize": True, "n_inducing": 8, "training": None},
}


@pytest.mark.parametrize("way", TRAININGS)
def test_inducing_inputs_keep_codes_however_they_are_trained(way):
    arguments = {"training": LBFGS(max_iter=25, tol=10.0)} | TRAININGS[way]
    if way == "classes":
        model = SparsePEPClassifier(kernel=KERNEL, **arguments).fit(ROWS, ALL > 0)
    elif way == "source":
        model = regressor(**arguments).fit(ArraySource(ROWS, ALL, piece_rows=20))
    else:
        model = regressor(**arguments).fit(ROWS, ALL)
    assert set(model.features_.Z[:, 2]) == {0.0, 1.0}
    assert model.x_mean_[2] == 0.0
    assert model.x_scale_[2] == 1.0
    assert np.any(model.x_mean_[:2]) == ("standardize" in arguments)
    assert np.all(np.isfinite(model.predict(ROWS)))


BLOCKS = np.arange(len(ALL)) // 4


NOT_TRAINED = {"training": None, "standardize": True, "features": InducingPoints(ROWS[::5])}
WAYS = {  # arguments of the model
    "rows": {},
    "standardize": {"kernel": Matern32(active_dims=[0, 1]), "fixed": ()},
    "blocks": {"blocks": BLOCKS},
    "neighbours": {"local": 20},
    "pieces": {},
    "later rows": {},
    "adam": {
        "training": Adam(batch_size=30, n_epochs=2),
        "fixed": [*FIXED, "log_noise_variance"],
        "standardize": False,
    },
}
GROUPED = GroupedGaussian((0.05, 0.2), 2)


def further_noise(way):
    """The noise of output 1 beyond that of output 0, in units of the targets."""
    return 0.15 * ROWS[:, 2] * (1.0 if way == "adam" else np.var(ALL))


@cache
def noise_of_each_output(way):
    """A model with noise variances 0.05 and 0.2, and one with 0.05 everywhere and another 0.15,
    which is known, for output 1.
    """
    arguments = NOT_TRAINED | WAYS[way]
    models = regressor(noise_variance=GROUPED, **arguments), regressor(**arguments)
    for model, known in zip(models, (None, further_noise(way)), strict=True):
        if way == "pieces":
            columns = {} if known is None else {"known_variance": known}
            model.fit(ArraySource(ROWS, ALL, **columns, piece_rows=20))
        else:
            model.fit(ROWS, ALL, known_variance=known)
        if way == "later rows":
            later = None if known is None else known[:20]
            model.partial_fit(ROWS[:20], ALL[:20], known_variance=later)
    return models


each_way = pytest.mark.parametrize("way", WAYS)


@each_way
def test_the_evidence_of_a_noise_for_each_output_is_that_of_known_noise(way):
    grouped, plain = noise_of_each_output(way)
    evidences = grouped.log_marginal_likelihood_value_, plain.log_marginal_likelihood_value_
    assert error(*evidences) < 1e-10
    assert error(grouped.leave_one_out(), plain.leave_one_out()) < 1e-8


@each_way
def test_densities_have_the_noise_of_their_output(way, tmp_path):
    grouped, plain = noise_of_each_output(way)
    grouped.save(tmp_path / "m.npz")
    expected = plain.predict_log_density(ROWS, ALL, further_noise(way))
    for model in (grouped, load(tmp_path / "m.npz")):
        assert error(model.predict_log_density(ROWS, ALL), expected) < 1e-8


@each_way
def test_predictions_have_the_noise_of_their_output(way):
    grouped, plain = noise_of_each_output(way)
    rows = ArraySource(ROWS, ALL, piece_rows=30) if way == "pieces" else ROWS
    mean, std = grouped.predict(rows, return_std=True)
    plain_mean, plain_std = plain.predict(ROWS, return_std=True)
    assert error(mean, plain_mean) < 1e-8
    assert error(std**2, plain_std**2 + further_noise(way)) < 1e-8
    cov = grouped.predict(ROWS, return_cov=True)[1]
    assert error(np.diag(cov), std**2) < 1e-8


@each_way
def test_the_noise_of_each_output_is_told_in_units_of_the_targets(way):
    grouped, _ = noise_of_each_output(way)
    assert error(grouped.noise_std_, grouped.y_scale_ * np.sqrt([0.05, 0.2])) < 1e-12


@pytest.mark.parametrize(
    "way",
    [
        {"training": LBFGS(tol=0.1)},
        {"training": Adam(batch_size=30, learning_rate=0.1, n_epochs=30)},
    ],
)
def test_the_noise_of_each_output_is_trained(way):
    noisy = ALL + 0.5 * ROWS[:, 2] * default_rng(3).normal(size=len(ALL))
    low, high = (
        regressor(noise_variance=GroupedGaussian((0.1, 0.1), 2), **way).fit(ROWS, noisy).noise_std_
    )
    assert low < 0.25 < 0.4 < high < 0.7


def test_a_restart_can_change_the_signs_of_the_weights():
    model = Model(KERNEL, InducingPoints(ROWS[::6]), Gaussian(0.1))
    weights = np.array(
        [perturbed(model, default_rng(seed)).kernel.kernels[1].weights[:, 0] for seed in range(40)]
    )
    at = KERNEL.kernels[1].weights[:, 0]
    assert np.all(weights != at)
    assert np.all(np.abs(weights.mean(axis=0) / at - 1.0) < 0.5)
    assert 0.05 < np.mean(np.prod(weights, axis=1) < 0.0) < 0.5
    kept = perturbed(model, default_rng(0), {"kernel.1.weights"})
    assert_array_equal(kept.kernel.kernels[1].weights[:, 0], at)
    assert kept.kernel.kernels[1].variance[0] != KERNEL.kernels[1].variance[0]


ONE_OUTPUT = SparsePEPRegressor(n_inducing=8, random_state=0, training=LBFGS(max_iter=20))
ANSWERS = {
    "predict": lambda model: model.predict(X),
    "leave_one_out": lambda model: model.leave_one_out(),
    "leave_one_out_f": lambda model: np.stack(model.leave_one_out_f()),
    "sample_f": lambda model: model.sample_f(X[:5], 3),
    "sample_y": lambda model: model.sample_y(X[:5], 3),
    "site_shift_": lambda model: model.site_shift_,
    "site_precision_": lambda model: model.site_precision_,
}
SHAPES = {
    "predict": (40, 1),
    "leave_one_out": (40,),
    "leave_one_out_f": (2, 40, 1),
    "sample_f": (5, 1, 3),
    "sample_y": (5, 1, 3),
    "site_shift_": (40, 1),
    "site_precision_": (40,),
}


@cache
def fitted_to_one_output(column):
    model = clone(ONE_OUTPUT)
    targets = Y[:, :1] if column else Y[:, 0]
    return model.fit(X, targets)


@pytest.mark.parametrize("question", ANSWERS)
def test_a_table_of_one_target_has_the_answers_of_that_target(question):
    of_column = ANSWERS[question](fitted_to_one_output(True))
    alone = ANSWERS[question](fitted_to_one_output(False))
    assert of_column.shape == SHAPES[question]
    assert error(of_column.ravel(), alone.ravel()) < 1e-12


def test_the_exact_process_for_a_table_of_one_target_is_that_for_the_target():
    scores = []
    for targets in (Y[:, 0], Y[:, :1]):
        model = clone(ONE_OUTPUT).set_params(n_inducing="auto").fit(X, targets)
        scores.append(list(model.diagnostics_["exact"].values()))
    assert error(*np.array(scores)) < 1e-12


@pytest.mark.parametrize(
    "wrong, words",
    [
        (
            lambda: GroupedGaussian((0.1,), 2),
            "`noise_variance` must be a positive number for each of two codes",
        ),
        (
            lambda: GroupedGaussian((0.1, 0.1), 3).at(ROWS),
            "`column` 3 of the codes is not there: X has 3 columns",
        ),
        (
            lambda: regressor(noise_variance=GroupedGaussian((0.1, 0.1), 0)).fit(ROWS, ALL),
            "column 0 must hold the codes 0, …, 1 of the noise variances",
        ),
        (
            lambda: regressor(noise_variance=[0.1, 0.1]).fit(ROWS, ALL),
            "`noise_variance` must be a positive number",
        ),
        (
            lambda: SparsePEP(likelihood=GroupedGaussian((0.1, 0.2), 2)).fit(ROWS, ALL),
            "use SparsePEPRegressor, with this as its `noise_variance`",
        ),
        (lambda: Coregion(), "`n_outputs` of Coregion must be a whole number"),
        (lambda: Coregion(2, rank=3), "`rank` of Coregion"),
        (lambda: Coregion(3, weights=np.ones((2, 1))), "n_outputs` 3"),
        (lambda: Coregion(2, variance=[1.0, 1.0, 1.0]), "`variance`"),
        (lambda: Coregion(2, weights=[[np.nan], [1.0]]), "`weights`"),
        (lambda: Coregion(2)(X), "name it, such as `active_dims=\\[1\\]`"),
        (
            lambda: KERNEL(ROWS + 0.5, ROWS),
            "column 2 must hold the codes 0, …, 1 of Coregion; got 0.5",
        ),
        (lambda: KERNEL.diag(np.column_stack([X, np.full(40, 2.0)])), "got 2.0"),
        (lambda: Categorical(correlation=1.0), "`correlation` of Categorical"),
        (lambda: stack_outputs(X, Y[:, 0]), "`Y` must have a row for each of the 40 rows"),
        (lambda: regressor().fit(X, GAPS), "stack_outputs"),
        (lambda: regressor().fit(np.column_stack([X, X[:, 0]]), Y[:, 0]), "must hold the codes"),
    ],
)
def test_what_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
