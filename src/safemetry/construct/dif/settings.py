"""Settings of `audit_differences`, checked when made, and the comparisons they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safemetry.construct.dif.bands import Banding
from safemetry.construct.dif.choices import (
    ALL_TERTILES,
    NULL_PRIORS,
    PENALTIES,
    QUINTILES,
    TERTILES,
    Matching,
    Statistic,
    mantel_haenszel_choice,
    ridge_choice,
)
from safemetry.construct.dif.groups import SMALLEST_GROUP
from safemetry.construct.dif.thresholds import rank
from safemetry.errors import InputError
from safemetry.irt.priors import ItemPriors

METHODS = ("mantel_haenszel", "ridge_logistic")


@dataclass(frozen=True)
class DifferencesSettings:
    """Settings of `audit_differences`.

    Parameters
    ----------
    methods
        ``mantel_haenszel``, ``ridge_logistic`` or both.
    bands
        Bandings of Mantel-Haenszel, the headline's first. Beyond the second they are varied with
        the headline's priors only.
    smoothing
        Added to both sums of alpha, at least 0.
    priors
        Name -> priors of the fit that a null is simulated from, the headline's first.
    penalties
        Of the ridge, the headline's first; all above 0.
    simulations
        Matrices simulated for each null.
    further_simulations
        For rows that vary one choice of the headline and cost much: other penalties, non-uniform
        differences, matching without the studied item; at most `simulations`.
    alpha
        Error rate, over all items of a row and for single items.
    minimum_group
        Fewest targets of a group.
    fewest_items
        Informative items that a dimension must have to be a scope of its own.
    seed
        Not negative.
    """

    methods: tuple[str, ...] = METHODS
    bands: tuple[Banding, ...] = (TERTILES, ALL_TERTILES, QUINTILES)
    smoothing: float = 0.5
    priors: Mapping[str, ItemPriors] = field(default_factory=lambda: dict(NULL_PRIORS))
    penalties: tuple[float, ...] = PENALTIES
    simulations: int = 5000
    further_simulations: int = 1000
    alpha: float = 0.05
    minimum_group: int = SMALLEST_GROUP
    fewest_items: int = 10
    seed: int = 2026

    def __post_init__(self) -> None:
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown or not self.methods:
            raise InputError(
                f"unknown method {unknown[0]!r}" if unknown else "no method is asked for",
                fix=f"use {' or '.join(METHODS)}",
            )
        for name, entries in (("bands", self.bands), ("priors", self.priors)):
            if not entries:
                raise InputError(f"{name} is empty", fix="give one at least")
        if "ridge_logistic" in self.methods and not (
            self.penalties and all(penalty > 0 for penalty in self.penalties)
        ):
            raise InputError("penalties are numbers above 0, one at least")
        if self.smoothing < 0:
            raise InputError(f"a smoothing of {self.smoothing:g} is below 0")
        rank(min(self.simulations, self.further_simulations), self.alpha)
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}", fix="give a whole number from 0")

    def resolved(self) -> dict[str, Any]:
        """What decides the result, as plain values."""
        return {
            "methods": list(self.methods),
            "bands": [banding.label for banding in self.bands],
            "smoothing": self.smoothing,
            "priors": {name: described(priors) for name, priors in self.priors.items()},
            "penalties": list(self.penalties),
            "simulations": self.simulations,
            "further_simulations": min(self.further_simulations, self.simulations),
            "alpha": self.alpha,
            "minimum_group": self.minimum_group,
            "fewest_items": self.fewest_items,
            "seed": self.seed,
        }

    def statistics(self, prior: str, *, whole: bool) -> tuple[tuple[Statistic, int], ...]:
        """The statistics of one null with their numbers of simulations, the headline's first.

        Parameters
        ----------
        prior
            A name among `priors`.
        whole
            Whether all items are compared rather than those of one dimension, for which only
            bandings and priors vary.
        """
        few = min(self.further_simulations, self.simulations)
        headline = prior == next(iter(self.priors))
        found: list[tuple[Statistic, int]] = []
        if "mantel_haenszel" in self.methods:
            found += [
                (mantel_haenszel_choice(banding, smoothing=self.smoothing), self.simulations)
                for banding in (self.bands if headline and whole else self.bands[:2])
            ]
            if headline and whole:
                rest = mantel_haenszel_choice(self.bands[0], Matching.REST, self.smoothing)
                found.append((rest, few))
        if "ridge_logistic" in self.methods:
            found.append((ridge_choice(self.penalties[0]), self.simulations))
            if headline and whole:
                found += [(ridge_choice(penalty), few) for penalty in self.penalties[1:]]
                found.append((ridge_choice(self.penalties[0], non_uniform=True), few))
        return tuple(found)


def described(priors: ItemPriors) -> str:
    """Priors of slopes and intercepts in words.

    Examples
    --------
    >>> described(ItemPriors())
    'a ~ LogNormal(estimated, 0.5), d ~ Normal(estimated, 3)'
    """
    parts = []
    for name, prior in (("a", priors.slope), ("d", priors.intercept)):
        if prior is None:
            parts.append(f"{name} without a prior")
        else:
            mean = "estimated" if prior.mean is None else f"{prior.mean:g}"
            parts.append(f"{name} ~ {type(prior).__name__}({mean}, {prior.sd:g})")
    return ", ".join(parts)
