"""Mixed tables in several forms, and data that are read in pieces."""

import gc
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import accept, document, refused_line
from numpy.random import default_rng
from numpy.testing import assert_allclose

import sparse_pep.data.tables
from sparse_pep import load

LEARN = "--target response --inducing 8 --max-iter 8 --quiet"
KINDS = "--target kind --likelihood auto --inducing 5 --max-iter 3 --quiet"
HOUSES = "--target price --inducing 5 --max-iter 2 --quiet"


def told(*words):
    """What `fit` prints but for the name of the file, and for advice, which needs rows at hand."""
    text = accept("fit", *words).stdout
    assert "wrote " in text
    assert "data point: " in text
    return re.sub("advice: .*\n", "", text.partition("wrote ")[0])


HELD = "--test-fraction 0.2 --report page.html"
OPTIONS = ["--weight times", "--no-standardize", "--power held_out", HELD, HELD + " --weight times"]


@pytest.mark.parametrize(
    "data, more",
    [("table.csv", ""), ("table.parquet", ""), ("parts", ""), *(("parts", it) for it in OPTIONS)],
)
def test_a_fit_in_pieces_says_what_one_in_memory_says(pieces, data, more):
    whole = told("table.csv", LEARN, more, "--out whole.npz")
    assert told(data, LEARN, more, "--in-pieces --out pieces.npz") == whole
    whole = load("whole.npz")
    pieces = load("pieces.npz")
    assert pieces.extra_ == whole.extra_
    assert_allclose(pieces.x_mean_, whole.x_mean_, rtol=1e-12)
    assert_allclose(pieces.x_scale_, whole.x_scale_, rtol=1e-12)
    assert ("times" in whole.extra_["feature_names"]) == ("--weight" not in more)


WEIBULL = "--target response --likelihood weibull --inducing 3 --max-iter 1 --tol 1 --quiet"


def test_durations_that_had_not_ended_get_a_minus_sign(pieces):
    """The fit is that of a target with the signs, from one file or several."""
    table = pieces.drop(columns="times").assign(unfinished=pieces["times"] == 1)
    table["response"] *= default_rng(1).weibull(2.0, len(table))
    table.to_csv("durations.csv", index=False)
    Path("both").mkdir()
    table[:30].to_parquet("both/a.parquet")
    table[30:].assign(unfinished=1 * table["unfinished"][30:]).to_csv("both/b.csv", index=False)
    signs = np.where(table["unfinished"], -1.0, 1.0)
    signed = table.assign(response=table["response"] * signs).drop(columns="unfinished")
    signed.to_csv("signs.csv", index=False)
    whole = told("signs.csv", WEIBULL)
    assert whole != told("durations.csv", WEIBULL, "--drop unfinished")
    assert told("durations.csv", WEIBULL, "--censored unfinished") == whole
    assert told("both", WEIBULL, "--censored unfinished --in-pieces") == whole


@pytest.mark.parametrize("more", ["", "--in-pieces"])
def test_row_numbers_of_a_table_of_numbers_are_left_out_as_of_a_mixed_one(pieces, more):
    pieces.assign(id=range(len(pieces))).to_csv("numbered.csv", index=False)
    pieces.iloc[:, ::-1].to_csv("turned.csv", index=False)
    said = told("numbered.csv", LEARN, more, "--out numbered.npz")
    assert "id " in said and "it identifies rows\n" in said
    accept("predict numbered.npz turned.csv --out a.csv")
    accept("predict numbered.npz numbered.csv --out b.csv")
    assert Path("a.csv").read_text() == Path("b.csv").read_text()


FORMS = ["houses.parquet", "german.csv --decimal ,", "houses.csv --in-pieces", "houses --in-pieces"]


@pytest.mark.parametrize("words", FORMS)
def test_a_mixed_table_in_every_form_gives_the_same_model(houses, words):
    whole = told("houses.csv", HOUSES, "--out whole.npz")
    assert "id      left out   it identifies rows\n" in whole
    assert "2 empty cells as a level" in whole
    assert told(words, HOUSES, "--out other.npz") == whole
    accept("predict whole.npz other.csv --out a.csv")
    accept("predict other.npz other.csv --out b.csv")
    table = pd.read_csv("a.csv")
    assert len(table) == 2
    assert np.all(np.isfinite(table))
    assert_allclose(pd.read_csv("b.csv"), table, rtol=1e-6)


@pytest.mark.parametrize("words", FORMS)
def test_what_training_did_not_see_is_noted(houses, words):
    accept("fit", words, HOUSES)
    assert "Note" not in accept("predict model.npz", words).stderr
    note = accept("predict model.npz other.csv").stderr
    level = "Note: 1 row has a level of 'city' that training did not see; it is treated"
    assert note.startswith(level)
    assert "1 row has no value of 'sold'" in note
    assert "given the mean of training, with the variance that this leaves" in note


@pytest.mark.parametrize("words", FORMS)
def test_dates_beyond_those_of_training_are_noted(houses, words):
    accept("fit", words, HOUSES)
    houses.assign(sold="2032-01-01").to_csv("late.csv", index=False)
    in_pieces = "--in-pieces" * ("--in-pieces" in words)
    note = accept("predict model.npz late.csv", in_pieces).stderr
    assert "Warning" not in note
    assert "60 rows in 'sold' outside 2022-01-01 to 2022-03-01, by up to 3593 days" in note


def test_the_user_decides_what_columns_are_treated_as(houses):
    words = "--columns id=number --columns 'sold=leave out' --drop area --json"
    columns = json.loads(accept("fit houses.csv", HOUSES, words).stdout)["columns"]
    kinds = {column["name"]: column["kind"] for column in columns}
    assert kinds == {"id": "number", "city": "category", "sold": "left out"}
    model = load("model.npz")
    assert model.columns_.to_json() == columns
    assert model.extra_["feature_names"] == ["id", "city"]
    assert np.all(np.isfinite(model.predict(houses)))  # and the table itself


def test_a_comparison_says_which_columns_are_left_out(houses):
    compared = accept("compare houses.csv", HOUSES, "--splits 1 --powers 0.5")
    assert "left out" in compared.stderr
    assert "averages" in compared.stdout


def test_a_parquet_file_without_its_library_is_refused(houses, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in refused_line("fit houses.parquet --target price")


@pytest.fixture
def opened(monkeypatch):
    """The CSV files that were opened."""
    files = []
    read_csv = pd.read_csv

    def open_file(file, **options):
        files.append(file)
        return read_csv(file, **options)

    monkeypatch.setattr(pd, "read_csv", open_file)
    return files


@pytest.fixture
def arrays(monkeypatch):
    """The arrays on disk, in pieces of seven rows."""
    made = []

    class Recorded(sparse_pep.data.tables.TableArrays):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr("sparse_pep.data.sources.FEWEST_AND_MOST", (7, 7))
    monkeypatch.setattr(sparse_pep.data.tables, "TableArrays", Recorded)
    return made


LARGE = "--in-pieces --inducing 4 --max-iter 2"


@pytest.mark.parametrize(
    "file, options",
    [
        ("table.csv", "--target response --likelihood gaussian"),
        ("kinds.csv", "--target kind --likelihood auto"),
    ],
)
def test_a_large_file_is_read_once_and_kept_on_disk(
    pieces, opened, arrays, monkeypatch, file, options
):
    Path("cache").mkdir()
    monkeypatch.setattr("tempfile.tempdir", "cache")
    said = accept("fit", file, options, LARGE).stderr
    assert f"writing the arrays of '{file}' to '" in said
    assert len(opened) == 1
    assert [max(len(piece.X) for piece in source.pieces()) for source in arrays] == [7]
    assert isinstance(arrays[0].columns["X"], np.memmap)
    arrays.clear()
    gc.collect()
    assert not list(Path("cache").iterdir())


def test_a_large_file_is_predicted_without_arrays_on_disk(pieces, opened, arrays):
    accept("fit table.csv --target response", LARGE)
    opened.clear()
    arrays.clear()
    accept("predict model.npz table.csv --in-pieces")
    assert len(opened) == 1
    assert not arrays


def predicted(*words):
    """The table that `predict` writes."""
    accept("predict model.npz", *words, "--out p.csv")
    return pd.read_csv("p.csv")


def test_labels_in_pieces(pieces):
    whole = told("kinds.csv", KINDS)
    expected = predicted("kinds.csv")
    assert "classes high, low" in whole
    assert told("kinds", KINDS, "--in-pieces") == whole
    table = predicted("kinds --in-pieces")
    assert list(table) == ["label", "p_high", "p_low"]
    assert len(table) == 80
    pd.testing.assert_frame_equal(table, expected, rtol=0.0, atol=1e-7)


@pytest.fixture
def fitted_in_pieces(pieces, monkeypatch):
    """model.npz, fitted to parts/ in pieces of 15 rows."""
    monkeypatch.setattr("sparse_pep.data.sources.FEWEST_AND_MOST", (15, 15))
    accept("fit parts --in-pieces", LEARN)


def test_predictions_in_pieces_are_the_same_rows(fitted_in_pieces):
    expected = predicted("table.csv")
    for data in ("table.csv", "table.parquet", "parts"):
        pd.testing.assert_frame_equal(predicted(data, "--in-pieces"), expected, rtol=1e-12)


def test_predictions_in_pieces_are_counted(fitted_in_pieces):
    words = "predict model.npz parts --in-pieces --out p.csv"
    result = accept(words)
    assert result.stdout == ""
    assert "response for 80 rows" in result.stderr
    assert document(words) == {"target": "response", "n_rows": 80, "file": "p.csv"}


@pytest.mark.parametrize("out", ["new.csv", "p.csv"])
def test_a_bad_row_in_the_last_piece_leaves_nothing_behind(fitted_in_pieces, pieces, out):
    pieces[:50].assign(age=0.0).to_csv("parts/4.csv", index=False)
    with Path("parts/4.csv").open("a") as file:
        file.write("1,old,7,50,1\n")
    Path("p.csv").write_text("as it was")
    error = refused_line("predict model.npz parts --in-pieces --out", out)
    assert "4.csv', row 52: column 'age' holds text, 'old'" in error


GAPS = "fit gaps.csv --target y --inducing 8 --max-iter 8 --quiet"


@pytest.mark.parametrize("words", ["", "--in-pieces"])
def test_rows_without_a_target_can_be_left_out(words):
    numbers = default_rng(0).normal(size=40)
    table = pd.DataFrame({"y": 2.0 * numbers, "x": numbers})
    table.loc[[3, 7, 9], "y"] = [np.nan, np.nan, np.nan]
    table.to_csv("gaps.csv", index=False)
    line = refused_line(GAPS, words)
    assert "row 5: column 'y' has a missing value, the first of 3 in 40 rows" in line
    assert "--drop-empty-targets" in line
    assert ", 37 rows" in accept(GAPS, words, "--drop-empty-targets").stdout
    table["x"] = table["x"].astype(object)
    table.loc[12, "x"] = np.inf
    table.to_csv("gaps.csv", index=False)
    line = refused_line(GAPS, words, "--drop-empty-targets")
    assert "row 14: column 'x' holds 'inf'" in line  # of the file, with the rows left out


def written_to_gaps(name):
    """The table of a file of numbers with this name of a column."""
    numbers = default_rng(0).normal(size=(40, 2))
    table = pd.DataFrame(numbers, columns=[name, "b"]).assign(y=numbers[:, 0])
    table.to_csv("gaps.csv", index=False)
    return table


def test_notes_have_the_names_of_columns_of_numbers_too():
    table = written_to_gaps("year")
    result = accept(GAPS, "--test-fraction 0.2 --out m.npz")
    assert "feature names" not in result.stderr
    (table + 30.0).to_csv("far.csv", index=False)
    assert "40 rows in 'year' outside" in accept("predict m.npz far.csv").stderr


def test_predictions_have_the_layout_of_the_table():
    table = written_to_gaps("a")
    accept(GAPS, "--out m.npz")
    table.to_csv("new.csv", index=False, sep=";", decimal=",")
    accept("predict m.npz new.csv --decimal , --out p.csv")
    expected = pd.read_csv("p.csv", sep=";", decimal=",")
    assert list(expected) == ["mean", "std"]
    accept("predict m.npz gaps.csv --out q.csv")
    assert_allclose(expected.to_numpy(), pd.read_csv("q.csv").to_numpy(), rtol=1e-12)
