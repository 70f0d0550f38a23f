"""The items that were answered both before and now, compared one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit, log_expit

from safemetry.audits.person_fit.calibrated import Calibrated
from safemetry.audits.shift.estimate import peak
from safemetry.audits.shift.sides import EARLIER, LATER, answered
from safemetry.irt.parameters import FloatArray
from safemetry.irt.responses import Responses
from safemetry.rates.intervals import normal_quantile
from safemetry.rates.paired import mcnemar_exact, sign_flip_test

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REACH: Final = 10.0
_SPACING: Final = 0.01
_FLIPS: Final = 20_000


@dataclass(frozen=True)
class PairedShift:
    """Comparison on common items.

    Parameters
    ----------
    items
        Common items.
    gained, lost
        Items whose answer is higher now, and lower.
    difference_points
        Mean change of the answers, in points (hundredths of their range).
    p_value, method
        Of no change: exact McNemar test (``mcnemar_exact``), or with several runs or graded items
        the sign-flip test on the change of each item (``sign_flip``).
    difference, interval
        Shift in units of ability from the discordant items alone, and its 95% interval (or that of
        another level); None where it cannot be had.
    why
        Reasons for what is None.
    """

    items: int
    gained: int
    lost: int
    difference_points: float
    p_value: float
    method: str
    difference: float | None
    interval: tuple[float, float] | None
    why: Mapping[str, str] = field(default_factory=dict)


def paired_shift(
    now: Responses,
    history: Responses,
    calibrated: Calibrated,
    *,
    level: float,
    rng: np.random.Generator,
) -> PairedShift | None:
    """Compare the answers to the items that both sides have; None where there is none.

    For two-parameter items the shift is estimated from the items whose answer changed. Given that
    it did, it rose with log odds ``a_j d``, where d is the shift: neither the ability nor the
    item's intercept is left in it, nor anything else that the target has with this item alone. So
    this holds also where answers of one target to one item repeat each other (Cox 1958; the
    two-occasion case of Fischer 1989, Psychometrika 54).

    Parameters
    ----------
    now, history
        Answers, with a row for each run.
    calibrated
        Items.
    level
        One minus the confidence of the interval.
    rng
        For the sign-flip test.
    """
    late, late_codes = answered(now, calibrated, LATER)
    early, early_codes = answered(history, calibrated, EARLIER)
    common, first, second = np.intersect1d(early, late, return_indices=True)
    if not common.size:
        return None
    parameters = calibrated.parameters.select(common)
    changes = _means(late_codes[:, second]) - _means(early_codes[:, first])
    single = max(_most_runs(late_codes[:, second]), _most_runs(early_codes[:, first])) == 1
    binary = bool((parameters.categories == 2).all())
    gained, lost = int((changes > 0).sum()), int((changes < 0).sum())
    relative = changes / np.maximum(parameters.categories - 1, 1)
    exact = single and binary
    p_value = (
        float(mcnemar_exact(gained, lost))
        if exact
        else sign_flip_test(relative, rng, _FLIPS).p_value
    )
    difference, interval, reason = None, None, ""
    if not exact:
        reason = "it needs one run before, one run now, and items with two categories"
    elif (parameters.lower > 0).any() or (parameters.upper < 1).any():
        reason = "it needs items without asymptotes"
    else:
        moved = changes != 0
        slopes = parameters.slopes[moved, 0] * changes[moved]
        if (slopes != 0).any():
            difference, interval = _from_discordant(slopes, level)
        else:
            reason = "no answer changed"
    return PairedShift(
        int(common.size),
        gained,
        lost,
        100 * float(relative.mean()),
        p_value,
        "mcnemar_exact" if exact else "sign_flip",
        difference,
        interval,
        dict.fromkeys(("difference", "interval"), reason) if reason else {},
    )


def _from_discordant(slopes: FloatArray, level: float) -> tuple[float, tuple[float, float]]:
    """Shift and interval from the slopes of the changed items, negative where the answer fell.

    Jeffreys' penalty keeps both finite where all changes go one way.
    """
    steps = round(_REACH / _SPACING)
    nodes: FloatArray = np.arange(-steps, steps + 1, dtype=np.float64) * _SPACING
    linear = nodes[:, None] * slopes
    information = (slopes**2 * expit(linear) * expit(-linear)).sum(axis=1)
    curve = log_expit(linear).sum(axis=1) + np.log(np.maximum(information, 1e-300)) / 2
    mode, height = peak(curve[None], nodes)
    fall = normal_quantile(1 - level / 2) ** 2 / 2
    inside = np.flatnonzero(curve >= height[0] - fall)
    return float(mode[0]), (float(nodes[inside[0]]), float(nodes[inside[-1]]))


def _means(codes: NDArray[np.int8]) -> FloatArray:
    """Mean answer to each item over the runs that have one."""
    seen = codes >= 0
    found: FloatArray = np.where(seen, codes, 0).sum(axis=0) / seen.sum(axis=0)
    return found


def _most_runs(codes: NDArray[np.int8]) -> int:
    return int((codes >= 0).sum(axis=0).max())
