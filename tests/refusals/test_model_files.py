"""Model files and checkpoints that are refused, and models that no file can hold."""

from dataclasses import dataclass

import pytest
from command_line import refused_line

from sparse_pep.estimators import load
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian
from sparse_pep.means import ConstantMean
from sparse_pep.priors import Normal

from .checks import SE, TARGETS, X, Z, cases, estimator, fitted, holds, refused

BROKEN = {
    "absent": "absent.npz ... No such file",
    "newer": "newer.npz ... newer version ... 999",
    "unnamed": "unnamed.npz ... sparse-pep fit",
}
CHECKPOINTS = {
    "other": "other.ckpt ... other data",
    "cut": "cut.ckpt ... damaged",
    "foreign": "foreign.ckpt ... checkpoint",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_model_files(bench, name):
    message = refused_line(f"predict {name}.npz good.csv")
    assert holds(message, BROKEN[name]), message


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_of_other_fits(bench, name):
    message = refused_line(
        "fit good.csv --target response --inducing 3 --max-iter 2 --quiet --checkpoint",
        f"{name}.ckpt",
    )
    assert holds(message, CHECKPOINTS[name]), message


@cases(
    {
        "load of nothing": (lambda: load("absent.npz"), "absent.npz", FileNotFoundError),
        "load of None": (lambda: load(None), "`path`"),
        "save to no folder": (lambda: fitted().save("absent/m.npz"), "absent", FileNotFoundError),
        "save to None": (lambda: fitted().save(None), "`path`"),
        "save with an object": (lambda: fitted().save("m.npz", extra={"a": object()}), "`extra`"),
    }
)
def test_files_that_cannot_be(folder, case):
    refused(*case)
    assert list(folder.iterdir()) == []


NEED_DATA = {  # method, arguments, what the message begins with
    "leave_one_out": ((), "`leave_one_out`"),
    "add_inducing": ((1,), "changing inducing points"),
    "remove_inducing": ((1,), "changing inducing points"),
    "log_marginal_likelihood_gradient": ((), "`log_marginal_likelihood`"),
    "log_marginal_likelihood_bounds": ((), "`log_marginal_likelihood_bounds`"),
    "log_marginal_likelihood": ((), "`log_marginal_likelihood`"),
}


@pytest.mark.parametrize("name", NEED_DATA)
def test_a_loaded_model_says_what_is_missing(folder, name):
    fitted().save("m.npz")
    call = getattr(load("m.npz"), name)
    arguments, subject = NEED_DATA[name]
    refused(lambda: call(*arguments), f"{subject} ... training data ... `fit`")


def class_of_user(base):
    """A class of the user, that no file knows."""
    return type("Own" + base.__name__, (base,), {})


@dataclass(frozen=True, eq=False)
class Lifted(SquaredExponential):
    """A kernel with a field that is not trained."""

    floor: float = 0.0


Lifted.__name__ = "SquaredExponential"  # a name that is known
OWN = class_of_user(SquaredExponential)()
UNSAVED = {  # argument, its value, sketch of the message
    "kernel": ("regressor", "kernel", OWN, "`kernel` ... OwnSquaredExponential"),
    "kernel with a field": ("regressor", "kernel", Lifted(floor=2.0), "`kernel`"),
    "kernel in a product": ("regressor", "kernel", SE * (SE + Lifted()), "`kernel`"),
    "features in a mixture": (
        "regressor",
        "features",
        [Z, class_of_user(InducingPoints)(X[5:7])],
        "`features` ... OwnInducingPoints",
    ),
    "likelihood": (
        "counts",
        "likelihood",
        class_of_user(Gaussian)(0.5),
        "`likelihood` ... OwnGaussian",
    ),
    "mean": ("regressor", "mean", class_of_user(ConstantMean)(1.0), "`mean` ... OwnConstantMean"),
    "priors": (
        "regressor",
        "priors",
        {"log_noise_variance": class_of_user(Normal)()},
        "`priors` ... OwnNormal",
    ),
}


@cases(UNSAVED)
def test_parts_that_do_not_come_back_are_not_saved(folder, case):
    kind, name, value, sketch = case
    model = estimator(kind, **{name: value}).fit(X, TARGETS[kind])
    refused(lambda: model.save("m.npz"), sketch)
    assert list(folder.iterdir()) == []
