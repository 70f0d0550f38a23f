"""Infit and outfit: the oracle's values and their distribution under the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from safemetry.errors import InputError
from safemetry.irt.diagnostics.residualfit import infit_outfit
from safemetry.irt.parameters import ItemParameters
from safemetry.irt.responses import make_responses


@pytest.mark.parametrize(
    ("data", "fit"),
    [
        ("LSAT6", "LSAT6_2PL_tight"),
        ("LSAT7", "LSAT7_Rasch"),
        ("LSAT7", "LSAT7_3PLprior"),
        ("Science_polytomous", "Science_graded"),
        ("SAT12", "SAT12_2PL_tight"),
    ],
)
def test_infit_and_outfit_of_items_agree_with_the_oracle(oracle, posterior_means, data, fit):
    parameters, responses = oracle.parameters(fit), oracle.responses(data)
    sd = oracle.spread(fit) if "Rasch" in fit else 1.0
    means, _ = posterior_means(responses, parameters, sd)
    found = infit_outfit(responses, parameters, means)
    ours = np.column_stack([found.outfit, found.outfit_z, found.infit, found.infit_z])
    table = oracle.numbers(
        f"{fit}_itemfit_Zh_infit_outfit", "outfit", "z.outfit", "infit", "z.infit"
    )
    agree = np.abs(ours - table).max(axis=1) < 1e-5
    # The oracle treats responses with a tiny variance in some other way, which shows on items
    # that nearly all pass.
    assert agree.mean() > 0.8
    assert agree[:5].all()


def test_infit_and_outfit_of_targets_agree_with_the_oracle(oracle, posterior_means):
    parameters, responses = oracle.parameters("SAT12_2PL_tight"), oracle.responses("SAT12")
    means, _ = posterior_means(responses, parameters)
    found = infit_outfit(responses, parameters, means, of="targets")
    table = oracle.numbers("SAT12_2PL_tight_personfit_EAP_all", "outfit", "infit")
    agree = np.abs(np.column_stack([found.outfit, found.infit]) - table).max(axis=1) < 1e-5
    # As above: targets that nearly always pass.
    assert agree.mean() > 0.65
    assert agree[np.abs(means) < 0.25].all()
    assert np.corrcoef(found.infit, table[:, 1])[0, 1] > 0.99


def test_both_are_one_at_the_true_abilities(simulated):
    # 5,000 targets: the standard error of a mean square is about .02 for an infit.
    parameters, theta, responses = simulated(5000, 20, np.random.default_rng(1))
    found = infit_outfit(responses, parameters, theta)
    assert np.abs(found.infit - 1).max() < 0.08
    for z in (found.infit_z, found.outfit_z):
        assert abs(z.mean()) < 4 / np.sqrt(20)
        assert 0.5 < z.std() < 1.6


def test_noise_is_above_one_and_determinism_under_one(simulated):
    rng = np.random.default_rng(5)
    parameters, theta, responses = simulated(2000, 10, rng)
    codes = responses.codes.copy()
    codes[:, 0] = rng.integers(2, size=2000)
    codes[:, 1] = theta[:, 0] > parameters.difficulties[1, 0]
    found = infit_outfit(make_responses(codes), parameters, theta)
    assert found.infit_z[0] > 5
    assert found.infit_z[1] < -5


def test_missing_cells_count_for_nothing(simulated):
    parameters, theta, responses = simulated(200, 8, np.random.default_rng(2))
    gaps = np.zeros(responses.codes.shape, bool)
    gaps[100:, 3] = True
    partly = infit_outfit(responses.without(gaps), parameters, theta)
    half = replace(
        responses,
        codes=responses.codes[:100],
        targets=responses.targets[:100],
        weights=responses.weights[:100],
    )
    assert np.isclose(partly.outfit[3], infit_outfit(half, parameters, theta[:100]).outfit[3])
    whole = infit_outfit(responses, parameters, theta)
    assert np.allclose(np.delete(partly.infit, 3), np.delete(whole.infit, 3))


def test_certain_responses_are_unknown_and_never_nan():
    parameters = ItemParameters(
        np.array([[1.0], [1.0]]), np.array([[900.0], [0.0]]), np.zeros(2), np.ones(2)
    )
    responses = make_responses([[1, 1], [0, 0], [1, -1]], items=["sure", "open"])
    found = infit_outfit(responses, parameters, np.zeros(3))
    sure, opened = found.records()
    assert sure["infit"] is None
    assert sure["why"]
    assert opened["infit"] == pytest.approx(1.0)
    of_targets = infit_outfit(responses, parameters, np.zeros(3), of="targets")
    assert of_targets.known.tolist() == [True, True, False]
    for values in (found.infit, found.outfit_z, of_targets.outfit, of_targets.infit_z):
        assert np.isfinite(values).all()


def test_abilities_must_belong_to_the_targets(simulated):
    parameters, theta, responses = simulated(20, 8, np.random.default_rng(2))
    with pytest.raises(InputError, match="19 abilities for 20 targets"):
        infit_outfit(responses, parameters, theta[:19])
    with pytest.raises(InputError, match="not finite"):
        infit_outfit(responses, parameters, np.full(20, np.inf))
