"""The parts of a report card."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Origin = Literal["evidence", "notes"]
State = Literal["filled", "partial", "missing"]
_MOST_NAMED: Final = 6


@dataclass(frozen=True)
class CardEntry:
    """Something that is known.

    Parameters
    ----------
    name
        Of what.
    value
        In words; it has several lines where it is a text such as a rubric.
    origin
        Who says so.
    """

    name: str
    value: str
    origin: Origin

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the entry."""
        return {"name": self.name, "value": self.value, "from": self.origin}


@dataclass(frozen=True)
class CardItem:
    """One of the eight items.

    Parameters
    ----------
    number, name, question
        Which item it is, and what it asks.
    state
        ``filled``: nothing that is asked is missing; ``missing``: nothing of it is known;
        ``partial`` between.
    entries
        What is known, with context that alone answers nothing.
    missing
        What is not, and how to add it.
    """

    number: int
    name: str
    question: str
    state: State
    entries: tuple[CardEntry, ...]
    missing: tuple[str, ...]

    @property
    def origins(self) -> list[Origin]:
        """Who says what is known: evidence, notes, or both."""
        known = {entry.origin for entry in self.entries}
        return [name for name in ("evidence", "notes") if name in known]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the item."""
        return {
            "number": self.number,
            "name": self.name,
            "question": self.question,
            "state": self.state,
            "from": list(self.origins),
            "entries": [entry.to_dict() for entry in self.entries],
            "missing": list(self.missing),
        }


@dataclass
class Filling:
    """An item while it is filled.

    Parameters
    ----------
    entries, missing
        As in `CardItem`.
    answered
        Whether anything that is asked is known.
    """

    entries: list[CardEntry] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    answered: bool = False

    def add(self, name: str, value: str, origin: Origin, *, answers: bool = True) -> None:
        """Something that is known, whether it answers a part of the question or is context."""
        self.entries.append(CardEntry(name, value, origin))
        self.answered |= answers

    def lacks(self, what: str, names: Collection[str], how: str) -> None:
        """Something that is not known of some judges or targets, if of any."""
        if names:
            self.missing.append(f"{what} of {listed(names)} ({how})")

    def item(self, number: int, name: str, question: str) -> CardItem:
        """The item."""
        state: State = "partial" if self.answered else "missing"
        if not self.missing:
            state = "filled"
        return CardItem(number, name, question, state, tuple(self.entries), tuple(self.missing))


def listed(names: Collection[str]) -> str:
    """Names, the first few of them where there are many.

    Examples
    --------
    >>> listed("abcdefgh")
    'a, b, c, d, e, f and 2 more'
    """
    shown = list(names)[:_MOST_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def grouped(pairs: Iterable[tuple[str, str]]) -> Mapping[str, Sequence[str]]:
    """Value -> the names that have it, in order of appearance."""
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(value, []).append(name)
    return found
