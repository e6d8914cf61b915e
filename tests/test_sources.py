"""Pieces of data: the same rows and sums however they are cut and stored; what is wrong is named."""

import gc
import gzip
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import properties

from sparse_pep.data import sources
from sparse_pep.data.sources import (
    ArraySource,
    Largest,
    Piece,
    Shelf,
    Source,
    TableSource,
    added_parts,
    ahead,
    checked,
    chosen_rows,
    joined,
    recut,
)
from sparse_pep.datasets import read_table

rng = np.random.default_rng(3)
X = rng.normal(size=(23, 3))
y = rng.normal(size=23)
EXTRAS = {
    "weight": rng.integers(0, 3, size=23) * 1.0,
    "known_variance": rng.uniform(size=23),
    "power": rng.uniform(size=23),
}


def sums(piece, factor=1.0):
    return len(piece.X), factor * (piece.X * np.c_[piece.y]).sum(axis=0), Largest(piece.X.max())


def running(piece, own, step):
    n = 0 if own is None else int(own[0])
    return (np.array(n + step), piece.y), (len(piece.y), n)


@pytest.fixture
def tables():
    pytest.importorskip("pyarrow", reason="the extra `tables` is not installed")
    return pytest.importorskip("pandas", reason="the extra `tables` is not installed")


def saved(array, path, mode):
    np.save(path, array)
    return np.load(path, mmap_mode=mode)


# --- arrays -----------------------------------------------------------------------------------------------------------


@properties
@given(st.integers(1, 30), st.sampled_from(["C", "F"]), st.sampled_from([float, np.float32, int]))
def test_rows_come_in_order_whatever_the_cut(rows, order, kind):
    given = np.array(10 * X, dtype=kind, order=order)
    source = ArraySource(given, y, **EXTRAS, piece_rows=rows)
    pieces = list(source.pieces())
    assert [piece.first for piece in pieces] == list(range(0, 23, rows))
    assert all(piece.X.flags.c_contiguous and piece.X.dtype == np.float64 for piece in pieces)
    together = joined(pieces)
    assert np.array_equal(together.X, given) and np.array_equal(together.y, y)
    assert all(np.array_equal(getattr(together, name), EXTRAS[name]) for name in EXTRAS)
    n, total, largest = source.total(sums, 2.0)
    assert n == source.n_data == 23 and largest.value == given.max()
    assert np.allclose(total, 2.0 * y @ given, rtol=1e-12, atol=1e-12)
    assert source.fingerprint() == ArraySource(given, y, **EXTRAS).fingerprint()
    assert [part[0] for part in source.each(sums)] == [len(piece.X) for piece in pieces]


def test_pieces_with_one_number_each_are_joined():
    one, other = Piece(0, X[:2], y[:2], weight=2.0), Piece(2, X[2:3], y[2:3], weight=3.0)
    assert joined([one, other]).weight.tolist() == [2.0, 2.0, 3.0] and joined([one, one]).weight == 2.0


def test_fingerprints_tell_data_apart():
    plain = ArraySource(X, y).fingerprint()
    again = X.copy()
    again[22, 2] = np.nextafter(again[22, 2], 9.0)
    others = [ArraySource(again, y), ArraySource(X, -y), ArraySource(X), ArraySource(X, y, weight=EXTRAS["weight"])]
    assert len({plain, *(source.fingerprint() for source in others)}) == 5
    assert ArraySource(X, y, weight=np.ones(23)).fingerprint() == plain


@properties
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 99))
def test_a_sample_is_some_of_the_rows(rows, n, seed):
    class Plain(ArraySource):
        sample = Source.sample

    found = [
        kind(X, y, **EXTRAS, piece_rows=rows).sample(n, np.random.default_rng(seed)) for kind in (ArraySource, Plain)
    ]
    for one, other in zip(*found):
        assert np.array_equal(one, other)
    places = [int(np.flatnonzero(y == value)[0]) for value in found[0].y]
    assert len(set(places)) == min(n, 23) and places == sorted(places)
    assert np.array_equal(found[0].X, X[places]) and np.array_equal(found[0].power, EXTRAS["power"][places])


def test_samples_reach_every_row():
    seen = {float(ArraySource(X, y).sample(2, np.random.default_rng(seed)).y[0]) for seed in range(200)}
    assert len(seen) >= 21  # all but perhaps the last, which cannot be the first of two


def test_an_array_in_memory_is_not_copied():
    pieces = ArraySource(X, y, piece_rows=5).pieces()
    assert all(np.shares_memory(piece.X, X) and np.shares_memory(piece.y, y) for piece in pieces)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_maps_keep_what_was_written_to_them(tmp_path, mode):
    mapped = saved(X, tmp_path / "X.npy", mode)
    if mode != "r":
        mapped[4] = 7.0
    expected = np.array(mapped)
    for view in (mapped, np.asarray(mapped), mapped[::2]):
        found = joined(ArraySource(view, piece_rows=3).pieces()).X
        assert np.array_equal(found, expected[:: 1 if len(view) == 23 else 2])
    assert np.array_equal(mapped, expected)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_pages_of_a_memory_map_are_given_back(tmp_path):
    def resident():
        return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("RssFile"))

    X = saved(np.zeros((200_000, 10)), tmp_path / "X.npy", "r")  # 16 MB
    before, grown = resident(), 0
    for _ in ArraySource(X, piece_rows=20_000).pieces():
        grown = max(grown, resident() - before)
    assert grown < 4_000  # kB: two pieces
    assert X.sum() == 0.0 and resident() - before > 12_000  # what happens else


MISFITS = {
    "one column": ({"X": X[:, 0]}, "`X` must be a table"),
    "no rows": ({"X": X[:0]}, "`X` must be a table"),
    "targets": ({"y": y[:5]}, "`y` must have a value for each of the 23 rows"),
    "three axes": ({"y": np.zeros((23, 2, 2))}, "`y` must have a value for each"),
    "weights": ({"weight": np.ones((23, 1))}, "`weight` must have a value"),
    "powers": ({"power": np.ones(22)}, "`power` must have a value"),
    "rows": ({"piece_rows": 0}, "`piece_rows` must be a whole number"),
    "half a row": ({"piece_rows": 2.5}, "`piece_rows` must be a whole number"),
    "text": ({"X": np.array([["a"]])}, "`X`"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_arrays_that_do_not_fit(case):
    options, message = MISFITS[case]
    with pytest.raises(ValueError, match=message):
        list(ArraySource(**{"X": X, **options}).pieces())


@pytest.mark.parametrize(
    ("name", "value"),
    [("X", np.nan), ("y", np.inf), ("y", 1e200), ("weight", -1.0), ("known_variance", -0.1), ("power", 1.1)],
)
def test_a_row_that_is_no_good_is_named(name, value):
    columns = {"X": X.copy(), "y": y.copy(), **{key: values.copy() for key, values in EXTRAS.items()}}
    columns[name][17] = value
    source = ArraySource(**columns, piece_rows=5)
    with pytest.raises(ValueError, match=f"`{name}`, row 17 "):
        source.total(sums)
    draws = next(k for k in range(999) if chosen_rows(23, 9, np.random.default_rng(k))[8] == 17)  # the last of nine
    with pytest.raises(ValueError, match=f"`{name}`, row 17 "):
        source.sample(9, np.random.default_rng(draws))
    everywhere = {"X": X, "y": y, name: value} if name in EXTRAS else None
    if everywhere:
        with pytest.raises(ValueError, match=f"`{name}` must lie in"):
            ArraySource(**everywhere).total(sums)


def test_a_bad_cell_is_named():
    bad = np.where(np.arange(23)[:, None] + np.arange(3) == 20, np.inf, X)  # from row 18, column 2
    with pytest.raises(ValueError, match=r"`X`, row 18 \(counted from 0\), column 2: .*; got inf"):
        ArraySource(bad, y, piece_rows=5).total(sums)


def test_pieces_of_another_width_are_refused():
    with pytest.raises(ValueError, match="`X` must have 2 columns.*from row 40"):
        checked(Piece(40, X), 2)
    with pytest.raises(ValueError, match="`y` must have as many rows as `X`; from row 40"):
        checked(Piece(40, X, y[:4]), 3)


# --- sums, reading ahead, sweeps --------------------------------------------------------------------------------------


def test_the_largest_of_numbers_and_arrays():
    parts = [(1, Largest(2.0), Largest(np.array([1.0, 5.0]))), (2, Largest(3.0), Largest(np.array([4.0, 0.0])))]
    total = None
    for part in parts:
        total = added_parts(total, part)
    assert total[0] == 3 and total[1].value == 3.0 and total[2].value.tolist() == [4.0, 5.0]
    assert sum([Largest(1.0), Largest(-1.0)]).value == 1.0


def test_the_next_piece_is_read_while_this_one_is_used():
    started, used = threading.Event(), []

    def slow():
        yield 0
        started.set()
        yield 1

    for k in ahead(slow()):
        used.append(k)
        assert started.wait(5.0)  # nobody asked for it yet
    assert used == [0, 1]


def test_what_goes_wrong_while_reading_ahead_is_raised_in_its_turn():
    def broken():
        yield 0
        raise ValueError("row 7")

    pieces = ahead(broken())
    assert next(pieces) == 0
    with pytest.raises(ValueError, match="row 7"):
        next(pieces)


def test_reading_stops_with_the_reader():
    before = threading.active_count()
    pieces = ahead(iter(range(100)))
    next(pieces)
    pieces.close()
    assert threading.active_count() == before


def test_a_source_without_rows():
    class Nothing(Source):
        n_dims = 2

        def pieces(self):
            yield from ()

    for use in (lambda s: s.total(sums), lambda s: s.sweep(running, None, 1), lambda s: s.sample(3, rng)):
        with pytest.raises(ValueError, match="no rows"):
            use(Nothing())


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_sweep_remembers_and_leaves_what_was(tmp_path, on_disk):
    source = ArraySource(X, y, piece_rows=5, sites_dir=tmp_path if on_disk else None)
    first, total = source.sweep(running, None, 1)
    assert total == (23, 0)
    second, total = source.sweep(running, first, 10)
    assert total == (23, 5)  # a 1 of each piece
    _, total = source.sweep(running, first, 10)
    assert total == (23, 5)  # the same once more: the first state is as it was
    assert source.sweep(running, second, 1)[1] == (23, 55)
    assert np.array_equal(np.concatenate([second[k][1] for k in range(5)]), y)
    assert bool(list(tmp_path.iterdir())) == on_disk


def test_files_of_a_state_go_with_it(tmp_path):
    source = ArraySource(X, y, piece_rows=5, sites_dir=tmp_path)
    state, _ = source.sweep(running, None, 1)
    for _ in range(3):
        state, _ = source.sweep(running, state, 1)
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1 and len(state) == 5
    del state
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_a_shelf_gives_back_what_it_was_given(tmp_path):
    shelf, table = Shelf(tmp_path), np.arange(12.0).reshape(3, 4)
    owns = [
        (table, table.T, table[:, ::2]),
        (np.zeros((0, 2, 3)), np.array(2.5), np.arange(3), np.array([True, False])),
    ]
    gc.collect()
    gc.disable()
    try:
        for own in owns:
            shelf.append(own)
        found = list(shelf)
        assert gc.collect() == 0  # nothing waits to be found as garbage
    finally:
        gc.enable()
    assert len(found) == len(shelf) == 2
    for own, again in zip(owns, found, strict=True):
        for a, b in zip(own, again, strict=True):
            assert np.array_equal(a, b) and a.dtype == b.dtype and a.shape == b.shape


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "cut late", "changed"])
def test_files_of_a_state_that_are_damaged(tmp_path, damage):
    source = ArraySource(X, y, piece_rows=5, sites_dir=tmp_path)
    state, _ = source.sweep(running, None, 1)
    path = state.path(3)
    raw = path.read_bytes()
    new = {"empty": b"", "cut": raw[:16], "cut late": raw[:-8], "changed": raw[:-1] + bytes([raw[-1] ^ 1])}
    path.unlink() if damage == "gone" else path.write_bytes(new[damage])
    with pytest.raises(ValueError, match="`sites_dir`: .*3.bin.* is gone or damaged"):
        source.sweep(running, state, 1)


def test_a_folder_for_sites_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="`sites_dir`: nothing can be written"):
        Shelf(tmp_path / "nowhere")


@properties
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 12))
def test_blocks_are_recut(sizes, rows):
    ends = np.cumsum([0, *sizes])
    values = np.arange(ends[-1] * 1.0)
    blocks = [[values[a:b], -values[a:b], 2 * values[a:b]] for a, b in zip(ends[:-1], ends[1:])]
    cut = list(recut(blocks, 2, 1, rows))
    assert [len(X) for X, _ in cut] == [min(rows, len(values) - first) for first in range(0, len(values), rows)]
    if cut:
        assert np.array_equal(np.vstack([X for X, _ in cut]), np.column_stack([values, -values]))
        assert np.array_equal(np.hstack([more[0] for _, more in cut]), 2 * values)
        assert all(X.flags.c_contiguous for X, _ in cut)


# --- tables -----------------------------------------------------------------------------------------------------------


def frame_of(pandas):
    kinds = np.array(["oak", "elm", "ash"])[np.arange(23) % 3]
    columns = {"a": X[:, 0], "n": np.arange(23), "b": X[:, 1], "yes": np.arange(23) % 2 == 0}
    return pandas.DataFrame({**columns, "y": y, "w": EXTRAS["weight"], "kind": kinds, "v": 0.5})


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "folder", "list"])
def test_tables_in_every_form_have_the_same_rows(tables, tmp_path, form):
    frame, path = frame_of(tables), tmp_path / f"t.{form}"
    if form == "parquet":
        frame.to_parquet(path, row_group_size=4)
    elif form.startswith("csv"):
        frame.to_csv(path, index=False)
    else:
        frame[:9].to_csv(tmp_path / "1.csv", index=False)
        frame[9:].iloc[:, ::-1].to_parquet(tmp_path / "2.parquet")
        (tmp_path / "readme.txt").write_text("no table")
        path = tmp_path if form == "folder" else [tmp_path / "1.csv", str(tmp_path / "2.parquet")]
    named = {"target": "y", "weight": "w", "known_variance": "v"}
    source = TableSource(path, columns=["yes", "b", "n"], piece_rows=4, **named)
    assert source.n_data == 23 and source.n_dims == 3 and source.feature_names == ("yes", "b", "n")
    pieces = list(source.pieces())
    assert [len(piece.X) for piece in pieces] == [4, 4, 4, 4, 4, 3] and pieces[2].first == 8
    expected = np.column_stack([np.arange(23) % 2 == 0, X[:, 1], np.arange(23)])
    together = joined(pieces)
    assert np.array_equal(together.X, expected) and np.array_equal(together.y, y)
    assert np.array_equal(together.weight, EXTRAS["weight"]) and together.known_variance[22] == 0.5
    assert together.power is None and all(piece.X.flags.c_contiguous for piece in pieces)
    same = ArraySource(expected, y, EXTRAS["weight"], 0.5)
    assert source.fingerprint() == same.fingerprint()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_inputs_are_all_columns_without_another_part(tables, tmp_path, form):
    path, frame = tmp_path / f"t.{form}", frame_of(tables).drop(columns="kind")
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    source = TableSource(path, target="y", weight="w")
    assert source.feature_names == ("a", "n", "b", "yes", "v")
    table = read_table(path, "y", source.feature_names)
    assert np.array_equal(joined(source.pieces()).X, table.X)


LABELS = {
    "two words": (["b", "a", "b"], ["a", "b"], [1.0, -1.0, 1.0]),
    "three numbers": ([3, 1, 20], [1, 3, 20], [1.0, 0.0, 2.0]),
    "fractions": ([0.5, 1.0, 1.5], [0.5, 1.0, 1.5], [0.0, 1.0, 2.0]),
    "mixed": (["1", "x", "-"], ["-", "1", "x"], [1.0, 2.0, 0.0]),
}


@pytest.mark.parametrize("form", ["csv", "parquet", "categories"])
@pytest.mark.parametrize("case", LABELS)
def test_labels_are_those_of_read_table(tables, tmp_path, form, case):
    labels, classes, codes = LABELS[case]
    frame = tables.DataFrame({"x": [0.0, 1.0, 2.0], "label": labels})
    path = tmp_path / ("t.csv" if form == "csv" else "t.parquet")
    if form == "categories":
        frame["label"] = frame["label"].astype("category")
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    source = TableSource(path, target="label", labels=True, piece_rows=2)
    assert source.classes.tolist() == classes and source.n_data == 3
    assert source.classes.dtype.kind == read_table(path, "label", labels=True).y.dtype.kind
    assert joined(source.pieces()).y.tolist() == codes
    given = TableSource(path, target="label", labels=[*classes, classes[0]], piece_rows=1)
    assert joined(given.pieces()).y.tolist() == codes


def test_numbers_that_turn_into_fractions_late(tables, tmp_path):
    rows = [*(f"{n},1,{n % 2}" for n in range(160_000)), "0.25,2.5,1.5"]  # beyond what pyarrow looks at
    path = tmp_path / "late.csv"
    path.write_text("a,b,y\n" + "\n".join(rows) + "\n")
    n, _, largest = TableSource(path, target="y").total(sums)
    assert n == 160_001 and largest.value == 159_999


BAD_CSV = {
    "missing": ("a,b\n1,2\n\n3,\n", "row 4: column 'b' has a missing value"),
    "word for missing": ("a,b\n1,2\nNaN,3\n", "row 3: column 'a' has a missing value"),
    "text": ("a,b\n1,2\n3,four\n", "row 3: column 'b' holds text, 'four'; a number is expected"),
    "underscore": ("a,b\n1,2\n3,1_0\n", "row 3: column 'b' holds text, '1_0'"),
    "infinite": ("a,b\n1,2\n3,inf\n", "row 3: column 'b' holds 'inf'; a finite number"),
    "date": ("a,b\n2020-01-01,2\n", "row 2: column 'a' holds text, '2020-01-01'"),
    "truth as target": ("a,b\n1,true\n", "row 2: column 'b' holds text, 'true'"),
    "short row": ("a,b\n1,2\n3\n", "row 3: 1 cells where the header has 2"),
    "long row": ("a,b\n1,2\n3,4,5\n", "row 3: 3 cells where the header has 2"),
    "lines in a cell": ('a,b\n1,2\n"x\ny",3\n', "row 3: column 'a' holds text"),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_cells_of_csv_files_are_named(tables, tmp_path, case, zipped):
    text, message = BAD_CSV[case]
    path = tmp_path / ("t.csv.gz" if zipped else "t.csv")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    with pytest.raises(ValueError) as caught:
        TableSource(path, target="b").total(sums)
    assert message in str(caught.value) and str(path) in str(caught.value)


BAD_HEADS = {
    "empty": ("", "is empty"),
    "numbers": ("1,2\n3,4\n", "has no header"),
    "semicolons": ("a;b\n1;2\n", "columns of '.*' are not separated by commas: 'a;b'"),
    "nameless": ("a,\n1,2\n", "column 2 of '.*' has no name"),
    "twice": ("a,a\n1,2\n", "more than one column named 'a'"),
    "no rows": ("a,b\n", "'.*t.csv' has a header but no rows"),
}


@pytest.mark.parametrize("case", BAD_HEADS)
def test_bad_headers(tables, tmp_path, case):
    text, message = BAD_HEADS[case]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        TableSource(tmp_path / "t.csv", target="b").total(sums)


def test_spaces_around_names_and_a_mark_of_the_editor(tables, tmp_path):
    (tmp_path / "t.csv").write_bytes("\ufeff\n a , b\n1,2\n\n   \n 3, 4\n \t\n".encode())
    piece = next(TableSource(tmp_path / "t.csv", target="b", columns=["a"]).pieces())
    assert piece.X.tolist() == [[1.0], [3.0]] and piece.y.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("zipped", [False, True])
def test_gzipped_files_are_known_by_what_is_in_them(tables, tmp_path, name, zipped):
    text = b"a,b\n1,2\n3,4\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if zipped else text)
    piece = next(TableSource(tmp_path / name, target="b").pieces())
    assert piece.X.tolist() == [[1.0], [3.0]] and piece.y.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("index", "names"), [(None, ("a", "b")), ("i", ("i", "a", "b")), (["i", "j"], ("i", "j", "a", "b"))]
)
def test_an_index_of_a_parquet_file_is_an_input_only_if_it_has_a_name(tables, tmp_path, index, names):
    frame = tables.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=[5, 7])
    if isinstance(index, list):
        frame.index = tables.MultiIndex.from_arrays([[5, 7], [5, 7]], names=index)
    else:
        frame = frame.rename_axis(index)
    frame.to_parquet(tmp_path / "t.parquet")
    source = TableSource(tmp_path / "t.parquet")
    values = {"a": [1.0, 2.0], "b": [3.0, 4.0], "i": [5.0, 7.0], "j": [5.0, 7.0]}
    assert source.feature_names == names
    assert next(source.pieces()).X.T.tolist() == [values[name] for name in names]


def test_names_and_texts_of_several_lines_become_one(tables, tmp_path):
    frame = tables.DataFrame({"b": [1.0, 2.0, 3.0], " a\nx": [" 1.5\n", "2", " 1.5\n"], "k": ["u\nv", "w ", "w"]})
    frame.to_parquet(tmp_path / "t.parquet")
    source = TableSource(tmp_path / "t.parquet", target="k", columns=["a x", "b"], labels=True)
    piece = next(source.pieces())
    assert piece.X.tolist() == [[1.5, 1.0], [2.0, 2.0], [1.5, 3.0]] and source.classes.tolist() == ["u v", "w"]
    (tmp_path / "t.csv").write_text('b,"a\nx"\n1,2\n')
    assert TableSource(tmp_path / "t.csv").feature_names == ("b", "a x")


def test_bad_headers_of_parquet_files(tables, tmp_path):
    path = tmp_path / "t.parquet"
    tables.DataFrame({"": [1.0], "b": [2.0]}).to_parquet(path)
    with pytest.raises(ValueError, match="column 1 of '.*t.parquet' has no name"):
        TableSource(path)
    tables.DataFrame({"a": [1.0], "a\n": [2.0]}).to_parquet(path)
    with pytest.raises(ValueError, match="t.parquet' has more than one column named 'a'"):
        TableSource(path)
    tables.DataFrame({"1": [1.0], "2": [2.0]}).to_parquet(path)
    assert TableSource(path).feature_names == ("1", "2")
    tables.DataFrame({"a": []}).to_parquet(path)
    with pytest.raises(ValueError, match="t.parquet' has a header but no rows"):
        TableSource(path).total(sums)


@pytest.mark.parametrize(
    ("value", "message"),
    [(None, "has a missing value"), (np.nan, "has a missing value"), (np.inf, "holds 'inf'"), ("x", "holds text, 'x'")],
)
def test_bad_cells_of_parquet_files_are_named(tables, tmp_path, value, message):
    values = [*map(str, y)] if value == "x" else list(y)
    values[20] = value
    tables.DataFrame({"a": y, "b": values}).to_parquet(tmp_path / "t.parquet", row_group_size=6)
    with pytest.raises(ValueError, match=f"t.parquet', row 22: column 'b' {message}"):
        TableSource(tmp_path / "t.parquet", target="a", piece_rows=7).total(sums)


def test_what_was_read_of_a_parquet_file_does_not_stay_in_memory(tables, tmp_path):
    import pyarrow

    values = np.random.default_rng(0).normal(size=(100_000, 3))  # 2.4 MB
    tables.DataFrame(values, columns=list("abc")).to_parquet(tmp_path / "t.parquet", row_group_size=4_000)
    source, before = TableSource(tmp_path, piece_rows=4_000), pyarrow.total_allocated_bytes()
    held = [pyarrow.total_allocated_bytes() - before for _ in source.pieces()]
    assert len(held) == 25 and max(held) < 1_200_000


def test_true_and_false_are_inputs_but_no_target(tables, tmp_path):
    tables.DataFrame({"a": [True, False], "b": [False, True]}).to_parquet(tmp_path / "t.parquet")
    assert next(TableSource(tmp_path).pieces()).X.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(ValueError, match="row 2: column 'b' holds text, 'False'; a number is expected"):
        TableSource(tmp_path, target="b").total(sums)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_labels_that_are_missing_or_unknown(tables, tmp_path, form):
    frame, path = tables.DataFrame({"a": [1.0, 2.0, 3.0], "k": ["x", "z", None]}), tmp_path / f"t.{form}"
    write = frame.to_parquet if form == "parquet" else lambda path: frame.to_csv(path, index=False)
    write(path)
    with pytest.raises(ValueError, match="row 4: column 'k' has no label"):
        TableSource(path, target="k", labels=True)
    frame["k"] = ["x", "z", "x"]
    write(path)
    with pytest.raises(ValueError, match="label 'z' is none of the classes"):
        TableSource(path, target="k", labels=["x", "y"]).total(sums)
    frame["k"] = "x"
    write(path)
    with pytest.raises(ValueError, match="one class only, x"):
        TableSource(path, target="k", labels=True)
    with pytest.raises(ValueError, match="`labels` are those of a `target`"):
        TableSource(path, labels=True)


BAD_COLUMNS = {
    "target": ({"target": "grith"}, "`target`: .* no column 'grith'. Did you mean 'girth'. Its columns: height, girth"),
    "weight": ({"weight": "w"}, "`weight`: .* no column 'w'"),
    "columns": ({"columns": ["height", "x"]}, "`columns`: .* no column 'x'"),
    "a word": ({"columns": "height"}, "`columns` must be a list"),
    "none": ({"columns": []}, "`columns` must be a list"),
    "number": ({"target": 1}, "`target` must be the name of a column"),
    "twice": ({"columns": ["height", "height"]}, "`columns`: 'height' has two parts to play"),
    "target as input": ({"columns": ["girth"], "target": "girth"}, "`columns`: 'girth' has two parts"),
    "target as weight": ({"target": "girth", "weight": "girth"}, "`target`: 'girth' has two parts"),
    "no input": ({"target": "girth", "weight": "height"}, "has no input column, only 'girth' and 'height'"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_columns_that_are_not_there(tables, tmp_path, case):
    options, message = BAD_COLUMNS[case]
    (tmp_path / "t.csv").write_text("height,girth\n1,2\n")
    with pytest.raises(ValueError, match=message):
        TableSource(tmp_path / "t.csv", **options)


def test_every_file_needs_the_columns(tables, tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(ValueError, match="`target`: '.*2.csv' has no column 'b'"):
        TableSource(tmp_path, target="b")


def test_files_that_are_not_there(tables, tmp_path):
    for path, message in (
        (tmp_path / "no.csv", "there is no file '.*no.csv'"),
        (tmp_path, "holds no file that ends in .parquet"),
        ([], "holds no file"),
        (7, "`path` must be a file"),
    ):
        with pytest.raises(ValueError, match=message):
            TableSource(path)
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match="t.parquet' cannot be read as Parquet"):
        TableSource(tmp_path)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 99)[:-12])
    with pytest.raises(ValueError, match="t.csv.gz' is a damaged gzip file"):
        TableSource(tmp_path / "t.csv.gz", target="b").total(sums)
    (tmp_path / "t.csv").write_bytes(b"a,b\xff\n1,2\n")
    with pytest.raises(ValueError, match="t.csv' is not a text file in UTF-8"):
        TableSource(tmp_path / "t.csv")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_that_goes_away(tables, tmp_path, form):
    for k in range(3):
        frame, path = frame_of(tables)[["a", "y"]], tmp_path / f"{k}.{form}"
        frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    source = TableSource(tmp_path, target="y", piece_rows=5)
    assert source.total(sums)[0] == 69
    (tmp_path / f"1.{form}").unlink()
    with pytest.raises(ValueError, match=rf"1.{form}', (cannot be read|which has gone)"):
        source.total(sums)


def test_without_pyarrow_the_extra_is_named(monkeypatch, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"install pyarrow: pip install 'sparse_pep\[tables\]'"):
        TableSource(tmp_path / "t.csv")


def test_pieces_are_large_enough_and_not_too_large():
    assert sources.rows_of_piece(8) == 100_000 and sources.rows_of_piece(50) == 20_000
    assert sources.rows_of_piece(784) == 8_192 and sources.rows_of_piece(8, 10) == 10
