"""Whether the items that discriminate best among some targets do so among others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import rankdata

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, ItemModel
from safemetry.irt.priors import NO_PRIORS, ItemPriors
from safemetry.irt.responses import Responses, make_responses, varying_items
from safemetry.irt.unidimensional.coordinates import STEEPEST
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.tasks import Task, TaskSettings, run_tasks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

FEWEST_TARGETS: Final = 8
ROUGH: Final = 0.01
"""Tolerance of the fits: slopes that grow without end need hundreds of steps for nothing."""

PRIORS: Final[Mapping[str, ItemPriors]] = {"none": NO_PRIORS, "default": ItemPriors()}


@dataclass(frozen=True)
class StabilityRow:
    """How many of the most discriminating items two random halves of the targets have in common.

    Parameters
    ----------
    priors
        Name of the priors of the calibrations.
    top
        Items chosen in each half.
    shared, sd
        Share of them that both halves chose; mean and standard deviation over the splits.
    low, high
        5th and 95th percentile over the splits.
    chance
        Share that two random choices have in common.
    correlation
        Rank correlation of the slopes of all items in the two halves, mean over the splits.
    bounded
        Items, mean over halves, whose slope has no finite estimate and is held at its bound; which
        of them is best is chance.
    items
        Items that vary in both halves, mean over the splits.
    splits
        Of the targets into halves.
    """

    priors: str
    top: int
    shared: float
    sd: float
    low: float
    high: float
    chance: float
    correlation: float
    bounded: float
    items: float
    splits: int


def split_half_stability(
    responses: Responses,
    top: tuple[int, ...] = (25,),
    *,
    priors: Mapping[str, ItemPriors] = PRIORS,
    model: ItemModel = ItemModel.TWO_PL,
    splits: int = 50,
    seed: int = 0,
    tasks: TaskSettings | None = None,
) -> tuple[StabilityRow, ...]:
    """Calibrate random halves of the targets, and compare their most discriminating items.

    Parameters
    ----------
    responses
        Of N >= 8 targets to J items.
    top
        Numbers of items to choose.
    priors
        Name -> priors, each tried on the same halves.
    model
        Of the items, with slopes of their own.
    splits
        At least 2.
    seed
        Of the splits.
    tasks
        How they are run.

    Raises
    ------
    InputError
        For too few targets, splits or items, or a model without slopes.
    """
    count = len(responses.targets)
    if count < FEWEST_TARGETS or splits < 2:
        raise InputError(
            f"{splits} splits of {count} targets say nothing of stability",
            fix=f"give {FEWEST_TARGETS} targets and 2 splits at least",
        )
    if model in {ItemModel.RASCH, ItemModel.ONE_PL}:
        raise InputError(f"all items of the {model} model discriminate alike", fix="use the 2pl")
    if not top or min(top) < 1 or max(top) >= len(responses.items):
        raise InputError(f"the best {top} of {len(responses.items)} items are no choice")
    shared = {"codes": responses.codes, "top": top, "priors": dict(priors), "model": model}
    work = [Task(f"halves {number}") for number in range(splits)]
    found = run_tasks(compare_halves, work, seed=seed, shared=shared, settings=tasks)
    figures = np.array(found)  # splits, priors, (shared per top, correlation, bounded, items)
    rows = []
    for place, name in enumerate(priors):
        for spot, size in enumerate(top):
            values = figures[:, place, spot]
            correlation, bounded, items = figures[:, place, len(top) :].mean(axis=0).tolist()
            low, high = np.percentile(values, [5, 95]).tolist()
            spread = float(values.std(ddof=1))
            rows.append(
                StabilityRow(
                    name,
                    size,
                    float(values.mean()),
                    spread,
                    low,
                    high,
                    size / items,
                    correlation,
                    bounded,
                    items,
                    splits,
                )
            )
    return tuple(rows)


def compare_halves(
    *,
    rng: np.random.Generator,
    codes: Codes,
    top: tuple[int, ...],
    priors: Mapping[str, ItemPriors],
    model: ItemModel,
) -> FloatArray:
    """One split: what the halves share, by priors; the columns are those of `top` and three more.

    Raises
    ------
    InputError
        Where fewer items vary in both halves than are to be chosen.
    """
    order = rng.permutation(len(codes))
    halves = codes[order[: len(codes) // 2]], codes[order[len(codes) // 2 :]]
    usable = np.logical_and(*(varying_items(half) for half in halves))
    if usable.sum() <= max(top):
        raise InputError(
            f"{int(usable.sum())} items vary in both halves of the targets",
            fix="choose fewer items, or give more targets",
        )
    ties = rng.random((2, int(usable.sum())))
    rows = []
    for prior in priors.values():
        slopes = np.stack([_slopes(half[:, usable], prior, model) for half in halves])
        ranks = np.stack([np.lexsort((tie, -own)) for tie, own in zip(ties, slopes, strict=True)])
        common = [np.intersect1d(ranks[0, :size], ranks[1, :size]).size / size for size in top]
        bounded = (np.abs(slopes) >= STEEPEST * (1 - 1e-6)).sum(axis=1).mean()
        spread = np.corrcoef(rankdata(slopes[0]), rankdata(slopes[1]))[0, 1]
        rows.append([*common, spread, bounded, int(usable.sum())])
    return np.array(rows, np.float64)


def _slopes(codes: Codes, priors: ItemPriors, model: ItemModel) -> FloatArray:
    used = np.ascontiguousarray(codes[(codes >= 0).any(axis=1)])
    fit = fit_unidimensional(make_responses(used), model, priors, errors=False, tolerance=ROUGH)
    found: FloatArray = fit.parameters.slopes[:, 0]
    return found
