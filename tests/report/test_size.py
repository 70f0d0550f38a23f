"""A report stays small enough to be sent, however many targets and judges there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from safemetry.report import compose_report


def large(targets: int, items: int, judges: int) -> pa.Table:
    """Half of the items harmful, in 12 categories under 9 attacks; 1% without a verdict."""
    rng = np.random.default_rng(2026)
    target, item, judge = (
        axis.ravel()
        for axis in np.meshgrid(np.arange(targets), np.arange(items), np.arange(judges))
    )
    behaviour = item // 2
    harmful = item % 2 == 0
    holds = rng.random(len(item)) < 0.3 + 0.65 * rng.random(targets)[target]
    lost = rng.random(len(item)) < 0.01

    def named(form: str, numbers: np.ndarray) -> pa.Array:
        names = [form.format(number) for number in range(int(numbers.max()) + 1)]
        return pa.DictionaryArray.from_arrays(numbers, names).cast(pa.string())

    return pa.table(
        {
            "target": named("organisation/model-{:03d}-instruct", target),
            "item": named("item-{:04d}", item),
            "judge": named("judge-{}", judge),
            "label": pa.array(np.where(holds == harmful, "refuse", "comply"), mask=lost),
            "status": np.where(lost, "missing", "ok"),
            "reason": pa.array(np.full(len(item), "no_response"), mask=~lost),
            "category": named("category {:02d}", behaviour % 12),
            "attack": named("attack {}", behaviour % 9),
            "behaviour": named("behaviour-{}", behaviour),
            "intent": np.where(harmful, "harmful", "benign"),
        }
    )


@pytest.mark.parametrize(("targets", "items", "judges"), [(300, 400, 1), (60, 200, 8)])
def test_a_large_report_is_under_3_mb(targets, items, judges):
    report = compose_report(large(targets, items, judges))
    page = report.to_html()
    assert f"{targets} targets" in report.subtitle
    assert len(page.encode()) < 3_000_000
    # Every target has its row, and its drawing, in the first table.
    assert page.count("organisation/model-299-instruct" if targets == 300 else "-059-instruct") > 0


def test_more_items_make_no_longer_page():
    few, many = (len(compose_report(large(5, items, 1)).to_html()) for items in (216, 2_160))
    assert abs(many - few) < 0.1 * few
