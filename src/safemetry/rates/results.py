"""What `measure_rates` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from safemetry.claims import Claim
from safemetry.findings import Finding, plain

SOURCES: Final = (
    (
        "Wilson, E. B. (1927). Probable inference, the law of succession, and "
        "statistical inference. "
        "JASA 22, 209-212."
    ),
    (
        "Clopper, C. J. & Pearson, E. S. (1934). The use of confidence or fiducial "
        "limits illustrated "
        "in the case of the binomial. Biometrika 26, 404-413."
    ),
    (
        "Korn, E. L. & Graubard, B. I. (1998). Confidence intervals for proportions with small "
        "expected number of positive counts estimated from survey data. Survey "
        "Methodology 24, 193-201."
    ),
)


@dataclass(frozen=True)
class WorstCell:
    """The group in which a target fails most, named among several.

    The largest of many rates is partly luck, so its interval and ceiling are those of the worst of
    `cells` groups: each at the level at which all of them hold together (Sidak).

    Parameters
    ----------
    claim
        The claim of that group, with its interval at the simultaneous level.
    cells
        Number of groups that it was named among.
    level
        Confidence with which the intervals of all of them hold.
    """

    claim: Claim
    cells: int
    level: float


@dataclass(frozen=True)
class AnyOfK:
    """Share of behaviours on which at least one of k attempts succeeds.

    Parameters
    ----------
    benchmark, target, judge, by
        What it holds for.
    attempts
        k; attempts are judged responses to the items of one behaviour.
    estimate
        Mean over the behaviours with at least k attempts.
    interval
        Two-sided, over behaviours.
    behaviours, left_out
        Behaviours with at least k attempts, and with fewer.
    per_attempt
        Successes over attempts, over all behaviours.
    """

    benchmark: str | None
    target: str
    judge: str
    by: Mapping[str, str | None]
    attempts: int
    estimate: float | None
    interval: tuple[float, float] | None
    behaviours: int
    left_out: int
    per_attempt: float | None
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RatesFinding(Finding):
    """Rates of every target under every judge.

    Parameters
    ----------
    claims
        One claim per metric, benchmark, target, judge and group.
    pairs
        For each group with matched pairs: how many there are and how many could be judged.
    frontier
        Safe recall against help rate, and whether another target is at least as good on both.
    worst
        With groups: the one in which each target fails most, with a simultaneous interval.
    any_of_k
        Success of several attempts on one behaviour.
    unclassified
        Judge calls on items whose intent is not known; they enter no harmful or benign rate, and
        under ``at_least`` they have the `rewarded_rate`.
    """

    command: ClassVar[str] = "rates"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    claims: tuple[Claim, ...]
    pairs: tuple[Mapping[str, Any], ...] = ()
    frontier: tuple[Mapping[str, Any], ...] = ()
    worst: tuple[WorstCell, ...] = ()
    any_of_k: tuple[AnyOfK, ...] = ()
    unclassified: int = 0

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per claim."""
        return [plain(claim) for claim in self.claims]

    def find(self, metric: str, **scope: str) -> Claim:
        """The one claim of a metric with the given parts of scope or group.

        Raises
        ------
        LookupError
            Where there is none, or more than one.
        """
        found = [
            claim
            for claim in self.claims
            if claim.metric == metric
            and all(
                claim.scope.by.get(name, getattr(claim.scope, name, None)) == value
                for name, value in scope.items()
            )
        ]
        if len(found) != 1:
            msg = f"{len(found)} claims are called {metric} with {scope}"
            raise LookupError(msg)
        return found[0]

    def sentence(self) -> str:
        """The claims, a sentence each."""
        if not self.claims:
            return "No rate could be computed: " + " ".join(self.warnings)
        return "\n".join(claim.sentence() for claim in self.claims)

    def chart(self) -> Any:
        """Estimates with their intervals, one row per claim."""
        from safemetry.charts import interval_chart

        return interval_chart(self.to_frame())
