"""Where the order of the models departs from a published one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Departure:
    """Two models whose order is the other way round.

    Parameters
    ----------
    first, second
        Names; the published figures put `first` ahead.
    published, mine
        Log loss of both, published and here.
    sentence
        The departure in words.
    """

    first: str
    second: str
    published: tuple[float, float]
    mine: tuple[float, float]
    sentence: str


def departures(mine: Mapping[str, float], published: Mapping[str, float]) -> tuple[Departure, ...]:
    """Pairs of models that published figures order otherwise.

    Parameters
    ----------
    mine, published
        Name of a model -> log loss. Models in one of them only, and published ties, are passed
        over.

    Examples
    --------
    >>> found = departures({"2D": 0.25, "3D": 0.24}, {"2D": 0.26, "3D": 0.27, "4D": 0.3})
    >>> print(found[0].sentence)
    Published figures put 2D (0.260) ahead of 3D (0.270); here 3D is ahead (0.240 against 0.250).
    """
    both = sorted((name for name in published if name in mine), key=published.__getitem__)
    return tuple(
        Departure(
            first=first,
            second=second,
            published=(published[first], published[second]),
            mine=(mine[first], mine[second]),
            sentence=(
                f"Published figures put {first} ({published[first]:.3f}) ahead of {second} "
                f"({published[second]:.3f}); here {second} is ahead ({mine[second]:.3f} against "
                f"{mine[first]:.3f})."
            ),
        )
        for first, second in combinations(both, 2)
        if published[first] < published[second] and mine[second] < mine[first]
    )
