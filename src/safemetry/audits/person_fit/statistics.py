"""Which statistics of person fit there are, and on which side they are unusual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from safemetry.errors import InputError

Side = Literal["low", "high"]

SIDES: Final[dict[str, Side]] = {
    "l_z": "low",
    "l_z_star": "low",
    "infit": "high",
    "outfit": "high",
    "guttman": "high",
    "guttman_normed": "high",
    "u3": "high",
    "h_t": "low",
    "cusum": "high",
}
"""Where misfit shows: a pattern that is less likely, noisier or less orderly than it should be."""

BINARY_ONLY: Final = frozenset({"guttman", "guttman_normed", "u3", "h_t"})


def available(*, binary: bool, ordered: bool) -> tuple[str, ...]:
    """The statistics that are defined for binary or graded items, with or without an order."""
    return tuple(
        name
        for name in SIDES
        if (binary or name not in BINARY_ONLY) and (ordered or name != "cusum")
    )


def check_statistics(
    statistics: Sequence[str] | None, *, binary: bool, ordered: bool
) -> tuple[str, ...]:
    """The statistics asked for, or all that are available.

    Raises
    ------
    InputError
        For an unknown or repeated one, or one that is not defined here.
    """
    usable = available(binary=binary, ordered=ordered)
    if statistics is None:
        return usable
    names = tuple(statistics)
    if not names or len(set(names)) < len(names):
        raise InputError("statistics are named once each, one at least")
    for name in names:
        if name not in SIDES:
            raise InputError(f"there is no statistic {name!r}", fix=f"use {', '.join(SIDES)}")
        if name not in usable:
            fix = "give an order of the items" if name == "cusum" else "leave it out"
            lacks = "needs an order" if name == "cusum" else "is defined for binary items"
            raise InputError(f"{name} {lacks}", fix=fix)
    return names
