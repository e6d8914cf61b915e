"""The site that `python -m docs.build` writes, read as files: links, anchors, search, structure."""

import ast
import base64
import html
import json
import posixpath
import re
import shlex
import struct
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest

pytest.importorskip("nbdev", reason="the site is built with the development dependencies")
pytest.importorskip("pypandoc", reason="the site is built with the development dependencies")


from docs.build import STYLES, finish, listed, page_list, pandoc, read_config, sidebar_html, stage
from docs.build import Page as SitePage
from docs.notebook import as_markdown, markdown, numbered, only_imports, process

ROOT = Path(__file__).resolve().parent.parent

VOID = set("area base br col embed hr img input link meta source track wbr".split())


class Document(HTMLParser):
    """What the tests want to know of a page: its tags with attributes, and whether tags are
    closed in order.
    """

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.open = []
        self.unbalanced = []
        self.words = Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif tag not in VOID:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        self.words.update({self.open[-1] if self.open else "": len(data.strip())})

    def ids(self):
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="session")
def documents(site):
    """Every page of the site, parsed, by its path."""
    return {
        p.relative_to(site).as_posix(): Document(p.read_text("utf-8")) for p in site.rglob("*.html")
    }


def internal_links(page, document):
    """(link, target path, anchor) for every link and source of a page that stays on this site."""
    for _, attributes in document.tags:
        for link in (attributes.get("href"), attributes.get("src")):
            if link and not link.startswith(("http:", "https:", "data:", "mailto:")):
                path, _, anchor = link.partition("#")
                target = (
                    posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(path)))
                    if path
                    else page
                )
                yield link, target, unquote(anchor)


def test_every_listed_page_is_there(documents):
    sources = listed(read_config(ROOT)["website"]["sidebar"]["contents"])
    assert len(documents) == len(sources) == len(set(sources))
    assert {"index.html", "about/notation.html"} <= set(documents)
    steps = Counter(
        attributes.get("rel") for document in documents.values() for _, attributes in document.tags
    )
    assert steps["prev"] == steps["next"] == len(documents) - 1


def test_links_and_anchors_resolve_wherever_the_site_is_served(site, documents):
    broken = []
    for page, document in documents.items():
        for link, target, anchor in internal_links(page, document):
            if (
                link.startswith("/")
                or not (site / target).is_file()
                or (anchor and anchor not in documents[target].ids())
            ):
                broken.append(f"{page}: {link}")
    assert not broken, "\n".join(broken)


def test_every_page_of_a_notebook_offers_it_and_all_are_listed_for_language_models(site):
    lines = (site / "llms.txt").read_text("utf-8").splitlines()
    listed_pages = [re.fullmatch(r"- \[(.+?)\]\((\S+)\): (.+)", line) for line in lines[6:]]
    assert all(listed_pages)
    assert {match[2] for match in listed_pages} == {
        page.relative_to(site).as_posix() for page in site.rglob("*.html")
    }
    for page in (ROOT / "nbs").rglob("[a-z0-9]*.ipynb"):
        name = page.relative_to(ROOT / "nbs")
        assert (site / "notebooks" / name).read_bytes() == page.read_bytes()
    text = (site / "internals" / "numerics" / "linalg.html").read_text("utf-8")
    assert 'href="../../notebooks/internals/numerics/linalg.ipynb" download=""' in text


def test_pages_are_well_formed(documents):
    for page, document in documents.items():
        count = Counter(tag for tag, _ in document.tags)
        assert count["h1"] == count["title"] == count["main"] == 1, page
        assert document.words["h1"] * document.words["title"] > 0, page
        assert ("html", {"lang": "en"}) in document.tags, page
        assert not document.open, (
            f"{page}: not closed: {document.open}; closed but not open: {document.unbalanced}"
        )
        assert not document.unbalanced, (
            f"{page}: not closed: {document.open}; closed but not open: {document.unbalanced}"
        )
        doubled = [name for name, times in Counter(document.ids()).items() if times > 1]
        assert not doubled, f"{page}: ids used twice: {doubled}"


def test_images_say_what_they_show(documents):
    images = [
        (page, attributes)
        for page, document in documents.items()
        for tag, attributes in document.tags
        if tag == "img"
    ]
    assert images
    for page, attributes in images:
        assert attributes.get("alt", "").strip(), f"{page}: {attributes['src']}"
        # what is loaded later must not move the text
        assert (
            attributes["src"].startswith("data:")
            or int(attributes["width"]) * int(attributes["height"]) > 0
        )


def test_search_index_points_at_anchors(site, documents):
    text = (site / "search-index.js").read_text("utf-8")
    entries = json.loads(text.removeprefix("window.searchIndex = ").rstrip().removesuffix(";"))
    for entry in entries:
        page, _, anchor = entry["href"].partition("#")
        assert page in documents
        assert not anchor or anchor in documents[page].ids(), entry["href"]
        assert entry["heading"], entry["href"]
    found = {entry["href"] for entry in entries}
    assert found >= set(documents)
    assert found >= {
        "internals/numerics/linalg.html#log1p_ratio",
        "reference/numerics.linalg.html#log1p_ratio",
        "reference/kernels.base.html#Kernel.diag",
    }
    assert not any(
        "source" in entry["text"][:40] and "Derived" in entry["text"] for entry in entries
    ), "links were taken for text"


def exported_names():
    """nbdev's index: module, name within it, and where it is documented."""
    from sparse_pep._modidx import d as index

    return [
        (module, name.removeprefix(f"{module}."), target)
        for module, names in index["syms"].items()
        for name, (target, _) in names.items()
    ]


def test_every_exported_name_has_its_anchor(documents):
    names = [
        target
        for _, name, target in exported_names()
        if not any(part.startswith("_") for part in name.split("."))
    ]
    assert len(names) > 500
    for target in names:
        page, anchor = target.split("#")
        assert anchor in documents[page].ids(), target


def test_every_public_name_has_a_link_to_its_source(documents):
    links = {
        attributes["href"]
        for document in documents.values()
        for _, attributes in document.tags
        if ".py#L" in attributes.get("href", "")
    }
    assert all(link.rpartition("#L")[2].isdigit() for link in links)
    public = [
        module for module, name, _ in exported_names() if name in import_module(module).__all__
    ]
    assert len(public) > 100
    for module, number in Counter(public).items():
        file = f"{module.replace('.', '/')}.py"
        assert sum(f"/{file}#L" in link for link in links) >= number, module


STAGED = ["15_surrogate.ipynb", "index.ipynb", "reference/index.ipynb", "reference/sites.ipynb"]


def contents(folder):
    """The bytes of each file of a folder."""
    paths = (path for path in folder.rglob("*.*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_staging_again_writes_only_what_changed(tmp_path, monkeypatch):
    """One edited page is one rendered page: nbdev writes it anew, and staging brings ours back
    and writes no other.
    """
    monkeypatch.setattr("docs.build.page_list", lambda *_: STAGED)
    stage(tmp_path)
    staged = contents(tmp_path)
    kept = {f"notebooks/{page}" for page in STAGED if not page.startswith("reference/")}
    assert set(staged) == {*STAGED, *STYLES, *kept, "llms.txt"}
    (tmp_path / "index.ipynb").write_text("as nbdev makes it")
    times = {name: (tmp_path / name).stat().st_mtime_ns for name in staged}
    stage(tmp_path)
    assert contents(tmp_path) == staged
    written = [name for name in times if (tmp_path / name).stat().st_mtime_ns != times[name]]
    assert written == ["index.ipynb"]


def test_nbdev_itself_processes_every_notebook(tmp_path):
    """What `nbdev_docs` and `nbdev_preview` do before they call Quarto."""
    for name in ("settings.ini", "nbs", "sparse_pep"):
        (tmp_path / name).symlink_to(ROOT / name)
    subprocess.run(
        [sys.executable, "-c", "import nbdev.serve; nbdev.serve.proc_nbs(n_workers=0)"],
        cwd=tmp_path,
        check=True,
    )
    assert len(list((tmp_path / "_proc").rglob("*.ipynb"))) == len(
        list((ROOT / "nbs").rglob("*.ipynb"))
    )


def test_listed_pages_exist_and_notebooks_are_listed(tmp_path):
    config = {
        "website": {
            "sidebar": {
                "contents": ["index.ipynb", {"section": "More", "contents": ["01_a.ipynb"]}]
            }
        }
    }
    (tmp_path / "index.ipynb").write_text("{}", "utf-8")
    with pytest.raises(SystemExit, match=r"in nbs/: 01_a\.ipynb"):
        page_list(config, tmp_path)
    for name in ("01_a.ipynb", "02_forgotten.ipynb", "_draft.ipynb"):
        (tmp_path / name).write_text("{}", "utf-8")
    with pytest.raises(SystemExit, match=r"in nbs/: 02_forgotten\.ipynb"):
        page_list(config, tmp_path)
    (tmp_path / "02_forgotten.ipynb").unlink()
    assert page_list(config, tmp_path) == ["index.ipynb", "01_a.ipynb"]


@pytest.mark.parametrize("source", ["# Title\n\n> Subtitle.\n\nAnd more.", "> Subtitle only."])
def test_nothing_is_lost_from_the_title_cell(tmp_path, source):
    """nbdev turns the first cell into title and subtitle, and drops what else is in it."""
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": source}
    path = tmp_path / "x.ipynb"
    path.write_text(
        json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
        encoding="utf-8",
    )
    with pytest.raises(SystemExit, match=r"x\.ipynb: the first cell"):
        process(path)


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", 30, 20)).decode()
DRAWN = {"output_type": "display_data", "data": {"image/png": PNG, "text/plain": "<Figure>"}}


def shown(source, *outputs, folder=Path("none")):
    """The Markdown of a notebook with a heading and one code cell."""
    from fastcore.utils import dict2obj

    cells = [
        {"cell_type": "markdown", "source": "## A `name` here"},
        {"cell_type": "code", "source": source, "outputs": list(outputs)},
    ]
    return markdown(dict2obj({"cells": cells}), folder)


def test_figures_take_their_description_from_their_options(tmp_path):
    page = shown(
        '#| fig-alt: ["A line", "A \\"dot\\""]\nplot()', DRAWN, DRAWN, folder=tmp_path / "x_files"
    )
    assert '![](x_files/figure-1.png){alt="A line" width=30 height=20}' in page
    assert 'alt="A dot"' in page
    assert (tmp_path / "x_files" / "figure-1.png").read_bytes() == base64.b64decode(PNG)
    with pytest.raises(SystemExit, match="x_files: figure 1 needs"):
        shown("plot()", DRAWN, folder=tmp_path / "x_files")


def test_outputs_show_their_richest_static_form():
    table = {
        "text/html": "<style scoped>td {}</style><table><tr><td>1</td></tr></table>",
        "text/plain": "1",
    }
    assert (
        as_markdown(table) == '```{=html}\n<div class="table-box" '
        'tabindex="0"><table><tr><td>1</td></tr></table></div>\n```\n'
    )
    assert as_markdown(DRAWN["data"] | table) == ""
    assert as_markdown({"text/plain": "1"}) == ""
    assert "*said*" in shown(
        "x",
        {"output_type": "execute_result", "data": {"text/markdown": ["*said*"], "text/plain": "1"}},
    )


def test_code_is_coloured_and_stays_what_it_is():
    code = 'def f(x):\n    """A < b."""\n    return "a" if x else 1.5  # why\n'
    page = finish(
        render(f"``` {{.python .signature}}\n{code}```"), SitePage("x.ipynb", "x.html", "T"), {}
    )
    block = re.search(
        r'<pre class="python signature"><code>(.*?)</code></pre>', page, flags=re.DOTALL
    )[1]
    assert html.unescape(re.sub(r"<[^>]+>", "", block)) == code.rstrip("\n")
    for kind, text in (("k", "def"), ("sd", '"""A &lt; b."""'), ("mf", "1.5"), ("c1", "# why")):
        assert f'<span class="{kind}">{text}</span>' in block


def render(text):
    """A page of one piece of Markdown, as the build would render it."""
    reader = read_config(ROOT)["format"]["html"]["from"]
    return pandoc(
        f"---\ntitle: T\n---\n\n{text}\n",
        SitePage("x.ipynb", "x.html", "T"),
        {"site": "s", "root": ""},
        reader,
    )


@pytest.mark.parametrize("text", [r"$\undefinedmacro{x}$", "$$\\frac{1}{$$"])
def test_a_formula_without_mathml_ends_the_build(text):
    with pytest.raises(SystemExit, match=r"nbs/x\.ipynb.*TeX math"):
        render(text)


def test_equations_are_numbered():
    known = {"eq-a": ("x.ipynb", "5.1"), "eq-b": ("x.ipynb", "5.2"), "eq-c": ("07_c.ipynb", "7.1")}
    page = render(
        numbered("As in @eq-b and @eq-c.\n\n$$x$$ {#eq-a}\n\n$$y$$ {#eq-b}", "x.ipynb", known)
    )
    for link in (
        '<a href="#eq-b">(5.2)</a>',
        '<a href="/07_c.ipynb#eq-c">(7.1)</a>',
        '<span class="eq-number">(5.2)</span>',
    ):
        assert link in page
    assert set(Document(page).ids()) >= {"eq-a", "eq-b"}
    for text in ("@eq-missing", "$$x$$ {#eq-missing}"):
        with pytest.raises(SystemExit, match=r"x\.ipynb: reference to @eq-missing"):
            numbered(text, "x.ipynb", known)


def test_letters_stand_in_columns():
    for title in ("Letters of this page", "Others"):
        assert (
            '<div class="letters">' in render(f"**{title}.** The letters.\n\n- $x$ is one.\n")
        ) == (title != "Others")


def test_links_are_made_relative_also_from_a_folder():
    deep = SitePage("studies/01_a.ipynb", "studies/a.html", "A")
    pages = {
        page.source: page
        for page in (
            deep,
            SitePage("00_b.ipynb", "b.html", "B"),
            SitePage("studies/02_c.ipynb", "studies/c.html", "C"),
        )
    }
    given = {
        "../00_b.ipynb#x": "../b.html#x",
        "02_c.ipynb": "c.html",
        "/b.html#y": "../b.html#y",
        "#z": "#z",
        "https://x.org/a.ipynb": None,
    }
    for link, wanted in given.items():
        assert finish(f'<a href="{link}">', deep, pages) == f'<a href="{wanted or link}">'
    menu = [
        {"section": "One", "contents": ["studies/01_a.ipynb"]},
        {"section": "Two", "contents": ["00_b.ipynb"]},
    ]
    assert re.findall(r"<details[^>]*>", sidebar_html(menu, pages, deep)) == [
        '<details class="section" open>',
        '<details class="section">',
    ]
    assert (
        sidebar_html(["00_b.ipynb"], pages, deep) == '<ul><li><a href="../b.html">B</a></li></ul>'
    )
    assert sidebar_html([{"text": "Use"}], pages, deep) == '<ul><li class="part">Use</li></ul>'
    assert 'aria-current="page"' in sidebar_html(["studies/01_a.ipynb"], pages, deep)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "nbs").rglob("*.ipynb")), ids=lambda path: path.stem
)
def test_notebooks_are_notebooks_and_exported_imports_stand_alone(path):
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["metadata"] == {
        "kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}
    }
    assert not any("jupytext" in "".join(cell["source"]) for cell in notebook["cells"])
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if source.startswith("#| export"):
            kinds = {
                isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(source).body
            }
            assert len(kinds) <= 1, source
            if source.startswith("#| export\nif TYPE_CHECKING:") and "else:" not in source:
                assert only_imports(SimpleNamespace(cell_type="code", source=source))


@pytest.mark.parametrize(
    "pages",
    [
        "gallery/*",
        "tutorials/*",
        "howto/*",
        "studies/*",
        "0*",
        "1*",
        "2*",
        "about/*",
        "power*",
    ],
)
def test_pages_show_numbers_and_hide_their_checks(pages):
    paths = (ROOT / "nbs").glob(f"{pages}.ipynb")
    pages = [path for path in paths if not path.stem.startswith("when_")]
    assert pages
    for path in pages:
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and not re.match(r"#\| (hide|export)|[%!]", source):
                nodes = [
                    ast.unparse(node)[:80]
                    for node in ast.walk(ast.parse(source))
                    if isinstance(node, ast.Assert) or "assert_" in getattr(node, "attr", "")
                ]
                assert not nodes, (
                    f"{path.stem}: a check belongs into a cell of its own that begins "
                    f"with `#| hide`: {nodes}"
                )


def test_imports_and_code_that_is_not_the_argument_are_folded(documents):
    folded = {
        page
        for page, document in documents.items()
        if ("details", {"class": "folded"}) in document.tags
    }
    assert {
        "regression.html",
        "power_ep_in_one_page.html",
        "internals/plots.html",
        "gallery/counts.html",
    } <= folded


def test_quarto_has_its_pages_staged_by_the_python_of_the_project(tmp_path):
    """The command that Quarto splits at spaces outside double quotes and runs in `_proc/`."""
    python = tmp_path / ".venv" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$PWD" "$@"')
    python.chmod(0o755)
    (tmp_path / "_proc").mkdir()
    command = shlex.split(read_config(ROOT)["project"]["pre-render"])
    said = subprocess.check_output(command, cwd=tmp_path / "_proc", text=True)
    assert said == f"{tmp_path} -m docs.build --stage _proc\n"


def test_formulas_use_commands_that_both_pandocs_convert():
    """Pandoc 3.6, which Quarto 1.7 brings, does not convert \\bigl and its kind; \\left and
    \\right do what they do.
    """
    for path in (ROOT / "nbs").rglob("*.ipynb"):
        prose = [
            "".join(cell["source"])
            for cell in json.loads(path.read_text("utf-8"))["cells"]
            if cell["cell_type"] == "markdown"
        ]
        assert not re.findall(
            r"\\[bB]igg?[lrm]?(?![A-Za-z]).*",
            re.sub(r"```.*?```|`[^`]*`", "", "\n".join(prose), flags=re.DOTALL),
        ), path.name
