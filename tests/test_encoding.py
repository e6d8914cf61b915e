"""Targets as likelihoods want them, and estimators that are fitted to sources."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.data.sources import ArraySource, Source
from sparse_pep.data.tables import convert_table
from sparse_pep.estimators.encoding import EncodedSource, Encoding, classes_of, source_of, targets_of
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Poisson, Probit
from sparse_pep.multiclass import Softmax
from sparse_pep.training import LBFGS, Adam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
Y = 5.0 + 3.0 * np.sin(2.0 * X[:, 0]) + 0.2 * RNG.normal(size=600)
FEW = 200  # rows of three classes
KEPT = {"kernel": SquaredExponential(4.0, [0.7, 3.0]), "features": InducingPoints(X[:20]), "training": None}


def in_pieces(*columns, **more):
    return ArraySource(*columns, piece_rows=170, **more)


# ---- the encoding ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "given", "seen"),
    [
        (Encoding(Gaussian(), 2.0, 4.0), [2.0, 10.0], [0.0, 2.0]),
        (Encoding(Gaussian(), np.array([0.0, 1.0]), np.array([1.0, 2.0])), [[3.0, 5.0]], [[3.0, 2.0]]),
        (Encoding(Probit(), classes=np.array([3, 8])), [8, 3, 8], [1.0, -1.0, 1.0]),
        (Encoding(Softmax(3), classes=np.array(["a", "b", "c"])), ["c", "a"], [2, 0]),
    ],
)
def test_there_and_back(encoding, given, seen):
    given = np.array(given)
    assert np.array_equal(encoding(given), seen)
    assert np.array_equal(encoding.back(np.array(seen)), given)


@pytest.mark.parametrize("labels", [[3, 4], ["3", "8"], [3.5], [9]])
def test_labels_that_are_no_class(labels):
    with pytest.raises(ValueError, match="labels that were fitted; got .* in row"):
        Encoding(Probit(), classes=np.array([3, 8]))(np.array(labels))


def test_a_piece_is_translated_with_its_variances():
    source = EncodedSource(in_pieces(X, Y, known_variance=np.full(600, 8.0)), Encoding(Gaussian(), 1.0, 2.0))
    pieces = list(source.pieces())
    assert [len(piece.X) for piece in pieces] == [170, 170, 170, 90]
    assert np.allclose(np.concatenate([piece.y for piece in pieces]), (Y - 1.0) / 2.0, rtol=1e-15)
    assert all(np.all(piece.known_variance == 2.0) for piece in pieces)
    few = source.sample(50, np.random.default_rng(1))
    assert np.isin(few.y, (Y - 1.0) / 2.0).all() and len(few.y) == 50


def test_inputs_are_translated_where_they_are(tmp_path):
    scaling = {"x_mean": np.array([1.0, 2.0]), "x_scale": np.array([0.5, 2.0])}
    source = EncodedSource(in_pieces(X), Encoding(**scaling))
    first = next(source.pieces())
    assert np.allclose(first.X, (X[:170] - [1.0, 2.0]) / [0.5, 2.0], rtol=1e-12) and first.y is None
    assert np.isin(source.sample(9, np.random.default_rng(1)).X, (X - [1.0, 2.0]) / [0.5, 2.0]).all()
    assert source.fingerprint() != EncodedSource(in_pieces(X), Encoding()).fingerprint()
    both = Encoding(Gaussian(), 1.0, 2.0, **scaling)
    piece = next(EncodedSource(in_pieces(X, Y), both).pieces())
    assert np.array_equal(piece.X, first.X) and np.allclose(piece.y, (Y[:170] - 1.0) / 2.0, rtol=1e-15)
    assert np.array_equal(both.of_inputs().inputs(X), both.inputs(X))


def test_fingerprints_tell_encodings_apart():
    plain = in_pieces(X, Y)
    prints = [
        EncodedSource(plain, Encoding(Gaussian(), mean, scale)).fingerprint()
        for mean, scale in ((0, 1), (1, 1), (0, 2))
    ]
    labels = in_pieces(X, (Y > 5.0) * 1.0)
    prints += [
        EncodedSource(labels, Encoding(Probit(), classes=np.array(pair))).fingerprint()
        for pair in ([0.0, 1.0], [0.0, 2.0])
    ]
    assert len(set(prints)) == 5
    assert prints[0] == EncodedSource(ArraySource(X, Y), Encoding(Gaussian(), 0, 1)).fingerprint()


def test_classes_of_all_pieces_that_count():
    y = np.repeat([7.0, 2.0, 5.0, 9.0], 150)
    assert classes_of(in_pieces(X, y)).tolist() == [2.0, 5.0, 7.0, 9.0]
    assert classes_of(in_pieces(X, y, weight=(y != 9.0) * 1.0)).tolist() == [2.0, 5.0, 7.0]
    with pytest.raises(ValueError, match="if they are numbers"):
        classes_of(ArraySource(np.zeros((1001, 1)), np.arange(1001.0)))


def test_what_is_a_source():
    source = in_pieces(X, Y)
    assert source_of(source) is source and source_of(X, Y) is None and source_of([[1.0]], [1.0]) is None
    for more in ({"y": Y}, {"weight": Y}, {"known_variance": Y}):
        with pytest.raises(ValueError, match="belongs to the source"):
            source_of(source, **more)


# ---- estimators -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [{}, {"standardize": True}, {"standardize": True}, {"mean": "constant"}, {"power": 0.0}, {"power": "log_loss"}],
)
def test_a_fit_to_a_source_is_the_fit_to_its_rows(more):
    weight, known = RNG.integers(0, 3, 600).astype(float), RNG.uniform(0.0, 0.5, 600)
    arrays = SparsePEPRegressor(**KEPT, **more).fit(X, Y, weight, known)
    source = SparsePEPRegressor(**KEPT, **more).fit(in_pieces(X, Y, weight=weight, known_variance=known))
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-10)
    for name in ("x_mean_", "x_scale_", "y_mean_", "y_scale_", "q_mean_", "q_cov_", "n_features_in_", "n_samples_seen_", "power_"):
        assert np.allclose(getattr(source, name), getattr(arrays, name), rtol=1e-9, atol=1e-12), name
    for name in ("jitter", "unexplained_share", "unexplained_variance", "determined_directions"):
        assert np.isclose(source.diagnostics_[name], arrays.diagnostics_[name], rtol=1e-9), name
    value, slope = source.log_marginal_likelihood(eval_gradient=True)
    assert np.isclose(value, arrays.log_marginal_likelihood_value_, rtol=1e-10)
    assert np.allclose(slope, arrays.log_marginal_likelihood(eval_gradient=True)[1], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEPClassifier])
def test_a_source_starts_where_its_rows_start(kind, weighted):
    rows, weight = X.round(), RNG.integers(0, 3, 600).astype(float)  # few are different
    y = np.round(Y) if kind is SparsePEPRegressor else (Y > 5.0).astype(float)
    how = {"n_inducing": 6, "training": None, "random_state": 0, "standardize": False}
    arrays = kind(**how).fit(rows, y, weight if weighted else None)
    source = kind(**how).fit(in_pieces(rows, y, **({"weight": weight} if weighted else {})))
    assert np.array_equal(source.features_.Z, arrays.features_.Z)
    assert source.n_samples_seen_ == arrays.n_samples_seen_
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-7)


@pytest.mark.parametrize("power", [0.5, "held_out"])
def test_many_rows_are_judged_by_the_same_sample(power, monkeypatch):
    for module in ("base", "fitting"):
        monkeypatch.setattr(f"sparse_pep.estimators.{module}.SAMPLE_ROWS", 250)
    how = {"n_inducing": 6, "random_state": 0, "training": LBFGS(max_iter=2, tol=1e9), "power": power}
    arrays, source = (SparsePEPRegressor(**how).fit(*given) for given in ((X, Y), (in_pieces(X, Y),)))
    assert arrays.power_ == source.power_
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-9)


def test_training_on_a_source_ends_where_training_on_its_rows_ends():
    how = {"n_inducing": 15, "random_state": 0, "training": LBFGS(max_iter=15, tol=1e-3)}
    with pytest.warns(UserWarning, match="before it converged") as seen:
        arrays, source = (SparsePEPRegressor(**how).fit(*given) for given in ((X, Y), (in_pieces(X, Y),)))
    assert [warning.filename for warning in seen] == [__file__] * 2
    assert source.n_iter_ == arrays.n_iter_ == 15 and not source.converged_
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-6)
    assert "still rising" in source.diagnostics_["message"]
    assert source.diagnostics_["n_evaluations"] >= 15 and "numerics" in source.summary()


@pytest.mark.parametrize(
    "more",
    [
        {"training": LBFGS(max_iter=4, tol=1e9, n_restarts=2)},
        {"training": Adam(batch_size=100, n_epochs=4, tol=1e9)},
        {"power": "held_out", "training": LBFGS(max_iter=3, tol=1e9)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_training_of_any_kind_is_that_of_the_rows(more):
    how = {"n_inducing": 8, "random_state": 0} | more
    arrays, source = (SparsePEPRegressor(**how).fit(*given) for given in ((X, Y), (in_pieces(X, Y),)))
    assert source.power_ == arrays.power_ and source.n_iter_ == arrays.n_iter_
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-6)
    for name, value in arrays.parameters().items():
        assert np.allclose(source.parameters()[name], value, rtol=1e-4, atol=1e-5), name


@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEPClassifier])
def test_rows_of_a_source_are_left_out_and_their_evidence_is_bounded(kind):
    y, weight = Y if kind is SparsePEPRegressor else (Y > 5.0).astype(float), RNG.integers(1, 3, 600).astype(float)
    arrays, source = kind(**KEPT).fit(X, y, weight), kind(**KEPT).fit(in_pieces(X, y, weight=weight))
    assert np.allclose(source.leave_one_out(), arrays.leave_one_out(), rtol=1e-6, atol=1e-8)
    for own, other in zip(source.leave_one_out_f(), arrays.leave_one_out_f()):
        assert np.allclose(own, other, rtol=1e-6, atol=1e-8)
    if kind is SparsePEPRegressor:
        own, other = (one.log_marginal_likelihood_bounds() for one in (source, arrays))
        assert np.allclose(own, other, rtol=1e-9)


@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEPClassifier])
def test_points_of_a_fit_to_a_source_are_added_and_removed(kind):
    y = Y if kind is SparsePEPRegressor else (Y > 5.0).astype(float)
    arrays, source = kind(**KEPT).fit(X, y), kind(**KEPT).fit(in_pieces(X, y))
    for change in (lambda m: m.add_inducing(3), lambda m: m.add_inducing(X[30:32]), lambda m: m.remove_inducing(4)):
        for model in (arrays, source):
            change(model)
        assert np.array_equal(source.features_.Z, arrays.features_.Z)
        own, other = (model.log_marginal_likelihood_value_ for model in (source, arrays))
        assert np.isclose(own, other, rtol=1e-7)
        assert np.allclose(source.predict_f(X), arrays.predict_f(X), rtol=1e-4, atol=1e-5)
    assert len(source.features_) == 21


@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEPClassifier])
def test_blocks_of_a_source_are_those_of_its_rows(kind):
    y, labels = Y if kind is SparsePEPRegressor else (Y > 5.0).astype(float), np.arange(600) // 7
    how = {"kernel": KEPT["kernel"], "features": KEPT["features"], "training": LBFGS(max_iter=2, tol=1e9), "fixed": ["features.Z"]}
    arrays = kind(**how, blocks=labels).fit(X, y)
    source = kind(**how).fit(in_pieces(X, y, blocks=labels))
    plain = kind(**how).fit(X, y)
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-7)
    assert not np.isclose(plain.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-6)
    assert np.allclose(source.predict(X), arrays.predict(X), rtol=1e-4, atol=1e-5)
    assert np.allclose(source.leave_one_out(), arrays.leave_one_out(), rtol=1e-4, atol=1e-5)


def test_adam_needs_rows_by_their_numbers():
    class Stream(Source):
        n_dims = 2

        def pieces(self):
            yield from in_pieces(X, Y).pieces()

    with pytest.raises(ValueError, match="mini-batches draw rows by their numbers"):
        SparsePEPRegressor(**(KEPT | {"training": "adam"})).fit(Stream())


@pytest.mark.parametrize("labels", [np.array([3.0, 8.0]), np.array([0.0, 4.0, 5.0])])
def test_a_classifier_fitted_to_a_source(labels):
    rows, y = X[:FEW], labels[np.digitize(X[:FEW, 0], [0.0, 0.8][: len(labels) - 1])]
    arrays, source = (SparsePEPClassifier(**KEPT).fit(*given) for given in ((rows, y), (in_pieces(rows, y),)))
    assert source.classes_.tolist() == labels.tolist() and source.converged_
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-7)
    assert np.allclose(source.predict_proba(X), arrays.predict_proba(X), atol=1e-6)
    assert source.diagnostics_["sweeps_last"] > 0 and 0.0 < source.diagnostics_["smallest_cavity"] < 1.0


@pytest.mark.parametrize("likelihood, wave", [("poisson", np.exp), ("ordinal", np.exp), ("beta", expit)])
def test_any_likelihood_fitted_to_a_source(likelihood, wave):
    y = wave(np.sin(X[:, 0])) if likelihood == "beta" else np.floor(wave(np.sin(X[:, 0])))
    arrays, source = (SparsePEP(likelihood=likelihood, **KEPT).fit(*given) for given in ((X, y), (in_pieces(X, y),)))
    assert np.isclose(source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-7)
    assert np.isclose(source.score(X, y), arrays.score(X, y), rtol=1e-6)


def test_prediction_at_a_source():
    model = SparsePEPRegressor(**KEPT).fit(X, Y)
    for own, other in zip(model.predict(in_pieces(X), return_std=True), model.predict(X, return_std=True)):
        assert own.shape == (600,) and np.allclose(own, other, rtol=1e-12)
    two = SparsePEPRegressor(**KEPT).fit(in_pieces(X, np.column_stack([Y, -Y])))
    assert np.allclose(two.predict(in_pieces(X))[:, 1], -model.predict(X), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="3 columns; the model was fitted to 2"):
        model.predict(ArraySource(np.zeros((5, 3))))
    for call, words in (
        (lambda: model.predict(in_pieces(X), return_cov=True), "`return_cov` needs `X` as an array in memory"),
        (lambda: model.sample_f(in_pieces(X)), "`sample_f` needs `X` as an array in memory"),
        (lambda: SparsePEPClassifier(**KEPT).fit(X, Y > 5.0).sample_y(in_pieces(X)), "`sample_y` needs `X` as an array"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_score_at_a_source_is_that_of_its_rows():
    weight = RNG.integers(0, 3, 600).astype(float)
    counts = np.round(np.exp(Y))
    for model, y in ((SparsePEPRegressor(**KEPT), Y), (SparsePEP(likelihood=Poisson(), **KEPT), counts)):
        model.fit(X, y)
        assert np.isclose(model.score(in_pieces(X, y)), model.score(X, y), rtol=1e-12)
        assert np.isclose(model.score(in_pieces(X, y, weight=weight)), model.score(X, y, weight), rtol=1e-12)
        assert not np.isclose(model.score(X, y, weight), model.score(X, y), rtol=1e-6)
        for given, words in (
            ((X,), "`y` is missing"),
            ((in_pieces(X),), "no targets"),
            ((in_pieces(X, y), y), "belongs"),
        ):
            with pytest.raises(ValueError, match=words):
                model.score(*given)


def test_a_source_has_the_columns_of_the_fit_in_their_order(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = SparsePEPRegressor(**KEPT).fit(frame, Y)
    own = model.predict(convert_table(tmp_path / "rows.csv", columns=["a", "b"]))
    assert np.allclose(own, model.predict(frame)) and np.allclose(own, model.predict(in_pieces(X)))
    with pytest.raises(ValueError, match=r"columns \['b', 'a'\]; the model was fitted to \['a', 'b'\], in this order"):
        model.predict(convert_table(tmp_path / "rows.csv", columns=["b", "a"]))


@pytest.mark.parametrize("names", [["oak", "elm"], ["elm", "oak", "ash"]])
def test_labels_at_a_source_are_compared_as_people_have_them(tmp_path, names):
    y = np.array(names)[np.digitize(X[:FEW, 0], [0.0, 0.8][: len(names) - 1])]
    y[::9] = names[0]  # so that no model is right everywhere
    frame = pd.DataFrame(X[:FEW], columns=["a", "b"])
    frame.assign(kind=y).to_csv(tmp_path / "rows.csv", index=False)
    table = convert_table(tmp_path / "rows.csv", target="kind", labels=True, piece_rows=70)
    assert targets_of(table)[0].tolist() == y.tolist()
    model, arrays = SparsePEPClassifier(**KEPT).fit(table), SparsePEPClassifier(**KEPT).fit(frame, y)
    assert model.classes_.tolist() == sorted(names) and model.feature_names_in_.tolist() == ["a", "b"]
    assert np.allclose(model.predict_proba(table), arrays.predict_proba(frame), atol=1e-6)
    assert 0.5 < model.score(table) == model.score(frame, y) < 1.0
    for given, words in (((X,), "`y` is missing"), ((table, y), "belongs")):
        with pytest.raises(ValueError, match=words):
            model.score(*given)


@pytest.mark.parametrize("weight", [0.0, np.zeros(600)])
@pytest.mark.parametrize("model", [SparsePEPRegressor(), SparsePEPClassifier(), SparsePEP(likelihood=Poisson())])
def test_a_source_in_which_no_row_counts(model, weight):
    with pytest.raises(ValueError, match="`weight` is 0 for all rows of the source"):
        model.fit(in_pieces(X, (Y > 5.0).astype(float), weight=weight))


def test_a_classifier_refuses_numbers_of_a_source_as_it_does_in_memory():
    for given in ((X, Y), (in_pieces(X, Y),)):
        with pytest.raises(ValueError, match="`y`: Unknown label type: continuous"):
            SparsePEPClassifier(**KEPT).fit(*given)


def test_what_a_fit_to_a_source_has_not(tmp_path):
    model = SparsePEPRegressor(**KEPT).fit(X, Y).fit(in_pieces(X, Y))
    assert not hasattr(model, "site_precision_") and not hasattr(model, "_X")
    model.save(tmp_path / "model.npz")
    for copy in (load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(copy.predict(X), model.predict(X)) and not hasattr(copy, "_source")
        with pytest.raises(ValueError, match="training data"):
            copy.log_marginal_likelihood(eval_gradient=True)
    again = model.fit(X, Y)
    assert hasattr(again, "site_precision_") and not hasattr(again, "_source")


@pytest.mark.parametrize(
    ("arguments", "columns", "words"),
    [
        ({"blocks": 5}, (X, Y), "`blocks`"),
        ({"blocks": np.zeros(600)}, (X, Y), "`blocks`"),
        ({"power": np.full(600, 0.5)}, (X, Y), "`power` must be one number"),
        ({}, (X,), "targets `y`"),
        ({"fixed": ["nothing"]}, (X, Y), "`fixed`"),
    ],
)
def test_what_a_source_does_not_go_with(arguments, columns, words):
    model = SparsePEPRegressor(**(KEPT | {"training": "lbfgs"} | arguments))
    with pytest.raises(ValueError, match=words):
        model.fit(in_pieces(*columns))
    assert not hasattr(model, "q_mean_")


def test_one_target_a_row_where_there_may_be_only_one():
    with pytest.raises(ValueError, match="one target per row"):
        SparsePEP(likelihood=Gaussian()).fit(in_pieces(X, np.column_stack([Y, Y])))
    with pytest.raises(ValueError, match="one class only"):
        SparsePEPClassifier().fit(in_pieces(X, np.ones(600)))


# ---- collections of Dask --------------------------------------------------------------------------------------------


def test_collections_of_dask(monkeypatch):
    pytest.importorskip("distributed")
    import dask.array as da

    from sparse_pep.data.cluster import connect

    rows, targets = da.from_array(X, chunks=(200, 2)), da.from_array(Y, chunks=200)
    words = da.from_array(np.where(X[:, 0] > 0.0, "yes", "no"), chunks=200)
    weight = RNG.integers(1, 3, 600).astype(float)

    def none():
        raise ValueError("no clients found")

    with monkeypatch.context() as patch:  # other tests may have left one
        patch.setattr("distributed.get_client", none)
        with pytest.raises(ValueError, match="need a `client`"):
            SparsePEPRegressor(**KEPT).fit(rows, targets)
    with connect(1, processes=False) as client:
        monkeypatch.setattr("distributed.get_client", lambda: client)
        scaled = SparsePEPRegressor(**KEPT, standardize=True)
        model = clone(scaled).fit(rows, targets, da.from_array(weight, chunks=200))
        arrays = scaled.fit(X, Y, weight)
        assert np.isclose(model.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-10)
        assert np.allclose(model.predict(rows), arrays.predict(X), rtol=1e-8, atol=1e-8)
        labelled = SparsePEPClassifier(**KEPT).fit(rows, words)
    assert labelled.classes_.tolist() == ["no", "yes"]
    assert np.allclose(
        labelled.predict_proba(X),
        SparsePEPClassifier(**KEPT).fit(X, words.compute(scheduler="synchronous")).predict_proba(X),
        atol=1e-6,
    )
