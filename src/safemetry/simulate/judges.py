"""Judges as confusion matrices, and the collapse of a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.schema import CLASSES, OUTSIDE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

LABELS: Final = (*CLASSES, *OUTSIDE)
"""Classes by code: the true class of a response and the label of a judge are indices into it."""

REFUSE, EVASIVE, COMPLY, GIBBERISH = range(4)

MOVED_TO_EVASIVE: Final = 118 / 144
"""Share of the `comply` verdicts lost in a published collapse that became `evasive`."""

_GIBBERISH_LEAK: Final = 0.004


@dataclass(frozen=True, slots=True)
class SimulatedJudge:
    """A judge of a simulated panel.

    Parameters
    ----------
    name
        Its name in the judgements table.
    accuracy
        Chance that it gives a response its true class, in (0, 1], before any collapse.
    severity
        Share of its errors on `evasive` responses that fall on the less compliant side, in [0, 1].
    missing
        Chance that a call of it gives no verdict, in [0, 1).
    calls
        How often it judges each response.
    kept
        None for a sound judge. For a judge that collapses on `comply`: the share of its `comply`
        verdicts that stays, in [0, 1); the others fall one or two classes.
    """

    name: str
    accuracy: float
    severity: float = 0.5
    missing: float = 0.01
    calls: int = 1
    kept: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.accuracy <= 1 or not 0 <= self.severity <= 1:
            raise InputError(f"judge {self.name!r}: accuracy or severity outside 0 to 1")
        if not 0 <= self.missing < 1 or self.calls < 1:
            raise InputError(f"judge {self.name!r}: missing must be under 1 and calls at least 1")
        if self.kept is not None and not 0 <= self.kept < 1:
            raise InputError(f"judge {self.name!r}: a share kept of {self.kept} is no collapse")

    @property
    def collapsed(self) -> bool:
        """Whether it collapses on `comply`."""
        return self.kept is not None

    @property
    def confusion(self) -> NDArray[np.float64]:
        """Chance of each label given the true class, (4, 4) in the order of `LABELS`."""
        matrix = ordinal_confusion(self.accuracy, self.severity)
        if self.kept is None:
            return matrix
        return collapse_confusion(matrix, COMPLY, kept=self.kept)


PANEL: Final = (
    SimulatedJudge("judge-1", 0.96, 0.5, missing=0.004, calls=3),
    SimulatedJudge("judge-2", 0.94, 0.3, missing=0.006),
    SimulatedJudge("judge-3", 0.91, 0.5, missing=0.012, kept=0.04),
    SimulatedJudge("judge-4", 0.93, 0.6, missing=0.010),
    SimulatedJudge("judge-5", 0.92, 0.4, missing=0.020, kept=0.08),
    SimulatedJudge("judge-6", 0.90, 0.2, missing=0.008),
    SimulatedJudge("judge-7", 0.95, 0.8, missing=0.005),
    SimulatedJudge("judge-8", 0.90, 0.6, missing=0.030, kept=0.15),
)
"""Eight judges of which three collapse on `comply` (9 of 223 verdicts stayed in the published case,
a share of .04)."""


def ordinal_confusion(accuracy: float, severity: float) -> NDArray[np.float64]:
    """Confusion matrix of a judge that errs between neighbouring classes.

    Parameters
    ----------
    accuracy
        Diagonal of the matrix, in (0, 1].
    severity
        Share of the errors on `evasive` responses that go to `refuse` (the rest go to `comply`).

    Returns
    -------
    ndarray
        (4, 4) rows: true class; columns: label; rows sum to 1. Up to .004 of each class is taken
        for gibberish, and errors on gibberish spread evenly.
    """
    leak = min(_GIBBERISH_LEAK, 1 - accuracy)
    error = 1 - accuracy - leak
    return np.array(
        [
            [accuracy, error, 0, leak],
            [error * severity, accuracy, error * (1 - severity), leak],
            [0, error, accuracy, leak],
            [*([(1 - accuracy) / 3] * 3), accuracy],
        ]
    )


def collapse_confusion(
    confusion: ArrayLike,
    label: int = COMPLY,
    *,
    kept: float = 0.04,
    moved_to: Sequence[float] = (1 - MOVED_TO_EVASIVE, MOVED_TO_EVASIVE, 0, 0),
) -> NDArray[np.float64]:
    """The judge after most of its verdicts of one class have moved elsewhere.

    Whatever the true class, a verdict `label` stays with chance `kept` and is otherwise replaced.
    The count of the class so falls to `kept` of what the judge would have given, which the
    collapse rule flags as soon as that is under a third of the largest count of any judge.

    Parameters
    ----------
    confusion
        Sound judge, (K, K), rows sum to 1.
    label
        Column that collapses.
    kept
        Share of its verdicts that stays, in [0, 1].
    moved_to
        Where the others go, (K,), sums to 1 and is 0 at `label`. Default: a published case in
        which 118 of 144 lost `comply` verdicts became `evasive`, the rest `refuse`.

    Returns
    -------
    ndarray
        (K, K), rows sum to 1.

    Raises
    ------
    InputError
        Where `kept` or `moved_to` is no share.

    Examples
    --------
    >>> collapse_confusion(np.eye(4), kept=0.04)[COMPLY].round(3).tolist()
    [0.173, 0.787, 0.04, 0.0]
    """
    matrix = check_confusion(confusion)
    moved = np.asarray(moved_to, dtype=np.float64)
    if not 0 <= kept <= 1:
        raise InputError(f"a share of {kept} verdicts cannot stay", fix="use a share in 0 to 1")
    if moved.shape != matrix.shape[1:] or abs(moved.sum() - 1) > 1e-9 or moved[label] != 0:
        raise InputError("the verdicts that move must be shared out among the other classes")
    return matrix + np.multiply.outer(matrix[:, label], (1 - kept) * (moved - _unit(moved, label)))


def _unit(like: NDArray[np.float64], index: int) -> NDArray[np.float64]:
    unit = np.zeros_like(like)
    unit[index] = 1
    return unit


def check_confusion(confusion: ArrayLike) -> NDArray[np.float64]:
    """The array itself, once its last two axes are known to be confusion matrices.

    Raises
    ------
    InputError
        Where a matrix is not square or a row is not a distribution.
    """
    matrix = np.array(confusion, dtype=np.float64)
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise InputError("a confusion matrix has as many rows (true classes) as columns (labels)")
    if not (matrix >= 0).all() or not np.allclose(matrix.sum(axis=-1), 1, atol=1e-9):
        raise InputError("each row of a confusion matrix holds shares that sum to 1")
    return matrix


def simulate_judges(
    true_labels: ArrayLike, confusion: ArrayLike, rng: np.random.Generator
) -> NDArray[np.int8]:
    """One verdict of each judge on each response, independent given the true class.

    Parameters
    ----------
    true_labels
        True class of each response as a code, (responses,).
    confusion
        Confusion matrices, (judges, K, K).
    rng
        Source of randomness.

    Returns
    -------
    ndarray
        Label codes, (responses, judges), int8.

    Examples
    --------
    >>> simulate_judges([0, 2, 1], [np.eye(3)], np.random.default_rng(0)).ravel().tolist()
    [0, 2, 1]
    """
    return simulate_calls(true_labels, confusion, rng)[..., 0]


def simulate_calls(
    true_labels: ArrayLike,
    confusion: ArrayLike,
    rng: np.random.Generator,
    *,
    calls: int = 1,
    steadiness: float = 0.0,
) -> NDArray[np.int8]:
    """Repeated verdicts of each judge on each response.

    Every call has the judge's confusion matrix as its marginal distribution. A later call repeats
    the first with chance `steadiness` and is otherwise drawn anew.

    Parameters
    ----------
    true_labels
        True class of each response as a code, (responses,).
    confusion
        Confusion matrices, (judges, K, K).
    rng
        Source of randomness.
    calls
        Calls a judge and response.
    steadiness
        Chance that a later call repeats the first outright, in [0, 1].

    Returns
    -------
    ndarray
        Label codes, (responses, judges, calls), int8.

    Raises
    ------
    InputError
        Where the matrices, the codes or a setting are out of range.
    """
    matrices = check_confusion(confusion)
    true = np.asarray(true_labels)
    if matrices.ndim != 3 or true.ndim != 1:
        raise InputError("give one true class a response and one confusion matrix a judge")
    if len(true) and not (true.min() >= 0 and true.max() < matrices.shape[-1]):
        raise InputError("a true class is no row of the confusion matrices")
    if calls < 1 or not 0 <= steadiness <= 1:
        raise InputError("calls must be at least 1 and steadiness in 0 to 1")
    # The last threshold is left out: rounding of a cumulative sum must not create a class.
    thresholds = matrices.cumsum(axis=-1)[:, true, :-1].transpose(2, 1, 0)
    draws = rng.random((len(true), len(matrices), calls))
    labels = np.zeros(draws.shape, dtype=np.int8)
    for threshold in thresholds:
        labels += draws >= threshold[..., None]
    if calls > 1 and steadiness > 0:
        repeats = rng.random((*labels.shape[:2], calls - 1)) < steadiness
        labels[..., 1:] = np.where(repeats, labels[..., :1], labels[..., 1:])
    return labels
