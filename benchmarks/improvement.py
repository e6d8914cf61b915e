"""Bayesian optimisation by expected improvement: our model, scikit-learn's GP, and inputs at
random, on two functions.
 python -m benchmarks.improvement             # ten seeds, a minute: the table of the page "Bayesian
optimisation" python -m benchmarks.improvement --seeds 2
"""

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from sparse_pep import SparsePEPRegressor

NOISE = 1e-5  # variance, relative to that of y, of experiments without noise
SHARPNESS = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
WELLS = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(X: np.ndarray) -> np.ndarray:
    """The Branin function at X (n, 2) in the unit square."""
    a, b = (15.0 * X - [5.0, 0.0]).T
    bent = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return bent**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def hartmann(X: np.ndarray) -> np.ndarray:
    """The Hartmann function at X (n, 6) in the unit cube."""
    return -np.exp(-np.einsum("kd,nkd->nk", SHARPNESS, (X[:, None] - WELLS) ** 2)) @ np.array(
        [1.0, 1.2, 3.0, 3.2]
    )


# D, minimum, evaluations
PROBLEMS = {"Branin": (branin, 2, 0.397887, 6, 30), "Hartmann-6": (hartmann, 6, -3.32237, 12, 60)}


def ours(X: np.ndarray, y: np.ndarray) -> Callable:
    """Mean and standard deviation of f by our model, with each evaluation as an inducing point."""
    given = {"fixed": ["features.Z", "log_noise_variance"], "random_state": 0}
    model = SparsePEPRegressor(
        kernel="matern52", n_inducing=len(X), noise_variance=NOISE, standardize=True, **given
    ).fit(X, y)

    def predict(T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, var = model.predict_f(T)
        return mean, np.sqrt(var)

    return predict


def theirs(X: np.ndarray, y: np.ndarray) -> Callable:
    """Mean and standard deviation of f by scikit-learn's GP with the same kernel, its scale and
    lengthscales trained.
    """
    kernel = ConstantKernel() * Matern(np.full(X.shape[1], 0.5), (1e-2, 1e2), nu=2.5)
    model = GaussianProcessRegressor(kernel, alpha=NOISE, normalize_y=True, random_state=0).fit(
        X, y
    )
    return lambda T: model.predict(T, return_std=True)


def next_input(
    predict: Callable, X: np.ndarray, best: float, rng: np.random.Generator
) -> np.ndarray:
    """Where the expected improvement is largest: the best of 1000 random inputs, and of 600 that
    close in on it.
    """
    tries = np.vstack([rng.uniform(size=(1000, X.shape[1])), X])
    for radius in (0.1, 0.03, 0.01, 0.0):
        mean, std = predict(tries)
        z = (best - mean) / np.maximum(std, 1e-12)
        x = tries[np.argmax(std * (z * norm.cdf(z) + norm.pdf(z)))]
        tries = np.vstack([x, np.clip(x + radius * rng.normal(size=(200, len(x))), 0.0, 1.0)])
    return x


def search(
    experiment: Callable, D: int, n_first: int, n: int, fit: Callable | None, seed: int
) -> np.ndarray:
    """The lowest value after each of n evaluations."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_first, D))
    y = experiment(X)
    while len(y) < n:
        x = rng.uniform(size=D) if fit is None else next_input(fit(X, y), X, y.min(), rng)
        X = np.vstack([X, x])
        y = np.append(y, experiment(x[None]))
    return np.minimum.accumulate(y)


def main() -> None:
    """Print the distances to the minimum, their medians and how often ours is the lower one."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.improvement",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=10, help="number of searches (default: 10)")
    seeds = range(parser.parse_args().seeds)
    # lengthscales at the limits of scikit-learn's, training that ends early
    warnings.simplefilter("ignore")
    for name, (experiment, D, lowest, n_first, n) in PROBLEMS.items():
        found = {
            who: [search(experiment, D, n_first, n, fit, seed) - lowest for seed in seeds]
            for who, fit in (("random", None), ("scikit-learn", theirs), ("ours", ours))
        }
        table = pd.DataFrame(
            {
                who: {
                    "middle": np.median([run[(n_first + n) // 2] for run in runs]),
                    "end": np.median([run[-1] for run in runs]),
                    "worst": max(run[-1] for run in runs),
                }
                for who, runs in found.items()
            }
        )
        lower = {
            who: sum(bool(a[-1] < b[-1]) for a, b in zip(found["ours"], runs, strict=True))
            for who, runs in found.items()
        }
        print(
            f"{name}, {n} evaluations, {len(seeds)} seeds\n{table.T.round(5)}\nours lower than",
            lower,
            flush=True,
        )


if __name__ == "__main__":
    main()
