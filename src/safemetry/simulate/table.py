"""Simulated verdicts as the tidy judgements table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from safemetry.evidence.schema import COLUMNS, JUDGEMENTS
from safemetry.simulate.judges import LABELS
from safemetry.simulate.missing import NONE, REASONS, STATUSES, status_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def text_column(names: Sequence[str | None], codes: NDArray[np.integer[Any]]) -> pa.Array:
    """Names taken by code; a negative code is null.

    Examples
    --------
    >>> text_column(["a", "b"], np.array([1, -1, 0])).to_pylist()
    ['b', None, 'a']
    """
    return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def verdict_columns(labels: NDArray[np.int8], reasons: NDArray[np.int8]) -> dict[str, pa.Array]:
    """Label, status and reason of each judge call.

    Parameters
    ----------
    labels
        Label codes, (calls,).
    reasons
        Reason codes, (calls,); a call with a reason has no label.
    """
    return {
        "label": text_column(LABELS, np.where(reasons == NONE, labels, -1)),
        "status": text_column(STATUSES, status_codes(reasons)),
        "reason": text_column(REASONS, reasons),
    }


def judgements_table(columns: Mapping[str, pa.Array], metadata: Mapping[str, str]) -> pa.Table:
    """The tidy table with every column of the schema; those not given are null."""
    rows = len(next(iter(columns.values())))
    arrays = [columns.get(column.name, pa.nulls(rows, column.type)) for column in COLUMNS]
    return pa.Table.from_arrays(arrays, schema=JUDGEMENTS.with_metadata(dict(metadata)))
