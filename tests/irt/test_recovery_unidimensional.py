"""Recovery of known abilities at the shapes of this field, and the size of the largest fits.

A calibration fixes the scale by its own targets: abilities have mean 0 and variance 1 in *this*
population. Where items are many, what is left of the error is that of the scale, so bias and
coverage are judged against the true abilities standardised in the same way; the share covered on
the scale of the infinite population is measured beside it.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from safemetry.irt.ability import estimate_abilities
from safemetry.irt.parameters import ItemModel
from safemetry.irt.priors import NO_PRIORS
from safemetry.irt.responses import Responses, make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional


def draw(targets, items, rng, observed=1.0):
    ability = rng.normal(size=targets)
    slopes, steps = np.exp(rng.normal(0.2, 0.4, items)), rng.normal(0.3, 1.3, items)
    codes = np.empty((targets, items), np.int8)
    for target, theta in enumerate(ability):
        codes[target] = rng.random(items) < 1 / (1 + np.exp(-slopes * theta - steps))
        if observed < 1:
            codes[target, rng.random(items) > observed] = -1
    return ability, slopes, steps, codes


def recover(targets, items, rng, priors=None):
    """Bias, spread of errors and coverage of abilities, and the same of slopes."""
    ability, slopes, _, codes = draw(targets, items, rng)
    varied = (codes.min(axis=0) < codes.max(axis=0)) | (priors is None)
    fit = fit_unidimensional(make_responses(codes[:, varied]), ItemModel.TWO_PL, priors)
    assert fit.converged
    true = (ability - ability.mean()) / ability.std()
    found, error = fit.abilities.estimates, fit.abilities.standard_errors
    # The slope of the regression of truth on estimate is 1 for posterior means.
    return {
        "bias": np.mean(found - true),
        "regression": np.cov(true, found)[0, 1] / found.var(ddof=1),
        "rmse": np.sqrt(np.mean((found - true) ** 2)),
        "rmse population": np.sqrt(np.mean((found - ability) ** 2)),
        "covered": np.mean(np.abs(found - true) < 1.96 * error),
        "covered population": np.mean(np.abs(found - ability) < 1.96 * error),
        "extreme bias": np.mean(
            (found - true)[np.abs(true) > 1.5] * np.sign(true[np.abs(true) > 1.5])
        ),
        "slope bias": np.mean(fit.parameters.slopes[:, 0] - slopes[varied]),
        "slope covered": np.mean(
            np.abs(fit.parameters.slopes[:, 0] - slopes[varied]) < 1.96 * fit.errors.slopes[:, 0]
        ),
    }


# Shape, priors, repetitions at full size, largest RMSE, least coverage.
SHAPES = [
    ((77, 400), None, 200, 0.12, 0.92),
    ((192, 5000), None, 40, 0.04, 0.92),
    ((20_000, 200), NO_PRIORS, 20, 0.15, 0.94),
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "priors", "repeats", "rmse", "coverage"), SHAPES)
def test_abilities_recover(shape, priors, repeats, rmse, coverage, study_size):
    studies = max(2, round(repeats * study_size))
    results = [recover(*shape, np.random.default_rng(seed), priors) for seed in range(studies)]
    mean = {name: float(np.mean([result[name] for result in results])) for name in results[0]}
    assert abs(mean["bias"]) < 0.02
    assert mean["regression"] == pytest.approx(1, abs=0.03)
    assert mean["rmse"] < rmse
    assert coverage <= mean["covered"] < 0.97


def test_abilities_at_192_targets_and_5000_items():
    """The target that every fixed grid misses: an RMSE of .06, and no change with more nodes."""
    ability, _, _, codes = draw(192, 5000, np.random.default_rng(20260102))
    responses = make_responses(codes)
    start = time.perf_counter()
    fit = fit_unidimensional(responses)
    seconds = time.perf_counter() - start
    true = (ability - ability.mean()) / ability.std()
    assert np.sqrt(np.mean((fit.abilities.estimates - true) ** 2)) < 0.06
    finer = fit_unidimensional(responses, node_factor=2, errors=False)
    assert abs(finer.loglik - fit.loglik) < 0.5
    assert np.abs(finer.abilities.estimates - fit.abilities.estimates).max() < 0.005
    # About .2 s on a quiet core; the bound only catches a change of order.
    assert seconds < 5
    for method in ("map", "wle"):
        other = estimate_abilities(fit.parameters, responses, method=method).estimates
        assert np.allclose(other, fit.abilities.estimates, atol=0.02)


@pytest.mark.slow
def test_a_large_sparse_matrix_stays_small(study_size):
    """At full size 5,000 targets x 20,000 items with 10% of the cells: under 5 minutes and 8 GB."""
    share = np.sqrt(min(1.0, max(study_size, 0.04)))
    targets, items = round(5000 * share), round(20_000 * share)
    ability, slopes, _, codes = draw(targets, items, np.random.default_rng(5), observed=0.1)
    names = tuple(map(str, range(items)))
    responses = Responses(codes, tuple(map(str, range(targets))), names, np.ones(targets))
    tracemalloc.start()
    start = time.perf_counter()
    fit = fit_unidimensional(responses)
    seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fit.converged
    assert seconds < 300
    assert peak < 20 * codes.size + 1e9
    true = (ability - ability.mean()) / ability.std()
    error = (fit.abilities.estimates - true) / fit.abilities.standard_errors
    assert np.sqrt(np.mean(error**2)) < 1.2
    standard = (fit.parameters.slopes[:, 0] - slopes) / fit.errors.slopes[:, 0]
    assert np.sqrt(np.mean(standard**2)) < 1.2
