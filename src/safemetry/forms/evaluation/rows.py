"""Rows of an evaluation: a method, a budget and a recovery, over all splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from scipy.stats import t

from safemetry.forms.evaluation.figures import FIGURES, figures_of
from safemetry.forms.evaluation.settings import RANDOM, RECOVERIES, EvaluationSettings
from safemetry.irt.parameters import FloatArray

_RMSE: Final = FIGURES.index("rmse")


@dataclass(frozen=True)
class RandomBand:
    """Error of random forms of the same length, quotas and recovery.

    Parameters
    ----------
    mean
        Of their root mean squared errors, over sets and splits.
    low, high
        Their 5th and 95th percentile within a split, mean over splits.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationRow:
    """How well one kind of form recovers full scores of held-out targets.

    Parameters
    ----------
    items
        Of the form.
    method, recovery
        How its items were chosen, and how the score is read from it.
    rmse, mae, bias
        Of recovered less true scores, as fractions; mean over splits.
    bias_low, bias_high
        Bias for the fifth of the held-out targets with the lowest and highest true scores.
    spearman
        Rank correlation of recovered with true scores among the held-out targets.
    sd
        Standard deviation of the rmse over splits (for random forms, of their mean rmse).
    splits
        In which the form could be made.
    random_rmse
        Of random forms.
    coverage
        Share of held-out targets whose true score lies in the interval of the recovered one; None
        for random forms.
    why
        Why a field is None.
    """

    items: int
    method: str
    recovery: str
    rmse: float
    mae: float
    bias: float
    bias_low: float
    bias_high: float
    spearman: float | None
    sd: float | None
    splits: int
    random_rmse: RandomBand
    coverage: float | None
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RandomCatch:
    """From which budget on random items do as well as a method.

    Parameters
    ----------
    method, recovery
        Whose error is compared.
    items
        Smallest budget from which, at it and all larger ones, the mean error of random forms is
        within the setting's share of the method's; None where there is none.
    why
        Why that is None.
    """

    method: str
    recovery: str
    items: int | None
    why: Mapping[str, str] = field(default_factory=dict)


def rows_of(
    results: Sequence[Mapping[str, Any]], settings: EvaluationSettings, calibration: int
) -> tuple[EvaluationRow, ...]:
    """Rows from the results of `evaluate_split`.

    Parameters
    ----------
    results
        One for each split.
    settings
        Of the evaluation.
    calibration
        Calibration targets in a split, for the intervals.
    """
    found = []
    wide = float(t.ppf(0.5 + settings.level / 2, max(calibration - 1, 1)))
    for spot, budget in enumerate(settings.budgets):
        for number, recovery in enumerate(RECOVERIES):
            random = np.stack([result["random"][spot, number] for result in results])
            made = np.isfinite(random[:, :, _RMSE]).all(axis=1)
            if not made.any():
                continue
            band = _band(random[made, :, _RMSE])
            for place, method in enumerate(settings.methods):
                figures, covered = [], []
                for result in results:
                    predicted = result["predicted"][place, spot, number]
                    if np.isfinite(predicted).all():
                        truth, error = result["truth"], result["errors"][place, spot, number]
                        figures.append(figures_of(predicted, truth))
                        covered.append((np.abs(predicted - truth) <= wide * error + 1e-9).mean())
                if figures:
                    row = _row(budget, method, recovery, np.array(figures), band)
                    found.append(_with_coverage(row, float(np.mean(covered))))
            with np.errstate(invalid="ignore"):
                middle = np.array([_known_mean(split) for split in random[made]])
            found.append(_row(budget, RANDOM, recovery, middle, band))
    return tuple(found)


def random_catches(rows: Sequence[EvaluationRow], within: float = 0.05) -> tuple[RandomCatch, ...]:
    """For each method and recovery, the budget from which random items are as good.

    Parameters
    ----------
    rows
        Of an evaluation.
    within
        Share by which the error of random forms may exceed that of the method.
    """
    found = []
    pairs = dict.fromkeys((row.method, row.recovery) for row in rows if row.method != RANDOM)
    for method, recovery in pairs:
        own = sorted(
            (row for row in rows if (row.method, row.recovery) == (method, recovery)),
            key=lambda row: row.items,
        )
        caught = None
        for row in reversed(own):
            if row.random_rmse.mean > (1 + within) * row.rmse:
                break
            caught = row.items
        why = {} if caught is not None else {"items": _never(own[-1].items, within)}
        found.append(RandomCatch(method, recovery, caught, why))
    return tuple(found)


def _never(budget: int, within: float) -> str:
    return f"random items are more than {within:.0%} worse even at {budget} items"


def _band(values: FloatArray) -> RandomBand:
    low, high = np.percentile(values, [5, 95], axis=1).mean(axis=1)
    return RandomBand(float(values.mean()), float(low), float(high))


def _known_mean(values: FloatArray) -> FloatArray:
    """Mean over the first axis of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    found: FloatArray = np.where(
        known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan
    )
    return found


def _row(
    budget: int, method: str, recovery: str, figures: FloatArray, band: RandomBand
) -> EvaluationRow:
    middle = dict(zip(FIGURES, _known_mean(figures).tolist(), strict=True))
    why = {}
    spearman: float | None = middle.pop("spearman")
    if spearman is None or not np.isfinite(spearman):
        spearman, why["spearman"] = None, "the scores do not differ in any split"
    sd: float | None = None
    if len(figures) > 1:
        sd = float(figures[:, _RMSE].std(ddof=1))
    else:
        why["sd"] = "one split has no spread"
    if method == RANDOM:
        why["coverage"] = "intervals are made for chosen forms"
    return EvaluationRow(
        items=budget,
        method=method,
        recovery=recovery,
        **middle,
        spearman=spearman,
        sd=sd,
        splits=len(figures),
        random_rmse=band,
        coverage=None,
        why=why,
    )


def _with_coverage(row: EvaluationRow, coverage: float) -> EvaluationRow:
    return replace(row, coverage=coverage)
