"""Energy and every gradient of sparse GP regression from disk: seconds and peak memory against the
number of rows.

    python -m benchmarks.scale --folder /tmp/rows                  # 1e5 to 1e7 rows of D = 8, 720
    MB of files a kind python -m benchmarks.scale --sizes 1e5 1e6 --kinds memmap --repeats 3
 One row a kind of file and a size: seconds of one evaluation by the clock and of all cores together
(the best of some; small sizes are repeated for three seconds), microseconds by the clock for each
row, and the peak resident memory of a fresh process that does them. Below, for each kind, the
exponents of both in N, from straight lines through the logarithms. The files are made in a folder
of their own within `--folder`, and removed. Threads: as BLAS is set up (OMP_NUM_THREADS).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.regression import DIMENSIONS, peak_memory
from sparse_pep.data.sources import ArraySource, Source
from sparse_pep.data.tables import convert_table
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_gradient

BLOCK = 100_000  # rows made at a time
LEAST_SECONDS = 3.0  # of all evaluations of a row together


def blocks(n_data: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """First row, inputs and targets of a smooth function in noise, some rows at a time."""
    rng = np.random.default_rng(0)
    for first in range(0, n_data, BLOCK):
        X = rng.normal(size=(min(BLOCK, n_data - first), DIMENSIONS))
        yield first, X, np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=len(X))


def write_memmap(folder: Path, n_data: int) -> None:
    """Two files of `numpy.save`, X.npy and y.npy."""
    arrays = [
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", shape=shape)
        for name, shape in (("X", (n_data, DIMENSIONS)), ("y", (n_data,)))
    ]
    for first, *values in blocks(n_data):
        for array, part in zip(arrays, values, strict=True):
            array[first : first + len(part)] = part


def write_parquet(folder: Path, n_data: int) -> None:
    """One Parquet file, rows.parquet, a group of rows for each block."""
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    names = [*(f"x{d}" for d in range(DIMENSIONS)), "y"]
    schema = arrow.schema([(name, arrow.float64()) for name in names])
    with ParquetWriter(folder / "rows.parquet", schema) as writer:
        for _, X, y in blocks(n_data):
            columns = [arrow.array(column) for column in (*np.ascontiguousarray(X.T), y)]
            writer.write_table(arrow.table(columns, schema=schema))


WRITERS = {"memmap": write_memmap, "parquet": write_parquet}


def source_of(kind: str, folder: Path) -> Source:
    """The files of a folder as a source."""
    if kind == "parquet":
        return convert_table(folder / "rows.parquet", target="y", cache_dir=folder)
    X, y = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in "Xy")
    return ArraySource(X, y)


def evaluate(
    kind: str, folder: str, n_inducing: int, power: float, repeats: int
) -> tuple[float, float, float]:
    """Least seconds of an evaluation by the clock and of the cores, and the peak memory of this
    process in MB.
    """
    source = source_of(kind, Path(folder))
    spent = []
    Z = np.random.default_rng(1).normal(size=(n_inducing, DIMENSIONS))
    model = Model(
        SquaredExponential(1.0, np.full(DIMENSIONS, 2.0)), InducingPoints(Z), Gaussian(0.1)
    )
    while len(spent) < repeats or sum(clock for clock, _ in spent) < LEAST_SECONDS:
        start = time.perf_counter(), time.process_time()
        model_gradient(model, Problem(source, power, jitter=1e-8))
        spent.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return *(min(each) for each in zip(*spent, strict=True)), peak_memory()


def evaluate_afresh(*given: object) -> tuple[float, ...]:
    """`evaluate` in a process of its own."""
    code = f"from benchmarks.scale import evaluate\nprint(*evaluate(*{given!r}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return tuple(map(float, done.stdout.split()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder",
        help="where the files are made; the system's folder for temporary files by default",
    )
    parser.add_argument(
        "--sizes", nargs="+", default=["1e5", "3e5", "1e6", "3e6", "1e7"], metavar="N"
    )
    parser.add_argument("--kinds", nargs="+", choices=sorted(WRITERS), default=sorted(WRITERS))
    parser.add_argument("--inducing", type=int, default=100, metavar="M")
    parser.add_argument("--power", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    sizes = [int(float(size)) for size in arguments.sizes]
    print(
        f"{'kind':>8} {'N':>9} {'M':>5} {'power':>6} {'seconds':>8} {'of cores':>9} "
        f"{'us a row':>9} {'peak MB':>8}"
    )
    for kind in arguments.kinds:
        seconds = []
        for n_data in sizes:
            with tempfile.TemporaryDirectory(prefix="rows-", dir=arguments.folder) as folder:
                WRITERS[kind](Path(folder), n_data)
                how = arguments.inducing, arguments.power, arguments.repeats
                clock, cores, peak = evaluate_afresh(kind, folder, *how)
            seconds.append((clock, cores))
            print(
                f"{kind:>8} {n_data:9d} {arguments.inducing:5d} {arguments.power:6.2f} "
                f"{clock:8.2f} "
                f"{cores:9.2f} {1e6 * clock / n_data:9.2f} {peak:8.0f}",
                flush=True,
            )
        if len(sizes) > 1:
            clock, cores = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
            print(
                f"{kind:>8} exponents of the cost in N: {clock:.3f} by the clock, "
                f"{cores:.3f} of all cores"
            )


if __name__ == "__main__":
    main()
