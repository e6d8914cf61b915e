"""sparse_pep."""

from importlib.metadata import version

import numpy as np

from benchmarks.measure import Objective, Recorded, Start
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.model import Model, from_vector, model_evidence, model_predict, to_vector
from sparse_pep.numerics.threads import one_blas_thread
from sparse_pep.shards import Piece
from sparse_pep.training import WarmGradient, climb

JITTER = 1e-8


def use_threads(threads: int) -> None:
    """OMP_NUM_THREADS is enough."""


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("sparse_pep", "scipy")}


class Ours(Objective):
    """A model and its data."""

    def __init__(self, model: Model, X: np.ndarray, y: np.ndarray, power: float):
        self.model, self.data, self.given = model, Piece(0, X, y), {"power": power, "jitter": JITTER}
        self.start, self.gradient_of = to_vector(model.parameters()), WarmGradient(self.data, **self.given)

    def session(self) -> object:
        return one_blas_thread()

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        model = self.model.with_parameters(from_vector(vector, self.model.parameters()))
        fit, gradient = self.gradient_of(model)
        return -fit.log_evidence, -to_vector(gradient)

    def train(self, max_iter: int) -> tuple[int, list[tuple[float, float]]]:
        recorded = Recorded(WarmGradient(self.data, **self.given), -1.0)
        with self.session():  # the same as `train`, but for the record
            result = climb(self.model, recorded, self.data.n_data, max_iter, tol=0.0)
        self.model = result.model
        return result.n_iter, recorded.trace

    def predictor(self):
        fit = model_evidence(self.model, self.data, **self.given)
        return lambda X: model_predict(self.model, fit.posteriors, X)


def regression(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power EP with Gaussian noise, any power."""
    kernel = SquaredExponential(start.variance, start.lengthscale)
    return Ours(Model(kernel, InducingPoints(start.Z), Gaussian(start.noise_variance)), X, y, power)


def classification(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power EP with a probit likelihood, any power."""
    kernel = SquaredExponential(start.variance, start.lengthscale)
    return Ours(Model(kernel, InducingPoints(start.Z), Probit()), X, y, power)
