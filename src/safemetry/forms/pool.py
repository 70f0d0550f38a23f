"""The items that a form is chosen from, and the population that it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.information import item_information, normal_grid
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray, ItemParameters
from safemetry.irt.store import StoredCalibration


@dataclass(frozen=True)
class ItemPool:
    """J calibrated items, what is known of them, and the abilities that a form is for.

    Parameters
    ----------
    items
        Names, all different.
    parameters
        Of the items, in K dimensions.
    mean, covariance
        Of the ability in the target population, shapes ``(K,)`` and ``(K, K)``.
    properties
        Property (``category``, ``language``, ``intent``, ...) -> its value for each item, None
        where unknown.
    """

    items: tuple[str, ...]
    parameters: ItemParameters
    mean: FloatArray
    covariance: FloatArray
    properties: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size, dims = len(self.items), self.parameters.dimensions
        if size != self.parameters.items or len(set(self.items)) < size:
            raise InputError("a pool has one name for each item, all different")
        if np.shape(self.mean) != (dims,) or np.shape(self.covariance) != (dims, dims):
            raise InputError(f"the population of a pool in {dims} dimensions has as many means")
        for name, values in self.properties.items():
            if len(values) != size:
                raise InputError(f"{name} is given for {len(values)} items of {size}")

    @classmethod
    def of_calibration(
        cls,
        calibration: StoredCalibration,
        properties: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Self:
        """The items of a calibration.

        Parameters
        ----------
        calibration
            Items and population.
        properties
            Property -> item -> value; items without one have None.
        """
        return cls(
            calibration.items,
            calibration.parameters,
            calibration.mean,
            calibration.covariance,
            {
                name: tuple(values.get(item) for item in calibration.items)
                for name, values in (properties or {}).items()
            },
        )

    @property
    def sd(self) -> float:
        """Standard deviation of the ability, in one dimension."""
        return float(np.sqrt(self.covariance[0, 0]))

    def select(self, chosen: BoolArray | IntArray) -> ItemPool:
        """The pool of some items."""
        places = np.arange(len(self.items))[chosen]
        return ItemPool(
            tuple(self.items[place] for place in places),
            self.parameters.select(places),
            self.mean,
            self.covariance,
            {name: tuple(values[p] for p in places) for name, values in self.properties.items()},
        )

    def places(self, items: tuple[str, ...] | list[str]) -> IntArray:
        """Positions of items.

        Raises
        ------
        InputError
            For an item that is not in the pool.
        """
        known = {item: place for place, item in enumerate(self.items)}
        for item in items:
            if item not in known:
                raise InputError(f"there is no item {item!r} in the pool")
        return np.array([known[item] for item in items], np.int64)

    def information(self, theta: FloatArray) -> FloatArray:
        """Information of each item at abilities ``(Q,)`` in one dimension, shape ``(Q, J)``."""
        return item_information(self.parameters, theta)

    def population(self) -> tuple[FloatArray, FloatArray]:
        """Nodes and weights of the ability in one dimension, both shape ``(Q,)``."""
        return normal_grid(float(self.mean[0]), self.sd)
