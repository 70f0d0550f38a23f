"""Numbering codes: by a table of all of them or by sorting, the result is that of `np.unique`."""

import numpy as np
import pytest

from safemetry.rates.codes import Codes, combine, joint_code, renumber, sorted_rows


@pytest.mark.parametrize("size", [1, 7, 2**16, 2**20, 2**40, 2**62])
@pytest.mark.parametrize("rows", [0, 1, 500])
def test_codes_are_numbered_in_their_order_with_the_first_row_of_each(size, rows):
    codes = np.random.default_rng(rows).integers(0, size, rows)
    codes[rows // 2 :] = codes[: rows - rows // 2]  # every second code occurs again
    numbers, first = renumber(codes, size)
    _, known_first, known = np.unique(codes, return_index=True, return_inverse=True)
    assert numbers.tolist() == known.tolist()
    assert first.tolist() == known_first.tolist()


def test_many_wide_columns_combine_without_overflow():
    rng = np.random.default_rng(1)
    columns = [rng.integers(0, 50_000, 300) for _ in range(6)]
    for column in columns:
        column[150:] = column[:150]
    codes = [Codes(column, (*(str(value) for value in range(50_000)), None)) for column in columns]
    numbers, first = combine(codes, 300)
    _, known_first, known = np.unique(
        np.stack(columns), axis=1, return_index=True, return_inverse=True
    )
    assert numbers.tolist() == known.ravel().tolist()
    assert first.tolist() == known_first.tolist()
    assert sorted_rows(*joint_code(columns, 300)).tolist() == known_first.tolist()


def test_rows_are_sorted_by_their_codes_column_by_column():
    columns = np.random.default_rng(2).integers(0, 20, (3, 300))
    codes = [Codes(column, (*(f"{value:02}" for value in range(20)), None)) for column in columns]
    assert sorted_rows(*joint_code(columns, 300)).tolist() == combine(codes, 300)[1].tolist()
