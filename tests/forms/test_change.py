"""What a form can see of a change: errors of differences, power, and gates that revert falsely."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.stats import norm

from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.forms.change import (
    can_see,
    chance_seen,
    change_errors,
    minimum_detectable_change,
)
from safemetry.forms.evaluation import EvaluationSettings, HeldOutScores, run_evaluation
from safemetry.forms.evaluation.copies import simulated_errors
from safemetry.forms.recovery import expected_full_scores, score_table
from safemetry.irt.responses import make_responses
from safemetry.irt.unidimensional.marginal import fit_unidimensional
from safemetry.tasks import TaskSettings


def held_out(rng, splits=10, size=30, own=0.02, shared=0.0):
    """Recovered scores with errors of their own and one that a form gives to all its targets."""
    targets, predicted, truth = [], [], []
    for _ in range(splits):
        true = rng.uniform(0.2, 0.9, size)
        targets.append(rng.permutation(100)[:size])
        truth.append(true)
        predicted.append(true + rng.normal(0, shared) + rng.normal(0, own, size))
    return HeldOutScores(25, "greedy", "blend", tuple(targets), tuple(predicted), tuple(truth))


def test_the_published_gate_is_an_error_of_one_point_seven():
    # A gate of 5 points, a true drop of 3: 12% of releases are falsely reverted.
    assert chance_seen(0.017, 0.03, 0.05) == pytest.approx(0.12, abs=0.005)
    assert chance_seen(0.017, 0.05, 0.05) == 0.5
    with pytest.raises(InputError, match="not above 0"):
        chance_seen(0.0, 0.03, 0.05)


def test_what_a_form_does_to_all_targets_cancels_only_when_paired():
    held = held_out(np.random.default_rng(0), splits=200, own=0.01, shared=0.03)
    found = minimum_detectable_change(held)
    factor = norm.ppf(0.975) + norm.ppf(0.8)
    assert found.paired == pytest.approx(factor * 0.01 * np.sqrt(2), rel=0.05)
    assert found.unpaired == pytest.approx(factor * np.hypot(0.01, 0.03) * np.sqrt(2), rel=0.1)


def test_the_stated_power_is_reached(study_size):
    rng = np.random.default_rng(1)
    held = held_out(rng, splits=40, own=0.02)
    change = minimum_detectable_change(held, power=0.8, level=0.05)
    repeats = max(2000, round(20_000 * study_size))
    errors = rng.normal(0, 0.02, repeats) - rng.normal(0, 0.02, repeats)
    seen = np.abs(change.paired + errors) > norm.ppf(0.975) * change.paired_error
    assert seen.mean() == pytest.approx(0.8, abs=0.03)
    false = np.abs(errors) > norm.ppf(0.975) * change.paired_error
    assert false.mean() == pytest.approx(0.05, abs=0.015)


def test_errors_that_were_met_agree_with_the_normal_figure():
    held = held_out(np.random.default_rng(2), splits=60, own=0.015)
    errors = change_errors(held)
    change = minimum_detectable_change(held)
    for drop, gate in ((0.03, 0.05), (0.05, 0.03)):
        wanted = chance_seen(change.paired_error, drop, gate)
        assert errors.chance(drop, gate) == pytest.approx(wanted, abs=0.03)


def test_versions_that_agree_on_most_items_are_told_apart_more_easily():
    rng = np.random.default_rng(3)
    held = held_out(rng)
    codes = rng.integers(0, 2, (100, 200)).astype(np.int8)
    plainly = minimum_detectable_change(held, codes)
    close = minimum_detectable_change(held, codes, rerun_disagreement=0.05)
    assert change_errors(held, codes).disagreement == pytest.approx(0.5, abs=0.02)
    assert close.paired < 0.6 * plainly.paired
    assert close.unpaired == plainly.unpaired
    # Disagreement by re-runs and by the change itself, against that of different targets.
    wanted = plainly.paired_error * np.sqrt((0.05 + close.paired) / 0.5)
    assert close.paired_error == pytest.approx(wanted, rel=0.03)
    as_different = minimum_detectable_change(held, codes, rerun_disagreement=1.0)
    assert as_different.paired == pytest.approx(plainly.paired)


def test_a_form_that_cannot_see_says_so():
    change = minimum_detectable_change(held_out(np.random.default_rng(4)))
    small = can_see(change, 0.01)
    assert small.visible is False
    assert "cannot see" in small.reason
    assert can_see(change, -0.2).visible is True
    unknown = minimum_detectable_change(held_out(np.random.default_rng(4), splits=1, size=5))
    assert unknown.paired is None
    assert unknown.unpaired is None
    assert can_see(unknown, 0.2).visible is None
    assert "pairs of held-out targets" in can_see(unknown, 0.2).reason
    for one in (change, unknown):
        read = plain(one)
        assert all(value is not None or read["why"][name] for name, value in read.items())


def test_settings_out_of_range_are_refused():
    held = held_out(np.random.default_rng(5))
    for wrong in ({"power": 1.0}, {"level": 0.0}, {"near": 0.0}, {"rerun_disagreement": 0.1}):
        with pytest.raises(InputError):
            minimum_detectable_change(held, **wrong)


def test_copies_drop_and_disagree_as_asked():
    codes = (np.random.default_rng(6).random((20, 400)) < 0.7).astype(np.int8)
    codes[:, :10] = -1
    seen = []

    def everything(copy):
        seen.append(copy)
        return np.where(copy >= 0, copy, 0).sum(axis=1) / (copy >= 0).sum(axis=1)

    rng = np.random.default_rng(7)
    errors = simulated_errors(codes, everything, rng, drop=0.05, disagreement=0.1, repeats=2)
    assert np.allclose(errors, 0)
    lost = codes.sum(axis=1) - seen[1].sum(axis=1)
    assert np.allclose(lost / 390, 0.05, atol=0.002)
    assert np.allclose((codes != seen[1]).sum(axis=1) / 390, 0.1, atol=0.005)
    assert (seen[1][:, :10] == -1).all()
    with pytest.raises(InputError, match="boundary"):
        simulated_errors(codes * 2, everything, rng)


@pytest.mark.slow
def test_re_run_scaling_agrees_with_changed_copies_on_harmbench(shared, study_size):
    """The scaled error is between half of and twice that of copies which differ as re-runs do."""
    with (shared / "data" / "helm_safety" / "harmbench_matrix.csv").open(newline="") as stream:
        codes = np.array([[int(cell) for cell in row[1:]] for row in list(csv.reader(stream))[1:]])
    codes = codes.astype(np.int8)
    settings = EvaluationSettings(
        budgets=(100,),
        methods=("predictive",),
        splits=max(4, round(20 * study_size)),
        random_sets=1,
    )
    tasks = TaskSettings(jobs=1, quiet=True)
    found = run_evaluation(make_responses(codes), None, settings, tasks=tasks)
    held = found.scores("predictive", 100, "expectation")
    scaled = minimum_detectable_change(held, codes, rerun_disagreement=0.05)
    test, form = held.targets[0], found.forms["predictive"][100][0]
    rest = np.setdiff1d(np.arange(77), test)
    table = score_table(
        fit_unidimensional(make_responses(codes[rest]), errors=False).parameters, longest=100
    )
    chances = np.clip(codes[rest].mean(axis=0), 0.02, 0.98)
    errors = simulated_errors(
        codes[test],
        lambda copy: expected_full_scores(table, copy, form[None]).scores[0],
        np.random.default_rng(8),
        disagreement=0.05,
        chances=np.broadcast_to(chances * (1 - chances), codes[test].shape),
        repeats=10,
    )
    ratio = errors.std() / scaled.paired_error
    assert 0.5 < ratio < 2
