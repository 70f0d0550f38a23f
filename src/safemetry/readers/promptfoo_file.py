"""Files of promptfoo: the JSON document of an evaluation, and its results as lines.

A file is told by the names of its outermost fields, which stand in the head of the file. What it
says of itself (evaluation, release, targets, totals) is taken, and nothing else of it: the
configuration may hold keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from safemetry.errors import InputError
from safemetry.readers.fields import counted
from safemetry.readers.json_head import members_of, names_in
from safemetry.readers.source import Source, finite

KNOWN_VERSION: Final = 3
"""The version of the results that releases 0.118 to 0.121 write."""

_RESULT_FIELDS: Final = frozenset(
    {
        "cost", "error", "evaluationId", "failureReason", "gradingResult", "id", "latencyMs",
        "metadata", "namedScores", "prompt", "promptId", "promptIdx", "provider", "response",
        "score", "success", "testCase", "testIdx", "tokenUsage", "traceId", "vars", "description",
    }
)  # fmt: skip
_TELLING: Final = frozenset({"gradingResult", "namedScores", "promptIdx", "testIdx", "promptId"})
_EVALUATION: Final = frozenset({"timestamp", "prompts", "results", "table", "stats"})
_SETTINGS: Final = ("temperature", "top_p", "max_tokens", "seed")
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Totals:
    """What promptfoo counted: tests that passed, failed and ended in an error."""

    passed: int
    failed: int
    errors: int

    def __str__(self) -> str:
        return f"{self.passed:,} passed, {self.failed:,} failed and {self.errors:,} with an error"


@dataclass(slots=True)
class Header:
    """What a document says of itself; lines of results say nothing."""

    run: str | None = None
    release: str | None = None
    timestamp: str | None = None
    grader: str | None = None
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    stated: Totals | None = None
    stated_by_column: dict[int, Totals] = field(default_factory=dict)
    is_document: bool = False


def is_document(source: Source) -> bool:
    """Whether the head is that of the JSON document of an evaluation."""
    members = members_of(source)
    inside = members.get("results", frozenset())
    return (
        "testIdx" not in members and "version" in inside and bool(_EVALUATION.intersection(inside))
    )


def is_lines(source: Source) -> bool:
    """Whether the first line is a result, or as much of one as the head holds."""
    line, end, _ = source.head.lstrip().partition(b"\n")
    fields = names_in(line)
    if end or {"testIdx", "promptIdx"} <= fields:
        return {"testIdx", "promptIdx"} <= fields and bool(fields & {"success", "gradingResult"})
    return fields <= _RESULT_FIELDS and bool(fields & _TELLING)


def is_display_table(source: Source) -> bool:
    """Whether this is the CSV that promptfoo writes for people: its cells hold texts, no ids."""
    line = source.head.partition(b"\n")[0]
    return b",Status,Score," in line and b"Grader Reason" in line


# --- the document -----------------------------------------------------------------------------


def read_document(source: Source) -> tuple[Header, list[Any]]:
    """The header and the results of a document.

    Raises
    ------
    InputError
        Where it is damaged, of another version, or holds no results.
    """
    document = source.read_json()
    summary = document.get("results") if isinstance(document, Mapping) else None
    if not isinstance(summary, Mapping):
        raise not_promptfoo(source)
    version = summary.get("version")
    if version != KNOWN_VERSION or isinstance(version, bool):
        shown = version if isinstance(version, int) else "unknown"
        raise InputError(
            f"holds results of version {shown}; the version that is read is {KNOWN_VERSION}",
            file=source.shown,
            column="results.version",
            fix="export it again with a release that writes version 3, as 0.118 to 0.121 do",
        )
    results = summary.get("results")
    if not isinstance(results, list):
        raise not_promptfoo(source)
    return _header(document, summary), results


def not_promptfoo(source: Source) -> InputError:
    """The error for a file that is neither a document nor lines of results."""
    return InputError(
        "is neither a JSON document nor JSON lines of promptfoo results",
        file=source.shown,
        fix="name what `promptfoo eval -o results.json` or `-o results.jsonl` wrote",
    )


def is_text(value: Any) -> TypeGuard[str]:
    """Whether a value is text that UTF-8 can hold."""
    if not isinstance(value, str) or not value.strip():
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def id_of(value: Any) -> str | None:
    """The id of a provider that is stated as text or as an object."""
    found = value.get("id") if isinstance(value, Mapping) else value
    return found if is_text(found) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _header(document: Mapping[str, Any], summary: Mapping[str, Any]) -> Header:
    config = _mapping(document.get("config"))
    release = _mapping(document.get("metadata")).get("promptfooVersion")
    stated = {
        at: totals
        for at, column in enumerate(_list(summary.get("prompts")))
        if (totals := _column_totals(_mapping(column).get("metrics"))) is not None
    }
    default_test = _mapping(config.get("defaultTest"))
    grader = _mapping(default_test.get("options")).get("provider")
    return Header(
        run=document["evalId"] if is_text(document.get("evalId")) else None,
        release=release if is_text(release) else None,
        timestamp=summary["timestamp"] if is_text(summary.get("timestamp")) else None,
        grader=id_of(_mapping(config.get("redteam")).get("provider")) or id_of(grader),
        settings=_settings(_list(config.get("providers"))),
        stated=_totals(summary.get("stats"), "successes", "failures", "errors"),
        stated_by_column=stated,
        is_document=True,
    )


def _column_totals(metrics: Any) -> Totals | None:
    return _totals(metrics, "testPassCount", "testFailCount", "testErrorCount")


def _totals(counts: Any, passed: str, failed: str, errors: str) -> Totals | None:
    """Three counts of promptfoo; older releases counted no errors."""
    values = [_mapping(counts).get(name, 0) for name in (passed, failed, errors)]
    if passed not in _mapping(counts) or any(type(value) is not int for value in values):
        return None
    return Totals(*values)


def _settings(providers: list[Any]) -> dict[str, dict[str, Any]]:
    """Provider -> the decoding settings that it states, by label, else id."""
    found: dict[str, dict[str, Any]] = {}
    for provider in providers:
        stated = _mapping(provider)
        label = stated.get("label")
        name = label if is_text(label) else id_of(provider)
        if name is None:
            continue
        config = _mapping(stated.get("config"))
        numbers = {key: config[key] for key in _SETTINGS if finite(config.get(key)) is not None}
        known = found.setdefault(name, numbers)
        if known != numbers:  # one name for several settings says nothing
            found[name] = {}
    return found


# --- totals -----------------------------------------------------------------------------------


def total_warnings(header: Header, counts: Mapping[int, Counter[str]]) -> Iterator[str]:
    """Where promptfoo's own totals and its results disagree.

    Parameters
    ----------
    header
        What the document says.
    counts
        Column -> its results by ``passed``, ``failed`` and ``errors``.
    """
    if not header.is_document:
        return
    whole: Counter[str] = sum(counts.values(), Counter())
    found = _counted_totals(whole)
    if header.stated is not None and header.stated != found:
        yield f"promptfoo counted {header.stated}; its results give {found}."
    differing = [
        f"promptfoo's totals of column {column + 1} say {stated}; its results give {given}."
        for column, stated in header.stated_by_column.items()
        if (given := _counted_totals(counts.get(column, Counter()))) != stated
    ]
    yield from differing[:_SHOWN]
    if len(differing) > _SHOWN:
        yield f"{counted(len(differing) - _SHOWN, 'more column')} disagree in the same way."


def _counted_totals(counts: Mapping[str, int]) -> Totals:
    return Totals(counts.get("passed", 0), counts.get("failed", 0), counts.get("errors", 0))
