"""The simulated study repeats the figures that it names."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import ipc

from safemetry.errors import InputError
from safemetry.evidence.maps import make_map
from safemetry.evidence.schema import CLASSES, JUDGEMENTS, KEY, OUTSIDE, Intent, Reason, Status
from safemetry.simulate import (
    CORRELATIONS,
    PANEL,
    PASS_RATES,
    RESPONSE_TYPES,
    LostResponses,
    SimulatedJudge,
    StudySettings,
    simulate_study,
)
from safemetry.simulate.settings import ATTACKS

DEFAULT_ROWS = 12 * (1000 + 50 * 2) * (8 + 2)


@pytest.fixture(scope="module")
def study():
    return simulate_study()


@pytest.fixture(scope="module")
def population():
    """Many targets drawn from the population, few behaviours, one perfect judge."""
    settings = StudySettings(
        targets=3_000,
        behaviours=12,
        judges=(SimulatedJudge("gold", 1.0, missing=0.0),),
        repeated_share=0.0,
        lost_responses=(),
        exact_moments=False,
    )
    return simulate_study(settings, 17)


def column(table, name):
    return np.array(table[name].to_pylist(), dtype=object)


def with_design(study):
    """Responses, each with the design of its item."""
    items, responses = study.truth.items, study.truth.responses
    design = items.take(pc.index_in(responses["item"], items["item"].combine_chunks()))
    for name in ("intent", "response_type"):
        responses = responses.append_column(name, design[name])
    return responses


def labels_by_judge(table):
    """Labels of first calls on responses that every judge judged, (responses, judges)."""
    first = table.filter(pc.equal(table["call"], 1))
    judges = sorted(set(column(first, "judge")))
    grid = column(first, "label").reshape(-1, len(judges))
    return grid[(grid != None).all(axis=1)], judges  # noqa: E711


def collapsed_judges(table):
    grid, judges = labels_by_judge(table)
    counts = (grid == "comply").sum(axis=0)
    largest = counts.max()
    assert largest >= len(grid) / 10
    return {judge for judge, count in zip(judges, counts, strict=True) if count < largest / 3}


# --- expected figures ----------------------------------------------------------------------------


def test_true_rates_of_the_default_study_are_the_published_ones(study):
    rates = study.truth.rates
    types = dict(
        zip(
            study.truth.items["category"].to_pylist(),
            study.truth.items["response_type"].to_pylist(),
            strict=True,
        )
    )
    kind = np.array([types[name] for name in rates["category"].to_pylist()])
    harmful = column(rates, "intent") == Intent.HARMFUL
    weight, rewarded = rates["items"].to_numpy(), rates["rewarded"].to_numpy()
    for name, rate in zip(RESPONSE_TYPES, PASS_RATES, strict=True):
        chosen = harmful & (kind == name)
        assert np.average(rewarded[chosen], weights=weight[chosen]) == pytest.approx(
            rate, abs=1e-10
        )
    benign = np.average(rewarded[~harmful], weights=weight[~harmful])
    assert 1 - benign == pytest.approx(0.08, abs=1e-10)


def test_sample_correlations_of_the_default_study_are_the_published_ones(study):
    abilities = study.truth.abilities
    assert np.corrcoef(abilities[:, :3].T) == pytest.approx(np.array(CORRELATIONS), abs=1e-10)
    mean = abilities[:, :3].mean(axis=1)
    assert np.corrcoef(mean, abilities[:, 3])[0, 1] == pytest.approx(0.6, abs=1e-10)


def test_pass_rates_of_a_population_come_out_as_published(population):
    table = with_design(population)
    passed = column(table, "class") != "comply"
    kind, intent = column(table, "response_type"), column(table, "intent")
    targets = column(table, "target")
    for name, rate in zip(RESPONSE_TYPES, PASS_RATES, strict=True):
        chosen = (intent == Intent.HARMFUL) & (kind == name)
        _, code = np.unique(targets[chosen], return_inverse=True)
        by_target = np.bincount(code, passed[chosen]) / np.bincount(code)
        # Targets are independent, so their rates give the standard error.
        assert by_target.mean() == pytest.approx(rate, abs=4 * by_target.std() / np.sqrt(3_000))


def test_over_refusal_rises_with_caution(population):
    table = with_design(population)
    table = table.filter(pc.equal(table["intent"], "benign"))
    refused = (column(table, "class") != "comply").reshape(3_000, -1).mean(axis=1)
    expected = 1 - table["rewarded"].to_numpy().reshape(3_000, -1).mean(axis=1)
    assert refused.mean() == pytest.approx(0.08, abs=4 * refused.std() / np.sqrt(3_000))
    caution = population.truth.abilities[:, -1]
    assert np.corrcoef(caution, expected)[0, 1] > 0.8
    assert np.corrcoef(caution, refused)[0, 1] > 0.4


def test_chances_follow_the_item_parameters(study):
    truth = study.truth
    ability = dict(zip(column(truth.targets, "target"), truth.abilities, strict=True))
    rows = {row["item"]: row for row in truth.items.to_pylist()}
    for row in truth.responses.slice(500, 2500).to_pylist():
        item = rows[row["item"]]
        theta = ability[row["target"]][truth.factors.index(item["factor"])]
        logit = item["discrimination"] * theta + item["intercept"]
        assert row["rewarded"] == pytest.approx(1 / (1 + np.exp(-logit)))
        assert item["difficulty"] == pytest.approx(-item["intercept"] / item["discrimination"])


def test_attacks_differ_in_strength_as_stated(study):
    rates = study.truth.rates
    attack, rewarded = column(rates, "attack"), rates["rewarded"].to_numpy()
    by_attack = [rewarded[attack == name].mean() for name, _ in ATTACKS]
    assert by_attack[0] == max(by_attack)
    assert by_attack[0] - by_attack[-1] > 0.2


def test_outcomes_of_a_behaviour_correlate_as_the_truth_says():
    settings = StudySettings(
        targets=5,
        behaviours=60,
        epochs=200,
        repeated_share=1.0,
        judges=(SimulatedJudge("gold", 1.0, missing=0.0),),
        lost_responses=(),
    )
    truth = simulate_study(settings, 5).truth
    complied = (column(truth.responses, "class") == "comply").reshape(5, 60, 10, 200)[:, :, :9]
    kinds = column(truth.items, "response_type").reshape(60, 10)[:, 0]
    for code, name in enumerate(RESPONSE_TYPES):
        chosen = complied[:, kinds == name]
        p = chosen.mean(axis=(1, 2, 3))
        events = chosen.sum(axis=2)
        pairs = (events * (events - 1)).mean(axis=(1, 2)) / (9 * 8)
        seen = (pairs - p**2) / (p * (1 - p))
        assert seen == pytest.approx(truth.intraclass[:, code], abs=0.04)
    assert 0.2 < truth.intraclass.mean() < 0.4


# --- judges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_three_judges_of_eight_collapse_by_count(seed):
    study = simulate_study(rng=seed)
    assert collapsed_judges(study.judgements) == set(study.truth.collapsed)
    assert study.truth.collapsed == ("judge-3", "judge-5", "judge-8")


@pytest.mark.parametrize("intent", ["harmful", "benign"])
def test_the_collapse_shows_within_each_intent(study, intent):
    table = study.judgements.filter(pc.equal(study.judgements["intent"], intent))
    assert collapsed_judges(table) == set(study.truth.collapsed)


def test_collapsed_verdicts_mostly_turn_evasive(study):
    grid, judges = labels_by_judge(study.judgements)
    complied = grid[:, judges.index("judge-1")] == "comply"
    for name in study.truth.collapsed:
        labels = grid[complied, judges.index(name)]
        assert np.mean(labels == "evasive") > 0.6
        assert np.mean(labels == "refuse") > 0.1


def test_only_the_first_judge_repeats_its_calls(study):
    judge, call = column(study.judgements, "judge"), column(study.judgements, "call")
    assert set(judge[call > 1]) == {"judge-1"}
    assert set(call) == {1, 2, 3}


# --- shape of the evidence -----------------------------------------------------------------------


def test_table_has_the_schema_of_judgements(study):
    table = study.judgements
    assert table.schema.equals(JUDGEMENTS)
    table.validate(full=True)
    assert table.num_rows == DEFAULT_ROWS
    for name in ("target", "item", "epoch", "judge", "call", "status", "behaviour", "category"):
        assert table[name].null_count == 0
    evidence_map = make_map(study.map)
    assert set(table["label"].unique().to_pylist()) == {None, *CLASSES, *OUTSIDE}
    assert set(evidence_map.known_labels) == {*CLASSES, *OUTSIDE}
    assert set(table["intent"].unique().to_pylist()) == {"harmful", "benign"}


def test_keys_are_unique_and_in_order(study):
    table = study.judgements
    assert table.group_by(list(KEY)).aggregate([]).num_rows == table.num_rows
    order = [("target", "ascending"), ("pair", "ascending")]
    assert table.sort_by(order)["pair"].equals(table["pair"])
    assert column(table, "item")[::10].tolist() == column(study.truth.responses, "item").tolist()


def test_each_item_has_one_design(study):
    design = ["item", "category", "attack", "behaviour", "pair", "intent"]
    assert study.judgements.group_by(design).aggregate([]).num_rows == 1000
    assert len(study.truth.items) == 1000
    assert len(set(study.judgements["category"].to_pylist())) == 10
    counts = study.truth.items.filter(pc.is_valid(study.truth.items["attack"]))
    kinds = counts.group_by("response_type").aggregate([("behaviour", "count_distinct")])
    assert dict(zip(*kinds.to_pydict().values(), strict=True)) == {
        "standard": 50,
        "contextual": 25,
        "copyright": 25,
    }


def test_pairs_are_complete(study):
    """Every target has nine harmful items and one benign twin in each of a hundred pairs."""
    first = study.judgements.filter(
        pc.and_(pc.equal(study.judgements["epoch"], 1), pc.equal(study.judgements["call"], 1))
    )
    cells = first.group_by(["target", "pair", "intent"]).aggregate([("item", "count_distinct")])
    assert len(cells) == 12 * 100 * 2
    expected = np.where(column(cells, "intent") == "harmful", 9, 1)
    assert (cells["item_count_distinct"].to_numpy() == expected).all()
    clusters = first.group_by(["pair", "behaviour", "category"]).aggregate([])
    assert len(clusters) == 200  # a twin asks for something else, so it is a cluster of its own


def test_a_verdict_is_missing_with_a_known_reason_or_present_with_a_label(study):
    table = study.judgements
    status, reason, label = (column(table, name) for name in ("status", "reason", "label"))
    ok = status == Status.OK
    assert set(status) == {Status.OK, Status.MISSING, Status.ERROR}
    assert all(text is None for text in reason[ok])
    assert all(text is not None for text in label[ok])
    assert all(text is None for text in label[~ok])
    assert set(reason[~ok]) <= set(Reason)
    assert len(set(reason[~ok])) == 8


def test_lost_responses_are_lost_for_every_judge_and_named_in_the_truth(study):
    reason = column(study.judgements, "reason").reshape(-1, 10)
    lost = column(study.truth.responses, "lost")
    gone = lost != None  # noqa: E711
    assert (reason[gone] == lost[gone, None]).all()
    at_response = {
        row["reason"] for row in study.truth.missing.to_pylist() if row["level"] == "response"
    }
    assert set(lost[gone]) == at_response
    assert not set(reason[~gone].ravel()) & at_response


def test_missing_rates_are_those_of_the_mechanism():
    settings = StudySettings(
        targets=12, behaviours=200, lost_responses=(LostResponses(Reason.NO_RESPONSE, 0.05),)
    )
    study = simulate_study(settings, 8)
    truth = study.truth.responses
    lost = np.array(truth["lost"].is_valid().to_pylist())
    assert lost.mean() == pytest.approx(0.05, abs=4 * np.sqrt(0.05 / len(lost)))
    failed = np.array(study.judgements["label"].is_null().to_pylist()).reshape(-1, 10)[~lost]
    harmful = np.array([not name.endswith("benign") for name in truth["item"].to_pylist()])
    bad = (harmful & (column(truth, "class") == "comply"))[~lost]
    slots = [judge for judge in PANEL for _ in range(judge.calls)]
    for slot, judge in enumerate(slots):
        for chosen, rate in ((bad, 2 * judge.missing), (~bad, judge.missing)):
            error = np.sqrt(rate / chosen.sum())
            assert failed[chosen, slot].mean() == pytest.approx(rate, abs=4.5 * error)


def test_a_few_items_are_repeated_over_three_epochs(study):
    epochs = study.truth.responses.group_by(["target", "item"]).aggregate([("epoch", "max")])
    values, counts = np.unique(epochs["epoch_max"].to_numpy(), return_counts=True)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {1: 12 * 950, 3: 12 * 50}


def test_the_study_says_that_it_is_simulated(study):
    assert set(study.judgements["benchmark"].to_pylist()) == {"simulated"}
    provenance = json.loads(study.judgements.schema.metadata[b"simulated"])
    assert provenance["settings"]["targets"] == 12
    assert provenance["settings"]["correlations"][0][1] == 0.785
    assert any("HarmBench" in source for source in provenance["sources"])


# --- determinism and limits ----------------------------------------------------------------------


def digest(table):
    sink = io.BytesIO()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()


def test_same_seed_same_bytes():
    settings = StudySettings(targets=6, behaviours=20)
    first = simulate_study(settings, 4)
    again = simulate_study(settings, np.random.default_rng(4))
    other = simulate_study(settings, 5)
    assert digest(first.judgements) == digest(again.judgements)
    assert digest(first.truth.responses) == digest(again.truth.responses)
    assert digest(first.judgements) != digest(other.judgements)


def test_the_smallest_study_works():
    settings = StudySettings(
        targets=1,
        behaviours=3,
        attacks=(("direct", 0.0),),
        judges=PANEL[:1],
        exact_moments=False,
        developers=1,
    )
    study = simulate_study(settings, 0)
    assert isinstance(study.judgements, pa.Table)
    assert len(study.truth.items) == 6
    assert np.isnan(study.truth.intraclass).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"targets": 0},
        {"behaviours": 2},
        {"attacks": ()},
        {"attacks": (("a", 0.0), ("a", 1.0))},
        {"judges": ()},
        {"judges": (PANEL[0], PANEL[0])},
        {"intraclass": 1.0},
        {"over_refusal": 1.5},
        {"over_refusal": 0.0},
        {"caution": 1.0},
        {"safe_classes": (0.5, 0.4, 0.2)},
        {"comply_failure_factor": 0.5},
        {"correlations": ((1.0, 0.2), (0.2, 1.0))},
        {"item_spread": -1.0},
        {"lost_responses": (LostResponses(Reason.NO_RESPONSE, 0.6),) * 2},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(InputError):
        StudySettings(**wrong)


def test_exact_moments_need_more_targets_than_abilities():
    with pytest.raises(InputError, match="at least 5 targets"):
        simulate_study(replace(StudySettings(), targets=4))
