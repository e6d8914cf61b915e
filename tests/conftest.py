"""Where the tests find real data and exact reference numbers; tests that need them are skipped without."""

import json
import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[2] / "shared"


def outside(variable: str, default: Path) -> Path:
    """The path an environment variable names, else `default`; the test is skipped if neither exists."""
    path = Path(os.environ.get(variable) or default)
    if not path.exists():
        pytest.skip(f"{variable} does not name an existing path")
    return path


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of real data sets (`regression/`, `classification/`, `toy/`)."""
    return outside("SPARSE_PEP_DATA", BESIDE / "data")


@pytest.fixture(scope="session")
def vectors() -> dict:
    """Exact reference numbers, computed in 50-digit arithmetic."""
    path = outside("SPARSE_PEP_VECTORS", BESIDE / "vectors")
    path = path / "vectors.json" if path.is_dir() else path
    return json.loads(path.read_text())
