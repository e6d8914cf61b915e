"""The experiments of the paper, and some beyond it: `python -m studies --help` says how to run
them.
 Each of the scripts that it names has a function `study(size)` that lists its jobs, and functions
`tables(rows)` and `figures(rows)` that show its results.
"""
