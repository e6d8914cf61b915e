"""Imports go downwards. The modules are read, not imported, so that an edge inside a function counts as well."""

import ast
import graphlib
import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sparse_pep"

# From the ground up: a module imports what stands before it. A package stands with all that it contains.
FLOORS = (
    "numerics",
    "kernels means features interdomain",
    "sites regression quadrature likelihoods multiclass",
    "shards inference blocks energies",
    "surrogate streaming",
    "priors model training stochastic local draws",
    "data",
    "estimators",
    "datasets plots report studies commands cli",
    "__init__",
)
ORDER = " ".join(FLOORS).split()
COVARIANCES = set(FLOORS[1].split())
INFERENCE = set(" ".join(FLOORS[2:4]).split())  # it is given covariances and knows nothing of where they come from
COMPUTING = INFERENCE - {"likelihoods", "multiclass"} | {"numerics.linalg", "numerics.blas"}

# What is still wrong, with the reason. Whoever mends one of them takes it out; nothing is added.
KNOWN = {
    ("features", "interdomain"): "names of feature kinds are looked up in the module that is above",
}
KNOWN_FUNCTIONS = {  # what estimators take from modules that compute, classes aside
    "clustered_blocks": "the argument `blocks` is turned into labels here",
}


@cache
def modules():
    """Path of every module, by its name within the package; that of the package itself is `__init__`."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if path.stem != "_modidx":
            found[".".join(parts[:-1] or parts if parts[-1] == "__init__" else parts)] = path
    return found


def without_type_checking(tree):
    """The nodes of a module, apart from what only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from without_type_checking(node)


def resolved(name, names=()):
    """The modules meant by `from name import names`, or by `import name`; `name` without the package's own."""
    inner = [".".join(filter(None, (name, one))) for one in names]
    found = {one for one in inner if one in modules()}
    own = name or "__init__"
    others = set(names) - {one.rpartition(".")[2] for one in found} - {"__version__"}
    return found | ({own} if own in modules() and (others or not names) else set())


def edges_of(tree, folder):
    """The modules that a module imports: anywhere in it, or by a name in a text, as `import_module` takes it."""
    found = set()
    for node in without_type_checking(tree):
        if isinstance(node, ast.ImportFrom):
            parents = folder[: len(folder) + 1 - node.level] if node.level else ()
            name = ".".join((*parents, *filter(None, [node.module])))
            if node.level or name.split(".")[0] == PACKAGE.name:
                name = name if node.level else name[len(PACKAGE.name) + 1 :]
                found |= resolved(name, [one.name for one in node.names])
        elif isinstance(node, ast.Import):
            inner = [one.name.partition(".") for one in node.names]
            found |= {one for root, _, rest in inner if root == PACKAGE.name for one in resolved(rest)}
        elif isinstance(node, ast.Constant) and re.fullmatch(rf"{PACKAGE.name}(\.\w+)+", str(node.value)):
            found |= resolved(node.value[len(PACKAGE.name) + 1 :])
    return found


@cache
def tree_of(module):
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


@cache
def imports():
    """The modules that each module imports."""
    folders = {name: path.relative_to(PACKAGE).parts[:-1] for name, path in modules().items()}
    return {name: edges_of(tree_of(name), folders[name]) - {name} for name in modules()}


def place(module):
    """Where a module stands in the order."""
    return ORDER.index(module.split(".")[0])


def violations():
    """Edges that go upwards, or that lead from inference to covariances."""
    for module, imported in imports().items():
        for other in imported:
            if place(other) > place(module) or (module in INFERENCE and other in COVARIANCES):
                yield module, other


def test_every_module_has_a_place():
    assert len(modules()) > 30
    assert not [module for module in modules() if module.split(".")[0] not in ORDER]


def test_imports_go_downwards():
    new = set(violations()) - KNOWN.keys()
    assert not new, f"imports that the layout forbids: {sorted(new)}"


def test_what_is_still_wrong_is_still_there():
    mended = KNOWN.keys() - set(violations())
    assert not mended, f"no longer wrong, take it out of KNOWN: {sorted(mended)}"


def test_no_two_modules_need_each_other():
    graph = {module: {other for other in found if (module, other) not in KNOWN} for module, found in imports().items()}
    order = tuple(graphlib.TopologicalSorter(graph).static_order())
    assert len(order) == len(modules())


def test_the_pages_of_the_derivation_are_in_the_order_of_their_modules():
    exported = []
    for path in sorted((ROOT / "nbs").glob("[0-9]*_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        exported += re.findall(r"^#\| default_exp (\S+)", "\n".join("".join(cell["source"]) for cell in cells), flags=re.MULTILINE)
    assert len(exported) > 10
    assert exported == sorted(exported, key=place)


ESTIMATORS = [name for name in modules() if name.split(".")[0] == "estimators"]


def test_estimators_take_classes_and_no_functions_from_what_computes():
    nodes = [node for module in ESTIMATORS for node in ast.walk(tree_of(module)) if isinstance(node, ast.ImportFrom)]
    called = {one.name for node in nodes if (node.module or "").removeprefix("sparse_pep.") in COMPUTING for one in node.names}
    functions = {name for name in called if name[0].islower()}
    assert functions == KNOWN_FUNCTIONS.keys()


def mathematics(tree):
    """Where a module multiplies, factorises or solves with matrices."""
    words = {"linalg", "einsum", "dot", "matmul", "tensordot", "cholesky", "solve", "inv"}
    return [node for node in ast.walk(tree) if isinstance(node, ast.MatMult) or getattr(node, "attr", "") in words]


@pytest.mark.parametrize("module", ESTIMATORS)
def test_estimators_compute_nothing(module):
    assert not mathematics(tree_of(module))


@pytest.mark.parametrize(
    "code, expected",
    [
        ("from .kernels import Kernel", {"kernels"}),
        ("from sparse_pep.numerics import linalg", {"numerics.linalg"}),
        ("import sparse_pep.model as m", {"model"}),
        ("def f():\n    from sparse_pep.data.cluster import connect", {"data.cluster"}),
        ("def __getattr__(name):\n    return getattr(import_module('sparse_pep.plots'), name)", {"plots"}),
        ("if TYPE_CHECKING:\n    from sparse_pep.estimators.base import load", set()),
        ("from . import __version__", set()),
        ("from sparse_pep import SparsePEPRegressor", {"__init__"}),
        ("import numpy.linalg", set()),
        ('"""Like sparse_pep.plots."""', set()),
    ],
)
def test_an_edge_is_seen_where_it_hides(code, expected):
    assert edges_of(ast.parse(code), ()) == expected


def test_an_edge_out_of_a_folder_is_seen():
    assert edges_of(ast.parse("from ..kernels import Kernel\nfrom .base import load\nfrom . import diagnostics"), ("estimators",)) == {
        "kernels",
        "estimators.base",
        "estimators.diagnostics",
    }
