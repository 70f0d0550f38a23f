"""Auditing a construct: the whole protocol, beside what its fits alone would take a peer."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.dimensions import CORRELATIONS
from benchmarks.timing import PeakMemory, Row

from safemetry.construct import ConstructSettings, audit_construct
from safemetry.irt.responses import Responses, make_responses

SHAPE = (77, (196, 100, 99))
GROUPS = (20, 11)
SPLITS, RESTARTS, DIMS = 5, 20, 10


def protocol() -> tuple[Responses, ConstructSettings]:
    """Three factors of the published shape, and the settings of the published protocol.

    Twelve models and more: 1PL, 2PL and 3PL, one to ten explored dimensions, the three true factors
    and seven random groups of items; five splits, twenty starts; item differences between two
    groupings of the targets with 5,000 simulated matrices.
    """
    rng = np.random.default_rng(7)
    targets, sizes = SHAPE
    factor = np.repeat(np.arange(len(sizes)), sizes)
    theta = rng.standard_normal((targets, 3)) @ np.linalg.cholesky(CORRELATIONS).T
    slopes = np.exp(rng.normal(0.5, 0.35, len(factor)))
    log_odds = theta[:, factor] * slopes + rng.normal(1.0, 1.4, len(factor))
    codes = (rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(int)
    responses = make_responses(codes)
    first, second = GROUPS
    developer = ["one"] * first + ["two"] * second + ["none"] * (targets - first - second)
    settings = ConstructSettings(
        structures={
            "type": {item: f"type {f}" for item, f in zip(responses.items, factor, strict=True)},
            "random": {item: f"group {rng.integers(7)}" for item in responses.items},
        },
        groups={
            "developer": {
                name: made
                for name, made in zip(responses.targets, developer, strict=True)
                if made != "none"
            },
            "access": {
                name: ("open", "closed")[int(rng.integers(2))] for name in responses.targets
            },
        },
        splits=SPLITS,
        restarts=RESTARTS,
        max_dims=DIMS,
        simulations=5000,
        quiet=True,
    )
    return responses, settings


def measure() -> list[Row]:
    """The rows of the table about auditing a construct."""
    responses, settings = protocol()
    wall = time.perf_counter()
    with PeakMemory() as memory:
        audit_construct(responses, settings=settings)
    wall = time.perf_counter() - wall
    return [
        Row(
            "construct audit: the published protocol, 77 x 395",
            wall,
            peak=memory.peak,
            peer=_estimated(responses),
            peer_name="mirt, its held-out fits alone, from single fits",
        )
    ]


def _estimated(responses: Responses) -> float | None:
    """Seconds that the held-out fits would take the peer: variational ones from 2 to 10 dimensions.

    One fit of each kind is timed; quadrature in several dimensions takes far longer and is left
    out, and so are item differences, spectra and the verdict.
    """
    try:
        import mirt
        from mirt.estimation.gvem import GVEMEstimator
    except ImportError:
        return None
    codes = responses.codes.astype(np.int64)

    def timed(fit: Any) -> float:
        start = time.perf_counter()
        fit()
        return time.perf_counter() - start

    one = timed(lambda: mirt.fit_mirt(codes, n_quadpts=61, compute_standard_errors=False))
    several = []
    for dims in (2, 3, DIMS):
        model = mirt.TwoParameterLogistic(n_items=codes.shape[1], n_factors=dims)
        several.append(timed(lambda model=model: GVEMEstimator().fit(model, codes)))
    many = float(np.mean(several))
    in_one = 3 * SPLITS  # a marginal fit has one start
    in_many = (DIMS + 2) * SPLITS * RESTARTS
    return in_one * one + in_many * many
