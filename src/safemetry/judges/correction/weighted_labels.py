"""Prediction-powered inference from rows: unequal sampling probabilities and clusters.

The same estimate as in `prediction_powered`, for responses that did not all have the same chance
to be labelled, or that stand or fall together. Each response has an influence on the estimate; its
variance is the sum of the squared influences of clusters.

Sources: Hajek (1971), in Godambe & Sprott, Foundations of Statistical Inference, p. 236 (weights);
Saerndal, Swensson & Wretman (1992), Model Assisted Survey Sampling, sections 5.5 and 6.5;
Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv 2311.01453, equations 2 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.judges.correction.effective_labels import (
    Population,
    PredictionPowered,
    Spread,
    mean_interval,
    rate_interval,
)
from safemetry.judges.correction.prediction_powered import best_tuning, error_variance
from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    BoolArray = NDArray[np.bool_]
    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]


def _codes(cluster: ArrayLike | None, rows: int) -> IntArray:
    """Clusters as codes from 0; codes that are dense enough stay as they are, which is quick."""
    if cluster is None:
        return np.arange(rows)
    given = np.asarray(cluster)
    if given.dtype.kind in "iu" and (not rows or (given.min() >= 0 and given.max() < 2 * rows)):
        return given.astype(np.int64, copy=False)
    found: IntArray = np.unique(given, return_inverse=True)[1].reshape(-1)
    return found


@dataclass(frozen=True)
class LabelledRows:
    """Responses, some of them labelled; arrays of shape ``(R,)``.

    Parameters
    ----------
    gold
        0 where there is no label.
    judged
        What the judge said.
    known
        Whether there is a label.
    share
        Weight of each label, with sum 1; 0 where there is none.
    unlabelled
        1 - probability of a label.
    unit
        Cluster, codes from 0.
    simple
        Whether all had the same chance.
    """

    gold: FloatArray
    judged: FloatArray
    known: BoolArray
    share: FloatArray
    unlabelled: FloatArray
    unit: IntArray
    simple: bool

    @property
    def labels(self) -> float:
        """Number of labels."""
        return float(self.known.sum())

    @property
    def total(self) -> float:
        """Number of responses."""
        return float(len(self.known))

    @property
    def groups(self) -> float:
        """Number of clusters with a label."""
        return float(np.count_nonzero(np.bincount(self.unit[self.known])))

    @property
    def size(self) -> float:
        """Independent labels of equal weight that are worth as much, at least.

        Kish's number where no cluster has two labels, else the number of clusters.
        """
        kish = 1 / float(self.share @ self.share)
        return kish if self.groups == self.labels else min(kish, self.groups)


def labelled_rows(
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    probability: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
) -> LabelledRows:
    """Check rows and weigh the labels.

    Parameters
    ----------
    labels
        Shape ``(R,)``; NaN where a response is not labelled.
    predictions, probability, cluster
        As in `prediction_powered_mean`.

    Raises
    ------
    ValueError
        For shapes that do not fit, or impossible probabilities or predictions.
    """
    y, f = np.asarray(labels, np.float64), np.asarray(predictions, np.float64)
    if y.ndim != 1 or y.shape != f.shape or not np.isfinite(f).all() or np.isinf(y).any():
        msg = "labels and predictions are rows of one shape, and every prediction is finite"
        raise ValueError(msg)
    known = ~np.isnan(y)
    chance = np.full_like(y, known.mean() if len(y) else 0.0)
    if probability is not None:
        chance = np.asarray(probability, np.float64)
        usable = chance.shape == y.shape and bool(
            ((chance[known] > 0) & (chance[known] <= 1)).all()
        )
        if not usable:
            msg = "probabilities have one row a response and lie in (0, 1] where it is labelled"
            raise ValueError(msg)
    inverse = np.where(known, 1 / np.where(known, chance, 1.0), 0.0)
    whole = inverse.sum()
    return LabelledRows(
        gold=np.where(known, y, 0.0),
        judged=f,
        known=known,
        share=inverse / whole if whole else inverse,
        unlabelled=np.where(known, 1 - chance, 0.0),
        unit=_codes(cluster, len(y)),
        simple=probability is None,
    )


def prediction_powered_mean(
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    probability: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    tuning: float | None = None,
    level: float = 0.95,
    population: Population = "sample",
    binary: bool | None = None,
) -> PredictionPowered:
    """One mean from rows, with known sampling probabilities and clusters.

    Parameters
    ----------
    labels
        Gold values, shape ``(R,)``; NaN where a response is not labelled.
    predictions
        Of the judge for every response, shape ``(R,)``.
    probability
        With which each response was chosen to be labelled, shape ``(R,)``, in (0, 1] where it is
        labelled; None for a simple random part. The weight of a label is its inverse over the sum
        of these (Hajek).
    cluster
        Whole numbers, shape ``(R,)``: responses that stand or fall together. Without effect on a
        fixed set, where chance lies in the choice of labels only.
    tuning, level, population
        As in `prediction_powered`.
    binary
        Whether the labels are yes/no, which decides the form of the interval (Wilson's, else the
        symmetric one); by default found from labels and predictions.

    Raises
    ------
    ValueError
        For shapes that do not fit, impossible probabilities, predictions or level.

    Examples
    --------
    >>> found = prediction_powered_mean([1, 3, 2, np.nan], [1, 3, 2, 4], tuning=0)
    >>> [round(float(part), 2) for part in (found.estimate, found.lower, found.upper)]
    [2.0, -0.48, 4.48]
    """
    check_level(level)
    units = None if population == "fixed" else cluster
    rows = labelled_rows(labels, predictions, probability=probability, cluster=units)
    if binary is None:
        values = (rows.gold[rows.known], rows.judged)
        binary = all(bool(((part == 0) | (part == 1)).all()) for part in values)
    if not rows.labels:
        nothing, none = np.array(np.nan), np.array(0.0)
        return PredictionPowered(nothing, nothing, nothing, none, none, np.array(0, bool))
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate, weight, spread = _estimated(rows, tuning, population, binary=binary)
    if binary:
        mean = np.asarray(rows.share @ rows.gold)
        return rate_interval(estimate, mean, weight, spread, level, population)
    known = rows.labels == rows.total and population == "fixed"
    return mean_interval(estimate, weight, spread, level, is_known=known)


def _estimated(
    rows: LabelledRows, tuning: float | None, population: Population, *, binary: bool
) -> tuple[FloatArray, FloatArray, Spread]:
    n, total = np.float64(rows.labels), np.float64(rows.total)
    label, judged = rows.share @ rows.gold, rows.share @ rows.judged
    together = rows.share @ (rows.gold * rows.judged) - label * judged
    of_judge = rows.judged.var() * total / (total - 1)
    rest = total - n
    if tuning is None:
        weight = float(best_tuning(together * n / (n - 1), of_judge, n, rest))
    else:
        weight = float(tuning) if rest else 0.0
    used = 2.0 if weight and tuning is None else 1.0
    slope = float(weight * total / rest) if weight else 0.0
    # A part chosen with unequal chances leaves a rest that is not like the whole: there the judge's
    # mean is that of all responses, which differs from that of the rest by the factor rest / total.
    if rows.simple:
        reach, coefficient = np.where(rows.known, 0.0, 1 / rest if rest else 0.0), weight
    else:
        reach, coefficient = np.full(len(rows.known), 1 / total), slope
    if rows.simple and population == "sample":
        slope = weight
    judge_mean = reach @ rows.judged
    estimate = label + (coefficient * (judge_mean - judged) if weight else 0.0)
    own = rows.share * (rows.gold - slope * rows.judged - (label - slope * judged))
    if population == "fixed":
        variance = (rows.unlabelled * own) @ own * n / (n - used)
        left = float(rows.unlabelled[rows.known].mean())
    else:
        ours = np.bincount(rows.unit, own)
        theirs = np.bincount(rows.unit, coefficient * reach * (rows.judged - judge_mean))
        groups = np.float64(rows.groups)
        variance = ours @ ours * groups / (groups - used) + (2 * ours + theirs) @ theirs
        left = 1.0
    size = rows.size
    if binary and weight:
        variance += left * _unseen(rows, slope, own, size) / max(size - used, 1.0)
    moment = rows.share @ (rows.gold - label) ** 2 * n / (n - 1)
    spread = Spread(*(np.asarray(part) for part in (size, total, variance, moment, used)))
    return np.asarray(estimate), np.asarray(weight), spread


def _cells(rows: LabelledRows) -> FloatArray:
    """Share of the labels by gold label and verdict, each 0 or 1; shape ``(2, 2)``."""
    place = 2 * rows.gold[rows.known] + rows.judged[rows.known]
    found = np.bincount(place.astype(np.int64), rows.share[rows.known], minlength=4)
    return found.astype(np.float64).reshape(2, 2)


def _unseen(rows: LabelledRows, slope: float, own: FloatArray, size: float) -> float:
    """What errors that the labels do not show add to the variance of one label."""
    seen = own @ (own / np.where(rows.known, rows.share, 1.0))
    smooth = error_variance(_cells(rows), np.asarray(slope), np.asarray(size))
    return max(float(smooth - seen), 0.0)


def effective_counts(rows: LabelledRows) -> tuple[FloatArray, FloatArray]:
    """Tables for `rogan_gladen` that carry as much as weighted or clustered yes/no labels do.

    All counts are divided by one design effect: the variance of the corrected rate from the
    influences of clusters, over that of as many separate labels of equal weight.

    Returns
    -------
    Labelled responses by gold label and verdict ``(2, 2)``, the others by verdict ``(2,)``.

    Source: Kish (1965), Survey Sampling, section 8.2 (design effects of any statistic).
    """
    shares = _cells(rows)
    n, total = rows.labels, rows.total
    rate = float(rows.judged.mean())
    positives, negatives = shares[1].sum(), shares[0].sum()
    effect = 1.0
    if positives > 0 and negatives > 0:
        s, c = shares[1, 1] / positives, shares[0, 0] / negatives
        youden = s + c - 1
        p = min(max((rate + c - 1) / youden, 0.0), 1.0) if youden > 0 else rate
        error = np.where(
            rows.gold == 1,
            -p * (rows.judged - s) / positives,
            (1 - p) * (1 - rows.judged - c) / negatives,
        )
        reach = (rows.judged - rate) / total + rows.share * error
        sums = np.bincount(rows.unit, reach)
        of_accuracy = p**2 * s * (1 - s) / positives + (1 - p) ** 2 * c * (1 - c) / negatives
        separate = rate * (1 - rate) / total + (1 - 2 * n / total) * of_accuracy / n
        effect = max(float(sums @ sums) / separate, 1.0) if separate > 0 else 1.0
    table = shares * n / effect
    return table, total * np.array([1 - rate, rate]) / effect - table.sum(0)
