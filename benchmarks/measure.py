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
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

DIMENSIONS = 8
TRAIN_ROWS = 10_000  # that a prediction is conditioned on
TEST_ROWS = 10_000  # labels that are held out
# of training, for busy machines
CLOCK = time.process_time if os.environ.get("BENCHMARK_CLOCK") == "processor" else time.perf_counter
SETTLE = 0.3  # seconds; threads of a BLAS that was just used spin for a tenth of a second


class Start(NamedTuple):
    """Where every system starts: a kernel with a lengthscale for each input, "squared
    exponential" or "matern32", and inducing inputs.
    """

    variance: float
    lengthscale: np.ndarray
    noise_variance: float
    Z: np.ndarray
    kernel: str = "squared exponential"


class TimeIsUp(Exception):
    """Ends a training that has used its time."""


class Objective:
    """What a system has to offer: minus its log evidence over its own vector of unconstrained
    parameters.

    Attributes
    ----------
    start : ndarray (P,)
        The vector that belongs to the `Start`.
    sign : float
        −1 where what is minimised returns the log evidence itself.
    """

    start: np.ndarray
    sign = 1.0

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """(−log evidence, −gradient (P,))."""
        raise NotImplementedError

    def session(self) -> object:
        """A context that training runs in."""
        return nullcontext()

    def function(self) -> Callable:
        """What training calls, from `start` on: argument → (objective, ...)."""
        return self

    def vector_of(self, argument: object) -> np.ndarray:
        """The vector (P,) of an argument of `function`."""
        return argument

    def minimise(self, function: Callable, max_iter: int) -> int:
        """Minimise `function` from `start` and keep the parameters; the number of iterations."""
        options = {"maxiter": max_iter, "maxfun": 100 * max_iter, "ftol": 0.0, "gtol": 0.0}
        end = minimize(function, self.start, jac=True, method="L-BFGS-B", options=options)
        self(end.x)  # leaves the system with these parameters
        return end.nit

    def train(self, max_iter: int) -> tuple[int, list[tuple[float, float]]]:
        """Train from `start`; the number of iterations, and (seconds, objective) after each
        evaluation.
        """
        recorded = Recorded(self.function(), self.sign)
        return self.minimise(recorded, max_iter), recorded.trace

    def noise(self) -> float:
        """The noise variance of a regression."""
        raise NotImplementedError

    def predictor(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """predict(X) → mean and variance of f, (S,) each, with all that training data decide
        done already.
        """
        raise NotImplementedError


class Recorded:
    """A function that returns (value, more). `trace` has the seconds since `begin` and the value of
    each call; with a `limit` in seconds, `best` has (seconds, value, argument, number) of the calls
    that were lower than all before, and calls end when time is up.
    """

    def __init__(
        self,
        function: Callable,
        sign: float = 1.0,
        begin: float | None = None,
        limit: float | None = None,
    ):
        self.function = function
        self.sign = sign
        self.trace = []
        self.best = []
        self.limit = limit
        self.begin = CLOCK() if begin is None else begin

    def __call__(self, argument: object) -> tuple:
        answer = self.function(argument)
        value = self.sign * float(getattr(answer[0], "log_evidence", answer[0]))
        when = CLOCK() - self.begin
        self.trace.append((when, value))
        if self.limit is not None:
            if not self.best or value < self.best[-1][1]:
                kept = np.copy(argument) if isinstance(argument, np.ndarray) else argument
                self.best.append((when, value, kept, len(self.trace)))
            if when > self.limit:
                raise TimeIsUp
        return answer


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
        print(
            json.dumps(
                importlib.import_module("benchmarks.fits").fit_row(
                    system,
                    given.data,
                    n_inducing,
                    given.power,
                    given.budget,
                    variant,
                    given.unscored,
                )
            )
        )
        return
    budget = int(given.budget) if given.task in ("training", "classification") else given.budget
    print(json.dumps(TASKS[given.task](system, n_data, n_inducing, given.power, budget)))


if __name__ == "__main__":
    main()
