"""One step of adaptive tests: choose an item for each target, take its answer, see who has ended.

The same functions run thousands of simulated sessions at once and one live session, which makes
their paths the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, Self

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.adaptive.balance import Categories
from safemetry.forms.adaptive.choosing import accepted_items, best_items, one_of_best
from safemetry.forms.adaptive.multidimensional import Multidimensional
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.forms.adaptive.stopping import ended
from safemetry.forms.adaptive.unidimensional import Unidimensional
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

NOTHING: Final = -1
"""Position that stands for no item."""

_CHOICES, _ELIGIBLE, _ORDER = 0, 1, 2
"""Streams of random numbers of a session: they must not depend on one another's length."""


class Evidence(Protocol):
    """What n targets have answered."""

    answered: IntArray

    @property
    def log_ratio(self) -> FloatArray:
        """Of the sequential test, shape ``(n,)``."""
        ...

    def keep(self, rows: BoolArray) -> Self:
        """The evidence of some targets."""
        ...


class Engine(Protocol):
    """Estimates and criteria of J items; evidence is what it made itself."""

    @property
    def settings(self) -> AdaptiveSettings:
        """Of the test, its cut as an ability."""
        ...

    @property
    def dimensions(self) -> int:
        """K."""
        ...

    def begin(self, targets: int) -> Any:
        """Evidence of targets that have answered nothing."""
        ...

    def observe(self, evidence: Any, items: IntArray, codes: IntArray) -> None:
        """Add an answer of each target, in place; a code below 0 changes nothing."""
        ...

    def estimate(self, evidence: Any) -> tuple[FloatArray, FloatArray]:
        """Abilities and standard errors, both shape ``(n, K)``."""
        ...

    def criterion(self, evidence: Any, theta: FloatArray, step: int) -> FloatArray:
        """How useful each item is next, shape ``(n, J)``."""
        ...


@dataclass(frozen=True)
class AdaptiveTest:
    """A pool and settings, made ready.

    Parameters
    ----------
    pool, settings
        As given; the engine's settings have the cut as an ability.
    engine
        Estimates and criteria.
    first
        Positions of the first items.
    categories
        For content balance.
    acceptance, eligibility
        Probabilities of items, shape ``(J,)``, or None.
    """

    pool: ItemPool
    settings: AdaptiveSettings
    engine: Engine
    first: IntArray
    categories: Categories | None
    acceptance: FloatArray | None
    eligibility: FloatArray | None


@dataclass
class Progress:
    """Where n sessions stand that have all been given the same number of items.

    Parameters
    ----------
    seeds
        Of the sessions, shape ``(n,)``.
    step
        Items given.
    evidence
        Answers, as the engine keeps them.
    theta, se
        Shape ``(n, K)``.
    closed
        Items that cannot be given, or not yet, shape ``(n, J)``.
    reserve
        Those among them that open when no others are left, shape ``(n, J)``; empty without
        eligibility.
    uniform
        Random numbers by step, shape ``(n, budget)``; empty where choice is not random.
    order
        Random order of items, shape ``(n, J)``, for the rule ``random``.
    given, usable
        Items by category, shape ``(n, C)``; empty without balance.
    """

    seeds: IntArray
    step: int
    evidence: Evidence
    theta: FloatArray
    se: FloatArray
    closed: BoolArray
    reserve: BoolArray
    uniform: FloatArray
    order: FloatArray
    given: IntArray
    usable: IntArray

    def keep(self, rows: BoolArray) -> Progress:
        """The sessions that go on."""
        return Progress(
            self.seeds[rows],
            self.step,
            self.evidence.keep(rows),
            self.theta[rows],
            self.se[rows],
            self.closed[rows],
            self.reserve[rows],
            self.uniform[rows],
            self.order[rows],
            self.given[rows],
            self.usable[rows],
        )


def make_test(pool: ItemPool, settings: AdaptiveSettings) -> AdaptiveTest:
    """Make a pool ready for sessions.

    Raises
    ------
    InputError
        For settings that do not fit the pool.
    """
    if settings.at_cut and settings.rule not in {"information", "a_stratified", "kl_interval"}:
        raise InputError(
            f"the rule {settings.rule!r} does not look at one ability",
            fix="use information at the cut",
        )
    several = pool.parameters.dimensions > 1
    made = Multidimensional if several else Unidimensional
    engine: Engine = made.of_pool(pool, settings)
    exposure = settings.exposure
    chances = np.ones(len(pool.items))
    if exposure is not None:
        named = list(exposure.probabilities)
        chances[pool.places(named)] = [exposure.probabilities[item] for item in named]
    kind = None if exposure is None else exposure.kind
    return AdaptiveTest(
        pool,
        settings,
        engine,
        pool.places(settings.start.items),
        None if settings.balance is None else Categories.of_pool(pool, settings.balance),
        chances if kind == "acceptance" else None,
        chances if kind == "eligibility" else None,
    )


def begin(test: AdaptiveTest, seeds: IntArray, closed: BoolArray) -> Progress:
    """Sessions before their first item.

    Parameters
    ----------
    test
        Of J items.
    seeds
        Shape ``(n,)``, not negative.
    closed
        Items that cannot be given, shape ``(n, J)``.
    """
    count, size = closed.shape
    settings = test.settings
    closed, reserve = closed.copy(), np.zeros((count, 0), bool)
    if test.eligibility is not None:
        drawn = np.stack([_stream(seed, _ELIGIBLE).random(size) for seed in seeds])
        reserve = (drawn >= test.eligibility) & ~closed
        closed |= reserve
    draws = settings.budget if settings.randomesque > 1 or test.acceptance is not None else 0
    evidence = test.engine.begin(count)
    order = np.zeros((count, 0))
    if settings.rule == "random":
        order = np.stack([_stream(seed, _ORDER).permutation(size) for seed in seeds]).astype(float)
    progress = Progress(
        seeds,
        0,
        evidence,
        *test.engine.estimate(evidence),
        closed,
        reserve,
        np.stack([_stream(seed, _CHOICES).random(draws) for seed in seeds])
        if draws
        else np.zeros((count, 0)),
        order,
        *(np.zeros((count, 0), np.int64),) * 2,
    )
    if test.categories is not None:
        progress.given = np.zeros((count, len(test.categories.names)), np.int64)
        progress.usable = test.categories.open_counts(~closed)
    return progress


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng([int(seed), number])


def exhausted(test: AdaptiveTest, progress: Progress) -> BoolArray:
    """Sessions without an item that can be given, shape ``(n,)``; opens the reserve of others."""
    none_left: BoolArray = np.all(progress.closed, axis=1)
    if progress.reserve.shape[1] and none_left.any():
        progress.closed[none_left] &= ~progress.reserve[none_left]
        progress.reserve[none_left] = False
        if test.categories is not None:
            progress.usable[none_left] = test.categories.open_counts(~progress.closed[none_left])
        none_left = np.all(progress.closed, axis=1)
    return none_left


def choose(test: AdaptiveTest, progress: Progress) -> tuple[IntArray, BoolArray | None]:
    """The next item of each session; none of them is exhausted.

    Returns
    -------
    tuple
        Positions, shape ``(n,)``, and the items that exposure control refused before, shape
        ``(n, J)``, or None.
    """
    values = _values(test, progress)
    refused = None
    if test.acceptance is not None:
        uniform = progress.uniform[:, progress.step]
        items, places, tried = accepted_items(values, test.acceptance, uniform)
        refused = np.zeros(values.shape, bool)
        rows, columns = np.nonzero(tried)
        refused[rows, places[rows, columns]] = True
    elif test.settings.randomesque > 1:
        uniform = progress.uniform[:, progress.step]
        items = one_of_best(values, test.settings.randomesque, uniform)
    else:
        items = best_items(values)
    if progress.step < test.first.size:
        planned = test.first[progress.step]
        there = ~progress.closed[:, planned]
        items = np.where(there, planned, items)
        if refused is not None:
            refused[there] = False
    return items, refused


def _values(test: AdaptiveTest, progress: Progress) -> FloatArray:
    """The criterion, -inf for items that cannot be given now."""
    if test.settings.rule == "random":
        values = progress.order.copy()
    else:
        values = test.engine.criterion(progress.evidence, progress.theta, progress.step)
    np.copyto(values, -np.inf, where=progress.closed)
    if test.categories is not None:
        category = test.categories.next_category(progress.given, progress.usable)
        elsewhere = test.categories.of_item != category[:, None]
        np.copyto(values, -np.inf, where=elsewhere)
    return values


def take(
    test: AdaptiveTest,
    progress: Progress,
    items: IntArray,
    codes: IntArray,
    refused: BoolArray | None = None,
) -> tuple[IntArray, IntArray]:
    """Take the answers to items, in place, and say which sessions end (see `ended`).

    Parameters
    ----------
    test, progress
        As they stand; `progress` moves on by one step.
    items, codes
        Shape ``(n,)``; a code below 0 uses the item up and leaves the ability as it was.
    refused
        As `choose` gave it.
    """
    rows = np.arange(items.size)
    if refused is not None:
        progress.closed |= refused
        if test.categories is not None:
            progress.usable = progress.usable - test.categories.open_counts(refused)
    progress.closed[rows, items] = True
    if test.categories is not None:
        category = test.categories.of_item[items]
        progress.given[rows, category] += 1
        progress.usable[rows, category] -= 1
    test.engine.observe(progress.evidence, items, codes)
    progress.theta, progress.se = test.engine.estimate(progress.evidence)
    progress.step += 1
    evidence = progress.evidence
    return ended(
        test.engine.settings,
        progress.step,
        evidence.answered,
        evidence.log_ratio,
        progress.theta,
        progress.se,
    )
