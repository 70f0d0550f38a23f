"""The smallest shift of an ability that a set of items can be expected to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy.special import ndtr

from safemetry.audits.shift.comparison import Alternative, Comparison
from safemetry.irt.parameters import FloatArray
from safemetry.rates.intervals import normal_quantile

_FURTHEST: Final = 8.0
_POINTS: Final = 801
_PLACES: Final = 9
_NOT_VISIBLE: Final = "no shift within 8 units of ability would be found with this power"


@dataclass(frozen=True)
class Resolution:
    """The smallest shifts that the difference test finds with a given power.

    Parameters
    ----------
    power
        Chance of finding them.
    lower, higher
        How far the ability must fall, or rise, from the earlier one, in units of ability, above 0;
        None where no shift would be found so often.
    lower_points, higher_points
        The same as changes of the expected full score in points (hundredths of its range).
    why
        Reasons for what is None.
    """

    power: float
    lower: float | None
    higher: float | None
    lower_points: float | None
    higher_points: float | None
    why: Mapping[str, str] = field(default_factory=dict)


def power_curve(
    comparison: Comparison,
    theta: float,
    shifts: FloatArray,
    *,
    level: float,
    alternative: Alternative = "two_sided",
) -> FloatArray:
    """Chance that the difference test finds shifts from an ability, shape ``(D,)``.

    Normal approximation: ``Phi((|d| - z s_0) / s_d)`` with the standard deviations ``s_0`` and
    ``s_d`` of the estimated difference where there is no shift and where there is this one, from
    the information at both abilities and the items' errors (Lachin 1981, Controlled Clinical Trials
    2, equation 8).

    Parameters
    ----------
    comparison
        Both sides.
    theta
        The earlier ability.
    shifts
        All of one sign.
    level
        Of the difference test.
    alternative
        Of the difference test.
    """
    early = comparison.before.variance(np.array([theta]))
    here = np.concatenate([[0.0], shifts])
    places = np.linspace(0.0, float(shifts[np.abs(shifts).argmax()]), _PLACES)
    errors = [comparison.calibration_error(theta, theta + float(place)) for place in places]
    order = np.argsort(places)
    items = np.interp(here, places[order], np.array(errors)[order])
    spread = np.sqrt(early + comparison.now.variance(theta + here) + items**2)
    sides = 1 if alternative == "lower" else 2
    critical = normal_quantile(1 - level / sides)
    found: FloatArray = ndtr((np.abs(shifts) - critical * spread[0]) / spread[1:])
    return found


def smallest_visible(
    comparison: Comparison,
    theta: float,
    sign: int,
    *,
    level: float,
    power: float,
    alternative: Alternative = "two_sided",
) -> float | None:
    """The smallest shift that is found with a power, above 0; None where there is none.

    Parameters
    ----------
    comparison, theta, level, alternative
        As in `power_curve`.
    sign
        -1 for a fall, 1 for a rise.
    power
        In (0, 1).
    """
    shifts = sign * np.linspace(0.0, _FURTHEST, _POINTS)[1:]
    found = power_curve(comparison, theta, shifts, level=level, alternative=alternative)
    enough = np.flatnonzero(found >= power)
    return abs(float(shifts[enough[0]])) if enough.size else None


def make_resolution(
    falls: tuple[float | None, float | None],
    rises: tuple[float | None, float | None],
    power: float,
    unasked: str | None = None,
) -> Resolution:
    """A resolution from shifts in ability and points, with the reasons of what is unknown.

    Parameters
    ----------
    falls, rises
        Shift in ability and in points.
    power
        Of the test.
    unasked
        Why there is no rise, where it was not asked for.
    """
    found = Resolution(power, falls[0], rises[0], falls[1], rises[1])
    why = {
        name: unasked if unasked and name.startswith("higher") else _NOT_VISIBLE
        for name in ("lower", "higher", "lower_points", "higher_points")
        if getattr(found, name) is None
    }
    return replace(found, why=why)
