"""Samples of the lm-evaluation-harness (``samples_TASK_TIME.jsonl`` of ``lm_eval --log_samples``).

A line is one document of a task as one filter sees it: the responses to it, and a column for each
metric. Each metric under each filter is a judge. A metric that is computed over all documents
together, such as a perplexity, leaves its parts in that column and judges no document.

docs/readers-lm-eval.md says what becomes of each field and why.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import numpy as np
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import BY_NAME, ITEM_COLUMNS, TEXT, Reason, Status
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.fields import counted, digest_of, encodable, field_of
from safemetry.readers.lm_eval_document import (
    FIELDS,
    HEAD,
    RELEASES,
    decode,
    hash_of,
    metrics_of,
    texts_of,
)
from safemetry.readers.lm_eval_run import (
    UNFILTERED,
    Mean,
    file_name_of,
    results_beside,
    target_of,
)
from safemetry.readers.mapped_fields import refuse_unencodable, translated_fields
from safemetry.readers.source import Source, finite

_ANSWER: Final = Scale(scale_min=0, scale_max=1)
"""From a wrong answer to a right one: which of the two is safer is no matter of the harness."""
_SCALES: Final = dict.fromkeys(
    ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match"), _ANSWER
)
"""The metrics whose range the harness itself fixes."""
_NO_METRIC: Final = "bypass"
"""What the harness puts in the place of a metric where it only collects responses."""

_OUTCOMES: Final = (
    (Status.OK, None),
    (Status.MISSING, Reason.SCORING_FAILED),
    (Status.ERROR, Reason.OUT_OF_SCALE),
    (Status.ERROR, Reason.INVALID_RESPONSE_FORMAT),
)
_OK, _NOT_COMPUTED, _OUT_OF_SCALE, _NO_NUMBER = range(len(_OUTCOMES))
_MAPPED: Final = frozenset(
    {"item", "session", "user_type", "developer", "access", *(c.name for c in ITEM_COLUMNS)}
)
"""Columns that the map may fill from a field of the line."""
_WITHOUT_METRIC: Final = "document without a metric"
_WITHOUT_SCORE: Final = "document without a score of its own"


class LmEvalReader:
    """Reads the samples of one task, as the lm-evaluation-harness logs them."""

    name = "lm-eval"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the first line begins like a logged document."""
        return HEAD.match(source.head.lstrip()) is not None

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert the samples of one task, line by line.

        Raises
        ------
        InputError
            Where the file holds no samples, or nothing names its target.
        """
        return _read(source, evidence_map).conversion()

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """Prompt and generated text of each document that has a judgement.

        Where the harness compares likelihoods of given texts, there is no response.
        """
        samples = _read(source, evidence_map)
        samples.conversion()
        responses = samples.first_lines()
        for row, (number, line) in enumerate(source.read_lines(), start=1):
            if row in responses:
                item, epoch = responses[row]
                prompt, response = texts_of(source.read_json_line(number, line, decode))
                yield ResponseText(samples.run, samples.target, item, epoch, prompt, response)


def _read(source: Source, evidence_map: EvidenceMap) -> _Samples:
    if source.is_folder:
        raise InputError(
            "is a folder, the samples of a task are one file",
            file=source.shown,
            fix="name the samples_*.jsonl inside it",
        )
    samples = _Samples(source, evidence_map)
    for number, line in source.read_lines():
        samples.add(number, line)
    return samples


@dataclass(frozen=True, slots=True)
class _Judge:
    """One metric under one filter: its name, or its place where the file does not name filters."""

    metric: str
    filter: str | int


class _Samples:
    """Collects documents line by line; columns of numbers, so that there may be many."""

    def __init__(self, source: Source, evidence_map: EvidenceMap) -> None:
        self._source = source
        self._map = evidence_map
        self._name = file_name_of(source)
        self._task = encodable(
            self._name.task
            if self._name
            else evidence_map.constants.get("benchmark") or PurePath(source.name).stem,
            "benchmark",
        )
        self.run = self._name.time if self._name else None
        self._results, self._unused = results_beside(source, self._name)
        self.target = ""
        self._origin: str | None = None
        self._row = 0
        self._failures: list[InputError] = []
        self._skipped: Counter[str] = Counter()
        self._said: Counter[str] = Counter()
        self._documents: dict[str, tuple[Any, str | None]] = {}
        self._epochs: Counter[tuple[str, str]] = Counter()
        self._unnamed: dict[str, tuple[int, str, int]] = {}
        self._filters_seen = 1
        # One entry a line.
        mapped = _MAPPED.intersection(evidence_map.columns)
        self._contexts: dict[str, list[Any]] = {
            name: []
            for name in sorted({"item", "behaviour", *mapped, *translated_fields(evidence_map)})
        }
        self._line_row = array("q")
        self._line_epoch = array("q")
        # One entry a judgement.
        self._of_line = array("q")
        self._judge = array("q")
        self._score = array("d")
        self._outcome = array("b")
        self._judges: dict[_Judge, int] = {}
        self._kept = np.zeros(0, dtype=bool)

    def add(self, number: int, line: bytes) -> None:
        """Take one line."""
        self._row += 1
        try:
            self._take(self._source.read_json_line(number, line, decode))
        except InputError as error:
            self._failures.append(
                InputError(
                    error.problem,
                    file=self._source.shown,
                    row=self._row,
                    line=number,
                    column=error.column,
                    fix=error.fix,
                )
            )
        if len(self._score) > self._map.limits.rows:
            raise InputError(
                f"holds more than the limit of {self._map.limits.rows:,} judgements",
                file=self._source.shown,
                fix="raise limits.rows in the map if you trust the file",
            )

    def _take(self, entry: Any) -> None:
        self._check(entry)
        metrics = metrics_of(entry)
        item = self._item(entry)
        context = self._context(entry, item)
        place, epoch = self._place(item, entry)
        if not metrics:
            self._skipped[_WITHOUT_METRIC] += 1
            return
        for name, column in self._contexts.items():
            column.append(context.get(name))
        self._line_row.append(self._row)
        self._line_epoch.append(epoch)
        for metric, value in metrics.items():
            judge = _Judge(metric, place)
            score, outcome = self._verdict(value)
            self._of_line.append(len(self._line_row) - 1)
            self._judge.append(self._judges.setdefault(judge, len(self._judges)))
            self._score.append(score)
            self._outcome.append(outcome)

    def _check(self, entry: Any) -> None:
        """Refuse what no release has written."""
        if not isinstance(entry, Mapping):
            raise InputError("is no JSON object", fix="name a samples_*.jsonl of lm-eval")
        absent = next((name for name in FIELDS if name not in entry), None)
        if absent is not None:
            release = self._results.version if self._results else None
            written = f" (this file was written by {release})" if release else ""
            raise InputError(
                f"lacks {absent!r}, which {RELEASES} write{written}",
                column=absent,
                fix="log the samples again with one of these releases",
            )

    def _item(self, entry: Mapping[str, Any]) -> str:
        """The document, by its number in the task."""
        number = entry["doc_id"]
        if isinstance(number, bool) or not isinstance(number, int | str) or number == "":
            raise InputError("is neither a number nor a text", column="doc_id")
        mapped = self._map.columns.get("item")
        item = field_of(entry, mapped) if mapped else None
        item = encodable(item or f"{self._task}/{number}", "doc_id")
        document = (number, hash_of(entry))
        if self._documents.setdefault(item, document) != document:
            raise InputError(
                f"item {item!r} stands for two documents",
                column=mapped or "doc_id",
                fix="give each document an id of its own, and each task a file of its own",
            )
        return item

    def _context(self, entry: Mapping[str, Any], item: str) -> dict[str, Any]:
        """The columns that describe a document rather than a verdict."""
        context: dict[str, Any] = {
            ours: field_of(entry, path)
            for ours, path in self._map.columns.items()
            if ours in _MAPPED
        }
        context.setdefault("behaviour", hash_of(entry))
        context |= {path: field_of(entry, path) for path in translated_fields(self._map)}
        context["item"] = item
        refuse_unencodable(context)
        return context

    def _place(self, item: str, entry: Mapping[str, Any]) -> tuple[str | int, int]:
        """(filter, epoch) of a line.

        A document has one line for each filter. Releases before 0.4.7 do not say which: they
        write all documents under the first filter, then all under the next, with equal responses.
        """
        name = entry.get("filter")
        if name is not None:
            if not isinstance(name, str) or not name.strip():
                raise InputError("is no name of a filter", column="filter")
            self._epochs[item, encodable(name, "filter")] += 1
            epoch = self._epochs[item, name]
            self._said["repeated"] += epoch > 1
            return name, epoch
        responses = digest_of(json.dumps(entry["resps"]))
        epoch, known, place = self._unnamed.get(item, (0, "", 0))
        epoch, place = (epoch, place + 1) if responses == known else (epoch + 1, 1)
        self._unnamed[item] = (epoch, responses, place)
        self._filters_seen = max(self._filters_seen, place)
        self._said["repeated"] += epoch > 1
        return place, epoch

    def _verdict(self, value: Any) -> tuple[float, int]:
        number = finite(value)
        if number is None:
            if value is None or (isinstance(value, float) and math.isnan(value)):
                return 0.0, _NOT_COMPUTED
            return 0.0, _OUT_OF_SCALE if isinstance(value, int | float) else _NO_NUMBER
        return number, _OK

    # --- the end of the file ------------------------------------------------------------------

    def conversion(self) -> Conversion:
        """The judgements, once the last line is taken."""
        if not len(self._line_row) and not self._skipped:
            raise self._nothing_read()
        self.target, self._origin = target_of(self._source, self._map, self._results)
        names = self._judge_names()
        self._mark_out_of_scale(names)
        dropped = self._drop_parts()
        table = self._table(names)
        judged = list(dict.fromkeys(table["judge"].to_pylist()))
        scales = {
            name: _SCALES[judge.metric]
            for judge, name in names.items()
            if name in judged and judge.metric in _SCALES
        }
        settings = self._results.settings() if self._results else {}
        return Conversion(
            judgements=table,
            rows_read=self._row,
            skipped=+self._skipped,
            failures=tuple(self._failures),
            warnings=tuple(self._warnings(dropped)),
            judges=tuple(
                self._identity(judge, name) for judge, name in names.items() if name in judged
            ),
            scales=scales,
            targets={self.target: settings} if settings and table.num_rows else {},
            default_rule=self._default_rule(table),
            beside=[self._source.path.with_name(self._results.name)] if self._results else [],
        )

    def _nothing_read(self) -> InputError:
        first = self._failures[0] if self._failures else None
        because = f" (the first line {first.problem})" if first else ""
        return InputError(
            f"holds no samples of lm-eval{because}",
            file=self._source.shown,
            fix="name a samples_*.jsonl that lm_eval --log_samples has written",
        )

    def _drop_parts(self) -> list[str]:
        """Leave out the metrics that judge no document; their names."""
        judge, outcome = np.asarray(self._judge), np.asarray(self._outcome, dtype=np.int64)
        scored = np.zeros(len(self._judges), dtype=bool)
        scored[judge[np.isin(outcome, (_OK, _OUT_OF_SCALE))]] = True
        parts = np.zeros(len(self._judges), dtype=bool)
        parts[judge[outcome == _NO_NUMBER]] = True
        bypass = np.array([known.metric == _NO_METRIC for known in self._judges], dtype=bool)
        out = (parts & ~scored) | bypass
        self._kept = ~out[judge]
        lines = np.unique(np.asarray(self._of_line)[self._kept])
        lost = len(self._line_row) - len(lines)
        if lost:
            self._skipped[_WITHOUT_SCORE] += lost
        names = (known.metric for known, left in zip(self._judges, out, strict=True) if left)
        return list(dict.fromkeys(names))

    def _mark_out_of_scale(self, names: Mapping[_Judge, str]) -> None:
        """Take away scores outside the range of their metric: the map's, else the harness's."""
        judge, score = np.asarray(self._judge), np.asarray(self._score)
        outcome = np.asarray(self._outcome)  # shares its memory with the array
        for known, index in self._judges.items():
            fixed = _SCALES.get(known.metric)
            if fixed is None:
                continue
            low, high = _limits(self._map.scale(names[known]), fixed)
            outside = (score < low) | (score > high)
            outcome[(judge == index) & (outcome == _OK) & outside] = _OUT_OF_SCALE

    def _judge_names(self) -> dict[_Judge, str]:
        """Judge -> its name in the table: the metric, and the filter where there is one."""
        names = {}
        for judge in self._judges:
            named = self._filter_name(judge.filter)
            names[judge] = judge.metric if named == UNFILTERED else f"{judge.metric}/{named}"
        return names

    def _filter_name(self, place: str | int) -> str:
        if isinstance(place, str):
            return place
        filters = self._results.filters(self._task) if self._results else []
        if len(filters) == self._filters_seen:
            return encodable(filters[place - 1], "filter")
        return UNFILTERED if self._filters_seen == 1 else f"filter-{place}"

    def _identity(self, judge: _Judge, name: str) -> JudgeIdentity:
        release = self._results.version if self._results else None
        filtered = self._filter_name(judge.filter)
        parser = f"lm-eval {release}" if release else "lm-eval"
        if filtered != UNFILTERED:
            parser += f", filter {filtered}"
        return JudgeIdentity(name=name, parser=parser)

    def _table(self, names: Mapping[_Judge, str]) -> pa.Table:
        of_line = np.asarray(self._of_line)[self._kept]
        outcome = np.asarray(self._outcome, dtype=np.int64)[self._kept]
        count = len(of_line)
        columns: dict[str, Any] = {
            name: _taken(values, of_line)
            for name, values in self._contexts.items()
            if name not in BY_NAME or name == "item" or any(v is not None for v in values)
        }
        constant = {
            "run": self.run,
            "target": encodable(self.target, "target"),
            "benchmark": self._task,
            "timestamp": self._name.timestamp if self._name else None,
            "source_file": self._source.name,
        }
        columns |= {
            name: pa.repeat(pa.scalar(value, TEXT), count)
            for name, value in constant.items()
            if value is not None and name not in columns
        }
        columns |= {
            "epoch": pa.array(np.asarray(self._line_epoch, dtype=np.int64)[of_line]),
            "judge": _taken(list(names.values()), np.asarray(self._judge)[self._kept]),
            "score": pa.array(np.asarray(self._score)[self._kept], mask=outcome != _OK),
            "status": _taken([str(status) for status, _ in _OUTCOMES], outcome),
            "reason": _taken([why and str(why) for _, why in _OUTCOMES], outcome),
            "source_row": pa.array(np.asarray(self._line_row, dtype=np.int64)[of_line]),
        }
        order = [*BY_NAME, *translated_fields(self._map)]
        return pa.table({name: columns[name] for name in order if name in columns})

    def first_lines(self) -> dict[int, tuple[str, int]]:
        """Row -> (item, epoch), for the first of the lines that judge a response."""
        rows: dict[tuple[str, int], int] = {}
        for line in np.unique(np.asarray(self._of_line)[self._kept]):
            key = (self._contexts["item"][line], self._line_epoch[line])
            rows.setdefault(key, self._line_row[line])
        return {row: key for key, row in rows.items()}

    def _default_rule(self, table: pa.Table) -> SuccessRule | None:
        """Where no score lies between 0 and 1, it parts right answers from wrong ones."""
        scores = set(table["score"].drop_null().unique().to_pylist())
        return SuccessRule("at_least:1") if scores <= {0.0, 1.0} else None

    # --- what the reader of the numbers must know ---------------------------------------------

    def _warnings(self, dropped: Sequence[str]) -> Iterator[str]:
        if self._origin:
            yield self._origin
        if self._unused:
            yield self._unused
        if self._name is None:
            yield (
                f"{self._source.name} is not named samples_TASK_TIME.jsonl, so {self._task!r} "
                "stands for the task."
            )
        if dropped:
            yield (
                f"Left out of {self._task}: {', '.join(dropped)}, which "
                f"{'gives' if len(dropped) == 1 else 'give'} no score for a single document."
            )
        if self._filters_seen > 1:
            names = ", ".join(self._filter_name(n + 1) for n in range(self._filters_seen))
            yield (
                f"{self._source.name} does not name its filters, and holds documents up to "
                f"{self._filters_seen} times with the same response: they are taken for {names}."
            )
        if repeated := self._said["repeated"]:
            yield (
                f"{counted(repeated, 'line')} of {self._source.name} "
                f"{'repeats' if repeated == 1 else 'repeat'} a document under the same filter, "
                "which lm-eval does not write; each counts as a further epoch."
            )
        if self._results:
            documents = len(self._documents)
            yield from self._results.warnings(self._task, documents, list(self._means()))

    def _means(self) -> Iterator[Mean]:
        """The mean of each metric that is one, where every document has a score."""
        judge, score = np.asarray(self._judge), np.asarray(self._score)
        outcome = np.asarray(self._outcome)
        for known, index in self._judges.items():
            rows = judge == index
            if known.metric in _SCALES and (outcome[rows] == _OK).all():
                named = self._filter_name(known.filter)
                yield Mean(known.metric, named, float(score[rows].mean()), int(rows.sum()))


def _limits(declared: Scale, fixed: Scale) -> tuple[float, float]:
    """The range of a score: what a map declares of it, else what the harness fixes."""
    low = fixed.scale_min if declared.scale_min is None else declared.scale_min
    high = fixed.scale_max if declared.scale_max is None else declared.scale_max
    return -math.inf if low is None else low, math.inf if high is None else high


def _taken(values: Sequence[Any], indices: Any) -> pa.Array:
    """``values[indices]`` as a column of text."""
    return pa.array(values, TEXT).take(pa.array(indices, pa.int64()))
