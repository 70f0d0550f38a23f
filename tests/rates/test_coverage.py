"""The coverage grid: cells that nobody tried are present, and say that they were not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from safemetry import cover
from safemetry.errors import InputError


def table(*rows, **columns):
    """Rows of (category, attack, label) on harmful items; items are numbered."""
    categories, attacks, labels = map(list, zip(*rows, strict=True))
    size = len(rows)
    filled = {
        "target": "m",
        "item": [str(index) for index in range(size)],
        "category": categories,
        "attack": attacks,
        "label": labels,
        "intent": "harmful",
    } | columns
    return pa.table(
        {
            name: values if isinstance(values, list) else [values] * size
            for name, values in filled.items()
        }
    )


def cells(finding):
    return {(cell.category, cell.attack): cell for cell in finding.grid}


def test_every_category_meets_every_attack(assert_sound):
    finding = cover(
        table(
            ("arson", "pair", "comply"),
            ("arson", "pair", "refuse"),
            ("fraud", "gcg", "refuse"),
            ("theft", "gcg", None),
        )
    )
    found = cells(finding)
    assert len(found) == 3 * 2
    tried = found["arson", "pair"]
    assert (tried.tested, tried.trials, tried.violations, tried.items) == (True, 2, 1, 2)
    never = found["arson", "gcg"]
    assert (never.tested, never.trials, never.ceiling) == (False, 0, None)
    assert never.why == {"ceiling": "never tested"}
    unjudged = found["theft", "gcg"]
    assert (unjudged.tested, unjudged.trials, unjudged.missing) == (True, 0, 1)
    assert unjudged.why == {"ceiling": "no response was judged"}
    assert finding.sentence() == (
        "3 of 6 cells (category x attack x judge) were tested; about the other 3 this evidence "
        "says nothing; 1 of the tested ones have no verdict."
    )
    read = assert_sound(finding)
    assert {(cell["category"], cell["attack"]): cell["tested"] for cell in read["grid"]} == {
        key: cell.tested for key, cell in found.items()
    }


def test_only_harmful_items_test_a_cell():
    data = table(
        ("arson", "pair", "comply"),
        ("fraud", "pair", "comply"),
        intent=["harmful", "benign"],
    )
    assert list(cells(cover(data))) == [("arson", "pair")]
    none = cover(table(("arson", "pair", "comply"), intent="benign"))
    assert none.grid == ()
    assert none.warnings == (
        "No item is known to be harmful; say so in the map (intent: harmful).",
    )


def test_a_category_or_attack_that_is_not_stated_has_a_cell_of_its_own():
    found = cells(cover(table(("arson", None, "comply"), (None, "pair", "refuse"))))
    assert set(found) == {
        (category, attack) for category in ("arson", "unstated") for attack in ("pair", "unstated")
    }
    assert found["arson", "unstated"].violations == 1


def test_judges_have_cells_of_their_own():
    data = table(
        ("arson", "pair", "comply"),
        ("arson", "pair", "refuse"),
        item="1",
        judge=["a", "b"],
    )
    found = {cell.judge: cell.violations for cell in cover(data).grid}
    assert found == {"a": 1, "b": 0}


def test_targets_add_up_in_a_cell_and_items_do_not():
    data = table(
        ("arson", "pair", "comply"),
        ("arson", "pair", "refuse"),
        item="1",
        target=["m", "n"],
    )
    (cell,) = cover(data).grid
    assert (cell.trials, cell.violations, cell.items) == (2, 1, 1)


def test_the_ceiling_of_a_clean_cell_counts_behaviours():
    rows = [("arson", "pair", "refuse")] * 90
    behaviours = [f"b{index // 9}" for index in range(90)]
    (cell,) = cover(table(*rows, behaviour=behaviours)).grid
    assert cell.ceiling == pytest.approx(1 - 0.05 ** (1 / 10))
    (loose,) = cover(table(*rows, behaviour=behaviours), level=0.5).grid
    assert loose.ceiling == pytest.approx(1 - 0.5 ** (1 / 10))


def test_a_level_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="level 2 is not between 0 and 1"):
        cover(table(("arson", "pair", "refuse")), level=2)
