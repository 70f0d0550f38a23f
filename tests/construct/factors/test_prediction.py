"""Models of the items on targets that they have not seen."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.construct.factors.prediction import predict_targets
from safemetry.errors import InputError
from safemetry.irt.responses import make_responses
from safemetry.irt.structure import make_structure
from safemetry.tasks import TaskSettings

ALONE = TaskSettings(jobs=1, quiet=True)


def simulated(seed: int, *, correlation: float, targets: int = 60, items: int = 30) -> np.ndarray:
    """Two traits, half of the items for each."""
    rng = np.random.default_rng(seed)
    theta = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], targets)
    slopes = rng.lognormal(0.3, 0.3, items)
    linear = np.repeat(theta, items // 2, axis=1) * slopes + rng.normal(0, 1, items)
    return (rng.random(linear.shape) < 1 / (1 + np.exp(-linear))).astype(int)


def halves(items: int = 30) -> list[str]:
    return ["one"] * (items // 2) + ["other"] * (items // 2)


def test_two_traits_are_seen_by_both_kinds_of_models():
    responses = make_responses(simulated(1, correlation=0.0, targets=100, items=40))
    structure = make_structure(responses.items, halves(40))
    found = predict_targets(responses, [1, 2], structure, tasks=ALONE)
    loss = {model.name: model.log_loss for model in found.models}
    assert loss["benchmarks (2D confirmatory)"] < loss["1D exploratory"] < loss["items alone"]
    assert loss["2D exploratory"] < loss["1D exploratory"]
    assert found.beats_one_dimension
    by_name = {model.name: model for model in found.models}
    assert by_name["1D exploratory"].gain is None
    assert by_name["2D exploratory"].gain_interval[0] > 0
    assert by_name["items alone"].gain_interval[1] < 0


def test_one_trait_is_not_taken_for_two():
    alarms = 0
    for seed in range(6):
        responses = make_responses(simulated(seed, correlation=1 - 1e-9))
        structure = make_structure(responses.items, halves())
        found = predict_targets(responses, [1, 2], structure, restarts=1, seed=seed, tasks=ALONE)
        alarms += found.beats_one_dimension
    assert alarms <= 1


@pytest.mark.slow
def test_false_alarms_over_many_data_sets(study_size: float):
    runs = max(int(100 * study_size), 10)
    alarms = []
    for seed in range(runs):
        responses = make_responses(simulated(seed, correlation=1 - 1e-9))
        structure = make_structure(responses.items, halves())
        found = predict_targets(responses, [1, 2, 3], structure, restarts=1, seed=seed, tasks=ALONE)
        alarms.append(found.beats_one_dimension)
    assert np.mean(alarms) <= 0.1


def test_missing_cells_are_neither_given_nor_asked():
    codes = simulated(2, correlation=0.3)
    codes[np.random.default_rng(0).random(codes.shape) < 0.2] = -1
    codes[3] = -1
    found = predict_targets(make_responses(codes), [1], tasks=ALONE)
    answered = (codes >= 0).sum(axis=1)
    assert found.cells == (answered // 2).sum()
    assert np.isfinite([model.log_loss for model in found.models]).all()


def test_workers_do_not_change_the_result():
    responses = make_responses(simulated(3, correlation=0.3, targets=25))
    first, other = (
        predict_targets(responses, [2], restarts=1, tasks=TaskSettings(jobs=jobs, quiet=True))
        for jobs in (1, 2)
    )
    assert [m.log_loss for m in first.models] == pytest.approx(
        [m.log_loss for m in other.models], rel=1e-9
    )


def test_few_targets_and_ordered_outcomes_are_refused():
    with pytest.raises(InputError, match="19 targets are too few"):
        predict_targets(make_responses(simulated(1, correlation=0.0, targets=19)), [1])
    codes = simulated(1, correlation=0.0)
    codes[0, 0] = 2
    with pytest.raises(InputError, match="outcomes 0 and 1"):
        predict_targets(make_responses(codes), [1])
