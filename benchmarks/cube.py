"""The corners and edges of the cube on real data: features, blocks and power, for regression and for classification.

    python -m benchmarks.cube --data-dir data                # writes nbs/studies/results/cube.csv, an hour on two cores
    python -m benchmarks.cube --data-dir data --sets boston --splits 1

Every row is one fit: inducing points or Gaussian blurs, no blocks or blocks of at most 20 neighbours, power 0, 0.5 or 1, M = 50.
Inputs are standardised, real targets too; k-means points, and for blurs widths of 0.3 of the first lengthscales, are the start.
"""

import argparse
import csv
import itertools
from pathlib import Path

import numpy as np

from sparse_pep.commands import run_split
from sparse_pep.data.passes import moments_piece
from sparse_pep.datasets import Dataset, load_classification, load_regression
from sparse_pep.features import Features, GaussianBlur, InducingPoints
from sparse_pep.shards import Rows
from sparse_pep.training import column_spread, kmeans_points

REGRESSION, CLASSIFICATION = ("boston", "concrete", "energy"), ("banana", "pima")
RESULTS = Path(__file__).parents[1] / "nbs" / "studies" / "results" / "cube.csv"
COLUMNS = ("data", "features", "blocks", "power", "split", "log_marginal_likelihood", "smse", "smll", "error", "nll", "converged", "seconds")
NAMES = {"SMSE": "smse", "SMLL": "smll", "error": "error", "NLL": "nll", "converged": "converged", "seconds": "seconds"}


def starting_features(kind: str, data: Dataset, split: int, n_inducing: int) -> Features:
    """Features of the kind for the standardised training inputs of a split."""
    train = data.splits[split][0]
    moments, _ = moments_piece(Rows(data.X[train]))
    X = (data.X[train] - moments.mean) / moments.spread
    Z = kmeans_points(X, n_inducing, np.random.default_rng(split))
    if kind == "InducingPoints":
        return InducingPoints(Z)
    return GaussianBlur(Z, 0.3 * np.sqrt(X.shape[1]) * column_spread(X))


def fitted_row(data: Dataset, likelihood: str, kind: str, blocks: int | None, power: float, split: int, n_inducing: int) -> dict:
    """One row of the table; what cannot be fitted says so and leaves its scores empty."""
    features = starting_features(kind, data, split, n_inducing)
    options = {"features": features, "blocks": blocks, "likelihood": likelihood, "random_state": split}
    row, model = run_split(data, split, power, **options)
    evidence = {"log_marginal_likelihood": model.log_marginal_likelihood_value_}
    key = {"data": data.name, "features": kind, "blocks": blocks or "", "power": power, "split": split}
    return key | evidence | {NAMES[name]: row[name] for name in NAMES if name in row}


def main() -> None:
    """Run the fits that are asked for and write them as one CSV file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir")
    parser.add_argument("--sets", nargs="+", default=[*REGRESSION, *CLASSIFICATION])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--inducing", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for name in given.sets:
            numbers = name not in CLASSIFICATION
            data = (load_regression if numbers else load_classification)(name, given.data_dir)
            places = itertools.product(range(min(given.splits, len(data.splits))), ("InducingPoints", "GaussianBlur"), (None, 20), (0.0, 0.5, 1.0))
            for split, kind, blocks, power in places:
                likelihood = "gaussian" if numbers else "probit"
                row = fitted_row(data, likelihood, kind, blocks, power, split, given.inducing)
                writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})
                file.flush()
                print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
