"""What Inspect's scores say: from the values of a scorer to labels, scores and statuses.

A scorer gives one value per sample: a number, a boolean, a text, or a mapping or list of them. Each
scalar becomes a verdict of its own judge, or the reason why there is none.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import Reason, Status

DIMENSION: Final = "/"
"""Stands between a scorer and a key of the values it gives: the judge ``scorer/key``."""

REFUSED: Final = "refuse"
"""The label of a response that Inspect says is a refusal by the target."""

LETTERS: Final[Mapping[str, float]] = {"C": 1.0, "P": 0.5, "I": 0.0}
"""Inspect's grades as numbers: correct, partially correct, incorrect."""

NO_ANSWER: Final = "N"
"""Inspect's grade for no answer; its metrics count it as 0."""

INSTRUMENT_FAILED: Final = frozenset({Reason.GRADER_FAILED, Reason.SCORING_FAILED})
"""Reasons by which a value beside them is a stopgap of the scorer, not a verdict."""

LIMIT_REASONS: Final[Mapping[str, Reason]] = {"operator": Reason.NOT_ATTEMPTED}
"""Why an unscored sample that was stopped at a limit has no verdict; any other limit cut the
response off before there was one to judge (`no_response`)."""

LONGEST_LABEL: Final = 200
"""A longer text is an answer, not a class; it is neither carried nor judged."""

_REASONS: Final = frozenset(
    {
        Reason.INVALID_RESPONSE_FORMAT,
        Reason.REFUSAL,
        Reason.NO_RESPONSE,
        Reason.GRADER_FAILED,
        Reason.SCORING_FAILED,
    }
)
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


class _Nothing:
    """A place in a column of values that holds none."""


ABSENT: Final = _Nothing()
"""The scorer gave the sample no score."""

NOT_GIVEN: Final = _Nothing()
"""The scorer scored the sample, without this key."""

Halt = tuple[Status, Reason]


@dataclass
class JudgeColumn:
    """One judge and what it gave each sample.

    Parameters
    ----------
    scorer
        Key under which Inspect keeps the scores.
    dimension
        Key or position within the value; None where the value is a scalar.
    values
        One value per sample, `ABSENT` or `NOT_GIVEN`.
    reasons
        Row -> Inspect's reason for an abnormal score.
    """

    scorer: str
    dimension: str | None
    values: list[Any]
    reasons: Mapping[int, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The judge's name in the judgements table."""
        return self.scorer if self.dimension is None else self.scorer + DIMENSION + self.dimension


@dataclass
class Verdicts:
    """The verdicts of one judge, a cell per sample.

    Attributes
    ----------
    kept
        Rows that have a judgement of this judge.
    numbers
        Inspect's number for each value, by which its metrics can be recomputed; None where there
        is none. Empty if the values have no number that is beyond doubt.
    tally
        What happened to how many rows, for the warnings.
    """

    score: list[float | None]
    label: list[str | None]
    status: list[str]
    reason: list[str | None]
    kept: list[int]
    numbers: list[float | None] = field(default_factory=list)
    bounded: bool = False
    """Whether the values lie between 0 and 1 by their nature."""
    tally: Counter[str] = field(default_factory=Counter)
    other_reasons: Counter[str] = field(default_factory=Counter)


# -- columns of values ----------------------------------------------------------------------------


def judge_columns(samples: Sequence[Any], declared: Iterable[str]) -> list[JudgeColumn]:
    """The judges of a log: those that gave a score, and those that it declares.

    Parameters
    ----------
    samples
        Samples or sample summaries of Inspect.
    declared
        Keys of the scorers that the log names.
    """
    count = len(samples)
    values: dict[tuple[str, str | None], list[Any]] = {}
    reasons: dict[str, dict[int, str]] = {}
    for row, sample in enumerate(samples):
        for scorer, score in (sample.scores or {}).items():
            if score.reason is not None:
                reasons.setdefault(scorer, {})[row] = score.reason
            for dimension, value in _parts(score.value):
                column = values.get((scorer, dimension))
                if column is None:
                    column = values[scorer, dimension] = [ABSENT] * count
                column[row] = value
    scorers = dict.fromkeys(scorer for scorer, _ in values)
    for scorer in scorers:
        _settle_dimensions(values, scorer)
    for scorer in declared:
        if scorer not in scorers:
            values[scorer, None] = [ABSENT] * count
    return [
        JudgeColumn(scorer, dimension, column, reasons.get(scorer, {}))
        for (scorer, dimension), column in values.items()
    ]


def _parts(value: Any) -> Iterable[tuple[str | None, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, list | tuple):
        return ((str(place), part) for place, part in enumerate(value, start=1))
    return ((None, value),)


def _settle_dimensions(values: dict[tuple[str, str | None], list[Any]], scorer: str) -> None:
    """Tell "not scored" from "scored without this key" where a scorer gives several values.

    Such a scorer marks a sample that it could not score by a single NaN in place of the mapping.
    """
    columns = {name: column for name, column in values.items() if name[0] == scorer}
    if len(columns) == 1:
        return
    whole = columns.pop((scorer, None), None)
    for row in range(len(next(iter(columns.values())))):
        root = whole[row] if whole is not None else ABSENT
        if root is not ABSENT and _is_nan(root):
            for column in columns.values():
                column[row] = root
            root = NOT_GIVEN
        elif any(column[row] is not ABSENT for column in columns.values()):
            for column in columns.values():
                if column[row] is ABSENT:
                    column[row] = NOT_GIVEN
            root = NOT_GIVEN
        elif root is not ABSENT:
            for column in columns.values():
                column[row] = NOT_GIVEN
        if whole is not None:
            whole[row] = root
    if whole is not None and all(value is ABSENT or value is NOT_GIVEN for value in whole):
        del values[scorer, None]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


# -- verdicts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Word:
    """What a text given as a value means for one judge."""

    number: float | None = None
    label: str | None = None
    reason: Reason | None = None


def read_verdicts(
    column: JudgeColumn,
    halts: Mapping[int, Halt],
    limited: Mapping[int, str],
    evidence_map: EvidenceMap,
) -> Verdicts:
    """The verdicts of one judge.

    Parameters
    ----------
    column
        The judge and its values.
    halts
        Row -> status and reason of a sample that failed or was invalidated; they outrank a score.
    limited
        Row -> the limit that stopped the sample.
    evidence_map
        Which texts are labels, and what a refusal becomes.
    """
    count = len(column.values)
    found = Verdicts(
        score=[None] * count,
        label=[None] * count,
        status=[Status.OK.value] * count,
        reason=[None] * count,
        kept=[],
        numbers=[None] * count,
    )
    texts = {value for value in column.values if isinstance(value, str)}
    words = _words(texts, column.name, evidence_map)
    never = all(value is ABSENT for value in column.values)
    unscored = Reason.NOT_ATTEMPTED if never else Reason.SCORING_FAILED
    refusal_is_missing = evidence_map.target_refusal == "missing"
    keep = found.kept.append
    for row, value in enumerate(column.values):
        if value is NOT_GIVEN:
            found.tally["not_given"] += 1
            continue
        keep(row)
        halt = halts.get(row) if halts else None
        if value is ABSENT:
            status, reason = halt or (Status.MISSING, _why_unscored(limited.get(row), unscored))
            found.status[row] = status.value
            found.reason[row] = reason.value
            continue
        word = words[value] if isinstance(value, str) else _word_of(value)
        found.numbers[row] = 0.0 if value == NO_ANSWER else word.number
        said = column.reasons.get(row) if column.reasons else None
        if halt is None and said is None and word.reason is None and word is not _UNSTATED:
            found.score[row] = word.number
            found.label[row] = word.label
            continue
        _settle(found, row, word, halt, said, refusal_is_missing=refusal_is_missing)
    if any(word.label is not None for word in words.values()):
        found.numbers = []
    found.bounded = bool(found.numbers) and _is_bounded(column.values, texts)
    return found


def _is_bounded(values: Sequence[Any], texts: set[str]) -> bool:
    """Whether a judge gives nothing but Inspect's grades or booleans: 0 to 1 by their nature."""
    others = {type(value) for value in values if not _is_nan(value)} - {str, bool, _Nothing}
    given = bool(texts) or any(isinstance(value, bool) for value in values)
    return given and not others and texts <= {*LETTERS, NO_ANSWER}


_UNSTATED: Final = _Word()


def _why_unscored(limit: str | None, otherwise: Reason) -> Reason:
    return otherwise if limit is None else LIMIT_REASONS.get(limit, Reason.NO_RESPONSE)


def _settle(
    found: Verdicts,
    row: int,
    word: _Word,
    halt: Halt | None,
    said: str | None,
    *,
    refusal_is_missing: bool,
) -> None:
    """A sample that failed, a value that is no verdict, or one with a reason beside it."""
    given = word.number is not None or word.label is not None
    status, reason = Status.OK, None
    label, score = word.label, word.number
    if halt is not None:
        status, reason = halt
        found.tally["halted_with_value"] += given
    elif said == Reason.REFUSAL and not refusal_is_missing:
        label = label or REFUSED
        found.tally["refused"] += 1
    elif said == Reason.REFUSAL or (said in INSTRUMENT_FAILED and given):
        status, reason = Status.MISSING, Reason(said)
        found.tally["stopgap"] += given and said != Reason.REFUSAL
    elif not given:
        status = Status.MISSING
        reason = Reason(said) if said in _REASONS else word.reason
        if said is not None and said not in _REASONS:
            found.other_reasons[said] += 1
    if status != Status.OK:
        label = score = None
    found.label[row], found.score[row] = label, score
    found.status[row] = status.value
    found.reason[row] = reason.value if reason is not None else None


def _word_of(value: Any) -> _Word:
    """A number, a boolean, or the null that a mapping may hold."""
    if value is None or _is_nan(value):
        return _UNSTATED
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = math.inf
    return _Word(number=number) if math.isfinite(number) else _Word(reason=Reason.OUT_OF_SCALE)


def _words(texts: Iterable[str], judge: str, evidence_map: EvidenceMap) -> dict[str, _Word]:
    """What each text of a judge means.

    The texts of a judge are read together: among other grades, such as A to D, a C is no Inspect
    grade, and once the map says what one grade means no other grade is turned into a number.
    """
    texts = set(texts)
    labels = {*evidence_map.labels, *evidence_map.scale(judge).labels}
    grades = texts <= {*LETTERS, NO_ANSWER}
    if texts & labels - {NO_ANSWER}:
        numbers: Mapping[str, float] = {}
    elif grades:
        numbers = LETTERS
    elif all(_NUMBER.fullmatch(text) for text in texts):
        numbers = {text: float(text) for text in texts}
    else:
        numbers = {}
    return {text: _meaning(text, numbers, is_grade=grades and text not in labels) for text in texts}


def _meaning(text: str, numbers: Mapping[str, float], *, is_grade: bool) -> _Word:
    if is_grade and text == NO_ANSWER:
        return _Word(reason=Reason.NO_RESPONSE)
    if text in numbers:
        number = numbers[text]
        return _Word(number=number) if math.isfinite(number) else _Word(reason=Reason.OUT_OF_SCALE)
    if not text.strip():
        return _UNSTATED
    if len(text) > LONGEST_LABEL:
        return _Word(reason=Reason.OUT_OF_SCALE)
    return _Word(label=text)
