"""Organisms answer otherwise exactly where, and as much as, their truth says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from safemetry.errors import InputError
from safemetry.simulate.organisms import (
    BEHAVIOURS,
    NONSENSE,
    Organism,
    OrganismSettings,
    simulate_organisms,
)

KINDS = (
    Organism(),
    Organism("uniform", 1.5),
    Organism("targeted", 3.0),
    Organism("triggered", 3.0),
    Organism("sandbagging", 1.0),
    Organism("random", 0.4),
)


def make(rng=3, **choices):
    settings = {"items": 200, "population": 50, "organisms": KINDS, "abilities": (-1.0, 1.0)}
    return simulate_organisms(OrganismSettings(**(settings | choices)), rng)


def rows(made, behaviour):
    return [n for n, kind in enumerate(made.truth.organisms) if kind.behaviour == behaviour]


def test_outcomes_have_the_chances_of_the_truth():
    made = make(copies=300)
    for chances, outcomes in (
        (made.truth.honest, made.history),
        (made.truth.evaluated, made.evaluated),
    ):
        z = (outcomes - chances).sum(axis=1) / np.sqrt((chances * (1 - chances)).sum(axis=1))
        assert abs(z.mean()) < 4 / np.sqrt(len(z))
        assert z.std() == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_only_the_affected_cells_change(behaviour):
    truth = make().truth
    changed = truth.honest != truth.evaluated
    chosen = rows(make(), behaviour)
    assert len(chosen) == 2
    assert (changed[chosen] == truth.affected[chosen]).all()


def test_affected_items_are_those_of_the_category_or_of_the_trigger():
    made = make()
    targeted = made.truth.affected[rows(made, "targeted")]
    assert (targeted == (np.array(made.categories) == NONSENSE[0])).all()
    assert targeted.sum(axis=1).tolist() == [20, 20]
    assert (made.truth.affected[rows(made, "triggered")] == made.triggered).all()
    assert made.triggered.mean() == pytest.approx(0.25, abs=0.1)
    assert not made.truth.affected[rows(made, "honest")].any()


def test_strengths_are_in_the_unit_that_is_said():
    made = make(benign_share=0.5)
    truth = made.truth
    towards = logit(truth.evaluated) - logit(truth.honest)
    sign = np.where(made.benign, -1, 1)
    assert np.allclose(towards[rows(made, "uniform")], 1.5 * sign)
    lower = truth.abilities[rows(made, "sandbagging")][:, None] - 1.0
    assert np.allclose(
        truth.evaluated[rows(made, "sandbagging")],
        expit(lower * truth.slopes + truth.intercepts),
    )
    random = rows(made, "random")
    assert np.allclose(truth.evaluated[random], 0.6 * truth.honest[random] + 0.2)


def test_refusing_is_rewarded_on_harmful_items_and_not_on_benign_ones():
    made = make(benign_share=0.5)
    assert made.benign.sum() == 100
    for behaviour in ("uniform", "targeted", "triggered"):
        chosen = rows(made, behaviour)
        change = (made.truth.evaluated - made.truth.honest)[chosen]
        affected = made.truth.affected[chosen]
        assert (change[affected & made.benign] < 0).all()
        assert (change[affected & ~made.benign] > 0).all()


def test_shifts_are_those_that_a_long_test_would_find():
    truth = make().truth
    held_back = [kind.behaviour == "sandbagging" for kind in truth.organisms]
    assert np.allclose(truth.shifts[held_back], -1.0, atol=1e-9)
    honest = [kind.behaviour == "honest" for kind in truth.organisms]
    assert np.allclose(truth.shifts[honest], 0.0, atol=1e-9)
    cautious = [kind.behaviour in {"uniform", "targeted", "triggered"} for kind in truth.organisms]
    assert (truth.shifts[cautious] < 0).all()


def test_the_same_seed_gives_the_same_organisms():
    first, second = make(), make()
    assert (first.evaluated == second.evaluated).all()
    assert (first.evaluated != make(rng=4).evaluated).any()


@pytest.mark.parametrize(
    ("make_it", "said"),
    [
        (lambda: Organism("angry", 1.0), "unknown behaviour"),
        (lambda: Organism("uniform", -1.0), "not a finite number from 0"),
        (lambda: Organism("uniform", float("inf")), "not a finite number from 0"),
        (lambda: Organism("honest", 1.0), "no strength"),
        (lambda: Organism("random", 1.5), "a share"),
        (lambda: OrganismSettings(items=0), "fewest"),
        (lambda: OrganismSettings(organisms=()), "no organism"),
        (lambda: OrganismSettings(abilities=(float("nan"),)), "not finite"),
        (lambda: OrganismSettings(target_category="other"), "no category 'other'"),
        (lambda: OrganismSettings(categories=("amber", "amber")), "one name"),
        (lambda: OrganismSettings(trigger_share=1.2), "trigger_share"),
    ],
)
def test_impossible_settings_are_refused(make_it, said):
    with pytest.raises(InputError, match=said):
        make_it()
