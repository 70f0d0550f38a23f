"""The table of promptfoo results: tests by columns, and what their judges say of each."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, FromColumn, Scale
from safemetry.evidence.schema import BY_NAME, ITEM_COLUMNS, TEXT
from safemetry.evidence.success import SuccessRule
from safemetry.readers import promptfoo_result as result
from safemetry.readers.conversion import Conversion
from safemetry.readers.fields import counted, encodable
from safemetry.readers.mapped_fields import fields_by_column, refuse_unencodable, translated_fields
from safemetry.readers.promptfoo_assertions import (
    OVERALL,
    REDTEAM,
    REFUSAL_FLAG,
    Assertion,
    Verdict,
    assertions_of,
    outcome_behind,
    overall_verdict,
)
from safemetry.readers.promptfoo_file import (
    Header,
    not_promptfoo,
    total_warnings,
)
from safemetry.readers.promptfoo_result import Column
from safemetry.readers.source import Source, finite

_RULE: Final = SuccessRule("at_least:0.5")
_SAFER: Final = Scale(scale_min=0, scale_max=1, higher_is="safer")
_UNDECLARED: Final = Scale(scale_min=0, scale_max=1)
_MAPPED: Final = frozenset(
    {"target", "item", "session", "user_type", "developer", "access"}
    | {column.name for column in ITEM_COLUMNS}
)
"""Columns that the map may fill from a field of the result."""

_DESCRIBED: Final = ("category", "attack", "behaviour", "intent", "language")
_UNASSERTED: Final = "test without an assertion"
_PIECE: Final = 100_000


@dataclass(slots=True)
class _Row:
    """What is kept of a result."""

    row: int
    test: int
    column: Column
    item: str
    asserted: str
    context: Mapping[str, Any]
    labels: Sequence[str | None]
    judges: array[int]
    scores: array[float]
    outcomes: array[int]
    redteam: bool


@dataclass(slots=True)
class _Judge:
    """What is known of a judge from all results together."""

    shown: bool = False
    is_safe: bool = True
    types: set[str] = field(default_factory=set)
    rubrics: set[str | None] = field(default_factory=set)
    models: set[str | None] = field(default_factory=set)


class Table:
    """Collects results, and makes judgements of them when all are known."""

    def __init__(self, source: Source, evidence_map: EvidenceMap, header: Header) -> None:
        self._source = source
        self._map = evidence_map
        self._header = header
        self._asked = _asked(evidence_map, source)
        self._read = 0
        self._rows: list[_Row] = []
        self._judges: dict[str, int] = {}
        self._known: defaultdict[str, _Judge] = defaultdict(_Judge)
        self._combined = False
        self._failures: list[InputError] = []
        self._skipped: Counter[str] = Counter()
        self._said: Counter[str] = Counter()
        self._counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._seen: set[tuple[int, int]] = set()
        self._judgements = 0

    def add(self, line: int | None, entry: Any) -> None:
        """Take one result."""
        self._read += 1
        try:
            self._take(entry)
        except InputError as error:
            self._failures.append(
                InputError(
                    error.problem,
                    file=self._source.shown,
                    row=self._read,
                    line=line,
                    column=error.column,
                    fix=error.fix,
                )
            )
        if self._judgements > self._map.limits.rows:
            raise InputError(
                f"holds more than the limit of {self._map.limits.rows:,} judgements",
                file=self._source.shown,
                fix="raise limits.rows in the map if you trust the file",
            )

    def _take(self, entry: Any) -> None:
        if isinstance(entry, InputError):
            raise entry
        if not isinstance(entry, Mapping) or "success" not in entry:
            raise InputError("is no promptfoo result", fix="export it again, or remove it")
        test, column = result.whole(entry, "testIdx"), result.column_of(entry)
        if (test, column.index) in self._seen:
            raise InputError(
                f"test {test} in column {column.index} was read before",
                column="testIdx",
                fix="remove one of the two; promptfoo appends to its lines when it resumes",
            )
        assertions = assertions_of(entry)
        count, trouble = result.count_of(entry), result.trouble_of(entry)
        row = self._row(entry, test, column)
        if self._asked:
            self._judge_as_asked(row, entry, assertions, trouble)
        elif assertions:
            self._judge(row, entry, assertions, trouble)
        self._seen.add((test, column.index))
        self._counts[column.index][count] += 1
        if not row.judges:
            self._skipped[_UNASSERTED] += 1
            return
        self._judgements += len(row.judges)
        self._note(trouble, count, redteam=row.redteam)
        self._rows.append(row)

    def _row(self, entry: Mapping[str, Any], test: int, column: Column) -> _Row:
        context: dict[str, Any] = {
            "category": result.plugin_of(entry),
            "attack": result.strategy_of(entry),
            "behaviour": result.behaviour_of(entry),
            "language": result.language_of(entry),
        }
        context |= fields_by_column(entry, self._map, _MAPPED)
        context["intent"] = self._intent(entry, context)
        refuse_unencodable(context)
        return _Row(
            row=self._read,
            test=test,
            column=column,
            item=encodable(context.get("item") or result.item_of(entry), "item"),
            asserted=result.content_digest(result.test_of(entry).get("assert"))[:8],
            context=context,
            labels=[],
            judges=array("q"),
            scores=array("d"),
            outcomes=array("b"),
            redteam=False,
        )

    def _intent(self, entry: Mapping[str, Any], context: Mapping[str, Any]) -> str | None:
        asked = self._map.intent
        if isinstance(asked, FromColumn):
            return None  # the border translates it
        if asked is not None:
            return str(asked)
        stated = self._map.constants.get("intent") or context.get("intent")
        intent = result.intent_of(entry)
        return stated or (str(intent) if intent is not None else None)

    # --- verdicts -----------------------------------------------------------------------------

    def _judge(
        self,
        row: _Row,
        entry: Mapping[str, Any],
        assertions: Sequence[Assertion],
        trouble: int,
    ) -> None:
        row.redteam = any(assertion.judge == REDTEAM for assertion in assertions)
        overall = overall_verdict(entry, assertions)
        alone = len(assertions) == 1
        self._put(row, OVERALL, overall, trouble)
        for assertion in assertions:
            self._put(row, assertion.judge, assertion.verdict, trouble)
            self._learn(row, assertion)
            known = self._known[assertion.judge]
            agrees = alone and (trouble != result.OK or assertion.verdict == overall)
            known.shown |= not agrees or assertion.judge == REDTEAM
            self._combined |= row.redteam and not agrees
        safe = all(a.judge == REDTEAM or a.is_safe for a in assertions)
        self._known[OVERALL].is_safe &= row.redteam and safe
        flag = result.refusal_flag(entry)
        if flag is not None:
            self._put(row, REFUSAL_FLAG, Verdict(float(flag)), result.OK)
            self._known[REFUSAL_FLAG].is_safe = False
            self._known[REFUSAL_FLAG].shown = True

    def _learn(self, row: _Row, assertion: Assertion) -> None:
        known = self._known[assertion.judge]
        known.is_safe &= assertion.judge == REDTEAM or (row.redteam and assertion.is_safe)
        known.types.add(assertion.instrument.type)
        for seen, value in (
            (known.rubrics, assertion.instrument.rubric),
            (known.models, assertion.instrument.model),
        ):
            if len(seen) < 2:
                seen.add(value)

    def _put(
        self, row: _Row, judge: str, verdict: Verdict, trouble: int, label: str | None = None
    ) -> None:
        outcome = trouble if trouble != result.OK else verdict.outcome
        row.judges.append(self._judges.setdefault(judge, len(self._judges)))
        row.scores.append(verdict.score)
        row.outcomes.append(outcome)
        if self._asked:
            row.labels = [*row.labels, label if outcome == result.OK else None]
        self._said["grader failed"] += judge == OVERALL and outcome == result.GRADER_FAILED

    def _judge_as_asked(
        self, row: _Row, entry: Mapping[str, Any], assertions: Sequence[Assertion], trouble: int
    ) -> None:
        """The fields that the map names as judges: numbers are scores, other values labels."""
        for path, judge in self._asked.items():
            value: Any = entry
            for part in path.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            score = None if isinstance(value, bool) else finite(value)
            outcome = outcome_behind(path, entry, assertions)
            label = None
            if isinstance(value, bool) or (isinstance(value, str) and value.strip()):
                label = encodable(str(value), path)
            elif score is None and outcome == result.OK:
                outcome = result.SCORING_FAILED
            self._put(row, judge, Verdict(score or 0.0, outcome), trouble, label)
            self._known[judge].shown = True

    def _note(self, trouble: int, count: str, *, redteam: bool) -> None:
        if trouble == result.NO_RESPONSE:
            self._said["empty, passed" if count == "passed" else "empty"] += 1
        self._said["redteam"] += redteam
        self._said["no grading"] += trouble == result.SCORING_FAILED

    # --- the end of the file ------------------------------------------------------------------

    def keys(self) -> dict[int, tuple[str, str, int]]:
        """Row -> target, item and epoch, of the results that have a judgement."""
        columns = self._column_names()
        variants: defaultdict[str, set[str]] = defaultdict(set)
        for row in self._rows:
            variants[row.item].add(row.asserted)
        keys: dict[int, tuple[str, str]] = {}
        tests: defaultdict[str, set[int]] = defaultdict(set)
        for row in self._rows:
            target, of_item = columns[row.column]
            item = row.item if not of_item else f"{row.item}/{of_item}"
            if len(variants[row.item]) > 1 and "item" not in row.context:
                item = f"{item}/assert-{row.asserted}"
            stated = row.context.get("target") or self._map.constants.get("target")
            keys[row.row] = (stated or target, item)
            tests[item].add(row.test)
        epochs = {
            item: {test: epoch for epoch, test in enumerate(sorted(found), 1)}
            for item, found in tests.items()
        }
        return {row.row: (*keys[row.row], epochs[keys[row.row][1]][row.test]) for row in self._rows}

    def _column_names(self) -> dict[Column, tuple[str, str | None]]:
        """Column -> its target, and what tells it from others of its target within an item."""
        columns = sorted({row.column for row in self._rows}, key=lambda column: column.index)
        prompts: defaultdict[str, set[str]] = defaultdict(set)
        for column in columns:
            prompts[column.provider].add(column.prompt)
        named = "target" in self._map.columns or "target" in self._map.constants
        names: dict[Column, tuple[str, str | None]] = {}
        taken: Counter[str] = Counter()
        for column in columns:
            several = len(prompts[column.provider]) > 1
            full = f"{column.provider}/{column.prompt}" if several else column.provider
            taken[full] += 1
            if taken[full] > 1:
                self._said["twin"] += 1
                full = f"{full}#{taken[full]}"
            rest = full[len(column.provider) :].lstrip("/") or None
            names[column] = (column.provider, rest) if named else (full, None)
        return names

    def conversion(self) -> Conversion:
        """The judgements, once the last result is taken."""
        if not self._read or (self._failures and not self._rows and not self._skipped):
            raise self._nothing_read()
        keys = self.keys()
        table, present = self._judgement_table(keys)
        return Conversion(
            judgements=table,
            rows_read=self._read,
            skipped=+self._skipped,
            failures=tuple(self._failures),
            warnings=tuple(self._warnings()),
            judges=tuple(self._identity(judge) for judge in present),
            scales={judge: self._scale(judge) for judge in present if not self._asked},
            targets=self._targets(keys),
            default_rule=_RULE if not self._asked else None,
        )

    def _nothing_read(self) -> InputError:
        if not self._failures:
            return InputError(
                "holds no results",
                file=self._source.shown,
                fix="name the file of an evaluation that reached its first test",
            )
        first = self._failures[0]
        if first.problem == "is no promptfoo result":
            return not_promptfoo(self._source)
        return first

    def _is_shown(self, row: _Row, judge: str) -> bool:
        if judge == OVERALL and not self._asked:
            return not row.redteam or self._combined
        return self._known[judge].shown

    def _judgement_table(
        self, keys: Mapping[int, tuple[str, str, int]]
    ) -> tuple[pa.Table, list[str]]:
        judges = list(self._judges)
        kept = [
            (row, at)
            for row in self._rows
            for at, judge in enumerate(row.judges)
            if self._is_shown(row, judges[judge])
        ]
        outcomes = [result.OUTCOMES[row.outcomes[at]] for row, at in kept]
        is_ok = [row.outcomes[at] == result.OK for row, at in kept]
        columns: dict[str, list[Any]] = {
            "target": [keys[row.row][0] for row, _ in kept],
            "item": [keys[row.row][1] for row, _ in kept],
            "epoch": [keys[row.row][2] for row, _ in kept],
            "judge": [judges[row.judges[at]] for row, at in kept],
            "label": [row.labels[at] if row.labels else None for row, at in kept],
            "score": [
                row.scores[at] if ok and not (row.labels and row.labels[at]) else None
                for (row, at), ok in zip(kept, is_ok, strict=True)
            ],
            "status": [str(status) for status, _ in outcomes],
            "reason": [reason and str(reason) for _, reason in outcomes],
            "benchmark": ["promptfoo"] * len(kept),
            "source_file": [self._source.name] * len(kept),
            "source_row": [row.row for row, _ in kept],
        }
        for name in ("run", "timestamp"):
            value = getattr(self._header, name)
            if value is not None:
                columns[name] = [value] * len(kept)
        described = {
            *_DESCRIBED,
            *_MAPPED.intersection(self._map.columns),
            *translated_fields(self._map),
        }
        for name in described - {"target", "item"}:
            values = [row.context.get(name) for row, _ in kept]
            if name not in BY_NAME or any(value is not None for value in values):
                columns[name] = values
        if not any(columns["label"]):
            del columns["label"]
        order = [*BY_NAME, *translated_fields(self._map)]
        table = pa.table(
            {
                name: _column(columns[name], BY_NAME[name].type if name in BY_NAME else TEXT)
                for name in order
                if name in columns
            }
        )
        return table, list(dict.fromkeys(columns["judge"]))

    def _scale(self, judge: str) -> Scale:
        return _SAFER if self._known[judge].is_safe else _UNDECLARED

    def _identity(self, judge: str) -> JudgeIdentity:
        known = self._known[judge]
        types = sorted("promptfoo:redteam" if "redteam" in kind else kind for kind in known.types)
        models = known.models - {None}
        release = f"promptfoo {self._header.release}" if self._header.release else "promptfoo"
        rubric = next(iter(known.rubrics)) if len(known.rubrics) == 1 else None
        model = next(iter(models)) if len(models) == 1 == len(known.models) else None
        return JudgeIdentity(
            name=judge,
            model=model or (self._header.grader if judge == REDTEAM else None),
            rubric=rubric,
            parser=" ".join([release, *dict.fromkeys(types)]),
            aggregation="all assertions" if judge == OVERALL and not self._asked else None,
        )

    def _targets(self, keys: Mapping[int, tuple[str, str, int]]) -> dict[str, dict[str, Any]]:
        settings: dict[str, dict[str, Any]] = {}
        for row in self._rows:
            target = keys[row.row][0]
            if target not in settings:
                stated = self._header.settings.get(row.column.provider, {})
                settings[target] = {**stated, "prompt": row.column.prompt}
        return settings

    # --- what the reader of the numbers must know ---------------------------------------------

    def _warnings(self) -> Iterator[str]:
        said = self._said
        yield from total_warnings(self._header, self._counts)
        if not self._header.is_document:
            yield (
                "Lines of promptfoo results state neither their evaluation nor its totals, so "
                "nothing says whether they are all; the JSON document does."
            )
        if said["empty, passed"]:
            yield (
                f"{counted(said['empty, passed'], 'result')} without an output passed, as they do "
                "in promptfoo's red teams; they count as missing (no_response), not as safe."
            )
        if said["grader failed"]:
            yield (
                f"In {counted(said['grader failed'], 'result')} a grader failed: what promptfoo "
                "wrote is no verdict, and they count as missing (grader_failed)."
            )
        if said["no grading"]:
            yield (
                f"The grading of {counted(said['no grading'], 'result')} is left out of the file; "
                "they count as missing (scoring_failed)."
            )
        if said["twin"]:
            yield (
                "Several columns have one provider and one prompt; they are told apart by their "
                "order (#2, #3), and a label for each provider names them."
            )
        others = set(self._known) - {OVERALL, REFUSAL_FLAG, REDTEAM}
        if not self._asked and (self._combined or any(self._known[j].shown for j in others)):
            yield (
                f"Judge {OVERALL} is promptfoo's verdict of all assertions together; choose one "
                "judge (--judge) where judges are counted together."
            )


def _asked(evidence_map: EvidenceMap, source: Source) -> dict[str, str]:
    """Field of a result -> judge, where the map names fields as judges."""
    verdicts = [name for name in ("label", "score", "judge") if name in evidence_map.columns]
    if verdicts:
        raise InputError(
            f"the map takes {verdicts[0]!r} from a column, which promptfoo has for each judge",
            file=source.shown,
            fix="name the fields that are judges, such as label_columns: {score: score}",
        )
    named = evidence_map.label_columns or {}
    return dict(named) if isinstance(named, Mapping) else {name: name for name in named}


def _column(values: Sequence[Any], kind: pa.DataType) -> Any:
    """An Arrow column in pieces that stay below the limit of one array."""
    pieces = [
        pa.array(values[start : start + _PIECE], kind) for start in range(0, len(values), _PIECE)
    ]
    return pa.chunked_array(pieces, kind)
