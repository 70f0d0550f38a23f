"""Parts of Inspect samples that a map asks for, such as ``metadata.category``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap, FromColumn
from safemetry.evidence.schema import BY_NAME
from safemetry.readers.source import Source

_REMOVED: Final = "Key removed from summary (> 1k)"
_SHORTENED: Final = ("...", "...\n(content truncated)")

_FROM_SCORES: Final = frozenset(
    {"label", "score", "status", "reason", "judge", "call", "source_file", "source_row"}
)
"""Columns that no part of a sample but its scores can give."""

_SAMPLE: Final = "sample."
_SINGLE: Final = frozenset({"id", "epoch", "target"})
_NESTED: Final = ("metadata.", "eval.")
_TEXTS: Final = frozenset({"input", "output", "messages", "choices", "store", "events"})


@dataclass(frozen=True)
class SampleSheet:
    """The samples of a log as far as they are read.

    Attributes
    ----------
    header
        Inspect's log without its samples.
    samples
        Samples or their summaries, one per item and epoch.
    in_full
        Whether they are complete samples.
    read_again
        Reads the samples of some rows in full, but for their texts.
    read_texts
        Gives each of some rows with its sample, texts included, few at a time.
    superseded
        Samples that a later attempt replaces.
    """

    header: Any
    samples: Sequence[Any]
    in_full: bool
    read_again: Callable[[Sequence[int]], Sequence[Any]]
    read_texts: Callable[[Sequence[int]], Iterator[tuple[int, Any]]]
    superseded: int = 0


def check_map(evidence_map: EvidenceMap, source: Source) -> None:
    """Check that a map asks for parts that a sample has and that may be carried.

    Raises
    ------
    InputError
        Naming the first entry that does not.
    """
    for ours, path in evidence_map.columns.items():
        if ours in _FROM_SCORES:
            raise InputError(
                f"the map takes {ours!r} from {path!r}, but in an Inspect log it comes from the "
                "scores",
                file=source.location,
                fix=f"leave it out of the map's columns: {ours}",
            )
    for path in _paths(evidence_map):
        if path.partition(".")[0] in _TEXTS:
            raise InputError(
                "texts of prompts and responses are not carried into the evidence",
                file=source.location,
                column=path,
                fix="map a key of the sample's metadata, such as metadata.category",
            )
        if path.removeprefix(_SAMPLE) not in _SINGLE and not path.startswith(_NESTED):
            raise InputError(
                "is no part of a sample that can be mapped",
                file=source.location,
                column=path,
                fix="write metadata.KEY, id, epoch, target, or eval.KEY for a part of the header",
            )
    for spec in (evidence_map.intent, evidence_map.status):
        if isinstance(spec, FromColumn) and spec.column in BY_NAME:
            # the table has a column of this name, which is another thing
            raise InputError(
                "is ambiguous here",
                file=source.location,
                column=spec.column,
                fix=f"write {_SAMPLE}{spec.column} for the sample's own",
            )


def _paths(evidence_map: EvidenceMap) -> list[str]:
    asked = list(evidence_map.columns.values())
    asked += [
        spec.column
        for spec in (evidence_map.intent, evidence_map.status)
        if isinstance(spec, FromColumn)
    ]
    return list(dict.fromkeys(asked))


def read_context(
    source: Source, sheet: SampleSheet, evidence_map: EvidenceMap
) -> dict[str, list[str | None]]:
    """Path of the map -> its text for each sample.

    A summary holds metadata with long texts shortened and large values removed; the samples
    concerned are read in full. Whether a summary without any metadata stands for a sample without
    any is not known (early releases wrote none), so those are read in full as well.

    Raises
    ------
    InputError
        Where no sample has what the map names.
    """
    paths = _paths(evidence_map)
    of_header = {path: _at(sheet.header, path) for path in paths if path.startswith("eval.")}
    samples = list(sheet.samples)
    raw = {
        path: [of_header[path]] * len(samples)
        if path in of_header
        else [_of_sample(sample, path) for sample in samples]
        for path in paths
    }
    if not sheet.in_full:
        again = sorted(_rows_to_read_again(raw, samples))
        for row, sample in zip(again, sheet.read_again(again) if again else (), strict=True):
            samples[row] = sample
            for path in raw.keys() - of_header:
                raw[path][row] = _of_sample(sample, path)
    context = {path: [_text(value) for value in values] for path, values in raw.items()}
    _check_found(context, source, samples)
    return context


def _rows_to_read_again(raw: Mapping[str, Sequence[Any]], samples: Sequence[Any]) -> set[int]:
    of_samples = {path: values for path, values in raw.items() if not path.startswith("eval.")}
    if any(all(value is None for value in values) for values in of_samples.values()):
        return set(range(len(samples)))
    return {row for path, values in of_samples.items() for row in _cut_rows(path, values, samples)}


def _cut_rows(path: str, values: Sequence[Any], samples: Sequence[Any]) -> Iterator[int]:
    from_metadata = path.startswith("metadata.")
    for row, value in enumerate(values):
        if isinstance(value, str):
            if value.endswith(_SHORTENED):
                yield row
        elif value is None and from_metadata:
            metadata = samples[row].metadata
            key = path.split(".")[1]
            if not metadata or metadata.get(key) == _REMOVED:
                yield row
        if value == _REMOVED:
            yield row


def _check_found(
    context: Mapping[str, Sequence[str | None]], source: Source, samples: Sequence[Any]
) -> None:
    for path, values in context.items():
        if all(value is None for value in values):
            if path.startswith("eval."):
                raise InputError(
                    "the header of the log does not have it",
                    file=source.location,
                    column=path,
                    fix="its parts are task, task_args.NAME, metadata.NAME, model, and so on",
                )
            keys = sorted({key for sample in samples for key in _keys(sample.metadata, "metadata")})
            there = f"there are {', '.join(keys[:20])}" if keys else "their metadata is empty"
            raise InputError("no sample has it", file=source.location, column=path, fix=there)


def _keys(metadata: Mapping[str, Any], above: str) -> Iterator[str]:
    for key, value in metadata.items():
        if isinstance(value, Mapping) and value:
            yield from _keys(value, f"{above}.{key}")
        else:
            yield f"{above}.{key}"


def _of_sample(sample: Any, path: str) -> Any:
    single = path.removeprefix(_SAMPLE)
    if single not in _SINGLE:
        return _under(sample.metadata, path.removeprefix("metadata."))
    value = getattr(sample, single)
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _under(value: Any, path: str) -> Any:
    """A value by its dotted path; a key that itself holds dots is found too."""
    if not isinstance(value, Mapping):
        return None
    if path in value:
        return value[path]
    for key, inner in value.items():
        if (
            path.startswith(f"{key}.")
            and (found := _under(inner, path[len(key) + 1 :])) is not None
        ):
            return found
    return None


def _at(header: Any, path: str) -> Any:
    return _under(header.eval.model_dump(mode="json", exclude_none=True), path.partition(".")[2])


def _text(value: Any) -> str | None:
    """A cell: white space as Inspect's summaries have it, so that both kinds of log agree."""
    if value is None:
        return None
    if isinstance(value, str):
        return " ".join(value.split()) or None
    if isinstance(value, bool | int | float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
