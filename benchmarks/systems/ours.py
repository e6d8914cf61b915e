"""sparse_pep."""

from importlib.metadata import version

import numpy as np

from benchmarks.measure import Objective, Start
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.local import local_predict, local_rows
from sparse_pep.model import Model, from_vector, model_evidence, model_predict, to_vector
from sparse_pep.numerics.threads import one_blas_thread
from sparse_pep.shards import Piece
from sparse_pep.training import WarmGradient, climb

JITTER = 1e-8
KERNELS = {"squared exponential": SquaredExponential, "matern32": Matern32}


def use_threads(threads: int) -> None:
    """OMP_NUM_THREADS is enough."""


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("sparse_pep", "scipy")}


class Ours(Objective):
    """A model and its data; the variant "local" predicts from the 20 nearest rows too."""

    sign = -1.0

    def __init__(self, model: Model, X: np.ndarray, y: np.ndarray, power: float, variant: str):
        self.model, self.data, self.given, self.local = model, Piece(0, X, y), {"power": power, "jitter": JITTER}, variant == "local"
        self.start, self.gradient_of = to_vector(model.parameters()), WarmGradient(self.data, **self.given)

    def session(self) -> object:
        return one_blas_thread()

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        self.model = self.model.with_parameters(from_vector(vector, self.model.parameters()))
        fit, gradient = self.gradient_of(self.model)
        return -fit.log_evidence, -to_vector(gradient)

    def function(self):
        return WarmGradient(self.data, **self.given)

    def vector_of(self, argument: Model) -> np.ndarray:
        return to_vector(argument.parameters())

    def minimise(self, function, max_iter: int) -> int:
        with self.session():  # the same as `train`, but for the record
            result = climb(self.model, function, self.data.n_data, max_iter, tol=0.0)
        self.model = result.model
        return result.n_iter

    def predictor(self):
        fit = model_evidence(self.model, self.data, **self.given)
        if self.local:
            rows = local_rows(fit, self.data, self.given["power"])
            return lambda X: local_predict(self.model, fit.posteriors, X, rows)
        return lambda X: model_predict(self.model, fit.posteriors, X)

    def noise(self) -> float:
        return float(self.model.likelihood.noise_variance)


def regression(X: np.ndarray, y: np.ndarray, start: Start, power: float, variant: str = "") -> Objective:
    """Power EP with Gaussian noise, any power."""
    kernel = KERNELS[start.kernel](start.variance, start.lengthscale)
    return Ours(Model(kernel, InducingPoints(start.Z), Gaussian(start.noise_variance)), X, y, power, variant)


def classification(X: np.ndarray, y: np.ndarray, start: Start, power: float, variant: str = "") -> Objective:
    """Power EP with a probit likelihood, any power."""
    kernel = KERNELS[start.kernel](start.variance, start.lengthscale)
    return Ours(Model(kernel, InducingPoints(start.Z), Probit()), X, y, power, variant)
