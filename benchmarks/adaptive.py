"""Adaptive tests: a whole response matrix at once, beside `catsim` where it is installed."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.timing import Row

from safemetry.forms.adaptive import (
    AdaptiveSettings,
    Balance,
    answer,
    make_test,
    next_item,
    simulate_codes,
    simulate_sessions,
    start_session,
)
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import ItemParameters

TARGETS, ITEMS, STEPS = 192, 5_067, 200
PEER_TARGETS = 4
"""Targets that the peer is timed on: it works through them one after the other."""

RULES: dict[str, dict[str, Any]] = {
    "maximum information, EAP": {},
    "maximum information, MAP": {"estimator": "map"},
    "maximum information, WLE": {"estimator": "wle"},
    "maximum information, EAP, one of the best 5": {"randomesque": 5},
    "maximum information, EAP, 5 categories in balance": {"balance": Balance("category")},
    "a-stratified": {"rule": "a_stratified"},
    "posterior-weighted information": {"rule": "posterior_information"},
    "Kullback-Leibler over the posterior": {"rule": "klp"},
}


def large_pool(dims: int = 1) -> ItemPool:
    """Two-parameter items of five categories."""
    rng = np.random.default_rng(1)
    slopes = np.exp(rng.normal(0.2, 0.4, (ITEMS, 1)))
    if dims > 1:
        slopes = slopes * rng.dirichlet(np.ones(dims), ITEMS)
    parameters = ItemParameters(
        slopes, rng.normal(0.3, 1.3, (ITEMS, 1)), np.zeros(ITEMS), np.ones(ITEMS)
    )
    names = tuple(f"item-{place:04d}" for place in range(ITEMS))
    kinds = tuple(f"kind-{place % 5}" for place in range(ITEMS))
    return ItemPool(names, parameters, np.zeros(dims), np.eye(dims), {"category": kinds})


def measure() -> list[Row]:
    """The rows of the table about adaptive tests."""
    rng = np.random.default_rng(2)
    pool = large_pool()
    theta = rng.standard_normal((TARGETS, 1))
    codes = simulate_codes(pool.parameters, theta, rng)
    job = f"{TARGETS} targets x {ITEMS:,} items x {STEPS} steps"
    rows = []
    for name, choice in RULES.items():
        settings = replace(AdaptiveSettings(budget=STEPS), **choice)
        rows.append(
            _timed(f"{job}: {name}", lambda s=settings: simulate_sessions(pool, codes, s, rng))
        )
    peer = _peer_seconds(pool, theta[:PEER_TARGETS, 0])
    if peer is not None:
        share = TARGETS / PEER_TARGETS
        name = f"catsim, {PEER_TARGETS} targets timed, times {share:.0f}"
        rows[0] = replace(rows[0], peer=peer[0] * share, peer_cpu=peer[1] * share, peer_name=name)
    several = large_pool(3)
    codes = simulate_codes(several.parameters, rng.standard_normal((TARGETS, 3)), rng)
    settings = AdaptiveSettings(budget=STEPS, rule="determinant")
    rows.append(
        _timed(
            f"{job}: 3 dimensions, determinant",
            lambda: simulate_sessions(several, codes, settings, rng),
        )
    )
    rows.append(_timed(f"one live session, {ITEMS:,} items, {STEPS} steps", lambda: _live(pool)))
    return rows


def _live(pool: ItemPool) -> None:
    settings = AdaptiveSettings(budget=STEPS)
    session = start_session(pool, settings, 1, test=make_test(pool, settings))
    while (item := next_item(session)) is not None:
        session = answer(session, item, len(session.items) % 2)


def _peer_seconds(pool: ItemPool, theta: Any) -> tuple[float, float] | None:
    """Wall and processor seconds of maximum information with the peer's only estimator, ML."""
    try:
        from catsim.estimation import NumericalSearchEstimator
        from catsim.initialization import FixedPointInitializer
        from catsim.item_bank import ItemBank
        from catsim.selection import MaxInfoSelector
        from catsim.simulation import Simulator
        from catsim.stopping import TestLengthStopper
    except ImportError:
        return None
    slopes = pool.parameters.slopes[:, 0]
    bank = np.stack(
        [slopes, -pool.parameters.intercepts[:, 0] / slopes, np.zeros(ITEMS), np.ones(ITEMS)],
        axis=1,
    )
    simulator = Simulator(ItemBank(bank), theta)
    wall, used = time.perf_counter(), sum(os.times()[:4])
    simulator.simulate(
        FixedPointInitializer(0.0),
        MaxInfoSelector(),
        NumericalSearchEstimator(),
        TestLengthStopper(max_items=STEPS),
    )
    return time.perf_counter() - wall, sum(os.times()[:4]) - used


def _timed(job: str, work: Callable[[], object]) -> Row:
    wall, used = time.perf_counter(), sum(os.times()[:4])
    work()
    wall, used = time.perf_counter() - wall, sum(os.times()[:4]) - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return Row(job, wall, ours_cpu=used, peak=peak)
