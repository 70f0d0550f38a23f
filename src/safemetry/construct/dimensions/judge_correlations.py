"""Factor correlations under each judge, and whether they differ by more than chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy.stats import norm

from safemetry.irt.multidimensional.fit import fit_multidimensional
from safemetry.irt.multidimensional.settings import DimensionalSettings
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses
from safemetry.irt.structure import Structure
from safemetry.tasks import Task, TaskSettings, run_tasks


@dataclass(frozen=True)
class CorrelationShift:
    """One factor correlation under two judges.

    Parameters
    ----------
    dimensions
        The two dimensions.
    judges
        The two judges.
    correlations
        Under each of them.
    error
        Standard error of their difference on the scale of Fisher's z.
    beyond_chance
        Whether they differ by more than chance, at 5% over all pairs of dimensions and judges
        together (Bonferroni).
    sentence
        The same in words, without a full stop.
    """

    dimensions: tuple[str, str]
    judges: tuple[str, str]
    correlations: tuple[float, float]
    error: float
    beyond_chance: bool
    sentence: str


def correlation_shifts(
    responses: Mapping[str, Responses],
    structure: Structure,
    *,
    resamples: int = 100,
    seed: int = 0,
    tasks: TaskSettings | None = None,
) -> tuple[tuple[tuple[tuple[float, ...], ...], ...], tuple[CorrelationShift, ...]]:
    """Factor correlations of every judge, and their differences.

    The same targets were judged, so that the correlations of two judges err together. Each resample
    weights the targets once, for all judges, with exponential draws of mean 1 (the Bayesian
    bootstrap, Rubin 1981): no target drops out, and every dimension keeps its items.

    Parameters
    ----------
    responses
        Judge -> responses of the same targets and items.
    structure
        Of these items, with K >= 2 dimensions.
    resamples
        At least 2.

    Returns
    -------
    tuple
        For each judge K rows of K correlations; and the shifts of every pair of judges and
        dimensions, none with one judge.
    """
    shared = {"responses": list(responses.values()), "structure": structure}
    wanted = resamples if len(responses) > 1 else 0
    waiting = [Task("observed", {"weighted": False})]
    waiting += [Task(f"resample {number}", {"weighted": True}) for number in range(1, wanted + 1)]
    found = np.array(run_tasks(judge_matrices, waiting, seed=seed, shared=shared, settings=tasks))
    observed, drawn = found[0], found[1:]
    matrices = tuple(
        tuple(tuple(float(value) for value in row) for row in matrix) for matrix in observed
    )
    return matrices, _shifts(tuple(responses), structure.dimensions, observed, drawn)


def judge_matrices(
    *,
    rng: np.random.Generator,
    responses: Sequence[Responses],
    structure: Structure,
    weighted: bool,
) -> FloatArray:
    """Factor correlations under each of M judges, shape ``(M, K, K)``, as a task.

    Parameters
    ----------
    responses
        Of each judge.
    structure
        Of the items.
    weighted
        Whether targets have random weights, the same for all judges.
    """
    weights = responses[0].weights
    if weighted:
        drawn = rng.exponential(size=len(weights)) * weights
        weights = drawn * (weights.sum() / drawn.sum())
    settings = DimensionalSettings(likelihood=False)
    return np.stack(
        [
            fit_multidimensional(
                replace(held, weights=weights), structure, settings
            ).factor_correlations
            for held in responses
        ]
    )


def _shifts(
    judges: Sequence[str],
    dimensions: Sequence[str],
    observed: FloatArray,
    drawn: FloatArray,
) -> tuple[CorrelationShift, ...]:
    pairs = [
        (judge, dimension)
        for judge in combinations(range(len(judges)), 2)
        for dimension in combinations(range(len(dimensions)), 2)
    ]
    if not pairs:
        return ()
    limit = float(norm.ppf(1 - 0.025 / len(pairs)))
    return tuple(
        _shift(
            (judges[one], judges[other]),
            (dimensions[row], dimensions[column]),
            observed[[one, other], row, column],
            drawn[:, [one, other], row, column],
            limit,
        )
        for (one, other), (row, column) in pairs
    )


def _shift(
    judges: tuple[str, str],
    dimensions: tuple[str, str],
    observed: FloatArray,
    drawn: FloatArray,
    limit: float,
) -> CorrelationShift:
    # At +/- 1 Fisher's z is infinite.
    there, resampled = (np.arctanh(np.clip(values, -0.999, 0.999)) for values in (observed, drawn))
    error = float((resampled[:, 0] - resampled[:, 1]).std(ddof=1))
    beyond = bool(abs(there[0] - there[1]) > limit * error)
    return CorrelationShift(
        dimensions=dimensions,
        judges=judges,
        correlations=(float(observed[0]), float(observed[1])),
        error=error,
        beyond_chance=beyond,
        sentence=(
            f"{dimensions[0]} and {dimensions[1]} correlate {observed[0]:.2f} under {judges[0]} "
            f"and {observed[1]:.2f} under {judges[1]}"
        ),
    )
