"""JSON exports of PyRIT 0.x: a list of message pieces, each with its scores."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.readers.pyrit_records import Memory, Score, Wanted, first_of, piece_of, score_of
from safemetry.readers.source import Source

VERSIONS: Final = "0.8 to 0.14"
"""Releases whose exports are known."""

_HEAD_KEYS: Final = (b'"role"', b'"conversation_id"', b'"sequence"')
_PIECE_KEYS: Final = (b'"original_value"', b'"converter_identifiers"', b'"prompt_metadata"')
_LIST: Final = re.compile(rb"\s*\[\s*\{")
_DUMP: Final = re.compile(rb'\s*\{\s*"(?:message_pieces|attack_results)"\s*:\s*\[')
_VERSION: Final = re.compile(r"(\d+)\.(\d+)")
_IDENTIFIERS: Final = ("prompt_target_identifier", "attack_identifier", "scorer_class_identifier")
_MEMORY: Final = (
    "name the memory database of the run instead (pyrit.db in the data folder of PyRIT); "
    "PyRIT 1.x exports no message pieces"
)


def looks_like_pieces(head: bytes) -> bool:
    """Whether the head of a file is that of an export, or of dumped models of release 1.x."""
    if _LIST.match(head):
        return all(key in head for key in _HEAD_KEYS) and any(key in head for key in _PIECE_KEYS)
    return _DUMP.match(head) is not None and b'"conversation_id"' in head


def read_pieces(source: Source, wanted: Wanted) -> Memory:
    """The records of an export.

    Raises
    ------
    InputError
        Where it is no JSON, no list of message pieces, or of an unknown release.
    """
    # Scores may carry metadata of any kind, NaN among it; no verdict is a JSON number.
    document = source.parse_json(source.read_text(), constant=lambda _: None)
    memory = Memory()
    seen: set[str] = set()
    for row, entry in enumerate(_listed(document, source), start=1):
        memory.rows = row
        try:
            _take(entry, row, memory, wanted, seen)
        except InputError as error:
            memory.failures.append(
                InputError(
                    error.problem,
                    file=source.shown,
                    row=row,
                    column=error.column,
                    fix=error.fix or "export it again",
                )
            )
    if not memory.pieces:
        first = f" ({memory.failures[0].problem})" if memory.failures else ""
        raise InputError(
            f"holds no message piece that can be read{first}",
            file=source.shown,
            fix="export it again with export_conversations",
        )
    return memory


def _listed(document: Any, source: Source) -> list[Any]:
    """The pieces, if this is an export of a known release."""
    if isinstance(document, Mapping) and (
        "message_pieces" in document or "attack_results" in document
    ):
        raise InputError(
            "holds models that a script dumped (message_pieces, attack_results), which is no "
            "format of PyRIT: which target and judge they belong to is not in it",
            file=source.shown,
            fix=_MEMORY,
        )
    first = document[0] if isinstance(document, list) and document else None
    if not isinstance(document, list) or not isinstance(first, Mapping) or "sequence" not in first:
        raise InputError(
            "is no export of PyRIT, which is a list of message pieces",
            file=source.shown,
            fix=f"name the JSON that export_conversations of release {VERSIONS} wrote, or a "
            "memory database of release 1.x",
        )
    _refuse_unknown(document, source)
    return document


def _refuse_unknown(document: list[Any], source: Source) -> None:
    """Refuse exports of other releases, naming what was found and what is known."""
    versions = {version for entry in document for version in _versions(entry)}
    newer = sorted(version for version in versions if not _is_known(version))
    if newer:
        raise InputError(
            f"was written by PyRIT {', '.join(newer)}; known are the exports of {VERSIONS}",
            file=source.shown,
            fix=_MEMORY,
        )
    if not any(isinstance(entry, Mapping) and "scores" in entry for entry in document):
        raise InputError(
            "its message pieces hold no list of scores, as those that scripts dump from release "
            f"1.x; known are the exports of {VERSIONS}",
            file=source.shown,
            fix=_MEMORY,
        )


def _versions(entry: Any) -> set[str]:
    """Releases that the identifiers of a piece and its scores name."""
    if not isinstance(entry, Mapping):
        return set()
    scores = entry.get("scores")
    holders = [entry, *(scores if isinstance(scores, list) else [])]
    found = (
        stated.get("pyrit_version")
        for holder in holders
        if isinstance(holder, Mapping)
        for name in _IDENTIFIERS
        if isinstance(stated := holder.get(name), Mapping)
    )
    # Names of unknown releases are shown, whatever they hold.
    return {ascii(version[:40])[1:-1] for version in found if isinstance(version, str)}


def _is_known(version: str) -> bool:
    numbers = _VERSION.match(version.lstrip("<"))
    return numbers is not None and int(numbers[1]) == 0 and int(numbers[2]) <= 14


def _take(entry: Any, row: int, memory: Memory, wanted: Wanted, seen: set[str]) -> None:
    if not isinstance(entry, Mapping):
        raise InputError("is no message piece")
    piece = piece_of(entry, row, wanted)
    if piece.id in seen:
        raise InputError(
            "the message piece was read before", column="id", fix="remove the second copy"
        )
    listed = entry.get("scores")
    if not isinstance(listed, list):
        raise InputError("is no list", column="scores")
    scores = [_score(score, piece.id) for score in listed]
    seen.add(piece.id)
    memory.pieces.append(piece)
    memory.scores += scores


def _score(entry: Any, piece: str) -> Score:
    if not isinstance(entry, Mapping):
        raise InputError("holds something that is no score", column="scores")
    stated = first_of(entry, "message_piece_id", "prompt_request_response_id") or piece
    return score_of({**entry, "message_piece_id": stated})
