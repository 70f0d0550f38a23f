"""A JailbreakBench artifact: one entry per id, judged by both judges."""

from __future__ import annotations

import json
from pathlib import Path

from conformance import MARKER, ReaderCase

from safemetry.readers.jailbreakbench import JailbreakBenchReader


def entry(item: str) -> dict[str, object]:
    return {
        "index": item,
        "goal": f"{MARKER} is asked for",
        "behavior": "Secret token",
        "category": "Privacy",
        "prompt": f"{MARKER} asks",
        "response": f"{MARKER} answers",
        "number_of_queries": 3,
        "queries_to_jailbreak": None,
        "prompt_tokens": 10,
        "response_tokens": 20,
        "jailbroken": True,
        "jailbroken_llama_guard1": False,
    }


def make(folder: Path, ids: list[str]) -> Path:
    artifact = {
        "parameters": {
            "method": "Ask",
            "model": "model-1",
            "attack_type": "manual",
            "defense": None,
            "attack_success_rate": 1.0,
            "total_number_of_jailbreaks": len(ids),
            "number_of_submitted_prompts": len(ids),
            "evaluation_date": "2026-01-02",
            "evaluation_llm_provider": "vllm",
            "method_parameters": {"template": f"{MARKER} frames", "tries": 3},
        },
        "jailbreaks": [entry(item) for item in ids],
    }
    path = folder / "model-1.json"
    path.write_bytes(json.dumps(artifact, ensure_ascii=False, indent=4).encode())
    return path


CASE = ReaderCase(
    reader=JailbreakBenchReader(),
    suffix=".json",
    make=make,
    rows=lambda n: n,
    item=lambda item, _index: f"Ask/{item}",
)
