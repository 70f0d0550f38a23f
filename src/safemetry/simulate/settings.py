"""What a simulated study is made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.simulate.clusters import behaviour_spread
from safemetry.simulate.factors import CORRELATIONS, PASS_RATES, RESPONSE_TYPES, add_caution
from safemetry.simulate.judges import PANEL, SimulatedJudge
from safemetry.simulate.missing import LOST_RESPONSES, LostResponses

SOURCES: Final = (
    "pass rates .83, .58, .43 of standard, contextual, copyright items: HELM Safety on HarmBench",
    "correlations .785, .451, .603 between the abilities behind them: a published analysis of it",
    "shares 200 : 100 : 100 of the three response types: the HarmBench item list",
    "118 of 144 lost comply verdicts became evasive: a published case of a judge that collapses",
    "9 of at most 223 verdicts of a class kept: another such case",
    "over-refusal rate 8%: a published worked example with a safe recall of 90%",
    "everything else was chosen for this simulation and stands in the settings",
)
"""Where the figures come from."""


@dataclass(frozen=True, slots=True)
class ResponseType:
    """A kind of harmful item with an ability of its own.

    Parameters
    ----------
    name
        Its name.
    pass_rate
        Expected rate of safe responses over targets, items and attacks, in (0, 1).
    share
        Its share of the behaviours, relative to the other types.
    discrimination
        Median discrimination of its items, above 0: the larger, the wider targets spread.
    categories
        Its categories; behaviours take them in turn.
    """

    name: str
    pass_rate: float
    share: float
    discrimination: float
    categories: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 0 < self.pass_rate < 1 or self.share <= 0 or self.discrimination <= 0:
            raise InputError(
                f"response type {self.name!r}: the pass rate must lie between 0 and 1,"
                " share and discrimination above 0"
            )
        if not self.categories:
            raise InputError(f"response type {self.name!r} has no category")


# Targets spread most on copyright and least on standard items in the public item matrix (standard
# deviations of the target rates .18, .30 and .43); the discriminations follow that order.
TYPES: Final = tuple(
    ResponseType(name, rate, share, discrimination, categories)
    for name, rate, share, discrimination, categories in zip(
        RESPONSE_TYPES,
        PASS_RATES,
        (2.0, 1.0, 1.0),
        (1.5, 2.0, 3.0),
        (
            ("amber", "basalt", "cedar", "dune", "ember"),
            ("fjord", "garnet", "heath"),
            ("indigo", "jasper"),
        ),
        strict=True,
    )
)
"""Three response types over ten categories with neutral names."""

ATTACKS: Final = (
    ("direct", 1.2),
    ("kestrel", 0.8),
    ("lantern", 0.5),
    ("meadow", 0.2),
    ("nickel", 0.0),
    ("orchard", -0.3),
    ("pebble", -0.6),
    ("quartz", -0.9),
    ("russet", -1.4),
)
"""Nine attacks with the logits that each adds to a safe response; ``direct`` is the plain request,
the others have neutral names."""


@dataclass(frozen=True, slots=True)
class StudySettings:
    """Size and mechanisms of a simulated study; the defaults are those of the demo.

    Parameters
    ----------
    targets, behaviours
        Number of targets, and of harmful behaviours. Each behaviour has one harmful item an attack
        and one benign twin.
    developers
        Number of developers among whom the targets are dealt out.
    types
        Response types of the behaviours.
    correlations
        Correlations between the abilities of the types, (K, K).
    attacks
        Names of the attacks with the logits that each adds to a safe response.
    intraclass
        Latent intra-class correlation of the items of one behaviour for a target of average
        ability, in [0, 1). The default gives outcomes a correlation of about .3; the truth of a
        study has the figure of each target.
    item_spread
        Standard deviation of item effects within a behaviour, in logits.
    discrimination_spread
        Standard deviation of the log discriminations.
    over_refusal
        Expected rate of benign responses that do not help, over targets and items, in (0, 1).
    caution, caution_discrimination
        Correlation between a target's caution and its mean ability, and the median discrimination
        of benign items on caution.
    safe_classes
        Shares of refuse, evasive and gibberish among responses that do not comply; sum to 1.
    epochs, repeated_share
        Share of the items that every target answers in several epochs, and how many.
    judges
        The panel.
    steadiness
        Chance that a repeated call gives the first verdict again outright, in [0, 1].
    lost_responses
        Reasons for which responses do not exist, with rates.
    comply_failure_factor
        How many times as often a judge call fails on a harmful response that complies, at least 1:
        what is missing is then worse than what is seen.
    exact_moments
        Give the abilities of these targets, and the effects of these behaviours within each type,
        exactly the moments of the population, and calibrate the rates over these targets, so that
        a small study repeats the figures.

    Raises
    ------
    InputError
        Where a setting is out of range.
    """

    targets: int = 12
    behaviours: int = 100
    developers: int = 4
    types: tuple[ResponseType, ...] = TYPES
    correlations: tuple[tuple[float, ...], ...] = CORRELATIONS
    attacks: tuple[tuple[str, float], ...] = ATTACKS
    intraclass: float = 0.57
    item_spread: float = 0.5
    discrimination_spread: float = 0.25
    over_refusal: float = 0.08
    caution: float = 0.6
    caution_discrimination: float = 1.2
    safe_classes: tuple[float, float, float] = (0.8, 0.17, 0.03)
    epochs: int = 3
    repeated_share: float = 0.05
    judges: tuple[SimulatedJudge, ...] = PANEL
    steadiness: float = 0.8
    lost_responses: tuple[LostResponses, ...] = LOST_RESPONSES
    comply_failure_factor: float = 2.0
    exact_moments: bool = True

    def __post_init__(self) -> None:
        self._check_size()
        for name, share in (
            ("repeated_share", self.repeated_share),
            ("steadiness", self.steadiness),
        ):
            if not 0 <= share <= 1:
                raise InputError(f"{name} must lie in 0 to 1, not {share}")
        if not 0 < self.over_refusal < 1:
            raise InputError(f"over_refusal must lie between 0 and 1, not {self.over_refusal}")
        if min(self.item_spread, self.discrimination_spread) < 0:
            raise InputError("a standard deviation cannot be negative")
        if self.caution_discrimination <= 0 or self.comply_failure_factor < 1:
            raise InputError("caution_discrimination must be above 0, comply_failure_factor from 1")
        if min(self.safe_classes) < 0 or abs(sum(self.safe_classes) - 1) > 1e-9:
            raise InputError("the shares of safe_classes must sum to 1")
        if sum(entry.rate for entry in self.lost_responses) >= 1:
            raise InputError("every response would be lost")
        behaviour_spread(self.intraclass)
        if add_caution(self.correlations, self.caution).shape[0] != len(self.types) + 1:
            raise InputError("correlations must have one row a response type")

    def _check_size(self) -> None:
        if min(self.targets, self.developers, self.epochs) < 1:
            raise InputError("a study needs at least one target, developer and epoch")
        if not self.attacks or not self.judges or not self.types:
            raise InputError("a study needs attacks, judges and response types")
        if self.behaviours < len(self.types):
            raise InputError(
                f"{self.behaviours} behaviours are too few for {len(self.types)} response types"
            )
        names = (
            [attack for attack, _ in self.attacks],
            [judge.name for judge in self.judges],
            [category for kind in self.types for category in kind.categories],
        )
        if any(len(set(listed)) < len(listed) for listed in names):
            raise InputError("attacks, judges and categories need names of their own")

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the abilities: one a response type, then caution."""
        return (*(kind.name for kind in self.types), "caution")

    @property
    def categories(self) -> tuple[str, ...]:
        """All categories, in the order of the types."""
        return tuple(category for kind in self.types for category in kind.categories)

    @property
    def attack_effects(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Logits that each attack adds to a safe response, (attacks,)."""
        return np.array([effect for _, effect in self.attacks])

    def to_dict(self) -> dict[str, Any]:
        """Every resolved setting, ready for JSON."""
        return asdict(self)
