"""How a shift of an ability is judged."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from safemetry.audits.shift.comparison import Alternative
from safemetry.errors import InputError


@dataclass(frozen=True)
class ShiftSettings:
    """How a shift is judged.

    Parameters
    ----------
    margin
        Largest difference of abilities that does not matter, above 0.
    level
        False-positive rate of the difference test and of each one-sided test; one minus the
        confidence of intervals.
    alternative
        ``two_sided``, or ``lower``: only a fall counts (the target held back).
    power
        At which the resolution is stated.
    simulations
        Repetitions behind each p-value and interval, at least 99.

    Raises
    ------
    InputError
        For a setting out of range.
    """

    margin: float = 0.5
    level: float = 0.05
    alternative: Alternative = "two_sided"
    power: float = 0.8
    simulations: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.margin < np.inf:
            raise InputError(f"a margin of {self.margin:g} is not above 0")
        if self.alternative not in {"two_sided", "lower"}:
            raise InputError(
                f"unknown alternative {self.alternative!r}", fix="use two_sided or lower"
            )
        if not (0 < self.level < 0.5 and self.level < self.power < 1):
            raise InputError("a level lies between 0 and .5, and the power between it and 1")
        if self.simulations < 99 or (self.simulations + 1) * self.level < 2:
            raise InputError(
                f"{self.simulations} simulations cannot decide at level {self.level:g}",
                fix="use 99 at least, and more for a small level",
            )

    def to_dict(self) -> dict[str, Any]:
        """Every setting."""
        return asdict(self)
