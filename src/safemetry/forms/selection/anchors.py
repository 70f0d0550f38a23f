"""Anchors: one item that stands for each cluster of items that targets answer alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from safemetry.forms.constraints import Constraints
from safemetry.forms.pool import ItemPool
from safemetry.forms.selection.baselines import outcomes
from safemetry.forms.selection.limits import Limits, by_name, classes_of, limits_of
from safemetry.forms.selection.programme import first_form, minimise
from safemetry.irt.parameters import FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDS: Final = 30
_STARTS: Final = 2
_NEAREST: Final = 2
_SECONDS: Final = 10.0
_GAP: Final = 1e-3


@dataclass(frozen=True)
class Anchors:
    """Items that stand for others.

    Parameters
    ----------
    positions
        In the pool, shape ``(length,)``, the heaviest first.
    weights
        Share of the pool that is nearest to each, shape ``(length,)``; they sum to 1. The score of
        a target is estimated by the weighted mean of its outcomes.
    """

    positions: IntArray
    weights: FloatArray


def select_anchors(
    pool: ItemPool,
    constraints: Constraints,
    rng: np.random.Generator,
    *,
    codes: NDArray[np.integer] | None = None,
) -> Anchors:
    """A form of anchors: medoids of clusters of items, weighted by how many each stands for.

    Items are clustered by k-means, as many clusters as the form has items (Polo et al. 2024,
    tinyBenchmarks, section 3). The item nearest to the centre of its cluster is the anchor; where
    quotas do not allow one in each cluster, as many clusters as possible have one, with the least
    sum of squared distances. Every item of the pool then counts for its nearest anchor (k-medoids,
    as in Anchor Points: Vivek et al. 2024, section 3).

    Parameters
    ----------
    pool, constraints
        The items, and what the form must hold.
    rng
        Source of randomness for the starts of k-means.
    codes
        Responses of calibration targets to the items of the pool, shape ``(N, J)``, -1 missing:
        items are alike if the same targets pass them. Without it items are alike if their slopes
        and mean intercepts are, in standard deviations of each.

    Raises
    ------
    InputError
        For constraints that no form keeps, by name; for codes of other items.
    """
    ordered, positions = by_name(pool)
    if codes is None:
        features = _parameter_features(ordered)
    else:
        outcomes(pool, codes)
        features = _pattern_features(ordered, np.asarray(codes)[:, positions])
    limits = limits_of(ordered, constraints)
    fallback = first_form(limits, np.zeros(len(features)))
    centres, clusters = cluster(features, limits.length, rng)
    squares = ((features - centres[clusters]) ** 2).sum(axis=1)
    chosen = _medoids(limits, clusters, squares, fallback)
    nearest = np.argmin(_distances(features, features[chosen]), axis=1)
    # Of two anchors that are the same point, each stands for itself at least.
    nearest[chosen] = np.arange(len(chosen))
    weights = np.bincount(nearest, minlength=len(chosen)) / len(features)
    order = np.lexsort((chosen, -weights))
    return Anchors(positions[chosen[order]], weights[order])


def cluster(
    features: FloatArray, count: int, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Clusters by k-means, the best of two starts.

    Starts are drawn with chances in proportion to the squared distance (Arthur & Vassilvitskii
    2007); an empty cluster takes the point that is farthest from its centre.

    Parameters
    ----------
    features
        Of J points, shape ``(J, D)``.
    count
        Clusters, at most J.
    rng
        Source of randomness.

    Returns
    -------
    numpy.ndarray, numpy.ndarray
        Centres, shape ``(count, D)``, and the cluster of each point, shape ``(J,)``.
    """
    best: tuple[float, FloatArray, IntArray] | None = None
    for _ in range(_STARTS):
        centres = _starts(features, count, rng)
        of = np.zeros(len(features), np.int64)
        for step in range(_ROUNDS):
            distances = _distances(features, centres)
            nearest = np.argmin(distances, axis=1)
            if step and (nearest == of).all():
                break
            of = nearest
            centres = _means(features, of, distances[np.arange(len(of)), of], centres)
        loss = float(((features - centres[of]) ** 2).sum())
        if best is None or loss < best[0]:
            best = loss, centres, of
    if best is None:
        raise AssertionError  # there is one start at least
    return best[1], best[2]


def _starts(features: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    size = len(features)
    chosen = [int(rng.integers(size))]
    left = ((features - features[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        total = left.sum()
        following = int(rng.choice(size, p=left / total)) if total > 0 else len(chosen) % size
        chosen.append(following)
        left = np.minimum(left, ((features - features[following]) ** 2).sum(axis=1))
    return features[chosen].copy()


def _means(
    features: FloatArray, of: IntArray, distances: FloatArray, centres: FloatArray
) -> FloatArray:
    count = len(centres)
    sizes = np.bincount(of, minlength=count)
    member = csr_array((np.ones(len(of)), (of, np.arange(len(of)))), shape=(count, len(of)))
    found: FloatArray = (member @ features) / np.maximum(sizes, 1)[:, None]
    empty = np.flatnonzero(sizes == 0)
    found[empty] = features[np.argsort(-distances, kind="stable")[: len(empty)]]
    return found


def _distances(features: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distances, shape ``(J, count)``, up to rounding."""
    squares = (features**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    found: FloatArray = np.maximum(squares - 2 * features @ centres.T, 0)
    return found


def _medoids(
    limits: Limits, clusters: IntArray, squares: FloatArray, fallback: IntArray
) -> IntArray:
    """One item of each cluster, nearest to its centre, as far as the limits allow."""
    count, size = int(clusters.max()) + 1, len(clusters)
    order = np.lexsort((squares, clusters))
    nearest = order[np.unique(clusters[order], return_index=True)[1]]
    if len(nearest) == limits.length and limits.kept(nearest) and _permitted(limits, nearest):
        return nearest
    kept = _near(limits, clusters, squares)
    member = csr_array(
        (np.ones(len(kept)), (clusters[kept], np.arange(len(kept)))), shape=(count, len(kept))
    )
    none = csr_array((limits.members.shape[0], count))
    rows = vstack(
        [
            hstack([csr_array(limits.members)[:, kept].astype(np.float64), none]),
            hstack([csr_array(np.ones((1, len(kept)))), csr_array((1, count))]),
            # A second item of a cluster is possible, and costs more than all distances.
            hstack([member, -csr_array(np.eye(count))]),
        ]
    )
    scale = max(float(squares.max()), 1e-300)
    required = np.zeros(size)
    required[limits.required] = 1
    found = minimise(
        np.concatenate([squares[kept] / scale, np.full(count, limits.length + 1.0)]),
        csr_array(rows),
        np.concatenate([limits.least, [limits.length], np.full(count, -np.inf)]),
        np.concatenate([limits.most, [limits.length], np.ones(count)]),
        (
            np.concatenate([required[kept], np.zeros(count)]),
            np.concatenate([limits.allowed[kept].astype(np.float64), np.full(count, np.inf)]),
        ),
        time_limit=_SECONDS,
        gap=_GAP,
    )
    if found is None or found.values is None:
        return fallback
    return kept[found.values[: len(kept)] > 0.5]


def _permitted(limits: Limits, chosen: IntArray) -> bool:
    return bool(limits.allowed[chosen].all() and np.isin(limits.required, chosen).all())


def _near(limits: Limits, clusters: IntArray, squares: FloatArray) -> IntArray:
    """Items that the programme may need: the nearest of each kind in each cluster, and in all.

    Of each kind there are as many as a form can hold, so that what is possible stays possible.
    """
    classes = classes_of(limits)
    kept = np.zeros(len(squares), bool)
    kept[limits.required] = True
    kept[_first(classes.of, squares, classes.most(limits)[classes.of])] = True
    cells = classes.of * (int(clusters.max()) + 1) + clusters
    kept[_first(cells, squares, np.full(len(cells), _NEAREST))] = True
    return np.flatnonzero(kept)


def _first(group: IntArray, values: FloatArray, most: IntArray) -> IntArray:
    """The members of each group with the lowest values, at most so many."""
    order = np.lexsort((values, group))
    sorted_group = group[order]
    starts = np.flatnonzero(np.append(True, sorted_group[1:] != sorted_group[:-1]))
    lengths = np.diff(np.append(starts, len(group)))
    rank = np.arange(len(group)) - np.repeat(starts, lengths)
    found: IntArray = order[rank < most[order]]
    return found


def _pattern_features(pool: ItemPool, codes: NDArray[np.integer]) -> FloatArray:
    """Outcomes by item, shape ``(J, N)``; a missing one is the mean of its item, or one half."""
    given = outcomes(pool, codes)
    known = ~np.isnan(given)
    count = known.sum(axis=0)
    mean = np.where(known, given, 0.0).sum(axis=0) / np.maximum(count, 1)
    filled = np.where(known, given, np.where(count, mean, 0.5))
    return np.ascontiguousarray(filled.T)


def _parameter_features(pool: ItemPool) -> FloatArray:
    steps = pool.parameters.intercepts
    finite = np.isfinite(steps)
    middle = np.where(finite, steps, 0.0).sum(axis=1) / np.maximum(finite.sum(axis=1), 1)
    raw = np.column_stack([pool.parameters.slopes, middle])
    spread = raw.std(axis=0)
    return np.asarray((raw - raw.mean(axis=0)) / np.where(spread > 0, spread, 1.0), np.float64)
