"""Eight real data sets: regression at all powers."""

from functools import partial

from studies import real

study, tables, figures = (
    partial(function, "regression") for function in (real.study, real.tables, real.figures)
)
