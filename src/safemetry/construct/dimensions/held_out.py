"""Every model from every start on every split, as independent tasks that can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

import numpy as np

from safemetry.construct.dimensions.losses import HeldOutLoss, fit_held_out
from safemetry.construct.dimensions.models import CandidateModel
from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.responses import Responses
from safemetry.tasks import Task, TaskSettings, run_tasks

STARTS_A_TASK: Final = 5
"""Few enough that little is lost by an interrupt; a multiple keeps tasks when starts are added."""


@dataclass(frozen=True)
class ModelLosses:
    """Losses of one model.

    Parameters
    ----------
    model
        Which.
    starts
        For each of S splits the loss of every start.
    """

    model: CandidateModel
    starts: tuple[tuple[HeldOutLoss, ...], ...]

    @property
    def best(self) -> tuple[HeldOutLoss, ...]:
        """For each split the start with the lowest training loss."""
        return tuple(min(fits, key=lambda fit: fit.training_loss) for fits in self.starts)

    @property
    def log_losses(self) -> FloatArray:
        """Held-out log loss of the best start, shape ``(S,)``."""
        return np.array([fit.log_loss for fit in self.best])

    @property
    def mean(self) -> float:
        """Mean over splits of the held-out log loss."""
        return float(self.log_losses.mean())


def held_out_losses(
    responses: Responses,
    models: Sequence[CandidateModel],
    masks: BoolArray,
    *,
    restarts: int = 20,
    seed: int = 0,
    tasks: TaskSettings | None = None,
) -> tuple[ModelLosses, ...]:
    """Fit every model from every start on every split.

    Parameters
    ----------
    responses
        Codes 0 and 1, or -1 where missing.
    models
        With names that differ.
    masks
        Cells held out in each split, shape ``(S, N, J)``.
    restarts
        Starts of a variational fit, at least 1; a marginal one has a single start.
    seed
        Of the random starts, which are the same in every split.
    tasks
        Workers, resuming, progress.

    Raises
    ------
    InputError
        For no restart, repeated names, or a split that holds out no response.
    """
    if restarts < 1:
        raise InputError(f"{restarts} restarts are asked for", fix="ask for 1 or more")
    if not (masks & responses.observed).any(axis=(1, 2)).all():
        raise InputError("a split holds out no response", fix="hold out more cells")
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"two models are named {repeated!r}", fix="rename a structure")
    batches = [
        (place, split, first, min(STARTS_A_TASK, count - first))
        for place, model in enumerate(models)
        for count in [1 if model.marginal else restarts]
        for split in range(len(masks))
        for first in range(0, count, STARTS_A_TASK)
    ]
    found = run_tasks(
        fit_starts,
        [
            Task(
                f"{names[place]}, split {split + 1}, starts {first}-{first + count - 1}",
                {"model": models[place], "split": split, "first": first, "count": count},
            )
            for place, split, first, count in batches
        ],
        seed=seed,
        shared={"responses": responses, "masks": masks, "seed": seed},
        settings=tasks,
    )
    kept: list[list[list[HeldOutLoss]]] = [[[] for _ in masks] for _ in models]
    for (place, split, _, _), rows in zip(batches, found, strict=True):
        kept[place][split] += [HeldOutLoss(*row) for row in rows]
    return tuple(
        ModelLosses(model, tuple(tuple(fits) for fits in splits))
        for model, splits in zip(models, kept, strict=True)
    )


def fit_starts(
    rng: np.random.Generator,  # noqa: ARG001 - starts are numbered, so that a batch is no matter
    responses: Responses,
    masks: BoolArray,
    seed: int,
    model: CandidateModel,
    split: int,
    first: int,
    count: int,
) -> list[tuple[Any, ...]]:
    """Run in a worker: some starts of one model on one split, as plain values."""
    return [
        astuple(fit_held_out(responses, model, masks[split], restart=start, seed=seed))
        for start in range(first, first + count)
    ]
