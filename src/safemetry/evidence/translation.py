"""Translation: the words of an inspected table become those of the judgements table.

Nothing is checked here. What the groups say of the whole table (every row states a status, no row
has a score) leaves out expressions that every later count would pay for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa

from safemetry.evidence import frames
from safemetry.evidence.arrival import Arrival, untranslated
from safemetry.evidence.inspection import Group
from safemetry.evidence.maps import MISSING_PREFIX, FromColumn
from safemetry.evidence.schema import BY_NAME, COLUMNS, NAMES, RESPONSE_KEY, Column, Status

JudgeLabel = tuple[str, str]
"""A judge, and a label that it gave in the words of the source."""


def judge_labels(groups: Sequence[Group]) -> list[JudgeLabel]:
    """Every label that occurs, with its judge."""
    return sorted({(group["judge"], group["label"]) for group in groups if group["label"]})


def translate(arrival: Arrival, groups: Sequence[Group]) -> nw.LazyFrame[Any]:
    """The judgements table, lazy, from an inspected table and its groups."""
    labels = judge_labels(groups)
    unscored = _unscored(arrival, labels)
    states_all = all(group["status"] is not None for group in groups)
    status, reason = _status_and_reason(arrival, unscored, states_all=states_all)
    label = _label(arrival, labels)
    scores_any = any(group["scored"] for group in groups)
    score = arrival.score() if scores_any else nw.lit(None, nw.Float64())
    if arrival.map.status is not None or unscored:
        # Only then does a row lose its verdict to a status.
        stands = status == Status.OK
        label = nw.when(stands).then(label).otherwise(None)
        score = nw.when(stands).then(score).otherwise(None)
    translated = {
        "label": label.cast(nw.String()),
        "score": score,
        "status": status,
        "reason": reason.cast(nw.String()),
        "intent": _intent(arrival).cast(nw.String()),
    }
    kept = {
        column.name: _as_is(arrival, column) for column in COLUMNS if column.name not in translated
    }
    final = kept | translated
    return arrival.frame.select(*(final[name].alias(name) for name in NAMES))


def response_keys(arrival: Arrival) -> nw.LazyFrame[Any]:
    """The keys of the responses that the rows are about, lazy; blank cells stay as they are."""
    return arrival.frame.select(
        frames.ROW, *(_as_is(arrival, BY_NAME[name]).alias(name) for name in RESPONSE_KEY)
    )


def _as_is(arrival: Arrival, column: Column) -> nw.Expr:
    """A column that is not translated, in the type of ours."""
    kind = {pa.int64(): nw.Int64(), pa.float64(): nw.Float64()}.get(column.type, nw.String())
    if arrival.has(column.name):
        return nw.col(column.name).cast(kind)
    value = arrival.default(column.name)
    return nw.lit(None, kind) if value is None else nw.lit(value).cast(kind)


def _label(arrival: Arrival, labels: Sequence[JudgeLabel]) -> nw.Expr:
    """The class of each row; null where its label is no verdict."""
    if not arrival.has("label"):
        return nw.lit(None, nw.String())
    expression: nw.Expr = nw.col("label")
    for judge, raw in labels:
        meaning = arrival.meaning(judge, raw)
        if meaning == raw:
            continue
        kept = None if meaning is None or meaning.startswith(MISSING_PREFIX) else meaning
        rows = arrival.labelled(judge, raw)
        expression = nw.when(rows).then(nw.lit(kept, nw.String())).otherwise(expression)
    return expression


def _unscored(arrival: Arrival, labels: Sequence[JudgeLabel]) -> dict[str, list[nw.Expr]]:
    """Reason -> conditions of rows whose label is no verdict."""
    reasons: dict[str, list[nw.Expr]] = {}
    for judge, raw in labels:
        meaning = arrival.meaning(judge, raw) or ""
        if meaning.startswith(MISSING_PREFIX):
            reason = meaning.removeprefix(MISSING_PREFIX)
            reasons.setdefault(reason, []).append(arrival.labelled(judge, raw))
    return reasons


def _status_and_reason(
    arrival: Arrival, unscored: Mapping[str, Sequence[nw.Expr]], *, states_all: bool
) -> tuple[nw.Expr, nw.Expr]:
    """The status and the reason of each row; the map overrides what the row says."""
    status = _stated_status(arrival, states_all=states_all)
    reason = nw.col("reason") if arrival.has("reason") else nw.lit(None, nw.String())
    lost = [(reduce(or_, conditions), why) for why, conditions in unscored.items()]
    if arrival.map.status is not None:
        raw = nw.col(untranslated("status"))
        words = arrival.map.status.values.items()
        lost += [(raw == word, why) for word, why in words if why != Status.OK]
    for condition, why in lost:
        rows = condition.fill_null(value=False)
        status = nw.when(rows).then(nw.lit(Status.MISSING)).otherwise(status)
        reason = nw.when(rows).then(nw.lit(why)).otherwise(reason)
    return status, reason


def _stated_status(arrival: Arrival, *, states_all: bool) -> nw.Expr:
    """The status that a row states, else missing where it gives no verdict."""
    given = nw.col("status") if arrival.has("status") else nw.lit(None, nw.String())
    if states_all:
        return given
    no_verdict = reduce(and_, arrival.no_verdict(), nw.lit(value=True))
    inferred = nw.when(no_verdict).then(nw.lit(Status.MISSING)).otherwise(nw.lit(Status.OK))
    if not arrival.has("status"):
        return inferred
    return nw.when(given.is_null()).then(inferred).otherwise(given)


def _intent(arrival: Arrival) -> nw.Expr:
    """The intent that the map translates or fixes, else that of the row."""
    spec = arrival.map.intent
    if spec is None:
        return _as_is(arrival, BY_NAME["intent"])
    if not isinstance(spec, FromColumn):
        return nw.lit(str(spec))
    expression: nw.Expr = nw.lit(None, nw.String())
    for raw, intent in spec.values.items():
        same = (nw.col(untranslated("intent")) == raw).fill_null(value=False)
        expression = nw.when(same).then(nw.lit(intent)).otherwise(expression)
    return expression
