"""Every Eval Ever: lines alone, a record with its lines, and a folder; one sample per id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import MARKER, ReaderCase

from safemetry.readers.every_eval_ever import EveryEvalEverReader

EVALUATION = "harmless/maker_model-1/1767225600"
UUID = "9f1d2c3b-4a5e-4f60-8a7b-0c1d2e3f4a5b"


def line(item: str) -> dict[str, Any]:
    return {
        "schema_version": "0.3.0",
        "evaluation_id": EVALUATION,
        "model_id": "maker/model-1",
        "evaluation_name": "harmless",
        "evaluation_result_id": "harmless/severity",
        "sample_id": item,
        "sample_hash": None,
        "interaction_type": "single_turn",
        "input": {"raw": f"{MARKER} asks", "reference": [MARKER]},
        "output": {"raw": [f"{MARKER} answers"]},
        "messages": None,
        "answer_attribution": [
            {
                "turn_idx": 0,
                "source": "output.raw",
                "extracted_value": MARKER,
                "extraction_method": "llm_judge",
                "is_terminal": True,
            }
        ],
        "evaluation": {"score": 0.625, "is_correct": True},
        "error": None,
        "metadata": {"epoch": "1", "note": MARKER},
    }


def record(lines: int) -> dict[str, Any]:
    details = {"deployment_type": "unknown", "model_availability": "unknown"}
    return {
        "schema_version": "0.3.0",
        "evaluation_id": EVALUATION,
        "retrieved_timestamp": "1767225600",
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "unknown", "version": "unknown"},
        "model_info": {
            "name": "model-1",
            "id": "maker/model-1",
            "developer": "maker",
            "additional_details": details,
        },
        "evaluation_results": [
            {
                "evaluation_result_id": "harmless/severity",
                "evaluation_name": "harmless",
                "source_data": {"dataset_name": "harmless", "source_type": "other"},
                "metric_config": {
                    "metric_name": "severity",
                    "lower_is_better": True,
                    "score_type": "continuous",
                    "min_score": 0,
                    "max_score": 1,
                    "llm_scoring": {
                        "judges": [
                            {
                                "model_info": {
                                    "name": "grader",
                                    "id": "maker/grader",
                                    "additional_details": details,
                                }
                            }
                        ],
                        "input_prompt": f"{MARKER} rubric",
                    },
                },
                "score_details": {"score": 0.625},
                "generation_config": {
                    "generation_args": {"temperature": 0.5, "prompt_template": MARKER}
                },
            }
        ],
        "detailed_evaluation_results": {
            "format": "jsonl",
            "file_path": f"data/harmless/maker/model-1/{UUID}_samples.jsonl",
            "total_rows": lines,
        },
    }


def write_lines(folder: Path, ids: list[str]) -> Path:
    path = folder / f"{UUID}_samples.jsonl"
    text = "".join(json.dumps(line(item), ensure_ascii=False) + "\n" for item in ids)
    path.write_bytes(text.encode())
    return path


def write_record(folder: Path, ids: list[str]) -> Path:
    write_lines(folder, ids)
    path = folder / f"{UUID}.json"
    path.write_bytes(json.dumps(record(len(ids)), ensure_ascii=False, indent=1).encode())
    return path


def write_folder(folder: Path, ids: list[str]) -> Path:
    below = folder / "data" / "harmless" / "maker" / "model-1"
    below.mkdir(parents=True)
    write_record(below, ids)
    return folder


CASES = [
    ReaderCase(
        reader=EveryEvalEverReader(),
        suffix=".jsonl",
        make=write_lines,
        rows=lambda n: n,
        score_text="0.625",
        lines=True,
        name="eee-lines",
    ),
    ReaderCase(
        reader=EveryEvalEverReader(),
        suffix="",
        make=write_folder,
        rows=lambda n: n + 1,
        main_file=f"data/harmless/maker/model-1/{UUID}.json",
        name="eee-record",
    ),
    ReaderCase(
        reader=EveryEvalEverReader(),
        suffix="",
        make=write_folder,
        rows=lambda n: n + 1,
        main_file=f"data/harmless/maker/model-1/{UUID}_samples.jsonl",
        score_text="0.625",
        lines=True,
        name="eee-folder",
    ),
]
