"""Eigenvalues of the item correlations against three nulls.

A large first eigenvalue says little by itself: items of noise with a few targets have large ones
too. Each null answers a different question. *Independence* (every item at its own pass rate) and
*permutation* within items (Horn's 1965 parallel analysis; Buja & Eyuboglu 1992) ask whether items
hang together at all. *One dimension* (outcomes drawn from a fitted model) asks whether one ability
explains how they hang together; only this one bears on whether a score measures one thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.construct.dimensions.null_models import AbilitySource, OneDimension, as_one_dimension
from safemetry.construct.spectra.correlation import (
    CorrelationKind,
    check_binary,
    check_kind,
    eigenvalues_of,
)
from safemetry.construct.spectra.eigenvalues import outcome_spectrum
from safemetry.construct.spectra.null_spectra import null_spectra
from safemetry.errors import InputError
from safemetry.irt.multidimensional.result import MultidimensionalFit
from safemetry.irt.parameters import BoolArray, FloatArray
from safemetry.irt.responses import Responses
from safemetry.irt.unidimensional.marginal import UnidimensionalFit
from safemetry.tasks import TaskSettings

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

DEPTH: Final = 20
"""Most eigenvalues that are compared with a null."""

SHOWN: Final = 10
"""Eigenvalues in the JSON result."""


@dataclass(frozen=True)
class Spectrum:
    """Observed eigenvalues, and how large each null makes them.

    Parameters
    ----------
    observed
        All J eigenvalues, largest first; some may be negative with missing cells or tetrachoric
        correlations.
    null
        Percentile of each of the first eigenvalues (at most 20) if items were independent.
    parallel
        The same if the responses to each item stood in random order.
    one_dimension
        The same if the fitted one-dimensional model had made the responses; None without a model.
    exceed, exceed_parallel
        Leading eigenvalues that exceed their null, counted until the first that does not.
    exceed_one_dimension
        The same from the *second* eigenvalue on: the first is what the model is fitted to. 0 means
        that one dimension explains the spectrum.
    items, targets
        How many were analysed.
    dropped_items, dropped_targets
        Names of items that do not vary, and of targets without a response, which were left out.
    unknown_pairs
        Pairs of items without a correlation, which hold 0.
    percentile, replicates, correlation
        Settings: percentile of the nulls in (0, 100), random matrices of each, kind of correlation.
    warnings
        What a reader of the numbers must know.
    """

    observed: tuple[float, ...]
    null: tuple[float, ...]
    parallel: tuple[float, ...]
    one_dimension: tuple[float, ...] | None
    exceed: int
    exceed_parallel: int
    exceed_one_dimension: int | None
    items: int
    targets: int
    dropped_items: tuple[str, ...]
    dropped_targets: tuple[str, ...]
    unknown_pairs: int
    percentile: float
    replicates: int
    correlation: CorrelationKind
    warnings: tuple[str, ...] = field(default=())

    @property
    def smallest(self) -> float:
        """The smallest eigenvalue; below 0 the correlations are those of no complete data."""
        return self.observed[-1]

    def sentence(self) -> str:
        """The result in words."""
        said = (
            f"{self.exceed} leading eigenvalues of {self.items} items exceed those of independent "
            f"items, {self.exceed_parallel} those of shuffled ones"
        )
        if self.exceed_one_dimension is None:
            return f"{said}; neither says whether one dimension would explain them."
        if not self.exceed_one_dimension:
            return f"{said}; after the first, none exceeds what one fitted dimension gives."
        return (
            f"{said}; after the first, {self.exceed_one_dimension} exceed what one fitted "
            "dimension gives: more than one dimension shows."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, the first ten eigenvalues of each kind, and `why` for what is unknown."""
        one = self.one_dimension
        found = {
            "observed": list(self.observed[:SHOWN]),
            "null_q95": list(self.null[:SHOWN]),
            "exceed": self.exceed,
            "parallel": list(self.parallel[:SHOWN]),
            "exceed_parallel": self.exceed_parallel,
            "null_q95_one_dimension": None if one is None else list(one[:SHOWN]),
            "exceed_one_dimension": self.exceed_one_dimension,
            "smallest": self.smallest,
            "items": self.items,
            "targets": self.targets,
            "dropped_items": list(self.dropped_items),
            "dropped_targets": list(self.dropped_targets),
            "unknown_pairs": self.unknown_pairs,
            "percentile": self.percentile,
            "replicates": self.replicates,
            "correlation": self.correlation,
            "warnings": list(self.warnings),
            "sentence": self.sentence(),
        }
        if one is None:
            reason = "no one-dimensional model was given"
            found["why"] = {
                "null_q95_one_dimension": reason,
                "exceed_one_dimension": reason,
            }
        return found


FittedDimension = OneDimension | UnidimensionalFit | MultidimensionalFit


def measure_spectrum(
    responses: Responses,
    *,
    replicates: int = 500,
    percentile: float = 95.0,
    seed: int = 0,
    correlation: CorrelationKind = "pearson",
    one_dimension: FittedDimension | None = None,
    abilities: AbilitySource = "posterior",
    tasks: TaskSettings | None = None,
) -> Spectrum:
    """Eigenvalues of the item correlations against independence, permutation and one dimension.

    Parameters
    ----------
    responses
        Outcomes 0 and 1 of N targets to J items, any pattern of missing cells, which the nulls
        keep. Items that do not vary and targets without a response are left out and named.
    replicates
        Random matrices of each null, at least 20.
    percentile
        Of the eigenvalues of the nulls, in (0, 100).
    seed
        Of the random matrices, not negative.
    correlation
        ``pearson`` or ``tetrachoric``.
    one_dimension
        A model of one dimension fitted to the items that vary, or to all. Its item parameters stay
        fixed.
    abilities
        Where the abilities of the third null come from. ``posterior`` (default): a plausible value
        of each target (Mislevy 1991), so that their distribution is that of the targets at hand,
        however skewed or clustered; ``population``: N(0, SD of the fit).
    tasks
        Workers, resuming, progress; the result does not depend on them.

    Raises
    ------
    InputError
        For settings out of range, other outcomes than 0 and 1, weighted targets, fewer than two
        items that vary, or a model of other items.
    """
    check_kind(correlation)
    check_binary(responses, "a null spectrum")
    _check(replicates, percentile, responses)
    used, kept_targets, kept_items = _analysed(responses)
    values, unknown = outcome_spectrum(used.codes, used.observed, correlation)
    drawn = null_spectra(
        used,
        _selected(one_dimension, responses, kept_targets, kept_items),
        replicates=replicates,
        correlation=correlation,
        abilities=abilities,
        depth=min(DEPTH, len(used.items)),
        seed=seed,
        tasks=tasks,
    )
    cuts = {null: np.percentile(draws, percentile, axis=0) for null, draws in drawn.items()}
    one = cuts.get("one dimension")
    return Spectrum(
        observed=_floats(values),
        null=_floats(cuts["independence"]),
        parallel=_floats(cuts["permutation"]),
        one_dimension=None if one is None else _floats(one),
        exceed=_leading(values, cuts["independence"]),
        exceed_parallel=_leading(values, cuts["permutation"]),
        exceed_one_dimension=None if one is None else _leading(values[1:], one[1:]),
        items=len(used.items),
        targets=len(used.targets),
        dropped_items=_names(responses.items, ~kept_items),
        dropped_targets=_names(responses.targets, ~kept_targets),
        unknown_pairs=unknown,
        percentile=float(percentile),
        replicates=replicates,
        correlation=correlation,
        warnings=_warnings(values, unknown, len(used.targets)),
    )


def score_spectrum(scores: ArrayLike) -> FloatArray:
    """Eigenvalues of the Pearson correlations of scores over targets that have them all.

    Parameters
    ----------
    scores
        Shape ``(N, D)``, NaN where unknown, such as means of D sets of items.

    Returns
    -------
    numpy.ndarray
        Shape ``(D,)``, largest first.

    Raises
    ------
    InputError
        For fewer than three complete targets, or a score that does not vary over them.
    """
    values = np.asarray(scores, np.float64)
    if values.ndim != 2 or values.shape[1] < 2:
        raise InputError("scores have targets as rows and at least two columns")
    complete = values[np.isfinite(values).all(axis=1)]
    if len(complete) < 3:
        raise InputError(f"{len(complete)} targets have all {values.shape[1]} scores")
    if (np.ptp(complete, axis=0) == 0).any():
        raise InputError("a score is the same for all targets", fix="leave it out")
    return eigenvalues_of(np.corrcoef(complete, rowvar=False))


def _selected(
    given: FittedDimension | None, responses: Responses, targets: BoolArray, items: BoolArray
) -> OneDimension | None:
    """The model of the items and targets that are analysed."""
    if given is None:
        return None
    chosen = np.flatnonzero(items)
    if not isinstance(given, OneDimension):
        place = {name: index for index, name in enumerate(given.items)}
        missing = [name for name in _names(responses.items, items) if name not in place]
        if missing:
            raise InputError(
                f"the model lacks {len(missing)} items that vary, the first is {missing[0]!r}"
            )
        chosen = np.array([place[name] for name in _names(responses.items, items)])
    model = given if isinstance(given, OneDimension) else as_one_dimension(given)
    if model.parameters.dimensions != 1:
        raise InputError(f"the model has {model.parameters.dimensions} dimensions, and not one")
    if isinstance(given, OneDimension):
        if model.parameters.items == len(chosen):
            chosen = np.arange(len(chosen))
        elif model.parameters.items != items.size:
            raise InputError(
                f"the model has {model.parameters.items} items, of which {len(chosen)} vary"
            )
    found = replace(model, parameters=model.parameters.select(chosen))
    if model.ability_mean is None or model.ability_sd is None:
        return found
    if len(model.ability_mean) != targets.size:
        raise InputError("the abilities of the model are of other targets")
    return replace(
        found, ability_mean=model.ability_mean[targets], ability_sd=model.ability_sd[targets]
    )


def _analysed(responses: Responses) -> tuple[Responses, BoolArray, BoolArray]:
    """What is analysed, and which targets and items that is."""
    observed = responses.observed
    ones = (responses.codes == 1) & observed
    items = np.asarray(ones.any(axis=0) & (observed & ~ones).any(axis=0))
    if items.sum() < 2:
        raise InputError(
            f"{int(items.sum())} of {items.size} items vary over the targets",
            fix="a spectrum needs two that do",
        )
    targets = np.asarray(observed[:, items].any(axis=1))
    used = replace(
        responses.select_items(items),
        codes=np.ascontiguousarray(responses.codes[np.ix_(targets, items)]),
        targets=_names(responses.targets, targets),
        weights=responses.weights[targets],
    )
    return used, targets, items


def _check(replicates: int, percentile: float, responses: Responses) -> None:
    if replicates < 20:
        raise InputError(f"{replicates} replicates give no percentile", fix="use 20 or more")
    if not 0 < percentile < 100:
        raise InputError(f"the percentile is {percentile:g}", fix="give one between 0 and 100")
    if (responses.weights != 1).any():
        raise InputError(
            "targets with weights have no random copies", fix="give each target its own row"
        )


def _leading(values: FloatArray, cuts: FloatArray) -> int:
    """How many values in a row, from the first, exceed their cut."""
    above = values[: len(cuts)] > cuts
    return int(np.cumprod(above).sum())


def _warnings(values: FloatArray, unknown: int, targets: int) -> tuple[str, ...]:
    said = []
    if values[-1] < -1e-8:
        said.append(
            f"the smallest eigenvalue is {values[-1]:.2f}: correlations of pairs over different "
            "targets, or tetrachoric ones, need not fit together; eigenvalues are used as they are"
        )
    if unknown:
        said.append(f"{unknown} pairs of items have no correlation and count as 0")
    if targets < 10:
        said.append(f"{targets} targets tell very little about how items hang together")
    return tuple(said)


def _names(names: Sequence[str], chosen: BoolArray) -> tuple[str, ...]:
    return tuple(name for name, kept in zip(names, chosen, strict=True) if kept)


def _floats(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
