"""Evidence and every gradient with blocks, timed against the same without blocks in the same
process.

    python -m benchmarks.blocks                          # blocks of 50 at (10000, 200), powers 0,
    0.5 and 1 python -m benchmarks.blocks --block-sizes 1 10 50 --sizes 10000x200
 One row a size of block and power: milliseconds without and with blocks (medians of alternating
runs), and their ratio. Threads: as BLAS is set up (OMP_NUM_THREADS). `--cpu` counts processor time
in place of wall time: for a machine that others use too.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.regression import problem
from sparse_pep.inference import Problem, Rows
from sparse_pep.model import model_gradient


def seconds(work: Callable, clock: Callable) -> float:
    """Time of one call."""
    start = clock()
    work()
    return clock() - start


def compare(
    size: str, block_size: int, power: float, repeats: int, clock: Callable
) -> tuple[float, float]:
    """Median seconds without and with blocks, in runs that alternate."""
    n_data, n_inducing = map(int, size.split("x"))
    model, X, y = problem(n_data, n_inducing)
    blocks = np.arange(n_data) // block_size
    times = ([], [])
    for _ in range(repeats):
        for record, given in zip(times, (None, blocks), strict=True):
            blocked = Problem(Rows(X, y, blocks=given), power, jitter=1e-8)
            work = partial(model_gradient, model, blocked)
            work()  # not counted: caches warm up
            record.append(min(seconds(work, clock) for _ in range(3)))
    return tuple(float(np.median(record)) for record in times)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=["10000x200"], metavar="NxM")
    parser.add_argument("--block-sizes", nargs="+", type=int, default=[50])
    parser.add_argument("--powers", nargs="+", type=float, default=[0.0, 0.5, 1.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", action="store_true")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu else time.perf_counter
    print(f"{'NxM':>12} {'block':>6} {'power':>6} {'without ms':>11} {'with ms':>9} {'ratio':>6}")
    for size in arguments.sizes:
        for block_size in arguments.block_sizes:
            for power in arguments.powers:
                without, with_blocks = compare(size, block_size, power, arguments.repeats, clock)
                print(
                    f"{size:>12} {block_size:6d} {power:6.2f} {1e3 * without:11.1f} "
                    f"{1e3 * with_blocks:9.1f} {with_blocks / without:6.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
