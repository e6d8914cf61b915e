"""House prices by easting and northing: ours beside PyKrige, the table of the page on kriging.
`SPARSE_PEP_DATA=data python -m benchmarks.kriging`
 PyKrige fits the variogram to the squared differences of all pairs and predicts from the 80 nearest
rows, as ours may; times are those of one processor, for the fit and the predictions together.
"""

import time

import numpy as np
import pandas as pd
from pykrige.ok import OrdinaryKriging

from sparse_pep import SparsePEPRegressor
from sparse_pep.datasets import data_directory, gaussian_log_density

NEAREST = 80


def ours(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The default with a Matérn-3/2."""
    place = ["easting", "northing"]
    model = SparsePEPRegressor(kernel="matern32", random_state=0).fit(train[place], train["y"])
    mean, std = model.predict(test[place], return_std=True)
    return mean, std**2


def pykrige(
    train: pd.DataFrame, test: pd.DataFrame, variogram: str
) -> tuple[np.ndarray, np.ndarray]:
    """Ordinary kriging with a moving neighbourhood; its variance is that of a new value."""
    columns = (train[name].to_numpy() for name in ("easting", "northing", "y"))
    kriging = OrdinaryKriging(*columns, variogram_model=variogram, nlags=20, exact_values=False)
    new = (test[name].to_numpy() for name in ("easting", "northing"))
    return kriging.execute("points", *new, backend="loop", n_closest_points=NEAREST)


WAYS = {
    "sparse_pep": ours,
    "PyKrige, spherical": lambda train, test: pykrige(train, test, "spherical"),
    "PyKrige, exponential": lambda train, test: pykrige(train, test, "exponential"),
}


def main() -> None:
    """Print a row for each way."""
    folder = data_directory() / "geo"
    train, test = (pd.read_csv(folder / f"house_{part}.csv.gz") for part in ("train", "test"))
    for name, way in WAYS.items():
        begun = time.process_time()
        mean, variance = way(train, test)
        seconds = time.process_time() - begun
        error = np.sqrt(np.mean((test["y"] - mean) ** 2))
        density = np.mean(gaussian_log_density(test["y"].to_numpy(), mean, variance))
        print(
            f"{name}: error {error:.3f}, -log density {-density:.3f}, {seconds:.0f} s", flush=True
        )


if __name__ == "__main__":
    main()
