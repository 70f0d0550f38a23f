"""The trade-off between safety and usefulness over targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.claims import Claim

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Frontier:
    """Which targets no other one beats on both axes, and which could not be placed.

    on_frontier: boolean, shape (targets,); False where a target is unknown.
    unknown: positions of targets with an unknown coordinate.
    """

    on_frontier: NDArray[np.bool_]
    unknown: tuple[int, ...]


def pareto_frontier(
    safe_recall: Sequence[float | None], help_rate: Sequence[float | None]
) -> Frontier:
    """Return the targets that no other target matches on one axis and beats on the other.

    Parameters: `safe_recall`, `help_rate`: one number in [0, 1] for each target, None (or NaN)
    where it is unknown. A target that is unknown on an axis is neither on the frontier nor beats
    anyone. Equal targets stay together.

    Raises: ValueError for different lengths or rates outside [0, 1].

    Source: Pareto dominance, as in Kung, Luccio & Preparata (1975), Journal of the ACM 22, 469-476.

    >>> pareto_frontier([0.9, 0.8, 0.8, None], [0.5, 0.7, 0.6, 0.9])
    Frontier(on_frontier=array([ True,  True, False, False]), unknown=(3,))
    """
    safe, useful = np.array(safe_recall, np.float64), np.array(help_rate, np.float64)
    if safe.ndim != 1 or safe.shape != useful.shape:
        raise ValueError("safe_recall and help_rate must have one entry for each target")
    known = ~(np.isnan(safe) | np.isnan(useful))
    points = np.stack([safe[known], useful[known]])
    if ((points < 0) | (points > 1)).any():
        raise ValueError("safe_recall and help_rate must lie in [0, 1]")
    # Safest first, among equals the most useful first: only points already passed can dominate.
    order = np.lexsort((-points[1], -points[0]))
    x, y = points[:, order]
    starts = np.concatenate([[True], x[1:] < x[:-1]])[: x.size]
    first_of_tie = np.maximum.accumulate(np.where(starts, np.arange(x.size), 0))
    best = np.maximum.accumulate(np.concatenate([[-np.inf], y]))
    best_among_safer = best[first_of_tie]
    kept = (y > best_among_safer) & (y == y[first_of_tie])
    on_frontier = np.zeros(safe.size, bool)
    on_frontier[np.flatnonzero(known)[order]] = kept
    return Frontier(on_frontier, tuple(int(i) for i in np.flatnonzero(~known)))


def frontier_points(claims: Sequence[Claim]) -> Iterable[dict[str, Any]]:
    """Safe recall against help rate of the targets, per benchmark, judge and group."""
    boards: dict[tuple[Any, ...], dict[str, dict[str, Claim]]] = {}
    for claim in claims:
        if claim.metric in {"safe_recall", "help_rate"}:
            board = (claim.scope.benchmark, claim.scope.judge, tuple(claim.scope.by.items()))
            boards.setdefault(board, {}).setdefault(claim.scope.target, {})[claim.metric] = claim
    for (benchmark, judge, by), targets in boards.items():
        both = {name: pair for name, pair in targets.items() if len(pair) == 2}
        if not both:
            continue
        recall = [pair["safe_recall"].estimate for pair in both.values()]
        help_rate = [pair["help_rate"].estimate for pair in both.values()]
        result = pareto_frontier(recall, help_rate)
        for index, target in enumerate(both):
            known = recall[index] is not None and help_rate[index] is not None
            point = {
                "benchmark": benchmark,
                "target": target,
                "judge": judge,
                "by": dict(by),
                "safe_recall": recall[index],
                "help_rate": help_rate[index],
                "on_frontier": bool(result.on_frontier[index]) if known else None,
            }
            why = (
                {}
                if known
                else dict.fromkeys(
                    ("safe_recall", "help_rate", "on_frontier"), "a side was not judged"
                )
            )
            if benchmark is None:
                why["benchmark"] = "the source does not state it"
            yield point | {"why": why}
