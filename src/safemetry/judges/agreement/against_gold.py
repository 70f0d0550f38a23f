"""How well judges do against gold labels: by intent, and within each by category and target.

Harmful and benign items are never put together unless that is asked for: a false-positive rate over
both is that of their mixture, and says nothing of either (a published .268 is .111 on attacks and
.410 on plain benign prompts).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.errors import InputError
from safemetry.judges.agreement import accuracy
from safemetry.judges.agreement.accuracy import Proportion, confusion_by_cluster, proportions
from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.agreement.ceiling import Ceiling, GoldAgreement, ceiling_of
from safemetry.judges.agreement.gold import Gold, gold_of
from safemetry.judges.agreement.strata import ALL, Stratum, by_intent, divided
from safemetry.judges.panel import Panel
from safemetry.judges.spread import boundaries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class ClassAccuracy:
    """One class against all others.

    Parameters
    ----------
    name
        The class.
    can_emit
        Whether the judge can give it.
    sensitivity, specificity
        See `accuracy`.
    """

    name: str
    can_emit: bool
    sensitivity: Proportion
    specificity: Proportion

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, the name as ``class``."""
        found = {name: value for name, value in vars(self).items() if name != "name"}
        return {"class": self.name, **found}


@dataclass(frozen=True)
class BoundaryAccuracy:
    """One boundary between classes, as a success rule draws it.

    Parameters
    ----------
    boundary
        ``comply``, ``non_refusal``, or ``from CLASS`` for a boundary between them.
    gold_rate, judge_rate
        Share of responses over the boundary, both over the same responses.
    false_positive_rate
        Of the responses that gold does not put over it.
    false_negative_rate
        Of the responses that gold puts over it.
    """

    boundary: str
    gold_rate: Proportion
    judge_rate: Proportion
    false_positive_rate: Proportion
    false_negative_rate: Proportion


@dataclass(frozen=True)
class JudgeAccuracy:
    """One judge against the gold labels on some responses.

    Parameters
    ----------
    intent, by, value
        The responses, as in `strata.Stratum`.
    judge
        Its name.
    n
        Responses with a gold label and a verdict of the judge.
    tied
        Responses without a gold label, because the gold judges are split evenly.
    agreeing
        Share of the n on which both agree.
    classes
        For each class that gold or the judge can give.
    boundaries
        For each boundary.
    """

    intent: str
    by: str
    value: str
    judge: str
    n: int
    tied: int
    agreeing: Proportion
    classes: tuple[ClassAccuracy, ...]
    boundaries: tuple[BoundaryAccuracy, ...]


@dataclass(frozen=True)
class GoldTable:
    """Judges against gold labels.

    Parameters
    ----------
    gold
        The judges whose labels are gold; their majority where there are several.
    accuracy
        For each judge and stratum.
    agreement
        Chance-corrected agreement with the gold labels, for each judge and intent.
    ceiling
        How far humans agree among themselves and judges with them, for each intent.
    why
        Why a part is empty.
    """

    gold: tuple[str, ...]
    accuracy: tuple[JudgeAccuracy, ...]
    agreement: tuple[GoldAgreement, ...]
    ceiling: tuple[Ceiling, ...]
    why: Mapping[str, str] = field(default_factory=dict)


def compare_with_gold(
    panel: Panel,
    gold: Sequence[str],
    rng: np.random.Generator,
    *,
    humans: Sequence[str] = (),
    pooled: bool = False,
    settings: AgreementSettings | None = None,
) -> GoldTable:
    """Sensitivity, specificity and error rates of each judge, with the ceiling that humans set.

    Parameters
    ----------
    panel
        The verdicts.
    gold
        One judge, or several whose majority is gold.
    rng
        Decides the resamples.
    humans
        People whose labels are in the panel besides, for the ceiling; by default those of `gold`
        where there are several. They are not compared with gold, which may be made of their labels.
    pooled
        Whether all intents together are shown as well.
    settings
        See `AgreementSettings`.

    Raises
    ------
    InputError
        For a judge that is not in the panel, or where no judge is left to compare.
    """
    chosen = settings or AgreementSettings()
    found = gold_of(panel, gold)
    people = tuple(humans) or (tuple(gold) if len(gold) > 1 else ())
    for name in people:
        panel.place(name)
    judges = [name for name in panel.judges if name not in {*gold, *people}]
    if not judges:
        raise InputError("every judge is gold or human", fix="name fewer of them as gold")
    accuracies: list[JudgeAccuracy] = []
    agreements: list[GoldAgreement] = []
    ceilings: list[Ceiling] = []
    for stratum in _strata(panel, pooled=pooled):
        for part in (stratum, *divided(panel, stratum, chosen.by)):
            accuracies += [_accuracy(panel, found, name, part, chosen.level) for name in judges]
        of_gold, of_people = ceiling_of(panel, stratum, found, (judges, people), rng, chosen)
        agreements += of_gold
        ceilings += of_people
    why = {} if ceilings else {"ceiling": "it needs the labels of two people"}
    return GoldTable(tuple(gold), tuple(accuracies), tuple(agreements), tuple(ceilings), why)


def _strata(panel: Panel, *, pooled: bool) -> Iterator[Stratum]:
    if pooled:
        yield Stratum(ALL, ALL, ALL, np.arange(panel.responses))
    yield from by_intent(panel)


def _accuracy(
    panel: Panel, gold: Gold, judge: str, stratum: Stratum, level: float
) -> JudgeAccuracy:
    place, rows, count = panel.place(judge), stratum.rows, len(panel.classes)
    known = gold.labels[rows], panel.labels[rows, place], panel.cluster[rows]
    tables = confusion_by_cluster(*known, count)
    codes = np.flatnonzero(gold.can_emit | panel.can_emit[place]).tolist()
    boundaries = _boundaries(panel)
    wanted = [accuracy.agreeing(count)]
    for code in codes:
        wanted += [accuracy.sensitivity(count, code), accuracy.specificity(count, code)]
    for positive in boundaries.values():
        wanted += [
            accuracy.gold_rate(positive),
            accuracy.judge_rate(positive),
            accuracy.false_positives(positive),
            accuracy.false_negatives(positive),
        ]
    found = iter(proportions(tables, wanted, level))
    return JudgeAccuracy(
        intent=stratum.intent,
        by=stratum.by,
        value=stratum.value,
        judge=judge,
        n=int(tables.sum()),
        tied=int(gold.tied[rows].sum()),
        agreeing=next(found),
        classes=tuple(
            ClassAccuracy(
                panel.classes[code], bool(panel.can_emit[place, code]), next(found), next(found)
            )
            for code in codes
        ),
        boundaries=tuple(
            BoundaryAccuracy(name, next(found), next(found), next(found), next(found))
            for name in boundaries
        ),
    )


def _boundaries(panel: Panel) -> dict[str, BoolArray]:
    """Which classes lie over each boundary; a class outside the order lies over none."""
    codes = np.arange(len(panel.classes))
    return {
        name: (codes >= first) & (codes < panel.ordered)
        for name, first in boundaries(panel.classes, panel.ordered)
    }
