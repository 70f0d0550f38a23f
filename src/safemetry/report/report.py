"""A report: every section that has something to say about the evidence, in one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any, ClassVar, Final

import narwhals.stable.v2 as nw

from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import RESPONSE_KEY
from safemetry.findings import Finding, plain, resolved
from safemetry.readers.conversion import ResponseText
from safemetry.report.blocks import Fact, Headline, name_of
from safemetry.report.context import ReportContext
from safemetry.report.section import Part, parts_of
from safemetry.report.settings import ReportSettings, report_settings

CERTIFICATE: Final = (
    "That a target is safe: tests bound how it can fail from below, and only for the attacks, "
    "items, judges and success rule named here."
)
_FACTS: Final = 6


@dataclass(frozen=True, kw_only=True)
class Report(Finding):
    """What `compose_report` returns.

    Parameters
    ----------
    title, subtitle
        Heading, and what the report is about in one line.
    parts
        The sections by name, in their order.
    inventory
        What the evidence holds: (what, value), for the end matter.
    """

    command: ClassVar[str] = "report"

    title: str
    subtitle: str
    parts: Mapping[str, Part]
    inventory: tuple[tuple[str, str], ...] = ()

    @property
    def facts(self) -> list[Fact]:
        """The figures of the first screen."""
        return [fact for part in self.parts.values() for fact in part.facts][:_FACTS]

    @property
    def notices(self) -> list[str]:
        """What stands above everything else."""
        return list(dict.fromkeys(line for part in self.parts.values() for line in part.notices))

    @property
    def headlines(self) -> list[Headline]:
        """The sentences of the first screen."""
        return [line for part in self.parts.values() for line in part.headlines]

    @property
    def limits(self) -> list[str]:
        """What the evidence cannot say."""
        found = [limit for part in self.parts.values() for limit in part.limits]
        return list(dict.fromkeys([CERTIFICATE, *found]))

    @property
    def references(self) -> list[str]:
        """Sources of the methods used."""
        found = [
            source
            for part in self.parts.values()
            for finding in part.findings
            for source in finding.sources
        ]
        return sorted(set(found))

    @property
    def versions(self) -> list[tuple[str, str]]:
        """What made the report."""
        return [(f"Version of {name}", version(name)) for name in ("safemetry", "duckdb", "scipy")]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per sentence of the first screen and per limit."""
        return [
            *({"kind": "headline", "text": line.text} for line in self.headlines),
            *({"kind": "limit", "text": line} for line in self.limits),
        ]

    def sentence(self) -> str:
        """The sentences of the first screen."""
        lines = [line.text for line in self.headlines]
        return "\n".join(lines or ["No rate could be computed."])

    def own_keys(self) -> dict[str, Any]:
        """The first screen, then each section with the results it rests on."""
        return {
            "title": self.title,
            "subtitle": self.subtitle,
            "notices": self.notices,
            "facts": plain(self.facts),
            "headlines": plain(self.headlines),
            "limits": self.limits,
            "sections": [
                {
                    "name": name,
                    "title": part.title,
                    "headlines": plain(list(part.headlines)),
                    "limits": list(part.limits),
                    "findings": [finding.to_dict() for finding in part.findings],
                }
                for name, part in self.parts.items()
            ],
            "references": self.references,
        }

    def to_html(self) -> str:
        """One self-contained page, the same text for the same evidence."""
        from safemetry.report.html import render_html

        return render_html(self)

    def to_markdown(self) -> str:
        """The report as Markdown."""
        from safemetry.report.markdown import render_markdown

        return render_markdown(self)


def compose_report(
    data: Any,
    *,
    texts: Iterable[ResponseText] | None = None,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    settings: ReportSettings | None = None,
    **options: Any,
) -> Report:
    """Compose a report of everything that the evidence supports.

    Parameters
    ----------
    data
        Evidence, or any table that narwhals accepts with the columns of the judgements table.
    texts
        Prompts and responses, such as `safemetry.readers.read_texts` gives; they are looked at only
        where the settings say ``include_text=True``.
    evidence_map
        A map, or a mapping with its entries.
    settings
        Settings; or give their fields as options.
    **options
        Fields of `ReportSettings`, such as ``title="Release 2"``.

    Raises
    ------
    InputError
        For a table, map or option that cannot be used.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"target": ["m"] * 9, "item": [*"abcdefghi"], "label": ["refuse"] * 9})
    >>> report = compose_report(table, evidence_map={"intent": "harmful"})
    >>> report.parts["balance"].facts[0].value
    '0.0%'
    """
    chosen = settings or report_settings(options)
    evidence = as_evidence(data, evidence_map)
    context = ReportContext(evidence, chosen, texts if chosen.include_text else None)
    parts, left_out = parts_of(context)
    warnings = [
        *evidence.warnings,
        *left_out,
        *(
            warning
            for part in parts.values()
            for finding in part.findings
            for warning in finding.warnings
        ),
    ]
    inventory = _inventory(context)
    return Report(
        title=name_of(chosen.title, 120),
        subtitle=_subtitle(context, dict(inventory)),
        parts=parts,
        inventory=inventory,
        settings=_settings(context),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _settings(context: ReportContext) -> dict[str, Any]:
    chosen = {item.name: getattr(context.settings, item.name) for item in fields(context.settings)}
    chosen["success"] = str(context.rule)
    return resolved({**chosen, "sources": context.evidence.sources}, "not given")


def _inventory(context: ReportContext) -> tuple[tuple[str, str], ...]:
    evidence = context.evidence
    judges = sorted(evidence.instruments)
    benchmarks = sorted({name for name in evidence.items["benchmark"].to_pylist() if name})
    return (
        ("Benchmarks", _listed(benchmarks) or "not stated"),
        ("Targets", _listed(evidence.targets_seen)),
        ("Items", f"{_item_count(evidence):,}"),
        ("Responses", f"{_response_count(evidence):,}"),
        ("Judges", _listed(judges)),
    )


def _item_count(evidence: Evidence) -> int:
    return len(evidence.items.group_by("item").aggregate([]))


def _response_count(evidence: Evidence) -> int:
    responses = evidence.rows.group_by(*RESPONSE_KEY, drop_null_keys=False).agg(rows=nw.len())
    return int(responses.select(nw.len()).collect("pyarrow").item())


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(name_of(name, 40) for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _numbered(count: str, word: str) -> str:
    return f"{count} {word}" + ("" if count == "1" else "s")


def _subtitle(context: ReportContext, inventory: Mapping[str, str]) -> str:
    evidence = context.evidence
    targets, judges = len(evidence.targets_seen), len(evidence.instruments)
    parts = [
        inventory["Benchmarks"] if inventory["Benchmarks"] != "not stated" else "",
        inventory["Targets"] if targets == 1 else f"{targets:,} targets",
        _numbered(inventory["Items"], "item"),
        _numbered(inventory["Responses"], "response"),
        f"judge {inventory['Judges']}" if judges == 1 else f"{judges} judges",
        f"success: {context.rule}",
    ]
    return " \N{MIDDLE DOT} ".join(part for part in parts if part)
