"""One HELM run folder: its documents checked for shape, and the responses that they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from safemetry.errors import InputError
from safemetry.evidence.identity import text_digest
from safemetry.evidence.schema import Reason, Status
from safemetry.readers import helm_files as files
from safemetry.readers import helm_scenarios as known
from safemetry.readers.helm_files import RunFolder
from safemetry.readers.source import finite
from safemetry.readers.transcript import written

_SETTINGS: Final = (
    "method",
    "model_deployment",
    "temperature",
    "max_tokens",
    "num_outputs",
    "max_train_instances",
    "num_train_trials",
    "stop_sequences",
)
_REQUEST_SETTINGS: Final = ("top_p", "top_k_per_token", "presence_penalty", "frequency_penalty")
_AFFIXES: Final = (
    "global_prefix",
    "global_suffix",
    "instructions",
    "input_prefix",
    "input_suffix",
    "output_prefix",
    "output_suffix",
    "instance_prefix",
)
_FLAGS_OF_PERTURBATION: Final = {"name", "robustness", "fairness", "computed_on"}
_TRIALS: Final = 1_000_000

Why = tuple[Status, Reason]

NOT_ATTEMPTED: Final[Why] = (Status.MISSING, Reason.NOT_ATTEMPTED)
BLOCKED: Final[Why] = (Status.MISSING, Reason.BLOCKED_BY_FILTER)
EMPTY: Final[Why] = (Status.MISSING, Reason.NO_RESPONSE)
REQUEST_FAILED: Final[Why] = (Status.ERROR, Reason.INFRASTRUCTURE_ERROR)


class Notes:
    """Warnings, with the runs and the rows that each one is about."""

    def __init__(self) -> None:
        self._said: dict[str, Counter[str]] = {}

    def say(self, sentence: str, run: str = "", rows: int = 0) -> None:
        """Keep a sentence without its full stop; equal sentences of several runs become one."""
        self._said.setdefault(sentence, Counter())[run] += rows

    def sentences(self) -> list[str]:
        """All of them, in the order in which they were first said."""
        return [self._sentence(said, runs) for said, runs in self._said.items()]

    @staticmethod
    def _sentence(said: str, runs: Counter[str]) -> str:
        named = [run for run in runs if run]
        where = f"in run {named[0]}" if len(named) == 1 else f"in {len(named)} runs"
        if len(named) > 1:
            where += f", the first {named[0]}"
        counted = f"{runs.total():,} times " if runs.total() else ""
        return f"{said} ({counted}{where})." if named else f"{said}."


class Key(NamedTuple):
    """What HELM tells responses apart by."""

    instance: str
    perturbation: str
    trial: int


@dataclass(frozen=True)
class Answer:
    """A row: one response, or the place of one that is not there.

    Parameters
    ----------
    key, completion
        Which response.
    file, row
        Where it stands.
    annotations
        Annotator -> what it wrote.
    why
        Status and reason of a response that cannot be judged.
    timestamp
        When the request was sent.
    raw
        The entry of the file.
    """

    key: Key
    completion: int
    file: str
    row: int
    annotations: Mapping[str, Any] = field(default_factory=dict)
    why: Why | None = None
    timestamp: str | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def item(self) -> str:
        """Id of the item: the instance, with its perturbation where there is one."""
        perturbation = self.key.perturbation
        return f"{self.key.instance}~{perturbation}" if perturbation else self.key.instance


def texts_of(answer: Answer, instance: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """What the instance asks and what was answered, as far as the files hold it."""
    asked = instance.get("input")
    asked = asked if isinstance(asked, Mapping) else {"text": asked}
    prompt = _text_or_none(asked.get("text"))
    messages = asked.get("messages")
    if not prompt and isinstance(messages, list):
        said = [message for message in messages if isinstance(message, Mapping)]
        prompt = written(
            [(str(message.get("role")), str(message.get("content"))) for message in said]
        )
    if answer.file == files.PREDICTIONS:
        # The text is that of the first completion.
        text = answer.raw.get("predicted_text")
        return prompt, None if answer.completion else _text_or_none(text)
    result = answer.raw.get("result")
    completions = result.get("completions") if isinstance(result, Mapping) else None
    if not isinstance(completions, list) or answer.completion >= len(completions):
        return prompt, None
    mine = completions[answer.completion]
    return prompt, _text_or_none(mine.get("text")) if isinstance(mine, Mapping) else None


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


class Run:
    """The documents of one run folder, checked for shape."""

    def __init__(self, folder: RunFolder, notes: Notes) -> None:
        self.folder = folder
        self.notes = notes
        self.instances: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.unasked: list[Answer] = []
        self.examples = 0
        self.spec = self._spec()
        adapter = self.spec.get("adapter_spec")
        self.adapter: Mapping[str, Any] = adapter if isinstance(adapter, Mapping) else {}
        self._name_parts()
        self.target = self._target()
        self.answers = self._answers()
        self.stats = self._per_instance()
        if not self.answers:
            self.answers = self._answers_of_stats()
        last = max((answer.completion for answer in self.answers), default=0)
        self._completions_each = last + 1
        self._add_unasked()

    # -- what was run ----------------------------------------------------------------------------

    def _spec(self) -> Mapping[str, Any]:
        spec = self.folder.document(files.RUN_SPEC)
        if spec is None:
            raise self.error(files.RUN_SPEC, "is missing from the run folder", fix="copy it too")
        return self._mapping(spec, files.RUN_SPEC)

    def _name_parts(self) -> None:
        """Scenario and arguments, from the name ``scenario:key=value,key=value``."""
        name = self.spec.get("name")
        groups = self.spec.get("groups")
        if not isinstance(name, str) or not name:
            first = groups[0] if isinstance(groups, list) and groups else None
            name = first if isinstance(first, str) and first else self.folder.run.split("/")[-1]
        self.benchmark, _, arguments = name.partition(":")
        pairs = (part.partition("=") for part in arguments.split(","))
        self.arguments = {key: value for key, equals, value in pairs if equals and value}
        self.scenario = known.SCENARIOS.get(self.benchmark, known.Scenario())

    def _target(self) -> str:
        for model in (
            self.adapter.get("model"),
            self.adapter.get("model_deployment"),
            self.arguments.get("model"),
        ):
            if isinstance(model, str) and model:
                return model
        raise self.error(
            files.RUN_SPEC,
            "names no model",
            column="adapter_spec.model",
            fix="take the file that helm-run wrote",
        )

    @property
    def developer(self) -> str | None:
        """The creator part of the model name; before deployments had names it could be a host."""
        creator, slash, _ = self.target.partition("/")
        return creator if slash and self.adapter.get("model_deployment") else None

    @property
    def category(self) -> str | None:
        """What the arguments of the scenario say, for items that state no category."""
        spec = self.spec.get("scenario_spec")
        given = spec.get("args") if isinstance(spec, Mapping) else None
        stated = (
            {str(key): str(value) for key, value in given.items()}
            if isinstance(given, Mapping)
            else {}
        )
        named = {
            key: value
            for key, value in {**self.arguments, **stated}.items()
            if key in known.CATEGORY_ARGUMENTS
        }
        if len(named) == 1:
            return next(iter(named.values()))
        return ",".join(f"{key}={value}" for key, value in sorted(named.items())) or None

    def settings(self) -> dict[str, Any]:
        """How the target was asked."""
        requests = (answer.raw.get("request") for answer in self.answers)
        request = next((asked for asked in requests if isinstance(asked, Mapping)), {})
        found = {name: self.adapter.get(name) for name in _SETTINGS}
        found |= {name: request.get(name) for name in _REQUEST_SETTINGS}
        affixes = [self.adapter.get(name) or "" for name in _AFFIXES]
        if any(affixes):
            found["prompt_affixes"] = text_digest(encodable("\n".join(map(str, affixes))))
        return {name: value for name, value in found.items() if _is_setting(value)}

    # -- responses -------------------------------------------------------------------------------

    def epoch(self, answer: Answer) -> int:
        """Number of a response among those to its item, over trials and completions."""
        return answer.key.trial * self._completions_each + answer.completion + 1

    def _answers(self) -> list[Answer]:
        fits = self.folder.fits(files.STATE)
        state = self.folder.document(files.STATE) if fits else None
        if state is not None:
            return self._answers_of_state(self._mapping(state, files.STATE))
        predictions = self.folder.document(files.PREDICTIONS)
        if predictions is None:
            if not fits:  # says by how much
                self.folder.document(files.STATE)
            return []
        if not fits:
            self.notes.say(
                f"{files.STATE} is above limits.document_bytes, so {files.PREDICTIONS} was read; "
                "it does not say which requests failed or were blocked by a filter",
                self.folder.run,
            )
        return self._answers_of_predictions(self.entries(predictions, files.PREDICTIONS))

    def _answers_of_state(self, state: Mapping[str, Any]) -> list[Answer]:
        if not self.adapter and isinstance(state.get("adapter_spec"), Mapping):
            self.adapter = state["adapter_spec"]
        self._check_model(state)
        entries = self.entries(state.get("request_states"), files.STATE, "request_states")
        answers: list[Answer] = []
        seen: set[tuple[Any, ...]] = set()
        keys: set[Key] = set()
        for row, entry in enumerate(entries, start=1):
            instance = entry.get("instance")
            if not isinstance(instance, Mapping):
                raise self.error(files.STATE, "has no instance", row=row, column="instance")
            key = self._key(entry, instance, files.STATE, row)
            # A choice scored option by option has one request for each option.
            part = (key, str(entry.get("reference_index")), str(entry.get("request_mode")))
            if part in seen and self.adapter.get("method") != "language_modeling":
                raise self._twice(key, files.STATE, row)
            seen.add(part)
            self.instances.setdefault(key[:2], instance)
            if key not in keys:
                answers += self._completions(entry, key, row)
            keys.add(key)
        return answers

    def _check_model(self, state: Mapping[str, Any]) -> None:
        adapter = state.get("adapter_spec")
        model = adapter.get("model") if isinstance(adapter, Mapping) else None
        if isinstance(model, str) and model != self.target and self.adapter.get("model"):
            raise self.error(
                files.STATE,
                f"is of model {_shown(model)}, but {files.RUN_SPEC} of {_shown(self.target)}",
                column="adapter_spec.model",
                fix="take both files from the same run",
            )

    def _completions(self, entry: Mapping[str, Any], key: Key, row: int) -> Iterator[Answer]:
        """One answer, or one for each completion where each has annotations of its own."""
        result = entry.get("result")
        result = result if isinstance(result, Mapping) else None
        annotations = entry.get("annotations")
        each = annotations if isinstance(annotations, list) and annotations else [annotations]
        for completion, annotation in enumerate(each):
            yield Answer(
                key,
                completion,
                files.STATE,
                row,
                annotations=annotation if isinstance(annotation, Mapping) else {},
                why=_why_unjudged(result, completion),
                timestamp=_timestamp(result.get("request_datetime")) if result else None,
                raw=entry,
            )

    def _answers_of_predictions(self, entries: Sequence[Mapping[str, Any]]) -> list[Answer]:
        answers: list[Answer] = []
        seen: set[tuple[Any, ...]] = set()
        for row, entry in enumerate(entries, start=1):
            key = self._key(entry, entry, files.PREDICTIONS, row)
            if key in seen:
                raise self._twice(key, files.PREDICTIONS, row)
            seen.add(key)
            annotations = entry.get("annotations")
            each = annotations if isinstance(annotations, list) and annotations else [annotations]
            text = entry.get("predicted_text")
            for completion, annotation in enumerate(each):
                # The text is that of the first completion.
                blank = isinstance(text, str) and not text.strip() and not completion
                answers.append(
                    Answer(
                        key,
                        completion,
                        files.PREDICTIONS,
                        row,
                        annotations=annotation if isinstance(annotation, Mapping) else {},
                        why=EMPTY if blank else None,
                        raw=entry,
                    )
                )
        return answers

    def _per_instance(self) -> dict[Key, dict[str, float | None]]:
        """The stats of each response, from all the groups that HELM's metrics wrote for it."""
        document = self.folder.document(files.PER_INSTANCE)
        if document is None:
            if not self.answers:
                raise self.error(
                    "",
                    f"holds neither {files.STATE} nor {files.PREDICTIONS} nor {files.PER_INSTANCE}",
                    fix="copy the whole run folder",
                )
            self.notes.say(
                f"{files.PER_INSTANCE} is missing, so the verdicts were not compared with it",
                self.folder.run,
            )
            return {}
        merged: dict[Key, dict[str, float | None]] = {}
        self.stat_rows: dict[Key, int] = {}
        conflicts = 0
        for row, entry in enumerate(self.entries(document, files.PER_INSTANCE), start=1):
            key = self._key(entry, entry, files.PER_INSTANCE, row)
            self.stat_rows.setdefault(key, row)
            mine = merged.setdefault(key, {})
            for stat in self.entries(entry.get("stats"), files.PER_INSTANCE, "stats", row):
                name, mean = stat_of(stat)
                if name is None:
                    raise self.error(
                        files.PER_INSTANCE, "a stat has no name", row=row, column="stats.name"
                    )
                if name in mine and mine[name] != mean:
                    conflicts += 1
                mine.setdefault(name, mean)
        if conflicts:
            self.notes.say(
                f"{files.PER_INSTANCE} states the same stat of a response twice with different "
                "values, of which the first was kept",
                self.folder.run,
                conflicts,
            )
        return merged

    def _answers_of_stats(self) -> list[Answer]:
        return [Answer(key, 0, files.PER_INSTANCE, self.stat_rows[key]) for key in self.stats]

    def _add_unasked(self) -> None:
        """Instances that the run lists and never asked, in each trial."""
        document = self.folder.document(files.INSTANCES)
        if document is None:
            return
        answered = {answer.key for answer in self.answers}
        trials = sorted({key.trial for key in answered}) or [0]
        listed: set[tuple[str, str]] = set()
        for row, entry in enumerate(self.entries(document, files.INSTANCES), start=1):
            first = self._key(entry, entry, files.INSTANCES, row)
            if first[:2] in listed:
                raise self._twice(first, files.INSTANCES, row)
            listed.add(first[:2])
            self.instances.setdefault(first[:2], entry)
            missing = [trial for trial in trials if Key(*first[:2], trial) not in answered]
            if missing and entry.get("split") == "train":
                self.examples += 1
                continue
            self.unasked += [
                Answer(Key(*first[:2], trial), 0, files.INSTANCES, row, why=NOT_ATTEMPTED)
                for trial in missing
            ]

    # -- shapes ----------------------------------------------------------------------------------

    def _key(
        self, entry: Mapping[str, Any], instance: Mapping[str, Any], file: str, row: int
    ) -> Key:
        name = instance.get("instance_id", instance.get("id"))
        if isinstance(name, int) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(name, str) or not name:
            raise self.error(
                file,
                "has no instance id",
                row=row,
                column="id",
                fix="take the file that helm-run wrote",
            )
        trial = entry.get("train_trial_index", 0)
        if not isinstance(trial, int) or isinstance(trial, bool) or not 0 <= trial < _TRIALS:
            raise self.error(
                file, "is not a whole number from 0", row=row, column="train_trial_index"
            )
        return Key(name, _perturbation(instance.get("perturbation")), trial)

    def _mapping(self, document: Any, file: str) -> Mapping[str, Any]:
        if not isinstance(document, Mapping):
            raise self.error(file, "is not a JSON object", fix="take the file that helm-run wrote")
        return document

    def entries(
        self, document: Any, file: str, column: str | None = None, row: int | None = None
    ) -> Sequence[Mapping[str, Any]]:
        """A part of a document that is a list of JSON objects, or an error with its place."""
        if not isinstance(document, list) or not all(isinstance(x, Mapping) for x in document):
            raise self.error(
                file,
                "is not a list of JSON objects",
                row=row,
                column=column,
                fix="take the file that helm-run wrote",
            )
        return document

    def _twice(self, key: Key, file: str, row: int) -> InputError:
        return self.error(
            file,
            f"instance {_shown(key.instance)} occurs twice in trial {key.trial}",
            row=row,
            column="id",
            fix="remove one, or run helm-run again",
        )

    def error(
        self,
        file: str,
        problem: str,
        *,
        row: int | None = None,
        column: str | None = None,
        fix: str | None = None,
    ) -> InputError:
        """An error with its place in this run."""
        place = self.folder.source(file).location if file else self.folder.location
        return InputError(problem, file=place, row=row, column=column, fix=fix)


def _why_unjudged(result: Mapping[str, Any] | None, completion: int) -> Why | None:
    """Why there is nothing to judge: no request, a filter, a failed request, an empty answer."""
    if result is None:
        return NOT_ATTEMPTED
    completions = result.get("completions")
    mine = (
        completions[completion]
        if isinstance(completions, list) and completion < len(completions)
        else None
    )
    mine = mine if isinstance(mine, Mapping) else {}
    said = f"{_finish_reason(mine)} {result.get('error') or ''}"
    if known.mentions(said, known.FILTER_WORDS):
        return BLOCKED
    if result.get("success") is False or known.mentions(said, known.SERVER_WORDS):
        return REQUEST_FAILED
    text = mine.get("text")
    if (isinstance(text, str) and not text.strip()) or completions == []:
        return EMPTY
    return None


def _finish_reason(completion: Mapping[str, Any]) -> str:
    reason = completion.get("finish_reason")
    return str(reason.get("reason") if isinstance(reason, Mapping) else reason or "")


def _timestamp(seconds: Any) -> str | None:
    value = finite(seconds)
    try:
        return None if value is None else datetime.fromtimestamp(value, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return None


def _perturbation(description: Any) -> str:
    """Name of a perturbation with the settings that tell two of its kind apart."""
    if not isinstance(description, Mapping):
        return ""
    settings = ",".join(
        f"{key}={value}"
        for key, value in sorted(description.items())
        if key not in _FLAGS_OF_PERTURBATION and value is not None
    )
    name = str(description.get("name") or "perturbed")
    return f"{name}({settings})" if settings else name


def stat_of(stat: Mapping[str, Any]) -> tuple[str | None, float | None]:
    """Name and mean of a stat; no mean where nothing was counted."""
    name = stat.get("name")
    name = name.get("name") if isinstance(name, Mapping) else name
    counted = stat.get("count") != 0
    return (name if isinstance(name, str) else None), finite(stat.get("mean")) if counted else None


def _is_setting(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(part, str) for part in value)
    return (isinstance(value, str) and value != "") or finite(value) is not None


def encodable(text: str) -> str:
    """The text with what UTF-8 cannot hold replaced, for a digest."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
