"""Reading foreign logs: our judgements against the plain parsing of the same JSON.

The logs are made here, with prompts and responses of ordinary length. Parsing is the least that
any reader has to do, so the ratio says what everything else costs.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.timing import Row, compare

TEXT = "A sentence of a prompt or of a response that is neither harmful nor of any interest. "


def garak_entries(attempts: int) -> Iterator[dict[str, Any]]:
    """A report with two responses to each attempt, written before and after detection."""
    run = str(uuid.UUID(int=1))
    yield {
        "entry_type": "start_run setup",
        "transient.run_id": run,
        "run.eval_threshold": 0.5,
        "plugins.target_type": "test",
        "plugins.target_name": "Blank",
    }
    yield {"entry_type": "init", "garak_version": "0.14.0", "run": run}
    for status in (1, 2):
        for number in range(attempts):
            turn = {"text": f"{number} {TEXT * 6}", "lang": "en", "notes": {}}
            outputs = [{"text": f"{way} {TEXT * 12}", "lang": "en", "notes": {}} for way in "ab"]
            yield {
                "entry_type": "attempt",
                "uuid": str(uuid.UUID(int=number + 2)),
                "seq": number,
                "status": status,
                "probe_classname": f"probes.P{number % 20}",
                "targets": [],
                "prompt": {"turns": [{"role": "user", "content": turn}], "notes": {}},
                "outputs": outputs,
                "detector_results": {"dan.DAN": [number % 2, 0.625]} if status == 2 else {},
                "notes": {},
                "goal": "none",
                "conversations": [],
                "reverse_translation_outputs": [],
            }
    yield {"entry_type": "completion", "run": run}


def make_garak(folder: Path, attempts: int) -> Path:
    """The report, made once."""
    path = folder / f"garak_{attempts}.report.jsonl"
    if not path.exists():
        with path.open("w") as stream:
            stream.writelines(json.dumps(entry) + "\n" for entry in garak_entries(attempts))
    return path


def make_helm(folder: Path, instances: int) -> Path:
    """A run of HarmBench with its two judges, made once."""
    name, model = "harm_bench:model=maker_model-1", "maker/model-1"
    run = folder / f"helm_{instances}"
    if run.exists():
        return run
    adapter = {"method": "generation", "model": model, "model_deployment": model}
    spec = {
        "name": name,
        "scenario_spec": {"class_name": "helm.HarmBenchScenario", "args": {}},
        "adapter_spec": adapter,
        "groups": ["harm_bench"],
        "annotators": [{"class_name": "helm.HarmBenchAnnotator", "args": {}}],
    }
    states = [
        {
            "instance": {
                "input": {"text": TEXT * 6},
                "references": [{"output": {"text": "illegal"}, "tags": []}],
                "split": "test",
                "id": f"id{number}",
            },
            "train_trial_index": 0,
            "request": {"model": model, "prompt": TEXT * 6, "top_p": 1},
            "result": {
                "success": True,
                "completions": [
                    {"text": TEXT * 12, "finish_reason": {"reason": "stop"}, "tokens": []}
                ],
                "request_datetime": 1719367089,
            },
            "annotations": {
                "harm_bench": {
                    "prompt_text": TEXT * 12,
                    "gpt_score": 0.625,
                    "gpt_reasoning": TEXT * 2,
                    "llama_score": 1.0,
                    "llama_reasoning": TEXT * 2,
                }
            },
        }
        for number in range(instances)
    ]
    unfinished = folder / f"{run.name}.unfinished"
    unfinished.mkdir(exist_ok=True)
    for file, document in (
        ("run_spec.json", spec),
        ("scenario_state.json", {"adapter_spec": adapter, "request_states": states}),
    ):
        (unfinished / file).write_text(json.dumps(document, indent=1))
    return unfinished.rename(run)


def measure(folder: Path, records: int, repeats: int) -> list[Row]:
    """The rows of the table about reading."""
    from safemetry.evidence.maps import EvidenceMap
    from safemetry.readers.garak import GarakReader
    from safemetry.readers.helm import HelmReader
    from safemetry.readers.source import Source

    report, run = make_garak(folder, records), make_helm(folder, records)

    def read(reader: Any, path: Path) -> int:
        rows: int = reader.read(Source(str(path)), EvidenceMap()).judgements.num_rows
        assert rows >= records
        return rows

    def parse_lines() -> int:
        with report.open("rb") as stream:
            return sum(len(json.loads(line)) for line in stream)

    size = report.stat().st_size / 1e6
    helm_size = (run / "scenario_state.json").stat().st_size / 1e6
    return [
        compare(
            f"garak report, {records:,} attempts x 2 responses, {size:.0f} MB",
            lambda: read(GarakReader(), report),
            parse_lines,
            repeats,
            peer_name="json.loads of each line",
        ),
        compare(
            f"HELM run, {records:,} instances x 2 judges, {helm_size:.0f} MB",
            lambda: read(HelmReader(), run),
            lambda: json.loads((run / "scenario_state.json").read_bytes()),
            repeats,
            peer_name="json.loads of the file",
        ),
    ]


def measure_inspect(folder: Path, samples: int) -> list[Row]:
    """The row about Inspect logs; none without Inspect."""
    try:
        from benchmarks import inspect_log

        found = inspect_log.measure(folder, samples)
    except ImportError:
        return []
    return [
        Row(
            job=row["job"],
            ours=row["ours_seconds"],
            peer=row["peer_seconds"],
            peak=row["peak_mb"],
            peer_peak=row["peer_peak_mb"],
            peer_name=f"{row['peer']} (memory: growth alone)",
        )
        for row in found
    ]
