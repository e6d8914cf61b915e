"""The reference pages: one for each module, made from its docstrings, and an index of all names.
 griffe reads code and docstrings without running them. The pages are notebooks that exist in memory
only, so that Quarto and Pandoc read them as they read the others.
"""

import functools
import importlib
import inspect
import json
import logging
import re
import textwrap

import griffe
from execnb.nbio import mk_cell, new_nb
from nbdev.config import get_config

from docs.notebook import fence, package, source_link

FOLDER = "reference"
# types stand in the code: it warns where they are not in the docstring
logging.getLogger("griffe").setLevel(logging.ERROR)


@functools.cache
def derivations() -> dict[str, dict[str, str]]:
    """Where each name of each module is derived, as nbdev has it."""
    index = importlib.import_module(f"{get_config().lib_name}._modidx").d["syms"]
    return {
        module.partition(".")[2]: {name: place for name, (place, _) in names.items()}
        for module, names in index.items()
    }


def home(module: str) -> str:
    """The page that a module is exported from."""
    return next(iter(derivations()[module].values())).partition("#")[0]


@functools.cache
def modules() -> list[str]:
    """The modules with public names: those of the package's own first, in its order."""
    top = package().exports
    public = {name: package()[name].exports for name in derivations() if package()[name].exports}
    first = [name for one in top for name, exports in public.items() if one in exports]
    return list(dict.fromkeys([*first, *public]))


def sources() -> list[str]:
    """The pages, in their order."""
    return [f"{FOLDER}/index.ipynb"] + [f"{FOLDER}/{name}.ipynb" for name in modules()]


def parse_docstring(text: str | None) -> dict[str, list]:
    """The sections of a numpydoc docstring by name, the text before the first under "": items,
    or pieces of text.
    """
    found = {}
    for section in griffe.Docstring(inspect.cleandoc(text or "")).parse("numpy"):
        if section.kind.value == "admonition":
            found[section.title] = [section.value.description]
        elif section.kind.value == "text":
            found.setdefault("", []).append(section.value)
        else:
            found[section.kind.value.title()] = section.value
    return found


def text_of(thing: griffe.Object) -> str:
    """What the comment beside a constant says; else a docstring, which for an estimator is put
    together when it is imported.
    """
    if thing.is_attribute and "property" not in thing.labels:
        return thing.module.lines[thing.endlineno - 1].partition("  # ")[2]
    path = thing.path.removeprefix(thing.module.path).split(".")[1:]
    return functools.reduce(getattr, path, importlib.import_module(thing.module.path)).__doc__ or ""


def target_of(word: str, module: str) -> str | None:
    """Where the reference defines a name that a docstring of `module` has in back-ticks, alone
    or after that of its module.
    """
    parts = word.partition("(")[0].split(".")
    for other in dict.fromkeys([module, *modules()] if module else ()):
        for name in [part for part in parts if part in (package()[other].exports or ())]:
            if other == module or len(parts) > 1 or re.match("[A-Z].*[a-z]", name):
                return f"{'' if other == module else other + '.ipynb'}#{name}"
    return None


def inline(text: str, module: str, own: tuple[str, ...] = ()) -> str:
    """One line of a docstring as Markdown: all marks but back-ticks stand for themselves; names
    in `own` are no links.
    """

    def code(word: str) -> str:
        target = None if word in own else target_of(word, module)
        return f"[`{word}`]({target})" if target else f"`{word}`"

    pieces = re.split(r"(``.+?``|`[^`]+`)", " ".join(text.split()))
    return "".join(
        code(piece.strip("`")) if i % 2 else re.sub(r"([!-.:-@\[-_{-~])", r"\\\1", piece)
        for i, piece in enumerate(pieces)
    )


def prose(text: str, module: str, own: tuple[str, ...] = ()) -> str:
    """Paragraphs, lists with dashes and indented code of a docstring as Markdown."""
    done = []
    for part in re.split(r"\n[ \t]*\n", text.strip("\n")):
        if part.lstrip().startswith("- "):
            items = re.split(r"^- ", inspect.cleandoc(part), flags=re.MULTILINE)[1:]
            done.append("\n".join(f"- {inline(item, module, own)}" for item in items))
        elif all(line.startswith("    ") for line in part.splitlines()) and part:
            done.append(fence(textwrap.dedent(part), ".text"))
        else:
            done.append(inline(part, module, own))
    return "\n\n".join(done)


def fields(section: str, items: list, module: str, own: tuple[str, ...]) -> str:
    """The items of a section as a definition list of Pandoc."""
    rows = []
    for item in items:
        kind = str(item.annotation or "")
        named = getattr(item, "name", "") or (kind if section in ("Raises", "Warns") else "")
        names = ", ".join(f"`{name}`" for name in named.split(", ") if name)
        type_said = f"[{inline(kind, module, own)}]{{.kind}}" if kind and kind != named else ""
        text = textwrap.indent(prose(item.description, module, own) or "[]{}", "    ")
        rows.append(f"{names} {type_said}\n\n:   {text.lstrip()}")
    return "\n\n".join(["::: {.fields}", *rows, ":::"])


def examples(pieces: list[tuple], module: str) -> str:
    """Doctests, and the text between them."""
    return "\n\n".join(
        fence(text, ".pycon") if kind.value == "examples" else prose(text, module)
        for kind, text in pieces
    )


def documented(text: str, module: str) -> str:
    """A docstring as Markdown."""
    sections = parse_docstring(text)
    described = [item for part in ("Parameters", "Attributes") for item in sections.get(part, ())]
    own = tuple(name for item in described for name in item.name.split(", "))
    parts = [prose("\n\n".join(sections.pop("", [])), module, own)]
    for name, items in sections.items():
        if name == "Examples":
            shown = examples(items, module)
        elif isinstance(items[0], str):
            shown = prose("\n\n".join(items), module, own)
        else:
            shown = fields(name, items, module, own)
        parts.append(f"[{name}]{{.part}}\n\n{shown}")
    return "\n\n".join(filter(None, parts))


def signature(name: str, thing: griffe.Object) -> str:
    """How to call a function or a class, an argument a line where one line is too short, or the
    type of a property.
    """
    if thing.is_attribute:
        return f"{name}: {thing.annotation or 'object'}"
    maker = thing.all_members.get("__init__") if thing.is_class else thing
    if not maker:  # a NamedTuple, or a class that is not called
        fields = [f"{x.name}: {x.annotation}" for x in thing.attributes.values() if x.annotation]
        return f"{name}({', '.join(fields)})"
    line = maker.signature(name=name, return_type=thing.is_function)
    if len(line) <= 86:
        return line
    within, end = line[len(name) + 1 :].rsplit(")", 1)
    arguments = re.split(r", (?=\*|\w+[:=])", within)
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{lines}){end}"


def command(module: str, name: str):
    """The command of the command line that a name is, as click describes it where it is called,
    or nothing.
    """
    if module != "cli.app":
        return None
    cli = importlib.import_module(f"{get_config().lib_name}.{module}")
    found = getattr(cli, name)
    typed = "sparse-pep" if found is cli.main else f"sparse-pep {found.name}"
    settings = cli.main.context_settings
    return found.context_class(found, info_name=typed, terminal_width=88, **settings)


def label(module: str, name: str) -> str:
    """What a name is called where it is used: commands as they are typed."""
    return found.info_name if (found := command(module, name)) else name


def said_of(module: str, name: str) -> str:
    """One line about a name."""
    found = command(module, name)
    said = found.command.help if found else text_of(package()[module][name])
    return inline(inspect.cleandoc(said).partition("\n\n")[0], module, (name,))


def methods_of(cls: griffe.Class) -> dict[str, griffe.Object]:
    """The public methods and properties of a class and of its private bases that have a
    docstring, by name: what a public base has is on the page of that.
    """
    lib = f"{get_config().lib_name}."
    bases = [base for base in cls.mro() if base.path.startswith(lib)]
    public = [base for base in bases if base.name in (base.module.exports or ())]
    elsewhere = {id(base) for one in public for base in [one, *one.mro()]}
    found = {}
    for base in [cls, *(base for base in bases if id(base) not in elsewhere)]:
        for name, thing in base.members.items():
            callable_ = thing.is_function or "property" in thing.labels
            if callable_ and (name[0] != "_" or name == "__call__") and text_of(thing).strip():
                found.setdefault(name, thing)
    return found


def bases_line(module: str, cls: griffe.Class) -> list[str]:
    """Where the methods are documented that a class has from its nearest public base."""
    for base in cls.mro():
        home = base.module.path.partition(".")[2]
        if home in modules() and base.name in (base.module.exports or ()):
            place = "" if home == module else f"{home}.ipynb"
            return [f"Other methods are those of [`{base.name}`]({place}#{base.name})."]
    return []


def entry(module: str, name: str) -> str:
    """A name in full: heading, links, signature, docstring, methods."""
    thing = package()[module][name]
    derivation = derivations()[module].get(thing.path, home(module))
    links = f"[derivation](/{derivation}) · [source]({source_link(module, name)})"
    parts = [f"### `{label(module, name)}` {{#{name} .api}}\n\n::: {{.api-links}}\n{links}\n:::"]
    if found := command(module, name):
        return "\n\n".join([*parts, fence(found.get_help(), ".text")])
    if thing.is_attribute:
        value = textwrap.shorten(f"{name} = {thing.value}", 80, placeholder=" …")
        return "\n\n".join([*parts, fence(value, ".python .signature"), said_of(module, name)])
    parts.append(fence(signature(name, thing), ".python .signature"))
    parts.append(documented(text_of(thing), module))
    if thing.is_class:
        for method, member in methods_of(thing).items():
            parts += [f"#### `{name}.{method}` {{#{name}.{method} .api}}"]
            parts += [fence(signature(method, member), ".python .signature")]
            parts += [documented(text_of(member), module)]
        parts += bases_line(module, thing)
    return "\n\n".join(parts)


def table(module: str, page: str = "") -> str:
    """The names of a module with one line each, for its page or, if `page` is what that is
    called, for another one.
    """
    names = package()[module].exports
    rows = [f"| [`{label(module, name)}`](#{name}) | {said_of(module, name)} |" for name in names]
    head = "| | |" if page else "| name | what it is |"
    lines = ["::: {.names}", head, "|---|---|", *rows, ":::"]
    return "\n".join(lines).replace("](#", f"]({page}#")


def module_page(module: str) -> tuple[str, str, str]:
    """Title, subtitle and text of a module's page."""
    public = package()[module].exports
    parents = package(), package()[module].parent, package()[module]
    place = next(parent.path for parent in parents if public[0] in (parent.exports or ()))
    imported = (
        f"`{label(module, public[0])}` is installed with the package."
        if command(module, public[0])
        else f"Every name on this page is imported like `from {place} import {public[0]}`. "
        "Shapes: N data points, D input columns, M inducing variables, S test inputs."
    )
    top = f"Derived, with tests and pictures, on [the page of this module](/{home(module)})."
    entries = [entry(module, name) for name in public]
    text = "\n\n".join([f"{top} {imported}", table(module), "## In full", *entries])
    return package()[module].path, text_of(package()[module]).strip(), text


def index_page() -> tuple[str, str, str]:
    """Title, subtitle and text of the list of all names."""
    parts = [
        "What a function does, what it takes and what it gives back. How the names came "
        "about is in the derivation, how they are used together in the tutorials and "
        "how-to pages."
    ]
    for module in modules():
        page = f"{module}.ipynb"
        parts.append(f"## [`{module}`]({page}) {{#{module}}}")
        parts += [prose(text_of(package()[module]), ""), table(module, page)]
    return "Reference", "Every public name of the package, with one line each.", "\n\n".join(parts)


def made(source: str):
    """The page `source` as a notebook that needs no more processing."""
    stem = source.removeprefix(f"{FOLDER}/").removesuffix(".ipynb")
    title, subtitle, text = index_page() if stem == "index" else module_page(stem)
    front = {"title": title, "description": subtitle, "output-file": f"{stem}.html"}
    front["order"] = sources().index(source)
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in front.items()]
    head = "\n".join(["---", *lines, "---", ""])
    language = {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}
    cells = [mk_cell(head, "raw", id="raw"), mk_cell(text, "markdown", id="markdown")]
    notebook = new_nb(cells, language)
    notebook.frontmatter_ = front
    notebook.module_ = None if stem == "index" else stem
    return notebook
