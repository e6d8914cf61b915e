"""Random small problems and accidents for ten minutes; not part of `make test`.

    make soak                                             # or, from the top of the repository:
    make soak HOURS=1                                     # longer
    python tests/soak.py --seed 7 --minutes 2             # other problems, shorter
    python tests/soak.py --kind table                     # one kind of problem
    python tests/soak.py --only 123456                    # one problem again, with its traceback
 Each problem has its own seed, printed when something is wrong. The first two kinds have any
kernel, features, power, blocks, weights, units.
- gaussian: log Z, also in the tight form, against 50-digit arithmetic.
- other likelihoods: log Z at the sites against a dense formula, which must not change when the
sites move.
- fitted: an estimator with random arguments: it does not raise, says whether it has converged, and
is the same in a file.
- table, model, checkpoint: a damaged file, also by somebody who knows its format: refused in one
line, or harmless; never 200 MB of memory.
- stopped: a command that a signal ends at any moment; it goes on from its checkpoint to the same
bits, or is begun again without one.
- threads: two fits at once have the bits of fits alone, and leave NumPy, BLAS, warnings and random
numbers as they were.
- same: other orders of the rows, units, pieces and numbers of threads have the same evidence at
fixed parameters.
"""

import argparse
import collections
import contextlib
import functools
import io
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from laws import adapter
from laws.problems import LawCase
from reference import mutations
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

from sparse_pep import (
    SparsePEP,
    SparsePEPClassifier,
    SparsePEPRegressor,
    kernels,
    likelihoods,
    load,
)
from sparse_pep.cli import main as main_command
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    StackedFeatures,
    Wavelet,
)
from sparse_pep.likelihoods import Softmax
from sparse_pep.likelihoods.heteroscedastic import SwitchedLikelihood
from sparse_pep.means import ConstantMean
from sparse_pep.observations import MEAN, SLOPE, VALUE, Observed
from sparse_pep.training import LBFGS, Adam

CLOSE = 1e-6  # of log Z, relative to its parts, and of its slope in the sites
# how the package says that it has not found a fixed point
HONEST = "not converged;", "the sites did not settle"


def random_kernel(rng, X, Z, scale, variance, functionals=False):
    """A kernel in these units of inputs and of f^2, with inputs that it can take (perhaps with
    codes, or rows that describe functionals).
    """
    D = X.shape[1]
    choice = 9 if functionals else rng.integers(20)

    def lengths():
        return scale * 10.0 ** rng.uniform(-0.7, 0.7, D)

    def one():
        kind = rng.choice("SquaredExponential Matern12 Matern32 Matern52 RationalQuadratic".split())
        return getattr(kernels, kind)(variance * 10.0 ** rng.uniform(-1, 1), lengths())

    if choice < 2:
        codes = (
            kernels.Categorical(1.0, rng.uniform(0.1, 0.9), active_dims=(D,)),
            kernels.Coregion(3, int(rng.integers(1, 4)), 0.3, active_dims=(D,)),
        )
        coded = (np.column_stack([A, rng.integers(0, 3, len(A))]) for A in (X, Z))
        return replace(one(), active_dims=tuple(range(D))) * codes[choice], *coded
    if choice in (9, 10):
        kernel = getattr(kernels, rng.choice("SquaredExponential Matern32 Matern52".split()))(
            variance, lengths()
        )
        kinds = rng.choice(
            [
                VALUE,
                SLOPE,
                MEAN if isinstance(kernel, kernels.SquaredExponential) else VALUE,
            ],
            len(X),
        )
        return (
            Observed(kernel, D),
            np.column_stack(
                [X, scale * rng.uniform(0.1, 1.0, X.shape), kinds, rng.integers(0, 2, len(X))]
            ),
            Z,
        )
    others = {
        3: lambda: kernels.Periodic(variance, rng.uniform(0.5, 2.0), scale * 10.0 ** rng.uniform()),
        4: lambda: kernels.Linear(variance / scale**2) + one(),
        5: lambda: kernels.RationalQuadratic(variance, lengths(), shape=rng.uniform(0.5, 3.0)),
        6: lambda: one() + kernels.SquaredExponential(1.0, lengths()) * one(),
        7: lambda: one() + kernels.Constant(0.5 * variance) + kernels.White(0.1 * variance),
    }
    return others.get(choice, one)(), X, Z


def random_features(rng, kernel, X, Z, scale):
    """Features that the kernel allows, most often other ones than inducing points."""
    D = Z.shape[1]
    M = len(Z)
    widths = scale * rng.uniform(0.1, 1.0, D)
    frequencies = rng.uniform(0.0, 2.0, D) / scale
    some = [
        lambda: GaussianBlur(Z, widths),
        lambda: Wavelet(Z, widths, frequencies, rng.uniform(0, 3)),
        lambda: Derivative(Z, rng.integers(-1, D, M)),
        lambda: Fourier(-3.0 * scale, 3.0 * scale, int(rng.integers(1, 4))),
        lambda: StackedFeatures([InducingPoints(Z[: M // 2]), GaussianBlur(Z[M // 2 :], widths)]),
    ]
    # no closed form, or no such feature in so many dimensions
    with contextlib.suppress(NotImplementedError, ValueError):
        found = some[rng.integers(len(some))]()
        found.Kuu(kernel), found.Kuf(kernel, X)
        return found
    return InducingPoints(Z)


def random_power(rng):
    """0, 1, or something between, sometimes tiny."""
    return float(rng.choice([0.0, 1.0, rng.uniform(), 10.0 ** rng.uniform(-9, -1)]))


class Targets(NamedTuple):
    """A likelihood, targets, and the units of f^2 and the mean of f that suit them."""

    likelihood: likelihoods.Likelihood
    y: np.ndarray
    variance: float
    mean: float


ROWS = 12
WITH_UNITS = {"Gaussian", "StudentT", "HeteroscedasticGaussian", "Tobit"}  # those of their targets
KINDS_OF_TARGETS = likelihoods.LIKELIHOODS | {"Softmax": Softmax}
OTHERS = [
    name for name, kind in KINDS_OF_TARGETS.items() if not issubclass(kind, likelihoods.Gaussian)
]


def random_likelihood(rng, name, unit):
    """A likelihood with random parameters, in this unit of y."""
    shape = 10.0 ** rng.uniform(-0.5, 1)
    noise = likelihoods.Gaussian(unit**2 * 10.0 ** rng.uniform(-4, 1))
    arguments = {
        "Gaussian": (noise.noise_variance,),
        "SwitchedLikelihood": ((noise, likelihoods.Probit()),),
        "NoisyProbit": (10.0 ** rng.uniform(-6, -1),),
        "NegativeBinomial": (shape,),
        "StudentT": (rng.uniform(1, 9), unit * rng.uniform(0.1, 1)),
        "Ordinal": (np.sort(rng.normal(size=2)),),
        "Beta": (10.0 ** rng.uniform(-0.5, 2),),
        "HeteroscedasticGaussian": (unit**2 * rng.uniform(0.1, 1), rng.uniform(0.2, 1) / unit),
        "Gamma": (shape,),
        "Weibull": (min(shape, 3.0),),
        "Tobit": (unit**2 * rng.uniform(0.05, 1), rng.choice([None, -0.5 * unit]), 0.8 * unit),
        "Binomial": (5,),
        "Softmax": (3,),
    }
    return KINDS_OF_TARGETS[name](*arguments.get(name, ()))


def random_targets(rng, name=None):
    """Targets of the likelihood with this name, or of any but Gaussian noise."""
    name = name or str(rng.choice(OTHERS))
    unit = 10.0 ** rng.uniform(-6, 6) if name in WITH_UNITS else 1.0
    mean = rng.uniform(-12, 12) if name in ("Gamma", "Weibull") else 0.0
    likelihood = random_likelihood(rng, name, unit)
    f = mean + unit * rng.normal(size=(likelihood.n_latent, ROWS))
    y = likelihood.part(1).sample(np.squeeze(f), rng)
    if name == "Weibull":  # some durations had not ended
        y = y * rng.choice([1.0, 1.0, -1.0], ROWS)
    return Targets(likelihood, likelihood.check(y), unit**2, mean)


def random_columns(rng, targets, N):
    """Powers, weights and perhaps blocks and known variances of some rows."""
    gaussian = type(targets.likelihood) is likelihoods.Gaussian
    labels = np.arange(N)
    in_blocks = 0.4 if gaussian else 0.3 * (targets.likelihood.n_latent == 1)
    if rng.uniform() < in_blocks:
        drawn = rng.integers(0, 1 + N // 2, N)
        labels = np.unique(drawn, return_inverse=True)[1]
    powers = np.array([random_power(rng) for _ in range(N)])
    private = rng.uniform() < 0.3
    weight = rng.integers(1, 4, N)[labels]
    columns = {
        "power": powers[labels] if private else np.full(N, powers[0]),
        "weight": weight ** float(rng.uniform() < 0.3),
    }
    if len(set(labels)) < N:
        columns["blocks"] = labels
    if gaussian and rng.uniform() < 0.3:
        columns["known_variance"] = targets.likelihood.noise_variance * rng.uniform(0, 2, N)
    return columns


def random_problem(rng, targets):
    """A problem as those of the laws, with any kernel, features, powers, blocks, weights and
    units.
    """
    likelihood = targets.likelihood
    N = rng.integers(3, ROWS + 1)
    M = rng.integers(1, 6)
    D = rng.integers(1, 4)
    scale = 10.0 ** rng.uniform(-6, 6)
    X = scale * rng.normal(size=(N, D))
    Z = scale * rng.normal(size=(M, D))
    functionals = isinstance(likelihood, SwitchedLikelihood)
    kernel, X, Z = random_kernel(rng, X, Z, scale, targets.variance, functionals)
    columns = random_columns(rng, targets, N)
    features = random_features(rng, kernel, X, Z, scale)
    tight = type(likelihood) is likelihoods.Gaussian and rng.uniform() < 0.3
    return LawCase(
        likelihood,
        columns["power"],
        kernel,
        features,
        ConstantMean(targets.mean),
        more="tight" if tight else "",
        drawn={"X": X, "y": targets.y[:N]} | columns,
    )


def evidence(rng, name=None):
    """A random problem against its dense formula."""
    problem = random_problem(rng, random_targets(rng, name))
    well_conditioned = np.linalg.cond(problem.features.Kuu(problem.kernel)) < 1e8
    jitter = float(rng.choice([0.0, 1e-8])) if well_conditioned else 1e-8
    rows = adapter.in_memory(**problem.drawn)
    fit = adapter.evidence(problem.model, rows, 0.5, jitter=jitter, tight=problem.tight)
    name = type(problem.likelihood).__name__
    if not fit.converged:
        return f"{name}: not converged; the fit says so"
    value, size = problem.dense(fit)
    enough = CLOSE * max(1.0, size)
    if not abs(fit.log_evidence - value) <= enough:
        return f"{name}: log Z {fit.log_evidence!r} instead of {value!r}"
    if not problem.gaussian:
        rise = problem.at_sites(fit)[1](rng, enough)
        if not abs(rise) <= enough:
            return f"{name}: log Z rises by {rise} with the sites"
    return None


def random_arguments(rng):
    """Arguments that all estimators share."""
    trainings = (
        LBFGS(max_iter=int(rng.integers(1, 30))),
        LBFGS(max_iter=5),
        Adam(n_epochs=5),
    )
    return {
        "n_inducing": int(rng.integers(1, 12)),
        "power": random_power(rng),
        "random_state": 0,
        "standardize": bool(rng.integers(2)),
        "training": trainings[rng.integers(3)],
        "jitter": float(rng.choice([0.0, 1e-8, 1e-6])),
        "blocks": int(rng.integers(2, 6)) if rng.uniform() < 0.2 else None,
        "kernel": str(rng.choice(["se", "matern12", "matern32", "matern52", "rq"])),
        "ard": [True, False, "auto"][rng.choice(3, p=[0.6, 0.2, 0.2])],
        "priors": rng.choice([None, "weak"]),
    }


def random_regressor(rng, arguments, X, scale):
    y = np.sin(X[:, 0] / scale) + 0.1 * rng.normal(size=len(X))
    tight = bool(rng.uniform() < 0.2)
    can_be_local = arguments["power"] <= 0.8 and not (tight or arguments["blocks"])
    arguments["standardize"] = True
    arguments["local"] = 20 if can_be_local and rng.uniform() < 0.3 else None
    return SparsePEPRegressor(**arguments, tight=tight), X, 10.0 ** rng.uniform(-6, 6) * y


def random_classifier(rng, arguments, X, scale):
    y = np.append([0, 1], rng.integers(0, rng.integers(2, 4), len(X) - 2))
    of_two = str(rng.choice(["probit", "logit"]))
    likelihood = "softmax" if np.max(y) > 1 else of_two
    return SparsePEPClassifier(**arguments, likelihood=likelihood), X, y


def random_general(rng, arguments, X, scale):
    likelihood = None
    while likelihood is None or isinstance(likelihood, Softmax | SwitchedLikelihood):
        likelihood, y, _, _ = random_targets(rng)
    return SparsePEP(**arguments, likelihood=likelihood), X[:ROWS], y


def random_estimator(rng):
    """An estimator with random arguments, and data for it."""
    scale = 10.0 ** rng.uniform(-6, 6)
    X = scale * rng.normal(size=(rng.integers(12, 40), rng.integers(1, 4)))
    make = (random_regressor, random_classifier, random_general)[rng.integers(3)]
    return make(rng, random_arguments(rng), X, scale)


def fitted(rng):
    """An estimator with random arguments, and the same from a file."""
    model, X, y = random_estimator(rng)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    if not (said or model.converged_ and np.isfinite(model.log_marginal_likelihood_value_)):
        return "not converged, or an evidence that is no number, and silent"
    found = model.predict_f(X)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.npz")
        again = load(Path(folder) / "m.npz").predict_f(X)
    return (
        None
        if all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, again, strict=True))
        else "another model after loading"
    )


def command(*words):
    """What is wrong with the way in which the command line ends: it succeeds, or says in one
    line why not.
    """
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        try:
            main_command(list(words))
        except SystemExit as end:
            code = end.code
            said = errors.getvalue()
    good = not code or (code == 2 and said.startswith("Error: ") and said.count("\n") == 1)
    return code, None if good else f"status {code}: {said[-300:]}"


def table(rng):
    """`fit` and `predict` with a damaged table."""
    end, content = mutations.table_file(rng)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"t.{end}"
        model = f"{folder}/m.npz"
        path.write_bytes(content)
        more = [["--likelihood", "auto"], ["--decimal", ","], [], []][rng.integers(4)]
        fit = f"fit {path} --target y --inducing 3 --max-iter 1 --quiet --out {model}"
        status, fault = command(*fit.split(), *more)
        return (
            fault if status else command("predict", model, str(path), "--out", f"{folder}/p.csv")[1]
        )


def quick(kind, y, **limits):
    """A small model, quickly fitted."""
    return kind.set_params(n_inducing=3, training=LBFGS(max_iter=2, **limits), random_state=0).fit(
        DAMAGED_X, y
    )


DAMAGED_X = np.random.default_rng(0).normal(size=(20, 2))
DAMAGED = [
    (SparsePEPRegressor(), DAMAGED_X[:, 0]),
    (SparsePEPClassifier(), np.arange(20) % 3),
    (SparsePEP(likelihood="poisson"), np.arange(20) % 5),
]


@functools.cache
def whole_files():
    """Models of three kinds: the bytes of the model file and of the checkpoint, and the
    predictions.
    """
    found = []
    for kind, y in DAMAGED:
        with tempfile.TemporaryDirectory() as folder:
            fitted = quick(kind, y, checkpoint=f"{folder}/c.npz")
            fitted.save(f"{folder}/m.npz")
            found.append(
                (
                    Path(f"{folder}/m.npz").read_bytes(),
                    Path(f"{folder}/c.npz").read_bytes(),
                    fitted.predict(DAMAGED_X),
                )
            )
    return found


def damaged_file(rng, which):
    """A damaged model file (0) or checkpoint (1): refused with a ValueError, or predictions are
    those of the whole one.
    """
    k = rng.integers(3)
    content = whole_files()[k][which]
    expected = whole_files()[k][2]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        path = Path(folder) / "inner" / "m.npz"
        path.parent.mkdir()
        path.write_bytes((mutations.damaged, mutations.forged)[rng.integers(2)](rng, content))
        try:
            found = quick(*DAMAGED[k], checkpoint=path) if which else load(path)
        except ValueError as error:
            return None if "\n" not in str(error) else "several lines"
        if sorted(os.listdir(folder)) != ["inner"] or os.listdir(path.parent) != ["m.npz"]:
            return "other files were written"
    return (
        None
        if np.array_equal(found.predict(DAMAGED_X), expected)
        else "other predictions from a damaged file"
    )


SIGNALS = (
    "import sparse_pep.training as t, sparse_pep.numerics.files as f; "
    "t.SECONDS_BETWEEN_SAVES = f.RARELY = 0.0; from sparse_pep.cli import main; main()"
)


def stopped(rng):
    """The command `fit`, ended by a signal at any moment and called again."""
    X = rng.normal(size=(300, 3))
    number = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)[rng.integers(3)]
    before = rng.uniform(0.5, 8.0)
    labels = ["--likelihood", "auto"] * int(rng.integers(2))
    y = np.sin(3 * X[:, 0]) + 0.1 * X[:, 1]
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(
            f"{folder}/t.csv",
            np.column_stack([X, y > 0.0 if labels else y]),
            delimiter=",",
            header="a,b,c,y",
            comments="",
            fmt="%.17g",
        )
        words = [
            sys.executable,
            "-c",
            SIGNALS,
            *"fit t.csv --target y --inducing 8 --max-iter 25 --quiet".split(),
            *labels,
        ]
        more = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*words, "--out", "whole.npz"], check=True, **more)
        kept = [*words, "--out", "m.npz", "--checkpoint", "c.npz"]
        process = subprocess.Popen(kept, **more)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(before)
        process.send_signal(number)
        status = process.wait()
        if (
            status not in (0, 2, 3, 130, 128 + number, -number)
            or status in (0, 3)
            and not (Path(folder) / "m.npz").exists()
        ):
            return f"status {status} after {number!r}, with {os.listdir(folder)}"
        subprocess.run(kept, check=True, **more)
        found, whole = (load(f"{folder}/{name}.npz").predict_f(X) for name in ("m", "whole"))
        left = {name for name in os.listdir(folder) if not name.endswith(".part")}
    return (
        None
        if np.array_equal(found, whole) and left == {"t.csv", "m.npz", "whole.npz"}
        else f"another model after {number!r}, or {left}"
    )


def global_state():
    """What a fit must leave alone."""
    blas = [(one["internal_api"], one["num_threads"]) for one in threadpool_info()]
    return (
        np.geterr(),
        np.get_printoptions(),
        list(warnings.filters),
        np.random.get_state()[1].tolist(),
        blas,
    )


def threads(rng):
    """Two estimators with random arguments, alone and in two threads."""

    def bits(model, X, y):
        with contextlib.suppress(ValueError, np.linalg.LinAlgError):
            return np.array(clone(model).fit(X, y).predict_f(X)).tobytes()

    with threadpool_limits(int(rng.integers(1, 4)), user_api="blas"):
        cases = [random_estimator(rng) for _ in range(2)]
        before = global_state()
        alone = [bits(*case) for case in cases]
        with ThreadPoolExecutor(2) as pool:
            together = list(pool.map(lambda case: bits(*case), [*cases, *cases]))
        return (
            None
            if together == [*alone, *alone] and global_state() == before
            else "other bits, or another state of the process"
        )


def same(rng):
    """An evidence with other orders, units, pieces and numbers of threads."""
    model, X, y = random_estimator(rng)
    blocks = (
        rng.integers(0, 4, len(X))
        if model.blocks and np.unique(X, axis=0).shape == X.shape
        else None
    )
    points = X[: model.n_inducing] / X.std(axis=0)
    unit = 10.0 ** rng.uniform(-6, 6)
    order = np.arange(len(X))
    model.set_params(
        training=None,
        standardize=True,
        local=None,
        blocks=blocks,
        jitter=1e-6,
        kernel=kernels.Matern32(),
        features=InducingPoints(points),
    )
    target = rng.choice([1.0, unit]) if isinstance(model, SparsePEPRegressor) else 1.0
    values = []
    turn = rng.permutation(len(X))
    for rows, scale, height, limit in (
        (order, 1.0, 1.0, 1),
        (turn, 1.0, 1.0, 1),
        (order, unit, target, 1),
        (order, 1.0, 1.0, 2),
    ):
        with threadpool_limits(limit, user_api="blas"):
            own = model.set_params(blocks=None if blocks is None else blocks[rows])
            values.append(own.fit(scale * X[rows], height * y[rows]).log_marginal_likelihood_value_)
    if isinstance(model, SparsePEPRegressor) and blocks is None:
        values.append(model.fit(ArraySource(X, y, piece_rows=5)).log_marginal_likelihood_value_)
    if not model.converged_:
        return f"{type(model.likelihood_).__name__}: not converged; the fit says so"
    far = np.max(np.abs(np.array(values) - values[0])) / max(abs(values[0]), len(y))
    return None if far < 1e-9 else f"{model.likelihood_}, power {model.power}: evidences {values}"


KINDS = {  # and how often
    "gaussian": (functools.partial(evidence, name="Gaussian"), 0.35),
    "other": (evidence, 0.35),
    "fitted": (fitted, 0.09),
    "table": (table, 0.05),
    "model": (functools.partial(damaged_file, which=0), 0.06),
    "checkpoint": (functools.partial(damaged_file, which=1), 0.03),
    "threads": (threads, 0.03),
    "same": (same, 0.038),
    "stopped": (stopped, 0.002),
}


def problem(seed, kind=None):
    """The kind of a problem, and what is wrong with it, if anything."""
    rng = np.random.default_rng(seed)
    kind = kind or str(rng.choice(list(KINDS), p=[share for _, share in KINDS.values()]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fault = KINDS[kind][0](rng)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return kind, f"took {grown / 1000:.0f} MB" if kind in (
        "table",
        "model",
        "checkpoint",
    ) and grown > 200_000 else fault


def main():
    """Problems until the time is over; it returns whether something was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first problem is a million times this"
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kind", choices=KINDS, help="of all problems, which are mixed otherwise")
    parser.add_argument("--only", type=int, help="the seed of one problem")
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    if wanted.only is not None:
        return print(*problem(wanted.only, wanted.kind))
    counts = collections.Counter()
    end = time.monotonic() + 60.0 * wanted.minutes
    seed = 1_000_000 * wanted.seed - 1
    while time.monotonic() < end:
        seed += 1
        try:
            kind, fault = problem(seed, wanted.kind)
        except KeyboardInterrupt:
            break
        except Exception as error:  # whatever it is, it is counted and shown
            kind = "raised"
            fault = (
                f"{type(error).__name__}: {str(error)[:200]} "
                f"({traceback.extract_tb(error.__traceback__)[-1].name})"
            )
        counts[kind] += 1
        if fault is not None:
            counts["not converged" if any(words in fault for words in HONEST) else "wrong"] += 1
            print(f"--only {seed}: {kind}: {fault}", flush=True)
    print(dict(counts))
    return counts["wrong"] > 0


if __name__ == "__main__":
    sys.exit(main())
