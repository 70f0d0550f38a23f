"""What `adapt` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from safemetry.findings import Finding, plain
from safemetry.forms.adaptive.evaluation import AdaptiveEvaluation

SOURCES: Final = (
    (
        "Weiss, D. J. (1982). Improving measurement quality and efficiency with adaptive testing. "
        "Applied Psychological Measurement 6, 473-492."
    ),
    (
        "Chang, H.-H. & Ying, Z. (1996). A global information approach to computerized adaptive "
        "testing. Applied Psychological Measurement 20, 213-229."
    ),
    (
        "Reckase, M. D. (1983). A procedure for decision making using tailored testing. In New "
        "Horizons in Testing, 237-255. Academic Press."
    ),
)


@dataclass(frozen=True)
class BudgetRow:
    """How well sessions recover the score over all items after some of them.

    Parameters
    ----------
    items
        Answered so far; a test that ended before counts with what it had, and so do random items.
    targets
        With a score.
    rmse, mae, bias
        Of predicted less true scores, as fractions.
    spearman
        Rank correlation; None where the scores do not differ.
    random_rmse
        Of sessions that take random items, mean over repetitions.
    random_band
        5th and 95th percentile of the repetitions.
    why
        Why a field is None.
    """

    items: int
    targets: int
    rmse: float
    mae: float
    bias: float
    spearman: float | None
    random_rmse: float
    random_band: tuple[float, float]
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where a field is None."""
        found = {name: plain(value) for name, value in vars(self).items() if name != "why"}
        return {**found, "why": dict(self.why)} if self.why else found


@dataclass(frozen=True, kw_only=True)
class AdaptFinding(Finding):
    """Adaptive tests of all targets, simulated on the responses that are there.

    Parameters
    ----------
    sessions
        One for each target: items, estimates and errors after each, why it stopped, and the
        decision where a cut was given.
    evaluation
        Lengths, exposure, errors against the ability from all items, decisions; None in several
        dimensions.
    budgets
        Errors of predicted scores after some items, beside random items.
    pool
        Items that could be given.
    in_sample
        Targets that the items were calibrated on.
    why
        Why a part is None.
    """

    command: ClassVar[str] = "adapt"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    sessions: Sequence[Mapping[str, Any]]
    evaluation: AdaptiveEvaluation | None
    budgets: tuple[BudgetRow, ...]
    pool: int
    in_sample: tuple[str, ...]
    why: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row for each session: its length, last estimate and end."""
        return [
            {
                "target": session["target"],
                "items": len(session["items"]),
                "theta": session["theta"][-1] if session["theta"] else None,
                "se": session["se"][-1] if session["se"] else None,
                "stop": session["stop"],
                "decision": session.get("decision"),
            }
            for session in self.sessions
        ]

    def own_keys(self) -> dict[str, Any]:
        """The keys of the contract."""
        return {
            "sessions": plain(list(self.sessions)),
            "evaluation": self._evaluation(),
            "pool": self.pool,
            "in_sample": list(self.in_sample),
        }

    def _evaluation(self) -> dict[str, Any]:
        """Lengths and errors; what is not known in several dimensions has its reason."""
        rows = plain(self.budgets)
        if self.evaluation is None:
            lengths = [len(session["items"]) for session in self.sessions]
            unknown = dict.fromkeys(self.why)
            return {
                "sessions": len(lengths),
                "mean_length": sum(lengths) / max(len(lengths), 1),
                "shortest": min(lengths, default=0),
                "longest": max(lengths, default=0),
                **unknown,
                "by_items": rows,
                "why": dict(self.why),
            }
        found: dict[str, Any] = plain(self.evaluation)
        if not found["why"]:
            del found["why"]
        return {**found, "by_items": rows}

    def sentence(self) -> str:
        """How long the tests were, how they ended, and what they are worth beside random items."""
        count, found = len(self.sessions), self.evaluation
        lengths = [len(session["items"]) for session in self.sessions]
        targets = f"{count:,} target{'' if count == 1 else 's'}"
        mean = sum(lengths) / max(count, 1)
        said = [
            (f"{targets} took {_span(lengths)} of {self.pool:,} items ({mean:.1f} on average).")
        ]
        if found is not None and found.decided is not None:
            wrong = (
                ""
                if found.wrong is None
                else f", and {found.wrong:.0%} of the decisions differ from that of all items"
            )
            said.append(f"{found.decided:.0%} were decided{wrong}.")
        if self.budgets:
            last = self.budgets[-1]
            said.append(
                f"These tests miss the score over all items by {last.rmse:.1%} (root mean square); "
                f"as many random items miss it by {last.random_rmse:.1%}."
            )
        if self.in_sample:
            said.append(
                f"{len(self.in_sample):,} of the targets were calibrated on, so that errors look "
                "smaller than they are for new ones."
            )
        return " ".join(said)

    def chart(self) -> Any:
        """Estimates after each item, with their errors."""
        from safemetry.forms.charts.traces import traces_chart

        return traces_chart(plain(list(self.sessions)))


def _span(lengths: Sequence[int]) -> str:
    low, high = min(lengths, default=0), max(lengths, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
