"""Person fit, and the categories and items that carry the misfit, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.report.blocks import Block, Column, Figure, Fold, Table, Text, name_of
from safemetry.report.sections.construct_tables import UNKNOWN, number

Row = Mapping[str, Any]

_MOST_ITEMS: Final = 200
_NO_CATEGORY: Final = "no category"
_QUANTILES: Final = 7


def person_fit_blocks(data: Row) -> Iterator[Block]:
    """Each statistic beside its null, with the rates that were achieved."""
    rows: Sequence[Row] = data.get("person_fit") or ()
    if not rows:
        return
    from safemetry.audits.charts.person_fit import statistic_name

    drawn = [
        row
        for row in rows
        if row.get("value") is not None and len(row.get("null_quantiles") or ()) == _QUANTILES
    ]
    flagged = [row for row in drawn if row.get("flagged")]

    def draw(width: int) -> Any:
        from safemetry.audits.charts.person_fit import person_fit_chart

        return person_fit_chart(drawn, width=width)

    if drawn:
        names = ", ".join(statistic_name(row["statistic"]) for row in flagged)
        verb = "is" if len(flagged) == 1 else "are"
        said = f"{names} {verb} flagged" if flagged else "no statistic is flagged"
        yield Figure(
            "Person fit beside targets that answer as the calibration expects",
            f"Of {len(drawn)} statistics {said}. Bars hold 50, 90 and 98 percent of simulated "
            "targets of the same ability; each statistic has a scale of its own.",
            draw,
        )
    yield Table(
        "Person fit",
        (
            Column("statistic", "name"),
            Column("value", "number"),
            Column("cutoff", "number"),
            Column("misfit is"),
            Column("p", "number"),
            Column("flags of fitting targets", "number"),
            Column("flagged"),
        ),
        tuple(
            (
                statistic_name(row["statistic"]),
                number(row.get("value")),
                number(row.get("cutoff")),
                name_of(row.get("side") or "", 12),
                p_text(row.get("p_value")),
                rate_text(row.get("null_rate")),
                _flag(row),
            )
            for row in rows
        ),
        note="Flags of fitting targets: the rate that the cutoff achieves on simulated targets of "
        "this ability, with the ability estimated again in each.",
    )
    yield from _union(data)
    yield from _others(data)


def _union(data: Row) -> Iterator[Block]:
    union: Row = data.get("union") or {}
    joint = data.get("joint_null_rate")
    said = []
    if joint is not None:
        said.append(
            f"A fitting target is flagged by at least one of these statistics at a rate of "
            f"{percent(joint)}."
        )
    if union.get("flagged") is not None:
        level = union.get("level")
        at = "" if level is None else f" at level {percent(level)}"
        rate = union.get("null_rate")
        achieved = "" if rate is None else f", which flags {percent(rate)} of fitting targets"
        verb = "is" if union["flagged"] else "is not"
        said.append(
            f"All together the target {verb} flagged{at} (p {p_words(union.get('p_value'))})"
            f"{achieved}."
        )
    if said:
        yield Text(" ".join(said))


def _others(data: Row) -> Iterator[Block]:
    """How often other targets are flagged that took no part in the calibration."""
    rows: Sequence[Row] = data.get("out_of_sample") or ()
    if not rows:
        return
    from safemetry.audits.charts.person_fit import statistic_name

    names = {"any": "any of them", "union": "all together"}
    yield Table(
        "How often other targets are flagged, out of sample",
        (
            Column("rule", "name"),
            Column("targets", "number"),
            Column("flagged", "number"),
            Column("rate", "number"),
            Column("interval"),
            Column("stated", "number"),
        ),
        tuple(
            (
                names.get(str(row["rule"])) or statistic_name(row["rule"]),
                number(row.get("targets")),
                number(row.get("flagged")),
                rate_text(row.get("rate")),
                UNKNOWN
                if row.get("rate") is None
                else f"{rate_text(row.get('low'))} to {rate_text(row.get('high'))}",
                rate_text(row.get("level")),
            )
            for row in rows
        ),
        note="By items calibrated without them. Where the rate is far above the stated one, the "
        "model does not describe the other targets either, and a flag says little by itself.",
    )


def _named(rows: Sequence[Row] | None, key: str) -> list[Row]:
    """Rows with a value; of several properties, each category has its property in its name."""
    known = [row for row in rows or () if row.get(key) is not None]
    if len({row.get("by") for row in known}) < 2:
        return known
    return [
        {**row, "category": f"{row.get('by')}: {row.get('category') or _NO_CATEGORY}"}
        for row in known
    ]


def misfit_blocks(data: Row) -> Iterator[Block]:
    """Which categories and items carry the misfit, and whether it is selective."""
    yield from _categories(data)
    yield from _selective(data)
    yield from _items(data)


def _categories(data: Row) -> Iterator[Block]:
    rows = _named(data.get("misfit"), "value")
    if not rows:
        return

    def draw(width: int) -> Any:
        from safemetry.audits.charts.residuals import misfit_chart

        return misfit_chart(rows, width=width)

    flagged = [category_name(row) for row in rows if row.get("flagged")]
    said = (
        f"Beyond what chance does in some category: {', '.join(flagged[:6])}."
        if flagged
        else "No category is beyond what chance does in some category."
    )
    yield Figure(
        "Misfit by category",
        f"{said} Above 0 the target's outcomes are higher than its ability makes expected, below 0 "
        "lower. In the shaded band lie 95% of single categories of fitting targets.",
        draw,
    )
    yield Fold(
        "Misfit by category in numbers",
        (_category_table("Standardised residual of each category", rows, "value", "residual"),),
    )


def _selective(data: Row) -> Iterator[Block]:
    rows = _named(data.get("selective"), "difference")
    if not rows:
        return
    flagged = [category_name(row) for row in rows if row.get("flagged")]
    said = (
        f"Behaviour is selective in: {', '.join(flagged[:6])}."
        if flagged
        else "In no category is the ability shown to differ from that in the others."
    )
    yield Text(said)

    def draw(width: int) -> Any:
        from safemetry.audits.charts.residuals import misfit_chart

        return misfit_chart(
            rows, value="difference", title="ability here less ability elsewhere", width=width
        )

    yield Figure(
        "Ability within each category less that in the others",
        "Dots with intervals of 1.96 standard errors; a square with the word flagged differs after "
        "adjustment for the number of categories.",
        draw,
    )
    yield Fold(
        "Selective behaviour in numbers",
        (_category_table("Difference of ability by category", rows, "difference", "difference"),),
    )


def _category_table(caption: str, rows: Sequence[Row], key: str, head: str) -> Table:
    errors = any(row.get("se") is not None for row in rows)
    single = any(row.get("p_value") is not None for row in rows)
    ordered = sorted(rows, key=lambda row: -abs(row[key]))
    return Table(
        caption,
        (
            Column("category", "name"),
            Column("items", "number"),
            Column(head, "number"),
            *((Column("error", "number"),) if errors else ()),
            *((Column("p", "number"),) if single else ()),
            Column("p adjusted", "number"),
            Column("flagged"),
        ),
        tuple(
            (
                category_name(row),
                number(row.get("items")),
                signed(row.get(key)),
                *((number(row.get("se"), 2),) if errors else ()),
                *((p_text(row.get("p_value")),) if single else ()),
                p_text(row.get("p_adjusted")),
                _flag(row),
            )
            for row in ordered
        ),
    )


def _items(data: Row) -> Iterator[Block]:
    rows = [row for row in data.get("misfit_items") or () if row.get("residual") is not None]
    if not rows:
        return

    def draw(width: int) -> Any:
        from safemetry.audits.charts.residuals import residual_map

        return residual_map(rows, width=width)

    large = sum(abs(row["residual"]) >= 2 for row in rows)
    yield Figure(
        "Residual of each item",
        f"{len(rows):,} items in rows by category, {large:,} of them with a residual of 2 or more "
        "(with a sign). Darker is further from what the target's ability makes expected.",
        draw,
    )
    kept = rows[:_MOST_ITEMS]
    more = len(rows) - len(kept)
    table = Table(
        "Items with the largest residuals",
        (
            Column("item", "name"),
            Column("category"),
            Column("observed", "number"),
            Column("expected", "number"),
            Column("residual", "number"),
        ),
        tuple(
            (
                name_of(row["item"], 60),
                category_name(row),
                number(row.get("observed", row.get("code")), 2),
                number(row.get("expected"), 2),
                signed(row["residual"]),
            )
            for row in kept
        ),
        note=f"{more:,} more items are in the JSON." if more else "",
    )
    yield Fold("Items by residual", (table,))


def category_name(row: Row) -> str:
    """A category as a report shows it."""
    return name_of(_NO_CATEGORY if row.get("category") is None else row["category"], 40)


def p_text(value: float | None) -> str:
    """A p-value in three decimals, never 0."""
    if value is None:
        return UNKNOWN
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def rate_text(value: float | None) -> str:
    """A fraction as a percentage."""
    return UNKNOWN if value is None else percent(value)


def signed(value: float | None, digits: int = 2) -> str:
    """A number with its sign."""
    if value is None:
        return UNKNOWN
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return ("\N{MINUS SIGN}" if value < 0 else "+") + text


def p_words(value: float | None) -> str:
    """A p-value after the letter p."""
    text = p_text(value)
    return text if text == UNKNOWN or text.startswith("<") else f"= {text}"


def _flag(row: Row) -> str:
    if row.get("flagged") is not None:
        return "flagged" if row["flagged"] else "no"
    why = row.get("why") or {}
    reason = next(iter(why.values()), "not computed") if isinstance(why, Mapping) else str(why)
    return f"unknown: {name_of(reason, 120)}"
