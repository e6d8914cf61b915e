"""The package as the laws see it: whoever renames something of `sparse_pep.model` changes this
file, and no law.
"""

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor
from sparse_pep.data.cluster import DaskSource
from sparse_pep.data.sources import ArraySource
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.fixed_point import SearchOptions, fixed_point
from sparse_pep.means import ZeroMean
from sparse_pep.model import (
    loo_predict,
    model_evidence,
    model_gradient,
    model_leave_one_out,
    model_predict,
    shards_of,
)
from sparse_pep.numerics.linalg import factorise
from sparse_pep.posterior.questions import component_moments, groups_left_out
from sparse_pep.streaming import summarise_posterior

in_memory = Rows
predict = model_predict


def problem_of(rows, power, tight=False, memory=None, jitter=0.0):
    """Rows, and how they are approximated."""
    return Problem(rows, power, tight, jitter, memory)


def evidence(model, rows, power, start=None, tol=1e-8, **options):
    """The fit of a model; options are those of `problem_of`."""
    return model_evidence(model, problem_of(rows, power, **options), start, tol)


def gradient(model, rows, power, start=None, tol=1e-8, **options):
    """The fit of a model and the gradient of its evidence."""
    return model_gradient(model, problem_of(rows, power, **options), start, tol)


def in_pieces(X, y, n_rows=9, **columns):
    """Rows that are read in pieces; the columns are `weight`, `known_variance`, `power` and
    `blocks`.
    """
    return ArraySource(X, y, **columns, piece_rows=n_rows)


def on_workers(client, X, y, **columns):
    """The same rows with the workers of a Dask cluster."""
    return DaskSource(in_pieces(X, y, **columns), client=client)


@contextmanager
def chunks_of(size):
    """Inside, all passes over rows take `size` rows at a time; with None, as many as usual."""

    def slices(n_data, n_inducing):
        return [slice(start, min(start + size, n_data)) for start in range(0, n_data, size)]

    with ExitStack() as stack:
        for module in ("inference.sharing", "inference.blocks", "model") if size else ():
            stack.enter_context(mock.patch(f"sparse_pep.{module}.chunk_slices", slices))
        yield


@contextmanager
def nothing_kept():
    """Inside, no pass over the rows leaves anything for the next, which happens where data are
    many.
    """
    with ExitStack() as stack:
        for name in (
            "inference.shard.KEPT_V",
            "inference.shard.KEPT_KUF",
            "inference.sharing.KEPT_SITES",
            "model.KEPT_BLOCKS",
        ):
            stack.enter_context(mock.patch(f"sparse_pep.{name}", 0))
        yield


def search(model, data, power, start=None, jitter=0.0, **options):
    """The search for the sites alone; options are those of `SearchOptions`."""
    Kuu = factorise(model.features.Kuu(model.kernel), jitter, "Kuu")
    sites = start if isinstance(start, np.ndarray) else None
    shards = shards_of(model, Problem(data, power), Kuu, start)
    return fixed_point(shards, Kuu, SearchOptions(start=sites, **options))


def left_out(model, data, power, tol=1e-8, **options):
    """Mean and variance of f, and log densities, of each row given all others, for rows with
    targets.
    """
    problem = problem_of(data, power, **options)
    fit = model_evidence(model, problem, tol=tol)
    return *loo_predict(model, fit, problem), model_leave_one_out(model, fit, problem)


def without_groups(model, data, power, groups, tol=1e-8, **options):
    """Mean and variance of f at each row given all rows of other groups."""
    problem = problem_of(data, power, **options)
    return groups_left_out(model, model_evidence(model, problem, tol=tol), problem, groups)


def parts(model, fit, X):
    """Means and covariances of the terms of the kernel, and the moments of f without its mean."""
    level = replace(model, mean=ZeroMean())
    mean, var = model_predict(level, fit.posteriors, X)
    if model.likelihood.is_coupled:
        var = np.einsum("ccs->cs", var)
    return *component_moments(model, fit.posteriors, X), mean, var


def memory_of(model, data, power, kept, **options):
    """The summary of earlier data; not `kept`: it is not used for the same model, of which
    nothing changed.
    """
    fit = evidence(model, data, power, **options)
    return replace(summarise_posterior(fit.posteriors, fit.log_evidence, model.features), kept=kept)


def ended(fit, **changes):
    """The fit as if its search had ended otherwise: `converged`, `usable`, `change`, …"""
    return replace(fit, convergence=fit.convergence._replace(**changes))


def whitened(fit):
    """B and B⁻¹Vν of each latent function: q(u) without the units of u."""
    return [(q.B.lower @ q.B.lower.T, np.linalg.solve(q.B.lower.T, q.b)) for q in fit.posteriors]


def fitted_estimator(model, X, y, power, tight, blocks=None, **columns):
    """An estimator with these parts, which are not trained, at these data."""
    parts = {
        "kernel": model.kernel,
        "features": model.features,
        "mean": model.mean,
        "power": power,
        "blocks": blocks,
        "tight": tight,
    }
    parts |= {"training": None, "jitter": 0.0}
    columns["sample_weight"] = columns.pop("weight", None)
    kind = type(model.likelihood).__name__
    if model.likelihood.sites_known:
        noise = model.likelihood.noise_variance if kind == "Gaussian" else model.likelihood
        return SparsePEPRegressor(**parts, noise_variance=noise).fit(X, y, **columns)
    if kind == "Softmax":
        return SparsePEPClassifier(**parts).fit(X, y.astype(int), **columns)
    return SparsePEP(**parts, likelihood=model.likelihood).fit(X, y, **columns)
