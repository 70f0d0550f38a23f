"""Runs of the lm-evaluation-harness: what a samples file's place and the results beside it say.

The harness writes ``OUTPUT/MODEL/samples_TASK_TIME.jsonl`` and, with the same time, one
``results_TIME.json``. Only the latter and the folder name the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.source import Source, finite

UNFILTERED: Final = "none"
"""The filter that the harness names where a task has none."""

_FILE_NAME: Final = re.compile(
    r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl?"
)
_MODEL_ARGUMENTS: Final = ("peft", "delta", "pretrained", "model", "path", "engine")
"""Arguments that name the model, in the order in which the harness looks for them."""
_MODEL_SETTINGS: Final = {
    "backend": "model",
    "model_revision": "model_revision",
    "model_sha": "model_sha",
    "model_dtype": "model_dtype",
}
_GENERATION_SETTINGS: Final = ("temperature", "top_p", "top_k", "do_sample", "max_gen_toks")
_DIGESTS: Final = {
    "chat_template": "chat_template_sha",
    "system_instruction": "system_instruction_sha",
}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_KNOWN_VERSION: Final = "0.4."
_TOLERANCE: Final = 1e-6


@dataclass(frozen=True)
class FileName:
    """What the name of a samples file says.

    Parameters
    ----------
    task
        Name of the task.
    time
        Time of the run, as the name spells it.
    """

    task: str
    time: str

    @property
    def timestamp(self) -> str:
        """The time as ISO 8601 writes it; the harness states no zone."""
        day, _, clock = self.time.partition("T")
        return f"{day}T{clock.replace('-', ':')}"


def file_name_of(source: Source) -> FileName | None:
    """The parts of the name, or None where the harness would not have given it."""
    found = _FILE_NAME.fullmatch(source.name)
    return FileName(found["task"], found["time"]) if found else None


@dataclass(frozen=True)
class Mean:
    """The mean of one metric under one filter, as the samples give it."""

    metric: str
    filter: str
    value: float
    documents: int


@dataclass(frozen=True)
class Results:
    """The file of results that belongs to a samples file.

    Parameters
    ----------
    name
        Its name.
    content
        What it holds.
    """

    name: str
    content: Mapping[str, Any]

    def part(self, *path: str) -> Mapping[str, Any]:
        """An object inside, empty where it is absent or something else."""
        value: Any = self.content
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, Mapping) else {}

    @property
    def model(self) -> str | None:
        """The model, as the harness derives its name from the arguments."""
        stated = _text(self.content.get("model_name"))
        return stated or _model_of(self.part("config").get("model_args"))

    @property
    def version(self) -> str | None:
        """Release of the harness."""
        return _text(self.content.get("lm_eval_version"))

    def filters(self, task: str) -> list[str]:
        """The filters of a task in their order, by the names of its figures."""
        names = (name.partition(",") for name in self.part("results", task))
        return list(
            dict.fromkeys(f for metric, comma, f in names if comma and "_stderr" not in metric)
        )

    def settings(self) -> dict[str, Any]:
        """How the target ran, without its arguments, which may hold keys.

        A setting that differs between the tasks of the run is given for each of them.
        """
        config = self.part("config")
        found: dict[str, Any] = {
            ours: value
            for ours, theirs in _MODEL_SETTINGS.items()
            if (value := _text(config.get(theirs)))
        }
        shots = {task: n for task, n in self.part("n-shot").items() if type(n) is int}
        found |= _in_common("num_fewshot", shots)
        tasks = {task: self.part("configs", task, "generation_kwargs") for task in shots}
        for name in _GENERATION_SETTINGS:
            values = {
                task: value
                for task, settings in tasks.items()
                if isinstance(value := settings.get(name), bool | int | float)
                and finite(value) is not None
            }
            found |= _in_common(name, values)
        if isinstance(multiturn := self.content.get("fewshot_as_multiturn"), bool):
            found["fewshot_as_multiturn"] = multiturn
        found |= {
            ours: value[:16]
            for ours, theirs in _DIGESTS.items()
            if (value := _text(self.content.get(theirs))) and _DIGEST.fullmatch(value)
        }
        return found

    def warnings(self, task: str, documents: int, means: Sequence[Mean]) -> Iterator[str]:
        """Where the results and the samples disagree, in whole sentences."""
        if self.version is not None and not self.version.startswith(_KNOWN_VERSION):
            yield (
                f"{self.name} was written by lm-eval {self.version}; this reader knows "
                f"{_KNOWN_VERSION}0 to {_KNOWN_VERSION}13, and fields of another meaning would go "
                "unnoticed."
            )
        counted = self.part("n-samples", task).get("effective")
        if type(counted) is int and counted != documents:
            yield (
                f"{self.name} counts {counted:,} documents of {task}, the samples hold "
                f"{documents:,}."
            )
        figures = self.part("results", task)
        for mean in means:
            if not self._is_mean(task, mean.metric):
                continue
            key = f"{mean.metric},{mean.filter}"
            stated = finite(figures.get(key, figures.get(mean.metric)))
            if stated is not None and abs(stated - mean.value) > _TOLERANCE:
                yield (
                    f"{self.name} gives {key} of {task} as {stated:.4f}, its "
                    f"{mean.documents:,} samples as {mean.value:.4f}; the samples are kept."
                )

    def _is_mean(self, task: str, metric: str) -> bool:
        """Whether the figure of a metric is the mean over documents."""
        listed = self.part("configs", task).get("metric_list")
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, Mapping) and entry.get("metric") == metric:
                return bool(entry.get("aggregation", "mean") == "mean")
        return True


def results_beside(source: Source, name: FileName | None) -> tuple[Results | None, str | None]:
    """The results of the same run in the same folder, or a sentence that says why there are none.

    Both are None where there is no such file.
    """
    path = _results_path(source, name)
    if path is None:
        return None, None
    beside = Source(str(path), source.limits)
    try:
        content = beside.parse_json(beside.read_text(), constant=float)
    except InputError as error:
        return None, f"{path.name} beside it was not used: it {error.problem}."
    if not isinstance(content, Mapping):
        return None, f"{path.name} beside it was not used: it is no JSON object."
    return Results(path.name, content), None


def _results_path(source: Source, name: FileName | None) -> Path | None:
    if source.is_remote or name is None:
        return None
    usual = source.path.with_name(f"results_{name.time}.json")
    if usual.is_file():
        return usual
    # Where the output path was a file, its stem takes the place of "results".
    try:
        others = [
            path
            for path in source.path.absolute().parent.iterdir()
            if path.name.endswith(f"_{name.time}.json") and path.is_file()
        ]
    except OSError:
        return None
    return others[0] if len(others) == 1 and others[0].name != source.name else None


def target_of(
    source: Source, evidence_map: EvidenceMap, results: Results | None
) -> tuple[str, str | None]:
    """The target, and a sentence about where its name is from, where the map does not give it.

    Raises
    ------
    InputError
        Where neither the map, nor the results, nor the folder name it.
    """
    stated = results.model if results is not None else None
    given = evidence_map.constants.get("target")
    if given is not None:
        said = None
        if results is not None and stated not in {None, given}:
            said = f"The map names the target {given!r}, {results.name} names {stated!r}."
        return given, said
    if results is not None and stated is not None:
        return stated, f"The target {stated!r} is named by {results.name} beside the samples."
    folder = _folder_of(source)
    model = _model_of_folder(folder)
    if model is not None:
        return model, (
            f"The target {model!r} is named by the folder {folder!r} alone, in which __ stands for "
            "a slash."
        )
    raise InputError(
        "does not name its target: no results_*.json of the same run lies beside it, and its "
        "folder is not named for a model",
        file=source.shown,
        column="target",
        fix="name it with --set target=NAME, or in the map (constants: {target: NAME})",
    )


def _folder_of(source: Source) -> str:
    if source.is_remote:
        return unquote(PurePosixPath(source.shown).parent.name)
    return source.path.absolute().parent.name


def _model_of_folder(name: str) -> str | None:
    """The model after which the harness names a folder: ORGANISATION__MODEL, or a longer path.

    A name without the two underscores could be any folder, and a folder for temporary files is
    none of a model.
    """
    first, *rest = name.split("__")
    is_path = all(rest) and len(rest) >= (1 if first else 2)
    if not is_path or name.startswith("tmp") or not _text(name):
        return None
    return name.replace("__", "/")


def _model_of(arguments: Any) -> str | None:
    """The model in the arguments of releases that do not name it (``pretrained=...,dtype=...``)."""
    if isinstance(arguments, str):
        parts = (part.partition("=") for part in arguments.split(","))
        arguments = {name.strip(): value for name, _, value in parts}
    if not isinstance(arguments, Mapping):
        return None
    return next((name for key in _MODEL_ARGUMENTS if (name := _text(arguments.get(key)))), None)


def _in_common(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The setting, as one value where all tasks share it."""
    named = {task: value for task, value in values.items() if _text(task)}
    if not named:
        return {}
    first = next(iter(named.values()))
    return {name: first if all(value == first for value in named.values()) else named}


def _text(value: Any) -> str | None:
    """A text of the results that UTF-8 can hold, or None."""
    if not isinstance(value, str) or not value.strip():
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
