"""Six real data sets: classification at all powers."""

from functools import partial

from studies import real

study, tables, figures = (
    partial(function, "classification") for function in (real.study, real.tables, real.figures)
)
