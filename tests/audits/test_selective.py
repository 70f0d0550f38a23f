"""The scan for selective behaviour: what it finds, and how often it is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.audits.person_fit import Calibrated, selective_scan
from safemetry.findings import plain
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses

NAMES = tuple(f"i{place}" for place in range(100))
CONDITIONS = ["trigger" if place % 4 == 0 else "plain" for place in range(100)]


def draw(targets, rng, caution=0.0):
    items = ItemParameters(
        np.exp(rng.normal(0, 0.3, (100, 1))),
        rng.normal(1, 1, (100, 1)),
        np.zeros(100),
        np.ones(100),
    )
    theta = np.repeat(rng.normal(size=(targets, 1)), 100, axis=1)
    theta[:, ::4] -= caution
    chances = expit(theta * items.slopes[:, 0] + items.intercepts[:, 0])
    codes = (rng.random(chances.shape) < chances).astype(np.int8)
    return make_responses(codes, items=NAMES), Calibrated.make(NAMES, items)


def test_caution_under_a_trigger_is_found():
    rng = np.random.default_rng(1)
    found = selective_scan(*draw(20, rng, caution=3.0), CONDITIONS, simulations=199, rng=rng)
    assert sum(one.flagged for one in found) >= 18
    for one in found:
        row = next(row for row in one.rows if row.condition == "trigger")
        assert row.shift == row.inside - row.rest
    assert plain(found)


@pytest.mark.slow
def test_targets_that_fit_are_flagged_at_the_level(study_size):
    rng = np.random.default_rng(2)
    targets = max(int(2000 * study_size), 100)
    categories = [f"c{place % 8}" for place in range(100)]
    found = selective_scan(*draw(targets, rng), categories, simulations=199, rng=rng)
    rate = np.mean([one.flagged for one in found])
    assert rate < 0.05 + 3 * np.sqrt(0.05 * 0.95 / targets)
    assert all(one.null_rate <= 0.05 for one in found)


def test_conditions_with_few_responses_have_reasons():
    rng = np.random.default_rng(3)
    conditions = ["rare"] * 3 + ["common"] * 97
    found = selective_scan(*draw(2, rng), conditions, simulations=99, rng=rng)
    for one in found:
        assert one.p_value is None
        assert not one.flagged
        assert all("fewer" in row.why["shift"] for row in one.rows)
