"""A panel holds what each judge said of each response, as codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.success import SuccessRule
from safemetry.judges.coding import panel_of
from safemetry.judges.panel import NO_VERDICT, majority

XSTEST = {
    "constants": {"benchmark": "xstest"},
    "columns": {"target": "model", "item": "item_id"},
    "label_columns": {
        "human_1": "human_1",
        "human_2": "human_2",
        "judge_gpt4": "gpt4",
        "judge_strmatch": "strmatch",
    },
    "intent": {"column": "prompt_safety", "values": {"safe": "benign", "unsafe": "harmful"}},
    "labels": {"partial": "evasive"},
}


def rows(*calls: tuple[str, str, str, str | None], **more: list[object]) -> pa.Table:
    target, item, judge, label = zip(*calls, strict=True)
    return pa.table(
        {
            "target": list(target),
            "item": list(item),
            "judge": list(judge),
            "label": pa.array(label, pa.string()),
            **more,
        }
    )


def test_counts_of_the_real_judges(shared: Path) -> None:
    from safemetry.evidence.maps import make_map
    from safemetry.readers import read_evidence

    source = shared / "data/xstest_v2/labels_wide.csv"
    evidence = read_evidence(str(source), evidence_map=make_map(XSTEST), kind="labels")
    panel = panel_of(evidence)
    assert panel.judges == ("gpt4", "human_1", "human_2", "strmatch")
    assert panel.responses == 2250
    assert panel.missing["gpt4"] == {"unstated": 11}
    of_llama = panel.select(rows=panel.target.codes == panel.target.names.index("llama2orig"))
    evasive = panel.classes.index("evasive")
    counts = (of_llama.labels == evasive).sum(axis=0)
    assert dict(zip(panel.judges, counts.tolist(), strict=True)) == {
        "gpt4": 14,
        "human_1": 55,
        "human_2": 53,
        "strmatch": 0,
    }
    assert panel.can_emit[:, evasive].tolist() == [True, True, True, False]
    assert not panel.declared.any()


def test_repeated_calls_are_kept_and_their_majority_is_the_label() -> None:
    table = rows(
        ("m", "q", "j", "refuse"),
        ("m", "q", "j", "comply"),
        ("m", "q", "j", "comply"),
        ("m", "r", "j", "refuse"),
        ("m", "r", "j", "comply"),
        ("m", "r", "j", None),
        call=[1, 2, 3, 1, 2, 3],
        status=["ok"] * 5 + ["error"],
        reason=[None] * 5 + ["grader_failed"],
    )
    panel = panel_of(as_evidence(table, {"intent": "harmful"}))
    assert panel.calls.shape == (3, 2, 1)
    by_item = dict(
        zip(
            (panel.item.names[code] for code in panel.item.codes),
            panel.labels[:, 0].tolist(),
            strict=True,
        )
    )
    assert by_item == {"q": 2, "r": NO_VERDICT}
    assert panel.missing == {"j": {"grader_failed": 1}}


def test_the_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    calls = [
        (target, item, judge, str(rng.choice(["refuse", "evasive", "comply"])))
        for target in ("m", "n")
        for item in "abcde"
        for judge in ("j", "k", "l")
    ]
    first = panel_of(as_evidence(rows(*calls), {"intent": "harmful"}))
    places = rng.permutation(len(calls))
    other = panel_of(as_evidence(rows(*(calls[i] for i in places)), {"intent": "harmful"}))
    assert np.array_equal(first.labels, other.labels)
    assert np.array_equal(first.item.codes, other.item.codes)


def test_declared_classes_count_although_they_were_never_used() -> None:
    table = rows(("m", "q", "j", "refuse"), ("m", "q", "k", "comply"))
    entries = {"intent": "harmful", "judges": {"j": {"classes": ["refuse", "comply"]}}}
    panel = panel_of(as_evidence(table, entries))
    assert panel.can_emit.tolist() == [[True, False, True], [False, False, True]]
    assert panel.declared.tolist() == [True, False]


def test_scores_need_a_threshold_and_become_two_classes() -> None:
    table = pa.table(
        {
            "target": ["m"] * 4,
            "item": ["a", "a", "b", "b"],
            "judge": ["up", "down", "up", "down"],
            "score": [0.9, 0.1, 0.2, 0.8],
        }
    )
    scale = {"scale_min": 0, "scale_max": 1}
    entries = {
        "intent": "harmful",
        "judges": {"up": {**scale, "higher_is": "worse"}, "down": {**scale, "higher_is": "safer"}},
    }
    evidence = as_evidence(table, entries)
    with pytest.raises(InputError, match="not labels"):
        panel_of(evidence)
    panel = panel_of(evidence, success=SuccessRule.parse("at_least:0.5"))
    assert panel.classes == ("below", "at_least:0.5")
    assert panel.labels.tolist() == [[1, 1], [0, 0]]


def test_a_cluster_is_the_behaviour_and_else_the_item() -> None:
    table = rows(
        ("m", "a", "j", "refuse"),
        ("m", "b", "j", "refuse"),
        ("m", "c", "j", "refuse"),
        ("n", "c", "j", "refuse"),
        behaviour=["x", "x", None, None],
    )
    panel = panel_of(as_evidence(table, {"intent": "harmful"}))
    names = [panel.item.names[code] for code in panel.item.codes]
    units: dict[str, set[int]] = {}
    for name, unit in zip(names, panel.cluster.tolist(), strict=True):
        units.setdefault(name, set()).add(unit)
    assert units["a"] == units["b"] != units["c"]
    assert len(units["c"]) == 1


def test_an_unknown_judge_is_named_with_those_there_are() -> None:
    panel = panel_of(as_evidence(rows(("m", "q", "j", "refuse")), {"intent": "harmful"}))
    with pytest.raises(InputError, match="there is no judge 'k'; the judges are j"):
        panel.select(judges=["k"])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_majority_agrees_with_counting_by_hand(count: int) -> None:
    rng = np.random.default_rng(count)
    calls = rng.integers(-1, 3, (count, 200, 2)).astype(np.int8)
    found = majority(calls, 3)
    for place in np.ndindex(200, 2):
        votes = np.bincount(calls[(slice(None), *place)] + 1, minlength=4)[1:]
        leaders = np.flatnonzero(votes == votes.max())
        expected = leaders[0] if votes.max() and len(leaders) == 1 else NO_VERDICT
        assert found[place] == expected
