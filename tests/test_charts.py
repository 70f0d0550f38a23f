"""Charts show every claim that has an estimate, and tell claims apart."""

from __future__ import annotations

import pyarrow as pa
import pytest

from safemetry import measure_rates
from safemetry.charts import LETTER_WIDTH, LINE_HEIGHT, trade_off_chart


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


# --- safety against usefulness --------------------------------------------------------------------


def _points(*places):
    return [
        {"target": f"a-target-{index}", "help_rate": across, "safe_recall": up,
         "on_frontier": index < 2, "labelled": True}
        for index, (across, up) in enumerate(places)
    ]  # fmt: skip


def _boxes(rows, width):
    side = width - 60
    height = min(side, 380)
    for row in rows:
        if row["label_side"]:
            long = LETTER_WIDTH * len(row["target"])
            x = side * row["help_rate"]
            left = x - 8 - long if row["label_side"] == "left" else x + 8
            middle = height * (1 - row["label_place"])
            yield left, middle - LINE_HEIGHT / 2, left + long, middle + LINE_HEIGHT / 2


SLACK = 1e-6
PLACES = {
    "apart": [(0.1, 0.1), (0.5, 0.5), (0.9, 0.9)],
    "one spot": [(1.0, 1.0)] * 6,
    "one line": [(0.6 + index / 50, 1.0) for index in range(8)],
    "corners": [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)],
    "a crowd": [(0.8 + index % 5 / 40, 0.8 + index // 5 / 40) for index in range(25)],
}


@pytest.mark.parametrize("width", [330, 640])
@pytest.mark.parametrize("case", list(PLACES))
def test_names_cover_neither_each_other_nor_a_point_and_stay_inside(case, width):
    places = PLACES[case]
    rows = _rows(trade_off_chart(_points(*places), width=width))
    assert len(rows) == len(places)
    boxes = list(_boxes(rows, width))
    side = width - 60
    for index, (left, top, right, bottom) in enumerate(boxes):
        assert -SLACK <= left <= right <= side + SLACK
        for other in boxes[:index]:
            across = min(right, other[2]) - max(left, other[0])
            down = min(bottom, other[3]) - max(top, other[1])
            assert across < SLACK or down < SLACK
        for across, up in places:
            x, y = side * across, min(side, 380) * (1 - up)
            assert not (left < x < right and top < y < bottom)


def test_names_with_room_are_all_there():
    rows = _rows(trade_off_chart(_points(*PLACES["apart"]), width=640))
    assert all(row["label_side"] for row in rows)


def test_a_point_that_is_not_to_be_named_is_not():
    points = [{**point, "labelled": False} for point in _points(*PLACES["apart"])]
    assert not any(row["label_side"] for row in _rows(trade_off_chart(points)))
