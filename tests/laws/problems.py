"""Every kind of evidence, one line each. A new likelihood, kernel or set of features that has a
line here is tested by all laws.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import default_rng
from reference import energy, highprec
from reference.problems import SearchedGaussian

from sparse_pep.features import Derivative, GaussianBlur, InducingPoints, StackedFeatures, Wavelet
from sparse_pep.kernels import (
    ChangePoint,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Projected,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from sparse_pep.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    Gaussian,
    GroupedGaussian,
    HeteroscedasticGaussian,
    Logit,
    NegativeBinomial,
    NoisyProbit,
    Ordinal,
    Poisson,
    Probit,
    Softmax,
    StudentT,
    Tobit,
    Weibull,
)
from sparse_pep.likelihoods.heteroscedastic import SwitchedLikelihood
from sparse_pep.means import ConstantMean, LinearMean, ZeroMean
from sparse_pep.model import Model
from sparse_pep.observations import (
    MEAN,
    SIGN,
    SLOPE,
    SUM,
    VALUE,
    Observed,
    with_terms,
)

RNG = default_rng(5)
N = 20
X = RNG.uniform(-2.0, 2.0, (N, 2))
F = 1.5 * np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
BLOCKS = np.repeat(np.arange(7), [3, 1, 4, 2, 5, 3, 2])  # rows of a block follow each other
PRIVATE = np.resize([0.0, 1.0, 0.5, 1e-7, 0.3], N)
KNOWN = RNG.uniform(0.0, 0.3, N)
WEIGHT = RNG.integers(1, 4, N).astype(float)
EXPOSURE = np.exp(default_rng(6).normal(size=N))
Z = X[:5] + 0.1
SE = SquaredExponential(1.5, [0.9, 1.4])
M32 = Matern32(1.5, 1.1)
# the first rows have one kind only
KINDS = np.repeat([SIGN, VALUE, SLOPE, VALUE, MEAN], N // 5)
# functionals, of which signs are the second group
ROWS = np.column_stack([X, RNG.uniform(0.3, 1.0, (N, 2)), KINDS, KINDS == SIGN])
# every other row is a sum of three terms, one of two, in the place of another kind
TERMS = default_rng(7).uniform(-1.5, 1.5, (N, 3, 3))
TERMS[1::2] = TERMS[2, 1:2] = 0.0
OF_SUMS = np.where(np.arange(N) % 2 == 0, SUM, KINDS)
SUMS = with_terms(np.column_stack([ROWS[:, :4], OF_SUMS, OF_SUMS == SIGN]), TERMS)


@dataclass(frozen=True)
class LawCase:
    """A model and its data: `power` may be one number a row, `more` names columns above or the
    tight form, `drawn` is data instead.
    """

    likelihood: object
    power: float | np.ndarray = 0.5
    kernel: object = SE
    features: object = InducingPoints(Z)
    mean: object = ZeroMean()
    more: str = ""  # some of "weight known exposure blocks outputs tight sums"
    drawn: dict | None = None

    @cached_property
    def model(self):
        return Model(self.kernel, self.features, self.likelihood, self.mean)

    @property
    def gaussian(self):
        """Whether the sites are known in closed form."""
        return self.likelihood.sites_known

    @property
    def private(self):
        return np.ndim(self.power) > 0

    @property
    def common_power(self):
        """The power of rows that have none of their own."""
        return 0.5 if self.private else self.power

    @property
    def tight(self):
        return "tight" in self.more

    @property
    def options(self):
        return {"tight": self.tight, "tol": 1e-11}

    @property
    def inputs(self):
        """X, or rows of functionals."""
        if "sums" in self.more:
            return SUMS
        return ROWS if self.kernel.of_functionals else X

    @cached_property
    def y(self):
        rng = default_rng(1)
        f = F
        if isinstance(self.likelihood, GroupedGaussian):
            return F + 0.4 * rng.normal(size=N)
        if isinstance(self.likelihood, SwitchedLikelihood):
            return np.where(
                self.inputs[:, 4] == SIGN,
                np.where(F > 0.0, 1.0, -1.0),
                F + 0.4 * rng.normal(size=N),
            )
        if isinstance(self.likelihood, Softmax):
            return np.digitize(F + 0.5 * rng.normal(size=N), [-0.7, 0.7]).astype(float)
        if isinstance(self.likelihood, HeteroscedasticGaussian):
            f = np.stack([F, 0.5 * X[:, 1]])
        y = self.likelihood.sample(f, rng)
        return (
            np.column_stack([y, 0.3 - 0.5 * y, rng.normal(size=N)]) if "outputs" in self.more else y
        )

    @cached_property
    def data(self):
        """X, y and columns, as they are made into rows in memory, in pieces or on workers."""
        columns = {"blocks": BLOCKS, "weight": self.per_block(WEIGHT), "known": KNOWN}
        columns["exposure"] = EXPOSURE
        columns = {
            "known_variance" if name == "known" else name: columns[name]
            for name in columns
            if name in self.more
        }
        return self.drawn or {"X": self.inputs, "y": self.y} | columns | (
            {"power": self.per_block(self.power)} if self.private else {}
        )

    def per_block(self, values):
        """One number a row, the same for all rows of a block."""
        return values[BLOCKS] if "blocks" in self.more else values

    @property
    def noise(self):
        """The noise variance of each row."""
        return self.likelihood.at(self.data["X"]).noise_variance + self.column(
            "known_variance", 0.0
        )

    def column(self, name, default):
        return self.data.get(name, np.full(len(self.data["X"]), default))

    @property
    def labels(self):
        return self.data.get("blocks", np.arange(len(self.data["X"])))

    def copies(self, counts):
        """Each row so many times, and labels: copies of a block are blocks of their own, but one
        in the tight form of Gaussian noise.
        """
        rows = np.repeat(np.arange(len(counts)), counts)
        turn = np.concatenate([np.arange(count) for count in counts])
        return rows, self.labels[rows] + 100 * turn * (not (self.tight and self.gaussian))

    def repeated(self, counts):
        """The data with each row, or block, so many times instead of weights."""
        rows, labels = self.copies(counts)
        order = np.argsort(labels, kind="stable")
        found = {name: value[rows[order]] for name, value in self.data.items() if name != "weight"}
        return found | (
            {"blocks": labels[order]} if "blocks" in found or (self.tight and self.gaussian) else {}
        )

    def covariances(self, jitter=0.0):
        """Kuu, Kuf and Kff."""
        Kuu = self.features.Kuu(self.kernel)
        X = self.data["X"]
        return (
            Kuu + jitter * np.diag(np.diag(Kuu)),
            self.features.Kuf(self.kernel, X),
            self.kernel(X),
        )

    def dense(self, fit):
        """log Z by dense matrices, in 50 digits for Gaussian noise, else with fine quadrature at
        the sites of the fit; the size of its terms.
        """
        if not self.gaussian:
            value = self.at_sites(fit)[0]()
            return value, abs(value)
        rows, labels = self.copies(self.column("weight", 1.0).astype(int))
        noise = self.noise[rows]
        power = self.column("power", self.common_power)[rows]
        Kuu, Kuf, Kff = self.covariances(fit.jitter)
        targets = np.atleast_2d(self.data["y"].T - self.mean(self.data["X"]).T)
        parts = [
            highprec.log_evidence(
                Kuu,
                Kuf[:, rows],
                Kff[np.ix_(rows, rows)],
                y[rows],
                noise,
                labels,
                power,
                self.tight,
            )
            for y in targets
        ]
        return np.sum(parts, axis=0)

    def at_sites(self, fit):
        """log Z as a function of a factor of the scale of the conditional, and its slope when
        all sites move at once.
        """
        blocks = [np.flatnonzero(self.labels == label) for label in np.unique(self.labels)]
        columns = self.column("power", self.common_power), self.column("weight", 1.0)
        powers, weights = ([values[rows[0]] for rows in blocks] for values in columns)
        offset = np.broadcast_to(
            self.mean(self.data["X"]).T, (self.likelihood.n_latent, len(self.labels))
        ) + np.log(self.column("exposure", 1.0))
        groups = (
            self.data["X"][:, -1].astype(int)
            if isinstance(self.likelihood, SwitchedLikelihood)
            else 0 * self.labels
        )
        data = energy.Data(self.data["y"], offset, groups, blocks, powers, weights)
        return energy.at_fit(self.likelihood, data, fit, *self.covariances(fit.jitter))


GAUSSIAN = Gaussian(0.2)
STUDENT = StudentT(4.0, 0.3)
NOISES = HeteroscedasticGaussian(0.3, 0.7)
TWO_NOISES = GroupedGaussian((0.2, 0.5), 5)
VALUES_AND_SIGNS = SwitchedLikelihood((GAUSSIAN, Probit()))
STUDENT_AND_SIGNS = SwitchedLikelihood((STUDENT, Probit()))
SEARCHED = SearchedGaussian(0.2)
FUNCTIONALS = Observed(SE, 2)
WITH_LINEAR = Observed(SE + Linear(0.3), 2)
BLURS = GaussianBlur(Z, [0.3, 0.5])
SLOPES = Derivative(Z, [-1, 0, 1, 1, 0])
PROBLEMS = {
    # Gaussian noise: powers, features, kernels, means, columns
    "gaussian, power 0": LawCase(GAUSSIAN, 0.0),
    "gaussian": LawCase(GAUSSIAN, mean=ConstantMean(0.3)),
    "gaussian, power 1": LawCase(GAUSSIAN, 1.0, kernel=Matern12(1.2, [0.8, 1.1])),
    "gaussian, tiny power": LawCase(GAUSSIAN, 1e-9, kernel=Matern52(1.2, 0.9)),
    "gaussian, private powers": LawCase(
        GAUSSIAN, PRIVATE, mean=LinearMean(0.1, [0.2, -0.3]), more="weight known"
    ),
    "gaussian, blurs": LawCase(GAUSSIAN, 0.4, features=BLURS, more="known"),
    "gaussian, wavelets": LawCase(
        GAUSSIAN, 0.0, features=Wavelet(Z, 0.6, [1.0, 0.5], phase=0.4), more="weight"
    ),
    "gaussian, derivatives": LawCase(GAUSSIAN, 0.7, features=SLOPES),
    "gaussian, mixture": LawCase(
        GAUSSIAN,
        PRIVATE,
        features=StackedFeatures([InducingPoints(Z[:2]), GaussianBlur(Z[2:], [0.3, 0.4])]),
    ),
    "gaussian, sum of kernels": LawCase(GAUSSIAN, kernel=SE + Linear(0.3) + White(0.1)),
    "gaussian, product of kernels": LawCase(
        GAUSSIAN, 0.0, kernel=M32 * (Periodic(1.0, 1.1, 2.4) + Constant(0.2)), more="known"
    ),
    "gaussian, rational quadratic": LawCase(
        GAUSSIAN, 1.0, kernel=RationalQuadratic(1.2, [0.8, 1.5])
    ),
    "gaussian, change point": LawCase(
        GAUSSIAN, 0.3, kernel=ChangePoint(SE, M32, 0.2, 2.0, active_dims=(0,))
    ),
    "gaussian, projected": LawCase(GAUSSIAN, kernel=Projected(SE, [[0.8, -0.5], [0.3, 1.1]])),
    "gaussian, outputs": LawCase(
        GAUSSIAN, 0.5, mean=LinearMean(np.zeros(3), np.ones((2, 3))), more="outputs"
    ),
    "gaussian, outputs, power 0": LawCase(GAUSSIAN, 0.0, more="outputs weight"),
    "gaussian, weighted outputs": LawCase(
        GAUSSIAN, PRIVATE, mean=ConstantMean([0.2, -0.1, 0.0]), more="outputs weight known"
    ),
    "gaussian, blocks, power 0": LawCase(GAUSSIAN, 0.0, more="blocks known"),
    "gaussian, blocks": LawCase(GAUSSIAN, kernel=M32, more="blocks weight"),
    "gaussian, blocks, power 1": LawCase(
        GAUSSIAN, 1.0, features=GaussianBlur(Z, 0.3), more="blocks"
    ),
    "gaussian, blocks of outputs": LawCase(
        GAUSSIAN, PRIVATE, kernel=SE + White(0.1), more="blocks outputs weight known"
    ),
    "gaussian, tight, power 0": LawCase(GAUSSIAN, 0.0, kernel=Matern52(1.2, 0.9), more="tight"),
    "gaussian, tight": LawCase(
        GAUSSIAN, PRIVATE, mean=ConstantMean(0.2), more="tight weight known"
    ),
    "gaussian, tight blocks": LawCase(GAUSSIAN, 0.4, more="tight blocks outputs weight"),
    "gaussian, tight blocks, power 0": LawCase(
        GAUSSIAN, 0.0, features=GaussianBlur(Z, 0.3), more="tight blocks known"
    ),
    "gaussian, functionals": LawCase(GAUSSIAN, PRIVATE, kernel=WITH_LINEAR, more="weight known"),
    "gaussian, functionals of blurs": LawCase(GAUSSIAN, 0.0, kernel=FUNCTIONALS, features=BLURS),
    "gaussian, functionals of derivatives": LawCase(
        GAUSSIAN, 0.7, kernel=FUNCTIONALS, features=SLOPES
    ),
    "gaussian, functionals in blocks": LawCase(
        GAUSSIAN, 0.5, kernel=FUNCTIONALS, more="blocks weight"
    ),
    "gaussian, functionals of two noises": LawCase(
        TWO_NOISES, 0.6, kernel=FUNCTIONALS, more="weight known"
    ),
    "gaussian, tight functionals of two noises": LawCase(
        TWO_NOISES, 0.0, kernel=Observed(M32 * SE, 2), more="tight blocks"
    ),
    "gaussian, sums": LawCase(GAUSSIAN, PRIVATE, kernel=WITH_LINEAR, more="sums weight known"),
    "gaussian, sums and blurs": LawCase(
        GAUSSIAN,
        0.6,
        kernel=FUNCTIONALS,
        features=BLURS,
        more="sums blocks",
    ),
    "mixed, sums": LawCase(
        STUDENT_AND_SIGNS,
        0.5,
        kernel=Observed(SE * Constant(1.1), 2),
        more="sums",
    ),
    "gaussian, slopes": LawCase(
        GAUSSIAN, 0.4, kernel=Observed(Matern52(1.2, [0.9, 1.2]), 2), more="known"
    ),
    "gaussian, projected slopes": LawCase(
        GAUSSIAN, 0.6, kernel=Observed(Projected(Matern52(1.2, 0.9), [[0.8, -0.5]]), 2)
    ),
    "gaussian, slopes, tight": LawCase(
        GAUSSIAN, 0.0, kernel=Observed(SE * Constant(1.1), 2), more="tight weight"
    ),
    # sites that are searched for
    "mixed": LawCase(
        STUDENT_AND_SIGNS,
        PRIVATE,
        kernel=FUNCTIONALS,
        more="weight",
    ),
    "mixed, power 0": LawCase(VALUES_AND_SIGNS, 0.0, kernel=FUNCTIONALS),
    "mixed, blocks": LawCase(VALUES_AND_SIGNS, 0.5, kernel=FUNCTIONALS, more="blocks"),
    "searched gaussian": LawCase(SEARCHED, PRIVATE, more="weight"),
    "searched gaussian, blocks": LawCase(SEARCHED, 0.4, more="blocks"),
    "probit, power 0": LawCase(Probit(), 0.0),
    "probit": LawCase(Probit(), mean=ConstantMean(0.2), more="weight"),
    "probit, power 1": LawCase(Probit(), 1.0, kernel=M32),
    "probit, blocks, power 0": LawCase(Probit(), 0.0, more="blocks"),
    "probit, blocks": LawCase(Probit(), more="blocks weight"),
    "probit, blocks, power 1": LawCase(Probit(), 1.0, kernel=M32 + White(0.05), more="blocks"),
    "probit, tight": LawCase(Probit(), 0.0, features=InducingPoints(Z[:3]), more="tight weight"),
    "logit": LawCase(Logit(), PRIVATE, kernel=SE + Linear(0.3)),
    "noisy probit": LawCase(NoisyProbit(0.05), 0.6, features=SLOPES),
    "poisson, exposures, power 0": LawCase(Poisson(), 0.0, more="exposure"),
    "poisson, exposures": LawCase(
        Poisson(), 0.6, mean=LinearMean(0.1, [0.2, -0.1]), more="exposure weight"
    ),
    "negative binomial, exposures in blocks": LawCase(
        NegativeBinomial(3.0), more="exposure blocks"
    ),
    "poisson": LawCase(Poisson(), 0.0, mean=LinearMean(0.1, [0.2, -0.1])),
    "poisson, blocks": LawCase(Poisson(), PRIVATE, more="blocks"),
    "poisson, tight": LawCase(Poisson(), 0.0, mean=ConstantMean(0.1), more="tight"),
    "negative binomial": LawCase(NegativeBinomial(3.0), 0.7, features=GaussianBlur(Z, [0.3, 0.2])),
    "student": LawCase(STUDENT, kernel=M32, more="weight"),
    "student, blocks": LawCase(STUDENT, 0.3, more="blocks"),
    "ordinal": LawCase(Ordinal((-0.4, 0.5)), 0.5),
    "beta": LawCase(Beta(6.0), 1.0),
    "gamma": LawCase(Gamma(2.0), PRIVATE),
    "weibull": LawCase(Weibull(1.4)),
    "tobit": LawCase(Tobit(0.1, -0.5, 0.5), 1.0),
    "binomial": LawCase(Binomial(5), more="weight"),
    "heteroscedastic": LawCase(NOISES, PRIVATE, more="weight"),
    "heteroscedastic, power 0": LawCase(NOISES, 0.0),
    "softmax": LawCase(Softmax(3), mean=ConstantMean([0.2, 0.0, -0.1])),
    "softmax, tight": LawCase(Softmax(3), 0.0, features=InducingPoints(Z[:2]), more="tight weight"),
}


def without_weights(problem):
    return replace(problem, more=problem.more.replace("weight", ""))
