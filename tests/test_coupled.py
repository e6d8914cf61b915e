"""Classes with a joint posterior: exact numbers, brute force, symmetries, gradients, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import exact_numbers
from numpy.random import default_rng
from numpy.testing import assert_allclose
from reference import multiclass as reference
from scipy.special import log_softmax, logsumexp

from sparse_pep import SparsePEPClassifier
from sparse_pep import model as models
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.joint import joint_cavity, joint_marginals, joint_new_site
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Logit, Softmax, coupled
from sparse_pep.likelihoods.coupled import contrasts, exact_variances, pair_variances, to_classes
from sparse_pep.model import (
    Model,
    loo_predict,
    model_evidence,
    model_gradient,
    model_leave_one_out,
    model_predict,
)
from sparse_pep.numerics.linalg import factorise, solve_lower
from sparse_pep.numerics.parameters import to_vector
from sparse_pep.quadrature import STRICT
from sparse_pep.sites import posterior_from_sums
from sparse_pep.training.lbfgs import WarmEvidence

POWERS = (0.0, 0.5, 1.0)


@pytest.mark.parametrize("case", range(3), ids=["reader", "sparse", "two classes"])
def test_exact_numbers(case):
    exact = exact_numbers("coupled.json")["cases"][case]
    X, Z, X_test = (np.array(exact[name]) for name in ("X", "Z", "X_test"))
    y = np.array(exact["y"], dtype=float)
    kernel = SquaredExponential(exact["variance"], exact["lengthscale"])
    model = Model(kernel, InducingPoints(Z), Softmax(exact["n_classes"]))
    fit, gradient = model_gradient(model, Problem(Rows(X, y, power=np.array(exact["power"]))))
    mean, cov = model_predict(model, fit.posteriors, X_test)
    assert_allclose(fit.log_evidence, exact["log_z"], rtol=1e-9)
    for name in ("variance", "lengthscale"):
        assert_allclose(
            gradient[f"kernel.log_{name}"], exact[f"grad_log_{name}"], rtol=1e-6, atol=1e-9
        )
    assert_allclose(np.moveaxis(fit.site_precision, -1, 0), exact["site_precision"], atol=1e-7)
    assert_allclose(fit.site_shift.T, exact["site_shift"], atol=1e-7)
    assert_allclose((mean - mean.mean(axis=0)).T, exact["mean_centred"], atol=1e-7)
    level = exact["variance"] / exact["n_classes"]  # of each entry
    assert_allclose(np.moveaxis(cov, -1, 0) - level, exact["cov_centred"], atol=1e-7)
    assert_allclose(model.likelihood.predict_proba(mean, cov), exact["proba"], atol=1e-7)


def cavities(C, n, seed, obtuse=False):
    """Random labels, means (C, n) and covariances (C, C, n) of classes."""
    rng = default_rng(seed)
    root = rng.normal(size=(n, C - 1, C - 1)) * rng.uniform(0.3, 2.0, (n, 1, 1))
    cov = 0.3 * np.moveaxis(root @ root.swapaxes(1, 2), 0, -1)
    cov += rng.uniform(0.2, 3.0, n) * np.eye(C - 1)[:, :, None]
    if obtuse:  # f_0 − f_1 and f_0 − f_2 of opposite signs
        apart = np.array([[1.0, -0.8], [-0.8, 1.0]])[:, :, None] * rng.uniform(0.2, 9.0, n)
        back = np.linalg.inv(np.stack([contrasts(3) @ [1, -1, 0], contrasts(3) @ [1, 0, -1]]))
        cov = np.einsum("ij,jkn,lk->iln", back, apart, back)
    mean, cov = to_classes(1.5 * rng.normal(size=(C - 1, n)), cov)
    return rng.integers(C, size=n), mean, cov


@pytest.mark.parametrize("power", [*POWERS, 1e-6])
@pytest.mark.parametrize("obtuse", [False, True])
def test_three_classes_by_brute_force(obtuse, power):
    y, mean, cov = cavities(3, 6, seed=3, obtuse=obtuse)
    shares = exact_variances(pair_variances(cov).sum(axis=1))
    assert np.any(shares < 0.0, axis=0).sum() == (6 if obtuse else 2)
    found = Softmax(3).coupled(y, mean, cov, np.full(6, power), STRICT)
    for n in range(6):
        z, d1, d2 = reference.coupled(y[n], mean[:, n], cov[..., n], power)
        assert_allclose(found.log_z[n], z, rtol=1e-8)
        assert_allclose(found.d1[:, n], d1, atol=1e-8)
        assert_allclose(found.d2[..., n], d2, atol=1e-8)
    assert found.error.max() < 1e-8


@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_outer_nodes_are_enough_at_every_scale(scale, monkeypatch):
    y, mean, cov = cavities(3, 8, seed=4, obtuse=True)
    given = (y, np.sqrt(scale) * mean, scale * cov, np.full(8, 0.5), STRICT)
    found = Softmax(3).coupled(*given)
    monkeypatch.setattr(coupled, "EXPONENT", 40.0)
    more = Softmax(3).coupled(*given)
    assert_allclose(found.log_z, more.log_z, rtol=1e-8, atol=1e-9)
    assert_allclose(found.d1, more.d1, atol=1e-8)
    assert_allclose(found.d2, more.d2, atol=1e-8)


@pytest.mark.parametrize("scale", [0.01, 1.0, 1e3])
@pytest.mark.parametrize("obtuse", [False, True])
def test_probabilities_of_three_classes_by_one_integral(scale, obtuse):
    _, mean, cov = cavities(3, 20, seed=5, obtuse=obtuse)
    mean *= np.sqrt(scale)
    proba = Softmax(3).predict_proba(mean, scale * cov)
    d1 = Softmax(3).tilted(np.zeros(20, dtype=int), mean, scale * cov, 0.0).d1
    assert_allclose(proba, (np.eye(3)[0][:, None] - d1).T, atol=1e-8)
    assert coupled.SinhNodes.of(coupled.TwoContrasts.of(mean, scale * cov)).n_nodes.max() < 300


def test_two_classes_are_one_function():
    y, mean, cov = cavities(2, 5, seed=1)
    for power in POWERS:
        here = Softmax(2).coupled(y, mean, cov, np.full(5, power), STRICT)
        logit = Logit().tilted(2.0 * y - 1.0, mean[1] - mean[0], pair_variances(cov)[0, 1], power)
        assert_allclose(here.log_z, logit.log_z, rtol=1e-9)
        assert_allclose(here.d1[1], logit.d1, rtol=1e-8)
        assert_allclose(here.d2[1, 1], logit.d2, rtol=1e-7)


def problem(C, n=30, power=0.5, seed=0, variance=3.0):
    """A model of C classes, and rows with weights and powers of their own."""
    rng = default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.argmax(X @ rng.normal(size=(2, C)) * 1.5 + rng.gumbel(size=(n, C)), axis=1)
    model = Model(
        SquaredExponential(variance, [0.9, 1.3]), InducingPoints(X[:6].copy()), Softmax(C)
    )
    weight = rng.choice([0.5, 1.0, 2.0], n)
    powers = np.clip(power + rng.choice([-0.1, 0.0, 0.1], n), 0.0, 1.0)
    return model, Problem(Rows(X, y.astype(float), power=powers, weight=weight))


@pytest.mark.parametrize("power", POWERS)
def test_four_classes_are_nearly_right(power):
    model, data = problem(4, power=power)
    fit = model_evidence(model, data)
    X = data.rows.X[:5]
    y = data.rows.y[:5].astype(int)
    mean, cov = model_predict(model, fit.posteriors, X)
    found = Softmax(4).coupled(y, mean, cov, np.full(5, power), STRICT)
    proba = model.likelihood.predict_proba(mean, cov)
    for n in range(5):
        z, *_ = reference.coupled(y[n], mean[:, n], cov[..., n], power, fine=0.8, widest=0.6)
        _, d1, _ = reference.coupled(0, mean[:, n], cov[..., n], 0.0, fine=0.8, widest=0.6)
        assert abs(found.log_z[n] - z) < 0.01
        assert np.abs(np.eye(4)[0] - d1 - proba[n]).max() < 0.003


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("C", [2, 3, 4, 5, 6])
def test_the_gradient_is_that_of_differences(C, power):
    model, data = problem(C, power=power)
    fit, gradient = model_gradient(model, data, tol=1e-10)
    assert fit.converged
    rng = default_rng(C)
    direction = rng.normal(size=len(model.theta))
    h = 1e-4
    values = [
        model_evidence(
            model.with_theta(model.theta + step * h * direction), data, fit.start, tol=1e-10
        ).log_evidence
        for step in (-2, -1, 1, 2)
    ]
    slope = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h)
    assert_allclose(direction @ to_vector(gradient), slope, rtol=1e-6, atol=1e-6)


def test_two_classes_are_the_logit_with_twice_the_kernel():
    model, data = problem(2)
    fit, gradient = model_gradient(model, data, tol=1e-11)
    kernel = SquaredExponential(2.0 * model.kernel.variance, model.kernel.lengthscale)
    logit = replace(model, kernel=kernel, likelihood=Logit())
    signs = replace(data, rows=data.rows._replace(y=2.0 * data.rows.y - 1.0))
    expected, slopes = model_gradient(logit, signs, tol=1e-11)
    assert_allclose(fit.log_evidence, expected.log_evidence, rtol=1e-10)
    for name, slope in slopes.items():
        assert_allclose(gradient[name], slope, rtol=1e-6, atol=1e-8)
    mean, cov = model_predict(model, fit.posteriors, data.rows.X)
    f, var = model_predict(logit, expected.posteriors, data.rows.X)
    assert_allclose(mean[1] - mean[0], f, rtol=1e-8, atol=1e-8)
    assert_allclose(pair_variances(cov)[0, 1], var, rtol=1e-8)


@pytest.mark.parametrize("C", [3, 5])
def test_the_order_of_classes_does_not_matter(C):
    model, data = problem(C)
    fit, gradient = model_gradient(model, data, tol=1e-12)
    order = default_rng(C).permutation(C)
    turned = replace(data, rows=data.rows._replace(y=order[data.rows.y.astype(int)].astype(float)))
    other, slopes = model_gradient(model, turned, tol=1e-12)
    assert_allclose(other.log_evidence, fit.log_evidence, rtol=1e-10)
    for name, slope in slopes.items():
        assert_allclose(gradient[name], slope, rtol=1e-8, atol=1e-8)
    here, there = (
        model.likelihood.predict_proba(*model_predict(model, one.posteriors, data.rows.X))
        for one in (fit, other)
    )
    assert_allclose(there[:, order], here, atol=1e-10)


@pytest.mark.parametrize("C", [2, 3])
def test_at_power_0_the_evidence_is_a_lower_bound(C):
    """The exact evidence is an average over draws from the posterior."""
    rng = default_rng(C)
    X = rng.normal(size=(7, 1))
    y = rng.integers(C, size=7)
    kernel = SquaredExponential(4.0, 1.0)
    model = Model(kernel, InducingPoints(X[:5].copy()), Softmax(C))
    fit = model_evidence(model, Problem(Rows(X, y.astype(float)), 0.0))
    K = kernel(X) + 1e-10 * np.eye(7)
    f = np.linalg.cholesky(K) @ rng.standard_normal((200_000, 7, C))
    log_p = log_softmax(f, axis=2)[:, np.arange(7), y].sum(axis=1)
    exact = logsumexp(log_p) - np.log(len(log_p))
    assert exact - 1.0 < fit.log_evidence < exact
    above = model_evidence(model, Problem(Rows(X, y.astype(float)), 1.0)).log_evidence
    assert abs(above - exact) < 0.1


def visited(moments, site, unexplained, label, power):
    """The new site of a row, T (1, 2, 2) and nu (1, 2), from its marginals and its site."""
    H = contrasts(3)
    mean, cov = (np.moveaxis(part, -1, 0) for part in moments)
    kept = joint_cavity(mean, cov, *site, power)
    of_f = np.moveaxis(kept.cov, 0, -1) + unexplained * np.eye(2)[:, :, None]
    tilted = Softmax(3).coupled(label, *to_classes(kept.mean.T, of_f), power, STRICT)
    d2 = H @ tilted.d2[..., 0] @ H.T
    return joint_new_site((H @ tilted.d1).T, d2[None], kept.mean, kept.cov, power)


def test_visits_of_one_row_after_the_other_end_at_the_same_sites():
    model, data = problem(3, n=12)
    rows = data.rows
    fit = model_evidence(model, data, tol=1e-11)
    Kuu = factorise(model.features.Kuu(model.kernel))
    V = solve_lower(Kuu, model.features.Kuf(model.kernel, rows.X))
    unexplained = model.kernel.diag(rows.X) - np.sum(V**2, axis=0)
    H = contrasts(3)
    T = np.zeros((12, 2, 2))
    nu = np.zeros((12, 2))
    labels = rows.y.astype(int)
    for n in np.tile(np.arange(12), 25):
        sites = np.einsum("n,nij,an,bn->iajb", rows.weight, T, V, V).reshape(12, 12)
        q = posterior_from_sums(Kuu, sites, ((rows.weight[:, None] * nu).T @ V.T).ravel())
        row = [n]
        moments = joint_marginals(q, V[:, row].copy())
        site = T[row], nu[row]
        T[row], nu[row] = visited(moments, site, unexplained[n], labels[row], rows.power[row])
    assert_allclose(H.T @ T @ H, np.moveaxis(fit.site_precision, -1, 0), atol=1e-8)
    assert_allclose(nu @ H, fit.site_shift.T, atol=1e-8)


def test_a_row_is_left_out_with_its_whole_site():
    model, data = problem(3, n=15)
    fit = model_evidence(model, data, tol=1e-11)
    mean, cov = loo_predict(model, fit, data)
    n = 4
    rest = np.delete(np.arange(15), n)
    H = contrasts(3)
    V = solve_lower(fit.posteriors[0].Kuu, model.features.Kuf(model.kernel, data.rows.X))
    weight = data.rows.weight
    T = np.einsum("ic,cdn,jd->ijn", H, fit.site_precision, H) * weight
    nu = H @ fit.site_shift * weight
    P = np.einsum("ijn,an,bn->iajb", T[..., rest], V[:, rest], V[:, rest]).reshape(12, 12)
    q = posterior_from_sums(fit.posteriors[0].Kuu, P, (nu[:, rest] @ V[:, rest].T).ravel())
    expected_mean, expected_cov = model_predict(model, [q], data.rows.X[[n]])
    assert_allclose(mean[:, n], expected_mean[:, 0], atol=1e-9)
    assert_allclose(cov[..., n], expected_cov[..., 0], atol=1e-9)
    density = model_leave_one_out(model, fit, data)
    label = data.rows.y[[n]]
    alone = model.likelihood.predict_log_density(label, expected_mean, expected_cov)
    assert_allclose(density[n], alone[0], atol=1e-9)


def three_classes(**options):
    rng = default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) * 2.0 + rng.gumbel(size=(60, 3)), axis=1)
    return X, y, SparsePEPClassifier(n_inducing=6, random_state=0, **options)


def test_draws_have_the_joint_law_of_the_classes():
    X, y, model = three_classes(training=None)
    model.fit(X, y)
    mean, cov = model_predict(
        model._state.model, model._state.posterior.functions, model._state.encoder.inputs(X[:3])
    )
    n = 5000
    for draws in (
        model.sample_f(X[:3], n),
        model.sample_functions(n, n_features=300)(X[:3]),
    ):
        for s in range(3):
            close = 5.0 * np.sqrt(np.diag(cov[..., s]) / n)
            assert np.all(np.abs(draws[s].mean(axis=1) - mean[:, s]) < close)
            assert_allclose(np.cov(draws[s]), cov[..., s], atol=0.15 * np.max(cov[..., s]))


def test_what_was_used_is_said():
    X, y, model = three_classes(training=None, local="auto")
    model.fit(X, y)
    assert model.diagnostics_["coupled"] is True
    assert "one joint posterior of their contrasts" in model.summary()
    assert "off, because the classes have a joint posterior" in model.diagnostics_["local"]
    many = np.arange(60) % 11
    model.fit(X, many)
    assert model.diagnostics_["coupled"] is False
    assert "a posterior for each" in model.summary()


def test_more_than_three_classes_train_in_rounds(monkeypatch):
    searches = []
    search = models.fixed_point

    def watched(shards, Kuu, options):
        searches.append(options)
        return search(shards, Kuu, options)

    monkeypatch.setattr(models, "fixed_point", watched)
    rng = default_rng(1)
    X = rng.normal(size=(120, 2))
    y = np.argmax(X @ rng.normal(size=(2, 5)) * 3.0 + rng.gumbel(size=(120, 5)), axis=1)
    model = SparsePEPClassifier(n_inducing=8, random_state=0).fit(X, y)
    # the last search goes on from the sites of training
    assert searches[-1].follow
    assert searches[-1].start is not None
    inputs = (X - model.x_mean_) / model.x_scale_
    again = SparsePEPClassifier(
        kernel=model.kernel_, features=model.features_, training=None, standardize=False
    ).fit(inputs, y)
    # the weights of the last round are nearly those of its end
    assert_allclose(
        again.log_marginal_likelihood_value_, model.log_marginal_likelihood_value_, atol=0.01
    )
    theta = to_vector(model.parameters())
    gradient = to_vector(model.log_marginal_likelihood_gradient())
    h = 1e-4 * np.sign(default_rng(2).normal(size=len(theta)))
    values = [model.log_marginal_likelihood(theta + step * h) for step in (-1, 1)]
    assert_allclose(values[1] - values[0], 2.0 * gradient @ h, rtol=1e-4, atol=1e-9)


def test_the_weights_of_a_later_round_follow_from_the_sites_of_the_last():
    """A search from nothing may fail where a trained variance is large."""
    model, data = problem(5)
    wide = replace(model, kernel=SquaredExponential(20.0, [0.9, 1.3]))
    evidence = WarmEvidence(data)
    evidence(model)
    old, _ = evidence(wide)
    evidence.follow = True
    followed, _ = evidence(wide)
    cold = model_evidence(wide, data)
    assert abs(old.log_evidence - cold.log_evidence) > 1e-3
    assert_allclose(followed.log_evidence, cold.log_evidence, atol=1e-4)
    assert followed.n_sweeps <= old.n_sweeps
    assert not evidence.follow


def test_a_search_that_did_not_end_is_kept_where_the_default_start_fails(monkeypatch):
    model, data = problem(5)
    start = model_evidence(model, data, tol=1e-3).start
    search = models.fixed_point

    def failing(shards, Kuu, options):
        if options.start is None:
            raise np.linalg.LinAlgError("out of range")
        return search(shards, Kuu, replace(options, max_sweeps=1))

    monkeypatch.setattr(models, "fixed_point", failing)
    fit = model_evidence(model, data, start)
    assert np.isfinite(fit.log_evidence)
    assert not fit.converged
