"""Texts of prompts and responses, read only where the user asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from safemetry.errors import InputError
from safemetry.evidence.engine import connect
from safemetry.evidence.maps import EvidenceMap, make_map
from safemetry.evidence.schema import RESPONSE_KEY
from safemetry.evidence.study import Study
from safemetry.evidence.study_commits import is_intact
from safemetry.readers.conversion import ResponseText, TextReader
from safemetry.readers.detect import texts_of
from safemetry.readers.locating import Found, Recognised, Refused, find_sources, run_names
from safemetry.readers.opening import noticing_damage

_STUDY_ROWS: Final = 500


class Texts(Iterator[ResponseText]):
    """The texts of some sources, in their order, each read when it is asked for.

    A response may come more than once; then the first text counts.

    Attributes
    ----------
    without
        A sentence for each source that gave no text so far, with the reason; complete once the
        iterator is exhausted.
    """

    def __init__(self, sources: Iterable[tuple[str, Iterator[ResponseText]]]) -> None:
        self.without: list[str] = []
        self._texts = self._read(sources)

    def __next__(self) -> ResponseText:
        """The next text."""
        return next(self._texts)

    def _read(
        self, sources: Iterable[tuple[str, Iterator[ResponseText]]]
    ) -> Iterator[ResponseText]:
        for why, texts in sources:
            found = False
            for text in texts:
                found = True
                yield text
            if not found:
                self.without.append(why)


def read_texts(
    *sources: str,
    evidence_map: EvidenceMap | Mapping[str, Any] | None = None,
    kind: str | None = None,
) -> Texts:
    """The texts of the responses that `read_evidence` finds judgements on in the same sources.

    No more than a few texts are in memory at once.

    Parameters
    ----------
    *sources
        Studies, log files, folders of logs, tables, or URLs.
    evidence_map
        A map, or a mapping with its entries.
    kind
        ``study``, or the name of a reader, where content alone does not decide.

    Returns
    -------
    Texts
        An iterator of `ResponseText`, with the run of each response filled in.

    Raises
    ------
    InputError
        As `read_evidence`; for damage within a source when the iterator comes to it.
    """
    known = make_map(evidence_map or {})
    found = find_sources([str(source) for source in sources], known, kind)
    for item in found:
        if isinstance(item, Refused):
            raise item.error.at(item.path)
    return Texts(_opened(found, known))


def _opened(
    found: list[str | Found], evidence_map: EvidenceMap
) -> Iterator[tuple[str, Iterator[ResponseText]]]:
    """For each source what to say if it gives no text, and its texts where it can give any."""
    runs = run_names([item for item in found if isinstance(item, Recognised)])
    for item in found:
        if isinstance(item, str):
            why = f"The study {item} keeps no texts: import its sources with --include-text."
            yield why, _texts_of_study(item)
        elif isinstance(item, Recognised):
            run = runs[item.source.location]
            yield why_without(item), texts_of_source(item, run, evidence_map)


def why_without(item: Recognised) -> str:
    """Why a source that gave no text gave none."""
    shown, reader = item.source.shown, item.reader
    if isinstance(reader, TextReader):
        return f"{shown} holds no texts."
    return f"{shown}: texts are not read from the format {reader.name}."


def texts_of_source(
    item: Recognised, run: str, evidence_map: EvidenceMap
) -> Iterator[ResponseText]:
    """The texts of one source that is no study, under the keys that its evidence has.

    Parameters
    ----------
    item
        The source and its reader; nothing is given where the reader is no `TextReader`.
    run
        The run of rows that name none.
    evidence_map
        What is known about the source.
    """
    if not isinstance(item.reader, TextReader):
        return
    constants: dict[str, Any] = {
        name: value for name, value in evidence_map.constants.items() if name in RESPONSE_KEY
    }
    if "epoch" in constants:
        constants["epoch"] = int(constants["epoch"])
    for text in texts_of(item.reader, item.source, evidence_map):
        yield replace(
            text,
            **{
                "run": run if text.run is None else text.run,
                "prompt": _encodable(text.prompt),
                "response": _encodable(text.response),
                **constants,
            },
        )


def _encodable(text: str | None) -> str | None:
    """The text, with half a surrogate pair, which JSON can spell and UTF-8 cannot, as `?`."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def _texts_of_study(location: str) -> Iterator[ResponseText]:
    study = Study.open(location)
    for commit in study.commits():
        for part in commit.parts:
            if part.table == "texts" and not is_intact(study.path, part):
                raise InputError(
                    "is damaged: its bytes are not those that were written",
                    file=str(study.path / part.file),
                    fix=f"run `safemetry check {location}`",
                )
    with connect() as engine, noticing_damage(location):
        engine.execute("SET preserve_insertion_order = true")
        for batch in study.table(engine, "texts").to_arrow_reader(_STUDY_ROWS):
            for row in batch.to_pylist():
                yield ResponseText(**row)
