"""Mantel-Haenszel odds ratios of items between two groups, over many matrices at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from safemetry.construct.dif.tables import CrossTables, cross_tables
from safemetry.construct.dif.undefined import Undefined
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

DELTA_PER_LOGIT = 2.35
"""The delta scale of Holland & Thayer (1988): 4 / 1.7 units a logit, rounded by convention."""

_STEP_CELLS = 3_000_000
"""Cells of the stacked tables in one step, so that a step stays under about 200 MB."""


@dataclass(frozen=True)
class MantelHaenszel:
    """Statistics of each item; a cell without a value holds 0 and its reason.

    Parameters
    ----------
    log_odds
        ln alpha, shape ``(B, J)`` or ``(J,)``: positive where, at equal matching score, the
        reference group has the higher odds of a rewarded response.
    variance
        Variance of ln alpha, 0 where it has no value.
    chi_square, p_value
        The Mantel-Haenszel test with one degree of freedom; 0 and 1 where it has no value.
    undefined
        Codes of `Undefined`: why `log_odds` and `variance` have no value. The test has one unless
        the code is neither `DEFINED` nor `UNBOUNDED`.
    """

    log_odds: FloatArray
    variance: FloatArray
    chi_square: FloatArray
    p_value: FloatArray
    undefined: NDArray[np.int8]

    @property
    def defined(self) -> BoolArray:
        """Where ln alpha has a value."""
        return np.equal(self.undefined, Undefined.DEFINED)

    @property
    def delta(self) -> FloatArray:
        """The effect on the delta scale, -2.35 ln alpha: negative where the focal group loses."""
        return -DELTA_PER_LOGIT * self.log_odds


def mantel_haenszel(
    codes: NDArray[np.int8],
    strata: IntArray,
    focal: BoolArray,
    *,
    strata_of_zero: IntArray | None = None,
    smoothing: float = 0.5,
    continuity: float = 0.5,
    min_group: int = 2,
) -> MantelHaenszel:
    """Odds ratio, variance and test of each item.

    With A, B the rewarded and unrewarded responses of the reference group in a stratum of T, and
    C, D those of the focal group: alpha = (sum AD/T + s) / (sum BC/T + s), where s is the
    smoothing; s = 0 is the classical estimate.

    Parameters
    ----------
    codes
        Shape ``(B, N, J)`` or ``(N, J)``: 1, 0 or -1 where there is no response. Only targets of
        the two groups are rows.
    strata
        Stratum of each target from 0, -1 where it is left out: shape ``(N,)``, ``(B, N)``, or
        ``(N, J)``, ``(B, N, J)`` where it differs by item. Equal labels of one matrix are compared.
    focal
        Shape ``(N,)``: True for the focal group, False for the reference group.
    strata_of_zero
        The stratum of a target in those items that it answered with 0, where `strata` is that for
        items answered with 1: shape ``(N,)`` or ``(B, N)``. That is all a matching score without
        the studied item needs, since it differs from the total only by the answer.
    smoothing
        Added to both sums of alpha, in responses; at least 0.
    continuity
        Taken off |sum A - E(A)| before squaring, .5 by convention, 0 for none.
    min_group
        Fewest responses that each group must have to an item, in strata that are not left out.

    Raises
    ------
    ValueError
        For shapes that do not fit, or a negative smoothing.

    Notes
    -----
    Estimate and test: Mantel & Haenszel (1959), applied to items by Holland & Thayer (1988).
    Variance: Robins, Breslow & Greenland (1986), with the smoothed sums where they are smoothed.
    |sum A - E(A)| is computed as |sum AD/T - sum BC/T|, which is the same number, so that a swap of
    the groups changes the sign of ln alpha and nothing else, to the last bit.

    Examples
    --------
    >>> codes = np.array([[1], [1], [0], [1], [0], [0]], np.int8)
    >>> focal = np.array([False, False, False, True, True, True])
    >>> found = mantel_haenszel(codes, np.zeros(6, int), focal)
    >>> found.log_odds.round(3), found.defined
    (array([0.56]), array([ True]))
    """
    _check_smoothing(smoothing)
    parts = [
        _statistics(tables, smoothing, continuity, min_group)
        for tables in cross_tables(codes, strata, focal, strata_of_zero, _STEP_CELLS // 2)
    ]
    log_odds, variance, chi_square, undefined = (
        np.concatenate(part)[... if codes.ndim == 3 else 0] for part in zip(*parts, strict=True)
    )
    p_value = np.asarray(chdtrc(1.0, chi_square), np.float64)
    return MantelHaenszel(log_odds, variance, chi_square, p_value, undefined.astype(np.int8))


def log_odds_ratios(
    codes: NDArray[np.int8],
    strata: IntArray,
    focal: BoolArray,
    *,
    strata_of_zero: IntArray | None = None,
    smoothing: float = 0.5,
    min_group: int = 2,
) -> tuple[FloatArray, BoolArray]:
    """Only ln alpha and where it is defined, for simulated matrices: as `mantel_haenszel`, quicker.

    The values are the same to the last bit, so that a simulated statistic can tie an observed one.

    Raises
    ------
    ValueError
        As `mantel_haenszel`.
    """
    _check_smoothing(smoothing)
    parts = []
    for tables in cross_tables(codes, strata, focal, strata_of_zero, _STEP_CELLS):
        above, below = (part.sum(axis=1) for part in tables.products())
        bounded = _is_bounded(above, below, smoothing)
        reference, studied = (part.sum(axis=1) for part in tables.group_totals())
        bounded &= np.minimum(reference, studied) >= min_group
        parts.append((_log_odds(above + smoothing, below + smoothing, bounded), bounded))
    log_odds, defined = (
        np.concatenate(part)[... if codes.ndim == 3 else 0] for part in zip(*parts, strict=True)
    )
    return log_odds, defined


def _check_smoothing(smoothing: float) -> None:
    if smoothing < 0:
        msg = f"smoothing is {smoothing}; it is 0 or more"
        raise ValueError(msg)


def _is_bounded(above: FloatArray, below: FloatArray, smoothing: float) -> BoolArray:
    """Whether anything compares, and the ratio of the two sums is neither 0 nor infinite."""
    return (above + smoothing > 0) & (below + smoothing > 0) & (above + below > 0)


def _log_odds(above: FloatArray, below: FloatArray, bounded: BoolArray) -> FloatArray:
    # A difference of logarithms, not the logarithm of a ratio: it is exactly odd under a swap.
    return np.log(np.where(bounded, above, 1.0)) - np.log(np.where(bounded, below, 1.0))


def _statistics(
    tables: CrossTables, smoothing: float, continuity: float, min_group: int
) -> tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int8]]:
    above, below = tables.products()
    agree, disagree = tables.diagonal_shares()
    sum_above, sum_below = above.sum(axis=1), below.sum(axis=1)
    spread = tables.hypergeometric_variance().sum(axis=1)
    bounded = _is_bounded(sum_above, sum_below, smoothing)
    undefined = _why(tables, spread > 0, bounded, min_group)
    defined = undefined == Undefined.DEFINED
    tested = defined | (undefined == Undefined.UNBOUNDED)

    upper = np.where(defined, sum_above + smoothing, 1.0)
    lower = np.where(defined, sum_below + smoothing, 1.0)
    own = (agree * above).sum(axis=1) / upper**2 + (disagree * below).sum(axis=1) / lower**2
    shared = ((agree * below).sum(axis=1) + (disagree * above).sum(axis=1)) / (upper * lower)
    distance = np.abs(sum_above - sum_below) - continuity
    return (
        _log_odds(upper, lower, defined),
        np.where(defined, (own + shared) / 2, 0.0),
        np.where(tested, distance**2 / np.where(tested, spread, 1.0), 0.0),
        undefined,
    )


def _why(
    tables: CrossTables, comparable: BoolArray, bounded: BoolArray, min_group: int
) -> NDArray[np.int8]:
    reference, focal = tables.group_totals()
    smaller = np.minimum(reference.sum(axis=1), focal.sum(axis=1))
    silent = (reference.sum(axis=1) + focal.sum(axis=1)) == 0
    shared = (np.minimum(reference, focal) > 0).any(axis=1)
    return np.select(
        [silent, smaller < min_group, ~shared, ~comparable, ~bounded],
        [
            np.int8(Undefined.NO_RESPONSE),
            np.int8(Undefined.SMALL_GROUP),
            np.int8(Undefined.NO_COMMON_STRATUM),
            np.int8(Undefined.CONSTANT),
            np.int8(Undefined.UNBOUNDED),
        ],
        np.int8(Undefined.DEFINED),
    )
