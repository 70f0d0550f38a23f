"""Charts show every claim that has an estimate, and tell claims apart."""

from __future__ import annotations

import pyarrow as pa
import pytest

from safemetry import measure_rates


def _rows(chart):
    (rows,) = chart.to_dict()["datasets"].values()
    return rows


@pytest.fixture
def finding():
    rows = [
        {"target": target, "item": f"{category}{index}", "judge": judge, "label": label,
         "category": category, "intent": "harmful"}
        for target in ("a", "b")
        for judge in ("j", "k")
        for category in ("x", "y")
        for index, label in enumerate(["comply", "refuse", "refuse"])
    ]  # fmt: skip
    return measure_rates(pa.Table.from_pylist(rows), by=["category"])


def test_each_claim_has_a_row_of_its_own(finding):
    rows = _rows(finding.chart())
    assert len({(row["metric"], row["row"]) for row in rows}) == len(finding.claims)


def test_a_row_holds_the_interval_of_its_claim(finding):
    claim = finding.find("attack_success_rate", target="a", judge="k", category="x")
    (row,) = [
        row
        for row in _rows(finding.chart())
        if row["metric"] == "attack_success_rate" and row["row"] == "a · k · x"
    ]
    assert (row["low"], row["estimate"], row["high"]) == (
        claim.interval[0],
        claim.estimate,
        claim.interval[1],
    )


def test_an_unknown_rate_is_no_point():
    table = pa.table(
        {"target": ["a", "b"], "item": ["1", "1"], "label": ["comply", None],
         "intent": ["harmful"] * 2}
    )  # fmt: skip
    rows = _rows(measure_rates(table).chart())
    assert {row["row"] for row in rows} == {"a"}
