"""A prior of the items that is learned from the items."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from safemetry.errors import InputError
from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

_ITEMS_PER_COMPONENT = 25
_LLOYD_CYCLES = 10
_START_PURITY = 0.9


@dataclass(frozen=True)
class HierarchicalPrior:
    """Slopes and intercept of an item are a draw from a mixture of normals that is learned.

    Items that load on the same dimensions share one mixture. Its means and covariances are
    estimated with the items; `weight` pseudo-items of covariance diag(slope_sd², ..,
    intercept_sd²) keep them proper. Several components let items gather around several
    directions, as they do where a benchmark mixes kinds of items. Every item also has a wide normal
    prior around zero, without which the slopes of items that separate the targets perfectly, and
    with them the learned prior, would grow without end.

    Parameters
    ----------
    slope_sd, intercept_sd
        Standard deviations that the learned ones are shrunk towards.
    weight
        Number of pseudo-items. As it grows, the covariance becomes fixed.
    components
        Most components of a mixture; there is at most one for every 25 items of a group.
    slope_reach, intercept_reach
        Standard deviations of the wide prior around zero.
    """

    slope_sd: float = 0.4
    intercept_sd: float = 1.5
    weight: float = 10.0
    components: int = 4
    slope_reach: float = 3.0
    intercept_reach: float = 6.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (np.isfinite(value) and value > 0):
                raise InputError(f"{name} of a prior is {value:g}", fix="give a number above 0")


@dataclass(frozen=True)
class Group:
    """Items with the same free parameters, and the mixture that they are drawn from.

    Parameters
    ----------
    items, free
        Positions of the n items and of their f free parameters.
    shares
        Probability that an item belongs to a component, shape ``(n, C)``.
    means, precisions
        Of the components, shapes ``(C, f)`` and ``(C, f, f)``.
    """

    items: IntArray
    free: IntArray
    shares: FloatArray
    means: FloatArray
    precisions: FloatArray


def start_groups(free: BoolArray, prior: HierarchicalPrior) -> tuple[Group, ...]:
    """One group for each pattern of free parameters, before anything is learned.

    Parameters
    ----------
    free
        Which of the slopes and the intercept (last) are estimated, shape ``(J, K + 1)``.
    """
    patterns, belongs = np.unique(free, axis=0, return_inverse=True)
    base = _base(free.shape[1], prior)
    groups = []
    for number, pattern in enumerate(patterns):
        items = np.flatnonzero(belongs.ravel() == number)
        places = np.flatnonzero(pattern)
        precision = np.diag(1 / base[places])
        mean = np.zeros((1, len(places)))
        groups.append(Group(items, places, np.ones((len(items), 1)), mean, precision[None]))
    return tuple(groups)


def learn(
    group: Group,
    mean: FloatArray,
    covariance: FloatArray,
    centre: FloatArray,
    prior: HierarchicalPrior,
) -> Group:
    """One step of variational EM on the mixture of a group (Bishop 2006, section 10.2).

    Parameters
    ----------
    mean, covariance
        Of the approximate posterior of every item, shapes ``(J, D)`` and ``(J, D, D)``.
    centre
        Mean of one pseudo-item in every component, shape ``(D,)``.
    """
    here, flat = _posteriors(group, mean, covariance)
    size = here.shape[1]
    counts = group.shares.sum(axis=0)
    means = (group.shares.T @ here + centre[group.free]) / (counts + 1)[:, None]
    base = prior.weight * np.diag(_base(mean.shape[1], prior)[group.free])
    precisions = np.empty((len(counts), size, size))
    for part, middle in enumerate(means):
        share = group.shares[:, part]
        away = here - middle
        scatter = (away * share[:, None]).T @ away + (share @ flat).reshape(size, size)
        precisions[part] = np.linalg.inv((scatter + base) / (counts[part] + prior.weight))
    moved = replace(group, means=means, precisions=precisions)
    if len(counts) == 1:
        return moved
    fit = np.log(counts + 1e-9) - _energies(moved, here, flat)
    shares = np.exp(fit - fit.max(axis=1, keepdims=True))
    return replace(moved, shares=shares / shares.sum(axis=1, keepdims=True))


def split(group: Group, mean: FloatArray, prior: HierarchicalPrior) -> Group:
    """The group with as many components as its items can carry, its items assigned to them.

    The widest cluster is cut across its longest axis until there are enough (Boley 1998,
    Principal direction divisive partitioning), and Lloyd's iterations follow: the same for any
    order of the items.
    """
    parts = min(prior.components, len(group.items) // _ITEMS_PER_COMPONENT)
    if parts < 2:
        return group
    points = _whitened(mean[np.ix_(group.items, group.free)])
    label = np.zeros(len(points), np.int64)
    for new in range(1, parts):
        clusters = [points[label == k] for k in range(new)]
        widest = int(np.argmax([np.square(c - c.mean(axis=0)).sum() for c in clusters]))
        inside = np.flatnonzero(label == widest)
        away = points[inside] - points[inside].mean(axis=0)
        axis = np.linalg.eigh(away.T @ away)[1][:, -1]
        label[inside[away @ axis > 0]] = new
    for _ in range(_LLOYD_CYCLES):
        if len(np.unique(label)) < parts:
            return group
        centres = np.array([points[label == k].mean(axis=0) for k in range(parts)])
        label = np.square(points[:, None] - centres).sum(axis=2).argmin(axis=1)
    shares = _START_PURITY * np.eye(parts)[label] + (1 - _START_PURITY) / parts
    return replace(group, shares=shares)


def item_priors(
    groups: tuple[Group, ...], items: int, size: int, prior: HierarchicalPrior
) -> tuple[FloatArray, FloatArray]:
    """Precision and precision times mean for each item, shapes ``(J, D, D)`` and ``(J, D)``.

    Parameters that are not free have precision 1 and mean 0.
    """
    precision = np.tile(np.eye(size), (items, 1, 1))
    shift = np.zeros((items, size))
    wide = 1 / _reach(size, prior)
    for group in groups:
        free = len(group.free)
        flat = group.precisions.reshape(-1, free * free)
        mixed = (group.shares @ flat).reshape(-1, free, free) + np.diag(wide[group.free])
        precision[np.ix_(group.items, group.free, group.free)] = mixed
        pulls = (group.precisions @ group.means[:, :, None])[:, :, 0]
        shift[np.ix_(group.items, group.free)] = group.shares @ pulls
    return precision, shift


def move(group: Group, change: FloatArray) -> Group:
    """The group after every item has moved from x to ``change @ x``, x of shape ``(D,)``."""
    part = change[np.ix_(group.free, group.free)]
    back = np.linalg.inv(part)
    return replace(group, means=group.means @ part.T, precisions=back.T @ group.precisions @ back)


def _posteriors(
    group: Group, mean: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    here = mean[np.ix_(group.items, group.free)]
    spread = covariance[np.ix_(group.items, group.free, group.free)]
    return here, spread.reshape(len(here), -1)


def _energies(group: Group, here: FloatArray, flat: FloatArray) -> FloatArray:
    """Expected -log density of each item under each component, without log(2 pi)."""
    energy = np.empty_like(group.shares)
    for part, (middle, precision) in enumerate(zip(group.means, group.precisions, strict=True)):
        away = here - middle
        distance = ((away @ precision) * away).sum(axis=1) + flat @ precision.ravel()
        energy[:, part] = 0.5 * distance - 0.5 * np.linalg.slogdet(precision)[1]
    return energy


def _whitened(points: FloatArray) -> FloatArray:
    away = points - points.mean(axis=0)
    scale = np.linalg.cholesky(away.T @ away / len(away) + 1e-6 * np.eye(away.shape[1]))
    found: FloatArray = np.linalg.solve(scale, away.T).T
    return found


def _base(size: int, prior: HierarchicalPrior) -> FloatArray:
    return np.append(np.full(size - 1, prior.slope_sd**2), prior.intercept_sd**2)


def _reach(size: int, prior: HierarchicalPrior) -> FloatArray:
    return np.append(np.full(size - 1, prior.slope_reach**2), prior.intercept_reach**2)
