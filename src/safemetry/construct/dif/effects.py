"""How large a difference is: the delta scale and its classes A, B and C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from safemetry.construct.dif.mantel_haenszel import DELTA_PER_LOGIT
from safemetry.irt.parameters import BoolArray, FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEGLIGIBLE_DELTA: Final = 1.0
LARGE_DELTA: Final = 1.5
_ONE_SIDED_5: Final = 1.6448536269514722
"""The 95th percentile of the normal distribution."""

R2_LIMITS: Final = {"jodoin_gierl": (0.035, 0.070), "zumbo_thomas": (0.130, 0.260)}
"""Rises of Nagelkerke's R squared from which a difference is moderate and large: Jodoin & Gierl
(2001), who derived theirs from the delta classes, and Zumbo & Thomas (1997)."""


def delta_of_log_odds(log_odds: FloatArray) -> FloatArray:
    """The delta of ln alpha (reference over focal): negative where the focal group loses.

    Holland & Thayer (1988): -2.35 ln alpha.

    Examples
    --------
    >>> delta_of_log_odds(np.log([2.0]))
    array([-1.62889587])
    """
    return -DELTA_PER_LOGIT * log_odds


def delta_of_group(gamma: FloatArray) -> FloatArray:
    """The delta of a logistic group effect (focal minus reference): 2.35 gamma.

    With a common slope gamma is -ln alpha (Swaminathan & Rogers 1990), so both methods share the
    scale and the sign. A ridge makes it smaller.

    Examples
    --------
    >>> delta_of_group(np.array([-1.0]))
    array([-2.35])
    """
    return DELTA_PER_LOGIT * gamma


def delta_classes(
    delta: FloatArray,
    *,
    error: FloatArray | None = None,
    significant: BoolArray | None = None,
    defined: BoolArray | None = None,
) -> NDArray[np.str_]:
    """The class of each item: A negligible, B moderate, C large.

    Parameters
    ----------
    delta
        Effects on the delta scale, any shape.
    error
        Their standard errors, positive: C then also needs abs(delta) to be above 1 by a one-sided
        test at 5%.
    significant
        Whether an item differs from 0 (by its test, or beyond a simulated threshold): B and C need
        it.
    defined
        Items without a value have the class ``""``.

    Notes
    -----
    Dorans & Holland (1993); Zwick (2012): A where abs(delta) < 1 or not significant; C where
    abs(delta) >= 1.5 and significantly above 1; B between. Without `error` and `significant` the
    classes are those of the size alone.

    Examples
    --------
    >>> delta_classes(np.array([0.5, -1.2, 1.7, 1.7]), error=np.array([0.1, 0.1, 0.1, 0.9]))
    array(['A', 'B', 'C', 'B'], dtype='<U1')
    """
    size = np.abs(delta)
    differs = size >= NEGLIGIBLE_DELTA
    if significant is not None:
        differs &= significant
    large = differs & (size >= LARGE_DELTA)
    if error is not None:
        large &= size - NEGLIGIBLE_DELTA > _ONE_SIDED_5 * error
    return _letters(differs, large, defined)


def r2_classes(
    r2_change: FloatArray,
    *,
    limits: Literal["jodoin_gierl", "zumbo_thomas"] = "jodoin_gierl",
    significant: BoolArray | None = None,
    defined: BoolArray | None = None,
) -> NDArray[np.str_]:
    """The class of each item by the rise of Nagelkerke's R squared.

    Parameters
    ----------
    r2_change
        As `logistic_test` gives it, any shape.
    limits
        A key of `R2_LIMITS`.
    significant, defined
        As `delta_classes` takes them.

    Examples
    --------
    >>> r2_classes(np.array([0.01, 0.05, 0.08]))
    array(['A', 'B', 'C'], dtype='<U1')
    """
    moderate, large = R2_LIMITS[limits]
    differs = r2_change >= moderate
    if significant is not None:
        differs &= significant
    return _letters(differs, differs & (r2_change >= large), defined)


def _letters(differs: BoolArray, large: BoolArray, defined: BoolArray | None) -> NDArray[np.str_]:
    letters: NDArray[np.str_] = np.where(large, "C", np.where(differs, "B", "A"))
    return letters if defined is None else np.where(defined, letters, "")
