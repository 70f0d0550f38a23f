"""The sections of this package; each is registered as an entry point in `pyproject.toml`."""
