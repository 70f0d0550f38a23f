"""A modelbench journal, plain and compressed: each id is a prompt, graded by one annotator."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from conformance import MARKER, ReaderCase

from safemetry.readers.modelbench import ModelBenchReader

TEST = "safe-vcr-en_us-demo-1.1"
HAZARD = "safe_hazard-1.1-vcr-en_us-demo"
BENCHMARK = "general_purpose_ai_chat_benchmark-1.1-en_us-demo-default"
SUT = "target-a"


def lines_of(ids: list[str]) -> list[str]:
    entries: list[dict[str, object]] = [
        {"message": "starting journal"},
        {
            "message": "starting run",
            "run_id": "run-20250102-030405-000006",
            "benchmarks": [BENCHMARK],
            "tests": [TEST],
            "suts": [SUT],
        },
        {"message": "hazard info", "hazard": HAZARD, "benchmark": BENCHMARK, "tests": [TEST]},
        {"message": "using test items", "test": TEST, "using": len(ids), "total": len(ids)},
    ]
    for item in ids:
        sent = {"test": TEST, "prompt_id": item, "sut": SUT}
        graded = {**sent, "annotator": "guard"}
        entries += [
            {"message": "queuing item", **sent, "prompt_text": f"{MARKER} for {item}"},
            {"message": "fetched sut response", **sent, "response": {"text": MARKER}},
            {"message": "translated sut response", **sent, "response_text": f"{MARKER} said"},
            {"message": "fetched annotator response", **graded, "response": {"text": MARKER}},
            {"message": "translated annotation", **graded, "annotation": {"is_safe": True}},
            {"message": "measured item quality", **sent, "measurements": {"is_safe": 1.0}},
            {"message": "item finished", **sent},
        ]
    entries += [
        {"message": "test scored", "sut": SUT, "test": TEST, "items_finished": len(ids)},
        {"message": "finished run", "run_id": "run-20250102-030405-000006"},
        {"message": "closing journal"},
    ]
    clock = "2025-01-02T03:04:05+00:00"
    return [
        json.dumps({"timestamp": clock, **entry}, ensure_ascii=False) + "\n" for entry in entries
    ]


def make(folder: Path, ids: list[str]) -> Path:
    path = folder / "journal-run-20250102-030405-000006.jsonl"
    path.write_bytes("".join(lines_of(ids)).encode())
    return path


def make_compressed(folder: Path, ids: list[str]) -> Path:
    path = folder / "journal-run-20250102-030405-000006.jsonl.zst"
    with pa.OSFile(str(path), "wb") as sink, pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write("".join(lines_of(ids)).encode())
    return path


def item_of(item: str, _index: int) -> str:
    return f"{TEST}/{item}"


CASES = [
    ReaderCase(
        reader=ModelBenchReader(),
        suffix=".jsonl",
        make=make,
        rows=lambda n: 7 + 7 * n,
        item=item_of,
        score_text="1.0",
        lines=True,
    ),
    ReaderCase(
        reader=ModelBenchReader(),
        suffix=".jsonl.zst",
        make=make_compressed,
        rows=lambda n: 7 + 7 * n,
        item=item_of,
        text=False,
        byte_is_visible=False,
    ),
]
