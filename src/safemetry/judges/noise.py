"""The noise floor: how often a judge contradicts itself, and what that does to a rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betainc, betaln, expit, gammaln

from safemetry.judges.counts import share_interval
from safemetry.judges.panel import CodeArray, IntArray, Panel
from safemetry.judges.spread import boundaries
from safemetry.rates.intervals import normal_quantile

FloatArray = NDArray[np.float64]
MOST_PAIRS: Final = 400
_NODES: Final = 2000
_VOTES: Final = (1, 3, 5)
_STARTS: Final = (0.1, 1.0, 5.0, 50.0)
"""Sums of the two shapes to start from: from calls that never differ to calls at random."""


@dataclass(frozen=True)
class Flips:
    """How often two calls of one judge on the same response differ.

    Parameters
    ----------
    judge
        The judge.
    responses, calls
        Responses with two verdicts at least, and the most calls of one.
    overall, interval
        Chance that two calls differ in class, averaged over responses (unbiased), with its
        interval, widened for clusters.
    by_class
        The same among the responses whose majority is that class; None where there is none.
    by_boundary
        Boundary -> number of calls that vote (1, 3, 5) -> chance that two such majorities differ.
        One call is the unbiased estimate; more are of a beta-binomial model of the responses.
    """

    judge: str
    responses: int
    calls: int
    overall: float
    interval: tuple[float, float]
    by_class: Mapping[str, float | None]
    by_boundary: Mapping[str, Mapping[str, float]]
    why: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the row; a class without a rate has its reason beside it."""
        made = asdict(self)
        why = made.pop("why")
        if why:
            made["by_class"] |= {"why": dict(why)}
        return made


@dataclass(frozen=True)
class NoisyDifference:
    """Two targets under one judge and boundary, beside what judging again would change.

    Parameters
    ----------
    judge, boundary, intent, targets
        What is compared.
    difference
        Rate of the first target less that of the second, as means over all calls.
    noise
        Half-width of the interval in which the difference would lie, were the targets equal and
        only the judging repeated, as often as here.
    exceeds
        Whether the difference is larger. It says nothing of other items: that is `compare`'s part.
    """

    judge: str
    boundary: str
    intent: str | None
    targets: tuple[str, str]
    difference: float
    noise: float
    exceeds: bool

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the row."""
        made = asdict(self)
        if self.intent is None:
            made["why"] = {"intent": "the items say nothing of what they ask for"}
        return made


@dataclass(frozen=True)
class NoiseFloor:
    """Repeated calls of all judges that have them.

    Parameters
    ----------
    flips
        One row per judge with repeated calls.
    differences
        Pairs of targets.
    without
        Judges with one call a response.
    """

    flips: tuple[Flips, ...]
    differences: tuple[NoisyDifference, ...]
    without: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the part."""
        return {
            "flips": [row.to_dict() for row in self.flips],
            "differences": [row.to_dict() for row in self.differences],
            "without_repeated_calls": list(self.without),
        }


def measure_noise(panel: Panel, *, level: float = 0.95) -> NoiseFloor:
    """How often calls flip, what a majority of calls buys, and which differences exceed the noise.

    Parameters
    ----------
    panel
        The panel.
    level
        Confidence of intervals, and of the noise around a difference.
    """
    flips: list[Flips] = []
    differences: list[NoisyDifference] = []
    without: list[str] = []
    for place, judge in enumerate(panel.judges):
        votes = votes_of(panel.calls[:, :, place], len(panel.classes))
        repeated = votes.sum(axis=0) >= 2
        if not repeated.any():
            without.append(judge)
            continue
        flips.append(_flips(panel, judge, votes[:, repeated], panel.cluster[repeated], level))
        differences += list(_differences(panel, place, votes, level))
    return NoiseFloor(tuple(flips), tuple(differences[:MOST_PAIRS]), tuple(without))


def votes_of(calls: CodeArray, classes: int) -> NDArray[np.int64]:
    """How many calls gave each class to each response, shape ``(K, R)``; `calls` is ``(C, R)``."""
    return np.stack([(calls == code).sum(axis=0) for code in range(classes)])


def disagreement(votes: NDArray[np.int64]) -> FloatArray:
    """Share of the pairs of calls that differ, for each response with two calls at least.

    The unbiased estimate of the chance that two calls differ: 1 - sum_k n_k (n_k - 1) / n (n - 1).

    Examples
    --------
    >>> disagreement(np.array([[3, 2, 1], [0, 1, 1], [0, 0, 1]])).round(3)
    array([0.   , 0.667, 1.   ])
    """
    n = votes.sum(axis=0)
    same = (votes * (votes - 1)).sum(axis=0)
    found: FloatArray = 1 - same / (n * (n - 1))
    return found


def _flips(
    panel: Panel, judge: str, votes: NDArray[np.int64], cluster: IntArray, level: float
) -> Flips:
    differ = disagreement(votes)
    leader, ties = votes.argmax(axis=0), (votes == votes.max(axis=0)).sum(axis=0) > 1
    by_class: dict[str, float | None] = {}
    why = {}
    for code, name in enumerate(panel.classes):
        inside = (leader == code) & ~ties
        by_class[name] = float(differ[inside].mean()) if inside.any() else None
        if not inside.any():
            why[name] = "no response has this class by majority"
    by_boundary = {}
    for boundary, first in boundaries(panel.classes, panel.ordered):
        events, trials = votes[first : panel.ordered].sum(axis=0), votes.sum(axis=0)
        chance = 2 * events * (trials - events) / (trials * (trials - 1))
        shape = beta_binomial(events, trials)
        by_boundary[boundary] = {"1": float(chance.mean())} | {
            str(k): majority_flips(*shape, k) for k in _VOTES[1:]
        }
    return Flips(
        judge=judge,
        responses=votes.shape[1],
        calls=int(votes.sum(axis=0).max()),
        overall=float(differ.mean()),
        interval=share_interval(differ, cluster, level),
        by_class=by_class,
        by_boundary=by_boundary,
        why=why,
    )


def beta_binomial(events: NDArray[np.integer], trials: NDArray[np.integer]) -> tuple[float, float]:
    """Maximum-likelihood shapes of the beta distribution of a response's chance of a success.

    Skellam (1948), Journal of the Royal Statistical Society B 10, 257-261. Shapes stay between
    1e-4 and 1e4: calls that never differ have no finite maximum. The best of several starts is
    kept, since the likelihood is flat where both shapes are large.
    """
    pairs, weights = np.unique(np.stack([events, trials]), axis=1, return_counts=True)
    x, n = pairs.astype(np.float64)

    def loss(logs: FloatArray) -> float:
        a, b = np.exp(logs)
        terms = betaln(x + a, n - x + b) - betaln(a, b)
        return -float(weights @ terms)

    mean = np.clip(x @ weights / (n @ weights), 1e-3, 1 - 1e-3)
    bound = (np.log(1e-4), np.log(1e4))
    found = [
        minimize(loss, np.log([total * mean, total * (1 - mean)]), bounds=[bound, bound])
        for total in _STARTS
    ]
    a, b = np.exp(min(found, key=lambda result: float(result.fun)).x)
    return float(a), float(b)


def majority_flips(a: float, b: float, calls: int) -> float:
    """Chance that two majorities of an odd number of calls differ, chances being Beta(a, b).

    The mean of 2 q (1 - q) with q = I_p((k + 1) / 2, (k + 1) / 2), which is the chance that more
    than half of k calls succeed.

    Examples
    --------
    >>> round(majority_flips(1e4, 1e4, 3), 2), majority_flips(1e-4, 1e-4, 3) < 0.001
    (0.5, True)
    """
    half = (calls + 1) / 2
    # In log-odds the density has no poles, however small the shapes are.
    reach = 40 / min(1.0, a, b)
    odds = np.sinh(np.linspace(-np.arcsinh(reach), np.arcsinh(reach), _NODES))
    p = expit(odds)
    log_density = -a * np.logaddexp(0, -odds) - b * np.logaddexp(0, odds)
    log_density += gammaln(a + b) - gammaln(a) - gammaln(b)
    weights = np.exp(log_density) * np.gradient(odds)
    q = betainc(half, half, p)
    return float((weights * 2 * q * (1 - q)).sum() / weights.sum())


def _differences(
    panel: Panel, place: int, votes: NDArray[np.int64], level: float
) -> Iterator[NoisyDifference]:
    """Pairs of targets, those nearest in rate first where there are too many."""
    trials = votes.sum(axis=0)
    for intent, chosen in panel.intents():
        for boundary, first in boundaries(panel.classes, panel.ordered):
            events = votes[first : panel.ordered].sum(axis=0)
            rates: dict[str, tuple[float, float]] = {}
            for t, target in enumerate(panel.target.names):
                rows = chosen & (panel.target.codes == t) & (trials >= 2)
                if rows.any():
                    n, x = trials[rows], events[rows]
                    noise = (x * (n - x) / (n * n * (n - 1))).sum() / rows.sum() ** 2
                    rates[target] = (float((x / n).mean()), float(noise))
            ranked = sorted(rates, key=lambda name: -rates[name][0])
            pairs = combinations(ranked, 2) if len(ranked) <= 12 else pairwise(ranked)
            for high, low in pairs:
                gap = rates[high][0] - rates[low][0]
                half = normal_quantile((1 + level) / 2) * (rates[high][1] + rates[low][1]) ** 0.5
                yield NoisyDifference(
                    panel.judges[place], boundary, intent, (high, low), gap, half, gap > half
                )
