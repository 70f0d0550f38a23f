"""Spread between judges, and where responses move: a roster after published counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.judges.collapse import find_collapse
from safemetry.judges.counts import count_classes
from safemetry.judges.movement import measure_movement
from safemetry.judges.panel import Panel
from safemetry.judges.spread import Spread, measure_spread

Make = Callable[..., Panel]


def spread_of(panel: Panel) -> dict[tuple[str | None, str], Spread]:
    rows = find_collapse(panel)
    collapsed = {r.judge for r in rows if r.target is None and r.state == "collapsed"}
    found = measure_spread(panel, count_classes(panel), collapsed)
    return {(row.intent, row.boundary): row for row in found}


def test_the_roster(roster: Panel) -> None:
    rows = spread_of(roster)
    comply, more = rows[None, "comply"], rows[None, "non_refusal"]
    assert comply.everyone.ratio == pytest.approx(223 / 9)
    assert round(comply.everyone.ratio or 0, 1) == 24.8
    assert (comply.everyone.max_judge, comply.everyone.min_judge) == ("judge-00", "judge-17")
    assert comply.trimmed_ratio == pytest.approx(215 / 15)
    assert comply.events["judge-17"] == 9
    low, high = comply.intervals["judge-17"]
    assert (low, high) == (pytest.approx(0.00527, abs=1e-4), pytest.approx(0.01889, abs=1e-4))
    assert comply.without_collapsed.ratio == pytest.approx(223 / 110)
    assert more.everyone.difference == pytest.approx(205 / 900)  # about 23 points
    assert more.given_non_refusal is None
    assert comply.given_non_refusal is not None
    assert comply.given_non_refusal.ratio == pytest.approx((223 / 430) / (9 / 225))


def test_a_zero_minimum_is_unbounded_and_the_next_stands_beside_it(panel_from: Make) -> None:
    labels = np.zeros((100, 4), np.int8)
    for place, count in enumerate((0, 5, 10, 40)):
        labels[:count, place] = 1
    row = spread_of(panel_from(labels, classes=("refuse", "comply")))[None, "comply"]
    assert row.everyone.ratio is None
    assert "unbounded" in row.everyone.why["ratio"]
    assert row.everyone.ratio_next == pytest.approx(8)
    assert row.trimmed_ratio == pytest.approx(2)
    assert row.to_dict()["why"]["ratio"].startswith("unbounded")


def test_fewer_than_four_judges_are_not_trimmed(panel_from: Make) -> None:
    row = spread_of(panel_from([[0, 1, 1], [1, 1, 1]], classes=("refuse", "comply")))
    assert row[None, "comply"].trimmed_ratio is None


def test_intents_are_never_pooled(panel_from: Make) -> None:
    labels = [[1, 1], [1, 0], [0, 0], [0, 0]]
    intent = ["benign", "benign", "harmful", "harmful"]
    rows = spread_of(panel_from(labels, classes=("refuse", "comply"), intent=intent))
    assert rows["benign", "comply"].rates == {"judge-0": 1.0, "judge-1": 0.5}
    assert rows["harmful", "comply"].rates == {"judge-0": 0.0, "judge-1": 0.0}
    assert rows["harmful", "comply"].everyone.why["ratio"] == "every rate is 0"


def test_classes_outside_the_order_stay_in_the_denominator(panel_from: Make) -> None:
    labels = [[2, 3], [3, 0], [0, 0], [1, 2]]
    panel = panel_from(labels, classes=("refuse", "evasive", "comply", "gibberish"), ordered=3)
    rows = spread_of(panel)
    assert rows[None, "non_refusal"].rates == {"judge-0": 0.5, "judge-1": 0.25}


def test_movement_follows_each_class_one_step_down(panel_from: Make) -> None:
    # A published case: 144 of the reference's comply moved, 118 of them to evasive.
    reference = np.repeat([2, 1, 0], [200, 100, 600])
    judge = reference.copy()
    judge[:118], judge[118:144] = 1, 0
    panel = panel_from(np.stack([reference, judge], axis=1), judges=("gold", "small"))
    moves, directions = measure_movement(panel, "gold")
    found = {(row.from_class, row.to_class): row for row in moves}
    assert found["comply", "evasive"].count == 118
    assert sum(r.count for (a, b), r in found.items() if a == "comply" != b) == 144
    assert found["comply", "evasive"].share == pytest.approx(118 / 200)
    low, high = found["comply", "evasive"].interval or (0, 0)
    assert low < 0.59 < high
    (direction,) = directions
    assert (direction.lower, direction.higher) == (144, 0)
    assert direction.net == pytest.approx(-144 / 900)
    assert direction.interval is not None
    assert direction.interval[1] < 0


def test_a_judge_does_not_move_from_itself(panel_from: Make) -> None:
    labels = np.array([[0, 0], [1, 1], [2, 2]])
    moves, directions = measure_movement(panel_from(labels, judges=("j", "same")), "j")
    assert all(row.count == 0 for row in moves if row.from_class != row.to_class)
    assert directions[0].net == 0
    assert directions[0].interval is not None
    low, high = directions[0].interval
    assert low < 0 < high  # three responses do not show that a judge never errs


def test_the_majority_of_the_panel_is_a_reference(panel_from: Make) -> None:
    labels = np.array([[0, 0, 1], [2, 2, 1], [0, 1, 2]])
    moves, _ = measure_movement(panel_from(labels), "majority")
    assert sum(row.count for row in moves if row.judge == "judge-0") == 2  # three ways: no majority


def test_an_unknown_reference_is_an_error(panel_from: Make) -> None:
    with pytest.raises(InputError, match="there is no judge 'x'"):
        measure_movement(panel_from([[0, 0]]), "x")
