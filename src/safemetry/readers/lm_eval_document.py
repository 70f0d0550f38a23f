"""Documents as the lm-evaluation-harness logs them, one a line, in every form since 0.4.0."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.readers.fields import encodable

FIELDS: Final = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps")
"""Fields of every line, in the order in which every release writes them."""
_OTHER_FIELDS: Final = frozenset({"filter", "metrics", "doc_hash", "prompt_hash", "target_hash"})
HEAD: Final = re.compile(rb'\{\s*"doc_id"\s*:\s*(?:-?\d+|"(?:[^"\\]|\\.)*")\s*,\s*"doc"\s*:')
RELEASES: Final = "lm-eval 0.4.0 to 0.4.13"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def decode(text: str) -> Any:
    """JSON with NaN and infinities, which the harness writes for metrics it could not compute."""
    return json.loads(text, parse_constant=float)


def metrics_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Metric -> its value. Releases that do not list their metrics put them beside the fields."""
    listed = entry.get("metrics")
    if listed is None:
        return {
            encodable(name, "metrics"): value
            for name, value in entry.items()
            if name not in FIELDS and name not in _OTHER_FIELDS
        }
    if not isinstance(listed, list) or not all(isinstance(name, str) and name for name in listed):
        raise InputError("is no list of names", column="metrics")
    absent = next((name for name in listed if name not in entry), None)
    if absent is not None:
        raise InputError(
            f"lists {encodable(absent, 'metrics')!r}, which the line does not hold",
            column="metrics",
            fix="log the samples again, or remove the line",
        )
    return {encodable(name, "metrics"): entry[name] for name in listed}


def hash_of(entry: Mapping[str, Any]) -> str | None:
    """The digest of a document by which it is the same in every task, shortened."""
    value = entry.get("doc_hash")
    return value[:16] if isinstance(value, str) and _DIGEST.fullmatch(value) else None


def texts_of(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Prompt, and response where the model wrote one."""
    arguments = entry["arguments"]
    first: Any = None
    if isinstance(arguments, Mapping):
        first = arguments.get("gen_args_0")
    elif isinstance(arguments, list) and arguments:
        first = arguments[0]
    if isinstance(first, Mapping):
        first = [first.get("arg_0"), first.get("arg_1")]
    if not isinstance(first, list) or not first:
        return None, None
    prompt = first[0] if isinstance(first[0], str) else None
    # Only a request to generate comes with settings; to others the model answers with numbers.
    if len(first) < 2 or not isinstance(first[1], Mapping):
        return prompt, None
    responses = entry["resps"]
    said = responses[0] if isinstance(responses, list) and responses else []
    texts = [text for text in said if isinstance(text, str)] if isinstance(said, list) else []
    return prompt, "\n\n".join(texts) if texts else None
