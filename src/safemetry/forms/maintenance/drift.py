"""Items that behave differently among later targets than among earlier ones.

Both cohorts are calibrated, the scales are linked through all items, and each item's slope and
intercepts are compared by a Wald statistic (Lord 1980, chapter 14). With tens of targets its
chi-squared distribution does not hold, and hundreds of items are looked at, so the threshold is the
95th percentile of the *largest* statistic among cohorts that are simulated from the common
parameters, with the abilities and gaps of the real ones: the chance of any false flag at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.forms.maintenance.wald import compare_fits, parameters_between
from safemetry.irt.equating import Link, LinkMethod
from safemetry.irt.parameters import (
    FloatArray,
    ItemModel,
    ItemParameters,
    category_probabilities,
)
from safemetry.irt.priors import ItemPriors
from safemetry.irt.responses import Responses, make_responses, varying_items
from safemetry.irt.unidimensional.marginal import UnidimensionalFit, fit_unidimensional
from safemetry.tasks import Task, TaskSettings, run_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

FEWEST_TARGETS: Final = 8


@dataclass(frozen=True)
class DriftRow:
    """One item in two cohorts, on the scale of the earlier one.

    Parameters
    ----------
    item
        Its name.
    slope_change, difficulty_change
        Later less earlier; the difficulty is that of the middle step. None where it has none.
    score_change
        Expected outcome later less earlier at the mean ability of the earlier cohort.
    statistic
        Wald statistic; None where an estimate lies at a bound and has no error.
    p_adjusted
        Family-wise: share of simulated cohorts without drift whose largest statistic is as large.
    drifted
        Whether `p_adjusted` is at most the level; False where it is unknown.
    why
        Why a field is None.
    """

    item: str
    slope_change: float
    difficulty_change: float | None
    score_change: float
    statistic: float | None
    p_adjusted: float | None
    drifted: bool
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ItemDrift:
    """Drift of all items between two cohorts.

    Parameters
    ----------
    rows
        Items that vary in both cohorts, the largest statistic first.
    left_out
        Items of both cohorts that do not vary in one of them, which nobody can compare.
    link
        From the later to the earlier scale.
    threshold
        Statistic above which an item has drifted.
    level, simulations
        Family-wise level, and simulated pairs of cohorts.
    warnings
        In whole sentences.
    """

    rows: tuple[DriftRow, ...]
    left_out: tuple[str, ...]
    link: Link
    threshold: float
    level: float
    simulations: int
    warnings: tuple[str, ...] = ()

    @property
    def drifted(self) -> tuple[str, ...]:
        """Names of the items that drifted."""
        return tuple(row.item for row in self.rows if row.drifted)


@dataclass(frozen=True)
class DriftSettings:
    """How drift is looked for.

    Parameters
    ----------
    model, priors
        Of the items.
    method
        Of the link; items that plainly differ are left out of it. The default is also used in every
        simulated pair, where a method by whole curves would take minutes.
    level
        Chance of any false flag, in (0, 1).
    simulations
        Pairs of cohorts without drift; at least 1 / level, so that the threshold exists.
    seed
        Of the simulations.
    """

    model: ItemModel = ItemModel.TWO_PL
    priors: ItemPriors = field(default_factory=ItemPriors)
    method: LinkMethod = "mean_mean"
    level: float = 0.05
    simulations: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InputError(f"a level of {self.level:g} is not between 0 and 1")
        if self.simulations * self.level < 1:
            raise InputError(
                f"{self.simulations} simulations have no {1 - self.level:.0%} point",
                fix=f"use {int(np.ceil(1 / self.level))} at least",
            )


def item_drift(
    earlier: Responses,
    later: Responses,
    settings: DriftSettings | None = None,
    *,
    tasks: TaskSettings | None = None,
) -> ItemDrift:
    """Find items whose parameters differ between two cohorts of targets.

    Parameters
    ----------
    earlier, later
        Responses of the two cohorts, to items that are matched by name.
    settings
        See `DriftSettings`.
    tasks
        How the simulations are run.

    Raises
    ------
    InputError
        For fewer than eight targets in a cohort, or fewer than three items in common that vary in
        both.
    """
    chosen = settings or DriftSettings()
    model, priors, method, level = chosen.model, chosen.priors, chosen.method, chosen.level
    simulations = chosen.simulations
    if min(len(earlier.targets), len(later.targets)) < FEWEST_TARGETS:
        raise InputError(f"a cohort of fewer than {FEWEST_TARGETS} targets shows no drift")
    names, first, second, left_out = _common(earlier, later)
    fits = _fit(first, model, priors), _fit(second, model, priors)
    link, statistic = compare_fits(*fits, method)
    null = parameters_between(fits[0].parameters, link.parameters(fits[1].parameters))
    shared = {
        "parameters": null,
        "seen": (first >= 0, second >= 0),
        "places": ((0.0, fits[0].latent_sd), (link.intercept, link.slope * fits[1].latent_sd)),
        "model": model,
        "priors": priors,
        "method": method,
    }
    work = [Task(f"cohorts {number}") for number in range(simulations)]
    drawn = run_tasks(largest_statistic, work, seed=chosen.seed, shared=shared, settings=tasks)
    largest = np.sort(np.array([value for value in drawn if value is not None], np.float64))
    warnings = [*link.warnings]
    if largest.size < simulations:
        warnings.append(
            f"{simulations - largest.size} of {simulations} simulated pairs of cohorts could not "
            "be linked and are left out."
        )
    if largest.size * level < 1:
        raise InputError("too few simulated cohorts could be linked", fix="give more targets")
    # The largest of S + 1 exchangeable values is the observed one with chance 1 / (S + 1).
    rank = int(np.floor(level * (largest.size + 1)))
    threshold = float(largest[largest.size - max(rank, 1)])
    rows = _rows(names, fits, link, statistic, largest, level)
    return ItemDrift(rows, left_out, link, threshold, level, int(largest.size), tuple(warnings))


def largest_statistic(
    *,
    rng: np.random.Generator,
    parameters: ItemParameters,
    seen: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    places: tuple[tuple[float, float], tuple[float, float]],
    model: ItemModel,
    priors: ItemPriors,
    method: LinkMethod,
) -> float | None:
    """The largest statistic between two simulated cohorts without drift; None without a link."""
    cohorts = []
    for cells, (mean, sd) in zip(seen, places, strict=True):
        theta = rng.normal(mean, sd, len(cells))
        chances = category_probabilities(parameters, theta[:, None])
        below = np.cumsum(chances, axis=0)[:-1]
        codes = (rng.random(cells.shape) >= below).sum(axis=0).astype(np.int8)
        cohorts.append(np.where(cells, codes, np.int8(-1)))
    usable = np.logical_and(*(varying_items(codes) for codes in cohorts))
    try:
        fits = tuple(
            _fit(np.ascontiguousarray(codes[:, usable]), model, priors) for codes in cohorts
        )
        statistic = compare_fits(fits[0], fits[1], method)[1]
    except InputError:
        return None
    known = statistic[np.isfinite(statistic)]
    return float(known.max()) if known.size else None


def _common(
    earlier: Responses, later: Responses
) -> tuple[tuple[str, ...], Codes, Codes, tuple[str, ...]]:
    """Names of the items that vary in both cohorts, the responses to them, and the other names."""
    place = {item: spot for spot, item in enumerate(later.items)}
    shared = [item for item in earlier.items if item in place]
    ours = [spot for spot, item in enumerate(earlier.items) if item in place]
    first, second = earlier.codes[:, ours], later.codes[:, [place[item] for item in shared]]
    varies = varying_items(first) & varying_items(second) if shared else np.zeros(0, bool)
    kept = np.flatnonzero(varies)
    names = tuple(shared[spot] for spot in kept)
    left_out = tuple(item for item, used in zip(shared, varies, strict=True) if not used)
    return (
        names,
        np.ascontiguousarray(first[:, kept]),
        np.ascontiguousarray(second[:, kept]),
        left_out,
    )


def _fit(codes: Codes, model: ItemModel, priors: ItemPriors) -> UnidimensionalFit:
    if codes.shape[1] < 3:
        raise InputError(
            f"{codes.shape[1]} common items vary in both cohorts", fix="three are least"
        )
    return fit_unidimensional(make_responses(codes), model, priors)


def _rows(
    names: tuple[str, ...],
    fits: tuple[UnidimensionalFit, UnidimensionalFit],
    link: Link,
    statistic: FloatArray,
    largest: FloatArray,
    level: float,
) -> tuple[DriftRow, ...]:
    ours, theirs = fits[0].parameters, link.parameters(fits[1].parameters)
    scores = [_middle_score(one) for one in (ours, theirs)]
    order = np.argsort(-np.nan_to_num(statistic, nan=-1.0), kind="stable")
    rows = []
    for place in order:
        own, other = (_middle_difficulty(one, int(place)) for one in (ours, theirs))
        value, why = float(statistic[place]), {}
        share: float | None = None
        if np.isfinite(value):
            above = largest.size - int(np.searchsorted(largest, value - 1e-12))
            share = (1 + above) / (1 + largest.size)
        else:
            reason = "an estimate lies at a bound and has no standard error"
            why = {"statistic": reason, "p_adjusted": reason}
        change: float | None = None
        if own is None or other is None:
            why["difficulty_change"] = "an item that does not discriminate has no difficulty"
        else:
            change = other - own
        rows.append(
            DriftRow(
                names[place],
                float(theirs.slopes[place, 0] - ours.slopes[place, 0]),
                change,
                float(scores[1][place] - scores[0][place]),
                value if np.isfinite(value) else None,
                share,
                share is not None and share <= level,
                why,
            )
        )
    return tuple(rows)


def _middle_score(parameters: ItemParameters) -> FloatArray:
    chances = category_probabilities(parameters, np.zeros((1, 1)))[:, 0]
    codes = np.arange(len(chances), dtype=np.float64)
    found: FloatArray = codes @ chances / np.maximum(parameters.categories - 1, 1)
    return found


def _middle_difficulty(parameters: ItemParameters, place: int) -> float | None:
    slope = float(parameters.slopes[place, 0])
    steps = parameters.intercepts[place]
    known = steps[np.isfinite(steps)]
    if abs(slope) < 1e-6 or not known.size:
        return None
    return float(-known[known.size // 2] / slope)
