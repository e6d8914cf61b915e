"""Coverage of intervals: how often they hold the targets they promise to hold, on real data, for
every power and several likelihoods.
"""

import re
from functools import lru_cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import ndtr, ndtri

from sparse_pep import LBFGS, SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import Dataset, random_splits
from sparse_pep.estimators.base import PowerEPEstimator
from sparse_pep.estimators.predict import latent_moments
from studies.common import CLASSIFICATION, at_hand, fitted, grid_of, loaded, study_name
from studies.runner import Study

SETS = tuple(
    "boston concrete energy kin8nm naval yacht power wine_red "
    "elevators pol hflights diabetes".split()
)
LEVELS = (0.5, 0.8, 0.9, 0.95)
POWERS = (0.0, 0.5, 0.8, 1.0)
BINS = 10
COUNTED = "flights an hour"  # counts made of hflights
SLOW = ("student_t", "heteroscedastic_gaussian")  # likelihoods, which have a third of the rows


@lru_cache(maxsize=1)
def flights_an_hour() -> Dataset:
    """The departures from Houston in each hour of 2011 with one at least, from day of the year,
    hour and day of the week.
    """
    flights = loaded("hflights")
    columns = dict(zip(flights.feature_names, flights.X.T, strict=True))
    table = pd.DataFrame(columns).assign(
        hour=columns["dep_minute"] // 60,
        day=30.44 * (columns["month"] - 1) + columns["day_of_month"],
    )
    table = table.groupby(["day", "hour", "day_of_week"]).size().reset_index(name="y")
    X = table[["day", "hour", "day_of_week"]].to_numpy(float)
    y = table["y"].to_numpy(float)
    return Dataset(COUNTED, X, y, ("day", "hour", "day_of_week"), random_splits(len(y), 5))


def rows_of(name: str, split: int, most_rows: int) -> tuple[np.ndarray, ...]:
    """X_train, y_train, X_test, y_test of a split, at most `most_rows` of each, drawn with the
    split as the seed.
    """
    data = flights_an_hour() if name == COUNTED else loaded(name)
    rng = np.random.default_rng(split)
    train, test = (rng.permutation(rows)[:most_rows] for rows in data.splits[split])
    return data.X[train], data.y[train], data.X[test], data.y[test]


def pit_of(model: PowerEPEstimator, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """P(Y ≤ y) (S,) of each target; of whole numbers a random place between P(Y < y) and P(Y ≤
    y).
    """
    state = model._state
    mean, var = latent_moments(state, X)
    likelihood = state.likelihood
    y = state.encoder.targets(y)
    if isinstance(model, SparsePEPRegressor):
        return ndtr((y - mean) / np.sqrt(var + likelihood.noise_variance))
    upper = likelihood.average_cdf(y, mean, var)
    if not likelihood.is_discrete:
        return upper
    below = np.where(y > 0.0, likelihood.average_cdf(np.maximum(y - 1.0, 0.0), mean, var), 0.0)
    return below + np.random.default_rng(0).uniform(size=len(y)) * (upper - below)


def fit(job: dict, max_iter: int, tol: float, most_rows: int) -> list[dict]:
    """The row of one fit: coverage, lengths, the histogram of P(Y ≤ y), the advice of the summary,
    as far as its first colon or comma, and for Gaussian noise what leave-one-out cavities say.
    """
    if job["likelihood"] in SLOW:
        most_rows //= 3
    X, y, X_test, y_test = rows_of(job["data"], job["split"], most_rows)
    options = {
        "n_inducing": job["M"],
        "power": job["power"],
        "random_state": job["seed"],
        "training": LBFGS(max_iter=max_iter, tol=tol),
    }
    if job["likelihood"] == "classes":
        model = SparsePEPClassifier(**options)
    elif job["likelihood"] == "gaussian":
        model = SparsePEPRegressor(**options)
    else:
        model = SparsePEP(likelihood=job["likelihood"], **options)
    row = fitted(model, X, y)
    row["nll"] = -float(np.mean(model.predict_log_density(X_test, y_test)))
    if job["likelihood"] == "classes":
        return [row | hits_of(model, X_test, y_test)]
    row |= coverage_of(model, X_test, y_test, np.std(y))
    if job["likelihood"] == "gaussian":
        row |= leave_one_out(model, X, y, X_test, y_test)
    return [row]


def hits_of(model: SparsePEPClassifier, X: np.ndarray, y: np.ndarray) -> dict:
    """The number of predicted labels, of right ones among them, and the sum of their
    probabilities, in six bins of the probability.
    """
    proba = model.predict_proba(X)
    hit = model.classes_[proba.argmax(axis=1)] == y
    sure = proba.max(axis=1)
    bins = np.digitize(sure, [0.6, 0.7, 0.8, 0.9, 0.95])
    row = {f"n_{k}": int(np.sum(bins == k)) for k in range(6)}
    row |= {f"hit_{k}": float(np.sum(hit[bins == k])) for k in range(6)}
    return row | {f"sure_{k}": float(np.sum(sure[bins == k])) for k in range(6)}


def coverage_of(model: SparsePEP, X: np.ndarray, y: np.ndarray, unit: float) -> dict:
    """Coverage and lengths of intervals, the latter in a unit, the histogram of P(Y ≤ y), and the
    advice of the summary.
    """
    row = {}
    for level in LEVELS:
        lower, upper = model.predict_interval(X, level)
        row[f"covered_{level}"] = float(np.mean((lower <= y) & (y <= upper)))
        row[f"length_{level}"] = float(np.mean(upper - lower) / unit)
    counts = np.histogram(pit_of(model, X, y), BINS, (0.0, 1.0))[0]
    row |= {f"pit_{k}": int(count) for k, count in enumerate(counts)}
    row["n_test"] = len(y)
    row["unexplained"] = model.diagnostics_["unexplained_share"]
    row["advice"] = "; ".join(re.findall("^advice +([^:,]+)", str(model.summary()), re.M))
    return row


def leave_one_out(
    model: SparsePEPRegressor, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> dict:
    """Coverage of the training targets by the 90 % intervals that leave them out, coverage of the
    test targets by intervals that are stretched until the former is 90 %, and the share of test
    targets whose f is twice as uncertain as the median, with their coverage.
    """
    noise = model.noise_std_**2
    (mean, var) = model.leave_one_out_f()
    z = np.abs(y - mean) / np.sqrt(var + noise)
    z = z[np.isfinite(z)]
    mean, std = model.predict(X_test, return_std=True)
    z_test = np.abs(y_test - mean) / std
    stretch = np.quantile(z, 0.9) / ndtri(0.95)
    spread = np.sqrt(model.predict_f(X_test)[1])
    far = spread > 2.0 * np.median(spread)
    row = {"loo_covered_0.9": float(np.mean(z <= ndtri(0.95))), "stretch": float(stretch)}
    row |= {"stretched_covered_0.9": float(np.mean(z_test <= stretch * ndtri(0.95)))}
    row |= {"kurtosis": float(np.mean(z**4) / np.mean(z**2) ** 2)}
    inside = z_test <= ndtri(0.95)
    return row | {
        "far": float(np.mean(far)),
        "far_covered_0.9": float(np.mean(inside[far])) if np.any(far) else np.nan,
    }


def likelihood_jobs(likelihood: str, grid: list[dict]) -> list[dict]:
    """The jobs of a grid with one likelihood."""
    return [job | {"likelihood": likelihood} for job in grid]


def jobs_of(size: str) -> list[dict]:
    """The grid on five splits: Gaussian noise, Student's t and noise that varies at every power,
    counts and classes at power 0.5.
    """
    if size == "quick":
        sets = ("boston", "yacht") if at_hand() else ("diabetes",)
        return likelihood_jobs("gaussian", grid_of(sets, 1, (0.0, 1.0), (10,)))
    sets = SETS if at_hand() else ("diabetes",)
    grid = grid_of(sets, 5, POWERS, (50,))
    jobs = likelihood_jobs("gaussian", grid)
    if at_hand():
        counts = grid_of((COUNTED,), 5, (0.5,), (50,))
        jobs += likelihood_jobs("poisson", counts)
        jobs += likelihood_jobs("negative_binomial", counts)
        jobs += likelihood_jobs("classes", grid_of(CLASSIFICATION, 5, (0.5,), (50,)))
        jobs += likelihood_jobs("gaussian", grid_of(sets, 1, (0.5,), (200,)))
    for likelihood in SLOW:
        jobs += likelihood_jobs(likelihood, grid)
    return jobs


def study(size: str) -> Study:
    """All powers on all data sets."""
    return Study(
        study_name("coverage", size),
        jobs_of(size),
        fit,
        {"max_iter": 150, "tol": 1e-3, "most_rows": 1500},
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Coverage in per cent: of 90 % intervals by data set and power, and of all levels by
    likelihood and power.
    """
    numbers = rows[rows["likelihood"] != "classes"]
    few = numbers[numbers["M"] == numbers["M"].min()]
    gaussian = numbers[numbers["likelihood"] == "gaussian"]
    found = {
        "covered by 90 % intervals, per cent": (
            100.0 * few[few["likelihood"] == "gaussian"].pivot_table("covered_0.9", "data", "power")
        ).round(1)
    }
    levels = few.groupby(["likelihood", "power"])[[f"covered_{level}" for level in LEVELS]].mean()
    found["covered, per cent, mean over data sets"] = (100.0 * levels).round(1)
    also = gaussian.groupby(["M", "power"])[
        ["covered_0.9", "loo_covered_0.9", "stretched_covered_0.9"]
    ].mean()
    return found | {"with leave-one-out cavities, per cent": (100.0 * also).round(1)}


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """Histograms of P(Y ≤ y) for each power; flat where all intervals hold what they promise."""
    gaussian = rows[(rows["likelihood"] == "gaussian") & (rows["M"] == rows["M"].min())]
    figure = Figure(figsize=(9.0, 2.4), layout="constrained")
    powers = sorted(gaussian["power"].unique())
    for ax, power in zip(
        figure.subplots(1, len(powers), sharey=True, squeeze=False)[0], powers, strict=True
    ):
        here = gaussian[gaussian["power"] == power]
        share = (
            here[[f"pit_{k}" for k in range(BINS)]].to_numpy() / here[["n_test"]].to_numpy()
        ).mean(axis=0)
        ax.bar(
            np.arange(BINS) / BINS, share * BINS, width=1.0 / BINS, align="edge", edgecolor="white"
        )
        ax.axhline(1.0, color="k", linewidth=0.8)
        ax.set(title=f"power {power:g}", xlabel="P(Y ≤ y)")
    return {"pit": figure}
