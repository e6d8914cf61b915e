"""Pieces of data: the same rows and sums however they are cut and stored; what is wrong is
named.
"""

import copy
import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import value_error
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from reference.compare import properties

from sparse_pep import SparsePEPRegressor
from sparse_pep.data.sources import (
    ArraySource,
    DiskSiteStore,
    Rows,
    Source,
    checked,
    chosen_rows,
    joined,
    prefetch,
)
from sparse_pep.inference.shard import MaxReduce

rng = default_rng(3)
X = rng.normal(size=(23, 3))
y = rng.normal(size=23)
EXTRAS = {
    "weight": rng.integers(0, 3, 23) * 1.0,
    "known_variance": rng.uniform(size=23),
    "power": rng.uniform(size=23),
}


def sums(piece, factor=1.0):
    return len(piece.X), factor * (piece.X * np.c_[piece.y]).sum(axis=0), MaxReduce(piece.X.max())


def running(piece, own, step):
    n = 0 if own is None else int(own[0])
    return (np.array(n + step), piece.y), (len(piece.y), n)


def saved(array, path, mode):
    np.save(path, array)
    return np.load(path, mmap_mode=mode)


numbers_of_rows = st.integers(1, 30)
inputs = st.builds(
    np.array,
    st.just(10 * X),
    dtype=st.sampled_from([float, np.float32, int]),
    order=st.sampled_from(["C", "F"]),
)


@properties
@given(numbers_of_rows, inputs)
def test_pieces_are_contiguous_numbers_that_are_copied_only_if_they_must_be(rows, given):
    pieces = list(ArraySource(given, y, piece_rows=rows).pieces())
    assert [piece.first for piece in pieces] == list(range(0, 23, rows))
    shared = given.dtype == float and given.flags.c_contiguous
    for piece in pieces:
        assert piece.X.flags.c_contiguous
        assert piece.X.dtype == np.float64
        assert np.shares_memory(piece.X, given) == shared


@properties
@given(numbers_of_rows, inputs)
def test_rows_come_in_order_whatever_the_cut(rows, given):
    together = joined(ArraySource(given, y, **EXTRAS, piece_rows=rows).pieces())
    assert_array_equal(together.X, given)
    assert_array_equal(together.y, y)
    for name, column in EXTRAS.items():
        assert_array_equal(getattr(together, name), column)


@properties
@given(numbers_of_rows, inputs)
def test_sums_and_the_fingerprint_are_the_same_whatever_the_cut(rows, given):
    source = ArraySource(given, y, **EXTRAS, piece_rows=rows)
    n, total, largest = source.total(sums, 2.0)
    assert n == source.n_data == 23
    assert largest.value == given.max()
    assert np.allclose(total, 2.0 * y @ given, rtol=1e-12, atol=1e-12)
    lengths = [len(piece.X) for piece in source.pieces()]
    assert [part[0] for part in source.each(sums)] == lengths
    assert source.fingerprint() == ArraySource(given, y, **EXTRAS).fingerprint()


def test_fingerprints_tell_data_apart():
    plain = ArraySource(X, y).fingerprint()
    again = X.copy()
    again[22, 2] = np.nextafter(again[22, 2], 9.0)
    others = [
        ArraySource(again, y),
        ArraySource(X, -y),
        ArraySource(X),
        ArraySource(X, y, weight=EXTRAS["weight"]),
    ]
    assert len({plain, *(source.fingerprint() for source in others)}) == 5
    assert ArraySource(X, y, weight=np.ones(23)).fingerprint() == plain


@properties
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 99))
def test_a_sample_is_some_of_the_rows(rows, n, seed):
    class Plain(ArraySource):
        sample = Source.sample

    found = [
        kind(X, y, **EXTRAS, piece_rows=rows).sample(n, default_rng(seed))
        for kind in (ArraySource, Plain)
    ]
    for one, other in zip(*found, strict=True):
        assert_array_equal(one, other)
    places = [int(np.flatnonzero(y == value)[0]) for value in found[0].y]
    assert len(set(places)) == min(n, 23)
    assert places == sorted(places)
    assert_array_equal(found[0].X, X[places])
    assert_array_equal(found[0].power, EXTRAS["power"][places])


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_maps_keep_what_was_written_to_them(tmp_path, mode):
    mapped = saved(X, tmp_path / "X.npy", mode)
    if mode != "r":
        mapped[4] = 7.0
    expected = np.array(mapped)
    for view in (mapped, np.asarray(mapped), mapped[::2]):
        found = joined(ArraySource(view, piece_rows=3).pieces()).X
        assert_array_equal(found, expected[:: 1 if len(view) == 23 else 2])
    assert_array_equal(mapped, expected)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_pages_of_a_memory_map_are_given_back(tmp_path):
    def resident():
        return next(
            int(line.split()[1])
            for line in Path("/proc/self/status").open()
            if line.startswith("RssFile")
        )

    X = saved(np.zeros((200_000, 10)), tmp_path / "X.npy", "r")  # 16 MB
    before = resident()
    grown = 0
    for _ in ArraySource(X, piece_rows=20_000).pieces():
        grown = max(grown, resident() - before)
    assert grown < 4_000  # kB: two pieces
    assert X.sum() == 0.0
    assert resident() - before > 12_000  # what happens else


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
    with value_error(message):
        list(ArraySource(**{"X": X, **options}).pieces())


@pytest.mark.parametrize(
    "name, value",
    [
        ("X", np.nan),
        ("y", np.inf),
        ("y", 1e200),
        ("weight", -1.0),
        ("known_variance", -0.1),
        ("power", 1.1),
    ],
)
def test_a_row_that_is_no_good_is_named(name, value):
    columns = copy.deepcopy({"X": X, "y": y} | EXTRAS)
    columns[name][17] = value
    source = ArraySource(**columns, piece_rows=5)
    with value_error(f"`{name}`, row 17 "):
        source.total(sums)
    # the last of nine
    draws = next(k for k in range(999) if chosen_rows(23, 9, default_rng(k))[8] == 17)
    with value_error(f"`{name}`, row 17 "):
        source.sample(9, default_rng(draws))
    if name in EXTRAS:
        with value_error(f"`{name}` must lie in"):
            ArraySource(X, y, **{name: value}).total(sums)


def test_pieces_of_another_width_and_bad_cells_are_refused():
    bad = np.where(np.arange(23)[:, None] + np.arange(3) == 20, np.inf, X)  # from row 18, column 2
    with value_error(r"`X`, row 18 \(counted from 0\), column 2: .*; got inf"):
        ArraySource(bad, y, piece_rows=5).total(sums)
    with value_error("`X` must have 2 columns.*from row 40"):
        checked(Rows(X, first=40), 2)
    with value_error("`y` must have as many rows as `X`; from row 40"):
        checked(Rows(X, y[:4], first=40), 3)


def test_the_next_piece_is_read_while_this_one_is_used():
    started = threading.Event()
    used = []

    def slow():
        yield 0
        started.set()
        yield 1

    for k in prefetch(slow()):
        used.append(k)
        assert started.wait(5.0)  # nobody asked for it yet
    assert used == [0, 1]


def test_what_goes_wrong_while_reading_ahead_is_raised_in_its_turn():
    def broken():
        yield 0
        raise ValueError("row 7")

    pieces = prefetch(broken())
    assert next(pieces) == 0
    with value_error("row 7"):
        next(pieces)
    before = threading.active_count()
    pieces = prefetch(iter(range(100)))
    next(pieces)
    pieces.close()  # reading stops with the reader
    assert threading.active_count() == before


def test_a_source_without_rows():
    class Nothing(Source):
        n_dims = 2

        def pieces(self):
            yield from ()

    for use in (
        lambda s: s.total(sums),
        lambda s: s.sweep(running, None, 1),
        lambda s: s.sample(3, rng),
    ):
        with value_error("no rows"):
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
    assert_array_equal(np.concatenate([second[k][1] for k in range(5)]), y)
    assert bool(list(tmp_path.iterdir())) == on_disk


def test_files_of_a_state_go_with_it(tmp_path):
    source = ArraySource(X, y, piece_rows=5, sites_dir=tmp_path)
    state, _ = source.sweep(running, None, 1)
    for _ in range(3):
        state, _ = source.sweep(running, state, 1)
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1
    assert len(state) == 5
    del state
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "cut late", "changed"])
def test_files_of_a_state_that_are_damaged(tmp_path, damage):
    source = ArraySource(X, y, piece_rows=5, sites_dir=tmp_path)
    state, _ = source.sweep(running, None, 1)
    path = state.path(3)
    raw = path.read_bytes()
    new = {
        "empty": b"",
        "cut": raw[:16],
        "cut late": raw[:-8],
        "changed": raw[:-1] + bytes([raw[-1] ^ 1]),
    }
    path.unlink() if damage == "gone" else path.write_bytes(new[damage])
    with value_error("`sites_dir`: .*3.bin.* is gone or damaged"):
        source.sweep(running, state, 1)
    with value_error("`sites_dir`: nothing can be written"):
        DiskSiteStore(tmp_path / "nowhere")


def spoiled(path, how):
    if how == "truncated":
        os.truncate(path, 200)
    elif how == "rewritten":
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(1, 1))
    elif how == "replaced":
        path.rename(path.with_suffix(".old"))
        np.save(path, X)
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["truncated", "rewritten", "replaced", "removed"])
def test_a_file_that_changes_under_a_memory_map_is_named_and_ends_no_process(how, tmp_path):
    source = ArraySource(saved(X, tmp_path / "X.npy", "r"), y, piece_rows=10)
    pieces = source.pieces()
    next(pieces)
    spoiled(tmp_path / "X.npy", how)
    if how in ("truncated", "rewritten"):
        with value_error(r"`X`: .*X\.npy was changed while this memory map"):
            next(pieces)
    else:
        assert_array_equal(source.at(np.arange(23)).X, X)  # the map has the old file


def test_a_fit_to_a_memory_map_keeps_a_copy(tmp_path):
    maps = [saved(values, tmp_path / f"{k}.npy", "r") for k, values in enumerate((X, y))]
    model = SparsePEPRegressor(n_inducing=5, standardize=False, training=None).fit(*maps)
    expected = model.leave_one_out()
    for path in tmp_path.iterdir():
        os.truncate(path, 0)
    assert np.array_equal(model.leave_one_out(), expected)
