"""Logs of Inspect AI: `.eval` archives and `.json` files, through Inspect's own Python API.

A row of the source is a sample in one epoch; each key of its scores is a judge. Sample summaries
are read, and samples in full only where a summary does not say enough.
"""

from __future__ import annotations

import gc
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from safemetry.errors import InputError, SafemetryError
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import BY_NAME, RESPONSE_KEY, TEXT, Reason, Status
from safemetry.extras import require
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.inspect_archive import (
    HEADER,
    SAMPLES,
    check_members,
    is_zip,
    names_a_log,
    opened,
    starts_like_a_log,
)
from safemetry.readers.inspect_fields import SampleSheet, check_map, read_context
from safemetry.readers.inspect_identity import judge_identity, target_settings
from safemetry.readers.inspect_scores import (
    Halt,
    JudgeColumn,
    Verdicts,
    judge_columns,
    read_verdicts,
)
from safemetry.readers.inspect_texts import texts_of
from safemetry.readers.source import Source

_JSON_LOG: Final = re.compile(
    rb"""\s*\{\s*(
        "version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"(started|success|cancelled|error)"
        | "eval"\s*:\s*\{(?=.*"dataset"\s*:)(?=.*"task"\s*:)  # with its keys sorted
    )""",
    re.VERBOSE | re.DOTALL,
)
_JSON_VERSION: Final = re.compile(rb'\s*\{\s*"version"\s*:\s*(\d+)')

_NOT_NEEDED: Final = frozenset(
    {
        "attachments",
        "error_retries",
        "events",
        "events_data",
        "messages",
        "output",
        "store",
        "timelines",
    }
)
"""Parts of a full sample that hold texts and traces; they are not even parsed."""

_TEXTS: Final = frozenset({"attachments", "messages", "output"})
"""Those of them that are read where texts are asked for."""

_AT_ONCE: Final = 1_000
_AT_ONCE_BYTES: Final = 32 * 2**20
"""How many samples, and of which size on average, are in memory with their texts."""

_MEANS: Final = ("accuracy", "mean")
_WORD: Final = re.compile(r"[\w.:-]{1,40}")
_LISTED: Final = 5
_MISMATCH: Final = 1e-6


class InspectReader:
    """Reads the logs of Inspect AI.

    Examples
    --------
    >>> from safemetry.evidence.maps import EvidenceMap
    >>> from safemetry.readers.source import Source
    >>> InspectReader().read(Source("absent.eval"), EvidenceMap())
    Traceback (most recent call last):
    safemetry.errors.InputError: absent.eval: no such file or folder
    """

    name = "inspect"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the source is an Inspect log, by its first bytes or the directory of the zip."""
        head = source.head
        if not is_zip(head):
            return _JSON_LOG.match(head) is not None
        if starts_like_a_log(head):
            return True
        return not source.is_remote and names_a_log(source.path)

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert a log.

        Raises
        ------
        InputError
            Where the log is damaged, empty, beyond the limits or of a later format, or where the
            map names a part of the samples that is not there.
        MissingExtraError
            Where inspect-ai is not installed.
        """
        check_map(evidence_map, source)
        with _collector_paused(), _local(source) as path:
            log = _read_log(source, path)
            context = read_context(source, log, evidence_map)
            return _convert(source, log, context, evidence_map)

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The messages up to the last answer of the target, and the answer, sample by sample.

        Raises
        ------
        InputError, MissingExtraError
            As `read`.
        """
        check_map(evidence_map, source)
        with _local(source) as path:
            with _collector_paused():
                log = _read_log(source, path)
                context = read_context(source, log, evidence_map)
                judged = _judged(_convert(source, log, context, evidence_map))
            for row, sample in log.read_texts(list(judged)):
                yield ResponseText(*judged[row], *texts_of(sample))


def _judged(conversion: Conversion) -> dict[int, tuple[str, str, str, int]]:
    """Place of each judged sample -> the key of its response."""
    names = ("source_row", *RESPONSE_KEY)
    rows = cast("pa.Table", conversion.judgements).select(names).to_pylist()
    return {row["source_row"] - 1: tuple(row[name] for name in RESPONSE_KEY) for row in rows}


# -- reading through Inspect ----------------------------------------------------------------------


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No search for garbage among the objects of a log, which all stay alive until it is read.

    It takes about as long as reading them.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _local(source: Source) -> Iterator[Path]:
    """The local path of the source; a remote one is copied first, as Inspect would do."""
    if not source.is_remote:
        if source.is_folder:
            raise InputError("is a folder, not a log", file=source.location, fix="name its logs")
        if not source.path.exists():
            raise InputError("no such file or folder", file=source.location)
        yield source.path
        return
    limit = source.limits.table_bytes
    with tempfile.TemporaryDirectory() as folder, source.open() as stream:
        path = Path(folder) / "log"
        with path.open("wb") as copy:
            while piece := stream.read(1 << 20):
                copy.write(piece)
                if copy.tell() > limit:
                    raise source.too_large(limit, "table_bytes")
        yield path


def _read_log(source: Source, path: Path) -> SampleSheet:
    """The log, as far as its judgements need it."""
    if not source.head:
        raise InputError("the file is empty", file=source.location)
    log = _read_archive(source, path) if is_zip(source.head) else _read_json(source)
    if not log.samples:
        raise _no_samples(source, log)
    return log


def _read_archive(source: Source, path: Path) -> SampleSheet:
    inspect = require("inspect_ai.log")
    if path.stat().st_size > source.limits.table_bytes:
        raise source.too_large(source.limits.table_bytes, "table_bytes")
    with opened(source, path) as archive:
        members = list(archive.NameToInfo)
        every = [name for name in archive.namelist() if name.startswith(SAMPLES)]
        samples = [name for name in members if name.startswith(SAMPLES) and name.endswith(".json")]
        others = [name for name in members if not name.startswith(SAMPLES)]
        if HEADER in archive.NameToInfo:  # then the journal is not read again
            others = [name for name in others if "/" not in name]
        check_members(source, archive, others)

    def read_in_full(keys: Sequence[tuple[Any, int]] | None = None) -> Sequence[Any]:
        with opened(source, path) as archive:
            check_members(source, archive, samples)
        options: dict[str, Any] = {"format": "eval", "exclude_fields": set(_NOT_NEEDED)}
        with _one_error(source):
            if keys is None:
                return list(inspect.read_eval_log(str(path), **options).samples or ())
            return list(inspect.read_eval_log_samples_by_id(str(path), keys, **options))

    def read_texts(which: Sequence[int]) -> Iterator[tuple[int, Any]]:
        with opened(source, path) as archive:
            check_members(source, archive, samples)
            size = sum(archive.getinfo(name).file_size for name in samples)
        at_once = max(1, min(_AT_ONCE, _AT_ONCE_BYTES * len(samples) // max(1, size)))
        for part in (which[at : at + at_once] for at in range(0, len(which), at_once)):
            keys = [(rows[row].id, rows[row].epoch) for row in part]
            with _one_error(source):
                found = inspect.read_eval_log_samples_by_id(
                    str(path),
                    keys,
                    format="eval",
                    resolve_attachments=True,
                    exclude_fields=set(_NOT_NEEDED - _TEXTS),
                )
            yield from zip(part, found, strict=True)

    with _one_error(source):
        header = inspect.read_eval_log(str(path), header_only=True, format="eval")
        _check_version(source, header.version, inspect)
        summaries = inspect.read_eval_log_sample_summaries(str(path), format="eval")
    # Which samples are invalidated stands in the samples alone, and a log that was cut off, or
    # written by an early release, may hold samples without a summary.
    in_full = header.invalidated or len(summaries) < len(samples)
    rows = read_in_full() if in_full else summaries
    return SampleSheet(
        header,
        rows,
        in_full=in_full,
        superseded=len(every) - len(set(every)),
        read_again=lambda which: read_in_full([(rows[row].id, rows[row].epoch) for row in which]),
        read_texts=read_texts,
    )


def _read_json(source: Source) -> SampleSheet:
    inspect = require("inspect_ai.log")
    content = source.read_bytes()
    if version := _JSON_VERSION.match(source.head):
        _check_version(source, int(version[1]), inspect)
    if _JSON_LOG.match(source.head) is None:
        raise InputError(
            "is no Inspect log (it does not begin with a version and a status)",
            file=source.location,
            fix="name the format with --as",
        )
    source.decode(content)
    with _one_error(source):
        log = inspect.read_eval_log(BytesIO(content), format="json")
    latest = {(str(sample.id), sample.epoch): sample for sample in log.samples or ()}
    samples = list(latest.values())
    return SampleSheet(
        log,
        samples,
        in_full=True,
        read_again=lambda rows: [samples[row] for row in rows],
        read_texts=lambda rows: (
            (row, inspect.resolve_sample_attachments(samples[row])) for row in rows
        ),
        superseded=len(log.samples or ()) - len(samples),
    )


def _check_version(source: Source, version: int, inspect: Any) -> None:
    known = inspect.EvalLog.model_fields["version"].default
    if version > known:
        raise InputError(
            f"is version {version} of Inspect's log format, and the installed inspect-ai reads "
            f"versions up to {known}",
            file=source.location,
            fix="run: pip install --upgrade inspect-ai",
        )


def _no_samples(source: Source, log: SampleSheet) -> InputError:
    if log.header.status in {"started", "cancelled", "error"}:
        said = f"holds no samples: the run ({log.header.status}) stopped before one was done"
        return InputError(said, file=source.location, fix="retry it with: inspect eval-retry")
    return InputError(
        "holds no samples", file=source.location, fix="run the eval with samples logged"
    )


@contextmanager
def _one_error(source: Source) -> Iterator[None]:
    """Whatever Inspect and the libraries under it raise for a damaged log, as one error."""
    try:
        yield
    except (SafemetryError, MemoryError):
        raise
    except Exception as error:
        said, row = _said(error)
        raise InputError(
            f"is damaged or not a valid Inspect log ({said})",
            file=source.location,
            row=row,
            fix="copy it again, or write it anew with: inspect log convert",
        ) from error


def _said(error: Exception) -> tuple[str, int | None]:
    """What a library says is wrong, without any text of the log, and the sample where known."""
    if hasattr(error, "errors") and callable(error.errors):  # pydantic
        first = error.errors()[0]
        place = list(first["loc"])
        row = None
        if len(place) > 1 and place[0] == "samples" and isinstance(place[1], int):
            row = place[1] + 1
            place = place[2:]
        where = ".".join(str(part) for part in place[:3])
        return f"{where}: {first['msg']}" if where else first["msg"], row
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.object[error.start]:#04x} is not UTF-8", None
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:120]}" if lines else type(error).__name__, None


# -- conversion -----------------------------------------------------------------------------------


@dataclass
class _Warnings:
    """Sentences about what a reader of the numbers must know."""

    sentences: list[str] = field(default_factory=list)

    def add(self, count: int, one: str, many: str) -> None:
        """Add a sentence unless it is about nothing; ``{n}`` stands for the count."""
        if count:
            self.sentences.append((one if count == 1 else many).replace("{n}", f"{count:,}"))


def _convert(
    source: Source,
    log: SampleSheet,
    context: Mapping[str, list[str | None]],
    evidence_map: EvidenceMap,
) -> Conversion:
    samples, header = log.samples, log.header
    halts, limited = _halts(log), _limited(samples)
    columns = judge_columns(samples, _declared_scorers(log))
    verdicts = {
        column.name: read_verdicts(column, halts, limited, evidence_map) for column in columns
    }
    if len(verdicts) < len(columns):
        twice = Counter(column.name for column in columns).most_common(1)[0][0]
        raise InputError(
            f"two scorers give the same judge {twice!r}",
            file=source.location,
            fix="rename one of them and score the log again",
        )
    try:
        table = _table(source, log, verdicts, context, evidence_map)
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
        # half of a surrogate pair, or an epoch beyond 64 bits: Inspect lets both pass
        raise InputError(
            f"holds a value that is no valid text or number ({type(error).__name__})",
            file=source.location,
            fix="write it anew with: inspect log convert",
        ) from error
    skipped = {"superseded by a later attempt": log.superseded} if log.superseded else {}
    if not columns:
        skipped["the log has no scorer"] = len(samples)
    warnings = _Warnings()
    _warn_of_run(log, warnings)
    _warn_of_samples(log, columns, halts, limited, warnings)
    for name, found in verdicts.items():
        _warn_of_judge(name, found, warnings)
    warnings.sentences.extend(_contradictions(log, verdicts))
    targets = (
        {*context[evidence_map.columns["target"]]}
        if "target" in evidence_map.columns
        else {evidence_map.constants.get("target", header.eval.model)}
    )
    settings = target_settings(header)
    return Conversion(
        judgements=table,
        rows_read=len(samples) + log.superseded,
        skipped=skipped,
        warnings=tuple(warnings.sentences),
        judges=tuple(judge_identity(column, header) for column in columns),
        scales={
            name: Scale(scale_min=0, scale_max=1)
            for name, found in verdicts.items()
            if found.bounded
        },
        targets=dict.fromkeys(sorted(filter(None, targets)), settings),
    )


def _halts(log: SampleSheet) -> dict[int, Halt]:
    """Samples without a verdict whatever their scores say."""
    halts: dict[int, Halt] = {
        row: (Status.ERROR, Reason.INFRASTRUCTURE_ERROR)
        for row, sample in enumerate(log.samples)
        if sample.error
    }
    if log.in_full:
        marked = [row for row, sample in enumerate(log.samples) if sample.invalidation is not None]
        if log.header.invalidated and not marked:
            marked = list(range(len(log.samples)))
        halts |= dict.fromkeys(marked, (Status.MISSING, Reason.INVALIDATED))
    return halts


def _limited(samples: Sequence[Any]) -> dict[int, str]:
    """Samples that a limit stopped, with the limit's name."""
    return {
        row: getattr(sample.limit, "type", sample.limit)
        for row, sample in enumerate(samples)
        if sample.limit
    }


def _declared_scorers(log: SampleSheet) -> list[str]:
    """Keys under which the declared scorers keep their scores, named as Inspect does."""
    header = log.header
    names = [scorer.name for scorer in header.eval.scorers or ()]
    if not names and header.results is not None:
        names = list(dict.fromkeys(score.scorer for score in header.results.scores))
    seen = {key for sample in log.samples for key in sample.scores or ()}
    keys: list[str] = []
    for name in names:
        known = name if name in seen else name.rpartition("/")[2]
        base = known if known in seen else name
        key, count = base, 0
        while key in keys:
            count += 1
            key = f"{base}{count}"
        keys.append(key)
    return keys


def _table(
    source: Source,
    log: SampleSheet,
    verdicts: Mapping[str, Verdicts],
    context: Mapping[str, list[str | None]],
    evidence_map: EvidenceMap,
) -> pa.Table:
    """The judgements, sample after sample with the judges in a fixed order."""
    samples, header = log.samples, log.header
    names = list(verdicts)
    kept = [np.asarray(found.kept, dtype=np.int64) for found in verdicts.values()]
    sample = np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)
    judge = np.repeat(np.arange(len(names)), [len(rows) for rows in kept])
    order = np.lexsort((judge, sample))
    sample, judge = pa.array(sample[order]), judge[order]
    cell = pa.array(judge * len(samples) + np.asarray(sample))

    def of_judge(part: str, kind: pa.DataType) -> pa.Array:
        cells = [value for found in verdicts.values() for value in getattr(found, part)]
        return pa.array(cells, kind).take(cell)

    def of_sample(values: Sequence[Any], kind: pa.DataType = TEXT) -> pa.Array:
        return pa.array(values, kind).take(sample)

    def same(value: str) -> pa.Array:
        return pa.repeat(pa.scalar(value, TEXT), len(sample))

    when = header.stats.completed_at or header.eval.created
    columns = {
        "run": same(header.eval.eval_id or header.eval.run_id or source.name),
        "target": same(header.eval.model),
        "item": of_sample([str(row.id) for row in samples]),
        "epoch": of_sample([row.epoch for row in samples], BY_NAME["epoch"].type),
        "judge": pa.array(names, TEXT).take(pa.array(judge)),
        **{
            part: of_judge(part, BY_NAME[part].type)
            for part in ("label", "score", "status", "reason")
        },
        "benchmark": same(header.eval.task),
        "timestamp": of_sample([row.completed_at or row.started_at or when for row in samples]),
        "source_file": same(source.name),
        "source_row": of_sample(range(1, len(samples) + 1), BY_NAME["source_row"].type),
    }
    mapped = {path: of_sample(values) for path, values in context.items()}
    columns |= {ours: mapped[path] for ours, path in evidence_map.columns.items()}
    # Under their own names too: the map's intent and status are looked up by them.
    own = {path: values for path, values in mapped.items() if path not in BY_NAME}
    return pa.table(columns | own)


# -- warnings -------------------------------------------------------------------------------------


def _warn_of_run(log: SampleSheet, warnings: _Warnings) -> None:
    header = log.header
    if header.status != "success":
        warnings.sentences.append(
            f"The run did not end well (status {header.status}); what it logged is read."
        )
    expected = _expected(header)
    found = len(log.samples)
    if found < expected:
        absent = _listed_absent(log)
        warnings.sentences.append(
            f"{expected - found:,} of {expected:,} planned samples (with epochs) are not in the "
            f"log{absent}; they are in no count."
        )


def _expected(header: Any) -> int:
    """Samples times epochs that the log says were planned."""
    dataset = header.eval.dataset
    epochs = header.eval.config.epochs or 1
    planned = header.results.total_samples if header.results is not None else 0
    if dataset.sample_ids:
        return max(planned, len(dataset.sample_ids) * epochs)
    return int(planned or (dataset.samples or 0) * epochs)


def _listed_absent(log: SampleSheet) -> str:
    there = {str(sample.id) for sample in log.samples}
    absent = [
        str(item) for item in log.header.eval.dataset.sample_ids or () if str(item) not in there
    ]
    if not absent:
        return ""
    more = f" and {len(absent) - _LISTED:,} more" if len(absent) > _LISTED else ""
    return f" (items {', '.join(absent[:_LISTED])}{more})"


def _warn_of_samples(
    log: SampleSheet,
    columns: Sequence[JudgeColumn],
    halts: Mapping[int, Halt],
    limited: Mapping[int, str],
    warnings: _Warnings,
) -> None:
    statuses = Counter(status for status, _ in halts.values())
    warnings.add(
        statuses[Status.ERROR],
        "{n} sample ended in an error and has no verdict.",
        "{n} samples ended in an error and have no verdict.",
    )
    warnings.add(
        statuses[Status.MISSING],
        "{n} sample is invalidated and has no verdict.",
        "{n} samples are invalidated and have no verdict.",
    )
    warnings.add(
        log.superseded,
        "{n} sample is left out because a later attempt at the same item and epoch follows it.",
        "{n} samples are left out because later attempts at the same items and epochs follow.",
    )
    if limited:
        kinds = Counter(limited.values())
        listed = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
        scored = sum(bool(log.samples[row].scores) for row in limited)
        warnings.add(
            len(limited),
            f"{{n}} sample was stopped at a limit ({listed}); {scored:,} of these samples were "
            "scored all the same, and the scores stand.",
            f"{{n}} samples were stopped at a limit ({listed}); {scored:,} of these samples were "
            "scored all the same, and the scores stand.",
        )
    empty = sum(not sample.scores for row, sample in enumerate(log.samples) if row not in halts)
    if columns:
        warnings.add(empty, "{n} sample has no score at all.", "{n} samples have no score at all.")


def _warn_of_judge(name: str, found: Verdicts, warnings: _Warnings) -> None:
    judge = f"Judge {name!r}"
    warnings.add(
        found.tally["refused"],
        f"{judge}: {{n}} sample has Inspect's reason 'refusal', read as the label refuse "
        "(target_refusal: missing in the map changes that).",
        f"{judge}: {{n}} samples have Inspect's reason 'refusal', read as the label refuse "
        "(target_refusal: missing in the map changes that).",
    )
    warnings.add(
        found.tally["stopgap"],
        f"{judge}: the value of {{n}} sample is not used, because the scorer says that grading "
        "or scoring failed.",
        f"{judge}: the values of {{n}} samples are not used, because the scorer says that grading "
        "or scoring failed.",
    )
    warnings.add(
        found.tally["halted_with_value"],
        f"{judge}: the score of {{n}} sample that failed or was invalidated is not used.",
        f"{judge}: the scores of {{n}} samples that failed or were invalidated are not used.",
    )
    warnings.add(
        found.tally["not_given"],
        f"{judge}: {{n}} scored sample has no value under this key and gives no row.",
        f"{judge}: {{n}} scored samples have no value under this key and give no rows.",
    )
    if found.other_reasons:
        shown = sorted(said for said in found.other_reasons if _WORD.fullmatch(said))[:_LISTED]
        listed = f" ({', '.join(shown)})" if shown else ""
        warnings.add(
            found.other_reasons.total(),
            f"{judge}: {{n}} sample is unscored for a reason that is not one of Inspect's words"
            f"{listed}; it is counted as missing, reason unstated.",
            f"{judge}: {{n}} samples are unscored for reasons that are not among Inspect's words"
            f"{listed}; they are counted as missing, reason unstated.",
        )


def _contradictions(log: SampleSheet, verdicts: Mapping[str, Verdicts]) -> Iterator[str]:
    """Means in the header that the samples do not bear out.

    Only plain means over numbers, grades and booleans are recomputed, first over the epochs of a
    sample and then over samples, as Inspect does; other metrics may mean anything.
    """
    header = log.header
    if header.results is None or header.invalidated:
        return
    items = [str(sample.id) for sample in log.samples]
    for score in header.results.scores:
        found = verdicts.get(score.name)
        if found is None or score.reducer not in {None, "mean"} or score.scorer != score.name:
            continue
        for kind in _MEANS:
            metric = score.metrics.get(kind)
            if metric is None or metric.params or metric.name != kind:
                continue
            mean = _mean_of_means(items, found.numbers)
            if mean is None or abs(mean - metric.value) <= _MISMATCH * max(1.0, abs(mean)):
                continue
            yield (
                f"Judge {score.name!r}: the log states {kind} {metric.value:.6g}, its samples "
                f"give {mean:.6g}; the samples are used."
            )


def _mean_of_means(items: Sequence[str], numbers: Sequence[float | None]) -> float | None:
    sums: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for item, number in zip(items, numbers, strict=False):
        if number is not None:
            sums[item] = sums.get(item, 0.0) + number
            counts[item] += 1
    return sum(sums[item] / counts[item] for item in sums) / len(sums) if sums else None
