"""Two-by-two tables of answer and group in each stratum, for many items and matrices at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from safemetry.irt.parameters import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEFT_OUT = -1


@dataclass(frozen=True)
class CrossTables:
    """Counts of S strata, each of shape ``(B, S, J)``.

    Parameters
    ----------
    reference_ones, reference_zeros
        Responses 1 and 0 of the reference group (A and B).
    focal_ones, focal_zeros
        Responses 1 and 0 of the focal group (C and D).
    """

    reference_ones: FloatArray
    reference_zeros: FloatArray
    focal_ones: FloatArray
    focal_zeros: FloatArray

    def group_totals(self) -> tuple[FloatArray, FloatArray]:
        """Responses of the reference and of the focal group in each stratum."""
        return self.reference_ones + self.reference_zeros, self.focal_ones + self.focal_zeros

    def totals(self) -> FloatArray:
        """Responses in each stratum, T."""
        reference, focal = self.group_totals()
        return reference + focal

    def products(self) -> tuple[FloatArray, FloatArray]:
        """AD/T and BC/T of each stratum, 0 in an empty one."""
        share = 1.0 / np.maximum(self.totals(), 1.0)
        return (
            self.reference_ones * self.focal_zeros * share,
            self.reference_zeros * self.focal_ones * share,
        )

    def diagonal_shares(self) -> tuple[FloatArray, FloatArray]:
        """(A + D)/T and (B + C)/T of each stratum, 0 in an empty one."""
        share = 1.0 / np.maximum(self.totals(), 1.0)
        return (
            (self.reference_ones + self.focal_zeros) * share,
            (self.reference_zeros + self.focal_ones) * share,
        )

    def hypergeometric_variance(self) -> FloatArray:
        """Variance of A given the margins of the stratum, 0 where a margin is empty."""
        reference, focal = self.group_totals()
        ones, zeros = (
            self.reference_ones + self.focal_ones,
            self.reference_zeros + self.focal_zeros,
        )
        total = reference + focal
        return (reference * focal) * (ones * zeros) / np.maximum(total**2 * (total - 1), 1.0)


def cross_tables(
    codes: NDArray[np.int8],
    strata: IntArray,
    focal: BoolArray,
    strata_of_zero: IntArray | None = None,
    step_cells: int = 3_000_000,
) -> Iterator[CrossTables]:
    """The tables of consecutive runs of the B matrices, at most about `step_cells` cells a run.

    Parameters
    ----------
    codes, strata, focal, strata_of_zero
        As `mantel_haenszel` takes them.
    step_cells
        Strata times items times matrices that one run holds; one matrix at least.

    Raises
    ------
    ValueError
        For shapes that do not fit.
    """
    stack = codes if codes.ndim == 3 else codes[None]
    batches, targets, items = stack.shape
    if codes.ndim == 2 and strata.shape == codes.shape:
        strata = strata[None]
    by_item = strata.ndim == 3
    of_one = _checked(strata, stack.shape, "strata")
    of_zero = of_one if strata_of_zero is None else _checked(strata_of_zero, stack.shape, "zero")
    if focal.shape != (targets,):
        msg = f"{focal.shape} group labels for {targets} targets"
        raise ValueError(msg)
    if strata_of_zero is not None and (by_item or strata_of_zero.ndim == 3):
        msg = "strata by item already say the stratum of every response"
        raise ValueError(msg)
    if not by_item:
        of_one, of_zero = _dense(of_one, of_zero, same=strata_of_zero is None)
    count = int(max(of_one.max(initial=0), of_zero.max(initial=0))) + 1
    step = max(1, step_cells // max(count * items, targets * items))
    for start in range(0, batches, step):
        part = slice(start, start + step)
        place = slice(0, 1) if len(of_one) == 1 else part
        count_part = _count_by_item if by_item else _count
        yield count_part(
            stack[part],
            of_one[place],
            None if strata_of_zero is None else of_zero[place],
            focal,
            count,
        )


def _checked(strata: IntArray, shape: tuple[int, ...], what: str) -> IntArray:
    """Strata with a leading axis of length B or 1."""
    batches, targets, items = shape
    stack = strata[None] if strata.ndim == 1 else strata
    fits = {(1, targets), (batches, targets), (1, targets, items), (batches, targets, items)}
    if stack.shape not in fits:
        msg = f"strata ({what}) of shape {strata.shape} for codes of shape {shape}"
        raise ValueError(msg)
    return stack


def _dense(of_one: IntArray, of_zero: IntArray, *, same: bool) -> tuple[IntArray, IntArray]:
    """The labels of each matrix numbered from 0 without gaps, so that scores are cheap strata."""
    rows = max(len(of_one), len(of_zero))
    both = (
        of_one
        if same
        else np.concatenate(
            [np.broadcast_to(part, (rows, part.shape[1])) for part in (of_one, of_zero)], axis=1
        )
    )
    if both.max(initial=0) < both.shape[1]:
        return of_one, of_zero
    order = np.argsort(both, axis=1, kind="stable")
    ranked = np.take_along_axis(both, order, axis=1)
    is_new = (ranked[:, 1:] != ranked[:, :-1]) & (ranked[:, :-1] != LEFT_OUT)
    place = np.cumsum(np.pad(is_new, ((0, 0), (1, 0))), axis=1)
    labels = np.empty_like(both)
    np.put_along_axis(labels, order, np.where(ranked == LEFT_OUT, LEFT_OUT, place), axis=1)
    if same:
        return labels, labels
    half = both.shape[1] // 2
    return labels[:, :half], labels[:, half:]


def _membership(strata: IntArray, focal: BoolArray, count: int) -> NDArray[np.float32]:
    """1 where a target is in a stratum and group, shape ``(B, 2 S, N)``, reference group first."""
    inside = strata[:, None, :] == np.arange(count)[:, None]
    return np.concatenate([inside & ~focal, inside & focal], axis=1).astype(np.float32)


def _count(
    codes: NDArray[np.int8],
    of_one: IntArray,
    of_zero: IntArray | None,
    focal: BoolArray,
    count: int,
) -> CrossTables:
    # Counts are whole numbers far below 2^24, so single precision is exact and half the work.
    member = _membership(of_one, focal, count)
    ones = (member @ (codes == 1).astype(np.float32)).astype(np.float64)
    if of_zero is None and (codes >= 0).all():
        zeros = member.sum(axis=2, dtype=np.float64)[..., None] - ones
    else:
        other = member if of_zero is None else _membership(of_zero, focal, count)
        zeros = (other @ (codes == 0).astype(np.float32)).astype(np.float64)
    return CrossTables(ones[:, :count], zeros[:, :count], ones[:, count:], zeros[:, count:])


def _count_by_item(
    codes: NDArray[np.int8],
    strata: IntArray,
    _unused: IntArray | None,
    focal: BoolArray,
    count: int,
) -> CrossTables:
    groups = np.stack([~focal, focal]).astype(np.float32)
    shape = (len(codes), count, 2, codes.shape[2])
    ones, zeros = np.empty(shape), np.empty(shape)
    for stratum in range(count):
        inside = strata == stratum
        ones[:, stratum] = groups @ (inside & (codes == 1)).astype(np.float32)
        zeros[:, stratum] = groups @ (inside & (codes == 0)).astype(np.float32)
    return CrossTables(ones[:, :, 0], zeros[:, :, 0], ones[:, :, 1], zeros[:, :, 1])
