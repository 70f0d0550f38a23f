"""Import: sources go into a study, each whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.engine import connect
from safemetry.evidence.maps import EvidenceMap, make_map
from safemetry.evidence.schema import JUDGEMENTS
from safemetry.evidence.study import Accounting, Import, Study
from safemetry.findings import Finding, plain
from safemetry.readers.detect import STUDY, files_below
from safemetry.readers.opening import Converted, Recognised, SourceReport, admit, expand
from safemetry.readers.source import Source

_CHUNK = 4 * 2**20


@dataclass(frozen=True, kw_only=True)
class ImportFinding(Finding):
    """What became of every source.

    Parameters
    ----------
    sources
        One report per source.
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
        known = sum(
            not report.added and not report.problems and report.format is not None
            for report in self.sources_read
        )
        said = f"{added:,} judgements added to {self.study}"
        if known:
            said += f"; {known} {'source was' if known == 1 else 'sources were'} there already"
        refused = [report for report in self.sources_read if report.problems]
        if refused:
            said += f"; {len(refused)} refused, nothing of them was written"
        return said + "."


def import_sources(
    sources: Sequence[str],
    study: str | Path,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    kind: str | None = None,
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

    Raises
    ------
    InputError
        Where the study cannot be opened, or orders its classes differently from the map.
    """
    known = make_map(evidence_map or {})
    if kind == STUDY:
        raise InputError("a study cannot be imported into a study", fix="name its sources")
    _refuse_other_folder(Path(study))
    reports: list[SourceReport] = []
    for location in sources:
        if Study.is_study(location):
            raise InputError("is a study itself", file=location, fix="name its sources")
        try:
            found = list(expand(location, known, kind))
        except InputError as error:
            reports.append(_refused(location, None, error))
            continue
        for item in found:
            if isinstance(item, SourceReport):
                reports.append(item)
            else:
                reports.append(_import_one(item, Path(study), known))
    warnings = dict.fromkeys(warning for report in reports for warning in report.warnings)
    return ImportFinding(
        settings={"map_digest": known.digest, "as": kind, "why": {"as": "detected by content"}},
        warnings=tuple(warnings),
        sources_read=tuple(reports),
        study=str(study),
    )


def _refuse_other_folder(study: Path) -> None:
    if (
        study.exists()
        and not Study.is_study(study)
        and (not study.is_dir() or any(study.iterdir()))
    ):
        raise InputError(
            "exists and is no study", file=str(study), fix="name a new folder, or a study"
        )


def _refused(
    location: str,
    name: str | None,
    error: InputError,
    rows: int = 0,
    skipped: Mapping[str, int] | None = None,
) -> SourceReport:
    lost = dict(skipped or {})
    return SourceReport(
        path=location,
        format=name,
        rows_read=rows,
        converted=0,
        skipped=lost,
        failed=rows - sum(lost.values()),
        problems=(str(error.at(location)),),
        why={} if name else {"format": "not recognised"},
    )


def _import_one(item: Recognised, study: Path, evidence_map: EvidenceMap) -> SourceReport:
    location, reader = item.source.location, item.reader
    try:
        conversion = item.reader.read(item.source, evidence_map)
    except InputError as error:
        return _refused(location, reader.name, error)
    if conversion.failures:
        return SourceReport(
            path=location,
            format=reader.name,
            rows_read=conversion.rows_read,
            converted=conversion.converted,
            skipped=conversion.skipped,
            failed=len(conversion.failures),
            problems=tuple(str(error.at(location)) for error in conversion.failures[:5]),
        )
    engine = connect()
    # Rows are written in the order of the source, so that a study repeats to the byte.
    engine.execute("SET preserve_insertion_order = true")
    try:
        evidence = admit(Converted(item.source, reader, conversion), evidence_map, engine)
        table = evidence.rows.collect("pyarrow").to_arrow().cast(JUDGEMENTS)
        options = {"default_rule": str(conversion.default_rule)} if conversion.default_rule else {}
        committed = Study.open_or_create(study, evidence_map.classes, evidence_map.outside).add(
            Import(
                judgements=table,
                source=location,
                source_digest=_digest(item.source, table),
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
                scales={
                    judge: instrument.scale for judge, instrument in evidence.instruments.items()
                },
                targets=conversion.targets,
                warnings=evidence.warnings,
            )
        )
    except InputError as error:
        return _refused(location, reader.name, error, conversion.rows_read, conversion.skipped)
    finally:
        engine.close()
    return SourceReport(
        path=location,
        format=reader.name,
        rows_read=conversion.rows_read,
        converted=conversion.converted,
        skipped=conversion.skipped,
        failed=0,
        judgements=table.num_rows,
        added=committed.added,
        warnings=tuple(committed.warnings),
    )


def _digest(source: Source, table: pa.Table) -> str:
    """Digest of the bytes of a file or folder; of the judgements where a URL has no fixed bytes."""
    digest = hashlib.sha256()
    if source.is_remote:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        digest.update(sink.getvalue())
        return digest.hexdigest()
    files = files_below(source.path) if source.is_folder else [source.path]
    for path in files:
        if source.is_folder:
            digest.update(str(path.relative_to(source.path)).encode() + b"\x00")
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()
