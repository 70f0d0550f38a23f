"""Lines of Every Eval Ever: one judgement each, without texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from safemetry.evidence import every_eval_ever as words
from safemetry.evidence.schema import Status
from safemetry.rates.every_eval_ever_figures import UNKNOWN, Figures


def line_of(row: Mapping[str, Any], evaluation: str, figures: Figures) -> dict[str, Any]:
    """A judgement as a line that the schema accepts.

    Parameters
    ----------
    row
        A row of the judgements table.
    evaluation
        ``evaluation_id`` of its record.
    figures
        The figures of the records, to one of which the line may belong.
    """
    score, holds_score = figures.counts(row)
    correct = figures.is_correct(row)
    result = figures.result_of(row)
    line: dict[str, Any] = {
        "schema_version": words.SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "model_id": row["target"],
        "evaluation_name": row["benchmark"] or UNKNOWN,
        "sample_id": row["item"],
        "input": {"raw": "", "reference": []},
        "answer_attribution": [],
        "evaluation": {
            "score": words.UNKNOWN_SCORE if score is None else score,
            "is_correct": correct is True,
        },
        "metadata": _metadata(row, holds_score=holds_score, decides=correct is not None),
    }
    if result is not None:
        line["evaluation_result_id"] = result
    if row["session"] is not None or (row["turn"] or 1) > 1:
        line |= {"interaction_type": "multi_turn", "messages": []}
    else:
        line |= {"interaction_type": "single_turn", "output": {"raw": []}}
    if row["status"] != Status.OK:
        line["error"] = f"{row['status']}: {row['reason'] or 'no reason stated'}"
    return line


def _metadata(row: Mapping[str, Any], *, holds_score: bool, decides: bool) -> dict[str, str]:
    """What the format has no field for, so that the line reads back as the same judgement."""
    kept = {words.EXPORTED: words.EXPORT_VERSION, "is_correct_applicable": str(decides).lower()}
    for column in words.KEPT:
        value = row[column.name]
        # A default that is left out reads back as itself.
        if value is not None and (column.name == "epoch" or value != column.default):
            kept[column.name] = str(value)
    kept["judge"] = row["judge"]
    if row["score"] is not None and not holds_score:
        kept[words.SCORE] = repr(row["score"])
    return kept
