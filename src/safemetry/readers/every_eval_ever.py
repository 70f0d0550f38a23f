"""Every Eval Ever: aggregate records (``.json``) and the lines of their samples (``.jsonl``).

Judgements come from the lines alone. A record says what its metrics are, and its figures are
compared with those of its lines.

docs/readers-eee.md says what becomes of each field and why.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.every_eval_ever import UNKNOWN_SCORE
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import Reason, Status
from safemetry.evidence.success import SuccessRule
from safemetry.readers import every_eval_ever_files as files
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.every_eval_ever_files import Part
from safemetry.readers.every_eval_ever_line import Fields, Line, line_of, texts_of
from safemetry.readers.every_eval_ever_record import Record, Result, Tally, disagreements
from safemetry.readers.every_eval_ever_table import Judgements, ResponseKey
from safemetry.readers.fields import counted
from safemetry.readers.source import Source

_SHOWN: Final = 5
_COMPARED: Final = "aggregate record (only compared with its lines)"
_BARE: Final = "aggregate record without lines of its samples"
_REPEATED: Final = "line of a further statistic of the same scorer"


class EveryEvalEverReader:
    """Reads records and lines of Every Eval Ever, and folders of them."""

    name = "eee"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the file is a record or lines, or the folder holds some."""
        return files.looks_like(source)

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert the lines of a file, of a record, or of every record below a folder.

        Raises
        ------
        InputError
            Where there are no lines, a record is damaged or of an unknown version, or the lines
            that it refers to do not lie beside it.
        """
        return _read(source, evidence_map).conversion()

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The texts of the responses that have a judgement, in the order of the source."""
        reading = _read(source, evidence_map)
        wanted = reading.first_lines
        for part in reading.found.parts:
            for row, (number, line) in enumerate(part.lines.read_lines(), start=1):
                key = wanted.get((part.name, row))
                if key is not None:
                    entry = part.lines.read_json_line(number, line)
                    yield ResponseText(*key, *texts_of(entry))


def _read(source: Source, evidence_map: EvidenceMap) -> _Reading:
    found = files.find(source)
    reading = _Reading(source, evidence_map, found)
    for part in found.parts:
        reading.add(part)
    return reading


@dataclass(slots=True)
class _PartState:
    """What is known of the file that is being read."""

    part: Part
    first: int
    """Number of the first judgement of the part."""
    rows: int = 0
    pending: list[tuple[int, int, Line]] = field(default_factory=list)
    judges: dict[str, dict[str, Result | None]] = field(default_factory=lambda: defaultdict(dict))
    """Evaluation -> the judges that its lines name."""
    tallies: dict[str, tuple[Result, Tally]] = field(default_factory=dict)
    repeats: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Item and judge -> its scores, one an epoch."""


class _Reading:
    """Collects the lines of all parts."""

    def __init__(self, source: Source, evidence_map: EvidenceMap, found: files.Found) -> None:
        self.found = found
        self._source = source
        self._map = evidence_map
        self._fields = Fields.of(evidence_map)
        self._judgements = Judgements()
        self._read = found.records + found.bare + len(found.failures)
        self._failures = list(found.failures)
        self._skipped = Counter({_COMPARED: found.records, _BARE: found.bare})
        self._scales: dict[str, list[Scale]] = defaultdict(list)
        self._stated: dict[str, list[Scale]] = defaultdict(list)
        self._fractions: set[str] = set()
        self._identities: dict[str, JudgeIdentity] = {}
        self._targets: dict[str, dict[str, Any]] = {}
        self._rules: set[SuccessRule | None] = set()
        self._resolved: set[str] = set()
        self._said: Counter[str] = Counter()
        self._differing: list[str] = []

    # --- lines ------------------------------------------------------------------------------------

    def add(self, part: Part) -> None:
        """Take every line of a part."""
        self._check_classes(part.record)
        state = _PartState(part, first=len(self._judgements.rows))
        for number, content in part.lines.read_lines():
            state.rows += 1
            try:
                entry = part.lines.read_json_line(number, content)
                self._take(state, state.rows, number, line_of(entry, self._fields))
            except InputError as error:
                self._fail(state, state.rows, number, error)
            if len(self._judgements.rows) > self._map.limits.rows:
                raise InputError(
                    f"holds more than the limit of {self._map.limits.rows:,} judgements",
                    file=self._source.shown,
                    fix="raise limits.rows in the map if you trust the file",
                )
        self._settle(state)
        self._read += state.rows
        self._compare(state)

    def _fail(self, state: _PartState, row: int, number: int, error: InputError) -> None:
        failure = InputError(
            error.problem,
            file=state.part.lines.shown,
            row=row,
            line=number,
            column=error.column,
            fix=error.fix,
        )
        if row == 1 and len(self.found.parts) == 1 and error.column == "schema_version":
            raise failure from error
        self._failures.append(failure)

    def _check_classes(self, record: Record | None) -> None:
        """Labels that this package wrote mean what they say only in the same class order."""
        classes = record.classes if record is not None else None
        if record is None or classes is None:
            return
        inside, outside = classes
        if (inside, outside) == (self._map.classes, self._map.outside):
            return
        raise InputError(
            "was exported from evidence with other classes",
            file=record.source.shown,
            fix=f"write in the map classes: [{', '.join(inside)}] and "
            f"outside: [{', '.join(outside)}]",
        )

    def _take(self, state: _PartState, row: int, number: int, line: Line) -> None:
        self._resolved |= line.columns.keys()
        if line.exported:
            self._take_exported(state, row, line)
        elif line.result is None:
            # Whether it belongs to a metric is known when all lines of the file are.
            state.pending.append((row, number, line))
        else:
            record = state.part.record
            result = record.result_of(line.result, line.name) if record else None
            self._said["unlisted"] += record is not None and result is None
            judge = result.judge if result else line.result
            state.judges[line.name][judge] = result
            self._judge(state, row, line, judge, result)

    def _settle(self, state: _PartState) -> None:
        """Lines that name no metric: scored by the only one, or by none of those of the others.

        Converters write such a line for a sample that no metric scored, and put a filler where its
        score would be.
        """
        for row, number, line in state.pending:
            try:
                if named := state.judges.get(line.name):
                    self._said["filler"] += 1
                    for judge in named:
                        verdict = (None, Status.MISSING, Reason.SCORING_FAILED)
                        self._append(state, row, line, judge, verdict)
                    continue
                record = state.part.record
                result = record.result_of(None, line.name) if record else None
                self._said["unnamed"] += result is None
                judge = result.judge if result else line.name
                self._judge(state, row, line, judge, result)
            except InputError as error:
                self._fail(state, row, number, error)
        state.pending.clear()

    def _judge(
        self, state: _PartState, row: int, line: Line, judge: str, result: Result | None
    ) -> None:
        """One judgement by a metric."""
        verdict = self._verdict(line, judge, result)
        if verdict[0] is not None and result is not None:
            _, tally = state.tallies.setdefault(str(result), (result, Tally()))
            tally.add(verdict[0], line.columns["item"], line.columns["epoch"])
            self._scales[judge].append(result.scale)
            if result.in_percent:
                self._fractions.add(judge)
        if self._append(state, row, line, judge, verdict) and verdict[0] is not None:
            state.repeats[line.columns["item"], judge].append(verdict[0])

    def _verdict(
        self, line: Line, judge: str, result: Result | None
    ) -> tuple[float | None, Status, Reason | None]:
        if line.has_error:
            # The format has one field for whatever went wrong, so the reason stays unstated.
            self._said["error"] += 1
            return None, Status.ERROR, None
        if result is None:
            return line.score, Status.OK, None
        if result.has_unknown and line.score == UNKNOWN_SCORE:
            self._said["unknown"] += 1
            return None, Status.MISSING, None
        if not self._map_declares(judge) and not _within(result.scale, line.score):
            self._said["out of scale"] += 1
            return None, Status.ERROR, Reason.OUT_OF_SCALE
        return line.score, Status.OK, None

    def _map_declares(self, judge: str) -> bool:
        return judge in self._map.judges or "*" in self._map.judges

    def _append(
        self,
        state: _PartState,
        row: int,
        line: Line,
        judge: str,
        verdict: tuple[float | None, Status, Reason | None],
    ) -> bool:
        """Add a judgement, unless the line is a further statistic of one that is there."""
        score, status, reason = verdict
        label = line.columns.get("label") if status == Status.OK else None
        columns = {
            **line.columns,
            "judge": judge,
            "label": label,
            "score": score,
            "status": str(status),
            "reason": reason and str(reason),
        }
        if not self._judgements.is_new(state.part.name, row, line, columns):
            self._skipped[_REPEATED] += 1
            return False
        record = state.part.record
        if record is not None:
            columns.setdefault("developer", record.developer)
            columns.setdefault("access", record.access)
            columns.setdefault("timestamp", record.timestamp)
        self._judgements.keep(state.part.name, row, line, columns)
        return True

    def _take_exported(self, state: _PartState, row: int, line: Line) -> None:
        """A judgement that this package wrote, with all its columns."""
        columns = dict(line.columns)
        if columns["run"] is None:
            columns["run"] = line.evaluation
        self._judgements.is_new(state.part.name, row, line, columns)
        record = state.part.record
        result = record.result_of(line.result, line.name) if record and line.result else None
        # The figure of the record counts what the metric counts, which may be an event.
        counts = line.score != UNKNOWN_SCORE or (result is not None and not result.has_unknown)
        if result is not None and columns["status"] == Status.OK and counts:
            _, tally = state.tallies.setdefault(str(result), (result, Tally()))
            tally.add(line.score, columns["item"], columns["epoch"])
        self._judgements.keep(state.part.name, row, line, columns)

    # --- records ----------------------------------------------------------------------------------

    def _compare(self, state: _PartState) -> None:
        """What a record says, beside what its lines say."""
        part = state.part
        self._note_epochs(state)
        if part.record is None:
            return
        mine = self._judgements.rows[state.first :]
        judges = {row["judge"]: None for row in mine}
        targets = {row["target"]: None for row in mine}
        for identity in part.record.identities(tuple(judges)):
            self._identities[identity.digest] = identity
        for judge, scale in part.record.stated_scales.items():
            if judge in judges:
                self._stated[judge].append(scale)
        if settings := part.record.settings():
            for target in targets:
                known = self._targets.setdefault(target, {})
                for name, value in settings.items():
                    if known.setdefault(name, value) != value:
                        known[name] = "differs between records"
        self._rules.add(part.record.default_rule)
        self._differing += (f"{part.name}: {said}" for said in self._differences(state))

    def _differences(self, state: _PartState) -> Iterator[str]:
        part, record = state.part, state.part.record
        if record is None:
            return
        stated = (record.details or {}).get("total_rows")
        if isinstance(stated, int) and stated != state.rows:
            yield f"the record counts {stated:,} lines, the file holds {state.rows:,}"
        if (said := files.changed(part)) is not None:
            yield said
        mine = self._judgements.rows[state.first :]
        model = record.model.get("id")
        if any(row["target"] != model for row in mine):
            yield "its lines name another model than the record"
        for name, (result, tally) in state.tallies.items():
            for clause in disagreements(result, tally):
                yield f"{name}: {clause}"

    def _note_epochs(self, state: _PartState) -> None:
        """Inspect's converter writes the mean over the epochs of a sample into each of them."""
        repeated = [scores for scores in state.repeats.values() if len(scores) > 1]
        record = state.part.record
        if repeated and record is not None and record.is_inspect:
            self._said["reduced"] += all(len(set(scores)) == 1 for scores in repeated)

    # --- the end of the source --------------------------------------------------------------------

    def conversion(self) -> Conversion:
        """The judgements, once the last line is taken."""
        if not self._judgements.rows and not self._failures:
            raise InputError("holds no line of a sample", file=self._source.shown)
        for path in (*self._fields.columns.values(), *self._fields.raw):
            self._refuse_unresolved(path)
        judges = {row["judge"] for row in self._judgements.rows}
        rule = self._rules.pop() if len(self._rules) == 1 else None
        return Conversion(
            judgements=self._judgements.table(self._fields.raw),
            rows_read=self._read,
            skipped=+self._skipped,
            failures=tuple(self._failures),
            warnings=tuple(self._warnings()),
            judges=tuple(self._identities.values()),
            scales={
                judge: scale for judge in sorted(judges) if (scale := self._scale(judge)) != Scale()
            },
            targets=self._targets,
            default_rule=rule,
            beside=[*self._beside()],
        )

    def _beside(self) -> Iterator[Path]:
        """The other files of a record or of lines that are named by themselves."""
        if not (self._source.is_folder or self._source.is_remote):
            for part in self.found.parts:
                sources = (part.lines, *([part.record.source] if part.record else []))
                yield from (s.path for s in sources if s.path.name != self._source.path.name)

    def _refuse_unresolved(self, path: str) -> None:
        names = {ours for ours, theirs in self._fields.columns.items() if theirs == path} | {path}
        if self._judgements.rows and not any(
            row.get(name) is not None for row in self._judgements.rows for name in names
        ):
            raise InputError(
                f"the map names {path!r}, which no line has",
                file=self._source.shown,
                fix="give a path into a line, such as metadata.category",
            )

    def _scale(self, judge: str) -> Scale:
        """The range of a judge, where all its metrics declare the same."""
        if stated := self._stated.get(judge):
            return stated[0] if all(scale == stated[0] for scale in stated) else Scale()
        found = self._scales.get(judge, [])
        if not found or any(scale != found[0] for scale in found):
            return Scale()
        if judge in self._fractions and self._highest(judge) <= 1:
            return Scale()  # The range of the percentage is not that of its samples.
        return found[0]

    def _highest(self, judge: str) -> float:
        scores = (row["score"] for row in self._judgements.rows if row["judge"] == judge)
        return max((score for score in scores if score is not None), default=0.0)

    @property
    def first_lines(self) -> Mapping[tuple[str, int], ResponseKey]:
        """File and row of the first line of each response -> key of the response."""
        return self._judgements.first_lines()

    # --- what the reader of the numbers must know -------------------------------------------------

    def _warnings(self) -> Iterator[str]:
        yield from (f"{said}." for said in self._differing[:_SHOWN])
        if len(self._differing) > _SHOWN:
            more = len(self._differing) - _SHOWN
            yield f"Figures of records that differ from their lines, besides these: {more:,}."
        if self._differing:
            yield (
                "Rates are counted from the lines. A figure of a record that differs from them is "
                "another statistic, counts other samples, or is not of these lines."
            )
        if self._skipped[_BARE]:
            yield (
                f"Left out: {counted(self._skipped[_BARE], 'aggregate record')} without lines, "
                "since rates are counted from samples."
            )
        yield from _line_warnings(self._said)
        if self._judgements.ambiguous:
            yield (
                f"{counted(len(self._judgements.ambiguous), 'sample id')} stood under several "
                "evaluations of one run; such items are called EVALUATION/SAMPLE."
            )


_SENTENCES: Final = {
    "filler": "named no metric, while others of the same evaluation did: converters write them for "
    "samples that were not scored, and their scores are fillers; they count as missing "
    "(scoring_failed).",
    "unnamed": "named no metric that is known; the evaluation stands for it.",
    "unlisted": "named a metric that the record beside it does not list.",
    "error": "told of an error, and a score beside an error is no verdict.",
    "unknown": "had the score -1, which the metric declares as unknown.",
    "out of scale": "had a score outside the range that the metric declares; if the range is "
    "that of the total, declare the one of a sample in the map (judges).",
}


def _line_warnings(said: Mapping[str, int]) -> Iterator[str]:
    for name, sentence in _SENTENCES.items():
        if said[name]:
            yield f"{counted(said[name], 'line')} {sentence}"
    if said["reduced"]:
        yield (
            "Every sample with several epochs has the same score in all of them: Inspect's "
            "converter writes their mean into each, so the epochs are no independent trials."
        )


def _within(scale: Scale, score: float) -> bool:
    above = scale.scale_min is None or score >= scale.scale_min
    return above and (scale.scale_max is None or score <= scale.scale_max)
