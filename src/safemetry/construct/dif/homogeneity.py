"""Whether the odds ratio of an item is the same in all strata, and standardised differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtrc

from safemetry.construct.dif.mantel_haenszel import mantel_haenszel
from safemetry.construct.dif.tables import cross_tables
from safemetry.construct.dif.undefined import Undefined
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class BreslowDay:
    """Homogeneity of J odds ratios; an item without a value holds 0 (p-value 1) and its reason.

    Parameters
    ----------
    statistic, p_value
        Shape ``(J,)``: large where the difference between the groups changes with the score.
    degrees
        One less than the informative strata, shape ``(J,)``.
    undefined
        Codes of `Undefined`.
    """

    statistic: FloatArray
    p_value: FloatArray
    degrees: IntArray
    undefined: NDArray[np.int8]


def breslow_day(
    codes: NDArray[np.int8], strata: IntArray, focal: BoolArray, *, min_group: int = 2
) -> BreslowDay:
    """Test whether the odds ratio of each item is the same in every stratum.

    Parameters
    ----------
    codes
        Shape ``(N, J)``: 1, 0 or -1.
    strata, focal, min_group
        As `mantel_haenszel` takes them; strata of shape ``(N,)``.

    Raises
    ------
    ValueError
        For shapes that do not fit.

    Notes
    -----
    Breslow & Day (1980), section 4.4, with the Mantel-Haenszel estimate as the common odds ratio;
    for items by Penfield (2003). A stratum with an empty margin has no information and no degree
    of freedom. With few responses in a stratum the chi-square is rough.

    Examples
    --------
    >>> strata, focal = np.repeat([0, 1], 8), np.tile([True, False], 8)
    >>> codes = np.array([[1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0]], np.int8).T
    >>> breslow_day(codes, strata, focal).statistic.round(2)
    array([4.])
    """
    common = mantel_haenszel(codes, strata, focal, smoothing=0, min_group=min_group)
    (tables,) = cross_tables(codes, strata, focal, step_cells=2**62)
    reference, studied = (part[0] for part in tables.group_totals())
    ones = (tables.reference_ones + tables.focal_ones)[0]
    informative = (np.minimum(reference, studied) > 0) & (ones > 0) & (ones < reference + studied)
    alpha = np.exp(common.log_odds)
    # a (n_F - m + a) = alpha (n_R - a)(m - a), whose root lies inside the margins.
    linear = studied - ones + alpha * (reference + ones)
    constant = alpha * reference * ones
    root = np.sqrt(np.maximum(linear**2 - 4 * (alpha - 1) * constant, 0))
    expected = 2 * constant / np.where(informative, linear + root, 1.0)
    cells = (expected, reference - expected, ones - expected, studied - ones + expected)
    precision = sum(1 / np.where(informative, np.maximum(cell, 1e-300), 1.0) for cell in cells)
    surprise = (tables.reference_ones[0] - expected) ** 2 * precision
    degrees = np.maximum(informative.sum(axis=0) - 1, 0)
    undefined = common.undefined.copy()
    undefined[(undefined == Undefined.DEFINED) & (degrees == 0)] = Undefined.NO_COMMON_STRATUM
    defined = undefined == Undefined.DEFINED
    statistic = np.where(defined, np.where(informative, surprise, 0.0).sum(axis=0), 0.0)
    p_value = np.where(defined, chdtrc(np.maximum(degrees, 1), statistic), 1.0)
    return BreslowDay(statistic, p_value, np.where(defined, degrees, 0), undefined)


def standardised_difference(
    codes: NDArray[np.int8], strata: IntArray, focal: BoolArray, *, min_group: int = 2
) -> tuple[FloatArray, NDArray[np.int8]]:
    """Rewarded share of the focal less that of the reference group, at the focal group's scores.

    Parameters
    ----------
    codes, strata, focal, min_group
        As `mantel_haenszel` takes them.

    Returns
    -------
    tuple
        Differences, -1 to 1, shape ``(B, J)`` or ``(J,)``, 0 where there is none, and codes of
        `Undefined`.

    Raises
    ------
    ValueError
        For shapes that do not fit.

    Notes
    -----
    STD P-DIF of Dorans & Kulick (1986), over the strata that hold both groups.

    Examples
    --------
    >>> codes = np.array([[1], [1], [1], [0]], np.int8)
    >>> focal = np.array([False, False, True, True])
    >>> standardised_difference(codes, np.zeros(4, int), focal)[0]
    array([-0.5])
    """
    differences, faults = [], []
    for tables in cross_tables(codes, strata, focal):
        reference, studied = tables.group_totals()
        shared = np.minimum(reference, studied) > 0
        gap = tables.focal_ones / np.maximum(studied, 1) - tables.reference_ones / np.maximum(
            reference, 1
        )
        weight = np.where(shared, studied, 0.0)
        total = weight.sum(axis=1)
        smaller = np.minimum(reference.sum(axis=1), studied.sum(axis=1))
        why = np.select(
            [(reference + studied).sum(axis=1) == 0, smaller < min_group, total == 0],
            [
                np.int8(Undefined.NO_RESPONSE),
                np.int8(Undefined.SMALL_GROUP),
                np.int8(Undefined.NO_COMMON_STRATUM),
            ],
            np.int8(Undefined.DEFINED),
        )
        share = (gap * weight).sum(axis=1) / np.where(total > 0, total, 1.0)
        differences.append(np.where(why == Undefined.DEFINED, share, 0.0))
        faults.append(why.astype(np.int8))
    one = ... if codes.ndim == 3 else 0
    return np.concatenate(differences)[one], np.concatenate(faults)[one]
