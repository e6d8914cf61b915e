"""Two conjectures of the paper's discussion and protocol: noise that varies, and training with
sites that have not converged.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import norm

from sparse_pep import LBFGS, Adam, SparsePEP, SparsePEPClassifier
from sparse_pep.datasets import smse
from studies.common import (
    CLASSIFICATION,
    ENDS,
    LARGE,
    REGRESSION,
    at_hand,
    fitted,
    grid_of,
    scores_of,
    study_name,
    train_and_test,
)
from studies.runner import Study

LIKELIHOODS = {"one noise": "gaussian", "noise of its own": "heteroscedastic_gaussian"}
TRAINING = {"converged": LBFGS(), "batches": Adam(batch_size=100)}


def varying(seed: int) -> tuple[np.ndarray, ...]:
    """X_train, y_train, X_test, y_test, 500 rows each: a smooth function on a square, with noise
    from 0.05 at the left to 0.5 at the right.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(1000, 2))
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.05 * 10.0 ** (
        0.25 * X[:, 0] + 0.5
    ) * rng.normal(size=1000)
    return X[:500], y[:500], X[500:], y[500:]


def fit(job: dict) -> list[dict]:
    """The row of one fit; `nll` is the standardised mean log loss in regression, and the mean of
    −log p of the label for classes.
    """
    X, y, X_test, y_test = (
        varying(job["split"])
        if job["data"] == "varying"
        else train_and_test(job["data"], job["split"])
    )
    options = {"power": job["power"], "n_inducing": job["M"], "random_state": job["seed"]}
    if job["method"] in TRAINING:
        model = SparsePEPClassifier(
            likelihood="probit", training=TRAINING[job["method"]], **options
        )
        return [fitted(model, X, y) | scores_of(model, X_test, y_test)]
    model = SparsePEP(likelihood=LIKELIHOODS[job["method"]], **options)
    row = fitted(model, X, y)
    # the prediction whose standardised loss is 0
    constant = norm.logpdf(y_test, np.mean(y), np.std(y))
    nll = float(np.mean(constant) - np.mean(model.predict_log_density(X_test, y_test)))
    return [row | {"error": smse(y_test, model.predict(X_test)), "nll": nll}]


def study(size: str) -> Study:
    """Noise that varies on simulated and on real data, and two ways to train a classifier."""
    quick = size == "quick"
    n_splits = {"quick": 1, "standard": 3, "full": 10}[size]
    small = [name for name in REGRESSION if name not in LARGE] if at_hand() else ["diabetes"]
    noisy = grid_of(["varying"], 2 if quick else 10, ENDS, (20, 100)) + grid_of(
        small, n_splits, ENDS, (50,)
    )
    jobs = [job | {"method": "one noise"} for job in noisy] + [
        job | {"method": "noise of its own"} for job in noisy if job["power"] == 0.5
    ]
    labels = grid_of(CLASSIFICATION if at_hand() else ["breast_cancer"], n_splits, ENDS, (50,))
    return Study(
        study_name("discussion", size),
        jobs + [job | {"method": name} for job in labels for name in TRAINING],
        fit,
    )


def losses(rows: pd.DataFrame, methods: Iterable[str], score: str = "nll") -> pd.DataFrame:
    """Mean scores over splits: a row for each data set and M, a column for each method and
    power.
    """
    return rows[rows["method"].isin(methods)].pivot_table(
        index=["data", "M"], columns=["method", "power"], values=score, sort=False
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Mean log losses: of one noise variance and of noise that may vary, of training to
    convergence and in batches.
    """
    return {
        "noise that may vary": losses(rows, LIKELIHOODS).round(3),
        "two ways to train": losses(rows, TRAINING).round(3),
    }


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """The log losses of both tables, a line for each data set."""
    figure = Figure(figsize=(12.0, 4.0), layout="constrained")
    for ax, methods in zip(figure.subplots(1, 2), (LIKELIHOODS, TRAINING), strict=True):
        table = losses(rows, methods)
        for k, ((name, M), one) in enumerate(table.iterrows()):
            ax.plot(
                range(len(one)),
                one - one.iloc[0],
                "osD^v<>P*Xd"[k % 11] + "-",
                lw=0.8,
                label=f"{name}, M = {M}",
            )
        ax.set_xticks(
            range(len(table.columns)),
            [f"{method},\npower {power:g}" for method, power in table.columns],
            fontsize=8,
        )
        ax.axhline(0.0, color="0.6", lw=0.8)
        ax.set_ylabel(
            f"log loss less that of\n{table.columns[0][0]}, power {table.columns[0][1]:g}"
        )
        ax.legend(fontsize=7)
    return {"losses": figure}
