"""Charts of the construct audit hold their numbers, fit a phone, and take odd names."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import vl_convert

from safemetry.charts import INK, PALETTE, RULE, SURFACE
from safemetry.construct.charts import (
    EXPLORED,
    GIVEN,
    ONE_DIMENSION,
    gain_chart,
    log_loss_chart,
    scree_chart,
)
from safemetry.construct.dif.charts import MOST_LABELS, dif_volcano, sensitivity_strip
from safemetry.construct.dimensions.charts import factor_correlation_map
from safemetry.errors import InputError

OBSERVED = [139.2, 59.0, 28.9, 10.9, 10.4, 9.5]
NULLS = {
    "independent items": [10.7, 10.2, 9.8, 9.5, 9.3, 9.1],
    "one fitted dimension": [141.0, 28.0, 8.5, 8.0, 7.6, 7.2],
}
HARMBENCH = [[1.0, 0.785, 0.451], [0.785, 1.0, 0.603], [0.451, 0.603, 1.0]]
ODD = ['quoted "x"', "</text><script>", "a" * 300, "\u202ereversed"]


def drawn(chart):
    """A chart as SVG, which fails where the specification is wrong."""
    svg = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    assert "NaN" not in svg
    return svg


def values(chart):
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def width_of(svg):
    return float(svg.partition('width="')[2].partition('"')[0])


def texts(svg):
    return [text for text in re.findall(r">([^<>]+)<", svg) if text.strip()]


def model(name, dims, kind, mean, **more):
    return {
        "name": name,
        "dims": dims,
        "kind": kind,
        "mean": mean,
        "splits": [mean - 0.004, mean, mean + 0.004],
        **more,
    }


MODELS = [
    model("type (3D confirmatory)", 3, GIVEN, 0.242),
    model("10D exploratory", 10, EXPLORED, 0.264),
    model("4D exploratory", 4, EXPLORED, 0.240),
    model("1D 2PL", 1, ONE_DIMENSION, 0.299),
]


def item(name, statistic, effect, *, flagged=False, beyond=False):
    return {
        "item": name,
        "statistic": statistic,
        "effect": effect,
        "flagged": flagged,
        "item_flagged": beyond,
    }


def items(count, flagged=0, seed=0):
    rng = np.random.default_rng(seed)
    sizes = np.abs(rng.normal(0, 0.7, count))
    sizes[:flagged] = np.linspace(2.6, 4.2, flagged)
    signs = rng.choice([-1, 1], count)
    return [
        item(f"item-{place}", float(s), float(-2.35 * sign * s), flagged=place < flagged)
        for place, (s, sign) in enumerate(zip(sizes, signs, strict=True))
    ]


STRIP = [
    {"choice": ["score", "3 quantile bands of the two groups"], "null": null, "flags": flags}
    for null, flags in (("tight", 6), ("regularised", 1))
]


def every_chart(width, names=None):
    names = names or ["standard", "contextual", "copyright", "other"]
    size = len(names)
    matrix = (np.eye(size) * 0.6 + 0.4).tolist()
    models = [model(name, place + 1, EXPLORED, 0.25) for place, name in enumerate(names)]
    return {
        "scree": scree_chart(OBSERVED, {names[0]: NULLS["independent items"]}, width=width),
        "log loss": log_loss_chart([*MODELS, *models], width=width),
        "gain": gain_chart(
            [-0.001, 0.0, 0.001], 0.057, threshold=0.001, interval=(0.05, 0.06), width=width
        ),
        "correlations": factor_correlation_map(names, matrix, width=width),
        "volcano": dif_volcano(
            [item(name, 3.0 - 0.4 * k, 5.0 - k, flagged=True) for k, name in enumerate(names)],
            2.5,
            item_threshold=1.4,
            sides=("against A", "against B"),
            width=width,
        ),
        "strip": sensitivity_strip(
            [{"choice": [name], "null": name, "flags": k} for k, name in enumerate(names)],
            width=width,
        ),
    }


@pytest.mark.parametrize("width", [330, 640])
def test_every_chart_fits_the_width_that_is_asked_for(width):
    for name, chart in every_chart(width).items():
        assert width_of(drawn(chart)) <= width, name
    for name, chart in every_chart(width, ODD).items():
        assert width_of(drawn(chart)) <= width, name


@pytest.mark.parametrize("width", [330, 640])
def test_no_name_becomes_markup_or_turns_the_text_around(width):
    for chart in every_chart(width, ODD).values():
        svg = drawn(chart)
        assert "<script>" not in svg
        assert "\u202e" not in svg


def test_every_colour_is_one_that_a_page_can_replace():
    shared = {INK, RULE, SURFACE, *PALETTE, "none", "transparent"}
    for name, chart in every_chart(640).items():
        svg = drawn(chart)
        used = {
            colour
            for mark in re.findall(r"<(?:path|line|rect|text)\b[^>]*>", svg)
            for colour in re.findall(r'(?:fill|stroke)="([^"]+)"', mark)
        }
        assert used <= shared, (name, used - shared)


def test_both_a_dominant_and_a_small_eigenvalue_can_be_read():
    chart = scree_chart(OBSERVED, NULLS)
    assert chart.to_dict()["layer"][1]["encoding"]["y"]["scale"]["type"] == "log"
    rows = values(chart)
    seen = [row["eigenvalue"] for row in rows if row["series"] == "observed"]
    assert seen == OBSERVED
    assert {"10", "20", "50", "100"} <= set(texts(drawn(chart)))


def test_eigenvalues_of_one_size_are_on_a_plain_scale():
    chart = scree_chart([3.88, 1.47, 0.34], {"independent items": [1.4, 1.0, 0.9]})
    assert chart.to_dict()["layer"][1]["encoding"]["y"]["scale"]["type"] == "log"
    plain = scree_chart([2.0, 1.1, 0.6], {})
    assert plain.to_dict()["layer"][0]["encoding"]["y"]["scale"]["type"] == "linear"
    drawn(plain)


def test_eigenvalues_that_are_not_positive_are_left_out():
    rows = values(scree_chart([2.0, 0.5, -0.1], {"null": [1.0, 0.0, -1.0]}))
    assert all(row["eigenvalue"] > 0 for row in rows)
    with pytest.raises(InputError, match="no eigenvalue"):
        scree_chart([0.0, -1.0], {})


def test_a_narrow_scree_has_fewer_components():
    many = list(np.linspace(30, 1, 40))
    for width, most in ((330, 12), (640, 20)):
        rows = values(scree_chart(many, {"null": many}, width=width))
        assert max(row["component"] for row in rows) == most


def test_models_stand_by_kind_and_dimensions_and_the_best_is_named():
    svg = texts(drawn(log_loss_chart(MODELS)))
    rows = [text for text in svg if "D " in text]
    assert rows == [
        "1D 2PL",
        "4D exploratory (best)",
        "10D exploratory",
        "type (3D confirmatory)",
    ]


def test_every_split_has_its_mark():
    splits = [row["loss"] for row in values(log_loss_chart(MODELS)) if "row" in row]
    given = [loss for held in MODELS for loss in (*held["splits"], held["mean"])]
    assert sorted(splits) == pytest.approx(sorted(given))


def test_a_failed_fit_is_never_the_best():
    failed = model("5D exploratory", 5, EXPLORED, 0.1, ranked=False)
    svg = texts(drawn(log_loss_chart([*MODELS, failed])))
    assert "5D exploratory (failed)" in svg
    assert "4D exploratory (best)" in svg
    alone = texts(drawn(log_loss_chart([failed])))
    assert not any("(best)" in text for text in alone)
    with pytest.raises(InputError, match="no model"):
        log_loss_chart([])


def test_the_histogram_of_gains_counts_every_data_set():
    gains = np.random.default_rng(1).normal(-0.001, 0.0015, 99)
    for observed in (0.057, 0.0006, -0.02):
        for width in (330, 640):
            chart = gain_chart(gains, observed, threshold=0.001, width=width)
            rows = values(chart)
            assert sum(row.get("sets", 0) for row in rows) == 99
            assert any(row["start"] == observed for row in rows)
            drawn(chart)


def test_gains_that_are_all_alike_can_be_drawn():
    assert sum(row.get("sets", 0) for row in values(gain_chart([0.0] * 99, 0.0))) == 99
    drawn(gain_chart([0.0] * 99, 0.0))


def test_correlations_are_printed_in_their_cells():
    svg = texts(drawn(factor_correlation_map(["standard", "contextual", "copyright"], HARMBENCH)))
    assert {".785", ".451", ".603"} <= set(svg)
    assert [text for text in svg if "copyright" in text] == ["3  copyright"]
    signs = {
        row["sign"] for row in values(factor_correlation_map(["a", "b"], [[1, -0.3], [-0.3, 1]]))
    }
    assert signs == {"positive", "negative"}
    with pytest.raises(InputError, match="2 rows of 2"):
        factor_correlation_map(["a", "b"], HARMBENCH)


def test_many_dimensions_keep_their_numbers_apart_on_a_phone():
    names = [f"a rather long dimension {place}" for place in range(10)]
    svg = drawn(factor_correlation_map(names, np.eye(10).tolist(), width=330))
    assert "rather long" not in svg
    assert "rather long" in drawn(factor_correlation_map(names, np.eye(10).tolist(), width=640))


def test_the_volcano_shows_every_flagged_item_and_labels_the_strongest():
    chart = dif_volcano(items(400, flagged=12), 2.5)
    rows = values(chart)
    flagged = [row for row in rows if row.get("state") == "flagged"]
    assert len(flagged) == 12
    labelled = [row["text"] for row in rows if "side" in row]
    assert 1 <= len(labelled) <= MOST_LABELS
    assert set(labelled) <= {f"item-{place}" for place in range(4, 12)}


def test_no_label_of_the_volcano_covers_a_point():
    width = 640
    chart = dif_volcano(items(400, flagged=8, seed=3), 2.5, width=width)
    spec = chart.to_dict()
    side, height = spec["width"], spec["height"]
    low, high = spec["layer"][1]["encoding"]["x"]["scale"]["domain"]
    _, up = spec["layer"][1]["encoding"]["y"]["scale"]["domain"]
    rows = values(chart)

    def pixels(row):
        return side * (row["effect"] - low) / (high - low), height * (1 - row["size"] / up)

    points = [pixels(row) for row in rows if "state" in row]
    for row in rows:
        if "side" in row:
            x, y = pixels(row)
            long = 6 * len(row["text"])
            left = x + 9 if row["side"] == "right" else x - 9 - long
            assert not any(left < a < left + long and abs(b - y) < 6 for a, b in points)


def test_crowded_points_that_are_not_flagged_are_drawn_once():
    few = len(values(dif_volcano(items(300), 2.5)))
    many = len(values(dif_volcano(items(20_000), 2.5)))
    assert many < 20 * few
    assert len(drawn(dif_volcano(items(20_000), 2.5))) < 1_500_000


def test_thresholds_are_named_with_their_values():
    svg = texts(drawn(dif_volcano(items(50, flagged=1), 2.5, item_threshold=1.4)))
    assert "family-wise 2.50" in svg
    assert "one item 1.40" in svg
    without = texts(drawn(dif_volcano(items(50), None)))
    assert not any("family-wise" in text for text in without)


def test_items_without_a_statistic_are_left_out():
    rows = [item("known", 1.0, 1.0), item("unknown", None, None)]
    assert [row["item"] for row in values(dif_volcano(rows, None)) if "item" in row] == ["known"]
    with pytest.raises(InputError, match="no item"):
        dif_volcano([item("unknown", None, None)], 2.5)


def test_the_strip_shows_every_count_and_its_range():
    rows = values(sensitivity_strip(STRIP))
    assert sorted(row["flags"] for row in rows if "flags" in row) == [1, 6]
    (span,) = [row for row in rows if "high" in row]
    assert (span["low"], span["high"]) == (1, 6)
    with pytest.raises(InputError, match="no item"):
        sensitivity_strip([])


def test_a_strip_without_flags_or_choices_can_be_drawn():
    drawn(sensitivity_strip([{"choice": [], "null": "tight", "flags": 0}], width=330))
