"""The references for likelihoods: against exact numbers computed elsewhere, closed forms and each other."""

import mpmath as mp
import numpy as np
import pytest
from reference import classification, dense, tilted
from reference.classification import ep_classification, ep_predict, iterated, probit, variational_optimum
from reference.compare import differences, error
from scipy import stats
from scipy.special import gammaln, log_expit

PROBLEMS = ["c01_1d", "c03_per_datum_alpha", "c04_Z_equals_X", "c05_matern32", "c07_large_variance"]


def log_negative_binomial(f, y, dispersion):
    """SciPy's own takes a probability, which loses digits near 1."""
    r = dispersion
    choose = gammaln(y + r) - gammaln(r) - gammaln(y + 1)
    return choose + r * np.log(r) + y * f - (y + r) * np.logaddexp(np.log(r), f)


# The likelihoods of the table once more, mostly from SciPy: log p(y|f), parameters by name.
LOG_P = {
    "probit": probit,
    "logit": lambda f, y: log_expit(y * f),
    "noisy_probit": lambda f, y, eps: np.log(eps + (1 - 2 * eps) * stats.norm.cdf(y * f)),
    "poisson": lambda f, y: stats.poisson.logpmf(y, np.exp(f)),
    "negative_binomial": log_negative_binomial,
    "student_t": lambda f, y, df, scale: stats.t.logpdf(y, df, f, scale),
    "gaussian": lambda f, y, noise_variance: stats.norm.logpdf(y, f, np.sqrt(noise_variance)),
}
EXAMPLES = [
    ("probit", -1, {}),
    ("logit", -1, {}),
    ("noisy_probit", -1, {"eps": 0.1}),
    ("poisson", 4, {}),
    ("negative_binomial", 0, {"dispersion": 3.0}),
    ("negative_binomial", 4, {"dispersion": 0.7}),
    ("student_t", 0.3, {"df": 3.5, "scale": 0.7}),
    ("gaussian", 0.3, {"noise_variance": 0.2}),
]
MOMENTS = "z", "d1", "d2"


class Problem:
    """One classification problem of the file."""

    def __init__(self, vectors, name):
        problem = next(problem for problem in vectors["classification"] if problem["id"] == name)
        self.X, self.y, self.Z, self.X_test = (np.array(problem[key], float) for key in ("X", "y", "Z", "Xtest"))
        self.parts, self.cases = problem["kernel"], problem["cases"]
        self.prior = self.kernel(self.Z, self.Z), self.kernel(self.Z, self.X), self.diag(self.X)

    def kernel(self, X1, X2):
        return dense.kernel(self.parts["name"], self.parts["variance"], np.array(self.parts["lengthscales"]), X1, X2)

    def diag(self, X):
        return np.full(len(X), self.parts["variance"])

    def predict(self, q_mean, q_cov):
        """p(y = +1) at the test inputs."""
        test = self.kernel(self.Z, self.X_test), self.kernel(self.X_test, self.X_test)
        mean, cov = dense.predict(self.prior[0], *test, q_mean, q_cov)
        return stats.norm.cdf(mean / np.sqrt(1 + np.diag(cov)))

    def fitc(self):
        """Prior covariances of f under FITC: of the data, with the test inputs, variances at those."""
        Kuu, Kuf, kff = self.prior
        Q = dense.projected(Kuu, Kuf)
        crossed = Kuf.T @ np.linalg.solve(Kuu, self.kernel(self.Z, self.X_test))
        return Q + np.diag(kff - np.diag(Q)), crossed, self.diag(self.X_test)


@pytest.mark.parametrize("name", PROBLEMS)
def test_iterated(vectors, name):
    problem = Problem(vectors, name)
    # the last problem takes 150 sweeps at power 0, where `test_variational_optimum` has it
    for case in [case for case in problem.cases if name != PROBLEMS[-1] or case["alpha"] >= 0.3]:
        fit = iterated(probit, problem.y, *problem.prior, np.array(case["alpha"]))
        assert error(fit.log_evidence, case["logZ"]) < 1e-12
        assert error(fit.site_precision, case["tau"]) < 1e-10
        assert error(fit.site_shift, case["nu"]) < 1e-10
        assert error(fit.q_mean, case["q_mean"]) < 1e-10
        assert error(fit.q_cov, case["q_cov"]) < 1e-10
        assert error(problem.predict(fit.q_mean, fit.q_cov), case["prob"]) < 1e-10


def test_iterated_passes(vectors):
    """The paper's own procedure, before it has converged."""
    problem = Problem(vectors, "c01_1d")
    states = [(case["alpha"], state) for case in problem.cases for state in case.get("after_passes", [])]
    assert len(states) == 12
    for power, state in states:
        fit = iterated(probit, problem.y, *problem.prior, power, step=power, sweeps=state["passes"])
        assert fit.n_sweeps == state["passes"]
        assert error(fit.q_mean, state["q_mean"]) < 1e-12
        assert error(fit.q_cov, state["q_cov"]) < 1e-12


@pytest.mark.parametrize("name", ["c01_1d", "c04_Z_equals_X", "c05_matern32", "c07_large_variance"])
def test_variational_optimum(vectors, name):
    problem = Problem(vectors, name)
    case = next(case for case in problem.cases if case["alpha"] == 0)
    bound, q_mean, q_cov = variational_optimum(probit, problem.y, *problem.prior)
    assert error(bound, case["logZ"]) < 1e-12
    assert error(q_mean, case["q_mean"]) < 1e-6
    assert error(q_cov, case["q_cov"]) < 1e-6


@pytest.mark.parametrize("name", ["c01_1d", "c04_Z_equals_X", "c05_matern32", "c07_large_variance"])
def test_ep_of_full_matrices(vectors, name):
    """Power 1 is EP with the prior of FITC; a site on f = w'u + (noise of variance d) widens by d as one on w'u."""
    problem = Problem(vectors, name)
    case = next(case for case in problem.cases if case["alpha"] == 1)
    K, Ks, kss = problem.fitc()
    fit = ep_classification(K, problem.y)
    assert error(fit.log_evidence, case["logZ"]) < 1e-12
    widened = 1 + fit.site_precision * classification.whiten(*problem.prior)[2]
    assert error(fit.site_precision / widened, case["tau"]) < 1e-10
    assert error(fit.site_shift / widened, case["nu"]) < 1e-10
    assert error(ep_predict(K, Ks, kss, fit), case["prob"]) < 1e-10
    if name == "c04_Z_equals_X":  # f at the data is u
        assert error(fit.q_mean, case["q_mean"]) < 1e-10
        assert error(fit.q_cov, case["q_cov"]) < 1e-10


def counts():
    """A small problem with counts: y, Kuu, Kuf, kff."""
    rng = np.random.default_rng(3)
    X, Z = rng.uniform(0, 4, (9, 1)), np.linspace(0.3, 3.7, 4)[:, None]
    Kuu, Kuf = (dense.kernel("matern32", 1.3, np.array([0.8]), Z, other) for other in (Z, X))
    return rng.poisson(np.exp(1 + np.sin(2 * X[:, 0]))).astype(float), Kuu, Kuf, np.full(9, 1.3)


def test_energy_is_level_in_the_sites():
    """What makes a fixed point one, whatever the powers."""
    y, *prior = counts()
    power = np.resize([0.0, 1.0, 0.3], len(y))
    fit = iterated(LOG_P["poisson"], y, *prior, power)
    _, V, dff = classification.whiten(*prior)

    def of_sites(sites):
        return classification.energy(LOG_P["poisson"], y, V, dff, power, *sites)

    sites = np.array([fit.site_precision, fit.site_shift])
    assert fit.log_evidence == of_sites(sites)
    assert np.max(np.abs(differences(of_sites, sites))) < 1e-8
    assert np.max(np.abs(differences(of_sites, 0.9 * sites))) > 1e-2


def test_gaussian_noise_is_the_closed_form():
    y, *prior = counts()
    power = np.resize([0.0, 1.0, 0.3], len(y))
    fit = iterated(lambda f, y: stats.norm.logpdf(y, f, np.sqrt(0.5)), y, *prior, power)
    assert error(fit.log_evidence, dense.log_evidence(*prior, y, 0.5, power)) < 1e-12
    q_mean, q_cov = dense.posterior(*prior, y, 0.5, power)
    assert error(fit.q_mean, q_mean) < 1e-12
    assert error(fit.q_cov, q_cov) < 1e-12


@pytest.mark.parametrize("name, y, parameters", EXAMPLES)
def test_log_densities(name, y, parameters):
    """Values are those of float64; derivatives are those of the values."""
    function = tilted.LIKELIHOODS[name]
    with mp.workdps(60):
        exact = {key: mp.mpf(value) for key, value in parameters.items()}
        for f in (-8.0, -0.3, 0.9, 6.0):
            log_p, slope, curvature = function(mp.mpf(f), mp.mpf(y), **exact)
            assert abs(log_p / LOG_P[name](f, y, **parameters) - 1) < 1e-8
            numbers = mp.diffs(lambda x: function(x, mp.mpf(y), **exact)[0], mp.mpf(f), 2)
            assert all(abs(a - b) < mp.mpf("1e-30") for a, b in zip((log_p, slope, curvature), numbers))


def test_tilted_of_the_file(vectors):
    case = vectors["tilted"][-1]  # power 0.01, six deviations on the wrong side
    got = tilted.tilted("probit", case["y"], case["mu"], case["v"], case["alpha"])
    assert np.allclose([float(value) * case["alpha"] for value in got], [case[k] for k in ("logZ", "d1", "d2")], 5e-16, 0)


@pytest.fixture(scope="module")
def table():
    return tilted.load_table()


def test_table_is_complete(table):
    """Beyond reach is only E[exp f], which counts have at power 0."""
    assert [(row["name"], row["y"], row["parameters"]) for row in table] == list(tilted.CASES)
    size = len(tilted.MEANS) * len(tilted.VARIANCES) * len(tilted.POWERS)
    assert all(len(row[key]) == size for row in table for key in ("mean", "var", "power", *MOMENTS))
    for row in table:
        missing = np.isnan([row[key] for key in MOMENTS]).any(axis=0)
        explained = (row["power"] == 0) & (row["var"] > 1e3) if row["name"] == "poisson" else np.zeros(size, bool)
        assert not np.any(missing & ~explained), row["name"]


@pytest.mark.parametrize("name", sorted({name for name, *_ in tilted.CASES}))
def test_table_computed_anew(table, name):
    rng = np.random.default_rng(len(name))
    row = rng.choice([row for row in table if row["name"] == name])
    n = rng.integers(len(row["mean"]))
    got = tilted.tilted(name, row["y"], row["mean"][n], row["var"][n], row["power"][n], **row["parameters"])
    expected = np.array([row[key][n] for key in MOMENTS])
    assert np.allclose([float(value) for value in got], expected, 5e-16, 0, equal_nan=True)


def test_table_is_the_closed_forms(table):
    """Both probits at power 1, counts at power 0: the whole grid."""
    checked = 0
    for row in table:
        for n in range(len(row["mean"])):
            exact = closed_form(row, n)
            if exact:
                expected = [float(value) if abs(value) < 1e250 else np.nan for value in exact]
                assert np.allclose([row[key][n] for key in MOMENTS], expected, 5e-16, 0, equal_nan=True)
                checked += 1
    assert checked == 64 * (2 + 5)


def closed_form(row, n):
    """z, d1 and d2 of an entry of the table, None if there is no closed form."""
    with mp.workdps(60):
        y, mean, var = (mp.mpf(float(value)) for value in (row["y"], row["mean"][n], row["var"][n]))
        if row["name"] == "poisson" and row["power"][n] == 0:
            expected = mp.exp(mean + var / 2)
            return y * mean - expected - mp.loggamma(y + 1), y - expected, -expected
        if row["name"] in ("probit", "noisy_probit") and row["power"][n] == 1:
            root = mp.sqrt(1 + var)
            parameters = {key: mp.mpf(value) for key, value in row["parameters"].items()}
            z, slope, curvature = tilted.LIKELIHOODS[row["name"]](mean / root, y, **parameters)
            return z, slope / root, curvature / root**2
    return None


def test_table_is_the_trapezoid(table):
    """Every likelihood on cavities of middling size, by SciPy's densities, where the cavity sees the tilted mass."""
    for row in [row for row in table if row["y"] <= 50]:
        near = row["power"] * np.abs(row["d1"]) * np.sqrt(row["var"]) < 5  # deviations that the mean moves by
        keep = near & (np.abs(row["mean"]) <= 5) & (row["var"] >= 0.1) & (row["var"] <= 9)
        mean, var, power = (row[key][keep] for key in ("mean", "var", "power"))
        y = np.full(len(mean), float(row["y"]))

        def log_p(f, y, row=row):
            return LOG_P[row["name"]](f, y, **row["parameters"])

        for got, key in zip(classification.tilted(log_p, y, mean, var, power), MOMENTS):
            scale = 1 + np.abs(row[key][keep])
            assert np.max(np.abs(got - row[key][keep]) / scale) < 1e-9, (row["name"], row["y"], key)
