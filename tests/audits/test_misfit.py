"""Where a misfit lies: categories and items."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.audits.person_fit import Calibrated, category_misfit, item_misfit
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses

NAMES = tuple(f"i{place}" for place in range(100))
CATEGORIES = [f"c{place % 5}" for place in range(100)]


@pytest.fixture
def case():
    """A target that refuses one category, beside ten that fit."""
    rng = np.random.default_rng(1)
    items = ItemParameters(
        np.full((100, 1), 1.2), rng.normal(1, 1, (100, 1)), np.zeros(100), np.ones(100)
    )
    chances = expit(1.2 * rng.normal(size=(11, 1)) + items.intercepts[:, 0])
    codes = (rng.random((11, 100)) < chances).astype(np.int8)
    codes[0, 2::5] = 0
    return make_responses(codes, items=NAMES), Calibrated.make(NAMES, items)


def test_the_category_that_is_refused_is_named(case):
    responses, calibrated = case
    rows = category_misfit(
        responses, calibrated, CATEGORIES, simulations=499, rng=np.random.default_rng(1)
    )
    own = {row.category: row for row in rows if row.target == "1"}
    assert own["c2"].flagged
    assert own["c2"].value < -3
    assert min(own, key=lambda name: own[name].value) == "c2"
    others = [row.flagged for row in rows if row.target != "1"]
    assert sum(others) <= 3
    assert plain(rows)


def test_a_category_without_responses_has_a_reason(case):
    responses, calibrated = case
    gaps = np.zeros(responses.codes.shape, bool)
    gaps[:, 2::5] = True
    rows = category_misfit(
        responses.without(gaps),
        calibrated,
        CATEGORIES,
        simulations=99,
        rng=np.random.default_rng(1),
    )
    empty = next(row for row in rows if row.category == "c2")
    assert empty.value is None
    assert "no item" in empty.why["value"]
    with pytest.raises(InputError, match="category"):
        category_misfit(responses, calibrated, [None] * 100, rng=np.random.default_rng(1))


def test_the_least_expected_responses_come_first(case):
    responses, calibrated = case
    rows = item_misfit(responses, calibrated, "1")
    assert len(rows) == 100
    assert [row.log_likelihood for row in rows] == sorted(row.log_likelihood for row in rows)
    assert rows[0].log_likelihood < -1
    assert abs(rows[0].residual) > 1.5
    refused = [row.residual for row in rows if int(row.item[1:]) % 5 == 2]
    assert max(refused) < 0
