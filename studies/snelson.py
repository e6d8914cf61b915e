"""One-dimensional fits of the data of Snelson and Ghahramani (2006), whose inducing points start
in the middle.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep import LBFGS, SparsePEPRegressor
from sparse_pep.datasets import data_directory, snelson_like
from sparse_pep.features import InducingPoints
from studies.common import (
    ENDS,
    POWERS,
    at_hand,
    data_of,
    fitted,
    grid_of,
    grid_of_axes,
    means_of,
    study_name,
)
from studies.runner import Study


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (200, 1) and targets (200,) of "snelson", or as many simulated ones for
    "snelson_like".
    """
    if name == "snelson_like":
        return snelson_like()
    table = pd.read_csv(data_directory() / "toy" / "snelson.csv.gz")
    return table.drop(columns="y").to_numpy(float), table["y"].to_numpy(float)


def fit(job: dict, n_restarts: int) -> list[dict]:
    """Rows of one fit: `kind` is "curve" for mean and standard deviation of y on a grid, "point"
    for inducing points.
    """
    X, y = data(job["data"])
    low = X.min()
    high = X.max()
    begin = np.linspace(low + 0.4 * (high - low), low + 0.6 * (high - low), job["M"])
    training = LBFGS(n_restarts=n_restarts, tol=1e-5)
    model = SparsePEPRegressor(
        features=InducingPoints(begin[:, None]),
        power=job["power"],
        noise_variance=0.1,
        training=training,
        random_state=job["seed"],
    )
    found = fitted(model, X, y) | {"noise_std": model.noise_std_}
    x = np.linspace(low - 1.0, high + 1.0, 121)
    mean, std = model.predict(x[:, None], return_std=True)
    rows = [
        {"kind": "curve"} | dict(zip(("x", "mean", "std"), row, strict=True))
        for row in np.c_[x, mean, std]
    ]
    rows += [
        {"kind": "point"} | dict(zip(("x", "x_start"), row, strict=True))
        for row in np.c_[model.features_.Z[:, 0], begin]
    ]
    return [row | found for row in rows]


def study(size: str) -> Study:
    """All powers, with few and with many inducing points."""
    powers, counts = {
        "quick": (ENDS, (8,)),
        "standard": (POWERS, (5, 8, 15)),
        "full": (POWERS, (5, 8, 15, 30)),
    }[size]
    name = "snelson" if at_hand() else "snelson_like"
    return Study(
        study_name("snelson", size),
        grid_of([name], 1, powers, counts),
        fit,
        {"n_restarts": 0 if size == "quick" else 50},
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The evidence and the trained noise of each fit."""
    specs = {"log_marginal_likelihood": ".2f", "noise_std": ".3f"}
    return {"each fit": means_of(rows[rows["kind"] == "point"], ["M", "power"], specs)}


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Mean and two standard deviations of y, with the start (above) and the end (below) of each
    inducing point.
    """
    figure, cells = grid_of_axes(rows, ENDS, (4.0, 2.6))
    for ax, here in cells:
        if points := data_of(here, data):
            ax.plot(points[0][:, 0], points[1], ".", color="0.3", markersize=2.5)
        curve, points = (here[here["kind"] == kind] for kind in ("curve", "point"))
        low, high = (curve["mean"] + sign * 2.0 * curve["std"] for sign in (-1.0, 1.0))
        ax.fill_between(curve["x"], low, high, color="C0", alpha=0.25, linewidth=0)
        ax.plot(curve["x"], curve["mean"], color="C0")
        ax.plot(points["x_start"], np.full(len(points), high.max()), "+", color="0.5")
        ax.plot(points["x"], np.full(len(points), low.min()), "^", color="C3", ms=5)
    return {"fits": figure}
