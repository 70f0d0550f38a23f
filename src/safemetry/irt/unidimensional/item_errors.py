"""Standard errors of item parameters in the terms that users read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemModel, ItemParameters
from safemetry.irt.unidimensional.coordinates import Layout

Masked = np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class ItemErrors:
    """Standard errors of item parameters; masked where there is none.

    Parameters
    ----------
    slopes
        Shape ``(J, 1)``.
    intercepts, difficulties
        Shape ``(J, C - 1)``; of b = -d / a by the delta method.
    lower, upper
        Of g and u (not of their logits), shape ``(J,)``.
    latent_sd
        Of the standard deviation of the abilities (Rasch), else None.
    covariance
        Of (a, d_1 .. d_{C-1}, g, u), as far as the model has them, shape ``(J, P, P)``.
    why
        Why entries are masked.
    """

    slopes: Masked
    intercepts: Masked
    difficulties: Masked
    lower: Masked
    upper: Masked
    latent_sd: float | None
    covariance: Masked
    why: str


def item_errors(
    layout: Layout,
    working: FloatArray,
    held: BoolArray,
    blocks: FloatArray | None,
    parameters: ItemParameters,
    used: Sequence[tuple[int, ...]],
    unknown: str,
) -> ItemErrors:
    """Standard errors from covariances of working parameters.

    Parameters
    ----------
    layout, working
        Of the fit.
    held
        Free parameters at a bound, shape ``(n,)``.
    blocks
        Covariances of the working parameters of each item, ``(J, P, P)``; None if unknown.
    parameters
        The estimate as reported.
    used
        Categories of each item that occur, ascending.
    unknown
        Why there are no blocks, if there are none.
    """
    source = _sources(layout, used, parameters.intercepts.shape[1])
    items, rows = source.shape
    steps = parameters.intercepts.shape[1]
    scale = np.ones(working.shape)
    if layout.logarithmic:
        scale[0] = np.exp(working[0])
    chances = expit(working[1 + layout.steps :])
    scale[1 + layout.steps :] = chances * (1 - chances)
    bound = layout.spread(held.astype(np.float64)) > 0
    usable = (layout.exists & ~bound).T
    place = np.arange(items)[:, None]
    known = (source >= 0) & usable[place, np.maximum(source, 0)]
    if layout.model is ItemModel.RASCH:
        known[:, 0] = False
    covariance = np.zeros((items, rows, rows))
    if blocks is not None:
        index = np.maximum(source, 0)
        factor = scale.T[place, index]
        covariance = blocks[place[:, :, None], index[:, :, None], index[:, None, :]]
        covariance = covariance * factor[:, :, None] * factor[:, None, :]
    variances = np.einsum("jpp->jp", covariance)
    known &= (variances > 0) & np.isfinite(variances)
    both = known[:, :, None] & known[:, None, :]
    safe = np.where(both, covariance, 0.0)
    own = np.ma.masked_array(np.sqrt(np.where(known, variances, 0.0)), ~known)
    after = 1 + steps
    nothing = np.ma.masked_array(np.zeros(items), np.ones(items, bool))
    spread: float | None = None
    if layout.model is ItemModel.RASCH and blocks is not None and not held[0]:
        spread = float(np.sqrt(blocks[0, 0, 0])) if blocks[0, 0, 0] > 0 else None
    return ItemErrors(
        slopes=own[:, :1],
        intercepts=own[:, 1:after],
        difficulties=_difficulty_errors(parameters, safe, known, steps, layout.model),
        lower=own[:, after] if rows > after else nothing,
        upper=own[:, after + 1] if rows > after + 1 else nothing,
        latent_sd=spread,
        covariance=np.ma.masked_array(safe, ~both),
        why=unknown if blocks is None else "fixed by the model, held at a bound, or not estimable",
    )


def _sources(layout: Layout, used: Sequence[tuple[int, ...]], steps: int) -> IntArray:
    """Working row of each reported parameter, ``(J, P)``; -1 where it was not estimated."""
    items = len(used)
    if layout.model is not ItemModel.GRADED:
        return np.tile(np.arange(layout.rows), (items, 1))
    found = np.full((items, 1 + steps), -1)
    found[:, 0] = 0
    for item, codes in enumerate(used):
        for step in range(codes[0] + 1, codes[-1] + 1):
            found[item, step] = int(np.searchsorted(codes, step))
    return found


def _difficulty_errors(
    parameters: ItemParameters,
    covariance: FloatArray,
    known: BoolArray,
    steps: int,
    model: ItemModel,
) -> Masked:
    """Of b = -d / a: var b = (var d + 2 b cov(a, d) + b^2 var a) / a^2."""
    slopes = parameters.slopes
    finite = np.isfinite(parameters.intercepts)
    difficulty = -np.where(finite, parameters.intercepts, 0.0) / np.where(slopes == 0, 1.0, slopes)
    own = np.einsum("jpp->jp", covariance)
    variance = own[:, 1 : 1 + steps] + 2 * difficulty * covariance[:, 0, 1 : 1 + steps]
    variance = (variance + difficulty**2 * own[:, :1]) / np.where(slopes == 0, 1.0, slopes) ** 2
    shown = known[:, 1 : 1 + steps] & (variance > 0) & (slopes != 0)
    if model is not ItemModel.RASCH:
        shown &= known[:, :1]
    return np.ma.masked_array(np.sqrt(np.where(shown, variance, 0.0)), ~shown)
