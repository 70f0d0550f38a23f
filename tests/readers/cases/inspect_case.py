"""Inspect logs for the conformance suite: one sample per id, two judges, both file formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conformance import MARKER, ReaderCase
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalPlan,
    EvalResults,
    EvalSample,
    EvalSpec,
    write_eval_log,
)
from inspect_ai.model import ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score

from safemetry.readers.inspect_log import InspectReader


def _sample(item: str) -> EvalSample:
    return EvalSample(
        id=item,
        epoch=1,
        input=f"question {MARKER}",
        target=f"answer {MARKER}",
        messages=[ChatMessageUser(content=f"question {MARKER}")],
        output=ModelOutput.from_content("mockllm/model", f"reply {MARKER}"),
        metadata={"category": "天气"},
        scores={
            "grade": Score(value="C", answer=MARKER, explanation=f"because {MARKER}"),
            "severity": Score(value=0.625, metadata={"note": MARKER}),
        },
    )


def _maker(suffix: str) -> Callable[[Path, list[str]], Path]:
    def make(folder: Path, items: list[str]) -> Path:
        log = EvalLog(
            status="success",
            eval=EvalSpec(
                created="2026-01-02T03:04:05+00:00",
                eval_id="evalid",
                task="benign_questions",
                dataset=EvalDataset(name="benign", samples=len(items)),
                model="mockllm/model",
                config=EvalConfig(epochs=1),
            ),
            plan=EvalPlan(),
            # Inspect's writer keeps the last of equal samples; the log still says how many ran.
            results=EvalResults(total_samples=len(items), completed_samples=len(items)),
            samples=[_sample(item) for item in items],
        )
        path = folder / f"log{suffix}"
        write_eval_log(log, str(path))
        return path

    return make


CASES = [
    ReaderCase(
        reader=InspectReader(),
        suffix=".eval",
        make=_maker(".eval"),
        rows=lambda items: items,
        text=False,
        compressed=True,
        map={"columns": {"category": "metadata.category"}},
    ),
    ReaderCase(
        reader=InspectReader(),
        suffix=".json",
        make=_maker(".json"),
        rows=lambda items: items,
        map={"columns": {"category": "metadata.category"}},
    ),
]
