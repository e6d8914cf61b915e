"""The tables of the benchmark suite: rows are replaced, systems that differ are refused, ours
offers what the others do.
"""

import ast
import csv
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from benchmarks import fits, measure, peers
from benchmarks.systems import ours

ROOT = Path(__file__).parents[1]

ROW = peers.Row("energy", "ours", 100, 5, 0.5, 1.0)._asdict()


def table(path: Path) -> list[dict]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_replace_those_with_the_same_keys(tmp_path):
    path = tmp_path / "peers.csv"
    peers.write(path, [ROW | {"seconds": 1.0}])
    peers.write(path, [ROW | {"seconds": 3.0, "power": 1.0}])
    peers.write(path, [ROW | {"seconds": 2.0}])
    assert {row["power"]: row["seconds"] for row in table(path)} == {"1": "3", "0.5": "2"}
    assert len(table(path)) == 2


@pytest.mark.parametrize(
    "name, value", [("objective", 100.1), ("mean_square", 1.01), ("mean_variance", 0.9)]
)
def test_a_system_that_differs_is_refused(name, value):
    first = ROW | {"objective": 100.0, "mean_square": 1.0, "mean_variance": 1.0}
    peers.require_same(first | {"system": "gpy"}, [first])
    # nothing to compare with
    peers.require_same(first | {"system": "gpy", name: value, "N": 200}, [first])
    with pytest.raises(SystemExit, match=f"gpy is not comparable: {name}"):
        peers.require_same(first | {"system": "gpy", name: value}, [first])


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_ours_climbs_down_its_gradient(task):
    X, y, start = getattr(measure, f"{task}_data")(60, 4)
    objective = getattr(ours, task)(X, y, start, 0.0)
    value, slope = objective(objective.start)
    found = approx_fprime(objective.start, lambda vector: objective(vector)[0], 1e-5)
    np.testing.assert_allclose(slope, found, atol=2e-2 * np.max(np.abs(found)))
    iterations, trace = objective.train(5)
    assert iterations == 5
    assert len(trace) >= 5
    assert trace[0][1] == pytest.approx(value, rel=1e-6)
    assert trace[-1][1] < value
    mean, var = objective.predictor()(X[:7])
    assert mean.shape == var.shape == (7,)


def test_a_row_of_each_task(capsys, monkeypatch):
    monkeypatch.setattr(measure, "SETTLE", 0.0)
    monkeypatch.setattr(measure, "TEST_ROWS", 50)
    monkeypatch.setattr(measure, "TRAIN_ROWS", 100)
    for task in measure.TASKS:
        row = measure.TASKS[task](ours, 80, 5, 0.5, 2)
        assert row["seconds"] > 0.0
        assert json.dumps(row)
    assert row["mean_variance"] > 0.0


@pytest.mark.parametrize("labels, variant", [(False, ""), (False, "local"), (True, "")])
def test_a_whole_fit_is_scored_along_its_way(tmp_path, labels, variant):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (90, 2)) * [1.0, 50.0]
    f = np.sin(2.0 * X[:, 0])
    y = np.where(f > 0.0, 1.0, -1.0) if labels else 100.0 + 20.0 * f + rng.normal(size=90)
    file = tmp_path / "data.npz"
    np.savez(file, X=X[:60], y=y[:60], X_test=X[60:], y_test=y[60:], labels=labels)
    row = fits.fit_row(ours, file, 15, 0.5, 0.5, variant)
    first = row["trace"][0]
    last = row["trace"][-1]
    assert last["objective"] == row["objective_end"] < first["objective"]
    assert last["log_density"] > first["log_density"]
    # in units of y, where the standard deviation is 14
    assert last["error"] < (0.2 if labels else 10.0)
    assert row["seconds"] < 5.0


TOOLS = sorted(path for folder in ("benchmarks", "studies") for path in ROOT.glob(f"{folder}/*.py"))


def imported_names(tree):
    """(module, name) for what `from sparse_pep... import` names, and for attributes of modules of
    the package.
    """
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sparse_pep"):
            for alias in node.names:
                yield node.module, alias.name
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if is_module(module):
                yield module, node.attr


def is_module(name):
    """Whether a name is that of a module."""
    return (ROOT / f"{name.replace('.', '/')}.py").exists() or (
        name != "" and (ROOT / name.replace(".", "/") / "__init__.py").exists()
    )


@pytest.mark.parametrize("path", TOOLS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_tools_use_names_that_the_package_has(path):
    """Most of a tool runs for hours, so a name that has left would be found late."""
    for module, name in imported_names(ast.parse(path.read_text("utf-8"))):
        thing = importlib.import_module(module)
        assert hasattr(thing, name) or is_module(f"{module}.{name}"), f"{module}.{name}"
