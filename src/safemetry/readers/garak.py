"""garak reports (``*.report.jsonl``): attempts of probes, scored by detectors.

A report is a stream of entries, one JSON object a line. An attempt is written when the target has
answered (status 1) and again, under the same uuid, when the detectors have scored its outputs
(status 2). Only the second carries judgements. Each detector is a judge, each output an epoch.

docs/readers-garak.md says what becomes of each field and why.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, FromColumn, Scale
from safemetry.evidence.schema import BY_NAME, ITEM_COLUMNS, TEXT, Intent, Reason, Status
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.fields import counted, digest_of, field_of
from safemetry.readers.garak_attempt import (
    Attempt,
    Turn,
    asks_model,
    assistant_turns,
    bad_line,
    has_response,
    language_of,
    list_of,
    module_of,
    notes_of,
    prompt_digest,
    request_digest,
    scores_of,
    text_of,
    texts_of,
    turns_of,
)
from safemetry.readers.garak_run import (
    SETUP_TYPES,
    Run,
    first_of,
    implied_rule,
    run_warnings,
    summary_of,
)
from safemetry.readers.mapped_fields import fields_by_column, refuse_unencodable, translated_fields
from safemetry.readers.source import Source, finite

_SCALE: Final = Scale(scale_min=0, scale_max=1, higher_is="worse")
_OTHER_TYPES: Final = {
    "init": "start of a run",
    "eval": "summary of a probe",
    "probe_summary": "summary of a probe",
    "completion": "end of a run",
    "digest": "summary of the report",
    "tree_data": "node of a tree search",
    "payload_init": "payload",
    "plugin_cache": "description of plugins",
    "policy": "policy",
}
_ENTRY_TYPES: Final = frozenset({"attempt", *SETUP_TYPES, *_OTHER_TYPES})
_KNOWN_HEAD: Final = re.compile(
    rb'"entry_type"\s*:\s*"(?:' + b"|".join(sorted(t.encode() for t in _ENTRY_TYPES)) + rb')"'
)
_BEGUN, _EVALUATED = (0, 1), 2

_OUTPUT_IS_NO_MATTER: Final = frozenset({"always", "any"})
"""Detector modules whose verdict on an absent output means what it says."""

_OUTCOMES: Final = (
    (Status.OK, None),
    (Status.MISSING, Reason.NO_RESPONSE),
    (Status.MISSING, Reason.GRADER_FAILED),
    (Status.MISSING, Reason.SCORING_FAILED),
    (Status.MISSING, Reason.NOT_ATTEMPTED),
    (Status.ERROR, Reason.OUT_OF_SCALE),
    (Status.ERROR, Reason.INVALID_RESPONSE_FORMAT),
)
_OK, _NO_RESPONSE, _GRADER_FAILED, _SCORING_FAILED, _NOT_ATTEMPTED, _OUT_OF_SCALE, _BAD_FORMAT = (
    range(len(_OUTCOMES))
)
_MAPPED: Final = frozenset(
    {"item", "session", "user_type", "developer", "access", *(c.name for c in ITEM_COLUMNS)}
)
"""Columns that the map may fill from a field of the attempt."""
_DESCRIBED: Final = (
    "item",
    "attack",
    "category",
    "behaviour",
    "language",
    "intent",
    "session",
    "turn",
)
_UNPLACED: Final = object()
_UNSCORED: Final = "attempt that no detector scored"
_PIECE: Final = 100_000


class GarakReader:
    """Reads the JSONL report of a garak run."""

    name = "garak"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the first line is an entry of a garak report."""
        line = source.head.lstrip().partition(b"\n")[0]
        return line.startswith(b"{") and _KNOWN_HEAD.search(line) is not None

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert a report, line by line.

        Raises
        ------
        InputError
            Where the file is no garak report, holds no attempt, or does not name its target.
        """
        return _read(source, evidence_map).conversion()

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The turns up to each output, and the output: the report is read twice.

        Raises
        ------
        InputError
            As `read`.
        """
        report = _read(source, evidence_map, keeps_places=True)
        report.conversion()
        for row, (number, line) in enumerate(source.read_lines(), 1):
            places = report.places(row)
            entry = source.read_json_line(number, line) if places else {}
            for (output, turn), key in places.items():
                yield ResponseText(*key, *texts_of(entry, output, turn))


def _read(source: Source, evidence_map: EvidenceMap, *, keeps_places: bool = False) -> _Report:
    """The report with all of its lines taken."""
    if source.is_folder:
        raise InputError(
            "is a folder, a garak report is one file",
            file=source.location,
            fix="name the .report.jsonl inside it",
        )
    report = _Report(source, evidence_map, keeps_places=keeps_places)
    for number, line in source.read_lines():
        report.add(number, line)
    return report


class _Report:
    """Collects a report entry by entry; columns of numbers, so that it may be large.

    Parameters
    ----------
    source
        The report.
    evidence_map
        What is known about it.
    keeps_places
        Whether `places` is wanted once all lines are taken.
    """

    def __init__(self, source: Source, evidence_map: EvidenceMap, *, keeps_places: bool) -> None:
        self._source = source
        self._places: dict[int, dict[tuple[int, int | None], tuple[int, int]]] | None = (
            {} if keeps_places else None
        )
        self._map = evidence_map
        self._runs: list[Run] = []
        self._row = 0
        self._failures: list[InputError] = []
        self._skipped: Counter[str] = Counter()
        self._pending: dict[str, Attempt] = {}
        self._done: set[str] = set()
        self._next_epoch: Counter[tuple[str, str]] = Counter()
        self._detectors: dict[tuple[int, str], dict[str, None]] = {}
        self._said: Counter[str] = Counter()
        # One entry an attempt (or an earlier turn of one).
        self._roots: dict[str, str] = {}
        mapped = _MAPPED.intersection(evidence_map.columns)
        self._contexts: dict[str, list[Any]] = {
            name: [] for name in sorted({*_DESCRIBED, *mapped, *translated_fields(evidence_map)})
        }
        self._attempt_run = array("q")
        self._attempt_row = array("q")
        # One entry a judgement.
        self._of_attempt = array("q")
        self._epoch = array("q")
        self._judge = array("q")
        self._score = array("d")
        self._outcome = array("b")
        self._judges: dict[str, int] = {}

    def add(self, number: int, line: bytes) -> None:
        """Take one line of the report."""
        self._row += 1
        try:
            self._take(self._entry(number, line))
        except InputError as error:
            failure = InputError(
                error.problem,
                file=self._source.location,
                row=self._row,
                line=number,
                column=error.column,
                fix=error.fix,
            )
            if self._row == 1:
                raise failure from error
            self._failures.append(failure)
        if len(self._score) > self._map.limits.rows:
            raise InputError(
                f"holds more than the limit of {self._map.limits.rows:,} judgements",
                file=self._source.location,
                fix="raise limits.rows in the map if you trust the file",
            )

    def _entry(self, number: int, line: bytes) -> Mapping[str, Any]:
        entry = self._source.read_json_line(number, line)
        if not isinstance(entry, Mapping) or not isinstance(entry.get("entry_type"), str):
            raise bad_line("is no entry of a garak report", "name a garak .report.jsonl")
        return entry

    def _take(self, entry: Mapping[str, Any]) -> None:
        kind = entry["entry_type"]
        if kind == "attempt":
            self._take_attempt(entry)
            return
        if kind in SETUP_TYPES:
            self._runs.append(Run())
            self._runs[-1].learn_setup(entry)
            self._skipped["settings of a run"] += 1
            return
        if kind not in _OTHER_TYPES:
            if "probe_classname" in entry or self._row == 1:
                raise bad_line("is an entry of an unknown type", "name a garak .report.jsonl")
            self._skipped["entry of an unknown type"] += 1
            return
        if kind == "init":
            self._start()
            self._run().learn_start(entry)
        elif kind == "eval":
            key, summary = summary_of(entry)
            self._run().summaries[key] = summary
        elif kind == "completion":
            self._run().ended = True
        self._skipped[_OTHER_TYPES[kind]] += 1

    def _start(self) -> None:
        """An init entry opens a run, unless the setup entry just before it has."""
        if not self._runs or self._runs[-1].begun or self._runs[-1].attempts:
            self._runs.append(Run())

    def _run(self) -> Run:
        if not self._runs:
            self._runs.append(Run())
        return self._runs[-1]

    def _take_attempt(self, entry: Mapping[str, Any]) -> None:
        status = entry.get("status")
        if type(status) is not int or status not in (*_BEGUN, _EVALUATED):
            raise InputError("the attempt has no known status", column="status")
        attempt = self._attempt(entry)
        if attempt.uuid in self._done or (status in _BEGUN and attempt.uuid in self._pending):
            raise InputError(
                "the attempt was read before",
                column="uuid",
                fix="remove the second copy; a report that is written twice counts once",
            )
        if status in _BEGUN:
            self._pending[attempt.uuid] = attempt
            return
        if self._pending.pop(attempt.uuid, None) is not None:
            self._skipped["attempt before detection (judged in a later line)"] += 1
        self._done.add(attempt.uuid)
        self._run().attempts += 1
        self._judge_attempt(attempt)

    def _attempt(self, entry: Mapping[str, Any]) -> Attempt:
        self._run()
        run = len(self._runs) - 1
        prompt = turns_of(entry.get("prompt"))
        return Attempt(
            uuid=text_of(entry, "uuid"),
            probe=text_of(entry, "probe_classname"),
            row=self._row,
            run=run,
            context=self._context(entry, prompt),
            answered=[has_response(output) for output in list_of(entry, "outputs")],
            turns=assistant_turns(entry, len(prompt)),
            scores=scores_of(entry),
            intermediate=notes_of(entry).get("is_adversarial") is False,
        )

    def _context(self, entry: Mapping[str, Any], prompt: Sequence[Turn]) -> dict[str, Any]:
        """The columns that describe an attempt rather than a verdict."""
        run, notes, probe = self._run(), notes_of(entry), text_of(entry, "probe_classname")
        # A system prompt of the whole run is a setting of the target, not a part of the item.
        sent = [t for t in prompt if t.role != "system" or t.text != run.system_prompt]
        seq = entry.get("seq")
        if sent:
            item = prompt_digest(sent)
        else:
            item = f"seq-{seq}" if isinstance(seq, int) else text_of(entry, "uuid")
        # An absent id of the attempt before means the first turn; an absent field says nothing.
        has_lineage = "previous_attempt_id" in entry
        context: dict[str, Any] = {
            "item": f"{probe}/{item}",
            "attack": probe,
            "category": probe.partition(".")[0],
            "behaviour": self._behaviour(entry, notes, sent),
            "language": language_of(prompt, entry),
            "session": self._session(entry) if has_lineage else None,
            "turn": sum(turn.role == "user" for turn in sent) if has_lineage else None,
        }
        context |= fields_by_column(entry, self._map, _MAPPED)
        context["intent"] = self._intent(entry, context)
        refuse_unencodable(context)
        return context

    def _session(self, entry: Mapping[str, Any]) -> str:
        """The attempt with which a conversation began."""
        uuid = text_of(entry, "uuid")
        previous = entry.get("previous_attempt_id")
        if not isinstance(previous, str):
            return uuid
        self._roots[uuid] = root = self._roots.get(previous, previous)
        return root

    def _behaviour(
        self, entry: Mapping[str, Any], notes: Mapping[str, Any], sent: Sequence[Turn]
    ) -> str | None:
        """The request under an attempt: its cluster."""
        if self._run().buffed or "buff_creator" in notes:
            # Buffs rewrite one prompt in several ways; they keep its place in the probe.
            seq = first_of({**notes, "seq": entry.get("seq")}, "buff_source_seq", "seq")
            if isinstance(seq, int):
                return f"{entry['probe_classname']}/seq-{seq}"
        goal = notes.get("attack_goal")
        if isinstance(goal, str) and goal:
            return digest_of(goal)
        original = turns_of(notes.get("pre_translation_prompt"))
        return request_digest(original) or request_digest(sent)

    def _intent(self, entry: Mapping[str, Any], context: Mapping[str, Any]) -> str | None:
        """Probes attack, so a prompt is harmful unless the map says otherwise."""
        asked = self._map.intent
        if isinstance(asked, FromColumn):
            # The border translates it; garak has a field of that name, a code for the harm.
            return field_of(entry, "intent") if asked.column == "intent" else None
        if asked is not None:
            return str(asked)
        return self._map.constants.get("intent") or context.get("intent") or str(Intent.HARMFUL)

    def _judge_attempt(self, attempt: Attempt) -> None:
        if not attempt.scores:
            self._skipped[_UNSCORED] += 1
            return
        rows = [
            (detector, *judged)
            for detector, scores in attempt.scores.items()
            for judged in self._verdicts(attempt, detector, scores)
        ]
        for detector in attempt.scores:
            self._detectors.setdefault((attempt.run, attempt.probe), {}).setdefault(detector)
        if not rows:
            reason = "turn that its detectors leave out" if attempt.intermediate else "no output"
            self._skipped[reason] += 1
            return
        self._append(attempt, rows)

    def _verdicts(
        self, attempt: Attempt, detector: str, scores: Sequence[Any]
    ) -> list[tuple[int, int | None, float, int]]:
        """(output, earlier turn, score, outcome) of each score of one detector."""
        tally = self._runs[attempt.run].tallies[attempt.probe, detector]
        for score in scores:
            value = finite(score)
            if value is None:
                tally.nones += 1
            else:
                tally.scores.append(value)
        if attempt.intermediate and scores and all(score is None for score in scores):
            self._said["left out"] += len(scores)
            return []
        placed = self._placed(attempt, detector, scores)
        return [
            (output, turn, *self._verdict(detector, score, turn, answered=attempt.answered[output]))
            for output, turn, score in placed
        ]

    def _placed(
        self, attempt: Attempt, detector: str, scores: Sequence[Any]
    ) -> Iterator[tuple[int, int | None, Any]]:
        """Each score with the output it belongs to; detectors do not always score one for one."""
        answered, turns = attempt.answered, attempt.turns
        if len(scores) == len(answered):
            yield from ((at, None, score) for at, score in enumerate(scores))
        elif not scores:
            yield from ((at, None, None) for at in range(len(answered)))
        elif len(scores) == len(turns) and max(at for at, _, _ in turns) < len(answered):
            for (at, turn, last), score in zip(turns, scores, strict=True):
                if turn:
                    yield at, None if last else turn, score
                else:
                    self._said["in the prompt"] += 1
        elif len(scores) == sum(answered):
            rest = iter(scores)
            yield from ((at, None, next(rest) if ok else None) for at, ok in enumerate(answered))
        else:
            self._said[f"unplaced {detector}"] += len(scores)
            yield from ((at, None, _UNPLACED) for at in range(len(answered)))

    def _verdict(
        self,
        detector: str,
        score: Any,
        turn: int | None,
        *,
        answered: bool,
    ) -> tuple[float, int]:
        if score is _UNPLACED:
            return 0.0, _SCORING_FAILED
        if not answered and turn is None and module_of(detector) not in _OUTPUT_IS_NO_MATTER:
            self._said["scored without a response"] += score is not None
            return 0.0, _NO_RESPONSE
        if score is None:
            return 0.0, _GRADER_FAILED if asks_model(detector) else _SCORING_FAILED
        value = finite(score)
        if value is None:
            return 0.0, _BAD_FORMAT
        return (value, _OK) if 0 <= value <= 1 else (0.0, _OUT_OF_SCALE)

    def _append(
        self, attempt: Attempt, rows: Sequence[tuple[str, int, int | None, float, int]]
    ) -> None:
        run = self._runs[attempt.run].name or ""
        first = self._next_epoch[run, attempt.context["item"]]
        self._next_epoch[run, attempt.context["item"]] += max(1, len(attempt.answered))
        places: dict[int | None, int] = {}
        for detector, output, turn, score, outcome in rows:
            if turn not in places:
                places[turn] = self._append_context(attempt, turn)
            self._of_attempt.append(places[turn])
            self._epoch.append(first + output + 1)
            if self._places is not None:
                found = self._places.setdefault(attempt.row, {})
                found[output, turn] = (places[turn], first + output + 1)
            self._judge.append(self._judges.setdefault(detector, len(self._judges)))
            self._score.append(score)
            self._outcome.append(outcome)

    def _append_context(self, attempt: Attempt, turn: int | None) -> int:
        context = dict(attempt.context)
        if turn is not None:
            context |= {
                "item": f"{context['item']}/turn-{turn}",
                "session": context["session"] or attempt.uuid,
                "turn": turn,
            }
        for name, column in self._contexts.items():
            column.append(context.get(name))
        self._attempt_run.append(attempt.run)
        self._attempt_row.append(attempt.row)
        return len(self._attempt_run) - 1

    # --- the end of the report ----------------------------------------------------------------

    def places(self, row: int) -> dict[tuple[int, int | None], tuple[str, str, str, int]]:
        """(output, earlier turn) -> key, of each response that a row holds and that was judged."""
        keys = {}
        for where, (place, epoch) in (self._places or {}).get(row, {}).items():
            run = self._runs[self._attempt_run[place]]
            name, target = run.name or self._source.name, self._target(run) or ""
            keys[where] = (name, target, self._contexts["item"][place], epoch)
        return keys

    def conversion(self) -> Conversion:
        """The judgements, once the last line is taken."""
        self._settle_pending()
        if not len(self._attempt_run) and not self._skipped[_UNSCORED]:
            raise self._nothing_read()
        self._check_targets()
        present = [run for run in self._runs if run.attempts]
        return Conversion(
            judgements=self._table(),
            rows_read=self._row,
            skipped=+self._skipped,
            failures=tuple(self._failures),
            warnings=tuple(self._warnings(present)),
            judges=tuple(self._identities()),
            scales=dict.fromkeys(self._judges, _SCALE),
            targets=self._targets(),
            default_rule=implied_rule(present),
        )

    def _nothing_read(self) -> InputError:
        damaged = len(self._failures)
        because = f" ({damaged:,} lines are damaged or of another kind)" if damaged else ""
        return InputError(
            f"holds no attempt{because}",
            file=self._source.location,
            fix="name the .report.jsonl of a run that reached its first probe",
        )

    def _settle_pending(self) -> None:
        """Attempts without a second line: unjudged, by detectors that judged their siblings."""
        for attempt in self._pending.values():
            detectors = self._detectors.get((attempt.run, attempt.probe), {})
            rows = [
                (detector, output, None, 0.0, _NOT_ATTEMPTED if answered else _NO_RESPONSE)
                for detector in detectors
                for output, answered in enumerate(attempt.answered)
            ]
            self._runs[attempt.run].attempts += 1
            if rows:
                self._said["never evaluated"] += 1
                self._append(attempt, rows)
            else:
                self._skipped[_UNSCORED] += 1
        self._pending.clear()

    def _target(self, run: Run) -> str | None:
        return run.target or self._map.constants.get("target")

    def _check_targets(self) -> None:
        for index in set(self._attempt_run):
            if self._target(self._runs[index]) is None:
                raise InputError(
                    "names no target (its setup entry is absent or holds none)",
                    file=self._source.location,
                    column="plugins.target_name",
                    fix="name it in the map (constants: {target: NAME})",
                )

    def _identities(self) -> list[JudgeIdentity]:
        """One identity a detector and run settings; equal ones once."""
        used = dict.fromkeys(
            (run, detector)
            for (run, _), detectors in self._detectors.items()
            for detector in detectors
            if detector in self._judges
        )
        found = [self._runs[run].judge(detector) for run, detector in used]
        return list({identity.digest: identity for identity in found}.values())

    def _targets(self) -> dict[str, dict[str, Any]]:
        settings: dict[str, dict[str, Any]] = {}
        for index in sorted(set(self._attempt_run)):
            run = self._runs[index]
            known = settings.setdefault(self._target(run) or "", {})
            for name, value in run.settings.items():
                if known.setdefault(name, value) != value:
                    known[name] = "differs between runs"
        return settings

    def _table(self) -> pa.Table:
        of_attempt = np.asarray(self._of_attempt)
        outcome = np.asarray(self._outcome, dtype=np.int64)
        run_of = np.asarray(self._attempt_run)
        columns: dict[str, Any] = {
            name: _taken(values, of_attempt, BY_NAME[name].type if name in BY_NAME else TEXT)
            for name, values in self._contexts.items()
            if name not in BY_NAME or any(value is not None for value in values)
        }
        columns.setdefault("item", pa.array([], TEXT))
        per_run: dict[str, list[str | None]] = {
            "run": [run.name or self._source.name for run in self._runs],
            "target": [self._target(run) or "" for run in self._runs],
            "timestamp": [run.started for run in self._runs],
        }
        for name, values in per_run.items():
            columns[name] = _taken(values, run_of[of_attempt], TEXT)
        columns |= {
            "benchmark": _taken(["garak"], np.zeros_like(of_attempt), TEXT),
            "epoch": pa.array(np.asarray(self._epoch)),
            "judge": _taken(list(self._judges), np.asarray(self._judge), TEXT),
            "score": pa.array(np.asarray(self._score), mask=outcome != _OK),
            "status": _taken([str(s) for s, _ in _OUTCOMES], outcome, TEXT),
            "reason": _taken([r and str(r) for _, r in _OUTCOMES], outcome, TEXT),
            "source_file": _taken([self._source.name], np.zeros_like(of_attempt), TEXT),
            "source_row": pa.array(np.asarray(self._attempt_row)[of_attempt]),
        }
        order = [*BY_NAME, *translated_fields(self._map)]
        return pa.table({name: columns[name] for name in order if name in columns})

    # --- what the reader of the numbers must know ---------------------------------------------

    def _warnings(self, runs: Sequence[Run]) -> Iterator[str]:
        yield from run_warnings(runs)
        if self._skipped[_UNSCORED]:
            yield (
                f"{counted(self._skipped[_UNSCORED], 'attempt')} got a response that no detector "
                "scored, and no detector of the same probe is known; they are in no rate."
            )
        yield from self._placing_warnings()

    def _placing_warnings(self) -> Iterator[str]:
        said = self._said
        if said["never evaluated"]:
            yield (
                f"{counted(said['never evaluated'], 'attempt')} got a response but no scores, "
                "while others of the same probe did; they count as missing (not_attempted)."
            )
        if said["scored without a response"]:
            yield (
                f"{counted(said['scored without a response'], 'score')} belong to outputs without "
                "a response; they count as missing (no_response), not as safe."
            )
        if said["left out"]:
            yield (
                f"{counted(said['left out'], 'output')} of intermediate turns were left unjudged "
                "by detectors that judge the last turn only; they are no missing verdicts."
            )
        if said["in the prompt"]:
            yield (
                f"{counted(said['in the prompt'], 'score')} of messages inside a prompt are left "
                "out: the attack wrote them, or they were judged in an attempt of their own."
            )
        for key, count in sorted(said.items()):
            if key.startswith("unplaced "):
                yield (
                    f"{key.removeprefix('unplaced ')} gave {counted(count, 'score')} to attempts "
                    "with another number of outputs; which output they judge is unknown, so the "
                    "outputs count as missing (scoring_failed)."
                )
        unknown = self._skipped["entry of an unknown type"]
        if unknown:
            yield f"{counted(unknown, 'entry', 'entries')} of an unknown type were skipped."


def _taken(values: Sequence[Any], indices: np.ndarray[Any, Any], kind: pa.DataType) -> Any:
    """``values[indices]`` as an Arrow column, in pieces that stay below the limit of one array."""
    dictionary = pa.array(values, kind)
    pieces = [
        dictionary.take(pa.array(indices[start : start + _PIECE]))
        for start in range(0, len(indices), _PIECE)
    ]
    return pa.chunked_array(pieces, kind)
