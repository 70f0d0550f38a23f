"""Full scores of held-out targets recovered from forms; all that is fitted is fitted elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.forms.evaluation.settings import RECOVERIES
from safemetry.forms.recovery.expectation import (
    ExpectedScores,
    expected_full_scores,
    expected_own_scores,
    form_means,
    own_means,
)
from safemetry.forms.recovery.linear import (
    Known,
    blend_share,
    known_targets,
    linear_own_scores,
    linear_scores,
)
from safemetry.forms.recovery.mixture import mixed, mixture_weight
from safemetry.forms.recovery.regression import fit_recalibration
from safemetry.forms.recovery.table import ScoreTable, outcomes
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

_SMALLEST_ERROR: Final = 1e-6


@dataclass(frozen=True)
class Sides:
    """The two sides of a split of the targets, and the calibrations that read them.

    Parameters
    ----------
    held, calibration
        Responses of held-out and of calibration targets to J items, shape ``(N, J)``.
    held_counted, calibration_counted
        Items that the full score of each target is over.
    truth
        Full scores of the calibration targets; NaN for a target that answered nothing.
    table
        Of a calibration on all calibration targets, which reads the held-out ones.
    fold_tables, folds
        Of calibrations that left a fold of the calibration targets out, and the fold of each.
    """

    held: Codes
    held_counted: BoolArray
    calibration: Codes
    calibration_counted: BoolArray
    truth: FloatArray
    table: ScoreTable
    fold_tables: tuple[ScoreTable, ...]
    folds: IntArray

    @property
    def outcome_variance(self) -> float:
        """Variance of the outcomes within a calibration target, mean over targets."""
        scores = outcomes(self.calibration, self.table.highest)
        seen = self.calibration_counted.astype(np.float64)
        count = np.maximum(seen.sum(axis=1), 1)
        middle = (scores * seen).sum(axis=1) / count
        return float((((scores - middle[:, None]) ** 2 * seen).sum(axis=1) / count).mean())

    @cached_property
    def known(self) -> Known:
        """The calibration targets for linear predictions."""
        return self._known(self.table, np.ones(len(self.truth), bool))

    def _known(self, table: ScoreTable, rows: BoolArray) -> Known:
        noise = table.variance @ table.weights
        return known_targets(self.calibration[rows], table.highest, self.truth[rows], noise)

    def predict_shared(
        self,
        forms: IntArray,
        weights: FloatArray | None = None,
        fold_forms: tuple[IntArray, ...] | None = None,
    ) -> Recovered:
        """Held-out scores from forms ``(F, L)`` that all targets take.

        Parameters
        ----------
        forms
            Positions of items, -1 where a form is shorter.
        weights
            Of the items in a mean, shape ``(F, L)``; equal by default.
        fold_forms
            Where the choice of the items leans on the scores of the calibration targets, the forms
            that were chosen without each fold, shapes ``(F, L)``: only these say how good such a
            choice is for targets that it has not seen.
        """
        shares = np.where(forms >= 0, 1.0 if weights is None else weights, 0.0)
        highest = self.table.highest
        held = expected_full_scores(self.table, self.held, forms, self.held_counted)
        others = self.known.of(self.held, highest)
        linear = np.empty_like(held.scores), np.full((len(forms), len(self.truth)), np.nan)
        kept = np.isfinite(self.truth)
        for place, form in enumerate(forms):
            found = linear_scores(self.known, form[form >= 0], others)
            linear[0][place], linear[1][place, kept] = found
        own_means = form_means(self.calibration, highest, forms, shares)
        if fold_forms is not None:
            self._fill_folds(fold_forms, linear[1], own_means)
        used = fold_forms or (forms,) * len(self.fold_tables)

        def read(fold: int, rows: BoolArray) -> ExpectedScores:
            table, counted = self.fold_tables[fold], self.calibration_counted[rows]
            return expected_full_scores(table, self.calibration[rows], used[fold], counted)

        known = self._by_fold(len(forms), read)
        means = form_means(self.held, highest, forms, shares), own_means
        return self._recovered(held, known, means, linear, shares)

    def _fill_folds(
        self, fold_forms: tuple[IntArray, ...], linear: FloatArray, means: FloatArray
    ) -> None:
        """Linear predictions and means of each fold from the forms chosen without it."""
        for fold, forms in enumerate(fold_forms):
            rows = self.folds == fold
            without = self._known(self.fold_tables[fold], ~rows)
            others = without.of(self.calibration[rows], self.table.highest)
            for place, form in enumerate(forms):
                linear[place, rows] = linear_scores(without, form[form >= 0], others)[0]
            means[:, rows] = form_means(self.calibration[rows], self.table.highest, forms)

    def predict_own(self, held_items: IntArray, calibration_items: IntArray) -> Recovered:
        """Held-out scores from items ``(N, T)`` that each target took of its own.

        Parameters
        ----------
        held_items, calibration_items
            Positions, -1 after the last; those of a calibration target were chosen by the
            calibration that left it out.
        """
        held = expected_own_scores(self.table, self.held, held_items, self.held_counted)

        def read(fold: int, rows: BoolArray) -> ExpectedScores:
            table, counted = self.fold_tables[fold], self.calibration_counted[rows]
            items = calibration_items[rows]
            return expected_own_scores(table, self.calibration[rows], items, counted)

        known = self._by_fold(1, read)
        highest = self.table.highest
        means = (
            own_means(self.held, highest, held_items),
            own_means(self.calibration, highest, calibration_items),
        )
        linear = np.empty_like(held.scores), np.empty_like(known.scores)
        others = self.known.of(self.held, highest)
        linear[0][0] = linear_own_scores(self.known, held_items, others)
        for fold, table in enumerate(self.fold_tables):
            rows = self.folds == fold
            without = self._known(table, ~rows)
            own = without.of(self.calibration[rows], highest)
            linear[1][0, rows] = linear_own_scores(without, calibration_items[rows], own)
        return self._recovered(held, known, means, linear, np.ones((1, held_items.shape[1])))

    def _by_fold(
        self, forms: int, read: Callable[[int, BoolArray], ExpectedScores]
    ) -> ExpectedScores:
        shape = (forms, len(self.calibration))
        found = ExpectedScores(np.empty(shape), np.empty(shape), np.empty(shape))
        for fold in range(len(self.fold_tables)):
            rows = self.folds == fold
            part = read(fold, rows)
            found.scores[:, rows], found.errors[:, rows] = part.scores, part.errors
            found.abilities[:, rows] = part.abilities
        return found

    def _recovered(
        self,
        held: ExpectedScores,
        known: ExpectedScores,
        means: tuple[FloatArray, FloatArray],
        linear: tuple[FloatArray, FloatArray],
        weights: FloatArray,
    ) -> Recovered:
        """All recoveries from expectations, means and linear predictions of both sides."""
        forms, size = held.scores.shape
        scores = np.empty((len(RECOVERIES), forms, size))
        errors = np.empty_like(scores)
        variance, truth = self.outcome_variance, self.truth
        for form in range(forms):
            expected, guessed = held.scores[form], known.scores[form]
            mean, own_mean = means[0][form], means[1][form]
            line = fit_recalibration(guessed, truth)
            spread, mean_spread = _error(guessed - truth), _error(own_mean - truth)
            share = mixture_weight(spread, variance, weights[form], mean_error=mean_spread)
            mixture_spread = _error(mixed(own_mean, guessed, share) - truth)
            straight, own_straight = linear[0][form], linear[1][form]
            part = blend_share(own_straight, guessed, truth)
            own_blend = part * own_straight + (1 - part) * guessed
            scores[:, form] = (
                expected,
                line.apply(expected),
                part * straight + (1 - part) * expected,
                mixed(mean, expected, share),
                np.where(np.isfinite(mean), mean, np.nanmean(truth)),
            )
            blend_spread = _error(own_blend - truth)
            spreads = (spread, line.spread or spread, blend_spread, mixture_spread, mean_spread)
            typical = np.sqrt((known.errors[form] ** 2).mean())
            shape = held.errors[form] / max(typical, _SMALLEST_ERROR)
            errors[:, form] = np.array(spreads)[:, None] * shape
        return Recovered(scores, errors)


@dataclass(frozen=True)
class Recovered:
    """Recovered scores of held-out targets.

    Parameters
    ----------
    scores
        By recovery (in the order of `settings.RECOVERIES`), form and target, shape ``(R, F, N)``.
    errors
        Standard errors: the errors met among the calibration targets, each predicted by a
        calibration without it, in the proportions that the model gives to targets.
    """

    scores: FloatArray
    errors: FloatArray


def _error(differences: FloatArray) -> float:
    """Root mean square of what is known."""
    known = differences[np.isfinite(differences)]
    return float(np.sqrt((known**2).mean())) if known.size else 0.0
