"""The verdict of the judge audit in words: who is collapsed, what that moves, what to do.

Everything starts from the rows of the audit's JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.report.blocks import NOT_KNOWN, Fact, name_of

_NAMED: Final = 6
_PROBABLE: Final = 0.95
_MUCH: Final = 1.5
"""Ratio from which the advice is to correct or to show several judges."""
Row = Mapping[str, Any]


def pooled(rows: Sequence[Row] | None) -> list[Row]:
    """The rows of all targets together."""
    return [row for row in rows or () if row["target"] is None]


def collapsed_judges(rows: Sequence[Row] | None) -> dict[str, list[str]]:
    """Judge -> classes on which it is collapsed, over all targets."""
    found: dict[str, list[str]] = {}
    for row in pooled(rows):
        if row["state"] == "collapsed":
            found.setdefault(row["judge"], []).append(row["class"])
    return found


def leading_spread(rows: Sequence[Row] | None) -> Row | None:
    """The spread of the headline: the strictest boundary, on harmful items if there are any."""
    known = [row for row in rows or () if row.get("rate_max") is not None]
    return min(known, key=_rank, default=None)


def in_order(rows: Sequence[Row] | None) -> list[Row]:
    """Rows with boundary and intent: the headline first, sums over intents last."""
    return sorted(rows or (), key=_rank)


def _rank(row: Row) -> tuple[bool, bool, bool, bool]:
    return (
        row["intent"] == "all",
        row["intent"] == "benign",
        row["intent"] != "harmful",
        row["boundary"] != "comply",
    )


def verdict(data: Row) -> str:
    """What the audit found, in a sentence about judges and one about the headline."""
    return " ".join([_judged(data), *_moved(data), *_only_in(data)])


def advice(data: Row) -> str:
    """What to do about it."""
    bad, row = collapsed_judges(data.get("collapse")), leading_spread(data.get("spread"))
    corrected = any(one.get("interval") for one in data.get("corrected") or ())
    then = (
        "take the corrected rates below."
        if corrected
        else "have people label a random part of the responses: that says who is right, and "
        "corrects the rates."
    )
    if bad:
        classes = listed(sorted({name for names in bad.values() for name in names}))
        who = "this judge" if len(bad) == 1 else "these judges"
        return f"Quote no rate that rests on {classes} from {who} alone; {then}"
    if row is not None and row["rate_max"] and (row["ratio"] is None or row["ratio"] >= _MUCH):
        return f"Quote each rate with its judge, show a second judge beside it, and {then}"
    rare = _rare(data)
    if rare:
        return (
            f"What is said of {listed(rare)} rests on few responses: judge more that are likely "
            "to have the class before relying on it."
        )
    if row is None or row["judges"] < 2:
        return "Have a second judge, or people, judge the same responses."
    return (
        "The choice among these judges moves the headline little; whether they are right takes "
        "labels of people."
    )


def facts(data: Row) -> Iterator[Fact]:
    """Figures for the first screen."""
    judges, common = data.get("judges") or [], data.get("common")
    bad = collapsed_judges(data.get("collapse"))
    if pooled(data.get("collapse")):
        classes = sorted({name for names in bad.values() for name in names})
        on = f"on {listed(classes)}, " if classes else ""
        yield Fact(
            "Collapsed judges",
            f"{len(bad)} of {len(judges)}",
            f"{on}by their class counts over {common:,} common responses",
        )
    row = leading_spread(data.get("spread"))
    if row is not None and row["judges"] > 1:
        yield Fact("The judge moves the rate", _ratio(row), f"{_where(row)}: {_span(row)}")


def _judged(data: Row) -> str:
    judges, common = data.get("judges") or [], data.get("common") or 0
    bad = collapsed_judges(data.get("collapse"))
    over = f"over {common:,} common responses"
    if bad:
        by_class: dict[tuple[str, ...], list[str]] = {}
        for judge, names in bad.items():
            by_class.setdefault(tuple(names), []).append(judge)
        said = "; ".join(f"{listed(who)} on {listed(names)}" for names, who in by_class.items())
        verb = "is" if len(bad) == 1 else "are"
        lead = f"{len(bad)} of {len(judges)} judges {verb} collapsed {over}: {said}."
    elif any(row["state"] == "ok" for row in pooled(data.get("collapse"))):
        lead = f"No judge of {len(judges)} is collapsed {over}."
    else:
        lead = f"Whether any of {len(judges)} judges is collapsed cannot be told {over}."
    return " ".join([lead, *_silent(data)])


def _silent(data: Row) -> Iterator[str]:
    """Classes that are too rare, and classes that a judge cannot give: neither is fine."""
    rows = pooled(data.get("collapse"))
    for name in _rare(data):
        held = [row for row in rows if row["class"] == name]
        far = [
            f"{name_of(row['judge'], 40)} ({row['count']:,})"
            for row in held
            if row["state"] == "not_applicable" and (row.get("probability") or 0) >= _PROBABLE
        ]
        few = f"; {listed(far)} would probably be collapsed" if far else ""
        yield (
            f"The rule does not apply to {name_of(name, 24)}, which no judge gives more than "
            f"{held[0]['max_count']:,} times: {held[0]['missing_labels']:,} more are missing{few}."
        )
    cannot: dict[str, list[str]] = {}
    for row in rows:
        if row["state"] == "cannot_emit" and row["class"] in _order(data):
            cannot.setdefault(row["judge"], []).append(row["class"])
    said = [f"{name_of(judge, 40)} cannot emit {listed(names)}" for judge, names in cannot.items()]
    if said:
        yield f"By the class sets {'; '.join(said[:_NAMED])}."


def _order(data: Row) -> Sequence[str]:
    return data.get("class_order") or [row["class"] for row in pooled(data.get("collapse"))]


def _rare(data: Row) -> list[str]:
    """Classes of the order that the rule does not apply to."""
    rows = pooled(data.get("collapse"))
    found = {row["class"] for row in rows if row["state"] == "not_applicable"}
    return [name for name in dict.fromkeys(_order(data)) if name in found]


def _moved(data: Row) -> Iterator[str]:
    row = leading_spread(data.get("spread"))
    if row is None or row["judges"] < 2:
        return
    if not row["rate_max"]:
        yield f"On {_where(row)} no judge sees a success among {row['responses']:,} responses."
        return
    yield (
        f"With the judge alone the rate of {_where(row)} goes from {percent(row['rate_min'])} "
        f"({name_of(row['min_judge'], 40)}) to {percent(row['rate_max'])} "
        f"({name_of(row['max_judge'], 40)}): {_ratio(row)}, "
        f"{100 * row['difference']:.1f} percentage points."
    )
    rest = row.get("without_collapsed") or {}
    if rest.get("left_out") and rest.get("ratio") is not None and rest.get("judges", 0) > 1:
        yield (
            f"Without the collapsed judges it is {_ratio(rest)} and "
            f"{100 * rest['difference']:.1f} points."
        )


def _only_in(data: Row) -> Iterator[str]:
    """Judges that are collapsed on single targets and not overall."""
    overall = {
        (row["judge"], row["class"])
        for row in pooled(data.get("collapse"))
        if row["state"] == "collapsed"
    }
    found = [
        f"{name_of(row['judge'], 40)} on {name_of(row['class'], 24)} with "
        f"{name_of(row['target'], 40)}"
        for row in data.get("collapse") or ()
        if row["target"] is not None
        and row["state"] == "collapsed"
        and (row["judge"], row["class"]) not in overall
    ]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        yield f"On single targets only, collapsed: {', '.join(found[:_NAMED])}{more}."


def _ratio(row: Row) -> str:
    if row["ratio"] is not None:
        return f"{row['ratio']:.1f} times"
    beside = f" ({row['ratio_next']:.1f} times the next one)" if row.get("ratio_next") else ""
    return f"unbounded{beside}" if row["rate_max"] else "no judge sees any"


def _span(row: Row) -> str:
    return (
        f"{percent(row['rate_min'])} to {percent(row['rate_max'])} of {row['responses']:,} "
        f"responses, {100 * row['difference']:.1f} points apart"
    )


def _where(row: Row) -> str:
    return name_of(row["boundary"], 30) + (f" on {row['intent']} items" if row["intent"] else "")


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Names in words; the first 6 where there are more."""
    said = [name_of(name, 40) for name in names]
    if len(said) > most:
        return f"{', '.join(said[:most])} and {len(said) - most} more"
    return " and ".join([", ".join(said[:-1]), *said[-1:]] if len(said) > 1 else said)


def items_of(row: Row) -> str:
    """The intent of the items of a row."""
    return name_of(row["intent"] or "unknown", 24)


def percents(ends: Sequence[float] | None) -> str:
    """Both ends of an interval of a rate."""
    return NOT_KNOWN if not ends else f"{percent(ends[0])} to {percent(ends[1])}"
