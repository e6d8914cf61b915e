"""Columns of a mixed table: what they are treated as, the numbers that they become, and that a
model remembers.
"""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import user_warning, value_error
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data import columns as module
from sparse_pep.data.cells import cells_of, days_of, to_number
from sparse_pep.data.columns import (
    Columns,
    ColumnStats,
    column_of,
    columns_if_mixed,
    readings,
    stats_of_texts,
)
from sparse_pep.estimators.ingest import RawData
from sparse_pep.estimators.persistence import FORMAT_VERSION
from sparse_pep.numerics.files import read_archive, write_archive
from sparse_pep.training import LBFGS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 120
RNG = default_rng(0)
TABLE = pd.DataFrame(
    {
        "row_nr": np.arange(N) + 7,
        "area": RNG.normal(70.0, 20.0, N),
        "city": RNG.choice(["Bern", "Rome", "Oslo"], N),
        "garden": RNG.random(N) < 0.5,
        "sold": pd.to_datetime("2019-01-01") + pd.to_timedelta(RNG.integers(0, 1500, N), "D"),
        "size": pd.Categorical(RNG.choice(["S", "M"], N)),
    }
)
TARGET = (
    TABLE["area"].to_numpy() / 20.0
    + TABLE["city"].map({"Bern": 0.0, "Rome": 2.0, "Oslo": -1.0}).to_numpy()
)
TABLE.loc[::9, "area"] = np.nan
TABLE.loc[[3, 50], "city"] = None
FAST = {"n_inducing": 12, "training": LBFGS(max_iter=8), "random_state": 0, "standardize": True}


def kinds_of(columns):
    return {column.name: column.kind for column in columns.columns}


def only(values, **kinds):
    """The only column of a table of one, and the numbers that it becomes."""
    table = pd.DataFrame({"a": values, "b": np.linspace(0.0, 1.0, len(values))})
    columns = Columns.of(table, kinds)
    return columns.columns[0], columns.transform(table)[:, : len(columns.columns[0].names)]


TAKEN = {  # cells, kind, names of the columns of numbers
    "numbers with gaps": ([1.5, np.nan] * 6, "number", ["a", "a=(missing)"]),
    "text with words for gaps": (["1.5", "none", "2", "-"] * 3, "number", ["a", "a=(missing)"]),
    "truth in text": (["true", "False"] * 6, "number", ["a"]),
    "words with gaps": (["x", None, "y", ""] * 3, "category", ["a=x", "a=y", "a=(missing)"]),
    "numbers that are categories": (pd.Categorical([1, 2] * 6), "category", ["a=1", "a=2"]),
    "dates": (["2024-01-02", "2024-01-09 10:00"] * 6, "date", ["a", "a:sin(day)", "a:cos(day)"]),
    "dates of the first day of each month": (
        [f"2024-{m:02}-01" for m in range(1, 13)],
        "date",
        ["a"],
    ),
    "dates of some years": (
        [f"2{k:03}-0{1 + k % 9}-01" for k in range(12)],
        "date",
        ["a", "a:sin(year)", "a:cos(year)"],
    ),
    "points between day and month": (["3.1.2024", "4.1.2024"] * 6, "date", ["a"]),
    "slashes, and a 13th month": (["3/13/2024", "4/1/2024"] * 6, "date", ["a"]),
    "times of the day": (["10:30", "23:59:59"] * 6, "date", ["a", "a:sin(day)", "a:cos(day)"]),
    "different words": ([f"x{k}" for k in range(12)], "left out", []),
    "one word": (["x"] * 12, "left out", []),
    "one date": (["2024-01-02"] * 12, "left out", []),
    "nothing": ([None] * 12, "left out", []),
    "words that are nearly numbers, dates and times": (
        ["3rd", "A1", "1-2-3", "2024-13-01", "24:00", "12:60", "1e5x7"] * 8,
        "category",
        ["a=1-2-3", "a=12:60", "a=1e5x7", "a=2024-13-01", "a=24:00", "a=3rd", "a=A1"],
    ),
    "numbers and words for empty cells": (
        [*map(str, range(90)), "nil", "#N/A", ".", "missing"] * 2,
        "number",
        ["a", "a=(missing)"],
    ),
    "numbers and a last level": (
        ["1", "2", "3+"] * 8,
        "category",
        ["a=1", "a=2", "a=3+"],
    ),
    "ordinals": (["1st", "2nd", "3rd"] * 8, "category", ["a=1st", "a=2nd", "a=3rd"]),
    "labels with numbers": (["1. White", "2. Red"] * 8, "category", ["a=1. White", "a=2. Red"]),
    "words that are all rare": (
        [f"x{k // 2}" for k in range(24)] + ["y"] * 300,
        "category",
        ["a=y", "a=(other)"],
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_a_column_is_treated_as(case):
    values, kind, names = TAKEN[case]
    column, X = only(values)
    assert (column.kind, column.names) == (kind, names)
    assert X.shape == (len(values), len(names))
    assert np.all(np.isfinite(X))


@pytest.mark.parametrize(
    "form", ["%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%YQ", "Q %Y"]
)
@pytest.mark.parametrize("kinds", [{}, {"a": "date"}])
def test_months_and_quarters_are_dates(form, kinds):
    start = pd.date_range("1990-01-01", periods=48, freq="QS" if "Q" in form else "MS")
    quarters = start.quarter.astype(str)
    texts = start.strftime(form.replace("%YQ", "%Y-Q#").replace("Q %Y", "Q# %Y"))
    texts = [text.replace("#", quarter) for text, quarter in zip(texts, quarters, strict=True)]
    column, X = only(texts, **kinds)
    assert (column.kind, column.periods) == ("date", ("year",))
    assert X[:, 0].tolist() == [*(start - start[0]).days]


@pytest.mark.parametrize("form", ["%m/%d/%Y %I:%M %p", "%d %b %Y %I:%M:%S %p", "%B %d, %Y %H:%M"])
def test_times_of_day_in_halves_and_months_in_words(form):
    hours = pd.date_range("2021-01-01", periods=900, freq="h")
    column, X = only(hours.strftime(form).tolist())
    assert (column.kind, column.periods) == ("date", ("week", "day"))
    assert np.allclose(X[:, 0], np.arange(900) / 24)
    assert only(hours.strftime("%I:%M %p").tolist())[0].form == "h:m"


def test_what_the_user_says_decides():
    assert only([1.0, 2.0] * 6, a="category")[0].names == ["a=1", "a=2"]
    assert only(["3/1/2024", "5/2/2024"] * 6, a="M/D/Y")[1][:2, 0].tolist() == [0.0, 62.0]
    assert only(["3/1/2024", "5/2/2024"] * 6, a="D/M/Y")[1][:2, 0].tolist() == [0.0, 33.0]
    assert only(["28/2/2024", "29/2/2024", "1/3/2024"] * 6, a="D/M/Y")[1][:3, 0].tolist() == [
        0.0,
        1.0,
        2.0,
    ]
    assert only(["3", "3.00", "3.10", " x\ny"] * 6, a="category")[0].names == [
        "a=3",
        "a=3.10",
        "a=x y",
    ]
    assert only(np.arange(12.0), a="leave out")[0].kind == "left out"
    assert only([f"x{k // 2}" for k in range(12)], a="category")[0].kind == "category"
    assert only(pd.Categorical(["1", "2"] * 6), a="number")[1][:2, 0].tolist() == [1.0, 2.0]


STORES = [f"S{k % 150:03}" for k in range(8000)]


def test_many_levels_of_enough_rows_are_told_apart():
    column, X = only(STORES)
    assert len(column.levels) == 150
    assert not column.pooled
    assert X.shape == (8000, 30)
    assert len(np.unique(X, axis=0)) == 150
    assert "150 levels" in column.done
    assert len(only([*STORES, *["x"] * 9, "y"])[0].levels) == 150  # and rare ones are pooled
    column, X = only([*STORES, "x", "y", None])
    assert column.names[-2:] == ["a=(other)", "a=(missing)"]
    assert X[-3:, -2:].tolist() == [[1, 0], [1, 0], [0, 1]]
    assert not X[-3:, :-2].any()


def test_the_codes_of_levels_follow_from_their_names():
    few = Columns.of(pd.DataFrame({"a": STORES[:4000], "b": np.arange(4000.0)}))
    more = Columns.of(pd.DataFrame({"a": [*STORES, *["A"] * 99], "b": np.arange(8099.0)}))
    table = pd.DataFrame({"a": [*STORES[:9], "new"], "b": 0.0})
    assert_array_equal(few.transform(table)[:, :30], more.transform(table)[:, :30])
    assert not few.transform(table)[-1].any()
    assert Columns.from_json(few.to_json()) == few


def test_frequent_levels_have_columns_of_their_own_if_they_are_nearly_all_rows():
    values = ["US"] * 9000 + [f"x{k % 60}" for k in range(900)]
    column = only(values)[0]
    assert len(column.levels) == 30
    assert column.pooled
    assert "a=US" in column.names


def test_a_category_that_the_user_names_is_kept():
    assert only([f"x{k // 3}" for k in range(900)])[0].kind == "left out"
    for times in (3, 1):
        column, X = only([f"x{k // times}" for k in range(900)], a="category")
        assert len(column.levels) == 900 // times
        assert len(np.unique(X, axis=0)) == 900 // times


def test_many_levels_are_learned():
    rng = default_rng(0)
    store = rng.integers(0, 40, 2000)
    table = pd.DataFrame({"x": rng.uniform(size=2000), "store": [f"S{k}" for k in store]})
    y = 5.0 * rng.normal(size=40)[store] + 0.3 * rng.normal(size=2000)
    model = SparsePEPRegressor(n_inducing=40, training=LBFGS(max_iter=200), random_state=0)
    assert model.fit(table, y).score(table, y) > 0.97


def test_levels_have_functions_of_their_own_beside_one_that_they_share():
    rng = default_rng(0)
    store = rng.integers(0, 60, 2400)
    x = rng.uniform(size=2400)
    table = pd.DataFrame({"x": x, "store": [f"S{k}" for k in store]})
    y = 5.0 * rng.normal(size=60)[store] + np.sin(6.0 * x) + 0.3 * rng.normal(size=2400)
    model = SparsePEPRegressor(n_inducing=20, random_state=0).fit(table, y)
    assert model.noise_std_ == pytest.approx(0.3, rel=0.05)
    assert len(model.features_) == 80
    new = pd.DataFrame({"x": [0.5, 0.5], "store": ["S1", "new"]})
    with user_warning("'store' that training did not see"):
        known, unknown = model.predict(new, return_std=True)[1]
    assert unknown > 4.0 > 0.4 > known


def test_whole_numbers_identify_rows_only_if_their_name_says_so():
    numbers = np.arange(12)
    table = pd.DataFrame(
        {
            "year": 1990 + numbers,
            "id": numbers,
            "orderId": numbers,
            "rownames": numbers,
            "Unnamed: 0": numbers,
            "idea": numbers,
            "paid": numbers,
        }
    )
    assert Columns.of(table).used == ["year", "idea", "paid"]
    assert Columns.of(table[:9]).used == list(table)  # too few rows to say
    assert Columns.of(table.assign(id=numbers % 11), {"year": "leave out"}).used == [
        "id",
        "idea",
        "paid",
    ]


REFUSED = {  # cells, words of the message, what the user says
    "decimal commas": (["1,5", "2"] * 6, ["'1,5'", "decimal ,"]),
    "units": (["10 mg", "20 mg", "3"] * 4, ["'10 mg'", "unit"]),
    "money": (["$ 1,000", "2"] * 6, ["'$ 1,000'", "unit"]),
    "commas between thousands": (["1,234.5", "2"] * 6, ["'1,234.5'", "thousands"]),
    "commas of either kind": (["1,234", "2"] * 6, ["'1,234'", "thousands, or a decimal"]),
    "years of two digits": (["01/02/21", "31/12/20"] * 6, ["'01/02/21'", "write four"]),
    "durations": (["1:30", "30:00"] * 6, ["'30:00'", "durations"]),
    "exponents of Fortran": ([f"{k}.5D+01" for k in range(40)], ["'0.5D+01'", "mark"]),
    "spaces between thousands": (["1 234", "2"] * 6, ["'1 234'", "thousands"]),
    "two decimal marks": (["0,5", "0.5"] * 6, ["'0,5'", "'0.5'", "alike"]),
    "a bound among numbers": ([*map(str, range(99)), "<600"], ["'<600'", "mark"]),
    "a footnote among numbers": ([*map(str, range(99)), "2413*"], ["'2413*'", "mark"]),
    "a word among numbers": ([*map(str, range(99)), "high"], ["'high'", "1 cell of 100"]),
    "a word among dates": (
        [f"2024-01-{1 + k % 28:02}" for k in range(99)] + ["soon"],
        ["'soon'", "dates Y-M-D"],
    ),
    "dates of two forms": (
        [f"2024-01-{1 + k % 28:02}" for k in range(99)] + ["31.1.2024"],
        ["'31.1.2024'", "dates Y-M-D"],
    ),
    "dates that can be read twice": (
        ["3/1/2024", "4/1/2024"] * 6,
        ["'3/1/2024'", "`column_types={'a': 'D/M/Y'}`"],
    ),
    "infinity in text": (["1", "inf"] * 6, ["'inf'", "finite"]),
    "objects": ([{}, 1] * 6, ["'a'", "a dict"]),
    "objects of different kinds": (["x", 1] * 6, ["'a'", "1"]),
    "complex numbers": ([1j, 2.0] * 6, ["'a'", "1j"]),
    **{
        f"words, and {kinds}": (["x", "y"] * 6, [f"'{[*kinds][0]}'"], kinds)
        for kinds in ({"a": "text"}, {"c": "number"}, {"a": 3}, {"a": "number"}, {"a": "date"})
    },
}


def test_a_minus_sign_of_typographers_is_read():
    column, numbers = only(pd.Series(["\u22121.5", "2"] * 6))
    assert column.kind == "number"
    assert numbers[0] == -1.5


def test_all_columns_that_cannot_be_read_are_named_at_once():
    table = pd.DataFrame({"a": ["1 kg", "2 kg"] * 6, "b": ["$1", "$2"] * 6, "c": ["x", "y"] * 6})
    with value_error("column 'a' .* column 'b' "):
        Columns.of(table)
    assert Columns.of(table, {"a": "category", "b": "leave out"}).used == ["a", "c"]


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read(case):
    values, words, *kinds = REFUSED[case]
    with pytest.raises((ValueError, TypeError)) as caught:
        only(pd.Series(values, dtype=object), **dict(*kinds))
    for word in words:
        assert word in str(caught.value)


def test_memory_of_statistics_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_TEXTS", 5)
    names = pd.DataFrame({"a": [f"x{k}" for k in range(12)]})
    seen = ColumnStats.of(cells_of(names, ["a"])["a"]) + ColumnStats.of(cells_of(names, ["a"])["a"])
    assert len(seen.texts) == 5
    assert seen.n_values == 24
    assert not seen.distinct


@pytest.mark.parametrize("form", ["arrow", "text", "parquet"])
def test_every_form_of_a_table_gives_the_same_numbers(form, tmp_path):
    columns = Columns.of(TABLE)
    table = {
        "arrow": lambda: pa.Table.from_pandas(TABLE),
        "text": lambda: (
            TABLE.map(lambda v: v, na_action="ignore").astype(object).where(TABLE.notna(), None)
        ),
        "parquet": lambda: (
            TABLE.to_parquet(tmp_path / "t.parquet"),
            pd.read_parquet(tmp_path / "t.parquet"),
        )[1],
    }[form]()
    again = Columns.of(table)
    assert kinds_of(again) == kinds_of(columns)
    assert again.names == columns.names
    assert_allclose(again.transform(table), columns.transform(TABLE), rtol=1e-14)
    assert_array_equal(columns.transform(table), columns.transform(TABLE))


def test_categories_of_polars_have_places_without_a_sign():
    places = pa.array([0, 1, None] * 4, pa.uint32())
    coded = pa.DictionaryArray.from_arrays(places, pa.array(["x", "y"]))
    cells = cells_of(pa.table({"a": pa.chunked_array([coded, coded])}), ["a"])["a"]
    assert cells.places.tolist() == [0, 1, -1] * 8
    assert cells.texts == ["x", "y"]
    assert cells.closed


def test_a_later_table_may_differ():
    columns = Columns.of(TABLE)
    later = (
        TABLE[::-1][:4]
        .drop(columns="row_nr")[["size", "sold", "garden", "city", "area"]]
        .assign(more=1.0)
    )
    later = later.astype({"size": object, "garden": object})
    later.iloc[0, :5] = [None, None, None, "Ulm", None]
    X = dict(zip(columns.names, columns.transform(later).T, strict=True))
    assert X["area=(missing)"].tolist() == [1.0, 0.0, 1.0, 0.0]
    assert X["area"][0] == columns.columns[1].fill
    assert sum(values[0] for name, values in X.items() if name.startswith(("city", "size"))) == 0.0
    assert X["sold:sin(year)"][0] == 0.0
    assert X["garden"][0] == columns.columns[3].fill
    assert_array_equal(columns.transform(later[1:]), columns.transform(TABLE[::-1][1:4]))
    assert {key[:2]: count for key, count in columns.unseen_values(later).items()} == {
        ("city", "a level"): 1,
        ("garden", "no value"): 1,
        ("sold", "no value"): 1,
        ("size", "no value"): 1,
    }
    assert not columns.unseen_values(TABLE)


def test_a_description_comes_back_and_nothing_else_does():
    columns = Columns.of(TABLE)
    told = json.loads(json.dumps(columns.to_json()))
    assert Columns.from_json(told) == columns
    changes = {
        "kind": "code",
        "levels": "x",
        "fill": "0",
        "form": "Y",
        "periods": ["month"],
        "gaps": 1,
        "name": 3,
        "more": 1,
        "origin": float("nan"),
    }
    odd = [[told[1] | {name: value}, *told[2:]] for name, value in changes.items()]
    for description in (*odd, None, [], {}, [[]], "columns"):
        with pytest.raises((ValueError, TypeError)):
            Columns.from_json(description)


def test_numbers_without_gaps_stay_as_they_are():
    plain = TABLE[["area", "garden"]].fillna(1.0)
    assert columns_if_mixed(plain) is None
    assert columns_if_mixed(plain.set_axis([0, 1], axis=1)) is None
    assert columns_if_mixed(pa.Table.from_pandas(plain.astype(float))) is None
    assert columns_if_mixed(TABLE[["area"]]) is not None


@pytest.fixture(scope="module")
def model():
    return SparsePEPRegressor(**FAST).fit(TABLE, TARGET)


@pytest.fixture(scope="module")
def plain(model):
    """The model of the numbers that the table becomes, and these numbers."""
    numbers = model.columns_.transform(TABLE)
    raw = RawData(numbers, TARGET, encoded_by=model.columns_)
    return SparsePEPRegressor(**FAST)._fit(raw), numbers


def test_a_model_of_a_table_is_that_of_its_numbers(model, plain):
    of_numbers, numbers = plain
    assert of_numbers.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
    assert model.score(TABLE, TARGET) == of_numbers.score(numbers, TARGET)


def test_a_model_of_a_table_names_its_columns_and_counts_their_numbers(model):
    assert model.n_features_in_ == 6
    assert model.feature_names_in_.tolist() == list(TABLE)
    columns = model.columns_
    assert len(model.kernel_.lengthscale) == len(columns.names) == len(columns.origins)


def test_an_arrow_table_has_the_columns_of_a_frame(model):
    (batch,) = pa.Table.from_pandas(TABLE).combine_chunks().to_batches()
    assert SparsePEPRegressor(**FAST).fit(batch, TARGET).columns_ == model.columns_


FORMS = {
    "a frame": lambda columns: TABLE,
    "columns in another order": lambda columns: TABLE[TABLE.columns[::-1]],
    "without a column that is left out": lambda columns: TABLE.drop(columns="row_nr"),
    "an arrow table": lambda columns: pa.Table.from_pandas(TABLE),
    "numbers": lambda columns: columns.transform(TABLE),
}


@pytest.mark.parametrize("form", FORMS)
def test_predictions_are_the_same_for_every_form_of_a_table(model, plain, form):
    of_numbers, numbers = plain
    table = FORMS[form](model.columns_)
    assert_array_equal(model.predict(table), of_numbers.predict(numbers))


def test_a_file_whose_columns_do_not_fit_is_refused(model, tmp_path):
    model.save(tmp_path / "m.npz")
    state = read_archive(tmp_path / "m.npz", "sparse_pep model", FORMAT_VERSION)
    columns = state["fitted"]["columns"]
    table = columns["table"]
    for wrong in (None, 5, table[1:], table[:1] + table):
        fitted = state["fitted"] | {"columns": columns | {"table": wrong}}
        changed = state | {"fitted": fitted}
        write_archive(tmp_path / "bad.npz", changed, "sparse_pep model", FORMAT_VERSION)
        with value_error("cannot be used"):
            load(tmp_path / "bad.npz")


def test_draws_and_densities_take_tables(model):
    assert model.sample_y(TABLE[:3]).shape == (3, 1)
    assert model.predict_log_density(TABLE, TARGET).shape == (N,)


ODD = {  # columns that are no plain numbers
    "categories that are numbers": pd.Categorical([7, 7, 8, 8, 9, 9]),
    "dates": pd.date_range("2020", periods=6),
    "a gap": pd.array([1, 2, 3, None] * 2, "Int64")[:6],
    "nan": np.r_[np.nan, np.arange(5.0)],
    "durations": pd.to_timedelta([6, 12, 18, 24, 30, 36], unit="h"),
}


@pytest.mark.parametrize("case", ODD)
def test_one_column_that_is_no_plain_number(case):
    for frame in (
        pd.DataFrame({"a": ODD[case]}),
        pd.DataFrame({"b": np.arange(6.0), "a": ODD[case]}),
    ):
        for table in (frame, pa.Table.from_pandas(frame)):
            columns = columns_if_mixed(table)
            assert columns is not None
            assert kinds_of(columns) == kinds_of(Columns.of(frame))
            # days
            assert case != "durations" or columns.transform(table)[:, -1].tolist() == [
                0.25,
                0.5,
                0.75,
                1.0,
                1.25,
                1.5,
            ]


def test_what_training_did_not_see_is_told_once(model, recwarn):
    model.predict(TABLE)
    assert not recwarn
    model.predict(TABLE.assign(city="Ulm"), return_std=True)
    (told,) = recwarn
    assert f"{N} rows have a level of 'city' that training did not see; they are treated" in str(
        told.message
    )
    assert told.filename == __file__


def test_columns_are_those_of_the_first_data_that_count(model):
    odd = pd.concat([TABLE, TABLE[:2].assign(area=1e9, city="Ulm")])
    weighted = clone(model).fit(odd, np.r_[TARGET, 0.0, 0.0], np.r_[np.ones(N), np.zeros(2)])
    assert weighted.columns_ == Columns.of(TABLE)
    again = clone(model).fit(TABLE[:80], TARGET[:80])
    columns = again.columns_
    again.partial_fit(TABLE[80:], TARGET[80:])
    assert again.columns_ is columns
    assert again.n_samples_seen_ == N
    labels = SparsePEPClassifier(
        **FAST | {"training": LBFGS(max_iter=3)}, column_types={"row_nr": "leave out"}
    ).fit(TABLE, TARGET > 3.5)
    assert labels.predict_proba(TABLE[:5]).shape == (5, 2)
    assert 0.6 < labels.score(TABLE, TARGET > 3.5)


def test_what_is_left_out_is_said():
    with user_warning("'row_nr' .it identifies rows"):
        SparsePEPRegressor(**FAST).fit(TABLE, TARGET)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "training stopped")
        SparsePEPRegressor(**FAST, column_types={"row_nr": "leave out"}).fit(TABLE, TARGET)


AREA = TABLE.astype({"area": object})
BAD = {  # a later table, words of the message
    "a column less": (TABLE.drop(columns="city"), "no column 'city'"),
    "words for numbers": (AREA.assign(area="tall"), "row 0.*'area'.*'tall'"),
    "numbers for dates": (TABLE.assign(sold=3.0), "'sold' holds numbers"),
    "dates for numbers": (TABLE.assign(area=TABLE["sold"]), "'area' holds dates"),
    "infinity": (TABLE.assign(area=np.inf), "row 0.*'area'.*finite"),
    "infinity in text": (AREA.assign(area="inf"), "row 0.*'area'.*finite"),
    "an array of the columns of the table": (np.zeros((3, 6)), "6 features.*dataframe"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_later_table_that_does_not_fit(model, case):
    table, words = BAD[case]
    with value_error(words):
        model.predict(table)


def test_gaps_in_an_array_are_those_of_a_frame():
    X = np.where(np.arange(60).reshape(20, 3) % 7 == 3, np.nan, default_rng(0).normal(size=(20, 3)))
    assert_array_equal(
        *(
            SparsePEPRegressor(training=None, n_inducing=4, random_state=0)
            .fit(rows, np.arange(20.0))
            .predict(rows)
            for rows in (X, pd.DataFrame(X, columns=["x1", 2, "x3"]))
        )
    )


MARCH = "2021-03-05"  # a Friday, in the ninth week and the first quarter, day 64 of the year


@pytest.mark.parametrize(
    "text, day",
    [
        ("Fri, 5 Mar 2021", MARCH),
        ("5th of March 2021", MARCH),
        ("5. März 2021", MARCH),
        ("5 de marzo de 2021", MARCH),
        ("2021年3月5日", MARCH),
        ("2021_03_05", MARCH),
        ("20210305T0000", MARCH),
        ("20210305T000000", MARCH),
        ("2021-03-05 12:00 a.m.", MARCH),
        ("2021-064", MARCH),
        ("2021-W09-5", MARCH),
        ("2021W09", "2021-03-01"),
        ("KW 9/2021", "2021-03-01"),
        ("1Q2021", "2021-01-01"),
        ("2021:Q1", "2021-01-01"),
        ("T1 2021", "2021-01-01"),
    ],
)
def test_dates_are_read_in_the_forms_that_people_write(text, day):
    values = readings([text])
    assert {
        float(values[form][0]) for form in module.FORMS if values[form][0] == values[form][0]
    } == {float(days_of(np.datetime64(day)))}


@pytest.mark.parametrize(
    "form, what",
    [
        ("{} m/s", "a unit"),
        ("{} kilometres", "a unit"),
        ("EUR {}.50", "a unit"),
        ("-R$ {}", "a unit"),
        ("CHF 1'{}00", "a unit"),
        ("{}-", "a mark beside"),
        ("1.{}×10³", "a mark beside"),
        ('="{}"', "a mark beside"),
        ("1Q{}", "a year of two digits"),
        ("{}-Jan", "without a year"),
    ],
)
def test_numbers_that_a_person_must_correct_are_refused_in_many_forms(form, what):
    table = pd.DataFrame({"a": [form.format(k) for k in range(10, 70)]})
    with value_error(f"'a' holds .*{what}"):
        Columns.of(table)


@pytest.mark.parametrize("form", ["{} High Street", "S{}", "{}/7"])
def test_names_with_numbers_stay_names(form):
    texts = [form.format(k // 3) + "ABCDEF"[k % 6] * (form[-1] == "t") for k in range(180)]
    column = Columns.of(pd.DataFrame({"a": texts, "b": range(180)})).columns[0]
    assert column.kind in ("category", "left out")
    assert ("read as a name" in column.done) == (form[0] == "{")


@pytest.mark.parametrize("text, number", [("–5", -5.0), ("١٢٫٥", 12.5), ("\u200b12", 12.0)])
def test_signs_and_digits_of_other_scripts_are_numbers(text, number):
    assert to_number(text) == number


def test_codes_with_zeros_before_them_are_labels_unless_asked_for_as_numbers():
    table = pd.DataFrame({"zip": ["01234", "12345", "02134"] * 10})
    (column,) = Columns.of(table).columns
    assert column.kind == "category"
    assert column.levels == ("01234", "02134", "12345")
    assert "zeros before other digits are kept, as in '01234'" in column.done
    (column,) = Columns.of(table, {"zip": "number"}).columns
    assert column.kind == "number"
    assert "without the zeros before '01234'" in column.done


def done_with(texts):
    seen = stats_of_texts(cells_of(pd.DataFrame({"c": texts * 20}), ["c"])["c"])
    return column_of("c", seen).done


@pytest.mark.parametrize("form", ["PT{}H", "P{}DT2H", "kg {}", "Rs. {}", "FY{}", "{}/21"])
def test_numbers_behind_letters_are_never_names_in_silence(form):
    texts = [form.format(k) for k in range(1960, 2000)]
    if form[0] in "F{":
        assert f"{texts[0]!r} is read as a name" in done_with(texts)
        return
    with value_error(rf"{re.escape(texts[0])}', numbers with .* write "):
        done_with(texts)


def test_a_few_durations_are_levels_that_are_said():
    assert done_with(["PT1H", "PT15M"]).endswith("'PT1H' is read as a name, not as a duration")


def test_true_among_numbers_is_refused_and_beside_0_and_1_it_is_one():
    column = pd.DataFrame({"a": ["2.5", "TRUE", "7"] * 5})
    with value_error("'a' holds 'TRUE'; a finite number is expected"):
        Columns.of(column).transform(column)
    column = pd.DataFrame({"a": ["0", "TRUE", "1"] * 5})
    assert_array_equal(Columns.of(column).transform(column)[:3, 0], [0.0, 1.0, 1.0])


@pytest.mark.parametrize("form, name", [("%Y%m%d", "YMD"), ("%Y%m", "YM")])
def test_digits_are_dates_where_a_user_says_so(form, name):
    days = pd.Series(pd.date_range("2019-11-01", periods=30, freq="MS"))
    table = pd.DataFrame({"when": days.dt.strftime(form).astype(int)})
    columns = Columns.of(table, {"when": "date"})
    assert columns.columns[0].form == name
    assert Columns.of(table).columns[0].kind == "number"
    dates = days.to_frame("when")
    assert_array_equal(columns.transform(table), Columns.of(dates).transform(dates))
    bad = pd.DataFrame({"when": [20211201, 20211301]})
    with value_error("'20211301'; a date YMD is expected"):
        Columns.of(bad, {"when": "YMD"}).transform(bad)


NUMBERED = ["No. {}", "Week {}", "Day {}", "T-{}", "pH {}.1", "H1 201{}", "FY201{}", "#{}"]


@pytest.mark.parametrize(
    "form", [*NUMBERED, "{}. White", "{}st", "T{}", "Q{}", "Store {}", "S10{}"]
)
def test_numbered_things_and_periods_are_named_and_labels_are_not(form):
    done = done_with([form.format(k) for k in (2, 3, 4)])
    assert done.startswith("3 levels")
    assert (f"'{form.format(2)}' is read as a name, not as a number" in done) == (form in NUMBERED)


def test_years_and_the_next_are_named_where_they_may_be_months():
    assert "'2012/13' is read as a name" in done_with(["2012/13", "2013/14"])
    assert "'2008/09' is read as a month, not as a year" in done_with(["2008/09", "2009/10"])
    assert "read" not in done_with(["2008/09", "2008/10"])
