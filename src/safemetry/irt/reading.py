"""From evidence, a matrix or a table to the responses that the engine reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.matrix import ResponseMatrix, response_matrix
from safemetry.evidence.ordinal import ordinal_matrix
from safemetry.evidence.success import SuccessRule
from safemetry.irt.responses import Responses, make_responses


@dataclass(frozen=True)
class Reading:
    """Responses, and where they come from.

    Parameters
    ----------
    responses
        Of targets to items.
    evidence
        What they were read from; None where responses or a matrix were given.
    matrix
        The matrix with benchmarks and intents; None where responses were given.
    warnings
        What was left out, or runs against the rest.
    """

    responses: Responses
    evidence: Evidence | None
    matrix: ResponseMatrix | None
    warnings: tuple[str, ...]


def read_responses(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    judge: str | None = None,
    graded: bool = False,
) -> Reading:
    """The responses of data of any kind.

    Parameters
    ----------
    data
        `Responses`, a `ResponseMatrix`, evidence, or a table with the columns of the judgements
        table.
    evidence_map
        A map, or a mapping with its entries.
    success, judge
        Which outcome counts, and whose verdict; see `response_matrix`.
    graded
        Whether the ordered outcomes of `ordinal_matrix` are taken, with no success rule but its
        aggregation.

    Raises
    ------
    InputError
        For data that cannot be used.
    """
    if isinstance(data, Responses):
        return Reading(data, None, None, ())
    evidence = None
    if not isinstance(data, ResponseMatrix):
        evidence = as_evidence(data, evidence_map)
        if graded:
            rule = SuccessRule.parse(success) if success else evidence.default_rule
            data = ordinal_matrix(evidence, judge=judge, aggregation=rule.aggregation)
        else:
            data = response_matrix(evidence, success=success, judge=judge)
    named = make_responses(data.outcomes, targets=data.targets, items=data.items)
    return Reading(named, evidence, data, (*data.warnings, *_without_outcome(evidence, data)))


def _without_outcome(evidence: Evidence | None, matrix: ResponseMatrix) -> list[str]:
    """A sentence for items that have no outcome."""
    if evidence is None:
        return []
    known = len(set(evidence.items["item"].to_pylist()))
    lost = known - len(matrix.items)
    if lost <= 0:
        return []
    return [
        (
            f"{lost:,} of {known:,} items have no outcome (contested, of unknown intent, or never "
            "judged) and are left out."
        )
    ]
