"""Forms evaluated on targets that neither their items nor their calibration have seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.evaluation.rows import EvaluationRow, RandomCatch, random_catches, rows_of
from safemetry.forms.evaluation.settings import RECOVERIES, EvaluationSettings
from safemetry.forms.evaluation.split import evaluate_split
from safemetry.forms.evaluation.splits import held_out_targets
from safemetry.forms.recovery.table import full_scores
from safemetry.irt.parameters import FloatArray, IntArray
from safemetry.irt.responses import Responses
from safemetry.tasks import Task, TaskSettings, run_tasks, task_generator


@dataclass(frozen=True)
class HeldOutScores:
    """Recovered and true scores of held-out targets for one kind of form.

    Parameters
    ----------
    items, method, recovery
        Which form, and how the score is read.
    targets
        For each split the positions of its held-out targets, shape ``(n,)``.
    predicted, truth
        For each split, shape ``(n,)``.
    """

    items: int
    method: str
    recovery: str
    targets: tuple[IntArray, ...]
    predicted: tuple[FloatArray, ...]
    truth: tuple[FloatArray, ...]


@dataclass(frozen=True)
class FormEvaluation:
    """An evaluation of forms.

    Parameters
    ----------
    rows
        Method x budget x recovery, random forms beside.
    random_as_good
        From which budget on random items do as well.
    held_out
        The scores behind the rows of the methods.
    forms
        Method -> budget -> for each split the positions of the chosen items.
    settings
        What was asked for.
    warnings
        In whole sentences.
    """

    rows: tuple[EvaluationRow, ...]
    random_as_good: tuple[RandomCatch, ...]
    held_out: tuple[HeldOutScores, ...]
    forms: Mapping[str, Mapping[int, tuple[IntArray, ...]]]
    settings: EvaluationSettings
    warnings: tuple[str, ...] = field(default=())

    def scores(self, method: str, items: int, recovery: str = "calibrated") -> HeldOutScores:
        """The held-out scores of one kind of form.

        Raises
        ------
        InputError
            Where it was not evaluated.
        """
        for one in self.held_out:
            if (one.method, one.items, one.recovery) == (method, items, recovery):
                return one
        raise InputError(f"{method} forms of {items} items read by {recovery} were not evaluated")


def evaluate_forms(
    responses: Responses,
    properties: Mapping[str, Mapping[str, str]] | None = None,
    settings: EvaluationSettings | None = None,
    *,
    tasks: TaskSettings | None = None,
) -> tuple[EvaluationRow, ...]:
    """How well forms recover the full scores of held-out targets; the rows of `run_evaluation`.

    Parameters
    ----------
    responses, properties, settings, tasks
        As there.
    """
    return run_evaluation(responses, properties, settings, tasks=tasks).rows


def run_evaluation(
    responses: Responses,
    properties: Mapping[str, Mapping[str, str]] | None = None,
    settings: EvaluationSettings | None = None,
    *,
    tasks: TaskSettings | None = None,
) -> FormEvaluation:
    """Evaluate forms on held-out targets over repeated splits.

    Parameters
    ----------
    responses
        Of N >= 8 targets to J items, missing cells allowed. Weights of targets are not used.
    properties
        Property -> item -> value, for quotas.
    settings
        See `EvaluationSettings`.
    tasks
        How the splits are run; one task is one split, and can be resumed.

    Raises
    ------
    InputError
        For too few targets, a property that no item has, or a pool without items.
    """
    chosen = settings or EvaluationSettings()
    items = responses.items
    highest = np.maximum(responses.categories - 1, 1)
    if highest.max() > 1:
        # Items of one scale have its categories, also those in which nobody reached the last one.
        highest = np.full_like(highest, highest.max())
    longer = [budget for budget in chosen.budgets if budget >= len(items)]
    budgets = tuple(budget for budget in chosen.budgets if budget < len(items))
    if not budgets:
        raise InputError(
            f"a form of {chosen.budgets[0]} items is no shorter than all {len(items)}",
            fix="ask for shorter forms",
        )
    chosen = replace(chosen, budgets=budgets)
    named = {
        name: tuple(values.get(item) for item in items)
        for name, values in (properties or {}).items()
    }
    scores = full_scores(responses.codes, highest)
    work, masks = [], []
    for number in range(chosen.splits):
        rng = task_generator(chosen.seed, f"held out {number}")
        masks.append(held_out_targets(scores, chosen.share, rng))
        work.append(Task(f"split {number}", {"held": masks[-1]}))
    shared = {
        "codes": responses.codes,
        "items": items,
        "properties": named,
        "categories": highest + 1,
        "settings": chosen,
    }
    label = tasks or TaskSettings(label="splits")
    results = run_tasks(evaluate_split, work, seed=chosen.seed, shared=shared, settings=label)
    rows = rows_of(results, chosen, int((~masks[0]).sum()))
    if not rows:
        first = next(iter(_problems(results)), "no reason is known").rstrip(".")
        raise InputError(f"no form could be evaluated ({first})", fix="ask for less of it")
    said = [f"Forms of {budget} items are not shorter than all items." for budget in longer]
    said += _problems(results)
    return FormEvaluation(
        rows,
        random_catches(rows, chosen.within),
        _held_out(results, [np.flatnonzero(mask) for mask in masks], chosen),
        _forms(results, chosen),
        chosen,
        tuple(said),
    )


def _problems(results: list[dict[str, list[str]]]) -> list[str]:
    counts: dict[str, int] = {}
    for result in results:
        for problem in result["problems"]:
            counts[problem] = counts.get(problem, 0) + 1
    many = len(results)
    return [f"In {count} of {many} splits: {problem}." for problem, count in counts.items()]


def _held_out(
    results: list[dict[str, FloatArray]], rows: list[IntArray], settings: EvaluationSettings
) -> tuple[HeldOutScores, ...]:
    found = []
    for place, method in enumerate(settings.methods):
        for spot, budget in enumerate(settings.budgets):
            for number, recovery in enumerate(RECOVERIES):
                made = [
                    (targets, result["predicted"][place, spot, number], result["truth"])
                    for targets, result in zip(rows, results, strict=True)
                    if np.isfinite(result["predicted"][place, spot, number]).all()
                ]
                if made:
                    targets, predicted, truth = zip(*made, strict=True)
                    found.append(HeldOutScores(budget, method, recovery, targets, predicted, truth))
    return tuple(found)


def _forms(
    results: list[dict[str, IntArray]], settings: EvaluationSettings
) -> dict[str, dict[int, tuple[IntArray, ...]]]:
    found: dict[str, dict[int, tuple[IntArray, ...]]] = {}
    for place, method in enumerate(settings.methods):
        if method == "adaptive":
            continue
        found[method] = {}
        for spot, budget in enumerate(settings.budgets):
            chosen = [result["forms"][place, spot, :budget] for result in results]
            found[method][budget] = tuple(form for form in chosen if (form >= 0).all())
    return found
