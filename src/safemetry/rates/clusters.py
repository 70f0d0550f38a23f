"""Rates whose trials come in clusters: effective trials, intervals and ceilings.

Attacks on one behaviour, or repeated runs of one item, succeed and fail together. Intervals that
take such trials as independent are too narrow. Here the number of trials is divided by a design
effect, and the exact binomial methods of `intervals` are applied to what is left.

Design effect, in this order:

========================================  ==========================================================
situation of a group                      design effect
========================================  ==========================================================
no cluster has more than one trial        1
no event, or nothing but events           trials / clusters
fewer than 10 clusters hold an event,     sum m**2 / sum m, the mean cluster size as a trial meets
or fewer than 10 hold a non-event         it (the plain mean where clusters are equal)
otherwise                                 linearised variance of the ratio over the binomial one,
                                          times the squared ratio of t quantiles, at least 1
========================================  ==========================================================

Ten clusters with an event are about what it takes to estimate a variance between clusters. Below
that the design effect of perfect correlation is used, which is sum m**2 / sum m for any sizes m:
the plain mean is too small where sizes differ, since large clusters carry more of the estimate.
For the same reason ten clusters count as ten only if they hold the trials of ten clusters of that
mean size, and the t quantile has as many degrees of freedom as such clusters fit into the trials,
less one. With equal clusters all this is the plain count. (Simulated: 10 clusters of 60 and 90 of
3, intra-class correlation .8, rate .1: plain counting covers 77%, this 99%.)

Without any event the plain mean is exact: a cluster of rate q and size m stays clean with
probability (1 - q)**m <= 1 - q, so all c clusters stay clean with probability at most (1 - p)**c,
whatever the sizes and the correlation, and 1 - alpha**(1 / c) is a valid ceiling.

Sources: Korn & Graubard (1998), Survey Methodology 24, 193-201; Cochran (1977), Sampling
Techniques, sections 2.11 (ratio), 10.3 (two stages); Kish (1965), Survey Sampling, section 5.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safemetry.rates.intervals import (
    FloatArray,
    check_counts,
    check_level,
    clopper_pearson,
    upper_bound,
    wilson,
    zero_failure_ceiling,
)

Inference = Literal["sampled", "fixed"]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
MaskedFloats = np.ma.MaskedArray[Any, np.dtype[np.float64]]

FEWEST_CLUSTERS = 10
# Candidates of the ceiling are single counts up to here and then cells of relative width 1/1024.
SINGLE_COUNTS = 1024
# Bounds the memory of one batch of ceilings: about fifteen arrays of this length are alive at once.
BATCH_CANDIDATES = 1_000_000


@dataclass(frozen=True)
class ClusteredRates:
    """Rates of many groups, each with its uncertainty; every array has one entry per group.

    Masked arrays are masked where a group has no trial (`tolist()` gives None there).

    events, trials: totals.
    clusters, event_clusters: clusters with a trial, and those among them that hold an event.
    mean_cluster_size: trials / clusters.
    estimate: events / trials.
    design_effect: trials / effective_trials, degrees of freedom and finite population included.
    effective_trials: number of independent trials that carry as much information; <= trials.
    lower, upper: two-sided interval at `level`.
    ceiling: one-sided upper bound at `confidence`, never lowered by one more event.
    method: `wilson`, `clopper_pearson` (no clustering) or `korn_graubard`.
    inference: `sampled` or `fixed`.
    """

    events: FloatArray
    trials: FloatArray
    clusters: IntArray
    event_clusters: IntArray
    mean_cluster_size: MaskedFloats
    estimate: MaskedFloats
    design_effect: MaskedFloats
    effective_trials: MaskedFloats
    lower: MaskedFloats
    upper: MaskedFloats
    ceiling: MaskedFloats
    method: NDArray[np.str_]
    level: float
    confidence: float
    inference: Inference


@dataclass(frozen=True)
class _Rows:
    """Clusters with at least one trial, sorted by group."""

    group: IntArray
    events: FloatArray
    trials: FloatArray

    def pick(self, index: NDArray[Any]) -> _Rows:
        return _Rows(self.group[index], self.events[index], self.trials[index])


@dataclass(frozen=True)
class _Totals:
    """Sums over the clusters of each group; groups without a trial have zeros."""

    events: FloatArray
    trials: FloatArray
    clusters: FloatArray
    event_clusters: FloatArray
    clean_clusters: FloatArray
    event_weight: FloatArray
    clean_weight: FloatArray
    squared_sizes: FloatArray
    squared_residuals: FloatArray
    repeated: BoolArray
    fraction: FloatArray


def clustered_rates(  # noqa: PLR0913 - each keyword is one documented choice
    group: ArrayLike,
    events: ArrayLike,
    trials: ArrayLike,
    *,
    groups: int | None = None,
    level: float = 0.95,
    confidence: float = 0.95,
    exact: bool = False,
    inference: Inference = "sampled",
    population: ArrayLike | None = None,
) -> ClusteredRates:
    """Return estimate, interval and ceiling of every group from its clusters.

    Parameters
    ----------
    group : whole numbers >= 0, shape (rows,), in any order; one row is one cluster of one group.
    events, trials : counts of that cluster, shape (rows,); fractions allowed. Clusters without a
        trial are left out.
    groups : number of groups, where some have no row; default the largest code + 1.
    level : two-sided confidence of the interval, in (0, 1).
    confidence : one-sided confidence of the ceiling, in (0, 1).
    exact : Clopper-Pearson instead of Wilson where nothing is clustered (for decisions).
    inference : `sampled`, the clusters stand for infinitely many like them; `fixed`, they are all
        there is, and only the repetition of trials inside them is uncertain.
    population : number of clusters in the finite population that the clusters were drawn from,
        one number or one per group; takes the place of what `inference` implies.

    The correction for a finite population follows two-stage sampling: with a share f of the
    clusters seen, the variance is (1 - f) times the variance between clusters plus f times the
    variance within them. The latter is at most binomial (binomial at the group's rate exceeds the
    mean binomial variance at the clusters' own rates), so design effect' = (1 - f) * design effect
    + f errs on the safe side. f = population share, else 0 for `sampled` and 1 for `fixed`.

    Ceiling. With f(k, D) the exact upper bound for k / D events in n / D trials, the bound at the
    data, f(k, D(x)) for cluster counts x, can fall when an event is added, because the estimated
    design effect can. The ceiling is therefore the maximum of f(j, E(j; x)) over j = 0 ... k, where
    E(j; x) is not below the design effect of any y <= x (cluster by cluster) with j events, and
    equals D(x) at j = k. For the linearised variance E uses sum y**2 <= its value when the
    clusters with most events are filled first, and sum y m >= its value when the smallest
    clusters are filled first, in V = sum y**2 - 2 p sum y m + p**2 sum m**2; the design effect of
    few clusters is included wherever a y on fewer than 10 clusters exists. Let x' be x with one
    more event. The sets of y grow, so E(j; x') >= E(j; x) for j < k, and E(k; x') >= D(x) since x
    is now one of the y. f does not fall in D, so each term of the maximum at x has one at x' that
    is not below it: the ceiling never decreases. At j = 0 the term is 1 - alpha**(1 / clusters).
    That f does not fall in D, at a fixed rate, is checked on a grid in the tests.

    Raises: ValueError for impossible counts, levels, codes, or a population smaller than the
    clusters seen.

    Source: Korn & Graubard (1998), section 2; Cochran (1977), equations 2.39 and 10.15; the
    monotone maximum is this package's own.

    Example
    -------
    >>> clean = clustered_rates([0] * 100, [0] * 100, [9] * 100)
    >>> clean.effective_trials.tolist(), round(float(clean.ceiling[0]), 4)
    ([100.0], 0.0295)
    >>> clustered_rates([0], [3], [9], groups=2).estimate.tolist()
    [0.3333333333333333, None]
    """
    check_level(level)
    check_level(confidence, "confidence")
    rows, count = _sorted_rows(group, events, trials, groups)
    totals = _totals(rows, count, inference, population)
    tried = totals.trials > 0
    x, n = totals.events, np.where(tried, totals.trials, 1.0)

    effect = _design_effect(totals, 0.5 + level / 2)
    effective = n / effect
    clustered = clopper_pearson(x / effect, effective, level)
    simple = clopper_pearson(x, n, level) if exact else wilson(x, n, level)
    lower = np.where(totals.repeated, clustered.lower, simple.lower)
    upper = np.where(totals.repeated, clustered.upper, simple.upper)

    def known(values: FloatArray) -> MaskedFloats:
        return np.ma.masked_where(~tried, values)

    return ClusteredRates(
        events=x,
        trials=totals.trials,
        clusters=totals.clusters.astype(np.int64),
        event_clusters=totals.event_clusters.astype(np.int64),
        mean_cluster_size=known(n / np.maximum(totals.clusters, 1.0)),
        estimate=known(x / n),
        design_effect=known(effect),
        effective_trials=known(effective),
        lower=known(lower),
        upper=known(upper),
        ceiling=known(_ceilings(rows, totals, confidence)),
        method=np.where(totals.repeated, "korn_graubard", "clopper_pearson" if exact else "wilson"),
        level=level,
        confidence=confidence,
        inference=inference,
    )


def _sorted_rows(
    group: ArrayLike, events: ArrayLike, trials: ArrayLike, groups: int | None
) -> tuple[_Rows, int]:
    codes = np.asarray(group)
    if codes.ndim != 1 or (codes.size and not np.issubdtype(codes.dtype, np.integer)):
        raise ValueError("group must be a one-dimensional array of whole numbers")
    codes = codes.astype(np.int64)
    x, n = check_counts(events, trials)
    if x.shape != codes.shape:
        raise ValueError("group, events and trials must have one entry per cluster")
    highest = int(codes.max(initial=-1))
    count = highest + 1 if groups is None else groups
    if codes.min(initial=0) < 0 or highest >= count:
        raise ValueError("group codes must lie between 0 and the number of groups - 1")
    order = np.argsort(codes, kind="stable")
    rows = _Rows(codes, x, n).pick(order)
    return rows.pick(rows.trials > 0), count


def _totals(rows: _Rows, count: int, inference: Inference, population: ArrayLike | None) -> _Totals:
    def total(values: NDArray[Any]) -> FloatArray:
        return np.bincount(rows.group, values, minlength=count).astype(np.float64)

    y, m = rows.events, rows.trials
    events, trials, clusters = total(y), total(m), total(np.ones_like(m))
    rate = events / np.where(trials > 0, trials, 1.0)
    return _Totals(
        events=events,
        trials=trials,
        clusters=clusters,
        event_clusters=total(y > 0),
        clean_clusters=total(y < m),
        event_weight=total(m * (y > 0)),
        clean_weight=total(m * (y < m)),
        squared_sizes=total(m * m),
        squared_residuals=total((y - rate[rows.group] * m) ** 2),
        repeated=total(m > 1) > 0,
        fraction=_fraction_seen(clusters, inference, population),
    )


def _fraction_seen(
    clusters: FloatArray, inference: Inference, population: ArrayLike | None
) -> FloatArray:
    if inference not in ("sampled", "fixed"):
        raise ValueError(f"inference must be 'sampled' or 'fixed', got {inference!r}")
    if population is None:
        return np.full(clusters.shape, 1.0 if inference == "fixed" else 0.0)
    size = np.broadcast_to(np.asarray(population, np.float64), clusters.shape)
    if not (size >= clusters).all():
        raise ValueError("population must be at least the number of clusters seen")
    return clusters / np.where(size > 0, size, 1.0)


def _with_population(effect: FloatArray, fraction: FloatArray) -> FloatArray:
    return (1.0 - fraction) * effect + fraction


def _linearised_effect(
    totals: _Totals, spread: FloatArray, rate_variance: FloatArray
) -> FloatArray:
    """Return the ratio estimator's variance over the binomial one, both from given sums."""
    c = np.maximum(totals.clusters, 2.0)
    n = np.where(totals.trials > 0, totals.trials, 1.0)
    return c / (c - 1.0) * spread / (n * rate_variance)


def _freedom_ratio(totals: _Totals, probability: float) -> FloatArray:
    """Return the squared ratio of t quantiles, clusters - 1 over trials - 1 degrees of freedom.

    Clusters are counted by size: trials over the mean size as a trial meets it.
    """
    from scipy import special

    between = np.maximum(totals.trials / _perfect_correlation_effect(totals), 2.0) - 1.0
    alone = np.maximum(totals.trials - 1.0, between)
    # Quantiles are symmetric, so their squared ratio is too; at the median it is 0 / 0.
    probability = 0.5 + max(abs(probability - 0.5), 1e-6)
    ratio = special.stdtrit(between, probability) / special.stdtrit(alone, probability)
    return np.asarray(ratio**2, np.float64)


def _perfect_correlation_effect(totals: _Totals) -> FloatArray:
    sizes = totals.squared_sizes / np.where(totals.trials > 0, totals.trials, 1.0)
    return np.maximum(sizes, 1.0)


def _without_contrast_effect(totals: _Totals) -> FloatArray:
    return np.maximum(totals.trials / np.maximum(totals.clusters, 1.0), 1.0)


def _weight_of_few(totals: _Totals) -> FloatArray:
    return FEWEST_CLUSTERS * _perfect_correlation_effect(totals)


def _few_with_event(totals: _Totals) -> BoolArray:
    return (totals.event_clusters < FEWEST_CLUSTERS) | (
        totals.event_weight < _weight_of_few(totals)
    )


def _few_clean(totals: _Totals) -> BoolArray:
    return (totals.clean_clusters < FEWEST_CLUSTERS) | (
        totals.clean_weight < _weight_of_few(totals)
    )


def _design_effect(totals: _Totals, probability: float) -> FloatArray:
    x, n = totals.events, np.where(totals.trials > 0, totals.trials, 1.0)
    contrast = (x > 0) & (x < totals.trials)
    rate_variance = np.where(contrast, x / n * (1 - x / n), 1.0)
    estimated = _linearised_effect(totals, totals.squared_residuals, rate_variance)
    estimated = np.maximum(estimated * _freedom_ratio(totals, probability), 1.0)
    effect = np.where(
        _few_with_event(totals) | _few_clean(totals), _perfect_correlation_effect(totals), estimated
    )
    effect = np.where(contrast, effect, _without_contrast_effect(totals))
    effect = np.where(totals.repeated, effect, 1.0)
    return _with_population(effect, totals.fraction)


def _ceilings(rows: _Rows, totals: _Totals, confidence: float) -> FloatArray:
    x, n = totals.events, totals.trials
    effect = _design_effect(totals, confidence)
    at_data = upper_bound(x / effect, n / effect, confidence)
    clean_effect = np.where(totals.repeated, _without_contrast_effect(totals), 1.0)
    clean = zero_failure_ceiling(n / _with_population(clean_effect, totals.fraction), confidence)
    ceiling = np.maximum(at_data, clean)
    # Elsewhere the bound is the plain exact one, which cannot fall in events.
    open_groups = np.flatnonzero(totals.repeated & (x > 0) & (x < n))
    weight = np.cumsum(np.minimum(x[open_groups], 16.0 * SINGLE_COUNTS))
    batches = np.split(
        open_groups,
        np.flatnonzero(np.diff(weight // BATCH_CANDIDATES)) + 1,
    )
    for batch in batches:
        if batch.size:
            _raise_to_majorant(ceiling, batch, rows, totals, effect, confidence)
    return ceiling


def _raise_to_majorant(
    ceiling: FloatArray,
    batch: IntArray,
    rows: _Rows,
    totals: _Totals,
    effect: FloatArray,
    confidence: float,
) -> None:
    """Lift `ceiling` in place to the maximum over fewer events (see `clustered_rates`)."""
    from scipy import special

    owner, first, last = _candidates(batch, totals.events[batch])
    if not owner.size:
        return
    n = totals.trials[owner]
    bound = _largest_effect(rows, totals, batch, owner, first, last, confidence)
    # Fewer events with no larger a design effect cannot exceed the bound at the data.
    larger = bound > effect[owner]
    owner, last, n, bound = owner[larger], last[larger], n[larger], bound[larger]
    # One evaluation of the distribution tells whether a candidate exceeds the present ceiling; it
    # costs a third of inverting it, and few candidates do.
    covered = special.betainc(last / bound + 1.0, (n - last) / bound, ceiling[owner])
    higher = covered < confidence
    lifted = upper_bound(last[higher] / bound[higher], n[higher] / bound[higher], confidence)
    np.maximum.at(ceiling, owner[higher], lifted)


def _candidates(batch: IntArray, events: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the numbers of events below the observed ones: group, first and last of each cell.

    Every whole number of events fewer is a candidate. Beyond `SINGLE_COUNTS` whole cells below the
    data share one bound (the worst design effect in the cell with its largest count); the counts of
    the cell that the data lie in stand alone. The cells do not depend on the data, so adding an
    event only ever turns single counts into a cell whose bound is not below theirs.
    """
    whole = np.floor(events)
    offset = events - whole
    # No event at all has its own term, so whole counts start from one.
    lowest = np.where(offset > 0, 0.0, 1.0)
    ends = _cell_ends(float(whole.max(initial=0.0)))
    cells = np.searchsorted(ends, whole - 1.0, side="right")
    inside = np.where(cells > 0, ends[np.maximum(cells - 1, 0)], -1.0)

    owner, position = _ragged(cells)
    last = ends[position]
    first = np.where(position > 0, ends[np.maximum(position - 1, 0)] + 1.0, 0.0)
    keep = last >= lowest[owner]
    owner, first, last = owner[keep], first[keep], last[keep]

    single_owner, step = _ragged((whole - 1.0 - inside).clip(0.0).astype(np.int64))
    single = inside[single_owner] + 1.0 + step
    keep = single >= lowest[single_owner]
    single_owner, single = single_owner[keep], single[keep]

    owner = np.concatenate([owner, single_owner])
    first = np.concatenate([first, single]) + offset[owner]
    last = np.concatenate([last, single]) + offset[owner]
    return batch[owner], first, last


def _cell_ends(highest: float) -> FloatArray:
    """Return the last count of each cell up to `highest`: single counts, then widening cells."""
    pieces = [np.arange(min(highest, SINGLE_COUNTS) + 1.0)]
    start, width = float(SINGLE_COUNTS), 1.0
    while start < highest:
        pieces.append(start + width * np.arange(1.0, SINGLE_COUNTS + 1.0))
        start, width = 2.0 * start, 2.0 * width
    ends = np.concatenate(pieces)
    return ends[ends <= highest]


def _ragged(lengths: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return owner and position of every element of ragged lists of given lengths."""
    owner = np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return owner, np.arange(owner.size, dtype=np.int64) - starts[owner]


def _largest_effect(
    rows: _Rows,
    totals: _Totals,
    batch: IntArray,
    owner: IntArray,
    first: FloatArray,
    last: FloatArray,
    confidence: float,
) -> FloatArray:
    """Return a bound on the design effect of all sub-configurations with first ... last events."""
    member = np.zeros(totals.trials.size, bool)
    member[batch] = True
    held = rows.pick(member[rows.group] & (rows.events > 0))
    by_events = held.pick(np.lexsort((-held.events, held.group)))
    by_size = held.pick(np.lexsort((held.trials, held.group)))

    squares = _filled(by_events, None, owner, last, totals.trials.size)
    products = _filled(by_size, by_size.trials, owner, first, totals.trials.size)
    n = totals.trials[owner]
    low, high = first / n, last / n
    spread = squares - 2.0 * low * products + high**2 * totals.squared_sizes[owner]
    # The binomial variance is concave in the rate, so its least value in a cell is at one end.
    rate_variance = np.minimum(low * (1 - low), high * (1 - high))
    picked = _Totals(**{name: values[owner] for name, values in vars(totals).items()})
    estimated = _linearised_effect(picked, spread, rate_variance)
    estimated = estimated * _freedom_ratio(totals, confidence)[owner]

    leading = _most_events_of_few(by_events, totals)
    few_possible = (first <= leading[owner]) | _few_clean(picked)
    bound = np.maximum(
        np.where(_few_with_event(picked), 1.0, np.maximum(estimated, 1.0)),
        np.where(few_possible, _perfect_correlation_effect(picked), 1.0),
    )
    return _with_population(bound, picked.fraction)


def _filled(
    rows: _Rows, weight: FloatArray | None, owner: IntArray, amount: FloatArray, count: int
) -> FloatArray:
    """Return sum of filled * weight when a group's events are placed in the order of its rows.

    A row takes up to its own events, so only the last one may be partly filled. Without a weight
    the result is the sum of filled ** 2.
    """
    held = rows.events if weight is None else weight
    ends = np.concatenate([[0.0], np.cumsum(rows.events)])
    sums = np.concatenate([[0.0], np.cumsum(rows.events * held)])
    start = np.searchsorted(rows.group, np.arange(count))
    begin = start[owner]
    reach = ends[begin] + amount
    full = np.clip(np.searchsorted(ends, reach, side="right") - 1, 0, rows.events.size - 1)
    rest = reach - ends[full]
    tail = rest * (rest if weight is None else weight[full])
    return np.asarray(sums[full] - sums[begin] + tail, np.float64)


def _most_events_of_few(by_events: _Rows, totals: _Totals) -> FloatArray:
    """Return the most events that clusters too few to estimate a variance may hold together.

    Few by number: the nine with most events. Few by trials: the relaxed knapsack, clusters with
    most events a trial first, while they fit. Where sizes are equal the two agree.
    """
    count = totals.trials.size

    def total(values: FloatArray, rows: _Rows) -> FloatArray:
        return np.bincount(rows.group, values, minlength=count).astype(np.float64)

    start = np.searchsorted(by_events.group, np.arange(count))
    rank = np.arange(by_events.group.size) - start[by_events.group]
    by_number = total(np.where(rank < FEWEST_CLUSTERS - 1, by_events.events, 0.0), by_events)

    dense = by_events.pick(
        np.lexsort((-by_events.events / by_events.trials, by_events.group)),
    )
    used = np.cumsum(dense.trials)
    before = used - dense.trials
    before = before - before[np.minimum(start, before.size - 1)][dense.group]
    room = _weight_of_few(totals)[dense.group] - before
    share = np.clip(room / dense.trials, 0.0, 1.0)
    # A cluster fits only with room to spare, so among equal clusters the tenth is left out whole.
    equal = np.isclose(totals.squared_sizes * totals.clusters, totals.trials**2, rtol=1e-12)
    share = np.where(equal[dense.group] & (rank >= FEWEST_CLUSTERS - 1), 0.0, share)
    return np.maximum(by_number, total(dense.events * share, dense))
