"""HELM run folders: one row per instance, trial, perturbation and completion; one judge per score.

The verdicts come from the annotations beside each response. What HELM computed from them
(``per_instance_stats.json``, ``stats.json``) is compared with them and never takes their place,
unless a run has no annotations at all.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity, text_digest
from safemetry.evidence.maps import EvidenceMap, FromColumn, Scale
from safemetry.evidence.schema import BY_NAME, TEXT, Intent, Reason, Status
from safemetry.readers import helm_files as files
from safemetry.readers import helm_scenarios as known
from safemetry.readers.conversion import Conversion
from safemetry.readers.helm_files import RunFolder
from safemetry.readers.source import Source, finite

_WRITTEN: Final = (
    "run", "target", "item", "epoch", "judge", "label", "score", "status", "reason", "benchmark",
    "category", "attack", "behaviour", "intent", "timestamp", "developer", "source_file",
    "source_row",
)
_SHORTEST_QUOTE: Final = 12
_RUBRICS_AT_MOST: Final = 2
_TOLERANCE: Final = 1e-6
_CLASS_NAME: Final = re.compile(r"[\w.]+")

_GRADER_FAILED: Final[Why] = (Status.ERROR, Reason.GRADER_FAILED)
_SCORING_FAILED: Final[Why] = (Status.ERROR, Reason.SCORING_FAILED)
_OUT_OF_SCALE: Final[Why] = (Status.ERROR, Reason.OUT_OF_SCALE)


class HelmReader:
    """Reads HELM run folders, trees of them, and either behind a URL."""

    name = "helm"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the folder or URL holds a run, or a tree with at least one."""
        return files.looks_like_helm(source)

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert every run of the source.

        Raises
        ------
        InputError
            Where there is no run, a file is missing, damaged or above its limit, an instance
            occurs twice, or no run holds a verdict.
        """
        found = files.find_runs(source)
        notes = Notes()
        if found.links:
            notes.say(
                f"{found.links} links to folders outside {source.name} were not followed"
            )
        reading = _Reading(evidence_map, notes)
        for folder in found.runs:
            reading.add(folder)
        return reading.conversion(source)


# --- judging ------------------------------------------------------------------------------------


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


_ABSENT: Final = object()


class _Judging:
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
            judge: scale for judge in self.judges
            if (scale := self._scale(judge)) is not None
        }

    def _values(self, answer: Answer) -> dict[str, Any]:
        if not self.asked:
            return known.verdicts_in(answer.annotations)
        stats = self.run.stats.get(answer.key, {})
        found = {}
        for column, judge in self.asked.items():
            value = _at(answer.annotations, column)
            value = stats.get(column, _ABSENT) if value is _ABSENT else value
            if value is not _ABSENT:
                found[judge] = value
        return found

    def _stat_values(self, answer: Answer) -> dict[str, Any]:
        stats = self.run.stats.get(answer.key, {})
        named = ((known.judge_ofstat_of(name, self.run.benchmark), value)
                 for name, value in stats.items())
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
        return isinstance(annotation, Mapping) \
            and annotation.get("reasoning") == known.BLOCKED_OR_EMPTY

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


def _at(value: Any, path: str) -> Any:
    """What stands at a dotted path of keys and positions, or `_ABSENT`."""
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for part in path.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _ABSENT
    return value


def _without_texts(prompt: str, answer: Answer) -> str | None:
    """A judge prompt up to the question and from behind the answer, where both can be found."""
    question = _at(answer.raw, "request.prompt")
    response = _at(answer.raw, "result.completions.0.text")
    for text in (question, response):
        # A short text may occur in the rubric itself.
        if not isinstance(text, str) or len(text) < _SHORTEST_QUOTE or text not in prompt:
            return None
    start, end = prompt.index(question), prompt.rindex(response) + len(response)
    return f"{prompt[:start]}\n{prompt[end:]}" if start < end else None


# --- the conversion -----------------------------------------------------------------------------


class _Reading:
    """Adds up the runs of a source."""

    def __init__(self, evidence_map: EvidenceMap, notes: Notes) -> None:
        self.map = evidence_map
        self.notes = notes
        self.tables: list[pa.Table] = []
        self.rows = 0
        self.skipped: Counter[str] = Counter()
        self.scales: dict[str, list[Scale]] = defaultdict(list)
        self.identities: dict[str, dict[str, set[str]]] = {}
        self.targets: dict[str, dict[str, list[Any]]] = defaultdict(dict)
        self.paths = _mapped_paths(evidence_map)
        self.resolved: set[str] = set()
        self.without_verdict: list[str] = []

    def add(self, folder: RunFolder) -> None:
        """Convert one run."""
        run = Run(folder, self.notes)
        judging = _Judging(run, self.map)
        rows = len(run.answers) + len(run.unasked) + run.examples
        self.rows += rows
        if self.rows > self.map.limits.rows:
            raise run.error("", f"exceeds the limit of {self.map.limits.rows:,} rows",
                            fix="raise limits.rows in the map, or give fewer runs")
        if run.examples:
            self.skipped["in-context example of the train split"] += run.examples
        if not judging.judges:
            self._skip(run, rows - run.examples)
            return
        self.tables.append(self._table(run, judging))
        self._keep_identities(run, judging)
        self._keep_settings(run)
        _compare(run, judging, self.notes)

    def _skip(self, run: Run, rows: int) -> None:
        annotated = {name for answer in run.answers for name in answer.annotations}
        stats = {name for found in run.stats.values() for name in found}
        has = ", ".join(sorted(annotated | stats)[:12]) or "nothing"
        self.without_verdict.append(
            f"{run.folder.run} has no verdict that the format names; it has {has}"
        )
        if rows:
            self.skipped["no verdict among the annotations and stats of the run"] += rows

    def conversion(self, source: Source) -> Conversion:
        """What all runs add up to."""
        if not self.tables:
            raise InputError(
                self.without_verdict[0] if self.without_verdict else "holds no run",
                file=source.location,
                fix="name the annotation (annotator.key) or stat that is the verdict in the map: "
                "label_columns: {NAME: JUDGE}",
            )
        for said in self.without_verdict:
            self.notes.say(said)
        for path in self.paths:
            if path not in self.resolved:
                raise InputError(
                    f"the map names {path!r}, which no row has", file=source.location,
                    fix="give a dotted path into a request state, such as "
                    "instance.references.0.output.text, or into run_spec",
                )
        scales = {judge: _common_scale(scales) for judge, scales in self.scales.items()}
        self._note_scales(scales)
        return Conversion(
            judgements=pa.concat_tables(self.tables),
            rows_read=self.rows,
            skipped=dict(self.skipped),
            warnings=tuple(self.notes.sentences()),
            judges=[_identity(judge, parts) for judge, parts in self.identities.items()],
            scales={judge: scale for judge, scale in scales.items() if scale != Scale()},
            targets=self._settings(),
        )

    # -- rows ------------------------------------------------------------------------------------

    def _table(self, run: Run, judging: _Judging) -> pa.Table:
        columns: dict[str, list[Any]] = {name: [] for name in (*_WRITTEN, *self.paths)}
        each = max((answer.completion for answer in run.answers), default=0) + 1
        perturbed = {key[0] for key in run.instances if key[1]}
        perturbed |= {answer.key.instance for answer in run.answers if answer.key.perturbation}
        counts: Counter[tuple[str, str]] = Counter()
        everything = zip(
            [*run.answers, *run.unasked],
            [*judging.values, *({} for _ in run.unasked)],
            strict=True,
        )
        for answer, values in everything:
            about = self._about(run, answer, each, perturbed)
            for judge in judging.judges:
                verdict = judging.verdict(answer, judge, values, about["intent"])
                _count(counts, judge, verdict, values.get(judge))
                row = {
                    **about,
                    "judge": judge,
                    "label": verdict.label,
                    "score": verdict.score,
                    "status": verdict.status.value,
                    "reason": verdict.reason.value if verdict.reason else None,
                }
                for name, cells in columns.items():
                    cells.append(row.get(name))
        for (judge, said), rows in counts.items():
            self.notes.say(f"judge {judge}: {said}", run.folder.run, rows)
        return _as_table(columns, run)

    def _about(
        self, run: Run, answer: Answer, each: int, perturbed: set[str]
    ) -> dict[str, Any]:
        key = answer.key
        instance = run.instances.get(key[:2], {})
        references = instance.get("references")
        references = [reference for reference in references if isinstance(reference, Mapping)] \
            if isinstance(references, list) else []
        about: dict[str, Any] = {
            "run": run.folder.run,
            "target": run.target,
            "item": f"{key.instance}~{key.perturbation}" if key.perturbation else key.instance,
            "epoch": key.trial * each + answer.completion + 1,
            "benchmark": run.benchmark,
            "category": known.category_of(run.scenario, references) or run.category,
            "attack": run.scenario.attack,
            "behaviour": known.behaviour_of(
                run.scenario, key.instance, references, perturbed=key.instance in perturbed
            ),
            "intent": known.intent_of(run.scenario, references),
            "timestamp": answer.timestamp,
            "developer": run.developer,
            "source_file": f"{run.folder.run}/{answer.file}",
            "source_row": answer.row,
        }
        for path in self.paths:
            found = _at({**answer.raw, "instance": instance, "run_spec": run.spec}, path)
            if isinstance(found, str | int | float):
                self.resolved.add(path)
                about[path] = str(found)
        return about

    # -- what is known beside the rows -----------------------------------------------------------

    def _keep_identities(self, run: Run, judging: _Judging) -> None:
        specs = run.spec.get("annotators")
        specs = specs if isinstance(specs, list) else []
        spec = specs[0] if len(specs) == 1 and isinstance(specs[0], Mapping) else {}
        name, given = spec.get("class_name"), spec.get("args")
        for judge in judging.judges:
            self.scales[judge].append(judging.scales.get(judge, Scale()))
            parts = self.identities.setdefault(
                judge, {"model": set(), "parser": set(), "rubric": set()}
            )
            if judging.from_stats:
                parts["parser"].add("helm stat")
                continue
            if isinstance(name, str) and _CLASS_NAME.fullmatch(name):
                parts["parser"].add(name)
            model = given.get("model") if isinstance(given, Mapping) else None
            if isinstance(model, str):
                parts["model"].add(model)
            parts["rubric"] |= judging.rubrics(judge)

    def _keep_settings(self, run: Run) -> None:
        mine = self.targets[run.target]
        for name, value in run.settings().items():
            values = mine.setdefault(name, [])
            if value not in values:
                values.append(value)

    def _settings(self) -> dict[str, dict[str, Any]]:
        """Settings of each target; a list of values where its runs differ."""
        return {
            target: {
                name: values[0] if len(values) == 1 else values for name, values in found.items()
            }
            for target, found in self.targets.items()
        }

    def _note_scales(self, scales: Mapping[str, Scale]) -> None:
        for judge, scale in scales.items():
            if scale.higher_is is not None or self.map.scale(judge).higher_is is not None:
                continue
            if judge == known.AIR_BENCH:
                why = (
                    "HELM's AIR-Bench judge prompts gave 0 to a refusal until June 2024 and give 1 "
                    "since, and the prompts kept in these runs do not say which"
                )
            elif judge.startswith("xstest/"):
                continue  # its classes and the intent of each item say what its score means
            else:
                why = "the format does not say which end of its score is safe"
            self.notes.say(
                f"judge {judge}: {why}; say so in the map where the score is needed: judges: "
                f'{{"{judge}": {{scale_min: 0, scale_max: 1, higher_is: safer}}}} (or worse)'
            )


def _mapped_paths(evidence_map: EvidenceMap) -> list[str]:
    """Columns that the map names and that are none of ours."""
    named = list(evidence_map.columns.values())
    for spec in (evidence_map.intent, evidence_map.status):
        if isinstance(spec, FromColumn):
            named.append(spec.column)
    return [name for name in dict.fromkeys(named) if name not in BY_NAME]


def _as_table(columns: Mapping[str, list[Any]], run: Run) -> pa.Table:
    types = {name: BY_NAME[name].type if name in BY_NAME else TEXT for name in columns}
    try:
        return pa.table({
            name: pa.array(cells, types[name]) for name, cells in columns.items()
        })
    except UnicodeEncodeError as error:
        raise run.error(
            files.STATE, "an id holds half of a surrogate pair, which is no character",
            fix="mend the id",
        ) from error


def _count(
    counts: Counter[tuple[str, str]], judge: str, verdict: Verdict, value: Any
) -> None:
    """Count what a reader of the numbers must know about a row."""
    if verdict.reason in {Reason.NO_RESPONSE, Reason.BLOCKED_BY_FILTER,
                          Reason.INFRASTRUCTURE_ERROR} and finite(value) is not None:
        counts[judge, "HELM scored a response that is empty, was blocked or failed; it counts "
                      "as missing here and in HELM's own mean as the score"] += 1
    elif verdict.reason == Reason.GRADER_FAILED:
        counts[judge, "gave no usable score (grader_failed)"] += 1
    elif verdict.reason == Reason.OUT_OF_SCALE:
        counts[judge, "gave a score outside 0 to 1 (out_of_scale)"] += 1


def _common_scale(scales: Sequence[Scale]) -> Scale:
    """The scale of a judge over all runs; its direction only where they agree."""
    first = scales[0]
    if all(scale == first for scale in scales):
        return first
    return Scale(scale_min=first.scale_min, scale_max=first.scale_max)


def _identity(judge: str, parts: Mapping[str, set[str]]) -> JudgeIdentity:
    rubric = parts["rubric"]
    return JudgeIdentity(
        judge,
        model=", ".join(sorted(parts["model"])) or None,
        # More than two rubrics mean one per category, of which a run may hold any part.
        rubric="+".join(sorted(rubric)) if 0 < len(rubric) <= _RUBRICS_AT_MOST else None,
        parser=", ".join(sorted(parts["parser"])) or None,
    )


# --- HELM's own figures ---------------------------------------------------------------------------


def _compare(run: Run, judging: _Judging, notes: Notes) -> None:
    """Compare verdicts with the stats that HELM computed from them."""
    if judging.asked:
        return
    aggregates = _aggregates(run)
    if not aggregates:
        notes.say(f"{files.STATS} is missing or has no means, so the totals were not compared",
                  run.folder.run)
    for judge in judging.judges:
        scored = _scored(run, judging, judge)
        names = [judge] if judging.from_stats and judge in known.VERDICT_STATS \
            else known.stats_of_judge(judge)
        if not judging.from_stats:
            _compare_responses(run, names, scored, judge, notes)
        _compare_means(run, names, scored, aggregates, notes)


def _scored(
    run: Run, judging: _Judging, judge: str
) -> list[tuple[Answer, float]]:
    """Every score as HELM has it, whatever became of the row."""
    values = ((answer, finite(found.get(judge)))
              for answer, found in zip(run.answers, judging.values, strict=True))
    return [(answer, score) for answer, score in values if score is not None]


def _compare_responses(
    run: Run,
    names: Iterable[str],
    scored: Sequence[tuple[Answer, float]],
    judge: str,
    notes: Notes,
) -> None:
    name = next((name for name in names
                 if any(name in stats for stats in run.stats.values())), None)
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
        plain = isinstance(name, Mapping) and not name.get("perturbation") \
            and not name.get("sub_split")
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
