"""Models of the items compared by what they predict of targets that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from scipy.stats import t

from safemetry.errors import InputError
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.integration import integrate
from safemetry.irt.multidimensional.moments import chances, log_odds_moments
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray
from safemetry.irt.responses import Responses, make_responses
from safemetry.irt.structure import Structure
from safemetry.tasks import Task, TaskSettings, run_tasks

FOLDS: Final = 5
GIVEN: Final = 0.5
FEWEST_TARGETS: Final = 20
RULE: Final = (
    "Targets are dealt into five parts at random. Items are fitted on four parts. Each target of "
    "the fifth gives a random half of its responses, from which its abilities are estimated with "
    "the items held fixed (posterior mean and covariance under the fitted population); the other "
    "half is predicted, integrated over that posterior and over the posterior of the items. All "
    "models see the same parts and halves."
)
_SMALLEST: Final = 1e-12
_ONE: Final = "1D exploratory"


@dataclass(frozen=True)
class PredictedModel:
    """How well one model predicts targets that it has not seen.

    Parameters
    ----------
    name, dims
        ``items alone`` (no ability, 0 dimensions), ``2D exploratory``, ``benchmarks (5D)``.
    log_loss, log_loss_sd
        Mean over folds of the mean of -log probability of the predicted responses, and its spread
        over folds.
    folds
        Log loss in each fold.
    brier
        Mean over folds of the mean squared error.
    gain, gain_interval
        By how much the log loss of a target is lower than with one dimension, mean over targets
        with a 95% interval over targets; None for one dimension itself.
    converged
        Whether the fits of all folds converged.
    """

    name: str
    dims: int
    log_loss: float
    log_loss_sd: float
    folds: tuple[float, ...]
    brier: float
    gain: float | None
    gain_interval: tuple[float, float] | None
    converged: bool

    def to_dict(self) -> dict[str, Any]:
        """The entry of the finding."""
        why = dict.fromkeys(("gain", "gain_interval"), "the others are compared with this one")
        return {
            "name": self.name,
            "dims": self.dims,
            "log_loss": {
                "mean": self.log_loss,
                "sd": self.log_loss_sd,
                "splits": list(self.folds),
            },
            "brier": self.brier,
            "gain": self.gain,
            "gain_interval": None if self.gain_interval is None else list(self.gain_interval),
            "converged": self.converged,
            **({"why": why} if self.gain is None else {}),
        }


@dataclass(frozen=True)
class TargetPrediction:
    """All models, and what they were compared on.

    Parameters
    ----------
    models
        In the order of their number of dimensions, those of structures last.
    targets, items, cells
        What took part, and how many responses were predicted.
    best
        The model with the lowest log loss.
    """

    models: tuple[PredictedModel, ...]
    targets: int
    items: int
    cells: int
    best: str
    rule: str = field(default=RULE)

    @property
    def beats_one_dimension(self) -> bool:
        """Whether the best model gains on one dimension by more than chance over targets."""
        best = next(model for model in self.models if model.name == self.best)
        return best.dims > 1 and best.gain_interval is not None and best.gain_interval[0] > 0

    def to_dict(self) -> dict[str, Any]:
        """The entry of the finding."""
        return {
            "rule": self.rule,
            "folds": FOLDS,
            "share_given": GIVEN,
            "targets": self.targets,
            "items": self.items,
            "cells": self.cells,
            "models": [model.to_dict() for model in self.models],
            "best": self.best,
            "beats_one_dimension": self.beats_one_dimension,
        }


def predict_targets(
    responses: Responses,
    dims: Sequence[int],
    structure: Structure | None = None,
    *,
    restarts: int = 2,
    seed: int = 0,
    tasks: TaskSettings | None = None,
) -> TargetPrediction:
    """Compare models of the items on targets that are held out.

    Parameters
    ----------
    responses
        Of N >= 20 targets to J items, codes 0 and 1 or -1 where missing.
    dims
        Numbers of dimensions to explore; 1 among them.
    structure
        Of the items, for a confirmatory model.
    restarts
        Starts of every fit.
    seed
        Of the folds and halves.
    tasks
        How the fits run.

    Raises
    ------
    InputError
        For too few targets, or ordered outcomes.
    """
    targets, items = responses.codes.shape
    if targets < FEWEST_TARGETS:
        raise InputError(
            f"{targets} targets are too few to hold a fifth of them out",
            fix=f"give at least {FEWEST_TARGETS}",
        )
    if (responses.categories > 2).any():
        raise InputError(
            "models of several dimensions need outcomes 0 and 1",
            fix="choose a boundary with --success",
        )
    rng = np.random.default_rng(seed)
    split = _Split(responses, rng.permutation(targets) % FOLDS, _halves(responses, rng))
    candidates: dict[str, int | Structure] = {
        f"{size}D exploratory": size for size in sorted({1, *dims})
    }
    if structure is not None:
        candidates[f"benchmarks ({len(structure.dimensions)}D confirmatory)"] = structure
    jobs = [
        Task(f"{name}, fold {part + 1}", {"dims": model, "part": part})
        for name, model in candidates.items()
        for part in range(FOLDS)
    ]
    shared = {"split": split, "restarts": restarts, "seed": seed}
    found = iter(run_tasks(_predicted, jobs, seed=seed, shared=shared, settings=tasks))
    chances_by = {"items alone": _Chances(0, _by_items(split), converged=True)}
    for name, model in candidates.items():
        whole, converged = np.zeros(responses.codes.shape), True
        for part in range(FOLDS):
            predicted, done = next(found)
            whole[split.fold == part] = predicted
            converged = converged and done
        size = model if isinstance(model, int) else len(model.dimensions)
        chances_by[name] = _Chances(size, whole, converged)
    base = split.target_losses(chances_by[_ONE].values)
    models = tuple(_summary(name, made, split, base) for name, made in chances_by.items())
    best = min(models, key=lambda model: model.log_loss)
    return TargetPrediction(models, targets, items, int(split.asked.sum()), best.name)


@dataclass(frozen=True)
class _Chances:
    """Predicted chances of a 1 of every target, each while it was held out."""

    dims: int
    values: FloatArray
    converged: bool


@dataclass(frozen=True)
class _Split:
    """Which part each target is in, and which of its responses it gives."""

    responses: Responses
    fold: IntArray
    given: BoolArray

    @property
    def asked(self) -> BoolArray:
        """The responses that are predicted."""
        return self.responses.observed & ~self.given

    def losses(self, chance: FloatArray) -> FloatArray:
        """Minus the log probability of each response."""
        right = np.where(self.responses.codes == 1, chance, 1 - chance)
        found: FloatArray = -np.log(np.maximum(right, _SMALLEST))
        return found

    def target_losses(self, chance: FloatArray) -> FloatArray:
        """Mean log loss of each target, NaN where nothing is asked of it."""
        counts = self.asked.sum(axis=1)
        sums = np.where(self.asked, self.losses(chance), 0.0).sum(axis=1)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _halves(responses: Responses, rng: np.random.Generator) -> BoolArray:
    """For each target a random half of the responses that it has."""
    draws = np.where(responses.observed, rng.random(responses.codes.shape), np.inf)
    rank = draws.argsort(axis=1).argsort(axis=1)
    counts = responses.observed.sum(axis=1, keepdims=True)
    found: BoolArray = responses.observed & (rank < np.ceil(counts * GIVEN))
    return found


def _predicted(
    rng: np.random.Generator,
    split: _Split,
    dims: int | Structure,
    part: int,
    restarts: int,
    seed: int,
) -> tuple[FloatArray, bool]:
    """Chances of a 1 for the targets of one part, shape ``(n, J)``."""
    del rng  # starts are numbered, so that all parts share them
    codes = split.responses.codes
    held_out = split.fold == part
    settings = DimensionalSettings(restarts=restarts, seed=seed, likelihood=False, jobs=1)
    fit = fit_multidimensional(make_responses(codes[~held_out]), dims, settings)
    shown = make_responses(np.where(split.given, codes, -1)[held_out])
    slopes, intercepts = fit.parameters.slopes, fit.parameters.intercepts[:, 0]
    posterior = integrate(shown, slopes, intercepts, fit.factor_correlations, seed=seed)
    items = np.column_stack([slopes, intercepts])
    spread = fit.item_covariance
    if spread is None:
        spread = np.zeros((len(items), items.shape[1], items.shape[1]))
    mean, variance = log_odds_moments(posterior.mean, posterior.covariance, items, spread)
    return chances(mean, variance), fit.converged


def _by_items(split: _Split) -> FloatArray:
    """Pass rates of the items among the other parts, with a half added on both sides."""
    codes = split.responses.codes
    found = np.zeros(codes.shape)
    for part in range(FOLDS):
        training = codes[split.fold != part]
        passed, seen = (training == 1).sum(axis=0), (training >= 0).sum(axis=0)
        found[split.fold == part] = (passed + 0.5) / (seen + 1)
    return found


def _summary(name: str, made: _Chances, split: _Split, base: FloatArray) -> PredictedModel:
    losses = split.losses(made.values)
    errors = np.square((split.responses.codes == 1) - made.values)
    parts = [split.asked & (split.fold == part)[:, None] for part in range(FOLDS)]
    folds = [float(losses[part].mean()) for part in parts]
    gain, interval = None, None
    if name != _ONE:
        gains = base - split.target_losses(made.values)
        gains = gains[np.isfinite(gains)]
        gain = float(gains.mean())
        reach = float(t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / np.sqrt(len(gains)))
        interval = (gain - reach, gain + reach)
    return PredictedModel(
        name=name,
        dims=made.dims,
        log_loss=float(np.mean(folds)),
        log_loss_sd=float(np.std(folds, ddof=1)),
        folds=tuple(folds),
        brier=float(np.mean([errors[part].mean() for part in parts])),
        gain=gain,
        gain_interval=interval,
        converged=made.converged,
    )
