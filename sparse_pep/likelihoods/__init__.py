"""Likelihoods: densities of a target given the function, with their tilted moments."""

from .base import Likelihood
from .binary import Logit, NoisyProbit, Probit
from .bounded import Beta, Ordinal
from .counts import Binomial, NegativeBinomial, Poisson
from .coupled import Softmax
from .gaussian import Gaussian
from .heteroscedastic import (
    GaussianByRow,
    GroupedGaussian,
    HeteroscedasticGaussian,
    SwitchedLikelihood,
)
from .positive import Gamma, Tobit, Weibull
from .student_t import StudentT

__all__ = [
    "Beta",
    "Binomial",
    "Gamma",
    "Gaussian",
    "GroupedGaussian",
    "HeteroscedasticGaussian",
    "Likelihood",
    "Logit",
    "NegativeBinomial",
    "NoisyProbit",
    "Ordinal",
    "Poisson",
    "Probit",
    "Softmax",
    "StudentT",
    "Tobit",
    "Weibull",
]

# the likelihoods of an estimator, by the name of their class
LIKELIHOODS = {
    kind.__name__: kind
    for kind in (
        Gaussian,
        Probit,
        Logit,
        NoisyProbit,
        Poisson,
        NegativeBinomial,
        StudentT,
        Gamma,
        Weibull,
        Tobit,
        Binomial,
        Ordinal,
        Beta,
        HeteroscedasticGaussian,
        GroupedGaussian,
        GaussianByRow,
        SwitchedLikelihood,
    )
}
