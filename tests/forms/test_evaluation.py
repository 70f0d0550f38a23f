"""Evaluation on held-out targets: nothing leaks, and random forms are the measure."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.forms.constraints import Exclusion
from safemetry.forms.evaluation import (
    METHODS,
    EvaluationSettings,
    evaluate_forms,
    random_catches,
    run_evaluation,
)
from safemetry.forms.evaluation.figures import figures_of
from safemetry.forms.evaluation.split import evaluate_split
from safemetry.forms.evaluation.splits import folds_of, held_out_targets
from safemetry.irt.parameters import ItemParameters, category_probabilities
from safemetry.irt.responses import make_responses
from safemetry.tasks import TaskSettings

QUICK = EvaluationSettings(
    budgets=(5, 12), methods=("predictive", "greedy"), random_sets=10, splits=3, folds=3
)
ALONE = TaskSettings(jobs=1, quiet=True)


def simulate(targets, items, seed, categories=2):
    rng = np.random.default_rng(seed)
    slopes = np.exp(rng.normal(0.2, 0.4, (items, 1)))
    steps = rng.normal(0, 1.3, (items, 1)) - 0.7 * np.arange(categories - 1)
    parameters = ItemParameters(slopes, steps, np.zeros(items), np.ones(items))
    chances = category_probabilities(parameters, rng.normal(size=(targets, 1)))
    below = np.cumsum(chances, axis=0)[:-1]
    return (rng.random((targets, items)) >= below).sum(axis=0).astype(np.int8)


def one_split(codes, held, settings=QUICK, categories=2):
    return evaluate_split(
        rng=np.random.default_rng(1),
        codes=codes,
        items=tuple(f"item-{place}" for place in range(codes.shape[1])),
        properties={"kind": tuple("ab"[place % 2] for place in range(codes.shape[1]))},
        categories=np.full(codes.shape[1], categories),
        settings=settings,
        held=held,
    )


def test_nothing_of_the_held_out_targets_reaches_the_choice_of_items():
    codes = simulate(40, 30, 0)
    codes[:, 3], codes[:, 4] = 1, 0
    held = np.arange(40) % 3 == 0
    # Items 3 and 4 vary only among the held-out targets: a filter that saw them would keep them.
    codes[held, 3] = np.arange(held.sum()) % 2
    every = tuple(method for method in METHODS if method != "adaptive")
    settings = replace(QUICK, methods=every, per="kind")
    before = one_split(codes, held, settings)
    rng = np.random.default_rng(5)
    for _ in range(2):
        other = codes.copy()
        other[held] = rng.permutation(codes[held].ravel()).reshape(-1, 30)
        after = one_split(other, held, settings)
        assert np.array_equal(before["forms"], after["forms"])
        assert not np.allclose(before["predicted"], after["predicted"], equal_nan=True)
    assert 3 not in before["forms"]
    assert 4 not in before["forms"]
    assert (before["forms"][:, 0, :5] >= 0).all()


def test_recovery_is_fitted_without_the_held_out_targets():
    codes = simulate(40, 30, 1)
    held = np.arange(40) % 4 == 0
    first = np.flatnonzero(held)[0]
    before = one_split(codes, held)
    other = codes.copy()
    rest = held.copy()
    rest[first] = False
    other[rest] = 1 - other[rest]
    after = one_split(other, held)
    # The score of one held-out target does not move with the responses of the others.
    assert np.allclose(before["predicted"][..., 0], after["predicted"][..., 0])
    assert np.allclose(before["errors"][..., 0], after["errors"][..., 0])


def test_unasked_responses_of_a_held_out_target_are_not_read():
    codes = simulate(40, 30, 2)
    held = np.arange(40) % 4 == 0
    settings = replace(QUICK, methods=("greedy",), budgets=(5,))
    before = one_split(codes, held, settings)
    form = before["forms"][0, 0]
    other = codes.copy()
    outside = np.setdiff1d(np.arange(30), form)
    other[np.ix_(held, outside)] = 1 - other[np.ix_(held, outside)]
    after = one_split(other, held, settings)
    assert np.allclose(before["predicted"], after["predicted"])
    assert not np.allclose(before["truth"], after["truth"])


def test_rows_say_what_the_scores_say():
    responses = make_responses(simulate(40, 30, 3))
    found = run_evaluation(responses, None, QUICK, tasks=ALONE)
    scores = found.scores("greedy", 5, "calibrated")
    row = next(
        row
        for row in found.rows
        if (row.method, row.items, row.recovery) == ("greedy", 5, "calibrated")
    )
    pairs = zip(scores.predicted, scores.truth, strict=True)
    rmse = [np.sqrt(((predicted - truth) ** 2).mean()) for predicted, truth in pairs]
    assert row.rmse == pytest.approx(np.mean(rmse))
    assert row.sd == pytest.approx(np.std(rmse, ddof=1))
    assert row.splits == 3
    truth = np.concatenate(scores.truth)
    whole = responses.codes.mean(axis=1)
    assert np.allclose(truth, whole[np.concatenate(scores.targets)])
    assert row.random_rmse.low <= row.random_rmse.mean <= row.random_rmse.high
    assert len(found.forms["greedy"][5]) == 3
    with pytest.raises(InputError, match="not evaluated"):
        found.scores("exact", 5)


def test_results_are_plain_and_whole():
    responses = make_responses(simulate(40, 30, 3))
    rows = evaluate_forms(responses, None, QUICK, tasks=ALONE)
    read = json.loads(json.dumps(plain(list(rows)), allow_nan=False))
    kinds = {(row["method"], row["recovery"], row["items"]) for row in read}
    assert len(kinds) == len(read) == 3 * 5 * 2
    for row in read:
        for name, value in row.items():
            assert value is not None or row["why"][name]


def test_the_same_seed_gives_the_same_rows_for_any_number_of_jobs(tmp_path):
    responses = make_responses(simulate(30, 24, 4))
    first = evaluate_forms(responses, None, QUICK, tasks=ALONE)
    kept = TaskSettings(jobs=1, quiet=True, resume=tmp_path)
    assert evaluate_forms(responses, None, QUICK, tasks=kept) == first
    assert len(list(tmp_path.iterdir())) == 3
    assert evaluate_forms(responses, None, QUICK, tasks=kept) == first


def test_missing_cells_graded_items_and_quotas_work_together():
    codes = simulate(40, 30, 5, categories=3)
    rng = np.random.default_rng(6)
    codes[rng.random(codes.shape) < 0.1] = -1
    codes[0, 4:] = -1
    codes[:, 7] = 2  # without variance
    items = [f"item-{place}" for place in range(30)]
    kinds = {"kind": {item: "ab"[place % 2] for place, item in enumerate(items)}}
    responses = make_responses(codes, items=items)
    settings = replace(
        QUICK,
        budgets=(6,),
        splits=2,
        per="kind",
        forbidden=("item-2",),
        exclusions=(Exclusion(frozenset(items[10:20]), 2),),
    )
    found = run_evaluation(responses, kinds, settings, tasks=ALONE)
    for form in found.forms["greedy"][6]:
        assert 2 not in form
        assert 7 not in form
        assert sum(10 <= place < 20 for place in form) <= 2
        assert sum(place % 2 for place in form) == 3
    best = min(row.rmse for row in found.rows)
    assert best < 0.15


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_a_row(method):
    settings = replace(QUICK, methods=(method,), budgets=(5,), splits=2)
    rows = evaluate_forms(make_responses(simulate(30, 24, 7)), None, settings, tasks=ALONE)
    assert {row.method for row in rows} == {method, "random"}
    assert all(0 < row.rmse < 0.5 for row in rows)


def test_a_budget_that_the_pool_lacks_is_said_and_not_made_up():
    codes = simulate(30, 24, 8)
    codes[:, 10:] = 1
    settings = replace(QUICK, budgets=(5, 15, 40))
    found = run_evaluation(make_responses(codes), None, settings, tasks=ALONE)
    assert {row.items for row in found.rows} == {5}
    assert any("40 items are not shorter" in said for said in found.warnings)
    assert any("can be selected, fewer than 15" in said for said in found.warnings)


def test_hostile_settings_and_matrices_are_refused():
    codes = simulate(30, 24, 8)
    for wrong in (
        {"budgets": ()},
        {"budgets": (20, 10)},
        {"budgets": (0,)},
        {"methods": ("best",)},
        {"share": 1.0},
        {"splits": 0},
        {"folds": 1},
    ):
        with pytest.raises(InputError):
            EvaluationSettings(**wrong)
    with pytest.raises(InputError, match="cannot be split"):
        evaluate_forms(make_responses(codes[:6]), None, QUICK, tasks=ALONE)
    with pytest.raises(InputError, match="no shorter"):
        evaluate_forms(make_responses(codes[:, :4]), None, QUICK, tasks=ALONE)
    with pytest.raises(InputError, match="tell the calibration targets apart"):
        evaluate_forms(make_responses(np.ones_like(codes)), None, QUICK, tasks=ALONE)
    with pytest.raises(InputError, match="no property"):
        evaluate_forms(make_responses(codes), None, replace(QUICK, per="kind"), tasks=ALONE)


def test_figures_by_hand():
    truth = np.array([0.1, 0.2, 0.5, 0.8, 0.9])
    predicted = np.array([0.3, 0.2, 0.4, 0.7, 0.9])
    found = figures_of(predicted, truth)
    errors = predicted - truth
    wanted = [np.sqrt((errors**2).mean()), np.abs(errors).mean(), 0.0, 0.2, 0.0, 0.9]
    assert found == pytest.approx(wanted)
    assert np.isnan(figures_of(np.full(5, 0.3), truth)[5])
    both = figures_of(np.stack([predicted, truth]), truth)
    assert both[0] == pytest.approx(found)
    assert both[1] == pytest.approx([0, 0, 0, 0, 0, 1])


def test_both_ends_of_the_scale_are_held_out_and_folds_are_spread():
    scores = np.linspace(0, 1, 50)
    scores[10] = np.nan
    rng = np.random.default_rng(9)
    for _ in range(20):
        held = held_out_targets(scores, 0.3, rng)
        assert held.sum() == 15
        assert not held[10]
        assert scores[held].min() < 0.08
        assert scores[held].max() > 0.92
    folds = folds_of(scores, 5, rng)
    assert np.bincount(folds).tolist() == [10] * 5


def test_random_catches_from_a_budget_on_means_all_larger_ones_too():
    responses = make_responses(simulate(40, 30, 3))
    rows = evaluate_forms(responses, None, replace(QUICK, budgets=(4, 8, 12)), tasks=ALONE)
    base = next(row for row in rows if row.method == "greedy")

    def made(errors):
        return [
            replace(base, items=items, rmse=0.1, random_rmse=replace(base.random_rmse, mean=error))
            for items, error in zip((4, 8, 12), errors, strict=True)
        ]

    assert random_catches(made([0.2, 0.104, 0.09]))[0].items == 8
    assert random_catches(made([0.1, 0.2, 0.1]))[0].items == 12
    never = random_catches(made([0.1, 0.1, 0.2]))[0]
    assert never.items is None
    assert "12 items" in never.why["items"]


@pytest.mark.slow
def test_intervals_cover_held_out_targets(study_size):
    settings = EvaluationSettings(
        budgets=(10, 40),
        methods=("predictive", "greedy", "anchors"),
        splits=max(4, round(20 * study_size)),
        random_sets=2,
    )
    rows = evaluate_forms(make_responses(simulate(90, 200, 12)), None, settings, tasks=ALONE)
    covered = [row.coverage for row in rows if row.coverage is not None]
    assert len(covered) == 30
    assert np.mean(covered) > 0.88
    assert min(covered) > 0.7


@pytest.mark.slow
def test_on_harmbench_ten_items_chosen_to_predict_beat_random_ones(shared, study_size):
    with (shared / "data" / "helm_safety" / "harmbench_matrix.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    codes = np.array([[int(cell) for cell in row[1:]] for row in rows[1:]])
    settings = EvaluationSettings(
        budgets=(10,), methods=("predictive",), splits=max(4, round(20 * study_size))
    )
    found = evaluate_forms(make_responses(codes), None, settings, tasks=ALONE)
    for row in found:
        if row.method == "predictive" and row.recovery == "blend":
            assert row.rmse < 0.85 * row.random_rmse.mean
            assert row.coverage > 0.85
