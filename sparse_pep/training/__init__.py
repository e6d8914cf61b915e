"""Training: where it starts, how it climbs, and which strategy chooses what is not a parameter."""

from .lbfgs import LBFGS, Adam, Training, greedy_points, initial_kernel, kmeans_points
from .strategies import advised_power, held_out_power, train

__all__ = [
    "LBFGS",
    "Adam",
    "Training",
    "advised_power",
    "greedy_points",
    "held_out_power",
    "initial_kernel",
    "kmeans_points",
    "train",
]
