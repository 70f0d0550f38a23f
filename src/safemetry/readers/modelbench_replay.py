"""The replay of a modelbench journal: what happened to each prompt, and what happened twice.

Each prompt of a test is queued once for a target, answered once, annotated once by each annotator
of the test, and measured once. An entry that repeats one of these steps, or that belongs to no
queued prompt, is an error; a step that never happens is left to whoever reads the replay.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import Reason, Status
from safemetry.readers.fields import digest_of, encodable
from safemetry.readers.modelbench_journal import (
    ANNOTATED,
    ANNOTATOR_FAILED,
    ANNOTATOR_RESPONDED,
    ANSWERED,
    FAILED,
    FINISHED,
    MEASURED,
    MEASURING_FAILED,
    OVERRULED,
    QUEUED,
    RESPONDED,
    SKIPPED,
    STARTS,
    TARGET_FAILED,
    UNKNOWN,
    Summaries,
    decode,
)
from safemetry.readers.source import Source, finite

MEASUREMENT: Final = "measurement"
"""The judge that a test makes of its annotators, on which modelbench's own scores rest."""

OK: Final = (Status.OK, None)
UNREADABLE: Final = (Status.ERROR, Reason.INVALID_RESPONSE_FORMAT)
GRADER_FAILED: Final = (Status.ERROR, Reason.GRADER_FAILED)
SCORING_FAILED: Final = (Status.ERROR, Reason.SCORING_FAILED)
OUT_OF_SCALE: Final = (Status.ERROR, Reason.OUT_OF_SCALE)

_SETTINGS: Final = ("max_tokens", "max_total_output_tokens", "temperature", "top_p", "top_k")
_REMOVE: Final = "remove the second entry if it is a copy; a journal grades a prompt once"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one judge said, and in which entry."""

    row: int
    outcome: tuple[Status, Reason | None]
    score: float | None = None


@dataclass(slots=True)
class Sent:
    """One prompt of a test on its way through a target and its judges."""

    test: str
    target: str
    item: str
    row: int
    behaviour: str | None
    time: str | None
    happened: set[str] = field(default_factory=set)
    empty: bool = False
    verdicts: dict[str, Verdict] = field(default_factory=dict)


class Replay:
    """Replays a journal entry by entry.

    Attributes
    ----------
    run, suts
        Id of the run and its targets, as its first entries state them.
    sent
        (target, item) -> what became of the prompt.
    judges
        Test -> the judges that any entry names.
    speaks
        Judges that said at least once whether a response is safe.
    summaries
        The figures of the journal itself.
    settings
        How the targets were asked.
    messages
        How many entries there are of each kind.
    reasons
        Of each entry, why it is skipped unless it makes a judgement; None where it failed.
    failures
        One error for each entry that failed.
    """

    def __init__(self, source: Source, evidence_map: EvidenceMap) -> None:
        self._source = source
        self._map = evidence_map
        self.run: str | None = None
        self.suts: list[str] = []
        self.reasons: list[str | None] = []
        self.failures: list[InputError] = []
        self.sent: dict[tuple[str, str], Sent] = {}
        self.judges: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self.speaks: set[str] = set()
        self.summaries = Summaries()
        self.settings: dict[str, Any] = {}
        self.messages: Counter[str] = Counter()
        self._take = {
            QUEUED: self._take_prompt,
            **dict.fromkeys(RESPONDED, self._take_step),
            ANSWERED: self._take_answer,
            **dict.fromkeys(ANNOTATOR_RESPONDED, self._take_annotator_step),
            ANNOTATED: self._take_annotation,
            ANNOTATOR_FAILED: self._take_annotator_failure,
            MEASURED: self._take_measurement,
            MEASURING_FAILED: self._take_measuring_failure,
            **dict.fromkeys((OVERRULED, TARGET_FAILED, FINISHED, FAILED), self._take_step),
        }

    @property
    def row(self) -> int:
        """Number of the last entry, from 1."""
        return len(self.reasons)

    def add(self, lines: Source, number: int, line: bytes) -> None:
        """Take one line of the journal."""
        self.reasons.append(None)
        try:
            entry = lines.read_json_line(number, line, decode)
            message = message_of(entry)
            if self.row == 1:
                _check_first(message)
            self._take_entry(message, entry)
        except InputError as error:
            failure = InputError(
                error.problem,
                file=self._source.shown,
                row=self.row,
                line=number,
                column=error.column,
                fix=error.fix,
            )
            if self.row == 1:
                raise failure from error
            self.failures.append(failure)
        if self.row > self._map.limits.rows:
            raise InputError(
                f"holds more than the limit of {self._map.limits.rows:,} entries",
                file=self._source.shown,
                fix="raise limits.rows in the map if you trust the file",
            )

    def _take_entry(self, message: str, entry: Mapping[str, Any]) -> None:
        if message in self._take:
            self._take[message](entry)
        elif message in STARTS:
            self._take_start(message, entry)
        else:
            self.summaries.learn(entry)
            if message == "test info":
                self._take_settings(entry)
        self.messages[message if message in SKIPPED else UNKNOWN] += 1
        self.reasons[-1] = SKIPPED.get(message, UNKNOWN)

    def _take_start(self, message: str, entry: Mapping[str, Any]) -> None:
        if self.messages[message]:
            raise InputError(
                "a second run starts here",
                column="message",
                fix="keep each journal in a file of its own",
            )
        if message == STARTS[0]:
            return
        run = entry.get("run_id")
        self.run = encodable(run, "run_id") if isinstance(run, str) and run.strip() else None
        suts = entry.get("suts")
        self.suts = [_name(sut, "suts") for sut in suts] if isinstance(suts, list) else []

    def _take_settings(self, entry: Mapping[str, Any]) -> None:
        options = entry.get("sut_options")
        if not isinstance(options, Mapping):
            return
        for name in _SETTINGS:
            value = finite(options.get(name))
            if value is not None and self.settings.setdefault(name, value) != value:
                self.settings[name] = "differs between tests"

    # --- one prompt ---------------------------------------------------------------------------

    def target_of(self, entry: Mapping[str, Any]) -> str:
        """The target of an entry; releases with one target a run name it at the start only."""
        if entry.get("sut") is None and len(self.suts) == 1:
            return self.suts[0]
        return _name(entry.get("sut"), "sut")

    def _take_prompt(self, entry: Mapping[str, Any]) -> None:
        target, item, test = self.target_of(entry), item_of(entry), _name(entry["test"], "test")
        if (target, item) in self.sent:
            raise InputError(f"prompt {item!r} was queued before", column="prompt_id", fix=_REMOVE)
        prompt, time = text_or_none(entry.get("prompt_text")), text_or_none(entry.get("timestamp"))
        self.sent[target, item] = Sent(
            test=test,
            target=target,
            item=item,
            row=self.row,
            behaviour=digest_of(prompt) if prompt is not None else None,
            time=encodable(time, "timestamp") if time is not None else None,
        )

    def _sent_of(self, entry: Mapping[str, Any]) -> Sent:
        target, item = self.target_of(entry), item_of(entry)
        sent = self.sent.get((target, item))
        if sent is None:
            raise InputError(
                f"prompt {item!r} was never queued for {target!r}",
                column="prompt_id",
                fix="export the journal again: an entry is missing, or its prompt_id is damaged",
            )
        return sent

    def _happen(self, entry: Mapping[str, Any], what: str) -> Sent:
        """The prompt that something happens to, for the first time."""
        sent = self._sent_of(entry)
        if what in sent.happened:
            raise InputError(
                f"{what!r} happens to prompt {sent.item!r} for the second time",
                column="message",
                fix=_REMOVE,
            )
        sent.happened.add(what)
        return sent

    def _take_step(self, entry: Mapping[str, Any]) -> None:
        message = entry["message"]
        self._happen(entry, "sut response" if message in RESPONDED else message)

    def _take_answer(self, entry: Mapping[str, Any]) -> None:
        sent = self._happen(entry, ANSWERED)
        response = text_or_none(entry.get("response_text"))
        sent.empty = response is not None and not response.strip()

    def _take_annotator_step(self, entry: Mapping[str, Any]) -> None:
        annotator = _name(entry.get("annotator"), "annotator")
        sent = self._happen(entry, f"response of {annotator}")
        self.judges[sent.test].setdefault(annotator)

    def _take_annotation(self, entry: Mapping[str, Any]) -> None:
        annotator = _name(entry.get("annotator"), "annotator")
        annotation = entry.get("annotation")
        if not isinstance(annotation, Mapping):
            raise InputError("is no object", column="annotation", fix="export the journal again")
        sent = self._sent_of(entry)
        self._judge(sent, annotator, *_annotated(annotation))
        joined = annotation.get("joined_responses")
        for name, part in joined.items() if isinstance(joined, Mapping) else ():
            if isinstance(part, Mapping):
                member = f"{annotator}/{_name(name, 'joined_responses')}"
                self._judge(sent, member, *_annotated(part))

    def _take_annotator_failure(self, entry: Mapping[str, Any]) -> None:
        self._judge(self._sent_of(entry), _name(entry.get("annotator"), "annotator"), GRADER_FAILED)

    def _take_measurement(self, entry: Mapping[str, Any]) -> None:
        measurements = entry.get("measurements")
        if not isinstance(measurements, Mapping):
            raise InputError("is no object", column="measurements", fix="export the journal again")
        value = finite(measurements.get("is_safe"))
        if value is None:
            self._judge(self._sent_of(entry), MEASUREMENT, SCORING_FAILED)
        elif 0 <= value <= 1:
            self._judge(self._sent_of(entry), MEASUREMENT, OK, value)
        else:
            self._judge(self._sent_of(entry), MEASUREMENT, OUT_OF_SCALE)
            self.speaks.add(MEASUREMENT)

    def _take_measuring_failure(self, entry: Mapping[str, Any]) -> None:
        self._judge(self._sent_of(entry), MEASUREMENT, SCORING_FAILED)

    def _judge(
        self,
        sent: Sent,
        judge: str,
        outcome: tuple[Status, Reason | None],
        score: float | None = None,
    ) -> None:
        if judge in sent.verdicts:
            raise InputError(
                f"{judge!r} grades prompt {sent.item!r} for the second time",
                column="prompt_id",
                fix=_REMOVE,
            )
        sent.verdicts[judge] = Verdict(self.row, outcome, score)
        self.judges[sent.test].setdefault(judge)
        if outcome == OK:
            self.speaks.add(judge)


def _annotated(
    annotation: Mapping[str, Any],
) -> tuple[tuple[Status, Reason | None], float | None]:
    """(outcome, score) of an annotation; a valid one says so or leaves it out."""
    safe = annotation.get("is_safe")
    if annotation.get("is_valid", True) is not True or not isinstance(safe, bool):
        return UNREADABLE, None
    return OK, float(safe)


def _check_first(message: str) -> None:
    if message not in STARTS:
        raise InputError(
            f"does not begin with {STARTS[0]!r}, as journals of modelbench do",
            fix="name a journal-run-*.jsonl or .jsonl.zst",
        )


def message_of(entry: Any) -> str:
    """The kind of an entry."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("message"), str):
        raise InputError("is no entry of a modelbench journal", fix="name a modelbench journal")
    return str(entry["message"])


def item_of(entry: Mapping[str, Any]) -> str:
    """The prompt, by the test it belongs to and its id there."""
    prompt = entry.get("prompt_id")
    if type(prompt) is int:
        prompt = str(prompt)
    test = _name(entry.get("test"), "test")
    return f"{test}/{_name(prompt, 'prompt_id')}"


def _name(value: Any, column: str) -> str:
    """A field that has to be there, as text."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"the entry has no {column}", column=column, fix="export it again")
    return encodable(value, column)


def text_or_none(value: Any) -> str | None:
    """A field that is text where it is there."""
    return value if isinstance(value, str) else None
