"""Tables in files that are refused at the command line, and odd ones that are not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from command_line import accept, refused_line

from sparse_pep.data import reader

from .checks import cases, holds
from .conftest import GOOD

pytestmark = pytest.mark.usefixtures("folder")
UTF8_BOM = b"\xef\xbb\xbf"
FIT = "--target response --quiet --inducing 3 --max-iter 2"


def csv(*lines):
    return "\n".join(lines) + "\n"


def mixed(*cells, name="dose"):
    """A table of twelve rows with one odd column, in which these cells repeat."""
    return csv(
        f"age,{name},response",
        *(f'{i * i % 7},"{cells[i % len(cells)]}",{np.sin(i):.3f}' for i in range(12)),
    )


TABLES = {  # content, sketch of the message
    "empty.csv": ("", "empty.csv ... is empty"),
    "bom_text.csv": (
        UTF8_BOM + csv("dose,response", "1,2", "2,a").encode(),
        "row 3 ... 'response' ... 'a'",
    ),
    "utf16.csv": (GOOD.encode("utf-16-le"), "utf16.csv ... not a text file"),
    "latin1.csv": ("größe,response\n1,2\n".encode("latin-1"), "latin1.csv ... UTF-8"),
    "text_target.csv": (
        csv("dose,response", "1,high", "2,low"),
        "row 2 ... 'response' ... 'high' ... --likelihood auto",
    ),
    "gaps_in_the_target.csv": (
        csv("dose,response", "1,2", "2,", "3,nil", "4,5", "5,"),
        "row 3 ... 'response' ... the first of ... rows; fill them in",
    ),
    "huge_target.csv": (
        csv("dose,response", "1,1e200", "2,-1e200", "3,1"),
        "'response' ... too large",
    ),
    "quotes.csv": (csv("dose,response", '"1,2') + "2,3\n" * 20, "quotes.csv ... row 2"),
    "open_end.csv": (
        'dose,response\n1,2\n2,3\n3,"4\n',
        "open_end.csv ... from row 4 on ... before it is closed",
    ),
    "long_quotes.csv": ('dose,response\n"' + "1,2\n" * 50_000, "long_quotes.csv ... row 2"),
    "semicolons.csv": (
        csv("dose;response", "1;2", "2;3"),
        "semicolons.csv ... commas ... dose;response ... --separator ';' ... --decimal ,",
    ),
    "quoted_commas.csv": (
        csv("dose,response", '"1,5","2,5"', '"2,5","3,5"'),
        "'response' ... '2,5' ... --decimal ,",
    ),
    "page.csv": (
        "<!DOCTYPE html>\n<html><body>404, not found</body></html>\n",
        "not CSV but ... HTML",
    ),
    "records.csv": ('[{"dose": 1, "response": 2}]', "not CSV but JSON"),
    "sheet.csv": (b"PK\x03\x04" + bytes(20), "not CSV but a spreadsheet"),
    "renamed.csv": (b"PAR1" + bytes(20), "not CSV but Parquet"),
    "bars.csv": (csv("dose|response", "1|2", "2|3"), "commas ... dose|response ... --separator"),
    "thousands.csv": (
        csv("dose,response", '1,"1,234"', '2,"900"'),
        "'1,234' ... mark between thousands",
    ),
    "grams.csv": (mixed("1.5 g", "2 g", "3"), "'dose' ... '1.5 g' ... --columns dose=category"),
    "slashes.csv": (
        mixed("01/02/2024", "03/04/2024"),
        "'dose' ... '01/02/2024' ... --columns dose=D/M/Y",
    ),
    "infinite.csv": (mixed("1", "inf", "none"), "'dose' ... finite"),
    "huge_and_text.csv": (mixed("a", "b").replace("1,", "1e200,", 1), "too large"),
    "true.csv": ("x,response\n1,True\n2,False\n", "row 2 ... 'response' ... 'True'"),
    "unit.csv": (
        "x,response\n1,2\n2,988 CHF\n",
        "'988 CHF'; a number is expected, without a unit",
    ),
    "tiny.csv": ("x,response\n1,2e-200\n2,3e-200\n", "`y` spreads over 1e-200"),
    "nothing_left.csv": (
        csv("a,b,response", *(f"x,,{i}" for i in range(12))),
        "'a' ... 'b' ... no values",
    ),
}
TRAINED = {  # odd tables that are trained with a note: content, sketches of the note
    "words_and_gaps.csv": (mixed("a", "b", ""), "dose ... category ... 4 empty cells as a level"),
    "words_for_gaps.csv": (
        mixed("NA", "n/a", "?", "null", "-", "none", "1", "2"),
        "number ... empty cells",
    ),
    "dates_and_gaps.csv": (
        mixed("2024-01-02", "", "2024-03-01"),
        "days since 2024-01-02 ... empty cells ... 2024-01-31",
    ),
    "stamps.csv": (mixed("2024-01-02T10:00:00Z", "2024-03-01T11:30:00.5+02:00"), "date ... day"),
    "id.csv": (mixed(*range(12), name="dose_id").replace('"7"', '"7 "') + ",,1\n", "age"),
    "same.csv": (mixed("a"), "left out ... 'a' in all rows"),
    "equals.csv": (mixed("a=b", "c:d", name="x=y"), "x=y ... category"),
    "rare.csv": (
        mixed("a", "a", "a", "a", "b", "b", "b", "c", "d", "e", "f", "g"),
        "5 rare levels pooled",
    ),
    "bom_spaces_and_lines.csv": (
        UTF8_BOM + mixed(" a", "a ", "b\nc").encode(),
        "age ... category ... 2 levels",
    ),
}


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("batch_rows", [65_536, 3])
def test_files_to_fit(monkeypatch, name, batch_rows):
    monkeypatch.setattr(reader, "BATCH_ROWS", batch_rows)
    content, sketch = TABLES[name]
    write(name, content)
    message = refused_line("fit", name, FIT, "--in-pieces" * (batch_rows == 3))
    assert holds(message, sketch), message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRAINED)
def test_odd_files_are_trained_with_a_note(name):
    content, sketch = TRAINED[name]
    write(name, content)
    note = accept("fit", name, "--target response --quiet --inducing 3 --max-iter 1").stdout
    for words in sketch.split(" ... "):
        assert words in note, note
    lines = accept("predict model.npz", name, "--out -").stdout.count("\n")
    assert lines == 13 + (name == "id.csv")


PARQUETS = {  # columns, sketch of the message
    "a day": (
        {"dose": pd.to_datetime(["2024-01-02"] * 2), "response": [1.0, 2.0]},
        "'dose' ... the same in all rows",
    ),
    "bytes": ({"dose": [b"a", b"b"], "response": [1.0, 2.0]}, "'dose' ... b'a'"),
    "a far date": (
        {"dose": np.array([1, 10**18], "datetime64[ms]"), "response": [1.0, 2.0]},
        "'dose' ... too far from 1970",
    ),
    "a far target": (
        {"dose": [1.0, 2.0], "response": np.array([1, 10**18], "datetime64[ms]")},
        "row 2 ... 'response' ... text",
    ),
    "truths as target": (
        {"dose": [1.0, 2.0], "response": [True, False]},
        "row 2 ... 'response' ... --likelihood auto",
    ),
}


@cases(PARQUETS)
def test_parquet_files_to_fit(case):
    columns, sketch = case
    pd.DataFrame(columns).to_parquet("t.parquet")
    message = refused_line("fit t.parquet", FIT)
    assert holds(message, sketch), message


@pytest.mark.parametrize("description", [b"[1]", b"{", b'{"index_columns": 5}', b"\xff"])
def test_damage_in_what_pandas_adds_to_a_parquet_file(description):
    table = pyarrow.table({"dose": [1.5, 2.5], "response": [1.0, 2.0]})
    damaged = table.replace_schema_metadata({b"pandas": description})
    pyarrow.parquet.write_table(damaged, "t.parquet")
    message = refused_line("fit t.parquet", FIT)
    assert holds(message, "t.parquet ... pandas ... damaged"), message
