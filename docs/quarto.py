"""What Quarto runs before and after it renders, named in `_quarto.yml`, in `_proc/`, where
`nbdev_docs` and `nbdev_preview` leave notebooks processed by nbdev alone. It runs them with any
Python, so nothing is imported here but the standard library; the pages are made by the Python that
runs nbdev.
"""

import html
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def callers() -> Iterator[list[str]]:
    """The command of each process that led here, from the nearest upwards."""
    process = os.getppid()
    while process > 1:
        if Path("/proc/self/stat").exists():
            folder = Path("/proc", str(process))
            yield [part.decode() for part in (folder / "cmdline").read_bytes().split(b"\0")]
            process = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        else:
            said = subprocess.run(
                ["ps", "-o", "ppid=,args=", "-p", str(process)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            yield said[1:]
            process = int(said[0])


def python_of_nbdev() -> str:
    """The Python that runs nbdev, if nbdev called Quarto; else that of the project's
    environment, if it has one; else this one.
    """
    running = [
        command[0]
        for command in callers()
        if "nbdev" in " ".join(command[1:2]) and Path(command[0]).name.startswith("python")
    ]
    own = [
        str(path)
        for path in (ROOT / ".venv" / "bin" / "python", ROOT / ".venv" / "Scripts" / "python.exe")
        if path.exists()
    ]
    return [*running, *own, sys.executable][0]


def before_render() -> None:
    """Put the pages into `_proc/` as `docs.notebook` and `docs.reference` make them; elsewhere
    nothing can be rendered.
    """
    here = Path.cwd()
    if here.name != "_proc":
        raise SystemExit(
            "docs: call nbdev_docs or nbdev_preview, which call Quarto where the pages are."
        )
    subprocess.run(
        [python_of_nbdev(), "-m", "docs.build", "--stage", str(here)], cwd=ROOT, check=True
    )


def after_render() -> None:
    """End the build if a formula stands on a page as TeX: Quarto itself only warns."""
    out = Path.cwd() / os.environ.get("QUARTO_PROJECT_OUTPUT_DIR", "_docs")
    for path in sorted(out.rglob("*.html")):
        if raw := re.search(
            r'<span\s+class="math (?:inline|display)">(\$.*?\$)</span>',
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        ):
            raise SystemExit(
                f"docs: {path.relative_to(out)}: no MathML for {html.unescape(raw[1])}; "
                "tests/test_site.py lists the commands that every Pandoc knows."
            )
