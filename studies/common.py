"""What the studies share: grids of jobs, data sets, scores of one fit, and tables of means."""

import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sparse_pep.datasets import Dataset, data_directory, load_classification, load_regression, smse
from sparse_pep.estimators import SparsePEPRegressor
from sparse_pep.estimators.base import PowerEPEstimator

POWERS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 1.0)
FIVE_POWERS = (0.0, 0.2, 0.5, 0.8, 1.0)
ENDS = (0.0, 0.5, 1.0)
REGRESSION = tuple("boston concrete energy kin8nm naval yacht power wine_red".split())
CLASSIFICATION = tuple("australian breast crabs iono pima sonar".split())
LARGE = ("kin8nm", "naval", "power")
KEYS = (
    "data",
    "split",
    "power",
    "M",
    "method",
    "log_std",
    "log_lengthscale",
    "blocks",
    "tight",
    "tol",
    "form",
)


def at_hand() -> bool:
    """Whether there is a folder of data sets; without one, scikit-learn's are used."""
    return data_directory() is not None


def study_name(name: str, size: str) -> str:
    """The name of the files of a study: results of quick ones are kept apart."""
    return f"{name}_quick" if size == "quick" else name


def grid_of(
    data: Sequence[str], n_splits: int, powers: Sequence[float], counts: Sequence[int]
) -> list[dict]:
    """The jobs for all splits, data sets, numbers of inducing points and powers, which start alike.

    The first splits of all sets come first, so that a study that is stopped early is a smaller
    study.
    """
    return [
        {
            "data": name,
            "split": split,
            "power": power,
            "M": M,
            "seed": zlib.crc32(f"{name}/{split}/{M}".encode()),
        }
        for split in range(n_splits)
        for name in data
        for M in counts
        for power in powers
    ]


def kind_of(name: str) -> str:
    """The kind of a data set, "regression" or "classification"."""
    return (
        "regression"
        if name in (*REGRESSION, "kin40k", "diabetes", "elevators", "pol", "hflights")
        else "classification"
    )


@lru_cache(maxsize=2)
def loaded(name: str) -> Dataset:
    """A data set; the last one is kept in memory. `breast_with_id` has the identifier of each
    sample as an input, too.
    """
    if kind_of(name) == "regression":
        return load_regression(name)
    if name != "breast_with_id":
        return load_classification(name)
    data = load_classification("breast")
    table = pd.read_csv(data_directory() / "classification" / "breast.csv.gz").drop(columns="y")
    return replace(data, name=name, X=table.to_numpy(float), feature_names=tuple(table))


def train_and_test(name: str, split: int = 0) -> tuple[np.ndarray, ...]:
    """X_train, y_train, X_test, y_test of a split."""
    data = loaded(name)
    train, test = data.splits[split]
    return data.X[train], data.y[train], data.X[test], data.y[test]


def fitted(model: PowerEPEstimator, X: np.ndarray, y: np.ndarray) -> dict:
    """Train a model, and return its log evidence, whether it converged, and the seconds it took."""
    start = time.perf_counter()
    model.fit(X, y)
    found = {"converged": model.converged_, "seconds": time.perf_counter() - start}
    return {"log_marginal_likelihood": model.log_marginal_likelihood_value_} | found


def scores_of(model: PowerEPEstimator, X: np.ndarray, y: np.ndarray) -> dict:
    """The standardised mean squared error of a regressor or the fraction of wrong labels, and
    the mean of −log p(y).
    """
    found = model.predict(X)
    nll = -float(np.mean(model.predict_log_density(X, y)))
    wrong = smse(y, found) if isinstance(model, SparsePEPRegressor) else float(np.mean(found != y))
    return {"error": wrong, "nll": nll}


def formatted(table: pd.DataFrame, specs: Mapping[Hashable, str]) -> pd.DataFrame:
    """The columns that `specs` names, as text in these formats; empty where a value is missing."""
    columns = {
        name: [format(v, spec) if pd.notna(v) else "" for v in table[name]]
        for name, spec in specs.items()
    }
    return pd.DataFrame(columns, table.index).rename_axis(columns=table.columns.name)


def means_of(
    rows: pd.DataFrame, keys: Sequence[str], specs: Mapping[Hashable, str]
) -> pd.DataFrame:
    """Mean scores of the rows with the same `keys`, as text in the formats `specs`; `runs` is
    the number of rows.
    """
    groups = rows.groupby(list(keys), sort=False)
    return formatted(
        groups[[name for name in specs if name != "runs"]].mean().assign(runs=groups.size()), specs
    )


def mean_table(rows: pd.DataFrame, index: str, columns: str, score: str, spec: str) -> pd.DataFrame:
    """Mean score, a row for each value of `index` and a column for each value of `columns`, as
    text.
    """
    means = rows.pivot_table(index=index, columns=columns, values=score, sort=False)
    return formatted(means, dict.fromkeys(means, spec))


def convergence(rows: pd.DataFrame) -> str:
    """The number of fits of a table that did not converge, by data set."""
    fits = rows.drop_duplicates([name for name in KEYS if name in rows], keep="last")
    unfinished = fits[~fits["converged"].eq(True)].groupby("data", sort=False).size()
    where = ", ".join(f"{name} {count}" for name, count in unfinished.items())
    return f"{len(fits)} fits, {unfinished.sum()} not converged" + (f" ({where})" if where else "")


def grid_of_axes(
    rows: pd.DataFrame, powers: Iterable[float], size: tuple[float, float]
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with a row of axes for each M and a column for each power, and the rows for each
    of the axes.
    """
    counts = np.unique(rows["M"])
    powers = [power for power in np.unique(rows["power"]) if power in powers]
    figure = Figure(figsize=(size[0] * len(powers), size[1] * len(counts)), layout="constrained")
    axes = figure.subplots(len(counts), len(powers), sharex=True, sharey=True, squeeze=False)
    cells = []
    for (i, j), ax in np.ndenumerate(axes):
        ax.set_title(f"power {powers[j]:g}, M = {counts[i]}")
        cells.append((ax, rows[(rows["M"] == counts[i]) & (rows["power"] == powers[j])]))
    return figure, cells


def data_of(rows: pd.DataFrame, load: Callable) -> tuple | None:
    """The data of the rows; None if they are not simulated and there is no folder of data."""
    name = rows["data"].iloc[0]
    return load(name) if name.endswith("_like") or at_hand() else None
