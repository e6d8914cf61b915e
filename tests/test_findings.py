"""Tables and figures of studies are the numbers of their rows."""

import json
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sparse_pep.datasets import snelson_like
from sparse_pep.studies.experiments import STUDIES, study_named
from sparse_pep.studies.findings import (
    FIGURES,
    TABLES,
    drawn,
    grid_values,
    means_by,
    sure_points,
    told,
    wide_table,
)
from sparse_pep.studies.runner import key_of, read_results
from sparse_pep.studies.statistics import made_up_rows, paired

RESULTS = Path(__file__).parents[1] / "nbs" / "studies" / "results"
FIT = {"split": 0, "seed": 0, "converged": True, "seconds": 1.0}


def numbers(line):
    """The numbers in a line of text."""
    return [float(word) for word in re.findall(r"-?\d+\.?\d*", line)]


@pytest.fixture(scope="module")
def real_rows():
    """A made-up table of regression: three powers, four sets, three M."""
    rows = made_up_rows({0.0: 0.3, 0.5: 0.0, 1.0: 0.2}, n_sets=4, n_splits=3, inducing=(10, 20, 50))
    rng = np.random.default_rng(0)
    return [row | {"smll": row["smse"] - rng.random(), "converged": True, "seed": 0} for row in rows]


@pytest.fixture(scope="module")
def synthetic_rows():
    """Two draws, two M, two powers, and the exact GP of each draw."""
    scores = ("log_marginal_likelihood", "smse", "smll", "smse_train", "smll_train")
    rng, rows = np.random.default_rng(0), []
    for draw in ("draw00", "draw01"):
        keys = [("sparse", power, M) for power, M in product((0.0, 1.0), (5, 20))]
        for method, power, M in [*keys, ("exact", None, 500), ("true", None, 500)]:
            row = {"data": draw, "power": power, "M": M, "method": method}
            rows.append(FIT | row | dict(zip(scores, rng.random(5))))
    return rows


def test_means_are_means_of_what_is_there():
    rows = [{"a": 1, "b": "x", "s": 1.0}, {"a": 1, "b": "x", "s": None}, {"a": 2, "b": "x", "s": None}]
    first, second = means_by(rows, ["a", "b"], ["s"])
    assert first == {"a": 1, "b": "x", "runs": 2, "s": 1.0}
    assert second["runs"] == 1 and np.isnan(second["s"])
    assert means_by([{"a": 1, "s": 0.0}, {"a": 1, "s": 1.0}], ["a"], ["s"])[0]["s"] == 0.5  # nothing wrong is a score


def test_a_table_of_two_ways_in_has_every_mean_in_its_place():
    means = [{"set": s, "power": p, "smse": v} for s, p, v in (("one", 0.0, 0.1), ("one", 1.0, 0.2), ("two", 1.0, 0.3))]
    lines = wide_table(means, "set", "power", "smse", ".3f").splitlines()
    assert lines[1].split() == ["set", "0.0", "1.0"]
    assert lines[2].split() == ["one", "0.100", "0.200"]
    assert lines[3].split() == ["two", "0.300"] and lines[3].endswith("0.300")


def test_tables_of_real_data_have_means_claims_and_convergence(real_rows):
    text = told("regression", [dict(real_rows[0], converged=False), *real_rows[1:]])
    lines = text.splitlines()
    here = [row["smse"] for row in real_rows if row["data"] == "set 0" and row["power"] == 0.5]
    line = next(line for line in lines if line.startswith("set 0"))
    assert numbers(line.removeprefix("set 0"))[1] == round(np.mean(here), 3)
    gains = paired(real_rows, "smse", "power", 0.5, 0.0).gains()
    claim = next(line for line in lines if line.startswith("SMSE") and "0.5 beats 0 " in line)
    assert f"{100 * np.mean(gains > 0):.0f}" in claim.replace(".", " ").split()
    assert lines[-1] == f"{len(real_rows)} fits, 1 not converged (set 0 1)"


def test_claims_of_classification_are_about_the_usual_reading(real_rows):
    rows = [
        row | {"data": "iono", "error": row["smse"], "nll": row["smll"]} for row in real_rows if row["data"] == "set 0"
    ]
    turned = [row | {"data": "australian_a1", "error": -row["error"], "nll": -row["nll"]} for row in rows]
    with_both, alone = (
        told("classification", which).split("what the paper says")[1] for which in (rows + turned, rows)
    )
    assert with_both.splitlines()[:-1] == alone.splitlines()[:-1]


def test_pairs_and_ranks_of_powers(real_rows):
    figures = drawn("regression_quick", real_rows)
    assert list(figures) == ["pairs", "ranks", "smse", "smll"]
    axes = [ax for ax in figures["pairs"].axes if ax.get_xlabel().startswith(("SMSE", "SMLL"))]
    assert len(axes) == 6
    wanted = paired(real_rows, "smse", "power", 0.5, 1.0)
    points = np.concatenate([line.get_xydata() for line in axes[1].lines if line.get_linestyle() == "None"])
    assert np.allclose(np.sort(points, axis=0), np.sort(wanted.values[:, ::-1], axis=0))


def test_one_data_set_has_no_ranks(real_rows):
    rows = [row for row in real_rows if row["data"] == "set 0"]
    assert list(drawn("regression", rows)) == ["pairs", "smse", "smll"]
    assert "0.5 beats 0" in told("regression", rows)


def test_scores_against_m(real_rows):
    figure = drawn("regression", real_rows)["smse"]
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [f"set {k}" for k in range(4)]
    mean = np.mean([r["smse"] for r in real_rows if (r["data"], r["power"], r["M"]) == ("set 2", 0.5, 20)])
    heights = np.concatenate([line.get_ydata() for line in figure.axes[2].lines])
    assert np.min(abs(heights - mean)) < 1e-12


def test_tables_of_synthetic_draws(synthetic_rows):
    text = told("synthetic", synthetic_rows)
    lines = text.split("smse by method and M")[1].splitlines()
    at = [row["smse"] for row in synthetic_rows if row["method"] == "sparse" and row["power"] == 1.0 and row["M"] == 20]
    assert lines[3].split()[0] == "1" and lines[3].split()[2] == f"{np.mean(at):.4f}"
    exact = next(line for line in text.split("the exact GP\n")[1].splitlines() if line.startswith("exact"))
    trained = np.mean([row["smll_train"] for row in synthetic_rows if row["method"] == "exact"])
    assert exact.split()[-1] == f"{trained:.4f}"
    assert text.endswith("12 fits, 0 not converged")


def test_figures_of_synthetic_draws(synthetic_rows):
    figure = drawn("synthetic", synthetic_rows)["scores"]
    for ax, score in zip(figure.axes, ("log_marginal_likelihood", "smse", "smll")):
        level = np.mean([row[score] for row in synthetic_rows if row["method"] == "exact"])
        assert ax.lines[-1].get_ydata()[0] == pytest.approx(level)
        sparse = [row[score] for row in synthetic_rows if row["power"] == 0.0 and row["M"] == 5]
        assert any(np.any(abs(line.get_ydata() - np.mean(sparse)) < 1e-12) for line in ax.lines[:-1])


def test_pictures_of_single_fits(monkeypatch):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    job = FIT | {"data": "banana", "power": 0.5, "M": 2, "log_marginal_likelihood": -1.0, "error": 0.1, "nll": 0.2}
    rows = [
        job | {"kind": "point", "line": k, "x1": k, "x2": 2 * k, "x1_start": 5, "x2_start": 5, "proba": 0.9}
        for k in range(2)
    ]
    rows += [job | {"kind": "boundary", "line": 0, "x1": x, "x2": -x, "proba": 0.5} for x in (0.0, 1.0, 2.0)]
    assert [row["sure"] for row in sure_points(rows)] == pytest.approx([0.4, 0.4])
    assert told("banana", rows).splitlines()[1].split() == ["2", "0.5", "-1.0", "0.1000", "0.2000", "0.40"]
    (ax,) = drawn("banana", rows)["points"].axes
    assert np.array_equal(ax.lines[0].get_xydata(), [[0, 0], [1, -1], [2, -2]])
    assert np.array_equal(ax.lines[-1].get_xydata(), [[0, 0], [1, 2]])
    assert not ax.collections  # the data are not at hand
    shifted = [row | {"power": 1.0, "x1": row["x1"] + 10.0} for row in rows]
    first, second = drawn("banana", rows + shifted)["points"].axes
    assert np.array_equal(first.lines[-1].get_xydata(), [[0, 0], [1, 2]])
    assert np.array_equal(second.lines[-1].get_xydata(), [[10, 0], [11, 2]])
    assert "power 0.5" in first.get_title() and "power 1" in second.get_title()


@pytest.mark.parametrize("name, n_dots", [("snelson_like", 200), ("snelson", 0)])
def test_curves_and_data_where_they_are_at_hand(name, n_dots, monkeypatch):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    job = FIT | {"data": name, "power": 0.0, "M": 1, "log_marginal_likelihood": -2.0, "noise_std": 0.3}
    rows = [job | {"kind": "curve", "x": x, "mean": x + 1, "std": 0.5} for x in (0.0, 1.0)]
    rows.append(job | {"kind": "point", "x": 0.4, "x_start": 0.2})
    (ax,) = drawn("snelson", rows)["fits"].axes
    dots = [line.get_ydata() for line in ax.lines if line.get_marker() == "."]
    assert sum(map(len, dots)) == n_dots
    if n_dots:
        assert np.array_equal(dots[0], snelson_like()[1])
    assert any(np.array_equal(line.get_xydata(), [[0, 1], [1, 2]]) for line in ax.lines)
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0.0 and band[:, 1].max() == 3.0


def test_passes_over_the_digits():
    rows = [
        FIT
        | {"data": "digits", "power": power, "M": M, "epoch": epoch, "log_marginal_likelihood": -9.0}
        | {"error": 0.5 / (1 + epoch) + power / 100, "nll": 1.0 / (1 + epoch), "converged": epoch == 2 or None}
        for power, M, epoch in product((0.0, 1.0), (10, 20), range(3))
    ]
    lines = told("mnist", rows).splitlines()
    assert len(lines) == 1 + 4 + 2 and lines[-1] == "4 fits, 0 not converged"
    assert lines[1].split()[:4] == ["digits", "10", "0", "2"]
    errors, losses = drawn("mnist", rows)["passes"].axes
    assert len(errors.lines) == len(losses.lines) == 4
    assert np.allclose(errors.lines[0].get_ydata(), [0.5, 0.25, 0.5 / 3])


def test_a_grid_of_hyper_parameters():
    rows = [
        FIT
        | {"data": "iono", "power": 1.0, "M": 200, "log_std": s, "log_lengthscale": length}
        | {
            "log_marginal_likelihood": -50 - 5 * (s - 1) ** 2 - 8 * (length - 2) ** 2,
            "error": 0.1,
            "nll": 0.2 + 0.01 * (s**2 + length**2),
        }
        for s, length in product((0.0, 1.0, 2.0), (0.0, 1.0, 2.0, 3.0))
    ]
    mixed = [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]
    lengths, stds, values = grid_values(mixed, "log_marginal_likelihood")
    assert lengths.tolist() == [0, 1, 2, 3] and stds.tolist() == [0, 1, 2]
    assert np.array_equal(values.ravel(), [row["log_marginal_likelihood"] for row in rows])
    first, second = (ax.lines[-1].get_xydata()[0] for ax in drawn("ionosphere", mixed)["grid"].axes)
    assert first.tolist() == [2.0, 1.0] and second.tolist() == [0.0, 0.0]
    table = told("ionosphere", mixed).splitlines()
    assert table[1].split()[2:5] == ["2.00", "1.00", "-50.00"]
    assert table[-1] == "12 of 12 points of the grid converged"


def test_every_study_has_tables_and_figures():
    assert set(TABLES) == set(FIGURES) == set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_committed_results_are_whole(name, tmp_path, monkeypatch):
    for folder in ("regression", "classification", "toy"):
        (tmp_path / folder).mkdir()  # jobs are made without looking at data
    study = study_named(name, "standard", str(tmp_path))
    rows, notes = read_results(RESULTS / f"{name}.csv"), json.loads((RESULTS / f"{name}.json").read_text())
    assert list(rows[0]) == list(study.columns) == notes["columns"]
    assert notes["settings"] == json.loads(json.dumps(dict(study.settings)))
    done = {key_of({key: row[key] for key in study.jobs[0]}) for row in rows}
    assert done == {key_of(job) for job in study.jobs}
