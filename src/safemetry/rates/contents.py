"""What each group of a table of counts holds: its items, attacks, languages and epochs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from safemetry.claims import ItemSet
from safemetry.rates.codes import Codes, IntArray, renumber
from safemetry.rates.counts import CountTable


@dataclass(frozen=True, slots=True)
class Contents:
    """What the rows of one group speak of.

    Parameters
    ----------
    items
        Number and digest of the items.
    attacks, languages
        The words of the items, sorted.
    epochs
        Most responses to one item.
    """

    items: ItemSet
    attacks: tuple[str, ...]
    languages: tuple[str, ...]
    epochs: int


def group_contents(
    table: CountTable, rows: IntArray, codes: IntArray, groups: int
) -> list[Contents]:
    """Say for each group what its rows speak of.

    Parameters
    ----------
    table
        Counts of responses.
    rows
        Rows of the table that belong to a group.
    codes
        Group of each of them, from 0 to `groups` - 1; each group has a row.
    groups
        Number of groups.
    """
    items = table.item.codes[rows]
    asked = cells(codes, items)
    return [
        Contents(*parts)
        for parts in zip(
            _item_sets(table, items, codes, asked[1], groups),
            _words(table.item_words["attack"], rows, codes, groups),
            _words(table.item_words["language"], rows, codes, groups),
            _epochs(table, rows, items, codes, asked, groups),
            strict=True,
        )
    ]


def cells(codes: IntArray, values: IntArray) -> tuple[IntArray, IntArray]:
    """Number the combinations of group and value; return the cell of each row, a row of each."""
    width = int(values.max(initial=0)) + 1
    return renumber(codes * width + values, (int(codes.max(initial=0)) + 1) * width)


def _values_by_group(
    codes: IntArray, values: IntArray, first: IntArray, groups: int
) -> Iterator[IntArray]:
    """The different values of each group, sorted, from one row of each cell."""
    edges = np.searchsorted(codes[first], np.arange(groups + 1))
    found = values[first]
    return (found[edges[group] : edges[group + 1]] for group in range(groups))


def _item_sets(
    table: CountTable, items: IntArray, codes: IntArray, first: IntArray, groups: int
) -> Iterator[ItemSet]:
    # Groups of different targets and judges share their items, whose digest is made once.
    known: dict[bytes, ItemSet] = {}
    for held in _values_by_group(codes, items, first, groups):
        key = held.tobytes()
        if key not in known:
            # Codes follow the sorted ids, so the digest does not depend on the order of the rows.
            digest = hashlib.sha256(table.item_digests[held].tobytes()).hexdigest()[:16]
            known[key] = ItemSet(len(held), digest)
        yield known[key]


def _words(
    column: Codes, rows: IntArray, codes: IntArray, groups: int
) -> Iterator[tuple[str, ...]]:
    known: dict[bytes, tuple[str, ...]] = {}
    values = column.codes[rows]
    for held in _values_by_group(codes, values, cells(codes, values)[1], groups):
        key = held.tobytes()
        if key not in known:
            words = (column.values[code] for code in held)
            known[key] = tuple(word for word in words if word is not None)
        yield known[key]


def _epochs(
    table: CountTable,
    rows: IntArray,
    items: IntArray,
    codes: IntArray,
    asked: tuple[IntArray, IntArray],
    groups: int,
) -> list[int]:
    runs = table.columns["run"].codes
    cell, first = asked
    if runs.max(initial=0):
        width = int(items.max(initial=0)) + 1
        cell, first = cells(codes, runs[rows] * width + items)
    responses = np.bincount(cell, weights=table.responses[rows])
    most = np.zeros(groups, dtype=np.int64)
    np.maximum.at(most, codes[first], responses.astype(np.int64))
    found: list[int] = most.tolist()
    return found
