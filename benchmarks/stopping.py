"""When training stops: evaluations and held-out scores of rules for convergence, along recorded
paths of training.

    python -m benchmarks.stopping
 needs the data sets that `sparse_pep.datasets` reads, and takes about seven minutes of one core. A
rule is a window, as a fraction of the iterations within two limits, and a tolerance in nats per
data point. Splits 0 and 1 served to choose the rule, 2 and 3 to judge it.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.datasets import load_classification, load_regression
from sparse_pep.model import model_predict, predictive_log_density
from sparse_pep.training import LBFGS, lbfgs

REGRESSION = (
    "boston",
    "concrete",
    "energy",
    "kin8nm",
    "naval",
    "power",
    "wine_red",
    "yacht",
    "kin40k",
    "pol",
    "elevators",
    "hflights",
    "keggundirected",
)
CLASSIFICATION = "pima", "australian", "breast"
POWERS = (0.5, 0.0, 1.0)
SPLITS = (0, 1, 2, 3)
# at most; every second iteration after the thirtieth is scored
ROWS = 2500
TEST_ROWS = 1000
INDUCING = 50
ITERATIONS = 600
RULES = {
    "20, 1e-4": (0.0, 20, 20, 1e-4),
    "now": (0.15, 20, 60, 5e-4),
    "20, 1e-3": (0.0, 20, 20, 1e-3),
    "20, 2e-3": (0.0, 20, 20, 2e-3),
}


class Scored(lbfgs.LBFGSObjective):
    """An ascent that scores held-out rows at the end of iterations: objective, evaluations, RMSE
    (or error), log density.
    """

    X = y = path = None

    def record(self, intermediate_result):
        k = len(self.trace)
        scores = (np.nan, np.nan)
        if k < 30 or k % 2 == 0:
            model = self.objective.model_at(self.best.vector)
            mean, var = model_predict(model, self.best.fit.posteriors, self.X)
            wrong = (np.sign(mean) - self.y) / 2 if np.all(np.abs(self.y) == 1.0) else mean - self.y
            scores = (
                np.sqrt(np.mean(wrong**2)),
                np.mean(predictive_log_density(model.likelihood, self.y, mean, var)),
            )
        Scored.path.append((-intermediate_result.fun, self.counts["n_evaluations"], *scores))
        super().record(intermediate_result)


def path_of(name: str, power: float, split: int) -> tuple[pd.DataFrame, int]:
    """The path of training on a set, standardised, and the number of its rows."""
    labels = name in CLASSIFICATION
    rng = np.random.default_rng(split)
    data = (load_classification if labels else load_regression)(name)
    X = data.X
    y = np.asarray(data.y, float)
    parts = []
    for rows, most in zip(data.splits[split], (ROWS, TEST_ROWS), strict=True):
        parts.append(rng.choice(rows, most, replace=False) if len(rows) > most else rows)
    train, test = parts
    center = X[train].mean(axis=0)
    scale = X[train].std(axis=0)
    Scored.X = (X[test] - center) / np.where(scale > 0.0, scale, 1.0)
    Scored.path = []
    Scored.y = y[test] if labels else (y[test] - y[train].mean()) / y[train].std()
    kind = SparsePEPClassifier if labels else SparsePEPRegressor
    slow = LBFGS(tol=1e-9, max_iter=ITERATIONS)
    kind(n_inducing=INDUCING, power=power, random_state=split, training=slow).fit(
        X[train], y[train]
    )
    return pd.DataFrame(
        Scored.path, columns=["objective", "evaluations", "rmse", "log_density"]
    ).interpolate(), len(train)


def end_of(
    objective: np.ndarray, n_rows: int, share: float, fewest: int, most: int, tol: float
) -> int:
    """The iteration at which a rule ends training, or the last."""
    for k in range(fewest, len(objective)):
        window = int(np.clip(share * k, fewest, most))
        if objective[k] - objective[k - window] < tol * n_rows:
            return k
    return len(objective) - 1


def main() -> None:
    lbfgs.LBFGSObjective = Scored
    lines = []
    for name in (*REGRESSION, *CLASSIFICATION):
        for power in POWERS if name in REGRESSION else POWERS[:2]:
            for split in SPLITS:
                path, n_rows = path_of(name, power, split)
                for rule, numbers in RULES.items():
                    end = path.iloc[end_of(path["objective"].to_numpy(), n_rows, *numbers)]
                    lines.append(
                        {
                            "set": name,
                            "power": power,
                            "split": split,
                            "rows": n_rows,
                            "rule": rule,
                            **end.drop("objective"),
                        }
                    )
    table = pd.DataFrame(lines).astype({"evaluations": int})
    table.to_csv(
        Path(__file__).parents[1] / "nbs/about/benchmarks/stopping.csv",
        index=False,
        float_format="%.5g",
    )


if __name__ == "__main__":
    main()
