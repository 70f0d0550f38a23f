"""Whether responses, parameters and abilities belong together."""

from __future__ import annotations

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray, ItemParameters
from safemetry.irt.responses import Responses


def check_items(responses: Responses, parameters: ItemParameters) -> None:
    """Refuse responses that the parameters do not describe.

    Raises
    ------
    InputError
        For another number of items, or a category that an item lacks.
    """
    if len(responses.items) != parameters.items:
        raise InputError(
            f"{len(responses.items)} items were answered and {parameters.items} are calibrated",
            fix="select the calibrated items from the responses",
        )
    beyond = np.flatnonzero(responses.categories > parameters.categories)
    if beyond.size:
        place = int(beyond[0])
        raise InputError(
            f"item {responses.items[place]!r} has a response {responses.categories[place] - 1} "
            f"but {parameters.categories[place]} calibrated categories",
            fix="calibrate it again with all its categories",
        )


def as_points(theta: FloatArray, dimensions: int, targets: int | None = None) -> FloatArray:
    """Abilities as a matrix with a column for each dimension.

    Parameters
    ----------
    theta
        Shape ``(N, K)``, or ``(N,)`` in one dimension.
    dimensions, targets
        K, and N where it is known.

    Raises
    ------
    InputError
        For another shape, or abilities that are not finite.
    """
    points = np.asarray(theta, np.float64)
    if points.ndim == 1 and dimensions == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != dimensions:
        raise InputError(
            f"abilities have shape {points.shape} where items have {dimensions} dimensions"
        )
    if targets is not None and len(points) != targets:
        raise InputError(f"there are {len(points)} abilities for {targets} targets")
    if not np.isfinite(points).all():
        raise InputError(
            "an ability is not finite", fix="use posterior modes or means, which always exist"
        )
    return points
