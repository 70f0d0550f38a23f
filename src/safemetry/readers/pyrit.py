"""PyRIT: the memory database of releases 0.10 to 1.1, and JSON exports of 0.8 to 0.14.

Both hold conversations as message pieces, and verdicts of scorers on them; the database holds the
results of attacks too. Each scorer is a judge, and so is the outcome of an attack.

docs/readers-pyrit.md says what becomes of each field and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.mapped_fields import mapped_fields
from safemetry.readers.pyrit_conversations import Conversation
from safemetry.readers.pyrit_judging import Judging
from safemetry.readers.pyrit_memory import looks_like_memory, read_memory
from safemetry.readers.pyrit_pieces import looks_like_pieces, read_pieces
from safemetry.readers.pyrit_records import NO_ERROR, Memory, Piece, Wanted
from safemetry.readers.source import Source
from safemetry.readers.sqlite_file import MAGIC

_DUCKDB: Final = slice(8, 12)
"""Where a DuckDB file says what it is."""


class PyritReader:
    """Reads memory databases and JSON exports of PyRIT."""

    name = "pyrit"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the file is a memory database, or a list of message pieces."""
        if source.is_folder:
            return False
        return looks_like_pieces(source.head) or looks_like_memory(source)

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert a database or an export.

        Raises
        ------
        InputError
            Where it is neither, of an unknown release, damaged, being written, or without verdicts.
        """
        memory = _records(source, Wanted(paths=mapped_fields(evidence_map)))
        return Judging(memory, source, evidence_map).conversion()

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """What was asked and answered, for each response that was judged.

        Raises
        ------
        InputError
            Where the source cannot be read.
        """
        memory = _records(source, Wanted(paths=mapped_fields(evidence_map), texts=True))
        judging = Judging(memory, source, evidence_map)
        for conversation, sequence, item in judging.judged():
            yield _text_of(conversation, sequence, item)


def _records(source: Source, wanted: Wanted) -> Memory:
    if source.is_folder:
        raise InputError(
            "is a folder, a memory of PyRIT is one file",
            file=source.shown,
            fix="name the database or the JSON inside it",
        )
    if source.head[_DUCKDB] == b"DUCK":
        raise InputError(
            "is a DuckDB database, as the memory of PyRIT before 0.10 was",
            file=source.shown,
            fix="export it with that release (export_conversations), and name the JSON",
        )
    return (read_memory if source.head.startswith(MAGIC) else read_pieces)(source, wanted)


def _text_of(conversation: Conversation, sequence: int | None, item: str) -> ResponseText:
    """The messages up to a response, and the response; what a failed one holds is none."""
    before = [p for p in conversation.pieces if sequence is None or p.sequence < sequence]
    answer = [p for p in conversation.pieces if p.sequence == sequence and p.error == NO_ERROR]
    return ResponseText(
        run=None,
        target=conversation.target,
        item=item,
        epoch=conversation.epoch,
        prompt=_written(before),
        response=_joined(answer),
    )


def _written(pieces: list[Piece]) -> str | None:
    """A prompt: one message as it is, several turn by turn."""
    turns = {piece.sequence: piece.role for piece in pieces}
    if len(turns) <= 1:
        return _joined(pieces)
    said = {at: _joined([p for p in pieces if p.sequence == at]) or "" for at in turns}
    return "\n\n".join(f"{role}: {said[at]}" for at, role in turns.items())


def _joined(pieces: list[Piece]) -> str | None:
    """The parts of one message."""
    return "\n".join(piece.text for piece in pieces if piece.text is not None) or None
