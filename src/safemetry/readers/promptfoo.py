"""promptfoo results: tests under prompts and providers, each judged by assertions.

A row is a result: one test in one column of promptfoo's table. A column (a provider under a prompt
template) is a target, a test is an item, and its repeats are epochs. The verdict on the whole test
is a judge, and so is each assertion that says more than it.

docs/readers-promptfoo.md says what becomes of each field and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from safemetry.errors import InputError
from safemetry.evidence.maps import EvidenceMap
from safemetry.readers.conversion import Conversion, ResponseText
from safemetry.readers.promptfoo_file import (
    Header,
    is_display_table,
    is_document,
    is_lines,
    read_document,
)
from safemetry.readers.promptfoo_result import texts_of
from safemetry.readers.promptfoo_table import Table
from safemetry.readers.source import Source


class PromptfooReader:
    """Reads the JSON and the JSON lines that promptfoo writes of an evaluation."""

    name = "promptfoo"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether the head is that of an evaluation or of a line of results."""
        return not source.is_folder and (is_document(source) or is_lines(source))

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """Convert a file of results.

        Raises
        ------
        InputError
            Where the file is none of promptfoo's, of another version, or holds no results.
        """
        header, results = _open(source)
        table = Table(source, evidence_map, header)
        for number, entry in results:
            table.add(number, entry)
        return table.conversion()

    def texts(self, source: Source, evidence_map: EvidenceMap) -> Iterator[ResponseText]:
        """The texts of the responses that have a judgement, in the order of the source.

        Raises
        ------
        InputError
            Where the source cannot be read.
        """
        header, results = _open(source)
        table = Table(source, evidence_map, header)
        for number, entry in results:
            table.add(number, entry)
        keys = table.keys()
        _, results = _open(source)
        for row, (_, entry) in enumerate(results, 1):
            if row in keys and isinstance(entry, Mapping):
                target, item, epoch = keys[row]
                yield ResponseText(header.run, target, item, epoch, *texts_of(entry))


def _open(source: Source) -> tuple[Header, Iterator[tuple[int | None, Any]]]:
    """The header, and each result with its line where it is one; a damaged line is its error."""
    if source.is_folder:
        raise InputError(
            "is a folder, promptfoo results are one file",
            file=source.shown,
            fix="name the .json or .jsonl inside it",
        )
    if is_display_table(source):
        raise InputError(
            "is the display table of promptfoo, which holds neither ids nor grader errors",
            file=source.shown,
            fix="write the results as JSON (`promptfoo export eval ID -o results.json`)",
        )
    if not is_lines(source):
        header, results = read_document(source)
        return header, ((None, entry) for entry in results)
    return Header(), _lines(source)


def _lines(source: Source) -> Iterator[tuple[int, Any]]:
    for number, line in source.read_lines():
        try:
            yield number, source.read_json_line(number, line)
        except InputError as error:
            yield number, error
