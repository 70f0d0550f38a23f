"""The whole audit of judges: published sets, a simulated roster, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.maps import make_map, read_map
from safemetry.judges import JudgeSettings, JudgesFinding, audit_judges
from safemetry.readers import read_evidence

AssertSound = Callable[..., dict[str, Any]]
MAPS = Path(__file__).parents[2] / "docs/maps"
NAMES = ("refuse", "evasive", "comply")


def table_of(labels: np.ndarray, judges: list[str]) -> pa.Table:
    """Judgements of one target, from codes of classes (R, J)."""
    rows = len(labels)
    return pa.table(
        {
            "target": ["m"] * labels.size,
            "item": [str(row) for row in range(rows) for _ in judges],
            "judge": judges * rows,
            "label": [NAMES[code] for code in labels.ravel()],
        }
    )


@pytest.fixture(scope="module")
def xstest(shared: Path) -> JudgesFinding:
    """XSTest under two people, their final label, GPT-4 and string matching."""
    entries = read_map(MAPS / "xstest_v2_all_judges.yaml")
    source = str(shared / "data/xstest_v2/labels_wide.csv")
    evidence = read_evidence(source, evidence_map=entries, kind="labels")
    settings = JudgeSettings(gold=("human_final",), humans=("human_1", "human_2"), draws=200)
    return audit_judges(evidence, settings=settings)


def test_every_part_of_xstest_is_there_and_sound(
    xstest: JudgesFinding, assert_sound: AssertSound
) -> None:
    found = assert_sound(xstest)
    for name in ("counts", "collapse", "movement", "spread", "corrected", "specifications"):
        assert found[name]
    states = {
        (row["target"], row["judge"]): row["state"]
        for row in found["collapse"]
        if row["class"] == "evasive"
    }
    assert states["llama2orig", "gpt4"] == "collapsed"
    assert states["llama2orig", "strmatch"] == "cannot_emit"
    assert states["gpt4", "gpt4"] == "not_applicable"
    assert xstest.chart() is not None


def test_agreement_of_xstest(xstest: JudgesFinding) -> None:
    pairs = {
        (row["first"], row["second"]): row["coefficients"]
        for row in xstest.to_dict()["agreement"]["pairs"]
        if row["intent"] == "all"
    }
    people = pairs["human_1", "human_2"]
    assert people["raw"]["estimate"] == pytest.approx(0.964, abs=0.0005)
    assert people["cohen"]["estimate"] == pytest.approx(0.937, abs=0.0005)
    machine = pairs["gpt4", "human_final"]
    assert machine["raw"]["estimate"] == pytest.approx(0.803, abs=0.0005)
    assert machine["cohen"]["estimate"] == pytest.approx(0.634, abs=0.0005)


def test_corrected_rates_of_a_fully_labelled_set_are_those_of_gold(xstest: JudgesFinding) -> None:
    found = [
        row["estimate"]
        for row in xstest.to_dict()["corrected"]
        if (row["intent"], row["boundary"], row["judge"]) == ("harmful", "comply", "strmatch")
        and not row["pooled"]
    ]
    assert found == [pytest.approx(0.136, abs=0.001)] * 3  # whichever the method


def test_the_page_of_xstest(xstest: JudgesFinding) -> None:
    from safemetry.report.report import Report
    from safemetry.report.sections.judges import judges_part

    report = Report(title="t", subtitle="s", parts={"judges": judges_part(xstest)})
    page = report.to_html()
    assert "<script" not in page
    assert "gpt4" in page
    assert report.to_markdown()


def test_the_published_roster(roster: Any) -> None:
    evidence = as_evidence(table_of(roster.labels, list(roster.judges)), {"intent": "harmful"})
    found = audit_judges(evidence, draws=100)
    assert set(found.collapsed) == {"judge-15", "judge-16", "judge-17"}
    (comply,) = [row for row in found.spread if row.boundary == "comply"]
    assert comply.everyone.ratio == pytest.approx(24.8, abs=0.03)
    (more,) = [row for row in found.spread if row.boundary == "non_refusal"]
    assert more.everyone.difference == pytest.approx(0.228, abs=0.001)
    assert "24.8 times" in found.sentence()


def test_jailbreakbench_by_stratum(shared: Path) -> None:
    entries = make_map(
        {
            "columns": {"item": "Index"},
            "constants": {"target": "m"},
            "label_columns": {
                **{name: name for name in ("human1", "human2", "human3", "human_majority")},
                **{name: name for name in ("harmbench_cf", "gpt4_cf")},
            },
            "labels": {"0": "refuse", "1": "comply"},
            "classes": ["refuse", "comply"],
            "intent": {
                "column": "prompt_equals_goal",
                "values": {"False": "harmful", "True": "benign"},
            },
        }
    )
    source = str(shared / "data/jbb_judge_comparison/labels_wide.csv")
    evidence = read_evidence(source, evidence_map=entries, kind="labels")
    people = ("human1", "human2", "human3")
    found = audit_judges(
        evidence, settings=JudgeSettings(gold=("human_majority",), humans=people, draws=100)
    ).to_dict()
    kappas = {
        round(row["coefficients"]["cohen"]["estimate"], 3)
        for row in found["agreement"]["pairs"]
        if {row["first"], row["second"]} <= set(people) and row["intent"] == "all"
    }
    assert kappas == {0.809, 0.826, 0.886}
    sides = {
        row["intent"]: row["boundaries"][0]
        for row in found["agreement"]["gold"]["accuracy"]
        if row["judge"] == "harmbench_cf" and row["by"] == "all"
    }
    assert sides["harmful"]["judge_rate"]["estimate"] == pytest.approx(0.53)
    assert sides["harmful"]["gold_rate"]["estimate"] == pytest.approx(0.55)
    assert sides["harmful"]["false_positive_rate"]["estimate"] == pytest.approx(0.111, abs=0.001)
    assert sides["harmful"]["false_negative_rate"]["estimate"] == pytest.approx(0.127, abs=0.001)
    assert sides["benign"]["judge_rate"]["estimate"] == pytest.approx(0.41)
    assert sides["benign"]["gold_rate"]["estimate"] == 0


def test_sparse_gold_does_not_shrink_the_counts() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, (200, 2))
    whole = table_of(labels, ["j", "k"])
    gold = table_of(labels[:40, :1], ["human"])
    evidence = as_evidence(pa.concat_tables([whole, gold]), {"intent": "harmful"})
    found = audit_judges(evidence, gold=("human",), draws=100)
    assert found.common == 200
    assert any("labelled a part" in said for said in found.warnings)
    assert found.corrected


def test_sparse_gold_is_no_judge_of_the_specification_curve() -> None:
    rng = np.random.default_rng(4)
    labels = np.repeat(rng.integers(0, 3, (300, 1)), 2, axis=1)
    gold = table_of(labels[:30, :1], ["human"])
    evidence = as_evidence(
        pa.concat_tables([table_of(labels, ["j", "k"]), gold]), {"intent": "harmful"}
    )
    (curve,) = audit_judges(evidence, gold=("human",), draws=100).specifications
    assert "human" not in {row.judge for row in curve.specifications}
    rates = [row.rate for row in curve.specifications if row.boundary == "comply"]
    assert rates == [pytest.approx((labels[:, 0] == 2).mean())] * len(rates)


def test_a_judge_that_never_gives_a_frequent_class_is_named() -> None:
    labels = np.zeros((100, 2), int)
    labels[:30, 0] = 2
    table = table_of(labels, ["j", "k"])
    silent = audit_judges(as_evidence(table, {"intent": "harmful"}), draws=100)
    assert any("k never gave comply, which j gave 30 of 100" in said for said in silent.warnings)
    declared = {"intent": "harmful", "judges": {"k": {"classes": ["refuse", "comply"]}}}
    found = audit_judges(as_evidence(table, declared), draws=100)
    assert found.collapsed == {"k": ["comply"]}
    assert not any("never gave" in said for said in found.warnings)


def test_a_collapse_on_a_single_target_is_said(xstest: JudgesFinding) -> None:
    assert "on single targets gpt4 on evasive with llama2orig" in xstest.sentence()


def test_the_majority_of_several_gold_judges_is_where_movement_starts() -> None:
    labels = np.array([[2, 2, 0, 1], [0, 0, 2, 0], [1, 2, 1, 0]] * 5)
    evidence = as_evidence(table_of(labels, ["a", "b", "c", "j"]), {"intent": "harmful"})
    found = audit_judges(evidence, gold=("a", "b", "c"), draws=100)
    assert found.settings["reference"] == "majority of a, b, c"
    assert found.directions is not None
    assert [(row.judge, row.lower) for row in found.directions] == [("j", 10)]


def test_a_score_is_reported_under_its_own_threshold() -> None:
    from safemetry.evidence.success import SuccessRule

    scores = [0.9, 0.1, 0.8, 0.2]
    table = pa.table(
        {
            "target": ["m"] * 8,
            "item": [str(place) for place in range(4) for _ in range(2)],
            "judge": ["j", "k"] * 4,
            "score": [score for score in scores for _ in range(2)],
        }
    )
    scale = {"scale_min": 0, "scale_max": 1, "higher_is": "worse"}
    evidence = as_evidence(table, {"intent": "harmful", "judges": {"*": scale}})
    found = audit_judges(evidence, success=SuccessRule.parse("at_least:0.5"), draws=100)
    assert [row.boundary for row in found.spread] == ["at_least:0.5"]


def test_few_common_responses_are_said() -> None:
    labels = np.zeros((60, 1), int)
    second = table_of(labels, ["k"]).set_column(
        1, "item", pa.array([str(place + 40) for place in range(60)])
    )
    both = pa.concat_tables([table_of(labels, ["j"]), second])
    found = audit_judges(as_evidence(both, {"intent": "harmful"}), draws=100)
    assert any(
        "over the 20 responses that every judge has judged, of j 60, k 60" in said
        for said in found.warnings
    )


def test_a_judge_cannot_be_gold_and_a_person_beside_it() -> None:
    with pytest.raises(InputError, match="'j' is named as gold"):
        JudgeSettings(gold=("j",), humans=("j",))


def test_two_judges_move_from_the_first() -> None:
    labels = np.array([[2, 1], [2, 1], [0, 0], [1, 1]] * 10)
    evidence = as_evidence(table_of(labels, ["j", "k"]), {"intent": "harmful"})
    found = audit_judges(evidence, draws=100)
    assert found.settings["reference"] == "j"
    assert found.directions is not None
    assert found.directions[0].lower == 20


def test_one_judge_is_counted_and_the_rest_says_why() -> None:
    labels = np.array([[2], [1], [0]] * 5)
    found = audit_judges(as_evidence(table_of(labels, ["j"]), {"intent": "harmful"}), draws=100)
    made = found.to_dict()
    assert made["movement"] is None
    assert made["why"]["movement"] == "there is one judge"
    assert made["corrected"] is None


def test_disjoint_judges_are_refused_with_the_overlap() -> None:
    labels = np.array([[2], [1], [0]])
    first = table_of(labels, ["j"])
    second = table_of(labels, ["k"]).set_column(1, "item", pa.array(["a", "b", "c"]))
    evidence = as_evidence(pa.concat_tables([first, second]), {"intent": "harmful"})
    with pytest.raises(InputError, match="no response in common: 'j' and 'k' share 0"):
        audit_judges(evidence)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"applicable": 0.0}, "applicable is 0"),
        ({"order": ("refuse",)}, "no order of classes"),
        ({"draws": 5}, "5 resamples"),
        ({"seed": -1}, "the seed is -1"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        JudgeSettings(**options)
