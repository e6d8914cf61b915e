"""One notation: every letter in a formula is defined once, on the notation page or on its own
page, and the letters of the notation page have one meaning on the whole site.
"""

import json
import re
from pathlib import Path

import pytest

NBS = Path(__file__).parent.parent / "nbs"
PAGES = sorted(path.stem for path in NBS.glob("*.ipynb") if path.stem != "index")
OTHERS = sorted(
    path.relative_to(NBS).with_suffix("").as_posix()
    for path in NBS.glob("*/**/*.ipynb")
    if path.stem != "index"
)
QUOTING = {"about/notation", "about/errata"}  # one defines the letters, one quotes the paper
# letters of the whole site, and forms in which they had another meaning
FOREIGN_FORMS = {
    "g": r"(?<![A-Za-z\\])g(?:_m|_\{m|'|\()",  # a window, a second function
    r"\gamma": r"\\gamma(?:_(?!n)|\()",  # slopes, a gain, variances of pairs
    r"\kappa": r"\\kappa_(?![nb])",  # eigenvalues, own variances of outputs
    r"\xi": r"\\xi_(?![dj])",  # mean parameters, heights of classes
    r"\zeta": r"\\zeta_(?![nb{])",
    "r": r"(?<![A-Za-z\\{])r(?:\(|_[a-z])",  # log(1 + x)/x, residuals
    "c": r"(?<![A-Za-z\\{_])c_(?![nb])|\\mathbf\s*\{?c\b",  # coefficients, a covariance
    "K": r"(?<![A-Za-z\\{])K\s*(?:[-+=]\s*[C\d]|\\times)|\\times\s*K(?![_^{])",  # a number
}
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<!\\)\$(?!\s)(.+?)(?<!\\)\$", re.DOTALL)
FACE = r"\\(?:mathbf|boldsymbol|mathcal|mathbb)(?![A-Za-z])"
ACCENT = r"\\(?:tilde|widetilde|hat|widehat|check|dot)(?![A-Za-z])"
TOKEN = re.compile(
    rf"(?P<mark>(?:{ACCENT}|{FACE})(?:\s*\{{?\s*(?:{ACCENT}|{FACE}))?)\s*"
    r"(?:\{(?P<group>[^{}]*)\}|(?P<one>\\[A-Za-z]+|[A-Za-z]))"
    r"|(?P<letter>\\[A-Za-z]+|[A-Za-z])"
)
GREEK = """alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa
    lambda mu nu xi pi rho sigma tau phi varphi chi psi omega
    Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell""".split()


def texts(page):
    """The markdown cells of a notebook, without code."""
    for cell in json.loads((NBS / f"{page}.ipynb").read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            yield re.sub(r"```.*?```|`[^`]*`", "", "".join(cell["source"]), flags=re.DOTALL)


def letters(formula):
    """The letters of a formula in order, each with its accent and type face; letters of subscripts
    count as well.

    A bar is the derivative with respect to what is under it, so it makes no letter of its own;
    upright words are names.
    """
    formula = re.sub(
        r"\\(operatorname\*?|mathrm|mathcal(?=\{GP\})|text|textbf|label|tag|begin|end)"
        r"\s*(\{[^{}]*\}|[A-Za-z])",
        " ",
        formula,
    )
    formula = re.sub(r"\\(bar|overline)(?![A-Za-z])", " ", formula)
    for found in TOKEN.finditer(formula):
        inside = found["letter"] or found["one"] or found["group"]
        mark = re.sub(r"[{\s]", "", found["mark"] or "")
        for letter in re.findall(r"\\[A-Za-z]+|[A-Za-z]", inside):
            if letter[0] != "\\" or letter[1:] in GREEK:
                yield f"{mark} {letter}".strip()


def formulas(text):
    return [display or inline for display, inline in FORMULA.findall(text)]


def formulas_of(page):
    return [formula for text in texts(page) for formula in formulas(text)]


def letters_of(page):
    return {one for formula in formulas_of(page) for one in letters(formula)}


def first_letters(text):
    """The letters that a row or an item defines: the first of each part of its formulas."""
    parts = [
        part for formula in formulas(text) for part in re.split(r",|(?=\\mathcal)|\(", formula)
    ]
    return {first for part in parts for first in list(letters(part))[:1]}


def general():
    """The letters of the notation page: the first column of its tables, and the indices."""
    page = "\n".join(texts("about/notation"))
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("|")]
    indices = [line for line in page.splitlines() if line.startswith("- **Indices.**")]
    return set().union(
        *(first_letters(text) for text in rows), *(first_letters(text) for text in indices)
    )


def local(page):
    """The letters that a page defines for itself, in the folded table that closes it, or in a list
    under "Letters of this page" or "section".
    """
    text = "\n".join(texts(page))
    listed = re.findall(r"\*\*Letters of this (?:page|section)\.\*\*.*?\n\n((?:- .*\n?)+)", text)
    items = [
        line[2:].partition(" is ")[0].partition(" are ")[0]
        for block in listed
        for line in block.splitlines()
    ]
    _, _, table = text.partition("<summary>Letters of this page</summary>")
    items += [line.split("|")[1] for line in table.splitlines() if line.startswith("| $")]
    return set().union(*(first_letters(item) for item in items), set())


@pytest.mark.parametrize("page", PAGES)
def test_every_letter_is_defined_once(page):
    assert not (undefined := sorted(letters_of(page) - general() - local(page))), undefined
    assert not (twice := sorted(local(page) & general())), twice


def test_letters_are_read_as_they_are_printed():
    formula = (
        r"\mathbf{w}_n^\top\mathbf u + \tilde{\boldsymbol\nu} - \bar K_{\mathbf{uf}}\,"
        r"\mathrm{KL}(q)\operatorname{diag}(\tau)\dots"
    )
    found = [
        r"\mathbf w",
        "n",
        r"\mathbf u",
        r"\tilde\boldsymbol \nu",
        "K",
        r"\mathbf u",
        r"\mathbf f",
        "q",
        r"\tau",
    ]
    assert list(letters(formula)) == found
    assert first_letters(r"$r, \hat r_n$") == {"r", r"\hat r"}


@pytest.mark.parametrize("page", PAGES)
def test_letters_are_listed_once_at_the_end_of_a_page(page):
    cells = list(texts(page))
    listing = [k for k, text in enumerate(cells) if "<summary>Letters of this page" in text]
    assert listing in ([], [len(cells) - 1])
    assert "**Letters of this" not in "\n".join(cells)


def named(page):
    """The letters with which a formula begins: the text names them, or the formula defines them."""
    return {first for formula in formulas_of(page) for first in list(letters(formula))[:1]}


@pytest.mark.parametrize("page", OTHERS)
def test_letters_of_all_other_pages(page):
    known = general() | local(page) | named(page)
    if page not in QUOTING:
        assert not (unnamed := sorted(letters_of(page) - known)), unnamed
        assert not (twice := sorted(local(page) & general())), twice


@pytest.mark.parametrize("page", [page for page in PAGES + OTHERS if page not in QUOTING])
def test_a_letter_of_the_whole_site_has_no_form_of_another_meaning(page):
    found = formulas_of(page)
    for letter, form in FOREIGN_FORMS.items():
        assert not (foreign := [one for one in found if re.search(form, one)]), (letter, foreign)


def test_the_letters_of_the_whole_site_stand_on_the_notation_page():
    missing = set(FOREIGN_FORMS) - general()
    assert not missing
    text = "\n".join(texts("about/notation"))
    assert r"| $\operatorname{lr}(x)$ |" in text
