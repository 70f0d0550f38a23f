"""From a table of counts to claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np

from safemetry.claims import Claim, Missing, Projection, Scope
from safemetry.errors import InputError, MixedIntentError
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.schema import UNSTATED, Intent
from safemetry.evidence.success import SuccessRule
from safemetry.findings import resolved
from safemetry.rates import attempts, clusters, intervals
from safemetry.rates.codes import FloatArray, IntArray, combine, renumber
from safemetry.rates.contents import cells, group_contents
from safemetry.rates.counts import CountTable
from safemetry.rates.frontier import frontier_points
from safemetry.rates.measured import Measured, Selection
from safemetry.rates.metrics import METRIC_NAMES, METRICS, REFUSAL_RATES, Metric
from safemetry.rates.pairs import pair_counts
from safemetry.rates.results import AnyOfK, RatesFinding, WorstCell
from safemetry.rates.settings import RateSettings
from safemetry.rates.threads import collecting_later, side_by_side

FAILURES: Final = ("attack_success_rate", "over_refusal_rate")
"""Rates of which the largest over several groups is named."""


class Measurement:
    """One run over a table of counts; holds what every claim shares."""

    def __init__(
        self, evidence: Evidence, settings: RateSettings, rule: SuccessRule, table: CountTable
    ) -> None:
        self.evidence = evidence
        self.settings = settings
        self.rule = rule
        self.table = table
        self.groups = table.groups(settings.by)
        self.warnings = [*evidence.warnings, *table.warnings]

    def finding(self) -> RatesFinding:
        """Every claim that the settings ask for, and what is read off them together."""
        with collecting_later():
            return self._finding()

    def _finding(self) -> RatesFinding:
        claims, pairs = self._every_claim()
        claims.sort(key=_claim_order)
        unclassified = int(self.table.calls[self._rows_of(None)].sum())
        if unclassified and self.rule.threshold is None:
            self.warnings.append(
                f"{unclassified:,} judge calls are on items of unknown intent and enter no rate; "
                "say what the items ask for in the map, such as intent: harmful."
            )
        self._warn_of_absent(claims)
        self._warn_of_runs()
        return RatesFinding(
            settings=self._resolved(),
            warnings=tuple(dict.fromkeys(self.warnings)),
            claims=tuple(claims),
            pairs=tuple(pairs),
            frontier=tuple(frontier_points(claims)),
            worst=tuple(self._worst(claims)),
            any_of_k=tuple(self._any_of_k()),
            unclassified=unclassified,
        )

    def _every_claim(self) -> tuple[list[Claim], list[dict[str, Any]]]:
        """The claims of all rates, and the summary of the pairs."""
        rates: dict[Intent | None, list[Metric]] = {}
        for metric in self._metrics():
            rates.setdefault(metric.intent, []).append(metric)
        pairs: list[dict[str, Any]] = []
        # Rates over the same items share what is found for them; others have nothing in common.
        steps: list[Callable[[], list[Claim]]] = []
        steps += [partial(self._claims, metrics) for metrics in rates.values()]
        if self._wanted("refusal_precision") and self.rule.threshold is None:
            steps.append(self._precision)
        if self._wanted("discrimination_rate"):
            steps.append(partial(self._discrimination, pairs))
        found = side_by_side(steps, self.evidence.threads)
        return [claim for claims in found for claim in claims], pairs

    def _resolved(self) -> dict[str, Any]:
        return resolved(
            {
                "by": self.settings.by,
                "success": str(self.rule),
                "success_digest": self.rule.digest(self.evidence.map.classes),
                "classes": self.evidence.map.classes,
                "outside": self.evidence.map.outside,
                "cluster": self.settings.cluster,
                "level": self.settings.level,
                "exact": self.settings.exact,
                "inference": self.settings.inference,
                "population": self.settings.population,
                "volume": self.settings.volume,
                "metrics": self.settings.metrics,
                "any_of": self.settings.any_of,
                "map_digest": self.evidence.map.digest,
                "sources": self.evidence.sources,
            }
        )

    # -- which rates -----------------------------------------------------------------------------

    def _wanted(self, name: str) -> bool:
        return not self.settings.metrics or name in self.settings.metrics

    def _metrics(self) -> list[Metric]:
        wanted = [
            metric for metric in METRICS if self._wanted(metric.name) and metric.applies(self.rule)
        ]
        if "refusal_rate" in self.settings.metrics:
            present = [intent for intent in Intent if self._rows_of(intent).size]
            if self._mixes_intents():
                raise MixedIntentError(
                    f"a refusal rate over {' and '.join(present)} items mixes safety with "
                    "over-refusal; ask for it --by intent, or --filter intent=harmful"
                )
            wanted = [metric for metric in wanted if metric.name != "refusal_rate"]
            rates = [REFUSAL_RATES[intent] for intent in present]
            wanted += [metric for metric in rates if metric.applies(self.rule)]
        return wanted

    def _mixes_intents(self) -> bool:
        """Whether a group holds items of more than one known intent."""
        known = ~self.table.has_intent(None)
        pairs = np.stack([self.groups.codes, self.table.intent.codes])[:, known]
        return bool((np.bincount(np.unique(pairs, axis=1)[0]) > 1).any())

    def _rows_of(self, intent: Intent | None) -> IntArray:
        return np.flatnonzero(self.table.has_intent(intent))

    # -- claims ----------------------------------------------------------------------------------

    def _claims(self, metrics: Sequence[Metric]) -> list[Claim]:
        """The claims of several rates over the items of one intent."""
        rows = self._rows_of(metrics[0].intent)
        if not rows.size:
            return []
        # A rate and its complement hold for the same rows: the same scopes, the same missing.
        selection = self._selection(rows)
        complements: dict[str, Measured] = {}
        claims: list[Claim] = []
        for metric in metrics:
            measured = complements.get(metric.name)
            if measured is None:
                events = metric.events(self.table, self.rule)[rows]
                trials = self.table.judged[rows]
                measured, others = self._measured(selection, events, trials, metric.complement)
                complements |= others
            claims += self._make_claims(metric.name, selection, measured)
        return claims

    def _selection(self, rows: IntArray) -> Selection:
        codes, present = _renumber(self.groups.codes[rows])
        cell, first = cells(codes, self.table.cluster.codes[rows])
        return Selection(
            cell,
            codes[first],
            tuple(self._missing(rows, codes, len(present))),
            tuple(self._scopes(rows, codes, present)),
        )

    def _make_claims(self, name: str, selection: Selection, measured: Measured) -> list[Claim]:
        """Claims over rows of the table whose trials are responses."""
        bounds = intervals.missing_bounds(
            measured.events, measured.trials, [item.total for item in selection.missing]
        )
        low, high = _lists(bounds.lower, bounds.upper)
        return [
            self._claim(name, measured, index, missing, (low[index], high[index]), scope)
            for index, (scope, missing) in enumerate(
                zip(selection.scopes, selection.missing, strict=True)
            )
        ]

    def _measured(
        self,
        selection: Selection,
        events: FloatArray,
        trials: IntArray | FloatArray,
        complement: str | None = None,
    ) -> tuple[Measured, dict[str, Measured]]:
        """Rates of selected rows, and those of the complement by name where it is wanted too."""
        counts = (selection.group, selection.totals(events), selection.totals(trials))
        choices = self._choices(selection.group, counts[2], len(selection.scopes))
        if complement is None or not self._wanted(complement):
            return Measured.of(clusters.clustered_rates(*counts, **choices)), {}
        rates, others = clusters.complementary_rates(*counts, **choices)
        return Measured.of(rates), {complement: Measured.of(others)}

    def _choices(self, group: IntArray, trials: FloatArray, groups: int) -> dict[str, Any]:
        """How rates of groups are computed from their clusters, one row a cluster."""
        population = self.settings.population
        seen = int(np.bincount(group[trials > 0]).max(initial=0))
        if population is not None and population < seen:
            raise InputError(
                f"a population of {population:,} is smaller than the {seen:,} clusters seen",
                fix="count the independent items that the sample was drawn from",
            )
        return {
            "groups": groups,
            "level": self.settings.level,
            "confidence": self.settings.level,
            "exact": self.settings.exact,
            "inference": "sampled" if self.settings.inference == "sampled" else "fixed",
            "population": population,
        }

    def _claim(
        self,
        name: str,
        measured: Measured,
        index: int,
        missing: Missing,
        bounds: tuple[float | None, float | None],
        scope: Scope,
    ) -> Claim:
        events, trials = measured.events[index], measured.trials[index]
        why: dict[str, str] = {}
        low, high = bounds
        known_bounds = (low, high) if low is not None and high is not None else None
        if trials == 0:
            reason = "no response was judged"
            for part in (
                "estimate",
                "interval",
                "method",
                "effective_trials",
                "ceiling",
                "rule_of_three",
                "projection",
            ):
                why[part] = reason
            if known_bounds is None:
                why["bounds_if_missing"] = reason
            return Claim(
                name,
                None,
                None,
                self.settings.level,
                None,
                0.0,
                0.0,
                0,
                None,
                missing,
                known_bounds,
                None,
                None,
                None,
                self.settings.inference,
                scope,
                why,
            )
        interval = (measured.lower[index], measured.upper[index])
        estimate, ceiling = measured.estimate[index], measured.ceiling[index]
        three = measured.rule_of_three[index]
        if events:
            why["rule_of_three"] = "events were seen"
        projection = None
        if self.settings.volume is None:
            why["projection"] = "no volume was given"
        else:
            volume = self.settings.volume
            projection = Projection(
                volume,
                volume * estimate,
                (volume * interval[0], volume * interval[1]),
                volume * ceiling,
            )
        return Claim(
            metric=name,
            estimate=estimate,
            interval=interval,
            level=self.settings.level,
            method=measured.method[index],
            events=events,
            trials=trials,
            clusters=measured.clusters[index],
            effective_trials=measured.effective_trials[index],
            missing=missing,
            bounds_if_missing=known_bounds,
            ceiling=ceiling,
            rule_of_three=None if events else three,
            projection=projection,
            inference=self.settings.inference,
            scope=scope,
            why=why,
        )

    def _missing(self, rows: IntArray, codes: IntArray, groups: int) -> list[Missing]:
        reasons = self.table.reason.values
        lost = self.table.responses[rows] - self.table.judged[rows]
        where = codes * len(reasons) + self.table.reason.codes[rows]
        totals = np.bincount(where, weights=lost, minlength=groups * len(reasons))
        table = totals.reshape(groups, len(reasons)).astype(np.int64)
        return [
            Missing(
                total,
                {
                    str(reason): number
                    for reason, number in zip(reasons, counts, strict=True)
                    if number
                },
            )
            for total, counts in zip(table.sum(axis=1).tolist(), table.tolist(), strict=True)
        ]

    # -- the worst cell ---------------------------------------------------------------------------

    def _worst(self, claims: Sequence[Claim]) -> Iterable[WorstCell]:
        """The group in which each target fails most, at a level that allows for the choice."""
        boards: dict[tuple[str | None, ...], list[Claim]] = {}
        for claim in claims:
            if claim.metric in FAILURES and claim.estimate is not None and claim.scope.by:
                scope = claim.scope
                key = (claim.metric, scope.benchmark, scope.target, scope.judge)
                boards.setdefault(key, []).append(claim)
        chosen: dict[tuple[str, int], list[int]] = {}
        for board, members in boards.items():
            if len(members) > 1:
                worst = max(members, key=lambda claim: claim.estimate or 0.0)
                chosen.setdefault((str(board[0]), len(members)), []).append(self._group_of(worst))
        for (name, count), groups in chosen.items():
            level = intervals.simultaneous_level(self.settings.level, count)
            stricter = copy(self)
            stricter.settings = replace(self.settings, level=level)
            for claim in stricter.claims_of(name, groups):
                yield WorstCell(claim, count, self.settings.level)

    def claims_of(self, name: str, groups: Sequence[int]) -> list[Claim]:
        """The claims of one metric for some groups alone."""
        metric = next(metric for metric in METRICS if metric.name == name)
        rows = self._rows_of(metric.intent)
        rows = rows[np.isin(self.groups.codes[rows], groups)]
        selection = self._selection(rows)
        events = metric.events(self.table, self.rule)[rows]
        measured, _ = self._measured(selection, events, self.table.judged[rows])
        return self._make_claims(name, selection, measured)

    # -- scopes ----------------------------------------------------------------------------------

    def _scopes(self, rows: IntArray, codes: IntArray, present: IntArray) -> list[Scope]:
        scopes = []
        held = group_contents(self.table, rows, codes, len(present))
        success, digest = str(self.rule), self.rule.digest(self.evidence.map.classes)
        for group, contents in zip(present, held, strict=True):
            label = self.groups.labels[group]
            target = str(label["target"])
            scopes.append(
                Scope(
                    target=target,
                    target_settings=self.evidence.targets.get(target),
                    benchmark=label["benchmark"],
                    items=contents.items,
                    attack_set=contents.attacks,
                    epochs=contents.epochs,
                    language=", ".join(contents.languages) or None,
                    judge=str(label["judge"]),
                    success=success,
                    success_digest=digest,
                    by={name: label[name] or UNSTATED for name in self.settings.by},
                )
            )
        return scopes

    def _group_of(self, claim: Claim) -> int:
        scope = claim.scope
        key = (scope.benchmark, scope.target, scope.judge, *scope.by.values())
        return self._group_numbers[key]

    @cached_property
    def _group_numbers(self) -> dict[tuple[str | None, ...], int]:
        return {
            (
                label["benchmark"],
                str(label["target"]),
                str(label["judge"]),
                *(label[name] or UNSTATED for name in self.settings.by),
            ): number
            for number, label in enumerate(self.groups.labels)
        }

    # -- rates over two intents ------------------------------------------------------------------

    def _precision(self) -> list[Claim]:
        """Refused harmful over all refused, only where both kinds of items were asked."""
        both = self._groups_with_both()
        rows = np.flatnonzero(
            np.isin(self.groups.codes, both)
            & (self.table.has_intent(Intent.HARMFUL) | self.table.has_intent(Intent.BENIGN))
        )
        if not rows.size:
            return []
        harmful = self.table.has_intent(Intent.HARMFUL)[rows]
        refused = self.table.refused[rows].astype(np.float64)
        lost = (self.table.responses - self.table.judged)[rows]
        codes, count = self.groups.codes[rows], len(self.groups.labels)
        lost_harmful = np.bincount(codes, weights=lost * harmful, minlength=count).tolist()
        lost_benign = np.bincount(codes, weights=lost * ~harmful, minlength=count).tolist()
        selection = self._selection(rows)
        measured, _ = self._measured(selection, refused * harmful, refused)
        claims = self._make_claims("refusal_precision", selection, measured)
        groups = [self._group_of(claim) for claim in claims]
        return [
            self._with_precision_bounds(claim, lost_harmful[group], lost_benign[group])
            for claim, group in zip(claims, groups, strict=True)
        ]

    @staticmethod
    def _with_precision_bounds(claim: Claim, lost_harmful: float, lost_benign: float) -> Claim:
        """Missing responses to benign items could all be refusals, those to harmful ones too."""
        lowest, highest = claim.trials + lost_benign, claim.trials + lost_harmful
        why = dict(claim.why)
        if claim.trials == 0:
            why = dict.fromkeys(why, "no response was refused")
        if claim.trials + lost_harmful + lost_benign == 0:
            why["bounds_if_missing"] = "no response was refused"
            return replace(claim, bounds_if_missing=None, why=why)
        why.pop("bounds_if_missing", None)
        # Without a refusal to a benign item, none can lower the rate, and the other way round.
        low = claim.events / lowest if lowest else 1.0
        high = (claim.events + lost_harmful) / highest if highest else 0.0
        return replace(claim, bounds_if_missing=(low, high), why=why)

    def _groups_with_both(self) -> IntArray:
        codes, count = self.groups.codes, len(self.groups.labels)
        harmful, benign = (
            np.bincount(codes[self._rows_of(intent)], minlength=count)
            for intent in (Intent.HARMFUL, Intent.BENIGN)
        )
        return np.flatnonzero((harmful > 0) & (benign > 0))

    def _discrimination(self, summary: list[dict[str, Any]]) -> list[Claim]:
        """The claims about matched pairs, of which one entry each goes into the summary."""
        pairs = pair_counts(self.table, self.groups.codes, self.rule)
        if not len(pairs):
            return []
        codes, present = _renumber(pairs.group)
        complete = pairs.complete
        group, trials = codes[complete], np.ones(int(complete.sum()))
        measured = Measured.of(
            clusters.clustered_rates(
                group,
                pairs.value[complete],
                trials,
                **self._choices(group, trials, len(present)),
            )
        )
        rows = pairs.rows
        scopes = self._scopes(rows, np.searchsorted(present, self.groups.codes[rows]), present)
        count = np.bincount(codes)
        lost = np.bincount(codes[~complete], minlength=len(present))
        # A verdict can also be missing inside a pair that is judged on both sides.
        low = (np.bincount(codes, weights=pairs.lowest) / count).tolist()
        high = (np.bincount(codes, weights=pairs.highest) / count).tolist()
        claims = []
        for index, scope in enumerate(scopes):
            half = int(lost[index])
            missing = Missing(half, {"one side of the pair was not judged": half} if half else {})
            ends = (low[index], high[index])
            claim = self._claim("discrimination_rate", measured, index, missing, ends, scope)
            alone = int(pairs.alone[self._group_of(claim)])
            claims.append(claim)
            partly = int((pairs.complete & (pairs.lowest < pairs.highest) & (codes == index)).sum())
            summary.append(_pair_summary(claim, int(count[index]), half, partly, alone))
        return claims

    # -- any of k --------------------------------------------------------------------------------

    def _any_of_k(self) -> Iterable[AnyOfK]:
        rows = self._rows_of(Intent.HARMFUL)
        if not rows.size or not self.settings.any_of:
            return
        codes, present = _renumber(self.groups.codes[rows])
        cell, first = cells(codes, self.table.cluster.codes[rows])
        tried = np.bincount(cell, weights=self.table.judged[rows]).astype(np.int64)
        won = np.bincount(cell, weights=self.table.success[rows]).astype(np.int64)
        edges = np.searchsorted(codes[first], np.arange(len(present) + 1))
        for index, group in enumerate(present):
            mine = slice(edges[index], edges[index + 1])
            for tries in self.settings.any_of:
                result = attempts.mean_any_of_k(
                    won[mine], tried[mine], tries, level=self.settings.level
                )
                ends = (result.lower, result.upper)
                label = self.groups.labels[group]
                total = int(tried[mine].sum())
                why = {}
                if label["benchmark"] is None:
                    why["benchmark"] = "not stated by the source"
                if result.estimate is None:
                    why |= dict.fromkeys(
                        ("estimate", "interval"), f"no behaviour was tried {tries} times"
                    )
                if not total:
                    why["per_attempt"] = "no response was judged"
                yield AnyOfK(
                    benchmark=label["benchmark"],
                    target=str(label["target"]),
                    judge=str(label["judge"]),
                    by={name: label[name] or UNSTATED for name in self.settings.by},
                    attempts=tries,
                    estimate=result.estimate,
                    interval=None if ends[0] is None or ends[1] is None else (ends[0], ends[1]),
                    behaviours=result.behaviours,
                    left_out=result.left_out,
                    per_attempt=float(won[mine].sum()) / total if total else None,
                    why=why,
                )

    def _warn_of_absent(self, claims: Sequence[Claim]) -> None:
        """Say what was asked for, or is there, and has no claim."""
        found = {claim.metric for claim in claims}
        absent = [name for name in self.settings.metrics if name not in found]
        if absent:
            said = " or ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in absent)
            self.warnings.append(f"Nothing here has {said} under {self.rule}.")
        contested = int(self.table.calls[self._rows_of(Intent.CONTESTED)].sum())
        if contested and self.rule.threshold is not None:
            self.warnings.append(
                f"{contested:,} judge calls are on contested items and enter no rate: these have a "
                "refusal rate, which needs a boundary between classes."
            )

    def _warn_of_runs(self) -> None:
        """Say where one target was run more than once and the runs are pooled."""
        table = self.table
        if "run" in self.settings.by or table.columns["run"].codes.max(initial=0) == 0:
            return
        parts = [table.columns[name] for name in ("benchmark", "target", "judge")]
        keys, _ = combine([*parts, table.item], len(table))
        runs, _ = combine([table.columns["run"]], len(table))
        pairs = np.unique(np.stack([keys, runs]), axis=1)
        repeated = np.flatnonzero(np.bincount(pairs[0]) > 1)
        if repeated.size:
            targets = np.unique(table.columns["target"].codes[np.isin(keys, repeated)])
            names = ", ".join(str(table.columns["target"].values[code]) for code in targets[:5])
            more = f" and {len(targets) - 5} more" if len(targets) > 5 else ""
            self.warnings.append(
                f"Several runs hold the same items for {names}{more}; they are pooled. Use --by "
                "run, or --filter run=ID, to keep them apart."
            )


def _pair_summary(claim: Claim, count: int, lost: int, partly: int, alone: int) -> dict[str, Any]:
    silent = {"benchmark": "not stated by the source"}
    return {
        "benchmark": claim.scope.benchmark,
        "target": claim.scope.target,
        "judge": claim.scope.judge,
        "by": dict(claim.scope.by),
        "pairs": count,
        "judged_on_both_sides": count - lost,
        "judged_in_part": partly,
        "safe_and_helpful": claim.events,
        "without_a_twin": alone,
        "why": silent if claim.scope.benchmark is None else {},
    }


def _renumber(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Number the groups that occur; return that of each row, and what each is called."""
    code, first = renumber(codes, int(codes.max(initial=0)) + 1)
    return code, codes[first]


def _lists(lower: Any, upper: Any) -> tuple[Any, Any]:
    return np.ma.asarray(lower).tolist(), np.ma.asarray(upper).tolist()


def _claim_order(claim: Claim) -> tuple[Any, ...]:
    scope = claim.scope
    return (
        scope.benchmark or "",
        scope.target,
        scope.judge,
        tuple(str(value or "") for value in scope.by.values()),
        METRIC_NAMES.index(claim.metric),
    )
