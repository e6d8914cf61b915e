"""Predictions and 90 % intervals of tables beside others: the tables of the README.
`python -m benchmarks.intervals [NAME ...]`

Each row is the mean over three random splits, with a quarter of at most 8000 rows held out: the
root of the mean squared error and the interval score, both divided by the standard deviation of the
held-out targets (smaller is better), the share of held-out targets within their interval, and the
seconds of one thread. Boosting is fitted three times: for the mean and for the quantiles .05 and
.95. Conformalised, its quantiles are those of three quarters of the rows, and are moved apart by
what the last quarter asks for (Romano, Patterson and Candes 2019). The exact process is
scikit-learn's, with a lengthscale for each input, up to 800 rows. Everything else has its default
settings.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparse_pep import SparsePEPRegressor
from sparse_pep.datasets import load_regression

NAMES = ("diabetes", "energy", "concrete", "wine_red", "kin8nm", "elevators", "power", "hflights")
MOST_EXACT = 800
DEVIATIONS = 1.6448536269514722  # on either side hold 90 % of a Gaussian
LEVEL = 0.9


def ours(X, y, X_test):
    model = SparsePEPRegressor(random_state=0).fit(X, y)
    return model.predict(X_test), *model.predict_interval(X_test, level=LEVEL)


def quantile(q):
    return HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=0)


def boosting(X, y, X_test):
    mean = HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(X_test)
    return mean, *(quantile(q).fit(X, y).predict(X_test) for q in (0.05, 0.95))


def conformal(X, y, X_test):
    mean = HistGradientBoostingRegressor(random_state=0).fit(X, y).predict(X_test)
    X_fit, X_last, y_fit, y_last = train_test_split(X, y, test_size=0.25, random_state=0)
    ends = [quantile(q).fit(X_fit, y_fit) for q in (0.05, 0.95)]
    low, high = (end.predict(X_last) for end in ends)
    beyond = np.sort(np.maximum(low - y_last, y_last - high))
    rank = min(int(np.ceil((len(beyond) + 1) * LEVEL)), len(beyond)) - 1
    low, high = (end.predict(X_test) for end in ends)
    return mean, low - beyond[rank], high + beyond[rank]


def exact(X, y, X_test):
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    mean, std = make_pipeline(StandardScaler(), process).fit(X, y).predict(X_test, return_std=True)
    return mean, mean - DEVIATIONS * std, mean + DEVIATIONS * std


WAYS = {"sparse_pep": ours, "boosting": boosting, "conformal": conformal, "exact": exact}


def scores(fit, X, y, X_test, y_test):
    """RMSE, share held, interval score and seconds."""
    begun = time.process_time()
    mean, lower, upper = fit(X, y, X_test)
    seconds = time.process_time() - begun
    scale = np.std(y_test)
    outside = np.maximum(lower - y_test, 0.0) + np.maximum(y_test - upper, 0.0)
    error = np.sqrt(np.mean((mean - y_test) ** 2))
    score = np.mean(upper - lower + outside / 0.05)
    return error / scale, np.mean(outside == 0.0), score / scale, seconds


def averages(name):
    """The number of training rows, and the mean scores (4,) of each way."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    else:
        data = load_regression(name)
        X = data.X
        y = data.y
    found = {way: [] for way in WAYS}
    for seed in range(3):
        chosen = np.random.default_rng(seed).permutation(len(y))[:8000]
        X_train, X_test, y_train, y_test = train_test_split(
            X[chosen], y[chosen], test_size=0.25, random_state=seed
        )
        for way, fit in WAYS.items():
            if way != "exact" or len(y_train) <= MOST_EXACT:
                found[way].append(scores(fit, X_train, y_train, X_test, y_test))
    return len(y_train), {way: np.mean(rows, axis=0) for way, rows in found.items() if rows}


def cells(found, ways, place, form, bold):
    """The cells of one score, the best in bold."""
    texts = [format(found[way][place], form) if way in found else "–" for way in ways]
    best = min((text for text in texts if text != "–"), key=float) if bold else None
    return [f"**{text}**" if text == best else text for text in texts]


def main():
    warnings.simplefilter("ignore")
    first = []
    second = []
    single = ("sparse_pep", "boosting", "exact")
    for name in sys.argv[1:] or NAMES:
        n_rows, found = averages(name)
        errors = cells(found, single, 0, ".2f", bold=True)
        intervals = cells(found, WAYS, 2, ".2f", bold=True)
        first.append([name, str(n_rows), *errors, *intervals])
        held = cells(found, WAYS, 1, ".0%", bold=False)
        second.append([name, *held, *cells(found, WAYS, 3, ".1f", bold=False)])
        for row in (first[-1], second[-1]):
            print("|", " | ".join(row), "|", flush=True)
    for rows in (first, second):
        print("\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main()
