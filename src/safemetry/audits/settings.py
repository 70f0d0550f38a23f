"""Settings of `audit_target`, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from safemetry.audits.fingerprint.rerun_rate import known_rate
from safemetry.audits.fingerprint.settings import FingerprintSettings
from safemetry.audits.fingerprint.stream import DriftSettings
from safemetry.audits.person_fit.statistics import SIDES
from safemetry.audits.shift.comparison import Alternative
from safemetry.audits.shift.settings import ShiftSettings
from safemetry.errors import InputError

FEWEST_OTHERS = 10
"""Targets that a calibration of the items needs."""


@dataclass(frozen=True)
class AuditSettings:
    """Settings of `audit_target`.

    Parameters
    ----------
    level
        False-positive rate of each test, in (0, .5).
    simulations
        Answers that fit by construction, behind cutoffs and p-values; 99 or more.
    statistics
        Of person fit; None for all that the items allow.
    by
        Properties of the items by which misfit and selective behaviour are looked for.
    order
        Property of the items in whose order sums are watched (CUSUM).
    references
        Known targets of the fingerprint; None for all others.
    disagreement
        Share of the informative items on which a re-run differs; None where it is estimated from
        repeated runs, or assumed.
    clusters
        Property of the items whose values are independent, for the fingerprint.
    margin
        Largest difference of abilities that does not matter.
    alternative
        ``two_sided``, or ``lower``: only a fall of the ability counts.
    drift_margin
        Disagreement beyond that of re-runs that `same` rules out in the sequential check.
    power
        At which the resolution is stated.
    seed
        Of every draw.
    """

    level: float = 0.05
    simulations: int = 1000
    statistics: tuple[str, ...] | None = None
    by: tuple[str, ...] = ("category",)
    order: str | None = None
    references: tuple[str, ...] | None = None
    disagreement: float | None = None
    clusters: str | None = "behaviour"
    margin: float = 0.5
    alternative: Alternative = "two_sided"
    drift_margin: float = 0.1
    power: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.statistics or ():
            if name not in SIDES:
                raise InputError(f"there is no statistic {name!r}", fix=f"use {', '.join(SIDES)}")
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}", fix="give a whole number from 0")
        if self.simulations < 99 or (self.simulations + 1) * self.level < 1:
            raise InputError(
                f"{self.simulations} simulations cannot decide at level {self.level:g}",
                fix="use 99 at least, and more for a small level",
            )
        self.shift()
        self.fingerprint()
        self.drift()

    def shift(self) -> ShiftSettings:
        """How a shift of the ability is judged."""
        return ShiftSettings(
            margin=self.margin,
            level=self.level,
            alternative=self.alternative,
            power=self.power,
            simulations=self.simulations,
        )

    def fingerprint(self) -> FingerprintSettings:
        """How the target is held against known ones."""
        return FingerprintSettings(
            level=self.level,
            disagreement=self.disagreement,
            simulations=max(self.simulations // 2, 100, round(5 / self.level)),
        )

    def drift(self) -> DriftSettings:
        """How it is held against its own past, item by item."""
        rate = None if self.disagreement is None else known_rate(self.disagreement)
        return DriftSettings(level=self.level, margin=self.drift_margin, rate=rate)

    def resolved(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        listed = {"statistics": self.statistics, "references": self.references}
        return {
            **{name: value for name, value in vars(self).items() if name not in listed},
            **{name: None if value is None else list(value) for name, value in listed.items()},
            "by": list(self.by),
        }
