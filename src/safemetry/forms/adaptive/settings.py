"""How an adaptive test starts, chooses, estimates and stops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, Self, get_args

from safemetry.errors import InputError

Rule = Literal[
    "information",
    "posterior_information",
    "kl",
    "klp",
    "kl_interval",
    "a_stratified",
    "determinant",
    "posterior_determinant",
    "trace",
    "score",
    "random",
]
Estimator = Literal["eap", "map", "ml", "wle"]

_WIDEST: Final = 1000.0
_MOST_NODES: Final = 20_001

ONE_DIMENSION: Final = frozenset(
    {"information", "posterior_information", "kl", "klp", "kl_interval", "a_stratified"}
)
SEVERAL_DIMENSIONS: Final = frozenset({"determinant", "posterior_determinant", "trace", "score"})


@dataclass(frozen=True)
class Start:
    """Where a session begins.

    Parameters
    ----------
    ability
        At which items are chosen until an answer is there; None for the population's mean. One
        number for each dimension.
    items
        Names of the items that every session begins with, in this order; one that is not available
        is passed over.
    population
        Whether the first choice is the item with most information on average over the population,
        rather than at one ability. In one dimension.
    """

    ability: tuple[float, ...] | None = None
    items: tuple[str, ...] = ()
    population: bool = False

    def __post_init__(self) -> None:
        if len(set(self.items)) < len(self.items):
            raise InputError("an item stands twice among the first items")
        if self.population and self.ability is not None:
            raise InputError(
                "a start at one ability and over the population", fix="leave out one of them"
            )


@dataclass(frozen=True)
class Balance:
    """Which shares of a session the values of a property have.

    Parameters
    ----------
    by
        A property of the pool.
    shares
        Value -> share, not negative; scaled to sum to 1. Empty for the shares of the pool.
    """

    by: str
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.shares and (min(self.shares.values()) < 0 or not sum(self.shares.values()) > 0):
            raise InputError("shares of a balance are not negative, and one is above 0")


@dataclass(frozen=True)
class Exposure:
    """How often items may be given.

    Parameters
    ----------
    kind
        ``acceptance``: a chosen item is given with its probability, else set aside for the session
        (Sympson & Hetter 1985). ``eligibility``: each session draws at its start the items that it
        may use (van der Linden & Veldkamp 2004).
    probabilities
        Item -> probability, in (0, 1]; items that are not named have 1.
    """

    kind: Literal["acceptance", "eligibility"]
    probabilities: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in {"acceptance", "eligibility"}:
            raise InputError(f"there is no exposure control {self.kind!r}")
        if any(not 0 < chance <= 1 for chance in self.probabilities.values()):
            raise InputError("an exposure probability is above 0 and at most 1")


@dataclass(frozen=True)
class Classification:
    """Which side of a cut a target is on, decided as soon as the answers allow.

    Parameters
    ----------
    cut, cut_score
        The cut, as an ability or as the expected mean score over all items of the pool; one of
        them.
    method
        ``sprt``: sequential probability ratio test (Wald 1947; Reckase 1983). ``interval``: the
        estimate is further from the cut than its interval reaches (Kingsbury & Weiss 1983).
    alpha
        Of ``sprt``: probability of the decision "above" for a target at the lower end of the
        indifference region.
    beta
        Of ``sprt``: probability of "below" at its upper end.
    half_width
        Of ``sprt``: the indifference region is the cut plus and minus this ability.
    level
        Of ``interval``: two-sided level of each interval, in (0, 1). Looking after every item makes
        wrong decisions more frequent than (1 - level) / 2; measure them.
    """

    cut: float | None = None
    cut_score: float | None = None
    method: Literal["sprt", "interval"] = "sprt"
    alpha: float = 0.05
    beta: float = 0.05
    half_width: float = 0.3
    level: float = 0.95

    def __post_init__(self) -> None:
        if (self.cut is None) == (self.cut_score is None):
            raise InputError("a classification has one cut", fix="give cut or cut_score")
        if self.method not in {"sprt", "interval"}:
            raise InputError(f"there is no classification by {self.method!r}")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise InputError("error rates of a classification are above 0 and below .5")
        if not self.half_width > 0:
            raise InputError("the indifference region of a classification has a width")
        if not 0 < self.level < 1:
            raise InputError("the level of an interval is between 0 and 1")


@dataclass(frozen=True)
class Lattice:
    """Abilities over which posteriors are summed, by the trapezoid rule.

    Parameters
    ----------
    low, high
        Range, in the population's standard deviations from its mean. Estimates lie within it.
    nodes
        How many, equally spaced; None for as many as the narrowest posterior needs.
    """

    low: float = -6.0
    high: float = 6.0
    nodes: int | None = None

    def __post_init__(self) -> None:
        if not -_WIDEST <= self.low < self.high <= _WIDEST:
            raise InputError(
                f"a lattice has a range within {_WIDEST:g} standard deviations of the population"
            )
        if self.nodes is not None and not 5 <= self.nodes <= _MOST_NODES:
            raise InputError(f"a lattice has 5 to {_MOST_NODES:,} nodes")


@dataclass(frozen=True)
class AdaptiveSettings:
    """An adaptive test.

    Parameters
    ----------
    rule
        In one dimension ``information`` at the estimate; ``posterior_information``, its mean over
        the posterior; ``kl``, ``klp`` and ``kl_interval``, Kullback-Leibler information over the
        likelihood, the posterior, or an interval around the estimate; ``a_stratified``. In several
        ``determinant`` (D-optimal), ``posterior_determinant``, ``trace`` (A-optimal), and
        ``score``, which makes the expected score over all items precise. ``random`` in any.
    estimator
        ``eap`` posterior mean, ``map`` posterior mode, ``ml`` maximum likelihood within the lattice
        or ``wle`` Warm's estimate. In several dimensions ``map`` is always used.
    budget
        Most items of a session, at least 1.
    precision
        Standard error at which a session ends (in several dimensions the largest one); None for no
        such end.
    least
        Items before a session may end by precision or classification.
    classification
        Ends a session when it is decided.
    at_cut
        Whether items are chosen at the cut and not at the estimate (Spray & Reckase 1994).
    randomesque
        The next item is drawn at random from this many best ones (Kingsbury & Zara 1989).
    strata
        Of ``a_stratified``.
    interval_constant
        Of ``kl_interval``: the interval reaches this over the root of the number of answers.
    balance, exposure, start, lattice
        See their classes; None for no control.
    """

    rule: Rule = "information"
    estimator: Estimator = "eap"
    budget: int = 50
    precision: float | None = None
    least: int = 1
    classification: Classification | None = None
    at_cut: bool = False
    randomesque: int = 1
    strata: int = 4
    interval_constant: float = 3.0
    balance: Balance | None = None
    exposure: Exposure | None = None
    start: Start = Start()
    lattice: Lattice = Lattice()

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise InputError(
                f"there is no rule {self.rule!r}", fix=f"use one of {', '.join(get_args(Rule))}"
            )
        if self.estimator not in get_args(Estimator):
            raise InputError(
                f"there is no estimator {self.estimator!r}", fix="use eap, map, ml or wle"
            )
        for name in ("budget", "least", "randomesque", "strata"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", fix="give 1 or more")
        if self.precision is not None and not self.precision > 0:
            raise InputError("a standard error to reach is above 0")
        if not self.interval_constant > 0:
            raise InputError("the interval of kl_interval has a width")
        if self.at_cut and self.classification is None:
            raise InputError("items chosen at the cut need a cut", fix="give a classification")
        if self.exposure is not None and self.randomesque > 1:
            raise InputError(
                "randomesque choice and exposure control exclude each other", fix="leave out one"
            )

    def to_dict(self) -> dict[str, Any]:
        """Every setting as plain values, as `from_dict` reads them."""
        return _plain(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Settings from plain values.

        Raises
        ------
        InputError
            For a setting that does not exist, or a value that it cannot have.
        """
        if not isinstance(content, Mapping):
            raise InputError("settings of an adaptive test are a mapping")
        given = dict(content)
        parts: dict[str, Any] = {
            "classification": Classification,
            "balance": Balance,
            "exposure": Exposure,
            "start": Start,
            "lattice": Lattice,
        }
        try:
            for name, made in parts.items():
                if given.get(name) is not None:
                    values = {key: _sealed(value) for key, value in given[name].items()}
                    given[name] = made(**values)
            return cls(**given)
        except (TypeError, AttributeError) as error:
            raise InputError(f"settings of an adaptive test cannot be read ({error})") from error


def _plain(part: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in fields(part):
        value = getattr(part, entry.name)
        if hasattr(value, "__dataclass_fields__"):
            value = _plain(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        elif isinstance(value, tuple):
            value = list(value)
        found[entry.name] = value
    return found


def _sealed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
