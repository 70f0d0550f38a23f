"""Results of promptfoo: one test under one prompt and provider, and what was said of the answer.

Texts are looked at for their digests and are not kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.schema import Intent, Reason, Status
from safemetry.readers.fields import digest_of, encodable
from safemetry.readers.promptfoo_file import id_of, is_text

OUTCOMES: Final = (
    (Status.OK, None),
    (Status.MISSING, Reason.NO_RESPONSE),
    (Status.MISSING, Reason.BLOCKED_BY_FILTER),
    (Status.ERROR, Reason.INFRASTRUCTURE_ERROR),
    (Status.ERROR, Reason.GRADER_FAILED),
    (Status.ERROR, Reason.SCORING_FAILED),
    (Status.ERROR, Reason.INVALID_RESPONSE_FORMAT),
)
OK, NO_RESPONSE, BLOCKED, INFRASTRUCTURE, GRADER_FAILED, SCORING_FAILED, BAD_FORMAT = range(
    len(OUTCOMES)
)
GRADER: Final = "promptfoo:redteam:"
"""How the types of the assertions begin that grade the tests of red-team plugins."""

ERROR: Final = 2
"""promptfoo's `failureReason` of a result that ended in an error; 0 is none, 1 an assertion."""

_STRIPPED: Final = frozenset({"[output stripped]", "[prompt stripped]"})
_NAME: Final = re.compile(r"[\w.:/#@+-]{1,64}")
_FILTERED: Final = re.compile(
    r"content[ _-]?(?:filter|policy)|responsible ?ai ?policy|guardrail|safety (?:system|filter)",
    re.IGNORECASE,
)
_BLANK: Final = frozenset({"{}", "null", "undefined"})
"""Outputs that the graders of a red team take for empty, and pass."""

_LANGUAGE_TAG: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_XSTEST_INTENTS: Final = {"safe": Intent.BENIGN, "unsafe": Intent.HARMFUL}


def whole(entry: Mapping[str, Any], name: str) -> int:
    """A number that has to be there."""
    value = entry.get(name)
    if type(value) is not int or value < 0:
        raise InputError(
            f"the result has no {name}", column=name, fix="export it again, or remove the result"
        )
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one in its place."""
    return value if isinstance(value, Mapping) else {}


# --- where a result stands --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """One column of promptfoo's table: a provider under a prompt template."""

    index: int
    provider: str
    prompt: str


def column_of(entry: Mapping[str, Any]) -> Column:
    """The column that a result stands in."""
    provider = entry.get("provider")
    label = mapping(provider).get("label")
    name = label if is_text(label) else id_of(provider)
    if name is None:
        raise InputError(
            "the result names no provider", column="provider", fix="export it again with providers"
        )
    return Column(whole(entry, "promptIdx"), encodable(name, "provider"), _prompt_name(entry))


def _prompt_name(entry: Mapping[str, Any]) -> str:
    """A label that is a name and not the text of the prompt, else digits of the prompt's id."""
    prompt = mapping(entry.get("prompt"))
    label = prompt.get("label")
    if isinstance(label, str) and _NAME.fullmatch(label) and label != prompt.get("raw"):
        return label
    given = entry.get("promptId")
    if isinstance(given, str) and re.fullmatch(r"[0-9a-f]{12,}", given):
        return given[:12]
    return digest_of(label)[:12] if isinstance(label, str) else "prompt"


def test_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The test case."""
    return mapping(entry.get("testCase"))


def metadata_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of the test, which the result repeats beside those of the response."""
    return mapping(test_of(entry).get("metadata")) or mapping(entry.get("metadata"))


def plugin_of(entry: Mapping[str, Any]) -> str | None:
    """The plugin of a red team that made the test; its grader names it where metadata do not."""
    plugin = metadata_of(entry).get("pluginId")
    if is_text(plugin):
        return plugin
    declared = test_of(entry).get("assert")
    for asked in declared if isinstance(declared, list) else []:
        kind = mapping(asked).get("type")
        if is_text(kind) and kind.startswith(GRADER) and kind != GRADER:
            return kind.removeprefix(GRADER)
    return None


def strategy_of(entry: Mapping[str, Any]) -> str | None:
    """The strategy that rewrote what a plugin made; promptfoo calls none `basic`."""
    metadata = metadata_of(entry)
    if not is_text(metadata.get("pluginId")):
        return None
    strategy = metadata.get("strategyId")
    return strategy if is_text(strategy) else "basic"


def item_of(entry: Mapping[str, Any]) -> str:
    """A test by its content: `testIdx` counts repeats and changes with the selection of tests."""
    test = test_of(entry)
    asked = mapping(test.get("vars")) or mapping(entry.get("vars"))
    described = test.get("description")
    plugin, strategy = plugin_of(entry), strategy_of(entry)
    if not asked and not is_text(described):
        return f"test-{whole(entry, 'testIdx')}"
    prefix = plugin or "test"
    if isinstance(described, str) and _NAME.fullmatch(described):
        prefix = described
    return f"{prefix}/{content_digest([described, dict(asked), plugin, strategy])}"


def content_digest(value: Any) -> str:
    """Digest of a JSON value, whatever the order of its members."""
    try:
        return digest_of(json.dumps(value, sort_keys=True))
    except (RecursionError, ValueError) as error:
        raise InputError(
            "the test is nested too deeply", column="testCase", fix="remove the result"
        ) from error


def behaviour_of(entry: Mapping[str, Any]) -> str | None:
    """The request under a red-team test, which its strategies share."""
    if plugin_of(entry) is None:
        return None
    metadata = metadata_of(entry)
    asked = mapping(test_of(entry).get("vars"))
    candidates = (
        metadata.get("goal"),
        metadata.get("originalText"),
        asked.get("prompt"),
        mapping(entry.get("prompt")).get("raw"),
    )
    for text in candidates:
        if isinstance(text, str) and text.strip() and text not in _STRIPPED:
            return digest_of(text)
    return None


def intent_of(entry: Mapping[str, Any]) -> Intent | None:
    """Red-team tests attack, but for the safe half of XSTest; of other tests nothing is known."""
    plugin = plugin_of(entry)
    if plugin == "xstest":
        label = metadata_of(entry).get("label")
        return _XSTEST_INTENTS.get(label) if isinstance(label, str) else None
    return Intent.HARMFUL if plugin else None


def language_of(entry: Mapping[str, Any]) -> str | None:
    """The language that a red team translated its tests into, where it is a language tag."""
    metadata = metadata_of(entry)
    tag = metadata.get("language", mapping(metadata.get("modifiers")).get("language"))
    return tag if isinstance(tag, str) and _LANGUAGE_TAG.fullmatch(tag) else None


# --- the answer -------------------------------------------------------------------------------


def trouble_of(entry: Mapping[str, Any]) -> int:
    """Why an answer has no verdict at all, or `OK`."""
    error = entry.get("error")
    ended = _failure_reason(entry) == ERROR
    answered = has_answer(entry)
    if ended:
        if isinstance(error, str) and _FILTERED.search(error):
            return BLOCKED
        return GRADER_FAILED if answered else INFRASTRUCTURE
    if not answered:
        return NO_RESPONSE
    return OK if isinstance(entry.get("gradingResult"), Mapping) else SCORING_FAILED


def _failure_reason(entry: Mapping[str, Any]) -> int:
    """Why a result did not pass; releases that do not say write no grading where there was none."""
    value = entry.get("failureReason")
    if value is None:
        no_grading = not isinstance(entry.get("gradingResult"), Mapping)
        return ERROR if no_grading and entry.get("error") else 0
    if type(value) is not int or value not in (0, 1, ERROR):
        raise InputError(
            "failureReason is none of 0 (none), 1 (assertion) and 2 (error)",
            column="failureReason",
            fix="export it again with promptfoo 0.118 to 0.121",
        )
    return value


def count_of(entry: Mapping[str, Any]) -> str:
    """Which of promptfoo's totals the result belongs to."""
    if succeeded(entry):
        return "passed"
    return "errors" if _failure_reason(entry) == ERROR else "failed"


def succeeded(entry: Mapping[str, Any]) -> bool:
    """Whether promptfoo calls the result a success."""
    value = entry.get("success")
    if not isinstance(value, bool):
        raise InputError(
            "success is neither true nor false", column="success", fix="export it again"
        )
    return value


def has_answer(entry: Mapping[str, Any]) -> bool:
    """Whether the target answered; promptfoo lets graders and red teams pass an empty output."""
    response = mapping(entry.get("response"))
    output = response.get("output")
    if isinstance(output, str):
        stripped = output.strip().lower()
        if not stripped or (stripped in _BLANK and plugin_of(entry) is not None):
            output = None
    return output is not None or any(response.get(kind) for kind in ("audio", "images", "video"))


def refusal_flag(entry: Mapping[str, Any]) -> bool | None:
    """Whether the provider says that its response is a refusal; None where it does not say."""
    flag = mapping(entry.get("response")).get("isRefusal")
    return flag if isinstance(flag, bool) and has_answer(entry) else None


def texts_of(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The prompt as it was sent, turn by turn where it is a conversation, and the answer."""
    prompt = mapping(entry.get("prompt")).get("raw")
    output = mapping(entry.get("response")).get("output")
    turns = mapping(entry.get("metadata")).get("messages")
    if isinstance(turns, list) and turns and all(isinstance(turn, Mapping) for turn in turns):
        if len(turns) > 1 and turns[-1].get("role") == "assistant":
            turns = turns[:-1]
        prompt = "\n\n".join(f"{turn.get('role')}: {turn.get('content')}" for turn in turns)
    return _text(prompt), _text(output)


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value in _STRIPPED):
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode()
