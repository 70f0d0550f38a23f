"""From what the user names to evidence: studies, files, folders and URLs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence import border
from safemetry.evidence.engine import connect, thread_limit
from safemetry.evidence.evidence import (
    CONTEXT_NAMES,
    JUDGED_WHERE,
    Evidence,
    JudgedWhere,
    assemble,
    groups,
)
from safemetry.evidence.frames import from_arrow
from safemetry.evidence.identity import JudgeIdentity, by_judge
from safemetry.evidence.maps import EvidenceMap, FromColumn, Scale, judges_entry, make_map
from safemetry.evidence.schema import JUDGEMENTS, NAMES, Intent
from safemetry.evidence.study import Study
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion, Reader
from safemetry.readers.detect import convert, installed_readers
from safemetry.readers.locating import LeftOut, Recognised, Refused, find_sources, run_names
from safemetry.readers.source import Source

_SHOWN: Final = 5
_SETTLED: Final = frozenset(NAMES) - {"judge", "call", "label", "score", "status", "reason"}
"""What an import checked and no correction of a judgement changes. Items are looked at as items."""


@dataclass(frozen=True)
class SourceReport:
    """What became of the rows of one source.

    `rows_read` = `converted` + all `skipped` + `failed`.

    Parameters
    ----------
    path
        The source as the user named it; of a URL without user, password and query.
    format
        Name of the reader, or None where none was found.
    rows_read, converted, skipped, failed
        What became of its rows; `skipped` by reason.
    judgements
        Judgements that the rows made.
    added
        Whether they were written; False where the study held them already.
    texts
        Responses whose texts were written with them.
    problems
        What went wrong, at most the first few.
    warnings
        What a reader of the numbers must know.
    why
        Why a value is null.
    """

    path: str
    format: str | None
    rows_read: int
    converted: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    judgements: int = 0
    added: bool = False
    texts: int = 0
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Converted:
    """A source that was read.

    Parameters
    ----------
    source, reader, conversion
        What was read, by what, with which result.
    run
        The run of rows that name none.
    """

    source: Source
    reader: Reader
    conversion: Conversion
    run: str


def read_evidence(
    *sources: str,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    kind: str | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> Evidence:
    """Read one or more sources into evidence.

    Parameters
    ----------
    *sources
        Studies, log files, folders of logs, tables, or URLs.
    evidence_map
        A map, or a mapping with its entries.
    kind
        ``study``, or the name of a reader, where content alone does not decide.
    connection
        DuckDB connection to count on; a fresh one by default.

    Raises
    ------
    InputError
        For a source that is not there, that no reader recognises, that is named twice, or that
        holds a bad row.
    MissingExtraError
        For a format that needs a package which is not installed.
    """
    known = make_map(evidence_map or {})
    engine = connection or connect()
    names = [str(source) for source in sources]
    opened = find_sources(names, known, kind)
    readable = [item for item in opened if isinstance(item, Recognised)]
    runs = run_names(readable)
    parts = []
    for item in opened:
        if isinstance(item, str):
            parts.append(open_study(item, known, engine))
        elif isinstance(item, Refused):
            raise item.error.at(item.path)
        elif isinstance(item, Recognised):
            parts.append(_read(item, runs[item.source.location], known, engine))
    if not parts:
        raise InputError(
            "no reader recognises anything here",
            file=names[0],
            fix="say what it is with --as, or name its columns with --map",
        )
    evidence = parts[0] if len(parts) == 1 else _joined(parts, engine)
    said = [*_left_out([item for item in opened if isinstance(item, LeftOut)])]
    if readable and kind is None:
        said += installed_readers().warnings()
    evidence = evidence.warning_of_swaps()
    return replace(evidence, warnings=(*said, *evidence.warnings), threads=thread_limit(engine))


def _left_out(items: Sequence[LeftOut]) -> list[str]:
    """One sentence about what folders hold beside the sources that were read."""
    if not items:
        return []
    listed = ", ".join(f"{Path(item.path).name} ({item.why})" for item in items[:_SHOWN])
    more = f" and {len(items) - _SHOWN:,} more" if len(items) > _SHOWN else ""
    verb = "was" if len(items) == 1 else "were"
    return [f"{listed}{more} {verb} left out."]


def _read(
    item: Recognised, run: str, evidence_map: EvidenceMap, engine: duckdb.DuckDBPyConnection
) -> Evidence:
    conversion = convert(item.reader, item.source, evidence_map)
    if conversion.failures:
        first = conversion.failures[0].at(item.source.shown)
        if len(conversion.failures) == 1:
            raise first
        raise InputError(
            f"{first.problem}; {len(conversion.failures):,} rows like it failed",
            file=first.file,
            row=first.row,
            line=first.line,
            column=first.column,
            fix=first.fix,
        )
    return admit(Converted(item.source, item.reader, conversion, run), evidence_map, engine)


def admit(
    read: Converted, evidence_map: EvidenceMap, engine: duckdb.DuckDBPyConnection
) -> Evidence:
    """A converted source as evidence.

    Raises
    ------
    InputError
        Naming file, row, column and the fix.
    """
    conversion, source = read.conversion, read.source
    named = evidence_map
    if conversion.named:
        named = evidence_map.model_copy(update={"columns": {}})
    place = border.Place(source.shown, conversion.header_lines, run=read.run)
    with noticing_damage(source.shown):
        rows, instruments = border.admit(
            conversion.judgements, engine, named, scales=conversion.scales, place=place
        )
        evidence = assemble(rows, instruments, evidence_map, sources=[source.shown])
    return replace(
        evidence,
        warnings=(*conversion.warnings, *evidence.warnings),
        default_rule=conversion.default_rule or SuccessRule(),
        identities=tuple(conversion.judges),
        targets=dict(conversion.targets),
    )


@contextmanager
def noticing_damage(file: str) -> Iterator[None]:
    """Turn an error of the engine, which reads files as it counts, into one about the file."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            "does not fit into the memory that counting may use",
            file=file,
            fix="set SAFEMETRY_MEMORY to more, such as 4GB",
        ) from error
    except duckdb.Error as error:
        said = " ".join(str(error).partition("\n")[0].split())[:200]
        raise InputError(f"is damaged ({said})", file=file, fix="write it again") from error


def open_study(
    location: str, evidence_map: EvidenceMap, engine: duckdb.DuckDBPyConnection
) -> Evidence:
    """The evidence of a study, with its corrections applied.

    A map given beside the study says what its import left open, such as the direction of a score.
    What the import has translated stays: columns, labels and statuses are those of the study, and
    its class order too.

    Raises
    ------
    InputError
        Where it is no study, empty or damaged, naming the damaged part.
    """
    study = Study.open(location)
    commits = [commit for commit in study.commits() if commit.origin is not None]
    if not commits and study.holds_parts:
        raise InputError(
            "the study holds parts, but no import names them: its commits are lost, or its first "
            "import was cut off",
            file=location,
            fix=f"run `safemetry check {location}`",
        )
    if not commits:
        raise InputError("the study is empty", file=location, fix="import something into it")
    # What is settled is not looked at, so that a damaged cell of it would come to light while
    # rates are counted, or never.
    study.refuse_damage()
    with noticing_damage(location), study.naming_damage():
        rows = study.tidy(engine)
        known = _for_study(study, evidence_map, engine)
        records = study.judges()
        admitted, instruments = border.admit(
            rows,
            engine,
            known,
            scales={record.identity.name: record.scale for record in records},
            place=border.Place(location),
            settled=_SETTLED,
        )
        items = _items(study, known, engine)
        evidence = assemble(admitted, instruments, known, sources=[location], items=items)
        targets = {
            row["target"]: json.loads(row["settings"])
            for row in study.table(engine, "targets").to_arrow_table().to_pylist()
            if row.get("settings")
        }
        identities = by_judge(record.identity for record in records)
        judged_by = _judged_by(study, identities, engine)
    rules = {
        str(commit.origin.other_options.get("default_rule", "comply"))
        for commit in commits
        if commit.origin is not None
    }
    warnings = dict.fromkeys(warning for commit in commits for warning in commit.warnings)
    return replace(
        evidence,
        warnings=(*warnings, *evidence.warnings),
        default_rule=SuccessRule.parse(rules.pop()) if len(rules) == 1 else SuccessRule(),
        identities=tuple(identity for stated in identities.values() for identity in stated),
        judged_by=judged_by,
        targets=targets,
    )


def _judged_by(
    study: Study,
    identities: Mapping[str, Sequence[JudgeIdentity]],
    engine: duckdb.DuckDBPyConnection,
) -> dict[JudgedWhere, frozenset[str]]:
    """Run, target and judge -> the identities that may have judged there, of swapped judges."""
    swapped = {
        name: frozenset(identity.digest for identity in stated)
        for name, stated in identities.items()
        if len(stated) > 1
    }
    if not swapped:
        return {}
    judgements = study.table(engine, "judgements").project("run, target, judge, judge_identity")
    found: dict[JudgedWhere, frozenset[str]] = {}
    for run, target, judge, digest in judgements.distinct().fetchall():
        if judge in swapped:
            # A source that states two identities does not say which of them judged a row.
            digests = swapped[judge] if digest is None else frozenset({digest})
            where = (run, target, judge)
            found[where] = found.get(where, frozenset()) | digests
    return found


def _items(study: Study, evidence_map: EvidenceMap, engine: duckdb.DuckDBPyConnection) -> pa.Table:
    """The items that a study holds judgements on, with their contexts.

    Raises
    ------
    InputError
        Where an item has an intent that is none.
    """
    items = study.tidy(engine, CONTEXT_NAMES, distinct=True).to_arrow_table()
    unknown = set(items["intent"].unique().to_pylist()) - {None, *Intent}
    if unknown:
        raise InputError(
            f"unknown intent {min(unknown)!r}",
            file=str(study.path),
            column="intent",
            fix=f"run `safemetry check {study.path}`",
        )
    if evidence_map.intent is None:
        return items
    place = items.schema.get_field_index("intent")
    stated = pa.repeat(str(evidence_map.intent), items.num_rows)
    return items.set_column(place, items.schema.field(place), stated)


def _for_study(
    study: Study, evidence_map: EvidenceMap, engine: duckdb.DuckDBPyConnection
) -> EvidenceMap:
    """The part of a map that still applies to judgements which a map has translated already."""
    intent = None if isinstance(evidence_map.intent, FromColumn) else evidence_map.intent
    if intent is not None:
        stated = study.table(engine, "items").filter("intent IS NOT NULL").limit(1).fetchall()
        intent = None if stated else intent
    return evidence_map.model_copy(
        update={
            "classes": study.classes,
            "outside": study.outside,
            "columns": {},
            "constants": {},
            "labels": {},
            "label_columns": None,
            "status": None,
            "intent": intent,
            "judges": {
                name: scale.model_copy(update={"labels": {}})
                for name, scale in evidence_map.judges.items()
            },
        }
    )


# --- several sources ------------------------------------------------------------------------------


def _joined(parts: Sequence[Evidence], engine: duckdb.DuckDBPyConnection) -> Evidence:
    """Several sources as one.

    Raises
    ------
    InputError
        Where they order their classes differently, or a judge has two scales.
    """
    first = parts[0]
    tables = []
    for part in parts:
        if (part.map.classes, part.map.outside) != (first.map.classes, first.map.outside):
            raise InputError(
                f"{part.sources[0]} orders its classes {', '.join(part.map.classes)}, "
                f"{first.sources[0]} {', '.join(first.map.classes)}",
                fix="give both the same classes in the map",
            )
    instruments = _instruments(parts)
    for part in parts:
        with noticing_damage(part.sources[0]):
            tables.append(part.rows.collect("pyarrow").to_arrow().cast(JUDGEMENTS))
    joined = assemble(
        from_arrow(pa.concat_tables(tables), engine),
        instruments,
        first.map,
        sources=[name for part in parts for name in part.sources],
    )
    targets, differing = _settings(parts)
    identities = _identities(parts)
    warnings = dict.fromkeys(warning for part in parts for warning in part.warnings)
    rules = {part.default_rule for part in parts}
    return replace(
        joined,
        warnings=(*warnings, *differing, *joined.warnings),
        default_rule=rules.pop() if len(rules) == 1 else SuccessRule(),
        identities=tuple(identity for stated in identities.values() for identity in stated),
        judged_by=_judged_by_parts(parts, identities),
        targets=targets,
    )


def _identities(parts: Sequence[Evidence]) -> dict[str, list[JudgeIdentity]]:
    """Judge -> its identities; where a source states none, its name alone beside those of others.

    A study keeps a judge without an identity by its name too.
    """
    stated = by_judge(identity for part in parts for identity in part.identities)
    silent = [
        JudgeIdentity(judge)
        for part in parts
        for judge in sorted(part.instruments.keys() & stated.keys())
        if judge not in by_judge(part.identities)
    ]
    return by_judge([*(one for several in stated.values() for one in several), *silent])


def _judged_by_parts(
    parts: Sequence[Evidence], identities: Mapping[str, Sequence[JudgeIdentity]]
) -> dict[JudgedWhere, frozenset[str]]:
    """Run, target and judge -> the identities that may have judged there, of swapped judges."""
    swapped = {name for name, stated in identities.items() if len(stated) > 1}
    found: dict[JudgedWhere, frozenset[str]] = {}
    for part in parts:
        if not swapped & part.instruments.keys():
            continue
        own = by_judge(part.identities)
        for row in groups(part.rows, JUDGED_WHERE).to_pylist():
            where = (row["run"], row["target"], row["judge"])
            if where[2] not in swapped:
                continue
            stated = own.get(where[2]) or [JudgeIdentity(where[2])]
            digests = part.judged_by.get(where) or {identity.digest for identity in stated}
            found[where] = found.get(where, frozenset()) | digests
    return found


def _settings(parts: Sequence[Evidence]) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Target -> its settings, and a sentence for each target that ran with different ones."""
    settings: dict[str, Mapping[str, Any]] = {}
    differing: dict[str, None] = {}
    for part in parts:
        for target, stated in part.targets.items():
            if target in settings and dict(settings[target]) != dict(stated):
                differing[target] = None
            settings.setdefault(target, stated)
    return settings, [
        f"Target {target!r} ran with different settings in these sources." for target in differing
    ]


def _instruments(parts: Sequence[Evidence]) -> dict[str, border.Instrument]:
    """The judges of all sources.

    Raises
    ------
    InputError
        Where a judge has two scales, naming all such judges with a source of each scale.
    """
    instruments: dict[str, border.Instrument] = {}
    first: dict[str, str] = {}
    scales: dict[str, list[Scale]] = {}
    clashes: dict[str, str] = {}
    for part in parts:
        source = ", ".join(part.sources)
        for judge, new in part.instruments.items():
            scales.setdefault(judge, []).append(new.scale)
            known = instruments.get(judge)
            if known is None:
                instruments[judge], first[judge] = new, source
            elif known.scale == new.scale:
                instruments[judge] = _merged(known, new)
            else:
                clashes.setdefault(
                    judge,
                    f"judge {judge!r} has two scales, {_said(known.scale)} in {first[judge]} and "
                    f"{_said(new.scale)} in {source}",
                )
    if clashes:
        stanza = judges_entry({judge: scales[judge] for judge in clashes})
        raise InputError(
            "; ".join(clashes.values()),
            fix=f"declare one in the map, {stanza}, or read the sources one by one",
        )
    return instruments


def _merged(known: border.Instrument, new: border.Instrument) -> border.Instrument:
    """A judge of two sources."""
    return replace(
        known,
        labels=known.labels | new.labels,
        scored=known.scored or new.scored,
        last_call=_higher(known.last_call, new.last_call),
        reasons=known.reasons | new.reasons,
        last_epoch=_higher(known.last_epoch, new.last_epoch),
    )


def _higher(one: int | None, other: int | None) -> int | None:
    """The higher of two numbers that are known."""
    return None if one is None or other is None else max(one, other)


def _said(scale: Scale) -> str:
    stated = {name: value for name, value in scale.model_dump().items() if value not in (None, {})}
    return ", ".join(f"{name} {value}" for name, value in stated.items()) or "one undeclared"
