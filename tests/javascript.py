"""JavaScript in a browser, or in node where that is installed; tests that need it are skipped
where there is neither.
"""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

NODE = shutil.which("node")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
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

# Chromium prints the document when all of it is loaded: a frame, which is being written until the
# script has ended, puts that off.
PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8">{head}</head><body>{body}
<iframe hidden></iframe><script>
const pending = document.querySelector("iframe");
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
pending.contentDocument.open();
addEventListener("DOMContentLoaded", async () => {{
  try {{ document.title = JSON.stringify(await (async () => {{ {script} }})()); }}
  catch (error) {{ document.title = JSON.stringify({{ error: error.stack }}); }}
  finally {{ pending.contentDocument.close(); }}
}});
</script></body></html>"""


def title_of(dom: str) -> object:
    """What a page left in its title, as JSON."""
    found = re.search(r"<title>(.*)</title>", dom, flags=re.DOTALL)
    assert found, dom[:1000]
    return json.loads(html.unescape(found[1]))


def in_browser(
    folder: Path, script: str, head: str = "", body: str = "", flags: Sequence[str] = ()
) -> object:
    """What a script returns in a page of its own."""
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    page = folder / "page.html"
    page.write_text(PAGE.format(head=head, body=body, script=script), "utf-8")
    command = [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, page.as_uri()], capture_output=True, check=True, timeout=120, encoding="utf-8"
    )
    result = title_of(done.stdout)
    assert not (isinstance(result, dict) and "error" in result), result
    return result
