"""One row of the suite, measured in a process of its own; `benchmarks.peers` starts it, in the
interpreter of each system.

    python -m benchmarks.measure ours energy --size 10000x100 --power 0.5      # prints the row as
    JSON
 Tasks: `energy` (evidence and all gradients), `training` (regression), `classification` (training,
probit), `prediction` (mean and variance of f), `fit` (real data of a file, in `benchmarks.fits`).
Data, start, clock, floor and optimiser are the same for all systems; they need NumPy and SciPy
only.
"""

import argparse
import importlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy.special import log_ndtr

from benchmarks.fits import fit_row
from benchmarks.objective import Objective, Start

DIMENSIONS = 8
TRAIN_ROWS = 10_000  # that a prediction is conditioned on
TEST_ROWS = 10_000  # labels that are held out
SETTLE = 0.3  # seconds; threads of a BLAS that was just used spin for a tenth of a second


def regression_data(n_data: int, n_inducing: int) -> tuple[np.ndarray, np.ndarray, Start]:
    """A smooth function in noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_data, DIMENSIONS))
    y = np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=n_data)
    return X, y, Start(1.0, np.full(DIMENSIONS, 2.0), 0.1, X[:n_inducing].copy())


def classification_data(n_data: int, n_inducing: int) -> tuple[np.ndarray, np.ndarray, Start]:
    """Labels −1 and 1 of a smooth function with probit noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_data, DIMENSIONS))
    f = 2.0 * np.sin(X[:, :4]).sum(axis=1) + X[:, 4] * X[:, 5]
    y = np.where(f + rng.normal(size=n_data) > 0.0, 1.0, -1.0)
    return X, y, Start(1.0, np.full(DIMENSIONS, np.sqrt(DIMENSIONS)), 1.0, X[:n_inducing].copy())


def memory(kind: str) -> float:
    """Resident memory of this process in MB: `VmRSS` now, `VmHWM` at most so far; NaN where the
    system does not tell.
    """
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1e3
    return float("nan")


def forget_peak() -> float:
    """Resident memory now, in MB; the peak is counted from here on."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def against_floor(
    work: Callable, columns: int, n_inducing: int, session: Callable, budget: float
) -> dict:
    """Times of `work` and of a dgemm of 2·columns·M² flops, in turns, until the budget in seconds
    is used: at least 2, at most 9 turns.
    """
    rng = np.random.default_rng(1)
    A = rng.random((n_inducing, n_inducing))
    K = rng.random((n_inducing, columns))
    floor = []
    ours = []
    begin = time.perf_counter()
    while len(ours) < 2 or (len(ours) < 9 and time.perf_counter() - begin < budget):
        time.sleep(SETTLE)
        A @ K  # not counted: caches warm up
        floor.append(min(seconds(lambda: A @ K) for _ in range(3)))
        time.sleep(SETTLE)
        with session():
            first = seconds(work)
            again = 2 if first < 0.5 else 0
            ours.append(min([first, *(seconds(work) for _ in range(again))]))
    best = {"seconds": min(ours), "floor_seconds": min(floor), "ratio": min(ours) / min(floor)}
    return best | {"median_seconds": float(np.median(ours)), "turns": len(ours)}


def energy_row(system: object, n_data: int, n_inducing: int, power: float, budget: float) -> dict:
    """Evidence and gradient at the start."""
    X, y, start = regression_data(n_data, n_inducing)
    before = forget_peak()
    objective = system.regression(X, y, start, power)
    row = {}
    with objective.session():
        row["first_seconds"] = seconds(lambda: row.update(objective=objective(objective.start)[0]))
        objective(objective.start)
    row["peak_mb"] = memory("VmHWM") - before
    steps = iter(range(1, 1_000_000))  # never the same point twice, lest an answer be remembered
    work = lambda: objective(objective.start + 1e-7 * next(steps))
    return row | against_floor(work, n_data, n_inducing, objective.session, budget)


def trained(objective: Objective, max_iter: int, before: float) -> dict:
    """Training after one evaluation that is not counted; `trace` is the lowest objective so far
    after each evaluation.
    """
    row = {}
    with objective.session():
        row["first_seconds"] = seconds(lambda: row.update(objective=objective(objective.start)[0]))
    time.sleep(SETTLE)
    row["seconds"] = seconds(lambda: row.update(end=objective.train(max_iter)))
    row["iterations"], trace = row.pop("end")
    values = np.minimum.accumulate([value for _, value in trace])
    row |= {
        "evaluations": len(trace),
        "objective_end": float(values[-1]),
        "peak_mb": memory("VmHWM") - before,
    }
    return row | {
        "trace": [(when, value) for (when, _), value in zip(trace, values.tolist(), strict=True)]
    }


def training_row(system: object, n_data: int, n_inducing: int, power: float, max_iter: int) -> dict:
    """Training of a regression."""
    X, y, start = regression_data(n_data, n_inducing)
    before = forget_peak()
    return trained(system.regression(X, y, start, power), max_iter, before)


def classification_row(
    system: object, n_data: int, n_inducing: int, power: float, max_iter: int
) -> dict:
    """Training of a probit classifier, and the mean of −log p(label) of rows that are held out."""
    X, y, start = classification_data(n_data + TEST_ROWS, n_inducing)
    before = forget_peak()
    objective = system.classification(X[:n_data], y[:n_data], start, power)
    row = trained(objective, max_iter, before)
    mean, var = objective.predictor()(X[n_data:])
    return row | {"log_loss": float(-np.mean(log_ndtr(y[n_data:] * mean / np.sqrt(1.0 + var))))}


def prediction_row(
    system: object, n_test: int, n_inducing: int, power: float, budget: float
) -> dict:
    """Mean and variance of f at new inputs; the sums of both tell whether systems agree."""
    X, y, start = regression_data(TRAIN_ROWS, n_inducing)
    X_test = np.random.default_rng(2).normal(size=(n_test, DIMENSIONS))
    objective = system.regression(X, y, start, power)
    row = {}
    with objective.session():
        objective(objective.start)
        predict = objective.predictor()
        before = forget_peak()
        row["first_seconds"] = seconds(lambda: row.update(answer=predict(X_test)))
        mean, var = row.pop("answer")
        row |= {
            "peak_mb": memory("VmHWM") - before,
            "mean_square": float(np.mean(mean**2)),
            "mean_variance": float(np.mean(var)),
        }
        del mean, var
    return row | against_floor(
        lambda: predict(X_test), n_test, n_inducing, objective.session, budget
    )


TASKS = {
    "energy": energy_row,
    "training": training_row,
    "classification": classification_row,
    "prediction": prediction_row,
}


def main() -> None:
    """Measure one row and print it, or print the versions of a system."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "system",
        help="ours, gpflow, gpytorch, gpjax, gpy, gpboost; a variant follows a hyphen: "
        "ours-local, gpboost-vecchia",
    )
    parser.add_argument("task", choices=[*TASKS, "fit", "versions"])
    parser.add_argument(
        "--size", default="10000x100", metavar="NxM", help="of a prediction: rows to predict x M"
    )
    parser.add_argument("--power", type=float, default=0.0)
    parser.add_argument(
        "--budget",
        type=float,
        default=8.0,
        help="seconds of repeats or of a fit; of training: iterations",
    )
    parser.add_argument("--data", help="of a fit: the file that `benchmarks.fits.prepare` wrote")
    parser.add_argument("--unscored", action="store_true", help="of a fit: the objective alone")
    given = parser.parse_args()
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count()))
    if hasattr(os, "sched_setaffinity"):  # some libraries count cores and listen to no variable
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    name, _, variant = given.system.partition("-")
    system = importlib.import_module(f"benchmarks.systems.{name}")
    system.use_threads(threads)
    if given.task == "versions":
        print(json.dumps(system.versions() | {"numpy": np.__version__}))
        return
    n_data, n_inducing = map(int, given.size.split("x"))
    if given.task == "fit":
        row = fit_row(
            system,
            given.data,
            n_inducing,
            given.power,
            given.budget,
            variant=variant,
            unscored=given.unscored,
        )
        print(json.dumps(row))
        return
    budget = int(given.budget) if given.task in ("training", "classification") else given.budget
    print(json.dumps(TASKS[given.task](system, n_data, n_inducing, given.power, budget)))


if __name__ == "__main__":
    main()
