"""Whether each item fits: observed and expected responses at each summed score (S-X2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.stats import chi2

from safemetry.errors import InputError
from safemetry.irt.diagnostics.summed import score_distribution, scores_without_each
from safemetry.irt.information import normal_grid, total_information
from safemetry.irt.matching import check_items
from safemetry.irt.parameters import (
    FloatArray,
    IntArray,
    ItemParameters,
    category_probabilities,
)
from safemetry.irt.responses import Responses

LEAST_EXPECTED: Final = 1.0
"""Expected count that a cell of an S-X2 table must have."""
FEW_TARGETS: Final = 200
"""Complete targets under which S-X2 has little power."""


@dataclass(frozen=True)
class SummedScoreFit:
    """S-X2 of one item.

    Parameters
    ----------
    item
        Its name.
    statistic, degrees, p_value, p_adjusted
        S-X2, its degrees of freedom, the chance of one at least as large if the item fits, and the
        same after Holm's adjustment for all items tested; None where `why` says why not.
    rmsea
        sqrt(max(0, S-X2 - df) / (df (n - 1))), the misfit per degree of freedom, which does not
        grow with the number of targets.
    why
        Why the statistic is unknown, or empty.
    """

    item: str
    statistic: float | None
    degrees: int
    p_value: float | None
    p_adjusted: float | None
    rmsea: float | None
    why: str = ""


@dataclass(frozen=True)
class SummedScoreFits:
    """S-X2 of every item.

    Parameters
    ----------
    items
        In the order of the responses.
    targets
        Number of targets (weights summed) with a response to every item; the others have no
        comparable summed score and are left out.
    warnings
        What a reader of the p-values must know.
    """

    items: tuple[SummedScoreFit, ...]
    targets: float
    warnings: tuple[str, ...]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row for each item."""
        return [vars(item) for item in self.items]

    def misfits(self, level: float = 0.05) -> tuple[str, ...]:
        """Items whose adjusted p-value is under a level."""
        return tuple(
            fit.item for fit in self.items if fit.p_adjusted is not None and fit.p_adjusted < level
        )


def summed_score_fit(
    responses: Responses,
    parameters: ItemParameters,
    *,
    estimated: int | Sequence[int] | None = None,
    mean: float = 0.0,
    sd: float = 1.0,
    least_expected: float = LEAST_EXPECTED,
) -> SummedScoreFits:
    """S-X2: observed and expected responses at each summed score.

    At every summed score but the lowest and the highest, the number of targets in each category of
    the item is compared with what the model expects of targets with this score, found by the
    Lord-Wingersky recursion with and without the item (Orlando & Thissen 2000, equations 4 to 8;
    Kang & Chen 2008 for more than two categories). Targets are grouped by what is observed, so the
    statistic keeps its level where statistics on estimated abilities do not.

    Parameters
    ----------
    responses
        Of targets; those with a missing response are left out.
    parameters
        Of the same items, in one dimension.
    estimated
        Parameters estimated for each item, which the degrees of freedom lose; by default the slope
        if slopes differ, every intercept, and each asymptote that is not 0 or 1.
    mean, sd
        Of the ability in the population.
    least_expected
        Cells that expect fewer are joined with their neighbours: categories within a score first,
        then scores, from both ends towards the middle.

    Raises
    ------
    InputError
        For several dimensions, or other items than the parameters have.

    Notes
    -----
    With p-values for hundreds of items some are small by chance: use `p_adjusted`.
    """
    _check(responses, parameters)
    complete = responses.observed.all(axis=1)
    codes, weights = responses.codes[complete].astype(np.int64), responses.weights[complete]
    free = (
        estimated_parameters(parameters)
        if estimated is None
        else np.broadcast_to(np.asarray(estimated), (parameters.items,))
    )
    targets = float(weights.sum())
    found: dict[int, SummedScoreFit] = {}
    if targets:
        theta, density = _fine_grid(parameters, mean, sd)
        chances = category_probabilities(parameters, theta[:, None])
        scores = codes.sum(axis=1)
        whole = score_distribution(chances) @ density
        for place, rest in scores_without_each(chances):
            joint = _joint(rest, chances[:, :, place] * density, len(whole))
            expected = np.divide(joint, whole, out=np.zeros_like(joint), where=whole > 0)
            observed = np.zeros_like(expected)
            np.add.at(observed, (codes[:, place], scores), weights)
            steps = parameters.categories[place]
            top = int(parameters.categories.sum() - parameters.items)
            table = (observed[:steps, 1:top], expected[:steps, 1:top] * observed.sum(0)[1:top])
            found[place] = _fit_of(
                responses.items[place], *table, int(free[place]), targets, least_expected
            )
    fits = [
        found.get(place) or SummedScoreFit(name, None, 0, None, None, None, "no complete target")
        for place, name in enumerate(responses.items)
    ]
    return SummedScoreFits(
        tuple(_adjusted(fits)), targets, _warnings(targets, float(responses.weights.sum()))
    )


def estimated_parameters(parameters: ItemParameters) -> IntArray:
    """Number of parameters of each item that a fit estimates, as far as they show, shape (J,)."""
    slopes = 0 if np.ptp(parameters.slopes) == 0 else 1
    asymptotes = ((parameters.lower > 0).astype(np.int64)) + (parameters.upper < 1)
    found: IntArray = parameters.categories - 1 + slopes + asymptotes
    return found


def _joint(rest: FloatArray, weighted: FloatArray, scores: int) -> FloatArray:
    """Probability of each category together with each summed score, shape ``(C, S)``."""
    joint = np.zeros((len(weighted), scores))
    for category, chance in enumerate(weighted):
        joint[category, category : category + len(rest)] = rest @ chance
    return joint


def _fine_grid(parameters: ItemParameters, mean: float, sd: float) -> tuple[FloatArray, FloatArray]:
    """Nodes fine enough for the narrowest posterior that these items give."""
    theta, _ = normal_grid(mean, sd)
    sharpest = float(total_information(parameters, theta).max()) * sd**2
    return normal_grid(mean, sd, spacing=min(0.2, 0.75 / np.sqrt(1 + sharpest)))


def _fit_of(
    item: str,
    observed: FloatArray,
    expected: FloatArray,
    free: int,
    targets: float,
    least: float,
) -> SummedScoreFit:
    cells = _collapsed(observed, expected, least)
    degrees = sum(len(group) - 1 for group in cells) - free
    if degrees < 1:
        why = "too few targets: no degree of freedom is left once sparse cells are joined"
        return SummedScoreFit(item, None, 0, None, None, None, why)
    table = np.concatenate(cells)
    statistic = float(((table[:, 0] - table[:, 1]) ** 2 / table[:, 1]).sum())
    rmsea = np.sqrt(max(0.0, statistic - degrees) / (degrees * max(targets - 1, 1)))
    p_value = float(chi2.sf(statistic, degrees))
    return SummedScoreFit(item, statistic, degrees, p_value, None, float(rmsea))


def _collapsed(observed: FloatArray, expected: FloatArray, least: float) -> list[FloatArray]:
    """Cells (observed, expected) of each group of scores, every cell expecting enough.

    Categories are joined within a score while at least two remain; a score with fewer than two
    cells that expect enough is joined with the next one, from both ends towards the middle.
    """
    table = np.stack([observed, expected], axis=-1).transpose(1, 0, 2)
    table = table[table[:, :, 1].sum(axis=1) > 0]
    middle = len(table) // 2
    lower, lower_rest = _gathered(table[:middle], least)
    upper, upper_rest = _gathered(table[middle:][::-1], least)
    groups = lower + upper[::-1]
    rest = lower_rest + upper_rest
    if groups and rest.any():
        groups[max(len(lower) - 1, 0)] = groups[max(len(lower) - 1, 0)] + rest
    return [_joined_categories(group, least) for group in groups]


def _gathered(table: FloatArray, least: float) -> tuple[list[FloatArray], FloatArray]:
    """Neighbouring scores joined until two cells expect enough, and what is left over."""
    groups: list[FloatArray] = []
    open_group = np.zeros(table.shape[1:])
    for row in table:
        open_group = open_group + row
        if len(_joined_categories(open_group, least)) > 1:
            groups.append(open_group)
            open_group = np.zeros(table.shape[1:])
    return groups, open_group


def _joined_categories(group: FloatArray, least: float) -> FloatArray:
    """Cells of one group of scores; sparse categories are joined with those next to them."""
    cells = [row.copy() for row in group]
    while len(cells) > 1:
        place = int(np.argmin([cell[1] for cell in cells]))
        if cells[place][1] >= least:
            break
        beside = [spot for spot in (place - 1, place + 1) if 0 <= spot < len(cells)]
        into = min(beside, key=lambda spot: cells[spot][1])
        cells[into] += cells[place]
        del cells[place]
    return np.array(cells)


def _adjusted(fits: Sequence[SummedScoreFit]) -> list[SummedScoreFit]:
    adjusted = iter(holm([fit.p_value for fit in fits if fit.p_value is not None]))
    return [
        fit
        if fit.p_value is None
        else SummedScoreFit(**{**vars(fit), "p_adjusted": float(next(adjusted))})
        for fit in fits
    ]


def holm(p_values: Sequence[float]) -> FloatArray:
    """P-values adjusted for their number (Holm 1979), in the order given."""
    given = np.asarray(p_values, np.float64)
    order = np.argsort(given, kind="stable")
    steps = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _warnings(complete: float, total: float) -> tuple[str, ...]:
    found = []
    if complete < total:
        found.append(
            f"{total - complete:g} of {total:g} targets lack a response and are left out of S-X2: "
            "summed scores over different items cannot be compared."
        )
    if 0 < complete < FEW_TARGETS:
        found.append(
            f"S-X2 rests on {complete:g} targets. Under {FEW_TARGETS} only gross misfit shows: an "
            "item without a flag has not been shown to fit."
        )
    return tuple(found)


def _check(responses: Responses, parameters: ItemParameters) -> None:
    if parameters.dimensions != 1:
        raise InputError(
            f"summed scores measure one dimension, and the items have {parameters.dimensions}",
            fix="fit each dimension's items by themselves, or use residuals",
        )
    check_items(responses, parameters)
