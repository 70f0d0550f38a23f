"""Where the optimiser moves: working coordinates and their bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from safemetry.irt.parameters import (
    BoolArray,
    FloatArray,
    IntArray,
    ItemModel,
    ItemParameters,
)

STEEPEST = 20.0
"""Largest slope in size; responses that separate perfectly would drive it to infinity."""

FLATTEST = 1e-3
"""Smallest slope where slopes must be positive."""

FARTHEST = 200.0
"""Largest intercept in size."""

LEAST_LOGIT, LARGEST_LOGIT = -13.0, 3.0
"""Bounds of logit g (2e-6 and .95); those of logit u are their negatives."""

NARROWEST_GAP = 1e-3
"""Smallest distance between two thresholds of a graded item."""

TIED = (ItemModel.RASCH, ItemModel.ONE_PL)


@dataclass(frozen=True)
class Layout:
    """How the parameters of J items lie in an array of shape ``(P, J)``.

    Rows: a (or log a, if `logarithmic`), the intercepts, and the logits of asymptotes.

    Parameters
    ----------
    model
        Item model.
    categories
        Of each item, shape ``(J,)``.
    logarithmic
        Whether the first row holds log a.
    signed
        Whether slopes may be negative.
    """

    model: ItemModel
    categories: IntArray
    logarithmic: bool
    signed: bool

    @property
    def steps(self) -> int:
        """Rows of intercepts."""
        return int(self.categories.max()) - 1 if self.model is ItemModel.GRADED else 1

    @property
    def rows(self) -> int:
        """P."""
        asymptotes = {ItemModel.THREE_PL: 1, ItemModel.FOUR_PL: 2}.get(self.model, 0)
        return 1 + self.steps + asymptotes

    @property
    def tied(self) -> bool:
        """Whether all items share one slope."""
        return self.model in TIED

    @property
    def exists(self) -> BoolArray:
        """Which entries are parameters, shape ``(P, J)``."""
        found = np.ones((self.rows, self.categories.size), bool)
        if self.model is ItemModel.GRADED:
            found[1:] = np.arange(1, self.rows)[:, None] < self.categories
        return found

    @property
    def parameter_count(self) -> int:
        """Number of free parameters."""
        count = int(self.exists.sum())
        return count - self.categories.size + 1 if self.tied else count

    def natural(self, working: FloatArray) -> FloatArray:
        """The same array with a in its first row."""
        if not self.logarithmic:
            return working
        found = working.copy()
        found[0] = np.exp(working[0])
        return found

    def to_working(
        self, gradient: FloatArray, information: FloatArray, natural: FloatArray, *, exact: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient and information by log a instead of a.

        By log a there is another term of curvature, a dL/da, which vanishes where there is no
        prior. Without `exact` it only adds, so that the information is never negative.
        """
        if not self.logarithmic:
            return gradient, information
        slope = natural[0]
        gradient, information = gradient.copy(), information.copy()
        gradient[0] *= slope
        information[0] *= slope
        information[:, 0] *= slope
        curved = information[0, 0] - gradient[0]
        information[0, 0] = curved if exact else np.maximum(curved, information[0, 0])
        return gradient, information

    def moved(self, working: FloatArray, shift: float, log_scale: float) -> FloatArray:
        """Items for abilities z, where theta = shift + exp(log_scale) z is what they were for."""
        found = working.copy()
        found[1 : 1 + self.steps] += self.natural(working)[0] * shift
        if self.logarithmic:
            found[0] += log_scale
        else:
            found[0] *= np.exp(log_scale)
        return self.clipped(found)

    def clipped(self, working: FloatArray) -> FloatArray:
        """The nearest array within bounds."""
        low, high = self.bounds()
        return np.clip(working, low, high)

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds, shape ``(P, 1)``."""
        low, high = np.full((self.rows, 1), -FARTHEST), np.full((self.rows, 1), FARTHEST)
        if self.logarithmic:
            low[0], high[0] = np.log(FLATTEST), np.log(STEEPEST)
        else:
            low[0], high[0] = (-STEEPEST if self.signed else FLATTEST), STEEPEST
        for row, sign in zip(range(1 + self.steps, self.rows), (1.0, -1.0), strict=False):
            ends = sign * LEAST_LOGIT, sign * LARGEST_LOGIT
            low[row], high[row] = min(ends), max(ends)
        return low, high

    def longest_step(self, working: FloatArray, step: FloatArray) -> FloatArray:
        """Share of a step that stays in reach and keeps thresholds in order, shape ``(J,)``."""
        limit = np.full((self.rows, 1), 2.0)
        limit[0] = 1.0
        share = 1 / np.maximum(1.0, (np.abs(step) / limit).max(axis=0))
        if self.steps > 1:
            gap = working[1:-1] - working[2:]
            closing = step[2:] - step[1:-1]
            tight = np.where(self.exists[2:] & (closing > 0), closing, 1e-300)
            allowed = np.where(tight > 1e-290, 0.8 * (gap - NARROWEST_GAP) / tight, 1.0)
            share = np.minimum(share, np.clip(allowed.min(axis=0), 0.0, 1.0))
        found: FloatArray = share
        return found

    def flatten(self, entries: FloatArray) -> FloatArray:
        """Free parameters of ``(..., P, J)`` as ``(..., number of parameters)``.

        Tied slopes come first, as the sum over items (right for gradients and scores).
        """
        if not self.tied:
            exists = self.exists
            if exists.all():
                return entries.reshape(*entries.shape[:-2], exists.size)
            untied: FloatArray = entries[..., exists]
            return untied
        first = entries[..., 0, :].sum(axis=-1, keepdims=True)
        tied: FloatArray = np.concatenate([first, entries[..., 1, :]], axis=-1)
        return tied

    def spread(self, flat: FloatArray) -> FloatArray:
        """An array ``(P, J)`` from free parameters, the inverse of `flatten` for steps."""
        found = np.zeros(self.exists.shape)
        if self.tied:
            found[0], found[1] = flat[0], flat[1:]
        else:
            found[self.exists] = flat
        return found

    def parameters(self, working: FloatArray) -> ItemParameters:
        """As the public object."""
        natural = self.natural(working)
        intercepts = np.where(self.exists[1 : 1 + self.steps], natural[1 : 1 + self.steps], -np.inf)
        count = natural.shape[1]
        after = 1 + self.steps
        lower = expit(natural[after]) if self.rows > after else np.zeros(count)
        upper = expit(natural[after + 1]) if self.rows > after + 1 else np.ones(count)
        return ItemParameters(natural[:1].T.copy(), intercepts.T.copy(), lower, upper)

    def working(self, parameters: ItemParameters, latent_sd: float = 1.0) -> FloatArray:
        """From the public object."""
        found = np.zeros(self.exists.shape)
        slopes = parameters.slopes[:, 0] * latent_sd
        if self.tied:
            slopes = np.full_like(slopes, slopes.mean())
        found[0] = np.log(np.maximum(slopes, FLATTEST)) if self.logarithmic else slopes
        held = parameters.intercepts.T[: self.steps]
        found[1 : 1 + self.steps] = np.where(np.isfinite(held), held, 0.0)
        if self.rows > 1 + self.steps:
            found[1 + self.steps] = logit(np.clip(parameters.lower, 1e-3, 0.9))
        if self.rows > 2 + self.steps:
            found[2 + self.steps] = logit(np.clip(parameters.upper, 0.1, 1 - 1e-3))
        return self.clipped(found)
