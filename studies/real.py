"""Regression and classification of real data sets: the two studies differ in their data sets,
likelihoods and scores.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import smll, smse
from studies.common import (
    CLASSIFICATION,
    ENDS,
    POWERS,
    REGRESSION,
    at_hand,
    fitted,
    grid_of,
    mean_table,
    scores_of,
    study_name,
    train_and_test,
)
from studies.pictures import (
    plot_against_inducing,
    plot_average_ranks,
    plot_critical_difference,
    plot_pairs,
    plot_win_matrix,
)
from studies.runner import Study
from studies.statistics import PAPER_CLAIMS, check_claims, claims_table, paired

SCORES = {"regression": ("smse", "smll"), "classification": ("error", "nll")}
SETS = {"regression": REGRESSION, "classification": CLASSIFICATION}
SHIPPED = {"regression": ("diabetes",), "classification": ("breast_cancer",)}
SMALL = {"regression": ("boston", "yacht"), "classification": ("crabs", "sonar")}
AS_IN_THE_PAPER = ("australian_a1", "breast_with_id")
COUNTS = {"regression": (5, 10, 20, 50, 100, 200), "classification": (10, 20, 50, 100)}
# of the large sets, unless the size is "full"
FEWER = {"kin8nm": (10, 20, 50, 100), "naval": (10, 20, 50), "power": (10, 20, 50, 100)}
PAIRS = (0.5, 0.0), (0.5, 1.0), (1.0, 0.0)


def fit(job: dict, kind: str) -> list[dict]:
    """The row of one fit; inputs are standardised, real targets too, and scores are in the units
    of the data.
    """
    X, y, X_test, y_test = train_and_test(job["data"], job["split"])
    options = {
        "n_inducing": job["M"],
        "power": job["power"],
        "random_state": job["seed"],
        "training": "lbfgs",
    }
    if kind == "classification":
        model = SparsePEPClassifier(likelihood="probit", standardize=True, **options)
        return [fitted(model, X, y) | scores_of(model, X_test, y_test)]
    model = SparsePEPRegressor(standardize=True, **options)
    row = fitted(model, X, y)
    mean, std = model.predict(X_test, return_std=True)
    return [row | {"smse": smse(y_test, mean), "smll": smll(y_test, mean, std**2, y)}]


def jobs_of(kind: str, size: str) -> list[dict]:
    """The grid: ten splits and all numbers of inducing points; in the standard size three splits
    and fewer of large data sets.
    """
    if size == "quick":
        return grid_of(SMALL[kind] if at_hand() else SHIPPED[kind], 2, ENDS, (10, 20))
    fewer = FEWER if size == "standard" else {}
    jobs = []
    for name in SETS[kind] if at_hand() else SHIPPED[kind]:
        jobs += grid_of((name,), 3 if name in fewer else 10, POWERS, fewer.get(name, COUNTS[kind]))
    return jobs + (
        grid_of(AS_IN_THE_PAPER, 10, POWERS, (50,))
        if kind == "classification" and at_hand()
        else []
    )


def study(kind: str, size: str) -> Study:
    """All powers on all data sets, trained as by default."""
    return Study(study_name(kind, size), jobs_of(kind, size), fit, {"kind": kind})


def compared_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows on which powers are compared: other versions of a data set, as in the paper, are
    left out.
    """
    return rows[~rows["data"].isin(AS_IN_THE_PAPER)]


def tables(kind: str, rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Means over splits and numbers of inducing points, and the claims of the paper."""
    # an SMSE may be tiny
    specs = {score: ".3g" if score == "smse" else ".3f" for score in SCORES[kind]}
    specs["log_marginal_likelihood"] = ".1f"
    found = {
        f"{score} by data and power": mean_table(rows, "data", "power", score, spec)
        for score, spec in specs.items()
    }
    claims = check_claims(compared_sets(rows), PAPER_CLAIMS[kind])
    return found | {"what the paper says, and what was found": claims_table(claims)}


def pair_figure(kind: str, rows: pd.DataFrame) -> Figure:
    """Scores of powers 0.5, 1 and 0 against each other, one row of axes for each score."""
    figure = Figure(figsize=(12.0, 8.6), layout="constrained")
    for score, axes in zip(SCORES[kind], figure.subplots(2, 3), strict=True):
        for ax, pair in zip(axes, PAIRS, strict=True):
            plot_pairs(paired(rows, score, pair), score, ax)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=8)
    return figure


def each_set_figure(rows: pd.DataFrame, score: str) -> Figure:
    """The same for one score, with a row of axes for each data set and a colour for each M."""
    names = pd.unique(rows["data"])
    figure = Figure(figsize=(9.0, 1.9 * len(names)), layout="constrained")
    for name, axes in zip(names, figure.subplots(len(names), 3, squeeze=False), strict=True):
        for ax, pair in zip(axes, PAIRS, strict=True):
            a, b = pair
            one = paired(rows[rows["data"] == name], score, pair).droplevel(["data", "split"])
            ax.scatter(one[b], one[a], s=12, c=np.log(one.index), cmap="viridis")
            ax.axline((one[b].median(), one[b].median()), slope=1.0, color="black", lw=0.8)
            ax.set(xlabel=f"{score.upper()}, power {b:g}", ylabel=f"power {a:g}", title=name)
            ax.title.set_fontsize(9)
    return figure


def rank_figure(kind: str, rows: pd.DataFrame) -> Figure:
    """Matrix of wins, average ranks and critical differences of all powers."""
    figure = Figure(figsize=(12.0, 7.4), layout="constrained")
    for score, axes in zip(SCORES[kind], figure.subplots(2, 3), strict=True):
        for plot, ax in zip(
            (plot_win_matrix, plot_average_ranks, plot_critical_difference), axes, strict=True
        ):
            plot(paired(rows, score), score, ax)
    return figure


def inducing_figure(rows: pd.DataFrame, score: str) -> Figure:
    """A score against M, a plot for each data set and a line for each power."""
    table = paired(rows, score)
    names = pd.unique(table.index.get_level_values("data"))
    shape = -(-len(names) // 4), min(4, len(names))
    figure = Figure(figsize=(12.0, 2.9 * shape[0]), layout="constrained")
    axes = figure.subplots(*shape, squeeze=False).ravel()
    for ax, name in zip(axes, names, strict=False):
        plot_against_inducing(table.loc[[name]], score, ax)
        ax.set_title(name)
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def figures(kind: str, rows: pd.DataFrame) -> dict[str, Figure]:
    """Pairs of powers, scores against M, and ranks if there are several data sets."""
    rows = compared_sets(rows)
    found = {"pairs": pair_figure(kind, rows)} | {
        score: inducing_figure(rows, score) for score in (*SCORES[kind], "log_marginal_likelihood")
    }
    found |= {f"{score} of each set": each_set_figure(rows, score) for score in SCORES[kind]}
    return found | ({"ranks": rank_figure(kind, rows)} if rows["data"].nunique() > 2 else {})
