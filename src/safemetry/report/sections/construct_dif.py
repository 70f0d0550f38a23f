"""Differences of items between groups of targets, as blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.report.blocks import Block, Column, Figure, Fold, Sentences, Table, Text, name_of
from safemetry.report.sections.construct_tables import cell, number

_MOST_OPEN: Final = 2
_MOST_CHARTS: Final = 4
_MOST_STRIPS: Final = 8
_MOST_ITEMS: Final = 200
_CHOICES: Final = (
    "scope",
    "method",
    "matching",
    "bands",
    "smoothing",
    "penalty",
    "prior",
)
_COUNTS: Final = ("flags", "item_flags")
_HEADS: Final = {
    "scope": "items",
    "method": "method",
    "matching": "matched on",
    "bands": "bands",
    "smoothing": "smoothing",
    "penalty": "penalty",
    "prior": "priors of the null",
}
_METHODS: Final = {
    "mantel_haenszel": "Mantel-Haenszel",
    "ridge_logistic": "ridge logistic",
    "ridge_logistic_non_uniform": "ridge logistic, non-uniform",
}
_STATISTICS: Final = {
    "mantel_haenszel": "|ln odds ratio|",
    "ridge_logistic": "|group effect|",
    "ridge_logistic_non_uniform": "|group x ability|",
}

Row = Mapping[str, Any]


def flags_in_words(rows: Sequence[Row]) -> tuple[str, str]:
    """How many items are flagged under all choices, as a figure and what it means."""
    counts = [row["flags"] for row in rows if row.get("flags") is not None and _compares(row)]
    if not counts:
        return "unknown", "no item can be compared under any choice of method and bands"
    low, high = min(counts), max(counts)
    choices = f"{len(counts)} choices of groups, method, matching, bands and null"
    return (f"{low}" if low == high else f"{low} to {high}", f"family-wise, over {choices}")


def dif_blocks(data: Mapping[str, Any]) -> Iterator[Block]:
    """The volcano of each grouping, the flagged items by id, and what the choices change."""
    rows: list[Row] = data.get("dif") or []
    if not rows:
        yield from _refused(data.get("dif_groups"))
        return
    asked = "Do items differ between groups of targets of equal ability?"
    if not any(map(_compares, rows)):
        yield Text(f"{asked} No item can be compared: {_why_none(rows)}.")
        yield from _refused(data.get("dif_groups"))
        return
    figure, note = flags_in_words(rows)
    yield Text(f"{asked} {figure} items are flagged, {note}.")
    yield from _apart(rows)
    yield from _refused(data.get("dif_groups"))
    charts = [_volcano(row) for row in _leading(rows)][:_MOST_CHARTS]
    yield from charts[:_MOST_OPEN]
    if charts[_MOST_OPEN:]:
        yield Fold("Other groups and methods", tuple(charts[_MOST_OPEN:]))
    by_groups: dict[str, list[Row]] = {}
    for row in rows:
        by_groups.setdefault(_groups(row), []).append(row)
    tables = [table for groups, held in by_groups.items() for table in _flagged(groups, held)]
    yield from tables[:_MOST_OPEN]
    if tables[_MOST_OPEN:]:
        yield Fold("Flagged items of other groups", tuple(tables[_MOST_OPEN:]))
    strips = [strip for groups, held in by_groups.items() for strip in _strips(groups, held)]
    yield from strips[:_MOST_OPEN]
    if strips[_MOST_OPEN:]:
        yield Fold("Choices for other groups and methods", tuple(strips[_MOST_OPEN:_MOST_STRIPS]))
    choices = [_choices(groups, held) for groups, held in by_groups.items()]
    yield choices[0]
    if choices[1:]:
        yield Fold("The same for other groups", tuple(choices[1:]))


def _compares(row: Row) -> bool:
    """Whether any item has a statistic."""
    return any(item.get("statistic") is not None for item in row.get("items") or [])


def _why_none(rows: Sequence[Row]) -> str:
    """The reason that most items have."""
    reasons = Counter(
        str((item.get("why") or {}).get("statistic") or "no statistic has a value")
        for row in rows
        for item in row.get("items") or []
    )
    return name_of(reasons.most_common(1)[0][0], 200) if reasons else "there is no item"


def _apart(rows: Sequence[Row]) -> Iterator[Text]:
    """A caveat where bands of ability lack one of the groups."""
    for row in rows:
        lacking = {band["band"] for band in row.get("lacking_bands") or []}
        if row.get("headline") and row.get("band_count") and lacking and _compares(row):
            yield Text(
                f"Only {row['band_count'] - len(lacking)} of {row['band_count']} bands of ability "
                f"hold both {_groups(row)}: what differs may be what is left of their difference "
                "in ability."
            )


def _leading(rows: Sequence[Row]) -> Iterator[Row]:
    """The first row with items of each grouping and method; Mantel-Haenszel has a statistic."""
    seen = set()
    for row in rows:
        key = (_groups(row), row.get("method"), row.get("scope"))
        if key not in seen and any(_has_effect(item) for item in row.get("items") or []):
            seen.add(key)
            yield row


def _has_effect(item: Row) -> bool:
    return item.get("statistic") is not None and item.get("effect") is not None


def _pair(row: Row) -> tuple[str, str] | None:
    """Reference and focal group."""
    groups = row.get("groups")
    if isinstance(groups, Mapping):
        groups = [groups.get("reference"), groups.get("focal")]
    if isinstance(groups, list) and len(groups) == 2 and all(groups):
        return name_of(groups[0], 24), name_of(groups[1], 24)
    return None


def _groups(row: Row) -> str:
    pair = _pair(row)
    return f"{pair[0]} and {pair[1]}" if pair else name_of(row.get("groups") or "groups", 48)


def _method(row: Row) -> str:
    method = str(row.get("method") or "")
    return _METHODS.get(method, name_of(method, 40))


def _volcano(row: Row) -> Figure:
    pair, items, threshold = _pair(row), row["items"], row.get("threshold")
    single = row.get("item_threshold")

    def draw(width: int) -> Any:
        from safemetry.construct.dif.charts import dif_volcano

        return dif_volcano(
            items,
            threshold,
            item_threshold=single,
            statistic=_STATISTICS.get(str(row.get("method")), "|statistic|"),
            sides=(f"against {pair[1]}", f"against {pair[0]}") if pair else None,
            width=width,
        )

    flagged = [item for item in items if item.get("flagged")]
    names = ", ".join(name_of(item["item"], 30) for item in _strongest(flagged)[:8])
    more = f" and {len(flagged) - 8} more" if len(flagged) > 8 else ""
    lines = f" (family-wise threshold {number(threshold, 2)})" if threshold is not None else ""
    scope = (
        f", {name_of(row['scope'], 40)}"
        if row.get("scope") not in {None, "all", "all items"}
        else ""
    )
    return Figure(
        f"Items that differ between {_groups(row)}: {_method(row)}{scope}",
        f"{len(items):,} items, {len(flagged)} flagged{lines}"
        f"{': ' + names + more if names else ''}. Upright lines at 1 and 1.5 part small, moderate "
        "and large effects (A, B, C). Other bandings and nulls flag others: see the table.",
        draw,
    )


def _strongest(items: Sequence[Row]) -> list[Row]:
    return sorted(items, key=lambda item: (-abs(item.get("statistic") or 0), str(item["item"])))


def _flagged(groups: str, rows: Sequence[Row]) -> Iterator[Table]:
    """Each item that some choice flags, with how many do."""
    found: dict[str, list[Row]] = {}
    tested: dict[str, int] = {}
    for row in rows:
        for item in filter(_has_effect, row.get("items") or []):
            name = str(item["item"])
            tested[name] = tested.get(name, 0) + 1
            if item.get("flagged"):
                found.setdefault(name, []).append(item)
    if not found:
        return
    ranked = sorted(
        found,
        key=lambda name: (-len(found[name]) / tested[name], -abs(_extreme(found[name])), name),
    )
    left_out = len(ranked) - _MOST_ITEMS
    yield Table(
        f"Flagged items: {groups}",
        (
            Column("item", "name"),
            Column("flagged by choices", "number"),
            Column("largest effect", "number"),
            Column("class"),
        ),
        tuple(
            (
                name_of(name, 48),
                f"{len(found[name])} of {tested[name]}",
                f"{_extreme(found[name]):+.2f}",
                _class_of(_extreme(found[name])),
            )
            for name in ranked[:_MOST_ITEMS]
        ),
        note="Effects are on the delta scale, -2.35 times the log odds ratio: negative where the "
        "second group is rewarded less than the first at equal ability. A is below 1, C 1.5 or "
        f"more.{f' {left_out:,} more items are left out.' if left_out > 0 else ''}",
    )


def _extreme(items: Sequence[Row]) -> float:
    return max((float(item["effect"]) for item in items), key=abs)


def _class_of(effect: float) -> str:
    """Class of an effect by its size alone (Zieky 1993)."""
    return "A" if abs(effect) < 1 else "B" if abs(effect) < 1.5 else "C"


def _strips(groups: str, rows: Sequence[Row]) -> Iterator[Figure]:
    """What the choices change: a chart for each method."""
    by_method: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("flags") is not None and _compares(row):
            by_method.setdefault(_method(row), []).append(row)
    for method, held in by_method.items():
        if _varying(held):
            yield _strip(f"{groups}: {method}", held)


def _varying(rows: Sequence[Row]) -> list[str]:
    """The choices that tell rows apart; one that does not apply to some rows is not varied."""
    return [
        name
        for name in _CHOICES
        if len({cell(row[name]) for row in rows if row.get(name) is not None}) > 1
    ]


def _strip(title: str, rows: Sequence[Row]) -> Figure:
    parts = [name for name in _varying(rows) if name != "prior"]
    marks = [
        {
            "choice": [_labelled(name, row) for name in parts if row.get(name) is not None],
            "null": f"{name_of(row.get('prior') or 'one', 40)} null",
            "flags": row["flags"],
        }
        for row in rows
    ]

    def draw(width: int) -> Any:
        from safemetry.construct.dif.charts import sensitivity_strip

        return sensitivity_strip(marks, width=width)

    by_null: dict[str, list[int]] = {}
    for mark in marks:
        by_null.setdefault(mark["null"], []).append(mark["flags"])
    said = "; ".join(f"{null} {min(flags)} to {max(flags)}" for null, flags in by_null.items())
    return Figure(
        f"Flagged items under each choice, {title}",
        f"Items flagged family-wise: {said}. Where the marks of a row lie apart, the null decides "
        "the count.",
        draw,
    )


def _labelled(name: str, row: Row) -> str:
    """A choice as a label; a bare number needs its name."""
    value = row.get(name)
    said = _said(name, row)
    return said if isinstance(value, str) else f"{_HEADS[name]} {said}"


def _said(name: str, row: Row) -> str:
    return _method(row) if name == "method" else cell(row.get(name))


def _choices(groups: str, rows: Sequence[Row]) -> Table:
    varying = _varying(rows)
    same = {
        name: next((row for row in rows if row.get(name) is not None), None)
        for name in _CHOICES
        if name not in varying
    }
    fixed = [f"{_HEADS[name]} {_said(name, row)}" for name, row in same.items() if row]
    return Table(
        f"How many items are flagged under each choice: {groups}",
        (
            *(Column(_HEADS[name]) for name in varying),
            *(
                Column(name, "number")
                for name in ("flagged", "beyond own threshold", "threshold", "largest")
            ),
        ),
        tuple(
            (
                *("" if row.get(name) is None else _said(name, row) for name in varying),
                *(number(row.get(name)) if _compares(row) else "" for name in _COUNTS),
                number(row.get("threshold"), 2),
                number(row.get("observed_max"), 2),
            )
            for row in rows
        ),
        visible=16,
        note=f"Where it applies: {', '.join(fixed)}." if fixed else "",
    )


def _refused(found: Any) -> Iterator[Block]:
    """Groups that are too small to be compared."""
    entries = found if isinstance(found, list) else [found] if isinstance(found, Mapping) else []
    refused = [
        row
        for entry in entries
        if isinstance(entry, Mapping)
        for row in (entry.get("refused") or [])
        if isinstance(row, Mapping)
    ]
    said = tuple(
        f"{name_of(row.get('group'), 40)}: {name_of(row.get('why'), 300)}" for row in refused
    )
    if said:
        yield Text("Groups that were not compared:")
        yield Sentences(said, visible=6)
