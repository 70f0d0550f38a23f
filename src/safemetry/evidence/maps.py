"""The map: how the words of a source become the words of the judgements table.

A map is a small YAML file. Nothing in it is guessed: what a source leaves open (what its labels
mean, which end of a score is safe, which prompts are harmful) is said here once, and the map is
kept with the evidence.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from safemetry.errors import InputError
from safemetry.evidence.schema import (
    BY_NAME,
    CLASSES,
    OUTSIDE,
    VERDICT_COLUMNS,
    WHOLE,
    Intent,
    Reason,
    Status,
)


def _text(value: object) -> object:
    """Numbers and booleans as the text that a cell holds, since labels are compared as text."""
    return str(value) if isinstance(value, bool | int | float) else value


Text = Annotated[str, BeforeValidator(_text)]
MISSING_PREFIX = "missing:"
_PER_ROW: Final = {*(column.name for column in VERDICT_COLUMNS), "source_row"}


class PlainLoader(yaml.SafeLoader):
    """YAML whose `yes`, `no`, `on`, `true` and dates stay the text that a cell holds.

    A key that stands twice is an error: the first value would be lost without a word.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - as the base class has it
        """The mapping, every key once."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                problem = f"the key {key!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


PlainLoader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Scale(_Strict):
    """A judge: its classes, the range of its score, and which end of the score is safe."""

    classes: tuple[str, ...] | None = None
    labels: dict[Text, Text] = Field(default_factory=dict)
    scale_min: float | None = None
    scale_max: float | None = None
    higher_is: Literal["safer", "worse"] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if (
            self.scale_min is not None
            and self.scale_max is not None
            and self.scale_min >= self.scale_max
        ):
            msg = "scale_min must be below scale_max"
            raise ValueError(msg)
        return self


class FromColumn(_Strict):
    """A column of the source whose values are translated."""

    column: str
    values: dict[Text, Text]


class Limits(_Strict):
    """How much of a source is read before it is refused.

    Sizes are bytes. A document (one JSON value) is held in memory whole, so its limit is lower
    than that of a table, which is read in pieces.
    """

    table_bytes: int = Field(default=64 * 2**30, gt=0)
    document_bytes: int = Field(default=2**30, gt=0)
    line_bytes: int = Field(default=64 * 2**20, gt=0)
    expanded_bytes: int = Field(default=32 * 2**30, gt=0)
    expansion: int = Field(default=200, gt=1)
    rows: int = Field(default=2_000_000_000, gt=0)
    id_characters: int = Field(default=10_000, gt=0)


class EvidenceMap(_Strict):
    """What a study or a command knows about its sources beyond what they say themselves.

    Attributes
    ----------
    columns
        Our column -> the column of the source (for nested logs a dotted path such as
        ``metadata.category``).
    constants
        Our column -> one value for every row.
    classes, outside
        The class order from least to most compliant, and the classes outside it.
    labels
        Label of the source -> class, or ``missing:REASON`` where the label is no verdict.
    intent
        ``harmful``, ``benign`` or ``contested`` for every row, or a column and its values.
    status
        A column and its values -> ``ok`` or a reason (the row then has no verdict).
    judges
        Judge -> its scale; ``"*"`` stands for every judge not named.
    label_columns
        Label table: column -> judge (or a list of columns that are judges).
    rewarded
        Wide matrix: the cell value that the benchmark rewards.
    encoding
        Text encoding of tables.
    target_refusal
        What Inspect's unscored reason ``refusal`` becomes: the label ``refuse`` or ``missing``.
    limits
        Size limits.
    """

    columns: dict[str, str] = Field(default_factory=dict)
    constants: dict[str, Text] = Field(default_factory=dict)
    classes: tuple[str, ...] = CLASSES
    outside: tuple[str, ...] = OUTSIDE
    labels: dict[Text, Text] = Field(default_factory=dict)
    intent: Intent | FromColumn | None = None
    status: FromColumn | None = None
    judges: dict[str, Scale] = Field(default_factory=dict)
    label_columns: dict[str, str] | tuple[str, ...] | None = None
    rewarded: int = 1
    encoding: str = "utf-8"
    target_refusal: Literal["refuse", "missing"] = "refuse"
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._check_columns()
        if len(self.classes) < 2 or len(set(self.classes)) != len(self.classes):
            msg = "classes: give at least two different classes, least compliant first"
            raise ValueError(msg)
        if both := set(self.classes) & set(self.outside):
            msg = f"classes: {sorted(both)} stand both inside and outside the order"
            raise ValueError(msg)
        for place, labels in [
            ("labels", self.labels),
            *((f"judges.{name}.labels", judge.labels) for name, judge in self.judges.items()),
        ]:
            for raw, label in labels.items():
                self._check_label(place, raw, label)
        for name, judge in self.judges.items():
            for label in judge.classes or ():
                if label not in self.known_labels:
                    msg = f"judges.{name}.classes: {label!r} is not a class of this map"
                    raise ValueError(msg)
        self._check_translations()
        return self

    def _check_translations(self) -> None:
        if isinstance(self.intent, FromColumn):
            for raw, value in self.intent.values.items():
                if value not in set(Intent):
                    msg = f"intent.values.{raw}: {value!r} is not one of {', '.join(Intent)}"
                    raise ValueError(msg)
        if self.status is not None:
            for raw, value in self.status.values.items():
                if value != Status.OK and value not in set(Reason):
                    msg = f"status.values.{raw}: {value!r} is neither ok nor a known reason"
                    raise ValueError(msg)

    def _check_columns(self) -> None:
        for place, names in (("columns", self.columns), ("constants", self.constants)):
            for name in names:
                if name not in BY_NAME:
                    msg = f"{place}: {name!r} is not a column of the judgements table"
                    raise ValueError(msg)
        for name, value in self.constants.items():
            if name in _PER_ROW:
                msg = f"constants.{name}: it is read from each row and cannot be the same for all"
                raise ValueError(msg)
            if name in self.columns:
                msg = f"constants.{name}: it is taken from a column as well; keep one of the two"
                raise ValueError(msg)
            if BY_NAME[name].type == WHOLE and not value.isdecimal():
                msg = f"constants.{name}: {value!r} is not a whole number"
                raise ValueError(msg)
            if name == "intent" and value not in set(Intent):
                msg = f"constants.intent: {value!r} is not one of {', '.join(Intent)}"
                raise ValueError(msg)

    def _check_label(self, place: str, raw: str, label: str) -> None:
        if label.startswith(MISSING_PREFIX):
            reason = label.removeprefix(MISSING_PREFIX)
            if reason not in set(Reason):
                msg = f"{place}.{raw}: {reason!r} is not one of {', '.join(Reason)}"
                raise ValueError(msg)
        elif label not in self.known_labels:
            msg = f"{place}.{raw}: {label!r} is not a class of this map"
            raise ValueError(msg)

    @property
    def known_labels(self) -> tuple[str, ...]:
        """Every class a label may be, inside the order and outside it."""
        return (*self.classes, *self.outside)

    def scale(self, judge: str) -> Scale:
        """What the map says about one judge."""
        return self.judges.get(judge) or self.judges.get("*") or Scale()

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that change with any entry of the map."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def judges_entry(scales: Mapping[str, Sequence[Scale]]) -> str:
    """The entry of a map that declares judges, with what is known of each and the rest left open.

    Parameters
    ----------
    scales
        Judge -> the scales that its sources declare for it.
    """
    judges = [
        f"{json.dumps(judge, ensure_ascii=False)}: {{{_open_scale(stated)}}}"
        for judge, stated in scales.items()
    ]
    entry = f"judges: {{{', '.join(judges)}}}"
    return f"{entry}, with safer or worse for WHICH" if "higher_is: WHICH" in entry else entry


def _open_scale(scales: Sequence[Scale]) -> str:
    parts = []
    for name, unknown in (("scale_min", "LOW"), ("scale_max", "HIGH"), ("higher_is", "WHICH")):
        stated = {getattr(scale, name) for scale in scales} - {None}
        if len(stated) == 1:
            value = stated.pop()
            parts.append(f"{name}: {value if isinstance(value, str) else format(value, 'g')}")
        elif stated or name == "higher_is":
            parts.append(f"{name}: {unknown}")
    return ", ".join(parts)


_INNER: Final[Mapping[str, type[_Strict]]] = {"judges": Scale, "limits": Limits}


def read_map(path: str | Path) -> EvidenceMap:
    """Read a map from a YAML file.

    Raises
    ------
    InputError
        Where the file cannot be read, is not YAML, or holds an entry that a map does not know.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = yaml.load(text, Loader=PlainLoader)  # noqa: S506 - a SafeLoader with fewer types
    except OSError as error:
        raise InputError(f"cannot read the map ({error.strerror})", file=str(path)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"the map is not readable YAML ({said})", file=str(path)) from error
    return make_map(content or {}, file=str(path))


def make_map(content: Mapping[str, Any] | EvidenceMap, *, file: str | None = None) -> EvidenceMap:
    """Build a map from a mapping with the same entries as the YAML file.

    Raises
    ------
    InputError
        Naming the first entry that is wrong.
    """
    if isinstance(content, EvidenceMap):
        return content
    if not isinstance(content, Mapping):
        raise InputError("a map is a mapping of entries", file=file, fix="see docs/evidence.md")
    try:
        return EvidenceMap.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise InputError(
                f"map entry {place}: there is no such entry",
                file=file,
                fix=f"the entries here are {', '.join(_entries(first['loc'][:-1]))}",
            ) from error
        said = first["msg"].removeprefix("Value error, ")
        raise InputError(
            f"map entry {place}: {said}" if place else f"map: {said}", file=file
        ) from error


def _entries(place: Sequence[int | str]) -> list[str]:
    """The entries that a map knows at a place."""
    model: type[_Strict] = FromColumn
    if not place:
        model = EvidenceMap
    elif place[0] in _INNER:
        model = _INNER[str(place[0])]
    return list(model.model_fields)
