"""The command line `sparse-pep`: four commands, one module each, and what they share."""

from sparse_pep.cli.app import main

__all__ = ["main"]
