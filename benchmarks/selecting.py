"""Choosing the items of a form from a large pool under quotas."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
from benchmarks.adaptive import ITEMS, large_pool
from benchmarks.timing import Row

from safemetry.forms.constraints import Constraints, Quota
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection import random_forms, select_exact, select_greedy

LENGTH, QUOTAS = 25, 8


def case() -> tuple[ItemPool, Constraints]:
    """A pool in eight kinds, and a form that has two to four items of each."""
    pool = large_pool()
    kinds = tuple(f"kind-{place % QUOTAS}" for place in range(ITEMS))
    pool = ItemPool(pool.items, pool.parameters, pool.mean, pool.covariance, {"kind": kinds})
    quotas = tuple(Quota("kind", f"kind-{place}", 2, 4) for place in range(QUOTAS))
    return pool, Constraints(LENGTH, quotas)


def measure() -> list[Row]:
    """The rows of the table about choosing items."""
    pool, constraints = case()
    rng = np.random.default_rng(1)
    jobs: dict[str, Callable[[], object]] = {
        "exact, mean information": lambda: select_exact(pool, constraints),
        "exact, maximin": lambda: select_exact(pool, constraints, objective="maximin"),
        "greedy with exchanges": lambda: select_greedy(pool, constraints),
        "100 random forms": lambda: random_forms(pool, constraints, 100, rng),
    }
    return [_timed(name, job) for name, job in jobs.items()]


def _timed(name: str, job: Callable[[], object]) -> Row:
    wall, used = time.perf_counter(), sum(os.times()[:4])
    job()
    wall, used = time.perf_counter() - wall, sum(os.times()[:4]) - used
    return Row(f"{LENGTH} of {ITEMS:,} items, {QUOTAS} quotas: {name}", wall, ours_cpu=used)
