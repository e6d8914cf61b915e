"""The experiments of the paper, and two beyond it: `python -m studies --help` says how to run them.

Each of the scripts `snelson`, `banana`, `ionosphere`, `mnist`, `synthetic`, `regression`, `classification`, `beyond` and `kin40k`
has a function `study(size)` that lists its jobs, and functions `tables(rows)` and `figures(rows)` that show its results.
"""
