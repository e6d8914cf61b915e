"""Codes as inputs: correlated outputs, targets with gaps, and inducing inputs that keep their codes."""

import numpy as np
import pytest
from reference.compare import error
from scipy.stats import multivariate_normal

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import (
    Categorical,
    Coregion,
    Matern32,
    SphericalMatern32,
    SquaredExponential,
    output_rows,
    stack_outputs,
    unstack_outputs,
)
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_evidence
from sparse_pep.shards import Piece
from sparse_pep.training import kmeans_points

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 6.0, size=(40, 2))
F = np.sin(X[:, 0]) + 0.3 * X[:, 1]
Y = np.column_stack([F, -0.8 * F]) + 0.1 * RNG.normal(size=(40, 2))
GAPS = Y.copy()
GAPS[:5, 0] = GAPS[X[:, 0] > 3.0, 1] = np.nan
ROWS, ALL = stack_outputs(X, GAPS)
KERNEL = Matern32(1.0, 2.0) * Coregion(n_outputs=2, rank=1, active_dims=[2])
FIXED = ["kernel.0.log_variance"]


def regressor(**arguments):
    return SparsePEPRegressor(**{"kernel": KERNEL, "n_inducing": 15, "noise_variance": 0.05, "random_state": 0, "fixed": FIXED, "max_iter": 100, "tol": 1e-3} | arguments)


def test_evidence_is_that_of_the_dense_process_with_correlated_outputs():
    outputs = Coregion(weights=[[0.9, 0.2], [-0.5, 0.4]], variance=[0.3, 0.1], active_dims=[2])
    own = Matern32(1.0, [1.5, 2.5], active_dims=[0, 1])
    fit = model_evidence(Model(own * outputs, InducingPoints(ROWS), Gaussian(0.1)), Piece(0, ROWS, ALL), 0.5, 0.0)
    seen = ~np.isnan(GAPS.T.ravel())
    dense = np.kron(outputs.covariance, Matern32(1.0, [1.5, 2.5])(X))[np.ix_(seen, seen)]
    assert error(fit.log_evidence, multivariate_normal.logpdf(ALL, cov=dense + 0.1 * np.eye(len(ALL)))) < 1e-7


def test_outputs_without_shared_functions_are_separate():
    alone = Matern32(1.0, 2.0)
    both = Matern32(1.0, 2.0, active_dims=[0, 1]) * Coregion(weights=np.zeros((2, 1)), variance=1.0, active_dims=[2])

    def height(kernel, Z, rows, y):
        return model_evidence(Model(kernel, InducingPoints(Z), Gaussian(0.1)), Piece(0, rows, y), 0.5, 0.0).log_evidence

    apart = [height(alone, X[:9], *(part[~np.isnan(y)] for part in (X, y))) for y in GAPS.T]
    assert error(height(both, output_rows(X[:9], 2), ROWS, ALL), sum(apart)) < 1e-10


def test_an_output_with_gaps_learns_from_the_other(tmp_path):
    model = regressor().fit(ROWS, ALL)
    assert model.kernel_.kernels[0].active_dims == (0, 1)
    assert set(model.features_.Z[:, 2]) == {0.0, 1.0}
    missing = np.isnan(GAPS[:, 1])
    predicted = unstack_outputs(model.predict(output_rows(X, 2)), 2)
    alone = regressor(kernel=Matern32(1.0, 2.0), fixed=()).fit(X[~missing], GAPS[~missing, 1]).predict(X[missing])
    ours, theirs = (np.sqrt(np.mean((part - Y[missing, 1]) ** 2)) for part in (predicted[missing, 1], alone))
    assert ours < 0.2 < 0.4 < theirs
    covariance = model.kernel_.kernels[1].covariance
    assert covariance[0, 1] < -0.8 * np.sqrt(np.prod(np.diag(covariance)))
    model.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(load(tmp_path / "m.npz").predict(ROWS), model.predict(ROWS))


@pytest.mark.parametrize("way", ["standardize", "source", "adam", "auto", "named twice", "classes"])
def test_inducing_inputs_keep_codes_however_they_are_trained(way):
    kind, rows, y, arguments = regressor, ROWS, ALL, {"max_iter": 25, "tol": 10.0}
    if way == "standardize":
        arguments |= {"standardize": True}
    if way == "source":
        rows, y, arguments = ArraySource(ROWS, ALL, piece_rows=20), None, {"standardize": True} | arguments
    if way == "adam":
        arguments |= {"optimizer": "adam", "n_epochs": 10, "batch_size": 20}
    if way == "auto":
        arguments |= {"n_inducing": "auto", "max_inducing": 30}
    if way == "named twice":  # the code is also a number
        arguments |= {"kernel": SquaredExponential(active_dims=[0, 2]) * Categorical(active_dims=[2]), "fixed": ()}
    if way == "classes":
        kind, y, arguments = SparsePEPClassifier, ALL > 0, {"kernel": KERNEL, "standardize": True, "n_inducing": 8, "optimizer": None}
    model = kind(**arguments).fit(rows, y)
    assert set(model.features_.Z[:, 2]) == {0.0, 1.0}
    assert model.x_mean_[2] == 0.0 and model.x_scale_[2] == 1.0
    assert np.any(model.x_mean_[:2]) == ("standardize" in arguments)
    assert np.all(np.isfinite(model.predict(ROWS)))


def test_cluster_centres_have_the_codes_of_rows_near_them():
    rows = np.column_stack([RNG.normal(size=300), RNG.integers(0, 4, size=300)])
    Z = kmeans_points(rows, 12, np.random.default_rng(0), codes=(1,))
    assert len(Z) == 12 and set(Z[:, 1]) <= {0.0, 1.0, 2.0, 3.0}
    nearest = np.argmin(np.abs(rows[:, :1] - Z[:, 0]) + 1e6 * (rows[:, 1:] != Z[:, 1]), axis=0)
    assert np.max(np.abs(rows[nearest] - Z)) < 0.5


def test_places_keep_their_degrees():
    places = np.column_stack([RNG.uniform(-80, 80, 30), RNG.uniform(-170, 170, 30), RNG.normal(5.0, 2.0, 30)])
    kernel = SphericalMatern32(active_dims=[0, 1]) * SquaredExponential()
    model = SparsePEPRegressor(kernel=kernel, standardize=True, n_inducing=5, optimizer=None).fit(places, places[:, 2])
    assert model.kernel_.kernels[1].active_dims == (2,)
    np.testing.assert_array_equal(model.x_scale_ == 1.0, [True, True, False])


@pytest.mark.parametrize(
    "wrong, words",
    [
        (lambda: Coregion(), "`n_outputs` of Coregion must be a whole number"),
        (lambda: Coregion(2, rank=3), "`rank` of Coregion"),
        (lambda: Coregion(3, weights=np.ones((2, 1))), "n_outputs` 3"),
        (lambda: Coregion(2, variance=[1.0, 1.0, 1.0]), "`variance`"),
        (lambda: Coregion(2, weights=[[np.nan], [1.0]]), "`weights`"),
        (lambda: Coregion(2)(X), "name it, such as `active_dims=\\[1\\]`"),
        (lambda: KERNEL(ROWS + 0.5, ROWS), "column 2 must hold the codes 0, …, 1 of Coregion; got 0.5"),
        (lambda: KERNEL.diag(np.column_stack([X, np.full(40, 2.0)])), "got 2.0"),
        (lambda: SphericalMatern32()(ROWS), "name their columns"),
        (lambda: Categorical(correlation=1.0), "`correlation` of Categorical"),
        (lambda: stack_outputs(X, Y[:, 0]), "`Y` must have a row for each of the 40 rows"),
        (lambda: regressor().fit(X, GAPS), "stack_outputs"),
        (lambda: regressor().fit(np.column_stack([X, X[:, 0]]), Y[:, 0]), "must hold the codes"),
    ],
)
def test_what_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
