"""GPyTorch: InducingPointKernel with its exact marginal likelihood at power 0, ApproximateGP
with the variational bound for labels.
"""

from functools import partial
from importlib.metadata import version

import gpytorch
import numpy as np
import torch
from gpytorch.distributions import MultivariateNormal

from benchmarks.objective import Objective, Start


def use_threads(threads: int) -> None:
    """Threads within an operation, and float64."""
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float64)


def versions() -> dict[str, str]:
    """Of what computes."""
    return {name: version(name) for name in ("gpytorch", "torch", "scipy")}


def kernel_of(start: Start) -> gpytorch.kernels.Kernel:
    """The kernel of the start."""
    kinds = {
        "squared exponential": gpytorch.kernels.RBFKernel,
        "matern32": partial(gpytorch.kernels.MaternKernel, nu=1.5),
    }
    kernel = gpytorch.kernels.ScaleKernel(kinds[start.kernel](ard_num_dims=len(start.lengthscale)))
    kernel.outputscale = start.variance
    kernel.base_kernel.lengthscale = torch.tensor(start.lengthscale)
    return kernel


class Sparse(gpytorch.models.ExactGP):
    """Regression with inducing points."""

    def __init__(
        self,
        X: torch.Tensor,
        y: torch.Tensor,
        start: Start,
        likelihood: gpytorch.likelihoods.Likelihood,
    ):
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.InducingPointKernel(
            kernel_of(start), torch.tensor(start.Z), likelihood
        )

    def forward(self, X: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(X), self.covar_module(X))


class Variational(gpytorch.models.ApproximateGP):
    """Labels with inducing points."""

    def __init__(self, start: Start):
        q = gpytorch.variational.CholeskyVariationalDistribution(len(start.Z), mean_init_std=0.0)
        Z = torch.tensor(start.Z)
        super().__init__(
            gpytorch.variational.VariationalStrategy(self, Z, q, learn_inducing_locations=True)
        )
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel_of(start)

    def forward(self, X: torch.Tensor) -> MultivariateNormal:
        return MultivariateNormal(self.mean_module(X), self.covar_module(X))


class Torch(Objective):
    """A module, data, and its marginal likelihood or bound, which are means over data."""

    def __init__(
        self, model: torch.nn.Module, bound: torch.nn.Module, X: torch.Tensor, y: torch.Tensor
    ):
        self.model = model
        self.bound = bound
        self.X = X
        self.y = y
        model.train()
        model.likelihood.train()
        model(X)  # sets q to the prior
        self.parameters = [parameter for parameter in bound.parameters() if parameter.requires_grad]
        self.start = torch.nn.utils.parameters_to_vector(self.parameters).detach().numpy().copy()

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(torch.from_numpy(np.array(vector)), self.parameters)
        if not self.model.training:  # after a prediction
            self.model.train()
        self.bound.zero_grad()
        loss = -len(self.y) * self.bound(self.model(self.X), self.y)
        loss.backward()
        return float(loss.detach()), torch.nn.utils.parameters_to_vector(
            [p.grad for p in self.parameters]
        ).numpy().copy()

    def noise(self) -> float:
        return float(self.model.likelihood.noise.detach())

    def predictor(self):
        self.model.eval()

        def predict(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            with torch.no_grad(), gpytorch.settings.fast_pred_var():
                answer = self.model(torch.from_numpy(X))
                return answer.mean.numpy(), answer.variance.numpy()

        predict(self.X[:10].numpy())  # fills the caches
        return predict


def regression(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power 0."""
    if power != 0.0:
        raise NotImplementedError("GPyTorch has power 0 only")
    data = (torch.from_numpy(X), torch.from_numpy(y))
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = start.noise_variance
    model = Sparse(*data, start, likelihood)
    return Torch(model, gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model), *data)


def classification(X: np.ndarray, y: np.ndarray, start: Start, power: float) -> Objective:
    """Power 0."""
    if power != 0.0:
        raise NotImplementedError("GPyTorch classifies at power 0 only")
    data = (torch.from_numpy(X), torch.from_numpy(y))
    model = Variational(start)
    model.likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    return Torch(model, gpytorch.mlls.VariationalELBO(model.likelihood, model, len(y)), *data)
