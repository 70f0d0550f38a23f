"""Lattices of abilities, and tables of items on them."""

from __future__ import annotations

from typing import Final

import numpy as np

from safemetry.forms.adaptive.curves import LEAST_CHANCE, category_curves
from safemetry.forms.adaptive.settings import AdaptiveSettings
from safemetry.irt.parameters import FloatArray, ItemParameters

_LOOK_UP: Final = 0.1
"""Spacing of the fine lattice times the steepest slope."""
_SHARE: Final = 0.9
"""Spacing of the other in units of the narrowest posterior; see `safemetry.irt`'s lattices."""
_MOST_NODES: Final = 2_000
_BLOCK: Final = 512


def fine_nodes(parameters: ItemParameters, low: float, high: float) -> FloatArray:
    """Equally spaced abilities from `low` to `high`, between which the tables are cubic."""
    steepest = max(float(np.abs(parameters.slopes).max()), 1e-9)
    spacing = min(_LOOK_UP / steepest, (high - low) / 160)
    count = min(int(np.ceil((high - low) / spacing)), _MOST_NODES)
    return np.linspace(low, high, count + 1)


def posterior_nodes(
    settings: AdaptiveSettings,
    parameters: ItemParameters,
    fine: FloatArray,
    information: FloatArray,
    sd: float,
) -> FloatArray:
    """Abilities that resolve the posterior after the most informative answers of a session.

    Parameters
    ----------
    settings
        Of the test; a number of nodes that is set there is kept.
    parameters
        Of J items.
    fine, information
        Abilities over the same range, shape ``(F,)``, and item information, ``(F, J)``.
    sd
        Of the population.
    """
    low, high = float(fine[0]), float(fine[-1])
    if settings.lattice.nodes is not None:
        return np.linspace(low, high, settings.lattice.nodes)
    items = parameters.items
    kept = min(settings.budget, items)
    best = np.partition(information, items - kept, axis=1)[:, items - kept :].sum(axis=1).max()
    narrowest = 1 / np.sqrt(1 / sd**2 + float(best))
    steepest = max(float(np.abs(parameters.slopes).max()), 1e-9)
    spacing = min(_SHARE * narrowest, 1.4 / steepest, (high - low) / 60)
    return np.linspace(low, high, min(int(np.ceil((high - low) / spacing)), _MOST_NODES) + 1)


def _blocks(items: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK, items)) for start in range(0, items, _BLOCK)]


def _curves(
    parameters: ItemParameters, nodes: FloatArray, part: slice
) -> tuple[FloatArray, FloatArray, FloatArray]:
    return category_curves(
        nodes[:, None] * parameters.slopes[part, 0],
        parameters.intercepts[part].T[:, None, :],
        parameters.lower[part],
        parameters.upper[part],
    )


def log_chances(parameters: ItemParameters, nodes: FloatArray) -> FloatArray:
    """Of each category, shape ``(J, C, nodes)``."""
    found = np.empty((parameters.items, parameters.intercepts.shape[1] + 1, nodes.size))
    for part in _blocks(parameters.items):
        chances = _curves(parameters, nodes, part)[0]
        found[part] = np.log(np.maximum(chances, LEAST_CHANCE)).transpose(2, 0, 1)
    return found


def slope_tables(parameters: ItemParameters, nodes: FloatArray) -> FloatArray:
    """Log-chance, its slope by the ability, and Warm's J by category, ``(3, J, C, nodes)``.

    J is the sum over categories of P' P'' / P (Warm 1989).
    """
    found = np.empty((3, parameters.items, parameters.intercepts.shape[1] + 1, nodes.size))
    for part in _blocks(parameters.items):
        slopes = parameters.slopes[part, 0]
        chances, change, bend = _curves(parameters, nodes, part)
        safe = np.maximum(chances, LEAST_CHANCE)
        found[0, part] = np.log(safe).transpose(2, 0, 1)
        found[1, part] = (slopes * change / safe).transpose(2, 0, 1)
        found[2, part] = (slopes**3 * change * bend / safe).transpose(2, 0, 1)
    return found


def category_chances(parameters: ItemParameters, nodes: FloatArray) -> FloatArray:
    """Of each category, shape ``(C, nodes, J)``."""
    found = np.empty((parameters.intercepts.shape[1] + 1, nodes.size, parameters.items))
    for part in _blocks(parameters.items):
        found[:, :, part] = _curves(parameters, nodes, part)[0]
    return found
