"""The first page that people see: its examples run, its links lead, its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sparse_pep.cli import main

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run_as_they_stand(code, tmp_path):
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout.split()[0]) > 0.3
    # the first one is short
    assert len(EXAMPLES) >= 2
    assert len([line for line in EXAMPLES[0].splitlines() if line]) <= 12


def test_links_options_and_targets_named_in_the_text_exist():
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert any(link.endswith(".png") for link in links)
    assert not [link for link in links if not (ROOT / link).is_file()]
    for command, rest in re.findall(
        r"^    (?:\S*/)?sparse-pep (\w+)(.*)$", TEXT, flags=re.MULTILINE
    ):
        shown = CliRunner().invoke(main, [command, "--help"]).output
        for option in re.findall(r"--[\w-]+", rest):
            assert option in shown, (command, option)
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE)
    assert set(re.findall(r"make (demo|test|docs|lint|bench|clean)\b", TEXT)) <= set(targets)


def test_contributing_says_where_every_test_goes():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Where does my test go?")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(tests/[\w./]*)`", section))
    assert not [name for name in named if not (ROOT / name).exists()]
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    left_out = [
        path.as_posix()
        for path in files
        if path.as_posix() not in named and f"{path.parent.as_posix()}/" not in named
    ]
    assert not left_out


def test_the_hosted_check_runs_the_same_script_as_a_developer():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    steps = yaml.safe_load(text)["jobs"]["check"]["steps"]
    assert steps[-1] == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").is_file()
