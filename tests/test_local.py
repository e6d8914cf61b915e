"""Local prediction against exact numbers, and its laws: pieces, weights, several functions, rows
that are left out.
"""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from conftest import user_warning, value_error
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from reference.problems import described, labels_of
from scipy.stats import norm
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import Gaussian, HeteroscedasticGaussian, Probit, Softmax
from sparse_pep.means import ConstantMean
from sparse_pep.model import Model, model_evidence, model_predict
from sparse_pep.posterior.local import (
    LocalRows,
    evaluate_blocks,
    exchanged,
    left_out_groups,
    local_predict,
    local_rows,
    sites_on_f,
)

POWERS = (0.0, 0.5, 1.0)


def problem_of(entry, likelihood):
    """Model, inputs, targets and test inputs of an entry."""
    kernel, X, y, Z, X_test = described(entry)
    return Model(kernel, InducingPoints(Z), likelihood), X, y, X_test


def fit_of_rows(model, data, power=0.5, **how):
    """The fit, and the rows for predictions from those nearby."""
    fit = model_evidence(model, Problem(data, power))
    return fit, local_rows(fit, data, power, **how)


@pytest.mark.parametrize("number", range(2))
def test_trained_blocks_agree_with_exact_numbers(beyond, number):
    entry = beyond["local"][number]
    noise = np.array(entry["noise_var"])
    model, X, y, X_test = problem_of(entry, Gaussian(noise.min() / 2))
    assert len(entry["cases"]) > 2
    data = Rows(X, y, known_variance=noise - noise.min() / 2, blocks=labels_of(entry["blocks"]))
    for case in entry["cases"]:
        own = np.array(entry["assign"])
        fit, rows = fit_of_rows(model, data, case["alpha"])
        mean, var = local_predict(model, fit.posteriors, X_test, rows, blocks=own)
        assert_allclose(mean, case["f_mean"], rtol=1e-8)
        assert_allclose(var, case["f_var"], rtol=1e-8)


def test_neighbours_under_a_probit_agree_with_exact_numbers(beyond):
    (entry,) = beyond["probit_local"]
    model, X, y, X_test = problem_of(entry, Probit())
    assert entry["cases"]
    data = Rows(X, y)
    for case in entry["cases"]:
        fit = model_evidence(model, Problem(data, case["alpha"]), tol=1e-11)
        rows = local_rows(fit, data, case["alpha"], n_neighbours=3)
        assert [set(found) for found in rows.nearest(X_test, 3)] == [
            set(one) for one in entry["neighbours"]
        ]
        mean, var = local_predict(model, fit.posteriors, X_test, rows)
        assert_allclose(mean, case["held"]["f_mean"], rtol=1e-6)
        assert_allclose(var, case["held"]["f_var"], rtol=1e-6)
        assert_allclose(Probit().predict_proba(mean, var)[:, 1], case["held"]["prob"], rtol=1e-6)


def small(targets="gaussian", seed=0, N=24):
    """A model with few inducing points, and its data."""
    rng = default_rng(seed)
    X = rng.uniform(0, 4, (N, 2))
    f = np.sin(3 * X[:, 0]) + X[:, 1]
    y = f + 0.2 * rng.normal(size=N)
    likelihood = Gaussian(0.04)
    if targets == "outputs":
        y = np.column_stack([y, -2.0 * f])
    if targets == "noise":
        likelihood = HeteroscedasticGaussian(0.1, 0.7)
    if targets == "classes":
        y = rng.integers(11, size=N)  # more than have a joint posterior
        likelihood = Softmax(11)
    return Model(SquaredExponential(1.5, [0.7, 2.0]), InducingPoints(X[:4]), likelihood), Rows(X, y)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("blocks", [None, np.arange(300) // 20])
@pytest.mark.parametrize("D", [2, 6])  # a tree finds the neighbours, or a product
def test_predictions_do_not_depend_on_the_other_test_points(D, blocks, threads, monkeypatch):
    rng = default_rng(0)
    X = rng.normal(size=(300, D))
    X_test = rng.normal(size=(400, D))
    model = Model(Matern32(), InducingPoints(X[:7]), Gaussian(0.1))
    data = Rows(X, np.sin(X[:, 0]), blocks=blocks)
    fit, rows = fit_of_rows(model, data, n_neighbours=9)
    with threadpool_limits(threads, user_api="blas"):
        whole = local_predict(model, fit.posteriors, X_test, rows)
    monkeypatch.setattr("sparse_pep.posterior.local.ROOM", 60)
    for some in (slice(0, 400), slice(0, 7), slice(61, 62)):
        found = local_predict(model, fit.posteriors, X_test[some], rows)
        assert_allclose(
            np.reshape(found, (2, -1)), [part[some] for part in whole], rtol=1e-9, atol=1e-12
        )


def test_a_weight_of_two_is_the_row_twice():
    model, data = small()
    twice = Rows(np.tile(data.X, (2, 1)), np.tile(data.y, 2))
    found = []
    for own, k in ((data._replace(weight=2.0), 4), (twice, 8)):
        fit = model_evidence(model, Problem(own))
        found.append(
            local_predict(
                model, fit.posteriors, data.X + 0.2, local_rows(fit, own, 0.5, n_neighbours=k)
            )
        )
    assert_allclose(*found, rtol=1e-7)


class LeftOut(NamedTuple):
    """A row that is left out, the rows near it, and mean and variance of f there: by local
    prediction, and without.
    """

    row: int
    near: np.ndarray
    local: list
    plain: list


def left_out(model, fit, rows, X):
    """Every row, left out."""
    for members, tests, counted in left_out_groups(rows, np.arange(len(X))):
        evaluated = evaluate_blocks(model, fit.posteriors, rows, X, members, tests)
        mean, var = exchanged(evaluated, rows, slice(None), counted, both=True)
        for i, j in np.ndindex(tests.shape):
            local, plain = np.stack([mean, var], axis=1)[:, :, 0, i, j].tolist()
            yield LeftOut(int(tests[i, j]), members[i][counted[i]], local, plain)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("groups", [np.arange(24), np.arange(24) // 4], ids=["rows", "blocks"])
def test_what_is_left_out_might_as_well_not_have_been_there(groups, power):
    """With Gaussian noise the other sites do not change, so a fit without a row, or without its
    block, says the same.
    """
    model, data = small()
    in_blocks = groups[-1] < 23
    data = data._replace(blocks=groups if in_blocks else None)
    fit, rows = fit_of_rows(model, data, power, n_neighbours=5)
    seen = set()
    for row, near, local, plain in left_out(model, fit, rows, data.X):
        others = data.at(groups != groups[row])
        again = model_evidence(model, Problem(others, power))
        x = data.X[row : row + 1]
        label = None
        if in_blocks:
            others = others._replace(blocks=np.unique(others.blocks, return_inverse=True)[1])
            label = groups[near[:1]] - (groups[near[:1]] > groups[row])
        for found, sites in (
            (local, local_rows(again, others, power, n_neighbours=5)),
            (plain, None),
        ):
            expected = local_predict(model, again.posteriors, x, sites, blocks=label)
            assert_allclose(found, np.ravel(expected), rtol=1e-6, atol=1e-9)
        seen.add(row)
    assert seen == set(range(24))


def wavy(N=200):
    """A function that varies faster than six inducing points can follow, and labels of six
    intervals.
    """
    rng = default_rng(0)
    X = rng.uniform(0, 6, (N, 1))
    return (
        X,
        np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=N),
        np.array(list("abcdef"))[X[:, 0].astype(int)],
    )


FAST = {
    "n_inducing": 6,
    "random_state": 0,
    "kernel": SquaredExponential(0.5, 0.3),
    "mean": ConstantMean(0.4),
    "training": None,
    "noise_variance": 0.01,
}


@pytest.mark.parametrize(
    "given", [{"local": 20}, {"local": "blocks", "blocks": 40}, {"local": "auto", "blocks": 40}]
)
def test_every_prediction_is_local(given):
    X, y, _ = wavy()
    X_test = np.linspace(0.2, 5.8, 30)[:, None]
    f = np.sin(5 * np.linspace(0.2, 5.8, 30))
    model = SparsePEPRegressor(**FAST, standardize=False, **given).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    unlike = SparsePEPRegressor(**FAST, standardize=True, **given | {"local": None}).fit(X, y)
    assert (
        np.sqrt(np.mean((mean - f) ** 2))
        < 0.15
        < np.sqrt(np.mean((unlike.predict(X_test) - f) ** 2))
    )
    assert_allclose(model.predict_f(X_test)[0], mean)
    joint, cov = model.predict(X_test, return_cov=True)
    assert_allclose((joint, np.sqrt(np.diag(cov))), (mean, std))
    assert_allclose(model.predict_log_density(X_test, f), norm(mean, std).logpdf(f))
    assert_allclose(model.predict(ArraySource(X_test, piece_rows=7)), mean, rtol=1e-9)
    assert_allclose(model.sample_f(X_test, 4000).mean(axis=1), mean, atol=0.1)
    assert clone(model).get_params()["local"] == given["local"]


def test_a_classifier_predicts_locally():
    X, y, _ = wavy()
    model = SparsePEPClassifier(
        n_inducing=4,
        kernel=SquaredExponential(4.0, 0.3),
        training=None,
        local="auto",
        random_state=0,
    )
    model.fit(X, y > 0)
    assert model.diagnostics_["local"] == "20 neighbours"
    assert model.diagnostics_["local_gain"] > 0.1
    X_test = np.linspace(0.2, 5.8, 60)[:, None]
    assert (
        model.score(X_test, np.sin(5 * X_test[:, 0]) > 0)
        > 0.9
        > model.set_params(local=None).fit(X, y > 0).score(X_test, np.sin(5 * X_test[:, 0]) > 0)
    )


@pytest.mark.parametrize(
    "given, said",
    [
        ({"power": 0.9}, "a power is above 0.8"),
        ({"power": np.r_[np.full(199, 0.1), 0.9]}, "a power is above 0.8"),
        ({"noise_variance": 1e-5}, "do not predict left out rows better"),
        ({"n_inducing": 60, "noise_variance": 0.02}, "do not predict left out rows better"),
    ],
)
def test_the_guard_returns_to_the_global_prediction_and_says_why(given, said):
    X, y, _ = wavy()
    model = SparsePEPRegressor(**FAST | given, local=20).fit(X, y)
    assert said in model.summary()
    same = SparsePEPRegressor(**FAST | given).fit(X, y)
    assert_array_equal(model.predict(X[:5], return_std=True), same.predict(X[:5], return_std=True))


def test_blocks_that_lose_much_are_a_warning():
    """At power 0 the sites of Poisson counts average over a large unexplained variance; at power
    0.5 they do not.
    """
    rng = default_rng(0)
    X = np.sort(rng.uniform(0, 10, (100, 1)), axis=0)
    y = rng.poisson(np.exp(2.0 + 3.0 * np.sin(5 * X[:, 0])))
    model = SparsePEP(
        likelihood="poisson",
        n_inducing=4,
        kernel=Matern32(9.0, 0.5),
        training=None,
        standardize=False,
        blocks=10,
        local="blocks",
        random_state=0,
    )
    with user_warning("`local='blocks'` predicts left out rows by .* nats per row worse"):
        model.set_params(power=0.0).fit(X, y)
    assert model.diagnostics_["local_gain"] < -1.0
    with warnings.catch_warnings(action="error"):  # the warning is given from half a nat on
        model.set_params(power=0.5).fit(X, y)
    assert abs(model.diagnostics_["local_gain"]) < 0.1


def test_blocks_of_test_rows_go_by_their_labels(tmp_path):
    X, y, labels = wavy()
    model = SparsePEPRegressor(**FAST, blocks=labels, local="blocks").fit(X, y)
    model.save(tmp_path / "model.npz")
    X_test = np.array([[2.05], [2.05]])
    for own in (model, load(tmp_path / "model.npz")):
        (at_b, at_c), _ = own.predict_f(X_test, blocks=["b", "c"])
        assert own.predict_f(X_test)[0][0] == pytest.approx(at_c) != pytest.approx(at_b)
    for bad, words in (
        (["b"], "for each of 2 rows"),
        (["b", "g"], "'g'"),
        ([1, 2], "labels of the fit"),
    ):
        with value_error(f"`blocks`.*{words}"):
            model.predict_f(X_test, blocks=bad)
    with value_error("`blocks` needs a model that predicts from its blocks"):
        SparsePEPRegressor(**FAST).fit(X, y).predict_f(X_test, blocks=["b", "c"])
    with value_error("`blocks` needs `X` as an array"):
        model.predict_f(ArraySource(X_test), blocks=["b", "c"])


@pytest.mark.parametrize("blocks", [None, np.arange(200) // 25 * 3])
def test_a_source_predicts_as_arrays_do(blocks):
    """In pieces, some rows do not count; blocks keep their labels."""
    X, y, _ = wavy()
    weight = np.where((np.arange(200) if blocks is None else blocks) % 7, 1.0, 0.0)
    X_test = np.linspace(0.2, 5.8, 30)[:, None]
    options = FAST | {"power": 0.7, "local": "auto"}
    whole = SparsePEPRegressor(**options, blocks=blocks).fit(X, y, sample_weight=weight)
    parts = SparsePEPRegressor(**options).fit(
        ArraySource(X, y, weight=weight, blocks=blocks, piece_rows=60)
    )
    assert parts.diagnostics_["local"] == ("20 neighbours" if blocks is None else "blocks")
    given = {} if blocks is None else {"blocks": np.repeat([0, 9, 21], 10)}
    assert_allclose(parts.predict_f(X_test, **given), whole.predict_f(X_test, **given), rtol=1e-9)
    with value_error(
        f"`local` cannot be {chr(39) + 'blocks' + chr(39) if blocks is None else 20}",
    ):
        parts.set_params(local="blocks" if blocks is None else 20).fit(
            ArraySource(X, y, blocks=blocks)
        )


def test_more_data_and_other_points_renew_the_rows():
    X, y, _ = wavy()
    model = SparsePEPRegressor(**FAST, local="auto").fit(X[:150], y[:150])
    model.add_inducing(2)
    assert model.diagnostics_["local"] == "20 neighbours"
    before = model.diagnostics_["local_megabytes"]
    model.partial_fit(X[150:], y[150:])
    assert model.diagnostics_["local_megabytes"] == pytest.approx(before / 3, rel=0.01)


def test_a_row_among_many_equal_ones_is_left_out():
    ones = np.ones(30)
    ((members, tests, counted),) = left_out_groups(
        LocalRows(np.zeros((30, 1)), ones[None], ones[None], ones, ones, n_neighbours=5),
        np.arange(30),
    )
    assert_array_equal(members == tests, ~counted)
    assert np.all(np.sum(~counted, axis=1) == 1)


@pytest.mark.parametrize("targets", ["gaussian", "outputs", "noise", "classes"])
def test_where_no_distribution_is_left_the_prediction_is_global(targets):
    model, data = small(targets)
    fit, rows = fit_of_rows(model, data, n_neighbours=3)
    odd = np.isin(np.arange(24), [6, 9])  # no inducing points
    negative = np.where(odd, -1e6, rows.precision)
    found = local_predict(model, fit.posteriors, data.X + 0.1, replace(rows, precision=negative))
    known = model_predict(model, fit.posteriors, data.X + 0.1)
    touched = np.any(odd[rows.nearest(data.X + 0.1, 3)], axis=1)
    same = np.all(
        [
            np.isclose(*pair, rtol=1e-9).reshape(-1, 24).all(axis=0)
            for pair in zip(found, known, strict=True)
        ],
        axis=0,
    )
    assert np.all(np.isfinite(np.concatenate(list(map(np.ravel, found)))))
    assert_array_equal(same, touched)


def test_a_block_whose_noise_is_lost_in_rounding_has_the_global_prediction():
    model, data = small()
    data = data._replace(X=np.repeat(data.X[::2], 2, axis=0), blocks=np.arange(24) // 4)
    fit, rows = fit_of_rows(model, data)
    lost = data.blocks == 2
    unlike = replace(rows, precision=np.where(lost, 1e18, rows.precision))
    found, usual = (
        local_predict(model, fit.posteriors, data.X, own, blocks=data.blocks)
        for own in (unlike, rows)
    )
    assert_allclose(
        found, np.where(lost, model_predict(model, fit.posteriors, data.X), usual), rtol=1e-9
    )


def test_a_site_that_no_factor_on_f_can_have_counts_for_nothing():
    precision, shift = sites_on_f(
        np.array([[2.0, 2.0]]), np.array([[1.0, 1.0]]), np.array([0.25, 1.0]), np.array([1.0, 1.0])
    )
    assert_array_equal((precision[0], shift[0]), ([4.0, 0.0], [2.0, 0.0]))


def test_leaving_one_out_uses_the_neighbours_that_predictions_use():
    """With Gaussian noise it is the prediction of a model that was not given the row."""
    rng = default_rng(0)
    X = rng.uniform(0.0, 6.0, (60, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.normal(size=60)
    options = {
        "kernel": SquaredExponential(1.0, 0.5),
        "noise_variance": 0.01,
        "features": InducingPoints(np.linspace(0.0, 6.0, 5)[:, None]),
        "training": None,
        "local": 8,
    }
    model = SparsePEPRegressor(**options).fit(X, y)
    assert model.diagnostics_["local"] == "8 neighbours"
    density = model.leave_one_out()
    mean, var = model.leave_one_out_f()
    for row in (0, 17, 42):
        others = np.arange(60) != row
        without = SparsePEPRegressor(**options).fit(X[others], y[others])
        assert_allclose(density[row], without.predict_log_density(X[[row]], y[[row]])[0])
        assert_allclose((mean[row], var[row]), np.ravel(without.predict_f(X[[row]])))
