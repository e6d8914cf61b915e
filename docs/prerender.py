"""Quarto's pre-render hook, so that a plain `quarto render` at the top level builds the whole site.

Quarto runs it twice: at the top level, where it builds, and again inside `_proc/`, where
the notebooks are already processed and there is nothing to do.
"""
from pathlib import Path

from docs.build import ROOT, run_quarto

if __name__ == "__main__" and Path.cwd().name != "_proc":
    run_quarto(ROOT, ROOT / "_docs")
