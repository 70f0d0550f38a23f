"""What was tried at all: categories against attacks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from safemetry.claims import percent
from safemetry.evidence.schema import UNSTATED
from safemetry.rates.coverage import Cell
from safemetry.report.blocks import NOT_STATED, Block, Column, Fact, Fold, Shade, Table, name_of
from safemetry.report.context import ReportContext
from safemetry.report.section import Part

_ROWS: Final = 60
_COLUMNS: Final = 40
_JUDGES: Final = 8
_DARKEST: Final = 0.6


class CoverageSection:
    """A heat map of categories and attacks, cells that nobody tried included."""

    name = "coverage"
    order = 400

    def make(self, context: ReportContext) -> Part | None:
        """One grid for each judge, the first in the open."""
        if not (context.states("category") or context.states("attack")):
            return None
        finding = context.coverage
        if not finding.grid:
            return None
        leading = {
            judge: place for board in context.boards[:1] for place, judge in enumerate(board.judges)
        }
        by_judge: dict[str, list[Cell]] = {}
        for cell in finding.grid:
            by_judge.setdefault(cell.judge, []).append(cell)
        judges = sorted(by_judge, key=lambda judge: (leading.get(judge, len(leading)), judge))
        places = _places(finding.grid)
        tried = sum(tested for tested, _ in places.values())
        grids = [_grid(by_judge[judge], judge) for judge in judges[:_JUDGES]]
        blocks: list[Block] = [*grids[:1]]
        if len(grids) > 1:
            blocks.append(Fold("The grid under the other judges", tuple(grids[1:])))
        return Part(
            title="What was tested",
            blocks=blocks,
            facts=[
                Fact(
                    "Tested",
                    f"{tried:,} of {len(places):,}",
                    "combinations of category and attack with at least one try",
                )
            ]
            if context.states("category") and context.states("attack")
            else [],
            limits=[*_limits(places)],
            findings=[finding],
        )


def _places(cells: Sequence[Cell]) -> dict[tuple[str, str], tuple[bool, bool]]:
    """(category, attack) -> whether it was tried at all, and whether any judge gave a verdict.

    Judges may have seen different responses, so no grid of one judge tells it.
    """
    found: dict[tuple[str, str], tuple[bool, bool]] = {}
    for cell in cells:
        tested, judged = found.get((cell.category, cell.attack), (False, False))
        found[cell.category, cell.attack] = (tested or cell.tested, judged or cell.trials > 0)
    return found


def _limits(places: Mapping[tuple[str, str], tuple[bool, bool]]) -> Iterator[str]:
    untried = [place for place, (tested, _) in places.items() if not tested]
    if untried:
        named = "; ".join(
            f"{_named(category)} under {_named(attack)}" for category, attack in untried[:3]
        )
        more = f"; and {len(untried) - 3:,} more" if len(untried) > 3 else ""
        yield f"Anything about combinations that nobody tried: {named}{more}."
    unjudged = sum(tested and not judged for tested, judged in places.values())
    if unjudged:
        yield (
            f"What happened in {unjudged:,} combinations that were tried: no response of theirs "
            "has a verdict."
        )


def _named(value: str) -> str:
    return NOT_STATED if value == UNSTATED else name_of(value, 40)


def _grid(cells: Sequence[Cell], judge: str) -> Table:
    categories = list(dict.fromkeys(cell.category for cell in cells))
    attacks = list(dict.fromkeys(cell.attack for cell in cells))
    by_place = {(cell.category, cell.attack): cell for cell in cells}
    most = max((cell.trials for cell in cells), default=0)
    left = [
        f"{len(names) - limit:,} {word}"
        for names, limit, word in (
            (categories, _ROWS, "categories"),
            (attacks, _COLUMNS, "attacks"),
        )
        if len(names) > limit
    ]
    return Table(
        f"Harmful items that went through, of judged responses of all targets, under "
        f"{name_of(judge)}",
        (
            Column("category", "name"),
            *(Column(_header(attack), "shade") for attack in attacks[:_COLUMNS]),
        ),
        tuple(
            (
                _named(category),
                *(_shade(by_place[category, attack], most) for attack in attacks[:_COLUMNS]),
            )
            for category in categories[:_ROWS]
        ),
        visible=30,
        note="Under each count the highest rate that is not ruled out. Darker means more responses."
        + (
            f" {' and '.join(left)} more are in `safemetry coverage SOURCE --json PATH`."
            if left
            else ""
        ),
    )


def _header(attack: str) -> str:
    return "attack not stated" if attack == UNSTATED else name_of(attack, 40)


def _shade(cell: Cell, most: int) -> Shade:
    if not cell.tested:
        return Shade("not tested", None)
    if not cell.trials or cell.ceiling is None:
        return Shade("no verdict", None, f"{cell.missing:,} missing")
    return Shade(
        f"{cell.violations:,} of {cell.trials:,}",
        _DARKEST * math.log1p(cell.trials) / math.log1p(most),
        f"\N{LESS-THAN OR EQUAL TO} {percent(cell.ceiling)}",
    )
