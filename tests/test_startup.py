"""What is loaded before there is work to do, and the options that repeat what the estimators
say.
"""

import re
import subprocess
import sys

import click
import pytest

import sparse_pep
from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.cli import app
from sparse_pep.cli import options as cli_options
from sparse_pep.estimators import arguments
from sparse_pep.training import LBFGS

DECLARED = {"sparse_pep.cli", "sparse_pep.cli.app", "sparse_pep.cli.options"}


def loaded_by(program):
    """The modules that a program in a process of its own has loaded at its end."""
    lines = (
        "import atexit, sys",
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))",
        program,
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split()), done.stdout


def packages(modules):
    """The packages of modules that do not belong to Python itself."""
    return (
        {name.partition(".")[0] for name in modules}
        - sys.stdlib_module_names
        - {"__main__", "__mp_main__"}
    )


@pytest.fixture(scope="module")
def bare():
    """What Python has loaded before it runs a program."""
    return loaded_by("pass")[0]


def test_imports_load_what_they_need(bare):
    found, _ = loaded_by("import sparse_pep")
    assert (
        packages(found - bare)
        == {"sparse_pep"}
        == {name for name in found if name.startswith("sparse_pep")}
    )
    # which has no need to cluster or to draw before it is fitted
    found, _ = loaded_by("from sparse_pep import SparsePEPRegressor")
    assert "sklearn.base" in found
    assert not found & {
        "sklearn.cluster",
        "sklearn.metrics",
        "sklearn.inspection",
        "matplotlib",
        "dask",
    }


@pytest.mark.parametrize(
    "words, expected", [("--version", "0.1.0"), ("--help", "compare"), ("fit --help", "--censored")]
)
def test_help_loads_click_and_nothing_that_computes(bare, words, expected):
    found, printed = loaded_by(f"from sparse_pep.cli import main; main({words.split()})")
    assert expected in printed
    assert packages(found - bare) <= {"sparse_pep", "click", "colorama"}
    assert {name for name in found if name.startswith("sparse_pep")} == {"sparse_pep", *DECLARED}


def test_an_error_of_usage_loads_nothing_more():
    found, _ = loaded_by(
        "from sparse_pep.cli import main\ntry: main(['fit'])\nexcept SystemExit as end: "
        "assert end.code == 2"
    )
    assert {name for name in found if name.startswith("sparse_pep.")} == DECLARED


def options(command):
    return {option.name: option for option in command.params if isinstance(option, click.Option)}


def test_options_offer_what_the_estimators_take():
    fit = options(app.fit_command)
    compare = options(app.compare_command)
    # some have two names
    named = {*arguments.KERNELS, arguments.TREND_AND_SEASON}
    assert named > set(cli_options.KERNELS)
    assert cli_options.KERNELS == tuple(fit["kernel"].type.choices)
    assert arguments.POWER_NAMES == cli_options.POWER_NAMES
    for command in (fit, compare):
        assert tuple(command["likelihood"].type.choices) == cli_options.LIKELIHOODS


@pytest.mark.parametrize("name", ["power", "n_inducing", "max_iter", "tol", "max_time"])
def test_options_have_the_defaults_of_the_estimators(name):
    fitted = [
        (estimator().get_params() | LBFGS().get_params())[name]
        for estimator in (SparsePEPRegressor, SparsePEPClassifier)
    ]
    chosen = [
        command
        for command in (app.fit_command, app.compare_command, app.demo_command)
        if name in options(command)
    ]
    offered = [
        options(command)[name].default
        for command in chosen
        if name != "n_inducing" or command is app.fit_command
    ]
    assert offered, (offered, fitted)
    offered.append(getattr(cli_options.ModelOptions(), name))
    assert set(offered) == set(fitted), (offered, fitted)


def test_the_package_lists_what_people_call():
    names = [name for name in dir(sparse_pep) if not name.startswith("_")]
    assert {"SparsePEPRegressor", "SparsePEPClassifier", "SparsePEP", "load"} <= set(names)
    assert {"datasets", "kernels", "likelihoods", "observations", "plots"} <= set(names)
    assert all(getattr(sparse_pep, name) is not None for name in names)


@pytest.mark.parametrize("kind", [SparsePEPRegressor, SparsePEPClassifier, SparsePEP])
def test_help_begins_with_what_people_call(kind):
    before, _, _ = kind.__doc__.partition("Parameters\n")
    called = set(re.findall(r"`(\w+)\(", before))
    assert {"fit", "predict", "summary", "save"} <= called
    assert all(callable(getattr(kind, name)) for name in called)
