"""Pools of items for the tests of selection."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import ItemParameters


def made(items, seed=0, dimensions=1, steps=1):
    """A pool with two properties, of items in random order of their names."""
    rng = np.random.default_rng(seed)
    slopes = np.exp(rng.normal(0.1, 0.4, (items, dimensions)))
    intercepts = -np.sort(-rng.normal(0, 1.5, (items, steps)), axis=1)
    intercepts -= 0.5 * np.arange(steps)
    names = [f"item-{number}" for number in rng.permutation(items)]
    return ItemPool(
        tuple(names),
        ItemParameters(slopes, intercepts, np.zeros(items), np.ones(items)),
        np.full(dimensions, 0.3),
        0.5 * np.eye(dimensions) + 0.5,
        {
            "category": tuple(f"c{number}" for number in rng.integers(0, 4, items)),
            "language": tuple(("en", "de", None)[number] for number in rng.integers(0, 3, items)),
        },
    )


def permuted(pool, order):
    return pool.select(np.asarray(order))


def names_of(pool, positions):
    return sorted(pool.items[place] for place in positions.tolist())


def possible_forms(pool, constraints):
    """All forms that keep the constraints, by trying every one."""
    found = combinations(range(len(pool.items)), constraints.length)
    return [form for form in found if not constraints.broken(pool, np.array(form))]


def drawn_codes(pool, targets, seed=1):
    """Responses of targets in one dimension, with some missing."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(targets, 1))
    chance = 1 / (
        1 + np.exp(-(theta @ pool.parameters.slopes.T + pool.parameters.intercepts[:, 0]))
    )
    codes = (rng.random(chance.shape) < chance).astype(np.int8)
    codes[rng.random(chance.shape) < 0.05] = -1
    return codes
