"""The judgements table of a PyRIT source, row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import BY_NAME, TEXT, Status
from safemetry.readers.mapped_fields import CONTEXT, mapped_fields, translated_fields
from safemetry.readers.pyrit_conversations import Conversation, Conversations
from safemetry.readers.pyrit_records import ERROR_FIELD, NO_ERROR, Memory, Piece, Why
from safemetry.readers.source import Source

_ROW: Final = (
    "target", "item", "epoch", "judge", "call", "label", "score", "status", "reason", "benchmark",
    "category", "attack", "behaviour", "session", "turn", "timestamp", "source_file", "source_row",
)  # fmt: skip


class Verdict(NamedTuple):
    """What a judge said, or why it said nothing."""

    label: str | None = None
    score: float | None = None
    why: Why | None = None


class Rows:
    """Collects the judgements of a source."""

    def __init__(
        self,
        memory: Memory,
        conversations: Conversations,
        source: Source,
        evidence_map: EvidenceMap,
    ) -> None:
        self._memory = memory
        self._conversations = conversations
        self._source = source
        self._map = evidence_map
        self._translated = translated_fields(evidence_map)
        names = dict.fromkeys((*_ROW, *sorted(CONTEXT), *self._translated))
        self._columns: dict[str, list[Any]] = {name: [] for name in names}
        self._calls: Counter[tuple[str, str, int, str]] = Counter()
        self._responses: dict[tuple[str, str, int], tuple[Conversation, int | None]] = {}

    def responses(self) -> Iterator[tuple[Conversation, int | None, str]]:
        """(conversation, sequence of the response, item) of every response with a judgement."""
        for (_, item, _), (conversation, sequence) in self._responses.items():
            yield conversation, sequence, item

    def add(
        self,
        conversation: Conversation,
        piece: Piece | None,
        row: int,
        judge: str,
        verdict: Verdict,
    ) -> None:
        """Add one judgement.

        Raises
        ------
        InputError
            Above the limit of rows.
        """
        item = conversation.item_of(piece) if piece else conversation.item
        key = (conversation.target, item, conversation.epoch, judge)
        self._calls[key] += 1
        result = conversation.result
        sequence = piece.sequence if piece else None
        self._responses.setdefault(key[:3], (conversation, sequence))
        status, reason = verdict.why or (Status.OK, None)
        about = {**(piece.about if piece else {}), **(result.about if result else {})}
        cells: dict[str, Any] = {
            "target": conversation.target,
            "item": item,
            "epoch": conversation.epoch,
            "judge": judge,
            "call": self._calls[key],
            "label": verdict.label,
            "score": verdict.score,
            "status": str(status),
            "reason": None if reason is None else str(reason),
            "benchmark": "pyrit",
            "category": self._conversations.categories.get(conversation.base_item),
            "attack": conversation.attack,
            "behaviour": conversation.objective,
            "session": conversation.id,
            "turn": sequence,
            "timestamp": piece.timestamp if piece else result.timestamp if result else None,
            "source_file": self._source.name,
            "source_row": row,
        }
        cells |= {
            name: about[path]
            for name, path in self._map.columns.items()
            if name in CONTEXT and path in about
        }
        cells |= {path: about.get(path) for path in self._translated}
        if ERROR_FIELD in self._translated:
            cells[ERROR_FIELD] = piece.error if piece else NO_ERROR
        for name, column in self._columns.items():
            column.append(cells.get(name))
        if len(self._columns["target"]) > self._map.limits.rows:
            raise InputError(
                f"holds more than the limit of {self._map.limits.rows:,} judgements",
                file=self._source.shown,
                fix="raise limits.rows in the map if you trust the file",
            )

    def table(self) -> pa.Table:
        """The judgements; context that no row has is left out.

        Raises
        ------
        InputError
            For a map that names a field which no record has.
        """
        self._refuse_absent(self._columns)
        order = [*BY_NAME, *self._translated]
        return pa.table(
            {
                name: pa.array(cells, BY_NAME[name].type if name in BY_NAME else TEXT)
                for name in order
                if (cells := self._columns.get(name)) is not None
                and (name in _ROW or any(cell is not None for cell in cells))
            }
        )

    def _refuse_absent(self, columns: Mapping[str, Sequence[Any]]) -> None:
        has = {path for piece in self._memory.pieces for path in piece.about}
        has |= {path for attack in self._memory.attacks for path in attack.about}
        for path in mapped_fields(self._map):
            if path not in has and path != ERROR_FIELD and columns["target"]:
                raise InputError(
                    f"the map names {path!r}, which no record has",
                    file=self._source.shown,
                    fix="give a dotted path into a message piece or an attack result, such as "
                    "labels.item_id",
                )
