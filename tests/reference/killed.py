"""A fit that the soak kills and starts again: python killed.py PLACE OPTIMIZER FOLDER NAME."""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.cluster import DaskSource, connect
from sparse_pep.data.sources import ArraySource

CASES = [(place, "lbfgs") for place in ("memory", "pieces", "workers")] + [(place, "adam") for place in ("memory", "pieces")]


def main(place, optimizer, folder, name):
    """Fit and save; `ready` is printed when the fit begins. The labels need a search for sites, the numbers do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y, labels = np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=1500), X[:, 0] * X[:, 1] > 0.3
    X, labels = (X[:500], labels[:500]) if place == "memory" else (X, labels)
    how = {"n_inducing": 20, "random_state": 0, "max_iter": 25, "n_epochs": 5, "batch_size": 100, "optimizer": optimizer}
    how |= {"checkpoint": f"{folder}/{name}.checkpoint", "checkpoint_every": 0.0} if optimizer == "lbfgs" else {}
    estimator, targets = (SparsePEPClassifier, labels) if place == "memory" else (SparsePEPRegressor, y)
    with ExitStack() as opened:
        data = (X, targets)
        if place != "memory":
            data = (ArraySource(X, targets, piece_rows=400),)
        if place == "workers":
            data = (DaskSource(*data, client=opened.enter_context(connect(2, timeout=60.0))),)
        print("ready", flush=True)
        model = estimator(**how).fit(*data)
    model.save(Path(folder) / f"{name}.npz")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes in the background ignore it
    main(*sys.argv[1:])
