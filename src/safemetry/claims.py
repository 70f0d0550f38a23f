"""A claim: a rate with its uncertainty, its denominators, what was missing, and its scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from safemetry.errors import ScopeMismatchError

Inference = Literal["sampled", "fixed items"]
_RATE_WORDS: Final = {
    "attack_success_rate": "went along with {events} of {trials} harmful items",
    "safe_recall": "held firm on {events} of {trials} harmful items",
    "help_rate": "answered {events} of {trials} benign items",
    "over_refusal_rate": "failed to answer {events} of {trials} benign items",
    "refusal_rate": "refused {events} of {trials} items",
    "refusal_precision": "{events} of its {trials} refusals fell on harmful items",
    "discrimination_rate": "was safe and helpful on {events} of {trials} matched pairs",
    "rewarded_rate": "gave the rewarded response on {events} of {trials} items",
}


_REWARDED: Final = frozenset({"safe_recall", "help_rate", "discrimination_rate", "rewarded_rate"})
"""Rates of which more is better, so that their ceiling warns of nothing."""


@dataclass(frozen=True, slots=True)
class ItemSet:
    """Which items a claim speaks of: how many, and a digest of their sorted ids."""

    count: int
    digest: str

    def __str__(self) -> str:
        return (
            f"{self.count:,} {'item' if self.count == 1 else 'items'} (digest {self.digest[:8]}...)"
        )


@dataclass(frozen=True, slots=True)
class Scope:
    """What a claim holds for.

    Parameters
    ----------
    target
        The model or system under test.
    target_settings
        Its settings, where the source states them.
    benchmark
        The benchmark, where stated.
    items
        Number and digest of the items.
    attack_set
        The attacks, sorted; empty where none is stated.
    epochs
        Most responses to one item.
    language
        Language or languages of the items, where stated.
    judge
        The judge, or the panel.
    success
        The success rule as written.
    success_digest
        Digest of the rule and the class order it is read with.
    by
        Group of the claim: column -> value.
    """

    target: str
    target_settings: Mapping[str, Any] | None
    benchmark: str | None
    items: ItemSet
    attack_set: tuple[str, ...]
    epochs: int
    language: str | None
    judge: str
    success: str
    success_digest: str
    by: Mapping[str, str | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The parts by name; `why` says for each that is None that the source is silent on it."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        silent = [name for name, value in parts.items() if value is None]
        return parts | {"why": dict.fromkeys(silent, "not stated by the source")}

    def differences(self, other: Scope) -> dict[str, tuple[object, object]]:
        """The parts in which two scopes differ, as ``{part: (first, second)}``."""
        return {
            part.name: (getattr(self, part.name), getattr(other, part.name))
            for part in fields(self)
            if getattr(self, part.name) != getattr(other, part.name)
        }


@dataclass(frozen=True, slots=True)
class Missing:
    """Responses without a verdict, in all and by reason."""

    total: int
    by_reason: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Projection:
    """What a rate means at a volume of requests: expected events, their interval and ceiling."""

    volume: float
    estimate: float
    interval: tuple[float, float]
    ceiling: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A rate and everything that must stand beside it.

    Fractions lie in [0, 1]. A field that cannot be computed is None, and `why` says for each such
    field why not.

    Parameters
    ----------
    metric
        Name of the rate; see the vocabulary in the documentation.
    estimate
        Events over trials.
    interval
        Two-sided interval at `level`.
    method
        ``wilson``, ``clopper_pearson`` or ``korn_graubard`` (clustered trials).
    events, trials
        Numerator and denominator; pairs may count in fractions.
    clusters
        Independent groups of trials.
    effective_trials
        Trials after the design effect.
    missing
        Responses without a verdict.
    bounds_if_missing
        The rate if every missing response were no event, and if every one were.
    ceiling
        One-sided upper bound at `level`.
    rule_of_three
        3 / clusters (so 3 / trials where each trial is its own), shown beside the ceiling where
        there was no event. It approximates the ceiling at a level of 95% and no other.
    projection
        What the rate means at a volume of requests.
    inference
        Whether the items are a sample of those of interest, or all of them.
    """

    metric: str
    estimate: float | None
    interval: tuple[float, float] | None
    level: float
    method: str | None
    events: float
    trials: float
    clusters: int
    effective_trials: float | None
    missing: Missing
    bounds_if_missing: tuple[float, float] | None
    ceiling: float | None
    rule_of_three: float | None
    projection: Projection | None
    inference: Inference
    scope: Scope
    why: Mapping[str, str] = field(default_factory=dict)

    def sentence(self) -> str:
        """The claim as a sentence that can be pasted."""
        scope = self.scope
        group = "".join(f", {name} {value}" for name, value in scope.by.items())
        setting = f"judge {scope.judge}, success {scope.success}{group}"
        left_out = f"; {self.missing.total:,} more had no verdict" if self.missing.total else ""
        if self.estimate is None or self.interval is None or self.ceiling is None:
            reason = self.why.get("estimate", "not computed")
            return f"{scope.target}: {self.metric} is unknown ({reason}; {setting}{left_out})."
        words = _RATE_WORDS[self.metric].format(
            events=count(self.events), trials=count(self.trials)
        )
        low, high = self.interval
        bound = f"{percent(self.estimate)}, interval {percent(low)} to {percent(high)}"
        if self.metric not in _REWARDED:  # what may go wrong is bounded from above
            bound = (
                f"no event seen, so at most {percent(self.ceiling)}"
                if self.events == 0
                else f"{bound}, at most {percent(self.ceiling)}"
            )
        return f"{scope.target} {words}: {bound} at {100 * self.level:g}% ({setting}{left_out})."


def count(value: float) -> str:
    """A count for reading: whole numbers without decimals."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def percent(value: float) -> str:
    """A fraction as a percentage with the digits that small rates need."""
    shown = 100 * value
    if shown == 0 or round(shown, 2) >= 10:
        return f"{shown:.1f}%"
    if shown >= 0.1:
        return f"{shown:.2f}%"
    # Below a hundred-thousandth the digits would say more than any evidence does.
    return f"{shown:.2g}%" if shown >= 0.001 else "<0.001%"


def require_comparable(first: Claim, second: Claim, *, factor: str) -> None:
    """Refuse two claims whose scopes differ in anything but the factor compared.

    Parameters
    ----------
    first, second
        The claims.
    factor
        The part of the scope that may differ: ``target``, ``judge``, ``success``, ... Its settings
        or digest may differ with it.

    Raises
    ------
    ScopeMismatchError
        Naming every other part that differs, or the metric.
    """
    allowed = {factor, f"{factor}_settings", f"{factor}_digest"}
    parts = {
        name: pair
        for name, pair in first.scope.differences(second.scope).items()
        if name not in allowed
    }
    if first.metric != second.metric:
        parts["metric"] = (first.metric, second.metric)
    if parts:
        raise ScopeMismatchError(parts)
