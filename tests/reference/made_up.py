"""Simulated results of studies, whose truth is known."""

import numpy as np
import pandas as pd


def made_up_rows(
    centre, score="smse", n_sets=8, n_splits=10, inducing=(10, 50, 200), spread=(0.1, 0.1, 0.1), seed=0
) -> pd.DataFrame:
    """A row for each (data, split, M, power). `centre`: power → c, the mean of the score's logarithm; `spread`: standard
    deviations for each power over data sets, over the splits of a set, and over the M of a split.
    """
    rng, shape = np.random.default_rng(seed), (n_sets, n_splits, len(inducing))
    names = [f"set {i}" for i in range(n_sets)]
    cells = pd.MultiIndex.from_product((names, range(n_splits), inducing), names=["data", "split", "M"])
    tables = []
    for power, c in centre.items():
        sizes = (n_sets, 1, 1), (n_sets, n_splits, 1), shape
        effects = sum(s * rng.standard_normal(size) for s, size in zip(spread, sizes))
        scores = np.exp(c + effects - 0.5 * np.log(inducing)).ravel()
        tables.append(pd.DataFrame({"power": power, score: scores}, cells).reset_index())
    return pd.concat(tables, ignore_index=True)
