"""What a reader gives back, and what a reader is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.success import SuccessRule
from safemetry.readers.source import Source

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True)
class Conversion:
    """The judgements of one source, and what became of each of its rows.

    A row is what the source counts by: a line, a sample, an instance, an attempt. Every row read
    is converted, skipped with a reason, or failed; `converted` is what remains.

    Parameters
    ----------
    judgements
        Columns of the judgements table, by name, in any order; columns that the source does not
        know are left out. `label` holds the label as the source writes it. A file too large for
        memory may be a DuckDB relation.
    rows_read
        Rows of the source.
    skipped
        Reason -> rows that carry no judgement by their nature.
    failures
        What went wrong, one error per row that failed, in the order of the source.
    warnings
        What a reader of the numbers must know, in whole sentences.
    judges
        Identity of each judge, where the source states it.
    scales
        Scale of each judge, where the *format* fixes it. A map overrides it.
    targets
        Target -> its settings (temperature, system prompt digest, ...), where stated.
    named
        Whether the columns have our names already; if not, the map names them.
    header_lines
        Lines above the first row, where the rows of the source are lines of text.
    default_rule
        Success rule that the format implies.
    beside
        Files beside the source that decided something of this; their bytes belong to its digest.
    """

    judgements: pa.Table | duckdb.DuckDBPyRelation
    rows_read: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    failures: Sequence[InputError] = ()
    warnings: Sequence[str] = ()
    judges: Sequence[JudgeIdentity] = ()
    scales: Mapping[str, Scale] = field(default_factory=dict)
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    named: bool = True
    header_lines: int = 0
    default_rule: SuccessRule | None = None
    beside: Sequence[Path] = ()

    @property
    def converted(self) -> int:
        """Rows of the source that became judgements."""
        return self.rows_read - sum(self.skipped.values()) - len(self.failures)


@runtime_checkable
class Reader(Protocol):
    """Turns one foreign format into judgements.

    Attributes
    ----------
    name
        What ``--as`` and the import report call it.
    version
        Raised whenever the same source would give other judgements.
    """

    name: str
    version: int

    def recognises(self, source: Source) -> bool:
        """Whether the source is of this format, by its content; reads no more than its head."""
        ...

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert the source.

        Raises
        ------
        InputError
            Where the source as a whole cannot be used; a single bad row goes into `failures`.
        """
        ...


@dataclass(frozen=True)
class ResponseText:
    """What was asked and what came back, for one response.

    Parameters
    ----------
    run, target, item, epoch
        Key of the response, as in the judgements of the same source; `run` is None where the
        judgements name none either.
    prompt, response
        The texts; None where the source does not hold them. A conversation is written turn by turn.
    """

    run: str | None
    target: str
    item: str
    epoch: int
    prompt: str | None
    response: str | None


@runtime_checkable
class TextReader(Reader, Protocol):
    """A reader of a format that may hold the texts of prompts and responses.

    Texts are read only where the user asks for them; no judgement depends on one.
    """

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The texts of the responses that have a judgement, in the order of the source.

        Raises
        ------
        InputError
            Where the source cannot be read.
        """
        ...
