"""Ours against GPflow, GPyTorch, GPJax, GPy and GPBoost, and against a dgemm: the tables behind the
page "How fast it is".

    python -m benchmarks.peers --quick                       # some minutes, small sizes: does it
    run? python -m benchmarks.peers --python gpflow=/envs/tf/bin/python --python
    gpytorch=/envs/torch/bin/python python -m benchmarks.peers --tasks energy prediction     #
    again, other rows stay python -m benchmarks.peers --tasks fits --sets pol       # whole fits of
    real data, in the folder that SPARSE_PEP_DATA names
 Whatever can be imported takes part; `--python` names the interpreter of a system that lives in an
environment of its own, which needs NumPy and SciPy beside it. Each row is measured by
`benchmarks.measure` in a fresh process, one after the other, with the same data, start, number of
threads and optimiser, in float64. The first call, in which some systems compile, is in a column of
its own.
 On a busy machine BENCHMARK_CLOCK=processor in the environment, with `--threads 1`, makes training
and fits count seconds of the processor instead of those that pass.
 At the start all systems must have the same objective, and predict the same: if they do not, the
suite stops. Rows that exist are replaced, others are added to `peers.csv`, `exponents.csv`,
`traces.csv` and `fits.csv` in `nbs/about/benchmarks/`; `about.json` has versions and cores.
"""

import argparse
import csv
import datetime
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.fits import SECONDS, SETS, prepare

ROOT = Path(__file__).parents[1]
MODULES = {
    "ours": "sparse_pep",
    "gpflow": "gpflow",
    "gpytorch": "gpytorch",
    "gpjax": "gpjax",
    "gpy": "GPy",
    "gpboost": "gpboost",
}
ENERGY_POWERS = {
    "ours": (0.0, 0.5, 1.0),
    "gpflow": (0.0, 1.0),
    "gpytorch": (0.0,),
    "gpjax": (0.0,),
    "gpy": (0.0, 0.5, 1.0),
}
LABEL_POWERS = {
    "ours": (0.0, 0.5, 1.0),
    "gpflow": (0.0,),
    "gpytorch": (0.0,),
    "gpjax": (0.0,),
    "gpy": (1.0,),
}
FITS = {
    "ours": (("ours", 0.0), ("ours", 0.5), ("ours-local", 0.5)),
    "gpflow": (("gpflow", 0.0),),
    "gpytorch": (("gpytorch", 0.0),),
    "gpboost": (("gpboost-fitc", 1.0), ("gpboost-vecchia", 1.0), ("gpboost-vif", 1.0)),
}  # system → variants and powers
RACE = ("ours", 0.0), ("gpflow", 0.0)
PREDICTS_AS = {("gpytorch", 0.0): 1.0}  # its prediction adds the variance that its bound leaves out
LONG = 10  # times the iterations, for those that climb in the parameters of q too
KEYS = ("task", "system", "N", "M", "power", "budget")
COLUMNS = {
    "peers": (
        *KEYS,
        "seconds",
        "median_seconds",
        "floor_seconds",
        "ratio",
        "turns",
        "first_seconds",
        "peak_mb",
        "objective",
        "objective_end",
        "iterations",
        "evaluations",
        "log_loss",
        "mean_square",
        "mean_variance",
        "note",
    ),
    "exponents": (
        *KEYS,
        "seconds",
        "median_seconds",
        "floor_seconds",
        "ratio",
        "turns",
        "first_seconds",
        "peak_mb",
        "objective",
    ),
    "traces": (*KEYS, "evaluation", "seconds", "objective"),
    "fits": (*KEYS, "run", "evaluation", "seconds", "objective", "error", "log_density", "note"),
}
# relative; systems differ in their jitter
SAME = {"objective": 1e-4, "mean_square": 1e-3, "mean_variance": 1e-3}
STEPS = 60  # of a trace that are kept


class Row(NamedTuple):
    """What is to be measured; `budget` is seconds of repeats, or iterations of training."""

    task: str
    system: str
    N: int
    M: int
    power: float
    budget: float


class Sizes(NamedTuple):
    """How large a run is."""

    energy: tuple[tuple[int, int], ...] = ((10_000, 100), (10_000, 500), (100_000, 200))
    training: tuple[int, int] = (10_000, 100)
    classification: tuple[int, int] = (2_000, 100)
    prediction: tuple[int, int] = (100_000, 200)
    against_N: tuple[int, ...] = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    against_M: tuple[int, ...] = (50, 100, 200, 500, 1_000)
    fixed: tuple[int, int] = (10_000, 100)  # N where M varies, M where N varies
    iterations: int = 100
    seconds: float = 8.0
    fit_seconds: float = 45.0


QUICK = Sizes(
    ((2_000, 50), (4_000, 100)),
    (2_000, 50),
    (500, 30),
    (10_000, 50),
    (1_000, 3_000, 10_000),
    (25, 50, 100),
    (2_000, 50),
    20,
    1.0,
    3.0,
)


def energy_rows(sizes: Sizes, system: str) -> Iterator[Row]:
    """An evaluation of the evidence and its gradient, at every size and power."""
    for N, M in sizes.energy:
        for power in ENERGY_POWERS[system]:
            yield Row("energy", system, N, M, power, sizes.seconds)


def training_rows(sizes: Sizes, system: str) -> Iterator[Row]:
    """Training of a regression; others have power 0 only."""
    for power in ENERGY_POWERS[system] if system == "ours" else (0.0,):
        yield Row("training", system, *sizes.training, power, sizes.iterations)


def classification_rows(sizes: Sizes, system: str) -> Iterator[Row]:
    """Training of a classifier, also for longer where the parameters of q are trained too."""
    budgets = [sizes.iterations]
    if system not in ("ours", "gpy"):
        budgets.append(LONG * sizes.iterations)
    for power in LABEL_POWERS[system]:
        for budget in budgets:
            yield Row("classification", system, *sizes.classification, power, budget)


def prediction_rows(sizes: Sizes, system: str) -> Iterator[Row]:
    """Predictions of a regression."""
    for power in (0.0, 1.0) if system == "ours" else (0.0,):
        yield Row("prediction", system, *sizes.prediction, power, sizes.seconds)


PLANS = {
    "energy": energy_rows,
    "training": training_rows,
    "classification": classification_rows,
    "prediction": prediction_rows,
}


def planned(sizes: Sizes, systems: list[str], tasks: list[str]) -> Iterator[Row]:
    """All rows, those of a size together, and ours first wherever others are compared with it."""
    for task, rows_of in PLANS.items():
        if task in tasks:
            rows = [row for system in systems for row in rows_of(sizes, system)]
            yield from sorted(rows, key=lambda row: (row.N, row.M))


def growing(sizes: Sizes) -> Iterator[Row]:
    """Rows of ours that grow in N and in M."""
    N, M = sizes.fixed
    for power in (0.0, 0.5):
        yield from (
            Row("against N", "ours", n, M, power, sizes.seconds / 2) for n in sizes.against_N
        )
        yield from (
            Row("against M", "ours", N, m, power, sizes.seconds / 2) for m in sizes.against_M
        )


def child(python: str, arguments: list[str], threads: int, limit: float) -> dict:
    """What `benchmarks.measure` prints in a fresh process."""
    counts = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
    )
    environment = (
        os.environ
        | counts
        | {"TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    )
    command = [python, "-m", "benchmarks.measure", *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"note": f"more than {limit:g} s"}
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measured(row: Row, python: str, threads: int, limit: float) -> dict:
    """The row with its numbers."""
    task = "energy" if row.task.startswith("against") else row.task
    options = ["--size", f"{row.N}x{row.M}", "--power", str(row.power), "--budget", str(row.budget)]
    return row._asdict() | child(python, [row.system, task, *options], threads, limit)


def require_same(row: dict, rows: list[dict]) -> None:
    """Stop if a system has not the objective, or not the predictions, that ours has at the same
    place.
    """
    if row["task"] == "classification" or "note" in row:  # sites and q start differently
        return
    power = (
        PREDICTS_AS.get((row["system"], row["power"]), row["power"])
        if row["task"] == "prediction"
        else row["power"]
    )
    wanted = {"system": "ours", "power": power} | {key: row[key] for key in ("task", "N", "M")}
    for ours in rows:
        if all(ours[key] == value for key, value in wanted.items()):
            for name, tolerance in SAME.items():
                if name in row and abs(row[name] - ours[name]) > tolerance * abs(ours[name]):
                    raise SystemExit(
                        f"{row['system']} is not comparable: {name} {row[name]} where "
                        f"ours is {ours[name]}, at {wanted}."
                    )


def text(value: object) -> str:
    """A value as it stands in a table: enough digits to compare objectives."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def key_of(row: dict) -> tuple[str, ...]:
    """What tells rows apart."""
    return tuple(text(row[name]) for name in (*KEYS, "run") if name in row)


def write(path: Path, rows: list[dict]) -> None:
    """Rows into a table, in place of those with the same keys."""
    columns = COLUMNS[path.stem]
    old = []
    if path.exists():
        with path.open(newline="") as file:
            old = list(csv.DictReader(file))
    replaced = {key_of(row) for row in rows}
    kept = [row for row in old if key_of(row) not in replaced]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(
            [*kept, *({key: text(value) for key, value in row.items()} for row in rows)]
        )


def thinned(row: dict) -> list[dict]:
    """Some points of a trace."""
    trace = row.get("trace", [])
    places = (
        sorted({round(i * (len(trace) - 1) / STEPS) for i in range(STEPS + 1)}) if trace else []
    )
    key = {name: row[name] for name in KEYS}
    return [
        key | {"evaluation": i + 1, "seconds": trace[i][0], "objective": trace[i][1]}
        for i in places
    ]


def run_all(given: argparse.Namespace, pythons: dict[str, str], sizes: Sizes) -> None:
    """Measure and write, row by row."""
    rows = []
    for row in planned(sizes, list(pythons), given.tasks):
        result = measured(row, pythons[row.system], given.threads, given.limit)
        shown = {
            name: text(result[name])[:9]
            for name in (
                "seconds",
                "ratio",
                "first_seconds",
                "peak_mb",
                "objective",
                "objective_end",
                "note",
            )
            if name in result
        }
        print(
            f"{row.task:15}{row.system:9}{row.N}x{row.M} power {row.power:g}, "
            f"{row.budget:g}: {shown}",
            flush=True,
        )
        require_same(result, rows)
        rows.append(result)
        write(given.out / "peers.csv", [result])
        if "trace" in result:
            write(given.out / "traces.csv", thinned(result))
    for row in growing(sizes) if "exponents" in given.tasks else ():
        result = measured(row, pythons["ours"], given.threads, given.limit)
        print(
            f"{row.task:15}{row.N}x{row.M} power {row.power:g}: {text(result['seconds'])} s",
            flush=True,
        )
        write(given.out / "exponents.csv", [result])


def run_fits(given: argparse.Namespace, pythons: dict[str, str], budget: float) -> None:
    """Whole fits, set by set; those that race are run several times, and the first run has the
    scores.
    """
    for name, run in itertools.product(given.sets, given.runs):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "data.npz"
            n_data, _ = prepare(name, file)
            variants = (variant for each in pythons for variant in FITS.get(each, ()))
            for system, power in (
                variant
                for variant in variants
                if variant[1] in given.powers and (run == 1 or variant in RACE)
            ):
                row = Row(name, system, n_data, SETS[name], power, budget * SECONDS.get(name, 1.0))
                options = [
                    "--size",
                    f"{n_data}x{row.M}",
                    "--power",
                    str(power),
                    "--budget",
                    str(row.budget),
                    "--data",
                    str(file),
                ] + ["--unscored"] * (run > 1)
                found = child(
                    pythons[system.partition("-")[0]],
                    [system, "fit", *options],
                    given.threads,
                    given.limit,
                )
                trace = found.get("trace", [found])  # a note, if it took too long
                write(
                    given.out / "fits.csv",
                    [
                        row._asdict() | {"run": run, "evaluation": i} | point
                        for i, point in enumerate(trace, 1)
                    ],
                )
                print(
                    f"{name:15}{system:16}{n_data}x{row.M} power {power:g}, run {run}: "
                    f"{found.get('evaluations')} evaluations, {trace[-1]}",
                    flush=True,
                )


def interpreters(named: list[str]) -> dict[str, str]:
    """The interpreter of each system that takes part, ours first."""
    given = dict(item.split("=", 1) for item in named)
    unknown = sorted(set(given) - set(MODULES))
    if unknown:
        raise SystemExit(
            f"--python takes NAME=PATH with NAME one of {', '.join(MODULES)}; got {unknown}."
        )
    here = {
        name: sys.executable for name, module in MODULES.items() if importlib.util.find_spec(module)
    }
    both = here | given
    return {name: both[name] for name in MODULES if name in both}


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = ["energy", "training", "classification", "prediction", "exponents", "fits"]
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks)
    parser.add_argument(
        "--sets", nargs="+", choices=[*SETS], default=[*SETS], help="for fits (default: all)"
    )
    parser.add_argument(
        "--powers", nargs="+", type=float, default=[0.0, 0.5, 1.0], help="for fits (default: all)"
    )
    parser.add_argument(
        "--runs",
        nargs="+",
        type=int,
        default=[1, 2, 3],
        help="for fits: numbers of the runs; after the first only the race of the page",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=400.0, help="most seconds a row")
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats")
    parser.add_argument("--out", type=Path, default=ROOT / "nbs" / "about" / "benchmarks")
    return parser.parse_args()


def write_about(given: argparse.Namespace, pythons: dict[str, str]) -> None:
    """Write when and where the suite ran, with the versions of all systems. Those of systems that
    take no part stay, as their rows do, but rows of another kind of run are removed.
    """
    given.out.mkdir(parents=True, exist_ok=True)
    note = given.out / "about.json"
    versions = {}
    if note.exists():
        old = json.loads(note.read_text())
        versions = old["versions"]
        if old["quick"] != given.quick:
            for name in COLUMNS:
                (given.out / f"{name}.csv").unlink(missing_ok=True)
    for name, python in pythons.items():
        versions[name] = child(python, [name, "versions"], given.threads, given.limit)
    about = {
        "date": f"{datetime.date.today()}",
        "cores": os.cpu_count(),
        "threads": given.threads,
        "quick": given.quick,
        "versions": versions,
    }
    note.write_text(json.dumps(about, indent=2) + "\n")


def main() -> None:
    """Run the suite from the command line."""
    given = arguments()
    begin = time.perf_counter()
    pythons = interpreters(given.python)
    write_about(given, pythons)
    sizes = QUICK if given.quick else Sizes()
    run_all(given, pythons, sizes)
    if "fits" in given.tasks:
        run_fits(given, pythons, sizes.fit_seconds)
    print(f"{(time.perf_counter() - begin) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
