"""Boards: the claims of one benchmark, by target and judge, in the order they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from safemetry.claims import Claim

METRICS: Final[Mapping[str, str]] = {
    "attack_success_rate": "Attack success",
    "over_refusal_rate": "Over-refusal",
    "refusal_rate": "Refusal of contested items",
    "rewarded_rate": "Rewarded responses",
}
"""Rates that a board shows, with their headings; each other rate is the complement of one, or is
about pairs."""


@dataclass(frozen=True)
class Board:
    """The claims of one benchmark.

    Parameters
    ----------
    benchmark
        Its name; None where the source states none.
    judges
        The judges: those who judged the most targets first, and of these the one that sees the most
        failures, unless it judged less than half of what others did.
    targets
        The targets, the one whose failure rate may be highest first.
    metrics
        The rates that occur, in the order of `METRICS`.
    by_key
        (metric, target, judge) -> claim.
    """

    benchmark: str | None
    judges: tuple[str, ...]
    targets: tuple[str, ...]
    metrics: tuple[str, ...]
    by_key: Mapping[tuple[str, str, str], Claim]

    def claim(self, metric: str, target: str, judge: str | None = None) -> Claim | None:
        """One claim, under the leading judge of the target where none is named."""
        return self.by_key.get((metric, target, judge or self.leading(target)))

    def leading(self, target: str) -> str:
        """The first of the judges that judged this target."""
        return self._leading[target]

    @cached_property
    def _leading(self) -> dict[str, str]:
        return {
            target: next(judge for judge in self.judges if judge in judges)
            for target, judges in self._judged.items()
        }

    @cached_property
    def _judged(self) -> dict[str, set[str]]:
        judged: dict[str, set[str]] = {}
        for _, target, judge in self.by_key:
            judged.setdefault(target, set()).add(judge)
        return judged

    @property
    def overlaps(self) -> bool:
        """Whether any target has more than one judge."""
        return any(len(judges) > 1 for judges in self._judged.values())

    def known(self, metric: str, target: str) -> list[Claim]:
        """The claims of a target that have an estimate, the lowest first."""
        return self._known.get((metric, target), [])

    @cached_property
    def _known(self) -> dict[tuple[str, str], list[Claim]]:
        found: dict[tuple[str, str], list[Claim]] = {}
        for (metric, target, _), claim in self.by_key.items():
            if claim.estimate is not None:
                found.setdefault((metric, target), []).append(claim)
        for claims in found.values():
            claims.sort(key=lambda claim: (_estimate(claim), claim.scope.judge))
        return found


def boards_of(claims: Iterable[Claim]) -> list[Board]:
    """The boards of some claims, benchmarks in the order of their names."""
    by_benchmark: dict[str | None, list[Claim]] = {}
    for claim in claims:
        if claim.metric in METRICS:
            by_benchmark.setdefault(claim.scope.benchmark, []).append(claim)
    return [
        _board(benchmark, by_benchmark[benchmark])
        for benchmark in sorted(by_benchmark, key=lambda name: name or "")
    ]


def _board(benchmark: str | None, claims: Sequence[Claim]) -> Board:
    metrics = tuple(name for name in METRICS if any(claim.metric == name for claim in claims))
    first = [claim for claim in claims if claim.metric == metrics[0]]
    judges = _in_order(first, {claim.scope.judge for claim in claims})
    ceilings: dict[str, float] = {}
    for claim in first:
        highest = max(ceilings.get(claim.scope.target, 0.0), claim.ceiling or 0.0)
        ceilings[claim.scope.target] = highest
    targets = sorted(
        {claim.scope.target for claim in claims},
        key=lambda target: (-ceilings.get(target, 0.0), target),
    )
    return Board(
        benchmark,
        tuple(judges),
        tuple(targets),
        metrics,
        {(claim.metric, claim.scope.target, claim.scope.judge): claim for claim in claims},
    )


def _in_order(claims: Sequence[Claim], judges: Iterable[str]) -> list[str]:
    """Judges as `Board` has them. A judge that saw little must not lead by its luck."""
    mine: dict[str, list[Claim]] = {judge: [] for judge in judges}
    for claim in claims:
        mine[claim.scope.judge].append(claim)
    trials = {judge: sum(claim.trials for claim in found) for judge, found in mine.items()}
    most = max(trials.values(), default=0)

    def rank(judge: str) -> tuple[int, bool, float, str]:
        seen = {claim.scope.target for claim in mine[judge]}
        return (-len(seen), 2 * trials[judge] < most, -_failures(mine[judge]), judge)

    return sorted(mine, key=rank)


def _failures(claims: Sequence[Claim]) -> float:
    """Share of failures over all targets; it orders judges and is not shown."""
    trials = sum(claim.trials for claim in claims)
    share = sum(claim.events for claim in claims) / trials if trials else 0.0
    return 1 - share if claims and claims[0].metric == "rewarded_rate" else share


def _estimate(claim: Claim) -> float:
    return claim.estimate if claim.estimate is not None else 0.0
