"""Partitions, sites of whole blocks in closed form and by nested EP, their adjoints, and models
with blocks.
"""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from reference.compare import error
from reference.problems import SearchedGaussian

from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.blocks import (
    OuterSites,
    Partition,
    block_cholesky,
    clustered_blocks,
    log_det_ratio,
    unexplained_blocks,
    with_inner_sites,
)
from sparse_pep.kernels import Matern12, Matern32, Periodic, SquaredExponential, White
from sparse_pep.likelihoods import Gaussian, Probit, Softmax, StudentT
from sparse_pep.model import (
    Model,
    model_evidence,
    model_predict,
    predictive_log_density,
    within_blocks,
)
from sparse_pep.training import LBFGS, TrainingOptions, held_out_power, train


def runs(n_data, size):
    """Blocks of `size` rows that follow each other."""
    return Partition(np.arange(n_data) // size)


def rows_of(X, y, blocks, power):
    """Rows in blocks, with powers that may be one for each block."""
    return Rows(X, y, power=blocks.powers(power), blocks=blocks.labels)


def test_labels_and_powers():
    blocks = Partition(["b", "c", "a", "b"])
    assert blocks.labels.tolist() == [1, 2, 0, 1]
    assert blocks.sizes.tolist() == [1, 2, 1]
    assert len(blocks) == 3
    assert Partition([30, -5, 30]).labels.tolist() == [1, 0, 1]
    for power in (0.3, [0.5, 0.0, 1.0], [0.0, 1.0, 0.5, 0.0]):
        assert blocks.powers(power).tolist() == [[0.3] * 4, [0.0, 1.0, 0.5, 0.0]][np.ndim(power)]
    # blocks of one: as the rows are
    assert Partition([2, 0, 1]).powers([0.1, 0.2, 0.3]).tolist() == [0.1, 0.2, 0.3]


def test_a_block_whose_noise_is_lost_in_rounding_does_not_stop_the_others():
    D = np.stack([np.eye(2), np.ones((2, 2))])
    outer = OuterSites(np.zeros((2, 2, 2)), np.zeros((2, 2, 1)), np.zeros(2))
    inner = (np.full((2, 2), 1e18), np.ones((1, 2, 2)))
    mean, var = with_inner_sites(
        np.zeros((2, 1, 2)), np.zeros((2, 2, 1)), D, outer, inner, np.ones(2)
    )
    assert_allclose((mean[0], var), [[[1e-18] * 2, [np.nan] * 2]] * 2, rtol=1e-12)


X6 = np.arange(6.0)[:, None]
LABELS6 = np.array([0, 0, 1, 1, 2, 2])


def evidence_of(likelihood=None, **columns):
    model = Model(SquaredExponential(), InducingPoints(X6[:3]), likelihood or Gaussian(0.1))
    return model_evidence(model, Problem(Rows(X6, X6[:, 0], **{"blocks": LABELS6} | columns)))


@pytest.mark.parametrize(
    "work, words",
    [
        (lambda: evidence_of(blocks=np.zeros(5)), "labels for 5 data points, but there are 6"),
        (
            lambda: evidence_of(power=np.linspace(0.1, 1.0, 6)),
            "`power` must be the same for all data of a block.*in block 0",
        ),
        (
            lambda: evidence_of(SearchedGaussian(0.1), weight=np.linspace(0.1, 1.0, 6)),
            "`weight` must be the same for all data of a block.*in block 0",
        ),
        *[
            (lambda size=size: clustered_blocks(X6, size, default_rng(0)), "size")
            for size in (0, -1)
        ],
    ],
)
def test_blocks_that_do_not_fit(work, words):
    with pytest.raises(ValueError, match=words):
        work()


def test_clusters_are_small_close_together_and_repeatable():
    X = default_rng(0).normal(size=(200, 2)) * [1.0, 1e3]
    blocks, again = (clustered_blocks(X, 17, default_rng(3)) for _ in range(2))
    assert_array_equal(blocks.labels, again.labels)
    assert blocks.sizes.max() <= 17
    within = sum(
        np.var(X[blocks.labels == b] / [1.0, 1e3], axis=0).sum() for b in range(len(blocks))
    ) / len(blocks)
    assert within < 0.3  # of 2 in all


def test_clusters_of_equal_inputs_are_cut():
    X = np.repeat([[0.0], [1.0]], [20, 3], axis=0)
    assert sorted(clustered_blocks(X, 8, default_rng(0)).sizes) == [3, 6, 7, 7]
    assert clustered_blocks(np.ones((5, 2)), 9, default_rng(0)).sizes.tolist() == [5]


@pytest.mark.parametrize("seed", [2376, 2404, 2856])
def test_log_determinant_of_what_is_hardly_a_covariance(seed):
    """I + S with an eigenvalue of some 1e-15: elimination may round a pivot of S to -1."""
    rng = default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    values = np.array([1 - 1e-16 * rng.integers(1, 40), 0.5, 0.3, 0.2, 0.1, 0.1])
    S = -(q * values) @ q.T
    S = 0.5 * (S + S.T)[None]
    found = log_det_ratio(S, np.ones(1), block_cholesky(S, np.ones(1)))
    assert -45.0 < found[0] < -30.0


def test_negative_variances_are_counted_and_set_to_zero():
    K = np.array([[[1.0, 0.5], [0.5, 1.0]]])
    D, n_clipped = unexplained_blocks(K, np.array([[[1.1, 0.2]]]))
    assert n_clipped == 1
    assert_allclose(D[0], [[0.0, 0.28], [0.28, 0.96]])


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(1.2, [0.7, 0.9]) + Matern12(0.4, 1.3),
        Matern32(1.1, 0.8) + White(0.3),
        Periodic(0.9, 0.7, 1.4) * SquaredExponential(1.0, 2.0),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_blocks_of_a_kernel_and_the_way_back(kernel, size):
    rng = default_rng(0)
    X = rng.normal(size=(130, 2))
    members = rng.permutation(130)[: 130 // size * size].reshape(-1, size)
    Kbb, pull = within_blocks(kernel, X, members)
    bar = rng.normal(size=Kbb.shape)
    expected = [kernel.vjp(X[rows]) for rows in members]
    assert error(Kbb, [K for K, _ in expected]) < 1e-13
    parts = [back(own)[0] for (_, back), own in zip(expected, bar, strict=True)]
    gradient = pull(bar)
    assert set(gradient) == set(parts[0])
    # blocks of one have no slope in the lengthscale: rounding of the whole
    for key, value in gradient.items():
        assert error(value, sum(part[key] for part in parts), np.abs(bar).sum()) < 1e-13


class Data:
    """Inputs in pairs, targets of several kinds, a model for each likelihood."""

    def __init__(self, N=12, M=4):
        rng = default_rng(0)
        self.X = np.sort(rng.uniform(0, 5, N))[:, None]
        f = 1.5 * np.sin(2 * self.X[:, 0])
        self.features = InducingPoints(np.linspace(0.3, 4.7, M)[:, None])
        normal = rng.normal(size=N)
        student = rng.standard_t(3, size=N)
        self.targets = {
            Probit: np.where(f + normal > 0, 1.0, -1.0),
            StudentT: f + 0.2 * student,
            Gaussian: f + 0.3 * normal,
            Softmax: rng.integers(11, size=N),
        }

    def problem(self, likelihood, power, blocks):
        """Model and rows."""
        rows = rows_of(self.X, self.targets[type(likelihood)], blocks, power)
        return Model(Matern32(2.0, 0.8), self.features, likelihood), rows


UNEVEN = Partition([0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 1])


def named(likelihood):
    return type(likelihood).__name__


@pytest.mark.parametrize("likelihood", [Probit(), StudentT(4.0, 0.2), Softmax(11)], ids=named)
def test_start_from_which_some_block_has_no_distribution(likelihood):
    model, rows = Data().problem(likelihood, 0.5, UNEVEN)
    start = np.zeros((2, likelihood.n_latent, 12))
    expected = model_evidence(model, Problem(rows))
    start[0, :, 3] = -1e9  # I + αDT of its block is not positive definite
    fit = model_evidence(model, Problem(rows), start)
    assert fit.converged
    assert fit.n_sweeps > expected.n_sweeps
    assert error(fit.log_evidence, expected.log_evidence) < 1e-8


def test_large_variance_and_flipped_labels_settle():
    rng = default_rng(0)
    X = np.sort(rng.uniform(0, 10, 150))[:, None]
    y = np.where(np.sin(X[:, 0]) > 0, 1.0, -1.0) * np.where(rng.uniform(size=150) < 0.1, -1, 1)
    features = InducingPoints(np.linspace(0.5, 9.5, 8)[:, None])
    model = Model(SquaredExponential(300.0, 0.7), features, Probit())
    for power in (0.0, 0.5, 1.0):
        fit = model_evidence(model, Problem(rows_of(X, y, runs(150, 10), power)))
        assert fit.converged, power
        assert np.all(fit.site_precision >= 0.0), power


@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Probit()], ids=named)
def test_held_out_rows_leave_the_others_in_their_blocks(likelihood):
    """The choice of a power, done by hand; blocks without weight are not there."""
    data = Data(N=60, M=5)
    blocks = runs(60, 6)
    model, piece = data.problem(likelihood, 0.5, blocks)
    piece = piece._replace(power=None)
    weight = np.resize([1.0, 2.0, 0.0, 0.5], 10)[blocks.labels]
    powers = (0.0, 1.0, 0.4)
    data = piece._replace(weight=weight)
    options = TrainingOptions(LBFGS(max_iter=4))
    chosen, best, sweep = held_out_power(
        model, Problem(data, jitter=1e-8), options, default_rng(3), powers=powers
    )
    order = default_rng(3).permutation(np.flatnonzero(weight))
    # of 48 rows a fifth
    judges = order[:10]
    learners = order[10:]
    rows = (piece.X[learners], piece.y[learners])
    own = {"weight": weight[learners]}
    scores = []
    trained = []
    for power in powers:
        left = Rows(*rows, **own, blocks=blocks.labels[learners])
        problem = Problem(left, power, jitter=1e-8)
        trained.append(train(trained[-1] if trained else model, problem, options).model)
        fit = model_evidence(trained[-1], problem)
        at = model_predict(trained[-1], fit.posteriors, piece.X[judges])
        density = predictive_log_density(trained[-1].likelihood, piece.y[judges], *at)
        scores.append(weight[judges] @ density / weight[judges].sum())
    assert error(sweep["log_density"], scores) < 1e-6
    assert chosen == powers[np.argmax(scores)]
    for name, value in trained[np.argmax(scores)].parameters().items():
        assert error(best.parameters()[name], value) < 1e-6
