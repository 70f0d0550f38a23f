"""Ability against history as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.report.blocks import Block, Fact, Figure, Text, name_of
from safemetry.report.sections.audits_misfit import p_words, rate_text, signed

Row = Mapping[str, Any]

_VERDICTS: Final = {
    "shifted": "The ability has shifted.",
    "same": "The ability is the same within the margin.",
    "cannot_tell": "Whether the ability has shifted cannot be told.",
}
_SHORT: Final = {"shifted": "shifted", "same": "the same", "cannot_tell": "cannot tell"}


def shift_fact(data: Row) -> Iterator[Fact]:
    """The figure for the first screen."""
    found: Row = data.get("ability_shift") or {}
    if found.get("difference") is None:
        return
    ends = found.get("interval")
    within = f", interval {signed(ends[0])} to {signed(ends[1])}" if ends else ""
    verdict = str(found.get("verdict"))
    yield Fact(
        "Ability against history",
        _SHORT.get(verdict, name_of(verdict, 30)),
        f"difference {signed(found['difference'])}{within}",
    )


def shift_blocks(data: Row) -> Iterator[Block]:
    """The difference with its interval, margin and resolution, and what they say together."""
    found: Row = data.get("ability_shift") or {}
    difference, ends = found.get("difference"), found.get("interval")
    if difference is None:
        return
    verdict = str(found.get("verdict"))
    lead = _VERDICTS.get(verdict, name_of(verdict, 60))
    margin, resolution = margin_of(found), resolution_of(found)
    said = [f"Now less before {signed(difference)}"]
    if ends:
        said[0] += f", interval {signed(ends[0])} to {signed(ends[1])}"
    if margin is not None:
        said.append(f"up to {margin:.2f} either way is too small to matter")
    sizes = [
        f"{word} of {size:.2f}"
        for word, size in zip(("a fall", "a rise"), resolution, strict=False)
        if size is not None
    ]
    if sizes:
        said.append(f"the smallest shift that these items find is {' or '.join(sizes)}")
    text = f"{lead} {'; '.join(said)}."
    if not ends:
        yield Text(text)
        return

    def draw(width: int) -> Any:
        from safemetry.audits.charts.shift import shift_chart

        return shift_chart(difference, ends, margin=margin, resolution=resolution, width=width)

    yield Figure("Ability against history", text, draw)
    both: Row = data.get("shift_and_fit") or {}
    if both.get("flagged") is not None and both.get("p_value") is not None:
        verb = "is" if both["flagged"] else "is not"
        yield Text(
            f"Shift and person fit as one test: the target {verb} flagged "
            f"(p {p_words(both['p_value'])}); this flags {rate_text(both.get('null_rate'))} of "
            "targets that have not changed, where flagging by either alone would flag "
            f"{rate_text(both.get('naive_rate'))}."
        )
    points, band = found.get("points"), found.get("points_interval")
    if points is not None and band:
        yield Text(
            f"In points of the expected full score: {signed(points, 1)} "
            f"({signed(band[0], 1)} to {signed(band[1], 1)})."
        )


def margin_of(found: Row) -> float | None:
    """The margin of equivalence, beside the difference or in its test."""
    margin = found.get("margin")
    if margin is None:
        margin = (found.get("equivalence") or {}).get("margin")
    return None if margin is None else float(margin)


def resolution_of(found: Row) -> Sequence[float | None]:
    """The smallest fall and rise that are found; empty where that is unknown."""
    given = found.get("resolution")
    if isinstance(given, Mapping):
        return [given.get("lower"), given.get("higher")]
    if isinstance(given, int | float):
        return [float(given), float(given)]
    return list(given) if given else []
