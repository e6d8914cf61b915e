"""The reference pages: one for each module, made from its docstrings, and an index of all names.
 griffe reads code and docstrings without running them. The pages are notebooks that exist in memory
only, so that Quarto and Pandoc read them as they read the others.
"""

import doctest
import functools
import importlib
import inspect
import itertools
import json
import logging
import re
import textwrap
from collections.abc import Collection, Iterator

import griffe
from execnb.nbio import mk_cell, new_nb
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup

from docs.notebook import fence, folded, package, source_link

FOLDER = "reference"
MANY = 12  # names on a page; if there are more, what does not say how to call them is folded
nbdev_index = functools.cache(NbdevLookup)
# types stand in the code: it warns where they are not in the docstring
logging.getLogger("griffe").setLevel(logging.ERROR)


@functools.cache
def homes() -> dict[str, str]:
    """The notebook that each module is exported from, in the order of the menu, or the first of
    several.
    """
    menu = re.findall(
        r"[\w/]+\.ipynb", (get_config().config_path / "_quarto.yml").read_text(encoding="utf-8")
    )
    files = {
        path.relative_to(get_config().lib_path): path.read_text(encoding="utf-8")
        for path in get_config().lib_path.rglob("[a-z]*.py")
    }
    named = {
        ".".join(path.with_suffix("").parts): re.search(
            r"File to edit: (?:\.\./)+nbs/(\S+?)\.?$", text, flags=re.MULTILINE
        )
        for path, text in files.items()
    }
    return dict(
        sorted(
            ((name, match[1]) for name, match in named.items() if match),
            key=lambda item: menu.index(item[1]),
        )
    )


@functools.cache
def modules() -> list[str]:
    """The modules with public names: those of the package's own first, in its order, then in the
    order of their pages on the site.
    """
    found = [name for name in homes() if package()[name].exports]
    return list(
        dict.fromkeys(
            [name for one in package().exports for name in found if one in package()[name].exports]
            + found
        )
    )


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


def listed(section: str, items: list, module: str, own: tuple[str, ...]) -> str:
    """A section that is a list, as a definition list of Pandoc; names that are described
    together share an item.
    """
    rows = []
    for (kind, text), group in itertools.groupby(
        items, key=lambda item: (str(item.annotation or ""), item.description)
    ):
        names = ", ".join(
            f"`{name}`"
            for item in group
            if getattr(item, "name", "")
            for name in item.name.split(", ")
        )
        names, kind = (f"`{kind}`", "") if section in ("Raises", "Warns") else (names, kind)
        said = f"[{inline(kind, module, own)}]{{.kind}}" if kind else ""
        rows.append(
            f"{' '.join(filter(None, [names, said]))}\n\n:   "
            + textwrap.indent(prose(text, module, own) or "[]{}", "    ").lstrip()
        )
    return "::: {.fields}\n" + "\n\n".join(rows) + "\n:::"


def examples(pieces: list[tuple]) -> str:
    """Doctests as the notebooks show code: what is typed, then what it prints."""
    parts = []
    typed = ""
    for piece in doctest_pieces(pieces):
        if isinstance(piece, doctest.Example):
            typed += re.sub(r"\s*# doctest:.*", "", piece.source)
            printed = piece.want or piece.exc_msg
            if printed:
                parts.append(fence(typed, ".python"))
                parts.append(f":::: {{.cell-output}}\n{fence(printed, '.output')}\n::::\n")
                typed = ""
        elif piece.strip():
            if typed:
                parts.append(fence(typed, ".python"))
                typed = ""
            parts.append(piece.strip())
    if typed:
        parts.append(fence(typed, ".python"))
    return "\n".join(parts)


def doctest_pieces(pieces: list[tuple]) -> Iterator[str | doctest.Example]:
    """The examples of a section, and the text between them as Markdown."""
    for kind, text in pieces:
        if kind.value == "examples":
            yield from doctest.DocTestParser().parse(text + "\n")
        else:
            yield prose(text, "")


def documented(text: str, module: str) -> str:
    """A docstring as Markdown."""
    sections = parse_docstring(text)
    own = tuple(
        name
        for part in ("Parameters", "Attributes")
        for item in sections.get(part, ())
        for name in item.name.split(", ")
    )
    done = [prose("\n\n".join(sections.pop("", [])), module, own)]
    hidden = {}
    for name, items in sections.items():
        shown = (
            examples(items)
            if name == "Examples"
            else prose("\n\n".join(items), module, own)
            if isinstance(items[0], str)
            else listed(name, items, module, own)
        )
        if (
            name in ("Parameters", "Attributes", "Returns", "Yields")
            or len(package()[module].exports) <= MANY
        ):
            done.append(f"[{name}]{{.part}}\n\n{shown}")
        else:
            hidden[name] = shown
    if hidden:
        within = (
            f"[{name}]{{.part}}\n\n{shown}" if len(hidden) > 1 else shown
            for name, shown in hidden.items()
        )
        done.append(folded(", ".join(hidden), "\n\n".join(within)))
    return "\n\n".join(filter(None, done))


def signature(name: str, thing: griffe.Object) -> str:
    """How to call a function or a class, or the type of a property, wrapped to the width of a
    page.
    """
    if thing.is_attribute:
        return f"{name}: {thing.annotation or 'object'}"
    maker = thing.all_members.get("__init__") if thing.is_class else thing
    if thing.is_class and "NamedTuple" in map(str, thing.bases):
        line = f"{name}({', '.join(named_tuple_fields(thing))})"
    elif maker:
        line = maker.signature(name=name, return_type=thing.is_function)
    else:
        line = f"{name}()"
    if len(line) <= 86:
        return line
    within, end = line[len(name) + 1 :].rsplit(")", 1)
    arguments = re.split(r", (?=\*|\w+[:=])", within)
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{lines}){end}"


def named_tuple_fields(cls: griffe.Class) -> list[str]:
    """The fields of a NamedTuple with their types and defaults."""
    parts = []
    for field in cls.attributes.values():
        if field.annotation and "property" not in field.labels:
            default = f" = {field.value}" if field.value else ""
            parts.append(f"{field.name}: {field.annotation}{default}")
    return parts


@functools.cache
def command(module: str, name: str):
    """The command of the command line that a name is, as click describes it where it is called,
    or nothing.
    """
    if module != "cli.app":
        return None
    cli = importlib.import_module(f"{get_config().lib_name}.{module}")
    typed = get_config().lib_name.replace("_", "-")
    found = getattr(cli, name)
    return found.context_class(
        found,
        info_name=typed if found is cli.main else f"{typed} {found.name}",
        terminal_width=88,
        **cli.main.context_settings,
    )


def label(module: str, name: str) -> str:
    """What a name is called where it is used: commands as they are typed."""
    return found.info_name if (found := command(module, name)) else name


def said_of(module: str, name: str) -> str:
    """One line about a name."""
    said = (
        found.command.get_short_help_str(200)
        if (found := command(module, name))
        else text_of(package()[module][name])
    )
    return inline(inspect.cleandoc(said).partition("\n\n")[0], module, (name,))


def is_documented_method(name: str, thing: griffe.Object) -> bool:
    """Whether a member of a class is a public method or property with a docstring."""
    if not (thing.is_function or "property" in thing.labels):
        return False
    return (name[0] != "_" or name == "__call__") and bool(text_of(thing).strip())


def is_public(cls: griffe.Class) -> bool:
    """Whether a class is in the `__all__` of its module."""
    return cls.name in (cls.module.exports or ())


def documented_methods(
    cls: griffe.Class,
) -> tuple[dict[str, griffe.Object], dict[str, griffe.Class]]:
    """The methods of a class and of its private bases by name, and the public base that documents
    a method.
    """
    lib = get_config().lib_name
    bases = [base for base in cls.mro() if base.path.startswith(lib)]
    public = list(filter(is_public, bases))
    own = {}
    owners = {}
    for base in [cls, *bases]:
        # what a public base inherits is documented there
        heirs = [other for other in public if base in [other, *other.mro()]]
        for name, thing in base.members.items():
            if not is_documented_method(name, thing):
                continue
            if heirs:
                owners.setdefault(name, base if base in heirs else heirs[-1])
            else:
                own.setdefault(name, thing)
    return own, owners


def inherited_links(
    module: str, own: Collection[str], owners: dict[str, griffe.Class]
) -> list[str]:
    """Where the methods are documented that public bases have and the class itself does not."""
    lib = get_config().lib_name
    links = {}
    for name, base in owners.items():
        if name not in own:
            home = base.module.path.removeprefix(f"{lib}.")
            page = "" if home == module else f"{home}.ipynb"
            start = f"[`{base.name}`]({page}#{base.name})"
            links.setdefault(start, []).append(f"[`{name}`]({page}#{base.name}.{name})")
    if not links:
        return []
    parts = [f"{start}: {', '.join(names)}" for start, names in links.items()]
    return [f"::: {{.inherited}}\nAs in {'; as in '.join(parts)}.\n:::"]


def method_entries(module: str, cls: griffe.Class) -> str:
    """The methods of a class that have a docstring: those of its own in full, those that a base
    class documents here by name.
    """
    own, owners = documented_methods(cls)
    is_long = len(package()[module].exports) > MANY
    brief = []
    full = []
    for name, thing in own.items():
        place = f"{{#{cls.name}.{name}"
        text = documented(text_of(thing), module)
        has_sections = set(parse_docstring(text_of(thing))) != {""}
        if is_long and name in owners and not has_sections:
            # how it differs, not how it is called
            brief.append(f"[`{name}`]{place}}}\n\n:   {' '.join(text.split())}")
        else:
            heading = f"#### `{cls.name}.{name}` {place} .api}}"
            full += [f"{heading}\n\n{fence(signature(name, thing), '.python .signature')}", text]
    if brief:
        brief = ["::: {.fields}", *brief, ":::"]
    return "\n\n".join([*inherited_links(module, own, owners), *brief, *full])


def entry(module: str, name: str) -> str:
    """A name in full: heading, links, signature, docstring, methods."""
    thing = package()[module][name]
    known = nbdev_index()[f"{get_config().lib_name}.{module}.{name}"]
    links = (
        f"[derivation]({known[0] if known else f'../{homes()[module]}'}) · "
        f"[source]({source_link(module, name)})"
    )
    parts = [f"### `{label(module, name)}` {{#{name} .api}}\n\n::: {{.api-links}}\n{links}\n:::"]
    if found := command(module, name):
        parts += [fence(found.get_help(), ".text")]
    elif thing.is_attribute:
        value = str(thing.value)
        parts += [
            fence(
                f"{name} = {value if len(value) <= 60 else value[:59] + '…'}", ".python .signature"
            ),
            inline(text_of(thing), module),
        ]
    else:
        parts += [
            fence(signature(name, thing), ".python .signature"),
            documented(text_of(thing), module),
        ]
    return "\n\n".join(parts + ([method_entries(module, thing)] if thing.is_class else []))


def table(module: str, names: list[str], page: str = "") -> str:
    """Names with one line each, for the page of the module or, if `page` is what that is called,
    for another one.
    """
    rows = [
        f"| [`{label(module, name)}`](#{name}) | {said_of(module, name)} |".replace(
            "](#", f"]({page}#"
        )
        for name in names
    ]
    # the index explains itself, and is long
    return "\n".join(
        ["::: {.names}", "| | |" if page else "| name | what it is |", "|---|---|", *rows, ":::"]
    )


def module_page(module: str) -> tuple[str, str, str]:
    """Title, subtitle and text of a module's page."""
    library = get_config().lib_name
    public = package()[module].exports
    parents = package(), package()[module].parent, package()[module]
    place = next(parent.path for parent in parents if public[0] in (parent.exports or ()))
    imported = (
        f"`{label(module, public[0])}` is installed with the package."
        if command(module, public[0])
        else f"Every name on this page is imported like `from {place} import {public[0]}`. "
        "Shapes: N data points, D input columns, M inducing variables, S test inputs."
    )
    top = (
        "Derived, with tests and pictures, on [the page of this "
        f"module](../{homes()[module]}). {imported}"
    )
    text = "\n\n".join(
        [top, table(module, public), "## In full", *[entry(module, name) for name in public]]
    )
    return f"{library}.{module}", text_of(package()[module]).strip(), text


def index_page() -> tuple[str, str, str]:
    """Title, subtitle and text of the list of all names."""
    parts = [
        "What a function does, what it takes and what it gives back. How the names came "
        "about is in the derivation, how they are used together in the tutorials and "
        "how-to pages."
    ]
    for module in modules():
        parts.append(
            f"## [`{module}`]({module}.ipynb) "
            f"{{#{module}}}\n\n{prose(text_of(package()[module]), '')}"
        )
        parts.append(table(module, package()[module].exports, f"{module}.ipynb"))
    return "Reference", "Every public name of the package, with one line each.", "\n\n".join(parts)


def made(source: str):
    """The page `source` as a notebook that needs no more processing."""
    stem = source.removeprefix(f"{FOLDER}/").removesuffix(".ipynb")
    title, subtitle, text = index_page() if stem == "index" else module_page(stem)
    front = {
        "title": title,
        "description": subtitle,
        "output-file": f"{stem}.html",
        "order": sources().index(source),
    }
    head = (
        "---\n"
        + "".join(
            f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in front.items()
        )
        + "---\n"
    )
    language = {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}
    notebook = new_nb(
        [mk_cell(head, "raw", id="raw"), mk_cell(text, "markdown", id="markdown")], language
    )
    notebook.frontmatter_ = front
    notebook.module_ = None if stem == "index" else stem
    return notebook
