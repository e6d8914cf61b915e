"""An array in memory is looked at twice and copied twice on its way from the user to inference."""

import re
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import user_warning, value_error
from numpy.testing import assert_array_equal

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.tables import convert_table
from sparse_pep.estimators import base, ingest
from sparse_pep.training.initialise import SAMPLE_ROWS

N_ROWS = 5 * SAMPLE_ROWS  # so many that starting values are taken from a sample
CHECKS = [
    (ingest, "has_gaps"),
    (ingest, "require_finite"),
    (np, "isnan"),
    (np, "isfinite"),
    (np, "abs"),
    (np, "argwhere"),
    (pd, "isna"),
]
ESTIMATORS = [SparsePEPRegressor, SparsePEPClassifier]


class Reached(Exception):
    """Inference would begin now."""


@pytest.fixture
def road(monkeypatch):
    """Runs a fit up to where inference begins, and returns the peak of the memory it took."""

    def reached(*arguments):
        raise Reached

    def run(estimator, X, y):
        monkeypatch.setattr(base, "train_as_asked", reached)
        tracemalloc.start()
        with pytest.raises(Reached):
            estimator(n_inducing=5, random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    return run


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 20))
    return X, X[:, 0] > rng.normal(size=N_ROWS)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_X_is_copied_at_most_twice(road, data, estimator):
    X, y = data
    road(estimator, X[:100], y[:100])  # loads what is loaded once
    assert road(estimator, X, y) < 2.5 * X.nbytes


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_X_is_looked_through_for_bad_cells_at_most_twice(road, data, monkeypatch, estimator):
    X, y = data
    looks = []

    def counted(module, name):
        original = getattr(module, name)

        def look(values, *arguments, **options):
            if np.size(values) == X.size:
                looks.append(name)
            return original(values, *arguments, **options)

        monkeypatch.setattr(module, name, look)

    for module, name in CHECKS:
        counted(module, name)
    road(estimator, X, y)
    assert len(looks) <= 2


ROWS = np.random.default_rng(0).uniform(0.0, 6.0, (40, 2))
DAYS = pd.date_range("2021-01-01", periods=40)
TURN = np.arange(40) % 10


def coded(code, values=ROWS[:, 1], n_codes=1):
    """Values of which one in ten, or more, is a code."""
    return np.where(TURN >= n_codes, values, code)


ODD = {  # column, warning
    "code": (coded(-999.0), "'b' of `X` holds -999 in 4 of 40"),
    "fill": (coded(1e20), "'b' of `X` holds 1e\\+20 in 4 of 40"),
    "both": (
        coded(np.where(TURN % 2, 999.0, -999.0), n_codes=2),
        "'b' of `X` holds -999 in 4 and 999 in 4 of 40 rows, and otherwise 0.* to [4-6].*If these",
    ),
    "two lengths": (
        coded(np.where(TURN % 2, -999.0, -9999.0), n_codes=2),
        "holds -9999 in 4 and -999 in 4 of 40",
    ),
    "decimal": (coded(-99.9), "holds -99.9 in 4 of 40"),
    "short float": (
        coded(np.float32(99.99)),
        "holds 99.98999.* in 4 of 40",
    ),
    "once": (np.where(np.arange(40), ROWS[:, 1], -999.0), ""),
    "near": (coded(-999.0, 1e4 + 5e3 * ROWS[:, 1]), "'b' of `X` holds -999"),
    "in range": (np.linspace(0.0, 999.0, 20).repeat(2), ""),
    "digits": (
        DAYS.strftime("%Y%m%d").astype(int),
        "'b' of `X` looks like times \\(days in the form 20210101\\)",
    ),
    "months": (
        (np.arange(40) // 12 + 1999) * 100 + np.arange(40) % 12 + 1,
        "months in the form 199901",
    ),
    "minutes": (
        DAYS.strftime("%Y%m%d1259").astype(int),
        "minutes in the form 202101011259",
    ),
    "weeks": (
        (np.arange(40) * 5 // 52 + 2015) * 100 + np.arange(40) * 5 % 52 + 1,
        "weeks in the form 201501",
    ),
    "no month": (np.arange(199980, 200020), ""),
    "no day": (20210101 + np.arange(40), ""),
}


def frame_with(values, name="b"):
    return pd.DataFrame({"a": ROWS[:, 0], name: values})


def warnings_of(X, y, **arguments):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SparsePEPRegressor(n_inducing=5, training=None, **arguments).fit(X, y)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("values, message", ODD.values(), ids=ODD)
def test_numbers_that_mean_something_else_are_named(values, message, mixed):
    X = frame_with(values)
    if mixed:
        X["kind"] = ["x", "y"] * 20
    said = warnings_of(X, ROWS[:, 0])
    assert len(said) == bool(message)
    assert re.search(message, "".join(said))


def test_codes_among_targets_and_times_in_columns_are_named():
    y = coded(-9999.0, ROWS[:, 0])
    assert re.search("`y` holds -9999 in 4 of 40 rows.* such rows out", warnings_of(ROWS, y)[0])
    seconds = (DAYS - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
    for values, what in ((seconds, "seconds since 1970"), (44197 + np.arange(40), "spreadsheet")):
        assert what in warnings_of(frame_with(values, "date"), ROWS[:, 0])[0]
        assert not warnings_of(frame_with(values, "lifetime"), ROWS[:, 0])


def test_codes_beside_gaps_and_among_dates_are_told_from_what_fills_cells():
    values = coded(-999.0)
    values[5] = np.nan
    assert re.search(
        "-999 in 4 of 39 rows, and otherwise 0", warnings_of(frame_with(values), ROWS[:, 0])[0]
    )
    dates = DAYS.strftime("%Y-%m-%d").where(TURN > 0, "1900-01-01")
    said = warnings_of(frame_with(dates), ROWS[:, 0])[0]
    assert "'b' of `X` holds 1900-01-01 in 4 of 40 rows, and otherwise 2021-01-02 to" in said
    assert "fitted as a date" in said


def test_times_of_day_without_a_colon_are_named_by_their_column():
    clock = np.arange(40) % 24 * 100 + np.arange(40) % 60
    said = warnings_of(frame_with(clock, "dep_time"), ROWS[:, 0])
    assert "times of day in the form 2323" in said[0]
    assert not warnings_of(frame_with(clock), ROWS[:, 0])


@pytest.mark.parametrize("name, levels", [("fate", ("alive", "dead")), ("event", ("no", "yes"))])
def test_a_category_that_says_which_durations_had_ended_is_named(name, levels):
    X = frame_with(np.array(levels)[np.arange(40) % 2], name)
    with user_warning(f"'{name}' of `X`.*== '{levels[0]}', -time, time"):
        SparsePEP(likelihood="weibull", n_inducing=5, training=None).fit(X, ROWS[:, 0] + 1.0)


def test_row_numbers_of_numeric_tables_and_levels_spelled_alike_are_named():
    numbered = frame_with(np.arange(40), "id")
    assert "left out: 'id' (it identifies rows)" in warnings_of(numbered, ROWS[:, 0])[0]
    assert not warnings_of(numbered[["id"]], ROWS[:, 0])  # the only input
    assert not warnings_of(frame_with(np.arange(40) // 2, "id"), ROWS[:, 0])
    spelled = frame_with(["yes", "Yes", "YES", "no"] * 10)
    assert "'YES', 'Yes', 'yes', which differ in capitals" in warnings_of(spelled, ROWS[:, 0])[0]


@pytest.mark.parametrize(
    "name, first, signed",
    [
        ("event", 0, "event == 1, time, -time"),
        ("status", 1, "status == 2, time, -time"),
        ("censored", 0, "censored == 1, -time, time"),
    ],
)
def test_a_column_of_events_beside_durations_is_named(name, first, signed):
    X = frame_with(first + np.arange(40) % 2, name)
    model = SparsePEP(likelihood="weibull", n_inducing=5, training=None)
    with user_warning(f"'{name}' of `X` is an input, but .*{signed}"):
        model.fit(X, np.exp(ROWS[:, 0]))
    assert not warnings_of(X, ROWS[:, 0])


def test_ended_durations_that_are_given_as_censored_are_named(tmp_path):
    path = tmp_path / "durations.csv"
    path.write_text("age,time,event,open\n1,2,0,1\n2,3,1,0\n")
    with user_warning("1 in column 'event' is read as .* had not ended"):
        convert_table(path, target="time", columns=["age"], censored="event")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert_table(path, target="time", columns=["age"], censored="open")


@pytest.mark.parametrize("dates", [("2021-03-05", "05.03.2021"), ("13/04/2021", "04/13/2021")])
def test_dates_in_two_forms_are_refused_with_both(dates):
    with value_error(f"two forms, '{dates[0]}' and '{dates[1]}'"):
        SparsePEPRegressor().fit(frame_with([*dates] * 20), ROWS[:, 0])


def test_a_frame_of_ordered_categories_is_their_series():
    classes = pd.Categorical(np.array(["low", "high"])[np.arange(40) % 2], ["low", "high"], True)
    model = SparsePEP(likelihood="ordinal", n_inducing=5, training=None, random_state=0)
    found = []
    for y in (pd.Series(classes), pd.DataFrame({"class": classes})):
        with user_warning("low < high"):
            found.append(model.fit(ROWS, y).predict(ROWS))
    assert_array_equal(*found)


@pytest.mark.parametrize("mixed", [False, True])
def test_later_tables_may_have_further_columns(mixed):
    X = frame_with(["x", "y"] * 20 if mixed else ROWS[:, 1])
    model = SparsePEPRegressor(n_inducing=5, training=None, random_state=0).fit(X, ROWS[:, 0])
    wider = X.assign(more=1.0)[["more", "a", "b"]]
    assert_array_equal(model.predict(wider), model.predict(X))
    model.partial_fit(wider, ROWS[:, 0])
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("y", [ROWS[:, 0] > 3.0, ROWS[:, 0].astype(str)], ids=["truth", "text"])
def test_targets_that_may_be_labels_are_named_whatever_holds_them(y):
    for values in (y, y.astype(object)):
        assert "for labels use SparsePEPClassifier" in warnings_of(ROWS, values)[0]


def test_a_row_of_totals_at_the_end_is_named():
    y = np.r_[ROWS[:-1, 0], ROWS[:-1, 0].sum()]
    assert "the last of 40 values of `y`" in warnings_of(ROWS, y)[0]
    assert not warnings_of(ROWS, y[::-1])
