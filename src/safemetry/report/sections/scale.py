"""Targets and items on one scale: a two-parameter item response model of the outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.report.blocks import Block, Column, Figure, Fold, Table, Text, name_of
from safemetry.report.boards import boards_of
from safemetry.report.context import ReportContext
from safemetry.report.section import Part

if TYPE_CHECKING:
    from safemetry.evidence.matrix import ResponseMatrix
    from safemetry.irt import CalibrationFinding

FEWEST_TARGETS: Final = 10
FEWEST_ITEMS: Final = 20
MOST_CELLS: Final = 1_000_000
_SHOWN_ITEMS: Final = 40
_SHOWN_TARGETS: Final = 40
_CURVES: Final = 8
_ONE_TRAIT: Final = "Whether these items measure one trait: the scale assumes that they do."


class ScaleSection:
    """Abilities, item parameters and test information, where there is enough to fit them."""

    name = "scale"
    order = 550

    def make(self, context: ReportContext) -> Part | None:
        """Charts and tables of a calibration under the leading judge."""
        judge, matrix = leading_matrix(context)
        if judge is None or matrix is None:
            return None
        from safemetry.irt import calibrate

        try:
            finding = calibrate(matrix, sensitivity=False)
        except InputError:  # no item tells targets apart: the rates above say all there is
            return None
        if len(finding.items) < FEWEST_ITEMS:
            return None
        return Part(
            title="Targets and items on one scale",
            blocks=[*_blocks(finding, judge)],
            limits=[_ONE_TRAIT],
            findings=[finding],
        )


def leading_matrix(context: ReportContext) -> tuple[str | None, ResponseMatrix | None]:
    """The judge that sees the most failures, and the outcomes under it; none where too few."""
    from safemetry.evidence.matrix import response_matrix

    boards = boards_of(context.rates.claims)
    if not boards or len(boards[0].targets) < FEWEST_TARGETS:
        return None, None
    judge = boards[0].judges[0]
    cells = len(boards[0].targets) * context.evidence.items.num_rows
    if cells > MOST_CELLS:
        return None, None
    try:
        matrix = response_matrix(context.evidence, success=context.rule, judge=judge)
    except InputError:
        return None, None
    enough = len(matrix.targets) >= FEWEST_TARGETS and len(matrix.items) >= FEWEST_ITEMS
    return (judge, matrix) if enough else (None, None)


def _blocks(finding: CalibrationFinding, judge: str) -> Iterator[Block]:
    yield Text(
        f"A two-parameter model puts the {len(finding.targets):,} targets and the "
        f"{len(finding.items):,} items that tell them apart on one scale, under "
        f"{name_of(judge)}. Ability is what the outcomes reward: holding firm on harmful items, "
        "answering benign ones. Its unit is the standard deviation of the targets."
    )
    yield _wright(finding)
    yield _information(finding)
    yield _forest(finding)
    yield Fold("Items", (_items(finding, "most"), _curves(finding), _items(finding, "least")))
    if finding.left_out:
        yield Text(
            f"{len(finding.left_out):,} items are not on the scale, since every target responded "
            "alike or not at all."
        )


def _wright(finding: CalibrationFinding) -> Figure:
    def draw(width: int) -> Any:
        from safemetry.irt.charts import wright_map

        return wright_map(finding.abilities[:, 0], finding.item_parameters, width=width)

    low, high = finding.abilities.min(), finding.abilities.max()
    return Figure(
        "Wright map",
        f"Above, how many targets lie at each ability, from {low:.1f} to {high:.1f}; below, how "
        "many items are as likely rewarded as not there. Where targets have no items beside them, "
        "the items cannot tell these targets apart.",
        draw,
    )


def _information(finding: CalibrationFinding) -> Figure:
    def draw(width: int) -> Any:
        from safemetry.irt.charts import information_chart

        return information_chart(finding.item_parameters, width=width)

    return Figure(
        "Test information",
        "How much the items together say of a target at each ability, and the standard error of "
        "an ability there.",
        draw,
    )


def _forest(finding: CalibrationFinding) -> Figure:
    order = np.argsort(-finding.abilities[:, 0], kind="stable")[:_SHOWN_TARGETS]
    names = [name_of(finding.targets[place], 28) for place in order]

    def draw(width: int) -> Any:
        from safemetry.irt.charts import ability_forest

        return ability_forest(
            names,
            finding.abilities[order, 0],
            finding.ability_errors[order, 0],
            width=width,
        )

    more = len(finding.targets) - len(names)
    left = f" {more:,} less able targets are left out." if more > 0 else ""
    return Figure(
        "Abilities",
        f"Each target with its 95% interval; the highest is {names[0]}.{left}",
        draw,
    )


def _curves(finding: CalibrationFinding) -> Figure:
    best = _by_slope(finding)[:_CURVES]

    def draw(width: int) -> Any:
        from safemetry.irt.charts import item_curves

        return item_curves(
            [name_of(finding.items[place], 20) for place in best],
            finding.item_parameters.select(np.array(best)),
            width=width,
        )

    return Figure(
        "Item curves",
        f"Chance of a rewarded response against ability, for the {len(best)} items that tell "
        "targets apart best.",
        draw,
    )


def _by_slope(finding: CalibrationFinding) -> list[int]:
    slopes = finding.item_parameters.slopes[:, 0]
    return sorted(
        range(len(finding.items)), key=lambda place: (-slopes[place], finding.items[place])
    )


def _items(finding: CalibrationFinding, which: str) -> Table:
    order = _by_slope(finding)
    chosen: Sequence[int] = order if which == "most" else order[::-1]
    rows = finding.item_rows()
    return Table(
        f"Items that tell targets apart {which}: discrimination a, difficulty b",
        (
            Column("item", "name"),
            Column("a", "number"),
            Column("error of a", "number"),
            Column("b", "number"),
        ),
        tuple(
            (
                name_of(finding.items[place], 40),
                *(_number(rows[place][key]) for key in ("a", "se_a", "b")),
            )
            for place in chosen[:_SHOWN_ITEMS]
        ),
    )


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
