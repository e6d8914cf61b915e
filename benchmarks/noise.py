"""Learned and constant noise on real data: our rows of the tables of the page on noise that depends
on the inputs, which stand in `nbs/about/benchmarks/noise.csv`.
`SPARSE_PEP_DATA=data python -m benchmarks.noise boston yacht kin8nm motorcycle.csv`
 Inputs and targets are standardised with the training rows; of kin8nm, 3000 training rows are used.
A file of the motorcycle data (times, accelerations) has ten random splits into 120 and 13 rows.
"""

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

from sparse_pep import SparsePEP, SparsePEPRegressor
from sparse_pep.datasets import load_regression

SPLITS = {"boston": 5, "yacht": 5, "kin8nm": 1}
MOST_ROWS = 3000
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def splits_of(name: str) -> Iterator[Arrays]:
    """X and y of the training rows and of the test rows, for each split."""
    if name.endswith(".csv"):
        table = pd.read_csv(name).to_numpy()
        orders = [np.random.default_rng(k).permutation(len(table)) for k in range(10)]
        for order in orders:
            train, test = table[order[:120]], table[order[120:]]
            yield train[:, :1], train[:, 1], test[:, :1], test[:, 1]
        return
    data = load_regression(name)
    for train, test in data.splits[: SPLITS[name]]:
        if len(train) > MOST_ROWS:
            train = np.random.default_rng(0).permutation(train)[:MOST_ROWS]
        yield data.X[train], data.y[train], data.X[test], data.y[test]


def standardised(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Arrays:
    """All rows in the units of the training rows."""
    spread = X.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    inputs = ((rows - X.mean(axis=0)) / spread for rows in (X, X_test))
    targets = ((rows - y.mean()) / y.std() for rows in (y, y_test))
    return tuple(part for pair in zip(inputs, targets, strict=True) for part in pair)


def models_of(name: str) -> dict:
    """A model with constant noise and models that learn it, by their names in the tables."""
    small = name.endswith(".csv")
    quick = {"n_inducing": 20 if small else 50, "random_state": 0}
    learned = {"likelihood": "heteroscedastic_gaussian", **quick}
    powers = (0.0, 0.5, 1.0) if small else (0.0, 0.5)
    models = {
        f"learned noise, power {power:g}": SparsePEP(power=power, **learned) for power in powers
    }
    return {"constant noise, power 0.5": SparsePEPRegressor(**quick), **models}


def main() -> None:
    """Print our rows for the data that the command line names."""
    rows = []
    for name in sys.argv[1:]:
        for split, arrays in enumerate(splits_of(name)):
            X, y, X_test, y_test = standardised(*arrays)
            for label, model in models_of(name).items():
                score = np.mean(model.fit(X, y).predict_log_density(X_test, y_test))
                rows.append(
                    {
                        "data": name,
                        "rows": len(y),
                        "model": label,
                        "split": split,
                        "log_density": score,
                    }
                )
    print(pd.DataFrame(rows).round(4).to_csv(index=False))


if __name__ == "__main__":
    main()
