"""Chunks of a given number of rows, however small the problem is."""

from contextlib import ExitStack, contextmanager
from unittest import mock


@contextmanager
def chunks_of(size):
    """Inside, all passes over rows take `size` rows at a time; with None, as many as usual."""

    def slices(n_data, n_inducing):
        starts = range(0, n_data, size)
        return [slice(start, min(start + size, n_data)) for start in starts]

    with ExitStack() as stack:
        for module in ("shards", "blocks", "model") if size else ():
            stack.enter_context(mock.patch(f"sparse_pep.{module}.chunk_slices", slices))
        yield
