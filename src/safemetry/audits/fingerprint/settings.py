"""Settings of a fingerprint, checked when made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from safemetry.audits.fingerprint.answers import LEAST_DIFFERENCE
from safemetry.errors import InputError
from safemetry.findings import resolved

ASSUMED: Final = (0.02, 0.05, 0.1)
"""Re-run disagreements that are tried where nothing is known."""


@dataclass(frozen=True)
class FingerprintSettings:
    """Settings of `compare_with_known`.

    Parameters
    ----------
    level
        Error rate of each verdict, in (0, .5).
    disagreement
        Share of the informative items on which a re-run of a known target differs. None estimates
        it from repeated runs; without any, all of `assumed` are tried.
    assumed
        Tried where no run is repeated and nothing is stated; the figures shown are those of the
        middle one, and a verdict stands only if all of them give it.
    population
        Alternative: ``irt``, ``marginal`` or ``auto`` (see `answer_population`).
    least_difference
        Of an informative item (see `informative_items`).
    simulations
        Simulated re-runs of each known target, at least 100.
    """

    level: float = 0.05
    disagreement: float | None = None
    assumed: tuple[float, ...] = ASSUMED
    population: str = "auto"
    least_difference: float = LEAST_DIFFERENCE
    simulations: int = 500

    def __post_init__(self) -> None:
        if not 0 < self.level < 0.5:
            raise InputError(f"a level of {self.level:g} is not between 0 and .5")
        if self.simulations < 100 or self.simulations * self.level < 5:
            raise InputError(
                f"{self.simulations} simulations do not show an error rate of {self.level:g}",
                fix="give at least 100, and 5 divided by the level",
            )
        if not self.assumed or not all(0 < rate < 1 for rate in self.assumed):
            raise InputError("assumed re-run disagreements lie between 0 and 1, one at least")

    def resolved(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        return resolved(
            {
                "level": self.level,
                "disagreement": self.disagreement,
                "assumed": list(self.assumed),
                "population": self.population,
                "least_difference": self.least_difference,
                "simulations": self.simulations,
            }
        )
