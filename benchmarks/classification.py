"""Training a probit classifier to the end, and what the quadrature costs.

    python -m benchmarks.classification                       # N = 2000 and 20000, M = 100, D = 8;
    powers 0, 0.5 and 1 python -m benchmarks.classification --sizes 2000x100 --powers 0
 The first table: microseconds a datum of the tilted moments at N = 10000 on one thread, for
cavities as training meets them. The second: seconds of training (kernel, lengthscales and inducing
inputs, until 20 iterations gain less than 1e-4 nats a datum), iterations, evaluations, sweeps, the
share of the quadrature, and the log evidence reached. Threads: as BLAS is set up.
"""

import argparse
import time

import numpy as np

from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Likelihood, Logit, Poisson, Probit
from sparse_pep.model import Model
from sparse_pep.numerics.threads import one_blas_thread
from sparse_pep.training import kmeans_points, train

DIMENSIONS = 8


def problem(n_data: int, n_inducing: int) -> tuple[Model, np.ndarray, np.ndarray]:
    """A model with ARD kernel and k-means centres, labels of a smooth function with probit
    noise.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_data, DIMENSIONS))
    f = 2.0 * np.sin(X[:, :4]).sum(axis=1) + X[:, 4] * X[:, 5]
    y = Probit().sample(f, rng)
    Z = kmeans_points(X, n_inducing, rng)
    kernel = SquaredExponential(1.0, np.full(DIMENSIONS, np.sqrt(DIMENSIONS)))
    return Model(kernel, InducingPoints(Z), Probit()), X, y


@one_blas_thread()
def quadrature_cost(likelihood: Likelihood, var: float, power: float, repeats: int = 5) -> float:
    """Microseconds a datum, the best of some runs at N = 10000."""
    rng = np.random.default_rng(0)
    mean = 2.0 * rng.normal(size=10_000)
    spread = var * rng.uniform(0.5, 1.5, size=10_000)
    y = likelihood.sample(np.minimum(mean, 2.0), rng)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        likelihood.quadrature(y, mean, spread, np.full(10_000, power))
        times.append(time.perf_counter() - start)
    return 1e6 * min(times) / 10_000


class Clock:
    """Counts calls of the projection and the seconds in them."""

    def __init__(self, likelihood: Likelihood):
        self.seconds = 0.0
        self.inner = type(likelihood).tilted

    def __enter__(self) -> "Clock":
        clock = self
        inner = self.inner

        def timed(likelihood, *data):
            start = time.perf_counter()
            result = inner(likelihood, *data)
            clock.seconds += time.perf_counter() - start
            return result

        Likelihood.tilted = timed
        return self

    def __exit__(self, *error: object) -> None:
        Likelihood.tilted = self.inner


def train_once(n_data: int, n_inducing: int, power: float) -> str:
    """One row of the second table."""
    model, X, y = problem(n_data, n_inducing)
    with Clock(model.likelihood) as clock:
        start = time.perf_counter()
        result = train(model, Problem(Rows(X, y), power, jitter=1e-8))
        seconds = time.perf_counter() - start
    share = clock.seconds / seconds  # of one thread's time; two threads may both be in it
    return (
        f"{n_data:>7} {n_inducing:>5} {power:>6g} {seconds:>8.2f} {result.n_iter:>6} "
        f"{result.counts['n_evaluations']:>6} "
        f"{result.counts['n_sweeps']:>7} {share:>7.0%} {result.log_evidence:>12.2f}  "
        f"{'yes' if result.converged else 'no'}"
    )


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="2000x100,20000x100", help="NxM, separated by commas")
    parser.add_argument("--powers", default="0,0.5,1")
    arguments = parser.parse_args()
    powers = [float(power) for power in arguments.powers.split(",")]
    print(
        "likelihood   variance   "
        + "".join(f"power {power:<6g}" for power in (0.0, 0.5, 0.9))
        + "  (µs a datum)"
    )
    for likelihood in (Probit(), Logit(), Poisson()):
        for var in (0.1, 1.0, 10.0):
            costs = [quadrature_cost(likelihood, var, power) for power in (0.0, 0.5, 0.9)]
            print(
                f"{type(likelihood).__name__:<12} {var:>8g}   "
                + "".join(f"{cost:<12.1f}" for cost in costs)
            )
    print("\n      N     M  power  seconds  iters  evals  sweeps  quadr.   log Z        converged")
    for size in arguments.sizes.split(","):
        n_data, n_inducing = map(int, size.split("x"))
        for power in powers:
            print(train_once(n_data, n_inducing, power), flush=True)


if __name__ == "__main__":
    main()
