"""Inspection: every value of a table is checked in one grouped pass over its rows.

Labels, statuses, intents, scales and malformed numbers depend on values alone. So the rows are
grouped by their words, whatever their number, and each group is checked as if it were one row.
Only when a group is at fault is its first row looked up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any, Final

import narwhals.stable.v2 as nw

from safemetry.errors import InputError
from safemetry.evidence.arrival import Arrival, untranslated
from safemetry.evidence.cells import CellCheck, cell_checks
from safemetry.evidence.maps import FromColumn
from safemetry.evidence.schema import Intent, Reason, Status

Group = Mapping[str, Any]
"""Rows with the same words.

Holds ``judge``, ``label``, ``status``, ``reason`` and ``intent`` (None where empty or absent), the
values that the map translates, ``rows`` (their number), ``scored`` (1 or 0), ``score_min``,
``score_max``, ``last_call`` and ``last_epoch``.
"""

_WORDS: Final = ("label", "status", "reason", "intent")
_COUNTED: Final = ("call", "epoch")
_LABELS_SHOWN: Final = 20


def inspect(arrival: Arrival) -> tuple[Arrival, list[Group]]:
    """Check every value of the columns that are not settled.

    Returns
    -------
    tuple
        The table, with null for each cell of no characters, and its groups in a fixed order.

    Raises
    ------
    InputError
        For the first thing that is wrong, with its place.
    """
    checks = cell_checks(arrival)
    groups = _profile(arrival, checks)
    if blank := _blank_columns(arrival, groups):
        # Replacing blanks costs as much as the rest of the pass, and few tables hold any.
        arrival = _without_blanks(arrival, blank)
        groups = _profile(arrival, checks)
    for number, check in enumerate(checks):
        if any(check.fails(group[f"check_{number}"], group["rows"]) for group in groups):
            raise check.error(arrival)
    _check_labels(arrival, groups)
    for group in groups:
        _check_words(arrival, group)
        _check_verdict(arrival, group)
        _check_scale(arrival, group)
    return arrival, groups


# -- the pass ------------------------------------------------------------------------------------


def _profile(arrival: Arrival, checks: Sequence[CellCheck]) -> list[Group]:
    """The groups, with the extremes of the score and what the checks look at."""
    words, texts = _word_columns(arrival), _long_texts(arrival)
    frame = arrival.frame
    if not arrival.has("judge"):
        frame = frame.with_columns(nw.lit(arrival.default("judge")).alias("judge"))
    frame = frame.select(
        "judge",
        *words,
        arrival.score().alias("score_value"),
        *(_number(arrival, name).alias(f"{name}_value") for name in _COUNTED),
        *((nw.col(name) == "").cast(nw.Int64).alias("blank_" + name) for name in texts),
        *(check.value.alias(f"check_{number}") for number, check in enumerate(checks)),
    ).with_columns((~nw.col("score_value").is_null()).cast(nw.Int64).alias("scored"))
    table = (
        frame.group_by("judge", *words, "scored", drop_null_keys=False)
        .agg(
            nw.len().alias("rows"),
            nw.col("score_value").min().alias("score_min"),
            nw.col("score_value").max().alias("score_max"),
            *(nw.col(f"{name}_value").max().alias(f"last_{name}") for name in _COUNTED),
            *(nw.col("blank_" + name).sum().cast(nw.Int64) for name in texts),
            *(check.aggregate(f"check_{number}") for number, check in enumerate(checks)),
        )
        .collect("pyarrow")
        .to_arrow()
    )
    absent = dict.fromkeys(_WORDS)
    groups = [absent | group for group in table.to_pylist()]
    # Which of several errors is reported must not depend on the engine's order.
    return sorted(groups, key=lambda group: json.dumps(group, sort_keys=True, default=str))


def _number(arrival: Arrival, name: str) -> nw.Expr:
    """The number of a call or an epoch, 1 where it is not known."""
    known = arrival.has(name) and arrival.counts(name)
    return (nw.col(name) if known else nw.lit(1)).cast(nw.Int64)


def _word_columns(arrival: Arrival) -> list[str]:
    """Columns of few values, which rows are grouped by beside the judge."""
    translated = (untranslated(name) for name in ("intent", "status"))
    return [name for name in (*_WORDS, *translated) if arrival.is_open(name)]


def _long_texts(arrival: Arrival) -> list[str]:
    """Text columns whose values are too many to group by."""
    words = {"judge", *_word_columns(arrival)}
    texts = filter(arrival.is_text, arrival.types)
    return [name for name in texts if arrival.is_open(name) and name not in words]


def _blank_columns(arrival: Arrival, groups: Sequence[Group]) -> list[str]:
    """The columns with a cell of no characters, which is no value."""
    words = [*(["judge"] if arrival.has("judge") else []), *_word_columns(arrival)]
    return [
        *(name for name in words if any(group[name] == "" for group in groups)),
        *(name for name in _long_texts(arrival) if any(g["blank_" + name] for g in groups)),
    ]


def _without_blanks(arrival: Arrival, blank: Iterable[str]) -> Arrival:
    frame = arrival.frame.with_columns(
        *(nw.when(nw.col(name) != "").then(nw.col(name)).otherwise(None) for name in blank)
    )
    return replace(arrival, frame=frame)


# -- words ---------------------------------------------------------------------------------------


def _check_labels(arrival: Arrival, groups: Sequence[Group]) -> None:
    """Every label that the map does not know, in one error with one stanza."""
    unknown = {
        group["label"]: group["judge"]
        for group in groups
        if group["label"] is not None and arrival.meaning(group["judge"], group["label"]) is None
    }
    if unknown:
        raise _unknown_labels(arrival, dict(sorted(unknown.items())))


def _check_words(arrival: Arrival, group: Group) -> None:
    for name, words in (("status", Status), ("reason", Reason)):
        if group[name] is not None and group[name] not in set(words):
            raise _unknown_word(arrival, name, group[name], words)
    intent, status = arrival.map.intent, arrival.map.status
    if isinstance(intent, FromColumn):
        _check_translated(arrival, group, "intent", intent, example="harmful")
    elif intent is None and group["intent"] is not None and group["intent"] not in set(Intent):
        raise _unknown_word(arrival, "intent", group["intent"], Intent)
    if status is not None:
        _check_translated(arrival, group, "status", status, example="ok")


def _check_translated(
    arrival: Arrival, group: Group, name: str, spec: FromColumn, *, example: str
) -> None:
    """A value that the map should translate and does not know."""
    raw = group[untranslated(name)]
    if raw is None or raw in spec.values:
        return
    raise arrival.error(
        f"the map does not say what {raw!r} means for {name}",
        arrival.first_row(nw.col(untranslated(name)) == raw),
        untranslated(name),
        fix=f"add to the map under {name}.values: {json.dumps(raw, ensure_ascii=False)}: {example}",
    )


def _unknown_labels(arrival: Arrival, unknown: Mapping[str, str]) -> InputError:
    label, judge = next(iter(unknown.items()))
    shown = list(unknown)[:_LABELS_SHOWN]
    stanza = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: CLASS" for name in shown)
    others = len(unknown) - 1
    more = f" and {others} more" if others else ""
    return arrival.error(
        f"unknown label {label!r} of judge {judge!r}{more}",
        arrival.first_row(arrival.labelled(judge, label)),
        "label",
        fix=f"add to the map: labels: {{{stanza}}} with CLASS one of "
        f"{', '.join(arrival.map.known_labels)} or missing:REASON",
    )


def _unknown_word(arrival: Arrival, name: str, value: str, words: Iterable[str]) -> InputError:
    return arrival.error(
        f"unknown {name} {value!r}",
        arrival.first_row(nw.col(name) == value),
        name,
        fix=f"write one of {', '.join(words)}",
    )


# -- verdicts ------------------------------------------------------------------------------------


def _check_verdict(arrival: Arrival, group: Group) -> None:
    """A status and a verdict that contradict each other."""
    status, label = group["status"], group["label"]
    if arrival.map.status is not None:
        return
    if label is not None and group["reason"] is not None and status in {None, Status.OK}:
        raise arrival.error(
            f"there is a label {label!r} and a reason {group['reason']!r} for having none",
            arrival.first_row((nw.col("reason") == group["reason"]) & ~nw.col("label").is_null()),
            "reason",
            fix="leave one of them empty",
        )
    if status is None:
        return
    given = label is not None or group["scored"]
    if status == Status.OK and not given:
        rows = reduce(and_, [nw.col("status") == Status.OK, *arrival.no_verdict()])
        raise arrival.error(
            "status is ok but there is neither a label nor a score",
            arrival.first_row(rows),
            "status",
            fix="give one, or write missing or error with a reason",
        )
    if status != Status.OK and label is not None:
        raise arrival.error(
            f"status is {status!r} but there is a label {label!r}",
            arrival.first_row((nw.col("status") == status) & ~nw.col("label").is_null()),
            "label",
            fix="leave the label empty, or write ok",
        )


def _check_scale(arrival: Arrival, group: Group) -> None:
    """A score outside the declared scale of its judge."""
    if group["status"] not in {None, Status.OK} or _lacks_verdict(arrival, group):
        return  # A score that is known to be out of scale is no verdict.
    scale = arrival.scale(group["judge"])
    low, high = group["score_min"], group["score_max"]
    if scale.scale_min is not None and low is not None and low < scale.scale_min:
        outlier, side = low, "below"
    elif scale.scale_max is not None and high is not None and high > scale.scale_max:
        outlier, side = high, "above"
    else:
        return
    raise arrival.error(
        f"score {outlier:g} of judge {group['judge']!r} is {side} its declared scale "
        f"({_end(scale.scale_min)} to {_end(scale.scale_max)})",
        arrival.first_row(_scored(arrival, group["judge"], outlier)),
        "score",
        fix="mend the score or the scale, or write status error, reason out_of_scale",
    )


def _lacks_verdict(arrival: Arrival, group: Group) -> bool:
    """Whether the map says of the group's status that there is no verdict."""
    spec = arrival.map.status
    raw = group.get(untranslated("status"))
    return spec is not None and raw is not None and spec.values[raw] != Status.OK


def _scored(arrival: Arrival, judge: str, score: float) -> nw.Expr:
    """Condition of the rows on which a judge gave a score that is a verdict."""
    rows = arrival.score() == score
    if arrival.has("judge"):
        rows = rows & (nw.col("judge") == judge)
    if arrival.has("status"):
        status = nw.col("status")
        rows = rows & (status.is_null() | (status == Status.OK))
    if arrival.map.status is not None:
        raw = nw.col(untranslated("status"))
        words = arrival.map.status.values.items()
        judged = [word for word, meaning in words if meaning == Status.OK]
        rows = rows & (raw.is_null() | raw.is_in(judged))
    return rows


def _end(value: float | None) -> str:
    return "open" if value is None else f"{value:g}"
