"""CSV and Parquet files become arrays once: the same in memory and on disk; what is wrong is
named.
"""

import csv
import gc
import gzip
import io
import resource
import sys
import types
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow
import pytest
from click.testing import CliRunner
from conftest import user_warning, value_error
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from reference.compare import properties

import sparse_pep.cli
from sparse_pep.data import reader, tables
from sparse_pep.data.reader import table_files
from sparse_pep.data.sources import ArraySource, DiskSiteStore, joined
from sparse_pep.data.tables import convert_table, table_layout
from sparse_pep.datasets import read_table

NAMES = st.lists(
    st.text("abcdefgh ,\"'éλ", min_size=1, max_size=6).map(str.strip).filter(bool),
    min_size=2,
    max_size=5,
    unique=True,
)
rng = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "a": rng.normal(size=23),
        "n": np.arange(23),
        "b": rng.normal(size=23),
        "yes": np.arange(23) % 2 == 0,
        "y": rng.normal(size=23),
        "w": rng.integers(0, 3, 23),
        "kind": np.array(["oak", "elm", "ash"])[np.arange(23) % 3],
        "v": 0.5,
        "p": rng.uniform(size=23),
    }
)


def written(frame, path, **options):
    """A file of this form."""
    if str(path).endswith("parquet"):
        frame.to_parquet(path, **options)
    else:
        frame.to_csv(path, index=False, **options)
    return path


@properties
@given(
    data=st.data(),
    names=NAMES,
    form=st.sampled_from(["unix", "windows", "gzip", "parquet", "single precision"]),
)
def test_what_is_written_is_read_back_bit_for_bit(tmp_path_factory, data, names, form):
    width = 32 if form == "single precision" else 64
    elements = st.floats(allow_nan=False, allow_infinity=False, width=width)
    rows = data.draw(
        arrays(
            np.dtype(f"f{width // 8}"),
            st.tuples(st.integers(1, 5), st.just(len(names))),
            elements=elements,
        )
    )
    path = tmp_path_factory.mktemp("t") / (
        "t.csv" if form in ("unix", "windows", "gzip") else "t.parquet"
    )
    if path.suffix == ".csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\r\n" if form == "windows" else "\n").writerows(
            [names, *rows.tolist()]
        )
        path.write_bytes(
            gzip.compress(text.getvalue().encode()) if form == "gzip" else text.getvalue().encode()
        )
    else:
        written(pd.DataFrame(rows, columns=names), path)
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    (batch,) = table_layout(table_files(path), {}, wanted).batches()
    assert_array_equal(batch[""], rows[:, [names.index(name) for name in wanted]].astype(float))


FORMS = ["csv", "csv.gz", "parquet", "folder", "list"]
INPUTS = ["yes", "b", "n"]
EXPECTED = ArraySource(
    FRAME[INPUTS].to_numpy(float), *(FRAME[name].to_numpy(float) for name in ("y", "w", "v", "p"))
)


@pytest.fixture(params=[(form, cache) for form in FORMS for cache in (None, ".")], ids=str)
def source(folder, monkeypatch, request):
    """The table in this form, as arrays in memory or on disk, with pieces of four rows."""
    form, cache_dir = request.param
    monkeypatch.setattr(reader, "BATCH_ROWS", 5)
    path = folder / f"t.{form}"
    if form in ("folder", "list"):
        path.mkdir()
        parts = [
            written(FRAME[:9], path / "1.csv"),
            written(FRAME[9:].iloc[:, ::-1], path / "2.parquet", row_group_size=4),
        ]
        (path / "readme.txt").write_text("no table")
        path = path if form == "folder" else [parts[0], str(parts[1])]
    else:
        written(FRAME, path)
    named = {"target": "y", "weight": "w", "known_variance": "v", "power": "p"}
    table = convert_table(path, columns=INPUTS, piece_rows=4, cache_dir=cache_dir, **named)
    assert isinstance(table.columns["X"], np.memmap) == (cache_dir is not None)
    return table


def test_tables_in_every_form_become_the_same_arrays(source):
    for ours, theirs in zip(joined(source.pieces()), joined(EXPECTED.pieces()), strict=True):
        assert_array_equal(ours, theirs)
    assert source.fingerprint() == EXPECTED.fingerprint()


def test_a_table_says_what_it_holds(source):
    assert source.n_data == 23
    assert source.feature_names == tuple(INPUTS)
    assert source.classes is None
    assert [len(piece.X) for piece in source.pieces()] == [4, 4, 4, 4, 4, 3]


def test_arrays_of_a_table_are_contiguous_and_not_written_to(source):
    arrays = [array for array in source.columns.values() if np.ndim(array)]
    assert len(arrays) == 5
    assert all(array.flags.c_contiguous for array in arrays)
    assert not any(array.flags.writeable for array in arrays)


def test_columns_that_are_not_asked_for_may_hold_anything(folder):
    (folder / "t.csv").write_text("site,a,y,note\nA,1,2,\nB,3,4,nan\n")
    assert read_table("t.csv", columns=["y", "a"]).X.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    with value_error("'site' holds text"):
        read_table("t.csv", target="y")


def test_blank_lines_spaces_quotes_and_a_mark_of_the_editor_do_no_harm(folder):
    (folder / "t.csv").write_bytes(
        '\ufeff\n a , "b\nc" ,y\n\n 1, "2" ,3\n   \n\t\n4,5,6\n\n'.encode()
    )
    table = read_table("t.csv", target="y")
    assert table.feature_names == ("a", "b c")
    assert table.X.tolist() == [[1.0, 2.0], [4.0, 5.0]]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "-"])
@pytest.mark.parametrize("zipped", [False, True])
def test_gzipped_files_and_pipes_are_known_by_what_is_in_them(folder, monkeypatch, name, zipped):
    raw = b"a,y\n1,2\n3,4\n"
    raw = gzip.compress(raw) if zipped else raw
    (folder / name).write_bytes(raw)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(raw)))
    table = read_table(name, target="a")
    assert table.X.tolist() == [[2.0], [4.0]]
    assert table.y.tolist() == [1.0, 3.0]
    (folder / name).write_bytes(raw[:-1] + b"\xff")
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(raw[:-1] + b"\xff")))
    called = "standard input" if name == "-" else name
    with value_error(f"'{called}' is (a damaged gzip file|not a text file)"):
        read_table(name)


@pytest.mark.parametrize("late", ["0.25,2.5,1.5", "1e3,2.5,1.5", '-1,"2.5" ,1.5'])
def test_columns_that_turn_out_otherwise_late(folder, late):
    rows = [*(f"{n},1,{n % 2}" for n in range(160_000)), late]  # several blocks of pyarrow
    (folder / "late.csv").write_text("a,b,y\n" + "\n".join(rows) + "\n")
    X = convert_table("late.csv", target="y").columns["X"]
    y = read_table("late.csv", "y").y
    assert X.shape == (160_001, 2)
    assert_array_equal(X[:-1, 0], np.arange(160_000))
    assert y[-1] == X[-1, 1] - 1.0 == 1.5


@pytest.mark.parametrize("index", [[], ["i"], ["i", "j"]])
def test_an_index_of_a_parquet_file_is_an_input_only_if_it_has_a_name(folder, index):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "i": [5.0, 7.0], "j": [6.0, 8.0]})[
        [*index, "a", "b"]
    ]
    indexed = frame.set_index(index) if index else frame.set_axis([5, 7])
    table = read_table(written(indexed, folder / "t.parquet"))
    assert table.feature_names == tuple(frame)
    assert table.X.tolist() == frame.to_numpy().tolist()


def test_parquet_texts_of_several_lines_become_one_and_may_be_numbers(folder):
    frame = pd.DataFrame(
        {"b": [1.0, 2.0, 3.0], " a\nx": [" 1.5\n", "2", " 1.5\n"], "k": ["u\nv", "w ", "w"]}
    )
    source = convert_table(
        written(frame, folder / "t.parquet"), target="k", columns=["a x", "b"], labels=True
    )
    assert source.columns["X"].tolist() == [
        [1.5, 1.0],
        [2.0, 2.0],
        [1.5, 3.0],
    ]
    assert source.classes.tolist() == ["u v", "w"]


def test_what_was_read_of_a_parquet_file_does_not_stay_in_memory(folder, monkeypatch):
    monkeypatch.setattr(reader, "BATCH_ROWS", 4_000)
    values = np.random.default_rng(0).normal(size=(100_000, 3))  # 2.4 MB
    written(pd.DataFrame(values, columns=list("abc")), folder / "t.parquet", row_group_size=4_000)
    layout = table_layout(table_files(folder), {})
    before = pyarrow.total_allocated_bytes()
    held = [pyarrow.total_allocated_bytes() - before for _ in layout.batches()]
    assert len(held) == 25
    assert max(held) < 1_200_000


def test_without_pyarrow_parquet_says_what_to_install(folder, monkeypatch):
    written(FRAME[["a", "b"]], folder / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with value_error("t.parquet' needs pyarrow: pip install"):
        read_table("t.parquet")


LABELS = {  # cells, type, values
    "-1 1 1": (np.int64, [-1, 1, 1]),
    "1.0 +2 3e0": (np.int64, [1, 2, 3]),
    "0.5 1 1.5": (np.float64, [0.5, 1.0, 1.5]),
    "1 - x": (np.str_, ["1", "-", "x"]),
    "True False": (np.str_, ["True", "False"]),
    "none mild None": (np.str_, ["none", "mild", "None"]),
    "2024_01 2024_02": (np.str_, ["2024_01", "2024_02"]),
    "inf -inf 1": (np.str_, ["inf", "-inf", "1"]),
    f"{2**53} {2**53 + 1}": (np.str_, [str(2**53), str(2**53 + 1)]),
    f"{2**53 - 1} {1 - 2**53}": (np.int64, [2**53 - 1, 1 - 2**53]),
}


@pytest.mark.parametrize("form", ["csv", "parquet", "category.parquet"])
@pytest.mark.parametrize("cells", LABELS)
def test_labels_are_numbers_if_all_are_numbers(folder, monkeypatch, cells, form):
    monkeypatch.setattr(reader, "BATCH_ROWS", 2)
    kind, values = LABELS[cells]
    frame = pd.DataFrame({"a": np.arange(len(values)), "y": cells.split()})
    frame = frame.astype({"y": "category"}) if "category" in form else frame
    path = written(frame, folder / f"t.{form}")
    table = read_table(path, target="y", labels=True)
    assert table.y.dtype.type is kind
    assert table.y.tolist() == values
    assert table.X[:, 0].tolist() == frame["a"].tolist()
    classes, codes = np.unique(values, return_inverse=True)
    for labels in (True, [*classes, classes[0]]):
        source = convert_table(path, target="y", labels=labels, cache_dir=folder)
        assert source.classes.dtype.type is kind
        assert_array_equal(source.classes, classes)
        assert_array_equal(source.columns["y"], 2.0 * codes - 1.0 if len(classes) == 2 else codes)
        assert source.targets().tolist() == values


HEIGHTS = "height,girth\n1,2\n"
# text of a CSV file or columns of a Parquet file, words of the message, options other than the
# target y
REFUSED = {
    "text": ("a,y\n1,2\n\n3,4\nx7,5\n", "row 5: column 'a' holds text, 'x7'; a number is expected"),
    "underscore": ("a,y\n2024_01,2\n", "row 2: column 'a' holds text, '2024_01'"),
    "true or false": ("a,y\n2,True\n", "row 2: column 'y' holds text, 'True'"),
    "empty cell": ("a,y\n1,2\n,4\n", "row 3: column 'a' has a missing value"),
    "none": ("a,y\nNone,2\n", "row 2: column 'a' has a missing value"),
    "infinity": (
        "a,y\n1,2\n3,4\n-inf,6\n",
        "row 4: column 'a' holds '-inf'; a finite number is expected",
    ),
    "short row": ("a,b,y\n1,2,3\n4,5\n", "row 3: 2 cells where the header has 3"),
    "row after a cell of two lines": ('a,y\n1,"2\n"\n1,b\n', "row 4: column 'y' holds text, 'b'"),
    "open quotation mark": ('a,y\n1,2\n1,"2\n' + "3,4\n" * 40000, "not a CSV file from row 3 on"),
    "damaged gzip": (gzip.compress(b"a,y\n" + b"1,2\n" * 999)[:-12], "is a damaged gzip file"),
    "gzip of nothing": (
        gzip.compress(b"a,y\n" + b" " * (1 << 25)),
        "unpacks to more than 100 times its size",
    ),
    "Parquet of nothing": (
        {"a": np.zeros(2 * 10**7, np.int8), "y": np.int8(1)},
        "unpacks to more than 100 times its size",
    ),
    "Parquet of one long text": (
        {"a": ["x" * 10**7] * 20, "y": 1},
        "unpacks to more than 100 times its size",
    ),
    "lists": (
        {"a": [[1.0], [2.0]], "y": 1},
        "column 'a' holds list<element: double>; numbers, text or dates",
    ),
    "bad row far below": ("a,y\n" + "1,2\n" * 99 + "x,3", "row 101: column 'a' holds text"),
    "no rows": ("a,y", "t.csv' has a header but no rows"),
    "no target": (
        HEIGHTS,
        "`target`: .* no column 'grith'. Did you mean 'girth'. Its columns: height, girth",
        {"target": "grith"},
    ),
    "no column": (
        HEIGHTS,
        "`columns`: .* no column 'x'",
        {"target": None, "columns": ["height", "x"]},
    ),
    "no columns": (HEIGHTS, "`columns` must be a list", {"target": None, "columns": []}),
    "number of a column": (HEIGHTS, "`target` must be the name of a column", {"target": 1}),
    "twice": (
        HEIGHTS,
        "`columns`: 'height' is used twice",
        {"target": None, "columns": ["height", "height"]},
    ),
    "target as weight": (
        HEIGHTS,
        "`target` and `weight`: 'girth' is used twice",
        {"target": "girth", "weight": "girth"},
    ),
    "no input": (
        HEIGHTS,
        "has no input column, only 'girth' and 'height'",
        {"target": "girth", "weight": "height"},
    ),
    "a long list of columns": (
        ",".join(f"column{i}" for i in range(300)) + "\n1\n",
        "'column7'.*300 in all",
        {"target": "kolumn7"},
    ),
    **{
        f"no label, {cell!r}": (
            f"a,y\n1,x\n\n2,{cell}\n",
            "row 4: column 'y' has no label",
            {"labels": True},
        )
        for cell in ("", " ", "?", "NA", "n/a", "NaN", "null")
    },
    "labels of what": (HEIGHTS, "`labels` needs a `target`", {"target": None, "labels": True}),
    "censored what": (
        HEIGHTS,
        "`censored` needs a `target`",
        {"target": None, "censored": "girth"},
    ),
    "unknown label": (
        "a,y\n1,x\n2,z\n",
        "label 'z' is not one of the classes",
        {"labels": ["x", "y"]},
    ),
    "one label": ("a,y\n1,x\n2,x\n", "one class only, x", {"labels": True}),
    "nothing": (
        {"a": pd.array([None, 1], dtype="Int64"), "y": [1, 2]},
        "row 2: column 'a' has a missing value",
    ),
    "spaces": ({"a": ["1", " \n"], "y": [1, 2]}, "row 3: column 'a' has a missing value"),
    "text in Parquet": (
        {"a": [1, 2], "note": ["3", "x7"], "y": [1, 2]},
        "row 3: column 'note' holds text, 'x7'",
    ),
    "far below": ({"a": [*range(50), None], "y": 1}, "row 52: column 'a' has a missing value"),
    "a day": (
        {"a": pd.to_datetime(["2024-01-02"]), "y": [1]},
        "row 2: column 'a' holds text, '2024-01-02",
    ),
    "true as target": (
        {"a": [1.0], "y": [True]},
        "row 2: column 'y' holds text, 'True'; a number is expected",
    ),
    "no name": ({"": [1.0], "y": [2.0]}, "column 1 of 't.parquet' has no name"),
    "two of one name": (
        {"a": [1.0], "a\n": [2.0], "y": [1.0]},
        "t.parquet' has more than one column named 'a'",
    ),
    "nothing at all": ({}, "is empty"),
    "a text of lines": (
        {"y": [1, 2], "a\nb": ["1\n", "2\r\n3"]},
        "row 3: column 'a b' holds text, '2 3'",
    ),
    "no label in Parquet": (
        {"a": [1, 2, 3], "y": ["x", "z", None]},
        "row 4: column 'y' has no label",
        {"labels": True},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_table_is_refused_in_one_line_that_says_where_and_leaves_nothing(
    folder, monkeypatch, case
):
    content, message, *options = REFUSED[case]
    options = {"target": "y"} | dict(*options)
    if isinstance(content, dict):
        monkeypatch.setattr(reader, "BATCH_ROWS", 20)
        path = written(
            pd.DataFrame(content),
            "t.parquet",
            row_group_size=None if case.startswith("Parquet of") else 6,
        )
    else:
        path = "t.csv"
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "cache").mkdir()
    for use in (
        partial(convert_table, cache_dir="cache"),
        *[read_table] * (options.keys() <= {"target", "columns"}),
    ):
        with value_error(message) as caught:
            use(path, **options)
        told = str(caught.value)
        assert "\n" not in told
        assert len(told) < 400
        assert path in told or "`" in told or "label" in told
    assert not list((folder / "cache").iterdir())


@pytest.mark.parametrize(
    "use, path, message",
    [
        (read_table, "absent.csv", "there is no file 'absent.csv'"),
        (read_table, "absent.parquet", "there is no file 'absent.parquet'"),
        (read_table, ".", "'.' cannot be read: Is a directory"),
        (read_table, "text.parquet", "'text.parquet' cannot be read as Parquet"),
        (read_table, "cut.parquet", "'cut.parquet' cannot be read as Parquet"),
        (convert_table, "absent.csv", "there is no file 'absent.csv'"),
        (convert_table, "folder", "'folder' holds no file that ends in .parquet"),
        (convert_table, [], "holds no file"),
        (convert_table, 7, "`path` must be a file"),
        (partial(table_files, decimal=";"), "1.csv", "`decimal` must be"),
        (
            partial(convert_table, target="b"),
            ["1.csv", "2.csv"],
            "`target`: '.*2.csv' has no column 'b'",
        ),
    ],
)
def test_a_file_that_is_not_one(folder, use, path, message):
    (folder / "folder").mkdir()
    (folder / "text.parquet").write_text("a,y\n1,2\n")
    (folder / "1.csv").write_text("a,b\n1,2\n")
    (folder / "2.csv").write_text("a,c\n1,2\n")
    written(FRAME[["a", "y"]], "cut.parquet")
    (folder / "cut.parquet").write_bytes((folder / "cut.parquet").read_bytes()[:60] + b"PAR1")
    with value_error(message) as caught:
        use(path)
    assert "`path`: " not in str(caught.value)


@pytest.fixture
def readings(monkeypatch):
    """Counts how often CSV files are opened and parsed."""
    counts = {"opened": 0, "parsed": 0}
    opened = io.open
    parsed = pd.read_csv

    def count_open(path, *arguments, **options):
        counts["opened"] += str(path).endswith(".csv") and "w" not in (*arguments, "")[0]
        return opened(path, *arguments, **options)

    def count_parse(*arguments, **options):
        counts["parsed"] += 1
        return parsed(*arguments, **options)

    monkeypatch.setattr("builtins.open", count_open)
    monkeypatch.setattr("io.open", count_open)
    monkeypatch.setattr(pd, "read_csv", count_parse)
    return counts


def fit_by_command(path):
    command = f"fit {path} --target y --out m.npz --inducing 3 --max-iter 1 --quiet"
    result = CliRunner().invoke(sparse_pep.cli.main, command.split())
    assert result.exit_code == 0, result.output


USES = {
    "data set": partial(read_table, target="y"),
    "arrays": partial(convert_table, target="y", column_types={}),
    "arrays on disk": partial(convert_table, target="y", column_types={}, cache_dir="."),
    "decimal comma": partial(convert_table, target="y", column_types={}, decimal=","),
    "command line": fit_by_command,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("columns, parsed", [(["n", "yes", "y"], 1), (["a", "kind", "y"], 2)])
def test_a_csv_is_opened_once_and_parsed_twice_only_if_it_holds_text(
    folder, readings, use, columns, parsed
):
    if parsed == 2 and use == "data set":
        pytest.skip("a data set has no text")
    written(FRAME[columns], "t.csv", decimal="," if use == "decimal comma" else ".")
    USES[use]("t.csv")
    assert readings == {"opened": 1, "parsed": parsed}


@pytest.mark.parametrize("columns, parsed", [(["a", "y"], 1), (["a", "kind", "y"], 2)])
def test_a_large_csv_is_opened_once_for_each_parse(folder, monkeypatch, readings, columns, parsed):
    monkeypatch.setattr(reader, "HELD_BYTES", 0)
    written(FRAME[columns], "t.csv")
    convert_table("t.csv", target="y", column_types={})
    assert readings == {"opened": parsed, "parsed": parsed}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_the_marks_between_cells_and_in_numbers_are_chosen_apart(folder, separator, decimal):
    written(FRAME[["a", "kind", "y"]], "t.csv", sep=separator, decimal=decimal)
    table = convert_table(
        "t.csv", "y", ["a", "kind"], None, column_types={}, decimal=decimal, separator=separator
    )
    assert table.columns["X"][:, 0].tolist() == FRAME["a"].tolist()
    assert table.columns["y"].tolist() == FRAME["y"].tolist()


MARKS = {  # cells with a decimal comma, and the numbers in them or the cells that are named
    "grouped": (["1.234,5", "999", "-2.345.678", "0,5"], [1234.5, 999.0, -2345678.0, 0.5]),
    "not grouped": (["1234,5", "12345", "1e3", "2,5e-1"], [1234.5, 12345.0, 1e3, 0.25]),
    "points and commas": (["1,5", "0.999", "2"], ["1,5", "0.999"]),
    "a point that groups nothing": (["1.234", "0.99", "-.5"], ["0.99"]),
    "one number grouped": (["1.234", "1234,5", "3"], ["1.234", "1234,5"]),
}


@pytest.mark.parametrize("case", MARKS)
@pytest.mark.parametrize("part", ["target", "input", "input among words"])
def test_a_column_has_one_decimal_mark_and_one_grouping(folder, case, part):
    cells, expected = MARKS[case]
    rows = [f"{cell};{k};{'xy'[k % 2]}" for k, cell in enumerate(cells * 4)]
    Path("t.csv").write_text("\n".join(["a;b;c", *rows]) + "\n")
    target, column = ("a", "b") if part == "target" else ("b", "a")
    columns = [column, "c"] if part == "input among words" else [column]
    convert = partial(convert_table, "t.csv", target, columns, decimal=",", column_types={})
    if not isinstance(expected[0], str):
        table = convert()
        values = table.columns["y"] if part == "target" else table.columns["X"][:, 0]
        assert values.tolist() == expected * 4
        return
    with value_error("column 'a'") as caught:
        convert()
    assert all(repr(cell) in str(caught.value) for cell in expected)


@pytest.mark.parametrize("words", [["x", "1.50"], ["true", "maybe"]])
def test_numbers_that_turn_out_to_be_names_keep_their_spelling(folder, monkeypatch, words):
    monkeypatch.setattr(reader, "BATCH_ROWS", 4)
    cells = [words[1]] * 8 + [words[0], "2.0"] * 4
    Path("t.csv").write_text("a,y\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(cells)))
    columns = convert_table("t.csv", target="y", column_types={}).encoded_by
    assert columns.columns[0].levels == tuple(sorted({*words, "2"}))


@pytest.mark.parametrize("labels", [False, True])
def test_each_file_is_read_once(folder, monkeypatch, labels):
    opened = []
    for kind, name in ((pd, "read_csv"), (pyarrow.parquet.ParquetFile, "iter_batches")):
        read = getattr(kind, name)
        counted = lambda *given, read=read, name=name, **how: (
            opened.append(name) or read(*given, **how)
        )
        monkeypatch.setattr(kind, name, counted)
    written(FRAME[:9], "1.csv")
    written(FRAME[9:], "2.parquet")
    source = convert_table(
        folder,
        target="kind" if labels else "y",
        columns=["a", "b"],
        labels=labels,
        cache_dir=folder,
    )
    for _ in range(3):
        assert sum(len(piece.y) for piece in source.pieces()) == 23
    assert opened == ["read_csv", "iter_batches"]


def test_large_tables_are_on_disk_small_ones_in_memory_and_files_go_with_their_source(
    folder, monkeypatch
):
    (folder / "cache").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "cache"))
    size = written(FRAME[["a", "y"]], folder / "t.parquet").stat().st_size
    for most, kind, files in ((size, np.ndarray, []), (size - 1, np.memmap, ["X.bin", "y.bin"])):
        monkeypatch.setattr(tables, "IN_MEMORY_BYTES", most)
        source = convert_table("t.parquet", target="y")
        assert type(source.columns["X"]) is kind
        assert sorted(path.name for path in (folder / "cache").rglob("*.bin")) == files
    del source
    gc.collect()
    assert not list((folder / "cache").iterdir())


def test_a_folder_without_room(folder):
    written(pd.concat([FRAME[["a", "b", "y"]]] * 500), "t.csv")
    (folder / "cache").mkdir()
    before = set(folder.rglob("*"))
    with value_error("cannot be written to 'nowhere': No such file"):
        convert_table("t.csv", target="y", cache_dir="nowhere")
    with value_error("cannot be written to 't.csv': Not a directory"):
        convert_table("t.csv", target="y", cache_dir="t.csv")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # as a disk that fills up
    try:
        with value_error("cannot be written to 'cache': File too large. Name another"):
            convert_table("t.csv", target="y", cache_dir="cache")
        with value_error("`sites_dir`: 'cache/sites-.*' cannot be written to: .* Name another"):
            DiskSiteStore("cache").append((np.zeros(100_000),))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert set(folder.rglob("*")) == before


def test_labels_keep_the_zeros_before_them(folder):
    Path("t.csv").write_text("a,fips\n" + "1,01001\n2,00501\n" * 3)
    table = convert_table("t.csv", target="fips", labels=True)
    assert table.classes.tolist() == ["00501", "01001"]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "HELD_BYTES", 0)
    path = tmp_path / "growing.csv"
    path.write_text("a,y\n1,2\n2,3\n")
    (file,) = reader.table_files(path, False, ".", None)
    assert len([*file.frames(["a"])]) == 1
    path.write_text("a,y\n1,2\n2,3\n3,4\n")
    with value_error("growing.csv' changed while it was read"):
        [*file.frames(["a"])]


@pytest.mark.parametrize("words", ["alive,dead", "TRUE,F", "yes,no"])
def test_words_do_not_say_which_durations_had_ended(tmp_path, words):
    file = tmp_path / "t.csv"
    file.write_text("t,x,fate\n1,2," + "\n3,4,".join(words.split(",")) + "\n")
    with value_error(r"'fate' holds text.* 1 \(or true\) where a duration had"):
        convert_table(file, "t", censored="fate")


def test_a_table_of_too_many_columns_is_refused(tmp_path):
    file = tmp_path / "t.csv"
    names = ",".join(f"c{d}" for d in range(100_002))
    file.write_text(names + "\n" + "1," * 100_001 + "1\n")
    with value_error("t.csv' has 100001 columns; at most 100000 are read"):
        convert_table(file, "c0")


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("beside", ["2.5", "word"])
def test_codes_in_a_csv_are_labels_and_as_numbers_named(tmp_path, beside, separator):
    file = tmp_path / "t.csv"
    rows = [["y", "zip", "b"], *([str(k), f"0{k % 3}234", beside] for k in range(30))]
    file.write_text("\n".join(map(separator.join, rows)))
    source = convert_table(file, "y", column_types={"b": "leave out"}, separator=separator)
    assert source.feature_names == ("zip=00234", "zip=01234", "zip=02234")
    if beside == "2.5":
        assert len(convert_table(file, "y", column_types={}, separator=separator).feature_names) > 2
        with user_warning("'zip' holds '00234' and is read as numbers"):
            assert convert_table(file, "y", separator=separator).feature_names == ("zip", "b")
