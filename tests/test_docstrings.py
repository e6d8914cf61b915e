"""What the docstrings promise: examples that run, sections, types; what the reference pages make
of them.
"""

import doctest
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("nbdev", reason="the reference is made with the development dependencies")
pytest.importorskip("pypandoc", reason="the reference is made with the development dependencies")


from docs import reference

ROOT = Path(__file__).resolve().parent.parent

MODULES = sorted(reference.derivations())
SHAPE = re.compile(r"\([A-Za-zℓτ\d₀-₉][\w +−·₀-₉]*,[^()]*\)|shape|element")


def loaded(module):
    """A module of the package, imported."""
    return import_module(f"sparse_pep.{module}")


def own(module):
    """(name, function or class) for what a module defines, helpers included but for those with
    an underscore.
    """
    for name, thing in vars(loaded(module)).items():
        here = getattr(thing, "__module__", "") == f"sparse_pep.{module}" and name[0] != "_"
        if here and (inspect.isfunction(thing) or inspect.isclass(thing)):
            yield name, thing


def functions(module):
    """(name, function) for the functions of a module and the methods of its classes, as griffe
    reads them.
    """
    things = [
        (name, thing)
        for name, thing in reference.package()[module].members.items()
        if name[0] != "_" and not thing.is_alias
    ]
    methods = [
        (f"{name}.{part}", inner)
        for name, thing in things
        if thing.is_class
        for part, inner in thing.members.items()
        if part[0] != "_"
    ]
    return [
        (name, thing)
        for name, thing in things + methods
        if not thing.is_alias and thing.is_function
    ]


@pytest.mark.parametrize("module", MODULES)
def test_examples_run_and_print_what_they_say(module, folder):
    said = []
    runner = doctest.DocTestRunner()
    for name, thing in own(module):
        # nothing is there that an example does not import
        for example in doctest.DocTestFinder().find(thing, name, globs={}):
            runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def has_example(thing):
    """Whether a name shows how it is used: a function or a class in its docstring, a command in
    its help.
    """
    if hasattr(thing, "get_short_help_str"):
        return bool(
            re.search(
                r"^(Example|Try): +sparse-pep \w", inspect.cleandoc(thing.help or ""), re.MULTILINE
            )
        )
    return not (
        inspect.isfunction(thing) or inspect.isclass(thing)
    ) or "Examples" in reference.parse_docstring(thing.__doc__ or "")


SHOWN = ("kernels", "features", "means", "priors", "estimators", "cli")  # what users call by name


@pytest.mark.parametrize(
    "module", [module for module in reference.modules() if module.startswith(SHOWN)]
)
def test_public_names_have_examples(module):
    public = {name: getattr(loaded(module), name) for name in loaded(module).__all__}
    without = [name for name, thing in public.items() if not has_example(thing)]
    assert not without, (
        f"add a section Examples to the docstrings of {', '.join(without)} in `{module}`"
    )


def arguments(thing):
    """The arguments of a function, or those that make an object of a class, without `self`."""
    if thing.is_class and "NamedTuple" in map(str, thing.bases):
        return [
            field
            for field in thing.attributes.values()
            if field.annotation and "property" not in field.labels
        ]
    maker = thing.all_members.get("__init__") if thing.is_class else thing
    return [one for one in (maker.parameters if maker else ()) if one.name not in ("self", "cls")]


each_module = pytest.mark.parametrize("module", MODULES)


@each_module
def test_everything_has_a_docstring(module):
    said = {name: thing.__doc__ or "" for name, thing in own(module)}
    written_by_dataclass = {name for name, text in said.items() if text.startswith(f"{name}(")}
    assert not written_by_dataclass
    assert not {name for name, text in said.items() if not text.strip()}


@each_module
def test_everything_has_types(module):
    untyped = [
        f"{name}: {argument.name}"
        for name, thing in functions(module)
        for argument in arguments(thing)
        if argument.annotation is None
    ]
    untyped += [f"{name}: return" for name, thing in functions(module) if thing.returns is None]
    assert not untyped


def described(thing):
    """The arguments that a docstring describes."""
    sections = reference.parse_docstring(reference.text_of(thing))
    return {item.name.lstrip("*") for item in sections.get("Parameters", ())}


@each_module
def test_no_docstring_describes_an_argument_that_is_none(module):
    faults = {
        name: described(thing) - {argument.name for argument in arguments(thing)}
        for name, thing in functions(module)
    }
    assert not {name: words for name, words in faults.items() if words}


SIMPLE = ("None", "bool", "float", "int", "str", "Axes")  # types that say enough of a result


def public_functions(module):
    """(name, function, type of its result) for what a module exports."""
    public = loaded(module).__all__
    return [
        (name, thing, str(thing.returns).strip("'"))
        for name, thing in functions(module)
        if name in public
    ]


@each_module
def test_public_names_with_arguments_say_what_comes_back(module):
    """In a section Returns, or by a shape in the first line."""
    faults = []
    for name, thing, result in public_functions(module):
        sections = reference.parse_docstring(reference.text_of(thing))
        told = {"Returns", "Yields"} & set(sections) or SHAPE.search("".join(sections[""]))
        if described(thing) and result not in SIMPLE and not told:
            faults.append(name)
    assert not faults


@each_module
def test_public_names_that_give_arrays_name_their_shape(module):
    without = [
        name
        for name, thing, result in public_functions(module)
        if "ndarray" in result and not SHAPE.search(reference.text_of(thing))
    ]
    assert not without


def test_names_in_docstrings_lead_to_their_place_and_arguments_nowhere():
    assert (
        reference.target_of("regression.evidence", "inference.blocks")
        == "regression.ipynb#evidence"
    )
    assert reference.target_of("Factor", "sites") == "numerics.linalg.ipynb#Factor"
    assert reference.target_of("cavity", "sites") == "#cavity"
    assert reference.target_of("cavity", "plots") is None  # an argument, more likely
    assert reference.target_of("no_such_thing", "plots") is None
    assert reference.inline("`cavity`", "sites", ("cavity",)) == "`cavity`"
