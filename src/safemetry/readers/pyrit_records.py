"""Records of PyRIT: message pieces, scores and attack results, whatever file they stand in.

Texts are looked at for their digests and are kept only where the texts themselves are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.schema import Reason, Status
from safemetry.readers.fields import digest_of, encodable, field_of
from safemetry.readers.pyrit_components import Component, attack_of, component_of, components_of

Why = tuple[Status, Reason]
"""Status and reason of a verdict that is missing."""

GRADER_FAILED: Final[Why] = (Status.MISSING, Reason.GRADER_FAILED)
SCORING_FAILED: Final[Why] = (Status.MISSING, Reason.SCORING_FAILED)
NOT_ATTEMPTED: Final[Why] = (Status.MISSING, Reason.NOT_ATTEMPTED)
NO_RESPONSE: Final[Why] = (Status.MISSING, Reason.NO_RESPONSE)
FAILED: Final[Why] = (Status.ERROR, Reason.INFRASTRUCTURE_ERROR)
NO_FORMAT: Final[Why] = (Status.ERROR, Reason.INVALID_RESPONSE_FORMAT)
OUT_OF_SCALE: Final[Why] = (Status.ERROR, Reason.OUT_OF_SCALE)

ERROR_FIELD: Final = "response_error"
NO_ERROR: Final = "none"
ERRORS: Final[Mapping[str, Why | None]] = {
    NO_ERROR: None,
    "blocked": (Status.MISSING, Reason.BLOCKED_BY_FILTER),
    "empty": NO_RESPONSE,
    "processing": FAILED,
    "unknown": FAILED,
}
"""What PyRIT says about a response -> why it has no verdict."""

UNREAD: Final = "score of a message that was not read"
NEVER_STARTED: Final = "attack that failed before it reached a target"
OUTSIDE: Final = "score of content outside a conversation"

OUTCOMES: Final = frozenset({"success", "failure", "error", "undetermined"})
_FILLERS: Final = {
    "Scorer response blocked; returning ": GRADER_FAILED,
    "Blocked response; returning ": ERRORS["blocked"],
    "Error response; returning ": FAILED,
    "No pieces to score after filtering; returning ": SCORING_FAILED,
    "Refusal not blocked and non text": SCORING_FAILED,
}
"""Descriptions of scores that PyRIT writes where no scorer read a response."""

_REFUSED_UNREAD: Final = "Refusal detected"
"""What PyRIT's scorer of refusals says of a blocked response, without asking its model."""

_LARGEST: Final = 2**31
"""No conversation has as many messages."""

RESPONSE: Final = "assistant"
ROLES: Final = frozenset({"system", "developer", "user", RESPONSE, "simulated_assistant", "tool"})
ASKING: Final = "user"


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a message.

    Parameters
    ----------
    row
        Its row in the source.
    id, original
        Its id, and that of the piece it is a copy of; the same where it is none.
    role, conversation, sequence
        Who said it, and where.
    error
        PyRIT's word for what went wrong with the response.
    partial
        Whether a blocked response holds what came before the block.
    request
        Digest of what was asked, before converters rewrote it; None for a response.
    converters
        What rewrote it.
    target, attack
        Who was asked, and by which attack, where each piece says so.
    labels, categories, timestamp
        Context.
    about
        What the map may take columns from.
    text
        What was said; None unless texts are asked for.
    """

    row: int
    id: str
    original: str
    role: str
    conversation: str
    sequence: int
    error: str = NO_ERROR
    partial: bool = False
    request: str | None = None
    converters: tuple[Component, ...] = ()
    target: Component | None = None
    attack: Component | None = None
    categories: tuple[str, ...] = ()
    timestamp: str | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """A verdict of a scorer on a message piece.

    Parameters
    ----------
    id, piece
        Its id, and that of the piece; the latter is None for content outside a conversation.
    value, kind
        As written, and whether it is true / false or a number.
    undetermined
        Whether the scorer reached no verdict.
    category
        Harm category.
    scorer
        Who judged.
    objective
        Digest of what the attack was after.
    filler
        Why the value stands for no verdict, where PyRIT's description says so.
    if_blocked
        Whether it stands for none on a blocked response, whatever that holds.
    version
        Release of PyRIT that wrote it.
    """

    id: str
    piece: str | None
    value: str | None
    kind: str
    undetermined: bool
    category: str | None
    scorer: Component
    objective: str | None
    filler: Why | None
    if_blocked: bool
    version: str | None


@dataclass(frozen=True, slots=True)
class Attack:
    """The result of an attack.

    Parameters
    ----------
    row
        Its row in the source.
    id, conversation
        Its id, and the conversation that it ended with.
    outcome
        success, failure, error or undetermined.
    objective
        Digest of what it was after.
    attack
        Which attack, with its target and scorer.
    last_response, last_score
        Ids of the piece and score that decided it.
    pruned
        Conversations that it gave up.
    categories, timestamp, version
        Context.
    about
        What the map may take columns from.
    """

    row: int
    id: str
    conversation: str
    outcome: str
    objective: str | None
    attack: Component | None
    last_response: str | None
    last_score: str | None
    pruned: tuple[str, ...]
    categories: tuple[str, ...]
    timestamp: str | None
    version: str | None
    about: Mapping[str, str]

    @property
    def scorer(self) -> Component | None:
        """The scorer that decides about its success."""
        return self.attack.child("objective_scorer") if self.attack else None

    @property
    def target(self) -> Component | None:
        """Whom it attacked."""
        return self.attack.child("objective_target") if self.attack else None

    @property
    def converters(self) -> tuple[Component, ...]:
        """What rewrote its prompts."""
        return tuple(self.attack.children.get("request_converters", ())) if self.attack else ()


@dataclass
class Memory:
    """Everything that one source holds.

    Parameters
    ----------
    rows
        Message pieces, attack results and scores of other content.
    pieces, scores, attacks
        What was read.
    targets
        Conversation -> whom it was held with, where the pieces do not say so.
    skipped, failures
        Rows that hold nothing to judge, and rows that are broken.
    """

    rows: int = 0
    pieces: list[Piece] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    attacks: list[Attack] = field(default_factory=list)
    targets: dict[str, Component] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    failures: list[InputError] = field(default_factory=list)

    def skip(self, why: str, rows: int = 1) -> None:
        """Count rows that hold nothing to judge."""
        if rows:
            self.skipped[why] = self.skipped.get(why, 0) + rows


@dataclass(frozen=True)
class Wanted:
    """What to keep of the records beyond what judgements need.

    Parameters
    ----------
    paths
        Dotted paths that the map takes columns from.
    texts
        Whether to keep the texts.
    """

    paths: Sequence[str] = ()
    texts: bool = False


def first_of(record: Mapping[str, Any], *names: str) -> Any:
    """The first of several fields that holds something: releases name them differently."""
    return next((record[name] for name in names if record.get(name) not in (None, "")), None)


def text_of(record: Mapping[str, Any], *names: str) -> str:
    """A text that has to be there.

    Raises
    ------
    InputError
        Where it is absent, blank, or holds what UTF-8 cannot.
    """
    value = first_of(record, *names)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"holds no {names[0]}", column=names[0], fix="export it again")
    return encodable(value, names[0])


def _text_or_none(record: Mapping[str, Any], *names: str) -> str | None:
    value = first_of(record, *names)
    return encodable(value, names[0]) if isinstance(value, str) and value.strip() else None


def _texts_of(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts; older releases wrote a single one without a list."""
    value = record.get(name)
    listed = value if isinstance(value, list) else [value]
    return tuple(encodable(text, name) for text in listed if isinstance(text, str) and text.strip())


def _digest_or_none(record: Mapping[str, Any], *names: str) -> str | None:
    value = first_of(record, *names)
    return digest_of(value) if isinstance(value, str) else None


def piece_of(record: Mapping[str, Any], row: int, wanted: Wanted) -> Piece:
    """A message piece as any release wrote it.

    Raises
    ------
    InputError
        Naming the field that is absent or of another kind.
    """
    identity = text_of(record, "id")
    role = text_of(record, "role")
    if role not in ROLES:
        raise InputError(f"unknown role {role[:40]!r}", column="role", fix=_one_of(ROLES))
    sequence = record.get("sequence")
    if type(sequence) is not int or abs(sequence) > _LARGEST:
        raise InputError("is no whole number", column="sequence", fix="export it again")
    error = _text_or_none(record, "response_error") or NO_ERROR
    if error not in ERRORS:
        raise InputError(
            f"unknown response_error {error[:40]!r}", column="response_error", fix=_one_of(ERRORS)
        )
    metadata = record.get("prompt_metadata")
    partial = isinstance(metadata, Mapping) and bool(metadata.get("partial_content"))
    stamped = first_of(record, "attack_identifier", "orchestrator_identifier")
    return Piece(
        row=row,
        id=identity,
        original=_text_or_none(record, "original_prompt_id") or identity,
        role=role,
        conversation=text_of(record, "conversation_id"),
        sequence=sequence,
        error=error,
        partial=partial,
        request=_request_of(record) if role == ASKING else None,
        converters=components_of(record.get("converter_identifiers"), "converter_identifiers"),
        target=component_of(record.get("prompt_target_identifier"), "prompt_target_identifier"),
        attack=attack_of(component_of(stamped, "attack_identifier")),
        categories=_texts_of(record, "targeted_harm_categories"),
        timestamp=_text_or_none(record, "timestamp"),
        about=_about(record, wanted),
        text=_said(record) if wanted.texts else None,
    )


def _request_of(record: Mapping[str, Any]) -> str:
    """Digest of what was asked: of a file its contents, where known, since paths are random."""
    kind = record.get("original_value_data_type")
    if kind is not None and not isinstance(kind, str):
        raise InputError("is no text", column="original_value_data_type", fix="export it again")
    stated = record.get("original_value_sha256")
    if kind not in {None, "text"} and isinstance(stated, str):
        return digest_of(stated)
    value = record.get("original_value")
    return digest_of(value if isinstance(value, str) else "")


def _said(record: Mapping[str, Any]) -> str | None:
    value = record.get("converted_value")
    if not isinstance(value, str):
        return None
    return value.encode("utf-8", "backslashreplace").decode()


def _about(record: Mapping[str, Any], wanted: Wanted) -> dict[str, str]:
    found = {path: field_of(record, path) for path in wanted.paths}
    return {path: encodable(value, path) for path, value in found.items() if value is not None}


def score_of(record: Mapping[str, Any]) -> Score:
    """A score as any release wrote it.

    Raises
    ------
    InputError
        Naming the field that is absent or of another kind.
    """
    scorer = component_of(record.get("scorer_class_identifier"), "scorer_class_identifier")
    if scorer is None:
        raise InputError("names no scorer", column="scorer_class_identifier", fix="export it again")
    described = record.get("score_value_description")
    described = described if isinstance(described, str) else ""
    value = record.get("score_value")
    return Score(
        id=text_of(record, "id"),
        piece=_text_or_none(record, "message_piece_id", "prompt_request_response_id"),
        value=value if isinstance(value, str) else None if value is None else repr(value),
        kind=text_of(record, "score_type"),
        undetermined=record.get("status") == "undetermined",
        category=", ".join(_texts_of(record, "score_category")) or None,
        scorer=scorer,
        objective=_digest_or_none(record, "objective", "task"),
        filler=next((why for said, why in _FILLERS.items() if described.startswith(said)), None),
        if_blocked=described == _REFUSED_UNREAD,
        version=_text_or_none(record, "pyrit_version"),
    )


def attack_result_of(record: Mapping[str, Any], row: int, wanted: Wanted) -> Attack:
    """The result of an attack as any release wrote it.

    Raises
    ------
    InputError
        Naming the field that is absent or of another kind.
    """
    outcome = text_of(record, "outcome")
    if outcome not in OUTCOMES:
        raise InputError(
            f"unknown outcome {outcome[:40]!r}", column="outcome", fix=_one_of(OUTCOMES)
        )
    stated = first_of(record, "atomic_attack_identifier", "attack_identifier")
    return Attack(
        row=row,
        id=text_of(record, "id"),
        conversation=text_of(record, "conversation_id"),
        outcome=outcome,
        objective=_digest_or_none(record, "objective"),
        attack=attack_of(component_of(stated, "atomic_attack_identifier")),
        last_response=_text_or_none(record, "last_response_id"),
        last_score=_text_or_none(record, "last_score_id"),
        pruned=_texts_of(record, "pruned_conversation_ids"),
        categories=_texts_of(record, "targeted_harm_categories"),
        timestamp=_text_or_none(record, "timestamp"),
        version=_text_or_none(record, "pyrit_version"),
        about=_about(record, wanted),
    )


def _one_of(words: Iterable[str]) -> str:
    return f"known are {', '.join(sorted(words))}: export it with a release that is known"
