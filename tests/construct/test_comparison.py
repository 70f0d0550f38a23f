"""The comparison of models: published targets on harmbench, ranks, nesting, resuming."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from safemetry.construct.dimensions.comparison import compare_models, gather
from safemetry.construct.dimensions.correlations import factor_correlations
from safemetry.construct.dimensions.full_fits import full_fits, nesting_failures
from safemetry.construct.dimensions.models import candidate_models
from safemetry.construct.dimensions.published import departures
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)
TYPE = "type (3D confirmatory)"
RANDOM = "random (7D confirmatory)"
EXPLORED = (1, 2, 3, 6, 10)
PUBLISHED = {"1D 3PL": 0.322, "1D 1PL": 0.330, TYPE: 0.258, "7D": 0.255}


def read_harmbench(shared):
    folder = shared / "data/helm_safety"
    with (folder / "harmbench_matrix.csv").open() as lines:
        header, *rows = list(csv.reader(lines))
    with (folder / "harmbench_items.csv").open() as lines:
        kinds = dict(list(csv.reader(lines))[1:])
    codes = np.array(rows)[:, 1:]
    codes = np.where(codes == "", "-1", codes).astype(int)
    varied = np.ptp(codes, axis=0) > 0
    items = tuple(np.array(header[1:])[varied].tolist())
    targets = tuple(row[0] for row in rows)
    responses = make_responses(codes[:, varied], targets=targets, items=items)
    return responses, {name: kinds[name] for name in items}


@pytest.fixture(scope="module")
def harmbench(shared):
    return read_harmbench(shared)


@pytest.fixture(scope="module")
def comparison(harmbench):
    responses, kinds = harmbench
    groups = np.random.default_rng(7).integers(7, size=len(kinds))
    random = {name: f"group {group}" for name, group in zip(kinds, groups, strict=True)}
    models = candidate_models(responses.items, {"type": kinds, "random": random})
    chosen = [
        model
        for model in models
        if model.marginal or model.structure or model.dimensions in EXPLORED
    ]
    return compare_models(
        responses, chosen, restarts=1, tasks=TaskSettings(jobs=2, quiet=True, label="models")
    )


def draw(seed=1, targets=60, items=40, correlation=0.2):
    """Two traits, half of the items each."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky([[1, correlation], [correlation, 1]])
    theta = rng.standard_normal((targets, 2)) @ root.T
    linear = 1.7 * theta[:, np.arange(items) % 2] + rng.normal(0, 1, items)
    return make_responses((rng.random(linear.shape) < expit(linear)).astype(int))


@pytest.fixture(scope="module")
def small():
    responses = draw()
    halves = {name: "ab"[place % 2] for place, name in enumerate(responses.items)}
    models = candidate_models(responses.items, {"halves": halves}, max_dims=3)
    return responses, models, compare_models(responses, models, restarts=2, tasks=ALONE)


def test_every_model_of_several_dimensions_beats_every_one_of_one_dimension(comparison):
    ranked = [row for row in comparison.models if row.rank is not None]
    several = [row for row in ranked if row.dims > 1]
    assert [row.dims for row in several] == [2, 3, 6, 10, 3]
    for one in (row for row in ranked if row.dims == 1):
        for other in several:
            assert (np.array(other.log_loss.splits) < one.log_loss.splits).all()
    assert comparison.separation.complete
    assert comparison.separation.pairs == comparison.separation.won_every_split == 20
    assert comparison.comparisons[0].won == "5 of 5"
    assert comparison.comparisons[0].interval[0] > 0.05


def test_losses_on_harmbench_are_at_least_as_low_as_the_reference(comparison):
    losses = {row.name: row.log_loss.mean for row in comparison.models}
    assert losses["1D 2PL"] <= 0.2985
    assert losses[TYPE] <= 0.241
    assert losses["6D exploratory"] <= 0.238
    assert losses["10D exploratory"] <= 0.255
    assert comparison.row("6D exploratory").brier.mean < comparison.row("1D 3PL").brier.mean


def test_information_criteria_agree_and_count_parameters(comparison):
    row = comparison.row("3D exploratory")
    assert row.parameters == 395 * 4 - 3
    assert row.aic == pytest.approx(2 * row.parameters - 2 * row.loglik)
    assert row.bic == pytest.approx(row.parameters * np.log(77) - 2 * row.loglik)
    assert row.bic_n == 77
    assert comparison.row("1D 3PL").parameters == 3 * 395
    best_one = min(row.aic for row in comparison.models if row.dims == 1)
    assert row.aic < best_one
    assert comparison.row(TYPE).aic < best_one


def test_copyright_correlates_least_with_the_other_types(comparison):
    found = factor_correlations(comparison.fit(TYPE))
    assert found.least_related == "copyright"
    assert set(found.dimensions) == {"standard", "contextual", "copyright"}
    explored = factor_correlations(comparison.fit("3D exploratory"))
    assert explored.rotation == "oblimin"
    assert np.allclose(np.diag(explored.correlations), 1)
    with pytest.raises(InputError, match="one dimension"):
        factor_correlations(comparison.fit("1D 2PL"))


def test_a_random_structure_is_not_ranked(comparison):
    """It contains one dimension, and the prior keeps it from fitting as well."""
    assert comparison.row(RANDOM).rank is None
    assert {failure.nesting for failure in comparison.nesting_failures} == {RANDOM}
    ranks = sorted(row.rank for row in comparison.models if row.rank is not None)
    assert ranks == list(range(1, len(comparison.models)))
    assert RANDOM not in {comparison.best_several, *comparison.as_good_as_best}
    assert any(RANDOM in warning for warning in comparison.warnings)


def test_departures_from_the_published_order_are_named(comparison):
    mine = {row.name: row.log_loss.mean for row in comparison.models}
    assert departures(mine, PUBLISHED) == ()
    found = departures(mine, {RANDOM: 0.255, TYPE: 0.258})
    assert [(entry.first, entry.second) for entry in found] == [(RANDOM, TYPE)]


def test_two_traits_are_found_and_no_number_of_dimensions_is_claimed(small):
    _, _, found = small
    assert found.best_several == "halves (2D confirmatory)"
    assert found.comparisons[0].gain > 0.02
    assert "not evidence by itself" in found.sentence()
    kinds = [entry.kind for entry in found.comparisons]
    assert kinds.count("several dimensions against best of one") == 2
    assert kinds.count("one dimension more") == 2
    assert kinds.count("structure against as many explored dimensions") == 1


def test_the_best_start_is_chosen_by_training_loss_only(small):
    _, _, found = small
    for losses in found.losses:
        for chosen, starts in zip(losses.best, losses.starts, strict=True):
            assert chosen.training_loss == min(start.training_loss for start in starts)
    row = found.row("3D exploratory")
    assert row.restarts.min <= row.log_loss.mean <= row.restarts.max
    assert (row.fits, row.starts) == (10, 2)


def test_the_result_is_plain_and_explains_its_nulls(small):
    _, _, found = small
    read = json.loads(json.dumps(plain(found.to_dict()), allow_nan=False))
    row = read["models"][0]
    assert row["restarts"]["sd"] is None
    assert row["restarts"]["why"]["sd"] == "one start"
    assert set(row["log_loss"]) == {"mean", "sd", "splits"}
    assert {"aic", "bic", "brier", "dims", "name", "loglik", "parameters"} <= set(row)
    assert read["comparisons"][0]["won"] == "5 of 5"


def test_a_model_that_fits_worse_than_one_it_contains_is_never_ranked(small):
    _, _, found = small
    fits = list(found.fits)
    names = [fit.model.name for fit in fits]
    place = names.index("3D exploratory")
    fits[place] = replace(fits[place], loglik=fits[names.index("2D exploratory")].loglik - 20)
    failing = nesting_failures(fits)
    pairs = {(failure.nested, failure.nesting) for failure in failing}
    assert ("2D exploratory", "3D exploratory") in pairs
    again = gather(found.losses, tuple(fits), level=0.95, settings={})
    assert again.row("3D exploratory").rank is None
    assert again.row("3D exploratory").to_dict()["why"]["rank"]
    assert "3D exploratory" not in {again.best_several, *again.as_good_as_best}


def test_a_prior_that_costs_likelihood_is_caught(small):
    """The default prior puts the lower asymptote near .2; nothing here was guessed."""
    _, _, found = small
    assert ("1D 2PL", "1D 3PL") in {
        (failure.nested, failure.nesting) for failure in found.nesting_failures
    }
    assert found.row("1D 3PL").rank is None


def test_curves_with_an_asymptote_contain_those_without(small):
    _, _, found = small
    fits = {fit.model.name: fit for fit in found.fits}
    low = replace(fits["1D 3PL"], loglik=fits["1D 1PL"].loglik - 5)
    pairs = [fits["1D 1PL"], fits["1D 2PL"], low, fits["2D exploratory"]]
    failing = nesting_failures(pairs)
    assert {(failure.nested, failure.nesting) for failure in failing} == {
        ("1D 1PL", "1D 3PL"),
        ("1D 2PL", "1D 3PL"),
    }
    high = replace(fits["1D 3PL"], loglik=0.0)
    assert nesting_failures([high, fits["2D exploratory"]]) == ()


def test_finished_fits_are_kept_and_change_nothing(small, tmp_path):
    responses, models, found = small
    chosen = [models[place] for place in (0, 4, 6)]
    kept = replace(ALONE, resume=tmp_path)
    first = compare_models(responses, chosen, restarts=2, tasks=kept)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3 * 5 + 3
    for path in files[::2]:
        path.unlink()
    second = compare_models(responses, chosen, restarts=2, tasks=kept)
    assert plain(first.to_dict()) == plain(second.to_dict())
    assert len(list(tmp_path.iterdir())) == len(files)
    assert first.row("2D exploratory").log_loss == found.row("2D exploratory").log_loss
    assert np.array_equal(first.fits[1].slopes, second.fits[1].slopes)


def test_the_number_of_workers_changes_nothing(small):
    responses, models, found = small
    chosen = [models[1], models[4]]
    two = compare_models(responses, chosen, restarts=2, tasks=TaskSettings(jobs=2, quiet=True))
    assert two.row("2D exploratory").log_loss.mean == pytest.approx(
        found.row("2D exploratory").log_loss.mean, abs=1e-9
    )


def test_models_with_more_dimensions_than_targets_are_left_out_with_a_reason():
    responses = draw(targets=4, items=12)
    found = compare_models(
        responses, candidate_models(responses.items), splits=2, restarts=1, tasks=ALONE
    )
    assert [row.dims for row in found.models] == [1, 1, 1, 1, 2, 3]
    assert len(found.left_out) == 7
    assert "at most 3" in found.left_out[0].why
    json.dumps(plain(found.to_dict()), allow_nan=False)


def test_hostile_responses_still_give_finite_figures():
    codes = np.array(draw(3).codes)
    codes[:, 0], codes[:, 1] = 1, 0
    codes[0] = -1
    responses = make_responses(codes)
    models = candidate_models(responses.items, max_dims=2)
    found = compare_models(responses, models, splits=2, restarts=1, tasks=ALONE)
    assert all(np.isfinite(row.log_loss.mean) for row in found.models)
    json.dumps(plain(found.to_dict()), allow_nan=False)


def test_one_kind_of_model_is_nothing_to_compare(small):
    responses, models, _ = small
    found = compare_models(responses, models[:2], splits=1, restarts=1, tasks=ALONE)
    assert (found.comparisons, found.separation, found.best_several) == ((), None, None)
    read = plain(found.to_dict())
    assert {"separation", "best_several"} <= set(read["why"])
    assert read["models"][0]["log_loss"]["why"] == {"sd": "one split"}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"splits": 0}, "0 splits"),
        ({"share": 1.0}, "hold out 1"),
        ({"restarts": 0}, "0 restarts"),
        ({"share": 0.0001}, "holds out no response"),
    ],
)
def test_settings_out_of_range_are_refused(small, choice, message):
    responses, models, _ = small
    with pytest.raises(InputError, match=message):
        compare_models(responses, models[:1], tasks=ALONE, **choice)


def test_repeated_names_and_several_categories_are_refused(small):
    responses, models, _ = small
    with pytest.raises(InputError, match="two models are named"):
        compare_models(responses, models[:1] * 2, tasks=ALONE)
    graded = make_responses(np.where(responses.codes > 0, 2, 0))
    with pytest.raises(InputError, match="more than two categories"):
        compare_models(graded, models[:1], tasks=ALONE)
    with pytest.raises(InputError, match="no model can be fitted"):
        compare_models(make_responses(responses.codes[:1]), models[:1], tasks=ALONE)


def test_likelihoods_grow_with_freedom_in_one_dimension(harmbench):
    responses, _ = harmbench
    models = candidate_models(responses.items, max_dims=1)[:3]
    fits = full_fits(responses, models, restarts=1, tasks=ALONE)
    assert fits[0].loglik < fits[1].loglik < fits[2].loglik
    assert nesting_failures(fits) == ()
    assert all(fit.criteria.approximate for fit in fits)


@pytest.mark.slow
def test_the_whole_protocol_on_harmbench(harmbench, study_size):
    responses, kinds = harmbench
    most = max(3, round(10 * study_size))
    models = candidate_models(responses.items, {"type": kinds}, max_dims=most)
    found = compare_models(
        responses,
        models,
        restarts=max(1, round(20 * study_size)),
        tasks=TaskSettings(jobs=2, quiet=True),
    )
    assert found.separation.complete
    assert found.separation.pairs == 4 * most
    assert found.nesting_failures == ()
    assert found.row(found.best_several).log_loss.mean <= 0.238
