"""Optional dependencies: imported where they are needed, with the install line where absent."""

from __future__ import annotations

import importlib
from types import ModuleType

from safemetry.errors import MissingExtraError

_EXTRAS = {
    "inspect_ai": "inspect",
    "fsspec": "remote",
    "aiohttp": "remote",
    "dask": "dask",
    "ray": "ray",
    "pyspark": "spark",
    "mirt": "mirt",
}


def require(module: str) -> ModuleType:
    """Import an optional module by its dotted name.

    Parameters
    ----------
    module
        Dotted name, such as ``inspect_ai.log``. Its first part must belong to a known extra.

    Raises
    ------
    MissingExtraError
        Where the package is not installed; the message holds the line that installs it.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        extra = _EXTRAS[package]
        raise MissingExtraError(
            f"{package} is not installed; run: pip install 'safemetry[{extra}]'"
        ) from error
