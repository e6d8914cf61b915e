"""GPflow: SGPR at power 0, GPRFITC at power 1, SVGP (whitened, probit) for labels."""

from importlib.metadata import version

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.objective import Objective, Start


def use_threads(threads: int) -> None:
    """Threads within an operation and between operations."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("gpflow", "tensorflow", "scipy")}


class Flow(Objective):
    """A model whose loss is compiled once."""

    def __init__(self, model: gpflow.models.GPModel, loss):
        self.model = model
        variables = model.trainable_variables
        sizes = [int(tf.size(variable)) for variable in variables]
        self.start = np.concatenate([variable.numpy().ravel() for variable in variables])

        @tf.function
        def evaluation(vector: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            for variable, part in zip(variables, tf.split(vector, sizes), strict=True):
                variable.assign(tf.reshape(part, variable.shape))
            with tf.GradientTape() as tape:
                value = loss()
            slopes = tape.gradient(value, variables)
            return value, tf.concat([tf.reshape(slope, [-1]) for slope in slopes], 0)

        self.evaluation = evaluation

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = self.evaluation(tf.constant(vector))
        return float(value), slope.numpy()

    def noise(self) -> float:
        return float(self.model.likelihood.variance.numpy())

    def predictor(self):
        posterior = self.model.posterior()
        compiled = tf.function(posterior.predict_f)

        def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean, var = compiled(tf.constant(X))
            return mean.numpy()[:, 0], var.numpy()[:, 0]

        return predict


def kernel_of(start: Start) -> gpflow.kernels.Kernel:
    """The kernel of the start."""
    kinds = {
        "squared exponential": gpflow.kernels.SquaredExponential,
        "matern32": gpflow.kernels.Matern32,
    }
    return kinds[start.kernel](variance=start.variance, lengthscales=start.lengthscale)


def regression(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Powers 0 and 1."""
    kinds = {0.0: gpflow.models.SGPR, 1.0: gpflow.models.GPRFITC}
    if power not in kinds:
        raise NotImplementedError("GPflow has powers 0 and 1 only")
    given = (X, y[:, None]), kernel_of(start), start.Z.copy()
    model = kinds[power](*given, noise_variance=start.noise_variance)
    return Flow(model, model.training_loss)


def classification(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power 0."""
    if power != 0.0:
        raise NotImplementedError("GPflow classifies at power 0 only")
    model = gpflow.models.SVGP(kernel_of(start), gpflow.likelihoods.Bernoulli(), start.Z.copy())
    data = tf.constant(X), tf.constant((y[:, None] > 0).astype(float))
    return Flow(model, lambda: model.training_loss(data))
