"""Corrections: what a named person changed about the evidence, and why, without editing it."""

# ruff: noqa: S608 - queries hold our own names and quoted literals only

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from safemetry.errors import InputError
from safemetry.evidence.maps import Scale
from safemetry.evidence.schema import BY_NAME, KEY, SCHEMA_VERSION, WHOLE, Intent, Reason, Status
from safemetry.evidence.study import Study
from safemetry.evidence.study_commits import (
    Commit,
    commit_parts,
    content_digest,
    now,
    program_version,
)
from safemetry.evidence.study_import import scratch
from safemetry.evidence.study_tables import TABLES, identifier, write_part
from safemetry.evidence.study_tidy import (
    BY_FIELD,
    ITEM,
    JUDGEMENT,
    LEVELS,
    TARGET,
    Level,
    tidy_query,
)

_PLACE: Final = (*KEY, "benchmark")
_NEEDED: Final = {JUDGEMENT: ("target", "item"), ITEM: ("item",), TARGET: ("target",)}
_WORDS: Final = {
    "status": tuple(Status),
    "reason": tuple(Reason),
    "intent": tuple(Intent),
}


@dataclass(frozen=True, slots=True)
class _Request:
    """One row of a file of corrections."""

    row: int
    place: Mapping[str, str | int | None]
    field: str
    value: str | None

    @property
    def level(self) -> Level:
        return BY_FIELD[self.field]


@dataclass(frozen=True, slots=True)
class _Match:
    """What a request speaks of: its full key, and the verdict that stands there now."""

    key: tuple[Any, ...]
    verdict: tuple[Any, ...]


def correct(
    study: Study,
    source: pa.Table | str | Path,
    who: str,
    why: str,
    when: datetime | None = None,
) -> int:
    """Correct judgements, items or targets of a study; the evidence itself stays as it is.

    A correction is a row that the tidy table takes in by a join; of several for one field the
    latest counts. A corrected label or score is a verdict: the status becomes ok and the reason
    goes. A status of missing or error withdraws the verdict: label and score go.

    Parameters
    ----------
    study
        The study.
    source
        A table, or a CSV, JSONL or Parquet file, with columns `field` and `value` and those that
        say what is corrected: ``run, target, item, epoch, judge, call, benchmark``. Columns may
        be left out or left empty where the others leave no doubt. ``label, score, status, reason``
        belong to one judgement; ``category, attack, behaviour, pair, intent, language`` to an item
        in all its judgements; ``developer, access`` to a target in all runs.
    who, why
        Name of the person who corrects, and the reason.
    when
        Time of the correction, with its time zone; now by default.

    Returns
    -------
    int
        Number of corrections.

    Raises
    ------
    InputError
        For a field, value or row that does not exist, a key that leaves a doubt, or corrections
        that contradict each other. Nothing is corrected then.
    """
    file = "corrections" if isinstance(source, pa.Table) else str(source)
    for name, said in (("who", who), ("why", why)):
        if not said.strip():
            raise InputError(f"a correction without `{name}`", file=file, fix="state it")
    requests = [_request(study, row, cells, file) for row, cells in _read(source, file)]
    if not requests:
        raise InputError("no corrections", file=file, fix="give one row for each")
    matches = _matches(study, requests, file)
    rows = _rows(study, requests, matches, file)
    stamp = {"who": who.strip(), "when": _moment(when, file), "why": why.strip()}
    content = content_digest([rows, stamp])
    stamped = [{**row, **stamp, "batch": content} for row in rows]
    table = pa.Table.from_pylist(stamped, TABLES["corrections"])
    commit = Commit(
        schema=SCHEMA_VERSION,
        name=content,
        kind="corrections",
        recorded=now(),
        made_by=program_version(),
        parts=(),
        fields=tuple(sorted({row["field"] for row in rows})),
        content=content,
    )
    parts = (
        write_part(study.path, "corrections", content, batches) for batches in [table.to_batches()]
    )
    commit_parts(study.path, commit, parts)
    return len(requests)


def _moment(when: datetime | None, file: str) -> str:
    if when is None:
        return now()
    if when.tzinfo is None:
        raise InputError("the time of the corrections has no time zone", file=file, fix="add one")
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# --- reading -------------------------------------------------------------------------------------


def _read(source: pa.Table | str | Path, file: str) -> list[tuple[int, dict[str, str | None]]]:
    """Rows with their numbers; every cell is a text, or None where it is empty."""
    table = source if isinstance(source, pa.Table) else _read_file(Path(source))
    known = (*_PLACE, "field", "value")
    for name in table.column_names:
        if name not in known:
            raise InputError(
                "is no column of a correction",
                file=file,
                column=name,
                fix=f"the columns are {', '.join(known)}",
            )
    for name in ("field", "value"):
        if name not in table.column_names:
            raise InputError("is absent", file=file, column=name, fix="add the column")
    return [
        (number, {name: _cell(value) for name, value in row.items()})
        for number, row in enumerate(table.to_pylist(), start=1)
    ]


def _cell(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _read_file(path: Path) -> pa.Table:
    try:
        if path.suffix in {".jsonl", ".ndjson"}:
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = [json.loads(line) for line in lines if line.strip()]
            names = list(dict.fromkeys(name for row in rows for name in row))
            return pa.table(
                {
                    name: pa.array([_cell(row.get(name)) for row in rows], pa.string())
                    for name in names
                }
            )
        if path.suffix in {".parquet", ".pq"}:
            return pq.read_table(path)
        texts = dict.fromkeys(pa_csv.open_csv(path).schema.names, pa.string())
        return pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=texts))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=str(path)) from error
    except (ValueError, AttributeError) as error:
        raise InputError(f"the corrections are not readable ({error})", file=str(path)) from error


def _request(study: Study, row: int, cells: Mapping[str, str | None], file: str) -> _Request:
    name = cells["field"]
    if name is None or name not in BY_FIELD:
        raise InputError(
            f"{name!r} cannot be corrected",
            file=file,
            row=row,
            column="field",
            fix=f"the fields are {', '.join(BY_FIELD)}",
        )
    place: dict[str, str | int | None] = {}
    for column in _PLACE:
        value = cells.get(column)
        if value is not None and BY_NAME[column].type == WHOLE:
            if not value.isdecimal():
                raise InputError(f"{value!r} is no whole number", file=file, row=row, column=column)
            place[column] = int(value)
        else:
            place[column] = value
    request = _Request(row, place, name, _value(study, name, cells["value"], file, row))
    for column in _NEEDED[request.level]:
        if place[column] is None:
            raise InputError(
                f"the {request.level.name} is not named",
                file=file,
                row=row,
                column=column,
                fix="fill in the column",
            )
    return request


def _value(study: Study, name: str, value: str | None, file: str, row: int) -> str | None:
    """The new value as it is kept; None where it becomes unknown."""
    words = (*study.classes, *study.outside) if name == "label" else _WORDS.get(name)
    problem = None
    if value is None and name in {"label", "score", "status"}:
        problem = "the value is empty"
        fix = "to withdraw a verdict, correct its status to missing"
    elif value is not None and words is not None and value not in words:
        problem, fix = f"{value!r} is no {name}", f"it is one of {', '.join(words)}"
    elif value is not None and name == "score":
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        value = repr(number)
        if not math.isfinite(number):
            problem, fix = "the value is no finite number", "give a number"
    if problem is None:
        return value
    raise InputError(problem, file=file, row=row, column="value", fix=fix)


# --- finding what is corrected -------------------------------------------------------------------


def _matches(study: Study, requests: Sequence[_Request], file: str) -> list[_Match]:
    """For each request the one thing that it speaks of."""
    found: dict[int, _Match] = {}
    for level in LEVELS:
        asked = [request for request in requests if request.level is level]
        if asked:
            found |= _find(study, level, asked, file)
    return [found[request.row] for request in requests]


def _find(study: Study, level: Level, asked: Sequence[_Request], file: str) -> dict[int, _Match]:
    places = pa.table(
        {
            "row": pa.array([request.row for request in asked], WHOLE),
            **{
                name: pa.array([request.place[name] for request in asked], BY_NAME[name].type)
                for name in _PLACE
            },
        }
    )
    columns = (*_PLACE, *JUDGEMENT.fields)
    tidy = tidy_query(study.path, study.commits(), columns)
    needed = _NEEDED[level]
    equal = [f"p.{identifier(name)} = t.{identifier(name)}" for name in needed]
    equal += [
        f"(p.{identifier(name)} IS NULL OR p.{identifier(name)} = t.{identifier(name)})"
        for name in _PLACE
        if name not in needed
    ]
    known = {name: f"t.{identifier(name)}" for name in columns}
    if level is ITEM:
        known["run"] = "CASE WHEN t.benchmark IS NULL THEN t.run END"
    key = ", ".join(known[name] for name in level.key)
    shown = ", ".join(f"any_value({known[name]})" for name in (*level.key, *JUDGEMENT.fields))
    with scratch() as connection:
        connection.register("places", places)
        rows = connection.execute(
            f"SELECT p.row, count(DISTINCT row({key})), {shown} FROM places p "
            f"LEFT JOIN ({tidy}) t ON {' AND '.join(equal)} "
            "GROUP BY p.row"
        ).fetchall()
    return {row[0]: _only(level, row, file) for row in rows}


def _only(level: Level, row: Sequence[Any], file: str) -> _Match:
    number, count = row[0], row[1]
    key = tuple(row[2 : 2 + len(level.key)])
    if all(value is None for value in key):
        raise InputError(
            f"the study has no such {level.name}", file=file, row=number, fix="check its key"
        )
    if count > 1:
        raise InputError(
            f"{count:,} of the {level.name}s in the study fit this key",
            file=file,
            row=number,
            fix=f"fill in more of {', '.join(level.key)}",
        )
    return _Match(key, tuple(row[2 + len(level.key) :]))


# --- what follows from a correction --------------------------------------------------------------


def _rows(
    study: Study, requests: Sequence[_Request], matches: Sequence[_Match], file: str
) -> list[dict[str, Any]]:
    """Rows of the table of corrections, without who, when and why."""
    together: defaultdict[tuple[Level, tuple[Any, ...]], dict[str, _Request]] = defaultdict(dict)
    verdicts: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for request, match in zip(requests, matches, strict=True):
        same = together[request.level, match.key]
        if request.field in same:
            raise InputError(
                f"{request.field} is corrected in row {same[request.field].row} already",
                file=file,
                row=request.row,
                fix="keep one of the two",
            )
        same[request.field] = request
        verdicts[match.key] = match.verdict
    scales = {record.identity.name: record.scale for record in study.judges()}
    rows = []
    for (level, key), asked in together.items():
        place = dict(zip(level.key, key, strict=True))
        stated = {name: (request.value, None) for name, request in asked.items()}
        implied: dict[str, tuple[str | None, str | None]] = {}
        if level is JUDGEMENT:
            _refuse_off_scale(scales.get(place["judge"], Scale()), asked, file)
            implied = _implied(asked, dict(zip(level.fields, verdicts[key], strict=True)), file)
        rows += [
            {**place, "field": name, "value": value, "implied_by": cause}
            for name, (value, cause) in (implied | stated).items()
        ]
    return rows


def _refuse_off_scale(scale: Scale, asked: Mapping[str, _Request], file: str) -> None:
    request = asked.get("score")
    if request is None or request.value is None:
        return
    score = float(request.value)
    low = -math.inf if scale.scale_min is None else scale.scale_min
    high = math.inf if scale.scale_max is None else scale.scale_max
    if not low <= score <= high:
        raise InputError(
            f"{score:g} is outside the scale of the judge ({low:g} to {high:g})",
            file=file,
            row=request.row,
            column="value",
        )


def _implied(
    asked: Mapping[str, _Request], verdict: Mapping[str, Any], file: str
) -> dict[str, tuple[str | None, str | None]]:
    """Field -> its value and the field that implies it, so that no row says ok and missing."""
    status = asked.get("status")
    reason = asked.get("reason")
    given = next((asked[name] for name in ("label", "score") if name in asked), None)
    withdrawn = status is not None and status.value != Status.OK
    gives_reason = reason is not None and reason.value is not None
    if given is not None:
        if withdrawn or gives_reason:
            raise InputError(
                f"a {given.field} and a reason for having none contradict each other",
                file=file,
                row=given.row,
                fix="keep one of the two",
            )
        return {"status": (Status.OK, given.field), "reason": (None, given.field)}
    if status is not None and withdrawn:
        return {"label": (None, "status"), "score": (None, "status")}
    if status is not None:
        no_verdict = verdict["label"] is None and verdict["score"] is None
        if no_verdict or gives_reason:
            raise InputError(
                "a judgement without label and score, or with a reason, is not ok",
                file=file,
                row=status.row,
                fix="correct its label or score instead",
            )
        return {"reason": (None, "status")}
    if reason is not None and gives_reason and verdict["status"] == Status.OK:
        raise InputError(
            "the judgement has a verdict and so no reason for having none",
            file=file,
            row=reason.row,
            fix="correct its status to missing as well",
        )
    return {}
