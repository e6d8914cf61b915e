from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sparse_pep.numerics.linalg import Factor, one_blas_thread
from sparse_pep.quadrature import Accuracy
from sparse_pep.regression import Kuu_adjoint, whitened_moments
from sparse_pep.shards import Adjoints, Projection, Shards, Step, Sums
from sparse_pep.sites import Posterior, posterior_from_sums


def posteriors_of(Kuu: Factor, sums: Sums) -> list[Posterior]:
    """q(u) of each latent function. Cost O(CM³)."""
    return [posterior_from_sums(Kuu, P, s) for P, s in zip(sums.precision, sums.shift)]


def posterior_terms(posteriors: Sequence[Posterior]) -> float:
    """The terms of log Z that involve all data at once, in nats."""
    return float(
        sum(0.5 * np.vdot(q.b, q.b) - q.b[0].size * q.B.half_log_det for q in posteriors)
    )


class State(NamedTuple):
    """q(u), the projections given it, and the energy."""

    log_evidence: float
    posteriors: list[Posterior]
    sums: Sums
    projection: Projection


def state_at(shards: Shards, Kuu: Factor, sums: Sums, accuracy: Accuracy, memory: int) -> State | None:
    """The state for given site sums; None unless every posterior and every cavity is a
    distribution.
    """
    try:
        posteriors = posteriors_of(Kuu, sums)
    except np.linalg.LinAlgError:
        return None
    if any(q.B.jitter and lowest > 0.0 for q, lowest in zip(posteriors, sums.lowest.value)):
        return None
    projection = Projection(*shards.ask("project", posteriors, accuracy, memory))
    value = sums.terms + projection.terms + posterior_terms(posteriors)
    return State(float(value), posteriors, sums, projection) if np.isfinite(value) else None


FINEST_AND_COARSEST, FLOOR = (1e-9, 1e-5), 0.1  # of the quadrature
MEMORY = 5
PATIENCE = 5
SHORTEST = 0.01


class Pace:
    def __init__(self, step: float = 1.0):
        self.step, self.shortest = step, step
        self.best, self.highest, self.stalled = np.inf, -1e300, 0

    def shorten(self, factor: float) -> None:
        self.step = max(factor * self.step, SHORTEST)
        self.shortest = min(self.shortest, self.step)

    def stalls(self, change: float, log_evidence: float) -> bool:
        progress = change < 0.995 * self.best
        progress |= not log_evidence <= self.highest + 1e-3 * abs(self.highest)
        self.stalled = 0 if progress else self.stalled + 1
        self.best, self.highest = min(self.best, change), max(self.highest, log_evidence)
        if self.stalled < PATIENCE:
            return False
        self.stalled, self.best = 0, change
        return True


@dataclass(frozen=True, eq=False)
class Fit:
    log_evidence: float
    posteriors: list[Posterior]
    sums: Sums
    projection: Projection
    converged: bool
    n_sweeps: int
    change: float
    step: float
    trace: np.ndarray
    shards: Shards | None = None

    @property
    def jitter(self) -> float:
        return self.posteriors[0].Kuu.jitter

    @property
    def n_clipped(self) -> int:
        return self.sums.n_clipped

    @property
    def smallest_cavity(self) -> float:
        return -self.projection.smallest.value

    @property
    def quadrature_error(self) -> float:
        return self.projection.error.value

    @property
    def dff(self):
        return self.shards.local[0].dff

    @property
    def site_precision(self):
        return self.shards.local[0].sites()[0]

    @property
    def site_shift(self):
        return self.shards.local[0].sites()[1]


def has_settled(change: float, tol: float, recent: list[float]) -> bool:
    steady = abs(recent[-1] - recent[0]) <= tol * (1.0 + abs(recent[0]))
    return change <= tol and (steady or change <= 1e-3 * tol)


def mixing(projection: Projection) -> np.ndarray:
    gram = np.atleast_2d(projection.gram)
    return np.linalg.lstsq(gram, np.atleast_1d(projection.with_last), rcond=1e-12)[0]


@one_blas_thread()
def fixed_point(shards, Kuu, log_concave=True, start=None, tol=1e-8, max_sweeps=500, memory=MEMORY) -> Fit:
    accuracy = Accuracy(float(np.clip(tol**2, *FINEST_AND_COARSEST)), FLOOR)
    sums = Sums(*shards.ask("sums", start))
    pace, trace, last, change, settled = Pace(), [], None, np.inf, False
    for sweep in range(max_sweeps + 1):
        state = state_at(shards, Kuu, sums, accuracy, memory)
        proposed = np.inf if state is None else float(state.projection.change.value)
        good = state is not None and not (
            last is not None and proposed > 10 * change and state.log_evidence < last.log_evidence
        )
        if good:
            last, change = state, proposed
            settled = has_settled(change, tol, [*trace[-1:], state.log_evidence])
            trace.append(state.log_evidence)
        else:
            pace.shorten(0.7)
        if settled or sweep == max_sweeps:
            break
        if not good:
            sums = Sums(*shards.ask("step", Step(back=0.5)))
            continue
        stalled = pace.stalls(change, state.log_evidence)
        if stalled:
            pace.shorten(0.6)
        gamma = np.zeros(0) if stalled else mixing(state.projection)
        sums = Sums(*shards.ask("step", Step(0.0, gamma, pace.step, log_concave)))
    if not good:
        sums = Sums(*shards.ask("step", Step(back=1.0)))
        last = state_at(shards, Kuu, sums, accuracy, memory)
        if last is None: raise np.linalg.LinAlgError("no posterior is a distribution")
    return Fit(*last, settled, sweep, change, pace.shortest, np.array(trace), shards)


@one_blas_thread()
def gradient(fit: Fit):
    """Kuu_bar, pulled, likelihood_bar, mean_bar"""
    Kuu = fit.posteriors[0].Kuu
    whitened = [whitened_moments(q) for q in fit.posteriors]
    short = fit.sums.private.value == 0.0 and Kuu.inverse is not None
    found = Adjoints(*fit.shards.ask("adjoints", whitened, short))
    Kuu_bar = sum(Kuu_adjoint(Kuu, *each) for each in zip(whitened, fit.sums.precision, found.outer))
    likelihood_bar = found.likelihood_bar + fit.projection.likelihood_bar
    if short and np.ndim(found.likelihood_bar):  # Gaussian noise: Σ wτa, which no chunk has
        outputs = fit.posteriors[0].b[0].size
        likelihood_bar = likelihood_bar + 0.5 * outputs * np.vdot(whitened[0][1], fit.sums.precision[0])
    return Kuu_bar, found.pulled, likelihood_bar, found.mean_bar + fit.projection.mean_bar
