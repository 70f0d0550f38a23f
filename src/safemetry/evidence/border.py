"""The border: a table from outside becomes evidence, or one error says where it does not.

Checks that depend on values alone (labels, statuses, intents, scales, malformed numbers) are read
off one grouped pass over the rows, whatever their number. Only when that pass finds something is
the first offending row looked up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence import frames
from safemetry.evidence.maps import MISSING_PREFIX, EvidenceMap, FromColumn, Scale
from safemetry.evidence.schema import (
    BY_NAME,
    COLUMNS,
    KEY,
    REAL,
    WHOLE,
    Column,
    Intent,
    Reason,
    Status,
)

if TYPE_CHECKING:
    import duckdb

_WHOLE_PATTERN: Final = r"^\s*[+-]?\d{1,18}\s*$"
_REAL_PATTERN: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_MOST_WHOLE: Final = 1e18
_RAW: Final = "raw_"


@dataclass(frozen=True)
class Place:
    """Where rows come from, for error messages."""

    name: str
    header_lines: int = 0
    """Lines above the first row of a text file whose rows are its lines; 0 where unknown."""
    run: str | None = None
    """The run of rows that name none; by default the name."""


@dataclass(frozen=True)
class Instrument:
    """A judge as it appears in the evidence.

    Parameters
    ----------
    scale
        Range and direction of its score.
    labels
        Classes that it used.
    scored
        Whether it gave any score.
    last_call
        Highest number of a call; None where it is not known.
    reasons
        Reasons that occur; known where `last_call` is.
    """

    scale: Scale
    labels: frozenset[str] = frozenset()
    scored: bool = False
    last_call: int | None = None
    reasons: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Check:
    """Something that no row may have, read off one number for each group of rows.

    Sums of conditions over every row cost more than the grouping itself, so a check looks at a
    count, a minimum or a maximum wherever one says as much.
    """

    error: Callable[[Mapping[str, Any]], InputError]
    condition: nw.Expr
    value: nw.Expr
    """Column that is aggregated."""
    how: str
    """``sum`` of a condition, ``count`` of values, ``min`` or ``max``."""
    limit: float = 0

    def fails(self, found: Any, rows: int) -> bool:
        """Whether a group with this aggregate and number of rows holds such a row."""
        if self.how == "count":
            return bool(found < rows)
        if found is None:
            return False
        return bool(found < self.limit if self.how == "min" else found > self.limit)

    def aggregate(self, name: str) -> nw.Expr:
        """The aggregate of the column under this name."""
        column = nw.col(name)
        if self.how == "sum":
            return column.sum().cast(nw.Int64).alias(name)
        found = {"count": column.count, "min": column.min, "max": column.max}[self.how]()
        return found.alias(name)


def _flag(error: Callable[[Mapping[str, Any]], InputError], condition: nw.Expr) -> _Check:
    """A check of a condition that no smaller number tells."""
    return _Check(error, condition, condition.fill_null(value=False).cast(nw.Int64), "sum")


class Admission:
    """One table on its way in.

    Parameters
    ----------
    frame
        Lazy frame as the source has it.
    evidence_map
        What is known about the source.
    scales
        Scales that the format fixes; the map overrides them.
    place
        Name of the source for error messages.
    """

    def __init__(
        self,
        frame: nw.LazyFrame[Any],
        evidence_map: EvidenceMap,
        scales: Mapping[str, Scale],
        place: Place,
    ) -> None:
        self.map = evidence_map
        self.scales = scales
        self.place = place
        self.theirs: dict[str, str] = {}
        self._raw = self._named(frame)
        self._states_all = False
        self._scores_any = True

    def tidy(self) -> tuple[nw.LazyFrame[Any], dict[str, Instrument]]:
        """The judgements table with every value checked, and the judges that occur in it.

        Raises
        ------
        InputError
            For the first thing that is wrong, with its place.
        """
        profile = self._check()
        self._states_all = all(row["status"] is not None for row in profile)
        self._scores_any = any(row["scored"] for row in profile)
        labels = sorted({(row["judge"], row["label"]) for row in profile if row["label"]})
        tidy = self._raw.select(*self._final_columns(labels))
        return tidy, {
            judge: self._instrument(
                judge,
                [row for row in profile if row["judge"] == judge],
                [raw for who, raw in labels if who == judge],
            )
            for judge in sorted({row["judge"] for row in profile})
        }

    def _instrument(
        self, judge: str, profile: Sequence[Mapping[str, Any]], labels: Sequence[str]
    ) -> Instrument:
        meant = {self._label(judge, raw) or "" for raw in labels}
        reasons = {row["reason"] for row in profile} - {None}
        reasons |= {
            label.removeprefix(MISSING_PREFIX)
            for label in meant
            if label.startswith(MISSING_PREFIX)
        }
        if isinstance(self.map.status, FromColumn):
            reasons |= set(self.map.status.values.values()) - {Status.OK}
        return Instrument(
            self.scale(judge),
            labels=frozenset(meant.intersection(self.map.known_labels)),
            scored=any(row["scored"] for row in profile),
            last_call=max(row["last_call"] for row in profile) if self._counts_calls else None,
            reasons=frozenset(str(reason) for reason in reasons),
        )

    # -- columns ---------------------------------------------------------------------------------

    def _named(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Our names, everything text or number."""
        schema = frame.collect_schema()
        names = schema.names()
        self._check_names(names)
        expressions = []
        for column in COLUMNS:
            theirs = self._source_of(column.name, names)
            if theirs is not None:
                self.theirs[column.name] = theirs
                expressions.append(_plain(theirs, schema[theirs]).alias(column.name))
        for name, spec in (("intent", self.map.intent), ("status", self.map.status)):
            if isinstance(spec, FromColumn):
                expressions.append(_plain(spec.column, schema[spec.column]).alias(_RAW + name))
                self.theirs[_RAW + name] = spec.column
        return frame.select(*expressions)

    def _source_of(self, ours: str, names: list[str]) -> str | None:
        if ours in self.map.constants:
            return None
        theirs = self.map.columns.get(ours, ours)
        return theirs if theirs in names else None

    def _check_names(self, names: list[str]) -> None:
        mapped = [*self.map.columns.values()]
        mapped += [
            spec.column
            for spec in (self.map.intent, self.map.status)
            if isinstance(spec, FromColumn)
        ]
        for theirs in mapped:
            if theirs not in names:
                raise self._error(
                    f"the map names a column {theirs!r} that is not there",
                    fix=f"the columns are {_listed(names)}",
                )
        for column in COLUMNS:
            if column.required and not self._knows(column.name, names):
                raise self._error(
                    f"there is no column {column.name!r}",
                    fix=f"rename one, or add to the map: columns: {{{column.name}: THEIR_NAME}}; "
                    f"the columns are {_listed(names)}",
                )
        if not any(self._knows(name, names) for name in ("label", "score", "status")):
            raise self._error(
                "there is neither a column 'label' nor a column 'score'",
                fix="rename one, or add to the map: columns: {label: THEIR_NAME}; "
                f"the columns are {_listed(names)}",
            )

    def _knows(self, ours: str, names: list[str]) -> bool:
        return ours in self.map.constants or self._source_of(ours, names) is not None

    def _has(self, name: str) -> bool:
        return name in self.theirs

    # -- values ----------------------------------------------------------------------------------

    def _check(self) -> list[dict[str, Any]]:
        """Check every value in one grouped pass, and return what that pass saw."""
        checks = list(self._checks())
        profile = self._profile(checks)
        if blank := self._blank(profile):
            # Replacing blanks costs as much as the rest of the pass, and few tables hold any.
            self._raw = self._raw.with_columns(
                *(nw.when(nw.col(name) != "").then(nw.col(name)).otherwise(None) for name in blank)
            )
            profile = self._profile(checks)
        for number, check in enumerate(checks):
            if any(check.fails(row[f"check_{number}"], row["rows"]) for row in profile):
                raise check.error(self._first_row(check.condition))
        for row in profile:
            self._check_words(row)
            self._check_verdict(row)
            self._check_scale(row)
        return profile

    def _words(self) -> list[str]:
        words = [name for name in ("label", "status", "reason", "intent") if self._has(name)]
        return words + [_RAW + name for name in ("intent", "status") if self._has(_RAW + name)]

    def _blank(self, profile: list[dict[str, Any]]) -> list[str]:
        """The columns with a cell of no characters, which is no value."""
        words = [*(["judge"] if self._has("judge") else []), *self._words()]
        seen = [name for name in words if any(row[name] == "" for row in profile)]
        return seen + [
            name for name in self._long_texts() if any(r["blank_" + name] for r in profile)
        ]

    def _long_texts(self) -> list[str]:
        """Text columns whose values are too many to group by."""
        words = {"judge", *self._words()}
        schema = self._raw.collect_schema()
        return [name for name in schema if schema[name] == nw.String() and name not in words]

    def _profile(self, checks: list[_Check]) -> list[dict[str, Any]]:
        """One row per combination of words, with the extremes of the score and of the checks."""
        words = self._words()
        texts = self._long_texts()
        frame = self._raw
        if not self._has("judge"):
            frame = frame.with_columns(nw.lit(self._default("judge")).alias("judge"))
        score = self._score()
        call = nw.col("call") if self._has("call") and self._counts_calls else nw.lit(1)
        frame = frame.select(
            "judge",
            *words,
            score.alias("score_value"),
            call.cast(nw.Int64).alias("call_value"),
            *((nw.col(name) == "").cast(nw.Int64).alias("blank_" + name) for name in texts),
            *(check.value.alias(f"check_{number}") for number, check in enumerate(checks)),
        ).with_columns((~nw.col("score_value").is_null()).cast(nw.Int64).alias("scored"))
        table = (
            frame.group_by("judge", *words, "scored", drop_null_keys=False)
            .agg(
                nw.len().alias("rows"),
                nw.col("score_value").min().alias("score_min"),
                nw.col("score_value").max().alias("score_max"),
                nw.col("call_value").max().alias("last_call"),
                *(nw.col("blank_" + name).sum().cast(nw.Int64) for name in texts),
                *(check.aggregate(f"check_{number}") for number, check in enumerate(checks)),
            )
            .collect("pyarrow")
            .to_arrow()
        )
        absent = dict.fromkeys(("label", "status", "reason", "intent"))
        rows = [absent | row for row in table.to_pylist()]
        return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))

    @property
    def _counts_calls(self) -> bool:
        """Whether calls are numbers that need no parsing, or one number for all rows."""
        if not self._has("call"):
            return "call" not in self.map.constants
        return bool(self._raw.collect_schema()["call"].is_integer())

    def _score(self) -> nw.Expr:
        """The score as a number; text that is none has been flagged and reads as null here."""
        if not self._has("score"):
            return nw.lit(None, nw.Float64())
        score = nw.col("score")
        if self._is_text("score"):
            score = nw.when(score.str.contains(_REAL_PATTERN)).then(score).otherwise(None)
        score = score.cast(nw.Float64())
        return nw.when(score.is_finite()).then(score).otherwise(None)

    def _is_text(self, name: str) -> bool:
        return self._raw.collect_schema()[name] == nw.String()

    def _checks(self) -> Iterable[_Check]:
        """What must not be in any single cell."""
        for name in KEY:
            if self._has(name):
                cell = nw.col(name)
                yield _Check(self._empty_cell(name), cell.is_null(), cell, "count")
        for column in COLUMNS:
            if self._has(column.name) and column.type in {WHOLE, REAL}:
                yield from self._number_checks(column)
        for name in ("epoch", "call"):
            if self._has(name):
                cell = nw.col(name)
                if self._is_text(name):
                    yield _flag(self._negative(name), cell.str.contains("-"))
                else:
                    yield _Check(self._negative(name), cell < 0, cell, "min", 0)
        limit = self.map.limits.id_characters
        for name in ("target", "item", "judge", "run"):
            if self._has(name):
                length = nw.col(name).str.len_chars()
                yield _Check(self._too_long(name, limit), length > limit, length, "max", limit)

    def _number_checks(self, column: Column) -> Iterable[_Check]:
        cell, error = nw.col(column.name), self._wrong_type(column)
        if self._is_text(column.name):
            pattern = _WHOLE_PATTERN if column.type == WHOLE else _REAL_PATTERN
            malformed = ~cell.str.contains(pattern)
            if column.name == "score":
                malformed = malformed | self._score().is_null()
            yield _flag(error, malformed & ~cell.is_null())
        elif column.type == WHOLE and self._raw.collect_schema()[column.name].is_integer():
            yield _Check(error, cell > _MOST_WHOLE, cell, "max", _MOST_WHOLE)
            if column.name not in {"epoch", "call"}:
                yield _Check(error, cell < -_MOST_WHOLE, cell, "min", -_MOST_WHOLE)
        elif column.type == WHOLE:
            value = cell.cast(nw.Float64())
            yield _flag(error, (value != value.round(0)) | (value.abs() > _MOST_WHOLE))
        elif column.name == "score":
            yield _flag(error, ~cell.is_finite())

    def _empty_cell(self, name: str) -> Any:
        column = BY_NAME[name]
        advice = "give each row a value"
        if not column.required and name != "run":
            advice += f", or leave the column out (then it is {column.default!r})"
        return lambda row: self._error("the cell is empty", row, name, fix=advice)

    def _wrong_type(self, column: Column) -> Any:
        kind = "a whole number" if column.type == WHOLE else "a finite number"
        fix = f"write {kind}"
        if column.name == "score":
            fix += ", or leave the cell empty and give a status and a reason"
        return lambda row: self._error(
            f"{_shown(row, column.name)} is not {kind}", row, column.name, fix=fix
        )

    def _negative(self, name: str) -> Any:
        return lambda row: self._error(
            f"{_shown(row, name)} is negative", row, name, fix="count from 1"
        )

    def _too_long(self, name: str, limit: int) -> Any:
        return lambda row: self._error(
            f"the id is longer than {limit:,} characters",
            row,
            name,
            fix="shorten it, or raise limits.id_characters in the map",
        )

    def _check_words(self, row: dict[str, Any]) -> None:
        if row["label"] is not None and self._label(row["judge"], row["label"]) is None:
            raise self._unknown_label(row["judge"], row["label"])
        for name, words in (("status", Status), ("reason", Reason)):
            if row[name] is not None and row[name] not in set(words):
                raise self._unknown_word(name, row[name], words)
        self._check_intent(row)
        spec = self.map.status
        if (
            isinstance(spec, FromColumn)
            and row[_RAW + "status"] is not None
            and row[_RAW + "status"] not in spec.values
        ):
            raise self._untranslated("status", row[_RAW + "status"], "ok")

    def _check_intent(self, row: dict[str, Any]) -> None:
        spec = self.map.intent
        if isinstance(spec, FromColumn):
            raw = row[_RAW + "intent"]
            if raw is not None and raw not in spec.values:
                raise self._untranslated("intent", raw, "harmful")
        elif spec is None and row["intent"] is not None and row["intent"] not in set(Intent):
            raise self._unknown_word("intent", row["intent"], Intent)

    def _check_verdict(self, row: dict[str, Any]) -> None:
        """A status and a verdict that contradict each other."""
        if row["status"] is None or self.map.status is not None:
            return
        given = row["label"] is not None or row["scored"]
        if row["status"] == Status.OK and not given:
            condition = [nw.col("status") == Status.OK, *self._no_verdict()]
            found = self._first_row(reduce(and_, condition))
            raise self._error(
                "status is ok but there is neither a label nor a score",
                found,
                "status",
                fix="give one, or write missing or error with a reason",
            )
        if row["status"] != Status.OK and row["label"] is not None:
            found = self._first_row(
                (nw.col("status") == row["status"]) & ~nw.col("label").is_null()
            )
            raise self._error(
                f"status is {row['status']!r} but there is a label {row['label']!r}",
                found,
                "label",
                fix="leave the label empty, or write ok",
            )

    def _no_verdict(self) -> list[nw.Expr]:
        return [nw.col(name).is_null() for name in ("label", "score") if self._has(name)]

    def _check_scale(self, row: dict[str, Any]) -> None:
        if row["status"] not in {None, Status.OK} or self._is_unjudged(row):
            return  # A score that is known to be out of scale is no verdict.
        scale = self.scale(row["judge"])
        for bound, value, side in (
            (scale.scale_min, row["score_min"], "below"),
            (scale.scale_max, row["score_max"], "above"),
        ):
            if bound is None or value is None:
                continue
            if (value < bound) if side == "below" else (value > bound):
                mine = self._score() == value
                if self._has("judge"):
                    mine = mine & (nw.col("judge") == row["judge"])
                if self._has("status"):
                    status = nw.col("status")
                    mine = mine & (status.is_null() | (status == Status.OK))
                if isinstance(self.map.status, FromColumn):
                    raw = nw.col(_RAW + "status")
                    words = self.map.status.values.items()
                    judged = [word for word, meaning in words if meaning == Status.OK]
                    mine = mine & (raw.is_null() | raw.is_in(judged))
                raise self._error(
                    f"score {value:g} of judge {row['judge']!r} is {side} its declared scale "
                    f"({_end(scale.scale_min)} to {_end(scale.scale_max)})",
                    self._first_row(mine),
                    "score",
                    fix="mend the score or the scale, or write status error, reason out_of_scale",
                )

    def _is_unjudged(self, row: Mapping[str, Any]) -> bool:
        """Whether the map says of the row's status that there is no verdict."""
        spec = self.map.status
        raw = row.get(_RAW + "status")
        return isinstance(spec, FromColumn) and raw is not None and spec.values[raw] != Status.OK

    # -- translation -----------------------------------------------------------------------------

    def scale(self, judge: str) -> Scale:
        """The scale of a judge: the map, else the format."""
        if judge in self.map.judges or "*" in self.map.judges:
            return self.map.scale(judge)
        return self.scales.get(judge) or self.scales.get("*") or Scale()

    def _label(self, judge: str, raw: str) -> str | None:
        """The class of a raw label, ``missing:REASON``, or None where it is unknown."""
        for labels in (self.scale(judge).labels, self.map.labels):
            if raw in labels:
                return labels[raw]
        return raw if raw in self.map.known_labels else None

    def _final_columns(self, labels: list[tuple[str, str]]) -> list[nw.Expr]:
        translated = self._translated(labels)
        unscored = self._unscored(labels)
        label = translated
        status, reason = self._status(unscored)
        verdict_stands = status == Status.OK
        score = self._score() if self._scores_any else nw.lit(None, nw.Float64())
        if self._keeps_verdicts(unscored):
            masked_label, masked_score = label, score
        else:
            masked_label = nw.when(verdict_stands).then(label).otherwise(None)
            masked_score = nw.when(verdict_stands).then(score).otherwise(None)
        special = {
            "label": masked_label.cast(nw.String()),
            "score": masked_score,
            "status": status,
            "reason": reason.cast(nw.String()),
            "intent": self._intent().cast(nw.String()),
        }
        return [
            special.get(column.name, self._plain_column(column)).alias(column.name)
            for column in COLUMNS
        ]

    def _keeps_verdicts(self, unscored: dict[str, list[nw.Expr]]) -> bool:
        """Whether no row loses its verdict to a status; then the columns pass as they are."""
        return self.map.status is None and not unscored

    def _plain_column(self, column: Column) -> nw.Expr:
        if not self._has(column.name):
            value = self.map.constants.get(column.name, self._default(column.name))
            kind = _narwhals_type(column)
            return nw.lit(None, kind) if value is None else nw.lit(value).cast(kind)
        return nw.col(column.name).cast(_narwhals_type(column))

    def _default(self, name: str) -> Any:
        if name in self.map.constants:
            return self.map.constants[name]
        if name == "run":
            return self.place.run or self.place.name
        return self.place.name if name == "source_file" else BY_NAME[name].default

    def _translated(self, labels: list[tuple[str, str]]) -> nw.Expr:
        if not self._has("label"):
            return nw.lit(None, nw.String())
        changed = [
            (self._is(judge, raw), self._label(judge, raw))
            for judge, raw in labels
            if self._label(judge, raw) != raw
        ]
        expression: nw.Expr = nw.col("label")
        for condition, label in changed:
            kept = None if label is None or label.startswith(MISSING_PREFIX) else label
            expression = nw.when(condition).then(nw.lit(kept, nw.String())).otherwise(expression)
        return expression

    def _unscored(self, labels: list[tuple[str, str]]) -> dict[str, list[nw.Expr]]:
        """Reason -> conditions of rows whose label is no verdict."""
        reasons: dict[str, list[nw.Expr]] = {}
        for judge, raw in labels:
            label = self._label(judge, raw) or ""
            if label.startswith(MISSING_PREFIX):
                reason = label.removeprefix(MISSING_PREFIX)
                reasons.setdefault(reason, []).append(self._is(judge, raw))
        return reasons

    def _is(self, judge: str, raw: str) -> nw.Expr:
        condition = nw.col("label") == raw
        return condition & (nw.col("judge") == judge) if self._has("judge") else condition

    def _status(self, unscored: dict[str, list[nw.Expr]]) -> tuple[nw.Expr, nw.Expr]:
        """The status and the reason of each row."""
        no_verdict = reduce(and_, self._no_verdict(), nw.lit(value=True))
        given = nw.col("status") if self._has("status") else nw.lit(None, nw.String())
        status = nw.when(no_verdict).then(nw.lit(Status.MISSING)).otherwise(nw.lit(Status.OK))
        if self._states_all:
            status = given
        elif self._has("status"):
            status = nw.when(given.is_null()).then(status).otherwise(given)
        reason = nw.col("reason") if self._has("reason") else nw.lit(None, nw.String())
        for name, conditions in unscored.items():
            rows = reduce(or_, conditions).fill_null(value=False)
            status = nw.when(rows).then(nw.lit(Status.MISSING)).otherwise(status)
            reason = nw.when(rows).then(nw.lit(name)).otherwise(reason)
        if isinstance(self.map.status, FromColumn):
            for raw, value in self.map.status.values.items():
                if value != Status.OK:
                    rows = (nw.col(_RAW + "status") == raw).fill_null(value=False)
                    status = nw.when(rows).then(nw.lit(Status.MISSING)).otherwise(status)
                    reason = nw.when(rows).then(nw.lit(value)).otherwise(reason)
        return status, reason

    def _intent(self) -> nw.Expr:
        spec = self.map.intent
        if isinstance(spec, FromColumn):
            expression: nw.Expr = nw.lit(None, nw.String())
            for raw, intent in spec.values.items():
                same = (nw.col(_RAW + "intent") == raw).fill_null(value=False)
                expression = nw.when(same).then(nw.lit(intent)).otherwise(expression)
            return expression
        if spec is not None:
            return nw.lit(str(spec))
        return self._plain_column(BY_NAME["intent"])

    # -- errors ----------------------------------------------------------------------------------

    def _first_row(self, condition: nw.Expr) -> dict[str, Any]:
        """The first row for which a condition holds."""
        rows = self._raw.filter(condition.fill_null(value=False))
        if self._has(frames.ROW):
            rows = rows.sort(frames.ROW)
        found = rows.head(1).collect("pyarrow").to_arrow().to_pylist()
        return found[0] if found else {}

    def _error(
        self,
        problem: str,
        row: Mapping[str, Any] | None = None,
        column: str | None = None,
        *,
        fix: str,
    ) -> InputError:
        given = (row or {}).get(frames.ROW)
        number = int(str(given)) if str(given).isdecimal() else None
        line = number + self.place.header_lines if number and self.place.header_lines else None
        file = (row or {}).get("source_file") or self.place.name
        return InputError(
            problem,
            file=str(file),
            row=number,
            line=line,
            column=self.theirs.get(column, column) if column else None,
            fix=fix,
        )

    def _unknown_label(self, judge: str, label: str) -> InputError:
        row = self._first_row(self._is(judge, label))
        stanza = f"labels: {{{json.dumps(label, ensure_ascii=False)}: CLASS}}"
        return self._error(
            f"unknown label {label!r} of judge {judge!r}",
            row,
            "label",
            fix=f"add to the map: {stanza} with CLASS one of {', '.join(self.map.known_labels)} "
            "or missing:REASON",
        )

    def _unknown_word(self, name: str, value: str, words: Iterable[str]) -> InputError:
        row = self._first_row(nw.col(name) == value)
        return self._error(
            f"unknown {name} {value!r}", row, name, fix=f"write one of {', '.join(words)}"
        )

    def _untranslated(self, name: str, raw: str, example: str) -> InputError:
        row = self._first_row(nw.col(_RAW + name) == raw)
        return self._error(
            f"the map does not say what {raw!r} means for {name}",
            row,
            _RAW + name,
            fix=f"add to the map under {name}.values: {json.dumps(raw, ensure_ascii=False)}: "
            f"{example}",
        )


def _plain(name: str, kind: Any) -> nw.Expr:
    """Booleans as ``True`` and ``False``, other values that are not numbers as text."""
    column: nw.Expr = nw.col(name)
    if kind.is_float():
        column = nw.when(~column.is_nan()).then(column).otherwise(None)
    if kind == nw.Boolean():
        return (
            nw.when(column)
            .then(nw.lit("True"))
            .otherwise(nw.when(~column).then(nw.lit("False")).otherwise(None))
        )
    target = BY_NAME.get(name)
    if kind.is_numeric() and target is not None and target.type in {WHOLE, REAL}:
        return column
    return column if kind == nw.String() else column.cast(nw.String())


def _narwhals_type(column: Column) -> Any:
    return {pa.int64(): nw.Int64(), pa.float64(): nw.Float64()}.get(column.type, nw.String())


def _shown(row: Mapping[str, Any], name: str) -> str:
    value = str(row.get(name))
    return repr(value if len(value) <= 60 else value[:57] + "...")


def _end(value: float | None) -> str:
    return "open" if value is None else f"{value:g}"


def _listed(names: Iterable[str], most: int = 20) -> str:
    shown = list(names)
    tail = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + tail


def admit(
    data: Any,
    connection: duckdb.DuckDBPyConnection,
    evidence_map: EvidenceMap,
    *,
    scales: Mapping[str, Scale] | None = None,
    place: Place | str = "table",
) -> tuple[nw.LazyFrame[Any], dict[str, Instrument]]:
    """Check a table and give it the columns and types of the judgements table.

    Parameters
    ----------
    data
        Anything that narwhals accepts.
    connection
        Engine for data that is not already on one.
    evidence_map
        What is known about the source.
    scales
        Scales that the format fixes.
    place
        Name of the source for error messages.

    Returns
    -------
    tuple
        A lazy frame with the columns of `safemetry.evidence.schema.NAMES`, and every judge that
        occurs.

    Raises
    ------
    InputError
        Naming file, row, column and the fix, for a missing column, a malformed number, an empty
        key, an unknown label, status, reason or intent, a verdict that contradicts its status, or
        a score outside the declared scale.
    """
    where = Place(place) if isinstance(place, str) else place
    return Admission(frames.lazy(data, connection), evidence_map, scales or {}, where).tidy()
