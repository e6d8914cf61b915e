"""Draws from a Gaussian process with five inputs, compared with the exact process."""

from functools import lru_cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep import SparsePEPRegressor
from sparse_pep.datasets import smll, smse
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from studies.common import ENDS, POWERS, fitted, grid_of, mean_table, means_of, study_name
from studies.pictures import plot_against_inducing
from studies.runner import Study
from studies.statistics import paired

DIMENSIONS, NOISE_VARIANCE = 5, 0.04
ROWS_OF = {"sparse": 500, "exact": 500, "true": 500, "exact 1000": 1000, "true 1000": 1000}  # "true": not trained


@lru_cache(maxsize=2)
def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (1500, 5), normal; targets (1500,); and the lengthscales (5,), log-uniform between 1 and 4."""
    rng = np.random.default_rng(seed)
    lengthscale = np.exp(rng.uniform(0.0, np.log(4.0), DIMENSIONS))
    X = rng.normal(size=(1500, DIMENSIONS))
    K = SquaredExponential(1.0, lengthscale)(X)
    K[np.diag_indices_from(K)] += NOISE_VARIANCE
    return X, np.linalg.cholesky(K) @ rng.normal(size=len(X)), lengthscale


def model_of(job: dict, X: np.ndarray, lengthscale: np.ndarray) -> SparsePEPRegressor:
    """The estimator that a job asks for, before training."""
    if job["method"] == "sparse":
        return SparsePEPRegressor(standardize=False, power=job["power"], n_inducing=job["M"], random_state=job["seed"])
    exact = SparsePEPRegressor(power=1.0, features=InducingPoints(X), fixed=("features.Z",))
    if job["method"].startswith("true"):
        exact.set_params(kernel=SquaredExponential(1.0, lengthscale), noise_variance=NOISE_VARIANCE, training=None)
    return exact


def fit(job: dict) -> list[dict]:
    """The row of one fit, with scores on the test rows and on the training rows."""
    X, y, lengthscale = draw(int(job["data"].removeprefix("draw")))
    train = np.r_[0:500, 1000:1500][: ROWS_OF[job["method"]]]
    model = model_of(job, X[train], lengthscale)
    row = fitted(model, X[train], y[train])
    for end, there in (("", np.arange(500, 1000)), ("_train", train)):
        mean, std = model.predict(X[there], return_std=True)
        row |= {f"smse{end}": smse(y[there], mean), f"smll{end}": smll(y[there], mean, std**2, y[train])}
    return [row]


def study(size: str) -> Study:
    """Several draws, each with all powers and the exact process."""
    draws, powers, counts = {
        "quick": (2, ENDS, (10, 50)),
        "standard": (10, POWERS, (5, 10, 20, 50, 100, 200)),
        "full": (30, POWERS, (5, 10, 20, 50, 100, 200, 500)),
    }[size]
    jobs = []
    for name in [f"draw{k:02d}" for k in range(draws)]:
        jobs += [job | {"method": "sparse"} for job in grid_of([name], 1, powers, counts)]
        key = {"data": name, "split": 0, "power": None}
        jobs += [key | {"M": ROWS_OF[m], "seed": 0, "method": m} for m in list(ROWS_OF)[1 : 3 if size == "quick" else None]]
    return Study(study_name("synthetic", size), jobs, fit)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means over draws for each power and M, and for the exact process."""
    rows = rows.assign(method=rows["power"].map("{:g}".format).where(rows["method"] == "sparse", rows["method"]))
    specs = {"log_marginal_likelihood": ".1f", "smse": ".4f", "smll": ".4f"}
    found = {f"{score} by method and M": mean_table(rows, "method", "M", score, spec) for score, spec in specs.items()}
    specs = {"runs": "d"} | dict.fromkeys(("smse", "smse_train", "smll", "smll_train"), ".4f")
    return found | {"the exact GP": means_of(rows[rows["power"].isna()], ["method"], specs)}


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Mean scores against M, with a line for each power and a dotted one for the exact process."""
    sparse, exact = (rows[rows["method"] == name] for name in ("sparse", "exact"))
    figure = Figure(figsize=(12.0, 4.3), layout="constrained")
    for ax, score in zip(figure.subplots(1, 3), ("log_marginal_likelihood", "smse", "smll")):
        plot_against_inducing(paired(sparse, score), score, ax)
        ax.axhline(exact[score].mean(), color="0.4", linestyle=":", label="exact GP")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=10)
    return {"scores": figure}
