"""PyRIT: a JSON export and a memory database, one scored prompt per id."""

from __future__ import annotations

import json
from pathlib import Path

from conformance import MARKER, ReaderCase
from pyrit_sources import attack_result, memory_of, objective_of, piece, score, write_memory

from safemetry.evidence.identity import text_digest
from safemetry.readers.pyrit import PyritReader


def make_export(folder: Path, ids: list[str]) -> Path:
    pieces = []
    for number, item in enumerate(ids):
        answer = piece(number, "assistant", f"{MARKER} answers")
        answer["scores"] = [score(number, item)]
        pieces += [piece(number, "user", objective_of(item)), answer]
    path = folder / "export.json"
    path.write_bytes(json.dumps(pieces, ensure_ascii=False, indent=4).encode())
    return path


def make_memory(folder: Path, ids: list[str]) -> Path:
    pieces = json.loads(make_export(folder, ids).read_bytes())
    (folder / "export.json").unlink()
    results = [attack_result(number, item) for number, item in enumerate(ids)]
    return write_memory(folder / "pyrit.db", memory_of(pieces, AttackResultEntries=results))


def item_of(item: str, _index: int) -> str:
    return f"PromptSendingAttack/{text_digest(objective_of(item))}"


CASES = [
    ReaderCase(
        reader=PyritReader(),
        suffix=".json",
        make=make_export,
        rows=lambda n: 2 * n,
        item=item_of,
    ),
    ReaderCase(
        reader=PyritReader(),
        suffix=".db",
        make=make_memory,
        rows=lambda n: 3 * n,
        item=item_of,
        text=False,
        byte_is_visible=False,
    ),
]
