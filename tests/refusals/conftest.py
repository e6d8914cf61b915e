"""A folder of good files and of broken ones."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import accept

from sparse_pep import SparsePEPRegressor
from sparse_pep.estimators.persistence import FORMAT_VERSION
from sparse_pep.numerics.files import read_archive, write_archive
from sparse_pep.training import LBFGS

from .checks import X, y

ROWS = [f"{i},{i * i % 7},7,{np.sin(i):.3f}\n" for i in range(12)]
GOOD = "dose,age,site,response\n" + "".join(ROWS)
FILES = {
    "good.csv": GOOD,
    "labelled.csv": "dose,kind\n1,a\n2,b\n3,a\n",
    "weights.csv": "dose,negative,zero,single,response\n1,1,0,0,2\n2,-1,0,1,3\n3,1,0,0,5\n",
    "holes.csv": "dose,w,response\n1,1,2\n2,,3\n",
    "hole_kind.csv": "dose,kind\n1,a\n2,\n3,b\n",
    "nan.csv": "dose,age,site\n1,nan,7\n",
    "old.csv": "dose,age,site\n1,old,7\n",
    "short.csv": "dose,sites,age\n1,2,3\n",
    "text.csv": "dose,age,response\n1,2,3\n1,old,3\n",
    "same.csv": "dose,response\n" + "1,5\n" * 30,
    "counts.csv": "dose,response\n1,2\n2,-1\n3,0\n",
    "three.csv": "dose,kind\n" + "1,a\n2,b\n" * 6 + "3,rare\n",
    "rare.csv": "x,y\n1,1\n" + "2,0\n" * 39,
    "words.csv": "a,b,c\n1,2,x\n2,1,y\n",
    "unit.csv": "a,c\n1,950\n2,988 CHF\n",
    "foreign.ckpt": "not one of ours",
    "parts/0.csv": GOOD,
}


def write_broken_models():
    """What a model.npz becomes in a newer version, and without the names of its columns."""
    state = read_archive("model.npz", "sparse_pep model", FORMAT_VERSION)
    write_archive("newer.npz", state, "sparse_pep model", 999)
    write_archive("unnamed.npz", state | {"extra": {}}, "sparse_pep model", FORMAT_VERSION)


def write_checkpoints():
    """A checkpoint of other data, and half of it."""
    training = LBFGS(max_iter=2, checkpoint="other.ckpt")
    SparsePEPRegressor(n_inducing=3, training=training, random_state=0).fit(X, y)
    whole = Path("other.ckpt").read_bytes()
    Path("cut.ckpt").write_bytes(whole[: len(whole) // 2])


def write_data_sets():
    """A folder of data sets with splits, each broken in another way."""
    table = "a,y\n" + "".join(f"{i},{i % 5}\n" for i in range(10))
    packed = gzip.compress(table.encode())
    good = json.dumps({"splits": [{"train": None, "test": [0, 1]}]})
    twice = json.dumps({"splits": [{"train": [0, 0, 1], "test": [2]}]})
    sets = {
        "broken": (packed, good[:14]),
        "none": (packed, json.dumps({"splits": []})),
        "twice": (packed, twice),
        "zipped": (packed[:-9], good),
        "targetless": (gzip.compress(table.replace("y", "z").encode()), good),
    }
    folder = Path("data/regression")
    folder.mkdir(parents=True)
    for name, (content, splits) in sets.items():
        (folder / f"{name}.csv.gz").write_bytes(content)
        (folder / f"{name}_splits.json.gz").write_bytes(gzip.compress(splits.encode()))


@pytest.fixture(scope="session")
def bench_files(tmp_path_factory):
    place = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name in ("folder", "parts"):
            Path(name).mkdir()
        for name, content in FILES.items():
            Path(name).write_text(content)
        accept("fit good.csv --target response --inducing 3 --max-iter 2 --quiet")
        np.savez("arrays.npz", a=np.zeros(3))
        write_broken_models()
        write_checkpoints()
        write_data_sets()
    return place


@pytest.fixture
def bench(bench_files, monkeypatch):
    """The folder of good files and of broken ones, to work in."""
    monkeypatch.chdir(bench_files)
    monkeypatch.delenv("SPARSE_PEP_DATA", raising=False)
