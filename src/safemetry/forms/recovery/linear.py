"""The full score as a linear function of the responses to a form, and its blend with the model.

A model with one ability does not know that items of one kind go together. Among calibration targets
the full score is regressed on the outcomes of the form's items; ridge regression with penalties in
proportion to the noise of the items is the best linear prediction if the covariances of the
calibration targets are those of all (Robinson 1991). Where items are many and targets few the model
is the better guide: the two are blended by their errors on targets that neither has seen (Wolpert
1992; Breiman 1996, "Stacked regressions").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.forms.recovery.table import outcomes
from safemetry.irt.parameters import FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

PENALTIES: Final = np.logspace(-2, 2, 13)
"""Multiples of (number of targets x noise of the item) that the penalty is chosen from."""

SMALLEST_NOISE: Final = 0.01
"""Variance that no item is taken to have less of."""


@dataclass(frozen=True)
class Known:
    """Calibration targets as a linear prediction reads them.

    Parameters
    ----------
    centred
        Outcomes less the mean of their item, 0 where missing, shape ``(N, J)``.
    means
        Mean outcome of each item, shape ``(J,)``.
    truth
        Full scores, shape ``(N,)``.
    noise
        Variance of each outcome that the ability does not explain, shape ``(J,)``.
    """

    centred: FloatArray
    means: FloatArray
    truth: FloatArray
    noise: FloatArray

    def of(self, codes: Codes, highest: IntArray) -> FloatArray:
        """Outcomes of other targets less the means of the items, 0 where missing."""
        found: FloatArray = np.where(codes >= 0, outcomes(codes, highest) - self.means, 0.0)
        return found


def known_targets(codes: Codes, highest: IntArray, truth: FloatArray, noise: FloatArray) -> Known:
    """Calibration targets with a full score, made ready.

    Parameters
    ----------
    codes, highest
        Responses ``(N, J)``, -1 where missing, and categories - 1 of each item.
    truth
        Full scores, NaN where a target has none.
    noise
        Variance of each outcome given the ability, shape ``(J,)``.
    """
    rows = np.isfinite(truth)
    used = codes[rows]
    seen = used >= 0
    scores = outcomes(used, highest)
    means = (scores * seen).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen, scores - means, 0.0)
    return Known(centred, means, truth[rows], np.maximum(noise, SMALLEST_NOISE))


def linear_scores(
    known: Known, form: IntArray, others: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Full scores predicted from one form, in [0, 1].

    Parameters
    ----------
    known
        Calibration targets.
    form
        Positions of its items, shape ``(L,)``.
    others
        Centred outcomes of M other targets, shape ``(M, J)``; see `Known.of`.

    Returns
    -------
    tuple
        Scores of the others ``(M,)``, and of each calibration target predicted from all the other
        ones ``(N,)`` (ridge regression with one target left out in closed form, Golub, Heath &
        Wahba 1979; the penalty has the least squared error of these).
    """
    slopes, misses = ridge_slopes(known, form)
    found = np.clip(known.truth.mean() + others[:, form] @ slopes, 0.0, 1.0)
    return found, np.clip(known.truth - misses, 0.0, 1.0)


def ridge_slopes(known: Known, form: IntArray) -> tuple[FloatArray, FloatArray]:
    """What each centred outcome of a form adds to the mean score of the calibration targets.

    Parameters
    ----------
    known, form
        As in `linear_scores`.

    Returns
    -------
    tuple
        Slopes ``(L,)``, and by how much each calibration target is missed when it is left out
        ``(N,)``.
    """
    count = len(known.truth)
    scale = 1 / np.sqrt(known.noise[form] * count)
    left, values, right = np.linalg.svd(known.centred[:, form] * scale, full_matrices=False)
    middle = known.truth.mean()
    turned = left.T @ (known.truth - middle)
    shrink = values**2 / (values**2 + PENALTIES[:, None])
    fitted = (shrink * turned) @ left.T
    # With more items than targets a small penalty leaves hardly any freedom, and hardly any miss.
    freedom = 1 - 1 / count - shrink @ (left**2).T
    misses = (known.truth - middle - fitted) / np.maximum(freedom, 1e-9)
    best = int((misses**2).mean(axis=1).argmin())
    slopes = scale * (right.T @ (values / (values**2 + PENALTIES[best]) * turned))
    return slopes, misses[best]


def linear_own_scores(known: Known, items: IntArray, others: FloatArray) -> FloatArray:
    """Full scores of targets that took items of their own, shape ``(M,)``.

    The penalty is the noise of the items itself, since nothing is left to choose it by.

    Parameters
    ----------
    known, others
        As in `linear_scores`.
    items
        Positions ``(M, T)``, -1 after the last.
    """
    count = len(known.truth)
    middle = known.truth.mean()
    apart = known.truth - middle
    found = np.empty(len(others))
    for target, row in enumerate(items):
        form = row[row >= 0]
        scale = 1 / np.sqrt(known.noise[form] * count)
        shares = known.centred[:, form] * scale
        own = others[target, form] * scale
        if form.size < count:
            inner = shares.T @ shares + np.eye(form.size)
            found[target] = own @ np.linalg.solve(inner, shares.T @ apart)
        else:
            inner = shares @ shares.T + np.eye(count)
            found[target] = (shares @ own) @ np.linalg.solve(inner, apart)
    clipped: FloatArray = np.clip(middle + found, 0.0, 1.0)
    return clipped


def blend_share(first: FloatArray, second: FloatArray, truth: FloatArray) -> float:
    """Share of the first of two predictions with the least squared error, in [0, 1].

    Parameters
    ----------
    first, second, truth
        Of targets that neither prediction has seen, shape ``(N,)``; NaN are left out.

    Examples
    --------
    >>> truth = np.array([0.2, 0.4, 0.6])
    >>> blend_share(truth + 0.1, truth - 0.1, truth)
    0.5
    """
    known = np.isfinite(first) & np.isfinite(second) & np.isfinite(truth)
    apart = (first - second)[known]
    square = float(apart @ apart)
    if square <= 0:
        return 0.5
    share = float(apart @ (truth - second)[known]) / square
    return round(min(max(share, 0.0), 1.0), 12)
