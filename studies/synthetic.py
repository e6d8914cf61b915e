"""Draws from a Gaussian process with five inputs, compared with the exact process."""

from functools import lru_cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.spatial import cKDTree

from sparse_pep import LBFGS, SparsePEPRegressor
from sparse_pep.datasets import smll, smse
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from studies.common import ENDS, POWERS, fitted, grid_of, mean_table, means_of, study_name
from studies.pictures import plot_against_inducing
from studies.runner import Study
from studies.statistics import paired

DIMENSIONS = 5
NOISE_VARIANCE = 0.04
N = 500
ROWS_OF = {"exact": 500, "true": 500, "exact 1000": 1000, "true 1000": 1000}  # "true": not trained
PARAMETERS = ("kernel.log_variance", "kernel.log_lengthscale", "log_noise_variance")
# what is not trained: the parameters are then the true ones, and the inducing points k-means
# centres
FIXED = {
    "sparse": (),
    "points fixed": ("features.Z",),
    "parameters true": PARAMETERS,
    "parameters true, points fixed": (*PARAMETERS, "features.Z"),
}
SCORES = "log_marginal_likelihood", "smse", "smll"
ITERATIONS = 20, 100, 1000  # of fits that start with an inducing point at each row


@lru_cache(maxsize=2)
def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (1500, 5), normal; targets (1500,); and the lengthscales (5,), log-uniform between
    1 and 4.
    """
    rng = np.random.default_rng(seed)
    lengthscale = np.exp(rng.uniform(0.0, np.log(4.0), DIMENSIONS))
    X = rng.normal(size=(1500, DIMENSIONS))
    K = SquaredExponential(1.0, lengthscale)(X)
    K[np.diag_indices_from(K)] += NOISE_VARIANCE
    return X, np.linalg.cholesky(K) @ rng.normal(size=len(X)), lengthscale


def model_of(job: dict, X: np.ndarray, lengthscale: np.ndarray) -> SparsePEPRegressor:
    """The estimator that a job asks for, before training."""
    method, _, steps = job["method"].partition(" after ")
    true = {"kernel": SquaredExponential(1.0, lengthscale), "noise_variance": NOISE_VARIANCE}
    if method in ROWS_OF:
        exact = SparsePEPRegressor(
            power=1.0, features=InducingPoints(X), fixed=("features.Z",), standardize=False
        )
        return exact.set_params(training=None, **true) if method.startswith("true") else exact
    options = true if method.startswith("parameters true") else {}
    training = LBFGS(max_iter=int(steps), tol=1e-8) if steps else LBFGS()
    fixed = FIXED.get(method, ())
    return SparsePEPRegressor(
        power=job["power"],
        n_inducing=job["M"],
        fixed=fixed,
        training=training,
        random_state=job["seed"],
        standardize=False,
        **options,
    )


@lru_cache(maxsize=2)
def exact_predictions(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (500,) of the test targets under the exact process with the true
    parameters.
    """
    X, y, lengthscale = draw(seed)
    mean, std = (
        model_of({"method": "true"}, X[:N], lengthscale)
        .fit(X[:N], y[:N])
        .predict(X[N : 2 * N], return_std=True)
    )
    return mean, std**2


def fit(job: dict) -> list[dict]:
    """The row of one fit, with scores on the test rows and on the training rows.

    `divergence` is the mean of KL(exact ‖ found) over the test targets, and `moved` the median
    distance of an inducing point from the nearest training row.
    """
    X, y, lengthscale = draw(seed := int(job["data"].removeprefix("draw")))
    train = np.r_[0:N, 1000:1500][: ROWS_OF.get(job["method"], N)]
    test = np.arange(N, 1000)
    model = model_of(job, X[train], lengthscale)
    row = fitted(model, X[train], y[train]) | {"noise_std": float(model.noise_std_)}
    for end, there in (("_train", train), ("", test)):
        mean, std = model.predict(X[there], return_std=True)
        row |= {
            f"smse{end}": smse(y[there], mean),
            f"smll{end}": smll(y[there], mean, std**2, y[train]),
        }
    (exact_mean, exact_var) = exact_predictions(seed)
    var = std**2
    row["divergence"] = 0.5 * float(
        np.mean(np.log(var / exact_var) + (exact_var + (mean - exact_mean) ** 2) / var - 1.0)
    )
    return [row | {"moved": float(np.median(cKDTree(X[train]).query(model.features_.Z)[0]))}]


def study(size: str) -> Study:
    """Several draws, each with all powers and the exact process; then all but the points, the
    parameters or neither trained; then M = N.
    """
    draws, powers, counts = {
        "quick": (2, ENDS, (10, 50)),
        "standard": (10, POWERS, (5, 10, 20, 50, 100, 200)),
        "full": (30, POWERS, (5, 10, 20, 50, 100, 200, 500)),
    }[size]
    jobs = []
    names = [f"draw{k:02d}" for k in range(draws)]
    for name in names:
        jobs += [
            job | {"method": method}
            for job in grid_of([name], 1, powers, counts)
            for method in FIXED
        ]
        key = {"data": name, "split": 0, "power": None}
        jobs += [
            key | {"M": n, "seed": 0, "method": method}
            for method, n in list(ROWS_OF.items())[: 2 if size == "quick" else None]
        ]
    if size != "quick":
        jobs += [
            job | {"method": f"M = N after {steps}"}
            for job in grid_of(names, 1, (0.5, 0.8, 1.0), (N,))
            for steps in ITERATIONS
        ]
    return Study(study_name("synthetic", size), jobs, fit)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means over draws for each power and M, and for the exact process."""
    shown = rows.assign(
        method=rows["power"].map("{:g}".format).where(rows["method"] == "sparse", rows["method"])
    )
    shown = shown[(rows["method"] == "sparse") | rows["method"].isin(ROWS_OF)]
    specs = {"log_marginal_likelihood": ".1f", "smse": ".4f", "smll": ".4f"}
    found = {
        f"{score} by method and M": mean_table(shown, "method", "M", score, spec)
        for score, spec in specs.items()
    }
    specs = {"runs": "d"} | dict.fromkeys(("smse", "smse_train", "smll", "smll_train"), ".4f")
    return found | {"the exact GP": means_of(rows[rows["power"].isna()], ["method"], specs)}


def trace_figure(rows: pd.DataFrame) -> Figure:
    """Scores against M: a row of axes for each score, a column for each power, a line for each
    draw and a thick one for their mean.
    """
    powers = np.unique(rows["power"])
    figure = Figure(figsize=(12.0, 5.4), layout="constrained")
    for score, axes in zip(
        SCORES,
        figure.subplots(3, len(powers), sharex=True, sharey="row", squeeze=False),
        strict=True,
    ):
        for power, ax in zip(powers, axes, strict=True):
            lines = rows[rows["power"] == power].pivot_table(
                index="M", columns="data", values=score
            )
            ax.plot(lines, color="0.6", lw=0.6)
            ax.plot(lines.mean(axis=1), color="C3", lw=1.6)
            ax.set(xscale="log", title=f"power {power:g}" if score == SCORES[0] else "")
        axes[0].set_ylabel(score.replace("log_marginal_likelihood", "log evidence"))
    return figure


def trained_figure(rows: pd.DataFrame) -> Figure:
    """Exact processes with trained parameters against those with the true ones, a point for each
    draw.
    """
    figure = Figure(figsize=(9.0, 2.8), layout="constrained")
    for score, ax in zip(SCORES, figure.subplots(1, 3), strict=True):
        one = rows.pivot_table(index="data", columns="method", values=score)
        for ending, n in (("", 500), (" 1000", 1000)):
            if "true" + ending in one:
                ax.plot(one["true" + ending], one["exact" + ending], "o", ms=4, label=f"{n} rows")
        ax.axline((one["true"].median(), one["true"].median()), slope=1.0, color="black", lw=0.8)
        ax.set(
            xlabel="true parameters",
            ylabel="trained",
            title=score.replace("log_marginal_likelihood", "log evidence"),
        )
    ax.legend()
    return figure


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Mean scores against M, with a line for each power and a dotted one for the exact process;
    each draw; and the exact processes.
    """
    sparse, exact = (rows[rows["method"] == name] for name in ("sparse", "exact"))
    figure = Figure(figsize=(12.0, 4.3), layout="constrained")
    for ax, score in zip(figure.subplots(1, 3), SCORES, strict=True):
        plot_against_inducing(paired(sparse, score), score, ax)
        ax.axhline(exact[score].mean(), color="0.4", linestyle=":", label="exact GP")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return {
        "scores": figure,
        "traces": trace_figure(sparse),
        "trained": trained_figure(rows[rows["power"].isna()]),
    }
