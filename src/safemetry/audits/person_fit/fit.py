"""Person fit of targets: cutoffs at their own abilities, and the union of statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.null import Ability, PersonFitNull, simulate_null
from safemetry.audits.person_fit.reestimation import Method
from safemetry.audits.person_fit.statistics import Side
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses

LEVEL: Final = 0.05
_FEWEST_BESIDE: Final = 99
_FEW: Final = "fewer than two responses"
_UNDEFINED: Final = "all or none of the items are passed, or no response has a variance"
_NO_CUTOFF: Final = "too many patterns that fit have no value at this ability"


@dataclass(frozen=True)
class FitRow:
    """One statistic of one target.

    Parameters
    ----------
    target, statistic
        Names.
    value
        Observed value.
    cutoff
        A value beyond it, on the `side`, is flagged.
    side
        ``low`` or ``high``: where misfit shows.
    p_value
        (r + 1) / (n + 1) with r of n patterns that fit as bad or worse.
    null_rate
        Share flagged of the patterns that fit, the target counted with them: at most the level, and
        below it where the statistic takes few values. None without a value of the target.
    flagged
        Whether the p-value is at most the level.
    why
        Field -> why it is None.
    """

    target: str
    statistic: str
    value: float | None
    cutoff: float | None
    side: Side
    p_value: float | None
    null_rate: float | None
    flagged: bool
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PersonFit:
    """How one target fits.

    Parameters
    ----------
    target
        Name.
    answered
        Number of responses to calibrated items.
    theta, theta_error
        Its ability and standard error.
    rows
        One for each statistic.
    any_flagged, joint_null_rate
        Whether any statistic is flagged at its own cutoff, and the share of patterns that fit of
        which any would be: far above the level of each.
    union_p_value, union_null_rate, flagged
        The verdict at the level for all statistics together, by the smallest p-value against its
        own distribution (Westfall & Young 1993, section 2.3), and the share of patterns that fit
        which it flags.
    level
        Stated false-positive rate.
    why
        Field -> why it is None.
    """

    target: str
    answered: int
    theta: float
    theta_error: float | None
    rows: tuple[FitRow, ...]
    any_flagged: bool
    joint_null_rate: float | None
    union_p_value: float | None
    union_null_rate: float | None
    flagged: bool
    level: float
    why: Mapping[str, str] = field(default_factory=dict)


def person_fit(  # noqa: PLR0913 - each is a documented choice
    responses: Responses,
    calibrated: Calibrated,
    *,
    statistics: Sequence[str] | None = None,
    level: float = LEVEL,
    simulations: int = 1000,
    rng: np.random.Generator,
    order: Sequence[Any] | None = None,
    method: Method = "wle",
    ability: Ability | Literal["interval"] = "interval",
) -> tuple[PersonFit, ...]:
    """Person fit of every target, against patterns that fit at its own ability.

    Parameters
    ----------
    responses, calibrated, statistics, simulations, rng, order, method
        As for `simulate_null`.
    ability
        As for `simulate_null`; ``interval`` looks one standard error to both sides of the estimate
        as well, see `surrounding_nulls`.
    level
        False-positive rate, in (0, 1).

    Raises
    ------
    InputError
        For responses or settings that cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from safemetry.irt.parameters import ItemParameters
    >>> from safemetry.irt.responses import make_responses
    >>> steps = np.linspace(3, -3, 30)[:, None]
    >>> items = ItemParameters(np.ones((30, 1)), steps, np.zeros(30), np.ones(30))
    >>> codes = [[1] * 15 + [0] * 15, [0] * 15 + [1] * 15]
    >>> names = tuple(map(str, range(1, 31)))
    >>> found = person_fit(
    ...     make_responses(codes), Calibrated.make(names, items), rng=np.random.default_rng(1)
    ... )
    >>> [one.flagged for one in found]
    [False, True]
    """
    options: dict[str, Any] = {
        "statistics": statistics,
        "simulations": simulations,
        "rng": rng,
        "order": order,
        "method": method,
    }
    if ability == "interval":
        null, *around = surrounding_nulls(responses, calibrated, **options)
        return judge_fit(null, level, around)
    return judge_fit(simulate_null(responses, calibrated, ability=ability, **options), level)


def surrounding_nulls(
    responses: Responses, calibrated: Calibrated, *, simulations: int = 1000, **options: Any
) -> tuple[PersonFitNull, ...]:
    """Nulls at the estimated abilities, and one standard error below and above them.

    The true ability is not known, and a statistic may be more variable next to the estimate than at
    it. A verdict that holds under all three nulls is seldom a chance of the estimate (the largest
    p-value over a set of abilities; Berger & Boos 1994, Journal of the American Statistical
    Association 89, without their correction for abilities beyond the set).

    Parameters
    ----------
    responses, calibrated, **options
        As for `simulate_null`.
    simulations
        At the estimate; half as many on each side, 99 at least.
    """
    sides = max(simulations // 2, min(simulations, _FEWEST_BESIDE))
    return (
        simulate_null(responses, calibrated, simulations=simulations, **options),
        *(
            simulate_null(responses, calibrated, simulations=sides, ability=away, **options)
            for away in (-1.0, 1.0)
        ),
    )


def judge_fit(
    null: PersonFitNull, level: float = LEVEL, around: Sequence[PersonFitNull] = ()
) -> tuple[PersonFit, ...]:
    """Cutoffs, p-values and verdicts from simulated statistics.

    Parameters
    ----------
    null
        Of N targets.
    around
        Nulls of the same targets at other abilities: the largest p-value and the furthest cutoff
        count.
    level
        False-positive rate, in (0, 1).

    Raises
    ------
    InputError
        Where the simulations are too few for the level.
    """
    beyond = int(level * (null.simulations + 1) + 1e-9)
    if not 0 < level < 1 or beyond < 1:
        raise InputError(
            f"{null.simulations} simulations cannot tell a level of {level:g}",
            fix=f"use a level between 0 and 1, and {int(np.ceil(1 / max(level, 1e-9)))} or more",
        )
    own, others = null.p_values()
    cutoffs = _cutoffs(null, beyond)
    union_own, union_others = smallest_p_values(own, others)
    for beside in around:
        more_own, more_others, more_union = _beside(null, beside)
        own, others = np.maximum(own, more_own), np.maximum(others, more_others)
        union_own = np.maximum(union_own, more_union[:, 0])
        union_others = np.maximum(union_others, more_union[:, 1:])
        last = int(level * (beside.simulations + 1) + 1e-9)
        cutoffs = np.maximum(cutoffs, _cutoffs(beside, max(last, 1)))
    found = []
    for place, target in enumerate(null.targets):
        # A target that fits is one of its patterns: counted with them, the share is never above
        # the level by a rounding of 1 / M.
        flags = np.concatenate([own[place][:, None], others[place]], axis=1) <= level
        rates = flags.mean(axis=1)
        rows = tuple(
            _row(
                null, place, which, (cutoffs[place, which], own[place, which], rates[which]), level
            )
            for which in range(len(null.statistics))
        )
        error = float(null.theta_errors[place])
        any_known = bool(null.known[place].any())
        why = {} if np.isfinite(error) else {"theta_error": "the responses say nothing of it"}
        if not any_known:
            fields = ("joint_null_rate", "union_p_value", "union_null_rate")
            why |= dict.fromkeys(fields, "no statistic has a value")
        found.append(
            PersonFit(
                target,
                int(null.answered[place]),
                float(null.theta[place]),
                error if np.isfinite(error) else None,
                rows,
                any(row.flagged for row in rows),
                float(flags.any(axis=0).mean()) if any_known else None,
                float(union_own[place]) if any_known else None,
                float(np.mean(np.append(union_others[place], union_own[place]) <= level))
                if any_known
                else None,
                any_known and bool(union_own[place] <= level),
                level,
                why,
            )
        )
    return tuple(found)


def largest_p_values(null: PersonFitNull, around: Sequence[PersonFitNull]) -> FloatArray:
    """P-values of the targets under the null of all that is largest, shape ``(N, S)``."""
    found = null.p_values()[0]
    for beside in around:
        own = beside.p_values_of(null.worse[:, :, None])[:, :, 0]
        found = np.where(null.known, np.maximum(found, own), 1.0)
    return found


def _cutoffs(null: PersonFitNull, beyond: int) -> FloatArray:
    """Values of which that many patterns are as bad or worse, shape ``(N, S)``."""
    place = null.simulations - beyond
    found: FloatArray = np.partition(null.null_worse, place, axis=2)[:, :, place].astype(np.float64)
    return found


def _beside(
    null: PersonFitNull, beside: PersonFitNull
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P-values under another null: of the targets, of their patterns, and of the smallest of each.

    Returns
    -------
    Shapes ``(N, S)``, ``(N, S, M)`` and ``(N, 1 + M)``.
    """
    pooled = np.concatenate([null.worse[:, :, None], null.null_worse], axis=2)
    found = beside.p_values_of(pooled)
    found[:, :, 0] = np.where(null.known, found[:, :, 0], 1.0)
    smallest = np.sort(beside.p_values()[1].min(axis=1), axis=1)
    count = beside.simulations
    reached = np.stack(
        [
            np.searchsorted(line, values + 0.5 / (count + 1), side="left")
            for line, values in zip(smallest, found.min(axis=1), strict=True)
        ]
    )
    union: FloatArray = (reached + 1) / (count + 1)
    return found[:, :, 0], found[:, :, 1:], union


def smallest_p_values(own: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P-values of the smallest p-value of several statistics, among all others of the target.

    Parameters
    ----------
    own, others
        Of targets, shape ``(N, S)``, and of the patterns of each, shape ``(N, S, M)``.

    Returns
    -------
    tuple of numpy.ndarray
        Shapes ``(N,)`` and ``(N, M)``.
    """
    pooled = np.concatenate([own[:, :, None], others], axis=2).min(axis=1)
    ranked = np.sort(pooled, axis=1)
    count = pooled.shape[1]
    # A little more than the value, so that ties count.
    found = np.stack(
        [
            np.searchsorted(line, values + 0.5 / count, side="left") / count
            for line, values in zip(ranked, pooled, strict=True)
        ]
    )
    return found[:, 0], found[:, 1:]


def _row(
    null: PersonFitNull, place: int, which: int, numbers: tuple[float, float, float], level: float
) -> FitRow:
    cutoff, p_value, rate = numbers
    name, side = null.statistics[which], null.sides[which]
    why = {}
    if not null.known[place, which]:
        reason = _FEW if null.answered[place] < 2 else _UNDEFINED
        why = dict.fromkeys(("value", "p_value", "null_rate"), reason)
    if not np.isfinite(cutoff):
        why["cutoff"] = _NO_CUTOFF
    known = "value" not in why
    return FitRow(
        null.targets[place],
        name,
        float(null.values[place, which]) if known else None,
        None if "cutoff" in why else float(-cutoff if side == "low" else cutoff),
        side,
        float(p_value) if known else None,
        float(rate) if known else None,
        known and bool(p_value <= level),
        why,
    )
