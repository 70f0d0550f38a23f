"""A DeepTeam risk assessment: one test case per id, as `RiskAssessment.save` writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import MARKER, ReaderCase

from safemetry.evidence.identity import text_digest
from safemetry.readers.deepteam import DeepTeamReader


def request(item: str) -> str:
    return f"{MARKER} asks {item}"


def test_case(item: str) -> dict[str, Any]:
    return {
        "input": request(item),
        "actual_output": f"{MARKER} said",
        "expectedOutput": None,
        "metadata": {"note": MARKER},
        "vulnerability": "Toxicity",
        "turns": None,
        "vulnerability_type": "insults",
        "attack_method": "Base64",
        "risk_category": "Responsible AI",
        "score": 0.625,
        "reason": f"{MARKER} why",
        "error": None,
        "cvss_score": 0.0,
    }


def make(folder: Path, ids: list[str]) -> Path:
    counts = {"pass_rate": 1.0, "passing": len(ids), "failing": 0, "errored": 0}
    document = {
        "overview": {
            "vulnerability_type_results": [
                {"vulnerability": "Toxicity", "vulnerability_type": "insults", **counts}
            ],
            "attack_method_results": [{**counts, "attack_method": "Base64"}],
            "errored": 0,
            "run_duration": 1.5,
            "cvss_score": 0.0,
        },
        "test_cases": [test_case(item) for item in ids],
    }
    path = folder / "20260102_030405.json"
    path.write_bytes(json.dumps(document, ensure_ascii=False, indent=2).encode())
    return path


CASE = ReaderCase(
    reader=DeepTeamReader(),
    suffix=".json",
    make=make,
    rows=lambda n: n,
    map={"constants": {"target": "model-a"}},
    item=lambda item, _index: f"Toxicity/insults/Base64/{text_digest(request(item))}",
    score_text="0.625",
)
