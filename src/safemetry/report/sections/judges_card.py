"""The report card of judges, and what models say of them without gold, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from safemetry.report.blocks import Block, Column, Fold, Sentences, Table, Text, name_of
from safemetry.report.sections.construct_tables import cell, plain_table
from safemetry.report.sections.judges_words import Row

_LONG: Final = 400
_MOST_ROWS: Final = 200
_MODELS: Final = {
    "dawid_skene": "Dawid-Skene: shares of the classes without gold",
    "severity": "How severe each judge is",
    "own_family": "Whether a judge favours its own family",
    "dependence": "Judges that err together",
}


def card_blocks(card: Row | None) -> Iterator[Block]:
    """The eight items: what is known, and what is missing."""
    items: Sequence[Row] = (card or {}).get("items") or []
    if not items:
        return
    yield Table(
        "Report card",
        (Column("item", "name"), Column("state"), Column("known"), Column("missing")),
        tuple(
            (
                f"{row.get('number', place)}. {name_of(row.get('name'), 80)}",
                name_of(row.get("state"), 24).replace("_", " "),
                "; ".join(_said(row.get("entries"))) or "nothing",
                "; ".join(_said(row.get("missing"))) or "nothing",
            )
            for place, row in enumerate(items, start=1)
        ),
    )


def model_blocks(given: Row | None) -> Iterator[Block]:
    """What latent-class and many-facet models say; folded, since they assume much."""
    blocks = [
        block
        for name, title in _MODELS.items()
        for block in _of_model(title, (given or {}).get(name))
    ]
    if blocks:
        yield Text(
            "What follows is model-based: without gold it rests on judges erring independently of "
            "each other, given the true class, which judges of one family do not."
        )
        yield Fold("Without gold", tuple(blocks))


def _of_model(title: str, given: Any) -> Iterator[Block]:
    """Sentences first, then the flat rows of every list, whatever the model is."""
    parts = list(given) if isinstance(given, list) else [given]
    parts = [part for part in parts if isinstance(part, Mapping)]
    if parts and not any(isinstance(value, list) for part in parts for value in part.values()):
        yield plain_table(title, parts[:_MOST_ROWS])
        return
    for part in parts:
        named = f"{title} ({name_of(part['intent'], 24)} items)" if part.get("intent") else title
        said = [*_texts(part.get("warnings")), *_texts(part.get("sentence"))]
        said += _texts(part.get("reason"))
        if said:
            yield Text(f"{named}:")
            yield Sentences(tuple(said))
        for name, rows in part.items():
            if isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows):
                caption = f"{named}: {name_of(name, 40).replace('_', ' ')}"
                yield plain_table(caption, [_flat(row) for row in rows[:_MOST_ROWS]])


def _flat(row: Row) -> dict[str, Any]:
    """A row whose figures are an estimate with its interval in words."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping) and "estimate" in value:
            found[name] = value["estimate"]
            ends = value.get("interval")
            if ends:
                found[f"interval of {name}"] = f"{ends[0]:.3f} to {ends[1]:.3f}"
        elif name not in ("why", "intent", "basis"):
            found[name] = value
    return found


def _texts(given: Any) -> list[str]:
    values = given if isinstance(given, list) else [given]
    return [name_of(value, _LONG) for value in values if isinstance(value, str) and value]


def _said(given: Any) -> list[str]:
    """Words of an entry, whether it is a text, a mapping or several of them."""
    if given is None or given == "":
        return []
    if isinstance(given, Mapping):
        if "name" in given and "value" in given:
            return [f"{name_of(given['name'], 60)}: {_value(given['value'])}"]
        return [
            f"{name_of(name, 60).replace('_', ' ')}: {_value(value)}"
            for name, value in given.items()
            if value is not None
        ]
    if isinstance(given, list | tuple):
        return [text for one in given for text in _said(one)]
    return [name_of(given, _LONG)]


def _value(given: Any) -> str:
    if isinstance(given, Mapping | list | tuple):
        return ", ".join(_said(given))
    return name_of(given, _LONG) if isinstance(given, str) else cell(given)
