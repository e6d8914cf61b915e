"""Exact numbers, computed elsewhere, of fits to values, slopes, signs of slopes, averages and differences together."""

import json

import numpy as np
import pytest
from conftest import BESIDE, outside

from sparse_pep import SparsePEPRegressor
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.observations import Difference, Mean, Slope, SlopeSign, Value


def observation(row, y=None, **noise):
    """The observation that a row of the file describes."""
    X, targets = [row["x"]], {} if y is None else {"y": [y], **noise}
    if row["kind"] == "slope_sign":
        return SlopeSign(X, row["dim"], sign=row["sign"], scale=row["nu"])
    if row["kind"] == "difference":
        return Difference(X, [row["x2"]], **targets)
    kind, names = {"value": (Value, ()), "slope": (Slope, ("dim",)), "mean": (Mean, ("width",))}[row["kind"]]
    return kind(X, *(row[name] for name in names), **targets)


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("kind, tolerance", [("gaussian", 1e-8), ("mixed", 1e-6)])
def test_exact_numbers_of_observations(kind, tolerance, case):
    path = outside("SPARSE_PEP_VECTORS", BESIDE / "vectors") / "functionals.json"
    exact = json.loads(path.read_text())[kind][case]
    rows = []
    for row, y in zip(exact["observations"], exact["y"]):
        label = kind == "mixed" and row["kind"] == "difference"
        rows.append(observation(row, y, **({"likelihood": "probit"} if label else {"noise_variance": exact["noise_var"]})))
    model = SparsePEPRegressor(
        kernel=SquaredExponential(exact["variance"], exact["lengthscales"]), features=InducingPoints(exact["Z"]), power=exact["alpha"],
        training=None, jitter=0.0,
    ).fit(rows)  # fmt: skip
    found = [model.predict_f(observation(row)) for row in exact["tests"]]
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, exact["log_z"], rtol=tolerance)
    np.testing.assert_allclose([mean[0] for mean, _ in found], exact["mean"], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose([var[0] for _, var in found], exact["var"], rtol=tolerance)
