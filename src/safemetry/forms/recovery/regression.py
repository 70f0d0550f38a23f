"""Predicted scores brought to the scale of true ones, as far as the targets support it.

A form of informative items predicts with a bias that differs along the scale. Among calibration
targets the true full score is regressed on the predicted one: not at all, by a line, or by a
monotone curve. Which of the three is decided by cross-validation, so that a handful of targets
does not buy a curve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray

Kind = Literal["identity", "line", "monotone"]
KINDS: Final[tuple[Kind, ...]] = ("identity", "line", "monotone")
FOLDS: Final = 10
FEWEST_TARGETS: Final = 8
"""Targets under which predictions are left as they are."""

WORTH: Final = 0.95
"""A line or curve must bring the cross-validated squared error below this share of that of the
simpler choice; without it chance would choose the curve in about half of all forms."""


@dataclass(frozen=True)
class Recalibration:
    """A non-decreasing map from predicted to true full scores.

    Parameters
    ----------
    kind
        What was chosen.
    knots, values
        Predicted scores, increasing, and what they become, both shape ``(K,)``; K = 2 for a line.
        Between knots the map is linear; a line goes on beyond them, a curve goes on parallel to
        the identity.
    losses
        Cross-validated mean squared error of each kind that was tried.
    spread
        Root of the cross-validated mean squared error of the chosen kind; None for under two
        targets.
    """

    kind: Kind
    knots: FloatArray
    values: FloatArray
    losses: dict[str, float]
    spread: float | None

    def apply(self, predicted: FloatArray) -> FloatArray:
        """True scores expected at predicted ones, in [0, 1]; NaN stays."""
        if self.kind == "identity":
            return np.asarray(predicted, np.float64)
        if self.kind == "line":
            slope = (self.values[1] - self.values[0]) / (self.knots[1] - self.knots[0])
            found = self.values[0] + slope * (predicted - self.knots[0])
        else:
            inside = np.clip(predicted, self.knots[0], self.knots[-1])
            found = np.interp(inside, self.knots, self.values) + (predicted - inside)
        clipped: FloatArray = np.clip(found, 0.0, 1.0)
        return clipped

    def slope(self, predicted: FloatArray) -> FloatArray:
        """Derivative of the map, by a difference over .02; 1 for the identity."""
        if self.kind == "identity":
            return np.ones(np.shape(predicted))
        return (self.apply(predicted + 0.01) - self.apply(predicted - 0.01)) / 0.02


def fit_recalibration(
    predicted: FloatArray, truth: FloatArray, kinds: tuple[Kind, ...] = KINDS
) -> Recalibration:
    """Choose and fit the map from predicted to true scores.

    Parameters
    ----------
    predicted, truth
        Of calibration targets, shape ``(N,)``; best predicted by a calibration that had not seen
        the target. Pairs with a NaN are left out.
    kinds
        What may be chosen, the simplest first.

    Notes
    -----
    The line is least squares, and its errors are those of leaving one target out; the curve is
    isotonic regression (Barlow, Bartholomew, Bremner & Brunk 1972) through the centres of its
    blocks, with every tenth target left out in the order of the predictions.

    Raises
    ------
    InputError
        For shapes that differ.

    Examples
    --------
    >>> x = np.linspace(0.2, 0.8, 30)
    >>> found = fit_recalibration(x, 0.1 + 0.8 * x)
    >>> found.kind, found.apply(np.array([0.5])).round(3)
    ('line', array([0.5]))
    """
    if predicted.shape != truth.shape or predicted.ndim != 1:
        raise InputError("predicted and true scores are of the same targets")
    known = np.isfinite(predicted) & np.isfinite(truth)
    x, y = predicted[known], truth[known]
    if x.size < FEWEST_TARGETS or np.ptp(x) < 1e-9:
        loss = float(((y - x) ** 2).mean()) if x.size else 0.0
        spread = float(np.sqrt(loss)) if x.size > 1 else None
        return _identity({"identity": loss}, spread)
    losses: dict[str, float] = {}
    for kind in kinds:
        if kind == "identity":
            losses[kind] = float(((y - x) ** 2).mean())
        elif kind == "line":
            losses[kind] = _line_loss(x, y)
        else:
            losses[kind] = _curve_loss(x, y)
    chosen = kinds[0]
    for kind in kinds[1:]:
        if losses[kind] < WORTH * losses[chosen]:
            chosen = kind
    spread = float(np.sqrt(losses[chosen]))
    if chosen == "line":
        ends = np.array([x.min(), x.max()])
        slope, place = _line(x, y)
        return Recalibration("line", ends, place + slope * ends, losses, spread)
    if chosen == "monotone":
        return Recalibration("monotone", *_curve(x, y), losses, spread)
    return _identity(losses, spread)


def _identity(losses: dict[str, float], spread: float | None) -> Recalibration:
    ends = np.array([0.0, 1.0])
    return Recalibration("identity", ends, ends, losses, spread)


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Slope, not negative, and intercept."""
    apart = x - x.mean()
    slope = max(float(apart @ y / (apart @ apart)), 0.0)
    return slope, float(y.mean() - slope * x.mean())


def _line_loss(x: FloatArray, y: FloatArray) -> float:
    """Mean squared error of leaving one out (Allen 1974, PRESS)."""
    slope, place = _line(x, y)
    apart = x - x.mean()
    leverage = 1 / x.size + apart**2 / (apart @ apart)
    left = (y - place - slope * x) / np.maximum(1 - leverage, 1e-9)
    return float((left**2).mean())


def _curve(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    order = np.argsort(x, kind="stable")
    fitted = isotonic_regression(y[order])
    blocks = np.repeat(np.arange(len(fitted.weights)), np.diff(fitted.blocks))
    size = np.bincount(blocks)
    knots = np.bincount(blocks, weights=x[order]) / size
    values = np.bincount(blocks, weights=y[order]) / size
    kept = np.append(np.diff(knots) > 1e-12, True)
    return knots[kept], values[kept]


def _curve_loss(x: FloatArray, y: FloatArray) -> float:
    rank = np.argsort(np.argsort(x, kind="stable"), kind="stable")
    left = np.empty(x.size)
    for fold in range(min(FOLDS, x.size)):
        out = rank % FOLDS == fold
        knots, values = _curve(x[~out], y[~out])
        left[out] = y[out] - Recalibration("monotone", knots, values, {}, None).apply(x[out])
    return float((left**2).mean())
