"""Attempts of garak reports, in every form that releases since 0.9 have written.

Texts are looked at for their digests and are not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.readers.fields import digest_of, encodable
from safemetry.readers.transcript import written

_LANGUAGE_TAG: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_MODEL_MODULES: Final = frozenset(
    {"judge", "agent_breaker", "misleading", "unsafe_content", "toxicity", "perspective"}
)
_MODEL_DETECTORS: Final = frozenset({"mitigation.ModernBERTRefusal"})


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: who, what, and the digest of an attached file."""

    role: str
    text: str | None
    attachment: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is kept of an attempt; texts are not."""

    uuid: str
    probe: str
    row: int
    run: int
    context: Mapping[str, Any]
    answered: Sequence[bool]
    turns: Sequence[tuple[int, int, bool]]
    """(conversation, turn, whether it is the last) of each assistant message, as garak lists them;
    turn 0 stands for a message that belongs to the prompt."""
    scores: Mapping[str, Sequence[Any]]
    intermediate: bool


def bad_line(problem: str, fix: str = "export the report again, or remove the line") -> InputError:
    """The error for a line that is no part of a sound report."""
    return InputError(problem, fix=fix)


def _turn(value: Any) -> Turn:
    """A message in any form that a release of garak has written."""
    role: Any = "user"
    if isinstance(value, Mapping) and ("role" in value or "content" in value):
        role, value = value.get("role"), value.get("content")
    if value is None or isinstance(value, str):
        value = {"text": value}
    if not isinstance(role, str) or not isinstance(value, Mapping):
        raise bad_line("a message is neither text nor an object with a role")
    text, checksum, path, language = (
        part if isinstance(part, str) else None
        for part in map(value.get, ("text", "data_checksum", "data_path", "lang"))
    )
    return Turn(role, text, checksum or path, language)


def turns_of(value: Any) -> tuple[Turn, ...]:
    """The messages of a prompt or conversation: a text, a message, a list, or an object."""
    if value is None:
        return ()
    if isinstance(value, Mapping) and "turns" in value:
        value = value["turns"]
    if isinstance(value, list):
        return tuple(_turn(part) for part in value)
    return (_turn(value),)


def prompt_digest(turns: Sequence[Turn]) -> str:
    """Digest of a prompt; of one user message without attachment that of its text."""
    if len(turns) == 1 and turns[0].role == "user" and turns[0].attachment is None:
        return digest_of(turns[0].text or "")
    return digest_of(json.dumps([[turn.role, turn.text, turn.attachment] for turn in turns]))


def request_digest(turns: Sequence[Turn]) -> str | None:
    """Digest of the first user message: what the rest of a conversation leads up to."""
    asked = [turn for turn in turns if turn.role == "user"]
    return prompt_digest(asked[:1]) if asked else None


def language_of(turns: Sequence[Turn], attempt: Mapping[str, Any]) -> str | None:
    """The language that garak itself takes an attempt to be in, if it is a language tag."""
    tag = turns[-1].language if turns and turns[-1].language else attempt.get("lang")
    return tag if isinstance(tag, str) and _LANGUAGE_TAG.fullmatch(tag) else None


def text_of(attempt: Mapping[str, Any], name: str) -> str:
    """A field that has to be there, as text."""
    value = attempt.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"the attempt has no {name}", column=name, fix="export the report again")
    return encodable(value, name)


def notes_of(attempt: Mapping[str, Any]) -> Mapping[str, Any]:
    """The notes that a probe left with its attempt."""
    notes = attempt.get("notes")
    return notes if isinstance(notes, Mapping) else {}


def list_of(attempt: Mapping[str, Any], name: str) -> list[Any]:
    """A field that is a list where it is there."""
    value = attempt.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(f"{name} is no list", column=name, fix="export the report again")
    return value


def has_response(output: Any) -> bool:
    """Whether an output holds a response; garak writes null where the target gave none."""
    if isinstance(output, Mapping):
        return output.get("text") is not None or output.get("data_path") is not None
    return output is not None


def assistant_turns(attempt: Mapping[str, Any], prompt: int) -> list[tuple[int, int, bool]]:
    """(conversation, turn, whether the last) of each assistant message; turn 0 inside the prompt.

    Some releases scored every assistant message of every conversation, in this order.
    """
    listed = list_of(attempt, "conversations") or list_of(attempt, "messages")
    if listed and isinstance(listed[0], Mapping) and "role" in listed[0]:
        listed = [listed]
    found: list[tuple[int, int, bool]] = []
    for at, conversation in enumerate(listed):
        places = [n for n, t in enumerate(turns_of(conversation)) if t.role == "assistant"]
        count = 0
        for place in places:
            count += place >= prompt
            found.append((at, count if place >= prompt else 0, place == places[-1]))
    return found


def texts_of(
    attempt: Mapping[str, Any], output: int, turn: int | None
) -> tuple[str | None, str | None]:
    """Prompt and response of one output; of an earlier turn where `turn` is its number."""
    prompt = turns_of(attempt.get("prompt"))
    listed = list_of(attempt, "conversations") or list_of(attempt, "messages")
    if listed and isinstance(listed[0], Mapping) and "role" in listed[0]:
        listed = [listed]
    said = turns_of(listed[output]) if output < len(listed) else ()
    answers = [n for n, t in enumerate(said) if t.role == "assistant" and n >= len(prompt)]
    if turn is not None:
        place = answers[turn - 1]
        return _written(said[:place]), said[place].text
    outputs = list_of(attempt, "outputs")
    given = outputs[output] if output < len(outputs) else None
    asked = said[: answers[-1]] if answers else prompt
    return _written(asked), _turn(given).text if given is not None else None


def _written(turns: Sequence[Turn]) -> str | None:
    return written([(turn.role, turn.text or "") for turn in turns])


def scores_of(attempt: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Detector -> its scores, as they stand."""
    results = attempt.get("detector_results")
    if results is None:
        return {}
    if not isinstance(results, Mapping):
        raise InputError("detector_results is no object", column="detector_results")
    scores: dict[str, list[Any]] = {}
    for detector, values in results.items():
        if not detector.strip() or not isinstance(values, list):
            raise InputError("the scores of a detector are no list", column="detector_results")
        scores[encodable(detector, "detector_results")] = values
    return scores


def module_of(detector: str) -> str:
    """The module of a detector or probe: the part before the dot."""
    return detector.partition(".")[0]


def asks_model(detector: str) -> bool:
    """Whether a detector is a model or asks one, so that no score means that the model failed."""
    return module_of(detector) in _MODEL_MODULES or detector in _MODEL_DETECTORS
