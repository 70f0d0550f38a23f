"""Which rows are computed under one null, and what was observed in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from safemetry.construct.dif.abilities import ability_tables
from safemetry.construct.dif.bands import LackingBand, lacking_bands
from safemetry.construct.dif.choices import (
    Matching,
    ObservedStatistic,
    Statistic,
    ability_bands,
    observed_statistic,
    purified,
)
from safemetry.construct.dif.groups import GroupPair
from safemetry.construct.dif.purification import purified_statistics
from safemetry.construct.dif.result import SkippedPart
from safemetry.construct.dif.settings import DifferencesSettings
from safemetry.construct.dif.simulation import SCORE, Comparison, NullModel
from safemetry.irt.parameters import BoolArray
from safemetry.irt.responses import Responses

ALL_ITEMS: Final = "all items"
FEWEST_ANCHORS: Final = 5


@dataclass(frozen=True)
class PlannedRow:
    """A row before its simulations.

    Parameters
    ----------
    headline, scope, prior
        As in `DifferenceRow`.
    items
        Names of the J items of the scope.
    comparison
        What the simulations compute.
    observed
        The statistic of the observed matrix.
    lacking
        Bands that lack a group.
    """

    headline: bool
    scope: str
    prior: str
    items: tuple[str, ...]
    comparison: Comparison
    observed: ObservedStatistic
    lacking: tuple[LackingBand, ...]


@dataclass(frozen=True)
class Plan:
    """The rows of one null.

    Parameters
    ----------
    null
        The model, with a table of abilities for every matching score.
    rows
        Of every pair of groups in turn.
    skipped
        Rows that could not be computed.
    """

    null: NullModel
    rows: tuple[PlannedRow, ...]
    skipped: tuple[SkippedPart, ...]


def make_plan(
    responses: Responses,
    place: tuple[str, str],
    pairs: Sequence[GroupPair],
    null: NullModel,
    settings: DifferencesSettings,
) -> Plan:
    """Choose the rows of one null and compute their observed statistics.

    Parameters
    ----------
    responses
        Of all targets to the items of the scope.
    place
        Scope and name of the priors.
    pairs
        Groups to compare.
    null
        Fitted to `responses`.
    settings
        Which choices are varied.
    """
    scope, prior = place
    whole = scope == ALL_ITEMS
    is_first = whole and prior == next(iter(settings.priors))
    tables = dict(null.tables)
    wanted: list[tuple[GroupPair, Statistic, int, str]] = []
    skipped: list[SkippedPart] = []
    for pair in pairs:
        statistics = settings.statistics(prior, whole=whole)
        wanted += [(pair, statistic, count, SCORE) for statistic, count in statistics]
        if not is_first:
            continue
        anchors, why = _anchors(responses, pair, settings)
        if why:
            names = " and ".join(pair.names)
            skipped.append(SkippedPart(scope, f"{names}, matched on a purified score", why))
            continue
        name = f"anchors of {' and '.join(pair.names)}"
        tables[name] = ability_tables(
            np.where(anchors, null.slopes, 0.0), null.intercepts, null.observed & anchors
        )
        few = min(settings.further_simulations, settings.simulations)
        wanted.append((pair, purified(statistics[0][0]), few, name))
    completed = replace(null, tables=tables)
    rows = []
    for pair, statistic, count, name in wanted:
        observed = observed_statistic(statistic, responses.codes, pair, tables[name])
        rows.append(
            PlannedRow(
                headline=is_first and name == SCORE and statistic == statistics[0][0],
                scope=scope,
                prior=prior,
                items=responses.items,
                comparison=Comparison(statistic, pair, name, observed.absolute, count),
                observed=observed,
                lacking=_lacking(statistic, responses, pair, completed, name),
            )
        )
    return Plan(completed, tuple(rows), tuple(skipped))


def _anchors(
    responses: Responses, pair: GroupPair, settings: DifferencesSettings
) -> tuple[BoolArray, str]:
    """Items that iterated Mantel-Haenszel tests do not flag, or why there are none."""
    _, found = purified_statistics(
        responses.codes[pair.rows], pair.is_focal, settings.bands[0], level=settings.alpha
    )
    count = int(found.members.sum())
    if count == len(found.members):
        return found.members, "no item is flagged by its test, so that purifying changes nothing"
    if count < FEWEST_ANCHORS:
        return found.members, f"{count} items are left to match on"
    return found.members, ""


def _lacking(
    statistic: Statistic,
    responses: Responses,
    pair: GroupPair,
    null: NullModel,
    tables: str,
) -> tuple[LackingBand, ...]:
    if statistic.bands is None or statistic.matching is Matching.REST:
        return ()
    abilities = null.tables[tables].abilities(responses.codes)[None]
    strata = ability_bands(abilities, pair.rows, statistic.bands)[0]
    return lacking_bands(strata, pair.is_focal, pair.names, count=statistic.bands.size)
