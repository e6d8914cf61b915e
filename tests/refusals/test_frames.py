"""Dataframes that are refused."""

import numpy as np
import pandas as pd
import pytest

from sparse_pep.estimators import SparsePEPRegressor

from .checks import TARGETS, X, estimator, fitted, refused, y

WORDS = pd.DataFrame({"a": ["x"] * 12, "b": [1.0] * 12})


@pytest.mark.parametrize("kind", TARGETS)
def test_words_for_a_kernel_of_numbers(kind):
    refused(lambda: estimator(kind).fit(WORDS, TARGETS[kind]), "`X` ... 'x'")
    refused(lambda: fitted(kind).predict(WORDS), "`X` ... 'x'")


def test_an_array_of_fewer_columns():
    model = estimator().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    refused(lambda: model.predict(X[:, :1]), "1 features ... 2 features")


@pytest.mark.parametrize("kind", [str, float])
def test_columns_of_one_name(kind):
    table = pd.DataFrame(np.ones((4, 2), dtype=kind), columns=["a", "a"])
    refused(lambda: SparsePEPRegressor().fit(table, np.ones(4)), "different texts; got 'a'")


def test_types_of_columns_that_have_no_names():
    model = SparsePEPRegressor(column_types={"a": "number"})
    refused(lambda: model.fit(X, y), "`column_types` ... dataframe")


@pytest.mark.parametrize("mixed", [False, True])
def test_a_million_columns_are_refused_at_once(mixed):
    table = np.broadcast_to(0.0, (3, 1_000_000))
    if mixed:
        table = pd.DataFrame(np.zeros((3, 100_001)))
        table["word"] = "x"
    refused(lambda: SparsePEPRegressor().fit(table, y[:3]), "`X` has ... columns; at most 100000")


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, np.zeros(2)], ids=str)
def test_lists_in_cells_are_named_with_their_row(cell):
    table = pd.DataFrame({"a": X[:, 0], "b": [cell if row == 7 else "x" for row in range(12)]})
    refused(
        lambda: SparsePEPRegressor().fit(table, y), "`X`, row 7 (counted from 0): column 'b' holds"
    )


@pytest.mark.parametrize("column", ["x", 1.0])
def test_a_table_without_rows(column):
    table = pd.DataFrame({"a": [column]})[:0]
    refused(lambda: SparsePEPRegressor().fit(table, y[:0]), "`X`: Found array with 0 sample(s)")
