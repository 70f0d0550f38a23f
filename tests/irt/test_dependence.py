"""Local dependence: the oracle's values, missing cells, and pairs that depend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.diagnostics.dependence import (
    dependent_pairs,
    mean_corrected,
    pair_fit,
    residual_correlations,
)
from safemetry.irt.responses import make_responses

CASES = [
    ("LSAT7", "LSAT7_2PL"),
    ("LSAT7", "LSAT7_Rasch"),
    ("LSAT7", "LSAT7_3PLprior"),
    ("SAT12", "SAT12_2PL_tight"),
    ("SAT12na", "SAT12na_2PL"),
    ("Science_polytomous", "Science_graded"),
]


@pytest.mark.parametrize(("data", "fit"), CASES)
def test_both_statistics_agree_with_the_oracle(oracle, posterior_means, data, fit):
    parameters, responses = oracle.parameters(fit), oracle.responses(data)
    sd = oracle.spread(fit) if "Rasch" in fit else 1.0
    means, _ = posterior_means(responses, parameters, sd)
    q3 = residual_correlations(responses, parameters, means)
    assert q3.known.sum() == len(responses.items) * (len(responses.items) - 1)
    apart = np.abs(q3.values - oracle.numbers(f"{fit}_residuals_Q3"))
    assert apart[q3.known].max() < 1e-6

    table = oracle.numbers(f"{fit}_residuals_LD")  # statistics below, signed effects above
    below = np.tril_indices(len(table), -1)
    found = pair_fit(responses, parameters, sd=sd)
    assert np.abs(found.statistic[below] - np.abs(table[below])).max() < 1e-5
    effects = table.T[below]
    assert np.abs(np.abs(found.effect[below]) - np.abs(effects)).max() < 1e-6
    # Where the margins differ and the covariance does not, the sign is a matter of definition.
    large = found.statistic[below] > 6
    differ = np.sign(found.effect[below]) != np.sign(effects)
    assert (differ & large).sum() <= 0.1 * large.sum()


def test_independent_items_have_a_mean_of_minus_one_over_the_others(simulated, posterior_means):
    parameters, _, responses = simulated(3000, 15, np.random.default_rng(0))
    means, _ = posterior_means(responses, parameters)
    found = residual_correlations(responses, parameters, means)
    # The mean over 105 pairs of correlations with standard errors of .018 is known within .005.
    assert abs(found.mean + 1 / 14) < 0.03
    assert mean_corrected(found).mean == pytest.approx(0, abs=1e-12)
    assert dependent_pairs(found) == ()


def test_a_copied_item_is_found(simulated, posterior_means):
    parameters, _, responses = simulated(500, 12, np.random.default_rng(1))
    codes = responses.codes.copy()
    codes[:, 7] = np.where(np.random.default_rng(2).random(500) < 0.8, codes[:, 3], codes[:, 7])
    copied = make_responses(codes)
    means, _ = posterior_means(copied, parameters)
    (pair,) = dependent_pairs(residual_correlations(copied, parameters, means))
    assert {pair["item"], pair["other"]} == {"4", "8"}
    fit = pair_fit(copied, parameters)
    assert np.unravel_index(fit.statistic.argmax(), (12, 12)) == (3, 7)
    assert fit.effect[3, 7] > 0
    assert fit.standardised()[3, 7] > 10
    assert fit.p_values()[3, 7] < 1e-9
    assert fit.p_values()[3, 3] == 1


def test_few_targets_and_many_items_name_no_pair_by_chance(simulated):
    parameters, theta, responses = simulated(77, 120, np.random.default_rng(9))
    found = residual_correlations(responses, parameters, theta)
    large = mean_corrected(found).values > 0.2
    assert large.sum() / 2 > 50
    assert dependent_pairs(found) == ()
    assert len(dependent_pairs(found, level=1)) == large.sum() / 2


def test_a_missing_cell_leaves_its_pairs_only(simulated):
    parameters, theta, responses = simulated(60, 6, np.random.default_rng(3))
    gaps = np.zeros(responses.codes.shape, bool)
    gaps[:20, 2] = True
    found = residual_correlations(responses.without(gaps), parameters, theta)
    later = replace(
        responses,
        codes=responses.codes[20:],
        targets=responses.targets[20:],
        weights=responses.weights[20:],
    )
    alone = residual_correlations(later, parameters, theta[20:])
    whole = residual_correlations(responses, parameters, theta)
    assert np.allclose(found.values[2], alone.values[2])
    assert np.isclose(found.values[0, 1], whole.values[0, 1])


def test_a_weight_is_that_many_targets(simulated):
    parameters, theta, responses = simulated(50, 5, np.random.default_rng(3), 3)
    repeats = 1 + np.arange(50) % 3
    weighted = replace(responses, weights=repeats.astype(float))
    whole = make_responses(np.repeat(responses.codes, repeats, axis=0))
    assert np.allclose(
        residual_correlations(weighted, parameters, theta).values,
        residual_correlations(whole, parameters, np.repeat(theta, repeats, axis=0)).values,
    )
    assert np.allclose(
        pair_fit(weighted, parameters).statistic, pair_fit(whole, parameters).statistic
    )


def test_constant_columns_and_few_targets_are_unknown(simulated):
    parameters, theta, responses = simulated(30, 5, np.random.default_rng(4))
    gaps = np.ones(responses.codes.shape, bool)
    gaps[:, :3] = False
    gaps[:5, 3] = False
    found = residual_correlations(responses.without(gaps), parameters, theta)
    assert not found.known[3].any()
    assert not found.known[4].any()
    assert found.known[0, 1]
    assert np.isfinite(found.values).all()
    assert len(found.largest(100)) == 3
    nothing = residual_correlations(
        responses.without(np.ones(responses.codes.shape, bool)), parameters, theta
    )
    assert nothing.mean is None
    assert dependent_pairs(nothing) == ()
    fit = pair_fit(responses.without(gaps), parameters)
    assert not fit.known[4].any()
    assert np.isfinite(fit.effect).all()


def test_several_dimensions_have_residuals_but_no_pair_fit(simulated):
    parameters, theta, responses = simulated(200, 10, np.random.default_rng(5), dimensions=2)
    assert abs(residual_correlations(responses, parameters, theta).mean) < 0.05
    with pytest.raises(InputError, match="one dimension"):
        pair_fit(responses, parameters)
