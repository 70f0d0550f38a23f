"""Sections of a report: each is found through an entry point, none is named anywhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol, runtime_checkable

from safemetry.findings import Finding
from safemetry.plugins import Plugins, load_plugins
from safemetry.report.blocks import Block, Fact, Headline, is_block, name_of
from safemetry.report.context import ReportContext

GROUP: Final = "safemetry.sections"
_OWN_ANCHORS: Final = ("summary", "limits", "end", "main")
# No "-", which is what the page puts between a section and its parts.
_ANCHOR: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a section says.

    Parameters
    ----------
    title
        Heading.
    blocks
        The section itself.
    facts, headlines
        What of it belongs on the first screen: figures, and sentences.
    limits
        What the evidence cannot say, in whole sentences.
    findings
        The results it rests on; their warnings and sources are printed, JSON holds them in full.
    notices
        What whoever opens the report must know before all else.

    Raises
    ------
    TypeError
        For a block that no format can write.
    """

    title: str
    blocks: Sequence[Block]
    facts: Sequence[Fact] = ()
    headlines: Sequence[Headline] = ()
    limits: Sequence[str] = ()
    findings: Sequence[Finding] = ()
    notices: Sequence[str] = ()

    def __post_init__(self) -> None:
        for block in self.blocks:
            if not is_block(block):
                raise TypeError(f"a {type(block).__name__} is no block of a report")


@runtime_checkable
class Section(Protocol):
    """Makes one part of a report.

    Attributes
    ----------
    name
        Anchor in the page and key in JSON: small letters, digits and ``_``.
    order
        Its place among the sections; those of the package are 100 apart.
    """

    name: str
    order: int

    def make(self, context: ReportContext) -> Part | None:
        """The part, or None where the evidence holds nothing for it."""
        ...


@cache
def installed_sections() -> Plugins[Section]:
    """The entry points of the group ``safemetry.sections``.

    An entry point names a class without parameters that follows `Section`, under its `name`.
    """
    found = load_plugins(GROUP, Section, parts="name, order or make", taken=_OWN_ANCHORS)
    unfit = {name: why for name, section in found.by_name.items() if (why := _why_unfit(section))}
    return Plugins(
        {name: section for name, section in found.by_name.items() if name not in unfit},
        {**found.broken, **unfit},
    )


def _why_unfit(section: Section) -> str:
    if not _ANCHOR.fullmatch(section.name):
        return "its name is no anchor of a page; use small letters, digits and _"
    order: object = section.order
    if not isinstance(order, int):
        return "its order is no whole number"
    return ""


def sections_in_order() -> list[Section]:
    """The sections that work, as they stand in a report."""
    return sorted(
        installed_sections().by_name.values(), key=lambda section: (section.order, section.name)
    )


def parts_of(context: ReportContext) -> tuple[dict[str, Part], list[str]]:
    """What each section says, in their order, and a sentence for each that cannot be used.

    Raises
    ------
    Exception
        Whatever a section of this package raises: that is a defect of ours.
    """
    parts: dict[str, Part] = {}
    broken = dict(installed_sections().broken)
    for section in sections_in_order():
        try:
            part = _made(section, context)
        except Exception as error:
            if type(section).__module__.startswith("safemetry."):
                raise
            why = name_of(" ".join(str(error).split()), 200)
            broken[section.name] = f"it failed ({type(error).__name__}: {why})"
            continue
        if part is not None:
            parts[section.name] = part
    said = [f"The section {name_of(name)} was left out: {why}." for name, why in broken.items()]
    return parts, said


def _made(section: Section, context: ReportContext) -> Part | None:
    part = section.make(context)
    if part is not None and not isinstance(part, Part):
        raise TypeError(f"it made a {type(part).__name__} and no Part")
    return part
