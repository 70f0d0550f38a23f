"""Findings of the commands that keep a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from safemetry.evidence.check import Problem
from safemetry.findings import Finding, plain


@dataclass(frozen=True, kw_only=True)
class CheckFinding(Finding):
    """What is wrong with a study."""

    command: ClassVar[str] = "check"

    problems: tuple[Problem, ...]

    @property
    def failed(self) -> bool:
        """Whether anything is wrong beyond notes."""
        return any(not problem.is_note for problem in self.problems)

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row per problem."""
        return [plain(problem) for problem in self.problems]

    def sentence(self) -> str:
        """How many problems there are."""
        notes = sum(problem.is_note for problem in self.problems)
        wrong = len(self.problems) - notes
        said = "Nothing is wrong" if not wrong else f"{wrong} problem{'s' * (wrong > 1)}"
        return f"{said}; {notes} note{'s' * (notes > 1)}." if notes else f"{said}."


@dataclass(frozen=True, kw_only=True)
class CorrectionFinding(Finding):
    """How many judgements a file of corrections changed."""

    command: ClassVar[str] = "correct"

    corrected: int

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row."""
        return [{"corrected": self.corrected}]

    def sentence(self) -> str:
        """How many corrections there are."""
        return f"{self.corrected:,} correction{'s' * (self.corrected != 1)} recorded."


@dataclass(frozen=True, kw_only=True)
class ExportFinding(Finding):
    """Where a table was written."""

    command: ClassVar[str] = "export"

    path: str
    rows: int

    def records(self) -> Sequence[Mapping[str, Any]]:
        """One row."""
        return [{"path": self.path, "rows": self.rows}]

    def sentence(self) -> str:
        """What was written."""
        return f"{self.rows:,} judgements written to {self.path}."
