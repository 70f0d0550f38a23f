"""A fit checks itself: more freedom never explains the same responses worse.

Where a model that contains another fits the training responses worse than it, its optimisation
failed or its prior did the work, and neither may be ranked as if it were evidence about dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import ItemModel
from safemetry.irt.structure import Structure

_ASYMPTOTES: Final = {ItemModel.THREE_PL: 1, ItemModel.FOUR_PL: 2}


class LikelihoodFit(Protocol):
    """What is asked of a fit, such as `MultidimensionalFit`, or one in one dimension.

    Parameters
    ----------
    settings
        With ``model``, and with ``priors`` as a mapping.
    responses
        Number of fitted cells.
    """

    @property
    def targets(self) -> tuple[str, ...]:
        """Names."""
        ...

    @property
    def items(self) -> tuple[str, ...]:
        """Names."""
        ...

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names."""
        ...

    @property
    def structure(self) -> Structure | None:
        """None for an exploratory fit."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """The item model and the priors."""
        ...

    @property
    def responses(self) -> int:
        """Number of fitted cells."""
        ...

    @property
    def loglik(self) -> float | None:
        """With the abilities integrated out."""
        ...

    @property
    def loglik_error(self) -> float | None:
        """Numerical error of it."""
        ...


@dataclass(frozen=True)
class NestingFailure:
    """A model that fits worse than one nested in it.

    Parameters
    ----------
    nested, nesting
        Positions of the smaller and the larger model.
    shortfall
        By how much the log-likelihood of the larger one falls short, above 0.
    likely_cause
        ``"optimisation"`` where neither has a prior, else ``"optimisation or prior"``.
    sentence
        The failure in words, with advice.
    """

    nested: int
    nesting: int
    shortfall: float
    likely_cause: str
    sentence: str


def is_nested(inner: LikelihoodFit, outer: LikelihoodFit) -> bool:
    """Whether every likelihood that `inner` can reach, `outer` can reach too.

    An exploratory model contains every other one of as many dimensions or fewer: a confirmatory one
    is a rotation of it with some slopes set to 0, and the 1PL has equal slopes. A confirmatory one
    contains those with fewer loadings on the same dimensions, and one dimension for all items where
    its abilities may correlate (at correlations of 1) or a dimension holds all items. Curves with
    an asymptote contain those without it, in one dimension.
    """
    if _key(inner) == _key(outer):
        return False
    small, large = (_ASYMPTOTES.get(fit.settings["model"], 0) for fit in (inner, outer))
    if max(small, large) > 0:
        return small < large and len(inner.dimensions) == 1
    if _one_parameter(outer):
        return _one_parameter(inner) and _reaches_one_dimension(inner, outer)
    inner_size, outer_size = len(inner.dimensions), len(outer.dimensions)
    if outer.structure is None:
        restricted = inner.structure is not None or _one_parameter(inner)
        return inner_size < outer_size or (inner_size == outer_size and restricted)
    return _reaches_one_dimension(inner, outer) or _fewer_loadings(inner, outer)


def find_nesting_failures(
    fits: Sequence[LikelihoodFit], *, tolerance: float = 0.5
) -> tuple[NestingFailure, ...]:
    """Pairs of fits to the same responses in which the larger model fits worse.

    Parameters
    ----------
    fits
        With their marginal log-likelihoods, of the same targets, items and number of responses.
    tolerance
        Shortfall of the log-likelihood, beyond three numerical errors, that is let pass.

    Raises
    ------
    InputError
        For fits without a log-likelihood, or to different responses.
    """
    for fit in fits:
        if fit.loglik is None:
            raise InputError(
                "a fit without a log-likelihood cannot be compared",
                fix="fit with the setting likelihood=True",
            )
        if (fit.targets, fit.items, fit.responses) != (
            fits[0].targets,
            fits[0].items,
            fits[0].responses,
        ):
            raise InputError(
                "fits to different responses cannot be compared",
                fix="compare fits to the same cells",
            )
    found = []
    for small, inner in enumerate(fits):
        for large, outer in enumerate(fits):
            if inner.loglik is None or outer.loglik is None or not is_nested(inner, outer):
                continue
            noise = 3 * float(np.hypot(inner.loglik_error or 0.0, outer.loglik_error or 0.0))
            shortfall = inner.loglik - outer.loglik
            if shortfall > tolerance + noise:
                found.append(_failure(small, large, inner, outer, shortfall))
    return tuple(found)


def _one_parameter(fit: LikelihoodFit) -> bool:
    return bool(fit.settings["model"] == ItemModel.ONE_PL)


def _reaches_one_dimension(inner: LikelihoodFit, outer: LikelihoodFit) -> bool:
    if len(inner.dimensions) > 1 or outer.structure is None:
        return False
    general = bool(outer.structure.mask.all(axis=0).any()) and not _one_parameter(outer)
    return outer.structure.correlated or general


def _fewer_loadings(inner: LikelihoodFit, outer: LikelihoodFit) -> bool:
    small, large = inner.structure, outer.structure
    if small is None or large is None or small.dimensions != large.dimensions:
        return False
    fewer = bool((small.mask <= large.mask).all())
    return fewer and (large.correlated or not small.correlated)


def _key(fit: LikelihoodFit) -> tuple[object, ...]:
    structure = fit.structure
    if structure is None:
        return (fit.settings["model"], len(fit.dimensions))
    shape = (structure.dimensions, structure.mask.tobytes(), structure.correlated)
    return (fit.settings["model"], *shape)


def _failure(
    small: int,
    large: int,
    inner: LikelihoodFit,
    outer: LikelihoodFit,
    shortfall: float,
) -> NestingFailure:
    plain = all(fit.settings["priors"].get("slope", 0) is None for fit in (inner, outer))
    cause = "optimisation" if plain else "optimisation or prior"
    advice = (
        "fit it from more starts"
        if plain
        else "fit it from more starts, then with a wider prior; until then do not rank it"
    )
    return NestingFailure(
        nested=small,
        nesting=large,
        shortfall=shortfall,
        likely_cause=cause,
        sentence=(
            f"The model with {_describe(outer)} fits the responses worse (by {shortfall:.1f} in "
            f"log-likelihood) than the one with {_describe(inner)}, which it contains: {advice}."
        ),
    )


def _describe(fit: LikelihoodFit) -> str:
    count = len(fit.dimensions)
    noun = "dimension" if count == 1 else "dimensions"
    kind = "exploratory" if fit.structure is None else "structured"
    return f"{count} {kind} {noun} ({fit.settings['model']})"
