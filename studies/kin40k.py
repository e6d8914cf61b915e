"""The tight form, local prediction and blocks on 5000 rows of kin40k, as Bui and Titsias (2025)
had them.
"""

import pandas as pd
from matplotlib.figure import Figure

from studies.beyond import fit, forms_of
from studies.common import at_hand, formatted, grid_of, study_name
from studies.runner import Study


def study(size: str) -> Study:
    """256 and 512 inducing points, blocks of 10."""
    quick = size == "quick"
    counts, powers = ((256,), (0.0,)) if quick else ((256, 512), (0.0, 0.5))
    fits = grid_of(
        ["kin40k" if at_hand() else "diabetes"],
        {"quick": 1, "standard": 2, "full": 5}[size],
        powers,
        counts,
    )
    settings = {"max_iter": 30 if quick else 300, "tol": 1e-3, "most_rows": 5000}
    return Study(study_name("kin40k", size), forms_of(fits, 10), fit, settings)


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Root of the standardised squared error and mean log density of each method, averaged over
    splits, by M.
    """
    form = rows["tight"].map({False: "plain", True: "tight"}).rename("form")
    scores = {"RMSE": rows["error"] ** 0.5, "log density": -rows["nll"]}
    return (
        pd.DataFrame(scores)
        .groupby([rows["power"], rows["blocks"], form, rows["prediction"], rows["M"]])
        .mean()
        .unstack("M")
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The mean scores of each method, as text."""
    table = means(rows)
    table.columns = [f"{score}, M = {M}" for score, M in table.columns]
    return {"mean scores": formatted(table, dict.fromkeys(table, ".3f"))}


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """The mean scores of each method."""
    table = means(rows)
    figure = Figure(figsize=(9.0, 1.2 + 0.24 * len(table)), layout="constrained")
    names = [", ".join(map(str, key)) for key in table.index]
    for ax, score in zip(figure.subplots(1, 2, sharey=True), ("RMSE", "log density"), strict=True):
        for M, values in table[score].items():
            ax.plot(values, names, "o", label=f"M = {M}")
        ax.set(xlabel=score)
    ax.legend(fontsize=8)
    return {"scores": figure}
