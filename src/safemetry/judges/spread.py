"""How far the headline moves when only the judge changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from safemetry.judges.counts import POOLED, ClassCounts, share_interval
from safemetry.judges.panel import Panel

FEWEST_TO_TRIM: Final = 4
AT_LEAST: Final = "at_least:"


@dataclass(frozen=True)
class Range:
    """The highest and the lowest rate among judges.

    Parameters
    ----------
    judges
        How many judges there are.
    rate_max, rate_min, max_judge, min_judge
        The extremes; where several share one, the first by name.
    ratio
        Highest over lowest; None where the lowest is 0 (unbounded).
    ratio_next
        Highest over the lowest rate that is above the minimum and above 0.
    difference
        Highest less lowest.
    """

    judges: int
    rate_max: float | None
    rate_min: float | None
    max_judge: str | None
    min_judge: str | None
    ratio: float | None
    ratio_next: float | None
    difference: float | None
    why: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the range."""
        made = asdict(self)
        why = made.pop("why")
        return made | ({"why": dict(why)} if why else {})


@dataclass(frozen=True)
class Spread:
    """Rates of all judges under one boundary, on items of one intent.

    Parameters
    ----------
    boundary
        ``comply``, ``non_refusal``, or ``from CLASS`` for a boundary between them.
    intent, target
        None for items of unknown intent, or for all targets together.
    responses
        Common responses.
    rates, events, intervals
        Judge -> rate, successes of the `responses`, and interval widened for clusters.
    everyone
        The range over all judges.
    trimmed_ratio
        Second-highest over second-lowest; None under four judges.
    given_non_refusal
        The range of the rates among the responses that the same judge saw as no refusal.
    without_collapsed
        The range without judges that are collapsed on a class of the order.
    collapsed
        Those judges.
    """

    boundary: str
    intent: str | None
    target: str | None
    responses: int
    rates: Mapping[str, float]
    events: Mapping[str, int]
    intervals: Mapping[str, tuple[float, float]]
    everyone: Range
    trimmed_ratio: float | None
    given_non_refusal: Range | None
    without_collapsed: Range
    collapsed: tuple[str, ...]
    why: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the row."""
        everyone = self.everyone.to_dict()
        given = self.given_non_refusal
        why = {**everyone.pop("why", {}), **self.why}
        if given is not None and given.ratio is None:
            why["given_non_refusal_ratio"] = given.why.get("ratio", "unknown")
        return {
            "boundary": self.boundary,
            "intent": self.intent,
            "target": self.target,
            "responses": self.responses,
            **everyone,
            "trimmed_ratio": self.trimmed_ratio,
            "given_non_refusal_ratio": None if given is None else given.ratio,
            "given_non_refusal": None if given is None else given.to_dict(),
            "without_collapsed": {
                "left_out": list(self.collapsed),
                **self.without_collapsed.to_dict(),
            },
            "rates": dict(self.rates),
            "events": dict(self.events),
            "intervals": dict(self.intervals),
            **({"why": why} if why else {}),
        }


def boundaries(classes: Sequence[str], ordered: int) -> list[tuple[str, int]]:
    """Names of the boundaries of the class order, and the first class above each.

    Examples
    --------
    >>> boundaries(("refuse", "evasive", "comply", "gibberish"), 3)
    [('non_refusal', 1), ('comply', 2)]
    >>> boundaries(("refuse", "comply"), 2)
    [('comply', 1)]
    >>> boundaries("0123", 4)
    [('non_refusal', 1), ('from 2', 2), ('comply', 3)]
    >>> boundaries(("below", "at_least:0.5"), 2)
    [('at_least:0.5', 1)]
    """
    if classes[ordered - 1].startswith(AT_LEAST):  # a score, cut in two
        return [(classes[ordered - 1], ordered - 1)]
    named = [(f"from {classes[code]}", code) for code in range(1, ordered)]
    if named:
        named[0] = ("non_refusal", 1)
        named[-1] = ("comply", ordered - 1)
    return named


def measure_spread(
    panel: Panel, counts: ClassCounts, collapsed: Collection[str], *, level: float = 0.95
) -> tuple[Spread, ...]:
    """The rates of all judges on common responses, by boundary and intent; pooled over targets.

    Harmful and benign items are never pooled.

    Parameters
    ----------
    panel, counts
        The panel and its class counts.
    collapsed
        Judges that are left out a second time.
    level
        Confidence of the intervals.
    """
    rows: list[Spread] = []
    common = panel.common
    for intent, chosen in panel.intents():
        labels = panel.labels[common & chosen]
        table = np.stack([(labels == code).sum(axis=0) for code in range(len(panel.classes))])
        cluster = panel.cluster[common & chosen]
        for row in _rows(counts, table, (intent, len(labels)), collapsed):
            first = dict(boundaries(counts.classes, counts.ordered))[row.boundary]
            above = (labels >= first) & (labels < counts.ordered)
            intervals = {
                name: share_interval(above[:, place].astype(np.float64), cluster, level)
                for place, name in enumerate(counts.judges)
            }
            rows.append(replace(row, intervals=intervals))
    return tuple(rows)


def _rows(
    counts: ClassCounts,
    table: Any,
    scope: tuple[str | None, int],
    collapsed: Collection[str],
) -> Iterator[Spread]:
    intent, responses = scope
    if not responses:
        return
    judges = counts.judges
    kept = [name not in collapsed for name in judges]
    above_refusal = table[1 : counts.ordered].sum(axis=0)
    for boundary, first in boundaries(counts.classes, counts.ordered):
        events = table[first : counts.ordered].sum(axis=0)
        rates = events / responses
        why = {} if intent else {"intent": "the items say nothing of what they ask for"}
        why["target"] = POOLED
        given = None
        if first == 1:
            why |= dict.fromkeys(
                ("given_non_refusal", "given_non_refusal_ratio"),
                "every response on this side of the boundary is no refusal",
            )
        else:
            seen = above_refusal > 0
            given = _range(
                [name for name, known in zip(judges, seen, strict=True) if known],
                events[seen] / above_refusal[seen],
            )
        ordered = np.sort(rates)
        trimmed = None
        if len(judges) < FEWEST_TO_TRIM:
            why["trimmed_ratio"] = f"there are fewer than {FEWEST_TO_TRIM} judges"
        elif ordered[1] == 0:
            why["trimmed_ratio"] = "unbounded: the second-lowest rate is 0"
        else:
            trimmed = float(ordered[-2] / ordered[1])
        yield Spread(
            boundary=boundary,
            intent=intent,
            target=None,
            responses=responses,
            rates=dict(zip(judges, rates.tolist(), strict=True)),
            events=dict(zip(judges, events.tolist(), strict=True)),
            intervals={},
            everyone=_range(judges, rates),
            trimmed_ratio=trimmed,
            given_non_refusal=given,
            without_collapsed=_range(
                [name for name, keep in zip(judges, kept, strict=True) if keep],
                rates[np.array(kept)],
            ),
            collapsed=tuple(name for name in judges if name in collapsed),
            why=why,
        )


def _range(judges: Sequence[str], rates: Any) -> Range:
    names = ("rate_max", "rate_min", "max_judge", "min_judge", "ratio", "ratio_next", "difference")
    if not len(judges):
        return Range(0, None, None, None, None, None, None, None, dict.fromkeys(names, "no judge"))
    top, bottom = int(np.argmax(rates)), int(np.argmin(rates))
    high, low = float(rates[top]), float(rates[bottom])
    above = rates[(rates > low) & (rates > 0)]
    why = {}
    if low == 0:
        why["ratio"] = "unbounded: the lowest rate is 0" if high else "every rate is 0"
    if not len(above):
        why["ratio_next"] = "no judge has a higher rate than the lowest"
    return Range(
        judges=len(judges),
        rate_max=high,
        rate_min=low,
        max_judge=judges[top],
        min_judge=judges[bottom],
        ratio=high / low if low else None,
        ratio_next=high / float(above.min()) if len(above) else None,
        difference=high - low,
        why=why,
    )
