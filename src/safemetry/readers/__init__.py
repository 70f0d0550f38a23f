"""Readers: foreign formats become judgements."""

from safemetry.readers.conversion import Conversion, Reader, ResponseText, TextReader
from safemetry.readers.detect import known_readers
from safemetry.readers.importing import ImportFinding, import_sources
from safemetry.readers.opening import SourceReport, read_evidence
from safemetry.readers.source import Source
from safemetry.readers.texts import Texts, read_texts

__all__ = [
    "Conversion",
    "ImportFinding",
    "Reader",
    "ResponseText",
    "Source",
    "SourceReport",
    "TextReader",
    "Texts",
    "import_sources",
    "known_readers",
    "read_evidence",
    "read_texts",
]
