"""Tables of the construct audit from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from safemetry.claims import percent
from safemetry.report.blocks import Column, Table, name_of

UNKNOWN: Final = "unknown"
_SATURATION: Final = {
    "items": "items",
    "informative_items": "informative",
    "modelable": "can be modelled",
    "effective_items": "effective items",
    "pass_rate": "rewarded",
    "ceiling_share": "targets at the ceiling",
    "zero_variance": "items without variance",
    "item_rest.median": "median item-rest",
    "item_rest.negative": "negative items",
}
_FRACTIONS: Final = frozenset({"pass_rate", "ceiling_share"})


def saturation_table(found: Mapping[str, Any]) -> Table:
    """One row for all items, each benchmark and each domain.

    Parameters
    ----------
    found
        The `saturation` of a construct audit: the row of all items, with rows under `benchmarks`
        and `domains`.
    """
    rows = [_flat(row) for row in (found, *found.get("benchmarks", ()), *found.get("domains", ()))]
    present = [name for name in _SATURATION if any(row.get(name) is not None for row in rows)]
    minority, share = found.get("minority", 5), found.get("share", 0.5)
    return Table(
        "Whether items can be modelled",
        (Column("items of", "name"), *(Column(_SATURATION[name], "number") for name in present)),
        tuple(
            (_set_name(row), *(_figure(name, row.get(name)) for name in present)) for row in rows
        ),
        note=f"An item is informative with {minority} or more responses of the rarer kind; "
        f"{share:.0%} of all items must be. Effective items: how many with a rate of one half say "
        "as much. Item-rest: correlation of an item with the others; on negative items better "
        "targets do worse.",
    )


def _figure(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return cell(value)
    digits = 1 if name == "effective_items" else 2
    return number(value, digits, fraction=name in _FRACTIONS)


def plain_table(
    caption: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    names: Mapping[str, str] | None = None,
    note: str = "",
    visible: int = 12,
) -> Table:
    """Rows as they are: one column for each key that holds a word or number in some row.

    Parameters
    ----------
    caption, note, visible
        Of the table.
    rows
        Mappings; those inside become columns of their own, lists are left out.
    names
        Keys that are shown, in their order, with their headers; all by default.
    """
    flat = [_flat(row) for row in rows]
    found = dict.fromkeys(
        name for row in flat for name, value in row.items() if _is_cell(name, value)
    )
    chosen = {name: head for name, head in (names or {}).items() if name in found} or {
        name: name.replace("_", " ").replace(".", " ") for name in found
    }
    numeric = {
        name
        for name in chosen
        if all(isinstance(row.get(name), int | float | None) for row in flat)
        and not any(isinstance(row.get(name), bool) for row in flat)
    }
    first = next(iter(chosen), None)
    return Table(
        caption,
        tuple(
            Column(head, "number" if name in numeric else "name" if name == first else "text")
            for name, head in chosen.items()
        ),
        tuple(tuple(cell(row.get(name)) for name in chosen) for row in flat),
        visible=visible,
        note=note,
    )


def cell(value: Any) -> str:
    """A word or number as a cell shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}"
    if isinstance(value, int | None):
        return number(value)
    return name_of(value, 60)


def number(value: float | None, digits: int = 3, *, fraction: bool = False) -> str:
    """A number in few digits; None is unknown."""
    if value is None:
        return UNKNOWN
    if fraction:
        return percent(value)
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}f}" if abs(value) < 100 else f"{value:,.1f}"


def interval(given: Sequence[float] | None, digits: int = 4) -> str:
    """Both ends."""
    return UNKNOWN if not given else f"{given[0]:.{digits}f} to {given[1]:.{digits}f}"


def _set_name(row: Mapping[str, Any]) -> str:
    name, structure = row.get("name", "all"), row.get("structure")
    return name_of(f"{structure}: {name}" if structure else name, 40)


def _is_cell(name: str, value: Any) -> bool:
    return isinstance(value, str | int | float) and name != "why" and not name.startswith("why.")


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": held for inner, held in value.items()}
        else:
            found[name] = value
    return found
