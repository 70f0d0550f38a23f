"""One split of the targets: calibrate, choose, recover; the unit of work of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.constraints import Constraints, quotas_of
from safemetry.forms.evaluation.choosing import BY_SCORE, adaptive_items, chosen_form
from safemetry.forms.evaluation.figures import FIGURES, figures_of
from safemetry.forms.evaluation.recovered import Recovered, Sides
from safemetry.forms.evaluation.scale import ROUGH, Scale, calibrate_scale
from safemetry.forms.evaluation.settings import RECOVERIES, EvaluationSettings
from safemetry.forms.evaluation.splits import folds_of
from safemetry.forms.pool import ItemPool
from safemetry.forms.recovery.table import ScoreTable, full_scores, score_table
from safemetry.forms.selection.draws import random_forms
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]


@dataclass(frozen=True)
class Named:
    """Names of all items, what is known of them, and what a form must hold.

    Parameters
    ----------
    items, properties, settings
        As in `evaluate_split`.
    """

    items: tuple[str, ...]
    properties: Mapping[str, tuple[str | None, ...]]
    settings: EvaluationSettings

    def pool(self, scale: Scale) -> ItemPool:
        """The items that may be selected."""
        covariance = np.array([[scale.sd**2]])
        whole = ItemPool(
            self.items, scale.parameters, np.zeros(1), covariance, dict(self.properties)
        )
        return whole.select(scale.selectable)

    def constraints(self, pool: ItemPool, budget: int) -> Constraints:
        """What a form of so many items must hold."""
        settings, known = self.settings, set(pool.items)
        quotas = quotas_of(pool, settings.per, budget) if settings.per is not None else ()
        forbidden = tuple(item for item in settings.forbidden if item in known)
        required = tuple(item for item in settings.required if item in known)[:budget]
        return Constraints(
            budget,
            (*quotas, *settings.quotas_for(budget)),
            settings.exclusions,
            required,
            forbidden,
        )


def evaluate_split(
    *,
    rng: np.random.Generator,
    codes: Codes,
    items: tuple[str, ...],
    properties: Mapping[str, tuple[str | None, ...]],
    categories: IntArray,
    settings: EvaluationSettings,
    held: BoolArray,
) -> dict[str, Any]:
    """Evaluate every method, budget and recovery on one split.

    Everything that is fitted or chosen sees calibration targets only: filters, calibration,
    selection, regression and mixture. Of a held-out target the responses to the form are read, as
    they come, to recover its score, and the others to see how good that was.

    Parameters
    ----------
    rng
        Source of randomness.
    codes
        Responses of N targets to J items, -1 where missing.
    items, properties, categories
        Names of the items, what is known of them (property -> a value for each), and how many
        categories each has.
    settings
        See `EvaluationSettings`.
    held
        Targets held out, shape ``(N,)``.

    Returns
    -------
    dict
        ``truth (n,)`` of the n held-out targets; ``predicted`` and ``errors`` of shape ``(M, B, R,
        n)`` by method, budget and recovery, NaN where a form could not be made; ``random (B, R, S,
        6)``, the figures of each random set; ``forms``, the chosen positions ``(M, B, longest)``,
        -1 where there is none (an adaptive test has no one form); ``problems``, sentences.
    """
    rows = np.flatnonzero(held)
    base = codes[~held]
    scale = calibrate_scale(base, categories, settings.priors, minority=settings.minority)
    named = Named(items, properties, settings)
    pool = named.pool(scale)
    places = np.flatnonzero(scale.selectable)
    sides, fold_scales = _sides(codes, held, scale, categories, settings, rng)
    truth = full_scores(np.where(sides.held_counted, sides.held, np.int8(-1)), sides.table.highest)
    shape = (len(settings.methods), len(settings.budgets), len(RECOVERIES), rows.size)
    predicted, errors = np.full(shape, np.nan), np.full(shape, np.nan)
    longest = max(settings.budgets)
    forms = np.full((*shape[:2], longest), -1, np.int64)
    random = np.full((shape[1], shape[2], settings.random_sets, len(FIGURES)), np.nan)
    problems: dict[str, None] = {}
    if not scale.converged:
        problems["a calibration did not converge"] = None
    paths: tuple[IntArray, IntArray] | None = None
    if "adaptive" in settings.methods:
        paths = _paths(sides, scale, fold_scales, named, rng)
    for spot, budget in enumerate(settings.budgets):
        if budget > places.size:
            problems[f"{places.size} items can be selected, fewer than {budget}"] = None
            continue
        try:
            constraints = named.constraints(pool, budget)
            sets = places[np.stack(random_forms(pool, constraints, settings.random_sets, rng))]
        except InputError as error:
            problems[f"{budget} items: {error.problem}"] = None
            continue
        for number, method in enumerate(settings.methods):
            if method == "adaptive":
                if paths is not None:
                    found = sides.predict_own(paths[0][:, :budget], paths[1][:, :budget])
                    _keep(found, predicted[number, spot], errors[number, spot])
                continue
            try:
                chosen, weights, _ = chosen_form(
                    method, pool, constraints, base[:, places], sides.truth, rng
                )
                fold_forms = None
                if method in BY_SCORE:
                    fold_forms = _fold_forms(method, budget, named, sides, fold_scales, rng)
            except InputError as error:
                problems[f"{method}, {budget} items: {error.problem}"] = None
                continue
            forms[number, spot, : chosen.size] = places[chosen]
            found = sides.predict_shared(places[chosen][None], weights[None], fold_forms)
            _keep(found, predicted[number, spot], errors[number, spot])
        random[spot] = figures_of(sides.predict_shared(sets).scores, truth)
    return {
        "truth": truth,
        "predicted": predicted,
        "errors": errors,
        "random": random,
        "forms": forms,
        "problems": list(problems),
    }


def _fold_forms(
    method: str,
    budget: int,
    named: Named,
    sides: Sides,
    scales: tuple[Scale, ...],
    rng: np.random.Generator,
) -> tuple[IntArray, ...]:
    """The forms that are chosen without each fold of the calibration targets."""
    found = []
    for fold, scale in enumerate(scales):
        rows = sides.folds != fold
        pool, places = named.pool(scale), np.flatnonzero(scale.selectable)
        constraints = named.constraints(pool, budget)
        codes, truth = sides.calibration[rows][:, places], sides.truth[rows]
        chosen = chosen_form(method, pool, constraints, codes, truth, rng)[0]
        found.append(places[chosen][None])
    return tuple(found)


def _keep(found: Recovered, predicted: FloatArray, errors: FloatArray) -> None:
    predicted[:], errors[:] = found.scores[:, 0], found.errors[:, 0]


def _sides(
    codes: Codes,
    held: BoolArray,
    scale: Scale,
    categories: IntArray,
    settings: EvaluationSettings,
    rng: np.random.Generator,
) -> tuple[Sides, tuple[Scale, ...]]:
    """Both sides of a split, and the calibrations without a fold of the calibration targets."""
    base, other = codes[~held], codes[held]
    counted, other_counted = (base >= 0) & scale.known, (other >= 0) & scale.known
    longest = max(settings.budgets)

    def table(of: Scale) -> ScoreTable:
        return score_table(of.parameters, sd=of.sd, categories=categories, longest=longest)

    whole = table(scale)
    truth = full_scores(base, whole.highest)
    count = min(settings.folds, len(base))
    folds = folds_of(truth, count, rng)
    scales = tuple(
        calibrate_scale(
            base[folds != fold],
            categories,
            settings.priors,
            minority=settings.minority,
            start=scale,
            tolerance=ROUGH,
        )
        for fold in range(count)
    )
    tables = tuple(table(one) for one in scales)
    sides = Sides(other, other_counted, base, counted, truth, whole, tables, folds)
    return sides, scales


def _paths(
    sides: Sides,
    scale: Scale,
    fold_scales: tuple[Scale, ...],
    named: Named,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Items that held-out and calibration targets take in an adaptive test."""
    longest, per = max(named.settings.budgets), named.settings.per

    def path(of: Scale, codes: Codes) -> IntArray:
        # A fold may leave an item without variance; it is then not asked of that fold's targets.
        places = np.flatnonzero(of.selectable & scale.selectable)
        pool = named.pool(of).select(scale.selectable[of.selectable])
        test = replace(named.settings.adaptive, budget=min(longest, places.size))
        # A class that no calibration target gave counts as the highest that one did.
        known = np.minimum(codes[:, places], pool.parameters.categories - 1).astype(np.int8)
        taken = adaptive_items(pool, known, test, per, rng)
        found = np.full((len(codes), longest), -1, np.int64)
        found[:, : taken.shape[1]] = np.where(taken >= 0, places[np.maximum(taken, 0)], -1)
        return found

    held = path(scale, sides.held)
    known = np.full((len(sides.calibration), longest), -1, np.int64)
    for fold, one in enumerate(fold_scales):
        rows = sides.folds == fold
        known[rows] = path(one, sides.calibration[rows])
    return held, known
