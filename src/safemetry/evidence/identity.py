"""Who judged: the parts that make a judge that judge, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """A judge and everything that could change its verdicts.

    A swapped model, a new rubric or another parser is a new judge even where the name stays, so
    the digest covers them all. A part that the source does not state is None.

    Parameters
    ----------
    name
        The name under which its verdicts stand in the judgements table.
    model
        Grader model, with its checkpoint where stated.
    decoding
        Decoding parameters, such as ``{"temperature": 0}``.
    rubric
        Digest of the rubric or prompt text (never the text).
    parser
        How the answer of the grader becomes a label or score.
    aggregation
        How several calls become one verdict.
    """

    name: str
    model: str | None = None
    decoding: Mapping[str, Any] = field(default_factory=dict)
    rubric: str | None = None
    parser: str | None = None
    aggregation: str | None = None

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits over every part."""
        text = json.dumps(asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def text_digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a rubric or prompt without showing it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
