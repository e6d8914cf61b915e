"""Predictions and 90 % intervals of tables beside gradient boosting: the table of the README.
`python -m benchmarks.intervals`
 Each row is the mean over three random splits, with a quarter of at most 8000 rows held out: the
root of the mean squared error and the interval score, both divided by the standard deviation of the
held-out targets (smaller is better), the share of held-out targets within their interval, and the
seconds of one thread. Boosting is fitted three times: for the mean and for the quantiles .05 and
.95. Everything has its default settings.
"""

import time
import warnings

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from sparse_pep import SparsePEPRegressor
from sparse_pep.datasets import load_regression

NAMES = ("diabetes", "energy", "concrete", "wine_red", "kin8nm", "elevators", "power", "hflights")


def ours(X, y, X_test):
    model = SparsePEPRegressor(random_state=0).fit(X, y)
    return model.predict(X_test), *model.predict_interval(X_test, level=0.9)


def boosting(X, y, X_test):
    settings = ({}, {"loss": "quantile", "quantile": 0.05}, {"loss": "quantile", "quantile": 0.95})
    return [
        HistGradientBoostingRegressor(random_state=0, **each).fit(X, y).predict(X_test)
        for each in settings
    ]


def scores(fit, X, y, X_test, y_test):
    begun = time.process_time()
    mean, lower, upper = fit(X, y, X_test)
    seconds = time.process_time() - begun
    scale = np.std(y_test)
    outside = np.maximum(lower - y_test, 0.0) + np.maximum(y_test - upper, 0.0)
    error = np.sqrt(np.mean((mean - y_test) ** 2))
    score = np.mean(upper - lower + outside / 0.05)
    return error / scale, np.mean(outside == 0.0), score / scale, seconds


def main():
    warnings.simplefilter("ignore")
    print(
        "| data | training rows | RMSE | intervals hold | interval score | seconds "
        "|\n|---|---|---|---|---|---|"
    )
    for name in NAMES:
        X, y = (
            load_diabetes(return_X_y=True)
            if name == "diabetes"
            else (lambda data: (data.X, data.y))(load_regression(name))
        )
        rows = [[], []]
        for seed in range(3):
            chosen = np.random.default_rng(seed).permutation(len(y))[:8000]
            X_train, X_test, y_train, y_test = train_test_split(
                X[chosen], y[chosen], test_size=0.25, random_state=seed
            )
            for found, fit in zip(rows, (ours, boosting), strict=True):
                found.append(scores(fit, X_train, y_train, X_test, y_test))
        a, b = np.mean(rows, axis=1)
        pair = (
            f"{a[0]:.2f}, {b[0]:.2f}",
            f"{a[1]:.0%}, {b[1]:.0%}",
            f"{a[2]:.2f}, {b[2]:.2f}",
            f"{a[3]:.1f}, {b[3]:.1f}",
        )
        print("|", " | ".join((name, str(len(X_train)), *pair)), "|", flush=True)


if __name__ == "__main__":
    main()
