"""Other ways to train: L-BFGS with other histories and variables, starts on a sample of the rows,
inducing points that come later.

    python -m benchmarks.optimisers paths     # writes nbs/about/benchmarks/paths.csv
    python -m benchmarks.optimisers starts    # starts.csv
    python -m benchmarks.optimisers points    # points.csv
    python -m benchmarks.optimisers variables # variables.csv
    python -m benchmarks.optimisers starts hflights     # again, rows of other sets stay
 needs the data sets that `sparse_pep.datasets` reads. All runs have Gaussian noise, power 0.5
(`variables`: 0) and one thread; seconds are those of the processor, and scores are the objective in
nats per row, and RMSE and log density of test rows. `paths` trains 50 inducing points on 2000 rows
for 500 evaluations and writes how many each way needed until the objective was 0.02 and 0.005 nats
per row below the best of all ways (empty if it was not). `starts` trains 50 inducing points on 20
000 rows (`sines`: 200 000) until the default rule ends it. There `same` is when the first way, all
rows, was as high as this one was in the end, and `close` when this one was within 0.001 nats per
row of the end of the first way (empty if it was not). `points` trains 200 inducing points on 6000
rows for 120 iterations and then adds others, or trains more of them from the start for as long.
`variables` trains 200 inducing points on 9000 rows from the start of `benchmarks.fits` for 115
evaluations, with positive parameters as logarithms or as GPflow has them.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks.fits import scaling, start_of
from sparse_pep.datasets import load_regression
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.kernels import Matern32
from sparse_pep.likelihoods import Gaussian
from sparse_pep.model import Model, model_evidence, model_predict, predictive_log_density
from sparse_pep.numerics.threads import one_blas_thread
from sparse_pep.training import (
    LBFGS,
    TrainingOptions,
    greedy_points,
    initial_kernel,
    kmeans_points,
    train,
)
from sparse_pep.training.initialise import search_initial_lengthscale
from sparse_pep.training.lbfgs import (
    FEWEST_AND_MOST,
    LAST,
    STALLED,
    Objective,
    WarmEvidence,
    units_of,
)
from sparse_pep.training.options import Clock

INDUCING = 50
POWER = 0.5
JITTER = 1e-8
TOL = 5e-4
EVALUATIONS = 500
PATHS = "concrete", "kin8nm", "pol", "elevators"
STARTS = "kin40k", "keggundirected", "hflights", "sines"
POINTS = "kin8nm", "pol", "kin40k"
VARIABLES = "kin40k", "keggundirected", "pol", "elevators"
FOLDER = Path(__file__).parents[1] / "nbs/about/benchmarks"


def split_of(name: str) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Inputs, targets, and the training and test rows of split 0. `sines` has 200 000 rows to
    train on: the sines of ten inputs, summed, in noise.
    """
    if name != "sines":
        data = load_regression(name)
        return np.asarray(data.X, float), np.asarray(data.y, float), data.splits[0]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(205_000, 10))
    return (
        X,
        np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=len(X)),
        (np.arange(200_000), np.arange(200_000, len(X))),
    )


def problem(
    name: str, n_rows: int, n_inducing: int = INDUCING
) -> tuple[Model, Rows, np.ndarray, np.ndarray]:
    """The default start for some training rows of split 0, standardised, the rows, and test
    inputs and targets.
    """
    (X, y, (train, test)) = split_of(name)
    rng = np.random.default_rng(0)
    train = rng.choice(train, n_rows, replace=False) if len(train) > n_rows else train
    scale = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)
    y = (y - y[train].mean()) / y[train].std()
    rows = Rows(np.ascontiguousarray(X[train]), y[train])
    points = InducingPoints(kmeans_points(rows.X, n_inducing, rng))
    start = Model(initial_kernel(rows.X, rows.y), points, Gaussian(1.0))
    return search_initial_lengthscale(start, rows), rows, X[test], y[test]


class Settings(NamedTuple):
    """How a run goes. With `softplus`, positive parameters are log(1 + exp(v)), not exp(v);
    `memory` is the length of the history, and `most` evaluations replace the default rule.
    """

    relative: float = 0.0
    memory: int = 50
    fixed: tuple[str, ...] = ()
    tol: float = TOL
    most: int | None = None
    max_iter: int = 10**6
    softplus: bool = False
    power: float = POWER


class Run:
    """One run of L-BFGS. Its variables are the parameters in their units, or v with parameters
    start + `root` v; if `relative` is not 0, the unit of inducing inputs is this number of present
    lengthscales.
    """

    def __init__(
        self,
        model: Model,
        rows: Rows,
        root: np.ndarray | None = None,
        settings: Settings = Settings(),  # noqa: B008
    ):
        evidence = WarmEvidence(Problem(rows, settings.power, jitter=JITTER))
        self.objective = Objective(model, evidence, settings.fixed)
        self.rows = rows
        self.settings = settings
        self.units = units_of(self.objective.trained)
        self.root = root
        self.places = self.mask("features.Z")
        self.lengths = self.mask("kernel.log_lengthscale")
        if settings.relative:
            self.units = np.where(self.places, settings.relative, self.units)
        self.best = (-np.inf, None)
        self.path = []
        self.times = []
        self.heights = []
        self.worst = np.inf
        v = np.zeros(len(self.units))
        if root is None:
            v = self.variables(self.objective.start) / self.units
        with one_blas_thread():
            self.minimise(v)
        self.model = self.objective.model_at(self.best[1])

    def minimise(self, v: np.ndarray) -> None:
        """Run L-BFGS from v, and once more where it ends if its line search failed."""
        rules = {
            "maxcor": self.settings.memory,
            "ftol": 0.0,
            "gtol": 1e-3 * self.settings.tol * self.rows.n_data,
            "maxiter": self.settings.max_iter,
            "maxfun": self.settings.most or 10**6,
        }
        for _ in range(2):
            self.end = minimize(
                self, v, jac=True, method="L-BFGS-B", callback=self.record, options=rules
            )
            v = self.end.x
            if self.end.status != STALLED:
                break

    def mask(self, wanted: str) -> np.ndarray:
        """Which entries of the vector belong to a parameter."""
        return np.concatenate(
            [
                np.full(np.size(value), name == wanted)
                for name, value in self.objective.trained.items()
            ]
        )

    def lengthscales(self, vector: np.ndarray) -> np.ndarray:
        """The lengthscale by which each entry of the inducing inputs is divided."""
        return np.tile(np.exp(vector[self.lengths]), self.places.sum() // self.lengths.sum())

    def variables(self, vector: np.ndarray) -> np.ndarray:
        """The parameters with relative inducing inputs or inverse softplus, if these are wanted."""
        vector = vector.copy()
        logs = self.objective.logs
        if self.settings.relative:
            vector[self.places] /= self.lengthscales(vector)
        if self.settings.softplus:
            vector[logs] = np.log(np.expm1(np.exp(vector[logs])))
        return vector

    def __call__(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus objective and gradient, as in `LBFGSObjective`."""
        vector = self.units * v if self.root is None else self.objective.start + self.root @ v
        self.times.append(time.process_time())
        if self.settings.relative:
            vector[self.places] *= self.lengthscales(vector)
        if self.settings.softplus:
            logs = self.objective.logs
            own = vector[self.objective.logs]
            vector[logs] = np.log(np.logaddexp(0.0, own))
        try:
            value, slope, _ = self.objective(vector)
        except np.linalg.LinAlgError:
            self.path.append(self.best[0] / self.rows.n_data)
            return -self.worst + 1e3 * (1.0 + abs(self.worst)), np.zeros(len(v))
        self.worst = min(self.worst, value)
        slope = slope.copy()
        if value > self.best[0]:
            self.best = value, vector
        self.path.append(self.best[0] / self.rows.n_data)
        if self.settings.relative:
            through = (slope * vector)[self.places].reshape(-1, self.lengths.sum())
            slope[self.lengths] += through.sum(axis=0)
            slope[self.places] *= self.lengthscales(vector)
        if self.settings.softplus:
            slope[logs] *= expit(own) / np.logaddexp(0.0, own)
        return -value, -(self.units * slope if self.root is None else self.root.T @ slope)

    def when(self, height: float) -> float:
        """The time of the first evaluation that was so high, NaN if none was."""
        there = np.flatnonzero(np.array(self.path) >= height)
        return self.times[there[0]] if len(there) else np.nan

    def record(self, intermediate_result) -> None:
        """End the run by the default rule."""
        self.heights.append(-intermediate_result.fun)
        last = len(self.heights) - 1
        window = int(np.clip(LAST * len(self.heights), *FEWEST_AND_MOST))
        if self.settings.most is not None or last < window:
            return
        gain = self.heights[-1] - self.heights[-1 - window]
        if gain < self.settings.tol * self.rows.n_data:
            raise StopIteration

    def spread(self, share: float) -> np.ndarray:
        """A root of the inverse matrix of second derivatives that the run has found, times
        `share`: what the next run starts from.
        """
        A = np.diag(self.units) if self.root is None else self.root
        values, vectors = np.linalg.eigh(share * A @ self.end.hess_inv.todense() @ A.T)
        return vectors * np.sqrt(np.maximum(values, 1e-12 * values[-1]))


def scores(model: Model, rows: Rows, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The objective per row, and what test rows score."""
    fit = model_evidence(model, Problem(rows, POWER, jitter=JITTER))
    mean, var = model_predict(model, fit.posteriors, X)
    density = np.mean(predictive_log_density(model.likelihood, y, mean, var))
    return {
        "objective": fit.log_evidence / rows.n_data,
        "rmse": np.sqrt(np.mean((mean - y) ** 2)),
        "log_density": density,
    }


def doubled(model: Model, rows: Rows, pick) -> Run:
    """Samples that double from 20 rows for each inducing point, each with what the last has
    learnt of the second derivatives.
    """
    size = 20 * INDUCING
    root = None
    while size < rows.n_data / 1.5:
        run = Run(model, pick(size), root, Settings(tol=1e-3, max_iter=60))
        larger = 2 * size
        if larger >= rows.n_data / 1.5:
            larger = rows.n_data
        model = run.model
        root = run.spread(size / larger)
        size = larger
    return Run(model, rows, root)


def starts_of(name: str) -> list[dict]:
    """What each start on a sample ends with."""
    model, rows, X, y = problem(name, 200_000 if name == "sines" else 20_000)
    pick = lambda size: rows.at(
        np.sort(np.random.default_rng(0).choice(rows.n_data, size, replace=False))
    )
    small = 30 * INDUCING
    every = None
    lines = []

    def after_sample(keep: bool = False, fixed: tuple[str, ...] = ()) -> Run:
        first = Run(model, pick(small))
        root = first.spread(small / rows.n_data) if keep else None
        return Run(first.model, rows, root, Settings(fixed=fixed))

    ways = {
        "all rows": lambda: Run(model, rows),
        "a sample, then all rows": after_sample,
        "a sample, then all rows with its curvature": lambda: after_sample(keep=True),
        "samples that double, with their curvature": lambda: doubled(model, rows, pick),
        "a sample, then all rows with fixed inducing inputs": lambda: after_sample(
            fixed=("features.Z",)
        ),
    }
    for way, work in ways.items():
        begin = time.process_time()
        run = work()
        seconds = time.process_time() - begin
        every = run if way == "all rows" else every
        same = every.when(run.path[-1]) - every.times[0]
        close = run.when(every.path[-1] - 0.001) - begin
        lines.append(
            {
                "set": name,
                "rows": rows.n_data,
                "way": way,
                "seconds": seconds,
                "same": same,
                "close": close,
                **scores(run.model, rows, X, y),
            }
        )
    return lines


def paths_of(name: str) -> list[dict]:
    """How many evaluations each way needs."""
    model, rows, _, _ = problem(name, 2000)
    ways = {
        "now: history of 50": {},
        "history of 20": {"memory": 20},
        "history of 100": {"memory": 100},
        **{
            f"inducing inputs in {unit} lengthscales": {"relative": unit}
            for unit in (0.5, 1.0, 2.0)
        },
    }
    paths = {
        way: np.array(Run(model, rows, settings=Settings(most=EVALUATIONS, **changes)).path)
        for way, changes in ways.items()
    }
    settings = Settings(fixed=("features.Z",), most=40, max_iter=30)
    first = Run(model, rows, settings=settings)
    then = Run(first.model, rows, settings=Settings(most=EVALUATIONS - len(first.path)))
    paths["hyper-parameters first"] = np.array([*first.path, *then.path])
    best = max(path.max() for path in paths.values())
    lines = []
    for way, path in paths.items():
        there = [
            1 + np.argmax(path >= best - gap) if path.max() >= best - gap else np.nan
            for gap in (0.02, 0.005)
        ]
        lines.append({"set": name, "way": way, "within 0.02": there[0], "within 0.005": there[1]})
    return lines


def variables_of(name: str) -> list[dict]:
    """The objective per row of each kind of variables after some evaluations."""
    data = load_regression(name)
    train = data.splits[0][0][:9000]
    y = np.asarray(data.y, float)
    (mean, scale) = scaling(data.X[train])
    (level, unit) = scaling(y[train])
    rows = Rows(np.ascontiguousarray((data.X[train] - mean) / scale), (y[train] - level) / unit)
    start = start_of(rows.X, 200, 0.1)
    now = None
    lines = []
    model = Model(
        Matern32(start.variance, start.lengthscale),
        InducingPoints(start.Z),
        Gaussian(start.noise_variance),
    )
    for softplus, memory in ((False, 50), (False, 10), (True, 50), (True, 10)):
        settings = Settings(memory=memory, softplus=softplus, power=0.0, tol=0.0, most=115)
        path = np.array(Run(model, rows, settings=settings).path[:115])
        now = path if now is None else now
        there = 1 + np.argmax(path >= now[-1]) if path[-1] >= now[-1] else np.nan
        key = {
            "set": name,
            "variables": "softplus" if softplus else "logarithms",
            "history": memory,
        }
        lines.append(key | {f"at {n}": path[n - 1] for n in (30, 60, 115)} | {"as high": there})
    return lines


class ProcessorClock(Clock):
    """A clock of the seconds of the processor."""

    @property
    def is_over(self) -> bool:
        return time.process_time() - self.begun >= self.seconds


def points_of(name: str) -> list[dict]:
    """Few inducing points and more of them later, and more of them from the start."""
    model, rows, X, y = problem(name, 6000, 200)
    lines = []
    rng = np.random.default_rng(1)
    begin = time.process_time()

    def line(way: str, model: Model, seconds: float) -> None:
        lines.append(
            {
                "set": name,
                "way": way,
                "inducing": len(model.features),
                "seconds": seconds,
                **scores(model, rows, X, y),
            }
        )

    few = train(
        model, Problem(rows, POWER, jitter=JITTER), TrainingOptions(LBFGS(max_iter=120))
    ).model
    first = time.process_time() - begin
    line("few", few, first)
    for n_inducing in (1000, 2000):
        begin = time.process_time()
        more = replace(
            few,
            features=InducingPoints(
                greedy_points(few.kernel, rows.X, n_inducing, first=few.features.Z)
            ),
        )
        chosen = time.process_time() - begin
        model_evidence(more, Problem(rows, POWER, jitter=JITTER))
        line("greedy ones later", more, first + time.process_time() - begin)
        if n_inducing == 1000:
            begin = time.process_time()
            fixed = ("features.Z", "kernel.log_lengthscale")
            refitted = train(
                more,
                Problem(rows, POWER, jitter=JITTER),
                TrainingOptions(LBFGS(max_iter=6), fixed=fixed),
            ).model
            total = first + chosen + time.process_time() - begin
            line("greedy ones later, variance and noise refitted", refitted, total)
            places = np.vstack(
                [few.features.Z, rows.X[rng.choice(rows.n_data, n_inducing - 200, replace=False)]]
            )
            line(
                "random ones later, with this variance and noise",
                replace(refitted, features=InducingPoints(places)),
                total,
            )
    for n_inducing in (400, 600):
        model = problem(name, 6000, n_inducing)[0]
        begin = time.process_time()
        clock = ProcessorClock(total, begin)
        line(
            "all from the start",
            train(model, Problem(rows, POWER, jitter=JITTER), clock=clock).model,
            time.process_time() - begin,
        )
    return lines


if __name__ == "__main__":
    task, *names = sys.argv[1:]
    sets, work = {
        "paths": (PATHS, paths_of),
        "starts": (STARTS, starts_of),
        "points": (POINTS, points_of),
        "variables": (VARIABLES, variables_of),
    }[task]
    for name in names or sets:
        file = FOLDER / f"{task}.csv"
        lines = pd.DataFrame(work(name))
        tables = dict(iter(pd.read_csv(file).groupby("set"))) if file.exists() else {}
        tables[name] = lines
        pd.concat([tables[each] for each in sets if each in tables]).to_csv(
            file, index=False, float_format="%.5g"
        )
