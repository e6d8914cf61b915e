"""Laws that every evidence obeys. A new likelihood, kernel or set of features is tested by one
more line in `problems.PROBLEMS`.
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from laws import adapter
from laws.adapter import in_memory, in_pieces, on_workers
from laws.problems import PROBLEMS, N, X, without_weights
from numpy.random import default_rng
from numpy.testing import assert_allclose
from reference import dense
from reference.compare import error, gradient_error, slopes
from reference.problems import SearchedGaussian
from threadpoolctl import threadpool_limits

from sparse_pep.features import InducingPoints
from sparse_pep.likelihoods import Poisson
from sparse_pep.likelihoods.coupled import contrasts
from sparse_pep.means import ConstantMean

X_TEST = default_rng(2).uniform(-2.0, 2.0, (6, 2))


def names(condition):
    return [name for name, problem in PROBLEMS.items() if condition(problem)]


def each(condition):
    """A test of every problem that meets a condition."""
    return pytest.mark.parametrize("name", names(condition))


every_problem = pytest.mark.parametrize("name", PROBLEMS)


def gradient_of(problem, rows):
    """The fit of other rows, and its gradient."""
    return adapter.gradient(problem.model, rows, problem.common_power, **problem.options)


@cache
def solved(name):
    """The fit, its gradient, and the rows in memory."""
    problem = PROBLEMS[name]
    rows = in_memory(**problem.data)
    return *gradient_of(problem, rows), rows


def assert_same(one, other, close=1e-10, close_gradient=1e-8):
    """Two fits with their gradients: evidence, q(u) and gradient."""
    fit, gradient = one
    expected, expected_gradient = other
    assert fit.converged
    assert expected.converged
    assert error(fit.log_evidence, expected.log_evidence, abs(expected.log_evidence) + N) < close
    for ours, theirs in zip(adapter.whitened(fit), adapter.whitened(expected), strict=True):
        assert error(ours[0], theirs[0]) < 1e2 * close
        assert error(ours[1], theirs[1], 1.0 + np.max(np.abs(theirs[1]))) < 1e2 * close
    assert gradient.keys() == expected_gradient.keys()
    size = max(N, *(np.max(np.abs(value)) for value in expected_gradient.values()))
    for name, value in expected_gradient.items():
        assert error(gradient[name], value, size) < close_gradient, name


@every_problem
def test_the_evidence_is_that_of_dense_matrices(name):
    problem = PROBLEMS[name]
    fit, *_ = solved(name)
    assert fit.converged
    assert fit.jitter == 0.0
    assert fit.searched == (not problem.gaussian)
    assert np.isfinite(fit.log_evidence)
    assert fit.n_sweeps <= (0 if problem.gaussian else 200)
    expected, _ = problem.dense(fit)
    assert error(fit.log_evidence, expected, abs(expected) + N) < (
        1e-12 if problem.gaussian else 1e-9
    )


SEARCHED = names(lambda problem: not problem.gaussian)


@pytest.mark.parametrize("name", SEARCHED)
def test_the_evidence_is_level_in_the_sites(name):
    """Which is what a fixed point is: the largest lower bound at power 0, matched moments at
    power 1.
    """
    problem = PROBLEMS[name]
    fit, *_ = solved(name)
    value, slope = problem.at_sites(fit)
    enough = 1e-7 * abs(fit.log_evidence)
    assert abs(slope(default_rng(0), enough)) <= enough
    if problem.tight:  # and in the scale of the conditional
        assert abs(value(1.0 + 1e-4) - value(1.0 - 1e-4)) / 2e-4 < enough
        assert np.max(fit.scale) < 0.999


@every_problem
def test_the_gradient_is_that_of_differences(name):
    problem = PROBLEMS[name]
    fit, gradient, rows = solved(name)
    start = fit.start if fit.searched else None

    def value(parameters):
        return adapter.evidence(
            problem.model.with_parameters(parameters),
            rows,
            problem.common_power,
            start=start,
            **problem.options,
        ).log_evidence

    parameters = problem.model.parameters()
    assert list(gradient) == list(parameters)
    assert gradient_error(*slopes(value, parameters, gradient, 1e-3)) < 2e-6


@every_problem
def test_a_weight_is_so_many_copies(name):
    problem = without_weights(PROBLEMS[name])
    counts = problem.per_block(default_rng(3).integers(0 if problem.gaussian else 1, 4, size=N))
    weighted = problem.data | {"weight": counts.astype(float)}
    both = (in_memory(**weighted), in_memory(**problem.repeated(counts)))
    assert_same(
        *(gradient_of(problem, rows) for rows in both),
        1e-9,
        1e-6,
    )


@each(lambda problem: problem.likelihood.has_rate)
def test_an_exposure_is_a_shift_of_the_prior_mean(name):
    problem = replace(PROBLEMS[name], mean=ConstantMean(0.3))
    shifted = replace(problem, mean=ConstantMean(0.3 + np.log(2.5)))
    exposure = problem.column("exposure", 1.0)
    without, beside = (
        gradient_of(case, in_memory(**case.data | {"exposure": exposure * factor}))
        for case, factor in ((shifted, 1.0), (problem, 2.5))
    )
    assert_same(without, beside)


@each(lambda p: p.likelihood.has_rate and "blocks" not in p.more)
def test_at_power_zero_parts_of_a_poisson_count_add_up(name):
    problem = replace(PROBLEMS[name], likelihood=Poisson(), power=0.0)
    data = problem.data
    rows = np.repeat(np.arange(N), 3)
    share = np.tile([0.5, 0.2, 0.3], N)
    y = np.floor(data["y"] / 2.0)
    parts = {key: value[rows] for key, value in data.items()}
    parts["y"] = np.stack([y, data["y"] - y, 0.0 * y], axis=1).ravel()
    parts["exposure"] = problem.column("exposure", 1.0)[rows] * share
    whole, divided = (
        adapter.whitened(adapter.evidence(problem.model, in_memory(**some), 0.0, tol=1e-11))
        for some in (data, parts)
    )
    for ours, theirs in zip(whole, divided, strict=True):
        assert_allclose(ours[0], theirs[0], atol=1e-8)
        assert_allclose(ours[1], theirs[1], atol=1e-8)


@every_problem
def test_the_order_of_rows_and_of_inducing_points_does_not_matter(name):
    problem = PROBLEMS[name]
    fit, gradient, _ = solved(name)
    rng = default_rng(4)
    order = rng.permutation(N)
    points = np.arange(len(problem.features))
    model = problem.model
    if isinstance(problem.features, InducingPoints):
        points = rng.permutation(len(points))
        model = replace(model, features=InducingPoints(problem.features.Z[points]))
    rows = in_memory(**{name: value[order] for name, value in problem.data.items()})
    there, turned = adapter.gradient(model, rows, problem.common_power, **problem.options)
    expected = gradient | {
        name: value[points]
        for name, value in gradient.items()
        if name == "features.Z" and model is not problem.model
    }
    assert_same(
        (replace(there, posteriors=[]), turned),
        (replace(fit, posteriors=[]), expected),
        1e-10,
        1e-7,
    )
    assert error(there.site_precision, fit.site_precision[..., order]) < 1e-7
    here, moved = (
        adapter.predict(*one, X_TEST)
        for one in ((problem.model, fit.posteriors), (model, there.posteriors))
    )
    assert error(moved[0], here[0]) < 1e-7
    assert error(moved[1], here[1]) < 1e-7


@pytest.fixture(scope="module")
def client():
    with pytest.importorskip("distributed").Client(
        n_workers=2, processes=False, dashboard_address=None
    ) as client:
        yield client


PLACES = {  # and which problems are cut so: each, or every second, …
    "chunks": (1, lambda data, client: in_memory(**data)),
    "nothing kept": (2, lambda data, client: in_memory(**data)),
    "pieces": (1, lambda data, client: in_pieces(**data)),
    "pieces of a row or a block": (3, lambda data, client: in_pieces(**data, n_rows=1)),
    "workers": (6, lambda data, client: on_workers(client, **data)),
}
CUTS = [(place, name) for place, (every, _) in PLACES.items() for name in list(PROBLEMS)[::every]]


@pytest.mark.parametrize("place, name", CUTS)
def test_cuts_do_not_matter(place, name, client):
    problem = PROBLEMS[name]
    fit, gradient, rows = solved(name)
    data = PLACES[place][1](problem.data, client)
    model = problem.model
    power = problem.common_power
    kept = adapter.nothing_kept() if place == "nothing kept" else nullcontext()
    with (
        kept,
        adapter.chunks_of(7 if place == "chunks" else None),
        threadpool_limits(2 if place == "chunks" else 1),
    ):
        found = adapter.gradient(model, data, power, **problem.options)
        assert found[0].n_sweeps == fit.n_sweeps
        assert found[0].convergence.step == fit.convergence.step
        assert_same(found, (fit, gradient), 1e-10, 1e-9)
        if place == "pieces":
            for part, expected in zip(
                adapter.left_out(model, data, power, **problem.options),
                adapter.left_out(model, rows, power, **problem.options),
                strict=True,
            ):
                assert error(np.isfinite(part), np.isfinite(expected)) == 0.0
                assert error(np.nan_to_num(part), np.nan_to_num(expected)) < 1e-7


FIRST = slice(None, 10)  # ends between two blocks
LATER = slice(10, None)


def batch(problem, rows):
    """The columns of some rows of a problem."""
    return {name: value[rows] for name, value in problem.data.items()}


def model_after(problem, kept):
    """The model of the later rows, whose features have moved unless they are `kept`."""
    moved = {
        name: value + 0.2 * name.endswith(".Z")
        for name, value in problem.model.parameters().items()
    }
    return problem.model if kept else problem.model.with_parameters(moved)


@cache
def memory_of_first(name, kept):
    problem = PROBLEMS[name]
    rows = in_memory(**batch(problem, FIRST))
    return adapter.memory_of(problem.model, rows, problem.common_power, kept, tol=1e-11)


def continued(name, kept, rows):
    """The fit to later rows after the first ones, and its gradient."""
    problem = PROBLEMS[name]
    return adapter.gradient(
        model_after(problem, kept),
        rows,
        problem.common_power,
        memory=memory_of_first(name, kept),
        tol=1e-11,
    )


@cache
def continued_in_memory(name, kept):
    return continued(name, kept, in_memory(**batch(PROBLEMS[name], LATER)))


CONTINUED = names(lambda problem: not problem.tight)


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("name", CONTINUED)
def test_earlier_data_are_remembered_wherever_the_later_ones_are(name, kept):
    pieces = in_pieces(**batch(PROBLEMS[name], LATER), n_rows=4)
    assert_same(continued_in_memory(name, kept), continued(name, kept, pieces), 1e-9, 1e-7)


@pytest.mark.parametrize(
    "name, kept", [(name, list(PROBLEMS).index(name) % 2 == 1) for name in CONTINUED]
)
def test_the_gradient_beside_earlier_data_is_that_of_differences(name, kept):
    """Kept features do not move."""
    problem = PROBLEMS[name]
    model = model_after(problem, kept)
    rows = in_memory(**batch(problem, LATER))
    _, gradient = continued_in_memory(name, kept)

    def value(changes):
        changed = model.with_parameters(model.parameters() | changes)
        memory = memory_of_first(name, kept)
        fit = adapter.evidence(changed, rows, problem.common_power, memory=memory, tol=1e-11)
        return fit.log_evidence

    moving = {
        key: at
        for key, at in model.parameters().items()
        if not (kept and key.startswith("features."))
    }
    parts = {key: gradient[key] for key in moving}
    assert gradient_error(*slopes(value, moving, parts, 3e-4)) < 2e-6


def two_batches(name):
    """The fit of the first batch, that of both, and the whitened covariances of all rows."""
    problem = PROBLEMS[name]
    first = in_memory(**batch(problem, FIRST))
    before = adapter.evidence(problem.model, first, problem.common_power, tol=1e-11)
    fit, _ = continued_in_memory(name, True)
    Kuu, Kuf, _ = problem.covariances()
    return before, fit, np.linalg.solve(np.linalg.cholesky(Kuu), Kuf)


@each(
    lambda problem: (
        not {"tight", "blocks", "outputs"} & set(problem.more.split())
        and not problem.likelihood.is_coupled
    )
)
def test_a_posterior_is_the_prior_times_the_sites_of_both_batches(name):
    """Those of the first as they were."""
    before, fit, V = two_batches(name)
    weight = PROBLEMS[name].data.get("weight", 1.0)
    tau = np.hstack([before.site_precision, fit.site_precision]) * weight
    nu = np.hstack([before.site_shift, fit.site_shift]) * weight
    for c, (B, mean) in enumerate(adapter.whitened(fit)):
        assert error(B, np.eye(len(V)) + V * tau[c] @ V.T) < 1e-6
        assert error(B @ mean, V @ nu[c], np.max(np.abs(V) @ np.abs(nu[c]))) < 1e-6


def test_a_joint_posterior_is_the_prior_times_the_sites_of_both_batches():
    before, fit, V = two_batches("softmax")
    T = np.concatenate([before.site_precision, fit.site_precision], axis=-1)
    nu = np.hstack([before.site_shift, fit.site_shift])
    H = contrasts(3)
    ((B, mean),) = adapter.whitened(fit)
    sites = np.einsum("ic,cdn,jd,an,bn->iajb", H, T, H, V, V)
    assert error(B, np.eye(len(B)) + sites.reshape(B.shape)) < 1e-6
    assert error(B @ mean, (H @ nu @ V.T).ravel()) < 1e-6


def test_blocks_have_no_joint_sites_of_classes():
    problem = PROBLEMS["softmax"]
    rows = in_memory(**problem.data | {"blocks": np.arange(N)})
    with pytest.raises(ValueError, match="`blocks` cannot be used with a softmax of 3 classes"):
        gradient_of(problem, rows)


@each(lambda problem: problem.gaussian and not problem.private and not problem.tight)
def test_two_batches_with_gaussian_noise_are_one(name):
    fit, _ = continued_in_memory(name, True)
    whole, _, _ = solved(name)
    assert error(fit.log_evidence, whole.log_evidence, abs(whole.log_evidence) + N) < 1e-8
    for ours, theirs in zip(adapter.whitened(fit), adapter.whitened(whole), strict=True):
        assert error(ours[0], theirs[0]) < 1e-7
        assert error(ours[1], theirs[1]) < 1e-6


@each(
    lambda problem: (
        "blocks" not in problem.more and not problem.tight and not problem.likelihood.is_coupled
    )
)
def test_blocks_of_one_are_no_blocks(name):
    problem = PROBLEMS[name]
    fit, gradient, _ = solved(name)
    rows = in_memory(**problem.data | {"blocks": default_rng(2).permutation(N)})
    assert_same(gradient_of(problem, rows), (fit, gradient), 1e-9, 1e-6)


@each(lambda problem: not problem.private)
def test_one_power_for_all_is_the_same_for_each(name):
    problem = PROBLEMS[name]
    fit, gradient, _ = solved(name)
    rows = in_memory(**problem.data, power=np.full(N, problem.power))
    other = 0.3 if problem.gaussian else problem.power
    assert_same(
        adapter.gradient(problem.model, rows, other, **problem.options),
        (fit, gradient),
        1e-12,
        1e-9,
    )


@each(lambda problem: np.ndim(problem.power) == 0 and problem.power == 0.0 and not problem.tight)
def test_lower_bounds_have_their_order(name):
    """VFE, with blocks or without; the tight form; with more inducing points; for Gaussian noise
    the exact evidence.
    """
    problem = without_weights(PROBLEMS[name])
    rows = in_memory(**problem.data)
    plain = adapter.evidence(problem.model, rows, 0.0, tol=1e-11).log_evidence
    data = {key: value for key, value in problem.data.items() if key != "blocks"}
    assert (
        error(
            adapter.evidence(problem.model, in_memory(**data), 0.0, tol=1e-11).log_evidence, plain
        )
        < 1e-9
    )
    tight = adapter.evidence(
        problem.model, in_memory(**data), 0.0, tol=1e-11, tight=True
    ).log_evidence
    assert plain < tight
    if problem.gaussian:
        K = problem.kernel(problem.inputs)
        noise = problem.noise
        targets = np.atleast_2d(problem.y.T - problem.mean(problem.inputs).T)
        exact = sum(dense.exact_log_evidence(K, y, noise) for y in targets)
        # of whole blocks
        joint = adapter.evidence(problem.model, rows, 0.0, tight=True).log_evidence
        assert tight <= joint + 1e-9 * N
        assert joint < exact
    if isinstance(problem.features, InducingPoints):
        for more in ([[0.3, 0.7]], X[6:9]):
            richer = replace(
                problem.model, features=InducingPoints(np.vstack([problem.features.Z, more]))
            )
            assert adapter.evidence(richer, rows, 0.0, tol=1e-11).log_evidence > plain


@each(lambda problem: problem.gaussian and "blocks" not in problem.more)
def test_a_row_left_out_is_predicted_from_the_others(name):
    """With all its copies; exact where sites do not depend on each other, which those of
    Gaussian noise do not.
    """
    problem = PROBLEMS[name]
    n = 7
    mean, var, density = adapter.left_out(
        problem.model, solved(name)[2], problem.common_power, **problem.options
    )
    others = in_memory(**{key: value[np.arange(N) != n] for key, value in problem.data.items()})
    fit = adapter.evidence(problem.model, others, problem.common_power, **problem.options)
    expected = adapter.predict(problem.model, fit.posteriors, problem.inputs[n : n + 1])
    assert error(mean[..., n : n + 1], expected[0], 1.0) < 1e-9
    assert error(var[..., n : n + 1], expected[1]) < 1e-9
    noise = problem.noise[n] + expected[1][..., 0]
    target = problem.y[n]
    assert (
        error(
            density[n],
            np.sum(
                -0.5 * (np.log(2 * np.pi * noise) + (target - np.squeeze(expected[0])) ** 2 / noise)
            ),
        )
        < 1e-9
    )


@each(lambda problem: not problem.kernel.of_functionals)
def test_the_parts_of_a_kernel_add_up_to_the_function(name):
    mean, cov, whole, var = adapter.parts(PROBLEMS[name].model, solved(name)[0], X_TEST)
    assert error(mean.sum(axis=0), whole, 1.0) < 1e-10
    assert error(cov.sum(axis=(0, 1)), var, 1.0) < 1e-10
    assert np.all(np.einsum("pp...->p...", cov) > -1e-12)


KNOWN_SITES = names(
    lambda problem: problem.gaussian or isinstance(problem.likelihood, SearchedGaussian)
)
GROUPS = np.resize([2, 0, 1, 1, 2, 0, 1], N)  # which no block is within


@pytest.mark.parametrize("name", KNOWN_SITES)
def test_a_group_left_out_is_predicted_by_a_fit_without_it(name):
    """Exact where sites do not depend on other rows; blocks keep the rows of other groups."""
    problem = PROBLEMS[name]
    model = problem.model
    power = problem.common_power
    found = adapter.without_groups(model, solved(name)[2], power, GROUPS, **problem.options)
    for number in range(3):
        group = number == GROUPS
        others = in_memory(**{key: value[~group] for key, value in problem.data.items()})
        fit = adapter.evidence(model, others, power, **problem.options)
        expected = adapter.predict(model, fit.posteriors, problem.inputs[group])
        for ours, theirs in zip(found, expected, strict=True):
            assert error(ours[..., group], theirs, 1.0) < 1e-8


@each(lambda problem: "blocks" not in problem.more)
def test_groups_of_one_row_are_rows_left_out(name):
    problem = PROBLEMS[name]
    model = problem.model
    power = problem.common_power
    rows = solved(name)[2]
    found = adapter.without_groups(model, rows, power, np.arange(N), **problem.options)
    expected = adapter.left_out(model, rows, power, **problem.options)
    for ours, theirs in zip(found, expected[:2], strict=True):
        assert error(ours, theirs, 1.0) < 1e-7


@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_from_its_own_end_is_over(name):
    problem = PROBLEMS[name]
    fit, _, rows = solved(name)
    near = problem.model.with_parameters(
        {
            key: value + 0.02 * (key == "kernel.log_variance")
            for key, value in problem.model.parameters().items()
        }
    )
    searches = (problem.model, fit.start), (near, None), (near, fit.start)
    again, cold, warm = (
        adapter.evidence(
            model, rows, problem.common_power, start=start, tol=1e-8, tight=problem.tight
        )
        for model, start in searches
    )
    assert again.n_sweeps == 0 or problem.tight
    assert error(again.log_evidence, fit.log_evidence) < 1e-9
    assert error(warm.log_evidence, cold.log_evidence) < 1e-8


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [name for name in PROBLEMS if not name.startswith(("searched", "mixed"))]
)
def test_an_estimator_has_this_evidence(name):
    problem = PROBLEMS[name]
    fit, _, _ = solved(name)
    estimator = adapter.fitted_estimator(
        problem.model, tight=problem.tight, **{"power": problem.power} | problem.data
    )
    assert error(estimator.log_marginal_likelihood_value_, fit.log_evidence) < 1e-6
