"""Wide matrices: one row per target, one column per item."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from safemetry.errors import InputError
from safemetry.evidence.frames import ROW
from safemetry.evidence.maps import EvidenceMap, Scale
from safemetry.evidence.success import SuccessRule
from safemetry.readers.conversion import Conversion
from safemetry.readers.source import Source
from safemetry.readers.tables import read_table, sample_table

_TARGET_NAMES = ("target", "model")
JUDGE = "matrix"


class MatrixReader:
    """CSV or Parquet with a target column and a column of whole numbers for each item."""

    name: ClassVar[str] = "matrix"
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        """Whether one column names targets and all others hold small whole numbers."""
        return self.fits(source, EvidenceMap())

    def fits(self, source: Source, evidence_map: EvidenceMap) -> bool:
        """Whether the file is a matrix; fractions are a matrix too, refused when read."""
        sample = sample_table(source, evidence_map.encoding)
        if sample is None:
            return False
        target = _target_column(sample, evidence_map)
        if target is None or sample.num_columns < 3:
            return False
        return all(_is_numeric(sample[name]) for name in sample.column_names if name != target)

    def read(self, source: Source, evidence_map: EvidenceMap) -> Conversion:
        """One judgement per cell, with the cell as its score.

        Raises
        ------
        InputError
            For a fraction, a negative number or a text in a cell, or two rows of one target.
        """
        table = read_table(source, evidence_map.encoding)
        wide = table.to_arrow()
        target = _target_column(wide, evidence_map)
        if target is None:
            raise InputError(
                "no column names the targets",
                file=source.location,
                fix="call it target, or name it in the map: columns: {target: THEIR_NAME}",
            )
        items = [name for name in wide.column_names if name not in {target, ROW}]
        targets = wide[target].cast(pa.string()).to_pylist()
        _check_targets(targets, source, table.header_lines, target)
        cells = np.stack(
            [_levels(wide[name], name, source, table.header_lines) for name in items], axis=1
        )
        return _conversion(cells, targets, items, source, evidence_map)


def _conversion(
    cells: NDArray[np.int64],
    targets: list[str],
    items: list[str],
    source: Source,
    evidence_map: EvidenceMap,
) -> Conversion:
    levels = int(cells.max(initial=0)) + 1
    empty = cells.reshape(-1) < 0
    shape = cells.shape
    judgements = pa.table(
        {
            "target": pa.DictionaryArray.from_arrays(
                np.repeat(np.arange(shape[0], dtype=np.int32), shape[1]), pa.array(targets)
            ),
            "item": pa.DictionaryArray.from_arrays(
                np.tile(np.arange(shape[1], dtype=np.int32), shape[0]), pa.array(items)
            ),
            "judge": pa.array([JUDGE] * cells.size, pa.string()),
            "score": pa.array(cells.reshape(-1).astype(np.float64), mask=empty),
            "benchmark": pa.array([source.path.stem] * cells.size, pa.string()),
            ROW: pa.array(np.repeat(np.arange(1, shape[0] + 1), shape[1])),
        }
    )
    binary = levels <= 2
    direction = "worse" if binary and evidence_map.rewarded == 0 else "safer"
    return Conversion(
        judgements=judgements,
        rows_read=shape[0],
        scales={JUDGE: Scale(scale_min=0, scale_max=max(1, levels - 1), higher_is=direction)},
        default_rule=SuccessRule("at_least:1") if binary else None,
        warnings=()
        if binary
        else (
            f"The matrix has {levels} ordered levels, 0 to {levels - 1}; say which reward the "
            "target, such as --success at_least:2.",
        ),
    )


def _target_column(table: pa.Table, evidence_map: EvidenceMap) -> str | None:
    named = evidence_map.columns.get("target")
    if named is not None:
        return named if named in table.column_names else None
    for name in _TARGET_NAMES:
        if name in table.column_names:
            return name
    text = [name for name in table.column_names if not _is_numeric(table[name])]
    return text[0] if len(text) == 1 else None


def _is_numeric(column: pa.ChunkedArray) -> bool:
    """Whether every cell is a number or empty."""
    if (
        pa.types.is_integer(column.type)
        or pa.types.is_floating(column.type)
        or pa.types.is_boolean(column.type)
    ):
        return True
    if not pa.types.is_string(column.type):
        return False
    matches = pc.match_substring_regex(column.drop_null(), r"^\s*-?\d*\.?\d+\s*$")
    return bool(pc.all(matches).as_py() is not False)


def _check_targets(
    targets: list[str | None], source: Source, header_lines: int, column: str
) -> None:
    seen: set[str] = set()
    for row, target in enumerate(targets, start=1):
        problem = "the cell is empty" if target is None else f"target {target!r} has two rows"
        if target is None or target in seen:
            raise InputError(
                problem,
                file=source.location,
                row=row,
                line=row + header_lines if header_lines else None,
                column=column,
                fix="give each target one row",
            )
        seen.add(target)


def _levels(
    column: pa.ChunkedArray, name: str, source: Source, header_lines: int
) -> NDArray[np.int64]:
    """The cells of one item as whole numbers, -1 where empty."""
    try:
        numbers = column.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid as error:
        texts = column.to_pylist()
        row = next(i for i, text in enumerate(texts) if text and not _is_number(text))
        raise _cell_error(
            f"{texts[row]!r} is not a number", row, name, source, header_lines
        ) from error
    empty = np.isnan(numbers)
    whole = np.where(empty, -1, numbers)
    for bad, problem in (
        (~empty & (whole != np.floor(whole)), "is a fraction"),
        (~empty & (whole < 0), "is negative"),
        (~empty & (whole > 1_000), "is no level of an ordered scale"),
    ):
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise _cell_error(f"{numbers[row]:g} {problem}", row, name, source, header_lines)
    return whole.astype(np.int64)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cell_error(problem: str, row: int, name: str, source: Source, header_lines: int) -> InputError:
    return InputError(
        problem,
        file=source.location,
        row=row + 1,
        line=row + 1 + header_lines if header_lines else None,
        column=name,
        fix="cells are whole numbers from 0 or empty; give single responses in a tidy table "
        "instead of averages, or cut them into levels",
    )
