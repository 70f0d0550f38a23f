"""Rogan-Gladen: the rate behind a judge's rate, from its sensitivity and specificity.

A judge that calls the share q of all responses compliant, with sensitivity s and specificity c
measured on a labelled subset, points to a true rate p = (q + c - 1) / (s + c - 1). Both accuracies
are uncertain, and the division makes that count: where s + c - 1 cannot be told from 0 the judge
carries no information and there is no estimate.

Interval: Fieller's, that is all rates p0 for which q + c - 1 - p0 (s + c - 1) is no further from 0
than its standard error at p0 allows. The accuracies enter it with half a response added to each of
their cells. In simulations it kept its coverage where the delta method (down to 74%) and the
pseudo-count interval of Lang & Reiczigel (2014) (down to 92%) did not.

Sources: Rogan & Gladen (1978), American Journal of Epidemiology 107, 71-76; Fieller (1954), Journal
of the Royal Statistical Society B 16, 175-185; Newcombe (1998), Statistics in Medicine 17,
873-890, method 10 (interval of s + c - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import special

from safemetry.judges.correction.effective_labels import Population
from safemetry.rates.intervals import check_level, wilson

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]
    CodeArray = NDArray[np.int8]

REFUSALS: Final = (
    None,
    "no labelled response is over the boundary: sensitivity is unknown",
    "every labelled response is over the boundary: specificity is unknown",
    "sensitivity + specificity is at most 1: the judge says nothing of this boundary",
    "the interval of sensitivity + specificity - 1 reaches 0: too few labels for this judge",
)
"""Why there is no estimate, by code; code 0 is an estimate."""

_HALF: Final = 0.5


@dataclass(frozen=True)
class RoganGladen:
    """Corrected rates of any number of tables; every array has their shape.

    Parameters
    ----------
    estimate, lower, upper
        The rate in [0, 1] and its interval; NaN where it is refused.
    raw
        The estimate before it is clipped to [0, 1]; NaN where it is refused.
    rate
        The judge's rate over all responses.
    sensitivity, specificity
        On the labelled responses; NaN where no response is of the class.
    sensitivity_lower, sensitivity_upper, specificity_lower, specificity_upper
        Their Wilson intervals; [0, 1] where no response is of the class.
    youden_lower, youden_upper
        Interval of sensitivity + specificity - 1.
    refusal
        Position in `REFUSALS`.
    """

    estimate: FloatArray
    lower: FloatArray
    upper: FloatArray
    raw: FloatArray
    rate: FloatArray
    sensitivity: FloatArray
    specificity: FloatArray
    sensitivity_lower: FloatArray
    sensitivity_upper: FloatArray
    specificity_lower: FloatArray
    specificity_upper: FloatArray
    youden_lower: FloatArray
    youden_upper: FloatArray
    refusal: CodeArray


def prevalence(rate: ArrayLike, sensitivity: ArrayLike, specificity: ArrayLike) -> FloatArray:
    """The true rate behind an observed one; it may lie outside [0, 1].

    Parameters
    ----------
    rate
        Share that the judge puts over the boundary.
    sensitivity, specificity
        Shares of the judge; their sum is not 1.

    Source: Rogan & Gladen (1978), equation 1.

    Examples
    --------
    >>> round(float(prevalence(23 / 150, 0.96, 0.89)), 3)
    0.051
    """
    q, s, c = (np.asarray(part, np.float64) for part in (rate, sensitivity, specificity))
    found: FloatArray = np.asarray((q + c - 1) / (s + c - 1))
    return found


def rogan_gladen(
    labelled: ArrayLike,
    others: ArrayLike,
    *,
    level: float = 0.95,
    population: Population = "sample",
) -> RoganGladen:
    """Corrected rates where a random part of the responses has been labelled.

    Parameters
    ----------
    labelled
        Labelled responses by the gold label and the judge's verdict, each 0 or 1 (over the
        boundary), shape ``(..., 2, 2)``; fractions allowed (effective counts).
    others
        The other responses by the judge's verdict, shape ``(..., 2)``.
    level
        Two-sided confidence in (0, 1).
    population
        ``sample``: the responses stand for more of their kind. ``fixed``: the rate of these very
        responses is asked for, and all that is uncertain is what was not labelled.

    Raises
    ------
    ValueError
        For an impossible level or shapes that do not fit.

    Examples
    --------
    >>> found = rogan_gladen([[40, 5], [4, 51]], [200, 200])
    >>> [round(float(part), 2) for part in (found.estimate, found.lower, found.upper)]
    [0.49, 0.41, 0.57]
    """
    check_level(level)
    table, rest = _tables(labelled, others)
    positives, negatives = table[..., 1, :].sum(-1), table[..., 0, :].sum(-1)
    hits, passes = table[..., 1, 1], table[..., 0, 0]
    total = table.sum((-2, -1)) + rest.sum(-1)
    over = table[..., 1].sum(-1) + rest[..., 1]
    sensitivity, specificity = _share(hits, positives), _share(passes, negatives)
    low1, high1 = wilson(hits, positives, level)
    low0, high0 = wilson(passes, negatives, level)
    youden = sensitivity + specificity - 1
    below = youden - np.hypot(sensitivity - low1, specificity - low0)
    above = youden + np.hypot(high1 - sensitivity, high0 - specificity)
    refusal = np.select(
        [positives <= 0, negatives <= 0, youden <= 0, below <= 0], [1, 2, 3, 4], 0
    ).astype(np.int8)
    rate = _share(over, total)
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = prevalence(rate, sensitivity, specificity)
        lower, upper, bounded = _fieller(table, rest, rate, level, population)
    # Fieller's set is unbounded only where the judge cannot be told from a coin, at this level too.
    refusal = np.where((refusal == 0) & ~bounded, np.int8(4), refusal)
    given = refusal == 0
    estimate = np.clip(raw, 0.0, 1.0)
    return RoganGladen(
        estimate=np.where(given, estimate, np.nan),
        lower=np.where(given, np.clip(np.minimum(lower, estimate), 0.0, 1.0), np.nan),
        upper=np.where(given, np.clip(np.maximum(upper, estimate), 0.0, 1.0), np.nan),
        raw=np.where(given, raw, np.nan),
        rate=rate,
        sensitivity=sensitivity,
        specificity=specificity,
        sensitivity_lower=low1,
        sensitivity_upper=high1,
        specificity_lower=low0,
        specificity_upper=high0,
        youden_lower=below,
        youden_upper=above,
        refusal=refusal,
    )


def _tables(labelled: ArrayLike, others: ArrayLike) -> tuple[FloatArray, FloatArray]:
    table, rest = np.asarray(labelled, np.float64), np.asarray(others, np.float64)
    if table.shape[-2:] != (2, 2) or rest.shape[-1:] != (2,) or table.shape[:-2] != rest.shape[:-1]:
        msg = f"expected shapes (..., 2, 2) and (..., 2), got {table.shape} and {rest.shape}"
        raise ValueError(msg)
    return table, rest


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), np.nan)


def _fieller(
    table: FloatArray, rest: FloatArray, rate: FloatArray, level: float, population: Population
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Both ends, and whether the set between them is one interval.

    The labelled responses are part of those the rate is taken over, and their errors are in both.
    To first order that takes 2n / T off the variance of the accuracies, with n of T labelled.
    """
    positives, negatives = table[..., 1, :].sum(-1), table[..., 0, :].sum(-1)
    n = positives + negatives
    total = n + rest.sum(-1)
    s = (table[..., 1, 1] + _HALF) / (positives + 2 * _HALF)
    c = (table[..., 0, 0] + _HALF) / (negatives + 2 * _HALF)
    t2 = special.stdtrit(np.maximum(n - 1, 1.0), 0.5 + level / 2) ** 2
    if population == "fixed":
        left, of_rate = 1 - n / total, np.zeros_like(total)
    else:
        left = np.maximum(1 - 2 * n / total, 0.0)
        smooth = (rate * total + t2 / 2) / (total + t2)
        of_rate = smooth * (1 - smooth) / total
    of_s, of_c = left * s * (1 - s) / (positives + 1), left * c * (1 - c) / (negatives + 1)
    top, youden = rate + c - 1, s + c - 1
    # (top - p youden)^2 = t^2 (of_rate + p^2 of_s + (1 - p)^2 of_c), solved for p
    square = youden**2 - t2 * (of_s + of_c)
    linear = top * youden - t2 * of_c
    constant = top**2 - t2 * (of_rate + of_c)
    root = np.sqrt(np.maximum(linear**2 - square * constant, 0.0))
    lower, upper = (linear - root) / square, (linear + root) / square
    # With every response labelled the estimate is their plain rate.
    known = rest.sum(-1) <= 0
    plain = wilson(positives, n, level)
    if population == "fixed":
        plain = plain._replace(lower=positives / n, upper=positives / n)
    return (
        np.where(known, plain.lower, lower),
        np.where(known, plain.upper, upper),
        known | (square > 0),
    )
