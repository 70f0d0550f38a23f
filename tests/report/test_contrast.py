"""Text can be read on its ground, in the light, in the dark and on paper (WCAG 2.2 AA)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from safemetry.construct.dimensions.charts import STRONGEST

STYLE = files("safemetry.report").joinpath("style.css").read_text("utf-8")
LIGHT, _, REST = STYLE.partition("@media (prefers-color-scheme: dark)")
SCHEMES = {
    "light": LIGHT,
    "dark": LIGHT + REST.partition("* {")[0],
    "print": LIGHT + STYLE.partition("@media print")[2],
}
PAIRS = [
    ("ink", "surface"),
    ("soft", "surface"),
    ("accent", "surface"),
    ("ink", "raised"),
    ("soft", "raised"),
    ("ink", "warm"),
    ("accent", "warm"),
]
MARKS = [("mark", "bar"), ("mark", "surface"), ("line", "raised"), ("chart-1", "surface")]
SHADES = range(11)
Colour = tuple[float, float, float]


def properties(scheme: str) -> dict[str, str]:
    """Custom properties of a scheme; a later one replaces an earlier one."""
    return dict(re.findall(r"--([\w-]+): ([^;]+);", SCHEMES[scheme]))


def colour(value: str) -> Colour:
    if value.startswith("#"):
        digits = value[1:] if len(value) == 7 else "".join(2 * digit for digit in value[1:])
        return (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16))
    red, green, blue = (float(part) for part in value.split(","))
    return (red, green, blue)


def luminance(of: Colour) -> float:
    """Relative luminance, WCAG 2.2."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in of)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_computation_is_that_of_the_standard():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast(colour("#767676"), colour("#fff")) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_words_stand_out(scheme, text, ground):
    known = properties(scheme)
    assert contrast(colour(known[text]), colour(known[ground])) >= 4.5


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize(("mark", "ground"), MARKS)
def test_marks_stand_out(scheme, mark, ground):
    known = properties(scheme)
    assert contrast(colour(known[mark]), colour(known[ground])) >= 3


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("shade", SHADES)
def test_words_in_a_heat_map_stand_out(scheme, shade):
    known = properties(scheme)
    (rule,) = re.findall(rf"td\.s{shade} {{ (background[^}}]+)}}", STYLE)
    heat, surface = colour(known["heat"]), colour(known["surface"])
    opacity = float((re.findall(r"rgba\(var\(--heat\), ([\d.]+)\)", rule) or ["1"])[0])
    ground = tuple(opacity * a + (1 - opacity) * b for a, b in zip(heat, surface, strict=True))
    (ink,) = re.findall(r"[; ]color: var\(--([\w-]+)\)", rule) or ["ink"]
    assert contrast(colour(known[ink]), ground) >= 4.5


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("mark", ["chart-1", "chart-2"])
def test_numbers_in_a_map_of_correlations_stand_out(scheme, mark):
    known = properties(scheme)
    cell, surface = colour(known[mark]), colour(known["surface"])
    ground = tuple(STRONGEST * a + (1 - STRONGEST) * b for a, b in zip(cell, surface, strict=True))
    assert contrast(colour(known["ink"]), ground) >= 4.5


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_shades_become_stronger(scheme):
    known = properties(scheme)
    opacities = [float(o) for o in re.findall(r"rgba\(var\(--heat\), ([\d.]+)\)", STYLE)]
    assert len(opacities) == 10
    assert opacities == sorted(set(opacities))
    assert known["heat"] != known["surface"]


def test_no_text_is_made_fainter_than_its_colour():
    assert "opacity" not in re.sub(r"--[\w-]+", "", STYLE)
