"""Scores and abilities of targets on each of several benchmarks, from their responses to items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from safemetry.construct.factors.settings import Measure
from safemetry.errors import InputError
from safemetry.irt.ability import estimate_abilities
from safemetry.irt.information import empirical_reliability
from safemetry.irt.parameters import BoolArray, FloatArray, ItemModel
from safemetry.irt.responses import Responses, make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.tasks import Task, TaskSettings, run_tasks

LEAST_ANSWERED: Final = 0.5
"""Share of a benchmark's items that a target must have answered for a score on it."""
FEWEST_ITEMS: Final = 2
_ALONE: Final = 500_000
"""Up to this many cells are calibrated in this process."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark as it enters the correlations.

    Parameters
    ----------
    name
        Its name.
    items
        Number of its items, and of those that tell targets apart; None where only scores are known.
    targets
        Targets with a score on it; None for a matrix of correlations.
    mean
        Mean score over those targets.
    reliability
        Share of the variance of the scores that another set of such items would repeat.
    reliability_kind
        ``alpha`` (Cronbach 1951) of mean outcomes, ``empirical`` of abilities.
    intent
        ``harmful`` or ``benign``, where all its items have it.
    why
        Why a value is None.
    """

    name: str
    items: int | None = None
    informative_items: int | None = None
    targets: int | None = None
    mean: float | None = None
    reliability: float | None = None
    reliability_kind: str | None = None
    intent: str | None = None
    why: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with a `why` beside those that are None."""
        made = {"benchmark": self.name} | {
            key: value for key, value in vars(self).items() if key not in {"name", "why"}
        }
        reasons = {"intent": "not known, or not the same for all items"} | dict(self.why)
        why = {
            key: reasons.get(key, "not known from what was given")
            for key, value in made.items()
            if value is None
        }
        return made | ({"why": why} if why else {})


@dataclass(frozen=True)
class BenchmarkScores:
    """Scores of N targets on p benchmarks, and what is known of each.

    Parameters
    ----------
    values
        Shape ``(N, p)``, NaN where a target answered less than half of a benchmark.
    benchmarks
        The p benchmarks.
    left_out
        Benchmark -> why it has no scores.
    """

    values: FloatArray
    benchmarks: tuple[Benchmark, ...]
    left_out: Mapping[str, str]


def score_benchmarks(
    responses: Responses,
    membership: Sequence[str],
    measure: Measure = Measure.MEAN,
    *,
    intents: Mapping[str, str | None] | None = None,
    tasks: TaskSettings | None = None,
) -> BenchmarkScores:
    """Give each target a score on each benchmark.

    Parameters
    ----------
    responses
        Of N targets to J items; ordered outcomes will do.
    membership
        Benchmark of each item, length J.
    measure
        What the score is.
    intents
        Benchmark -> its intent.
    tasks
        How the calibrations run.

    Raises
    ------
    InputError
        Where the membership does not fit the items.
    """
    if len(membership) != len(responses.items):
        raise InputError(f"{len(membership)} benchmarks are given for {len(responses.items)} items")
    names = list(dict.fromkeys(membership))
    of_item = np.array(membership, dtype=object)
    told = _tells_apart(responses)
    parts, left_out = {}, {}
    for name in names:
        own = of_item == name
        if int((own & told).sum()) < FEWEST_ITEMS:
            left_out[name] = (
                f"{int((own & told).sum())} of its {int(own.sum())} items tell targets apart"
            )
        else:
            parts[name] = own
    answered = {
        name: responses.observed[:, own].mean(axis=1) >= LEAST_ANSWERED
        for name, own in parts.items()
    }
    jobs = [
        Task(name, {"codes": responses.codes[:, own], "informative": told[own]})
        for name, own in parts.items()
    ]
    if measure is Measure.MEAN:
        found = [_mean_scores(**job.arguments) for job in jobs]
    else:
        chosen = tasks or TaskSettings()
        if responses.codes.size < _ALONE:  # workers take longer to start
            chosen = replace(chosen, jobs=1, quiet=True)
        found = run_tasks(_abilities, jobs, settings=chosen)
    columns, made = [], []
    for (name, own), (values, reliability) in zip(parts.items(), found, strict=True):
        column = np.where(answered[name], values, np.nan)
        if not np.nanstd(column) > 0:
            left_out[name] = "all targets have the same score"
            continue
        columns.append(column)
        made.append(
            Benchmark(
                name=name,
                items=int(own.sum()),
                informative_items=int((own & told).sum()),
                targets=int(np.isfinite(column).sum()),
                mean=float(np.nanmean(column)),
                reliability=reliability,
                reliability_kind="alpha" if measure is Measure.MEAN else "empirical",
                intent=(intents or {}).get(name),
                why={} if reliability is not None else {"reliability": _NO_RELIABILITY},
            )
        )
    values = np.column_stack(columns) if columns else np.zeros((len(responses.targets), 0))
    return BenchmarkScores(values, tuple(made), left_out)


_NO_RELIABILITY: Final = "too few targets answered its items in common"


def _tells_apart(responses: Responses) -> BoolArray:
    codes = responses.codes.astype(np.float64)
    masked = np.ma.masked_less(codes, 0)
    found: BoolArray = np.ma.filled(masked.max(axis=0) > masked.min(axis=0), fill_value=False)
    return found


def _mean_scores(codes: Any, informative: BoolArray) -> tuple[FloatArray, float | None]:
    """Mean outcomes on one benchmark, and their reliability."""
    observed = codes >= 0
    sums = np.where(observed, codes, 0).sum(axis=1)
    values = sums / np.maximum(observed.sum(axis=1), 1)
    return values, cronbach_alpha(np.where(observed, codes, np.nan)[:, informative])


def _abilities(
    rng: np.random.Generator, codes: Any, informative: BoolArray
) -> tuple[FloatArray, float | None]:
    """Abilities on one benchmark, and their reliability."""
    del rng
    responses = make_responses(codes[:, informative])
    graded = bool((responses.categories > 2).any())
    fit = fit_unidimensional(
        responses, ItemModel.GRADED if graded else ItemModel.TWO_PL, errors=False
    )
    modes = estimate_abilities(fit.parameters, responses, method="map", latent_sd=fit.latent_sd)
    means = estimate_abilities(fit.parameters, responses, method="eap", latent_sd=fit.latent_sd)
    reliability = empirical_reliability(means.estimates, means.standard_errors)
    return modes.estimates, reliability


def cronbach_alpha(outcomes: FloatArray) -> float | None:
    """Reliability of the sum of items, k / (k - 1) (1 - sum of variances / variance of the sum).

    Cronbach (1951, eq. 2); for outcomes 0 and 1 it is KR-20. With missing cells the covariances
    are over the targets that have both items.

    Parameters
    ----------
    outcomes
        Shape ``(N, k)``, NaN where missing.

    Returns
    -------
    float or None
        None for fewer than two items, or where two items have fewer than two targets in common.

    Examples
    --------
    >>> cronbach_alpha(np.array([[0, 0], [1, 1], [1, 1], [0, 1.0]])).__round__(3)
    0.727
    """
    known = np.isfinite(outcomes)
    there = known.astype(np.float64)
    items = outcomes.shape[1]
    shared = there.T @ there
    if items < 2 or shared.min() < 2:
        return None
    zeroed = np.where(known, outcomes, 0.0)
    centred = np.where(known, outcomes - zeroed.sum(axis=0) / there.sum(axis=0), 0.0)
    sums = centred.T @ there
    covariance = (centred.T @ centred - sums * sums.T / shared) / (shared - 1)
    total = float(covariance.sum())
    if total <= 0:
        return None
    return float(items / (items - 1) * (1 - np.trace(covariance) / total))
