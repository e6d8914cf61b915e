"""Energy and every gradient of sparse GP regression, and prediction, timed against a dgemm of 2NM²
flops in the same process.

    python -m benchmarks.regression                      # the three standard sizes, powers 0, 0.5
    and 1 python -m benchmarks.regression --sizes 10000x100 --powers 0.5 --repeats 20 python -m
    benchmarks.regression --sizes --predict 100000x200      # mean and variance at 100000 points
 One row a size and power (of prediction a size): milliseconds of the floor and of the evaluation
(the best of alternating runs; the evaluation as training does it, under one hold on BLAS), their
ratio, and the peak memory of a fresh process that holds the data and does two evaluations, beyond
the same process with the data alone. Threads: as BLAS is set up (OMP_NUM_THREADS).
"""

import argparse
import resource
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_evidence, model_gradient, model_predict
from sparse_pep.numerics.threads import one_blas_thread

DIMENSIONS = 8
LEARNED = 5000  # data behind a prediction
SETTLE = 0.3  # seconds; threads of a BLAS that was just used spin for a tenth of a second


def problem(n_data: int, n_inducing: int) -> tuple[Model, np.ndarray, np.ndarray]:
    """A model with ARD kernel and inputs, targets of a smooth function in noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_data, DIMENSIONS))
    y = np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=n_data)
    kernel = SquaredExponential(1.0, np.full(DIMENSIONS, 2.0))
    return Model(kernel, InducingPoints(X[:n_inducing].copy()), Gaussian(0.1)), X, y


def seconds(work) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(n_data: int, n_inducing: int, power: float, repeats: int) -> tuple[float, float]:
    """Least seconds of the floor and of one evaluation."""
    model, X, y = problem(n_data, n_inducing)
    return alternate(
        n_data,
        n_inducing,
        lambda: model_gradient(model, Problem(Rows(X, y), power, jitter=1e-8)),
        repeats,
    )


def compare_prediction(n_points: int, n_inducing: int, repeats: int) -> tuple[float, float]:
    """Least seconds of the floor and of predicting mean and variance at `n_points` inputs."""
    model, X, y = problem(max(n_points, LEARNED), n_inducing)
    fit = model_evidence(model, Problem(Rows(X[:LEARNED], y[:LEARNED]), 0.5, jitter=1e-8))
    tests = X[:n_points]
    return alternate(
        n_points, n_inducing, lambda: model_predict(model, fit.posteriors, tests), repeats
    )


def alternate(n_data: int, n_inducing: int, evaluation, repeats: int) -> tuple[float, float]:
    """Least seconds of the floor and of `evaluation`, measured in blocks that alternate so that
    both see the same machine.
    """
    A = np.random.default_rng(1).random((n_inducing, n_inducing))
    K = np.random.default_rng(2).random((n_inducing, n_data))

    def floor():
        return A @ K

    times = {floor: [], evaluation: []}
    for _ in range(repeats):
        for work, record in times.items():
            time.sleep(SETTLE)
            with one_blas_thread() if work is evaluation else nullcontext():
                work()  # not counted: caches warm up
                record += [seconds(work) for _ in range(3)]
    return min(times[floor]), min(times[evaluation])


def peak_memory() -> float:
    """Peak resident memory of this process, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would start from the peak of the parent process
        return (
            next(int(line.split()[1]) for line in status.open() if line.startswith("VmHWM")) / 1e3
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )


def peak_megabytes(n_data: int, n_inducing: int, power: float, evaluations: int) -> float:
    """Peak resident memory of a fresh process that makes the data and does some evaluations, in
    MB.
    """
    code = (
        "from benchmarks.regression import *\n"
        f"model, X, y = problem({n_data}, {n_inducing})\n"
        f"for _ in range({evaluations}):\n"
        f"    model_gradient(model, Problem(Rows(X, y), {power}, jitter=1e-8))\n"
        "print(peak_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", nargs="*", default=["10000x100", "10000x500", "100000x200"], metavar="NxM"
    )
    parser.add_argument("--powers", nargs="+", type=float, default=[0.0, 0.5, 1.0])
    parser.add_argument(
        "--predict",
        nargs="*",
        default=["100000x200"],
        metavar="SxM",
        help="points and inducing points",
    )
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    print(
        f"{'N':>9} {'M':>5} {'power':>6} {'floor ms':>9} {'ours ms':>9} {'ratio':>6} "
        f"{'peak MB':>8} {'beyond data':>12}"
    )
    for size in arguments.sizes:
        n_data, n_inducing = map(int, size.split("x"))
        data_alone = peak_megabytes(n_data, n_inducing, 0.0, evaluations=0)
        for power in arguments.powers:
            floor, ours = compare(n_data, n_inducing, power, arguments.repeats)
            peak = peak_megabytes(n_data, n_inducing, power, evaluations=2)
            print(
                f"{n_data:9d} {n_inducing:5d} {power:6.2f} {1e3 * floor:9.2f} "
                f"{1e3 * ours:9.2f} {ours / floor:6.2f} "
                f"{peak:8.0f} {peak - data_alone:12.0f}",
                flush=True,
            )
    for size in arguments.predict:
        n_points, n_inducing = map(int, size.split("x"))
        floor, ours = compare_prediction(n_points, n_inducing, arguments.repeats)
        print(
            f"{n_points:9d} {n_inducing:5d} {'f':>6} {1e3 * floor:9.2f} {1e3 * ours:9.2f} "
            f"{ours / floor:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
