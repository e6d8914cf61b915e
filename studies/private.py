"""Powers of their own for rows: two rules beside the single powers."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

from sparse_pep import LBFGS, SparsePEPRegressor
from sparse_pep.datasets import smll, smse
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.sites import unexplained_variance
from studies.common import (
    LARGE,
    REGRESSION,
    at_hand,
    fitted,
    grid_of,
    mean_table,
    study_name,
    train_and_test,
)
from studies.runner import Study
from studies.statistics import gains, interval, paired

SINGLE = (0.0, 0.5, 0.8, 1.0)
RULES = "clusters", "explained", "unexplained"
N_CLUSTERS = 8


def share_explained(model: SparsePEPRegressor, X: np.ndarray) -> np.ndarray:
    """σ² / (σ² + D_n) of each row (N,), where D_n is the variance of f that the inducing points
    leave unexplained.
    """
    Z = model.features_.Z
    kernel = model.kernel_
    D, _ = unexplained_variance(
        kernel.diag(X), solve_lower(factorise(kernel(Z), 1e-8), kernel(Z, X))
    )
    return model.noise_std_**2 / (model.noise_std_**2 + D)


def powers_of_clusters(X: np.ndarray, y: np.ndarray, options: dict, seed: int) -> np.ndarray:
    """For each row the single power with the best held-out log density, over five folds, in its
    cluster of inputs.
    """
    label = KMeans(N_CLUSTERS, n_init=1, random_state=seed).fit_predict(X)
    density = np.empty((len(SINGLE), len(y)))
    for train, held in KFold(5, shuffle=True, random_state=seed).split(X):
        for k, power in enumerate(SINGLE):
            density[k, held] = (
                SparsePEPRegressor(power=power, **options)
                .fit(X[train], y[train])
                .predict_log_density(X[held], y[held])
            )
    best = [np.argmax(density[:, label == c].mean(axis=1)) for c in range(N_CLUSTERS)]
    return np.array(SINGLE)[np.array(best)[label]]


def fit(job: dict, tol: float) -> list[dict]:
    """The row of one fit, with the mean of the powers of its rows."""
    X, y, X_test, y_test = train_and_test(job["data"], job["split"])
    inputs = StandardScaler().fit(X)
    targets = StandardScaler().fit(y[:, None])
    X = inputs.transform(X)
    X_test = inputs.transform(X_test)
    (y, y_test) = (targets.transform(t[:, None])[:, 0] for t in (y, y_test))
    options = {
        "n_inducing": job["M"],
        "random_state": job["seed"],
        "standardize": False,
        "training": LBFGS(tol=tol),
    }
    power = job["power"]
    if job["method"] == "clusters":
        power = powers_of_clusters(X, y, options, job["seed"])
    elif job["method"] != "single":
        share = share_explained(SparsePEPRegressor(power=0.5, **options).fit(X, y), X)
        power = share if job["method"] == "explained" else 1.0 - share
    model = SparsePEPRegressor(power=power, **options)
    row = fitted(model, X, y)
    mean, std = model.predict(X_test, return_std=True)
    return [
        row
        | {
            "smse": smse(y_test, mean),
            "smll": smll(y_test, mean, std**2, y),
            "mean_power": float(np.mean(power)),
        }
    ]


def study(size: str) -> Study:
    """Five sets of some hundred rows: on the first splits the best single power and the best
    rule are chosen, on the others they meet.
    """
    sets = [name for name in REGRESSION if name not in LARGE] if at_hand() else ["diabetes"]
    n_splits = 2 if size == "quick" else 10
    jobs = [job | {"method": "single"} for job in grid_of(sets, n_splits, SINGLE, (30,))]
    jobs += [
        job | {"power": None, "method": rule}
        for job in grid_of(sets, n_splits, (0.0,), (30,))
        for rule in RULES
    ]
    return Study(study_name("private", size), jobs, fit, {"tol": 1e-3})


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with single powers as methods."""
    return rows.assign(
        method=rows["method"].where(rows["power"].isna(), rows["power"].map("{:g}".format))
    )


def judged(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """On the second half of the splits: the gain of each rule over the single power that is best
    on the first half, with its interval.
    """
    rows = named(rows)
    first = rows["split"] < (rows["split"].max() + 1) / 2
    best = rows[first & rows["power"].notna()].groupby("method")[score].mean().idxmin()
    found = {}
    for rule in RULES:
        gain = gains(paired(rows[~first], score, (rule, best), "method"))
        found[rule] = [best, *interval(gain), int(np.sum(gain.groupby(level="data").mean() > 0.0))]
    return pd.DataFrame(found, ["against power", "gain", "low", "high", "sets better"]).T


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Mean scores of each method, and the rules against the best single power."""
    found = {
        f"{score} by data and method": mean_table(named(rows), "data", "method", score, ".4f")
        for score in ("smse", "smll")
    }
    return found | {
        f"gain in {score} on splits not used": judged(rows, score) for score in ("smse", "smll")
    }


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """The mean power that each rule gives to the rows of each data set."""
    figure = Figure(figsize=(6.0, 2.8), layout="constrained")
    ax = figure.subplots()
    rows[rows["power"].isna()].pivot_table(
        index="data", columns="method", values="mean_power", sort=False
    ).plot.bar(ax=ax, rot=0)
    ax.set(xlabel="", ylabel="mean power of the rows")
    return {"powers": figure}
