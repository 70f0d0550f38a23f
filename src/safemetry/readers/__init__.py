"""Readers: foreign formats become judgements."""

from safemetry.readers.conversion import Conversion, Reader
from safemetry.readers.detect import known_readers
from safemetry.readers.importing import ImportFinding, import_sources
from safemetry.readers.opening import SourceReport, read_evidence
from safemetry.readers.source import Source

__all__ = [
    "Conversion",
    "ImportFinding",
    "Reader",
    "Source",
    "SourceReport",
    "import_sources",
    "known_readers",
    "read_evidence",
]
