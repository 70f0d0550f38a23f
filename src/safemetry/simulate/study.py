"""A whole simulated study: targets, items, responses, judges and what goes missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from safemetry.evidence.schema import CLASSES, OUTSIDE, Intent
from safemetry.simulate.clusters import outcome_intraclass
from safemetry.simulate.factors import add_caution, draw_abilities
from safemetry.simulate.items import TWIN, ItemDesign, draw_items
from safemetry.simulate.judges import COMPLY, EVASIVE, GIBBERISH, LABELS, REFUSE, simulate_calls
from safemetry.simulate.matrix import numbered, response_probabilities
from safemetry.simulate.missing import (
    JUDGE_FAILURES,
    NONE,
    REASONS,
    STATUS_OF_REASON,
    draw_judge_failures,
    draw_lost_responses,
)
from safemetry.simulate.settings import SOURCES, StudySettings
from safemetry.simulate.table import judgements_table, text_column, verdict_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

BENCHMARK = "simulated"
"""Name of the benchmark and of the run of every simulated study."""


@dataclass(frozen=True, slots=True, eq=False)
class StudyTruth:
    """What no evaluation knows: how a simulated study came about.

    Attributes
    ----------
    factors
        Names of the abilities: one a response type, then caution; K + 1.
    abilities
        (targets, K + 1), in the order of `targets`.
    targets, items
        Tables of names and design. Items have ``response_type``, ``discrimination`` (of the factor
        in ``factor``; negative on caution), ``intercept`` in logits and ``difficulty``.
    responses
        One row a response: ``target, item, epoch``, its true ``class`` (also where it was lost),
        the chance ``rewarded`` of a rewarded response, and the ``lost`` reason or null.
    rates
        Expected rewarded rate (safe for harmful items, helpful for benign ones) by target, intent,
        category and attack, with the number of ``items``.
    intraclass
        Intra-class correlation of the outcomes of one behaviour's attacks that the item parameters
        imply, (targets, K); not a number with a single attack.
    judges, confusion
        Names, and the chance of each label given the true class, (judges, 4, 4), both in the order
        refuse, evasive, comply, gibberish.
    collapsed
        Judges that collapse on `comply`.
    missing
        Mechanism: ``level`` response or call, ``judge`` or null, ``reason``, ``status``, ``rate``
        and ``applies_to``; the rate of a call is that on a response that is not a harmful
        compliance.
    settings, sources
        What it was simulated from, and where the figures come from.
    """

    factors: tuple[str, ...]
    abilities: NDArray[np.float64]
    targets: pa.Table
    items: pa.Table
    responses: pa.Table
    rates: pa.Table
    intraclass: NDArray[np.float64]
    judges: tuple[str, ...]
    confusion: NDArray[np.float64]
    collapsed: tuple[str, ...]
    missing: pa.Table
    settings: StudySettings
    sources: tuple[str, ...] = SOURCES


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedStudy:
    """A simulated study.

    Attributes
    ----------
    judgements
        Tidy table with every column of the judgements schema, by target, item (in the order of the
        truth), epoch, judge and call. Its metadata says that it is simulated, with the settings
        and the sources.
    map
        Entries of an evidence map that reads it.
    truth
        How it came about.
    """

    judgements: pa.Table
    map: dict[str, Any]
    truth: StudyTruth


def simulate_study(
    settings: StudySettings | None = None, rng: np.random.Generator | int = 0
) -> SimulatedStudy:
    """Simulate a study whose rates, correlations and judges follow published figures.

    A harmful item is answered safely with chance expit(a theta + d), where theta is the target's
    ability for the response type; a benign twin is helped with chance expit(-a c + d), where c is
    the target's caution. What is not safe or helpful is turned into classes, seen by the judges
    through their confusion matrices, and partly lost.

    Parameters
    ----------
    settings
        Size and mechanisms; the defaults of `StudySettings` if None.
    rng
        Generator or seed; the same seed gives the same table.

    Returns
    -------
    SimulatedStudy
        Judgements, their map and the truth.

    Examples
    --------
    >>> study = simulate_study(StudySettings(targets=6, behaviours=8), 3)
    >>> study.judgements.num_rows, study.truth.collapsed
    (5280, ('judge-3', 'judge-5', 'judge-8'))
    """
    settings = settings or StudySettings()
    rng = np.random.default_rng(rng)
    abilities = draw_abilities(
        settings.targets,
        add_caution(settings.correlations, settings.caution),
        rng,
        exact_moments=settings.exact_moments,
    )
    items = draw_items(settings, abilities, rng)
    rewarded = response_probabilities(abilities, items.loadings, items.intercepts)
    responses = _draw_responses(settings, items, rewarded, rng)
    targets_table = _targets_table(settings, abilities)
    items_table = _items_table(settings, items)
    truth = StudyTruth(
        factors=settings.factors,
        abilities=abilities,
        targets=targets_table,
        items=items_table,
        responses=_responses_table(responses, targets_table, items_table),
        rates=_rates_table(settings, items, rewarded),
        intraclass=_intraclass(settings, items, rewarded),
        judges=tuple(judge.name for judge in settings.judges),
        confusion=np.array([judge.confusion for judge in settings.judges]),
        collapsed=tuple(judge.name for judge in settings.judges if judge.collapsed),
        missing=_missing_table(settings),
        settings=settings,
    )
    judgements = _judge(settings, responses, truth, rng)
    return SimulatedStudy(judgements, _map(), truth)


@dataclass(frozen=True, slots=True, eq=False)
class _Responses:
    """Responses by target, item and epoch; every array is (responses,)."""

    target: NDArray[np.int64]
    item: NDArray[np.int64]
    epoch: NDArray[np.int64]
    harmful: NDArray[np.bool_]
    rewarded: NDArray[np.float64]
    true_class: NDArray[np.int8]
    lost: NDArray[np.int8]


def _draw_responses(
    settings: StudySettings,
    items: ItemDesign,
    rewarded: NDArray[np.float64],
    rng: np.random.Generator,
) -> _Responses:
    count = len(items.attack)
    repeated = rng.permutation(count)[: round(settings.repeated_share * count)]
    epochs = np.ones(count, dtype=np.int64)
    epochs[repeated] = settings.epochs
    first = np.repeat(np.cumsum(epochs) - epochs, epochs)
    item = np.tile(np.repeat(np.arange(count), epochs), settings.targets)
    epoch = np.tile(np.arange(epochs.sum()) - first + 1, settings.targets)
    target = np.repeat(np.arange(settings.targets), epochs.sum())
    chance = rewarded[target, item]
    harmful = items.harmful[item]
    complied = (rng.random(len(item)) < chance) != harmful
    otherwise = rng.choice(
        np.array([REFUSE, EVASIVE, GIBBERISH], np.int8), size=len(item), p=settings.safe_classes
    )
    true_class = np.where(complied, np.int8(COMPLY), otherwise)
    lost = draw_lost_responses(harmful, settings.lost_responses, rng)
    return _Responses(target, item, epoch, harmful, chance, true_class, lost)


def _judge(
    settings: StudySettings, responses: _Responses, truth: StudyTruth, rng: np.random.Generator
) -> pa.Table:
    """The judgements table: every judge call on every response."""
    panel = settings.judges
    labels = simulate_calls(
        responses.true_class,
        truth.confusion,
        rng,
        calls=max(judge.calls for judge in panel),
        steadiness=settings.steadiness,
    )
    judge = np.repeat(np.arange(len(panel)), [member.calls for member in panel])
    call = np.concatenate([np.arange(member.calls) for member in panel])
    harmful_compliance = responses.harmful & (responses.true_class == COMPLY)
    factor = np.where(harmful_compliance, settings.comply_failure_factor, 1.0)
    rates = np.array([panel[code].missing for code in judge])
    failures = draw_judge_failures(np.minimum(np.multiply.outer(factor, rates), 1.0), rng)
    reasons = np.where(responses.lost[:, None] == NONE, failures, responses.lost[:, None])

    slots = len(judge)
    row = np.repeat(np.arange(len(responses.item)), slots)
    count = len(responses.item)
    items = truth.items.take(pa.array(responses.item[row]))
    targets = truth.targets.take(pa.array(responses.target[row]))
    columns = {
        "run": text_column([BENCHMARK], np.zeros(len(row), np.int64)),
        "epoch": pa.array(responses.epoch[row]),
        "judge": text_column(truth.judges, np.tile(judge, count)),
        "call": pa.array(np.tile(call + 1, count)),
        **verdict_columns(labels[:, judge, call].ravel(), reasons.ravel()),
        "benchmark": text_column([BENCHMARK], np.zeros(len(row), np.int64)),
        **{
            name: items[name].combine_chunks()
            for name in ("item", "category", "attack", "behaviour", "pair", "intent")
        },
        **{name: targets[name].combine_chunks() for name in ("target", "developer", "access")},
    }
    provenance = {"settings": settings.to_dict(), "sources": truth.sources}
    return judgements_table(columns, {"simulated": json.dumps(provenance)})


def _map() -> dict[str, Any]:
    """An evidence map in which every judge can give every class."""
    return {
        "classes": list(CLASSES),
        "outside": list(OUTSIDE),
        "judges": {"*": {"classes": list(LABELS)}},
    }


def _targets_table(settings: StudySettings, abilities: NDArray[np.float64]) -> pa.Table:
    developer = np.arange(settings.targets) % settings.developers
    names = numbered("developer", settings.developers)
    return pa.table(
        {
            "target": numbered("target", settings.targets),
            "developer": text_column(names, developer),
            "access": text_column(["closed", "open"], developer % 2),
            **dict(zip(settings.factors, abilities.T, strict=True)),
        }
    )


def _items_table(settings: StudySettings, items: ItemDesign) -> pa.Table:
    behaviours = numbered("behaviour", settings.behaviours)
    attacks = [*(attack for attack, _ in settings.attacks), "benign"]
    factor = np.where(items.harmful, items.kind, len(settings.types))
    discrimination = items.loadings[np.arange(len(factor)), factor]
    named = [behaviours[code] for code in items.behaviour]
    return pa.table(
        {
            "item": [
                f"{behaviour}-{attacks[code]}"
                for behaviour, code in zip(named, items.attack, strict=True)
            ],
            "category": text_column(settings.categories, items.category),
            "attack": text_column(attacks[:-1], items.attack),
            "behaviour": [
                name if harmful else f"{name}-benign"
                for name, harmful in zip(named, items.harmful, strict=True)
            ],
            "pair": text_column(numbered("pair", settings.behaviours), items.behaviour),
            "intent": text_column([Intent.BENIGN, Intent.HARMFUL], items.harmful.astype(np.int64)),
            "response_type": text_column(settings.factors, items.kind),
            "factor": text_column(settings.factors, factor),
            "discrimination": discrimination,
            "intercept": items.intercepts,
            "difficulty": -items.intercepts / discrimination,
        }
    )


def _responses_table(responses: _Responses, targets: pa.Table, items: pa.Table) -> pa.Table:
    return pa.table(
        {
            "target": targets["target"].take(pa.array(responses.target)),
            "item": items["item"].take(pa.array(responses.item)),
            "epoch": responses.epoch,
            "class": text_column(LABELS, responses.true_class),
            "rewarded": responses.rewarded,
            "lost": text_column(REASONS, responses.lost),
        }
    )


def _rates_table(
    settings: StudySettings, items: ItemDesign, rewarded: NDArray[np.float64]
) -> pa.Table:
    """Mean chance of a rewarded response by target, category and attack (null for twins)."""
    width = len(settings.attacks) + 1
    attack = np.where(items.attack == TWIN, width - 1, items.attack)
    cells, cell = np.unique(items.category * width + attack, return_inverse=True)
    counts = np.bincount(cell)
    means = rewarded @ (cell[:, None] == np.arange(len(cells))) / counts
    category, attack = np.divmod(np.tile(cells, settings.targets), width)
    attack[attack == width - 1] = TWIN
    names = [name for name, _ in settings.attacks]
    return pa.table(
        {
            "target": np.repeat(numbered("target", settings.targets), len(cells)).tolist(),
            "intent": text_column(
                [Intent.BENIGN, Intent.HARMFUL], (attack != TWIN).astype(np.int64)
            ),
            "category": text_column(settings.categories, category),
            "attack": text_column(names, attack),
            "items": np.tile(counts, settings.targets),
            "rewarded": means.ravel(),
        }
    )


def _intraclass(
    settings: StudySettings, items: ItemDesign, rewarded: NDArray[np.float64]
) -> NDArray[np.float64]:
    attacks = len(settings.attacks)
    if attacks == 1:
        return np.full((settings.targets, len(settings.types)), np.nan)
    grid = rewarded[:, items.harmful].reshape(settings.targets, settings.behaviours, attacks)
    kinds = items.kind[:: attacks + 1]
    return np.stack(
        [outcome_intraclass(grid[:, kinds == code]) for code in range(len(settings.types))], axis=1
    )


def _missing_table(settings: StudySettings) -> pa.Table:
    rows = [
        {
            "level": "response",
            "judge": None,
            "reason": str(lost.reason),
            "rate": lost.rate,
            "applies_to": "harmful items" if lost.harmful_only else "all items",
        }
        for lost in settings.lost_responses
    ]
    rows += [
        {
            "level": "call",
            "judge": judge.name,
            "reason": str(reason),
            "rate": judge.missing * share,
            "applies_to": f"all items, {settings.comply_failure_factor:g} times as often where a"
            " harmful item is complied with",
        }
        for judge in settings.judges
        for reason, share in JUDGE_FAILURES
    ]
    schema = pa.schema(
        {
            "level": pa.string(),
            "judge": pa.string(),
            "reason": pa.string(),
            "rate": pa.float64(),
            "applies_to": pa.string(),
        }
    )
    table = pa.Table.from_pylist(rows, schema=schema)
    statuses = [str(STATUS_OF_REASON[REASONS.index(row["reason"])]) for row in rows]
    return table.add_column(3, "status", pa.array(statuses, pa.string()))
