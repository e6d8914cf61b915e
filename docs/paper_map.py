"""What the paper has, in its order (`paper_map.csv`). A section names what it derives in a
comment, `<!-- paper: key key -->`.
"""

import csv
import functools
import json
import re
from collections import defaultdict
from pathlib import Path

LABEL = re.compile(r"\{#(eq-[\w-]*\w)\}")
TAG = re.compile(r"<!--\s*paper:\s*(.*?)\s*-->")
CHAPTER = re.compile(r"0*(\d+[a-z]?)_|power_ep_in_one_page")  # pages with numbers
HEADING = re.compile(r"^#{1,4}\s+(.*?)\s*$")


def lines_of(path):
    """The lines of a notebook's text."""
    cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    return [
        line
        for cell in cells
        if cell["cell_type"] == "markdown"
        for line in "".join(cell["source"]).splitlines()
    ]


def headings_and_tags(path):
    """(heading, keys) of every section of a notebook."""
    found = [["", []]]
    for line in lines_of(path):
        if heading := HEADING.match(line):
            found.append([heading[1], []])
        for keys in TAG.findall(line):
            found[-1][1].extend(keys.split())
    return found


@functools.cache
def equations(nbs):
    """(page, number) of every labelled equation, by its label. The number is that of the page
    and that of the equation on it.
    """
    found = {}
    for path in sorted(nbs.rglob("*.ipynb")):
        page = path.relative_to(nbs).as_posix()
        chapter = CHAPTER.match(path.name)
        for number, label in enumerate(LABEL.findall("\n".join(lines_of(path))), 1):
            if label in found:
                raise SystemExit(f"docs: {page} and {found[label][0]} both define {label}")
            found[label] = page, f"{chapter[1] or 0}.{number}" if chapter else str(number)
    return found


def anchor(heading):
    """The identifier that pandoc gives a heading."""
    words = re.sub(r"[^\w\s.-]", "", heading.lower())
    return re.sub(r"^[^a-z]+", "", re.sub(r"\s+", "-", words.strip()))


def read_map(root):
    """The entries, a dictionary each, with `derivations`, (notebook, heading) pairs, and
    `labels_here`, those of our equations.
    """
    entries = list(
        csv.DictReader(
            Path(root, "docs", "paper_map.csv").read_text("utf-8").splitlines(),
            delimiter="|",
            restval="",
        )
    )
    nbs = Path(root) / "nbs"
    sections = defaultdict(list)
    labelled = defaultdict(list)
    for path in sorted(nbs.rglob("*.ipynb"), key=lambda path: (len(path.parts), path)):
        for heading, keys in headings_and_tags(path):
            for key in dict.fromkeys(keys):
                sections[key].append((path.relative_to(nbs).with_suffix("").as_posix(), heading))
        for line in filter(LABEL.search, lines_of(path)):
            for key in " ".join(TAG.findall(line)).split():
                labelled[key].append(LABEL.search(line)[1])
    for entry in entries:  # claims name their pages, and a word that stands there
        sections[entry["key"]] += [
            (page, headings_and_tags(nbs / f"{page}.ipynb")[1][0])
            for page in re.findall("([^;=]+)=", entry["pages"])
        ]
    return [
        entry | {"derivations": sections[entry["key"]], "labels_here": labelled[entry["key"]]}
        for entry in entries
    ]


def links_of(entry, nbs):
    """Links to the sections that derive an entry; a title needs no anchor."""
    links = []
    for page, heading in entry["derivations"]:
        title = headings_and_tags(nbs / f"{page}.ipynb")[1][0]
        place = "" if heading == title else f"#{anchor(heading)}"
        links.append(f"[{heading}](/{page}.ipynb{place})")
    return ", ".join(links)


def number_here(entry, nbs):
    """The numbers of our equations of an entry, or the page that derives it."""
    numbers = []
    for label in entry["labels_here"]:
        page, number = equations(nbs)[label]
        numbers.append(f"[({number})](/{page}#{label})")
    if numbers or not entry["derivations"]:
        return ", ".join(numbers)
    notebook = entry["derivations"][0][0]
    chapter = CHAPTER.match(notebook)
    return f"page {chapter[1]}" if chapter else notebook.rpartition("/")[2]


def number_in_paper(entry):
    """The number of an entry in the paper, and its label there."""
    number = entry["number"]
    name = entry["labels"].partition(" ")[0]
    if not name and not number:
        name = entry["key"]
    if number[:1].isdigit():
        number = f"({number})"
    return f"{number} {breakable(name) if name else ''}"


def as_table(entries, nbs):
    """Markdown, with the numbers of equations in the paper and on the site."""
    lines = [
        "| in the paper | here | what it says | derived in | computed by, tested by | wrong |",
        "|---|---|---|---|---|---|",
    ]
    for entry in entries:
        texts = (
            entry[name].replace("tests/", "").replace(".py::", " ").split()
            for name in ("function", "test")
        )
        code = "<br>".join(dict.fromkeys(" ".join(map(breakable, text)) for text in texts))
        errata = ", ".join(entry["errata"].split())
        lines.append(
            f"| {number_in_paper(entry)} | {number_here(entry, nbs)} | {entry['says']} | "
            f"{links_of(entry, nbs)} | {code} | {errata} |"
        )
    return "\n".join(lines)


def breakable(name):
    """A name as code that a narrow column may break after an underscore or a full stop."""
    return (
        name if name == "-" else "<code>" + re.sub(r"([_.:-])(?=\w)", r"\1<wbr>", name) + "</code>"
    )
