"""Arrays that are refused: inputs, targets, weights and known variances, at a fit and later."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from sparse_pep.data.sources import ArraySource
from sparse_pep.features import Fourier
from sparse_pep.kernels import Matern32

from .checks import (
    COUNTS,
    INF,
    LABELS,
    NAN,
    TARGETS,
    X,
    cases,
    changed,
    estimator,
    fitted,
    refused,
    y,
)

BAD_X = {  # X, sketch of the message
    "one dimension": (X[:, 0], "`X` ... (12,)"),
    "nothing": (None, "`X`"),
    "words among numbers": (
        changed(X, (3, 1), "tall", object),
        "`X` ... 'tall' ... row 3 ... column 1",
    ),
    "complex": (X + 1j, "`X` ... omplex"),
    "dates": (np.full((12, 2), np.datetime64("2024-01-01")), "`X`"),
    "infinity": (changed(X, (0, 0), INF), "X ... infinity ... row 0 ... column 0"),
    "too large": (changed(X, (4, 1), 1e200), "X ... 1e+200 in row 4, column 1"),
    "no rows": (X[:0], "`X` ... (0, 2)"),
    "ragged": ([[1.0, 2.0], [3.0]] * 6, "`X`"),
    "sparse": (scipy.sparse.csr_matrix(X), "`X` ... parse"),
    "masked": (
        np.ma.masked_array(X, mask=X > 1.0),
        "`X` is a masked array with ... masked values",
    ),
}
BAD_Y = {  # estimator, y, sketch of the message
    "one less": ("regressor", y[:-1], "y ... 12 ... 11"),
    "a number": ("regressor", 1.5, "`y`"),
    "nothing": ("regressor", None, "y ... None"),
    "NaN": ("regressor", changed(y, 7, NAN), "y ... NaN ... row 7"),
    "None among objects": ("regressor", changed(y, 7, None, object), "y ... row 7"),
    "too large": ("regressor", changed(y, 7, 1e200), "y ... 1e+200 in row 7"),
    "words among numbers": ("regressor", changed(y, 7, "high", object), "`y` ... 'high' ... row 7"),
    "complex": ("regressor", y + 1j, "`y` ... omplex"),
    "ragged": ("regressor", [[1.0], [1.0, 2.0]] * 6, "`y`"),
    "sparse": ("regressor", scipy.sparse.csr_matrix(y[:, None]), "`y`"),
    "masked": ("regressor", np.ma.masked_array(y, mask=X[:, 0] > 1.0), "`y` is a masked array"),
    "masked labels": (
        "classifier",
        np.ma.masked_array(LABELS, mask=X[:, 0] > 1.0),
        "`y` is a masked array",
    ),
    "two columns of counts": ("counts", np.column_stack([COUNTS] * 2), "`y` ... (12, 2)"),
    "negative counts": ("counts", changed(COUNTS, 4, -1.0), "`y` ... counts ... -1 ... row 4"),
    "one class": (
        "classifier",
        np.full(12, "a"),
        "`y` ... one class ... 'a' ... give `partial_fit` all labels as `classes`",
    ),
    "fractions as labels": ("classifier", y, "`y` ... continuous"),
    "complex labels": ("classifier", np.arange(12) % 2 + 1j, "`y` ... omplex"),
    "None among labels": ("classifier", changed(LABELS, 3, None, object), "`y` ... row 3"),
    "labels of bytes": ("classifier", np.char.encode(LABELS), "`y` ... bytes ... decode"),
    "objects of bytes": (
        "classifier",
        np.char.encode(LABELS).astype(object),
        "`y` ... bytes ... decode",
    ),
    "numbers among labels of text": ("classifier", changed(LABELS, 3, 5, object), "`y`"),
}


@pytest.mark.parametrize("kind", TARGETS)
@cases(BAD_X)
def test_inputs_to_fit_and_to_predict(kind, case):
    bad, sketch = case
    model = estimator(kind)
    refused(lambda: model.fit(bad, TARGETS[kind]), sketch)
    assert not hasattr(model, "kernel_")
    refused(lambda: fitted(kind).predict(bad), sketch)


@cases(BAD_Y)
def test_targets_to_fit(case):
    kind, bad, sketch = case
    model = estimator(kind)
    refused(lambda: model.fit(X, bad), sketch)
    assert not hasattr(model, "kernel_")


@pytest.mark.parametrize(
    "cell", [object(), {"a": 1}, [1.0], 1j], ids=lambda cell: type(cell).__name__
)
def test_objects_among_numbers(cell):
    """The kind of error is scikit-learn's, see its `check_dtype_object`."""
    bad = X.astype(object)
    bad[3, 1] = cell
    refused(lambda: estimator().fit(bad, y), "`X` ... row 3 ... column 1", TypeError)
    refused(lambda: fitted().predict(bad), "`X` ... row 3 ... column 1", TypeError)
    refused(lambda: estimator().fit(X, bad[:, 1]), "`y` ... row 3", TypeError)


WEIGHTS = {
    "one less": (np.ones(11), "(12,)"),
    "negative": (changed(np.ones(12), 3, -1.0), "row 3"),
    "NaN": (changed(np.ones(12), 3, NAN), "row 3"),
    "text": (["a"] * 12, "`"),
    "sparse": (scipy.sparse.csr_matrix(np.ones((1, 12))), "`"),
}


@pytest.mark.parametrize("name", ["sample_weight", "known_variance"])
@cases(WEIGHTS)
def test_numbers_of_rows_to_fit(name, case):
    bad, sketch = case
    refused(lambda: estimator().fit(X, y, **{name: bad}), f"`{name} ... {sketch}")


UP = np.full(12, "up")
BLOCKS = [0] * 6 + [1] * 6


@cases(
    {
        "all weights zero": (
            lambda: estimator().fit(X, y, np.zeros(12)),
            "`sample_weight` ... at least one row",
        ),
        "weights within a block": (
            lambda: estimator(blocks=BLOCKS).fit(X, y, np.arange(12) + 1.0),
            "`weight` ... same for all data of a block",
        ),
        "one class of positive weight": (
            lambda: estimator("classifier").fit(
                X, changed(UP, 3, "b"), changed(np.ones(12), 3, 0.0)
            ),
            "`y` ... one class",
        ),
        "known variances of labels": (
            lambda: estimator("classifier").fit(X, LABELS, known_variance=np.ones(12)),
            "`known_variance`",
        ),
        "known variances and scaled columns": (
            lambda: estimator(standardize=True).fit(
                X, np.column_stack([y, -y]), known_variance=np.ones(12)
            ),
            "`known_variance` ... standardize",
        ),
    }
)
def test_weights_and_known_variances_that_do_not_fit_the_rest(case):
    refused(*case)


DOORS = {
    "sample_f": "regressor",
    "sample_y": "counts",
    "predict_f": "classifier",
    "predict_proba": "classifier",
    "decision_function": "classifier",
}
INPUTS = {
    "three columns": (np.ones((3, 3)), "3 features ... 2 features"),
    "NaN": (changed(np.ones((3, 2)), (1, 0), NAN), "X ... row 1 ... column 0"),
}


@pytest.mark.parametrize("name, kind", DOORS.items())
@cases(INPUTS)
def test_inputs_of_predictions(name, kind, case):
    bad, sketch = case
    refused(lambda: getattr(fitted(kind), name)(bad), sketch)


@cases(
    {
        "density of other rows": (
            lambda: fitted().predict_log_density(X, y[:-1]),
            "`y` ... (12,) ... (11,)",
        ),
        "density of NaN": (
            lambda: fitted().predict_log_density(X, changed(y, 2, NAN)),
            "`y` ... row 2",
        ),
        "density of fractions": (
            lambda: fitted("counts").predict_log_density(X, y),
            "`y` ... counts",
        ),
        "density of unknown labels": (
            lambda: fitted("classifier").predict_log_density(X, UP),
            "`y` ... 'up'",
        ),
        "score of other rows": (lambda: fitted().score(X, y[:-1]), "y ... 12 ... 11"),
        "score of NaN": (lambda: fitted().score(X, changed(y, 2, NAN)), "y ... NaN"),
        "score of weights": (
            lambda: fitted("counts").score(X, COUNTS, sample_weight=np.ones(3)),
            "`sample_weight`",
        ),
        "score of negative weights": (
            lambda: fitted("counts").score(X, COUNTS, sample_weight=-np.ones(12)),
            "`sample_weight`",
        ),
    }
)
def test_targets_to_score(case):
    refused(*case)


DATA = X, y


def more(X, y, **arguments):
    """A call with more data for an estimator of numbers."""
    return lambda: estimator(**arguments).fit(*DATA).partial_fit(X, y)


@cases(
    {
        "more data of other columns": (more(X[:, :1], y), "1 features ... 2 features"),
        "more data of two outputs": (more(X, np.column_stack([y, y])), "`y` ... (12, 2)"),
        "more data of one output": (
            lambda: estimator().fit(X, np.column_stack([y, -y])).partial_fit(X, y),
            "`y` ... 2 ... (12,)",
        ),
        "more data with a new label": (
            lambda: estimator("classifier").fit(X, LABELS).partial_fit(X, UP),
            "`y` ... 'up' ... row 0",
        ),
        "a source of two outputs": (
            lambda: estimator().fit(X, y).partial_fit(ArraySource(X, np.column_stack([y, y]))),
            "`y` must have shape (12,) ... got (12, 2)",
        ),
        "a source of other columns": (
            lambda: estimator().fit(X, y).partial_fit(ArraySource(X[:, :1], y)),
            "the source has 1 columns",
        ),
        "more data with NaN": (more(X, changed(y, 4, NAN)), "y ... row 4"),
        "more data with blocks of others": (
            more(X[:5], y[:5], blocks=BLOCKS),
            "`blocks` ... 12 ... 5",
        ),
        "more powers than data": (
            lambda: estimator().fit(X, y).set_params(power=np.full(5, 0.5)).partial_fit(X, y),
            "`power` ... 12 ... (5,)",
        ),
        "another power": (
            lambda: estimator().fit(X, y).set_params(power=2.0).partial_fit(X, y),
            "`power`",
        ),
        "a fixed parameter that is none": (
            lambda: estimator().fit(X, y).set_params(fixed=["kernel.width"]).partial_fit(X, y),
            "kernel.width",
        ),
        "classes that are not there": (
            lambda: estimator("classifier").partial_fit(X, LABELS, classes=["left", "up"]),
            "`y` ... 'right'",
        ),
        "one class given": (
            lambda: estimator("classifier").partial_fit(X, UP, classes=["up"]),
            "`classes`",
        ),
        "one text for classes": (
            lambda: estimator("classifier").partial_fit(X, LABELS, classes="left"),
            "`classes`",
        ),
        "other classes later": (
            lambda: fitted("classifier").partial_fit(X, LABELS, classes=["left", "up"]),
            "`classes`",
        ),
    }
)
def test_more_data(case):
    refused(*case)


ADDED = (
    0,
    -1,
    1.5,
    13,
    "many",
    None,
    True,
    NAN,
    np.ones((2, 3)),
    np.full((2, 2), NAN),
    np.ones(2),
    np.ones((0, 2)),
)
REMOVED = (
    0,
    -1,
    0.5,
    4,
    [0, 1, 2, 3],
    [4],
    [-1],
    [0.5],
    ["a"],
    "a",
    [True, False, True, False],
    [[0], [1]],
    [],
)


@cases({f"{bad!r}": bad for bad in ADDED})
def test_points_to_add(case):
    refused(lambda: estimator().fit(X, y).add_inducing(case), "`points`")


@cases({f"{bad!r}": bad for bad in REMOVED})
def test_points_to_remove(case):
    refused(lambda: estimator().fit(X, y).remove_inducing(case), "`points`")


def test_points_that_are_added_to_waves():
    waves = estimator(kernel=Matern32(), features=Fourier(-3.0, 3.0, 3)).fit(X[:, :1], y)
    refused(lambda: waves.add_inducing(1), "inducing points ... Fourier")


@cases(
    {
        "amounts": (y, "numbers of ordered classes ... 12 different values ... SparsePEPRegressor"),
        "missing categories": (np.arange(12) % 4 - 1, "`y` holds -1, which pandas writes"),
        "text": (["low", "mid", "high"] * 4, "`y` holds text, 'low' ... ordered=True"),
        "no category": (
            pd.Categorical(["low", None, "high"] * 4, ["low", "high"], ordered=True),
            "y contains NaN ... row 1",
        ),
    }
)
@pytest.mark.filterwarnings("ignore:the ordered categories")
def test_targets_that_are_no_ordered_classes(case):
    refused(lambda: estimator("counts", likelihood="ordinal").fit(X, case[0]), case[1])
