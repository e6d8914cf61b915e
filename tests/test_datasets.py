"""Reading tables, data sets with their splits, and the two scores."""

import gzip
import io
import json
import math
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sparse_pep.datasets import (
    data_directory,
    list_datasets,
    load_regression,
    random_splits,
    read_splits,
    read_table,
    smll,
    smse,
    snelson_like,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.lists(
    st.text("abcdefgh ,\"'éλ", min_size=1, max_size=6).map(str.strip).filter(bool), min_size=2, max_size=5, unique=True
)


def quote(cell):
    return '"' + cell.replace('"', '""') + '"'


def write(path, names, rows, end="\n"):
    lines = [",".join(map(quote, names))] + [",".join(map(repr, row)) for row in rows]
    path.write_text(end.join(lines) + end, encoding="utf-8", newline="")
    return path


# ---- read_table -----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data(), names=NAMES, end=st.sampled_from(["\n", "\r\n"]), zipped=st.booleans())
def test_what_is_written_is_read_back_bit_for_bit(tmp_path_factory, data, names, end, zipped):
    rows = data.draw(arrays(float, st.tuples(st.integers(1, 5), st.just(len(names))), elements=FINITE))
    path = write(tmp_path_factory.mktemp("t") / "t.csv", names, rows.tolist(), end)
    if zipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    target = data.draw(st.sampled_from(names))
    table = read_table(path, target=target)
    place = names.index(target)
    assert table.feature_names == tuple(name for name in names if name != target)
    assert table.X.dtype == np.float64 and table.X.flags.c_contiguous
    np.testing.assert_array_equal(table.X, np.delete(rows, place, axis=1))
    np.testing.assert_array_equal(table.y, rows[:, place])


@settings(max_examples=30, deadline=None)
@given(data=st.data(), names=NAMES)
def test_columns_come_in_the_order_asked_for(tmp_path_factory, data, names):
    rows = np.arange(3.0 * len(names)).reshape(3, -1)
    path = write(tmp_path_factory.mktemp("t") / "t.csv", names, rows.tolist())
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    table = read_table(path, columns=wanted)
    assert table.y is None and table.target is None
    np.testing.assert_array_equal(table.X, rows[:, [names.index(name) for name in wanted]])


def test_columns_that_are_not_asked_for_may_hold_anything(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("site,a,y,note\nA,1,2,\nB,3,4,nan\n")
    np.testing.assert_array_equal(read_table(path, columns=["y", "a"]).X, [[2, 1], [4, 3]])
    with pytest.raises(ValueError, match="'site' holds text"):
        read_table(path, target="y")


def test_blank_lines_spaces_quotes_and_a_byte_order_mark_do_no_harm(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeff\n a , "b" ,y\n\n 1, "2" ,3\n   \n\t\n4,5,6\n\n'.encode())
    table = read_table(path, target="y")
    assert table.feature_names == ("a", "b")
    np.testing.assert_array_equal(table.X, [[1, 2], [4, 5]])


@pytest.mark.parametrize("zipped", [False, True])
def test_standard_input(monkeypatch, zipped):
    raw = b"a,y\n1,2\n3,4\n"
    raw = gzip.compress(raw) if zipped else raw
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(raw)))
    table = read_table("-", target="a")
    np.testing.assert_array_equal(table.X, [[2], [4]])
    np.testing.assert_array_equal(table.y, [1, 3])


BAD_TABLES = {  # content, target, words of the message
    "empty": ("", "y", ["'t.csv'", "empty"]),
    "only blank lines": ("\n\n", "y", ["empty"]),
    "no rows": ("a,y\n", "y", ["no rows"]),
    "no header": ("1,2\n3,4\n", "y", ["no header", "column names"]),
    "semicolons": ("a;y\n1;2\n", "y", ["commas", "a;y"]),
    "nameless column": (",a,y\n0,1,2\n", "y", ["column 1", "no name"]),
    "same name twice": ("a,b,a,y\n1,2,3,4\n", "y", ["more than one", "'a'"]),
    "unknown target": ("dose,age,y\n1,2,3\n", "Dosis", ["`target`", "'Dosis'", "'dose'", "dose, age, y"]),
    "only a target": ("y\n1\n2\n", "y", ["no input column", "'y'"]),
    "text": ("a,y\n1,2\n\n3,4\nx7,5\n", "y", ["row 5", "'a'", "'x7'", "text"]),
    "text in the target": ("a,y\n1,2\n3,low\n", "y", ["row 3", "'y'", "'low'"]),
    "decimal comma": ('a,y\n"1,5",2\n', "y", ["row 2", "'1,5'"]),
    "underscore": ("a,y\n2024_01,2\n", "y", ["row 2", "'2024_01'"]),
    "true or false": ("a,y\nTrue,2\n", "y", ["row 2", "'True'"]),
    "empty cell": ("a,y\n1,2\n,4\n", "y", ["row 3", "'a'", "missing"]),
    "NaN": ("a,y\n1,2\n3,nan\n", "y", ["row 3", "'y'", "missing"]),
    "infinity": ("a,y\n1,2\n3,4\n-inf,6\n", "y", ["row 4", "'a'", "'-inf'", "finite"]),
    "too large": ("a,y\n1e999,2\n", "y", ["row 2", "'1e999'", "finite"]),
    "short row": ("a,b,y\n1,2,3\n4,5\n", "y", ["row 3", "2 cells", "3"]),
    "long row": ("a,y\n1,2,3\n", "y", ["row 2", "3 cells", "2"]),
    "cell of two lines": ('a,y\n1,"2\n3"\n', "y", ["row 2", "text"]),
    "row after a cell of two lines": ('a,y\n1,"2\n"\n1,b\n', "y", ["row 4", "'b'"]),
    "row after a header of two lines": ('"a\nb",y\n1,2\nz,2\n', "y", ["row 4", "'z'"]),
    "open quotation mark": ('a,y\n1,"2\n' + "3,4\n" * 40000, "y", ["not a CSV file"]),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_in_one_line_that_says_where(tmp_path, monkeypatch, case):
    content, target, words = BAD_TABLES[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ValueError) as caught:
        read_table("t.csv", target=target)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 300
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("absent.csv", None, ["no file 'absent.csv'"]),
        ("folder", "folder", ["'folder'", "cannot be read"]),
        ("cut.csv.gz", gzip.compress(b"a,y\n" + b"1,2\n" * 999)[:-12], ["damaged gzip"]),
        ("flipped.csv.gz", gzip.compress(b"a,y\n1,2\n")[:10] + b"\xff" * 20, ["damaged gzip"]),
        ("picture.csv", b"\x89PNG\xff\xfe\x00", ["not a text file"]),
        ("zeros.csv", b"a,y\n1,\x00\n", ["not a text file"]),
    ],
)
def test_a_file_that_is_not_one(tmp_path, monkeypatch, name, content, words):
    monkeypatch.chdir(tmp_path)
    if content == "folder":
        (tmp_path / name).mkdir()
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_table(name)
    for word in words:
        assert word in str(caught.value)


def test_a_long_list_of_columns_is_cut(tmp_path):
    names = [f"column{i}" for i in range(300)]
    path = write(tmp_path / "wide.csv", names, [[0.0] * 300])
    with pytest.raises(ValueError, match=r"300 in all") as caught:
        read_table(path, target="kolumn7")
    assert "'column7'" in str(caught.value) and len(str(caught.value)) < 400


def test_the_target_cannot_be_an_input(tmp_path):
    path = write(tmp_path / "t.csv", ["a", "y"], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="`columns` holds the target"):
        read_table(path, target="y", columns=["a", "y"])
    with pytest.raises(ValueError, match="no column 'b'"):
        read_table(path, columns=["a", "b"])


# ---- data sets ------------------------------------------------------------------------------------------------------


def test_diabetes_needs_no_folder(monkeypatch):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    assert data_directory() is None
    assert list_datasets() == ("diabetes",)
    data = load_regression("diabetes")
    assert data.X.shape == (442, 10) and data.y.shape == (442,) and len(data.feature_names) == 10
    assert len(data.splits) == 10
    order = np.random.default_rng(9).permutation(442)
    np.testing.assert_array_equal(data.splits[9][0], order[:398])
    np.testing.assert_array_equal(data.splits[9][1], order[398:])
    with pytest.raises(ValueError, match="there are: diabetes. Name a data folder"):
        load_regression("yacht")


@given(n=st.integers(2, 200), fraction=st.floats(0.01, 0.99))
def test_random_splits_share_out_every_row(n, fraction):
    if n - max(1, round(fraction * n)) < 1:
        with pytest.raises(ValueError, match="too few"):
            random_splits(n, 1, fraction)
        return
    for train, test in random_splits(n, 2, fraction):
        assert len(train) and len(test)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, math.nan])
def test_random_splits_wants_a_share(fraction):
    with pytest.raises(ValueError, match="`test_fraction`"):
        random_splits(10, 1, fraction)


def folder_with(tmp_path, splits, rows=4):
    folder = tmp_path / "data" / "regression"
    folder.mkdir(parents=True)
    write(folder / "tiny.csv.gz", ["a", "y"], [[float(i), float(-i)] for i in range(rows)])
    (folder / "tiny_splits.json.gz").write_text(json.dumps(splits))
    write(folder / "without_splits.csv.gz", ["y"], [[1.0]])
    (folder / "without_data_splits.json.gz").write_text("{}")
    return tmp_path / "data"


def test_a_folder_of_data(tmp_path, monkeypatch):
    folder = folder_with(tmp_path, {"n_rows": 4, "splits": [{"train": None, "test": [2]}, {"train": [3], "test": [0]}]})
    monkeypatch.setenv("SPARSE_PEP_DATA", str(folder))
    assert list_datasets() == ("diabetes", "tiny")
    tiny = load_regression("tiny")
    np.testing.assert_array_equal(tiny.splits[0][0], [0, 1, 3])
    np.testing.assert_array_equal(tiny.splits[1][0], [3])
    np.testing.assert_array_equal(tiny.y, [0, -1, -2, -3])
    with pytest.raises(ValueError, match="there are: diabetes, tiny.$"):
        load_regression("tidy")


@pytest.mark.parametrize(
    "splits, words",
    [
        ({"n_rows": 5, "splits": []}, "splits 5 rows; the data set has 4"),
        ({"splits": [{"train": [0, 1], "test": [1]}]}, "both parts"),
        ({"splits": [{"train": [0, 1], "test": [4]}]}, "unknown row"),
        ({"splits": [{"train": [-1], "test": [1]}]}, "unknown row"),
        ({"splits": [{"train": [], "test": [1]}]}, "empty part"),
        ({"splits": [{"train": None, "test": []}]}, "empty part"),
        ({"splits": [{"test": [1]}]}, "not a splits file"),
        ([1, 2], "not a splits file"),
        ({"splits": [{"train": None, "test": ["a"]}]}, "not a splits file"),
    ],
)
def test_bad_splits(tmp_path, splits, words):
    with pytest.raises(ValueError, match=words):
        load_regression("tiny", folder_with(tmp_path, splits))


def test_a_folder_that_is_not_one(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="`data_dir`.*not a folder"):
        data_directory(tmp_path / "absent")
    with pytest.raises(ValueError, match="`data_dir`.*holds no folder"):
        data_directory(tmp_path)
    monkeypatch.setenv("SPARSE_PEP_DATA", str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="SPARSE_PEP_DATA.*not a folder"):
        list_datasets()


@pytest.mark.parametrize(
    "name, n, d, splits",
    [("yacht", 308, 6, 10), ("boston", 506, 13, 10), ("concrete", 1030, 8, 10), ("kin40k", 40000, 8, 5)],
)
def test_real_data(data_dir, name, n, d, splits):
    data = load_regression(name, data_dir)
    assert data.X.shape == (n, d) and data.y.shape == (n,)
    assert len(data.splits) == splits
    for train, test in data.splits:
        assert len(train) + len(test) == n


def test_every_real_set_is_listed(data_dir):
    names = list_datasets(data_dir)
    assert {"boston", "concrete", "energy", "yacht", "wine_red", "hflights", "diabetes"} <= set(names)
    assert "naval_second_target" not in names  # a second target, without splits of its own


def test_snelson_like():
    X, y = snelson_like(500, seed=3)
    assert X.shape == (500, 1) and y.shape == (500,)
    assert X.min() >= 0 and X.max() <= 6 and not np.any((X > 2.5) & (X < 3.5))
    np.testing.assert_array_equal(y, snelson_like(500, seed=3)[1])
    assert not np.array_equal(y, snelson_like(500, seed=4)[1])
    noise = y - np.sin(2.1 * X[:, 0]) - 0.5 * np.cos(4.7 * X[:, 0])
    assert abs(noise.std() - 0.2) < 0.02
    with pytest.raises(ValueError, match="`n`"):
        snelson_like(0)


# ---- scores ---------------------------------------------------------------------------------------------------------

VALUES = st.floats(-1e6, 1e6).map(lambda x: round(x, 6))


@given(y=st.lists(VALUES, min_size=2, max_size=30).filter(lambda y: np.ptp(y) > 1e-3))
def test_the_mean_of_the_test_targets_scores_one(y):
    assert smse(y, np.full(len(y), np.mean(y))) == pytest.approx(1.0, rel=1e-9)
    assert smse(y, y) == 0.0


@given(
    y=st.lists(VALUES, min_size=2, max_size=30).filter(lambda y: np.ptp(y) > 1e-3), test=st.lists(VALUES, min_size=1)
)
def test_the_gaussian_of_the_training_targets_scores_zero(y, test):
    mean, var = np.full(len(test), np.mean(y)), np.full(len(test), np.var(y))
    assert smll(test, mean, var, y) == pytest.approx(0.0, abs=1e-12)


def test_scores_equal_independent_numbers(vectors):
    given_ = vectors["metrics"]
    y, mean = given_["y_test"], given_["pred_mean"]
    assert smse(y, mean) == pytest.approx(given_["smse"], rel=1e-12)
    assert smll(y, mean, given_["pred_var_y"], given_["y_train"]) == pytest.approx(given_["smll"], rel=1e-12)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: smse([1, 2], [1]), "`mean` must have the shape"),
        (lambda: smse([[1, 2]], [[1, 2]]), "`y_true` must be a vector"),
        (lambda: smse([], []), "`y_true` must be a vector"),
        (lambda: smse([1, 2], [1, math.nan]), "`mean` holds NaN or infinity at position 1"),
        (lambda: smse([2, 2], [1, 2]), "`y_true` must hold at least two"),
        (lambda: smll([1, 2], [1, 2], [1], [1, 2]), "`var` must have the shape"),
        (lambda: smll([1, 2], [1, 2], [1, 0], [1, 2]), "`var` must be positive"),
        (lambda: smll([1, 2], [1, 2], [1, 1], [3, 3]), "`y_train` must hold at least two"),
        (lambda: smll([1, 2], [1], [1, 1], [1, 3]), "`mean` must have the shape"),
    ],
)
def test_bad_scores(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_splits_file_may_be_plain_or_gzipped(tmp_path):
    text = json.dumps({"splits": [{"train": None, "test": [0]}]})
    (tmp_path / "plain.json").write_text(text)
    (tmp_path / "zipped.json.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("plain.json", "zipped.json.gz"):
        np.testing.assert_array_equal(read_splits(tmp_path / name, 3)[0][0], [1, 2])
