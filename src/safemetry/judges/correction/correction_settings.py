"""How rates are corrected."""

from __future__ import annotations

from dataclasses import dataclass

from safemetry.errors import InputError
from safemetry.judges.correction.effective_labels import Population
from safemetry.rates.intervals import check_level


@dataclass(frozen=True)
class CorrectionSettings:
    """How rates are corrected.

    Parameters
    ----------
    level
        Two-sided confidence, in (0, 1).
    population
        ``sample``: the responses stand for more of their kind. ``fixed``: the rate of these very
        responses is asked for.
    tuning
        Weight of the judge in prediction-powered estimates, 0 to 1; None for the best.
    clustered
        Whether responses to one behaviour, else to one item, stand or fall together. Without
        effect on a fixed population.
    """

    level: float = 0.95
    population: Population = "sample"
    tuning: float | None = None
    clustered: bool = True

    def __post_init__(self) -> None:
        try:
            check_level(self.level)
        except ValueError as error:
            raise InputError(str(error), fix="give a fraction such as 0.95") from None
        if self.population not in ("sample", "fixed"):
            raise InputError(f"unknown population {self.population!r}", fix="take sample or fixed")
        if self.tuning is not None and not 0 <= self.tuning <= 1:
            raise InputError(f"tuning is {self.tuning:g}", fix="give a weight from 0 to 1")
