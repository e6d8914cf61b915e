"""Training: where it starts, how it climbs, and which strategy chooses what is not a parameter."""

from .initialise import greedy_points, initial_kernel, kmeans_points
from .options import LBFGS, Adam, TrainingOptions, TrainingResult
from .run import train
from .strategies import advised_power, held_out_power

__all__ = [
    "LBFGS",
    "Adam",
    "TrainingOptions",
    "TrainingResult",
    "advised_power",
    "greedy_points",
    "held_out_power",
    "initial_kernel",
    "kmeans_points",
    "train",
]
