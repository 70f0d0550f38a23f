"""Agreement of judges with each other, with people and with gold, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.report.blocks import Block, Column, Figure, Fold, Table, name_of
from safemetry.report.sections.construct_tables import UNKNOWN, number
from safemetry.report.sections.judges_words import Row, items_of, percents

_MOST_ROWS: Final = 400
_ALL: Final = "all"
_WORDS: Final = {
    "raw": "raw",
    "cohen": "Cohen's kappa",
    "cohen_linear": "kappa, linear",
    "cohen_quadratic": "kappa, quadratic",
    "fleiss": "Fleiss' kappa",
    "krippendorff_nominal": "Krippendorff's alpha, nominal",
    "krippendorff_ordinal": "alpha, ordinal",
    "krippendorff_interval": "alpha, interval",
    "gwet_ac1": "Gwet's AC1",
    "gwet_ac2": "Gwet's AC2",
}


def agreement_blocks(data: Row) -> Iterator[Block]:
    """How far judges agree with each other, with people, and with gold."""
    found: Row = data.get("agreement") or {}
    pairs = [row for row in found.get("pairs") or () if row["by"] == _ALL]
    panel = [row for row in found.get("panel") or () if row["by"] == _ALL]
    gold: Row = found.get("gold") or {}
    for intent in _intents(pairs):
        made = _map(data, [row for row in pairs if row["intent"] == intent], gold, intent)
        if made is not None:
            yield made
    if panel:
        yield _together(panel)
    if pairs:
        yield Fold("Agreement of each two judges", (_pairs(pairs),))
    if gold.get("accuracy"):
        yield from _accuracy(gold)
    if gold.get("ceiling"):
        yield _ceiling(gold["ceiling"])


def _intents(pairs: Sequence[Row]) -> list[str]:
    """What maps are drawn: one for each intent, which are never pooled where they are known."""
    names = list(dict.fromkeys(row["intent"] for row in pairs))
    apart = [name for name in names if name != _ALL]
    return sorted(apart, key=lambda name: name != "harmful")[:2] or names


def _map(data: Row, rows: Sequence[Row], gold: Row, intent: str) -> Figure | None:
    judges = [
        name
        for name in data.get("judges") or ()
        if any(name in (row["first"], row["second"]) for row in rows)
    ]
    if len(judges) < 2:
        return None
    which = "gwet_ac1"
    pairs = {
        (row["first"], row["second"]): (row["coefficients"].get(which) or {}).get("estimate")
        for row in rows
    }
    ceilings = [row for row in gold.get("ceiling") or () if row["intent"] == intent] or list(
        (gold.get("ceiling") or ())[:1]
    )
    settings = data.get("settings") or {}
    named = settings.get("humans") or settings.get("gold") or []
    humans = list(ceilings[0]["humans"]) if ceilings else list(named)
    top = (ceilings[0]["between_humans"].get(which) or {}).get("estimate") if ceilings else None
    labels = [name_of(name, 40) for name in judges]

    def draw(width: int) -> Any:
        from safemetry.judges.charts.agreement import agreement_map

        return agreement_map(judges, pairs, humans=humans, ceiling=top, width=width)

    known = sorted((value, pair) for pair, value in pairs.items() if value is not None)
    ends = ""
    if known:
        (low, first), (high, last) = known[0], known[-1]
        ends = (
            f"Lowest {low:.2f}, {_two(first)}; highest {high:.2f}, {_two(last)}. "
            if len(known) > 1
            else f"It is {low:.2f}. "
        )
    people = ""
    if top is not None:
        people = (
            f"People agree with each other at {top:.2f} (framed); a judge that agrees with a "
            "person as much stands in bold. "
        )
    elif humans:
        people = "People stand in bold. "
    key = "; ".join(f"{place} {name}" for place, name in enumerate(labels[:24], start=1))
    where = "" if intent == _ALL else f", {intent} items"
    return Figure(
        f"Agreement of each two judges (Gwet's AC1){where}",
        "A stronger colour is more agreement; where cells are small they hold hundredths. "
        f"{ends}{people}Agreement says not who is right. {key}.",
        draw,
    )


def _two(pair: tuple[str, str]) -> str:
    return f"{name_of(pair[0], 40)} with {name_of(pair[1], 40)}"


def _together(rows: Sequence[Row]) -> Table:
    kept = _harmful_first(_without_doubles(rows))
    names = [name for name in _WORDS if any(name in row["coefficients"] for row in kept)]
    return Table(
        "Agreement of all judges together",
        (
            Column("coefficient", "name"),
            *(Column(items_of(row), "text") for row in kept),
        ),
        tuple(
            (_WORDS[name], *(_figure(row["coefficients"].get(name)) for row in kept))
            for name in names
        ),
        note="With intervals from resampled clusters. High agreement and a collapsed judge can "
        "stand side by side: look at the class counts first.",
    )


def _pairs(rows: Sequence[Row]) -> Table:
    kept = _without_doubles(rows)
    names = [
        name
        for name in ("raw", "cohen", "cohen_quadratic", "gwet_ac1", "gwet_ac2")
        if any(name in row["coefficients"] for row in kept)
    ]
    return Table(
        "Agreement of each two judges",
        (
            Column("judges", "name"),
            Column("items"),
            Column("responses", "number"),
            *(Column(_WORDS[name]) for name in names),
        ),
        tuple(
            (
                _two((row["first"], row["second"])),
                items_of(row),
                number(row["n"]),
                *(_figure(row["coefficients"].get(name)) for name in names),
            )
            for row in kept[:_MOST_ROWS]
        ),
        visible=40,
    )


def _without_doubles(rows: Sequence[Row]) -> list[Row]:
    """Rows without those of all items where these are of one intent, which say the same."""
    apart = {row["intent"] for row in rows} - {_ALL}
    return [row for row in rows if len(apart) != 1 or row["intent"] != _ALL]


def _harmful_first(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["intent"] == _ALL, row["intent"] != "harmful"))


def _accuracy(gold: Row) -> Iterator[Block]:
    rows = _harmful_first([row for row in gold["accuracy"] if row["by"] == _ALL])
    whose = ", ".join(name_of(name, 40) for name in gold.get("gold") or ())
    several = len(gold.get("gold") or ()) > 1
    against = f"the majority of {whose}" if several else whose
    lines = [(row, boundary) for row in rows for boundary in row["boundaries"]]
    yield Table(
        f"Each judge against {against}",
        (
            Column("judge", "name"),
            Column("items"),
            Column("rate of"),
            Column("gold says"),
            Column("judge says"),
            Column("false positives"),
            Column("false negatives"),
        ),
        tuple(
            (
                name_of(row["judge"], 40),
                items_of(row),
                name_of(boundary["boundary"], 30),
                *(
                    _share(boundary[name])
                    for name in (
                        "gold_rate",
                        "judge_rate",
                        "false_positive_rate",
                        "false_negative_rate",
                    )
                ),
            )
            for row, boundary in lines[:_MOST_ROWS]
        ),
        visible=24,
        note="Attacks and plain items are never put together: an error rate over both is that of "
        "their mixture.",
    )
    yield Fold("Sensitivity and specificity for each class", (_classes(rows),))


def _classes(rows: Sequence[Row]) -> Table:
    lines = [(row, one) for row in rows for one in row["classes"]]
    return Table(
        "One class against the others",
        (
            Column("judge", "name"),
            Column("items"),
            Column("class"),
            Column("sensitivity"),
            Column("specificity"),
        ),
        tuple(
            (
                name_of(row["judge"], 40),
                items_of(row),
                name_of(one["class"], 24) + ("" if one["can_emit"] else " (cannot emit)"),
                _share(one["sensitivity"]),
                _share(one["specificity"]),
            )
            for row, one in lines[:_MOST_ROWS]
        ),
        visible=40,
    )


def _ceiling(rows: Sequence[Row]) -> Table:
    lines: list[tuple[str, ...]] = []
    names = ("raw", "cohen", "gwet_ac1")
    for row in rows:
        between = row["between_humans"]
        people = (_figure(between.get(name)) for name in names)
        lines.append(("people with each other", items_of(row), *people))
        for one in row["judges"]:
            held = (_figure(one["with_humans"].get(name)) for name in names)
            lines.append((name_of(one["judge"], 40), items_of(row), *held))
    return Table(
        "Agreement with people, and the ceiling that they set",
        (
            Column("who", "name"),
            Column("items"),
            *(Column(_WORDS[name]) for name in names),
        ),
        tuple(lines[:_MOST_ROWS]),
        visible=24,
        note="Means over pairs. No judge can be asked to agree with people better than people do.",
    )


def _figure(given: Row | None) -> str:
    if not given or given["estimate"] is None:
        return UNKNOWN
    ends = given.get("interval")
    return f"{given['estimate']:.3f}" + (f" ({ends[0]:.3f} to {ends[1]:.3f})" if ends else "")


def _share(given: Row | None) -> str:
    if not given or given["estimate"] is None:
        return UNKNOWN
    return f"{percent(given['estimate'])} ({percents(given['interval'])})"
