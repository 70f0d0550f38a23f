"""Prediction-powered inference (PPI++): a mean over all responses, from labels on some of them.

A judge read all responses, people a random part. The estimate is the judge's mean plus the mean
error found on the labelled part, each weighed by how much the judge is worth:

    mean of the labels + tuning * (judge's mean on the others - judge's mean on the labelled)

The tuning that makes the variance smallest is 0 for a useless judge, which leaves the mean of the
labels: help is never bought with bias. The intervals have t quantiles, and for yes/no labels
Wilson's form on the effective number of labels: the labels that would be worth as much without the
judge. A judge that made no error on a few labels may still make some, so half a response, less with
every error seen, is added to each cell behind the variance of its errors.

Sources: Angelopoulos, Duchi & Zrnic (2023), PPI++, arXiv 2311.01453, equations 2 and 6 (mean,
power tuning, clipped to [0, 1]); Cochran (1977), Sampling Techniques, section 12.6, the same as
double sampling with regression, and its finite population; Saerndal, Swensson & Wretman (1992),
Model Assisted Survey Sampling, chapter 6 (unequal probabilities); Dean & Pagano (2015), Journal of
Survey Statistics and Methodology 3, 484-503 (Wilson on effective sizes with t quantiles).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.judges.correction.effective_labels import (
    Population,
    PredictionPowered,
    Spread,
    rate_interval,
)
from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]

_UNSEEN: Final = 0.5


def prediction_powered(
    labelled: ArrayLike,
    others: ArrayLike,
    *,
    tuning: float | None = None,
    level: float = 0.95,
    population: Population = "sample",
) -> PredictionPowered:
    """Rates where a simple random part of the responses has been labelled.

    Parameters
    ----------
    labelled
        Labelled responses by the gold label and the judge's verdict, each 0 or 1 (over the
        boundary), shape ``(..., 2, 2)``.
    others
        The other responses by the judge's verdict, shape ``(..., 2)``.
    tuning
        Weight of the judge; None for the best.
    level
        Two-sided confidence in (0, 1).
    population
        ``sample``: the responses stand for more of their kind. ``fixed``: the rate of these very
        responses, with the finite-population correction; nothing is uncertain once all are
        labelled.

    Raises
    ------
    ValueError
        For an impossible level or shapes that do not fit.

    Examples
    --------
    >>> found = prediction_powered([[40, 5], [4, 51]], [200, 200])
    >>> [round(float(part), 3) for part in (found.estimate, found.lower, found.upper)]
    [0.511, 0.443, 0.578]
    >>> empty = prediction_powered([[19, 1], [0, 0]], [70, 10])
    >>> float(empty.estimate), round(float(empty.upper), 3), bool(empty.exact)
    (0.0, 0.168, True)
    """
    check_level(level)
    table, rest = np.asarray(labelled, np.float64), np.asarray(others, np.float64)
    if table.shape[-2:] != (2, 2) or rest.shape != table.shape[:-1]:
        msg = f"expected shapes (..., 2, 2) and (..., 2), got {table.shape} and {rest.shape}"
        raise ValueError(msg)
    n, unlabelled = table.sum((-2, -1)), rest.sum(-1)
    total = n + unlabelled
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = table / n[..., None, None]
        label, judged = shares[..., 1, :].sum(-1), shares[..., 1].sum(-1)
        together = shares[..., 1, 1] - label * judged
        overall = (table[..., 1].sum(-1) + rest[..., 1]) / total
        of_judge = overall * (1 - overall) * total / (total - 1)
        if tuning is None:
            weight = best_tuning(together * n / (n - 1), of_judge, n, unlabelled)
        else:
            weight = np.where(unlabelled > 0, float(tuning), 0.0)
        helped = weight > 0
        gap = np.where(helped, rest[..., 1] / unlabelled - judged, 0.0)
        used = np.where(helped & (tuning is None), 2, 1)
        # On a fixed set the errors count in full, and what the judge says of all is known.
        slope = weight * total / unlabelled if population == "fixed" else weight
        errors = error_variance(shares, np.where(helped, slope, 0.0), n) / (n - used)
        if population == "fixed":
            variance = (1 - n / total) * errors
        else:
            variance = errors + np.where(helped, weight**2 * of_judge / unlabelled, 0.0)
        spread = Spread(n, total, variance, label * (1 - label) * n / (n - 1), used)
        return rate_interval(label + weight * gap, label, weight, spread, level, population)


def best_tuning(together: Any, of_judge: Any, n: Any, unlabelled: Any) -> FloatArray:
    """The weight of least variance, in [0, 1]; 0 where the judge or the labels do not vary.

    With two labels there is nothing left to tell what the tuning costs.
    """
    weight = together / of_judge * unlabelled / (unlabelled + n)
    usable = (of_judge > 0) & (n > 2) & (unlabelled > 0) & np.isfinite(weight)
    found: FloatArray = np.where(usable, np.clip(np.where(usable, weight, 0.0), 0.0, 1.0), 0.0)
    return found


def error_variance(shares: FloatArray, slope: FloatArray, n: FloatArray) -> FloatArray:
    """Variance of label - slope * verdict over the cells, with errors that were not seen."""

    def variance(cells: FloatArray) -> FloatArray:
        whole = cells.sum((-2, -1))
        label, judged = cells[..., 1, :].sum(-1) / whole, cells[..., 1].sum(-1) / whole
        together = cells[..., 1, 1] / whole - label * judged
        found: FloatArray = np.asarray(
            label * (1 - label) - 2 * slope * together + slope**2 * judged * (1 - judged)
        )
        return found

    disagreements = n * (shares[..., 0, 1] + shares[..., 1, 0])
    unseen = _UNSEEN / (1 + disagreements)
    plain = variance(shares)
    smooth = variance(shares + (unseen / n)[..., None, None])
    return np.where(slope > 0, np.maximum(plain, smooth), plain)
