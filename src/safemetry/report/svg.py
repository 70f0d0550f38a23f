"""Charts as SVG that fits a page: themed by its style sheet, labelled, without styles of its own.

A page with a strict content security policy allows no style attribute, and a reader in the dark
wants other colours, so each colour of `charts` becomes a custom property of the page.
"""

from __future__ import annotations

import html
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any, Final

from safemetry.charts import INK, PALETTE, RULE, SURFACE

WIDTHS: Final = {"narrow": 330, "wide": 640}
"""Widths in pixels: one for a phone, one for a desk; the page shows the one that fits."""

_COLOURS: Final = {
    INK: "var(--ink)",
    RULE: "var(--rule)",
    SURFACE: "var(--surface)",
    **{colour: f"var(--chart-{number})" for number, colour in enumerate(PALETTE, start=1)},
}
_PAINT: Final = ("fill", "stroke")
_KEPT: Final = frozenset({"d", "transform", "x", "y", "dx", "dy", "x1", "x2", "y1", "y2", "r"}) | {
    "width",
    "height",
    "viewBox",
    "fill",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "stroke-opacity",
    "fill-opacity",
    "opacity",
    "text-anchor",
    "font-size",
    "font-weight",
    "points",
    "cx",
    "cy",
}
_DRAWN: Final = frozenset({"g", "path", "line", "rect", "circle", "text", "tspan"})
_SPACE: Final = "{http://www.w3.org/2000/svg}"


def render_svg(draw: Callable[[int], Any], label: str) -> str:
    """A chart as two SVG elements, for narrow and for wide pages.

    Parameters
    ----------
    draw
        Makes the Altair chart for a width.
    label
        What is seen in the chart, for those who do not see it.

    Returns
    -------
    str
        Markup with `role` and label, without style, script, link or foreign object.
    """
    return "".join(_render(draw(width), label, f"chart {name}") for name, width in WIDTHS.items())


def _render(chart: Any, label: str, classes: str) -> str:
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(chart.to_dict(validate=False))
    root = ET.fromstring(drawn)  # noqa: S314 - written a moment ago by our own renderer
    _clean(root)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": label, "class": classes}
    _, _, width, _ = root.attrib["viewBox"].split()
    root.attrib["width"] = width
    return _write(root)


def _clean(element: ET.Element) -> None:
    """Keep what draws; colours become those of the page."""
    for name in list(element.attrib):
        if name not in _KEPT:
            del element.attrib[name]
    for name in _PAINT:
        if element.get(name) in _COLOURS:
            element.set(name, _COLOURS[element.attrib[name]])
    for child in list(element):
        drawn = child.tag.removeprefix(_SPACE) in _DRAWN
        invisible = child.get("display") == "none" or child.get("d") in {"", "M0,0h0v0h0Z"}
        if drawn and not invisible:
            _clean(child)
        else:
            element.remove(child)


def _write(element: ET.Element) -> str:
    """The element as HTML holds it: without namespaces, everything escaped."""
    tag = element.tag.removeprefix(_SPACE)
    attributes = "".join(
        f' {name}="{html.escape(value)}"' for name, value in element.attrib.items()
    )
    inner = html.escape(element.text or "", quote=False) + "".join(map(_write, element))
    return f"<{tag}{attributes}>{inner}</{tag}>" + html.escape(element.tail or "", quote=False)
