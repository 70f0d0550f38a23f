"""Abilities from tables, and matrices simulated from a fitted model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dif.abilities import ability_posteriors, ability_tables
from safemetry.construct.dif.choices import (
    ALL_TERTILES,
    TERTILES,
    Matching,
    absolute_statistic,
    mantel_haenszel_choice,
    observed_statistic,
    ridge_choice,
)
from safemetry.construct.dif.groups import group_pairs
from safemetry.construct.dif.nulls import fit_null
from safemetry.construct.dif.simulation import (
    SCORE,
    Comparison,
    NullModel,
    chunk_starts,
    simulate_statistics,
)
from safemetry.irt.ability import estimate_abilities
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.priors import ItemPriors
from safemetry.irt.responses import make_responses

ITEMS = 60


@pytest.fixture(scope="module")
def items():
    rng = np.random.default_rng(5)
    return np.exp(rng.normal(0.2, 0.4, ITEMS)), rng.normal(0, 1.5, ITEMS)


def answers(items, targets, seed=0, missing=0.0, spread=1.0):
    slopes, intercepts = items
    rng = np.random.default_rng(seed)
    theta = spread * rng.normal(size=targets)
    chance = expit(theta[:, None] * slopes + intercepts)
    codes = (rng.random(chance.shape) < chance).astype(np.int8)
    codes[rng.random(codes.shape) < missing] = -1
    return codes


def parameters(items):
    slopes, intercepts = items
    size = len(slopes)
    return ItemParameters(slopes[:, None], intercepts[:, None], np.zeros(size), np.ones(size))


def null_of(items, codes, cluster=None, shared=None):
    slopes, intercepts = items
    own = np.arange(len(codes)) if cluster is None else cluster
    return NullModel(
        slopes,
        intercepts,
        codes >= 0,
        ability_posteriors(codes, slopes, intercepts),
        {SCORE: ability_tables(slopes, intercepts, codes >= 0)},
        own,
        np.zeros(own.max() + 1) if shared is None else shared,
    )


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_tables_give_the_abilities_of_the_engine(items, missing):
    codes = answers(items, 80, missing=missing)
    tables = ability_tables(*items, codes >= 0)
    engine = estimate_abilities(parameters(items), make_responses(codes)).estimates
    assert np.abs(tables.abilities(codes) - engine).max() < 1e-6


def test_a_target_that_passed_all_or_nothing_has_the_ability_of_the_engine(items):
    codes = np.array([np.ones(ITEMS), np.zeros(ITEMS)], np.int8)
    engine = estimate_abilities(parameters(items), make_responses(codes)).estimates
    assert np.allclose(ability_tables(*items).abilities(codes), engine, atol=1e-5)


def test_negative_slopes_are_tabulated_too(items):
    slopes = items[0] * np.where(np.arange(ITEMS) % 5 == 0, -1, 1)
    codes = answers((slopes, items[1]), 50)
    engine = estimate_abilities(parameters((slopes, items[1])), make_responses(codes)).estimates
    assert np.allclose(ability_tables(slopes, items[1]).abilities(codes), engine, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_leaving_an_item_out_to_first_order_is_close_to_leaving_it_out(items, missing):
    codes = answers(items, 40, missing=missing)
    tables = ability_tables(*items, codes >= 0)
    without = tables.without_item(codes[None], tables.abilities(codes)[None])[0]
    for item in (0, 17, 59):
        left_out = codes.copy()
        left_out[:, item] = -1
        exact = ability_tables(*items, left_out >= 0).abilities(left_out)
        moved = np.abs(exact - tables.abilities(codes)).max()
        assert np.abs(without[:, item] - exact).max() < 0.2 * moved


def test_posterior_draws_have_the_moments_of_the_posterior(items):
    codes = answers(items, 30)
    uniform = np.random.default_rng(1).random((20_000, 30))
    draws = ability_posteriors(codes, *items).quantiles(uniform)
    engine = estimate_abilities(parameters(items), make_responses(codes))
    errors = engine.standard_errors.data
    assert np.abs((draws.mean(axis=0) - engine.estimates) / errors).max() < 0.04
    assert np.abs(draws.std(axis=0) / errors - 1).max() < 0.03


def test_simulated_matrices_look_like_the_observed_one(items):
    codes = answers(items, 50, missing=0.2)
    simulated = null_of(items, codes).draw(2000, np.random.default_rng(0))
    assert ((simulated < 0) == (codes < 0)).all()
    seen = np.ma.masked_less(codes, 0)
    again = np.ma.masked_less(simulated, 0)
    assert np.abs(again.mean(axis=(0, 2)) - seen.mean(axis=1)).max() < 0.1  # shrunk a little
    abilities = ability_tables(*items, codes >= 0).abilities(simulated)
    observed = ability_tables(*items, codes >= 0).abilities(codes)
    assert abilities.std(axis=1).mean() == pytest.approx(observed.std(), rel=0.05)


def test_copies_answer_alike_and_keep_their_chances(items):
    codes = np.repeat(answers(items, 1), 4, axis=0)
    cluster = np.array([0, 0, 1, 2])
    null = null_of(items, codes, cluster, np.array([1.0, 0.0, 0.0]))
    simulated = null.draw(3000, np.random.default_rng(0))
    assert (simulated[:, 0] == simulated[:, 1]).all()
    assert (simulated[:, 2] == simulated[:, 3]).mean() < 0.9
    assert np.allclose(simulated.mean(axis=(0, 2)), simulated.mean(), atol=0.01)


@pytest.fixture
def pair():
    groups = {str(place): "f" if place >= 30 else "r" for place in range(1, 51)}
    return group_pairs([str(place) for place in range(1, 51)], groups).pairs[0]


CHOICES = [
    mantel_haenszel_choice(),
    mantel_haenszel_choice(ALL_TERTILES),
    mantel_haenszel_choice(TERTILES, Matching.REST),
    ridge_choice(),
    ridge_choice(0.1),
    ridge_choice(non_uniform=True),
]


@pytest.mark.parametrize("statistic", CHOICES)
def test_one_matrix_has_the_same_statistic_alone_and_among_many(items, pair, statistic):
    codes = answers(items, 50, missing=0.1)
    tables = ability_tables(*items, codes >= 0)
    observed = observed_statistic(statistic, codes, pair, tables)
    stack = np.stack([answers(items, 50, seed=9), codes])
    stack[0][codes < 0] = -1
    many = absolute_statistic(statistic, stack, tables.abilities(stack), pair, tables)
    assert np.allclose(many[1], observed.absolute, atol=1e-5)
    if statistic.bands is not None:
        assert (many[1] == observed.absolute).all()
        assert observed.error is not None


@pytest.mark.parametrize("statistic", CHOICES)
def test_the_order_of_targets_and_items_decides_nothing(items, statistic):
    codes = answers(items, 50)
    names = [str(place) for place in range(1, 51)]
    groups = {name: "f" if int(name) > 30 else "r" for name in names}
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(50), rng.permutation(ITEMS)
    found = observed_statistic(
        statistic, codes, group_pairs(names, groups).pairs[0], ability_tables(*items)
    )
    shuffled = observed_statistic(
        statistic,
        codes[np.ix_(rows, columns)],
        group_pairs([names[place] for place in rows], groups).pairs[0],
        ability_tables(items[0][columns], items[1][columns]),
    )
    assert np.allclose(shuffled.value, found.value[columns], atol=1e-4)


def test_one_task_returns_a_maximum_for_each_matrix_and_counts_for_each_item(items, pair):
    codes = answers(items, 50)
    null = null_of(items, codes)
    statistic = mantel_haenszel_choice()
    observed = observed_statistic(statistic, codes, pair, null.tables[SCORE]).absolute
    few = Comparison(statistic, pair, SCORE, observed, 100)
    many = Comparison(statistic, pair, SCORE, observed, 500)
    arguments = {"nulls": {"n": null}, "comparisons": {"n": [few, many]}, "null": "n"}
    found = simulate_statistics(np.random.default_rng(0), **arguments, start=0, matrices=70)
    assert [len(part) for part in found["maxima"]] == [70, 70]
    assert (found["maxima"][0] == found["maxima"][1]).all()
    assert all((counts <= 70).all() and counts.shape == (ITEMS,) for counts in found["at_least"])
    later = simulate_statistics(np.random.default_rng(0), **arguments, start=100, matrices=70)
    assert len(later["maxima"]) == 1


def test_chunks_cover_every_matrix_once():
    for simulations, cells in ((5000, 77 * 395), (99, 100), (1234, 1_000_000), (200, 2400)):
        starts = chunk_starts(simulations, cells)
        assert [start for start, _ in starts] == list(
            np.cumsum([0, *(count for _, count in starts)])[:-1]
        )
        assert sum(count for _, count in starts) == simulations


def test_a_fitted_null_serves_missing_cells_and_tight_priors(items):
    codes = answers(items, 40, missing=0.2)
    responses = make_responses(codes)
    null = fit_null(responses, ItemPriors(), np.arange(40))
    assert np.isfinite(null.tables[SCORE].abilities(codes)).all()
    assert (null.shared == 0).all()
