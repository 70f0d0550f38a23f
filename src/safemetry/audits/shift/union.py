"""One verdict from several tests of one target: shift of the ability, and person fit.

Tests at 5% each do not flag 5% of the targets that are in order when any of them counts. How often
they do depends on how they go together, which is known from simulated targets for which all of them
are computed from the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.reestimation import LogisticAbilities, make_abilities
from safemetry.audits.person_fit.scoring import GeneralScorer, LogisticScorer, Reference, Scorer
from safemetry.audits.person_fit.statistics import SIDES, check_statistics
from safemetry.audits.shift.comparison import Alternative, Comparison, make_comparison
from safemetry.audits.shift.settings import ShiftSettings
from safemetry.audits.shift.sides import LATER, StoredAbility, answered
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tail = Literal["high", "low", "both"]

SHIFT: Final = "ability_shift"
_ROUNDING: Final = 2e-5
_UNKNOWN: Final = "it has no value for these answers"


@dataclass(frozen=True)
class UnionPart:
    """One of the tests.

    Rates are among the simulated targets that are in order and this one, which is one of them if it
    is in order too.

    Parameters
    ----------
    name
        ``ability_shift``, or a statistic of person fit.
    p_value
        By itself; None where there is none.
    null_rate
        How often it is at most the level: less often than the level says where the statistic is
        discrete.
    flagged
        Whether its p-value is at most the level.
    why
        Reasons for what is None.
    """

    name: str
    p_value: float | None
    null_rate: float
    flagged: bool
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UnionTest:
    """Several tests as one; for rates see `UnionPart`.

    Parameters
    ----------
    parts
        The tests.
    level
        False-positive rate that is asked for.
    naive_rate
        How often any of the parts is at most the level: the joint false-positive rate of the union
        as it is often used.
    naive_flagged
        Whether any part is flagged.
    p_value
        Of the smallest p-value among simulated ones: the calibrated union.
    cutoff
        The largest p-value of a part at which the calibrated union flags; 0 where none does.
    null_rate
        How often the calibrated union flags: at most the level.
    flagged
        Whether `p_value` is at most the level.
    simulations
        Targets simulated.
    """

    parts: tuple[UnionPart, ...]
    level: float
    naive_rate: float
    naive_flagged: bool
    p_value: float
    cutoff: float
    null_rate: float
    flagged: bool
    simulations: int


def min_p_union(
    names: Sequence[str],
    observed: FloatArray,
    replicates: FloatArray,
    tails: Sequence[Tail],
    level: float,
) -> UnionTest:
    """Calibrated and naive union of tests, from joint replicates of their statistics.

    The smallest p-value is compared with its own distribution, in which each replicate has the
    p-values that it has among the others and the observed one (Westfall & Young 1993, chapter 2;
    Ge, Dudoit & Speed 2003, Test 12, section 4). Where observed and simulated statistics are
    exchangeable, the level is exact, whatever the dependence.

    Parameters
    ----------
    names
        Of the S tests.
    observed
        Shape ``(S,)``; NaN where a statistic has no value, which counts as never unusual.
    replicates
        Shape ``(S, M)``, each column from one simulated target.
    tails
        Which values of each statistic are unusual.
    level
        In (0, 1).

    Raises
    ------
    InputError
        For shapes that do not fit.

    Examples
    --------
    >>> replicates = np.random.default_rng(1).standard_normal((2, 999))
    >>> union = min_p_union(("a", "b"), np.array([0.0, 3.5]), replicates, ("high",) * 2, 0.05)
    >>> union.flagged, round(union.naive_rate, 2), round(union.null_rate, 2)
    (True, 0.09, 0.05)
    """
    count, simulations = replicates.shape
    if not len(names) == len(observed) == len(tails) == count or not count or not simulations:
        raise InputError("a union has a name, a value, a tail and replicates for each test")
    pooled = np.concatenate([observed[:, None], replicates], axis=1)
    chances = np.stack(
        [_pooled_p(values, tail) for values, tail in zip(pooled, tails, strict=True)]
    )
    known = np.isfinite(observed)
    parts = tuple(
        UnionPart(
            name,
            float(own[0]) if is_known else None,
            float((own <= level).mean()),
            bool(own[0] <= level),
            {} if is_known else {"p_value": _UNKNOWN},
        )
        for name, own, is_known in zip(names, chances, known, strict=True)
    )
    smallest = chances.min(axis=0)
    order = np.sort(smallest)
    joint = np.searchsorted(order, smallest, side="right") / len(smallest)
    flagging = smallest[joint <= level]
    return UnionTest(
        parts=parts,
        level=level,
        naive_rate=float((smallest <= level).mean()),
        naive_flagged=any(part.flagged for part in parts),
        p_value=float(joint[0]),
        cutoff=float(flagging.max(initial=0.0)),
        null_rate=float((joint <= level).mean()),
        flagged=bool(joint[0] <= level),
        simulations=simulations,
    )


def _pooled_p(values: FloatArray, tail: Tail) -> FloatArray:
    """p-value of each value among all, itself included; unknown values are never unusual."""
    known = np.isfinite(values)
    found = np.ones(len(values))
    own = values[known]
    # Equal answers give equal values up to rounding, and a tie counts on both sides.
    slack = _ROUNDING * (1 + np.abs(own))
    ranked = np.sort(own)
    low = np.searchsorted(ranked, own + slack, side="right") / len(values)
    high = (len(own) - np.searchsorted(ranked, own - slack, side="left")) / len(values)
    if tail == "low":
        found[known] = low
    elif tail == "high":
        found[known] = high
    else:
        found[known] = np.minimum(2 * np.minimum(low, high), 1.0)
    return found


def audit_union(
    now: Responses,
    history: Responses | StoredAbility,
    calibrated: Calibrated,
    settings: ShiftSettings | None = None,
    *,
    statistics: Sequence[str] = ("l_z_star",),
    rng: np.random.Generator,
) -> UnionTest:
    """Whether a target is as its history says and answers as the model says, in one test.

    Simulated targets have one ability before and now, the most likely one, and answer by the model;
    their item parameters are drawn from the calibration's errors, and everything is computed from
    their answers as from the observed ones.

    Parameters
    ----------
    now
        One run of one target.
    history
        Its earlier answers, or an earlier estimate.
    calibrated
        Items with their errors.
    settings
        Level, alternative and number of simulations (the margin has no part in it).
    statistics
        Of person fit. Each one more costs power where it sees what the others see.
    rng
        Source of randomness.

    Raises
    ------
    InputError
        For several runs, items that are not calibrated, or an unknown statistic.
    """
    chosen = settings or ShiftSettings()
    if len(now.targets) != 1:
        raise InputError("the union is of one run", fix="take the runs one by one")
    comparison = make_comparison(
        now,
        history,
        calibrated,
        margin=chosen.margin,
        simulations=chosen.simulations,
        rng=rng,
    )
    places, codes = answered(now, calibrated, LATER)
    fit = FitScores(calibrated.select(places), statistics)
    return joint_test(comparison, fit, codes[0], chosen.level, chosen.alternative, rng)


def joint_test(
    comparison: Comparison,
    fit: FitScores,
    codes: NDArray[np.int8],
    level: float,
    alternative: Alternative,
    rng: np.random.Generator,
) -> UnionTest:
    """The union for a comparison that is made already.

    Parameters
    ----------
    comparison
        Both sides, the later one of answers.
    fit
        Statistics of the items that were answered now.
    codes
        The answers to them, shape ``(J',)``.
    level, alternative
        Of the union, and of the shift.
    rng
        Source of randomness.
    """
    replicates = comparison.under(0, rng)
    if replicates.codes is None:
        raise InputError("person fit needs answers on the later side")
    names = (SHIFT, *fit.statistics)
    shift_tail: Tail = "low" if alternative == "lower" else "both"
    tails: list[Tail] = [shift_tail, *(SIDES[name] for name in fit.statistics)]
    return min_p_union(
        names,
        np.concatenate([[comparison.root(0)], fit.score(codes[None])[:, 0]]),
        np.concatenate([replicates.roots[None], fit.score(replicates.codes)]),
        tails,
        level,
    )


class FitScores:
    """Statistics of person fit of patterns over some items, abilities estimated from each.

    Parameters
    ----------
    calibrated
        The items.
    statistics
        Names of person-fit statistics.
    """

    def __init__(self, calibrated: Calibrated, statistics: Sequence[str]) -> None:
        parameters = calibrated.parameters
        binary = parameters.intercepts.shape[1] == 1
        self.statistics = check_statistics(statistics, binary=binary, ordered=False)
        everything = np.ones((1, parameters.items), bool)
        population = calibrated.latent_mean, calibrated.latent_sd
        self._abilities = make_abilities(parameters, everything, "wle", population)
        reference = Reference(*calibrated.population_curves())
        self._scorer: Scorer = (
            LogisticScorer(parameters, reference, self.statistics, self._abilities, 0)
            if isinstance(self._abilities, LogisticAbilities)
            else GeneralScorer(parameters, reference, self.statistics)
        )

    def score(self, codes: NDArray[np.int8]) -> FloatArray:
        """Values, shape ``(S, R)``, NaN where a statistic has none.

        Parameters
        ----------
        codes
            Complete patterns, shape ``(R, J)``.
        """
        patterns = codes.astype(np.float32)
        found = self._scorer.score(patterns, self._abilities.estimate(0, patterns))
        return np.stack(
            [np.where(found[name][1], found[name][0], np.nan) for name in self.statistics]
        )
