"""Self-preference: found where planted, at the nominal error rate where not."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.findings import plain
from safemetry.judges.latent.own_family import difference_in_differences, own_family

FAMILIES = {"judge-0": "Acme", "judge-1": "Other"}
DEVELOPERS = {f"t{place}": ("ACME " if place < 2 else "third") for place in range(8)}


def verdicts(rng, bias=0.0, items=60, judges=5):
    ability, difficulty = rng.normal(0, 1, 8), rng.normal(0, 1, items)
    severity = rng.normal(0, 0.7, judges)
    t, i = (x.ravel() for x in np.meshgrid(np.arange(8), np.arange(items), indexing="ij"))
    logit = (ability[t] - difficulty[i] + rng.normal(0, 1.5, len(t)))[:, None] - severity
    logit[t < 2, 0] -= bias
    return (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.int8), t, i


def panel_of(panel_from, outcome, t, i, intent="harmful"):
    return panel_from(
        outcome,
        classes=("refuse", "comply"),
        targets=[f"t{code}" for code in t],
        behaviour=[str(code) for code in i],
        intent=[intent] * len(t),
    )


def test_planted_self_preference_is_found(panel_from):
    rng = np.random.default_rng(1)
    panel = panel_of(panel_from, *verdicts(rng, bias=1.5, items=200))
    (row,) = own_family(panel, FAMILIES, DEVELOPERS, rng).rows
    assert (row.judge, row.family) == ("judge-0", "acme")
    assert (row.own_targets, row.other_targets, row.own, row.others) == (2, 6, 400, 1200)
    assert row.difference.interval[1] < 0
    assert row.matched.interval[1] < 0
    assert row.p_value < 0.01
    assert row.favours == "own"
    assert plain(row)


@pytest.mark.parametrize(
    ("intent", "expected"), [("benign", "others"), ("contested", "unknown"), (None, "unknown")]
)
def test_what_is_to_a_targets_credit_depends_on_intent(panel_from, intent, expected):
    rng = np.random.default_rng(1)
    panel = panel_of(panel_from, *verdicts(rng, bias=1.5, items=200), intent=intent)
    (row,) = own_family(panel, FAMILIES, DEVELOPERS, rng).rows
    assert row.favours == expected


def test_a_lenient_judge_and_a_good_target_do_not_count(panel_from):
    rng = np.random.default_rng(2)
    t = np.repeat([0, 5], 100)
    others = (rng.random(200) < np.where(t == 0, 0.2, 0.6)).astype(np.int8)
    flipped = np.tile([1] * 10 + [0] * 90, 2).astype(bool)
    outcome = np.column_stack([np.where(flipped, 1 - others, others), others])
    panel = panel_of(panel_from, outcome, t, np.tile(np.arange(100), 2))
    (row,) = own_family(panel, {"judge-0": "acme"}, DEVELOPERS, rng).rows
    away = outcome[:, 0].astype(float) - others
    assert row.difference.estimate == pytest.approx(away[t == 0].mean() - away[t == 5].mean())


def test_judges_of_one_family_are_not_compared_with_each_other(panel_from):
    rng = np.random.default_rng(3)
    panel = panel_of(panel_from, *verdicts(rng))
    table = own_family(panel, dict.fromkeys(panel.judges, "acme"), DEVELOPERS, rng)
    assert all(row.difference.estimate is None for row in table.rows)
    assert all(row.favours == "unknown" for row in table.rows)
    assert all(row.why["p_value"] for row in table.rows)
    assert plain(table)


def test_several_judges_have_a_mean(panel_from):
    rng = np.random.default_rng(4)
    panel = panel_of(panel_from, *verdicts(rng))
    developers = DEVELOPERS | {"t7": "other"}
    rows = own_family(panel, FAMILIES, developers, rng).rows
    assert [row.judge for row in rows] == ["judge-0", "judge-1", "all"]
    mean = (rows[0].difference.estimate + rows[1].difference.estimate) / 2
    assert rows[2].difference.estimate == pytest.approx(mean)


def test_no_shared_family_is_unknown_with_a_reason(panel_from):
    rng = np.random.default_rng(5)
    panel = panel_of(panel_from, *verdicts(rng))
    table = own_family(panel, {"judge-0": "nobody"}, DEVELOPERS, rng)
    assert table.rows == ()
    assert "shares" in table.reason


def test_few_clusters_have_no_interval(panel_from):
    rng = np.random.default_rng(6)
    panel = panel_of(panel_from, *verdicts(rng, items=5))
    (row,) = own_family(panel, FAMILIES, DEVELOPERS, rng).rows
    assert row.difference.estimate is not None
    assert row.p_value is None
    assert row.why["p_value"]


def test_contributions_of_clusters_sum_to_nothing():
    rng = np.random.default_rng(7)
    effect = difference_in_differences(
        rng.normal(0, 1, 100), rng.random(100) < 0.3, rng.integers(0, 20, 100), 20
    )
    assert effect.moved.sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
def test_study_of_the_error_rate_and_power(panel_from, study_size):
    studies = max(200, round(2000 * study_size))
    rng = np.random.default_rng(8)
    rejected, covered, named, power = [], [], [], []
    for _ in range(studies):
        (row,) = own_family(panel_of(panel_from, *verdicts(rng)), FAMILIES, DEVELOPERS, rng).rows
        rejected.append((row.p_value < 0.05, row.matched_p_value < 0.05))
        covered.append(row.difference.interval[0] < 0 < row.difference.interval[1])
        named.append(row.favours != "neither")
        planted = panel_of(panel_from, *verdicts(rng, bias=1.0))
        (row,) = own_family(planted, FAMILIES, DEVELOPERS, rng).rows
        power.append(row.favours == "own")
    assert np.mean(rejected, axis=0)[0] == pytest.approx(
        0.05, abs=0.01 + 3 * np.sqrt(0.05 * 0.95 / studies)
    )
    assert np.mean(named) < 0.05
    assert np.mean(power) > 0.7
