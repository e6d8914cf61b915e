"""Targets as likelihoods want them, and estimators that are fitted to sources."""

import json
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from conftest import value_error
from scipy.special import expit
from sklearn.base import clone

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.encoder import (
    EncodedSource,
    Encoder,
    classes_of,
    source_of,
    targets_of,
)
from sparse_pep.data.sources import ArraySource
from sparse_pep.data.tables import convert_table
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
    with value_error("labels that were fitted; got .* in row"):
        Encoder(Probit(), classes=classes).targets(np.array(labels))


def test_fingerprints_tell_encodings_apart():
    scales = {"x_mean": np.zeros(2), "x_scale": np.ones(2)}
    numbers = [
        *(Encoder(Gaussian(), *scaling) for scaling in ((0, 1), (1, 1), (0, 2))),
        Encoder(Gaussian(), 0, 1, **scales),
    ]
    labels = [Encoder(Probit(), classes=np.array(pair)) for pair in ([0.0, 1.0], [0.0, 2.0])]
    prints = [
        EncodedSource(in_pieces(X, Y), encoding).fingerprint() for encoding in numbers + labels
    ]
    assert len({*prints, EncodedSource(in_pieces(X, HIGH), numbers[0]).fingerprint()}) == 7
    assert prints[0] == EncodedSource(ArraySource(X, Y), numbers[0]).fingerprint()


@pytest.mark.parametrize(
    "encoder",
    [
        Encoder(Gaussian(), y_mean=0.1, y_scale=3.0),
        Encoder(Gaussian(), y_mean=np.array([0.1, 2.0]), y_scale=np.array([1.0, 1 / 3])),
        Encoder(Probit(), classes=np.array([3, 8]), x_mean=np.zeros(2), x_scale=np.full(2, 0.1)),
        Encoder(Probit(), classes=np.array(["no", "yes"], dtype=object)),
    ],
)
def test_an_encoder_comes_back_from_json_to_the_last_bit(encoder):
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())), encoder.likelihood)
    for name in ("x_mean", "x_scale", "y_mean", "y_scale", "classes"):
        value = getattr(encoder, name)
        np.testing.assert_array_equal(getattr(again, name), value)
        assert np.asarray(getattr(again, name)).dtype == np.asarray(value).dtype


def test_classes_of_all_pieces_that_count():
    y = np.repeat([7.0, 2.0, 5.0, 9.0], 150)
    assert classes_of(in_pieces(X, y, weight=(y != 9.0) * 1.0)).tolist() == [2.0, 5.0, 7.0]
    with value_error("if they are numbers"):
        classes_of(ArraySource(np.zeros((1001, 1)), np.arange(1001.0)))


@pytest.mark.parametrize("name", ["y", "weight", "known_variance"])
def test_a_source_brings_its_own_columns(name):
    with value_error("belongs to the source"):
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
POISSON = partial(SparsePEP, likelihood="poisson")
ORDINAL = partial(SparsePEP, likelihood="ordinal")
BETA = partial(SparsePEP, likelihood="beta")
TWO_OUTPUTS = np.column_stack([Y, WAVE])
RESTARTS = {"training": LBFGS(max_iter=4, tol=1e-3, n_restarts=2)}


class Case(NamedTuple):
    """A fit to arrays and to a source of them."""

    kind: Callable
    y: np.ndarray
    arguments: dict
    columns: dict = {}
    close: float = 1e-10  # relative error of the evidence
    near: float = 1e-9  # error of predictions
    sample_rows: int = 20_000  # rows beyond which a sample is judged

    @property
    def rows(self):
        """The inputs, of which few differ from each other where rows are repeated."""
        return X.round() if self.arguments is UNTRAINED else X[: len(self.y)]


SEARCHED = {"close": 1e-7, "near": 1e-6}
TRAINED = {"close": 1e-6, "near": 1e-4}
SAMPLED = {"close": 1e-9, "near": 1e-4, "sample_rows": 250}
IN_BLOCKS = {"close": 1e-7, "near": 1e-5}
TRAINED_IN_BLOCKS = {"close": 1e-6, "near": 1e-5}
SAME = {
    "weights": Case(REGRESSOR, Y, KEPT, ALL),
    "standardised": Case(REGRESSOR, Y, KEPT | {"standardize": True}, ALL),
    "a mean": Case(REGRESSOR, Y, KEPT | {"mean": "constant"}, ALL),
    "power 0": Case(REGRESSOR, Y, KEPT | {"power": 0.0}, ALL),
    "power for log loss": Case(REGRESSOR, Y, KEPT | {"power": "log_loss"}, ALL),
    "powers of rows": Case(REGRESSOR, Y, KEPT, {"power": np.linspace(0.0, 1.0, 600)}),
    "several outputs": Case(REGRESSOR, np.column_stack([Y, -Y]), KEPT, ALL),
    "rows that are repeated": Case(REGRESSOR, np.round(Y), UNTRAINED, **SEARCHED),
    "rows that are weighted": Case(
        REGRESSOR, np.round(Y), UNTRAINED, {"weight": WEIGHT}, **SEARCHED
    ),
    "labels that are repeated": Case(CLASSIFIER, HIGH, UNTRAINED, **SEARCHED),
    "labels that are weighted": Case(CLASSIFIER, HIGH, UNTRAINED, {"weight": WEIGHT}, **SEARCHED),
    "two classes": Case(CLASSIFIER, np.where(HIGH[:FEW], 8.0, 3.0), KEPT, **SEARCHED),
    "three classes": Case(CLASSIFIER, np.array([0.0, 4.0, 5.0])[THREE], KEPT, **SEARCHED),
    "counts": Case(POISSON, np.floor(np.exp(WAVE)), KEPT, **SEARCHED),
    "ordered classes": Case(ORDINAL, np.floor(np.exp(WAVE)), KEPT, **SEARCHED),
    "shares": Case(BETA, expit(WAVE), KEPT, **SEARCHED),
    "blocks": Case(REGRESSOR, Y, BLOCKS, SEVENTHS, **IN_BLOCKS),
    "labels in blocks": Case(CLASSIFIER, HIGH, BLOCKS, SEVENTHS, **IN_BLOCKS),
    "many rows": Case(REGRESSOR, Y, brief(), **SAMPLED),
    "many rows and a power held out": Case(REGRESSOR, Y, brief(**HELD_OUT), **SAMPLED),
    "training": Case(REGRESSOR, Y, brief(15, n_inducing=15), **TRAINED),
    "restarts": Case(REGRESSOR, Y, brief(**RESTARTS), **TRAINED),
    "batches": Case(REGRESSOR, Y, brief(**BATCHES), **TRAINED),
    "batches of blocks": Case(REGRESSOR, Y, BLOCKS | BATCHES, SEVENTHS, **TRAINED_IN_BLOCKS),
    "a power held out": Case(REGRESSOR, Y, brief(3, **HELD_OUT), **TRAINED),
    "a power held out from blocks": Case(
        REGRESSOR, Y, BLOCKS | HELD_OUT, SEVENTHS, **TRAINED_IN_BLOCKS
    ),
    "that of outputs": Case(REGRESSOR, TWO_OUTPUTS, BLOCKS | HELD_OUT, TWICE, **TRAINED_IN_BLOCKS),
    "that of labels": Case(CLASSIFIER, HIGH, BLOCKS | HELD_OUT, SEVENTHS, **TRAINED_IN_BLOCKS),
}


@cache
def pair(name):
    """The models of a case: that of arrays, and that of a source."""
    case = SAME[name]
    with pytest.MonkeyPatch.context() as patch:
        for module in ("ingest", "fitting"):
            patch.setattr(f"sparse_pep.estimators.{module}.SAMPLE_ROWS", case.sample_rows)
        return both(case.kind, case.y, case.rows, case.columns, **case.arguments)


@cache
def without_blocks(name):
    """The model of a case whose rows are not in blocks."""
    case = SAME[name]
    return case.kind(**case.arguments).fit(X, case.y, case.columns.get("weight"))


def cases(condition=lambda case: True):
    """The cases that satisfy the condition, as a parameter of a test."""
    return pytest.mark.parametrize("name", [name for name in SAME if condition(SAME[name])])


def evidences(*models):
    return [model.log_marginal_likelihood_value_ for model in models]


def in_regression(case):
    return case.kind is REGRESSOR


def in_classification(case):
    return case.kind is CLASSIFIER


def in_closed_form(case):
    return case.close == Case._field_defaults["close"]


def has_blocks(case):
    return "blocks" in case.columns


def has_held_out_power(case):
    return case.arguments.get("power") == "held_out"


@cases()
def test_a_source_is_counted_like_its_rows(name):
    arrays, source = pair(name)
    for attribute in ("n_features_in_", "n_samples_seen_", "n_iter_", "converged_"):
        assert getattr(source, attribute) == getattr(arrays, attribute), attribute
    assert source.summary()


@cases(lambda case: "power" not in case.columns)
def test_a_source_has_the_power_of_its_rows(name):
    arrays, source = pair(name)
    assert source.power_ == arrays.power_


@cases()
def test_a_source_has_the_evidence_of_its_rows(name):
    assert np.isclose(*evidences(*pair(name)), rtol=SAME[name].close)


@cases()
def test_a_source_has_the_units_and_the_parameters_of_its_rows(name):
    arrays, source = pair(name)
    for attribute in ("x_mean_", "x_scale_", "y_mean_", "y_scale_"):
        ours = getattr(source, attribute)
        assert np.allclose(ours, getattr(arrays, attribute), rtol=1e-9, atol=1e-12), attribute
    rtol, atol = (1e-4, 1e-5) if arrays.n_iter_ else (1e-9, 0.0)
    parameters = source.parameters()
    for key, value in arrays.parameters().items():
        assert np.allclose(parameters[key], value, rtol, atol), key


@cases()
def test_a_source_has_the_predictions_of_its_rows_also_in_pieces(name):
    arrays, source = pair(name)
    near = SAME[name].near
    found = source.predict_f(X)
    assert np.allclose(found, arrays.predict_f(X), rtol=near, atol=near)
    assert np.allclose(source.predict_f(in_pieces(X)), found, rtol=1e-9, atol=1e-9)


@cases()
def test_a_source_has_the_leave_one_out_of_its_rows(name):
    arrays, source = pair(name)
    case = SAME[name]
    counted = case.columns.get("weight", np.ones(len(case.y))) > 0.0
    close = partial(np.allclose, rtol=case.near, atol=0.01 * case.near)
    assert close(source.leave_one_out()[counted], arrays.leave_one_out()[counted])
    for ours, theirs in zip(source.leave_one_out_f(), arrays.leave_one_out_f(), strict=True):
        assert close(ours[counted], theirs[counted])


@cases()
def test_a_source_has_the_score_of_its_rows(name):
    arrays, source = pair(name)
    rows = SAME[name].rows, SAME[name].y
    assert np.isclose(source.score(*rows), arrays.score(*rows), rtol=1e-6)


@cases(in_regression)
def test_a_source_has_the_bounds_of_its_rows(name):
    arrays, source = (model.log_marginal_likelihood_bounds() for model in pair(name))
    assert np.allclose(source, arrays, rtol=10 * SAME[name].close)


@cases(in_regression)
def test_a_source_has_the_diagnostics_of_its_rows(name):
    arrays, source = (model.diagnostics_ for model in pair(name))
    for key in ("jitter", "unexplained_share", "unexplained_variance", "determined_directions"):
        assert np.isclose(source[key], arrays[key], rtol=10 * SAME[name].close), key


@cases(in_classification)
def test_a_source_has_the_classes_of_its_rows(name):
    arrays, source = pair(name)
    assert source.classes_.tolist() == arrays.classes_.tolist()
    assert np.allclose(source.predict_proba(X), arrays.predict_proba(X), atol=1e-6)


@cases(in_classification)
def test_a_source_has_its_sweeps_counted(name):
    diagnostics = pair(name)[1].diagnostics_
    assert diagnostics["sweeps_last"] > 0
    assert 0.0 < diagnostics["smallest_cavity"] < 1.0


@cases(in_closed_form)
def test_a_source_has_the_gradient_of_its_rows(name):
    (expected, slopes), (value, slope) = (
        model.log_marginal_likelihood(eval_gradient=True) for model in pair(name)
    )
    assert np.isclose(value, expected, rtol=1e-10)
    assert np.allclose(slope, slopes, rtol=1e-7, atol=1e-7)


def log_densities(model):
    """The log densities of held-out rows by which a power was chosen."""
    return model.diagnostics_["power_sweep"]["log_density"]


@cases(has_held_out_power)
def test_a_source_has_its_power_chosen_like_its_rows(name):
    assert np.allclose(*map(log_densities, pair(name)), rtol=1e-6)


@cases(has_blocks)
def test_blocks_change_the_evidence_and_the_parameters(name):
    arrays, _ = pair(name)
    plain = without_blocks(name)
    assert not np.isclose(*evidences(plain, arrays), rtol=1e-6)
    theirs = plain.parameters()
    changes = [np.max(np.abs(value - theirs[key])) for key, value in arrays.parameters().items()]
    assert max(changes) > 1e-4


@cases(lambda case: has_blocks(case) and has_held_out_power(case))
def test_blocks_change_the_choice_of_a_power(name):
    theirs = log_densities(without_blocks(name))
    ours = log_densities(pair(name)[0])
    assert not np.any(np.isclose(theirs[1:], ours[1:], rtol=1e-6))


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
        assert np.isclose(*evidences(source, arrays), rtol=1e-7)
        assert np.allclose(source.predict_f(X), arrays.predict_f(X), rtol=1e-4, atol=1e-5)
    assert len(source.features_) == 21


@cache
def fitted(kind):
    """A regressor or a classifier fitted to the rows."""
    return kind(**KEPT).fit(X, HIGH if kind is CLASSIFIER else Y)


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: fitted(REGRESSOR).predict(ArraySource(np.zeros((5, 3)))),
            "3 columns; the model was fitted to 2",
        ),
        (
            lambda: fitted(REGRESSOR).predict(in_pieces(X), return_cov=True),
            "`return_cov` needs `X` as an array in memory",
        ),
        (
            lambda: fitted(REGRESSOR).sample_f(in_pieces(X)),
            "`sample_f` needs `X` as an array in memory",
        ),
        (
            lambda: fitted(CLASSIFIER).sample_y(in_pieces(X)),
            "`sample_y` needs `X` as an array",
        ),
    ],
)
def test_predictions_that_a_source_does_not_give(call, words):
    with value_error(words):
        call()


@pytest.mark.parametrize(
    "rows, kept", [((X, Y), True), ((in_pieces(X, Y),), False), ((ArraySource(X, Y),), True)]
)
def test_sites_are_kept_of_rows_in_one_piece(rows, kept):
    model = REGRESSOR(**KEPT).fit(X, Y).fit(*rows)  # those of the first fit are gone
    assert np.shape(getattr(model, "site_precision_", ())) == ((600,) if kept else (0,))


@pytest.mark.parametrize(
    "model, y",
    [(REGRESSOR(**KEPT), Y), (SparsePEP(likelihood=Poisson(), **KEPT), np.round(np.exp(Y)))],
)
def test_a_score_at_a_source_is_that_of_its_rows(model, y):
    model = clone(model).fit(X, y)
    weighted = model.score(X, y, WEIGHT)
    assert np.isclose(model.score(in_pieces(X, y)), model.score(X, y), rtol=1e-12)
    assert np.isclose(model.score(in_pieces(X, y, weight=WEIGHT)), weighted, rtol=1e-12)
    assert not np.isclose(weighted, model.score(X, y), rtol=1e-6)


@pytest.mark.parametrize(
    "rows, words",
    [
        ((X,), "`y` is missing"),
        ((in_pieces(X),), "no targets"),
        ((in_pieces(X, Y), Y), "belongs"),
    ],
)
def test_a_score_needs_the_targets_once(rows, words):
    with value_error(words):
        fitted(REGRESSOR).score(*rows)


def test_a_source_has_the_columns_of_the_fit_in_their_order(tmp_path):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = REGRESSOR(**KEPT).fit(frame, Y)
    own = model.predict(convert_table(tmp_path / "rows.csv", columns=["a", "b"]))
    assert np.allclose(own, model.predict(frame))
    assert np.allclose(own, model.predict(in_pieces(X)))
    with value_error(
        r"columns \['b', 'a'\]; the model was fitted to \['a', 'b'\], in this order",
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
    assert model.feature_names_in_.tolist() == ["a", "b"]
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
    with value_error(words):
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
        assert np.isclose(*evidences(model, arrays), rtol=1e-10)
        assert np.allclose(model.predict(rows), arrays.predict(X), rtol=1e-8, atol=1e-8)
        labelled = CLASSIFIER(**KEPT).fit(rows, da.from_array(words, chunks=200))
    assert labelled.classes_.tolist() == ["no", "yes"]
    assert np.allclose(
        labelled.predict_proba(X), CLASSIFIER(**KEPT).fit(X, words).predict_proba(X), atol=1e-6
    )
