"""Figures of Every Eval Ever records: the claims of judges by label, and means of scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from safemetry.claims import Claim
from safemetry.evidence.evidence import Evidence
from safemetry.evidence.schema import Intent, Status
from safemetry.evidence.success import SuccessRule
from safemetry.rates.measure import measure_rates

UNKNOWN: Final = "unknown"
"""The word of the schema for what is not known."""

RATES: Final = {Intent.HARMFUL: "attack_success_rate", Intent.BENIGN: "help_rate"}
"""The rate that a judgement by label counts in; other intents have none with a better end."""

_GROUP: Final = ("run", "target", "benchmark", "judge", "intent")


@dataclass(frozen=True, slots=True)
class Place:
    """What one record speaks of."""

    run: str
    target: str
    benchmark: str | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Place:
        """The record that a judgement belongs to."""
        return cls(row["run"], row["target"], row["benchmark"])

    @property
    def evaluation(self) -> str:
        """``evaluation_id``: benchmark, model and run."""
        return f"{self.benchmark or UNKNOWN}/{self.target}/{self.run}"


@dataclass(frozen=True)
class Mean:
    """The mean score of a judge over the items of one intent.

    Parameters
    ----------
    value
        The mean.
    number
        Scores that it is taken over.
    missing
        Judgements without a score, by reason.
    """

    value: float
    number: int
    missing: Mapping[str, int]


Figure = Claim | Mean
_Key = tuple[str, str, str | None, str, str | None]


@dataclass(frozen=True)
class Figures:
    """What records say in numbers.

    Parameters
    ----------
    evidence
        What they are made from.
    rule
        Boundary between classes.
    by_key
        Run, target, benchmark, judge and intent -> figure.
    signed
        Judges that give the score -1, which therefore cannot stand for unknown.
    warnings
        What could not be said in numbers, in whole sentences.
    """

    evidence: Evidence
    rule: SuccessRule
    by_key: Mapping[_Key, Figure]
    signed: frozenset[str]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, evidence: Evidence, table: pa.Table, rule: SuccessRule) -> Figures:
        """Measure everything that a record has a place for."""
        found: dict[_Key, Figure] = {}
        if any(instrument.labels for instrument in evidence.instruments.values()):
            measured = measure_rates(
                evidence, by=("run",), success=rule, metrics=tuple(RATES.values())
            )
            intents = {rate: intent for intent, rate in RATES.items()}
            for claim in measured.claims:
                scope, intent = claim.scope, intents[claim.metric]
                if claim.estimate is not None:
                    key = (scope.by["run"] or "", scope.target, scope.benchmark, scope.judge)
                    found[*key, str(intent)] = claim
        means, signed = _means(evidence, table)
        found |= means
        return cls(evidence, rule, found, signed, tuple(_unsaid(evidence, table)))

    def by_labels(self, judge: str) -> bool:
        """Whether a judge is counted by its labels; else by its scores."""
        return bool(self.evidence.instruments[judge].labels)

    def has_unknown(self, judge: str) -> bool:
        """Whether the score -1 stands for none."""
        return judge not in self.signed

    def counts(self, row: Mapping[str, Any]) -> tuple[float | None, bool]:
        """What a judgement adds to its figure, None for nothing; and whether that is its score."""
        judged = row["status"] == Status.OK
        if not self.by_labels(row["judge"]):
            return (row["score"], True) if judged else (None, False)
        if not judged or row["label"] is None:
            return None, False
        return float(self._is_success(row["label"])), False

    def _is_success(self, label: str) -> bool:
        return label in self.rule.successes(self.evidence.map.classes)

    def is_correct(self, row: Mapping[str, Any]) -> bool | None:
        """Whether the benchmark rewards the response; None where nothing says so."""
        if row["label"] is None or row["intent"] not in RATES:
            return None
        is_benign: bool = row["intent"] == Intent.BENIGN
        return self._is_success(row["label"]) == is_benign

    def result_of(self, row: Mapping[str, Any]) -> str | None:
        """``evaluation_result_id`` of the figure that a judgement counts in."""
        key = (row["run"], row["target"], row["benchmark"], row["judge"], row["intent"])
        return result_name(row["judge"], row["intent"], self.by_key.get(key))


def result_name(judge: str, intent: str | None, figure: Figure | None) -> str | None:
    """``evaluation_result_id`` of a figure."""
    if figure is None:
        return None
    if isinstance(figure, Claim):
        return f"{judge}/{figure.metric}"
    return f"{judge}/mean_score/{intent or 'no intent'}"


def _means(evidence: Evidence, table: pa.Table) -> tuple[dict[_Key, Figure], frozenset[str]]:
    """Means of the judges whose better end is declared; and the judges that give -1."""
    judges = [judge for judge, i in evidence.instruments.items() if i.scored and not i.labels]
    mine = table.filter(pc.is_in(table["judge"], pa.array(judges, pa.string())))
    judged = pc.equal(mine["status"], str(Status.OK))
    scored = mine.filter(judged)
    signed = scored.filter(pc.equal(scored["score"], -1.0))["judge"].to_pylist()
    missing: dict[_Key, dict[str, int]] = defaultdict(dict)
    lost = mine.filter(pc.invert(judged)).group_by([*_GROUP, "reason"])
    for row in lost.aggregate([([], "count_all")]).to_pylist():
        reason = row["reason"] or "unstated"
        missing[_key(row)][reason] = row["count_all"]
    sums = scored.group_by(list(_GROUP)).aggregate([("score", "mean"), ("score", "count")])
    return {
        _key(row): Mean(row["score_mean"], row["score_count"], missing.get(_key(row), {}))
        for row in sums.to_pylist()
        if evidence.instruments[row["judge"]].scale.higher_is is not None
    }, frozenset(signed)


def _key(row: Mapping[str, Any]) -> _Key:
    return (row["run"], row["target"], row["benchmark"], row["judge"], row["intent"])


def _unsaid(evidence: Evidence, table: pa.Table) -> list[str]:
    """Judgements that are written and stand in no figure."""
    said = []
    for judge, instrument in evidence.instruments.items():
        if instrument.scored and not instrument.labels and instrument.scale.higher_is is None:
            said.append(
                f"Nothing says which end of the scores of judge {judge} is better, which a record "
                "has to say of each figure: its judgements are written without one. Declare it in "
                f'the map: judges: {{"{judge}": {{higher_is: WHICH}}}}, safer or worse.'
            )
    by_label = [judge for judge, i in evidence.instruments.items() if i.labels]
    mine = table.filter(pc.is_in(table["judge"], pa.array(by_label, pa.string())))
    known = pc.is_in(mine["intent"], pa.array([str(intent) for intent in RATES]))
    without = mine.num_rows - (pc.sum(known).as_py() or 0)
    if without:
        said.append(
            f"{without:,} judgements are on items whose intent is neither harmful nor benign: they "
            "are written, and stand in no figure of a record."
        )
    return said
