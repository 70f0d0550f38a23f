"""Everything about the person fit of one target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from safemetry.audits.finding import QUANTILES
from safemetry.audits.person_fit.achieved import (
    AchievedRate,
    out_of_sample_rates,
    two_parameter_items,
)
from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.person_fit.fit import PersonFit, judge_fit, surrounding_nulls
from safemetry.audits.person_fit.misfit import (
    CategoryMisfit,
    ItemMisfit,
    category_misfit,
    item_misfit,
)
from safemetry.audits.person_fit.null import PersonFitNull
from safemetry.audits.person_fit.selective import Selective, selective_scan_around
from safemetry.audits.settings import FEWEST_OTHERS
from safemetry.audits.work import AuditWork
from safemetry.errors import InputError
from safemetry.irt.store import StoredCalibration

PARTS: Final = ("ability", "person_fit", "joint_null_rate", "union", "out_of_sample")
"""Keys of a result that need calibrated items."""

_BY_CATEGORY: Final = ("misfit", "selective")
_FEWEST_HALVED: Final = 20


@dataclass(frozen=True)
class Fitted:
    """Everything about person fit."""

    fit: PersonFit | None = None
    quantiles: Mapping[str, Sequence[float]] = field(default_factory=dict)
    misfit: Mapping[str, Sequence[CategoryMisfit]] = field(default_factory=dict)
    items: Sequence[ItemMisfit] = ()
    selective: Mapping[str, Selective] = field(default_factory=dict)
    out_of_sample: tuple[AchievedRate, ...] | None = None
    remarks: Sequence[str] = ()


def calibrate_others(
    work: AuditWork, history: StoredCalibration | None
) -> tuple[Calibrated | None, dict[str, str]]:
    """Calibrated items: those of the history, or from the other targets."""
    if history is not None:
        known = set(history.items) & set(work.responses.items)
        if not known:
            raise InputError(
                "no item of the responses is in the calibration",
                fix="name the calibration of these items",
            )
        return Calibrated.of_calibration(history), {}
    others = work.others
    if len(others.targets) < FEWEST_OTHERS:
        reason = (
            f"{len(others.targets)} other targets are too few to calibrate the items "
            f"({FEWEST_OTHERS} are needed); give a calibration"
        )
        return None, dict.fromkeys(PARTS, reason)
    try:
        return two_parameter_items(others), {}
    except InputError as error:
        return None, dict.fromkeys(PARTS, error.problem)


def answered_items(work: AuditWork, calibrated: Calibrated | None) -> int:
    """Responses to calibrated items, or to any where none is."""
    now = work.now
    known = set(now.items if calibrated is None else calibrated.items)
    inside = np.array([item in known for item in now.items], bool)
    return int((now.observed[0] & inside).sum())


def fit_target(work: AuditWork, calibrated: Calibrated | None, why: dict[str, str]) -> Fitted:
    """Person fit, where it does not, and how often others are flagged.

    Parameters
    ----------
    work
        The audit.
    calibrated
        Items with their errors; None for nothing.
    why
        Takes the reasons of what is unknown.
    """
    if calibrated is None:
        return Fitted()
    chosen, now = work.settings, work.now
    known = set(calibrated.items)
    usable = np.array([item in known for item in now.items], bool) & now.observed[0]
    if usable.sum() < 2:
        reason = f"the target answered {int(usable.sum())} calibrated items"
        why |= dict.fromkeys(PARTS, reason)
        return Fitted()
    order = (
        None if chosen.order is None else _ranks(chosen.order, work.values(chosen.order, now.items))
    )
    null, *around = surrounding_nulls(
        now,
        calibrated,
        statistics=chosen.statistics,
        simulations=chosen.simulations,
        rng=work.rng("person fit"),
        order=order,
    )
    misfit, selective = {}, {}
    for by in chosen.by:
        values = work.values(by, now.items)
        if all(value is None for value, own in zip(values, usable.tolist(), strict=True) if own):
            continue
        misfit[by] = category_misfit(
            now,
            calibrated,
            values,
            level=chosen.level,
            simulations=chosen.simulations,
            rng=work.rng(f"misfit {by}"),
        )
        selective[by] = selective_scan_around(
            now,
            calibrated,
            values,
            level=chosen.level,
            simulations=chosen.simulations,
            rng=work.rng(f"selective {by}"),
        )[0]
    if not misfit:
        why |= dict.fromkeys(_BY_CATEGORY, _no_category(chosen.by))
    return Fitted(
        judge_fit(null, chosen.level, around)[0],
        _quantiles(null),
        misfit,
        item_misfit(now, calibrated, work.target),
        selective,
        _out_of_sample(work, why),
        null.remarks,
    )


def _no_category(by: Sequence[str]) -> str:
    if not by:
        return "no property of the items was asked for"
    return f"no answered item that is calibrated has a value of {' or '.join(map(repr, by))}"


def _ranks(name: str, values: Sequence[str | None]) -> list[Any]:
    """Keys to sort by: numbers as numbers; items without a value, or at no number, come last."""
    if all(value is None for value in values):
        raise InputError(
            f"no item has a value of {name!r} to be ordered by", fix="name a property of the items"
        )
    try:
        numbers = [math.nan if value is None else float(value) for value in values]
    except ValueError:
        return [(value is None, value or "") for value in values]
    return [(not math.isfinite(key), key if math.isfinite(key) else 0.0) for key in numbers]


def _quantiles(null: PersonFitNull) -> dict[str, list[float]]:
    """Quantiles of each statistic among answers that fit, in its own direction."""
    found = {}
    for place, (name, side) in enumerate(zip(null.statistics, null.sides, strict=True)):
        worse = null.null_worse[0, place].astype(np.float64)
        known = worse[np.isfinite(worse)]
        if known.size:
            values = -known if side == "low" else known
            found[name] = np.percentile(values, QUANTILES).tolist()
    return found


def _out_of_sample(work: AuditWork, why: dict[str, str]) -> tuple[AchievedRate, ...] | None:
    """How often the others are flagged by halves of them."""
    others = work.others
    if len(others.targets) < _FEWEST_HALVED:
        why["out_of_sample"] = (
            f"{len(others.targets)} other targets are too few to be halved "
            f"({_FEWEST_HALVED} are needed)"
        )
        return None
    try:
        return out_of_sample_rates(
            others,
            rng=work.rng("out of sample"),
            level=work.settings.level,
            simulations=min(work.settings.simulations, 500),
            statistics=work.settings.statistics,
        )
    except InputError as error:
        why["out_of_sample"] = error.problem
        return None
