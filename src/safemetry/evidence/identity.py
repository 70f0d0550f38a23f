"""Who judged: the parts that make a judge that judge, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

_SWAPPED: Final = "a swapped judge under the same name is a new judge"


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


def by_judge(identities: Iterable[JudgeIdentity]) -> dict[str, list[JudgeIdentity]]:
    """Judge -> its identities, each once."""
    found: dict[str, dict[str, JudgeIdentity]] = {}
    for identity in identities:
        found.setdefault(identity.name, {}).setdefault(identity.digest, identity)
    return {name: list(stated.values()) for name, stated in found.items()}


def swap_warnings(judges: Mapping[str, Collection[object]]) -> list[str]:
    """A sentence for each judge that stands under one name with more than one identity."""
    return [
        f"Judge {name!r} has {len(identities)} identities (another model, rubric, parser or "
        f"decoding): {_SWAPPED}, and rates by the two are not comparable."
        for name, identities in sorted(judges.items())
        if len(identities) > 1
    ]


def without_swap_warnings(warnings: Sequence[str]) -> list[str]:
    """The other sentences: of how many identities there are, each import knew only its own."""
    return [warning for warning in warnings if _SWAPPED not in warning]


def text_digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a rubric or prompt without showing it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
