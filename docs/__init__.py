"""The documentation site: `python -m docs.build` writes it into `_docs/`."""
