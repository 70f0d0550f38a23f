"""Which model predicts held-out responses best: the whole comparison of one data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from safemetry.construct.dimensions.contrasts import Contrasts, Separation
from safemetry.construct.dimensions.full_fits import (
    FullFit,
    NestingFailure,
    full_fits,
    nesting_failures,
)
from safemetry.construct.dimensions.held_out import ModelLosses, held_out_losses
from safemetry.construct.dimensions.model_table import ModelRow, model_table
from safemetry.construct.dimensions.models import CandidateModel
from safemetry.construct.dimensions.paired import WINS_ARE_NOT_EVIDENCE, PairedDifference
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.responses import Responses
from safemetry.tasks import TaskSettings

FULL_RESTARTS = 5
"""Starts of the fits to all responses, at most."""


@dataclass(frozen=True)
class LeftOut:
    """A model that these responses cannot hold.

    Parameters
    ----------
    name, why
        Which, and why.
    """

    name: str
    why: str


@dataclass(frozen=True)
class ModelComparison:
    """Models compared by how well they predict responses that they have not seen.

    Parameters
    ----------
    models
        A row for each model.
    comparisons
        Paired differences: the best model with several dimensions against the best with one, every
        other one against it, one dimension more, and structures against as many explored
        dimensions.
    separation
        Every ranked model with several dimensions against every one with one; None where either
        kind is missing.
    nesting_failures
        Models that fit worse than one that they contain; they have no rank.
    left_out
        Models that the responses cannot hold.
    best_one_dimension, best_several
        Names of the best ranked models; None where there is none.
    as_good_as_best
        Other ranked models whose loss is not told apart from the lowest of all: the interval of the
        difference includes 0. They are why a number of dimensions is never reported.
    settings
        Splits, share held out, starts and seed.
    warnings
        What a reader of the numbers must know.
    losses, fits
        Losses of every start, and the fits to all responses, in the order of `models`.
    """

    models: tuple[ModelRow, ...]
    comparisons: tuple[PairedDifference, ...]
    separation: Separation | None
    nesting_failures: tuple[NestingFailure, ...]
    left_out: tuple[LeftOut, ...]
    best_one_dimension: str | None
    best_several: str | None
    as_good_as_best: tuple[str, ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...]
    losses: tuple[ModelLosses, ...]
    fits: tuple[FullFit, ...]

    def row(self, name: str) -> ModelRow:
        """The row of a model."""
        return next(row for row in self.models if row.name == name)

    def fit(self, name: str) -> FullFit:
        """The fit of a model to all responses."""
        return next(fit for fit in self.fits if fit.model.name == name)

    def sentence(self) -> str:
        """The comparison in words."""
        if self.best_one_dimension is None or self.best_several is None:
            return "No ranked model has several dimensions: there is nothing to compare."
        others = ", ".join(self.as_good_as_best)
        alike = f" Not told apart from the best model: {others}." if others else ""
        return f"{self.comparisons[0].sentence}{alike} {WINS_ARE_NOT_EVIDENCE}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the fits; `why` beside what is None."""
        kept = {
            name: plain(value)
            for name, value in self.__dict__.items()
            if name not in {"losses", "fits"}
        }
        why = {
            "separation": "one kind of model only",
            "best_one_dimension": "no ranked model has one dimension",
            "best_several": "no ranked model has several dimensions",
        }
        missing = {name: reason for name, reason in why.items() if kept[name] is None}
        return {**kept, "sentence": self.sentence(), **({"why": missing} if missing else {})}


def compare_models(
    responses: Responses,
    models: Sequence[CandidateModel],
    *,
    splits: int = 5,
    share: float = 0.2,
    restarts: int = 20,
    seed: int = 2026,
    level: float = 0.95,
    tasks: TaskSettings | None = None,
) -> ModelComparison:
    """Compare models on repeated splits of the responses.

    Each split holds out a share of the responses. Of several starts the one that predicts the
    fitted responses best is kept. Criteria and the nesting check come from fits to all responses.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing; items with one kind of response are best left out.
    models
        With names that differ.
    splits, share
        How many splits, and the share held out, above 0 and below 1 (`split_responses`).
    restarts
        Starts of a variational fit in each split.
    seed
        Split s uses `seed` + s; random starts use `seed`.
    level
        Of the intervals.
    tasks
        Workers, resuming, progress.

    Raises
    ------
    InputError
        For settings out of range, items of more than two categories, or where no model can be
        fitted.
    """
    _check(responses, splits, share)
    able, left_out = _fitting(responses, models)
    settings = tasks or TaskSettings()
    masks = split_responses(responses, splits=splits, share=share, seed=seed)
    losses = held_out_losses(
        responses,
        able,
        masks,
        restarts=restarts,
        seed=seed,
        tasks=replace(settings, label=f"{settings.label}: splits"),
    )
    fits = full_fits(
        responses,
        able,
        restarts=min(restarts, FULL_RESTARTS),
        seed=seed,
        tasks=replace(settings, label=f"{settings.label}: all responses"),
    )
    return gather(
        losses,
        fits,
        left_out,
        level=level,
        settings={
            "splits": splits,
            "share": share,
            "restarts": restarts,
            "full_restarts": min(restarts, FULL_RESTARTS),
            "seed": seed,
            "level": level,
        },
    )


def gather(
    losses: tuple[ModelLosses, ...],
    fits: tuple[FullFit, ...],
    left_out: tuple[LeftOut, ...] = (),
    *,
    level: float,
    settings: dict[str, Any],
) -> ModelComparison:
    """The comparison from its fits.

    Parameters
    ----------
    losses, fits
        Of the same models, in the same order.
    left_out
        Models without a fit.
    level
        Of the intervals.
    settings
        As recorded.
    """
    failures = nesting_failures(fits)
    failing = {failure.nesting for failure in failures}
    ranked = [found for found in losses if found.model.name not in failing]
    contrasts = Contrasts(losses, tuple(ranked), fits[0].responses, level)
    one, several = contrasts.best(several=False), contrasts.best(several=True)
    return ModelComparison(
        models=model_table(losses, fits, failing),
        comparisons=contrasts.comparisons(),
        separation=contrasts.separation(),
        nesting_failures=failures,
        left_out=left_out,
        best_one_dimension=None if one is None else one.model.name,
        best_several=None if several is None else several.model.name,
        as_good_as_best=contrasts.as_good_as_best(),
        settings=settings,
        warnings=_warnings(losses, failures, left_out),
        losses=losses,
        fits=fits,
    )


def _check(responses: Responses, splits: int, share: float) -> None:
    if splits < 1 or not 0 < share < 1:
        raise InputError(
            f"{splits} splits hold out {share:g} of the responses",
            fix="ask for 1 split or more and a share between 0 and 1",
        )
    many = responses.categories > 2
    if many.any():
        raise InputError(
            f"item {responses.items[int(np.argmax(many))]!r} has more than two categories",
            fix="declare a boundary that makes outcomes 0 and 1",
        )


def _fitting(
    responses: Responses, models: Sequence[CandidateModel]
) -> tuple[tuple[CandidateModel, ...], tuple[LeftOut, ...]]:
    """The models that so many targets and items can hold, and the others."""
    targets, items = responses.codes.shape
    most = min(targets - 1, items)
    able = tuple(model for model in models if model.structure or model.dimensions <= most)
    if not able or targets < 2:
        raise InputError(
            f"no model can be fitted to {targets} targets and {items} items", fix="add targets"
        )
    why = f"{targets} targets and {items} items hold at most {most} explored dimensions"
    return able, tuple(LeftOut(model.name, why) for model in models if model not in able)


def _warnings(
    losses: Sequence[ModelLosses],
    failures: Sequence[NestingFailure],
    left_out: Sequence[LeftOut],
) -> tuple[str, ...]:
    worst = {
        failure.nesting: failure for failure in sorted(failures, key=lambda one: one.shortfall)
    }
    said = [failure.sentence for failure in worst.values()]
    for found in losses:
        stuck = sum(not loss.converged for loss in found.best)
        if stuck:
            said.append(
                f"{found.model.name}: the best start did not converge in {stuck} of "
                f"{len(found.best)} splits; its loss may be a little too high."
            )
    alike: dict[str, list[str]] = {}
    for model in left_out:
        alike.setdefault(model.why, []).append(model.name)
    for why, names in alike.items():
        many = len(names) > 2
        named = (
            f"{names[0]} to {names[-1]} ({len(names):,} models)" if many else " and ".join(names)
        )
        said.append(f"{named} {'is' if len(names) == 1 else 'are'} left out: {why}.")
    return tuple(said)
