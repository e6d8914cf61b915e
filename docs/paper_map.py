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
    nbs = Path(root) / "nbs"
    sections = defaultdict(list)
    labelled = defaultdict(list)
    for path in sorted(nbs.rglob("*.ipynb"), key=lambda path: (len(path.parts), path)):
        page = path.relative_to(nbs).with_suffix("").as_posix()
        for heading, keys in headings_and_tags(path):
            for key in dict.fromkeys(keys):
                sections[key].append((page, heading))
        for line in filter(LABEL.search, lines_of(path)):
            for key in " ".join(TAG.findall(line)).split():
                labelled[key].append(LABEL.search(line)[1])
    text = Path(root, "docs", "paper_map.csv").read_text("utf-8")
    entries = list(csv.DictReader(text.splitlines(), delimiter="|", restval=""))
    for entry in entries:  # claims name their pages, and a word that stands there
        pages = re.findall("([^;=]+)=", entry["pages"])
        claimed = [(page, title_of(page, nbs)) for page in pages]
        entry["derivations"] = sections[entry["key"]] + claimed
        entry["labels_here"] = labelled[entry["key"]]
    return entries


def title_of(page, nbs):
    """The title of a page."""
    return headings_and_tags(nbs / f"{page}.ipynb")[1][0]
