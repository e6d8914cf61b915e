"""What Quarto runs before and after it renders, named in `_quarto.yml`, so that every way to call it builds the whole site.

Quarto calls both in the folder of a project: at the top level, or in `_proc/`, where `nbdev_docs` and `nbdev_preview` leave
notebooks processed by nbdev alone.
"""
import html
import os
import re
from pathlib import Path

from docs.build import ROOT, STAGED, run_quarto, stage


def before_render() -> None:
    """At the top level, build the site; in `_proc/`, put the pages there as `docs.notebook` and `docs.reference` make them."""
    here = Path.cwd()
    os.chdir(ROOT)  # nbdev looks for its settings from the working directory upwards
    if here.name != "_proc":
        run_quarto(ROOT, ROOT / "_docs")
    elif STAGED not in os.environ:
        stage(ROOT, here)


def raw_formulas(page: str) -> list[str]:
    """The formulas that Pandoc left as TeX because it could not convert them."""
    return [html.unescape(found) for found in re.findall(r'<span\s+class="math (?:inline|display)">(\$.*?\$)</span>', page, flags=re.DOTALL)]


def after_render() -> None:
    """End the build if a formula stands on a page as TeX: Quarto itself only warns."""
    out = Path.cwd() / os.environ.get("QUARTO_PROJECT_OUTPUT_DIR", "_docs")
    for path in sorted(out.rglob("*.html")):
        if raw := raw_formulas(path.read_text(encoding="utf-8")):
            raise SystemExit(f"docs: {path.relative_to(out)}: no MathML for {raw[0]}; tests/test_site.py lists the commands that every Pandoc knows.")
