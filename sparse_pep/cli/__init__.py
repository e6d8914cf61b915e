"""The command line `sparse-pep`: the commands, and what they share."""

from sparse_pep.cli.app import main

__all__ = ["main"]
