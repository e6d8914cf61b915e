"""GPy: VarDTC at power 0, PEP between, FITC at power 1; for labels EP with DTC, its only sparse
EP, at power 1.
"""

from importlib.metadata import version

import GPy
import numpy as np
from GPy.inference.latent_function_inference import EPDTC, FITC, PEP

from benchmarks.objective import Objective, Start


def use_threads(threads: int) -> None:
    """OMP_NUM_THREADS is enough."""


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("gpy", "scipy")}


class Sheffield(Objective):
    """A model, which computes energy and gradients whenever its parameters are set."""

    def __init__(self, model: GPy.core.SparseGP):
        self.model = model
        self.start = np.array(model.optimizer_array)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = self.model._objective_grads(np.array(vector))  # what its own optimisers call
        return float(value), np.array(slope)

    def predictor(self):
        def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, var = self.model.predict_noiseless(X)
            return mean[:, 0], var[:, 0]

        return predict


def kernel_of(start: Start) -> GPy.kern.Kern:
    """The kernel of the start."""
    return GPy.kern.RBF(len(start.lengthscale), start.variance, start.lengthscale, ARD=True)


def regression(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Every power."""
    model = GPy.models.SparseGPRegression(X, y[:, None], kernel_of(start), start.Z.copy())
    if power > 0.0:
        model.inference_method = FITC() if power == 1.0 else PEP(power)
    model.likelihood.variance = start.noise_variance
    return Sheffield(model)


def classification(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power 1; EP runs to its end at every evaluation."""
    if power != 1.0:
        raise NotImplementedError("GPy classifies at power 1 only")
    labels = (y[:, None] > 0).astype(float)
    method = EPDTC(ep_mode="nested")
    model = GPy.models.SparseGPClassification(
        X, labels, kernel=kernel_of(start), Z=start.Z.copy(), inference_method=method
    )
    return Sheffield(model)
