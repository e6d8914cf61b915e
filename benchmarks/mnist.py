"""Even and odd digits of MNIST, 60000 of them with 200 inducing points: in batches, and with all
data at every step.

    python -m benchmarks.mnist --data-dir DATA --out digits.csv [--power 0.5] [--inducing 200]
    [--iterations 150]
 Both start from the same model and have the same threads. One row for each pass over the batches,
and for every fifth iteration of L-BFGS: seconds of training alone, log evidence (of batches an
estimate), error and mean negative log probability of the 10000 test digits.
"""

import argparse
import csv
import os
import time

import numpy as np

from sparse_pep.inference import Problem, Rows
from sparse_pep.training import LBFGS
from sparse_pep.training.lbfgs import Objective, WarmEvidence, maximise
from studies import mnist

COLUMNS = ("method", "step", "seconds", "log_marginal_likelihood", "error", "nll")
EVERY = 5  # evaluations
SEED = 0


def in_batches(power: float, n_inducing: int) -> list[dict]:
    """Stochastic Power EP with Adam, 30 passes over batches of 1000."""
    job = {"data": "mnist", "split": 0, "power": power, "M": n_inducing, "seed": SEED}
    rows = mnist.fit(job, n_epochs=30, batch_size=1000)
    return [
        {"method": "batches", "step": row["epoch"], **{key: row[key] for key in COLUMNS[2:]}}
        for row in rows
    ]


def all_at_once(power: float, n_inducing: int, iterations: int) -> list[dict]:
    """L-BFGS on the log evidence of all digits."""
    X, y, X_test, y_test = mnist.data("mnist")
    start = mnist.start_of(X, n_inducing, np.random.default_rng(SEED))
    evaluate = WarmEvidence(Problem(Rows(X, y.astype(float)), power, jitter=1e-6))
    rows = []
    spent = [0.0, 0]

    def watched(model):
        begun = time.perf_counter()
        fit, gradient = evaluate(model)
        spent[0] += time.perf_counter() - begun
        if spent[1] % EVERY == 0 and not (
            rows and fit.log_evidence < rows[-1]["log_marginal_likelihood"]
        ):
            found = {
                "method": "all data",
                "step": spent[1],
                "seconds": spent[0],
                "log_marginal_likelihood": fit.log_evidence,
            }
            rows.append(found | mnist.scores(model, fit.posteriors, X_test, y_test))
        spent[1] += 1
        return fit, gradient

    result = maximise(Objective(start, watched), LBFGS(max_iter=iterations), len(X))
    end = {
        "method": "all data",
        "step": spent[1],
        "seconds": spent[0],
        "log_marginal_likelihood": result.log_evidence,
    }
    return [*rows, end | mnist.scores(result.model, result.fit.posteriors, X_test, y_test)]


def main() -> None:
    """Run both and write the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--power", type=float, default=0.5)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=150)
    given = parser.parse_args()
    os.environ["SPARSE_PEP_DATA"] = given.data_dir
    rows = in_batches(given.power, given.inducing)
    rows += all_at_once(given.power, given.inducing, given.iterations)
    with open(given.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print(
            *(
                row[name] if isinstance(row[name], (str, int)) else f"{row[name]:.4f}"
                for name in COLUMNS
            ),
            sep="\t",
        )


if __name__ == "__main__":
    main()
