"""Split-half stability of the most discriminating items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.forms.maintenance import split_half_stability
from safemetry.irt.parameters import ItemModel
from safemetry.irt.priors import NO_PRIORS, ItemPriors
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)
DEFAULT = {"default": ItemPriors()}


def simulate(targets, items, rng, spread):
    slopes = np.exp(rng.normal(0, spread, items))
    logits = rng.normal(size=(targets, 1)) * slopes - rng.normal(0, 0.7, items)
    return (rng.random((targets, items)) < 1 / (1 + np.exp(-logits))).astype(np.int8)


def test_many_targets_find_the_same_items_and_few_do_not():
    rng = np.random.default_rng(0)
    codes = simulate(1000, 40, rng, 0.6)
    shares = [
        split_half_stability(
            make_responses(codes[:count]), (8,), priors=DEFAULT, splits=4, tasks=ALONE
        )[0].shared
        for count in (40, 1000)
    ]
    assert shares[0] + 0.15 < shares[1]
    assert shares[1] > 0.7


def test_items_that_discriminate_alike_are_shared_by_chance_only():
    rng = np.random.default_rng(1)
    responses = make_responses(simulate(120, 60, rng, 0.0))
    row = split_half_stability(responses, (12,), priors=DEFAULT, splits=12, tasks=ALONE)[0]
    assert row.chance == pytest.approx(12 / row.items)
    assert abs(row.shared - row.chance) < 0.12
    assert abs(row.correlation) < 0.2


def test_every_prior_and_size_has_a_row_on_the_same_halves():
    rng = np.random.default_rng(2)
    responses = make_responses(simulate(40, 30, rng, 0.5))
    both = {"none": NO_PRIORS, "default": ItemPriors(), "again": ItemPriors()}
    rows = split_half_stability(responses, (5, 10), priors=both, splits=2, tasks=ALONE)
    assert [(row.priors, row.top) for row in rows] == [
        (name, size) for name in both for size in (5, 10)
    ]
    assert replace(rows[4], priors="default") == rows[2]
    assert rows[0].bounded > 0 == rows[2].bounded
    for row in rows:
        assert 0 <= row.low <= row.shared + 1e-9 <= row.high + 2e-9 <= 1 + 2e-9


def test_what_cannot_be_compared_is_refused():
    responses = make_responses(simulate(20, 12, np.random.default_rng(3), 0.5))
    with pytest.raises(InputError, match="stability"):
        split_half_stability(responses, (3,), splits=1)
    with pytest.raises(InputError, match="no choice"):
        split_half_stability(responses, (12,))
    with pytest.raises(InputError, match="alike"):
        split_half_stability(responses, (3,), model=ItemModel.RASCH)
    constant = make_responses(np.ones((20, 12), np.int8))
    with pytest.raises(InputError, match="vary in both halves"):
        split_half_stability(constant, (3,), tasks=ALONE)
