"""Eigenvalues of random outcome matrices under the three nulls, as independent tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.construct.dimensions.null_models import AbilitySource, OneDimension
from safemetry.construct.spectra.correlation import CorrelationKind
from safemetry.construct.spectra.eigenvalues import outcome_eigenvalues
from safemetry.construct.spectra.null_matrices import draw_outcomes, permute_within_items
from safemetry.irt.ability import plausible_values
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters, reaching
from safemetry.irt.responses import Responses
from safemetry.tasks import Task, TaskSettings, run_tasks, task_generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH_CELLS: Final = 2_000_000
"""Cells of the matrices that one task draws: 16 MB of random numbers."""


def null_spectra(
    responses: Responses,
    model: OneDimension | None,
    *,
    replicates: int,
    correlation: CorrelationKind = "pearson",
    abilities: AbilitySource = "posterior",
    depth: int = 20,
    seed: int = 0,
    tasks: TaskSettings | None = None,
) -> dict[str, FloatArray]:
    """First eigenvalues of random matrices, by null.

    Parameters
    ----------
    responses
        Outcomes 0 and 1 of N targets to J items that all vary; the nulls keep the missing cells.
    model
        Of these items in one dimension; without it the third null is left out.
    replicates
        Matrices of each null.
    correlation, abilities, seed, tasks
        As for `spectrum.measure_spectrum`.
    depth
        How many eigenvalues, at most J.

    Returns
    -------
    dict
        ``independence``, ``permutation`` and, with a model, ``one dimension``, each of shape
        ``(replicates, depth)``.
    """
    batches = _batches(replicates, responses.codes.size)
    calls: dict[str, list[dict[str, Any]]] = {
        null: [{"draws": draws} for draws in batches] for null in ("independence", "permutation")
    }
    if model is not None:
        theta = _drawn_abilities(responses, model, replicates, abilities, seed)
        items = {
            name: np.asarray(getattr(model.parameters, name))
            for name in ("slopes", "intercepts", "lower", "upper")
        }
        parts = np.split(theta, np.cumsum(batches)[:-1])
        calls["one dimension"] = [
            {"draws": len(part), "theta": part, "items": items} for part in parts
        ]
    drawn = run_tasks(
        _null_eigenvalues,
        [
            Task(f"{null} {place}", {"null": null, **arguments})
            for null, batch in calls.items()
            for place, arguments in enumerate(batch)
        ],
        seed=seed,
        shared={
            "codes": responses.codes,
            "observed": responses.observed,
            "correlation": correlation,
            "depth": depth,
        },
        settings=tasks,
    )
    found = iter(drawn)
    return {null: np.concatenate([next(found) for _ in batch]) for null, batch in calls.items()}


def _null_eigenvalues(  # noqa: PLR0913 - a task takes plain arrays, each by its name
    rng: np.random.Generator,
    *,
    codes: NDArray[np.int8],
    observed: BoolArray,
    correlation: CorrelationKind,
    depth: int,
    null: str,
    draws: int,
    theta: FloatArray | None = None,
    items: Mapping[str, FloatArray] | None = None,
) -> FloatArray:
    """One task: the first eigenvalues of `draws` random matrices, shape ``(draws, depth)``."""
    if null == "permutation":
        outcomes: NDArray[Any] = permute_within_items(codes, observed, draws, rng) == 1
    else:
        rates = ((codes == 1).sum(axis=0)) / observed.sum(axis=0)
        chances = rates if theta is None or items is None else _model_chances(theta, items)
        outcomes = draw_outcomes(chances, observed, draws, rng)
    return outcome_eigenvalues(outcomes, observed, correlation, depth=depth)


def _model_chances(theta: FloatArray, items: Mapping[str, FloatArray]) -> FloatArray:
    flat = reaching(ItemParameters(**items), theta.reshape(-1, 1))[0]
    found: FloatArray = flat.reshape(*theta.shape, -1)
    return found


def _drawn_abilities(
    responses: Responses, model: OneDimension, draws: int, source: AbilitySource, seed: int
) -> FloatArray:
    """Abilities of all replicates, shape ``(draws, N)``."""
    rng = task_generator(seed, "abilities of one dimension")
    shape = (draws, len(responses.targets))
    if source == "population":
        return model.latent_sd * rng.standard_normal(shape)
    if model.ability_mean is not None and model.ability_sd is not None:
        drawn: FloatArray = model.ability_mean + model.ability_sd * rng.standard_normal(shape)
        return drawn
    return plausible_values(model.parameters, responses, draws, rng, latent_sd=model.latent_sd)


def _batches(replicates: int, cells: int) -> list[int]:
    size = max(1, min(replicates, _BATCH_CELLS // cells))
    return [min(size, replicates - start) for start in range(0, replicates, size)]
