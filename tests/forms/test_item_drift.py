"""Drift of items between cohorts: found where it is, rarely claimed where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.forms.maintenance import DriftSettings, item_drift
from safemetry.irt.parameters import ItemModel, ItemParameters, category_probabilities
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)


def items_of(count, rng, categories=2):
    slopes = np.exp(rng.normal(0.2, 0.3, (count, 1)))
    steps = rng.normal(0, 0.8, (count, 1)) - 0.9 * np.arange(categories - 1)
    return ItemParameters(slopes, steps, np.zeros(count), np.ones(count))


def cohort(parameters, targets, rng, mean=0.0, sd=1.0, moved=None):
    steps = parameters.intercepts.copy()
    for item, move in (moved or {}).items():
        steps[item] += move
    changed = ItemParameters(parameters.slopes, steps, parameters.lower, parameters.upper)
    theta = rng.normal(mean, sd, (targets, 1))
    below = np.cumsum(category_probabilities(changed, theta), axis=0)[:-1]
    codes = (rng.random((targets, parameters.items)) >= below).sum(axis=0)
    return make_responses(codes, items=[f"item-{place}" for place in range(parameters.items)])


@pytest.mark.parametrize(("model", "categories"), [(ItemModel.TWO_PL, 2), (ItemModel.GRADED, 3)])
def test_moved_items_are_found_in_cohorts_of_different_ability(model, categories):
    rng = np.random.default_rng(0)
    items = items_of(20, rng, categories)
    # The hardest item gets easier and the easiest harder, so that neither ends at a bound.
    easier, harder = int(items.intercepts[:, 0].argmin()), int(items.intercepts[:, 0].argmax())
    earlier = cohort(items, 250, rng)
    later = cohort(items, 250, rng, mean=0.7, sd=0.8, moved={easier: 2.0, harder: -2.4})
    settings = DriftSettings(model=model, simulations=20)
    found = item_drift(earlier, later, settings, tasks=ALONE)
    assert set(found.drifted) == {f"item-{easier}", f"item-{harder}"}
    rows = {row.item: row for row in found.rows}
    up, down = rows[f"item-{easier}"], rows[f"item-{harder}"]
    assert up.score_change > 0.1 > -0.1 > down.score_change
    assert up.difficulty_change < 0 < down.difficulty_change
    assert found.link.intercept == pytest.approx(0.7, abs=0.3)
    assert [row.statistic for row in found.rows] == sorted(
        (row.statistic for row in found.rows), reverse=True
    )
    read = plain(found)
    for row in read["rows"]:
        assert all(value is not None or row["why"][name] for name, value in row.items())


@pytest.mark.slow
def test_without_drift_any_flag_at_all_is_rare(study_size):
    """Family-wise: the share of cohort pairs with a false flag stays at the stated level."""
    repeats = max(8, round(100 * study_size))
    rng = np.random.default_rng(1)
    false = 0
    for number in range(repeats):
        items = items_of(12, rng)
        pair = cohort(items, 50, rng), cohort(items, 50, rng, mean=0.5)
        settings = DriftSettings(level=0.1, simulations=19, seed=number)
        false += bool(item_drift(*pair, settings, tasks=ALONE).drifted)
    assert false / repeats <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / repeats)


def test_order_of_items_does_not_matter_and_other_items_are_left_out():
    rng = np.random.default_rng(2)
    items = items_of(12, rng)
    earlier, later = cohort(items, 60, rng), cohort(items, 60, rng)
    constant = later.codes.copy()
    constant[:, 5] = 1
    later = make_responses(constant, items=later.items)
    settings = DriftSettings(level=0.2, simulations=5)
    found = item_drift(earlier, later, settings, tasks=ALONE)
    assert found.left_out == ("item-5",)
    assert len(found.rows) == 11
    turned = later.select_items(np.arange(12)[::-1])
    assert item_drift(earlier, turned, settings, tasks=ALONE).rows == found.rows


def test_what_cannot_be_compared_is_refused():
    rng = np.random.default_rng(3)
    items = items_of(6, rng)
    earlier, later = cohort(items, 30, rng), cohort(items, 30, rng)
    with pytest.raises(InputError, match="fewer than 8"):
        item_drift(make_responses(earlier.codes[:5]), later)
    with pytest.raises(InputError, match="three are least"):
        item_drift(earlier.select_items(np.arange(2)), later)
    with pytest.raises(InputError, match="no 95% point"):
        DriftSettings(simulations=10)
    with pytest.raises(InputError, match="level"):
        DriftSettings(level=0.0)
