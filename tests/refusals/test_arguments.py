"""Arguments of constructors that are refused, alone and together."""

import re

import numpy as np
import pandas as pd
import pytest

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import Kernel, SquaredExponential
from sparse_pep.likelihoods import Gaussian, Poisson, Probit, Softmax, StudentT
from sparse_pep.means import ConstantMean, LinearMean, ZeroMean
from sparse_pep.priors import LogNormal, Normal
from sparse_pep.training import LBFGS, Adam

from .checks import INF, NAN, SE, TARGETS, X, cases, estimator, refused

WHOLE = [-1, 1.5, NAN, INF, "10", [5], True, {}, np.ones(2)]
POSITIVE = [0, -1, NAN, INF, None, "1", [1.0], True, {}, np.ones(2)]
NAMES = ["", True, NAN, {}, np.ones(2)]  # for what may be a name
ARGUMENTS = {
    "kernel": ["cosine", 3, 1.0, [SE], SquaredExponential, *NAMES],
    "features": [
        "points",
        3,
        X,
        [X],
        [],
        (),
        InducingPoints,
        {},
        True,
        NAN,
        [InducingPoints(X[:3]), 5],
        {InducingPoints(X[:3])},
    ],
    "n_inducing": [0, None, "Auto", ["auto"], *WHOLE],
    "power": [
        -0.1,
        1.1,
        NAN,
        INF,
        None,
        "vfe",
        "0.5",
        "",
        [0.5],
        [0.5] * 11 + [1.1],
        [0.5] * 11 + [NAN],
        {},
        True,
        ["a"] * 12,
        np.full((12, 1), 0.5),
        0.5j,
        ["auto"],
    ],
    "blocks": [
        0,
        -1,
        1.5,
        NAN,
        True,
        "a",
        "12",
        [0] * 11,
        np.zeros((12, 1)),
        [NAN] * 12,
        {},
        [None] * 12,
        [0, "a"] * 6 + [None],
        [[0], [1, 2]] * 6,
        [],
    ],
    "noise_variance": POSITIVE,
    "training": ["sgd", 1, ["lbfgs"], np.array(["lbfgs", "lbfgs"]), LBFGS, *NAMES],
    "jitter": [-1e-8, 1.0, NAN, INF, None, "x", [1e-8], True, {}],
    **dict.fromkeys(
        ("standardize", "ard"),
        [None, "yes", "False", 2, NAN, [True], {}, np.array([True, False])],
    ),
    "random_state": ["a", -1, 1.5, NAN, [1, "a"], {}, 2**40, [[1]]],
    "verbose": ["yes", None, NAN, -1, 1.5, [1], {}],
    "local": ["on", "", True, 0, NAN, ["auto"], {}, "blocks", *WHOLE],
    "fixed": [
        "features.Z",
        ["nothing"],
        3,
        None,
        [3],
        True,
        NAN,
        [None],
        [["features.Z"]],
        np.array(0),
    ],
    "priors": [
        *NAMES[:-2],
        "strong",
        3,
        ["weak"],
        [Normal()],
        np.ones(2),
        {"lengthscale": Normal()},
        {"log_noise_variance": 3.0},
        {"log_noise_variance": Normal},
        {"features.Z": LogNormal()},
        {"log_noise_variance": Normal([0.0, 1.0])},
        {"kernel.log_lengthscale": Normal(0.0, np.ones(3))},
        {3: Normal()},
    ],
    "mean": [
        *NAMES,
        "quadratic",
        3,
        ["constant"],
        ZeroMean,
        LinearMean(0.0, [1.0]),
        LinearMean(0.0, np.ones((2, 3))),
        ConstantMean([1.0, 2.0, 3.0]),
    ],
}
TRAININGS = {
    **dict.fromkeys(
        ((LBFGS, "max_iter"), (Adam, "batch_size"), (Adam, "n_epochs")), [0, None, *WHOLE]
    ),
    **dict.fromkeys(((LBFGS, "tol"), (Adam, "tol"), (Adam, "learning_rate")), POSITIVE),
    **dict.fromkeys(
        ((LBFGS, "max_time"), (Adam, "max_time")),
        [value for value in POSITIVE if value is not None],
    ),
    (LBFGS, "n_restarts"): [None, *WHOLE],
    (LBFGS, "checkpoint"): [3, True, NAN, ["a"], {}, ".", "absent/run.ckpt", ""],
}
LIKELIHOODS = {
    "counts": ["multinomial", 3, None, Gaussian, ["gaussian"], Softmax(3), *NAMES],
    "classifier": [
        *NAMES,
        "gaussian",
        3,
        None,
        Probit,
        ["probit"],
        Softmax(3),
        Poisson(),
        Gaussian(),
        StudentT(),
    ],
}
OTHERS = {
    (kind, name): ARGUMENTS[name][:4]
    for kind in ("classifier", "counts")
    for name in ("power", "blocks", "mean", "fixed", "n_inducing", "random_state")
}


def named(table):
    """Each value of a table of values by kind and argument, as a case of its own."""
    return {
        f"{kind}, {name} = {value!r}": (kind, name, value)
        for (kind, name), values in table.items()
        for value in values
    }


@cases(named({("regressor", name): values for name, values in ARGUMENTS.items()} | OTHERS))
def test_arguments(folder, case):
    kind, name, value = case
    small = {"kernel": None, "features": None, "n_inducing": 4, "training": LBFGS(max_iter=2)}
    model = estimator(kind, **small | {name: value})
    refused(lambda: model.fit(X, TARGETS[kind]), f"`{name}`")


@cases(named(TRAININGS))
def test_arguments_of_training(folder, case):
    kind, name, value = case
    model = estimator(training=kind(**{name: value}))
    refused(lambda: model.fit(X, TARGETS["regressor"]), f"`{name}`")


@pytest.mark.parametrize(
    "kind, value", [(kind, value) for kind, values in LIKELIHOODS.items() for value in values]
)
def test_likelihoods(kind, value):
    refused(lambda: estimator(kind, likelihood=value).fit(X, TARGETS[kind]), "`likelihood`")


PAIRS = {  # arguments that do not go together, sketch of the message
    "powers of blocks": (
        "regressor",
        {"blocks": [0] * 6 + [1] * 6, "power": [0.1, 0.2, 0.3]},
        "`power` ... 2 blocks",
    ),
    "powers within a block": (
        "regressor",
        {"blocks": [0] * 6 + [1] * 6, "power": np.linspace(0, 1, 12)},
        "`power` ... block",
    ),
    "a checkpoint of many sizes": (
        "regressor",
        {"n_inducing": "auto", "features": None, "training": LBFGS(checkpoint="here.npz")},
        "`checkpoint` ... `n_inducing='auto'`",
    ),
    "a power held out from batches": (
        "regressor",
        {"power": "held_out", "training": "adam"},
        "power ... L-BFGS",
    ),
    "local sites of the tight form": (
        "regressor",
        {"local": "auto", "tight": True},
        "`local` exchanges the sites of Power EP ... tight=False",
    ),
    "hyper-parameters from neighbours in blocks": (
        "regressor",
        {"training": "neighbours", "blocks": 3},
        "`blocks` 3 does not go with `training='neighbours'` ... 'lbfgs'",
    ),
    "hyper-parameters from neighbours, held out": (
        "regressor",
        {"training": "neighbours", "power": "held_out"},
        "`power` 'held_out' does not go with `training='neighbours'` ... 'lbfgs'",
    ),
    "hyper-parameters from neighbours of labels": (
        "classifier",
        {"training": "neighbours"},
        "`training='neighbours'` needs values of f in Gaussian noise ... Probit",
    ),
    "neighbours of rows in blocks": (
        "regressor",
        {"local": 5, "blocks": 3},
        "`local` cannot be 5 with `blocks`",
    ),
    "blocks nearby without blocks": (
        "regressor",
        {"local": "blocks"},
        "`local` cannot be 'blocks' without `blocks`",
    ),
    "a kernel that is none": ("regressor", {"kernel": Kernel()}, "Kernel"),
    "a kernel of other columns": (
        "regressor",
        {"kernel": SquaredExponential(1.0, [1.0, 1.0, 1.0])},
        "`lengthscale`",
    ),
    "a kernel of columns that are not there": (
        "regressor",
        {"kernel": SquaredExponential(active_dims=(4,))},
        "`active_dims`",
    ),
    "points of other columns": (
        "regressor",
        {"features": InducingPoints(X[:3, :1])},
        "2 columns ... features have 1",
    ),
    "signs for counts": ("counts", {"likelihood": "probit"}, "`y`"),
    "several latent functions": (
        "counts",
        {"likelihood": Softmax(3)},
        "3 latent functions ... SparsePEPClassifier",
    ),
}


@cases(PAIRS)
def test_arguments_that_do_not_go_together(folder, case):
    kind, arguments, sketch = case
    model = estimator(kind, **arguments)
    refused(lambda: model.fit(X, TARGETS[kind]), sketch)


def test_a_probit_of_three_classes():
    model = estimator("classifier", likelihood=Probit())
    refused(lambda: model.fit(X, np.arange(12) % 3), "likelihood ... Probit ... 3 classes")


@pytest.mark.parametrize(
    "kind, name, meant",
    [
        (SparsePEPRegressor, "n_inducng", "'n_inducing'"),
        (SparsePEPClassifier, "Power", "'power'"),
        (SparsePEP, "likelyhood", "'likelihood'"),
        (LBFGS, "maxiter", "'max_iter' or 'max_time'"),
        (Adam, "batchsize", "'batch_size'"),
    ],
)
def test_a_misspelt_argument_is_answered_by_its_name(kind, name, meant):
    words = rf"{kind.__name__} has no argument '{name}'. Did you mean {meant}\?"
    with pytest.raises(TypeError, match=words):
        kind(**{name: 3})


@pytest.mark.parametrize(
    "method, name, words",
    [
        ("fit", "sample_wieght", "Did you mean 'sample_weight'?"),
        ("predict", "return_sd", "Did you mean 'return_std'"),
        ("predict_interval", "levels", "Did you mean 'level'?"),
        ("leave_one_out", "group", "Did you mean 'groups'?"),
        ("predict_f", "input_sd", "Did you mean 'input_std'?"),
        ("predict_gradient", "weights", "It has X."),
        ("summary", "colour", "It has none."),
    ],
)
def test_a_misspelt_argument_of_a_method_is_answered_by_its_name(method, name, words):
    message = f"SparsePEPRegressor.{method} has no argument '{name}'. {words}"
    with pytest.raises(TypeError, match=re.escape(message)):
        getattr(SparsePEPRegressor(), method)(**{name: X})


def test_an_unknown_argument_is_answered_by_all_names():
    with pytest.raises(TypeError, match=r"Adam has no argument 'colour'. It has batch_size, "):
        Adam(colour="red")


@pytest.mark.parametrize(
    "rows", [X, pd.DataFrame({"size": np.arange(12.0)})], ids=["array", "frame"]
)
def test_a_series_without_dates(rows):
    model = estimator("regressor", kernel="trend+season")
    refused(lambda: model.fit(rows, TARGETS["regressor"]), "`kernel='trend+season'` ... dates")
