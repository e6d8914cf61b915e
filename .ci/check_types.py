"""What type checkers see: mypy accepts the package, pyright knows the types of at least 95 % of the
public names, and both find a misspelt argument and a misspelt method in a user's script.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import numpy as np
from sparse_pep import LBFGS, SparsePEPRegressor
X, y = np.zeros((3, 2)), np.zeros(3)
model = SparsePEPRegressor(training=LBFGS(max_iter=5)).fit(X, y)
mean: np.ndarray = model.predict(X)
pair: tuple[np.ndarray, np.ndarray] = model.predict(X, return_std=True)
{}
"""
WRONG = (
    "SparsePEPRegressor(powr=0.5)",
    "model.predikt(X)",
    "LBFGS(max_iterations=3)",
    "model.predict(X, std=True)",
)


def output(*command: str) -> tuple[int, str]:
    # an editable installation is not on their path
    here = {"PYTHONPATH": os.getcwd(), "MYPYPATH": os.getcwd()}
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | here)
    return run.returncode, run.stdout


def public_names() -> set[str]:
    """All names in `__all__` of a module, with the module."""
    found = set()
    for path in Path("sparse_pep").rglob("*.py"):
        module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found |= {f"{module}.{name.value}" for name in node.value.elts}
    return found


status, text = output("mypy")
print(text.strip().splitlines()[-1])
failed = status != 0

public = public_names()
symbols = json.loads(
    output("pyright", "--verifytypes", "sparse_pep", "--ignoreexternal", "--outputjson")[1]
)["typeCompleteness"]["symbols"]
symbols = [
    each
    for each in symbols
    if any(each["name"] == name or each["name"].startswith(f"{name}.") for name in public)
]
known = [each["isTypeKnown"] and not each["isTypeAmbiguous"] for each in symbols]
print(f"pyright knows {sum(known)} of {len(known)} public names: {sum(known) / len(known):.1%}")
failed |= sum(known) < 0.95 * len(known)

with tempfile.TemporaryDirectory() as folder:
    for number, line in enumerate(("", *WRONG)):
        (Path(folder) / f"script{number}.py").write_text(SCRIPT.format(line))
    for checker in (
        ("mypy", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent"),
        ("pyright",),
    ):
        found = [
            output(*checker, f"{folder}/script{number}.py")[0] != 0
            for number in range(len(WRONG) + 1)
        ]
        print(
            f"{checker[0]} accepts a correct script: {not found[0]}; mistakes found: "
            f"{sum(found[1:])} of {len(WRONG)}"
        )
        failed |= found != [False] + [True] * len(WRONG)
sys.exit(failed)
