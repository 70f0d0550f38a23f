"""How many labels a width needs, and where the next ones go."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.judges.correction.label_planning import (
    MOST_IDS,
    allocate,
    labels_needed,
    next_labels,
)
from safemetry.judges.correction.prediction_powered import prediction_powered


def table_of(rate, error, size):
    good = 1 - error
    return size * np.array([[(1 - rate) * good, (1 - rate) * error], [rate * error, rate * good]])


def test_a_judge_saves_labels_as_far_as_it_is_right():
    needed = [
        labels_needed(table_of(0.4, error, 2000), [5000, 5000], 0.1)
        for error in (0.02, 0.1, 0.3, 0.5)
    ]
    with_judge = [one.with_judge for one in needed]
    assert with_judge == sorted(with_judge)
    assert needed[0].with_judge < needed[0].without_judge / 5
    assert needed[-1].with_judge == needed[-1].without_judge
    assert needed[-1].saved == 0.0
    # The textbook number: 4 z^2 p (1 - p) / width^2.
    assert needed[0].without_judge == pytest.approx(4 * 1.96**2 * 0.24 / 0.01, rel=0.02)


@pytest.mark.parametrize("population", ["sample", "fixed"])
def test_the_number_of_labels_gives_the_width(population):
    plan = labels_needed(table_of(0.4, 0.1, 1000), [1000, 1000], 0.12, population=population)
    cells = (table_of(0.4, 0.1, 1) / table_of(0.4, 0.1, 1).sum()).ravel()
    rng = np.random.default_rng(1)
    draws = 2000
    for labels, tuning in ((plan.with_judge, None), (plan.without_judge, 0)):
        table = rng.multinomial(labels, cells, size=draws).reshape(draws, 2, 2)
        rest = rng.multinomial(3000 - labels, cells, size=draws).reshape(draws, 2, 2).sum(1)
        found = prediction_powered(table, rest, tuning=tuning, population=population)
        assert (found.upper - found.lower).mean() == pytest.approx(0.12, rel=0.05)


def test_a_width_that_no_number_of_labels_gives_says_so():
    plan = labels_needed([[10, 1], [1, 10]], [40, 40], 0.02)
    assert plan.without_judge is None
    assert "too few" in plan.why["without_judge"]
    assert set(plan.why) == {"without_judge", "with_judge", "saved"}
    fixed = labels_needed([[10, 1], [1, 10]], [40, 40], 0.02, population="fixed")
    assert fixed.with_judge <= fixed.without_judge <= 102
    assert plain(plan)


@pytest.mark.parametrize(
    ("table", "width"), [([[0, 0], [0, 0]], 0.1), ([[1, 0], [0, 1]], 0.0), ([1, 2], 0.1)]
)
def test_impossible_plans_are_refused(table, width):
    with pytest.raises(ValueError, match=r"at least one|width"):
        labels_needed(table, [5, 5], width)


def test_allocation_is_neymans_and_keeps_to_what_there_is():
    size, deviation = np.array([400, 100, 50, 10]), np.array([0.1, 0.5, 0.4, 0.5])
    given = allocate(size, np.zeros(4, int), deviation, 60)
    assert given.sum() == 60
    assert given == pytest.approx(60 * size * deviation / (size * deviation).sum(), abs=1.5)
    later = allocate(size, [0, 55, 0, 0], deviation, 60)
    assert later.sum() == 60
    assert later[1] == 0
    assert (allocate(size, np.zeros(4, int), deviation, 10_000) == size).all()
    assert allocate(size, np.zeros(4, int), deviation, 5).sum() == 5


def test_no_other_allocation_of_the_same_size_has_less_variance():
    rng = np.random.default_rng(2)
    size, deviation = rng.integers(50, 500, 5), rng.uniform(0.05, 0.5, 5)
    best = allocate(size, np.zeros(5, int), deviation, 100)

    def variance(n):
        return float((size**2 * deviation**2 / n).sum())

    for source in range(5):
        for goal in range(5):
            if source != goal and best[source] > 2:
                other = best.copy()
                other[source] -= 1
                other[goal] += 1
                assert variance(other) >= variance(best) * (1 - 1e-3)


@pytest.fixture
def labelled_panel(panel_from):
    rng = np.random.default_rng(5)
    gold = (rng.random(600) < 0.3).astype(int)
    first = np.where(rng.random(600) < 0.1, 1 - gold, gold)
    second = np.where(rng.random(600) < 0.2, 1 - gold, gold)
    known = np.where(rng.permutation(600) < 60, gold, -1)
    first[:7] = -1
    return panel_from(
        np.stack([known, first, second], axis=1),
        classes=("refuse", "comply"),
        judges=("human", "first", "second"),
        intent=["harmful"] * 400 + ["benign"] * 150 + [None] * 50,
    )


def test_next_labels_go_where_judges_disagree(labelled_panel):
    rng = np.random.default_rng(1)
    found = next_labels(labelled_panel, ["human"], "first", "comply", 100, rng)
    assert len(found.ids) == sum(cell.further for cell in found.cells) == 100
    assert sum(cell.responses for cell in found.cells) == 600
    assert sum(cell.labels for cell in found.cells) == 60
    assert {cell.intent for cell in found.cells} == {"harmful", "benign", "unclassified"}
    assert {cell.verdict for cell in found.cells} == {"under", "over", "none"}
    items = [int(one["item"]) for one in found.ids]
    assert len(set(items)) == 100
    assert (labelled_panel.labels[items, 0] == -1).all()
    assert found.standard_error <= found.simple_standard_error * 1.001

    def share(disagreement):
        cells = [
            cell
            for cell in found.cells
            if (cell.disagreement, cell.verdict, cell.intent) == (disagreement, "under", "harmful")
        ]
        return sum(cell.further for cell in cells) / sum(cell.responses for cell in cells)

    assert share(disagreement=True) > share(disagreement=False)
    assert plain(found)
    assert set(found.ids[0]) == {"run", "target", "item", "epoch", "cell"}


def test_the_same_numbers_choose_the_same_labels(labelled_panel):
    chosen = [
        next_labels(labelled_panel, ["human"], "first", "comply", 20, np.random.default_rng(3)).ids
        for _ in range(2)
    ]
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize(
    ("boundary", "budget"), [("comply", 0), ("comply", MOST_IDS + 1), ("evasive", 10)]
)
def test_impossible_wishes_name_the_fix(labelled_panel, boundary, budget):
    with pytest.raises(InputError):
        next_labels(labelled_panel, ["human"], "first", boundary, budget, np.random.default_rng(1))
