"""Where training moves the inducing points of a classifier on a plane."""

import numpy as np
import pandas as pd
from contourpy import contour_generator
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.base import clone

from sparse_pep import LBFGS, SparsePEPClassifier
from sparse_pep.datasets import banana_like
from studies.common import (
    ENDS,
    POWERS,
    at_hand,
    data_of,
    fitted,
    grid_of,
    grid_of_axes,
    means_of,
    scores_of,
    study_name,
    train_and_test,
)
from studies.runner import Study


def data(name: str) -> tuple[np.ndarray, ...]:
    """X_train, y_train, X_test, y_test: 400 and 4900 rows of "banana", or as many simulated rows
    for "banana_like".
    """
    return (
        (*banana_like(400), *banana_like(4900, seed=1))
        if name == "banana_like"
        else train_and_test("banana")
    )


def fit(job: dict, n_restarts: int = 0) -> list[dict]:
    """Rows of one fit: `kind` is "point" for inducing points with their starts and p(y = 1),
    "boundary" for lines of p = ½.
    """
    X, y, *test = data(job["data"])
    model = SparsePEPClassifier(
        likelihood="probit",
        n_inducing=job["M"],
        power=job["power"],
        random_state=job["seed"],
        standardize=False,
        training=LBFGS(n_restarts=n_restarts),
    )
    found = fitted(model, X, y) | scores_of(model, *test)
    ends = model.features_.Z
    begins = clone(model).set_params(training=None).fit(X, y).features_.Z
    names = ("x1", "x2", "x1_start", "x2_start", "proba")
    values = np.c_[ends, begins, model.predict_proba(ends)[:, 1]]
    rows = [
        {"kind": "point", "line": m} | dict(zip(names, row, strict=True))
        for m, row in enumerate(values)
    ]
    edges = [
        np.linspace(low - 0.5, high + 0.5, 60) for low, high in zip(X.min(0), X.max(0), strict=True)
    ]
    plane = np.stack(np.meshgrid(*edges), axis=-1).reshape(-1, 2)
    lines = contour_generator(*edges, model.predict_proba(plane)[:, 1].reshape(60, 60)).lines(0.5)
    rows += [
        {"kind": "boundary", "line": k, "x1": x1, "x2": x2, "proba": 0.5}
        for k, line in enumerate(lines)
        for x1, x2 in line
    ]
    return [row | found for row in rows]


def study(size: str) -> Study:
    """All powers, from very few inducing points on."""
    powers, counts = {
        "quick": (ENDS, (8,)),
        "standard": (POWERS, (4, 8, 16, 32)),
        "full": (POWERS, (4, 8, 16, 32, 64)),
    }[size]
    return Study(
        study_name("banana", size),
        grid_of(["banana" if at_hand() else "banana_like"], 1, powers, counts),
        fit,
        {"n_restarts": 0 if size == "quick" else 9},
    )


def sure_points(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of inducing points, with `sure` = |p − ½|, which is 0 on the boundary and at most
    ½.
    """
    points = rows[rows["kind"] == "point"]
    return points.assign(sure=(points["proba"] - 0.5).abs())


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The scores of each fit, where `sure` is the mean of |p − ½| at its inducing points."""
    specs = {"log_marginal_likelihood": ".1f", "error": ".4f", "nll": ".4f", "sure": ".2f"}
    return {"each fit": means_of(sure_points(rows), ["M", "power"], specs)}


def draw(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the data, the boundary, the paths of the inducing points, and their ends."""
    if points := data_of(rows, data):
        ax.scatter(*points[0].T, s=4, c=np.where(points[1] > 0, "C1", "C0"), alpha=0.4, zorder=0)
    for _, line in rows[rows["kind"] == "boundary"].groupby("line"):
        ax.plot(line["x1"], line["x2"], color="0.3", linewidth=1.5)
    points = rows[rows["kind"] == "point"]
    x1, x2 = ([points[f"{name}_start"], points[name]] for name in ("x1", "x2"))
    ax.plot(x1, x2, color="0.7", linewidth=0.8, zorder=0)
    ax.plot(x1[0], x2[0], "+", color="0.6", markersize=5)
    ax.plot(x1[1], x2[1], "o", color="C3", markersize=5)


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Inducing points (red, from grey crosses) and decision boundaries."""
    figure, cells = grid_of_axes(rows, ENDS, (3.6, 3.2))
    for ax, here in cells:
        draw(ax, here)
    edge = rows.loc[rows["kind"] == "boundary", ["x1", "x2"]]
    low = edge.min() - 0.7
    high = edge.max() + 0.7
    cells[0][0].set(xlim=(low["x1"], high["x1"]), ylim=(low["x2"], high["x2"]))
    return {"points": figure}
