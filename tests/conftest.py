"""Where the tests find real data and exact reference numbers; tests that need them are skipped
without.
"""

import gc
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[1]
BESIDE = ROOT.parent / "shared"
sys.path.insert(0, str(ROOT))  # `docs`, `studies` and `benchmarks` are no installed packages


def pytest_configure(config):
    """Training that is cut short is meant in tests, and says so with a warning."""
    config.addinivalue_line("filterwarnings", "ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: the search for garbage, a third of the time of collecting the
    tests, leaves it out for good.
    """
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


def outside(variable: str, default: Path) -> Path:
    """The path an environment variable names, else `default`; the test is skipped if neither
    exists.
    """
    path = Path(os.environ.get(variable) or default)
    if not path.exists():
        pytest.skip(f"{variable} does not name an existing path")
    return path


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Close what a test has drawn, since later ones of the same process count the open figures."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of real data sets (`regression/`, `classification/`, `toy/`)."""
    return outside("SPARSE_PEP_DATA", BESIDE / "data")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in, with no data folder named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    return tmp_path


def value_error(words: str) -> AbstractContextManager:
    """What asserts that its block raises a ValueError that says this (a pattern)."""
    return pytest.raises(ValueError, match=words)


def user_warning(words: str) -> AbstractContextManager:
    """What asserts that its block warns the user of this (a pattern)."""
    return pytest.warns(UserWarning, match=words)


def exact_numbers(name: str) -> dict:
    """The exact reference numbers in a file of this name, computed in 50-digit arithmetic."""
    path = outside("SPARSE_PEP_VECTORS", BESIDE / "vectors")
    return json.loads(((path if path.is_dir() else path.parent) / name).read_text())


@pytest.fixture(scope="session")
def vectors() -> dict:
    """Exact numbers of the models of the paper."""
    return exact_numbers("vectors.json")


@pytest.fixture(scope="session")
def beyond() -> dict:
    """Exact numbers of what goes beyond the paper."""
    return exact_numbers("beyond.json")


def sources(root: Path) -> set[Path]:
    """The files that a build of the site reads."""
    return {
        path
        for folder in ("nbs", "docs", "sparse_pep")
        for path in (root / folder).rglob("*")
        if path.suffix != ".pyc"
    }


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the documentation site, built once for all the tests of a session, in all
    its processes.
    """
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    base = tmp_path_factory.getbasetemp() if alone else tmp_path_factory.getbasetemp().parent
    out = base / "site"
    with FileLock(base / "site.lock"):
        if not out.exists():
            before = sources(ROOT)
            subprocess.run(
                [sys.executable, "-m", "docs.build", "--out", str(out)], cwd=ROOT, check=True
            )
            assert sources(ROOT) == before, "a build writes into its own folder and nowhere else"
    return out
