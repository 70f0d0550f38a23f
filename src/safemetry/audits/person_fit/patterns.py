"""Patterns of responses drawn from a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.irt.parameters import FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Singles = NDArray[np.floating[Any]]


def draw_patterns(
    theta: Singles,
    slopes: Singles,
    intercepts: Singles,
    asymptotes: tuple[FloatArray, FloatArray],
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Responses of R patterns to J items, in single precision.

    A response is the number of steps whose chance is above one uniform number; u < g + (h - g) /
    (1 + e) is asked as (u - g) (1 + e) < h - g, without a division.

    Parameters
    ----------
    theta
        Abilities, shape ``(R,)``.
    slopes, intercepts
        Shapes ``(R, J)`` or ``(J,)``, and ``(C - 1, R, J)`` or ``(C - 1, J)``.
    asymptotes
        Lower and upper, shape ``(J,)`` each.
    rng
        Source of randomness.
    """
    linear = theta.astype(np.float32)[:, None] * slopes
    uniform = rng.random(linear.shape, dtype=np.float32)
    lower, upper = (ends.astype(np.float32) for ends in asymptotes)
    plain = not lower.any() and bool((upper == 1).all())
    if not plain:
        uniform -= lower
    found = np.zeros(linear.shape, np.float32)
    for step in intercepts:
        odds = linear + step
        np.negative(odds, out=odds)
        # Beyond this the chance is 0 in single precision.
        np.minimum(odds, np.float32(80), out=odds)
        np.exp(odds, out=odds)
        odds += 1
        odds *= uniform
        reached = odds < (np.float32(1) if plain else upper - lower)
        there = np.isfinite(step)
        found += reached if there.all() else reached & there
    return found
