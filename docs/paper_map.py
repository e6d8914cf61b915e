"""The paper's equations, remarks, steps, tables and figures, and where each is derived, computed and tested.

`paper_map.csv` lists them in the paper's order. A notebook says which of them a section derives by a comment below the
section's heading, `<!-- paper: key key -->`.
"""

import csv
import json
import re
from pathlib import Path

TAG = re.compile(r"<!--\s*paper:\s*(.*?)\s*-->")
HEADING = re.compile(r"^#{1,4}\s+(.*?)\s*$")


def headings_and_tags(path):
    """(heading, keys) of every section of a notebook."""
    found = [["", []]]
    for cell in json.loads(Path(path).read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "markdown":
            continue
        for line in "".join(cell["source"]).splitlines():
            if heading := HEADING.match(line):
                found.append([heading[1], []])
            for keys in TAG.findall(line):
                found[-1][1].extend(keys.split())
    return found


def anchor(heading):
    """The identifier that pandoc gives a heading."""
    words = re.sub(r"[^\w\s.-]", "", heading.lower())
    return re.sub(r"^[^a-z]+", "", re.sub(r"\s+", "-", words.strip()))


def read_map(root):
    """The entries, a dictionary each, with `derivations`: (notebook, heading) pairs."""
    root = Path(root)
    with open(root / "docs" / "paper_map.csv", encoding="utf-8", newline="") as file:
        entries = list(csv.DictReader(file, delimiter="|"))
    nbs = root / "nbs"
    pages = sorted(nbs.rglob("*.ipynb"), key=lambda path: (len(path.parts), path))
    sections = {path.relative_to(nbs).with_suffix("").as_posix(): headings_and_tags(path) for path in pages}
    tagged = {}
    for notebook, parts in sections.items():
        for heading, keys in parts:
            for key in keys:
                tagged.setdefault(key, []).append((notebook, heading))
    for entry in entries:
        entry["derivations"] = tagged.get(entry["key"], [])
    return entries


def as_table(entries):
    """Markdown."""
    lines = ["| | what it says | derived in | computed by, tested by | wrong |", "|---|---|---|---|---|"]
    for entry in entries:
        links = ", ".join(
            f"[{heading}](/{notebook}.ipynb#{anchor(heading)})" for notebook, heading in entry["derivations"]
        )
        function, test = entry["function"], entry["test"].replace("tests/", "").replace(".py::", " ")
        code = "<br>".join(dict.fromkeys(" ".join(map(breakable, text.split())) for text in (function, test)))
        wrong = ", ".join(entry["errata"].split())
        lines.append(f"| {breakable(entry['key'])} | {entry['says']} | {links} | {code} | {wrong} |")
    return "\n".join(lines)


def breakable(name):
    """A name as code that a narrow column may break after an underscore or a full stop."""
    return name if name == "-" else "<code>" + re.sub(r"([_.:-])(?=\w)", r"\1<wbr>", name) + "</code>"
