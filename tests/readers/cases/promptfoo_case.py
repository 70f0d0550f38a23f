"""promptfoo results: one test per id under one prompt, as a JSON document and as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import MARKER, ReaderCase

from safemetry.evidence.identity import text_digest
from safemetry.readers.promptfoo import PromptfooReader


def asked(item: str) -> dict[str, Any]:
    return {"id": item, "question": f"{MARKER} asks"}


def result(item: str, index: int) -> dict[str, Any]:
    assertion = {"type": "llm-rubric", "value": f"{MARKER} rubric"}
    return {
        "gradingResult": {
            "pass": True,
            "score": 1,
            "reason": MARKER,
            "componentResults": [
                {"pass": True, "score": 1, "reason": f"{MARKER} why", "assertion": assertion}
            ],
        },
        "id": f"result-{index}",
        "prompt": {"raw": f"{MARKER} for {item}", "label": f"{MARKER} {{{{question}}}}"},
        "promptId": "0123456789abcdef",
        "promptIdx": 0,
        "provider": {"id": "echo", "label": "model-a"},
        "response": {"output": f"{MARKER} said"},
        "score": 1,
        "success": True,
        "testCase": {"vars": asked(item), "assert": [assertion], "description": MARKER + " test"},
        "testIdx": index,
        "vars": asked(item),
        "metadata": {"note": MARKER},
        "failureReason": 0,
    }


def write_document(folder: Path, ids: list[str]) -> Path:
    totals = {"testPassCount": len(ids), "testFailCount": 0, "testErrorCount": 0}
    document = {
        "evalId": "eval-abc-2026-01-02T03:04:05",
        "results": {
            "version": 3,
            "timestamp": "2026-01-02T03:04:05.000Z",
            "prompts": [{"raw": MARKER, "provider": "model-a", "metrics": totals}],
            "results": [result(item, index) for index, item in enumerate(ids)],
            "stats": {"successes": len(ids), "failures": 0, "errors": 0},
        },
        "config": {"description": MARKER, "providers": [{"id": "echo", "label": "model-a"}]},
        "metadata": {"promptfooVersion": "0.121.20"},
    }
    path = folder / "results.json"
    path.write_bytes(json.dumps(document, ensure_ascii=False, indent=2).encode())
    return path


def write_lines(folder: Path, ids: list[str]) -> Path:
    path = folder / "results.jsonl"
    lines = [
        json.dumps(result(item, index), ensure_ascii=False) + "\n" for index, item in enumerate(ids)
    ]
    path.write_bytes("".join(lines).encode())
    return path


def by_content(item: str, _index: int) -> str:
    content = [MARKER + " test", asked(item), None, None]
    return f"test/{text_digest(json.dumps(content, sort_keys=True))}"


def count(n: int) -> int:
    return n


CASES = [
    ReaderCase(
        reader=PromptfooReader(),
        suffix=".json",
        make=write_document,
        rows=count,
        map={"columns": {"item": "vars.id"}},
    ),
    ReaderCase(
        reader=PromptfooReader(),
        suffix=".jsonl",
        make=write_lines,
        rows=count,
        item=by_content,
        lines=True,
    ),
]
