"""The engine that counts: DuckDB in this process, within a memory limit."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

import duckdb

from safemetry.errors import InputError

DEFAULT_MEMORY: Final = "1300MB"
_AMOUNT = re.compile(r"\d+(\.\d+)?\s*([KMGT]i?)?B", re.IGNORECASE)


def connect(memory: str | None = None, jobs: int | None = None) -> duckdb.DuckDBPyConnection:
    """A fresh in-memory DuckDB that spills to a temporary folder above its memory limit.

    Parameters
    ----------
    memory
        Limit such as ``"2GB"``; by default the environment variable ``SAFEMETRY_MEMORY``, else
        1,300 MB.
    jobs
        Number of threads, also for what is computed from the counts; by default all cores.
    """
    limit = memory or os.environ.get("SAFEMETRY_MEMORY") or DEFAULT_MEMORY
    if not _AMOUNT.fullmatch(limit.strip()):
        raise InputError(f"memory limit {limit!r} is not an amount", fix="write it as 2GB")
    spill = Path(tempfile.gettempdir()) / f"safemetry-{os.getpid()}"
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": limit,
        "temp_directory": str(spill),
        # Groups have no order of their own, and keeping that of the file costs memory.
        "preserve_insertion_order": False,
        # A log is data: no extension, no file and no URL is opened because a name in it says so.
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    if jobs:
        settings["threads"] = jobs
    return duckdb.connect(config=settings)


def thread_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """The number of threads that a connection works with."""
    ((threads,),) = connection.sql("SELECT current_setting('threads')").fetchall()
    return int(threads)
