"""What an audit of a construct is made of: responses, under one judge and under each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.matrix import ResponseMatrix, response_matrix
from safemetry.evidence.success import SuccessRule
from safemetry.irt.parameters import BoolArray
from safemetry.irt.responses import Responses, make_responses


def read_responses(
    data: Any,
    evidence_map: EvidenceMap | Mapping[str, Any] | None,
    success: SuccessRule | str | None,
    judge: str | None,
) -> tuple[Responses, dict[str, Responses], dict[str, str] | None, tuple[str, ...]]:
    """The responses, those under each judge, the benchmarks of the items, and warnings."""
    if isinstance(data, Responses):
        return data, {}, None, ()
    if isinstance(data, ResponseMatrix):
        return _responses(data), {}, _benchmarks(data), data.warnings
    evidence = as_evidence(data, evidence_map)
    matrix = response_matrix(evidence, success=success, judge=judge)
    others = _by_each_judge(evidence, success)
    return _responses(matrix), others, _benchmarks(matrix), matrix.warnings


def _responses(matrix: ResponseMatrix) -> Responses:
    return make_responses(matrix.outcomes, targets=matrix.targets, items=matrix.items)


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
            found[name] = _responses(response_matrix(evidence, success=alone, judge=name))
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


def varying_items(responses: Responses) -> BoolArray:
    """Where some target responded 1 and some 0, shape ``(J,)``."""
    found: BoolArray = (responses.codes == 1).any(axis=0) & (responses.codes == 0).any(axis=0)
    return found
