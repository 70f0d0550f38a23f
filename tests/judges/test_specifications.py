"""The specification curve: every combination once, and what moves the rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from safemetry.judges.panel import Panel
from safemetry.judges.specifications import (
    MAJORITY_PANEL,
    UNANIMOUS_PANEL,
    specification_curves,
    variance_shares,
)

Make = Callable[..., Panel]


def test_every_combination_is_there_once(roster: Panel) -> None:
    (curve,) = specification_curves(roster)
    assert len(curve.specifications) == (18 + 2) * 2 * 3
    assert len({(r.judge, r.boundary, r.missing, r.calls) for r in curve.specifications}) == 120
    rates = [row.rate or 0.0 for row in curve.specifications]
    assert rates == sorted(rates)
    assert curve.low == pytest.approx(9 / 900)
    for row in curve.specifications:
        assert row.interval is not None
        assert row.interval[0] <= (row.rate or 0) <= row.interval[1]
        assert row.interval[1] > row.interval[0]
    assert curve.high == pytest.approx(430 / 900)
    assert sum((curve.shares or {}).values()) == pytest.approx(1)
    assert (curve.shares or {})["missing"] < 1e-4  # nothing is missing but ties of the panel
    assert (curve.shares or {})["boundary"] > (curve.shares or {})["judge"] > 0.1


def test_panels_vote_as_the_success_rules_do(panel_from: Make) -> None:
    labels = [[1, 1, 0], [1, 0, -1], [1, -1, -1], [0, 0, 0]]
    (curve,) = specification_curves(panel_from(labels, classes=("refuse", "comply")))
    rates = {(r.judge, r.missing): (r.rate, r.responses) for r in curve.specifications}
    assert rates[MAJORITY_PANEL, "left out"] == (pytest.approx(2 / 3), 3)  # the tie has no verdict
    assert rates[MAJORITY_PANEL, "as successes"] == (0.75, 4)
    assert rates[UNANIMOUS_PANEL, "left out"] == (0.25, 4)
    assert rates["judge-2", "as failures"] == (0.0, 4)


def test_repeated_calls_are_a_choice_of_their_own(panel_from: Make) -> None:
    calls = np.array([[[0], [0]], [[1], [0]], [[1], [0]]])
    (curve,) = specification_curves(panel_from(calls, classes=("refuse", "comply")))
    rates = {row.calls: row.rate for row in curve.specifications if row.missing == "left out"}
    assert rates == {"single": 0.0, "majority of 3": 0.5}


def test_shares_of_a_table_made_of_main_effects() -> None:
    judge, boundary = np.array([0.0, 0.3, 0.6]), np.array([0.0, 0.1])
    table = judge[:, None, None, None] + boundary[None, :, None, None] + np.zeros((3, 2, 3, 1))
    shares = variance_shares(table)
    assert shares is not None
    assert shares["judge"] == pytest.approx(judge.var() / (judge.var() + boundary.var()))
    assert shares["interactions"] == pytest.approx(0, abs=1e-9)


def test_a_judge_that_said_nothing_has_no_rate(panel_from: Make) -> None:
    labels = [[1, -1], [0, -1]]
    (curve,) = specification_curves(panel_from(labels, classes=("refuse", "comply")))
    silent = [r for r in curve.specifications if r.judge == "judge-1" and r.missing == "left out"]
    assert silent[0].rate is None
    assert silent[0].to_dict()["why"]["rate"] == "no response counts"
    assert curve.specifications[-1].rate is None
    assert curve.shares is None


def test_intents_have_curves_of_their_own(panel_from: Make) -> None:
    intent = ["harmful", "benign", "benign"]
    panel = panel_from([[1], [0], [1]], classes=("refuse", "comply"), intent=intent)
    found = {curve.intent: curve.median for curve in specification_curves(panel)}
    assert found == {"benign": 0.5, "harmful": 1.0}


def test_speechmap(shared: Path) -> None:
    from safemetry.evidence.maps import make_map
    from safemetry.judges.coding import panel_of
    from safemetry.readers import read_evidence

    errors = ("ERROR", "ERROR_ORIGINAL_MODERATION", "ERROR_ORIGINAL_RESPONSE")
    entries = {
        "columns": {"target": "model", "item": "item_id", "label": "compliance"},
        "labels": {
            "DENIAL": "refuse",
            "EVASIVE": "evasive",
            "COMPLETE": "comply",
            **dict.fromkeys(errors, "missing:no_response"),
        },
        "intent": "benign",
    }
    source = shared / "data/speechmap_criticism/labels_long.parquet"
    evidence = read_evidence(str(source), evidence_map=make_map(entries), kind="tidy")
    (curve,) = specification_curves(panel_of(evidence))
    rates = {
        (row.judge, row.boundary): row.rate
        for row in curve.specifications
        if row.missing == "left out"
    }
    assert rates["grok-4.1-fast", "comply"] == pytest.approx(0.853, abs=0.001)
    assert rates["gpt-4o-2024-11-20", "comply"] == pytest.approx(0.849, abs=0.001)
    assert (curve.shares or {})["boundary"] > 0.9  # these two judges agree
