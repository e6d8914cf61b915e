"""`n_inducing="auto"`: how many inducing points are tried, which number is kept, and why growth
ends.
"""

import copy
from functools import cache

import numpy as np
import pytest
from numpy.random import default_rng

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model
from sparse_pep.training import LBFGS, Adam, TrainingOptions, TrainingResult, strategies
from sparse_pep.training.options import Clock
from sparse_pep.training.strategies import Growth, Trial

RNG = default_rng(0)
X = RNG.uniform(0.0, 6.0, (120, 1))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)


@pytest.fixture(autouse=True)
def growth_alone(monkeypatch):
    """The exact process of few rows, which comes before growth, has tests of its own."""
    monkeypatch.setattr("sparse_pep.estimators.strategies.MOST_INPUTS", (0, 0))


AUTO = {"n_inducing": "auto", "random_state": 0}


@cache
def smooth(power, piece_rows=None):
    """A model of a smooth curve, in memory or in pieces."""
    rows = (X, y) if piece_rows is None else (ArraySource(X, y, piece_rows=piece_rows),)
    training = LBFGS(tol=1e-2)
    return SparsePEPRegressor(power=power, training=training, standardize=False, **AUTO).fit(*rows)


each_power = pytest.mark.parametrize("power", [0.0, 0.5])
each_place = pytest.mark.parametrize("piece_rows", [None, 60])


@each_power
@each_place
def test_a_smooth_curve_takes_few_points(power, piece_rows):
    model = smooth(power, piece_rows)
    assert len(model.features_) == 100
    assert model.converged_


@each_power
@each_place
def test_points_are_measured_by_the_bound_or_by_leaving_out(power, piece_rows):
    model = smooth(power, piece_rows)
    if power == 0.0:
        measure = "log_evidence"
        expected = model.log_marginal_likelihood_value_ / len(y)
    else:
        measure = "log_density"
        expected = np.mean(model.leave_one_out())
    sweep = model.diagnostics_["inducing_sweep"]
    assert list(sweep) == ["n_inducing", measure]
    np.testing.assert_array_equal(sweep["n_inducing"], [100])
    assert sweep[measure][0] == pytest.approx(expected, rel=1e-9)


@each_power
def test_growth_in_pieces_has_the_evidence_of_that_in_memory(power):
    evidence, in_pieces = (smooth(power, n).log_marginal_likelihood_value_ for n in (None, 60))
    assert in_pieces == pytest.approx(evidence, rel=1e-6)


@each_power
def test_a_summary_says_how_growth_ended(power):
    rows = dict(row[:2] for row in smooth(power).summary_rows())
    assert {"points tried", "growth ended"} <= rows.keys()


@each_power
def test_later_data_add_no_points(power):
    model = copy.deepcopy(smooth(power))
    assert len(model.partial_fit(X[:20] + 6.0, y[:20]).features_) <= 100


@pytest.mark.parametrize(
    "kind, targets, more",
    [
        (SparsePEPClassifier, y > 0.0, {}),
        (SparsePEP, np.round(np.exp(y)), {"likelihood": "poisson"}),
        (SparsePEPRegressor, np.column_stack([y, -y]), {}),
        (SparsePEPRegressor, y, {"training": Adam(n_epochs=3)}),
        (SparsePEPRegressor, y, {"training": None, "blocks": 5}),
        (SparsePEPRegressor, y, {"power": np.linspace(0.0, 1.0, 120)}),
    ],
    ids=["labels", "counts", "outputs", "adam", "no optimizer, blocks", "powers"],
)
def test_every_kind_of_fit_grows(kind, targets, more):
    model = kind(**AUTO | {"training": LBFGS(tol=0.1), "standardize": False} | more).fit(X, targets)
    sweep = model.diagnostics_["inducing_sweep"]
    assert len(model.features_) in sweep["n_inducing"]
    kept = list(sweep["n_inducing"]).index(len(model.features_))
    assert sweep["log_density"][kept] == pytest.approx(np.mean(model.leave_one_out()), abs=1e-4)


def growth(monkeypatch, values, gaps=None, passed=(), n_rows=1200):
    """`Growth` with made-up scores: the numbers of points tried, the number kept, and the end."""
    values = iter(values)
    gaps = iter(gaps or [np.inf] * 9)
    rows = default_rng(0).uniform(0.0, 1200.0, (n_rows, 1))
    piece = Rows(rows, rows[:, 0])
    model = Model(SquaredExponential(1.0, 1.0), InducingPoints(rows[:100]), Gaussian(1.0))
    times = iter(passed)
    tried = []
    over = [False]

    class FakeClock(Clock):
        is_over = property(lambda self: over[0])

    def trained(model, *arguments):
        tried.append(len(model.features))
        over[0] = next(times, False)
        return TrainingResult(model=model, message="", limit="max_iter")

    monkeypatch.setattr(
        strategies,
        "score_size",
        lambda result, _: Trial(result, "log_density", next(values), next(gaps)),
    )
    strategy = Growth(piece, trained)
    rng = default_rng(0)
    found = strategy(model, Problem(piece), TrainingOptions(), rng, FakeClock(9.0))
    return tried, len(found.model.features), found


def test_which_number_is_kept_and_when_growth_ends(monkeypatch):
    tried, kept, found = growth(monkeypatch, [0.0, 0.5, 0.505])
    assert (tried, kept, found.converged) == ([100, 200, 400], 200, True)
    assert found.entries["growth_ended"] == "more points gained less than 0.01 nats per data point"
    tried, kept, found = growth(monkeypatch, [0.0, 1.0], gaps=[np.inf, 0.005])
    assert (tried, kept) == ([100, 200], 200)
    assert (
        found.entries["growth_ended"]
        == "at these parameters more points can gain less than 0.01 nats per data point"
    )
    tried, kept, found = growth(monkeypatch, np.arange(9.0))
    assert (tried, kept, found.converged) == ([100, 200, 400, 800, 1000], 1000, True)
    assert found.entries["growth_ended"] == "the largest number, 1000, was reached"
    # a measure that is no number is not the best
    tried, kept, found = growth(monkeypatch, [np.nan, -3.0, np.nan])
    assert (tried, kept) == ([100, 200, 400], 200)
    tried, kept, found = growth(monkeypatch, np.arange(9.0), passed=[False, True])
    assert (tried, kept, found.converged) == ([100, 200], 200, False)
    assert found.message == "the limit of 9 s was reached while the number of inducing points grew"
    assert found.limit == "max_time"


def test_rows_that_are_all_points_end_growth(monkeypatch):
    tried, kept, found = growth(monkeypatch, [0.0], n_rows=100)
    assert (tried, kept, found.entries["growth_ended"]) == (
        [100],
        100,
        "the points explain all data",
    )


def test_many_rows_compare_ways_to_train_before_points_are_added():
    rng = default_rng(0)
    places = rng.uniform(0.0, 6.0, (1200, 1))
    targets = np.sin(places[:, 0]) + 0.1 * rng.normal(size=1200)
    model = SparsePEPRegressor(**AUTO).fit(places, targets)
    assert model.diagnostics_["race_won_by"] == "all rows, SquaredExponential, global"
    assert list(model.diagnostics_["inducing_sweep"]["n_inducing"]) == [100]
