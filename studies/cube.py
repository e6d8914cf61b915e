"""The paper's cube on real data: every combination of features, blocks and power, for regression
and classification, with two kernels.
"""

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep import LBFGS, SparsePEPClassifier, SparsePEPRegressor, kernels
from sparse_pep.datasets import smll, smse
from sparse_pep.features import GaussianBlur, InducingPoints
from sparse_pep.training import kmeans_points
from studies.common import (
    ENDS,
    at_hand,
    fitted,
    grid_of,
    kind_of,
    mean_table,
    scores_of,
    study_name,
    train_and_test,
)
from studies.runner import Study

SETS = ("boston", "concrete", "energy", "banana", "pima")
SCORES = {"regression": ("smse", "smll"), "classification": ("error", "nll")}
# windows have a closed form with the first, and are sums of function values with the second
KERNELS = ("SquaredExponential", "Matern32")
METHODS = [
    f"{kernel}, {features}"
    for kernel, features in product(KERNELS, ("InducingPoints", "GaussianBlur"))
]


def fit(job: dict, max_iter: int, tol: float) -> list[dict]:
    """The row of one fit; it starts from k-means points, lengthscales of √D, and widths of 0.3
    of these.
    """
    X, y, X_test, y_test = train_and_test(job["data"], job["split"])
    kernel, kind = job["method"].split(", ")
    start = np.full(X.shape[1], np.sqrt(X.shape[1]))  # of the standardised inputs
    features = InducingPoints(
        kmeans_points(
            (X - X.mean(axis=0)) / X.std(axis=0), job["M"], np.random.default_rng(job["seed"])
        )
    )
    if kind == "GaussianBlur":
        features = GaussianBlur(features.Z, 0.3 * start)
    options = {
        "kernel": getattr(kernels, kernel)(1.0, start),
        "features": features,
        "power": job["power"],
        "standardize": True,
    }
    options |= {
        "blocks": None if job["blocks"] == 1 else job["blocks"],
        "training": LBFGS(max_iter=max_iter, tol=tol),
        "random_state": job["seed"],
    }
    if kind_of(job["data"]) == "classification":
        model = SparsePEPClassifier(likelihood="probit", **options)
        return [fitted(model, X, y) | scores_of(model, X_test, y_test)]
    model = SparsePEPRegressor(**options)
    row = fitted(model, X, y)
    mean, std = model.predict(X_test, return_std=True)
    return [row | {"smse": smse(y_test, mean), "smll": smll(y_test, mean, std**2, y)}]


def study(size: str) -> Study:
    """20 inducing variables, blocks of 20 neighbouring rows; three splits, and all that there
    are in the full size.
    """
    sets = SETS if at_hand() else ("diabetes", "breast_cancer")
    jobs = grid_of(
        sets[-2:] if size == "quick" else sets,
        {"quick": 1, "standard": 3, "full": 10}[size],
        ENDS,
        (20,),
    )
    choices = [{"method": method, "blocks": blocks} for method, blocks in product(METHODS, (1, 20))]
    # banana has one split
    jobs = [
        job | choice
        for job in jobs
        if job["data"] != "banana" or job["split"] == 0
        for choice in choices
    ]
    return Study(
        study_name("cube", size),
        jobs,
        fit,
        {"max_iter": 20 if size == "quick" else 500, "tol": 1e-3},
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means over the splits of the evidence and of each score, a row for each data set and
    combination.
    """
    specs = {"log_marginal_likelihood": ".1f"} | {
        score: ".3f" for scores in SCORES.values() for score in scores if score in rows
    }
    return {
        score: mean_table(
            rows.dropna(subset=score), ["data", "method", "blocks"], "power", score, spec
        )
        for score, spec in specs.items()
    }


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Log loss against the power, a plot for each data set and a line for each combination."""
    names = pd.unique(rows["data"])
    figure = Figure(figsize=(2.4 * len(names), 3.4), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        score = SCORES[kind_of(name)][1]
        for (k, method), blocks in product(enumerate(METHODS), (1, 20)):
            means = (
                rows[
                    (rows["data"] == name) & (rows["method"] == method) & (rows["blocks"] == blocks)
                ]
                .groupby("power")[score]
                .mean()
            )
            ax.plot(
                means,
                f"C{k}{'o-' if blocks == 1 else 's--'}",
                markersize=4,
                label=f"{method}, {'no blocks' if blocks == 1 else 'blocks'}",
            )
        ax.set(title=name, xlabel="power", ylabel=score.upper(), xticks=ENDS)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8
    )
    return {"log loss": figure}
