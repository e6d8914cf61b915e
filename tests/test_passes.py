"""Sums over pieces of data: the numbers of one array in memory, whatever the cut, in memory that
does not grow with the data.
"""

import gc
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import adapter
from reference.compare import error, properties

import sparse_pep.model
from sparse_pep.data.passes import moments_piece, source_predict
from sparse_pep.data.sources import ArraySource, Source
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.fixed_point import SearchOptions
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit, Softmax, StudentT
from sparse_pep.model import Model, model_bounds, model_evidence, model_gradient
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.training.initialise import column_spread

rng = np.random.default_rng(5)
N = 40
X = rng.uniform(-3.0, 3.0, (N, 2))
f = 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 1]
y = f + 0.3 * rng.normal(size=N)
signs = np.where(rng.uniform(size=N) < 0.15, -1.0, 1.0) * np.sign(f)
weight = rng.integers(0, 4, N) * 1.0
powers = np.resize([0.0, 1.0, 0.5, 1e-7], N)
kernel = SquaredExponential(4.0, [1.0, 2.0])
points = InducingPoints(X[:6].copy())
gaussian = Model(kernel, points, Gaussian(0.1))
# rows of a block follow each other
blocks = np.repeat([4, 1, 7, 0, 2, 3, 9, 8], [3, 9, 1, 6, 5, 9, 2, 5])


CASES = {
    "regression": (gaussian, y),
    "outputs": (gaussian, np.c_[y, -y, y**2]),
    "probit": (Model(kernel, points, Probit()), signs),
    "classes": (
        Model(SquaredExponential(1.0, [1.0, 2.0]), points, Softmax(3)),
        1.0 * (f > 1) + (f > -1),
    ),
}
NO_CAVITY = np.repeat([-0.1, 0.0, 1.5, 0.0], [12, 18, 1, 9])
# model, targets, power, sweeps; the longest step at the end, and the sites from which the search
# starts
SEARCHES = {
    "ends early": (3000.0, Probit(), signs, 1.0, 1, 1.0, None),
    "has no time": (3000.0, Probit(), signs, 1.0, 0, 1.0, None),
    "damped": (3000.0, Probit(), signs, 1.0, 25, 1.0, None),
    "keeps precisions of labels positive": (1000.0, Probit(), signs, 0.0, 80, 1.0, None),
    "gives up a step that does not help": (1000.0, StudentT(0.3, 2.0), y, 0.0, 80, 0.6, None),
    "from no cavity": (4.0, StudentT(0.3, 4.0), y, 1.0, 40, 1.0, NO_CAVITY),
    "from no cavity, and ends early": (4.0, StudentT(0.3, 4.0), y, 1.0, 2, 1.0, NO_CAVITY),
    "from no posterior": (4.0, StudentT(0.3, 4.0), y, 1.0, 40, 1.0, np.full(N, -5.0)),
    "from no posterior, without time": (4.0, StudentT(0.3, 4.0), y, 1.0, 0, 1.0, np.full(N, -5.0)),
}


def searched_twice(model, targets, power, sweeps, precision=None):
    """Searches over all rows and over pieces, from sites with these precisions."""
    start = None if precision is None else np.stack([precision, 0.0 * precision])[:, None]
    pieces = (
        None if start is None else [(start[..., first : first + 9],) for first in range(0, N, 9)]
    )
    fit = adapter.search(model, Rows(X, targets), power, start, max_sweeps=sweeps)
    return fit, adapter.search(
        model, ArraySource(X, targets, piece_rows=9), power, pieces, max_sweeps=sweeps
    )


@pytest.mark.parametrize("case", SEARCHES)
def test_a_hard_search_takes_the_same_steps_in_pieces(case):
    variance, likelihood, targets, power, sweeps, below, precision = SEARCHES[case]
    lengthscale = [0.3, 0.5] if case.startswith("gives up") else [1.0, 2.0]
    fit, found = searched_twice(
        Model(SquaredExponential(variance, lengthscale), points, likelihood),
        targets,
        power,
        sweeps,
        precision,
    )
    assert found.converged == fit.converged == (sweeps > 2)
    assert found.n_sweeps == fit.n_sweeps
    assert found.convergence.step == fit.convergence.step <= below
    assert precision is None or fit.convergence.step == 1.0
    assert (
        len(fit.convergence.trace)
        == len(found.convergence.trace)
        <= fit.n_sweeps + (precision is None)
    )
    assert error(found.convergence.trace, fit.convergence.trace, 1.0 + abs(fit.log_evidence)) < 1e-7
    assert error(found.log_evidence, fit.log_evidence) < 1e-8


def test_a_posterior_that_only_jitter_makes_is_none():
    precision = np.zeros(N)
    Kuu = factorise(points.Kuu(kernel), 0.0, "Kuu")
    v = solve_lower(Kuu, kernel(points.Z, X[20:21]))[:, 0]
    # I + Στvvᵀ is singular, and all cavities are distributions
    precision[20] = -(1.0 + 1e-14) / (v @ v)
    model = Model(kernel, points, StudentT(0.3, 4.0))
    fit, found = searched_twice(model, y, 1.0, 0, precision)
    assert len(fit.convergence.trace) == len(found.convergence.trace) == 0
    assert error(found.log_evidence, fit.log_evidence) < 1e-12


def test_a_search_starts_from_earlier_sites_or_else_anew():
    model, targets = CASES["probit"]
    source = ArraySource(X, targets, piece_rows=9)
    cold = model_evidence(model, Problem(source))
    near = model.with_parameters(model.parameters() | {"kernel.log_variance": np.array(1.4)})
    expected = model_evidence(near, Problem(source))
    warm = model_evidence(near, Problem(source), start=cold.start)
    assert warm.n_sweeps < expected.n_sweeps
    assert error(warm.log_evidence, expected.log_evidence) < 1e-10
    again = model_evidence(model, Problem(source), start=cold.start)
    assert again.n_sweeps == 0
    from_array = model_evidence(
        model,
        Problem(source),
        start=np.concatenate([np.asarray(own[0]) for own in cold.start], axis=-1),
    )
    assert from_array.n_sweeps == 0
    assert error(from_array.log_evidence, cold.log_evidence) < 1e-12
    astray = [(np.full((2, 1, len(own[0][0, 0])), 1e8),) for own in cold.start]
    lost = adapter.search(model, source, 0.5, astray, max_sweeps=500)
    found = model_evidence(model, Problem(source), start=astray)
    assert found.converged
    assert found.n_sweeps == lost.n_sweeps + (0 if lost.converged else cold.n_sweeps)


class Endless(Source):
    """Rows that exist while they are looked at."""

    n_dims = 1
    rows = 1_000

    def __init__(self, n_pieces, labels=False, sites_dir=None):
        super().__init__(sites_dir)
        self.n_pieces = n_pieces
        self.labels = labels

    def pieces(self):
        for k in range(self.n_pieces):
            gc.collect()  # what NumPy leaves where it reads the sites in a file
            X = np.linspace(0.0, 3.0, self.rows)[:, None] + 1e-3 * k
            y = np.sin(2.0 * X[:, 0])
            yield Rows(X, np.sign(y) if self.labels else y, first=k * self.rows)


def peak(work):
    """The most memory at a time, in bytes."""
    gc.collect()
    gc.freeze()  # so that pieces find garbage in no time
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


ENDLESS = InducingPoints(np.linspace(0.0, 3.0, 4)[:, None])
LEVELS, LABELS = (
    Model(SquaredExponential(), ENDLESS, likelihood) for likelihood in (Gaussian(0.1), Probit())
)
WORKS = {
    "regression": lambda n, folder: model_gradient(LEVELS, Problem(Endless(n))),
    "search": lambda n, folder: model_gradient(
        LABELS, Problem(Endless(n, True, folder), 1.0), tol=1e-30
    ),
    "bounds": lambda n, folder: model_bounds(LEVELS, Problem(Endless(n))),
    "prediction": lambda n, folder: sum(
        mean.sum()
        for _, mean, _ in source_predict(
            LEVELS, model_gradient(LEVELS, Problem(Endless(1)))[0].posteriors, Endless(n)
        )
    ),
    "moments": lambda n, folder: Endless(n).total(moments_piece),
}


def peaks(work, folder):
    """Of a few pieces, and of thirty more; for a process of its own."""
    sparse_pep.model.SearchOptions = partial(SearchOptions, max_sweeps=6)  # as many for all
    WORKS[work](2, folder)
    return [peak(partial(WORKS[work], n, folder)) for n in (4, 34)]


@pytest.fixture(scope="module")
def alone():
    """A process in which nobody else takes memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("work", WORKS)
def test_memory_does_not_grow_with_the_data(alone, work, tmp_path):
    few, many = alone.submit(peaks, work, tmp_path).result()
    assert many < few + 120_000  # 30 pieces more: one number a datum would be 240 kB


@properties
@given(st.integers(1, 41), st.sampled_from([0.0, 1e8]), st.booleans())
def test_moments_are_those_of_all_rows(rows, level, weighted):
    columns = np.c_[X, np.ones(N)] + level
    w = np.where(np.arange(N) < 9, 0.0, weight) if weighted else np.ones(N)
    of_X, of_y = ArraySource(columns, np.c_[y, -y], w, piece_rows=rows).total(moments_piece)
    kept = np.repeat(np.arange(N), w.astype(int))
    assert of_X.weight == of_y.weight == len(kept)
    assert error(of_X.mean, columns[kept].mean(axis=0)) < 1e-12
    assert error(of_y.mean, [y[kept].mean(), -y[kept].mean()]) < 1e-12
    assert error(of_X.spread, column_spread(columns[kept])) < (1e-7 if level else 1e-12)
    assert error(of_y.square / of_y.weight, np.var(np.c_[y, -y][kept], axis=0)) < 1e-12
    assert of_X.spread[2] == 1.0
    assert error(of_y.spread, column_spread(np.c_[y, -y][kept])) < 1e-12


REFUSED = {
    "weight": ({"rows": Rows(X, signs, -1.0)}, "`weight` must lie in"),
    "powers of others": (
        {"rows": Rows(X, signs, power=np.full(3, 0.5))},
        "`power` must be one number.*each of the 40 rows",
    ),
    "no targets": ({"rows": ArraySource(X, piece_rows=9)}, "no targets `y`"),
    "powers": ({"power": powers}, "`power` must be one number"),
    "range": ({"power": 1.5}, r"`power` must lie in \[0, 1\]"),
    "blocks astray": (
        {"rows": ArraySource(X, signs, blocks=np.arange(N) % 4, piece_rows=9)},
        "rows of a block must follow each other",
    ),
    "weights in a block": (
        {"rows": ArraySource(X, signs, weight=1.0 + np.arange(N) % 3, blocks=blocks, piece_rows=9)},
        "`weight` must be the same for all data of a block",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("likelihood", [Gaussian(0.1), Probit()])
def test_refused(case, likelihood):
    options, message = REFUSED[case]
    problem = Problem(**{"rows": ArraySource(X, signs, piece_rows=9), **options})
    with pytest.raises(ValueError, match=message):
        model_gradient(Model(kernel, points, likelihood), problem)
