"""Kernels: covariances of the function, with their pull-backs."""

from .base import Kernel, Product, Sum
from .composed import ChangePoint, Projected
from .stationary import (
    Matern12,
    Matern32,
    Matern52,
    Profile,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)
from .structured import (
    Categorical,
    Constant,
    Coregion,
    Linear,
    Periodic,
    White,
    output_rows,
    stack_outputs,
    unstack_outputs,
)

__all__ = [
    "Categorical",
    "ChangePoint",
    "Constant",
    "Coregion",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Product",
    "Profile",
    "Projected",
    "RationalQuadratic",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "White",
    "output_rows",
    "stack_outputs",
    "unstack_outputs",
]

# the classes that a model file may name
KINDS = {
    kind.__name__: kind
    for kind in (
        SquaredExponential,
        Matern12,
        Matern32,
        Matern52,
        RationalQuadratic,
        Periodic,
        Linear,
        Constant,
        White,
        Sum,
        Product,
        Categorical,
        Coregion,
        ChangePoint,
        Projected,
    )
}
