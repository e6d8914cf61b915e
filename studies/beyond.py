"""What goes beyond the paper: the tight form, local prediction and blocks, on eleven data sets."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep import LBFGS, SparsePEPClassifier, SparsePEPRegressor
from studies.common import (
    REGRESSION,
    at_hand,
    fitted,
    formatted,
    grid_of,
    kind_of,
    loaded,
    scores_of,
    study_name,
)
from studies.runner import Study
from studies.statistics import gains, interval, paired

CLASSIFICATION = ("australian", "breast", "pima")
CHOICES = ("tight", "local", "global, blocks", "tight, blocks", "local, blocks")
COMPARED = {
    "regression, % of the squared error": ("regression", "error"),
    "regression, nats per data point": ("regression", "nll"),
    "classification, nats per data point": ("classification", "nll"),
}


def fit(job: dict, max_iter: int, tol: float, most_rows: int) -> list[dict]:
    """A row for each kind of prediction of a fit to at most `most_rows` rows; `used` says
    whether a local one is used.
    """
    data = loaded(job["data"])
    rng = np.random.default_rng(job["split"])
    train, test = (rng.permutation(rows)[:most_rows] for rows in data.splits[job["split"]])
    options = {
        "power": job["power"],
        "n_inducing": job["M"],
        "random_state": job["seed"],
        "standardize": True,
    }
    options |= {"tight": job["tight"], "blocks": None if job["blocks"] == 1 else job["blocks"]}
    options |= {
        "local": None if job["tight"] else "auto",
        "training": LBFGS(max_iter=max_iter, tol=tol),
        "standardize": True,
    }
    if kind_of(job["data"]) == "regression":
        model = SparsePEPRegressor(**options)
    else:
        model = SparsePEPClassifier(likelihood="probit", **options)
    found = fitted(model, data.X[train], data.y[train])
    without = copy(model)
    without._state = replace(model._state, local=None)
    rows = [
        {"prediction": "global", "used": None}
        | found
        | scores_of(without, data.X[test], data.y[test])
    ]
    if not job["tight"]:
        own = {"prediction": "local", "used": model._state.local is not None}
        rows.append(own | found | scores_of(model, data.X[test], data.y[test]))
    return rows


def is_distinct(job: dict) -> bool:
    """Whether the package has this combination, and no other one of the grid is the same model."""
    if not job["tight"]:
        return True
    return (
        job["power"] < 1.0
        if kind_of(job["data"]) == "regression"
        else job["power"] == 0.0 and job["blocks"] == 1
    )


def forms_of(fits: Sequence[dict], block_size: int) -> list[dict]:
    """Each of the fits plain and in the tight form, without blocks and with them."""
    forms = [{"blocks": n, "tight": tight} for n in (1, block_size) for tight in (False, True)]
    return [job | form for job in fits for form in forms if is_distinct(job | form)]


def study(size: str) -> Study:
    """50 inducing points, at most 1000 rows, blocks of 20."""
    quick = size == "quick"
    sets = (*REGRESSION, *CLASSIFICATION) if at_hand() else ("diabetes", "breast_cancer")
    sets = ("boston", "breast") if quick and at_hand() else sets
    fits = grid_of(
        sets,
        {"quick": 2, "standard": 5, "full": 10}[size],
        (0.0, 0.5) if quick else (0.0, 0.5, 0.8, 1.0),
        (50,),
    )
    settings = {"max_iter": 100 if quick else 1000, "tol": 1e-3, "most_rows": 1000}
    return Study(study_name("beyond", size), forms_of(fits, 20), fit, settings)


def gains_of(rows: pd.DataFrame, kind: str, score: str) -> pd.DataFrame:
    """How much better each choice is than the plain form with its global prediction, in a row for
    each choice and power.

    The mean `gain` with its 95 % interval, in nats per data point ("nll") or in per cent of the
    plain squared error ("error"), and on how many of the data sets (`sets`) the mean over splits is
    better (`better`).
    """
    form = rows["prediction"].mask(rows["tight"].astype(bool), "tight")
    rows = rows.assign(method=form.where(rows["blocks"] == 1, form + ", blocks"))
    rows = rows[rows["data"].map(kind_of) == kind]
    found = {}
    for choice in CHOICES:
        for power, here in rows.groupby("power"):
            if choice in set(here["method"]):
                table = paired(here, score, (choice, "global"), "method")
                gain = gains(table) * (1.0 if score == "nll" else 100.0 / table["global"])
                better = gain.groupby(level="data").mean() > 0.0
                found[choice, power] = *interval(gain), np.sum(better), len(better)
    names = ["gain", "low", "high", "better", "sets"]
    return pd.DataFrame(found, names, dtype=float).T.rename_axis(["choice", "power"])


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The gains of each choice with their intervals, as text."""
    specs = dict.fromkeys(("gain", "low", "high"), "+.3f") | dict.fromkeys(
        ("better", "sets"), ".0f"
    )
    return {
        f"gain in {title}": formatted(gains_of(rows, *which), specs)
        for title, which in COMPARED.items()
    }


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """The gains against the power, with their intervals."""
    figure = Figure(figsize=(12.0, 4.2), layout="constrained")
    for ax, (title, which) in zip(figure.subplots(1, 3), COMPARED.items(), strict=True):
        table = gains_of(rows, *which)
        for k, choice in enumerate(CHOICES):
            if choice in table.index:
                one = table.loc[choice]
                ends = [one["gain"] - one["low"], one["high"] - one["gain"]]
                ax.errorbar(
                    one.index + 0.015 * (k - 2),
                    one["gain"],
                    ends,
                    fmt=f"C{k}o-",
                    ms=4,
                    label=choice,
                )
        ax.axhline(0.0, color="0.6", linewidth=0.8)
        ax.set(xlabel="power", title=f"gain in {title}")
        ax.title.set_fontsize(10)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return {"gains": figure}
