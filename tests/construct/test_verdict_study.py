"""How often the verdict is wrong: one dimension rejected, two factors missed."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.construct.dimensions.models import candidate_models
from safemetry.construct.dimensions.verdict import (
    REJECTED,
    SUPPORTED,
    VerdictSettings,
    judge_dimensionality,
)
from safemetry.irt.responses import make_responses
from safemetry.tasks import Task, TaskSettings, run_tasks

pytestmark = pytest.mark.slow

KINDS = ("weak", "middle", "strong", "guessing", "skewed")
SLOPES = {"weak": 0.5, "middle": 1.2, "strong": 2.5, "guessing": 1.7, "skewed": 2.0}


def one_dimension(kind, rng, targets=40, items=60):
    """Responses of one dimension with varied items; abilities are skewed in one kind."""
    theta = 1 - rng.gamma(1.0, 1.0, targets) if kind == "skewed" else rng.standard_normal(targets)
    slopes = SLOPES[kind] * rng.lognormal(0, 0.4, items)
    intercepts = rng.normal(0.7, 1.3, items) * max(1, SLOPES[kind] / 1.5)
    lower = 0.25 if kind == "guessing" else 0.0
    chance = lower + (1 - lower) / (1 + np.exp(-theta[:, None] * slopes - intercepts))
    return informative(rng.random(chance.shape) < chance)


def two_factors(rng, targets=77, items=200):
    theta = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], targets)
    linear = np.repeat(theta, items // 2, axis=1) * 1.5 * rng.lognormal(0, 0.3, items)
    chance = 1 / (1 + np.exp(-linear - rng.normal(0.5, 1.2, items)))
    return informative(rng.random(chance.shape) < chance)


def informative(outcomes):
    codes = outcomes.astype(int)
    passed = codes.sum(axis=0)
    return make_responses(codes[:, (passed > 0) & (passed < len(codes))])


def judged(*, rng, kind, null_sets):
    """One simulated data set: verdict, splits won by a structure of three dimensions, p value."""
    responses = one_dimension(kind, rng) if kind in KINDS else two_factors(rng)
    thirds = {name: "abc"[place % 3] for place, name in enumerate(responses.items)}
    models = candidate_models(responses.items, {"thirds": thirds}, max_dims=4)
    alone = TaskSettings(jobs=1, quiet=True)
    if kind in KINDS:
        chosen = VerdictSettings(null_sets=null_sets)
        found = judge_dimensionality(responses, models, chosen, tasks=alone)
    else:
        # Power against 19 simulated sets is no more than against 99.
        few = VerdictSettings(null_sets=19, dims=(2,))
        quick = [model for model in models if model.name in {"1D exploratory", "2D exploratory"}]
        found = judge_dimensionality(responses, quick, few, tasks=alone)
    best = np.array(found.losses[found.best_one])
    structure = next((held for name, held in found.losses.items() if "thirds" in name), best)
    return [found.single_attribute, int((np.array(structure) < best).sum()), found.p_value]


def verdicts(kinds, each, seed, null_sets=19):
    tasks = [
        Task(f"{kind} {number}", {"kind": kind, "null_sets": null_sets})
        for kind in kinds
        for number in range(each)
    ]
    return run_tasks(judged, tasks, seed=seed, settings=TaskSettings(jobs=1, quiet=True))


def test_at_most_ten_of_a_hundred_one_dimensional_sets_are_rejected(study_size):
    each = max(round(20 * study_size), 1)
    found = verdicts(KINDS, each, 1, null_sets=99 if study_size >= 1 else 19)
    rejected = sum(verdict == REJECTED for verdict, _, _ in found)
    sets = len(found)
    # Ten of a hundred; of fewer sets what a rate of 5% exceeds once in a thousand studies.
    assert rejected <= 10 if sets >= 100 else rejected <= 0.05 * sets + 3.1 * np.sqrt(0.0475 * sets)
    assert sum(verdict == SUPPORTED for verdict, _, _ in found) > sets / 2


def test_two_factors_correlated_at_six_tenths_are_found(study_size):
    found = verdicts(("two",), max(round(20 * study_size), 2), 2)
    assert all(verdict == REJECTED for verdict, _, _ in found)
