"""Chart of where the responses of each class went: from a reference to each judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from safemetry.charts import INK, PALETTE
from safemetry.display import shown
from safemetry.errors import InputError
from safemetry.judges.charts.drawing import (
    NARROW,
    Band,
    Box,
    Mark,
    Word,
    key,
    picture,
    room,
    share,
    short,
    spaced,
)

MOST_PANELS: Final = 8
_SAME, _LOWER, _HIGHER, _OUTSIDE = PALETTE[0], PALETTE[1], PALETTE[3], PALETTE[5]
_FAINT_BAND: Final = 0.22
_CLEAR_BAND: Final = 0.8
_NODE: Final = 6
_GAP: Final = 6
_TALL: Final = 112
_HEAD: Final = 40
_FOOT: Final = 22
_SMALL: Final = 11


def movement_chart(
    moves: Sequence[Mapping[str, Any]],
    directions: Sequence[Mapping[str, Any]],
    classes: Sequence[str],
    *,
    ordered: int | None = None,
    width: int = 640,
) -> Any:
    """Where the responses of each class of the reference went under each judge.

    Parameters
    ----------
    moves
        `judge`, `from` (class of the reference), `to` (class of the judge) and `count`.
    directions
        `judge`, `compared`, `lower` and `higher`.
    classes
        In their order, those outside it last.
    ordered
        How many are in the order; all by default.
    width
        Width of the whole chart in pixels.

    Returns
    -------
    altair.LayerChart
        A panel for each of the 8 judges that move most, that one first: on the left the classes of
        the reference, the most compliant on top, on the right those of the judge. Bands that fall
        are responses that the judge put in a less compliant class.

    Raises
    ------
    InputError
        Where nothing can be followed.
    """
    inside = ordered or len(classes)
    flows: dict[str, dict[tuple[int, int], int]] = {}
    for move in moves:
        if move["count"]:
            both = (classes.index(move["from"]), classes.index(move["to"]))
            flows.setdefault(move["judge"], {})[both] = int(move["count"])
    if not flows:
        raise InputError("no response has a class of the reference and one of a judge")
    known = {row["judge"]: row for row in directions}
    judges = sorted(flows, key=lambda judge: (-_moved(known.get(judge)), judge))[:MOST_PANELS]
    narrow = width < NARROW
    across = min(len(judges), 2 if narrow else 3)
    wide = width / across
    tall = max(_TALL, 15 * len(classes)) + _HEAD + _FOOT
    marks: list[Mark] = []
    for place, judge in enumerate(judges):
        line, column = divmod(place, across)
        panel = _Panel(classes, inside, column * wide, line * tall, wide, tall)
        marks += panel.marks(judge, known.get(judge), flows[judge])
    words = [(_LOWER, "to a less compliant class"), (_HIGHER, "to a more compliant class")]
    if inside < len(classes):
        words.append((_OUTSIDE, "into or out of the order"))
    legend = [*key(words, tall * -(-len(judges) // across) + 4, width)]
    lowest = max(mark.y for mark in legend if isinstance(mark, Word))
    return picture([*marks, *legend], width, round(lowest + 12))


def _moved(row: Mapping[str, Any] | None) -> float:
    """Share of the responses that a judge put elsewhere."""
    if row is None or not row["compared"]:
        return 0.0
    return float((row["lower"] + row["higher"]) / row["compared"])


@dataclass(frozen=True, slots=True)
class _Panel:
    """Where one judge is drawn, and what of."""

    names: Sequence[str]
    ordered: int
    left: float
    top: float
    wide: float
    tall: float

    @property
    def order(self) -> list[int]:
        """Classes from the top: the most compliant first, those outside the order last."""
        return [*range(self.ordered - 1, -1, -1), *range(self.ordered, len(self.names))]

    def marks(
        self, judge: str, direction: Mapping[str, Any] | None, flows: Mapping[tuple[int, int], int]
    ) -> Iterator[Mark]:
        """Edges, the bands between them, and names."""
        names = [shown(name, 9 if self.wide < 200 else 12) for name in self.names]
        totals = [
            [sum(n for pair, n in flows.items() if pair[side] == code) for code in self.order]
            for side in (0, 1)
        ]
        digits = max(room(short(count), _SMALL) for count in totals[1])
        left = self.left + max(room(name, _SMALL) for name in names) + 6
        right = self.left + self.wide - digits - _NODE - 12
        top, high = self.top + _HEAD, self.tall - _HEAD - _FOOT
        scale = (high - _GAP * (len(self.order) - 1)) / sum(flows.values())
        title = shown(judge, int((self.wide - 10) / room("x")))
        yield Word(self.left + 2, self.top + 10, title, bold=True)
        yield Word(self.left + 2, self.top + 26, _direction(direction), size=_SMALL)
        starts = [_stacked(counts, scale, top) for counts in totals]
        yield from self._bands(flows, starts, (left + _NODE, right), scale)
        for side, edge in ((0, left), (1, right)):
            ends = zip(starts[side], totals[side], strict=True)
            middles = [start + scale * count / 2 for start, count in ends]
            places = spaced(middles, 12.5, top + 2, top + high + 8)
            for code, start, count, middle in zip(
                self.order, starts[side], totals[side], places, strict=True
            ):
                if count:
                    yield Box(edge, start, edge + _NODE, start + max(scale * count, 1), INK)
                if side:
                    yield Word(edge + _NODE + 4, middle, short(count), size=_SMALL)
                else:
                    yield Word(edge - 4, middle, names[code], "right", size=_SMALL)

    def _bands(
        self,
        flows: Mapping[tuple[int, int], int],
        starts: Sequence[Sequence[float]],
        edges: tuple[float, float],
        scale: float,
    ) -> Iterator[Mark]:
        used = [dict(zip(self.order, tops, strict=True)) for tops in starts]
        for source, goal in product(self.order, self.order):
            count = flows.get((source, goal), 0)
            if not count:
                continue
            thick = scale * count
            colour = _colour(source, goal, self.ordered)
            yield Band(
                *edges,
                used[0][source],
                used[1][goal],
                max(thick, 0.6),
                colour,
                _FAINT_BAND if source == goal else _CLEAR_BAND,
            )
            used[0][source] += thick
            used[1][goal] += thick


def _stacked(counts: Sequence[int], scale: float, top: float) -> list[float]:
    """Where each piece of an edge begins."""
    found, at = [], top
    for count in counts:
        found.append(at)
        at += scale * count + _GAP
    return found


def _colour(source: int, goal: int, ordered: int) -> str:
    if source == goal:
        return _SAME
    if max(source, goal) >= ordered:
        return _OUTSIDE
    return _LOWER if goal < source else _HIGHER


def _direction(row: Mapping[str, Any] | None) -> str:
    if row is None or not row["compared"]:
        return "none in the order"
    n = row["compared"]
    return f"{share(row['lower'], n)} lower, {share(row['higher'], n)} higher"
