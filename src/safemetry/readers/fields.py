"""Fields of decoded log entries: looked up, checked for text that UTF-8 holds, and counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safemetry.errors import InputError
from safemetry.evidence.identity import text_digest


def field_of(entry: Mapping[str, Any], path: str) -> str | None:
    """A field of an entry, such as ``notes.attack_goal``, as text; None for objects and lists."""
    value: Any = entry
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return None if value is None or isinstance(value, Mapping | list) else str(value)


def encodable(value: str, column: str) -> str:
    """The text itself, unless UTF-8 cannot hold it.

    Raises
    ------
    InputError
        For half a surrogate pair, which JSON can spell.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            "holds half of a surrogate pair, which is no text",
            column=column,
            fix="mend the text, or leave it out",
        ) from None
    return value


def digest_of(text: str) -> str:
    """`text_digest`, also of text with half a surrogate pair, which JSON can spell."""
    return text_digest(text.encode("utf-8", "backslashreplace").decode())


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "row"), counted(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
