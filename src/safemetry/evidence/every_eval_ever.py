"""Every Eval Ever: the words of the format that reading and writing share.

The format keeps an aggregate record and, beside it, one line for each sample and metric. What it
has no field for, and what this package keeps, stands in free text fields under the names here.
"""

from __future__ import annotations

from typing import Final

from safemetry.evidence.schema import (
    ITEM_COLUMNS,
    KEY_COLUMNS,
    RESPONSE_COLUMNS,
    TARGET_COLUMNS,
    VERDICT_COLUMNS,
)

SCHEMA_VERSION: Final = "0.3.0"
"""The version that is written."""

RECORD_VERSIONS: Final = ("0.2.0", "0.2.1", "0.2.2", "0.3.0")
LINE_VERSIONS: Final = ("0.2.1", "0.2.2", "0.3.0")
"""The versions that are read, of records and of lines; 0.3 is only stricter about records."""

INSTANCE_PREFIX: Final = "instance_level_eval_"
"""What lines of 0.2 may write before the version."""

UNKNOWN_SCORE: Final = -1.0
"""The score that stands for none, where the metric says that it has an unknown level."""

EXPORTED: Final = "safemetry_export"
"""Key in the metadata of a line that this package wrote; its value is the version below."""

EXPORT_VERSION: Final = "1"

SCORE: Final = "score"
"""Key in the metadata of such a line whose `evaluation.score` is not the score of the judge."""

KEPT: Final = tuple(
    column
    for column in (
        *KEY_COLUMNS,
        *VERDICT_COLUMNS,
        *ITEM_COLUMNS,
        *RESPONSE_COLUMNS,
        *TARGET_COLUMNS,
    )
    if column.name not in {"target", "item", "score"}
)
"""Columns of a judgement that stand in the metadata of such a line, each under its name."""

JUDGES: Final = "safemetry_judges"
"""Key in the details of `eval_library`: JSON with the scales and identities of the judges."""

CLASSES: Final = "safemetry_classes"
"""Key in the same place: JSON with the class order and the classes outside it."""

RULE: Final = "safemetry_default_rule"
"""Key in the same place: the success rule where the user names none."""

SETTINGS: Final = "safemetry_settings"
"""Key in the details of `model_info`: JSON with the settings of the target."""
