"""A figure with its uncertainty, or with the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from safemetry.judges.agreement.bootstrap import LEAST_DEFINED, Method, acceleration, interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """An estimate with its interval.

    Parameters
    ----------
    estimate
        None where it is undefined.
    interval
        Lower and upper end, or None.
    standard_error
        Standard deviation over the resamples, or None.
    why
        Field -> why it is None.
    """

    estimate: float | None
    interval: tuple[float, float] | None
    standard_error: float | None
    why: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def undefined(cls, reason: str) -> Figure:
        """A figure that cannot be computed."""
        names = ("estimate", "interval", "standard_error")
        return cls(None, None, None, dict.fromkeys(names, reason))

    @classmethod
    def alone(cls, estimate: float, reason: str) -> Figure:
        """An estimate whose uncertainty cannot be computed."""
        return cls(
            float(estimate), None, None, dict.fromkeys(["interval", "standard_error"], reason)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain fields; `why` only where a field is None."""
        found: dict[str, Any] = {
            "estimate": self.estimate,
            "interval": None if self.interval is None else list(self.interval),
            "standard_error": self.standard_error,
        }
        return {**found, "why": dict(self.why)} if self.why else found


def bootstrapped(
    estimate: float,
    values: FloatArray,
    left_out: FloatArray,
    units: int,
    *,
    level: float,
    method: Method,
) -> Figure:
    """A figure with the interval of its resampled values.

    Parameters
    ----------
    estimate
        On all units; not NaN.
    values
        In every resample, shape ``(B,)``; NaN where it is undefined.
    left_out
        Without each unit in turn, shape ``(U,)``; it may be empty.
    units
        Number of units that hold anything of this figure.
    level
        Two-sided confidence in (0, 1).
    method
        Of the interval.
    """
    if units < 2 or not len(values):
        return Figure.alone(estimate, "one cluster shows no spread between clusters")
    known = values[~np.isnan(values)]
    if len(known) < LEAST_DEFINED * len(values):
        share = 1 - len(known) / len(values)
        return Figure.alone(estimate, f"undefined in {share:.0%} of the resamples")
    # The figure is the same in all of them up to rounding.
    if known.max() - known.min() < 1e-12:
        return Figure.alone(estimate, "every resample gives the same value, which shows no spread")
    skew = acceleration(left_out)
    ends = interval(known, estimate, units, level=level, method=method, skew=skew)
    return Figure(float(estimate), ends, float(known.std(ddof=1)))


def without_disagreement(expected: float, clusters: int, level: float) -> Figure:
    """The figure of judges that never disagreed: 1, and how low it may still be.

    Resampling shows no spread then, as 0 of n events do. With c clean clusters the share of
    responses with a disagreement is below u = 1 - alpha ** (1 / c) at the wanted confidence, and a
    response adds at most 1 to the observed disagreement, so that the coefficient is at least
    1 - u / expected.

    Parameters
    ----------
    expected
        Disagreement expected by chance, > 0, as in `agreement.Disagreement`.
    clusters
        Number of clusters, >= 1.
    level
        Two-sided confidence in (0, 1), all of which the lower end uses half of, as other intervals.
    """
    ceiling = -np.expm1(np.log((1 - level) / 2) / clusters)
    lower = max(1 - float(ceiling) / expected, -1.0)
    reason = "no response was judged differently, which shows no spread"
    return Figure(1.0, (lower, 1.0), None, {"standard_error": reason})
