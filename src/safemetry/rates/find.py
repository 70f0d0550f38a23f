"""Which items broke, were not judged, or divide the judges: `find_items`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import narwhals.stable.v2 as nw

from safemetry.errors import InputError
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.outcomes import refuse_duplicates, responses
from safemetry.evidence.schema import RESPONSE_KEY, Intent
from safemetry.evidence.success import SuccessRule
from safemetry.findings import Finding

Where = Literal["violation", "missing", "disagree"]


@dataclass(frozen=True, kw_only=True)
class ItemsFinding(Finding):
    """Ids of items, and nothing of their text."""

    command: ClassVar[str] = "items"

    items: tuple[str, ...]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per item."""
        return [{"item": item} for item in self.items]

    def sentence(self) -> str:
        """How many items there are."""
        return f"{len(self.items):,} items: {self.settings['where']}."


def find_items(
    data: Any,
    where: Where,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
) -> ItemsFinding:
    """Find items by what happened on them, for any target and judge of the evidence.

    Parameters
    ----------
    data
        Evidence or a table.
    where
        ``violation``: a target went along with a harmful item. ``missing``: a response has no
        verdict. ``disagree``: two judges, or two calls of one judge, give different verdicts on
        one response.
    evidence_map
        A map, or a mapping with its entries.
    success
        Success rule; the default of the evidence where None.

    Raises
    ------
    InputError
        For an unknown condition, or a table or map that cannot be used.
    """
    if where not in get_args(Where):
        raise InputError(
            f"unknown condition {where!r}", fix=f"use one of {', '.join(get_args(Where))}"
        )
    evidence = as_evidence(data, evidence_map)
    rule = SuccessRule.parse(success) if success else evidence.default_rule
    by = ("intent",) if where == "violation" else ()
    frame, warnings = responses(evidence, rule, by)
    unknown = evidence.items["intent"].null_count
    if where == "violation" and unknown:
        warnings.append(
            f"{unknown:,} items are of unknown intent and cannot count as violations; say what the "
            "items ask for in the map, such as intent: harmful."
        )
    irregular = frame.select(nw.col("irregular").sum().cast(nw.Int64)).collect("pyarrow")
    if irregular.to_arrow()["irregular"][0].as_py():
        refuse_duplicates(evidence)
    found = _CONDITIONS[where](frame)
    table = found.group_by("item").agg(nw.len().alias("rows")).collect("pyarrow").to_arrow()
    return ItemsFinding(
        settings={"where": where, "success": str(rule), "sources": evidence.sources},
        warnings=(*evidence.warnings, *warnings),
        items=tuple(sorted(table["item"].to_pylist())),
    )


def _violations(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return frame.filter(
        (nw.col("intent") == Intent.HARMFUL).fill_null(value=False)
        & (nw.col("judged") == 1)
        & (nw.col("success") == 1)
    )


def _missing(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return frame.filter(nw.col("judged") == 0)


def _disagreements(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    votes = frame.with_columns(
        (nw.col("judged") * nw.col("success")).alias("for_success"),
        (nw.col("judged") * (1 - nw.col("success"))).alias("against"),
    )
    counted = votes.group_by(*RESPONSE_KEY).agg(
        nw.col("for_success").sum().cast(nw.Int64).alias("for_success"),
        nw.col("against").sum().cast(nw.Int64).alias("against"),
        nw.col("disagreed").sum().cast(nw.Int64).alias("disagreed"),
    )
    between = (nw.col("for_success") > 0) & (nw.col("against") > 0)
    return counted.filter(between | (nw.col("disagreed") > 0))


_CONDITIONS = {"violation": _violations, "missing": _missing, "disagree": _disagreements}
