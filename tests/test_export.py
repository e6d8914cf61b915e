"""Models that leave Python: the readers in C, which the machine's compiler compiles, and in
JavaScript predict as the package does, to 1e-12.
"""

import json
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from conftest import value_error
from javascript import NODE, in_browser
from numpy.testing import assert_allclose

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor, load
from sparse_pep.estimators.export import READERS
from sparse_pep.features import GaussianBlur
from sparse_pep.kernels import (
    Categorical,
    Constant,
    Coregion,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from sparse_pep.means import LinearMean

COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)

PROGRAM = """
#include <stdio.h>
#include "sparse_pep.h"
int main(int n, char **words)
{
    static char text[4000000];
    double x[64], mean, std, low, high, variance, f;
    FILE *file = fopen(words[1], "rb");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    spep_model *model = spep_read(text);
    if (!model) return 3;
    for (;;) {
        for (int d = 0; d < spep_inputs(model); d++)
            if (scanf("%lf", &x[d]) != 1) { spep_free(model); return 0; }
        f = spep_f(model, x, &variance);
        if (model->likelihood == SPEP_GAUSSIAN) {
            spep_predict(model, x, &mean, &std);
            spep_interval(model, x, 0.9, &low, &high);
            printf("%.17g %.17g %.17g %.17g %.17g\\n", mean, std, low, high, spep_mean(model, x));
        } else printf("%.17g %.17g %.17g\\n", f, variance, spep_probability(model, x));
    }
}
"""

JAVASCRIPT = """
const model = sparsePEP(FILE);
return ROWS.map((x) => {
  if (!model.classes) {
    const { mean, std } = model.predict(x), [low, high] = model.interval(x, 0.9);
    return [mean, std, low, high, mean];
  }
  const { mean, variance } = model.f(x);
  return [mean, variance, model.predict(x).probability];
});
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """A program that reads an exported model, and rows of inputs, and prints predictions."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("reader")
    (folder / "reader.c").write_text(PROGRAM)
    strict = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    command = [COMPILER, *strict, f"-I{READERS}", "reader.c", "-o", "reader", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "reader"


def from_c(program, path, rows):
    """The predictions of the C reader for rows of numbers."""
    text = "\n".join(" ".join(map(repr, row)) for row in np.asarray(rows).tolist())
    done = subprocess.run(
        [program, path], input=text, capture_output=True, text=True, check=True, timeout=60
    )
    return np.array([line.split() for line in done.stdout.splitlines()], dtype=float)


def from_javascript(folder, path, rows):
    """The predictions of the JavaScript reader, in node or in a browser."""
    reader = READERS / "sparse_pep.js"
    given = f"const FILE = {path.read_text('utf-8')}, ROWS = {json.dumps(rows)};"
    script = given + JAVASCRIPT
    if NODE is None:
        head = f'<script src="{reader.as_uri()}"></script>'
        return np.array(in_browser(folder, script, head))
    print_it = f"console.log(JSON.stringify((() => {{ {script} }})()))"
    program = folder / "program.js"
    program.write_text(f"require({json.dumps(str(reader))}); {print_it}", "utf-8")
    done = subprocess.run([NODE, program], capture_output=True, text=True, check=True, timeout=60)
    return np.array(json.loads(done.stdout))


def expected(model, X):
    """The same predictions by the package."""
    if hasattr(model, "classes_"):
        return np.column_stack([*model.predict_f(X), model.predict_proba(X)[:, 1]])
    if isinstance(model, SparsePEP):  # of labels −1 and +1
        return np.column_stack([*model.predict_f(X), 0.5 + 0.5 * model.predict(X)])
    mean, std = model.predict(X, return_std=True)
    return np.column_stack([mean, std, *model.predict_interval(X, 0.9), mean])


rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, (80, 2))
NEW = rng.uniform(-2.5, 2.5, (30, 2))
y = 30.0 + 5.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=80)
LABELS = np.where(y > 30.0, "warm", "cold")

KERNELS = {
    "SE": SquaredExponential(2.0, [0.8, 1.5]),
    "Matern12": Matern12(1.0, 0.9),
    "Matern32": Matern32(1.5, [0.7, 2.0]),
    "Matern52": Matern52(1.5, 1.1),
    "RationalQuadratic": RationalQuadratic(1.5, [0.8, 1.4], 0.7),
    "sum": SquaredExponential(1.0, 1.0, active_dims=[0])
    + Linear([0.5], active_dims=[1])
    + Constant(0.3)
    + White(0.1),
    "product": Periodic(1.0, 0.9, 2.2, active_dims=[0]) * Matern32(1.0, 2.0)
    + Linear(0.2) * Constant(2.0),
}


def regressor(**options):
    return SparsePEPRegressor(n_inducing=12, training=None, random_state=0, **options)


def classifier(**options):
    return SparsePEPClassifier(n_inducing=12, training=None, random_state=0, **options)


MODELS = {
    **{f"values, {name}": (regressor(kernel=kernel), y) for name, kernel in KERNELS.items()},
    "values, trained": (SparsePEPRegressor(n_inducing=12, local=None, random_state=0), y),
    "values, scaled": (regressor(), y),
    "values, linear mean": (regressor(mean=LinearMean(1.0, [0.5, -2.0])), y),
    "labels, probit": (classifier(kernel=KERNELS["SE"]), LABELS),
    "labels, logit": (
        SparsePEP(n_inducing=12, training=None, likelihood="logit", random_state=0),
        np.where(y > 30.0, 1.0, -1.0),
    ),
}


@pytest.fixture(scope="module", params=MODELS)
def exported(request, tmp_path_factory):
    """A fitted model, and its file."""
    model, targets = MODELS[request.param]
    model.fit(X, targets)
    path = tmp_path_factory.mktemp("model") / "model.json"
    model.export(path)
    return model, path


@pytest.mark.filterwarnings("ignore:`X`. rows lie beyond")
def test_the_c_reader_predicts_as_the_package_does(program, exported):
    model, path = exported
    assert_allclose(from_c(program, path, NEW), expected(model, NEW), 1e-12, 1e-12)


@pytest.mark.filterwarnings("ignore:`X`. rows lie beyond")
def test_the_javascript_reader_predicts_as_the_package_does(tmp_path, exported):
    model, path = exported
    found = from_javascript(tmp_path, path, NEW.tolist())
    assert_allclose(found, expected(model, NEW), 1e-12, 1e-12)


TABLE = pd.DataFrame(
    {"width": X[:, 0], "city": np.where(X[:, 1] > 1.0, "Bern", "Rome"), "price": X[:, 1]}
)
TABLE.loc[3:7, "price"] = np.nan
TABLE.loc[10:14, "city"] = None


def test_categories_of_a_table_and_their_gaps_are_read(program, tmp_path):
    path = tmp_path / "model.json"
    model = regressor().fit(TABLE, y)
    model.export(path)
    rows = TABLE.head(20).dropna(subset="price")
    cells = [
        {name: value for name, value in row.items() if value == value}
        for row in rows.to_dict("records")
    ]
    want = expected(model, rows)
    assert_allclose(from_javascript(tmp_path, path, cells), want, 1e-12, 1e-12)
    numbers = model.columns_.transform(rows)
    assert_allclose(from_c(program, path, numbers), want, 1e-12, 1e-12)


def test_an_empty_cell_whose_error_counts_is_refused_by_the_reader(tmp_path):
    """The package adds the variance that an empty cell leaves, and the readers cannot."""
    path = tmp_path / "model.json"
    table = TABLE[["width", "price"]]
    model = regressor().fit(table, y)
    assert any(column.spread for column in model.columns_.columns)
    model.export(path)
    row = {"width": 1.0, "price": 0.5}
    want = expected(model, pd.DataFrame([row]))
    assert_allclose(from_javascript(tmp_path, path, [row]), want, 1e-12, 1e-12)
    with pytest.raises((subprocess.CalledProcessError, AssertionError)):
        from_javascript(tmp_path, path, [{"width": 1.0}])


def test_codes_are_compared_and_matrices_of_codes_refused(program, tmp_path):
    path = tmp_path / "model.json"
    rows = np.column_stack([X[:, 0], np.arange(80) % 3])
    smooth = SquaredExponential(1.0, 1.0, active_dims=[0])
    model = regressor(kernel=smooth * Categorical(1.0, 0.6, active_dims=[1])).fit(rows, y)
    model.export(path)
    want = expected(model, rows)
    assert_allclose(from_c(program, path, rows), want, 1e-12, 1e-12)
    assert_allclose(from_javascript(tmp_path, path, rows.tolist()), want, 1e-12, 1e-12)
    other = regressor(kernel=smooth * Coregion(3, active_dims=[1])).fit(rows, y)
    with value_error("the kernel Coregion"):
        other.export(path)


def test_a_model_that_was_saved_exports_the_same_file(tmp_path):
    model = regressor().fit(X, y)
    model.save(tmp_path / "model.npz")
    for name, one in (("first", model), ("second", load(tmp_path / "model.npz"))):
        one.export(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": "other"}', '{"format": "sparse_pep export", "version": 2}'],
)
def test_the_c_reader_returns_nothing_for_another_file(program, tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    done = subprocess.run([program, tmp_path / "model.json"], input="", text=True)
    assert done.returncode == 3


def test_the_c_reader_survives_a_file_that_is_cut_off(program, tmp_path):
    path = tmp_path / "model.json"
    regressor(kernel=KERNELS["product"]).fit(X, y).export(path)
    whole = path.read_text()
    for end in range(0, len(whole) - 1, 97):
        path.write_text(whole[:end])
        done = subprocess.run([program, path], input="", text=True)
        assert done.returncode in (0, 3), end


LOCAL = {"n_inducing": 5, "local": 5, "training": None}


@pytest.mark.parametrize(
    "model, targets, words",
    [
        (
            SparsePEPRegressor(**LOCAL),
            y,
            "nearby training rows; fit with training='lbfgs', local=None",
        ),
        (regressor(), np.column_stack([y, y]), "several outputs; fit a model for each"),
        (SparsePEP(n_inducing=5, training=None, likelihood="poisson"), y.round(), "Poisson"),
        (classifier(), np.arange(80) % 3, "Softmax"),
        (regressor(monotone={0: 1}), y, "observations other than values, or `monotone`"),
        (regressor(features=GaussianBlur(X[:5], [0.3, 0.3])), y, "GaussianBlur"),
    ],
)
def test_other_models_are_refused_in_one_line(tmp_path, model, targets, words):
    model.fit(X, targets)
    with value_error(words) as refused:
        model.export(tmp_path / "model.json")
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())
