"""Reports: findings become one document."""

from safemetry.report.blocks import (
    Column,
    Excerpt,
    Fact,
    Figure,
    Fold,
    Rate,
    Sentences,
    Shade,
    Spread,
    Table,
    Text,
    excerpt,
)
from safemetry.report.context import ReportContext
from safemetry.report.report import Report, compose_report
from safemetry.report.section import Part, Section
from safemetry.report.settings import ReportSettings

__all__ = [
    "Column",
    "Excerpt",
    "Fact",
    "Figure",
    "Fold",
    "Part",
    "Rate",
    "Report",
    "ReportContext",
    "ReportSettings",
    "Section",
    "Sentences",
    "Shade",
    "Spread",
    "Table",
    "Text",
    "compose_report",
    "excerpt",
]
