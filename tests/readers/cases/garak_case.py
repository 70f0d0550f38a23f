"""A garak report: one probe per id, one attempt each, written before and after detection."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from conformance import MARKER, ReaderCase

from safemetry.evidence.identity import text_digest
from safemetry.readers.garak import GarakReader

RUN = "0a1b2c3d-0000-4000-8000-000000000001"


def prompt_of(item: str) -> str:
    return f"{MARKER} for {item}"


def attempt(item: str, status: int) -> dict[str, object]:
    prompt, output = (
        {"text": text, "lang": "en", "notes": {}} for text in (prompt_of(item), f"{MARKER} said")
    )
    return {
        "entry_type": "attempt",
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, item)),
        "seq": 0,
        "status": status,
        "probe_classname": item,
        "targets": [],
        "prompt": {"turns": [{"role": "user", "content": prompt}], "notes": {}},
        "outputs": [output],
        "detector_results": {"dan.DAN": [0.625]} if status == 2 else {},
        "notes": {},
        "goal": MARKER,
        "conversations": [],
        "reverse_translation_outputs": [output],
    }


def make(folder: Path, ids: list[str]) -> Path:
    entries: list[dict[str, object]] = [
        {
            "entry_type": "start_run setup",
            "transient.run_id": RUN,
            "run.eval_threshold": 0.5,
            "plugins.target_type": "test",
            "plugins.target_name": "Blank",
        },
        {"entry_type": "init", "garak_version": "0.14.0", "run": RUN},
    ]
    entries += [attempt(item, 1) for item in ids]
    entries += [attempt(item, 2) for item in ids]
    entries += [
        {
            "entry_type": "eval",
            "probe": item,
            "detector": "dan.DAN",
            "passed": 0,
            "fails": 1,
            "nones": 0,
            "total_evaluated": 1,
        }
        for item in ids
    ]
    entries.append({"entry_type": "completion", "run": RUN})
    path = folder / "garak.report.jsonl"
    lines = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries]
    path.write_bytes("".join(lines).encode())
    return path


CASE = ReaderCase(
    reader=GarakReader(),
    suffix=".report.jsonl",
    make=make,
    rows=lambda n: 3 + 3 * n,
    item=lambda item, _index: f"{item}/{text_digest(prompt_of(item))}",
    score_text="0.625",
    lines=True,
)
