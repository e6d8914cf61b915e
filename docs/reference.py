"""The reference pages: one for each module, made from its docstrings, and an index of all names.

griffe reads code and docstrings without running them. The pages are notebooks that exist in memory only, so that Quarto and
Pandoc read them as they read the others.
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
from collections.abc import Iterator

import griffe
from execnb.nbio import dict2nb
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup

from docs.notebook import fence

FOLDER = "reference"
MANY = 12  # names on a page; if there are more, what does not say how to call them is folded
ALWAYS = ("Parameters", "Attributes", "Returns", "Yields")
nbdev_index = functools.cache(NbdevLookup)
logging.getLogger("griffe").setLevel(logging.ERROR)  # types stand in the code: it warns where they are not in the docstring


@functools.cache
def package() -> griffe.Module:
    """The package as griffe reads it."""
    return griffe.load(get_config().lib_name, search_paths=[get_config().config_path])


def within(parent: griffe.Module) -> Iterator[griffe.Module]:
    """The modules below a package."""
    for module in parent.modules.values():
        if not module.is_alias and module.name[0] != "_":
            yield module
            yield from within(module)


@functools.cache
def homes() -> dict[str, str]:
    """The notebook that each module is exported from, in the order of the menu, or the first of several."""
    lib, menu = get_config().lib_name, re.findall(r"[\w/]+\.ipynb", (get_config().config_path / "_quarto.yml").read_text(encoding="utf-8"))
    named = {module.path.removeprefix(f"{lib}."): re.search(r"File to edit: (?:\.\./)+nbs/(\S+?)\.?$", module.source, flags=re.MULTILINE) for module in within(package())}
    pages = {name: match[1] for name, match in named.items() if match}
    return dict(sorted(pages.items(), key=lambda item: menu.index(item[1])))


@functools.cache
def modules() -> list[str]:
    """The modules with public names: those of the package's own first, in its order, then in the order of their pages on the site."""
    found = [name for name in homes() if package()[name].exports]
    return list(dict.fromkeys([name for one in package().exports for name in found if one in package()[name].exports] + found))


def sources() -> list[str]:
    """The pages, in their order."""
    return [f"{FOLDER}/index.ipynb"] + [f"{FOLDER}/{name}.ipynb" for name in modules()]


def menu_text(source: str) -> str:
    """What the menu calls a page."""
    stem = source.removeprefix(f"{FOLDER}/").removesuffix(".ipynb")
    return "All names" if stem == "index" else stem


# --- docstrings ---------------------------------------------------------------------------------


def parse_docstring(text: str | None) -> dict[str, list]:
    """The sections of a numpydoc docstring by name, the text before the first under "": items, or pieces of text."""
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
    """The docstring of a module, class, function or property, which for an estimator is put together when it is imported."""
    path = thing.path.removeprefix(thing.module.path).split(".")[1:]
    return functools.reduce(getattr, path, importlib.import_module(thing.module.path)).__doc__ or ""


def summary(text: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())


def target_of(word: str, module: str) -> str | None:
    """Where the reference defines a name that a docstring of `module` has in back-ticks, alone or after that of its module."""
    parts = word.partition("(")[0].split(".")
    for other in dict.fromkeys([module, *modules()] if module else ()):
        for name in [part for part in parts if part in (package()[other].exports or ())]:
            if other == module or len(parts) > 1 or re.match("[A-Z].*[a-z]", name):
                return f"{'' if other == module else other + '.ipynb'}#{name}"
    return None


def inline(text: str, module: str, own: tuple[str, ...] = ()) -> str:
    """One line of a docstring as Markdown: all marks but back-ticks stand for themselves; names in `own` are no links."""

    def code(match: re.Match) -> str:
        word = match[1] or match[2]
        target = None if word in own else target_of(word, module)
        return f"[`{word}`]({target})" if target else f"`{word}`"

    pieces = re.split(r"(``.+?``|`[^`]+`)", " ".join(text.split()))
    plain = [re.sub(r"([!-.:-@\[-_{-~])", r"\\\1", piece) if i % 2 == 0 else piece for i, piece in enumerate(pieces)]
    return "".join(re.sub(r"``(.+?)``|`([^`]+)`", code, piece) if i % 2 else piece for i, piece in enumerate(plain))


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
    """A section that is a list, as a definition list of Pandoc; names that are described together share an item."""
    rows = []
    for (kind, text), group in itertools.groupby(items, key=lambda item: (str(item.annotation or ""), item.description)):
        names = ", ".join(f"`{name}`" for item in group if getattr(item, "name", "") for name in item.name.split(", "))
        names, kind = (f"`{kind}`", "") if section in ("Raises", "Warns") else (names, kind)
        said = f"[{inline(kind, module, own)}]{{.kind}}" if kind else ""
        rows.append(f"{' '.join(filter(None, [names, said]))}\n\n:   " + textwrap.indent(prose(text, module, own) or "[]{}", "    ").lstrip())
    return "::: {.fields}\n" + "\n\n".join(rows) + "\n:::"


def examples(pieces: list[tuple]) -> str:
    """Doctests as the notebooks show code: what is typed, then what it prints."""
    parts, typed = [], []

    def flush(printed: str = "") -> None:
        parts.extend([fence("".join(typed), ".python")] * bool(typed) + [f":::: {{.cell-output}}\n{fence(printed, '.output')}\n::::\n"] * bool(printed))
        typed.clear()

    for kind, text in pieces:
        for piece in doctest.DocTestParser().parse(text) if kind.value == "examples" else [prose(text, "")]:
            if isinstance(piece, str):
                if piece.strip():
                    flush()
                    parts.append(piece.strip())
                continue
            typed.append(re.sub(r"\s*# doctest:.*", "", piece.source))
            if piece.want or piece.exc_msg:
                flush(piece.want)
        flush()
    return "\n".join(parts)


def documented(text: str, module: str) -> str:
    """A docstring as Markdown."""
    sections = parse_docstring(text)
    own = tuple(name for part in ("Parameters", "Attributes") for item in sections.get(part, ()) for name in item.name.split(", "))
    done, folded = [prose("\n\n".join(sections.pop("", [])), module, own)], {}
    for name, items in sections.items():
        shown = examples(items) if name == "Examples" else prose("\n\n".join(items), module, own) if isinstance(items[0], str) else listed(name, items, module, own)
        if name in ALWAYS or len(package()[module].exports) <= MANY:
            done.append(f"[{name}]{{.part}}\n\n{shown}")
        else:
            folded[name] = shown
    if folded:
        within = (f"[{name}]{{.part}}\n\n{shown}" if len(folded) > 1 else shown for name, shown in folded.items())
        done += [f'<details class="folded"><summary>{", ".join(folded)}</summary>', *within, "</details>"]
    return "\n\n".join(filter(None, done))


# --- names ----------------------------------------------------------------------------------------


def arguments(thing: griffe.Function | griffe.Class) -> list[griffe.Parameter]:
    """The arguments of a function, or those that make an object of a class, without `self`."""
    given = list(thing.parameters)
    bases = {base.name for base in thing.mro()} | set(map(str, thing.bases)) if thing.is_class and not given else set()
    if bases & {"NamedTuple", "Arguments"}:  # made of fields, those of its bases included
        fields = {name: field for base in [*reversed(thing.mro()), thing] for name, field in base.attributes.items() if field.annotation and "property" not in field.labels}
        kind = griffe.ParameterKind.positional_or_keyword if "NamedTuple" in bases else griffe.ParameterKind.keyword_only
        return [griffe.Parameter(name, annotation=field.annotation, default=field.value, kind=kind) for name, field in fields.items()]
    return given[1:] if thing.is_class or thing.parent.is_class and "staticmethod" not in thing.labels else given


def signature(name: str, thing: griffe.Object) -> str:
    """How to call a function or a class, or the type of a property, wrapped to the width of a page."""
    if thing.is_attribute:
        return f"{name}: {thing.annotation or 'object'}"
    stars, given = {"variadic positional": "*", "variadic keyword": "**"}, []
    for parameter in arguments(thing):
        kind = parameter.kind.value
        if kind == "keyword-only" and "*" not in "".join(one[0] for one in given):
            given.append("*")
        default = "" if parameter.default is None or kind in stars else f" = {parameter.default}" if parameter.annotation else f"={parameter.default}"
        given.append(stars.get(kind, "") + parameter.name + (f": {parameter.annotation}" if parameter.annotation else "") + default)
    back = f" -> {thing.returns}" if thing.is_function and thing.returns else ""
    line = f"{name}({', '.join(given)}){back}"
    return line if len(line) <= 86 else f"{name}(\n" + "".join(f"    {one},\n" for one in given) + f"){back}"


def links(module: str, name: str) -> str:
    """Where a name is derived, and where its source is."""
    config, known = get_config(), nbdev_index()[f"{get_config().lib_name}.{module}.{name}"]
    path = f"{config.lib_path.name}/{module.replace('.', '/')}.py#L{package()[module][name].lineno}"
    return f"[derivation]({known[0] if known else f'../{homes()[module]}'}) · [source]({config.git_url}/blob/{config.branch}/{path})"


def constant(module: str, name: str) -> tuple[str, str]:
    """The value of a constant as it is written, and the comment beside it."""
    thing = package()[module][name]
    value = str(thing.value)
    return value if len(value) <= 60 else value[:59] + "…", package()[module].lines[thing.endlineno - 1].partition("  # ")[2]


def command(module: str, name: str):
    """The command of the command line that a name is, or nothing."""
    return getattr(importlib.import_module(f"{get_config().lib_name}.{module}"), name) if module == "cli" else None


def label(module: str, name: str) -> str:
    """What a name is called where it is used: commands as they are typed."""
    typed, found = get_config().lib_name.replace("_", "-"), command(module, name)
    return name if not found else typed if hasattr(found, "commands") else f"{typed} {found.name}"


def command_help(module: str, name: str) -> str:
    """What a command says about itself."""
    found, main = command(module, name), command(module, "main")
    settings = {"terminal_width": 88, "max_content_width": 88, "help_option_names": main.context_settings["help_option_names"]}
    return fence(found.context_class(found, info_name=label(module, name), **settings).get_help(), ".text")


def said_of(module: str, name: str) -> str:
    """One line about a name."""
    thing = package()[module][name]
    if found := command(module, name):
        return inline(found.get_short_help_str(200), module)
    return inline(constant(module, name)[1] if thing.is_attribute else summary(text_of(thing)), module, (name,))


def method_entries(module: str, cls: griffe.Class) -> str:
    """The methods of a class that have a docstring: those of its own in full, those that a base class documents here by name."""
    full, inherited, lib = {}, {}, get_config().lib_name
    bases = [base for base in cls.mro() if base.path.startswith(lib)]
    public = [base for base in bases if base.name in (base.module.exports or ())]
    for base in [cls, *bases]:
        owner = base if base in public else next((one for one in public[::-1] if base in one.mro()), None)  # what a public base inherits is documented there
        for name, thing in base.members.items():
            called = (thing.is_function or thing.is_attribute and "property" in thing.labels) and (name[0] != "_" or name == "__call__")
            if called and text_of(thing).strip() and owner:
                inherited.setdefault(owner, []).append(name)
            elif called and text_of(thing).strip():
                full.setdefault(name, thing)
    known, parts = set(), []
    for base, names in inherited.items():
        owner = base.module.path.removeprefix(f"{lib}.")
        page = "" if owner == module else f"{owner}.ipynb"
        said = ", ".join(f"[`{name}`]({page}#{base.name}.{name})" for name in dict.fromkeys(names) if name not in known | full.keys())
        known |= set(names)
        parts += [f"[`{base.name}`]({page}#{base.name}): {said}"] * bool(said)
    done, again = [f"::: {{.inherited}}\nAs in {'; as in '.join(parts)}.\n:::"] * bool(parts), []
    for name, thing in full.items():
        place, said = f"{{#{cls.name}.{name}", documented(text_of(thing), module)
        if name in known and len(package()[module].exports) > MANY and set(parse_docstring(text_of(thing))) == {""}:  # how it differs, not how it is called
            again.append(f"[`{name}`]{place}}}\n\n:   {' '.join(said.split())}")
        else:
            done += [f"#### `{cls.name}.{name}` {place} .api}}\n\n{fence(signature(name, thing), '.python .signature')}", said]
    return "\n\n".join(done[: bool(parts)] + ["\n\n".join(["::: {.fields}", *again, ":::"])] * bool(again) + done[bool(parts) :])


def entry(module: str, name: str) -> str:
    """A name in full: heading, links, signature, docstring, methods."""
    thing = package()[module][name]
    head = f"### `{label(module, name)}` {{#{name} .api}}\n\n::: {{.api-links}}\n{links(module, name)}\n:::"
    if command(module, name):
        return f"{head}\n\n{command_help(module, name)}"
    if thing.is_attribute:
        value, comment = constant(module, name)
        return f"{head}\n\n{fence(f'{name} = {value}', '.python .signature')}\n\n{inline(comment, module)}"
    parts = [head, fence(signature(name, thing), ".python .signature"), documented(text_of(thing), module)]
    return "\n\n".join(parts + ([method_entries(module, thing)] if thing.is_class else []))


# --- pages ----------------------------------------------------------------------------------------


def table(module: str, names: list[str], page: str = "") -> str:
    """Names with one line each, for the page of the module or, if `page` is what that is called, for another one."""
    rows = [f"| [`{label(module, name)}`](#{name}) | {said_of(module, name)} |".replace("](#", f"]({page}#") for name in names]
    return "\n".join(["::: {.names}", "| | |" if page else "| name | what it is |", "|---|---|", *rows, ":::"])  # the index explains itself, and is long


def module_page(module: str) -> tuple[str, str, str]:
    """Title, subtitle and text of a module's page."""
    library, public = get_config().lib_name, package()[module].exports
    parents = package(), package()[module].parent, package()[module]
    place = next(parent.path for parent in parents if public[0] in (parent.exports or ()))
    imported = f"`{label(module, public[0])}` is installed with the package." if command(module, public[0]) else f"Every name on this page is imported like `from {place} import {public[0]}`. Shapes: N data points, D input columns, M inducing variables, S test inputs."
    top = f"Derived, with tests and pictures, on [the page of this module](../{homes()[module]}). {imported}"
    text = "\n\n".join([top, table(module, public), "## In full", *[entry(module, name) for name in public]])
    return f"{library}.{module}", text_of(package()[module]).strip(), text


def index_page() -> tuple[str, str, str]:
    """Title, subtitle and text of the list of all names."""
    parts = ["What a function does, what it takes and what it gives back. How the names came about is in the derivation, how they are used together in the tutorials and how-to pages."]
    for module in modules():
        parts.append(f"## [`{module}`]({module}.ipynb) {{#{module}}}\n\n{prose(text_of(package()[module]), '')}")
        parts.append(table(module, package()[module].exports, f"{module}.ipynb"))
    return "Reference", "Every public name of the package, with one line each.", "\n\n".join(parts)


def made(source: str):
    """The page `source` as a notebook that needs no more processing."""
    stem = source.removeprefix(f"{FOLDER}/").removesuffix(".ipynb")
    title, subtitle, text = index_page() if stem == "index" else module_page(stem)
    front = {"title": title, "description": subtitle, "output-file": f"{stem}.html", "order": sources().index(source)}
    head = "---\n" + "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in front.items()) + "---\n"
    cells = [{"cell_type": kind, "id": kind, "metadata": {}, "source": said} for kind, said in (("raw", head), ("markdown", text))]
    notebook = dict2nb({"cells": cells, "metadata": {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}, "nbformat": 4, "nbformat_minor": 5})
    notebook.frontmatter_, notebook.module_ = front, None if stem == "index" else stem
    return notebook
