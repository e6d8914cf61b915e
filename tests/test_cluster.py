"""Sums over data that lie with Dask workers, one of which dies now and then."""

import gc
import logging
import os
import signal
import sys
import threading
import time
import warnings
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("distributed", reason="the extra `distributed` is not installed")

import cloudpickle
import dask
import dask.array as da
import pandas as pd
from conftest import user_warning, value_error
from dask import dataframe as dd
from distributed import Client, LocalCluster, default_client
from distributed.comm import CommClosedError
from numpy.random import default_rng

from sparse_pep import SparsePEPRegressor
from sparse_pep.data import cluster as module
from sparse_pep.data.cluster import ClusterLost, DaskSource, as_cluster_lost
from sparse_pep.data.columns import Columns
from sparse_pep.data.sources import ArraySource
from sparse_pep.features import InducingPoints
from sparse_pep.inference import Problem, Rows
from sparse_pep.inference.shard import MaxReduce
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.model import Model, model_evidence, model_gradient, to_vector
from sparse_pep.training import LBFGS, TrainingOptions, train

ALONE = {
    "threads_per_worker": 1,
    "dashboard_address": "127.0.0.1:0",
    "worker_dashboard_address": "127.0.0.1:0",
    "silence_logs": logging.CRITICAL,
}
N = 1200
D = 2
PIECES = 6
rng = default_rng(0)
X = rng.uniform(-2.0, 2.0, (N, D))
y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=N)
labels = np.where(y + 0.3 * rng.normal(size=N) > 0.0, 1.0, -1.0)
weight = rng.uniform(0.5, 2.0, N)
known = rng.uniform(0.0, 0.1, N)
Z = X[:9].copy()
REGRESSION = Model(SquaredExponential(1.0, [1.0, 1.5]), InducingPoints(Z), Gaussian(0.1))
CLASSIFICATION = Model(SquaredExponential(2.0, [1.0, 1.5]), InducingPoints(Z), Probit())
TABLE = pd.DataFrame({"a": X[:, 0], "y": y, "b": X[:, 1], "w": weight, "n": known})


def rows(values, chunk=N // PIECES):
    return da.from_array(values, chunks=(chunk, *values.shape[1:]))


def frame(table=TABLE, npartitions=3):
    return dd.from_pandas(table, npartitions=npartitions)


def settings():
    """Dask's, but for the pages of schedulers, to which each adds one."""
    found = deepcopy(dask.config.config)
    found["distributed"]["scheduler"].pop("http")
    found.pop("scheduler", None)  # which Dask leaves where a scheduler was lost
    return found


@pytest.fixture(scope="module", autouse=True)
def dask_is_left_as_it_was():
    before = settings()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import all this
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert settings() == before
    with value_error("No client"):
        default_client()


@pytest.fixture(autouse=True)
def no_test_waits_for_ever():
    before = signal.signal(
        signal.SIGALRM, lambda *_: pytest.fail("the test has waited for a minute")
    )
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def processes():
    """Two workers that can be killed; on a busy machine others take long to come. Nobody calls
    the dead for half a minute.
    """
    how = {
        "distributed.deploy.lost-worker-timeout": "2 minutes",
        "distributed.comm.timeouts.connect": "6 s",
    }
    with dask.config.set(how), Client(n_workers=2, **ALONE) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    """Two workers, threads of this process."""
    with Client(n_workers=2, processes=False, **ALONE) as client:
        yield client


@pytest.fixture
def source(client):
    return DaskSource(rows(X), rows(y), client=client)


def tasks_of(client):
    """Names of all tasks that the scheduler remembers."""
    return {
        str(key)
        for key in client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
    }


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def both_run(client):
    """Whether no worker is still on its way: Dask does not start another for one that was killed
    then.
    """
    nannies = client.cluster.workers.values()
    return len(client.nthreads()) == 2 and all(
        nanny.process.status.name == "running" for nanny in nannies
    )


def kill_one(client):
    """End the process of the worker with the most data, as the kernel does when memory is out."""
    held = client.has_what()
    most = max(held, key=lambda address: len(held[address]))
    (victim,) = [nanny for nanny in client.cluster.workers.values() if nanny.worker_address == most]
    os.kill(victim.process.pid, signal.SIGKILL)


def count(piece):
    return len(piece.X), piece.X.sum()


def test_regression_on_two_workers(processes):
    """In processes; `laws` has all kinds of evidence on workers that are threads."""
    source = DaskSource(rows(X), rows(y), rows(weight), rows(known), client=processes)
    pids = processes.run(os.getpid)
    for pid in pids.values():
        os.kill(pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    time.sleep(0.5)
    assert processes.run(os.getpid) == pids
    fit, gradient = model_gradient(REGRESSION, Problem(source))
    whole, whole_gradient = model_gradient(REGRESSION, Problem(Rows(X, y, weight, known)))
    assert fit.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    assert_allclose(to_vector(gradient), to_vector(whole_gradient), rtol=1e-10, atol=1e-10 * N)


def kill_during(source, method, number):
    """Kill a worker in the middle of call `number` of a method; gives what the calls are for."""
    until(lambda: both_run(source.client), 40.0)
    original = getattr(source, method)
    calls = []

    def watched(work, *given):
        calls.append(work.__name__)
        if len(calls) != number:
            return original(work, *given)
        killer = threading.Timer(0.02, kill_one, (source.client,))
        killer.start()
        found = original(work, *given)
        killer.join()
        return found

    setattr(source, method, watched)
    return calls


def test_worker_killed_in_the_middle_of_training(processes):
    source = DaskSource(rows(X), rows(y), client=processes)
    given = REGRESSION, Problem(source, jitter=1e-8), TrainingOptions(LBFGS(max_iter=3))
    result = train(*given)
    assert result.history[-1] > result.history[0] + 100.0
    calls = kill_during(source, "total", 5)
    again = train(*given)
    assert len(calls) > 7
    assert "evaluate_known" in calls[5:]  # more was to come
    assert again.log_evidence == pytest.approx(result.log_evidence, rel=1e-12)
    assert_allclose(again.history, result.history, rtol=1e-12)


def relax(piece, own, pull, size):
    """A sweep whose result depends on all sweeps before it."""
    old = np.zeros(len(piece.X)) if own is None else own[0]
    new = 0.5 * old + np.tanh(piece.X[:, 0] * pull) + piece.y
    return (new, np.zeros(size)), (new.sum(), MaxReduce(float(new.max())))


def relaxed(source, n, sizes=(0,)):
    state = None
    pull = 1.0
    for t in range(n):
        state, (total, largest) = source.sweep(relax, state, pull, sizes[t % len(sizes)])
        pull = 0.9 * pull + 1e-4 * total
    return state, total, largest.value


def fail_late(piece, *own):
    if piece.first == 1000:
        raise np.linalg.LinAlgError("`B` is not positive definite.")
    return (np.zeros(3),), (0.0,)


def slow(piece):
    time.sleep(0.2)
    return (1,)


@pytest.fixture
def no_garbage_collection():
    """What is needed no more is released at once, and not when Python next looks for cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_chains_are_cut_and_the_scheduler_forgets_what_is_not_needed(client, source, monkeypatch):
    before = tasks_of(client)
    monkeypatch.setattr(module, "CHAIN", 4)
    there, total, largest = relaxed(ArraySource(X, y, piece_rows=200), 10)
    state, found, high = relaxed(source, 10)
    assert state.length == 2
    assert len(state) == PIECES  # 10 sweeps, cut after 4 and 8
    assert (found, high) == (pytest.approx(total, rel=1e-13), largest)
    for k in range(PIECES):
        assert_allclose(state[k][0], there[k][0], rtol=1e-13)
    del state
    until(lambda: before >= tasks_of(client))
    (
        source.total(count),
        list(source.each(count)),
        source.fingerprint(),
        source.sample(5, default_rng(0)),
    )
    unfinished = source.each(count)
    next(unfinished)
    unfinished.close()
    other = DaskSource(rows(X), rows(labels), labels=True, client=client)
    assert len(tasks_of(client) - before) >= PIECES
    del other
    until(lambda: before >= tasks_of(client))


def test_ctrl_c_takes_the_tasks_back(client, source):
    before = tasks_of(client)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            source.total(slow)
    finally:
        signal.signal(signal.SIGINT, handler)
    until(lambda: gc.collect() >= 0 and before >= tasks_of(client))
    assert source.total(count)[0] == N


def spoil(piece, own=None):
    (piece.X if own is None else own[0])[:] = 0.0


def begin(piece, own):
    return (piece.y + 1.0,), (len(piece.y),)


def test_a_task_cannot_spoil_what_others_need(source):
    with value_error(r"rows \d+ to \d*99: assignment destination is read-only"):
        source.total(spoil)
    state, _ = source.sweep(begin, None)
    with value_error("read-only"):
        source.sweep(spoil, state)


def assert_all_there(source, **more):
    found = list(source.pieces())
    wanted = {"X": X, "y": y, "weight": 1.0, "known_variance": 0.0, "power": None} | more
    for name, value in wanted.items():
        parts = [getattr(piece, name) for piece in found]
        if np.ndim(value) == 0:
            assert set(parts) == {value}
        else:
            assert_array_equal(np.concatenate(parts), value)
    assert (source.n_data, source.n_dims) == (N, D)
    assert [piece.first for piece in found] == np.cumsum([0, *(len(p.X) for p in found)])[
        :-1
    ].tolist()
    assert found[0].X.dtype == np.float64
    assert found[0].X.flags.c_contiguous


def test_arrays_cut_in_any_way(client):
    for chunks in ((500, 1), (N, 2), ((1, 0, 1199), 2)):
        assert_all_there(
            DaskSource(da.from_array(X, chunks=chunks), da.from_array(y, chunks=170), client=client)
        )
    two = np.stack([y, -y], axis=1)
    many = {"weight": weight, "known_variance": known, "power": weight / 2.0}
    cut = {name: da.from_array(value, chunks=250) for name, value in many.items()}
    assert_all_there(
        DaskSource(rows(X), da.from_array(two, chunks=(100, 1)), **cut, client=client),
        y=two,
        **many,
    )
    assert_all_there(DaskSource(rows(X), y, 2.0, power=0.5, client=client), weight=2.0, power=0.5)
    whole = np.round(10 * X).astype(np.int32)
    assert_all_there(
        DaskSource(rows(np.asfortranarray(whole)), client=client), X=whole.astype(float), y=None
    )


def test_dataframes(client):
    inputs = ["a", "b"]
    assert_all_there(
        DaskSource(frame(), "y", "w", "n", client=client), weight=weight, known_variance=known
    )
    turned = DaskSource(frame(), ["y", "w"], columns=["b", "a"], client=client)
    assert_all_there(turned, X=X[:, ::-1], y=TABLE[["y", "w"]].to_numpy())
    some = frame()[frame().a > -9.0]  # as far as Dask knows, any number of rows
    assert_all_there(DaskSource(some[inputs], some["y"], some["w"], client=client), weight=weight)
    assert_all_there(DaskSource(some, some["y"].to_dask_array(), columns=inputs, client=client))
    counted = frame(TABLE.assign(row=np.arange(N)), 5)
    few = DaskSource(counted[counted.row >= 1000], "y", columns=inputs, client=client)
    assert few.n_data == 200
    assert len(few.firsts) == 1  # empty partitions are left out


def test_labels(client):
    table = frame(TABLE.assign(y=np.where(labels > 0.0, "yes", "no")))
    source = DaskSource(table, "y", columns=["a", "b"], labels=True, client=client)
    assert_all_there(source, y=labels)
    assert source.classes.tolist() == ["no", "yes"]
    assert source.feature_names == ("a", "b")
    three = np.digitize(y, [-0.5, 0.5]) + 5
    source = DaskSource(rows(X), rows(three), labels=True, client=client)
    assert_all_there(source, y=three - 5.0)
    assert source.classes.tolist() == [5, 6, 7]
    assert source.feature_names is None
    given = DaskSource(table, "y", columns=["a", "b"], labels=["maybe", "no", "yes"], client=client)
    assert_all_there(given, y=1.5 + labels / 2.0)


def test_blocks(client):
    numbers = np.arange(N) // 50
    words = np.array([f"block {k:02}" for k in numbers])
    for blocks in (numbers - 7.0, words, rows(words, 170)):
        assert_all_there(DaskSource(rows(X), y, blocks=blocks, client=client), blocks=numbers)
    table = frame(TABLE[["a", "b", "y"]].assign(place=words))
    assert_all_there(DaskSource(table, "y", blocks="place", client=client), blocks=numbers)


BAD = X.copy()
BAD[[777, 1111], 1] = np.nan
SOME = TABLE.assign(kind=pd.Series(np.where(labels > 0.0, "a", "b")).mask(TABLE.index == 901))
HOLES = TABLE.astype("Float64").mask(TABLE == TABLE.a[1001])
STRADDLING = np.where(np.arange(N) < 450, "north", "south")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: DaskSource(rows(BAD)), r"`X`, row 777 .*nan"),
        (lambda: DaskSource(frame(HOLES), "y"), r"`X`, row 1001 .*nan"),
        (
            lambda: DaskSource(rows(X), rows(y)[:-1]),
            r"`y` must have the rows of `X`, 1200 in 6 blocks; got 1199",
        ),
        (
            lambda: DaskSource(frame(TABLE[["a"]], 2), rows(y)),
            r"`y` .* nan in 2 blocks; got 1200 in 6",
        ),
        (
            lambda: DaskSource(rows(X), rows(y), weight=-1.0),
            r"`weight` must lie in \[0, inf\]; got -1",
        ),
        (lambda: DaskSource(rows(X), weight=rows(-weight)), r"`weight`, row 0 "),
        (lambda: DaskSource(rows(y)), r"`X` must be a table .* got shape \(1200,\)"),
        (
            lambda: DaskSource(X, y),
            r"`X` must be a Dask array.* got ndarray. `ArraySource\(X, y\)`",
        ),
        (lambda: DaskSource(frame(), "target"), r"no column 'target'"),
        (lambda: DaskSource(frame(TABLE[["y"]]), "y"), r"no column for inputs"),
        (lambda: DaskSource(frame(TABLE[:0], 1), "y"), r"no rows"),
        (
            lambda: DaskSource(frame(TABLE.assign(a="text")), "y"),
            r"`X`, .*: numbers are expected; .*'text'",
        ),
        (
            lambda: DaskSource(rows(X), rows(labels), labels=[1, 2]),
            r"`y`, row \d+ .*: -1.0 is not one of the labels 1, 2",
        ),
        (
            lambda: DaskSource(frame(SOME), "kind", labels=True),
            r"`y`, row 901 .*: None is not one of",
        ),
        (lambda: DaskSource(rows(X), da.ones(N), labels=True), r"`y` holds one class only"),
        (lambda: DaskSource(rows(X), rows(labels), labels=[]), r"`y` holds no label; two or more"),
        (lambda: DaskSource(frame(), ["y", "w"], labels=True), r"`labels` needs a single target"),
        (lambda: DaskSource(rows(X), labels=True), r"`labels` needs a single target"),
        (
            lambda: DaskSource(rows(X), rows(X), labels=True),
            r"`y` must be labels \(N,\); got shape \(200, 2\)",
        ),
        (lambda: DaskSource(rows(X), rows(y), labels=["a", 1]), r"all numbers or all text"),
        (
            lambda: DaskSource(rows(X), blocks=STRADDLING),
            r"`blocks`: block 'north' has rows in two partitions, rows 0 to 199 and rows "
            r"200 to 399, but must .* sort",
        ),
        (
            lambda: DaskSource(frame(TABLE.assign(k=STRADDLING)), "y", blocks="k"),
            r"'north' has .* 0 to 399 and rows 400",
        ),
        (
            lambda: DaskSource(frame(SOME), "y", columns=["a"], blocks="kind"),
            r"block 'a' has rows in two partitions",
        ),
        (
            lambda: DaskSource(frame(SOME, 1), "y", columns=["a"], blocks="kind"),
            r"`blocks`, row 901 .*: None is not one",
        ),
        (
            lambda: DaskSource(rows(X), blocks=3),
            r"`blocks` must be the name of a column, or labels \(N,\); got 3",
        ),
        (lambda: DaskSource(frame(), "y", blocks="place"), r"no column 'place'"),
        (
            lambda: DaskSource(ArraySource(X, y), blocks=STRADDLING),
            r"`blocks` belongs to the source: give it where",
        ),
    ],
)
def test_collections_that_do_not_do(client, make, message):
    with warnings.catch_warnings(), client.as_current(), value_error(message):
        warnings.simplefilter("ignore")
        make()


def test_the_scheduler_is_gone():
    cluster = LocalCluster(1, processes=False, **ALONE)
    # Dask does not take back one whose scheduler is gone
    client = Client(cluster, timeout=1, set_as_default=False)
    source = DaskSource(rows(X), rows(y), client=client)
    state, _ = source.sweep(begin, None)
    cluster.close()
    try:
        for ask in (
            lambda: source.total(count),
            lambda: list(source.each(count)),
            lambda: state[0],
        ):
            with pytest.raises(ClusterLost, match="the Dask scheduler is gone"):
                ask()
    finally:
        client.close()


def test_without_dask_or_a_client(monkeypatch):
    def no_client():
        raise ValueError("No clients found")

    monkeypatch.setattr("distributed.default_client", no_client)
    with value_error("need a `client`; make one first"):
        DaskSource(rows(X))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with value_error(r"pip install distributed 'dask\[array\]'"):
        DaskSource(rows(X))


def test_an_error_keeps_its_kind_and_names_the_rows(processes):
    source = DaskSource(rows(X), rows(y), client=processes)
    with pytest.raises(
        np.linalg.LinAlgError, match="^rows 1000 to 1199: `B` is not positive definite.$"
    ):
        source.total(fail_late)
    assert source.total(count)[0] == N  # the workers live


def test_worker_killed_in_the_middle_of_a_search(processes):
    source = DaskSource(rows(X, 300), labels, client=processes)
    whole = model_evidence(
        CLASSIFICATION, Problem(ArraySource(X, labels, piece_rows=300)), tol=1e-3
    )
    calls = kill_during(source, "sweep", 6)
    fit = model_evidence(CLASSIFICATION, Problem(source), tol=1e-3)
    assert len(calls) > 7
    assert calls[5] == "evaluate_iterated"
    assert fit.converged
    assert fit.n_sweeps == whole.n_sweeps
    assert fit.log_evidence == pytest.approx(whole.log_evidence, rel=1e-8)
    for k in range(len(fit.start)):
        assert_allclose(fit.start[k][0], whole.start[k][0], rtol=1e-8, atol=1e-8)


def test_a_mixed_table_on_workers_is_that_in_memory(client, tmp_path):
    words = default_rng(1).choice(["u", "v", "w"], N)
    mixed = TABLE.assign(
        word=words, day=pd.date_range("2020-01-01", periods=N), note=[f"n{k}" for k in range(N)]
    )
    mixed.loc[::7, "a"] = np.nan
    mixed.loc[::11, "word"] = None
    mixed.to_parquet(tmp_path / "t.parquet")
    inputs = ["a", "word", "day", "note"]
    expected = Columns.of(mixed[inputs])
    for table in (frame(mixed), dd.read_parquet(tmp_path)):
        source = DaskSource(table, "y", client=client, columns=inputs, column_types={})
        assert source.encoded_by.used == expected.used
        assert list(source.feature_names) == expected.names
        found = np.concatenate([piece.X for piece in source.pieces()])
        assert_allclose(found, expected.transform(mixed), rtol=1e-13)
    gaps = DaskSource(frame(mixed[["a", "b", "y"]]), "y", client=client, column_types={})
    assert gaps.feature_names == ("a", "a=(missing)", "b")
    plain = DaskSource(frame(), "y", client=client, column_types={})
    assert plain.encoded_by is None
    assert plain.feature_names == ("a", "b", "w", "n")
    with user_warning("'note' .it identifies rows"):
        model = SparsePEPRegressor(n_inducing=5, training=None, random_state=0).fit(
            frame(mixed[inputs]), frame(mixed)["y"]
        )
    later = mixed[:50].assign(word="unseen").drop(columns="note")
    assert_allclose(model.predict(frame(later)), model.predict(later), rtol=1e-10)


@pytest.mark.parametrize("status, error", [("closing", ValueError), ("running", CommClosedError)])
def test_a_client_that_is_being_closed_is_a_cluster_that_is_lost(status, error):
    client = SimpleNamespace(status=status)
    with pytest.raises(ClusterLost, match="the Dask scheduler is gone"), as_cluster_lost(client):
        raise error("in a call that was under way")
    with value_error("of a task"):
        with as_cluster_lost(SimpleNamespace(status="running")):
            raise ValueError("of a task")
