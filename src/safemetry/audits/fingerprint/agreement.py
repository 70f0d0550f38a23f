"""Agreement of answers on informative items."""

from __future__ import annotations

import numpy as np

from safemetry.audits.fingerprint.answers import answer_shares
from safemetry.irt.parameters import FloatArray, IntArray
from safemetry.judges.counts import design_effect
from safemetry.rates.intervals import wilson

FEW_CLUSTERS = 10


def agreement_matrix(
    counts: FloatArray,
) -> np.ma.MaskedArray[tuple[int, ...], np.dtype[np.float64]]:
    """Share of equal answers of each pair of targets, shape ``(N, N)``; masked without overlap.

    With several runs, the chance that a run of one and a run of the other agree; on the diagonal
    that of two different runs of the target, masked where it has one.

    Parameters
    ----------
    counts
        Answers on the items that count, shape ``(N, J, C)``.
    """
    shares, total = answer_shares(counts), counts.sum(axis=-1)
    seen = (total > 0).astype(np.float64)
    flat = shares.reshape(len(counts), -1)
    alike, common = flat @ flat.T, seen @ seen.T
    pairs = total * (total - 1)
    repeats = (counts * (counts - 1)).sum(axis=-1)
    own = np.divide(repeats, pairs, out=np.zeros_like(pairs), where=pairs > 0)
    np.fill_diagonal(alike, own.sum(axis=1))
    np.fill_diagonal(common, (pairs > 0).sum(axis=1))
    known = common > 0
    return np.ma.masked_where(
        ~known, np.divide(alike, common, out=np.zeros_like(alike), where=known)
    )


def agreement_interval(
    equal: FloatArray, cluster: IntArray, level: float
) -> tuple[float, float] | None:
    """Wilson's interval of a share of equal answers, on the effective number of items.

    While fewer than ten clusters hold a difference (or an agreement) the design effect is at least
    the mean cluster size: few events do not show how they cluster.

    Parameters
    ----------
    equal
        Chance of equal answers on each item, in [0, 1], shape ``(J,)``.
    cluster
        Cluster of each item, codes from 0, shape ``(J,)``.
    level
        Confidence.

    Returns
    -------
    tuple or None
        None without items.
    """
    if not len(equal):
        return None
    sums = np.bincount(cluster, weights=equal)
    size = np.bincount(cluster)
    effect = design_effect(equal, cluster)
    met = size > 0
    few = min(int((sums[met] > 0).sum()), int((sums[met] < size[met]).sum()))
    if few < FEW_CLUSTERS:
        effect = max(effect, float(size[met].mean()))
    effective = len(equal) / effect
    low, high = wilson(float(equal.mean()) * effective, effective, level)
    return float(low), float(high)
