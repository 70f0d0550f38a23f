"""Charts of the audit of one target hold their numbers, fit a phone, and take odd names."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import vl_convert

from safemetry.audits.charts.agreement import MOST_TARGETS, agreement_chart, leaf_order
from safemetry.audits.charts.person_fit import person_fit_chart
from safemetry.audits.charts.residuals import MOST_ITEMS, misfit_chart, residual_map
from safemetry.audits.charts.shift import shift_chart
from safemetry.audits.charts.stream import MOST_POINTS, stream_chart
from safemetry.charts import INK, PALETTE, RULE
from safemetry.errors import InputError

ODD = ['quoted "x"', "</text><script>", "a" * 300, "\u202ereversed", "=1+1"]
WIDTHS = pytest.mark.parametrize("width", [330, 640])


def drawn(chart: Any) -> str:
    """A chart as SVG, which fails where the specification is wrong."""
    svg: str = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    assert "NaN" not in svg
    return svg


def values(chart: Any) -> list[dict[str, Any]]:
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def words(chart: Any) -> list[str]:
    return [row["text"] for row in values(chart) if "text" in row]


def width_of(svg: str) -> float:
    return float(svg.partition('width="')[2].partition('"')[0])


def fit(value, *, flagged, name="l_z_star", cutoff=-1.7):
    return {
        "statistic": name,
        "value": value,
        "cutoff": cutoff,
        "side": "low",
        "flagged": flagged,
        "null_quantiles": [-2.4, -1.7, -0.7, 0.0, 0.7, 1.6, 2.2],
    }


def categories(names, **more):
    return [
        {"category": name, "items": 20, "value": 1.5 - place, "flagged": place == 4, **more}
        for place, name in enumerate(names)
    ]


def items(count, names=("a", "b", None)):
    rng = np.random.default_rng(2)
    return [
        {"item": f"i{place}", "category": names[place % len(names)], "residual": float(value)}
        for place, value in enumerate(rng.normal(size=count))
    ]


def square(count):
    values = 0.5 + 0.4 * np.random.default_rng(4).random((count, count))
    return [
        [None if row == column else float(values[min(row, column), max(row, column)])
         for column in range(count)]
        for row in range(count)
    ]  # fmt: skip


@WIDTHS
@pytest.mark.parametrize("names", [["a", "b", "c", "d", None], ODD])
def test_every_chart_fits_its_width_in_shared_colours_and_takes_odd_names(width, names):
    text = [str(name) for name in names]
    for chart in (
        person_fit_chart([fit(-3.0, flagged=True, name=name) for name in text], width=width),
        residual_map(items(60, names), width=width),
        misfit_chart(categories(names), width=width),
        misfit_chart(categories(names, se=0.4), width=width),
        agreement_chart(text, square(5), target=text[1], width=width),
        shift_chart(-0.4, (-0.7, -0.1), margin=0.3, resolution=(0.4, None), width=width),
        stream_chart([1.0, 3.0, 25.0], 20.0, stopped_at=3, width=width),
    ):
        svg = drawn(chart)
        assert width_of(svg) <= width + 1
        assert chart.to_dict()["description"]
        colours = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', svg))
        assert colours <= {*PALETTE, INK, RULE}
        assert "<script" not in svg
        assert "\u202e" not in svg
        assert "a" * 150 not in svg
        for row in values(chart):
            if "text" in row:
                assert -1 <= row["x"] <= width + 1


def test_a_flagged_statistic_is_told_by_shape_and_words():
    chart = person_fit_chart([fit(-3.0, flagged=True), fit(0.2, flagged=False)])
    said = words(chart)
    assert "\N{MINUS SIGN}3, flagged" in said
    assert "0.2, within the null" in said
    shapes = {row["shape"]: row for row in values(chart) if "shape" in row}
    assert shapes.keys() == {"square", "circle"}
    left = min(row["left"] for row in values(chart) if "opacity" in row)
    assert shapes["square"]["x"] < left + 1 or shapes["square"]["x"] < shapes["circle"]["x"]


def test_quantiles_value_and_cutoff_lie_on_one_scale():
    held = values(person_fit_chart([fit(-2.4, flagged=True)], width=640))
    (dot,) = [row for row in held if "shape" in row]
    boxes = [row for row in held if row.get("opacity") in (0.16, 0.22, 0.34)]
    whole, ninety, half = sorted(boxes, key=lambda box: box["left"])
    assert dot["x"] == pytest.approx(whole["left"])
    assert whole["left"] < ninety["left"] < half["left"] < half["right"] < ninety["right"]
    (cutoff,) = [row for row in held if row.get("thickness") == 2.2]
    assert cutoff["left"] == pytest.approx(ninety["left"])


def test_a_constant_null_and_a_missing_cutoff_can_be_drawn():
    row = fit(1.0, flagged=False, cutoff=None) | {"null_quantiles": [1.0] * 7}
    drawn(person_fit_chart([row]))


def test_the_largest_residuals_are_drawn_and_the_rest_is_counted():
    chart = residual_map(items(MOST_ITEMS + 37))
    cells = [row for row in values(chart) if row.get("bottom") and row["right"] - row["left"] == 12]
    assert len([cell for cell in cells if cell["bottom"] - cell["top"] == 12]) == MOST_ITEMS
    assert "37 more items with smaller residuals are not drawn" in words(chart)
    assert any(text.startswith("no category (") for text in words(chart))


def test_signs_stand_in_the_cells_of_large_residuals():
    rows = [{"item": str(v), "category": "c", "residual": v} for v in (2.5, 1.0, -2.1, -0.3)]
    said = words(residual_map(rows))
    assert (said.count("+"), said.count("\N{MINUS SIGN}")) == (1, 1)


def test_misfit_stands_in_the_band_of_chance_and_a_difference_in_its_interval():
    banded = values(misfit_chart(categories("abcde")))
    (band,) = [row for row in banded if row.get("opacity") == 0.14]
    dots = [row for row in banded if "shape" in row]
    outside = [dot for dot in dots if not band["left"] < dot["x"] < band["right"]]
    assert [dot["shape"] for dot in outside] == ["square"]
    assert len(dots) == 5
    assert words(misfit_chart(categories("abcde"))).count("flagged") == 1
    spread = values(misfit_chart(categories("abcde", se=0.4)))
    assert not [row for row in spread if row.get("opacity") == 0.14]


@WIDTHS
def test_an_axis_has_values_beside_zero(width):
    for reach in (0.3, 1.0, 3.01, 4.9, 6.1, 15.5, 60.0):
        said = words(misfit_chart([{"category": "a", "value": reach}], width=width))
        assert sum(text.startswith("\N{MINUS SIGN}") for text in said) >= 1
        said = words(shift_chart(reach, (0, reach), width=width))
        assert sum(text.startswith("\N{MINUS SIGN}") for text in said) >= 1


def test_targets_that_agree_stand_together():
    agreement = np.full((6, 6), 0.6)
    for group in ((0, 3, 5), (1, 2, 4)):
        agreement[np.ix_(group, group)] = 0.95
    order = leaf_order(agreement)
    assert {frozenset(order[:3]), frozenset(order[3:])} == {
        frozenset({0, 3, 5}),
        frozenset({1, 2, 4}),
    }
    assert leaf_order(np.full((4, 4), np.nan)) != []


def test_of_many_targets_the_nearest_are_shown():
    count = MOST_TARGETS + 6
    names = [f"t{place}" for place in range(count)]
    matrix = square(count)
    for place in range(count - 1):
        matrix[-1][place] = matrix[place][-1] = 0.3 if place < 6 else 0.95
    chart = agreement_chart(names, matrix, target=names[-1])
    said = words(chart)
    assert not any(text.endswith("  t0") for text in said)
    assert any(text.endswith(f"  {names[-1]}") for text in said)
    assert "6 more targets are not drawn" in said


def test_the_shift_has_its_margin_and_resolution():
    held = values(shift_chart(-0.5, (-0.8, -0.2), margin=0.3, resolution=(0.4, 0.5)))
    lines = [row["left"] for row in held if row.get("dash") == 5]
    (margin,) = [row for row in held if row.get("opacity") == 0.2]
    middle = (margin["left"] + margin["right"]) / 2
    half = (margin["right"] - margin["left"]) / 2
    assert [(x - middle) / half for x in lines] == pytest.approx([-4 / 3, 5 / 3])


def test_a_long_stream_keeps_its_highest_value_and_its_stop():
    stream = [1.0] * 5000
    stream[1234] = 19.0
    held = values(stream_chart(stream, 20.0, stopped_at=4001))
    points = [row for row in held if "word" not in row]
    assert len(points) <= MOST_POINTS + 1
    assert any(row["evidence"] == 19.0 for row in points)
    assert sum(row["answers"] == 4001 for row in points) == 2
    drawn(stream_chart([0.0, 0.0], 20.0))


def test_nothing_to_show_is_told():
    for draw in (
        lambda: person_fit_chart([{"statistic": "h_t", "value": None}]),
        lambda: residual_map([]),
        lambda: misfit_chart([{"category": "a", "value": None}]),
        lambda: agreement_chart(["a"], [[None]]),
        lambda: shift_chart(0.0, ()),
        lambda: stream_chart([], 20.0),
    ):
        with pytest.raises(InputError):
            draw()
