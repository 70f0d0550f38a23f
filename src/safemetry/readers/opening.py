"""From what the user names to evidence: studies, files, folders and URLs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence import border
from safemetry.evidence.engine import connect
from safemetry.evidence.evidence import Evidence, assemble
from safemetry.evidence.frames import ROW
from safemetry.evidence.maps import EvidenceMap, make_map
from safemetry.evidence.schema import JUDGEMENTS
from safemetry.evidence.study import Study
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion, Reader
from safemetry.readers.detect import STUDY, children_of, detect, reader_named
from safemetry.readers.source import Source

NOT_RECOGNISED = "not recognised by any reader"


@dataclass(frozen=True)
class SourceReport:
    """What became of the rows of one source.

    `rows_read` = `converted` + all `skipped` + `failed`.
    """

    path: str
    format: str | None
    rows_read: int
    converted: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    judgements: int = 0
    added: bool = False
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Converted:
    """A source that was read."""

    source: Source
    reader: Reader
    conversion: Conversion


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
        For a source that is not there, that no reader recognises, or that holds a bad row.
    """
    known = make_map(evidence_map or {})
    engine = connection or connect()
    found = [_open(source, known, kind, engine) for source in sources]
    return found[0] if len(found) == 1 else _joined(found, engine)


def _open(
    location: str, evidence_map: EvidenceMap, kind: str | None, engine: duckdb.DuckDBPyConnection
) -> Evidence:
    if kind == STUDY or (kind is None and Study.is_study(location)):
        return open_study(location, evidence_map, engine)
    parts = []
    for item in expand(location, evidence_map, kind):
        if isinstance(item, SourceReport):
            continue
        conversion = item.reader.read(item.source, evidence_map)
        if conversion.failures:
            raise conversion.failures[0].at(item.source.location)
        parts.append(admit(Converted(item.source, item.reader, conversion), evidence_map, engine))
    if not parts:
        raise InputError(
            "no reader recognises anything here",
            file=location,
            fix="say what it is with --as, or name its columns with --map",
        )
    return parts[0] if len(parts) == 1 else _joined(parts, engine)


@dataclass(frozen=True)
class Recognised:
    """A source and the reader that will read it."""

    source: Source
    reader: Reader


def expand(
    location: str, evidence_map: EvidenceMap, kind: str | None
) -> Iterable[Recognised | SourceReport]:
    """The readable sources below a location; what no reader recognises in a folder is reported.

    Raises
    ------
    InputError
        Where the location does not exist, is ambiguous, or is a file that no reader recognises.
    """
    source = Source(location, evidence_map.limits)
    if not source.is_remote and not source.path.exists():
        raise InputError("no such file or folder", file=location)
    if kind is not None:
        yield Recognised(source, reader_named(kind))
        return
    if source.is_folder:
        yield from _expand_folder(source, evidence_map)
        return
    reader = detect(source, evidence_map)
    if reader is None:
        raise _unrecognised(source)
    yield Recognised(source, reader)


def _expand_folder(
    folder: Source, evidence_map: EvidenceMap
) -> Iterable[Recognised | SourceReport]:
    """A folder is read as one source only if nothing else lies in it."""
    reader = detect(folder, evidence_map)
    children = children_of(folder.path)
    if reader is not None and not _holds_others(children, evidence_map):
        yield Recognised(folder, reader)
        return
    for path in children:
        child = Source(str(path), evidence_map.limits)
        if path.is_dir():
            yield from _expand_folder(child, evidence_map)
        elif (found := detect(child, evidence_map)) is not None:
            yield Recognised(child, found)
        else:
            why = {"format": NOT_RECOGNISED}
            yield SourceReport(str(path), None, 0, 0, {NOT_RECOGNISED: 0}, why=why)


def _holds_others(children: Sequence[Path], evidence_map: EvidenceMap) -> bool:
    """Whether a file below is a source of its own."""
    return any(
        _holds_others(children_of(path), evidence_map)
        if path.is_dir()
        else detect(Source(str(path), evidence_map.limits), evidence_map) is not None
        for path in children
    )


def _unrecognised(source: Source) -> InputError:
    if not source.head.strip():
        return InputError("the file is empty", file=source.location)
    from safemetry.readers.tables import kind_of_table, read_table

    if kind_of_table(source) is not None:
        # Reading it fails with the precise place where the table is damaged.
        table = read_table(source)
        shown = ", ".join(table.columns[:12]) + (", ..." if len(table.columns) > 12 else "")
        return InputError(
            f"its columns ({shown}) make neither a tidy table (target, item, and label or score), "
            "nor a label table, nor a matrix",
            file=source.location,
            fix="name the columns with --map, or say what it is with --as",
        )
    return InputError(
        "no reader recognises it", file=source.location, fix="say what it is with --as"
    )


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
    place = border.Place(source.location, conversion.header_lines, run=source.name)
    try:
        rows, instruments = border.admit(
            conversion.judgements, engine, named, scales=conversion.scales, place=place
        )
        evidence = assemble(rows, instruments, evidence_map, sources=[source.location])
    except duckdb.Error as error:
        raise _damaged(source, error) from error
    return replace(
        evidence,
        warnings=(*conversion.warnings, *evidence.warnings),
        default_rule=conversion.default_rule or SuccessRule(),
        identities=tuple(conversion.judges),
        targets=dict(conversion.targets),
    )


def _damaged(source: Source, error: duckdb.Error) -> InputError:
    said = str(error).partition("\n")[0]
    return InputError(f"cannot be read ({said})", file=source.location, fix="write it again")


def open_study(
    location: str, evidence_map: EvidenceMap, engine: duckdb.DuckDBPyConnection
) -> Evidence:
    """The evidence of a study, with its corrections applied.

    A map given beside the study adds what its import left open, such as the direction of a score;
    the class order stays that of the study.

    Raises
    ------
    InputError
        Where it is no study, or empty.
    """
    study = Study.open(location)
    commits = [commit for commit in study.commits() if commit.origin is not None]
    if not commits:
        raise InputError("the study is empty", file=location, fix="import something into it")
    known = evidence_map.model_copy(
        update={"classes": study.classes, "outside": study.outside, "columns": {}}
    )
    records = study.judges()
    rows, instruments = border.admit(
        study.tidy(engine),
        engine,
        known,
        scales={record.identity.name: record.scale for record in records},
        place=border.Place(location),
    )
    evidence = assemble(rows, instruments, known, sources=[location])
    rules = {
        str(commit.origin.other_options.get("default_rule", "comply"))
        for commit in commits
        if commit.origin is not None
    }
    targets = study.table(engine, "targets").to_arrow_table().to_pylist()
    warnings = dict.fromkeys(warning for commit in commits for warning in commit.warnings)
    return replace(
        evidence,
        warnings=(*warnings, *evidence.warnings),
        default_rule=SuccessRule.parse(rules.pop()) if len(rules) == 1 else SuccessRule(),
        identities=tuple(record.identity for record in records),
        targets={
            row["target"]: json.loads(row["settings"]) for row in targets if row.get("settings")
        },
    )


def _joined(parts: Sequence[Evidence], engine: duckdb.DuckDBPyConnection) -> Evidence:
    """Several sources as one.

    Raises
    ------
    InputError
        Where they order their classes differently, or a judge has two scales.
    """
    first = parts[0]
    instruments: dict[str, border.Instrument] = {}
    for part in parts:
        if part.map.classes != first.map.classes:
            raise InputError(
                f"{part.sources[0]} orders its classes {', '.join(part.map.classes)}, "
                f"{first.sources[0]} {', '.join(first.map.classes)}",
                fix="give both the same classes in the map",
            )
        for judge, instrument in part.instruments.items():
            instruments[judge] = _merged(judge, instruments.get(judge), instrument)
    table = pa.concat_tables(
        [part.rows.collect("pyarrow").to_arrow().cast(JUDGEMENTS) for part in parts]
    )
    from safemetry.evidence.frames import from_arrow

    joined = assemble(
        from_arrow(table, engine),
        instruments,
        first.map,
        sources=[name for part in parts for name in part.sources],
    )
    rules = {part.default_rule for part in parts}
    return replace(
        joined,
        warnings=(*dict.fromkeys(w for part in parts for w in part.warnings), *joined.warnings),
        default_rule=rules.pop() if len(rules) == 1 else SuccessRule(),
        identities=tuple(dict.fromkeys(i for part in parts for i in part.identities)),
        targets={name: settings for part in parts for name, settings in part.targets.items()},
    )


def _merged(
    judge: str, known: border.Instrument | None, new: border.Instrument
) -> border.Instrument:
    if known is None:
        return new
    if known.scale != new.scale:
        raise InputError(
            f"judge {judge!r} has two scales", fix="declare one under judges in the map"
        )
    return border.Instrument(known.scale, known.labels | new.labels, known.scored or new.scored)


__all__ = [
    "NOT_RECOGNISED",
    "ROW",
    "Converted",
    "Recognised",
    "SourceReport",
    "admit",
    "expand",
    "open_study",
    "read_evidence",
]
