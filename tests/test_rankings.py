"""Pictures of studies: what is drawn, where, and what is refused."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from reference.made_up import made_up_rows

from sparse_pep.plots.fits import BLUE, ORANGE
from sparse_pep.studies.rankings import (
    SET_COLORS,
    WIN_COLORS,
    cells_label,
    emptier_corner,
    gain_histogram,
    ink_on,
    means_by_inducing,
    middle_range,
    plot_average_ranks,
    plot_critical_difference,
    plot_pairs,
    plot_rank_matrix,
    plot_scores_by_inducing,
)
from sparse_pep.studies.statistics import (
    Cells,
    average_ranks,
    critical_difference,
    ranks_of_sets,
    score_cells,
    win_matrix,
)

ROWS = made_up_rows({0.0: 0.1, 0.5: 0.0, 1.0: 0.2}, n_sets=5, n_splits=4, seed=1)
CELLS = score_cells(ROWS, "smse")
PAIRS = CELLS.pick(0.5, 1.0)


@pytest.fixture
def ax():
    figure = plt.figure()
    yield figure.subplots()
    plt.close(figure)


def points_of(ax):
    """All points (x, y) drawn without a line, and those of them that are hollow."""
    full = [line for line in ax.lines if line.get_linestyle() == "None"]
    points = np.concatenate([line.get_xydata() for line in full])
    hollow = [line.get_xydata() for line in full if line.get_markerfacecolor() == "none"]
    return points, np.concatenate(hollow)


def two(values, **labels):
    """Cells of two methods, a table (C, 2)."""
    data, M = (labels.get(name, [value] * len(values)) for name, value in (("data", "a"), ("M", 5.0)))
    index = pd.MultiIndex.from_arrays([data, range(len(values)), M], names=["data", "split", "M"])
    return Cells(labels.get("score", "smll"), pd.DataFrame(np.asarray(values, dtype=float), index, [0.5, 0.0]))


DRAWN = [
    (plot_pairs, PAIRS, {}),
    (plot_rank_matrix, CELLS, {}),
    (plot_average_ranks, CELLS, {}),
    (plot_critical_difference, CELLS, {}),
    (plot_scores_by_inducing, CELLS, {}),
]


@pytest.mark.parametrize("draw, cells, options", DRAWN)
def test_axes_are_used_or_made(draw, cells, options, ax):
    assert draw(cells, ax=ax, **options) is ax
    made = draw(cells, **options)
    assert made.figure is not ax.figure
    made.figure.canvas.draw()  # nothing that cannot be drawn
    plt.close(made.figure)
    with pytest.raises(ValueError, match="`ax` must be Matplotlib axes"):
        draw(cells, ax="here", **options)
    with pytest.raises(ValueError, match="`cells` must be Cells"):
        draw(ROWS, **options)


# --- pairs -----------------------------------------------------------------------------------------


def test_the_first_method_is_on_the_vertical_axis(ax):
    plot_pairs(PAIRS, ax=ax)
    points, hollow = points_of(ax)
    assert sorted(map(tuple, points)) == sorted(map(tuple, PAIRS.values[:, ::-1]))
    assert not len(hollow) and ax.get_title() == ""
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("SMSE, power 1", "SMSE, power 0.5")
    np.testing.assert_allclose(ax.get_xlim(), ax.get_ylim())
    np.testing.assert_allclose(ax.lines[0].get_xdata(), ax.lines[0].get_ydata())  # the diagonal


@pytest.mark.parametrize(
    "color_by, labels", [("data", [f"set {i}" for i in range(5)]), ("M", ["M = 10", "M = 50", "M = 200"])]
)
def test_groups_have_a_colour_and_a_shape(color_by, labels, ax):
    plot_pairs(PAIRS, ax=ax, color_by=color_by)
    handles, found = ax.get_legend_handles_labels()
    assert found == labels
    assert len({(line.get_marker()) for line in handles}) == len(labels)
    assert len({str(line.get_color()) for line in handles}) == len(labels)
    names = PAIRS.data if color_by == "data" else np.array([f"M = {m:g}" for m in PAIRS.M])
    for line, label in zip(handles, found):
        np.testing.assert_array_equal(line.get_xydata(), PAIRS.values[names == label][:, ::-1])


def test_numbers_of_points_are_named_in_their_order(ax):
    plot_pairs(two([[1.0, 2.0]] * 3, M=[50.0, 200.0, 10.0]), ax=ax, color_by="M")
    assert ax.get_legend_handles_labels()[1] == ["M = 10", "M = 50", "M = 200"]


def test_a_few_far_runs_do_not_squeeze_the_others(ax):
    values = np.c_[np.linspace(-3.0, -1.0, 100), np.linspace(-2.9, -1.1, 100)]
    values[7, 0] = 50.0
    plot_pairs(two(values), ax=ax)
    points, hollow = points_of(ax)
    assert ax.get_ylim()[1] < 0.0 and ax.get_title() == "1 of 100 runs beyond the axes"
    np.testing.assert_allclose(hollow, [[values[7, 1], ax.get_ylim()[1]]])
    assert len(points) == 100


def test_the_range_holds_all_that_is_not_far():
    assert middle_range(np.arange(101.0)) == (-6.0, 106.0)
    low, high = middle_range(np.r_[np.arange(100.0), 180.0, -120.0])
    assert low < 0.0 and -120.0 < low and high > 180.0  # 96 units wide in the middle: 180 is within, −120 is not
    assert middle_range(np.full(5, 2.0)) == (1.88, 2.12)
    assert middle_range(np.zeros(5)) == (-1.0, 1.0)
    assert middle_range(np.r_[np.zeros(99), 1.0])[1] > 1.0


@pytest.mark.parametrize(
    "values, scale",
    [
        ([[0.01, 0.02], [0.5, 0.4]], "log"),
        ([[0.1, 0.2], [0.5, 0.4]], "linear"),
        ([[-0.01, 0.02], [0.5, 0.4]], "linear"),
    ],
)
def test_positive_scores_that_spread_widely_get_logarithms(values, scale, ax):
    plot_pairs(two(values), ax=ax)
    assert (ax.get_xscale(), ax.get_yscale()) == (scale, scale)
    points, hollow = points_of(ax)
    assert not len(hollow) and np.all(points > ax.get_xlim()[0]) and np.all(points < ax.get_xlim()[1])
    ax.figure.canvas.draw()
    if scale == "log":
        assert {"0.02", "0.1"} <= {label.get_text() for label in ax.get_xticklabels()}


def test_the_histogram_says_who_wins(ax):
    """Gains of the first to the right, ties half on both sides, everything counted."""
    gains = np.array([1.0, 2.0, 3.0, 0.0, -1.0, 900.0])
    gain_histogram(ax, two(np.c_[np.zeros(6), gains]))
    assert [text.get_text() for text in ax.texts] == ["0.5:\n75 %", "0:\n25 %"]
    assert [text.get_ha() for text in ax.texts] == ["right", "left"]
    bars = [(bar.get_x() + bar.get_width() / 2, bar.get_height(), to_rgb(bar.get_facecolor())) for bar in ax.patches]
    assert sum(height for _, height, _ in bars) == 6
    for x, _, color in bars:
        assert color == (to_rgb("#777777") if abs(x) < 1e-9 else to_rgb(BLUE) if x > 0 else to_rgb(ORANGE))
    assert bars[-1][1] == 1  # what lies beyond


def test_evidence_counts_as_a_gain_where_it_is_larger(ax):
    gain_histogram(ax, two([[5.0, 1.0], [4.0, 2.0]], score="log_marginal_likelihood"))
    assert ax.texts[0].get_text() == "0.5:\n100 %"


def test_the_histogram_of_ties_alone(ax):
    gain_histogram(ax, two(np.ones((4, 2))))
    assert [bar.get_height() for bar in ax.patches if bar.get_height()] == [4.0]
    assert all(bar.get_width() > 0.0 for bar in ax.patches)
    assert ax.texts[0].get_text() == "0.5:\n50 %"


def test_weights_count_in_the_histogram(ax):
    """Three losses on one set, one win on another: 50 % if sets count the same."""
    cells = two([[1.0, 0.0]] * 3 + [[0.0, 1.0]], data=["a", "a", "a", "b"]).equal_sets()
    gain_histogram(ax, cells)
    assert ax.texts[0].get_text() == "0.5:\n50 %"
    heights = [bar.get_height() for bar in ax.patches if bar.get_height()]
    np.testing.assert_allclose(heights, [2.0, 2.0])


@pytest.mark.parametrize("where, corner", [((0.1, 0.9), "right"), ((0.9, 0.1), "left"), ((0.5, 0.5), "left")])
def test_the_inset_is_where_fewer_points_are(where, corner, ax):
    ax.set(xscale="log", xlim=(1.0, 100.0), ylim=(0.0, 2.0))
    point = 100.0 ** where[0], 2.0 * where[1]
    left, bottom, width, height = emptier_corner(ax, np.array([point] * 3))
    assert (left > 0.5) == (corner == "right") and (bottom < 0.5) == (corner == "right")


def test_inset_and_legend_can_be_left_out(ax):
    plot_pairs(PAIRS, ax=ax, inset=False, legend=False)
    assert not ax.child_axes and ax.get_legend() is None
    plot_pairs(PAIRS, ax=ax)
    assert len(ax.child_axes) == 1 and ax.get_legend() is not None


def test_what_pairs_refuse():
    with pytest.raises(ValueError, match="must hold 2 methods; it holds 3"):
        plot_pairs(CELLS)
    with pytest.raises(ValueError, match="`color_by` must be 'data' or 'M'; got 'power'"):
        plot_pairs(PAIRS, color_by="power")


# --- matrix ----------------------------------------------------------------------------------------


def test_the_matrix_shows_rows_against_columns(ax):
    cells = score_cells(made_up_rows({0.0: 0.1, 0.5: 0.0, 1.0: 0.6}, seed=1), "smse")
    plot_rank_matrix(cells, ax=ax)
    wins = win_matrix(cells)
    np.testing.assert_allclose(ax.images[0].get_array(), wins.value)
    assert ax.images[0].get_clim() == (0.0, 1.0)
    said = {(int(text.get_position()[1]), int(text.get_position()[0])): text for text in ax.texts}
    assert set(said) == {(i, j) for i in range(3) for j in range(3) if i != j}
    for (i, j), text in said.items():
        assert text.get_text() == f"{100 * wins.value[i, j]:.0f}"
        clear = wins.low[i, j] > 0.5 or wins.high[i, j] < 0.5
        assert (text.get_weight() == "bold") == clear
    assert {text.get_weight() for text in ax.texts} == {"bold", "normal"}  # both kinds are there
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "0.5", "1"]


def test_numbers_can_be_read_on_their_colours():
    """A contrast of 4.5 to 1 at least (WCAG AA), at every share."""

    def light(color):
        return np.dot(
            [0.2126, 0.7152, 0.0722],
            [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)],
        )

    for share in np.linspace(0.0, 1.0, 101):
        lights = sorted((light(WIN_COLORS(share)), light(ink_on(WIN_COLORS(share)))))
        assert (lights[1] + 0.05) / (lights[0] + 0.05) > 4.5


def test_the_ends_of_the_colours():
    np.testing.assert_allclose([WIN_COLORS(0.0)[:3], WIN_COLORS(1.0)[:3]], [to_rgb(ORANGE), to_rgb(BLUE)], atol=1e-6)
    assert min(WIN_COLORS(0.5)[:3]) > 0.98
    assert len(set(SET_COLORS)) == 8


# --- ranks -----------------------------------------------------------------------------------------


def test_average_ranks_with_both_intervals(ax):
    plot_average_ranks(CELLS, ax=ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), average_ranks(CELLS).value)
    assert list(ax.lines[1].get_ydata()) == [2.0, 2.0]  # all alike
    for bars, clusters in zip(ax.collections, ("none", "data, split")):
        found = average_ranks(CELLS, clusters)
        ends = np.array([segment[:, 1] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, np.c_[found.low, found.high])
    assert ax.collections[0].get_label() == "95 % if runs were independent"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "0.5", "1"]


def test_other_clusters_are_named(ax):
    plot_average_ranks(CELLS, ax=ax, clusters="data")
    assert ax.collections[1].get_label() == "95 % by clusters: data"
    segments = np.array([segment[:, 1] for segment in ax.collections[1].get_segments()])
    np.testing.assert_allclose(segments[:, 0], average_ranks(CELLS, "data").low)


def clear_cells(S=20, P=5):
    """Methods whose order is the same on all sets, best first by name."""
    index = pd.MultiIndex.from_product([[f"set {i}" for i in range(S)], [0], [1]], names=["data", "split", "M"])
    return Cells("smse", pd.DataFrame(np.add.outer(np.arange(S), np.arange(P)) * 1.0, index, np.arange(P) / 4))


def segments_of(ax, color):
    return [line.get_xydata() for line in ax.lines if line.get_color() == color]


def test_the_line_of_critical_differences(ax):
    cells = clear_cells()
    plot_critical_difference(cells, ax=ax)
    gap = critical_difference(5, 20)
    assert 1.0 < gap < 2.0
    bars = segments_of(ax, BLUE)
    ends = [(bar[0, 0], bar[1, 0]) for bar in bars]
    np.testing.assert_allclose(ends, [(k - 0.03, k + 1.03) for k in (1, 2, 3, 4)])
    assert len({bar[0, 1] for bar in bars}) == 4  # each at a height of its own
    (red,) = [line for line in ax.lines if line.get_marker() == "|"]
    np.testing.assert_allclose(red.get_xdata(), [1.0, 1.0 + gap])
    said = [text.get_text() for text in ax.texts]
    assert f"critical difference {gap:.2f}" in said
    assert said[-5:] == ["0  (1.00)", "0.25  (2.00)", "0.5  (3.00)", "0.75  (4.00)", "1  (5.00)"]


def test_labels_are_below_all_bars_and_do_not_overlap(ax):
    cells = clear_cells()
    plot_critical_difference(cells, ax=ax)
    lowest = min(bar[:, 1].min() for bar in segments_of(ax, BLUE))
    for on_left in (True, False):
        heights = [t.get_position()[1] for t in ax.texts[-5:] if (t.get_position()[0] < 3.0) == on_left]
        assert len(heights) in (2, 3) and max(heights) < lowest
        assert np.all(np.abs(np.diff(heights)) >= 0.5 - 1e-9)
        assert min(heights) > ax.get_ylim()[0]


def test_wilcoxon_has_no_critical_difference(ax):
    plot_critical_difference(clear_cells(), ax=ax, test="wilcoxon")
    assert not segments_of(ax, BLUE) and not any("critical" in text.get_text() for text in ax.texts)
    with pytest.raises(ValueError, match="`test` must be"):
        plot_critical_difference(CELLS, ax=ax, test="t")


def test_ranks_are_those_of_friedman(ax):
    plot_critical_difference(CELLS, ax=ax)
    ranks = sorted(ranks_of_sets(CELLS))
    assert [text.get_text().split("(")[1] for text in ax.texts[-3:]] == [f"{rank:.2f})" for rank in ranks]


# --- scores against M ------------------------------------------------------------------------------


def test_means_are_over_splits_with_every_inducing():
    rows = ROWS.query("not (data == 'set 1' and split == 2 and M == 50)")
    means, errors = means_by_inducing(score_cells(rows, "smse").of("set 1"))
    kept = ROWS.query("data == 'set 1' and split != 2").groupby(["M", "power"])["smse"]
    np.testing.assert_array_equal(means.index, [10, 50, 200])
    np.testing.assert_allclose(means, kept.mean().unstack())
    np.testing.assert_allclose(errors, kept.std().unstack() / np.sqrt(3))


def test_means_over_sets_may_count_each_set_the_same():
    cells = score_cells(ROWS.query("data != 'set 0' or split == 0"), "smse").equal_sets()
    by_set = [means_by_inducing(cells.of(f"set {i}"))[0] for i in range(5)]
    np.testing.assert_allclose(means_by_inducing(cells)[0], np.mean(by_set, axis=0))


def test_one_split_has_no_error_and_none_is_refused():
    split = CELLS.table.index.get_level_values("split")
    one = CELLS.part((CELLS.data == "set 0") & (split == 0))
    assert np.all(means_by_inducing(one)[1] == 0.0)
    with pytest.raises(ValueError, match="no split of a data set has every M"):
        means_by_inducing(CELLS.part((split == 0) == (CELLS.M == 10)))


@pytest.mark.parametrize(
    "cells, title, bars", [(CELLS, "mean over 5 data sets", False), (CELLS.of("set 3"), "set 3", True)]
)
def test_lines_against_inducing(cells, title, bars, ax):
    plot_scores_by_inducing(cells, ax=ax)
    means, errors = (table.to_numpy() for table in means_by_inducing(cells))
    for k, container in enumerate(ax.containers):
        np.testing.assert_allclose(container.lines[0].get_xydata(), np.c_[[10, 50, 200], means[:, k]])
        assert container.has_yerr == bars
        if bars:
            ends = np.array([segment[:, 1] for segment in container.lines[2][0].get_segments()])
            np.testing.assert_allclose(ends, np.c_[means[:, k] - errors[:, k], means[:, k] + errors[:, k]])
    assert ax.get_title() == title and ax.get_xscale() == "log" and ax.get_yscale() == "log"
    assert ax.get_legend_handles_labels()[1] == ["power 0", "power 0.5", "power 1"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["10", "50", "200"]


def test_the_exact_method_is_dashed_and_the_legend_may_go(ax):
    rows = pd.concat([ROWS, ROWS[ROWS["power"] == 0.0].assign(power="exact", smse=0.01)])
    plot_scores_by_inducing(score_cells(rows, "smse"), ax=ax, legend=False)
    styles = {c.get_label(): c.lines[0].get_linestyle() for c in ax.containers}
    assert styles == {"power 0": "-", "power 0.5": "-", "power 1": "-", "exact": "--"}
    assert ax.get_legend() is None


def test_scores_that_may_be_negative_are_drawn_straight(ax):
    plot_scores_by_inducing(score_cells(ROWS.assign(smll=ROWS["smse"] - 0.2), "smll"), ax=ax)
    assert ax.get_yscale() == "linear" and ax.get_ylabel() == "SMLL (nats per data point, smaller is better)"


def test_labels_say_which_way_is_better():
    assert "larger is better" in cells_label("log_marginal_likelihood")
    assert all("smaller is better" in cells_label(score) for score in ("smse", "smll", "error", "nll", "seconds"))


@pytest.mark.parametrize("width", [2.2, 3.4, 4.0])
def test_labels_of_ticks_do_not_overlap_over_many_decades(width):
    fig, ax = plt.subplots(figsize=(width, width))
    plot_pairs(two([[10.0**-k, 1.2 * 10.0**-k] for k in range(7)]), ax=ax, inset=False, legend=False)
    fig.canvas.draw()
    low, high = ax.get_xlim()
    boxes = [label.get_window_extent() for place, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True) if low <= place <= high]
    assert len(boxes) >= 2
    assert all(left.x1 + 3 < right.x0 for left, right in zip(boxes, boxes[1:], strict=False))
    plt.close(fig)
