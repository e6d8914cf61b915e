"""Statistics of studies: pairs, shares of wins, intervals by clusters, ranks, tests and the paper's claims."""

import csv
import io
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sparse_pep.studies.statistics import (
    CLUSTERS,
    PAPER_CLAIMS,
    SCORES,
    Cells,
    CheckedClaim,
    Claim,
    ClaimsTable,
    Interval,
    alike_groups,
    average_ranks,
    claims_table,
    cluster_interval,
    cluster_weights,
    critical_difference,
    different_pairs,
    friedman,
    holm,
    made_up_rows,
    mean_difference,
    paired,
    pairwise_wilcoxon,
    ranks_of_cells,
    score_cells,
    set_means,
    split_sums,
    tail_level,
    win_fraction,
    win_matrix,
    wins_by_set,
    wins_of,
)

CENTRE = {0.0: 0.06, 0.5: 0.0, 1.0: 0.12}
ROWS = made_up_rows(CENTRE, n_sets=5, n_splits=3, seed=3)
CELLS = score_cells(ROWS, "smse")


def cells_of(values, data=None, split=None, score="smse"):
    """Cells of a table (C, P), each row a data set of its own by default."""
    values = np.asarray(values, dtype=float)
    C, P = values.shape
    data = np.array([f"set {i}" for i in range(C)] if data is None else data)
    split = np.zeros(C) if split is None else np.asarray(split, dtype=float)
    return Cells(score, tuple(float(p) for p in range(P)), data, split, np.arange(C) * 1.0, values, ())


# --- from rows to cells ----------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_pairs_are_those_that_two_loops_find(data):
    """Any subset of the runs in any order: matched runs and unmatched cells as in the obvious search."""
    kept = data.draw(st.lists(st.sampled_from(range(len(ROWS))), unique=True, min_size=2))
    rows = [ROWS[k] for k in kept]
    matched, unmatched = {}, set()
    for row in rows:
        cell = (row["data"], row["split"], row["M"])
        if row["power"] == 1.0:
            continue
        other = [r for r in rows if (r["data"], r["split"], r["M"]) == cell and r["power"] == 0.5 - row["power"]]
        if not other:
            unmatched.add(cell)
        elif row["power"] == 0.5:
            matched[cell] = (row["smse"], other[0]["smse"])
    if not matched:
        with pytest.raises(ValueError):
            paired(rows, "smse", "power", 0.5, 0.0)
        return
    pairs = paired(rows, "smse", "power", 0.5, 0.0)
    found = dict(zip(zip(pairs.data, pairs.split, pairs.M), map(tuple, pairs.values)))
    assert found == matched
    assert set(pairs.left_out) == unmatched and len(pairs.left_out) == len(unmatched)


@pytest.mark.parametrize("score", SCORES)
def test_gains_are_positive_where_the_first_is_better(score):
    rows = [{"data": "a", "split": 0, "M": 5, "power": p, score: v} for p, v in ((0.0, 1.0), (0.5, 3.0))]
    gain = paired(rows, score, "power", 0.5, 0.0).gains()
    np.testing.assert_array_equal(gain, [2.0 if score == "log_marginal_likelihood" else -2.0])


def test_rows_from_a_file_and_from_pandas_give_the_same():
    file = io.StringIO()
    writer = csv.DictWriter(file, ROWS[0].keys())
    writer.writeheader()
    writer.writerows(ROWS)
    file.seek(0)
    for rows in (list(csv.DictReader(file)), pd.DataFrame(ROWS), (row for row in ROWS)):
        cells = score_cells(rows, "smse")
        assert cells.methods == CELLS.methods
        for name in ("data", "split", "M", "values"):
            np.testing.assert_array_equal(getattr(cells, name), getattr(CELLS, name))


def test_rows_without_the_score_are_not_looked_at():
    others = [{"data": "x", "split": 0, "M": 5, "power": 0.0, "nll": 0.3, "smse": empty} for empty in ("", None)]
    cells = score_cells(ROWS + others, "smse")
    assert "x" not in cells.data and not cells.left_out
    exact = [{"data": "set 0", "split": 0, "M": "", "power": empty, "smse": 0.1} for empty in ("", None, np.nan)]
    np.testing.assert_array_equal(score_cells(exact + ROWS, "smse").values, CELLS.values)
    with pytest.raises(ValueError, match="no row has a value of 'smse' and of 'power'"):
        score_cells(exact, "smse")
    assert "nll" not in ROWS[0]  # nor rows that do not have the column
    with pytest.raises(ValueError, match="no \\(data, split, M\\) has 'nll'|at least two"):
        score_cells(ROWS + others[:1], "nll")


def test_methods_are_sorted_or_in_the_order_asked_and_may_be_names():
    rows = ROWS + [row | {"power": "exact", "smse": 0.01} for row in ROWS if row["power"] == 0.0]
    assert score_cells(rows, "smse").methods == (0.0, 0.5, 1.0, "exact")
    cells = score_cells(rows, "smse", methods=("exact", 1))
    assert cells.methods == ("exact", 1.0) and np.all(cells.gains() > 0.0)
    by_M = score_cells([row | {"M": 7, "size": row["M"]} for row in ROWS if row["power"] == 0.0], "smse", by="size")
    assert by_M.methods == (10.0, 50.0, 200.0)


def test_parts_keep_their_labels():
    two = CELLS.pick(1.0, 0.0)
    np.testing.assert_array_equal(two.values, CELLS.values[:, [2, 0]])
    one = CELLS.of("set 2")
    assert set(one.data) == {"set 2"} and one.values.shape == (9, 3)
    np.testing.assert_array_equal(one.values, CELLS.values[CELLS.data == "set 2"])


def test_sets_come_in_the_order_of_their_names_and_splits_by_number():
    rows = [{"data": d, "split": s, "M": 5, "power": p, "smse": 1.0} for d in "ba" for s in (10, 2) for p in (0, 1)]
    cells = score_cells(rows, "smse")
    assert cells.data.tolist() == ["a", "a", "b", "b"] and cells.split.tolist() == [2, 10, 2, 10]


REFUSED = [
    (lambda: paired(ROWS, "mse", "power", 0, 1), "`score` must be one of .*got 'mse'"),
    (lambda: paired(ROWS, "nll", "power", 0, 1), "no row has a value of 'nll'"),
    (lambda: paired(ROWS, "smse", "power", 0, 0.3), "has 0.3; there are 0, 0.5, 1"),
    (lambda: paired(ROWS, "smse", "power", 0.5, 0.5), "all different"),
    (lambda: paired(ROWS, "smse", "powers", 0, 1), "no 'powers'"),
    (lambda: score_cells(ROWS, "smse", methods="01"), "`methods` must be a sequence"),
    (lambda: score_cells(ROWS + ROWS[-1:], "smse"), "two rows have data set 4, split 2, M 200, power 1.0"),
    (lambda: score_cells([{**ROWS[0], "smse": np.nan}], "smse"), "'smse' of row 0 .data set 0, split 0, M 10. is nan"),
    (lambda: score_cells([{**ROWS[0], "smse": np.inf}], "smse"), "not a finite number"),
    (lambda: score_cells([{**ROWS[0], "smse": "bad"}], "smse"), "not a finite number"),
    (lambda: score_cells([{**ROWS[0], "smse": True}], "smse"), "not a finite number"),
    (lambda: score_cells([{**ROWS[0], "M": np.nan}], "smse"), "row 0 has no 'M'"),
    (lambda: score_cells([{"power": 0, "smse": 1}], "smse"), "row 0 has no 'data'"),
    (lambda: score_cells([], "smse"), "`rows` must be a list of mappings"),
    (lambda: score_cells(3, "smse"), "`rows` must be a list of mappings"),
    (lambda: score_cells([[0.5, 1.0]], "smse"), "`rows` must be a list of mappings"),
    (lambda: score_cells(ROWS[:1] + ROWS[-1:], "smse"), "no \\(data, split, M\\) has 'smse' for all of 0, 1"),
    (lambda: CELLS.gains(), "must hold two methods; it holds 3"),
    (lambda: CELLS.of("set 9"), "`data` must be one of set 0, set 1"),
    (lambda: CELLS.pick(0.5, 0.7), "has 0.7"),
    (lambda: cluster_interval(np.ones(3), CELLS), "a row for each of the 45 cells; its shape is \\(3,\\)"),
    (lambda: cluster_interval(np.full(45, np.nan), CELLS), "`values` must hold finite numbers"),
    (lambda: cluster_interval(np.ones(45), CELLS, "M"), "`clusters` must be one of"),
    (
        lambda: cluster_interval(np.ones(45), CELLS, n_resamples=10),
        "`n_resamples` must be a whole number, at least 100",
    ),
    (lambda: cluster_interval(np.ones(9), CELLS.of("set 1")), "needs at least two data sets"),
    (lambda: cluster_interval(np.ones(9), CELLS.of("set 1"), "data"), "needs at least two data sets"),
    (lambda: cluster_interval(np.ones(4), cells_of(np.ones((4, 2))), "split"), "needs at least two splits"),
    (lambda: cluster_interval(np.ones(1), cells_of(np.ones((1, 2))), "none"), "at least two runs"),
    (lambda: friedman(CELLS.pick(0.0, 1.0)), "at least three methods and two data sets; there are 2 and 5"),
    (lambda: friedman(CELLS.of("set 0")), "there are 3 and 1"),
    (lambda: critical_difference(1, 5), "`n_methods` must be a whole number, at least 2"),
    (lambda: critical_difference(3, 2.5), "`n_sets` must be a whole number"),
    (lambda: holm([0.1, 1.2]), "`pvalues` must be numbers in \\[0, 1\\]"),
    (lambda: holm([np.nan]), "`pvalues` must be numbers"),
    (lambda: pairwise_wilcoxon(CELLS, [(0.5, 0.7)]), "has 0.7"),
    (lambda: pairwise_wilcoxon(CELLS, [(0.0, 0.5, 1.0)]), "`pairs` must hold pairs"),
    (lambda: different_pairs(CELLS, "t"), "`test` must be 'nemenyi' or 'wilcoxon'"),
    (lambda: claims_table(ROWS, []), "`claims` must be at least one Claim"),
    (lambda: claims_table(ROWS, [("smse", 0.5, 0.0)]), "`claims` must be at least one Claim"),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- shares of wins --------------------------------------------------------------------------------


def test_ties_count_half():
    np.testing.assert_array_equal(wins_of([-3.0, 0.0, 1e-300]), [0.0, 0.5, 1.0])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=20))
def test_two_shares_add_up_to_one(scores):
    """And agree with counting, whatever ties there are."""
    cells = cells_of(scores)
    share = win_fraction(cells, "none").value
    won, tied = sum(a < b for a, b in scores), sum(a == b for a, b in scores)
    assert share == pytest.approx((won + tied / 2) / len(scores), abs=1e-12)
    assert win_fraction(cells.pick(1.0, 0.0), "none").value == pytest.approx(1.0 - share, abs=1e-12)


def test_shares_by_set_are_counted_within_each():
    cells = cells_of([[1, 2], [2, 1], [1, 1], [1, 2]], data=["b", "a", "a", "b"])
    assert wins_by_set(cells) == {"b": 1.0, "a": 0.25}


# --- intervals -------------------------------------------------------------------------------------


def test_naive_intervals_are_those_of_scipy():
    pairs = CELLS.pick(0.5, 1.0)
    k, n = int(np.sum(pairs.gains() > 0)), len(pairs.gains())
    wilson = stats.binomtest(k, n).proportion_ci(method="wilson")
    found = win_fraction(pairs, "none")
    np.testing.assert_allclose([found.value, found.low, found.high], [k / n, *wilson], rtol=1e-12)
    student = stats.ttest_1samp(pairs.gains(), 0.0).confidence_interval()
    found = mean_difference(pairs, "none")
    np.testing.assert_allclose([found.low, found.high], student, rtol=1e-12)
    assert (found.n_runs, found.n_sets, found.clusters) == (45, 5, "none")


@pytest.mark.parametrize("clusters", ["data, split", "data", "split"])
def test_draws_have_the_variance_that_theory_gives(clusters):
    """Of the mean over S sets of J splits: the variance between sets over S, and within them over SJ."""
    S, J, rng = 6, 4, np.random.default_rng(0)
    values = rng.normal(size=(S, 1)) + rng.normal(size=(S, J))
    weights = cluster_weights(np.repeat(np.arange(S), J), clusters, 40_000, np.random.default_rng(1))
    draws = weights @ values.ravel() / weights.sum(axis=1)
    between, within = values.mean(axis=1).var() / S, values.var(axis=1).mean() / (S * J)
    expected = {"data, split": between + within, "data": between, "split": within}[clusters]
    assert draws.mean() == pytest.approx(values.mean(), abs=4 * np.sqrt(expected / 40_000))
    assert draws.var() == pytest.approx(expected, rel=0.04)


def test_weights_are_those_of_drawing_one_by_one():
    """Multinomial weights against sets and splits drawn with replacement in two loops: the same distribution."""
    codes, R, rng = np.array([0, 0, 0, 1, 1]), 20_000, np.random.default_rng(5)
    slow = np.zeros((R, 5), dtype=int)
    for r in range(R):
        for s in rng.integers(2, size=2):
            members = np.flatnonzero(codes == s)
            np.add.at(slow[r], rng.choice(members, size=len(members)), 1)
    fast = cluster_weights(codes, "data, split", R, rng)
    for k in range(5):
        counts = [np.bincount(w[:, k], minlength=7)[:7] for w in (slow, fast)]
        assert np.abs(counts[0] - counts[1]).max() < 5 * np.sqrt(R / 2)
    np.testing.assert_allclose(np.cov(slow.T), np.cov(fast.T), atol=0.06)


def test_two_sets_give_their_own_means_as_ends():
    """With two sets the expanded interval is the range of what can be drawn; runs count alike, not splits."""
    data, split = ["a"] * 3 + ["b"] * 2, [0, 0, 1, 0, 1]
    cells = cells_of(np.ones((5, 2)), data, split)
    found = cluster_interval([1.0, 2.0, 6.0, 10.0, 20.0], cells, "data")
    assert (found.low, found.value, found.high) == pytest.approx((3.0, 39.0 / 5.0, 15.0))


def test_all_runs_of_a_split_stay_together():
    data, split = ["b", "a", "b", "a", "b"], [1, 0, 0, 0, 1]
    cells = cells_of(np.ones((5, 2)), data, split)
    codes, sums, counts = split_sums(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), cells)
    found = {(c, n): s for c, s, n in zip(codes.tolist(), sums.tolist(), counts.tolist())}
    assert found == {(0, 2): 17.0, (0, 1): 4.0, (1, 2): 10.0}


@pytest.mark.parametrize("n", [2, 3, 8, 50])
def test_the_level_widens_like_students_t(n):
    """A Gaussian bootstrap distribution, whose variance is short by (n − 1)/n, gets Student's interval."""
    level, clusters = tail_level(np.arange(n), "data")
    np.testing.assert_allclose(-stats.norm.ppf(level) * np.sqrt((n - 1) / n), stats.t.ppf(0.975, n - 1), rtol=1e-6)
    assert clusters == n
    level, clusters = tail_level(np.repeat(np.arange(3), n), "split")
    np.testing.assert_allclose(
        -stats.norm.ppf(level) * np.sqrt((n - 1) / n), stats.t.ppf(0.975, 3 * (n - 1)), rtol=1e-6
    )
    assert clusters == 3 * n


@pytest.mark.parametrize("value", [1.0, 0.5, 0.0])
def test_without_scatter_each_set_is_one_trial(value):
    cells = cells_of(np.tile([[1.0, 1.0 + (value - 0.5)]], (24, 1)), np.repeat(list("abcdefgh"), 3))
    found = win_fraction(cells, "data")
    wilson = stats.binomtest(int(8 * value), 8).proportion_ci(method="wilson")
    np.testing.assert_allclose([found.low, found.value, found.high], [wilson.low, value, wilson.high], atol=1e-12)
    assert mean_difference(cells, "data").low == pytest.approx(value - 0.5)  # no such rule for other means


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(CLUSTERS))
def test_the_order_of_rows_does_not_matter(random, clusters):
    rows = list(ROWS)
    random.shuffle(rows)
    for a, b in zip(*(vars(average_ranks(score_cells(r, "smse"), clusters, 200)).values() for r in (ROWS, rows))):
        np.testing.assert_array_equal(a, b)


UNEVEN = score_cells([row for row in ROWS if row["data"] != "set 1" or (row["split"] == 0 and row["M"] == 50)], "smse")


def test_sets_may_count_the_same():
    """Then a mean is the mean of the sets' means, whatever is drawn; ends agree with a loop over draws of sets."""
    cells, names = UNEVEN.equal_sets(), [f"set {i}" for i in range(5)]
    assert cells.weights.mean() == pytest.approx(1.0)
    values = np.random.default_rng(0).normal(size=len(cells.data)) + 2.0 * (cells.data == "set 1")
    by_set = np.array([values[cells.data == name].mean() for name in names])
    for clusters in CLUSTERS:
        assert cluster_interval(values, cells, clusters, n_resamples=200).value == pytest.approx(by_set.mean())
    assert cluster_interval(values, UNEVEN, "data").value == pytest.approx(values.mean())
    assert abs(by_set.mean() - values.mean()) > 0.05
    drawn = np.random.default_rng(1).integers(5, size=(40_000, 5))
    level, _ = tail_level(np.arange(5), "data")
    slow = np.quantile(by_set[drawn].mean(axis=1), [level, 1.0 - level])
    found = cluster_interval(values, cells, "data", n_resamples=40_000)
    np.testing.assert_allclose([found.low, found.high], slow, atol=0.05 * np.ptp(slow))
    two = cells.pick(0.5, 0.0)
    assert win_fraction(two, "data").value == pytest.approx(np.mean(list(wins_by_set(two).values())))


def test_runs_that_count_more_are_fewer_runs():
    """Weights of 1 and 0 are the runs with 1; equal weights, whatever they are, are no weights."""
    values, kept = CELLS.values[:, 0], np.arange(45) % 3 == 0
    some = cluster_interval(values, replace(CELLS, weight=1.0 * kept), "none")
    alone = cluster_interval(values[kept], CELLS.part(kept, slice(None)), "none")
    np.testing.assert_allclose([some.value, some.low, some.high], [alone.value, alone.low, alone.high])
    same = cluster_interval(values, replace(CELLS, weight=np.full(45, 3.0)), "none")
    plain = cluster_interval(values, CELLS, "none")
    np.testing.assert_allclose([same.value, same.low, same.high], [plain.value, plain.low, plain.high])
    wins = replace(CELLS.pick(0.5, 0.0), weight=1.0 * kept)
    found, part = win_fraction(wins, "none"), win_fraction(wins.part(kept, slice(None)), "none")
    np.testing.assert_allclose([found.low, found.high], [part.low, part.high])


def test_claims_may_count_sets():
    rows = [row for row in ROWS if row["data"] != "set 1" or row["split"] == 0]
    claim = [Claim("smse", 0.5, 0.0, 67.0)]
    (by_runs,), (by_sets,) = (claims_table(rows, claim, n_resamples=200, equal_sets=e).claims for e in (False, True))
    pairs = paired(rows, "smse", "power", 0.5, 0.0)
    assert by_runs.found.value == pytest.approx(np.mean(pairs.gains() > 0))
    assert by_sets.found.value == pytest.approx(np.mean(list(wins_by_set(pairs).values())))


def test_seeds_and_columns():
    """The same seed the same ends; a column of many is the column alone."""
    ranks = ranks_of_cells(CELLS)
    together, alone = (cluster_interval(v, CELLS, n_resamples=500, seed=4) for v in (ranks, ranks[:, 1]))
    np.testing.assert_allclose([together.low[1], together.high[1]], [alone.low, alone.high], rtol=1e-12)
    other = cluster_interval(ranks[:, 1], CELLS, n_resamples=500, seed=5)
    assert (other.low, other.high) != (alone.low, alone.high)
    assert other.value == alone.value


@pytest.mark.parametrize("spread, least, most", [((0.3, 0.1, 0.1), 0.9, 0.6), ((0.0, 0.3, 0.1), 0.9, 0.8)])
def test_intervals_hold_the_truth_as_often_as_they_say(spread, least, most):
    """Mean gains of 250 made-up studies: by sets, and by sets and splits, near 95 % or above; independent runs far below."""
    hits, sets, splits, M = dict.fromkeys(CLUSTERS, 0), 8, 5, 4
    labels = np.repeat([f"{i}" for i in range(sets)], splits * M), np.tile(np.repeat(range(splits), M), sets)
    for seed in range(250):
        rng = np.random.default_rng(seed)
        sizes = (sets, 1, 1), (sets, splits, 1), (sets, splits, M)
        gains = 0.1 + sum(s * rng.standard_normal(size) for s, size in zip(spread, sizes)).ravel()
        cells = cells_of(np.c_[np.zeros(len(gains)), gains], *labels)
        for clusters in CLUSTERS:
            found = mean_difference(cells, clusters, n_resamples=300, seed=seed)
            hits[clusters] += found.low <= 0.1 <= found.high
    shares = {clusters: n / 250 for clusters, n in hits.items()}
    assert least < shares["data"] <= 0.99
    assert shares["data"] - 0.01 <= shares["data, split"]
    assert shares["none"] < most
    assert (shares["split"] > least) == (spread[0] == 0.0)


# --- ranks -----------------------------------------------------------------------------------------

SMALL = st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=2, max_size=8)


@settings(max_examples=40, deadline=None)
@given(SMALL, st.permutations(range(4)))
def test_ranks_are_those_of_counting(values, order):
    """1 + those that are better + half of those that tie; and methods may come in any order."""
    cells = cells_of(values)
    ranks = ranks_of_cells(cells)
    for c, row in enumerate(values):
        for p, own in enumerate(row):
            better = sum(other < own for other in row)
            ties = sum(other == own for other in row) - 1
            assert ranks[c, p] == 1 + better + ties / 2
    np.testing.assert_array_equal(ranks_of_cells(cells.pick(*(float(p) for p in order))), ranks[:, order])


@settings(max_examples=25, deadline=None)
@given(SMALL)
def test_average_ranks_are_sums_of_shares(values):
    cells = cells_of(values)
    wins = win_matrix(cells, "none")
    np.testing.assert_allclose(average_ranks(cells, "none").value, 0.5 + np.sum(1.0 - wins.value, axis=1))
    np.testing.assert_allclose(wins.value + wins.value.T, 1.0)
    np.testing.assert_allclose(wins.low + wins.high.T, 1.0)


def test_larger_evidence_ranks_first():
    cells = cells_of([[-10.0, -5.0, -7.0]], score="log_marginal_likelihood")
    np.testing.assert_array_equal(ranks_of_cells(cells), [[3.0, 1.0, 2.0]])


def test_the_matrix_of_wins_is_that_of_all_pairs():
    wins = win_matrix(CELLS, n_resamples=500)
    for i, j in combinations(range(3), 2):
        pair = win_fraction(CELLS.pick(CELLS.methods[i], CELLS.methods[j]), n_resamples=500)
        np.testing.assert_allclose(
            [wins.value[i, j], wins.low[i, j], wins.high[i, j]], [pair.value, pair.low, pair.high]
        )
    assert np.all(np.diag(wins.low) == 0.5) and np.all(np.diag(wins.high) == 0.5)


# --- tests -----------------------------------------------------------------------------------------


def test_set_means_average_all_runs_of_a_set():
    names, means = set_means(CELLS)
    by_hand = [[np.mean([r["smse"] for r in ROWS if (r["data"], r["power"]) == (d, p)]) for p in CENTRE] for d in names]
    np.testing.assert_allclose(means, by_hand, rtol=1e-12)


def test_friedman_is_that_of_scipy_on_set_means():
    found, means = friedman(CELLS), set_means(CELLS)[1]
    expected = stats.friedmanchisquare(*means.T)
    assert (found.statistic, found.pvalue) == pytest.approx(tuple(expected))
    np.testing.assert_allclose(found.ranks, stats.rankdata(means, axis=1).mean(axis=0))


def test_friedmans_f_is_the_analysis_of_variance_of_the_ranks():
    """Iman and Davenport's F is that of a two-way layout, methods by sets, done on ranks."""
    values = np.random.default_rng(2).normal(size=(7, 4)) + [0.0, 0.5, 0.0, 1.0]
    ranks = stats.rankdata(values, axis=1)
    S, P = ranks.shape
    fitted = ranks.mean(axis=0) - (P + 1) / 2
    rest = ranks - ranks.mean(axis=1, keepdims=True) - fitted
    F = S * np.sum(fitted**2) / (P - 1) / (np.sum(rest**2) / ((P - 1) * (S - 1)))
    assert friedman(cells_of(values)).pvalue_f == pytest.approx(stats.f.sf(F, P - 1, (P - 1) * (S - 1)))


def test_friedman_at_its_ends():
    same = friedman(cells_of(np.ones((4, 3))))
    assert (same.statistic, same.pvalue, same.pvalue_f) == (0.0, 1.0, 1.0)
    clear = friedman(cells_of(np.tile([1.0, 2.0, 3.0], (6, 1))))
    assert clear.statistic == pytest.approx(12.0) and clear.pvalue_f == 0.0


def test_critical_differences_are_those_of_the_printed_table():
    """Demšar (2006), table 5: q at 5 % for 2 to 10 methods, divided by √2."""
    q = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]
    for k, value in enumerate(q, start=2):
        assert critical_difference(k, 14) == pytest.approx(value * np.sqrt(k * (k + 1) / 84.0), rel=4e-4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6), st.floats(0.001, 0.999))
def test_holm_rejects_what_the_stepwise_rule_rejects(pvalues, level):
    """Smallest first, each against level/(number left), until one is not rejected."""
    rejected, order = np.zeros(len(pvalues), dtype=bool), np.argsort(pvalues)
    for done, k in enumerate(order):
        if (len(pvalues) - done) * pvalues[k] > level:
            break
        rejected[k] = True
    np.testing.assert_array_equal(holm(pvalues) <= level, rejected)
    assert np.all(holm(pvalues) <= 1.0)


def test_wilcoxon_is_that_of_scipy_on_set_means():
    means = set_means(CELLS)[1]
    tests = pairwise_wilcoxon(CELLS)
    assert [(t.a, t.b) for t in tests] == [(0.0, 0.5), (0.0, 1.0), (0.5, 1.0)]
    for test, (i, j) in zip(tests, combinations(range(3), 2)):
        assert test.pvalue == pytest.approx(stats.wilcoxon(means[:, i], means[:, j]).pvalue)
        assert (test.won, test.lost) == (np.sum(means[:, i] < means[:, j]), np.sum(means[:, i] > means[:, j]))
    np.testing.assert_allclose([t.corrected for t in tests], holm([t.pvalue for t in tests]))


def test_wilcoxon_of_methods_that_tie_everywhere():
    (test,) = pairwise_wilcoxon(cells_of(np.ones((5, 2))))
    assert (test.won, test.lost, test.pvalue, test.corrected) == (0, 0, 1.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1.0, 1.5, 2.0, 2.5, 3.0, 4.0]), min_size=2, max_size=6), st.data())
def test_groups_are_the_longest_runs_without_a_difference(ranks, data):
    P = len(ranks)
    upper = np.triu(data.draw(st.lists(st.lists(st.booleans(), min_size=P, max_size=P), min_size=P, max_size=P)), 1)
    different, order = upper | upper.T, np.argsort(ranks, kind="stable")
    runs = [
        order[i:j].tolist()
        for i in range(P)
        for j in range(i + 2, P + 1)
        if not different[np.ix_(order[i:j], order[i:j])].any()
    ]
    longest = [run for run in runs if not any(set(run) < set(other) for other in runs)]
    assert alike_groups(ranks, different) == longest


def test_methods_that_differ():
    cells = cells_of(np.tile([1.0, 2.0, 3.0], (8, 1)) + np.arange(8)[:, None])
    np.testing.assert_array_equal(different_pairs(cells), np.abs(np.subtract.outer(range(3), range(3))) == 2)  # CD 1.17
    np.testing.assert_array_equal(different_pairs(cells, "wilcoxon"), ~np.eye(3, dtype=bool))
    many = cells_of(np.tile([1.0, 2.0, 3.0], (20, 1)))
    np.testing.assert_array_equal(different_pairs(many), ~np.eye(3, dtype=bool))  # CD 0.74
    assert not different_pairs(cells_of(np.tile([1.0, 2.0, 3.0], (6, 1))), "wilcoxon").any()  # p is 3 · 2/2⁶


# --- claims ----------------------------------------------------------------------------------------


def checked(low, value, high, percent, ties=0, left_out=0):
    """A claim that 0.5 beats 0, with an interval found."""
    found = Interval(value, low, high, "data", 100, 8)
    return CheckedClaim(Claim("smse", 0.5, 0.0, percent), found, found, 5, 8, ties, left_out)


VERDICTS = [
    ((0.55, 0.65, 0.75, 67.0), "agrees"),
    ((0.55, 0.65, 0.75, 55.0), "agrees"),
    ((0.55, 0.60, 0.65, 93.0), "agrees in direction, less often than stated"),
    ((0.80, 0.90, 0.95, 67.0), "agrees in direction, more often than stated"),
    ((0.45, 0.60, 0.75, 67.0), "cannot tell: the interval contains 50 %"),
    ((0.50, 0.60, 0.75, 67.0), "cannot tell: the interval contains 50 %"),
    ((0.20, 0.30, 0.49, 67.0), "differs: 0 wins more often"),
    ((0.45, 0.60, 0.75, None), "agrees: the interval contains 50 %"),
    ((0.55, 0.60, 0.75, None), "differs: 0.5 wins more often"),
    ((0.20, 0.30, 0.49, None), "differs: 0 wins more often"),
]


@pytest.mark.parametrize("numbers, said", VERDICTS)
def test_verdicts(numbers, said):
    assert checked(*numbers).verdict == said


def test_the_papers_claims():
    """Section 4, in its words: who beats whom, and in how many percent."""
    stated = {(c.score, c.better, c.worse): c.percent for c in PAPER_CLAIMS["regression"]}
    assert stated == {
        ("smse", 0.5, 0.0): 67, ("smse", 0.5, 1.0): 78, ("smse", 0.0, 1.0): 64,
        ("smll", 1.0, 0.0): 93, ("smll", 1.0, 0.5): 71, ("smll", 0.5, 0.0): 93,
    }  # fmt: skip
    stated = {(c.score, c.better, c.worse): c.percent for c in PAPER_CLAIMS["classification"]}
    assert {key: p for key, p in stated.items() if p is not None} == {("nll", 0.5, 1.0): 65}
    assert {frozenset(key) for key in stated} == {
        frozenset((s, a, b)) for s in ("error", "nll") for a, b in combinations((0.0, 0.5, 1.0), 2)
    }


def test_a_claim_is_checked_with_the_numbers_of_its_pair():
    rows = [row for row in ROWS if row != ROWS[0]]
    (one,) = claims_table(rows, [Claim("smse", 0.5, 0.0, 67.0)], n_resamples=500).claims
    pairs = paired(rows, "smse", "power", 0.5, 0.0)
    expected = win_fraction(pairs, n_resamples=500)
    assert (one.found.value, one.found.low, one.found.high) == (expected.value, expected.low, expected.high)
    assert one.naive.low == win_fraction(pairs, "none").low
    assert (one.won, one.n_sets) == (sum(s > 0.5 for s in wins_by_set(pairs).values()), 5)
    assert (one.ties, one.left_out, one.runs) == (0, 1, "44, 1 unpaired")
    assert replace(one, ties=3, left_out=0).runs == "44, 3 ties"


class Tags(HTMLParser):
    """Counts tags and collects what is between them."""

    def __init__(self):
        super().__init__()
        self.tags, self.said = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.said.append(data)


def test_tables_say_the_same_in_three_ways():
    claims = [checked(0.55, 0.65, 0.75, 67.0, ties=2), checked(0.45, 0.6, 0.75, None)]
    claims.append(replace(claims[0], claim=Claim("smse", "<b>a|b</b>", 0.0, 80.0, "6 of 8")))
    table = ClaimsTable(claims)
    lines = str(table).split("\n")
    assert len(lines) == 4 and len({line.find("SMSE") for line in lines[1:]}) == 1
    start = lines[0].index("verdict")
    assert [line[start:] for line in lines[1:]] == [c.verdict for c in claims]
    rows = table.markdown().split("\n")
    assert len(rows) == 5 and {row.count("|") for row in rows} == {len(table.HEADER) + 1}
    assert (
        rows[2] == "| SMSE | 0.5 beats 0 | 67 % | 65 % | 55 to 75 % | 55 to 75 % | 100, 2 ties |  | 5 of 8 | agrees |"
    )
    assert "no clear winner" in rows[3]
    page = Tags()
    page.feed(table._repr_html_())
    assert (page.tags.count("tr"), page.tags.count("td"), page.tags.count("b")) == (4, 30, 0)
    assert "<b>a|b</b> beats 0" in page.said


# --- the made-up study -----------------------------------------------------------------------------


def test_the_made_up_study_has_the_truth_it_says():
    """The share of wins over very many sets; shared deviations are shared, whatever the order of powers."""
    rows = made_up_rows({0.0: 0.1, 0.5: 0.0}, n_sets=4000, n_splits=1, inducing=[10], spread=(0.1, 0.2, 0.05))
    share = win_fraction(paired(rows, "smse", "power", 0.5, 0.0), "none").value
    assert share == pytest.approx(stats.norm.cdf(0.1 / np.sqrt(2 * (0.01 + 0.04 + 0.0025))), abs=0.025)
    for spread, constant in (((1.0, 0.0, 0.0), (1, 2)), ((0.0, 1.0, 0.0), (2,))):
        rows = made_up_rows({0.5: 0.0}, n_sets=3, n_splits=4, inducing=(1, 4), spread=spread)
        logs = np.log([row["smse"] for row in rows]).reshape(3, 4, 2) + 0.5 * np.log([1, 4])
        assert np.all(np.ptp(logs, axis=constant) < 1e-12) and np.ptp(logs) > 0.5
        assert np.ptp(logs[0, :, 0]) > 0.1 or len(constant) == 2
