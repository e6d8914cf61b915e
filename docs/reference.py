"""The reference pages: one for each module, made from its docstrings, and an index of all names.

They are notebooks that exist in memory only, so that Quarto and Pandoc read them as they read the others.
"""
import ast
import dataclasses
import doctest
import functools
import importlib
import inspect
import json
import re
import textwrap

import click
from execnb.nbio import dict2nb
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup

from docs.notebook import fence
from docs.paper_map import HEADING, anchor

FOLDER = "reference"

SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "Notes", "References", "Examples", "See Also")
LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns")


@functools.cache
def homes() -> dict[str, str]:
    """The notebook that each module is exported from, or the first of several."""
    found = {}
    for name, (page, _) in sections_of_derivations().items():
        found.setdefault(name.rpartition(".")[0], page)
    return found


@functools.cache
def modules() -> list[str]:
    """The modules with public names: those of the package's own first, in its order, then in the order of their pages on the site."""
    config = get_config()
    menu = re.findall(r"[\w/]+\.ipynb", (config.config_path / "_quarto.yml").read_text(encoding="utf-8"))
    package = importlib.import_module(config.lib_name)
    first = list(dict.fromkeys(getattr(package, name).__module__ for name in package.__all__))
    found = [module for module in homes() if loaded(module).__all__]
    place = {name.removeprefix(f"{config.lib_name}."): i for i, name in enumerate(first)}
    return sorted(found, key=lambda module: (place.get(module, len(place)), menu.index(homes()[module])))


def sources() -> list[str]:
    """The pages, in their order."""
    return [f"{FOLDER}/index.ipynb"] + [f"{FOLDER}/{name}.ipynb" for name in modules()]


def menu_text(source: str) -> str:
    """What the menu calls a page."""
    stem = source.removeprefix(f"{FOLDER}/").removesuffix(".ipynb")
    return "All names" if stem == "index" else stem


nbdev_index = functools.cache(NbdevLookup)


@functools.cache
def loaded(module: str):
    """A module of the package, imported."""
    return importlib.import_module(f"{get_config().lib_name}.{module}")


# --- docstrings ---------------------------------------------------------------------------------


def parse_docstring(text: str) -> dict[str, str]:
    """The text before the first section, under "", and the sections of a numpydoc docstring by name."""
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n-{{3,}}\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return {"": parts[0].strip()} | {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def entries(body: str) -> list[tuple[str, str]]:
    """(head, text) of each item of a section: a line at the margin, and what is indented below it."""
    found = []
    for line in body.splitlines():
        if line[:1].strip():
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return [(head, inspect.cleandoc("\n".join(lines))) for head, lines in found]


def summary(thing) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(parse_docstring(inspect.getdoc(thing))[""].partition("\n\n")[0].split())


def target_of(word: str, module: str) -> str | None:
    """Where the reference defines a name that a docstring of `module` has in back-ticks."""
    if not module:
        return None
    word = word.partition("(")[0].removeprefix(f"{get_config().lib_name}.")
    for other in modules():  # by the whole name of the module, or its last part
        for called in (other, other.rpartition(".")[2]):
            name = word.removeprefix(f"{called}.").partition(".")[0]
            if word.startswith(f"{called}.") and name in loaded(other).__all__:
                return f"{other}.ipynb#{name}"
    first = word.partition(".")[0]
    places = [other for other in [module, *modules()] if first in loaded(other).__all__]
    if places and (places[0] == module or re.match("[A-Z].*[a-z]", first)):
        return f"{'' if places[0] == module else places[0] + '.ipynb'}#{first}"
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


def definitions(section: str, body: str, module: str, own: tuple[str, ...]) -> str:
    """A section that is a list, as a definition list of Pandoc."""
    rows = []
    for head, text in entries(body):
        name, colon, kind = head.partition(" : ")
        if not colon and section in ("Returns", "Yields"):
            name, kind = "", head
        term = ", ".join(f"`{word}`" for word in name.split(", ")) if name else ""
        said = f"[{inline(kind, module, own)}]{{.kind}}" if kind else ""
        rows.append(f"{' '.join(filter(None, [term, said]))}\n\n:   " + textwrap.indent(prose(text, module, own) or "[]{}", "    ").lstrip())
    return "::: {.fields}\n" + "\n\n".join(rows) + "\n:::"


def examples(body: str) -> str:
    """Doctests as the notebooks show code: what is typed, then what it prints."""
    parts, typed = [], []

    def flush(printed: str = "") -> None:
        if typed:
            parts.append(fence("".join(typed), ".python"))
            typed.clear()
        if printed:
            parts.append(f":::: {{.cell-output}}\n{fence(printed, '.output')}\n::::\n")

    for piece in doctest.DocTestParser().parse(body):
        if isinstance(piece, str):
            if piece.strip():
                flush()
                parts.append(prose(piece.strip(), ""))
            continue
        typed.append(re.sub(r"\s*# doctest:.*", "", piece.source))
        if piece.want or piece.exc_msg:
            flush(piece.want)
    flush()
    return "\n".join(parts)


MANY = 12  # names on a page; if there are more, what does not say how to call them is folded
ALWAYS = ("Parameters", "Attributes", "Returns", "Yields")


def documented(text: str, module: str) -> str:
    """A docstring as Markdown."""
    sections = parse_docstring(text)
    fields = [head.partition(" : ")[0] for part in ("Parameters", "Attributes") for head, _ in entries(sections.get(part, ""))]
    own = tuple(name for field in fields for name in field.split(", "))
    done, folded = [prose(sections.pop(""), module, own)], {}
    for name, body in sections.items():
        shown = examples(body) if name == "Examples" else definitions(name, body, module, own) if name in LISTS else prose(body, module, own)
        if name in ALWAYS or len(loaded(module).__all__) <= MANY:
            done.append(f"[{name}]{{.part}}\n\n{shown}")
        else:
            folded[name] = shown
    if folded:
        said = ", ".join(folded)
        within = (f"[{name}]{{.part}}\n\n{shown}" if len(folded) > 1 else shown for name, shown in folded.items())
        done += [f'<details class="folded"><summary>{said}</summary>', *within, "</details>"]
    return "\n\n".join(filter(None, done))


# --- signatures -----------------------------------------------------------------------------------


@functools.cache
def trees(module: str) -> dict[str, ast.stmt]:
    """The syntax trees of a module's functions, classes and methods by qualified name, from one reading of its source."""
    found, left = {}, [("", ast.parse(inspect.getsource(importlib.import_module(module))))]
    for prefix, parent in left:
        for node in parent.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found[prefix + node.name] = node
                left += [(f"{prefix}{node.name}.", node)] if isinstance(node, ast.ClassDef) else []
    return found


def tree(thing):
    """The syntax tree of a function's or a class's definition."""
    thing = inspect.unwrap(thing)
    if "<locals>" in thing.__qualname__:  # a function that another one made
        return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    return trees(thing.__module__)[thing.__qualname__]


def fields_of(cls: type) -> dict[str, str]:
    """What the fields of a class are declared to be, as they are written, those of its bases included."""
    found = {}
    for base in [base for base in cls.__mro__[::-1] if base.__module__.startswith(get_config().lib_name)]:
        found |= {node.target.id: ast.unparse(node.annotation) for node in tree(base).body if isinstance(node, ast.AnnAssign)}
    return found


def arguments(node: ast.FunctionDef, bound: bool) -> list[str]:
    """The arguments of a definition as they are written, one text each; without `self`."""
    a = node.args
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults

    def one(arg: ast.arg, default, star: str = "") -> str:
        kind = f": {ast.unparse(arg.annotation)}" if arg.annotation else ""
        return star + arg.arg + kind + (f"{' = ' if kind else '='}{ast.unparse(default)}" if default is not None else "")

    done = [one(arg, default) for arg, default in zip(plain, defaults, strict=True)][1 if bound else 0 :]
    done += [one(a.vararg, None, "*")] if a.vararg else ["*"] if a.kwonlyargs else []
    done += [one(arg, default) for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    return done + ([one(a.kwarg, None, "**")] if a.kwarg else [])


def class_arguments(cls: type) -> list[str]:
    """The arguments that make an object of a class: those of its `__init__`, or its fields."""
    maker = inspect.getattr_static(cls, "__init__")
    if not (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):
        return arguments(tree(maker), True) if inspect.isfunction(maker) else []
    kinds = fields_of(cls)
    given = inspect.signature(cls).parameters.values()
    return [
        f"{p.name}: {kinds.get(p.name, 'object')}" + ("" if p.default is p.empty else f" = {p.default!r}" if p.default is None or isinstance(p.default, bool | int | float | str | tuple) else " = …")
        for p in given
    ]


def signature(name: str, thing, bound: bool = False) -> str:
    """How to call a function or a class, wrapped to the width of a page."""
    if isinstance(thing, property | functools.cached_property):
        getter = tree(thing.fget if isinstance(thing, property) else thing.func)
        return f"{name}: {ast.unparse(getter.returns) if getter.returns else 'object'}"
    node = None if inspect.isclass(thing) else tree(thing)
    given = class_arguments(thing) if node is None else arguments(node, bound)
    back = f" -> {ast.unparse(node.returns)}" if node is not None and node.returns else ""
    line = f"{name}({', '.join(given)}){back}"
    return line if len(line) <= 86 else f"{name}(\n" + "".join(f"    {one},\n" for one in given) + f"){back}"


# --- pages ----------------------------------------------------------------------------------------


def defined_by(node: ast.stmt) -> list[str]:
    """The names that a statement defines: a function, a class, or what is assigned to."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]


@functools.cache
def sections_of_derivations() -> dict[str, tuple[str, str]]:
    """(page, heading) of the section of a notebook that exports each name, under `module.name`."""
    found, folder = {}, get_config().nbs_path
    for path in sorted(folder.rglob("*.ipynb")):
        module, page, heading = None, path.relative_to(folder).as_posix(), ""
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                heads = [match[1] for line in text.splitlines() if line.startswith("##") and (match := HEADING.match(line))]
                heading = heads[-1] if heads else heading
            elif match := re.match(r"#\|\s*default_exp\s+(\S+)", text):
                module = match[1]
            elif match := re.match(r"#\|\s*exporti?[ \t]*(\S*)", text):  # perhaps into the module of another page
                for name in [name for node in ast.parse(text).body for name in defined_by(node)]:
                    found.setdefault(f"{match[1] or module}.{name}", (page, heading))
    return found


@functools.cache
def defined_in(module: str) -> dict[str, ast.stmt]:
    """The statement that defines each name of a module."""
    return {name: node for node in ast.parse(inspect.getsource(loaded(module))).body[::-1] for name in defined_by(node)}


def links(module: str, name: str) -> str:
    """Where a name is derived, and where its source is."""
    config, parts = get_config(), []
    page, heading = sections_of_derivations().get(f"{module}.{name}", ("", ""))
    if page:
        known = nbdev_index()[f"{config.lib_name}.{module}.{name}"]
        place = known[0].rpartition("#")[2] if known else anchor(heading)
        shown = re.sub(r"[\[\]`]", "", heading) or "the page of this module"
        parts.append(f"Derived in [{shown}](../{page}{f'#{place}' * bool(place)})")
    path = f"{config.lib_path.name}/{module.replace('.', '/')}.py"
    node = defined_in(module).get(name)
    parts.append(f"[source]({config.git_url}/blob/{config.branch}/{path}{f'#L{node.lineno}' if node else ''})")
    return " · ".join(parts)


def constant(module: str, name: str) -> tuple[str, str]:
    """The value of a constant as it is written, and the comment beside it."""
    node = defined_in(module).get(name)
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return "", ""
    value = ast.unparse(node.value)
    line = inspect.getsource(loaded(module)).splitlines()[node.end_lineno - 1]
    return value if len(value) <= 60 else value[:59] + "…", line.partition("  # ")[2]


def is_command(thing) -> bool:
    """Whether a name of a module is a command of the command line."""
    return isinstance(thing, click.Command)


def said_of(module: str, name: str) -> str:
    """One line about a name."""
    thing = getattr(loaded(module), name)
    if is_command(thing):
        return inline(thing.get_short_help_str(200), module)
    if inspect.isfunction(thing) or inspect.isclass(thing):
        return inline(summary(thing), module, (name,))
    return inline(constant(module, name)[1], module)


def method_entries(module: str, cls: type) -> str:
    """Methods that a class defines with a docstring of their own, in full; the names of the others, by whose they are.

    On long pages, methods that a base class on this site has too, and documents, take a line each.
    """
    full, others, again = [], {}, set()
    for base in [base for base in cls.__mro__ if base.__module__.startswith(get_config().lib_name)]:
        listed = base is not cls and base.__name__ in importlib.import_module(base.__module__).__all__
        for name, thing in vars(base).items():
            inner = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
            kinds = (property, functools.cached_property)
            if name[0] == "_" and name != "__call__" or not (inspect.isfunction(inner) or isinstance(inner, kinds)):
                continue
            if any(name in seen for seen in others.values()) or any(name == seen for seen, _ in full):
                again |= {name} if listed and (inner.__doc__ or "").strip() else set()
                continue
            if (inner.__doc__ or "").strip() and not listed:
                full.append((name, inner))
            elif (inner.__doc__ or "").strip():
                others.setdefault(base, []).append(name)
    done, inherits, short = [], [], []
    for name, inner in full:
        if name in again and len(loaded(module).__all__) > MANY and set(parse_docstring(inner.__doc__)) == {""}:
            short.append(f"[`{name}`]{{#{cls.__name__}.{name}}}\n\n:   {' '.join(documented(inner.__doc__, module).split())}")
            continue
        bound = not isinstance(inspect.getattr_static(cls, name), staticmethod)
        done.append(f"#### `{cls.__name__}.{name}` {{#{cls.__name__}.{name} .api}}\n\n{fence(signature(name, inner, bound), '.python .signature')}")
        done.append(documented(inner.__doc__, module))
    for base, inherited in others.items():
        owner = base.__module__.removeprefix(f"{get_config().lib_name}.")
        page = "" if owner == module else f"{owner}.ipynb"
        said = ", ".join(f"[`{name}`]({page}#{base.__name__}.{name})" for name in inherited)
        inherits.append(f"[`{base.__name__}`]({page}#{base.__name__}): {said}")
    first = [f"::: {{.inherited}}\nAs in {'; as in '.join(inherits)}.\n:::"] * bool(inherits)
    first += ["\n\n".join(["::: {.fields}", *short, ":::"])] * bool(short)
    return "\n\n".join(first + done)


def label(module: str, name: str) -> str:
    """What a name is called where it is used: commands as they are typed."""
    thing = getattr(loaded(module), name)
    command = get_config().lib_name.replace("_", "-")
    return name if not is_command(thing) else command if hasattr(thing, "commands") else f"{command} {thing.name}"


def command_help(module: str, name: str) -> str:
    """What a command says about itself."""
    wide = {"terminal_width": 88, "max_content_width": 88}
    helped = loaded(module).main.context_settings["help_option_names"]
    context = click.Context(getattr(loaded(module), name), info_name=label(module, name), help_option_names=helped, **wide)
    return fence(context.get_help(), ".text")


def entry(module: str, name: str) -> str:
    """A name in full: heading, links, signature, docstring, methods."""
    thing = getattr(loaded(module), name)
    head = f"### `{label(module, name)}` {{#{name} .api}}\n\n::: {{.api-links}}\n{links(module, name)}\n:::"
    if is_command(thing):
        return f"{head}\n\n{command_help(module, name)}"
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        value, comment = constant(module, name)
        return f"{head}\n\n{fence(f'{name} = {value}', '.python .signature')}\n\n{inline(comment, module)}"
    parts = [head, fence(signature(name, thing), ".python .signature"), documented(thing.__doc__, module)]
    return "\n\n".join(parts + ([method_entries(module, thing)] if inspect.isclass(thing) else []))


def table(module: str, listed: list[str], page: str = "") -> str:
    """Names with one line each, for the page of the module or, if `page` is what that is called, for another one."""
    rows = [f"| [`{label(module, name)}`](#{name}) | {said_of(module, name)} |".replace("](#", f"]({page}#") for name in listed]
    head = "| | |" if page else "| name | what it is |"  # the index explains itself, and is long
    return "\n".join(["::: {.names}", head, "|---|---|", *rows, ":::"])


def module_page(module: str) -> tuple[str, str, str]:
    """Title, subtitle and text of a module's page."""
    library, public = get_config().lib_name, loaded(module).__all__
    said = f"Derived, with tests and pictures, on [the page of this module](../{homes()[module]}). "
    parents = library, f"{library}.{module}".rpartition(".")[0], f"{library}.{module}"
    place = next(name for name in parents if public[0] in getattr(importlib.import_module(name), "__all__", ()))
    top = f"{said}Every name on this page is imported like `from {place} import {public[0]}`. Shapes: N data points, D input columns, M inducing variables, S test inputs."
    if is_command(getattr(loaded(module), public[0])):
        top = f"{said}`{label(module, public[0])}` is installed with the package."
    parts = [top, table(module, public), "## In full", *[entry(module, name) for name in public]]
    return f"{library}.{module}", (loaded(module).__doc__ or "").strip(), "\n\n".join(parts)


def index_page() -> tuple[str, str, str]:
    """Title, subtitle and text of the list of all names."""
    parts = ["What a function does, what it takes and what it gives back. How the names came about is in the derivation, how they are used together in the tutorials and how-to pages."]
    for module in modules():
        page = f"{module}.ipynb"
        parts.append(f"## [`{module}`]({page}) {{#{module}}}\n\n{prose(loaded(module).__doc__ or '', '')}")
        parts.append(table(module, loaded(module).__all__, page))
    return "Reference", "Every public name of the package, with one line each.", "\n\n".join(parts)


def made(source: str):
    """The page `source` as a notebook that needs no more processing."""
    stem = source.removeprefix(f"{FOLDER}/").removesuffix(".ipynb")
    title, subtitle, text = index_page() if stem == "index" else module_page(stem)
    front = {"title": title, "description": subtitle, "output-file": f"{stem}.html", "order": sources().index(source)}
    head = "---\n" + "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in front.items()) + "---\n"
    cells = [
        {"cell_type": "raw", "id": "front", "metadata": {}, "source": head},
        {"cell_type": "markdown", "id": "text", "metadata": {}, "source": text},
    ]
    notebook = dict2nb({"cells": cells, "metadata": {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}, "nbformat": 4, "nbformat_minor": 5})
    notebook.frontmatter_, notebook.module_ = front, None if stem == "index" else stem
    return notebook
