"""What Quarto runs before and after it renders, named in `_quarto.yml`, so that every way to call it builds the whole site.

Quarto calls both in the folder of a project: at the top level, or in `_proc/`, where `nbdev_docs` and `nbdev_preview` leave
notebooks processed by nbdev alone. It calls them with any Python, so nothing is imported here but the standard library; the
pages are made by the Python that runs nbdev.
"""
import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGED = "SPARSE_PEP_DOCS_STAGED"  # set where `_proc/` is complete: the hook has nothing to do


def callers() -> Iterator[list[str]]:
    """The command of each process that led here, from the nearest upwards."""
    process = os.getppid()
    while process > 1:
        if Path("/proc/self/stat").exists():
            folder = Path("/proc", str(process))
            yield [part.decode() for part in (folder / "cmdline").read_bytes().split(b"\0")]
            process = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        else:
            said = subprocess.run(["ps", "-o", "ppid=,args=", "-p", str(process)], capture_output=True, text=True, check=True).stdout.split()
            yield said[1:]
            process = int(said[0])


def python_of_nbdev() -> str:
    """The Python that runs nbdev, if nbdev called Quarto; else that of the project's environment, if it has one; else this one."""
    running = [command[0] for command in callers() if "nbdev" in " ".join(command[1:2]) and Path(command[0]).name.startswith("python")]
    own = [str(path) for path in (ROOT / ".venv" / "bin" / "python", ROOT / ".venv" / "Scripts" / "python.exe") if path.exists()]
    return [*running, *own, sys.executable][0]


def before_render() -> None:
    """At the top level, build the site; in `_proc/`, put the pages there as `docs.notebook` and `docs.reference` make them."""
    here = Path.cwd()
    if here.name != "_proc" or STAGED not in os.environ:
        what = ["--stage", str(here)] if here.name == "_proc" else []
        subprocess.run([python_of_nbdev(), "-m", "docs.build", *what], cwd=ROOT, check=True)


def raw_formulas(page: str) -> list[str]:
    """The formulas that Pandoc left as TeX because it could not convert them."""
    return [html.unescape(found) for found in re.findall(r'<span\s+class="math (?:inline|display)">(\$.*?\$)</span>', page, flags=re.DOTALL)]


def after_render() -> None:
    """End the build if a formula stands on a page as TeX: Quarto itself only warns."""
    out = Path.cwd() / os.environ.get("QUARTO_PROJECT_OUTPUT_DIR", "_docs")
    for path in sorted(out.rglob("*.html")):
        if raw := raw_formulas(path.read_text(encoding="utf-8")):
            raise SystemExit(f"docs: {path.relative_to(out)}: no MathML for {raw[0]}; tests/test_site.py lists the commands that every Pandoc knows.")
