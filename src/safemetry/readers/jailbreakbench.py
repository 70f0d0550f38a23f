"""JailbreakBench artifacts: the prompts that one attack found for one model, and what judges said.

An artifact is one JSON document, ``{"parameters": {...}, "jailbreaks": [...]}``, with an entry for
each behaviour of the benchmark. Where an attack found no prompt, the prompt is null, and the entry
says ``jailbroken: false``, which nobody judged.

docs/readers-jailbreakbench.md says what becomes of each field and why.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.evidence.identity import JudgeIdentity
from safemetry.evidence.maps import EvidenceMap
from safemetry.evidence.schema import BY_NAME, TEXT, Intent, Reason, Status
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.fields import counted, digest_of, encodable, field_of
from safemetry.readers.mapped_fields import CONTEXT, mapped_fields, translated_fields
from safemetry.readers.source import Source, finite

JAILBROKEN: Final = "jailbroken"
LLAMA_GUARD: Final = "jailbroken_llama_guard1"

_HEAD: Final = re.compile(rb'\s*\{.*?"parameters"\s*:\s*\{', re.DOTALL)
_ENTRY: Final = re.compile(rb'"jailbreaks"\s*:\s*\[\s*(?:\]|\{\s*"(?:index|Index|goal|Goal)")')
_REDACTED: Final = re.compile(r"<redacted \d+ chars>")
_NEEDED: Final = ("index", "behavior", "category", "prompt", "response", JAILBROKEN)
_KNOWN: Final = (
    "known are artifacts of release 1.0: parameters (method, model, attack_type, ...) and "
    "jailbreaks (index, goal, behavior, category, prompt, response, jailbroken, ...)"
)
_ALIASES: Final = {"9_11 conspiracy": "September 11th conspiracy"}
"""Behaviours that one released artifact spells in another way."""

_LONGEST: Final = 40
_LABELS: Final = {True: "comply", False: "refuse"}
_ROW: Final = (
    "target", "item", "judge", "label", "status", "reason", "benchmark", "category", "attack",
    "behaviour", "intent", "access", "timestamp", "source_file", "source_row",
)  # fmt: skip


class JailbreakBenchReader:
    """Reads an attack artifact of JailbreakBench."""

    name = "jailbreakbench"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the document opens as an artifact does: parameters, then jailbreaks."""
        head = source.head
        return _HEAD.match(head) is not None and _ENTRY.search(head) is not None

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert an artifact, one row a behaviour.

        Raises
        ------
        InputError
            Where the document is no artifact, of another release, or lacks a parameter.
        """
        return _Artifact(source, evidence_map).conversion()

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """Prompt and response of each behaviour; None where the copy has them removed.

        Raises
        ------
        InputError
            Where the document is no artifact.
        """
        yield from _Artifact(source, evidence_map).texts()


class Verdict(NamedTuple):
    """A class, or why there is none."""

    label: str | None = None
    status: Status = Status.OK
    reason: Reason | None = None


class _Artifact:
    """The parameters and entries of one document."""

    def __init__(self, source: Source, evidence_map: EvidenceMap) -> None:
        self._source = source
        self._map = evidence_map
        self._parameters, self._entries = _parts(source)
        self._method = self._parameter("method")
        defense = self._parameters.get("defense")
        model = self._parameter("model")
        # A defence is a part of the system under test.
        self._target = f"{model}+{self._parameter('defense')}" if defense is not None else model
        self._judges = [JAILBROKEN]
        if any(isinstance(entry, Mapping) and LLAMA_GUARD in entry for entry in self._entries):
            self._judges.append(LLAMA_GUARD)
        self._failures: list[InputError] = []
        self._seen: set[str] = set()
        self._tally: Counter[str] = Counter()

    def conversion(self) -> Conversion:
        """The judgements, and where the header says something else."""
        rows: list[dict[str, Any]] = []
        for number, entry in enumerate(self._entries, start=1):
            try:
                rows += self._rows(entry, number)
            except InputError as error:
                self._failures.append(
                    InputError(
                        error.problem,
                        file=self._source.shown,
                        row=number,
                        column=error.column,
                        fix=error.fix or "take the artifact as JailbreakBench published it",
                    )
                )
        if not self._entries:
            raise InputError("holds no behaviour", file=self._source.shown, column="jailbreaks")
        return Conversion(
            judgements=self._table(rows),
            rows_read=len(self._entries),
            failures=tuple(self._failures),
            warnings=tuple(self._warnings()) if rows else (),
            judges=self._identities() if rows else (),
            targets={self._target: self._settings()} if rows else {},
        )

    def texts(self) -> Iterator[ResponseText]:
        """The texts of every entry that can be read."""
        for number, entry in enumerate(self._entries, start=1):
            try:
                row = self._rows(entry, number)[0]
            except InputError:
                continue
            yield ResponseText(
                run=None,
                target=self._target,
                item=row["item"],
                epoch=1,
                prompt=_text(entry["prompt"]),
                response=_text(entry["response"]),
            )

    # --- parameters -------------------------------------------------------------------------------

    def _parameter(self, name: str) -> str:
        value = self._parameters.get(name)
        if not isinstance(value, str) or not value.strip():
            raise InputError(
                f"the parameter {name!r} is absent or no text",
                file=self._source.shown,
                column=f"parameters.{name}",
                fix=_KNOWN,
            )
        try:
            return encodable(value, f"parameters.{name}")
        except InputError as error:
            raise error.at(self._source.shown) from error

    def _stated(self, name: str) -> str | None:
        value = self._parameters.get(name)
        if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
            return None
        return encodable(value, f"parameters.{name}")

    def _settings(self) -> dict[str, Any]:
        """How the target was asked, and how hard the attack was allowed to try."""
        stated = {
            "defense": self._stated("defense"),
            "evaluation_llm_provider": self._stated("evaluation_llm_provider"),
        }
        settings: dict[str, Any] = {name: value for name, value in stated.items() if value}
        given = self._parameters.get("method_parameters")
        if isinstance(given, Mapping) and given:
            settings["attack_parameters"] = {
                self._method: {
                    encodable(str(key), "parameters.method_parameters"): _short(value)
                    for key, value in given.items()
                }
            }
        return settings

    def _identities(self) -> tuple[JudgeIdentity, ...]:
        """The judges; which model `jailbroken` asked is told by the older label beside it only."""
        asked = "Llama-3-70b-chat-hf" if LLAMA_GUARD in self._judges else None
        default = JudgeIdentity(JAILBROKEN, model=asked, parser="JailbreakBench")
        older = JudgeIdentity(LLAMA_GUARD, model="LlamaGuard-7b", parser="JailbreakBench")
        return (default, older) if LLAMA_GUARD in self._judges else (default,)

    # --- entries ----------------------------------------------------------------------------------

    def _rows(self, entry: Any, number: int) -> list[dict[str, Any]]:
        """The judgements of one behaviour."""
        _refuse_incomplete(entry)
        index = _index(entry["index"])
        if index in self._seen:
            raise InputError(
                f"the behaviour {index} stands twice", column="index", fix="remove the second copy"
            )
        tried = entry["prompt"] is not None
        verdicts = {judge: _verdict(entry, judge, tried=tried) for judge in self._judges}
        self._seen.add(index)
        self._tally["tried"] += tried
        self._tally["without a response"] += tried and not _is_present(entry["response"])
        for judge, verdict in verdicts.items():
            self._tally[judge] += verdict.label == _LABELS[True]
        context = self._context(entry, index, number)
        return [
            {
                **context,
                "judge": judge,
                "label": verdict.label,
                "status": str(verdict.status),
                "reason": verdict.reason and str(verdict.reason),
            }
            for judge, verdict in verdicts.items()
        ]

    def _context(self, entry: Mapping[str, Any], index: str, number: int) -> dict[str, Any]:
        """The columns that describe a behaviour rather than a verdict."""
        behaviour = " ".join(_named(entry, "behavior").split())
        context: dict[str, Any] = {
            "target": self._target,
            "item": f"{self._method}/{index}",
            "benchmark": "jailbreakbench",
            "category": _named(entry, "category"),
            "attack": self._method,
            "behaviour": _ALIASES.get(behaviour, behaviour),
            "intent": str(Intent.HARMFUL),
            "access": self._stated("attack_type"),
            "timestamp": self._stated("evaluation_date"),
            "source_file": self._source.name,
            "source_row": number,
        }
        for name, path in self._map.columns.items():
            value = field_of(entry, path) if name in CONTEXT or name == "item" else None
            if value is not None:
                context[name] = encodable(value, path)
        for path in translated_fields(self._map):
            value = field_of(entry, path)
            context[path] = None if value is None else encodable(value, path)
        return context

    def _table(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        for path in mapped_fields(self._map):
            if rows and all(field_of(entry, path) is None for entry in self._entries):
                raise InputError(
                    f"the map names {path!r}, which no entry has",
                    file=self._source.shown,
                    fix="give a field of an entry of jailbreaks, such as goal",
                )
        names = [*dict.fromkeys((*_ROW, *sorted(CONTEXT), *translated_fields(self._map)))]
        columns = {
            name: pa.array(
                [row.get(name) for row in rows], BY_NAME[name].type if name in BY_NAME else TEXT
            )
            for name in names
        }
        kept = {
            name: column
            for name, column in columns.items()
            if name in _ROW or column.null_count < len(column)
        }
        return pa.table(kept)

    # --- what the reader of the numbers must know -------------------------------------------------

    def _warnings(self) -> Iterator[str]:
        yield from self._header_warnings()
        if self._tally["without a response"]:
            yield (
                f"{counted(self._tally['without a response'], 'prompt')} got no response; they "
                "count as missing (no_response), not as refused."
            )
        yield (
            f"JailbreakBench writes {JAILBROKEN}: false also where the judge gives neither of its "
            "two answers; nothing in the artifact tells such a verdict from a real one."
        )

    def _header_warnings(self) -> Iterator[str]:
        """Where the counts of the header and of the entries differ."""
        total, tried = len(self._seen), self._tally["tried"]
        found = self._tally[JAILBROKEN]
        if tried < total:
            rates = f"{found / total:.3f} of all"
            rates += f", {found / tried:.3f} of those tried" if tried else ""
            yield (
                f"The attack gave up on {total - tried:,} of {counted(total, 'behaviour')}, which "
                "the artifact and its attack_success_rate call not jailbroken; here they are "
                "missing (not_attempted). "
                f"{JAILBROKEN} is true for {found:,}: {rates}."
            )
        stated = {
            "number_of_submitted_prompts": (self._number("number_of_submitted_prompts"), tried),
            "total_number_of_jailbreaks": (self._number("total_number_of_jailbreaks"), found),
            "attack_success_rate": (
                self._number("attack_success_rate"),
                found / total if total else 0.0,
            ),
        }
        for name, (header, counted_here) in stated.items():
            if header is None or abs(header - counted_here) < 5e-4:
                continue
            said = f"The header says {name} {header:g}; its entries give {counted_here:.4g}"
            older = self._tally[LLAMA_GUARD]
            if name.startswith("total") and LLAMA_GUARD in self._judges and header == older:
                said += f" by {JAILBROKEN} and {older:,} by {LLAMA_GUARD}"
            yield f"{said}. The entries are counted."

    def _number(self, name: str) -> float | None:
        return finite(self._parameters.get(name))


def _parts(source: Source) -> tuple[Mapping[str, Any], list[Any]]:
    """The parameters and the entries of an artifact.

    Raises
    ------
    InputError
        For another document, naming those of JailbreakBench that hold no verdicts of one attack.
    """
    if source.is_folder:
        raise InputError(
            "is a folder, an artifact is one file",
            file=source.shown,
            fix="leave out --as, which finds every artifact in it, or name one",
        )
    document = source.read_json()
    if isinstance(document, Mapping):
        for other, keys in _OTHERS.items():
            if keys <= set(document) and "jailbreaks" not in document:
                raise InputError(
                    f"is {other} of JailbreakBench, no artifact",
                    file=source.shown,
                    fix="name the artifact itself, ATTACK/TYPE/MODEL.json",
                )
    parameters = document.get("parameters") if isinstance(document, Mapping) else None
    entries = document.get("jailbreaks") if isinstance(document, Mapping) else None
    if not isinstance(parameters, Mapping) or not isinstance(entries, list):
        lacking = "jailbreaks" if isinstance(parameters, Mapping) else "parameters"
        raise InputError(
            f"is no artifact of JailbreakBench: it has no {lacking!r}",
            file=source.shown,
            fix=_KNOWN,
        )
    if "model name" in parameters or any(isinstance(e, Mapping) and "Index" in e for e in entries):
        raise InputError(
            "is an artifact from before release 1.0 (its fields are called 'model name', 'Index')",
            file=source.shown,
            fix=_KNOWN,
        )
    return parameters, entries


_OTHERS: Final = {
    "the list of models of an attack": {"models"},
    "an evaluation before it was submitted": {"details"},
    "a submission with its logs": {"summaries"},
}


def _refuse_incomplete(entry: Any) -> None:
    if not isinstance(entry, Mapping):
        raise InputError("is no object", column="jailbreaks")
    for name in _NEEDED:
        if name not in entry:
            raise InputError(f"has no {name!r}", column=name, fix=_KNOWN)


def _index(value: Any) -> str:
    """The number of a behaviour; some artifacts write it as text."""
    if type(value) is int:
        return str(value)
    if isinstance(value, str) and value.strip():
        return encodable(value, "index")
    raise InputError("is neither a number nor text", column="index")


def _named(entry: Mapping[str, Any], name: str) -> str:
    value = entry[name]
    if not isinstance(value, str) or not value.strip():
        raise InputError("is no text", column=name)
    return encodable(value, name)


def _verdict(entry: Mapping[str, Any], judge: str, *, tried: bool) -> Verdict:
    """What a judge said about a behaviour, or why it did not."""
    said = entry.get(judge)
    if said is not None and not isinstance(said, bool):
        raise InputError("is neither true nor false", column=judge)
    if not tried:
        if said:
            raise InputError("is true, and there is no prompt", column=judge)
        return Verdict(status=Status.MISSING, reason=Reason.NOT_ATTEMPTED)
    if not _is_present(entry["response"]):
        if said:
            raise InputError("is true, and there is no response", column=judge)
        return Verdict(status=Status.MISSING, reason=Reason.NO_RESPONSE)
    if said is None:
        return Verdict(status=Status.MISSING, reason=Reason.GRADER_FAILED)
    return Verdict(_LABELS[said])


def _is_present(value: Any) -> bool:
    """Whether a text is there; copies without texts hold its length in its place."""
    return value is not None and value != ""


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value or _REDACTED.fullmatch(value):
        return None
    return value.encode("utf-8", "backslashreplace").decode()


def _short(value: Any) -> Any:
    """A parameter of an attack: a number, a short word, or the digest of a text."""
    if value is None or isinstance(value, bool) or finite(value) is not None:
        return value
    if isinstance(value, str) and len(value) <= _LONGEST and value.isascii() and " " not in value:
        return value
    return digest_of(str(value))
