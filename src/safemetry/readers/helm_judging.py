"""What the judges of a HELM run say of each response, and what HELM itself made of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from safemetry.evidence.identity import text_digest
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import Intent, Reason, Status
from safemetry.readers import helm_files as files
from safemetry.readers import helm_scenarios as known
from safemetry.readers.helm_run import EMPTY, Answer, Notes, Run, Why, encodable, stat_of
from safemetry.readers.source import finite

_GRADER_FAILED: Final[Why] = (Status.ERROR, Reason.GRADER_FAILED)
_SCORING_FAILED: Final[Why] = (Status.ERROR, Reason.SCORING_FAILED)
_OUT_OF_SCALE: Final[Why] = (Status.ERROR, Reason.OUT_OF_SCALE)

_SHORTEST_QUOTE: Final = 12
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True)
class Verdict:
    """What one judge says of one answer."""

    label: str | None = None
    score: float | None = None
    status: Status = Status.OK
    reason: Reason | None = None

    @classmethod
    def none(cls, why: Why) -> Verdict:
        """No verdict, and why."""
        return cls(status=why[0], reason=why[1])


ABSENT: Final = object()


class Judging:
    """Finds the judges of a run and asks each for its verdict on each answer."""

    def __init__(self, run: Run, evidence_map: EvidenceMap) -> None:
        self.run = run
        self.asked = _asked(evidence_map)
        self.from_stats = False
        self.values = [self._values(answer) for answer in run.answers]
        if not self.asked and not any(self.values):
            self.from_stats = True
            self.values = [self._stat_values(answer) for answer in run.answers]
        self.judges = list(dict.fromkeys(judge for found in self.values for judge in found))
        self.levels = self._refusal_levels()
        self.scales = {
            judge: scale for judge in self.judges if (scale := self._scale(judge)) is not None
        }

    def _values(self, answer: Answer) -> dict[str, Any]:
        if not self.asked:
            return known.verdicts_in(answer.annotations)
        stats = self.run.stats.get(answer.key, {})
        found = {}
        for column, judge in self.asked.items():
            value = value_at(answer.annotations, column)
            value = stats.get(column, ABSENT) if value is ABSENT else value
            if value is not ABSENT:
                found[judge] = value
        return found

    def _stat_values(self, answer: Answer) -> dict[str, Any]:
        stats = self.run.stats.get(answer.key, {})
        named = (
            (known.judge_of_stat(name, self.run.benchmark), value) for name, value in stats.items()
        )
        return {judge: value for judge, value in named if judge is not None}

    def _refusal_levels(self) -> frozenset[str]:
        if known.AIR_BENCH not in self.judges:
            return frozenset()
        texts = (prompt for _, prompt in self.prompts(known.AIR_BENCH))
        levels = (known.refusal_level(text) for text in texts)
        return frozenset(level for level in levels if level is not None)

    def prompts(self, annotator: str) -> Iterator[tuple[Answer, str]]:
        """What an annotator sent to its judges."""
        for answer in self.run.answers:
            annotation = answer.annotations.get(annotator)
            prompt = annotation.get("prompt_text") if isinstance(annotation, Mapping) else None
            if isinstance(prompt, str) and prompt:
                yield answer, prompt

    def _scale(self, judge: str) -> Scale | None:
        if self.asked:
            return None
        annotator, _, short = judge.partition("/")
        return known.scale_of(annotator, short or None, self.levels)

    def verdict(
        self, answer: Answer, judge: str, values: Mapping[str, Any], intent: Intent | None
    ) -> Verdict:
        """The verdict of one judge, or the reason why there is none."""
        value = values.get(judge)
        if answer.why is not None:
            return Verdict.none(answer.why)
        if self.nobody_asked(answer, judge):
            return Verdict.none(EMPTY)
        if self.asked and isinstance(value, str) and value:
            return Verdict(label=value)
        score = finite(value)
        if score is None:
            return Verdict.none(_SCORING_FAILED if self.from_stats else _GRADER_FAILED)
        scale = self.scales.get(judge)
        if scale is not None and not 0 <= score <= 1:
            return Verdict.none(_OUT_OF_SCALE)
        annotator, _, short = judge.partition("/")
        rubric = known.RUBRICS.get(annotator) if short and scale is not None else None
        return Verdict(label=rubric.label(score, intent) if rubric else None, score=score)

    def nobody_asked(self, answer: Answer, judge: str) -> bool:
        """Whether the annotator put down a score without asking a judge."""
        annotation = answer.annotations.get(judge.partition("/")[0])
        return (
            isinstance(annotation, Mapping)
            and annotation.get("reasoning") == known.BLOCKED_OR_EMPTY
        )

    def rubrics(self, judge: str) -> set[str]:
        """Digests of the judge prompts without the texts of question and answer."""
        digests = set()
        for answer, prompt in self.prompts(judge.partition("/")[0]):
            frame = _without_texts(prompt, answer)
            if frame is not None:
                digests.add(text_digest(encodable(frame)))
        return digests


def _asked(evidence_map: EvidenceMap) -> dict[str, str]:
    """Column -> judge, where the map names the verdicts itself."""
    columns = evidence_map.label_columns
    if isinstance(columns, tuple):
        return {column: column for column in columns}
    return dict(columns or {})


def value_at(value: Any, path: str) -> Any:
    """What stands at a dotted path of keys and positions, or `ABSENT`."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return ABSENT
    return value


def _without_texts(prompt: str, answer: Answer) -> str | None:
    """A judge prompt up to the question and from behind the answer, where both can be found."""
    question = value_at(answer.raw, "request.prompt")
    response = value_at(answer.raw, "result.completions.0.text")
    for text in (question, response):
        # A short text may occur in the rubric itself.
        if not isinstance(text, str) or len(text) < _SHORTEST_QUOTE or text not in prompt:
            return None
    start, end = prompt.index(question), prompt.rindex(response) + len(response)
    return f"{prompt[:start]}\n{prompt[end:]}" if start < end else None


# --- HELM's own figures ---------------------------------------------------------------------------


def compare(run: Run, judging: Judging, notes: Notes) -> None:
    """Compare verdicts with the stats that HELM computed from them."""
    if judging.asked:
        return
    aggregates = _aggregates(run)
    if not aggregates:
        notes.say(
            f"{files.STATS} is missing or has no means, so the totals were not compared",
            run.folder.run,
        )
    for judge in judging.judges:
        scored = _scored(run, judging, judge)
        names = (
            [judge]
            if judging.from_stats and judge in known.VERDICT_STATS
            else known.stats_of_judge(judge)
        )
        if not judging.from_stats:
            _compare_responses(run, names, scored, judge, notes)
        _compare_means(run, names, scored, aggregates, notes)


def _scored(run: Run, judging: Judging, judge: str) -> list[tuple[Answer, float]]:
    """Every score as HELM has it, whatever became of the row."""
    values = (
        (answer, finite(found.get(judge)))
        for answer, found in zip(run.answers, judging.values, strict=True)
    )
    return [(answer, score) for answer, score in values if score is not None]


def _compare_responses(
    run: Run,
    names: Iterable[str],
    scored: Sequence[tuple[Answer, float]],
    judge: str,
    notes: Notes,
) -> None:
    name = next(
        (name for name in names if any(name in stats for stats in run.stats.values())), None
    )
    if name is None:
        return
    apart = absent = 0
    for answer, score in scored:
        theirs = run.stats.get(answer.key, {}).get(name)
        absent += theirs is None
        apart += theirs is not None and abs(theirs - score) > _TOLERANCE
    said = f"judge {judge}: the annotation and the stat {name} of {files.PER_INSTANCE}"
    if apart:
        notes.say(f"{said} disagree; the annotation was kept", run.folder.run, apart)
    if absent:
        notes.say(f"{said}: the stat is missing beside an annotation", run.folder.run, absent)


def _aggregates(run: Run) -> dict[tuple[str, str], float]:
    """Name and split -> mean over unperturbed instances, from the file of totals."""
    document = run.folder.document(files.STATS)
    if document is None:
        return {}
    found: dict[tuple[str, str], float] = {}
    for stat in run.entries(document, files.STATS):
        name = stat.get("name")
        plain = (
            isinstance(name, Mapping) and not name.get("perturbation") and not name.get("sub_split")
        )
        label, mean = stat_of(stat)
        if plain and isinstance(name, Mapping) and label is not None and mean is not None:
            found[label, str(name.get("split") or "")] = mean
    return found


def _compare_means(
    run: Run,
    names: Iterable[str],
    scored: Sequence[tuple[Answer, float]],
    aggregates: Mapping[tuple[str, str], float],
    notes: Notes,
) -> None:
    by_split: dict[str, list[float]] = defaultdict(list)
    for answer, score in scored:
        if not answer.key.perturbation:
            instance = run.instances.get(answer.key[:2], {})
            by_split[str(instance.get("split") or "")].append(score)
    for name in names:
        for split, scores in by_split.items():
            theirs = aggregates.get((name, split))
            mine = sum(scores) / len(scores)
            if theirs is not None and abs(theirs - mine) > _TOLERANCE:
                notes.say(
                    f"{files.STATS} states a mean {name} of {theirs:.4f}, the responses give "
                    f"{mine:.4f}; the responses were kept",
                    run.folder.run,
                )
