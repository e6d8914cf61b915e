"""Even and odd digits, with stochastic training."""

import gzip

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep.datasets import data_directory
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Probit
from sparse_pep.model import Model, model_predict, predictive_log_density
from sparse_pep.training import Adam, TrainingOptions, kmeans_points, train
from studies.common import (
    ENDS,
    FIVE_POWERS,
    at_hand,
    formatted,
    grid_of,
    study_name,
    train_and_test,
)
from studies.runner import Study


def read_idx(name: str, start: int) -> np.ndarray:
    """The bytes of a file of MNIST after its header."""
    return np.frombuffer(
        gzip.decompress((data_directory() / "mnist" / name).read_bytes()), np.uint8, offset=start
    )


def data(name: str) -> tuple[np.ndarray, ...]:
    """X_train, y_train, X_test, y_test of "mnist" or "digits": pixels between 0 and 1; 1 for an
    even digit, −1 for an odd one.
    """
    if name == "digits":
        X, y, X_test, y_test = train_and_test("digits")
        return (
            X / 16.0,
            np.where(y % 2 == 0, 1, -1),
            X_test / 16.0,
            np.where(y_test % 2 == 0, 1, -1),
        )
    found = []
    for part in ("train", "t10k"):
        images = read_idx(f"{part}-images-idx3-ubyte.gz", 16)
        digits = read_idx(f"{part}-labels-idx1-ubyte.gz", 8)
        found += [images.reshape(len(digits), 784) / 255.0, np.where(digits % 2 == 0, 1, -1)]
    return tuple(found)


def start_of(X: np.ndarray, M: int, rng: np.random.Generator) -> Model:
    """The model before training: k-means points, and one lengthscale for all pixels."""
    kernel = SquaredExponential(4.0, np.full(X.shape[1], 0.18 * np.sqrt(X.shape[1])))
    return Model(kernel, InducingPoints(kmeans_points(X, M, rng)), Probit())


def scores(model: Model, posteriors: list, X: np.ndarray, y: np.ndarray) -> dict:
    """The fraction of wrong test labels, and the mean of −log p(y)."""
    mean, var = model_predict(model, posteriors, X)
    nll = -float(np.mean(predictive_log_density(model.likelihood, y.astype(float), mean, var)))
    return {"error": float(np.mean(y != np.where(mean > 0.0, 1, -1))), "nll": nll}


def fit(job: dict, n_epochs: int, batch_size: int) -> list[dict]:
    """A row for each pass over the data; `log_marginal_likelihood` is an estimate from the
    batches, except in the last.
    """
    X, y, *test = data(job["data"])
    rng = np.random.default_rng(job["seed"])
    rows = []

    def record(epoch: object) -> None:
        row = {
            "epoch": epoch.number,
            "log_marginal_likelihood": epoch.objective,
            "seconds": epoch.seconds,
        }
        rows.append(row | scores(epoch.model, epoch.posteriors, *test))

    piece = Rows(X, y.astype(float))
    start = start_of(X, job["M"], rng)
    training = Adam(batch_size=batch_size, n_epochs=n_epochs, tol=1e-3)
    result = train(
        start,
        Problem(piece, job["power"], jitter=1e-6),
        TrainingOptions(training, callback=record),
        rng=rng,
    )
    rows[-1] |= {"log_marginal_likelihood": result.log_evidence, "converged": result.converged}
    return rows


def study(size: str) -> Study:
    """60000 images, with 100 and 200 inducing points; a quick study has small images."""
    powers, counts, n_epochs, batch_size = {
        "quick": ((0.5,), (20,), 5, 200),
        "standard": (ENDS, (100, 200), 30, 1000),
        "full": (FIVE_POWERS, (100, 200), 60, 1000),
    }[size]
    name = "mnist" if at_hand() and size != "quick" else "digits"
    return Study(
        study_name("mnist", size),
        grid_of([name], 1, powers, counts),
        fit,
        {"n_epochs": n_epochs, "batch_size": batch_size},
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The scores of each fit after its last pass."""
    ends = rows[rows["epoch"] == rows["epoch"].max()].set_index(["data", "M", "power"])
    specs = {
        "epoch": "d",
        "log_marginal_likelihood": ".0f",
        "error": ".4f",
        "nll": ".4f",
        "seconds": ".0f",
    }
    return {"after the last pass": formatted(ends, specs)}


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Error and loss after each pass, with a line for each power, dashed for the smaller M."""
    figure = Figure(figsize=(11.0, 4.0), layout="constrained")
    styles = dict(zip(np.unique(rows["M"])[::-1], ("-", "--"), strict=False))
    colors = dict(zip(np.unique(rows["power"]), ("C0", "C2", "C1", "C3", "C4"), strict=False))
    for ax, score in zip(figure.subplots(1, 2), ("error", "nll"), strict=True):
        for (M, power), one in rows.groupby(["M", "power"]):
            ax.plot(
                one["epoch"],
                one[score],
                label=f"power {power:g}, M = {M}",
                ls=styles[M],
                color=colors[power],
            )
        ax.set(xlabel="passes over the data", ylabel=score, yscale="log")
    ax.legend()
    return {"passes": figure}
