"""The samples of a task: each id is the number of a document, with two metrics."""

from __future__ import annotations

import json
from pathlib import Path

from conformance import MARKER, ReaderCase

from safemetry.readers.lm_eval import LmEvalReader


def document(item: str) -> dict[str, object]:
    return {
        "doc_id": item,
        "doc": {"question": f"{MARKER} for {item}"},
        "target": MARKER,
        "arguments": {"gen_args_0": {"arg_0": f"{MARKER} for {item}", "arg_1": {"until": ["\n"]}}},
        "resps": [[f"{MARKER} said"]],
        "filtered_resps": [f"{MARKER} said"],
        "filter": "none",
        "metrics": ["exact_match", "length"],
        "exact_match": 0.625,
        "length": 12,
    }


def make(folder: Path, ids: list[str]) -> Path:
    path = folder / "samples_demo_2025-01-02T03-04-05.678901.jsonl"
    lines = [json.dumps(document(item), ensure_ascii=False) + "\n" for item in ids]
    path.write_bytes("".join(lines).encode())
    return path


CASE = ReaderCase(
    reader=LmEvalReader(),
    suffix=".jsonl",
    make=make,
    rows=lambda n: n,
    map={"constants": {"target": "target-a"}},
    item=lambda item, _index: f"demo/{item}",
    score_text="0.625",
    lines=True,
)
