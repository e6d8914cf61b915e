"""Reports: what the pages say, of every kind of model, and that nothing in them can run."""

import base64
import struct
import warnings
from html.parser import HTMLParser

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sparse_pep
from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.interdomain import Fourier
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import StudentT
from sparse_pep.plots.fits import inducing_inputs
from sparse_pep.plots.training import point_paths
from sparse_pep.report import (
    MOST_ROWS,
    as_text,
    class_names,
    draws_of,
    fit_report,
    in_figure,
    judged,
    latent_at,
    left_out,
    mean_and_error,
    natural,
    picture,
    scores_in,
    sweep_report,
    table,
)

EVIL = "<script>alert('$1')</script> & $x$"


class Page(HTMLParser):
    """What a page holds: titles, tables as rows of text, pictures, all text; and whether it is well formed."""

    VOID = ("meta", "img")

    def __init__(self, text):
        super().__init__()
        self.open, self.titles, self.cells, self.images, self.text, self.tags = [], [], [], [], "", []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag == "img":
            self.images.append(dict(attrs))
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if self.open[-1:] == ["h2"]:
            self.titles.append(data)
        if self.open[-1:] in (["td"], ["th"]):
            self.cells[-1][-1] += data

    def row(self, first):
        """The cells after the one that names the row."""
        return next(row[1:] for row in self.cells if row[0] == first)


def read(text):
    """The page, after checks that hold for all."""
    found = Page(text)
    assert text.startswith("<!DOCTYPE html>") and text.count("<main>") == 1
    assert {"script", "link", "iframe", "object", "form"}.isdisjoint(found.tags)
    assert "http" not in text.replace("base64", "") and "url(" not in text and "@import" not in text
    assert "$" not in text.replace(EVIL, "").replace("$1", "").replace("$x$", "")  # nothing left to fill in
    for image in found.images:
        assert image["alt"].strip()
        head, data = image["src"].split(",", 1)
        png = base64.b64decode(data, validate=True)
        assert head == "data:image/png;base64" and png.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", png[16:24])
        assert 300 < width < 1000 and 100 < height < 1000
    assert f"sparse_pep {sparse_pep.__version__}" in found.text
    assert "prefers-color-scheme: dark" in text and "@media print" in text and "width=device-width" in text
    assert not plt.get_fignums()
    return found


rng = np.random.default_rng(0)
X1 = rng.uniform(-2.0, 2.0, (60, 1))
X2 = rng.uniform(-2.0, 2.0, (60, 2))
X3 = rng.uniform(-2.0, 2.0, (60, 3))
REAL = np.sin(2.0 * X3[:, 0]) + 0.1 * rng.standard_normal(60)
BASE = {"n_inducing": 6, "max_iter": 4, "random_state": 0}


def fitted(kind, X, y, **how):
    """A model after a few iterations; that it has not converged does not matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(**BASE | how).fit(X, y)


def two(X):
    return np.where(X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0.0, "yes", "no")


def three(X):
    return np.digitize(X[:, 0] + 0.3 * rng.standard_normal(len(X)), [-0.7, 0.7])


CASES = {
    "regressor": (SparsePEPRegressor, X3, REAL, {}),
    "regressor 1-D": (SparsePEPRegressor, X1, np.sin(X1[:, 0]) + 5.0, {"normalize_y": True}),
    "regressor 2-D": (SparsePEPRegressor, X2, np.sin(X2[:, 0]) + X2[:, 1], {}),
    "powers": (SparsePEPRegressor, X3, REAL, {"power": np.linspace(0.0, 1.0, 60)}),
    "blocks": (SparsePEPRegressor, X3, REAL, {"blocks": 10, "power": 1.0}),
    "blocks of labels": (SparsePEPClassifier, X2, two(X2), {"blocks": 2}),
    "two classes": (SparsePEPClassifier, X3, two(X3), {}),
    "two classes 1-D": (SparsePEPClassifier, X1, two(X1), {}),
    "two classes 2-D": (SparsePEPClassifier, X2, two(X2), {}),
    "three classes 1-D": (SparsePEPClassifier, X1, three(X1), {}),
    "three classes 2-D": (SparsePEPClassifier, X2, three(X2), {}),
    "counts": (SparsePEP, X1, rng.poisson(np.exp(X1[:, 0])).astype(float), {"likelihood": "poisson"}),
    "student-t": (SparsePEP, X2, REAL, {"likelihood": "student_t", "normalize_y": True}),
    "noise that depends on x": (SparsePEP, X1, X1[:, 0] * rng.normal(size=60), {"likelihood": "heteroscedastic_gaussian", "normalize_y": True}),
    "fourier": (
        SparsePEPRegressor,
        X1,
        np.sin(X1[:, 0]),
        {"features": Fourier(-4.0, 4.0, 5), "kernel": Matern32(1.0, [1.0])},
    ),
    "untrained": (SparsePEPRegressor, X3, REAL, {"optimizer": None, "kernel": SquaredExponential(1.0, 1.0)}),
}


@pytest.fixture(scope="module")
def models():
    """Every case, fitted once when first asked for."""
    made = {}

    def get(name):
        if name not in made:
            kind, X, y, how = CASES[name]
            made[name] = fitted(kind, X, y, **how), X, y
        return made[name]

    return get


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_model_has_a_report(models, name):
    model, X, y = models(name)
    found = read(fit_report(model, X, y))
    labels = isinstance(model, SparsePEPClassifier)
    expected = ["What was fitted"]
    expected += ["Posterior"] * (X.shape[1] < 3)
    expected += ["Reliability" if labels else "Residuals and calibration"]
    expected += ["Relevance of the inputs"] * (X.shape[1] > 1 and name != "untrained")
    expected += ["Effect of the inputs"] * (X.shape[1] > 1)
    expected += ["Training"] * (name != "untrained")
    assert found.titles == [*expected, "Parameters"]
    where = "training rows, which the model has seen" if "blocks" in name else "training rows, each left out"
    assert f"Judged on 60 {where}." in found.text
    assert found.row("target") == ["y"]
    assert any(row[0] == "kernel.variance" for row in found.cells)
    assert "standardised inputs" not in found.text


@pytest.mark.parametrize("name", ["regressor 2-D", "three classes 2-D", "counts"])
def test_a_loaded_model_has_a_report_too(models, name, tmp_path):
    model, X, y = models(name)
    model.save(tmp_path / "model.npz")
    loaded = sparse_pep.load(tmp_path / "model.npz")
    assert judged(loaded, X, y, False).where == "60 training rows, which the model has seen"
    alone, held = read(fit_report(loaded)), read(fit_report(loaded, X[:20], y[:20], held_out=True))
    assert "Judged on 20 held-out rows." in held.text
    want_rows = {"Residuals and calibration", "Reliability", "Posterior", "Effect of the inputs"}
    assert len(want_rows & set(held.titles)) == 1 + (X.shape[1] < 3) + (X.shape[1] > 1)
    assert alone.titles == [title for title in held.titles if title not in want_rows]


def test_rows_that_are_not_those_of_training_are_not_left_out(models):
    model, X, y = models("regressor")
    assert "10 training rows, which the model has seen" in fit_report(model, X[:10], y[:10])
    assert "60 held-out rows" in fit_report(model, X, y, held_out=True)
    assert judged(model, X + 1e-9, y, False).where.endswith("which the model has seen")


def test_data_with_known_noise_are_not_left_out(models):
    model, X, y = models("regressor")
    assert model.can_leave_out(X) and not model.can_leave_out(X[:5])
    assert not models("blocks")[0].can_leave_out(models("blocks")[1])
    known = clone(model).set_params(optimizer=None).fit(X, y, known_variance=np.full(len(y), 0.1))
    assert not known.can_leave_out(X)
    weighted = clone(model).set_params(optimizer=None).fit(X, y, np.arange(len(y)) % 3 + 1.0)
    assert weighted.can_leave_out(X)


@pytest.mark.parametrize("name", ["regressor", "regressor 1-D", "two classes", "three classes 2-D", "counts", "student-t"])
def test_what_is_left_out_has_the_density_that_leave_one_out_gives(models, name):
    model, X, y = models(name)
    mean, var = left_out(model)
    density = model.likelihood_.predict_log_density(model._data.rows.y, mean, var) - np.log(model.y_scale_)
    np.testing.assert_allclose(density, model.leave_one_out(), atol=1e-6)
    assert not np.allclose(mean, latent_at(model, X)[0], atol=1e-6)


@pytest.mark.parametrize("name", ["regressor 1-D", "three classes 2-D", "student-t"])
def test_the_latent_function_is_that_of_the_likelihood(models, name):
    model, X, y = models(name)
    mean, var = latent_at(model, X)
    density = model.likelihood_.predict_log_density(model._data.rows.y, mean, var) - np.log(model.y_scale_)
    np.testing.assert_allclose(density, model.predict_log_density(X, y))


def test_rows_are_taken_at_even_steps_where_there_are_many(models):
    model, X, y = models("regressor")
    many = np.repeat(X, 100, axis=0)
    rows = judged(model, many, np.arange(6000.0), True)
    assert len(rows.y) == MOST_ROWS == len(rows.X) == len(rows.mean) == len(rows.var)
    assert rows.where == "5000 of 6000 held-out rows" and rows.y[0] == 0 and rows.y[-1] == 5999
    assert set(np.diff(rows.y)) == {1.0, 2.0}
    np.testing.assert_allclose(rows.mean, model.predict(rows.X))


def test_draws_are_of_the_predictive_distribution(models):
    for name in ("counts", "student-t"):
        model, X, y = models(name)
        rows = judged(model, X, y, True)
        draws = draws_of(model, rows)
        assert draws.shape == (60, 200)
        mean, std = model.predict(X, return_std=True)
        z = (draws.mean(axis=1) - mean) / std * np.sqrt(200)  # of many draws, standard normal
        assert np.abs(z).max() < 6.0 and 0.6 < np.std(z) < 1.5


@pytest.mark.parametrize("name", ["regressor 1-D", "three classes 2-D"])
def test_names_that_look_like_code_are_text(models, name):
    model, X, y = models(name)
    if isinstance(model, SparsePEPClassifier):
        y = np.array([f"{EVIL} {label}" for label in y])
        model = fitted(SparsePEPClassifier, X, y)
    text = fit_report(
        model,
        X,
        y,
        names=[f"{EVIL} {d}" for d in range(X.shape[1])],
        target=EVIL,
        scores={EVIL: 0.5},
        messages=[UserWarning(EVIL)],
        command=EVIL,
    )
    assert "<script" not in text and "&lt;script&gt;" in text
    assert EVIL in read(text).text


def test_scores_warnings_and_the_command_are_told(models):
    model, X, y = models("regressor")
    found = read(
        fit_report(
            model,
            X[:5],
            y[:5],
            held_out=True,
            names=["a", "b", "c"],
            target="price",
            scores={"SMSE": 0.123456, "mine": 2.0},
            messages=["first  line\nof it", UserWarning("other"), "first line of it"],
            command="sparse-pep fit x.csv",
        )
    )
    assert found.row("SMSE")[0] == "0.1235" and "no better" in found.row("SMSE")[1]
    assert found.row("mine") == ["2", ""]
    assert found.text.count("first line of it") == 1 and "other" in found.text
    assert found.titles[:3] == ["What was fitted", "Scores", "Warnings"]
    assert "with sparse-pep fit x.csv." in found.text and "Model of price" in found.text
    assert found.row("target") == ["price"]
    assert {"a", "b", "c"} <= {row[0] for row in found.cells}


def test_the_power_is_in_the_subtitle(models):
    assert "Propagation, power 0 to 1" in fit_report(models("powers")[0])
    assert "Propagation, power 0.5<" in fit_report(models("regressor")[0])


@pytest.mark.parametrize("name", ["regressor 2-D", "three classes 2-D"])
def test_inputs_are_shown_in_their_own_units(name):
    kind, X, y, _ = CASES[name]
    own = X * [10.0, 0.5] + [100.0, -3.0]
    model = fitted(kind, own, y, standardize=True)
    assert model.can_leave_out(own) and not model.can_leave_out(X)
    found = read(fit_report(model, own, y, names=["a", "b"]))
    expected = model.kernel_.lengthscale * model.x_scale_
    assert [found.row(name)[0] for name in "ab"] == [f"{ell:.4g}" for ell in expected]
    assert "These refer to the standardised inputs." in found.text and "each left out" in found.text


def test_inducing_points_are_drawn_in_units_of_the_inputs():
    own = 100.0 + 10.0 * X1
    model = fitted(SparsePEPRegressor, own, np.sin(X1[:, 0]), standardize=True)
    np.testing.assert_allclose(inducing_inputs(model), model.x_mean_ + model.x_scale_ * model.features_.Z)
    assert 75.0 < inducing_inputs(model).min() and np.abs(model.features_.Z).max() < 3.0
    iteration, paths = point_paths(model)
    np.testing.assert_allclose(paths[-1], inducing_inputs(model))
    with_record = read(fit_report(model, own, np.sin(X1[:, 0])))
    assert any("Inducing points from the start" in image["alt"] for image in with_record.images)
    model.diagnostics_ = {key: value for key, value in model.diagnostics_.items() if key != "parameter_trace"}
    assert len(read(fit_report(model, own, np.sin(X1[:, 0]))).images) == len(with_record.images) - 1


def test_of_labels_it_is_counted_which_is_taken_for_which(models):
    model, X, y = models("two classes")
    found = read(fit_report(model, X, y, held_out=True))
    guess = model.predict(X)
    for label in ("no", "yes"):
        counts = [str(np.sum((y == label) & (guess == other))) for other in ("no", "yes")]
        assert found.row(label) == counts
    assert found.row("classes") == ["no, yes"]


def test_classes_that_are_cut_to_the_same_name_stay_apart():
    class Two:
        classes_ = np.array(["x" * 40 + "1", "x" * 40 + "2"])

    names = class_names(Two())
    assert len(set(names)) == 2 and names[0].startswith("0: xxx")


def test_a_target_without_variance_has_no_residuals():
    heavy = fitted(
        SparsePEP, X3, REAL, likelihood=StudentT(scale=0.1, df=1.5), optimizer=None
    )
    found = read(fit_report(heavy, X3, REAL, held_out=True))
    assert not any(image["alt"].startswith("Residuals") for image in found.images)
    assert any(image["alt"].startswith("Share of targets") for image in found.images)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"names": ["a", "b"]}, "`names` must hold one name for each of the 3 inputs; got 2"),
        ({"X": X2}, r"`X` must have at least one row and 3 columns, as in `fit`; its shape is \(60, 2\)"),
        ({"X": X3[:0], "y": []}, "`X` must have at least one row"),
        ({"y": REAL[:-1]}, r"`y` must hold one target for each of the 60 rows of `X`; its shape is \(59,\)"),
        ({"y": None}, "`y` must hold one target"),
        ({"y": REAL[:, None]}, "`y` must hold one target"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(models, change, words):
    with pytest.raises(ValueError, match=words):
        fit_report(models("regressor")[0], **({"X": X3, "y": REAL} | change))


def test_names_of_a_table_are_those_of_its_columns():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(X3, columns=["age", "size", "rooms"])
    found = read(fit_report(fitted(SparsePEPRegressor, X, REAL)))
    assert {"age", "size", "rooms"} <= {row[0] for row in found.cells}


def test_values_as_text():
    assert as_text(0.000123456) == "0.0001235" and as_text(np.float64(2.0)) == "2" and as_text(7) == "7"
    assert as_text("<a href='x'>\"&") == "&lt;a href=&#x27;x&#x27;&gt;&quot;&amp;"
    assert table([("a", 1, "b")]) == (
        "<div class='wide'><table><tbody><tr><th scope='row'>a</th><td class='number'>1</td><td>b</td></tr>"
        "</tbody></table></div>"
    )
    assert in_figure("a $ b\n c") == r"a \$ b c" and len(in_figure("x" * 31)) == 30 and in_figure("x" * 30) == "x" * 30


def test_parameters_have_their_logarithms_undone():
    assert natural("kernel.0.log_variance", 0.0) == ("kernel.0.variance", 1.0)
    assert natural("kernel.log_lengthscale", np.log([1.0, 2.5])) == ("kernel.lengthscale", "1, 2.5")
    assert natural("features.Z", np.arange(9.0)[:, None]) == ("features.Z", "9 x 1 values, from 0 to 8")
    assert natural("mean.weights", np.zeros(8))[1] == ", ".join("0" * 8)


def test_a_picture_is_the_same_each_time():
    def draw(ax):
        ax.plot([0, 1], [1, 2])

    assert picture(draw, "a") == picture(draw, "a")


ROWS = [
    {
        "data": data,
        "power": power,
        "name": "VFE" if power == 0 else "EP",
        "split": split,
        "log ML/N": -1.0 - power,
        **scores,
        "converged": "yes" if split else "no",
        "seconds": 1.0 + split,
    }
    for data, scores in ((EVIL, {"SMSE": 0.25, "SMLL": -1.0}), ("labels", {"error": 0.125, "NLL": 0.5}))
    for power in (0.0, 1.0)
    for split in (0, 1, 2)
]


def test_a_comparison_has_tables_and_a_picture_of_each_score():
    text = sweep_report(ROWS, messages=["careful"], command="sparse-pep compare")
    assert "<script" not in text
    found = read(text)
    assert found.titles == ["Averages over the splits", "Scores against the power", "Warnings", "Each split"]
    assert [image["alt"].split(":")[0] for image in found.images] == ["log ML/N", "SMSE", "SMLL", "error", "NLL"]
    header = ["data", "power", "name", "log ML/N", "SMSE", "SMLL", "seconds", "error", "NLL", "converged"]
    averages = [[cell.replace("\xa0", " ") for cell in row] for row in found.cells if row[-1] == "2 of 3"]
    assert header in found.cells and len(averages) == 4
    assert averages[1] == [EVIL, "1", "EP", "-2 ± 0", "0.25 ± 0", "-1 ± 0", "2 ± 0.58", "", "", "2 of 3"]
    assert averages[2] == ["labels", "0", "VFE", "-1 ± 0", "", "", "2 ± 0.58", "0.125 ± 0", "0.5 ± 0", "2 of 3"]
    single = [row for row in found.cells if row[-1] in ("yes", "no")]
    assert len(single) == len(ROWS)
    assert single[-1] == ["labels", "1", "EP", "2", "-2", "", "", "3", "0.125", "0.5", "yes"]
    assert found.row("NLL")[0].startswith("mean of") and "careful" in found.text


def test_one_split_has_no_error():
    assert mean_and_error([{"power": 0, "smse": 0.5}], "smse") == "0.5"
    assert mean_and_error([{"power": 0, "smse": 0.5}, {"power": 0}], "smse") == ""
    assert scores_in([{"data": "a", "b": 1}, {"c": 2, "split": 0}]) == ["b", "c"]
    assert len(read(sweep_report(ROWS[:1])).images) == 3


def test_a_comparison_without_rows_is_refused():
    with pytest.raises(ValueError, match="`rows` must hold at least one row"):
        sweep_report([])
