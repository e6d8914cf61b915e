"""The figures that move, in a real browser: their numbers are those of the package, and they can
be used with a pointer, with keys and without motion.
"""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from javascript import in_browser
from numpy.testing import assert_allclose

from docs.build import ASSETS, STYLES
from sparse_pep import SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.model import model_evidence, model_predict

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SCRIPT = DOCS / "power.js"
PROBE = Path(__file__).with_name("power.js")  # what is done to a figure
HEAD = f'<link rel="stylesheet" href="{(DOCS / "site.css").as_uri()}">'
HEAD += f'<script src="{PROBE.as_uri()}"></script>'
PAGES = {
    "power": "power_ep_in_one_page.ipynb",
    "inducing": "03_features.ipynb",
    "site": "05_sites.ipynb",
}


def figure(name):
    """The form that the page spells out, a static picture below it, and the script."""
    cells = json.loads((ROOT / "nbs" / PAGES[name]).read_text("utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    form = next(found for text in texts if (found := re.search(r"<form.*</form>", text, re.DOTALL)))
    picture = '<div class="cell-output"><img alt="still"></div>'
    script = f'<script src="{SCRIPT.as_uri()}" defer></script>'
    return f"<main>{form[0]}{picture}</main>{script}"


SEVEN = [0.5, 1.4, 2.2, 3.1, 3.9, 4.8, 5.6]
STATES = [
    {"power": power, "labels": labels, "variance": variance, "lengthscale": lengthscale}
    | {"noise": noise, "Z": Z}
    for power, labels, variance, lengthscale, noise, Z in (
        (0.0, False, 1.0, 0.5, 0.1, SEVEN),
        (0.5, False, 1.0, 0.5, 0.1, SEVEN),
        (1.0, False, 1.0, 0.5, 0.1, SEVEN),
        (1e-9, False, 4.0, 0.3, 0.5, [1.0, 3.0]),
        (0.8, False, 0.3, 1.2, 0.01, [0.1, 2.0, 4.0, 5.9]),
        (0.3, False, 2.0, 0.4, 0.2, np.linspace(0.0, 6.0, 20).tolist()),
        (0.0, True, 1.0, 0.5, 0.1, SEVEN),
        (0.5, True, 3.0, 0.8, 0.1, [1.0, 2.0, 3.0, 4.0, 5.0]),
        (1.0, True, 2.0, 0.6, 0.1, [0.5, 2.0, 3.5, 5.0]),
        (0.25, True, 0.5, 1.5, 0.1, [3.0]),
    )
]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the figure shows in each state, with what the package fits to the same data."""
    script = f"return setStates({json.dumps(STATES)});"
    body = figure("power")
    found = in_browser(tmp_path_factory.mktemp("states"), script, HEAD, body)
    return [(state, one, fitted(state, one)) for state, one in zip(STATES, found, strict=True)]


def fitted(state, found):
    """The package's model in a state of the figure."""
    options = {
        "kernel": SquaredExponential(state["variance"], state["lengthscale"]),
        "features": InducingPoints(np.array(state["Z"])[:, None]),
        "power": state["power"],
        "training": None,
    }
    X = np.array(found["x"])[:, None]
    y = np.array(found["y"])
    if state["labels"]:
        return SparsePEPClassifier(**options).fit(X, np.where(y < 0, -1, 1))
    return SparsePEPRegressor(noise_variance=state["noise"], **options).fit(X, y)


def settled(model):
    """Evidence, and mean and variance of f on the figure's grid, with sites to all digits: an
    estimator stops where they change by less than 1e-8.
    """
    state = model._fitted()
    fit = model_evidence(state.model, state.training.problem, tol=1e-13)
    grid = np.linspace(0.0, 6.0, 101)[:, None]
    return fit.log_evidence, *model_predict(state.model, fit.posteriors, grid)


def test_ten_states_have_the_evidence_mean_and_variance_of_the_package(shown):
    assert len(shown) == 10
    for state, found, model in shown:
        evidence, mean, var = settled(model)
        assert found["evidence"] == pytest.approx(evidence, abs=1e-8), state
        assert_allclose(found["mean"], mean, rtol=0, atol=1e-8)
        assert_allclose(found["variance"], var, rtol=0, atol=1e-8)


def test_bounds_and_the_gradient_that_trains_are_those_of_the_package(shown):
    for state, found, model in shown:
        gradient = model.log_marginal_likelihood_gradient()
        ours = found["gradient"]
        close = {"rtol": 1e-6, "atol": 1e-6}
        assert_allclose(ours["variance"], gradient["kernel.log_variance"], **close)
        assert_allclose(ours["lengthscale"], np.sum(gradient["kernel.log_lengthscale"]), **close)
        assert_allclose(ours["Z"], gradient["features.Z"].ravel(), **close)
        if not state["labels"]:
            assert_allclose(ours["noise"], gradient["log_noise_variance"], **close)
            bounds = model.log_marginal_likelihood_bounds()
            assert_allclose(found["limits"], bounds, rtol=1e-8)
            assert bounds[0] <= found["exact"] <= bounds[1]


@pytest.fixture(scope="module", params=["moving", "still"])
def used(request, tmp_path_factory):
    """What the figure says while it is used, and whether motion is not wanted."""
    still = request.param == "still"
    flags = ["--force-prefers-reduced-motion"] * still
    folder = tmp_path_factory.mktemp(request.param)
    said = in_browser(folder, "return use();", HEAD, figure("power"), flags)
    return said | {"still": still}


def test_it_takes_the_place_of_the_static_picture_and_speaks(used):
    assert used["picture"] == 0
    assert used["words"].startswith("7 inducing points: evidence −")
    assert used["inputs"], "a slider has no label"


def test_sliders_choose_and_move_a_point(used):
    assert used["points"][60] == [0.5]
    assert used["byKey"] == [*used["points"][:60], [pytest.approx(0.55)], *used["points"][61:]]
    assert used["afterRemove"] == 6


def test_a_pointer_drags_a_point(used):
    right, rise = used["dragged"]
    assert 0.1 < right < 0.3
    assert 0.3 < rise < 1.5


def test_buttons_and_sliders_change_the_state(used):
    assert used["added"] == [7, 61]
    assert used["removed"] == 60
    assert used["power"] == 0.25
    assert used["reset"] == [7, 0.5]
    assert np.isfinite(used["empty"]), "no inducing point is left"


def test_training_raises_the_evidence(used):
    assert used["gain"] > 5.0


def test_the_sites_of_labels_are_seen_to_move_unless_motion_is_not_wanted(used):
    assert (used["drawn"] > 5) != used["still"]


@pytest.mark.parametrize("name", ["inducing", "site"])
def test_other_pages_move_with_the_same_code(tmp_path, name):
    changed, paths, broken, words = in_browser(tmp_path, "return moveOther();", HEAD, figure(name))
    assert changed
    assert paths >= 5
    assert not broken
    assert words


@pytest.mark.parametrize("name", PAGES)
def test_whatever_a_hand_does_numbers_are_drawn(tmp_path, name):
    found = in_browser(tmp_path, "return attack(100);", HEAD, figure(name))
    assert not found["wrong"]


@pytest.mark.skipif("SPARSE_PEP_TIMES" not in os.environ, reason="a timing, for a quiet machine")
def test_a_frame_is_ready_within_a_sixtieth_of_a_second(tmp_path):
    found = in_browser(tmp_path, "return pace();", HEAD, figure("power"))
    assert found.pop("points") == 80
    assert max(found.values()) < 1000.0 / 60.0, found


def test_the_code_is_short_plain_and_needs_no_network():
    lines = SCRIPT.read_text("utf-8").splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    assert not any(word in text for word in ("import ", "fetch(", "http:", "https:", "eval("))


def test_both_builders_put_the_script_beside_the_pages():
    named = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf-8"))
    assert SCRIPT.name in named["project"]["resources"]
    assert SCRIPT.name in ASSETS
    assert SCRIPT.name in STYLES, "staged for Quarto"
    for page in PAGES.values():
        assert f'<script src=\\"{SCRIPT.name}\\" defer>' in (ROOT / "nbs" / page).read_text("utf-8")
