"""Charts of the judge audit hold their numbers, fit a phone, and take odd names."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import vl_convert

from safemetry.charts import INK, PALETTE, RULE, SURFACE
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.judges.charts.agreement import MOST_ON_A_PHONE, STRONGEST, agreement_map
from safemetry.judges.charts.counts import MOST_JUDGES, counts_chart
from safemetry.judges.charts.curve import MOST_POINTS, specification_chart
from safemetry.judges.charts.drawing import percents, share, short, spaced, ticks
from safemetry.judges.charts.movement import MOST_PANELS, movement_chart
from safemetry.judges.charts.rates import corrected_chart, spread_chart
from safemetry.judges.collapse import find_collapse
from safemetry.judges.counts import count_classes
from safemetry.judges.movement import measure_movement
from safemetry.judges.panel import Panel
from safemetry.judges.specifications import specification_curves
from safemetry.judges.spread import measure_spread

ODD = ['quoted "x"', "</text><script>", "a" * 300, "\u202ereversed", "=1+1"]
COLLAPSED = ("judge-15", "judge-16", "judge-17")
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


def words(chart: Any) -> list[str]:
    return [row["text"] for row in values(chart) if "text" in row]


def of_panel(panel: Panel) -> dict[str, Any]:
    """Rows of the audit, as JSON holds them."""
    counts = count_classes(panel)
    collapse = find_collapse(panel, counts)
    bad = {row.judge for row in collapse if row.state == "collapsed" and row.target is None}
    moves, directions = measure_movement(panel, panel.judges[0])
    return {
        "collapse": plain(collapse),
        "movement": plain(moves),
        "directions": plain(directions),
        "spread": plain(measure_spread(panel, counts, bad)),
        "curve": plain(specification_curves(panel))[0],
    }


def corrections(judges: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "judge": judge,
            "boundary": "comply",
            "intent": "harmful",
            "method": method,
            "naive": 0.1 + 0.01 * place,
            "estimate": 0.2,
            "interval": [0.15, 0.27],
            "labels": 60,
            "total": 300,
        }
        for place, judge in enumerate(judges)
        for method in ("labels", "ppi++", "rogan_gladen/exact")
    ]


def every_chart(data: dict[str, Any], judges: list[str], width: int) -> dict[str, Any]:
    classes = ["refuse", "evasive", "comply"]
    pairs = {
        (first, second): 0.9 - 0.1 * place
        for place, first in enumerate(judges)
        for second in judges[:place]
    }
    return {
        "counts": counts_chart(data["collapse"], classes, width=width),
        "movement": movement_chart(data["movement"], data["directions"], classes, width=width),
        "spread": spread_chart(data["spread"], width=width),
        "curve": specification_chart(
            data["curve"]["specifications"], data["curve"]["variance_shares"], width=width
        ),
        "agreement": agreement_map(judges, pairs, humans=judges[:2], ceiling=0.8, width=width),
        "corrected": corrected_chart(corrections(judges), width=width),
    }


@pytest.fixture
def known(roster: Panel) -> dict[str, Any]:
    return of_panel(roster)


@WIDTHS
def test_every_chart_has_the_width_that_is_asked_for(known, roster, panel_from, width):
    rng = np.random.default_rng(5)
    odd = panel_from(rng.integers(0, 3, (60, len(ODD))), judges=ODD)
    for data, judges in ((known, list(roster.judges)), (of_panel(odd), ODD)):
        for name, chart in every_chart(data, judges, width).items():
            assert width_of(drawn(chart)) == width, name
            places = [
                row[at] for row in values(chart) for at in ("x", "left", "right") if at in row
            ]
            assert min(places) >= -1, name
            assert max(places) <= width + 1, name


def test_no_name_becomes_markup_or_turns_the_text_around(panel_from):
    rng = np.random.default_rng(5)
    data = of_panel(panel_from(rng.integers(0, 3, (60, len(ODD))), judges=ODD))
    for chart in every_chart(data, ODD, 330).values():
        svg = drawn(chart)
        assert "<script>" not in svg
        assert "\u202e" not in svg


def test_every_colour_is_one_that_a_page_can_replace(known, roster):
    shared = {INK, RULE, SURFACE, *PALETTE, "none", "transparent"}
    for name, chart in every_chart(known, list(roster.judges), 640).items():
        used = {
            colour
            for mark in re.findall(r"<(?:path|line|rect|text)\b[^>]*>", drawn(chart))
            for colour in re.findall(r'(?:fill|stroke)="([^"]+)"', mark)
        }
        assert used <= shared, (name, used - shared)


def test_collapsed_judges_are_marked_and_bars_are_as_long_as_their_counts(known):
    chart = counts_chart(known["collapse"], ["refuse", "evasive", "comply"], width=640)
    triangles = [row for row in values(chart) if row.get("shape") == "triangle-down"]
    assert len(triangles) == 3
    bars = [row for row in values(chart) if row.get("colour") == PALETTE[1] and "bottom" in row]
    nine, fifteen, forty = sorted(row["right"] - row["left"] for row in bars[:3])
    assert forty / nine == pytest.approx(40 / 9)
    assert fifteen / nine == pytest.approx(15 / 9)
    said = words(chart)
    assert {"9", "15", "40", "223", "line at 74"} <= set(said)
    names = [text for text in said if text.startswith("judge-")]
    assert names[0] == "judge-00"
    assert tuple(names[15:18]) == COLLAPSED


def test_what_a_judge_cannot_emit_and_what_is_too_rare_are_told_apart(panel_from):
    labels = np.array([[0, 0]] * 90 + [[2, 0]] * 5 + [[1, 0]] * 15)
    can_emit = [[True, True, True], [True, False, True]]
    rows = plain(find_collapse(panel_from(labels, can_emit=can_emit)))
    chart = counts_chart(rows, ["refuse", "evasive", "comply"], width=640)
    said = words(chart)
    assert said.count("cannot emit") == 1
    assert "under 11" in said
    assert "too rare for the rule" in said
    assert "collapsed: left of the dashed line" not in said


def test_many_judges_are_cut_and_the_collapsed_ones_stay(panel_from):
    severity = np.random.default_rng(3).permutation(400)
    counts = [*range(150, 150 - 40, -1), 3]
    labels = np.stack([np.where(severity < count, 1, 0) for count in counts], axis=1)
    rows = plain(find_collapse(panel_from(labels, classes=("refuse", "comply"))))
    said = words(counts_chart(rows, ["refuse", "comply"]))
    names = dict.fromkeys(text for text in said if text.startswith("judge-"))
    assert len(names) == MOST_JUDGES
    assert "judge-40" in names


def test_bands_of_the_movement_are_as_thick_as_their_counts(known):
    classes = ["refuse", "evasive", "comply"]
    chart = movement_chart(known["movement"], known["directions"], classes, width=640)
    titles = [text for text in words(chart) if text.startswith("judge-")]
    assert len(titles) == MOST_PANELS
    assert titles[0] == "judge-17"
    bands = {row["band"]: row for row in values(chart) if "band" in row}.values()
    thick = {
        colour: sum(row["bottom"] - row["top"] for row in bands if row["colour"] == colour)
        for colour in (PALETTE[0], PALETTE[1], PALETTE[3])
    }
    # The labels of the roster are nested, so that nothing goes up.
    assert not thick[PALETTE[3]]
    ranked = {row["judge"]: row for row in known["directions"]}
    lower = sum(ranked[name]["lower"] for name in titles)
    share_of_all = thick[PALETTE[1]] / sum(thick.values())
    assert share_of_all == pytest.approx(lower / (900 * MOST_PANELS), rel=0.02)
    assert "47% lower, 0% higher" in words(chart)


def test_the_spread_has_a_mark_for_each_judge_and_names_both_ends(known):
    chart = spread_chart(known["spread"], width=640)
    marks = [row for row in values(chart) if "shape" in row]
    assert len(marks) == 2 * 18
    assert sum(row["shape"] == "square" for row in marks) == 2 * 3
    said = words(chart)
    assert "judge-00 24.8%" in said
    assert "judge-17 1.0%" in said


def test_a_specification_curve_rises_and_keeps_both_ends(known):
    rows = known["curve"]["specifications"] * 3
    chart = specification_chart(rows, {"judge": 0.7, "boundary": 0.3}, width=640)
    dots = [row for row in values(chart) if "shape" in row]
    assert len(dots) == MOST_POINTS
    assert all(one["y"] >= two["y"] for one, two in pairwise(dots))
    said = words(chart)
    assert "judge: 70% of the variance" in said
    assert "missing verdicts" in said
    # One number of calls is no choice.
    assert "calls" not in said
    narrow = [row for row in values(specification_chart(rows, width=330)) if "shape" in row]
    assert len(narrow) == MOST_POINTS // 2
    ends = [row["rate"] for row in known["curve"]["specifications"]]
    assert (dots[0]["y"] - 158) / -150 == pytest.approx(min(ends) / max(ends))


def test_every_agreement_stands_in_its_cell_and_people_are_framed():
    judges = ["ann", "ben", "bot", "other"]
    pairs = {
        ("ben", "ann"): 0.8,
        ("ann", "bot"): 0.83,
        ("bot", "ben"): 0.2,
        ("bot", "other"): -0.31,
        ("ann", "other"): None,
    }
    chart = agreement_map(judges, pairs, humans=["ann", "ben"], ceiling=0.8, width=640)
    rows = values(chart)
    cells = {row["text"]: row for row in rows if "text" in row}
    assert {".80", ".83", ".20", "\N{MINUS SIGN}.31"} <= cells.keys()
    assert cells[".83"]["bold"]
    assert not cells[".20"]["bold"]
    assert sum(row.get("thickness") == 2 for row in rows) == 4


def test_numbers_in_cells_can_be_read():
    # The contrast of text on a ground of this opacity is tested with the style sheet.
    pairs = {("a", "b"): 1.0, ("a", "c"): -1.0, ("b", "c"): 0.0}
    grounds = [row for row in values(agreement_map(["a", "b", "c"], pairs)) if "opacity" in row]
    assert max(row["opacity"] for row in grounds) == STRONGEST == 0.5


def test_many_judges_on_a_phone_have_hundredths():
    judges = [f"judge-{place:02d}" for place in range(20)]
    pairs = {(one, two): 0.64 for one in judges for two in judges if one < two}
    said = words(agreement_map(judges, pairs, width=330))
    assert said.count("64") == MOST_ON_A_PHONE * (MOST_ON_A_PHONE - 1) // 2


def test_corrected_rates_stand_beside_what_the_judge_says():
    rows = corrections(["a", "b"])
    rows.append({**rows[0], "judge": "c", "estimate": None, "interval": None})
    chart = corrected_chart(rows, width=640)
    marks = [row for row in values(chart) if "shape" in row]
    # The labels alone once, and two methods for each of two judges.
    assert len(marks) == 1 + 2 * 2
    said = words(chart)
    assert [text for text in said if text in ("a", "b", "c")] == ["a", "b"]
    assert "Rogan-Gladen" in said


def test_nothing_to_show_is_said():
    for make in (
        lambda: counts_chart([], ["refuse"]),
        lambda: movement_chart([], [], ["refuse"]),
        lambda: spread_chart([]),
        lambda: specification_chart([]),
        lambda: agreement_map(["a"], {}),
        lambda: corrected_chart([]),
    ):
        with pytest.raises(InputError):
            make()


def test_axes_are_round_and_names_never_lie_on_each_other():
    assert percents(ticks(0.004)) == ["0.0%", "0.1%", "0.2%", "0.3%", "0.4%"]
    assert ticks(1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    places = spaced([1, 2, 3, 50, 51], 12, 0, 60)
    assert all(two - one >= 12 - 1e-9 for one, two in pairwise(places))
    assert short(1_234_567) == "1,235k"
    assert share(1, 1000) == "under 1%"
    assert share(0, 1000) == "0%"
