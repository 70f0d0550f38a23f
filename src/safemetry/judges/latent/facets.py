"""A logistic model with targets, items and judges, fitted on counts rather than columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    CodeArray = NDArray[np.int8]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

_STEPS: Final = 200
_TOLERANCE: Final = 1e-5
_LEAST_VARIANCE: Final = 0.01
_MOST_VARIANCE: Final = 25.0


@dataclass(frozen=True)
class FacetFit:
    """Estimates of the model on arrays.

    Parameters
    ----------
    mean
        Of the abilities.
    ability
        Around the mean, shape ``(T,)``.
    difficulty
        Shape ``(I,)``.
    severity
        Shape ``(J,)``, summing to 0.
    errors
        Of the severities, robust to clusters of items; None with one cluster.
    converged
        Whether the last step was small.
    """

    mean: float
    ability: FloatArray
    difficulty: FloatArray
    severity: FloatArray
    errors: FloatArray | None
    converged: bool


def facet_fit(
    outcome: CodeArray,
    target: IntArray,
    item: IntArray,
    cluster: IntArray,
    *,
    severities: bool = True,
) -> FacetFit:
    """Fit the model on arrays.

    Parameters
    ----------
    outcome
        1, 0 or -1 for no verdict, shape ``(R, J)``; every judge has both 0 and 1.
    target, item
        Codes of each response, shape ``(R,)``; -1 where unknown, which is a target of its own.
    cluster
        Independent unit of each item, codes >= 0, shape ``(R,)``.
    severities
        Whether judges differ.

    Source: Linacre (1989), chapter 3; variances by EM on a Laplace approximation: Stiratelli, Laird
    & Ware (1984), Biometrics 40, 961-971; robust errors: White (1982), Econometrica 50, 1-25.
    """
    from scipy import special

    seen = (outcome >= 0).any(axis=1)
    outcome = outcome[seen]
    (t, targets), (i, items) = _packed(target[seen]), _packed(item[seen])
    cells = _Cells(outcome, (t, i), (targets, items), severities=severities)
    head = np.zeros(1 + targets + cells.judges)
    head[0] = special.logit(np.clip(cells.rate, 1e-3, 1 - 1e-3))
    difficulty = np.zeros(items)
    variances = np.array([1.0, 1.0])
    converged = False
    for _ in range(_STEPS):
        step = cells.newton(head, difficulty, variances)
        # A long step from far away may overshoot; short ones are taken whole.
        largest = max(np.abs(step.head).max(), np.abs(step.difficulty).max(initial=0.0))
        size = min(1.0, 2.0 / largest) if largest > 0 else 1.0
        head = head + size * step.head
        difficulty = difficulty + size * step.difficulty
        ability = head[1 : 1 + targets]
        fresh = np.array(
            [
                np.mean(ability**2 + np.diag(step.inverse)[1 : 1 + targets]),
                np.mean(difficulty**2 + step.item_variance),
            ]
        ).clip(_LEAST_VARIANCE, _MOST_VARIANCE)
        converged = bool(largest < _TOLERANCE and np.abs(fresh / variances - 1).max() < 1e-4)
        variances = fresh
        if converged:
            break
    errors = cells.errors(head, difficulty, variances, cluster[seen]) if severities else None
    severity = head[1 + targets :] if severities else np.zeros(outcome.shape[1])
    ability, shift = head[1 : 1 + targets], severity.mean()
    return FacetFit(
        float(head[0] - shift), ability, difficulty, severity - shift, errors, converged
    )


def _packed(codes: IntArray) -> tuple[IntArray, int]:
    found, place = np.unique(codes, return_inverse=True)
    return place.reshape(-1).astype(np.int64), len(found)


@dataclass(frozen=True)
class _Step:
    head: FloatArray
    difficulty: FloatArray
    inverse: FloatArray
    item_variance: FloatArray


class _Cells:
    """Verdicts and sums over them; the head is the mean, the targets and the judges."""

    def __init__(
        self,
        outcome: CodeArray,
        place: tuple[IntArray, IntArray],
        counts: tuple[int, int],
        *,
        severities: bool,
    ) -> None:
        self.outcome, (self.t, self.i) = outcome, place
        (self.targets, self.items), self.severities = counts, severities
        self.judges = outcome.shape[1] if severities else 0
        self.rate = float((outcome == 1).sum() / max((outcome >= 0).sum(), 1))

    def terms(
        self, head: FloatArray, difficulty: FloatArray
    ) -> Iterator[tuple[int, IntArray, FloatArray, FloatArray]]:
        """For each judge: its verdicts' rows, residuals and weights."""
        from scipy import special

        base = head[0] + head[1 + self.t] - difficulty[self.i]
        for j in range(self.outcome.shape[1]):
            rows = np.flatnonzero(self.outcome[:, j] >= 0)
            severity = head[1 + self.targets + j] if self.severities else 0.0
            p = special.expit(base[rows] - severity)
            yield j, rows, self.outcome[rows, j] - p, p * (1 - p)

    def newton(self, head: FloatArray, difficulty: FloatArray, variances: FloatArray) -> _Step:
        from scipy import linalg, sparse

        width, first = len(head), 1 + self.targets
        slope, curve = np.zeros(width), np.zeros((width, width))
        response_slope, response_curve = np.zeros(len(self.t)), np.zeros(len(self.t))
        cross = np.zeros((width, self.items))
        for j, rows, away, weight in self.terms(head, difficulty):
            response_slope[rows] += away
            response_curve[rows] += weight
            if self.severities:
                place = first + j
                slope[place] = -away.sum()
                curve[place, place] = weight.sum()
                curve[0, place] = curve[place, 0] = -weight.sum()
                by_target = -np.bincount(self.t[rows], weight, self.targets)
                curve[1:first, place] = curve[place, 1:first] = by_target
                cross[place] = np.bincount(self.i[rows], weight, self.items)
        by_target = np.bincount(self.t, response_curve, self.targets)
        slope[0] = response_slope.sum()
        slope[1:first] = np.bincount(self.t, response_slope, self.targets)
        slope[1:first] -= head[1:first] / variances[0]
        curve[0, 0] = response_curve.sum()
        curve[0, 1:first] = curve[1:first, 0] = by_target
        diagonal = np.arange(1, first)
        curve[diagonal, diagonal] = by_target + 1 / variances[0]
        by_item = np.bincount(self.i, response_curve, self.items)
        cross[0] = -by_item
        shape = (self.targets, self.items)
        cross[1:first] = -sparse.coo_array((response_curve, (self.t, self.i)), shape).toarray()
        own = by_item + 1 / variances[1]
        item_slope = -np.bincount(self.i, response_slope, self.items) - difficulty / variances[1]
        reduced = curve - (cross / own) @ cross.T
        if self.severities:
            # Severities sum to 0: a constant in all of them is the mean's.
            reduced[first:, first:] += max(1.0, float(curve[0, 0])) / self.judges
            slope[first:] -= max(1.0, float(curve[0, 0])) / self.judges * head[first:].sum()
        inverse = np.asarray(linalg.pinvh(reduced))
        moved = inverse @ (slope - cross @ (item_slope / own))
        back = (item_slope - cross.T @ moved) / own
        spread = 1 / own + np.einsum("wi,wv,vi->i", cross, inverse, cross, optimize=True) / own**2
        self.last = (cross, own, inverse)
        return _Step(moved, back, inverse, spread)

    def errors(
        self, head: FloatArray, difficulty: FloatArray, variances: FloatArray, cluster: IntArray
    ) -> FloatArray | None:
        """Standard errors of the centred severities, from what clusters of items contribute."""
        units, place = np.unique(cluster, return_inverse=True)
        count = len(units)
        if count < 2:
            return None
        self.newton(head, difficulty, variances)
        cross, own, inverse = self.last
        first = 1 + self.targets
        score = np.zeros((count, len(head)))
        response = np.zeros(len(self.t))
        for j, rows, away, _ in self.terms(head, difficulty):
            response[rows] += away
            score[:, first + j] = -np.bincount(place[rows], away, count)
        score[:, 0] = np.bincount(place, response, count)
        key = place * self.targets + self.t
        score[:, 1:first] = np.bincount(key, response, count * self.targets).reshape(count, -1)
        of_item = np.zeros(self.items, np.int64)
        of_item[self.i] = place
        item_slope = -np.bincount(self.i, response, self.items) - difficulty / variances[1]
        taken = (cross * (item_slope / own)).T
        np.subtract.at(score, of_item, taken)
        moved = (score - score.mean(axis=0)) @ inverse[:, first:]
        moved -= moved.mean(axis=1, keepdims=True)
        found: FloatArray = np.sqrt((moved**2).sum(axis=0) * count / (count - 1))
        return found
