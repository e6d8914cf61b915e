"""GPBoost: FITC, Vecchia and their combination (VIF), with its own optimiser; variants "fitc",
"vecchia" and "vif" of `gpboost`.
"""

from importlib.metadata import version

import gpboost
import numpy as np

from benchmarks.objective import Objective, Start

APPROXIMATIONS = {"fitc": "fitc", "vecchia": "vecchia", "vif": "full_scale_vecchia"}
KERNELS = {
    "squared exponential": {"cov_function": "gaussian_ard"},
    "matern32": {"cov_function": "matern_ard", "cov_fct_shape": 1.5},
}


def use_threads(threads: int) -> None:
    """OMP_NUM_THREADS is enough."""


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("gpboost", "scipy")}


class Boost(Objective):
    """A model that trains by itself: it chooses start and inducing inputs, and tells its
    objective only where it ends.
    """

    start = None

    def __init__(self, X: np.ndarray, y: np.ndarray, start: Start, likelihood: str, variant: str):
        given = {"gp_approx": APPROXIMATIONS[variant], "likelihood": likelihood} | KERNELS[
            start.kernel
        ]
        self.model = gpboost.GPModel(gp_coords=X, num_ind_points=len(start.Z), seed=0, **given)
        self.y = y

    def __call__(self, argument: None) -> tuple[float, None]:
        return float(self.model.get_current_neg_log_likelihood()), None

    def minimise(self, function, max_iter: int) -> None:
        self.model.fit(y=self.y)
        function(self.start)

    def noise(self) -> float:
        return float(self.model.get_cov_pars()["Error_var"].iloc[0])

    def predictor(self):
        def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            answer = self.model.predict(gp_coords_pred=X, predict_var=True, predict_response=False)
            return answer["mu"], answer["var"]

        return predict


def regression(X: np.ndarray, y: np.ndarray, start: Start, power: float, variant: str) -> Objective:
    """Gaussian noise."""
    return Boost(X, y, start, "gaussian", variant)


def classification(
    X: np.ndarray, y: np.ndarray, start: Start, power: float, variant: str
) -> Objective:
    """Laplace's approximation."""
    return Boost(X, (y > 0.0).astype(float), start, "bernoulli_probit", variant)
