"""One evaluation of the bound of power 0 with every gradient, on an accelerator and on the processor, beside GPyTorch and GPJax.

    python -m benchmarks.accelerators --out accelerators.csv       # on a machine with a GPU; systems that are missing are skipped
    python -m benchmarks.accelerators --sizes 100000x500 --systems ours

A row: who, where, precision, N, M, power, seconds (the best of three after a first one), and for ours in single precision what it
differs by from double precision at the same jitter. Each row has a process of its own with a limit of time; a row without a
number says why in `note`.
"""

import argparse
import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.measure import regression_data

SIZES = ("100000x200", "100000x1000", "100000x4000", "1000000x200", "1000000x1000", "10000000x200")
SYSTEMS = ("ours", "gpytorch", "gpjax")
COLUMNS = ("system", "place", "dtype", "N", "M", "power", "seconds", "first_seconds", "evidence", "evidence_error", "gradient_error", "note")


def best(work: Callable[[], object]) -> dict:
    """Seconds of the first call, and of the best of three more."""
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - begin)
    return {"first_seconds": times[0], "seconds": min(times[1:]), "answer": answer}


def ours(place: str, dtype: str, n_data: int, n_inducing: int, power: float) -> dict:
    """Our evaluation; `place` is "host" or a device of `place_named`."""
    from sparse_pep.features import InducingPoints
    from sparse_pep.kernels import SquaredExponential
    from sparse_pep.likelihoods import Gaussian
    from sparse_pep.model import Model, model_gradient, to_vector
    from sparse_pep.numerics.devices import place_named
    from sparse_pep.shards import Piece

    X, y, start = regression_data(n_data, n_inducing)
    model = Model(SquaredExponential(start.variance, start.lengthscale), InducingPoints(start.Z), Gaussian(start.noise_variance))
    jitter = 1e-8 if dtype == "float64" else 1e-4

    def evaluation(rows: object) -> tuple[float, np.ndarray]:
        fit, gradient = model_gradient(model, Piece(0, rows, y), power, jitter=jitter)
        return fit.log_evidence, to_vector(gradient)

    put = (lambda dtype: X) if place == "host" else (lambda dtype: place_named(place, dtype).put(X))
    rows = put(dtype)
    row = best(lambda: evaluation(rows))
    value, slope = row.pop("answer")
    row["evidence"] = value
    if dtype == "float32":
        exact, exact_slope = evaluation(put("float64"))
        row["evidence_error"] = abs(value - exact) / n_data
        row["gradient_error"] = np.max(np.abs(slope - exact_slope)) / np.max(np.abs(exact_slope))
    return row


def gpytorch(place: str, dtype: str, n_data: int, n_inducing: int, power: float) -> dict:
    """GPyTorch's InducingPointKernel."""
    import gpytorch
    import torch

    from benchmarks.systems.gpytorch import Sparse

    X, y, start = regression_data(n_data, n_inducing)
    kind, where = getattr(torch, dtype), torch.device("cpu" if place == "host" else place.removeprefix("torch:"))
    data = [torch.from_numpy(a).to(where, kind) for a in (X, y)]
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = start.noise_variance
    model = Sparse(*data, start, likelihood).to(where, kind)
    bound = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()

    def evaluation() -> float:
        bound.zero_grad()
        value = n_data * bound(model(data[0]), data[1])
        value.backward()
        return float(value)

    row = best(evaluation)
    return row | {"evidence": row.pop("answer")}


def gpjax(place: str, dtype: str, n_data: int, n_inducing: int, power: float) -> dict:
    """GPJax's collapsed bound, compiled."""
    import jax

    jax.config.update("jax_enable_x64", dtype == "float64")
    jax.config.update("jax_platforms", "cpu" if place == "host" else "cuda")
    from benchmarks.systems.gpjax import regression

    objective = regression(*regression_data(n_data, n_inducing), 0.0)
    row = best(lambda: objective(objective.start))
    return row | {"evidence": -row.pop("answer")[0]}


def planned(sizes: list[str], systems: list[str], device: str) -> list[list[str]]:
    """The arguments of each row."""
    rows = []
    for size in sizes:
        for system in systems:
            for dtype in ("float64", "float32"):
                rows += [[system, device, dtype, size, power] for power in (("0.0", "0.5") if system == "ours" else ("0.0",))]
        rows += [["ours", "host", "float64", size, "0.0"]]
    return rows


def measured(arguments: list[str], limit: float) -> dict:
    """A row, made by a process of its own."""
    system, place, dtype, size, power = arguments
    row = dict(zip(("N", "M"), map(int, size.split("x"))), system=system, place=place, dtype=dtype, power=power)
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.accelerators", "--row", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return row | {"note": f"more than {limit:g} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["killed"]
        return row | {"note": "out of memory" if "emory" in done.stderr or "RESOURCE" in done.stderr else lines[-1][:150]}
    return row | json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """The rows, written after each one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("accelerators.csv"))
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--device", default="torch:cuda")
    parser.add_argument("--limit", type=float, default=60.0, help="most seconds a row")
    parser.add_argument("--row", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        system, place, dtype, size, power = given.row
        print(json.dumps(globals()[system](place, dtype, *map(int, size.split("x")), float(power))))
        return
    rows = []
    for arguments in planned(given.sizes, given.systems, given.device):
        rows.append(measured(arguments, given.limit))
        print(*(f"{name}={rows[-1][name]}" for name in COLUMNS if name in rows[-1]), flush=True)
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
