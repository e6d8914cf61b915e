"""Tables to call commands with; every test works in an empty folder of its own."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import accept
from numpy.random import default_rng

TRAIN = "--target response --inducing 10 --max-iter 60"


@pytest.fixture(autouse=True)
def in_a_folder(folder):
    """No test sees the files of another."""


@pytest.fixture
def trial():
    """trial.csv: response = 50 + 10 sin(dose) + noise of 0.5; `age` is useless, `site` constant."""
    rng = default_rng(0)
    dose = rng.uniform(0.0, 5.0, 80)
    response = 50.0 + 10.0 * np.sin(dose) + 0.5 * rng.standard_normal(80)
    rows = np.c_[dose, rng.standard_normal(80), np.full(80, 7.0), response]
    table = pd.DataFrame(rows, columns=["dose", "age", "site", "response"])
    table.to_csv("trial.csv", index=False)
    return rows


@pytest.fixture(scope="session")
def trained():
    """The files of models that are trained once."""
    return {}


@pytest.fixture
def model(trial, trained):
    """trial.csv, and model.npz, which is trained on it."""
    if not trained:
        accept("fit trial.csv", TRAIN)
        trained["model.npz"] = Path("model.npz").read_bytes()
    Path("model.npz").write_bytes(trained["model.npz"])
    return trial


@pytest.fixture
def labels():
    """labels.csv: `kind` is "up" where sin(dose) + 0.3 noise is positive, else "down"."""
    rng = default_rng(1)
    dose = rng.uniform(0.0, 5.0, 60)
    kind = np.where(np.sin(dose) + 0.3 * rng.standard_normal(60) > 0.0, "up", "down")
    pd.DataFrame({"dose": dose, "kind": kind}).to_csv("labels.csv", index=False)
    return dose[:, None], kind


@pytest.fixture
def pieces():
    """The rows of one table as table.csv, as table.parquet and as parts/, three Parquet files and
    one of CSV; with labels for a target as kinds.csv, and as kinds/ of two Parquet files.
    """
    rng = default_rng(0)
    # in order, as weighted fits in memory put them in order
    dose = np.sort(rng.uniform(0.0, 5.0, 80))
    response = 50.0 + 10.0 * np.sin(dose) + 0.5 * rng.standard_normal(80)
    table = pd.DataFrame({"dose": dose, "age": rng.standard_normal(80)})
    table = table.assign(site=7.0, response=response, times=rng.integers(0, 4, 80))
    table.to_csv("table.csv", index=False)
    table.to_parquet("table.parquet")
    kinds = table.assign(kind=np.where(table["response"] > 50.0, "high", "low"))
    kinds = kinds.drop(columns=["response", "times"])
    kinds.to_csv("kinds.csv", index=False)
    for name in ("parts", "kinds"):
        Path(name).mkdir()
    for k in range(3):
        table[20 * k : 20 * (k + 1)].to_parquet(f"parts/{k}.parquet")
    table[60:].to_csv("parts/3.csv", index=False)
    kinds[:45].to_parquet("kinds/a.parquet")
    kinds[45:].to_parquet("kinds/b.parquet")
    return table


@pytest.fixture
def houses():
    """The rows of one mixed table as houses.csv, houses.parquet, german.csv and in houses/, and
    new ones in other.csv.
    """
    rng = default_rng(0)
    city = rng.choice(["Bern", "Rome"], 60)
    area = rng.normal(70.0, 20.0, 60)
    sold = pd.date_range("2022-01-01", periods=60).astype(str)
    table = pd.DataFrame({"id": np.arange(60), "city": city, "area": area, "sold": sold})
    table["price"] = area + 30.0 * (city == "Rome")
    table.loc[::7, "area"] = np.nan
    table.loc[[3, 20], "city"] = None
    Path("houses").mkdir()
    table.to_csv("houses.csv", index=False)
    table.to_parquet("houses.parquet")
    table.to_csv("german.csv", index=False, sep=";", decimal=",")
    table[:25].to_csv("houses/a.csv", index=False)
    table[25:].astype({"city": "category"}).to_parquet("houses/b.parquet")
    Path("other.csv").write_text("sold,area,city,more\n2022-02-01,,Ulm,x\n,50.0,,y\n")
    return table
