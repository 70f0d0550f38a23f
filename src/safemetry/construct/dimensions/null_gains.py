"""The gain of several dimensions in data sets that one dimension made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from safemetry.construct.dimensions.losses import fit_held_out
from safemetry.construct.dimensions.models import CandidateModel
from safemetry.construct.dimensions.null_models import (
    AbilitySource,
    OneDimension,
    simulate_one_dimension,
)
from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.responses import Responses
from safemetry.tasks import Task, TaskSettings, run_tasks

FIRST_SETS: Final = 20
"""Simulated sets after which the rest is left out where rejection has become impossible."""


def best_gain(losses: FloatArray, one: int) -> float:
    """Best mean of the first `one` models less that of the others, losses of shape ``(M, S)``."""
    means = losses.mean(axis=1)
    return float(means[:one].min() - means[one:].min())


def null_gain(
    *,
    rng: np.random.Generator,
    responses: Responses,
    null: OneDimension,
    models: Sequence[CandidateModel],
    one: int,
    masks: BoolArray,
    abilities: AbilitySource,
) -> float:
    """The gain in one data set simulated from one dimension, as a task.

    Parameters
    ----------
    null
        What the data set is drawn from.
    models
        Those of one dimension first.
    one
        How many these are.
    """
    drawn = simulate_one_dimension(responses, null, rng, abilities=abilities)
    losses = [[fit_held_out(drawn, model, mask).log_loss for mask in masks] for model in models]
    return best_gain(np.array(losses), one)


def simulate_gains(
    shared: Mapping[str, Any],
    statistic: float,
    *,
    sets: int,
    most_reaching: int | None,
    seed: int,
    tasks: TaskSettings,
) -> FloatArray:
    """Gains in simulated data sets, in the order of their numbers, shape ``(B,)``.

    Parameters
    ----------
    shared
        Arguments of `null_gain`.
    statistic
        The observed gain.
    sets
        Most data sets.
    most_reaching
        Where more than so many of the first sets reach `statistic`, the rest is left out; None
        runs all. The size of the first batch is fixed, so that what is used does not depend on the
        number of workers.
    """
    numbers = range(1, sets + 1)
    first = sets if most_reaching is None else min(FIRST_SETS, sets)
    gains: list[float] = []
    for batch in (numbers[:first], numbers[first:]):
        reaching = sum(gain >= statistic for gain in gains)
        if most_reaching is not None and reaching > most_reaching:
            break
        waiting = [Task(f"null set {number}") for number in batch]
        gains += run_tasks(null_gain, waiting, seed=seed, shared=shared, settings=tasks)
    return np.array(gains)
