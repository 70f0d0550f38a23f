"""Ability of one target against its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.shift.comparison import Comparison, make_comparison
from safemetry.audits.shift.equivalence import (
    DifferenceTest,
    EquivalenceTest,
    difference_test,
    equivalence_test,
)
from safemetry.audits.shift.interval import shift_interval
from safemetry.audits.shift.paired import PairedShift, paired_shift
from safemetry.audits.shift.resolution import Resolution, make_resolution, smallest_visible
from safemetry.audits.shift.settings import ShiftSettings
from safemetry.audits.shift.sides import StoredAbility
from safemetry.irt.parameters import expected_scores
from safemetry.irt.responses import Responses

Verdict = Literal["shifted", "same", "cannot_tell"]

SOURCES: Final = (
    "Warm 1989, Psychometrika 54 (ability); Firth 1993, Biometrika 80 (penalty)",
    "DiCiccio, Martin & Stern 2001, Canadian Journal of Statistics 29 (simulated signed root)",
    "Schuirmann 1987, J. Pharmacokinetics and Biopharmaceutics 15 (two one-sided tests)",
    "Cox 1958; Fischer 1989, Psychometrika 54 (shift from changed answers); McNemar 1947",
)


@dataclass(frozen=True)
class AbilityShift:
    """Difference of a target's ability from its history.

    Parameters
    ----------
    target
        Its name.
    before, now
        Abilities.
    before_error, now_error
        Their standard errors with known items.
    difference, error
        Now minus before, and its standard error with the items' errors in it.
    calibration_error
        The part of the items' errors.
    interval, confidence
        Of the difference.
    points, points_interval
        Change of the expected full score, in points (hundredths of its range), from the earlier
        ability.
    test, equivalence
        Of the difference.
    margin_points
        What the margin is worth downwards and upwards from the earlier ability, in points.
    resolution
        Smallest shifts that would be found.
    paired
        Comparison on common items; None where there is none.
    verdict
        ``same`` where the difference is shown to be smaller than the margin; else ``shifted`` where
        it is shown not to be 0; else ``cannot_tell``.
    warnings
        In whole sentences.
    why
        Reasons for what is None.
    """

    target: str
    before: float
    before_error: float
    now: float
    now_error: float
    difference: float
    error: float
    calibration_error: float
    interval: tuple[float, float]
    confidence: float
    points: float
    points_interval: tuple[float, float]
    test: DifferenceTest
    equivalence: EquivalenceTest
    margin_points: tuple[float, float]
    resolution: Resolution
    paired: PairedShift | None
    verdict: Verdict
    warnings: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)


def ability_shift(
    now: Responses,
    history: Responses | StoredAbility,
    calibrated: Calibrated,
    settings: ShiftSettings | None = None,
    *,
    rng: np.random.Generator,
) -> AbilityShift:
    """Compare a target's ability with its history.

    Parameters
    ----------
    now
        Answers of one target, with a row for each run, to calibrated items in any order. An item
        that was answered in several runs counts once, with its mean.
    history
        The same from before, to the same or to other calibrated items; or an earlier estimate (see
        `stored_ability`), whose error counts as independent of the items: where the items are the
        same, the interval is then wider than it need be.
    calibrated
        Items with their errors.
    settings
        Margin, level and so on.
    rng
        Source of randomness.

    Raises
    ------
    InputError
        For items that are not calibrated, or no answer.

    Examples
    --------
    >>> from safemetry.irt.parameters import ItemParameters
    >>> from safemetry.irt.responses import make_responses
    >>> steps = np.linspace(-2, 2, 60)[:, None]
    >>> parameters = ItemParameters(np.full((60, 1), 1.5), steps, np.zeros(60), np.ones(60))
    >>> items = tuple(str(number) for number in range(1, 61))
    >>> calibrated = Calibrated.make(items, parameters)
    >>> before = make_responses([[0] * 20 + [1] * 40])
    >>> now = make_responses([[0] * 45 + [1] * 15])
    >>> found = ability_shift(now, before, calibrated, rng=np.random.default_rng(1))
    >>> found.verdict, round(found.difference, 1)
    ('shifted', -1.5)
    """
    chosen = settings or ShiftSettings()
    comparison = make_comparison(
        now,
        history,
        calibrated,
        margin=chosen.margin,
        simulations=chosen.simulations,
        rng=rng,
    )
    test, _ = difference_test(comparison, rng, chosen.alternative)
    equivalence = equivalence_test(comparison, chosen.margin, rng, chosen.alternative)
    interval = shift_interval(comparison, chosen.level, rng)
    before, later = comparison.abilities
    difference = later - before
    interval = min(interval[0], difference), max(interval[1], difference)
    errors = [
        float(np.sqrt(side.variance(np.array([theta]))[0]))
        for side, theta in ((comparison.before, before), (comparison.now, later))
    ]
    of_items = comparison.calibration_error(before, later)
    full = _Points(calibrated, before)
    resolution = _resolution(comparison, before, chosen, full)
    paired = (
        paired_shift(now, history, calibrated, level=chosen.level, rng=rng)
        if isinstance(history, Responses)
        else None
    )
    differs, equivalent = test.p_value <= chosen.level, equivalence.p_value <= chosen.level
    verdict: Verdict = "same" if equivalent else "shifted" if differs else "cannot_tell"
    return AbilityShift(
        target=now.targets[0],
        before=before,
        before_error=errors[0],
        now=later,
        now_error=errors[1],
        difference=difference,
        error=float(np.sqrt(errors[0] ** 2 + errors[1] ** 2 + of_items**2)),
        calibration_error=of_items,
        interval=interval,
        confidence=1 - chosen.level,
        points=full.change(difference),
        points_interval=(full.change(interval[0]), full.change(interval[1])),
        test=test,
        equivalence=equivalence,
        margin_points=(full.change(-chosen.margin), full.change(chosen.margin)),
        resolution=resolution,
        paired=paired,
        verdict=verdict,
        warnings=_warnings(resolution, paired, chosen, differs=differs, equivalent=equivalent),
        why=_why(paired, history),
    )


class _Points:
    """Expected score over all calibrated items, from an earlier ability."""

    def __init__(self, calibrated: Calibrated, theta: float) -> None:
        self._parameters, self._theta = calibrated.parameters, theta
        self._range = np.maximum(calibrated.parameters.categories - 1, 1)

    def change(self, shift: float) -> float:
        """In points."""
        theta = np.array([[self._theta], [self._theta + shift]])
        start, end = (expected_scores(self._parameters, theta) / self._range).mean(axis=1)
        return 100 * float(end - start)


def _resolution(
    comparison: Comparison, theta: float, settings: ShiftSettings, full: _Points
) -> Resolution:
    def visible(sign: int) -> tuple[float | None, float | None]:
        found = smallest_visible(
            comparison,
            theta,
            sign,
            level=settings.level,
            power=settings.power,
            alternative=settings.alternative,
        )
        return found, None if found is None else full.change(sign * found)

    if settings.alternative == "lower":
        return make_resolution(
            visible(-1), (None, None), settings.power, "the test looks for a fall only"
        )
    return make_resolution(visible(-1), visible(1), settings.power)


def _warnings(
    resolution: Resolution,
    paired: PairedShift | None,
    settings: ShiftSettings,
    *,
    differs: bool,
    equivalent: bool,
) -> tuple[str, ...]:
    said = []
    if differs and equivalent:
        said.append(
            "There is a difference, and it is shown to be smaller than the margin: the verdict is "
            "that of the margin."
        )
    sides = [resolution.lower]
    if settings.alternative == "two_sided":
        sides.append(resolution.higher)
    nothing = not differs and not equivalent
    if nothing and any(side is None or side > settings.margin for side in sides):
        said.append(
            f"These items do not show a shift of the size of the margin ({settings.margin:g}) with "
            f"{settings.power:.0%} power: that nothing was found says little."
        )
    if paired is not None and (paired.p_value <= settings.level) != differs:
        said.append(
            "The paired comparison on common items and the abilities disagree. Where a target "
            "repeats its answers, the paired comparison is the sharper one; it does not see a "
            "change on other items."
        )
    return tuple(said)


def _why(paired: PairedShift | None, history: Responses | StoredAbility) -> dict[str, str]:
    if paired is not None:
        return {}
    if isinstance(history, Responses):
        return {"paired": "no item was answered both before and now"}
    return {"paired": "the history is an estimate without answers"}
