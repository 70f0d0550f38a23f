"""A report as one HTML page that loads nothing, runs nothing and needs no network."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from safemetry.claims import percent
from safemetry.findings import plain
from safemetry.report import blocks
from safemetry.report.svg import render_svg

if TYPE_CHECKING:
    from jinja2 import Environment

    from safemetry.report.report import Report

_SHADES: Final = 10
_LISTED: Final = 20
_HERE: Final = "safemetry.report"


def render_html(report: Report) -> str:
    """The page. The policy in its head allows its one style sheet and nothing else."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page: str = (
        _environment()
        .get_template("page.html.jinja")
        .render(report=report, style=style, digest=digest, settings=_settings(report))
    )
    return page


@cache
def _style() -> str:
    return files(_HERE).joinpath("style.css").read_text("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"draw": _draw, "kind": _kind}
    environment.filters |= {
        "place": _place,
        "tick": _tick,
        "shade": _shade,
        "shown": blocks.name_of,
        "percent": percent,
    }
    return environment


def _kind(value: Any) -> str:
    """The class of a block or cell, by which a template chooses how to write it."""
    return type(value).__name__


def _draw(figure: blocks.Figure) -> Any:
    from markupsafe import Markup

    return Markup(render_svg(figure.draw, f"{figure.label}. {figure.description}"))  # noqa: S704 - escaped where it is written


def _place(fraction: float, scale: float) -> str:
    """Where a fraction lies on an axis of 100 units that ends at `scale`."""
    return f"{min(100.0, 100 * fraction / scale):.3g}"


def _tick(fraction: float, scale: float) -> str:
    """Where the mark of a fraction begins, so that all of it lies on the axis."""
    return f"{min(99.0, 100 * fraction / scale):.3g}"


def _shade(level: float) -> int:
    return round(_SHADES * min(1.0, max(0.0, level)))


def _settings(report: Report) -> list[tuple[str, str]]:
    """Every setting on a line."""
    settings = {**report.settings}
    unset = settings.pop("why", {})
    return [
        (
            blocks.name_of(name),
            unset[name] if value is None and name in unset else _said(value),
        )
        for name, value in settings.items()
    ]


def _said(value: Any) -> str:
    if value in ({}, [], ()):
        return "none"
    if isinstance(value, str):
        return blocks.name_of(value, 120)
    if isinstance(value, list | tuple):
        more = f" and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
        return ", ".join(blocks.name_of(entry, 120) for entry in value[:_LISTED]) + more
    return blocks.name_of(json.dumps(plain(value)), 120)
