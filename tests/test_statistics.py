"""Statistics of studies: pairs, shares of wins, intervals by clusters, ranks, tests and the paper's claims."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.made_up import made_up_rows
from scipy import stats

from sparse_pep.studies.statistics import (
    CLUSTERS,
    PAPER_CLAIMS,
    SCORES,
    Cells,
    Claim,
    Interval,
    _cluster_weights,
    _split_sums,
    _tail_level,
    _verdict,
    alike_groups,
    average_ranks,
    check_claims,
    claims_table,
    cluster_interval,
    critical_difference,
    different_pairs,
    holm,
    pairwise_wilcoxon,
    ranks_of_cells,
    ranks_of_sets,
    score_cells,
    set_means,
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
    data = [f"set {i}" for i in range(C)] if data is None else data
    index = pd.MultiIndex.from_arrays([data, np.zeros(C) if split is None else split, range(C)], names=["data", "split", "M"])
    return Cells(score, pd.DataFrame(values, index, [float(p) for p in range(P)]))


def pair(rows, score="smse", a=0.5, b=0.0):
    return score_cells(rows, score, methods=(a, b))


# --- from rows to cells ----------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_pairs_are_those_that_two_loops_find(data):
    """Any subset of the runs in any order: matched runs and unmatched cells as in the obvious search."""
    kept = data.draw(st.lists(st.integers(0, len(ROWS) - 1), unique=True, min_size=2))
    rows = ROWS.iloc[kept]
    found = {}
    for row in rows.itertuples():
        found.setdefault((row.data, row.split, row.M), {})[row.power] = row.smse
    matched = {cell: (has[0.5], has[0.0]) for cell, has in found.items() if {0.0, 0.5} <= set(has)}
    if not matched:
        with pytest.raises(ValueError):
            pair(rows)
        return
    pairs = pair(rows)
    assert dict(zip(pairs.table.index, map(tuple, pairs.values))) == matched
    unmatched = {cell for cell, has in found.items() if len({0.0, 0.5} & set(has)) == 1}
    assert set(pairs.left_out) == unmatched and len(pairs.left_out) == len(unmatched)


@pytest.mark.parametrize("score", SCORES)
def test_gains_are_positive_where_the_first_is_better(score):
    rows = pd.DataFrame({"data": "a", "split": 0, "M": 5, "power": [0.0, 0.5], score: [1.0, 3.0]})
    gain = pair(rows, score).gains()
    np.testing.assert_array_equal(gain, [2.0 if score == "log_marginal_likelihood" else -2.0])


def test_rows_without_the_score_are_ignored_on_data_sets_that_have_none():
    others = pd.DataFrame({"data": "x", "split": 0, "M": 5, "power": [0.0, 0.5], "nll": [0.3, 0.2]})
    rows = pd.concat([ROWS, others])
    cells = score_cells(rows, "smse")
    assert "x" not in cells.data and not cells.left_out
    pd.testing.assert_frame_equal(cells.table, CELLS.table)
    assert set(score_cells(rows, "nll").data) == {"x"}
    exact = pd.DataFrame({"data": "set 0", "split": 0, "M": [np.nan], "power": [None], "smse": 0.1})
    np.testing.assert_array_equal(score_cells(pd.concat([exact, ROWS]), "smse").values, CELLS.values)
    with pytest.raises(ValueError, match="no row has a value of 'smse' and of 'power'"):
        score_cells(exact, "smse")
    with pytest.raises(ValueError, match="at least two"):
        score_cells(rows[:-1], "nll")


def test_methods_are_sorted_or_in_the_order_asked_and_may_be_names():
    exact = ROWS[ROWS["power"] == 0.0].assign(power="exact", smse=0.01)
    rows = pd.concat([ROWS, exact]).sample(frac=1.0, random_state=0)
    assert score_cells(rows, "smse").methods == (0.0, 0.5, 1.0, "exact")
    cells = score_cells(rows, "smse", methods=("exact", 1))
    assert cells.methods == ("exact", 1.0) and np.all(cells.gains() > 0.0)
    by_M = ROWS[ROWS["power"] == 0.0].assign(size=ROWS["M"], M=7)
    assert score_cells(by_M, "smse", by="size").methods == (10, 50, 200)


def test_parts_keep_their_labels():
    two = CELLS.pick(1.0, 0.0)
    np.testing.assert_array_equal(two.values, CELLS.values[:, [2, 0]])
    one = CELLS.of("set 2")
    assert set(one.data) == {"set 2"} and one.values.shape == (9, 3)
    np.testing.assert_array_equal(one.values, CELLS.values[CELLS.data == "set 2"])


def test_sets_come_in_the_order_of_their_names_and_splits_by_number():
    index = pd.MultiIndex.from_product((list("ba"), (10, 2), (0, 1)), names=["data", "split", "power"])
    cells = score_cells(pd.DataFrame({"M": 5, "smse": 1.0}, index).reset_index(), "smse")
    assert [(data, split) for data, split, _ in cells.table.index] == [("a", 2), ("a", 10), ("b", 2), ("b", 10)]


FIRST = ROWS[:1]
REFUSED = [
    (lambda: pair(ROWS, "mse", 0, 1), "`score` must be one of .*got 'mse'"),
    (lambda: pair(ROWS, "nll", 0, 1), "no row has a value of 'nll'"),
    (lambda: pair(ROWS, "smse", 0, 0.3), "has 0.3; there are 0, 0.5, 1"),
    (lambda: pair(ROWS, "smse", 0.5, 0.5), "all different"),
    (lambda: score_cells(ROWS, "smse", "powers"), "no column 'powers'; its columns are data, split, M, power, smse"),
    (lambda: score_cells(ROWS, "smse", methods="01"), "`methods` must be a sequence"),
    (lambda: score_cells(pd.concat([ROWS, ROWS[-1:]]), "smse"), "two rows have data set 4, split 2, M 200, power 1.0"),
    (lambda: score_cells(ROWS.assign(smse=ROWS["smse"].mask(ROWS.index == 0)), "smse"), "'smse' of row 0 .data set 0, split 0, M 10. is nan"),
    (lambda: score_cells(FIRST.assign(smse=np.inf), "smse"), "is inf, not a finite number"),
    (lambda: score_cells(FIRST.assign(smse="bad"), "smse"), "is bad, not a finite number"),
    (lambda: score_cells(FIRST.assign(smse=True), "smse"), "is True, not a finite number"),
    (lambda: score_cells(FIRST.assign(M=np.nan), "smse"), "row 0 .data set 0, split 0, M nan, power 0.0. is not complete"),
    (lambda: score_cells(FIRST.drop(columns="data"), "smse"), "no column 'data'"),
    (lambda: score_cells(pd.DataFrame(), "smse"), "no column 'data'; its columns are none"),
    (lambda: score_cells([{"power": 0.5}], "smse"), "`rows` must be a DataFrame"),
    (lambda: score_cells(pd.concat([ROWS[:1], ROWS[-1:]]), "smse"), "no \\(data, split, M\\) has 'smse' for all of 0, 1"),
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
    (lambda: critical_difference(1, 5), "`n_methods` must be a whole number, at least 2"),
    (lambda: critical_difference(3, 2.5), "`n_sets` must be a whole number"),
    (lambda: holm([0.1, 1.2]), "`pvalues` must be numbers in \\[0, 1\\]"),
    (lambda: holm([np.nan]), "`pvalues` must be numbers"),
    (lambda: pairwise_wilcoxon(CELLS, [(0.5, 0.7)]), "has 0.7"),
    (lambda: pairwise_wilcoxon(CELLS, [(0.0, 0.5, 1.0)]), "`pairs` must hold pairs"),
    (lambda: different_pairs(CELLS, "t"), "`test` must be 'nemenyi' or 'wilcoxon'"),
    (lambda: check_claims(ROWS, []), "`claims` must be at least one Claim"),
    (lambda: check_claims(ROWS, [("smse", 0.5, 0.0)]), "`claims` must be at least one Claim"),
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
    assert wins_by_set(cells).to_dict() == {"b": 1.0, "a": 0.25}


# --- intervals -------------------------------------------------------------------------------------


def test_naive_intervals_are_those_of_scipy():
    pairs = CELLS.pick(0.5, 1.0)
    k, n = int(np.sum(pairs.gains() > 0)), len(pairs.gains())
    wilson = stats.binomtest(k, n).proportion_ci(method="wilson")
    found = win_fraction(pairs, "none")
    np.testing.assert_allclose([found.value, found.low, found.high], [k / n, *wilson], rtol=1e-12)
    student = stats.ttest_1samp(pairs.gains(), 0.0).confidence_interval()
    found = cluster_interval(pairs.gains(), pairs, "none")
    np.testing.assert_allclose([found.low, found.high], student, rtol=1e-12)
    assert (found.n_runs, found.n_sets, found.clusters) == (45, 5, "none")


@pytest.mark.parametrize("clusters", ["data, split", "data", "split"])
def test_draws_have_the_variance_that_theory_gives(clusters):
    """Of the mean over S sets of J splits: the variance between sets over S, and within them over SJ."""
    S, J, rng = 6, 4, np.random.default_rng(0)
    values = rng.normal(size=(S, 1)) + rng.normal(size=(S, J))
    weights = _cluster_weights(np.repeat(np.arange(S), J), clusters, 40_000, np.random.default_rng(1))
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
    fast = _cluster_weights(codes, "data, split", R, rng)
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
    codes, sums, counts = _split_sums(np.array([1.0, 2.0, 4.0, 8.0, 16.0]), cells)
    found = {(c, n): s for c, s, n in zip(codes.tolist(), sums.tolist(), counts.tolist())}
    assert found == {(0, 2): 17.0, (0, 1): 4.0, (1, 2): 10.0}


@pytest.mark.parametrize("n", [2, 3, 8, 50])
def test_the_level_widens_like_students_t(n):
    """A Gaussian bootstrap distribution, whose variance is short by (n − 1)/n, gets Student's interval."""
    level, clusters = _tail_level(np.arange(n), "data")
    np.testing.assert_allclose(-stats.norm.ppf(level) * np.sqrt((n - 1) / n), stats.t.ppf(0.975, n - 1), rtol=1e-6)
    assert clusters == n
    level, clusters = _tail_level(np.repeat(np.arange(3), n), "split")
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
    assert cluster_interval(cells.gains(), cells, "data").low == pytest.approx(value - 0.5)  # no such rule for other means


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(CLUSTERS))
def test_the_order_of_rows_does_not_matter(seed, clusters):
    rows = ROWS.sample(frac=1.0, random_state=seed)
    for a, b in zip(*(vars(average_ranks(score_cells(r, "smse"), clusters, 200)).values() for r in (ROWS, rows))):
        np.testing.assert_array_equal(a, b)


UNEVEN = score_cells(ROWS.query("data != 'set 1' or (split == 0 and M == 50)"), "smse")


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
    level, _ = _tail_level(np.arange(5), "data")
    slow = np.quantile(by_set[drawn].mean(axis=1), [level, 1.0 - level])
    found = cluster_interval(values, cells, "data", n_resamples=40_000)
    np.testing.assert_allclose([found.low, found.high], slow, atol=0.05 * np.ptp(slow))
    two = cells.pick(0.5, 0.0)
    assert win_fraction(two, "data").value == pytest.approx(wins_by_set(two).mean())


def test_runs_that_count_more_are_fewer_runs():
    """Weights of 1 and 0 are the runs with 1; equal weights, whatever they are, are no weights."""
    values, kept = CELLS.values[:, 0], np.arange(45) % 3 == 0
    some = cluster_interval(values, replace(CELLS, weight=1.0 * kept), "none")
    alone = cluster_interval(values[kept], CELLS.part(kept), "none")
    np.testing.assert_allclose([some.value, some.low, some.high], [alone.value, alone.low, alone.high])
    same = cluster_interval(values, replace(CELLS, weight=np.full(45, 3.0)), "none")
    plain = cluster_interval(values, CELLS, "none")
    np.testing.assert_allclose([same.value, same.low, same.high], [plain.value, plain.low, plain.high])
    wins = replace(CELLS.pick(0.5, 0.0), weight=1.0 * kept)
    found, part = win_fraction(wins, "none"), win_fraction(wins.part(kept), "none")
    np.testing.assert_allclose([found.low, found.high], [part.low, part.high])


def test_claims_may_count_sets():
    rows = ROWS.query("data != 'set 1' or split == 0")
    claim, pairs = [Claim("smse", 0.5, 0.0, 67.0)], pair(rows)
    by_runs, by_sets = (check_claims(rows, claim, n_resamples=200, equal_sets=e).loc[0, "found"] for e in (False, True))
    assert by_runs == pytest.approx(np.mean(pairs.gains() > 0))
    assert by_sets == pytest.approx(wins_by_set(pairs).mean())


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
    """Mean gains of 150 simulated studies: by sets, and by sets and splits, near 95 % or above; independent runs far below."""
    hits, sets, splits, M = dict.fromkeys(CLUSTERS, 0), 8, 5, 4
    labels = np.repeat([f"{i}" for i in range(sets)], splits * M), np.tile(np.repeat(range(splits), M), sets)
    for seed in range(150):
        rng = np.random.default_rng(seed)
        sizes = (sets, 1, 1), (sets, splits, 1), (sets, splits, M)
        gains = 0.1 + sum(s * rng.standard_normal(size) for s, size in zip(spread, sizes)).ravel()
        cells = cells_of(gains[:, None], *labels)
        for clusters in CLUSTERS:
            found = cluster_interval(gains, cells, clusters, n_resamples=300, seed=seed)
            hits[clusters] += found.low <= 0.1 <= found.high
    shares = {clusters: n / 150 for clusters, n in hits.items()}
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
    by_hand = ROWS.groupby(["data", "power"])["smse"].mean().unstack()
    np.testing.assert_allclose(set_means(CELLS), by_hand, rtol=1e-12)
    np.testing.assert_allclose(ranks_of_sets(CELLS), stats.rankdata(by_hand, axis=1).mean(axis=0))
    evidence = score_cells(ROWS.assign(log_marginal_likelihood=-ROWS["smse"]), "log_marginal_likelihood")
    np.testing.assert_allclose(set_means(evidence), by_hand, rtol=1e-12)


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
    means, tests = set_means(CELLS), pairwise_wilcoxon(CELLS)
    assert list(zip(tests["a"], tests["b"])) == [(0.0, 0.5), (0.0, 1.0), (0.5, 1.0)]
    for test in tests.itertuples():
        a, b = means[test.a], means[test.b]
        assert test.pvalue == pytest.approx(stats.wilcoxon(a, b).pvalue)
        assert (test.won, test.lost) == (sum(a < b), sum(a > b))
    np.testing.assert_allclose(tests["corrected"], holm(tests["pvalue"]))


def test_wilcoxon_of_methods_that_tie_everywhere():
    assert pairwise_wilcoxon(cells_of(np.ones((5, 2)))).iloc[0, 2:].tolist() == [0, 0, 1.0, 1.0]


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
    low, value, high, percent = numbers
    assert _verdict(Claim("smse", 0.5, 0.0, percent), Interval(value, low, high, "data", 100, 8)) == said


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
    rows = ROWS[1:]
    (one,) = check_claims(rows, [Claim("smse", 0.5, 0.0, 67.0, "6 of 8")], n_resamples=500).itertuples()
    pairs = pair(rows)
    expected = win_fraction(pairs, n_resamples=500)
    assert (one.found, one.low, one.high) == (expected.value, expected.low, expected.high)
    alone = win_fraction(pairs, "none")
    assert (one.low_runs, one.high_runs) == (alone.low, alone.high)
    assert (one.won, one.n_sets) == (sum(wins_by_set(pairs) > 0.5), 5)
    assert (one.runs, one.ties, one.left_out, one.percent, one.sets) == (44, 0, 1, 67.0, "6 of 8")
    tied = check_claims(pd.concat([rows, ROWS[ROWS["data"] == "set 0"].assign(data="tied", smse=1.0)]), [Claim("smse", 0.5, 0.0)], n_resamples=500)
    assert tied.loc[0, "ties"] == 9 and tied.loc[0, "left_out"] == 1


def test_the_table_of_claims_has_units_and_is_safe_in_a_page():
    claims = [Claim("smse", 0.5, 0.0, 67.0), Claim("smse", 0.0, 1.0), Claim("smse", 0.5, "<b>exact</b>", 80.0, "6 of 8")]
    rows = pd.concat([ROWS, ROWS[ROWS["power"] == 0.0].assign(power="<b>exact</b>", smse=0.01)])
    checked = check_claims(rows, claims, n_resamples=500)
    table = claims_table(checked)
    first = table.iloc[0]
    assert table.index[0] == ("SMSE", "0.5 beats 0") and first["stated"] == "67 %"
    assert first["found"] == f"{100 * checked.loc[0, 'found']:.0f} %"
    assert first["95 % interval"] == f"{100 * checked.loc[0, 'low']:.0f} to {100 * checked.loc[0, 'high']:.0f} %"
    assert first["sets found"] == f"{checked.loc[0, 'won']} of 5" and table["verdict"].tolist() == checked["verdict"].tolist()
    assert table["stated"].tolist() == ["67 %", "no clear winner", "80 %"] and table.iloc[2]["sets stated"] == "6 of 8"
    page = table._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;exact&lt;/b&gt;" in page


# --- the simulated study ---------------------------------------------------------------------------


def test_the_simulated_study_has_the_truth_it_says():
    """The share of wins over very many sets."""
    rows = made_up_rows({0.0: 0.1, 0.5: 0.0}, n_sets=4000, n_splits=1, inducing=[10], spread=(0.1, 0.2, 0.05))
    share = win_fraction(pair(rows), "none").value
    assert share == pytest.approx(stats.norm.cdf(0.1 / np.sqrt(2 * (0.01 + 0.04 + 0.0025))), abs=0.025)
