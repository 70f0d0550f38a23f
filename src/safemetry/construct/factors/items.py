"""Responses to the items of several benchmarks, from evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.matrix import ResponseMatrix, response_matrix
from safemetry.evidence.ordinal import ordinal_matrix
from safemetry.evidence.success import SuccessRule
from safemetry.irt.responses import Responses, make_responses


@dataclass(frozen=True)
class ItemEvidence:
    """Responses, and the benchmark of each item.

    Parameters
    ----------
    responses
        Of N targets to J items.
    membership
        Benchmark of each item, length J.
    intents
        Benchmark -> the intent that all its items have, else None.
    warnings
        What was left out.
    """

    responses: Responses
    membership: tuple[str, ...]
    intents: Mapping[str, str | None]
    warnings: tuple[str, ...]

    def only(self, benchmarks: Sequence[str]) -> ItemEvidence:
        """The items of some benchmarks that tell targets apart."""
        wanted = set(benchmarks)
        chosen = self.responses.varies & np.array([name in wanted for name in self.membership])
        return ItemEvidence(
            self.responses.select_items(chosen),
            tuple(np.array(self.membership, dtype=object)[chosen]),
            self.intents,
            self.warnings,
        )


def item_evidence(
    data: Any,
    *,
    structure: Mapping[str, str] | None = None,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    judge: str | None = None,
) -> ItemEvidence:
    """Responses of every target to every item that belongs to a benchmark.

    Parameters
    ----------
    data
        Evidence, a table or a response matrix.
    structure
        Item -> its benchmark; without it the items say it themselves.
    evidence_map, success, judge
        As in `response_matrix`. Scores of more than two levels without a rule are ordered outcomes.

    Raises
    ------
    InputError
        Where no item has a benchmark.
    """
    matrix = data if isinstance(data, ResponseMatrix) else None
    if matrix is None:
        matrix = _matrix(as_evidence(data, evidence_map), success, judge)
    names = _membership(matrix, structure)
    kept = np.array([name is not None for name in names])
    if not kept.any():
        raise InputError(
            "no item names its benchmark",
            fix="name it with --structure COL or --structure FILE:COL, or give one source for each",
        )
    warnings = list(_without_flips(matrix.warnings))
    left = int((~kept).sum())
    if left:
        warnings.append(f"{left:,} of {len(names):,} items belong to no benchmark: left out.")
    chosen = np.flatnonzero(kept)
    responses = make_responses(
        matrix.outcomes[:, chosen],
        targets=matrix.targets,
        items=[matrix.items[place] for place in chosen],
    )
    membership = tuple(str(names[place]) for place in chosen)
    asked: dict[str, set[str | None]] = {}
    for place, name in zip(chosen, membership, strict=True):
        asked.setdefault(name, set()).add(matrix.intents[place])
    intents = {name: next(iter(held)) if len(held) == 1 else None for name, held in asked.items()}
    return ItemEvidence(responses, membership, intents, tuple(warnings))


def _matrix(
    evidence: Evidence, success: SuccessRule | str | None, judge: str | None
) -> ResponseMatrix:
    judges = [name for name in evidence.instruments if judge in {None, name}]
    labelled = any(evidence.instruments[name].labels for name in judges)
    if success is None and not labelled and evidence.default_rule.threshold is None:
        return ordinal_matrix(evidence, judge=judge)
    return response_matrix(evidence, success=success, judge=judge)


def _without_flips(warnings: Sequence[str]) -> list[str]:
    """The warnings of the matrix without those on signs, which `sign_coherence` looks at."""
    return [
        said
        for said in dict.fromkeys(warnings)
        if "runs against the rest" not in said and "say from which level on" not in said
    ]


def _membership(matrix: ResponseMatrix, structure: Mapping[str, str] | None) -> list[str | None]:
    if structure is None:
        return list(matrix.benchmarks)
    found = []
    for item, benchmark in zip(matrix.items, matrix.benchmarks, strict=True):
        # Where there are several benchmarks, an item carries the name of its own.
        own = item.removeprefix(f"{benchmark}:") if benchmark else item
        found.append(structure.get(item, structure.get(own)))
    return found
