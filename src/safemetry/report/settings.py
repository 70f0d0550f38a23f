"""Settings of a report, checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safemetry.evidence.success import SuccessRule
from safemetry.rates import RateSettings


@dataclass(frozen=True)
class ReportSettings:
    """Settings of `compose_report`.

    Parameters
    ----------
    title
        Heading of the report.
    success
        Success rule; None for the default of the evidence.
    cluster
        Item column whose values are the independent units.
    level
        Confidence of intervals and ceilings, in (0, 1).
    volume
        Requests to project rates onto.
    include_text
        Whether the texts of prompts and responses may be shown.
    """

    title: str = "What this evidence supports"
    success: SuccessRule | None = None
    cluster: str = "behaviour"
    level: float = 0.95
    volume: float | None = None
    include_text: bool = False

    def __post_init__(self) -> None:
        self.rates()

    def rates(self, *by: str) -> RateSettings:
        """The settings of the rates that the report shows.

        Raises
        ------
        InputError
            For a setting that cannot be used.
        """
        return RateSettings(
            by=by,
            success=self.success,
            cluster=self.cluster,
            level=self.level,
            volume=self.volume,
        )


def report_settings(options: Mapping[str, Any]) -> ReportSettings:
    """Settings from options as a caller writes them: a rule as text."""
    given = dict(options)
    if isinstance(given.get("success"), str):
        given["success"] = SuccessRule.parse(given["success"])
    return ReportSettings(**given)
