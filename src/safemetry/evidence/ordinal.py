"""The response matrix with ordered outcomes: how much of the reward a response earned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, as_evidence, groups
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.matrix import MISSING_CELL, ResponseMatrix, response_matrix
from safemetry.evidence.success import Aggregation, SuccessRule

MOST_LEVELS: Final = 11
_CLASS_BOUNDARIES: Final = ("comply", "non_refusal")


def ordinal_matrix(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    judge: str | None = None,
    aggregation: Aggregation = Aggregation.EACH,
) -> ResponseMatrix:
    """Ordered outcomes of every target on every item, for graded response models.

    The outcome is the number of boundaries at which the response earns its reward: between classes
    these are `comply` and `non_refusal`, so that on a harmful item refuse is 2, evasive 1 and
    comply 0, and on a benign one the other way round; for a score there is one between each pair of
    neighbouring levels. With two levels it is the outcome of `response_matrix`.

    Parameters
    ----------
    data
        Evidence or a table.
    evidence_map
        A map, or a mapping with its entries.
    judge
        The judge whose verdicts count; needed where there are several and they do not vote.
    aggregation
        How several judges become one.

    Raises
    ------
    InputError
        Where several judges are left, a score has one level or more than 11, or no cell has an
        outcome.
    """
    evidence = as_evidence(data, evidence_map)
    if judge is not None:
        evidence = evidence.filter(judge=judge)
    matrices = [
        response_matrix(evidence, success=SuccessRule(boundary, aggregation))
        for boundary in _boundaries(evidence)
    ]
    first = matrices[0]
    outcomes = np.sum([matrix.outcomes for matrix in matrices], axis=0, dtype=np.int8)
    missing = np.any([matrix.outcomes == MISSING_CELL for matrix in matrices], axis=0)
    return replace(
        first,
        outcomes=np.where(missing, np.int8(MISSING_CELL), outcomes),
        warnings=tuple(dict.fromkeys(said for matrix in matrices for said in matrix.warnings)),
    )


def _boundaries(evidence: Evidence) -> tuple[str, ...]:
    if any(instrument.labels for instrument in evidence.instruments.values()):
        return _CLASS_BOUNDARIES
    levels = sorted(
        level
        for level in groups(evidence.rows, ["score"])["score"].to_pylist()
        if level is not None
    )
    if not 2 <= len(levels) <= MOST_LEVELS:
        raise InputError(
            f"the score has {len(levels):,} levels, and ordered outcomes need 2 to {MOST_LEVELS}",
            fix="choose a threshold with --success at_least:x and a model for two outcomes",
        )
    return tuple(f"at_least:{level!r}" for level in levels[1:])
