"""Response matrices follow the item response model that they come with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from safemetry.errors import InputError
from safemetry.simulate import (
    CORRELATIONS,
    MISSING,
    MatrixSettings,
    response_probabilities,
    simulate_matrix,
    simulate_outcomes,
)


@pytest.mark.parametrize("model", ["1pl", "2pl", "3pl", "4pl"])
def test_outcomes_come_with_the_probabilities_of_the_model(model):
    simulated = simulate_matrix(MatrixSettings(4_000, 60, model=model), 1)
    chances = simulated.truth.probabilities
    residuals = (simulated.outcomes - chances) / np.sqrt(chances * (1 - chances))
    z_items = residuals.sum(axis=0) / np.sqrt(4_000)
    z_targets = residuals.sum(axis=1) / np.sqrt(60)
    assert abs(z_items).max() < 4.5
    assert z_items.std() == pytest.approx(1, abs=0.4)
    assert z_targets.std() == pytest.approx(1, abs=0.06)
    floor, ceiling = {"3pl": (0.2, 1.0), "4pl": (0.2, 0.95)}.get(model, (0.0, 1.0))
    assert chances.min() >= floor
    assert chances.max() <= ceiling
    assert (np.ptp(simulated.truth.loadings) == 0) == (model == "1pl")


def test_in_one_dimension_the_difficulty_is_minus_d_over_a():
    truth = simulate_matrix(MatrixSettings(5, 20), 2).truth
    assert truth.difficulties == pytest.approx(-truth.intercepts / truth.loadings[:, 0])
    at_difficulty = expit(truth.loadings[:, 0] * truth.difficulties + truth.intercepts)
    assert at_difficulty == pytest.approx(0.5)


def test_structure_and_correlations_are_those_of_the_settings():
    structure = (0,) * 20 + (1,) * 10 + (2,) * 10
    simulated = simulate_matrix(
        MatrixSettings(77, 40, structure=structure, correlations=CORRELATIONS, exact_moments=True),
        3,
    )
    truth = simulated.truth
    assert np.corrcoef(truth.abilities.T) == pytest.approx(np.array(CORRELATIONS), abs=1e-10)
    assert (truth.loadings.argmax(axis=1) == structure).all()
    assert (np.count_nonzero(truth.loadings, axis=1) == 1).all()


def test_given_parameters_are_used():
    loadings, intercepts = np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([0.3, -1.0])
    settings = MatrixSettings(50, 2, correlations=((1.0, 0.2), (0.2, 1.0)))
    truth = simulate_matrix(settings, 4, loadings=loadings, intercepts=intercepts).truth
    expected = expit(truth.abilities @ loadings.T + intercepts)
    assert truth.probabilities == pytest.approx(expected)
    with pytest.raises(InputError, match="do not fit"):
        simulate_matrix(settings, 4, loadings=np.ones((2, 3)))


def test_missing_cells_are_minus_one_and_as_many_as_asked_for():
    outcomes = simulate_matrix(MatrixSettings(500, 400, missing=0.1), 5).outcomes
    assert outcomes.dtype == np.int8
    assert set(np.unique(outcomes).tolist()) == {MISSING, 0, 1}
    assert np.mean(outcomes == MISSING) == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / 200_000))


def test_a_mask_of_missing_cells_is_kept():
    mask = np.array([[True, False], [False, True]])
    outcomes = simulate_outcomes(np.ones((2, 2)), np.random.default_rng(0), missing=mask)
    assert outcomes.tolist() == [[MISSING, 1], [1, MISSING]]


def test_same_seed_same_matrix():
    settings = MatrixSettings(30, 20, model="3pl", missing=0.2)
    assert (simulate_matrix(settings, 6).outcomes == simulate_matrix(settings, 6).outcomes).all()
    other = simulate_matrix(settings, 7)
    assert (simulate_matrix(settings, 6).outcomes != other.outcomes).any()
    assert other.targets[0] == "target-01"
    assert len(other.items) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"targets": 0},
        {"model": "5pl"},
        {"discrimination": 0.0},
        {"missing": 1.0},
        {"guessing": 0.7, "slipping": 0.4},
        {"items": 3, "structure": (0, 1)},
        {"items": 2, "structure": (0, 3), "correlations": ((1.0, 0.0), (0.0, 1.0))},
        {"items": 2, "structure": (0, -1)},
        {"correlations": ((1.0, 2.0), (2.0, 1.0))},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(InputError):
        MatrixSettings(**wrong)


def test_parameters_that_do_not_fit_together_are_refused():
    with pytest.raises(InputError, match="fit together"):
        response_probabilities(np.ones((3, 2)), np.ones((4, 1)), np.zeros(4))
