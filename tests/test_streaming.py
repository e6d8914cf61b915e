"""Data in batches: the same as all at once where theory says so, and the definition of the rest."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from conftest import user_warning, value_error
from reference import dense
from reference.compare import error
from sklearn.base import clone

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import Fourier, GaussianBlur, InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import Gaussian, StudentT
from sparse_pep.means import ConstantMean
from sparse_pep.model import Model, model_evidence
from sparse_pep.streaming import summarise_posterior
from sparse_pep.training import LBFGS

rng = np.random.default_rng(4)
X = np.sort(rng.uniform(0, 6, (60, 1)), axis=0)
y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
Z = np.linspace(0.3, 5.7, 8)[:, None]
FIXED = {"training": None, "kernel": SquaredExponential(1.2, 0.8), "features": InducingPoints(Z)}
POWERS = [0.0, 0.5, 1.0]


OLD = Model(SquaredExponential(0.7, 1.3), InducingPoints(Z), Gaussian(0.1))


def memory_of(model, y, power=0.5):
    """The memory of the first 40 rows."""
    fit = model_evidence(model, Problem(Rows(X[:40], y[:40]), power))
    return summarise_posterior(fit.posteriors, fit.log_evidence, model.features)


def evidence_of_blocks(Kuu, Kuf, K, targets, noises, power, labels):
    """log Z_PEP of observations with covariance K and independent noise, in blocks."""
    V = dense.projected(Kuu, Kuf)
    D = np.where(labels[:, None] == labels, K - V, 0.0)
    relative = D / np.sqrt(np.outer(noises, noises))
    penalty = 0.5 * np.trace(relative)
    if power:
        penalty = (1 - power) / (2 * power) * dense.log_det(np.eye(len(K)) + power * relative)
    return dense.log_normal(targets, V + power * D + np.diag(noises)) - penalty


@pytest.mark.parametrize("power", POWERS)
def test_other_features_are_those_of_the_definition(power):
    """The memory is a block of a few data more: the dense evidence of both."""
    kernel = Matern32(1.1, 0.9)
    noise = 0.05
    memory = memory_of(OLD, y)
    new = Model(kernel, InducingPoints(Z[:-2] + 0.3), Gaussian(noise))
    fit = model_evidence(
        new, Problem(Rows(X[40:], y[40:]), power, earlier=replace(memory, kept=False))
    )
    W = np.vstack([np.eye(20, 28), np.pad(memory.weights[0], ((0, 0), (20, 0)))])
    places = np.vstack([X[40:], Z])
    expected = evidence_of_blocks(
        new.features.Kuu(kernel),
        kernel(new.features.Z, places) @ W.T,
        W @ kernel(places) @ W.T,
        np.append(y[40:], memory.observations[0]),
        np.append(np.full(20, noise), np.ones(len(W) - 20)),
        power,
        np.append(np.arange(20), np.full(len(W) - 20, 99)),
    )
    assert error(fit.log_evidence, expected + memory.log_constant) < 1e-10


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("tight", [False, True])
def test_the_basis_in_which_a_memory_is_written_does_not_matter(power, tight):
    memory = replace(memory_of(OLD, np.column_stack([y, -y])), kept=False)
    Q = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    rotated = replace(
        memory, weights=[Q @ memory.weights[0]], observations=[Q @ memory.observations[0]]
    )
    new = Model(Matern32(1.1, 0.9), InducingPoints(Z[::2] + 0.3), Gaussian(0.05))
    rows = Rows(X[40:], np.column_stack([y, y])[40:])
    first, second = (
        model_evidence(new, Problem(rows, power, tight=tight, earlier=one)).log_evidence
        for one in (memory, rotated)
    )
    assert error(first, second) < 1e-10


def test_features_without_covariances_in_closed_form_say_so():
    model = Model(Matern32(1.0, 1.0), Fourier(-1.0, 7.0, 3), Gaussian(0.1))
    memory = memory_of(model, y)
    data = Rows(X[40:], y[40:])
    again = model_evidence(model, Problem(data, earlier=memory))
    assert error(again.log_evidence, model_evidence(model, Problem(Rows(X, y))).log_evidence) < 1e-8
    with pytest.raises(NotImplementedError, match="Fourier"):
        model_evidence(model, Problem(data, earlier=replace(memory, kept=False)))


@pytest.fixture(
    scope="class", params=[(power, outputs) for power in (0.0, 0.3, 1.0) for outputs in (1, 2)]
)
def whole_and_stream(request):
    """A model fitted to all rows, and one that had them in seven batches."""
    power, outputs = request.param
    Y = y if outputs == 1 else np.column_stack([y, np.cos(X[:, 0])])
    weight = rng.integers(1, 4, 60)
    known = rng.uniform(0, 0.1, 60)
    mean = ConstantMean(0.2 if outputs == 1 else np.full(outputs, 0.2))
    model = SparsePEPRegressor(**FIXED, power=power, noise_variance=0.1, mean=mean)
    stream = clone(model)
    for rows in np.array_split(rng.permutation(60), 7):
        stream.partial_fit(X[rows], Y[rows], weight[rows], known[rows])
    return model.fit(X, Y, weight, known), stream


class TestBatches:
    def test_batches_are_one_fit(self, whole_and_stream):
        whole, stream = whole_and_stream
        ours = stream.predict(X, return_std=True)
        for values, expected in zip(ours, whole.predict(X, return_std=True), strict=True):
            assert error(values, expected) < 1e-8
        evidences = stream.log_marginal_likelihood_value_, whole.log_marginal_likelihood_value_
        assert error(*evidences) < 1e-8

    def test_rows_are_counted_and_the_last_have_sites(self, whole_and_stream):
        _, stream = whole_and_stream
        assert stream.n_samples_seen_ == 60
        assert len(stream.site_precision_) == 60 // 7

    def test_a_loaded_model_takes_more_data(self, whole_and_stream, tmp_path):
        _, stream = whole_and_stream
        stream.save(tmp_path / "model.npz")
        loaded = load(tmp_path / "model.npz")
        more = rng.uniform(0, 6, (5, 1))
        targets = np.zeros(np.shape(stream.predict(more)))
        expected = copy.deepcopy(stream).partial_fit(more, targets).predict(X)
        assert error(loaded.partial_fit(more, targets).predict(X), expected) < 1e-9
        assert loaded.n_samples_seen_ == 65


class TestEstimators:
    def test_the_likelihood_of_what_came_last_can_be_computed_again(self):
        stream = (
            SparsePEPRegressor(**FIXED, noise_variance=0.1)
            .fit(X[:40], y[:40])
            .partial_fit(X[40:], y[40:])
        )
        value, gradient = stream.log_marginal_likelihood(eval_gradient=True)
        assert error(value, stream.log_marginal_likelihood_value_) < 1e-12
        assert np.all(np.isfinite(gradient))
        assert stream.leave_one_out().shape == (20,)
        assert "exact GP lies between" not in stream.summary()  # not all data are there
        with value_error("needs all training data"):
            stream.log_marginal_likelihood_bounds()

    def test_training_goes_on_and_remembers(self):
        learner = SparsePEPRegressor(n_inducing=14, random_state=0)
        parts = np.array_split(np.arange(60), 4)
        for rows in parts:
            learner.partial_fit(X[rows], y[rows])
        assert len(learner.features_) == 14
        assert learner.converged_
        assert np.sqrt(np.mean((learner.predict(X) - np.sin(2 * X[:, 0])) ** 2)) < 0.15
        fixed = SparsePEPRegressor(n_inducing=14, random_state=0, fixed=["features.Z"]).fit(
            X[:30], y[:30]
        )
        before = fixed.features_.Z
        assert np.array_equal(fixed.partial_fit(X[30:], y[30:]).features_.Z, before)

    def test_labels(self):
        labels = np.where(y > 0, "up", "down")
        stream = SparsePEPClassifier(**FIXED).partial_fit(
            X[:20], labels[:20], classes=["up", "down"]
        )
        stream.partial_fit(X[20:40], labels[20:40]).partial_fit(X[40:], labels[40:])
        whole = SparsePEPClassifier(**FIXED).fit(X, labels)
        assert np.max(np.abs(stream.predict_proba(X) - whole.predict_proba(X))) < 0.05
        only = SparsePEPClassifier(**FIXED).partial_fit(
            X[:5], np.repeat("up", 5), classes=["up", "down"]
        )
        assert list(only.classes_) == ["down", "up"]
        assert np.all(only.predict(X[:5]) == "up")

    @pytest.mark.parametrize(
        "more",
        [FIXED, {"n_inducing": 8, "training": LBFGS(max_iter=3, tol=1e9), "random_state": 0}],
        ids=["fixed", "trained"],
    )
    @pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEPClassifier])
    def test_a_source_goes_on_as_its_rows_do(self, kind, more):
        targets = y if kind is SparsePEPRegressor else (y > 0.0) * 1.0
        later = X[20:], targets[20:], np.resize([1.0, 2.0], 40)
        arrays, source = (kind(**more).fit(X[:20], targets[:20]) for _ in range(2))
        arrays.partial_fit(*later) if kind is SparsePEPRegressor else arrays.partial_fit(
            *later[:2], None, later[2]
        )
        source.partial_fit(ArraySource(*later, piece_rows=9))
        assert source.n_samples_seen_ == arrays.n_samples_seen_ == 60
        assert (
            error(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_)
            < 1e-6
        )
        assert error(np.array(source.predict_f(X)), np.array(arrays.predict_f(X))) < 1e-5

    def test_a_source_of_numbered_classes_goes_on(self):
        class Numbered(ArraySource):
            classes = ["down", "up"]

        labels = np.where(y > 0.0, "up", "down")
        arrays, source = (SparsePEPClassifier(**FIXED).fit(X[:20], labels[:20]) for _ in range(2))
        rows = Numbered(X[20:], np.sign(y[20:]))
        assert (
            error(
                source.partial_fit(rows).predict_proba(X),
                arrays.partial_fit(X[20:], labels[20:]).predict_proba(X),
            )
            < 1e-8
        )
        rows.classes = ["down", "under", "up"]
        with value_error("the source has the classes .*under"):
            source.partial_fit(rows)

    def test_outliers_that_cannot_be_remembered(self):
        spoilt = SparsePEP(likelihood=StudentT(3.0, 0.05), **FIXED, power=1.0).fit(
            X[:2], [9.0, -9.0]
        )
        with value_error("less certain than the prior"):
            spoilt.partial_fit(X[2:4], y[2:4])


class TestPoints:
    @pytest.fixture
    def model(self):
        return SparsePEPRegressor(**FIXED, noise_variance=0.1).fit(X, y)

    def test_added_and_removed(self, model):
        before = model.predict(X, return_std=True)[1].mean()
        gap = np.subtract(*model.log_marginal_likelihood_bounds()[::-1])
        assert model.add_inducing(4) is model
        assert len(model.features_) == 12
        assert np.array_equal(model.features_.Z[:8], Z)
        assert np.all(np.isin(model.features_.Z[8:], X))
        assert np.subtract(*model.log_marginal_likelihood_bounds()[::-1]) < gap
        assert model.predict(X, return_std=True)[1].mean() != before
        again = SparsePEPRegressor(**FIXED | {"features": model.features_}, noise_variance=0.1).fit(
            X, y
        )
        assert error(model.predict(X), again.predict(X)) < 1e-10
        model.remove_inducing([8, 9, 10, 11])
        assert (
            error(
                model.predict(X),
                SparsePEPRegressor(**FIXED, noise_variance=0.1).fit(X, y).predict(X),
            )
            < 1e-10
        )

    def test_those_that_the_others_explain_go_first(self, model):
        model.add_inducing([[0.31], [3.0]])
        kept = model.remove_inducing(1).features_.Z[:, 0]
        assert len(kept) == 9
        assert (0.3 in kept) != (0.31 in kept)
        assert len(model.partial_fit(X[:30], y[:30]).add_inducing(3).features_) == 12
        assert model.n_samples_seen_ == 90

    def test_no_more_than_there_is_to_explain(self):
        model = SparsePEPRegressor(
            **FIXED | {"features": InducingPoints(X[:4])}, noise_variance=0.1
        ).fit(X[:6], y[:6])
        with user_warning("were added"):
            model.add_inducing(6)
        assert len(model.features_) <= 6
        with value_error("GaussianBlur"):
            SparsePEPRegressor(**FIXED | {"features": GaussianBlur(Z, [0.2])}).fit(
                X, y
            ).remove_inducing(1)
