"""Person fit of many targets, with simulated cutoffs."""

from __future__ import annotations

import os
import resource
import time

import numpy as np
from benchmarks.timing import Row

from safemetry.audits.person_fit import Calibrated, person_fit
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import Responses, make_responses


def case(items: int, targets: int = 192) -> tuple[Responses, Calibrated]:
    """Targets that fit, and items with the errors of a calibration of about 80 targets."""
    rng = np.random.default_rng(1)
    slopes = np.exp(rng.normal(0.1, 0.4, items))
    steps = -slopes * rng.normal(0, 1.2, items)
    chances = 1 / (1 + np.exp(-rng.normal(size=(targets, 1)) * slopes - steps))
    codes = (rng.random(chances.shape) < chances).astype(np.int8)
    names = tuple(f"i{place}" for place in range(items))
    parameters = ItemParameters(slopes[:, None], steps[:, None], np.zeros(items), np.ones(items))
    calibrated = Calibrated.make(
        names,
        parameters,
        slope_errors=0.25 * slopes,
        intercept_errors=np.full((items, 1), 0.3),
        slope_prior_sd=0.5,
    )
    return make_responses(codes, items=names), calibrated


def measure() -> list[Row]:
    """The rows of the table about person fit."""
    return [_timed(items) for items in (400, 5067)]


def _timed(items: int) -> Row:
    responses, calibrated = case(items)
    wall, used = time.perf_counter(), sum(os.times()[:4])
    person_fit(
        responses,
        calibrated,
        simulations=1000,
        rng=np.random.default_rng(1),
        order=list(range(items)),
    )
    wall, used = time.perf_counter() - wall, sum(os.times()[:4]) - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    job = f"192 targets x {items:,} items: person fit, 9 statistics, 1,000 simulations each"
    return Row(job, wall, ours_cpu=used, peak=peak)
