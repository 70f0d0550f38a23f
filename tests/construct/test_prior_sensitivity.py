"""A prior alone can make one dimension look poor, and the table says so."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.construct.dimensions.joint_mode import DifficultyPrior, fit_joint_mode
from safemetry.construct.dimensions.models import candidate_models
from safemetry.construct.dimensions.prior_sensitivity import (
    DEFAULT,
    FREE,
    flagged_sentence,
    prior_sensitivity,
)
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.responses import make_responses
from safemetry.simulate import MatrixSettings, simulate_matrix
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)
TIGHT = "b ~ N(0, .1), a ~ LogNormal(0, .1)"


@pytest.fixture(scope="module")
def harmbench(shared):
    with (shared / "data/helm_safety/harmbench_matrix.csv").open() as stream:
        header, *rows = csv.reader(stream)
    codes = np.array([[int(cell) for cell in row[1:]] for row in rows])
    with (shared / "data/helm_safety/harmbench_items.csv").open() as stream:
        types = {row["item_id"]: row["type"] for row in csv.DictReader(stream)}
    varies = (codes.min(axis=0) == 0) & (codes.max(axis=0) == 1)
    responses = make_responses(codes, items=header[1:]).select_items(varies)
    return responses, {item: types[item] for item in responses.items}


@pytest.fixture(scope="module")
def published(harmbench):
    responses, types = harmbench
    structure = candidate_models(responses.items, {"type": types})[-1]
    rows = prior_sensitivity(responses, split_responses(responses), structure, tasks=ALONE)
    return {(row.model, row.prior): row for row in rows}


def test_tight_priors_alone_give_the_published_baseline_of_harmbench(published):
    row = published["1D 2PL", TIGHT]
    assert row.log_loss.mean == pytest.approx(0.428, abs=0.001)
    assert published["1D 2PL", DEFAULT].log_loss.mean <= 0.298
    assert row.flagged
    assert "the prior's doing" in row.why
    assert row.interval[0] > 0.1


def test_it_is_the_prior_and_not_the_estimator(published):
    joint = published["1D 2PL", TIGHT].log_loss.mean
    marginal = published["1D 2PL", "d ~ N(0, .1), a ~ LogNormal(0, .1)"]
    assert marginal.estimator == "marginal"
    assert marginal.log_loss.mean == pytest.approx(joint, abs=0.002)
    usual = published["1D 2PL", "b ~ N(0, 2), a ~ LogNormal(0, .5)"]
    assert usual.estimator == "joint_mode"
    assert usual.log_loss.mean == pytest.approx(0.297, abs=0.003)
    assert not usual.flagged


def test_without_a_prior_the_loss_is_worse_and_says_why(published):
    row = published["1D 2PL", FREE]
    assert row.flagged
    assert row.why.startswith("Without a prior")


def test_a_learned_prior_that_cannot_learn_is_flagged_and_a_wide_one_is_not(published):
    name = "type (3D confirmatory)"
    assert published[name, "tight, fixed"].flagged
    assert not published[name, "wide, learned"].flagged
    assert not published[name, "wide, fixed"].flagged
    assert not published[name, DEFAULT].flagged


def test_rows_are_plain_and_the_sentence_names_the_worst_prior(published):
    rows = list(published.values())
    held = plain(rows)
    assert {"prior", "log_loss", "flagged", "why"} <= set(held[0])
    assert len(held[0]["log_loss"]["splits"]) == 5
    assert TIGHT in flagged_sentence(rows)
    assert "0.428" in flagged_sentence(rows)


def test_harmless_data_have_no_tight_artefact():
    """Items of one difficulty and one slope are what a tight prior says."""
    settings = MatrixSettings(60, 60, discrimination=1.0, discrimination_spread=0.0)
    drawn = simulate_matrix(settings, 1, intercepts=np.zeros(60))
    responses = make_responses(drawn.outcomes)
    rows = prior_sensitivity(responses, split_responses(responses, splits=3), tasks=ALONE)
    found = {row.prior: row for row in rows}
    assert not found[TIGHT].flagged
    assert {row.model for row in rows} == {"1D 2PL"}


def test_the_joint_mode_is_a_mode_and_does_not_depend_on_the_order():
    drawn = simulate_matrix(MatrixSettings(30, 20, missing=0.1), 2)
    responses = make_responses(drawn.outcomes)
    prior = DifficultyPrior(1.0, 0.5)
    fit = fit_joint_mode(responses, prior)

    def log_posterior(theta, slopes, b):
        linear = slopes * (theta[:, None] - b)
        fits = (responses.codes == 1) * linear - responses.observed * np.logaddexp(0, linear)
        priors = (theta**2).sum() + (np.log(slopes) ** 2).sum() / 0.25 + (b**2).sum()
        return fits.sum() - priors / 2

    best = log_posterior(fit.abilities, fit.slopes, fit.difficulties)
    rng = np.random.default_rng(3)
    for _ in range(20):
        moved = log_posterior(
            fit.abilities + 0.03 * rng.standard_normal(30),
            fit.slopes * np.exp(0.03 * rng.standard_normal(20)),
            fit.difficulties + 0.03 * rng.standard_normal(20),
        )
        assert moved < best
    rows, columns = rng.permutation(30), rng.permutation(20)
    turned = fit_joint_mode(make_responses(responses.codes[rows][:, columns]), prior)
    assert np.allclose(turned.probabilities, fit.probabilities[rows][:, columns], atol=2e-3)


def test_hostile_matrices_have_finite_losses():
    codes = np.ones((6, 8), int)
    codes[:, 1], codes[2], codes[0, 3:] = 0, -1, 0
    responses = make_responses(codes)
    masks = split_responses(responses, splits=2, share=0.3)
    for row in prior_sensitivity(responses, masks, tasks=ALONE):
        assert np.isfinite(row.log_loss.mean)


def test_one_split_and_impossible_priors_are_refused():
    responses = make_responses([[1, 0], [0, 1], [1, 1]])
    with pytest.raises(InputError, match="no spread"):
        prior_sensitivity(responses, split_responses(responses, splits=1), tasks=ALONE)
    with pytest.raises(InputError, match="not above 0"):
        DifficultyPrior(0.0, 1.0)
