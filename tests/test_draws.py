"""Draws as functions: they have the law of the model's predictions, and gradients; what has no
such form is refused.
"""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    StackedFeatures,
    Wavelet,
)
from sparse_pep.kernels import (
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    SquaredExponential,
    White,
)
from sparse_pep.means import LinearMean
from sparse_pep.model import model_covariance

rng = np.random.default_rng(3)
X = rng.uniform(0.0, 10.0, (40, 2))
y = 50.0 + 10.0 * np.sin(X[:, 0] / 2.0) + X[:, 1] + rng.normal(size=40)
TEST = np.vstack([X[:5] + 0.2, [[20.0, 5.0]]])
Z = X[:12]
LEVEL = y - 50.0
SEVERAL = StackedFeatures(
    [
        InducingPoints(Z[:6]),
        GaussianBlur(Z[6:], [0.5, 0.8]),
        Wavelet(Z + 0.2, 0.4, 1.5, 0.3, zero_mean=True),
        Derivative(Z[:9] + 0.3, np.arange(9) % 3 - 1),
    ]
)
MANY = (
    Linear(0.1)
    + Constant() * Matern32(10.0, [2.0, 3.0])
    + Periodic(5.0, 1.0, 3.0) * Matern52(1.0, 3.0, active_dims=(1,))
    + Constant(9.0)
)


SMOOTH = SquaredExponential(20.0, 2.0)


def fixed(kernel=SMOOTH, target=LEVEL, kind=SparsePEPRegressor, **given):
    """An estimator that is not trained."""
    given = {"features": InducingPoints(Z)} | given
    return kind(kernel=kernel, training=None, random_state=0, **given).fit(X, target)


MODELS = {
    "scaled inputs and outputs": lambda: fixed(
        SquaredExponential(1.0, 0.7),
        np.column_stack([y, -3.0 * y]),
        features=None,
        n_inducing=12,
        standardize=True,
        mean="linear",
    ),
    "a composed kernel": lambda: fixed(MANY, mean=LinearMean(1.0, [0.1, 0.2])),
    "three classes": lambda: fixed(
        SquaredExponential(4.0, 3.0), np.digitize(y, [45.0, 55.0]), SparsePEPClassifier
    ),
    "features of all kinds": lambda: fixed(
        SquaredExponential(20.0, 2.0) + Linear(0.1) + Constant(), features=SEVERAL
    ),
    "little left unexplained": lambda: fixed(
        Matern52(20.0, 10.0), features=InducingPoints(X), noise_variance=1e-4
    ),
    "a large jitter": lambda: fixed(jitter=0.3, noise_variance=0.01),
}


@cache
def fitted(name):
    return MODELS[name]()


each_model = pytest.mark.parametrize("name", MODELS)


def law_of(model):
    """Mean (C, S) and covariance (C, S, S) of each latent function at the test inputs."""
    mean, _ = model.predict_f(TEST)
    state = model._state
    inputs = state.encoder.inputs(TEST)
    _, cov = model_covariance(state.model, state.posterior.functions, inputs)
    if np.ndim(model.y_scale_):
        cov = np.square(model.y_scale_).reshape(-1, 1, 1) * cov
    means = mean.T.reshape(-1, len(TEST))
    return means, np.broadcast_to(cov, (len(means), len(TEST), len(TEST)))


@each_model
def test_draws_have_the_law_of_the_predictions(name):
    n = 1000
    values = fitted(name).sample_functions(n, random_state=1, n_features=1000)(TEST)
    draws = np.moveaxis(values, 0, -2).reshape(-1, len(TEST), n)
    for draw, mean, cov in zip(draws, *law_of(fitted(name)), strict=True):
        sd = np.sqrt(np.diag(cov))
        assert np.all(np.abs(draw.mean(axis=1) - mean) < 5.0 * sd / np.sqrt(n))
        assert np.abs((np.cov(draw) - cov) / np.outer(sd, sd)).max() < 0.2


@each_model
def test_draws_have_the_gradient_of_their_values(name):
    draws = fitted(name).sample_functions(3, n_features=20)
    step = 1e-5
    slopes = [(draws(TEST + h) - draws(TEST - h)) / (2.0 * step) for h in step * np.eye(2)]
    gradient = draws.gradient(TEST)
    assert_allclose(gradient, np.stack(slopes, axis=-1), atol=1e-6 * np.abs(gradient).max())


def test_a_draw_is_the_same_in_pieces():
    draw = fixed().sample_functions(2, n_features=3000)
    many = rng.uniform(0.0, 10.0, (400, 2))  # more than one piece
    assert_allclose(draw(many)[::50], draw(many[::50]), atol=1e-10)
    assert_allclose(draw.gradient(many)[::50], draw.gradient(many[::50]), atol=1e-10)


REFUSED = {
    "white noise": (
        lambda: fixed(SquaredExponential() + White(0.1)).sample_functions(),
        NotImplementedError,
        "White",
    ),
    "a product with a linear kernel": (
        lambda: fixed(SquaredExponential() * Linear()).sample_functions(),
        NotImplementedError,
        "Linear",
    ),
    "Fourier features": (
        lambda: (
            SparsePEPRegressor(kernel=Matern32(), features=Fourier(0.0, 10.0, 4), training=None)
            .fit(X[:, :1], y)
            .sample_functions()
        ),
        NotImplementedError,
        "Fourier",
    ),
    "sums over points": (
        lambda: fixed(Matern32(), features=GaussianBlur(X[:4], 0.3)).sample_functions(),
        NotImplementedError,
        "GaussianBlur",
    ),
    "local prediction": (lambda: fixed(local=20).sample_functions(), ValueError, "`local`"),
    "a rough kernel": (
        lambda: fixed(Matern12() + SquaredExponential()).sample_functions().gradient(TEST),
        ValueError,
        "Matern12",
    ),
    "another number of columns": (
        lambda: fixed().sample_functions()(TEST[:, :1]),
        ValueError,
        "`X`",
    ),
    "no rows": (lambda: fixed().sample_functions()(TEST[:0]), ValueError, "`X`"),
    "infinite inputs": (
        lambda: fixed().sample_functions().gradient(TEST * np.inf),
        ValueError,
        "X contains",
    ),
    "no waves": (lambda: fixed().sample_functions(1, n_features=0), ValueError, "`n_features`"),
    "a seed of text": (
        lambda: fixed().sample_functions(random_state="a"),
        ValueError,
        "`random_state`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_line_says_what_has_no_draws(name):
    call, error, word = REFUSED[name]
    with pytest.raises(error, match=word) as found:
        call()
    assert "\n" not in str(found.value)
