"""Sparse regression by Power EP with N x N matrices and NumPy's general solvers; nothing here is
fast or careful.
"""

import numpy as np


def log_det(K):
    """log |K|."""
    return np.linalg.slogdet(K)[1]


def log_normal(y, K):
    """log N(y; 0, K)."""
    return -0.5 * (y @ np.linalg.solve(K, y) + log_det(K) + len(y) * np.log(2 * np.pi))


def exact_log_evidence(Kff, y, noise):
    """log p(y) of the GP itself."""
    return log_normal(y, Kff + noise * np.eye(len(y)))


def projected(Kuu, Kuf):
    """Q_ff = Kfu Kuu^-1 Kuf."""
    return Kuf.T @ np.linalg.solve(Kuu, Kuf)


def titsias_bound(Kuu, Kuf, kff, y, noise):
    """log N(y; 0, Q + noise I) - tr(K - Q)/(2 noise)."""
    Q = projected(Kuu, Kuf)
    return log_normal(y, Q + noise * np.eye(len(y))) - (kff - np.diag(Q)).sum() / (2 * noise)


def log_evidence(Kuu, Kuf, kff, y, noise, power):
    """log Z_PEP of section 3.5 with single-datum factors; `noise` and `power` are numbers or one
    a datum.
    """
    Q = projected(Kuu, Kuf)
    D = kff - np.diag(Q)
    noise = np.broadcast_to(noise, y.shape)
    power = np.broadcast_to(power, y.shape)
    correction = sum(
        (1 - a) / (2 * a) * np.log1p(a * d / s) if a else d / (2 * s)
        for a, d, s in zip(power, D, noise, strict=True)
    )
    return log_normal(y, Q + np.diag(power * D + noise)) - correction


def tight_bound(Kuu, Kuf, Kff, y, noise, labels):
    """The tight form at power 0, with a block for each label."""
    Q = projected(Kuu, Kuf)
    eye = np.eye(len(y))
    D = np.where(labels[:, None] == labels, Kff - Q, 0.0)
    return log_normal(y, Q + noise * eye) - 0.5 * log_det(eye + D / noise)


def posterior(Kuu, Kuf, kff, y, noise, power):
    """Mean and covariance of q(u)."""
    scale = power * (kff - np.diag(projected(Kuu, Kuf))) + noise
    A = Kuu + Kuf / scale @ Kuf.T
    return Kuu @ np.linalg.solve(A, Kuf @ (y / scale)), Kuu @ np.linalg.solve(A, Kuu)


def predict(Kuu, Kus, Kss, q_mean, q_cov):
    """Mean and covariance of f at the test inputs."""
    W = np.linalg.solve(Kuu, Kus)
    return W.T @ q_mean, Kss - Kus.T @ W + W.T @ q_cov @ W


def pivoted_cholesky(K, n):
    """Rows that a pivoted Cholesky factorisation of K picks, from the Schur complements
    themselves.
    """
    left = K.copy()
    chosen = []
    for _ in range(n):
        pivot = int(np.argmax(np.diag(left)))
        left = left - np.outer(left[:, pivot], left[pivot]) / left[pivot, pivot]
        left[pivot] = left[:, pivot] = 0.0
        chosen.append(pivot)
    return chosen
