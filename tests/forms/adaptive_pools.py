"""Pools and responses that several tests of adaptive tests share."""

from __future__ import annotations

import numpy as np

from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import ItemParameters


def binary_pool(slopes, intercepts, lower=None, upper=None, properties=None, mean=0.0, sd=1.0):
    slopes, intercepts = np.asarray(slopes, float), np.asarray(intercepts, float)
    count = slopes.size
    return ItemPool(
        tuple(f"item-{place}" for place in range(count)),
        ItemParameters(
            slopes[:, None],
            intercepts[:, None],
            np.zeros(count) if lower is None else np.asarray(lower, float),
            np.ones(count) if upper is None else np.asarray(upper, float),
        ),
        np.array([mean]),
        np.array([[sd**2]]),
        properties or {},
    )


def random_pool(count, seed, categories=3):
    rng = np.random.default_rng(seed)
    kinds = tuple(f"kind-{place % categories}" for place in range(count))
    return binary_pool(
        np.exp(rng.normal(0.1, 0.35, count)),
        rng.normal(0.0, 1.3, count),
        properties={"category": kinds},
    )


def graded_pool(count, seed):
    rng = np.random.default_rng(seed)
    steps = np.sort(rng.normal(0, 1.5, (count, 3)), axis=1)[:, ::-1].copy()
    steps[: count // 2, 2] = -np.inf  # half of the items have three categories only
    parameters = ItemParameters(
        np.exp(rng.normal(0.2, 0.3, (count, 1))), steps, np.zeros(count), np.ones(count)
    )
    names = tuple(f"item-{place}" for place in range(count))
    return ItemPool(names, parameters, np.zeros(1), np.eye(1))
