"""Whole fits of real data, from raw arrays to predictions: what each system scores after how much
time.
 `benchmarks.peers` calls `prepare` in its own process and `fit_row` in that of each system, which
needs NumPy and SciPy only. The clock starts with raw arrays. Scaling, the k-means that places
inducing inputs, compilation and training count; imports and scoring do not. Every system that has
gradients starts at the same place and is trained by L-BFGS until its time is up.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.special import log_ndtr

from benchmarks.objective import CLOCK, Objective, Recorded, Start, TimeIsUp

# and M
SETS = {
    "pol": 200,
    "elevators": 200,
    "kin40k": 200,
    "keggundirected": 200,
    "hflights": 200,
    "usps_3v5": 100,
    "late flights": 200,
}
LABELS = ("usps_3v5", "late flights")
LATE = 15.0  # minutes
SECONDS = {"hflights": 2.0, "late flights": 2.0}  # times the budget: the largest sets
SCORED = 12, 5  # points of a trace, and of one with many rows, where each costs a search
PATH = 60  # points with the objective alone
MANY = 100_000


def prepare(name: str, file: Path, split: int = 0) -> tuple[int, int]:
    """Write a split of a set into a file for `fit_row`; the numbers of training rows and of
    inputs.
    """
    from sparse_pep.datasets import load_classification, load_regression

    data = (
        load_classification(name)
        if name == "usps_3v5"
        else load_regression("hflights" if name == "late flights" else name)
    )
    X = data.X
    y = np.asarray(data.y, float)
    if name == "late flights":
        y = np.where(y > LATE, 1.0, -1.0)
    train, test = data.splits[split]
    np.savez(file, X=X[train], y=y[train], X_test=X[test], y_test=y[test], labels=name in LABELS)
    return X[train].shape


def scaling(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, 1 where it is constant."""
    deviation = columns.std(axis=0)
    return columns.mean(axis=0), np.where(deviation > 0.0, deviation, 1.0)


def start_of(X: np.ndarray, n_inducing: int, noise_variance: float) -> Start:
    """Unit variance, lengthscales that grow with the number of inputs, and ten rounds of k-means
    on at most 20000 rows.
    """
    rows = np.random.default_rng(0).permutation(len(X))[:20_000]
    Z, _ = kmeans2(X[rows], n_inducing, iter=10, minit="points", missing="warn", seed=0)
    return Start(1.0, np.full(X.shape[1], np.sqrt(X.shape[1])), noise_variance, Z, "matern32")


def scored(objective: Objective, best: list, n_points: int, score) -> list[dict]:
    """Places of a trace, evenly spread over the logarithm of time, the last among them; some
    have scores.
    """
    when = np.log([seconds for seconds, *_ in best])
    rows = []
    few, many = (
        {int(np.searchsorted(when, time_ - 1e-12)) for time_ in np.linspace(when[0], when[-1], n)}
        for n in (n_points, PATH)
    )
    for i in sorted(few | many):
        seconds, value, argument, evaluation = best[i]
        rows.append({"evaluation": evaluation, "seconds": seconds, "objective": value})
        if i in few:
            objective(objective.vector_of(argument))
            rows[-1] |= score(objective)
    return rows


def regression_score(objective: Objective, X: np.ndarray, y: np.ndarray, scale: float) -> dict:
    """Root mean square error and mean log density of scaled test targets, in the units of the
    targets.
    """
    mean, var = objective.predictor()(X)
    var = np.ravel(var) + objective.noise()
    error = y - np.ravel(mean)
    log_density = -0.5 * np.mean(np.log(2.0 * np.pi * var) + error**2 / var) - np.log(scale)
    return {"error": scale * float(np.sqrt(np.mean(error**2))), "log_density": float(log_density)}


def label_score(objective: Objective, X: np.ndarray, y: np.ndarray) -> dict:
    """The share of wrong labels and the mean log probability of the labels."""
    mean, var = (np.ravel(part) for part in objective.predictor()(X))
    return {
        "error": float(np.mean(np.where(mean > 0.0, 1.0, -1.0) != y)),
        "log_density": float(np.mean(log_ndtr(y * mean / np.sqrt(1.0 + var)))),
    }


def fit_row(
    system: object,
    file: str,
    n_inducing: int,
    power: float,
    limit: float,
    variant: str = "",
    unscored: bool = False,
) -> dict:
    """Train for `limit` seconds, then score unless `unscored`; `trace` has a dictionary for each
    place that is kept.
    """
    data = np.load(file)
    X, y, X_test, y_test = (np.array(data[name]) for name in ("X", "y", "X_test", "y_test"))
    begin = CLOCK()
    mean, deviation = scaling(X)
    X = np.ascontiguousarray((X - mean) / deviation)
    X_test = (X_test - mean) / deviation
    given = {"variant": variant} if variant else {}
    if data["labels"]:
        objective = system.classification(X, y, start_of(X, n_inducing, 1.0), power, **given)
        score = partial(label_score, X=X_test, y=y_test)
    else:
        level, scale = scaling(y)
        objective = system.regression(
            X, (y - level) / scale, start_of(X, n_inducing, 0.1), power, **given
        )
        score = partial(regression_score, X=X_test, y=(y_test - level) / scale, scale=float(scale))
    recorded = Recorded(objective.function(), objective.sign, begin, limit)
    with objective.session(), suppress(TimeIsUp):
        objective.minimise(recorded, 1_000_000)
    trace = scored(objective, recorded.best, 0 if unscored else SCORED[len(X) > MANY], score)
    return {
        "evaluations": len(recorded.trace),
        "seconds": recorded.trace[-1][0],
        "objective_end": recorded.best[-1][1],
        "trace": trace,
    }
