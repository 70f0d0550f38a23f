"""Wide matrices: one row per target, one column per item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from safemetry.errors import InputError
from safemetry.evidence.frames import ROW
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.schema import Status
from safemetry.evidence.success import SuccessRule
from safemetry.readers import labels
from safemetry.readers.conversion import Conversion
from safemetry.readers.source import Source
from safemetry.readers.table import Sample, Table
from safemetry.readers.tables import read_sample, read_table
from safemetry.readers.tidy import is_tidy

if TYPE_CHECKING:
    from numpy.typing import NDArray

JUDGE: Final = "matrix"
HIGHEST_LEVEL: Final = 100
"""Scales of attitude end at 100 at most; larger numbers are counts or measurements."""

_TARGET_NAMES = ("target", "model")
_UNNAMED = ("", "Unnamed: 0", "__index_level_0__")
"""What pandas and spreadsheets call a column of row names or row numbers."""
_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_WORDS = ("True", "False", "true", "false", "TRUE", "FALSE")
_GAPS = ("NA", "N/A", "NaN", "nan", "null", "None", "-")
"""Words for an empty cell: they do not hide that a table is a matrix, and are refused in it."""


class MatrixReader:
    """CSV or Parquet with a target column and a column of whole numbers for each item."""

    name = "matrix"
    version = 1

    def recognises(self, source: Source) -> bool:
        """Whether one column names targets and all others hold numbers."""
        sample = read_sample(source)
        return sample is not None and self.fits(sample, EvidenceMap())

    def fits(self, sample: Sample, evidence_map: EvidenceMap) -> bool:
        """Whether the table is a matrix; one of fractions is too, and is refused when read."""
        table = decoded(sample.rows)
        if not table.num_rows or is_tidy(sample.names, evidence_map):
            return False
        if labels.is_declared(sample.names, evidence_map):
            return False
        layout = layout_of(table, evidence_map)
        return (
            layout is not None
            and len(layout.items) > 1
            and all(holds_numbers(table[name]) for name in layout.items)
        )

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """One judgement for each cell, with the cell as its score.

        Raises
        ------
        InputError
            For a fraction, a negative number or a text in a cell, or two rows of one target.
        """
        table = read_table(source, evidence_map.encoding, in_memory=True)
        wide = decoded(table.to_arrow())
        layout = layout_of(wide, evidence_map)
        if layout is None or not layout.items:
            raise InputError(
                "no column names the targets" if layout is None else "there is no item",
                file=source.shown,
                fix="call the column of the targets target or model, or add to the map: "
                "columns: {target: THEIR_NAME}; every other column is an item",
            )
        cells = _Cells(source, table)
        return _conversion(
            np.stack([cells.levels(wide[name], name) for name in layout.items], axis=1),
            cells.targets(wide[layout.target], layout.target),
            layout,
            source,
            evidence_map,
        )


@dataclass(frozen=True)
class Layout:
    """Which column is what."""

    target: str
    items: tuple[str, ...]
    row_numbers: str | None


def decoded(table: pa.Table) -> pa.Table:
    """The table with each dictionary-encoded column as plain values, as pandas categories are."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = table.column(place).cast(field.type.value_type)
            table = table.set_column(place, field.name, plain)
    return table


def layout_of(table: pa.Table, evidence_map: EvidenceMap) -> Layout | None:
    """The target column and the items; None where no column names the targets."""
    names = table.column_names
    named = evidence_map.columns.get("target")
    candidates = (named,) if named else _TARGET_NAMES
    target = next((name for name in candidates if name in names), None)
    if target is None and named is None:
        texts = [name for name in names if not holds_numbers(table[name])]
        target = texts[0] if len(texts) == 1 else None
    if target is None:
        return None
    numbers = next(
        (n for n in names if n in _UNNAMED and n != target and _counts_rows(table[n])), None
    )
    items = tuple(name for name in names if name not in {target, numbers})
    return Layout(target, items, numbers)


def _counts_rows(column: pa.ChunkedArray) -> bool:
    try:
        numbers = column.cast(pa.int64()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return any(numbers == list(range(first, first + len(numbers))) for first in (0, 1))


def holds_numbers(column: pa.ChunkedArray) -> bool:
    """Whether every cell is a number, true, false or empty."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return True
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return True
    if not _is_text(kind):
        return False
    texts = column.drop_null()
    words = pc.is_in(texts, value_set=pa.array([*_WORDS, *_GAPS], kind))
    fits = pc.or_(words, pc.match_substring_regex(texts, _NUMBER))
    return pc.all(fits).as_py() is not False


def _plain_numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Texts that are finite numbers or empty, as nearly all are; None where one is neither."""
    try:
        numbers = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid:
        return None
    finite = int(np.isfinite(numbers).sum())
    return numbers if finite + column.null_count == len(numbers) else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@dataclass(frozen=True)
class _Cells:
    """Reads columns of one table; its errors name the cell."""

    source: Source
    table: Table

    def targets(self, column: pa.ChunkedArray, name: str) -> list[str]:
        """The targets, each of which has one row."""
        targets: list[str] = column.cast(pa.string()).to_pylist()
        seen: set[str] = set()
        for row, target in enumerate(targets):
            if not target:
                raise self._error("the cell is empty", row, name, "name the target of each row")
            if target in seen:
                raise self._error(
                    f"target {target!r} has two rows",
                    row,
                    name,
                    "give each target one row, or put repeated runs into a tidy table with epochs",
                )
            seen.add(target)
        return targets

    def levels(self, column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
        """The cells of one item as whole numbers, -1 where empty."""
        numbers = self._numbers(column, name)
        empty = np.isnan(numbers)
        whole = np.where(empty, -1, numbers)
        for bad, problem in (
            (~empty & (whole != np.floor(whole)), "is a fraction"),
            (~empty & (whole < 0), "is negative"),
            (~empty & (whole > HIGHEST_LEVEL), f"is above the highest level, {HIGHEST_LEVEL}"),
        ):
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise self._error(f"{numbers[row]:g} {problem}", row, name)
        return whole.astype(np.int64)

    def _numbers(self, column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
        """The cells as numbers, NaN where empty."""
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        elif _is_text(column.type):
            plain = _plain_numbers(column)
            if plain is not None:
                return plain
            column = self._written_numbers(column, name)
        try:
            return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._error(f"{column[0].as_py()!r} is not a number", 0, name) from error

    def _written_numbers(self, column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
        texts = pc.utf8_trim_whitespace(column)
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
        lower = pc.utf8_lower(texts)
        truth = pc.case_when(
            pc.make_struct(pc.equal(lower, "true"), pc.equal(lower, "false")), "1", "0"
        )
        texts = pc.coalesce(truth, texts)
        wrong = pc.invert(pc.match_substring_regex(texts, _NUMBER))
        if pc.any(wrong).as_py():
            row = pc.index(wrong, value=True).as_py()
            text = column[row].as_py()
            fix = "leave the cell empty where there is no answer" if text in _GAPS else None
            raise self._error(f"{text[:60]!r} is not a number", row, name, fix)
        return texts

    def _error(self, problem: str, row: int, name: str, fix: str | None = None) -> InputError:
        header = self.table.header_lines
        return InputError(
            problem,
            file=self.source.shown,
            row=row + 1,
            line=row + 1 + header if header else None,
            column=name,
            fix=fix
            or "cells are whole numbers from 0 or empty; give the single responses in a tidy "
            "table instead of averages, or cut a score into levels",
        )


def _conversion(
    cells: NDArray[np.int64],
    targets: Sequence[str],
    layout: Layout,
    source: Source,
    evidence_map: EvidenceMap,
) -> Conversion:
    rows, columns = cells.shape
    flat = cells.reshape(-1)
    judgements = pa.table(
        {
            "target": _repeated(np.repeat(np.arange(rows), columns), targets),
            "item": _repeated(np.tile(np.arange(columns), rows), layout.items),
            "judge": _repeated(np.zeros(flat.size), [JUDGE]),
            "score": pa.array(flat.astype(np.float64), mask=flat < 0),
            "status": _repeated(flat < 0, [Status.OK, Status.MISSING]),
            "benchmark": _repeated(np.zeros(flat.size), [Path(source.name).stem]),
            ROW: pa.array(np.repeat(np.arange(1, rows + 1), columns)),
        }
    )
    highest = max(1, int(flat.max(initial=0)))
    scale, rule, warnings = _meaning(highest, source, evidence_map)
    if layout.row_numbers is not None:
        warnings.append(
            f"{source.name}: the column {layout.row_numbers!r} counts the rows and was left out."
        )
    return Conversion(
        judgements=judgements,
        rows_read=rows,
        scales={JUDGE: scale},
        default_rule=rule,
        warnings=warnings,
    )


def _repeated(codes: NDArray[np.generic], values: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32)), pa.array([str(value) for value in values])
    )


def _meaning(
    highest: int, source: Source, evidence_map: EvidenceMap
) -> tuple[Scale, SuccessRule | None, list[str]]:
    """Scale, success rule and warnings: what the benchmark rewards.

    Raises
    ------
    InputError
        Where the map rewards a value that does not occur.
    """
    rewarded = evidence_map.rewarded
    if not 0 <= rewarded <= highest:
        raise InputError(
            f"the map rewards the cell value {rewarded}, but the cells run from 0 to {highest}",
            file=source.shown,
            fix=f"write rewarded: 0 to {highest}",
        )
    # Under `at_least` the worse side of a score is what is not rewarded, whatever the intent.
    direction: Literal["safer", "worse"] = "safer" if highest > 1 or rewarded else "worse"
    scale = Scale(scale_min=0, scale_max=highest, higher_is=direction)
    if highest == 1:
        return scale, SuccessRule("at_least:1"), []
    if "rewarded" in evidence_map.model_fields_set and rewarded > 0:
        return scale, SuccessRule(f"at_least:{rewarded}"), []
    warning = (
        f"The cells of {source.name} have {highest + 1} ordered levels, 0 to {highest}; say from "
        f"which level on a response is rewarded, such as --success at_least:{highest}."
    )
    return scale, None, [warning]
