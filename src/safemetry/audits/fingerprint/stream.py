"""Is this still the endpoint of last month? A sequential check that may stop at any item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from safemetry.audits.fingerprint.bets import (
    MARGIN_STAKES,
    SIDES,
    STAKES,
    TILTS,
    direction_bets,
    equivalence_bets,
    exchange_bets,
    rate_bets,
)
from safemetry.audits.fingerprint.rerun_rate import RerunRate
from safemetry.errors import InputError
from safemetry.irt.parameters import FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DriftVerdict(StrEnum):
    """What the stream says so far."""

    DIFFERENT = "different"
    SAME = "same"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class DriftSettings:
    """Settings of the drift check.

    Parameters
    ----------
    level
        Chance of calling an unchanged endpoint different at any time, in (0, .5); and of calling
        one the same that differs by the margin.
    margin
        Disagreement beyond that of re-runs, as a share of the items, that `same` rules out.
    rate
        Re-run rate, for items with one past answer; None where it is not known: those items then
        show the direction of a change only. Items with several past answers do not need it.
    direction
        Whether half of the capital bets on a shift to one side (more refusals, or fewer). It finds
        such shifts sooner, and takes the past and the new answer for exchangeable: an endpoint
        whose re-runs differ from a *chosen* past answer (the best of five, a corrected label)
        counts as changed. Its e-value is shown in any case.
    """

    level: float = 0.05
    margin: float = 0.1
    rate: RerunRate | None = None
    direction: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.level < 0.5:
            raise InputError(f"a level of {self.level:g} is not between 0 and .5")
        if not 0 < self.margin < 1:
            raise InputError(f"a margin of {self.margin:g} is not between 0 and 1")
        if self.rate is not None and self.rate.doubt >= self.level:
            raise InputError(
                f"a doubt of {self.rate.doubt:g} leaves nothing of a level of {self.level:g}",
                fix="use bounds of the re-run rate that are wrong less often",
            )

    @property
    def threshold(self) -> float:
        """Logarithm of the e-value that decides (Ville 1939): 1 / (level - doubt)."""
        doubt = self.rate.doubt if self.rate is not None else 0.0
        return float(-np.log(self.level - doubt))


@dataclass(frozen=True)
class DriftState:
    """Everything that the check remembers: plain numbers, to be stored and resumed.

    Parameters
    ----------
    settings
        Of the check.
    exchange, rate, direction, same
        Logarithm of the wealth of every bet.
    items, skipped
        Items used, and items without a past or a new answer.
    differing, excess
        Sum over items of the share of past answers that the new one differs from, and of what
        exceeds the disagreement of re-runs.
    higher
        Sum of the mean signs of new less past answers: below 0 means more refusals, where refusal
        is the lowest class.
    log_e_values, log_e_direction, log_e_same
        Logarithms of the e-values against 'unchanged' (which decides), against 'not shifted to one
        side', and against 'changed by the margin at least', after each item, for a plot.
    verdict, decided_at
        The first limit that was reached and after how many items; `cannot_tell` and None before.
    """

    settings: DriftSettings = field(default_factory=DriftSettings)
    exchange: tuple[float, ...] = (0.0,) * (len(STAKES) * len(TILTS))
    rate: tuple[float, ...] = (0.0,) * len(STAKES)
    direction: tuple[float, ...] = (0.0,) * len(SIDES)
    same: tuple[float, ...] = (0.0,) * len(MARGIN_STAKES)
    items: int = 0
    skipped: int = 0
    differing: float = 0.0
    excess: float = 0.0
    higher: float = 0.0
    log_e_values: tuple[float, ...] = ()
    log_e_direction: tuple[float, ...] = ()
    log_e_same: tuple[float, ...] = ()
    verdict: DriftVerdict = DriftVerdict.CANNOT_TELL
    decided_at: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `resume` reads."""
        made = {name: getattr(self, name) for name in self.__dataclass_fields__}
        rate = self.settings.rate
        made["settings"] = {
            "level": self.settings.level,
            "margin": self.settings.margin,
            "direction": self.settings.direction,
            "rate": None
            if rate is None
            else {"lower": rate.lower, "upper": rate.upper, "doubt": rate.doubt},
        }
        if rate is None:
            made["settings"]["why"] = {"rate": "no re-run rate is known"}
        made["verdict"] = str(self.verdict)
        if self.decided_at is None:
            made["why"] = {"decided_at": "no limit has been reached"}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in made.items()}


def resume(stored: Mapping[str, Any]) -> DriftState:
    """The state that `DriftState.to_dict` stored.

    Raises
    ------
    InputError
        For anything else.
    """
    try:
        given = {name: value for name, value in stored.items() if name != "why"}
        chosen = {name: value for name, value in given["settings"].items() if name != "why"}
        rate = chosen["rate"]
        given["settings"] = DriftSettings(
            **{**chosen, "rate": None if rate is None else RerunRate(**rate)}
        )
        given["verdict"] = DriftVerdict(given["verdict"])
        plain = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        state = DriftState(**plain)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise InputError("this is no stored state of a drift check") from wrong
    start = DriftState()
    for name in ("exchange", "rate", "direction", "same"):
        if len(getattr(state, name)) != len(getattr(start, name)):
            raise InputError("this state was stored by another version of the drift check")
    return state


def update(state: DriftState, past: int | Sequence[int], new: int) -> DriftState:
    """The state after one more item.

    Parameters
    ----------
    state
        So far; `DriftState(DriftSettings(...))` at the start.
    past
        Class of the past answer to the item, or of several past runs; -1 for missing.
    new
        Class of the new answer; -1 for missing.

    Raises
    ------
    InputError
        For an answer below -1.

    Notes
    -----
    Items must not be chosen by their past answers (those refused last month, say): such answers
    regress to the mean, and an unchanged endpoint looks changed. With one past answer and a re-run
    rate the items come in random order, so that the rate holds for each of them.

    Examples
    --------
    >>> state = DriftState()
    >>> for _ in range(12):
    ...     state = update(state, (1, 1, 1, 1), 0)
    >>> str(state.verdict), state.decided_at
    ('different', 4)
    """
    before = (past,) if isinstance(past, int | np.integer) else tuple(past)
    if min((new, *before)) < -1 or max((new, *before)) > 99:
        raise InputError("answers are classes from 0 (at most 99), or -1 where there is none")
    bets = item_bets(np.array([before or (-1,)]), np.array([new]), state.settings)
    if not bets.used[0]:
        return replace(state, skipped=state.skipped + 1)
    moved = {
        name: tuple((np.array(getattr(state, name)) + getattr(bets, name)[0]).tolist())
        for name in ("exchange", "rate", "direction", "same")
    }
    wealth = [np.array(moved[name])[None] for name in ("exchange", "rate", "direction")]
    side = float(_mixed(wealth[2])[0])
    changed = float(log_e_value(*wealth, direction=state.settings.direction)[0])
    equal = float(_mixed(np.array(moved["same"])))
    found = replace(
        state,
        exchange=moved["exchange"],
        rate=moved["rate"],
        direction=moved["direction"],
        same=moved["same"],
        items=state.items + 1,
        differing=state.differing + float(bets.differs[0]),
        excess=state.excess + float(bets.excess[0]),
        higher=state.higher + float(bets.shift[0]),
        log_e_values=(*state.log_e_values, changed),
        log_e_direction=(*state.log_e_direction, side),
        log_e_same=(*state.log_e_same, equal),
    )
    if found.decided_at is not None:
        return found
    limit = state.settings.threshold
    if changed >= limit:
        return replace(found, verdict=DriftVerdict.DIFFERENT, decided_at=found.items)
    if equal >= limit:
        return replace(found, verdict=DriftVerdict.SAME, decided_at=found.items)
    return found


@dataclass(frozen=True)
class ItemBets:
    """Bets on S items at once, one a row.

    Parameters
    ----------
    exchange, rate, direction, same
        Logarithms of factors; 0 where a bet is not on.
    used
        Where there is a new and a past answer.
    differs, excess, shift
        As in `DriftState`.
    """

    exchange: FloatArray
    rate: FloatArray
    direction: FloatArray
    same: FloatArray
    used: NDArray[np.bool_]
    differs: FloatArray
    excess: FloatArray
    shift: FloatArray


def item_bets(
    past: NDArray[np.integer], new: NDArray[np.integer], settings: DriftSettings
) -> ItemBets:
    """Bets on items.

    Parameters
    ----------
    past
        Shape ``(S, T)``, -1 for missing.
    new
        Shape ``(S,)``, -1 for missing.
    settings
        Of the check.
    """
    answered = past >= 0
    runs = answered.sum(axis=1)
    used = (new >= 0) & (runs > 0)
    code = np.where(used, new, 0)
    size = max(int(past.max(initial=0)), int(code.max(initial=0))) + 1
    counts = (past[..., None] == np.arange(size)).sum(axis=1).astype(np.float64)
    total = np.maximum(runs, 1)
    differs = np.where(used, 1 - counts[np.arange(len(new)), code] / total, 0.0)
    sign = np.sign(code[:, None] - past) * answered
    shift = np.where(used, sign.sum(axis=1) / total, 0.0)
    several, single = used & (runs >= 2), used & (runs == 1)
    pairs = np.maximum(runs * (runs - 1), 1)
    within = 1 - (counts * (counts - 1)).sum(axis=1) / pairs
    excess = np.where(several, differs - within, 0.0)
    shows = several
    by_rate = np.zeros((len(new), len(STAKES)))
    if settings.rate is not None:
        shows = used
        excess = np.where(single, differs - settings.rate.lower, excess)
        by_rate = np.where(single[:, None], rate_bets(differs, settings.rate.upper), 0.0)
    return ItemBets(
        exchange=np.where(several[:, None], exchange_bets(counts, code), 0.0),
        rate=by_rate,
        direction=np.where(used[:, None], direction_bets(shift), 0.0),
        same=np.where(shows[:, None], equivalence_bets(excess, settings.margin), 0.0),
        used=used,
        differs=differs,
        excess=excess,
        shift=shift,
    )


def log_e_value(
    exchange: FloatArray, rate: FloatArray, side: FloatArray, *, direction: bool
) -> FloatArray:
    """Logarithm of the e-value against 'unchanged' from the wealth of the bets, over the last axis.

    Items with several past answers and with one are different items, so that their wealth
    multiplies; with `direction` half of the capital bets on a shift to one side.
    """
    disagreement = _mixed(exchange) + _mixed(rate)
    if not direction:
        return disagreement
    found: FloatArray = np.logaddexp(disagreement, _mixed(side)) - np.log(2)
    return found


def drift_paths(
    past: NDArray[np.integer], new: NDArray[np.integer], settings: DriftSettings
) -> tuple[FloatArray, FloatArray]:
    """Logarithms of the e-values of many streams at once, as `update` would give them.

    Parameters
    ----------
    past
        Shape ``(S, n, T)``: S streams of n items with up to T past answers; -1 for missing.
    new
        Shape ``(S, n)``.
    settings
        Of the check.

    Returns
    -------
    tuple
        Against 'unchanged' and against 'changed by the margin at least', both shape ``(S, n)``; an
        item without answers repeats the value before it.
    """
    streams, items, runs = past.shape
    bets = item_bets(past.reshape(-1, runs), new.reshape(-1), settings)

    def wealth(logs: FloatArray) -> FloatArray:
        return logs.reshape(streams, items, -1).cumsum(axis=1)

    changed = log_e_value(
        wealth(bets.exchange),
        wealth(bets.rate),
        wealth(bets.direction),
        direction=settings.direction,
    )
    return changed, _mixed(wealth(bets.same))


def _mixed(wealth: FloatArray) -> FloatArray:
    found: FloatArray = logsumexp(wealth, axis=-1) - np.log(wealth.shape[-1])
    return found
