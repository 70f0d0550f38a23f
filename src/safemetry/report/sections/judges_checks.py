"""Noise, corrected rates and the specification curve of judges, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.report.blocks import Block, Column, Figure, Fold, Table, Text, name_of
from safemetry.report.sections.construct_tables import number
from safemetry.report.sections.judges_words import Row, in_order, items_of, percents

_MOST_ROWS: Final = 400
_ALL: Final = "all"
_METHODS: Final = {
    "labels": "labels alone",
    "ppi++": "prediction-powered",
    "rogan_gladen": "Rogan-Gladen",
    "exact": "exact",
    "stratified": "sum over intents",
}


def noise_blocks(data: Row) -> Iterator[Block]:
    """How often a judge contradicts itself."""
    found: Row = data.get("noise") or {}
    flips: Sequence[Row] = found.get("flips") or []
    if not flips:
        if found.get("without_repeated_calls"):
            yield Text(
                "The noise floor is unknown: no judge judged a response twice. Some repeated calls "
                "would show which differences between targets are larger than it."
            )
        return
    names = list(dict.fromkeys(name for row in flips for name in row["by_boundary"]))
    yield Table(
        "How often two calls of a judge on the same response differ",
        (
            Column("judge", "name"),
            Column("responses", "number"),
            Column("calls", "number"),
            Column("class", "number"),
            *(
                Column(
                    f"{name_of(name, 24)}, {'1 call' if k == '1' else f'majority of {k}'}", "number"
                )
                for name in names
                for k in ("1", "3", "5")
            ),
        ),
        tuple(
            (
                name_of(row["judge"], 40),
                number(row["responses"]),
                number(row["calls"]),
                percent(row["overall"]),
                *(
                    number((row["by_boundary"].get(name) or {}).get(k), fraction=True)
                    for name in names
                    for k in ("1", "3", "5")
                ),
            )
            for row in flips
        ),
        note="Majorities of 3 and 5 calls: what a beta-binomial model of the responses expects.",
    )
    differences: Sequence[Row] = found.get("differences") or []
    small = [row for row in differences if not row["exceeds"]]
    if differences:
        yield Text(
            f"{len(small):,} of {len(differences):,} differences between two targets are within "
            "what judging again would change."
        )


def correction_blocks(data: Row) -> Iterator[Block]:
    """What the rates probably are."""
    rows = in_order(data.get("corrected"))
    drawn = [row for row in rows if row.get("interval")]
    # A sum over intents is a mixture, which is for the table.
    parts = [row for row in drawn if row["intent"] != _ALL] or drawn
    if parts:

        def draw(width: int) -> Any:
            from safemetry.judges.charts.rates import corrected_chart

            return corrected_chart(parts, width=width)

        said = "; ".join(
            f"{name_of(row['boundary'], 30)} on {items_of(row)} items, "
            f"{name_of(row['judge'], 40)}: {number(row['naive'], fraction=True)} becomes "
            f"{percent(row['estimate'])} ({percents(row['interval'])}, {_method(row)})"
            for row in [row for row in parts if not row["method"].startswith("labels")][:3]
        )
        yield Figure(
            "What the rate probably is",
            "Rates corrected with the labels of gold: points with intervals; an upright line is "
            f"what the judge says. {said}.",
            draw,
        )
    if rows:
        yield _corrected(rows)


def label_blocks(data: Row) -> Iterator[Block]:
    """How many human labels are missing, and where they would go."""
    found: Row = data.get("labels") or {}
    rows = in_order(found.get("needed"))
    width = next((row["width"] for row in rows if row["width"] is not None), None)
    if width is not None:
        yield Table(
            f"Human labels for an interval of {100 * width:.3g}% from end to end",
            (
                Column("judge", "name"),
                Column("rate of"),
                Column("items"),
                Column("labels now", "number"),
                Column("labels alone", "number"),
                Column("with the judge", "number"),
            ),
            tuple(
                (
                    name_of(row["judge"], 40),
                    name_of(row["boundary"], 30),
                    items_of(row),
                    number(row["labels"]),
                    _labels(row, "without_judge"),
                    _labels(row, "with_judge"),
                )
                for row in rows[:_MOST_ROWS]
            ),
        )
    following: Row = found.get("next") or {}
    if following:
        yield Table(
            f"Where to label next, for {name_of(found['boundary'], 30)} under "
            f"{name_of(found['judge'], 40)}",
            (
                Column("items"),
                Column("verdict"),
                Column("judges differ"),
                Column("responses", "number"),
                Column("labels", "number"),
                Column("further", "number"),
            ),
            tuple(
                (
                    items_of(cell),
                    cell["verdict"],
                    "yes" if cell["disagreement"] else "no",
                    *(number(cell[name]) for name in ("responses", "labels", "further")),
                )
                for cell in following["cells"]
            ),
        )


def _labels(row: Row, name: str) -> str:
    if row[name] is None and row["labels"]:
        return "more than there are responses"
    return number(row[name])


def curve_blocks(data: Row) -> Iterator[Block]:
    """The rate under every combination of choices."""
    curves = sorted(
        (curve for curve in data.get("specifications") or () if curve["low"] is not None),
        key=lambda curve: curve["intent"] != "harmful",
    )
    made = [_curve(curve) for curve in curves]
    yield from made[:1]
    if made[1:]:
        yield Fold("Other items under every combination of choices", tuple(made[1:]))


def _corrected(rows: Sequence[Row]) -> Table:
    def estimate(row: Row) -> str:
        if row["estimate"] is None:
            reason = (row.get("why") or {}).get("estimate", "not computed")
            return f"refused: {name_of(reason, 120)}"
        return percent(row["estimate"])

    return Table(
        "Rates corrected with labels",
        (
            Column("judge", "name"),
            Column("rate of"),
            Column("items"),
            Column("method"),
            Column("judge says", "number"),
            Column("corrected"),
            Column("interval"),
            Column("labels", "number"),
        ),
        tuple(
            (
                name_of(row["judge"], 40),
                name_of(row["boundary"], 30),
                items_of(row),
                _method(row),
                number(row["naive"], fraction=True),
                estimate(row),
                "" if row["estimate"] is None else percents(row["interval"]),
                f"{row['labels']:,} of {row['total']:,}",
            )
            for row in rows[:_MOST_ROWS]
        ),
        note="These hold if the labelled responses were drawn at random within each intent.",
    )


def _curve(curve: Row) -> Figure:
    rows: Sequence[Row] = curve["specifications"]
    shares: Mapping[str, float] = curve.get("variance_shares") or {}

    def draw(width: int) -> Any:
        from safemetry.judges.charts.curve import specification_chart

        return specification_chart(rows, shares, width=width)

    drives = ", ".join(
        f"{'success rule' if name == 'boundary' else name_of(name, 24)} {100 * value:.0f}%"
        for name, value in sorted(shares.items(), key=lambda pair: -pair[1])
    )
    where = f" on {name_of(curve['intent'], 24)} items" if curve["intent"] else ""
    said = f" Shares of the variance: {drives}." if drives else ""
    return Figure(
        f"The rate{where} under every combination of choices",
        f"{curve['count']:,} combinations, the lowest rate first: {percent(curve['low'])} to "
        f"{percent(curve['high'])}, median {percent(curve['median'])}.{said} Marks below a point "
        "say which choices it has; at most 120 points are drawn.",
        draw,
    )


def _method(row: Row) -> str:
    return ", ".join(_METHODS.get(part, part) for part in row["method"].split("/"))
