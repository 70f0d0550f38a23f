"""Variance components equal brute force over pairs and are unbiased with missing cells."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from safemetry.rates.components import variance_components

NAMES = (
    "target", "item", "judge", "target_item", "target_judge", "item_judge", "epoch", "residual",
)  # fmt: skip
TRUE = dict(zip(NAMES, [0.002, 0.004, 0.001, 0.003, 0.001, 0.0015, 0.0025, 0.005], strict=True))


def crossed(shape, rng, missing=0.0):
    t, i, e, j = (axis.ravel() for axis in np.indices(shape))
    targets, items, epochs, judges = shape

    def effect(name, *size):
        return rng.normal(0, np.sqrt(TRUE[name]), size)

    outcome = 0.5 + effect("target", targets)[t] + effect("item", items)[i]
    outcome += effect("judge", judges)[j] + effect("target_item", targets, items)[t, i]
    outcome += effect("target_judge", targets, judges)[t, j]
    outcome += effect("item_judge", items, judges)[i, j]
    outcome += effect("epoch", targets, items, epochs)[t, i, e] + effect("residual", t.size)
    kept = rng.random(t.size) >= missing
    return [column[kept] for column in (np.clip(outcome, 0, 1), t, i, e, j)]


def raw(found, name):
    return found.truncated.get(name, getattr(found, name))


def test_components_equal_half_mean_squares_over_listed_pairs():
    y, t, i, e, j = crossed((3, 4, 2, 2), np.random.default_rng(0), missing=0.2)
    found = variance_components(y, t, i, e, j)
    squares: dict[tuple[bool, ...], list[float]] = {}
    for a, b in combinations(range(y.size), 2):
        same = (t[a] == t[b], i[a] == i[b], j[a] == j[b])
        key = (*same, same[0] and same[1] and e[a] == e[b])
        squares.setdefault(key, []).append((y[a] - y[b]) ** 2 / 2)
    mean = {key: np.mean(values) for key, values in squares.items()}
    nothing = mean[False, False, False, False]
    target, item = (
        nothing - mean[True, False, False, False],
        nothing - mean[False, True, False, False],
    )
    both = nothing - mean[True, True, False, False] - target - item
    epoch = nothing - mean[True, True, False, True] - target - item - both
    for name, value in (
        ("target", target),
        ("item", item),
        ("target_item", both),
        ("epoch", epoch),
    ):
        assert raw(found, name) == pytest.approx(value, abs=1e-12)


def test_estimates_are_unbiased_with_missing_cells():
    rng = np.random.default_rng(41)
    studies = [variance_components(*crossed((10, 20, 2, 3), rng, 0.25)) for _ in range(150)]
    for name in NAMES:
        values = np.array([raw(found, name) for found in studies])
        # Four standard errors of the mean over studies.
        assert abs(values.mean() - TRUE[name]) < 4 * values.std() / np.sqrt(len(studies)), name


def test_components_of_a_balanced_table_are_those_of_mean_squares():
    rng = np.random.default_rng(2)
    table = rng.integers(0, 2, (6, 15)).astype(float)
    t, i = (axis.ravel() for axis in np.indices(table.shape))
    zeros = np.zeros(t.size, int)
    found = variance_components(table.ravel(), t, i, zeros, zeros)
    rows, columns = table.mean(1), table.mean(0)
    rest = table - rows[:, None] - columns + table.mean()
    noise = (rest**2).sum() / (5 * 14)
    assert found.residual == pytest.approx(noise)
    assert raw(found, "target") == pytest.approx(rows.var(ddof=1) - noise / 15)
    assert raw(found, "item") == pytest.approx(columns.var(ddof=1) - noise / 6)


@pytest.mark.parametrize(
    ("shape", "unknown", "merged"),
    [
        ((5, 8, 1, 1), {"judge", "target_item", "epoch"}, {"epoch": "residual"}),
        ((5, 8, 3, 1), {"judge", "epoch"}, {"epoch": "residual"}),
        ((5, 8, 1, 3), {"epoch"}, {"epoch": "target_item"}),
        ((1, 8, 2, 2), {"target", "target_item", "target_judge"}, {"target_item": "item"}),
        ((5, 1, 2, 2), {"item", "target_item", "item_judge"}, {"target_item": "target"}),
    ],
)
def test_what_a_design_cannot_separate_is_none_with_a_reason(shape, unknown, merged):
    found = variance_components(*crossed(shape, np.random.default_rng(3)))
    none = {name for name in NAMES if getattr(found, name) is None}
    assert unknown <= none
    assert none == set(found.why)
    assert merged.items() <= found.merged.items()
    known = sum(raw(found, name) for name in NAMES if name not in none)
    assert known == pytest.approx(found.total)


def test_a_single_outcome_has_no_variance_to_divide():
    found = variance_components([1], [0], [0], [0], [0])
    assert found.total is None
    assert set(found.why) == {*NAMES, "total"}
    assert variance_components([], [], [], [], []).total is None


def test_negative_estimates_are_reported_beside_zero():
    # Rows that repel: every item is solved by exactly one of two targets.
    found = variance_components([0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1], [0] * 4, [0] * 4)
    assert found.item == 0.0
    assert found.truncated["item"] < 0


def test_labels_and_order_of_rows_change_nothing():
    rng = np.random.default_rng(5)
    columns = crossed((4, 6, 2, 2), rng, 0.2)
    one = variance_components(*columns)
    order = rng.permutation(columns[0].size)
    y, t, i, e, j = (column[order] for column in columns)
    two = variance_components(y, 7 - t, 100 * i + 3, e, j - 5)
    for name in NAMES:
        assert raw(one, name) == pytest.approx(raw(two, name), abs=1e-12)


def test_impossible_tables_are_refused():
    with pytest.raises(ValueError, match="outcome"):
        variance_components([2.0], [0], [0], [0], [0])
    with pytest.raises(ValueError, match="judge"):
        variance_components([1.0], [0], [0], [0], [0.5])
