"""Run studies, print their tables and draw their figures.

    python -m studies --quick                                # all of them, in a few minutes
    python -m studies regression --data-dir data
    python -m studies snelson banana --full --workers 8
 A study may be stopped at any time; the same command resumes it. Without a folder of data sets,
those of scikit-learn are used.
"""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from sparse_pep.datasets import data_directory
from studies.common import convergence
from studies.runner import run_study

NAMES = (
    "snelson banana ionosphere mnist synthetic regression classification discussion "
    "starts private beyond kin40k coverage cube forms classes race"
).split()


def main(words: list[str] | None = None) -> int:
    """Run the studies that are named, or all; the exit status is 1 if some of their jobs failed."""
    parser = argparse.ArgumentParser(
        "python -m studies",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--quick",
        dest="size",
        action="store_const",
        const="quick",
        default="standard",
        help="a small version, of a minute or less",
    )
    sizes.add_argument(
        "--full",
        dest="size",
        action="store_const",
        const="full",
        help="all splits at hand, and what else the standard size leaves out",
    )
    parser.add_argument(
        "--results", type=Path, default="results", help="folder of the results (default: results)"
    )
    parser.add_argument(
        "--data-dir", help="folder of data sets (default: the environment variable SPARSE_PEP_DATA)"
    )
    parser.add_argument(
        "--workers", type=int, help="number of processes (default: one for each core)"
    )
    options = parser.parse_args(words)
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no study {min(unknown)!r}; there are {', '.join(NAMES)}")
    if options.data_dir:
        # which the processes inherit
        os.environ["SPARSE_PEP_DATA"] = str(Path(options.data_dir).resolve())
    try:
        data_directory()
    except ValueError as error:
        parser.error(str(error))
    failed = 0
    for name in options.names or NAMES:
        script = import_module(f"studies.{name}")
        study = script.study(options.size)
        rows, errors = run_study(study, options.results, options.workers)
        failed += len(errors)
        for line in errors:
            print(f"{study.name}: {line}", file=sys.stderr)
        if rows.empty:
            continue
        for title, table in script.tables(rows).items():
            print(f"{title}\n{table.to_string()}\n")
        print(f"{convergence(rows)}\n")
        for title, figure in script.figures(rows).items():
            figure.savefig(options.results / f"{study.name}_{title}.png", dpi=150)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
