"""From a notebook to Pandoc's Markdown, by way of nbdev."""

import ast
import base64
import functools
import json
import re
import struct
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import griffe
import yaml
from execnb.nbio import mk_cell, read_nb
from nbdev.config import get_config
from nbdev.process import NBProcessor, Processor
from nbdev.processors import FilterDefaults, _default_exp

from docs.paper_map import HEADING, anchor, equations

LONG = 3  # lines from which the code of a page that explains is folded
# a link of the author's own that has a name in back-ticks: nbdev puts a link into it
NESTED = re.compile(r"\[([^\[\]]*)\[(`[^`]+`)\]\([^()\s]*\)([^\[\]]*)\]\(")
DEFINING = ast.FunctionDef | ast.ClassDef

parsed = functools.cache(ast.parse)  # the same cells are asked several questions


@functools.cache
def package() -> griffe.Module:
    """The package as griffe reads it."""
    return griffe.load(get_config().lib_name, search_paths=[get_config().config_path])


def source_link(module: str, symbol: str) -> str:
    """Address of the line of the module's source where `symbol` is defined."""
    config = get_config()
    path = f"{config.lib_path.name}/{module.replace('.', '/')}.py"
    line = package()[module][symbol].lineno
    return f"{config.git_url}/blob/{config.branch}/{path}#L{line}"


def api_heading(node: ast.stmt, module: str) -> str:
    """Markdown that goes above a definition: its name, and links to its source and reference."""
    links = f"[source]({source_link(module, node.name)}) · "
    links += f"[reference](/reference/{module}.ipynb#{node.name})"
    return f"### `{node.name}` {{.api}}\n\n::: {{.api-links}}\n{links}\n:::"


def anchors(code: str, taken: set[str]) -> str:
    """Places that links to the functions, classes and methods of a cell lead to; those in
    `taken` are on the page already.
    """
    names = []
    for node in [node for node in parsed(code).body if isinstance(node, DEFINING)]:
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        public = [part.name for part in methods if part.name[0] != "_"]
        names += [node.name, *(f"{node.name}.{name}" for name in public)]
    places = dict.fromkeys(name.lower() for name in names if name.lower() not in taken)
    taken.update(places)
    spans = "".join(f'<span id="{place}"></span>' for place in places)
    return f"```{{=html}}\n{spans}\n```" if places else ""


def only_imports(cell) -> bool:
    """Whether a code cell consists of imports, perhaps those for type checkers alone, and of
    nothing else.
    """
    if cell.cell_type != "code" or cell.source.lstrip()[:1] in ("%", "!"):
        return False
    statements = [node for node in ast.walk(parsed(cell.source)) if isinstance(node, ast.stmt)]
    return bool(statements) and all(
        isinstance(node, ast.Import | ast.ImportFrom | ast.If) for node in statements
    )


def first_sentence(node: ast.stmt) -> str:
    """The first sentence of a docstring as Markdown, or nothing."""
    paragraph = (ast.get_docstring(node) or "").partition("\n\n")[0]
    sentence = re.split(r"(?<=[.:;])\s", " ".join(paragraph.split()))[0].rstrip(".:;")
    if "`" in sentence:
        return sentence
    return re.sub(r"([\\*_$<>\[\]^~@#\"'|])", r"\\\1", sentence)


def summary(code: str) -> str:
    """The line over folded code: the names that it defines, one of them with the first sentence
    of its docstring.
    """
    nodes = [node for node in parsed(code).body if isinstance(node, DEFINING)]
    names = ", ".join(f"`{node.name}`" for node in nodes)
    sentence = first_sentence(nodes[0]) if len(nodes) == 1 else ""
    return ": ".join(filter(None, [names, sentence])) or "Code"


def fold(cell, line: str) -> None:
    """Set Quarto's options for code that the reader unfolds, unless the author has."""
    if "code-fold" not in options(cell.source)[0]:
        said = json.dumps(line, ensure_ascii=False)
        cell.source = f"#| code-fold: true\n#| code-summary: {said}\n{cell.source}"


def marks_of(cell) -> dict:
    """nbdev's directives of a cell."""
    return getattr(cell, "directives_", None) or {}


def public_nodes(cell) -> list[ast.stmt]:
    """The public definitions that a cell exports."""
    if "export" not in marks_of(cell):
        return []
    return [node for node in cell.parsed_() if getattr(node, "name", "_")[0] != "_"]


def is_long(cell) -> bool:
    """Whether a cell is Python that hides the argument of a page that explains."""
    if cell.cell_type != "code" or only_imports(cell) or cell.source.lstrip()[:1] in ("%", "!"):
        return False
    return len(options(cell.source)[1].splitlines()) >= LONG


class ApiCells(Processor):
    """Exported code stays on the page. Public names have a heading with links over their code, and
    helpers have a place. Long code is folded, and so are imports.
    """

    def begin(self) -> None:
        """Put headings and places above definitions, and fold what hides the argument."""
        taken = self.heading_anchors()
        for cell in self.nb.cells:
            taken |= {node.name.lower() for node in public_nodes(cell)}
        cells = []
        for cell in self.nb.cells:
            marks = marks_of(cell)
            if "default_exp" in marks:
                continue
            headings = [api_heading(node, self.nb.module_) for node in public_nodes(cell)]
            if {"export", "exporti"} & marks.keys():
                headings.append(anchors(cell.source, taken))
            cells += [mk_cell(text, "markdown") for text in filter(None, headings)]
            if self.nb.explains_ and is_long(cell):
                fold(cell, summary(cell.source))
            cells.append(cell)
        self.nb.cells = list(self.with_imports_folded(cells))

    def heading_anchors(self) -> set[str]:
        """The anchors of the headings of the page."""
        texts = [cell.source for cell in self.nb.cells if cell.cell_type == "markdown"]
        headings = [HEADING.match(line) for text in texts for line in text.splitlines()]
        return {anchor(heading[1]) for heading in headings if heading}

    def with_imports_folded(self, cells: list) -> Iterable:
        """The cells, those of imports that follow each other as one."""
        for imports, run in groupby(cells, key=only_imports):
            first, *others = run
            if imports:
                first.source = "\n".join(cell.source for cell in (first, *others))
                fold(first, "Imports")
            yield from [first] if imports else [first, *others]


def numbered(text: str, page: str, known: dict[str, tuple[str, str]]) -> str:
    """Markdown of a page with the numbers of its equations in their labels, for the filter, and
    references to equations as links.
    """

    def link(label: str) -> str:
        place, number = known[label]
        return f"[({number})]({f'/{place}' * (place != page)}#{label})"

    try:
        text = re.sub(
            r"(?<=\{#)(eq-[\w-]*\w)(?=\})", lambda match: f"{match[0]}={known[match[0]][1]}", text
        )
        return re.sub(r"(?<![\w`])@(eq-[\w-]*\w)", lambda match: link(match[1]), text)
    except KeyError as label:
        raise SystemExit(
            f"docs: {page}: reference to @{label.args[0]}, which no page defines"
        ) from None


def origin(page: str, module: str | None) -> str:
    """Links to a page's notebook and, where it exports one, to its module."""
    config = get_config()
    base = f"{config.git_url}/blob/{config.branch}"
    links = [
        f"[notebook]({base}/{config.nbs_path.name}/{page})",
        f'[download this notebook](/notebooks/{page}){{download=""}}',
    ]
    if module:
        file = f"{config.lib_path.name}/{module.replace('.', '/')}.py"
        links.append(f"[module `{config.lib_name}.{module}`]({base}/{file})")
    return f"::: {{.origin}}\nSource: {' · '.join(links)}\n:::"


def picture_first(cells: list) -> list:
    """The cells of a page of the gallery, opened by its first figure, without the code."""
    figures = [cell for cell in cells if any(map(is_figure, cell.get("outputs", [])))]
    opening = next(n for n, cell in enumerate(cells) if cell.cell_type == "code")
    drawn = figures[0]
    described = re.findall(r"^#\| fig-.*\n", drawn.source, flags=re.MULTILINE)
    picture = mk_cell("#| echo: false\n" + "".join(described))
    picture.outputs = [output for output in drawn.outputs if is_figure(output)]
    drawn.outputs = [output for output in drawn.outputs if not is_figure(output)]
    return [*cells[:opening], picture, *cells[opening:]]


def is_figure(output) -> bool:
    """Whether an output of a cell is a picture."""
    return "image/png" in output.get("data", {})


def check_title(notebook, name: str) -> None:
    """Stop unless the first cell of text is a title and a subtitle."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    title = texts[0] if texts else ""
    if not title.startswith("# ") or re.search(r"^(?!# |> |\s*$)", title, flags=re.MULTILINE):
        raise SystemExit(
            f"docs: {name}: the first cell should be `# Title` and `> subtitle`; "
            "nbdev would drop anything else."
        )


def process(path: Path):
    """The notebook at `path` after nbdev: cells hidden, definitions given headings, back-tick
    names linked, equations numbered.
    """
    notebook = read_nb(path)
    nbs = get_config().nbs_path
    check_title(notebook, path.name)
    # the underscore: kept in memory, not written
    notebook.module_ = _default_exp(notebook)
    notebook.explains_ = notebook.module_ or re.match(r"\d\d|power_ep|errata", path.name)
    NBProcessor(nb=notebook, procs=[*FilterDefaults().procs(), ApiCells]).process()
    page = path.relative_to(nbs).as_posix()
    if page.startswith("gallery/") and path.stem != "index":
        notebook.cells = picture_first(notebook.cells)
    notebook.cells.insert(1, mk_cell(origin(page, notebook.module_), "markdown"))
    known = equations(nbs)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # those of cells that nbdev makes are random
        if cell.cell_type == "markdown":
            cell.source = numbered(NESTED.sub(r"[\1\2\3](", cell.source), page, known)
        for output in cell.get("outputs", []):
            text = as_markdown(output.get("data", {}))
            if text:
                output["data"] = {"text/markdown": numbered(text, page, known)}
    return notebook


def fence(text: str, attributes: str) -> str:
    """A fenced code block that no run of back-ticks in `text` can close."""
    ticks = "`" * max([3] + [len(run) + 1 for run in re.findall("`+", text)])
    return f"{ticks} {{{attributes}}}\n{text.rstrip()}\n{ticks}\n"


def options(source: str) -> tuple[dict, str]:
    """Split a code cell into its `#| key: value` options and the code."""
    lines = source.splitlines()
    marked = "\n".join(line[2:].strip() for line in lines if line.startswith("#|"))
    return yaml.safe_load(marked) or {}, "\n".join(
        line for line in lines if not line.startswith("#|")
    )


def figure(png: str, option: dict, files: Path, number: int, place: int) -> str:
    """Write a PNG output, the `place`-th of its cell, as a file of `files`; Markdown that shows
    it at its own size.
    """
    data = base64.b64decode(png)
    width, height = struct.unpack(">II", data[16:24])
    files.mkdir(parents=True, exist_ok=True)
    (files / f"figure-{number}.png").write_bytes(data)
    alt = option.get("fig-alt", "")
    alt = re.sub(r"[\"\\`$]", "", alt[place] if isinstance(alt, list) else alt)
    if not alt:
        raise SystemExit(
            f"docs: {files.name}: figure {number} needs a line `#| fig-alt: what is seen` "
            "at the top of its cell."
        )
    return f'![]({files.name}/figure-{number}.png){{alt="{alt}" width={width} height={height}}}\n'


def as_markdown(data: dict) -> str:
    """An output of a cell as Markdown if it is that or HTML, which Quarto would load scripts for
    from the network.

    HTML is put into a block that scrolls; styles are left to the site, and its headings are none of
    the page.
    """
    if "image/png" in data or "text/html" not in data:
        return "".join(data.get("text/markdown", ""))
    table = re.sub(r"<style.*?</style>", "", "".join(data["text/html"]), flags=re.DOTALL)
    table = re.sub(r"(</?)h[1-4]\b", r"\1h5", table)
    return f'```{{=html}}\n<div class="table-box" tabindex="0">{table}</div>\n```\n'


def output_markdown(output, option: dict, files: Path, number: int, place: int) -> str:
    """One output of a code cell as Markdown."""
    if output.output_type == "stream":
        return fence("".join(output["text"]), f".output .{output['name']}")
    data = {kind: "".join(value) for kind, value in output["data"].items()}
    if "image/png" in data:
        return figure(data["image/png"], option, files, number, place)
    return (
        data["text/markdown"] + "\n"
        if "text/markdown" in data
        else fence(data["text/plain"], ".output")
    )


def code_markdown(option: dict, code: str) -> str:
    """The code of a cell as Markdown, which the reader unfolds where its options say so."""
    shown = fence(code, ".python")
    if not option.get("code-fold"):
        return shown
    line = option.get("code-summary", "Code")
    return f'<details class="folded"><summary>{line}</summary>\n\n{shown}\n\n</details>\n'


def markdown(notebook, files: Path) -> str:
    """The page as one Markdown text; figures are written into the folder `files`."""
    parts = []
    number = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            parts.append(cell.source + "\n")
            continue
        option, code = options(cell.source)
        if option.get("echo") is not False and code.strip():
            parts.append(code_markdown(option, code))
        for place, output in enumerate(cell.get("outputs", [])):
            number += 1
            shown = output_markdown(output, option, files, number, place)
            if option.get("output") != "asis":
                shown = f":::: {{.cell-output}}\n{shown}\n::::\n"
            parts.append(shown)
    return "\n".join(parts)
