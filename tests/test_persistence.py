"""Model files from outside: whatever is wrong with one is said in one line that names it, and
costs no memory.
"""

import copy
import io
import json
import tracemalloc
import zipfile
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from conftest import value_error
from numpy.testing import assert_allclose, assert_array_equal

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.numerics.files import digest

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
MADE = {
    "several outputs": lambda: SparsePEPRegressor(
        n_inducing=4,
        training=None,
        standardize=True,
        mean="linear",
        blocks=8,
        local="blocks",
        random_state=0,
    ).fit(X, np.sin(X)),
    "three classes": lambda: SparsePEPClassifier(n_inducing=4, training=None, random_state=0).fit(
        X, np.digitize(X[:, 0], [-0.4, 0.4])
    ),
}


@pytest.fixture(scope="module", params=MADE)
def saved(request, tmp_path_factory):
    """Where a model file is, its description and its arrays."""
    path = tmp_path_factory.mktemp("models") / "model.npz"
    MADE[request.param]().save(path, extra={"unit": "m"})
    with np.load(path) as archive:
        arrays = dict(archive)
    return path, json.loads(str(arrays.pop("description"))), arrays


def write(path, description, arrays, **more):
    text = np.array(json.dumps(description))
    arrays = arrays | more
    arrays["digest"] = np.array(
        digest(text, *(array for name, array in arrays.items() if name != "digest"))
    )
    np.savez(path, description=text, **arrays)


def refused_or_whole(path):
    """Whether a file is refused; a file that is not gives a model which works."""
    try:
        model = load(path)
    except ValueError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        return True
    assert len(model.predict(np.ones((2, 2)))) == 2
    assert np.all(np.isfinite(model.predict_f(np.ones((2, 2)))))
    assert model.summary()
    return False


def places(value, at=()):
    """The path to every entry of a description, the first two of a list."""
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:2])
        if isinstance(value, list)
        else ()
    )
    for key, part in parts:
        yield (*at, key)
        yield from places(part, (*at, key))


def with_value(description, place, value):
    """The description with another value at a place, or without the entry if the value is
    KeyError.
    """
    changed = part = copy.deepcopy(description)
    *above, key = place
    for step in above:
        part = part[step]
    if value is KeyError:
        del part[key]
    else:
        part[key] = value
    return changed


WRONG = [
    None,
    True,
    -1,
    0.5,
    10**15,
    1e400,
    1e308,
    "x",
    [],
    [1, "a"],
    {"a": 1},
    {"array": "array_0"},
]


def test_every_entry_of_the_description_may_be_wrong(saved, tmp_path):
    _, description, arrays = saved
    path = tmp_path / "model.npz"
    refused = 0
    for n, place in enumerate(places(description)):
        for value in [KeyError, *(WRONG[(5 * n + k) % len(WRONG)] for k in range(2))]:
            write(path, with_value(description, place, value), arrays)
            refused += refused_or_whole(path)
    assert refused > n


def test_every_array_may_be_another(saved, tmp_path):
    _, description, arrays = saved
    path = tmp_path / "model.npz"
    for name, array in arrays.items():
        for other in (
            array.astype(str),
            np.zeros(0),
            array[None],
            np.full(np.shape(array), np.inf),
            arrays[str(RNG.choice(list(arrays)))],
        ):
            write(path, description, arrays, **{name: other})
            refused_or_whole(path)


def test_bytes_may_be_changed_or_missing(saved, tmp_path):
    whole = saved[0].read_bytes()
    path = tmp_path / "model.npz"
    for size in RNG.integers(len(whole), size=20):
        path.write_bytes(whole[:size])
        assert refused_or_whole(path)
    for _ in range(60):
        changed = bytearray(whole)
        changed[RNG.integers(len(whole))] ^= int(RNG.integers(1, 256))
        path.write_bytes(changed)
        refused_or_whole(path)


@pytest.mark.parametrize(
    "place, value, words",
    [
        (("version",), np.inf, "damaged"),
        (("state", "fitted", "columns", "names"), 5, "it cannot be used"),
        (
            ("state", "fitted", "encoder", "y_scale"),
            np.inf,
            "its `y_scale_` must hold finite numbers; got inf",
        ),
        (
            ("state", "fitted", "posterior", "latent", "0", "b"),
            [[1.0]],
            "its posterior must have Cholesky factors of shape (4, 4) and vectors of 4 numbers",
        ),
        (
            ("state", "fitted", "encoder", "x_scale"),
            [1.0] * 5,
            "its `x_mean_` and `x_scale_` must hold a number for each of 2 inputs",
        ),
        (
            ("state", "fitted", "model", "kernel", "kind"),
            "Exotic",
            "its `kernel` is described by",
        ),
        (
            ("state", "fitted", "columns", "n_features"),
            10**12,
            "its `x_range_` must hold the least and the largest value of 1000000000000 inputs",
        ),
        (("state", "estimator"), "load", "its `estimator` must be one of SparsePEPRegressor"),
        (
            ("state", "fitted", "model", "likelihood", "kind"),
            "Probit",
            "`model.npz` is a sparse_pep model file, but it cannot be used",
        ),
    ],
)
def test_what_is_wrong_is_said(saved, tmp_path, monkeypatch, place, value, words):
    monkeypatch.chdir(tmp_path)
    _, description, arrays = saved
    write("model.npz", with_value(description, place, value), arrays)
    with pytest.raises(ValueError) as caught:
        load("model.npz")
    assert words in str(caught.value)


@pytest.mark.parametrize("n_classes", [10**8, 10**18])
def test_a_number_of_classes_without_functions_costs_no_memory(saved, tmp_path, n_classes):
    _, description, arrays = saved
    changed = copy.deepcopy(description)
    changed["state"]["fitted"]["model"]["likelihood"] = {"kind": "Softmax", "n_classes": n_classes}
    write(tmp_path / "model.npz", changed, arrays)
    with little_memory(), value_error("must have the latent functions of its likelihood"):
        load(tmp_path / "model.npz")


@pytest.mark.parametrize("n_classes", [3, 4])
def test_classes_that_are_far_apart_cost_no_memory(n_classes, tmp_path):
    labels = np.arange(20) % n_classes
    model = SparsePEPClassifier(n_inducing=3, random_state=0, training=None)
    model.fit(np.linspace(0.0, 1.0, 20)[:, None], labels).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as archive:
        arrays = dict(archive)
    description = json.loads(str(arrays.pop("description")))
    b = description["state"]["fitted"]["posterior"]["latent"]["0"]["b"]["array"]
    for factor in (1e6, 1e12):
        write(tmp_path / "model.npz", description, arrays | {b: factor * arrays[b]})
        if n_classes == 3:  # one integral, whose nodes do not grow with the distance
            proba = load(tmp_path / "model.npz").predict_proba([[0.5]])
            assert_allclose(proba.sum(), 1.0)
            continue
        with value_error("cannot be used: the classes are too far apart"):
            load(tmp_path / "model.npz")


@contextmanager
def little_memory():
    """Asserts that its block takes less than 2 MB."""
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


def header(shape, dtype):
    """The beginning of an array that claims this shape."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"shape": shape, "fortran_order": False, "descr": dtype}
    )
    return file.getvalue()


@pytest.mark.parametrize("claim", ["header", "packed"])
def test_a_file_that_claims_more_than_it_holds_costs_no_memory(saved, tmp_path, claim):
    path = tmp_path / "model.npz"
    whole = saved[0]
    large = header((10**7,), "<f8") + bytes(8 * 10**7 if claim == "packed" else 0)
    with (
        zipfile.ZipFile(whole) as old,
        zipfile.ZipFile(
            path, "w", zipfile.ZIP_DEFLATED if claim == "packed" else zipfile.ZIP_STORED
        ) as new,
    ):
        for name in old.namelist():
            new.writestr(name, large if name == "array_1.npy" else old.read(name))
    with little_memory(), value_error("model.npz.*damaged"):
        load(path)


def test_what_save_writes_comes_back(tmp_path):
    extra = {"array": "array_0", 1: [np.arange(2)], "parts": {"array": {"array": [1]}}}
    frame = pd.DataFrame({"array": np.where(X[:, 0] > 0, "p", "q"), "b": X[:, 1]})
    settings = {"n_inducing": 4, "random_state": 0, "training": None}
    model = SparsePEPRegressor(**settings, column_types={"array": "category"}).fit(frame, X[:, 1])
    model.save(tmp_path / "m.npz", extra=extra)
    again = load(tmp_path / "m.npz")
    assert repr(again.extra_) == repr(extra)
    assert again.column_types == model.column_types
    assert_array_equal(again.predict(frame), model.predict(frame))


def test_a_model_that_cannot_be_loaded_again_is_not_saved(tmp_path):
    model = SparsePEPRegressor(n_inducing=4, training=None, random_state=0).fit(X, X[:, 0])
    path = tmp_path / "m.npz"
    model.save(path)
    old = path.read_bytes()
    model._state.posterior.functions[0].b[:] = np.nan
    with value_error("not saved, because it could not be loaded again: its `b`"):
        model.save(path)
    with value_error("`extra` contains itself"):
        loop = {}
        loop["again"] = loop
        model.save(path, extra=loop)
    assert path.read_bytes() == old


def test_labels_that_are_dates_are_refused_by_save(tmp_path):
    days = np.where(X[:, 0] > 0, np.datetime64("2020-01-01"), np.datetime64("2021-01-01"))
    model = SparsePEPClassifier(n_inducing=4, training=None, random_state=0).fit(X, days)
    with value_error("text or numbers can be saved.*y.astype"):
        model.save(tmp_path / "m.npz")
    assert not any(tmp_path.iterdir())
