"""Inter-domain features against their definitions, at their limits, and in the models that use
them.
"""

import tracemalloc

import mpmath as mp
import numpy as np
import pytest
from numpy.random import default_rng
from reference import dense
from reference.compare import differences, error
from reference.features import MaternSpace, covariances, point, slope_covariance, wave, window
from sklearn.base import clone

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    StackedFeatures,
    Wavelet,
)
from sparse_pep.features.windows import normal_points
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import (
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    SquaredExponential,
    White,
)
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_evidence
from sparse_pep.training import LBFGS

RNG = default_rng(3)
X = RNG.normal(size=(6, 2))
Z = RNG.normal(size=(4, 2))
WIDTHS = RNG.uniform(0.2, 0.8, (4, 2))
FREQUENCIES = 2 * RNG.normal(size=(4, 2))
PHASES = RNG.normal(size=4)
SOME_WIDTHS = np.array([[0.5, 0.0], [0.0, 0.4]])  # along one axis each
SE = SquaredExponential(1.3, [0.8, 1.5])
MATERNS = {1: Matern12, 2: Matern32, 3: Matern52}


def level(width, frequency, phase):
    return np.cos(phase) * np.exp(-np.sum((frequency * width) ** 2) / 2)


EVERY_WINDOW = StackedFeatures(
    [
        InducingPoints(Z[:2]),
        GaussianBlur(Z[2:], WIDTHS[0]),
        Wavelet(Z, WIDTHS, FREQUENCIES, PHASES),
        Wavelet(Z[:2], WIDTHS[1], FREQUENCIES[:2], 0.3, zero_mean=True),
        GaussianBlur(Z[1:3], [0.0, 0.6]),
        Wavelet(Z[2:], SOME_WIDTHS, FREQUENCIES[2:], 0.3, zero_mean=True),
    ]
)
DEFINITIONS = [
    *(point(z) for z in Z[:2]),
    *(window(z, WIDTHS[0], [0.0, 0.0]) for z in Z[2:]),
    *(window(*parts) for parts in zip(Z, WIDTHS, FREQUENCIES, PHASES, strict=False)),
    *(
        window(z, WIDTHS[1], f, 0.3, level(WIDTHS[1], f, 0.3))
        for z, f in zip(Z, FREQUENCIES[:2], strict=False)
    ),
    *(window(z, [0.0, 0.6], [0.0, 0.0]) for z in Z[1:3]),
    *(
        window(z, w, f, 0.3, level(w, f, 0.3))
        for z, w, f in zip(Z[2:], SOME_WIDTHS, FREQUENCIES[2:], strict=False)
    ),
]


# Definitions


@pytest.mark.parametrize(
    "kernel",
    [
        SE,
        SquaredExponential(1.3, 0.9, active_dims=(1,)),
        Constant(0.7) + SquaredExponential(1.3, 0.9),
        Linear([0.4, 1.1]),
    ],
    ids=["se", "one column", "sum", "linear"],
)
def test_windows_of_every_kind_are_the_integrals_that_define_them(kernel):
    Kuu = covariances(kernel, DEFINITIONS, DEFINITIONS)
    Kuf = covariances(kernel, DEFINITIONS, [point(x) for x in X])
    assert error(EVERY_WINDOW.Kuu(kernel), Kuu) < 1e-13
    assert error(EVERY_WINDOW.Kuf(kernel, X), Kuf) < 1e-13


@pytest.mark.parametrize("name", ["se", "matern32", "matern52"])
def test_derivatives_are_those_of_the_kernel(name):
    kernel = {"se": SquaredExponential, "matern32": Matern32, "matern52": Matern52}[name](
        1.3, [0.8, 1.5]
    )
    dims = np.array([-1, 0, 1, 0])
    features = Derivative(Z, dims)
    pairs = [
        [
            slope_covariance((name, 1.3, [0.8, 1.5]), z1, d1, z2, d2)
            for z2, d2 in zip(np.vstack([Z, X]), [*dims, *[-1] * 6], strict=False)
        ]
        for z1, d1 in zip(Z, dims, strict=False)
    ]
    exact = np.array(pairs, dtype=float)
    # Matérn 3/2 has no second derivative on both sides of 0 for differences
    off_diagonal = ~np.eye(4, 10, dtype=bool)
    got = np.hstack([features.Kuu(kernel), features.Kuf(kernel, X)])
    assert error(got[off_diagonal], exact[off_diagonal]) < 1e-14
    slope = {"se": 1.0, "matern32": 3.0, "matern52": 5 / 3}[name]
    assert (
        error(np.diag(got), 1.3 * np.array([1, slope / 0.8**2, slope / 1.5**2, slope / 0.8**2]))
        < 1e-15
    )


@pytest.mark.parametrize(
    "other",
    EVERY_WINDOW.features,
    ids=[
        "points",
        "blurs",
        "wavelets",
        "no mean",
        "blurs along one axis",
        "no mean along one axis",
    ],
)
@pytest.mark.parametrize("kernel", [SE, SE + Linear(0.4)], ids=["se", "sum"])
def test_a_derivative_is_the_derivative_of_points_whatever_it_is_paired_with(other, kernel):
    dims = np.array([0, 1, 1, 0])

    def cross(z):
        return StackedFeatures([other, InducingPoints(z)]).Kuu(kernel)[: len(other), len(other) :]

    got = StackedFeatures([other, Derivative(Z, dims)]).Kuu(kernel)[: len(other), len(other) :]
    bar = RNG.normal(size=got.shape)
    numeric = differences(lambda z: np.vdot(bar, cross(z)), Z)
    assert error(np.sum(bar * got, axis=0), numeric[np.arange(4), dims]) < 1e-9


@pytest.mark.parametrize("D", [1, 2, 5, 13, 20])
@pytest.mark.parametrize("p", MATERNS)
def test_sums_over_points_are_near_the_integrals(p, D):
    """A Matérn process is a squared exponential one whose squared lengthscale is multiplied by a
    Gamma variable g.
    """
    rng = default_rng(D)
    nu = p - 0.5
    log_g = np.arange(-60.0, 4.0, 0.4)
    weight = 0.4 * np.exp(nu * (log_g + np.log(nu) - np.exp(log_g))) / float(mp.gamma(nu))
    features = GaussianBlur(rng.normal(size=(4, D)) / np.sqrt(D), rng.uniform(0.0, 1.0, (4, D)))
    x = rng.normal(size=(3, D)) / np.sqrt(D)
    exact = np.tensordot(
        weight,
        [
            np.hstack([features.Kuu(k), features.Kuf(k, x)])
            for k in (SquaredExponential(1.0, g) for g in np.exp(log_g / 2))
        ],
        1,
    )
    got = np.hstack([features.Kuu(MATERNS[p]()), features.Kuf(MATERNS[p](), x)])
    assert np.max(np.abs(got - exact)) < 0.03
    sums = [
        (z + width * t, np.full(len(t), 1 / len(t)))
        for z, width, t in zip(features.Z, features.width, [normal_points(D)] * 4, strict=False)
    ]
    assert (
        error(
            got,
            np.hstack(
                [
                    covariances(MATERNS[p](), sums, sums),
                    covariances(MATERNS[p](), sums, [point(z) for z in x]),
                ]
            ),
        )
        < 1e-13
    )


@pytest.mark.parametrize("p", MATERNS)
def test_fourier_features_are_inner_products(p):
    with mp.workdps(18):
        a = -1.0
        b = 2.0
        x = np.array([-1.6, -1.0, 0.3, 1.9, 2.8])
        space = MaternSpace(p, 1.3, 0.7, a, b)
        waves = [wave(0.0, 0, a), wave(1.1, 0, a), wave(1.1, 1, a)]
        Kuf = [[float(space.inner(w, space.section(mp.mpf(v)), [v])) for v in x] for w in waves]
        Kuu = [[float(space.inner(w, v)) for v in waves] for w in waves]
    features = Fourier(a, b, [0.0, 1.1])
    kernel = MATERNS[p](1.3, 0.7)
    assert error(features.Kuf(kernel, x[:, None]), Kuf) < 1e-14
    assert error(features.Kuu(kernel), Kuu) < 1e-14


# Limits


@pytest.mark.parametrize("frequency", [30.0, 1e3, 1e8])
def test_a_wave_too_fast_to_be_seen_is_seen_as_nothing(frequency):
    features = Wavelet(Z, 0.5, frequency, PHASES)
    Kuu, pull_Kuu = features.Kuu_vjp(SE)
    Kuf, pull_Kuf = features.Kuf_vjp(SE, X)
    assert np.max(np.abs(Kuu)) < 1e-40
    assert np.max(np.abs(Kuf)) < 1e-40
    assert np.all(np.diag(Kuu) >= 0)
    for values in (*pull_Kuu(np.ones_like(Kuu)), *pull_Kuf(np.ones_like(Kuf))):
        assert all(np.all(np.isfinite(value)) for value in values.values())


def test_noise_is_never_explained():
    noise = White(0.3)
    features = StackedFeatures([InducingPoints(Z[:2]), GaussianBlur(Z, 0.2), InducingPoints(Z[:1])])
    np.testing.assert_array_equal(features.Kuu(noise), np.diag([0.3, 0.3, 0, 0, 0, 0, 0.3]))
    assert not features.Kuf(noise, np.vstack([X, Z])).any()


# Parameters


def peak_memory(D):
    """Largest memory of Kuf and its pull-back for each kind, in units of Kuf."""
    M = 200
    N = 300
    inputs = RNG.normal(size=(N, D))
    places = RNG.normal(size=(M, D))
    smooth = SquaredExponential(1.0, np.full(D, 5.0))
    derivatives = Derivative(places, np.arange(M) % (D + 1) - 1)
    for features, kernel in (
        (GaussianBlur(places, 0.3), smooth),
        (Wavelet(places, 0.3, 1.0, zero_mean=True), smooth),
        (derivatives, smooth),
        (derivatives, Matern52(1.0, np.full(D, 5.0))),
    ):
        tracemalloc.start()
        K, pull = features.Kuf_vjp(kernel, inputs)
        pull(np.ones_like(K))
        yield tracemalloc.get_traced_memory()[1] / K.nbytes
        tracemalloc.stop()


def test_no_array_for_each_dimension():
    for few, many in zip(peak_memory(4), peak_memory(40), strict=False):
        assert many < few + 12  # an array (M, N, D) would add 36


# In models

X_line = np.sort(default_rng(5).uniform(0.0, 6.0, 40))[:, None]
y_line = np.sin(2 * X_line[:, 0]) + 0.3 * default_rng(6).normal(size=40)
LINE = Rows(X_line, y_line)


@pytest.mark.parametrize("p", MATERNS)
def test_variational_fourier_features_equal_the_dense_bound_and_rise(p):
    kernel = MATERNS[p](1.1, 0.9)
    exact = dense.exact_log_evidence(kernel(X_line), y_line, 0.09)
    before = -np.inf
    for n in range(1, 13):
        features = Fourier(-2.0, 8.0, n)
        got = model_evidence(
            Model(kernel, features, Gaussian(0.09)), Problem(LINE, 0.0)
        ).log_evidence
        arrays = features.Kuu(kernel), features.Kuf(kernel, X_line), kernel.diag(X_line)
        assert abs(got - dense.titsias_bound(*arrays, y_line, 0.09)) < 1e-9 * abs(got)
        assert before < got < exact
        before = got
    # an interval much longer than the data, and the bound is tight: the smoother the function, the
    # sooner
    many = model_evidence(
        Model(kernel, Fourier(-8.0, 14.0, 200), Gaussian(0.09)), Problem(LINE, 0.0)
    ).log_evidence
    assert many < exact < many + {1: 3.0, 2: 4e-3, 3: 2e-5}[p]


START = np.linspace(0.5, 5.5, 4)[:, None]
TRAINED = {
    "blurs": (GaussianBlur(START, 0.3), None),
    "wavelets": (Wavelet(START, 0.5, 1.0), None),
    "derivatives": (Derivative(START, [-1, 0, -1, 0]), Matern52(1.0, 0.7)),
    "fourier": (Fourier(-1.0, 7.0, 6), Matern32(1.0, 0.7)),
    "mixture": (StackedFeatures([InducingPoints(START), Wavelet(START[1:3], 0.5, 2.0)]), None),
}


@pytest.mark.parametrize("features, kernel", TRAINED.values(), ids=TRAINED.keys())
@pytest.mark.parametrize("estimator", [SparsePEPRegressor, SparsePEPClassifier])
def test_estimators_train_them(features, kernel, estimator):
    targets = y_line if estimator is SparsePEPRegressor else y_line > 0
    start, model = (
        clone(estimator(kernel=kernel, features=features, training=how)).fit(X_line, targets)
        for how in (None, LBFGS(max_iter=8))
    )
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_ + 1.0
    assert list(model.log_marginal_likelihood_gradient()) == list(model.parameters())


def test_widths_of_zero_stay_zero_in_training():
    table = np.column_stack([X_line, np.sin(X_line)])
    blurs = GaussianBlur(table[::8], [0.4, 0.0])
    model = SparsePEPRegressor(features=blurs, training=LBFGS(max_iter=8, n_restarts=1)).fit(
        table, y_line
    )
    assert model.features_.width[0] not in (0.0, 0.4)
    assert (
        model.features_.width[1]
        == model.log_marginal_likelihood_gradient()["features.log_width"][1]
        == 0.0
    )
    assert np.all(np.isfinite(model.parameters()["features.log_width"]))
