"""S-X2: the oracle's values, its level, its power, and the summed scores behind it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.diagnostics.itemfit import estimated_parameters, holm, summed_score_fit
from safemetry.irt.diagnostics.summed import score_distribution, scores_without_each
from safemetry.irt.parameters import ItemParameters, category_probabilities
from safemetry.irt.responses import make_responses


def by_enumeration(chances, left_out=None):
    """Distribution of the summed score, over all response patterns."""
    categories, nodes, items = chances.shape
    found = np.zeros((items * (categories - 1) + 1, nodes))
    chosen = [item for item in range(items) if item != left_out]
    for pattern in product(range(categories), repeat=len(chosen)):
        terms = [chances[code, :, item] for code, item in zip(pattern, chosen, strict=True)]
        found[sum(pattern)] += np.prod(terms, axis=0)
    return found


@pytest.mark.parametrize("categories", [2, 3])
def test_the_recursion_agrees_with_all_response_patterns(categories):
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(categories), size=(4, 5)).transpose(2, 0, 1)
    assert np.allclose(score_distribution(chances), by_enumeration(chances))
    found = dict(scores_without_each(chances))
    assert sorted(found) == list(range(5))
    for item, scores in found.items():
        assert np.allclose(scores, by_enumeration(chances, item)[: len(scores)])


@pytest.mark.parametrize(
    "fit", ["LSAT6_2PL_tight", "LSAT7_2PL", "LSAT7_Rasch", "LSAT7_1PLconstr", "LSAT7_3PLprior"]
)
def test_short_tests_agree_with_the_oracle(oracle, fit):
    parameters = oracle.parameters(fit)
    sd = oracle.spread(fit) if "Rasch" in fit else 1.0
    # The oracle takes two parameters off for every item without asymptotes, common slope or not.
    estimated = 3 if "3PL" in fit else 2
    found = summed_score_fit(oracle.responses(fit[:5]), parameters, sd=sd, estimated=estimated)
    table = oracle.numbers(f"{fit}_itemfit_SX2")
    for item, (statistic, degrees, rmsea, p_value) in zip(found.items, table, strict=True):
        assert abs(item.statistic - statistic) < 1e-6
        assert item.degrees == degrees
        assert abs(item.rmsea - rmsea) < 1e-6
        assert abs(item.p_value - p_value) < 1e-6


def test_a_long_test_agrees_wherever_scores_are_joined_in_the_same_way(oracle):
    # The oracle's rule for joining sparse scores is not published; where the degrees of freedom or
    # the groups differ, the p-values still say the same.
    found = summed_score_fit(oracle.responses("SAT12"), oracle.parameters("SAT12_2PL_tight"))
    statistic, degrees, _, p_value = oracle.numbers("SAT12_2PL_tight_itemfit_SX2").T
    ours = np.array([item.statistic for item in found.items])
    assert (np.abs(ours - statistic) < 1e-6).sum() >= 19
    assert np.abs(degrees - [item.degrees for item in found.items]).max() <= 1
    ours = np.array([item.p_value for item in found.items])
    assert np.corrcoef(ours, p_value)[0, 1] > 0.9
    assert found.misfits() == ("Item.25",)


def test_graded_items_that_fit_according_to_the_oracle_fit(oracle):
    found = summed_score_fit(
        oracle.responses("Science_polytomous"), oracle.parameters("Science_graded")
    )
    assert min(item.p_value for item in found.items) > 0.05
    assert all(item.p_adjusted >= item.p_value for item in found.items)


@pytest.mark.parametrize(
    ("targets", "items", "categories"), [(1000, 10, 2), (300, 40, 2), (1000, 8, 4)]
)
def test_the_level_is_kept_at_known_parameters(simulated, study_size, targets, items, categories):
    # 400 tests at the usual size: the standard error of a level of .05 is .011.
    repeats = int(np.ceil(4000 * study_size / items))
    rng = np.random.default_rng(20)
    p_values = []
    for _ in range(repeats):
        parameters, _, responses = simulated(targets, items, rng, categories)
        found = summed_score_fit(responses, parameters, estimated=0)
        p_values += [item.p_value for item in found.items if item.p_value is not None]
    error = np.sqrt(0.05 * 0.95 / len(p_values))
    assert len(p_values) > 0.95 * repeats * items
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 4 * error


def test_an_item_that_follows_another_curve_is_found(simulated):
    rng = np.random.default_rng(7)
    parameters, theta, responses = simulated(2000, 20, rng)
    codes = responses.codes.copy()
    # Right at low and at high ability, wrong between: no monotone curve.
    codes[:, 4] = rng.random(2000) < np.where(np.abs(theta[:, 0]) > 1, 0.8, 0.2)
    found = summed_score_fit(make_responses(codes), parameters)
    assert found.items[4].p_adjusted < 1e-6
    assert "5" in found.misfits()


def test_the_order_of_items_and_targets_does_not_matter(simulated):
    rng = np.random.default_rng(3)
    parameters, _, responses = simulated(400, 12, rng, 3)
    before = {item.item: item for item in summed_score_fit(responses, parameters).items}
    items, targets = rng.permutation(12), rng.permutation(400)
    shuffled = replace(responses.select_items(items), codes=responses.codes[targets][:, items])
    for item in summed_score_fit(shuffled, parameters.select(items)).items:
        assert np.isclose(item.statistic, before[item.item].statistic)
        assert item.degrees == before[item.item].degrees


def test_a_weight_is_that_many_targets(simulated):
    parameters, _, responses = simulated(120, 6, np.random.default_rng(3))
    repeats = 1 + np.arange(120) % 5
    weighted = replace(responses, weights=repeats.astype(float))
    whole = make_responses(np.repeat(responses.codes, repeats, axis=0))
    for one, other in zip(
        summed_score_fit(weighted, parameters).items,
        summed_score_fit(whole, parameters).items,
        strict=True,
    ):
        assert np.isclose(one.statistic, other.statistic)
        assert np.isclose(one.rmsea, other.rmsea)


def test_targets_with_gaps_are_left_out_and_counted(simulated):
    parameters, _, responses = simulated(300, 8, np.random.default_rng(3))
    gaps = np.zeros(responses.codes.shape, bool)
    gaps[:50, 2] = True
    found = summed_score_fit(responses.without(gaps), parameters)
    assert found.targets == 250
    assert "50 of 300 targets lack a response" in found.warnings[0]
    gaps[:] = True
    none = summed_score_fit(responses.without(gaps), parameters)
    assert {item.why for item in none.items} == {"no complete target"}
    assert all(row["statistic"] is None and row["why"] for row in none.records())


def test_too_few_targets_are_unknown_with_a_reason(simulated):
    parameters, _, responses = simulated(3, 8, np.random.default_rng(3))
    found = summed_score_fit(responses, parameters)
    assert all(item.statistic is None and "too few targets" in item.why for item in found.items)
    assert "rests on 3 targets" in found.warnings[0]


def test_what_does_not_belong_together_is_refused(simulated):
    parameters, _, responses = simulated(30, 8, np.random.default_rng(3), dimensions=2)
    with pytest.raises(InputError, match="one dimension"):
        summed_score_fit(responses, parameters)
    parameters, _, responses = simulated(30, 8, np.random.default_rng(3))
    with pytest.raises(InputError, match="8 items were answered and 7 are calibrated"):
        summed_score_fit(responses, parameters.select(np.arange(7)))
    graded = make_responses(np.where(responses.codes == 1, 2, 0))
    with pytest.raises(InputError, match="a response 2 but 2 calibrated categories"):
        summed_score_fit(graded, parameters)


def test_estimated_parameters_are_those_that_differ():
    slopes = np.array([[1.0], [1.0]])
    steps = np.array([[0.0, -np.inf], [1.0, -1.0]])
    rasch = ItemParameters(slopes, steps, np.zeros(2), np.ones(2))
    assert estimated_parameters(rasch).tolist() == [1, 2]
    four = ItemParameters(np.array([[1.0], [2.0]]), steps, np.array([0.1, 0]), np.array([0.9, 1]))
    assert estimated_parameters(four).tolist() == [4, 3]


def test_holm_adjusts_in_the_order_given():
    assert np.allclose(holm([0.04, 0.01, 0.03, 0.9]), [0.09, 0.04, 0.09, 0.9])
    assert holm([]).size == 0


def test_a_table_of_one_category_has_no_value():
    parameters = ItemParameters(
        np.ones((3, 1)), np.array([[0.0], [1.0], [-1.0]]), np.zeros(3), np.ones(3)
    )
    constant = make_responses(np.ones((20, 3), int))
    found = summed_score_fit(constant, parameters)
    assert all(item.statistic is None for item in found.items)
    assert np.isfinite(category_probabilities(parameters, np.zeros((1, 1)))).all()
