"""Charts hold the numbers that they are made from, fit their width, and take odd names."""

from __future__ import annotations

import json

import numpy as np
import pytest
import vl_convert

from safemetry.errors import InputError
from safemetry.irt.charts import ability_forest, information_chart, item_curves, wright_map
from safemetry.irt.information import total_information
from safemetry.irt.parameters import ItemParameters, category_probabilities


@pytest.fixture
def parameters(simulated):
    return simulated(1, 6, np.random.default_rng(0))[0]


def drawn(chart):
    """A chart as SVG, which fails where the specification is wrong."""
    svg = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict()))
    assert "NaN" not in svg
    return svg


def values(chart):
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def width_of(svg):
    return float(svg.partition('width="')[2].partition('"')[0])


def test_every_chart_fits_the_width_that_is_asked_for(parameters):
    theta, errors = np.linspace(-2, 2, 9), np.full(9, 0.4)
    names = [f"organisation/model-{place}" for place in range(9)]
    for width in (420, 900):
        for chart in (
            item_curves(list("abcdef"), parameters, width=width),
            information_chart(parameters, width=width),
            ability_forest(names, theta, errors, width=width),
            wright_map(theta, parameters, width=width),
        ):
            assert 0.75 * width < width_of(drawn(chart)) < 1.05 * width


def test_item_curves_are_the_probabilities(parameters):
    rows = values(item_curves(list("abcdef"), parameters))
    assert len(rows) == 6 * 81
    expected = category_probabilities(parameters, np.array([[-4.0], [4.0]]))[1]
    found = [row["probability"] for row in rows if row["ability"] == -4]
    assert sorted(found) == pytest.approx(sorted(expected[0]))


def test_a_graded_item_shows_each_of_its_categories():
    steps = np.array([[1.0, 0.0, -1.0], [0.5, -0.5, -np.inf]])
    graded = ItemParameters(np.ones((2, 1)), steps, np.zeros(2), np.ones(2))
    chart = item_curves(["a", "b"], graded)
    assert len(values(chart)) == (4 + 3) * 81
    assert "response" in drawn(chart)


def test_information_and_error_stand_on_axes_of_their_own(parameters):
    chart = information_chart(parameters)
    rows = values(chart)
    theta = np.array([row["ability"] for row in rows])
    found = np.array([row["information"] for row in rows])
    assert np.allclose(found, total_information(parameters, theta))
    assert chart.to_dict()["resolve"]["scale"]["y"] == "independent"
    flat = ItemParameters(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1), np.ones(1))
    with pytest.raises(InputError, match="tell nothing"):
        information_chart(flat)


def test_the_forest_is_sorted_and_names_everyone():
    names = ['quoted "x"', "</text><script>", "a" * 200, "a" * 200 + "b"]
    chart = ability_forest(names, np.array([0.1, 2.0, -1.0, 0.5]), np.full(4, 0.3))
    rows = values(chart)
    assert [row["target"] for row in rows] == [names[place] for place in (1, 3, 0, 2)]
    assert rows[0]["high"] - rows[0]["low"] == pytest.approx(2 * 1.96 * 0.3)
    svg = drawn(chart)
    assert "quoted" in svg
    assert "<script>" not in svg


def test_an_unknown_error_has_no_interval():
    errors = np.ma.array([0.3, 9.0], mask=[False, True])
    rows = values(ability_forest(["a", "b"], np.array([1.0, 0.0]), errors))
    assert (rows[1]["low"], rows[1]["ability"], rows[1]["high"]) == (0, 0, 0)
    assert rows[0]["low"] < rows[0]["ability"]


def test_the_wright_map_counts_everyone_also_far_out(parameters):
    far = ItemParameters(
        np.array([[1.0], [1.0], [0.0], [1.0]]),
        np.array([[-300.0], [0.0], [0.0], [1.0]]),
        np.zeros(4),
        np.ones(4),
    )
    rows = values(wright_map(np.array([-1.0, 0.0, 0.5]), far))
    shares = {"targets": 0.0, "items": 0.0}
    for row in rows:
        if "kind" in row:
            shares[row["kind"]] += row["share"]
    assert shares["targets"] == pytest.approx(1)
    assert shares["items"] == pytest.approx(-1)
    assert max(row["end"] for row in rows if "end" in row) <= 3.5 + 1e-9
    drawn(wright_map(np.zeros(1), far.select(np.array([2]))))


def test_several_dimensions_and_too_many_items_are_refused(simulated, parameters):
    plane, *_ = simulated(1, 4, np.random.default_rng(0), dimensions=2)
    for chart in (
        lambda: item_curves(list("abcd"), plane),
        lambda: information_chart(plane),
        lambda: wright_map(np.zeros(3), plane),
    ):
        with pytest.raises(InputError, match="2 dimensions"):
            chart()
    with pytest.raises(InputError, match="at most 24"):
        item_curves([str(place) for place in range(30)], parameters)
