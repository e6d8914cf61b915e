"""What the suite asks of every system: where training starts, an objective with gradients, and a
record of its calls. It needs NumPy and SciPy only.
"""

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

# of training, for busy machines
CLOCK = time.process_time if os.environ.get("BENCHMARK_CLOCK") == "processor" else time.perf_counter


class Start(NamedTuple):
    """Where every system starts: a kernel with a lengthscale for each input, "squared
    exponential" or "matern32", and inducing inputs.
    """

    variance: float
    lengthscale: np.ndarray
    noise_variance: float
    Z: np.ndarray
    kernel: str = "squared exponential"


class TimeIsUp(Exception):
    """Ends a training that has used its time."""


class Objective:
    """What a system has to offer: minus its log evidence over its own vector of unconstrained
    parameters.

    Attributes
    ----------
    start : ndarray (P,)
        The vector that belongs to the `Start`.
    sign : float
        −1 where what is minimised returns the log evidence itself.
    """

    start: np.ndarray
    sign = 1.0

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """(−log evidence, −gradient (P,))."""
        raise NotImplementedError

    def session(self) -> object:
        """A context that training runs in."""
        return nullcontext()

    def function(self) -> Callable:
        """What training calls, from `start` on: argument → (objective, ...)."""
        return self

    def vector_of(self, argument: object) -> np.ndarray:
        """The vector (P,) of an argument of `function`."""
        return argument

    def minimise(self, function: Callable, max_iter: int) -> int:
        """Minimise `function` from `start` and keep the parameters; the number of iterations."""
        options = {"maxiter": max_iter, "maxfun": 100 * max_iter, "ftol": 0.0, "gtol": 0.0}
        end = minimize(function, self.start, jac=True, method="L-BFGS-B", options=options)
        self(end.x)  # leaves the system with these parameters
        return end.nit

    def train(self, max_iter: int) -> tuple[int, list[tuple[float, float]]]:
        """Train from `start`; the number of iterations, and (seconds, objective) after each
        evaluation.
        """
        recorded = Recorded(self.function(), self.sign)
        return self.minimise(recorded, max_iter), recorded.trace

    def noise(self) -> float:
        """The noise variance of a regression."""
        raise NotImplementedError

    def predictor(self) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """predict(X) → mean and variance of f, (S,) each, with all that training data decide
        done already.
        """
        raise NotImplementedError


class Recorded:
    """A function that returns (value, more). `trace` has the seconds since `begin` and the value of
    each call; with a `limit` in seconds, `best` has (seconds, value, argument, number) of the calls
    that were lower than all before, and calls end when time is up.
    """

    def __init__(
        self,
        function: Callable,
        sign: float = 1.0,
        begin: float | None = None,
        limit: float | None = None,
    ):
        self.function = function
        self.sign = sign
        self.trace = []
        self.best = []
        self.limit = limit
        self.begin = CLOCK() if begin is None else begin

    def __call__(self, argument: object) -> tuple:
        answer = self.function(argument)
        value = self.sign * float(getattr(answer[0], "log_evidence", answer[0]))
        when = CLOCK() - self.begin
        self.trace.append((when, value))
        if self.limit is not None:
            if not self.best or value < self.best[-1][1]:
                kept = np.copy(argument) if isinstance(argument, np.ndarray) else argument
                self.best.append((when, value, kept, len(self.trace)))
            if when > self.limit:
                raise TimeIsUp
        return answer
