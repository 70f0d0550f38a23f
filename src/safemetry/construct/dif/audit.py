"""Item differences between groups of targets, and how much of their number is choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from safemetry.construct.dif.duplicates import near_duplicates
from safemetry.construct.dif.groups import GroupPair, group_pairs
from safemetry.construct.dif.nulls import fit_null
from safemetry.construct.dif.plan import ALL_ITEMS, Plan, make_plan
from safemetry.construct.dif.result import ComparedGroups, DifferencesAudit, SkippedPart
from safemetry.construct.dif.rows import make_row
from safemetry.construct.dif.settings import DifferencesSettings
from safemetry.construct.dif.simulation import (
    SCORE,
    NullModel,
    chunk_starts,
    simulate_statistics,
)
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray
from safemetry.irt.responses import Responses
from safemetry.tasks import Task, TaskSettings, run_tasks


def audit_differences(
    responses: Responses,
    groups: Mapping[str, str],
    *,
    structure: Mapping[str, str] | None = None,
    cluster: Mapping[str, str] | None = None,
    settings: DifferencesSettings | None = None,
    tasks: TaskSettings | None = None,
) -> DifferencesAudit:
    """Compare groups of targets item by item at equal ability.

    Statistics are compared with those of matrices simulated from a 2PL model in one dimension that
    was fitted to all targets: in each matrix every target keeps its group, its ability is drawn
    from its posterior, answers are drawn, abilities are estimated again and all statistics are
    recomputed. Every choice that is known to change the number of flags is varied.

    Parameters
    ----------
    responses
        Of N targets to items answered 0 or 1; cells may be missing.
    groups
        Target -> its group.
    structure
        Item -> its dimension: the items of each dimension are also compared among themselves, with
        targets matched on that dimension alone.
    cluster
        Target -> its cluster (near-duplicates, a model family) where targets are not independent;
        targets that it lacks stand alone. Clusters that span whole groups take any difference
        between the groups into the null.
    settings
        Methods, bandings, priors, penalties, simulations, error rate.
    tasks
        Workers, resuming, progress.

    Returns
    -------
    DifferencesAudit
        Every row of the table, with the headline marked.

    Raises
    ------
    InputError
        Where no two groups are large enough, fewer than two items vary, or an answer is not 0 or 1.

    Notes
    -----
    Thresholds by parametric bootstrap of the largest statistic (Westfall & Young 1993) with the
    plausible values of Mislevy (1991) as abilities.
    """
    chosen = settings or DifferencesSettings()
    if (responses.categories > 2).any():
        raise InputError(
            "item differences are computed from answers 0 and 1",
            fix="say which categories are rewarded",
        )
    grouping = group_pairs(responses.targets, groups, chosen.minimum_group)
    varying = _varying(responses)
    if varying.sum() < 2:
        raise InputError(
            "1 item varies, too few to compare groups" if varying.any() else "no item varies"
        )
    held = responses.select_items(varying)
    clusters = _cluster_labels(held.targets, cluster or {})
    skipped: list[SkippedPart] = []
    plans: dict[str, Plan] = {}
    for scope, members in _scopes(held, structure or {}, chosen.fewest_items, skipped):
        part = held if scope == ALL_ITEMS else held.select_items(members)
        for prior, priors in chosen.priors.items():
            try:
                null = fit_null(part, priors, clusters)
            except InputError as error:
                skipped.append(SkippedPart(scope, f"null with {prior} priors", error.problem))
                continue
            plan = make_plan(part, (scope, prior), grouping.pairs, null, chosen)
            plans[f"{scope} / {prior}"] = plan
            skipped += plan.skipped
    if not plans:
        raise InputError(f"no null could be fitted: {skipped[0].why}")
    rows = [
        make_row(planned, chosen, *found)
        for plan, results in zip(plans.values(), _simulated(plans, chosen, tasks), strict=True)
        for planned, found in zip(plan.rows, results, strict=True)
    ]
    order = {pair.names: place for place, pair in enumerate(grouping.pairs)}
    rows.sort(key=lambda row: (order[row.groups], row.scope != ALL_ITEMS))
    duplicates = near_duplicates(held, cluster)
    first = next(iter(plans.values())).null
    compared = tuple(_compared(pair, first, held) for pair in grouping.pairs)
    return DifferencesAudit(
        rows=tuple(rows),
        compared=compared,
        refused=grouping.refused,
        ungrouped=grouping.ungrouped,
        constant_items=tuple(
            name for name, free in zip(responses.items, varying, strict=True) if not free
        ),
        shared_answers=_named_shares(first, cluster or {}, held.targets),
        duplicates=duplicates,
        skipped=tuple(skipped),
        settings=chosen.resolved(),
        warnings=_warnings(compared, duplicates.clusters, cluster, chosen),
    )


def _varying(responses: Responses) -> BoolArray:
    codes = responses.codes
    found: BoolArray = ((codes == 1).any(axis=0)) & ((codes == 0).any(axis=0))
    return found


def _cluster_labels(targets: Sequence[str], cluster: Mapping[str, str]) -> IntArray:
    """Clusters numbered from 0; a target without one is its own."""
    numbers: dict[tuple[bool, str], int] = {}
    found = []
    for name in targets:
        label = cluster.get(name) or None
        key = (label is not None, name if label is None else label)
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, np.int64)


def _scopes(
    responses: Responses,
    structure: Mapping[str, str],
    fewest: int,
    skipped: list[SkippedPart],
) -> list[tuple[str, BoolArray]]:
    """All items, then the items of each dimension that has enough."""
    scopes = [(ALL_ITEMS, np.ones(len(responses.items), bool))]
    labels = np.array([structure.get(item) or "" for item in responses.items])
    dimensions = sorted({label for label in labels if label})
    if len(dimensions) == 1 and (labels != "").all():
        return scopes
    for name in dimensions:
        members = labels == name
        if (count := int(members.sum())) < fewest:
            why = f"{count} items vary, fewer than {fewest}: too few to match targets on"
            skipped.append(SkippedPart(name, "all rows", why))
        else:
            scopes.append((name, members))
    return scopes


def _simulated(
    plans: Mapping[str, Plan], settings: DifferencesSettings, tasks: TaskSettings | None
) -> list[list[tuple[FloatArray, IntArray]]]:
    """For each plan and row: simulated maxima, and how often each item's statistic was reached."""
    work = [
        (name, start, count)
        for name, plan in plans.items()
        for start, count in chunk_starts(settings.simulations, plan.null.observed.size)
    ]
    results = run_tasks(
        simulate_statistics,
        [
            Task(f"{name} {start}", {"null": name, "start": start, "matrices": count})
            for name, start, count in work
        ],
        seed=settings.seed,
        shared={
            "nulls": {name: plan.null for name, plan in plans.items()},
            "comparisons": {
                name: [row.comparison for row in plan.rows] for name, plan in plans.items()
            },
        },
        settings=tasks or TaskSettings(jobs=1, quiet=True),
    )
    found = []
    for name, plan in plans.items():
        parts = [
            (start, result)
            for (of, start, _), result in zip(work, results, strict=True)
            if of == name
        ]
        found.append([_joined(parts, plan, place) for place in range(len(plan.rows))])
    return found


def _joined(
    parts: Sequence[tuple[int, Mapping[str, Any]]], plan: Plan, place: int
) -> tuple[FloatArray, IntArray]:
    """The chunks of one row; a chunk leaves out rows that need fewer simulations."""
    limits = [row.comparison.simulations for row in plan.rows]
    maxima, reached = [], []
    for start, result in parts:
        if limits[place] > start:
            here = sum(limit > start for limit in limits[:place])
            maxima.append(result["maxima"][here])
            reached.append(result["at_least"][here])
    return np.concatenate(maxima), np.sum(reached, axis=0)


def _compared(pair: GroupPair, null: NullModel, responses: Responses) -> ComparedGroups:
    abilities = null.tables[SCORE].abilities(responses.codes)
    spread = float(abilities.std())
    chosen, label = abilities[pair.rows], null.cluster[pair.rows]
    gap = float(chosen[pair.is_focal].mean() - chosen[~pair.is_focal].mean())
    independent = tuple(len(np.unique(label[side])) for side in (~pair.is_focal, pair.is_focal))
    return ComparedGroups(
        pair.names,
        pair.sizes,
        (independent[0], independent[1]),
        gap / spread if spread > 0 else 0.0,
    )


def _named_shares(
    null: NullModel, cluster: Mapping[str, str], targets: Sequence[str]
) -> dict[str, float]:
    sizes = np.bincount(null.cluster)
    return {
        cluster[name]: float(null.shared[label])
        for name, label in zip(targets, null.cluster, strict=True)
        if sizes[label] > 1
    }


def _warnings(
    audit: Sequence[ComparedGroups],
    duplicates: Mapping[str, str],
    cluster: Mapping[str, str] | None,
    settings: DifferencesSettings,
) -> tuple[str, ...]:
    said = []
    if duplicates and not cluster:
        said.append(
            f"{len(duplicates)} targets answer nearly alike ({', '.join(sorted(duplicates)[:4])}"
            f"{', ...' if len(duplicates) > 4 else ''}); they are not independent, and thresholds "
            "that take them for independent are too low: name their families with --families"
        )
    for pair in audit:
        for name, count, targets in zip(pair.groups, pair.independent, pair.targets, strict=True):
            if count < min(targets, settings.minimum_group):
                said.append(
                    f"group {name} has {count} independent "
                    f"cluster{'s' if count != 1 else ''} in {targets} targets: its "
                    "differences may be those of a few families"
                )
        if abs(pair.impact) > 1:
            said.append(
                f"{pair.groups[1]} and {pair.groups[0]} differ by {pair.impact:+.2f} standard "
                "deviations in ability: few targets are comparable, and little can be seen"
            )
    return tuple(dict.fromkeys(said))
