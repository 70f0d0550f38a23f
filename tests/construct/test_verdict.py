"""The verdict compares the gain with what one dimension would have made of it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from safemetry.construct.dimensions.held_out import held_out_losses
from safemetry.construct.dimensions.models import candidate_models
from safemetry.construct.dimensions.null_gains import FIRST_SETS
from safemetry.construct.dimensions.verdict import (
    CANNOT_TELL,
    REJECTED,
    SUPPORTED,
    VerdictSettings,
    decide,
    judge_dimensionality,
)
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.multidimensional.crossvalidation import split_responses
from safemetry.irt.responses import make_responses
from safemetry.simulate import MatrixSettings, simulate_matrix
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)
FEW = VerdictSettings(null_sets=19, splits=2, dims=(2,))
ONE = {"1D": np.array([0.300, 0.310, 0.305])}


def simulated(seed, **choices):
    settings = MatrixSettings(**{"targets": 50, "items": 40, "discrimination": 1.8, **choices})
    codes = simulate_matrix(settings, seed).outcomes
    observed = codes >= 0
    passed = (codes == 1).sum(axis=0)
    return make_responses(codes[:, (passed > 0) & (passed < observed.sum(axis=0))])


def two_factors(seed, items=50):
    half = tuple(int(place >= items // 2) for place in range(items))
    return simulated(
        seed, targets=70, items=items, structure=half, correlations=((1, 0.6), (0.6, 1))
    )


def quick(responses, structures=None):
    """Candidates without the 3PL, of at most two explored dimensions."""
    found = candidate_models(responses.items, structures, max_dims=2)
    return [model for model in found if model.name != "1D 3PL"]


def several(gains):
    return {"2D": ONE["1D"] - np.asarray(gains)}


def test_of_99_simulated_gains_four_may_reach_the_observed_one():
    assert VerdictSettings().most_reaching == 4
    assert VerdictSettings(null_sets=199).most_reaching == 9
    assert VerdictSettings(null_sets=999, percentile=99).most_reaching == 9
    assert VerdictSettings(null_sets=19).most_reaching == 0
    null = np.arange(99) / 1000
    above = decide(ONE, several([0.095] * 3), 0.0945, null, VerdictSettings())
    assert above.single_attribute == REJECTED
    assert above.p_value == pytest.approx(0.05)
    assert above.null_q95 == pytest.approx(0.094)
    at = decide(ONE, several([0.094] * 3), 0.094, null, VerdictSettings())
    assert at.single_attribute != REJECTED
    assert at.p_value == pytest.approx(0.06)


def test_winning_every_split_is_no_evidence():
    null = np.linspace(0, 0.004, 99)
    found = decide(ONE, several([0.001, 0.0012, 0.0011]), 0.0011, null, VerdictSettings())
    assert (found.splits_won, found.splits) == (3, 3)
    assert found.single_attribute == SUPPORTED
    assert "ends at 0.0014, below 0.005" in found.why


def test_a_gain_that_could_matter_or_not_cannot_be_told():
    null = np.linspace(0, 0.02, 99)
    found = decide(ONE, several([0.001, 0.009, 0.002]), 0.004, null, VerdictSettings())
    assert found.single_attribute == CANNOT_TELL
    assert "no evidence against one dimension" in found.why


def test_a_model_that_does_not_beat_every_one_dimensional_one_rejects_nothing():
    """The statistic leaves out the 3PL, which is too slow for every simulated set."""
    null = np.linspace(-0.001, 0.001, 99)
    one = {**ONE, "1D 3PL": ONE["1D"] - 0.01}
    found = decide(one, several([0.008] * 3), 0.008, null, VerdictSettings())
    assert found.single_attribute == CANNOT_TELL
    assert found.best_one == "1D 3PL"
    assert found.gain == pytest.approx(-0.002)
    assert "worse than the best of one (1D 3PL)" in found.why


def test_a_gain_too_small_to_matter_rejects_nothing():
    null = np.linspace(-0.001, 0.001, 99)
    gains = [0.002, 0.0021, 0.0019]
    found = decide(ONE, several(gains), 0.002, null, VerdictSettings())
    assert found.p_value == pytest.approx(0.01)
    assert found.single_attribute == CANNOT_TELL
    assert "too small to matter" in found.why
    literal = decide(ONE, several(gains), 0.002, null, VerdictSettings(least_gain=0))
    assert literal.single_attribute == REJECTED


def test_no_number_of_dimensions_is_reported():
    found = decide(ONE, several([0.05] * 3), 0.05, np.zeros(99), VerdictSettings())
    assert "More than one dimension; how many is not said." in found.why


def test_two_factors_correlated_at_six_tenths_are_found():
    responses = two_factors(1)
    found = judge_dimensionality(responses, quick(responses), FEW, tasks=ALONE)
    assert found.single_attribute == REJECTED
    assert found.null_sets_used == 19
    assert found.p_value == pytest.approx(0.05)
    assert found.statistic > found.null_q95


def test_one_dimension_is_not_rejected_and_the_rest_of_the_sets_is_left_out():
    responses = simulated(2, targets=40, items=30)
    chosen = VerdictSettings(splits=3, dims=(2,))
    found = judge_dimensionality(responses, quick(responses), chosen, tasks=ALONE)
    assert found.single_attribute == SUPPORTED
    assert found.null_sets_used == FIRST_SETS
    assert found.null_sets == 99
    assert sum(gain >= found.statistic for gain in found.null_gains) > chosen.most_reaching


def test_workers_known_losses_and_kept_tasks_change_nothing(tmp_path):
    responses = simulated(3, targets=30, items=20, missing=0.1)
    models = quick(responses)
    first = judge_dimensionality(responses, models, FEW, tasks=ALONE)
    masks = split_responses(responses, splits=FEW.splits)
    known = held_out_losses(responses, models, masks, restarts=3, tasks=ALONE)
    kept = TaskSettings(jobs=2, quiet=True, resume=tmp_path)
    parallel = judge_dimensionality(responses, models, FEW, known=known, tasks=kept)
    assert np.allclose(parallel.null_gains, first.null_gains, atol=1e-9)
    assert parallel.statistic == pytest.approx(first.statistic, abs=1e-9)
    assert parallel.single_attribute == first.single_attribute
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == FEW.null_sets
    again = judge_dimensionality(responses, models, FEW, known=known, tasks=kept)
    assert again == parallel
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files


def test_the_verdict_is_plain_json_without_unknown_fields():
    responses = simulated(5, items=20, targets=30)
    found = plain(judge_dimensionality(responses, quick(responses)[-2:], FEW, tasks=ALONE))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert None not in found.values()
    assert {"single_attribute", "why", "gain", "gain_interval", "null_q95"} <= set(found)


@pytest.mark.parametrize("shape", [(2, 12), (12, 2)])
def test_too_few_targets_or_items_cannot_be_told(shape):
    codes = (np.indices(shape).sum(axis=0) % 2).astype(int)
    responses = make_responses(codes)
    models = candidate_models(responses.items, max_dims=2)
    found = judge_dimensionality(responses, models, tasks=ALONE)
    assert found.single_attribute == CANNOT_TELL
    assert found.gain is None
    assert "too few" in found.why


def test_targets_without_responses_change_little():
    responses = two_factors(6)
    empty = np.full((2, len(responses.items)), -1)
    longer = make_responses(np.vstack([responses.codes, empty]))
    found = judge_dimensionality(longer, quick(longer)[-2:], FEW, tasks=ALONE)
    assert found.single_attribute == REJECTED


def test_constant_items_and_models_of_one_kind_are_refused():
    responses = make_responses([[1, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1]])
    models = candidate_models(responses.items, max_dims=2)
    with pytest.raises(InputError, match="leave them out first"):
        judge_dimensionality(responses, models, tasks=ALONE)
    varied = responses.select_items(np.arange(1, 4))
    with pytest.raises(InputError, match="candidates of both kinds"):
        judge_dimensionality(varied, models[:3], tasks=ALONE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"splits": 1},
        {"share": 1.0},
        {"percentile": 0.0},
        {"null_sets": 18},
        {"abilities": "somewhere"},
    ],
)
def test_settings_without_a_level_are_refused(wrong):
    with pytest.raises(InputError):
        VerdictSettings(**wrong)


def harmbench(shared):
    with (shared / "data/helm_safety/harmbench_matrix.csv").open() as stream:
        header, *rows = csv.reader(stream)
    with (shared / "data/helm_safety/harmbench_items.csv").open() as stream:
        types = {row["item_id"]: row["type"] for row in csv.DictReader(stream)}
    codes = np.array([[int(cell) for cell in row[1:]] for row in rows])
    varies = (codes.min(axis=0) == 0) & (codes.max(axis=0) == 1)
    responses = make_responses(codes, items=header[1:]).select_items(varies)
    return responses, {item: types[item] for item in responses.items}


def test_harmbench_is_more_than_one_thing(shared):
    """In short: two splits, 19 simulated sets, the quick models."""
    responses, types = harmbench(shared)
    models = quick(responses, {"type": types})[-3:]
    found = judge_dimensionality(responses, models, FEW, tasks=ALONE)
    assert models[0].name == "1D exploratory"
    assert found.single_attribute == REJECTED
    assert found.statistic > 0.04
    assert found.null_q95 < 0.01


@pytest.mark.slow
def test_harmbench_by_the_whole_rule(shared, study_size):
    if study_size < 1:
        pytest.skip("in the reduced size the audit of harmbench covers it")
    responses, types = harmbench(shared)
    models = candidate_models(responses.items, {"type": types})
    found = judge_dimensionality(responses, models, tasks=TaskSettings(quiet=True))
    assert found.single_attribute == REJECTED
    assert found.best_one == "1D 3PL"
    assert found.gain == pytest.approx(0.067, abs=0.002)
    assert found.gain_interval[0] > 0.05
    assert found.splits_won == 5
    assert found.null_sets_used == 99
    assert found.p_value == pytest.approx(0.01)
    assert 0.006 < found.null_q95 < 0.011


def test_a_model_that_failed_the_nesting_check_is_never_the_best():
    null = np.linspace(0, 0.004, 99)
    many = {"2D": ONE["1D"] - 0.02, "3D": ONE["1D"] - 0.04}
    found = decide(ONE, many, 0.02, null, VerdictSettings(), {"3D"})
    assert (found.single_attribute, found.best_many) == (REJECTED, "2D")
    assert found.gain == pytest.approx(0.02)
    assert found.failed == ("3D",)
    assert found.why.endswith("3D predicts better, but failed the nesting check: not counted.")
    assert decide(ONE, many, 0.04, null, VerdictSettings()).best_many == "3D"


def test_a_failed_model_stands_in_the_way_of_either_conclusion():
    null = np.linspace(0, 0.004, 99)
    many = {**several([0.001, 0.0012, 0.0011]), "3D": ONE["1D"] - 0.03}
    found = decide(ONE, many, 0.0011, null, VerdictSettings(), {"3D"})
    assert found.single_attribute == CANNOT_TELL
    assert "the 3D model, which failed the nesting check, predicts 0.0300 nats better" in found.why
    one = {**ONE, "1D 3PL": ONE["1D"] - 0.01}
    found = decide(one, {"2D": ONE["1D"] - 0.012}, 0.012, null, VerdictSettings(), {"1D 3PL"})
    assert (found.single_attribute, found.best_one) == (CANNOT_TELL, "1D")
    assert "over the 1D 3PL model, which failed the nesting check, the gain is 0.0020" in found.why


def test_where_every_model_of_several_dimensions_failed_nothing_is_rejected():
    responses = two_factors(1)
    models = quick(responses)
    found = judge_dimensionality(responses, models, FEW, failed={"2D exploratory"}, tasks=ALONE)
    assert found.single_attribute == CANNOT_TELL
    assert "every model of several dimensions failed the nesting check" in found.why
    null = np.linspace(-0.002, 0.004, 99)
    worse = {"2D": ONE["1D"] + 0.001}
    kept = decide(ONE, worse, -0.001, null, VerdictSettings(), {"2D"})
    assert (kept.single_attribute, kept.best_many) == (SUPPORTED, "2D")
    assert kept.why.endswith("Every model of several dimensions failed the nesting check.")


def test_a_failed_model_takes_part_in_the_simulated_sets():
    responses = two_factors(1, items=30)
    halves = {item: "ab"[place >= 15] for place, item in enumerate(responses.items)}
    models = quick(responses, {"half": halves})
    whole = judge_dimensionality(responses, models, FEW, tasks=ALONE)
    failed = {whole.best_many}
    found = judge_dimensionality(responses, models, FEW, failed=failed, tasks=ALONE)
    assert found.compared == whole.compared
    assert found.null_gains == whole.null_gains
    assert found.statistic < whole.statistic
    assert found.best_many not in failed
