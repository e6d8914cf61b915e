"""What the paper claims, and what the results of the studies say of each claim."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from studies.banana import sure_points
from studies.discussion import losses
from studies.real import compared_sets
from studies.runner import read_results
from studies.statistics import (
    PAPER_CLAIMS,
    average_ranks,
    check_claims,
    gains,
    interval,
    paired,
    win_matrix,
)

STUDIES = "synthetic regression classification banana ionosphere discussion".split()
Tables = Mapping[str, pd.DataFrame]


class Finding(NamedTuple):
    """What was found, in words with numbers, and the verdict."""

    found: str
    verdict: str


class Claim(NamedTuple):
    """A claim of the paper: where it is made, what it says, the study that examines it, and the
    function that judges its results.
    """

    place: str
    says: str
    study: str
    judge: Callable[[Tables], Finding]


def tables_of(folder: str | Path) -> dict[str, pd.DataFrame]:
    """The results of the studies, without the versions of data sets that are not compared."""
    return {name: compared_sets(read_results(Path(folder) / f"{name}.csv")) for name in STUDIES}


def said(numbers: tuple, unit: str = "", spec: str = ".2f") -> str:
    """A mean with its 95 % interval."""
    mean, low, high = (format(number, spec) for number in numbers)
    return f"{mean}{unit} ({low} to {high})"


def sign_of(numbers: tuple) -> str:
    """The verdict on a mean that should be positive."""
    _, low, high = numbers
    return "holds" if low > 0.0 else "does not hold" if high < 0.0 else "cannot tell"


def verdict(held: Iterable[bool], part: str = "") -> str:
    """The verdict on a claim with several parts; `part` says which of them hold, if not all do."""
    held = list(held)
    return "holds" if all(held) else f"holds in part{part}" if any(held) else "does not hold"


def pair(kind: str, k: int) -> Callable[[Tables], Finding]:
    """The judge of the paper's kth statement on two powers."""

    def judge(tables: Tables) -> Finding:
        (row,) = check_claims(tables[kind], PAPER_CLAIMS[kind][k : k + 1]).to_dict("records")
        shares = said((100 * row["found"], 100 * row["low"], 100 * row["high"]), " %", ".0f")
        verdict, _, how = row["verdict"].partition(", ")
        kinds = {
            "agrees": "holds",
            "agrees in direction": f"holds in part: {how}",
            "cannot tell": "cannot tell",
            "differs": "does not hold",
        }
        return Finding(
            f"{shares} of the runs, {row['won']} of {row['n_sets']} sets",
            kinds[verdict.partition(":")[0]],
        )

    return judge


def approach(tables: Tables) -> Finding:
    rows = tables["synthetic"]
    exact = rows[rows["method"] == "exact"].set_index("data")["smll"]
    last = rows[(rows["method"] == "sparse") & (rows["M"] == 200)]
    far = (last["smll"] - last["data"].map(exact)).abs().groupby(last["power"]).mean()
    near = far < 0.01
    words = (
        "at M = 200 the mean distance in SMLL is below 0.01 nats up to power "
        f"{far.index[near].max():g}, and {far[1.0]:.2f} nats at power 1"
    )
    return Finding(words, verdict(near))


def excess(rows: pd.DataFrame, method: str = "sparse") -> pd.Series:
    """By how much log evidences exceed that of the exact process with trained parameters, by
    data, split, M and power.
    """
    exact = rows[rows["method"] == "exact"].set_index("data")["log_marginal_likelihood"]
    here = rows[rows["method"] == method].set_index(["data", "split", "M", "power"])[
        "log_marginal_likelihood"
    ]
    return here - here.index.get_level_values("data").map(exact)


def middle(tables: Tables) -> Finding:
    above = excess(tables["synthetic"])
    found = {
        power: interval(above.xs(power, level="power").loc[:, :, [50, 100]]) for power in (0.8, 1.0)
    }
    words = "; ".join(
        f"power {power:g}: {said(one, ' nats', '+.0f')}" for power, one in found.items()
    )
    return Finding(
        f"excess at M = 50 and 100: {words}",
        verdict(sign_of(one) == "holds" for one in found.values()),
    )


def at_all_rows(tables: Tables) -> Finding:
    first, last = (
        interval(excess(tables["synthetic"], f"M = N after {n}").xs(1.0, level="power"))
        for n in (20, 1000)
    )
    less = 0.5 * excess(tables["synthetic"]).xs(1.0, level="power").loc[:, :, [50, 100]].mean()
    words = (
        f"power 1, started with a point at each row: {said(first, ' nats', '+.1f')} after "
        f"20 iterations, {said(last, ' nats', '+.0f')} after 1000"
    )
    return Finding(
        words,
        verdict((one[0] < less for one in (first, last)), ": until training leaves its start"),
    )


def best_between(tables: Tables) -> Finding:
    rows = tables["synthetic"]
    rows = rows[(rows["method"] == "sparse") & (rows["M"] <= 100)]
    means = rows.groupby("power")[["smse", "smll"]].mean()
    best = means.idxmin()
    return Finding(
        f"best mean SMSE at {best['smse']:g} and SMLL at {best['smll']:g}, for M up to 100",
        "holds" if best.between(0.5, 0.8).all() else "does not hold",
    )


def second_type(tables: Tables) -> Finding:
    rows = tables["synthetic"].query("method in ['exact', 'true']")
    found = interval(-gains(paired(rows, "smll", ("exact", "true"), "method").rename(columns=str)))
    return Finding(
        f"SMLL of trained parameters less that of the true ones: {said(found, ' nats', '+.4f')}",
        "holds" if abs(found[2]) < 0.02 else "does not hold",
    )


def against_all(
    kind: str, score: str, power: float, but: tuple = (), better: bool = True
) -> Callable[[Tables], Finding]:
    """The judge of: `power` is better (or worse) than every other power, those in `but` left
    out.
    """

    def judge(tables: Tables) -> Finding:
        table = paired(tables[kind], score)
        share, low, high = win_matrix(table)
        k = list(table.columns).index(power)
        others = [j for j, other in enumerate(table.columns) if other not in (power, *but)]
        ahead = share[k, others] > 0.5 if better else share[k, others] < 0.5
        sure = low[k, others] > 0.5 if better else high[k, others] < 0.5
        words = (
            f"{'wins' if better else 'loses'} against {ahead.sum()} of {len(others)} "
            f"other powers, for certain against {sure.sum()}"
        )
        return Finding(
            words,
            "holds"
            if sure.all()
            else "cannot tell"
            if ahead.all()
            else "holds in part"
            if ahead.any()
            else "does not hold",
        )

    return judge


def ranked(kind: str, score: str, best: tuple, worst: tuple) -> Callable[[Tables], Finding]:
    """The judge of: one of the powers `best` has the best average rank, and the worst ones are
    `worst`.
    """

    def judge(tables: Tables) -> Finding:
        table = paired(tables[kind], score)
        ranks = pd.Series(average_ranks(table).mean, table.columns).sort_values()
        last = set(ranks.index[len(ranks) - len(worst) :]) if worst else set()
        agree = ranks.index[0] in best, last == set(worst)
        words = (
            f"best {ranks.index[0]:g} (rank {ranks.iloc[0]:.1f}), then "
            f"{ranks.index[1]:g}; worst {ranks.index[-1]:g} (rank {ranks.iloc[-1]:.1f})"
        )
        return Finding(words, verdict(agree))

    return judge


def big_wins(tables: Tables) -> Finding:
    words = []
    held = []
    for score, better, worse in (("smse", 0.5, 1.0), ("smll", 0.5, 0.0), ("smll", 1.0, 0.0)):
        gain = gains(paired(tables["regression"], score, (better, worse)))
        win = gain[gain > 0.0].mean()
        loss = -gain[gain < 0.0].mean()
        held.append(win > loss)
        words.append(f"{score.upper()}, {better:g} against {worse:g}: {win:.2g} and {loss:.2g}")
    return Finding("mean win and mean loss: " + "; ".join(words), verdict(held))


def more_points(kind: str, score: str) -> Callable[[Tables], Finding]:
    """The judge of: scores improve with M."""

    def judge(tables: Tables) -> Finding:
        means = tables[kind].pivot_table(index=["data", "power"], columns="M", values=score)
        ends = means.apply(lambda row: row.dropna().iloc[-1] - row.dropna().iloc[0], axis=1)
        share = (ends < 0.0).groupby("power").mean()
        words = (
            f"{score.upper()} is better at the largest M than at the smallest on "
            f"{share.mean():.0%} of the sets, at power 1 on {share[1.0]:.0%}"
        )
        return Finding(
            words.replace("%", " %"),
            "holds"
            if share.min() == 1.0
            else "holds in part"
            if share.mean() > 0.5
            else "does not hold",
        )

    return judge


def boundary(tables: Tables) -> Finding:
    sure = sure_points(tables["banana"]).pivot_table(index="M", columns="power", values="sure")
    words = ", ".join(f"M = {M}: {row[0.0]:.2f} and {row[1.0]:.2f}" for M, row in sure.iterrows())
    return Finding(
        f"mean |p − ½| at the points, powers 0 and 1: {words}",
        "holds" if (sure[0.0] < sure[1.0]).all() else "does not hold",
    )


def surfaces(tables: Tables) -> Finding:
    rows = tables["ionosphere"]
    best = rows.loc[rows["log_marginal_likelihood"].idxmax()]
    least = rows.loc[rows["nll"].idxmin()]
    return Finding(
        f"choosing by the evidence costs {best['nll'] - least['nll']:.4f} nats of test loss",
        "holds" if best["nll"] - least["nll"] < 0.01 else "does not hold",
    )


def fixed_parameters(score: str, points: str) -> Callable[[Tables], Finding]:
    """The judge of: with the true parameters, power 0 is nearer to the exact evidence, or to the
    exact predictions, than power 1.
    """

    def judge(tables: Tables) -> Finding:
        rows = tables["synthetic"]
        exact = rows[rows["method"] == "true"].set_index("data")["log_marginal_likelihood"]
        rows = rows[rows["method"] == f"parameters true{points}"]
        rows = rows.assign(
            distance=(rows["log_marginal_likelihood"] - rows["data"].map(exact)).abs()
        )
        gain = interval(gains(paired(rows, score, (0.0, 1.0))))
        means = rows.groupby("power")[score].mean()
        unit, spec = (" nats", ".0f") if score == "distance" else ("", ".3f")
        words = (
            "powers 0, 0.5 and 1: "
            f"{', '.join(format(means[p], spec) for p in (0.0, 0.5, 1.0))}{unit}; 0 is "
            f"better by {said(gain, unit, spec)}"
        )
        return Finding(words, sign_of(gain))

    return judge


def noise_bias(tables: Tables) -> Finding:
    rows = tables["synthetic"].query("method == 'sparse' and M <= 50")
    logs = (
        np.log(rows["noise_std"] / 0.2)
        .groupby([rows["power"], rows["data"]])
        .mean()
        .unstack("power")
    )
    words = ", ".join(f"{power:g}: {np.exp(logs[power].mean()):.2g}" for power in (0.0, 0.5, 1.0))
    return Finding(
        f"trained over true noise deviation, M up to 50, powers {words}",
        verdict([(logs[0.0] > 0.0).all(), (logs[1.0] < 0.0).all()]),
    )


def noise_that_varies(tables: Tables) -> Finding:
    table = losses(tables["discussion"], ("one noise", "noise of its own"))
    one = table["one noise"]
    own = table["noise of its own"][0.5]
    simulated = one.loc["varying"]
    gain = simulated[0.0] - simulated[1.0]
    words = (
        "simulated noise, M = 20 and 100: power 1 gains "
        f"{', '.join(f'{g:.2f}' for g in gain)} nats on power 0, "
    )
    words += (
        "a likelihood with its own noise "
        f"{', '.join(f'{g:.2f}' for g in simulated[0.0] - own.loc['varying'])}"
    )
    return Finding(
        words, verdict([gain[20] > 0.0, gain[100] > 0.5 * gain[20]], ": while points are few")
    )


def batches(tables: Tables) -> Finding:
    table = losses(tables["discussion"], ("converged", "batches"))
    words = {
        method: f"{(table[method][1.0] - table[method][0.0]).mean():+.3f}"
        for method in ("converged", "batches")
    }
    worse = (table["batches"] > table["converged"]).any(axis=1).groupby(level="data").any()
    found = (
        f"in batches the log loss is lower at every power on {np.sum(~worse)} of "
        f"{len(worse)} sets; at power 1 less that at 0: "
    )
    found += f"{words['converged']} nats if training converges, {words['batches']} in batches"
    return Finding(found, verdict(~worse, f": not on {', '.join(worse.index[worse])}"))


def half(tables: Tables) -> Finding:
    ranks = []
    for kind, scores in {
        "regression": ("smse", "smll"),
        "classification": ("error", "nll"),
    }.items():
        for score in scores:
            table = paired(tables[kind], score)
            ranks.append(pd.Series(average_ranks(table).mean, table.columns).rank())
    total = pd.concat(ranks, axis=1, join="inner").mean(axis=1).sort_values()
    return Finding(
        f"mean place over four scores: {', '.join(f'{p:g} ({r:.1f})' for p, r in total.items())}",
        "holds" if 0.4 <= total.index[0] <= 0.6 else "does not hold",
    )


REGRESSION = "section 4.2"
CLASSES = "section 4.3"
PAIRS = {
    "regression": [
        "0.5 beats 0 in SMSE (67 %)",
        "0.5 beats 1 in SMSE (78 %)",
        "0 beats 1 in SMSE (64 %)",
        "1 beats 0 in SMLL (93 %)",
        "1 beats 0.5 in SMLL (71 %)",
        "0.5 beats 0 in SMLL (93 %)",
    ],
    "classification": [
        "no clear winner in error, 0.5 and 0",
        "no clear winner in error, 0.5 and 1",
        "no clear winner in error, 0 and 1",
        "no clear winner in NLL, 0.5 and 0",
        "0.5 beats 1 in NLL (65 %)",
        "no clear winner in NLL, 0 and 1",
    ],
}
CLAIMS = (
    Claim(
        "section 4.1",
        "as M grows, SMSE and SMLL approach those of the exact process",
        "synthetic",
        approach,
    ),
    Claim(
        "section 4.1",
        "powers 0.8 and 1 overestimate the log evidence at intermediate M",
        "synthetic",
        middle,
    ),
    Claim("section 4.1", "the overestimation is markedly less at M = N", "synthetic", at_all_rows),
    Claim(
        "section 4.1", "a power of 0.5 to 0.8 predicts best on average", "synthetic", best_between
    ),
    *(
        Claim(REGRESSION, says, "regression", pair("regression", k))
        for k, says in enumerate(PAIRS["regression"])
    ),
    Claim(REGRESSION, "methods that win most often win big and lose small", "regression", big_wins),
    Claim(
        REGRESSION,
        "0.5 beats all others but 0.6 in SMSE",
        "regression",
        against_all("regression", "smse", 0.5, (0.6,)),
    ),
    Claim(
        REGRESSION,
        "1 is beaten by all others in SMSE",
        "regression",
        against_all("regression", "smse", 1.0, better=False),
    ),
    Claim(
        REGRESSION,
        "1 is the clear winner in SMLL",
        "regression",
        against_all("regression", "smll", 1.0),
    ),
    Claim(
        REGRESSION,
        "in SMSE 0.5 has the best rank, 0 and 1 the worst",
        "regression",
        ranked("regression", "smse", (0.5,), (0.0, 1.0)),
    ),
    Claim(
        REGRESSION,
        "in SMLL 0.8 has the best rank",
        "regression",
        ranked("regression", "smll", (0.8,), ()),
    ),
    Claim(REGRESSION, "scores improve with M", "regression", more_points("regression", "smll")),
    *(
        Claim(CLASSES, says, "classification", pair("classification", k))
        for k, says in enumerate(PAIRS["classification"])
    ),
    Claim(
        CLASSES,
        "0, 0.4 and 0.5 have an edge in NLL; 0.8 and 1 are worst",
        "classification",
        ranked("classification", "nll", (0.0, 0.4, 0.5), (0.8, 1.0)),
    ),
    Claim(CLASSES, "scores improve with M", "classification", more_points("classification", "nll")),
    Claim(CLASSES, "sites need not converge before parameters are updated", "discussion", batches),
    Claim(
        "section 5",
        "with fixed parameters the variational method gives better evidence",
        "synthetic",
        fixed_parameters("distance", ", points fixed"),
    ),
    Claim(
        "section 5",
        "the same, inducing points trained",
        "synthetic",
        fixed_parameters("distance", ""),
    ),
    Claim(
        "section 5",
        "with fixed parameters the variational method gives better predictions",
        "synthetic",
        fixed_parameters("divergence", ", points fixed"),
    ),
    Claim(
        "section 5",
        "the same, inducing points trained",
        "synthetic",
        fixed_parameters("divergence", ""),
    ),
    Claim(
        "section 5",
        "both ends are biased: 0 to parameters that are easily approximated, 1 to overestimation",
        "synthetic",
        noise_bias,
    ),
    Claim("section 5", "powers around a half are the best on average", "regression", half),
    Claim(
        "section 5",
        "maximum likelihood does not overfit on synthetic data",
        "synthetic",
        second_type,
    ),
    Claim(
        "section 5",
        "FITC suits noise that depends on the input, though it was not made for it",
        "discussion",
        noise_that_varies,
    ),
    Claim(
        "appendix",
        "inducing points concentrate at the boundary at power 0, and spread out at power 1",
        "banana",
        boundary,
    ),
    Claim(
        "appendix",
        "at M = N, evidence and test loss have the shape known of EP",
        "ionosphere",
        surfaces,
    ),
)


def judged(tables: Tables) -> pd.DataFrame:
    """A row for each claim: the place, what it says, what was found, the verdict, and the study."""
    rows = [claim[:2] + claim.judge(tables) + (claim.study,) for claim in CLAIMS]
    return pd.DataFrame(rows, columns=["in the paper", "claim", "found", "verdict", "study"])
