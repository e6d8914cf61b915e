"""What is asked of a fitted model: its parts, with the columns, units and kinds of models that an
estimator has.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import user_warning, value_error
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import Derivative, GaussianBlur, InducingPoints, StackedFeatures, Wavelet
from sparse_pep.kernels import (
    Constant,
    Linear,
    Matern32,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from sparse_pep.likelihoods import Binomial, Tobit
from sparse_pep.means import LinearMean
from sparse_pep.observations import Difference, Mean, Slope, Value, WeightedSum

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
rng = default_rng(4)
X = rng.uniform(-2.0, 2.0, (50, 2))
F = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
Y = 3.0 + F + 0.2 * rng.normal(size=50)
TEST = rng.uniform(-2.0, 2.0, (7, 2))
Z = X[:12]
KERNEL = SquaredExponential(1.0, 0.8) + Linear(0.5, active_dims=[1]) + Constant(2.0)
SEVERAL = StackedFeatures(
    [
        InducingPoints(Z),
        GaussianBlur(Z[:4], 0.3),
        Wavelet(Z[:3], 0.4, 1.5),
        Derivative(Z[:2], [0, 1]),
    ]
)


def untrained(kind=SparsePEPRegressor, **given):
    given = {"kernel": KERNEL, "n_inducing": 12, "random_state": 0, "training": None} | given
    return kind(**given)


FITTED = {
    "gaussian": untrained().fit(X, Y),
    "power 0, tight": untrained(power=0.0, tight=True).fit(X, Y),
    "power 1": untrained(power=1.0).fit(X, Y),
    "one term": untrained(kernel=Matern32(1.0, 0.7)).fit(X, Y),
    "white": untrained(kernel=KERNEL + White(0.1)).fit(X, Y),
    "features": untrained(features=SEVERAL, kernel=KERNEL * Constant(1.5)).fit(X, Y),
    "features of a sum": untrained(features=SEVERAL).fit(X, Y),
    "linear mean": untrained(mean=LinearMean(0.5, [0.1, -0.2])).fit(X, Y),
    "outputs": untrained().fit(X, np.column_stack([Y, 2.0 - F, 9.0 * Y])),
    "neighbours": untrained(local=8).fit(X, Y),
    "blocks": untrained(local="blocks", blocks=np.arange(50) // 10).fit(X, Y),
    "probit": untrained(SparsePEPClassifier).fit(X, F > 0.0),
    "classes": untrained(SparsePEPClassifier).fit(X, np.digitize(F, [-0.5, 0.5])),
    "counts": untrained(SparsePEP, likelihood="poisson").fit(X, rng.poisson(np.exp(F))),
    "noise that varies": untrained(SparsePEP, likelihood="heteroscedastic_gaussian").fit(X, Y),
    "counts, neighbours": untrained(SparsePEP, likelihood="poisson", local=8).fit(
        X, rng.poisson(np.exp(F))
    ),
}


@pytest.mark.parametrize("name", FITTED)
def test_parts_add_up_to_the_function(name):
    model = FITTED[name]
    parts = model.predict_components(TEST)
    mean, var = model.predict_f(TEST)
    assert parts.mean.shape == parts.variance.shape == (len(parts.names), *mean.shape)
    assert_allclose(parts.mean.sum(axis=0), mean, rtol=1e-9, atol=1e-9)
    assert_allclose(parts.covariance.sum(axis=(0, 1)), var, rtol=1e-9, atol=1e-9)
    assert np.all(parts.variance > -1e-12)


def test_parts_are_those_of_a_dense_process_with_a_point_at_each_row():
    kernel = SquaredExponential(2.0, 0.5) + Matern32(1.0, 1.5)
    given = {"features": InducingPoints(X), "noise_variance": 0.05, "standardize": False}
    model = untrained(kernel=kernel, jitter=0.0, mean=None, **given).fit(X, F)
    parts = model.predict_components(TEST)
    K = np.linalg.inv(kernel(X) + 0.05 * np.eye(50))
    first, second = (k(TEST, X) for k in kernel.kernels)
    assert parts.names == ("SquaredExponential", "Matern32")
    assert_allclose(parts.mean[0], first @ K @ F, atol=1e-8)
    assert_allclose(parts.covariance[0, 1], -np.sum(first @ K * second, axis=1), atol=1e-8)
    assert_allclose(parts.variance[1], 1.0 - np.sum(second @ K * second, axis=1), atol=1e-8)


def test_a_part_is_named_by_its_kind_and_columns_and_the_level_comes_last():
    kernel = Matern32(active_dims=[1]) * (Constant() + Linear()) + Periodic(active_dims=[0])
    model = untrained(kernel=kernel + Constant() + Constant(2.0), standardize=True)
    frame = pd.DataFrame(X, columns=["width", "height"])
    parts = model.fit(frame, Y).predict_components(frame)
    assert parts.names == (
        "Matern32[height] * (Constant + Linear)",
        "Periodic[width]",
        "Constant",
        "Constant (2)",
        "mean",
    )
    assert_allclose(parts.mean[-1], Y.mean())
    assert not parts.variance[-1].any()


def test_a_model_that_was_loaded_has_the_same_parts(tmp_path):
    for name in ("neighbours", "classes"):
        FITTED[name].save(tmp_path / "model.npz")
        parts = load(tmp_path / "model.npz").predict_components(TEST)
        assert_allclose(parts.mean, FITTED[name].predict_components(TEST).mean, rtol=1e-12)


def test_parts_beyond_the_data_come_with_a_warning():
    with user_warning("beyond the training data"):
        FITTED["gaussian"].predict_components(TEST + 50.0)


GROUPS = np.resize(["b", "a", "c", "a", "b"], 50)


@pytest.mark.parametrize("name", sorted(set(FITTED) - {"blocks", "classes"}))
def test_a_group_is_predicted_from_the_other_groups(name):
    model = FITTED[name]
    mean, var = model.leave_one_out_f(GROUPS)
    density = model.leave_one_out(GROUPS)
    whole_mean, whole_var = model.predict_f(X)
    assert mean.shape == whole_mean.shape
    assert np.all(np.isfinite(density))
    assert np.mean(var > whole_var) > 0.95


@pytest.mark.parametrize("name", ["gaussian", "power 0, tight", "neighbours", "outputs"])
def test_a_group_left_out_is_predicted_by_a_model_that_has_not_seen_it(name):
    y = np.column_stack([Y, 2.0 - F]) if name == "outputs" else Y
    given = {
        "features": InducingPoints(Z),
        "standardize": False,
        "power": 0.0 if "tight" in name else 0.5,
        "tight": "tight" in name,
        "local": 8 if name == "neighbours" else None,
    }
    weight = np.resize([1.0, 2.0, 0.0], 50)
    model = untrained(**given).fit(X, y, weight)
    mean, var = model.leave_one_out_f(GROUPS)
    density = model.leave_one_out(GROUPS)
    for label in "abc":
        rest = GROUPS != label
        other = untrained(**given).fit(X[rest], y[rest], weight[rest])
        seen = ~rest & (weight > 0.0)
        for ours, theirs in zip((mean, var), other.predict_f(X[seen]), strict=True):
            assert_allclose(ours[seen], theirs, rtol=1e-7, atol=1e-9)
        assert_allclose(density[seen], other.predict_log_density(X[seen], y[seen]), atol=1e-7)
    assert np.all(np.isnan(density[weight == 0.0]))


def test_signs_of_slopes_belong_to_no_group():
    model = untrained(monotone={0: 1}, kernel=SquaredExponential()).fit(X, Y)
    assert model.leave_one_out(GROUPS).shape == (50,)
    assert np.all(np.isfinite(model.leave_one_out_f(GROUPS)[0]))


def test_groups_that_are_none_are_refused():
    model = FITTED["gaussian"]
    for bad, words in (
        (GROUPS[:-1], "a label for each of 50 training rows; got 49"),
        (np.full(50, np.nan), "`groups` must be finite"),
        ([["a"]] * 50, "`groups` must have shape"),
        (["a"] * 49 + [None], "`groups` must be all numbers or all text"),
    ):
        with value_error(words):
            model.leave_one_out(bad)
    pieces = untrained(standardize=False).fit(ArraySource(X, Y))
    with value_error("`groups` needs training data in memory"):
        pieces.leave_one_out(GROUPS)


@pytest.mark.parametrize("name", FITTED)
def test_shares_of_inputs_are_shares(name):
    found = FITTED[name].sensitivity(n_draws=5)
    mean, _ = FITTED[name].predict_f(TEST)
    assert found.names == ("x1", "x2")
    assert found.first.shape == found.total.shape == (2, *mean.shape[1:])
    assert found.total_interval.shape == (2, *found.total.shape)
    if name == "noise that varies":  # the logarithm of the noise is nearly constant
        return
    assert np.all(found.first < found.total + 0.03)
    assert np.all((found.first > -0.03) & (found.total < 1.03))


def test_shares_of_the_inputs_of_ishigami_are_those_of_the_closed_form():
    inputs = rng.uniform(-np.pi, np.pi, (400, 3))
    y = np.sin(inputs[:, 0]) * (1.0 + 0.1 * inputs[:, 2] ** 4) + 7.0 * np.sin(inputs[:, 1]) ** 2
    model = SparsePEPRegressor(n_inducing=150, random_state=0).fit(inputs, y)
    found = model.sensitivity(n_draws=20)
    assert_allclose(found.first, [0.3139, 0.4424, 0.0], atol=0.02)
    assert_allclose(found.total, [0.5576, 0.4424, 0.2437], atol=0.02)
    width = np.diff(found.total_interval, axis=0)
    few = untrained(kernel=model.kernel_, n_inducing=30, standardize=True).fit(inputs[:40], y[:40])
    assert np.all(np.diff(few.sensitivity(n_draws=20).total_interval, axis=0) > width)


def test_shares_of_inputs_are_those_of_columns_with_their_values():
    frame = pd.DataFrame({"kind": np.where(X[:, 0] > 0.0, "a", "b"), "size": X[:, 1]})
    frame.loc[3, "size"] = np.nan
    model = SparsePEPRegressor(n_inducing=12, random_state=0).fit(frame, np.sign(X[:, 0]) * 2.0 + Y)
    found = model.sensitivity(frame, n_draws=10)
    assert found.names == ("kind", "size")
    assert found.total[0] > 0.7
    with value_error("`sensitivity` needs `X`"):
        model.sensitivity()
    narrow = frame.assign(kind="a")
    assert model.sensitivity(narrow, n_draws=10).total[0] == 0.0


@pytest.mark.parametrize(
    "kernel", [RationalQuadratic(1.0, [0.8, 0.9]), SquaredExponential() + White(0.1)]
)
def test_shares_of_inputs_need_no_waves(kernel):
    few = untrained(kernel=kernel, noise_variance=0.05).fit(X, Y)
    near = untrained(kernel=SquaredExponential(1.0, [0.8, 0.9]), noise_variance=0.05).fit(X, Y)
    found = few.sensitivity()
    assert_allclose(found.total, near.sensitivity().total, atol=0.1)
    assert np.all(found.total_interval[1] > found.total_interval[0])


def test_neighbours_have_shares_of_inputs_without_intervals():
    found = FITTED["neighbours"].sensitivity()
    assert np.all(np.isnan(found.first_interval))
    text = f"{found.first[0]:.2f} alone, {found.total[0]:.2f} in total"
    assert dict(found.rows())["x1"] == text


TARGETS = {
    "poisson": rng.poisson(np.exp(F)),
    "negative_binomial": rng.poisson(np.exp(F)),
    "binomial": rng.binomial(5, 0.5, 50),
    "gamma": np.exp(F),
    "weibull": np.exp(F),
    "beta": 1.0 / (1.0 + np.exp(-F)),
    "student_t": Y,
    "heteroscedastic_gaussian": Y,
    "gaussian": Y,
    "tobit": np.maximum(F, 0.0),
    "ordinal": np.digitize(F, [-0.5, 0.5]).astype(float),
}
SPECIAL = {"binomial": Binomial(5), "tobit": Tobit(0.1, 0.0, None)}


def of_likelihood(name, **given):
    given = {"kernel": SquaredExponential(1.0, 0.8)} | given
    return untrained(SparsePEP, likelihood=SPECIAL.get(name, name), **given).fit(X, TARGETS[name])


@pytest.mark.parametrize("name", TARGETS)
def test_probabilities_of_thresholds_agree_with_draws(name):
    model = of_likelihood(name)
    y = model.sample_y(TEST, 4000, random_state=1)
    t = np.median(y)
    above = model.predict_probability(TEST, above=t)
    between = model.predict_probability(TEST, above=t - 1.0, below=t + 1.0)
    assert_allclose(above, np.mean(y > t, axis=1), atol=0.035)
    assert_allclose(between, np.mean((y > t - 1.0) & (y < t + 1.0), axis=1), atol=0.035)


def test_whole_numbers_are_counted_once():
    model = of_likelihood("poisson")
    below, above = (model.predict_probability(TEST, **{side: 2}) for side in ("below", "above"))
    two = np.exp(model.predict_log_density(TEST, np.full(7, 2)))
    assert_allclose(below + above + two, 1.0, atol=1e-7)
    assert_allclose(model.predict_probability(TEST, above=1.5, below=2.5), two, atol=1e-7)
    assert_allclose(model.predict_probability(TEST, above=-0.5), 1.0)


def test_thresholds_have_the_units_of_each_output_and_may_be_infinite():
    model = untrained(standardize=True).fit(X, np.column_stack([Y, 100.0 * Y]))
    first, second = model.predict_probability(TEST, above=3.2).T
    assert np.all(second > first)
    single = untrained(standardize=True).fit(X, Y)
    assert_allclose(first, single.predict_probability(TEST, above=3.2), rtol=1e-7)
    assert_allclose(single.predict_probability(TEST, above=-np.inf, below=np.inf), 1.0)
    assert not single.predict_probability(TEST, above=5.0, below=3.0).any()


def test_thresholds_that_are_none_are_refused():
    model = FITTED["gaussian"]
    with value_error("`above` or `below` must be given"):
        model.predict_probability(TEST)
    for bad in ([1.0, 2.0], np.nan, "high"):
        with value_error("`above` must"):
            model.predict_probability(TEST, above=bad)


EXPOSURE = np.exp(2.0 * rng.normal(size=50))
RATED = ["poisson", "negative_binomial"]


def of_exposed(name, **given):
    model = SparsePEP(likelihood=name, n_inducing=12, random_state=0, **given)
    return model.fit(X, rng.poisson(EXPOSURE * np.exp(F)), exposure=EXPOSURE)


@pytest.mark.parametrize("local", [None, 8])
@pytest.mark.parametrize("name", RATED)
def test_a_prediction_of_counts_has_the_exposure_of_its_row(name, local):
    model = of_exposed(name, local=local)
    exposure = np.linspace(0.1, 50.0, 7)
    rate, std = model.predict(TEST, return_std=True)
    mean, more = model.predict(TEST, True, exposure=exposure)
    assert_allclose(mean, exposure * rate)
    assert np.all((more > std) == (exposure > 1.0))
    q = model.predict_quantiles(TEST, [0.9], exposure=exposure)[:, 0]
    assert np.all(model.predict_probability(TEST, above=q, exposure=exposure) <= 0.1 + 1e-7)
    assert_allclose(model.predict_interval(TEST, 0.8, exposure=exposure)[1], q)
    y = model.sample_y(TEST, 4000, exposure=exposure)
    assert_allclose(y.mean(axis=1), mean, rtol=0.3, atol=0.1)
    density = model.predict_log_density(TEST, y[:, 0], exposure=exposure)
    assert_allclose(model.score(TEST, y[:, 0], exposure=exposure), density.mean())


@pytest.mark.parametrize("training", ["auto", "lbfgs", "adam"])
def test_rates_are_those_of_unequal_exposures(training):
    places = np.linspace(-2.0, 2.0, 300)[:, None]
    f = np.sin(2.0 * places[:, 0])
    exposure = np.exp(2.0 * default_rng(0).normal(size=300))
    y = default_rng(1).poisson(exposure * np.exp(f))
    model = SparsePEP(likelihood="poisson", n_inducing=15, random_state=0, training=training)
    mean, var = model.fit(places, y, exposure=exposure).predict_f(places)
    assert np.mean(np.abs(mean - f) < 2.0 * np.sqrt(var)) > 0.8
    assert np.sqrt(np.mean((mean - f) ** 2)) < 0.25
    assert model.leave_one_out().mean() > model.score(places, y) + 0.5


def test_two_batches_of_exposures_are_one():
    y = rng.poisson(EXPOSURE * np.exp(F))
    given = {"likelihood": "poisson", "power": 0.0, "features": InducingPoints(Z)}
    given |= {"kernel": SquaredExponential(1.0, 0.8)}
    both = untrained(SparsePEP, **given)
    whole = untrained(SparsePEP, **given).fit(X, y, exposure=EXPOSURE)
    for rows in (slice(0, 25), slice(25, 50)):
        both.partial_fit(X[rows], y[rows], exposure=EXPOSURE[rows])
    assert_allclose(both.predict(TEST), whole.predict(TEST), rtol=0.1)
    assert both.n_samples_seen_ == 50


def test_slopes_of_rates_may_have_signs():
    x = np.linspace(0.0, 1.0, 40)[:, None]
    exposure = np.linspace(30.0, 1.0, 40)
    y = default_rng(0).poisson(exposure * np.exp(2.0 * x[:, 0]))
    model = SparsePEP(likelihood="poisson", monotone={0: 1}, n_inducing=8, random_state=0)
    rate = model.fit(x, y, exposure=exposure).predict(x)
    assert np.all(np.diff(rate) > 0.0)
    assert_allclose(rate, np.exp(2.0 * x[:, 0]), rtol=0.6)
    with value_error("`exposure` must be 1 where no count .* row 40"):
        model.fit([Value(x, y), Slope(x[:2], 0, [2.0, 2.0])], exposure=np.full(42, 2.0))


@pytest.mark.parametrize("name", sorted(set(TARGETS) - set(RATED)))
def test_exposures_without_a_rate_are_refused(name):
    with value_error("`exposure` is a factor of the rate of counts"):
        untrained(SparsePEP, likelihood=SPECIAL.get(name, name)).fit(
            X, TARGETS[name], exposure=EXPOSURE
        )
    with value_error("`exposure`"):
        of_likelihood(name).predict(TEST, exposure=np.ones(7))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, [1.0, 2.0], "many"])
def test_exposures_that_are_none_are_refused(bad):
    with value_error("`exposure` must"):
        FITTED["counts"].predict(TEST, exposure=bad)
    with value_error("`exposure` must"):
        untrained(SparsePEP, likelihood="poisson").fit(X, np.round(np.exp(F)), exposure=bad)


@pytest.mark.parametrize("name", sorted(set(FITTED) - {"outputs"}))
def test_errors_of_inputs_give_the_moments_of_draws_of_them(name):
    model = FITTED[name]
    exact = model.predict_f(TEST)
    for given in (0.0, [0.0, 0.0], np.zeros((7, 2))):
        for known, found in zip(exact, model.predict_f(TEST, input_std=given), strict=True):
            assert_array_equal(found, known)
    std = np.array([0.15, 0.25]) * np.ones((7, 2))
    std[2] = 0.0
    std[3, 0] = 0.0
    mean, var = model.predict_f(TEST, input_std=std)
    drawn = TEST + std * default_rng(0).normal(size=(1500, 7, 2))
    means, variances = model.predict_f(drawn.reshape(-1, 2))
    means = means.reshape(1500, *mean.shape)
    expected = variances.reshape(means.shape).mean(axis=0) + means.var(axis=0)
    spread = np.sqrt(expected)
    assert_allclose(mean / spread, means.mean(axis=0) / spread, atol=0.25)
    assert_allclose(var / expected, 1.0, atol=0.25)
    assert_allclose(mean[2], exact[0][2])


def table_with_gaps(n_rows, share, seed):
    """y = 2a + b + noise, where `a` is empty in a share of the rows, and a column of text."""
    random = default_rng(seed)
    table = pd.DataFrame(random.normal(size=(n_rows, 2)), columns=["a", "b"])
    y = (2.0 * table.a + table.b + 0.1 * random.normal(size=n_rows)).to_numpy()
    table.loc[random.uniform(size=n_rows) < share, "a"] = np.nan
    table["c"] = np.where(random.uniform(size=n_rows) < 0.5, "u", "v")
    return table, y


NEW, Y_NEW = table_with_gaps(300, 0.3, 1)
EMPTY = NEW.a.isna().to_numpy()


def widths_and_coverage(model):
    """The mean width, and the coverage, of 90 % intervals in rows with and without gaps."""
    low, high = model.predict_interval(NEW)
    inside = (low < Y_NEW) & (Y_NEW < high)
    return [(np.mean((high - low)[rows]), np.mean(inside[rows])) for rows in (EMPTY, ~EMPTY)]


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("given", [{}, {"training": "lbfgs"}, {"n_inducing": "auto"}], ids=str)
def test_a_filled_gap_has_the_variance_of_its_column(share, given, tmp_path):
    model = SparsePEPRegressor(random_state=0, **given).fit(*table_with_gaps(300, share, 0))
    (gap, held), (known, covered) = widths_and_coverage(model)
    assert_allclose([gap, known], [6.6, 0.33], rtol=0.12)
    assert 0.8 < held < 0.98
    assert 0.8 < covered < 0.97
    model.save(tmp_path / "model.npz")
    assert_allclose(
        widths_and_coverage(load(tmp_path / "model.npz")), [(gap, held), (known, covered)]
    )


def test_gaps_are_known_in_pieces_and_in_numbers():
    model = SparsePEPRegressor(random_state=0, training="lbfgs").fit(*table_with_gaps(300, 0.3, 0))
    mean, std = model.predict(NEW, return_std=True)
    numbers = model.columns_.transform(NEW)
    for rows in (numbers, ArraySource(numbers, piece_rows=40)):
        assert_allclose(model.predict(rows, return_std=True)[1], std)
    assert_allclose(model.predict(NEW), mean)
    of_all, cov = model.predict(NEW, return_cov=True)
    assert_allclose(of_all, mean)
    assert_allclose(np.sqrt(np.diag(cov)), std)
    later, y = table_with_gaps(200, 0.5, 2)
    assert_allclose(widths_and_coverage(model.partial_fit(later, y))[0][0], 6.6, rtol=0.15)


def test_gaps_of_counts_widen_where_training_had_none():
    table, y = table_with_gaps(300, 0.0, 0)
    counts = default_rng(0).poisson(np.exp(0.4 * y))
    given = {"likelihood": "poisson", "random_state": 0, "training": "lbfgs"}
    with user_warning("with the variance that this leaves"):
        _, var = SparsePEP(**given).fit(table, counts).predict_f(NEW)
    assert_allclose(np.median(var[EMPTY]), 0.64, rtol=0.3)
    assert np.median(var[~EMPTY]) < 0.05
    table.loc[:100, "a"] = np.nan
    with user_warning("intervals of rows with gaps are too short"):
        model = SparsePEP(**given).fit(table, counts)
    assert [place for place, *_ in model.columns_.filled] == [2]
    assert "['a'] count as known" in dict(model.summary_rows())["filled cells"]
    assert np.median(model.predict_f(NEW)[1][EMPTY]) < 0.2


def test_empty_dates_have_an_error():
    days = pd.date_range("2024-01-01", periods=200)
    y = np.arange(200) / 50.0 + 0.05 * default_rng(0).normal(size=200)
    table = pd.DataFrame({"day": days, "b": default_rng(1).normal(size=200)})
    model = SparsePEPRegressor(random_state=0, training="lbfgs").fit(table, y)
    later = table.iloc[[50, 100]].copy()
    later.loc[later.index[0], "day"] = pd.NaT
    with user_warning("no value of 'day'"):
        _, std = model.predict(later, return_std=True)
    assert_allclose(std[0], np.std(y), rtol=0.3)
    assert std[1] < 0.1


def test_training_knows_the_errors_of_inputs():
    random = default_rng(0)
    truth = random.uniform(-3.0, 3.0, (400, 1))
    x = truth + 0.2 * random.normal(size=(400, 1))
    y = 2.0 * np.sin(truth[:, 0]) + 0.05 * random.normal(size=400)
    model = SparsePEPRegressor(random_state=0, training="lbfgs", n_inducing=20)
    ignorant = clone(model).fit(x, y)
    weight = np.ones(400)
    weight[:5] = 0.0
    model.fit(x, y, sample_weight=weight, input_std=np.full((400, 1), 0.2))
    assert model.noise_std_ < 0.15 < 0.2 < ignorant.noise_std_
    low, high = model.predict_interval(x, 0.9, input_std=0.2)
    assert 0.85 < np.mean((low < y) & (y < high)) < 0.95
    assert np.ptp(high - low) > 0.5
    zero = clone(model).fit(x, y, input_std=0.0)
    assert zero.log_marginal_likelihood_value_ == ignorant.log_marginal_likelihood_value_


@pytest.mark.parametrize("bad", [-0.1, np.nan, [0.1, 0.2, 0.3], "wide", np.zeros((6, 2))])
def test_errors_of_inputs_that_are_none_are_refused(bad):
    with value_error("`input_std` must"):
        FITTED["gaussian"].predict(TEST, input_std=bad)
    with value_error("`input_std` must"):
        untrained().fit(X, Y, input_std=bad)


def test_errors_of_inputs_that_cannot_be_used_are_refused():
    for model, y in ((untrained(SparsePEP, likelihood="student_t"), Y), (untrained(), np.c_[Y, Y])):
        with value_error("`input_std` in training needs one target in Gauss"):
            model.fit(X, y, input_std=0.1)
    with value_error("`input_std` needs one target per row"):
        FITTED["outputs"].predict(TEST, input_std=0.1)
    with value_error("`input_std` must be 0 for 'c', which is category"):
        SparsePEPRegressor(training=None).fit(NEW, Y_NEW).predict(NEW, input_std=0.1)
    some = SparsePEPRegressor(training=None).fit(NEW, Y_NEW)
    _, std = some.predict(NEW, return_std=True)
    _, more = some.predict(NEW, return_std=True, input_std=[0.0, 0.3, 0.0])
    assert np.all(more >= std)


def test_the_gradient_is_that_of_the_mean_and_needs_numbers():
    rng = default_rng(0)
    X = rng.normal(size=(40, 2)) * [1.0, 10.0]
    model = SparsePEPRegressor(n_inducing=20, random_state=0, training=None)
    model.fit(X, np.sin(X[:, 0]) + 0.1 * X[:, 1])
    mean, var = model.predict_gradient(X[:5])
    for d, step in enumerate(1e-4 * np.eye(2)):
        difference = model.predict_f(X[:5] + step)[0] - model.predict_f(X[:5] - step)[0]
        assert_allclose(mean[:, d], difference / 2e-4, rtol=1e-5, atol=1e-6)
        assert_allclose(var[:, d], model.predict_f(Slope(X[:5], d))[1])
    with value_error("`X` must hold real numbers"):
        model.predict_gradient([["a", "b"]])
    with value_error("`X` must be a table of rows"):
        model.predict_gradient(X[0])


def local_model():
    places = default_rng(0).uniform(-2.0, 2.0, (150, 2))
    y = 5.0 + np.sin(3.0 * places[:, 0]) * places[:, 1]
    y = y + 0.05 * default_rng(1).normal(size=150)
    kernel = SquaredExponential(1.0, [0.8, 1.0])
    model = untrained(kernel=kernel, noise_variance=0.0025, local=20, mean="constant")
    return model.fit(places, y)


def test_slopes_of_neighbours_are_those_of_their_predictions():
    model = local_model()
    places = 0.4 * TEST
    mean, var = model.predict_gradient(places)
    for d, step in enumerate(1e-5 * np.eye(2)):
        ends = [model.predict_f(places + sign * step)[0] for sign in (1.0, -1.0)]
        assert_allclose(mean[:, d], (ends[0] - ends[1]) / 2e-5, rtol=1e-4, atol=1e-3)
    truth = 3.0 * np.cos(3.0 * places[:, 0]) * places[:, 1]
    assert np.all(np.abs(mean[:, 0] - truth) < 4.0 * np.sqrt(var[:, 0]))


def test_sums_of_neighbours_are_those_of_their_predictions():
    model = local_model()
    points = np.stack([TEST[:4], TEST[3:]])
    weights = np.array([[0.5, 0.5, -1.0, 2.0], [0.0, 1.0, 1.0, 0.0]])
    mean, var = model.predict_f(WeightedSum(points, weights))
    for n in range(2):
        values, cov = model.predict(points[n], return_cov=True)
        cov = cov - model.noise_std_**2 * np.eye(4)
        assert_allclose(mean[n], weights[n] @ values)
        assert_allclose(var[n], weights[n] @ cov @ weights[n])
    narrow = model.predict_f(Mean(TEST, 1e-6))
    for found, expected in zip(narrow, model.predict_f(TEST), strict=True):
        assert_allclose(found, expected, rtol=1e-4)
    change, _ = model.predict_f(Difference(TEST[:1], TEST[1:2]))
    assert_allclose(change, -np.diff(model.predict_f(TEST[:2])[0]))
