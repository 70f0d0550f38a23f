"""Two calibrations on one scale, through the items that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from scipy.optimize import least_squares

from safemetry.errors import InputError
from safemetry.irt.information import normal_grid
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters, reaching

LinkMethod = Literal["mean_mean", "mean_sigma", "stocking_lord", "haebara"]
FEWEST_ITEMS: Final = 3
"""Common items without which no link is made: two always agree on some scale and place."""
ENOUGH_ITEMS: Final = 20
ENOUGH_SHARE: Final = 0.2
"""A link should rest on this many items, or on this share of the smaller calibration if fewer
(Kolen & Brennan 2014, section 8.4)."""
DRIFT: Final = 0.1
"""Root mean squared difference of expected item scores, as a share of the range of scores, above
which an item has drifted."""

_OUTLYING: Final = 3.2
"""Times the median difference, above which an item differs by more than the calibrations' errors:
differences of two noisy curves follow about a Rayleigh distribution, whose upper thousandth begins
there."""
_MOST_ROUNDS: Final = 20
_NARROWEST: Final = 0.02
_FURTHEST: Final = 20.0


@dataclass(frozen=True)
class Drift:
    """How far apart the two calibrations of one common item are after linking.

    Parameters
    ----------
    item
        Its name.
    difference
        Root mean squared difference of its expected scores over the population N(0, 1), divided by
        its highest score.
    drifted
        Whether that is above the limit.
    """

    item: str
    difference: float
    drifted: bool


@dataclass(frozen=True)
class Link:
    """The line that takes abilities of one calibration to the scale of another.

    Parameters
    ----------
    slope, intercept
        ``theta_base = slope * theta_new + intercept``.
    slope_error, intercept_error
        Their standard errors over the choice of common items (jackknife).
    method
        How it was found.
    items
        Common items that it rests on.
    left_out
        Common items that drifted and were not used.
    drifts
        Every common item, the largest difference first.
    limit
        Difference above which an item counts as drifted.
    warnings
        What a reader must know before using the link.
    """

    slope: float
    intercept: float
    slope_error: float
    intercept_error: float
    method: str
    items: tuple[str, ...]
    left_out: tuple[str, ...]
    drifts: tuple[Drift, ...]
    limit: float
    warnings: tuple[str, ...] = ()

    def abilities(self, theta: FloatArray) -> FloatArray:
        """Abilities of the new calibration on the scale of the base."""
        return self.slope * theta + self.intercept

    def errors(self, standard_errors: FloatArray) -> FloatArray:
        """Their standard errors on the scale of the base (that of the link itself is not in it)."""
        return abs(self.slope) * standard_errors

    def parameters(self, new: ItemParameters) -> ItemParameters:
        """Items of the new calibration on the scale of the base; their probabilities stay."""
        slopes = new.slopes / self.slope
        return replace(new, slopes=slopes, intercepts=new.intercepts - slopes * self.intercept)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row for each common item."""
        return [vars(drift) for drift in self.drifts]


def link_calibrations(
    base: tuple[Sequence[str], ItemParameters],
    new: tuple[Sequence[str], ItemParameters],
    *,
    method: LinkMethod = "stocking_lord",
    drift: float = DRIFT,
    leave_out_drifting: bool = True,
) -> Link:
    """Find the scale and place of a new calibration on a base, through their common items.

    ===============  ==============================================================================
    mean_mean        slope from mean discriminations, place from mean difficulties (Loyd & Hoover
                     1980)
    mean_sigma       slope from the spread of difficulties (Marco 1977)
    stocking_lord    least squared difference of the test characteristic curves (Stocking & Lord
                     1983, equation 4)
    haebara          least squared difference of the curves of each item, in both populations
                     (Haebara 1980)
    ===============  ==============================================================================

    The last two use whole curves, so that an item with an extreme difficulty, which nobody can
    estimate, does little harm.

    Parameters
    ----------
    base, new
        Names of the items, and their parameters in one dimension.
    method
        One of the table.
    drift
        Least `Drift.difference` of an item that has drifted. It must also be 3.2 times the median
        difference, since items that few targets have answered differ by chance.
    leave_out_drifting
        Whether to link without the items that have drifted; which these are is judged first by a
        line of medians, which half of the items cannot move. Otherwise they are only named.

    Raises
    ------
    InputError
        For several dimensions, repeated names, or fewer than three common items that discriminate.
    """
    names, first, second = _common(base, new)
    usable = _usable(first, second)
    if usable.sum() < FEWEST_ITEMS:
        raise InputError(
            f"the calibrations share {int(usable.sum())} items that discriminate in both",
            fix=f"a link needs {FEWEST_ITEMS} at least, and {ENOUGH_ITEMS} to be trusted",
        )
    used = usable.copy()
    if leave_out_drifting:
        used = _steady(first, second, usable, method, drift)
    slope, intercept = _line(first, second, used, method)
    differences = _differences(first, second, slope, intercept)
    typical = float(np.median(differences[usable]))
    limit = _limit(differences[usable], drift)
    order = np.argsort(-differences, kind="stable")
    drifts = tuple(
        Drift(names[place], float(differences[place]), bool(differences[place] > limit))
        for place in order
    )
    kept = tuple(name for name, is_used in zip(names, used, strict=True) if is_used)
    left_out = tuple(name for name, is_used in zip(names, used, strict=True) if not is_used)
    errors = _jackknife(first, second, used, method, (slope, intercept))
    warnings = _warnings(len(kept), min(len(base[0]), len(new[0])), drifts, typical, drift)
    return Link(slope, intercept, *errors, method, kept, left_out, drifts, limit, warnings)


def _common(
    base: tuple[Sequence[str], ItemParameters], new: tuple[Sequence[str], ItemParameters]
) -> tuple[list[str], ItemParameters, ItemParameters]:
    """Names of the common items, and their parameters in both calibrations."""
    for names, parameters in (base, new):
        if parameters.dimensions != 1:
            raise InputError(
                f"a calibration has {parameters.dimensions} dimensions; a link has one"
            )
        if len(names) != parameters.items or len(set(names)) != len(names):
            raise InputError("a calibration names each of its items once")
    place = {name: position for position, name in enumerate(new[0])}
    shared = [(spot, place[name]) for spot, name in enumerate(base[0]) if name in place]
    ours = np.array([spot for spot, _ in shared], np.int64)
    theirs = np.array([spot for _, spot in shared], np.int64)
    names = [base[0][spot] for spot in ours]
    first, second = _as_narrow(base[1].select(ours)), _as_narrow(new[1].select(theirs))
    if names and (first.categories != second.categories).any():
        spot = int(np.argmax(first.categories != second.categories))
        raise InputError(
            f"item {names[spot]!r} has {first.categories[spot]} categories in one calibration and "
            f"{second.categories[spot]} in the other",
            fix="calibrate both with the same categories",
        )
    return names, first, second


def _as_narrow(parameters: ItemParameters) -> ItemParameters:
    """Without the steps that none of the items has."""
    width = max(int(parameters.categories.max(initial=2)) - 1, 1)
    return replace(parameters, intercepts=parameters.intercepts[:, :width])


def _usable(first: ItemParameters, second: ItemParameters) -> BoolArray:
    """Items that discriminate, in the same direction, in both calibrations."""
    slopes, others = first.slopes[:, 0], second.slopes[:, 0]
    return (slopes * others > 0) & (first.categories > 1)


def _steady(
    first: ItemParameters,
    second: ItemParameters,
    usable: BoolArray,
    method: LinkMethod,
    drift: float,
) -> BoolArray:
    """Items that have not drifted, judged first by a line that half of them cannot move."""
    slope, intercept = _line_of_medians(first, second, usable)
    used = usable
    for _ in range(_MOST_ROUNDS):
        differences = _differences(first, second, slope, intercept)
        kept = usable & (differences <= _limit(differences[usable], drift))
        if kept.sum() < FEWEST_ITEMS or (kept == used).all():
            break
        used = kept
        slope, intercept = _line(first, second, used, method)
    return used


def _line_of_medians(
    first: ItemParameters, second: ItemParameters, usable: BoolArray
) -> tuple[float, float]:
    ours, theirs = first.select(usable), second.select(usable)
    slope = float(np.median(theirs.slopes / ours.slopes))
    return slope, float(np.median(_steps(ours) - slope * _steps(theirs)))


def _line(
    first: ItemParameters,
    second: ItemParameters,
    used: BoolArray,
    method: LinkMethod,
    near: tuple[float, float] | None = None,
) -> tuple[float, float]:
    chosen = np.flatnonzero(used)
    ours, theirs = first.select(chosen), second.select(chosen)
    if method == "mean_mean":
        return _by_moments(ours, theirs, float(theirs.slopes.mean() / ours.slopes.mean()))
    start = _by_moments(ours, theirs, _spread(ours) / max(_spread(theirs), 1e-12))
    if method == "mean_sigma":
        return start
    if method not in {"stocking_lord", "haebara"}:
        raise InputError(
            f"unknown method {method!r}", fix="mean_mean, mean_sigma, stocking_lord or haebara"
        )
    starts = [near] if near is not None else [start, (1.0, 0.0)]
    return _by_curves(ours, theirs, starts, by_item=method == "haebara")


def _jackknife(
    first: ItemParameters,
    second: ItemParameters,
    used: BoolArray,
    method: LinkMethod,
    near: tuple[float, float],
) -> tuple[float, float]:
    """Standard errors of slope and intercept from leaving out one common item at a time."""
    lines = []
    for place in np.flatnonzero(used):
        others = used.copy()
        others[place] = False
        lines.append(_line(first, second, others, method, near))
    found = np.array(lines)
    factor = (len(found) - 1) / len(found)
    slope, intercept = np.sqrt(factor * ((found - found.mean(axis=0)) ** 2).sum(axis=0))
    return float(slope), float(intercept)


def _spread(parameters: ItemParameters) -> float:
    return float(_steps(parameters).std())


def _steps(parameters: ItemParameters) -> FloatArray:
    """All difficulties, those of the steps of graded items included."""
    difficulties = parameters.difficulties
    return difficulties[np.isfinite(difficulties)]


def _by_moments(ours: ItemParameters, theirs: ItemParameters, slope: float) -> tuple[float, float]:
    if not (np.isfinite(slope) and slope > 0):
        slope = 1.0
    return slope, float(_steps(ours).mean() - slope * _steps(theirs).mean())


def _by_curves(
    ours: ItemParameters,
    theirs: ItemParameters,
    starts: Sequence[tuple[float, float]],
    *,
    by_item: bool,
) -> tuple[float, float]:
    """Least squared difference of curves, the best from several starts."""
    theta, weights = normal_grid()
    points, heights = theta[:, None], np.sqrt(weights)[:, None]
    target, backwards = reaching(ours, points), reaching(theirs, points)

    def apart(line: FloatArray) -> FloatArray:
        slope, intercept = np.exp(line[0]), line[1]
        forward = target - reaching(theirs, (points - intercept) / slope)
        if not by_item:
            whole: FloatArray = heights[:, 0] * forward.sum(axis=(0, 2))
            return whole
        returned = backwards - reaching(ours, slope * points + intercept)
        each: FloatArray = (heights * np.concatenate([forward, returned])).ravel()
        return each

    limits = ([np.log(_NARROWEST), -_FURTHEST], [-np.log(_NARROWEST), _FURTHEST])
    found = [
        least_squares(
            apart,
            np.clip([np.log(slope), intercept], *limits),
            bounds=limits,
            xtol=1e-10,
            ftol=1e-10,
            gtol=1e-10,
        )
        for slope, intercept in starts
    ]
    best = min(found, key=lambda result: float(result.cost))
    return float(np.exp(best.x[0])), float(best.x[1])


def _differences(
    first: ItemParameters, second: ItemParameters, slope: float, intercept: float
) -> FloatArray:
    """Root mean squared difference of expected item scores after linking, shape ``(J,)``."""
    theta, weights = normal_grid()
    ours = reaching(first, theta[:, None]).sum(axis=0)
    theirs = reaching(second, (theta[:, None] - intercept) / slope).sum(axis=0)
    found: FloatArray = np.sqrt(weights @ (ours - theirs) ** 2) / (first.categories - 1)
    return found


def _limit(differences: FloatArray, least: float) -> float:
    return max(least, _OUTLYING * float(np.median(differences)))


def _warnings(
    used: int, smaller: int, drifts: Sequence[Drift], typical: float, least: float
) -> tuple[str, ...]:
    found = []
    wanted = max(FEWEST_ITEMS, min(ENOUGH_ITEMS, round(ENOUGH_SHARE * smaller)))
    if used < wanted:
        found.append(
            f"The link rests on {used} items, and {wanted} is the usual least: its error is not "
            "negligible beside that of the abilities. Give both calibrations more common items."
        )
    drifted = [drift.item for drift in drifts if drift.drifted]
    if drifted:
        shown = ", ".join(drifted[:10]) + (" and others" if len(drifted) > 10 else "")
        found.append(
            f"{len(drifted)} of {len(drifts)} common items behave differently in the two "
            f"calibrations ({shown}): they were changed, leaked, or measure something else now."
        )
    if typical > least:
        found.append(
            f"Half of the common items differ by more than {typical:.2f} of their score range "
            "after linking: the calibrations rest on few targets, or do not measure the same "
            "thing. Drift of single items cannot be told from that."
        )
    if len(drifted) > len(drifts) / 3:
        found.append(
            "More than a third of the common items drifted: the two calibrations may not measure "
            "the same thing, and the link should not be used."
        )
    return tuple(found)
