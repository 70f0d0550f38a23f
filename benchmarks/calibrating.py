"""Calibrating: fits of responses beside the PyPI package `mirt`, where it is installed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.dimensions import CORRELATIONS
from benchmarks.timing import Row, compare

from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.priors import NO_PRIORS
from safemetry.irt.responses import MISSING, Responses, make_responses
from safemetry.irt.structure import make_structure
from safemetry.irt.unidimensional.marginal import fit_unidimensional

FACTORS = np.repeat([0, 1, 2], [199, 99, 100])
SPARSE = (5_000, 20_000, 0.1)


def one_dimension(
    targets: int, items: int, *, seed: int, observed: float = 1.0
) -> tuple[Responses, Any]:
    """Two-parameter responses, and the true abilities."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(targets)
    slopes, steps = np.exp(rng.normal(0.2, 0.4, items)), rng.normal(0.3, 1.3, items)
    codes = np.empty((targets, items), np.int8)
    for start in range(0, targets, 500):  # a block of abilities at a time keeps memory low
        block = slice(start, start + 500)
        chance = 1 / (1 + np.exp(-np.multiply.outer(theta[block], slopes) - steps))
        codes[block] = rng.random(chance.shape) < chance
        if observed < 1:
            codes[block][rng.random(chance.shape) > observed] = MISSING
    return make_responses(codes), theta


def three_factors(seed: int) -> tuple[Responses, Any]:
    """81 targets on three correlated factors, and the cells that are held out."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((81, 3)) @ np.linalg.cholesky(CORRELATIONS).T
    slopes = np.exp(rng.normal(0.2, 0.35, len(FACTORS)))
    log_odds = theta[:, FACTORS] * slopes + rng.normal(0.2, 1.2, len(FACTORS))
    codes = (rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return make_responses(codes), rng.random(codes.shape) < 0.2


def measure(repeats: int) -> list[Row]:
    """The rows of the table about calibrating."""
    few, _ = one_dimension(192, 5_000, seed=1)
    many, _ = one_dimension(20_000, 200, seed=2)
    factors, held_out = three_factors(3)
    structure = make_structure(factors.items, [f"f{place}" for place in FACTORS])
    settings = DimensionalSettings(likelihood=False)
    jobs: list[tuple[str, Callable[[], object], Callable[[Any], object] | None, str]] = [
        (
            "2PL with priors and errors, 192 x 5,000",
            lambda: fit_unidimensional(few),
            _quadrature(few),
            "mirt, 61 nodes, no errors",
        ),
        (
            "2PL with errors, 20,000 x 200",
            lambda: fit_unidimensional(many, priors=NO_PRIORS),
            _quadrature(many),
            "mirt, 61 nodes, no errors",
        ),
        (
            "3 dimensions explored, 81 x 398, 20% held out",
            lambda: fit_multidimensional(factors, 3, settings, held_out=held_out),
            _variational(factors.without(held_out)),
            "mirt, variational",
        ),
        (
            "3 dimensions by structure, 81 x 398, 20% held out",
            lambda: fit_multidimensional(factors, structure, settings, held_out=held_out),
            None,
            "",
        ),
    ]
    rows = [_row(*job, repeats) for job in jobs]
    rows.append(_sparse())
    return rows


def _quadrature(responses: Responses) -> Callable[[Any], object]:
    codes = responses.codes.astype(np.int64)
    # Its standard errors would need the square of the number of parameters in memory.
    return lambda mirt: mirt.fit_mirt(codes, n_quadpts=61, compute_standard_errors=False)


def _variational(responses: Responses) -> Callable[[Any], object]:
    codes = responses.codes.astype(np.int64)

    def fit(mirt: Any) -> object:
        from mirt.estimation.gvem import GVEMEstimator

        model = mirt.TwoParameterLogistic(n_items=codes.shape[1], n_factors=3)
        return GVEMEstimator().fit(model, codes)

    return fit


def _row(
    job: str,
    ours: Callable[[], object],
    peer: Callable[[Any], object] | None,
    peer_name: str,
    repeats: int,
) -> Row:
    ours()  # imports and first page faults belong to no fit
    try:
        import mirt
    except ImportError:
        mirt = None
    if mirt is not None and peer is not None:
        return compare(job, ours, lambda: peer(mirt), repeats, peer_name=peer_name)
    taken = []
    for _ in range(repeats):
        wall, used = time.perf_counter(), time.process_time()
        ours()
        taken.append((time.perf_counter() - wall, time.process_time() - used))
    return Row(job, min(taken)[0], ours_cpu=min(taken)[1])


def _sparse() -> Row:
    """The largest fit, once."""
    targets, items, observed = SPARSE
    responses, _ = one_dimension(targets, items, seed=4, observed=observed)
    wall, used = time.perf_counter(), sum(os.times()[:4])
    fit_unidimensional(responses, errors=False)
    return Row(
        f"2PL, {targets:,} x {items:,}, {observed:.0%} observed",
        time.perf_counter() - wall,
        ours_cpu=sum(os.times()[:4]) - used,
    )
