"""A new form on the old scale."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.forms.maintenance import renew_form
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses


def items_of(count, rng):
    slopes = np.exp(rng.normal(0.2, 0.3, (count, 1)))
    return ItemParameters(slopes, rng.normal(0, 1, (count, 1)), np.zeros(count), np.ones(count))


def answered(items, theta, rng):
    chances = 1 / (1 + np.exp(-(theta[:, None] * items.slopes[:, 0] + items.intercepts[:, 0])))
    return (rng.random(chances.shape) < chances).astype(np.int8)


def names(first, last):
    return [f"item-{place}" for place in range(first, last)]


def test_new_items_and_targets_land_on_the_old_scale():
    rng = np.random.default_rng(0)
    whole = items_of(60, rng)
    old = whole.select(np.arange(40))
    theta = rng.normal(0.8, 1.3, 1500)
    codes = answered(whole, theta, rng)[:, 15:]
    responses = make_responses(codes, items=names(15, 60))
    found = renew_form((names(0, 40), old), responses)
    assert found.items == responses.items
    assert found.link.slope == pytest.approx(1.3, abs=0.1)
    assert found.link.intercept == pytest.approx(0.8, abs=0.1)
    fresh = found.parameters.select(np.arange(25, 45))
    assert np.abs(fresh.slopes / whole.slopes[40:] - 1).mean() < 0.15
    assert np.abs(fresh.intercepts - whole.intercepts[40:]).mean() < 0.15
    assert np.corrcoef(found.abilities, theta)[0, 1] > 0.9
    assert abs((found.abilities - theta).mean()) < 0.1
    assert 0 < found.score_error < found.ability_error < 0.2


@pytest.mark.slow
def test_the_error_of_the_link_is_that_of_repeated_links(study_size):
    repeats = max(8, round(60 * study_size))
    rng = np.random.default_rng(1)
    errors, stated = [], []
    for _ in range(repeats):
        whole = items_of(40, rng)
        # The old calibration has errors of its own, which the choice of common items carries.
        noise = rng.normal(0, 0.15, (2, 25, 1))
        old = ItemParameters(
            whole.slopes[:25] * np.exp(noise[0]),
            whole.intercepts[:25] + noise[1],
            np.zeros(25),
            np.ones(25),
        )
        codes = answered(whole, rng.normal(0.5, 1, 1000), rng)[:, 5:]
        found = renew_form((names(0, 25), old), make_responses(codes, items=names(5, 40)))
        errors.append(found.link.intercept - 0.5)
        stated.append(found.link.intercept_error)
    assert 0.4 < np.mean(stated) / np.std(errors) < 2


def test_too_few_common_items_are_refused():
    rng = np.random.default_rng(2)
    items = items_of(12, rng)
    codes = answered(items, rng.normal(size=80), rng)
    with pytest.raises(InputError, match="share 2 items"):
        renew_form(
            (names(0, 5), items.select(np.arange(5))),
            make_responses(codes[:, 3:], items=names(3, 12)),
        )
