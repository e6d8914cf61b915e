"""The command line: what it prints and writes, and what it says when something is wrong."""

import csv
import errno
import gc
import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss

import sparse_pep.data.tables
import sparse_pep.estimators.fitting
from sparse_pep import SparsePEPRegressor, load
from sparse_pep.cli import main
from sparse_pep.cli.options import ModelOptions
from sparse_pep.cli.output import write_csv
from sparse_pep.cli.trial import Trial, estimator_for, predictions
from sparse_pep.datasets import random_splits, snelson_like
from sparse_pep.numerics.files import atomic_write
from sparse_pep.training import lbfgs


def run(*words, stdin=None):
    return CliRunner().invoke(
        main, [str(word) for word in words], prog_name="sparse-pep", input=stdin
    )


def accept(*words, stdin=None):
    result = run(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def refused(*words):
    """The one line of a command that is refused, and changes no file."""
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before
    return result.stderr


def document(*words):
    """What a command prints with --json, which must be one document without NaN."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(accept(*words, "--json").stdout, parse_constant=refuse)


def numbers(text):
    """Columns of a printed CSV of numbers."""
    names, *rows = csv.reader(io.StringIO(text))
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


def table_of(text, title):
    """Rows of a printed table under its title."""
    lines = text.split(title + "\n")[1].split("\n\n")[0].splitlines()
    return [re.split(r"  +", line.strip()) for line in lines]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test works in an empty folder of its own, with no data folder named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    return tmp_path


@pytest.fixture
def trial():
    """trial.csv: response = 50 + 10 sin(dose) + noise of 0.5; `age` is useless, `site` constant."""
    rng = np.random.default_rng(0)
    dose = rng.uniform(0.0, 5.0, 80)
    response = 50.0 + 10.0 * np.sin(dose) + 0.5 * rng.standard_normal(80)
    rows = np.c_[dose, rng.standard_normal(80), np.full(80, 7.0), response]
    write_csv("trial.csv", ["dose", "age", "site", "response"], rows.tolist())
    return rows


TRAIN = ["--target", "response", "--inducing", 10, "--max-iter", 60]
MODEL = []


@pytest.fixture
def model(trial):
    """trial.csv, and model.npz, which is trained on it once."""
    if not MODEL:
        accept("fit", "trial.csv", *TRAIN)
        MODEL.append(Path("model.npz").read_bytes())
    Path("model.npz").write_bytes(MODEL[0])
    return trial


def test_fit_then_predict_recovers_the_function_in_the_units_of_the_target(model):
    dose = np.linspace(0.5, 4.5, 9)
    write_csv("new.csv", ["dose", "age", "site"], np.c_[dose, 0 * dose, 0 * dose + 7].tolist())
    result = accept("predict", "model.npz", "new.csv")
    assert result.stdout == ""
    assert "response for 9 rows" in result.stderr
    found = numbers(Path("predictions.csv").read_text())
    assert list(found) == ["mean", "std"]
    assert_allclose(found["mean"], 50.0 + 10.0 * np.sin(dose), atol=1.0)
    assert np.all(found["std"] > 0.4)
    assert np.all(found["std"] < 0.9)
    # to the last digit
    mean, std = predictions(load("model.npz"), np.c_[dose, 0 * dose, 0 * dose + 7])
    np.testing.assert_array_equal([found["mean"], found["std"]], [mean, std])
    ends = numbers(
        accept("predict", "model.npz", "new.csv", "--interval", 0.8, "--out", "-").stdout
    )
    assert_allclose(
        [ends["lower"], ends["upper"]],
        mean + 1.2815515655446004 * np.array([[-1], [1]]) * std,
        rtol=1e-12,
    )
    text = Path("trial.csv").read_text()
    accept("fit", "-", *TRAIN, "--out", "piped.npz", stdin=text)
    piped = accept("predict", "piped.npz", "-", "--out", "-", stdin=text).stdout
    assert piped == accept("predict", "model.npz", "trial.csv", "--out", "-").stdout
    write_csv(
        "turned.csv",
        ["note", "site", "dose", "age"],
        [["x", 7.0, value, 0.0] for value in dose.tolist()],
    )
    assert (
        accept("predict", "model.npz", "turned.csv", "--out", "-").stdout
        == Path("predictions.csv").read_text()
    )


def test_limits_of_a_fit_arrive_and_are_named_and_the_seed_decides(trial):
    line = ["fit", "trial.csv", "--target", "response", "--inducing", "auto", "--quiet"]
    result = accept(*line, "--tol", 0.1)
    assert " inducing points, 80 rows" in result.stdout
    assert "iterations: converged" in result.stdout
    # numbers without gaps
    assert "taken for" not in result.stdout
    assert load("model.npz").columns_ is None
    result = accept(*line, "--max-time", 1e-9, "--no-standardize")
    assert "NOT converged; raise --max-time or --tol" in result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Warning: ")
    fitted = load("model.npz")
    assert fitted.y_scale_ == 1.0
    assert not np.any(fitted.x_mean_)
    mean = numbers(accept("predict", "model.npz", "trial.csv", "--out", "-").stdout)["mean"]
    assert_allclose(mean, fitted.predict(trial[:, :3]), rtol=1e-12)
    line[5:] = [5, "--max-iter", 5, "--quiet", "--seed"]
    Z = [accept(*line, seed) and load("model.npz").features_.Z for seed in (1, 1, 2)]
    assert np.array_equal(Z[0], Z[1])
    assert not np.array_equal(Z[0], Z[2])
    SparsePEPRegressor(n_inducing=5, training=None).fit(*snelson_like(20)).save("plain.npz")
    assert "does not name its columns" in refused("predict", "plain.npz", "trial.csv")


@pytest.fixture
def labels():
    """labels.csv: `kind` is "up" where sin(dose) + 0.3 noise is positive, else "down"."""
    rng = np.random.default_rng(1)
    dose = rng.uniform(0.0, 5.0, 60)
    kind = np.where(np.sin(dose) + 0.3 * rng.standard_normal(60) > 0.0, "up", "down")
    write_csv("labels.csv", ["dose", "kind"], zip(dose.tolist(), kind.tolist(), strict=True))
    return dose[:, None], kind


def test_labels_of_any_text_are_fitted_scored_and_predicted(labels):
    X, y = labels
    words = (
        "--target kind --power 1 --inducing 6 --max-iter 15 --likelihood logit "
        "--test-fraction 0.25 --seed 2 --quiet"
    )
    result = accept("fit", "labels.csv", *words.split(), "--kernel", "matern52")
    assert "power 1 (EP), 6 inducing points, 45 rows" in result.stdout
    assert "likelihood logit: classes down, up\n" in result.stdout
    assert "divided by" not in result.stdout
    fitted = load("model.npz")
    train, test = random_splits(60, 1, 0.25, seed=2)[0]
    assert type(fitted.kernel_).__name__ == "Matern52"
    assert_allclose(fitted.x_mean_, X[train].mean(axis=0))
    proba = predictions(fitted, X[test])[1]
    error = np.mean(np.where(proba[:, 1] > 0.5, "up", "down") != y[test])
    scores = f"15 rows held out: error {error:.4f}, NLL {log_loss(y[test], proba):.4f}\n"
    assert scores in result.stdout
    assert error < 0.3
    assert (
        "label and probabilities of kind for 60 rows"
        in accept("predict", "model.npz", "labels.csv").stderr
    )
    found = pd.read_csv("predictions.csv")
    label, proba = predictions(fitted, X)
    assert list(found) == ["label", "p_down", "p_up"]
    assert found["label"].tolist() == label.tolist()
    np.testing.assert_array_equal(found[["p_down", "p_up"]], proba)
    assert document("predict", "model.npz", "labels.csv")["rows"] == found.to_dict("records")


KERNELS = {"matern12": "Matern12", "rq": "RationalQuadratic", "se": "SquaredExponential"}


@pytest.mark.parametrize(
    "likelihood, kernel",
    list(zip(["poisson", "student_t", "heteroscedastic_gaussian"], KERNELS, strict=True)),
)
def test_counts_and_outliers_have_a_mean_and_a_standard_deviation(likelihood, kernel):
    rng = np.random.default_rng(0)
    dose = rng.uniform(0.0, 5.0, 60)
    count = rng.poisson(np.exp(1.0 + np.sin(dose)))
    write_csv("counts.csv", ["dose", "count"], zip(dose.tolist(), count.tolist(), strict=True))
    options = [
        "--likelihood",
        likelihood,
        "--inducing",
        6,
        "--max-iter",
        20,
        "--test-fraction",
        0.25,
        "--kernel",
        kernel,
        "--quiet",
    ]
    result = accept("fit", "counts.csv", "--target", "count", *options)
    fitted = load("model.npz")
    train, test = random_splits(60, 1, 0.25)[0]
    assert type(fitted.kernel_).__name__ == KERNELS[kernel]
    found = numbers(accept("predict", "model.npz", "counts.csv", "--out", "-").stdout)
    assert list(found) == ["mean", "std"]
    assert np.all(found["std"] > 0.0)
    assert_allclose(found["mean"], np.exp(1.0 + np.sin(dose)), atol=3.0)
    nll = -np.mean(fitted.predict_log_density(dose[test, None], count[test].astype(float)))
    smse = np.mean((found["mean"][test] - count[test]) ** 2) / np.var(count[test])
    assert f"15 rows held out: SMSE {smse:.4f}, NLL {nll:.4f}\n" in result.stdout
    name = {"poisson": "poisson\n", "student_t": "student_t: df 4, scale "}.get(
        likelihood, "heteroscedastic_gaussian: base_variance "
    )
    assert f"likelihood {name}" in result.stdout
    assert ("count divided by" in result.stdout) == (likelihood != "poisson")
    assert fitted.y_scale_ == pytest.approx(
        np.std(count[train]) if likelihood != "poisson" else 1.0, rel=1e-15
    )


FIT = "fit trial.csv --target response --max-iter 1 --inducing 5"
PIECES = "fit parts --target response --in-pieces"
REFUSED = {  # command line, words of the message
    "fit trial.csv": ["--target", "fit --help"],
    "fit text.csv --target response": ["text.csv", "no column is left", "'age'"],
    "compare same.csv --target response": ["target", "different values"],
    f"{FIT} --power half": ["--power", "half"],
    f"{FIT} --test-fraction 0.999": ["too few"],
    f"{FIT} --cache-dir .": ["--cache-dir", "--in-pieces"],
    "compare --data absent": [
        "no data set 'absent'",
        "diabetes",
        "for classification: breast_cancer",
        "SPARSE_PEP_DATA",
    ],
    "compare --powers 0,1.1": ["--powers", "'1.1'"],
    "fit text.csv --target age --likelihood cauchy": ["--likelihood", "negative_binomial"],
    "fit counts.csv --target response --likelihood poisson": ["counts"],
    "fit counts.csv --target response --likelihood ordinal": [
        "numbers of ordered classes (0, 1, 2, ...)"
    ],
    "fit trial.csv --target response --likelihood auto": ["continuous"],
    "fit three.csv --target kind --likelihood auto --test-fraction 0.4 --seed 7": [
        "--test-fraction",
        "'rare'",
        "no training row",
    ],
    "compare three.csv --target kind --likelihood auto --splits 30": [
        "three, split",
        "'rare'",
        "no training row",
    ],
    **{
        f"fit rare.csv --target y --likelihood {likelihood} --test-fraction 0.1 --seed 1": [
            "--test-fraction",
            "SMSE",
            "--seed",
        ]
        for likelihood in ("gaussian", "poisson")
    },
    **{
        f"{command} words.csv --target c": ["column 'c' holds text, 'x'", "--likelihood auto"]
        for command in ("fit", "compare")
    },
    "fit unit.csv --target c": ["'988 CHF'; a number is expected, without a unit"],
    "predict model.npz trial.csv --json --out -": ["--out", "--json"],
    "compare trial.csv --target response --json --out -": ["--out", "--json"],
    "fit - --target response --in-pieces": ["standard input"],
    "fit folder --target response --in-pieces": ["'folder' holds no file", ".parquet"],
    f"{PIECES} --weight absent": ["--weight", "no column 'absent'"],
    "fit parts --target site --in-pieces": ["target 'site' has fewer than two different values in"],
    "fit parts --target site --in-pieces --likelihood auto": ["one class only"],
    f"{FIT} --drop weight": ["--drop", "no column 'weight'", "Its columns"],
    f"{FIT} --drop response": ["--drop", "'response'", "not an input"],
    f"{FIT} --columns age": ["--columns", "NAME=KIND", "'age'"],
    f"{FIT} --columns age=word": ["--columns", "'age'", "category", "'word'"],
    "compare --drop age": ["--drop", "CSV file"],
    "predict model.npz parts --in-pieces --json": ["--in-pieces", "--out"],
    "predict model.npz - --in-pieces --out p.csv": ["--in-pieces", "reads a file or a folder"],
    "predict model.npz short.csv": ["'site'", "Did you mean 'sites'"],
    "predict model.npz parts --in-pieces --out parts/p.csv": [
        "--out",
        "one of the files of 'parts'",
    ],
}
BAD_FILES = {
    "text.csv": "dose,age,response\n1,2,3\n1,old,3\n",
    "same.csv": "dose,response\n" + "1,5\n" * 30,
    "counts.csv": "dose,response\n1,2\n2,-1\n3,0\n",
    "three.csv": "dose,kind\n" + "1,a\n2,b\n" * 6 + "3,rare\n",
    "rare.csv": "x,y\n1,1\n" + "2,0\n" * 39,
    "words.csv": "a,b,c\n1,2,x\n2,1,y\n",
    "unit.csv": "a,c\n1,950\n2,988 CHF\n",
    "short.csv": "dose,sites,age\n1,2,3\n",
}


@pytest.mark.parametrize("line", REFUSED)
def test_bad_input_is_one_line_and_leaves_nothing_behind(model, line):
    for name, text in BAD_FILES.items():
        Path(name).write_text(text)
    for name in ("folder", "parts"):
        Path(name).mkdir()
    Path("parts/0.csv").write_text(Path("trial.csv").read_text())
    np.savez("other.npz", a=np.arange(3))
    error = refused(
        *line.split(), *(["--quiet"] if "--in-pieces" in line and line.startswith("fit") else [])
    )
    for word in REFUSED[line]:
        assert word in error


def raising(error):
    def fail(*given, **more):
        raise error

    return fail


def test_what_goes_wrong_within_a_command(monkeypatch):
    """An error of several lines becomes one, a stop is no error of the user, and our own errors
    keep their traceback.
    """
    before = signal.getsignal(signal.SIGTERM)
    for error, status, said in (
        (ValueError("first\n  second"), 2, "Error: first second\n"),
        (KeyboardInterrupt(), 130, "Stopped.\n"),
        (ZeroDivisionError(), 1, ""),
    ):
        monkeypatch.setattr("sparse_pep.cli.output.check_output", raising(error))
        result = run("fit", "trial.csv", "--target", "y")
        assert result.exit_code == status
        assert result.stderr.lstrip() == said
        assert isinstance(result.exception, ZeroDivisionError if status == 1 else SystemExit)
        assert signal.getsignal(signal.SIGTERM) is before


def test_ctrl_c_writes_the_best_model_so_far_and_the_same_command_goes_on(trial, monkeypatch):
    line = ["fit", "trial.csv", *TRAIN, "--checkpoint", "c.npz"]
    calls = []
    through = lbfgs.evidence_and_gradient

    def stopped(*given):
        if calls.append(given) or len(calls) == 4:
            raise KeyboardInterrupt
        return through(*given)

    monkeypatch.setattr(lbfgs, "evidence_and_gradient", stopped)
    result = run(*line)
    assert result.exit_code == 3
    assert "iterations: interrupted; this is the best model so far" in result.stdout
    assert "interrupted after" in result.stderr
    assert load("model.npz").diagnostics_["interrupted"]
    assert Path("c.npz").exists()
    whole = accept(*line).stdout
    assert not Path("c.npz").exists()
    assert len(calls) == 1 + load("model.npz").diagnostics_["n_evaluations"]
    assert load("model.npz").training.checkpoint is None
    assert accept("fit", "trial.csv", *TRAIN).stdout == whole
    calls.clear()
    assert run("compare", "trial.csv", "--target", "response").exit_code == 130
    assert len(calls) == 4


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


FAULTS = {
    "report.fit_report": "no report was written to 'report.html'",
    "cli.fit.atomic_write": "No space left",
    "cli.fit.score_rows": "the held-out rows are not scored",
}


@pytest.mark.parametrize("name, fault", FAULTS.items())
def test_what_was_trained_is_saved_whatever_happens_afterwards(trial, monkeypatch, name, fault):
    monkeypatch.setattr(f"sparse_pep.{name}", full)
    result = run(
        "fit", "trial.csv", *TRAIN, "--test-fraction", 0.2, "--report", "report.html", "--quiet"
    )
    assert result.exit_code == 0
    assert Path("model.npz").exists()
    told = [line for line in result.stderr.splitlines() if "training stopped" not in line]
    assert len(told) == 1
    assert told[0].startswith("Warning: ")
    assert fault in told[0]
    assert "the model is in 'model.npz'" in told[0]
    assert (
        Path("report.html").exists() is ("report.html" in result.stdout) is ("score_rows" in name)
    )
    assert ("rows held out" in result.stdout) is ("score_rows" not in name)


def test_a_model_without_room_is_named_and_the_checkpoint_stays(trial, monkeypatch):
    monkeypatch.setattr("sparse_pep.numerics.files.os.fsync", lambda handle: None)
    monkeypatch.setattr(
        "sparse_pep.estimators.persistence.write_archive", lambda path, *_: atomic_write(path, full)
    )
    result = run("fit", "trial.csv", *TRAIN, "--quiet", "--checkpoint", "c.npz")
    assert result.exit_code == 2
    assert (
        "model.npz': No space left on device (what was there is unchanged; make room"
        in result.stderr
    )
    assert Path("c.npz").exists()
    assert sorted(os.listdir()) == ["c.npz", "trial.csv"]
    monkeypatch.setattr("sparse_pep.cli.fit.fit", full)  # what prints
    assert (
        run("fit", "trial.csv", *TRAIN).stderr
        == "Error: 'standard output': No space left on device.\n"
    )


def test_a_model_that_another_process_wrote_meanwhile_is_replaced_with_a_word(trial, monkeypatch):
    monkeypatch.setattr(
        "sparse_pep.cli.fit.estimator_for",
        lambda *given, **more: (
            Path("model.npz").write_bytes(b"other") and estimator_for(*given, **more)
        ),
    )
    assert (
        "'model.npz' was written by another process during this fit; it is replaced"
        in accept("fit", "trial.csv", *TRAIN, "--quiet").stderr
    )
    assert "another process" not in accept("predict", "model.npz", "trial.csv").stderr
    assert load("model.npz").n_features_in_ == 3


def test_every_command_teaches_by_an_example():
    for words in ([], ["-h"]):
        assert all(command in accept(*words).stdout for command in main.commands)
    assert re.search(r"\d+\.\d+\.\d+", accept("--version").stdout)
    for name, command in main.commands.items():
        assert all(option.help for option in command.params if isinstance(option, click.Option))
        examples = re.findall(rf"Example: sparse-pep {name} ?(.*)", accept(name, "--help").stdout)
        assert examples
        for line in examples:  # an example that would not parse misleads
            command.make_context(name, line.split(), resilient_parsing=False)


def test_demo_writes_what_it_says_and_its_next_step_works():
    result = accept("demo", "--inducing", 20, "--max-iter", 12, "--out", "a/b")
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[3:6]] == [
        ["0.0", "VFE"],
        ["0.5", "Power"],
        ["1.0", "FITC"],
    ]
    assert re.split(r"  +", lines[2]) == [
        "power",
        "name",
        "log ML/N",
        "SMSE",
        "SMLL",
        "converged",
        "seconds",
    ]
    assert sorted(os.listdir("a/b")) == ["held_out.csv", "model.npz", "posterior.png"]
    assert Path("a/b/posterior.png").read_bytes().startswith(b"\x89PNG")
    assert load("a/b/model.npz").power == 0.5
    accept(*re.search(r"next: sparse-pep (.*)", result.stdout)[1].split())
    found = pd.read_csv("predictions.csv")["mean"]
    held_out = pd.read_csv("a/b/held_out.csv")["progression"]
    # the SMSE of the table, from the files
    assert f"{np.mean((found - held_out) ** 2) / np.var(held_out):.4f}" in lines[4]


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_compare_on_a_file(trial, labels, kind):
    file, target, *options = {
        "numbers": ["trial.csv", "response"],
        "labels": ["labels.csv", "kind", "--likelihood", "probit"],
    }[kind]
    line = [
        "compare",
        file,
        "--target",
        target,
        *options,
        "--powers",
        "0, 1",
        "--inducing",
        8,
        "--max-iter",
        20,
    ]
    result = accept(*line, "--splits", 2, "--out", "scores.csv")
    single = table_of(result.stdout, "each split")
    means = table_of(result.stdout, "averages")
    names = {"numbers": ["SMSE", "SMLL"], "labels": ["error", "NLL"]}[kind]
    for table, counted in ((single, "split"), (means, "splits")):
        assert table[0] == [
            "data",
            "power",
            "name",
            counted,
            "log ML/N",
            *names,
            "converged",
            "seconds",
        ]
    last = "FITC" if kind == "numbers" else "EP"
    assert [row[:4] for row in single[1:]] == [
        [file[:-4], p, n, s] for p, n in (("0", "VFE"), ("1", last)) for s in "01"
    ]
    found = pd.read_csv("scores.csv")
    assert found["split"].tolist() == [0, 1, 0, 1]
    assert (found[names[0]] < (0.1 if kind == "numbers" else 0.35)).all()
    assert_allclose(np.array(single[1:])[:, 5:7].astype(float), found[names], atol=1e-4)
    assert_allclose(
        np.array(means[1:])[:, 5:7].astype(float), found.groupby("power")[names].mean(), atol=1e-4
    )


def test_both_kinds_of_sets_give_two_tables_each(monkeypatch):
    seen = []

    def small(options):
        seen.append(options.likelihood)
        return estimator_for(options).set_params(n_inducing=4, training=None)

    monkeypatch.setattr("sparse_pep.cli.trial.estimator_for", small)
    words = [
        "--data",
        "breast_cancer",
        "--data",
        "diabetes",
        "--powers",
        1,
        "--splits",
        1,
        "--out",
        "scores.csv",
    ]
    text = accept("compare", *words, "--quiet").stdout
    assert seen == ["auto", "gaussian"]
    parts = [part.splitlines() for part in text.split("\n\n")]
    assert [part[0] for part in parts[:4]] == ["each split", "averages"] * 2
    assert parts[4][0].startswith("2 fits in ")
    assert [row.split("  ")[0] for row in parts[0][2:]] == ["breast_cancer"]
    first, second = csv.DictReader(Path("scores.csv").read_text().splitlines())
    assert first["SMSE"] == second["NLL"] == ""
    assert float(first["NLL"]) > 0.0
    assert float(second["SMSE"]) > 0.0


def test_every_option_of_compare_arrives_and_its_results_as_json(monkeypatch):
    seen = []

    def record(data, split, options):
        seen.append((data.name, split, options))
        trial = Trial(
            data=data.name,
            power=options.power,
            name="",
            split=split,
            results={"log ML/N": np.float64(split), "SMSE": np.inf, "SMLL": np.nan},
            converged=split > 0,
            seconds=0.5,
        )
        return trial, None

    monkeypatch.setattr("sparse_pep.cli.compare.run_split", record)
    options = {
        "inducing": "auto",
        "kernel": "matern32",
        "max_iter": 9,
        "tol": 0.5,
        "max_time": 60.0,
        "seed": 4,
    }
    words = [
        word for name, value in options.items() for word in (f"--{name}".replace("_", "-"), value)
    ]
    told = document("compare", "--powers", "0, 1, 1.0", "--splits", 3, "--out", "s.csv", *words)
    arrived = ModelOptions(
        likelihood="gaussian",
        kernel="matern32",
        n_inducing="auto",
        max_iter=9,
        tol=0.5,
        max_time=60.0,
        random_state=4,
    )
    # when nothing is named
    assert seen == [
        ("diabetes", split, replace(arrived, power=power))
        for power in (0, 1)
        for split in (0, 1, 2)
    ]
    assert [(row["power"], row["split"]) for row in told["rows"]] == [
        (p, s) for p in (0, 1) for s in (0, 1, 2)
    ]
    assert [row["converged"] for row in told["rows"]] == [False, True, True] * 2
    assert told["rows"][1]["SMSE"] is None
    assert told["rows"][1]["log ML/N"] == 1.0
    assert [(row["power"], row["splits"], row["converged"]) for row in told["averages"]] == [
        (0, 3, 2),
        (1, 3, 2),
    ]
    assert [row["log ML/N"] for row in told["averages"]] == [1.0, 1.0]
    assert told["averages"][0]["SMLL"] is None
    assert told["file"] == "s.csv"
    assert Path("s.csv").read_text().count("\n") == 7


def test_a_file_is_whole_or_as_it_was_and_a_link_stays_a_link():
    def torn():
        yield [1]
        raise RuntimeError

    Path("real").mkdir()
    Path("link.csv").symlink_to("real/there.csv")
    write_csv("link.csv", ["a"], [[0.1], [1e300]])
    with pytest.raises(RuntimeError):
        write_csv("link.csv", ["a"], torn())
    assert Path("link.csv").is_symlink()
    assert Path("real/there.csv").read_text() == "a\n0.1\n1e+300\n"
    assert os.listdir("real") == ["there.csv"]


def start(words, patch=""):
    """The program in a process of its own."""
    program = f"{patch}from sparse_pep.cli import main; main(prog_name='sparse-pep')"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=env,
    )


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP")
def test_a_signal_leaves_no_partial_files(trial, monkeypatch):
    """The program is told to end while the file beside the model is open: in a process of its
    own, and in this one.
    """
    patch = "import os, signal\nos.fsync = lambda handle: os.kill(os.getpid(), signal.SIGTERM)\n"
    process = start(["fit", "trial.csv", *TRAIN, "--quiet"], patch)
    _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in err
    assert os.listdir() == ["trial.csv"]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    monkeypatch.setattr(os, "fsync", lambda handle: os.kill(os.getpid(), signal.SIGHUP))
    assert run("fit", "trial.csv", *TRAIN, "--quiet").exit_code == 128 + signal.SIGHUP
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN
    assert os.listdir() == ["trial.csv"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL")
def test_a_process_in_a_pipe_and_one_killed_between_writing_and_renaming(model):
    process = start(["predict", "model.npz", "-", "--out", "-"])
    patch = (
        "import os, signal\nos.replace = os.rename = lambda *a, **k: os.kill(os.getpid(), "
        "signal.SIGKILL)\n"
    )
    killed = start(
        [
            "fit",
            "trial.csv",
            "--target",
            "response",
            "--inducing",
            5,
            "--max-iter",
            1,
            "--out",
            "out",
        ],
        patch,
    )
    out, err = process.communicate(Path("trial.csv").read_bytes())
    assert process.returncode == 0
    assert err == b""
    assert out.decode() == accept("predict", "model.npz", "trial.csv", "--out", "-").stdout
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not Path("out").exists()


def test_a_fit_as_json_says_what_the_model_holds(trial):
    words = ["fit", "trial.csv", *TRAIN, "--power", 1]
    told = document(*words, "--test-fraction", 0.25)
    model = load("model.npz")
    held = {
        "log_marginal_likelihood": "log_marginal_likelihood_value_",
        "converged": "converged_",
        "n_iter": "n_iter_",
        "target_scale": "y_scale_",
    }
    assert all(told[key] == getattr(model, name) for key, name in held.items())
    assert told["converged"] is model.converged_
    assert told["likelihood"] == {
        "name": "Gaussian",
        "parameters": {"noise_variance": model.noise_variance_},
    }
    assert told["noise_std"] == model.y_scale_ * np.sqrt(model.noise_variance_)
    assert "classes" not in told
    expected = {
        "target": "response",
        "power": 1.0,
        "name": "FITC",
        "n_inducing": 10,
        "n_rows": 60,
        "n_held_out": 20,
        "file": "model.npz",
    }
    assert expected.items() <= told.items()
    assert told["diagnostics"]["jitter"] == model.diagnostics_["jitter"]
    assert all(isinstance(value, (int, float)) for value in told["diagnostics"].values())
    text = accept(*words, "--test-fraction", 0.25).stdout
    assert f"SMSE {told['scores']['SMSE']:.4f}, SMLL {told['scores']['SMLL']:.4f}" in text
    assert "{" not in text
    result = accept(*words, "--max-iter", 1, "--json")
    assert "scores" not in json.loads(result.stdout)
    assert "Warning: " in result.stderr
    assert "it/s" not in result.stderr  # no progress bar in a pipe


COLUMNS = ["dose", "age", "site", "response", "times"]
LEARN = ["--target", "response", "--inducing", 8, "--max-iter", 8, "--quiet"]
KINDS = ["--target", "kind", "--likelihood", "auto", "--inducing", 5, "--max-iter", 3, "--quiet"]


@pytest.fixture
def pieces():
    """The rows of one table as table.csv, as table.parquet and as parts/, three Parquet files and
    one of CSV; with labels for a target as kinds.csv, and as kinds/ of two Parquet files.
    """
    rng = np.random.default_rng(0)
    # in order, as weighted fits in memory put them in order
    dose = np.sort(rng.uniform(0.0, 5.0, 80))
    response = 50.0 + 10.0 * np.sin(dose) + 0.5 * rng.standard_normal(80)
    others = rng.standard_normal(80), np.full(80, 7.0), response, rng.integers(0, 4, 80)
    table = pd.DataFrame(dict(zip(COLUMNS, (dose, *others), strict=True)))
    table.to_csv("table.csv", index=False)
    table.to_parquet("table.parquet")
    kinds = table.assign(kind=np.where(table["response"] > 50.0, "high", "low")).drop(
        columns=["response", "times"]
    )
    kinds.to_csv("kinds.csv", index=False)
    for name in ("parts", "kinds"):
        Path(name).mkdir()
    for k, first in enumerate(range(0, 60, 20)):
        table[first : first + 20].to_parquet(f"parts/{k}.parquet")
    table[60:].to_csv("parts/3.csv", index=False)
    kinds[:45].to_parquet("kinds/a.parquet")
    kinds[45:].to_parquet("kinds/b.parquet")
    return table


def told(*words):
    """What `fit` prints but for the name of the file."""
    text = accept("fit", *words).stdout
    assert "wrote " in text
    assert "data point: " in text
    return text.partition("wrote ")[0]


HELD = ["--test-fraction", "0.2", "--report", "page.html"]


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--weight", "times"],
        ["--no-standardize"],
        ["--power", "held_out"],
        HELD,
        [*HELD, "--weight", "times"],
    ],
)
def test_a_fit_in_pieces_says_what_one_in_memory_says(pieces, more):
    whole = told("table.csv", *LEARN, *more, "--out", "whole.npz")
    for data in ["parts"] if more else ["table.csv", "table.parquet", "parts"]:
        assert told(data, *LEARN, *more, "--in-pieces", "--out", "pieces.npz") == whole
    whole = load("whole.npz")
    pieces = load("pieces.npz")
    assert pieces.extra_ == whole.extra_
    for name in ("x_mean_", "x_scale_"):
        assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-12)
    assert ("times" in whole.extra_["feature_names"]) == ("--weight" not in more)


def test_durations_that_had_not_ended_get_a_minus_sign(pieces):
    """The fit is that of a target with the signs, from one file or several."""
    table = pieces.drop(columns="times").assign(unfinished=pieces["times"] == 1)
    table.to_csv("durations.csv", index=False)
    Path("both").mkdir()
    table[:30].to_parquet("both/a.parquet")
    table[30:].assign(unfinished=1 * table["unfinished"][30:]).to_csv("both/b.csv", index=False)
    signs = np.where(table["unfinished"], -1.0, 1.0)
    table.assign(response=table["response"] * signs).drop(columns="unfinished").to_csv(
        "signs.csv", index=False
    )
    words = (
        "--target response --likelihood weibull --inducing 3 --max-iter 1 --tol 1 --quiet".split()
    )
    whole = told("signs.csv", *words)
    assert whole != told("durations.csv", *words, "--drop", "unfinished")
    assert told("durations.csv", *words, "--censored", "unfinished") == whole
    assert told("both", *words, "--censored", "unfinished", "--in-pieces") == whole


@pytest.fixture
def houses():
    """The rows of one mixed table as houses.csv, houses.parquet, german.csv and in houses/, and
    new ones in other.csv.
    """
    rng = np.random.default_rng(0)
    city = rng.choice(["Bern", "Rome"], 60)
    area = rng.normal(70.0, 20.0, 60)
    table = pd.DataFrame(
        {
            "id": np.arange(60),
            "city": city,
            "area": area,
            "sold": pd.date_range("2022-01-01", periods=60).astype(str),
        }
    )
    table["price"] = area + 30.0 * (city == "Rome")
    table.loc[::7, "area"] = np.nan
    table.loc[[3, 20], "city"] = None
    Path("houses").mkdir()
    table.to_csv("houses.csv", index=False)
    table.to_parquet("houses.parquet")
    table.to_csv("german.csv", index=False, sep=";", decimal=",")
    table[:25].to_csv("houses/a.csv", index=False)
    table[25:].astype({"city": "category"}).to_parquet("houses/b.parquet")
    pd.DataFrame(
        {
            "sold": ["2022-02-01", None],
            "area": [None, 50.0],
            "city": ["Ulm", None],
            "more": ["x", "y"],
        }
    ).to_csv("other.csv", index=False)
    return table


HOUSES = ["--target", "price", "--inducing", 5, "--max-iter", 2, "--quiet"]


@pytest.mark.parametrize(
    "words",
    [
        ["houses.parquet"],
        ["german.csv", "--decimal", ","],
        ["houses.csv", "--in-pieces"],
        ["houses", "--in-pieces"],
    ],
)
def test_a_mixed_table_in_every_form_gives_the_same_model(houses, words):
    whole = told("houses.csv", *HOUSES, "--out", "whole.npz")
    assert "id      left out   it identifies rows\n" in whole
    assert "2 empty cells as a level" in whole
    assert told(*words, *HOUSES, "--out", "other.npz") == whole
    accept("predict", "whole.npz", "other.csv", "--out", "a.csv")
    note = accept("predict", "other.npz", "other.csv", "--out", "b.csv").stderr
    assert note.startswith(
        "Note: 1 row has a level of 'city' that training did not see; it is treated"
    )
    assert "1 row has no value of 'sold'" in note
    assert "Note" not in accept("predict", "other.npz", *words, "--out", "c.csv").stderr
    houses.assign(sold="2032-01-01").to_csv("late.csv", index=False)
    note = accept(
        "predict",
        "other.npz",
        "late.csv",
        "--out",
        "c.csv",
        *(words[1:2] if "--in-pieces" in words else []),
    ).stderr
    assert "Warning" not in note
    assert "60 rows in 'sold' outside 2022-01-01 to 2022-03-01, by up to 3593 days" in note
    found = pd.read_csv("a.csv")
    assert len(found) == 2
    assert np.all(np.isfinite(found))
    assert_allclose(pd.read_csv("b.csv"), found, rtol=1e-6)


def test_the_user_decides_what_columns_are_treated_as(houses, monkeypatch):
    words = ["--columns", "id=number", "--columns", "sold=leave out", "--drop", "area", "--json"]
    columns = json.loads(accept("fit", "houses.csv", *HOUSES, *words).stdout)["columns"]
    assert {c["name"]: c["kind"] for c in columns} == {
        "id": "number",
        "city": "category",
        "sold": "left out",
    }
    model = load("model.npz")
    assert model.columns_.to_json() == columns
    assert model.extra_["feature_names"] == ["id", "city"]
    assert np.all(np.isfinite(model.predict(houses)))  # and the table itself
    compared = accept("compare", "houses.csv", *HOUSES, "--splits", 1, "--powers", 0.5)
    assert "left out" in compared.stderr
    assert "averages" in compared.stdout
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install pyarrow" in refused("fit", "houses.parquet", "--target", "price")


@pytest.mark.parametrize("likelihood", ["gaussian", "auto"])
def test_a_large_file_is_read_once_and_kept_on_disk(pieces, monkeypatch, likelihood):
    opened = []
    kept = []
    read_csv = pd.read_csv
    arrays = sparse_pep.data.tables.TableArrays
    monkeypatch.setattr(
        pd, "read_csv", lambda *given, **how: opened.append(1) or read_csv(*given, **how)
    )
    monkeypatch.setattr(
        sparse_pep.data.tables,
        "TableArrays",
        lambda *given: kept.append(arrays(*given)) or kept[-1],
    )
    monkeypatch.setattr("sparse_pep.data.sources.FEWEST_AND_MOST", (7, 7))
    file, target = ("table.csv", "response") if likelihood == "gaussian" else ("kinds.csv", "kind")
    Path("cache").mkdir()
    words = [
        "--likelihood",
        likelihood,
        "--in-pieces",
        "--cache-dir",
        "cache",
        "--inducing",
        4,
        "--max-iter",
        2,
    ]
    said = accept("fit", file, "--target", target, *words).stderr
    assert f"writing the arrays of '{file}' to '" in said
    assert len(opened) == 1
    assert [max(len(piece.X) for piece in source.pieces()) for source in kept] == [7]
    assert isinstance(kept[0].columns["X"], np.memmap)
    kept.clear()
    gc.collect()
    assert not list(Path("cache").iterdir())
    accept("predict", "model.npz", file, "--in-pieces", "--out", "p.csv")
    assert len(opened) == 2
    assert not kept


def test_labels_in_pieces(pieces):
    whole = told("kinds.csv", *KINDS)
    expected = accept("predict", "model.npz", "kinds.csv", "--out", "-").stdout
    assert "classes high, low" in whole
    assert told("kinds", *KINDS, "--in-pieces") == whole
    accept("predict", "model.npz", "kinds", "--in-pieces", "--out", "p.csv")
    found = pd.read_csv("p.csv")
    assert list(found) == ["label", "p_high", "p_low"]
    assert len(found) == 80
    pd.testing.assert_frame_equal(found, pd.read_csv(io.StringIO(expected)), rtol=0.0, atol=1e-7)


def test_predictions_in_pieces_are_the_same_rows(pieces, monkeypatch):
    monkeypatch.setattr("sparse_pep.data.sources.FEWEST_AND_MOST", (15, 15))
    accept("fit", "parts", "--in-pieces", *LEARN)
    expected = pd.read_csv(
        io.StringIO(accept("predict", "model.npz", "table.csv", "--out", "-").stdout)
    )
    for data in ("table.csv", "table.parquet", "parts"):
        result = accept("predict", "model.npz", data, "--in-pieces", "--out", "p.csv")
        assert result.stdout == ""
        assert "response for 80 rows" in result.stderr
        pd.testing.assert_frame_equal(pd.read_csv("p.csv"), expected, rtol=1e-12)
    said = document("predict", "model.npz", "parts", "--in-pieces", "--out", "p.csv")
    assert said == {"target": "response", "n_rows": 80, "file": "p.csv"}
    pieces[:50].assign(age=0.0).to_csv("parts/4.csv", index=False)
    with Path("parts/4.csv").open("a") as file:
        file.write("1,old,7,50,1\n")
    Path("p.csv").write_text("as it was")
    for out in ("new.csv", "p.csv"):
        error = refused("predict", "model.npz", "parts", "--in-pieces", "--out", out)
        assert "4.csv', row 52: column 'age' holds text, 'old'" in error
    assert Path("p.csv").read_text() == "as it was"
