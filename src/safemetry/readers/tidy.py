"""Tidy tables: one row per judge call."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from safemetry.evidence.frames import ROW
from safemetry.evidence.maps import EvidenceMap, FromColumn
from safemetry.evidence.naming import near_misses
from safemetry.evidence.schema import COLUMNS, RESPONSE_KEY
from safemetry.readers import labels
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.source import Source
from safemetry.readers.table import Sample
from safemetry.readers.table_texts import read_texts_of_rows
from safemetry.readers.tables import read_sample, read_table

_REQUIRED = tuple(column.name for column in COLUMNS if column.required)


def is_tidy(names: Collection[str], evidence_map: EvidenceMap) -> bool:
    """Whether columns of these names, after the map, make a tidy judgements table."""
    known = {*names, *evidence_map.constants}
    known |= {ours for ours, theirs in evidence_map.columns.items() if theirs in names}
    return known.issuperset(_REQUIRED) and bool(known & {"label", "score"})


def used_columns(evidence_map: EvidenceMap) -> set[str]:
    """Names of the source that can stand for one of our columns; the map need not name all."""
    translated = (evidence_map.intent, evidence_map.status)
    used = {evidence_map.columns.get(column.name, column.name) for column in COLUMNS}
    return used | {spec.column for spec in translated if isinstance(spec, FromColumn)}


class TidyReader:
    """CSV, JSON lines or Parquet with `target`, `item` and `label` or `score`."""

    name = "tidy"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the file is a table with the columns of a tidy one."""
        sample = read_sample(source)
        return sample is not None and self.fits(sample, EvidenceMap())

    def fits(self, sample: Sample, evidence_map: EvidenceMap) -> bool:
        """Whether the map makes the table a tidy one, and does not call it a label table."""
        declared = labels.is_declared(sample.names, evidence_map)
        return is_tidy(sample.names, evidence_map) and not declared

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """The table as it is; the border gives its columns their names and types.

        Raises
        ------
        InputError
            Where it is damaged, empty or no table.
        """
        used = used_columns(evidence_map)
        table = read_table(source, evidence_map.encoding, columns=used)
        named = used - {column.name for column in COLUMNS}
        if not is_tidy(table.columns, evidence_map) or not named <= set(table.columns):
            # The error of the border lists what columns there are.
            table = read_table(source, evidence_map.encoding)
        sample = read_sample(source)
        return Conversion(
            judgements=table.data,
            rows_read=table.rows,
            warnings=near_misses(sample.names, evidence_map) if sample else (),
            named=False,
            # Rows that bring their numbers along were lines of another file.
            header_lines=0 if ROW in table.columns else table.header_lines,
        )

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The cells of the columns `prompt` and `response`, as far as the table has them.

        Raises
        ------
        InputError
            Where it is damaged or no table.
        """
        columns = {name: evidence_map.columns.get(name, name) for name in RESPONSE_KEY}
        return read_texts_of_rows(source, evidence_map, columns)
