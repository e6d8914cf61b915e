"""Pictures: what is drawn, where, and what is refused."""

import types

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from conftest import value_error
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from sparse_pep.plots import (
    BAND,
    CLASS_COLORS,
    binary_cases,
    grid_around,
    plot_calibration,
    plot_classification_2d,
    plot_energy_trace,
    plot_parts,
    plot_posterior_1d,
    plot_posterior_2d,
    plot_reliability,
    plot_residuals,
    posterior_curves,
    wilson_interval,
)

X = np.linspace(-1.0, 3.0, 9)
Y = X**2


class Line:
    """Predicts 2x with a standard deviation of 0.5, of which the noise has 0.3."""

    def predict(self, X, return_std=False):
        assert X.ndim == 2
        assert X.shape[1] == 1
        assert return_std
        return 2.0 * X[:, 0], np.full(len(X), 0.5)


class NoisyLine(Line):
    noise_variance_ = 0.09


class FullLine(NoisyLine):
    features_ = types.SimpleNamespace(Z=np.array([[0.0], [1.0], [50.0]]))

    def predict_f(self, X):
        return 2.0 * X[:, 0], np.full(len(X), 0.01)


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def assert_drawn_on(given, ax):
    """Not on a figure of its own."""
    assert ax is given
    assert len(plt.get_fignums()) == 1


def bands(ax):
    """Half widths of the filled bands, at the left edge."""
    edges = [band.get_paths()[0].vertices for band in ax.collections]
    return [np.ptp(v[v[:, 0] == v[:, 0].min(), 1]) / 2 for v in edges]


@pytest.mark.parametrize(
    "model, std_f, words",
    [
        (Line(), None, ["95 % of y", "data", "mean"]),
        (NoisyLine(), 0.4, ["95 % of y", "95 % of f", "data", "mean"]),
        (
            FullLine(),
            0.1,
            ["95 % of y", "95 % of f", "data", "mean", "inducing points (1 more beyond)"],
        ),
    ],
)
def test_what_a_model_tells_is_what_is_drawn(model, std_f, words):
    mean, std, of_f = posterior_curves(model, X)
    assert_array_equal(mean, 2.0 * X)
    assert_array_equal(std, 0.5)
    assert of_f is None if std_f is None else np.allclose(of_f, std_f)
    ax = plot_posterior_1d(model, X[:, None], Y)
    assert labels(ax) == words
    assert_allclose(bands(ax), BAND * np.array([0.5] + ([] if std_f is None else [std_f])))


def test_a_latent_function_that_is_not_the_mean_of_y_is_not_drawn():
    class Counts(Line):
        def predict_f(self, X):  # its logarithm
            return np.log1p(np.abs(X[:, 0])), np.full(len(X), 0.01)

    assert posterior_curves(Counts(), X)[2] is None
    assert labels(plot_posterior_1d(Counts(), X, Y)) == ["95 % of y", "data", "mean"]


def test_lines_data_and_marks_lie_where_they_should():
    fig, given = plt.subplots()
    ax = plot_posterior_1d(
        FullLine(), X, Y, ax=given, Z_start=[0.5, 0.6, 0.7], n_grid=11, margin=0.25
    )
    assert_drawn_on(given, ax)
    lines = {line.get_label(): line for line in ax.lines}
    assert_array_equal(lines["data"].get_xydata(), np.c_[X, Y])
    assert_allclose(
        lines["mean"].get_xydata(), np.c_[np.linspace(-2, 4, 11), 2 * np.linspace(-2, 4, 11)]
    )
    assert ax.get_xlim() == (-2.0, 4.0)
    before = lines["inducing points before"]
    after = lines["inducing points after (1 more beyond)"]
    assert_array_equal(before.get_xdata(), [0.5, 0.6, 0.7])
    assert_array_equal(after.get_xdata(), [0.0, 1.0])
    assert np.all(np.array(before.get_ydata()) > 0.9)
    assert np.all(np.array(after.get_ydata()) < 0.1)
    fig.canvas.draw()
    heights = ax.transAxes.inverted().transform(
        after.get_transform().transform(after.get_xydata())
    )[:, 1]
    assert np.all(heights < 0.1)  # a height in the axes, not in the units of y


def test_the_trace_marks_the_best_and_leaves_out_failed_steps():
    ax = plot_energy_trace([-5.0, np.inf, -1.0, np.nan, -2.0], label="a")
    line, best = ax.lines
    assert_array_equal(line.get_ydata(), [-5.0, np.nan, -1.0, np.nan, -2.0])
    assert best.get_xydata().tolist() == [[2.0, -1.0]]
    again = plot_energy_trace([-3.0, -2.5], ax=ax, label="b")
    assert again is ax
    assert labels(ax) == ["a", "b"]
    assert len(plt.get_fignums()) == 1
    for wrong in ([], [np.nan, np.nan], [[1.0, 2.0]]):
        with value_error("values"):
            plot_energy_trace(wrong)
    assert ax.lines[2].get_color() == ax.lines[3].get_color() != line.get_color()


class Plane(Line):
    """Predicts 2 x1 - x2; less and less sure along x1."""

    noise_variance_ = 0.01

    def __init__(self, **more):
        vars(self).update(more)

    def predict(self, X, return_std=False):
        assert X.ndim == 2
        assert X.shape[1] == 2
        assert return_std
        return 2.0 * X[:, 0] - X[:, 1], np.sqrt(0.01 + np.exp(X[:, 0]))


rng = np.random.default_rng(0)
PLACES = rng.uniform(-1.0, 1.0, (30, 2))
HEIGHTS = rng.normal(size=30)


@pytest.fixture
def maps():
    """The maps of a surface: mean and standard deviation."""
    Z = types.SimpleNamespace(Z=np.array([[0.0, 0.5], [9.0, 0.0]]))
    _, axes = plt.subplots(1, 2)
    model = Plane(features_=Z)
    drawn = plot_posterior_2d(model, PLACES, HEIGHTS, axes=axes, n_grid=40, margin=0.0)
    assert list(drawn) == list(axes)
    return axes


def test_a_surface_has_a_map_of_the_mean_and_one_of_the_standard_deviation(maps):
    assert len(plt.get_fignums()) == 1
    bars = [bar.get_ylabel() for bar in maps[0].figure.axes[2:]]
    assert bars == ["mean (units of y)", "standard deviation of f (units of y)"]


def test_both_maps_reach_to_the_ends_of_the_data(maps):
    a, b = grid_around(PLACES, 40, 0.0)
    for ax in maps:
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x1", "x2")
        assert ax.get_xlim() == (a[0], a[-1])
        assert ax.get_ylim() == (b[0], b[-1])


def test_both_maps_mark_the_inducing_points(maps):
    for ax in maps:
        assert_array_equal(ax.lines[-1].get_xydata(), [[0.0, 0.5]])
        assert labels(ax)[-1] == "inducing points (1 more beyond)"


def test_colours_reach_from_the_least_to_the_largest_value(maps):
    a, b = grid_around(PLACES, 40, 0.0)
    mean, std = (ax.collections[0] for ax in maps)
    assert mean.zmin == pytest.approx(2 * a[0] - b[-1])
    assert mean.zmax == pytest.approx(2 * a[-1] - b[0])
    assert std.zmin == pytest.approx(np.exp(a[0] / 2))
    assert std.zmax == pytest.approx(np.exp(a[-1] / 2))


def test_each_band_of_colour_begins_where_the_mean_is_its_level(maps):
    mean = maps[0].collections[0]
    for level, paths in zip(mean.levels[1:-1], mean.get_paths()[1:], strict=True):
        edge = paths.vertices
        assert np.min(2 * edge[:, 0] - edge[:, 1]) == pytest.approx(level, abs=1e-9)


def test_data_on_a_surface_have_the_colours_of_their_values(maps):
    mean, data = maps[0].collections[:2]
    assert_array_equal(data.get_offsets(), PLACES)
    assert_array_equal(data.get_array(), HEIGHTS)
    assert data.norm is mean.norm
    assert data.cmap is mean.cmap
    assert_array_equal(maps[1].lines[0].get_xydata(), PLACES)


class Tilted:
    """Two classes; the second has probability 1 / (1 + exp(-4 (x1 + 2 x2)))."""

    def __init__(self, classes=(-1, 1), Z=None):
        self.classes_ = np.array(classes)
        if Z is not None:
            self.features_ = types.SimpleNamespace(Z=np.array(Z))

    def predict_proba(self, X):
        assert X.ndim == 2
        assert X.shape[1] == 2
        p = 1.0 / (1.0 + np.exp(-4.0 * (X[:, 0] + 2.0 * X[:, 1])))
        return np.stack([1.0 - p, p], axis=1)


class Thirds:
    """Class c of three is sure where 4 times x1 is next to its number; x2 matters nothing."""

    classes_ = np.array(["a", "b", "c"])

    def predict_proba(self, X):
        p = np.exp(-8.0 * (4.0 * X[:, :1] - np.arange(3)) ** 2)
        return p / p.sum(axis=1, keepdims=True)


PLANE = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [0.0, 0.9]])


def line_between(ax):
    """Vertices of the lines between classes, which have no fill."""
    lines = [part for part in ax.collections if len(part.get_facecolor()) == 0]
    return [np.concatenate([path.vertices for path in line.get_paths()]) for line in lines]


@pytest.mark.parametrize("classes", [(-1, 1), ("no", "yes"), (0.5, 1.5), (False, True)])
def test_the_line_is_where_two_classes_tie_whatever_the_labels(classes):
    y = np.array(classes)[[0, 0, 1, 1, 1]]
    ax = plot_classification_2d(Tilted(classes), PLANE, y, n_grid=60)
    assert labels(ax) == [str(label) for label in classes]
    (line,) = line_between(ax)
    assert_allclose(line[:, 0], -2.0 * line[:, 1], atol=0.02)
    assert np.ptp(line[:, 0]) == pytest.approx(2.32)  # from edge to edge
    drawn = [part.get_xydata() for part in ax.lines]
    assert_array_equal(drawn[0], PLANE[:2])
    assert_array_equal(drawn[1], PLANE[2:])
    assert ax.lines[0].get_color() != ax.lines[1].get_color()
    assert ax.lines[0].get_marker() != ax.lines[1].get_marker()


def pixel(ax, x, y):
    """Red, green and blue, 0 to 255, of the picture at a place."""
    ax.figure.canvas.draw()
    column, row = ax.transData.transform((x, y))
    picture = np.asarray(ax.figure.canvas.buffer_rgba())
    return picture[int(len(picture) - 1 - row), int(column), :3].astype(float)


def test_the_colour_is_that_of_the_probable_class_and_pale_near_the_line():
    ax = plot_classification_2d(Tilted(), PLANE, [-1, -1, 1, 1, 1], n_grid=60)
    full = [255 * np.array(matplotlib.colors.to_rgb(color)) for color in CLASS_COLORS[:2]]
    for here, own in (((-0.5, -0.9), 0), ((0.5, 0.8), 1)):
        far = [np.abs(pixel(ax, *here) - color).sum() for color in full]
        assert far[own] < far[1 - own]
    assert pixel(ax, 0.04, 0.04).mean() > pixel(ax, 0.5, 0.8).mean() + 20  # p = 0.6 and 1


def test_three_classes_have_two_borders():
    X = np.array([[0.0, 0.0], [0.25, 1.0], [0.5, 0.0]])
    ax = plot_classification_2d(Thirds(), X, ["a", "b", "c"], n_grid=200)
    assert labels(ax) == ["a", "b", "c"]
    found = np.unique(np.round(np.concatenate(line_between(ax))[:, 0], 2))
    assert np.all(np.isin(found, [0.12, 0.13, 0.37, 0.38]))
    assert np.ptp(found) > 0.2


def test_the_calibration_curve_is_the_share_inside_each_central_interval():
    rng = np.random.default_rng(0)
    y = rng.normal(1.0, 3.0, 40)
    mean = rng.standard_normal(40)
    std = rng.uniform(0.5, 4.0, 40)
    given = plt.subplots()[1]
    ax = plot_calibration(y, mean, std, ax=given)
    assert_drawn_on(given, ax)
    assert labels(ax) == ["95 % by chance, N = 40", "calibrated", "model"]
    model = ax.lines[1]
    assert model.get_drawstyle() == "steps-post"
    curve = model.get_xydata()
    assert curve[0].tolist() == [0.0, 0.0]
    assert curve[-1].tolist() == [1.0, 1.0]
    for p in np.linspace(0.013, 0.987, 31):
        low, high = norm.interval(p, mean, std)
        drawn = curve[np.searchsorted(curve[:, 0], p, side="right") - 1, 1]
        assert drawn == pytest.approx(np.mean((low <= y) & (y <= high)))
    assert_array_equal(ax.lines[0].get_xydata(), [[0, 0], [1, 1]])


def test_residuals_are_standardised_and_those_outside_marked():
    given = plt.subplots()[1]
    ax = plot_residuals([1.0, 5.0, -3.0, 2.0], [0.0, 1.0, 1.0, 2.0], [1.0, 2.0, 2.0, 0.5], ax=given)
    assert_drawn_on(given, ax)
    edges = [line.get_ydata()[0] for line in ax.lines[:3]]
    assert_allclose(edges, [0.0, -BAND, BAND])
    inside, outside = ax.lines[3:]
    assert_array_equal(inside.get_xydata(), [[0, 1], [2, 0]])
    assert_array_equal(outside.get_xydata(), [[1, 2], [1, -2]])
    assert labels(ax) == ["inside", "outside (2 of 4)"]
    assert inside.get_marker() != outside.get_marker()
    assert inside.get_color() != outside.get_color()


LABELS = np.array(["no", "no", "yes", "yes", "yes"])
PROBA = np.array([0.1, 0.15, 0.12, 0.9, 0.8])
PROBA = np.stack([1.0 - PROBA, PROBA], axis=1)


def test_reliability_shows_the_second_class_of_two_or_the_one_asked_for():
    given = plt.subplots()[1]
    ax = plot_reliability(LABELS, PROBA, ["no", "yes"], ax=given, n_bins=2)
    assert_drawn_on(given, ax)
    assert labels(ax) == ["calibrated", "model"]
    drawn = ax.containers[0]
    assert_allclose(drawn.lines[0].get_xydata(), [[0.37 / 3, 1 / 3], [0.85, 1.0]])
    bars = np.array(drawn.lines[2][0].get_segments())[:, :, 1]
    assert_allclose(bars, np.transpose(wilson_interval([1, 2], [3, 2])))
    counts = [(text.get_position()[0], text.get_text()) for text in ax.texts]
    assert counts == [(0.25, "3"), (0.75, "2")]
    assert all(ax.get_ylim()[0] < text.get_position()[1] < 0.0 for text in ax.texts)
    assert ax.get_xlabel() == "probability of class yes"
    other = plot_reliability(LABELS, PROBA, ["no", "yes"], n_bins=2, positive="no")
    mirrored = other.containers[0].lines[0].get_xydata()
    assert_allclose(mirrored, 1.0 - drawn.lines[0].get_xydata()[::-1])
    assert other.get_xlabel() == "probability of class no"


def test_three_classes_are_pooled_unless_one_is_chosen():
    y = [2, 0, 1, 2]
    classes = [0, 1, 2]
    proba = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.0, 0.0, 1.0]])
    p, hit, name = binary_cases(y, proba, classes)
    assert len(p) == 12
    assert hit.sum() == 4
    assert "pooled" in name
    assert_array_equal(p[hit], [0.7, 0.6, 0.1, 1.0])
    for chosen in classes:  # 0 too, which is false
        p, hit, name = binary_cases(y, proba, classes, chosen)
        assert_array_equal(p, proba[:, chosen])
        assert hit.tolist() == [label == chosen for label in y]
        assert name == f"class {chosen}"
    ax = plot_reliability(y, proba, classes)
    assert sum(int(text.get_text()) for text in ax.texts) == 12


REFUSED = [  # a plot, its arguments, and changes to them with what the error says
    (
        plot_posterior_1d,
        {"model": Line(), "X": X, "y": Y},
        [
            ({"X": np.c_[X, X]}, "`X` must be a vector .* or one column"),
            ({"X": [], "y": []}, "`X` must be a vector with at least one value"),
            ({"X": np.where(X > 0, X, np.nan)}, "`X` holds NaN or infinity at position 0"),
            ({"y": Y[:-1]}, "`y` must hold 9 values, as `X` does; it holds 8"),
            ({"Z_start": np.zeros((3, 2))}, "`Z_start` must be a vector"),
            ({"n_grid": 1}, "`n_grid` must be a whole number, at least 2"),
        ],
    ),
    (
        plot_posterior_2d,
        {"model": Plane(), "X": np.eye(3, 2), "y": np.zeros(3)},
        [
            ({"X": np.zeros((3, 1))}, "`X` must have two columns"),
            ({"X": np.full((3, 2), np.nan)}, "`X` holds NaN"),
            ({"y": [0.0, 1.0]}, "one value for each of the 3 rows of `X`; it holds 2"),
        ],
    ),
    (
        plot_classification_2d,
        {"model": Tilted(), "X": PLANE, "y": [-1, -1, 1, 1, 1]},
        [
            ({"X": np.zeros((0, 2)), "y": []}, "`X` must have two columns and at least one row"),
            ({"y": [1, 1]}, "one label for each of the 5 rows"),
            ({"y": ["1"] * 5}, "the label '1', which is not one"),
        ],
    ),
    (
        plot_residuals,
        {"y": Y[:3], "mean": np.zeros(3), "std": np.ones(3)},
        [({"std": [1.0, 0.0, 1.0]}, "`std` must be positive.*0")],
    ),
    (
        plot_reliability,
        {"y": LABELS, "proba": PROBA, "classes": ["no", "yes"]},
        [
            ({"y": LABELS[:, None]}, "`y` must be a vector"),
            ({"y": [*LABELS[:4], "maybe"]}, "`y` holds the label 'maybe'"),
            ({"proba": PROBA[:, 1]}, r"`proba` must have shape \(5, 2\).*its shape is \(5,\)"),
            ({"proba": 0.9 * PROBA}, "`proba` must hold probabilities"),
            ({"proba": PROBA + np.array([1.0, -1.0])}, "`proba` must hold probabilities"),
            ({"classes": ["no", "no", "yes"]}, "`classes` must be two or more distinct"),
            ({"positive": "maybe"}, "`positive` must be one of the classes"),
            ({"n_bins": 2.5}, "`n_bins` must be a whole number"),
        ],
    ),
]


@pytest.mark.parametrize(
    "plot, given, change, words", [(*one[:2], *case) for one in REFUSED for case in one[2]]
)
def test_what_does_not_fit_is_refused_and_nothing_is_opened(plot, given, change, words):
    with value_error(words):
        plot(**given | change)
    assert not plt.get_fignums()


def test_parts_are_side_by_side_with_their_bands_and_in_order():
    x = np.array([1.0, 0.0, 2.0])
    axes = plot_parts(x, [x, -x], [x**2, 0.0 * x], ["up", "down"])
    assert [ax.get_title() for ax in axes] == ["up", "down"]
    for ax, slope in zip(axes, (1.0, -1.0), strict=True):
        line = ax.get_lines()[-1]
        assert_allclose(line.get_xdata(), [0.0, 1.0, 2.0])
        assert_allclose(line.get_ydata(), slope * line.get_xdata())
    with value_error(r"`mean` and `variance` must have shape \(1, 3\)"):
        plot_parts(x, [x, -x], [x, x], ["up"])
