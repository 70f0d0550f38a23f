"""How many trials, items and repeats a statement about a rate needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.rates.components import VarianceComponents
from safemetry.rates.intervals import FloatArray, check_level, normal_quantile

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class RepeatsPlan:
    """Variance of one target's mean under plans of items and epochs; None with the reason in `why`.

    variance, standard_error: arrays over the broadcast plans.
    difference_variance: variance of the difference of two targets on the same items, where the
    items' own difficulty cancels.
    """

    items: FloatArray
    epochs: FloatArray
    judges: FloatArray
    variance: FloatArray | None
    standard_error: FloatArray | None
    difference_variance: FloatArray | None
    why: str | None


def trials_for_ceiling(ceiling: float, failures: int = 0, confidence: float = 0.95) -> int:
    """Return the fewest independent trials that put the exact ceiling at or under a value.

    Parameters: `ceiling` rate to stay under, in (0, 1); `failures` number of events that the plan
    must survive, >= 0; `confidence` one-sided, in (0, 1).

    Returns: the smallest n with `upper_bound(failures, n, confidence) <= ceiling`.

    Raises: ValueError for impossible parameters.

    Source: Clopper & Pearson (1934), Biometrika 26, upper limit solved for the number of trials.

    >>> trials_for_ceiling(0.001), trials_for_ceiling(0.001, failures=1)
    (2995, 4742)
    """
    from scipy import special

    check_level(ceiling, "ceiling")
    check_level(confidence, "confidence")
    if failures < 0:
        raise ValueError(f"failures must be at least 0, got {failures}")
    if failures == 0:
        # The closed form stays exact where alpha ** (1 / n) rounds to 1.
        trials = math.log1p(-confidence) / math.log1p(-ceiling)
        # A whole quotient (99% against 90%) may come out a rounding error above itself.
        return max(1, math.ceil(trials * (1 - 1e-15 * 8)))

    def enough(trials: int) -> bool:
        return bool(special.betainc(failures + 1.0, trials - failures, ceiling) >= confidence)

    # A Poisson count is a good first guess for rare events and too large for common ones.
    guess = float(special.gammaincinv(failures + 1.0, confidence)) / ceiling
    low, high = failures, max(failures + 1, math.ceil(guess))
    while not enough(high):
        low, high = high, 2 * high
    step = 1
    while high - step > low:
        if not enough(high - step):
            low = high - step
            break
        high, step = high - step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def trials_for_width(rate: float, half_width: float, level: float = 0.95) -> int:
    """Return the fewest independent trials whose Wilson interval is as narrow as asked.

    Parameters: `rate` expected, in [0, 1]; `half_width` half the interval's length, in (0, .5);
    `level` two-sided confidence in (0, 1). Clustered trials need this times their design effect.

    Returns: the smallest n at which half the Wilson interval around the expected rate is at most
    `half_width`; the width falls in n throughout, so every larger n serves too.

    Raises: ValueError for impossible parameters.

    Source: Wilson (1927), the half width solved for n, a quadratic equation.

    >>> trials_for_width(0.5, 0.05)
    381
    """
    check_level(level)
    if not 0.0 <= rate <= 1.0 or not 0.0 < half_width < 0.5:
        raise ValueError("rate must lie in [0, 1] and half_width between 0 and .5")
    square = normal_quantile(0.5 + level / 2) ** 2

    def enough(trials: int) -> bool:
        variance = rate * (1 - rate) * trials + square / 4
        return math.sqrt(square * variance) / (trials + square) <= half_width

    # half_width**2 (n + z**2)**2 = z**2 (rate (1 - rate) n + z**2 / 4)
    slope = square * (rate * (1 - rate) - 2 * half_width**2)
    constant = square**2 * (0.25 - half_width**2)
    root = (slope + math.sqrt(slope**2 + 4 * half_width**2 * constant)) / (2 * half_width**2)
    trials = max(1, math.floor(root))
    while not enough(trials):
        trials += 1
    return trials


def repeats_plan(
    components: VarianceComponents,
    items: ArrayLike,
    epochs: ArrayLike,
    judges: ArrayLike = 1,
) -> RepeatsPlan:
    """Return how precise one target's mean would be, so that items trade against repeats.

    Parameters: `components` estimated variance components; `items` number of items, `epochs`
    responses to each, `judges` on each response, all >= 1 and broadcast together.

    Returns: the variance of a target's mean over new items, responses and judges,
    (item + target:item) / I + epoch / (I E) + (judge + target:judge) / J + item:judge / (I J) +
    residual / (I E J), and that of a difference of two targets on the same items and judges, where
    item, judge and item:judge cancel. With one response for each target and item, what repeats
    would show cannot be told from target:item (with one target, from item); a plan without repeats
    divides both by I, so it is known, and one with repeats is not. None where a component that the
    plan divides is unknown.

    Raises: ValueError for numbers under 1.

    Source: Brennan (2001), Generalizability Theory, section 4.4 (absolute error of a D study).

    >>> from safemetry.rates.components import VarianceComponents
    >>> known = VarianceComponents(0.01, 0.05, None, 0.04, None, None, None, 0.1, {}, {}, {}, 0.2)
    >>> repeats_plan(known, [100, 50], [1, 2]).variance.round(6).tolist()
    [0.0019, 0.0028]
    """
    i, e, j = np.broadcast_arrays(
        *(np.asarray(number, np.float64) for number in (items, epochs, judges))
    )
    if not all((number >= 1).all() for number in (i, e, j)):
        raise ValueError("items, epochs and judges must be at least 1")
    why = _unplannable(components, e, j)
    rest = components.residual
    if why is not None or rest is None:
        return RepeatsPlan(i, e, j, None, None, None, why)
    # A component that is part of another one adds nothing of its own.
    item, own = components.item or 0.0, components.target_item or 0.0
    response = (components.epoch or 0.0) / (i * e) + rest / (i * e * j)
    judge = (components.judge or 0.0) + (components.item_judge or 0.0) / i
    own_judge = components.target_judge or 0.0
    variance = (item + own) / i + response + (judge + own_judge) / j
    why = None
    if components.target_item is None and components.merged.get("target_item") != "residual":
        why = "one target: how items differ between targets is unknown"
    elif components.item is None:
        why = "no item was put to two targets: what they have in common is unknown"
    if why is not None:
        return RepeatsPlan(i, e, j, variance, np.sqrt(variance), None, why)
    difference = 2 * (own / i + response + own_judge / j)
    return RepeatsPlan(i, e, j, variance, np.sqrt(variance), difference, None)


def _unplannable(
    components: VarianceComponents, epochs: FloatArray, judges: FloatArray
) -> str | None:
    merged = components.merged
    if components.residual is None:
        return components.why.get("residual", "residual is unknown")
    # Repeats can be planned only where items were told apart from their responses.
    undivided = merged.get("epoch") in {"item", "target_item"}
    undivided |= merged.get("target_item") == "residual"
    undivided |= merged.get("item") == "residual" and components.target_item is None
    if undivided and (epochs > 1).any():
        return "one response for each target and item: the spread between repeats is unknown"
    if components.item is None and not (undivided and merged.get("item") == "residual"):
        return components.why.get("item", "item is unknown")
    if components.target_item is None and merged.get("target_item") not in {"item", "residual"}:
        return components.why.get("target_item", "target_item is unknown")
    if components.judge is None and (judges > 1).any():
        return "one judge: the spread between judges is unknown"
    return None
