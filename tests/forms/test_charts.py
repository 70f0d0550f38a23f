"""Charts of forms and adaptive tests hold their numbers, fit a phone, and take odd names."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import vl_convert

from safemetry.charts import INK, PALETTE, RULE
from safemetry.errors import InputError
from safemetry.forms.charts.budget import MOST_METHODS, budget_chart
from safemetry.forms.charts.information import information_chart
from safemetry.forms.charts.parallel import parallel_chart
from safemetry.forms.charts.traces import MOST_LINES, traces_chart

ODD = ['quoted "x"', "</text><script>", "a" * 300, "\u202ereversed", "=1+1"]
WIDTHS = pytest.mark.parametrize("width", [330, 640])


def drawn(chart: Any) -> str:
    """A chart as SVG, which fails where the specification is wrong."""
    svg: str = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    assert "NaN" not in svg
    return svg


def values(chart: Any) -> list[dict[str, Any]]:
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def width_of(svg: str) -> float:
    return float(svg.partition('width="')[2].partition('"')[0])


def rows(methods=("greedy", "anchors"), budgets=(10, 25, 100)):
    return [
        {
            "items": items,
            "method": method,
            "rmse": 0.2 / items**0.5 + 0.002 * place,
            "random_rmse": 0.3 / items**0.5,
            "random_band": [0.25 / items**0.5, 0.36 / items**0.5],
        }
        for items in budgets
        for place, method in enumerate(methods)
    ]


def sessions(count=20, length=30, names=None):
    rng = np.random.default_rng(1)
    return [
        {
            "target": names[place] if names else f"target-{place}",
            "theta": (place / 5 + rng.normal(0, 0.2, length)).tolist(),
            "se": (1 / np.sqrt(np.arange(1, length + 1))).tolist(),
        }
        for place in range(count)
    ]


def curve():
    theta = np.linspace(-4, 4, 41)
    return {
        "theta": theta.tolist(),
        "form": (5 * np.exp(-(theta**2))).tolist(),
        "all": (30 * np.exp(-(theta**2) / 2)).tolist(),
        "population": np.exp(-(theta**2) / 2).tolist(),
    }


@WIDTHS
def test_every_chart_fits_its_width_in_shared_colours_with_a_description(width):
    for chart in (
        budget_chart(rows(), own=25, method="greedy", width=width),
        traces_chart(sessions(), cut=0.5, width=width),
        information_chart(curve(), width=width),
        parallel_chart(curve(), [curve()["form"], curve()["form"]], width=width),
    ):
        svg = drawn(chart)
        assert width_of(svg) <= width + 1
        assert chart.to_dict()["description"]
        colours = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', svg))
        assert colours <= {*PALETTE, INK, RULE}


def test_the_budget_chart_holds_errors_band_and_the_own_length():
    held = values(budget_chart(rows(), own=25, method="anchors"))
    points = [row for row in held if "method" in row]
    assert len(points) == 6
    assert {row["method"] for row in points if row["own"]} == {"anchors"}
    bands = [row for row in held if "low" in row]
    assert [row["items"] for row in bands] == [10, 25, 100]
    assert bands[0]["low"] < bands[0]["mean"] < bands[0]["high"]
    assert next(row for row in held if row.get("word") == "this form")["items"] == 25


def test_the_budget_chart_shows_the_own_method_first_and_some_others():
    many = [f"method-{place}" for place in range(10)]
    held = values(budget_chart(rows(many), method="method-9"))
    shown = list(dict.fromkeys(row["method"] for row in held if "method" in row))
    assert len(shown) == MOST_METHODS
    assert "method-9" in shown


def test_random_forms_alone_and_one_budget_can_be_drawn():
    drawn(budget_chart(rows(["random"])))
    drawn(budget_chart(rows(budgets=(25,)), own=25))


def test_sessions_with_a_panel_run_from_the_lowest_to_the_highest():
    said = drawn(traces_chart(sessions(40), most=3))
    assert [f">target-{place}<" in said for place in (0, 39)] == [True, True]
    assert said.count(">target-") == 3


def test_bands_end_with_their_panel_and_an_unknown_error_has_none():
    wide = sessions(3)
    wide[0]["se"] = [50.0] * 29 + [None]
    held = [row for row in values(traces_chart(wide)) if "low" in row]
    assert max(row["high"] for row in held[-90:]) < 60
    assert any(not row["known"] for row in held)
    drawn(traces_chart(wide))


def test_many_long_sessions_are_thinned():
    chart = traces_chart(sessions(300, 200))
    assert len(values(chart)) <= 60 * (MOST_LINES + 12)


def test_the_first_of_several_dimensions_is_drawn():
    several = [{"target": "t", "theta": [[0.5, 2.0], [0.7, 1.0]], "se": [[1.0, None], [0.5, 0.5]]}]
    held = [row["theta"] for row in values(traces_chart(several)) if "low" in row]
    assert set(held) == {0.5, 0.7}


def test_what_lies_below_the_axis_of_information_is_left_out():
    held = [row for row in values(information_chart(curve())) if "information" in row]
    lowest = min(row["information"] for row in held)
    assert lowest >= 5 / 40
    assert {row["series"] for row in held} == {"the form", "all items"}


def test_a_curve_in_two_pieces_is_not_joined():
    given = curve()
    given["form"] = [4.0 if abs(at) > 2 else 0.0 for at in given["theta"]]
    held = [row for row in values(information_chart(given)) if row.get("series") == "the form"]
    assert len({row["piece"] for row in held}) == 2


@WIDTHS
def test_odd_names_stay_text(width):
    for chart in (
        budget_chart(rows(ODD), width=width),
        traces_chart(sessions(len(ODD), names=ODD), width=width),
    ):
        svg = drawn(chart)
        assert "<script" not in svg
        assert "\u202e" not in svg
        assert "a" * 100 not in svg
        assert width_of(svg) <= width + 1


def test_nothing_to_show_is_told():
    for draw in (
        lambda: budget_chart([]),
        lambda: traces_chart([{"target": "t", "theta": [], "se": []}]),
        lambda: information_chart({"theta": [0.0], "form": [0.0], "all": [0.0]}),
        lambda: parallel_chart(curve(), [curve()["form"]]),
    ):
        with pytest.raises(InputError):
            draw()
