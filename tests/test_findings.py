"""Tables and figures of studies are the numbers of their rows."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reference.made_up import made_up_rows

from sparse_pep.datasets import snelson_like
from sparse_pep.studies import runner
from sparse_pep.studies.experiments import STUDIES, study_named
from sparse_pep.studies.findings import (
    FIGURES,
    TABLES,
    beyond_gains,
    convergence,
    mean_table,
    means_of,
    study_figures,
    study_report,
    study_tables,
    sure_points,
)
from sparse_pep.studies.runner import read_results
from sparse_pep.studies.statistics import score_cells

RESULTS = Path(__file__).parents[1] / "nbs" / "studies" / "results"
FIT = {"split": 0, "seed": 0, "converged": True, "seconds": 1.0}


@pytest.fixture(scope="module")
def real_rows():
    """A simulated table of regression: three powers, four sets, three M."""
    rows = made_up_rows({0.0: 0.3, 0.5: 0.0, 1.0: 0.2}, n_sets=4, n_splits=3, inducing=(10, 20, 50))
    return rows.assign(smll=rows["smse"] - np.random.default_rng(0).random(len(rows)), converged=True, seed=0)


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
    return pd.DataFrame(rows)


def test_means_are_means_of_what_is_there():
    rows = pd.DataFrame({"a": [1, 1, 2], "b": "x", "s": [0.0, None, None]})
    found = means_of(rows, ["a", "b"], {"runs": "d", "s": ".2f"})
    assert found.index.tolist() == [(1, "x"), (2, "x")]
    assert found.values.tolist() == [["2", "0.00"], ["1", ""]]  # nothing wrong is a score


def test_a_table_of_means_has_every_mean_in_its_place():
    rows = pd.DataFrame({"set": ["two", "one", "one", "one"], "power": [1.0, 1.0, 0.0, 0.0], "smse": [0.3, 0.2, 0.1, 0.2]})
    table = mean_table(rows, "set", "power", "smse", ".3f")
    assert table.loc["one", 0.0] == "0.150" and table.loc["one", 1.0] == "0.200" and table.loc["two", 1.0] == "0.300"
    assert table.loc["two", 0.0] == "" and table.index.tolist() == ["two", "one"]  # in the order of the rows


def test_tables_of_real_data_have_means_claims_and_convergence(real_rows):
    tables = study_tables("regression", real_rows)
    here = real_rows.query("data == 'set 0' and power == 0.5")["smse"]
    assert tables["smse by data and power"].loc["set 0", 0.5] == f"{here.mean():.3g}"
    gains = score_cells(real_rows, "smse", methods=(0.5, 0.0)).gains()
    claims = tables["what the paper says, and what was found"]
    assert claims.loc[("SMSE", "0.5 beats 0"), "found"] == f"{100 * np.mean(gains > 0):.0f} %"
    rows = real_rows.assign(converged=real_rows.index > 0)
    report = study_report("regression", rows)
    assert report.splitlines()[-1] == convergence(rows) == f"{len(real_rows)} fits, 1 not converged (set 0 1)"
    assert all(title in report and table.to_string() in report for title, table in tables.items())


def test_claims_of_classification_are_about_the_usual_reading(real_rows):
    rows = real_rows.query("data == 'set 0'")
    rows = rows.assign(data="iono", error=rows["smse"], nll=rows["smll"])
    turned = rows.assign(data="australian_a1", error=-rows["error"], nll=-rows["nll"])
    with_both, alone = (
        study_tables("classification", some)["what the paper says, and what was found"]
        for some in (pd.concat([rows, turned]), rows)
    )
    pd.testing.assert_frame_equal(with_both, alone)


def test_pairs_and_ranks_of_powers(real_rows):
    figures = study_figures("regression_quick", real_rows)
    assert list(figures) == ["pairs", "ranks", "smse", "smll"]
    axes = [ax for ax in figures["pairs"].axes if ax.get_xlabel().startswith(("SMSE", "SMLL"))]
    assert len(axes) == 6
    wanted = score_cells(real_rows, "smse", methods=(0.5, 1.0))
    points = np.concatenate([line.get_xydata() for line in axes[1].lines if line.get_linestyle() == "None"])
    assert np.allclose(np.sort(points, axis=0), np.sort(wanted.values[:, ::-1], axis=0))


def test_one_data_set_has_no_ranks(real_rows):
    rows = real_rows[real_rows["data"] == "set 0"]
    assert list(study_figures("regression", rows)) == ["pairs", "smse", "smll"]
    assert "0.5 beats 0" in study_report("regression", rows)


def test_scores_against_m(real_rows):
    figure = study_figures("regression", real_rows)["smse"]
    assert [ax.get_title() for ax in figure.axes] == [f"set {k}" for k in range(4)]
    mean = real_rows.query("data == 'set 2' and power == 0.5 and M == 20")["smse"].mean()
    heights = np.concatenate([line.get_ydata() for line in figure.axes[2].lines])
    assert np.min(abs(heights - mean)) < 1e-12


def test_tables_of_synthetic_draws(synthetic_rows):
    tables = study_tables("synthetic", synthetic_rows)
    mean = synthetic_rows.query("method == 'sparse' and power == 1.0 and M == 20")["smse"].mean()
    assert tables["smse by method and M"].loc["1", 20] == f"{mean:.4f}"
    trained = synthetic_rows.query("method == 'exact'")["smll_train"].mean()
    assert tables["the exact GP"].loc["exact"][["runs", "smll_train"]].tolist() == ["2", f"{trained:.4f}"]
    assert convergence(synthetic_rows) == "12 fits, 0 not converged"


def test_figures_of_synthetic_draws(synthetic_rows):
    figure = study_figures("synthetic", synthetic_rows)["scores"]
    for ax, score in zip(figure.axes, ("log_marginal_likelihood", "smse", "smll")):
        level = synthetic_rows.query("method == 'exact'")[score].mean()
        assert ax.lines[-1].get_ydata()[0] == pytest.approx(level)
        sparse = synthetic_rows.query("power == 0.0 and M == 5")[score].mean()
        assert any(np.any(abs(line.get_ydata() - sparse) < 1e-12) for line in ax.lines[:-1])


def test_pictures_of_single_fits(monkeypatch):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    job = FIT | {"data": "banana", "power": 0.5, "M": 2, "log_marginal_likelihood": -1.0, "error": 0.1, "nll": 0.2}
    begin = {"x1_start": 5.0, "x2_start": 5.0}
    rows = [job | begin | {"kind": "point", "line": k, "x1": k, "x2": 2 * k, "proba": 0.9 - 0.8 * k} for k in range(2)]
    rows += [job | {"kind": "boundary", "line": 0, "x1": x, "x2": -x, "proba": 0.5} for x in (0.0, 1.0, 2.0)]
    rows = pd.DataFrame(rows)
    assert sure_points(rows)["sure"].tolist() == pytest.approx([0.4, 0.4])
    assert study_tables("banana", rows)["each fit"].loc[(2, 0.5)].tolist() == ["-1.0", "0.1000", "0.2000", "0.40"]
    (ax,) = study_figures("banana", rows)["points"].axes
    assert np.array_equal(ax.lines[0].get_xydata(), [[0, 0], [1, -1], [2, -2]])
    assert np.array_equal(ax.lines[1].get_xydata(), [[5, 5], [0, 0]])
    assert np.array_equal(ax.lines[-1].get_xydata(), [[0, 0], [1, 2]])
    assert not ax.collections  # the data are not at hand
    shifted = rows.assign(power=1.0, x1=rows["x1"] + 10.0)
    first, second = study_figures("banana", pd.concat([rows, shifted]))["points"].axes
    assert np.array_equal(first.lines[-1].get_xydata(), [[0, 0], [1, 2]])
    assert np.array_equal(second.lines[-1].get_xydata(), [[10, 0], [11, 2]])
    assert "power 0.5" in first.get_title() and "power 1" in second.get_title()


@pytest.mark.parametrize("name, n_dots", [("snelson_like", 200), ("snelson", 0)])
def test_curves_and_data_where_they_are_at_hand(name, n_dots, monkeypatch):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    job = FIT | {"data": name, "power": 0.0, "M": 1, "log_marginal_likelihood": -2.0, "noise_std": 0.3}
    rows = [job | {"kind": "curve", "x": x, "mean": x + 1, "std": 0.5} for x in (0.0, 1.0)]
    rows.append(job | {"kind": "point", "x": 0.4, "x_start": 0.2})
    (ax,) = study_figures("snelson", pd.DataFrame(rows))["fits"].axes
    dots = [line.get_ydata() for line in ax.lines if line.get_marker() == "."]
    assert sum(map(len, dots)) == n_dots
    if n_dots:
        assert np.array_equal(dots[0], snelson_like()[1])
    assert any(np.array_equal(line.get_xydata(), [[0, 1], [1, 2]]) for line in ax.lines)
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == 0.0 and band[:, 1].max() == 3.0


def test_passes_over_the_digits():
    rows = pd.DataFrame(
        FIT
        | {"data": "digits", "power": power, "M": M, "epoch": epoch, "log_marginal_likelihood": -9.0}
        | {"error": 0.5 / (1 + epoch) + power / 100, "nll": 1.0 / (1 + epoch), "converged": epoch == 2 or None}
        for power, M, epoch in product((0.0, 1.0), (10, 20), range(3))
    )
    table = study_tables("mnist", rows)["after the last pass"]
    assert table.index.tolist() == [("digits", M, power) for power, M in product((0.0, 1.0), (10, 20))]
    assert table["epoch"].tolist() == ["2"] * 4 and table["error"].tolist() == 2 * ["0.1667"] + 2 * ["0.1767"]
    assert convergence(rows) == "4 fits, 0 not converged"
    errors, losses = study_figures("mnist", rows)["passes"].axes
    assert len(errors.lines) == len(losses.lines) == 4
    assert np.allclose(errors.lines[0].get_ydata(), [0.5, 0.25, 0.5 / 3])
    assert [line.get_linestyle() for line in errors.lines] == ["--", "--", "-", "-"]


def test_a_grid_of_hyper_parameters():
    grid = pd.DataFrame(product((0.0, 1.0, 2.0), (0.0, 1.0, 2.0, 3.0)), columns=["log_std", "log_lengthscale"])
    s, length = grid["log_std"], grid["log_lengthscale"]
    scores = {"log_marginal_likelihood": -50 - 5 * (s - 1) ** 2 - 8 * (length - 2) ** 2, "nll": 0.2 + 0.01 * (s**2 + length**2)}
    rows = grid.assign(**FIT, data="iono", power=1.0, M=200, error=0.1, **scores).sample(frac=1.0, random_state=0)
    axes = study_figures("ionosphere", rows)["grid"].axes
    assert [ax.lines[-1].get_xydata()[0].tolist() for ax in axes] == [[2.0, 1.0], [0.0, 0.0]]
    for ax, name in zip(axes, scores):  # every contour is where the score has its level
        contours = ax.collections[0]
        assert sum(map(len, contours.allsegs)) > 3
        for level, lines in zip(contours.levels, contours.allsegs):
            for x, y in np.concatenate(lines) if lines else []:
                corners = grid[(abs(grid["log_lengthscale"] - x) < 1.0) & (abs(grid["log_std"] - y) < 1.0)].index
                assert scores[name][corners].min() - 1e-9 <= level <= scores[name][corners].max() + 1e-9
    best = study_tables("ionosphere", rows)["the best points of the grid"]
    assert best.loc["greatest evidence"].tolist()[:3] == ["2.00", "1.00", "-50.00"]
    assert best.loc["least test loss"].tolist()[:2] == ["0.00", "0.00"]
    assert convergence(rows) == "12 fits, 0 not converged"


def test_every_study_has_tables_and_figures():
    assert set(TABLES) == set(FIGURES) == set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_committed_tables_come_out_again_byte_for_byte(name, tmp_path, monkeypatch):
    """From the same rows, written job by job in another order; the jobs are those of the standard size."""
    for folder in ("regression", "classification", "toy"):
        (tmp_path / folder).mkdir()  # jobs are made without looking at data
    monkeypatch.setattr("os.fsync", lambda file: None)  # a thousand of them take seconds
    study, committed = study_named(name, "standard", str(tmp_path)), RESULTS / f"{name}.csv"
    notes = json.loads(committed.with_suffix(".json").read_text())
    assert (notes["settings"], notes["columns"]) == (json.loads(json.dumps(dict(study.settings))), list(study.columns))
    names, *lines = runner._read_cells(committed)
    place = [names.index(key) for key in study.jobs[0]]
    found = {}
    for line in lines:
        values = {key: runner._value(cell) for key, cell in zip(names, line) if key not in study.jobs[0]}
        found.setdefault(tuple(line[k] for k in place), []).append(values)
    assert set(found) == set(map(runner._key, study.jobs))
    results = runner._Results(study, tmp_path / "new")
    for job in study.jobs[::-1]:
        results.add(job, found[runner._key(job)])
    rows = results.gather()
    assert results.table.read_bytes() == committed.read_bytes()
    pd.testing.assert_frame_equal(rows, read_results(committed))


def test_gains_beyond_the_paper_are_those_that_were_put_in():
    """Two sets, two splits: tight gains 0.1 nats and a fifth of the error, blocks lose 0.2 nats, at power 0 only."""
    keys = product(("boston", "yacht"), (0, 1), (0.0, 0.5), (1, 20), ((False, "global"), (True, "global"), (False, "local")))
    rows = []
    for data, split, power, blocks, (tight, prediction) in keys:
        row = {"data": data, "split": split, "power": power, "blocks": blocks, "tight": tight, "prediction": prediction}
        nll = split - (0.1 * tight - 0.2 * (blocks == 20)) * (power == 0.0)
        rows.append(FIT | row | {"split": split, "M": 50, "nll": nll, "error": 1.0 - 0.2 * tight})
    rows = pd.DataFrame(rows)
    nats = beyond_gains(rows, "regression", "nll")
    expected = {"tight": 0.1, "local": 0.0, "global, blocks": -0.2, "tight, blocks": -0.1, "local, blocks": -0.2}
    for column in ("gain", "low", "high"):
        np.testing.assert_allclose(nats.xs(0.0, level="power")[column], pd.Series(expected), atol=1e-12)
    np.testing.assert_allclose(nats.xs(0.5, level="power")["gain"], 0.0, atol=1e-12)
    assert nats.loc[("tight", 0.0), ["better", "sets"]].tolist() == [2, 2] and nats.loc[("local", 0.0), "better"] == 0
    error = beyond_gains(rows, "regression", "error").xs("tight")["gain"]
    np.testing.assert_allclose(error, 20.0)
    both = pd.concat([rows, rows[rows["data"] == "boston"].assign(data="pima")])
    assert beyond_gains(both, "classification", "nll")["sets"].eq(1).all()
    assert convergence(both) == "48 fits, 0 not converged"
    (figure,) = study_figures("beyond", both).values()
    assert len(figure.axes) == 3 and len(study_tables("beyond", both)) == 3
