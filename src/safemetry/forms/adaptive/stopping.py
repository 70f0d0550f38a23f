"""When a session ends, and why."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np

from safemetry.forms.adaptive.classification import ABOVE, BELOW, UNDECIDED, decide
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.irt.parameters import FloatArray, IntArray


class Stop(StrEnum):
    """Why a session ended."""

    CLASSIFIED = "classified"
    PRECISION = "precision"
    BUDGET = "budget"
    EXHAUSTED = "exhausted"


class Decision(StrEnum):
    """Which side of the cut a target is on."""

    ABOVE = "above"
    BELOW = "below"
    CANNOT_TELL = "cannot_tell"


REASONS: Final = tuple(Stop)
GOES_ON: Final = -1
SIDES: Final = {
    ABOVE: Decision.ABOVE,
    BELOW: Decision.BELOW,
    UNDECIDED: Decision.CANNOT_TELL,
}


def ended(
    settings: AdaptiveSettings,
    given: int,
    answered: IntArray,
    log_ratio: FloatArray,
    theta: FloatArray,
    se: FloatArray,
) -> tuple[IntArray, IntArray]:
    """Which sessions end after an answer.

    A decision comes before precision, and precision before the budget. With a classification a
    session that ends without a decision "cannot tell" (a sequential test that is truncated).

    Parameters
    ----------
    settings
        Of the test, its cut as an ability.
    given
        Items so far, the same for all n targets.
    answered
        Scored answers, shape ``(n,)``.
    log_ratio
        Of the sequential test, shape ``(n,)``.
    theta, se
        Shape ``(n, K)``.

    Returns
    -------
    tuple
        Position in `REASONS` or `GOES_ON`, and the decision as `decide` gives it; shape ``(n,)``.
    """
    found = np.full(answered.shape, GOES_ON, np.int64)
    decisions = np.full(answered.shape, UNDECIDED, np.int64)
    if given >= settings.budget:
        found[:] = REASONS.index(Stop.BUDGET)
    ready = answered >= settings.least
    if settings.precision is not None:
        found[ready & (se.max(axis=1) <= settings.precision)] = REASONS.index(Stop.PRECISION)
    if settings.classification is not None:
        decided = decide(settings.classification, log_ratio, theta[:, 0], se[:, 0])
        decisions = np.where(ready, decided, UNDECIDED)
        found[decisions != UNDECIDED] = REASONS.index(Stop.CLASSIFIED)
    return found, decisions
