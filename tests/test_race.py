"""Training that chooses its way on held-out rows."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Probit
from sparse_pep.model import Model, model_evidence
from sparse_pep.race import (
    BY_NEIGHBOURS,
    ON_ALL_ROWS,
    Contest,
    Entrant,
    Race,
    best_of,
    winner_of,
)
from sparse_pep.training import TrainingOptions, train
from sparse_pep.training.options import Clock


def wave(n_rows, frequency, seed=0):
    """Inputs on a line, and noisy values of a wave."""
    rng = default_rng(seed)
    inputs = rng.uniform(0.0, 30.0, (n_rows, 1))
    return inputs, np.sin(frequency * inputs[:, 0]) + 0.1 * rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def fitted():
    """A fit to a wave that 15 inducing points cannot follow, and its data."""
    data = wave(1000, 3.0)
    return SparsePEPRegressor(n_inducing=15, random_state=0).fit(*data), *data


def test_neighbours_win_where_inducing_points_are_too_few(fitted):
    model, inputs, targets = fitted
    assert model.diagnostics_["race_won_by"].startswith("neighbours")
    assert "neighbours" in model.diagnostics_["local"]
    assert 0.014 < model.noise_variance_ < 0.028  # 0.01 by the variance of the targets
    X, _ = wave(300, 3.0, seed=1)
    assert np.sqrt(np.mean((model.predict(X) - np.sin(3.0 * X[:, 0])) ** 2)) < 0.06


def test_the_summary_shows_the_race(fitted):
    text = fitted[0].summary()
    assert "chosen way" in text
    assert "all rows, SquaredExponential, global: " in text
    assert "of 200 held-out rows" in text


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    model, inputs, _ = fitted
    model.save(tmp_path / "model.npz")
    assert_array_equal(load(tmp_path / "model.npz").predict(inputs), model.predict(inputs))


def test_later_rows_keep_the_way_that_was_chosen(fitted):
    model, inputs, targets = fitted
    again = SparsePEPRegressor(**model.get_params()).fit(inputs, targets)
    assert_array_equal(again.predict(inputs), model.predict(inputs))
    again.partial_fit(inputs[:50], targets[:50])
    for name, value in model.parameters().items():
        if "features" not in name:
            assert_array_equal(again.parameters()[name], value)


def test_all_rows_win_where_inducing_points_are_enough():
    inputs, targets = wave(1000, 0.3)
    auto, plain = (
        SparsePEPRegressor(training=training, n_inducing=20, random_state=0).fit(inputs, targets)
        for training in ("auto", "lbfgs")
    )
    assert auto.diagnostics_["race_won_by"] == "all rows, SquaredExponential, global"
    assert_allclose(auto.predict(inputs), plain.predict(inputs), atol=5e-3)


def test_of_many_rows_a_sample_stands_for_the_run_on_all_which_goes_on_if_it_wins(monkeypatch):
    inputs, targets = wave(1500, 1.0)
    asked = SparsePEPRegressor(n_inducing=20, random_state=0)
    whole = asked.fit(inputs, targets).diagnostics_
    evidence = asked.log_marginal_likelihood_value_
    sizes = []

    def noted(model, problem, *args, **options):
        sizes.append(problem.rows.n_data)
        return train(model, problem, *args, **options)

    monkeypatch.setattr("sparse_pep.race.MOST_ROWS", 500)
    monkeypatch.setattr("sparse_pep.race.train", noted)
    sampled = asked.fit(inputs, targets).diagnostics_
    assert sampled["race_won_by"] == whole["race_won_by"] == "all rows, SquaredExponential, global"
    assert sampled["race_held_out"] == 300
    assert sizes == [500]
    (first, *_) = whole["race"]  # neighbours among all rows
    assert sampled["race"][first] == whole["race"][first]
    assert asked.site_precision_.shape == (1500,)
    assert asked.log_marginal_likelihood_value_ > evidence - 0.002 * 1500


def test_neighbours_help_labels_of_a_function_with_much_structure():
    rng = default_rng(0)
    inputs = rng.uniform(0.0, 30.0, (1500, 1))
    f = 2.0 * np.sin(3.0 * inputs[:, 0])
    labels = np.where(norm.cdf(f) > rng.uniform(size=1500), "yes", "no")
    auto, plain = (
        SparsePEPClassifier(training=training, n_inducing=20, random_state=0).fit(inputs, labels)
        for training in ("auto", "lbfgs")
    )
    assert auto.diagnostics_["race_won_by"].startswith("neighbours")
    X = rng.uniform(0.0, 30.0, (500, 1))
    truth = norm.cdf(2.0 * np.sin(3.0 * X[:, 0]))
    errors = [np.mean(np.abs(model.predict_proba(X)[:, 1] - truth)) for model in (auto, plain)]
    assert errors[0] < 0.08 < 0.2 < errors[1]


@pytest.mark.parametrize(
    "options",
    [
        {"blocks": 5},
        {"tight": True, "power": 0.0},
        {"power": 1.0},
        {"power": "held_out"},
        {"local": 10},
        {"rows": 790},
    ],
    ids=str,
)
def test_where_something_needs_all_rows_there_is_no_race(options):
    inputs, targets = wave(options.pop("rows", 900), 0.5)
    options = {"n_inducing": 8, "random_state": 0} | options
    auto, plain = (
        SparsePEPRegressor(training=training, **options).fit(inputs, targets)
        for training in ("auto", "lbfgs")
    )
    assert "race" not in auto.diagnostics_
    assert_array_equal(auto.predict(inputs), plain.predict(inputs))


def entrant(name, densities, neighbours=0):
    """An entrant with these log densities."""
    return Entrant(name, None, neighbours, np.array(densities), float(np.mean(densities)))


def test_a_doubtful_lead_does_not_win():
    run = entrant(ON_ALL_ROWS, [0.0, 0.0, 0.0, 0.0])
    by_one_row = entrant(BY_NEIGHBOURS, [1.0, -0.1, -0.1, -0.1], 20)
    by_all_rows = entrant(BY_NEIGHBOURS, [0.1, 0.2, 0.1, 0.2], 20)
    assert best_of([run, by_one_row]) is by_one_row
    assert winner_of([run, by_one_row]) is run
    assert winner_of([by_all_rows, run]) is by_all_rows
    assert winner_of([by_one_row, by_all_rows]) is by_one_row  # without a run on all rows


def test_a_race_that_is_cut_short_gives_no_sites_of_a_part_of_the_rows():
    inputs, targets = wave(100, 1.0)
    labels = np.sign(targets)
    model = Model(SquaredExponential(), InducingPoints(inputs[:5]), Probit())
    problem = Problem(Rows(inputs, labels))
    race = Race(problem.rows, on_all_rows=train)
    over = Clock(seconds=1e-6)
    result = race(model, problem, TrainingOptions(), default_rng(0), over)
    assert result.limit == "max_time"
    assert not result.converged
    assert result.start is None
    assert np.isfinite(model_evidence(result.model, problem, result.start).log_evidence)


def test_rounds_that_fail_are_no_entrants():
    def rounds():
        yield [entrant(BY_NEIGHBOURS, [1.0], 20)]
        raise np.linalg.LinAlgError("singular")

    contest = Contest(SimpleNamespace(judge=None, rounds=rounds))
    assert contest.go_on()
    assert not contest.go_on()
    assert len(contest.entrants) == 1


def simulator(n_rows, seed=0):
    """Runs of a smooth function without noise."""
    inputs = default_rng(seed).uniform(size=(n_rows, 3))
    return inputs, np.sin(3.0 * inputs[:, 0] + inputs[:, 1]) + inputs[:, 2] ** 2


def test_rows_without_noise_are_inducing_points_and_predict_better():
    new, truth = simulator(300, seed=1)
    errors = []
    for n_inducing in (100, 99):
        model = SparsePEPRegressor(n_inducing=n_inducing, random_state=0).fit(*simulator(800))
        errors.append(np.sqrt(np.mean((model.predict(new) - truth) ** 2)))
        assert model.diagnostics_["race_won_by"].startswith("exactly") == (n_inducing == 100)
        assert len(model.features_) == {100: 800, 99: 99}[n_inducing]
    assert errors[0] < 0.2 * errors[1]


def test_rows_with_noise_are_not_tried_as_inducing_points():
    model = SparsePEPRegressor(random_state=0).fit(*wave(900, 0.5))
    assert not any(label.startswith("exactly") for label in model.diagnostics_["race"])
