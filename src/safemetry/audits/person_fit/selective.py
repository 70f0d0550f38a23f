"""Selective behaviour: a target that is another one in some category or under some condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.audits.person_fit.alignment import align
from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.fit import LEVEL
from safemetry.audits.person_fit.likelihood_statistics import likelihood_fit
from safemetry.audits.person_fit.misfit import members_of
from safemetry.audits.person_fit.null import Ability, Bench
from safemetry.audits.person_fit.reestimation import (
    CategoryAbilities,
    LogisticAbilities,
    Method,
    make_abilities,
)
from safemetry.audits.person_fit.scoring import LogisticScorer, Reference
from safemetry.errors import InputError
from safemetry.irt.information import total_information
from safemetry.irt.parameters import BoolArray, FloatArray, ItemParameters
from safemetry.irt.responses import Responses

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST: Final = 5
"""Responses that a category, and the rest, need."""

_LEAST_INFORMATION: Final = 1e-3
_NOTHING: Final = f"no condition with {FEWEST} responses, and {FEWEST} outside it, varies"


@dataclass(frozen=True)
class SelectiveRow:
    """One category or condition of one target.

    Parameters
    ----------
    condition
        Name.
    items
        Responses in it.
    inside, rest
        Ability from its items and from all others.
    shift, shift_error
        Inside less rest, and its standard error.
    fit
        l_z* of its responses at the ability that they themselves show.
    shift_adjusted, fit_adjusted
        P-values against the largest departure over all conditions and both statistics (shift
        two-sided, fit on the low side).
    flagged
        Whether one of the two is at most the level.
    why
        Field -> why it is None.
    """

    condition: str
    items: int
    inside: float | None
    rest: float | None
    shift: float | None
    shift_error: float | None
    fit: float | None
    shift_adjusted: float | None
    fit_adjusted: float | None
    flagged: bool
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Selective:
    """Whether a target behaves selectively.

    Parameters
    ----------
    target
        Name.
    rows
        One for each condition.
    p_value
        Of the largest departure; None where no condition can be looked at.
    null_rate
        Share of patterns that fit which would be flagged anywhere; None with the p-value.
    flagged
        Whether the p-value is at most the level.
    why
        Field -> why it is None.
    """

    target: str
    rows: tuple[SelectiveRow, ...]
    p_value: float | None
    null_rate: float | None
    flagged: bool
    why: Mapping[str, str] = field(default_factory=dict)


def selective_scan(
    responses: Responses,
    calibrated: Calibrated,
    conditions: Sequence[str | None],
    *,
    level: float = LEVEL,
    simulations: int = 1000,
    rng: np.random.Generator,
    method: Method = "wle",
    ability: Ability = "estimate",
) -> tuple[Selective, ...]:
    """Ability and fit of each target in each condition, with one false-positive rate for all.

    Every departure is standardised by the simulated patterns of the target; the largest one over
    conditions and statistics is compared with the largest ones of the patterns (single-step
    maximum, Westfall & Young 1993, section 2.3).

    Parameters
    ----------
    responses, calibrated, simulations, rng, method, ability
        As for `simulate_null`.
    conditions
        Of each item of `responses`: a category, or whether a trigger is present; None for items
        that belong to none.
    level
        Family-wise false-positive rate of a target.

    Raises
    ------
    InputError
        For conditions that do not fit, or too few simulations.
    """
    if simulations < 1 / level - 1:
        raise InputError(
            f"{simulations} simulations cannot tell a level of {level:g}", fix="use more"
        )
    audited, _ = align(responses, calibrated)
    names, members = members_of(conditions, responses, audited.columns)
    bench = Bench(audited, method, simulations, int(rng.integers(2**63)), ability)
    found, parts = [], None
    for row, target in enumerate(audited.targets):
        seen = bench.seen[row]
        if parts is None or not (parts.seen == seen).all():
            parts = _Parts.of(bench, seen, members, method)
        found.append(_scanned(bench, row, target, names, parts, level))
    return tuple(found)


def selective_scan_around(
    responses: Responses,
    calibrated: Calibrated,
    conditions: Sequence[str | None],
    *,
    level: float = LEVEL,
    simulations: int = 1000,
    rng: np.random.Generator,
) -> tuple[Selective, ...]:
    """The scan at the estimated ability, and one standard error below and above it.

    The largest of the three p-values counts, as in `surrounding_nulls`: what is flagged is not a
    chance of the estimate.

    Parameters
    ----------
    responses, calibrated, conditions, level, simulations, rng
        As for `selective_scan`; half as many simulations on each side, as far as the level allows.
    """
    sides = max(simulations // 2, min(simulations, int(np.ceil(2 / level))))
    middle, *around = (
        selective_scan(
            responses,
            calibrated,
            conditions,
            level=level,
            simulations=simulations if not away else sides,
            rng=rng,
            ability=away,
        )
        for away in (0.0, -1.0, 1.0)
    )
    return tuple(_most_cautious(scans, level) for scans in zip(middle, *around, strict=True))


def _most_cautious(scans: Sequence[Selective], level: float) -> Selective:
    """The first scan with the largest p-values of all."""
    first = scans[0]
    rows = []
    for parts in zip(*(scan.rows for scan in scans), strict=True):
        shift, fit = (
            _largest([getattr(part, name) for part in parts])
            for name in ("shift_adjusted", "fit_adjusted")
        )
        flagged = any(p is not None and p <= level for p in (shift, fit))
        rows.append(replace(parts[0], shift_adjusted=shift, fit_adjusted=fit, flagged=flagged))
    p_value = _largest([scan.p_value for scan in scans])
    return replace(
        first,
        rows=tuple(rows),
        p_value=p_value,
        null_rate=min(
            (scan.null_rate for scan in scans if scan.null_rate is not None), default=None
        ),
        flagged=p_value is not None and p_value <= level,
    )


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and values[0] is not None else None


class _Parts:
    """The items of a target inside and outside of each condition, and tables for them."""

    def __init__(
        self,
        seen: BoolArray,
        inside: BoolArray,
        parameters: ItemParameters,
        abilities: LogisticAbilities | CategoryAbilities,
    ) -> None:
        self.seen, self.inside, self.abilities = seen, inside, abilities
        self.parameters = parameters
        count = inside.sum(axis=1)
        self.usable = (count >= FEWEST) & (inside.shape[1] - count >= FEWEST)

    @classmethod
    def of(cls, bench: Bench, seen: BoolArray, members: BoolArray, method: Method) -> _Parts:
        inside = members[seen].T
        parameters = bench.audited.calibrated.parameters.select(seen)
        masks = np.concatenate([inside, ~inside])
        tables = make_abilities(parameters, masks, method, bench.population)
        return cls(seen, inside, parameters, tables)

    def measured(self, patterns: NDArray[np.float32]) -> FloatArray:
        """Abilities inside and outside, and l_z* inside, of patterns ``(R, J)``: ``(3, K, R)``."""
        size = len(self.inside)
        found = np.zeros((3, size, len(patterns)))
        for place in np.flatnonzero(self.usable).tolist():
            mask = self.inside[place]
            chosen = np.ascontiguousarray(patterns[:, mask])
            theta = self.abilities.estimate(place, chosen)
            found[0, place] = theta
            found[1, place] = self.abilities.estimate(
                size + place, np.ascontiguousarray(patterns[:, ~mask])
            )
            found[2, place] = self._fit(place, chosen, theta)
        return found

    def _fit(self, place: int, patterns: NDArray[np.float32], theta: FloatArray) -> FloatArray:
        parameters = self.parameters.select(self.inside[place])
        if isinstance(self.abilities, LogisticAbilities):
            # The order of items plays no part in l_z*, so that any reference will do.
            reference = Reference(np.full((1, parameters.items), 0.5), np.ones(1))
            scorer = LogisticScorer(parameters, reference, ("l_z_star",), self.abilities, place)
            return scorer.score(patterns, theta)["l_z_star"][0]
        return likelihood_fit(patterns.astype(np.int8), parameters, theta).l_z_star

    def errors(self, theta: float) -> FloatArray:
        """Standard errors of the differences at an ability; infinite without information."""
        point = np.array([theta])
        told = [
            [
                float(total_information(self.parameters.select(mask), point)[0])
                for mask in (inside, ~inside)
            ]
            for inside in self.inside
        ]
        both = np.array(told).reshape(-1, 2)
        self_known = both.min(axis=1) > _LEAST_INFORMATION
        safe = np.where(self_known[:, None], both, 1.0)
        return np.where(self_known, np.sqrt((1 / safe).sum(axis=1)), np.inf)


def _scanned(
    bench: Bench, row: int, target: str, names: tuple[str, ...], parts: _Parts, level: float
) -> Selective:
    own = parts.measured(bench.pattern(row)[None])[:, :, 0]
    null = np.concatenate([parts.measured(one.patterns) for one in bench.blocks(row)], axis=2)
    errors = parts.errors(float(bench.theta[row]))
    usable = parts.usable & np.isfinite(errors)
    departures = [
        np.concatenate([values[0] - values[1], -values[2]]) for values in (own[:, :, None], null)
    ]
    middle, spread = departures[1].mean(axis=1), departures[1].std(axis=1)
    free = np.concatenate([usable, usable]) & (spread > 1e-9)
    scale = np.where(free, spread, 1.0)
    size = len(names)
    standard = [(values - middle[:, None]) / scale[:, None] for values in departures]
    for values in standard:
        values[:size] = np.abs(values[:size])
        values[~free] = -np.inf
    largest = standard[1].max(axis=0)
    count = bench.simulations
    reached = (largest[None] >= standard[0] - 1e-5).sum(axis=1)
    adjusted = np.where(free, (reached + 1) / (count + 1), 1.0)
    any_free = bool(free.any())
    pooled = np.append(largest, standard[0].max())
    null_p = (count + 1 - np.searchsorted(np.sort(pooled), pooled)) / (count + 1)
    rows = tuple(
        _row(name, place, own, errors, (usable, free, adjusted), parts, level)
        for place, name in enumerate(names)
    )
    return Selective(
        target,
        rows,
        float(adjusted.min()) if any_free else None,
        float((null_p <= level).mean()) if any_free else None,
        any_free and bool(adjusted.min() <= level),
        {} if any_free else dict.fromkeys(("p_value", "null_rate"), _NOTHING),
    )


def _row(
    name: str,
    place: int,
    own: FloatArray,
    errors: FloatArray,
    tested: tuple[BoolArray, BoolArray, FloatArray],
    parts: _Parts,
    level: float,
) -> SelectiveRow:
    usable, free, adjusted = tested
    size = len(usable)
    items = int(parts.inside[place].sum())
    if not usable[place]:
        fields = ("inside", "rest", "shift", "shift_error", "fit", "shift_adjusted", "fit_adjusted")
        reason = (
            f"the condition or the rest has fewer than {FEWEST} responses"
            if not parts.usable[place]
            else "the items say nothing at this ability"
        )
        empty = dict.fromkeys(fields)
        return SelectiveRow(name, items, **empty, flagged=False, why=dict.fromkeys(fields, reason))
    shift_free, fit_free = bool(free[place]), bool(free[size + place])
    why = {} if shift_free else {"shift_adjusted": "it does not vary"}
    if not fit_free:
        why |= dict.fromkeys(("fit", "fit_adjusted"), "it does not vary: the items are too alike")
    inside, rest, fit = own[:, place].tolist()
    first, second = float(adjusted[place]), float(adjusted[size + place])
    return SelectiveRow(
        name,
        items,
        inside,
        rest,
        inside - rest,
        float(errors[place]),
        fit if fit_free else None,
        first if shift_free else None,
        second if fit_free else None,
        (shift_free and first <= level) or (fit_free and second <= level),
        why,
    )
