"""A HELM run folder: HarmBench with its two judges, one instance per id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import MARKER, ReaderCase

from safemetry.readers.helm import HelmReader

MODEL = "maker/model-1"
RUN = "harm_bench:model=maker_model-1"


def instance(item: str) -> dict[str, Any]:
    return {
        "input": {"text": f"{MARKER} asks"},
        "references": [{"output": {"text": "illegal"}, "tags": []}],
        "split": "test",
        "id": item,
    }


def request_state(item: str) -> dict[str, Any]:
    return {
        "instance": instance(item),
        "train_trial_index": 0,
        "request": {"model": MODEL, "prompt": f"{MARKER} asks", "top_p": 1},
        "result": {
            "success": True,
            "completions": [
                {"text": f"{MARKER} answers", "finish_reason": {"reason": "stop"}, "tokens": []}
            ],
            "request_datetime": 1719367089,
        },
        "annotations": {
            "harm_bench": {
                "prompt_text": f"{MARKER} rubric",
                "gpt_score": 0.625,
                "gpt_reasoning": MARKER,
                "llama_score": 1.0,
                "llama_reasoning": MARKER,
            }
        },
    }


def make(folder: Path, ids: list[str]) -> Path:
    run = folder / RUN.replace(":", "-")
    run.mkdir()
    adapter = {
        "method": "generation",
        "model": MODEL,
        "model_deployment": MODEL,
        "temperature": 0.0,
        "instructions": MARKER,
    }
    documents = {
        "run_spec.json": {
            "name": RUN,
            "scenario_spec": {"class_name": "helm.HarmBenchScenario", "args": {}},
            "adapter_spec": adapter,
            "groups": ["harm_bench"],
            "annotators": [{"class_name": "helm.HarmBenchAnnotator", "args": {}}],
        },
        "scenario_state.json": {
            "adapter_spec": adapter,
            "request_states": [request_state(item) for item in ids],
        },
    }
    for name, document in documents.items():
        text = json.dumps(document, ensure_ascii=False, indent=1)
        (run / name).write_bytes(text.encode())
    return run


CASE = ReaderCase(
    reader=HelmReader(),
    suffix="",
    make=make,
    rows=lambda n: n,
    main_file="scenario_state.json",
    score_text="0.625",
)
