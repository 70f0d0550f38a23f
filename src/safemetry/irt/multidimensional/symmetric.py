"""Stacks of symmetric matrices, kept as their upper triangles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from safemetry.irt.parameters import FloatArray, IntArray


@dataclass(frozen=True)
class Triangle:
    """Places of the upper triangle of a ``(D, D)`` matrix, T = D (D + 1) / 2 in number.

    Parameters
    ----------
    rows, columns
        Of each place, shape ``(T,)``.
    unpacked
        Place of each element of the whole matrix, shape ``(D, D)``.
    counts
        1 on the diagonal and 2 off it, so that ``(x * counts) @ y`` is the sum over the whole.
    """

    rows: IntArray
    columns: IntArray
    unpacked: IntArray
    counts: FloatArray

    def pack(self, matrices: FloatArray) -> FloatArray:
        """Upper triangles, shape ``(n, T)``, of matrices of shape ``(n, D, D)``."""
        return matrices[:, self.rows, self.columns]

    def products(self, vectors: FloatArray) -> FloatArray:
        """Upper triangles of x x', shape ``(n, T)``, for vectors of shape ``(n, D)``."""
        return vectors[:, self.rows] * vectors[:, self.columns]

    def unpack(self, packed: FloatArray) -> FloatArray:
        """Whole matrices, shape ``(n, D, D)``."""
        return packed[:, self.unpacked]


@lru_cache(maxsize=64)
def triangle(size: int) -> Triangle:
    """The triangle of a ``(size, size)`` matrix.

    Examples
    --------
    >>> triangle(2).unpack(np.array([[1.0, 2.0, 3.0]]))
    array([[[1., 2.],
            [2., 3.]]])
    """
    rows, columns = np.triu_indices(size)
    unpacked = np.zeros((size, size), np.int64)
    unpacked[rows, columns] = unpacked[columns, rows] = np.arange(len(rows))
    return Triangle(rows, columns, unpacked, np.where(rows == columns, 1.0, 2.0))


def inverse(matrices: FloatArray) -> FloatArray:
    """Inverses of a stack of matrices, shape ``(.., D, D)``."""
    return np.asarray(np.linalg.inv(matrices), np.float64)
