"""Everything about the person fit of one target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from safemetry.audits.finding import QUANTILES
from safemetry.audits.person_fit.achieved import AchievedRate, out_of_sample_rates
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
from safemetry.irt.responses import MISSING
from safemetry.irt.store import StoredCalibration
from safemetry.irt.unidimensional.marginal import fit_unidimensional

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

_FEWEST_HALVED: Final = 20


@dataclass(frozen=True)
class Fitted:
    """Everything about person fit."""

    fit: PersonFit | None = None
    quantiles: Mapping[str, Sequence[float]] = ()  # type: ignore[assignment]
    misfit: Mapping[str, Sequence[CategoryMisfit]] = ()  # type: ignore[assignment]
    items: Sequence[ItemMisfit] = ()
    selective: Mapping[str, Selective] = ()  # type: ignore[assignment]
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
    parts = ("ability", "person_fit", "joint_null_rate", "union", "out_of_sample")
    if len(others.targets) < FEWEST_OTHERS:
        reason = (
            f"{len(others.targets)} other targets are too few to calibrate the items "
            f"({FEWEST_OTHERS} are needed); give a calibration"
        )
        return None, dict.fromkeys(parts, reason)
    codes = others.codes
    lowest = np.where(codes == MISSING, np.int8(127), codes).min(axis=0)
    varies = codes.max(axis=0) > lowest
    if varies.sum() < 2:
        return None, dict.fromkeys(parts, "fewer than 2 items tell the other targets apart")
    return Calibrated.of_fit(fit_unidimensional(others.select_items(varies))), {}


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
        return Fitted(quantiles={}, misfit={}, selective={})
    chosen, now = work.settings, work.now
    known = set(calibrated.items)
    usable = np.array([item in known for item in now.items], bool) & now.observed[0]
    if usable.sum() < 2:
        reason = f"the target answered {int(usable.sum())} calibrated items"
        parts = ("ability", "person_fit", "joint_null_rate", "union", "out_of_sample")
        why |= dict.fromkeys(parts, reason)
        return Fitted(quantiles={}, misfit={}, selective={})
    order = None if chosen.order is None else _ranks(work.values(chosen.order, now.items))
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
        if len({value for value in values if value is not None}) < 1:
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
    return Fitted(
        judge_fit(null, chosen.level, around)[0],
        _quantiles(null),
        misfit,
        item_misfit(now, calibrated, work.target),
        selective,
        _out_of_sample(work, why),
        null.remarks,
    )


def _ranks(values: Sequence[str | None]) -> list[Any]:
    """Keys to sort by: numbers as numbers; items without a value come last."""
    try:
        numbers = [float("inf") if value is None else float(value) for value in values]
    except ValueError:
        return [("~" * 8 if value is None else value) for value in values]
    return list(numbers)


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
