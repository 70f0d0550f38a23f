"""Intraclass correlation: agreement of judges where classes, or scores, are taken as numbers.

Six forms (Shrout & Fleiss 1979, Psychological Bulletin 86, 420-428). `1`: each response has judges
of its own; `2`: the judges are a sample of many, and a lenient one counts as disagreement; `3`:
these judges are all there are, and leniency does not count. With `k` it is the correlation of the
mean of all judges. Only responses with a number from every judge enter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from safemetry.rates.intervals import check_level

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

FORMS: Final = ("icc1", "icc2", "icc3", "icc1k", "icc2k", "icc3k")


@dataclass(frozen=True)
class MeanSquares:
    """Mean squares of the two-way table responses x judges; NaN without two of each.

    Parameters
    ----------
    between, within
        Of responses, and within responses.
    judges, residual
        Of judges, and what neither explains.
    n
        Number of responses.
    """

    between: FloatArray
    within: FloatArray
    judges: FloatArray
    residual: FloatArray
    n: FloatArray

    @classmethod
    def of(cls, sums: FloatArray) -> MeanSquares:
        """From sums as `intraclass_sums` makes them, shape ``(..., 3 + J)``."""
        n, of_rows, squares, columns = sums[..., 0], sums[..., 1], sums[..., 2], sums[..., 3:]
        k = columns.shape[-1]
        many = n > 1
        size = np.where(many, n, np.nan)
        centre = columns.sum(-1) ** 2 / (size * k)
        total = squares - centre
        between = of_rows / k - centre
        judges = (columns**2).sum(-1) / size - centre
        others = max(k - 1, 1)
        return cls(
            between=between / (size - 1),
            within=(total - between) / (size * others),
            judges=judges / others,
            residual=(total - between - judges) / ((size - 1) * others),
            n=size,
        )


def intraclass_sums(ratings: ArrayLike, units: IntArray) -> FloatArray:
    """Sums over the complete responses of each unit.

    Parameters
    ----------
    ratings
        Shape ``(R, J)``, at least 0; a negative number stands for a missing one.
    units
        Unit of each response, 0 ... U - 1, shape ``(R,)``.

    Returns
    -------
    Shape ``(U, 3 + J)``: responses, squared sums of a response, squares, and the sum of each judge.
    """
    given = np.asarray(ratings)
    complete = (given >= 0).sum(axis=1) == given.shape[1]
    count = int(units.max(initial=0)) + 1
    unit, kept = units[complete], np.ascontiguousarray(given[complete].T)
    total = kept.sum(axis=0, dtype=np.float64)
    squares = sum((column.astype(np.float64) ** 2 for column in kept), np.zeros(len(unit)))
    columns = [np.ones(len(unit)), total**2, squares, *kept]
    return np.stack([np.bincount(unit, column, minlength=count) for column in columns], axis=1)


def intraclass(squares: MeanSquares, judges: int) -> FloatArray:
    """The six forms, shape ``(..., 6)``; NaN where undefined.

    Source: Shrout & Fleiss (1979), the six forms in terms of BMS, WMS, JMS and EMS.
    """
    b, w, e = squares.between, squares.within, squares.residual
    k, lenient = judges, (squares.judges - squares.residual) / squares.n
    return np.stack(
        [
            _share(b - w, b + (k - 1) * w),
            _share(b - e, b + (k - 1) * e + k * lenient),
            _share(b - e, b + (k - 1) * e),
            _share(b - w, b),
            _share(b - e, b + lenient),
            _share(b - e, b),
        ],
        axis=-1,
    )


def intraclass_intervals(
    squares: MeanSquares, judges: int, level: float = 0.95
) -> Mapping[str, tuple[float, float]]:
    """Intervals of the six forms for independent responses and normal errors.

    Parameters
    ----------
    squares
        Of one table.
    judges
        Number of judges, at least 2.
    level
        Two-sided confidence in (0, 1).

    Source: Shrout & Fleiss (1979), from quantiles of F; form 2 with Satterthwaite's degrees
    of freedom.
    """
    from scipy.stats import f

    check_level(level)
    tail = 0.5 + level / 2
    n, k = float(squares.n), judges
    b, w, j, e = (
        float(part) for part in (squares.between, squares.within, squares.judges, squares.residual)
    )

    def of_ratio(ratio: float, freedom: float) -> tuple[float, float]:
        return ratio / f.ppf(tail, n - 1, freedom), ratio * f.ppf(tail, freedom, n - 1)

    one, three = of_ratio(b / w, n * (k - 1)), of_ratio(b / e, (n - 1) * (k - 1))
    found = {
        name: tuple((end - 1) / (end + k - 1) for end in ends)
        for name, ends in (("icc1", one), ("icc3", three))
    }
    found |= {
        name: tuple(1 - 1 / end for end in ends)
        for name, ends in (("icc1k", one), ("icc3k", three))
    }
    single = float(intraclass(squares, k)[1])
    weight = n * (1 + (k - 1) * single) - k * single
    freedom = (k - 1) * (n - 1) * (k * single * j / e + weight) ** 2
    freedom /= (n - 1) * (k * single * j / e) ** 2 + weight**2
    below, above = f.ppf(tail, n - 1, freedom), f.ppf(tail, freedom, n - 1)
    spread = k * j + (k * n - k - n) * e
    ends = (
        n * (b - below * e) / (below * spread + n * b),
        n * (above * b - e) / (spread + n * above * b),
    )
    found["icc2"] = ends
    found["icc2k"] = tuple(k * end / (1 + (k - 1) * end) for end in ends)
    return {name: (float(found[name][0]), float(found[name][1])) for name in FORMS}


def _share(above: FloatArray, below: FloatArray) -> FloatArray:
    found = np.full(np.shape(above), np.nan)
    np.divide(above, below, out=found, where=below > 1e-12)
    return found
