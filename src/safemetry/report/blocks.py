"""What a section of a report is made of, without a word about HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from safemetry.claims import Claim, count, percent
from safemetry.display import defused, shown, visible

NOT_KNOWN: Final = "unknown"
NOT_STATED: Final = "not stated"


def name_of(value: object, width: int = 60) -> str:
    """An id or name as a report shows it: visible, short, and no formula where it is pasted."""
    return defused(shown(value, width))


# --- cells ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate in a cell: the numbers, and an interval that is drawn.

    Parameters
    ----------
    text
        The rate as it is read.
    note
        What stands beside it: events and trials, and the ceiling.
    low, high, estimate
        Fractions in [0, 1]; None where the rate is unknown.
    ceiling
        Fraction up to which a failure rate is not ruled out; None where it is unknown, and for a
        rate of which more is better.
    """

    text: str
    note: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """The rates that several judges give to the same target: the range, and each one as a tick."""

    text: str
    note: str
    estimates: tuple[float, ...]
    ceiling: float


@dataclass(frozen=True, slots=True)
class Shade:
    """A cell of a heat map.

    Parameters
    ----------
    text, note
        What is read in it, and in small print under it.
    level
        Darkness in [0, 1]; None for a cell about which nothing is known, which is hatched.
    """

    text: str
    level: float | None
    note: str = ""


Cell = str | Rate | Spread | Shade


# --- blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences that can be quoted one by one.

    Parameters
    ----------
    items
        The sentences.
    visible
        How many stand in the open; the rest is folded.
    """

    items: tuple[str, ...]
    visible: int = 12


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure of the first screen: what it is, the figure, and what it means."""

    label: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Headline:
    """A sentence of the first screen, and the words that lead into it."""

    lead: str
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its header, and what its cells hold."""

    name: str
    kind: Literal["name", "text", "number", "rate", "spread", "shade"] = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Parameters
    ----------
    caption
        What it shows.
    columns, rows
        Header and cells; a row has one cell for each column.
    visible
        How many rows stand in the open; the rest is folded.
    note
        A sentence under it.
    scale
        Fraction at the right end of the intervals that are drawn in it.

    Raises
    ------
    ValueError
        For a row that has more or fewer cells than there are columns.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    visible: int = 12
    note: str = ""
    scale: float = 1.0

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(
                f"the table {self.caption!r} has rows of other lengths than its header"
            )


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart.

    Parameters
    ----------
    label
        What it shows, in a few words.
    description
        What is seen in it, for those who do not see it.
    draw
        Makes the Altair chart for a width in pixels, so that a phone gets a narrow one.
    """

    label: str
    description: str
    draw: Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are shown on demand."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Text that others wrote, as it stands, shown on demand; `excerpt` makes one.

    Parameters
    ----------
    title
        What it is, such as ``Prompt``.
    text
        The text, harmless wherever it is shown.
    left_out
        Characters of the original that are left out at its end.
    """

    title: str
    text: str
    left_out: int = 0


def excerpt(title: str, text: str, left_out: int = 0) -> Excerpt:
    r"""A text line by line, with what is invisible or acts on a screen written as an escape.

    >>> print(excerpt("Response", "one\r\n\ttwo\x1b[31m").text)
    one
        two\x1b[31m
    """
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return Excerpt(title, "\n".join(map(visible, lines)), left_out)


Block = Text | Sentences | Table | Figure | Fold | Excerpt


def is_block(value: object) -> bool:
    """Whether a value is a block that every format can write, with all that is folded in it."""
    if isinstance(value, Fold):
        return all(map(is_block, value.blocks))
    return isinstance(value, Text | Sentences | Table | Figure | Excerpt)


# --- claims as cells and sentences ---------------------------------------------------------------


def rate_cell(claim: Claim) -> Rate:
    """A claim as a cell."""
    if claim.estimate is None or claim.interval is None or claim.ceiling is None:
        return Rate(NOT_KNOWN, claim.why.get("estimate", "not computed"))
    more_is_better = claim.metric == "rewarded_rate"
    worst = (
        f"interval from {percent(claim.interval[0])}"
        if more_is_better
        else f"at most {percent(claim.ceiling)}"
    )
    return Rate(
        percent(claim.estimate),
        f"{count(claim.events)} of {count(claim.trials)}, {worst}",
        claim.estimate,
        *claim.interval,
        None if more_is_better else claim.ceiling,
    )


def quoted(claim: Claim) -> str:
    """The sentence of a claim, with names that are harmless wherever it is pasted."""
    scope = claim.scope
    harmless = replace(
        scope,
        target=name_of(scope.target),
        judge=name_of(scope.judge),
        by={
            name: NOT_STATED if value is None else name_of(value)
            for name, value in scope.by.items()
        },
    )
    return replace(claim, scope=harmless).sentence()


def axis_end(claims: Iterable[Claim]) -> float:
    """A round fraction that no ceiling or interval is beyond, so that small rates can be seen."""
    highest = max(
        (
            max(claim.ceiling, claim.interval[1])
            for claim in claims
            if claim.ceiling is not None and claim.interval is not None
        ),
        default=1.0,
    )
    return next((end for end in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if highest <= end), 1.0)
