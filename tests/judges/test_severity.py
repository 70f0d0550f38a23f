"""Severities of judges: recovery, what links judges, and the order of targets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safemetry.findings import plain
from safemetry.judges.latent.facets import facet_fit
from safemetry.judges.latent.severity import many_facet_severity
from safemetry.judges.panel import Column

TRUE = np.linspace(-1, 1, 5)


def crossed(rng, targets=10, items=100, severity=TRUE):
    ability, difficulty = rng.normal(0, 1, targets), rng.normal(0, 1, items)
    t, i = (x.ravel() for x in np.meshgrid(np.arange(targets), np.arange(items), indexing="ij"))
    logit = (ability[t] - difficulty[i])[:, None] - severity
    return (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.int8), t, i, ability


def panel_of(panel_from, outcome, t, i):
    panel = panel_from(
        outcome,
        classes=("refuse", "comply"),
        targets=[f"t{code:02d}" for code in t],
        behaviour=[str(code) for code in i],
    )
    return replace(panel, item=Column(tuple(map(str, range(i.max() + 1))), i))


def test_known_severities_are_recovered(panel_from):
    outcome, t, i, _ = crossed(np.random.default_rng(1), items=400)
    (row,) = many_facet_severity(panel_of(panel_from, outcome, t, i))
    found = [judge.severity for judge in row.judges]
    assert np.allclose([one.estimate for one in found], TRUE, atol=0.1)
    assert sum(one.estimate for one in found) == pytest.approx(0, abs=1e-8)
    assert all(low < 0.12 + s and high > s - 0.12 for one, s in zip(found, TRUE, strict=True)
               for low, high in [one.interval])  # fmt: skip
    # Every judge saw every response: severity cannot change the order.
    assert row.spearman.estimate == pytest.approx(1)
    assert row.largest_changes == ()
    assert plain(row)


def test_a_target_that_only_strict_judges_saw_moves(panel_from):
    rng = np.random.default_rng(2)
    outcome, t, i, ability = crossed(rng, items=300, severity=np.array([-2.0, 0.0, 2.0]))
    best = int(np.argmax(ability))
    outcome[np.ix_(t == best, [0])] = -1
    outcome[np.ix_((t != best) & (i % 2 == 0), [2])] = -1
    (row,) = many_facet_severity(panel_of(panel_from, outcome, t, i))
    moved = next(one for one in row.targets if one.target == f"t{best:02d}")
    assert moved.rank_with == 1
    assert moved.rank_without > 1
    assert row.spearman.estimate < 1
    assert moved in row.largest_changes


def test_judges_without_shared_responses_or_targets_are_refused(panel_from):
    outcome, t, i, _ = crossed(np.random.default_rng(3))
    outcome[np.ix_(t < 5, [3, 4])] = -1
    outcome[np.ix_(t >= 5, [0, 1, 2])] = -1
    (row,) = many_facet_severity(panel_of(panel_from, outcome, t, i))
    assert not row.fitted
    assert row.components == (("judge-0", "judge-1", "judge-2"), ("judge-3", "judge-4"))
    assert plain(row)


def test_judges_that_share_targets_only_are_linked_with_a_warning(panel_from):
    outcome, t, i, _ = crossed(np.random.default_rng(4), items=400)
    outcome[np.ix_(i < 200, [3, 4])] = -1
    outcome[np.ix_(i >= 200, [0, 1, 2])] = -1
    (row,) = many_facet_severity(panel_of(panel_from, outcome, t, i))
    assert row.linked_by == "targets"
    assert "alike" in row.warnings[0]
    assert np.allclose([judge.severity.estimate for judge in row.judges], TRUE, atol=0.4)


def test_a_judge_that_never_says_success_has_no_severity(panel_from):
    outcome, t, i, _ = crossed(np.random.default_rng(5))
    outcome[:, 4] = 0
    (row,) = many_facet_severity(panel_of(panel_from, outcome, t, i))
    assert row.judges[4].severity.estimate is None
    assert row.judges[4].severity.why
    assert row.judges[0].severity.estimate is not None


@pytest.mark.parametrize("width", [1, 3])
def test_nothing_to_compare_is_refused(panel_from, width):
    labels = np.zeros((10, width), np.int8)
    (row,) = many_facet_severity(panel_from(labels, classes=("refuse", "comply")))
    assert not row.fitted
    assert row.reason
    assert plain(row)


def test_the_order_of_rows_and_judges_does_not_matter():
    rng = np.random.default_rng(6)
    outcome, t, i, _ = crossed(rng)
    fit = facet_fit(outcome, t, i, i)
    rows = rng.permutation(len(t))
    judges = [3, 1, 4, 0, 2]
    other = facet_fit(outcome[rows][:, judges], t[rows], i[rows], i[rows])
    assert np.allclose(fit.severity[judges], other.severity, atol=1e-4)
    assert np.allclose(fit.errors[judges], other.errors, atol=1e-4)


@pytest.mark.slow
def test_study_of_severities(study_size):
    studies = max(100, round(1000 * study_size))
    rng = np.random.default_rng(7)
    found, errors = [], []
    for _ in range(studies):
        outcome, t, i, _ = crossed(rng)
        fit = facet_fit(outcome, t, i, i)
        found.append(fit.severity)
        errors.append(fit.errors)
    away = np.array(found) - TRUE
    coverage = (np.abs(away) < 1.984 * np.array(errors)).mean()
    assert np.abs(away.mean(axis=0)).max() < 0.04
    assert coverage > 0.93
