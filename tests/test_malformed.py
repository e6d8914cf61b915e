"""Malformed input of every kind: one line that names the culprit, never a traceback from the
depths, never an answer.
"""

import gzip
import json
import os
import re
import shlex
import traceback
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import scipy.sparse
from click.testing import CliRunner
from sklearn.exceptions import NotFittedError

from sparse_pep import cli, plots, report
from sparse_pep.data import tables
from sparse_pep.datasets import random_splits
from sparse_pep.estimators import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.estimators.persistence import FORMAT_VERSION
from sparse_pep.features import Derivative, Fourier, GaussianBlur, InducingPoints, Wavelet
from sparse_pep.inference import Rows
from sparse_pep.inference.blocks import Partition
from sparse_pep.inference.fixed_point import infer
from sparse_pep.kernels import Kernel, Linear, Matern32, Periodic, SquaredExponential, Sum, White
from sparse_pep.likelihoods import (
    Gaussian,
    NegativeBinomial,
    NoisyProbit,
    Poisson,
    Probit,
    Softmax,
    StudentT,
)
from sparse_pep.means import ConstantMean, LinearMean, ZeroMean
from sparse_pep.model import Model
from sparse_pep.numerics.files import read_archive, write_archive
from sparse_pep.priors import LogNormal, Normal
from sparse_pep.training import LBFGS, Adam, train

NAN = np.nan
INF = np.inf
RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (12, 2))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=12)
LABELS = np.where(X[:, 0] > 0.0, "right", "left")
COUNTS = np.round(np.exp(X[:, 0]))
Z = InducingPoints(X[:4])
SE = SquaredExponential()
KINDS = {
    "regressor": (SparsePEPRegressor, y),
    "classifier": (SparsePEPClassifier, LABELS),
    "counts": (lambda **own: SparsePEP(**{"likelihood": "poisson"} | own), COUNTS),
}
TARGETS = {kind: target for kind, (_, target) in KINDS.items()} | {"three": np.arange(12) % 3}


def changed(array, index, value, dtype=None):
    """The array with another value at one place."""
    array = np.array(array, dtype=dtype)
    array[index] = value
    return array


def estimator(kind="regressor", **arguments):
    """An estimator that is fitted in no time."""
    return KINDS[kind][0](**{"features": Z, "kernel": SE, "training": None} | arguments)


@cache
def fitted(kind="regressor"):
    """One of each kind, fitted once."""
    return estimator(kind).fit(X, KINDS[kind][1])


def innermost(error):
    """The package, or library, that raised the error."""
    file = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    parts = file.parts
    return (
        parts[parts.index("site-packages") + 1]
        if "site-packages" in parts
        else "sparse_pep"
        if "sparse_pep" in parts
        else file.parent.name
    )


def refused(call, words, kind=ValueError):
    """Check that the call raises an error of this kind, in one line that holds the words, from
    no depth.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(kind) as caught:
            call()
    error = caught.value
    message = str(caught.value)
    assert type(error) is kind or kind in (OSError, NotFittedError), repr(error)
    assert message, message
    assert "\n" not in message, message
    from_files = isinstance(error, OSError)  # Python's own
    assert from_files or innermost(error) in ("sparse_pep", "sklearn"), (
        f"{innermost(error)}: {message}"
    )
    for word in [words] if isinstance(words, str) else words:
        assert word in message, message


def cases(table):
    """The values of a table as parameters of a test, named by its keys."""
    return pytest.mark.parametrize(
        "case", list(table.values()), ids=[re.sub(r" at 0x\w+", "", str(key))[:70] for key in table]
    )


GOOD = "dose,age,response\n" + "".join(f"{i},{i * i % 7},{np.sin(i):.3f}\n" for i in range(12))
UTF8_BOM = b"\xef\xbb\xbf"


def csv(*lines):
    return "\n".join(lines) + "\n"


def mixed(*cells, name="dose"):
    """A table of twelve rows with one odd column, in which these cells repeat."""
    return csv(
        f"age,{name},response",
        *(f'{i * i % 7},"{cells[i % len(cells)]}",{np.sin(i):.3f}' for i in range(12)),
    )


TABLES = {  # content, words of the message
    "empty.csv": ("", ["empty.csv", "is empty"]),
    "bom_text.csv": (
        UTF8_BOM + csv("dose,response", "1,2", "2,a").encode(),
        ["row 3", "'response'", "'a'"],
    ),
    "utf16.csv": (GOOD.encode("utf-16-le"), ["utf16.csv", "not a text file"]),
    "latin1.csv": ("größe,response\n1,2\n".encode("latin-1"), ["latin1.csv", "UTF-8"]),
    "text_target.csv": (
        csv("dose,response", "1,high", "2,low"),
        ["row 2", "'response'", "'high'", "--likelihood auto"],
    ),
    "huge_target.csv": (
        csv("dose,response", "1,1e200", "2,-1e200", "3,1"),
        ["'response'", "too large"],
    ),
    "quotes.csv": (csv("dose,response", '"1,2') + "2,3\n" * 20, ["quotes.csv", "row 2"]),
    "open_end.csv": (
        'dose,response\n1,2\n2,3\n3,"4\n',
        ["open_end.csv", "from row 4 on", "before it is closed"],
    ),
    "long_quotes.csv": ('dose,response\n"' + "1,2\n" * 50_000, ["long_quotes.csv", "row 2"]),
    "semicolons.csv": (
        csv("dose;response", "1;2", "2;3"),
        ["semicolons.csv", "commas", "dose;response"],
    ),
    "quoted_commas.csv": (
        csv("dose,response", '"1,5","2,5"', '"2,5","3,5"'),
        ["'response'", "'2,5'", "--decimal ,"],
    ),
    "page.csv": ("<!DOCTYPE html>\n<html><body>404, not found</body></html>\n", ["page.csv"]),
    "grams.csv": (mixed("1.5 g", "2 g", "3"), ["'dose'", "'1.5 g'", "--columns dose=category"]),
    "slashes.csv": (
        mixed("01/02/2024", "03/04/2024"),
        ["'dose'", "'01/02/2024'", "--columns dose=D/M/Y"],
    ),
    "infinite.csv": (mixed("1", "inf", "none"), ["'dose'", "finite"]),
    "huge_and_text.csv": (mixed("a", "b").replace("1,", "1e200,", 1), ["too large"]),
    "true.csv": ("x,response\n1,True\n2,False\n", ["row 2", "'response'", "'True'"]),
    "unit.csv": (
        "x,response\n1,2\n2,988 CHF\n",
        ["'988 CHF'; a number is expected, without a unit"],
    ),
    "tiny.csv": ("x,response\n1,2e-200\n2,3e-200\n", ["`y` spreads over 1e-200"]),
    "nothing_left.csv": (
        csv("a,b,response", *(f"x,,{i}" for i in range(12))),
        ["'a'", "'b'", "no values"],
    ),
}
TRAINED = {  # odd tables that are trained with a note: content, words of the note
    "words_and_gaps.csv": (mixed("a", "b", ""), ["dose", "category", "4 empty cells as a level"]),
    "words_for_gaps.csv": (
        mixed("NA", "n/a", "?", "null", "-", "none", "1", "2"),
        ["number", "empty cells"],
    ),
    "dates_and_gaps.csv": (
        mixed("2024-01-02", "", "2024-03-01"),
        ["days since 2024-01-02", "empty cells", "2024-01-31"],
    ),
    "stamps.csv": (mixed("2024-01-02T10:00:00Z", "2024-03-01T11:30:00.5+02:00"), ["date", "day"]),
    "id.csv": (mixed(*range(12), name="dose_id").replace('"7"', '"7 "') + ",,1\n", ["age"]),
    "same.csv": (mixed("a"), ["left out", "'a' in all rows"]),
    "equals.csv": (mixed("a=b", "c:d", name="x=y"), ["x=y", "category"]),
    "rare.csv": (
        mixed("a", "a", "a", "a", "b", "b", "b", "c", "d", "e", "f", "g"),
        ["5 rare levels pooled"],
    ),
    "bom_spaces_and_lines.csv": (
        UTF8_BOM + mixed(" a", "a ", "b\nc").encode(),
        ["age", "category", "2 levels"],
    ),
}


FILES = {
    "good.csv": GOOD,
    "labelled.csv": csv("dose,kind", "1,a", "2,b", "3,a"),
    "weights.csv": csv(
        "dose,negative,zero,single,response", "1,1,0,0,2", "2,-1,0,1,3", "3,1,0,0,5"
    ),
    "holes.csv": csv("dose,w,response", "1,1,2", "2,,3"),
    "hole_kind.csv": csv("dose,kind", "1,a", "2,", "3,b"),
    "nan.csv": csv("dose,age", "1,nan"),
    "text.csv": csv("dose,age", "1,old"),
    "foreign.ckpt": "not one of ours",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, with no data folder named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    return tmp_path


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """A folder of good files and of broken ones."""
    place = tmp_path_factory.mktemp("bench")
    here = os.getcwd()
    os.chdir(place)
    for name, content in FILES.items():
        Path(name).write_text(content)
    assert command(*FIT.split(), "--out", "model.npz").exit_code == 0
    SparsePEPRegressor(
        n_inducing=3, training=LBFGS(max_iter=2, checkpoint="other.ckpt"), random_state=0
    ).fit(X, y)
    whole = Path("other.ckpt").read_bytes()
    Path("cut.ckpt").write_bytes(whole[: len(whole) // 2])
    state = read_archive("model.npz", "sparse_pep model", FORMAT_VERSION)
    write_archive("newer.npz", state, "sparse_pep model", 999)
    for name, change in (
        ("kind", {"kernel": state["kernel"] | {"kind": "Exotic"}}),
        ("scaling", {"fitted": state["fitted"] | {"x_scale_": np.ones(5)}}),
        ("unnamed", {"extra": {}}),
        ("shapes", {"latent": {"0": state["latent"]["0"] | {"b": np.ones(7)}}}),
    ):
        write_archive(f"{name}.npz", state | change, "sparse_pep model", FORMAT_VERSION)
    table = csv("a,y", *(f"{i},{i % 5}" for i in range(10)))
    folder = Path("data/regression")
    folder.mkdir(parents=True)
    splits = {"none": [], "twice": [{"train": [0, 0, 1], "test": [2]}]}
    for name in ("broken", "none", "twice", "zipped", "targetless"):
        packed = gzip.compress(
            (table.replace("y", "z") if name == "targetless" else table).encode()
        )
        content = json.dumps({"splits": splits.get(name, [{"train": None, "test": [0, 1]}])})[
            : 14 if name == "broken" else None
        ]
        (folder / f"{name}.csv.gz").write_bytes(packed[:-9] if name == "zipped" else packed)
        (folder / f"{name}_splits.json.gz").write_bytes(gzip.compress(content.encode()))
    os.chdir(here)
    return place


def command(*words, stdin=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(
            cli.main, [str(word) for word in words], prog_name="sparse-pep", input=stdin
        )


def refused_line(words, message, stdin=None):
    """Check that a command line ends with one line on standard error that holds the words, and
    writes nothing.
    """
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    result = command(*words, stdin=stdin)
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stderr.startswith("Error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stdout == ""
    for word in [message] if isinstance(message, str) else message:
        assert word in result.stderr, result.stderr
    after = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert after == before


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("where", ["in memory", "in pieces"])
def test_files_to_fit(folder, monkeypatch, name, where):
    monkeypatch.setattr(tables, "BATCH_ROWS", 3 if where == "in pieces" else 65_536)
    content, words = TABLES[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    more = ["--in-pieces"] if where == "in pieces" else []
    refused_line(
        ["fit", name, "--target", "response", "--quiet", "--inducing", 3, "--max-iter", 2, *more],
        words,
    )


@pytest.mark.parametrize("name", TRAINED)
def test_odd_files_are_trained_with_a_note(folder, name):
    content, words = TRAINED[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = command(
        "fit", name, "--target", "response", "--quiet", "--inducing", 3, "--max-iter", 1
    )
    assert result.exit_code == 0, result.output
    for word in words:
        assert word in result.stdout, result.stdout
    assert command("predict", "model.npz", name, "--out", "-").stdout.count("\n") == 13 + (
        name == "id.csv"
    )


PARQUETS = {  # columns, words of the message
    "a day": (
        {"dose": pd.to_datetime(["2024-01-02"] * 2), "response": [1.0, 2.0]},
        ["'dose'", "the same in all rows"],
    ),
    "bytes": ({"dose": [b"a", b"b"], "response": [1.0, 2.0]}, ["'dose'", "b'a'"]),
    "a far date": (
        {"dose": np.array([1, 10**18], "datetime64[ms]"), "response": [1.0, 2.0]},
        ["'dose'", "too far from 1970"],
    ),
    "a far target": (
        {"dose": [1.0, 2.0], "response": np.array([1, 10**18], "datetime64[ms]")},
        ["row 2", "'response'", "text"],
    ),
    "truths as target": (
        {"dose": [1.0, 2.0], "response": [True, False]},
        ["row 2", "'response'", "--likelihood auto"],
    ),
}


@cases(PARQUETS)
def test_parquet_files_to_fit(folder, case):
    columns, words = case
    pd.DataFrame(columns).to_parquet("t.parquet")
    refused_line("fit t.parquet --target response --quiet --inducing 3 --max-iter 2".split(), words)


@pytest.mark.parametrize("description", [b"[1]", b"{", b'{"index_columns": 5}', b"\xff"])
def test_damage_in_what_pandas_adds_to_a_parquet_file(folder, description):
    table = pyarrow.table({"dose": [1.5, 2.5], "response": [1.0, 2.0]})
    pyarrow.parquet.write_table(
        table.replace_schema_metadata({b"pandas": description}), "t.parquet"
    )
    refused_line(
        "fit t.parquet --target response --quiet".split(), ["t.parquet", "pandas", "damaged"]
    )


FIT = "fit good.csv --target response --inducing 3 --max-iter 2 --quiet"
COMPARE = "compare good.csv --target response --inducing 3 --max-iter 2 --quiet"
VALUES = {
    "tol": ["0", "small", "nan"],
    "max-iter": ["1.5"],
    "seed": ["1.5", "x", "9" * 20],
    "test-fraction": ["0", "x", "nan"],
    "kernel": ["SE2", "''"],
    "likelihood": ["binomial", "''"],
}
OPTIONS = {  # command line, words of the message; tests of the command line have more
    "fit": ["'DATA'", "fit --help"],
    "fit good.csv other.csv --target response": ["other.csv"],
    "fit good.csv --target Response": ["'Response'", "Did you mean 'response'"],
    f"{FIT} --weight absent": ["--weight", "'absent'"],
    **{
        f"{FIT} --{name} {value}": [f"--{name}", value.strip("'")]
        for name, values in VALUES.items()
        for value in values
    },
    "fit weights.csv --target response --weight negative": [
        "--weight",
        "'negative'",
        "data row 2",
        "-1",
    ],
    "fit weights.csv --target response --weight zero": ["--weight", "'zero'", "two rows"],
    "fit holes.csv --target response --weight w": ["row 3", "'w'", "missing"],
    f"{FIT} --likelihood weibull --censored absent": ["--censored", "'absent'"],
    f"{FIT} --likelihood weibull --censored response": ["--censored", "'response'", "target"],
    f"{FIT} --censored age": ["--censored", "weibull"],
    "fit weights.csv --target response --likelihood weibull --censored negative": [
        "'negative'",
        "1 (or true)",
        "got -1 in data row 2",
    ],
    "fit weights.csv --target zero --likelihood weibull --censored single": [
        "'zero'",
        "positive durations",
        "'single'",
        "got 0 in data row 1",
    ],
    "fit hole_kind.csv --target kind --likelihood auto": ["row 3", "'kind'", "no label"],
    f"{FIT} --out /dev/null": ["--out", "/dev/null"],
    f"{FIT} --out good.csv": ["--out", "good.csv", "data"],
    f"{FIT} --report absent/report.html": ["--report", "absent/report.html"],
    f"{FIT} --report model.npz": ["--report", "model.npz"],
    f"{FIT} --checkpoint absent/run.ckpt": ["--checkpoint", "absent/run.ckpt"],
    f"{FIT} --checkpoint model.npz": ["--checkpoint", "model.npz"],
    f"{FIT} --checkpoint run.html --report run.html": ["--checkpoint", "--report", "run.html"],
    f"{FIT} --checkpoint other.ckpt": ["other.ckpt", "other data"],
    f"{FIT} --checkpoint cut.ckpt": ["cut.ckpt", "damaged"],
    f"{FIT} --checkpoint foreign.ckpt": ["foreign.ckpt", "checkpoint"],
    "predict absent.npz good.csv": ["absent.npz", "No such file"],
    "predict model.npz labelled.csv": ["'age'", "labelled.csv"],
    "predict newer.npz good.csv": ["newer.npz", "newer version", "999"],
    "predict kind.npz good.csv": ["kind.npz", "Exotic"],
    "predict scaling.npz good.csv": ["scaling.npz", "cannot be used"],
    "predict unnamed.npz good.csv": ["unnamed.npz", "sparse-pep fit"],
    "predict shapes.npz good.csv": [
        "shapes.npz",
        "its posterior must have",
        "one for each inducing variable",
    ],
    "predict model.npz good.csv --out good.csv": ["--out", "good.csv"],
    "predict model.npz good.csv --out model.npz": ["--out", "model.npz"],
    "predict model.npz - --quiet": ["--quiet"],
    "predict model.npz good.csv --interval 1": ["--interval"],
    "predict model.npz nan.csv": ["row 2", "'age'", "missing"],
    "predict model.npz text.csv": ["row 2", "'age'", "'old'"],
    "compare --data diabetes --data-dir good.csv": ["good.csv", "not a folder"],
    **{
        f"compare --data {name} --data-dir data": words
        for name, words in {
            "broken": ["broken_splits.json.gz", "splits file"],
            "none": ["none_splits.json.gz", "no split"],
            "twice": ["twice_splits.json.gz", "twice"],
            "zipped": ["zipped.csv.gz", "damaged gzip"],
            "targetless": ["targetless.csv.gz", "'y'"],
        }.items()
    },
    f"{COMPARE} --powers 0,,1": ["--powers", "''"],
    f"{COMPARE} --out good.csv": ["--out", "good.csv", "data"],
    "compare --data diabetes --likelihood auto": ["--likelihood", "numbers"],
    "demo extra": ["extra"],
    "predictt": ["No such command", "predict"],
    "fit - --target response": ["standard input", "empty"],
    "predict model.npz -": ["standard input", "empty"],
    "compare - --target kind": ["standard input", "text"],
}


@pytest.mark.parametrize("line", OPTIONS)
def test_options(bench, monkeypatch, line):
    monkeypatch.chdir(bench)
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    refused_line(
        shlex.split(line),
        OPTIONS[line],
        stdin=b"\xff\xfe\0\1" if line.startswith("compare") else b"",
    )


BAD_X = {  # X, words of the message
    "one dimension": (X[:, 0], ["`X`", "(12,)"]),
    "nothing": (None, ["`X`"]),
    "words among numbers": (
        changed(X, (3, 1), "tall", object),
        ["`X`", "'tall'", "row 3", "column 1"],
    ),
    "complex": (X + 1j, ["`X`", "omplex"]),
    "dates": (np.full((12, 2), np.datetime64("2024-01-01")), ["`X`"]),
    "infinity": (changed(X, (0, 0), INF), ["X", "infinity", "row 0", "column 0"]),
    "too large": (changed(X, (4, 1), 1e200), ["X", "row 4", "column 1", "1e+200"]),
    "no rows": (X[:0], ["`X`", "(0, 2)"]),
    "ragged": ([[1.0, 2.0], [3.0]] * 6, ["`X`"]),
    "sparse": (scipy.sparse.csr_matrix(X), ["`X`", "parse"]),
    "masked": (
        np.ma.masked_array(X, mask=X > 1.0),
        ["`X` is a masked array with", "masked values"],
    ),
    "a frame of words": (pd.DataFrame({"a": ["x"] * 12, "b": [1.0] * 12}), ["`X`", "'x'"]),
}
BAD_Y = {  # estimator, y, words of the message
    "one less": ("regressor", y[:-1], ["y", "12", "11"]),
    "a number": ("regressor", 1.5, ["`y`"]),
    "nothing": ("regressor", None, ["y", "None"]),
    "NaN": ("regressor", changed(y, 7, NAN), ["y", "NaN", "row 7"]),
    "None among objects": ("regressor", changed(y, 7, None, object), ["y", "row 7"]),
    "too large": ("regressor", changed(y, 7, 1e200), ["y", "row 7", "1e+200"]),
    "words among numbers": ("regressor", changed(y, 7, "high", object), ["`y`", "'high'", "row 7"]),
    "complex": ("regressor", y + 1j, ["`y`", "omplex"]),
    "ragged": ("regressor", [[1.0], [1.0, 2.0]] * 6, ["`y`"]),
    "sparse": ("regressor", scipy.sparse.csr_matrix(y[:, None]), ["`y`"]),
    "masked": ("regressor", np.ma.masked_array(y, mask=X[:, 0] > 1.0), ["`y` is a masked array"]),
    "masked labels": (
        "classifier",
        np.ma.masked_array(LABELS, mask=X[:, 0] > 1.0),
        ["`y` is a masked array"],
    ),
    "two columns of counts": ("counts", np.column_stack([COUNTS] * 2), ["`y`", "(12, 2)"]),
    "negative counts": ("counts", changed(COUNTS, 4, -1.0), ["`y`", "counts", "-1", "row 4"]),
    "one class": (
        "classifier",
        np.full(12, "a"),
        ["`y`", "one class", "'a'", "give `partial_fit` all labels as `classes`"],
    ),
    "fractions as labels": ("classifier", y, ["`y`", "continuous"]),
    "complex labels": ("classifier", np.arange(12) % 2 + 1j, ["`y`", "omplex"]),
    "None among labels": ("classifier", changed(LABELS, 3, None, object), ["`y`", "row 3"]),
    "numbers among labels of text": ("classifier", changed(LABELS, 3, 5, object), ["`y`"]),
}


BAD_DATA = {
    f"{kind}, {name}": (kind, bad, TARGETS[kind], words)
    for kind in ("regressor", "classifier", "counts")
    for name, (bad, words) in BAD_X.items()
}
BAD_DATA |= {
    f"targets, {name}": (kind, X, bad, words) for name, (kind, bad, words) in BAD_Y.items()
}


@cases(BAD_DATA)
def test_data_to_fit_and_inputs_to_predict(case):
    kind, bad, target, words = case
    model = estimator(kind)
    refused(lambda: model.fit(bad, target), words)
    assert not hasattr(model, "kernel_")
    if bad is not X and len(target) > 1:
        refused(lambda: fitted(kind).predict(bad), words)


@pytest.mark.parametrize(
    "cell", [object(), {"a": 1}, [1.0], 1j], ids=lambda cell: type(cell).__name__
)
def test_objects_among_numbers(cell):
    """The kind of error is scikit-learn's, see its `check_dtype_object`."""
    bad = X.astype(object)
    bad[3, 1] = cell
    refused(lambda: estimator().fit(bad, y), ["`X`", "row 3", "column 1"], TypeError)
    refused(lambda: fitted().predict(bad), ["`X`", "row 3", "column 1"], TypeError)
    refused(lambda: estimator().fit(X, bad[:, 1]), ["`y`", "row 3"], TypeError)


WEIGHTS = {
    "one less": (np.ones(11), "(12,)"),
    "negative": (changed(np.ones(12), 3, -1.0), "row 3"),
    "NaN": (changed(np.ones(12), 3, NAN), "row 3"),
    "text": (["a"] * 12, "`"),
    "sparse": (scipy.sparse.csr_matrix(np.ones((1, 12))), "`"),
}


def more(X, y, **arguments):
    """A call with more data for an estimator of numbers."""
    return lambda: estimator(**arguments).fit(*GOOD_DATA).partial_fit(X, y)


GOOD_DATA = X, y
BLOCKS = [0] * 6 + [1] * 6
UP = np.full(12, "up")
SIZES = (0, -1, 1.5, "two", None, NAN, True, [2])  # wrong ones
THETA = 8 + 3  # entries of Z, and of the kernel and the noise
ADDED = (
    0,
    -1,
    1.5,
    13,
    "many",
    None,
    True,
    NAN,
    np.ones((2, 3)),
    np.full((2, 2), NAN),
    np.ones(2),
    np.ones((0, 2)),
)
REMOVED = (
    0,
    -1,
    0.5,
    4,
    [0, 1, 2, 3],
    [4],
    [-1],
    [0.5],
    ["a"],
    "a",
    [True, False, True, False],
    [[0], [1]],
    [],
)
DOORS = {
    "sample_f": "regressor",
    "sample_y": "counts",
    "predict_f": "classifier",
    "predict_proba": "classifier",
    "decision_function": "classifier",
}
INPUTS = {
    "three columns": (np.ones((3, 3)), ["3 features", "2 features"]),
    "NaN": (changed(np.ones((3, 2)), (1, 0), NAN), ["X", "row 1", "column 0"]),
}
UNFITTED = {
    "predict": [X],
    "predict_f": [X],
    "predict_proba": [X],
    "sample_y": [X],
    "save": ["m.npz"],
    "summary": [],
    "parameters": [],
    "score": [X, y],
    "log_marginal_likelihood": [],
    "predict_log_density": [X, y],
    "log_marginal_likelihood_gradient": [],
    "leave_one_out": [],
    "add_inducing": [1],
    "log_marginal_likelihood_bounds": [],
    "sample_functions": [],
}
LATER = {  # call, words of the message, kind of the error
    **{
        f"{name}, {kind}": (
            lambda name=name, bad=bad: estimator().fit(X, y, **{name: bad}),
            [f"`{name}`", word],
        )
        for name in ("sample_weight", "known_variance")
        for kind, (bad, word) in WEIGHTS.items()
    },
    **{
        f"{name}, {bad}": (lambda name=name, kind=kind, X=X: getattr(fitted(kind), name)(X), words)
        for name, kind in DOORS.items()
        for bad, (X, words) in INPUTS.items()
    },
    "a level": (lambda: fitted().predict_interval(X, 90), ["`level`", "between 0 and 1", "90"]),
    "a quantile": (lambda: fitted().predict_quantiles(X, [0.5, 1.0]), ["`q`", "between 0 and 1"]),
    "all weights zero": (
        lambda: estimator().fit(X, y, np.zeros(12)),
        ["`sample_weight`", "at least one row"],
    ),
    "weights within a block": (
        lambda: estimator(blocks=BLOCKS).fit(X, y, np.arange(12) + 1.0),
        ["`weight`", "same for all data of a block"],
    ),
    "one class of positive weight": (
        lambda: estimator("classifier").fit(X, changed(UP, 3, "b"), changed(np.ones(12), 3, 0.0)),
        ["`y`", "one class"],
    ),
    "known variances of labels": (
        lambda: estimator("classifier").fit(X, LABELS, known_variance=np.ones(12)),
        "`known_variance`",
    ),
    "known variances and scaled columns": (
        lambda: estimator(standardize=True).fit(
            X, np.column_stack([y, -y]), known_variance=np.ones(12)
        ),
        ["`known_variance`", "standardize"],
    ),
    **{
        f"{name} before fit": (
            lambda name=name, given=given: getattr(
                estimator("classifier" if "proba" in name else "regressor"), name
            )(*given),
            "not fitted",
            NotFittedError,
        )
        for name, given in UNFITTED.items()
    },
    "noise before fit": (lambda: estimator().noise_variance_, "not fitted", NotFittedError),
    "plot before fit": (
        lambda: plots.plot_posterior_2d(estimator(), X, y),
        "not fitted",
        NotFittedError,
    ),
    "std and cov": (
        lambda: fitted().predict(X, return_std=True, return_cov=True),
        ["`return_std`", "`return_cov`"],
    ),
    "another frame": (
        lambda: estimator().fit(pd.DataFrame(X, columns=["a", "b"]), y).predict(X[:, :1]),
        ["1 features", "2 features"],
    ),
    **{
        f"{call}, {kind}, {value!r} samples": (
            lambda call=call, kind=kind, value=value: getattr(fitted(kind), call)(
                X, n_samples=value
            ),
            "`n_samples`",
        )
        for call, kind in (
            ("sample_f", "regressor"),
            ("sample_y", "classifier"),
            ("sample_y", "counts"),
        )
        for value in SIZES
    },
    **{
        f"{value!r} functions": (lambda value=value: fitted().sample_functions(value), "`n`")
        for value in SIZES
    },
    "seed of samples": (lambda: fitted().sample_y(X, random_state="a"), "`random_state`"),
    "density of other rows": (
        lambda: fitted().predict_log_density(X, y[:-1]),
        ["`y`", "(12,)", "(11,)"],
    ),
    "density of NaN": (
        lambda: fitted().predict_log_density(X, changed(y, 2, NAN)),
        ["`y`", "row 2"],
    ),
    "density of fractions": (lambda: fitted("counts").predict_log_density(X, y), ["`y`", "counts"]),
    "density of unknown labels": (
        lambda: fitted("classifier").predict_log_density(X, UP),
        ["`y`", "'up'"],
    ),
    "score of other rows": (lambda: fitted().score(X, y[:-1]), ["y", "11", "12"]),
    "score of NaN": (lambda: fitted().score(X, changed(y, 2, NAN)), ["y", "NaN"]),
    "score of weights": (
        lambda: fitted("counts").score(X, COUNTS, sample_weight=np.ones(3)),
        "`sample_weight`",
    ),
    "score of negative weights": (
        lambda: fitted("counts").score(X, COUNTS, sample_weight=-np.ones(12)),
        "`sample_weight`",
    ),
    **{
        f"theta {name}": (
            lambda theta=theta: fitted().log_marginal_likelihood(theta),
            ["`theta`", *words],
        )
        for name, theta, *words in (
            ("too short", np.zeros(2), str(THETA)),
            ("of NaN", np.full(THETA, NAN), "finite"),
            ("too large", np.full(THETA, 1e4)),
            ("of columns", np.zeros((THETA, 1))),
        )
    },
    **{
        f"add {bad!r}": (lambda bad=bad: estimator().fit(X, y).add_inducing(bad), "`points`")
        for bad in ADDED
    },
    **{
        f"remove {bad!r}": (lambda bad=bad: estimator().fit(X, y).remove_inducing(bad), "`points`")
        for bad in REMOVED
    },
    "add to waves": (
        lambda: (
            estimator(kernel=Matern32(), features=Fourier(-3.0, 3.0, 3))
            .fit(X[:, :1], y)
            .add_inducing(1)
        ),
        ["inducing points", "Fourier"],
    ),
    "more data of other columns": (more(X[:, :1], y), ["1 features", "2 features"]),
    "more data of two outputs": (more(X, np.column_stack([y, y])), ["`y`", "(12, 2)"]),
    "more data of one output": (
        lambda: estimator().fit(X, np.column_stack([y, -y])).partial_fit(X, y),
        ["`y`", "2", "(12,)"],
    ),
    "more data with a new label": (
        lambda: estimator("classifier").fit(X, LABELS).partial_fit(X, UP),
        ["`y`", "'up'", "row 0"],
    ),
    "more data with NaN": (more(X, changed(y, 4, NAN)), ["y", "row 4"]),
    "more data with blocks of others": (more(X[:5], y[:5], blocks=BLOCKS), ["`blocks`", "12", "5"]),
    "more powers than data": (
        lambda: estimator().fit(X, y).set_params(power=np.full(5, 0.5)).partial_fit(X, y),
        ["`power`", "12", "(5,)"],
    ),
    "classes that are not there": (
        lambda: estimator("classifier").partial_fit(X, LABELS, classes=["left", "up"]),
        ["`y`", "'right'"],
    ),
    "one class given": (
        lambda: estimator("classifier").partial_fit(X, UP, classes=["up"]),
        "`classes`",
    ),
    "one text for classes": (
        lambda: estimator("classifier").partial_fit(X, LABELS, classes="left"),
        "`classes`",
    ),
    "other classes later": (
        lambda: fitted("classifier").partial_fit(X, LABELS, classes=["left", "up"]),
        "`classes`",
    ),
    "an unknown parameter": (lambda: SparsePEPRegressor().set_params(alpha=1.0), "'alpha'"),
}


def test_a_loaded_model_says_what_is_missing(folder):
    fitted().save("m.npz")
    model = load("m.npz")
    for call in (
        model.leave_one_out,
        lambda: model.add_inducing(1),
        lambda: model.remove_inducing(1),
        model.log_marginal_likelihood_gradient,
        model.log_marginal_likelihood_bounds,
        model.log_marginal_likelihood,
    ):
        name = getattr(call, "__name__", "")
        refused(
            call,
            [
                "training data",
                "`fit`",
                *([f"`{name.removesuffix('_gradient')}`"] if name != "<lambda>" else []),
            ],
        )


WHOLE = [-1, 1.5, NAN, INF, "10", [5], True, {}, np.ones(2)]
POSITIVE = [0, -1, NAN, INF, None, "1", [1.0], True, {}, np.ones(2)]
ARGUMENTS = {
    "kernel": ["cosine", "", 3, 1.0, True, NAN, [SE], SquaredExponential, {}, np.ones(2)],
    "features": [
        "points",
        3,
        X,
        [X],
        [],
        (),
        InducingPoints,
        {},
        True,
        NAN,
        [InducingPoints(X[:3]), 5],
        {InducingPoints(X[:3])},
    ],
    "n_inducing": [0, None, "Auto", ["auto"], *WHOLE],
    "power": [
        -0.1,
        1.1,
        NAN,
        INF,
        None,
        "vfe",
        "0.5",
        "",
        [0.5],
        [0.5] * 11 + [1.1],
        [0.5] * 11 + [NAN],
        {},
        True,
        ["a"] * 12,
        np.full((12, 1), 0.5),
        0.5j,
        ["auto"],
    ],
    "blocks": [
        0,
        -1,
        1.5,
        NAN,
        True,
        "a",
        "12",
        [0] * 11,
        np.zeros((12, 1)),
        [NAN] * 12,
        {},
        [None] * 12,
        [0, "a"] * 6 + [None],
        [[0], [1, 2]] * 6,
        [],
    ],
    "noise_variance": POSITIVE,
    "training": ["sgd", "", True, 1, NAN, ["lbfgs"], {}, np.array(["lbfgs", "lbfgs"]), LBFGS],
    "jitter": [-1e-8, 1.0, NAN, INF, None, "x", [1e-8], True, {}],
    "standardize": [None, "yes", "False", 2, NAN, [True], {}, np.array([True, False])],
    "ard": [None, "yes", "False", 2, NAN, [True], {}, np.array([True, False])],
    "random_state": ["a", -1, 1.5, NAN, [1, "a"], {}, 2**40, [[1]]],
    "verbose": ["yes", None, NAN, -1, 1.5, [1], {}],
    "local": ["on", "", True, 0, NAN, ["auto"], {}, "blocks", *WHOLE],
    "fixed": [
        "features.Z",
        ["nothing"],
        3,
        None,
        [3],
        True,
        NAN,
        [None],
        [["features.Z"]],
        np.array(0),
    ],
    "priors": [
        "strong",
        "",
        3,
        True,
        NAN,
        ["weak"],
        [Normal()],
        np.ones(2),
        {"lengthscale": Normal()},
        {"log_noise_variance": 3.0},
        {"log_noise_variance": Normal},
        {"features.Z": LogNormal()},
        {"log_noise_variance": Normal([0.0, 1.0])},
        {"kernel.log_lengthscale": Normal(0.0, np.ones(3))},
        {3: Normal()},
    ],
    "mean": [
        "quadratic",
        "",
        3,
        True,
        NAN,
        ["constant"],
        {},
        np.ones(2),
        ZeroMean,
        LinearMean(0.0, [1.0]),
        LinearMean(0.0, np.ones((2, 3))),
        ConstantMean([1.0, 2.0, 3.0]),
    ],
}
TRAININGS = {
    **dict.fromkeys(
        ((LBFGS, "max_iter"), (Adam, "batch_size"), (Adam, "n_epochs")), [0, None, *WHOLE]
    ),
    **dict.fromkeys(((LBFGS, "tol"), (Adam, "tol"), (Adam, "learning_rate")), POSITIVE),
    **dict.fromkeys(
        ((LBFGS, "max_time"), (Adam, "max_time")),
        [value for value in POSITIVE if value is not None],
    ),
    (LBFGS, "n_restarts"): [None, *WHOLE],
    (LBFGS, "checkpoint"): [3, True, NAN, ["a"], {}, ".", "absent/run.ckpt", ""],
}
LIKELIHOODS = {
    "counts": ["multinomial", "", 3, None, Gaussian, True, ["gaussian"], {}, NAN, Softmax(3)],
    "classifier": [
        "gaussian",
        "",
        3,
        None,
        Probit,
        True,
        ["probit"],
        {},
        NAN,
        Softmax(3),
        Poisson(),
        Gaussian(),
        StudentT(),
    ],
}
OTHERS = {
    (kind, name): ARGUMENTS[name][:4]
    for kind in ("classifier", "counts")
    for name in ("power", "blocks", "mean", "fixed", "n_inducing", "random_state")
}


@cases(
    {
        f"{kind}, {name} = {value!r}": (kind, name, value)
        for (kind, name), values in (
            {("regressor", name): values for name, values in ARGUMENTS.items()} | OTHERS
        ).items()
        for value in values
    }
)
def test_arguments(folder, case):
    kind, name, value = case
    arguments = {
        "kernel": None,
        "features": None,
        "n_inducing": 4,
        "training": LBFGS(max_iter=2),
    } | {name: value}
    refused(lambda: estimator(kind, **arguments).fit(X, KINDS[kind][1]), [f"`{name}`"])


PAIRS = {  # arguments that do not go together, words of the message
    "powers of blocks": (
        "regressor",
        {"blocks": [0] * 6 + [1] * 6, "power": [0.1, 0.2, 0.3]},
        ["`power`", "2 blocks"],
    ),
    "powers within a block": (
        "regressor",
        {"blocks": [0] * 6 + [1] * 6, "power": np.linspace(0, 1, 12)},
        ["`power`", "block"],
    ),
    "a checkpoint of many sizes": (
        "regressor",
        {"n_inducing": "auto", "features": None, "training": LBFGS(checkpoint="here.npz")},
        ["`checkpoint`", "`n_inducing='auto'`"],
    ),
    "a power held out from batches": (
        "regressor",
        {"power": "held_out", "training": "adam"},
        ["power", "L-BFGS"],
    ),
    "local sites of the tight form": (
        "regressor",
        {"local": "auto", "tight": True},
        ["`local`", "tight=False"],
    ),
    "a kernel that is none": ("regressor", {"kernel": Kernel()}, "Kernel"),
    "a kernel of other columns": (
        "regressor",
        {"kernel": SquaredExponential(1.0, [1.0, 1.0, 1.0])},
        "`lengthscale`",
    ),
    "a kernel of columns that are not there": (
        "regressor",
        {"kernel": SquaredExponential(active_dims=(4,))},
        "`active_dims`",
    ),
    "points of other columns": (
        "regressor",
        {"features": InducingPoints(X[:3, :1])},
        ["2 columns", "features have 1"],
    ),
    "a probit of three classes": (
        "three",
        {"likelihood": Probit()},
        ["likelihood", "Probit", "3 classes"],
    ),
    "signs for counts": ("counts", {"likelihood": "probit"}, "`y`"),
    "several latent functions": (
        "counts",
        {"likelihood": Softmax(3)},
        ["SparsePEPClassifier", "3 latent"],
    ),
}


WRONG = [0.0, -1.0, NAN, INF, "a", None, 1j, [], {}, [[1.0]]]
NUMBERS = [0.0, -1.0, NAN, INF, "a", None, [1.0], True, 1j]
# class, arguments that come first, argument, wrong values, further words of the message
SCALARS = (
    (SquaredExponential, (), "variance", WRONG, ["SquaredExponential"]),
    (SquaredExponential, (), "lengthscale", WRONG, ["SquaredExponential"]),
    (Periodic, (), "period", WRONG, ["Periodic"]),
    (Linear, (), "variance", WRONG, ["Linear"]),
    (White, (), "variance", WRONG, ["White"]),
    (
        Matern32,
        (),
        "active_dims",
        [(-1,), (0, 0), (), (0.5,), "a", (NAN,), ([0, 1],), (None,), True],
        [],
    ),
    (GaussianBlur, (X[:3],), "width", [-1.0, INF, "a", None, [1.0], np.ones((2, 2)), 1j], []),
    (Wavelet, (X[:3], 1.0), "frequency", ["a", None], []),
    (Derivative, (X[:3],), "dims", [0, ["a"] * 3, [NAN] * 3, None], []),
    (Fourier, (0.0, 1.0), "frequencies", [-2, 2.5, [NAN], "a", None], []),
    (Gaussian, (), "noise_variance", NUMBERS, []),
    (StudentT, (), "df", NUMBERS, []),
    (StudentT, (), "scale", NUMBERS, []),
    (NegativeBinomial, (), "dispersion", NUMBERS, []),
    (NoisyProbit, (), "flip", [0.0, 0.5, -0.1, NAN, "a", None, [0.1], True], []),
    (Softmax, (), "n_classes", [1, 0, -1, 2.5, NAN, "a", None, [3], True], []),
    (
        ConstantMean,
        (),
        "intercept",
        [NAN, INF, "a", None, 1j, [[1.0], [1.0, 2.0]]],
        ["ConstantMean"],
    ),
    (LinearMean, (0.0,), "slope", [NAN, "a", None], ["LinearMean"]),
)
MATHS = {  # call, words of the message, kind of the error; tests of features have more
    **{
        f"{kind.__name__}, {name} {value!r}": (
            lambda kind=kind, first=first, name=name, value=value: kind(*first, **{name: value}),
            [f"`{name}`", *words],
        )
        for kind, first, name, values, words in SCALARS
        for value in values
    },
    "two variances": (lambda: SquaredExponential([1.0, 2.0]), ["`variance`", "one number"]),
    "one lengthscale of zero": (lambda: Matern32(1.0, [1.0, 0.0]), "`lengthscale`"),
    "linear variances for other columns": (lambda: Linear(np.ones(3))(X), ["`variance`", "3", "2"]),
    "inputs of other widths": (lambda: SE(X, X[:, :1]), ["`X2`", "1", "2"]),
    "one dimension": (lambda: SE(X[:, 0]), ["`X1`", "(12,)", "X[:, None]"]),
    "kernel plus a number": (lambda: SE + 1.0, "Kernel", TypeError),
    "sum of numbers": (lambda: Sum((1.0, SE)), "`kernels`"),
    **{
        f"Z {bad!r}": (lambda bad=bad: InducingPoints(bad), "`Z`")
        for bad in (
            X[:, 0],
            np.full((2, 2), NAN),
            [["a"]],
            np.ones((2, 0)),
            3.0,
            None,
            X + 1j,
            [[1.0], [1.0, 2.0]],
            scipy.sparse.csr_matrix(X),
        )
    },
    "waves from text": (lambda: Fourier("x", 1.0, 3), "`a`"),
    "fractions of classes": (lambda: Softmax(3).check([0.5, 1.0]), ["`y`", "row 0"]),
    "labels other than signs": (lambda: Probit().check([0.0, 1.0]), ["`y`", "row 0"]),
}


def covariances(rows):
    return Z.Kuf(SE, X[rows]), SE.diag(X[rows]), None


GIVEN = {
    infer: dict(Kuu=Z.Kuu(SE), covariances=covariances, likelihood=Gaussian(0.1), y=y, power=0.5),
    train: dict(model=Model(SE, Z, Gaussian(0.1)), data=Rows(X, y)),
}


def called(function, **other):
    return lambda: function(**GIVEN[function] | other)


ARRAYS = {  # tests of tables, data sets, plots and reports have theirs
    "partition of nothing": (lambda: Partition([]), "`labels`"),
    "partition of NaN": (lambda: Partition([0.0, NAN]), "`labels`"),
    "partition of text and numbers": (
        lambda: Partition(np.array([0, "a"], dtype=object)),
        "`labels`",
    ),
    "powers above one": (lambda: Partition([0, 0, 1]).powers(1.5), "`power`"),
    "infer, Kuu that is not one": (called(infer, Kuu=-Z.Kuu(SE)), "Kuu", np.linalg.LinAlgError),
    **{
        f"infer, {name} {value}": (called(infer, **{name: value}), f"`{name}`")
        for name, value in (
            ("power", 1.5),
            ("power", NAN),
            ("power", np.ones(5)),
            ("weight", -1.0),
            ("weight", NAN),
            ("noise_variance", 0.0),
            ("noise_variance", np.ones(5)),
        )
    },
    "train, X of other columns": (called(train, data=Rows(X[:, :1], y)), ["`X`", "2"]),
    "train, no targets": (called(train, data=Rows(X)), "targets `y`"),
    "train, power of others": (called(train, power=np.ones(5)), "`power`"),
    "load of nothing": (lambda: load("absent.npz"), "absent.npz", FileNotFoundError),
    "load of None": (lambda: load(None), "`path`"),
    "save to no folder": (lambda: fitted().save("absent/m.npz"), "absent", FileNotFoundError),
    "save to None": (lambda: fitted().save(None), "`path`"),
    "save with an object": (lambda: fitted().save("m.npz", extra={"a": object()}), "`extra`"),
    "report of NaN": (
        lambda: report.fit_report(fitted(), changed(X, (2, 0), NAN), y),
        ["X", "row 2"],
    ),
    "plot on one axes": (lambda: plots.plot_posterior_2d(fitted(), X, y, axes=3), "`axes`"),
    "plot on no axes": (lambda: plots.plot_residuals(y, y, y**2 + 1, ax="a"), "`ax`"),
    "plot with a negative margin": (
        lambda: plots.plot_posterior_2d(fitted(), X, y, margin=-1.0),
        "`margin`",
    ),
    "splits of one row": (lambda: random_splits(1, 1, 0.5), "`n`"),
}


def own(base):
    """A class of the user, that no file knows."""
    return type("Own" + base.__name__, (base,), {})


@dataclass(frozen=True, eq=False)
class Lifted(SquaredExponential):
    """A kernel with a field that is not trained."""

    floor: float = 0.0


Lifted.__name__ = "SquaredExponential"  # a name that is known
OWN = own(SquaredExponential)()
UNSAVED = {  # argument, its value, words of the message
    "kernel": ("regressor", "kernel", OWN, ["`kernel`", "OwnSquaredExponential"]),
    "kernel with a field": ("regressor", "kernel", Lifted(floor=2.0), ["`kernel`"]),
    "kernel in a product": ("regressor", "kernel", SE * (SE + Lifted()), ["`kernel`"]),
    "features in a mixture": (
        "regressor",
        "features",
        [Z, own(InducingPoints)(X[5:7])],
        ["`features`", "OwnInducingPoints"],
    ),
    "likelihood": ("counts", "likelihood", own(Gaussian)(0.5), ["`likelihood`", "OwnGaussian"]),
    "mean": ("regressor", "mean", own(ConstantMean)(1.0), ["`mean`", "OwnConstantMean"]),
    "priors": (
        "regressor",
        "priors",
        {"log_noise_variance": own(Normal)()},
        ["`priors`", "OwnNormal"],
    ),
}


@cases(UNSAVED)
def test_parts_that_do_not_come_back_are_not_saved(folder, case):
    kind, name, value, words = case
    model = estimator(kind, **{name: value}).fit(X, KINDS[kind][1])
    refused(lambda: model.save("m.npz"), words)
    assert list(folder.iterdir()) == []


@cases(
    LATER
    | MATHS
    | ARRAYS
    | {
        f"{kind}, likelihood {value!r}": (
            lambda kind=kind, value=value: estimator(kind, likelihood=value).fit(X, KINDS[kind][1]),
            "`likelihood`",
        )
        for kind, values in LIKELIHOODS.items()
        for value in values
    }
    | {
        f"{kind.__name__}, {name} = {value!r}": (
            lambda kind=kind, name=name, value=value: estimator(training=kind(**{name: value})).fit(
                X, y
            ),
            f"`{name}`",
        )
        for (kind, name), values in TRAININGS.items()
        for value in values
    }
    | {
        f"pair, {name}": (
            lambda kind=kind, arguments=arguments: estimator(
                "classifier" if kind == "three" else kind, **arguments
            ).fit(X, TARGETS[kind]),
            *rest,
        )
        for name, (kind, arguments, *rest) in PAIRS.items()
    }
)
def test_calls(folder, case):
    call, words, *kind = case
    refused(call, words, *kind)
