"""What an audit of a construct is made of: responses, under one judge and under each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.matrix import ResponseMatrix
from safemetry.evidence.success import SuccessRule
from safemetry.irt.reading import read_responses
from safemetry.irt.responses import Responses


def read_audited(
    data: Any,
    evidence_map: EvidenceMap | Mapping[str, Any] | None,
    success: SuccessRule | str | None,
    judge: str | None,
) -> tuple[Responses, dict[str, Responses], dict[str, str] | None, tuple[str, ...]]:
    """The responses, those under each judge, the benchmarks of the items, and warnings."""
    read = read_responses(data, evidence_map=evidence_map, success=success, judge=judge)
    others = _by_each_judge(read.evidence, success) if read.evidence is not None else {}
    benchmarks = None if read.matrix is None else _benchmarks(read.matrix)
    return read.responses, others, benchmarks, read.warnings


def _benchmarks(matrix: ResponseMatrix) -> dict[str, str] | None:
    pairs = zip(matrix.items, matrix.benchmarks, strict=True)
    found = {item: name for item, name in pairs if name is not None}
    return found if len(set(found.values())) > 1 else None


def _by_each_judge(evidence: Evidence, success: SuccessRule | str | None) -> dict[str, Responses]:
    """The outcomes under every judge that has any, where there are several; none of them votes."""
    if len(evidence.instruments) < 2:
        return {}
    rule = SuccessRule.parse(success) if success else evidence.default_rule
    alone = SuccessRule(rule.boundary)
    found = {}
    for name in sorted(evidence.instruments):
        try:
            found[name] = read_responses(evidence, success=alone, judge=name).responses
        except InputError:  # it gave no verdict that this rule can read
            continue
    return found if len(found) > 1 else {}


def left_out(responses: Responses, held: Responses) -> list[str]:
    """A sentence for items that tell nobody apart, and for targets without a response."""
    said = []
    silent = int((~responses.observed.any(axis=0)).sum())
    alike = len(responses.items) - len(held.items) - silent
    for count, why in ((alike, "every target responded alike"), (silent, "no target responded")):
        if count:
            verb = "item was" if count == 1 else "items were"
            said.append(f"{count:,} {verb} left out of all fits: {why}.")
    silent_rows = np.flatnonzero((~responses.observed).all(axis=1)).tolist()
    empty = [responses.targets[row] for row in silent_rows]
    if empty:
        said.append(f"No response of {', '.join(empty[:6])}{', ...' if len(empty) > 6 else ''}.")
    return said
