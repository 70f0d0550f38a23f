"""The smallest set of items that tells the targets of a roster apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from safemetry.audits.fingerprint.answers import answer_counts
from safemetry.audits.fingerprint.roster import Roster, make_roster
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

CRITERIA: Final = ("error", "differences")
METHODS: Final = ("auto", "greedy", "exact")
_EXACT_CELLS: Final = 20_000
"""Pairs x items up to which the exact programme is tried by default."""
_SURE: Final = 0.5
_HALVINGS: Final = 5
_TRIALS: Final = 500


@dataclass(frozen=True)
class SeparatingSet:
    """Items that tell every pair of a roster apart, as far as any items can.

    Parameters
    ----------
    items
        Names, in the order in which they were chosen (greedy), or of the pool (exact).
    method
        `greedy` or `exact`: no smaller set has as much of the bound (or as many differences).
    criterion
        `error` or `differences`.
    pairs
        Pairs that are told apart, first name and second name.
    inseparable
        Pairs that all items together do not tell apart as required; with the criterion `error`, not
        with half the error: such pairs would ask for nearly every item.
    errors
        Chance that a run of a target fits the other target of a pair better on the chosen items,
        the larger of both directions, by simulation; one for each of `pairs`.
    worst_error, mean_error
        Largest and mean of them; None where no pair is told apart.
    identified
        Chance that a run of each target fits that target best among all of the roster; ties are
        failures.
    why
        Field that is None -> reason.
    """

    items: tuple[str, ...]
    method: str
    criterion: str
    pairs: tuple[tuple[str, str], ...]
    inseparable: tuple[tuple[str, str], ...]
    errors: tuple[float, ...]
    worst_error: float | None
    mean_error: float | None
    identified: dict[str, float]
    why: dict[str, str]


def separating_items(  # noqa: PLR0913 - each keyword is one documented choice
    known: NDArray[np.integer],
    references: Sequence[str],
    items: Sequence[str],
    *,
    criterion: str = "error",
    error: float = 0.05,
    differences: int = 3,
    disagreement: float | None = None,
    method: str = "auto",
    simulations: int = 1000,
    rng: np.random.Generator,
) -> SeparatingSet:
    """The fewest items that separate a roster.

    Parameters
    ----------
    known
        Runs of R targets, shape ``(T, R, J)``, -1 for missing.
    references, items
        Names.
    criterion
        ``error``: for every pair a run of either target fits the other better with at most the
        chance `error`. The Bhattacharyya coefficient prod_j sum_c sqrt(p_jc q_jc) bounds both error
        rates (Kailath 1967), and its logarithm adds over items. ``differences``: every pair
        differs, surely, on so many items.
    error
        In (0, .5).
    differences
        At least 1; an item counts where the two targets differ with a chance above one half.
    disagreement
        Re-run disagreement over the items; None estimates it from repeated runs.
    method
        ``greedy`` (set cover by the largest gain, with superfluous items removed at the end),
        ``exact`` (0/1 programme by HiGHS), or ``auto``: exact where pairs x items is at most
        20,000.
    simulations
        Simulated runs of each target for the expected errors.
    rng
        Source of randomness.

    Raises
    ------
    InputError
        For shapes and choices that do not fit, or where no noise is stated and none can be
        estimated.
    """
    names, labels = tuple(references), tuple(items)
    _check((criterion, method), error, differences)
    runs = np.asarray(known)
    if runs.ndim != 3 or runs.shape[1:] != (len(names), len(labels)) or len(names) < 2:
        raise InputError(
            f"known answers have the shape {runs.shape} and not runs x {len(names)} targets x "
            f"{len(labels)} items, two targets at least"
        )
    counts = answer_counts(runs, max(int(runs.max()), 1) + 1)
    roster = make_roster(names, counts, disagreement=disagreement)
    pairs = np.array(list(combinations(range(len(names)), 2)), np.int64)
    everything = np.arange(len(labels))
    if criterion == "error":
        gains = _bhattacharyya(roster.chances, pairs)
        needs = np.minimum(-np.log(error), gains.sum(axis=1))
        possible = _expected(roster, everything, pairs, simulations, rng)[0] <= error / 2
        needs = needs[possible]
        needs *= _tightened(roster, (gains[possible], needs), pairs[possible], error, rng)
    else:
        gains = _differences(roster.chances, pairs)
        possible = gains.sum(axis=1) >= differences
        needs = np.full(int(possible.sum()), float(differences))
    cover = gains[possible]
    exact = method == "exact" or (method == "auto" and cover.size <= _EXACT_CELLS)
    chosen = _greedy(cover, needs)
    solved = _exact(cover, needs, len(chosen)) if exact and len(chosen) > 1 else None
    if solved is not None:
        chosen = solved
    kept = pairs[possible]
    errors, identified = _expected(roster, chosen, kept, simulations, rng)
    return SeparatingSet(
        items=tuple(labels[place] for place in chosen),
        method="exact" if solved is not None or (exact and len(chosen) <= 1) else "greedy",
        criterion=criterion,
        pairs=tuple((names[one], names[two]) for one, two in kept),
        inseparable=tuple((names[one], names[two]) for one, two in pairs[~possible]),
        errors=tuple(errors.tolist()),
        worst_error=float(errors.max()) if len(errors) else None,
        mean_error=float(errors.mean()) if len(errors) else None,
        identified=dict(zip(names, identified.tolist(), strict=True)),
        why={}
        if len(errors)
        else dict.fromkeys(("worst_error", "mean_error"), "no pair can be told apart"),
    )


def _check(choices: tuple[str, str], error: float, differences: int) -> None:
    criterion, method = choices
    if criterion not in CRITERIA:
        raise InputError(f"unknown criterion {criterion!r}", fix=f"use {' or '.join(CRITERIA)}")
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}", fix=f"use {', '.join(METHODS)}")
    if not 0 < error < 0.5:
        raise InputError(f"an error of {error:g} is not between 0 and .5")
    if differences < 1:
        raise InputError("targets that need not differ are not told apart", fix="ask for 1 or more")


def _bhattacharyya(chances: FloatArray, pairs: IntArray) -> FloatArray:
    """-log sum_c sqrt(p_c q_c) of every pair and item, shape ``(P, J)``."""
    roots = np.sqrt(chances)
    found = np.empty((len(pairs), chances.shape[1]))
    for place, (one, two) in enumerate(pairs):
        found[place] = -np.log(np.minimum((roots[one] * roots[two]).sum(axis=-1), 1.0))
    return np.maximum(found, 0.0)


def _differences(chances: FloatArray, pairs: IntArray) -> FloatArray:
    """1 where two targets differ with a chance above one half, shape ``(P, J)``."""
    found = np.empty((len(pairs), chances.shape[1]))
    for place, (one, two) in enumerate(pairs):
        found[place] = (1 - (chances[one] * chances[two]).sum(axis=-1)) > _SURE
    return found


def _tightened(
    roster: Roster,
    cover: tuple[FloatArray, FloatArray],
    pairs: IntArray,
    error: float,
    rng: np.random.Generator,
) -> float:
    """The share of what the bound asks for that keeps the simulated errors: it is not sharp."""
    gains, needs = cover
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS if len(pairs) else 0):
        middle = (low + high) / 2
        chosen = _greedy(gains, needs * middle)
        errors = _expected(roster, chosen, pairs, _TRIALS, rng)[0]
        kept = len(errors) > 0 and bool((errors <= error).all())
        low, high = (low, middle) if kept else (middle, high)
    return high


def _greedy(gains: FloatArray, needs: FloatArray) -> IntArray:
    """Items by the largest reduction of what pairs still need (Wolsey 1982), then pruned."""
    short = needs.copy()
    chosen: list[int] = []
    free = np.ones(gains.shape[1], bool)
    while (short > 1e-9).any():
        merit = np.minimum(gains[short > 1e-9], short[short > 1e-9][:, None]).sum(axis=0)
        best = int(np.where(free, merit, -1.0).argmax())
        chosen.append(best)
        free[best] = False
        short = short - gains[:, best]
    total = gains[:, chosen].sum(axis=1)
    for item in sorted(chosen, key=lambda place: float(gains[:, place].sum())):
        if (total - gains[:, item] >= needs - 1e-9).all():
            total -= gains[:, item]
            chosen.remove(item)
    return np.array(chosen, np.int64)


def _exact(gains: FloatArray, needs: FloatArray, most: int) -> IntArray | None:
    """The smallest set by a 0/1 programme; None where it is not solved to the end in time."""
    size = gains.shape[1]
    result = milp(
        np.ones(size),
        constraints=[
            LinearConstraint(gains, needs - 1e-9, np.inf),
            LinearConstraint(np.ones((1, size)), 1, most),
        ],
        integrality=np.ones(size, np.int64),
        bounds=Bounds(0, 1),
        options={"time_limit": 20.0},
    )
    if result.status != 0 or result.x is None:
        return None
    return np.flatnonzero(result.x > 0.5).astype(np.int64)


def _expected(
    roster: Roster, chosen: IntArray, pairs: IntArray, studies: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Error of each pair and share of runs that fit their own target best."""
    count = len(roster.names)
    if not len(chosen):
        return np.empty(0), np.zeros(count)
    logs = np.log(roster.chances[:, chosen])
    slopes = (logs[..., 1:] - logs[..., :1]).reshape(count, -1)
    constants = logs[..., 0].sum(axis=1)
    wrong = np.zeros((count, count))
    identified = np.zeros(count)
    for known in range(count):
        runs = roster.simulate(known, studies, 1, rng)[:, chosen].reshape(studies, -1)
        merits = runs @ slopes.T + constants
        ahead = merits - merits[:, [known]]
        # A tie is an error half of the time.
        wrong[known] = (ahead > 1e-4).mean(axis=0) + (np.abs(ahead) <= 1e-4).mean(axis=0) / 2
        others: BoolArray = np.arange(count) != known
        identified[known] = (ahead[:, others] < -1e-4).all(axis=1).mean()
    both = np.maximum(wrong, wrong.T)
    return both[pairs[:, 0], pairs[:, 1]], identified
