"""The items of a simulated study: where each stands in the design, and its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.simulate.clusters import behaviour_spread
from safemetry.simulate.factors import apportion, solve_intercept
from safemetry.simulate.settings import StudySettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

TWIN = -1
"""Attack code of a benign twin, which is asked plainly."""


@dataclass(frozen=True, slots=True, eq=False)
class ItemDesign:
    """Items in order: behaviour by behaviour, its harmful items by attack, then its benign twin.

    Attributes
    ----------
    behaviour, kind, category, attack
        Codes, each (items,); `kind` is the response type and `attack` is -1 for a twin.
    loadings
        Discriminations on every ability and on caution, (items, K + 1). An item loads on one:
        a harmful item on the ability of its type, a twin negatively on caution.
    intercepts
        In logits of the rewarded response (safe for harmful items, helpful for twins), (items,).
    """

    behaviour: NDArray[np.int64]
    kind: NDArray[np.int64]
    category: NDArray[np.int64]
    attack: NDArray[np.int64]
    loadings: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    @property
    def harmful(self) -> NDArray[np.bool_]:
        """Whether each item is harmful, (items,)."""
        return np.not_equal(self.attack, TWIN)


def draw_items(
    settings: StudySettings, abilities: NDArray[np.float64], rng: np.random.Generator
) -> ItemDesign:
    """Lay out the items and give them parameters that reach the expected rates exactly.

    Discriminations, behaviour effects and item effects are drawn; then one intercept a response
    type, and one for the twins, is solved for so that the expected rate over these very items is
    the one of the settings. The expectation over abilities is that of a standard normal
    population, or with exact moments the mean over the given targets.

    Parameters
    ----------
    settings
        The study.
    abilities
        (targets, K + 1), caution last.
    rng
        Source of randomness.
    """
    attacks = len(settings.attacks)
    width = attacks + 1
    kinds = np.repeat(np.arange(len(settings.types)), _behaviours_by_type(settings))
    behaviour = np.repeat(np.arange(settings.behaviours), width)
    kind = kinds[behaviour]
    attack = np.tile([*range(attacks), TWIN], settings.behaviours)
    category = _categories(settings, kinds)[behaviour]
    medians = np.array([item_type.discrimination for item_type in settings.types])[kind]
    medians[attack == TWIN] = settings.caution_discrimination
    a = medians * rng.lognormal(0.0, settings.discrimination_spread, len(kind))
    effects = rng.normal(0.0, settings.item_spread, len(kind))
    shared = _behaviour_effects(settings, kinds, rng)[behaviour]
    offsets = effects + np.where(attack == TWIN, 0.0, shared + settings.attack_effects[attack])

    loadings = np.zeros((len(kind), len(settings.types) + 1))
    intercepts = np.empty(len(kind))
    for code, item_type in enumerate(settings.types):
        chosen = np.flatnonzero((kind == code) & (attack != TWIN))
        over = abilities[:, code] if settings.exact_moments else None
        level = solve_intercept(item_type.pass_rate, a[chosen], offsets[chosen], over)
        loadings[chosen, code] = a[chosen]
        intercepts[chosen] = level + offsets[chosen]
    twins = np.flatnonzero(attack == TWIN)
    over = -abilities[:, -1] if settings.exact_moments else None
    level = solve_intercept(1 - settings.over_refusal, a[twins], offsets[twins], over)
    loadings[twins, -1] = -a[twins]
    intercepts[twins] = level + offsets[twins]
    return ItemDesign(behaviour, kind, category, attack, loadings, intercepts)


def _behaviours_by_type(settings: StudySettings) -> NDArray[np.int64]:
    """Behaviours of each response type, at least one."""
    shares = [item_type.share for item_type in settings.types]
    return 1 + apportion(settings.behaviours - len(shares), shares)


def _behaviour_effects(
    settings: StudySettings, kinds: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Effect of each behaviour in logits, standardised within a type for exact moments."""
    effects = rng.standard_normal(len(kinds))
    if settings.exact_moments:
        counts = np.bincount(kinds)
        effects -= (np.bincount(kinds, effects) / counts)[kinds]
        variances = np.bincount(kinds, effects**2) / np.maximum(counts - 1, 1)
        effects /= np.sqrt(np.where(counts > 1, variances, 1.0))[kinds]
    return behaviour_spread(settings.intraclass, settings.item_spread) * effects


def _categories(settings: StudySettings, kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Category code of each behaviour: those of its type in turn."""
    counts = np.array([len(item_type.categories) for item_type in settings.types])
    first = np.cumsum(counts) - counts
    starts = np.searchsorted(kinds, kinds)
    within: NDArray[np.int64] = first[kinds] + (np.arange(len(kinds)) - starts) % counts[kinds]
    return within
