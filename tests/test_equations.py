"""The map of the paper: nothing of the paper is missing, and nothing that it points at is
missing here.
"""

import importlib
import os
import re
import sys
from operator import attrgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # `docs` is a tool of the repository, not an installed package

from docs.paper_map import as_table, equations, headings_and_tags, read_map  # noqa: E402

ENTRIES = read_map(ROOT)
BY_KEY = {entry["key"]: entry for entry in ENTRIES}
ERRATA = {f"E{number:02d}" for number in range(1, 35)}


@pytest.fixture(scope="module")
def paper():
    """The source of the paper, without comments; where there is none, the test is skipped."""
    path = Path(os.environ.get("SPARSE_PEP_PAPER") or ROOT.parent / "shared" / "paper")
    path = path / "power_ep.tex" if path.is_dir() else path
    if not path.is_file():
        pytest.skip("SPARSE_PEP_PAPER does not name the paper's source")
    text = path.read_text(encoding="utf-8")
    return re.sub(r"(?<!\\)%.*", "", text[text.index(r"\begin{document}") :])


LIST = re.compile(r"\\begin\{(enumerate\*?)\}((?:(?!\\begin\{enumerate).)*?)\\end\{\1\}", re.DOTALL)


def without_lists(paper):
    """The paper without its numbered lists, which hold the steps, and how many items those had."""
    items = 0
    while found := LIST.search(paper):
        items += found[2].count("\\item")
        paper = paper[: found.start()] + paper[found.end() :]
    return paper, items


def environments(paper, name):
    """The labels within each environment of that name, in order."""
    bodies = re.findall(rf"\\begin\{{{name}\*?\}}(.*?)\\end\{{{name}\*?\}}", paper, re.DOTALL)
    return [re.findall(r"\\label\{([^}]*)\}", body) for body in bodies]


def listed(*starts):
    """The labels of the entries whose keys start so, in order."""
    return [entry["labels"].split() for entry in ENTRIES if entry["key"].startswith(starts)]


@pytest.mark.parametrize("key", BY_KEY)
def test_an_entry_leads_somewhere(key):
    entry = BY_KEY[key]
    assert entry["says"], f"no notebook has the tag <!-- paper: {key} -->"
    assert entry["derivations"], f"no notebook has the tag <!-- paper: {key} -->"
    pages = {
        notebook: (ROOT / "nbs" / f"{notebook}.ipynb").read_text(encoding="utf-8")
        for notebook, _ in entry["derivations"]
    }
    if entry["function"] != "-":
        module, names = re.fullmatch(
            r"((?:[a-z]+\.(?=[a-z]+\.))?[a-z]+)\.(.+)", entry["function"]
        ).groups()
        study = module.startswith("studies")
        attrgetter(names)(importlib.import_module(module if study else f"sparse_pep.{module}"))
        # a page draws the figures of its study
        named = r"import .*\bfigures\b" if study else rf"\b{names.rpartition('.')[2]}\b"
        assert "about/errata" in pages or any(re.search(named, text) for text in pages.values()), (
            f"no page of {key} names {entry['function']}"
        )
    assert not key.startswith("fig:") or any("#| fig-alt" in text for text in pages.values())
    assert all(
        word in pages[page]
        for page, _, word in (one.partition("=") for one in entry["pages"].split(";") if one)
    )
    if entry["test"] != "-":
        path, name = entry["test"].split("::")
        assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8")
    assert entry["function"] == "-" or entry["test"] != "-", "what is computed is tested"


def test_keys_are_unique_and_tags_are_entries_of_the_list():
    assert len(BY_KEY) == len(ENTRIES)
    for path in (ROOT / "nbs").rglob("*.ipynb"):
        for heading, keys in headings_and_tags(path):
            assert set(keys) <= set(BY_KEY), f"{path.name}, {heading!r}"


OTHERS = ("fig:", "tab:", "rem:", "remark:", "pep:", "extension:", "summary:", "section:", "claim:")


def test_every_display_label_remark_figure_table_and_step_of_the_paper_is_listed(paper):
    displays = environments(without_lists(paper)[0], "align")
    assert displays == [
        entry["labels"].split() for entry in ENTRIES if not entry["key"].startswith(OTHERS)
    ]
    ours = {label for labels in listed("") for label in labels}
    theirs = {
        label
        for label in re.findall(r"\\label\{([^}]*)\}", paper)
        if not re.match("(sec|subsec|app):", label)
    }
    assert ours == theirs
    for kind, starts in (
        ("figure", ["fig:"]),
        ("table", ["tab:"]),
        ("remark", ["rem:", "remark:"]),
    ):
        assert environments(paper, kind) == listed(*starts)
        numbers = [entry["number"] for entry in ENTRIES if entry["key"].startswith(tuple(starts))]
        # as LaTeX counts
        assert numbers == [f"{kind} {number}" for number in range(1, len(numbers) + 1)]
    assert without_lists(paper)[1] == len(listed("pep:", "extension:", "summary:"))


def test_the_page_evaluates_every_erratum():
    headings = " ".join(
        heading for heading, _ in headings_and_tags(ROOT / "nbs" / "about/errata.ipynb")
    )
    named = {number for entry in ENTRIES for number in entry["errata"].split()}
    assert named == ERRATA
    assert set(re.findall(r"E\d\d", headings)) == ERRATA


def test_the_table_has_a_line_for_each_entry():
    lines = as_table(ENTRIES, ROOT / "nbs").splitlines()
    assert len(lines) == len(ENTRIES) + 2
    assert all(line.count("|") == 7 and line.split("|")[2].strip() for line in lines[2:])
    cavity = next(line for line in lines if "19)" in line)
    assert re.search(r"\[\(5\.\d+\)\]\(/05_sites\.ipynb#eq-cavity\)", cavity), cavity


def test_numbers_are_those_of_the_paper(paper):
    """LaTeX numbers every line of an `align` that does not end in \\nonumber; each number stands
    at one entry.
    """
    count = 0
    found = {}
    for star, body in re.findall(r"\\begin\{align(\*?)\}(.*?)\\end\{align\*?\}", paper, re.DOTALL):
        lines = (
            re.sub(r"\\begin\{(\w+)\}.*?\\end\{\1\}", "", body, flags=re.DOTALL)
            .strip()
            .removesuffix("\\\\")
            .split("\\\\")
        )
        numbered = sum("\\nonumber" not in line for line in lines) * (not star)
        found |= dict.fromkeys(
            re.findall(r"\\label\{([^}]*)\}", body),
            str(count + 1) + f"–{count + numbered}" * (numbered > 1),
        )
        count += numbered
    ranges = [
        [int(end) for end in entry["number"].split("–")]
        for entry in ENTRIES
        if entry["number"][:1].isdigit()
    ]
    assert sorted(number for ends in ranges for number in range(ends[0], ends[-1] + 1)) == list(
        range(1, count + 1)
    )
    assert not [
        entry
        for entry in ENTRIES
        for label in entry["labels"].split()
        if label in found and found[label] != entry["number"]
    ]


def test_docstrings_cite_the_numbers_of_the_map():
    """`Equation 5.17 of the site, 64 of the paper`, in the docstring of what computes it."""
    ours = equations(ROOT / "nbs")
    cited = 0
    theirs = {
        (ours[label][1], entry["number"]) for entry in ENTRIES for label in entry["labels_here"]
    }
    for path in (ROOT / "sparse_pep").rglob("*.py"):
        for number, paper in re.findall(
            r"Equation\s+([\d.a-z]*\d)\s+of\s+the\s+site(?:,\s+([\d–]+)\s+of\s+the\s+paper)?",
            path.read_text(encoding="utf-8"),
        ):
            pages = {page for page, one in ours.values() if one == number}
            assert pages & set(
                re.findall(r"%% (?:\.\./)+nbs/(\S+ipynb)", path.read_text(encoding="utf-8"))
            ), (path.name, number, "is on no page of this module")
            assert not paper or (number, paper) in theirs, (path.name, number, paper)
            cited += 1
    assert cited > 5
