"""Files of arrays and JSON: exact, whole or absent, and clear about what they are not."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from reference.compare import properties

from sparse_pep.numerics.files import atomic_write, read_archive, write_archive

tensors = arrays(
    st.sampled_from([np.float64, np.int64, bool]), array_shapes(min_dims=0, max_dims=3, max_side=3)
)
leaves = st.one_of(
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
    st.text(),
    tensors,
)
states = st.dictionaries(
    st.text(),
    st.recursive(
        leaves,
        lambda part: st.one_of(
            st.dictionaries(
                st.one_of(st.text(), st.just("array"), st.integers()), part, max_size=3
            ),
            st.lists(part, max_size=3),
        ),
        max_leaves=6,
    ),
    max_size=4,
)


def same(one, other):
    """Whether two states are equal, arrays to the last bit."""
    if isinstance(one, np.ndarray):
        alike = isinstance(other, np.ndarray) and (one.dtype, one.shape) == (
            other.dtype,
            other.shape,
        )
        return alike and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(one[key], other[key]) for key in one)
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("state") / "file.npz"


@properties
@given(state=states)
def test_a_state_comes_back_to_the_last_bit(path, state):
    write_archive(path, state, "thing", 3)
    assert same(read_archive(path, "thing", 3), state)
    assert same(read_archive(path, "thing", 4), state)


def test_a_state_may_hold_a_key_named_array(path):
    state = {"array": {"array": 3}, "x": {"array": [1, 2]}}
    write_archive(path, state, "thing", 1)
    assert read_archive(path, "thing", 1) == state


@pytest.mark.parametrize(
    "value",
    [
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([1j]),
        np.array([{}, 1], object),
        np.zeros(2, "i4,f8"),
        np.ma.masked_equal([1.0, -9.0], -9.0),
        {1, 2},
        {(1, 2): 3},
        b"bytes",
    ],
    ids=repr,
)
def test_what_would_not_come_back_is_refused(tmp_path, value):
    path = tmp_path / "file"
    write_archive(path, {"old": 1}, "thing", 1)
    with pytest.raises(TypeError, match="a file cannot hold|an array must|a key of a dictionary"):
        write_archive(path, {"new": [value]}, "thing", 1)
    assert read_archive(path, "thing", 1) == {"old": 1}


def test_a_file_is_checked_before_it_takes_the_place_of_an_old_one(tmp_path):
    def refuse(path):
        assert read_archive(path, "thing", 1) == {"new": 1}
        raise ValueError("refused")

    path = tmp_path / "file"
    write_archive(path, {"old": 1}, "thing", 1)
    with pytest.raises(ValueError, match="refused"):
        write_archive(path, {"new": 1}, "thing", 1, refuse)
    assert read_archive(path, "thing", 1) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_whole_is_not_there(tmp_path):
    def half(file):
        file.write(b"half")
        raise OSError("disk full")

    atomic_write(tmp_path / "file", lambda file: file.write(b"old"))
    with pytest.raises(OSError, match="disk full .what was there is unchanged.*file'"):
        atomic_write(tmp_path / "file", half)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~umask
