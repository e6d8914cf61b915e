"""What `compare` and `demo` print and write, and what the help says."""

import csv
import os
import re
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from command_line import accept, document
from numpy.testing import assert_allclose

from sparse_pep import load
from sparse_pep.cli import main
from sparse_pep.cli.options import ModelOptions
from sparse_pep.cli.trial import estimator_for


def table_of(text, title):
    """Rows of a printed table under its title."""
    lines = text.split(title + "\n")[1].split("\n\n")[0].splitlines()
    return [re.split(r"  +", line.strip()) for line in lines]


@pytest.mark.parametrize("word", ["", "-h"])
def test_help_names_every_command(word):
    assert all(command in accept(word).stdout for command in main.commands)


def test_the_version_is_told():
    assert re.search(r"\d+\.\d+\.\d+", accept("--version").stdout)


@pytest.mark.parametrize("name", main.commands)
def test_every_option_has_a_help(name):
    options = [one for one in main.commands[name].params if isinstance(one, click.Option)]
    assert options
    assert all(option.help for option in options)


@pytest.mark.parametrize("name", main.commands)
def test_every_command_teaches_by_an_example_that_parses(name):
    examples = re.findall(rf"Example: sparse-pep {name} ?(.*)", accept(name, "--help").stdout)
    assert examples
    for line in examples:
        main.commands[name].make_context(name, line.split(), resilient_parsing=False)


@pytest.fixture(scope="module")
def demo_once(tmp_path_factory):
    """The folder in which the demo was called, and what it printed."""
    place = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        return place, accept("demo --inducing 20 --max-iter 12 --out a/b").stdout


@pytest.fixture
def demo(demo_once, monkeypatch):
    """What the demo prints, in the folder of its files."""
    place, text = demo_once
    monkeypatch.chdir(place)
    return text


def test_the_demo_compares_three_powers(demo):
    header, *rows = (re.split(r"  +", line.strip()) for line in demo.splitlines()[2:6])
    scores = "RMSE,coverage,SMSE,SMLL,beats constant,converged"
    assert header == f"power,name,log ML/N,{scores},seconds".split(",")
    assert [row[:2] for row in rows] == [["0.0", "VFE"], ["0.5", "Power EP"], ["1.0", "FITC"]]


def test_the_demo_writes_a_model_a_picture_and_held_out_rows(demo):
    assert sorted(os.listdir("a/b")) == ["held_out.csv", "model.npz", "posterior.png"]
    assert Path("a/b/posterior.png").read_bytes().startswith(b"\x89PNG")
    assert load("a/b/model.npz").power == 0.5


def test_the_next_step_of_the_demo_has_its_score(demo):
    accept(re.search(r"next: sparse-pep (.*)", demo)[1])
    mean = pd.read_csv("predictions.csv")["mean"]
    held_out = pd.read_csv("a/b/held_out.csv")["progression"]
    assert f"{np.mean((mean - held_out) ** 2) / np.var(held_out):.4f}" in demo.splitlines()[4]


FILES = {  # data and options, name of EP, scores, which of them must be small
    "numbers": ("trial.csv --target response", "FITC", ["RMSE", "coverage", "SMSE", "SMLL"], 2),
    "labels": (
        "labels.csv --target kind --likelihood probit",
        "EP",
        ["error", "AUC", "log loss"],
        0,
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_compare_on_a_file(trial, labels, kind):
    words, last, names, place = FILES[kind]
    limits = "--powers '0, 1' --inducing 8 --max-iter 20"
    text = accept("compare", words, limits, "--splits 2 --out scores.csv").stdout
    single = table_of(text, "each split")
    means = table_of(text, "averages")
    for table, counted in ((single, "split"), (means, "splits")):
        columns = ["data", "power", "name", counted, "log ML/N", *names]
        assert table[0] == [*columns, "beats constant", "converged", "seconds"]
    data = words.partition(".")[0]
    methods = [("0", "VFE"), ("1", last)]
    expected = [[data, *method, split] for method in methods for split in "01"]
    assert [row[:4] for row in single[1:]] == expected
    scores = pd.read_csv("scores.csv")
    assert scores["split"].tolist() == [0, 1, 0, 1]
    assert (scores[names[place]] < 0.35).all()
    assert (scores["beats constant"] == "yes").all()
    assert [row[-3] for row in means[1:]] == ["2/2", "2/2"]
    averages = scores.groupby("power")[names].mean()
    assert_allclose(
        np.array(single[1:])[:, 5 : 5 + len(names)].astype(float), scores[names], atol=1e-4
    )
    assert_allclose(np.array(means[1:])[:, 5 : 5 + len(names)].astype(float), averages, atol=1e-4)


def test_both_kinds_of_sets_give_two_tables_each(monkeypatch):
    seen = []

    def small(options):
        seen.append(options.likelihood)
        return estimator_for(options).set_params(n_inducing=4, training=None)

    monkeypatch.setattr("sparse_pep.cli.trial.estimator_for", small)
    sets = "--data breast_cancer --data diabetes"
    text = accept("compare", sets, "--powers 1 --splits 1 --out scores.csv --quiet").stdout
    assert seen == ["auto", "gaussian"]
    parts = [part.splitlines() for part in text.split("\n\n")]
    assert [part[0] for part in parts[:4]] == ["each split", "averages"] * 2
    assert parts[4][0].startswith("2 fits in ")
    assert [row.split("  ")[0] for row in parts[0][2:]] == ["breast_cancer"]
    first, second = csv.DictReader(Path("scores.csv").read_text().splitlines())
    assert first["SMSE"] == second["log loss"] == ""
    assert float(first["log loss"]) > 0.0
    assert float(second["SMSE"]) > 0.0


@pytest.fixture
def runs(monkeypatch):
    """The runs of a comparison, which are not done: data, split and options."""
    calls = []

    def record(data, split, options):
        calls.append((data.name, split, options))
        row = {
            "data": data.name,
            "power": options.power,
            "name": "",
            "split": split,
            "log ML/N": np.float64(split),
            "SMSE": np.inf,
            "SMLL": np.nan,
            "beats constant": "yes",
            "converged": "yes" if split > 0 else "no",
            "seconds": 0.5,
        }
        return row, None

    monkeypatch.setattr("sparse_pep.cli.compare.run_split", record)
    return calls


COMPARE = "compare --powers '0, 1, 1.0' --splits 3"


def test_every_option_of_compare_arrives(runs):
    options = "--inducing auto --kernel matern32 --max-iter 9 --tol 0.5 --max-time 60 --seed 4"
    accept(COMPARE, options)
    expected = ModelOptions(
        likelihood="gaussian",
        kernel="matern32",
        n_inducing="auto",
        max_iter=9,
        tol=0.5,
        max_time=60.0,
        random_state=4,
    )
    grid = [(split, replace(expected, power=power)) for power in (0, 1) for split in (0, 1, 2)]
    assert runs == [("diabetes", *run) for run in grid]  # the data when nothing is named


def test_a_comparison_as_json_has_a_row_for_each_run(runs):
    rows = document(COMPARE)["rows"]
    grid = [(power, split) for power in (0, 1) for split in (0, 1, 2)]
    assert [(row["power"], row["split"]) for row in rows] == grid
    assert [row["converged"] for row in rows] == [False, True, True] * 2
    assert rows[1]["SMSE"] is None
    assert rows[1]["log ML/N"] == 1.0


def test_a_comparison_as_json_has_averages(runs):
    averages = document(COMPARE)["averages"]
    counts = [(row["power"], row["splits"], row["converged"]) for row in averages]
    assert counts == [(0, 3, 2), (1, 3, 2)]
    assert [row["log ML/N"] for row in averages] == [1.0, 1.0]
    assert averages[0]["SMLL"] is None


def test_a_comparison_as_json_names_the_file_of_its_rows(runs):
    assert document(COMPARE, "--out s.csv")["file"] == "s.csv"
    assert Path("s.csv").read_text().count("\n") == 7
