"""Import: sources go into a study, each whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from safemetry.errors import InputError, MissingExtraError
from safemetry.evidence.engine import connect
from safemetry.evidence.maps import EvidenceMap, make_map
from safemetry.evidence.schema import JUDGEMENTS
from safemetry.evidence.study import Accounting, Import, Study
from safemetry.evidence.study_commits import commit_path, read_commit
from safemetry.evidence.study_import import INCLUDE_TEXT
from safemetry.evidence.study_tables import TABLES
from safemetry.findings import Finding, plain, resolved
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.detect import STUDY, convert, files_below, installed_readers
from safemetry.readers.locating import Found, LeftOut, Recognised, Refused, expand, run_names
from safemetry.readers.opening import Converted, SourceReport, admit, noticing_damage
from safemetry.readers.source import Source
from safemetry.readers.texts import texts_of_source, why_without

if TYPE_CHECKING:
    import duckdb

_PROBLEMS = 5
_TEXT_ROWS = 2_000
_TEXT_CHARACTERS = 16_000_000
"""How many texts, or how many characters of them, are in memory at once."""


@dataclass(frozen=True, kw_only=True)
class ImportFinding(Finding):
    """What became of every source.

    Parameters
    ----------
    sources_read
        One report for each source, and for each file of a folder that is none; in JSON they
        stand under ``sources``.
    study
        Path of the study, as it was named.
    """

    command: ClassVar[str] = "import"

    sources_read: tuple[SourceReport, ...]
    study: str

    @property
    def complete(self) -> bool:
        """Whether every row of every source is accounted for and none failed."""
        return not any(
            report.failed
            or report.problems
            or report.rows_read != report.converted + sum(report.skipped.values()) + report.failed
            for report in self.sources_read
        )

    def own_keys(self) -> dict[str, Any]:
        """The JSON keys; the reports stand under `sources`."""
        return {"sources": plain(self.sources_read), "study": self.study}

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per source."""
        return [plain(report) for report in self.sources_read]

    def sentence(self) -> str:
        """How much was added, and what was not."""
        added = sum(report.judgements for report in self.sources_read if report.added)
        refused = sum(bool(report.problems) for report in self.sources_read)
        known = sum(
            not report.added and not report.problems and report.format is not None
            for report in self.sources_read
        )
        said = f"{added:,} judgement{_s(added)} added to {self.study}"
        texts = sum(report.texts for report in self.sources_read)
        if texts:
            said += f", with the texts of {texts:,} response{_s(texts)}"
        if known:
            said += f"; {known:,} {'source was' if known == 1 else 'sources were'} there already"
        if refused:
            said += f"; {refused:,} source{_s(refused)} refused, of which nothing was written"
        return said + "."


def _s(number: int) -> str:
    return "" if number == 1 else "s"


def import_sources(
    sources: Sequence[str],
    study: str | Path,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    kind: str | None = None,
    replace: bool = False,
    include_text: bool = False,
) -> ImportFinding:
    """Read sources into a study; what fails is reported and leaves no trace in it.

    Parameters
    ----------
    sources
        Log files, folders of logs, tables, or URLs.
    study
        Directory of the study; created where there is none.
    evidence_map
        A map, or a mapping with its entries; it is kept with the evidence.
    kind
        Name of the reader, where content alone does not decide.
    replace
        Let a source take the place of what the same bytes gave with another map or reader.
    include_text
        Keep the texts of prompts and responses too, where the reader of a source finds them.

    Raises
    ------
    InputError
        Where the study cannot be opened, is damaged, or orders its classes differently from the
        map.
    """
    known = make_map(evidence_map or {})
    if kind == STUDY:
        raise InputError("a study cannot be imported into a study", fix="name its sources")
    folder = Path(study)
    was_there = _check_study(folder, known)
    found: list[Found] = []
    for location in map(str, sources):
        try:
            found += _expand(location, known, kind)
        except InputError as error:
            found.append(Refused(location, error))
    runs = run_names([item for item in found if isinstance(item, Recognised)])
    reports = []
    for item in found:
        if isinstance(item, Recognised):
            reports.append(
                _import_one(
                    item,
                    runs[item.source.location],
                    folder,
                    known,
                    replace=replace,
                    include_text=include_text,
                )
            )
        elif isinstance(item, Refused):
            reports.append(_refused(Source(item.path), None, item.error))
        else:
            reports.append(_left_out(item))
    if not was_there:
        _remove_empty(folder)
    warnings = dict.fromkeys(warning for report in reports for warning in report.warnings)
    unasked = installed_readers().warnings() if kind is None else ()
    return ImportFinding(
        settings=resolved(
            {"map_digest": known.digest, "as": kind, "include_text": include_text},
            "detected by content",
        ),
        warnings=(*unasked, *warnings),
        sources_read=tuple(reports),
        study=str(study),
    )


def _expand(location: str, evidence_map: EvidenceMap, kind: str | None) -> list[Found]:
    Source(location).refuse_unreadable()
    if Study.is_study(location):
        raise InputError("is a study itself", file=location, fix="name its sources")
    return expand(location, evidence_map, kind)


def _check_study(study: Path, evidence_map: EvidenceMap) -> bool:
    """Whether the study is there; refuse any other folder, and a map of other classes."""
    if Study.is_study(study):
        held = Study.open(study)
        held.commits()  # a damaged study is refused as such, before anything is read
        if (held.classes, held.outside) != (evidence_map.classes, evidence_map.outside):
            raise InputError(
                f"the study has the classes {', '.join(held.classes)} (outside: "
                f"{', '.join(held.outside)}), the map {', '.join(evidence_map.classes)} "
                f"(outside: {', '.join(evidence_map.outside)})",
                file=str(study),
                fix=f"write classes: [{', '.join(held.classes)}] and outside: "
                f"[{', '.join(held.outside)}] in the map, or import into another study",
            )
        return True
    Study.refuse_lost(study)
    if study.exists() and (not study.is_dir() or any(study.iterdir())):
        raise InputError(
            "exists and is no study", file=str(study), fix="name a new folder, or a study"
        )
    return False


def _remove_empty(study: Path) -> None:
    """Remove what was created for sources that were all refused in the end."""
    if not Study.is_study(study) or Study.open(study).history():
        return
    (study / "study.json").unlink()
    for folder in sorted((path for path in study.rglob("*") if path.is_dir()), reverse=True):
        _remove_folder(folder)
    _remove_folder(study)


def _remove_folder(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        # Another writer is at work in it.
        return


def _left_out(item: LeftOut) -> SourceReport:
    """A file that is no source: it has no rows to account for."""
    return SourceReport(
        item.path, None, rows_read=0, converted=0, skipped={item.why: 0}, why={"format": item.why}
    )


def _refused(
    source: Source, name: str | None, error: Exception, conversion: Conversion | None = None
) -> SourceReport:
    """A source of which nothing is written: every row that it does not skip has failed."""
    rows = conversion.rows_read if conversion else 0
    skipped = dict(conversion.skipped) if conversion else {}
    said = error.at(source.shown) if isinstance(error, InputError) else error
    return SourceReport(
        path=source.shown,
        format=name,
        rows_read=rows,
        converted=0,
        skipped=skipped,
        failed=rows - sum(skipped.values()),
        problems=(str(said),),
        why={} if name else {"format": "not read"},
    )


def _import_one(
    item: Recognised,
    run: str,
    study: Path,
    evidence_map: EvidenceMap,
    *,
    replace: bool,
    include_text: bool,
) -> SourceReport:
    source, reader = item.source, item.reader
    try:
        conversion = convert(reader, source, evidence_map)
    except (InputError, MissingExtraError) as error:
        return _refused(source, reader.name, error)
    if conversion.failures:
        return SourceReport(
            path=source.shown,
            format=reader.name,
            rows_read=conversion.rows_read,
            converted=conversion.converted,
            skipped=dict(conversion.skipped),
            failed=len(conversion.failures),
            problems=tuple(
                str(error.at(source.shown)) for error in conversion.failures[:_PROBLEMS]
            ),
        )
    texts = _batches(texts_of_source(item, run, evidence_map)) if include_text else None
    try:
        table, added, kept, warnings = _add(
            Converted(source, reader, conversion, run),
            study,
            evidence_map,
            replace=replace,
            texts=texts,
        )
    except InputError as error:
        return _refused(source, reader.name, error, conversion)
    return SourceReport(
        path=source.shown,
        format=reader.name,
        rows_read=conversion.rows_read,
        converted=conversion.converted,
        skipped=dict(conversion.skipped),
        judgements=table.num_rows,
        added=added,
        texts=kept,
        warnings=(*warnings, *([why_without(item)] if include_text and added and not kept else [])),
    )


def _batches(texts: Iterable[ResponseText]) -> Iterator[pa.RecordBatch]:
    """Texts as rows of the table `texts`, a few at a time."""
    rows: list[dict[str, Any]] = []
    size = 0
    for text in texts:
        rows.append(asdict(text))
        size += len(text.prompt or "") + len(text.response or "")
        if len(rows) >= _TEXT_ROWS or size >= _TEXT_CHARACTERS:
            yield pa.RecordBatch.from_pylist(rows, TABLES["texts"])
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, TABLES["texts"])


def _add(
    read: Converted,
    study: Path,
    evidence_map: EvidenceMap,
    *,
    replace: bool,
    texts: Iterable[pa.RecordBatch] | None,
) -> tuple[pa.Table, bool, int, Sequence[str]]:
    """The judgements, whether they were written, with how many texts, and what must be known."""
    source, reader, conversion = read.source, read.reader, read.conversion
    with _ordered_engine() as engine:
        evidence = admit(read, evidence_map, engine)
        with noticing_damage(source.shown):
            table = evidence.rows.collect("pyarrow").to_arrow().cast(JUDGEMENTS)
    if not conversion.named and table.num_rows != conversion.rows_read:
        raise InputError(
            f"announces {conversion.rows_read:,} rows and holds {table.num_rows:,}",
            file=source.shown,
            fix="write it again",
        )
    options: dict[str, Any] = (
        {"default_rule": str(conversion.default_rule)} if conversion.default_rule else {}
    )
    if texts is not None:
        options[INCLUDE_TEXT] = True
    held = Study.open_or_create(study, evidence_map.classes, evidence_map.outside)
    committed = held.add(
        Import(
            judgements=table,
            source=source.shown,
            source_digest=_digest(source, table, conversion.beside),
            reader=reader.name,
            reader_version=reader.version,
            accounting=Accounting(
                rows_read=conversion.rows_read,
                converted=conversion.converted,
                skipped=dict(conversion.skipped),
                failed=0,
            ),
            evidence_map=evidence_map,
            options=options,
            judges=conversion.judges,
            scales={judge: instrument.scale for judge, instrument in evidence.instruments.items()},
            targets=conversion.targets,
            warnings=evidence.warnings,
            texts=texts,
        ),
        replace=replace,
    )
    commit = read_commit(commit_path(held.path, committed.commit))
    kept = sum(part.rows for part in commit.parts if part.table == "texts")
    return table, committed.added, kept if committed.added else 0, committed.warnings


def _ordered_engine() -> duckdb.DuckDBPyConnection:
    """An engine that keeps the order of the source, so that a study repeats to the byte."""
    engine = connect()
    engine.execute("SET preserve_insertion_order = true")
    return engine


def _digest(source: Source, table: pa.Table, beside: Sequence[Path]) -> str:
    """Digest of the bytes of a file or folder; of the judgements where a URL has no fixed bytes.

    A file that decides what another one says counts with it.
    """
    if source.is_remote:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return hashlib.sha256(sink.getvalue()).hexdigest()
    if not (source.is_folder or beside):
        return _digest_of_file(source.path)
    names = (
        {path.relative_to(source.path).as_posix(): path for path in files_below(source.path)}
        if source.is_folder
        else {path.name: path for path in (source.path, *sorted(beside))}
    )
    digest = hashlib.sha256()
    for name, path in names.items():
        encoded = name.encode(errors="surrogateescape")
        digest.update(b"%d %s %s\n" % (len(encoded), encoded, _digest_of_file(path).encode()))
    return digest.hexdigest()


def _digest_of_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=str(path)) from error
