"""Lines of Every Eval Ever: one sample, scored by one metric.

Texts are passed over, except by `texts_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence import every_eval_ever as words
from safemetry.evidence.maps import EvidenceMap, FromColumn
from safemetry.evidence.schema import BY_NAME, WHOLE, Intent, Reason, Status
from safemetry.readers.every_eval_ever_record import unknown_version
from safemetry.readers.fields import encodable, field_of
from safemetry.readers.source import finite
from safemetry.readers.transcript import written

_MAPPED: Final = frozenset(
    {
        "run",
        "item",
        "epoch",
        "label",
        "benchmark",
        "category",
        "attack",
        "behaviour",
        "pair",
        "intent",
        "language",
        "session",
        "turn",
        "user_type",
        "timestamp",
        "developer",
        "access",
    }
)
"""Columns that a map may fill from a field of the line."""

_TEXTS: Final = frozenset({"input", "output", "messages", "answer_attribution"})
_SPEAKER: Final = "assistant"


@dataclass(frozen=True, slots=True)
class Line:
    """What is kept of a line.

    Parameters
    ----------
    evaluation, name, result
        ``evaluation_id``, ``evaluation_name`` and ``evaluation_result_id``.
    columns
        Columns of the judgement that the line states.
    score
        Its ``evaluation.score``.
    has_error
        Whether the line tells of an error, so that its score stands for nothing.
    exported
        Whether this package wrote it, and the columns are therefore complete.
    """

    evaluation: str
    name: str
    result: str | None
    columns: Mapping[str, Any]
    score: float
    has_error: bool
    exported: bool


@dataclass(frozen=True)
class Fields:
    """Fields of the lines that a map names.

    Parameters
    ----------
    columns
        Our column -> dotted path into the line.
    raw
        Paths whose values the border translates.
    """

    columns: Mapping[str, str]
    raw: tuple[str, ...]

    @classmethod
    def of(cls, evidence_map: EvidenceMap) -> Fields:
        """The fields, checked.

        Raises
        ------
        InputError
            For a column that cannot be mapped, or a field that holds text.
        """
        for ours, path in evidence_map.columns.items():
            if ours not in _MAPPED:
                raise InputError(
                    f"the map takes {ours!r} from a field, and lines of Every Eval Ever state it "
                    "themselves",
                    fix=f"leave it out; a map may name {', '.join(sorted(_MAPPED))}",
                )
            if path.partition(".")[0] in _TEXTS:
                raise InputError(
                    f"the map takes {ours!r} from {path!r}, which holds text",
                    fix="name another field, such as metadata.category",
                )
        specs = (evidence_map.intent, evidence_map.status)
        paths = [spec.column for spec in specs if isinstance(spec, FromColumn)]
        for path in paths:
            if path.partition(".")[0] in _TEXTS:
                raise InputError(f"the map translates {path!r}, which holds text")
        raw = tuple(path for path in dict.fromkeys(paths) if path not in BY_NAME)
        return cls(dict(evidence_map.columns), raw)


def line_of(entry: Any, mapped: Fields) -> Line:
    """Take what is needed of a line.

    Raises
    ------
    InputError
        Naming the field that is absent or holds something else than the format says.
    """
    if not isinstance(entry, Mapping) or "evaluation_id" not in entry:
        raise InputError("is no line of a sample", fix="name a _samples.jsonl")
    version = entry.get("schema_version")
    plain = version.removeprefix(words.INSTANCE_PREFIX) if isinstance(version, str) else version
    if plain not in words.LINE_VERSIONS:
        raise unknown_version(version, words.LINE_VERSIONS)
    evaluation, target, name, item = (
        _required(entry, key)
        for key in ("evaluation_id", "model_id", "evaluation_name", "sample_id")
    )
    result = entry.get("evaluation_result_id")
    judged = entry.get("evaluation")
    given = judged.get("score") if isinstance(judged, Mapping) else None
    score = None if isinstance(given, bool) else finite(given)
    if score is None:
        raise InputError(
            "the score is no number",
            column="evaluation.score",
            fix="leave lines without a score out, or state an error in the line",
        )
    error, metadata = entry.get("error"), entry.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    exported = words.EXPORTED in metadata
    columns: dict[str, Any] = {"target": target, "item": item}
    if exported:
        columns |= _kept(metadata, score)
    else:
        columns |= {"run": evaluation, "benchmark": name, "epoch": _epoch(metadata)}
    columns |= _from_map(entry, mapped)
    return Line(
        evaluation=evaluation,
        name=name,
        result=None if result is None else _required(entry, "evaluation_result_id"),
        columns=columns,
        score=score,
        has_error=bool(error.strip() if isinstance(error, str) else error),
        exported=exported,
    )


def _required(entry: Mapping[str, Any], name: str) -> str:
    """An id; a whole number is taken for the text that it is written as."""
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"the line has no {name}", column=name, fix="export the file again")
    return encodable(value, name)


def _epoch(metadata: Mapping[str, Any]) -> int:
    """The epoch that Inspect's converter leaves in the metadata; 1 where none is stated."""
    stated = metadata.get("epoch")
    return 1 if stated is None else _whole(stated, "epoch", "metadata.epoch")


def _whole(value: Any, name: str, column: str) -> int:
    text = str(value)
    least = 0 if name == "turn" else 1
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and int(text) >= least):
        raise InputError(
            f"{name} is no whole number from {least} on", column=column, fix="export it again"
        )
    return int(text)


def _from_map(entry: Mapping[str, Any], mapped: Fields) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for ours, path in mapped.columns.items():
        value = field_of(entry, path)
        if value is not None:
            is_whole = BY_NAME[ours].type == WHOLE
            columns[ours] = _whole(value, ours, path) if is_whole else encodable(value, path)
    for path in mapped.raw:
        value = field_of(entry, path)
        columns[path] = None if value is None else encodable(value, path)
    return columns


def _kept(metadata: Mapping[str, Any], score: float) -> dict[str, Any]:
    """The columns that this package wrote into a line."""
    if metadata[words.EXPORTED] != words.EXPORT_VERSION:
        raise InputError(
            "was exported by another version of safemetry",
            column=f"metadata.{words.EXPORTED}",
            fix="read it with that version",
        )
    columns: dict[str, Any] = {}
    for column in words.KEPT:
        value = metadata.get(column.name)
        if value is None:
            columns[column.name] = column.default
        elif column.type == WHOLE:
            columns[column.name] = _whole(value, column.name, f"metadata.{column.name}")
        elif isinstance(value, Mapping | list):
            raise InputError(
                "holds a list or an object",
                column=f"metadata.{column.name}",
                fix="export it again",
            )
        else:
            columns[column.name] = encodable(str(value), f"metadata.{column.name}")
    for name, known in (("status", Status), ("reason", Reason), ("intent", Intent)):
        if columns[name] is not None and columns[name] not in set(known):
            raise InputError(
                f"unknown {name} {columns[name]!r}",
                column=f"metadata.{name}",
                fix=f"write one of {', '.join(known)}",
            )
    columns["score"] = _kept_score(metadata, columns, score)
    is_ok = columns["status"] == Status.OK
    if columns["label"] is not None and not is_ok:
        raise InputError("there is a label beside a status", column="metadata.status")
    if is_ok and columns["label"] is None and columns["score"] is None:
        raise InputError("there is neither a label nor a score", column="metadata.status")
    return columns


def _kept_score(
    metadata: Mapping[str, Any], columns: Mapping[str, Any], score: float
) -> float | None:
    stated = metadata.get(words.SCORE)
    if stated is None:
        holds = columns["status"] == Status.OK and columns["label"] is None
        return score if holds else None
    try:
        value = finite(float(stated))
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None:
        raise InputError("is no number", column=f"metadata.{words.SCORE}", fix="export it again")
    return value


def arrow_type(name: str) -> pa.DataType:
    """Type of a column of ours, or of one that the border translates."""
    return BY_NAME[name].type if name in BY_NAME else pa.string()


# --- texts ----------------------------------------------------------------------------------------


def texts_of(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Prompt and response; of a conversation what came before the first answer, and the rest."""
    messages = entry.get("messages")
    if isinstance(messages, list) and messages:
        turns = [turn for turn in messages if isinstance(turn, Mapping)]
        first = next(
            (n for n, turn in enumerate(turns) if turn.get("role") == _SPEAKER), len(turns)
        )
        return _spoken(turns[:first]), _spoken(turns[first:])
    asked, answered = entry.get("input"), entry.get("output")
    prompt = asked.get("raw") if isinstance(asked, Mapping) else None
    response = answered.get("raw") if isinstance(answered, Mapping) else None
    if isinstance(response, list):
        response = "\n\n".join(part for part in response if isinstance(part, str))
    return _shown(prompt), _shown(response)


def _spoken(turns: list[Mapping[str, Any]]) -> str | None:
    said = [(turn.get("role"), turn.get("content")) for turn in turns]
    return _shown(
        written([(str(role), text) for role, text in said if isinstance(text, str) and text])
    )


def _shown(text: Any) -> str | None:
    """A text that says something; half a surrogate pair is spelt out."""
    if not isinstance(text, str) or not text:
        return None
    return text.encode("utf-8", "backslashreplace").decode()
