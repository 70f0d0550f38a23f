"""Settings of `shorten`, checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints, Exclusion, Quota, described, quotas_of
from safemetry.forms.evaluation.settings import METHODS, RECOVERIES, EvaluationSettings, Recovery
from safemetry.forms.pool import ItemPool
from safemetry.irt.priors import ItemPriors
from safemetry.irt.settings import written
from safemetry.tasks import TaskSettings

BUDGETS = (10, 25, 50, 100, 200)


@dataclass(frozen=True)
class ShortenSettings:
    """Settings of `shorten`.

    Parameters
    ----------
    items
        Of the form.
    per
        Property whose values a form holds in the shares of the whole set.
    quotas, exclusions, required, forbidden
        What else a form must hold; see `Constraints`.
    method
        How the items are chosen: ``predictive``, ``greedy``, ``exact``, ``discrimination``,
        ``variance`` or ``anchors``.
    recovery
        How the full score is read from the form: ``blend``, ``calibrated``, ``expectation``,
        ``mixture`` or ``mean``. A form that is kept reads by one of the first three; by
        ``calibrated`` where another one was evaluated.
    forms
        Parallel forms of equal information, without common items.
    minority
        Responses other than the most frequent one without which an item is not chosen.
    budgets
        Lengths that are evaluated beside the form's own.
    methods
        That are evaluated beside the form's own.
    splits, share, random_sets, within
        How often, and which share of the targets, is held out; random forms beside; and the share
        by which their error may exceed that of a method and still be as good.
    power, level
        Of the minimum detectable change.
    rerun_disagreement
        Share of items on which two runs of one target differ; None where it is not known.
    priors
        Of the item parameters.
    seed
        Of every draw.
    jobs, resume, quiet
        Worker processes, the directory in which finished splits are kept, and whether progress is
        left out; none of these changes a result.
    """

    items: int = 25
    per: str | None = None
    quotas: tuple[Quota, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    method: str = "predictive"
    recovery: Recovery = "blend"
    forms: int = 1
    minority: int = 1
    budgets: tuple[int, ...] = BUDGETS
    methods: tuple[str, ...] = ("predictive", "greedy", "anchors", "discrimination", "adaptive")
    splits: int = 20
    share: float = 0.3
    random_sets: int = 100
    within: float = 0.05
    power: float = 0.8
    level: float = 0.05
    rerun_disagreement: float | None = None
    priors: ItemPriors = field(default_factory=ItemPriors)
    seed: int = 0
    jobs: int | None = None
    resume: Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.items < 1 or self.forms < 1:
            raise InputError(
                f"{self.forms} forms of {self.items} items", fix="ask for one item or more"
            )
        if self.method not in METHODS or self.method == "adaptive":
            known = ", ".join(name for name in METHODS if name != "adaptive")
            raise InputError(f"no form is chosen by {self.method!r}", fix=f"use {known}")
        if self.recovery not in RECOVERIES:
            raise InputError(
                f"scores are not recovered by {self.recovery!r}", fix=f"use {', '.join(RECOVERIES)}"
            )
        if not (0 < self.power < 1 and 0 < self.level < 1):
            raise InputError("power and level lie between 0 and 1")
        self.evaluation()

    def evaluation(self) -> EvaluationSettings:
        """How forms are evaluated: at the form's own length and method too."""
        return EvaluationSettings(
            budgets=tuple(sorted({*self.budgets, self.items})),
            methods=tuple(dict.fromkeys((self.method, *self.methods))),  # type: ignore[arg-type]
            random_sets=self.random_sets,
            splits=self.splits,
            share=self.share,
            per=self.per,
            quotas=self.quotas,
            quota_items=self.items,
            exclusions=self.exclusions,
            required=self.required,
            forbidden=self.forbidden,
            minority=self.minority,
            priors=self.priors,
            within=self.within,
            seed=self.seed,
        )

    def constraints(self, pool: ItemPool) -> Constraints:
        """What the form must hold."""
        shares = quotas_of(pool, self.per, self.items) if self.per is not None else ()
        known = set(pool.items)
        return Constraints(
            self.items,
            (*shares, *self.quotas),
            self.exclusions,
            self.required,
            tuple(item for item in self.forbidden if item in known),
        )

    def tasks(self) -> TaskSettings:
        """How the splits run."""
        return TaskSettings(jobs=self.jobs, resume=self.resume, quiet=self.quiet, label="splits")

    def resolved(self, constraints: Constraints) -> Mapping[str, Any]:
        """What decides the result, as plain values."""
        evaluation = self.evaluation()
        return {
            "items": self.items,
            "per": self.per,
            "constraints": described(constraints),
            "method": self.method,
            "recovery": self.recovery,
            "forms": self.forms,
            "minority": self.minority,
            "budgets": list(evaluation.budgets),
            "methods": list(evaluation.methods),
            "splits": self.splits,
            "share": self.share,
            "random_sets": self.random_sets,
            "within": self.within,
            "power": self.power,
            "level": self.level,
            "rerun_disagreement": self.rerun_disagreement,
            "priors": written(self.priors),
            "seed": self.seed,
        }
