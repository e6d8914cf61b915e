"""Small random regression problems whose Kuu is well conditioned, so that dense references keep
their digits.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from sparse_pep.features import InducingPoints
from sparse_pep.kernels import Matern12, Matern32, Matern52, SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model

KERNELS = {
    "se": SquaredExponential,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
}


def labels_of(blocks):
    """The number of each data point's block, from the members of each block."""
    return np.repeat(np.arange(len(blocks)), list(map(len, blocks)))[
        np.argsort(np.concatenate(blocks))
    ]


GRADIENTS = {  # the names of the files of exact numbers, and those of parameters
    "log_variance": "kernel.log_variance",
    "log_lengthscales": "kernel.log_lengthscale",
    "log_noise_var": "log_noise_variance",
    "Z": "features.Z",
    "log_widths_shared": "features.log_width",
    "freqs": "features.frequency",
}


def described(entry):
    """The kernel of an entry of the files of exact numbers, and X, y, Z and X_test."""
    own = entry["kernel"]
    kernel = KERNELS[own["name"]](own["variance"], own["lengthscales"])
    return kernel, *(np.array(entry[name]) for name in ("X", "y", "Z", "Xtest"))


@dataclass(frozen=True)
class SearchedGaussian(Gaussian):
    """Gaussian noise as any other likelihood: its sites are searched for."""

    sites_known = False


class RandomProblem:
    """A model, data, test inputs and a power; `units` are those of X and of y."""

    def __init__(self, seed, N, M, D, name="se", power=0.5, ard=True, units=(1.0, 1.0)):
        scale_X, scale_y = units
        rng = np.random.default_rng(seed)
        lengthscale = rng.uniform(0.5, 1.0, D if ard else None)
        Z = rng.normal(size=(M, D))
        Z[:, 0] = rng.permutation(M) + rng.uniform(-0.2, 0.2, M)  # a lengthscale or more apart
        X, self.X_test = (
            (rng.normal(size=(n, D)) + [M / 2, *np.zeros(D - 1)]) * scale_X for n in (N, 4)
        )
        self.X = X
        self.y = scale_y * (np.sin(2 * X[:, 0] / scale_X) + rng.normal(size=N))
        self.power = np.resize([0.0, 1.0, 0.5, 1e-7], N) if power == "private" else power
        kernel = KERNELS[name](scale_y**2 * rng.uniform(0.5, 2.0), scale_X * lengthscale)
        self.model = Model(
            kernel,
            InducingPoints(scale_X * Z),
            Gaussian(float(scale_y**2 * rng.uniform(0.05, 0.5))),
        )

    def arrays(self):
        """Kuu, Kuf and kff of the model at the data."""
        kernel = self.model.kernel
        features = self.model.features
        return features.Kuu(kernel), features.Kuf(kernel, self.X), kernel.diag(self.X)


# one datum, one inducing point, more inducing points than data, one column: all within reach
problems = st.builds(
    RandomProblem,
    seed=st.integers(0, 2**32 - 1),
    N=st.integers(1, 15),
    M=st.integers(1, 7),
    D=st.integers(1, 3),
    name=st.sampled_from(sorted(KERNELS)),
    power=st.sampled_from([0.0, 1e-9, 0.3, 0.5, 1.0, "private"]),
    ard=st.booleans(),
    units=st.tuples(st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from([1e-6, 1.0, 1e6])),
)
