"""The response matrix: targets x items of outcomes, the input of everything psychometric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.evidence import Evidence, as_evidence
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.outcomes import refuse_duplicates, responses
from safemetry.evidence.schema import Intent
from safemetry.evidence.success import SuccessRule

if TYPE_CHECKING:
    from numpy.typing import NDArray

MISSING_CELL: Final = -1
FLIP_CORRELATION: Final = -0.3
"""A benchmark whose scores correlate with the rest (benign ones left out) below this runs against
it."""


@dataclass(frozen=True)
class ResponseMatrix:
    """Outcomes of targets on items.

    Parameters
    ----------
    outcomes
        Shape ``(targets, items)``, int8: 1 the response that the benchmark rewards, 0 not, -1
        missing.
    targets
        Names of the rows, sorted.
    items
        Ids of the columns, sorted.
    benchmarks, intents
        Of each item, None where unknown.
    warnings
        Benchmarks that run against the rest, and what was left out.
    """

    outcomes: NDArray[np.int8]
    targets: tuple[str, ...]
    items: tuple[str, ...]
    benchmarks: tuple[str | None, ...]
    intents: tuple[str | None, ...]
    warnings: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Number of cells without an outcome."""
        return int((self.outcomes == MISSING_CELL).sum())

    def masked(self) -> np.ma.MaskedArray[Any, np.dtype[np.int8]]:
        """The outcomes with missing cells masked."""
        return np.ma.masked_equal(self.outcomes, MISSING_CELL)

    def to_frame(self) -> pa.Table:
        """A wide table: a column ``target``, then one column per item, missing cells null."""
        columns = {"target": pa.array(self.targets)}
        for index, item in enumerate(self.items):
            values = self.outcomes[:, index]
            columns[item] = pa.array(values, mask=values == MISSING_CELL)
        return pa.table(columns)


def response_matrix(
    data: Any,
    *,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    success: SuccessRule | str | None = None,
    judge: str | None = None,
) -> ResponseMatrix:
    """Outcomes of every target on every item, with missing cells.

    The outcome is derived, never read: from the label and the intent of the item, or from a score
    whose direction is declared. Several responses of a target to an item count by majority; an even
    split is missing. Contested items and items of unknown intent with labels have no outcome.

    Parameters
    ----------
    data
        Evidence or a table.
    evidence_map
        A map, or a mapping with its entries.
    success
        Success rule; the default of the evidence where None.
    judge
        The judge whose verdicts count; needed where there are several and the rule does not
        aggregate them.

    Raises
    ------
    InputError
        Where several judges are left, or no cell has an outcome.
    """
    evidence = as_evidence(data, evidence_map)
    if judge is not None:
        evidence = evidence.filter(judge=judge)
    rule = SuccessRule.parse(success) if success else evidence.default_rule
    table, warnings = _outcome_counts(evidence, rule)
    judges = sorted(set(table["judge"].to_pylist()))
    if len(judges) > 1:
        raise InputError(
            f"there are {len(judges)} judges ({', '.join(judges[:6])})",
            fix="choose one with --judge, or let them vote with --success "
            f"{rule.boundary}/majority",
        )
    known = table.filter(pa.compute.greater(table["outcomes"], 0))
    if not known.num_rows:
        raise InputError(
            "no response has an outcome",
            fix="say what the items ask for in the map (intent: harmful, or a column)",
        )
    matrix = _filled(known, tuple(warnings))
    return _with_flip_warning(matrix)


def _outcome_counts(evidence: Evidence, rule: SuccessRule) -> tuple[pa.Table, list[str]]:
    """Judged responses and rewarded ones per target, item and judge."""
    frame, warnings = responses(evidence, rule, ("benchmark", "intent"))
    intent = nw.col("intent")
    success = nw.col("success") * nw.col("judged")
    held = nw.col("judged") - success
    if rule.threshold is None:
        rewarded = (
            nw.when(intent == Intent.HARMFUL)
            .then(held)
            .otherwise(nw.when(intent == Intent.BENIGN).then(success).otherwise(None))
        )
    else:
        # Under `at_least` a success lies on the worse side of the score, whatever the intent.
        contested = (intent == Intent.CONTESTED).fill_null(value=False)
        rewarded = nw.when(contested).then(None).otherwise(held)
    table = (
        frame.with_columns(
            rewarded.cast(nw.Int64).alias("rewarded"),
            # A sum over nulls alone is 0 on some engines, so say apart where an outcome exists.
            (~rewarded.is_null()).cast(nw.Int64).alias("outcomes"),
            nw.col("irregular").cast(nw.Int64).alias("irregular"),
        )
        .group_by("benchmark", "target", "item", "judge", "intent", drop_null_keys=False)
        .agg(
            nw.col("judged").sum().cast(nw.Int64).alias("judged"),
            nw.col("rewarded").sum().cast(nw.Int64).alias("rewarded"),
            nw.col("outcomes").sum().cast(nw.Int64).alias("outcomes"),
            nw.col("irregular").sum().cast(nw.Int64).alias("irregular"),
        )
        .collect("pyarrow")
        .to_arrow()
    )
    if sum(table["irregular"].to_pylist()):
        refuse_duplicates(evidence)
    return table, [*evidence.warnings, *warnings]


def _filled(table: pa.Table, warnings: tuple[str, ...]) -> ResponseMatrix:
    benchmarks = table["benchmark"].to_pylist()
    several = len(set(benchmarks)) > 1
    ids = [
        f"{benchmark}:{item}" if several and benchmark else item
        for benchmark, item in zip(benchmarks, table["item"].to_pylist(), strict=True)
    ]
    targets, rows = np.unique(table["target"].to_pylist(), return_inverse=True)
    items, first, columns = np.unique(ids, return_index=True, return_inverse=True)
    judged, rewarded = np.zeros((2, len(targets), len(items)), dtype=np.int64)
    np.add.at(judged, (rows, columns), table["judged"].to_numpy())
    np.add.at(rewarded, (rows, columns), table["rewarded"].to_numpy())
    outcomes = np.where(2 * rewarded > judged, 1, 0).astype(np.int8)
    outcomes[(judged == 0) | (2 * rewarded == judged)] = MISSING_CELL
    intents = table["intent"].to_pylist()
    return ResponseMatrix(
        outcomes,
        tuple(map(str, targets)),
        tuple(map(str, items)),
        tuple(benchmarks[index] for index in first),
        tuple(intents[index] for index in first),
        warnings,
    )


def _with_flip_warning(matrix: ResponseMatrix) -> ResponseMatrix:
    """Warn of benchmarks whose scores run against the others that are not benign.

    A benign benchmark that does so trades safety against usefulness; it is not called flipped, and
    it is no evidence that a safety benchmark is.
    """
    names = sorted({name for name in matrix.benchmarks if name is not None})
    if len(names) < 2 or len(matrix.targets) < 5:
        return matrix
    of_item = np.array(matrix.benchmarks, dtype=object)
    scores = np.ma.stack(
        [matrix.masked()[:, of_item == name].mean(axis=1) for name in names], axis=1
    ).filled(np.nan)
    usable = scores[~np.isnan(scores).any(axis=1)]
    if len(usable) < 5:
        return matrix
    warnings = list(matrix.warnings)
    asked = list(zip(matrix.intents, matrix.benchmarks, strict=True))
    benign = [{intent for intent, of in asked if of == name} == {Intent.BENIGN} for name in names]
    for index, name in enumerate(names):
        others = [i for i in range(len(names)) if i != index and not benign[i]]
        if not others:
            continue
        own, rest = usable[:, index], usable[:, others].mean(axis=1)
        if own.std() == 0 or rest.std() == 0:
            continue
        correlation = float(np.corrcoef(own, rest)[0, 1])
        if correlation < FLIP_CORRELATION:
            said = (
                "safety traded for usefulness, as over-refusal sets do"
                if benign[index]
                else "check whether its score or labels are flipped"
            )
            warnings.append(
                f"Benchmark {name} runs against the rest (correlation {correlation:.2f} over "
                f"{len(usable)} targets): {said}."
            )
    return ResponseMatrix(
        matrix.outcomes,
        matrix.targets,
        matrix.items,
        matrix.benchmarks,
        matrix.intents,
        tuple(warnings),
    )
