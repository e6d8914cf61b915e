"""sparse_pep."""

from importlib.metadata import version

import numpy as np

from benchmarks.objective import Objective, Start
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.model import Model, model_evidence, model_predict
from sparse_pep.numerics.threads import one_blas_thread
from sparse_pep.posterior.local import local_predict, local_rows
from sparse_pep.training import LBFGS
from sparse_pep.training.lbfgs import Objective as OfTheta
from sparse_pep.training.lbfgs import WarmEvidence, maximise

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
        self.model = model
        self.data = Rows(X, y)
        self.power = power
        self.local = variant == "local"
        self.start, self.evidence = model.theta, self.function()

    def session(self) -> object:
        return one_blas_thread()

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        self.model = self.model.with_theta(vector)
        fit, gradient = self.evidence(self.model)
        return -fit.log_evidence, -gradient

    def function(self):
        return WarmEvidence(Problem(self.data, self.power, jitter=JITTER))

    def vector_of(self, argument: Model) -> np.ndarray:
        return argument.theta

    def minimise(self, function, max_iter: int) -> int:
        with self.session():  # the same as `train`, but for the record
            result = maximise(
                OfTheta(self.model, function), LBFGS(max_iter=max_iter, tol=0.0), self.data.n_data
            )
        self.model = result.model
        return result.n_iter

    def predictor(self):
        fit = model_evidence(self.model, Problem(self.data, self.power, jitter=JITTER))
        if self.local:
            rows = local_rows(fit, self.data, self.power)
            return lambda X: local_predict(self.model, fit.posteriors, X, rows)
        return lambda X: model_predict(self.model, fit.posteriors, X)

    def noise(self) -> float:
        return float(self.model.likelihood.noise_variance)


def regression(
    X: np.ndarray, y: np.ndarray, start: Start, power: float, variant: str = ""
) -> Objective:
    """Power EP with Gaussian noise, any power."""
    kernel = KERNELS[start.kernel](start.variance, start.lengthscale)
    return Ours(
        Model(kernel, InducingPoints(start.Z), Gaussian(start.noise_variance)), X, y, power, variant
    )


def classification(
    X: np.ndarray, y: np.ndarray, start: Start, power: float, variant: str = ""
) -> Objective:
    """Power EP with a probit likelihood, any power."""
    kernel = KERNELS[start.kernel](start.variance, start.lengthscale)
    return Ours(Model(kernel, InducingPoints(start.Z), Probit()), X, y, power, variant)
