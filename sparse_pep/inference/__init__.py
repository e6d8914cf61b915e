"""Power EP: rows in shards, the fixed point of their sites, and the gradient of the evidence."""

from .problem import Problem, Rows

__all__ = ["Problem", "Rows"]
