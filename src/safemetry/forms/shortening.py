"""From evidence to a short form: `shorten`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.success import SuccessRule
from safemetry.findings import resolved
from safemetry.forms.change import MinimumDetectableChange, minimum_detectable_change
from safemetry.forms.constraints import UNKNOWN, Constraints
from safemetry.forms.evaluation.choosing import chosen_form
from safemetry.forms.evaluation.evaluate import FormEvaluation, run_evaluation
from safemetry.forms.evaluation.scale import Scale, calibrate_scale
from safemetry.forms.form import Form, LinearPart
from safemetry.forms.pool import ItemPool
from safemetry.forms.recovery.expectation import expected_full_scores
from safemetry.forms.recovery.linear import blend_share, known_targets, ridge_slopes
from safemetry.forms.recovery.regression import fit_recalibration
from safemetry.forms.recovery.table import full_scores, score_table
from safemetry.forms.settings import ShortenSettings
from safemetry.forms.shortened import ShortenFinding
from safemetry.irt.parameters import FloatArray, IntArray
from safemetry.irt.reading import read_responses
from safemetry.irt.responses import Responses
from safemetry.irt.store import responses_digest

FEWEST_TARGETS: Final = 8
_REACH: Final = 4.0
_POINTS: Final = 81


def shorten(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    judge: str | None = None,
    properties: Mapping[str, Mapping[str, str]] | None = None,
    graded: bool = False,
    settings: ShortenSettings | None = None,
    **options: Any,
) -> ShortenFinding:
    """Choose a short form, and measure on held-out targets what such forms are worth.

    Parameters
    ----------
    data
        `Responses`, a `ResponseMatrix`, evidence, or a table with the columns of the judgements
        table.
    evidence_map
        A map, or a mapping with its entries.
    success, judge
        Which outcome counts, and whose verdict; see `response_matrix`.
    properties
        Property -> item -> value, for quotas.
    graded
        Whether ordered outcomes are taken, see `ordinal_matrix`.
    settings
        Settings; or give their fields as options.
    **options
        Fields of `ShortenSettings`, such as ``items=50``.

    Raises
    ------
    InputError
        For data or settings that cannot be used, or constraints that no form keeps.
    """
    chosen = settings or ShortenSettings(**options)
    reading = read_responses(
        data, evidence_map=evidence_map, success=success, judge=judge, graded=graded
    )
    answered = np.asarray(reading.responses.observed.any(axis=0))
    responses = reading.responses.select_items(answered)
    categories = _categories(responses)
    scale = calibrate_scale(responses.codes, categories, chosen.priors, minority=chosen.minority)
    pool = _pool(responses, scale, properties or {})
    constraints = chosen.constraints(pool)
    places = np.flatnonzero(scale.selectable)
    truth = full_scores(responses.codes, np.maximum(categories - 1, 1))
    rng = np.random.default_rng(chosen.seed)
    positions, weights, form_notes = chosen_form(
        chosen.method, pool, constraints, responses.codes[:, places], truth, rng
    )
    parallel, gap = _parallel(pool, constraints, chosen)
    why: dict[str, str] = {} if parallel else {"information_gap": "one form was asked for"}
    evaluation = _evaluation(responses, properties or {}, chosen, why)
    change = _change(evaluation, responses, chosen, why)
    form = _form(responses, (scale, categories), (pool, positions), truth, (chosen, evaluation))
    warnings = [*reading.warnings, *form_notes]
    silent = int((~answered).sum())
    if silent:
        warnings.append(f"{silent:,} items that no target answered are left out.")
    if parallel:
        warnings.append(
            f"The {chosen.forms} parallel forms are chosen for equal information and not by "
            f"{chosen.method}: the form, its errors and what it can see stand beside them."
        )
    strange = [item for item in chosen.forbidden if item not in set(responses.items)]
    if strange:
        warnings.append(f"No item is called {', '.join(map(repr, strange[:6]))}.")
    if not scale.converged:
        warnings.append("The calibration of the items did not converge.")
    if evaluation is not None:
        warnings += evaluation.warnings
    by_recovery = None if evaluation is None else evaluation.rows
    return ShortenFinding(
        settings=resolved(
            {"responses": responses_digest(responses), **chosen.resolved(constraints)}, "not given"
        ),
        warnings=tuple(dict.fromkeys(warnings)),
        form=Form(**{**vars(form), "change": {} if change is None else vars(change)}),
        details=_details(pool, positions, weights),
        parallel=parallel,
        information_gap=gap,
        evaluation=(
            None
            if by_recovery is None
            else tuple(row for row in by_recovery if row.recovery == chosen.recovery)
        ),
        by_recovery=by_recovery,
        random_as_good=(
            None
            if evaluation is None
            else tuple(one for one in evaluation.random_as_good if one.recovery == chosen.recovery)
        ),
        change=change,
        targets=len(responses.targets),
        items=len(responses.items),
        curve=information_of(pool, positions, [pool.places(list(names)) for names in parallel]),
        why=why,
    )


def _categories(responses: Responses) -> IntArray:
    """Categories of each item; items of one scale have as many as the scale."""
    found: IntArray = np.maximum(responses.categories, 2)
    return np.full_like(found, found.max()) if found.max() > 2 else found


def _pool(
    responses: Responses, scale: Scale, properties: Mapping[str, Mapping[str, str]]
) -> ItemPool:
    whole = ItemPool(
        responses.items,
        scale.parameters,
        np.zeros(1),
        np.array([[scale.sd**2]]),
        {
            name: tuple(values.get(item) for item in responses.items)
            for name, values in properties.items()
        },
    )
    return whole.select(scale.selectable)


def _parallel(
    pool: ItemPool, constraints: Constraints, settings: ShortenSettings
) -> tuple[tuple[tuple[str, ...], ...], float | None]:
    if settings.forms < 2:
        return (), None
    from safemetry.forms.selection.parallel import parallel_forms

    found = parallel_forms(pool, constraints, settings.forms)
    names = tuple(tuple(pool.items[place] for place in form.tolist()) for form in found.forms)
    return names, float(found.largest_difference)


def _evaluation(
    responses: Responses,
    properties: Mapping[str, Mapping[str, str]],
    settings: ShortenSettings,
    why: dict[str, str],
) -> FormEvaluation | None:
    parts = ("evaluation", "evaluation_by_recovery", "random_as_good", "minimum_detectable_change")
    if len(responses.targets) < FEWEST_TARGETS:
        reason = f"{len(responses.targets)} targets are too few to hold some out"
        why |= dict.fromkeys(parts, reason)
        return None
    try:
        return run_evaluation(responses, properties, settings.evaluation(), tasks=settings.tasks())
    except InputError as error:
        why |= dict.fromkeys(parts, error.problem)
        return None


def _change(
    evaluation: FormEvaluation | None,
    responses: Responses,
    settings: ShortenSettings,
    why: dict[str, str],
) -> MinimumDetectableChange | None:
    if evaluation is None:
        return None
    try:
        held = evaluation.scores(settings.method, settings.items, settings.recovery)
    except InputError as error:
        why["minimum_detectable_change"] = error.problem
        return None
    return minimum_detectable_change(
        held,
        responses.codes,
        power=settings.power,
        level=settings.level,
        rerun_disagreement=settings.rerun_disagreement,
    )


def _form(
    responses: Responses,
    scaled: tuple[Scale, IntArray],
    chosen: tuple[ItemPool, IntArray],
    truth: FloatArray,
    made: tuple[ShortenSettings, FormEvaluation | None],
) -> Form:
    """The form, with the map from expected to full scores or the share of the linear reading.

    These are fitted on all targets, of which the expected scores have seen the calibration; the
    error beside them is that of held-out targets.
    """
    (scale, categories), (pool, positions), (settings, evaluation) = scaled, chosen, made
    items = tuple(pool.items[place] for place in positions.tolist())
    places = np.array([responses.items.index(item) for item in items], np.int64)
    table = score_table(scale.parameters, sd=scale.sd, categories=categories, longest=len(places))
    codes = responses.codes
    expected = expected_full_scores(table, codes, places[None], codes >= 0).scores[0]
    read_by = settings.recovery if settings.recovery in {"blend", "expectation"} else "calibrated"
    error = None
    for row in () if evaluation is None else evaluation.rows:
        if (row.method, row.items, row.recovery) == (settings.method, len(items), read_by):
            error = row.rmse
    linear = None
    if read_by == "blend":
        noise = table.variance @ table.weights
        known = known_targets(responses.codes, table.highest, truth, noise)
        slopes, misses = ridge_slopes(known, places)
        rows = np.isfinite(truth)
        straight = np.clip(truth[rows] - misses, 0.0, 1.0)
        share = blend_share(straight, expected[rows], truth[rows])
        linear = LinearPart(share, float(known.truth.mean()), known.means[places], slopes)
    return Form(
        items,
        settings.method,
        responses.items,
        scale.parameters,
        scale.sd,
        categories,
        fit_recalibration(expected, truth, ("identity",))
        if read_by == "expectation"
        else fit_recalibration(expected, truth),
        linear,
        error,
        {},
        responses_digest(responses),
    )


def _details(pool: ItemPool, positions: IntArray, weights: FloatArray) -> list[dict[str, Any]]:
    """One row for each item of the form."""
    middle = pool.information(pool.mean)[0]
    steps = pool.parameters.intercepts
    share = weights / weights.sum()
    return [
        {
            "item": pool.items[place],
            "a": float(pool.parameters.slopes[place, 0]),
            "d": [float(step) for step in steps[place] if np.isfinite(step)]
            if steps.shape[1] > 1
            else float(steps[place, 0]),
            "information": float(middle[place]),
            "weight": float(share[number]),
            "properties": {
                name: UNKNOWN if values[place] is None else values[place]
                for name, values in pool.properties.items()
            },
        }
        for number, place in enumerate(positions.tolist())
    ]


def information_of(
    pool: ItemPool, positions: IntArray, parallel: Sequence[IntArray] = ()
) -> dict[str, Any]:
    """Information of forms and of the whole pool over abilities, and the population's density."""
    theta = float(pool.mean[0]) + pool.sd * np.linspace(-_REACH, _REACH, _POINTS)
    information = pool.information(theta)
    density = np.exp(-(((theta - pool.mean[0]) / pool.sd) ** 2) / 2)
    return {
        "theta": theta,
        "form": information[:, positions].sum(axis=1),
        "all": information.sum(axis=1),
        "population": density / density.max(),
        "parallel": [information[:, form].sum(axis=1) for form in parallel],
    }
