"""The choices behind a count of flagged items, and the statistic that each makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.construct.dif.bands import Banding
from safemetry.construct.dif.groups import GroupPair
from safemetry.construct.dif.mantel_haenszel import log_odds_ratios, mantel_haenszel
from safemetry.construct.dif.ridge_logistic import RidgeLogistic, ridge_logistic
from safemetry.irt.priors import ItemPriors, LogNormal, Normal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from safemetry.construct.dif.abilities import AbilityTables
    from safemetry.irt.parameters import FloatArray, IntArray

NULL_PRIORS: Final = {
    "regularised": ItemPriors(slope=LogNormal(0.0, 0.5), intercept=Normal(0.0, 2.0)),
    "engine default": ItemPriors(),
    "tight": ItemPriors(slope=LogNormal(0.0, 0.1), intercept=Normal(0.0, 0.1)),
}
"""Priors of the items in the fit that a null is simulated from; the first is the headline's. With
the tight ones all items are nearly alike, which shows what such a fit does to the thresholds."""

PENALTIES: Final = (1.0, 0.1, 10.0)


class Method(StrEnum):
    """Statistics of an item."""

    MANTEL_HAENSZEL = "mantel_haenszel"
    RIDGE_LOGISTIC = "ridge_logistic"
    NON_UNIFORM = "ridge_logistic_non_uniform"


class Matching(StrEnum):
    """What the abilities of the targets are estimated from."""

    SCORE = "score"
    REST = "score without the item"
    PURIFIED = "purified score"


TERTILES: Final = Banding("quantiles", 3, closed="right")
"""Of the targets of the two groups: every band then holds a third of those that are compared.

All bands here are right-closed: a target whose ability is a quantile falls in the lower band. With
31 targets two of them are the tertiles, so that the side decides where they stand.
"""

ALL_TERTILES: Final = Banding("quantiles", 3, reference="all", closed="right")
"""Of all targets: bands that mean the same for every pair of groups, but may lack a group."""

QUINTILES: Final = Banding("quantiles", 5, closed="right")
"""Finer bands of the two groups, which differ from the others whatever the groups are."""


@dataclass(frozen=True)
class Statistic:
    """One way to compute a statistic of every item.

    Parameters
    ----------
    method
        Mantel-Haenszel: |ln alpha|. Ridge logistic: |gamma|, and for non-uniform differences the
        absolute interaction of group and standardised ability.
    matching
        What targets are matched on.
    bands
        Of Mantel-Haenszel; None for regressions, which need none.
    smoothing
        Added to both sums of alpha; None for regressions.
    penalty
        Precision of the normal penalty on group terms; None for Mantel-Haenszel.
    """

    method: Method
    matching: Matching = Matching.SCORE
    bands: Banding | None = None
    smoothing: float | None = None
    penalty: float | None = None

    @property
    def tolerance(self) -> float:
        """Statistics closer than this are tied; regressions run in single precision."""
        return 1e-9 if self.method is Method.MANTEL_HAENSZEL else 1e-4


def mantel_haenszel_choice(
    bands: Banding = TERTILES,
    matching: Matching = Matching.SCORE,
    smoothing: float = 0.5,
) -> Statistic:
    """Mantel-Haenszel |ln alpha|."""
    return Statistic(Method.MANTEL_HAENSZEL, matching, bands, smoothing)


def ridge_choice(
    penalty: float = 1.0, matching: Matching = Matching.SCORE, *, non_uniform: bool = False
) -> Statistic:
    """Ridge logistic |gamma|, or the absolute interaction."""
    method = Method.NON_UNIFORM if non_uniform else Method.RIDGE_LOGISTIC
    return Statistic(method, matching, penalty=penalty)


def purified(statistic: Statistic) -> Statistic:
    """The same statistic with targets matched on anchor items."""
    return replace(statistic, matching=Matching.PURIFIED)


@dataclass(frozen=True)
class ObservedStatistic:
    """The statistic of each of J items in the observed matrix.

    Parameters
    ----------
    value
        In logits, negative where the focal group has the lower chance at equal ability (of an
        interaction: the flatter curve); 0 where undefined, shape ``(J,)``.
    error
        Standard error of the value, None for penalised regressions.
    undefined
        Codes of `Undefined`.
    """

    value: FloatArray
    error: FloatArray | None
    undefined: NDArray[np.int8]

    @property
    def absolute(self) -> FloatArray:
        """What thresholds are compared with."""
        return np.abs(self.value)


def observed_statistic(
    statistic: Statistic,
    codes: NDArray[np.int8],
    pair: GroupPair,
    tables: AbilityTables,
) -> ObservedStatistic:
    """The statistic of every item in one matrix.

    Parameters
    ----------
    statistic
        How it is computed.
    codes
        Of all targets, shape ``(N, J)``: 1, 0 or -1.
    pair
        The two groups.
    tables
        From which abilities are estimated.
    """
    stack = codes[None]
    chosen, abilities = _compared(statistic, stack, tables.abilities(stack), pair, tables)
    if statistic.bands is not None:
        strata = ability_bands(abilities, pair.rows, statistic.bands)
        smoothing = statistic.smoothing or 0.0
        found = mantel_haenszel(chosen, strata, pair.is_focal, smoothing=smoothing)
        return ObservedStatistic(-found.log_odds[0], np.sqrt(found.variance[0]), found.undefined[0])
    fit = _regression(statistic, chosen, abilities[:, pair.rows], pair)
    value = fit.group if fit.interaction is None else fit.interaction
    return ObservedStatistic(value[0], None, fit.undefined[0])


def absolute_statistic(
    statistic: Statistic,
    codes: NDArray[np.int8],
    abilities: FloatArray,
    pair: GroupPair,
    tables: AbilityTables,
) -> FloatArray:
    """The absolute statistic of every item in many matrices, 0 where undefined.

    Parameters
    ----------
    statistic, pair, tables
        As `observed_statistic` takes them; one matrix gives the same value in both.
    codes
        Of all targets, shape ``(B, N, J)``.
    abilities
        As the tables give them, shape ``(B, N)``.

    Returns
    -------
    numpy.ndarray
        Shape ``(B, J)``.
    """
    chosen, held = _compared(statistic, codes, abilities, pair, tables)
    if statistic.bands is not None:
        strata = ability_bands(held, pair.rows, statistic.bands)
        smoothing = statistic.smoothing or 0.0
        value, defined = log_odds_ratios(chosen, strata, pair.is_focal, smoothing=smoothing)
    else:
        fit = _regression(statistic, chosen, held[:, pair.rows], pair)
        value = fit.group if fit.interaction is None else fit.interaction
        defined = fit.defined
    return np.where(defined, np.abs(value), 0.0)


def _compared(
    statistic: Statistic,
    codes: NDArray[np.int8],
    abilities: FloatArray,
    pair: GroupPair,
    tables: AbilityTables,
) -> tuple[NDArray[np.int8], FloatArray]:
    """Codes of the two groups, and abilities of all targets, by item where it is left out."""
    chosen = codes if len(pair.rows) == codes.shape[1] else codes[:, pair.rows]
    if statistic.matching is Matching.REST:
        return chosen, tables.without_item(codes, abilities)
    return chosen, abilities


def _regression(
    statistic: Statistic, codes: NDArray[np.int8], abilities: FloatArray, pair: GroupPair
) -> RidgeLogistic:
    return ridge_logistic(
        codes,
        abilities,
        pair.is_focal,
        penalty=statistic.penalty or 0.0,
        non_uniform=statistic.method is Method.NON_UNIFORM,
        dtype=np.float32,
    )


def ability_bands(abilities: FloatArray, rows: IntArray, banding: Banding) -> IntArray:
    """Bands of the targets of two groups in each matrix.

    Parameters
    ----------
    abilities
        Of all targets, shape ``(B, N)`` or ``(B, N, J)``.
    rows
        Positions of the targets of the two groups, shape ``(n,)``.
    banding
        How abilities are cut, and whose quantiles count.

    Returns
    -------
    numpy.ndarray
        From 0, shape ``(B, n)`` or ``(B, n, J)``.
    """
    # Rounding makes equal abilities equal, whatever the order in which a score was summed.
    values = np.round(abilities, 9)
    chosen = values if len(rows) == values.shape[1] else values[:, rows]
    return banding.strata(chosen, chosen if banding.reference == "groups" else values)
