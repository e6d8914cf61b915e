"""Sparse regression by Power EP with N x N matrices and NumPy's general solvers; nothing here is fast or careful.

Every function also takes complex arguments, so that `complex_step` differentiates it to rounding.
"""

import numpy as np

MATERN = {
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
}


def kernel(name, variance, lengthscale, X1, X2):
    """k(X1, X2), straight from the definition, by an array of all differences."""
    r2 = (((X1[:, None] - X2) / lengthscale) ** 2).sum(-1)
    return variance * (np.exp(-r2 / 2) if name == "se" else MATERN[name](np.sqrt(r2)))


def log_det(K):
    """log |K|, complex K included."""
    sign, log_abs = np.linalg.slogdet(K)
    return log_abs + (np.log(sign) if np.iscomplexobj(K) else 0.0)


def log_normal(y, K):
    """log N(y; 0, K)."""
    return -0.5 * (y @ np.linalg.solve(K, y) + log_det(K) + len(y) * np.log(2 * np.pi))


def exact_log_evidence(Kff, y, noise):
    """log p(y) of the GP itself."""
    return log_normal(y, Kff + noise * np.eye(len(y)))


def projected(Kuu, Kuf):
    """Q_ff = Kfu Kuu^-1 Kuf."""
    return Kuf.T @ np.linalg.solve(Kuu, Kuf)


def fitc_log_evidence(Kuu, Kuf, kff, y, noise):
    """FITC from its own definition: the prior's covariance is Q with the diagonal of K."""
    Q = projected(Kuu, Kuf)
    return log_normal(y, Q - np.diag(np.diag(Q)) + np.diag(kff) + noise * np.eye(len(y)))


def titsias_bound(Kuu, Kuf, kff, y, noise):
    """log N(y; 0, Q + noise I) - tr(K - Q)/(2 noise)."""
    Q = projected(Kuu, Kuf)
    return log_normal(y, Q + noise * np.eye(len(y))) - (kff - np.diag(Q)).sum() / (2 * noise)


def log_evidence(Kuu, Kuf, kff, y, noise, power):
    """log Z_PEP of section 3.5 with single-datum factors; `noise` and `power` are numbers or one a datum."""
    Q = projected(Kuu, Kuf)
    D = kff - np.diag(Q)
    noise, power = np.broadcast_to(noise, y.shape), np.broadcast_to(power, y.shape)
    correction = sum((1 - a) / (2 * a) * np.log1p(a * d / s) if a else d / (2 * s) for a, d, s in zip(power, D, noise))
    return log_normal(y, Q + np.diag(power * D + noise)) - correction


def tight_log_evidence(Kuu, Kuf, Kff, y, noise, power, labels=None, weight=1.0):
    """The tight form of log Z_PEP, for one block a label and noise, power and weight as in `log_evidence`.

    A row of weight w has noise / w, and the constant that makes its density a power w of the normal one.
    """
    one = np.ones(len(y))
    noise, power, weight, labels = noise * one, power * one, weight * one, np.arange(len(y)) if labels is None else labels
    scaled, Q = noise / weight, projected(Kuu, Kuf)
    D = np.where(labels[:, None] == labels, Kff - Q, 0.0)
    precision = np.diag((1 - power) / scaled) + power[:, None] * np.linalg.inv(D + np.diag(scaled))
    penalty = log_det(np.eye(len(y)) + (1 - power)[:, None] * D / np.sqrt(scaled[:, None] * scaled))
    constants = np.log(2 * np.pi * scaled) - weight * np.log(2 * np.pi * noise)
    return log_normal(y, Q + np.linalg.inv(precision)) - 0.5 * penalty + 0.5 * constants.sum()


def posterior(Kuu, Kuf, kff, y, noise, power):
    """Mean and covariance of q(u)."""
    scale = power * (kff - np.diag(projected(Kuu, Kuf))) + noise
    A = Kuu + Kuf / scale @ Kuf.T
    return Kuu @ np.linalg.solve(A, Kuf @ (y / scale)), Kuu @ np.linalg.solve(A, Kuu)


def predict(Kuu, Kus, Kss, q_mean, q_cov):
    """Mean and covariance of f at the test inputs."""
    W = np.linalg.solve(Kuu, Kus)
    return W.T @ q_mean, Kss - Kus.T @ W + W.T @ q_cov @ W


def complex_step(f, x):
    """The gradient of a real function of an array, exact to rounding."""
    gradient = np.empty(np.shape(x))
    for index in np.ndindex(gradient.shape):
        moved = np.array(x, dtype=complex)
        moved[index] += 1e-30j
        gradient[index] = f(moved).imag / 1e-30
    return gradient


def model_log_evidence(name, parameters, X, y, power, jitter=0.0):
    """`log_evidence` of a stationary kernel with inducing points, from the package's own dictionary of parameters."""
    Z = parameters["features.Z"]
    covariance = (name, np.exp(parameters["kernel.log_variance"]), np.exp(parameters["kernel.log_lengthscale"]))
    Kuu = kernel(*covariance, Z, Z)
    Kuu = Kuu + jitter * np.diag(np.diag(Kuu))
    noise = np.exp(parameters["log_noise_variance"])
    return log_evidence(Kuu, kernel(*covariance, Z, X), covariance[1] * np.ones(len(X)), y, noise, power)


def model_gradient(name, parameters, X, y, power, jitter=0.0):
    """Its gradient, by complex steps, under the same names."""
    return {
        key: complex_step(lambda value, key=key: model_log_evidence(name, {**parameters, key: value}, X, y, power, jitter), parameters[key])
        for key in parameters
    }


def pivoted_cholesky(K, n):
    """Rows that a pivoted Cholesky factorisation of K picks, from the Schur complements themselves."""
    left, chosen = K.copy(), []
    for _ in range(n):
        pivot = int(np.argmax(np.diag(left)))
        left = left - np.outer(left[:, pivot], left[pivot]) / left[pivot, pivot]
        left[pivot] = left[:, pivot] = 0.0
        chosen.append(pivot)
    return chosen
