"""The documentation site where there is no Quarto: `python -m docs.build [--out FOLDER]`.
 Pandoc and the template here render the notebooks as `docs.notebook` leaves them, in the order of
`_quarto.yml`. `stage` gives the same notebooks to Quarto, for `nbdev_docs` and `nbdev_preview`.
"""

import argparse
import html
import json
import os
import posixpath
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pygments
import pygments.lexers
import pypandoc
import yaml
from execnb.nbio import nb2str
from nbdev.config import get_config
from pygments.formatters import HtmlFormatter

from docs import reference
from docs.notebook import markdown, process

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ASSETS = ("site.css", "frame.css", "site.js", "power.js", "favicon.svg")
STYLES = ("site.css", "quarto.scss", "filter.lua", "favicon.svg", "power.js")


@dataclass(eq=False)
class Page:
    """A notebook (path under `nbs/`), the page it becomes (path in the site), its title in the
    menu, and the notebook when it is processed.
    """

    source: str
    target: str
    title: str
    notebook: object = None

    @property
    def root(self) -> str:
        """The way from this page to the top of the site."""
        return "../" * self.target.count("/")


def read_config(root: Path) -> dict:
    """`_quarto.yml`, the one place that lists pages; the pages that it leaves to Quarto to find
    are those of the reference.
    """
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    for item in config["website"]["sidebar"]["contents"]:
        if item.get("contents") == [{"auto": f"{reference.FOLDER}/*.ipynb"}]:
            item["contents"] = [
                {"text": Path(source).stem.replace("index", "All names"), "href": source}
                for source in reference.sources()
            ]
    return config


def listed(items: list) -> list[str]:
    """Every page named in a (nested) list of Quarto's navigation, in reading order."""
    named = (
        [item]
        if isinstance(item, str)
        else [item["href"]]
        if "href" in item
        else listed(item.get("contents", []))
        for item in items
    )
    return sum(named, [])


def page_list(config: dict, nbs: Path, made: tuple[str, ...] = ()) -> list[str]:
    """The pages of the sidebar, after checking that they are the notebooks there are, or among
    those `made` of docstrings.
    """
    sidebar = listed(config["website"]["sidebar"]["contents"])
    found = {
        p.relative_to(nbs).as_posix()
        for p in nbs.rglob("*.ipynb")
        if not re.search(r"(^|/)[._]", p.relative_to(nbs).as_posix())
    }
    if wrong := sorted(found.union(made).symmetric_difference(sidebar)):
        raise SystemExit(
            f"docs: not both in the sidebar of _quarto.yml and in nbs/: {', '.join(wrong)}."
        )
    return sidebar


def sidebar_html(items: list, pages: dict[str, Page], here: Page) -> str:
    """The menu as nested lists, sections folded but for the one of the page we are on, which is
    marked.
    """
    rows = []
    for item in [{"href": item} if isinstance(item, str) else item for item in items]:
        text = html.escape(item.get("text") or item.get("section") or pages[item["href"]].title)
        if "contents" in item:
            unfolded = " open" * (here.source in listed(item["contents"]))
            within = sidebar_html(item["contents"], pages, here)
            rows.append(
                "<li><details "
                f'class="section"{unfolded}><summary>{text}</summary>{within}</details></li>'
            )
        elif "href" in item:
            page = pages[item["href"]]
            current = ' aria-current="page"' * (page == here)
            rows.append(f'<li><a href="{here.root}{page.target}"{current}>{text}</a></li>')
        else:  # the name of a part of the site, above its pages
            rows.append(f'<li class="part">{text}</li>')
    return f"<ul>{''.join(rows)}</ul>"


def pandoc(text: str, page: Page, variables: dict[str, str], reader: str) -> str:
    """Markdown to a whole page. Any warning, such as a formula without MathML, ends the build."""
    options = "--mathml --toc --standalone --wrap=preserve --syntax-highlighting=none".split()
    options += [
        "--fail-if-warnings",
        "+RTS",
        "-A64m",
        "-RTS",
    ]  # the memory saves a fifth of the time
    options += [f"--template={HERE / 'template.html'}", f"--lua-filter={HERE / 'filter.lua'}"]
    options += [f"--variable={name}={value}" for name, value in variables.items()]
    try:
        return pypandoc.convert_text(text, "html5", reader, extra_args=options, verify_format=False)
    except RuntimeError as error:
        raise SystemExit(f"docs: nbs/{page.source}: {error}") from None


def finish(text: str, page: Page, pages: dict[str, Page]) -> str:
    """Make links to notebooks and site-absolute links relative, and colour code: Pandoc could,
    but would take most of its time for that.
    """

    def relative(match: re.Match) -> str:
        path, hash_, anchor = html.unescape(match[1]).partition("#")
        path = page.root + path.lstrip("/") if path.startswith("/") else path
        source = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path))
        if source in pages:
            path = posixpath.relpath(pages[source].target, posixpath.dirname(page.target) or ".")
        return f'href="{html.escape(path + hash_ + anchor)}"'

    def coloured(match: re.Match) -> str:
        language, classes, code = match.groups()
        lexer = pygments.lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
        code = pygments.highlight(html.unescape(code), lexer, HtmlFormatter(nowrap=True))
        start = f'<div class="sourceCode"><pre class="{language}{classes}"><code>'
        return start + code.rstrip("\n") + "</code></pre></div>"

    text = re.sub(r'href="([^"]*)"', relative, text)
    return re.sub(
        r'<pre\s+class="(python|pycon|bash|matlab)([^"]*)"><code>(.*?)</code></pre>',
        coloured,
        text,
        flags=re.DOTALL,
    )


def sections(text: str, page: Page) -> list[dict]:
    """For the search index, the text under each heading of a page; the line over what is folded
    stands for it.
    """
    main = text[text.index("<main") : text.index("</main>")]
    main = re.sub(
        r'<div class="(?:api-links|origin)">.*?</div>|<annotation.*?</annotation>|'
        r'<a class="anchor".*?</a>|(?<=</summary>).*?</details>',
        "",
        main,
        flags=re.DOTALL,
    )
    parts = re.split(
        r'<h[1-4](?=[\s>])(?:[^>]*?\sid="([^"]*)")?[^>]*>(.*?)</h[1-4]>', main, flags=re.DOTALL
    )[1:]
    code = [" ".join(re.findall(r"<pre.*?</pre>", said, flags=re.DOTALL)) for said in parts[2::3]]
    prose = [re.sub(r"<pre.*?</pre>", " ", said, flags=re.DOTALL) for said in parts[2::3]]
    anchors = [anchor or "" for anchor in parts[::3]]
    return [
        {
            "href": page.target + f"#{anchor}" * bool(anchor),
            "title": page.title,
            "heading": plain(heading),
            "text": plain(said),
            "code": plain(shown),
        }
        for anchor, heading, said, shown in zip(anchors, parts[1::3], prose, code, strict=True)
    ]


def plain(markup: str) -> str:
    """The text of some HTML, on one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


def load(config: dict) -> list[Page]:
    """The pages of the sidebar: processed notebooks of `nbs`, and those made of docstrings."""
    nbs = ROOT / "nbs"
    made = reference.sources()
    pages = []
    for source in page_list(config, nbs, made):
        notebook = reference.made(source) if source in made else process(nbs / source)
        target = (Path(source).parent / notebook.frontmatter_["output-file"]).as_posix()
        title = re.sub(r"[`$*]", "", notebook.frontmatter_["title"])
        pages.append(Page(source, target, title, notebook))
    return pages


def write_for_readers(config: dict, pages: list[Page], out: Path) -> None:
    """The notebooks, to be downloaded, and `llms.txt`, the titles and subtitles of all pages."""
    site = config["website"]
    lines = [f"# {site['title']}", "", f"> {site['description']}", "", "## Pages", ""]
    for page in pages:
        front = page.notebook.frontmatter_
        lines.append(f"- [{front['title']}]({page.target}): {front['description']}")
        notebook = ROOT / "nbs" / page.source
        if notebook.exists():
            put(out / "notebooks" / page.source, notebook.read_text(encoding="utf-8"))
    put(out / "llms.txt", "\n".join(lines) + "\n")


def neighbours(pages: list[Page], page: Page) -> dict[str, str]:
    """The template's variables for the start page, and for the pages before and after this one."""
    at = pages.index(page)
    variables = {"home": page.target} if at == 0 else {}
    for step, others in (("prev", pages[:at][-1:]), ("next", pages[at + 1 :][:1])):
        for other in others:
            variables |= {step: other.target, f"{step}-title": html.escape(other.title)}
    return variables


def write_page(page: Page, pages: list[Page], config: dict, out: Path) -> list[dict]:
    """A page and its figures; its sections for the search index."""
    target = out / page.target
    target.parent.mkdir(parents=True, exist_ok=True)
    site = config["website"]
    named = {page.source: page for page in pages}
    variables = {
        "site": site["title"],
        "git_url": get_config().git_url,
        "root": page.root,
        "sidebar": sidebar_html(site["sidebar"]["contents"], named, page),
    }
    text = markdown(page.notebook, target.with_name(target.stem + "_files"))
    reader = config["format"]["html"]["from"]
    text = pandoc(text, page, variables | neighbours(pages, page), reader)
    text = finish(text, page, named)
    target.write_text(text, encoding="utf-8")
    return sections(text, page)


def write_site(out: Path) -> None:
    """Every page, its figures, the search index and the assets into `out`."""
    config = read_config(ROOT)
    pages = load(config)
    # the work is in Pandoc, a process for each page
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        entries = sum(pool.map(lambda page: write_page(page, pages, config, out), pages), [])
    index = f"window.searchIndex = {json.dumps(entries, ensure_ascii=False)};\n"
    put(out / "search-index.js", index)
    write_for_readers(config, pages, out)
    for name in ASSETS:
        shutil.copy(HERE / name, out / name)


def put(target: Path, text: str) -> None:
    """Write a file where that changes it: Quarto's preview renders what was written again."""
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def stage(folder: Path) -> None:
    """The pages that Quarto renders in `folder`, processed notebooks and the reference, and the
    styles: nbdev leaves its own pages there, and calls Quarto, which calls this first.
    """
    config = read_config(ROOT)
    pages = load(config)
    write_for_readers(config, pages, folder)
    for page in pages:
        put(folder / page.source, nb2str(page.notebook))
    for name in STYLES:
        put(folder / name, (HERE / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m docs.build", description="Build the documentation site."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "_docs",
        help="folder to write, replaced (default: _docs)",
    )
    parser.add_argument(
        "--stage", type=Path, metavar="FOLDER", help="only put pages here for Quarto"
    )
    args = parser.parse_args()
    if args.stage:
        stage(args.stage)
    else:
        shutil.rmtree(args.out, ignore_errors=True)
        args.out.mkdir(parents=True)
        write_site(args.out)
        print(f"docs: {sum(1 for _ in args.out.rglob('*.html'))} pages in {args.out}")
