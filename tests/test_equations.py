"""The map of the paper: nothing of the paper is missing, and nothing that it points at is
missing here.
"""

import json
import os
import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest

from docs.paper_map import equations, headings_and_tags, read_map

ROOT = Path(__file__).resolve().parent.parent

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
    text = path.read_text("utf-8")
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


each_entry = pytest.mark.parametrize("key", BY_KEY)


@cache
def page(name):
    """The text of a notebook."""
    return (ROOT / "nbs" / f"{name}.ipynb").read_text("utf-8")


def pages_of(key):
    """The names of the pages that derive an entry."""
    return [name for name, _ in BY_KEY[key]["derivations"]]


@each_entry
def test_an_entry_is_derived_on_a_page(key):
    assert BY_KEY[key]["says"], f"no notebook has the tag <!-- paper: {key} -->"
    assert pages_of(key), f"no notebook has the tag <!-- paper: {key} -->"


COMPUTED = [key for key in BY_KEY if BY_KEY[key]["function"] != "-"]


def function_of(key):
    """The module and the name of the function that computes an entry."""
    path = BY_KEY[key]["function"]
    return re.fullmatch(r"((?:[a-z]+\.(?=[a-z]+\.))?[a-z]+)\.(.+)", path).groups()


@pytest.mark.parametrize("key", COMPUTED)
def test_the_function_of_an_entry_exists(key):
    module, name = function_of(key)
    prefix = "" if module.startswith("studies") else "sparse_pep."
    assert resolve_name(f"{prefix}{module}.{name}")


@pytest.mark.parametrize("key", COMPUTED)
def test_a_page_of_an_entry_names_its_function(key):
    module, name = function_of(key)
    named = rf"\b{name.rpartition('.')[2]}\b"
    if module.startswith("studies"):  # a page draws the figures of its study
        named = r"import .*\bfigures\b"
    pages = pages_of(key)
    assert "about/errata" in pages or re.search(named, "".join(map(page, pages)))


@pytest.mark.parametrize("key", [key for key in BY_KEY if key.startswith("fig:")])
def test_a_figure_is_described_on_its_page(key):
    assert any("#| fig-alt" in page(name) for name in pages_of(key))


@each_entry
def test_words_of_an_entry_stand_on_its_pages(key):
    named = [words.partition("=") for words in BY_KEY[key]["pages"].split(";") if words]
    assert {name for name, _, _ in named} <= set(pages_of(key))
    assert all(word in page(name) for name, _, word in named)


@each_entry
def test_what_is_computed_is_tested(key):
    entry = BY_KEY[key]
    assert entry["function"] == "-" or entry["test"] != "-"
    if entry["test"] != "-":
        path, name = entry["test"].split("::")
        assert f"\ndef {name}(" in (ROOT / path).read_text("utf-8")


def test_keys_are_unique_and_tags_are_entries_of_the_list():
    assert len(BY_KEY) == len(ENTRIES)
    for path in (ROOT / "nbs").rglob("*.ipynb"):
        for heading, keys in headings_and_tags(path):
            assert set(keys) <= set(BY_KEY), f"{path.name}, {heading!r}"


OTHERS = ("fig:", "tab:", "rem:", "remark:", "pep:", "extension:", "summary:", "section:", "claim:")


def test_every_display_of_the_paper_is_listed(paper):
    ours = [entry["labels"].split() for entry in ENTRIES if not entry["key"].startswith(OTHERS)]
    assert environments(without_lists(paper)[0], "align") == ours


def test_every_label_of_the_paper_is_listed(paper):
    theirs = set(re.findall(r"\\label\{([^}]*)\}", paper))
    sections = {label for label in theirs if re.match("(sec|subsec|app):", label)}
    assert {label for labels in listed("") for label in labels} == theirs - sections


@pytest.mark.parametrize(
    "kind, starts",
    [("figure", ("fig:",)), ("table", ("tab:",)), ("remark", ("rem:", "remark:"))],
)
def test_figures_tables_and_remarks_are_numbered_as_in_the_paper(paper, kind, starts):
    theirs = environments(paper, kind)
    assert theirs == listed(*starts)
    numbers = [entry["number"] for entry in ENTRIES if entry["key"].startswith(starts)]
    assert numbers == [f"{kind} {number}" for number in range(1, len(theirs) + 1)]


def test_every_step_of_the_paper_is_listed(paper):
    assert without_lists(paper)[1] == len(listed("pep:", "extension:", "summary:"))


def test_the_page_evaluates_every_erratum():
    headings = " ".join(
        heading for heading, _ in headings_and_tags(ROOT / "nbs" / "about/errata.ipynb")
    )
    named = {number for entry in ENTRIES for number in entry["errata"].split()}
    assert named == ERRATA
    assert set(re.findall(r"E\d\d", headings)) == ERRATA


def lines_of_the_tables():
    """The lines of the tables that the page on equations shows, without their heads."""
    page = json.loads((ROOT / "nbs" / "about/equations.ipynb").read_text("utf-8"))
    outputs = [output for cell in page["cells"] for output in cell.get("outputs", [])]
    tables = ["".join(output["data"]["text/markdown"]).splitlines() for output in outputs]
    return [line for table in tables for line in table[2:]]


def test_the_tables_of_the_page_have_a_line_for_each_entry():
    lines = lines_of_the_tables()
    assert len(lines) == len(ENTRIES)
    assert all(line.count("|") == 7 and line.split("|")[2].strip() for line in lines)
    cavity = next(line for line in lines if "19)" in line)
    assert re.search(r"\[\(5\.\d+\)\]\(/05_sites\.ipynb#eq-cavity\)", cavity), cavity


def numbers_of(paper):
    """The numbers of the labels of equations, and how many numbers there are: LaTeX numbers every
    line of an `align` that does not end in \\nonumber.
    """
    count = 0
    numbers = {}
    for star, body in re.findall(r"\\begin\{align(\*?)\}(.*?)\\end\{align\*?\}", paper, re.DOTALL):
        outer = re.sub(r"\\begin\{(\w+)\}.*?\\end\{\1\}", "", body, flags=re.DOTALL)
        lines = outer.strip().removesuffix("\\\\").split("\\\\")
        numbered = sum("\\nonumber" not in line for line in lines) * (not star)
        last = f"–{count + numbered}" * (numbered > 1)
        for label in re.findall(r"\\label\{([^}]*)\}", body):
            numbers[label] = f"{count + 1}{last}"
        count += numbered
    return numbers, count


def test_each_number_of_the_paper_is_that_of_one_entry(paper):
    _, count = numbers_of(paper)
    ranges = [
        [int(end) for end in entry["number"].split("–")]
        for entry in ENTRIES
        if entry["number"][:1].isdigit()
    ]
    ours = [number for ends in ranges for number in range(ends[0], ends[-1] + 1)]
    assert sorted(ours) == list(range(1, count + 1))


def test_numbers_are_those_of_the_paper(paper):
    numbers, _ = numbers_of(paper)
    ours = {label: entry["number"] for entry in ENTRIES for label in entry["labels"].split()}
    numbered = numbers.keys() & ours.keys()
    assert len(numbered) > 40
    assert not {label for label in numbered if ours[label] != numbers[label]}


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
            path.read_text("utf-8"),
        ):
            pages = {page for page, one in ours.values() if one == number}
            assert pages & set(
                re.findall(r"%% (?:\.\./)+nbs/(\S+ipynb)", path.read_text("utf-8"))
            ), (path.name, number, "is on no page of this module")
            assert not paper or (number, paper) in theirs, (path.name, number, paper)
            cited += 1
    assert cited > 5
