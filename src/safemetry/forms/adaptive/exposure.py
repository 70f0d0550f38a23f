"""Exposure control: how often items are given, held down by simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.adaptive.process import make_test
from safemetry.forms.adaptive.settings import AdaptiveSettings, Exposure
from safemetry.forms.adaptive.simulation import run_sessions, simulate_codes
from safemetry.forms.pool import ItemPool
from safemetry.irt.parameters import FloatArray

_SMALLEST: Final = 1e-4


@dataclass(frozen=True)
class ExposureControl:
    """Exposure probabilities found by simulation.

    Parameters
    ----------
    exposure
        For `AdaptiveSettings`.
    most
        The rate that was asked for.
    highest
        Largest exposure rate of an item in each cycle, the last with the probabilities before
        their last change.
    """

    exposure: Exposure
    most: float
    highest: tuple[float, ...]


def control_exposure(
    pool: ItemPool,
    settings: AdaptiveSettings,
    *,
    most: float,
    rng: np.random.Generator,
    kind: str = "acceptance",
    sessions: int = 1000,
    cycles: int = 10,
) -> ExposureControl:
    """Probabilities under which no item is given to more than a share of the sessions.

    Sessions of targets from the population are simulated in cycles. ``acceptance``: an item that
    was *chosen* in a share s of them is accepted with probability most / s where s is larger
    (Sympson & Hetter 1985). ``eligibility``: the probability of an item that was *given* in a share
    a is multiplied by most / a, up to 1 (van der Linden & Veldkamp 2004).

    Parameters
    ----------
    pool
        Of J items.
    settings
        Of the test; its own exposure control is replaced.
    most
        Largest exposure rate, in (0, 1]; at least budget / J, or items do not suffice.
    rng
        Source of randomness.
    kind
        ``acceptance`` or ``eligibility``.
    sessions
        In each cycle. Rates have a standard error of sqrt(most (1 - most) / sessions).
    cycles
        At least 1.

    Raises
    ------
    InputError
        For a rate that the pool cannot keep.
    """
    if kind not in {"acceptance", "eligibility"}:
        raise InputError(f"there is no exposure control {kind!r}")
    if not settings.budget / len(pool.items) < most <= 1:
        raise InputError(
            f"no item in more than {most:g} of sessions of {settings.budget} items, from a pool of "
            f"{len(pool.items)}",
            fix="allow a larger rate, or shorten the session",
        )
    chances = np.ones(len(pool.items))
    highest = []
    for _ in range(cycles):
        exposure = _exposure(pool, kind, chances)
        test = make_test(pool, replace(settings, exposure=exposure))
        theta = rng.multivariate_normal(pool.mean, pool.covariance, sessions)
        codes = simulate_codes(pool.parameters, theta, rng)
        found = run_sessions(test, codes, rng.integers(2**31, size=sessions))
        given = found.given / sessions
        highest.append(float(given.max()))
        if kind == "acceptance":
            chances = most / np.maximum(found.chosen / sessions, most)
        else:
            ratio = most / np.maximum(given, 1 / (2 * sessions))
            chances = np.clip(chances * ratio, _SMALLEST, 1.0)
    return ExposureControl(_exposure(pool, kind, chances), most, tuple(highest))


def _exposure(pool: ItemPool, kind: str, chances: FloatArray) -> Exposure:
    named = {
        item: float(chance) for item, chance in zip(pool.items, chances, strict=True) if chance < 1
    }
    return Exposure("acceptance" if kind == "acceptance" else "eligibility", named)
