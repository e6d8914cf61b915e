"""How much of a score is luck: the same fits from ten starts, which differ in the k-means
centres.
"""

import pandas as pd
from matplotlib.figure import Figure

from studies import real
from studies.common import CLASSIFICATION, ENDS, LARGE, REGRESSION, at_hand, kind_of, study_name
from studies.runner import Study


def fit(job: dict) -> list[dict]:
    """The row of one fit; `nll` is the standardised mean log loss in regression."""
    (row,) = real.fit(job, kind_of(job["data"]))
    return [
        {{"smse": "error", "smll": "nll"}.get(name, name): value for name, value in row.items()}
    ]


def study(size: str) -> Study:
    """One split of each set of a few hundred rows, ten seeds, few and many inducing points."""
    sets = (
        [name for name in (*REGRESSION, *CLASSIFICATION) if name not in LARGE]
        if at_hand()
        else ["diabetes", "breast_cancer"]
    )
    powers, n_starts = (ENDS, 2) if size == "quick" else ((0.0, 0.5, 0.8, 1.0), 10)
    counts = (10,) if size == "quick" else (10, 50)
    keys = [
        (name, seed, M, power)
        for seed in range(n_starts)
        for name in sets
        for M in counts
        for power in powers
    ]
    jobs = [
        {"data": name, "split": 0, "power": power, "M": M, "seed": seed}
        for name, seed, M, power in keys
    ]
    return Study(study_name("starts", size), jobs, fit)


def spreads(rows: pd.DataFrame) -> pd.DataFrame:
    """Standard deviations over starts, of the log evidence and of the scores, for each data set,
    M and power.
    """
    return rows.groupby(["data", "M", "power"], sort=False)[
        ["log_marginal_likelihood", "error", "nll"]
    ].std()


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The spreads of the log loss, in nats per data point, and of the log evidence, in nats."""
    found = spreads(rows).unstack("power")
    return {
        f"standard deviation of {score} over starts": found[score].round(4)
        for score in ("nll", "log_marginal_likelihood")
    }


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """The spread of the log loss for each power, a point for each data set and M."""
    figure = Figure(figsize=(6.0, 3.2), layout="constrained")
    ax = figure.subplots()
    for k, (name, one) in enumerate(spreads(rows).groupby(level="data", sort=False)):
        ax.plot(
            one.index.get_level_values("power"),
            one["nll"].clip(1e-5),
            "osD^v<>P*Xd"[k % 11],
            ms=4,
            label=name,
        )
    ax.set(yscale="log", xlabel="power", ylabel="spread of the log loss, nats")
    figure.legend(loc="outside right upper", fontsize=8)
    return {"spread": figure}
