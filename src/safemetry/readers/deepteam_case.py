"""Test cases of DeepTeam: what was asked and answered, and why some have no verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.schema import Reason, Status
from safemetry.readers.fields import encodable
from safemetry.readers.source import finite

_OLD_NAMES: Final = {
    "actual_output": "actualOutput",
    "attack_method": "attackMethod",
    "risk_category": "riskCategory",
    "vulnerability_type": "vulnerabilityType",
}
"""Field -> what releases 0.1 and 0.2 call it in the file."""

_Why = tuple[Status, Reason]
_NO_RESPONSE: Final[_Why] = (Status.MISSING, Reason.NO_RESPONSE)
_NOT_ATTEMPTED: Final[_Why] = (Status.MISSING, Reason.NOT_ATTEMPTED)
_INFRASTRUCTURE: Final[_Why] = (Status.ERROR, Reason.INFRASTRUCTURE_ERROR)
_GRADER_FAILED: Final[_Why] = (Status.ERROR, Reason.GRADER_FAILED)
_OUT_OF_SCALE: Final[_Why] = (Status.ERROR, Reason.OUT_OF_SCALE)
_BAD_FORMAT: Final[_Why] = (Status.ERROR, Reason.INVALID_RESPONSE_FORMAT)

_UNMADE: Final = (
    "Error simulating adversarial attacks",
    "Error enhancing regular attack",
    "Simulator model refused",
    "Simulation stopped early",
)
"""How an error begins where the attack was never made, so that the target met none."""

_CUT_SHORT: Final = frozenset({"SIMULATOR_REFUSED", "SIMULATION_ERROR", "RUNTIME_EXCEEDED"})
"""Why a conversation ended, where its end says nothing about the target."""

_VOID: Final = frozenset({"", "{}", "undefined", "null"})
"""Outputs that DeepTeam passes as empty, without asking its judge."""


def _field(case: Mapping[str, Any], name: str) -> Any:
    """A field of a test case under its name, or the one that older releases wrote."""
    value = case.get(name)
    return case.get(_OLD_NAMES[name]) if value is None and name in _OLD_NAMES else value


def name_of(case: Mapping[str, Any], name: str) -> str | None:
    """A field that is a name, or None where it is empty or absent."""
    value = _field(case, name)
    return encodable(value, name) if isinstance(value, str) and value.strip() else None


def turns_of(case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The messages of a conversation; none of a case that is a single request."""
    turns = case.get("turns")
    if turns is None:
        return []
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise InputError("turns are no list of messages", column="turns", fix="save it again")
    return turns


def request_of(case: Mapping[str, Any]) -> str | None:
    """What the target was asked; of a conversation the request that it begins with."""
    asked = case.get("input")
    if isinstance(asked, str) and asked:
        return asked
    first = next((turn for turn in turns_of(case) if turn.get("role") == "user"), {})
    content = first.get("content")
    return content if isinstance(content, str) and content else None


def texts_of(case: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The request, turn by turn where it is a conversation, and the answer."""
    prompt, response = request_of(case), _field(case, "actual_output")
    turns = turns_of(case)
    if turns:
        if turns[-1].get("role") == "assistant":
            response, turns = turns[-1].get("content"), turns[:-1]
        prompt = "\n\n".join(f"{turn.get('role')}: {turn.get('content')}" for turn in turns)
    return _encoded(prompt), _encoded(response)


def _encoded(text: Any) -> str | None:
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else None


def has_answer(case: Mapping[str, Any]) -> bool:
    """Whether the target said anything; DeepTeam passes a target that did not."""
    output = _field(case, "actual_output")
    if isinstance(output, str) and output.strip().lower() not in _VOID:
        return True
    return any(turn.get("role") == "assistant" and turn.get("content") for turn in turns_of(case))


def error_of(case: Mapping[str, Any]) -> str | None:
    """The error that a case ended in."""
    error = case.get("error")
    return error if isinstance(error, str) and error.strip() else None


def _why_unjudged(case: Mapping[str, Any]) -> _Why | None:
    """Why a case has no verdict, as far as its error and its output say."""
    error, turns = error_of(case), turns_of(case)
    if error is not None:
        ending = turns[-1].get("stopping_category") if turns else None
        if error.startswith(_UNMADE) or (isinstance(ending, str) and ending in _CUT_SHORT):
            return _NOT_ATTEMPTED
        # Data sets of DeepTeam write the error of the target where their judge failed, too.
        by_judge = error.startswith("Error evaluating target") or (has_answer(case) and not turns)
        return _GRADER_FAILED if by_judge else _INFRASTRUCTURE
    return None if has_answer(case) else _NO_RESPONSE


def verdict_of(case: Mapping[str, Any]) -> tuple[float | None, Status, Reason | None]:
    """The score of a case, or the status and reason for having none."""
    why = _why_unjudged(case)
    if why is None:
        given = case.get("score")
        score = finite(given)
        if score is None:
            why = _GRADER_FAILED if given is None else _BAD_FORMAT
        elif 0 <= score <= 1:
            return score, Status.OK, None
        else:
            why = _OUT_OF_SCALE
    return None, *why
