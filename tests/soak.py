"""Random small problems for ten minutes, each against a dense reference; not part of `make test`.

    make soak                                             # or, from the top of the repository:
    python tests/soak.py --seed 7 --minutes 2             # other problems, shorter
    python tests/soak.py --kind killed --most 25          # one kind of problem; fits are killed only if asked for
    python tests/soak.py --only 123456                    # one problem again, with its traceback

Each problem has its own seed, which is printed when something is wrong with it, and is of one of these kinds. The first two have any
kernel, features, power, blocks and weights, and units from 1e-6 to 1e6.
- Gaussian noise: log Z, also in the tight form, against 50-digit arithmetic.
- Any other likelihood: log Z at the sites against a dense formula with fine quadrature. The same formula must not change when the
  sites move, which is what a fixed point is at every power: the largest lower bound at power 0, matched moments at power 1.
- A fit by an estimator with random arguments: it must not raise, must say whether it has converged, and must be the same after
  it was saved and loaded.
- A damaged table for the command line, or a damaged model file: used, or refused in one line.
- A fit that is killed twice, in memory, in pieces or on two Dask workers: resumed, it ends with the same bits.
"""

import argparse
import collections
import contextlib
import functools
import io
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from reference import classification, energy, mutations
from reference import killed as killed_fit
from reference.highprec import block_log_evidence
from scipy.special import expit

from sparse_pep import (
    SparsePEP,
    SparsePEPClassifier,
    SparsePEPRegressor,
    kernels,
    likelihoods,
    load,
)
from sparse_pep.cli import main as main_command
from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    Mixture,
    Wavelet,
)
from sparse_pep.likelihoods import Gaussian
from sparse_pep.means import ConstantMean
from sparse_pep.model import Model, model_evidence
from sparse_pep.multiclass import Softmax
from sparse_pep.numerics.files import read_archive
from sparse_pep.shards import Piece

CLOSE = 1e-6  # of log Z, relative to its parts, and of its slope in the sites
TOLD = "not converged;", "the sites did not settle"  # how the package says that it has not found a fixed point


def random_kernel(rng, X, Z, scale, variance):
    """A kernel in these units of inputs and of f^2, with inputs that it can take (perhaps with codes, or on a sphere)."""
    D = X.shape[1]
    lengths = lambda: scale * 10.0 ** rng.uniform(-0.7, 0.7, D)  # noqa: E731
    stationary = "SquaredExponential Matern12 Matern32 Matern52 RationalQuadratic".split()
    one = lambda: getattr(kernels, rng.choice(stationary))(variance * 10.0 ** rng.uniform(-1, 1), lengths())  # noqa: E731
    periods = [scale * 10.0 ** rng.uniform(0, 1, size) for size in (None, D, 2)]
    code = {"active_dims": (D,)}
    how = rng.integers(24)
    if how in (0, 1):
        codes = kernels.Categorical(1.0, rng.uniform(0.1, 0.9), **code), kernels.Coregion(3, int(rng.integers(1, 4)), 0.3, **code)
        inner = replace(one(), active_dims=tuple(range(D)))
        return inner * codes[how], *(np.column_stack([A, rng.integers(0, 3, len(A))]) for A in (X, Z))
    if how == 2:
        turned = [np.column_stack([rng.uniform(-90, 90, len(A)), rng.uniform(-180, 180, len(A))]) for A in (X, Z)]
        return kernels.SphericalMatern32(variance, 10.0 ** rng.uniform(-1, 0.5)), *turned
    others = {
        3: lambda: kernels.Periodic(variance, rng.uniform(0.5, 2.0), periods[0]),
        4: lambda: kernels.Cosine(variance, periods[1]) + one(),
        5: lambda: kernels.Linear(variance / scale**2) + one(),
        6: lambda: kernels.SpectralMixture(variance * rng.uniform(0.1, 1.0, 2), scale * rng.uniform(0.3, 3.0, 2), periods[2]),
        7: lambda: one() + one(),
        8: lambda: one() * kernels.SquaredExponential(1.0, lengths()),
        9: lambda: one() + kernels.Constant(0.5 * variance),
        10: lambda: one() + kernels.White(0.1 * variance),
    }
    return others.get(how, one)(), X, Z


def random_features(rng, kernel, Z, scale):
    """Features that the kernel has closed forms for, most often other ones than inducing points."""
    D, M = Z.shape[1], len(Z)
    widths, frequencies = scale * rng.uniform(0.1, 1.0, D), rng.uniform(0.0, 2.0, D) / scale
    some = [
        lambda: GaussianBlur(Z, widths),
        lambda: Wavelet(Z, widths, frequencies, rng.uniform(0, 3)),
        lambda: Derivative(Z, rng.integers(-1, D, M)),
        lambda: Fourier(-3.0 * scale, 3.0 * scale, int(rng.integers(1, 4))),
        lambda: Mixture([InducingPoints(Z[: M // 2]), GaussianBlur(Z[M // 2 :], widths)]),
    ]
    try:
        found = some[rng.integers(len(some))]()
        found.Kuu(kernel)
    except (NotImplementedError, ValueError):  # no closed form, or no such feature in so many dimensions
        return InducingPoints(Z)
    return found


def random_problem(rng, variance, most=12):
    """A kernel, features and inputs in random units, and Kuu, Kuf and Kff of them."""
    N, M, D, scale = rng.integers(3, most + 1), rng.integers(1, 6), rng.integers(1, 4), 10.0 ** rng.uniform(-6, 6)
    kernel, X, Z = random_kernel(rng, scale * rng.normal(size=(N, D)), scale * rng.normal(size=(M, D)), scale, variance)
    features = random_features(rng, kernel, Z, scale)
    return kernel, features, X, (features.Kuu(kernel), features.Kuf(kernel, X), kernel(X))


def random_blocks(rng, N, share):
    """The rows of each block, a power and a weight for each, and for each row which block it is in; often blocks of one."""
    labels = rng.integers(0, 1 + N // 2, N) if rng.uniform() < share else np.arange(N)
    labels = np.unique(labels, return_inverse=True)[1]
    B, own = labels.max() + 1, random_power(rng)
    powers = np.array([random_power(rng) for _ in range(B)] if rng.uniform() < 0.3 else [own] * B)
    weights = rng.integers(1, 4, B) if rng.uniform() < 0.3 else np.ones(B, int)
    return [np.flatnonzero(labels == b) for b in range(B)], powers, weights, labels


def random_jitter(rng, Kuu):
    """None, or the default of the estimators if Kuu needs it."""
    return float(rng.choice([0.0, 1e-8])) if np.linalg.cond(Kuu) < 1e8 else 1e-8


def random_power(rng):
    """0, 1, or something between, sometimes tiny."""
    return float(rng.choice([0.0, 1.0, rng.uniform(), 10.0 ** rng.uniform(-9, -1)]))


def gaussian(rng):
    """Gaussian noise against 50 digits; weight w is the block w times, in the tight form a block w times as large."""
    tight, unit = bool(rng.uniform() < 0.3), 10.0 ** rng.uniform(-6, 6)
    kernel, features, X, (Kuu, Kuf, Kff) = random_problem(rng, unit**2)
    N, spread = len(X), float(np.mean(np.diag(Kff)))
    y, noise = np.sqrt(spread) * rng.normal(size=N), 10.0 ** rng.uniform(-4, 1) * spread
    blocks, powers, weights, labels = random_blocks(rng, N, 0.4)
    known = noise * rng.uniform(0, 2, N) if rng.uniform() < 0.3 else np.zeros(N)
    data = Piece(0, X, y, weights[labels].astype(float), known, powers[labels], labels if len(blocks) < N else None)
    fit = model_evidence(Model(kernel, features, Gaussian(noise)), data, jitter=random_jitter(rng, Kuu), tight=tight)
    copies = np.repeat(np.arange(N), weights[labels])
    turn = np.concatenate([np.arange(w) for w in weights[labels]])
    Kuu = Kuu + fit.jitter * np.diag(np.diag(Kuu))
    given = Kuu, Kuf[:, copies], Kff[np.ix_(copies, copies)], y[copies], (noise + known)[copies]
    value, size = block_log_evidence(*given, labels[copies] * 4 + turn * (not tight), powers[labels[copies]], tight, with_size=True)
    if abs(fit.log_evidence - value) > CLOSE * max(1.0, size):
        return f"log Z {fit.log_evidence!r} instead of {value!r}"
    return None


def random_likelihood(rng):
    """A likelihood, targets for 12 rows, and the units of f^2 and the mean of f that suit them."""
    N, unit, middle = 12, 10.0 ** rng.uniform(-6, 6), rng.uniform(-12, 12)
    labels, counts, normal = rng.choice([-1.0, 1.0], N), rng.poisson(2.0, N).astype(float), rng.normal(size=N)
    classes, low = np.append([0.0, 1.0, 2.0], rng.integers(0, 3, N - 3)), rng.choice([None, -0.5 * unit])
    amounts, shape, real = np.exp(middle + normal), 10.0 ** rng.uniform(-0.5, 1), unit * rng.standard_t(3, N)
    others = [name for name, kind in likelihoods.LIKELIHOODS.items() if not issubclass(kind, Gaussian)]
    name = str(rng.choice([*others, "Softmax"]))
    own, y, variance, mean = {
        "Probit": ({}, labels, 1.0, 0.0),
        "Logit": ({}, labels, 1.0, 0.0),
        "NoisyProbit": ({"flip": 10.0 ** rng.uniform(-6, -1)}, labels, 1.0, 0.0),
        "Poisson": ({}, counts, 1.0, 0.0),
        "NegativeBinomial": ({"dispersion": shape}, counts, 1.0, 0.0),
        "StudentT": ({"df": rng.uniform(1, 9), "scale": unit * rng.uniform(0.1, 1)}, real, unit**2, 0.0),
        "Ordinal": ({"cut_points": np.sort(rng.normal(size=2))}, classes, 1.0, 0.0),
        "Beta": ({"concentration": 10.0 ** rng.uniform(-0.5, 2)}, expit(2 * normal), 1.0, 0.0),
        "HeteroscedasticGaussian": ({"base_variance": unit**2 * rng.uniform(0.1, 1), "gain": rng.uniform(0.2, 1) / unit}, real, unit**2, 0.0),
        "Gamma": ({"shape": shape}, amounts, 1.0, middle),
        "Weibull": ({"shape": min(shape, 3.0)}, amounts * rng.choice([1, 1, -1], N), 1.0, middle),
        "Tobit": ({"noise_variance": unit**2 * rng.uniform(0.05, 1), "low": low, "high": 0.8 * unit}, real, unit**2, 0.0),
        "Binomial": ({"trials": 5}, rng.binomial(5, 0.4, N).astype(float), 1.0, 0.0),
        "Softmax": ({}, classes, 1.0, 0.0),
    }[name]
    likelihood = (likelihoods.LIKELIHOODS | {"Softmax": Softmax})[name](**own)
    return likelihood, likelihood.check(y), variance, mean


def other(rng):
    """Another likelihood: log Z at its sites against a dense formula, which must not change when the sites move."""
    likelihood, y, variance, mean = random_likelihood(rng)
    kernel, features, X, (Kuu, Kuf, Kff) = random_problem(rng, variance, len(y))
    N, C, name, y = len(X), likelihood.n_latent, type(likelihood).__name__, y[: len(X)]
    blocks, powers, weights, labels = random_blocks(rng, N, 0.3 * (C == 1))
    data = Piece(0, X, y, weights[labels].astype(float), 0.0, powers[labels], labels if len(blocks) < N else None)
    fit = model_evidence(Model(kernel, features, likelihood, ConstantMean(mean)), data, jitter=random_jitter(rng, Kuu))
    if not fit.converged:
        return f"{name}: not converged; the fit says so"
    _, V, _ = classification.whiten(Kuu + fit.jitter * np.diag(np.diag(Kuu)), Kuf, np.diag(Kff))
    D = Kff - V.T @ V
    np.fill_diagonal(D, np.maximum(np.diag(D), 0.0))
    inner = np.stack([fit.site_precision, fit.site_shift])
    given = [V] * C, [D] * C, blocks, powers, weights
    z = lambda rows, m, s, a: energy.level(likelihood, y[rows], mean + m, s, a)  # noqa: E731
    log_z = lambda outer, inner: energy.log_evidence(z, *given, outer, inner)[0]  # noqa: E731
    if fit.own_sites:  # of w'u, as those of blocks of one are; what is inside of such a block cancels
        outer, inner = [[(t[None, None], n[None]) for t, n in zip(*sites)] for sites in zip(*inner)], np.zeros(inner.shape)
    else:
        outer = energy.outer_sites([D] * C, *inner, blocks, powers)
    value, units = energy.log_evidence(z, *given, outer, inner)
    if not abs(fit.log_evidence - value) <= CLOSE * max(1.0, abs(value)):
        return f"{name}: log Z {fit.log_evidence!r} instead of {value!r}"
    enough = CLOSE * max(1.0, abs(value))
    slope = energy.slope(log_z, outer, inner, units, np.max(Kff), rng, enough)
    return None if abs(slope) <= enough else f"{name}: log Z rises by {slope} with the sites"


def fitted(rng):
    """An estimator with random arguments."""
    scale, kind = 10.0 ** rng.uniform(-6, 6), str(rng.choice(["regressor", "classifier", "general"]))
    X = scale * rng.normal(size=(rng.integers(12, 40), rng.integers(1, 4)))
    N, tight = len(X), bool(rng.uniform() < 0.2)
    arguments = {
        "n_inducing": int(rng.integers(1, 12)), "power": random_power(rng), "random_state": 0, "max_iter": int(rng.integers(1, 30)),
        "standardize": bool(rng.integers(2)), "optimizer": str(rng.choice(["lbfgs", "lbfgs", "adam"])), "jitter": float(rng.choice([0.0, 1e-8, 1e-6])),
        "blocks": int(rng.integers(2, 6)) if rng.uniform() < 0.2 else None, "kernel": str(rng.choice(["se", "matern12", "matern32", "matern52", "rq"])),
        "ard": rng.choice([True, False, "auto"], p=[0.6, 0.2, 0.2]), "priors": rng.choice([None, "weak"]), "n_restarts": 0,
    }  # fmt: skip
    arguments |= {"ard": {"True": True, "False": False}.get(str(arguments["ard"]), "auto")}
    if kind == "regressor":
        y = 10.0 ** rng.uniform(-6, 6) * (np.sin(X[:, 0] / scale) + 0.1 * rng.normal(size=N))
        local = "neighbours" if rng.uniform() < 0.3 and arguments["power"] <= 0.8 and not (tight or arguments["blocks"]) else "off"
        model = SparsePEPRegressor(**arguments, normalize_y=True, tight=tight, local=local)
    elif kind == "classifier":
        y = rng.integers(0, rng.integers(2, 4), N)
        y[:2] = 0, 1
        softmax = len(np.unique(y)) > 2
        model = SparsePEPClassifier(**arguments, likelihood="softmax" if softmax else str(rng.choice(["probit", "logit"])))
    else:
        likelihood, y, _, _ = random_likelihood(rng)
        while isinstance(likelihood, Softmax):
            likelihood, y, _, _ = random_likelihood(rng)
        X, y = X[:12], y[: len(X)]
        model = SparsePEP(**arguments, likelihood=likelihood)
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


def command(*words):
    """What is wrong with the way in which the command line ends: it succeeds, or says in one line why not."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            main_command(list(words))
        except SystemExit as end:
            said = errors.getvalue()
            good = not end.code or (end.code == 2 and said.startswith("Error: ") and said.count("\n") == 1)
            return end.code, None if good else f"status {end.code}: {said[-300:]}"
    raise AssertionError("the command line did not exit")


def table(rng):
    """`fit` and `predict` with a damaged table."""
    end, content = mutations.table_file(rng)
    with tempfile.TemporaryDirectory() as folder:
        path, model = Path(folder) / f"t.{end}", f"{folder}/m.npz"
        path.write_bytes(content)
        more = [["--likelihood", "auto"], ["--decimal", ","], [], []][rng.integers(4)]
        status, fault = command("fit", str(path), "--target", "y", "--inducing", "3", "--max-iter", "1", "--quiet", "--out", model, *more)
        return fault if status else command("predict", model, str(path), "--out", f"{folder}/p.csv")[1]


@functools.cache
def whole_models():
    """Models of three kinds, as bytes, and inputs for them."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    kinds = (SparsePEPRegressor, X[:, 0]), (SparsePEPClassifier, np.arange(20) % 3), (lambda **a: SparsePEP(likelihood="poisson", **a), np.arange(20) % 5)
    with tempfile.TemporaryDirectory() as folder:
        for n, (kind, y) in enumerate(kinds):
            kind(n_inducing=3, max_iter=2, random_state=0).fit(X, y).save(f"{folder}/{n}.npz")
        return [Path(f"{folder}/{n}.npz").read_bytes() for n in range(3)], X


def model(rng):
    """`load` of a damaged model file: refused with a ValueError, or the model predicts as the whole one does."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        contents, X = whole_models()
        content, path = contents[rng.integers(3)], Path(folder) / "m.npz"
        path.write_bytes(content)
        expected = load(path).predict(X)
        path.write_bytes(mutations.damaged(rng, content))
        try:
            found = load(path).predict(X)
        except ValueError as error:
            return None if "\n" not in str(error) else "several lines"
    return None if np.array_equal(found, expected) else "other predictions from a damaged model"


def child(*words):
    """A fit in a process of its own, from the moment at which it begins."""
    run = [sys.executable, "-W", "ignore", killed_fit.__file__, *words]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    assert process.stdout.readline() == "ready\n", "the fit did not begin"
    return process


@functools.cache
def undisturbed(place, optimizer):
    """The end of a fit that nobody kills, and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        process, start = child(place, optimizer, folder, "m"), time.monotonic()
        assert process.wait() == 0
        return end_of(load(f"{folder}/m.npz")), time.monotonic() - start


def end_of(model):
    """The trained parameters, and predictions, as bytes."""
    return b"".join(value.tobytes() for value in model.parameters().values()) + np.array(model.predict_f(np.eye(3))).tobytes()


def killed(rng):
    """A fit that is killed at a random moment, resumed, killed again and resumed: it ends as an undisturbed one."""
    words, name = killed_fit.CASES[rng.integers(len(killed_fit.CASES))], str(rng.choice(["SIGKILL", "SIGTERM", "SIGINT"]))
    expected, seconds = undisturbed(*words)
    with tempfile.TemporaryDirectory() as folder:
        path, checkpoint = Path(folder) / "m.npz", Path(folder) / "m.checkpoint"
        for _ in range(2):
            process = child(*words, folder, "m")
            time.sleep(rng.uniform(0.0, seconds))
            process.send_signal(getattr(signal, name))
            process.wait()
            if path.exists():
                load(path)
            if checkpoint.exists():
                read_archive(checkpoint, "sparse_pep checkpoint", 1)
            if any(other.suffix not in (".npz", ".checkpoint", ".part") for other in Path(folder).iterdir()):
                return f"{name}: other files were left: {sorted(other.name for other in Path(folder).iterdir())}"
        if child(*words, folder, "m").wait() != 0 or end_of(load(path)) != expected:
            return f"{words} after {name}: another end"
    return None


KINDS = {"gaussian": gaussian, "other": other, "fitted": fitted, "table": table, "model": model, "killed": killed}


def problem(seed, kind=None):
    """The kind of a problem, and what is wrong with it, if anything."""
    rng = np.random.default_rng(seed)
    drawn = str(rng.choice(list(KINDS), p=[0.4, 0.4, 0.1, 0.05, 0.05, 0.0]))
    return kind or drawn, KINDS[kind or drawn](rng)


def main():
    """Problems until the time is over; the exit status says whether something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first problem is a million times this")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--most", type=int, default=10_000, help="problems")
    parser.add_argument("--kind", choices=KINDS, help="of all problems, which are mixed otherwise")
    parser.add_argument("--only", type=int, help="the seed of one problem")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.only is not None:
        print(*problem(given.only, given.kind))
        return 0
    counts, end = collections.Counter(), time.monotonic() + 60.0 * given.minutes
    for seed in range(1_000_000 * given.seed, 1_000_000 * given.seed + given.most):
        if time.monotonic() > end:
            break
        try:
            kind, fault = problem(seed, given.kind)
        except KeyboardInterrupt:
            break
        except Exception as error:  # whatever it is, it is counted and shown
            kind, fault = "raised", f"{type(error).__name__}: {str(error)[:200]} ({traceback.extract_tb(error.__traceback__)[-1].name})"
        counts[kind] += 1
        if fault is not None:
            outcome = "not converged" if any(words in fault for words in TOLD) else "wrong"
            counts[outcome] += 1
            print(f"--only {seed}: {kind}: {fault}", flush=True)
    print(dict(counts), f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB at most")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
