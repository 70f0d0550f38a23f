"""What was asked and answered in a sample of Inspect, as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from safemetry.readers.transcript import written


def texts_of(sample: Any) -> tuple[str | None, str | None]:
    """Prompt and response of a sample that was read in full.

    The response is the completion of its output; where it has none, the last message of the
    assistant. The prompt is every message before that, or the input where there is none.
    """
    messages = list(sample.messages) or _input(sample.input)
    last = next(
        (n for n in reversed(range(len(messages))) if messages[n].role == "assistant"), None
    )
    asked = messages if last is None else messages[:last]
    response = sample.output.completion if sample.output.choices else None
    if not response and last is not None:
        response = _text(messages[last])
    if not asked and isinstance(sample.input, str):
        return sample.input, response
    return written([(message.role, _text(message)) for message in asked]), response


def _input(given: str | Sequence[Any]) -> list[Any]:
    return [] if isinstance(given, str) else list(given)


def _text(message: Any) -> str:
    """The text of a message, and the tools that it calls."""
    calls = [
        f"[calls {call.function} {json.dumps(call.arguments, ensure_ascii=False, default=str)}]"
        for call in getattr(message, "tool_calls", None) or ()
    ]
    return "\n".join(part for part in (message.text, *calls) if part)
