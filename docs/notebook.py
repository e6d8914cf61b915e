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

import yaml
from execnb.nbio import mk_cell, read_nb
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup, _lineno
from nbdev.process import Processor
from nbdev.processors import FilterDefaults, _default_exp

from docs.paper_map import HEADING, anchor

OWN_PLACES = set(re.findall(r' id="([^"$]+)"', (Path(__file__).parent / "template.html").read_text(encoding="utf-8")))  # of the site itself
DROPPED = {"add_show_docs", "clean_show_doc", "exec_show_docs", "rm_export", "add_fold", "mv_exports"}  # nbdev's ways of documenting, hiding or moving exported code
LONG = {"helper": 8, "drawing": 4, "preparation": 4, "refusal": 4, "check": 14, "class": 40}  # lines from which code of a page that explains is folded


parsed = functools.cache(ast.parse)  # the same cells are asked several questions


def hide_marked(cell) -> None:
    """Remove cells marked `hide` or `default_exp`; nbdev's own step removes exported code as well."""
    if cell.directives_ and cell.directives_.keys() & {"hide", "default_exp"}:
        del cell["source"]


def definition(cell, name: str):
    """The syntax tree of the function or class `name` that a code cell defines."""
    return next(node for node in parsed(cell.source).body if getattr(node, "name", None) == name)


def definitions(code: str) -> list:
    """The functions and classes that a piece of code defines, those inside others included, from top to bottom."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return sorted((node for node in ast.walk(parsed(code)) if isinstance(node, kinds)), key=lambda node: node.lineno)


def first_paragraphs(code: str) -> str:
    """Definitions with their docstrings cut after the first paragraph: the reference shows all of it."""
    lines = code.split("\n")
    for node in reversed(definitions(code)):
        if "\n\n" in (ast.get_docstring(node) or ""):
            start, end = node.body[0].lineno - 1, node.body[0].end_lineno
            first = lines.index("", start)
            lines[start:end] = [*lines[start : first - 1], lines[first - 1] + lines[end - 1].strip()[-3:]]
    return "\n".join(lines)


def source_link(module: str, symbol: str) -> str:
    """Address of the line of the module's source where `symbol` is defined."""
    entry = NbdevLookup()[f"{module}.{symbol}"]
    if not entry:
        raise SystemExit(f"docs: {module}.{symbol} is not in nbdev's index: run `pip install -e .` and `nbdev_export`.")
    _, path, url = entry
    return f"{url}#L{_lineno(symbol, path)}"


def api_heading(cell, module: str, name: str) -> str:
    """Markdown that goes above a definition: its name, links to its source and reference, and its public methods."""
    node = definition(cell, name)
    parts = node.body if isinstance(node, ast.ClassDef) else []
    methods = dict.fromkeys(part.name for part in parts if isinstance(part, ast.FunctionDef) and part.name[0] != "_")  # overloads once
    links = [f"[`{m}`]({source_link(module, f'{name}.{m}')}){{#{name.lower()}.{m.lower()}}}" for m in methods]
    listed = " · methods " + ", ".join(links) if links else ""
    page = f"/reference/{module.removeprefix(get_config().lib_name + '.')}.ipynb#{name}"
    called = "" if name[0] == "_" else f" · [reference]({page})"
    return f"### `{name}` {{.api}}\n\n::: {{.api-links}}\n[source]({source_link(module, name)}){called}{listed}\n:::"


def anchors(cell, taken: set[str]) -> str:
    """Places that links to the functions, classes and methods of a cell lead to; those in `taken` are on the page already."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in parsed(cell.source).body if isinstance(node, functions | ast.ClassDef)]
    methods = [f"{node.name}.{part.name}" for node in nodes for part in node.body if isinstance(part, functions) and part.name[0] != "_"]
    places = [name for name in dict.fromkeys(name.lower() for name in [*(node.name for node in nodes), *methods]) if name not in taken]
    taken.update(places)
    return "```{=html}\n" + "".join(f'<span id="{place}"></span>' for place in places) + "\n```" if places else ""


def only_imports(cell) -> bool:
    """Whether a code cell consists of imports, perhaps those for type checkers alone, and of nothing else."""
    if cell.cell_type != "code" or cell.source.lstrip()[:1] in ("%", "!"):
        return False
    body = parsed(cell.source).body
    if len(body) == 1 and isinstance(body[0], ast.If) and ast.unparse(body[0].test) == "TYPE_CHECKING":
        body = [*body[0].body, *body[0].orelse]
    return bool(body) and all(isinstance(node, ast.Import | ast.ImportFrom) for node in body)


def sentence(node) -> str:
    """The first sentence of a definition's docstring, marks of Markdown made plain; nothing if it has none."""
    first = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
    first = re.split(r"(?<=[.:;])\s", first)[0].rstrip(".:;")
    return re.sub(r"([\\*_$<>\[\]^~@#\"'|])", r"\\\1", first) if "`" not in first else first


def defined(code: str) -> str:
    """What a piece of code defines, as a line of Markdown: a name with its docstring's first sentence, or names."""
    body = parsed(code).body
    nodes = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    if len(nodes) == 1 and (said := sentence(nodes[0])):
        return f"`{nodes[0].name}`: {said}"
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    targets += [node.target for node in body if isinstance(node, ast.AnnAssign)]
    assigned = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
    names = list(dict.fromkeys([node.name for node in nodes] or assigned))
    shown = [f"`{name}`" for name in names[:4]] + ["more"] * (len(names) > 4)
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def summary(cell) -> str:
    """What a cell of a lesson does, in one line."""
    _, code = options(cell.source)
    kind, said = purpose(code, cell.get("outputs", [])), defined(code)
    if kind == "drawing":
        checked = any(isinstance(node, ast.Assert) for node in ast.walk(parsed(code)))
        return "Code of the figure" + ", with checks of what it shows" * checked
    if kind == "refusal":
        return "Check of what is refused"
    if kind == "check":
        return "Check" + f", with {said.partition(': ')[0]}" * bool(said)
    return f"Preparation: {said}" if said else "Preparation"


def fold(cell, line: str) -> None:
    """Set Quarto's options for code that the reader unfolds, unless the author has."""
    if "code-fold" not in options(cell.source)[0]:
        cell.source = f"#| code-fold: true\n#| code-summary: {json.dumps(line, ensure_ascii=False)}\n{cell.source}"


def pieces(code: str, names: list[str]) -> list[str]:
    """A piece of code cut after each of the definitions `names` but the last, so that one heading stands over one of them."""
    lines = code.split("\n")
    ends = [node.end_lineno for node in parsed(code).body if getattr(node, "name", None) in names][:-1]
    return ["\n".join(lines[start:end]).strip("\n") for start, end in zip([0, *ends], [*ends, len(lines)], strict=True)]


def purpose(code: str, outputs: list) -> str:
    """What a cell of a lesson is for: drawing, refusal (wrong arguments, each in a `try`), preparation or check."""
    tree = list(ast.walk(parsed(code)))
    if any("image/png" in output.get("data", {}) for output in outputs):
        return "drawing"
    if any(isinstance(node, ast.Try) for node in tree):
        return "refusal"
    return "check" if outputs or any(isinstance(node, ast.Assert) for node in tree) else "preparation"


def long_lesson(cell) -> bool:
    """Whether a cell that is not exported serves another purpose than the argument of the page, at a length that hides it."""
    _, code = options(cell.source)
    if not code.strip() or code.lstrip()[0] in "%!":
        return False
    return code.count("\n") >= LONG[purpose(code, cell.get("outputs", []))]


class ApiCells(Processor):
    """Exported code stays on the page. Public names have a heading with links over their code, the docstring cut after its first
    paragraph; helpers have a place and are folded where they are long, and so are imports, preparations, drawings and long checks.
    """

    def begin(self) -> None:
        texts = [cell.source for cell in self.nb.cells if cell.cell_type == "markdown"]
        taken = OWN_PLACES | {anchor(match[1]) for text in texts for line in text.splitlines() if (match := HEADING.match(line))}
        marked = [(cell.directives_ or {}) if cell.cell_type == "code" and hasattr(cell, "directives_") else {} for cell in self.nb.cells]
        public = {
            id(cell): [node.name for node in cell.parsed_() if getattr(node, "name", "_")[0] != "_"]
            for cell, marks in zip(self.nb.cells, marked, strict=True)
            if "export" in marks
        }
        taken |= {name.lower() for names in public.values() for name in names}
        cells = []
        for cell, marks in zip(self.nb.cells, marked, strict=True):
            if names := public.get(id(cell)):
                cells += self.published(cell, names)
                continue
            if "exporti" in marks and (places := anchors(cell, taken)):
                cells.append(mk_cell(places, "markdown"))
            if self.nb.explains_ and cell.cell_type == "code" and not only_imports(cell):
                if "exporti" in marks and cell.source.count("\n") >= LONG["helper"]:
                    fold(cell, defined(cell.source))
                elif not {"export", "exporti"} & marks.keys() and long_lesson(cell):
                    fold(cell, summary(cell))
            cells.append(cell)
        self.nb.cells = list(self.with_imports_folded(cells))

    def published(self, cell, names: list[str]) -> Iterable:
        """The cells that stand for one with public definitions."""
        module = f"{get_config().lib_name}.{self.nb.module_}"
        for name, code in zip(names, pieces(cell.source, names), strict=True):
            piece = cell if name == names[-1] else mk_cell(code)
            piece.source = code
            yield mk_cell(api_heading(piece, module, name), "markdown")
            piece.source = first_paragraphs(code)
            if piece.source.count("\n") >= LONG["class"] and isinstance(definition(piece, name), ast.ClassDef):
                fold(piece, defined(piece.source))
            yield piece

    def with_imports_folded(self, cells: list) -> Iterable:
        """The cells, those of imports that follow each other as one."""
        for imports, run in groupby(cells, key=only_imports):
            first, *others = run
            if imports:
                first.source = "\n".join(cell.source for cell in (first, *others))
                fold(first, "Imports")
            yield from [first] if imports else [first, *others]


class Filter(FilterDefaults):
    """nbdev's processing, with exported code shown. The reference says what `show_doc` would, without running notebooks."""

    def base_procs(self) -> list:
        kept = [proc for proc in super().base_procs() if proc.__name__ not in DROPPED]
        links = next(i for i, proc in enumerate(kept) if proc.__name__ == "add_links")
        return kept[:links] + [hide_marked] + kept[links:] + [ApiCells]


def unnested(text: str) -> str:
    """Links of the author's own that have a name in back-ticks: nbdev puts a link into them, here taken out again."""
    return re.sub(r"\[([^\[\]]*)\[(`[^`]+`)\]\([^()\s]*\)([^\[\]]*)\]\(", r"[\1\2\3](", text)


def process(path: Path):
    """The notebook at `path` after nbdev: cells hidden, definitions given headings, back-tick names linked."""
    notebook = read_nb(path)
    title = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), "")
    if not title.startswith("# ") or re.search(r"^(?!# |> |\s*$)", title, flags=re.MULTILINE):
        raise SystemExit(f"docs: {path.name}: the first cell should be `# Title` and `> subtitle`; nbdev would drop anything else.")
    into = re.findall(r"^#\| export (\S+)", "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code"), flags=re.MULTILINE)
    notebook.module_ = next(iter(into), None) or _default_exp(notebook)  # the underscore: kept in memory, not written
    notebook.explains_ = bool(notebook.module_) or re.match(r"\d\d|power_ep|errata", path.name) is not None
    Filter()(notebook)
    for number, cell in enumerate(notebook.cells):
        cell.source = unnested(cell.source) if cell.cell_type == "markdown" else cell.source
        cell.id = f"cell-{number}"  # those of cells that nbdev makes are random
    return notebook


def fence(text: str, attributes: str) -> str:
    """A fenced code block that no run of back-ticks in `text` can close."""
    ticks = "`" * max([3] + [len(run) + 1 for run in re.findall("`+", text)])
    return f"{ticks} {{{attributes}}}\n{text.rstrip()}\n{ticks}\n"


def options(source: str) -> tuple[dict, str]:
    """Split a code cell into its `#| key: value` options and the code."""
    lines = source.splitlines()
    marked = [line for line in lines if line.startswith("#|")]
    return yaml.safe_load("\n".join(line[2:].strip() for line in marked)) or {}, "\n".join(
        line for line in lines if not line.startswith("#|")
    )


def figure(png: str, option: dict, files: Path, number: int, place: int) -> str:
    """Write a PNG output, the `place`-th of its cell, as a file of `files`; Markdown that shows it at its own size."""
    data = base64.b64decode(png)
    width, height = struct.unpack(">II", data[16:24])
    files.mkdir(parents=True, exist_ok=True)
    target = files / f"figure-{number}.png"
    target.write_bytes(data)
    caption = option.get("fig-cap", "")
    alt = option.get("fig-alt") or caption
    alt = alt[place] if isinstance(alt, list) else alt
    if not alt:
        raise SystemExit(f"docs: {files.name}: figure {number} needs a line `#| fig-alt: what is seen` at the top of its cell.")
    label = f"#{option['label']} " if "label" in option else ""
    alt = re.sub(r"[\"\\`$]", "", alt)
    return f'![{caption}]({files.name}/{target.name}){{{label}alt="{alt}" width={width} height={height}}}\n'


def html_block(output) -> str:
    """An HTML output as a block of Markdown that scrolls; styles are left to the site, and its headings are none of the page."""
    table = re.sub(r"<style.*?</style>", "", "".join(output["data"]["text/html"]), flags=re.DOTALL)
    table = re.sub(r"(</?)h[1-4]\b", r"\1h5", table)
    return f'```{{=html}}\n<div class="table-box" tabindex="0">{table}</div>\n```\n'


def without_html(notebook):
    """The notebook with HTML outputs as Markdown: for others Quarto loads jQuery and RequireJS from the network."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}) and "image/png" not in output["data"]:
                output["data"] = {"text/markdown": html_block(output)}
    return notebook


def output_markdown(output, option: dict, files: Path, number: int, place: int) -> str:
    """One output of a code cell as Markdown; the richest form that a static page can show."""
    if output.output_type == "stream":
        return fence("".join(output["text"]), f".output .{output['name']}")
    if output.output_type == "error":
        return fence(f"{output['ename']}: {output['evalue']}", ".output .stderr")
    data = {kind: "".join(value) for kind, value in output["data"].items()}
    if "image/png" in data:
        return figure(data["image/png"], option, files, number, place)
    if "text/markdown" in data:
        return data["text/markdown"] + "\n"
    if "text/html" in data:
        return html_block(output)
    if "text/plain" not in data:
        raise SystemExit(f"docs: cannot show an output of type {sorted(data)}")
    return fence(data["text/plain"], ".output")


def markdown(notebook, files: Path) -> str:
    """The page as one Markdown text; figures are written into the folder `files`."""
    parts, number = [], 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            parts.append(cell.source + "\n")
            continue
        option, code = options(cell.source)
        if option.get("include") is False:
            continue
        if option.get("echo") is not False and code.strip():
            folded = f" code-fold=true code-summary={json.dumps(option.get('code-summary', 'Code'), ensure_ascii=False)}" if option.get("code-fold") else ""
            parts.append(fence(code, f".python{folded}"))
        for place, output in enumerate([] if option.get("output") is False else cell.get("outputs", [])):
            number += 1
            shown = output_markdown(output, option, files, number, place)
            parts.append(shown if option.get("output") == "asis" else f":::: {{.cell-output}}\n{shown}\n::::\n")
    return "\n".join(parts)
