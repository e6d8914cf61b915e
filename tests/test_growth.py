"""`n_inducing="auto"`: how many inducing points are tried, which number is kept, and why growth
ends.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.sources import ArraySource
from sparse_pep.estimators import strategies
from sparse_pep.estimators.fitting import Data, Outcome
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model
from sparse_pep.training import LBFGS, Adam
from sparse_pep.training.options import Clock

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 6.0, (120, 1))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=120)
AUTO = {"n_inducing": "auto", "random_state": 0}


def test_a_measure_that_is_no_number_is_not_the_best(monkeypatch):
    values = iter([np.nan, -3.0, np.nan])
    monkeypatch.setattr(strategies, "measured", lambda *_: ("log_density", next(values), np.inf))
    with pytest.warns(ConvergenceWarning):
        model = SparsePEPRegressor(training=LBFGS(max_iter=1), **AUTO).fit(X, y)
    np.testing.assert_array_equal(model.diagnostics_["inducing_sweep"]["n_inducing"], [25, 50, 100])
    assert len(model.features_) == 50


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_a_smooth_curve_takes_few_points_in_memory_and_in_pieces(power):
    model, other = (
        clone(SparsePEPRegressor(power=power, training=LBFGS(tol=1e-2), standardize=False, **AUTO))
        for _ in range(2)
    )
    model.fit(X, y)
    other.fit(ArraySource(X, y, piece_rows=60))
    for fit in (model, other):
        assert len(fit.features_) == 25
        assert fit.converged_
        sweep = fit.diagnostics_["inducing_sweep"]
        measure = "log_density"
        measured = np.mean(fit.leave_one_out())
        if power == 0.0:
            measure = "log_evidence"
            measured = fit.log_marginal_likelihood_value_ / len(y)
        np.testing.assert_array_equal(sweep["n_inducing"], [25, 50, 100])
        assert list(sweep) == ["n_inducing", measure]
        assert sweep[measure][0] == pytest.approx(measured, rel=1e-9)
    assert other.log_marginal_likelihood_value_ == pytest.approx(
        model.log_marginal_likelihood_value_, rel=1e-6
    )
    assert (
        len([row for row in model.summary_rows() if row[0] in ("points tried", "growth ended")])
        == 2
    )
    assert len(model.partial_fit(X[:20] + 6.0, y[:20]).features_) <= 25


@pytest.mark.parametrize(
    ("kind", "targets", "more"),
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
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_kind_of_fit_grows(kind, targets, more):
    model = kind(**AUTO | {"training": LBFGS(tol=0.1), "standardize": False} | more).fit(X, targets)
    sweep = model.diagnostics_["inducing_sweep"]
    assert len(model.features_) in sweep["n_inducing"]
    assert len(sweep["n_inducing"]) > 1
    kept = list(sweep["n_inducing"]).index(len(model.features_))
    assert sweep["log_density"][kept] == pytest.approx(np.mean(model.leave_one_out()), abs=1e-4)


def growth(monkeypatch, values, gaps=None, passed=()):
    """`grown` with made-up measures: the numbers of points tried, the number kept, and the end."""
    values = iter(values)
    gaps = iter(gaps or [np.inf] * 9)
    rows = np.random.default_rng(0).uniform(0.0, 1200.0, (1200, 1))
    piece = Rows(rows, rows[:, 0])
    data = Data(piece, piece, piece, power=np.array(0.5))
    start = Model(SquaredExponential(1.0, 1.0), InducingPoints(rows[:100]), Gaussian(1.0))
    times = iter(passed)
    tried = []

    class FakeClock(Clock):
        is_over = property(lambda self: over[0])

    over = [False]

    def trained(model, *arguments):
        tried.append(len(model.features))
        over[0] = next(times, False)
        return Outcome(model, entries={"message": "", "limit": "max_iter"})

    monkeypatch.setattr(strategies, "trained", trained)
    monkeypatch.setattr(
        strategies, "measured", lambda *given: ("log_density", next(values), next(gaps))
    )
    given = replace(SparsePEPRegressor(**AUTO))
    found = strategies.grown(start, data, given, np.random.default_rng(0), FakeClock(9.0))
    return tried, len(found.model.features), found


def test_which_number_is_kept_and_when_growth_ends(monkeypatch):
    tried, kept, found = growth(monkeypatch, [0.0, 0.004, 0.012, 0.5, 0.505])
    assert (tried, kept, found.converged) == ([25, 50, 100, 200, 400], 200, True)
    assert found.entries["growth_ended"] == "more points gained less than 0.01 nats per data point"
    # 100 is tried in any case, and is worse
    tried, kept, found = growth(monkeypatch, [0.0, 1.0, 0.0])
    assert (tried, kept) == ([25, 50, 100], 50)
    tried, kept, found = growth(monkeypatch, [0.0, 1.0, 2.0], gaps=[0.0, 0.0, 0.005])
    assert (tried, kept) == ([25, 50, 100], 100)
    assert (
        found.entries["growth_ended"]
        == "at these parameters more points can gain less than 0.01 nats per data point"
    )
    tried, kept, found = growth(monkeypatch, np.arange(9.0))
    assert (tried, kept, found.converged) == ([25, 50, 100, 200, 400, 800, 1000], 1000, True)
    assert found.entries["growth_ended"] == "the largest number, 1000, was reached"
    tried, kept, found = growth(monkeypatch, np.arange(9.0), passed=[False, True])
    assert (tried, kept, found.converged) == ([25, 50], 50, False)
    assert (
        found.entries["message"]
        == "the limit of 9 s was reached while the number of inducing points grew"
    )
    assert found.entries["limit"] == "max_time"


def test_rows_that_are_all_points_end_growth():
    model = SparsePEPRegressor(**AUTO, training=LBFGS(tol=0.1)).fit(X[:12], y[:12])
    assert (len(model.features_), model.diagnostics_["growth_ended"]) == (
        12,
        "the points explain all data",
    )
