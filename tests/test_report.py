"""Reports: what the pages say, of every kind of model, and that nothing in them can run."""

import base64
from html.parser import HTMLParser

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import sparse_pep
from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.features import Fourier
from sparse_pep.kernels import Matern32
from sparse_pep.report import MOST_ROWS, checked_rows, fit_report
from sparse_pep.training import LBFGS

EVIL = "<script>alert('$1')</script> & $x$"


class Page(HTMLParser):
    """What a page holds: tags, rows of tables, all text; and whether it is well formed."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.rows = []
        self.images = []
        self.text = ""
        self.tags = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "img":
            self.images.append(dict(attrs))
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


def read(text):
    """The page, after checks that hold for all."""
    found = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert {"script", "link", "iframe", "object", "form"}.isdisjoint(found.tags)
    assert "http" not in text.replace("base64", "")
    assert "url(" not in text
    assert "@import" not in text
    for image in found.images:
        head, data = image["src"].split(",", 1)
        png = base64.b64decode(data, validate=True)
        assert image["alt"].strip()
        assert head == "data:image/png;base64"
        assert png.startswith(b"\x89PNG")
    assert f"sparse_pep {sparse_pep.__version__}" in found.text
    assert not plt.get_fignums()
    return found


rng = np.random.default_rng(0)
X1, X2, X3 = (rng.uniform(-2.0, 2.0, (60, D)) for D in (1, 2, 3))
REAL = np.sin(2.0 * X3[:, 0]) + 0.1 * rng.standard_normal(60)
YES = np.where(X3[:, 0] + 0.5 * rng.standard_normal(60) > 0.0, "yes", "no")
THREE = np.digitize(X2[:, 0] + 0.3 * rng.standard_normal(60), [-0.7, 0.7])
CASES = {  # the number of pictures, and the model
    "regressor": (3, SparsePEPRegressor, X3, REAL, {}),
    "regressor 1-D": (4, SparsePEPRegressor, X1, np.sin(X1[:, 0]) + 5.0, {}),
    "blocks": (3, SparsePEPRegressor, X3, REAL, {"blocks": 10, "power": 1.0}),
    "two classes": (2, SparsePEPClassifier, X3, YES, {}),
    "three classes 2-D": (3, SparsePEPClassifier, X2, THREE, {}),
    "counts": (
        2,
        SparsePEP,
        X1,
        rng.poisson(np.exp(X1[:, 0])).astype(float),
        {"likelihood": "poisson"},
    ),
    "noise that depends on x": (
        2,
        SparsePEP,
        X1,
        X1[:, 0] * rng.normal(size=60),
        {"likelihood": "heteroscedastic_gaussian"},
    ),
    "fourier": (
        4,
        SparsePEPRegressor,
        X1,
        np.sin(X1[:, 0]),
        {"features": Fourier(-4.0, 4.0, 5), "kernel": Matern32(1.0, [1.0])},
    ),
}


def fitted(kind, X, y, **how):
    """A model after a few iterations; that it has not converged does not matter here."""
    return kind(**{"n_inducing": 6, "training": LBFGS(max_iter=4), "random_state": 0} | how).fit(
        X, y
    )


def test_several_inputs_have_their_shares():
    y = np.sin(X2[:, 0])
    rows = read(fit_report(fitted(SparsePEPRegressor, X2, y), X2, y)).rows
    (share,) = [text for name, text in rows if name == "x1"]
    assert "alone" in share
    assert "Shares of the inputs" not in fit_report(fitted(SparsePEPRegressor, X1, y), X1, y)


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_model_has_a_report_and_so_has_its_file(name, tmp_path):
    n_images, kind, X, y, how = CASES[name]
    model = fitted(kind, X, y, **how)
    found = read(fit_report(model, X, y))
    assert len(found.images) == n_images
    assert "60 training rows, which the model has seen" in found.text
    for key, value in model.summary_rows():
        assert [key, value] in found.rows
    model.save(tmp_path / "model.npz")
    assert len(read(fit_report(load(tmp_path / "model.npz"), X, y)).images) == n_images
    assert len(read(fit_report(model)).images) == 1


@pytest.mark.parametrize(
    "X, y", [(X2, REAL), (X2, np.where(X2[:, 0] > 0, EVIL, "$"))], ids=["numbers", "labels"]
)
def test_names_that_look_like_code_are_text(X, y):
    model = fitted(SparsePEPRegressor if y is REAL else SparsePEPClassifier, X, y)
    more = {"scores": {EVIL: 0.5}, "messages": [EVIL, EVIL], "command": EVIL}
    found = read(fit_report(model, X, y, names=[EVIL, "$"], target=EVIL, held_out=True, **more))
    assert found.text.count(EVIL) >= 4
    assert "60 held-out rows" in found.text
    assert [EVIL, "0.5"] in found.rows
    assert found.tags.count("li") == 1
    table = pd.DataFrame({"<b>x</b>": X[:, 0], "kind": np.where(X[:, 1] > 0, EVIL, "$")})
    model = fitted(type(model), table, y)
    model.relevance(table, y)
    told = model.summary()
    page = Page(model.summary()._repr_html_())
    assert page.rows == list(map(list, model.summary_rows()))
    assert set(page.tags) == {
        "table",
        "tr",
        "th",
        "td",
    }
    assert "<b>x</b>" in page.text
    assert repr(told) == str(told) == "\n".join(f"{name:<24}{value}" for name, value in page.rows)


def test_many_rows_are_taken_at_even_steps_and_a_table_by_its_columns():
    model = fitted(SparsePEPRegressor, X1, X1[:, 0])
    X = np.linspace(-1.0, 1.0, MOST_ROWS * 3)[:, None]
    kept, y = checked_rows(model, X, X[:, 0])
    assert len(kept) == len(y) == MOST_ROWS
    assert kept[0] == -1.0
    assert kept[-1] == 1.0
    table = pd.DataFrame({"place": np.where(X2[:, 0] > 0.0, "hill", "vale"), "size": X2[:, 1]})
    assert read(fit_report(fitted(SparsePEPRegressor, table, REAL), table, REAL)).images


@pytest.mark.parametrize(
    "change, words",
    [
        ({"X": X3[:, :1]}, "X has 1 features, but SparsePEPRegressor is expecting 3"),
        (
            {"X": X3[:0], "y": REAL[:0]},
            "`X` and `y` must hold one target for each of at least one row",
        ),
        ({"y": REAL[:-1]}, r"`X` and `y` must hold one target.*\(60, 3\) and \(59,\)"),
        ({"names": ["a"]}, "`names` must hold one name for each of the 3 inputs; got 1"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        fit_report(**{"model": fitted(SparsePEPRegressor, X3, REAL), "X": X3, "y": REAL} | change)
