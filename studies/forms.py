"""How far apart predictions are after training on the same rows in another form, and with
another seed, on real data.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sparse_pep import LBFGS, SparsePEPRegressor
from sparse_pep.data.sources import ArraySource
from studies.common import at_hand, study_name, train_and_test
from studies.runner import Study

SETS = tuple("boston concrete diabetes energy wine_red yacht".split())
FORMS = {
    "other order": {"order": 1},
    "units of 1e6": {"unit": 1e-6},
    "units of 1e-6": {"unit": 1e6},
    "pieces": {"pieces": True},
    **{f"seed {seed}": {"seed": seed} for seed in (1, 2, 3, 4)},
}


def predicted(
    data: str, tol: float, order: int = 0, unit: float = 1.0, pieces: bool = False, seed: int = 0
) -> tuple:
    """Means and standard deviations (S,) in the units of the data set, the log evidence, whether
    training converged, and its iterations.
    """
    X, y, X_test, _ = train_and_test(data)
    rows = np.random.default_rng(0).permutation(len(y))[:300]
    rows = np.random.default_rng(order).permutation(rows) if order else rows
    model = SparsePEPRegressor(
        n_inducing=30, standardize=True, random_state=seed, training=LBFGS(max_iter=20_000, tol=tol)
    )
    X = unit * X[rows]
    y = unit * y[rows]
    model.fit(*((ArraySource(X, y, piece_rows=100), None) if pieces else (X, y)))
    mean, std = model.predict(unit * X_test[:300], return_std=True)
    return (
        mean / unit,
        std / unit,
        model.log_marginal_likelihood_value_,
        model.converged_,
        model.n_iter_,
    )


def fit(job: dict) -> list[dict]:
    """A row for each form: the largest difference of means, in standard deviations, from those
    of the first fit.
    """
    mean, std, evidence, converged, n_iter = predicted(**job)
    rows = [{"form": "first", "apart": 0.0, "gain": 0.0, "converged": converged, "n_iter": n_iter}]
    for form, how in FORMS.items():
        other, _, value, converged, n_iter = predicted(**job, **how)
        rows.append(
            {
                "form": form,
                "apart": np.max(np.abs(other - mean) / std),
                "gain": value - evidence,
                "converged": converged,
                "n_iter": n_iter,
            }
        )
    return rows


def study(size: str) -> Study:
    """Six data sets with the default tolerance, and three of them with one so tight that
    training takes ten times as long.
    """
    jobs = [
        {"data": name, "tol": 5e-4}
        for name in (SETS if at_hand() and size != "quick" else ("diabetes",))
    ]
    return Study(
        study_name("forms", size),
        jobs
        if size == "quick"
        else jobs + [{"data": job["data"], "tol": 1e-7} for job in jobs[:3]],
        fit,
    )


def tables(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The differences by tolerance, data set and form."""
    return {
        "largest difference of means, in standard deviations": rows.pivot_table(
            "apart", ["tol", "data"], "form", sort=False
        )
    }


def figures(rows: pd.DataFrame) -> dict[str, Figure]:
    """None."""
    return {}
