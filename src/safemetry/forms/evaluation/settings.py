"""What an evaluation of forms varies and repeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor
from typing import Final, Literal

from safemetry.errors import InputError
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.forms.constraints import Exclusion, Quota
from safemetry.irt.priors import ItemPriors

Method = Literal[
    "predictive", "greedy", "exact", "discrimination", "variance", "anchors", "adaptive"
]
Recovery = Literal["expectation", "calibrated", "blend", "mixture", "mean"]
METHODS: Final[tuple[Method, ...]] = (
    "predictive",
    "greedy",
    "exact",
    "discrimination",
    "variance",
    "anchors",
    "adaptive",
)
RECOVERIES: Final[tuple[Recovery, ...]] = (
    "expectation",
    "calibrated",
    "blend",
    "mixture",
    "mean",
)
RANDOM: Final = "random"


@dataclass(frozen=True)
class EvaluationSettings:
    """How forms are evaluated on held-out targets.

    Parameters
    ----------
    budgets
        Lengths of the forms, ascending.
    methods
        How items are chosen; a random choice is always made beside them.
    random_sets
        Random forms for each split and budget, at least 1.
    splits
        How often targets are split, at least 1.
    share
        Of the targets that is held out, in (0, 1).
    per
        Property of the items whose shares a form keeps, for all methods and the random sets.
    quotas, quota_items
        Bounds for single values in a form of so many items; for other lengths they are scaled.
    exclusions, required, forbidden
        Items that do not go together, that every form has, or none.
    minority
        Responses other than the most frequent one among the calibration targets, without which an
        item is not selected.
    folds
        Parts of the calibration targets; each is predicted by a calibration on the others, for the
        regression, the mixture and the errors.
    priors
        Of the item parameters.
    adaptive
        How an adaptive test chooses items: by default for most information on average over the
        posterior, since after a few answers there is no estimate to trust. Its budget, and with
        `per` its balance, are set by the evaluation.
    level
        Of the intervals of predicted scores, in (0, 1).
    within
        Share by which the error of random forms may exceed that of a method and still be as good.
    seed
        Of splits, random sets and whatever a method leaves to chance.
    """

    budgets: tuple[int, ...] = (10, 25, 50, 100, 200)
    methods: tuple[Method, ...] = (
        "predictive",
        "greedy",
        "anchors",
        "discrimination",
        "variance",
        "adaptive",
    )
    random_sets: int = 100
    splits: int = 20
    share: float = 0.3
    per: str | None = None
    quotas: tuple[Quota, ...] = ()
    quota_items: int = 1
    exclusions: tuple[Exclusion, ...] = ()
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    minority: int = 1
    folds: int = 5
    priors: ItemPriors = field(default_factory=ItemPriors)
    adaptive: AdaptiveSettings = field(
        default_factory=lambda: AdaptiveSettings(rule="posterior_information")
    )
    level: float = 0.95
    within: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.budgets or self.budgets[0] < 1 or sorted({*self.budgets}) != [*self.budgets]:
            raise InputError(
                f"budgets {self.budgets} are not numbers of items", fix="give them in order, from 1"
            )
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown:
            raise InputError(
                f"there is no method {unknown[0]!r}", fix=f"the methods are {', '.join(METHODS)}"
            )
        if min(self.random_sets, self.splits, self.minority) < 1 or self.folds < 2:
            raise InputError(
                "an evaluation needs one split, one random set and one rarer response at least, "
                "and two folds"
            )
        if not (0 < self.share < 1 and 0 < self.level < 1 and self.within >= 0):
            raise InputError("shares and levels lie between 0 and 1, and within is not negative")

    def quotas_for(self, budget: int) -> tuple[Quota, ...]:
        """The quotas of a form of another length, bounds rounded outwards."""
        if budget == self.quota_items:
            return self.quotas
        part = budget / self.quota_items
        return tuple(
            Quota(
                quota.by,
                quota.value,
                floor(quota.least * part),
                None if quota.most is None else ceil(quota.most * part),
            )
            for quota in self.quotas
        )
