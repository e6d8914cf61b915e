"""The site in a real browser: formulas and figures drawn, search, menu, focus, contrast, no
network, nothing too wide for a phone.
 Headless Chromium opens a page with one frame, which visits the pages of the site one after the
other, measures each as wide as a desk and then as narrow as a phone, and leaves what it found in
its own text. Every page is seen as a file in the light scheme. For what the template and the style
sheet decide, one page of each folder stands for the others: colours, focus, and the site as served
from a folder of a web server in the dark scheme. Skipped where there is no Chromium.
"""

import functools
import json
import posixpath
import re
import shutil
import subprocess
import threading
from contextlib import contextmanager, nullcontext
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from javascript import CHROMIUM, FLAGS, title_of

pypandoc = pytest.importorskip(
    "pypandoc", reason="the site is built with the development dependencies"
)
pytest.importorskip("nbdev", reason="the site is built with the development dependencies")

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

PROBE = Path(__file__).with_name("probe.js").read_text("utf-8")
WORDS = [
    "log1p_ratio",
    "notation",
    "cavity mean",
    "zzzqqq",
    "cavity zzzqqq",
    "GaussianBlur",
    "predict_proba",
    "load_regression",
]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *args):
        pass


# A page as Quarto makes it, as far as it decides how ours looks: class names, rules that ours must
# win against, hard cases.
QUARTO = Path(__file__).with_name("quarto.html").read_text("utf-8")
FORMULA = " + ".join(f"\\mathbf K_{{{n}}}^{{-1}}\\log p(y_{{{n}}})" for n in range(6))
LONG_NAME = "log_marginal_likelihood_gradient" * 3
HARD = f"""The class
`sparse_pep.estimators.regressor.SparsePEPRegressor.{LONG_NAME}` and ${FORMULA}$.

$$ {FORMULA * 4} $$ {{#eq-long=5.1}}

| name | what it is |
|---------|-|
| `log_marginal_likelihood_gradient` | {"A word. " * 30} |

:::: {{.gallery}}
[![An alternative text, no caption.](figure.png){{width=360 height=150}}](x.html)
**[Title](x.html)**. Subtitle.
::::
"""


def write_hard_page(folder, site, dark):
    """A page of hard cases, quarto.html, as Quarto makes it with our filter."""
    filter_path = folder / "filter.lua"
    ours = str(ROOT / "docs" / "filter.lua")
    filter_path.write_text(f"quarto = true; return dofile({ours!r})", "utf-8")
    options = ["--mathml", f"--lua-filter={filter_path}"]
    text = pypandoc.convert_text(HARD, "html5", "markdown", extra_args=options)
    assert "<figcaption" not in text
    picture = next(site.rglob("*.png")).relative_to(site).as_posix()
    page = QUARTO.replace("SCHEME", "dark" if dark else "light").replace("BODY", text)
    page = page.replace("figure.png", f"some/where/{picture}")
    (folder / "quarto.html").write_text(page, "utf-8")


def write_probe(folder, dark):
    """probe.html, which visits the pages: all of them, or one of each folder."""
    paths = sorted((folder / "some" / "where").rglob("*.html"))
    pages = ["quarto.html", *(path.relative_to(folder).as_posix() for path in paths)]
    sample = list({posixpath.dirname(page): page for page in pages}.values())
    constants = {"PAGES": sample if dark else pages, "SAMPLE": sample, "WORDS": WORDS}
    script = "".join(f"const {name} = {json.dumps(it)};" for name, it in constants.items()) + PROBE
    frames = '<iframe style="height:800px"></iframe><iframe></iframe>'
    page = f"<!DOCTYPE html><body><script>{script}</script>{frames}"
    (folder / "probe.html").write_text(page, "utf-8")


@contextmanager
def served(folder):
    """The address of a web server for the folder."""
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def visit(folder, top, dark):
    """What the probe found, as the title of its page, and what the console said."""
    words = [
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={folder / 'net.json'}",
        "--dump-dom",
        f"{top}/probe.html",
    ]
    scheme = ["--blink-settings=preferredColorScheme=0"] * dark
    done = subprocess.run(
        [CHROMIUM, *FLAGS, *scheme, *words],
        capture_output=True,
        check=True,
        timeout=300,
        encoding="utf-8",
    )
    said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return title_of(done.stdout), said


def requests(folder):
    """The addresses that pages asked for, which have a page as initiator; Chromium asks for things
    of its own.
    """
    log = json.loads((folder / "net.json").read_text("utf-8"))
    events = [event.get("params", {}) for event in log["events"]]
    of_pages = [one for one in events if one.get("initiator", "not an origin") != "not an origin"]
    return {event["url"] for event in of_pages if "url" in event}


@pytest.fixture(scope="session", params=["files, light", "server, dark"])
def seen(request, site, tmp_path_factory):
    """What the browser saw of the site, the addresses that it asked for, and what its console
    said.
    """
    folder = tmp_path_factory.mktemp("probe")
    dark = request.param == "server, dark"
    shutil.copytree(site, folder / "some" / "where")
    write_hard_page(folder, site, dark)
    write_probe(folder, dark)
    place = served(folder) if dark else nullcontext(folder.as_uri())
    with place as top:
        found, said = visit(folder, top, dark)
    asked = requests(folder)
    return found | {"asked": asked, "said": said, "top": top, "folder": folder, "served": dark}


def test_every_page_opens_at_both_widths(seen, site):
    pages = list(site.rglob("*.html"))
    if seen["served"]:
        pages = {page.parent for page in pages}
    assert len(seen["pages"]) == 2 * (1 + len(pages))
    assert {page["width"] for page in seen["pages"]} == {1400, 390}


def test_the_style_sheet_is_applied(seen):
    assert all("Liberation Sans" in page["font"] for page in seen["pages"])


def test_formulas_are_drawn(seen):
    formulas = sum(page["formulas"] for page in seen["pages"])
    assert formulas > (10 if seen["served"] else 200)
    assert not [(page["page"], page["flat"]) for page in seen["pages"] if page["flat"]]


def test_images_are_drawn_and_no_larger_than_they_are(seen):
    images = [(page["page"], *image) for page in seen["pages"] for image in page["images"]]
    assert images
    for page, source, natural, drawn in images:
        # the dark scheme adds a white rim
        assert 0 < drawn <= natural + 13, (page, source)
        assert natural > 0, (page, source)


def test_no_formula_is_left_as_text(seen):
    raw = re.compile(r".{0,40}(?:\$|\\[a-zA-Z]+|:::|\{#|\]\(|#\||@(?:eq|fig|tbl|sec)-).{0,40}")
    assert not {page: found for page, prose in seen["prose"] if (found := raw.findall(prose))}


def test_nothing_is_too_wide_and_no_page_too_long_to_read(seen):
    """Those that would be fold code and long calculations."""
    for page in seen["pages"]:
        assert page["scroll"] <= page["width"] and not page["wide"], (
            page["page"],
            page["width"],
            page["scroll"],
            page["wide"],
        )
        assert page["width"] < 1400 or page["height"] <= 16_000, (page["page"], page["height"])
        assert not page["broken"], (page["page"], page["width"], page["broken"])


def test_no_request_leaves_the_machine(seen):
    assert {
        url for url in seen["asked"] if not url.startswith((seen["top"], "data:", "blob:"))
    } == set()
    resources = set(seen["resources"])
    assert {name for name in resources if not name.startswith((seen["top"], "data:"))} == set()
    if seen["served"]:
        assert any(name.endswith("/some/where/site.css") for name in resources)
        assert any(url.endswith("/some/where/search-index.js") for url in seen["asked"])


def found(seen):
    """The headings and links that a search finds, by its words."""
    return {words: result["found"] for words, result in seen["search"].items()}


def test_search_finds_words(seen):
    search = found(seen)
    assert any(heading == "Notation" for heading, _ in search["notation"])
    assert search["cavity mean"]
    assert "predict_proba" in search["predict_proba"][0][0]


@pytest.mark.parametrize(
    "name, pages",
    [
        ("log1p_ratio", ["reference/numerics.linalg", "internals/numerics/linalg"]),
        ("GaussianBlur", ["reference/features.windows"]),
        ("load_regression", ["reference/datasets"]),
    ],
)
def test_search_finds_names_where_they_are_described(seen, name, pages):
    # what only mentions the name comes later
    for page, (heading, link) in zip(pages, found(seen)[name], strict=False):
        assert heading == name
        assert link.endswith(f"some/where/{page}.html#{name}")


def test_links_of_a_search_lead_somewhere(seen):
    links = [link for results in found(seen).values() for _, link in results]
    assert links
    for link in links:
        assert link.startswith(seen["top"])
        path = link.removeprefix(seen["top"]).lstrip("/").partition("#")[0]
        assert (seen["folder"] / path).is_file()


@pytest.mark.parametrize("words", ["zzzqqq", "cavity zzzqqq"])
def test_a_search_wants_every_word(seen, words):
    assert seen["search"][words] == {"found": [], "said": "Nothing found."}


def test_the_dark_scheme_is_dark_and_figures_take_its_ground(seen):
    dark = seen["served"]
    assert seen["dark"] == dark
    assert (max(map(int, re.findall(r"\d+", seen["paper"]))) < 60) == dark
    assert set(seen["blends"]) == {"screen" if dark else "normal"}


def test_no_script_complains_text_stands_out_and_the_focus_shows(seen):
    assert not seen["said"]
    assert not {
        page: found for name in ("faint", "unfocused") for page, found in seen[name] if found
    }


def test_the_buttons_copy_code_and_switch_the_scheme_and_the_side_bars_stay(seen):
    for page in seen["used"]:
        assert page["schemes"] in (["dark", "light"], ["light", "dark"]), page
        assert page["schemes"][0] == ("light" if seen["served"] else "dark"), page
        assert page["copied"] in (None, page["code"]), page
        assert abs(page["side"]) < 1, page
    assert any(page["code"] for page in seen["used"])


def test_the_menu_can_be_used_at_both_widths(seen):
    assert {menu["width"] < 500 for menu in seen["menus"]} == {True, False}
    for menu in seen["menus"]:
        narrow = menu["width"] < 500
        assert menu["closed"] == narrow, menu
        assert menu["links"] > 3, menu
        assert menu["sections"] >= 3, menu
        assert menu["out"] == 0, menu
        assert menu["scroll"] <= menu["width"], menu
        assert not narrow or menu["summary"] >= 24, menu
        assert set(menu["unfolded"]) <= {1}, menu  # the sections this page is in, and no other
