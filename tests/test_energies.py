"""Each named method of the table, computed at its coordinates, beside its own definition."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reference import classification, limits
from scipy.stats import norm

from sparse_pep.blocks import BlockShard, Partition
from sparse_pep.features import GaussianBlur, InducingPoints
from sparse_pep.inference import infer
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.regression import predict_f_cov
from sparse_pep.sites import q_moments

NOISE = 0.07
METHODS = list(pd.read_csv(Path(__file__).parents[1] / "docs/methods.csv", keep_default_na=False).itertuples(index=False))


class Problem:
    """Two inputs, 16 data in 4 blocks, 5 features; targets and labels."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.kernel = SquaredExponential(rng.uniform(0.8, 2.0), np.array([0.5, 0.7]))
        grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(4.0)), axis=-1).reshape(-1, 2)
        self.X = rng.permutation(grid + rng.uniform(-0.2, 0.2, size=grid.shape))
        self.Z = self.X[:5] + rng.uniform(-0.4, 0.4, size=(5, 2))
        self.X_test = rng.uniform(-0.5, 3.5, size=(6, 2))
        self.y = np.sin(2 * self.X[:, 0]) + self.X[:, 1] / 2 + 0.3 * rng.normal(size=16)
        self.labels = np.where(self.y > np.median(self.y) + 0.4 * rng.normal(size=16), 1.0, -1.0)
        self.blocks = {"single": np.arange(16), "several": np.arange(16) // 4, "all": np.zeros(16, dtype=int)}
        self.features = {"points": InducingPoints(self.Z), "transform": GaussianBlur(self.Z, np.array([0.3, 0.4])), "data": InducingPoints(self.X)}

    def covariances(self, name):
        """From the definition of the features: an average is a sum over a grid of points."""
        kernel, t, sums = self.kernel, self.features[name].Z, np.eye(len(self.features[name]))
        if name == "transform":
            steps, weights = np.polynomial.hermite_e.hermegauss(16)
            grid = np.stack(np.meshgrid(0.3 * steps, 0.4 * steps, indexing="ij"), axis=-1).reshape(-1, 2)
            t = (self.Z[:, None] + grid).reshape(-1, 2)
            sums = np.kron(np.eye(5), np.outer(weights, weights).ravel() / weights.sum() ** 2)
        return limits.Covariances(
            sums @ kernel(t) @ sums.T, sums @ kernel(t, self.X), kernel(self.X), sums @ kernel(t, self.X_test), kernel(self.X, self.X_test), kernel(self.X_test)
        )

    def power_ep(self, method):
        """log Z, mean and covariance of f at the test inputs, q(u): at the coordinates of the method."""
        features, kernel = self.features[method.features], self.kernel
        Kuu, Kuf, kff = features.Kuu(kernel), features.Kuf(kernel, self.X), kernel.diag(self.X)

        def by_rows(rows):
            return Kuf[:, rows].copy(), kff[rows], None

        def by_blocks(chunk):
            return (Kuf[:, chunk.rows].copy(), [np.stack([kernel(self.X[block]) for block in group]) for group in chunk.members], None)

        given = Gaussian(NOISE), self.y, method.power
        if method.task == "classification":
            given = Probit(), self.labels, method.power
        if method.blocks == "single":
            fit = infer(Kuu, by_rows, *given, tol=1e-11)
        else:
            partition = Partition(self.blocks[method.blocks])
            fit = infer(Kuu, by_blocks, *given[:2], partition.powers(given[2]), kind=partial(BlockShard, partition), tol=1e-11)
        q = fit.posteriors[0]
        f = predict_f_cov(q, features.Kuf(kernel, self.X_test), kernel(self.X_test))
        return limits.Result(*f, fit.log_evidence), q_moments(q)

    def nearest_blocks(self):
        """The block of each test input."""
        distance = np.sum((self.X_test[:, None] - self.X) ** 2, axis=-1)
        return self.blocks["several"][np.argmin(distance, axis=1)]


def gaussian(f, y):
    return norm.logpdf(y, f, np.sqrt(NOISE))


def regression(method):
    """`method` of the references on targets."""
    return lambda p, K: method(K, p.y, NOISE)


def fitc_ep(p, K):
    Q = K.Q("f", "f")
    return limits.ep_under(Q + np.diag(np.diag(K.ff - Q)), K, p.labels)


REFERENCES = {
    "SoR": regression(limits.subset_of_regressors),
    "DTC": regression(limits.deterministic_training_conditional),
    "VFE": regression(limits.titsias),
    "SVGP": lambda p, K: limits.uncollapsed(K, p.y, gaussian),
    "VFE in blocks": regression(limits.titsias),
    "FITC": regression(limits.fully_independent),
    "SPGP": regression(limits.pseudo_input_process),
    "sparse EP": lambda p, K: limits.csato_opper(K, p.y, limits.gaussian_slopes(NOISE)),
    "PITC": lambda p, K: limits.partially_independent(K, p.y, NOISE, p.blocks["several"]),
    "PIC": lambda p, K: limits.partially_independent_conditional(K, p.y, NOISE, p.blocks["several"], p.nearest_blocks()),
    "one block": lambda p, K: limits.partially_independent(K, p.y, NOISE, p.blocks["all"]),
    "exact GP": regression(limits.exact),
    "inter-domain FITC": regression(limits.fully_independent),
    "inter-domain EP": lambda p, K: limits.csato_opper(K, p.y, limits.gaussian_slopes(NOISE)),
    "inter-domain VFE": regression(limits.titsias),
    "EP": lambda p, K: limits.ep_under(K.ff, K, p.labels),
    "KL method": lambda p, K: limits.uncollapsed(K, p.labels, classification.probit),
    "FITC-EP": fitc_ep,
    "scalable EP": fitc_ep,
    "sparse EP for labels": lambda p, K: limits.sparse_ep(K, p.labels, limits.probit_slopes),
    "variational classification": lambda p, K: limits.uncollapsed(K, p.labels, classification.probit),
    "inter-domain EP for labels": lambda p, K: limits.sparse_ep(K, p.labels, limits.probit_slopes),
    "PITC-EP": lambda p, K: limits.ep_under(K.Q("f", "f") + limits.block_diagonal(K.ff - K.Q("f", "f"), p.blocks["several"]), K, p.labels),
    "one block of labels": lambda p, K: limits.ep_under(K.ff, K, p.labels, through_u=True),
    "inter-domain variational classification": lambda p, K: limits.uncollapsed(K, p.labels, classification.probit),
}


def test_every_method_has_a_definition_and_coordinates():
    assert [method.name for method in METHODS] == list(REFERENCES)
    for method in METHODS:
        assert method.task in ("regression", "classification")
        assert method.features in ("points", "transform", "data")
        assert method.blocks in ("single", "several", "all")
        assert set(method.same.split(", ")) <= {"posterior", "prediction", "evidence"}
        assert 0.0 <= method.power <= 1.0
        assert method.source


def own_features(name):
    """What u is in the method itself."""
    if name.startswith("inter-domain"):
        return "transform"
    return "data" if name in ("exact GP", "EP", "KL method") else "points"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_method_is_what_its_row_says(method):
    problem = Problem(0)
    K = problem.covariances(own_features(method.name))
    (mean, cov, log_evidence), _ = problem.power_ep(method)
    own = REFERENCES[method.name](problem, K)
    searched = method.name in ("SVGP", "KL method") or "variational" in method.name
    accuracy = 1e-5 if searched else 1e-8
    if "evidence" in method.same:
        np.testing.assert_allclose(log_evidence, own.log_evidence, rtol=1e-9, atol=1e-8)
    else:
        assert abs(log_evidence - own.log_evidence) > 0.1
    if "prediction" in method.same:
        np.testing.assert_allclose(mean, own.mean, rtol=accuracy, atol=accuracy)
        np.testing.assert_allclose(cov, own.cov, rtol=accuracy, atol=accuracy)
    else:
        assert np.max(np.abs(cov - own.cov)) > 1e-3
