"""The whole audit: runs against runs, whose past is known, and what few answers decide."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from safemetry.audits import AuditSettings, audit_target
from safemetry.errors import InputError

ITEMS = [f"i{item:03d}" for item in range(120)]
QUICK = AuditSettings(simulations=199, by=())


def table(rows):
    """Judgements of rows ``(target, epoch, outcomes)``; all items are benign."""
    columns = {"target": [], "item": [], "epoch": [], "label": [], "judge": [], "intent": []}
    for target, epoch, outcomes in rows:
        for item, outcome in enumerate(outcomes):
            if outcome < 0:
                continue
            values = (target, f"i{item:03d}", epoch, ("refuse", "comply")[outcome], "j", "benign")
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    return pa.table(columns)


def population(seed, targets=30, items=120):
    """Chances of a population, and of one more target of ability .8."""
    rng = np.random.default_rng(seed)
    slopes, steps = rng.lognormal(0.2, 0.4, items), rng.normal(0, 1.3, items)
    theta = np.r_[rng.normal(0, 1, targets), 0.8]
    return rng, 1 / (1 + np.exp(-(theta[:, None] * slopes + steps)))


def test_several_runs_now_are_compared_with_several_runs_before():
    """Six audits of unchanged targets: the mean shift has a standard error near .05."""
    shifts = []
    for seed in range(6):
        rng, chances = population(seed)
        drawn = lambda row: (rng.random(120) < chances[row]).astype(int)  # noqa: B023, E731
        now = [(f"h{i}", 1, drawn(i)) for i in range(30)]
        now += [("t", epoch, drawn(30)) for epoch in range(1, 6)]
        before = [("t", epoch, drawn(30)) for epoch in range(1, 6)]
        found = audit_target(table(now), "t", before=table(before), settings=QUICK)
        shifts.append(found.shift.difference)
    assert abs(np.mean(shifts)) < 0.15


def test_the_own_past_says_how_often_all_repeat_themselves():
    """Endpoints that repeat 96% of their answers, of which only the target was run before."""
    verdicts = []
    for seed in range(5):
        rng, chances = population(seed)
        steady = (rng.random(chances.shape) < chances).astype(int)

        def again(row, steady=steady, rng=rng):
            return np.where(rng.random(120) < 0.04, 1 - steady[row], steady[row])

        now = table([(f"h{i}" if i < 30 else "t", 1, again(i)) for i in range(31)])
        before = table([("t", epoch, again(30)) for epoch in range(1, 5)])
        found = audit_target(now, "t", before=before, settings=QUICK)
        row = next(one for one in found.fingerprint.rows if one.reference == "t (before)")
        verdicts.append(str(row.verdict))
        assert any("taken for that of every known target" in said for said in found.warnings)
    assert verdicts.count("same") >= 3
    assert verdicts.count("different") <= 1


def test_hardly_an_answer_in_common_decides_nothing():
    rng, chances = population(3)
    codes = (rng.random(chances.shape) < chances).astype(int)
    codes[5, 4:] = -1
    rows = [(f"h{i}" if i < 30 else "t", 1, codes[i]) for i in range(31)]
    found = audit_target(table(rows), "t", settings=QUICK)
    last = found.fingerprint.rows[-1]
    assert (last.reference, str(last.verdict)) == ("h5", "cannot_tell")
    assert last.log_likelihood_ratio is None
    assert "fewer than 10" in last.why["log_likelihood_ratio"]


def test_runs_from_several_sources_are_put_together():
    rng, chances = population(4)
    codes = (rng.random(chances.shape) < chances).astype(int)
    now = table([(f"h{i}" if i < 30 else "t", 1, codes[i]) for i in range(31)])
    first, second = (table([("t", 1, codes[30])]) for _ in range(2))
    found = audit_target(now, "t", before=[first, second], settings=QUICK)
    assert found.shift.verdict != "shifted"
    assert found.stream.items > 60
    other = pa.table({**first.to_pydict(), "item": [f"x{k}" for k in range(120)]})
    with pytest.raises(InputError, match="answered both before and now"):
        audit_target(now, "t", before=other, settings=QUICK)


def drawn(seed):
    rng, chances = population(seed)
    return (rng.random(chances.shape) < chances).astype(int)


def test_a_strict_level_is_held_with_repeated_runs():
    codes = drawn(5)
    now = table([(f"h{i}" if i < 30 else "t", 1, codes[i]) for i in range(31)])
    before = table([("t", epoch, codes[30]) for epoch in (1, 2, 3)])
    strict = AuditSettings(simulations=499, level=0.01, by=())
    found = audit_target(now, "t", before=before, settings=strict)
    assert found.stream.settings.rate.doubt < 0.01
    assert found.stream.settings.threshold > np.log(1 / 0.01)


def test_no_earlier_answers_are_none():
    codes = drawn(6)
    now = table([(f"h{i}" if i < 30 else "t", 1, codes[i]) for i in range(31)])
    assert "no earlier answers" in audit_target(now, "t", before=[], settings=QUICK).why["stream"]


def test_a_property_that_no_answered_item_has_is_a_reason():
    codes = drawn(7)
    codes[30, :5] = -1
    now = table([(f"h{i}" if i < 30 else "t", 1, codes[i]) for i in range(31)])
    settings = AuditSettings(simulations=199, by=("category",))
    some = {"category": dict.fromkeys(ITEMS[:5], "a")}
    found = audit_target(now, "t", properties=some, settings=settings)
    assert not found.misfit
    assert "'category'" in found.own_keys()["why"]["misfit"]
    json.dumps(found.own_keys(), allow_nan=False)


def test_an_order_needs_values_that_order():
    codes = drawn(8)
    now = table([(f"h{i}" if i < 30 else "t", 1, codes[i]) for i in range(31)])
    ordered = AuditSettings(simulations=199, by=(), order="place")
    with pytest.raises(InputError, match="no item has a value of 'place'"):
        audit_target(now, "t", settings=ordered)

    def p_value(values):
        found = audit_target(now, "t", properties={"place": values}, settings=ordered)
        return [row.p_value for row in found.fit.rows]

    first = {item: str(place) for place, item in enumerate(ITEMS[:-1])}
    assert p_value({**first, ITEMS[-1]: "nan"}) == p_value(first)
