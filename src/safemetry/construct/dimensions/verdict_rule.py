"""Does one attribute explain the responses? A verdict that knows how often it would be wrong.

Held-out log loss prefers several dimensions whenever they help it a little, and they may: a second
dimension can stand in for guessing, for skewed abilities or for noise. What the gain is when one
dimension *is* true is therefore simulated, and compared with what was found.

Single attribute *rejected*: the gain of the best multidimensional model over the best
one-dimensional one exceeds the 95th percentile of the same gain in data sets simulated from the
fitted one-dimensional model, and over every one-dimensional model it is .005 nats or more.
*Supported*: it does not exceed it, and the interval of the gain lies below .005 nats. Otherwise
*cannot tell*. A model that fits all responses worse than one that it contains is never the best
one while another one passed; it can reject nothing, and stands in the way of both. This is a
parametric bootstrap test (Efron & Tibshirani 1993, chapter 16; Davison & Hinkley 1997, section
4.2); it never counts dimensions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np

from safemetry.construct.dimensions.null_models import AbilitySource
from safemetry.construct.dimensions.paired import PairedDifference, paired_difference
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray

SUPPORTED: Final = "supported"
REJECTED: Final = "rejected"
CANNOT_TELL: Final = "cannot_tell"
FAILED: Final = "failed the nesting check"


@dataclass(frozen=True)
class VerdictSettings:
    """How the verdict is reached.

    Parameters
    ----------
    splits, share
        How often, and which share of the cells, is held out; at least two splits.
    null_sets
        Data sets simulated from the fitted one-dimensional model.
    percentile
        Of their gains, which the observed one must exceed; in (0, 100).
    seed
        Split s uses `seed` + s; simulated sets use their number and `seed`.
    supported_below
        Nats of held-out log loss: *supported* needs the interval of the gain below it.
    least_gain
        Nats of held-out log loss: *rejected* needs a gain of as much. The fitted one-dimensional
        model is not the true one, so that the percentile alone rejects a little more often than it
        should, at gains that are too small to matter. 0 leaves the percentile alone to decide, if
        several dimensions predict better at all.
    dims
        Numbers of explored dimensions that are compared, beside every structure. Those above are
        left out because each costs as much as all others in every simulated set.
    level
        Of the interval of the gain.
    abilities
        Where the abilities of simulated targets come from, see `simulate_one_dimension`.
    stop_early
        Whether to leave out the remaining simulated sets once the first ones have made rejection
        impossible; the verdict is the same.
    """

    splits: int = 5
    share: float = 0.2
    null_sets: int = 99
    percentile: float = 95.0
    seed: int = 2026
    supported_below: float = 0.005
    least_gain: float = 0.005
    dims: tuple[int, ...] = (2, 3, 4)
    level: float = 0.95
    abilities: AbilitySource = "posterior"
    stop_early: bool = True

    def __post_init__(self) -> None:
        if self.splits < 2:
            raise InputError(f"{self.splits} split has no spread", fix="give 2 splits or more")
        for name, high in (("share", 1.0), ("percentile", 100.0), ("level", 1.0)):
            value = getattr(self, name)
            if not 0 < value < high:
                raise InputError(
                    f"{name} is {value:g}", fix=f"give a number between 0 and {high:g}"
                )
        if self.most_reaching < 0:
            raise InputError(
                f"{self.null_sets} simulated sets have no percentile {self.percentile:g}",
                fix="simulate more",
            )
        if self.abilities not in {"posterior", "population"}:
            raise InputError(
                f"there are no abilities of a {self.abilities!r}", fix="use posterior or population"
            )

    @property
    def most_reaching(self) -> int:
        """How many simulated gains may reach the observed one where it is rejected.

        Of B simulated gains and one observed, exchangeable under the null, the observed one is
        among the highest k with chance k / (B + 1) (Barnard 1963): 4 may reach it with 99.
        """
        return int((1 - self.percentile / 100) * (self.null_sets + 1) + 1e-9) - 1


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the responses are those of a single attribute.

    Parameters
    ----------
    single_attribute
        ``supported``, ``rejected`` or ``cannot_tell``.
    why
        The reason, a sentence.
    gain, gain_interval
        Held-out log loss of the best one-dimensional model less that of the best multidimensional
        one, in nats, mean over splits, with the interval of `paired_difference`.
    best_one, best_many
        Which these are, among the models that passed the nesting check where one did.
    splits_won, splits
        In how many splits the multidimensional model predicts better.
    statistic
        The gain over the one-dimensional models that were refitted in every simulated set: all but
        those with asymptotes. It is this one that is compared with `null_gains`.
    null_gains
        The same gain in data sets simulated from `best_one`, in the order of their numbers. Every
        model of several dimensions takes part there, also those that failed for the observed set.
    null_q95
        What `statistic` must exceed: the percentile of `null_gains` by rank.
    null_sets_used, null_sets
        How many data sets were simulated, and how many were asked for.
    p_value
        (1 + number of null gains that reach `statistic`) / (1 + `null_sets_used`).
    compared
        Names of the models that were refitted in every simulated set.
    failed
        Names of the models that fit all responses worse than one that they contain.
    losses
        Held-out log loss of every model in each split.

    Notes
    -----
    Where nothing can be compared the figures are None, and `why` says why.
    """

    single_attribute: str
    why: str
    gain: float | None = None
    gain_interval: tuple[float, float] | None = None
    best_one: str | None = None
    best_many: str | None = None
    splits_won: int | None = None
    splits: int | None = None
    statistic: float | None = None
    null_gains: tuple[float, ...] | None = None
    null_q95: float | None = None
    null_sets_used: int = 0
    null_sets: int | None = None
    p_value: float | None = None
    compared: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    losses: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The fields that are known; where one is left out, `why` says why."""
        held = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in held.items() if value is not None}


def lowest(losses: Mapping[str, FloatArray]) -> str:
    """Name of the model whose mean loss is lowest."""
    return min(losses, key=lambda name: float(losses[name].mean()))


def decide(
    one: Mapping[str, FloatArray],
    many: Mapping[str, FloatArray],
    statistic: float,
    null_gains: FloatArray,
    settings: VerdictSettings,
    failed: Collection[str] = (),
) -> Verdict:
    """Apply the rule.

    Parameters
    ----------
    one, many
        Held-out log loss in each of S splits of the models of one and of several dimensions, by
        name, shape ``(S,)``; one at least of those of one dimension is not in
        `failed`.
    statistic
        The observed gain, computed as `null_gains` are.
    null_gains
        Gains in simulated data sets, shape ``(B,)``; fewer than `VerdictSettings.null_sets` only
        where more than `VerdictSettings.most_reaching` reach `statistic`.
    settings
        Percentile, and the gain that is too small to matter.
    failed
        Names of the models that fit all responses worse than one that they contain. None of them is
        the best; where one predicts better than the best, it must not change what is concluded.
        Where all models of several dimensions failed, one dimension can be supported (they fit no
        better, and predict no better) and not rejected.

    Examples
    --------
    >>> losses = {"1D": np.array([0.30, 0.31])}, {"2D": np.array([0.24, 0.26])}
    >>> decide(*losses, 0.055, np.linspace(0, 0.01, 99), VerdictSettings()).single_attribute
    'rejected'
    """
    able = _passing(many, failed)
    single, several = lowest(_passing(one, failed)), lowest(able or many)
    best = _difference((single, one[single]), (several, many[several]), settings)
    reaching = int((null_gains >= statistic).sum())
    exceeds = reaching <= settings.most_reaching
    high = float("inf") if best.interval is None else best.interval[1]
    if exceeds and best.gain > 0 and best.gain >= settings.least_gain:
        state = REJECTED
    elif not exceeds and high < settings.supported_below:
        state = SUPPORTED
    else:
        state = CANNOT_TELL
    rank = int(np.ceil(settings.percentile / 100 * (len(null_gains) + 1) - 1e-9))
    null = (
        f"{reaching} of {len(null_gains)} data sets simulated from the {single} model gain as much"
    )
    why = _sentence(state, _found(best), null, high, settings, exceeds=exceeds)
    rivals = _better_but_failed(one, single), _better_but_failed(many, several)
    against = _against(state, best, (one, many), rivals, settings)
    if state == REJECTED and not able:
        against = f"every model of several dimensions {FAILED}, and none of them rejects anything"
    if against:
        state, why = CANNOT_TELL, f"Cannot tell: {_found(best)}, and {null}; but {against}."
    elif named := [name for name in rivals if name is not None]:
        verb = "predicts" if len(named) == 1 else "predict"
        why += f" {' and '.join(named)} {verb} better, but {FAILED}: not counted."
    if not able:
        why += f" Every model of several dimensions {FAILED}."
    return Verdict(
        single_attribute=state,
        why=why,
        gain=best.gain,
        gain_interval=best.interval,
        best_one=single,
        best_many=several,
        splits_won=best.wins,
        splits=len(best.splits),
        statistic=statistic,
        null_gains=tuple(map(float, null_gains)),
        null_q95=float(np.sort(null_gains)[min(rank, len(null_gains)) - 1]),
        null_sets_used=len(null_gains),
        null_sets=settings.null_sets,
        p_value=(1 + reaching) / (1 + len(null_gains)),
        failed=tuple(name for name in (*one, *many) if name in failed),
        losses={name: tuple(map(float, values)) for name, values in {**one, **many}.items()},
    )


def _passing(losses: Mapping[str, FloatArray], failed: Collection[str]) -> dict[str, FloatArray]:
    return {name: values for name, values in losses.items() if name not in failed}


def _better_but_failed(losses: Mapping[str, FloatArray], best: str) -> str | None:
    """The model that predicts better than the best that passed, if there is one."""
    first = lowest(losses)
    return first if losses[first].mean() < losses[best].mean() else None


def _difference(
    one: tuple[str, FloatArray], many: tuple[str, FloatArray], settings: VerdictSettings
) -> PairedDifference:
    return paired_difference(
        "best",
        one,
        many,
        test_to_train=settings.share / (1 - settings.share),
        level=settings.level,
    )


def _against(
    state: str,
    best: PairedDifference,
    losses: tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]],
    rivals: tuple[str | None, str | None],
    settings: VerdictSettings,
) -> str:
    """What a failed model that predicts better says against the conclusion; empty if nothing."""
    one, many = losses
    single, several = rivals
    if state == REJECTED and single is not None:
        rest = _difference((single, one[single]), (best.candidate, many[best.candidate]), settings)
        if rest.gain < settings.least_gain:
            return f"over the {single} model, which {FAILED}, the gain is {rest.gain:.4f}"
    if state == SUPPORTED and several is not None:
        more = _difference((best.baseline, one[best.baseline]), (several, many[several]), settings)
        high = float("inf") if more.interval is None else more.interval[1]
        if high >= settings.supported_below:
            return (
                f"the {several} model, which {FAILED}, predicts {more.gain:.4f} nats better than "
                f"one dimension, with an interval up to {high:.4f}"
            )
    return ""


def _found(best: PairedDifference) -> str:
    better = "better" if best.gain > 0 else "worse"
    return (
        f"the best model of several dimensions ({best.candidate}) predicts held-out responses "
        f"{abs(best.gain):.4f} nats {better} than the best of one ({best.baseline})"
    )


def _sentence(
    state: str, found: str, null: str, high: float, settings: VerdictSettings, *, exceeds: bool
) -> str:
    limit = f"{settings.supported_below:g}"
    if state == REJECTED:
        return f"Rejected: {found}, and {null}. More than one dimension; how many is not said."
    if state == SUPPORTED:
        return (
            f"Supported: {found}, {null}, and the interval of the gain ends at {high:.4f}, "
            f"below {limit}."
        )
    if exceeds:
        return (
            f"Cannot tell: {null}, so that this one dimension does not explain everything, but "
            f"{found}; below {settings.least_gain:g} it is too small to matter."
        )
    return (
        f"Cannot tell: {found}, and {null}, which is no evidence against one dimension; but the "
        f"interval of the gain reaches {high:.4f}, and {limit} would matter."
    )
