"""Fair bets on one item: what an unchanged endpoint would answer, given its past answers.

Each function returns logarithms of factors whose expectation is at most 1 if the endpoint is
unchanged (or, for `equivalence_bets`, if it has changed by the margin at least). Their product over
items is a test supermartingale for every bet, and so is the average over bets (Waudby-Smith &
Ramdas 2024, Journal of the Royal Statistical Society B 86, 1-27; mixtures: Robbins 1970).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.irt.parameters import FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

STAKES: Final[FloatArray] = np.array([0.03, 0.1, 0.2, 0.4, 0.7])
TILTS: Final[FloatArray] = np.array([1.0, 2.0, 4.0])
SIDES: Final[FloatArray] = np.array([-0.8, -0.5, -0.25, -0.1, 0.1, 0.25, 0.5, 0.8])
MARGIN_STAKES: Final[FloatArray] = np.array([0.05, 0.15, 0.3, 0.5, 0.8])


def exchange_bets(counts: FloatArray, new: NDArray[np.integer]) -> FloatArray:
    """Bets that the new answer is the odd one out among all answers to the item.

    An unchanged endpoint makes the past and the new answers exchangeable: given which answers there
    are, the new one is each of them with the same chance. That needs no re-run rate, and holds
    whatever the items are. A bet w(c) = 1 / n_c^tilt, divided by its mean over the answers, with a
    stake s: 1 - s + s w / mean.

    Parameters
    ----------
    counts
        Past answers of each class, shape ``(S, C)``, of two answers at least (otherwise the factor
        is 1).
    new
        Class of the new answer, shape ``(S,)``.

    Returns
    -------
    numpy.ndarray
        Logarithms, shape ``(S, len(TILTS) * len(STAKES))``.
    """
    rows = np.arange(len(counts))
    whole = counts.copy()
    whole[rows, new] += 1
    total = whole.sum(axis=1)
    relative = whole / total[:, None]
    power = np.where(whole[..., None] > 0, np.maximum(relative, 1e-12)[..., None] ** -TILTS, 0.0)
    mean = (relative[..., None] * power).sum(axis=1)
    factor = 1 + STAKES * ((power[rows, new] / mean)[..., None] - 1)
    found: FloatArray = np.log(factor).reshape(len(counts), -1)
    return np.where((total > 2)[:, None], found, 0.0)


def rate_bets(differs: FloatArray, rate: float) -> FloatArray:
    """Bets that a new answer differs from the past one more often than `rate`.

    The likelihood ratio of two Bernoulli rates, s = r + stake (1 - r) against r, which is
    1 + (s - r) (D - r) / (r (1 - r)).

    Parameters
    ----------
    differs
        Whether the new answer differs, or the share of past answers that it differs from, (S,).
    rate
        Most that an unchanged endpoint differs, in (0, 1).

    Returns
    -------
    numpy.ndarray
        Logarithms, shape ``(S, len(STAKES))``.
    """
    found: FloatArray = np.log1p(STAKES / rate * (differs[:, None] - rate))
    return found


def direction_bets(shift: FloatArray) -> FloatArray:
    """Bets that new answers lie higher, or lower, than past ones.

    Past and new answers of an unchanged endpoint are exchangeable, so that the sign of their
    difference has mean 0: 1 + side x shift. For one past answer this is a sequential McNemar test.

    Parameters
    ----------
    shift
        Mean sign of new less past, in [-1, 1], shape ``(S,)``.

    Returns
    -------
    numpy.ndarray
        Logarithms, shape ``(S, len(SIDES))``.
    """
    found: FloatArray = np.log1p(SIDES * shift[:, None])
    return found


def equivalence_bets(excess: FloatArray, margin: float) -> FloatArray:
    """Bets that the disagreement beyond that of re-runs is below a margin.

    Parameters
    ----------
    excess
        Disagreement with the past less what a re-run shows, in [-1, 1], shape ``(S,)``; its mean is
        at least `margin` under the hypothesis that is bet against.
    margin
        In (0, 1).

    Returns
    -------
    numpy.ndarray
        Logarithms, shape ``(S, len(MARGIN_STAKES))``.
    """
    stakes = MARGIN_STAKES / (1 - margin)
    found: FloatArray = np.log1p(-stakes * (excess[:, None] - margin))
    return found
