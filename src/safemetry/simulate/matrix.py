"""Response matrices from item response models with known parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.simulate.factors import check_correlations, draw_abilities

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MISSING: Final = -1
"""Cell of a response matrix without an outcome."""

Model = Literal["1pl", "2pl", "3pl", "4pl"]


@dataclass(frozen=True, slots=True)
class MatrixSettings:
    """What a simulated response matrix looks like.

    Parameters
    ----------
    targets, items
        Shape of the matrix.
    model
        ``1pl`` (one discrimination for all items), ``2pl``, ``3pl`` (with guessing) or ``4pl``
        (with slipping too).
    structure
        Factor of each item, (items,), codes 0 to K - 1; one factor if None.
    correlations
        Correlations between the factors, (K, K); uncorrelated if None.
    discrimination, discrimination_spread
        Discriminations are log-normal with this median and log standard deviation.
    intercept, intercept_spread
        Intercepts d are normal with this mean and standard deviation, in logits.
    guessing, slipping
        Lower asymptote of 3PL and 4PL, and one minus the upper asymptote of 4PL, each in [0, 1).
    missing
        Chance that a cell has no outcome, independent of everything, in [0, 1).
    exact_moments
        Give the sample of abilities exactly these correlations, means 0 and variances 1.
    """

    targets: int = 100
    items: int = 50
    model: Model = "2pl"
    structure: tuple[int, ...] | None = None
    correlations: tuple[tuple[float, ...], ...] | None = None
    discrimination: float = 1.2
    discrimination_spread: float = 0.3
    intercept: float = 0.0
    intercept_spread: float = 1.0
    guessing: float = 0.2
    slipping: float = 0.05
    missing: float = 0.0
    exact_moments: bool = False

    def __post_init__(self) -> None:
        if self.targets < 1 or self.items < 1:
            raise InputError("a matrix needs at least one target and one item")
        if self.model not in {"1pl", "2pl", "3pl", "4pl"}:
            raise InputError(f"unknown model {self.model!r}", fix="use 1pl, 2pl, 3pl or 4pl")
        if self.discrimination <= 0 or self.discrimination_spread < 0 or self.intercept_spread < 0:
            raise InputError("discriminations are positive and spreads not negative")
        if min(self.guessing, self.slipping) < 0 or self.guessing + self.slipping >= 1:
            raise InputError("guessing and slipping are shares that sum to less than 1")
        if not 0 <= self.missing < 1:
            raise InputError(f"a share of {self.missing} missing cells is outside 0 to 1")
        if self.structure is not None and len(self.structure) != self.items:
            raise InputError(f"the structure names {len(self.structure)} of {self.items} items")
        codes = self.structure or (0,)
        if min(codes) < 0 or max(codes) >= self.factors:
            raise InputError("the structure names a factor that has no correlations")
        check_correlations(self.factor_correlations)

    @property
    def factors(self) -> int:
        """Number of factors K."""
        if self.correlations is not None:
            return len(self.correlations)
        return 1 + max(self.structure or (0,))

    @property
    def factor_correlations(self) -> NDArray[np.float64]:
        """Correlations between the factors, (K, K)."""
        if self.correlations is None:
            return np.eye(self.factors)
        return np.array(self.correlations, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class MatrixTruth:
    """Parameters behind a simulated matrix: P = lower + (upper - lower) expit(theta a' + d).

    Attributes
    ----------
    abilities
        Theta, (targets, K).
    loadings
        Discriminations a, (items, K).
    intercepts
        d, (items,), in logits.
    lower, upper
        Asymptotes, (items,).
    """

    abilities: NDArray[np.float64]
    loadings: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Chance of outcome 1, (targets, items)."""
        return response_probabilities(
            self.abilities, self.loadings, self.intercepts, lower=self.lower, upper=self.upper
        )

    @property
    def difficulties(self) -> NDArray[np.float64]:
        """Difficulty -d / |a|, (items,): b = -d / a for a single positive discrimination."""
        lengths: NDArray[np.float64] = np.linalg.norm(self.loadings, axis=1)
        return -self.intercepts / lengths


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedMatrix:
    """A response matrix and the truth behind it.

    Attributes
    ----------
    outcomes
        1, 0 or `MISSING` (-1), (targets, items), int8.
    targets, items
        Names of rows and columns.
    truth
        Abilities and item parameters.
    settings
        What it was simulated from.
    """

    outcomes: NDArray[np.int8]
    targets: tuple[str, ...]
    items: tuple[str, ...]
    truth: MatrixTruth
    settings: MatrixSettings


def response_probabilities(
    abilities: ArrayLike,
    loadings: ArrayLike,
    intercepts: ArrayLike,
    *,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = 1.0,
) -> NDArray[np.float64]:
    """Chance of outcome 1 for every target and item.

    Parameters
    ----------
    abilities
        (targets, K).
    loadings
        (items, K).
    intercepts
        (items,), in logits.
    lower, upper
        Asymptotes, scalars or (items,), 0 <= lower < upper <= 1.

    Returns
    -------
    ndarray
        (targets, items).

    References
    ----------
    Reckase (2009), Multidimensional Item Response Theory, eq. 4.5 (the compensatory model).
    """
    theta, a, d, low, high = (
        np.asarray(values, dtype=np.float64)
        for values in (abilities, loadings, intercepts, lower, upper)
    )
    if theta.ndim != 2 or a.ndim != 2 or theta.shape[1] != a.shape[1] or d.shape != a.shape[:1]:
        raise InputError("abilities, loadings and intercepts do not fit together")
    chances: NDArray[np.float64] = low + (high - low) * expit(theta @ a.T + d)
    return chances


def simulate_outcomes(
    probabilities: ArrayLike,
    rng: np.random.Generator,
    *,
    missing: float | NDArray[np.bool_] = 0.0,
) -> NDArray[np.int8]:
    """Draw independent outcomes.

    Parameters
    ----------
    probabilities
        Chance of outcome 1, any shape.
    rng
        Source of randomness.
    missing
        Chance that a cell is missing, or a mask of the shape of `probabilities`, true where a
        cell has no outcome (such as that of an observed matrix).

    Returns
    -------
    ndarray
        1, 0 or `MISSING`, int8, in the shape of `probabilities`.

    Examples
    --------
    >>> simulate_outcomes([[1.0, 0.0]], np.random.default_rng(0)).tolist()
    [[1, 0]]
    """
    chances = np.asarray(probabilities, dtype=np.float64)
    outcomes = (rng.random(chances.shape) < chances).astype(np.int8)
    if isinstance(missing, np.ndarray):
        outcomes[missing] = MISSING
    elif missing > 0:
        outcomes[rng.random(chances.shape) < missing] = MISSING
    return outcomes


def simulate_matrix(
    settings: MatrixSettings | None = None,
    rng: np.random.Generator | int = 0,
    *,
    loadings: ArrayLike | None = None,
    intercepts: ArrayLike | None = None,
) -> SimulatedMatrix:
    """Simulate a response matrix from an item response model.

    Parameters
    ----------
    settings
        Size, model, factors and missing cells; the defaults of `MatrixSettings` if None.
    rng
        Generator or seed.
    loadings
        Item discriminations to use instead of drawn ones, (items, K).
    intercepts
        Item intercepts to use instead of drawn ones, (items,), in logits.

    Returns
    -------
    SimulatedMatrix
        Outcomes with missing cells as -1, and their truth.

    Raises
    ------
    InputError
        Where given parameters do not fit the settings.

    Examples
    --------
    >>> settings = MatrixSettings(
    ...     60,
    ...     9,
    ...     structure=(0, 1, 2) * 3,
    ...     correlations=((1, 0.8, 0.5), (0.8, 1, 0.6), (0.5, 0.6, 1)),
    ... )
    >>> simulated = simulate_matrix(settings, 7)
    >>> simulated.outcomes.shape, simulated.truth.loadings.shape
    ((60, 9), (9, 3))
    """
    settings = settings or MatrixSettings()
    rng = np.random.default_rng(rng)
    abilities = draw_abilities(
        settings.targets,
        settings.factor_correlations,
        rng,
        exact_moments=settings.exact_moments,
    )
    spread = 0.0 if settings.model == "1pl" else settings.discrimination_spread
    drawn_a = settings.discrimination * rng.lognormal(0.0, spread, settings.items)
    drawn_d = rng.normal(settings.intercept, settings.intercept_spread, settings.items)
    structure = np.array(settings.structure or (0,) * settings.items)
    simple = np.where(np.arange(settings.factors) == structure[:, None], drawn_a[:, None], 0.0)
    lower = settings.guessing if settings.model in {"3pl", "4pl"} else 0.0
    upper = 1 - settings.slipping if settings.model == "4pl" else 1.0
    truth = MatrixTruth(
        abilities=abilities,
        loadings=simple if loadings is None else np.array(loadings, dtype=np.float64),
        intercepts=drawn_d if intercepts is None else np.array(intercepts, dtype=np.float64),
        lower=np.full(settings.items, lower),
        upper=np.full(settings.items, upper),
    )
    if truth.loadings.shape != simple.shape or truth.intercepts.shape != drawn_d.shape:
        raise InputError(
            f"the given loadings or intercepts do not fit {settings.items} items"
            f" and {settings.factors} factors"
        )
    return SimulatedMatrix(
        outcomes=simulate_outcomes(truth.probabilities, rng, missing=settings.missing),
        targets=tuple(numbered("target", settings.targets)),
        items=tuple(numbered("item", settings.items)),
        truth=truth,
        settings=settings,
    )


def numbered(word: str, count: int) -> list[str]:
    """Names with a number of equal width, so that they sort as they are counted.

    Examples
    --------
    >>> numbered("target", 10)[::9]
    ['target-01', 'target-10']
    """
    width = len(str(count))
    return [f"{word}-{number:0{width}d}" for number in range(1, count + 1)]
