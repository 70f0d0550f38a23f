"""What a reader has to show the conformance suite: how to make a small valid source of its format.

Each reader has a module ``cases/<name>_case.py`` that says ``from conformance import
MARKER, ReaderCase`` and defines ``CASE`` (one `ReaderCase`) or ``CASES`` (several, for a format
with several shapes). `test_conformance.py` runs over all of them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from safemetry.errors import MissingExtraError
from safemetry.readers.conversion import Reader

MARKER = "MARKERTEXT"
"""Stands in every prompt, response, rubric and explanation of a case, and never in a table."""

CASES_FOLDER = Path(__file__).parent / "cases"


def as_given(item: str, _index: int) -> str:
    """The item id of the table where the format keeps ids as they are."""
    return item


@dataclass(frozen=True)
class ReaderCase:
    """One format as the suite sees it.

    Attributes
    ----------
    reader
        The reader under test.
    suffix
        End of the file name that `make` writes, such as ``.report.jsonl``; empty for a folder.
    make
        Writes a valid source into an empty folder and returns its path. The source has one item
        per given id, in that order, each judged ``ok`` by at least one judge. Ids are any text; a
        format that cannot hold them says in `item` what becomes of them. Texts contain `MARKER`.
        Equal ids in the list make equal rows (the suite tries that too).
    rows
        Rows of the source, in the sense of `Conversion.rows_read`, for so many ids.
    main_file
        For a folder the file inside it (relative path) that is damaged; None for a single file.
    text
        Whether the damaged file is plain UTF-8 text.
    compressed
        Whether it is a zip archive.
    map
        Entries of the map that the reader needs.
    item
        (given id, its position) -> the item id that stands in the table.
    score_text
        A piece of the damaged file that is a score, such as ``0.625``, occurring there as a JSON
        number: the suite puts NaN in its place. None where the format has none.
    lines
        Whether a row is a line of its own, so that a file cut between two lines looks
        whole.
    cut_is_visible
        Whether a file cut inside a row can be told from a whole one (false for plain CSV).
    byte_is_visible
        Whether any byte replaced by 0xFF changes nothing or can be noticed (false for databases,
        which have no check sums).
    holds_repeats
        Whether `make` can write the same id twice (false where the format's own writer keeps one).
    name
        Name in the test report; reader name and suffix where empty.
    """

    reader: Reader
    suffix: str
    make: Callable[[Path, list[str]], Path]
    rows: Callable[[int], int]
    main_file: str | None = None
    text: bool = True
    compressed: bool = False
    map: dict[str, Any] = field(default_factory=dict)
    item: Callable[[str, int], str] = as_given
    score_text: str | None = None
    lines: bool = False
    cut_is_visible: bool = True
    byte_is_visible: bool = True
    holds_repeats: bool = True
    name: str = ""

    @property
    def label(self) -> str:
        """Name in the test report."""
        return self.name or f"{self.reader.name}{self.suffix}"

    def damaged_file(self, source: Path) -> Path:
        """The file that the suite damages."""
        return source / self.main_file if self.main_file else source


@dataclass(frozen=True)
class CaseModule:
    """A module of cases, or why it gives none."""

    name: str
    cases: Sequence[ReaderCase] = ()
    skipped: str | None = None
    broken: str | None = None


def load_cases() -> list[CaseModule]:
    """Import every case module; an absent optional package skips it, anything else breaks it."""
    return [_load(path) for path in sorted(CASES_FOLDER.glob("*_case.py"))]


def _load(path: Path) -> CaseModule:
    try:
        return CaseModule(path.stem, cases=_cases_of(_import(path)))
    except MissingExtraError as error:
        return CaseModule(path.stem, skipped=str(error))
    except ModuleNotFoundError as error:
        ours = error.name is None or error.name.partition(".")[0] in {"safemetry", "tests"}
        said = f"{path.name}: {error}"
        return CaseModule(path.stem, **{"broken" if ours else "skipped": said})
    except Exception as error:  # noqa: BLE001 - one broken module must not hide the others
        return CaseModule(path.stem, broken=f"{path.name}: {type(error).__name__}: {error}")


def _import(path: Path) -> ModuleType:
    name = f"safemetry_reader_cases.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # data classes of the module look themselves up there
    spec.loader.exec_module(module)
    return module


def _cases_of(module: ModuleType) -> tuple[ReaderCase, ...]:
    if hasattr(module, "CASES"):
        return tuple(module.CASES)
    return (module.CASE,)
