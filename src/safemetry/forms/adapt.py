"""From a calibration and responses to simulated adaptive tests: `simulate_adaptive`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.findings import plain, resolved
from safemetry.forms.adapted import AdaptFinding, BudgetRow
from safemetry.forms.adaptive.classification import cut_ability
from safemetry.forms.adaptive.evaluation import (
    AdaptiveEvaluation,
    evaluate_sessions,
    predicted_scores,
)
from safemetry.forms.adaptive.exposure import control_exposure
from safemetry.forms.adaptive.process import make_test
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.forms.adaptive.simulation import Sessions, run_sessions, simulate_sessions
from safemetry.forms.evaluation.figures import figures_of
from safemetry.forms.pool import ItemPool
from safemetry.forms.recovery.expectation import expected_full_scores
from safemetry.forms.recovery.table import full_scores, score_table
from safemetry.irt.parameters import FloatArray, ItemModel
from safemetry.irt.reading import read_responses
from safemetry.irt.responses import Responses
from safemetry.irt.store import StoredCalibration

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

BUDGETS: Final = (5, 10, 25, 50, 100, 200)
REPETITIONS: Final = 20
_SEVERAL: Final = "abilities are compared in one dimension"


def simulate_adaptive(
    calibration: StoredCalibration,
    data: Any,
    *,
    properties: Mapping[str, Mapping[str, str]] | None = None,
    settings: AdaptiveSettings | None = None,
    most_exposure: float | None = None,
    repetitions: int = REPETITIONS,
    seed: int = 0,
    **reading: Any,
) -> AdaptFinding:
    """Adaptive tests of targets over the responses that they have given already.

    Parameters
    ----------
    calibration
        Of the items.
    data
        `Responses`, a `ResponseMatrix`, evidence, or a table with the columns of the judgements
        table.
    properties
        Property -> item -> value, for the balance of content.
    settings
        Of the test.
    most_exposure
        Largest share of tests in which an item may be given, found by simulation from the model.
    repetitions
        Tests of random items beside, at least 1.
    seed
        Of whatever is random.
    **reading
        ``evidence_map``, ``success`` and ``judge``, see `read_responses`.

    Raises
    ------
    InputError
        For data without calibrated items, or settings that do not fit them.
    """
    chosen = settings or AdaptiveSettings()
    if repetitions < 1 or seed < 0:
        raise InputError("repetitions are 1 or more, and a seed is 0 or more")
    read = read_responses(data, graded=calibration.model is ItemModel.GRADED, **reading)
    whole = ItemPool.of_calibration(calibration, properties)
    responses, warnings = _matched(read.responses, whole)
    pool = whole.select(whole.places(list(responses.items)))
    rng = np.random.default_rng(seed)
    if most_exposure is not None:
        control = control_exposure(pool, chosen, most=most_exposure, rng=rng)
        chosen = replace(chosen, exposure=control.exposure)
    sessions = simulate_sessions(pool, responses.codes, chosen, rng)
    why: dict[str, str] = {}
    evaluation = None
    if pool.parameters.dimensions == 1:
        evaluation = _evaluated(pool, responses, chosen, sessions)
    else:
        why |= dict.fromkeys(("bias", "rmse", "decided", "wrong"), _SEVERAL)
    known = set(calibration.targets)
    return AdaptFinding(
        settings=resolved(
            {
                **plain(chosen.to_dict()),
                "most_exposure": most_exposure,
                "repetitions": repetitions,
                "seed": seed,
            },
            "not given",
        ),
        warnings=(*read.warnings, *warnings),
        sessions=sessions.records(responses.targets, pool.items),
        evaluation=evaluation,
        budgets=_budgets(pool, responses, sessions, repetitions, rng),
        pool=len(pool.items),
        in_sample=tuple(name for name in responses.targets if name in known),
        why=why,
    )


def _matched(responses: Responses, pool: ItemPool) -> tuple[Responses, list[str]]:
    """The responses to items of the pool, in the order of the responses."""
    known = {item: place for place, item in enumerate(pool.items)}
    kept = np.array([item in known for item in responses.items], bool)
    if not kept.any():
        raise InputError(
            "no item of the responses is calibrated",
            fix="calibrate the same items: safemetry calibrate SOURCE -o DIR",
        )
    found = responses.select_items(kept)
    categories = pool.parameters.categories[pool.places(list(found.items))]
    beyond = np.flatnonzero(found.categories > categories)
    if beyond.size:
        raise InputError(
            f"item {found.items[int(beyond[0])]!r} has a response beyond its calibrated categories",
            fix="calibrate with the same success rule and model",
        )
    said = []
    strange = int((~kept).sum())
    if strange:
        said.append(f"{strange:,} items of the responses are not calibrated and were left out.")
    unseen = len(pool.items) - len(found.items)
    if unseen:
        said.append(f"{unseen:,} calibrated items have no response and cannot be given.")
    return found, said


def _evaluated(
    pool: ItemPool, responses: Responses, settings: AdaptiveSettings, sessions: Sessions
) -> AdaptiveEvaluation:
    """Against the ability that all responses give."""
    table = score_table(pool.parameters, mean=float(pool.mean[0]), sd=pool.sd)
    everything = np.arange(len(pool.items))[None]
    reference = expected_full_scores(table, responses.codes, everything).abilities[0]
    cut, asked = None, settings.classification
    if asked is not None:
        cut = asked.cut
        if asked.cut_score is not None:
            cut = cut_ability(pool, asked.cut_score)
    return evaluate_sessions(sessions, reference, cut)


def _budgets(
    pool: ItemPool,
    responses: Responses,
    sessions: Sessions,
    repetitions: int,
    rng: np.random.Generator,
) -> tuple[BudgetRow, ...]:
    """Errors of predicted scores after some items, of the sessions and of random items."""
    longest = int(sessions.lengths.max(initial=0))
    after = sorted({*(n for n in BUDGETS if n < longest), longest} - {0})
    if not after:
        return ()
    highest = np.maximum(pool.parameters.categories - 1, 1)
    truth = full_scores(responses.codes, highest)
    known = np.isfinite(truth)
    if not known.any():
        return ()
    found = predicted_scores(pool, responses.codes, sessions, after)[known]
    test = make_test(pool, AdaptiveSettings(rule="random", budget=longest))
    seeds = rng.integers(2**31, size=(repetitions, len(responses.codes)), dtype=np.int64)
    others = (_as_long(run_sessions(test, responses.codes, row), sessions) for row in seeds)
    random = np.stack(
        [predicted_scores(pool, responses.codes, one, after)[known] for one in others]
    )
    return tuple(
        _row(count, found[:, place], truth[known], random[:, :, place])
        for place, count in enumerate(after)
    )


def _as_long(random: Sessions, sessions: Sessions) -> Sessions:
    """Tests of random items, each ended where the target's own test ended."""
    over = np.arange(random.items.shape[1]) >= sessions.lengths[:, None]
    return replace(random, items=np.where(over, -1, random.items))


def _row(items: int, predicted: FloatArray, truth: FloatArray, random: FloatArray) -> BudgetRow:
    rmse, mae, bias, _, _, rank = figures_of(predicted, truth).tolist()
    by_set = figures_of(random, truth)[:, 0]
    low, high = np.percentile(by_set, [5, 95]).tolist()
    known = np.isfinite(rank)
    why = {} if known else {"spearman": "the scores do not differ"}
    return BudgetRow(
        items,
        len(truth),
        rmse,
        mae,
        bias,
        rank if known else None,
        float(by_set.mean()),
        (low, high),
        why,
    )
