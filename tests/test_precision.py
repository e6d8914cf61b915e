"""Gradients whose products are in single precision: their error, where they are not used, and training that ends in double precision."""

from dataclasses import replace

import numpy as np
import pytest
from reference.compare import gradient_error

from sparse_pep import SparsePEPRegressor
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.model import Model, model_gradient
from sparse_pep.multiclass import Softmax
from sparse_pep.shards import Piece
from sparse_pep.training import train

rng = np.random.default_rng(0)
X = rng.uniform(0.0, 6.0, size=(300, 1))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=300)
MODEL = Model(SquaredExponential(1.0, 0.5), InducingPoints(np.linspace(0.0, 6.0, 8)[:, None]), Gaussian(0.1))
THREE = {"likelihood": Softmax(3)}
CASES = {
    "power 0.5": ({}, 0.5, {}, {}),
    "power 0": ({}, 0.0, {}, {}),
    "tight": ({}, 0.5, {}, {"tight": True}),
    "outputs": ({}, 0.5, {"y": np.column_stack([Y, Y**2])}, {}),
    "weights": ({}, 0.5, {"weight": rng.integers(1, 4, 300) * 1.0}, {}),
    "blocks": ({}, 0.5, {"blocks": np.arange(300) // 5}, {}),
    "blocks, power 0": ({}, 0.0, {"blocks": np.arange(300) // 5}, {}),
    "labels": ({"likelihood": Probit()}, 0.5, {"y": np.sign(Y)}, {}),
    "classes": (THREE, 0.5, {"y": np.digitize(Y, [-0.3, 0.3]) * 1.0}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_evidence_is_the_same_and_the_gradient_nearly(name):
    parts, power, given, asked = CASES[name]
    model, data = replace(MODEL, **parts), Piece(0, X, Y)._replace(**given)
    (fit, slope), (same, mixed) = (
        model_gradient(model, data, power, chunk_size=100, precision=precision, **asked) for precision in ("double", "mixed")
    )
    assert same.log_evidence == fit.log_evidence
    assert 0.0 < gradient_error(mixed, slope) < 1e-4


def test_pieces_are_like_rows_in_memory():
    data = Piece(0, X, Y)
    source = ArraySource(X, Y, piece_rows=100)
    found = [model_gradient(MODEL, rows, precision="mixed", chunk_size=100)[1] for rows in (data, source)]
    assert gradient_error(*found) < 1e-10


@pytest.mark.parametrize("unit", [1e6, 1e-6])
def test_numbers_out_of_range_are_computed_in_double_precision(unit):
    model = replace(MODEL, kernel=SquaredExponential(unit**2, 0.5), likelihood=Gaussian(0.1 * unit**2))
    slopes = [model_gradient(model, Piece(0, X, unit * Y), precision=precision)[1] for precision in ("double", "mixed")]
    assert gradient_error(*slopes) == 0.0


def test_training_ends_in_double_precision(tmp_path, monkeypatch):
    """Both precisions are used, the end is that of double precision, and a resumed run is the same."""
    used, own = [], model_gradient

    def recorded(*given, precision, **more):
        used.append(precision)
        return own(*given, precision=precision, **more)

    monkeypatch.setattr("sparse_pep.training.model_gradient", recorded)
    data, file = Piece(0, X, Y), tmp_path / "c.npz"
    double = train(MODEL, data, tol=1e-6)
    assert set(used) == {"double"}
    used.clear()
    mixed = train(MODEL, data, tol=1e-6, precision="mixed", checkpoint=file)
    change = used.index("double")
    assert set(used[:change]) == {"mixed"} and set(used[change:]) == {"double"} and change > 10
    assert mixed.converged and abs(mixed.log_evidence - double.log_evidence) < 0.01
    used.clear()
    again = train(MODEL, data, tol=1e-6, precision="mixed", checkpoint=file)
    assert not used and again.log_evidence == mixed.log_evidence and again.n_iter == mixed.n_iter
    limited = train(MODEL, data, max_iter=3, precision="mixed")
    assert limited.n_iter == 3 and not limited.converged and set(used) == {"mixed"}


def test_other_precisions_are_refused():
    with pytest.raises(ValueError, match="`precision` must be 'double' or 'mixed'; got 'single'"):
        train(MODEL, Piece(0, X, Y), precision="single")


def test_estimators_train_in_mixed_precision():
    given = {"n_inducing": 8, "random_state": 0, "tol": 1e-6}
    double, mixed = (SparsePEPRegressor(**given, precision=precision).fit(X, Y) for precision in ("double", "mixed"))
    assert 0.0 < abs(mixed.log_marginal_likelihood_value_ - double.log_marginal_likelihood_value_) < 0.01
    with pytest.raises(ValueError, match="`precision` 'mixed' needs the `optimizer` 'lbfgs'"):
        SparsePEPRegressor(precision="mixed", optimizer="adam").fit(X, Y)
    with pytest.raises(ValueError, match="`precision` 'mixed' needs NumPy: leave `device` out"):
        SparsePEPRegressor(precision="mixed", device="torch").fit(X, Y)
