"""Tidy tables: one row per judge call."""

from __future__ import annotations

from typing import ClassVar

from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import COLUMNS
from safemetry.readers.conversion import Conversion
from safemetry.readers.source import Source
from safemetry.readers.tables import read_table, sample_table

_REQUIRED = tuple(column.name for column in COLUMNS if column.required)


def is_tidy(names: set[str], evidence_map: EvidenceMap) -> bool:
    """Whether columns of these names, after the map, make a tidy judgements table."""
    known = names | set(evidence_map.constants)
    known |= {ours for ours, theirs in evidence_map.columns.items() if theirs in names}
    return known.issuperset(_REQUIRED) and bool(known & {"label", "score"})


class TidyReader:
    """CSV, JSON lines or Parquet with `target`, `item` and `label` or `score`."""

    name: ClassVar[str] = "tidy"
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        """Whether the file is a table with the columns of a tidy one."""
        return self.fits(source, EvidenceMap())

    def fits(self, source: Source, evidence_map: EvidenceMap) -> bool:
        """Whether the map makes the file a tidy table."""
        sample = sample_table(source, evidence_map.encoding)
        return sample is not None and is_tidy(set(sample.column_names), evidence_map)

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """The table as it is; the border gives its columns their names and types."""
        table = read_table(source, evidence_map.encoding)
        return Conversion(
            judgements=table.data,
            rows_read=table.rows,
            named=False,
            header_lines=table.header_lines,
        )
