"""Export of evidence as records of Every Eval Ever, version 0.3.

Each run, target and benchmark gives a record (``.json``) with a figure for each judge, and beside
it a line (``_samples.jsonl``) for each judgement. The figures are the claims of `measure_rates`,
which is why this lives here and not beside the other formats of export.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.outcomes import refuse_duplicates
from safemetry.evidence.schema import JUDGEMENTS, Status
from safemetry.evidence.study_commits import settle
from safemetry.evidence.success import SuccessRule
from safemetry.rates.every_eval_ever_figures import UNKNOWN, Figures, Place
from safemetry.rates.every_eval_ever_line import line_of
from safemetry.rates.every_eval_ever_record import Contents, record_of

_ORDER: Final = ("run", "target", "benchmark", "item", "epoch", "judge", "call")
_BATCH: Final = 50_000
_NOT_PORTABLE: Final = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
_RESERVED: Final = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|data")
_LONGEST: Final = 100


@dataclass(frozen=True)
class Exported:
    """What was written.

    Parameters
    ----------
    rows
        Number of judgements.
    records
        Number of records.
    success
        The rule between classes, as written.
    warnings
        What could not be said in the format, in whole sentences.
    """

    rows: int
    records: int
    success: str
    warnings: tuple[str, ...]


def export_records(
    evidence: Evidence, folder: str | Path, *, success: SuccessRule | str | None = None
) -> Exported:
    """Write evidence as records of Every Eval Ever, all of them or none.

    No text of a prompt or response is written, and nothing is made up: what the evidence does not
    say is left out, or takes the word for unknown that the schema has.

    Parameters
    ----------
    evidence
        The judgements.
    folder
        A new or empty folder; the files stand in ``data/BENCHMARK/DEVELOPER/MODEL/`` inside it.
    success
        Boundary between classes for the rates of judges that give labels; `comply` by default,
        or the rule that the evidence implies.

    Raises
    ------
    InputError
        For a folder that is in use or cannot be written, a rule on scores, a judgement that stands
        twice, or a judge whose score -1 would read as unknown.
    """
    rule = _class_rule(evidence, success)
    final = Path(folder)
    _refuse_used(final)
    refuse_duplicates(evidence)
    table = evidence.rows.collect("pyarrow").to_arrow().cast(JUDGEMENTS)
    table = table.sort_by([(name, "ascending") for name in _ORDER])
    _refuse_ambiguous_scores(evidence, table)
    figures = Figures.of(evidence, table, rule)
    draft = final.with_name(f".{final.name}.{secrets.token_hex(8)}")
    try:
        try:
            draft.mkdir()
            records = _write(evidence, table, figures, draft)
            draft.replace(final)
            settle(final.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror or error})", file=str(folder)
        ) from error
    return Exported(table.num_rows, records, str(rule), figures.warnings)


def _class_rule(evidence: Evidence, success: SuccessRule | str | None) -> SuccessRule:
    if success is None:
        implied = evidence.default_rule
        return SuccessRule() if implied.threshold is not None else SuccessRule(implied.boundary)
    rule = SuccessRule.parse(success)
    if str(rule) != rule.boundary or rule.threshold is not None:
        raise InputError(
            f"records state rates of single judges by class, which {str(rule)!r} is not",
            fix="use comply or non_refusal",
        )
    return rule


def _refuse_used(folder: Path) -> None:
    try:
        used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=str(folder)) from error
    if used:
        raise InputError(
            "is in use, and records go into a folder of their own",
            file=str(folder),
            fix="name a new folder",
        )


def _refuse_ambiguous_scores(evidence: Evidence, table: pa.Table) -> None:
    """The schema reads -1 as unknown, so a judge cannot both give -1 and give nothing."""
    for judge, instrument in evidence.instruments.items():
        if not instrument.scored or instrument.labels:
            continue
        mine = table.filter(pc.equal(table["judge"], judge))
        judged = pc.equal(mine["status"], str(Status.OK))
        if not pc.all(judged).as_py() and -1 in mine.filter(judged)["score"].to_pylist():
            raise InputError(
                f"judge {judge!r} gives the score -1 and leaves responses without a verdict; the "
                "schema reads -1 as unknown, so the two would look alike",
                fix="export the judged responses alone, with --filter status=ok",
            )


# --- files ----------------------------------------------------------------------------------------


def _write(evidence: Evidence, table: pa.Table, figures: Figures, folder: Path) -> int:
    """Write every record below a folder, and return how many there are."""
    names: set[str] = set()
    folders: set[Path] = set()
    records = 0
    for place, rows in groupby(_rows(table), key=Place.of):
        identifier = str(uuid.UUID(bytes=_digest(place), version=4))
        evaluation = (
            place.evaluation
            if place.evaluation not in names
            else (f"{place.evaluation} ({identifier})")
        )
        names.add(evaluation)
        contents = Contents(evaluation)
        beside = folder / "draft"
        with beside.open("wb") as stream:
            for row in rows:
                contents.add(row)
                _write_line(stream, line_of(row, evaluation, figures), contents)
            os.fsync(stream.fileno())
        collection = _component(place.benchmark or UNKNOWN)
        path = f"data/{collection}/{_model_folder(place.target, contents.only('developer'))}"
        into = folder / path
        into.mkdir(parents=True, exist_ok=True)
        beside.replace(into / f"{identifier}_samples.jsonl")
        contents.file = f"{path}/{identifier}_samples.jsonl"
        record = record_of(place, contents, figures, evidence, created=time.time())
        with (into / f"{identifier}.json").open("wb") as stream:
            stream.write(_json(record, indent=2) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        folders.add(into)
        records += 1
    for written in sorted({above for into in folders for above in (into, *into.parents)}):
        if written.is_relative_to(folder):
            settle(written)
    return records


def _rows(table: pa.Table) -> Iterator[Mapping[str, Any]]:
    for batch in table.to_batches(_BATCH):
        yield from batch.to_pylist()


def _write_line(stream: IO[bytes], line: Mapping[str, Any], contents: Contents) -> None:
    written = _json(line) + b"\n"
    contents.checksum.update(written)
    stream.write(written)


def _json(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent).encode()


def _digest(place: Place) -> bytes:
    text = json.dumps([place.run, place.target, place.benchmark])
    return hashlib.sha256(text.encode()).digest()[:16]


def _model_folder(target: str, developer: str | None) -> str:
    """DEVELOPER/MODEL, as the datastore derives them from the id of the model."""
    maker, slash, model = target.partition("/")
    if not (slash and maker.strip() and model.strip()):
        maker, model = developer or UNKNOWN, target
    return f"{_component(maker)}/{_component(model)}"


def _component(name: str) -> str:
    """A name as one part of a path on any system."""
    plain = _NOT_PORTABLE.sub("_", name.strip()).rstrip(". ") or "_"
    if len(plain.encode()) > _LONGEST:
        kept = plain.encode()[: _LONGEST - 9].decode(errors="ignore")
        plain = f"{kept}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"_{plain}" if _RESERVED.fullmatch(plain) or plain.startswith(".") else plain
