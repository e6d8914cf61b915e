"""What the docstrings promise: examples that run, sections, types; what the reference pages make of them."""
import ast
import doctest
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("nbdev", reason="the reference is made with the development dependencies")
pytest.importorskip("pypandoc", reason="the reference is made with the development dependencies")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # `docs` is a tool of the repository, not an installed package

from docs import reference

MODULES = sorted(reference.homes())
SHAPE = re.compile(r"\([A-Za-zℓτ\d₀-₉][\w +−·₀-₉]*,[^()]*\)|shape|element")


def own(module):
    """(name, function or class) for what a module defines, helpers included but for those with an underscore."""
    for name, thing in vars(reference.loaded(module)).items():
        here = getattr(thing, "__module__", "") == f"sparse_pep.{module}" and name[0] != "_"
        if here and (inspect.isfunction(thing) or inspect.isclass(thing)):
            yield name, thing


def functions(module):
    """(name, function, whether it is a method) for the functions of a module and methods of its classes."""
    for name, thing in own(module):
        if inspect.isfunction(thing):
            yield name, thing, False
            continue
        for part, inner in vars(thing).items():
            inner = inner.__func__ if isinstance(inner, classmethod | staticmethod) else inner
            if part[0] != "_" and inspect.isfunction(inner) and inner.__name__ == part:  # no lambda, no alias
                yield f"{name}.{part}", inner, not isinstance(vars(thing)[part], staticmethod)


def parameters(thing, bound):
    """The arguments of a definition."""
    a = reference.tree(thing).args
    given = a.posonlyargs + a.args + a.kwonlyargs + [extra for extra in (a.vararg, a.kwarg) if extra]
    return given[1:] if bound else given


@pytest.mark.parametrize("module", MODULES)
def test_examples_run_and_print_what_they_say(module, monkeypatch, tmp_path):
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    said, runner = [], doctest.DocTestRunner()
    for name, thing in own(module):
        for example in doctest.DocTestFinder().find(thing, name, globs={}):  # nothing is there that an example does not import
            runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def has_example(thing):
    """Whether a name shows how it is used: a function or a class in its docstring, a command in its help."""
    if reference.is_command(thing):
        return bool(re.search(r"^(Example|Try): +sparse-pep \w", inspect.cleandoc(thing.help or ""), re.MULTILINE))
    return not (inspect.isfunction(thing) or inspect.isclass(thing)) or "Examples" in reference.parse_docstring(thing.__doc__ or "")


SHOWN = ("kernels", "features", "means", "priors", "estimators", "cli")  # what users call by name


@pytest.mark.parametrize("module", [module for module in reference.modules() if module.startswith(SHOWN)])
def test_public_names_have_examples(module):
    public = {name: getattr(reference.loaded(module), name) for name in reference.loaded(module).__all__}
    without = [name for name, thing in public.items() if not has_example(thing)]
    assert not without, f"add a section Examples to the docstrings of {', '.join(without)} in `{module}`"


@pytest.mark.parametrize("module", MODULES)
def test_names_say_what_they_are_and_functions_what_they_take_and_give(module):
    """Everything has a docstring and types, and no docstring describes an argument that is none; those of public names say what
    comes back, and its shape.
    """
    public = reference.loaded(module).__all__
    said = {name: thing.__doc__ or "" for name, thing in own(module)}
    faults = [f"{name}: no docstring" for name, text in said.items() if not text.strip() or text.startswith(f"{name}(")]  # what dataclass writes
    for name, thing, bound in functions(module):
        given, sections = parameters(thing, bound), reference.parse_docstring(thing.__doc__)
        names, returns = {arg.arg for arg in given}, reference.tree(thing).returns
        untyped = [arg.arg for arg in given if arg.annotation is None] + ["return"] * (returns is None)
        faults += [f"{name}: no types of {', '.join(untyped)}"] if untyped else []
        told = {word.lstrip("*") for head, _ in reference.entries(sections.get("Parameters", "")) for word in head.partition(" : ")[0].split(", ")}
        faults += [f"{name}: describes {word}, which is no argument" for word in sorted(told - names)]
        if name not in public:
            continue
        back = ast.unparse(returns or ast.Constant(None))
        if told and back not in ("None", "bool", "float", "int", "str", "Axes") and not {"Returns", "Yields"} & set(sections) and not SHAPE.search(sections[""]):
            faults.append(f"{name}: arguments, but neither a section Returns nor a shape in the first line")
        if "ndarray" in back and not SHAPE.search(thing.__doc__ or ""):
            faults.append(f"{name}: gives arrays, but names no shape")
    assert not faults, "\n".join(faults)


def test_the_types_are_shipped():
    assert (ROOT / "sparse_pep" / "py.typed").is_file()
    assert re.search(r"package_data=.*py\.typed", (ROOT / "setup.py").read_text(encoding="utf-8"))


def test_the_names_of_the_package_come_first_and_every_module_has_its_page():
    package = import_module("sparse_pep")
    first = [f"sparse_pep.{module}" for module in reference.modules()][: len({getattr(package, name).__module__ for name in package.__all__})]
    assert set(first) == {getattr(package, name).__module__ for name in package.__all__}
    assert {module for module in MODULES if reference.loaded(module).__all__} == set(reference.modules())


# --- what the reference makes of a docstring ------------------------------------------------------

def test_names_in_docstrings_lead_to_their_place_and_arguments_nowhere():
    assert reference.target_of("regression.evidence", "blocks") == "regression.ipynb#evidence"
    assert reference.target_of("Factor", "sites") == "numerics.linalg.ipynb#Factor"
    assert reference.target_of("cavity", "sites") == "#cavity"
    assert reference.target_of("cavity", "plots") is None  # an argument, more likely
    assert reference.target_of("no_such_thing", "plots") is None
    assert reference.inline("`cavity`", "sites", ("cavity",)) == "`cavity`"
