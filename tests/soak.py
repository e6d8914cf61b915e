"""Random small problems for ten minutes, each against a dense reference; not part of `make test`.

    make soak                                             # or, from the top of the repository:
    python tests/soak.py --seed 7 --minutes 2             # other problems, shorter
    python tests/soak.py --only 123456                    # one problem again, with its traceback

Each problem has its own seed, which is printed when something is wrong with it, and is one of three kinds.
- Gaussian noise: log Z against 50-digit arithmetic, with any kernel, feature, power, blocks, weights and units.
- Another likelihood: log Z at the sites against a dense energy, and each site against the update that it should be a fixed point of.
- A fit by an estimator with random arguments: it must not raise, must say whether it has converged, and must be the same after
  it was saved and loaded.
"""

import argparse
import collections
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import mpmath as mp
import numpy as np
from reference import classification

from sparse_pep import (
    SparsePEP,
    SparsePEPClassifier,
    SparsePEPRegressor,
    kernels,
    likelihoods,
    load,
)
from sparse_pep.features import Derivative, GaussianBlur, InducingPoints, Wavelet
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_evidence
from sparse_pep.shards import Piece

CLOSE = 1e-6  # of log Z, relative to its parts
mp.mp.dps = 50


def random_kernel(rng, n_dims, scale):
    """A kernel in units of `scale` of the inputs."""
    names = "SquaredExponential Matern12 Matern32 Matern52".split()
    one = lambda: getattr(kernels, rng.choice(names))(10.0 ** rng.uniform(-1, 1), scale * 10.0 ** rng.uniform(-0.7, 0.7, n_dims))  # noqa: E731
    how = rng.integers(6)
    return one() + one() if how == 0 else one() * one() if how == 1 else one() + kernels.Constant(0.5) if how == 2 else one()


def random_features(rng, kernel, Z, scale):
    """Features that the kernel has closed forms for."""
    D = Z.shape[1]
    kind = rng.integers(4) if isinstance(kernel, kernels.SquaredExponential) else 0
    if kind == 1:
        return GaussianBlur(Z, scale * rng.uniform(0.1, 1.0, D))
    if kind == 2:
        return Wavelet(Z, scale * rng.uniform(0.1, 1.0, D), rng.uniform(0.0, 2.0, D) / scale, rng.uniform(0, 3))
    if kind == 3:
        return Derivative(Z, rng.integers(-1, D, len(Z)))
    return InducingPoints(Z)


def random_inputs(rng, most=12):
    """Inputs, inducing inputs and their unit."""
    N, M, D, scale = rng.integers(3, most + 1), rng.integers(1, 6), rng.integers(1, 4), 10.0 ** rng.uniform(-6, 6)
    X = scale * rng.normal(size=(N, D))
    return X, scale * rng.normal(size=(M, D)), scale


def random_power(rng):
    """0, 1, or something between, sometimes tiny."""
    return float(rng.choice([0.0, 1.0, rng.uniform(), 10.0 ** rng.uniform(-9, -1)]))


def exact(Kuu, Kuf, Kff, y, noise, labels, powers):
    """log Z of Gaussian noise (M, N matrices of float64) in 50 digits, a block for each label."""
    Kuu, Kuf, K = (mp.matrix(A.tolist()) for A in (Kuu, Kuf, Kff))
    Q, N = Kuf.T * Kuu**-1 * Kuf, len(y)
    D, cov, penalty = K - Q, Q.copy(), mp.mpf(0)
    log_det = lambda A: 2 * mp.fsum(mp.log(L[i, i]) for L in [mp.cholesky(A)] for i in range(L.rows))  # noqa: E731
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label).tolist()
        a, n = mp.mpf(float(powers[rows[0]])), len(rows)
        S = mp.matrix(n, n)
        for i, r in enumerate(rows):
            for j, s in enumerate(rows):
                cov[r, s] += a * D[r, s]
                S[i, j] = D[r, s] / mp.sqrt(mp.mpf(noise[r]) * mp.mpf(noise[s]))
        penalty += (1 - a) / (2 * a) * log_det(mp.eye(n) + a * S) if a else mp.fsum(S[i, i] for i in range(n)) / 2
    for n in range(N):
        cov[n, n] += mp.mpf(float(noise[n]))
    L = mp.cholesky(cov)
    targets = mp.matrix(y.tolist())
    fit, det = (targets.T * mp.cholesky_solve(cov, targets))[0], 2 * mp.fsum(mp.log(L[i, i]) for i in range(N))
    value = -(fit + det + N * mp.log(2 * mp.pi)) / 2 - penalty
    return float(value), float(fit + abs(det) + abs(penalty))


def gaussian(rng):
    """Gaussian noise against 50 digits; weight w is the block w times."""
    X, Z, scale = random_inputs(rng)
    kernel, N = random_kernel(rng, X.shape[1], scale), len(X)
    features, unit = random_features(rng, kernel, Z, scale), 10.0 ** rng.uniform(-6, 6)
    y, spread = unit * rng.normal(size=N), float(np.mean(kernel.diag(X)))
    kernel = kernel * kernels.Constant(unit**2 / spread) if isinstance(features, InducingPoints) else kernel
    noise = 10.0 ** rng.uniform(-4, 1) * float(np.mean(kernel.diag(X)))
    y = y if isinstance(features, InducingPoints) else y * np.sqrt(spread) / unit
    labels = rng.integers(0, 1 + N // 2, N) if rng.uniform() < 0.4 else np.arange(N)
    labels = np.unique(labels, return_inverse=True)[1]
    per_block = lambda values: np.asarray(values)[labels]  # noqa: E731
    n_blocks, own = labels.max() + 1, random_power(rng)
    powers = per_block([random_power(rng) for _ in range(n_blocks)] if rng.uniform() < 0.3 else [own] * n_blocks)
    weights = per_block(rng.integers(1, 4, n_blocks) if rng.uniform() < 0.3 else np.ones(n_blocks, int))
    known = noise * rng.uniform(0, 2, N) if rng.uniform() < 0.3 else np.zeros(N)
    data = Piece(0, X, y, weights.astype(float), known, powers, labels if n_blocks < N else None)
    fit = model_evidence(Model(kernel, features, Gaussian(noise)), data)
    copies = np.repeat(np.arange(N), weights)
    turn = np.concatenate([np.arange(w) for w in weights])
    Kuu, Kuf, Kff = features.Kuu(kernel), features.Kuf(kernel, X), kernel(X, X)
    Kuu = Kuu + fit.jitter * np.mean(np.diag(Kuu)) * np.eye(len(Kuu))
    given = Kuu, Kuf[:, copies], Kff[np.ix_(copies, copies)], y[copies], (noise + known)[copies]
    value, size = exact(*given, labels[copies] * 4 + turn, powers[copies])
    if abs(fit.log_evidence - value) > CLOSE * max(1.0, size):
        return f"log Z {fit.log_evidence!r} instead of {value!r}"
    return None


COUNTS = {"Poisson", "NegativeBinomial"}
OTHERS = "Probit Logit NoisyProbit Poisson NegativeBinomial StudentT".split()


def other(rng):
    """Another likelihood: the energy at the sites, and the sites themselves, against dense algebra."""
    X, Z, scale = random_inputs(rng, most=20)
    kernel, N, name = random_kernel(rng, X.shape[1], scale), len(X), rng.choice(OTHERS)
    features, likelihood, power = random_features(rng, kernel, Z, scale), getattr(likelihoods, name)(), random_power(rng)
    y = rng.poisson(2.0, N).astype(float) if name in COUNTS else rng.standard_t(3, N) if name == "StudentT" else rng.choice([-1.0, 1.0], N)
    fit = model_evidence(Model(kernel, features, likelihood), Piece(0, X, y), power)
    if not fit.converged:
        return "not converged" if fit.usable else None  # told, and without a number
    Kuu = features.Kuu(kernel)
    Kuu = Kuu + fit.jitter * np.mean(np.diag(Kuu)) * np.eye(len(Kuu))
    _, V, dff = classification.whiten(Kuu, features.Kuf(kernel, X), kernel.diag(X))
    log_p = lambda f, y: likelihood.log_density(y, f)[0]  # noqa: E731
    (tau,), (nu,), powers = fit.site_precision, fit.site_shift, np.full(N, power)
    value = classification.energy(log_p, y, V, np.maximum(dff, 0.0), powers, tau, nu)
    if abs(fit.log_evidence - value) > CLOSE * max(1.0, abs(value)) * 10:
        return f"{name}: log Z {fit.log_evidence!r} instead of {value!r}"
    n = rng.integers(N)
    site = classification.new_site(log_p, y, V, np.maximum(dff, 0.0), powers, tau, nu, n)
    reach = V[:, n] @ V[:, n]  # a site that reaches no inducing variable changes nothing
    if np.max(np.abs(site - [tau[n], nu[n]]) * [reach, np.sqrt(reach)]) > 1e-4 * max(1.0, reach * tau[n]):
        return f"{name}: site {n} is {tau[n]}, {nu[n]} instead of {site}"
    return None


def fitted(rng):
    """An estimator with random arguments."""
    X, _, scale = random_inputs(rng, most=40)
    N = len(X)
    kind = str(rng.choice(["regressor", "classifier", "poisson", "student_t"]))
    arguments = {
        "n_inducing": int(rng.integers(1, 12)), "power": random_power(rng), "random_state": 0, "max_iter": int(rng.integers(0, 30)),
        "standardize": bool(rng.integers(2)), "optimizer": str(rng.choice(["lbfgs", "lbfgs", "adam"])), "jitter": float(rng.choice([1e-8, 1e-6])),
        "blocks": int(rng.integers(2, 6)) if rng.uniform() < 0.2 else None, "kernel": str(rng.choice(["se", "matern32"])),
    }  # fmt: skip
    arguments["max_iter"] = max(arguments["max_iter"], 1)
    if kind == "regressor":
        y = 10.0 ** rng.uniform(-6, 6) * (np.sin(X[:, 0] / scale) + 0.1 * rng.normal(size=N))
        model = SparsePEPRegressor(**arguments, normalize_y=True, tight=bool(rng.uniform() < 0.2))
    elif kind == "classifier":
        y = rng.integers(0, rng.integers(2, 4), N)
        y[:2] = 0, 1
        arguments["likelihood"] = "softmax" if len(np.unique(y)) > 2 else "probit"
        model = SparsePEPClassifier(**arguments)
    else:
        y = rng.poisson(np.exp(np.sin(X[:, 0] / scale))).astype(float) if kind == "poisson" else rng.standard_t(2, N)
        model = SparsePEP(**arguments, likelihood=kind)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    if not model.converged_ and not said:
        return "not converged, and silent"
    if not np.isfinite(model.log_marginal_likelihood_value_) and not said:
        return "evidence that is no number, and silent"
    found = model.predict_f(X)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.npz")
        again = load(Path(folder) / "m.npz").predict_f(X)
    return None if all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, again)) else "another model after loading"


KINDS = {"gaussian": gaussian, "other": other, "fitted": fitted}


def problem(seed):
    """The kind of a problem, and what is wrong with it, if anything."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(list(KINDS), p=[0.45, 0.4, 0.15]))
    return kind, KINDS[kind](rng)


def main():
    """Problems until the time is over; the exit status says whether something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first problem is a million times this")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--most", type=int, default=10_000, help="problems")
    parser.add_argument("--only", type=int, help="the seed of one problem")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only is not None:
        print(*problem(given.only))
        return 0
    counts, wrong, end = collections.Counter(), 0, time.monotonic() + 60.0 * given.minutes
    for seed in range(1_000_000 * given.seed, 1_000_000 * given.seed + given.most):
        if time.monotonic() > end:
            break
        try:
            kind, fault = problem(seed)
        except Exception as error:  # whatever it is, it is counted and shown
            kind, fault = "raised", f"{type(error).__name__}: {str(error)[:200]} ({traceback.extract_tb(error.__traceback__)[-1].name})"
        counts[kind] += 1
        if fault is not None:
            wrong += fault != "not converged"
            counts[fault if fault == "not converged" else "wrong"] += 1
            if fault != "not converged":
                print(f"--only {seed}: {kind}: {fault}", flush=True)
    print(dict(counts))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
