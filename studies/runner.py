"""The jobs of a study on all cores. Each writes a file of its own, so that a study can be
stopped at any time and resumed.
"""

import hashlib
import json
import os
import platform
import subprocess
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"


@dataclass(frozen=True)
class Study:
    """A list of jobs and the function that does one: `fit(job, **settings)` returns the rows that a
    job adds to the table.

    It is defined at the top level of a module, so that other processes can import it. Jobs and
    settings are representable in JSON, and results that were made with other settings are not mixed
    with these.
    """

    name: str
    jobs: Sequence[dict]
    fit: Callable[..., list[dict]]
    settings: dict = field(default_factory=dict)

    def path(self, folder: Path, job: dict) -> Path:
        """The file with the rows of a job."""
        text = json.dumps([job, self.settings], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:20]
        return folder / f"{self.name}.parts" / f"{name}.json"


def commit_here() -> str:
    """The commit that is checked out, with "-dirty" if files differ from it; empty where there
    is no git.
    """
    words = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(
        words, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    ).stdout.strip()


def do_job(
    fit: Callable[..., list[dict]], settings: dict, job: dict, path: Path, commit: str
) -> None:
    """Do one job, and write its rows completely or not at all. The column `converged` says what
    warnings would.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [job | row | {"commit": commit} for row in fit(job, **settings)]
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(rows, default=lambda value: value.item()))
    beside.replace(path)


def pool_of(workers: int) -> Executor:
    """A pool of processes with one thread of BLAS each, or of one thread of this process."""
    if workers == 1:
        return ThreadPoolExecutor(1)
    os.environ.update(dict.fromkeys(THREADS, "1"))  # read by BLAS when a process starts
    return ProcessPoolExecutor(workers, get_context("spawn"))


def do_jobs(study: Study, folder: Path, pool: Executor) -> list[str]:
    """Do the jobs that have no file yet; a line for each that ended with a numerical error or a
    lack of memory.
    """
    commit = commit_here()
    futures = {}
    for job in study.jobs:
        path = study.path(folder, job)
        if not path.exists():
            future = pool.submit(do_job, study.fit, study.settings, job, path, commit)
            futures[future] = "/".join(map(str, job.values()))
    errors = []
    n_jobs = len(study.jobs)
    finished = n_jobs - len(futures)
    for future in tqdm(as_completed(futures), study.name, n_jobs, initial=finished, disable=None):
        try:
            future.result()
        except (ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
            errors.append(f"{futures[future]}: {' '.join(str(error).split())}")
    return errors


def write_table(study: Study, folder: Path) -> pd.DataFrame:
    """The rows of all jobs that are done, in a CSV file, with notes on how they came about beside
    it.
    """
    paths = [study.path(folder, job) for job in study.jobs]
    done = [path for path in paths if path.exists()]
    rows = pd.DataFrame([row for path in done for row in json.loads(path.read_text())])
    rows.to_csv(folder / f"{study.name}.csv", index=False)
    versions = {name: version(name) for name in ("sparse_pep", "numpy", "scipy", "scikit-learn")}
    notes = {
        "study": study.name,
        "settings": study.settings,
        "jobs": len(paths),
        "jobs_done": len(done),
        "versions": {"python": platform.python_version()} | versions,
        "commits": rows["commit"].unique().tolist() if len(rows) else [],
        "date": str(date.today()),
    }
    (folder / f"{study.name}.json").write_text(json.dumps(notes, indent=1) + "\n")
    return rows


def run_study(
    study: Study, folder: Path, workers: int | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Do the jobs that are left, and write the table.

    Returns all rows, in the order of the jobs, and a line for each job that ended with a numerical
    error or a lack of memory; other errors stop the study. Several workers use one thread of BLAS
    each; a single one is this process, with all threads.
    """
    (folder / f"{study.name}.parts").mkdir(parents=True, exist_ok=True)
    with pool_of(workers or os.cpu_count() or 1) as pool:
        try:
            errors = do_jobs(study, folder, pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    rows = write_table(study, folder)
    return rows, errors


def provenance(path: str | Path) -> str:
    """When and by which commits a table of results was made; the tests fit samples of its rows
    again with the present package.
    """
    notes = json.loads(Path(path).with_suffix(".json").read_text())
    if not notes.get("commits"):
        return "made before results named their commits, by an older version of the package"
    return f"made until {notes['date']} by commit {', '.join(notes['commits'])}"


def read_results(path: str | Path) -> pd.DataFrame:
    """The table of results of a study; `yes` and `no` are True and False."""
    table = pd.read_csv(path)
    truth = {"yes": True, "no": False}
    for name in ("converged", "tight", "used"):
        if name in table:
            table[name] = [truth.get(value, value) for value in table[name]]
    return table
