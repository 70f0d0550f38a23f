"""Same, different, or cannot tell: thresholds whose error rates are known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from safemetry.audits.fingerprint.likelihood import RatioTable
from safemetry.audits.fingerprint.roster import Roster
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

_CELLS: Final = 50_000_000
_STEP: Final = 5e-4
"""Half the last decimal of a ratio."""


class Verdict(StrEnum):
    """What the answers say of the unknown target and one known target."""

    SAME = "same"
    DIFFERENT = "different"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class Thresholds:
    """Limits of the log-likelihood ratio to each of R known targets, and what they cost.

    Parameters
    ----------
    different
        At or below it the verdict is `different`, shape ``(R,)``.
    same
        At or above it the verdict is `same`, where it is above `different`; infinite where no other
        known target is there to hold it against.
    error_same
        Chance that a re-run of the known target is called different.
    error_different
        Chance that a re-run of another known target, drawn at random from those that are told apart
        from this one, is called the same; masked where there is none.
    recognised
        Chance that a re-run of the known target is called the same.
    alternatives
        Other known targets that the error rate is about.
    unlisted
        Chance that a re-run of a known target would be called the same as *another* one, averaged
        over the known targets: what would happen to a target that is missing from the list and has
        the relatives there that the known targets have.
    """

    different: FloatArray
    same: FloatArray
    error_same: FloatArray
    error_different: np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]
    recognised: FloatArray
    alternatives: IntArray
    unlisted: float


def thresholds(
    roster: Roster,
    table: RatioTable,
    linked: BoolArray,
    runs: int,
    settings: tuple[float, int],
    rng: np.random.Generator,
) -> Thresholds:
    """Limits for an unknown target with a given number of runs.

    `different` is the `level` quantile of the ratios of simulated re-runs of the known target.
    `same` is the largest of: just above that; -log level (for a target drawn from the population
    model the ratio exceeds it with at most that chance, by Markov's inequality); and the 1 - level
    quantile over re-runs of the other known targets, each with the same weight.

    Parameters
    ----------
    roster, table
        R known targets, and their ratios over the items that the unknown target answered.
    linked
        Pairs of known targets that are not told apart, shape ``(R, R)``.
    runs
        Of the unknown target.
    settings
        Level and number of simulated re-runs of each known target.
    rng
        Source of randomness.
    """
    level, studies = settings
    count = len(roster.names)
    kept = max(min(studies, _CELLS // count**2), 20)
    own = np.empty((count, studies))
    cross = np.empty((count, count, kept), np.float32)
    for known in range(count):
        ratios = table.ratios(roster.simulate(known, studies, runs, rng))
        own[known] = ratios[:, known]
        cross[:, known] = ratios[:kept].T
    own.sort(axis=1)
    different = np.array([_lower_limit(row, level) for row in own])
    same = np.maximum(different + _STEP, -np.log(level))
    hits = cross >= same[:, None, None]
    hits[np.arange(count), np.arange(count)] = False
    other = ~linked
    rates = np.ma.masked_array(np.zeros(count), np.ones(count, bool))
    for known in np.flatnonzero(other.any(axis=1)).tolist():
        against = cross[known, other[known]]
        highest = float(np.quantile(against, 1 - level, method="higher"))
        if (against >= same[known]).mean() > level:
            same[known] = highest + _STEP
        rates[known] = float((against >= same[known]).mean())
    same[~other.any(axis=1)] = np.inf
    return Thresholds(
        different,
        same,
        (own <= different[:, None]).mean(axis=1),
        rates,
        (own >= same[:, None]).mean(axis=1),
        other.sum(axis=1).astype(np.int64),
        float(hits.any(axis=0).mean()),
    )


def _lower_limit(ordered: FloatArray, level: float) -> float:
    """The largest value that at most a share `level` of these do not exceed, ties included."""
    allowed = int(np.floor(level * (len(ordered) + 1)))
    if allowed < 1:
        return -np.inf
    limit = ordered[allowed - 1]
    if allowed < len(ordered) and ordered[allowed] <= limit:
        below = int(np.searchsorted(ordered, limit))
        return float(ordered[below - 1]) if below else -np.inf
    return float(limit)


def verdicts(ratios: FloatArray, limits: Thresholds) -> tuple[Verdict, ...]:
    """The verdict on each known target, from the ratios of the unknown one, shape ``(R,)``."""
    return tuple(
        Verdict.DIFFERENT
        if ratio <= different
        else Verdict.SAME
        if ratio >= same
        else Verdict.CANNOT_TELL
        for ratio, different, same in zip(ratios, limits.different, limits.same, strict=True)
    )
