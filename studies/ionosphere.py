"""EP for classification with a Gaussian process, all training rows as inducing points, on a grid
of hyper-parameters.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep import SparsePEPClassifier
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from studies.common import at_hand, fitted, formatted, loaded, scores_of, study_name
from studies.runner import Study


def data(name: str) -> tuple[np.ndarray, ...]:
    """Standardised inputs and labels as X_train, y_train, X_test, y_test, with 200 training
    rows.
    """
    whole = loaded(name)
    order = np.random.default_rng(0).permutation(len(whole.y))
    train = order[:200]
    test = order[200:351]
    scale = np.std(whole.X[train], axis=0)
    X = (whole.X - np.mean(whole.X[train], axis=0)) / np.where(scale > 0.0, scale, 1.0)
    return X[train], whole.y[train], X[test], whole.y[test]


def fit(job: dict, log_lengthscales: list[float]) -> list[dict]:
    """One line of the grid: all lengthscales at one signal standard deviation."""
    X, y, *test = data(job["data"])
    rows = []
    for log_lengthscale in log_lengthscales:
        kernel = SquaredExponential(np.exp(2 * job["log_std"]), np.exp(log_lengthscale))
        model = SparsePEPClassifier(
            kernel=kernel,
            features=InducingPoints(X),
            power=job["power"],
            training=None,
            likelihood="probit",
        )
        rows.append(
            {"log_lengthscale": log_lengthscale} | fitted(model, X, y) | scores_of(model, *test)
        )
    return rows


def study(size: str) -> Study:
    """The grid of the paper's appendix, at power 1; a coarse one if quick."""
    step = 1.0 if size == "quick" else 0.25
    key = {
        "data": "iono" if at_hand() else "breast_cancer",
        "split": 0,
        "power": 1.0,
        "M": 200,
        "seed": 0,
    }
    jobs = [key | {"log_std": float(value)} for value in np.arange(-1.0, 5.01, step)]
    return Study(
        study_name("ionosphere", size),
        jobs,
        fit,
        {"log_lengthscales": np.arange(0.0, 5.01, step).tolist()},
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The grid points with the greatest evidence and with the smallest test loss."""
    best = [rows["log_marginal_likelihood"].idxmax(), rows["nll"].idxmin()]
    specs = dict.fromkeys(("log_lengthscale", "log_std", "log_marginal_likelihood"), ".2f")
    table = formatted(rows.loc[best], specs | {"error": ".4f", "nll": ".4f"})
    return {
        "the best points of the grid": table.set_axis(
            pd.Index(["greatest evidence", "least test loss"], name="where")
        )
    }


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Contours of the log evidence and of the test loss."""
    figure = Figure(figsize=(11.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    below_best = -np.array([60, 40, 25, 15, 10, 6, 3, 1])
    above_least = np.array([0.003, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4])
    for ax, name, title, steps, digits in (
        (left, "log_marginal_likelihood", "log evidence, nats", below_best, "%.0f"),
        (right, "nll", "test loss, nats per data point", above_least, "%.2f"),
    ):
        grid = rows.pivot(index="log_std", columns="log_lengthscale", values=name)
        best = rows.loc[(rows[name] * np.sign(steps[0])).idxmin()]
        lines = ax.contour(
            grid.columns, grid.index, grid, levels=best[name] + steps, cmap="viridis"
        )
        ax.clabel(lines, fontsize=8, fmt=digits)
        ax.plot(best["log_lengthscale"], best["log_std"], "*", color="C3", markersize=12)
        ax.set(xlabel="log lengthscale", title=title)
    left.set_ylabel("log standard deviation of f")
    return {"grid": figure}
