"""Power EP for any likelihood against exact numbers, dense references and itself."""

from dataclasses import replace

import numpy as np
import pytest
from reference import classification as dense
from reference.chunks import chunks_of
from reference.compare import error
from reference.searched import SearchedGaussian
from scipy.special import log_ndtr

from sparse_pep.features import InducingPoints
from sparse_pep.inference import energy_gradient, infer, leave_one_out
from sparse_pep.kernels import Matern32, SquaredExponential
from sparse_pep.likelihoods import (
    Gaussian,
    HeteroscedasticGaussian,
    Logit,
    NoisyProbit,
    Poisson,
    Probit,
    StudentT,
)
from sparse_pep.multiclass import Softmax
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.quadrature import STRICT
from sparse_pep.regression import evidence, predict_f
from sparse_pep.shards import Shard
from sparse_pep.sites import q_moments, sequential_sweep

KERNELS = {"se": SquaredExponential, "matern32": Matern32}
PROBLEMS = ["c01_1d", "c03_per_datum_alpha", "c04_Z_equals_X", "c05_matern32", "c07_large_variance"]


def covariances_of(kernel, features, X):
    """covariances(rows) → Kuf, kff, pull of adjoints onto log parameters and Z, one vector."""

    def covariances(rows):
        Kuf, pull_Kuf = features.Kuf_vjp(kernel, X[rows])
        kff, pull_kff = kernel.diag_vjp(X[rows])

        def pull(Kuf_bar, kff_bar):
            (by_kernel, by_features), by_diagonal = pull_Kuf(Kuf_bar), pull_kff(kff_bar)
            parts = [by_kernel[name] + by_diagonal[name] for name in by_kernel]
            return np.concatenate([np.ravel(part) for part in (*parts, by_features["Z"])])

        return Kuf, kff, pull

    return covariances


class Problem:
    """Kernel, inducing points, data and likelihood, and what the functions make of them."""

    def __init__(self, kernel, Z, X, y, likelihood):
        self.kernel, self.features, self.X, self.y = kernel, InducingPoints(Z), X, y
        self.likelihood, self.covariances = likelihood, covariances_of(kernel, self.features, X)

    def infer(self, power, **options):
        return infer(
            self.features.Kuu(self.kernel), self.covariances, self.likelihood, self.y, power, **{"tol": 1e-10} | options
        )

    def gradient(self, power):
        """∂ log Z over the kernel's parameters, Z and the likelihood's, one vector."""
        Kuu, pull_Kuu = self.features.Kuu_vjp(self.kernel)
        Kuu_bar, pulled, own, _ = energy_gradient(self.infer(power))
        by_kernel, by_features = pull_Kuu(Kuu_bar)
        more = [np.ravel(part) for part in (*by_kernel.values(), by_features["Z"])]
        return np.concatenate([pulled + np.concatenate(more), own])

    def predict(self, fit, X):
        return predict_f(fit.posteriors[0], self.features.Kuf(self.kernel, X), self.kernel.diag(X))

    def arrays(self):
        """Kuu, Kuf, kff."""
        return self.features.Kuu(self.kernel), self.features.Kuf(self.kernel, self.X), self.kernel.diag(self.X)


def of_file(vectors, name):
    data = next(problem for problem in vectors["classification"] if problem["id"] == name)
    kernel = KERNELS[data["kernel"]["name"]](data["kernel"]["variance"], data["kernel"]["lengthscales"])
    problem = Problem(kernel, np.array(data["Z"]), np.array(data["X"]), np.array(data["y"]), Probit())
    return problem, data


def small(likelihood, seed=0, N=25, M=5, variance=2.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(N, 1))
    y = likelihood.sample(1.5 * np.sin(1.7 * X[:, 0]), rng)
    return Problem(SquaredExponential(variance, 0.9), np.linspace(-2.5, 2.5, M)[:, None], X, y, likelihood)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_exact_numbers(vectors, name):
    problem, data = of_file(vectors, name)
    assert data["cases"]
    for case in data["cases"]:
        fit = problem.infer(np.array(case["alpha"]))
        assert fit.converged and fit.jitter == 0.0
        mean, var = problem.predict(fit, np.array(data["Xtest"]))
        q_mean, q_cov = q_moments(fit.posteriors[0])
        got = {
            "logZ": fit.log_evidence,
            "q_mean": q_mean,
            "q_cov": q_cov,
            "tau": fit.site_precision[0],
            "nu": fit.site_shift[0],
            "f_mean": mean,
            "f_var": var,
            "prob": Probit().predict_proba(mean, var)[:, 1],
        }
        for key, value in got.items():
            assert error(value, case[key]) < 1e-7, (key, case["alpha"])
        if "grad" in case:
            order = ("log_variance", "log_lengthscales", "Z")
            exact = np.concatenate([np.ravel(case["grad"][key]) for key in order])
            assert error(problem.gradient(np.array(case["alpha"])), exact) < 1e-6


def test_all_problems_of_the_file_are_tested(vectors):
    assert [problem["id"] for problem in vectors["classification"]] == PROBLEMS


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_the_dense_sequential_iteration(power):
    problem = small(Probit(), seed=3)
    expected, fit = dense.iterated(dense.probit, problem.y, *problem.arrays(), power), problem.infer(power)
    assert error(fit.site_precision[0], expected.site_precision) < 1e-6
    assert fit.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)


@pytest.mark.parametrize("power", [0.0, 1e-6, 0.3, 1.0])
@pytest.mark.parametrize("likelihood", [Gaussian(0.2), SearchedGaussian(0.2)], ids=["known", "searched"])
def test_gaussian_noise_takes_one_sweep(power, likelihood):
    problem = small(likelihood)
    closed = evidence(*problem.arrays(), problem.y, 0.2, power)
    fit = problem.infer(power)
    assert fit.searched == isinstance(likelihood, SearchedGaussian)
    assert fit.converged and fit.n_sweeps <= fit.searched
    assert error(fit.log_evidence, closed.log_evidence) < 1e-9
    assert error(np.array(q_moments(fit.posteriors[0])[0]), q_moments(closed.posterior)[0]) < 1e-9
    assert error(fit.site_precision[0], 1 / (power * closed.dff + 0.2)) < 1e-9


def test_power_zero_is_the_variational_optimum():
    problem = small(Probit(), N=20, M=4)
    Kuu, Kuf, kff = problem.arrays()
    bound, q_mean, q_cov = dense.variational_optimum(dense.probit, problem.y, Kuu, Kuf, kff)
    fit = problem.infer(0.0)
    assert fit.log_evidence >= bound - 1e-7
    assert abs(fit.log_evidence - bound) < 1e-6
    got_mean, got_cov = q_moments(fit.posteriors[0])
    assert error(got_mean, q_mean) < 1e-5 and error(got_cov, q_cov) < 1e-5


def test_all_inputs_as_inducing_inputs_and_power_one_is_textbook_ep():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-3, 3, size=(14, 1)), axis=0) + 0.05 * np.arange(14)[:, None]
    y = np.where(rng.normal(size=14) > 0, 1.0, -1.0)
    problem = Problem(SquaredExponential(2.0, 0.5), X, X, y, Probit())
    K, _, _ = problem.arrays()
    reference, fit = dense.ep_classification(K, y), problem.infer(1.0)
    assert abs(fit.log_evidence - reference.log_evidence) < 1e-6
    X_test = np.linspace(-4, 4, 9)[:, None]
    mean, var = problem.predict(fit, X_test)
    expected = dense.ep_predict(K, problem.kernel(X, X_test), problem.kernel.diag(X_test), reference)
    expected = expected if isinstance(expected, np.ndarray) else expected[-1]
    assert error(np.exp(log_ndtr(mean / np.sqrt(1 + var))), expected) < 1e-6


@pytest.mark.parametrize("likelihood", [Logit(), Poisson()], ids=lambda likelihood: type(likelihood).__name__)
@pytest.mark.parametrize(("power", "step"), [(0.0, 0.7), (0.2, 1.0), (1.0, 1.0), (0.5, 0.5)])
def test_the_fixed_point_is_that_of_one_datum_after_the_other(likelihood, power, step):
    """The paper's procedure, with full steps and with those of fractional EP."""
    problem = small(likelihood, N=20)
    fit = problem.infer(power)
    Kuu, Kuf, _ = problem.arrays()
    Luu = factorise(Kuu)
    V, sites = solve_lower(Luu, Kuf), (np.zeros(20), np.zeros(20))

    def tilted(rows, mean, var, power):
        found = likelihood.tilted(problem.y[[rows]], np.array([mean]), np.array([var]), power)
        return [value[0] for value in found[:3]]

    for _ in range(40):
        before, sites = sites, sequential_sweep(Luu, V, fit.dff, tilted, *sites, power, step=step)
        if np.allclose(sites[0], before[0], rtol=1e-10, atol=0.0):
            break
    assert error(fit.site_precision[0], sites[0]) < 1e-7 and error(fit.site_shift[0], sites[1]) < 1e-7


@pytest.mark.parametrize("memory", [0, 2, 5])
def test_acceleration_changes_the_way_and_not_the_end(memory):
    problem = small(Probit(), N=40, M=8, variance=20.0)
    plain, fit = problem.infer(0.3, memory=0), problem.infer(0.3, memory=memory)
    assert fit.converged and error(fit.site_precision, plain.site_precision) < 1e-7
    assert fit.n_sweeps <= plain.n_sweeps if memory == 0 else fit.n_sweeps < plain.n_sweeps


def test_chunks_do_not_matter():
    problem = small(Probit(), N=40)
    whole = problem.infer(0.5)
    with chunks_of(7):
        cut = problem.infer(0.5)
    assert error(cut.site_precision, whole.site_precision) < 1e-8
    assert error(cut.log_evidence, whole.log_evidence) < 1e-11


@pytest.mark.parametrize("likelihood", [Probit(), Softmax(3)], ids=lambda likelihood: type(likelihood).__name__)
def test_nothing_kept_in_memory(likelihood, monkeypatch):
    problem = small(Probit(), N=40)
    problem.likelihood = likelihood
    problem.y = problem.y if isinstance(likelihood, Probit) else np.arange(40) % 3
    kept = problem.infer(0.5)
    monkeypatch.setattr("sparse_pep.shards.KEPT_V", 0)
    monkeypatch.setattr("sparse_pep.shards.KEPT_KUF", 0)
    again = problem.infer(0.5)
    assert kept.shards.local[0].kept and not again.shards.local[0].kept
    assert error(again.site_precision, kept.site_precision) < 1e-10
    for one, two in zip(energy_gradient(again), energy_gradient(kept)):
        assert error(one, two, 1.0) < 1e-8


def test_a_warm_start_takes_fewer_sweeps_and_ends_at_the_same_place():
    problem = small(Probit(), N=40)
    first = problem.infer(0.5)
    again = problem.infer(0.5, start=first.released().start)
    assert again.n_sweeps == 0 and again.converged
    assert again.log_evidence == pytest.approx(first.log_evidence, abs=1e-9)
    near = problem.infer(0.6)
    from_first = problem.infer(0.6, start=first.start)
    assert from_first.n_sweeps < near.n_sweeps
    assert from_first.log_evidence == pytest.approx(near.log_evidence, abs=1e-9)


def test_digits_of_the_projections_follow_the_search(monkeypatch):
    """A cold search begins with five and a warm one with nine; both end with nine."""
    problem, asked = small(Logit(), N=60), []
    through = Logit.tilted

    def recorded(self, y, mean, var, power, accuracy=STRICT):
        asked.append(accuracy.relative)
        return through(self, y, mean, var, power, accuracy)

    monkeypatch.setattr(Logit, "tilted", recorded)
    cold = problem.infer(0.5, tol=1e-8)
    assert asked[0] == 1e-9  # the start itself, under the prior
    assert asked[1] == 1e-5
    assert asked[-1] == 1e-9
    assert len(set(asked[1:])) > 2
    asked.clear()
    warm = problem.infer(0.5, tol=1e-8, start=cold.start)
    assert asked == [1e-9]
    assert warm.converged
    assert max(cold.quadrature_error, warm.quadrature_error) <= 1e-9


@pytest.mark.parametrize("likelihood", [Gaussian(0.2), Probit(), Poisson()], ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_weights_are_copies(likelihood, power):
    problem = small(likelihood, N=15)
    count = np.random.default_rng(4).integers(0, 4, size=15)
    rows = np.repeat(np.arange(15), count)
    copies = Problem(problem.kernel, problem.features.Z, problem.X[rows], problem.y[rows], likelihood)
    weighted, copied = problem.infer(power, weight=count), copies.infer(power)
    assert weighted.log_evidence == pytest.approx(copied.log_evidence, rel=1e-9)
    assert error(weighted.site_precision[:, rows], copied.site_precision) < 1e-7
    for one, two in zip(q_moments(weighted.posteriors[0]), q_moments(copied.posteriors[0])):
        assert error(one, two) < 1e-8
    bars = [energy_gradient(fit) for fit in (weighted, copied)]
    for one, two in zip(*bars):
        assert error(one, two, max(np.max(np.abs(two), initial=0.0), 1e-300)) < 1e-6


def test_several_latent_functions_of_one_class_against_the_rest():
    """Softmax over two classes is the logistic function of their difference, whose prior has twice the variance."""
    problem = small(Logit(), N=20)
    two = Problem(problem.kernel, problem.features.Z, problem.X, (problem.y > 0).astype(float), Softmax(2))
    one = Problem(SquaredExponential(4.0, 0.9), problem.features.Z, problem.X, problem.y, Logit())
    apart, alone = two.infer(1.0), one.infer(1.0)
    assert apart.converged and apart.site_precision.shape == (2, 20)
    assert error(apart.site_precision[0], apart.site_precision[1]) < 1e-7
    assert abs(apart.log_evidence - alone.log_evidence) < 0.05 * abs(alone.log_evidence)


def test_stopped_early_says_so():
    fit = small(Probit()).infer(0.5, max_sweeps=2)
    assert not fit.converged and fit.n_sweeps == 2 and fit.change > 1e-10
    assert len(fit.trace) == 3


@pytest.mark.parametrize(
    ("power", "more", "words"),
    [
        (1.5, {}, "`power`"),
        (np.full(3, 0.5), {}, "`power`.*each of the 25 rows"),
        (0.5, {"weight": -1.0}, "`weight`"),
        (0.5, {"weight": np.full(25, np.nan)}, "`weight`"),
    ],
)
def test_what_does_not_fit_the_data(power, more, words):
    with pytest.raises(ValueError, match=words):
        small(Probit()).infer(power, **more)


def test_noise_variances_that_are_none():
    with pytest.raises(ValueError, match="`noise_variance`"):
        small(Gaussian(0.2)).infer(0.5, noise_variance=np.linspace(0.0, 1.0, 25))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("likelihood", [StudentT(2.0, 0.05), NoisyProbit(0.001)], ids=["student", "noisy"])
def test_not_log_concave_is_never_nan(likelihood, seed, power):
    problem = small(likelihood, seed=seed, N=40, M=8, variance=50.0)
    if isinstance(likelihood, StudentT):
        problem.y[::5] += 30.0 * (-1) ** np.arange(8)
    fit = problem.infer(power, max_sweeps=60)
    mean, var = problem.predict(fit, np.linspace(-5, 5, 50)[:, None])
    assert np.isfinite(fit.log_evidence) and np.all(np.isfinite(mean)) and np.all(var > 0)
    assert fit.smallest_cavity > 0 and np.all(np.isfinite(fit.site_precision))


@pytest.mark.parametrize("likelihood", [Probit(), Logit()])
def test_changes_by_rounding_are_not_progress_that_can_be_lost(likelihood):
    """Inducing points that explain nothing: the sites hardly matter, so they change by rounding only."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(8, 1)), np.sign(rng.normal(size=8))
        fit = Problem(SquaredExponential(), np.full((1, 1), 5.0), X, y, likelihood).infer(0.0)
        assert fit.converged and fit.n_sweeps < 5


@pytest.mark.parametrize("least, largest, power", [(-6, 1, 0.5), (-6, 1, 0.8), (-6, 1, 1.0), (-7, -1, 0.25)])
def test_noise_that_varies_strongly_does_not_lead_the_acceleration_astray(least, largest, power):
    X, rng = np.linspace(-3.0, 3.0, 60)[:, None], np.random.default_rng(1)
    y = np.sin(2.0 * X[:, 0]) + np.exp(np.linspace(least, largest, 60)) * rng.normal(size=60)
    Z = np.linspace(-2.7, 2.7, 8)[:, None]
    problem = Problem(SquaredExponential(), Z, X, y, HeteroscedasticGaussian())
    plain, fit = (problem.infer(power, tol=1e-6, memory=memory) for memory in (0, 5))
    assert fit.converged and fit.n_sweeps < 60 and error(fit.log_evidence, plain.log_evidence) < 1e-8


def test_leave_one_out_is_the_posterior_of_the_others():
    """Exact where the cavity is: Gaussian noise."""
    problem = small(Gaussian(0.3), N=15)
    fit = problem.infer(0.0)
    scores = leave_one_out(fit, problem.likelihood, problem.y)
    Kuu, Kuf, _ = problem.arrays()
    V = solve_lower(factorise(Kuu), Kuf)
    for n in (0, 7):
        others = np.arange(15) != n
        B = np.eye(5) + V[:, others] @ V[:, others].T / 0.3
        mean = V[:, n] @ np.linalg.solve(B, V[:, others] @ problem.y[others] / 0.3)
        var = V[:, n] @ np.linalg.solve(B, V[:, n]) + fit.dff[n] + 0.3
        expected = -0.5 * (np.log(2 * np.pi * var) + (problem.y[n] - mean) ** 2 / var)
        assert scores[n] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("power", "most"), [(0.0, 45), (0.5, 30)])
def test_separable_classes_settle_in_few_sweeps(power, most):
    """A shift that all latent functions share decays slowly unless the step takes it away."""
    kernel, Z = SquaredExponential(300.0, 1.4), np.linspace(-3.0, 3.0, 8)[:, None]
    X = np.linspace(-3.0, 3.0, 45)[:, None]
    y = np.digitize(X[:, 0], [-1.0, 1.0]).astype(float)
    given = kernel(Z), lambda rows: (kernel(Z, X[rows]), kernel.diag(X[rows]), None), Softmax(3), y, power
    fit = infer(*given, jitter=1e-8)
    slow = infer(*given, jitter=1e-8, kind=lambda **named: Shard(**named | {"centred": False}))
    assert fit.converged and fit.n_sweeps <= most < 1.5 * fit.n_sweeps
    assert slow.n_sweeps > most and error(fit.log_evidence, slow.log_evidence) < 1e-9


def test_what_may_be_compared_has_settled_or_nearly():
    fit = replace(small(Probit()).infer(0.5), converged=False, change=0.9)
    steady, moving = np.full(30, fit.log_evidence), fit.log_evidence + np.linspace(-9.0, 0.0, 30)
    assert replace(fit, trace=steady).usable
    assert replace(fit, trace=moving, converged=True).usable
    assert not replace(fit, trace=moving).usable
    assert not replace(fit, trace=steady, change=1.1).usable
