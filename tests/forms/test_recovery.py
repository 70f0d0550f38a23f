"""Scores recovered from a form: the integral, its invariances, and the regression behind it."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.forms.recovery import (
    blend_share,
    expected_full_scores,
    expected_own_scores,
    fit_recalibration,
    form_means,
    full_scores,
    linear_own_scores,
    linear_scores,
    mixed,
    mixture_weight,
    score_table,
)
from safemetry.forms.recovery.linear import known_targets
from safemetry.irt.parameters import ItemParameters, category_probabilities


def simulate(targets, items, rng, categories=2):
    slopes = np.exp(rng.normal(0, 0.3, (items, 1)))
    steps = -np.sort(-rng.normal(0, 1.2, (items, categories - 1)), axis=1)
    steps -= 0.4 * np.arange(categories - 1)
    parameters = ItemParameters(slopes, steps, np.zeros(items), np.ones(items))
    chances = category_probabilities(parameters, rng.normal(size=(targets, 1)))
    below = np.cumsum(chances, axis=0)[:-1]
    return parameters, (rng.random((targets, items)) >= below).sum(axis=0).astype(np.int8)


def by_hand(parameters, codes, form, counted):
    """Expectation over a very fine grid, one target and one item at a time."""
    theta = np.linspace(-8, 8, 4001)
    chances = category_probabilities(parameters, theta[:, None])
    posterior = np.exp(-(theta**2) / 2)
    highest = parameters.categories - 1
    for item in form:
        if codes[item] >= 0:
            posterior = posterior * chances[codes[item], :, item]
    posterior /= posterior.sum()
    total = first = second = 0.0
    expected = np.zeros_like(theta)
    for item in np.flatnonzero(counted):
        if item in form and codes[item] >= 0:
            total += codes[item] / highest[item]
            continue
        values = np.arange(len(chances)) / highest[item]
        mean = values @ chances[:, :, item]
        expected += mean
        second += posterior @ (values**2 @ chances[:, :, item] - mean**2)
    first = posterior @ expected
    second += posterior @ (expected - first) ** 2
    size = counted.sum()
    return (total + first) / size, np.sqrt(second) / size


@pytest.mark.parametrize("categories", [2, 4])
def test_the_expectation_is_the_integral_by_hand(categories):
    rng = np.random.default_rng(3)
    parameters, codes = simulate(6, 20, rng, categories)
    codes[rng.random(codes.shape) < 0.15] = -1
    counted = (codes >= 0) | (rng.random(codes.shape) < 0.5)
    forms = np.array([[1, 4, 9, 12], [0, 2, 3, -1]])
    table = score_table(parameters, longest=4)
    found = expected_full_scores(table, codes, forms, counted)
    for number, form in enumerate(forms):
        for target in range(6):
            chosen = [item for item in form if item >= 0]
            wanted = by_hand(parameters, codes[target], chosen, counted[target])
            got = found.scores[number, target], found.errors[number, target]
            assert got == pytest.approx(wanted, abs=1e-6)


def test_many_forms_at_once_are_the_same_as_each_alone_and_as_own_items():
    rng = np.random.default_rng(4)
    parameters, codes = simulate(9, 40, rng)
    forms = np.stack([rng.permutation(40)[:7] for _ in range(30)])
    table = score_table(parameters, longest=7)
    together = expected_full_scores(table, codes, forms)
    for number in (0, 17):
        alone = expected_full_scores(table, codes, forms[[number]])
        own = expected_own_scores(table, codes, np.tile(forms[number], (9, 1)))
        assert np.allclose(together.scores[number], alone.scores[0])
        assert np.allclose(own.scores[0], alone.scores[0])
        assert np.allclose(own.errors[0], alone.errors[0])
        assert np.allclose(own.abilities[0], alone.abilities[0])


def test_permuted_items_and_targets_give_the_same_scores():
    rng = np.random.default_rng(5)
    parameters, codes = simulate(8, 25, rng)
    form = np.array([[3, 8, 20]])
    order, rows = rng.permutation(25), rng.permutation(8)
    place = np.argsort(order)
    before = expected_full_scores(score_table(parameters), codes, form).scores
    moved = score_table(parameters.select(order))
    after = expected_full_scores(moved, codes[rows][:, order], place[form]).scores
    assert np.allclose(before[:, rows], after)


def test_the_whole_test_recovers_the_score_itself_without_error():
    parameters, codes = simulate(5, 12, np.random.default_rng(6))
    found = expected_full_scores(score_table(parameters), codes, np.arange(12)[None])
    assert np.allclose(found.scores[0], codes.mean(axis=1))
    assert np.allclose(found.errors, 0, atol=1e-7)


def test_an_item_that_does_not_count_is_neither_zero_nor_one():
    parameters, codes = simulate(5, 12, np.random.default_rng(7))
    codes[:, 11] = -1
    counted = codes >= 0
    table = score_table(parameters)
    found = expected_full_scores(table, codes, np.arange(12)[None], counted)
    assert np.allclose(found.scores[0], full_scores(codes, table.highest))
    everything = expected_full_scores(table, codes, np.arange(12)[None])
    assert (np.abs(everything.scores - found.scores) > 1e-4).any()


@pytest.mark.slow
def test_model_errors_cover_where_the_model_holds(study_size):
    rng = np.random.default_rng(8)
    targets = max(300, round(3000 * study_size))
    parameters, codes = simulate(targets, 120, rng)
    forms = rng.permutation(120)[None, :15]
    found = expected_full_scores(score_table(parameters, longest=15), codes, forms)
    misses = np.abs(found.scores[0] - codes.mean(axis=1)) > 1.96 * found.errors[0]
    assert misses.mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / targets))


def test_a_response_that_a_calibration_never_saw_gives_a_number():
    parameters, codes = simulate(5, 6, np.random.default_rng(9))
    codes[0, 0] = 2
    categories = np.full(6, 3)
    found = expected_full_scores(
        score_table(parameters, categories=categories), codes, np.array([[0, 1, 2]])
    )
    assert np.isfinite(found.scores).all()
    with pytest.raises(InputError, match="beyond the categories"):
        expected_full_scores(score_table(parameters), codes, np.array([[0]]))


def test_shapes_that_do_not_fit_are_refused():
    parameters, codes = simulate(5, 6, np.random.default_rng(9))
    table = score_table(parameters)
    with pytest.raises(InputError, match="not to 6 items"):
        expected_full_scores(table, codes[:, :4], np.array([[0]]))
    with pytest.raises(InputError, match="positions"):
        expected_full_scores(table, codes, np.array([[6]]))
    with pytest.raises(InputError, match="each response"):
        expected_full_scores(table, codes, np.array([[0]]), np.ones((1, 6), bool))
    with pytest.raises(InputError, match="took items"):
        expected_own_scores(table, codes, np.array([[0]]))


def test_form_means_weigh_what_was_answered():
    codes = np.array([[1, 0, -1], [2, -1, -1], [-1, -1, -1]], np.int8)
    highest = np.array([2, 1, 1])
    found = form_means(codes, highest, np.array([[0, 1, 2]]), np.array([[3.0, 1.0, 5.0]]))
    assert found[0, :2] == pytest.approx([0.375, 1.0])
    assert np.isnan(found[0, 2])
    assert mixed(found[0], np.full(3, 0.5), 0.5) == pytest.approx([0.4375, 0.75, 0.5])


def test_the_mixture_leans_on_the_mean_as_the_form_grows():
    shares = [mixture_weight(0.03, 0.2, np.ones(count)) for count in (10, 100, 1000)]
    assert shares == sorted(shares)
    # b^2 / (b^2 + v / (4 n)), as published.
    assert shares[1] == pytest.approx(0.03**2 / (0.03**2 + 0.2 / 400))
    biased = mixture_weight(0.03, 0.2, np.ones(100), mean_error=0.3)
    assert biased == pytest.approx(0.03**2 / (0.03**2 + 0.3**2))
    with pytest.raises(InputError, match="weights"):
        mixture_weight(0.03, 0.2, np.zeros(3))


def test_few_targets_buy_no_curve_and_many_do():
    rng = np.random.default_rng(10)
    truth = rng.random(2000)
    bent = truth**3
    predicted = np.clip(bent + rng.normal(0, 0.02, 2000), 0, 1)
    curve = fit_recalibration(predicted, truth)
    assert curve.kind == "monotone"
    assert np.abs(curve.apply(bent) - truth)[truth > 0.3].mean() < 0.03
    assert fit_recalibration(predicted[:6], truth[:6]).kind == "identity"


def test_good_predictions_are_left_alone(study_size):
    rng = np.random.default_rng(11)
    kept = 0
    repeats = max(50, round(500 * study_size))
    for _ in range(repeats):
        truth = rng.random(40)
        kept += fit_recalibration(truth + rng.normal(0, 0.05, 40), truth).kind == "identity"
    assert kept / repeats > 0.65


@pytest.mark.parametrize("kind", ["identity", "line", "monotone"])
def test_a_map_never_turns_the_order_round(kind):
    rng = np.random.default_rng(12)
    truth = rng.random(60)
    found = fit_recalibration(rng.random(60), truth, kinds=(kind,))
    assert found.kind == kind
    mapped = found.apply(np.linspace(-0.2, 1.2, 50))
    assert (np.diff(mapped) >= -1e-12).all()
    if kind != "identity":
        assert mapped.min() >= 0
        assert mapped.max() <= 1


def test_predictions_all_alike_and_unknown_ones_are_no_reason_to_fail():
    assert fit_recalibration(np.full(20, 0.5), np.linspace(0, 1, 20)).kind == "identity"
    empty = fit_recalibration(np.full(20, np.nan), np.linspace(0, 1, 20))
    assert empty.kind == "identity"
    assert empty.spread is None
    with pytest.raises(InputError, match="same targets"):
        fit_recalibration(np.zeros(3), np.zeros(4))


def test_leaving_one_out_in_closed_form_is_leaving_one_out():
    rng = np.random.default_rng(13)
    _, codes = simulate(25, 60, rng)
    highest, truth = np.ones(60, np.int64), codes.mean(axis=1)
    noise = np.full(60, 0.15)
    form = np.arange(0, 60, 4)
    known = known_targets(codes, highest, truth, noise)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("safemetry.forms.recovery.linear.PENALTIES", np.array([1.0]))
        _, without = linear_scores(known, form, known.centred[:1])
        scale = 1 / np.sqrt(noise[form] * 25)
        for out in (0, 7):
            rest = np.arange(25) != out
            x = known.centred[:, form] * scale
            middle, level = x[rest].mean(axis=0), truth[rest].mean()
            inner = x[rest] - middle
            slopes = np.linalg.solve(inner.T @ inner + np.eye(15), inner.T @ (truth[rest] - level))
            assert without[out] == pytest.approx(level + (x[out] - middle) @ slopes, abs=1e-9)


def test_own_items_that_are_all_alike_are_a_form():
    rng = np.random.default_rng(14)
    _, codes = simulate(30, 40, rng)
    highest, truth = np.ones(40, np.int64), codes.mean(axis=1)
    known = known_targets(codes[:20], highest, truth[:20], np.full(40, 0.15))
    others = known.of(codes[20:], highest)
    for length in (8, 35):
        form = np.arange(length)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("safemetry.forms.recovery.linear.PENALTIES", np.array([1.0]))
            shared, _ = linear_scores(known, form, others)
        own = linear_own_scores(known, np.tile(form, (10, 1)), others)
        assert np.allclose(shared, own)


def test_a_blend_goes_to_the_better_prediction():
    rng = np.random.default_rng(15)
    truth = rng.random(500)
    good, bad = truth + rng.normal(0, 0.01, 500), truth + rng.normal(0, 0.2, 500)
    assert blend_share(good, bad, truth) > 0.97
    assert blend_share(bad, good, truth) < 0.03
    assert blend_share(good, good, truth) == 0.5
