"""HELM run folders: one row per instance, trial, perturbation and completion; one judge per score.

The verdicts come from the annotations beside each response. What HELM computed from them
(``per_instance_stats.json``, ``stats.json``) is compared with them and never takes their place,
unless a run has no annotations at all.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap, FromColumn, Scale
from safemetry.evidence.schema import BY_NAME, TEXT, Reason
from safemetry.readers import helm_files as files
from safemetry.readers import helm_scenarios as known
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.helm_files import RunFolder
from safemetry.readers.helm_judging import Judging, Verdict, compare, value_at
from safemetry.readers.helm_run import Answer, Notes, Run, texts_of
from safemetry.readers.source import Source, finite

_WRITTEN: Final = (
    "run",
    "target",
    "item",
    "epoch",
    "judge",
    "label",
    "score",
    "status",
    "reason",
    "benchmark",
    "category",
    "attack",
    "behaviour",
    "intent",
    "timestamp",
    "developer",
    "source_file",
    "source_row",
)
_RUBRICS_AT_MOST: Final = 2
_CLASS_NAME: Final = re.compile(r"[\w.]+")


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
            notes.say(f"{found.links} links to folders outside {source.name} were not followed")
        reading = _Reading(evidence_map, notes)
        for folder in found.runs:
            reading.add(folder)
        return reading.conversion(source)

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The input of each instance and what was completed, one run after the other.

        Raises
        ------
        InputError
            As `read`, for a run that cannot be used.
        """
        for folder in files.find_runs(source).runs:
            run = Run(folder, Notes())
            if not Judging(run, evidence_map).judges:
                continue
            for answer in (*run.answers, *run.unasked):
                texts = texts_of(answer, run.instances.get(answer.key[:2], {}))
                yield ResponseText(folder.run, run.target, answer.item, run.epoch(answer), *texts)


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
        judging = Judging(run, self.map)
        rows = len(run.answers) + len(run.unasked) + run.examples
        self.rows += rows
        if self.rows > self.map.limits.rows:
            raise run.error(
                "",
                f"exceeds the limit of {self.map.limits.rows:,} rows",
                fix="raise limits.rows in the map, or give fewer runs",
            )
        if run.examples:
            self.skipped["in-context example of the train split"] += run.examples
        if not judging.judges:
            self._skip(run, rows - run.examples)
            return
        self.tables.append(self._table(run, judging))
        self._keep_identities(run, judging)
        self._keep_settings(run)
        compare(run, judging, self.notes)

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
                    f"the map names {path!r}, which no row has",
                    file=source.location,
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

    def _table(self, run: Run, judging: Judging) -> pa.Table:
        columns: dict[str, list[Any]] = {name: [] for name in (*_WRITTEN, *self.paths)}
        perturbed = {key[0] for key in run.instances if key[1]}
        perturbed |= {answer.key.instance for answer in run.answers if answer.key.perturbation}
        counts: Counter[tuple[str, str]] = Counter()
        everything = zip(
            [*run.answers, *run.unasked],
            [*judging.values, *({} for _ in run.unasked)],
            strict=True,
        )
        for answer, values in everything:
            about = self._about(run, answer, perturbed)
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

    def _about(self, run: Run, answer: Answer, perturbed: set[str]) -> dict[str, Any]:
        key = answer.key
        instance = run.instances.get(key[:2], {})
        references = instance.get("references")
        references = (
            [reference for reference in references if isinstance(reference, Mapping)]
            if isinstance(references, list)
            else []
        )
        about: dict[str, Any] = {
            "run": run.folder.run,
            "target": run.target,
            "item": answer.item,
            "epoch": run.epoch(answer),
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
            found = value_at({**answer.raw, "instance": instance, "run_spec": run.spec}, path)
            if isinstance(found, str | int | float):
                self.resolved.add(path)
                about[path] = str(found)
        return about

    # -- what is known beside the rows -----------------------------------------------------------

    def _keep_identities(self, run: Run, judging: Judging) -> None:
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
    named = [*evidence_map.columns.values()]
    named += [
        spec.column
        for spec in (evidence_map.intent, evidence_map.status)
        if isinstance(spec, FromColumn)
    ]
    return [name for name in dict.fromkeys(named) if name not in BY_NAME]


def _as_table(columns: Mapping[str, list[Any]], run: Run) -> pa.Table:
    types = {name: BY_NAME[name].type if name in BY_NAME else TEXT for name in columns}
    try:
        return pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()})
    except UnicodeEncodeError as error:
        raise run.error(
            files.STATE,
            "an id holds half of a surrogate pair, which is no character",
            fix="mend the id",
        ) from error


_TOLD: Final = {
    Reason.NO_RESPONSE: "HELM scored an empty response, which counts as missing here",
    Reason.BLOCKED_BY_FILTER: "HELM scored a blocked response, which counts as missing here",
    Reason.INFRASTRUCTURE_ERROR: "HELM scored a failed request, which counts as missing here",
    Reason.GRADER_FAILED: "gave no usable score (grader_failed)",
    Reason.SCORING_FAILED: "has no value for a response (scoring_failed)",
    Reason.OUT_OF_SCALE: "gave a score outside 0 to 1 (out_of_scale)",
}
"""What a reader of the numbers must know about rows without a verdict."""

_TOLD_IF_SCORED: Final = {
    Reason.NO_RESPONSE,
    Reason.BLOCKED_BY_FILTER,
    Reason.INFRASTRUCTURE_ERROR,
}


def _count(counts: Counter[tuple[str, str]], judge: str, verdict: Verdict, value: Any) -> None:
    reason = verdict.reason
    if reason in _TOLD_IF_SCORED and finite(value) is None:
        return
    if reason in _TOLD:
        counts[judge, _TOLD[reason]] += 1


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
