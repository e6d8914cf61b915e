"""Several classes: one joint posterior or one for each, beside Laplace's method and boosting."""

from collections.abc import Sequence
from functools import partial
from time import process_time

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from sparse_pep import LBFGS, SparsePEPClassifier
from sparse_pep.likelihoods import Softmax
from studies.common import study_name
from studies.runner import Study

METHODS = ("joint", "product", "laplace, one against the rest", "boosting")


class ProductSoftmax(Softmax):
    """The softmax with a posterior for each class."""

    is_coupled = False


class JointSoftmax(Softmax):
    """The softmax with one posterior for all classes, however many there are."""

    is_coupled = True


def three_regions() -> tuple[np.ndarray, np.ndarray]:
    """Labels of three classes whose probabilities change slowly."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (400, 2))
    f = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1]), 0.5 * X[:, 0] - 0.3 * X[:, 1]], axis=1)
    return X, np.argmax(2.0 * f + rng.gumbel(size=f.shape), axis=1)


def regions(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels of classes around places in a plane, with overlap."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 2))
    places = 1.2 * rng.normal(size=(n_classes, 2))
    f = -1.5 * np.sum((X[:, None] - places) ** 2, axis=2)
    labels = np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    return X, np.unique(labels, return_inverse=True)[1]


def some_digits() -> tuple[np.ndarray, np.ndarray]:
    """Five hundred of the images of digits."""
    X, y = load_digits(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(y))[:500]
    return X[chosen], y[chosen]


SETS = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "separated": lambda: make_blobs(150, centers=3, cluster_std=1.5, random_state=3),
    "three regions": three_regions,
    "six regions": partial(regions, 6),
    "digits": some_digits,
    "fifteen regions": partial(regions, 15),
}


def method_of(job: dict, max_iter: int) -> object:
    """The classifier of a job."""
    n_classes = len(np.unique(SETS[job["data"]]()[1]))
    if job["method"] == "boosting":
        return HistGradientBoostingClassifier(random_state=0)
    if job["method"].startswith("laplace"):
        return GaussianProcessClassifier(ConstantKernel(1.0) * RBF(1.0), random_state=0)
    kind = JointSoftmax if job["method"] == "joint" else ProductSoftmax
    return SparsePEPClassifier(
        likelihood=kind(n_classes),
        n_inducing=job["M"],
        power=0.5,
        random_state=0,
        training=LBFGS(max_iter=max_iter),
    )


def calibration_error(proba: np.ndarray, right: np.ndarray) -> float:
    """The mean difference of confidence and accuracy over ten bins of the confidence."""
    confidence = proba.max(axis=1)
    bins = np.minimum((10.0 * confidence).astype(int), 9)
    apart = np.bincount(bins, confidence - right, 10)
    return float(np.abs(apart).sum() / len(right))


def fit(job: dict, max_iter: int) -> list[dict]:
    """The row of one fit; times are those of the processor, in seconds."""
    X, y = SETS[job["data"]]()
    splits = StratifiedShuffleSplit(n_splits=1, test_size=0.4, random_state=job["split"])
    ((train, test),) = splits.split(X, y)
    scaler = StandardScaler().fit(X[train])
    X = scaler.transform(X)
    model = method_of(job, max_iter)
    begun = process_time()
    model.fit(X[train], y[train])
    seconds = process_time() - begun
    proba = np.maximum(model.predict_proba(X[test]), 1e-12)
    labels = np.arange(proba.shape[1])[:, None] == y[test]
    evidence = getattr(model, "log_marginal_likelihood_value_", np.nan)
    return [
        {
            "evidence": float(np.sum(evidence)),
            "nll": log_loss(proba, labels),
            "brier": float(np.mean(np.sum((proba - labels.T) ** 2, axis=1))),
            "error": float(np.mean(np.argmax(proba, axis=1) != y[test])),
            "calibration": calibration_error(proba, np.argmax(proba, axis=1) == y[test]),
            "seconds": seconds,
            "converged": bool(getattr(model, "converged_", True)),
        }
    ]


def log_loss(proba: np.ndarray, labels: np.ndarray) -> float:
    """Minus the mean log probability of the labels (C, n), in nats."""
    return float(-np.mean(np.log(np.sum(proba * labels.T, axis=1))))


def study(size: str) -> Study:
    """Seven data sets, random splits, 30 inducing points."""
    quick = size == "quick"
    n_splits = {"quick": 1, "standard": 3, "full": 10}[size]
    sets = ("iris", "three regions") if quick else tuple(SETS)
    jobs = [
        {"data": name, "split": split, "method": method, "M": 30}
        for split in range(n_splits)
        for name in sets
        for method in METHODS
    ]
    return Study(study_name("classes", size), jobs, fit, {"max_iter": 50 if quick else 80})


def means(rows: pd.DataFrame, score: str) -> pd.DataFrame:
    """The mean of a score over splits, in a row for each data set and a column for each method."""
    table = rows.pivot_table(index="data", columns="method", values=score, sort=False)
    return table.reindex(columns=[name for name in METHODS if name in table])


SCORES: Sequence[tuple[str, str, int]] = (
    ("evidence", "log evidence, nats", 1),
    ("nll", "log loss, nats per row", 4),
    ("brier", "Brier score", 4),
    ("calibration", "calibration error", 3),
    ("seconds", "processor time, s", 2),
)


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """A table for each score."""
    return {title: means(rows, score).round(places) for score, title, places in SCORES}


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """The log loss of each method above the joint form, for each data set."""
    table = means(rows, "nll")
    figure = Figure(figsize=(6.0, 3.0), layout="constrained")
    ax = figure.subplots()
    for method, marker in zip(table.columns, "osDv", strict=False):
        ax.plot(table[method] - table["joint"], range(len(table)), marker, label=method)
    ax.set_yticks(range(len(table)), table.index)
    ax.set(xlabel="log loss above that of the joint form, nats per row")
    figure.legend(loc="outside right upper", fontsize=8)
    return {"log_loss": figure}
