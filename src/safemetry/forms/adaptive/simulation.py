"""Post-hoc simulation: adaptive tests of all targets of a response matrix at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from safemetry.errors import InputError
from safemetry.forms.adaptive.classification import UNDECIDED
from safemetry.forms.adaptive.process import (
    NOTHING,
    AdaptiveTest,
    begin,
    choose,
    exhausted,
    make_test,
    take,
)
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.forms.adaptive.stopping import GOES_ON, REASONS, SIDES, Decision, Stop
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import FloatArray, IntArray, ItemParameters, reaching

Codes = NDArray[np.int8]
Masked = np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]

_CELLS: Final = 1 << 18
"""Targets times items that are worked on together: their criteria stay in the cache."""


@dataclass(frozen=True)
class Sessions:
    """Adaptive tests of N targets, of at most T items.

    Parameters
    ----------
    items
        Positions in the pool, shape ``(N, T)``; -1 after the end.
    theta, se
        After each item, shape ``(N, T)``, or ``(N, T, K)`` in several dimensions; masked after the
        end, and errors also where nothing is known.
    stops
        Why each session ended.
    decisions
        Which side of the cut each target is on; None without a classification.
    seeds
        Of each session, shape ``(N,)``; a live session with the same seed takes the same path.
    given, chosen
        Sessions in which each item was given, and in which it was chosen before exposure control
        had its say, shape ``(J,)``.
    """

    items: IntArray
    theta: Masked
    se: Masked
    stops: tuple[Stop, ...]
    decisions: tuple[Decision, ...] | None
    seeds: IntArray
    given: IntArray
    chosen: IntArray

    @property
    def lengths(self) -> IntArray:
        """Items of each session, shape ``(N,)``."""
        found: IntArray = (self.items != NOTHING).sum(axis=1)
        return found

    @property
    def final_theta(self) -> Masked:
        """The last estimate of each session, shape ``(N,)`` or ``(N, K)``; masked without items."""
        return self._last(self.theta)

    @property
    def final_se(self) -> Masked:
        """The last standard error of each session."""
        return self._last(self.se)

    def _last(self, values: Masked) -> Masked:
        rows = np.arange(len(self.items))
        found: Masked = values[rows, np.maximum(self.lengths - 1, 0)]
        return found

    def records(self, targets: Sequence[str], items: Sequence[str]) -> list[dict[str, Any]]:
        """Each session as plain values: target, items, theta, se, stop and decision.

        Parameters
        ----------
        targets, items
            Names.
        """
        found: list[dict[str, Any]] = []
        for row, (target, length) in enumerate(zip(targets, self.lengths.tolist(), strict=True)):
            errors = self.se[row, :length].tolist()
            record: dict[str, Any] = {
                "target": target,
                "items": [items[place] for place in self.items[row, :length].tolist()],
                "theta": self.theta[row, :length].tolist(),
                "se": errors,
                "stop": str(self.stops[row]),
            }
            if None in np.ravel(np.array(errors, object)):
                record["why"] = {"se": "the items tell nothing at this estimate"}
            if self.decisions is not None:
                record["decision"] = str(self.decisions[row])
            found.append(record)
        return found


def simulate_sessions(
    pool: ItemPool, codes: Codes, settings: AdaptiveSettings, rng: np.random.Generator
) -> Sessions:
    """Adaptive tests over responses that are already there.

    Parameters
    ----------
    pool
        J items; calibrate them on other targets than those simulated, or errors look too small.
    codes
        Responses of N targets, shape ``(N, J)``, int8; an item with -1 is never given.
    settings
        Of the test.
    rng
        Source of the seeds of sessions, which decide whatever is random in them.

    Raises
    ------
    InputError
        For responses or settings that do not fit the pool.

    Examples
    --------
    >>> items = ItemParameters(
    ...     np.ones((3, 1)), np.array([[2.0], [0.0], [-0.5]]), np.zeros(3), np.ones(3)
    ... )
    >>> pool = ItemPool(("easy", "middle", "hard"), items, np.zeros(1), np.eye(1))
    >>> codes = np.array([[1, 0, 0], [1, 1, 1]], np.int8)
    >>> found = simulate_sessions(pool, codes, AdaptiveSettings(budget=2), np.random.default_rng(1))
    >>> found.items.tolist(), found.theta.round(2).tolist()
    ([[1, 2], [1, 2]], [[-0.41, -0.64], [0.41, 0.78]])
    """
    test = make_test(pool, settings)
    seeds = rng.integers(2**31, size=len(codes), dtype=np.int64)
    return run_sessions(test, codes, seeds)


def run_sessions(test: AdaptiveTest, codes: Codes, seeds: IntArray) -> Sessions:
    """Sessions with given seeds; see `simulate_sessions`.

    Parameters
    ----------
    test
        Of J items.
    codes
        Shape ``(N, J)``.
    seeds
        Not negative, shape ``(N,)``.
    """
    _check(test.pool, codes)
    count, size = codes.shape
    length = min(test.settings.budget, size)
    dims = test.engine.dimensions
    record = _Record(
        np.full((count, length), NOTHING, np.int64),
        np.zeros((count, length, dims)),
        np.full((count, length, dims), np.inf),
        np.full(count, REASONS.index(Stop.EXHAUSTED), np.int64),
        np.full(count, UNDECIDED, np.int64),
        np.zeros(size, np.int64),
    )
    step = max(_CELLS // size, 1)
    for start in range(0, count, step):
        _run_block(test, codes, seeds, np.arange(start, min(start + step, count)), record)
    return record.sessions(test, seeds)


@dataclass
class _Record:
    items: IntArray
    theta: FloatArray
    se: FloatArray
    stop: IntArray
    decision: IntArray
    refused: IntArray

    def sessions(self, test: AdaptiveTest, seeds: IntArray) -> Sessions:
        after = np.broadcast_to((self.items == NOTHING)[:, :, None], self.theta.shape)
        unknown = after | ~np.isfinite(self.se)
        theta = np.ma.array(self.theta, mask=after)
        se = np.ma.array(np.where(unknown, 0.0, self.se), mask=unknown)
        if test.engine.dimensions == 1:
            theta, se = theta[:, :, 0], se[:, :, 0]
        given = np.bincount(self.items[self.items != NOTHING], minlength=self.refused.size)
        classified = test.settings.classification is not None
        return Sessions(
            self.items,
            theta,
            se,
            tuple(REASONS[place] for place in self.stop.tolist()),
            tuple(SIDES[side] for side in self.decision.tolist()) if classified else None,
            seeds,
            given,
            given + self.refused,
        )


def _run_block(
    test: AdaptiveTest, codes: Codes, seeds: IntArray, rows: IntArray, record: _Record
) -> None:
    progress = begin(test, seeds[rows], codes[rows] < 0)
    for step in range(record.items.shape[1]):
        left = ~exhausted(test, progress)
        if not left.all():
            progress, rows = progress.keep(left), rows[left]
        if not rows.size:
            return
        items, refused = choose(test, progress)
        if refused is not None:
            record.refused += refused.sum(axis=0)
        given = codes[rows, items].astype(np.int64)
        reasons, decisions = take(test, progress, items, given, refused)
        record.items[rows, step] = items
        record.theta[rows, step] = progress.theta
        record.se[rows, step] = progress.se
        over = reasons != GOES_ON
        if over.any():
            record.stop[rows[over]] = reasons[over]
            record.decision[rows[over]] = decisions[over]
            progress, rows = progress.keep(~over), rows[~over]


def _check(pool: ItemPool, codes: Codes) -> None:
    if codes.ndim != 2 or codes.shape[1] != len(pool.items):
        raise InputError(
            f"responses have shape {codes.shape} and the pool has {len(pool.items)} items",
            fix="put the responses in the order of the pool",
        )
    beyond = np.flatnonzero(codes.max(axis=0, initial=-1) >= pool.parameters.categories)
    if beyond.size:
        raise InputError(
            f"item {pool.items[int(beyond[0])]!r} has a response beyond its calibrated categories"
        )


def simulate_codes(
    parameters: ItemParameters, theta: FloatArray, rng: np.random.Generator
) -> Codes:
    """Responses of targets that follow the model.

    Parameters
    ----------
    parameters
        Of J items in K dimensions.
    theta
        Shape ``(N, K)``.
    rng
        Source of randomness.

    Returns
    -------
    numpy.ndarray
        Shape ``(N, J)``, int8.
    """
    found = np.empty((len(theta), parameters.items), np.int8)
    step = max(_CELLS // parameters.items, 1)
    for start in range(0, len(theta), step):
        part = slice(start, start + step)
        chances = reaching(parameters, theta[part])
        drawn = rng.random(chances.shape[1:])
        found[part] = (drawn < chances).sum(axis=0)
    return found
