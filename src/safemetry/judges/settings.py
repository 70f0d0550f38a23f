"""Settings of `audit_judges`, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from safemetry.errors import InputError
from safemetry.evidence.success import SuccessRule
from safemetry.judges.agreement.agreement_figures import AgreementSettings
from safemetry.judges.collapse import CollapseSettings
from safemetry.judges.correction.label_planning import MOST_IDS
from safemetry.judges.movement import PANEL_MAJORITY


def in_words(reference: str | tuple[str, ...]) -> str:
    """A reference as it is reported.

    Examples
    --------
    >>> in_words("majority"), in_words(("anna", "ben"))
    ('majority', 'majority of anna, ben')
    """
    return reference if isinstance(reference, str) else f"majority of {', '.join(reference)}"


@dataclass(frozen=True)
class JudgeSettings:
    """Settings of `audit_judges`.

    Parameters
    ----------
    reference
        Whose classes movement starts from: a judge, or ``majority`` (of the panel). Gold, or its
        majority, where None and there is one; else the majority of the panel.
    gold
        Judges whose labels, or whose majority, is the truth.
    humans
        People on the panel besides, for the ceiling that they set.
    order
        Class order, least compliant first; None for that of the evidence.
    success
        ``at_least:x`` where judges give scores; else None.
    applicable, collapsed
        Thresholds of the collapse rule, see `CollapseSettings`.
    level, draws
        Confidence of intervals, and resamples of clusters behind them.
    width
        Wanted of an interval from end to end, for which the labels needed are counted.
    further
        Labels to place next, 0 for none.
    pooled
        Whether accuracy is also shown over all intents together.
    seed
        Of every draw.
    """

    reference: str | None = None
    gold: tuple[str, ...] = ()
    humans: tuple[str, ...] = ()
    order: tuple[str, ...] | None = None
    success: SuccessRule | None = None
    applicable: float = 0.1
    collapsed: float = 1 / 3
    level: float = 0.95
    draws: int = 1000
    width: float = 0.1
    further: int = 0
    pooled: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        self.collapse()
        self.agreement()
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}", fix="give a whole number from 0")
        if not 0 < self.width < 1:
            raise InputError(
                f"the width is {self.width:g}", fix="give a fraction such as 0.1 (ten points)"
            )
        if not 0 <= self.further <= MOST_IDS:
            raise InputError(
                f"{self.further:,} labels to place next", fix=f"ask for 0 to {MOST_IDS:,}"
            )
        both = sorted({*self.gold} & {*self.humans})
        if both:
            raise InputError(
                f"{both[0]!r} is named as gold and as a person beside gold", fix="name it once"
            )
        if self.order is not None and (
            len(set(self.order)) < max(2, len(self.order)) or "" in self.order
        ):
            raise InputError(
                f"the order {', '.join(self.order) or 'without a class'} is no order of classes",
                fix="name two classes or more, each once, the least compliant first",
            )

    @property
    def start(self) -> str | tuple[str, ...]:
        """The reference of the movement: a judge, the judges of gold, or ``majority``."""
        if self.reference is not None:
            return self.reference
        if len(self.gold) > 1:
            return self.gold
        return self.gold[0] if self.gold else PANEL_MAJORITY

    def collapse(self) -> CollapseSettings:
        """The settings of the collapse rule."""
        return CollapseSettings(self.applicable, self.collapsed, self.level, self.seed)

    def agreement(self) -> AgreementSettings:
        """The settings of the agreement."""
        return AgreementSettings(level=self.level, draws=self.draws)

    def resolved(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        return {
            "reference": in_words(self.start),
            "gold": list(self.gold),
            "humans": list(self.humans),
            "success": None if self.success is None else str(self.success),
            "applicable": self.applicable,
            "collapsed": self.collapsed,
            "level": self.level,
            "draws": self.draws,
            "width": self.width,
            "further": self.further,
            "pooled": self.pooled,
            "seed": self.seed,
        }
