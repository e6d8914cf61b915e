"""The command line as tests call it: words are split as a shell splits them."""

import json
import shlex
import warnings
from pathlib import Path

from click.testing import CliRunner, Result

from sparse_pep.cli import main


def run(*words: object, stdin: str | bytes | None = None) -> Result:
    """The result of a command; a text among the words may hold several."""
    parts = [
        part
        for word in words
        for part in (shlex.split(word) if isinstance(word, str) else [str(word)])
    ]
    return CliRunner().invoke(main, parts, prog_name="sparse-pep", input=stdin)


def accept(*words: object, stdin: str | bytes | None = None) -> Result:
    """The result of a command that succeeds."""
    result = run(*words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def document(*words: object) -> dict:
    """What a command prints with --json, which must be one document without NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(accept(*words, "--json").stdout, parse_constant=refuse)


def contents() -> dict[Path, int]:
    """When each file of the folder was written."""
    return {path: path.stat().st_mtime_ns for path in Path().rglob("*")}


def refused_line(*words: object, stdin: str | bytes | None = None) -> str:
    """The one line of a command that is refused, and changes no file."""
    before = contents()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run(*words, stdin=stdin)
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert contents() == before
    return result.stderr
