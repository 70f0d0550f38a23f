"""Which responses a report shows as examples: a few of each target, the same ones every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, zip_longest
from operator import or_
from typing import Any, Final

import narwhals.stable.v2 as nw

from safemetry.evidence.evidence import Evidence
from safemetry.evidence.outcomes import responses
from safemetry.evidence.schema import RESPONSE_KEY, Intent
from safemetry.evidence.success import Aggregation, SuccessRule
from safemetry.report.blocks import name_of
from safemetry.report.boards import Board
from safemetry.report.context import ResponseKey

VIOLATION: Final = "violation"
OVER_REFUSAL: Final = "over_refusal"
MOST_OF_A_TARGET: Final[Mapping[str, int]] = {VIOLATION: 5, OVER_REFUSAL: 3}
"""Examples of each kind for one target."""

_OF_TARGET: Final = ("benchmark", "target", "judge", "kind")
_VERDICTS: Final = 5


@dataclass(frozen=True, slots=True)
class Example:
    """A response that went wrong.

    Parameters
    ----------
    kind
        ``violation`` (success on a harmful item) or ``over_refusal`` (a benign item not helped).
    benchmark, judge
        Under which claim it stands; the judge may be a panel.
    key
        Run, target, item and epoch.
    verdict
        What the judge said, or each judge of a panel.
    """

    kind: str
    benchmark: str | None
    judge: str
    key: ResponseKey
    verdict: str

    @property
    def target(self) -> str:
        """The target."""
        return self.key[1]

    @property
    def item(self) -> str:
        """The item."""
        return self.key[2]


def pick_examples(
    evidence: Evidence, rule: SuccessRule, boards: Sequence[Board], most: int
) -> tuple[list[Example], int]:
    """Some responses of each target that went wrong under its leading judge.

    The items on which a target went wrong are put in the order of their ids, and as many as are
    wanted are taken at equal distances, so nothing is drawn by chance. Of several such responses
    to one item the first run and epoch is taken.

    Parameters
    ----------
    evidence
        The evidence.
    rule
        The success rule.
    boards
        The benchmarks with their targets, those that may fail most often first.
    most
        Examples at most: each target gets one before any gets a second.

    Returns
    -------
    tuple
        The examples, together for each target, and how many targets are left without one because
        of `most`.
    """
    leads = [(board, target) for board in boards for target in board.targets]
    frame = _gone_wrong(evidence, rule, leads[:most]) if leads else None
    if frame is None:
        return [], 0
    chosen = _taken_in_turn(_chosen_items(frame), leads, most)
    keys = _first_responses(frame, chosen)
    verdicts = _verdicts(evidence, rule, [*keys.values()])
    examples = [
        Example(kind, benchmark, judge, keys[row], verdicts(judge, keys[row]))
        for row in chosen
        for benchmark, _, judge, kind, _ in [row]
    ]
    return examples, max(0, len(leads) - most)


_Row = tuple[str | None, str, str, str, str]
"""Benchmark, target, judge, kind and item."""


def _gone_wrong(
    evidence: Evidence, rule: SuccessRule, leads: Sequence[tuple[Board, str]]
) -> nw.LazyFrame[Any]:
    """The responses that went wrong under the leading judges, with their kind."""
    frame, _ = responses(evidence, rule, ("intent", "benchmark"))
    # Under `at_least` a success lies on the worse side, whatever the prompt asked for.
    unhelpful = 0 if rule.threshold is None else 1
    intent, success = nw.col("intent"), nw.col("success")
    kind = (
        nw.when((intent == Intent.HARMFUL) & (success == 1))
        .then(nw.lit(VIOLATION))
        .otherwise(
            nw.when((intent == Intent.BENIGN) & (success == unhelpful))
            .then(nw.lit(OVER_REFUSAL))
            .otherwise(None)
        )
    )
    led: dict[tuple[str | None, str], list[str]] = {}
    for board, target in leads:
        led.setdefault((board.benchmark, board.leading(target)), []).append(target)
    of_lead = reduce(
        or_,
        (
            (
                nw.col("benchmark").is_null()
                if benchmark is None
                else nw.col("benchmark") == benchmark
            )
            & (nw.col("judge") == judge)
            & nw.col("target").is_in(targets)
            for (benchmark, judge), targets in led.items()
        ),
    )
    return (
        frame.filter(of_lead.fill_null(value=False) & (nw.col("judged") == 1))
        .with_columns(kind.alias("kind"))
        .filter(~nw.col("kind").is_null())
        .select(*RESPONSE_KEY, "benchmark", "judge", "kind")
    )


def _chosen_items(frame: nw.LazyFrame[Any]) -> list[_Row]:
    """For each target and kind some of its items, at equal distances in the order of their ids."""
    wanted = (
        nw.when(nw.col("kind") == VIOLATION)
        .then(nw.lit(MOST_OF_A_TARGET[VIOLATION]))
        .otherwise(nw.lit(MOST_OF_A_TARGET[OVER_REFUSAL]))
    )
    items = frame.group_by(*_OF_TARGET, "item", drop_null_keys=False).agg(nw.len().alias("times"))
    placed = items.with_columns(
        nw.col("item").cum_count().over(*_OF_TARGET, order_by="item").cast(nw.Int64).alias("place"),
        nw.len().over(*_OF_TARGET).cast(nw.Int64).alias("total"),
        wanted.cast(nw.Int64).alias("wanted"),
    )
    spread = (nw.col("place") - 1) * nw.col("wanted") % nw.col("total") < nw.col("wanted")
    found = placed.filter(spread).select(*_OF_TARGET, "item").collect("pyarrow").to_arrow()
    rows = [tuple(row.values()) for row in found.to_pylist()]
    return sorted(rows, key=lambda row: row[-1])


def _taken_in_turn(
    rows: Sequence[_Row], leads: Sequence[tuple[Board, str]], most: int
) -> list[_Row]:
    """At most so many: each target gives one violation and one over-refusal, then a second."""
    by_lead: dict[tuple[str | None, str], dict[str, list[_Row]]] = {}
    for row in rows:
        by_lead.setdefault(row[:2], {}).setdefault(row[3], []).append(row)
    held = [by_lead.get((board.benchmark, target), {}) for board, target in leads]
    queues = [kinds.get(kind, []) for kind in MOST_OF_A_TARGET for kinds in held]
    in_turn = [row for row in chain(*zip_longest(*queues)) if row is not None]
    taken = set(in_turn[:most])
    return [
        row
        for kinds in held
        for kind in MOST_OF_A_TARGET
        for row in kinds.get(kind, ())
        if row in taken
    ]


def _first_responses(frame: nw.LazyFrame[Any], chosen: Sequence[_Row]) -> dict[_Row, ResponseKey]:
    """The first run and epoch of each chosen item."""
    if not chosen:
        return {}
    found = (
        _of_items(frame, [row[1] for row in chosen], [row[4] for row in chosen])
        .select(*RESPONSE_KEY, "benchmark", "judge", "kind")
        .collect("pyarrow")
        .to_arrow()
    )
    wanted = set(chosen)
    first: dict[_Row, ResponseKey] = {}
    for row in found.to_pylist():
        place = (row["benchmark"], row["target"], row["judge"], row["kind"], row["item"])
        key = (row["run"], row["target"], row["item"], row["epoch"])
        if place in wanted and (place not in first or key < first[place]):
            first[place] = key
    return first


def _verdicts(
    evidence: Evidence, rule: SuccessRule, keys: Sequence[ResponseKey]
) -> Callable[[str, ResponseKey], str]:
    """What a judge said of a response, call after call; of a panel what each judge said."""
    said: dict[ResponseKey, list[tuple[str, str]]] = {key: [] for key in keys}
    if keys:
        rows = (
            _of_items(evidence.rows, [key[1] for key in keys], [key[2] for key in keys])
            .select(*RESPONSE_KEY, "judge", "call", "label", "score", "status")
            .collect("pyarrow")
            .to_arrow()
            .to_pylist()
        )
        for row in sorted(rows, key=lambda row: (row["judge"], row["call"])):
            key = (row["run"], row["target"], row["item"], row["epoch"])
            if key in said:
                said[key].append((row["judge"], _word(row)))

    def verdict(judge: str, key: ResponseKey) -> str:
        if rule.aggregation is Aggregation.EACH:
            words = [word for by, word in said[key] if by == judge]
        else:
            words = [f"{name_of(by)}: {word}" for by, word in said[key]]
        more = f" and {len(words) - _VERDICTS:,} more" if len(words) > _VERDICTS else ""
        return ", ".join(words[:_VERDICTS]) + more

    return verdict


def _word(row: Mapping[str, Any]) -> str:
    if row["label"] is None and row["score"] is None:
        return str(row["status"])
    parts = [str(row["label"])] if row["label"] is not None else []
    return " ".join([*parts, *([f"score {row['score']:g}"] if row["score"] is not None else [])])


def _of_items(
    frame: nw.LazyFrame[Any], targets: Sequence[str], items: Sequence[str]
) -> nw.LazyFrame[Any]:
    return frame.filter(
        nw.col("target").is_in(sorted(set(targets))) & nw.col("item").is_in(sorted(set(items)))
    )
