"""Sums over data that lie with Dask workers, one of which dies now and then."""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed", reason="the extra `distributed` is not installed")

import cloudpickle
import dask
import dask.array as da
import pandas as pd
from dask import dataframe as dd
from distributed import Client, Future, LocalCluster, default_client

from sparse_pep.data.cluster import (
    ALONE,
    FAN_IN,
    ClusterLost,
    DaskSource,
    Futures,
    OnWorkers,
    Watch,
    connect,
    fetched,
    n_threads,
    on_piece,
    results_of,
    summed,
    wait_for,
)
from sparse_pep.data.scale import source_gradient, source_inference, train_source
from sparse_pep.data.sources import ArraySource, Largest, Piece
from sparse_pep.data.tables import convert_table
from sparse_pep.features import InducingPoints
from sparse_pep.kernels import SquaredExponential
from sparse_pep.likelihoods import Gaussian, Probit
from sparse_pep.model import Extras, Model, model_gradient, to_vector
from sparse_pep.numerics.linalg import HOLD, chunk_slices, map_chunks

N, D, PIECES = 1200, 2, 12
rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, size=(N, D))
y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=N)
labels = np.where(y + 0.3 * rng.normal(size=N) > 0.0, 1.0, -1.0)
weight = rng.uniform(0.5, 2.0, size=N)
known = rng.uniform(0.0, 0.1, size=N)
Z = X[:9].copy()
REGRESSION = Model(SquaredExponential(1.0, [1.0, 1.5]), InducingPoints(Z), Gaussian(0.1))
CLASSIFICATION = Model(SquaredExponential(2.0, [1.0, 1.5]), InducingPoints(Z), Probit())


def rows(values):
    return da.from_array(values, chunks=(N // PIECES, *values.shape[1:]))


def settings():
    """Dask's, but for the pages of schedulers, to which each adds one."""
    found = deepcopy(dask.config.config)
    found["distributed"]["scheduler"].pop("http")
    return found


@pytest.fixture(scope="module", autouse=True)
def dask_is_left_as_it_was():
    before = settings()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import all this
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert settings() == before
    with pytest.raises(ValueError, match="No client"):
        default_client()


@pytest.fixture(autouse=True)
def no_test_waits_for_ever():
    def stop(*_):
        pytest.fail("the test has waited for two minutes")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def client():
    with connect(2) as client:
        yield client


@pytest.fixture
def regression(client):
    two_workers(client)
    return DaskSource(rows(X), rows(y), client=client, timeout=60.0)


@pytest.fixture
def classification(client):
    two_workers(client)
    return DaskSource(da.from_array(X, chunks=(300, 2)), labels, client=client, timeout=60.0)


@pytest.fixture
def cluster():
    """One worker, a thread of this process."""
    with LocalCluster(1, threads_per_worker=1, processes=False, **ALONE) as cluster:
        yield cluster


@pytest.fixture
def alone(cluster):
    with Client(cluster) as client:
        yield client


def tasks_of(client):
    """Names of all tasks that the scheduler remembers."""
    return [str(key) for key in client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))]


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def pids_of(client):
    """Process numbers of the workers that answer."""
    return {address: pid for address, pid in client.run(os.getpid, on_error="return").items() if isinstance(pid, int)}


def two_workers(client):
    """Wait for both: a test before may have killed one. Dask does not start another for one that was killed while
    it started, so one is added after a while.
    """
    try:
        until(lambda: len(pids_of(client)) == 2, 10.0)
    except AssertionError:
        client.cluster.scale(len(client.cluster.worker_spec) + 1)
        until(lambda: len(pids_of(client)) >= 2, 40.0)


def kill_one(client):
    """End the process of a worker that has data, as the kernel does when memory is out."""
    pids = pids_of(client)
    held = client.run_on_scheduler(
        lambda dask_scheduler: {a: len(w.has_what) for a, w in dask_scheduler.workers.items()}
    )
    if len(pids) == 2:
        os.kill(pids[max(pids, key=held.get)], signal.SIGKILL)
    return len(pids)


# --- the same numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_regression_on_two_workers(client, power):
    source = DaskSource(rows(X), rows(y), rows(weight), rows(known), client=client)
    fit, gradient = source_gradient(REGRESSION, source, power)
    whole, whole_gradient = model_gradient(REGRESSION, X, y, power, extras=Extras(weight, known))
    assert fit.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    np.testing.assert_allclose(to_vector(gradient), to_vector(whole_gradient), rtol=1e-10, atol=1e-10 * N)


def test_classification_on_two_workers(classification):
    fit, gradient = source_gradient(CLASSIFICATION, classification, 0.5)
    whole, whole_gradient = model_gradient(CLASSIFICATION, X, labels, 0.5)
    assert fit.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    np.testing.assert_allclose(to_vector(gradient), to_vector(whole_gradient), rtol=1e-10, atol=1e-10 * N)


# --- a worker dies ------------------------------------------------------------------------------------------------


def kill_during(source, method, number, kill):
    """Let `kill` happen in the middle of call `number` of a method; gives what the calls are for."""
    original, calls = getattr(source, method), []

    def watched(work, *given):
        calls.append(work.__name__)
        if len(calls) != number:
            return original(work, *given)
        killer = threading.Timer(0.02, kill)
        killer.start()
        found = original(work, *given)
        killer.join()
        return found

    setattr(source, method, watched)
    return calls


def test_worker_killed_in_the_middle_of_a_fit(client, regression):
    result = train_source(REGRESSION, regression, 0.5, max_iter=3)
    assert result.history[-1] > result.history[0] + 100.0
    killed = []
    calls = kill_during(regression, "total", 5, lambda: killed.append(kill_one(client)))
    again = train_source(REGRESSION, regression, 0.5, max_iter=3)
    assert killed == [2] and len(calls) > 7 and "forward_piece" in calls[5:]  # it was there, and more was to come
    assert again.log_evidence == pytest.approx(result.log_evidence, rel=1e-12)
    np.testing.assert_allclose(again.history, result.history, rtol=1e-12)


def test_worker_killed_in_the_middle_of_a_sweep(client, classification):
    whole = source_inference(CLASSIFICATION, ArraySource(X, labels, piece_rows=300), 0.5, tol=1e-3)
    killed = []
    calls = kill_during(classification, "sweep", 6, lambda: killed.append(kill_one(client)))
    fit = source_inference(CLASSIFICATION, classification, 0.5, tol=1e-3)
    assert killed == [2] and len(calls) > 7 and calls[5] == "look_piece"
    assert fit.converged and fit.n_sweeps == whole.n_sweeps
    assert fit.log_evidence == pytest.approx(whole.log_evidence, rel=1e-8)
    for k in range(len(fit.sites)):
        np.testing.assert_allclose(fit.sites[k][0], whole.sites[k][0], rtol=1e-8, atol=1e-8)


# --- the chain of sweeps ------------------------------------------------------------------------------------------


def relax(piece, own, pull, size):
    """A sweep whose result depends on all sweeps before it."""
    old = np.zeros(len(piece.X)) if own is None else own[0]
    new = 0.5 * old + np.tanh(piece.X[:, 0] * pull) + piece.y
    return (new, np.zeros(size)), (new.sum(), Largest(float(new.max())))


def relaxed(source, n, sizes=(0,)):
    state, pull = None, 1.0
    for t in range(n):
        state, (total, largest) = source.sweep(relax, state, pull, sizes[t % len(sizes)])
        pull = 0.9 * pull + 1e-4 * total
    return state, total, largest.value


def test_sweeps_remember_and_may_be_cut(client, regression):
    there, total, largest = relaxed(ArraySource(X, y, piece_rows=100), 4)
    for chain, length in ((64, 4), (3, 1), (1, 0)):
        regression.chain = chain
        state, found, high = relaxed(regression, 4)
        assert (found, high) == (pytest.approx(total, rel=1e-13), largest)
        assert state.length == length and len(state) == PIECES
        np.testing.assert_allclose(state[5][0], there[5][0], rtol=1e-13)


def test_an_earlier_state_is_left_as_it_is(regression):
    first, _, _ = relaxed(regression, 2)
    before = first[3][0]
    one, (total, _) = regression.sweep(relax, first, 2.0, 0)
    other, (again, _) = regression.sweep(relax, first, 2.0, 0)
    assert total == pytest.approx(again, rel=1e-14)
    np.testing.assert_array_equal(first[3][0], before)
    assert np.any(one[3][0] != before)


@pytest.fixture
def no_garbage_collection():
    """Dask's own objects hold futures in cycles; nothing may wait for these to be found."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_the_scheduler_forgets_what_is_not_needed(client, regression):
    before = set(tasks_of(client))
    regression.chain = 4
    state, _, _ = relaxed(regression, 10)
    until(lambda: len([key for key in tasks_of(client) if key.startswith("relax")]) == 2 * PIECES)
    assert state.length == 2  # 10 sweeps, cut after 4 and 8
    assert not [key for key in tasks_of(client) if key.startswith(("weighed", "added_up"))]
    del state
    until(lambda: before >= set(tasks_of(client)))
    for work in (count, fail_late):
        with suppress(np.linalg.LinAlgError):
            regression.total(work)
    list(regression.each(count))
    regression.sample(5, np.random.default_rng(0)), regression.fingerprint()
    until(lambda: before >= set(tasks_of(client)))
    other = DaskSource(rows(X), rows(labels), labels=True, client=client)
    assert not before >= set(tasks_of(client))
    del other
    until(lambda: before >= set(tasks_of(client)))


def fail_in_sweep(piece, own, *given):
    if piece.first == 300:
        raise LookupError("no such thing")
    return (np.zeros(3),), (0.0,)


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_sweep_that_fails_leaves_no_task_and_the_earlier_state(client, regression):
    state, _, _ = relaxed(regression, 2)
    before, values = set(tasks_of(client)), state[4][0]
    with pytest.raises(LookupError, match="rows 300 to 399: no such thing") as held:  # noqa: F841
        regression.sweep(fail_in_sweep, state)
    until(lambda: before >= set(tasks_of(client)))
    np.testing.assert_array_equal(state[4][0], values)


class Interrupted(BaseException):
    pass


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_cut_that_is_interrupted_leaves_no_task(client, regression, monkeypatch):
    def results(futures):
        calls.append(len(futures))
        if calls[-2:] == [5, 5]:
            raise Interrupted
        return results_of(client, futures, 20.0)

    before, calls = set(tasks_of(client)), []
    monkeypatch.setattr("sparse_pep.data.cluster.FETCHED", 5)
    monkeypatch.setattr(regression, "results", results)
    regression.chain = 1
    with pytest.raises(Interrupted) as held:  # noqa: F841
        regression.sweep(relax, None, 1.0, 0)
    until(lambda: before >= set(tasks_of(client)))


@pytest.mark.usefixtures("no_garbage_collection")
def test_data_that_are_refused_leave_no_task(client):
    before = set(tasks_of(client))
    with pytest.raises(ValueError, match="row 777") as held:  # noqa: F841
        DaskSource(rows(BAD), client=client)
    until(lambda: before >= set(tasks_of(client)))


def test_it_is_cut_where_there_is_little_to_fetch():
    light, heavy = OnWorkers(Futures(), 10, 0, 120, 100), OnWorkers(Futures(), 10, 0, 200, 100)
    assert light.to_be_cut(10) and not light.to_be_cut(11)
    assert not heavy.to_be_cut(10)
    assert OnWorkers(Futures(), 40, 0, 200, 100).to_be_cut(10)
    assert OnWorkers(Futures(), 2, 2_000_000_000, 200, 100).to_be_cut(10)
    follows = OnWorkers.after(heavy, Futures(), 5, 300)
    assert (follows.length, follows.n_bytes, follows.weight, follows.lightest) == (11, 5, 300, 100)
    assert OnWorkers.after(follows, Futures(), 5, 50).lightest == 50


def test_weight_of_what_belongs_to_the_pieces(regression):
    regression.chain = 3
    state, _, _ = relaxed(regression, 5, (100, 0))
    assert (state.weight, state.lightest) == (8 * (N + 100 * PIECES), 8 * N)
    assert state.length == 1  # cut after 4, not after 3: then there was more to fetch
    assert state.n_bytes < 200


def test_worker_killed_after_the_cut(client, regression):
    _, total, _ = relaxed(regression, 6)
    regression.chain = 2
    state, _, _ = relaxed(regression, 4)
    assert state.length == 0
    until(lambda: kill_one(client) == 2)
    pull = 1.0
    for t in range(4):
        pull = 0.9 * pull + 1e-4 * relaxed(ArraySource(X, y, piece_rows=100), t + 1)[1]
    for _ in range(2):
        state, (found, _) = regression.sweep(relax, state, pull, 0)
        pull = 0.9 * pull + 1e-4 * found
    assert found == pytest.approx(total, rel=1e-12)


# --- one task -----------------------------------------------------------------------------------------------------


def spoil_data(piece):
    piece.X[:] = 0.0
    return (0,)


def spoil_own(piece, own):
    if own is not None:
        own[0][:] = 0.0
    return (np.ones(3),), (0,)


def fail_late(piece):
    if piece.first == 1100:
        raise np.linalg.LinAlgError("`B` is not positive definite.")
    return (0,)


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


def fail_oddly(piece):
    raise Odd(1, 2)


def locks(piece, own=None):
    part = (threading.Lock(),)
    return part if own is None else (part, (0,))


class Unreadable:
    def __reduce__(self):
        return int, ("x",)


def unreadable(piece):
    return (Unreadable(),)


def leave(piece):
    sys.exit(3)


@pytest.mark.parametrize(
    "work, kind, message",
    [
        (locks, TypeError, "a result that cannot travel: cannot pickle"),
        (unreadable, TypeError, "a result that cannot travel: invalid literal"),
        (leave, RuntimeError, "SystemExit: 3"),
    ],
)
def test_what_would_end_a_worker_or_never_arrive_is_an_error(regression, work, kind, message):
    for ask in (regression.total, lambda work: list(regression.each(work))):
        with pytest.raises(kind, match=rf"^rows \d+ to \d*99: {message}"):
            ask(work)


def test_a_task_cannot_spoil_what_others_need(regression):
    with pytest.raises(ValueError, match=r"rows \d+ to \d*99: assignment destination is read-only"):
        regression.total(spoil_data)
    state, _ = regression.sweep(spoil_own, None)
    with pytest.raises(ValueError, match="read-only"):
        regression.sweep(spoil_own, state)


def test_arrays_are_locked_for_the_task_and_nobody_else():
    mine, own = np.ones((3, 2)), np.ones(3)
    assert on_piece(Piece(0, mine), (own,), work=lambda piece, own: (count(piece), (0,)), given=())[0][0] == 3
    mine[0], own[0] = 2.0, 2.0


def test_an_error_keeps_its_kind_and_names_the_rows(client, regression):
    with pytest.raises(np.linalg.LinAlgError, match="^rows 1100 to 1199: `B` is not positive definite.$"):
        regression.total(fail_late)
    with pytest.raises(RuntimeError, match=r"rows \d+ to \d*99: Odd: \(1, 2\)"):
        list(regression.each(fail_oddly))
    until(lambda: not [key for key in tasks_of(client) if key.startswith("fail")])  # all taken back
    assert regression.total(count)[0] == N  # the client lives


def count(piece):
    return len(piece.X), piece.X.sum()


def in_threads(piece, M):
    """Sums in chunks, as evaluations make them; and whether BLAS is held."""
    slices = chunk_slices(len(piece.X), M, 7)
    return (
        HOLD.depth > 0,
        len(slices),
        sum(map_chunks(lambda share: sum(piece.X[rows].sum() for rows in share), slices)),
    )


def test_several_tasks_at_a_time_in_one_process():
    with LocalCluster(1, threads_per_worker=4, processes=False, **ALONE) as cluster:
        with Client(cluster) as client:
            source = DaskSource(rows(X), rows(y), client=client)
            for _ in range(3):
                held, n, total = source.total(in_threads, 9)
                assert held == PIECES and n == PIECES * 15 and total == pytest.approx(X.sum(), rel=1e-12)
    assert HOLD.depth == 0


# --- sums in a tree -----------------------------------------------------------------------------------------------


def tagged(k):
    return (f"{k} ",)


@pytest.mark.parametrize("n", [1, 2, FAN_IN, FAN_IN + 1, 70])
def test_the_order_of_a_sum_is_that_of_the_pieces(client, n):
    parts = Futures(client.map(tagged, range(n), pure=False))
    held, keys = parts[:], {part.key for part in parts}
    assert summed(client, parts).result() == ("".join(f"{k} " for k in range(n)),)
    assert not parts and len(held) == n
    if n > 1:  # whoever else has them
        until(lambda: not keys & set(tasks_of(client)))


def test_futures_are_forgotten_with_their_list(client):
    futures = Futures(client.map(tagged, range(3), pure=False))
    held, keys = futures[:], {future.key for future in futures}
    until(lambda: keys <= set(tasks_of(client)))
    del futures
    until(lambda: not keys & set(tasks_of(client)))
    assert len(held) == 3


# --- results in order ---------------------------------------------------------------------------------------------


def leave_trace(piece, folder):
    (Path(folder) / str(piece.first)).touch()
    time.sleep(0.05 if piece.first == 0 else 0.0)
    return piece.first, piece.X.sum()


def test_each_is_in_order_and_not_far_ahead(client, regression, tmp_path):
    results = regression.each(leave_trace, str(tmp_path))
    assert next(results)[0] == 0
    ahead = 2 * n_threads(client, 20.0)  # two tasks a thread
    until(lambda: len(list(tmp_path.iterdir())) == ahead)
    time.sleep(0.2)
    assert len(list(tmp_path.iterdir())) == ahead
    found = list(results)
    assert [first for first, _ in found] == list(range(100, N, 100))
    np.testing.assert_allclose([total for _, total in found], X.reshape(PIECES, 100, D).sum(axis=(1, 2))[1:])


def test_each_that_is_not_finished_leaves_no_task(client, regression, tmp_path):
    results = regression.each(leave_trace, str(tmp_path))
    next(results)
    results.close()
    until(lambda: not [key for key in tasks_of(client) if key.startswith("leave_trace")])


def test_pieces_and_samples_are_those_of_the_arrays(regression):
    local = ArraySource(X, y, piece_rows=100)
    for here, there in zip(regression.pieces(), local.pieces(), strict=True):
        assert here.first == there.first
        np.testing.assert_array_equal(here.X, there.X)
    for n in (17, N + 5):
        here, there = (source.sample(n, np.random.default_rng(1)) for source in (regression, local))
        np.testing.assert_array_equal(here.X, there.X)
        np.testing.assert_array_equal(here.y, there.y)


def test_fingerprints(client, regression):
    other = y.copy()
    other[700] += 1e-12
    assert regression.fingerprint() == DaskSource(rows(X), rows(y), client=client).fingerprint()
    assert regression.fingerprint() != DaskSource(rows(X), rows(other), client=client).fingerprint()
    assert regression.fingerprint() != DaskSource(rows(X), client=client).fingerprint()


# --- collections --------------------------------------------------------------------------------------------------


def assert_all_there(source, **more):
    found = [piece for piece in source.pieces()]
    wanted = {"X": X, "y": y, "weight": 1.0, "known_variance": 0.0, "power": None} | more
    for name, value in wanted.items():
        parts = [getattr(piece, name) for piece in found]
        if np.ndim(value) == 0:
            assert set(parts) == {value}
        else:
            np.testing.assert_array_equal(np.concatenate(parts), value)
    assert (source.n_data, source.n_dims) == (N, D)
    assert [piece.first for piece in found] == np.cumsum([0, *(len(p.X) for p in found)])[:-1].tolist()
    assert found[0].X.dtype == np.float64 and found[0].X.flags.c_contiguous


def test_arrays_cut_in_any_way(client):
    for chunks in ((500, 1), (N, 2), ((1, 0, 1199), 2)):
        assert_all_there(DaskSource(da.from_array(X, chunks=chunks), da.from_array(y, chunks=170), client=client))
    two = np.stack([y, -y], axis=1)
    many = {"weight": weight, "known_variance": known, "power": weight / 2.0}
    cut = {name: da.from_array(value, chunks=250) for name, value in many.items()}
    assert_all_there(DaskSource(rows(X), da.from_array(two, chunks=(100, 1)), **cut, client=client), y=two, **many)
    assert_all_there(DaskSource(rows(X), y, 2.0, power=0.5, client=client), weight=2.0, power=0.5)
    whole = np.round(10 * X).astype(np.int32)
    assert_all_there(DaskSource(rows(np.asfortranarray(whole)), client=client), X=whole.astype(float), y=None)


def test_another_source_is_spread(client):
    local = ArraySource(X, y, weight, power=0.25, piece_rows=250)
    source = DaskSource(local, client=client)
    assert_all_there(source, weight=weight, power=0.25)
    assert source.classes is None
    assert len(source.futures) == 5


TABLE = pd.DataFrame({"a": X[:, 0], "y": y, "b": X[:, 1], "w": weight, "n": known})


def test_dataframes(client):
    frame = dd.from_pandas(TABLE, npartitions=5)
    inputs = ["a", "b"]
    assert_all_there(DaskSource(frame, "y", "w", "n", client=client), weight=weight, known_variance=known)
    assert_all_there(DaskSource(frame, "y", columns=inputs, client=client))
    turned = DaskSource(frame, ["y", "w"], columns=["b", "a"], client=client)
    assert_all_there(turned, X=X[:, ::-1], y=TABLE[["y", "w"]].to_numpy())
    some = frame[frame.a > -9.0]  # as far as Dask knows, any number of rows
    assert_all_there(DaskSource(some[inputs], some["y"], some["w"], client=client), weight=weight)
    assert_all_there(DaskSource(some, some["y"].to_dask_array(), columns=inputs, client=client))
    counted = dd.from_pandas(TABLE.assign(row=np.arange(N)), npartitions=5)
    few = DaskSource(counted[counted.row >= 1000], "y", columns=inputs, client=client)
    assert few.n_data == 200 and len(few.futures) == 1  # empty partitions are left out


def test_labels(client):
    words = np.where(labels > 0.0, "yes", "no")
    frame = dd.from_pandas(TABLE.assign(y=words), npartitions=3)
    source = DaskSource(frame, "y", columns=["a", "b"], labels=True, client=client)
    assert_all_there(source, y=labels)
    assert source.classes.tolist() == ["no", "yes"] and source.feature_names == ("a", "b")
    three = np.digitize(y, [-0.5, 0.5]) + 5
    source = DaskSource(rows(X), rows(three), labels=True, client=client)
    assert_all_there(source, y=three - 5.0)
    assert source.classes.tolist() == [5, 6, 7] and source.feature_names is None
    given = DaskSource(frame, "y", columns=["a", "b"], labels=["maybe", "no", "yes"], client=client)
    assert_all_there(given, y=1.5 + labels / 2.0)


def test_parquet_is_read_by_the_workers(client, tmp_path):
    for k in range(12):  # 10 and 11 come after 9
        TABLE[100 * k : 100 * (k + 1)].to_parquet(tmp_path / f"part.{k}.parquet")
    source = DaskSource.from_parquet(str(tmp_path), "y", client=client, weight="w", known_variance="n")
    assert_all_there(source, weight=weight, known_variance=known)
    one = DaskSource.from_parquet(str(tmp_path / "part.3.parquet"), "y", ["b"], client=client, chain=5)
    assert (one.n_data, one.n_dims, one.chain) == (100, 1, 5)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask, to pandas
@pytest.mark.parametrize("names", [["depth"], ["depth", "time"], [None], None])
def test_an_index_with_a_name_is_an_input_as_in_pieces(client, tmp_path, names):
    index = pd.RangeIndex(len(X), name="number")  # which pandas keeps in a note, not in a column
    if names is not None:
        index = pd.MultiIndex.from_arrays([X[:, k] for k in range(len(names))], names=names)
    pd.DataFrame({"a": X[:, 0], "y": y}, index=index).to_parquet(tmp_path / "all.parquet")
    source = DaskSource.from_parquet(str(tmp_path / "all.parquet"), "y", client=client)
    pieces = convert_table(tmp_path / "all.parquet", "y")
    assert source.feature_names == pieces.feature_names == (*filter(None, names or ()), "a")
    own, others = (np.vstack([piece.X for piece in one.pieces()]) for one in (source, pieces))
    assert np.array_equal(own, others)


BAD = X.copy()
BAD[777, 1] = np.nan
SOME = TABLE.assign(kind=pd.Series(np.where(labels > 0.0, "a", "b")).mask(TABLE.index == 901))
HOLES = TABLE.astype("Float64").mask(TABLE == TABLE.a[1001])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: DaskSource(rows(BAD)), r"`X`, row 777 .*nan"),
        (lambda: DaskSource(dd.from_pandas(HOLES, npartitions=3), "y"), r"`X`, row 1001 .*nan"),
        (lambda: DaskSource(rows(X), rows(y)[:-1]), r"`y` must have the rows of `X`, 1200 in 12 blocks; got 1199"),
        (
            lambda: DaskSource(dd.from_pandas(TABLE[["a"]], npartitions=2), rows(y)),
            r"`y` .* nan in 2 blocks; got 1200 in 12",
        ),
        (lambda: DaskSource(rows(X), rows(y), weight=-1.0), r"`weight` must lie in \[0, inf\]; got -1"),
        (lambda: DaskSource(rows(X), weight=rows(-weight)), r"`weight`, row 0 "),
        (lambda: DaskSource(rows(y)), r"`X` must be a table .* got shape \(1200,\)"),
        (lambda: DaskSource(X, y), r"`X` must be a Dask array.* got ndarray. `ArraySource\(X, y\)`"),
        (lambda: DaskSource(dd.from_pandas(TABLE, npartitions=2), "target"), r"no column 'target'"),
        (lambda: DaskSource(dd.from_pandas(TABLE[["y"]], npartitions=2), "y"), r"no column for inputs"),
        (lambda: DaskSource(dd.from_pandas(TABLE[:0], npartitions=1), "y"), r"no rows"),
        (
            lambda: DaskSource(dd.from_pandas(TABLE.assign(a="text"), npartitions=2), "y"),
            r"`X`, .*: numbers are expected; .*'text'",
        ),
        (lambda: DaskSource(rows(X), rows(labels), labels=[1, 2]), r"`y`, row \d+ .*: -1.0 is none of the labels 1, 2"),
        (
            lambda: DaskSource(dd.from_pandas(SOME, npartitions=3), "kind", labels=True),
            r"`y`, row 901 .*: None is none of",
        ),
        (lambda: DaskSource(rows(X), da.ones(N), labels=True), r"`y` holds one class only"),
        (lambda: DaskSource(rows(X), rows(labels), labels=[]), r"`y` holds no label; two or more"),
        (
            lambda: DaskSource(dd.from_pandas(TABLE, npartitions=2), ["y", "w"], labels=True),
            r"`labels` are those of one target",
        ),
        (lambda: DaskSource(rows(X), labels=True), r"`labels` are those of one target"),
        (lambda: DaskSource(rows(X), rows(y), labels=["a", 1]), r"all numbers or all text"),
        (lambda: DaskSource(rows(X), chain=0), r"`chain` must be positive; got 0"),
        (lambda: DaskSource(rows(X), timeout=-1.0), r"`timeout` must be positive"),
        (lambda: DaskSource.from_parquet("/nowhere/at/all", "y"), r"`path`.*/nowhere/at/all"),
    ],
)
def test_collections_that_do_not_do(client, make, message):
    with warnings.catch_warnings(), client.as_current(), pytest.raises(ValueError, match=message):
        warnings.simplefilter("ignore")
        make()


# --- what goes wrong with a cluster -------------------------------------------------------------------------------


def end_itself(piece, allowed):
    """As out of memory, while there are fewer notes than `allowed`."""
    notes = list(Path(allowed[0]).iterdir())
    if len(notes) < allowed[1]:
        (Path(allowed[0]) / str(len(notes))).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return (len(piece.X),)


def test_a_task_that_kills_its_workers(client, tmp_path):
    two_workers(client)
    few = DaskSource(rows(X)[:100], client=client, retries=1)
    with no_patience(client):
        assert few.total(end_itself, (str(tmp_path), 1)) == (100,)  # the second time it is well
        few.retries = 0
        with pytest.raises(ClusterLost, match="workers died time and again of the task end_itself-rows 0 to 99 "):
            few.total(end_itself, (str(tmp_path), 2))


def fragile(piece, own, folder):
    """A sweep whose worker dies of the first piece to be looked at."""
    try:
        (Path(folder) / "note").touch(exist_ok=False)
    except FileExistsError:
        pass
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    return (piece.y.copy(),), (len(piece.X),)


@contextmanager
def no_patience(client):
    """A task fails as soon as one worker has died of it."""
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    try:
        yield
    finally:
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))


def test_several_tasks_whose_worker_dies(client, regression, tmp_path):
    with no_patience(client):
        state, (n,) = regression.sweep(fragile, None, str(tmp_path))
    assert n == N
    for k in range(PIECES):
        np.testing.assert_array_equal(state[k][0], y[100 * k : 100 * k + 100])


def test_each_task_whose_worker_dies(client, tmp_path):
    two_workers(client)  # one that dies while data are made would be another matter
    few = DaskSource(rows(X)[:100], client=client)
    with no_patience(client):
        assert list(few.each(end_itself, (str(tmp_path), 1))) == [(100,)]


def deadly(block):
    os.kill(os.getpid(), signal.SIGKILL)


def test_blocks_that_cannot_be_made(client):
    X = da.ones((100, 2)).map_blocks(deadly, meta=np.ones((0, 0)))
    with no_patience(client), pytest.raises(ClusterLost, match=r"time and again of the task \w+ \(out of memory"):
        DaskSource(X, client=client, retries=0)


def test_no_worker_is_left(cluster, alone):
    source = DaskSource(rows(X), client=alone, timeout=0.6)
    state, _ = source.sweep(relax_alone, None)
    cluster.scale(0)
    until(lambda: not alone.nthreads())
    for ask in (lambda: source.total(count), lambda: state[3]):
        with pytest.warns(UserWarning, match="no Dask worker takes tasks; waiting 0.6 s for one"):
            with pytest.raises(ClusterLost, match="for 0.6 s Dask has no worker that takes tasks. Start workers"):
                ask()
    source.timeout = 20.0
    later = threading.Timer(1.3, cluster.scale, (1,))
    with pytest.warns(UserWarning, match="waiting 20 s"):
        later.start()
        assert source.total(count)[0] == N  # data and all are made again


def relax_alone(piece, own):
    return (piece.X[:, 0] + 1.0,), (0,)


def test_the_last_worker_is_lost_before_its_results_are_fetched(cluster, alone, monkeypatch):
    def lose(*given):
        wait_for(*given)
        cluster.scale(0)
        until(lambda: not alone.nthreads())

    source = DaskSource(rows(X), client=alone, timeout=0.6)
    monkeypatch.setattr("sparse_pep.data.cluster.wait_for", lose)
    with pytest.warns(UserWarning, match="no Dask worker"), pytest.raises(ClusterLost, match="no worker that takes"):
        source.total(count)


def set_status(status, dask_scheduler):
    for worker in list(dask_scheduler.workers):
        dask_scheduler.handle_worker_status_change(status, worker, stimulus_id="test")


def test_all_workers_have_paused(alone):
    source = DaskSource(rows(X), client=alone, timeout=0.6)
    assert n_threads(alone, 1.0) == 1
    alone.run_on_scheduler(lambda dask_scheduler: set_status("paused", dask_scheduler))
    assert n_threads(alone, 1.0) == 0
    with pytest.warns(UserWarning, match="no Dask worker"), pytest.raises(ClusterLost, match="ones with more memory"):
        source.total(count)
    alone.run_on_scheduler(lambda dask_scheduler: set_status("running", dask_scheduler))
    assert source.total(count)[0] == N


def test_every_standstill_has_its_own_time(monkeypatch):
    threads = iter([0, 1, 0, 0])
    monkeypatch.setattr("sparse_pep.data.cluster.n_threads", lambda *given: next(threads))
    watch = Watch(None, 0.2)
    for there in (False, True, False):
        watch.look()  # too early to ask
        time.sleep(0.15)
        with nullcontext() if there else pytest.warns(UserWarning, match="takes tasks; waiting 0.2 s"):
            watch.look()
    time.sleep(0.25)
    with pytest.raises(ClusterLost, match="for 0.2 s Dask has no worker"):
        watch.look()


def test_a_long_task_is_waited_for(alone):
    assert results_of(alone, [alone.submit(time.sleep, 1.2)], 0.2) == [None]


def test_the_scheduler_knows_nothing_of_a_task(alone):
    with pytest.raises(ClusterLost, match="for 0.3 s Dask has lost sight of a task"):
        wait_for(alone, [Future("nobody-1", alone)], 0.3)


def test_what_has_been_cancelled_is_lost(alone):
    future = alone.submit(int, "3")
    assert fetched(alone, [future], 5.0) == [3]
    future.cancel()
    for ask in (fetched, results_of, wait_for):
        with pytest.raises(ClusterLost, match="the Dask scheduler is gone, or data"):
            ask(alone, [future], 5.0)


def test_scattered_data_are_lost(cluster, alone):
    lost = alone.scatter(np.ones(3))
    total = alone.submit(np.sum, lost)
    assert results_of(alone, [total], 5.0) == [3.0]
    cluster.scale(0)
    until(lambda: not alone.nthreads())
    with pytest.raises(ClusterLost, match="scattered by hand are lost"):
        results_of(alone, [total], 5.0)


def fail_when_there_is(file, text):
    until(Path(file).exists)
    raise LookupError(text)


def test_the_error_is_that_of_the_first_task_and_not_of_the_quickest(client, tmp_path):
    sign = tmp_path / "sign"
    given = (str(sign), "slow"), (str(tmp_path), "quick")
    two_workers(client)
    where = sorted(pids_of(client))
    futures = [client.submit(fail_when_there_is, *these, workers=[w]) for these, w in zip(given, where)]
    until(lambda: futures[1].status == "error")
    assert futures[0].status == "pending"
    sign.touch()
    with pytest.raises(LookupError, match="slow"):
        results_of(client, futures, 10.0)
    assert results_of(client, [client.submit(int, k) for k in "231"], 10.0) == [2, 3, 1]


def test_the_scheduler_is_gone():
    cluster = LocalCluster(1, threads_per_worker=1, processes=False, **ALONE)
    client = Client(cluster, timeout=1)
    source = DaskSource(rows(X), client=client)
    cluster.close()
    try:
        for ask in (lambda: source.total(count), lambda: list(source.each(count)), lambda: n_threads(client, 1.0)):
            with pytest.raises(ClusterLost, match="the Dask scheduler is gone"):
                ask()
    finally:
        client.close()


@contextmanager
def scheduler_process(folder):
    """The process of a scheduler without workers, and its file."""
    file = folder / "scheduler.json"
    how = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", *how]
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        yield process, file
    finally:
        process.kill()
        process.wait()


def test_a_scheduler_that_says_nothing_any_more(tmp_path):
    with scheduler_process(tmp_path) as (process, file), connect(file) as client:
        assert n_threads(client, 5.0) == 0
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(ClusterLost, match="the Dask scheduler is gone"):
            DaskSource(rows(X), client=client, timeout=0.4)
        process.kill()


INTERRUPTED = """
import os, signal, sys, threading, time
import dask.array as da
from sparse_pep.data.cluster import DaskSource, connect

def slow(piece):
    time.sleep(0.2)
    return (1,)

signal.signal(signal.SIGINT, signal.default_int_handler)
with connect(1, processes=False) as client:
    source = DaskSource(da.ones((4000, 1), chunks=(100, 1)), client=client)
    threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
    try:
        source.total(slow)
    except KeyboardInterrupt as error:  # its traceback is held all the time
        time.sleep(0.5)
        left = client.run_on_scheduler(lambda dask_scheduler: [str(k) for k in dask_scheduler.tasks])
        print(len([k for k in left if k.startswith("slow")]), len(source.futures), source.n_data)
"""


def test_ctrl_c_takes_the_tasks_back():
    run = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert run.stdout.split() == ["0", "40", "4000"], run.stderr


# --- connections --------------------------------------------------------------------------------------------------


def test_connections(client, tmp_path):
    assert connect(client) is client
    with connect(client.scheduler.address) as other:
        assert other.nthreads() == client.nthreads()
        with other.as_current():
            assert DaskSource(rows(X)).client is other
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": client.scheduler.address}))
    with connect(file) as other:
        assert other.scheduler.address == client.scheduler.address


@pytest.mark.parametrize(
    "address, message",
    [
        ("nowhere", r"`address` must be that of a Dask scheduler.*got 'nowhere'"),
        ("0", r"`address` must be .*got '0'"),
        (-2, r"`address` must be .*got -2"),
        ("tcp://127.0.0.1:9", r"no Dask scheduler answers at 'tcp://127.0.0.1:9'"),
        ("carrier-pigeon://roof", r"no Dask scheduler answers at 'carrier-pigeon://roof'"),
    ],
)
def test_connections_that_fail(address, message):
    with pytest.raises(ValueError, match=message):
        connect(address, timeout=0.3)


def test_a_service_that_listens_and_says_nothing():
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(ValueError, match="no Dask scheduler answers at 'tcp://127.0.0.1"):
            connect(f"tcp://127.0.0.1:{mute.getsockname()[1]}", timeout=0.3)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", "not json"])
def test_files_that_no_scheduler_wrote(tmp_path, text):
    file = tmp_path / "scheduler.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="`address`: '.*scheduler.json' is no file that a Dask scheduler wrote"):
        connect(file)


def no_client():
    raise ValueError("No clients found")


def test_without_dask_or_a_client(client, monkeypatch):
    monkeypatch.setattr("distributed.get_client", no_client)
    with pytest.raises(ValueError, match="need a `client`, and there is none yet"):
        DaskSource(rows(X))
    with monkeypatch.context() as patch, pytest.raises(ValueError, match=r"pip install 'sparse_pep\[tables\]'"):
        patch.setitem(sys.modules, "dask.dataframe", None)
        DaskSource.from_parquet("/nowhere", client=client)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'sparse_pep\[distributed\]'"):
        connect(2)
