"""Findings: what an analysis returns, as data, as a table, as a sentence and as JSON."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Finding(ABC):
    """Base of every result.

    Parameters
    ----------
    settings
        Every setting that decided the result, with its resolved value.
    warnings
        What a reader of the numbers must know, in whole sentences.
    """

    command: ClassVar[str]
    sources: ClassVar[tuple[str, ...]] = ()
    """References of the methods used."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @abstractmethod
    def records(self) -> Sequence[Mapping[str, Any]]:
        """The rows of the result as plain mappings, for `to_frame`."""

    @abstractmethod
    def sentence(self) -> str:
        """The result in words that can be pasted."""

    def chart(self) -> Any:
        """The result as an Altair chart, or None where it has none."""
        return None

    def own_keys(self) -> dict[str, Any]:
        """The command's own JSON keys; by default the fields of the dataclass."""
        shared = {"settings", "warnings"}
        return {
            item.name: plain(getattr(self, item.name))
            for item in fields(self)
            if item.name not in shared
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON result: the common keys, then the command's own. It holds no NaN."""
        return {
            "schema": SCHEMA_VERSION,
            "command": self.command,
            "version": version("safemetry"),
            "settings": plain(self.settings),
            "warnings": list(self.warnings),
            **self.own_keys(),
        }

    def to_json(self) -> str:
        """The JSON result as text, the same bytes for the same result."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def to_frame(self) -> pa.Table:
        """The rows of the result as an Arrow table, nested parts as dotted columns."""
        import pyarrow as pa

        rows = [dict(_flat(record)) for record in self.records()]
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


@runtime_checkable
class Explained(Protocol):
    """A part of a result that knows why some of its fields are None."""

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with `why` beside a field that is None."""
        ...


def plain(value: Any) -> Any:
    """Plain JSON values: dataclasses as mappings, tuples as lists, numbers of NumPy as numbers.

    Raises
    ------
    ValueError
        For NaN or an infinity: a value that cannot be computed is None with a reason.
    """
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, Enum) else value
    if isinstance(value, Explained):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        msg = "a result holds a number that is not finite"
        raise ValueError(msg)
    if isinstance(value, int | float):
        return value
    return str(value)


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            if all(isinstance(entry, str) for entry in value):
                yield f"{prefix}{name}", ", ".join(value)
            else:
                for place, entry in zip(_places(len(value)), value, strict=True):
                    yield f"{prefix}{name}.{place}", entry
        else:
            yield f"{prefix}{name}", value


def _places(length: int) -> tuple[str, ...]:
    return ("low", "high") if length == 2 else tuple(str(index) for index in range(length))
