"""The regressor: scikit-learn's own checks, bad input, files, odd input, real data."""

import inspect
import json
import os
import pickle
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from reference.compare import error
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import sparse_pep
from sparse_pep import training
from sparse_pep.blocks import Partition
from sparse_pep.data.sources import ArraySource
from sparse_pep.datasets import load_regression, smll, smse
from sparse_pep.estimators import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, base, load
from sparse_pep.estimators.arguments import likelihood_named, section_of
from sparse_pep.estimators.classifier import classifier_likelihood
from sparse_pep.features import InducingPoints
from sparse_pep.interdomain import Derivative, GaussianBlur, Mixture
from sparse_pep.kernels import Linear, Matern32, SquaredExponential
from sparse_pep.likelihoods import LIKELIHOODS, Gaussian, Logit, NegativeBinomial, NoisyProbit, Poisson, Probit
from sparse_pep.model import Model, model_evidence, to_vector
from sparse_pep.multiclass import Softmax
from sparse_pep.shards import Piece
from sparse_pep.training import LBFGS, SITE_TOL, Adam, held_out_power, train

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, size=(40, 2))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
X_TEST = RNG.uniform(-3, 3, size=(7, 2))
KERNEL = SquaredExponential(1.2, [0.9, 2.0])
KEPT = {"kernel": KERNEL, "features": InducingPoints(X[:6]), "training": None}
SIDE = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
THIRD = np.digitize(X[:, 0], [-1.0, 1.0])
COUNTS = np.random.default_rng(1).poisson(np.exp(1.0 + y))


def fixed_model(**arguments):
    """A fitted model whose parameters were kept as given."""
    return SparsePEPRegressor(**(KEPT | {"noise_variance": 0.1} | arguments)).fit(X, y)


def classifier(labels=SIDE, **arguments):
    return SparsePEPClassifier(**(KEPT | arguments)).fit(X, labels)


def counts(**arguments):
    return SparsePEP(**(KEPT | {"likelihood": "poisson"} | arguments)).fit(X, COUNTS)


def vector_of(model):
    """The parameters of a model, one after the other."""
    return to_vector(model.parameters())


def check_slope(model, h, tolerance):
    """The gradient of the evidence along a random direction is that of central differences."""
    theta = vector_of(model)
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-10)
    assert model.log_marginal_likelihood() == model.log_marginal_likelihood_value_
    by_name = model.log_marginal_likelihood_gradient()
    assert list(by_name) == list(model.parameters())
    assert error(to_vector(by_name), gradient, 1 + np.max(np.abs(gradient))) < 1e-6
    direction = RNG.normal(size=len(theta))
    direction /= np.linalg.norm(direction)
    moved = [model.log_marginal_likelihood(theta + k * h * direction) for k in (1, -1, 2, -2)]
    numeric = (8 * (moved[0] - moved[1]) - (moved[2] - moved[3])) / (12 * h)
    assert abs(numeric - gradient @ direction) < tolerance * (1 + np.linalg.norm(gradient))


@pytest.fixture(scope="module")
def trained():
    """A trained model with default arguments but for its size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return SparsePEPRegressor(n_inducing=8, training=LBFGS(max_iter=30), random_state=0, standardize=True).fit(X, y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        SparsePEPRegressor(n_inducing=5, training=LBFGS(max_iter=5), random_state=0),
        SparsePEPRegressor(training=Adam(batch_size=15, n_epochs=4), n_inducing=5, random_state=0, standardize=True),
        SparsePEPClassifier(n_inducing=5, training=LBFGS(max_iter=1), random_state=0, standardize=True),
        SparsePEPClassifier(likelihood="noisy_probit", n_inducing=5, training=LBFGS(max_iter=1), random_state=0),
        SparsePEP(likelihood="student_t", n_inducing=5, training=LBFGS(max_iter=1), random_state=0),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_tags_say_what_a_setting_can_do():
    kinds = {"auto": True, "probit": True, "Noisy-Probit": False, "softmax": True}
    for likelihood, many in [*kinds.items(), (Probit(), False), (Softmax(3), True)]:
        assert get_tags(SparsePEPClassifier(likelihood=likelihood)).classifier_tags.multi_class == many
    for optimizer, untrained in (("lbfgs", False), (None, True)):
        assert get_tags(SparsePEPRegressor(training=optimizer)).regressor_tags.poor_score == untrained


def with_value(array, index, value):
    array = array.copy()
    array[index] = value
    return array


def test_a_fit_that_fails_leaves_the_fit_before_it():
    model = fixed_model(standardize=True)
    expected = model.predict(X_TEST)
    wider = (np.column_stack([X, X]), 100 * y)  # fails late, when the lengthscales are seen not to fit
    for bad in ((with_value(X, (5, 1), np.nan), y), wider):
        with pytest.raises(ValueError):
            model.fit(*bad)
        np.testing.assert_array_equal(model.predict(X_TEST), expected)


def test_an_interrupted_fit_leaves_the_fit_before_it(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    model = fixed_model()
    expected = vars(model).copy()
    monkeypatch.setattr(base, "model_evidence", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 100 * y)
    assert vars(model) == expected


def test_fewer_data_than_inducing_points_warns_and_reduces():
    with pytest.warns(UserWarning, match="n_inducing.*reduced from 10 to 6.*6 distinct rows"):
        model = SparsePEPRegressor(n_inducing=10, training=None).fit(np.vstack([X[:6]] * 3), np.tile(y[:6], 3))
    assert len(model.features_) == 6
    assert model.q_mean_.shape == (6,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparsePEPRegressor(n_inducing=6, training=None).fit(np.vstack([X[:6]] * 3), np.tile(y[:6], 3))


@pytest.mark.parametrize(
    "case", ["duplicate rows", "constant column", "more points than distinct rows", "one column", "wide"]
)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.filterwarnings("ignore")
def test_odd_data_simply_work(case, power):
    inputs = {
        "duplicate rows": np.vstack([X[:20], X[:20]]),
        "constant column": np.column_stack([X, np.full(40, 1e6)]),
        "more points than distinct rows": np.vstack([X[:4]] * 10),
        "one column": X[:, :1],
        "wide": RNG.normal(size=(40, 60)),
    }[case]
    model = SparsePEPRegressor(n_inducing=8, power=power, training=LBFGS(max_iter=15), random_state=0).fit(inputs, y)
    mean, std = model.predict(inputs, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std >= model.noise_std_ * (1 - 1e-12))
    assert np.isfinite(model.log_marginal_likelihood_value_)


def test_optimizer_none_keeps_every_parameter(trained):
    model = fixed_model()
    assert model.kernel_ is KERNEL
    assert model.noise_variance_ == 0.1
    np.testing.assert_array_equal(model.features_.Z, X[:6])
    assert model.converged_
    assert model.n_iter_ == 0
    unset = SparsePEPRegressor(training=None, n_inducing=5).fit(X, y)
    assert unset.kernel_.variance == 1.0
    np.testing.assert_array_equal(unset.kernel_.lengthscale, [1.0, 1.0])
    assert unset.noise_variance_ == 1.0
    assert trained.n_iter_ > 0


def test_jitter_is_explicit_and_reported():
    assert fixed_model(jitter=0.0).diagnostics_["jitter"] == 0.0
    assert fixed_model(jitter=1e-5).diagnostics_["jitter"] == 1e-5
    twice = InducingPoints(np.vstack([X[:6]] * 3))
    needed = fixed_model(jitter=0.0, features=twice)
    assert 0.0 < needed.diagnostics_["jitter"] <= 1e-8
    assert error(needed.log_marginal_likelihood_value_, fixed_model(jitter=0.0).log_marginal_likelihood_value_) < 1e-6


def test_results_agree_with_each_other():
    model = fixed_model(power=np.linspace(0, 1, 40))
    mean, std = model.predict(X_TEST, return_std=True)
    joint_mean, cov = model.predict(X_TEST, return_cov=True)
    f_mean, f_var = model.predict_f(X_TEST)
    assert error(joint_mean, mean) < 1e-12
    assert error(np.sqrt(np.diag(cov)), std) < 1e-12
    np.testing.assert_array_equal(f_mean, mean)
    assert error(f_var + 0.1, std**2) < 1e-14
    assert np.linalg.eigvalsh(cov)[0] > 0.1 * (1 - 1e-10)
    u_mean, u_var = model.predict_f(model.features_.Z)
    assert error(u_mean, model.q_mean_) < 1e-6
    assert error(u_var, np.diag(model.q_cov_)) < 1e-6
    density = -0.5 * np.log(2 * np.pi * std**2) - 0.5 * ((1.0 - mean) / std) ** 2
    assert error(model.predict_log_density(X_TEST, np.ones(7)), density) < 1e-13
    assert model.score(X, y) == pytest.approx(1 - np.mean((y - model.predict(X)) ** 2) / np.var(y), rel=1e-12)
    assert model.site_precision_.shape == model.site_shift_.shape == (40,)
    assert error(model.site_shift_, model.site_precision_ * y) < 1e-15
    draws = model.sample_y(X_TEST, 20_000, random_state=1)
    assert draws.shape == (7, 20_000)
    assert np.max(np.abs(draws.mean(1) - mean) / std) < 5 / np.sqrt(20_000)
    assert np.max(np.abs(np.cov(draws) - cov)) < 6 / np.sqrt(20_000) * np.max(cov)
    np.testing.assert_array_equal(model.sample_y(X_TEST, 3, random_state=1), model.sample_y(X_TEST, 3, random_state=1))


def test_evidence_and_gradient(trained):
    check_slope(trained, 1e-4, 1e-5)


def test_parameter_names_of_composite_kernels():
    model = fixed_model(kernel=KERNEL + Linear(0.2) * Matern32(0.5, 1.0))
    assert list(model.log_marginal_likelihood_gradient()) == [
        "kernel.0.log_variance",
        "kernel.0.log_lengthscale",
        "kernel.1.0.log_variance",
        "kernel.1.1.log_variance",
        "kernel.1.1.log_lengthscale",
        "log_noise_variance",
        "features.Z",
    ]


def test_scaled_targets_are_a_change_of_units():
    shifted = 1e4 + 50 * y
    plain, scaled = (SparsePEPRegressor(**KEPT, noise_variance=0.1, standardize=n) for n in (False, True))
    scales = X.mean(axis=0), X.std(axis=0)
    plain.fit((X - scales[0]) / scales[1], (shifted - shifted.mean()) / shifted.std())
    scaled.fit(X, shifted)
    NEW = (X_TEST - scales[0]) / scales[1]
    assert scaled.log_marginal_likelihood_value_ == pytest.approx(plain.log_marginal_likelihood_value_, rel=1e-12)
    (mean, std), (plain_mean, plain_std) = scaled.predict(X_TEST, return_std=True), plain.predict(NEW, return_std=True)
    assert error(mean, shifted.mean() + shifted.std() * plain_mean) < 1e-14
    assert error(std, shifted.std() * plain_std) < 1e-12
    cov = scaled.predict(X_TEST, return_cov=True)[1]
    assert error(cov, shifted.var() * plain.predict(NEW, return_cov=True)[1]) < 1e-12
    density = plain.predict_log_density(NEW, np.zeros(7)) - np.log(shifted.std())
    assert error(scaled.predict_log_density(X_TEST, np.full(7, shifted.mean())), density) < 1e-11


PREDICT_ELSEWHERE = """
import sys, numpy as np, sparse_pep
tests = np.load("X.npy")
for path in sys.argv[1:]:
    model = sparse_pep.load(path)
    mean, std = model.predict(tests, return_std=True)
    np.savez(path + ".out.npz", mean=mean, std=std, q=model.q_cov_)
    assert model.predict(tests, return_cov=True)[1].shape == (7, 7)
"""


def test_saved_models_predict_the_same_bits_in_another_process(trained, tmp_path):
    models = {
        "trained": trained,
        "powers": fixed_model(power=np.linspace(0, 1, 40)),
        "composite": fixed_model(kernel=KERNEL + Linear(0.2) * Matern32(0.5, 1.0, active_dims=(1,))),
        "ill": fixed_model(features=InducingPoints(X[:1] + 1e-4 * RNG.normal(size=(9, 2)))),
    }
    for name, model in models.items():
        model.save(tmp_path / name)
    np.save(tmp_path / "X.npy", X_TEST)
    subprocess.run([sys.executable, "-c", PREDICT_ELSEWHERE, *models], check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    for name, model in models.items():
        got, (mean, std) = np.load(tmp_path / f"{name}.out.npz"), model.predict(X_TEST, return_std=True)
        for part, expected in (("mean", mean), ("std", std), ("q", model.q_cov_)):
            np.testing.assert_array_equal(got[part], expected)


def test_everything_comes_back_from_a_file(trained, tmp_path):
    path = tmp_path / "model.npz"
    trained.save(path, extra={"target": "y", "columns": ["a", "b"], "X_mean": np.array([1.5, -2.0])})
    back = load(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]  # and no file aside
    numbers = ("log_marginal_likelihood_value_", "noise_variance_", "n_iter_", "converged_", "y_mean_", "y_scale_", "n_features_in_")
    for name in (*numbers, "q_mean_", "q_cov_", "site_precision_", "site_shift_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(trained, name))
    assert back.diagnostics_.keys() == trained.diagnostics_.keys() - {"parameter_trace"}
    assert back.extra_["columns"] == ["a", "b"]
    np.testing.assert_array_equal(back.extra_["X_mean"], [1.5, -2.0])
    for name, value in trained.parameters().items():
        np.testing.assert_array_equal(back.parameters()[name], value)
    with pytest.raises(ValueError, match="needs the training data"):
        back.log_marginal_likelihood()
    again = tmp_path / "again.npz"
    back.save(again)
    np.testing.assert_array_equal(load(again).predict(X_TEST), trained.predict(X_TEST))
    not_kept = {"kernel": 0, "features": 0, "random_state": 0, "fixed": 0, "noise_variance": 0, "training": 0}
    assert back.get_params() | not_kept == trained.get_params() | not_kept and repr(back.training) == repr(trained.training)
    assert list(back.fixed) == list(trained.fixed)
    clone(back).fit(X, y)


def rewritten(path, change):
    """The model file with its description changed."""
    with np.load(path) as archive:
        arrays = dict(archive)
    description = json.loads(str(arrays["description"]))
    change(description, arrays)
    arrays["description"] = np.array(json.dumps(description))
    np.savez(path, **arrays)


NOT_MODELS = {
    "empty": (lambda path: path.write_bytes(b""), "not a sparse_pep model"),
    "text": (lambda path: path.write_text("X,y\n1,2\n"), "not a sparse_pep model"),
    "plain npz": (lambda path: np.savez(path, X=X), "not a sparse_pep model"),
    "npz of objects": (lambda path: np.savez(path, description=np.array([{}], dtype=object)), "not a sparse_pep model"),
    "npy": (lambda path: path.write_bytes(np_bytes(X)), "not a sparse_pep model"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "not a sparse_pep model"),
    "cut in half": (
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        "not a sparse_pep model",
    ),
    "last byte gone": (lambda path: path.write_bytes(path.read_bytes()[:-1]), "not a sparse_pep model"),
    "a flipped byte": (lambda path: path.write_bytes(flipped(path.read_bytes())), "not a sparse_pep model"),
    "another format": (lambda path: rewritten(path, lambda d, a: d.update(format="other")), "not a sparse_pep model"),
    "description is a list": (lambda path: np.savez(path, description=np.array("[]")), "not a sparse_pep model"),
    "newer": (lambda path: rewritten(path, lambda d, a: d.update(version=999)), "newer version.*999"),
    "version is text": (lambda path: rewritten(path, lambda d, a: d.update(version="x")), "not a sparse_pep model"),
    "array missing": (lambda path: rewritten(path, lambda d, a: a.pop("array_1")), "damaged"),
    "entry missing": (lambda path: rewritten(path, lambda d, a: d["state"].pop("fitted")), "not complete.*fitted"),
    "unknown kernel": (lambda path: rewritten(path, lambda d, a: d["state"]["kernel"].update(kind="Exotic")), "Exotic"),
}


def np_bytes(array):
    import io

    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


@pytest.mark.parametrize("case", NOT_MODELS)
def test_files_that_are_not_models(case, trained, tmp_path):
    write, words = NOT_MODELS[case]
    path = tmp_path / "model.npz"
    trained.save(path)
    write(path)
    with pytest.raises(ValueError, match=words) as caught:
        load(path)
    assert "kind" in str(caught.value) or "model.npz" in str(caught.value)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz")


def test_a_failed_save_leaves_the_old_file(trained, tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    trained.save(path)
    before = path.read_bytes()

    def broken(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(KeyboardInterrupt):
        fixed_model().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]


def test_clone_and_pickle(trained):
    copy = clone(trained)
    assert not hasattr(copy, "kernel_")
    assert repr(copy) == repr(trained)
    back = pickle.loads(pickle.dumps(trained))
    np.testing.assert_array_equal(back.predict(X_TEST), trained.predict(X_TEST))
    assert back.log_marginal_likelihood() == trained.log_marginal_likelihood()


def test_pandas_input_and_its_column_names(tmp_path):
    frame, target = (pd.DataFrame(X, columns=["width", "height"]), pd.Series(y, index=np.arange(40) + 100))
    model = SparsePEPRegressor(**KEPT).fit(frame, target)
    assert list(model.feature_names_in_) == ["width", "height"]
    test = pd.DataFrame(X_TEST, columns=["width", "height"])
    np.testing.assert_array_equal(model.predict(test), fixed_model(noise_variance=1.0).predict(X_TEST))
    model.save(tmp_path / "model.npz")
    for fitted in (model, load(tmp_path / "model.npz")):
        with pytest.raises(ValueError, match="feature names"):
            fitted.predict(test[["height", "width"]])
        with pytest.warns(UserWarning, match="feature names"):
            fitted.predict(X_TEST)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pipeline_cross_validation_and_search_over_the_power():
    model = SparsePEPRegressor(n_inducing=6, training=LBFGS(max_iter=10), random_state=0)
    pipeline = make_pipeline(StandardScaler(), model)
    assert np.mean(cross_val_score(pipeline, X, y, cv=3)) > 0.5
    search = GridSearchCV(pipeline, {"sparsepepregressor__power": [0.0, 0.5, 1.0]}, cv=2).fit(X, y)
    assert search.best_params_["sparsepepregressor__power"] in (0.0, 0.5, 1.0)
    assert len(set(search.cv_results_["mean_test_score"])) == 3
    assert search.best_estimator_.score(X, y) > 0.5


FORMS = {
    "fortran": np.asfortranarray,
    "strided": lambda A: np.repeat(A, 2, axis=0)[::2],
    "read only": lambda A: np.frombuffer(A.tobytes()).reshape(A.shape),
    "list": np.ndarray.tolist,
    "float32": lambda A: A.astype(np.float32),
    "integers": lambda A: A.astype(int),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_input(form):
    """What counts is the numbers: their order in memory, and where they can be, their type, change nothing."""
    steps = (3, 10) if form == "integers" else (64, 64)  # exact in single precision
    inputs, targets = (np.round(values * step) / (1 if form == "integers" else step) for values, step in zip((X, y), steps))
    expected, changed = SparsePEPRegressor(**KEPT).fit(inputs, targets), FORMS[form]
    model = clone(expected).fit(changed(inputs), changed(targets))
    assert model.log_marginal_likelihood_value_ == pytest.approx(expected.log_marginal_likelihood_value_, rel=1e-14)
    assert error(model.predict(changed(inputs)), expected.predict(inputs)) < 1e-13
    assert model.predict(changed(inputs)).dtype == np.float64


def test_the_same_seed_gives_the_same_model_and_the_data_are_left_alone():
    before = X.copy(), y.copy()
    models = [SparsePEPRegressor(n_inducing=6, training=LBFGS(max_iter=5, tol=1.0), random_state=3).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(models[0].predict(X_TEST), models[1].predict(X_TEST))
    np.testing.assert_array_equal(before[0], X)
    np.testing.assert_array_equal(before[1], y)


def test_training_that_stops_early_says_so():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = SparsePEPRegressor(n_inducing=5, training=LBFGS(max_iter=1), random_state=0).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 1
    told = "message n_evaluations n_rejected jitter jitter_largest n_clipped log_evidence_trace"
    assert set(told.split()) <= set(model.diagnostics_)


@pytest.mark.parametrize("more", [{}, {"training": Adam(max_time=1e-9)}, {"power": "held_out"}], ids=["lbfgs", "adam", "held out"])
def test_time_limits_the_whole_fit_and_the_model_says_so(more, tmp_path, monkeypatch):
    maximise, runs = training.maximise, []
    monkeypatch.setattr(training, "maximise", lambda *given: runs.append(maximise(*given)) or runs[-1])
    model = clone(SparsePEPRegressor(**{"n_inducing": 5, "training": LBFGS(max_time=1e-9), "random_state": 0} | more))
    for name in ("fit", "partial_fit"):
        with pytest.warns(ConvergenceWarning, match=r"the limit of 1e-09 s was reached .*; raise `max_time`"):
            getattr(model, name)(X, y)
        assert (model.converged_, model.n_iter_) == (False, 1)
    assert all(run.n_iter == 1 for run in runs)
    model.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert back.training.max_time == 1e-9 and back.summary() == model.summary()
    for words in ("NO: the limit of 1e-09 s was reached after 1", "raise `max_time`"):
        assert words in model.summary()


def test_fixed_parameters_are_kept_through_the_estimator():
    model = SparsePEPRegressor(kernel=KERNEL, features=InducingPoints(X[:6]), fixed=["features.Z", "kernel.log_variance"], training=LBFGS(tol=1e-2))
    model.fit(X, y)
    np.testing.assert_array_equal(model.features_.Z, X[:6])
    assert error(model.kernel_.variance, 1.2) < 1e-14
    assert np.all(model.kernel_.lengthscale != KERNEL.lengthscale)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", ["boston", "concrete", "energy", "yacht", "wine_red"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_real_data_beat_the_mean(name, power, data_dir):
    data = load_regression(name, data_dir)
    train, test = data.splits[0]
    model = make_pipeline(
        StandardScaler(), SparsePEPRegressor(n_inducing=30, power=power, training=LBFGS(max_iter=10), standardize=True, random_state=0)
    )
    model.fit(data.X[train], data.y[train])
    mean, std = model.predict(data.X[test], return_std=True)
    assert smse(data.y[test], mean) < 1
    assert smll(data.y[test], mean, std**2, data.y[train]) < 0
    trace = model[-1].diagnostics_["log_evidence_trace"]
    assert trace[-1] > trace[0]


WITHOUT_DEVELOPMENT = """
import sys
for name in ("nbdev", "execnb", "fastcore", "IPython", "ipykernel", "jupyter", "jupyter_core", "nbformat", "nbconvert",
             "notebook", "pytest", "hypothesis", "mpmath"):
    sys.modules[name] = None  # importing it now fails
import sparse_pep
early = {name for name, module in sys.modules.items() if module is not None}
import importlib, pkgutil
for module in pkgutil.iter_modules(sparse_pep.__path__):
    if module.name != "_modidx":
        importlib.import_module("sparse_pep." + module.name)
model = sparse_pep.SparsePEPRegressor(training=None, n_inducing=2).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
assert model.predict([[0.5]]).shape == (1,)
print(" ".join(early))
"""


def test_the_package_needs_no_development_tools_and_imports_little():
    done = subprocess.run([sys.executable, "-c", WITHOUT_DEVELOPMENT], check=True, capture_output=True, text=True)
    early = {name.split(".")[0] for name in done.stdout.split()}
    assert "sparse_pep" in early
    assert not early & {"sklearn", "scipy", "numpy", "matplotlib", "pandas", "tqdm", "click"}


def test_top_level_names():
    assert sparse_pep.SparsePEPRegressor is SparsePEPRegressor
    assert sparse_pep.SparsePEPClassifier is SparsePEPClassifier
    assert sparse_pep.SparsePEP is SparsePEP
    assert sparse_pep.load is load
    assert {"LBFGS", "Adam", "SparsePEP", "SparsePEPClassifier", "SparsePEPRegressor", "load"} == set(sparse_pep.__all__)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = sparse_pep.nothing_of_the_kind


# ---------------------------------------------------------------------------- any likelihood, and classes

LABELS = {
    "integers": np.array([3, 7, 9]),
    "text": np.array(["benign", "malign", "neither"]),
    "objects": np.array(["no", "yes", "yes indeed"], dtype=object),
    "bools": np.array([False, True]),
    "floats": np.array([-1.0, 1.0, 5.0]),
}


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("several", [False, True])
def test_labels_of_any_kind_change_names_only(name, several, tmp_path):
    index = THIRD if several else SIDE
    if several and name == "bools":
        pytest.skip("there are two of them")
    kinds = LABELS[name]
    model, plain = classifier(kinds[index]), classifier(index)
    np.testing.assert_array_equal(model.classes_, np.unique(kinds[index]))
    assert model.classes_.dtype == kinds.dtype
    np.testing.assert_array_equal(model.predict_proba(X_TEST), plain.predict_proba(X_TEST))
    np.testing.assert_array_equal(model.predict(X_TEST), kinds[plain.predict(X_TEST)])
    log_density = model.predict_log_density(X, kinds[index])
    np.testing.assert_array_equal(log_density, plain.predict_log_density(X, index))
    assert error(log_density, model.predict_log_proba(X)[np.arange(40), index]) < 1e-14
    assert model.score(X, kinds[index]) == np.mean(plain.predict(X) == index)
    assert set(np.unique(model.sample_y(X_TEST, 20))) <= set(kinds)
    model.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert back.classes_.dtype == kinds.dtype
    np.testing.assert_array_equal(back.predict(X_TEST), model.predict(X_TEST))
    np.testing.assert_array_equal(back.predict_proba(X_TEST), model.predict_proba(X_TEST))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("likelihood", ["probit", "logit", "noisy_probit", "softmax"])
def test_what_a_classifier_says_agrees_with_itself(power, likelihood):
    several = likelihood == "softmax"
    labels, C = (THIRD, 3) if several else (SIDE, 2)
    model = classifier(labels, power=power, likelihood=likelihood)
    assert model.converged_
    shape = (C,) if several else ()
    mean, var = model.predict_f(X_TEST)
    assert mean.shape == var.shape == (7, *shape)
    assert np.all(var > 0)
    decision = model.decision_function(X_TEST)
    odds = np.log(model.predict_proba(X_TEST))
    assert error(decision, odds if several else odds[:, 1] - odds[:, 0]) < 1e-6
    assert model.q_mean_.shape == (*shape, 6)
    assert model.q_cov_.shape == (*shape, 6, 6)
    assert model.site_precision_.shape == model.site_shift_.shape == (*shape, 40)
    u_mean, u_var = model.predict_f(model.features_.Z)
    assert error(u_mean.T, model.q_mean_) < 1e-6
    assert error(u_var.T, np.diagonal(model.q_cov_, axis1=-2, axis2=-1)) < 1e-6
    proba = model.predict_proba(X_TEST)
    assert proba.shape == (7, C)
    assert error(proba.sum(1), np.ones(7)) < 1e-9
    assert error(np.exp(model.predict_log_proba(X_TEST)), proba) < 1e-7
    np.testing.assert_array_equal(model.predict(X_TEST), model.classes_[proba.argmax(1)])
    assert model.score(X, labels) > 0.8
    draws = model.sample_y(X_TEST, 4000, random_state=1)
    assert draws.shape == (7, 4000)
    for c in range(C):
        assert np.max(np.abs(np.mean(draws == c, axis=1) - proba[:, c])) < 0.04
    told = model.diagnostics_
    assert told["largest_site_change"] <= 1e-8 and told["sweeps_last"] > 0 and {"quadrature_error", "smallest_step"} <= set(told)
    assert (told["smallest_cavity"] == 1.0) == (power == 0.0)


def test_likelihoods_by_number_of_classes():
    expected = {"auto": (Probit, Softmax), "logit": (Logit, Softmax)}
    for name, kinds in expected.items():
        for several, kind in enumerate(kinds):
            assert type(classifier_likelihood(name, 2 + several)) is kind
    assert classifier(SIDE, likelihood="softmax").predict_proba(X_TEST).shape == (7, 2)
    assert classifier(SIDE, likelihood=NoisyProbit(0.2)).likelihood_ == NoisyProbit(0.2)


@pytest.mark.parametrize("labels", [np.array([0, 2] * 3 + [0]), np.full(7, "no"), np.full(7, np.nan)])
def test_labels_that_were_not_fitted(labels):
    with pytest.raises(ValueError, match="labels that were fitted"):
        classifier().predict_log_density(X_TEST, labels)
    for kind in ("text", "objects"):
        text = classifier(LABELS[kind][SIDE] + "!")
        with pytest.raises(ValueError, match="labels that were fitted"):
            text.predict_log_density(X_TEST, labels)


def test_counts_agree_with_themselves(tmp_path):
    model = counts()
    mean, std = model.predict(X_TEST, return_std=True)
    f_mean, f_var = model.predict_f(X_TEST)
    assert error(mean, np.exp(f_mean + 0.5 * f_var)) < 1e-14
    assert np.all(std > np.sqrt(mean))
    grid = np.arange(2000.0)
    density = np.array([np.exp(model.predict_log_density(x[None].repeat(2000, 0), grid)) for x in X_TEST[:2]])
    assert error(density.sum(1), np.ones(2)) < 1e-6
    assert error(density @ grid, mean[:2]) < 1e-5
    assert model.score(X, COUNTS) == np.mean(model.predict_log_density(X, COUNTS))
    draws = model.sample_y(X_TEST, 20_000, random_state=1)
    assert np.max(np.abs(draws.mean(1) - mean) / std) < 6 / np.sqrt(20_000)
    assert np.all(draws == np.round(draws))
    with pytest.raises(ValueError, match=r"y.*\(7,\).*\(6,\)"):
        model.predict_log_density(X_TEST, np.ones(6))
    with pytest.raises(ValueError, match="counts"):
        model.predict_log_density(X_TEST, np.full(7, 0.5))
    model.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert type(back) is SparsePEP
    assert back.likelihood_ == model.likelihood_
    np.testing.assert_array_equal(back.predict(X_TEST, return_std=True), (mean, std))
    with pytest.raises(ValueError, match="needs the training data"):
        back.leave_one_out()


@pytest.mark.parametrize("normalize_y", [False, True])
def test_gaussian_noise_is_the_regressor(normalize_y):
    given = KEPT | {"standardize": normalize_y}
    ours = SparsePEP(likelihood=Gaussian(0.1), **given).fit(X, y)
    theirs = SparsePEPRegressor(noise_variance=0.1, **given).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == theirs.log_marginal_likelihood_value_
    for a, b in zip(ours.predict(X_TEST, return_std=True), theirs.predict(X_TEST, return_std=True)):
        assert error(a, b) < 1e-14
    np.testing.assert_array_equal(ours.site_precision_, theirs.site_precision_)
    assert ours.score(X, y) == np.mean(theirs.predict_log_density(X, y))


@pytest.mark.parametrize("normalize_y", [False, True])
def test_leave_one_out_of_an_exact_model_is_leaving_one_out(normalize_y):
    """With an inducing point on each datum EP is exact for Gaussian noise, and so is its cavity."""
    inputs, targets = X[:12], 3.0 * y[:12]
    given = {"kernel": KERNEL, "noise_variance": 0.2, "training": None, "jitter": 0.0}
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)  # of these, scaling changes the targets only
    whole = SparsePEPRegressor(features=InducingPoints(inputs), standardize=normalize_y, **given).fit(inputs, targets)
    scaled = (targets - whole.y_mean_) / whole.y_scale_
    expected = []
    for n in range(12):
        rest = np.arange(12) != n
        part = SparsePEPRegressor(features=InducingPoints(inputs[rest]), **given).fit(inputs[rest], scaled[rest])
        expected.append(part.predict_log_density(inputs[n : n + 1], scaled[n : n + 1])[0] - np.log(whole.y_scale_))
    assert error(whole.leave_one_out(), np.array(expected)) < 1e-6


@pytest.mark.parametrize("model", [lambda: classifier(power=1.0), counts, lambda: classifier(THIRD)])
def test_leave_one_out_is_worse_than_with_the_datum_itself(model):
    model = model()
    targets = COUNTS if isinstance(model, SparsePEP) else model._encoding.back(model._data.rows.y)
    inner, outer = model.leave_one_out(), model.predict_log_density(X, targets)
    assert inner.shape == (40,)
    assert np.all(np.isfinite(inner))
    assert np.mean(inner) < np.mean(outer)
    assert np.corrcoef(inner, outer)[0, 1] > 0.8


@pytest.mark.parametrize(
    "model", [classifier, counts, lambda: classifier(THIRD), lambda: classifier(likelihood="noisy_probit")]
)
def test_evidence_and_gradient_of_other_likelihoods(model):
    check_slope(model(), 1e-3, 1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind, targets", [(SparsePEPClassifier, SIDE), (SparsePEP, COUNTS)])
def test_training_of_other_likelihoods(kind, targets, tmp_path):
    arguments = {} if kind is SparsePEPClassifier else {"likelihood": "negative_binomial"}
    model = kind(n_inducing=6, training=LBFGS(max_iter=15), random_state=0, **arguments).fit(X, targets)
    trace = model.diagnostics_["log_evidence_trace"]
    assert trace[-1] > trace[0] + 1
    assert model.log_marginal_likelihood_value_ == pytest.approx(trace[-1], rel=SITE_TOL**2)
    assert model.diagnostics_["n_sweeps"] > 0
    assert model.n_iter_ == 15
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X_TEST), model.predict(X_TEST))
    assert copy.log_marginal_likelihood() == model.log_marginal_likelihood()
    np.testing.assert_array_equal(copy.leave_one_out(), model.leave_one_out())
    model.save(tmp_path / "model.npz", extra={"note": 1})
    back = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict(X_TEST), model.predict(X_TEST))
    assert back.likelihood_ == model.likelihood_
    assert back.diagnostics_.keys() == model.diagnostics_.keys() - {"parameter_trace"}
    clone(back)


FLAT = {"kernel": SquaredExponential(4.0, [1e4, 1e4]), "fixed": ["kernel.log_variance", "kernel.log_lengthscale"], "n_inducing": 5, "random_state": 0}
ONE_DIRECTION = {
    "a level": (SparsePEPRegressor, np.tile([4.0, 6.0], 20)),
    "a rare class": (SparsePEPClassifier, np.repeat([0, 1], [38, 2])),
    "counts alike": (partial(SparsePEP, likelihood="poisson"), np.tile([6, 8], 20)),
}


@pytest.mark.parametrize("case", ONE_DIRECTION)
def test_a_level_is_learned_in_less_than_one_direction(case, recwarn):
    make, targets = ONE_DIRECTION[case]
    model = make(**FLAT).fit(X, targets)
    assert model.diagnostics_["determined_directions"] < 1.0 and not model.diagnostics_["learned_nothing"]
    assert not any("nothing was learned" in str(warning.message) for warning in recwarn)
    assert "nothing was learned" not in model.summary() and "to the prior" not in model.summary()


def test_a_summary_does_not_contradict_itself():
    far = InducingPoints(np.linspace(500.0, 600.0, 5)[:, None])
    with pytest.warns(UserWarning, match="nothing was learned"):
        lost = SparsePEPRegressor(features=far, fixed=["features.Z"]).fit(X[:, :1], y)
    told = dict(lost.summary_rows())
    assert lost.converged_ and told["converged"] == "yes, but to the prior" and told["advice"].startswith("nothing was learned")


def test_a_jitter_of_rounding_needs_no_advice():
    model = fixed_model(features=InducingPoints(X[:1] + 1e-9 * RNG.normal(size=(9, 2))), jitter=0.0)
    assert model.diagnostics_["jitter"] == 1e-12 and "jitter of" not in model.summary()
    model.diagnostics_["jitter"] = 1e-6
    assert "Kuu needed a jitter of 1e-06, more than was asked for" in model.summary()


def test_noise_of_the_size_of_the_jitter_is_said():
    x = np.linspace(0.0, 3.0, 300)[:, None]
    fits = (SparsePEPRegressor(n_inducing=30, jitter=jitter, standardize=True, random_state=0).fit(x, 100.0 * np.sin(3.0 * x[:, 0]) + 1e-4 * np.random.default_rng(0).normal(size=300)) for jitter in (1e-8, 0.0))
    rough, fine = fits
    assert "the jitter leaves" in rough.summary() and "the jitter leaves" not in fine.summary()
    assert rough.noise_variance_ > 10.0 * fine.noise_variance_


def test_nearly_equal_inducing_points_are_not_too_many_but_too_alike(tmp_path):
    model = fixed_model(features=InducingPoints(X[:1] + 1e-9 * np.random.default_rng(0).normal(size=(50, 2))))
    model.save(tmp_path / "model.npz")
    for fitted in (model, load(tmp_path / "model.npz")):
        assert "100% of the inducing points nearly coincide" in fitted.summary() and "`n_inducing`" not in fitted.summary()
    spread = fixed_model(features=InducingPoints(X[:6]))
    assert "nearly coincide" not in spread.summary()


@pytest.mark.parametrize("arguments, count", [({}, 60), ({"kernel": SquaredExponential(1.0, 1.0)}, 1), ({"fixed": ["kernel.log_lengthscale"]}, 0), ({"training": Adam(n_epochs=1)}, 60)], ids=str)
def test_as_many_lengthscales_as_rows_are_too_many(arguments, count, recwarn):
    model = SparsePEPRegressor(**{"n_inducing": 3, "training": LBFGS(max_iter=2), "random_state": 0} | arguments).fit(np.tile(X, 30) + np.random.default_rng(0).normal(size=(40, 60)), y)
    assert model.diagnostics_["n_lengthscales"] == count
    assert ("60 lengthscales were trained on 40 rows, too few to determine them: use one for all inputs (`ard='auto'`" in model.summary()) == (count == 60)


@pytest.mark.parametrize("rows", [19, 20])
@pytest.mark.parametrize("start", [{}, {"kernel": "matern32"}, {"training": None}, {"kernel": SquaredExponential(1.0, [1.0, 1.0])}], ids=str)
def test_ten_rows_for_each_input_have_lengthscales_of_their_own(start, rows):
    own = {}
    for ard in (True, False, "auto"):
        given = {"n_inducing": 3, "training": LBFGS(max_iter=1, tol=1e6), "ard": ard} | start
        own[ard] = SparsePEPRegressor(**given).fit(X[:rows], y[:rows]).kernel_.lengthscale.ndim == 1
    taken = isinstance(start.get("kernel"), SquaredExponential)
    assert own == {True: True, False: taken, "auto": taken or rows == 20}


@pytest.mark.parametrize("arguments", [{}, {"standardize": True}, {"power": "held_out"}, {"training": "adam"}, {"mean": "linear"}, {"blocks": 5}], ids=str)
def test_a_constant_is_predicted_everywhere(arguments):
    with pytest.warns(UserWarning, match=r"`y` has one value only \(5.1 in all 40 rows\)"):
        model = SparsePEPRegressor(**{"n_inducing": 5, "random_state": 0} | arguments).fit(X, np.full(40, 5.1))
    assert np.allclose(model.predict([*X_TEST, [900.0, 0.0]]), 5.1, rtol=1e-14) and model.converged_
    assert model.diagnostics_["message"] == "nothing was trained" and model.summary()


def test_constants_that_are_modelled_as_given():
    with pytest.warns(UserWarning, match="`y` has one value only"):
        model = fixed_model().fit(X, np.full(40, 5.0))  # the prior's mean is 0, as was asked for
    assert np.mean(model.predict(X)) > 3.0 and abs(model.predict([[900.0, 0.0]])[0]) < 1e-6
    with pytest.warns(UserWarning, match="column 1 of `y` has one value only"):
        both = SparsePEPRegressor(n_inducing=5, standardize=True, training=LBFGS(max_iter=5, tol=1.0), random_state=0).fit(X, np.column_stack([y, np.full(40, 3.0)]))
    assert np.allclose(both.predict(X)[:, 1], 3.0, rtol=1e-12) and both.n_iter_ > 0


@pytest.mark.filterwarnings("ignore:`y` has one value only")
def test_folds_without_an_event_are_scored():
    counts = np.repeat([0, 1], [35, 5])
    model = SparsePEP(likelihood="poisson", n_inducing=5, training=LBFGS(max_iter=5, tol=1.0), random_state=0)
    assert np.all(np.isfinite(cross_val_score(model, X, counts, cv=KFold(5), error_score="raise")))
    assert np.all(model.fit(X, np.zeros(40)).predict(X) < 0.6)


@pytest.mark.parametrize("factor", [1e-140, 1e-100, 1e70, 1e100, 1e140])
def test_extreme_units_are_harmless_or_named(factor):
    options = {"n_inducing": 5, "training": LBFGS(max_iter=3, tol=10.0), "random_state": 0}
    plain = SparsePEPRegressor(**options, standardize=True).fit(X, y)
    scaled = SparsePEPRegressor(**options, standardize=True).fit(factor * X, factor * y)
    np.testing.assert_allclose(scaled.predict(factor * X_TEST) / factor, plain.predict(X_TEST), rtol=1e-6)
    with pytest.raises(ValueError, match="column 0 of `X` spreads over .*give `standardize=True`"):
        SparsePEPRegressor(**options, standardize=False).fit(factor * X, y)
    with pytest.raises(ValueError, match="`y` spreads over .*give `standardize=True`"):
        SparsePEPRegressor(**options, standardize=False).fit(X, factor * y)


def test_masked_values_are_not_taken_for_data():
    fits, masked = SparsePEPRegressor(**KEPT), np.ma.masked_array(X, mask=X > 1.0)
    column = masked[:, 0]
    calls = {
        "X": lambda: fits.fit(masked, y), "y": lambda: fits.fit(X, column), "sample_weight": lambda: fits.fit(X, y, column**2),
    }  # fmt: skip
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"`{name}` is a masked array with [0-9]+ masked values"):
            call()
    with pytest.raises(ValueError, match="`X` is a masked array"):
        fits.fit(np.ma.masked_array(X), y).predict(masked)


def test_messages_quote_text_as_python_does():
    for kind, targets in ((SparsePEPRegressor, np.full(40, "red")), (partial(SparsePEPRegressor, power=np.str_("red")), y)):
        with pytest.raises(ValueError, match="'red'") as caught:
            kind().fit(X, targets)
        assert "np.str_" not in str(caught.value)


def test_starts_reach_the_data():
    def start(kind, targets, **arguments):
        return kind(training=LBFGS(max_iter=1), n_inducing=4, fixed=ALL, random_state=0, **arguments).fit(X, targets)

    ALL = ["kernel.log_variance", "kernel.log_lengthscale"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert start(SparsePEPClassifier, SIDE).kernel_.variance == pytest.approx(1.0)
        many = start(SparsePEP, 1000 + COUNTS, likelihood="poisson").kernel_
        assert many.variance == pytest.approx(np.mean(np.log(1000.5 + COUNTS) ** 2))
        ALL.append("log_scale")
        outlier = start(SparsePEP, with_value(y, 0, 1e4), likelihood="student_t", standardize=False)
        assert 0.1 < outlier.kernel_.variance < 2.0
        assert outlier.likelihood_.scale**2 <= outlier.kernel_.variance * (1 + 1e-12)


def test_inference_that_does_not_converge_is_said(monkeypatch):
    def impatient(*arguments, **named):
        return replace(model_evidence(*arguments, **named), converged=False, change=0.5)

    monkeypatch.setattr(base, "model_evidence", impatient)
    with pytest.warns(ConvergenceWarning, match="inference did not converge.*0.5"):
        assert not classifier().converged_


def test_names_of_likelihoods():
    for kind, names in ((Poisson, ["Poisson", "poisson"]), (NegativeBinomial, ["NegativeBinomial", "negative_binomial", "negative-binomial"])):
        assert all(type(likelihood_named(name, LIKELIHOODS)) is kind for name in names)


def test_labels_that_cannot_be_saved(tmp_path):
    model = classifier()
    model.classes_ = np.array([(1,), (2, 3)], dtype=object)
    with pytest.raises(ValueError, match="text or numbers"):
        model.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


BLOCKS = np.repeat(np.arange(8), 5)[RNG.permutation(40)]


@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEP, SparsePEPClassifier])
def test_blocks_reach_training_evidence_and_files(kind, tmp_path):
    power = np.linspace(0.0, 1.0, 8)
    targets = SIDE if kind is SparsePEPClassifier else y
    arguments = {} if kind is not SparsePEP else {"likelihood": "student_t"}
    model = kind(n_inducing=5, training=LBFGS(max_iter=3), blocks=BLOCKS, power=power, random_state=0, standardize=False, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, targets)
    partition = Partition(BLOCKS)
    data = Piece(0, X, model._data.rows.y, blocks=partition.labels)
    expected = model_evidence(model._model, data, power[BLOCKS], model.jitter)
    assert error(model.log_marginal_likelihood_value_, expected.log_evidence) < 1e-8
    without = model_evidence(model._model, data._replace(blocks=None), power[BLOCKS], model.jitter)
    assert error(model.log_marginal_likelihood_value_, without.log_evidence) > 1e-6
    theta = vector_of(model)
    direction = np.random.default_rng(1).normal(size=len(theta))
    _, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    ends = [model.log_marginal_likelihood(theta + h * direction) for h in (1e-4, -1e-4)]
    assert error((ends[0] - ends[1]) / 2e-4, slope @ direction, 1.0 + abs(slope @ direction)) < 1e-5
    model.save(tmp_path / "blocks.npz")
    back = load(tmp_path / "blocks.npz")
    np.testing.assert_array_equal(back.predict(X_TEST), model.predict(X_TEST))
    np.testing.assert_array_equal(back.blocks, partition.labels)
    assert model.site_precision_.shape == model.site_shift_.shape == (40,)
    assert model.leave_one_out().shape == (40,) and np.all(np.isfinite(model.leave_one_out()))


@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEPClassifier])
def test_more_data_may_come_in_blocks(kind):
    """With the same points, Gaussian noise and power 0 or any blocks: what is learned is what all data at once teach."""
    targets = SIDE if kind is SparsePEPClassifier else y
    given = {"kernel": SquaredExponential(), "features": InducingPoints(X[:6]), "training": None}
    whole = kind(**given, blocks=np.arange(40) // 4).fit(X, targets)
    parts = kind(**given, blocks=np.arange(20) // 4).fit(X[:20], targets[:20])
    parts.set_params(blocks=np.arange(20) // 4).partial_fit(X[20:], targets[20:])
    tolerance = 1e-8 if kind is SparsePEPRegressor else 0.05
    np.testing.assert_allclose(parts.predict_f(X_TEST)[0], whole.predict_f(X_TEST)[0], atol=tolerance)
    alone = kind(**given).fit(X, targets)
    assert np.max(np.abs(alone.predict_f(X_TEST)[0] - whole.predict_f(X_TEST)[0])) > 1e-4


@pytest.mark.parametrize("targets", [y, np.column_stack([y, X[:, 0]]), SIDE], ids=["one", "outputs", "labels"])
def test_the_power_of_blocks_is_chosen_by_held_out_rows(targets):
    """As by hand, and with a source as in memory."""
    labels, kind = np.arange(40) // 5, SparsePEPClassifier if targets is SIDE else SparsePEPRegressor
    weight = np.resize([1.0, 2.0], 8)[labels]
    given = {"kernel": KERNEL, "features": InducingPoints(X[:6]), "training": LBFGS(max_iter=2, tol=1e9), "random_state": 0}
    model = kind(**given, power="held_out", blocks=labels).fit(X, targets, weight)
    parts = [ArraySource(X, targets, weight, blocks=b, piece_rows=12) for b in (labels, None)]
    source, alone = (kind(**given, power="held_out").fit(part) for part in parts)
    start = Model(KERNEL, given["features"], Probit() if targets is SIDE else Gaussian())
    data, rng = model._data.rows, np.random.default_rng(np.random.RandomState(0).randint(2**31))
    how = {"jitter": model.jitter, "training": LBFGS(max_iter=2, tol=1e9)}
    power, trained, sweep = held_out_power(start, data._replace(blocks=labels), rng, **how)
    found = model.diagnostics_["power_sweep"]["log_density"]
    assert model.power_ == source.power_ == power and error(found, sweep["log_density"]) < 1e-12
    assert error(source.diagnostics_["power_sweep"]["log_density"], found) < 1e-6
    assert error(alone.diagnostics_["power_sweep"]["log_density"][1:], found[1:]) > 1e-6
    end = train(trained, data._replace(blocks=labels), power, **how)
    assert error(vector_of(model), to_vector(end.model.parameters())) < 1e-12


def test_sites_within_blocks_are_those_of_f():
    model = fixed_model(blocks=BLOCKS, power=1.0)
    np.testing.assert_allclose(model.site_precision_, 10.0)
    np.testing.assert_allclose(model.site_shift_, 10.0 * y)


def test_a_block_size_makes_blocks_of_neighbours():
    model = fixed_model(blocks=4, power=1.0)
    assert np.bincount(model._blocks).max() <= 4
    spread = [np.ptp(X[model._blocks == b], axis=0).max() for b in np.unique(model._blocks)]
    assert np.median(spread) < 0.5 * np.ptp(X)
    assert fixed_model(blocks=1, power=1.0).log_marginal_likelihood_value_ == pytest.approx(
        fixed_model(power=1.0).log_marginal_likelihood_value_, rel=1e-10
    )


def test_neighbours_have_one_weight_and_one_power():
    weight, power = np.resize([1.0, 2.0, 2.0], 40), np.where(X[:, 0] > 0.0, 1.0, 0.3)
    model = SparsePEPRegressor(**KEPT, blocks=4, power=power, random_state=0).fit(X, y, weight)
    partition = Partition(model._blocks)
    assert np.array_equal(partition.shared(weight, "weight"), weight)
    assert np.array_equal(partition.shared(model.power_, "power"), power)
    assert 2 < np.mean(partition.sizes) and partition.sizes.max() <= 4
    same = SparsePEPRegressor(**KEPT, blocks=partition.labels, power=power).fit(X, y, weight)
    assert model.log_marginal_likelihood_value_ == same.log_marginal_likelihood_value_


def test_a_list_of_features_is_a_mixture(tmp_path):
    parts = [InducingPoints(X[:4]), GaussianBlur(X[4:8], [0.3, 0.2]), Derivative(X[8:10], [0, 1])]
    model = fixed_model(features=parts)
    same = fixed_model(features=Mixture(parts))
    assert model.log_marginal_likelihood_value_ == same.log_marginal_likelihood_value_
    assert isinstance(model.features_, Mixture) and len(model.q_mean_) == 10
    model.save(tmp_path / "mixture.npz")
    np.testing.assert_array_equal(load(tmp_path / "mixture.npz").predict(X_TEST), model.predict(X_TEST))


def test_bounds_hold_the_exact_evidence_between_them():
    model = fixed_model(power=1.0)
    low, high = model.log_marginal_likelihood_bounds()
    K = KERNEL(X) + 0.1 * np.eye(40)
    exact = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 40 * np.log(2 * np.pi))
    assert low < exact < high
    assert low == pytest.approx(fixed_model(power=0.0, tight=True).log_marginal_likelihood_value_, rel=1e-10)
    text = model.summary()
    assert f"exact GP lies between   {low:.2f} and {high:.2f}" in text and "a larger `n_inducing`" in text
    enough = fixed_model(features=InducingPoints(X[:38]), power=0.0)
    low, high = enough.log_marginal_likelihood_bounds()
    assert high - low < 0.4 and "advice" not in enough.summary()


@pytest.mark.parametrize("kind, targets", [(SparsePEPRegressor, y), (SparsePEPClassifier, SIDE)])
def test_summary_says_what_was_fitted_and_how_it_ended(kind, targets, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = kind(n_inducing=5, training=LBFGS(max_iter=2), power=0.25, random_state=0).fit(X, targets)
    text, told = model.summary(), model.diagnostics_
    for words in (kind.__name__, "0.25", "5 InducingPoints", "NO: ", f"{told['unexplained_share']:.1%}"):
        assert words in text
    assert 0.0 < told["determined_directions"] <= 5.0
    assert ("quadrature error" in text) == (kind is SparsePEPClassifier)
    model.save(tmp_path / "model.npz")
    assert load(tmp_path / "model.npz").summary().splitlines()[0] == text.splitlines()[0]
    with pytest.raises(NotFittedError):
        kind().summary()


# ---- Adam -----------------------------------------------------------------------------------------------------------

ADAM = {"training": Adam(batch_size=15, n_epochs=8), "n_inducing": 6, "random_state": 0}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_adam_climbs_and_tells_what_it_did(tmp_path):
    given = ADAM | {"training": Adam(batch_size=15, n_epochs=12), "standardize": False}
    model, again, other = (SparsePEPRegressor(**(given | {"random_state": seed})).fit(X, y) for seed in (0, 0, 1))
    ends = [one.log_marginal_likelihood_value_ for one in (model, again, other)]
    assert ends[0] == ends[1] != ends[2]
    told = model.diagnostics_
    assert model.n_iter_ == 12 and told["n_evaluations"] == 12 * 3 and told["n_rejected"] == 0
    assert told["log_evidence_trace"].shape == told["drift_trace"].shape == (13,)
    assert told["drift_trace"][0] == 0.0 < told["drift_trace"][-1] < 0.1 * told["drift_trace"][1]
    # the value is of all data, and the trace ends close to it
    gained = model.log_marginal_likelihood_value_ - told["log_evidence_trace"][0]
    assert gained > 5.0 and abs(model.log_marginal_likelihood_value_ - told["log_evidence_trace"][-1]) < 0.05 * gained
    exact = model_evidence(model._model, Piece(0, X, y), 0.5, model.jitter)
    assert model.log_marginal_likelihood_value_ == pytest.approx(exact.log_evidence, rel=1e-10)
    model.save(tmp_path / "adam.npz")
    loaded = load(tmp_path / "adam.npz")
    assert repr(loaded.training) == repr(model.training)
    np.testing.assert_array_equal(loaded.diagnostics_["drift_trace"], told["drift_trace"])
    np.testing.assert_array_equal(loaded.predict(X_TEST), model.predict(X_TEST))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_adam_visits_whole_blocks():
    labels, power = np.arange(40) // 5, np.linspace(0.0, 1.0, 8)
    given = ADAM | {"kernel": KERNEL, "features": InducingPoints(X[:6])}
    model = SparsePEPRegressor(**given, blocks=labels, power=power).fit(X, y)
    data, rng = Piece(0, X, y, power=power[labels], blocks=labels), np.random.default_rng(np.random.RandomState(0).randint(2**31))
    start = Model(KERNEL, given["features"])
    expected = train(start, data, training=given["training"], jitter=model.jitter, rng=rng).model.parameters()
    source = ArraySource(X, y, power=power[labels], blocks=labels, piece_rows=12)
    alone = SparsePEPRegressor(**given, power=power[labels]).fit(X, y)
    for name, value in SparsePEPRegressor(**given).fit(source).parameters().items():
        assert error(model.parameters()[name], expected[name]) == 0.0 and error(value, expected[name]) < 1e-6
        assert error(alone.parameters()[name], expected[name]) > 1e-4


def test_adam_says_whether_it_was_still_rising():
    with pytest.warns(ConvergenceWarning, match="gained .* nats per data point.*raise `n_epochs`"):
        model = SparsePEPRegressor(**(ADAM | {"training": Adam(n_epochs=12, tol=1e-9)})).fit(X, y)
    assert not model.converged_
    with pytest.warns(ConvergenceWarning, match="4 epochs are too few to tell"):
        model = SparsePEPRegressor(**(ADAM | {"training": Adam(n_epochs=4, tol=10.0)})).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SparsePEPRegressor(**(ADAM | {"training": Adam(n_epochs=12, tol=10.0)})).fit(X, y).converged_


@pytest.mark.parametrize("verbose", [0, 1])
def test_adam_shows_its_progress_if_asked(verbose, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        SparsePEPRegressor(**ADAM, verbose=verbose).fit(X, y)
    assert ("objective per data point" in capfd.readouterr().err) == bool(verbose)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_adam_counts_weights_and_goes_on_with_later_data():
    weight = np.where(np.arange(40) < 10, 0.0, 2.0)
    left = SparsePEPRegressor(**ADAM).fit(X, y, weight)
    without = SparsePEPRegressor(**ADAM).fit(X[10:], y[10:], weight[10:])
    np.testing.assert_array_equal(left.predict(X_TEST), without.predict(X_TEST))
    # copies are one row of a larger weight
    twice = SparsePEPRegressor(**ADAM).fit(np.vstack([X, X]), np.append(y, y))
    double = SparsePEPRegressor(**ADAM).fit(X, y, np.full(40, 2.0))
    np.testing.assert_allclose(twice.predict(X_TEST), double.predict(X_TEST), rtol=1e-6)
    # with everything fixed, later data are added exactly
    names = list(without.parameters())
    fixed = ADAM | {"kernel": KERNEL, "features": InducingPoints(X[:6]), "noise_variance": 0.1, "fixed": names}
    once = SparsePEPRegressor(**fixed).fit(X, y)
    parts = SparsePEPRegressor(**fixed).fit(X[:25], y[:25]).partial_fit(X[25:], y[25:])
    np.testing.assert_allclose(parts.predict(X_TEST), once.predict(X_TEST), rtol=1e-6)
    # and if not, the first data are not forgotten
    going_on = SparsePEPRegressor(**ADAM).fit(X[:25], y[:25])
    going_on.partial_fit(X[25:], y[25:])
    assert going_on.score(X[:25], y[:25]) > 0.8 and going_on.n_samples_seen_ == 40


# ---------------------------------------------------------------------------- another array library


# ---------------------------------------------------------------------------- what a fit keeps, and inputs in own units


def test_a_fit_does_not_change_with_the_arguments():
    """What later calls need is kept: `set_params` is for the next fit."""
    model = fixed_model(jitter=1e-8)
    theta = vector_of(model)
    before = model.log_marginal_likelihood(theta, eval_gradient=True), model.summary(), model.predict(X_TEST)
    model.set_params(jitter=0.1, training="adam", blocks=4, n_inducing=2)
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == before[0][0] and np.array_equal(gradient, before[0][1])
    assert model.summary() == before[1] and np.array_equal(model.predict(X_TEST), before[2])
    assert model.can_leave_out(X) and np.all(np.isfinite(model.leave_one_out()))
    grown = model.add_inducing(X[6:8]).log_marginal_likelihood_value_
    more = fixed_model(features=InducingPoints(X[:8])).log_marginal_likelihood_value_
    assert grown == more


def test_a_saved_model_keeps_what_it_was_fitted_with(tmp_path):
    model = fixed_model(features=InducingPoints(np.vstack([X[:6], X[:6]])), jitter=0.0).set_params(jitter=1e-2)
    model.diagnostics_["jitter"] = 1e-6
    expected = model.summary_rows()
    assert any("more than was asked for" in text for _, text in expected)
    model.save(tmp_path / "model.npz")
    advice = [text for name, text in load(tmp_path / "model.npz").summary_rows() if name == "advice"]
    assert any("more than was asked for" in text for text in advice)


UNITS, SHIFT = np.array([1e3, 0.02]), np.array([-7.0, 300.0])


@pytest.mark.parametrize(
    ("kind", "optimizer"), [(SparsePEPRegressor, "lbfgs"), (SparsePEPRegressor, "adam"), (SparsePEPClassifier, None), (SparsePEP, "lbfgs")]
)
@pytest.mark.filterwarnings("ignore")
def test_standardised_inputs_are_those_of_a_scaler(kind, optimizer):
    given = ADAM | {"training": {"lbfgs": LBFGS(max_iter=2), "adam": Adam(n_epochs=2), None: None}[optimizer]}
    own, targets = UNITS * X + SHIFT, np.where(np.arange(40) % 2, 1.0, -1.0) if kind is SparsePEPRegressor else SIDE  # of mean 0 and deviation 1
    given |= {"likelihood": "poisson"} if kind is SparsePEP else {}
    model = kind(**given, standardize=True).fit(own, targets)
    np.testing.assert_allclose(model.x_mean_, own.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.x_scale_, own.std(axis=0), rtol=1e-12)
    scaled = kind(**given, standardize=False).fit((own - model.x_mean_) / model.x_scale_, targets)
    test = UNITS * X_TEST + SHIFT
    seen = (test - model.x_mean_) / model.x_scale_
    assert model.log_marginal_likelihood_value_ == scaled.log_marginal_likelihood_value_
    for a, b in zip(model.predict_f(test), scaled.predict_f(seen)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(model.sample_f(test, 3), scaled.sample_f(seen, 3))
    np.testing.assert_array_equal(model.sample_y(test, 3), scaled.sample_y(seen, 3))
    np.testing.assert_array_equal(model.leave_one_out(), scaled.leave_one_out())
    later = slice(30, 40)
    model.partial_fit(own[later], targets[later])
    scaled.partial_fit((own[later] - model.x_mean_) / model.x_scale_, targets[later])
    assert model.log_marginal_likelihood_value_ == scaled.log_marginal_likelihood_value_


def test_what_takes_inputs_takes_them_in_their_own_units():
    own, constant = UNITS * X + SHIFT, np.full((40, 1), 1e6)
    model = SparsePEPRegressor(n_inducing=5, training=None, standardize=True, random_state=0, blocks=None)
    model.fit(np.hstack([own, constant]), y)
    assert model.x_scale_[2] == 1.0 and model.x_mean_[2] == 1e6 and np.all(model.features_.Z[:, 2] == 0.0)
    place = np.append(own[7], 1e6)
    np.testing.assert_allclose(model.add_inducing([place]).features_.Z[-1], np.append((own[7] - model.x_mean_[:2]) / model.x_scale_[:2], 0.0))
    _, cov = model.predict(np.hstack([own, constant])[:5], return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), model.predict(np.hstack([own, constant])[:5], return_std=True)[1], rtol=1e-9)
    plain = fixed_model()
    assert np.array_equal(plain.x_mean_, [0.0, 0.0]) and np.array_equal(plain.x_scale_, [1.0, 1.0])


@pytest.mark.filterwarnings("ignore")
def test_weights_count_where_inputs_are_scaled():
    """A weight of 2 is a row twice, one of 0 no row, in the scales too."""
    weight, given = np.resize([1, 0, 3, 2, 1], 40), {"n_inducing": 5, "training": LBFGS(max_iter=4), "standardize": True, "random_state": 0}
    again = np.repeat(np.arange(40), weight)
    weighted, longer = SparsePEPRegressor(**given).fit(X, y, weight), SparsePEPRegressor(**given).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.x_mean_, X[again].mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(weighted.x_scale_, longer.x_scale_)  # from the different rows, as training is
    assert error(weighted.predict(X_TEST), longer.predict(X_TEST)) < 1e-12


def test_scales_come_back_from_a_file(tmp_path):
    model = fixed_model(standardize=True)
    model.save(tmp_path / "model.npz", extra={"unit": "m"})
    back = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict(X_TEST), model.predict(X_TEST))
    assert back.standardize is True and back.extra_ == {"unit": "m"}
    np.testing.assert_array_equal(back.x_scale_, X.std(axis=0))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X_TEST), model.predict(X_TEST))


def test_constructors_show_what_they_take():
    for kind in (SparsePEPRegressor, SparsePEP, SparsePEPClassifier):
        names = list(inspect.signature(kind).parameters)
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in inspect.signature(kind).parameters.values())
        assert sorted(names) == sorted(kind().get_params()) and "standardize" in names
        described = section_of(kind.__doc__, "Parameters")
        assert [name for name in names if f"\n    {name} :" not in f"\n    {described}"] == []
        assert "{" not in kind.__doc__.partition("Examples")[0]
    assert "normalize_y" not in SparsePEPClassifier().get_params()


def test_warnings_point_at_the_line_that_asked(recwarn):
    SparsePEPRegressor(n_inducing=5, training=LBFGS(max_iter=1), random_state=0).fit(X, y)
    SparsePEPRegressor(n_inducing=90, training=None).fit(X, y)
    SparsePEPRegressor(n_inducing=3, training=None).fit(X, y).partial_fit(X, y)
    assert [warning.filename for warning in recwarn] == [__file__] * 2


@pytest.mark.parametrize("name, outputs", [("gaussian", 1), ("gaussian", 2), ("student_t", 1)])
def test_a_mean_alone_is_the_one_beside_a_deviation_and_takes_no_variance(name, outputs, monkeypatch):
    rng = np.random.default_rng(4)
    X, columns = rng.uniform(size=(60, 2)), [7.0 + np.sin(5.0 * x) for x in rng.uniform(size=(outputs, 60))]
    kind = SparsePEPRegressor() if name == "gaussian" else SparsePEP(likelihood=name)
    kind.set_params(n_inducing=9, training=None, standardize=True)
    model = kind.fit(X, np.stack(columns, axis=1) if outputs > 1 else columns[0])
    tests = rng.uniform(size=(7000, 2))  # several chunks
    mean, _ = model.predict(tests, return_std=True)
    monkeypatch.setattr("sparse_pep.model.predict_f", None)
    np.testing.assert_allclose(model.predict(tests), mean, rtol=1e-10)
    np.testing.assert_allclose(model.predict(tests[:1].tolist()), mean[:1], rtol=1e-10)
    np.testing.assert_allclose(model.predict(ArraySource(tests, piece_rows=3000)), mean, rtol=1e-10)
