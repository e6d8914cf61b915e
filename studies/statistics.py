"""How often one power beats another, and how certain this is when the runs are not independent.
 Tables of scores have a row for each cell (data, split, M) and a column for each method; smaller is
better. The runs on one data set resemble each other, and so do those on one split of it, so that a
data set counts as one observation: its mean over splits and numbers of inducing points. With a
single data set, a split does.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm, t, wilcoxon
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

CELL = ["data", "split", "M"]


def paired(
    rows: pd.DataFrame, score: str, methods: Sequence | None = None, by: str = "power"
) -> pd.DataFrame:
    """A score of several methods (by default all) in the cells where all of them have one.

    Raises
    ------
    ValueError
        If there is no such cell, two rows are the same run, or a score is missing on a data set
        that has others.
    """
    table = rows.dropna(subset=[by]).pivot(index=CELL, columns=by, values=score)
    table = table if methods is None else table[list(methods)]
    failed = rows[
        rows[by].isin(table.columns) & rows["data"].isin(rows.loc[rows[score].notna(), "data"])
    ]
    failed = failed[~np.isfinite(failed[score])]
    if len(failed):
        raise ValueError(
            f"{score!r} of {failed[[*CELL, by]].iloc[0].to_dict()} is no finite number: "
            "run it again, or leave out its cell."
        )
    table = table.dropna()
    if table.empty:
        raise ValueError(
            f"no data set, split and M has {score!r} for all of {list(table.columns)}."
        )
    return table


def gains(table: pd.DataFrame) -> pd.Series:
    """By how much the first of two methods is better than the second in each cell, in units of
    the score.
    """
    first, second = table.columns
    return table[second] - table[first]


def wins(gain: pd.Series) -> pd.Series:
    """1 for each win (positive gain), ½ for each tie and 0 for each loss."""
    return 0.5 * (1.0 + np.sign(gain))


def units(values: pd.Series | pd.DataFrame) -> pd.Series | pd.DataFrame:
    """Means over what is not independent: one for each data set, or for each split if there is a
    single data set.
    """
    several = values.index.get_level_values("data").nunique() > 1
    return values.groupby(level="data" if several else "split", sort=False).mean()


class Interval(NamedTuple):
    """A mean and the ends of its 95 % interval, each a number or an array."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def interval(values: pd.Series | pd.DataFrame, n_draws: int = 10_000) -> Interval:
    """The mean of the data sets' means, with a bootstrap over data sets and over the splits of
    each; of each column of `values`.

    SciPy's bootstrap draws single values, so that the two levels are written out. The percentiles
    are expanded: for few data sets the plain ones are too narrow, by √((n−1)/n) and because t
    quantiles are wider than normal ones (Hesterberg 2015, What teachers should know about the
    bootstrap).
    """
    splits = values.groupby(level=["data", "split"], sort=False).mean()
    sizes = splits.groupby(level="data", sort=False).size().to_numpy()
    n = len(units(values))
    rng = np.random.default_rng(0)
    if n < 2:
        raise ValueError("an interval needs at least two data sets, or two splits of a single one.")
    S = len(sizes)
    # how often each data set comes up, and then each of its splits
    drawn = rng.multinomial(S, np.full(S, 1.0 / S), size=n_draws)
    weights = [
        rng.multinomial(drawn[:, i] * J, np.full(J, 1.0 / J)) / (S * J) for i, J in enumerate(sizes)
    ]
    level = norm.cdf(np.sqrt(n / (n - 1.0)) * t.ppf(0.025, n - 1))
    low, high = np.quantile(np.hstack(weights) @ splits.to_numpy(), [level, 1.0 - level], axis=0)
    return Interval(np.asarray(units(values).mean())[()], low, high)


def average_ranks(table: pd.DataFrame) -> Interval:
    """The average rank of each method, where 1 is the best and ties share their mean."""
    return interval(table.rank(axis=1))


def win_matrix(table: pd.DataFrame) -> Interval:
    """The share of the runs in which each method (row) beats each other one (column), arrays (P,
    P).
    """
    P = table.shape[1]
    costs = table.to_numpy()
    each = wins((costs[:, None, :] - costs[:, :, None]).reshape(-1, P * P))
    return Interval(*(end.reshape(P, P) for end in interval(pd.DataFrame(each, table.index))))


def pairwise_wilcoxon(table: pd.DataFrame, pairs: Iterable[tuple]) -> pd.DataFrame:
    """Wilcoxon's signed-rank test of pairs of methods on the means of the data sets, with Holm's
    correction.
    """
    found = []
    means = units(table)
    for a, b in pairs:
        gain = means[b] - means[a]
        found.append((a, b, np.sum(gain > 0), np.sum(gain < 0), wilcoxon(gain).pvalue))
    tests = pd.DataFrame(found, columns=["a", "b", "won", "lost", "pvalue"])
    return tests.assign(corrected=multipletests(tests["pvalue"], method="holm")[1])


class Claim(NamedTuple):
    """That one power beats another: in `percent` of the runs (None: no clear winner), and on how
    many data sets.
    """

    score: str
    better: float
    worse: float
    percent: float | None
    sets: str


PAPER_CLAIMS = {
    "regression": (
        Claim("smse", 0.5, 0.0, 67.0, "6 of 8"),
        Claim("smse", 0.5, 1.0, 78.0, "8 of 8"),
        Claim("smse", 0.0, 1.0, 64.0, "3 of 8"),
        Claim("smll", 1.0, 0.0, 93.0, "7 of 8"),
        Claim("smll", 1.0, 0.5, 71.0, "5 of 8"),
        Claim("smll", 0.5, 0.0, 93.0, "8 of 8"),
    ),
    "classification": (
        Claim("error", 0.5, 0.0, None, "1 of 6"),
        Claim("error", 0.5, 1.0, None, "3 of 6"),
        Claim("error", 0.0, 1.0, None, "2 of 6"),
        Claim("nll", 0.5, 0.0, None, "1 of 6"),
        Claim("nll", 0.5, 1.0, 65.0, "5 of 6"),
        Claim("nll", 0.0, 1.0, None, "4 of 6"),
    ),
}


def verdict(claim: Claim, found: float, low: float, high: float) -> str:
    """What the share of wins that was found, with its interval, says of a claim."""
    if low <= 0.5 <= high:
        return (
            "agrees" if claim.percent is None else "cannot tell"
        ) + ": the interval contains 50 %"
    if claim.percent is None or high < 0.5:
        return f"differs: {claim.better if low > 0.5 else claim.worse:g} wins more often"
    if low <= claim.percent / 100.0 <= high:
        return "agrees"
    return (
        f"agrees in direction, {'less' if found < claim.percent / 100.0 else 'more'} "
        "often than stated"
    )


def check_claims(rows: pd.DataFrame, claims: Iterable[Claim]) -> pd.DataFrame:
    """A row for each claim: the share of wins `found`, its interval `low` to `high`, the interval
    `low_runs` to `high_runs` that takes every run as independent (Wilson's), the data sets won, and
    a verdict in words.
    """
    checked = []
    for claim in claims:
        gain = gains(paired(rows, claim.score, (claim.better, claim.worse)))
        won = wins(gain)
        found, low, high = map(float, interval(won))
        if np.ptp(one := units(won)) == 0.0:  # nothing to resample
            low, high = proportion_confint(found * len(one), len(one), method="wilson")
        shares = won.groupby(level="data").mean()
        sizes = won.groupby(level="data").size()
        # as many equal runs as these, which are weighted by data set (Kish 1965)
        n_runs = len(sizes) ** 2 / np.sum(1.0 / sizes)
        low_runs, high_runs = proportion_confint(found * n_runs, n_runs, method="wilson")
        numbers = {
            "found": found,
            "low": low,
            "high": high,
            "low_runs": low_runs,
            "high_runs": high_runs,
        }
        numbers |= {
            "runs": len(won),
            "ties": sum(gain == 0.0),
            "won": sum(shares > 0.5),
            "n_sets": len(shares),
        }
        checked.append(claim._asdict() | numbers | {"verdict": verdict(claim, found, low, high)})
    return pd.DataFrame(checked)


def claims_table(checked: pd.DataFrame) -> pd.DataFrame:
    """The table of `check_claims` as text with units."""
    columns = {
        "score": checked["score"].str.upper(),
        "claim": [
            f"{a:g} beats {b:g}" for a, b in zip(checked["better"], checked["worse"], strict=True)
        ],
        "stated": [
            "no clear winner" if pd.isna(percent) else f"{percent:g} %"
            for percent in checked["percent"]
        ],
        "found": [f"{found:.0%}".replace("%", " %") for found in checked["found"]],
        "95 % interval": [
            f"{100 * a:.0f} to {100 * b:.0f} %"
            for a, b in zip(checked["low"], checked["high"], strict=True)
        ],
        "if runs were independent": [
            f"{100 * a:.0f} to {100 * b:.0f} %"
            for a, b in zip(checked["low_runs"], checked["high_runs"], strict=True)
        ],
        "runs": checked["runs"],
        "ties": checked["ties"],
        "sets stated": checked["sets"],
        "sets found": [
            f"{won} of {n}" for won, n in zip(checked["won"], checked["n_sets"], strict=True)
        ],
        "verdict": checked["verdict"],
    }
    return pd.DataFrame(columns).set_index(["score", "claim"])
