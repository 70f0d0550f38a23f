"""Correlations of dimensions, and departures from a published order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dimensions.correlations import describe_correlations, factor_correlations
from safemetry.construct.dimensions.full_fits import full_fits
from safemetry.construct.dimensions.models import candidate_models
from safemetry.construct.dimensions.published import departures
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

PUBLISHED = np.array([[1, 0.785, 0.451], [0.785, 1, 0.603], [0.451, 0.603, 1]])
TYPES = ("standard", "contextual", "copyright")


def test_the_published_matrix_sets_copyright_apart():
    found = describe_correlations("3D", TYPES, PUBLISHED, "structure")
    assert found.least_related == "copyright"
    assert found.mean_with_others == pytest.approx((0.618, 0.694, 0.527))
    assert "copyright correlates least" in found.sentence
    order = [2, 0, 1]
    turned = describe_correlations(
        "3D", tuple(TYPES[place] for place in order), PUBLISHED[order][:, order], "structure"
    )
    assert turned.least_related == "copyright"


@pytest.mark.parametrize("model", ["2D exploratory", "halves (2D confirmatory)"])
def test_a_planted_correlation_is_recovered(model):
    rng = np.random.default_rng(2)
    theta = rng.standard_normal((400, 2)) @ np.linalg.cholesky([[1, 0.5], [0.5, 1]]).T
    linear = 1.8 * theta[:, np.arange(40) % 2] + rng.normal(0, 0.7, 40)
    responses = make_responses((rng.random(linear.shape) < expit(linear)).astype(int))
    halves = {name: "ab"[place % 2] for place, name in enumerate(responses.items)}
    models = candidate_models(responses.items, {"halves": halves}, max_dims=2)
    chosen = [other for other in models if other.name == model]
    (fit,) = full_fits(responses, chosen, restarts=2, tasks=TaskSettings(jobs=1, quiet=True))
    found = factor_correlations(fit)
    assert found.correlations[0][1] == pytest.approx(0.5, abs=0.15)
    assert "correlate" in found.sentence


def test_only_pairs_in_another_order_are_departures():
    published = {"a": 0.25, "b": 0.26, "c": 0.30, "tied": 0.30, "elsewhere": 0.1}
    mine = {"c": 0.20, "b": 0.21, "a": 0.22, "tied": 0.5, "new": 0.1}
    found = departures(mine, published)
    assert {(entry.first, entry.second) for entry in found} == {("a", "b"), ("a", "c"), ("b", "c")}
    assert found[0].published == (0.25, 0.26)
    assert found[0].mine == (0.22, 0.21)
    assert departures(published, published) == ()
    assert departures({}, published) == ()
