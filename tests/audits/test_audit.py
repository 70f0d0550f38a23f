"""The whole audit: runs against runs, whose past is known, and what few answers decide."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from safemetry.audits import AuditSettings, audit_target
from safemetry.errors import InputError

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
