"""Correlations of the dimensions, and which of them stands apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from safemetry.construct.dimensions.full_fits import FullFit
from safemetry.errors import InputError
from safemetry.irt.multidimensional.rotation import Rotation, rotate, standardised_loadings
from safemetry.irt.parameters import FloatArray


@dataclass(frozen=True)
class FactorCorrelations:
    """Correlations of the abilities of one model.

    Parameters
    ----------
    model
        Its name.
    rotation
        ``"structure"`` for a confirmatory model, ``"oblimin"`` for an explored one.
    dimensions
        Names of the K dimensions; explored factors are numbered by the variance they explain.
    correlations
        K rows of K.
    mean_with_others
        Mean correlation of each dimension with the others.
    least_related
        The dimension whose mean is lowest.
    sentence
        The same in words.
    """

    model: str
    rotation: str
    dimensions: tuple[str, ...]
    correlations: tuple[tuple[float, ...], ...]
    mean_with_others: tuple[float, ...]
    least_related: str
    sentence: str


def factor_correlations(fit: FullFit, *, seed: int = 0) -> FactorCorrelations:
    """Correlations of the dimensions of a structure, or of explored factors after oblimin.

    Parameters
    ----------
    fit
        To all responses, with at least two dimensions.
    seed
        Of the random starts of the rotation (gamma 0, no Kaiser normalisation).

    Raises
    ------
    InputError
        For a model with one dimension.
    """
    size = fit.model.dimensions
    if size < 2:
        raise InputError(f"{fit.model.name} has one dimension", fix="take one with several")
    if fit.structure is not None:
        return describe_correlations(fit.model.name, fit.dimensions, fit.correlations, "structure")
    turned = rotate(
        standardised_loadings(fit.slopes, fit.correlations), Rotation.OBLIMIN, seed=seed
    )
    names = tuple(f"factor {place}" for place in range(1, size + 1))
    return describe_correlations(fit.model.name, names, turned.correlations, "oblimin")


def describe_correlations(
    model: str, dimensions: tuple[str, ...], correlations: FloatArray, rotation: str
) -> FactorCorrelations:
    """Name the dimension that correlates least with the others.

    Parameters
    ----------
    model
        Name.
    dimensions
        Names of K >= 2 dimensions.
    correlations
        Shape ``(K, K)``.
    rotation
        How the axes were placed.

    Examples
    --------
    >>> matrix = np.array([[1, 0.785, 0.451], [0.785, 1, 0.603], [0.451, 0.603, 1]])
    >>> names = ("standard", "contextual", "copyright")
    >>> describe_correlations("3D", names, matrix, "structure").least_related
    'copyright'
    """
    size = len(dimensions)
    means = (correlations.sum(axis=1) - np.diag(correlations)) / (size - 1)
    lowest = int(np.argmin(means))
    if size == 2:
        sentence = f"{dimensions[0]} and {dimensions[1]} correlate {correlations[0, 1]:.2f}."
    else:
        sentence = (
            f"{dimensions[lowest]} correlates least with the other dimensions of {model} (mean "
            f"{means[lowest]:.2f}, the others {np.delete(means, lowest).min():.2f} or more)."
        )
    return FactorCorrelations(
        model=model,
        rotation=rotation,
        dimensions=dimensions,
        correlations=tuple(tuple(map(float, row)) for row in correlations),
        mean_with_others=tuple(map(float, means)),
        least_related=dimensions[lowest],
        sentence=sentence,
    )
