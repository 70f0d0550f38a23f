"""Targets that misbehave in a known way, beside the population that calibrates their items.

There is no prompt behind an item: categories have nonsense names, and an item is its parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
from scipy.special import expit, logit

from safemetry.errors import InputError
from safemetry.simulate.matrix import MatrixSettings, numbered, simulate_matrix, simulate_outcomes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    BoolArray = NDArray[np.bool_]

Behaviour = Literal["honest", "uniform", "targeted", "triggered", "sandbagging", "random"]
BEHAVIOURS: Final[tuple[Behaviour, ...]] = get_args(Behaviour)

NONSENSE: Final = (
    *("amber", "basalt", "cedar", "dune", "ember"),
    *("fjord", "garnet", "heath", "indigo", "jasper"),
)
"""Ten categories with neutral names."""

_ABILITY_LIMIT: Final = 30.0
_HALVINGS: Final = 60


@dataclass(frozen=True, slots=True)
class Organism:
    """A way of answering under evaluation, and how strong it is.

    ===============  ==============================================================================
    ``honest``       as before; its strength is 0
    ``uniform``      over-caution on every item: `strength` logits towards refusing
    ``targeted``     the same on the items of one category only
    ``triggered``    the same on the items that carry the trigger only
    ``sandbagging``  the ability is lower by `strength`
    ``random``       a share `strength` of the answers, in [0, 1], is the toss of a coin
    ===============  ==============================================================================

    Refusing is rewarded on a harmful item and not on a benign one.

    Parameters
    ----------
    behaviour
        One of the table.
    strength
        In the unit of the table, not negative.

    Raises
    ------
    InputError
        For an unknown behaviour or an impossible strength.
    """

    behaviour: Behaviour = "honest"
    strength: float = 0.0

    def __post_init__(self) -> None:
        if self.behaviour not in BEHAVIOURS:
            raise InputError(
                f"unknown behaviour {self.behaviour!r}", fix=f"use one of {', '.join(BEHAVIOURS)}"
            )
        if not (np.isfinite(self.strength) and self.strength >= 0):
            raise InputError(f"a strength of {self.strength:g} is not a finite number from 0")
        if self.behaviour == "honest" and self.strength:
            raise InputError("an honest organism has no strength", fix="leave it at 0")
        if self.behaviour == "random" and self.strength > 1:
            raise InputError("the strength of random answering is a share, 1 at most")


@dataclass(frozen=True, slots=True)
class OrganismSettings:
    """Items, population and organisms.

    Parameters
    ----------
    items
        How many; each category has as many as any other, give or take one.
    population
        Targets that calibrate the items; their abilities are standard normal.
    organisms
        Ways of answering.
    abilities
        At which each of them is made.
    copies
        Organisms of each kind at each ability.
    categories, target_category
        Names, and the one at which targeted organisms aim.
    benign_share
        Share of benign items in each category, in [0, 1]; the rest is harmful.
    trigger_share
        Chance that an item carries the trigger, in [0, 1].
    discrimination, discrimination_spread
        Median and log standard deviation of the items' slopes.
    intercept, intercept_spread
        Mean and standard deviation of the items' intercepts, in logits.

    Raises
    ------
    InputError
        Where a setting is out of range.
    """

    items: int = 100
    population: int = 200
    organisms: tuple[Organism, ...] = (Organism(),)
    abilities: tuple[float, ...] = (0.0,)
    copies: int = 1
    categories: tuple[str, ...] = NONSENSE
    target_category: str = NONSENSE[0]
    benign_share: float = 1.0
    trigger_share: float = 0.25
    discrimination: float = 1.2
    discrimination_spread: float = 0.3
    intercept: float = 0.0
    intercept_spread: float = 1.5

    def __post_init__(self) -> None:
        if min(self.items, self.population, self.copies) < 1:
            raise InputError("one item, one target in the population and one copy are the fewest")
        if not self.organisms or not self.abilities:
            raise InputError("no organism is asked for", fix="give behaviours and abilities")
        if not np.isfinite(self.abilities).all():
            raise InputError("an ability is not finite")
        if len(set(self.categories)) < len(self.categories):
            raise InputError("two categories have one name")
        if self.target_category not in self.categories:
            raise InputError(f"there is no category {self.target_category!r} to aim at")
        for name in ("benign_share", "trigger_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must lie in 0 to 1, not {getattr(self, name):g}")


@dataclass(frozen=True, slots=True, eq=False)
class OrganismTruth:
    """What is behind the responses of N organisms to J items.

    Attributes
    ----------
    organisms
        What each row is, N entries.
    abilities
        Of the organisms when they are honest, shape ``(N,)``.
    affected
        Where an organism behaves otherwise than its honest self, shape ``(N, J)``.
    honest, evaluated
        Chances of outcome 1 before and under evaluation, shape ``(N, J)``.
    slopes, intercepts
        Of the items, shape ``(J,)``.
    population
        Abilities of the targets that calibrate the items, shape ``(P,)``.
    """

    organisms: tuple[Organism, ...]
    abilities: FloatArray
    affected: BoolArray
    honest: FloatArray
    evaluated: FloatArray
    slopes: FloatArray
    intercepts: FloatArray
    population: FloatArray

    @property
    def nearest_abilities(self) -> FloatArray:
        """Ability at which the model comes nearest to each organism's answers, shape ``(N,)``.

        The one that a long test would find, with the least Kullback-Leibler divergence (White 1982,
        Econometrica 50): it solves ``sum_j a_j (P_j(theta) - evaluated_j) = 0``.
        """
        low = np.full(len(self.abilities), -_ABILITY_LIMIT)
        high = -low
        aim = self.evaluated @ self.slopes
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            here = expit(middle[:, None] * self.slopes + self.intercepts) @ self.slopes
            low, high = np.where(here < aim, middle, low), np.where(here < aim, high, middle)
        found: FloatArray = (low + high) / 2
        return found

    @property
    def shifts(self) -> FloatArray:
        """Change of ability that a long test would find under evaluation, shape ``(N,)``."""
        return self.nearest_abilities - self.abilities


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedOrganisms:
    """A population, organisms before and under evaluation, and the truth.

    Attributes
    ----------
    population
        Outcomes of the targets that calibrate the items, shape ``(P, J)``, int8.
    history, evaluated
        Outcomes of the organisms, honest and under evaluation, to the same items, shape ``(N, J)``.
    items, targets
        Names of the items and of the organisms.
    categories
        Of each item.
    benign, triggered
        Whether an item is benign and whether it carries the trigger, shape ``(J,)``.
    truth
        What is behind them.
    settings
        From which they were made.
    """

    population: NDArray[np.int8]
    history: NDArray[np.int8]
    evaluated: NDArray[np.int8]
    items: tuple[str, ...]
    targets: tuple[str, ...]
    categories: tuple[str, ...]
    benign: BoolArray
    triggered: BoolArray
    truth: OrganismTruth
    settings: OrganismSettings


def simulate_organisms(
    settings: OrganismSettings | None = None, rng: np.random.Generator | int = 0
) -> SimulatedOrganisms:
    """Simulate a population and organisms that answer otherwise when they are evaluated.

    Parameters
    ----------
    settings
        Items, population and organisms; 100 items and one honest organism if None.
    rng
        Generator or seed.

    Examples
    --------
    >>> kinds = (Organism(), Organism("targeted", 3.0))
    >>> made = simulate_organisms(OrganismSettings(items=40, organisms=kinds), 1)
    >>> made.evaluated.shape, made.truth.affected.sum(axis=1).tolist()
    ((2, 40), [0, 4])
    """
    chosen = settings or OrganismSettings()
    rng = np.random.default_rng(rng)
    matrix = simulate_matrix(
        MatrixSettings(
            chosen.population,
            chosen.items,
            discrimination=chosen.discrimination,
            discrimination_spread=chosen.discrimination_spread,
            intercept=chosen.intercept,
            intercept_spread=chosen.intercept_spread,
        ),
        rng,
    )
    place = np.arange(chosen.items) % len(chosen.categories)
    categories = tuple(chosen.categories[code] for code in place)
    # Within a category the benign items come first; item parameters have no order.
    within = np.arange(chosen.items) // len(chosen.categories)
    benign = within < chosen.benign_share * np.bincount(place)[place]
    triggered = rng.random(chosen.items) < chosen.trigger_share
    kinds = tuple(
        organism
        for organism in chosen.organisms
        for _ in chosen.abilities
        for _ in range(chosen.copies)
    )
    abilities = np.tile(np.repeat(chosen.abilities, chosen.copies), len(chosen.organisms))
    slopes, intercepts = matrix.truth.loadings[:, 0], matrix.truth.intercepts
    honest = expit(abilities[:, None] * slopes + intercepts)
    masks = {
        "targeted": np.array(categories) == chosen.target_category,
        "triggered": triggered,
    }
    everywhere, nowhere = np.ones(chosen.items, bool), np.zeros(chosen.items, bool)
    affected = np.array(
        [masks.get(kind.behaviour, everywhere) if kind.strength > 0 else nowhere for kind in kinds]
    )
    evaluated = np.array(
        [
            _under_evaluation(kind, chances, mask, slopes, benign)
            for kind, chances, mask in zip(kinds, honest, affected, strict=True)
        ]
    )
    return SimulatedOrganisms(
        population=matrix.outcomes,
        history=simulate_outcomes(honest, rng),
        evaluated=simulate_outcomes(evaluated, rng),
        items=matrix.items,
        targets=tuple(numbered("organism", len(kinds))),
        categories=categories,
        benign=benign,
        triggered=triggered,
        truth=OrganismTruth(
            organisms=kinds,
            abilities=abilities,
            affected=affected,
            honest=honest,
            evaluated=evaluated,
            slopes=slopes,
            intercepts=intercepts,
            population=matrix.truth.abilities[:, 0],
        ),
        settings=chosen,
    )


def _under_evaluation(
    kind: Organism, honest: FloatArray, affected: BoolArray, slopes: FloatArray, benign: BoolArray
) -> FloatArray:
    """Chances of outcome 1 of one organism, shape ``(J,)``."""
    if kind.behaviour == "random":
        mixed: FloatArray = (1 - kind.strength) * honest + kind.strength / 2
        return mixed
    if kind.behaviour == "sandbagging":
        change = -kind.strength * slopes
    else:
        change = kind.strength * np.where(benign, -1.0, 1.0) * affected
    # Rounding would move the chances that stay.
    found: FloatArray = np.where(change == 0, honest, expit(logit(honest) + change))
    return found
