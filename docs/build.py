"""Build the documentation site: `python -m docs.build [--no-quarto] [--out FOLDER]`.

With Quarto on the path, Quarto renders; without it, Pandoc and the template here do. Both read
the page list from `_quarto.yml` and the notebooks as `docs.notebook` leaves them.
"""
import argparse
import html
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pygments
import pygments.lexers
import pypandoc
import yaml
from execnb.nbio import nb2str
from nbdev.config import get_config
from nbdev.quarto import refresh_quarto_yml
from pygments.formatters import HtmlFormatter

from docs import reference
from docs.notebook import markdown, process, without_html
from docs.quarto import ROOT, STAGED

ASSETS = ("site.css", "frame.css", "site.js", "favicon.svg")
STYLES = ("site.css", "quarto.scss", "filter.lua", "favicon.svg")  # what Quarto is given


@dataclass(frozen=True)
class Page:
    """A notebook (path under `nbs/`), the page it becomes (path in the site), its title in the menu."""

    source: str
    target: str
    title: str

    @property
    def root(self) -> str:
        """The way from this page to the top of the site."""
        return "../" * self.target.count("/")


def read_config(root: Path) -> dict:
    """`_quarto.yml`, the one place that lists pages; the pages that it leaves to Quarto to find are those of the reference."""
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    for item in config["website"]["sidebar"]["contents"]:
        if item.get("contents") == [{"auto": f"{reference.FOLDER}/*.ipynb"}]:
            item["contents"] = [{"text": reference.menu_text(source), "href": source} for source in reference.sources()]
    return config


def listed(items: list) -> list[str]:
    """Every page named in a (nested) list of Quarto's navigation, in reading order."""
    found = []
    for item in items:
        if isinstance(item, str):
            found.append(item)
        else:
            found += [item["href"]] if "href" in item else []
            found += listed(item.get("contents", []))
    return found


def page_list(config: dict, nbs: Path, made: Sequence[str] = ()) -> list[str]:
    """The pages of the sidebar, after checking that they are the notebooks there are, or among those `made` of docstrings."""
    sidebar = listed(config["website"]["sidebar"]["contents"])
    named = set(sidebar + listed(config["website"].get("navbar", {}).get("left", [])))
    found = {p.relative_to(nbs).as_posix() for p in nbs.rglob("*.ipynb") if not re.search(r"(^|/)[._]", p.relative_to(nbs).as_posix())}
    if missing := sorted(named - found - set(made)):
        raise SystemExit(f"docs: _quarto.yml lists {', '.join(missing)}, but nbs/ has no such notebook.")
    if forgotten := sorted(found - set(sidebar)):
        raise SystemExit(f"docs: nbs/ has {', '.join(forgotten)}, but the sidebar of _quarto.yml does not list it.")
    return sidebar


def sidebar_html(items: list, pages: dict[str, Page], here: Page) -> str:
    """The menu as nested lists, sections folded but for the one of the page we are on, which is marked."""
    rows = []
    for item in items:
        if isinstance(item, dict) and "contents" in item:
            unfolded = " open" if here.source in listed(item["contents"]) else ""
            title, within = html.escape(item["section"]), sidebar_html(item["contents"], pages, here)
            rows.append(f'<li><details class="section"{unfolded}><summary>{title}</summary>{within}</details></li>')
            continue
        if isinstance(item, dict) and "href" not in item:  # the name of a part of the site, above its pages
            rows.append(f'<li class="part">{html.escape(item["text"])}</li>')
            continue
        page = pages[item if isinstance(item, str) else item["href"]]
        text = page.title if isinstance(item, str) else item.get("text", page.title)
        current = ' aria-current="page"' if page == here else ""
        rows.append(f'<li><a href="{here.root}{page.target}"{current}>{html.escape(text)}</a></li>')
    return f"<ul>{''.join(rows)}</ul>"


def steps_html(order: list[Page], here: Page) -> str:
    """Links to the page before and the page after."""
    at = order.index(here)
    before, after = order[max(at - 1, 0) : at], order[at + 1 : at + 2]
    links = [("prev", "Previous", page) for page in before] + [("next", "Next", page) for page in after]
    return "".join(
        f'<a rel="{rel}" href="{here.root}{page.target}"><small>{word}</small>{html.escape(page.title)}</a>' for rel, word, page in links
    )


def pandoc(text: str, page: Page, variables: dict[str, str], reader: str) -> str:
    """Markdown to a whole page. Any warning, such as a formula without MathML, ends the build."""
    here = Path(__file__).parent
    options = ["--mathml", "--toc", "--toc-depth=3", "--standalone", "--wrap=preserve", f"--template={here / 'template.html'}"]
    options += [f"--lua-filter={here / 'filter.lua'}", f"--from={reader}", "--to=html5", "--fail-if-warnings"]
    options += [f"--variable={name}={value}" for name, value in variables.items()]
    old = tuple(map(int, pypandoc.get_pandoc_version().split(".")[:2])) < (3, 8)
    options += ["--no-highlight" if old else "--syntax-highlighting=none"]
    command = [pypandoc.get_pandoc_path(), "+RTS", "-A64m", "-RTS", *options]  # more memory, a fifth less time
    done = subprocess.run(command, input=text, capture_output=True, check=False, encoding="utf-8")
    if done.returncode or done.stderr:
        raise SystemExit(f"docs: nbs/{page.source}: {done.stderr.strip()}")
    return done.stdout


def colour_code(text: str) -> str:
    """Colour the blocks of code. Pandoc could, but would take most of its time for that."""

    def block(match: re.Match) -> str:
        lexer = pygments.lexers.get_lexer_by_name(match[1], stripnl=False, ensurenl=False)
        code = pygments.highlight(html.unescape(match[3]), lexer, HtmlFormatter(nowrap=True)).rstrip("\n")
        return f'<div class="sourceCode"><pre class="{match[1]}{match[2]}"><code>{code}</code></pre></div>'

    return re.sub(r'<pre\s+class="(python|bash|matlab)([^"]*)"><code>(.*?)</code></pre>', block, text, flags=re.DOTALL)


def finish(text: str, page: Page, pages: dict[str, Page]) -> str:
    """Make links to notebooks and site-absolute links relative, and colour code."""

    def relative(match: re.Match) -> str:
        path, hash_, anchor = html.unescape(match[1]).partition("#")
        if path.startswith("/"):
            path = page.root + path.lstrip("/")
        source = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path))
        if source in pages:
            path = posixpath.relpath(pages[source].target, posixpath.dirname(page.target) or ".")
        return f'href="{html.escape(path + hash_ + anchor)}"'

    return colour_code(re.sub(r'href="([^"]*)"', relative, text))


def sections(text: str, page: Page) -> list[dict]:
    """For the search index, the text under each heading of a page; the line over what is folded stands for it."""
    main = text[text.index("<main") : text.index("</main>")]
    main = re.sub(r'<div class="(?:api-links|origin)">.*?</div>|<annotation.*?</annotation>|<a class="anchor".*?</a>|(?<=</summary>).*?</details>', "", main, flags=re.DOTALL)
    parts = re.split(r'<h[1-4](?=[\s>])(?:[^>]*?\sid="([^"]*)")?[^>]*>(.*?)</h[1-4]>', main, flags=re.DOTALL)[1:]
    plain = [" ".join(html.unescape(re.sub(r"<[^>]+>", "", part or "")).split()) for part in parts]
    return [
        {"href": page.target + f"#{anchor}" * bool(anchor), "title": page.title, "heading": heading, "text": said}
        for anchor, heading, said in zip(plain[::3], plain[1::3], plain[2::3], strict=True)
    ]


def processed(source: str, nbs: Path):
    """The notebook of a page: one of `nbs`, processed, or one made of docstrings."""
    return reference.made(source) if source.startswith(f"{reference.FOLDER}/") else process(nbs / source)


def load_pages(config: dict, nbs: Path) -> dict[Page, object]:
    """Every page of the sidebar with its processed notebook, in reading order."""
    loaded = {}
    for source in page_list(config, nbs, reference.sources()):
        notebook = processed(source, nbs)
        target = (Path(source).parent / notebook.frontmatter_["output-file"]).as_posix()
        title = re.sub(r"[`$*]", "", notebook.frontmatter_["title"])
        loaded[Page(source, target, title)] = notebook
    return loaded


def write_site(root: Path, out: Path) -> None:
    """Without Quarto: every page, its figures, the search index and the assets into `out`."""
    config = read_config(root)
    loaded = load_pages(config, root / "nbs")
    order, pages = list(loaded), {page.source: page for page in loaded}
    common = {"site": config["website"]["title"], "git_url": get_config().git_url}

    def write(page: Page) -> list[dict]:
        """One page; what the search index says of it."""
        target = out / page.target
        target.parent.mkdir(parents=True, exist_ok=True)
        variables = common | {
            "root": page.root,
            "sidebar": sidebar_html(config["website"]["sidebar"]["contents"], pages, page),
            "steps": steps_html(order, page),
        }
        variables |= {"home": "true"} if page.target == "index.html" else {}
        text = markdown(loaded[page], target.with_name(target.stem + "_files"))
        text = finish(pandoc(text, page, variables, config["format"]["html"]["from"]), page, pages)
        target.write_text(text, encoding="utf-8")
        return sections(text, page)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the work is in Pandoc, a process for each page
        entries = [entry for found in pool.map(write, order) for entry in found]
    (out / "search-index.js").write_text(f"window.searchIndex = {json.dumps(entries, ensure_ascii=False)};\n", encoding="utf-8")
    for name in ASSETS:
        shutil.copy(Path(__file__).parent / name, out / name)


def put(target: Path, text: str) -> None:
    """Write a file where that changes it: Quarto's preview renders what was written again."""
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def stage(root: Path, folder: Path) -> None:
    """The pages that Quarto renders into `folder`, processed notebooks and the reference, and the styles.

    A page that is older than what it is made of is made again; `folder/.made` keeps them, since nbdev writes over those in `folder`.
    """
    makers = [path for part in (root / "docs", root / "sparse_pep") for path in part.rglob("*.py")]
    newest = max(path.stat().st_mtime for path in [root / "_quarto.yml", *makers])
    for source in page_list(read_config(root), root / "nbs", reference.sources()):
        kept, notebook = folder / ".made" / source, root / "nbs" / source
        if not kept.exists() or kept.stat().st_mtime < max(newest, notebook.stat().st_mtime if notebook.exists() else 0.0):
            put(kept, nb2str(without_html(processed(source, root / "nbs"))))
            os.utime(kept)
        put(folder / source, kept.read_text(encoding="utf-8"))
    for name in STYLES:
        put(folder / name, (Path(__file__).parent / name).read_text(encoding="utf-8"))


def run_quarto(root: Path, out: Path) -> None:
    """With Quarto: the pages staged in `_proc/`, rendered there, the result moved to `out`."""
    refresh_quarto_yml()
    folder = root / "_proc"
    shutil.rmtree(folder, ignore_errors=True)
    stage(root, folder)
    for name in ("_quarto.yml", "nbdev.yml"):
        shutil.copy(root / "nbs" / name, folder / name)
    env = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]), STAGED: "1"}
    subprocess.run(["quarto", "render", "--no-cache"], cwd=folder, env=env, check=True)
    shutil.rmtree(out, ignore_errors=True)
    shutil.move(folder / "_docs", out)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m docs.build", description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "_docs", help="folder to write, replaced (default: _docs)")
    parser.add_argument("--no-quarto", action="store_true", help="use Pandoc even where there is a Quarto")
    parser.add_argument("--stage", type=Path, metavar="FOLDER", help="only put what Quarto renders into this folder, where it changes")
    args = parser.parse_args()
    out = args.out.resolve()
    os.chdir(ROOT)
    if args.stage:
        stage(ROOT, args.stage)
        return
    shutil.rmtree(out, ignore_errors=True)
    if shutil.which("quarto") and not args.no_quarto:
        run_quarto(ROOT, out)
    else:
        out.mkdir(parents=True)
        write_site(ROOT, out)
    print(f"docs: {sum(1 for _ in out.rglob('*.html'))} pages in {args.out}")


if __name__ == "__main__":
    main()
