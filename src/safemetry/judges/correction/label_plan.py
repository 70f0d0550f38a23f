"""What labelling would buy: labels needed for each rate, and which responses come next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.findings import plain
from safemetry.judges.agreement.gold import gold_of
from safemetry.judges.agreement.strata import by_intent
from safemetry.judges.correction.clustering import clustering_of
from safemetry.judges.correction.label_planning import (
    LabelsNeeded,
    NextLabels,
    labels_needed,
    next_labels,
)
from safemetry.judges.panel import NO_VERDICT, Panel
from safemetry.judges.spread import boundaries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]

_NO_GOLD: Final = "no judge is named as gold, so nothing says how well a judge predicts a label"
_NO_LABEL: Final = "no response of these items has both a gold label and a verdict of the judge"
_NOT_ASKED: Final = "not asked for"


@dataclass(frozen=True)
class RateNeed:
    """Labels that one rate needs.

    Parameters
    ----------
    judge, boundary, intent
        Whose rate of what, on which items.
    needed
        The labels; None where the rate has no label to go by.
    why
        Why it is None.
    """

    judge: str
    boundary: str
    intent: str
    needed: LabelsNeeded | None
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """One flat row."""
        row = {"judge": self.judge, "boundary": self.boundary, "intent": self.intent}
        names = ("width", "labels", "correlation", "without_judge", "with_judge", "saved")
        if self.needed is None:
            return {**row, **dict.fromkeys(names), "why": dict.fromkeys(names, self.why)}
        found: dict[str, Any] = plain(self.needed)
        if not found["why"]:
            del found["why"]
        return {**row, **found}


@dataclass(frozen=True)
class LabelPlan:
    """What labelling would buy.

    Parameters
    ----------
    needed
        One row for each judge, boundary and intent; none without gold.
    next
        Where to label next; None where it was not asked for.
    judge, boundary
        Whose rate the next labels are for; None without `next`.
    why
        Field -> why it is None or empty.
    """

    needed: tuple[RateNeed, ...]
    next: NextLabels | None
    judge: str | None
    boundary: str | None
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where there is something to explain."""
        found = plain({name: value for name, value in vars(self).items() if name != "why"})
        return {**found, "why": dict(self.why)} if self.why else found


def plan_labels(
    panel: Panel,
    gold: Sequence[str],
    rng: np.random.Generator,
    *,
    width: float = 0.1,
    further: int = 0,
    judge: str | None = None,
    earlier: FloatArray | None = None,
    level: float = 0.95,
) -> LabelPlan:
    """Labels needed for each rate, and which responses to label next.

    Parameters
    ----------
    panel
        The verdicts.
    gold
        Judges whose labels are gold; none where nothing is labelled yet.
    rng
        Decides which responses of a cell come next.
    width
        Wanted of an interval, from end to end, in (0, 1).
    further
        Labels to place next, up to 10,000; 0 for none.
    judge
        Whose rate they are for. By default the judge that needs fewest labels for its rates over
        the highest boundary, and without gold the first.
    earlier
        With which chance each response was chosen for the labels so far, shape ``(R,)``; None where
        these are a simple random part of each intent.
    level
        Confidence of the interval.

    Raises
    ------
    InputError
        For an impossible number of further labels, or a judge that is not on the panel.
    """
    others = [name for name in panel.judges if name not in gold]
    highest = boundaries(panel.classes, panel.ordered)[-1][0]
    why: dict[str, str] = {}
    needed: tuple[RateNeed, ...] = ()
    if gold:
        labels = gold_of(panel, gold).labels
        weight = np.ones(panel.responses) if earlier is None else 1 / earlier
        needed = tuple(
            row
            for name in others
            for row in _needs(panel, (labels, weight), name, width=width, level=level)
        )
    else:
        why["needed"] = _NO_GOLD
    if not further or not others:
        reason = _NOT_ASKED if not further else "every judge is gold"
        why |= dict.fromkeys(("next", "judge", "boundary"), reason)
        return LabelPlan(needed, None, None, None, why)
    chosen = judge or min(
        others,
        key=lambda name: (_labels_in_all(needed, name, highest), -_labels_now(needed, name)),
    )
    return LabelPlan(
        needed,
        next_labels(panel, gold, chosen, highest, further, rng, earlier=earlier),
        chosen,
        highest,
        why,
    )


def _needs(
    panel: Panel, weighted: tuple[CodeArray, FloatArray], judge: str, *, width: float, level: float
) -> list[RateNeed]:
    """One row for each boundary and intent."""
    labels, weights = weighted
    verdict = panel.labels[:, panel.place(judge)]
    rows = []
    for boundary, first in boundaries(panel.classes, panel.ordered):
        over = np.arange(first, panel.ordered)
        for stratum in by_intent(panel):
            said, gold = verdict[stratum.rows], labels[stratum.rows]
            judged, known = said != NO_VERDICT, gold != NO_VERDICT
            side = np.isin(said, over).astype(np.int64)
            truth = np.isin(gold, over).astype(np.int64)
            both = judged & known
            named = (judge, boundary, stratum.intent)
            if not both.any():
                rows.append(RateNeed(*named, None, _NO_LABEL))
                continue
            share = weights[stratum.rows][both]
            table = np.bincount(2 * truth[both] + side[both], share, minlength=4).reshape(2, 2)
            rest = np.bincount(side[judged & ~known], minlength=2)
            clustering = clustering_of(
                np.unique(panel.cluster[stratum.rows][judged], return_inverse=True)[1],
                np.where(known, truth, np.nan)[judged],
                side[judged].astype(np.float64),
            )
            count = int(both.sum())
            needed = labels_needed(
                table * count / share.sum(), rest, width, level=level, clustering=clustering
            )
            rows.append(RateNeed(*named, needed))
    return rows


def _labels_now(needed: Sequence[RateNeed], judge: str) -> int:
    """Labels that say something of a judge, the largest number over its rates."""
    rows = [row.needed for row in needed if row.judge == judge and row.needed is not None]
    return max((one.labels for one in rows), default=0)


def _labels_in_all(needed: Sequence[RateNeed], judge: str, boundary: str) -> float:
    """Labels that the rates of a judge over a boundary need together."""
    found = [
        None if row.needed is None else row.needed.with_judge
        for row in needed
        if (row.judge, row.boundary) == (judge, boundary)
    ]
    return sum(float("inf") if count is None else count for count in found)
