"""Each named method of the table, computed at its coordinates, beside its own definition."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from reference import limits
from scipy.stats import norm

from sparse_pep.features import GaussianBlur, InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.blocks import Partition
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.model import Model, model_covariance, model_evidence

NOISE = 0.07
METHODS = list(
    pd.read_csv(Path(__file__).parents[1] / "docs/methods.csv", keep_default_na=False).itertuples(
        index=False
    )
)


class EnergyProblem:
    """Two inputs, 16 data in 4 blocks, 5 features; targets and labels."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.kernel = SquaredExponential(rng.uniform(0.8, 2.0), np.array([0.5, 0.7]))
        grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(-1, 2)
        self.X = rng.permutation(grid + rng.uniform(-0.2, 0.2, grid.shape))
        self.Z = self.X[:5] + rng.uniform(-0.4, 0.4, (5, 2))
        self.X_test = rng.uniform(-0.5, 3.5, (6, 2))
        self.y = np.sin(2 * self.X[:, 0]) + self.X[:, 1] / 2 + 0.3 * rng.normal(size=16)
        self.labels = np.where(self.y > np.median(self.y) + 0.4 * rng.normal(size=16), 1.0, -1.0)
        self.blocks = {
            "single": np.arange(16),
            "several": np.arange(16) // 4,
            "all": np.zeros(16, dtype=int),
        }
        self.features = {
            "points": InducingPoints(self.Z),
            "transform": GaussianBlur(self.Z, np.array([0.3, 0.4])),
            "data": InducingPoints(self.X),
        }

    def covariances(self, name):
        """From the definition of the features: an average is a sum over a grid of points."""
        kernel = self.kernel
        t = self.features[name].Z
        sums = np.eye(len(self.features[name]))
        if name == "transform":
            steps, weights = np.polynomial.hermite_e.hermegauss(16)
            grid = np.stack(np.meshgrid(0.3 * steps, 0.4 * steps, indexing="ij"), axis=-1).reshape(
                -1, 2
            )
            t = (self.Z[:, None] + grid).reshape(-1, 2)
            sums = np.kron(np.eye(5), np.outer(weights, weights).ravel() / weights.sum() ** 2)
        return limits.Covariances(
            sums @ kernel(t) @ sums.T,
            sums @ kernel(t, self.X),
            kernel(self.X),
            sums @ kernel(t, self.X_test),
            kernel(self.X, self.X_test),
            kernel(self.X_test),
        )

    def power_ep(self, method):
        """Mean and covariance of f at the test inputs, and log Z, at the coordinates of the
        method.
        """
        y = self.y
        likelihood = Gaussian(NOISE)
        if method.task == "classification":
            y = self.labels
            likelihood = Probit()
        model = Model(self.kernel, self.features[method.features], likelihood)
        blocks = Partition(self.blocks[method.blocks])
        rows = Rows(self.X, y, power=blocks.powers(method.power))
        if method.blocks != "single":
            rows = rows._replace(blocks=blocks.labels)
        fit = model_evidence(model, Problem(rows), tol=1e-11)
        return *model_covariance(model, fit.posteriors, self.X_test), fit.log_evidence

    def nearest_blocks(self):
        """The block of each test input."""
        distance = np.sum((self.X_test[:, None] - self.X) ** 2, axis=-1)
        return self.blocks["several"][np.argmin(distance, axis=1)]


def gaussian(f, y):
    return norm.logpdf(y, f, np.sqrt(NOISE))


def changed(ff="ff", fs="fs", ss="ss"):
    """Regression under a changed prior: covariances of data and of test values by name, Q or the
    true ones, or right within blocks.
    """

    def method(p, K):
        parts = {
            "Qff": K.Q("f", "f"),
            "Qfs": K.Q("f", "s"),
            "Qss": K.Q("s", "s"),
            "ff": K.ff,
            "fs": K.fs,
            "ss": K.ss,
        }
        parts |= {name: K.within(labels) for name, labels in p.blocks.items()}
        parts["pic"] = np.where(
            p.blocks["several"][:, None] == p.nearest_blocks(), K.fs, parts["Qfs"]
        )
        return limits.conditioned(parts[ff], parts[fs], parts[ss], p.y, NOISE)

    return method


def titsias(p, K):
    return limits.titsias(K, p.y, NOISE)


def online(p, K):
    return limits.sparse_ep(K, p.y, limits.gaussian_slopes(NOISE), sweeps=1)


def variational(p, K):
    return limits.uncollapsed(K, p.labels, limits.probit)


def fitc_ep(p, K):
    return limits.ep(K, p.labels, K.within(p.blocks["single"]), K.Q("f", "s"))


def sparse_ep(p, K):
    return limits.sparse_ep(K, p.labels, limits.probit_slopes)


REFERENCES = {
    "SoR": changed("Qff", "Qfs", "Qss"),  # f is a linear function of u everywhere
    "DTC": changed("Qff", "Qfs"),  # at the data only
    "VFE": titsias,
    "SVGP": lambda p, K: limits.uncollapsed(K, p.y, gaussian),
    "VFE in blocks": titsias,
    "FITC": changed("single", "Qfs"),
    "SPGP": lambda p, K: limits.pseudo_inputs(K, p.y, NOISE),
    "sparse EP": online,
    "PITC": changed("several", "Qfs"),
    "PIC": changed("several", "pic"),  # test inputs belong to blocks too
    "one block": changed("all", "Qfs"),
    "exact GP": changed(),
    "inter-domain FITC": changed("single", "Qfs"),
    "inter-domain EP": online,
    "inter-domain VFE": titsias,
    "EP": lambda p, K: limits.ep(K, p.labels, K.ff, K.fs),
    "KL method": variational,
    "FITC-EP": fitc_ep,
    "scalable EP": fitc_ep,
    "sparse EP for labels": sparse_ep,
    "variational classification": variational,
    "inter-domain EP for labels": sparse_ep,
    "PITC-EP": lambda p, K: limits.ep(K, p.labels, K.within(p.blocks["several"]), K.Q("f", "s")),
    "one block of labels": lambda p, K: limits.ep(K, p.labels, K.ff, K.Q("f", "s")),
    "inter-domain variational classification": variational,
}


def test_every_method_has_a_definition_and_coordinates():
    assert [method.name for method in METHODS] == list(REFERENCES)
    for method in METHODS:
        assert method.task in ("regression", "classification")
        assert method.features in (
            "points",
            "transform",
            "data",
        )
        assert method.blocks in ("single", "several", "all")
        assert 0.0 <= method.power <= 1.0
        assert method.source
        assert set(method.same.split(", ")) <= {"posterior", "prediction", "evidence"}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_method_is_what_its_row_says(method):
    problem = EnergyProblem(0)
    u = (
        "transform"
        if method.name.startswith("inter-domain")
        else "data"
        if method.name in ("exact GP", "EP", "KL method")
        else "points"
    )
    mean, cov, log_evidence = problem.power_ep(method)
    own = REFERENCES[method.name](problem, problem.covariances(u))
    # of a numerical search
    accuracy = (
        1e-5 if method.name in ("SVGP", "KL method") or "variational" in method.name else 1e-8
    )
    if "evidence" in method.same:
        assert_allclose(log_evidence, own.log_evidence, rtol=1e-9, atol=1e-8)
    else:
        assert abs(log_evidence - own.log_evidence) > 0.1
    if "prediction" in method.same:
        assert_allclose(mean, own.mean, rtol=accuracy, atol=accuracy)
        assert_allclose(cov, own.cov, rtol=accuracy, atol=accuracy)
    else:
        assert np.max(np.abs(cov - own.cov)) > 1e-3
