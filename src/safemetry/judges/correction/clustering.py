"""How far responses of one cluster stand or fall together, and what that takes from labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

_FEWEST_PAIRS: Final = 30


@dataclass(frozen=True)
class Clustering:
    """How responses stand or fall together.

    Parameters
    ----------
    crowding
        Chance that two responses drawn at random are of one cluster, 0 to 1.
    of_labels, of_errors
        Intraclass correlation of labels, and of labels less verdicts, 0 to 1.
    """

    crowding: float = 0.0
    of_labels: float = 0.0
    of_errors: float = 0.0

    def effect(self, size: float, intraclass: float) -> float:
        """Design effect of that many responses drawn at random (Kish 1965, section 5.4)."""
        return 1 + intraclass * max(size - 1, 0.0) * self.crowding


def clustering_of(cluster: IntArray, gold: FloatArray, said: FloatArray) -> Clustering:
    """Clustering of responses.

    Parameters
    ----------
    cluster
        Of each response, whole numbers, shape ``(R,)``.
    gold
        Label of each response, 0 or 1, NaN where there is none.
    said
        The judge's verdict on each, 0 or 1.

    Returns
    -------
    Clustering
        Where fewer than 30 pairs of labels share a cluster, their correlation is taken to be that
        of the verdicts.
    """
    sizes = np.bincount(cluster).astype(np.float64)
    total = sizes.sum()
    if total < 2 or not (sizes > 1).any():
        return Clustering()
    crowding = float((sizes * (sizes - 1)).sum() / (total * (total - 1)))
    by_judge, _ = pair_correlation(said, cluster)
    known = ~np.isnan(gold)
    found = []
    for values in (gold[known], gold[known] - said[known]):
        value, pairs = pair_correlation(values, cluster[known])
        found.append(value if pairs >= _FEWEST_PAIRS else by_judge)
    return Clustering(crowding, *found)


def pair_correlation(values: ArrayLike, cluster: ArrayLike) -> tuple[float, int]:
    """Correlation of two values of one cluster, in [0, 1], and how many pairs there are.

    The mean product of deviations over all pairs within clusters, over the variance; 0 where the
    values do not vary or there is no pair.

    Examples
    --------
    >>> pair_correlation([0, 0, 1, 1], [0, 0, 1, 1])
    (1.0, 2)
    """
    given, units = np.asarray(values, np.float64), np.asarray(cluster, np.int64)
    sizes = np.bincount(units).astype(np.float64)
    pairs = int((sizes * (sizes - 1)).sum()) // 2
    spread = float(given.var()) if len(given) else 0.0
    if not pairs or spread <= 0:
        return 0.0, pairs
    away = given - given.mean()
    sums, squares = np.bincount(units, away), np.bincount(units, away**2)
    product = float((sums**2 - squares).sum()) / (2 * pairs)
    return float(np.clip(product / spread, 0.0, 1.0)), pairs
