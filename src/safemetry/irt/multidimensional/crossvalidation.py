"""Many fits at once: several splits of the responses, several starts for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import joblib
import numpy as np

from safemetry.errors import InputError
from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.result import HeldOut
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import BoolArray
from safemetry.irt.responses import Responses
from safemetry.irt.structure import Structure


@dataclass(frozen=True)
class SplitFit:
    """One start of one model on one split.

    Parameters
    ----------
    model, split, restart
        Positions, from 0.
    training_loss
        Mean of -log probability of the fitted responses, by which restarts are compared.
    held_out
        Losses on the cells that were held out.
    cycles
        Number of cycles used.
    """

    model: int
    split: int
    restart: int
    training_loss: float
    held_out: HeldOut
    converged: bool
    cycles: int


def split_responses(
    responses: Responses, *, splits: int = 5, share: float = 0.2, seed: int = 2026
) -> BoolArray:
    """Masks of held-out cells, shape ``(splits, N, J)``.

    Split s holds out the first `share` of the cells in the order of
    ``numpy.random.default_rng(seed + s).permutation(N * J)``, cells counted along rows. Missing
    cells fall on either side and count on neither.
    """
    targets, items = responses.codes.shape
    cells = targets * items
    masks = np.zeros((splits, cells), np.bool_)
    for number, mask in enumerate(masks):
        order = np.random.default_rng(seed + number).permutation(cells)
        mask[order[: int(cells * share)]] = True
    return masks.reshape(splits, targets, items)


def cross_validate(
    responses: Responses,
    models: Sequence[int | Structure],
    masks: BoolArray,
    settings: DimensionalSettings | None = None,
) -> tuple[SplitFit, ...]:
    """Fit every model from every start on every split, as independent tasks.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    models
        Numbers of dimensions, or structures.
    masks
        Cells held out in each split, shape ``(S, N, J)``.
    settings
        `restarts` starts are fitted for each model and split; `jobs` tasks run in parallel, on the
        backend set by `joblib.parallel_config` (processes by default; Dask and Ray register
        theirs). The log-likelihood is not computed.

    Returns
    -------
    tuple of SplitFit
        Ordered by model, split and restart.

    Raises
    ------
    InputError
        Where a split holds out no response.
    """
    settings = settings or DimensionalSettings()
    if not (masks & responses.observed).any(axis=(1, 2)).all():
        raise InputError("a split holds out no response", fix="hold out cells that have one")
    tasks = (
        joblib.delayed(_fit)(responses, dims, masks[split], settings, (model, split, restart))
        for model, dims in enumerate(models)
        for split in range(len(masks))
        for restart in range(settings.restarts)
    )
    return tuple(joblib.Parallel(n_jobs=settings.jobs)(tasks))


def _fit(
    responses: Responses,
    dims: int | Structure,
    mask: BoolArray,
    settings: DimensionalSettings,
    place: tuple[int, int, int],
) -> SplitFit:
    model, split, restart = place
    one = replace(settings, restarts=1, first_start=restart, likelihood=False, jobs=None)
    fit = fit_multidimensional(responses, dims, one, held_out=mask)
    if fit.held_out is None:
        raise InputError("a split holds out no response", fix="hold out cells that have one")
    return SplitFit(
        model=model,
        split=split,
        restart=restart,
        training_loss=fit.restart_losses[0],
        held_out=fit.held_out,
        converged=fit.converged,
        cycles=len(fit.trace),
    )


def best_restarts(fits: Sequence[SplitFit]) -> tuple[SplitFit, ...]:
    """For each model and split the restart with the lowest training loss."""
    best: dict[tuple[int, int], SplitFit] = {}
    for fit in fits:
        place = (fit.model, fit.split)
        if place not in best or fit.training_loss < best[place].training_loss:
            best[place] = fit
    return tuple(best[place] for place in sorted(best))
