"""GPJax: the collapsed bound at power 0, the uncollapsed one (whitened, probit) for labels; both
compiled.
"""

from importlib.metadata import version

import equinox
import gpjax
import jax
import numpy as np
from gpjax.variational_families import CollapsedVariationalGaussian, WhitenedVariationalGaussian
from jax.flatten_util import ravel_pytree

from benchmarks.objective import Objective, Start


def use_threads(threads: int) -> None:
    """Cores that the process may use decide; float64."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("gpjax", "jax", "jaxlib", "scipy")}


class Jax(Objective):
    """A variational family and its bound."""

    def __init__(self, family: equinox.Module, bound, data: gpjax.Dataset):
        arrays, self.rest = equinox.partition(family, equinox.is_inexact_array)
        flat, self.restore = ravel_pytree(arrays)
        self.start = np.array(flat)
        self.data = data
        self.vector = np.array(flat)
        self.evaluation = jax.jit(
            jax.value_and_grad(lambda vector, data: -bound(self.family(vector), data))
        )

    def family(self, vector: jax.Array) -> equinox.Module:
        """The family with these parameters."""
        return equinox.combine(self.restore(vector), self.rest)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        self.vector = vector
        value, slope = self.evaluation(jax.numpy.asarray(vector), self.data)
        return float(value), np.array(slope)

    def noise(self) -> float:
        return (
            float(self.family(jax.numpy.asarray(self.vector)).model.likelihood.obs_stddev.unwrap())
            ** 2
        )

    def predictor(self):
        family = self.family(jax.numpy.asarray(self.vector))
        posterior = equinox.filter_jit(lambda family, data: family.condition(data))(
            family, self.data
        )

        @equinox.filter_jit
        def compiled(posterior: equinox.Module, X: jax.Array) -> tuple[jax.Array, jax.Array]:
            answer = posterior(X, covariance="diagonal")
            return answer.mean, answer.variance

        def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, var = compiled(posterior, jax.numpy.asarray(X))
            return np.asarray(mean).ravel(), np.asarray(var).ravel()

        return predict


def prior_of(start: Start) -> gpjax.Prior:
    """The prior process of the start, of mean zero."""
    kinds = {"squared exponential": gpjax.kernels.RBF, "matern32": gpjax.kernels.Matern32}
    kernel = kinds[start.kernel](
        lengthscale=jax.numpy.asarray(start.lengthscale),
        variance=start.variance,
        n_dims=len(start.lengthscale),
    )
    return gpjax.Prior(mean_function=gpjax.mean_functions.Zero(), kernel=kernel)


def regression(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power 0."""
    if power != 0.0:
        raise NotImplementedError("GPJax has power 0 only")
    model = prior_of(start) * gpjax.likelihoods.Gaussian(
        obs_stddev=jax.numpy.asarray(np.sqrt(start.noise_variance))
    )
    family = CollapsedVariationalGaussian(model, jax.numpy.asarray(start.Z))
    data = gpjax.Dataset(jax.numpy.asarray(X), jax.numpy.asarray(y[:, None]))
    return Jax(family, gpjax.objectives.collapsed_elbo, data)


def classification(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power 0."""
    if power != 0.0:
        raise NotImplementedError("GPJax classifies at power 0 only")
    family = WhitenedVariationalGaussian(
        prior_of(start) * gpjax.likelihoods.Bernoulli(), jax.numpy.asarray(start.Z)
    )
    data = gpjax.Dataset(jax.numpy.asarray(X), jax.numpy.asarray((y[:, None] > 0).astype(float)))
    return Jax(family, gpjax.objectives.elbo, data)
