"""Journals of modelbench: their lines, plain or compressed, and what their entries are called.

modelbench writes ``journal-run-TIME.jsonl.zst``: one JSON object for each event of a run.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Final

import pyarrow as pa

from safemetry.errors import InputError
from safemetry.readers.fields import encodable
from safemetry.readers.source import HEAD_BYTES, Source, finite

STARTS: Final = ("starting journal", "starting run", "starting calibration run")
"""What the first entry of a journal says."""

QUEUED: Final = "queuing item"
RESPONDED: Final = frozenset({"fetched sut response", "using cached sut response"})
ANSWERED: Final = "translated sut response"
ANNOTATOR_RESPONDED: Final = frozenset(
    {"fetched annotator response", "using cached annotator response"}
)
ANNOTATED: Final = "translated annotation"
MEASURED: Final = "measured item quality"
OVERRULED: Final = "overrode item quality"
TARGET_FAILED: Final = "sut exception"
ANNOTATOR_FAILED: Final = "annotator exception"
MEASURING_FAILED: Final = "annotation exception"
FINISHED: Final = "item finished"
FAILED: Final = "item failed"

SKIPPED: Final = {
    **dict.fromkeys(STARTS, "start of a run"),
    **dict.fromkeys(("hazard info", "test info"), "settings of a run"),
    **dict.fromkeys(
        ("running pipeline", "using test items", "finished pipeline", "cache info"),
        "progress of a run",
    ),
    QUEUED: "prompt sent (judged in later lines)",
    **dict.fromkeys(RESPONDED, "response before translation"),
    ANSWERED: "response of a target",
    **dict.fromkeys(ANNOTATOR_RESPONDED, "annotator response before translation"),
    ANNOTATED: "annotation without is_safe",
    MEASURED: "measurement without is_safe",
    OVERRULED: "measurement overruled (judged in the next line)",
    TARGET_FAILED: "failure of a target (judged by the line of its prompt)",
    ANNOTATOR_FAILED: "failure of an annotator without is_safe",
    MEASURING_FAILED: "failure of a measurement without is_safe",
    **dict.fromkeys((FINISHED, FAILED), "end of an item"),
    "test scored": "summary of a test",
    **dict.fromkeys(("hazard scored", "hazard calibrated"), "summary of a hazard"),
    **dict.fromkeys(("benchmark scored", "benchmark calibrated"), "summary of a benchmark"),
    **dict.fromkeys(
        (
            "finished run",
            "finished calibration run",
            "closing journal",
            "exception stopping run",
        ),
        "end of a run",
    ),
}
"""Message of an entry -> why the entry is skipped, where it makes no judgement."""
UNKNOWN: Final = "entry of an unknown kind"

_ZSTANDARD: Final = b"\x28\xb5\x2f\xfd"
_START: Final = re.compile(
    rb'"message"\s*:\s*"(?:' + b"|".join(start.encode() for start in STARTS) + rb')"'
)
_SAFE_TEST: Final = re.compile(r"safe-(?P<hazard>[a-z_]+)-(?:(?P<locale>[a-z]{2}_[a-z]{2})-)?.*")
_SECURITY_TEST: Final = re.compile(
    r"security-(?P<attack>[a-z_]+)-(?:(?P<locale>[a-z]{2}_[a-z]{2})-)?.*"
)
_TOLERANCE: Final = 1e-6


# --- lines ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Compressed(Source):
    """A source whose bytes are those that a zstd stream expands to."""

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with super().open() as stream, io.BufferedReader(_Expanding(self, stream)) as expanded:
            yield expanded


class _Expanding(io.RawIOBase):
    """Bytes of a zstd stream, within the limits on what it expands to."""

    def __init__(self, source: Source, stream: IO[bytes]) -> None:
        self._source = source
        self._compressed = stream
        self._stream = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
        self._total = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._stream.read(len(buffer))
        except OSError as error:
            raise InputError(
                "is damaged or cut short (its zstd stream cannot be expanded)",
                file=self._source.shown,
                fix="copy it again; what is left of the journal of a run that was killed can be "
                "expanded with zstd -d first",
            ) from error
        buffer[: len(piece)] = piece
        self._total += len(piece)
        self._check()
        return len(piece)

    def _check(self) -> None:
        limits, total = self._source.limits, self._total
        if total > limits.expanded_bytes:
            raise InputError(
                f"expands to more than the limit of {limits.expanded_bytes:,} bytes",
                file=self._source.shown,
                fix="raise limits.expanded_bytes in the map if you trust the file",
            )
        # What lies in the buffers of the decoder is not expanded yet, so a piece is allowed.
        size = self._source.size
        if size is not None and total > limits.expansion * size + HEAD_BYTES:
            raise InputError(
                f"expands to more than {limits.expansion:,} times its size",
                file=self._source.shown,
                fix="raise limits.expansion in the map if you trust the file",
            )


def is_journal(source: Source) -> bool:
    """Whether the first line is the first entry of a journal."""
    try:
        head = opened(source).head
    except InputError:
        return False  # some other zstd file, or one that is cut within its first piece
    line = head.lstrip().partition(b"\n")[0]
    return line.startswith(b"{") and _START.search(line) is not None


def opened(source: Source) -> Source:
    """The source whose lines are the entries: itself, or what it expands to."""
    if source.head.startswith(_ZSTANDARD):
        return _Compressed(source.location, source.limits)
    return source


def decode(text: str) -> Any:
    """JSON with NaN and infinities, which responses of models hold beside the verdicts."""
    return json.loads(text, parse_constant=float)


# --- names ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TestName:
    """What the uid of a test says of its prompts.

    Parameters
    ----------
    hazard
        Key of the hazard, such as ``vcr``.
    attack
        ``jailbreak`` or ``naive`` in security tests.
    language
        Language tag of the locale.
    elicits
        Whether every prompt asks for something hazardous: so in the safety and security tests.
    """

    __test__ = False  # no test case, whatever pytest makes of the name

    hazard: str | None = None
    attack: str | None = None
    language: str | None = None
    elicits: bool = False

    @classmethod
    def of(cls, uid: str) -> TestName:
        """Read a uid such as ``safe-vcr-en_us-practice-1.0``."""
        if found := _SAFE_TEST.fullmatch(uid):
            return cls(found["hazard"], None, _language(found["locale"]), elicits=True)
        if found := _SECURITY_TEST.fullmatch(uid):
            return cls(None, found["attack"], _language(found["locale"]), elicits=True)
        return cls()


def _language(locale: str | None) -> str | None:
    if locale is None:
        return None
    language, _, country = locale.partition("_")
    return f"{language}-{country.upper()}"


# --- summaries ------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Measurements of one target on one test: how many there are, and how many say safe."""

    measured: int = 0
    safe: float = 0.0


@dataclass
class Summaries:
    """What a journal says of its own figures.

    Parameters
    ----------
    tests
        (benchmark, hazard) -> its tests.
    hazards
        Entries that score a hazard.
    finished
        (target, test) -> items that finished, as counted in the entry that scores the test.
    announced
        Test -> prompts that the run was going to use.
    """

    tests: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    hazards: list[Mapping[str, Any]] = field(default_factory=list)
    finished: dict[tuple[str, str], int] = field(default_factory=dict)
    announced: dict[str, int] = field(default_factory=dict)

    def learn(self, entry: Mapping[str, Any]) -> None:
        """Take an entry that holds a figure or says what it is made of.

        Raises
        ------
        InputError
            Where one of its names holds what UTF-8 cannot.
        """
        message = entry["message"]
        if message == "hazard info":
            tests = entry.get("tests")
            if isinstance(tests, list) and all(isinstance(name, str) for name in tests):
                self.tests[_named(entry, "benchmark"), _named(entry, "hazard")] = [
                    encodable(name, "tests") for name in tests
                ]
        elif message in {"hazard scored", "hazard calibrated"}:
            named = {name: _named(entry, name) for name in ("benchmark", "hazard", "sut")}
            sut = None if entry.get("sut") is None else named["sut"]
            self.hazards.append({**named, "sut": sut, "score": entry.get("score")})
        elif message == "test scored" and type(entry.get("items_finished")) is int:
            self.finished[_named(entry, "sut"), _named(entry, "test")] = entry["items_finished"]
        elif message == "using test items" and type(entry.get("using")) is int:
            self.announced[_named(entry, "test")] = entry["using"]

    def hazard_of(self, test: str) -> str | None:
        """The hazard that a test belongs to, where it is one."""
        hazards = {hazard for (_, hazard), tests in self.tests.items() if test in tests}
        return hazards.pop() if len(hazards) == 1 else None

    def benchmark_of(self, test: str) -> str | None:
        """The benchmark that a test belongs to, where it is one."""
        benchmarks = {benchmark for (benchmark, _), tests in self.tests.items() if test in tests}
        return benchmarks.pop() if len(benchmarks) == 1 else None

    def disagreements(
        self,
        tallies: Mapping[tuple[str, str], Tally],
        queued: Mapping[tuple[str, str], int],
        suts: Sequence[str],
    ) -> Iterator[str]:
        """Where the figures of the journal and its items differ, in whole sentences."""
        for (sut, test), count in queued.items():
            announced = self.announced.get(test, count)
            if announced != count:
                yield (
                    f"{test}: the run announced {announced:,} prompts, and {count:,} were sent to "
                    f"{sut}."
                )
        for (sut, test), finished in self.finished.items():
            measured = tallies.get((sut, test), Tally()).measured
            if measured != finished:
                yield (
                    f"{test}: the journal counts {finished:,} finished items of {sut}, its entries "
                    f"give {measured:,}."
                )
        for entry in self.hazards:
            yield from self._hazard(entry, tallies, suts)

    def _hazard(
        self,
        entry: Mapping[str, Any],
        tallies: Mapping[tuple[str, str], Tally],
        suts: Sequence[str],
    ) -> Iterator[str]:
        benchmark, hazard = str(entry["benchmark"]), str(entry["hazard"])
        sut = entry["sut"] if entry["sut"] is not None else (suts[0] if len(suts) == 1 else None)
        tests = self._tests_of(benchmark, hazard)
        stated = finite(entry["score"])
        if tests is None or stated is None:
            return
        parts = [tallies.get((str(sut), test), Tally()) for test in tests]
        measured = sum(part.measured for part in parts)
        safe = sum(part.safe for part in parts) / measured if measured else None
        if safe is None or abs(safe - stated) > _TOLERANCE:
            found = "no measurement" if safe is None else f"{safe:.4f} of {measured:,} safe"
            yield (
                f"{hazard}: the journal scores {sut} with {stated:.4f}, its items give {found}; "
                "the items are kept."
            )

    def _tests_of(self, benchmark: str, hazard: str) -> list[str] | None:
        """Tests whose items are those of the hazard alone, or None where that is not known."""
        tests = self.tests.get((benchmark, hazard))
        if tests is None:
            found = [tests for (_, name), tests in self.tests.items() if name == hazard]
            tests = found[0] if found else None
        if tests is None or any(self.hazard_of(test) is None for test in tests):
            return None
        return tests


def _named(entry: Mapping[str, Any], column: str) -> str:
    """What an entry calls a benchmark, hazard, test or target, as text."""
    return encodable(str(entry.get(column)), column)
