"""What `audit_judges` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from safemetry.findings import Finding, plain
from safemetry.judges.collapse import Collapse, CollapseState
from safemetry.judges.movement import Direction, Movement
from safemetry.judges.noise import NoiseFloor
from safemetry.judges.specifications import Curve
from safemetry.judges.spread import Spread

SOURCES: Final = (
    (
        "Cohen, J. (1960). A coefficient of agreement for nominal scales. Educational and "
        "Psychological Measurement 20, 37-46."
    ),
    "Krippendorff, K. (2004). Content Analysis, 2nd edition, chapter 11. Sage.",
    (
        "Gwet, K. L. (2008). Computing inter-rater reliability and its variance in the presence of "
        "high agreement. British Journal of Mathematical and Statistical Psychology 61, 29-48."
    ),
    (
        "Rogan, W. J. & Gladen, B. (1978). Estimating prevalence from the results of a screening "
        "test. American Journal of Epidemiology 107, 71-76."
    ),
    (
        "Angelopoulos, A. N., Duchi, J. C. & Zrnic, T. (2023). PPI++: efficient prediction-powered "
        "inference. arXiv:2311.01453."
    ),
    (
        "Simonsohn, U., Simmons, J. P. & Nelson, L. D. (2020). Specification curve analysis. "
        "Nature Human Behaviour 4, 1208-1214."
    ),
)
_MOST_NAMED: Final = 6


@dataclass(frozen=True, kw_only=True)
class JudgesFinding(Finding):
    """Whether the judges of some responses can be believed.

    Parameters
    ----------
    judges, classes
        Names; the first `ordered` classes are in the order.
    responses, common
        How many responses were judged at all, and by every judge.
    missing
        Judge -> reason -> calls without a verdict.
    counts
        Class counts over common responses, by target and pooled.
    collapse
        The rule for each judge and class, by target and pooled.
    movement, directions
        Where the reference's classes went under each judge, and which way each errs.
    spread
        Rates by boundary and intent.
    agreement
        Between judges, and with gold.
    noise
        Repeated calls.
    corrected
        Rates corrected with the labels of gold.
    labels
        What labelling would buy: how many a width needs, and where the next ones go.
    without_gold
        What models say without gold.
    specifications
        The specification curves, one for each intent.
    card
        The report card.
    why
        Why a part is None.
    """

    command: ClassVar[str] = "judges"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    judges: tuple[str, ...]
    classes: tuple[str, ...]
    ordered: int
    responses: int
    common: int
    missing: Mapping[str, Mapping[str, int]]
    counts: Sequence[Mapping[str, Any]]
    collapse: tuple[Collapse, ...]
    movement: tuple[Movement, ...] | None
    directions: tuple[Direction, ...] | None
    spread: tuple[Spread, ...]
    agreement: Any
    noise: NoiseFloor
    corrected: Any
    labels: Any
    without_gold: Any
    specifications: tuple[Curve, ...]
    card: Any
    why: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per target, judge and class: counts and the collapse rule."""
        return [row.to_dict() for row in self.collapse]

    def own_keys(self) -> dict[str, Any]:
        """The keys of the contract."""
        return {
            "judges": list(self.judges),
            "classes": list(self.classes),
            "class_order": list(self.classes[: self.ordered]),
            "responses": self.responses,
            "common": self.common,
            "missing": plain(self.missing),
            "counts": plain(list(self.counts)),
            "collapse": plain(self.collapse),
            "movement": plain(self.movement),
            "directions": plain(self.directions),
            "spread": plain(self.spread),
            "agreement": plain(self.agreement),
            "noise": plain(self.noise),
            "corrected": plain(self.corrected),
            "labels": plain(self.labels),
            "without_gold": plain(self.without_gold),
            "specifications": plain(self.specifications),
            "card": plain(self.card),
            **({"why": dict(self.why)} if self.why else {}),
        }

    @property
    def collapsed(self) -> dict[str, list[str]]:
        """Judge -> the classes on which it is collapsed, over all targets."""
        found: dict[str, list[str]] = {}
        for row in self.collapse:
            if row.target is None and row.state is CollapseState.COLLAPSED:
                found.setdefault(row.judge, []).append(row.name)
        return found

    def sentence(self) -> str:
        """Which judges cannot use a class, and how far the headline moves with the judge."""
        return " ".join([self._collapse_in_words(), *self._spread_in_words()])

    def _collapse_in_words(self) -> str:
        number = len({row.judge for row in self.collapse})
        noun = "response" if self.common == 1 else "responses"
        over = f"{number} judge{'s' if number > 1 else ''} of {self.common:,} common {noun}"
        if self.collapsed:
            named = [
                f"{judge} on {' and '.join(classes)}" for judge, classes in self.collapsed.items()
            ]
            more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
            verb = "is" if len(named) == 1 else "are"
            return f"{over}: collapsed {verb} {', '.join(named[:_MOST_NAMED])}{more}."
        single = [
            f"{row.judge} on {row.name} with {row.target}"
            for row in self.collapse
            if row.state is CollapseState.COLLAPSED
        ]
        if single:
            more = f" and {len(single) - _MOST_NAMED} more" if len(single) > _MOST_NAMED else ""
            return (
                f"{over}: over all targets no judge is collapsed, on single targets "
                f"{', '.join(single[:_MOST_NAMED])}{more}."
            )
        rows = [row for row in self.collapse if row.target is None]
        open_ = {row.name for row in rows if row.state is CollapseState.NOT_APPLICABLE}
        silent = f"; too rare to tell for {', '.join(sorted(open_))}" if open_ else ""
        return f"{over}: no judge is collapsed on a class that the rule applies to{silent}."

    def _spread_in_words(self) -> list[str]:
        said = []
        for row in self.spread:
            everyone = row.everyone
            if everyone.rate_max is None or everyone.rate_min is None or everyone.judges < 2:
                continue
            where = f" on {row.intent} items" if row.intent else ""
            of = f"of {row.responses:,} responses"
            if everyone.rate_max == everyone.rate_min:
                rate = f"{everyone.rate_max:.1%}"
                said.append(f"Under {row.boundary}{where} every judge sees {rate} {of}.")
                continue
            ratio = "unbounded" if everyone.ratio is None else f"{everyone.ratio:.1f} times"
            said.append(
                f"Under {row.boundary}{where} the rate is {everyone.rate_min:.1%} to "
                f"{everyone.rate_max:.1%} {of} ({ratio}), depending on the judge."
            )
        return said

    def chart(self) -> Any:
        """Class counts of each judge."""
        from safemetry.judges.charts.counts import counts_chart

        return counts_chart(plain(self.collapse), self.classes, ordered=self.ordered)
