"""The site in a real browser: formulas and figures drawn, search, menu, focus, contrast, no
network, nothing too wide for a phone.
 Headless Chromium opens a page with one frame, which visits the pages of the site one after the
other, measures each as wide as a desk and then as narrow as a phone, and leaves what it found in
its own text. Every page is seen as a file in the light scheme. For what the template and the style
sheet decide, one page of each folder stands for the others: colours, focus, and the site as served
from a folder of a web server in the dark scheme. Skipped where there is no Chromium.
"""

import functools
import html
import json
import posixpath
import re
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pypandoc = pytest.importorskip(
    "pypandoc", reason="the site is built with the development dependencies"
)
pytest.importorskip("nbdev", reason="the site is built with the development dependencies")

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--allow-file-access-from-files",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--window-size=1400,900",
    "--enable-logging=stderr",
]

PROBE = Path(__file__).with_name("probe.js").read_text(encoding="utf-8")
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
QUARTO = Path(__file__).with_name("quarto.html").read_text(encoding="utf-8")
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


@pytest.fixture(scope="session", params=["files, light", "server, dark"])
def seen(request, site, tmp_path_factory):
    """What the browser saw of the site, the addresses that it asked for, and what its console
    said.
    """
    folder = tmp_path_factory.mktemp("probe")
    shutil.copytree(site, folder / "some" / "where")
    pages = [
        "quarto.html",
        *(path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.html"))),
    ]
    dark = request.param == "server, dark"
    (folder / "filter.lua").write_text(
        f"quarto = true; return dofile({str(ROOT / 'docs' / 'filter.lua')!r})", encoding="utf-8"
    )
    text = pypandoc.convert_text(
        HARD, "html5", "markdown", extra_args=["--mathml", f"--lua-filter={folder / 'filter.lua'}"]
    )
    assert "<figcaption" not in text
    picture = next(site.rglob("*.png")).relative_to(site).as_posix()
    page = (
        QUARTO.replace("SCHEME", "dark" if dark else "light")
        .replace("BODY", text)
        .replace("figure.png", f"some/where/{picture}")
    )
    (folder / "quarto.html").write_text(page, encoding="utf-8")
    sample = list({posixpath.dirname(page): page for page in pages}.values())
    script = (
        f"const PAGES = {json.dumps(sample if dark else pages)}, SAMPLE = "
        f"{json.dumps(sample)}, WORDS = {json.dumps(WORDS)};{PROBE}"
    )
    frame = '<iframe style="height:800px"></iframe><iframe></iframe>'
    (folder / "probe.html").write_text(
        f"<!DOCTYPE html><body><script>{script}</script>{frame}", encoding="utf-8"
    )
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        top = f"http://127.0.0.1:{server.server_port}" if dark else folder.as_uri()
        log = folder / "net.json"
        scheme = ["--blink-settings=preferredColorScheme=0"] * dark
        command = [
            CHROMIUM,
            *FLAGS,
            *scheme,
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={log}",
            "--dump-dom",
            f"{top}/probe.html",
        ]
        done = subprocess.run(
            command, capture_output=True, check=True, timeout=300, encoding="utf-8"
        )
        server.shutdown()
    assert "<title>" in done.stdout, done.stderr
    found = json.loads(
        html.unescape(re.search(r"<title>(.*)</title>", done.stdout, flags=re.DOTALL)[1])
    )
    # Chromium asks for things of its own; what a page asks for has that page as initiator.
    events = [
        event.get("params", {}) for event in json.loads(log.read_text(encoding="utf-8"))["events"]
    ]
    asked = {
        event["url"]
        for event in events
        if event.get("initiator", "not an origin") != "not an origin" and "url" in event
    }
    said = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return {**found, "asked": asked, "said": said, "top": top, "folder": folder, "served": dark}


def test_every_page_opens_at_both_widths_and_what_is_on_it_is_drawn(seen, site):
    pages = list(site.rglob("*.html"))
    assert len(seen["pages"]) == 2 * (
        1 + (len({page.parent for page in pages}) if seen["served"] else len(pages))
    )
    assert {page["width"] for page in seen["pages"]} == {1400, 390}
    assert all("Liberation Sans" in page["font"] for page in seen["pages"]), (
        "the style sheet was not applied"
    )
    assert sum(page["formulas"] for page in seen["pages"]) > (10 if seen["served"] else 200)
    assert not [(page["page"], page["flat"]) for page in seen["pages"] if page["flat"]]
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
        assert page["scroll"] <= page["width"], (
            page["page"],
            page["width"],
            page["scroll"],
            page["wide"],
        )
        assert not page["wide"], (
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


def test_search_finds_words_and_its_links_lead_there(seen):
    search = {words: result["found"] for words, result in seen["search"].items()}
    assert any(heading == "Notation" for heading, _ in search["notation"])
    assert search["cavity mean"]
    for name, *pages in (
        ("log1p_ratio", "reference/numerics.linalg", "internals/numerics/linalg"),
        ("GaussianBlur", "reference/features"),
        ("load_regression", "reference/datasets"),
    ):
        for page, (heading, link) in zip(pages, search[name], strict=True):
            assert heading == name
            assert link.endswith(f"some/where/{page}.html#{name}")
    assert "predict_proba" in search["predict_proba"][0][0]
    for _, link in sum(search.values(), []):
        assert link.startswith(seen["top"])
        assert (
            seen["folder"] / link.removeprefix(seen["top"]).lstrip("/").partition("#")[0]
        ).is_file()
    for words in ("zzzqqq", "cavity zzzqqq"):  # every word is wanted
        assert seen["search"][words] == {"found": [], "said": "Nothing found."}


def test_the_dark_scheme_is_dark_and_figures_lie_on_a_light_plate(seen):
    dark = seen["served"]
    assert seen["dark"] == dark
    assert (max(map(int, re.findall(r"\d+", seen["paper"]))) < 60) == dark
    assert not dark or set(seen["plates"]) == {"rgb(255, 255, 255)"}


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
    for menu in seen["menus"]:
        narrow = menu["width"] < 500
        assert menu["closed"] == narrow, menu
        assert menu["links"] > 3, menu
        assert menu["sections"] >= 3, menu
        assert menu["out"] == 0, menu
        assert menu["scroll"] <= menu["width"], menu
        assert not narrow or menu["summary"] >= 24, menu
        assert set(menu["unfolded"]) <= {1}, menu  # the sections this page is in, and no other
