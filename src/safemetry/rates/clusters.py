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

from dataclasses import dataclass, replace
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

    def pick(self, index: NDArray[Any] | slice) -> _Rows:
        return _Rows(self.group[index], self.events[index], self.trials[index])

    def complement(self) -> _Rows:
        """The same clusters with their non-events as events."""
        return replace(self, events=self.trials - self.events)


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

    def complement(self) -> _Totals:
        """The totals of the same clusters with their non-events as events."""
        return replace(
            self,
            events=self.trials - self.events,
            event_clusters=self.clean_clusters,
            clean_clusters=self.event_clusters,
            event_weight=self.clean_weight,
            clean_weight=self.event_weight,
        )

    def pick(self, groups: IntArray) -> _Totals:
        return _Totals(**{name: values[groups] for name, values in vars(self).items()})


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
    return _rates(rows, totals, level, confidence, inference, exact=exact)


def complementary_rates(  # noqa: PLR0913 - those of `clustered_rates`
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
) -> tuple[ClusteredRates, ClusteredRates]:
    """Return the rates of the events, and of the trials without one.

    The design effect and the two-sided intervals treat events and non-events alike, so estimate and
    interval of the second are one minus those of the first; only its ceiling is computed anew.

    Parameters and Raises: those of `clustered_rates`.

    >>> harmed, held = complementary_rates([0, 0], [1, 0], [2, 2])
    >>> float(harmed.estimate[0]), float(held.estimate[0]), int(held.event_clusters[0])
    (0.25, 0.75, 2)
    """
    check_level(level)
    check_level(confidence, "confidence")
    rows, count = _sorted_rows(group, events, trials, groups)
    totals = _totals(rows, count, inference, population)
    rates = _rates(rows, totals, level, confidence, inference, exact=exact)
    others = totals.complement()
    ceilings = _ceilings(rows.complement(), others, confidence)
    return rates, replace(
        rates,
        events=others.events,
        event_clusters=others.event_clusters.astype(np.int64),
        estimate=1.0 - rates.estimate,
        lower=1.0 - rates.upper,
        upper=1.0 - rates.lower,
        ceiling=_known(ceilings, totals),
    )


def _rates(
    rows: _Rows,
    totals: _Totals,
    level: float,
    confidence: float,
    inference: Inference,
    *,
    exact: bool,
) -> ClusteredRates:
    x, n = totals.events, np.where(totals.trials > 0, totals.trials, 1.0)
    effect = _design_effect(totals, 0.5 + level / 2)
    effective = n / effect
    clustered = clopper_pearson(x / effect, effective, level)
    simple = clopper_pearson(x, n, level) if exact else wilson(x, n, level)
    lower = np.where(totals.repeated, clustered.lower, simple.lower)
    upper = np.where(totals.repeated, clustered.upper, simple.upper)
    return ClusteredRates(
        events=x,
        trials=totals.trials,
        clusters=totals.clusters.astype(np.int64),
        event_clusters=totals.event_clusters.astype(np.int64),
        mean_cluster_size=_known(n / np.maximum(totals.clusters, 1.0), totals),
        estimate=_known(x / n, totals),
        design_effect=_known(effect, totals),
        effective_trials=_known(effective, totals),
        lower=_known(lower, totals),
        upper=_known(upper, totals),
        ceiling=_known(_ceilings(rows, totals, confidence), totals),
        method=np.where(totals.repeated, "korn_graubard", "clopper_pearson" if exact else "wilson"),
        level=level,
        confidence=confidence,
        inference=inference,
    )


def _known(values: FloatArray, totals: _Totals) -> MaskedFloats:
    return np.ma.masked_where(totals.trials == 0, values)


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
            picked = totals.pick(batch)
            bounds = _EffectBounds.of(_rows_with_events(rows, batch), picked, confidence)
            ceiling[batch] = _majorant(ceiling[batch], picked, effect[batch], bounds, confidence)
    return ceiling


def _rows_with_events(rows: _Rows, batch: IntArray) -> _Rows:
    """The clusters with an event of some groups, which are numbered by their place in `batch`."""
    near = rows.pick(
        slice(
            np.searchsorted(rows.group, batch[0]),
            np.searchsorted(rows.group, batch[-1], side="right"),
        )
    )
    place = np.full(batch[-1] - batch[0] + 1, -1)
    place[batch - batch[0]] = np.arange(batch.size)
    numbered = replace(near, group=place[near.group - batch[0]])
    return numbered.pick((numbered.group >= 0) & (numbered.events > 0))


def _majorant(
    ceiling: FloatArray,
    totals: _Totals,
    effect: FloatArray,
    bounds: _EffectBounds,
    confidence: float,
) -> FloatArray:
    """Return the ceilings, lifted to the maximum over fewer events (see `clustered_rates`).

    Few candidates lift a ceiling, so they are looked at in blocks. A block's largest count with a
    bound on the design effect of all its counts gives a bound on their ceilings, since the ceiling
    falls neither in the count nor in the design effect. Only a block that might exceed the present
    ceiling is halved, down to single candidates: what is left out could change nothing.
    """
    from scipy import special

    ceiling = ceiling.copy()
    fewer = _Candidates.below(totals.events)
    # No event at all has its own term, so whole counts start from one.
    start = np.where(fewer.offset > 0, 0, 1)
    owner = np.flatnonzero(fewer.count > start)
    start, stop = start[owner], fewer.count[owner]
    while owner.size:
        first, last = fewer.last(owner, start - 1) + 1.0, fewer.last(owner, stop - 1)
        bound = bounds.largest(owner, first, last)
        # Fewer events with no larger a design effect cannot exceed the bound at the data.
        larger = np.flatnonzero(bound > effect[owner])
        owner, start, stop = owner[larger], start[larger], stop[larger]
        last, bound, n = last[larger], bound[larger], totals.trials[owner]
        # One evaluation of the distribution tells whether a candidate exceeds the present ceiling;
        # it costs a third of inverting it.
        covered = special.betainc(last / bound + 1.0, (n - last) / bound, ceiling[owner])
        higher = covered < confidence
        single = higher & (stop - start == 1)
        lifted = upper_bound(last[single] / bound[single], n[single] / bound[single], confidence)
        np.maximum.at(ceiling, owner[single], lifted)
        owner, start, stop = _halves(*(part[higher & ~single] for part in (owner, start, stop)))
    return ceiling


def _halves(owner: IntArray, start: IntArray, stop: IntArray) -> tuple[IntArray, ...]:
    middle = (start + stop) // 2
    return (
        np.concatenate([owner, owner]),
        np.concatenate([start, middle]),
        np.concatenate([middle, stop]),
    )


@dataclass(frozen=True)
class _Candidates:
    """The numbers of events below the observed ones, from few to many.

    Every whole number of events fewer is a candidate. Beyond `SINGLE_COUNTS` whole cells below the
    data share one bound (the worst design effect in the cell with its largest count); the counts of
    the cell that the data lie in stand alone. The cells do not depend on the data, so adding an
    event only ever turns single counts into a cell whose bound is not below theirs.

    count: number of candidates of each group.
    offset: what the numbers of each group exceed whole ones by.
    ends: -1, and then the last whole count of each cell.
    cells: how many candidates of each group are cells.
    """

    count: IntArray
    offset: FloatArray
    ends: FloatArray
    cells: IntArray

    @classmethod
    def below(cls, events: FloatArray) -> _Candidates:
        whole = np.floor(events)
        ends = np.concatenate([[-1.0], _cell_ends(float(whole.max(initial=0.0)))])
        cells = np.searchsorted(ends, whole - 1.0, side="right") - 1
        single = (whole - 1.0 - ends[cells]).clip(0.0).astype(np.int64)
        return cls(cells + single, events - whole, ends, cells)

    def last(self, group: IntArray, index: IntArray) -> FloatArray:
        """Return the largest count of a candidate; of index -1, one less than the first count."""
        cells = self.cells[group]
        beyond = (index + 1 - cells).clip(0)
        last = self.ends[np.minimum(index + 1, cells)] + beyond + self.offset[group]
        return np.asarray(last, np.float64)


def _cell_ends(highest: float) -> FloatArray:
    """Return the last count of each cell up to `highest`: single counts, then widening cells."""
    pieces = [np.arange(min(highest, SINGLE_COUNTS) + 1.0)]
    start, width = float(SINGLE_COUNTS), 1.0
    while start < highest:
        pieces.append(start + width * np.arange(1.0, SINGLE_COUNTS + 1.0))
        start, width = 2.0 * start, 2.0 * width
    ends = np.concatenate(pieces)
    return ends[ends <= highest]


@dataclass(frozen=True)
class _EffectBounds:
    """What bounds the design effect of fewer events, one entry per group."""

    totals: _Totals
    squares: _Filling
    products: _Filling
    factor: FloatArray
    leading: FloatArray
    perfect: FloatArray
    few_with_event: BoolArray
    few_clean: BoolArray

    @classmethod
    def of(cls, rows: _Rows, totals: _Totals, confidence: float) -> _EffectBounds:
        by_events = rows.pick(np.lexsort((-rows.events, rows.group)))
        by_size = rows.pick(np.lexsort((rows.trials, rows.group)))
        ones = np.ones_like(totals.trials)
        return cls(
            totals,
            _Filling.of(by_events, None, totals.trials.size),
            _Filling.of(by_size, by_size.trials, totals.trials.size),
            factor=_linearised_effect(totals, ones, ones) * _freedom_ratio(totals, confidence),
            leading=_most_events_of_few(by_events, totals),
            perfect=_perfect_correlation_effect(totals),
            few_with_event=_few_with_event(totals),
            few_clean=_few_clean(totals),
        )

    def largest(self, owner: IntArray, first: FloatArray, last: FloatArray) -> FloatArray:
        """Return a bound on the effect of all sub-configurations with first ... last events."""
        n = self.totals.trials[owner]
        low, high = first / n, last / n
        spread = (
            self.squares.total(owner, last)
            - 2.0 * low * self.products.total(owner, first)
            + high**2 * self.totals.squared_sizes[owner]
        )
        # The binomial variance is concave in the rate, so its least value in a cell is at one end.
        rate_variance = np.minimum(low * (1 - low), high * (1 - high))
        estimated = np.maximum(self.factor[owner] * spread / rate_variance, 1.0)
        few_possible = (first <= self.leading[owner]) | self.few_clean[owner]
        bound = np.maximum(
            np.where(self.few_with_event[owner], 1.0, estimated),
            np.where(few_possible, self.perfect[owner], 1.0),
        )
        return _with_population(bound, self.totals.fraction[owner])


@dataclass(frozen=True)
class _Filling:
    """Sums of filled * weight where a group's events are placed in the order of its rows.

    A row takes up to its own events, so only the last one may be partly filled. Without a weight
    the sums are those of filled ** 2.

    begin: first row of each group.
    ends, sums: events and sum of the rows before each row, and of all.
    """

    weight: FloatArray | None
    begin: IntArray
    ends: FloatArray
    sums: FloatArray

    @classmethod
    def of(cls, rows: _Rows, weight: FloatArray | None, groups: int) -> _Filling:
        held = rows.events if weight is None else weight
        return cls(
            weight,
            np.searchsorted(rows.group, np.arange(groups)),
            np.concatenate([[0.0], np.cumsum(rows.events)]),
            np.concatenate([[0.0], np.cumsum(rows.events * held)]),
        )

    def total(self, owner: IntArray, amount: FloatArray) -> FloatArray:
        """Return the sums of groups in which `amount` events are placed."""
        begin = self.begin[owner]
        reach = self.ends[begin] + amount
        full = np.searchsorted(self.ends, reach, side="right") - 1
        full = np.clip(full, 0, self.ends.size - 2)
        rest = reach - self.ends[full]
        tail = rest * (rest if self.weight is None else self.weight[full])
        return np.asarray(self.sums[full] - self.sums[begin] + tail, np.float64)


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
