"""Coefficients of agreement, as functions of counts.

Every coefficient is 1 - observed / expected disagreement; the coefficients differ in what they
expect of judges that agree by chance only, and in how far apart two classes are. All functions
broadcast over leading axes, so that the counts of 1,000 resamples are evaluated at once.

Two kinds of counts are enough:

- a pair table ``(..., K, K)``: responses by the class of the first judge and of the second;
- the sums of a panel (`PanelSums`), which come from the number of judges that chose each class and
  take no notice of which judges they were. Missing verdicts are allowed.

Both are plain sums over responses: those of a union of clusters are the sums of their parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]

Distance = Literal["nominal", "linear", "quadratic", "ordinal"]
Metric = Literal["nominal", "ordinal", "interval"]


class Disagreement(NamedTuple):
    """Disagreement as observed and as expected by chance, both with 1 for the farthest classes.

    Arrays of one shape; NaN where there is nothing to compute them from.
    """

    observed: FloatArray
    expected: FloatArray

    @property
    def coefficient(self) -> FloatArray:
        """1 - observed / expected; NaN where no disagreement is possible."""
        return 1.0 - _ratio(self.observed, self.expected)


@dataclass(frozen=True)
class PanelSums:
    """What the coefficients of a panel need of the responses.

    With r_c the number of judges that put a response in class c and m their sum:

    Parameters
    ----------
    coincidence
        Sum of r_c (r_d - [c = d]) / (m - 1) over responses with m > 1, shape ``(..., K, K)``.
    matched
        Sum of r_c (r_d - [c = d]) / (m (m - 1)) over the same, shape ``(..., K, K)``.
    share
        Sum of r_c / m over responses with m > 0, shape ``(..., K)``.
    """

    coincidence: FloatArray
    matched: FloatArray
    share: FloatArray

    def only(self, classes: ArrayLike) -> PanelSums:
        """The sums over some classes, where no verdict is of another."""
        kept = np.asarray(classes, np.int64)
        return PanelSums(
            self.coincidence[..., kept[:, None], kept],
            self.matched[..., kept[:, None], kept],
            self.share[..., kept],
        )

    def flat(self) -> FloatArray:
        """The sums side by side, shape ``(..., K (2 K + 1))``."""
        lead = self.share.shape[:-1]
        parts = [self.coincidence.reshape(*lead, -1), self.matched.reshape(*lead, -1), self.share]
        return np.concatenate(parts, -1)

    @classmethod
    def of_flat(cls, sums: FloatArray, classes: int) -> PanelSums:
        """The inverse of `flat` for K classes."""
        square = (*sums.shape[:-1], classes, classes)
        cells = classes * classes
        return cls(
            sums[..., :cells].reshape(square),
            sums[..., cells : 2 * cells].reshape(square),
            sums[..., 2 * cells :],
        )

    @classmethod
    def of_pair(cls, tables: ArrayLike) -> PanelSums:
        """The sums of two judges, from their pair tables ``(..., K, K)``."""
        counts = np.asarray(tables, np.float64)
        both = counts + np.swapaxes(counts, -1, -2)
        return cls(both, both / 2, both.sum(-1) / 2)

    @classmethod
    def of_choices(cls, choices: ArrayLike) -> PanelSums:
        """The sums of responses, from how many judges chose each class, shape ``(R, K)``.

        Examples
        --------
        >>> PanelSums.of_choices([[2, 1], [0, 3], [1, 0]]).share.round(2).tolist()
        [1.67, 1.33]
        """
        counts = np.asarray(choices, np.float64)
        judges = counts.sum(-1)
        several = judges > 1
        some = counts[several]
        size = judges[several][:, None]
        return cls(
            _pairs_of(some, size - 1),
            _pairs_of(some, size * (size - 1)),
            (counts[judges > 0] / judges[judges > 0][:, None]).sum(0),
        )


def _pairs_of(counts: FloatArray, size: FloatArray) -> FloatArray:
    scaled = counts / size
    found: FloatArray = scaled.T @ counts - np.diag(scaled.sum(0))
    return found


def agreement_weights(distance: Distance, values: ArrayLike) -> FloatArray:
    """How much two classes agree: 1 for the same class, 0 for those farthest apart.

    Parameters
    ----------
    distance
        ``nominal``: only the same class agrees. ``linear`` and ``quadratic``: 1 - (distance / range
        of the values), plain or squared (Cohen 1968, Psychological Bulletin 70, 213-220).
        ``ordinal``: 1 - C(|k - l| + 1, 2) / C(K, 2) on the positions k, l of the classes (Gwet
        2014, Handbook of Inter-Rater Reliability, 4th edition, chapter on weighted coefficients).
    values
        A number for each class, rising, shape ``(K,)``.

    Examples
    --------
    >>> agreement_weights("linear", [0, 1, 2]).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    points = np.asarray(values, np.float64)
    if distance == "ordinal":
        points = np.arange(len(points), dtype=np.float64)
    apart = np.abs(points[:, None] - points[None, :])
    if distance == "nominal":
        return np.asarray(apart == 0, np.float64)
    if distance == "ordinal":
        apart = apart * (apart + 1)
    if distance == "quadratic":
        apart = apart**2
    return np.asarray(1.0 - apart / max(float(apart.max(initial=0)), 1e-300), np.float64)


def raw_disagreement(sums: PanelSums) -> Disagreement:
    """Share of pairs of verdicts on the same response that differ; no chance correction.

    Source: Fleiss (1971), Psychological Bulletin 76, 378-382: 1 - P of that paper, for any
    number of judges.
    """
    units = sums.matched.sum((-1, -2))
    same = np.trace(sums.matched, axis1=-2, axis2=-1)
    observed = _ratio(units - same, units)
    return Disagreement(observed, np.ones_like(observed))


def cohen(tables: ArrayLike, weights: ArrayLike | None = None) -> Disagreement:
    """Cohen's kappa of two judges: chance keeps each judge's own class shares.

    Parameters
    ----------
    tables
        Responses by the classes of both, shape ``(..., K, K)``.
    weights
        Agreement of classes, shape ``(K, K)``; by default only the same class agrees.

    Source: Cohen (1960), Educational and Psychological Measurement 20, 37-46: (p_o - p_e) /
    (1 - p_e); Cohen (1968) with weights.

    Examples
    --------
    >>> cohen([[20, 5], [10, 15]]).coefficient.round(3).item()
    0.4
    """
    counts = np.asarray(tables, np.float64)
    apart = 1.0 - _weights(weights, counts.shape[-1])
    total = counts.sum((-1, -2))
    shares = _ratio(counts, total[..., None, None])
    expected = np.einsum("...c,cd,...d->...", shares.sum(-1), apart, shares.sum(-2))
    return Disagreement((shares * apart).sum((-1, -2)), expected)


def fleiss(sums: PanelSums, weights: ArrayLike | None = None) -> Disagreement:
    """Fleiss' kappa: chance draws every verdict from the class shares of the whole panel.

    Parameters
    ----------
    sums
        Of the panel. Responses with one verdict enter the class shares only.
    weights
        Agreement of classes, shape ``(K, K)``; by default only the same class agrees.

    Source: Fleiss (1971): (P - P_e) / (1 - P_e), P_e = sum of squared class shares; with missing
    verdicts and weights as in Gwet (2014).
    """
    apart = 1.0 - _weights(weights, sums.share.shape[-1])
    shares = _ratio(sums.share, sums.share.sum(-1, keepdims=True))
    expected = np.einsum("...c,cd,...d->...", shares, apart, shares)
    return Disagreement(_observed(sums, apart), expected)


def gwet(sums: PanelSums, weights: ArrayLike | None = None) -> Disagreement:
    """Gwet's AC1 and, with weights, AC2: chance agrees only on responses that are hard to class.

    Where nearly all verdicts fall in one class the kappas are close to 0 however well the judges
    agree; AC1 is not. It is defined where one class is used, but not where there is only one.

    Parameters
    ----------
    sums
        Of the panel; K must be the number of classes that the judges had to choose from.
    weights
        Agreement of classes, shape ``(K, K)``; by default only the same class agrees (AC1).

    Source: Gwet (2008), British Journal of Mathematical and Statistical Psychology 61, 29-48,
    with p_e = sum of pi_k (1 - pi_k) / (K - 1); Gwet (2014) for AC2 and missing verdicts, where
    the sum of all weights / (K (K - 1)) takes the place of 1 / (K - 1).
    """
    agree = _weights(weights, sums.share.shape[-1])
    classes = len(agree)
    shares = _ratio(sums.share, sums.share.sum(-1, keepdims=True))
    if classes < 2:
        none = np.full(sums.share.shape[:-1], np.nan)
        return Disagreement(none, none)
    by_chance = agree.sum() / (classes * (classes - 1)) * (shares * (1 - shares)).sum(-1)
    return Disagreement(_observed(sums, 1.0 - agree), 1.0 - by_chance)


def krippendorff(
    sums: PanelSums, metric: Metric = "nominal", values: ArrayLike | None = None
) -> Disagreement:
    """Krippendorff's alpha: chance pairs the verdicts of all responses without replacement.

    Parameters
    ----------
    sums
        Of the panel. Responses with one verdict do not enter.
    metric
        ``nominal``; ``ordinal``: the distance of two classes is the number of verdicts between
        them; ``interval``: the squared difference of their values.
    values
        A number for each class, rising, shape ``(K,)``; by default 0, 1, 2, ...

    Source: Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: 1 - D_o / D_e from
    the coincidence matrix.
    """
    counts = sums.coincidence
    classes = counts.shape[-1]
    verdicts = counts.sum(-1)
    if metric == "ordinal":
        points = np.cumsum(verdicts, -1) - verdicts / 2
    else:
        given = np.arange(classes) if values is None else np.asarray(values)
        points = np.broadcast_to(given.astype(np.float64), verdicts.shape)
    apart = np.asarray((points[..., :, None] - points[..., None, :]) ** 2, np.float64)
    if metric == "nominal":
        apart = np.broadcast_to(1.0 - np.eye(classes), counts.shape)
    # Only the scale is changed by this, which makes 1 the distance of the farthest classes.
    apart = _ratio(apart, apart.max((-1, -2), initial=0, keepdims=True))
    total = verdicts.sum(-1)
    pairs = total * np.maximum(total - 1, 0)
    expected = np.einsum("...c,...cd,...d->...", verdicts, apart, verdicts)
    return Disagreement(_ratio((counts * apart).sum((-1, -2)), total), _ratio(expected, pairs))


def cohen_null_error(table: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Standard error of kappa if the judges agreed by chance only, for independent responses.

    It tests kappa = 0; an interval around kappa comes from the cluster bootstrap.

    Source: Fleiss, Cohen & Everitt (1969), Psychological Bulletin 72, 323-327, the
    variance of weighted kappa under kappa = 0.

    Raises
    ------
    ValueError
        Where kappa is undefined.
    """
    counts = np.asarray(table, np.float64)
    agree = _weights(weights, len(counts))
    total = counts.sum()
    rows, columns = counts.sum(1) / total, counts.sum(0) / total
    chance = float(rows @ agree @ columns)
    if chance >= 1:
        raise ValueError("kappa is undefined: both judges used one class only")
    from_rows, from_columns = agree @ columns, agree.T @ rows
    spread = np.outer(rows, columns) * (agree - from_rows[:, None] - from_columns[None, :]) ** 2
    return float(np.sqrt((spread.sum() - chance**2) / total) / (1 - chance))


def fleiss_null_error(choices: ArrayLike) -> float:
    """Standard error of Fleiss' kappa if the judges agreed by chance only.

    Parameters
    ----------
    choices
        How many judges chose each class, shape ``(R, K)``, the same number on every response.

    Source: Fleiss, Nee & Landis (1979), Psychological Bulletin 86, 974-977, the
    variance under kappa = 0.

    Raises
    ------
    ValueError
        Where the number of verdicts differs between responses, or kappa is undefined.
    """
    counts = np.asarray(choices, np.float64)
    judges = counts.sum(1)
    if not (judges == judges[0]).all() or judges[0] < 2:
        raise ValueError("every response needs the same number of verdicts, at least 2")
    shares = counts.sum(0) / counts.sum()
    mixed = shares * (1 - shares)
    if mixed.sum() == 0:
        raise ValueError("kappa is undefined: the judges used one class only")
    spread = mixed.sum() ** 2 - (mixed * (1 - 2 * shares)).sum()
    pairs = len(counts) * judges[0] * (judges[0] - 1)
    return float(np.sqrt(2 * spread / pairs) / mixed.sum())


def _observed(sums: PanelSums, apart: FloatArray) -> FloatArray:
    return _ratio((sums.matched * apart).sum((-1, -2)), sums.matched.sum((-1, -2)))


def _weights(weights: ArrayLike | None, classes: int) -> FloatArray:
    return np.eye(classes) if weights is None else np.asarray(weights, np.float64)


def _ratio(above: ArrayLike, below: ArrayLike) -> FloatArray:
    top, bottom = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    # A sum of shares that should be 0 is sometimes 1e-17.
    found = np.full(top.shape, np.nan)
    np.divide(top, bottom, out=found, where=bottom > 1e-12)
    return found
