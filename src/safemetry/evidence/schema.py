"""The judgements table: its columns, their types, and the words that cells may hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 1
"""Version of the study layout and of the JSON results."""


class Intent(StrEnum):
    """What a prompt asks for; an item has one intent."""

    HARMFUL = "harmful"
    BENIGN = "benign"
    CONTESTED = "contested"


class Status(StrEnum):
    """Whether a judge call gave a verdict."""

    OK = "ok"
    MISSING = "missing"
    ERROR = "error"


class Reason(StrEnum):
    """Why there is no verdict. The first five are Inspect's words for an unscored sample."""

    INVALID_RESPONSE_FORMAT = "invalid_response_format"
    REFUSAL = "refusal"
    NO_RESPONSE = "no_response"
    GRADER_FAILED = "grader_failed"
    SCORING_FAILED = "scoring_failed"
    NOT_ATTEMPTED = "not_attempted"
    BLOCKED_BY_FILTER = "blocked_by_filter"
    INFRASTRUCTURE_ERROR = "infrastructure_error"
    OUT_OF_SCALE = "out_of_scale"
    INVALIDATED = "invalidated"


UNSTATED: Final = "unstated"
"""Key under which missing verdicts are counted whose source gives no reason."""

TIED: Final = "tied"
"""Key under which responses are counted whose repeated calls or judges split evenly."""

CLASSES: Final = ("refuse", "evasive", "comply")
"""Default class order, from least to most compliant."""

OUTSIDE: Final = ("gibberish",)
"""Default classes outside the order: judged, but neither refused nor complied."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the judgements table, as data."""

    name: str
    type: pa.DataType
    default: object = None
    required: bool = False


TEXT = pa.string()
WHOLE = pa.int64()
REAL = pa.float64()

KEY_COLUMNS: Final = (
    Column("run", TEXT),
    Column("target", TEXT, required=True),
    Column("item", TEXT, required=True),
    Column("epoch", WHOLE, default=1),
    Column("judge", TEXT, default="judge"),
    Column("call", WHOLE, default=1),
)
VERDICT_COLUMNS: Final = (
    Column("label", TEXT),
    Column("score", REAL),
    Column("status", TEXT, default="ok"),
    Column("reason", TEXT),
)
ITEM_COLUMNS: Final = (
    Column("benchmark", TEXT),
    Column("category", TEXT),
    Column("attack", TEXT),
    Column("behaviour", TEXT),
    Column("pair", TEXT),
    Column("intent", TEXT),
    Column("language", TEXT),
)
RESPONSE_COLUMNS: Final = (
    Column("session", TEXT),
    Column("turn", WHOLE),
    Column("user_type", TEXT),
    Column("timestamp", TEXT),
)
TARGET_COLUMNS: Final = (Column("developer", TEXT), Column("access", TEXT))
SOURCE_COLUMNS: Final = (Column("source_file", TEXT), Column("source_row", WHOLE))

COLUMNS: Final = (
    *KEY_COLUMNS,
    *VERDICT_COLUMNS,
    *ITEM_COLUMNS,
    *RESPONSE_COLUMNS,
    *TARGET_COLUMNS,
    *SOURCE_COLUMNS,
)
"""Every column of the tidy judgements table, in order."""

KEY: Final = tuple(column.name for column in KEY_COLUMNS)
RESPONSE_KEY: Final = ("run", "target", "item", "epoch")
NAMES: Final = tuple(column.name for column in COLUMNS)
BY_NAME: Final = {column.name: column for column in COLUMNS}
JUDGEMENTS: Final = pa.schema([pa.field(column.name, column.type) for column in COLUMNS])
"""Arrow schema of the tidy judgements table."""
