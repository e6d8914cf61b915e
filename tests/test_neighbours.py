"""Hyper-parameters from neighbours: exact numbers, derivatives, and fits of estimators."""

import numpy as np
import pytest
from conftest import exact_numbers
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from reference.compare import error, slopes
from reference.problems import KERNELS

from sparse_pep import SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import (
    Categorical,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    SquaredExponential,
)
from sparse_pep.likelihoods import Gaussian, GroupedGaussian
from sparse_pep.means import ConstantMean, LinearMean
from sparse_pep.model import Model
from sparse_pep.numerics.parameters import from_vector
from sparse_pep.training.neighbours import (
    NeighbourEvidence,
    neighbour_evidence,
    neighbour_lists,
    train_on_neighbours,
)

RNG = default_rng(2)
X = RNG.uniform(0.0, 3.0, (60, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=60)


@pytest.fixture(scope="module")
def cases():
    """The exact numbers of the objective."""
    return exact_numbers("neighbours.json")["cases"]


def described(case):
    """The inputs and the kernel of a case."""
    kernel = KERNELS[case["kernel"]](case["variance"], case["lengthscales"])
    return np.array(case["X"]).reshape(len(case["y"]), -1), kernel


def padded(lists, k):
    """The lists as an array, with −1 in the empty places."""
    return np.array([[*numbers, *[-1] * (k - len(numbers))] for numbers in lists])


@pytest.mark.parametrize("number", range(6))
def test_value_and_gradient_agree_with_exact_numbers(cases, number):
    case = cases[number]
    inputs, kernel = described(case)
    noise = Gaussian(case["noise_variance"])
    model = Model(kernel, InducingPoints(inputs[:1]), noise, ConstantMean(case["mean"]))
    rows = Rows(inputs, np.array(case["y"]), known_variance=np.array(case["known_variance"] or 0.0))
    sample = np.array(case["rows"])
    neighbours = padded(case["neighbours"], case["k"])
    assert case["scale"] == len(rows.X) / len(sample)
    value, by_name = neighbour_evidence(model, rows, sample, neighbours)
    assert_allclose(value, case["value"], rtol=1e-9)
    exact = case["gradient"]
    for name in ("log_variance", "log_lengthscale"):
        assert_allclose(np.ravel(by_name[f"kernel.{name}"]), np.ravel(exact[name]), rtol=1e-9)
    assert_allclose(by_name["log_noise_variance"], exact["log_noise_variance"], rtol=1e-9)
    assert_allclose(by_name["mean.intercept"], exact["mean"], rtol=1e-9)


def test_neighbours_are_the_nearest_before_a_row(cases):
    case = cases[0]
    inputs, kernel = described(case)
    lists = neighbour_lists(kernel, inputs, np.array(case["order"]), len(case["rows"]), case["k"])
    assert_array_equal(lists.rows, case["rows"])
    assert [set(row) - {-1} for row in lists.neighbours] == [set(row) for row in case["neighbours"]]


def dense(kernel, rows, noise, mean):
    """The exact log evidence, summed over outputs, of rows without weights."""
    cov = kernel(rows.X) + np.diag(np.broadcast_to(noise, len(rows.X)))
    residuals = (rows.y.T - mean(rows.X)).T.reshape(len(rows.X), -1)
    _, log_det = np.linalg.slogdet(2.0 * np.pi * cov)
    misfit = np.vdot(residuals, np.linalg.solve(cov, residuals))
    return -0.5 * (residuals.shape[1] * log_det + misfit)


def test_all_predecessors_give_the_exact_evidence_of_rows_with_weights():
    kernel = Matern32(1.2, [0.8, 1.5]) + Linear(0.3)
    mean = LinearMean(0.2, [0.1, -0.3])
    weight = np.where(np.arange(60) % 5, 1, 3)
    known = 0.02 + 0.05 * X[:, 0]
    rows = Rows(X, np.column_stack([Y, Y**2]), weight, known)
    lists = neighbour_lists(kernel, X, RNG.permutation(60), 60, 59)
    model = Model(kernel, InducingPoints(X[:2]), Gaussian(0.1), mean)
    fit, _ = NeighbourEvidence(rows, lists)(model)
    copies = rows.at(np.repeat(np.arange(60), weight))
    expected = dense(kernel, copies, 0.1 + copies.known_variance, mean)
    assert_allclose(fit.log_evidence, expected, rtol=1e-10)


def test_gradient_equals_finite_differences_for_everything_at_once():
    kernel = Matern52(1.2, [0.8, 1.5], active_dims=(0, 1)) * Periodic(
        0.9, 1.1, 2.0, active_dims=(1,)
    ) + Categorical(0.5, 0.4, active_dims=(2,))
    inputs = np.column_stack([X, np.arange(60) % 3])
    noise = GroupedGaussian([0.1, 0.2, 0.15], column=2)
    model = Model(kernel, InducingPoints(inputs[:2]), noise, LinearMean(0.2, [0.1, -0.3, 0.1]))
    rows = Rows(inputs, Y, 1.0 + np.arange(60) % 2, 0.02)
    lists = neighbour_lists(kernel, inputs, RNG.permutation(60), 20, 6)
    evidence = NeighbourEvidence(rows, lists, jitter=0.01)
    _, gradient = evidence(model)
    parameters = model.parameters()
    claimed, numeric = slopes(
        lambda p: evidence(model.with_parameters(p))[0].log_evidence,
        parameters,
        from_vector(gradient, parameters),
    )
    for name, value in numeric.items():
        assert error(claimed[name], value, max(1.0, abs(value))) < 1e-7, name


def test_training_finds_the_noise_that_few_inducing_points_cannot_tell():
    inputs = RNG.uniform(0.0, 30.0, (800, 1))
    targets = np.sin(3.0 * inputs[:, 0]) + 0.1 * RNG.normal(size=800)
    model = Model(SquaredExponential(1.0, [1.0]), InducingPoints(inputs[:10]), Gaussian(0.5))
    result = train_on_neighbours(model, Problem(Rows(inputs, targets)))
    assert 0.008 < result.model.likelihood.noise_variance < 0.0125
    assert 0.4 < result.model.kernel.lengthscale[0] < 1.0


@pytest.fixture(scope="module")
def fitted():
    """An estimator that was trained on neighbours, with its data."""
    inputs = default_rng(0).uniform(0.0, 30.0, (400, 1))
    targets = np.sin(3.0 * inputs[:, 0])
    options = {"training": "neighbours", "n_inducing": 10, "random_state": 0}
    return SparsePEPRegressor(**options).fit(inputs, targets), inputs, targets


def test_predictions_are_local_and_a_file_has_the_same(fitted, tmp_path):
    model, inputs, targets = fitted
    assert model.diagnostics_["local"] in {f"{k} neighbours" for k in (20, 40, 80)}
    assert "at its lower limit, 1e-06 of the variance of y" in model.summary()
    assert np.max(np.abs(model.predict(inputs) - targets)) < 0.02
    model.save(tmp_path / "model.npz")
    assert_array_equal(load(tmp_path / "model.npz").predict(inputs), model.predict(inputs))


def test_later_data_keep_the_hyper_parameters(fitted):
    model, inputs, targets = fitted
    first = SparsePEPRegressor(**model.get_params()).fit(inputs[:200], targets[:200])
    before = first.parameters()
    first.partial_fit(inputs[200:], targets[200:])
    for name, value in before.items():
        if "features" not in name:
            assert_array_equal(first.parameters()[name], value)


def noisy(seed=3):
    """Rows with a smooth function and noise of variance 0.01."""
    rng = default_rng(seed)
    inputs = rng.uniform(0.0, 5.0, (400, 2))
    return inputs, np.sin(2.0 * inputs[:, 0]) * np.cos(inputs[:, 1]) + 0.1 * rng.normal(size=400)


def test_a_source_has_the_hyper_parameters_of_its_rows():
    inputs, targets = noisy()
    model, other = (
        SparsePEPRegressor(training="neighbours", n_inducing=10, random_state=0).fit(*data)
        for data in ((inputs, targets), (ArraySource(inputs, targets, piece_rows=90),))
    )
    assert_allclose(other.predict(inputs), model.predict(inputs), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("way", ["copies", "weights"])
def test_copies_of_rows_do_not_remove_the_noise(way):
    inputs, targets = noisy()
    weight = np.where(np.arange(400) % 2, 1, 3)
    model = SparsePEPRegressor(training="neighbours", random_state=0, standardize=False)
    if way == "copies":
        model.fit(np.repeat(inputs, weight, axis=0), np.repeat(targets, weight))
    else:
        model.fit(inputs, targets, sample_weight=weight)
    assert 0.007 < model.noise_variance_ < 0.014


def test_a_function_without_noise_is_predicted_without_it():
    inputs, _ = noisy()
    targets = np.sin(2.0 * inputs[:, 0]) * np.cos(inputs[:, 1])
    model = SparsePEPRegressor(training="neighbours", random_state=0).fit(
        inputs[:300], targets[:300]
    )
    assert np.sqrt(np.mean((model.predict(inputs[300:]) - targets[300:]) ** 2)) < 0.003


def test_points_are_clustered_for_kernels_of_several_parts():
    inputs, targets = noisy()
    kernel = SquaredExponential(1.0, [1.0, 1.0]) + Periodic(0.5, 1.0, 2.0) + Linear(0.1)
    model = SparsePEPRegressor(training="neighbours", kernel=kernel, n_inducing=20, random_state=0)
    model.fit(inputs, targets)
    assert model.features_.Z.shape == (20, 2)
    assert np.sqrt(np.mean((model.predict(inputs) - targets) ** 2)) < 0.12
