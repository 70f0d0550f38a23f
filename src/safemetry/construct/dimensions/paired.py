"""Differences between two models, split by split, with an interval for overlapping splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.stats import t

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray

WINS_ARE_NOT_EVIDENCE: Final = (
    "Winning every split is not evidence by itself: the splits share their responses, and a model "
    "with more dimensions can win all of them where there is one dimension."
)


@dataclass(frozen=True)
class PairedDifference:
    """By how much one model predicts held-out responses better than another.

    Parameters
    ----------
    kind
        Why the two are compared.
    baseline, candidate
        Names of the models.
    gain
        Mean over splits of the log loss of the baseline less that of the candidate, in nats for
        each response; above 0 where the candidate predicts better.
    splits
        The gain in each split.
    interval
        Of the gain; None with fewer than two splits.
    level
        Of the interval.
    wins, won
        Splits in which the candidate predicts better, and the same in words, ``"5 of 5"``.
    sentence
        The difference in words.
    """

    kind: str
    baseline: str
    candidate: str
    gain: float
    splits: tuple[float, ...]
    interval: tuple[float, float] | None
    level: float
    wins: int
    won: str
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with `why` where there is no interval."""
        found = {**self.__dict__, "splits": list(self.splits)}
        if self.interval is None:
            found["why"] = {"interval": "one split has no spread"}
        return found


def paired_difference(
    kind: str,
    baseline: tuple[str, Sequence[float] | FloatArray],
    candidate: tuple[str, Sequence[float] | FloatArray],
    *,
    test_to_train: float,
    level: float = 0.95,
) -> PairedDifference:
    """Compare two models on the same splits.

    Parameters
    ----------
    kind
        Why the two are compared.
    baseline, candidate
        Name and log loss in each of S splits.
    test_to_train
        Held-out responses for each fitted one.
    level
        Of the interval, between 0 and 1.

    Examples
    --------
    >>> found = paired_difference(
    ...     "best", ("1D", [0.30, 0.31, 0.29]), ("2D", [0.25, 0.27, 0.25]), test_to_train=0.25
    ... )
    >>> round(found.gain, 4), found.won
    (0.0433, '3 of 3')
    """
    differences = np.asarray(baseline[1], np.float64) - np.asarray(candidate[1], np.float64)
    interval = corrected_interval(differences, test_to_train=test_to_train, level=level)
    wins, gain = int((differences > 0).sum()), float(differences.mean())
    won = f"{wins} of {len(differences)}"
    better = "better" if gain > 0 else "worse"
    within = "" if interval is None else f" ({level:.0%} interval of the gain {_range(interval)})"
    return PairedDifference(
        kind=kind,
        baseline=baseline[0],
        candidate=candidate[0],
        gain=gain,
        splits=tuple(map(float, differences)),
        interval=interval,
        level=level,
        wins=wins,
        won=won,
        sentence=(
            f"{candidate[0]} predicts held-out responses {better} than {baseline[0]} by "
            f"{abs(gain):.4f} nats a response{within} and wins {won} splits."
        ),
    )


def corrected_interval(
    differences: FloatArray, *, test_to_train: float, level: float = 0.95
) -> tuple[float, float] | None:
    """Interval of a mean over random splits that share their responses.

    The corrected resampled t interval (Nadeau & Bengio 2003, section 3): the variance of the mean
    of S differences is taken as (1 / S + n_test / n_train) s^2, with S - 1 degrees of freedom. The
    plain s^2 / S treats overlapping training sets as independent and goes to 0 with more splits.

    Parameters
    ----------
    differences
        Shape ``(S,)``.
    test_to_train
        n_test / n_train, above 0.
    level
        Between 0 and 1.

    Returns
    -------
    tuple of float, or None
        None with fewer than two differences.

    Raises
    ------
    InputError
        For a level or ratio out of range.

    Examples
    --------
    >>> low, high = corrected_interval(np.array([0.05, 0.04, 0.06, 0.05, 0.05]), test_to_train=0.25)
    >>> round(low, 4), round(high, 4)
    (0.0368, 0.0632)
    """
    if not 0 < level < 1 or not test_to_train > 0:
        raise InputError(
            f"the level is {level:g}, held-out responses for each fitted one {test_to_train:g}",
            fix="give a level between 0 and 1 and a ratio above 0",
        )
    count = len(differences)
    if count < 2:
        return None
    variance = (1 / count + test_to_train) * float(differences.var(ddof=1))
    reach = float(t.ppf((1 + level) / 2, count - 1)) * variance**0.5
    middle = float(differences.mean())
    return middle - reach, middle + reach


def _range(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4f} to {interval[1]:.4f}"
