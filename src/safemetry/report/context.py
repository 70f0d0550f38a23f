"""What the sections of one report share: the evidence, and results that several of them use."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from safemetry.evidence.evidence import Evidence
from safemetry.evidence.success import SuccessRule
from safemetry.rates import CoverageFinding, RatesFinding, cover, measure_rates
from safemetry.readers.conversion import ResponseText
from safemetry.report.boards import Board, boards_of
from safemetry.report.settings import ReportSettings

ResponseKey = tuple[str, str, str, int]
"""Run, target, item and epoch."""


@dataclass(frozen=True, slots=True)
class CutText:
    """The beginning of a text, and how many characters are left out after it."""

    text: str
    left_out: int


@dataclass(frozen=True, slots=True)
class CutTexts:
    """A prompt and a response; None where the source does not hold the text."""

    prompt: CutText | None
    response: CutText | None


@dataclass(frozen=True)
class ReportContext:
    """The evidence of a report, and what was computed from it so far.

    Parameters
    ----------
    evidence
        The evidence.
    settings
        The settings.
    texts
        Prompts and responses, in any order, or None where none are to be shown. Whoever asks for
        some of them first passes them once.
    """

    evidence: Evidence
    settings: ReportSettings
    texts: Iterable[ResponseText] | None = field(default=None, repr=False)
    _by: dict[str, RatesFinding] = field(default_factory=dict, repr=False)

    @property
    def rule(self) -> SuccessRule:
        """The success rule."""
        return self.settings.success or self.evidence.default_rule

    @cached_property
    def rates(self) -> RatesFinding:
        """The rates of each target under each judge."""
        return measure_rates(self.evidence, settings=self.settings.rates())

    @cached_property
    def boards(self) -> list[Board]:
        """The rates by benchmark, targets and judges in the order that every section keeps."""
        return boards_of(self.rates.claims)

    def texts_of(self, keys: Collection[ResponseKey], most: int) -> dict[ResponseKey, CutTexts]:
        """The texts of some responses, each cut at so many characters; one pass over `texts`.

        Parameters
        ----------
        keys
            Run, target, item and epoch of each response that is wanted; they are held in memory.
        most
            Characters that are kept of a text.

        Raises
        ------
        InputError
            Where a source of texts is damaged.
        """
        wanted, found = set(keys), dict[ResponseKey, CutTexts]()
        if not wanted:
            return found
        for text in self.texts or ():
            key = (text.run or "", text.target, text.item, text.epoch)
            if key not in wanted or (text.prompt is None and text.response is None):
                continue
            found[key] = CutTexts(_cut(text.prompt, most), _cut(text.response, most))
            wanted.remove(key)
            if not wanted:
                break
        return found

    def rates_by(self, column: str) -> RatesFinding | None:
        """The rates within the values of an item column; None where no item states it."""
        if not self.states(column):
            return None
        if column not in self._by:
            self._by[column] = measure_rates(self.evidence, settings=self.settings.rates(column))
        return self._by[column]

    def states(self, column: str) -> bool:
        """Whether any item has a value in an item column."""
        values = self.evidence.items[column]
        return bool(values.null_count < len(values))

    @cached_property
    def coverage(self) -> CoverageFinding:
        """The grid of categories and attacks."""
        return cover(self.evidence, success=self.rule, level=self.settings.level)


def _cut(text: str | None, most: int) -> CutText | None:
    """The first characters of a text; half a surrogate pair, which no file can hold, as `?`."""
    if text is None:
        return None
    kept = text[:most].encode("utf-8", "replace").decode("utf-8")
    return CutText(kept, len(text) - len(kept))
