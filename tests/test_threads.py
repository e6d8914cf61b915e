"""Chunks shared out over threads, and memory that is kept."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from time import sleep

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sparse_pep.inference.fixed_point import searches_end_if
from sparse_pep.numerics.threads import (
    HOLD,
    TimeIsOver,
    chunk_slices,
    map_chunks,
    one_blas_thread,
    require_time,
)

TWO = [slice(0, 1), slice(1, 2)]


@pytest.mark.parametrize(
    "rows, n_chunks", [(1_000, 1), (2_000, 2), (5_000, 6), (10_000, 8), (50_000, 16)]
)
def test_few_rows_are_not_split_over_all_threads(rows, n_chunks):
    with threadpool_limits(8, user_api="blas"), one_blas_thread():
        slices = chunk_slices(rows, 100)
    assert len(slices) == n_chunks


def test_an_error_in_a_chunk_comes_out_and_does_not_lock_the_others_out():
    entered = Event()
    ended = Event()
    raised = Event()

    def work(slices):
        if slices[0].start == 0:
            entered.wait(30.0)
            raise np.linalg.LinAlgError("in a chunk")
        entered.set()
        sleep(0.3)  # until the error has reached the outside
        with one_blas_thread():
            ended.set()

    def run():
        with (
            threadpool_limits(2, user_api="blas"),
            pytest.raises(np.linalg.LinAlgError, match="in a chunk"),
        ):
            map_chunks(work, TWO)
        raised.set()

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(30.0)
    assert raised.is_set()
    assert ended.is_set()
    assert HOLD.depth == 0


def test_threads_know_the_time_of_their_caller():
    def work(slices):
        if slices[0].start:  # of the second thread
            require_time()

    with threadpool_limits(2, user_api="blas"):
        with searches_end_if(lambda: False, lambda: True), pytest.raises(TimeIsOver):
            map_chunks(work, TWO)
        map_chunks(work, TWO)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="sizes are read from /proc")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_computation_without_memory_for_blas_is_refused_and_does_not_wait_for_ever(threads):
    """Some versions of OpenBLAS try for ever to map a buffer, in C code that no signal ends."""
    program = f"""
import resource
import numpy as np
from pathlib import Path
from scipy.linalg.blas import dgemm
from threadpoolctl import threadpool_limits
from sparse_pep.numerics.threads import HOLD, map_chunks, one_blas_thread

def leave(room):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, -1))

square = np.ones((300, 300))
threadpool_limits({threads}, user_api="blas")
leave(2**24)
try:
    with one_blas_thread():
        dgemm(1.0, square, square)
except MemoryError:
    print("refused", HOLD.depth)
leave(2**31)
with one_blas_thread():
    leave(2**24)
    print(len(map_chunks(lambda chunks: dgemm(1.0, square, square), [slice(0, 1)] * {threads})))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.split() == ["refused", "0", str(threads)], ended.stderr


def blas_threads():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_the_first_thread_sets_the_limit_and_the_last_lifts_it_whoever_they_are():
    entered = Event()
    leave = Event()
    before = blas_threads()
    with threadpool_limits(2, user_api="blas"):

        def first():
            with one_blas_thread():
                entered.set()
                leave.wait(30.0)

        for _ in range(2):  # what happened once must not matter the second time
            entered.clear(), leave.clear()
            thread = Thread(target=first)
            thread.start()
            assert entered.wait(30.0)
            assert blas_threads() == {1}
            with one_blas_thread():
                leave.set()
                thread.join()
                assert blas_threads() == {1}
            assert blas_threads() == {2}
    assert blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_that_is_forked_while_a_thread_computes_can_compute():
    with threadpool_limits(2, user_api="blas"), one_blas_thread():
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if HOLD.depth == 0 and map_chunks(len, TWO) == [2] else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be told to keep memory"
)
def test_freed_memory_is_not_fetched_again():
    resource = pytest.importorskip("resource")

    def faults():
        """Pages that are fetched for a hundred megabytes of arrays."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        arrays = [np.ones(500_000) for _ in range(25)]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before + 0 * len(arrays)

    with one_blas_thread():
        faults()
        assert faults() < 1000  # of 25 000
