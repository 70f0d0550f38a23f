"""`calibrate`: from evidence to items and targets on one scale, with everything it must say."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from safemetry.errors import InputError
from safemetry.irt import (
    NO_PRIORS,
    ItemPriors,
    calibrate,
    load_calibration,
    make_responses,
    save_calibration,
)
from safemetry.irt.settings import read_priors, written

ITEM_KEYS = {"item", "a", "d", "b", "se_a", "se_d", "g", "u", "thresholds"}
OWN_KEYS = {
    "items",
    "loadings",
    "abilities",
    "theta_method",
    "loglik",
    "loglik_kind",
    "parameters",
    "aic",
    "bic",
    "bic_n",
    "converged",
    "factor_correlations",
    "prior_sensitivity",
}


def codes(targets=60, items=30, dims=1, seed=3):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((targets, dims))
    slopes = np.zeros((items, dims))
    slopes[np.arange(items), np.arange(items) % dims] = np.exp(rng.normal(0.2, 0.3, items))
    chance = 1 / (1 + np.exp(-theta @ slopes.T - rng.normal(0, 1, items)))
    return (rng.random((targets, items)) < chance).astype(int), theta


@pytest.fixture(scope="module")
def found():
    return calibrate(make_responses(codes()[0]))


def test_it_is_a_sound_finding_with_the_keys_of_the_contract(found, assert_sound):
    read = assert_sound(found)
    assert set(read) >= OWN_KEYS
    assert all(set(row) >= ITEM_KEYS for row in read["items"])
    assert all(set(row) >= {"target", "theta", "se"} for row in read["abilities"])
    assert [row["prior"] for row in read["prior_sensitivity"]] == [
        "none",
        "tight",
        "default",
        "wide",
    ]


def test_the_default_priors_agree_with_themselves(found):
    (own,) = [row for row in found.prior_sensitivity if row["prior"] == "default"]
    assert own["largest_ability_change"] < 1e-6
    assert own["loglik"] == pytest.approx(found.loglik, abs=1e-6)


def test_items_that_tell_nothing_are_left_out_by_name():
    matrix, _ = codes()
    matrix[:, 4] = 1
    matrix[:, 7] = -1
    result = calibrate(make_responses(matrix), sensitivity=False)
    assert result.left_out == {
        "5": "every target gave the same response",
        "8": "no target has a response",
    }
    row = next(row for row in result.to_dict()["items"] if row["item"] == "5")
    assert row["a"] is None
    assert row["why"]["a"] == "every target gave the same response"
    assert "2 items were left out" in result.warnings[0]


def test_a_structure_gives_dimensions_with_their_names_and_correlation(assert_sound):
    matrix, theta = codes(200, 40, dims=2)
    structure = {str(item + 1): ("north", "south")[item % 2] for item in range(40)}
    result = calibrate(make_responses(matrix), structure=structure, structure_name="side")
    read = assert_sound(result)
    assert read["dimensions"] == ["north", "south"]
    assert len(read["items"][0]["a"]) == 2
    # Independent abilities: the realised correlation of 200 draws has a standard error of .07.
    realised = np.corrcoef(theta.T)[0, 1]
    assert read["factor_correlations"][0][1] == pytest.approx(realised, abs=0.15)


def test_a_general_dimension_stands_beside_the_groups(assert_sound):
    matrix, _ = codes(150, 40)
    structure = {str(item + 1): ("north", "south")[item % 2] for item in range(40)}
    result = calibrate(make_responses(matrix), structure=structure, general=True)
    read = assert_sound(result)
    assert read["dimensions"] == ["general", "north", "south"]
    assert read["factor_correlations"][0][1:] == [0.0, 0.0]
    # One trait made all responses, so the general slopes carry nearly all of it.
    slopes = np.abs(result.item_parameters.slopes).mean(axis=0)
    assert slopes[0] > 2 * slopes[1:].max()


def test_other_learned_priors_are_tried_in_several_dimensions():
    matrix, _ = codes(100, 30, dims=2)
    result = calibrate(make_responses(matrix), dims=2, restarts=1)
    rows = {row["prior"]: row for row in result.prior_sensitivity}
    assert rows["default"]["largest_probability_change"] < 1e-9
    assert rows["tight"]["largest_probability_change"] > 0.01


def test_explored_dimensions_are_turned_to_simple_structure(assert_sound):
    matrix, _ = codes(200, 40, dims=2)
    result = calibrate(make_responses(matrix), dims=2, rotation="varimax")
    assert_sound(result)
    # Items of one kind load on one axis and hardly on the other, whichever axis that is.
    mean = np.array([np.abs(result.loadings[kind::2]).mean(axis=0) for kind in (0, 1)])
    assert (np.sort(mean, axis=1) @ [-1, 1] > 0.3).all()
    assert mean.argmax(axis=1).tolist() in ([0, 1], [1, 0])


def test_ordered_outcomes_have_thresholds(assert_sound):
    rng = np.random.default_rng(5)
    theta = rng.standard_normal((150, 1))
    draw = theta + rng.logistic(size=(150, 12))
    result = calibrate(
        make_responses((draw > -1).astype(int) + (draw > 1)), model="grm", sensitivity=False
    )
    row = assert_sound(result)["items"][0]
    assert len(row["thresholds"]) == 2
    assert row["thresholds"][0] < row["thresholds"][1]
    assert row["b"] is None
    assert row["why"]["b"] == "the item has several thresholds"


def test_labels_become_a_graded_model_with_no_success_rule():
    rng = np.random.default_rng(7)
    labels = np.array(["comply", "evasive", "refuse"])
    draw = rng.standard_normal((40, 1)) + rng.logistic(size=(40, 10))
    level = (draw > -1).astype(int) + (draw > 1)
    rows = [
        {"target": f"t{i:02d}", "item": f"i{j}", "label": labels[level[i, j]], "intent": "harmful"}
        for i in range(40)
        for j in range(10)
    ]
    result = calibrate(pa.Table.from_pylist(rows), model="grm", sensitivity=False)
    assert result.item_parameters.intercepts.shape == (10, 2)


def test_a_calibration_is_kept_and_read_again(found, tmp_path):
    save_calibration(found.stored(), tmp_path / "kept")
    again = load_calibration(tmp_path / "kept")
    np.testing.assert_array_equal(again.parameters.slopes, found.item_parameters.slopes)
    assert again.targets == found.targets
    assert again.settings["theta_method"] == "map"


def test_the_same_responses_give_the_same_bytes():
    first, second = (calibrate(make_responses(codes()[0])).to_json() for _ in range(2))
    assert first == second


def test_priors_are_read_as_they_are_written(tmp_path):
    file = tmp_path / "priors.yaml"
    file.write_text(json.dumps(written(ItemPriors())))
    assert read_priors(str(file)) == ItemPriors()
    assert read_priors("default") is None
    assert read_priors("none") == NO_PRIORS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slope: {kind: cauchy}", "the prior of slope has no known kind"),
        ("slope: {kind: normal, mean: 0, sd: -1}", "the prior of slope: sd of a prior is -1"),
        ("slope: {kind: normal, centre: 0}", "the prior of slope"),
        ("slopes: none", "priors are a mapping"),
        ("- 1", "priors are a mapping"),
        ("a: [", "the priors cannot be read"),
    ],
)
def test_a_bad_prior_is_one_error(tmp_path, text, said):
    file = tmp_path / "priors.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read_priors(str(file))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "5pl"}, "there is no model '5pl'"),
        ({"dims": 0}, "0 dimensions"),
        ({"dims": 2, "structure": {"1": "a"}}, "a structure has its own dimensions"),
        ({"dims": 2, "model": "grm"}, "model grm has one dimension only"),
        ({"general": True}, "a general dimension stands beside those of a structure"),
        ({"ability": "guess"}, "there is no ability 'guess'"),
    ],
)
def test_settings_that_contradict_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        calibrate(make_responses(codes()[0]), **options)


def test_where_no_item_tells_targets_apart_it_says_so():
    with pytest.raises(InputError, match="no item tells targets apart"):
        calibrate(make_responses(np.ones((5, 4), int)))
