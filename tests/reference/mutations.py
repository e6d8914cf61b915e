"""Tables and other files with random damage, for the soak."""

import gzip
import io

import numpy as np
import pandas as pd

WORDS = [
    *"nan NA ? inf -inf 1e999 1e300 -1e200 1e-320 0x1F 1_000 1,5 true yes 2024-02-30".split(),
    *'1/2/2024 9:30 " "" \' a,b ä 北京 \u202e =1+1 - --out \x00 \ufeff ;'.split(),
    *("", " ", "5 kg", "a\nb", "a\r\nb", "x" * 300, "0" * 400, "\t"),
]


def frame(rng):
    """A table with columns of all kinds, and a target that they say something about."""
    n = int(rng.integers(1, 60))
    dose = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 6)
    columns = {
        "dose": dose,
        "count": rng.integers(0, 9, n),
        "kind": rng.choice(["a", "b", "c"], n),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        "gaps": np.where(rng.uniform(size=n) < 0.3, np.nan, rng.normal(size=n)),
        "y": np.sin(dose) + 0.1 * rng.normal(size=n),
    }
    return pd.DataFrame(columns)


def odd_cells(rng, table):
    """The table with odd cells, an empty or a constant column, or twice the same name; every
    column as text.
    """
    table = table.astype(str).replace("nan", "")
    for _ in range(rng.integers(0, 4)):
        row = rng.integers(len(table))
        column = rng.integers(table.shape[1])
        place = rng.integers(6)
        if place < 4:
            table.iloc[row if place < 3 else slice(None), column] = str(rng.choice(WORDS))
        elif place == 4:
            table.iat[row, column], table.iat[row, 0] = table.iat[row, 0], table.iat[row, column]
        else:
            names = list(table.columns)
            names[column] = str(rng.choice([*WORDS, names[0], "y"]))
            table.columns = names
    return table


def damaged(rng, content):
    """Bytes that are cut, taken out, repeated, overwritten, put in or flipped."""
    damage = rng.integers(6)
    place = int(rng.integers(len(content) + 1))
    end = min(len(content), place + int(rng.integers(1, 40)))
    if damage == 5:
        flipped = bytearray(content)
        for n in rng.integers(0, max(len(content), 1), 3) if content else ():
            flipped[n] ^= 1 << int(rng.integers(8))
        return bytes(flipped)
    odd = bytes(rng.choice(list(b'",\n\r;\t\0 \xff\xfe-.eE0123456789'), size=3).tolist())
    middle_and_end = (
        b"",
        content[end:],
        content[place:end] + content[place:],
        rng.bytes(end - place) + content[end:],
        odd + content[place:],
    )
    return content[:place] + middle_and_end[damage]


class Trap:
    """An object that says so if it is unpickled."""

    def __reduce__(self):
        return print, ("an object was unpickled",)


def forged(rng, content):
    """A model file or checkpoint whose checksums are right, changed by somebody who knows its
    format.
    """
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    name = str(
        rng.choice([name for name, array in arrays.items() if name != "description" and array.ndim])
    )
    packed = bool(rng.integers(2))
    array = arrays[name]
    text = str(arrays["description"])
    match rng.integers(7):
        case 0:
            # 160 MB in few bytes
            arrays[name] = np.zeros(20_000_000)
            packed = True
        case 1:
            arrays["../../outside"] = arrays.pop(name)
        case 2:
            arrays[name] = np.array([Trap()], dtype=object)
        case 3:
            arrays[name] = (
                np.where(rng.uniform(size=array.shape) < 0.5, np.nan, array.astype(float))
                if array.dtype.kind in "fi"
                else array[:0]
            )
        case 4:
            text = text.replace(
                '"version": 1', f'"version": {rng.choice(["2", "1e400", "-1", "null", "[]"])}'
            )
        case 5:
            arrays[name] = array[:-1]
        case 6:
            text = text.replace('"array"', '"arrays"', 1)
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, **arrays | {"description": np.array(text)})
    return file.getvalue()


def table_file(rng):
    """The end of a file's name and its content: CSV, zipped CSV or Parquet, with odd cells,
    damaged bytes, or both.
    """
    table = frame(rng)
    ending = rng.choice(["csv", "csv", "csv.gz", "parquet"])
    cells = rng.integers(2)
    bytes_too = rng.integers(2)
    if ending == "parquet":
        table = table.sample(frac=1.0, axis=1, random_state=int(rng.integers(1000)))
        if cells:
            column = str(rng.choice(table.columns))
            odd = [None, np.nan, 1e300, np.inf, b"\xff", "a", True, 2**63, {"a": 1}, [1, 2]]
            table[column] = [odd[rng.integers(len(odd))]] * len(table)
        content = io.BytesIO()
        table.to_parquet(content, compression=str(rng.choice(["snappy", "gzip", "none"])))
        content = content.getvalue()
    else:
        text = (odd_cells(rng, table) if cells else table).to_csv(
            index=False, lineterminator=str(rng.choice(["\n", "\r\n", "\r"]))
        )
        content = text.encode(
            str(rng.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16", "latin-1"])), "replace"
        )
        content = damaged(rng, content) if bytes_too else content
        content = gzip.compress(content) if ending == "csv.gz" else content
    return ending, damaged(rng, content) if bytes_too and ending != "csv" else content
