"""Two targets or releases on the same items: `compare_rates`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final

import numpy as np

from safemetry.claims import Claim, require_comparable
from safemetry.errors import InputError, ScopeMismatchError
from safemetry.evidence.evidence import Evidence, as_evidence, distinct
from safemetry.evidence.identity import JudgeIdentity, by_judge
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import UNSTATED
from safemetry.evidence.success import SuccessRule
from safemetry.findings import Finding, plain
from safemetry.rates import paired
from safemetry.rates.codes import FloatArray, IntArray
from safemetry.rates.counts import CountTable, count_responses
from safemetry.rates.measure import measure_counts
from safemetry.rates.metrics import METRICS, Metric
from safemetry.rates.settings import RateSettings

SOURCES: Final = (
    (
        "McNemar, Q. (1947). Note on the sampling error of the difference between correlated "
        "proportions or percentages. Psychometrika 12, 153-157."
    ),
    (
        "Tango, T. (1998). Equivalence test and confidence interval for the difference "
        "in proportions "
        "for the paired-sample design. Statistics in Medicine 17, 891-908."
    ),
    (
        "Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian "
        "Journal of Statistics 6, 65-70."
    ),
    (
        "Connor, R. J. (1987). Sample size for testing differences in proportions for the "
        "paired-sample design. Biometrics 43, 207-211."
    ),
)
_COMPARED: Final = ("attack_success_rate", "help_rate", "refusal_rate", "rewarded_rate")
RUN_PREFIX: Final = "run:"


@dataclass(frozen=True)
class CompareSettings:
    """Settings of `compare_rates`, checked when made.

    Parameters
    ----------
    by
        Columns of the judgements table to compare within; p-values are adjusted over the groups.
    success
        Success rule; None for the default of the evidence.
    cluster
        Item column whose values are the independent units; where it is null, the item.
    level
        Confidence of intervals, in (0, 1).
    power
        Power at which the minimum detectable difference is given, in (0, 1).
    shared_items
        Compare on the items that both sides have, instead of refusing where their sets differ.
    permutations
        Sign flips drawn where not all are counted.
    seed
        Seed of the draws.
    """

    by: tuple[str, ...] = ()
    success: SuccessRule | None = None
    cluster: str = "behaviour"
    level: float = 0.95
    power: float = 0.8
    shared_items: bool = False
    permutations: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("level", self.level), ("power", self.power)):
            if not 0 < value < 1:
                raise InputError(f"{name} {value:g} is not between 0 and 1")
        if self.permutations < 100:
            raise InputError(
                f"{self.permutations} permutations are too few", fix="use 1,000 or more"
            )


@dataclass(frozen=True)
class Comparison:
    """One rate of the candidate against that of the baseline, on the items judged for both.

    Parameters
    ----------
    metric
        Name of the rate.
    judge
        The judge, or the panel.
    by
        Group of the comparison.
    baseline, candidate
        The claim of each side, over all its items.
    baseline_name, candidate_name
        What tells the sides apart: the target, with its run or source where both have the same.
    difference
        Candidate minus baseline, over items judged on both sides.
    interval
        Two-sided interval of the difference.
    test
        ``mcnemar_exact`` or ``sign_flip``.
    p_value, p_adjusted
        Two-sided; adjusted by Holm over the groups of the same metric and judge.
    discordant
        Items with the event for the baseline only, and for the candidate only (shares of repeats
        count in fractions).
    pairs
        Items judged on both sides.
    unpaired
        Items of either side without a verdict on the other.
    clusters
        Independent groups of items.
    minimum_detectable
        Smallest true difference that this comparison finds with probability `power`.
    conclusion
        ``differs`` or ``no_difference_shown`` by `p_adjusted`; ``undecided`` where one of `p_value`
        and `interval` rules out a difference of zero and the other does not.
    """

    metric: str
    judge: str
    by: Mapping[str, str | None]
    baseline: Claim
    candidate: Claim
    baseline_name: str
    candidate_name: str
    difference: float | None
    interval: tuple[float, float] | None
    level: float
    test: str | None
    p_value: float | None
    p_adjusted: float | None
    discordant: tuple[float, float]
    pairs: int
    unpaired: int
    clusters: int
    minimum_detectable: float | None
    power: float
    conclusion: str | None = None
    why: Mapping[str, str] = field(default_factory=dict)

    def sentence(self) -> str:
        """The comparison in words."""
        sides = f"{self.candidate_name} against {self.baseline_name}"
        group = "".join(f", {name} {value}" for name, value in self.by.items())
        if self.difference is None or self.interval is None or self.p_adjusted is None:
            return f"{self.metric}, {sides}{group}: unknown ({self.why.get('difference', '')})."
        low, high = (100 * end for end in self.interval)
        scarce = "clusters" if self.test == "sign_flip" else "discordant pairs"
        seen = {
            "differs": "differs",
            "undecided": f"undecided: test and interval disagree, too few {scarce}",
        }.get(self.conclusion or "", "no difference shown")
        least = (
            f"; differences under {100 * self.minimum_detectable:.1f} points would mostly be missed"
            if self.minimum_detectable is not None
            else ""
        )
        return (
            f"{self.metric}, {sides} (judge {self.judge}{group}): {100 * self.difference:+.1f} "
            f"points [{low:+.1f}, {high:+.1f}], p = {self.p_adjusted:.2g}, {seen}{least}."
        )


@dataclass(frozen=True, kw_only=True)
class ComparisonFinding(Finding):
    """Comparisons of a candidate with a baseline."""

    command: ClassVar[str] = "compare"
    sources: ClassVar[tuple[str, ...]] = SOURCES

    comparisons: tuple[Comparison, ...]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per comparison, without the claims of the sides."""
        hidden = {"baseline", "candidate"}
        return [
            {name: value for name, value in plain(entry).items() if name not in hidden}
            for entry in self.comparisons
        ]

    def sentence(self) -> str:
        """The comparisons, a sentence each."""
        return "\n".join(entry.sentence() for entry in self.comparisons)


def select_side(data: Any, side: str) -> Evidence:
    """The part of the evidence that a side names: a target, or ``run:ID``.

    Raises
    ------
    InputError
        Where nothing has that name.
    """
    evidence = as_evidence(data)
    if side.startswith(RUN_PREFIX):
        return evidence.filter(run=side.removeprefix(RUN_PREFIX))
    if side not in evidence.targets_seen:
        raise InputError(
            f"there is no target {side!r}",
            fix=f"the targets are {', '.join(evidence.targets_seen[:20])}; a run is written run:ID",
        )
    return evidence.filter(target=side)


def compare_rates(
    data: Any,
    baseline: str | Evidence,
    candidate: str | Evidence,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    settings: CompareSettings | None = None,
    **options: Any,
) -> ComparisonFinding:
    """Compare two targets or releases on the same items.

    With one row per cluster the test is the exact one of McNemar; with several, signs of the
    differences between clusters are flipped.

    Parameters
    ----------
    data
        Evidence or a table; None where both sides are evidence.
    baseline, candidate
        A target, ``run:ID``, or evidence of its own, holding one target each.
    evidence_map
        A map, or a mapping with its entries.
    settings
        Settings; or give their fields as options.
    **options
        Fields of `CompareSettings`.

    Raises
    ------
    InputError
        Where a side is not there, or holds several targets.
    ScopeMismatchError
        Where the two sides differ in anything but the target or the run, such as in the identity
        of a judge.
    """
    chosen = settings or _settings(options)
    whole = None if data is None else as_evidence(data, evidence_map)
    sides = [
        side if isinstance(side, Evidence) else select_side(whole, side)
        for side in (baseline, candidate)
    ]
    return _Comparing(sides[0], sides[1], chosen).finding()


def _settings(options: Mapping[str, Any]) -> CompareSettings:
    given = dict(options)
    if "by" in given:
        given["by"] = (given["by"],) if isinstance(given["by"], str) else tuple(given["by"])
    if isinstance(given.get("success"), str):
        given["success"] = SuccessRule.parse(given["success"])
    return CompareSettings(**given)


@dataclass(frozen=True)
class _Side:
    """Counts of one side, and its claims by metric, judge and group."""

    evidence: Evidence
    table: CountTable
    claims: Mapping[tuple[Any, ...], Claim]


class _Comparing:
    def __init__(self, baseline: Evidence, candidate: Evidence, settings: CompareSettings) -> None:
        self.settings = settings
        self.rule = settings.success or baseline.default_rule
        self.warnings: list[str] = []
        for name, side in (("baseline", baseline), ("candidate", candidate)):
            if len(side.targets_seen) != 1:
                raise InputError(
                    f"the {name} holds {len(side.targets_seen)} targets "
                    f"({', '.join(side.targets_seen[:6])})",
                    fix="name one target, or choose it with --filter target=NAME",
                )
        if settings.shared_items:
            baseline, candidate = self._on_shared_items(baseline, candidate)
        self.names = _names(baseline, candidate)
        self.baseline, self.candidate = self._side(baseline), self._side(candidate)

    def _on_shared_items(
        self, baseline: Evidence, candidate: Evidence
    ) -> tuple[Evidence, Evidence]:
        ids = [set(side.items["item"].to_pylist()) for side in (baseline, candidate)]
        shared = sorted(ids[0] & ids[1])
        if not shared:
            raise InputError("the two sides have no item in common")
        left = [len(known) - len(shared) for known in ids]
        if any(left):
            self.warnings.append(
                f"Compared on {len(shared):,} shared items; {left[0]:,} of the baseline and "
                f"{left[1]:,} of the candidate are left out."
            )
        return baseline.only_items(shared), candidate.only_items(shared)

    def _side(self, evidence: Evidence) -> _Side:
        table = count_responses(
            evidence, self.rule, by=self.settings.by, cluster=self.settings.cluster
        )
        rates = measure_counts(
            evidence,
            table,
            RateSettings(
                by=self.settings.by,
                success=self.rule,
                cluster=self.settings.cluster,
                level=self.settings.level,
            ),
        )
        self.warnings += rates.warnings
        claims = {
            (claim.metric, claim.scope.judge, *claim.scope.by.values()): claim
            for claim in rates.claims
        }
        if len(claims) < len(rates.claims):
            raise InputError(
                f"{evidence.targets_seen[0]} has several benchmarks",
                fix="compare within one, with --filter benchmark=NAME",
            )
        return _Side(evidence, table, claims)

    def finding(self) -> ComparisonFinding:
        rng = np.random.default_rng(self.settings.seed)
        keys = [
            key
            for key in self.baseline.claims
            if key in self.candidate.claims and key[0] in _COMPARED
        ]
        self._warn_of_one_sided()
        self._refuse_swapped({key[1] for key in keys})
        comparisons = [self._compare(key, rng) for key in keys]
        if not comparisons:
            judges = [
                sorted({key[1] for key in side.claims}) for side in (self.baseline, self.candidate)
            ]
            if all(judges) and not set(judges[0]) & set(judges[1]):
                raise ScopeMismatchError({"judge": (", ".join(judges[0]), ", ".join(judges[1]))})
            raise InputError(
                "the two sides have no rate in common", fix="compare the same benchmark and judge"
            )
        return ComparisonFinding(
            settings={**plain(self.settings), "success": str(self.rule)},
            warnings=tuple(dict.fromkeys(self.warnings)),
            comparisons=tuple(_adjusted(comparisons)),
        )

    def _warn_of_one_sided(self) -> None:
        """Name the rates that one side has and the other has not."""
        sides = {"baseline": self.baseline, "candidate": self.candidate}
        for name, other in (("baseline", "candidate"), ("candidate", "baseline")):
            alone = [
                f"{key[0]} (judge {key[1]}{''.join(f', {value}' for value in key[2:])})"
                for key in sides[name].claims
                if key not in sides[other].claims and key[0] in _COMPARED
            ]
            if alone:
                shown = ", ".join(alone[:6]) + (f" and {len(alone) - 6} more" * (len(alone) > 6))
                self.warnings.append(f"Only the {name} has, so not compared: {shown}.")

    def _refuse_swapped(self, judges: Collection[str]) -> None:
        """Refuse two sides that different judges of one name have judged.

        Where it is not known who judged which side, a warning says so.

        Raises
        ------
        ScopeMismatchError
            Naming the parts of the judge that differ.
        """
        sides = [side.evidence for side in (self.baseline, self.candidate)]
        both = sides[0].instruments.keys() & sides[1].instruments.keys()
        # A panel stands under no judge's name, and any of them may be one of it.
        alone = both if any(judge not in both for judge in judges) else both.intersection(judges)
        known = [by_judge(side.identities) for side in sides]
        for judge in sorted(alone):
            first, second = (
                {one.digest: one for one in side.get(judge, [JudgeIdentity(judge)])}
                for side in known
            )
            unstated = JudgeIdentity(judge).digest
            if first.keys() == second.keys() and len(first) == 1:
                continue
            if not first.keys() & second.keys() and unstated not in first | second:
                raise ScopeMismatchError(_swapped(judge, first.values(), second.values()))
            self.warnings.append(
                f"Whether one and the same judge {judge!r} judged both sides is not known: the "
                "difference may be one between judges."
            )

    def _compare(self, key: tuple[Any, ...], rng: np.random.Generator) -> Comparison:
        first, second = self.baseline.claims[key], self.candidate.claims[key]
        require_comparable(first, second, factor="target")
        metric = next(metric for metric in METRICS if metric.name == key[0])
        matched = self._matched(metric, key)
        only_baseline = matched.baseline * (1 - matched.candidate)
        only_candidate = matched.candidate * (1 - matched.baseline)
        cells = np.unique(matched.cluster, return_inverse=True)[1]
        result = paired.paired_difference_interval(
            np.bincount(cells, weights=only_candidate),
            np.bincount(cells, weights=only_baseline),
            np.bincount(cells).astype(np.float64),
            self.settings.level,
        )
        shared = {
            "metric": key[0],
            "judge": key[1],
            "by": first.scope.by,
            "baseline": first,
            "candidate": second,
            "baseline_name": self.names[0],
            "candidate_name": self.names[1],
            "level": self.settings.level,
            "power": self.settings.power,
            "pairs": len(matched.cluster),
            "unpaired": matched.unpaired,
        }
        if result is None:
            fields = (
                "difference",
                "interval",
                "test",
                "p_value",
                "p_adjusted",
                "minimum_detectable",
                "conclusion",
            )
            return Comparison(
                **shared,
                difference=None,
                interval=None,
                test=None,
                p_value=None,
                p_adjusted=None,
                discordant=(0.0, 0.0),
                clusters=0,
                minimum_detectable=None,
                why=dict.fromkeys(fields, "no item was judged on both sides"),
            )
        test, p_value = self._test(cells, only_baseline, only_candidate, rng)
        least = paired.minimum_detectable_difference(
            result.discordant_rate, result.effective_pairs, self.settings.power
        )
        return Comparison(
            **shared,
            difference=result.difference,
            interval=(result.lower, result.upper),
            test=test,
            p_value=p_value,
            p_adjusted=p_value,
            discordant=(float(only_baseline.sum()), float(only_candidate.sum())),
            clusters=result.clusters,
            minimum_detectable=least,
            why={}
            if least is not None
            else {"minimum_detectable": "too few items to find even the largest difference"},
        )

    def _test(
        self,
        cells: IntArray,
        only_baseline: FloatArray,
        only_candidate: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[str, float]:
        sizes = np.bincount(cells)
        whole = np.isin(only_baseline, (0, 1)).all() and np.isin(only_candidate, (0, 1)).all()
        if sizes.max() == 1 and whole:
            p_value = paired.mcnemar_exact(only_baseline.sum(), only_candidate.sum())
            return "mcnemar_exact", float(p_value)
        # Means, so that a cluster counts once however many items it holds.
        means = np.bincount(cells, weights=only_candidate - only_baseline) / sizes
        flipped = paired.sign_flip_test(means, rng, self.settings.permutations)
        return "sign_flip", flipped.p_value

    def _matched(self, metric: Metric, key: tuple[Any, ...]) -> _Matched:
        sides = [self._by_item(side, metric, key) for side in (self.baseline, self.candidate)]
        shared = sorted(sides[0].keys() & sides[1].keys())
        everything = len(sides[0].keys() | sides[1].keys())
        return _Matched(
            np.array([sides[0][item][0] for item in shared]),
            np.array([sides[1][item][0] for item in shared]),
            np.array([sides[0][item][1] for item in shared], dtype=object),
            everything - len(shared),
        )

    def _by_item(
        self, side: _Side, metric: Metric, key: tuple[Any, ...]
    ) -> dict[str, tuple[float, str]]:
        """Item -> share of its judged responses with the event, and its cluster."""
        table = side.table
        mine = table.intent.codes == _code(table.intent.values, metric.intent)
        mine &= table.columns["judge"].codes == _code(table.columns["judge"].values, key[1])
        for name, wanted in zip(self.settings.by, key[2:], strict=True):
            column = table.columns[name]
            mine &= column.codes == _code(column.values, wanted)
        rows = np.flatnonzero(mine & (table.judged > 0))
        items, cell = np.unique(table.item.codes[rows], return_inverse=True)
        events = np.bincount(cell, weights=metric.events(table, self.rule)[rows])
        judged = np.bincount(cell, weights=table.judged[rows])
        cluster = np.zeros(len(items), dtype=np.int64)
        cluster[cell] = table.cluster.codes[rows]
        return {
            str(table.item.values[item]): (share, str(table.cluster.values[group]))
            for item, share, group in zip(
                items.tolist(),
                (events / np.maximum(judged, 1)).tolist(),
                cluster.tolist(),
                strict=True,
            )
        }


@dataclass(frozen=True)
class _Matched:
    baseline: FloatArray
    candidate: FloatArray
    cluster: Any
    unpaired: int


def _swapped(
    judge: str, first: Iterable[JudgeIdentity], second: Iterable[JudgeIdentity]
) -> dict[str, tuple[object, object]]:
    """The parts in which the identities of two sides differ."""
    parts: dict[str, tuple[object, object]] = {}
    for part in fields(JudgeIdentity):
        stated = tuple(
            " or ".join(sorted({str(getattr(one, part.name) or "not stated") for one in side}))
            for side in (first, second)
        )
        if stated[0] != stated[1]:
            parts[f"{part.name} of judge {judge!r}"] = (stated[0], stated[1])
    digests = [" or ".join(sorted(one.digest for one in side)) for side in (first, second)]
    return parts or {f"identity of judge {judge!r}": (digests[0], digests[1])}


def _names(baseline: Evidence, candidate: Evidence) -> tuple[str, str]:
    """The target of each side, and the run or source where both sides have the same one."""
    sides = (baseline, candidate)
    first, second = (side.targets_seen[0] for side in sides)
    if first != second:
        return first, second
    runs = [distinct(side.rows, "run") for side in sides]
    told = [f"run {' and '.join(map(str, names))}" for names in runs]
    if not all(runs) or told[0] == told[1]:
        told = [", ".join(side.sources) for side in sides]
    if told[0] == told[1]:
        told = ["baseline", "candidate"]
    return f"{first} ({told[0]})", f"{second} ({told[1]})"


def _concluded(entry: Comparison) -> Comparison:
    if entry.p_value is None or entry.p_adjusted is None or entry.interval is None:
        return entry
    alpha = 1 - entry.level
    # The interval is that of one comparison, so it is held against the unadjusted p-value.
    ruled_out = not entry.interval[0] <= 0 <= entry.interval[1]
    if ruled_out != (entry.p_value < alpha):
        return replace(entry, conclusion="undecided")
    found = entry.p_adjusted < alpha
    return replace(entry, conclusion="differs" if found else "no_difference_shown")


def _code(values: Sequence[str | None], wanted: str | None) -> int:
    if wanted in values:
        return values.index(wanted)
    return len(values) - 1 if wanted == UNSTATED else -1


def _adjusted(comparisons: Sequence[Comparison]) -> Iterable[Comparison]:
    """P-values adjusted by Holm over the groups of one metric and judge."""
    families: dict[tuple[str, str], list[int]] = {}
    for index, entry in enumerate(comparisons):
        if entry.p_value is not None:
            families.setdefault((entry.metric, entry.judge), []).append(index)
    adjusted: dict[int, float] = {}
    for members in families.values():
        values = paired.holm([comparisons[index].p_value or 0.0 for index in members])
        adjusted |= dict(zip(members, values.tolist(), strict=True))
    for index, entry in enumerate(comparisons):
        known = replace(entry, p_adjusted=adjusted[index]) if index in adjusted else entry
        yield _concluded(known)
