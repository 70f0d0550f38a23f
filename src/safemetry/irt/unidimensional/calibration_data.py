"""What a calibration reads: checked, recoded and folded responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, IntArray, ItemModel
from safemetry.irt.priors import ItemPriors
from safemetry.irt.responses import MISSING, Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDED_ITEMS = 16
FOLDED_TARGETS = 64
NAMED = 5
CERTAIN = 15.0
"""How far above the next threshold one is set that no target ever missed."""


@dataclass(frozen=True)
class CalibrationData:
    """Responses as the optimiser takes them.

    Parameters
    ----------
    codes
        Distinct rows, categories numbered without gaps within each item, shape ``(M, J)``.
    weights
        Of these rows, shape ``(M,)``.
    row_of
        Which of them each target gave, shape ``(N,)``.
    categories
        Categories in use, shape ``(J,)``.
    used
        For each item the original codes in use, ascending.
    """

    codes: NDArray[np.int8]
    weights: FloatArray
    row_of: IntArray
    categories: IntArray
    used: tuple[tuple[int, ...], ...]

    def original_steps(self, steps: FloatArray, slopes: FloatArray) -> FloatArray:
        """Thresholds of the original categories, ``(J, C - 1)``.

        A category that never occurs between others has its neighbour's threshold (chance 0); where
        the lowest never occurs the threshold lies far beyond what any target would miss.

        Parameters
        ----------
        steps
            Of the categories in use, ``(J, C' - 1)``, -inf beyond the last.
        slopes
            Shape ``(J,)``.
        """
        width = max(codes[-1] for codes in self.used)
        found = np.full((len(self.used), max(width, 1)), -np.inf)
        for item, codes in enumerate(self.used):
            for step in range(1, codes[-1] + 1):
                if step <= codes[0]:
                    first = steps[item, 0] if len(codes) > 1 else 0.0
                    found[item, step - 1] = first + CERTAIN + 6 * abs(slopes[item])
                else:
                    place = int(np.searchsorted(codes, step))
                    found[item, step - 1] = steps[item, place - 1]
        return found


def prepare(
    responses: Responses, model: ItemModel, priors: ItemPriors
) -> tuple[CalibrationData, tuple[str, ...]]:
    """Check responses against a model.

    Returns
    -------
    tuple
        The data, and warnings in plain words.

    Raises
    ------
    InputError
        For a single target, an item without responses, a category that the model lacks, responses
        that are all the same, or an item whose responses are all the same where no prior on the
        intercept holds its estimate.
    """
    codes = responses.codes
    if codes.shape[0] < 2:
        raise InputError(
            "one target cannot calibrate items",
            fix="estimate its ability with items calibrated on other targets",
        )
    highest = codes.max(axis=0)
    _refuse(responses, highest < 0, "no response", "drop the item")
    if model is not ItemModel.GRADED:
        _refuse(
            responses,
            highest > 1,
            f"more categories than the {model} model describes",
            "use the graded model, or recode to 0 and 1",
        )
    constant = ~responses.varies
    if constant.all():
        raise InputError(
            "every item has the same response from all targets that met it",
            fix="add targets that differ",
        )
    if priors.intercept is None or model is ItemModel.GRADED:
        drop = "drop the item"
        advice = drop if model is ItemModel.GRADED else f"{drop}, or give a prior on the intercept"
        _refuse(responses, constant, "the same response from every target", advice)
    warnings = []
    recoded, used = codes, _binary(codes.shape[1])
    if model is ItemModel.GRADED:
        recoded, used = _recode(codes)
        gaps = np.array([len(have) <= have[-1] for have in used])
        if gaps.any():
            warnings.append(
                "categories below the highest that never occur: "
                f"{named_list(responses.items, gaps)}; their thresholds are set, not estimated"
            )
    categories = np.array([len(have) for have in used])
    empty = (codes == MISSING).all(axis=1)
    if empty.any():
        warnings.append(
            f"no response at all: {named_list(responses.targets, empty, 'target')}; the estimate "
            "there is that of the population"
        )
    if model is not ItemModel.GRADED:
        ones, seen = (codes == 1).sum(axis=0), (codes >= 0).sum(axis=0)
        few = np.minimum(ones, seen - ones) < 3
        if few.any():
            warnings.append(
                "fewer than three responses of the rarer kind: "
                f"{named_list(responses.items, few)}; the parameters rest on the priors, or are "
                "hardly known"
            )
    matrix, weights, row_of = _fold(recoded, responses.weights)
    return CalibrationData(matrix, weights, row_of, categories, used), tuple(warnings)


def _binary(items: int) -> tuple[tuple[int, ...], ...]:
    return tuple((0, 1) for _ in range(items))


def _fold(
    codes: NDArray[np.int8], weights: FloatArray
) -> tuple[NDArray[np.int8], FloatArray, IntArray]:
    """Equal rows once, with their weights added, where there are few items."""
    rows, items = codes.shape
    if items > FOLDED_ITEMS or rows < FOLDED_TARGETS:
        return codes, weights, np.arange(rows)
    distinct, row_of = np.unique(codes, axis=0, return_inverse=True)
    row_of = row_of.reshape(-1)
    folded: FloatArray = np.bincount(row_of, weights, len(distinct)).astype(np.float64)
    return distinct, folded, row_of.astype(np.int64)


def _recode(codes: NDArray[np.int8]) -> tuple[NDArray[np.int8], tuple[tuple[int, ...], ...]]:
    """Categories in use numbered without gaps."""
    found = codes.copy()
    used = []
    for item in range(codes.shape[1]):
        have = np.unique(codes[:, item])
        have = have[have >= 0]
        used.append(tuple(int(code) for code in have))
        seen = codes[:, item] >= 0
        found[seen, item] = np.searchsorted(have, codes[seen, item])
    return found, tuple(used)


def _refuse(responses: Responses, bad: NDArray[np.bool_], problem: str, fix: str) -> None:
    if bad.any():
        raise InputError(f"{problem}: {named_list(responses.items, bad)}", fix=fix)


def named_list(names: Sequence[str], chosen: NDArray[np.bool_], kind: str = "item") -> str:
    """``item a`` or ``3 items (a, b, c)``, at most five of them by name."""
    picked = [name for name, wanted in zip(names, chosen, strict=True) if wanted]
    if len(picked) == 1:
        return f"{kind} {picked[0]}"
    shown = ", ".join(picked[:NAMED]) + (", ..." if len(picked) > NAMED else "")
    return f"{len(picked)} {kind}s ({shown})"
