"""What `fit` and `predict` print and write."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import accept, document, refused_line
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.metrics import log_loss, roc_auc_score

from sparse_pep import SparsePEPRegressor, load
from sparse_pep.cli.trial import predictions
from sparse_pep.datasets import random_splits, snelson_like

from .conftest import TRAIN

PRINT = "--out -"


def numbers(text):
    """Columns of a printed CSV of numbers."""
    names, *rows = csv.reader(io.StringIO(text))
    return dict(zip(names, np.array(rows, dtype=float).T, strict=True))


@pytest.fixture
def new(model):
    """new.csv: inputs beside those of trial.csv, on which model.npz is trained."""
    dose = np.linspace(0.5, 4.5, 9)
    table = pd.DataFrame({"dose": dose, "age": 0 * dose, "site": 0 * dose + 7})
    table.to_csv("new.csv", index=False)
    return table


def test_predictions_recover_the_function_in_the_units_of_the_target(new):
    result = accept("predict model.npz new.csv")
    assert result.stdout == ""
    assert "response for 9 rows" in result.stderr
    columns = numbers(Path("predictions.csv").read_text())
    assert list(columns) == ["mean", "std"]
    assert_allclose(columns["mean"], 50.0 + 10.0 * np.sin(new["dose"]), atol=1.0)
    assert np.all(columns["std"] > 0.4)
    assert np.all(columns["std"] < 0.9)


def test_predictions_are_written_to_the_last_digit(new):
    columns = numbers(accept("predict model.npz new.csv", PRINT).stdout)
    expected = predictions(load("model.npz"), new.to_numpy())
    assert_array_equal([columns["mean"], columns["std"]], expected)


def test_intervals_of_gaussian_noise_are_so_many_deviations(new):
    ends = numbers(accept("predict model.npz new.csv --interval 0.8", PRINT).stdout)
    mean, std = predictions(load("model.npz"), new.to_numpy())
    assert_allclose(ends["lower"], mean - 1.2815515655446004 * std, rtol=1e-12)
    assert_allclose(ends["upper"], mean + 1.2815515655446004 * std, rtol=1e-12)


def test_a_pipe_is_read_like_a_file(model):
    text = Path("trial.csv").read_text()
    accept("fit -", TRAIN, "--out piped.npz", stdin=text)
    piped = accept("predict piped.npz -", PRINT, stdin=text).stdout
    assert piped == accept("predict model.npz trial.csv", PRINT).stdout


def test_columns_are_found_by_their_names(new):
    new.assign(note="x")[["note", "site", "dose", "age"]].to_csv("turned.csv", index=False)
    turned = accept("predict model.npz turned.csv", PRINT).stdout
    assert turned == accept("predict model.npz new.csv", PRINT).stdout


AUTO = "fit trial.csv --target response --inducing auto --quiet"


def test_a_fit_says_that_it_converged_and_nothing_of_columns_of_numbers(trial):
    told = accept(AUTO, "--tol 0.1").stdout
    assert " inducing points, 80 rows" in told
    assert "iterations: converged" in told
    assert "taken for" not in told
    assert load("model.npz").columns_ is None


def test_a_fit_that_ran_out_of_time_says_so(trial):
    result = accept(AUTO, "--max-time 1e-9")
    assert "NOT converged; raise --max-time or --tol" in result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Warning: ")


def test_a_fit_that_does_not_standardise_keeps_the_units(trial):
    accept(AUTO, "--max-time 1e-9 --no-standardize")
    fitted = load("model.npz")
    assert fitted.y_scale_ == 1.0
    assert not np.any(fitted.x_mean_)
    mean = numbers(accept("predict model.npz trial.csv", PRINT).stdout)["mean"]
    assert_allclose(mean, fitted.predict(trial[:, :3]), rtol=1e-12)


def test_the_seed_decides(trial):
    line = "fit trial.csv --target response --inducing 5 --max-iter 5 --quiet --seed"
    Z = [accept(line, seed) and load("model.npz").features_.Z for seed in (1, 1, 2)]
    assert np.array_equal(Z[0], Z[1])
    assert not np.array_equal(Z[0], Z[2])


def test_a_model_that_does_not_name_its_columns_is_refused(trial):
    SparsePEPRegressor(n_inducing=5, training=None).fit(*snelson_like(20)).save("plain.npz")
    assert "does not name its columns" in refused_line("predict plain.npz trial.csv")


LABELLED = (
    "fit labels.csv --target kind --power 1 --inducing 6 --max-iter 15 --likelihood logit "
    "--test-fraction 0.25 --seed 2 --kernel matern52 --quiet"
)


def test_a_fit_of_labels_says_its_method_and_its_classes(labels):
    told = accept(LABELLED).stdout
    assert "power 1 (EP), 6 inducing points, 45 rows" in told
    assert "likelihood logit: classes down, up\n" in told
    assert "divided by" not in told
    assert type(load("model.npz").kernel_).__name__ == "Matern52"


def test_labels_are_scored_on_held_out_rows(labels):
    X, y = labels
    told = accept(LABELLED).stdout
    fitted = load("model.npz")
    train, test = random_splits(60, 1, 0.25, seed=2)[0]
    assert_allclose(fitted.x_mean_, X[train].mean(axis=0))
    probability = predictions(fitted, X[test])[1]
    error = np.mean(np.where(probability[:, 1] > 0.5, "up", "down") != y[test])
    nll = log_loss(y[test], probability)
    auc = roc_auc_score(y[test], probability[:, 1])
    assert f"15 rows held out: error {error:.4f}, AUC {auc:.4f}, log loss {nll:.4f}\n" in told
    assert error < 0.3


def test_labels_are_predicted_with_their_probabilities(labels):
    X, _ = labels
    accept(LABELLED)
    told = accept("predict model.npz labels.csv").stderr
    assert "label and probabilities of kind for 60 rows" in told
    table = pd.read_csv("predictions.csv")
    label, probability = predictions(load("model.npz"), X)
    assert list(table) == ["label", "p_down", "p_up"]
    assert table["label"].tolist() == label.tolist()
    assert_array_equal(table[["p_down", "p_up"]], probability)
    assert document("predict model.npz labels.csv")["rows"] == table.to_dict("records")


OTHERS = {  # likelihood, kernel, its class, what is said of the likelihood
    "counts": ("poisson", "matern12", "Matern12", "poisson\n"),
    "outliers": ("student_t", "rq", "RationalQuadratic", "student_t: df 4, scale "),
    "varying noise": (
        "heteroscedastic_gaussian",
        "se",
        "SquaredExponential",
        "heteroscedastic_gaussian: base_variance ",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_targets_have_a_mean_and_a_standard_deviation(case):
    likelihood, kernel, kind, said = OTHERS[case]
    rng = default_rng(0)
    dose = rng.uniform(0.0, 5.0, 60)
    count = rng.poisson(np.exp(1.0 + np.sin(dose)))
    pd.DataFrame({"dose": dose, "count": count}).to_csv("counts.csv", index=False)
    told = accept(
        f"fit counts.csv --target count --likelihood {likelihood} --kernel {kernel}",
        "--inducing 6 --max-iter 20 --test-fraction 0.25 --quiet",
    ).stdout
    assert f"likelihood {said}" in told
    fitted = load("model.npz")
    assert type(fitted.kernel_).__name__ == kind
    columns = numbers(accept("predict model.npz counts.csv", PRINT).stdout)
    assert list(columns) == ["mean", "std"]
    assert np.all(columns["std"] > 0.0)
    assert_allclose(columns["mean"], np.exp(1.0 + np.sin(dose)), atol=3.0)
    train, test = random_splits(60, 1, 0.25)[0]
    nll = -np.mean(fitted.predict_log_density(dose[test, None], count[test].astype(float)))
    smse = np.mean((columns["mean"][test] - count[test]) ** 2) / np.var(count[test])
    assert "15 rows held out: RMSE " in told
    assert f"SMSE {smse:.4f}, NLL {nll:.4f}\n" in told
    scale = 1.0 if case == "counts" else np.std(count[train])
    assert fitted.y_scale_ == pytest.approx(scale, rel=1e-15)
    assert ("count divided by" in told) == (case != "counts")


@pytest.fixture
def told(trial):
    """What a fit tells as JSON."""
    return document("fit trial.csv", TRAIN, "--power 1 --test-fraction 0.25")


def test_a_fit_as_json_says_what_the_model_holds(told):
    model = load("model.npz")
    assert told["log_marginal_likelihood"] == model.log_marginal_likelihood_value_
    assert told["converged"] is model.converged_
    assert told["n_iter"] == model.n_iter_
    assert told["target_scale"] == model.y_scale_
    noise = {"noise_variance": model.noise_variance_}
    assert told["likelihood"] == {"name": "Gaussian", "parameters": noise}
    assert told["noise_std"] == model.y_scale_ * np.sqrt(model.noise_variance_)


def test_a_fit_as_json_says_what_was_fitted(told):
    assert "classes" not in told
    method = {"target": "response", "power": 1.0, "name": "FITC", "n_inducing": 10}
    rows = {"n_rows": 60, "n_held_out": 20, "file": "model.npz"}
    assert (method | rows).items() <= told.items()


def test_a_fit_as_json_has_numbers_as_diagnostics(told):
    assert told["diagnostics"]["jitter"] == load("model.npz").diagnostics_["jitter"]
    assert all(isinstance(value, int | float) for value in told["diagnostics"].values())


def test_scores_as_json_are_those_of_the_text(told):
    text = accept("fit trial.csv", TRAIN, "--power 1 --test-fraction 0.25").stdout
    assert f"SMSE {told['scores']['SMSE']:.4f}, SMLL {told['scores']['SMLL']:.4f}" in text
    assert "{" not in text


def test_json_is_apart_from_warnings(trial):
    result = accept("fit trial.csv", TRAIN, "--max-iter 1 --json")
    assert "scores" not in json.loads(result.stdout)
    assert "Warning: " in result.stderr
    assert "it/s" not in result.stderr  # no progress bar in a pipe


def test_a_model_is_exported_with_the_names_of_its_columns_and_the_places_of_its_readers(model):
    result = accept("export model.npz --out trial.json")
    written = json.loads(Path("trial.json").read_text("utf-8"))
    assert written["inputs"]["names"] == load("model.npz").extra_["feature_names"]
    readers = [Path(word) for word in result.stderr.split() if "readers" in word]
    assert [reader.name for reader in readers if reader.is_file()] == [
        "sparse_pep.h",
        "sparse_pep.js",
    ]


def test_an_export_leaves_the_model_alone(model):
    before = Path("model.npz").read_bytes()
    refused_line("export model.npz --out model.npz")
    assert Path("model.npz").read_bytes() == before


def test_the_probability_of_more_than_a_threshold_is_a_column(tmp_path):
    rng = default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=40)})
    table["y"] = table.x + 0.1 * rng.normal(size=40)
    data = tmp_path / "data.csv"
    table.to_csv(data, index=False)
    out = tmp_path / "out.csv"
    model = tmp_path / "model.npz"
    accept("fit", data, "--target", "y", "--out", model, "--quiet")
    accept("predict", model, data, "--above", "0.5", "--interval", "0.8", "--out", out)
    predicted = pd.read_csv(out)
    assert list(predicted) == ["mean", "std", "lower", "upper", "p_above"]
    tail = norm.sf(0.5, predicted["mean"], predicted["std"])
    assert_allclose(predicted["p_above"], tail, rtol=1e-7, atol=1e-12)


def test_rates_have_an_exposure(tmp_path):
    rng = default_rng(3)
    x = rng.uniform(0.0, 5.0, 120)
    area = np.exp(rng.normal(2.0, 1.0, 120))
    rows = pd.DataFrame({"x": x, "area": area, "n": rng.poisson(area * np.exp(np.sin(x)))})
    data = tmp_path / "c.csv"
    rows.to_csv(data, index=False)
    fit = ("fit", data, "--target", "n", "--quiet", "--likelihood", "poisson", "--inducing", "12")
    models = [tmp_path / name for name in ("whole.npz", "pieces.npz")]
    counts = ("--exposure", "area")
    report = tmp_path / "r.html"
    accept(*fit, *counts, "--test-fraction", "0.1", "--out", models[0], "--report", report)
    assert "12 held-out rows, as rates" in report.read_text("utf-8")
    accept(*fit, *counts, "--in-pieces", "--out", models[1])
    out = tmp_path / "out.csv"
    for model in models:
        accept("predict", model, data, "--out", out)
        rate = pd.read_csv(out)["mean"]
        accept("predict", model, data, "--out", out, *counts, "--above", "3")
        assert_allclose(pd.read_csv(out)["mean"], rate * area, rtol=1e-9)
        assert_allclose(rate, np.exp(np.sin(x)), rtol=0.5)
    plain = ("fit", data, "--target", "n", *counts)
    assert "poisson or negative_binomial" in refused_line(*plain)
    rows.assign(area=0.0).to_csv(data, index=False)
    assert "must be positive" in refused_line(*fit, *counts)


@pytest.fixture
def prices(tmp_path, monkeypatch):
    """p.csv: prices that vary by factors, and p.npz, a model of their logarithms."""
    monkeypatch.chdir(tmp_path)
    rng = default_rng(0)
    size = rng.uniform(0.0, 5.0, 200)
    price = np.exp(1.0 + 0.8 * size + 0.3 * rng.normal(size=200))
    table = pd.DataFrame({"size": size, "price": price})
    table.to_csv("p.csv", index=False)
    accept("fit p.csv --target price --target-transform log --out p.npz")
    return table


def test_a_target_in_logarithms_comes_back_in_its_units(prices):
    line = "predict p.npz p.csv --interval 0.9 --above 20"
    columns = numbers(accept(line, PRINT).stdout)
    inside = (columns["lower"] < prices["price"]) & (prices["price"] < columns["upper"])
    assert 0.85 < np.mean(inside) < 0.96
    expected = np.exp(1.0 + 0.8 * prices["size"] + 0.5 * 0.3**2)
    assert_allclose(np.mean(columns["mean"] / expected), 1.0, atol=0.05)
    z = (prices["price"] - columns["mean"]) / columns["std"]
    assert_allclose([np.mean(z), np.std(z)], [0.0, 1.0], atol=0.1)
    assert_allclose(np.mean(columns["p_above"]), np.mean(prices["price"] > 20.0), atol=0.05)
    model = load("p.npz")
    ends = model.predict_interval(prices[["size"]], level=0.9)
    assert_allclose(columns["upper"], np.exp(ends[1]), rtol=1e-12)


def test_a_price_of_zero_has_no_logarithm(prices):
    prices.assign(price=prices["price"] * (prices["size"] > 1.0)).to_csv("zero.csv", index=False)
    message = refused_line("fit zero.csv --target price --target-transform log --out z.npz")
    assert "--target-transform log needs positive targets; column 'price' holds 0 in row" in message


def test_advice_after_a_fit_names_options_of_the_command(trial):
    told = accept("fit trial.csv --target response --inducing 2 --quiet").stdout
    advice = re.findall("^advice: (.*)$", told, re.MULTILINE)
    assert any("a larger `--inducing`" in sentence for sentence in advice)
    assert "n_inducing" not in told
    told = document("fit trial.csv --target response --inducing 2 --quiet")
    assert told["advice"] == advice


def test_a_fit_that_is_worse_than_a_constant_says_so():
    rng = default_rng(0)
    pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"]).to_csv("noise.csv", index=False)
    told = accept("fit noise.csv --target b --inducing 4 --test-fraction 0.25 --quiet").stdout
    smse, smll = map(float, re.search(r"SMSE (\S+), SMLL (\S+)\n", told).groups())
    assert ("a constant predicts these rows better" in told) == (smse >= 1.0 or smll >= 0.0)
    assert smse >= 1.0
