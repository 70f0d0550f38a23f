"""Does one attribute explain the responses? The computation behind the rule of `verdict_rule`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from safemetry.construct.dimensions.held_out import ModelLosses, held_out_losses
from safemetry.construct.dimensions.models import CandidateModel
from safemetry.construct.dimensions.null_gains import best_gain, simulate_gains
from safemetry.construct.dimensions.null_models import fit_one_dimension
from safemetry.construct.dimensions.verdict_rule import (
    CANNOT_TELL,
    REJECTED,
    SUPPORTED,
    Verdict,
    VerdictSettings,
    decide,
    lowest,
)
from safemetry.errors import InputError
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.parameters import BoolArray, FloatArray, ItemModel
from safemetry.irt.responses import Responses
from safemetry.tasks import TaskSettings

__all__ = [
    "CANNOT_TELL",
    "REJECTED",
    "SUPPORTED",
    "Verdict",
    "VerdictSettings",
    "judge_dimensionality",
]


def judge_dimensionality(
    responses: Responses,
    models: Sequence[CandidateModel],
    settings: VerdictSettings | None = None,
    *,
    known: Sequence[ModelLosses] = (),
    failed: Collection[str] = (),
    tasks: TaskSettings | None = None,
) -> Verdict:
    """Judge whether one attribute explains the responses.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing; every item has both.
    models
        Candidates, see `candidate_models`. Those of one dimension without asymptotes, and those
        explored with `VerdictSettings.dims` or with a structure, are fitted from start 0 to every
        simulated set as to the observed one. One-dimensional models with asymptotes are fitted to
        the observed set: they may be the null model, and must be beaten too.
    settings
        Splits, simulated sets, percentile.
    known
        Losses on the same splits that were computed before, of which start 0 is taken.
    failed
        Names of the models that failed the nesting check (see `nesting_failures`). They are fitted
        to every simulated set like the others, which makes the threshold no lower, but the observed
        gain is that of a model of several dimensions that passed, where one did.
    tasks
        Workers, resuming and progress.

    Returns
    -------
    Verdict
        ``cannot_tell`` without figures where there are too few targets or items for two dimensions,
        or every model of one dimension failed the nesting check.

    Raises
    ------
    InputError
        For items without both responses, or `models` without one or without several dimensions.
    """
    chosen, running = settings or VerdictSettings(), tasks or TaskSettings()
    _check(responses, models)
    one = [model for model in models if model.dimensions == 1]
    many = [model for model in models if model.dimensions > 1 and _compared(model, chosen)]
    many = [model for model in many if _possible(model, responses)]
    masks = split_responses(responses, splits=chosen.splits, share=chosen.share, seed=chosen.seed)
    reason = _impossible(responses, one, many, masks)
    if reason:
        return Verdict(single_attribute=CANNOT_TELL, why=reason, null_sets=chosen.null_sets)
    passed = [model for model in many if model.name not in failed] or list(many)
    if reason := _all_failed(one, failed):
        return Verdict(
            single_attribute=CANNOT_TELL,
            why=reason,
            null_sets=chosen.null_sets,
            failed=tuple(model.name for model in (*one, *many) if model.name in failed),
        )
    losses = _from_start_0(responses, (*one, *many), masks, known, running)
    quick = [model for model in one if not _has_asymptotes(model)] or one
    compared = [*quick, *many]
    observed = np.array([losses[model.name] for model in (*quick, *passed)])
    statistic = best_gain(observed, len(quick))
    single = {model.name: losses[model.name] for model in one}
    several = {model.name: losses[model.name] for model in many}
    able = {name: values for name, values in single.items() if name not in failed}
    best = next(model for model in one if model.name == lowest(able))
    shared = {
        "responses": responses,
        "null": fit_one_dimension(responses, best),
        "models": tuple(compared),
        "one": len(quick),
        "masks": masks,
        "abilities": chosen.abilities,
    }
    gains = simulate_gains(
        shared,
        statistic,
        sets=chosen.null_sets,
        most_reaching=chosen.most_reaching if chosen.stop_early else None,
        seed=chosen.seed,
        tasks=running,
    )
    verdict = decide(single, several, statistic, gains, chosen, failed)
    return replace(verdict, compared=tuple(model.name for model in compared))


def _from_start_0(
    responses: Responses,
    models: Sequence[CandidateModel],
    masks: BoolArray,
    known: Sequence[ModelLosses],
    tasks: TaskSettings,
) -> dict[str, FloatArray]:
    """Held-out log loss of every model in each split, by name; start 0 draws no random numbers."""
    names = {model.name for model in models}
    held = [found for found in known if found.model.name in names]
    if any(len(found.starts) != len(masks) for found in held):
        raise InputError("the known losses are those of other splits")
    there = {found.model.name for found in held}
    waiting = [model for model in models if model.name not in there]
    held += held_out_losses(responses, waiting, masks, restarts=1, tasks=tasks)
    return {
        found.model.name: np.array([starts[0].log_loss for starts in found.starts])
        for found in held
    }


def _check(responses: Responses, models: Sequence[CandidateModel]) -> None:
    passed, answered = (responses.codes == 1).sum(axis=0), responses.observed.sum(axis=0)
    constant = (passed == 0) | (passed == answered)
    if constant.any():
        raise InputError(
            f"{int(constant.sum())} items have no response or the same one from every target, the "
            f"first is {responses.items[int(np.argmax(constant))]!r}",
            fix="leave them out first: they say nothing about dimensions",
        )
    if len({model.dimensions > 1 for model in models}) < 2:
        raise InputError(
            "the verdict compares models of one dimension with models of several",
            fix="give candidates of both kinds",
        )


def _compared(model: CandidateModel, settings: VerdictSettings) -> bool:
    return model.structure is not None or model.dimensions in settings.dims


def _has_asymptotes(model: CandidateModel) -> bool:
    return model.item_model in {ItemModel.THREE_PL, ItemModel.FOUR_PL}


def _possible(model: CandidateModel, responses: Responses) -> bool:
    targets, items = responses.codes.shape
    return model.structure is not None or model.dimensions <= min(targets - 1, items)


def _all_failed(one: Sequence[CandidateModel], failed: Collection[str]) -> str:
    """Why no model of one dimension can stand for it, or an empty text."""
    if not all(model.name in failed for model in one):
        return ""
    names = ", ".join(model.name for model in one)
    return (
        f"Cannot tell: no model of one dimension passed the nesting check ({names}): each fits "
        "all responses worse than one that it contains, so its predictions decide nothing."
    )


def _impossible(
    responses: Responses,
    one: Sequence[CandidateModel],
    many: Sequence[CandidateModel],
    masks: BoolArray,
) -> str:
    """Why nothing can be compared, or an empty text."""
    targets, items = responses.codes.shape
    if not many or not one or targets < 3 or items < 3:
        return (
            f"Cannot tell: {targets} targets and {items} informative items are too few to compare "
            "one dimension with several."
        )
    held_out = masks & responses.observed
    fitted = ~masks & responses.observed
    if not (held_out.any(axis=(1, 2)).all() and fitted.any(axis=(1, 2)).all()):
        return "Cannot tell: a split holds out no response, or leaves none to be fitted."
    return ""
