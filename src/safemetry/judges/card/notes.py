"""What a user adds to the report card: a small YAML of what the evidence does not know.

Nothing here is believed to be right; it is shown as stated by the notes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from safemetry.errors import InputError
from safemetry.evidence.maps import PlainLoader

EVERYONE: Final = "*"
MOST_BYTES: Final = 512 * 1024
_DEEPEST: Final = 12
_UNKNOWN: Final = frozenset({"", "?", "unknown", "not known", "not stated", "tbd", "todo"})
_HOLE: Final = re.compile(r"\s+")
_FIX: Final = "see docs/judges-card.md"


def _text(value: object) -> object:
    """Numbers as text; a text that says that nothing is known is no statement."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and _HOLE.sub(" ", value.strip()).casefold() in _UNKNOWN:
        return None
    return value


def _temperature(value: object) -> object:
    """A number from 0, or words such as a provider's default."""
    value = _text(value)
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return value
        if not (math.isfinite(number) and number >= 0):
            msg = f"{value!r} is no temperature"
            raise ValueError(msg)
        return format(number, "g")
    return value


def _short(most: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


Name = Annotated[str, BeforeValidator(_text), _short(300)]
Line = Annotated[
    Annotated[str, _short(1_000)] | None,
    BeforeValidator(_text),
]
Long = Annotated[
    Annotated[str, _short(100_000)] | None,
    BeforeValidator(_text),
]
Temperature = Annotated[
    Annotated[str, _short(100)] | None,
    BeforeValidator(_temperature),
]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Edit(_Strict):
    """One change of a rubric: when or which version, and what changed."""

    version: Name
    change: Annotated[str, BeforeValidator(_text), _short(1_000)]


class JudgeNote(_Strict):
    """A judge.

    Attributes
    ----------
    kind
        ``model`` (by default), ``person``, or ``rule`` (such as string matching).
    checkpoint, size
        Dated version or digest of the weights; parameters, or that they are not disclosed.
    calls, combination
        How many calls make one verdict, and how they become one.
    temperature
        A number, or words such as ``provider default``.
    rubric, rubric_history
        Text that the judge was given (for a person the instructions, for a rule the rule itself),
        and its edits, oldest first; ``none`` where it was never edited.
    """

    kind: Literal["model", "person", "rule"] | None = None
    checkpoint: Line = None
    size: Line = None
    calls: Annotated[int, Field(ge=1, le=10_000)] | None = None
    combination: Line = None
    temperature: Temperature = None
    rubric: Long = None
    rubric_history: (
        Annotated[tuple[Edit, ...], Field(min_length=1, max_length=200)] | Literal["none"] | None
    ) = None


class TargetNote(_Strict):
    """A target: its temperature."""

    temperature: Temperature = None


class HumanLabels(_Strict):
    """Labels by people.

    Attributes
    ----------
    blind
        Whether the people did not know the target and the verdicts of the judges.
    people, responses
        How many people labelled how many responses.
    judges
        Names under which their labels stand.
    how
        In words: who they were, how ties were settled.
    """

    blind: bool | None = None
    people: Count | None = None
    responses: Count | None = None
    judges: Annotated[tuple[Name, ...], Field(max_length=500)] = ()
    how: Line = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self == HumanLabels.model_construct():
            msg = "it says nothing; write none where there are no labels by people"
            raise ValueError(msg)
        return self


class CardNotes(_Strict):
    """What a user knows of the judges beyond the evidence.

    Attributes
    ----------
    judges, targets
        Name -> notes; ``"*"`` stands for everyone in what is not noted of them by name.
    classes
        Class -> its definition.
    empty_answer
        What an empty answer that refuses nothing counts as: a class, or words.
    harmful_requests
        Where the harmful requests come from.
    human_labels
        ``none``, or what labels by people there are.
    """

    judges: Annotated[dict[Name, JudgeNote], Field(max_length=1_000)] = Field(default_factory=dict)
    classes: Annotated[dict[Name, Line], Field(max_length=200)] = Field(default_factory=dict)
    empty_answer: Line = None
    targets: Annotated[dict[Name, TargetNote], Field(max_length=10_000)] = Field(
        default_factory=dict
    )
    harmful_requests: Line = None
    human_labels: HumanLabels | Literal["none"] | None = None

    def of_judge(self, judge: str) -> JudgeNote:
        """The notes on a judge, filled up with those on everyone."""
        own, rest = self.judges.get(judge), self.judges.get(EVERYONE)
        if own is None or rest is None:
            return own or rest or JudgeNote()
        stated = {name: value for name, value in own if value is not None}
        return rest.model_copy(update=stated)

    def temperature_of(self, target: str) -> str | None:
        """The temperature of a target, or that of everyone."""
        own = self.targets.get(target, TargetNote()).temperature
        return own or self.targets.get(EVERYONE, TargetNote()).temperature


class _NotesLoader(PlainLoader):
    """No aliases and no deep nesting: of either, little text can fill the memory or the stack."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            problem = "an alias (*NAME) is not allowed; a star as a name stands in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, mark)
        self.depth += 1
        if self.depth > _DEEPEST:
            problem = "it is nested too deeply"
            raise yaml.constructor.ConstructorError(None, None, problem, mark)
        found = super().compose_node(parent, index)
        self.depth -= 1
        return found


def read_notes(path: str | Path) -> CardNotes:
    """Read notes from a YAML file.

    Raises
    ------
    InputError
        Where the file cannot be read, is larger than 512 KiB, is not YAML, or holds an entry that
        notes do not know or that has the wrong type.
    """
    file = str(path)
    try:
        with Path(path).open("rb") as source:
            data = source.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read the notes ({error.strerror})", file=file) from error
    if len(data) > MOST_BYTES:
        raise InputError(f"the notes are larger than {MOST_BYTES:,} bytes", file=file, fix=_FIX)
    try:
        content = yaml.load(data.decode("utf-8-sig"), Loader=_NotesLoader)  # noqa: S506 - a SafeLoader with fewer types
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError) as error:
        said = " ".join(str(error).split())[:500]
        raise InputError(f"the notes are not readable YAML ({said})", file=file) from error
    return make_notes({} if content is None else content, file=file)


def make_notes(content: Mapping[str, Any] | CardNotes, *, file: str | None = None) -> CardNotes:
    """Notes from a mapping with the same entries as the YAML file.

    Raises
    ------
    InputError
        Naming the first entry that is wrong.

    Examples
    --------
    >>> make_notes({"judges": {"*": {"size": "8B"}}}).of_judge("llama").size
    '8B'
    """
    if isinstance(content, CardNotes):
        return content
    if not isinstance(content, Mapping):
        raise InputError("notes are a mapping of entries", file=file, fix=_FIX)
    try:
        return CardNotes.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part)[:100] for part in first["loc"] if not _is_inner(part))
        if first["type"] == "extra_forbidden":
            raise InputError(
                f"entry {place}: there is no such entry",
                file=file,
                fix=f"the entries here are {', '.join(_entries(first['loc'][:-1]))}",
            ) from error
        said = first["msg"].removeprefix("Value error, ")
        raise InputError(f"entry {place}: {said}", file=file, fix=_FIX) from error


def _is_inner(part: int | str) -> bool:
    """Whether a part of a place is the validator's name for a choice, not an entry."""
    return isinstance(part, str) and part.startswith(("function-after[", "tuple[", "literal["))


def _entries(place: tuple[int | str, ...]) -> list[str]:
    """The entries that notes know at a place."""
    model: type[_Strict] = CardNotes
    if "rubric_history" in place:
        model = Edit
    elif place:
        inner: dict[str, type[_Strict]] = {
            "judges": JudgeNote,
            "targets": TargetNote,
            "human_labels": HumanLabels,
        }
        model = inner.get(str(place[0]), CardNotes)
    return list(model.model_fields)
