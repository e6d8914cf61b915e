"""Titsias' bound as another package optimises it: a baseline for what is said of power 0 on
"Regression on eight data sets".

    python -m benchmarks.variational --python gpflow=/envs/tf/bin/python
 GPflow's SGPR and our power 0 train from the same place, by L-BFGS, until they stop or twenty
seconds are over, and power 0.5 does the same: five sets, three splits, 50 inducing points,
Matérn-3/2. A row for each run is in `nbs/about/benchmarks/variational.csv`.
"""

import argparse
import csv
import tempfile
from pathlib import Path

from benchmarks.fits import prepare
from benchmarks.peers import ROOT, child, interpreters, text

SETS = "boston", "concrete", "energy", "yacht", "wine_red"
SYSTEMS = ("ours", 0.0), ("gpflow", 0.0), ("ours", 0.5)
COLUMNS = (
    "data",
    "split",
    "system",
    "power",
    "M",
    "evaluations",
    "objective",
    "error",
    "log_density",
)


def main() -> None:
    """Run the comparison from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    pythons = interpreters(given.python)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        for name in SETS:
            for split in range(3):
                n_data, _ = prepare(name, file, split)
                for system, power in SYSTEMS:
                    options = [
                        "--size",
                        f"{n_data}x50",
                        "--power",
                        str(power),
                        "--budget",
                        str(given.seconds),
                        "--data",
                        str(file),
                    ]
                    found = child(
                        pythons[system], [system, "fit", *options], 1, 10.0 * given.seconds
                    )
                    row = {
                        "data": name,
                        "split": split,
                        "system": system,
                        "power": power,
                        "M": 50,
                        "evaluations": found["evaluations"],
                    }
                    rows.append(
                        {key: text(value) for key, value in (row | found["trace"][-1]).items()}
                    )
                    print(rows[-1], flush=True)
    with (ROOT / "nbs" / "about" / "benchmarks" / "variational.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
