"""Targets as likelihoods want them, and estimators that are fitted to sources."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.sources import ArraySource
from sparse_pep.data.tables import convert_table
from sparse_pep.estimators.encoding import (
    EncodedSource,
    Encoding,
    classes_of,
    source_of,
    targets_of,
)
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Poisson, Probit
from sparse_pep.training import LBFGS, Adam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
Y = 5.0 + 3.0 * np.sin(2.0 * X[:, 0]) + 0.2 * RNG.normal(size=600)
HIGH = (Y > 5.0).astype(float)
WEIGHT = RNG.integers(0, 3, 600).astype(float)
KNOWN = RNG.uniform(0.0, 0.5, 600)
FEW = 200  # rows of three classes
KEPT = {
    "kernel": SquaredExponential(4.0, [0.7, 3.0]),
    "features": InducingPoints(X[:20]),
    "training": None,
}


def in_pieces(*columns, **more):
    return ArraySource(*columns, piece_rows=170, **more)


@pytest.mark.parametrize(
    "classes", [np.array([3, 8]), np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object)]
)
@pytest.mark.parametrize(
    "labels", [[3, 4], ["3", "8"], [3.5], [9], [np.nan, np.nan], ["no", "maybe"]]
)
def test_labels_that_are_no_class(labels, classes):
    with pytest.raises(ValueError, match="labels that were fitted; got .* in row"):
        Encoding(Probit(), classes=classes)(np.array(labels))


def test_fingerprints_tell_encodings_apart():
    scales = {"x_mean": np.zeros(2), "x_scale": np.ones(2)}
    numbers = [
        *(Encoding(Gaussian(), *scaling) for scaling in ((0, 1), (1, 1), (0, 2))),
        Encoding(Gaussian(), 0, 1, **scales),
    ]
    labels = [Encoding(Probit(), classes=np.array(pair)) for pair in ([0.0, 1.0], [0.0, 2.0])]
    prints = [
        EncodedSource(in_pieces(X, Y), encoding).fingerprint() for encoding in numbers + labels
    ]
    assert len({*prints, EncodedSource(in_pieces(X, HIGH), numbers[0]).fingerprint()}) == 7
    assert prints[0] == EncodedSource(ArraySource(X, Y), numbers[0]).fingerprint()


def test_classes_of_all_pieces_that_count():
    y = np.repeat([7.0, 2.0, 5.0, 9.0], 150)
    assert classes_of(in_pieces(X, y, weight=(y != 9.0) * 1.0)).tolist() == [2.0, 5.0, 7.0]
    with pytest.raises(ValueError, match="if they are numbers"):
        classes_of(ArraySource(np.zeros((1001, 1)), np.arange(1001.0)))


@pytest.mark.parametrize("name", ["y", "weight", "known_variance"])
def test_a_source_brings_its_own_columns(name):
    with pytest.raises(ValueError, match="belongs to the source"):
        source_of(in_pieces(X, Y), **{name: Y})


def both(kind, y, rows=X, columns=None, **arguments):
    """A model fitted to arrays, and one fitted to a source of them. `columns`: blocks, powers,
    weights, known variances.
    """
    columns = columns or {}
    beside = {"weight": "sample_weight", "known_variance": "known_variance"}
    given = {beside[name]: value for name, value in columns.items() if name in beside}
    own = arguments | {name: value for name, value in columns.items() if name not in beside}
    return kind(**own).fit(rows, y, **given), kind(**arguments).fit(in_pieces(rows, y, **columns))


def brief(steps=2, **more):
    return {"n_inducing": 6, "random_state": 0, "training": LBFGS(max_iter=steps, tol=1e-3), **more}


ALL = {"weight": WEIGHT, "known_variance": KNOWN}
UNTRAINED = brief(training=None, standardize=False)
SEVENTHS = {"blocks": np.arange(600) // 7}
TWICE = SEVENTHS | {"weight": 1.0 + np.arange(600) // 7 % 2}
HELD_OUT = {"power": "held_out"}
BATCHES = {"training": Adam(batch_size=100, n_epochs=4, tol=1e9)}
BLOCKS = KEPT | {
    "training": LBFGS(max_iter=2, tol=1e-3),
    "fixed": ["features.Z"],
    "random_state": 0,
}
THREE = np.digitize(X[:FEW, 0], [0.0, 0.8])
WAVE = np.sin(X[:, 0])
REGRESSOR = SparsePEPRegressor
CLASSIFIER = SparsePEPClassifier
# estimator, targets, arguments, columns; relative error of the evidence, absolute one of
# predictions
SAME = {
    "weights": (REGRESSOR, Y, KEPT, ALL, 1e-10, 1e-9),
    "standardised": (REGRESSOR, Y, KEPT | {"standardize": True}, ALL, 1e-10, 1e-9),
    "a mean": (REGRESSOR, Y, KEPT | {"mean": "constant"}, ALL, 1e-10, 1e-9),
    "power 0": (REGRESSOR, Y, KEPT | {"power": 0.0}, ALL, 1e-10, 1e-9),
    "power for log loss": (REGRESSOR, Y, KEPT | {"power": "log_loss"}, ALL, 1e-10, 1e-9),
    "powers of rows": (REGRESSOR, Y, KEPT, {"power": np.linspace(0.0, 1.0, 600)}, 1e-10, 1e-9),
    "several outputs": (REGRESSOR, np.column_stack([Y, -Y]), KEPT, ALL, 1e-10, 1e-9),
    "rows that are repeated": (REGRESSOR, np.round(Y), UNTRAINED, {}, 1e-7, 1e-6),
    "rows that are weighted": (REGRESSOR, np.round(Y), UNTRAINED, {"weight": WEIGHT}, 1e-7, 1e-6),
    "labels that are repeated": (CLASSIFIER, HIGH, UNTRAINED, {}, 1e-7, 1e-6),
    "labels that are weighted": (CLASSIFIER, HIGH, UNTRAINED, {"weight": WEIGHT}, 1e-7, 1e-6),
    "two classes": (CLASSIFIER, np.where(HIGH[:FEW], 8.0, 3.0), KEPT, {}, 1e-7, 1e-6),
    "three classes": (CLASSIFIER, np.array([0.0, 4.0, 5.0])[THREE], KEPT, {}, 1e-7, 1e-6),
    "counts": (
        partial(SparsePEP, likelihood="poisson"),
        np.floor(np.exp(WAVE)),
        KEPT,
        {},
        1e-7,
        1e-6,
    ),
    "ordered classes": (
        partial(SparsePEP, likelihood="ordinal"),
        np.floor(np.exp(WAVE)),
        KEPT,
        {},
        1e-7,
        1e-6,
    ),
    "shares": (partial(SparsePEP, likelihood="beta"), expit(WAVE), KEPT, {}, 1e-7, 1e-6),
    "blocks": (REGRESSOR, Y, BLOCKS, SEVENTHS, 1e-7, 1e-5),
    "labels in blocks": (CLASSIFIER, HIGH, BLOCKS, SEVENTHS, 1e-7, 1e-5),
    "many rows": (REGRESSOR, Y, brief(), {}, 1e-9, 1e-4),
    "many rows and a power held out": (REGRESSOR, Y, brief(**HELD_OUT), {}, 1e-9, 1e-4),
    "training": (REGRESSOR, Y, brief(15, n_inducing=15), {}, 1e-6, 1e-4),
    "restarts": (
        REGRESSOR,
        Y,
        brief(training=LBFGS(max_iter=4, tol=1e-3, n_restarts=2)),
        {},
        1e-6,
        1e-4,
    ),
    "batches": (REGRESSOR, Y, brief(**BATCHES), {}, 1e-6, 1e-4),
    "batches of blocks": (REGRESSOR, Y, BLOCKS | BATCHES, SEVENTHS, 1e-6, 1e-5),
    "a power held out": (REGRESSOR, Y, brief(3, **HELD_OUT), {}, 1e-6, 1e-4),
    "a power held out from blocks": (REGRESSOR, Y, BLOCKS | HELD_OUT, SEVENTHS, 1e-6, 1e-5),
    "that of outputs": (
        REGRESSOR,
        np.column_stack([Y, WAVE]),
        BLOCKS | HELD_OUT,
        TWICE,
        1e-6,
        1e-5,
    ),
    "that of labels": (CLASSIFIER, HIGH, BLOCKS | HELD_OUT, SEVENTHS, 1e-6, 1e-5),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", SAME)
def test_a_fit_to_a_source_is_the_fit_to_its_rows(case, monkeypatch):
    kind, y, arguments, columns, close, near = SAME[case]
    rows = X.round() if arguments is UNTRAINED else X[: len(y)]  # of which few are different
    for module in ("base", "fitting"):  # many rows are judged by the same sample
        monkeypatch.setattr(
            f"sparse_pep.estimators.{module}.SAMPLE_ROWS", 250 if "many" in case else 20_000
        )
    arrays, source = both(kind, y, rows, columns, **arguments)
    assert source.summary()
    for name in ("n_features_in_", "n_samples_seen_", "n_iter_", "power_", "converged_")[
        : 3 if "power" in columns else 5
    ]:
        assert getattr(source, name) == getattr(arrays, name), name
    assert np.isclose(
        source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=close
    )
    for name in ("x_mean_", "x_scale_", "y_mean_", "y_scale_"):
        assert np.allclose(getattr(source, name), getattr(arrays, name), rtol=1e-9, atol=1e-12), (
            name
        )
    for name, value in arrays.parameters().items():
        assert np.allclose(
            source.parameters()[name], value, *((1e-4, 1e-5) if arrays.n_iter_ else (1e-9, 0.0))
        ), name
    assert arrays.n_iter_ or np.array_equal(source.features_.Z, arrays.features_.Z)
    assert np.allclose(source.predict_f(X), arrays.predict_f(X), rtol=near, atol=near)
    assert np.allclose(source.predict_f(in_pieces(X)), source.predict_f(X), rtol=1e-9, atol=1e-9)
    kept = columns.get("weight", np.ones(len(y))) > 0.0
    assert np.allclose(
        source.leave_one_out()[kept], arrays.leave_one_out(), rtol=near, atol=0.01 * near
    )
    for own, other in zip(source.leave_one_out_f(), arrays.leave_one_out_f(), strict=True):
        assert np.allclose(own[kept], other, rtol=near, atol=0.01 * near)
    assert np.isclose(source.score(rows, y), arrays.score(rows, y), rtol=1e-6)
    if kind is REGRESSOR:
        assert np.allclose(
            source.log_marginal_likelihood_bounds(),
            arrays.log_marginal_likelihood_bounds(),
            rtol=10 * close,
        )
        for name in (
            "jitter",
            "unexplained_share",
            "unexplained_variance",
            "determined_directions",
        ):
            assert np.isclose(
                source.diagnostics_[name], arrays.diagnostics_[name], rtol=10 * close
            ), name
    if kind is CLASSIFIER:
        assert source.classes_.tolist() == arrays.classes_.tolist()
        assert np.allclose(source.predict_proba(X), arrays.predict_proba(X), atol=1e-6)
        assert source.diagnostics_["sweeps_last"] > 0
        assert 0.0 < source.diagnostics_["smallest_cavity"] < 1.0
    if close == 1e-10:
        (value, slope), (expected, slopes) = (
            one.log_marginal_likelihood(eval_gradient=True) for one in (source, arrays)
        )
        assert np.isclose(value, expected, rtol=1e-10)
        assert np.allclose(slope, slopes, rtol=1e-7, atol=1e-7)
        for name in ("q_mean_", "q_cov_"):
            assert np.allclose(getattr(source, name), getattr(arrays, name), rtol=1e-9, atol=1e-12)
    if "power_sweep" in arrays.diagnostics_:
        found, other = (one.diagnostics_["power_sweep"]["log_density"] for one in (source, arrays))
        assert np.allclose(found, other, rtol=1e-6)
    if "blocks" in columns:
        plain = kind(**arguments).fit(X, y, columns.get("weight"))
        assert not np.isclose(
            plain.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-6
        )
        moved = [
            np.max(np.abs(value - plain.parameters()[name]))
            for name, value in arrays.parameters().items()
        ]
        assert max(moved) > 1e-4
        if "power_sweep" in arrays.diagnostics_:
            assert not np.any(
                np.isclose(
                    plain.diagnostics_["power_sweep"]["log_density"][1:], other[1:], rtol=1e-6
                )
            )


@pytest.mark.parametrize("kind, y", [(REGRESSOR, Y), (CLASSIFIER, HIGH)])
def test_points_of_a_fit_to_a_source_are_added_and_removed(kind, y):
    arrays, source = both(kind, y, **KEPT)
    for change in (
        lambda m: m.add_inducing(3),
        lambda m: m.add_inducing(X[30:32]),
        lambda m: m.remove_inducing(4),
    ):
        for model in (arrays, source):
            change(model)
        assert np.array_equal(source.features_.Z, arrays.features_.Z)
        assert np.isclose(
            source.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-7
        )
        assert np.allclose(source.predict_f(X), arrays.predict_f(X), rtol=1e-4, atol=1e-5)
    assert len(source.features_) == 21


def test_prediction_at_a_source():
    model = REGRESSOR(**KEPT).fit(X, Y)
    for own, other in zip(
        model.predict(in_pieces(X), return_std=True),
        model.predict(X, return_std=True),
        strict=True,
    ):
        assert own.shape == (600,)
        assert np.allclose(own, other, rtol=1e-12)
    for call, words in (
        (
            lambda: model.predict(ArraySource(np.zeros((5, 3)))),
            "3 columns; the model was fitted to 2",
        ),
        (
            lambda: model.predict(in_pieces(X), return_cov=True),
            "`return_cov` needs `X` as an array in memory",
        ),
        (lambda: model.sample_f(in_pieces(X)), "`sample_f` needs `X` as an array in memory"),
        (
            lambda: CLASSIFIER(**KEPT).fit(X, HIGH).sample_y(in_pieces(X)),
            "`sample_y` needs `X` as an array",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert hasattr(model, "site_precision_")
    assert not hasattr(model.fit(in_pieces(X, Y)), "site_precision_")
    assert model.fit(ArraySource(X, Y)).site_precision_.shape == (600,)  # one piece in memory


@pytest.mark.parametrize(
    "model, y",
    [(REGRESSOR(**KEPT), Y), (SparsePEP(likelihood=Poisson(), **KEPT), np.round(np.exp(Y)))],
)
def test_a_score_at_a_source_is_that_of_its_rows(model, y):
    model = clone(model).fit(X, y)
    assert np.isclose(model.score(in_pieces(X, y)), model.score(X, y), rtol=1e-12)
    assert np.isclose(
        model.score(in_pieces(X, y, weight=WEIGHT)), model.score(X, y, WEIGHT), rtol=1e-12
    )
    assert not np.isclose(model.score(X, y, WEIGHT), model.score(X, y), rtol=1e-6)
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
    model = REGRESSOR(**KEPT).fit(frame, Y)
    own = model.predict(convert_table(tmp_path / "rows.csv", columns=["a", "b"]))
    assert np.allclose(own, model.predict(frame))
    assert np.allclose(own, model.predict(in_pieces(X)))
    with pytest.raises(
        ValueError,
        match=r"columns \['b', 'a'\]; the model was fitted to \['a', 'b'\], in this order",
    ):
        model.predict(convert_table(tmp_path / "rows.csv", columns=["b", "a"]))


@pytest.mark.parametrize("names", [["oak", "elm"], ["elm", "oak", "ash"]])
def test_labels_at_a_source_are_compared_as_people_have_them(tmp_path, names):
    y = np.array(names)[np.minimum(THREE, len(names) - 1)]
    y[::9] = names[0]  # so that no model is right everywhere
    frame = pd.DataFrame(X[:FEW], columns=["a", "b"])
    frame.assign(kind=y).to_csv(tmp_path / "rows.csv", index=False)
    table = convert_table(tmp_path / "rows.csv", target="kind", labels=True, piece_rows=70)
    assert targets_of(table)[0].tolist() == y.tolist()
    model = CLASSIFIER(**KEPT).fit(table)
    arrays = CLASSIFIER(**KEPT).fit(frame, y)
    assert model.classes_.tolist() == sorted(names)
    assert model.feature_names_in_.tolist() == [
        "a",
        "b",
    ]
    assert np.allclose(model.predict_proba(table), arrays.predict_proba(frame), atol=1e-6)
    assert 0.5 < model.score(table) == model.score(frame, y) < 1.0


TWO = in_pieces(X, np.column_stack([Y, Y]))
UNCOUNTED = "`weight` is 0 for all rows of the source"
REFUSED = {  # estimator, its arguments, the source, words of the message
    "a size of blocks": (REGRESSOR, {"blocks": 5}, in_pieces(X, Y), "`blocks`"),
    "labels of blocks": (REGRESSOR, {"blocks": np.zeros(600)}, in_pieces(X, Y), "`blocks`"),
    "powers of rows": (
        REGRESSOR,
        {"power": np.full(600, 0.5)},
        in_pieces(X, Y),
        "`power` must be one number",
    ),
    "no targets": (REGRESSOR, {}, in_pieces(X), "targets `y`"),
    "an unknown name": (REGRESSOR, {"fixed": ["nothing"]}, in_pieces(X, Y), "`fixed`"),
    "several targets": (partial(SparsePEP, likelihood=Gaussian()), {}, TWO, "one target per row"),
    "one class": (CLASSIFIER, {}, in_pieces(X, np.ones(600)), "one class only"),
    "numbers for labels": (CLASSIFIER, {}, in_pieces(X, Y), "`y`: Unknown label type: continuous"),
    "no row that counts": (REGRESSOR, {}, in_pieces(X, Y, weight=0.0), UNCOUNTED),
    "no label that counts": (CLASSIFIER, {}, in_pieces(X, HIGH, weight=np.zeros(600)), UNCOUNTED),
    "no count that counts": (
        partial(SparsePEP, likelihood=Poisson()),
        {},
        in_pieces(X, HIGH, weight=np.zeros(600)),
        UNCOUNTED,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_with_a_source(case):
    kind, arguments, source, words = REFUSED[case]
    model = kind(**(KEPT | {"training": "lbfgs"} | arguments))
    with pytest.raises(ValueError, match=words):
        model.fit(source)
    assert not hasattr(model, "q_mean_")


def test_collections_of_dask(monkeypatch):
    Client = pytest.importorskip("distributed").Client
    import dask.array as da

    rows = da.from_array(X, chunks=(200, 2))
    targets = da.from_array(Y, chunks=200)
    words = np.where(X[:, 0] > 0.0, "yes", "no")
    weight = np.maximum(WEIGHT, 1.0)
    with Client(n_workers=1, processes=False, dashboard_address=None) as client:
        monkeypatch.setattr("distributed.default_client", lambda: client)
        scaled = REGRESSOR(**KEPT, standardize=True)
        model = clone(scaled).fit(rows, targets, da.from_array(weight, chunks=200))
        arrays = scaled.fit(X, Y, weight)
        assert np.isclose(
            model.log_marginal_likelihood_value_, arrays.log_marginal_likelihood_value_, rtol=1e-10
        )
        assert np.allclose(model.predict(rows), arrays.predict(X), rtol=1e-8, atol=1e-8)
        labelled = CLASSIFIER(**KEPT).fit(rows, da.from_array(words, chunks=200))
    assert labelled.classes_.tolist() == ["no", "yes"]
    assert np.allclose(
        labelled.predict_proba(X), CLASSIFIER(**KEPT).fit(X, words).predict_proba(X), atol=1e-6
    )
