"""Which benchmarks run against the others, and what that may mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from scipy.stats import norm

from safemetry.evidence.schema import Intent
from safemetry.irt.parameters import BoolArray, FloatArray

_LEVEL: Final = 0.95
_FEWEST: Final = 4
_NAMED: Final = 3
_ALMOST_NOTHING: Final = 0.3
"""Correlations of at most this size explain less than a tenth of the variance."""
_WITH = "runs with the rest"
_UNRELATED = "shares almost nothing with the rest: a trait of its own, or noise"
_SOME = "goes with some of the others, neither with nor against their sum"
_NEITHER = "cannot be told to run with or against the rest"
_TRADED = (
    "runs against the rest: safety traded for usefulness, as over-refusal sets do, and no sign "
    "that it is flipped"
)
_CHECK = "runs against the rest: check whether its score or labels are flipped"
_OPEN = (
    "runs against the rest: flipped, or safety traded for usefulness as over-refusal sets do; its "
    "intent would tell"
)


@dataclass(frozen=True)
class Coherence:
    """How one benchmark goes with the others.

    Parameters
    ----------
    benchmark
        Its name.
    intent
        ``harmful`` or ``benign`` where all its items have it, else None.
    with_rest
        Correlation with the sum of the other standardised scores, those of benign benchmarks left
        out.
    interval
        95% interval of it (Fisher 1921).
    runs_against
        Whether that interval lies below 0.
    unrelated
        Whether that interval covers 0 and lies within -.3 and .3, and no correlation with a single
        other benchmark differs from 0 (95% intervals, Bonferroni over the others).
    opposed
        The benchmarks that it correlates most negatively with, as far as their intervals lie
        below 0.
    reading
        What it may mean, in words.
    """

    benchmark: str
    intent: str | None
    with_rest: float | None
    interval: tuple[float, float] | None
    runs_against: bool
    unrelated: bool
    opposed: tuple[str, ...]
    reading: str
    why: Mapping[str, str] = field(default_factory=dict)


def sign_coherence(
    names: Sequence[str],
    correlations: FloatArray,
    subjects: int,
    intents: Mapping[str, str | None] | None = None,
) -> tuple[Coherence, ...]:
    """Compare each benchmark with the composite of the others.

    A benchmark whose intent is benign is never called flipped: a correctly scored over-refusal set
    runs against refusal. It is no evidence either that a safety benchmark is flipped, so it is not
    part of the composite.

    Parameters
    ----------
    names
        Of the p benchmarks.
    correlations
        Shape ``(p, p)``.
    subjects
        n.
    intents
        Benchmark -> its intent, where known.

    Examples
    --------
    >>> matrix = np.array([[1, 0.6, -0.5], [0.6, 1, -0.5], [-0.5, -0.5, 1]])
    >>> found = sign_coherence(["a", "b", "c"], matrix, 100, {"c": "benign"})
    >>> found[2].runs_against, found[0].runs_against
    (True, False)
    """
    known = intents or {}
    benign = np.array([known.get(name) == Intent.BENIGN for name in names])
    below = _fisher(correlations, subjects)[1] < 0
    low, high = _fisher(correlations, subjects, tests=len(names) - 1)
    related = (low > 0) | (high < 0)
    np.fill_diagonal(related, val=False)
    found = (
        _one(place, names, correlations, subjects, ~benign, below[place], known.get(name))
        for place, name in enumerate(names)
    )
    return tuple(
        replace(row, unrelated=False, reading=_SOME) if row.unrelated and any_related else row
        for row, any_related in zip(found, np.logical_or.reduce(related, axis=1), strict=True)
    )


def _one(
    place: int,
    names: Sequence[str],
    correlations: FloatArray,
    subjects: int,
    counted: BoolArray,
    below: BoolArray,
    intent: str | None,
) -> Coherence:
    others = counted.copy()
    others[place] = False
    variance = float(correlations[np.ix_(others, others)].sum())
    order = np.argsort(correlations[place], kind="stable")
    opposed = tuple(names[other] for other in order[:_NAMED] if below[other] and other != place)
    if not others.any() or variance <= 1e-9:
        reason = "the others cancel out" if others.any() else "every other benchmark is benign"
        return Coherence(
            names[place],
            intent,
            None,
            None,
            runs_against=False,
            unrelated=False,
            opposed=opposed,
            reading=_NEITHER,
            why=dict.fromkeys(("with_rest", "interval"), reason) | _no_intent(intent),
        )
    value = float(np.clip(correlations[place, others].sum() / np.sqrt(variance), -1, 1))
    interval, why = None, _no_intent(intent)
    if subjects >= _FEWEST:
        ends = _fisher(np.array([value]), subjects)
        interval = (float(ends[0][0]), float(ends[1][0]))
    else:
        why["interval"] = f"{subjects} subjects are too few"
    against = interval is not None and interval[1] < 0
    unrelated = interval is not None and (
        -_ALMOST_NOTHING <= interval[0] <= 0 <= interval[1] <= _ALMOST_NOTHING
    )
    return Coherence(
        names[place],
        intent,
        value,
        interval,
        runs_against=against,
        unrelated=unrelated,
        opposed=opposed,
        reading=_UNRELATED if unrelated else _reading(intent, interval, against=against),
        why=why,
    )


def _no_intent(intent: str | None) -> dict[str, str]:
    return {} if intent else {"intent": "the intent of its items is not known, or differs"}


def _reading(intent: str | None, interval: tuple[float, float] | None, *, against: bool) -> str:
    if not against:
        return _WITH if interval is not None and interval[0] > 0 else _NEITHER
    if intent == Intent.BENIGN:
        return _TRADED
    return _CHECK if intent == Intent.HARMFUL else _OPEN


def _fisher(values: FloatArray, subjects: int, *, tests: int = 1) -> tuple[FloatArray, FloatArray]:
    """Ends of the intervals of correlations (Fisher 1921), all of which hold together."""
    if subjects < _FEWEST:
        return np.full(values.shape, -1.0), np.full(values.shape, 1.0)
    middle = np.arctanh(np.clip(values, -1 + 1e-12, 1 - 1e-12))
    reach = float(norm.ppf(1 - (1 - _LEVEL) / 2 / tests)) / np.sqrt(subjects - 3)
    return np.tanh(middle - reach), np.tanh(middle + reach)
