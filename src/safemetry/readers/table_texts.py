"""Texts that stand in a table beside its judgements, in columns called `prompt` and `response`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from safemetry.evidence.arrival import Place
from safemetry.evidence.engine import connect
from safemetry.evidence.frames import ROW, from_arrow
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.naming import name_columns
from safemetry.evidence.schema import RESPONSE_KEY
from safemetry.evidence.translation import response_keys
from safemetry.readers.conversion import ResponseText
from safemetry.readers.source import Source
from safemetry.readers.tables import kind_of_table, read_batches, read_sample

if TYPE_CHECKING:
    import duckdb

TEXT_COLUMNS: Final = ("prompt", "response")


def read_texts_of_rows(
    source: Source,
    evidence_map: EvidenceMap,
    columns: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
) -> Iterator[ResponseText]:
    """The texts of a table, each response once: where several rows are about it, the first.

    Parameters
    ----------
    source
        The table.
    evidence_map
        What is known about it.
    columns
        Key column of ours -> the column of the table, as far as the table has one.
    defaults
        Key column of ours -> its value where the table has no such column.
    """
    encoding = evidence_map.encoding
    if kind_of_table(source, encoding) in {"csv", "parquet"}:
        sample = read_sample(source, encoding)
        if sample is not None and not set(TEXT_COLUMNS) & set(sample.names):
            return
    constants = {**(defaults or {}), **evidence_map.constants}
    fixed = EvidenceMap(
        constants={name: value for name, value in constants.items() if name in RESPONSE_KEY}
    )
    seen: set[int] = set()
    with connect() as engine:
        for batch in read_batches(source, encoding, {*columns.values(), *TEXT_COLUMNS}):
            keys = _keys(source, batch, columns, fixed, engine)
            prompts, responses = (_cells(batch, name) for name in TEXT_COLUMNS)
            for key, prompt, response in zip(keys, prompts, responses, strict=True):
                # A number for each response: the keys themselves may be as long as texts.
                number = hash(key)
                if (prompt is None and response is None) or number in seen:
                    continue
                seen.add(number)
                yield ResponseText(*key, prompt, response)


def _keys(
    source: Source,
    batch: pa.Table,
    columns: Mapping[str, str],
    fixed: EvidenceMap,
    engine: duckdb.DuckDBPyConnection,
) -> list[tuple[str | None, str, str, int]]:
    """The key of each row, typed as the judgements of the table are."""
    rows = {ours: batch[theirs] for ours, theirs in columns.items() if theirs in batch.column_names}
    names_run = "run" in {*rows, *fixed.constants}
    rows["label"] = pa.nulls(batch.num_rows)  # a table of judgements has one
    arrival = name_columns(from_arrow(pa.table(rows), engine), fixed, {}, Place(source.shown))
    keys = response_keys(arrival).sort(ROW).collect("pyarrow").to_arrow().to_pylist()
    return [
        (key["run"] if names_run else None, key["target"], key["item"], key["epoch"])
        for key in keys
    ]


def _cells(batch: pa.Table, name: str) -> list[str | None]:
    if name not in batch.column_names:
        return [None] * batch.num_rows
    return [_text(value) for value in batch[name].to_pylist()]


def _text(value: Any) -> str | None:
    """A cell as text; a list or an object, such as a conversation, as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return json.dumps(value, ensure_ascii=False, default=str)
