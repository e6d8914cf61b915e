"""The paper's experiments as studies: their grids, what a job computes, against definitions and dense references."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from reference import classification, dense
from scipy.stats import norm

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import Dataset, load_regression
from sparse_pep.studies import experiments
from sparse_pep.studies.experiments import (
    SIZES,
    STUDIES,
    boundary,
    fit_banana,
    fit_beyond,
    fit_ionosphere,
    fit_snelson,
    fit_split,
    fit_synthetic,
    grid_of,
    study_named,
    synthetic_draw,
)
from sparse_pep.studies.runner import _key, run_study, seed_of

KEYS = ["data", "split", "power", "M", "seed"]
EVIDENCE, END = "log_marginal_likelihood", ["converged", "seconds"]
COLUMNS = {
    "snelson": [*KEYS, "kind", "x", "mean", "std", "x_start", EVIDENCE, "noise_std", *END],
    "banana": [*KEYS, "kind", "line", "x1", "x2", "x1_start", "x2_start", "proba", EVIDENCE, "error", "nll", *END],
    "ionosphere": [*KEYS, "log_std", "log_lengthscale", EVIDENCE, "error", "nll", *END],
    "mnist": [*KEYS, "epoch", EVIDENCE, "error", "nll", *END],
    "synthetic": [*KEYS, "method", EVIDENCE, "smse", "smll", "smse_train", "smll_train", *END],
    "regression": [*KEYS, EVIDENCE, "smse", "smll", *END],
    "classification": [*KEYS, EVIDENCE, "error", "nll", *END],
    "beyond": [*KEYS, "blocks", "tight", "prediction", "used", EVIDENCE, "error", "nll", *END],
    "kin40k": [*KEYS, "blocks", "tight", "prediction", "used", EVIDENCE, "error", "nll", *END],
}
SMALLER = {  # settings that results depend on, for speed
    "regression": {"max_iter": 5},
    "classification": {"max_iter": 5},
    "beyond": {"max_iter": 2},
    "kin40k": {"max_iter": 2},
    "ionosphere": {"log_lengthscales": [1.0, 3.0]},
    "mnist": {"n_epochs": 2},
}


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)


@pytest.fixture
def models(monkeypatch):
    """The estimators that are fitted, in the order of their fits."""
    fitted = []
    for kind in (SparsePEPRegressor, SparsePEPClassifier):
        fit = kind.fit
        record = lambda self, *given, fit=fit, **named: fitted.append(fit(self, *given, **named)) or fitted[-1]  # noqa: E731
        monkeypatch.setattr(kind, "fit", record)
    return fitted


def keys(study):
    return list(map(_key, study.jobs))


# ---- every study -----------------------------------------------------------------------------------------------------


def test_all_studies_are_tested():
    assert set(STUDIES) == set(COLUMNS)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_quick_size_runs_without_data(name, tmp_path, capfd):
    study = study_named(name, "quick")
    assert study.name == f"{name}_quick" and study.local.get("data_dir") is None
    study = replace(study, jobs=study.jobs[-1:], settings={**study.settings, **SMALLER.get(name, {})})
    with ThreadPoolExecutor(1) as executor:
        rows = run_study(study, tmp_path, executor=executor)
    assert len(rows) and list(rows) == COLUMNS[name]
    for key, value in study.jobs[0].items():
        assert rows[key].isna().all() if value is None else (rows[key] == value).all()
    assert (rows["seconds"] >= 0.0).all() and set(rows["converged"].dropna()) <= {True, False}
    assert rows["converged"].notna().sum() == (1 if name == "mnist" else len(rows))
    scores = rows.columns.intersection([EVIDENCE, "smse", "smll", "error", "nll"])
    assert len(scores) and np.isfinite(rows[scores]).all(axis=None)
    assert capfd.readouterr() == ("", "")  # that a fit did not converge is a cell, not a message


@pytest.mark.parametrize("name", COLUMNS)
def test_sizes_nest_and_do_not_mix(name, data_dir):
    for folder in (None, str(data_dir)):
        quick, standard, full = (study_named(name, size, folder) for size in SIZES)
        assert (quick.name, standard.name, full.name) == (f"{name}_quick", name, name)
        assert set(keys(standard)) <= set(keys(full))
        assert standard.columns == full.columns and (standard.settings == full.settings or name == "mnist")
        assert len(quick.jobs) < len(standard.jobs) <= len(full.jobs)
        if name != "mnist":
            assert set(keys(quick)) <= set(keys(full))
        if name not in ("mnist", "classification"):
            assert set(keys(quick)) <= set(keys(standard))
        assert all(study.cost(job) > 0.0 for study in (quick, full) for job in study.jobs)


@pytest.mark.parametrize("name", COLUMNS)
def test_powers_share_their_seed_and_nothing_else_does(name):
    seeds = {}
    for job in study_named(name, "full").jobs:
        if job["power"] is not None and name != "ionosphere":
            assert job["seed"] == seed_of(job["data"], job["split"], job["M"])
            seeds.setdefault(job["seed"], set()).add((job["data"], job["split"], job["M"]))
    assert all(len(fits) == 1 for fits in seeds.values())


def test_a_grid_does_the_first_splits_first():
    jobs = grid_of(("a", "b"), {"a": 2, "b": 1}, (0.0, 1.0), (5, 9))
    assert [(job["split"], job["data"], job["M"], job["power"]) for job in jobs] == [
        (split, name, M, power)
        for split, names in ((0, "ab"), (1, "a"))
        for name in names
        for M in (5, 9)
        for power in (0.0, 1.0)
    ]


def test_the_grid_of_the_paper(data_dir):
    full = study_named("regression", "full", str(data_dir)).jobs
    assert len({job["data"] for job in full}) == 8 and len(full) == 8 * 10 * 9 * 6
    standard = study_named("regression", "standard", str(data_dir)).jobs
    assert {job["power"] for job in standard} == {0.0, 0.2, 0.5, 0.8, 1.0}
    large = {job["data"] for job in standard if job["split"] == 2} - {
        job["data"] for job in standard if job["split"] == 3
    }
    assert large == {"kin8nm", "naval", "power"}
    labels = study_named("classification", "full", str(data_dir)).jobs
    assert {"australian_a1", "breast_with_id", "iono", "sonar"} < {job["data"] for job in labels}


def test_unknown_names_and_sizes_are_told_what_there_is():
    with pytest.raises(ValueError, match="no study 'regresion'; there are snelson, banana,.* classification"):
        study_named("regresion")
    with pytest.raises(ValueError, match="`size` must be one of quick, standard, full; got 'small'"):
        study_named("banana", "small")
    with pytest.raises(ValueError, match="`data_dir`"):
        study_named("banana", "quick", "no/such/folder")


# ---- which data ------------------------------------------------------------------------------------------------------


def test_workers_are_told_of_the_folder_wherever_they_are(tmp_path, monkeypatch):
    (tmp_path / "data" / "toy").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for given, variable in (("data", None), (None, "data")):
        if variable:
            monkeypatch.setenv("SPARSE_PEP_DATA", variable)
        study = study_named("snelson", "quick", given)
        assert study.local == {"data_dir": str((tmp_path / "data").resolve())}
        assert study.jobs[0]["data"] == "snelson"


@pytest.mark.parametrize("name", ["snelson", "banana", "ionosphere", "mnist"])
def test_the_name_decides_which_data_and_not_where_the_job_runs(name, data_dir, monkeypatch):
    study = study_named(name, "quick")
    data = {"mnist": "digits", "ionosphere": "breast_cancer"}.get(name, f"{name}_like")
    assert {job["data"] for job in study.jobs} == {data}
    load = getattr(experiments, f"{name}_data")
    here = load(data, None)
    monkeypatch.setenv("SPARSE_PEP_DATA", str(data_dir))  # a worker on a machine that has data
    for one, other in zip(here, load(data, None)):
        np.testing.assert_array_equal(one, other)
    real = {job["data"] for job in study_named(name, "standard").jobs}.pop()
    assert real != data
    if name != "mnist":
        assert not np.array_equal(load(real, str(data_dir))[0], here[0])
    monkeypatch.delenv("SPARSE_PEP_DATA")
    with pytest.raises(ValueError):
        load(real, None)  # and not made up


def test_real_snelson_and_banana_have_the_sizes_of_the_paper(data_dir):
    X, y = experiments.snelson_data("snelson", str(data_dir))
    assert X.shape == (200, 1) and y.shape == (200,)
    assert [len(part) for part in experiments.banana_data("banana", str(data_dir))] == [400, 400, 4900, 4900]
    assert [len(part) for part in experiments.ionosphere_data("iono", str(data_dir))] == [200, 200, 151, 151]


def test_ionosphere_scales_by_the_training_rows():
    X, y, X_test, y_test = experiments.ionosphere_data("breast_cancer", None)
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(X.std(axis=0), 1.0)
    assert len(X) == 200 and len(X_test) == 151 and set(y) == set(y_test) == {-1, 1}
    assert not {tuple(row) for row in X} & {tuple(row) for row in X_test}


# ---- real data -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:training stopped")
def test_a_row_of_regression_is_what_its_columns_say():
    job = {"data": "diabetes", "split": 1, "power": 0.5, "M": 8, "seed": 3}
    (row,) = fit_split(job, "regression", max_iter=30, tol=1e-4)
    data = load_regression("diabetes")
    train, test = data.splits[1]
    X = (data.X - data.X[train].mean(axis=0)) / data.X[train].std(axis=0)
    y, mean, scale = data.y, data.y[train].mean(), data.y[train].std()
    options = {"n_inducing": 8, "power": 0.5, "random_state": 3, "max_iter": 30, "tol": 1e-4}
    model = SparsePEPRegressor(**options).fit(X[train], (y[train] - mean) / scale)
    predicted, std = model.predict(X[test], return_std=True)
    predicted, std = mean + scale * predicted, scale * std
    trivial = norm.logpdf(y[test], mean, scale)
    assert row[EVIDENCE] == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-9)  # of the standardised target
    assert row["smse"] == pytest.approx(np.mean((predicted - y[test]) ** 2) / np.var(y[test]), rel=1e-6)
    assert row["smll"] == pytest.approx(np.mean(trivial - norm.logpdf(y[test], predicted, std)), rel=1e-6)
    assert row["converged"] is model.converged_
    assert fit_split(job, "regression", max_iter=30, tol=1e-4)[0] | {"seconds": 0} == row | {"seconds": 0}
    assert fit_split(job | {"seed": 4}, "regression", max_iter=30, tol=1e-4)[0][EVIDENCE] != row[EVIDENCE]


# ---- synthetic -------------------------------------------------------------------------------------------------------


def test_a_draw_has_the_covariance_that_it_names():
    X, y, lengthscale = synthetic_draw(3)
    rng = np.random.default_rng(3)
    np.testing.assert_allclose(np.exp(rng.uniform(0.0, np.log(4.0), 5)), lengthscale)
    np.testing.assert_array_equal(rng.normal(size=(1500, 5)), X)
    K = np.vstack([dense.kernel("se", 1.0, lengthscale, rows, X) for rows in np.split(X, 30)])
    white = np.linalg.solve(np.linalg.cholesky(K + 0.04 * np.eye(1500)), y)
    np.testing.assert_allclose(white, rng.normal(size=1500), atol=1e-8)
    assert np.all((lengthscale >= 1.0) & (lengthscale <= 4.0)) and synthetic_draw(4)[2][0] != lengthscale[0]


@pytest.mark.parametrize("method", ["exact", "true", "true 1000"])
def test_exact_rows_are_those_of_a_dense_gp(method, monkeypatch, models):
    n = {"exact": 60, "true": 120, "true 1000": 550}[method]
    monkeypatch.setitem(experiments.ROWS_OF, method, n)
    job = {"data": "draw01", "split": 0, "power": None, "M": n, "seed": 0, "method": method}
    (row,) = fit_synthetic(job)
    X, y, lengthscale = synthetic_draw(1)
    train, test = np.r_[0:500, 1000:1500][:n], np.arange(500, 1000)
    ((variance, noise),) = [(model.kernel_.variance, model.noise_variance_) for model in models]
    np.testing.assert_array_equal(models[0].features_.Z, X[train])  # not moved by training
    if method == "exact":
        assert models[0].converged_ and not np.allclose(models[0].kernel_.lengthscale, lengthscale)
        lengthscale = models[0].kernel_.lengthscale
    else:
        assert (variance, noise) == (1.0, 0.04)
    K = dense.kernel("se", variance, lengthscale, X[train], X[train])
    assert row[EVIDENCE] == pytest.approx(dense.exact_log_evidence(K, y[train], noise), rel=1e-6)
    trivial = (np.mean(y[train]), np.std(y[train]))
    for end, there in (("", test), ("_train", train)):
        Ks = dense.kernel("se", variance, lengthscale, X[train], X[there])
        weights = np.linalg.solve(K + noise * np.eye(n), np.c_[y[train], Ks])
        mean, var = Ks.T @ weights[:, 0], variance + noise - np.sum(Ks * weights[:, 1:], axis=0)
        gain = norm.logpdf(y[there], *trivial) - norm.logpdf(y[there], mean, np.sqrt(var))
        assert row[f"smse{end}"] == pytest.approx(np.mean((mean - y[there]) ** 2) / np.var(y[there]), rel=1e-5)
        assert row[f"smll{end}"] == pytest.approx(np.mean(gain), rel=1e-5)


def test_sparse_rows_train_on_the_first_500(models):
    job = {"data": "draw00", "split": 0, "power": 0.0, "M": 5, "seed": 1, "method": "sparse"}
    (row,) = fit_synthetic(job)
    X, y, _ = synthetic_draw(0)
    again = SparsePEPRegressor(power=0.0, n_inducing=5, random_state=1, max_iter=2000).fit(X[:500], y[:500])
    assert row[EVIDENCE] == again.log_marginal_likelihood_value_
    mean, std = again.predict(X[500:1000], return_std=True)
    assert row["smse"] == pytest.approx(np.mean((mean - y[500:1000]) ** 2) / np.var(y[500:1000]), rel=1e-10)


# ---- classification with known hyper-parameters ----------------------------------------------------------------------


@pytest.mark.parametrize("log_std, log_lengthscales", [(0.0, [1.0, 2.5]), (2.0, [2.0])])
def test_ionosphere_rows_are_textbook_ep(log_std, log_lengthscales, monkeypatch):
    X, y, X_test, y_test = experiments.ionosphere_data("breast_cancer", None)
    X, y = X[:30], y[:30]
    monkeypatch.setattr(experiments, "ionosphere_data", lambda name, data_dir: (X, y, X_test, y_test))
    job = {"data": "breast_cancer", "split": 0, "power": 1.0, "M": 30, "seed": 0, "log_std": log_std}
    rows = fit_ionosphere(job, log_lengthscales)
    assert [row["log_lengthscale"] for row in rows] == log_lengthscales
    for row in rows:
        given = ("se", np.exp(2.0 * log_std), np.exp(row["log_lengthscale"]))
        K, Ks = dense.kernel(*given, X, X), dense.kernel(*given, X, X_test)
        fit = classification.ep_classification(K, y)
        proba = classification.ep_predict(K, Ks, np.full(len(X_test), given[1]), fit)
        nll = -np.mean(np.log(np.where(y_test > 0, proba, 1.0 - proba)))
        assert row[EVIDENCE] == pytest.approx(fit.log_evidence, abs=1e-6)
        assert row["nll"] == pytest.approx(nll, abs=1e-6)
        assert row["error"] == np.mean((proba > 0.5) != (y_test > 0))
        assert row["converged"] is True


# ---- pictures --------------------------------------------------------------------------------------------------------


def test_banana_rows_are_inducing_points_and_the_boundary(models, monkeypatch):
    X, y, X_test, y_test = (part[:150] for part in experiments.banana_data("banana_like", None))
    monkeypatch.setattr(experiments, "banana_data", lambda name, data_dir: (X, y, X_test, y_test))
    job = {"data": "banana_like", "split": 0, "power": 0.5, "M": 6, "seed": 2}
    rows = fit_banana(job)
    (model,) = models
    points, lines = ([row for row in rows if row["kind"] == kind] for kind in ("point", "boundary"))
    assert len(points) == 6 and len(points) + len(lines) == len(rows)
    Z, begin, edge = (
        np.array([[row[f"x1{end}"], row[f"x2{end}"]] for row in some])
        for some, end in ((points, ""), (points, "_start"), (lines, ""))
    )
    np.testing.assert_array_equal(Z, model.features_.Z)
    np.testing.assert_array_equal([row["proba"] for row in points], model.predict_proba(Z)[:, 1])
    untrained = SparsePEPClassifier(likelihood="probit", n_inducing=6, random_state=2, optimizer=None)
    np.testing.assert_allclose(begin, untrained.fit(X, y).features_.Z)
    assert np.all(np.linalg.norm(Z - begin, axis=1) > 0.0)
    assert {row["proba"] for row in lines} == {0.5}
    np.testing.assert_allclose(model.predict_proba(edge)[:, 1], 0.5, atol=0.03)
    finer = np.vstack(boundary(model, X, n=120))  # linear between the points of a grid: four times closer
    np.testing.assert_allclose(model.predict_proba(finer)[:, 1], 0.5, atol=0.0075)
    assert rows[0]["error"] == np.mean(model.predict(X_test) != y_test)
    proba = model.predict_proba(X_test)[:, 1]
    assert rows[0]["nll"] == pytest.approx(-np.mean(np.log(np.where(y_test > 0, proba, 1.0 - proba))), rel=1e-10)


def test_snelson_rows_are_a_curve_and_inducing_points(models):
    rows = fit_snelson({"data": "snelson_like", "split": 0, "power": 0.0, "M": 5, "seed": 2})
    (model,) = models
    X, _ = experiments.snelson_data("snelson_like", None)
    curve, points = ([row for row in rows if row["kind"] == kind] for kind in ("curve", "point"))
    x = np.array([row["x"] for row in curve])
    assert x[0] == X.min() - 1.0 and x[-1] == X.max() + 1.0
    mean, std = model.predict(x[:, None], return_std=True)
    np.testing.assert_array_equal([[row["mean"], row["std"]] for row in curve], np.c_[mean, std])
    np.testing.assert_array_equal([row["x"] for row in points], model.features_.Z[:, 0])
    at = (np.array([row["x_start"] for row in points]) - X.min()) / np.ptp(X)
    np.testing.assert_allclose(at, np.linspace(0.4, 0.6, 5))
    assert {row["noise_std"] for row in rows} == {model.noise_std_}


def test_mnist_rows_are_passes_over_the_data():
    job = {"data": "digits", "split": 0, "power": 0.5, "M": 10, "seed": 1}
    rows = experiments.fit_mnist(job, n_epochs=3, batch_size=300)
    assert [row["epoch"] for row in rows] == [0, 1, 2, 3]
    assert [isinstance(row.get("converged"), bool) for row in rows] == [False, False, False, True]
    assert rows[-1]["nll"] < rows[0]["nll"] < np.log(2.0) + 0.1 and rows[-1]["error"] < 0.4
    X, y, X_test, y_test = experiments.mnist_data("digits", None)
    assert set(y) == {-1, 1} and X.max() == 1.0 and len(X) > len(X_test)


# ---- beyond the paper ------------------------------------------------------------------------------------------------


def test_global_and_local_scores_are_those_of_two_estimators(monkeypatch):
    """One training, two predictions: the same as training twice, on a function with many wiggles for its points."""
    X, rng = np.linspace(0.0, 30.0, 150)[:, None], np.random.default_rng(0)
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=150)
    wiggles = Dataset("boston", X, y, ("x",), ((np.arange(0, 150, 2), np.arange(1, 150, 2)),))
    monkeypatch.setattr(experiments, "loaded", lambda *given: wiggles)
    X, y, X_test, y_test = experiments.beyond_data("boston", 0, 1000, None)
    job = {"data": "boston", "split": 0, "power": 0.0, "M": 8, "seed": 0, "blocks": 1, "tight": False}
    rows = fit_beyond(job, max_iter=20, tol=1e-3, most_rows=1000)
    assert [row["prediction"] for row in rows] == ["global", "local"] and rows[1]["used"]
    options = {"n_inducing": 8, "random_state": 0, "power": 0.0, "max_iter": 20, "tol": 1e-3, "standardize": True, "normalize_y": True}
    for row, local in zip(rows, ("off", "auto")):
        model = SparsePEPRegressor(local=local, **options).fit(X, y)
        residual = y_test - model.predict(X_test)
        assert row["error"] == pytest.approx(np.mean(residual**2) / np.var(y_test), rel=1e-6)
        assert row["nll"] == pytest.approx(-np.mean(model.predict_log_density(X_test, y_test)), rel=1e-6)
    assert rows[1]["error"] < 0.9 * rows[0]["error"]
    (tight,) = fit_beyond(job | {"tight": True}, max_iter=20, tol=1e-3, most_rows=1000)
    assert tight["log_marginal_likelihood"] > rows[0]["log_marginal_likelihood"]
