"""Reading tables, data sets with their splits, and the scores."""

import gzip
import json
import math

import numpy as np
import pandas as pd
import pytest
from conftest import value_error
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sparse_pep.datasets import (
    data_directory,
    list_datasets,
    load_classification,
    load_regression,
    random_splits,
    read_table,
    smll,
    smse,
)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


@pytest.mark.parametrize("name", ["t.csv", "t.Parquet"])
def test_a_table_has_its_inputs_in_order_and_its_target_apart(tmp_path, name):
    frame = pd.DataFrame({"a": [1.5, 3.0], "y": [2.0, 4.0], "b": [True, False], "kind": ["u", "v"]})
    frame.to_csv(tmp_path / name, index=False) if name == "t.csv" else frame.to_parquet(
        tmp_path / name
    )
    table = read_table(tmp_path / name, "y", ["b", "a"])
    assert table.feature_names == ("b", "a")
    assert table.X.flags.c_contiguous
    assert table.X.flags.writeable
    assert table.X.tolist() == [[1.0, 1.5], [0.0, 3.0]]
    assert table.y.tolist() == [2.0, 4.0]
    assert read_table(tmp_path / name, columns=["a", "y"], labels=True).y is None
    labelled = read_table(tmp_path / name, "kind", labels=True)
    assert labelled.feature_names == ("a", "y", "b")


def test_diabetes_needs_no_folder(monkeypatch):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    assert data_directory() is None
    assert list_datasets() == ("diabetes",)
    data = load_regression("diabetes")
    assert data.X.shape == (442, 10)
    assert data.y.shape == (442,)
    assert len(data.feature_names) == 10
    assert len(data.splits) == 10
    order = np.random.default_rng(9).permutation(442)
    assert_array_equal(data.splits[9][0], order[:398])
    assert_array_equal(data.splits[9][1], order[398:])
    for loader, name, words in (
        (
            load_regression,
            "yacht",
            "there are for regression: diabetes; for classification: breast_cancer, "
            "digits, iris, wine. Name a data folder",
        ),
        (load_regression, "iris", "'iris' is a classification set; use `load_classification`"),
        (load_classification, "diabetes", "'diabetes' is a regression set; use `load_regression`"),
    ):
        with value_error(words):
            loader(name)


@given(
    n=st.integers(1, 200),
    fraction=st.floats(0.01, 0.99) | st.sampled_from([0.0, 1.0, -0.1, math.nan]),
)
def test_random_splits_share_out_every_row(n, fraction):
    if not 0.0 < fraction < 1.0 or n - max(1, round(fraction * n)) < 1:
        words = "too few" if n < 2 and 0.0 < fraction < 1.0 else "`test_fraction`"
        with value_error(words):
            random_splits(n, 1, fraction)
        return
    for train, test in random_splits(n, 2, fraction):
        assert len(train)
        assert len(test)
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))


def folder_with(tmp_path, splits):
    write(tmp_path / "regression/tiny.csv.gz", "a,y\n0,0\n1,-1\n2,-2\n3,-3\n")
    write(tmp_path / "regression/tiny_splits.json.gz", json.dumps(splits))
    write(tmp_path / "regression/without_splits.csv.gz", "y\n1\n")
    write(tmp_path / "regression/without_data_splits.json.gz", "{}")
    return tmp_path


def test_a_folder_of_data(tmp_path, monkeypatch):
    folder = folder_with(
        tmp_path,
        {"n_rows": 4, "splits": [{"train": None, "test": [2]}, {"train": [3], "test": [0]}]},
    )
    monkeypatch.setenv("SPARSE_PEP_DATA", str(folder))
    assert list_datasets() == ("diabetes", "tiny")
    tiny = load_regression("tiny")
    assert_array_equal(tiny.splits[0][0], [0, 1, 3])
    assert_array_equal(tiny.splits[1][0], [3])
    assert_array_equal(tiny.y, [0, -1, -2, -3])
    with value_error(
        "there are for regression: diabetes, tiny; for classification: breast_cancer, "
        "digits, iris, wine.$",
    ):
        load_regression("tidy")
    assert list_datasets(kind="classification") == ("breast_cancer", "digits", "iris", "wine")
    with value_error("`kind` must be one of regression, classification; got 'clustering'"):
        list_datasets(kind="clustering")


@pytest.mark.parametrize(
    "splits, words",
    [
        ({"n_rows": 5, "splits": []}, "splits of 5 rows; the data set has 4"),
        ({"splits": [{"train": [0, 1], "test": [1]}]}, "both parts"),
        ({"splits": [{"train": [0, 1], "test": [4]}]}, "unknown row"),
        ({"splits": [{"train": None, "test": []}]}, "empty part"),
        ({"splits": [{"test": [1]}]}, "not a splits file"),
        ({"splits": [{"train": None, "test": ["a"]}]}, "not a splits file"),
        ({"splits": [{"train": None, "test": [1.5]}]}, "not a splits file"),
        ({"splits": [{"train": [0], "test": [True]}]}, "not a splits file"),
    ],
)
def test_bad_splits(tmp_path, splits, words):
    with value_error(words):
        load_regression("tiny", folder_with(tmp_path, splits))


SHIPPED = {  # rows and inputs, and how many rows have each label
    "breast_cancer": ((569, 30), {-1: 357, 1: 212}),
    "iris": ((150, 4), {0: 50, 1: 50, 2: 50}),
    "wine": ((178, 13), {0: 59, 1: 71, 2: 48}),
    "digits": ((1797, 64), dict(enumerate([178, 182, 177, 183, 181, 182, 181, 179, 174, 180]))),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_classification_sets_need_no_folder(monkeypatch, name):
    shape, labels = SHIPPED[name]
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    data = load_classification(name)
    assert data.name == name
    assert data.X.shape == shape
    assert data.y.dtype.kind == "i"
    assert dict(zip(*np.unique(data.y, return_counts=True), strict=True)) == labels
    assert len(data.feature_names) == shape[1]
    assert all(type(one) is str for one in data.feature_names)
    assert len(data.splits) == 10
    # the first row of the source is malignant, row 19 its first benign one
    if name == "breast_cancer":
        assert (data.y[0], data.y[19], data.X[0, 0], data.X[19, 0]) == (1, -1, 17.99, 13.54)


@pytest.fixture
def labelled(tmp_path, monkeypatch):
    """A data folder with `breast`, `words` and `banana`, made up."""
    files = {
        "classification/breast.csv.gz": "sample_id,clump,size,y\n"
        "1000,5,1,-1\n1001,8,2,1\n1002,6,3,-1\n",
        "classification/breast_splits.json.gz": '{"splits": [{"train": [2], "test": [1]}]}',
        "classification/words.csv.gz": "a,y\n1,yes\n2,no\n",
        "classification/words_splits.json.gz": '{"n_rows": 2, '
        '"splits": [{"train": null, "test": [1]}]}',
        "classification/without_splits.csv.gz": "a,y\n1,1\n",
        "classification/without_data_splits.json.gz": "{}",
        "toy/banana.csv.gz": "x1,x2,y\n1,2,-1\n3,4,1\n",
        "toy/banana_test.csv.gz": "y,x2,x1\n1,6,5\n-1,8,7\n-1,10,9\n",
    }
    for name, text in files.items():
        write(tmp_path / name, text)
    monkeypatch.setenv("SPARSE_PEP_DATA", str(tmp_path))
    return tmp_path


LABELLED = ("banana", "breast", "breast_cancer", "digits", "iris", "wine", "words")


def test_labelled_sets_of_a_folder_are_listed(labelled):
    assert list_datasets(labelled, "classification") == LABELLED


@pytest.mark.parametrize(
    "name, file",
    [("banana", "toy/banana_test.csv.gz"), ("breast", "classification/breast_splits.json.gz")],
)
def test_sets_that_lack_a_file_are_not_listed(labelled, name, file):
    (labelled / file).unlink()
    assert name not in list_datasets(kind="classification")


def test_labels_of_a_folder_may_be_words(labelled):
    words = load_classification("words")
    assert words.name == "words"
    assert words.y.tolist() == ["yes", "no"]
    assert words.feature_names == ("a",)
    assert_array_equal(words.splits[0][0], [0])
    assert_array_equal(words.splits[0][1], [1])


def test_training_and_test_rows_of_a_toy_are_one_set_with_one_split(labelled):
    data = load_classification("banana")
    assert data.name == "banana"
    assert data.feature_names == ("x1", "x2")
    assert data.y.dtype == np.int64
    assert data.X.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]
    assert data.y.tolist() == [-1, 1, 1, -1, -1]
    assert [[part.tolist() for part in split] for split in data.splits] == [[[0, 1], [2, 3, 4]]]


def test_a_set_that_is_not_there_is_refused_with_those_that_are(labelled):
    words = f"no data set 'word'; .* for classification: {', '.join(LABELLED)}.$"
    with value_error(words):
        load_classification("word")
    with value_error("'banana' is a classification set"):
        load_regression("banana")


# training rows, test rows, inputs, positive, negative; the last two over the rows of a split
TABLE_OF_THE_PAPER = {
    "australian_a1": (621, 69, 14, 222, 468),
    "breast": (614, 68, 9, 239, 443),
    "crabs": (180, 20, 6, 100, 100),
    "iono": (315, 35, 34, 126, 224),
    "pima": (690, 77, 8, 500, 267),
    "sonar": (186, 21, 60, 111, 96),
    "australian": (621, 69, 14, 307, 383),  # the credit decision, which the paper does not count
    "usps_3v5": (767, 773, 256, 824, 716),
}


@pytest.mark.parametrize("name", TABLE_OF_THE_PAPER)
def test_real_labelled_data(data_dir, name):
    n_train, n_test, d, positive, negative = TABLE_OF_THE_PAPER[name]
    data = load_classification(name, data_dir)
    assert data.X.shape[1] == d == len(data.feature_names)
    assert "sample_id" not in data.feature_names
    assert data.y.dtype == np.int64
    assert len(data.splits) == 10
    for train, test in data.splits:
        assert (len(train), len(test)) == (n_train, n_test)
        y = data.y[np.concatenate([train, test])]
        assert (np.sum(y == 1), np.sum(y == -1)) == (positive, negative)


@pytest.mark.parametrize(
    "name, n, d, splits",
    [
        ("yacht", 308, 6, 10),
        ("boston", 506, 13, 10),
        ("concrete", 1030, 8, 10),
        ("kin40k", 40000, 8, 5),
        ("banana", 5300, 2, 1),
    ],
)
def test_real_data(data_dir, name, n, d, splits):
    data = (load_classification if name == "banana" else load_regression)(name, data_dir)
    assert data.X.shape == (n, d)
    assert data.y.shape == (n,)
    assert len(data.splits) == splits
    assert all(len(train) + len(test) == n for train, test in data.splits)
    if name == "banana":
        assert len(data.splits[0][0]) == 400
        assert set(data.y.tolist()) == {-1, 1}
    names = list_datasets(data_dir)
    assert {"energy", "wine_red", "hflights", "diabetes"} <= set(names)
    assert "naval_second_target" not in names  # a second target, without splits of its own


def test_scores_equal_independent_numbers(vectors):
    given_ = vectors["metrics"]
    y = given_["y_test"]
    mean = given_["pred_mean"]
    assert smse(y, mean) == pytest.approx(given_["smse"], rel=1e-12)
    assert smll(y, mean, given_["pred_var_y"], given_["y_train"]) == pytest.approx(
        given_["smll"], rel=1e-12
    )
    ones = np.ones(len(y))
    assert smse(y, np.mean(y) * ones) == pytest.approx(1.0, rel=1e-12)
    assert smse(y, y) == 0.0
    train = given_["y_train"]
    assert smll(y, np.mean(train) * ones, np.var(train) * ones, train) == pytest.approx(
        0.0, abs=1e-12
    )
