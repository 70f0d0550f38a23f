"""Ordered outcomes count the boundaries at which a response earns its reward."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.matrix import response_matrix
from safemetry.evidence.ordinal import ordinal_matrix

LABELS = ("refuse", "evasive", "comply")


def table(intent: str, labels: tuple[str | None, ...] = LABELS) -> pa.Table:
    return pa.table(
        {
            "target": ["m"] * len(labels),
            "item": [f"i{place}" for place in range(len(labels))],
            "label": pa.array(labels, pa.string()),
            "intent": [intent] * len(labels),
        }
    )


def test_harmful_and_benign_items_reward_the_two_ends():
    assert ordinal_matrix(table("harmful")).outcomes.tolist() == [[2, 1, 0]]
    assert ordinal_matrix(table("benign")).outcomes.tolist() == [[0, 1, 2]]


def test_a_missing_verdict_stays_missing():
    assert ordinal_matrix(table("harmful", ("refuse", None))).outcomes.tolist() == [[2, -1]]


@pytest.mark.parametrize(("higher_is", "expected"), [("safer", [0, 1, 2]), ("worse", [2, 1, 0])])
def test_levels_of_a_score_are_counted_from_its_worse_end(higher_is, expected):
    scores = pa.table({"target": ["m"] * 3, "item": ["a", "b", "c"], "score": [0.0, 0.5, 5.0]})
    scale = {"scale_min": 0, "scale_max": 5, "higher_is": higher_is}
    found = ordinal_matrix(scores, evidence_map={"judges": {"*": scale}})
    assert found.outcomes.tolist() == [expected]


def test_with_two_levels_it_is_the_binary_matrix():
    scores = pa.table(
        {"target": ["m", "n"] * 2, "item": ["a", "a", "b", "b"], "score": [1, 0, 1, 1]}
    )
    scale = {"judges": {"*": {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}}}
    ordered = ordinal_matrix(scores, evidence_map=scale)
    binary = response_matrix(scores, evidence_map=scale, success="at_least:1")
    np.testing.assert_array_equal(ordered.outcomes, binary.outcomes)


def test_a_score_with_many_levels_is_refused():
    scores = pa.table({"target": ["m"] * 12, "item": [*"abcdefghijkl"], "score": [*range(12)]})
    scale = {"judges": {"*": {"scale_min": 0, "scale_max": 11, "higher_is": "worse"}}}
    with pytest.raises(InputError, match="12 levels"):
        ordinal_matrix(scores, evidence_map=scale)


def test_the_real_ordinal_matrix_is_found_again_from_its_labels(shared):
    import csv

    folder = shared / "data" / "xstest_v2"
    with (folder / "matrix_human_ordinal.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    evidence_map = {
        "columns": {"target": "model", "item": "item_id", "label": "human_final"},
        "labels": {"partial": "evasive"},
        "intent": {"column": "prompt_safety", "values": {"safe": "benign", "unsafe": "harmful"}},
    }
    from safemetry import read_evidence

    found = ordinal_matrix(
        read_evidence(str(folder / "labels_wide.csv"), kind="tidy", evidence_map=evidence_map)
    )
    place = {item: column for column, item in enumerate(found.items)}
    benign = {
        item for item, intent in zip(found.items, found.intents, strict=True) if intent == "benign"
    }
    for row in rows:
        mine = found.outcomes[found.targets.index(row[0])]
        for item, level in zip(header[1:], row[1:], strict=True):
            code = int(level) if item in benign else 2 - int(level)
            assert mine[place[item]] == code
