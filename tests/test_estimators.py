"""The estimators: scikit-learn's own checks, model files, odd input, and what they say of
themselves.
"""

import copy
import inspect
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from conftest import user_warning, value_error
from laws.adapter import ended
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from reference.compare import error
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparse_pep.data.sources import ArraySource
from sparse_pep.estimators import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, conclude, load
from sparse_pep.estimators.arguments import likelihood_named
from sparse_pep.estimators.classifier import classifier_likelihood
from sparse_pep.features import Derivative, GaussianBlur, InducingPoints
from sparse_pep.inference.blocks import Partition
from sparse_pep.kernels import (
    Linear,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
)
from sparse_pep.likelihoods import (
    LIKELIHOODS,
    Gaussian,
    Logit,
    NegativeBinomial,
    NoisyProbit,
    Probit,
    Softmax,
    Tobit,
)
from sparse_pep.model import model_evidence, to_vector
from sparse_pep.observations import Difference, Slope, Value
from sparse_pep.training import LBFGS, Adam, run
from sparse_pep.training.lbfgs import SITE_TOL

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
RNG = default_rng(0)
X = RNG.uniform(-3, 3, (40, 2))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
X_TEST = RNG.uniform(-3, 3, (7, 2))
KERNEL = SquaredExponential(1.2, [0.9, 2.0])
KEPT = {"kernel": KERNEL, "features": InducingPoints(X[:6]), "training": None}
BRIEF = {"n_inducing": 5, "training": LBFGS(max_iter=1), "random_state": 0}
SIDE = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
THIRD = np.digitize(X[:, 0], [-1.0, 1.0])
COUNTS = default_rng(1).poisson(np.exp(1.0 + y))
BLOCKS = np.repeat(np.arange(8), 5)[RNG.permutation(40)]
ADAM = {"training": Adam(batch_size=15, n_epochs=8), "n_inducing": 6, "random_state": 0}


def fixed_model(targets=y, **arguments):
    """A fitted model whose parameters were kept as given."""
    return SparsePEPRegressor(**(KEPT | {"noise_variance": 0.1} | arguments)).fit(X, targets)


def classifier(labels=SIDE, **arguments):
    return SparsePEPClassifier(**(KEPT | arguments)).fit(X, labels)


def counts(**arguments):
    return SparsePEP(**(KEPT | {"likelihood": "poisson"} | arguments)).fit(X, COUNTS)


def quick(kind=SparsePEPRegressor, targets=y, steps=2, **arguments):
    """A model after a few steps of training."""
    return kind(
        **({"n_inducing": 5, "training": LBFGS(max_iter=steps), "random_state": 0} | arguments)
    ).fit(X, targets)


def vector_of(model):
    """The parameters of a model, one after the other."""
    return to_vector(model.parameters())


@parametrize_with_checks(
    [
        SparsePEPRegressor(n_inducing=5, training=LBFGS(max_iter=5), random_state=0),
        SparsePEPRegressor(
            training=Adam(batch_size=15, n_epochs=4), n_inducing=5, random_state=0, standardize=True
        ),
        SparsePEPClassifier(**BRIEF, standardize=True),
        SparsePEPClassifier(likelihood="noisy_probit", **BRIEF),
        SparsePEP(likelihood="student_t", **BRIEF),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_constructors_show_what_they_take():
    for kind in (SparsePEPRegressor, SparsePEP, SparsePEPClassifier):
        names = list(inspect.signature(kind).parameters)
        assert all(
            parameter.kind is parameter.KEYWORD_ONLY
            for parameter in inspect.signature(kind).parameters.values()
        )
        assert sorted(names) == sorted(kind().get_params())
        assert "standardize" in names
        assert [name for name in names if f"\n{name} :" not in kind.__doc__] == []
        assert "{parameters}" not in kind.__doc__
        assert "{attributes}" not in kind.__doc__


WITHOUT_DEVELOPMENT = """
import sys
TOOLS = "nbdev execnb fastcore IPython ipykernel jupyter jupyter_core nbformat nbconvert pytest "
for name in (TOOLS + "hypothesis mpmath").split():
    sys.modules[name] = None  # importing it now fails
import sparse_pep, importlib, pkgutil
for module in pkgutil.iter_modules(sparse_pep.__path__):
    if module.name != "_modidx":
        importlib.import_module("sparse_pep." + module.name)
model = sparse_pep.SparsePEPRegressor(training=None, n_inducing=2)
model.fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
assert model.predict([[0.5]]).shape == (1,)
"""


def test_the_package_needs_no_development_tools():
    subprocess.run([sys.executable, "-c", WITHOUT_DEVELOPMENT], check=True)


LABELS = {
    "integers": np.array([3, 7, 9]),
    "text": np.array(["benign", "malign", "neither"]),
    "objects": np.array(["no", "yes", "yes indeed"], dtype=object),
    "bools": np.array([False, True]),
    "floats": np.array([-1.0, 1.0, 5.0]),
}
NAMED = pd.DataFrame(X, columns=["width", "height"])
MIXED = NAMED.assign(
    width=NAMED["width"].where(X[:, 0] > -2.0),
    colour=pd.Categorical(np.array(["red", "blue", "grey"])[THIRD]),
)
SAVED = {
    "trained": lambda: quick(steps=30, n_inducing=8, standardize=True),
    "powers of rows": lambda: fixed_model(power=np.linspace(0, 1, 40)),
    "a composite kernel": lambda: fixed_model(
        kernel=KERNEL + Linear(0.2) * Matern32(0.5, 1.0, active_dims=(1,))
    ),
    "points too close": lambda: fixed_model(
        features=InducingPoints(X[:1] + 1e-4 * RNG.normal(size=(9, 2)))
    ),
    "points that coincide": lambda: fixed_model(
        features=InducingPoints(X[[0, 1, 0]]), jitter=0.0
    ).set_params(jitter=0.1),
    "several features": lambda: fixed_model(
        features=[InducingPoints(X[:4]), GaussianBlur(X[4:8], 0.3), Derivative(X[8:10], [0, 1])]
    ),
    "the tight form": lambda: fixed_model(tight=True, power=0.0),
    "outputs": lambda: fixed_model(np.column_stack([y, X[:, 0]]), mean="linear", standardize=True),
    "weak priors": lambda: quick(priors="weak", fixed=["features.Z"]),
    "batches": lambda: quick(**ADAM),
    "more points tried": lambda: quick(n_inducing="auto"),
    "a power held out": lambda: quick(power="held_out"),
    "blocks": lambda: quick(blocks=BLOCKS, power=np.linspace(0.0, 1.0, 8)),
    "classes in blocks": lambda: quick(SparsePEPClassifier, SIDE, blocks=BLOCKS),
    "neighbours": lambda: quick(local=5),
    "blocks nearby": lambda: quick(local="blocks", blocks=np.array(list("abcdefgh"))[BLOCKS]),
    "named columns": lambda: SparsePEPRegressor(**KEPT).fit(
        NAMED, pd.Series(y, index=np.arange(40) + 100)
    ),
    "a mixed table": lambda: SparsePEPRegressor(n_inducing=5, training=None).fit(MIXED, y),
    "a source": lambda: SparsePEPRegressor(**KEPT).fit(ArraySource(X, y, piece_rows=12)),
    "later data": lambda: fixed_model().partial_fit(X[:9], y[:9]),
    "observations": lambda: SparsePEPRegressor(**KEPT, monotone={0: 1}).fit(
        [Value(X, y), Difference(X, X[::-1], y - y[::-1]), Slope(X, 1, y, noise_variance=0.1)]
    ),
    "counts": counts,
    "trained counts": lambda: quick(
        SparsePEP, COUNTS, likelihood="negative_binomial", mean="linear"
    ),
    "two parameters": lambda: quick(
        SparsePEP, likelihood="heteroscedastic_gaussian", standardize=True
    ),
    "a softmax": lambda: quick(SparsePEPClassifier, THIRD, mean="constant"),
    "a noisy probit": lambda: quick(SparsePEPClassifier, SIDE, likelihood="noisy_probit"),
    **{
        f"labels, {name}": partial(lambda kinds: classifier(kinds[SIDE]), kinds)
        for name, kinds in LABELS.items()
    },
}
EXTRA = {"unit": "m", "columns": ["a", "b"], "X_mean": np.array([1.5, -2.0])}
ELSEWHERE = """
import numpy as np, sparse_pep
for k in range({}):
    model = sparse_pep.load(f"{{k}}.npz")
    tests = np.resize(np.load("X.npy"), (7, len(model.x_mean_)))
    mean, var = model.predict_f(tests)
    np.savez(f"{{k}}.out.npz", mean=mean, var=var, text=np.array(model.predict(tests)).astype(str))
"""


class Saved(NamedTuple):
    """A model, its file, the model of that file, and its predictions in another process."""

    model: SparsePEP
    path: Path
    loaded: SparsePEP
    elsewhere: dict


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The models of the table, by name."""
    folder = tmp_path_factory.mktemp("models")
    paths = {name: folder / f"{k}.npz" for k, name in enumerate(SAVED)}
    models = {name: make() for name, make in SAVED.items()}
    for name, model in models.items():
        model.save(paths[name], extra=EXTRA)
    assert len(list(folder.iterdir())) == len(SAVED)  # and no file aside
    np.save(folder / "X.npy", X_TEST)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    script = ELSEWHERE.format(len(SAVED))
    subprocess.run([sys.executable, "-c", script], check=True, cwd=folder, env=environment)
    results = {}
    for name, path in paths.items():
        with np.load(path.with_suffix(".out.npz")) as elsewhere:
            results[name] = Saved(models[name], path, load(path), dict(elsewhere))
    return results


def inputs_for(model):
    """Test inputs with as many columns as the model was fitted to."""
    return np.resize(X_TEST, (7, len(model.x_mean_)))


def predictions_of(model):
    """What a model says of the test inputs."""
    inputs = inputs_for(model)
    mean_or_label = model.predict(inputs)
    if isinstance(model, SparsePEPClassifier):
        return model.predict_f(inputs), mean_or_label, model.predict_proba(inputs)
    return model.predict_f(inputs), mean_or_label, model.predict(inputs, return_std=True)


def saved_again(model, folder):
    model.save(folder / "again.npz")
    return load(folder / "again.npz")


COPIES = {
    "a file": lambda case, folder: case.loaded,
    "a file of that": lambda case, folder: saved_again(case.loaded, folder),
    "a pickle": lambda case, folder: pickle.loads(pickle.dumps(case.model)),
}


@pytest.fixture(params=SAVED)
def case(request, saved):
    """Each of the models in turn."""
    return saved[request.param]


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_predicts_the_same_bits(case, copy, tmp_path):
    model = case.model
    other = COPIES[copy](case, tmp_path)
    assert type(other) is type(model)
    assert_equal(predictions_of(other), predictions_of(model))


def test_another_process_predicts_the_same_bits(case):
    model, _, _, elsewhere = case
    inputs = inputs_for(model)
    assert_equal((elsewhere["mean"], elsewhere["var"]), model.predict_f(inputs))
    assert_equal(elsewhere["text"], np.array(model.predict(inputs)).astype(str))


def test_what_was_fitted_comes_back(case):
    model, _, loaded, _ = case
    assert_equal(loaded.parameters(), model.parameters())
    objects = ("kernel_", "features_", "mean_", "priors_", "diagnostics_")
    for attribute, value in vars(model).items():
        if attribute.endswith("_") and attribute not in objects:
            other = getattr(loaded, attribute)
            assert_equal((other, np.asarray(other).dtype), (value, np.asarray(value).dtype))
    assert_equal(vars(loaded._state.settings), vars(model._state.settings))
    assert repr(loaded.priors_) == repr(model.priors_)


def test_diagnostics_come_back_without_the_trace_of_parameters(case):
    model, _, loaded, _ = case
    expected = {key: value for key, value in model.diagnostics_.items() if key != "parameter_trace"}
    assert_equal(loaded.diagnostics_, expected)
    rows = {row for row in loaded.summary_rows() if row[0] != "advice"}
    assert rows <= set(model.summary_rows())


def test_what_the_user_adds_to_a_file_comes_back(case):
    assert_equal(case.loaded.extra_, EXTRA)


FITTED_ARGUMENTS = (
    "kernel random_state noise_variance likelihood mean priors training power blocks features"
).split()


def plain_arguments(model):
    """The arguments of a model, without those whose fitted values a file holds."""
    arguments = model.get_params(deep=False)
    return {key: value for key, value in arguments.items() if key not in FITTED_ARGUMENTS}


def test_arguments_come_back(case):
    model, _, loaded, _ = case
    expected = plain_arguments(model) | {"fixed": tuple(model.fixed)}
    assert_equal(plain_arguments(loaded), expected)
    assert repr(loaded.training) == repr(model.training)


def test_a_clone_has_the_arguments_and_no_fit(case):
    model, _, loaded, _ = case
    assert repr(clone(model)) == repr(model)
    assert not hasattr(clone(loaded), "kernel_")


@pytest.mark.parametrize("name", SAVED)
def test_a_pickle_has_the_data_unless_they_are_a_source(name, saved):
    model = saved[name].model
    again = pickle.loads(pickle.dumps(model))
    assert (again._state.training is not None) == (name != "a source")
    if name != "a source":
        assert_equal(again.leave_one_out(), model.leave_one_out())
        theta = vector_of(model)
        assert again.log_marginal_likelihood(theta) == model.log_marginal_likelihood(theta)


TRAINED = (
    "trained, weak priors, more points tried, a power held out, blocks, classes in blocks, "
    "neighbours, blocks nearby, trained counts, two parameters, a softmax, a noisy probit"
).split(", ")


@pytest.mark.parametrize("name", TRAINED)
def test_training_raises_the_evidence_to_that_of_the_model(name, saved):
    model = saved[name].model
    trace = model.diagnostics_["log_evidence_trace"]
    assert model.log_marginal_likelihood_value_ == pytest.approx(trace[-1], rel=SITE_TOL**2)
    assert trace[-1] > trace[0]


@pytest.mark.parametrize("name", ["neighbours", "blocks nearby"])
def test_local_prediction_is_kept_where_it_is_asked_for(name, saved):
    assert saved[name].model.diagnostics_["local"][:3] != "off"


class Trap:
    def __reduce__(self):
        return pytest.fail, ("an object was unpickled",)


@pytest.mark.parametrize("name", ["description", "array_0"])
def test_no_object_is_unpickled(name, tmp_path):
    fixed_model().save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as archive:
        np.savez(tmp_path / "model.npz", **dict(archive) | {name: np.array([Trap()], dtype=object)})
    with value_error("model.npz.*not a sparse_pep model"):
        load(tmp_path / "model.npz")


def test_labels_that_cannot_be_saved(tmp_path):
    model = classifier()
    state = model._state
    labels = np.array([(1,), (2, 3)], dtype=object)
    model._state = replace(state, encoder=replace(state.encoder, classes=labels))
    with value_error("text or numbers"):
        model.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


ONE_ROW = [
    {},
    {"n_inducing": "auto"},
    {"power": "held_out"},
    {"blocks": 1},
    {"local": "auto"},
    {"tight": True},
    {"training": Adam(n_epochs=2)},
]


@pytest.mark.parametrize(
    "options",
    [*ONE_ROW, {"training": None}, {"standardize": False}, {"priors": "weak"}, {"mean": "linear"}],
    ids=str,
)
def test_one_row_is_data_too(options):
    """With the mean, and with the size of the mean as the scale of the kernel and of the noise, as
    of any constant target.
    """
    size = abs(y[0])
    given = [(X[:1], y[:1]), (X[:2], y[:2], [1.0, 0.0]), (ArraySource(X[:1], y[:1]),)][
        : 2 if "blocks" in options else 3
    ]
    for rows in given:
        model = SparsePEPRegressor(random_state=0, **options).fit(*rows)
        mean, std = model.predict([X[0], X[0] + 1e9], return_std=True)
        assert model.n_samples_seen_ == 1
        assert "yes" in model.summary()
        assert np.allclose(std / size, np.sqrt([1.5, 2.0]))
        assert np.allclose(mean, y[0])
        assert np.isclose(model.leave_one_out()[0], -0.5 * np.log(4.0 * np.pi * size**2))


@pytest.mark.parametrize("value", [1e-6, 0.3, 1.0, -273.15, 1234.5678, 3.7e9])
@pytest.mark.parametrize("n", [7, 20])
def test_a_constant_target_has_the_size_of_its_value_as_scale_in_any_unit(value, n):
    """Also where the mean of the rows is not the value to the last digit."""
    model = SparsePEPRegressor(n_inducing=5, random_state=0)
    with user_warning("one value only"):
        model.fit(np.linspace(0.0, 1.0, n)[:, None], np.full(n, value))
    mean, std = model.predict([[0.5], [1e9]], return_std=True)
    assert_array_equal(mean, value)
    assert 1.0 < std[0] / abs(value) < std[1] / abs(value) < 1.5


@pytest.mark.parametrize(
    "name",
    [
        "poisson",
        "student_t",
        "heteroscedastic_gaussian",
        "tobit",
        "gamma",
        "weibull",
        "beta",
        "ordinal",
    ],
)
def test_one_row_and_rows_that_are_equal_are_fitted_with_any_likelihood(name):
    value = 0.25 if name == "beta" else 2.0
    for rows, targets in ((X[:1], [value]), (np.ones((8, 2)), [value, value / 2] * 4)):
        model = SparsePEP(likelihood=name, random_state=0).fit(rows, targets)
        assert np.ptp(model.predict(rows)) == 0.0
        assert np.all(np.isfinite([*model.predict(X, return_std=True)]))


def test_a_fit_that_fails_leaves_the_fit_before_it(monkeypatch):
    model = fixed_model(standardize=True)
    # fails late, when the lengthscales are seen not to fit
    before = vars(model).copy()
    wider = np.column_stack([X, X])
    for inputs in (np.where(X == X[5, 1], np.nan, X), wider):
        with pytest.raises(ValueError):
            model.fit(inputs, 100 * y)
        assert vars(model) == before

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(conclude, "model_evidence", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 100 * y)
    assert vars(model) == before


def test_fewer_data_than_inducing_points_warns_and_reduces(recwarn):
    again = np.vstack([X[:6]] * 3), np.tile(y[:6], 3)
    with user_warning("n_inducing.*reduced from 10 to 6.*6 distinct rows"):
        model = SparsePEPRegressor(n_inducing=10, training=None).fit(*again)
    assert len(model.features_) == 6
    assert model.q_mean_.shape == (6,)
    SparsePEPRegressor(n_inducing=6, training=None).fit(*again)
    assert not recwarn.list


@pytest.mark.parametrize("factor", [1e-140, 1e-100, 1e70, 1e100, 1e140])
def test_extreme_units_are_harmless_or_named(factor):
    options = {"n_inducing": 5, "training": LBFGS(max_iter=3, tol=10.0), "random_state": 0}
    plain, scaled = (
        SparsePEPRegressor(**options, standardize=True).fit(unit * X, unit * y)
        for unit in (1.0, factor)
    )
    assert_allclose(scaled.predict(factor * X_TEST) / factor, plain.predict(X_TEST), rtol=1e-6)
    for inputs, targets, words in ((factor * X, y, "column 0 of `X`"), (X, factor * y, "`y`")):
        with value_error(f"{words} spreads over .*give `standardize=True`"):
            SparsePEPRegressor(**options, standardize=False).fit(inputs, targets)


CONSTANT = [
    {},
    {"standardize": False},
    {"power": "held_out"},
    {"training": "adam"},
    {"mean": "linear"},
    {"blocks": 5},
]


@pytest.mark.parametrize("arguments", CONSTANT, ids=str)
def test_a_constant_is_predicted_everywhere(arguments):
    with user_warning(r"`y` has one value only \(5.1 in all 40 rows\)"):
        model = SparsePEPRegressor(**{"n_inducing": 5, "random_state": 0} | arguments).fit(
            X, np.full(40, 5.1)
        )
    assert np.allclose(model.predict([*X_TEST, [900.0, 0.0]]), 5.1, rtol=1e-14)
    assert model.converged_
    assert model.diagnostics_["message"] == "nothing was trained"
    assert model.summary()


@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEP])
@pytest.mark.parametrize("standardize", [False, True])
def test_errors_of_a_constant_are_in_its_units(kind, standardize):
    stds = []
    for unit in (1.0, 1e-3):
        model = kind(n_inducing=5, standardize=standardize, random_state=0)
        if kind is SparsePEP:
            model.set_params(likelihood="student_t")
        with user_warning("nothing tells how far new values are"):
            model.fit(X, np.full(40, 5.1 * unit))
        stds.append(model.predict(X_TEST, return_std=True)[1] / unit)
    assert np.allclose(*stds, rtol=1e-9)
    assert np.all((stds[0] > 2.0) & (stds[0] < 10.0))


def test_constants_that_are_modelled_as_given():
    with user_warning("`y` has one value only"):
        model = fixed_model(np.full(40, 5.0))  # the prior's mean is 0, as was asked for
    assert np.mean(model.predict(X)) > 3.0
    assert abs(model.predict([[900.0, 0.0]])[0]) < 1e-6
    with user_warning("column 1 of `y` has one value only"):
        both = quick(targets=np.column_stack([y, np.full(40, 3.0)]), standardize=True)
    assert np.allclose(both.predict(X)[:, 1], 3.0, rtol=1e-12)
    assert both.n_iter_ > 0


def test_folds_without_an_event_are_scored():
    model = SparsePEP(
        likelihood="poisson", n_inducing=5, training=LBFGS(max_iter=5, tol=1.0), random_state=0
    )
    events = np.repeat([0, 1], [35, 5])
    scores = cross_val_score(model, X, events, cv=KFold(5), error_score="raise")
    assert np.all(np.isfinite(scores))
    assert np.all(model.fit(X, np.zeros(40)).predict(X) < 0.6)


UNITS = np.array([1e3, 0.02])
SHIFT = np.array([-7.0, 300.0])
SCALED = {
    "regressor": (SparsePEPRegressor, 1e4 + 50 * y, LBFGS(max_iter=2)),
    "adam": (SparsePEPRegressor, 1e4 + 50 * y, Adam(n_epochs=2)),
    "classifier": (SparsePEPClassifier, SIDE, None),
    "counts": (partial(SparsePEP, likelihood="poisson"), SIDE, LBFGS(max_iter=2)),
}


class Scaled(NamedTuple):
    """A model that standardises, its data, and the model of the data of a scaler."""

    model: SparsePEP
    inputs: np.ndarray
    targets: np.ndarray
    plain: SparsePEP
    plain_inputs: np.ndarray
    plain_targets: np.ndarray

    @property
    def tests(self):
        """Test inputs in the user's units, and in those of the scaler."""
        inputs = UNITS * X_TEST + SHIFT
        return inputs, (inputs - self.model.x_mean_) / self.model.x_scale_


@cache
def scaled(name):
    kind, targets, training = SCALED[name]
    given = ADAM | {"training": training}
    inputs = UNITS * X + SHIFT
    model = kind(**given, standardize=True).fit(inputs, targets)
    plain_inputs = (inputs - model.x_mean_) / model.x_scale_
    plain_targets = targets
    if kind is SparsePEPRegressor:
        plain_targets = (targets - model.y_mean_) / model.y_scale_
    plain = kind(**given, standardize=False).fit(plain_inputs, plain_targets)
    return Scaled(model, inputs, targets, plain, plain_inputs, plain_targets)


each_scaled = pytest.mark.parametrize("name", SCALED)


@each_scaled
def test_units_are_those_of_a_scaler(name):
    model, inputs, targets, *_ = scaled(name)
    assert_allclose(model.x_mean_, inputs.mean(axis=0), rtol=1e-12)
    assert_allclose(model.x_scale_, inputs.std(axis=0), rtol=1e-12)
    regression = isinstance(model, SparsePEPRegressor)
    units = (targets.mean(), targets.std()) if regression else (0.0, 1.0)
    assert_allclose((model.y_mean_, model.y_scale_), units, rtol=1e-12)


@each_scaled
def test_functions_and_draws_are_in_the_units_of_the_user(name):
    model, _, _, plain, _, _ = case = scaled(name)
    assert model.log_marginal_likelihood_value_ == plain.log_marginal_likelihood_value_
    ours, theirs = case.tests
    mean, variance = model.predict_f(ours)
    plain_mean, plain_variance = plain.predict_f(theirs)
    assert_array_equal(mean, model.y_mean_ + model.y_scale_ * plain_mean)
    assert_array_equal(variance, model.y_scale_**2 * plain_variance)
    draws = model.y_mean_ + model.y_scale_ * plain.sample_f(theirs, 3)
    assert_array_equal(model.sample_f(ours, 3), draws)
    rounding = 1e-12 * isinstance(model, SparsePEPRegressor)
    draws = model.y_mean_ + model.y_scale_ * plain.sample_y(theirs, 3)
    assert error(model.sample_y(ours, 3), draws) <= rounding


@each_scaled
def test_densities_have_the_jacobian_of_the_units(name):
    model, inputs, targets, plain, plain_inputs, plain_targets = scaled(name)
    rounding = 1e-12 * isinstance(model, SparsePEPRegressor)
    jacobian = np.log(model.y_scale_)
    assert error(model.leave_one_out(), plain.leave_one_out() - jacobian) <= rounding
    density = plain.predict_log_density(plain_inputs, plain_targets) - jacobian
    assert error(model.predict_log_density(inputs, targets), density) < 1e-11


@pytest.mark.parametrize("name", ["regressor", "adam"])
def test_deviations_are_in_the_units_of_the_user(name):
    model, _, _, plain, _, _ = case = scaled(name)
    ours, theirs = case.tests
    scale = model.y_scale_
    _, std = model.predict(ours, return_std=True)
    _, cov = model.predict(ours, return_cov=True)
    assert error(std, scale * plain.predict(theirs, return_std=True)[1]) < 1e-12
    assert error(cov, scale**2 * plain.predict(theirs, return_cov=True)[1]) < 1e-12


@each_scaled
def test_later_data_are_scaled_like_the_first(name):
    model, inputs, targets, plain, plain_inputs, plain_targets = copy.deepcopy(scaled(name))
    model.partial_fit(inputs[30:], targets[30:])
    plain.partial_fit(plain_inputs[30:], plain_targets[30:])
    assert model.log_marginal_likelihood_value_ == plain.log_marginal_likelihood_value_


def test_what_takes_inputs_takes_them_in_their_own_units():
    own = np.column_stack([UNITS * X + SHIFT, np.full(40, 1e6)])
    model = SparsePEPRegressor(n_inducing=5, training=None, standardize=True, random_state=0).fit(
        own, y
    )
    assert model.x_scale_[2] == 1.0
    assert model.x_mean_[2] == 1e6
    assert np.all(model.features_.Z[:, 2] == 0.0)
    assert_allclose(
        model.add_inducing(own[7:8]).features_.Z[-1], (own[7] - model.x_mean_) / model.x_scale_
    )
    assert_array_equal(fixed_model().x_mean_, [0.0, 0.0])
    assert_array_equal(fixed_model().x_scale_, [1.0, 1.0])


@cache
def reported(name, power=0.5):
    """A fitted model that is asked about itself."""
    if name == "regression":
        return fixed_model(power=np.linspace(0, 1, 40))
    if name == "counts":
        return counts()
    return classifier(THIRD if name == "softmax" else SIDE, power=power, likelihood=name)


CLASSIFIERS = ["probit", "logit", "noisy_probit", "softmax"]
each_classifier = pytest.mark.parametrize(
    "likelihood, power", [(name, power) for name in CLASSIFIERS for power in (0.0, 0.5, 1.0)]
)


@pytest.mark.parametrize(
    "name, power",
    [("regression", 0.5), ("counts", 0.5), *each_classifier.args[1]],
)
def test_q_is_the_prediction_at_the_inducing_points(name, power):
    model = reported(name, power)
    shape = (3,) if name == "softmax" else ()
    assert model.q_mean_.shape == (*shape, 6)
    assert model.q_cov_.shape == (*shape, 6, 6)
    assert model.site_shift_.shape == (*shape, 40)
    assert model.site_precision_.shape == (*shape, *model.site_shift_.shape)
    mean, var = model.predict_f(model.features_.Z)
    assert error(mean.T, model.q_mean_) < 1e-6
    assert error(var.T, np.diagonal(model.q_cov_, axis1=-2, axis2=-1)) < 1e-6


def test_the_covariance_of_predictions_has_their_deviations():
    model = reported("regression")
    mean, std = model.predict(X_TEST, return_std=True)
    joint_mean, cov = model.predict(X_TEST, return_cov=True)
    assert error(joint_mean, mean) < 1e-12
    assert error(np.sqrt(np.diag(cov)), std) < 1e-12
    assert np.linalg.eigvalsh(cov)[0] > 0.1 * (1 - 1e-10)


def test_a_target_is_the_function_and_noise_and_scored_by_the_explained_variance():
    """And a site is at its target."""
    model = reported("regression")
    mean, std = model.predict(X_TEST, return_std=True)
    f_mean, f_var = model.predict_f(X_TEST)
    assert_array_equal(f_mean, mean)
    assert error(f_var + 0.1, std**2) < 1e-14
    density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((1.0 - mean) / std) ** 2
    assert error(model.predict_log_density(X_TEST, np.ones(7)), density) < 1e-13
    explained = 1 - np.mean((y - model.predict(X)) ** 2) / np.var(y)
    assert model.score(X, y) == pytest.approx(explained, rel=1e-12)
    assert error(model.site_shift_, model.site_precision_ * y) < 1e-15


def test_draws_of_targets_have_the_moments_of_predictions():
    model = reported("regression")
    draws, again = (model.sample_y(X_TEST, 20_000, random_state=1) for _ in range(2))
    assert_array_equal(draws, again)
    mean, cov = model.predict(X_TEST, return_cov=True)
    std = np.sqrt(np.diag(cov))
    assert np.max(np.abs(draws.mean(1) - mean) / std) < 5 / np.sqrt(20_000)
    assert np.max(np.abs(np.cov(draws) - cov)) < 6 / np.sqrt(20_000) * np.max(cov)


def test_counts_and_draws_of_them_have_the_moments_of_their_rate():
    model = reported("counts")
    mean, std = model.predict(X_TEST, return_std=True)
    f_mean, f_var = model.predict_f(X_TEST)
    assert error(mean, np.exp(f_mean + 0.5 * f_var)) < 1e-14
    assert np.all(std > np.sqrt(mean))
    assert_array_equal(model.predict(X_TEST), mean)
    draws = model.sample_y(X_TEST, 20_000, random_state=1)
    assert np.max(np.abs(draws.mean(1) - mean) / std) < 6 / np.sqrt(20_000)
    assert np.all(draws == np.round(draws))


def test_probabilities_of_counts_add_up_to_their_mean_and_are_the_score():
    model = reported("counts")
    grid = np.arange(2000.0)
    density = np.array(
        [np.exp(model.predict_log_density(x[None].repeat(2000, 0), grid)) for x in X_TEST[:2]]
    )
    assert error(density.sum(1), np.ones(2)) < 1e-6
    assert error(density @ grid, model.predict(X_TEST[:2])) < 1e-5
    assert model.score(X, COUNTS) == np.mean(model.predict_log_density(X, COUNTS))


@each_classifier
def test_latent_functions_have_a_mean_and_a_variance(likelihood, power):
    mean, var = reported(likelihood, power).predict_f(X_TEST)
    assert mean.shape == var.shape == ((7, 3) if likelihood == "softmax" else (7,))
    assert np.all(var > 0)


@each_classifier
def test_probabilities_add_up_and_give_odds_and_labels_that_are_mostly_right(likelihood, power):
    model = reported(likelihood, power)
    probability = model.predict_proba(X_TEST)
    assert probability.shape == (7, len(model.classes_))
    assert error(probability.sum(1), np.ones(7)) < 1e-9
    odds = np.log(probability)
    if likelihood != "softmax":
        odds = odds[:, 1] - odds[:, 0]
    assert error(model.decision_function(X_TEST), odds) < 1e-6
    assert error(np.exp(model.predict_log_proba(X_TEST)), probability) < 1e-7
    labels = THIRD if likelihood == "softmax" else SIDE
    assert model.score(X, labels) > 0.8
    assert_array_equal(model.predict(X_TEST), model.classes_[probability.argmax(1)])


@each_classifier
def test_draws_of_labels_have_their_probabilities(likelihood, power):
    model = reported(likelihood, power)
    draws = model.sample_y(X_TEST, 4000, random_state=1)
    share = np.mean(draws[..., None] == model.classes_, axis=1)
    assert np.max(np.abs(share - model.predict_proba(X_TEST))) < 0.04


@each_classifier
def test_a_classifier_says_how_its_sites_were_found(likelihood, power):
    model = reported(likelihood, power)
    diagnostics = model.diagnostics_
    assert model.converged_
    assert diagnostics["largest_site_change"] <= 1e-8
    assert diagnostics["sweeps_last"] > 0
    assert {"quadrature_error", "smallest_step"} <= set(diagnostics)
    assert (diagnostics["smallest_cavity"] == 1.0) == (power == 0.0)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_kind_change_names_only(name, several):
    kinds = LABELS[name]
    index = THIRD if several and name != "bools" else SIDE
    model = classifier(kinds[index])
    plain = classifier(index)
    assert_array_equal(model.classes_, np.unique(kinds[index]))
    assert model.classes_.dtype == kinds.dtype
    assert_array_equal(model.predict_proba(X_TEST), plain.predict_proba(X_TEST))
    assert_array_equal(model.predict(X_TEST), kinds[plain.predict(X_TEST)])
    log_density = model.predict_log_density(X, kinds[index])
    assert error(log_density, model.predict_log_proba(X)[np.arange(40), index]) < 1e-14
    assert model.score(X, kinds[index]) == np.mean(plain.predict(X) == index)
    assert set(np.unique(model.sample_y(X_TEST, 20))) <= set(kinds)


def test_likelihoods_have_names():
    for name, kinds in {"auto": (Probit, Softmax), "logit": (Logit, Softmax)}.items():
        assert [type(classifier_likelihood(name, n_classes)) for n_classes in (2, 3)] == list(kinds)
    assert classifier(SIDE, likelihood="softmax").predict_proba(X_TEST).shape == (7, 2)
    assert classifier(SIDE, likelihood=NoisyProbit(0.2)).likelihood_ == NoisyProbit(0.2)
    for name in ("NegativeBinomial", "negative_binomial", "negative-binomial"):
        assert type(likelihood_named(name, LIKELIHOODS)) is NegativeBinomial


def test_a_kernel_that_is_given_keeps_the_units_of_the_data():
    years = np.linspace(1990.0, 2000.0, 120)
    targets = 340.0 + 5.0 * np.sin(2.0 * np.pi * years)
    given = {"kernel": Periodic(4.0, 1.0, period=1.0), "n_inducing": 12, "random_state": 0}
    model = SparsePEPRegressor(standardize=True, **given).fit(years[:, None], targets)
    assert model.kernel_.period == pytest.approx(1.0, abs=1e-3)
    assert model.x_scale_ == model.y_scale_ == 1.0
    assert model.x_mean_ == pytest.approx(1995.0)
    assert model.y_mean_ == pytest.approx(340.0, abs=0.1)
    assert model.predict([[2003.25]]) == pytest.approx(345.0, abs=0.5)


def test_the_recipe_of_the_gallery_continues_carbon_dioxide():
    datasets = pytest.importorskip("statsmodels.api").datasets
    values = datasets.co2.load_pandas().data["co2"].resample("MS").mean().dropna()
    years = np.asarray(values.index.year + (values.index.month - 0.5) / 12.0)[:, None]
    y = values.to_numpy()
    earlier = years[:, 0] < years[-1, 0] - 10.0
    season = Periodic(1.0, 1.0, period=1.0) * SquaredExponential(1.0, 50.0)
    model = SparsePEPRegressor(
        kernel=Matern52(100.0, 50.0) + season + RationalQuadratic(1.0, 1.0),
        fixed=["kernel.1.0.log_period", "kernel.1.1.log_variance"],
        n_inducing=80,
        noise_variance=0.1,
        standardize=True,
        random_state=0,
    ).fit(years[earlier], y[earlier])
    low, high = model.predict_interval(years[~earlier])
    later = y[~earlier]
    assert np.sqrt(np.mean((model.predict(years[~earlier]) - later) ** 2)) < 1.2
    assert np.mean((low <= later) & (later <= high)) >= 0.75


@pytest.mark.parametrize("standardize", [False, True])
def test_gaussian_noise_is_the_regressor(standardize):
    given = KEPT | {"standardize": standardize}
    ours = SparsePEP(likelihood=Gaussian(0.1), **given).fit(X, y)
    theirs = fixed_model(standardize=standardize)
    assert ours.log_marginal_likelihood_value_ == theirs.log_marginal_likelihood_value_
    for a, b in zip(
        ours.predict(X_TEST, return_std=True), theirs.predict(X_TEST, return_std=True), strict=True
    ):
        assert error(a, b) < 1e-14
    assert_array_equal(ours.site_precision_, theirs.site_precision_)
    assert ours.score(X, y) == np.mean(theirs.predict_log_density(X, y))


SLOPES = {  # model, step of the differences, tolerance
    "trained": (SAVED["trained"], 1e-4, 1e-5),
    "composite": (
        lambda: fixed_model(kernel=KERNEL + Linear(0.2) * Matern32(0.5, 1.0)),
        1e-4,
        1e-5,
    ),
    "probit": (classifier, 1e-3, 1e-6),
    "softmax": (lambda: classifier(THIRD), 1e-3, 1e-6),
    "blocks": (SAVED["blocks"], 1e-4, 1e-5),
}


@pytest.mark.parametrize("case", SLOPES)
def test_evidence_and_gradient(case):
    """The gradient of the evidence along a random direction is that of central differences."""
    make, h, tolerance = SLOPES[case]
    model = make()
    theta = vector_of(model)
    names = list(model.parameters())
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-10)
    assert model.log_marginal_likelihood() == model.log_marginal_likelihood_value_
    by_name = model.log_marginal_likelihood_gradient()
    assert list(by_name) == names
    assert error(to_vector(by_name), gradient, 1 + np.max(np.abs(gradient))) < 1e-6
    if case == "composite":
        own = (
            "0.log_variance 0.log_lengthscale 1.0.log_variance 1.1.log_variance 1.1.log_lengthscale"
        )
        of_kernel = [f"kernel.{name}" for name in own.split()]
        assert names == [*of_kernel, "log_noise_variance", "features.Z"]
    direction = RNG.normal(size=len(theta))
    direction /= np.linalg.norm(direction)
    moved = [model.log_marginal_likelihood(theta + k * h * direction) for k in (1, -1, 2, -2)]
    numeric = (8 * (moved[0] - moved[1]) - (moved[2] - moved[3])) / (12 * h)
    assert abs(numeric - gradient @ direction) < tolerance * (1 + np.linalg.norm(gradient))


def test_jitter_and_what_is_unexplained_are_reported():
    bare = fixed_model(jitter=0.0)
    more = fixed_model(jitter=1e-5)
    needed = fixed_model(jitter=0.0, features=InducingPoints(np.vstack([X[:6]] * 3)))
    jitters = [model.diagnostics_["jitter"] for model in (bare, needed, more)]
    assert jitters[0] == 0.0 < jitters[1] <= 1e-8 < jitters[2] == 1e-5
    assert error(needed.log_marginal_likelihood_value_, bare.log_marginal_likelihood_value_) < 1e-6
    explained = np.sum(KERNEL(X[:6], X) * np.linalg.solve(KERNEL(X[:6]), KERNEL(X[:6], X))) / (
        40 * 1.2
    )
    assert bare.diagnostics_["unexplained_share"] == pytest.approx(1.0 - explained, rel=1e-9)


def test_bounds_hold_the_exact_evidence_between_them():
    model = fixed_model(power=1.0)
    K = KERNEL(X) + 0.1 * np.eye(40)
    low, high = model.log_marginal_likelihood_bounds()
    assert (
        low
        < -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 40 * np.log(2 * np.pi))
        < high
    )
    assert low == pytest.approx(
        fixed_model(power=0.0, tight=True).log_marginal_likelihood_value_, rel=1e-10
    )
    assert f"exact GP lies between   {low:.2f} and {high:.2f}" in model.summary()
    assert (
        np.ptp(
            fixed_model(features=InducingPoints(X[:38]), power=0.0).log_marginal_likelihood_bounds()
        )
        < 0.4
    )


@pytest.mark.parametrize("name, outputs", [("gaussian", 1), ("gaussian", 2), ("student_t", 1)])
def test_a_mean_alone_is_the_one_beside_a_deviation_and_takes_no_variance(
    name, outputs, monkeypatch
):
    rng = default_rng(4)
    X = rng.uniform(size=(60, 2))
    columns = [7.0 + np.sin(5.0 * x) for x in rng.uniform(size=(outputs, 60))]
    kind = SparsePEPRegressor() if name == "gaussian" else SparsePEP(likelihood=name)
    kind.set_params(n_inducing=9, training=None, standardize=True)
    model = kind.fit(X, np.stack(columns, axis=1) if outputs > 1 else columns[0])
    tests = rng.uniform(size=(7000, 2))  # several chunks
    mean, _ = model.predict(tests, return_std=True)
    monkeypatch.setattr("sparse_pep.model.predict_f", None)
    assert_allclose(model.predict(tests), mean, rtol=1e-10)
    assert_allclose(model.predict(tests[:1].tolist()), mean[:1], rtol=1e-10)
    assert_allclose(model.predict(ArraySource(tests, piece_rows=3000)), mean, rtol=1e-10)


def test_without_training_every_parameter_is_kept():
    model = fixed_model()
    unset = SparsePEPRegressor(training=None, n_inducing=5).fit(X, y)
    assert (model.kernel_, model.noise_variance_) == (KERNEL, 0.1)
    assert (model.converged_, model.n_iter_) == (True, 0)
    assert_array_equal(model.features_.Z, X[:6])
    assert_array_equal(unset.kernel_.lengthscale, [1.0, 1.0])
    assert unset.kernel_.variance == unset.noise_variance_ == 1.0
    assert fixed_model(power="log_loss").partial_fit(X, y).power_ == 0.8


@pytest.mark.parametrize(
    "more", [{}, {"training": Adam(max_time=1e-9)}, {"power": "held_out"}], ids=str
)
def test_time_limits_the_whole_fit_and_the_model_says_so(more, monkeypatch):
    maximise = run.maximise
    runs = []
    monkeypatch.setattr(run, "maximise", lambda *given: runs.append(maximise(*given)) or runs[-1])
    model = SparsePEPRegressor(
        **{"n_inducing": 5, "training": LBFGS(max_time=1e-9), "random_state": 0} | more
    )
    for name in ("fit", "partial_fit"):
        with pytest.warns(
            ConvergenceWarning, match=r"the limit of 1e-09 s was reached .*; raise `max_time`"
        ):
            getattr(model, name)(X, y)
        assert (model.converged_, model.n_iter_) == (False, 1)
    assert all(run.n_iter == 1 for run in runs)
    for words in ("NO: the limit of 1e-09 s was reached after 1", "raise `max_time`"):
        assert words in model.summary()


def test_warnings_point_at_the_line_that_asked(recwarn):
    SparsePEPRegressor(**BRIEF).fit(X, y)
    SparsePEPRegressor(n_inducing=90, training=None).fit(X, y)
    SparsePEPRegressor(n_inducing=3, training=None).fit(X, y).partial_fit(X, y)
    assert [warning.filename for warning in recwarn] == [__file__] * 2


def test_inference_that_does_not_converge_is_said(monkeypatch):
    def impatient(*arguments, **named):
        return ended(model_evidence(*arguments, **named), converged=False, change=0.5)

    monkeypatch.setattr(conclude, "model_evidence", impatient)
    with pytest.warns(ConvergenceWarning, match="inference did not converge.*0.5"):
        assert not classifier().converged_


def test_starts_reach_the_data():
    def start(kind, targets, *more, **arguments):
        fixed = ["kernel.log_variance", "kernel.log_lengthscale", *more]
        return quick(kind, targets, 1, n_inducing=4, fixed=fixed, **arguments)

    assert start(SparsePEPClassifier, SIDE).kernel_.variance == pytest.approx(1.0)
    logs = np.log(1000.5 + COUNTS)
    many = start(SparsePEP, 1000 + COUNTS, likelihood="poisson", mean="zero").kernel_
    assert many.variance == pytest.approx(np.mean(logs**2))
    many = start(SparsePEP, 1000 + COUNTS, "mean.intercept", likelihood="poisson")
    level = np.log(1000 + np.mean(COUNTS))
    assert many.mean_.intercept == pytest.approx(level)
    assert many.kernel_.variance == pytest.approx(np.mean((logs - level) ** 2))
    outlier = start(
        SparsePEP, np.append(1e4, y[1:]), "log_scale", likelihood="student_t", standardize=False
    )
    assert 0.1 < outlier.kernel_.variance < 2.0
    assert outlier.likelihood_.scale**2 <= outlier.kernel_.variance * (1 + 1e-12)


@pytest.mark.parametrize("rows", [19, 20])
@pytest.mark.parametrize(
    "start", [{}, {"kernel": "matern32"}, {"training": None}, {"kernel": KERNEL}], ids=str
)
def test_ten_rows_for_each_input_have_lengthscales_of_their_own(start, rows):
    own = {}
    for ard in (True, False, "auto"):
        given = {"n_inducing": 3, "training": LBFGS(max_iter=1, tol=1e6), "ard": ard} | start
        own[ard] = SparsePEPRegressor(**given).fit(X[:rows], y[:rows]).kernel_.lengthscale.ndim == 1
    taken = isinstance(start.get("kernel"), SquaredExponential)
    assert own == {True: True, False: taken, "auto": taken or rows == 20}


def test_a_fit_does_not_change_with_the_arguments():
    """What later calls need is kept: `set_params` is for the next fit."""
    model = fixed_model(jitter=1e-8)
    theta = vector_of(model)

    def told():
        evidence = model.log_marginal_likelihood(theta, eval_gradient=True)
        return evidence, model.summary(), model.predict(X_TEST)

    before = told()
    model.set_params(jitter=0.1, training="adam", blocks=4, n_inducing=2)
    assert_equal(told(), before)
    assert np.all(np.isfinite(model.leave_one_out()))
    more = fixed_model(features=InducingPoints(X[:8])).log_marginal_likelihood_value_
    assert model.add_inducing(X[6:8]).log_marginal_likelihood_value_ == more


@pytest.mark.parametrize("kind, targets", [(SparsePEPRegressor, y), (SparsePEPClassifier, SIDE)])
def test_summary_says_what_was_fitted_and_how_it_ended(kind, targets):
    model = quick(kind, targets, power=0.25)
    text = model.summary()
    told = model.diagnostics_
    unexplained = f"{told['unexplained_share']:.1%}"
    for words in (kind.__name__, "0.25", "5 InducingPoints", "NO: ", unexplained):
        assert words in text
    assert 0.0 < told["determined_directions"] <= 5.0
    assert ("quadrature error" in text) == (kind is SparsePEPClassifier)
    with pytest.raises(NotFittedError):
        kind().summary()


def close_points(number):
    """A model whose inducing points nearly coincide."""
    places = X[:1] + 1e-9 * default_rng(0).normal(size=(number, 2))
    return fixed_model(features=InducingPoints(places))


def wide(n_lengthscales, **arguments):
    inputs = np.tile(X, 30) + default_rng(0).normal(size=(40, 60))
    model = SparsePEPRegressor(
        **{"n_inducing": 3, "training": LBFGS(max_iter=2), "random_state": 0} | arguments
    ).fit(inputs, y)
    assert model.diagnostics_["n_lengthscales"] == n_lengthscales
    return model


def level(kind, targets):
    kernel = SquaredExponential(4.0, [1e4, 1e4])
    fixed = ["kernel.log_variance", "kernel.log_lengthscale"]
    model = kind(kernel=kernel, fixed=fixed, n_inducing=5, random_state=0).fit(X, targets)
    assert model.diagnostics_["determined_directions"] < 1.0
    assert not model.diagnostics_["learned_nothing"]
    return model


def curve(noise="plain", n_inducing=20, fit=None):
    """A model of a sine in noise of this kind, fitted in this way."""
    rng = default_rng(1)
    x = rng.uniform(-3.0, 3.0, (400, 1))
    z = rng.standard_t(3, 400) if noise == "heavy" else rng.normal(size=400)
    targets = np.sin(2.0 * x[:, 0]) + (np.exp(x[:, 0] - 1.0) if noise == "varying" else 0.2) * z
    model = SparsePEPRegressor(
        kernel=SquaredExponential(1.0, 1.0),
        noise_variance=0.04,
        n_inducing=n_inducing,
        training=None,
        random_state=0,
    )
    if fit == "source":
        return model.fit(ArraySource(x, targets))
    return (
        model.fit(x[:200], targets[:200]).partial_fit(x[200:], targets[200:])
        if fit == "later"
        else model.fit(x, targets)
    )


FAR = InducingPoints(np.linspace(500.0, 600.0, 5)[:, None] * [1.0, 1.0])
LOST = ["nothing was learned", "to the prior"]
LENGTHSCALES = (
    "60 lengthscales were trained on 40 rows, too few to determine them: use one for all "
    "inputs (`ard='auto'`"
)
ADVICE = {  # model, words of its summary, words that are not there
    "the prior": (
        lambda: SparsePEPRegressor(features=FAR, fixed=["features.Z"]).fit(X, y),
        ["yes, but to the prior", "nothing was learned"],
        [],
    ),
    "a level": (lambda: level(SparsePEPRegressor, np.tile([4.0, 6.0], 20)), [], LOST),
    "a rare class": (lambda: level(SparsePEPClassifier, np.repeat([0, 1], [38, 2])), [], LOST),
    "counts alike": (
        lambda: level(partial(SparsePEP, likelihood="poisson"), np.tile([6, 8], 20)),
        [],
        LOST,
    ),
    "points too alike": (
        lambda: close_points(50),
        ["100% of the inducing points nearly coincide"],
        ["`n_inducing`"],
    ),
    "points apart": (fixed_model, [], ["nearly coincide"]),
    "too few points": (lambda: fixed_model(power=1.0), ["a larger `n_inducing`"], []),
    "enough points": (
        lambda: fixed_model(features=InducingPoints(X[:38]), power=0.0),
        [],
        ["advice"],
    ),
    "plain noise": (curve, [], ["`n_inducing` is likely", "SparsePEP("]),
    "heavy tails": (
        lambda: curve("heavy"),
        ["heavy tails: `SparsePEP(likelihood='student_t')`"],
        ["heteroscedastic", "larger"],
    ),
    "varying noise": (
        lambda: curve("varying"),
        ["inputs: `SparsePEP(likelihood='heteroscedastic_gaussian')`"],
        ["student_t", "larger"],
    ),
    "twice as many": (
        lambda: curve(n_inducing=4),
        ["a larger `n_inducing` is likely to predict better: 8 raise"],
        ["smaller", "may help"],
    ),
    "a source": (lambda: curve("varying", fit="source"), [], ["SparsePEP("]),
    "an update": (lambda: curve("varying", fit="later"), [], ["SparsePEP("]),
    "lengthscales": (lambda: wide(60), [LENGTHSCALES], []),
    "lengthscales, Adam": (lambda: wide(60, training=Adam(n_epochs=1)), [LENGTHSCALES], []),
    "one lengthscale": (
        lambda: wide(1, kernel=SquaredExponential(1.0, 1.0)),
        [],
        ["too few to determine"],
    ),
    "fixed lengthscales": (
        lambda: wide(0, fixed=["kernel.log_lengthscale"]),
        [],
        ["too few to determine"],
    ),
}


@pytest.mark.parametrize("case", ADVICE)
def test_summaries_advise_where_there_is_reason(case, tmp_path):
    """And do not contradict themselves, also when a model comes from a file."""
    make, there, absent = ADVICE[case]
    model = make()
    model.save(tmp_path / "model.npz")
    texts = [model.summary(), load(tmp_path / "model.npz").summary()]
    # which take the training data
    for text in texts[: 1 if "n_inducing`" in str(there) or "SparsePEP(" in str(there) else 2]:
        assert all(words in text for words in there)
        assert not any(words in text for words in absent)


def test_a_block_size_makes_blocks_of_neighbours():
    model = fixed_model(blocks=4, power=1.0)
    assert np.bincount(model._state.settings.blocks).max() <= 4
    spread = [
        np.ptp(X[model._state.settings.blocks == b], axis=0).max()
        for b in np.unique(model._state.settings.blocks)
    ]
    assert np.median(spread) < 0.5 * np.ptp(X)
    each, alone = (
        fixed_model(**given, power=1.0).log_marginal_likelihood_value_
        for given in ({"blocks": 1}, {})
    )
    assert each == pytest.approx(alone, rel=1e-10)
    assert_allclose(model.site_precision_, 10.0)  # sites within blocks are those of f
    assert_allclose(model.site_shift_, 10.0 * y)


def test_neighbours_have_one_weight_and_one_power():
    weight = np.resize([1.0, 2.0, 2.0], 40)
    power = np.where(X[:, 0] > 0.0, 1.0, 0.3)
    model = SparsePEPRegressor(**KEPT, blocks=4, power=power, random_state=0).fit(X, y, weight)
    partition = Partition(model._state.settings.blocks)
    assert_array_equal(partition.shared(weight, "weight"), weight)
    assert_array_equal(partition.shared(model.power_, "power"), power)
    assert 2 < np.mean(partition.sizes)
    assert partition.sizes.max() <= 4
    same = SparsePEPRegressor(**KEPT, blocks=partition.labels, power=power).fit(X, y, weight)
    assert model.log_marginal_likelihood_value_ == same.log_marginal_likelihood_value_


@pytest.mark.parametrize(
    "epochs, tol, words",
    [(12, 1e-9, "gained .*raise `n_epochs`"), (4, 10.0, "4 epochs are too few"), (12, 10.0, "")],
)
def test_adam_says_whether_it_was_still_rising_and_shows_progress_if_asked(
    epochs, tol, words, capfd, recwarn
):
    model = SparsePEPRegressor(
        **(ADAM | {"training": Adam(n_epochs=epochs, tol=tol)}), verbose=epochs > 4
    ).fit(X, y)
    said = [str(warning.message) for warning in recwarn]
    assert (
        (re.search(words, said[0]) and not model.converged_)
        if words
        else (model.converged_ and not said)
    )
    assert ("objective per data point" in capfd.readouterr().err) == (epochs > 4)


@pytest.mark.parametrize("width, noise", [(1e-5, 0.1), (1e-9, 0.0)])
def test_fractions_in_a_narrow_band(width, noise):
    rng = default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    y = 0.5 + width * (f + noise * rng.normal(size=60))
    training = LBFGS(max_iter=30)
    model = SparsePEP(likelihood="beta", n_inducing=12, random_state=0, training=training).fit(X, y)
    # hundreds of sweeps if the quadrature is lost in rounding errors
    assert model.diagnostics_["n_sweeps"] < 200
    assert model.likelihood_.concentration > 100.0 / width


@pytest.mark.parametrize(
    "likelihood, side, words",
    [("weibull", -1.0, "a value is larger"), (Tobit(low=1e3), 1.0, "a value is smaller")],
    ids=["durations", "cut off"],
)
def test_targets_of_which_none_was_measured(likelihood, side, words):
    X = RNG.uniform(size=(30, 1))
    y = side * np.exp(X[:, 0])
    model = SparsePEP(likelihood=likelihood, n_inducing=5, random_state=0)
    with value_error(f"`y`: none of the 30 targets was measured.*{words}"):
        model.fit(X, y)
    assert np.all(np.isfinite(model.set_params(training=None).fit(X, y).predict(X)))
    y[0] = 1e4 if side > 0 else 1.0
    model.set_params(training=LBFGS(max_iter=2)).fit(X, y)


@pytest.mark.parametrize(
    "kind, X, y, words",
    [
        (SparsePEPRegressor, np.ones((6, 2, 3)), np.ones(6), "has 6 inputs: .np.reshape.X, .6, -1"),
        (SparsePEPClassifier, np.ones((6, 2)), np.arange(6) / 7, "Unknown label.*use SparsePEPReg"),
    ],
)
def test_shapes_and_targets_that_belong_elsewhere(kind, X, y, words):
    with value_error(words):
        kind().fit(X, y)


@pytest.mark.parametrize(
    "y, words", [([True, False] * 3, "True and False"), (["1", "2"] * 3, "tex")]
)
def test_targets_that_look_like_labels_are_fitted_with_a_warning(y, words):
    model = SparsePEPRegressor(n_inducing=2, training=None)
    with user_warning(f"`y` holds {words}.*for labels use SparsePEPClassifier"):
        model.fit(np.arange(6.0)[:, None], y)


@pytest.mark.parametrize(
    "noise, page", [(0.3, "Noise that explodes"), (1e-4, "How many inducing points")]
)
def test_advice_on_points_names_a_page_that_fits_the_noise(noise, page):
    rng = default_rng(0)
    X = np.sort(rng.uniform(0.0, 10.0, (60, 1)), axis=0)
    y = np.sin(4.0 * X[:, 0])
    kernel = SquaredExponential(1.0, 0.3)
    model = SparsePEPRegressor(
        kernel=kernel, noise_variance=noise, n_inducing=8, training=None, random_state=0
    )
    text = model.fit(X, y).summary()
    assert "a larger `n_inducing` is likely to predict better" in text
    assert f"(see the page “{page}”)" in text


def advised(model):
    """The lines of advice of a fitted model."""
    return [row[1] for row in model.summary_rows() if row[0] == "advice"]


def losses(words, data, *options):
    """The errors of later rows, and how surprising they are, after fits to the first; with the
    first options the advice holds these words, with the others it does not.
    """
    X, y, n_first = data
    found = []
    for given in options:
        model = SparsePEPRegressor(random_state=0, **given).fit(X[:n_first], y[:n_first])
        assert any(words in line for line in advised(model)) == (given is options[0])
        later = X[n_first:], y[n_first:]
        error = np.mean((model.predict(later[0]) - later[1]) ** 2)
        found.append((error, -np.mean(model.predict_log_density(*later))))
    return np.transpose(found)


def runs_of_simulator(n_rows, seed=0):
    """A smooth function of four inputs without noise."""
    inputs = default_rng(seed).uniform(size=(n_rows, 4))
    return inputs, np.sin(3.0 * inputs @ [1.0, 0.7, 0.4, 0.2]) + inputs[:, 0] * inputs[:, 1]


def test_advice_asks_for_no_more_points_than_rows_and_for_no_other_noise_without_noise():
    X, y = runs_of_simulator(60)
    text = " ".join(advised(SparsePEPRegressor(n_inducing=40, random_state=0).fit(X, y)))
    asked = re.search(r"(\d+) raise the bound", text)
    assert asked is None or int(asked[1]) <= 60
    wave = np.sin(40.0 * X[:, :1])
    text = " ".join(advised(SparsePEPRegressor(random_state=0).fit(X[:, :1], wave[:, 0])))
    for words in ("SparsePEP(", "lower `power`"):
        assert words not in text


def test_advice_to_have_more_points_helps_where_it_is_followed():
    X, y = runs_of_simulator(300)
    new, truth = runs_of_simulator(200, seed=1)
    few = SparsePEPRegressor(n_inducing=15, random_state=0).fit(X, y)
    (text,) = [line for line in advised(few) if "larger `n_inducing`" in line]
    asked = int(re.search(r"(\d+) raise the bound", text)[1])
    more = SparsePEPRegressor(n_inducing=asked, random_state=0).fit(X, y)
    errors = [np.mean((model.predict(new) - truth) ** 2) for model in (few, more)]
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("likelihood", ["student_t", "heteroscedastic_gaussian"])
def test_advice_on_noise_raises_the_log_density_where_it_is_followed(likelihood):
    rng = default_rng(0)

    def drawn(n_rows):
        X = rng.uniform(0.0, 6.0, (n_rows, 1))
        noise = rng.normal(size=n_rows) * np.exp(X[:, 0] - 4.0)
        if likelihood == "student_t":
            noise = 0.1 * rng.standard_t(1.5, size=n_rows)
        return X, np.sin(X[:, 0]) + noise

    X, y = drawn(400)
    plain = SparsePEPRegressor(n_inducing=20, random_state=0).fit(X, y)
    assert any(f"SparsePEP(likelihood='{likelihood}')" in line for line in advised(plain))
    other = SparsePEP(likelihood=likelihood, n_inducing=20, random_state=0).fit(X, y)
    new = drawn(400)
    assert np.mean(other.predict_log_density(*new)) > np.mean(plain.predict_log_density(*new)) + 0.1


def test_advice_on_the_jitter_lowers_the_error_where_it_is_followed():
    X = np.vstack([default_rng(0).uniform(size=(300, 1)), np.linspace(0.05, 0.95, 200)[:, None]])
    given = {"n_inducing": 60}
    data = X, np.sin(40.0 * X[:, 0]), 300
    errors, _ = losses("try a smaller `jitter`", data, given, given | {"jitter": 1e-11})
    assert errors[1] < errors[0]


def test_advice_on_vanishing_noise_lowers_the_error_where_it_is_followed():
    rng = default_rng(0)
    X = rng.uniform(0.0, 6.0, (560, 1))
    y = np.sin(4.0 * X[:, 0]) + 0.1 * rng.normal(size=560)
    given = {"n_inducing": 8, "power": 1.0, "training": "lbfgs"}
    words = "the noise variance is very small"
    errors, _ = losses(words, (X, y, 60), given, given | {"power": 0.5})
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize("likelihood", ["student_t", "heteroscedastic_gaussian"])
def test_intervals_that_are_too_short_at_power_1_are_advised_of(likelihood):
    """The study of coverage shows that they are, and that a lower power helps."""
    targets = np.linspace(0.0, 3.0, 60)[:, None] ** 2
    model = SparsePEP(likelihood=likelihood, n_inducing=8, power=1.0, training=None)
    model.fit(targets, targets[:, 0])
    assert any("intervals of this likelihood" in line for line in advised(model))


def test_advice_to_have_fewer_points_costs_nothing_where_it_is_followed():
    rng = default_rng(0)
    X = rng.uniform(size=(400, 1))
    y = np.sin(4.0 * X[:, 0]) + 0.2 * rng.normal(size=400)
    words = "a smaller `n_inducing`"
    _, surprises = losses(words, (X, y, 200), {"n_inducing": 60}, {"n_inducing": 10})
    assert surprises[1] < surprises[0] + 1e-3


def test_advice_on_lengthscales_raises_the_density_where_it_is_followed():
    rng = default_rng(0)
    X = rng.normal(size=(240, 30))
    y = np.sin(X.sum(axis=1) / 4.0) + 0.3 * rng.normal(size=240)
    given = [{"n_inducing": 20} | more for more in ({}, {"ard": "auto"}, {"priors": "weak"})]
    _, surprises = losses("lengthscales were trained", (X, y, 40), *given)
    assert max(surprises[1:]) < surprises[0] - 0.3


def test_advice_to_spread_points_helps_where_it_is_followed():
    alike = close_points(50)
    assert any("spread them over the inputs" in line for line in advised(alike))
    spread = fixed_model(n_inducing=30)
    assert not any("nearly coincide" in line for line in advised(spread))
    assert spread.leave_one_out().mean() > alike.leave_one_out().mean() + 0.1


def monthly_series(n_months):
    """Dates, and a rising wave of a year with noise that hangs together."""
    dates = pd.date_range("2000-01-15", periods=n_months, freq=pd.DateOffset(months=1))
    years = np.arange(n_months) / 12.0
    noise = 0.1 * default_rng(0).normal(size=n_months)
    targets = 5.0 + 1.5 * years + np.sin(2.0 * np.pi * years) + noise
    return pd.DataFrame({"date": dates}), targets


def test_trend_and_season_go_on():
    X, targets = monthly_series(168)
    model = SparsePEPRegressor(kernel="trend+season", random_state=0).fit(X[:120], targets[:120])
    mean = model.predict(X[120:])
    low, high = model.predict_interval(X[120:], level=0.9)
    inside = (targets[120:] > low) & (targets[120:] < high)
    assert np.sqrt(np.mean((mean - targets[120:]) ** 2)) < 0.5  # while the series rises by 6
    assert np.mean(inside) >= 0.85
    assert high[-1] - low[-1] > 2.0 * (high[0] - low[0])


def test_a_trend_keeps_its_lengthscale_and_later_rows_do_not_change_it():
    X, targets = monthly_series(60)
    model = SparsePEPRegressor(kernel="trend+season", random_state=0).fit(X[:48], targets[:48])
    trend, season, rest = model.kernel_.kernels
    span = np.ptp(model.columns_.columns[0].transform(X["date"].to_numpy())[:48, 0])
    assert_allclose(trend.lengthscale, 10.0 * span / model.x_scale_[0])
    again = model.partial_fit(X[48:], targets[48:]).kernel_.kernels
    assert again[0].lengthscale == trend.lengthscale
    assert [part.active_dims for part in (trend, rest)] == [(0,), (0,)]
    assert season.kernels[0].active_dims == (1, 2)


def test_gaps_and_other_columns_have_a_place_in_a_series():
    X, targets = monthly_series(60)
    X = X.assign(rain=default_rng(1).normal(size=60))
    rows = np.r_[0:20, 35:60]
    model = SparsePEPRegressor(kernel="trend+season", random_state=0).fit(
        X.iloc[rows], targets[rows] + X["rain"].iloc[rows]
    )
    assert model.kernel_.kernels[-1].active_dims == (3,)
    gap = X.iloc[20:35]
    error = model.predict(gap) - (targets[20:35] + gap["rain"])
    assert np.sqrt(np.mean(error**2)) < 0.5


GRADES = np.digitize(np.sin(X[:, 0]), [-0.5, 0.0, 0.5])


def ordinal_fit(y):
    """A fit of ordered classes, after the first iterations."""
    settings = {"n_inducing": 5, "training": LBFGS(max_iter=4), "random_state": 0}
    return SparsePEP(likelihood="ordinal", **settings).fit(X, y)


def test_ordered_classes_are_the_values_that_occur():
    plain = ordinal_fit(GRADES)
    for levels in ([1, 2, 4, 7], [0, 10, 20, 30], [0.5, 1.0, 1.5, 2.0]):
        y = np.array(levels)[GRADES]
        with user_warning("taken for 4 ordered classes"):
            model = ordinal_fit(y)
        assert model.log_marginal_likelihood_value_ == plain.log_marginal_likelihood_value_
        assert model.score(X, y) == plain.score(X, GRADES)
        assert_array_equal(
            model.predict_quantiles(X, [0.5])[:, 0],
            np.array(levels)[plain.predict_quantiles(X, [0.5])[:, 0].astype(int)],
        )
    shifted = ordinal_fit(GRADES - 2)
    assert_allclose(shifted.predict(X), plain.predict(X) - 2.0)


def test_ordered_categories_are_numbered_in_their_order():
    names = ["low", "mid", "high", "top"]
    dtype = pd.CategoricalDtype(names, ordered=True)
    y = pd.Series(np.array(names)[GRADES], dtype=dtype)
    plain = ordinal_fit(GRADES)
    with user_warning("low < mid < high < top, are read as the numbers 0, 1"):
        model = ordinal_fit(y)
        assert model.score(X, y) == plain.score(X, GRADES)
    assert_array_equal(model.predict(X), plain.predict(X))
    assert_array_equal(ordinal_fit(y.cat.codes).predict(X), plain.predict(X))
