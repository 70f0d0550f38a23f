"""Why verdicts go missing, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.schema import Reason, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

REASONS: Final = tuple(Reason)
"""Reasons by code; -1 stands for a verdict that was given."""

NONE: Final = -1

_BROKEN: Final = {Reason.GRADER_FAILED, Reason.SCORING_FAILED, Reason.INFRASTRUCTURE_ERROR}

STATUS_OF_REASON: Final = tuple(
    Status.ERROR if reason in _BROKEN else Status.MISSING for reason in REASONS
)
"""Status that goes with each reason: something broke, or there was nothing to judge."""


STATUSES: Final = tuple(Status)
"""Statuses by code."""

_STATUS_CODES: Final = np.array(
    [*(STATUSES.index(status) for status in STATUS_OF_REASON), STATUSES.index(Status.OK)], np.int8
)


def status_codes(reasons: NDArray[np.int8]) -> NDArray[np.int8]:
    """Status code of each reason code, in the same shape; ok where there is no reason.

    Examples
    --------
    >>> codes = np.array([NONE, REASONS.index(Reason.NO_RESPONSE)], np.int8)
    >>> [str(STATUSES[code]) for code in status_codes(codes)]
    ['ok', 'missing']
    """
    return _STATUS_CODES[reasons]


@dataclass(frozen=True, slots=True)
class LostResponses:
    """A reason for which a response does not exist, so that no judge has a verdict on it.

    Parameters
    ----------
    reason
        Why.
    rate
        Chance per response, in [0, 1).
    harmful_only
        Whether only responses to harmful items are lost.
    """

    reason: Reason
    rate: float
    harmful_only: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise InputError(f"a rate of {self.rate} lost responses is outside 0 to 1")


LOST_RESPONSES: Final = (
    LostResponses(Reason.NO_RESPONSE, 0.006),
    LostResponses(Reason.BLOCKED_BY_FILTER, 0.008, harmful_only=True),
    LostResponses(Reason.INFRASTRUCTURE_ERROR, 0.003),
    LostResponses(Reason.NOT_ATTEMPTED, 0.005),
)

JUDGE_FAILURES: Final = (
    (Reason.GRADER_FAILED, 0.4),
    (Reason.INVALID_RESPONSE_FORMAT, 0.35),
    (Reason.OUT_OF_SCALE, 0.15),
    (Reason.SCORING_FAILED, 0.1),
)
"""Reasons for which a judge call fails, with their shares."""


def draw_lost_responses(
    harmful: NDArray[np.bool_],
    lost: tuple[LostResponses, ...],
    rng: np.random.Generator,
) -> NDArray[np.int8]:
    """Reason codes of responses that do not exist, (responses,), int8; -1 where one does.

    Parameters
    ----------
    harmful
        Whether the item is harmful, (responses,).
    lost
        Reasons and rates; the rates sum to less than 1.
    rng
        Source of randomness.
    """
    reasons = np.full(len(harmful), NONE, dtype=np.int8)
    draws = rng.random(len(harmful))
    start = 0.0
    for entry in lost:
        hit = (draws >= start) & (draws < start + entry.rate)
        reasons[hit & (harmful | (not entry.harmful_only))] = REASONS.index(entry.reason)
        start += entry.rate
    return reasons


def draw_judge_failures(chances: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int8]:
    """Reason codes of judge calls that fail, int8 in the shape of `chances`; -1 where none does.

    Parameters
    ----------
    chances
        Chance that the call fails, each in [0, 1].
    rng
        Source of randomness.
    """
    reasons = np.full(chances.shape, NONE, dtype=np.int8)
    failed = np.flatnonzero(rng.random(chances.shape) < chances)
    codes = [REASONS.index(reason) for reason, _ in JUDGE_FAILURES]
    shares = [share for _, share in JUDGE_FAILURES]
    reasons.flat[failed] = rng.choice(np.array(codes, np.int8), size=len(failed), p=shares)
    return reasons
