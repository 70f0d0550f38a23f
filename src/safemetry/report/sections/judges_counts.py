"""Class counts, collapse, movement and spread of judges, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.report.blocks import Block, Column, Figure, Fold, Table, name_of
from safemetry.report.sections.construct_tables import UNKNOWN, interval, number
from safemetry.report.sections.judges_words import (
    Row,
    collapsed_judges,
    in_order,
    listed,
    percents,
    pooled,
)

_MOST_ROWS: Final = 400
_STATES: Final = {
    "collapsed": "collapsed",
    "ok": "uses it",
    "not_applicable": "too rare to tell",
    "cannot_emit": "cannot emit",
}


def count_blocks(data: Row) -> Iterator[Block]:
    """The counts of each judge, the rule row by row, and by target."""
    rows: Sequence[Row] = data.get("collapse") or []
    if not pooled(rows):
        return
    yield _counts(data, rows)
    yield Fold("The collapse rule for each judge and class", (_rule(pooled(rows)),))
    by_target = [row for row in rows if row["target"] is not None]
    if len({row["target"] for row in by_target}) > 1:
        yield _by_target(by_target)


def movement_blocks(data: Row) -> Iterator[Block]:
    """Where the reference's classes went."""
    moves: Sequence[Row] = data.get("movement") or []
    directions: Sequence[Row] = data.get("directions") or []
    if not any(move["count"] for move in moves):
        return
    reference = (data.get("settings") or {}).get("reference", "the reference")
    said = "the panel's majority" if reference == "majority" else name_of(reference, 40)
    yield _movement(data, moves, directions, said)
    yield Fold("Movement in numbers", (_directions(directions, said), _moves(moves)))


def spread_blocks(data: Row) -> Iterator[Block]:
    """How far the rate moves with the judge."""
    rows = [row for row in in_order(data.get("spread")) if row.get("rate_max") is not None]
    if not rows:
        return

    def draw(width: int) -> Any:
        from safemetry.judges.charts.rates import spread_chart

        return spread_chart(rows, width=width)

    said = " ".join(
        f"{_scope(row)}: {percent(row['rate_min'])} ({name_of(row['min_judge'], 40)}) to "
        f"{percent(row['rate_max'])} ({name_of(row['max_judge'], 40)})."
        for row in rows[:4]
    )
    yield Figure(
        "The rate under each judge, on the same responses",
        f"One mark a judge; empty squares are collapsed judges. {said}",
        draw,
    )
    yield _spread(rows)


def _counts(data: Row, rows: Sequence[Row]) -> Figure:
    settings = data.get("settings") or {}
    thresholds = {
        name: settings[name] for name in ("applicable", "collapsed") if settings.get(name)
    }
    classes = data.get("classes") or list(dict.fromkeys(row["class"] for row in rows))
    ordered = len(data.get("class_order") or classes)

    def draw(width: int) -> Any:
        from safemetry.judges.charts.counts import counts_chart

        return counts_chart(rows, classes, ordered=ordered, width=width, **thresholds)

    most = {row["class"]: row for row in pooled(rows)}
    leaders = "; ".join(
        f"{name_of(name, 24)} {row['max_count']:,} ({name_of(row['max_judge'], 40)})"
        for name, row in most.items()
        if row["max_judge"] is not None
    )
    bad = collapsed_judges(rows)
    counts = {(row["judge"], row["class"]): row["count"] for row in pooled(rows)}
    marked = "; ".join(
        f"{name_of(judge, 40)} {counts[judge, name]:,} times {name_of(name, 24)}"
        for judge, names in bad.items()
        for name in names
    )
    share = thresholds.get("collapsed", 1 / 3)
    return Figure(
        "How often each judge gave each class",
        f"Over the {data.get('common', 0):,} responses that every judge judged. The dashed line is "
        f"{_fraction(share)} of the count of the judge that gives the class most; a judge left of "
        "it is collapsed. A whole line is the count from which the rule applies. "
        f"Most often: {leaders}. Collapsed: {marked or 'none'}.",
        draw,
    )


def _fraction(share: float) -> str:
    return "a third" if abs(share - 1 / 3) < 1e-6 else percent(share)


def _rule(rows: Sequence[Row]) -> Table:
    return Table(
        "The rule over all targets",
        (
            Column("judge", "name"),
            Column("class"),
            Column("count", "number"),
            Column("most of any judge", "number"),
            Column("by"),
            Column("state"),
            Column("without that judge"),
            Column("chance that it is collapsed", "number"),
            Column("labels missing", "number"),
        ),
        tuple(
            (
                name_of(row["judge"], 40),
                name_of(row["class"], 24),
                number(row["count"]),
                number(row["max_count"]),
                name_of(row["max_judge"], 40) if row["max_judge"] is not None else "none",
                _STATES.get(str(row["state"]), str(row["state"])),
                _without_leader(row),
                "" if row.get("probability") is None else percent(row["probability"]),
                number(row["missing_labels"]),
            )
            for row in rows[:_MOST_ROWS]
        ),
        visible=30,
        note="Chance: that the judge's true share of responses like these is below the line. "
        "Labels missing: how many more responses with the class would make the rule apply.",
    )


def _without_leader(row: Row) -> str:
    if row["judge"] == row["max_judge"]:
        return "it is that judge"
    state = row["state_without_leader"]
    return UNKNOWN if state is None else _STATES.get(str(state), str(state))


def _by_target(rows: Sequence[Row]) -> Table:
    """One row for each target and class: what the rule says where it applies."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["target"], row["class"]), []).append(row)

    def said(held: Sequence[Row], state: str) -> str:
        return listed([row["judge"] for row in held if row["state"] == state])

    def line(place: tuple[str, str], held: Sequence[Row]) -> tuple[str, ...]:
        first = held[0]
        applies = any(row["state"] in ("ok", "collapsed") for row in held)
        needs = f"no: {first['missing_labels']:,} labels missing"
        return (
            name_of(place[0], 40),
            name_of(place[1], 24),
            f"{first['max_count']:,} of {first['n_common']:,}",
            "yes" if applies else needs,
            said(held, "collapsed") or ("none" if applies else ""),
            said(held, "cannot_emit"),
        )

    ranked = sorted(groups.items(), key=lambda pair: not said(pair[1], "collapsed"))
    return Table(
        "The collapse rule by target",
        (
            Column("target", "name"),
            Column("class"),
            Column("most of any judge"),
            Column("rule applies"),
            Column("collapsed"),
            Column("cannot emit"),
        ),
        tuple(line(place, held) for place, held in ranked[:_MOST_ROWS]),
        note="Where the rule does not apply nothing is known of the judges, good or bad.",
    )


def _movement(data: Row, moves: Sequence[Row], directions: Sequence[Row], reference: str) -> Figure:
    classes = data.get("classes") or list(dict.fromkeys(move["from"] for move in moves))
    ordered = len(data.get("class_order") or classes)

    def draw(width: int) -> Any:
        from safemetry.judges.charts.movement import movement_chart

        return movement_chart(moves, directions, classes, ordered=ordered, width=width)

    ranked = sorted(
        (row for row in directions if row["compared"]),
        key=lambda row: (-(row["lower"] + row["higher"]) / row["compared"], row["judge"]),
    )
    said = "; ".join(
        f"{name_of(row['judge'], 40)} puts {row['lower']:,} of {row['compared']:,} lower and "
        f"{row['higher']:,} higher"
        for row in ranked[:4]
    )
    return Figure(
        f"Where responses went: from {reference} to each judge",
        f"On the left of each panel the classes of {reference}, on the right those of the judge, "
        "the most compliant on top. A band that falls is responses that the judge calls safer. "
        f"The judges that move most come first, at most 8. {said}.",
        draw,
    )


def _directions(rows: Sequence[Row], reference: str) -> Table:
    return Table(
        f"Which way each judge errs, seen from {reference}",
        (
            Column("judge", "name"),
            Column("compared", "number"),
            Column("less compliant", "number"),
            Column("more compliant", "number"),
            Column("net", "number"),
            Column("interval"),
        ),
        tuple(
            (
                name_of(row["judge"], 40),
                number(row["compared"]),
                number(row["lower"]),
                number(row["higher"]),
                number(row["net"]),
                interval(row["interval"], 3),
            )
            for row in rows[:_MOST_ROWS]
        ),
        visible=30,
        note="Net: those put higher minus those put lower, as a share; below 0 the judge errs "
        "towards safe.",
    )


def _moves(rows: Sequence[Row]) -> Table:
    moved = sorted(
        (row for row in rows if row["count"] and row["from"] != row["to"]),
        key=lambda row: (-row["count"], row["judge"]),
    )
    return Table(
        "Responses that changed their class",
        (
            Column("judge", "name"),
            Column("from"),
            Column("to"),
            Column("responses", "number"),
            Column("of", "number"),
            Column("share", "number"),
            Column("interval"),
        ),
        tuple(
            (
                name_of(row["judge"], 40),
                name_of(row["from"], 24),
                name_of(row["to"], 24),
                number(row["count"]),
                number(row["total"]),
                number(row["share"], fraction=True),
                percents(row["interval"]),
            )
            for row in moved[:_MOST_ROWS]
        ),
    )


def _spread(rows: Sequence[Row]) -> Table:
    def rest(row: Row) -> str:
        held: Mapping[str, Any] = row.get("without_collapsed") or {}
        if not held.get("left_out"):
            return "none is collapsed"
        if held.get("difference") is None:
            return UNKNOWN
        return f"{_times(held)}, {100 * held['difference']:.1f} points"

    return Table(
        "How far the rate moves with the judge",
        (
            Column("rate of", "name"),
            Column("responses", "number"),
            Column("lowest"),
            Column("highest"),
            Column("ratio", "number"),
            Column("points apart", "number"),
            Column("second-highest to second-lowest", "number"),
            Column("without collapsed judges"),
            Column("among non-refusals", "number"),
        ),
        tuple(
            (
                _scope(row),
                number(row["responses"]),
                f"{percent(row['rate_min'])} {name_of(row['min_judge'], 40)}",
                f"{percent(row['rate_max'])} {name_of(row['max_judge'], 40)}",
                _times(row),
                f"{100 * row['difference']:.1f}",
                _plain_times(row.get("trimmed_ratio")),
                rest(row),
                _plain_times(row.get("given_non_refusal_ratio")),
            )
            for row in rows
        ),
        note="An unbounded ratio has a lowest rate of 0; beside it stands the ratio to the next "
        "lowest. Unknown: under four judges, a zero, or a boundary to which it does not apply.",
    )


def _times(row: Row) -> str:
    if row.get("ratio") is not None:
        return f"{row['ratio']:.1f} times"
    following = row.get("ratio_next")
    return "unbounded" + ("" if following is None else f" (next {following:.1f})")


def _plain_times(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} times"


def _scope(row: Row) -> str:
    return name_of(row["boundary"], 30) + (f", {row['intent']} items" if row["intent"] else "")
