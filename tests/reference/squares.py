"""A study whose jobs are squares, in a module of its own that worker processes import quickly."""

import os
import time
from itertools import count
from pathlib import Path

from sparse_pep.studies.runner import Study, seed_of

COLUMNS = ("x", "seed", "square", "converged", "seconds")


def until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def is_mine(path):
    """Whether this call has made the file."""
    try:
        path.open("x").close()
    except FileExistsError:
        return False
    return True


def square(job, trace, offset=0.0):
    """One row. Leaves the number of its process under `trace`; a file `hold` there stops all calls but the first three."""
    trace = Path(trace)
    turn = next(k for k in count() if is_mine(trace / f"turn{k}"))
    with open(trace / f"call{job['x']}", "a") as file:
        file.write(f"{os.getpid()}\n")
    while turn >= 3 and (trace / "hold").exists():
        time.sleep(0.01)
    row = {"square": (0.1 * job["x"]) ** 2 + offset, "converged": job["x"] != 1}
    return [row | {"seconds": time.perf_counter()}]


def dying(job, trace, offset=0.0):
    """Job 0 ends its process, once three others are written; these say how many BLAS threads there are."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    if job["x"] == 0:
        until(lambda: len(list(Path(trace).parent.glob("results/squares.parts/*.csv"))) >= 3)
        os._exit(1)
    counts = {pool["num_threads"] for pool in threadpool_info()} | {int(os.environ["OMP_NUM_THREADS"])}
    return [{"square": max(counts)}]


def squares(trace, work=square, n=8, offset=0.0):
    jobs = [{"x": x, "seed": seed_of("squares", x)} for x in range(n)]
    return Study("squares", jobs, work, COLUMNS, {"offset": offset}, local={"trace": str(trace)})
