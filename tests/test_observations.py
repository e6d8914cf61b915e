"""Exact numbers, computed elsewhere, of fits to values, slopes, signs of slopes, averages and
differences together.
"""

import warnings
from copy import deepcopy
from dataclasses import replace
from math import factorial

import numpy as np
import pandas as pd
import pytest
from conftest import exact_numbers, user_warning, value_error
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from reference.compare import error, gradient_error, slopes

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    StackedFeatures,
)
from sparse_pep.inference import Problem, Rows
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
from sparse_pep.likelihoods import Gaussian
from sparse_pep.means import LinearMean
from sparse_pep.model import Model, model_evidence, model_gradient
from sparse_pep.observations import (
    Difference,
    Mean,
    Observed,
    Slope,
    SlopeSign,
    Value,
    WeightedSum,
    joined_functionals,
    rings_of,
)


def observation(row, y=None, **noise):
    """The observation that a row of the file describes."""
    X = [row["x"]]
    targets = {} if y is None else {"y": [y], **noise}
    if row["kind"] == "slope_sign":
        return SlopeSign(X, row["dim"], sign=row["sign"], scale=row["nu"])
    if row["kind"] == "difference":
        return Difference(X, [row["x2"]], **targets)
    kind, names = {"value": (Value, ()), "slope": (Slope, ("dim",)), "mean": (Mean, ("width",))}[
        row["kind"]
    ]
    return kind(X, *(row[name] for name in names), **targets)


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("kind, tolerance", [("gaussian", 1e-8), ("mixed", 1e-6)])
def test_exact_numbers_of_observations(kind, tolerance, case):
    exact = exact_numbers("functionals.json")[kind][case]
    rows = []
    for row, y in zip(exact["observations"], exact["y"], strict=True):
        label = kind == "mixed" and row["kind"] == "difference"
        rows.append(
            observation(
                row,
                y,
                **({"likelihood": "probit"} if label else {"noise_variance": exact["noise_var"]}),
            )
        )
    model = SparsePEPRegressor(
        kernel=SquaredExponential(exact["variance"], exact["lengthscales"]),
        features=InducingPoints(exact["Z"]),
        power=exact["alpha"],
        training=None,
        jitter=0.0,
    ).fit(rows)
    found = [model.predict_f(observation(row)) for row in exact["tests"]]
    assert_allclose(model.log_marginal_likelihood_value_, exact["log_z"], rtol=tolerance)
    assert_allclose([mean[0] for mean, _ in found], exact["mean"], rtol=tolerance, atol=tolerance)
    assert_allclose([var[0] for _, var in found], exact["var"], rtol=tolerance)
    gradient = model.log_marginal_likelihood_gradient()
    for name, key in (
        ("kernel.log_variance", "log_variance"),
        ("kernel.log_lengthscale", "log_lengthscales"),
        ("features.Z", "Z"),
    ):
        assert_allclose(
            gradient[name],
            exact.get("grad", {key: gradient[name]})[key],
            rtol=tolerance,
            atol=tolerance,
        )


# What rows of every kind have in an estimator, beside values; with scales s of the inputs and t of
# the targets

X = default_rng(0).uniform(-2.0, 2.0, (12, 2))
F = np.sin(X[:, 0]) + 0.5 * X[:, 1]
OTHER = X[::-1] + 0.1
ALL = np.arange(12)
KINDS = {
    "values": lambda n, s=1.0, t=1.0: Value(
        s * OTHER[n], t * F[::-1][n], noise_variance=0.1 * t**2
    ),
    "slopes": lambda n, s=1.0, t=1.0: Slope(
        s * OTHER[n], 0, t / s * np.cos(OTHER[n, 0]), noise_variance=0.1 * (t / s) ** 2
    ),
    "signs": lambda n, s=1.0, t=1.0: SlopeSign(s * X[n], 1, scale=0.5),
    "averages": lambda n, s=1.0, t=1.0: Mean(
        s * OTHER[n], s * 0.3, t * F[::-1][n], noise_variance=0.1 * t**2
    ),
    "boxes": lambda n, s=1.0, t=1.0: WeightedSum.over_boxes(
        s * OTHER[n],
        s * (OTHER[n] + [2.0, 0.1]),
        t * F[::-1][n],
        noise_variance=0.1 * t**2,
    ),
    "differences": lambda n, s=1.0, t=1.0: Difference(
        s * X[n], s * OTHER[n], t * (F - F[::-1])[n], noise_variance=0.1 * t**2
    ),
    "preferences": lambda n, s=1.0, t=1.0: Difference(
        s * X[n], s * OTHER[n], np.where(F > F[::-1], 1, -1)[n], likelihood="probit"
    ),
}


def fitted(data, weight=None, known=None, cls=SparsePEPRegressor, **options):
    options = {"features": InducingPoints(X[:8]), "training": None, "random_state": 0} | options
    return cls(**({"noise_variance": 0.2} if cls is SparsePEPRegressor else {}) | options).fit(
        data, sample_weight=weight, known_variance=known
    )


def in_units(kind, s, t):
    model = fitted(
        [Value(s * X, t * F), kind(ALL, s, t)], features=None, n_inducing=8, standardize=True
    )
    return model.predict(s * X) / t


EQUAL = {  # two models that are the same, of values v, of rows k, and of both
    "weights": lambda v, k, rows: (
        fitted(rows, np.repeat([1.0, 2.0], 12)),
        fitted([v, k(ALL), k(ALL)]),
    ),
    "blocks": lambda v, k, rows: (
        fitted(rows, blocks=np.tile(ALL, 2)),
        fitted([k(ALL[::-1]), v], blocks=np.r_[ALL[::-1], ALL]),
    ),
    "powers": lambda v, k, rows: (
        fitted(rows, power=np.full(24, 0.3)),
        fitted(rows, power=0.3),
    ),
    "known variances": lambda v, k, rows: (
        fitted(rows, known=np.repeat([0.3, 0.0], 12)),
        fitted(rows, noise_variance=0.5),
    ),
    "tight": lambda v, k, rows: (
        fitted(rows, power=0.0, tight=True),
        fitted([k(ALL), v], power=0.0, tight=True),
    ),
    "units": lambda v, k, rows: (in_units(k, 10.0, 3.0), in_units(k, 1.0, 1.0)),
    "batches": lambda v, k, rows: (
        fitted([Value(X[:6], F[:6]), k(ALL[:6])]).partial_fit([Value(X[6:], F[6:]), k(ALL[6:])]),
        fitted(rows),
    ),
}


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"signs"}))
def test_rows_without_weight_change_nothing(kind):
    far = KINDS[kind](ALL, 9.0, 5.0)
    given = {"features": None, "n_inducing": 5, "standardize": True}
    model = fitted([far, Value(X, F)], np.repeat([0.0, 1.0], 12), **given)
    alone = fitted([Value(X, F)], **given)
    assert_allclose(model.predict_f(OTHER), alone.predict_f(OTHER), rtol=1e-9)
    with value_error("zero in all"):
        fitted([far, Value(X, F)], np.zeros(24), **given)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ability", EQUAL)
def test_what_a_row_has_these_rows_have(ability, kind):
    values = Value(X, F)
    pair = EQUAL[ability](values, KINDS[kind], [values, KINDS[kind](ALL)])
    # sites of earlier rows are not revised
    exact = ability != "batches" or kind not in ("signs", "preferences")
    one, other = (
        np.append(m.predict_f(Slope(X, 0)), m.log_marginal_likelihood_value_)
        if hasattr(m, "fit")
        else m
        for m in pair
    )
    assert error(one, other) < (1e-6 if exact else 0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_estimator_takes_them_beside_its_own_targets(kind):
    row = KINDS[kind](ALL)
    assert np.all(np.isfinite(fitted([row]).predict(X)))
    own = row if row.likelihood else replace(row, likelihood="gaussian", noise_variance=None)
    for cls, y, options in (
        (SparsePEPRegressor, F, {}),
        (SparsePEPRegressor, F, {"monotone": {1: 1}}),
        (SparsePEPClassifier, np.where(F > 0.0, "b", "a"), {}),
        (SparsePEP, np.round(np.exp(F)), {"likelihood": "poisson"}),
        (SparsePEP, F, {"likelihood": "student_t"}),
    ):
        model = fitted([Value(X, y), own], cls=cls, **options)
        assert (
            np.isfinite(model.score(X, y))
            and np.all(np.isfinite(found := model.leave_one_out()))
            and len(found) == 12 + 12 * (kind != "signs")
        )
        if cls is not SparsePEPClassifier:
            low, high = model.predict_interval(X, 0.9)
            draws = model.sample_y(X, 200)
            assert 0.8 < np.mean((low[:, None] <= draws) & (draws <= high[:, None]))
            assert model.sample_f(X, 3).shape == (12, 3)


VALUES = Value(X, F)
SLOPES = KINDS["slopes"](ALL)


@pytest.mark.parametrize(
    "make, words",
    [
        *(
            (
                lambda kernel=kernel: fitted([SLOPES], kernel=kernel),
                f"Slope .* {type(kernel).__name__}",
            )
            for kernel in (Matern12(), Periodic(), White())
        ),
        (
            lambda: fitted([Value(X[:, :1], F)], kernel=Matern32(), features=Fourier(-3.0, 3.0, 4)),
            "Fourier .* slopes",
        ),
        (lambda: fitted([VALUES, SLOPES], local="auto"), "`local`"),
        (lambda: fitted([ArraySource(X, F), SLOPES]), "list of observations"),
        (
            lambda: fitted([VALUES, SLOPES]).partial_fit(ArraySource(X, F)),
            "`partial_fit` .* source",
        ),
        (
            lambda: fitted([VALUES, SLOPES]).partial_fit([VALUES, KINDS["signs"](ALL)]),
            "kinds that `fit` had",
        ),
        (lambda: fitted(ArraySource(X, F), monotone={0: 1}), "`monotone` needs data in memory"),
        (lambda: fitted([VALUES, SLOPES], monotone={0: 1}, blocks=4), "`monotone` .* no `blocks`"),
        (lambda: fitted([VALUES, SLOPES]).sample_f(Slope(X, 0)), "`predict_f` takes"),
        (
            lambda: SparsePEPClassifier().fit([Value(X, np.digitize(F, [-0.5, 0.5])), SLOPES]),
            "Softmax",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(make, words):
    with pytest.raises((ValueError, NotImplementedError), match=words) as refusal:
        make()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("frequency", [1.0, 1.5, 2.0])
def test_slopes_at_the_places_of_values_are_used_in_full(frequency):
    x = np.linspace(0.0, 6.0, 7)[:, None]
    t = np.linspace(0.0, 6.0, 61)[:, None]
    values = Value(x, np.sin(frequency * x[:, 0]))
    slopes = Slope(x, 0, frequency * np.cos(frequency * x[:, 0]))
    model = SparsePEPRegressor(random_state=0).fit([values, slopes])
    assert len(model.features_) == 14
    assert np.max(np.abs(model.predict(t) - np.sin(frequency * t[:, 0]))) < 1e-3


def test_values_that_are_repeated_at_one_place_are_one_place():
    x = np.repeat(np.linspace(0.0, 6.0, 5), 2)[:, None]
    observed = [
        Value(x, np.sin(x[:, 0]) + np.tile([0.1, -0.1], 5)),
        Slope(x[::2], 0, np.cos(x[::2, 0])),
    ]
    model = SparsePEPRegressor(random_state=0).fit(observed)
    assert len(np.unique(model.features_.Z)) == 10


def test_a_linear_mean_function_is_observed_through_every_functional():
    """What is left of the targets after the functionals of the mean has the same evidence."""
    X = default_rng(3).uniform(-2.0, 2.0, (12, 2))
    rows = np.column_stack([X, 0.3 + 0.1 * X[:, ::-1], np.arange(12) % 4, np.zeros(12)])
    y = np.sin(X.sum(axis=1))
    kernel = Observed(SquaredExponential(1.3, 0.8), 2)
    Z = InducingPoints(X[:5])
    plane = LinearMean(0.7, [0.5, -2.0])
    steps = rows[:, 2:4] @ [0.5, -2.0]
    values = plane(X)
    prior = np.choose(np.arange(12) % 4, [values, values, steps, steps])
    problem = Problem(Rows(rows, y), 0.5)
    model = Model(kernel, Z, Gaussian(0.1), plane)
    fit, gradient = model_gradient(model, problem)
    less = Problem(Rows(rows, y - prior), 0.5)
    expected = model_evidence(Model(kernel, Z, Gaussian(0.1)), less).log_evidence
    assert abs(fit.log_evidence - expected) < 1e-10

    def value(moved):
        return model_evidence(model.with_parameters(moved), problem).log_evidence

    assert gradient_error(*slopes(value, model.parameters(), gradient)) < 1e-6


def f_of(x):
    return 5.0 + np.sin(2.0 * x[..., 0])


RANDOM = default_rng(3)
PLACES = RANDOM.uniform(-2.0, 2.0, (60, 1))
STRIPS = np.sort(RANDOM.uniform(-2.0, 2.0, (40, 2)), axis=1)
LENGTH = STRIPS[:, 1:] - STRIPS[:, :1]
INSIDE = (STRIPS[:, :1] + LENGTH * (np.arange(20) + 0.5) / 20)[..., None]
TOTALS = (LENGTH / 20 * f_of(INSIDE)).sum(axis=1) + 0.01 * RANDOM.normal(size=40)
OPEN = {"n_inducing": 15, "random_state": 0, "training": "lbfgs"}


def test_a_weighted_sum_of_a_fitted_function_has_the_covariance_of_its_values():
    y = f_of(PLACES) + 0.05 * RANDOM.normal(size=60)
    model = SparsePEPRegressor(**OPEN).fit(PLACES, y)
    grid = np.linspace(-2.0, 2.0, 31)[:, None]
    weights = RANDOM.normal(size=(2, 31))
    mean, cov = model.predict(grid, return_cov=True)
    cov = cov - model.noise_std_**2 * np.eye(31)
    found, var = model.predict_f(WeightedSum(np.stack([grid, grid]), weights))
    assert_allclose(found, weights @ mean)
    assert_allclose(var, np.sum((weights @ cov) * weights, axis=1), rtol=1e-6)
    ends = WeightedSum([[[1.0], [0.2]]], [1.0, -1.0])
    assert_allclose(model.predict_f(ends), model.predict_f(Difference([[1.0]], [[0.2]])))


@pytest.mark.parametrize("others", ["none", "values", "shorter sums", "slopes"])
def test_totals_tell_the_function(others, tmp_path):
    observations = [WeightedSum(INSIDE, LENGTH / 20 * np.ones(20), TOTALS)]
    if others == "values":
        observations.insert(0, Value(PLACES[:5], f_of(PLACES[:5])))
    if others == "shorter sums":
        ends = WeightedSum(
            INSIDE[:, [0, -1]], [-1.0, 1.0], f_of(INSIDE[:, -1]) - f_of(INSIDE[:, 0])
        )
        observations.append(ends)
    if others == "slopes":
        observations.append(SlopeSign([[0.0]], 0))
    model = SparsePEPRegressor(**OPEN).fit(observations)
    test = np.linspace(-1.5, 1.5, 9)[:, None]
    assert_allclose(model.predict(test), f_of(test), atol=0.15)
    assert np.isfinite(model.leave_one_out()).all()
    left_out, _ = model.leave_one_out_f()
    rows = slice(5, 45) if others == "values" else slice(0, 40)
    assert_allclose(left_out[rows], TOTALS, atol=0.3)
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    question = WeightedSum(INSIDE, LENGTH / 20 * np.ones(20))
    assert_allclose(again.predict_f(question), model.predict_f(question), rtol=1e-12)
    assert_allclose(model.predict_f(question)[0], TOTALS, atol=0.1)


def test_averages_of_counts_have_exposures():
    log_rate = np.mean(f_of(INSIDE) - 4.0, axis=1)
    exposure = np.exp(RANDOM.normal(3.0, 1.0, 40))
    counts = RANDOM.poisson(exposure * np.exp(log_rate))
    averages = WeightedSum(INSIDE, np.full(20, 0.05), counts)
    model = SparsePEP(likelihood="poisson", **OPEN).fit([averages], exposure=exposure)
    mean, var = model.predict_f(WeightedSum(INSIDE, np.full(20, 0.05)))
    assert np.mean(np.abs(mean - log_rate) < 2.0 * np.sqrt(var)) > 0.8


@pytest.mark.parametrize(
    "points, weights, words",
    [
        (np.zeros((3, 2)), [1.0, 1.0], "`points` of WeightedSum must be finite numbers of shape"),
        (np.zeros((3, 0, 2)), [], "`points`"),
        (np.full((3, 2, 1), np.nan), [1.0, 1.0], "`points`"),
        (np.zeros((3, 2, 1)), [1.0], "`weights` of WeightedSum must have shape"),
        (np.zeros((3, 2, 1)), [1.0, np.inf], "`weights` of WeightedSum must be finite"),
        (np.zeros((3, 2, 1)), [0.0, 0.0], "in each sum some of them not 0"),
        (np.zeros((3, 2, 1)), "heavy", "`weights`"),
    ],
)
def test_sums_that_are_none_are_refused(points, weights, words):
    with value_error(words):
        WeightedSum(points, weights)


def test_slopes_are_asked_for_by_the_name_of_a_column():
    rng = default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(30, 2)), columns=["dose", "age"])
    y = np.sin(3.0 * table["dose"]) + table["age"]
    model = SparsePEPRegressor(n_inducing=6, training=None).fit(table, y)
    by_name = model.predict_f(Slope(table, "age"))
    assert_array_equal(by_name, model.predict_f(Slope(table.to_numpy(), 1)))
    assert_array_equal(model.predict_gradient(table)[0][:, 1], by_name[0])
    swapped = table[["age", "dose"]]
    with value_error("the model was fitted to .'dose', 'age'.: give these"):
        model.predict_gradient(swapped)
    with value_error("or one of the names .'dose', 'age'.; got 'height'"):
        Slope(table, "height")
    with value_error("same columns, in the same order"):
        model.fit([Value(table, y), Slope(swapped, "age", y)])
    model.fit([Value(table, y), Slope(table, "age", y)])
    assert model.feature_names_in_.tolist() == ["dose", "age"]


HEXAGON = np.array([[np.cos(t), np.sin(t)] for t in np.arange(6) * np.pi / 3])
STAR = np.array([[0.0, 0.0], [2.0, 0.2], [1.0, 0.7], [1.8, 2.0], [0.3, 1.1]])
GEOJSON = {"type": "MultiPolygon", "coordinates": [[STAR.tolist()], [(STAR + 3.0).tolist()]]}
AREAS = {
    "ring": (HEXAGON, 1.5 * np.sqrt(3.0)),
    "closed ring": (np.vstack([HEXAGON, HEXAGON[:1]]).tolist(), 1.5 * np.sqrt(3.0)),
    "hole": ([2.0 * HEXAGON, HEXAGON], 4.5 * np.sqrt(3.0)),
    "parts": (GEOJSON, 2 * 1.66),
    "feature": ({"type": "Feature", "geometry": GEOJSON}, 2 * 1.66),
}


def draws_inside(area, n=60_000):
    """Uniform draws from the inside of an area, by the rule of odd crossings."""
    rings = [np.asarray(ring) for ring in rings_of(area)]
    corners = np.vstack(rings)
    x = default_rng(0).uniform(corners.min(axis=0), corners.max(axis=0), (n, 2))
    inside = np.zeros(n, dtype=bool)
    for ring in rings:
        for a, b in zip(ring, np.roll(ring, -1, axis=0), strict=True):
            if a[1] != b[1]:
                right = a[0] + (x[:, 1] - a[1]) / (b[1] - a[1]) * (b[0] - a[0]) > x[:, 0]
                inside ^= right & ((a[1] > x[:, 1]) != (b[1] > x[:, 1]))
    return x[inside], np.ptp(corners, axis=0).prod() * inside.mean()


@pytest.mark.parametrize("name", AREAS)
def test_an_average_over_a_polygon_is_that_of_draws_inside(name):
    polygon, area = AREAS[name]
    total = WeightedSum.over_polygons([polygon], total=True)
    drawn, size = draws_inside(polygon)
    assert_allclose(size, area, rtol=0.02)
    assert_allclose(total.share, area, rtol=1e-12)
    mean = WeightedSum.over_polygons([polygon])
    assert np.all(mean.weights >= 0.0) and mean.points.shape[1] <= 45
    for values in (lambda x: x[..., 0] ** 2 * x[..., 1], lambda x: np.sin(x @ [1.0, 2.0])):
        spread = np.std(values(drawn))
        found = np.sum(mean.weights * values(mean.points))
        assert abs(found - np.mean(values(drawn))) < 0.02 * spread


def test_rules_are_exact_for_their_polynomials():
    """The moments of a triangle, x ≥ 0, y ≥ 0, x + y ≤ 1, are i! j!/(i + j + 2)!."""
    triangle = WeightedSum.over_polygons([[[0, 0], [1, 0], [0, 1]]], total=True)
    box = WeightedSum.over_boxes([[-1.0, 2.0]], [[1.0, 2.0]])
    for i in range(9):
        for j in range(9 - i):
            x, y = np.moveaxis(triangle.points, 2, 0)
            exact = factorial(i) * factorial(j) / factorial(i + j + 2)
            assert_allclose(np.sum(triangle.weights * x**i * y**j), exact, rtol=1e-9)
        even = np.sum(box.weights * box.points[..., 0] ** (2 * i))
        assert_allclose(even, 1.0 / (2 * i + 1), rtol=1e-12)
    assert np.all(box.points[..., 1] == 2.0)


BOXES = WeightedSum.over_boxes(
    [[0.0, 1.0], [0.5, -2.0], [1.0, 0.0], [0.0, 0.0]],
    [[2.0, 1.0], [0.51, 1.5], [3.5, 0.2], [1e-6, 0.02]],
    n_nodes=16,
)
BOXES = replace(BOXES, weights=BOXES.weights * [[2.0], [0.5], [1.0], [3.0]])
OTHERS = [
    Mean([[0.5, 0.5], [2.0, 1.0]], [0.5, 0.0]),
    Difference([[0.5, 0.5]], [[2.0, 1.0]]),
    Slope([[0.5, 0.5], [2.0, 1.0]], 1),
]


@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(1.3, [0.9, 1.7]),
        SquaredExponential(1.3, 0.7, active_dims=[1]) + Linear(0.5) + Constant(2.0),
    ],
)
def test_boxes_in_closed_form_are_sums_over_enough_nodes(kernel):
    observed = Observed(kernel, 2)
    Z = [[0.3, 1.0], [2.0, -1.0], [0.0, 0.0]]
    features = StackedFeatures([GaussianBlur(Z, [0.3, 0.6]), Derivative(Z, [0, 1, -1])])
    found = []
    for boxes in (BOXES, replace(BOXES, sides=None)):
        rows = np.vstack(joined_functionals([boxes.rows(), *(o.rows() for o in OTHERS)], 2))
        Kuf, pull = features.Kuf_vjp(observed, rows)
        by_kernel, by_features = pull(np.sin(Kuf))
        variances, pull_variances = observed.diag_vjp(rows)
        K, pull_K = observed.vjp(rows[:3], rows)
        gradients = [by_kernel, by_features, pull_variances(np.cos(variances)), pull_K(K)[0]]
        parts = [Kuf, variances, K, *(one for each in gradients for one in each.values())]
        found.append(np.concatenate([np.ravel(part) for part in parts]))
    assert_allclose(*found, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("n_nodes", [0, 1, -3, 2.5, np.nan, np.inf, "20", True])
def test_numbers_of_nodes_that_are_none_are_refused(n_nodes):
    with value_error("`n_nodes` must be"):
        WeightedSum.over_boxes([[0.0]], [[1.0]], n_nodes=n_nodes)


def test_too_few_nodes_for_a_wide_box_are_warned_of():
    X = np.linspace(0.0, 365.0, 60)[:, None]
    year = [[0.0]], [[365.0]]
    box = WeightedSum.over_boxes(*year)
    settings = {"n_inducing": 20, "training": None, "random_state": 0}
    model = SparsePEPRegressor(kernel=Matern52(1.0, 5.0), **settings)
    smooth = SparsePEPRegressor(kernel=SquaredExponential(1.0, 5.0), **settings)
    words = "20 nodes along column 0 are too few .* Pass at least `n_nodes=80`"
    rows = [Value(X, np.sin(X[:, 0])), replace(box, y=[0.0])]
    with user_warning(words):
        model.fit(rows)
    with user_warning(words):
        deepcopy(model).partial_fit(rows[1:])
    with user_warning(words):
        model.predict_f(box)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_f(WeightedSum.over_boxes(*year, n_nodes=160))
        model.predict_f(WeightedSum(box.points, box.weights))
        smooth.fit(rows).predict_f(box)


def test_polygons_have_enough_nodes_or_a_warning():
    X = default_rng(0).uniform(0.0, 12.0, (60, 2))
    settings = {"n_inducing": 10, "training": None, "standardize": False}
    model = SparsePEPRegressor(kernel=SquaredExponential(1.0, 1.0), **settings)
    model.fit(X, np.sin(X[:, 0]))
    wide = [[[0, 0], [12, 0], [12, 12], [0, 11]], [[0, 0], [1, 0], [1, 1]]]
    with user_warning("5 nodes .* widest area.* at least `n_nodes=10`"):
        coarse = model.predict_f(WeightedSum.over_polygons(wide))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_f(WeightedSum.over_polygons(wide[1:]))
        fine = model.predict_f(WeightedSum.over_polygons(wide, n_nodes=10))
        box = [[0.0, 0.0], [9.0, 0.0], [9.0, 8.0], [0.0, 8.0]]
        sums = WeightedSum.over_polygons([box], n_nodes=14)
        closed = WeightedSum.over_boxes([[0.0, 0.0]], [[9.0, 8.0]])
        assert_allclose(model.predict_f(sums), model.predict_f(closed), rtol=1e-4)
    assert abs(coarse[1][0] - fine[1][0]) > 0.1 * fine[1][0]


def test_missing_targets_are_counted_by_sums_not_by_points():
    sums = WeightedSum.over_boxes([[0.0], [1.0]], [[1.0], [2.0]], [np.nan, np.nan])
    with value_error("nan in row 0, 2 such values"):
        SparsePEPRegressor().fit([sums])


def test_a_fit_starts_well_where_only_totals_are_known():
    unit = 100.0
    low = np.stack(np.meshgrid(*[np.arange(6.0)] * 2), axis=-1).reshape(-1, 2)
    truth = lambda x: 50.0 + 5.0 * np.sin(x[..., 0] / unit) * np.cos(x[..., 1] / unit)
    sums = WeightedSum.over_boxes(unit * low, unit * (low + 1.0), total=True)
    totals = np.sum(sums.weights * truth(sums.points), axis=1)
    totals = totals + 0.1 * unit**2 * default_rng(0).normal(size=36)
    observed = replace(sums, y=totals)
    model = SparsePEPRegressor(n_inducing=20, random_state=0, training="lbfgs").fit([observed])
    mean, var = model.predict_f(unit * (low + 0.3))
    error = mean - truth(unit * (low + 0.3))
    assert np.sqrt(np.mean(error**2)) < 0.5
    assert 0.8 < np.mean(np.abs(error) < 2.0 * np.sqrt(var))
    assert_allclose(model.predict_f(sums)[0], totals, rtol=0.02)


@pytest.mark.parametrize(
    "polygons, words",
    [
        ([[[0, 0], [1, 1], [1, 0], [0, 1]]], "must not cross themselves"),
        ([[HEXAGON, HEXAGON + 0.5]], "must not cross themselves"),
        ([[[0, 0], [1, 1]]], "at least three corners"),
        ([[[0, 0], [1, np.nan], [1, 0]]], "finite numbers"),
        ([[[0, 0], [1, 1], [2, 2]]], "must have an area"),
        ([[[0, 0], [1, 0], [2, 0]]], "must have an area"),
        ([], "`polygons` must hold"),
        ([[]], "`polygons` must hold"),
        ([{"type": "Point", "coordinates": [0, 0]}], "`polygons` must hold"),
        ([{"type": "Polygon"}], "`polygons` must hold"),
        ("map", "`polygons` must hold"),
        (5, "`polygons` must hold"),
    ],
)
def test_polygons_that_are_none_are_refused(polygons, words):
    with value_error(words):
        WeightedSum.over_polygons(polygons)


@pytest.mark.parametrize(
    "low, high, words",
    [
        ([[0.0]], [[1.0, 2.0]], "`low` and `high` must be finite corners"),
        ([[0.0]], [[np.inf]], "must be finite corners"),
        (np.ones((0, 2)), np.ones((0, 2)), "must be finite corners"),
        ([[1.0]], [[0.0]], "with low <= high"),
        ([[0.0]], [[np.nan]], "with low <= high"),
        (np.zeros((1, 9)), np.ones((1, 9)), "at most 8 sides"),
    ],
)
def test_boxes_that_are_none_are_refused(low, high, words):
    with value_error(words):
        WeightedSum.over_boxes(low, high)
