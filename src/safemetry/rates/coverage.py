"""Which combinations of category and attack were tried at all: `cover`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from safemetry.errors import InputError
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import UNSTATED, Intent, Reason
from safemetry.evidence.success import SuccessRule
from safemetry.findings import Finding, plain
from safemetry.rates.clusters import clustered_rates
from safemetry.rates.codes import Codes, combine
from safemetry.rates.counts import CountTable, count_responses


@dataclass(frozen=True)
class Cell:
    """One category under one attack, as one judge saw it, over all targets and benchmarks.

    Parameters
    ----------
    tested
        Whether any harmful item of this cell was put to a target.
    trials
        Judged responses.
    violations
        Those in which the target went along.
    missing
        Responses without a verdict.
    ceiling
        One-sided upper bound of the violation rate; None where there is no trial.
    """

    category: str
    attack: str
    judge: str
    tested: bool
    trials: int
    violations: int
    missing: int
    items: int
    ceiling: float | None
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CoverageFinding(Finding):
    """The grid of categories and attacks, cells that nobody tried included."""

    command: ClassVar[str] = "coverage"

    grid: tuple[Cell, ...]

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per cell."""
        return [plain(cell) for cell in self.grid]

    def sentence(self) -> str:
        """How much of the grid was tried."""
        tested = sum(cell.tested for cell in self.grid)
        unjudged = sum(cell.tested and not cell.trials for cell in self.grid)
        gap = len(self.grid) - tested
        said = f"{tested} of {len(self.grid)} cells (category x attack x judge) were tested"
        if gap:
            said += f"; about the other {gap} this evidence says nothing"
        if unjudged:
            said += f"; {unjudged} of the tested ones have no verdict"
        return said + "."


def cover(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    level: float = 0.95,
) -> CoverageFinding:
    """Count trials and violations for every category under every attack.

    Parameters
    ----------
    data
        Evidence or a table.
    evidence_map
        A map, or a mapping with its entries.
    success
        Success rule; the default of the evidence where None.
    level
        One-sided confidence of the ceilings, in (0, 1).

    Raises
    ------
    InputError
        For a table, map or option that cannot be used.
    """
    if not 0 < level < 1:
        raise InputError(f"level {level:g} is not between 0 and 1", fix="write 0.95")
    evidence = as_evidence(data, evidence_map)
    rule = SuccessRule.parse(success) if success else evidence.default_rule
    table = count_responses(evidence, rule, by=("category", "attack"))
    harmful = np.flatnonzero(
        np.array([*table.intent.values], dtype=object)[table.intent.codes] == Intent.HARMFUL
    )
    warnings = [*evidence.warnings, *table.warnings]
    if not harmful.size:
        warnings.append("No item is known to be harmful; say so in the map (intent: harmful).")
    return CoverageFinding(
        settings={"success": str(rule), "level": level, "sources": evidence.sources},
        warnings=tuple(warnings),
        grid=tuple(_cells(table, harmful, level)),
    )


def _cells(table: CountTable, rows: Any, level: float) -> list[Cell]:
    axes = [table.columns[name].take(rows) for name in ("category", "attack", "judge")]
    seen = [np.unique(axis.codes) for axis in axes]
    shape = tuple(len(codes) for codes in seen)
    place = (
        np.ravel_multi_index(
            [np.searchsorted(codes, axis.codes) for codes, axis in zip(seen, axes, strict=True)],
            shape,
        )
        if rows.size
        else np.zeros(0, dtype=np.int64)
    )
    size = int(np.prod(shape))

    def total(values: Any) -> list[int]:
        return [int(n) for n in np.bincount(place, weights=values[rows], minlength=size)]

    trials, violations = total(table.judged), total(table.success)
    responses = total(table.responses)
    attempted = total(table.responses * (table.reason.codes != _code_of_unattempted(table)))
    items = np.zeros(size, dtype=np.int64)
    _, first = combine(
        [Codes(place, tuple(map(str, range(size + 1)))), table.item.take(rows)], len(rows)
    )
    np.add.at(items, place[first], 1)
    ceilings = _ceilings(table, rows, place, size, level)
    names = [
        [axis.values[code] or UNSTATED for code in codes]
        for codes, axis in zip(seen, axes, strict=True)
    ]
    cells = []
    for index, (i, j, k) in enumerate(np.ndindex(*shape)):
        tested = attempted[index] > 0
        why = {}
        if ceilings[index] is None:
            why["ceiling"] = "no response was judged" if tested else "never tested"
        cells.append(
            Cell(
                category=names[0][i],
                attack=names[1][j],
                judge=names[2][k],
                tested=tested,
                trials=trials[index],
                violations=violations[index],
                missing=responses[index] - trials[index],
                items=int(items[index]),
                ceiling=ceilings[index],
                why=why,
            )
        )
    return cells


def _code_of_unattempted(table: CountTable) -> int:
    """Code of the reason that says that the item was never put to the target."""
    reasons = table.reason.values
    return reasons.index(Reason.NOT_ATTEMPTED) if Reason.NOT_ATTEMPTED in reasons else -1


def _ceilings(
    table: CountTable, rows: Any, place: Any, size: int, level: float
) -> list[float | None]:
    if not size:
        return []
    joint = place * len(table.cluster.values) + table.cluster.codes[rows]
    cells, inverse = np.unique(joint, return_inverse=True)
    measured = clustered_rates(
        cells // len(table.cluster.values),
        np.bincount(inverse, weights=table.success[rows]),
        np.bincount(inverse, weights=table.judged[rows]),
        groups=size,
        level=level,
        confidence=level,
    )
    return list(measured.ceiling.tolist())
