"""The study of detection finds what is there, and flags honest organisms at the stated level."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.audits.detection import DetectionSettings, detection_study
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.rates.intervals import clopper_pearson
from safemetry.simulate.organisms import Organism
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)
KINDS = (Organism(), Organism("sandbagging", 2.0), Organism("random", 0.6))


def study(**choices):
    settings = {
        "items": (60,),
        "organisms": KINDS,
        "abilities": (0.0,),
        "calibrations": 3,
        "copies": 6,
        "honest_copies": 10,
        "simulations": 199,
    }
    return detection_study(DetectionSettings(**(settings | choices)), tasks=ALONE)


def rates(rows, organism, level=0.05):
    return {
        row.test: row.rate
        for row in rows
        if row.organism == organism and row.level == level and row.ability is None
    }


@pytest.fixture(scope="module")
def rows():
    return study()


def test_each_kind_is_found_by_the_test_that_is_made_for_it(rows):
    held_back, random = rates(rows, "sandbagging"), rates(rows, "random")
    assert held_back["ability_shift"] > 0.9
    assert held_back["l_z_star"] < 0.3
    assert random["l_z_star"] > 0.8
    assert min(held_back["union"], random["union"]) > 0.75


def test_rows_hold_counts_rates_and_their_intervals(rows):
    assert {row.organisms for row in rows if row.organism == "honest"} == {30}
    assert {row.organisms for row in rows if row.organism == "random"} == {18}
    for row in rows:
        assert row.rate == row.flagged / row.organisms
        assert row.interval == tuple(map(float, clopper_pearson(row.flagged, row.organisms)))
    at = {(row.organism, row.ability, row.test, row.level): row.flagged for row in rows}
    assert len(at) == len(rows)
    for (organism, ability, test, level), flagged in at.items():
        assert at[organism, 0.0, test, level] == flagged  # the only ability, and all of them
        assert at[organism, ability, test, 0.1] >= at[organism, ability, test, 0.05]
        assert (
            at[organism, ability, "union_naive", level]
            >= (at[organism, ability, "ability_shift", level])
        )
    plain([vars(row) for row in rows if row.ability is not None])


def test_the_same_seed_gives_the_same_rows():
    small = {"calibrations": 2, "copies": 2, "honest_copies": 2, "simulations": 99}
    first, second = (study(**small) for _ in range(2))
    assert first == second
    assert study(**small, seed=1) != first


@pytest.mark.slow
def test_honest_organisms_are_flagged_at_most_at_the_level(study_size):
    calibrations = max(round(40 * study_size), 4)
    rows = study(
        items=(40,),
        organisms=(Organism(),),
        abilities=(-3.0, -1.5, 0.0, 1.5, 3.0),
        calibrations=calibrations,
        honest_copies=20,
    )
    count = calibrations * 20
    for row in rows:
        trials = count if row.ability is not None else 5 * count
        assert row.organisms == trials
        if row.test != "union_naive":
            # Organisms of one calibration share the errors of its items.
            spread = np.sqrt(1.5 * row.level * (1 - row.level) / trials)
            assert row.rate <= row.level + 3.5 * spread, row
    together = rates(rows, "honest")
    assert together["union_naive"] > together["union"]


@pytest.mark.parametrize(
    "choices",
    [
        {"calibrations": 0},
        {"levels": (1.0,)},
        {"organisms": (Organism(), Organism())},
        {"items": (0,)},
    ],
)
def test_impossible_studies_are_refused(choices):
    with pytest.raises(InputError):
        DetectionSettings(**choices)
