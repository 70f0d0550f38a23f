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
        """The rows of the result as an Arrow table, nested parts as dotted columns.

        Intervals become the columns ``.low`` and ``.high``. A column whose values have different
        types in different rows is text.
        """
        import pyarrow as pa

        rows = [dict(_flat(record)) for record in self.records()]
        names = dict.fromkeys(name for row in rows for name in row)
        inner = {name[:end] for name in names for end, sign in enumerate(name) if sign == "."}
        # An interval that is None in one row is two columns in another; those hold the null.
        return pa.table(
            {name: _column([row.get(name) for row in rows]) for name in names if name not in inner}
        )


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
    if isinstance(value, Enum):
        return plain(value.value)
    parts = _parts(value)
    if parts is not None:
        return {str(key): plain(entry) for key, entry in parts.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        msg = "a result holds a number that is not finite"
        raise ValueError(msg)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _parts(value: Any) -> Mapping[Any, Any] | None:
    """The named parts of a value, or None where it has none."""
    if value is None or isinstance(value, str | int | float | list | tuple):
        return None  # most values are these, and asking for the protocol is slow
    if isinstance(value, Explained):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    return value if isinstance(value, Mapping) else None


def resolved(settings: Mapping[str, Any], why: str = "not set") -> dict[str, Any]:
    """Settings as a finding keeps them: a `why` stands beside those that are None.

    Examples
    --------
    >>> resolved({"level": 0.95, "volume": None})
    {'level': 0.95, 'volume': None, 'why': {'volume': 'not set'}}
    """
    unset = [name for name, value in settings.items() if value is None]
    return {**settings, **({"why": dict.fromkeys(unset, why)} if unset else {})}


def _column(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, given in record.items():
        is_part = is_dataclass(given) and not isinstance(given, type)
        value = asdict(given) if is_part else given
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            if all(isinstance(entry, str) for entry in value):
                yield f"{prefix}{name}", ", ".join(value)
            else:
                for place, entry in zip(_places(name, len(value)), value, strict=True):
                    yield f"{prefix}{name}.{place}", entry
        else:
            yield f"{prefix}{name}", value


def _places(name: str, length: int) -> tuple[str, ...]:
    is_interval = length == 2 and name.startswith(("interval", "bounds"))
    return ("low", "high") if is_interval else tuple(str(index) for index in range(length))
