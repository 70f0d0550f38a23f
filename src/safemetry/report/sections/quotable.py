"""The claims in sentences that can be pasted."""

from __future__ import annotations

from typing import Final

from safemetry.claims import Claim
from safemetry.report.blocks import Sentences, Text, quoted
from safemetry.report.boards import METRICS
from safemetry.report.context import ReportContext
from safemetry.report.section import Part

_SHOWN: Final = 2_000
_VISIBLE: Final = 6
_COMPLEMENTS: Final = frozenset({"safe_recall", "help_rate"})


class QuotableSection:
    """A sentence for each claim; complements of a rate that stands there are left out."""

    name = "claims"
    order = 200

    def make(self, context: ReportContext) -> Part | None:
        """The sentences, attack success first, the highest ceiling first within a rate."""
        claims = [claim for claim in context.rates.claims if claim.metric not in _COMPLEMENTS]
        if not claims:
            return None
        claims.sort(key=_order)
        sentences = tuple(quoted(claim) for claim in claims[:_SHOWN])
        left = len(claims) - len(sentences)
        more = (
            (Text(f"{left:,} more are in `safemetry rates SOURCE --json rates.json`."),)
            if left
            else ()
        )
        return Part(
            title="Claims to quote",
            blocks=(
                Text(
                    "Each sentence can stand alone: it names the target, the denominator, the "
                    "uncertainty, the judge, the success rule and what was missing."
                ),
                Sentences(sentences, visible=_VISIBLE),
                *more,
            ),
        )


def _order(claim: Claim) -> tuple[object, ...]:
    places = [*METRICS, "discrimination_rate", "refusal_precision"]
    place = places.index(claim.metric) if claim.metric in places else len(places)
    scope = claim.scope
    return (place, -(claim.ceiling or 0.0), scope.benchmark or "", scope.target, scope.judge)
