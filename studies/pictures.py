"""Pictures of pairs, ranks and scores of several powers. Tables of scores are those of
`studies.statistics.paired`.
"""

import numpy as np
import pandas as pd
import scikit_posthocs
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator, ScalarFormatter

from studies.statistics import average_ranks, gains, units, win_matrix, wins

MARKERS = "osD^v<>P"


def ends_of_middle(values: np.ndarray) -> np.ndarray:
    """The ends of an axis that shows the middle 96 % of some values, and others as far away as
    these reach.
    """
    low, high = np.quantile(values, [0.02, 0.98])
    near = values[(values >= 2.0 * low - high) & (values <= 2.0 * high - low)]
    margin = 0.06 * np.ptp(near)
    return np.array([near.min() - margin, near.max() + margin])


def draw_gains(gain: np.ndarray, ax: Axes) -> None:
    """Draw a histogram of gains, of which the largest 5 % are drawn at the edge."""
    reach = np.quantile(np.abs(gain), 0.95) or 1.0
    ax.hist(np.clip(gain, -reach, reach), 21, range=(-reach, reach), color="0.6")
    ax.axvline(0.0, color="black", lw=0.8)
    ax.set(xticks=[], yticks=[])


def plot_pairs(table: pd.DataFrame, score: str, ax: Axes) -> None:
    """Draw the scores of two methods against each other, a point for each run; below the line the
    first one, which is on the vertical axis, is better. An inset has the histogram of the gains,
    and the title its share of wins. Runs that are far away from the middle 96 % are drawn at the
    edge.
    """
    points = table.to_numpy()[:, ::-1]
    scale = "linear"
    ends = ends_of_middle(points)
    if points.min() > 0.0 and points.max() > 20.0 * points.min():
        scale = "log"
        ends = np.exp(ends_of_middle(np.log(points)))
    drawn = pd.DataFrame(np.clip(points, *ends), table.index)
    ax.set(xscale=scale, yscale=scale, xlim=ends, ylim=ends)
    ax.plot(ends, ends, color="black", lw=0.8)
    for k, (name, part) in enumerate(drawn.groupby(level="data", sort=False)):
        style = {"color": f"C{k}", "ms": 4, "alpha": 0.8, "clip_on": False}
        ax.plot(part[0], part[1], MARKERS[k % 8], label=name, **style)
    a, b = table.columns
    share = units(wins(gains(table))).mean()
    ax.set(xlabel=f"{score.upper()}, power {b:g}", ylabel=f"{score.upper()}, power {a:g}")
    ax.set_title(f"{a:g} wins {share:.0%}, {b:g} {1.0 - share:.0%}", fontsize=9)
    ax.set_box_aspect(1)
    place = ax.transAxes.inverted().transform(ax.transData.transform(drawn))
    x, y = place.T
    corner = [0.61, 0.03, 0.36, 0.25]
    if np.sum((x < 0.4) & (y > 0.7)) <= np.sum((x > 0.6) & (y < 0.3)):  # the emptier one
        corner = [0.03, 0.72, 0.36, 0.25]
    draw_gains(gains(table), ax.inset_axes(corner))


def plot_win_matrix(table: pd.DataFrame, score: str, ax: Axes) -> None:
    """Draw in what percentage of the runs each method (row) beats each other one (column), bold
    where the interval excludes 50.
    """
    share, low, high = win_matrix(table)
    ax.imshow(share, cmap="PuOr", vmin=-0.2, vmax=1.2)  # pale enough for black text
    for i, j in np.argwhere(~np.eye(len(share), dtype=bool)):
        weight = "bold" if low[i, j] > 0.5 or high[i, j] < 0.5 else "normal"
        ax.text(j, i, f"{100.0 * share[i, j]:.0f}", ha="center", va="center", weight=weight)
    names = [f"{power:g}" for power in table.columns]
    places = range(len(share))
    ax.set(
        xticks=places,
        xticklabels=names,
        yticks=places,
        yticklabels=names,
        xlabel="against power",
        ylabel="power",
    )
    ax.tick_params(labelsize=8)
    ax.set_title(f"{score.upper()}: % of runs won", fontsize=10)


def plot_average_ranks(table: pd.DataFrame, score: str, ax: Axes) -> None:
    """Draw the average rank of each method, 1 being the best, with its 95 % interval."""
    rank, low, high = average_ranks(table)
    ax.errorbar(range(len(rank)), rank, [rank - low, high - rank], fmt="ko", ecolor="C0", capsize=3)
    ax.axhline(0.5 * (len(rank) + 1), color="0.5", ls="--", lw=1.0)
    ax.set(xticks=range(len(rank)), xticklabels=[f"{power:g}" for power in table.columns])
    ax.tick_params(axis="x", labelsize=8)
    ax.set(
        xlabel="power (0: VFE, 1: FITC or EP)",
        ylabel=f"average rank in {score.upper()} (1 is best)",
    )


def plot_critical_difference(table: pd.DataFrame, score: str, ax: Axes) -> None:
    """Draw average ranks of the means of data sets on a line, and join those that Nemenyi's test
    cannot tell apart at 5 %.
    """
    means = units(table).rename(columns="{:g}".format)
    pvalues = scikit_posthocs.posthoc_nemenyi_friedman(means)
    scikit_posthocs.critical_difference_diagram(means.rank(axis=1).mean(), pvalues, ax=ax)
    ax.set_title(f"average rank in {score.upper()} over data sets", fontsize=10)


def plot_against_inducing(table: pd.DataFrame, score: str, ax: Axes) -> None:
    """Draw the mean score against M, a line for each method, over the splits that have every M.
    One data set has error bars.
    """
    wide = table.unstack("M").dropna().stack("M", future_stack=True)
    by_M = wide.groupby(level="M")
    means = by_M.mean()
    errors = by_M.std() / np.sqrt(by_M.size().to_numpy()[:, None])
    single = table.index.get_level_values("data").nunique() == 1
    for k, power in enumerate(means):
        color = colormaps["viridis"](0.85 * k / max(len(means.columns) - 1, 1))
        bars = errors[power] if single else None
        ax.errorbar(
            means.index,
            means[power],
            bars,
            color=color,
            marker=MARKERS[k % 8],
            ms=5,
            capsize=2,
            lw=1.4,
            label=f"power {power:g}",
        )
    low = means.min(axis=None)
    high = means.max(axis=None)
    ax.set(
        xscale="log",
        yscale="log" if 0.0 < 4.0 * low < high else "linear",
        xlabel="number of inducing points M",
        ylabel=score,
    )
    ax.set_xticks(means.index, [f"{M:g}" for M in means.index])
    ax.xaxis.set_minor_locator(NullLocator())
    if ax.get_yscale() == "log":
        ax.yaxis.set_major_formatter(ScalarFormatter())
