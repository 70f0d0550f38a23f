"""Published figures, through the functions that users call."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from safemetry import (
    MixedIntentError,
    compare_rates,
    cover,
    find_items,
    measure_rates,
    plan_trials,
    read_evidence,
    read_map,
)

MAPS = Path(__file__).resolve().parents[2] / "docs" / "maps"


def responses(target="m", **counts):
    """Responses such as ``harmful=(900, 100)``: so many refused, so many complied."""
    rows = [
        (target, f"{intent}-{index:04d}", label, intent)
        for intent, numbers in counts.items()
        for index, label in enumerate(
            label
            for label, number in zip(("refuse", "comply"), numbers, strict=True)
            for _ in range(number)
        )
    ]
    names = ("target", "item", "label", "intent")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize(("trials", "shown"), [(100, "2.95%"), (1_000, "0.30%")])
def test_no_failure_is_a_ceiling_and_not_a_zero(trials, shown):
    finding = measure_rates(responses(harmful=(trials, 0)))
    claim = finding.find("attack_success_rate")
    assert (claim.events, claim.trials, claim.estimate) == (0, trials, 0.0)
    assert claim.ceiling == pytest.approx(1 - 0.05 ** (1 / trials))
    assert claim.rule_of_three == pytest.approx(3 / trials)
    assert claim.interval[0] == 0.0 < claim.interval[1]
    assert f"no event seen, so at most {shown} at 95%" in claim.sentence()
    assert cover(responses(harmful=(trials, 0))).grid[0].ceiling == claim.ceiling


@pytest.mark.parametrize(
    ("ceiling", "failures", "trials"), [(1e-3, 0, 2_995), (1e-3, 1, 4_742), (1e-5, 0, 299_572)]
)
def test_exact_plans(ceiling, failures, trials):
    assert plan_trials(ceiling, failures=failures).trials == trials


def test_a_planned_run_shows_what_it_was_planned_for():
    claim = measure_rates(responses(harmful=(2_995, 0))).find("attack_success_rate")
    assert claim.ceiling <= 0.001
    claim = measure_rates(responses(harmful=(2_994, 0))).find("attack_success_rate")
    assert claim.ceiling > 0.001


def test_a_tenth_of_a_percent_of_ten_million_is_ten_thousand():
    claim = measure_rates(responses(harmful=(999, 1)), volume=10_000_000).find(
        "attack_success_rate"
    )
    assert claim.estimate == 0.001
    assert claim.projection.estimate == pytest.approx(10_000)
    assert claim.projection.interval[0] < 10_000 < claim.projection.interval[1]
    assert claim.projection.ceiling == pytest.approx(claim.ceiling * 10_000_000)
    assert plan_trials(0.001, volume=10_000_000).projected == pytest.approx(10_000)


CONFUSION = {
    "A": {
        "counts": {"harmful": (900, 100), "benign": (80, 920)},
        "safe_recall": 0.9,
        "attack_success_rate": 0.1,
        "help_rate": 0.92,
        "over_refusal_rate": 0.08,
        "refusal_precision": 0.918,
    },
    "B": {
        "counts": {"harmful": (990, 10), "benign": (250, 750)},
        "safe_recall": 0.99,
        "attack_success_rate": 0.01,
        "help_rate": 0.75,
        "over_refusal_rate": 0.25,
        "refusal_precision": 0.798,
    },
}


@pytest.mark.parametrize("name", CONFUSION)
def test_confusion_table(name, assert_sound):
    expected = dict(CONFUSION[name])
    finding = measure_rates(responses(**expected.pop("counts")))
    found = {claim.metric: round(claim.estimate, 3) for claim in finding.claims}
    assert found == expected
    assert_sound(finding)


def test_the_pooled_refusal_rate_of_a_is_refused_with_an_explanation():
    data = responses(**CONFUSION["A"]["counts"])
    with pytest.raises(MixedIntentError) as caught:
        measure_rates(data, metrics="refusal_rate")
    said = str(caught.value)
    assert "a refusal rate over harmful and benign items mixes safety with over-refusal" in said
    assert "--by intent" in said
    # (900 + 80) / 2,000 is a fact about the mix; each half is a fact about the model.
    split = measure_rates(data, metrics="refusal_rate", by="intent")
    found = {claim.scope.by["intent"]: (claim.events, claim.estimate) for claim in split.claims}
    assert found == {"harmful": (900, 0.9), "benign": (80, 0.08)}
    assert sum(events for events, _ in found.values()) / 2_000 == 0.49


def test_naive_and_strict_rules_on_the_same_hundred_responses():
    labels = ["comply"] * 12 + ["evasive"] * 33 + ["refuse"] * 55
    data = pa.table(
        {
            "target": ["m"] * 100,
            "item": [str(index) for index in range(100)],
            "label": labels,
            "intent": ["harmful"] * 100,
        }
    )
    naive, strict = (
        measure_rates(data, success=rule).find("attack_success_rate")
        for rule in ("non_refusal", "comply")
    )
    assert (naive.estimate, strict.estimate) == (0.45, 0.12)
    assert naive.estimate / strict.estimate == pytest.approx(3.75)
    assert (naive.scope.success, strict.scope.success) == ("non_refusal", "comply")


# -- third-party data ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jailbreakbench(shared):
    source = shared / "data" / "jbb_artifacts" / "labels_long.csv"
    return read_evidence(str(source), evidence_map=read_map(MAPS / "jbb_artifacts.yaml"))


@pytest.fixture(scope="module")
def refusalbench(shared):
    source = shared / "data" / "refusalbench_bio" / "trials_long.parquet"
    return read_evidence(str(source), evidence_map=read_map(MAPS / "refusalbench_bio.yaml"))


def xstest(shared, name, kind):
    source = shared / "data" / "xstest_v2" / "labels_wide.csv"
    return read_evidence(str(source), evidence_map=read_map(MAPS / f"{name}.yaml"), kind=kind)


def test_pair_on_gpt4(jailbreakbench, assert_sound):
    finding = measure_rates(jailbreakbench, by="attack")
    claim = finding.find("attack_success_rate", attack="PAIR", target="gpt-4-0125-preview")
    assert (claim.events, claim.trials) == (34, 64)
    assert (claim.missing.total, dict(claim.missing.by_reason)) == (36, {"not_attempted": 36})
    assert claim.bounds_if_missing == pytest.approx((0.34, 0.70))
    assert claim.scope.items.count == 100
    assert claim.scope.attack_set == ("PAIR",)
    assert_sound(finding)


def test_every_attack_rate_of_jailbreakbench_is_that_of_its_matrix(jailbreakbench, shared):
    """The published matrix counts what was not attempted as held, which is our lower bound."""
    lines = (shared / "data" / "jbb_artifacts" / "matrix_binary.csv").read_text().splitlines()
    published = {
        tuple(row[0].split("|")): sum(map(int, row[1:])) / 100
        for row in (line.split(",") for line in lines[1:])
    }
    finding = measure_rates(jailbreakbench, by="attack", metrics="attack_success_rate")
    found = {
        (claim.scope.target, claim.scope.by["attack"]): claim.bounds_if_missing[0]
        for claim in finding.claims
    }
    assert found == pytest.approx(published)


def test_attacks_on_one_behaviour_are_one_cluster(jailbreakbench):
    finding = measure_rates(jailbreakbench, metrics="attack_success_rate")
    claim = finding.find("attack_success_rate", target="vicuna-13b-v1.5")
    assert claim.clusters == 100
    assert claim.trials > 300
    assert claim.effective_trials < claim.trials
    assert claim.method == "korn_graubard"
    alone = measure_rates(jailbreakbench, metrics="attack_success_rate", cluster="item")
    naive = alone.find("attack_success_rate", target="vicuna-13b-v1.5")
    assert naive.clusters == naive.trials == claim.trials
    assert naive.interval[1] - naive.interval[0] < claim.interval[1] - claim.interval[0]


def test_coverage_of_jailbreakbench_counts_every_attempt(jailbreakbench, assert_sound):
    finding = cover(jailbreakbench)
    assert {cell.category for cell in finding.grid} == {
        claim.scope.by["category"] for claim in measure_rates(jailbreakbench, by="category").claims
    }
    assert len(finding.grid) == 10 * 5
    assert sum(cell.trials + cell.missing for cell in finding.grid) == 1_800
    assert all(cell.tested for cell in finding.grid)
    assert_sound(finding)


@pytest.mark.parametrize(
    ("success", "lowest", "highest"), [("non_refusal", 0.008, 0.38), ("comply", 0.016, 0.596)]
)
def test_over_refusal_of_xstest(success, lowest, highest, shared, assert_sound):
    finding = measure_rates(xstest(shared, "xstest_v2", "tidy"), success=success)
    found = {
        claim.scope.target: claim.estimate
        for claim in finding.claims
        if claim.metric == "over_refusal_rate"
    }
    assert len(found) == 5
    assert min(found, key=found.__getitem__) == "mistralinstruct"
    assert max(found, key=found.__getitem__) == "llama2orig"
    assert found["mistralinstruct"] == pytest.approx(lowest)
    assert found["llama2orig"] == pytest.approx(highest)
    assert [entry["pairs"] for entry in finding.pairs] == [142] * 5
    assert_sound(finding)


def test_every_judge_of_xstest_has_claims_of_its_own(shared, assert_sound):
    evidence = xstest(shared, "xstest_v2_all_judges", "labels")
    finding = measure_rates(evidence, success="non_refusal")
    judges = {claim.scope.judge for claim in finding.claims}
    assert judges == {"human_1", "human_2", "human_final", "gpt4", "strmatch"}
    one = measure_rates(xstest(shared, "xstest_v2", "tidy"), success="non_refusal")
    for claim in one.claims:
        twin = finding.find(claim.metric, target=claim.scope.target, judge="human_final")
        assert (twin.events, twin.trials) == (claim.events, claim.trials)
    lost = sum(
        claim.missing.total
        for claim in finding.claims
        if claim.scope.judge == "gpt4" and claim.metric in {"help_rate", "safe_recall"}
    )
    assert lost == 11
    assert evidence.instruments["strmatch"].scale.classes == ("refuse", "comply")
    assert_sound(finding)


def test_judges_disagree_where_their_labels_differ(shared):
    evidence = xstest(shared, "xstest_v2_all_judges", "labels").filter(target="gpt4")
    rows = evidence.rows.collect("pyarrow").to_arrow().to_pylist()
    said = {}
    for row in rows:
        said.setdefault(row["item"], set()).add(row["label"])
    expected = {item for item, labels in said.items() if "comply" in labels and len(labels) > 1}
    # A blank of one judge is no disagreement.
    expected -= {item for item in expected if said[item] <= {"comply", None}}
    assert set(find_items(evidence, "disagree").items) == expected


def test_models_of_xstest_differ_on_the_same_items(shared, assert_sound):
    evidence = xstest(shared, "xstest_v2", "tidy")
    finding = compare_rates(evidence, "llama2orig", "mistralinstruct", success="non_refusal")
    helped = next(entry for entry in finding.comparisons if entry.metric == "help_rate")
    assert helped.difference == pytest.approx(0.38 - 0.008)
    assert (helped.pairs, helped.unpaired) == (250, 0)
    assert helped.p_value < 1e-10
    assert helped.test == "mcnemar_exact"
    assert_sound(finding)


def test_refusalbench_by_tier(refusalbench, shared, assert_sound):
    finding = measure_rates(refusalbench, success="non_refusal", by="category")
    benign = [claim for claim in finding.claims if claim.metric == "over_refusal_rate"]
    assert len(benign) == 20
    assert min(claim.estimate for claim in benign) == 0.0
    worst = max(benign, key=lambda claim: claim.estimate)
    assert worst.scope.target == "moonshotai/kimi-k2.6-20260420"
    assert worst.estimate == pytest.approx(0.915, abs=5e-4)
    # Five trials on one prompt are one cluster of five, and the scope says so.
    assert (worst.trials, worst.clusters, worst.scope.epochs) == (235, 47, 5)
    dual_use = [
        claim.estimate
        for claim in finding.claims
        if claim.metric == "refusal_rate" and claim.scope.by["category"] == "dual_use"
    ]
    assert (len(dual_use), min(dual_use), max(dual_use)) == (20, 0.0, 1.0)
    assert {claim.metric for claim in finding.claims} == {
        "help_rate",
        "over_refusal_rate",
        "refusal_rate",
    }
    councils = {claim.scope.target: claim.scope.judge for claim in finding.claims}
    assert councils["anthropic/claude-opus-4.8"] == "v1.3"
    assert councils["nvidia.nemotron-super-3-120b"] == "v1.1-nvidia(2 judges)"
    assert_sound(finding)


def test_refusals_of_refusalbench_are_those_of_the_data_set(refusalbench, shared):
    import pyarrow.parquet as pq

    trials = pq.read_table(shared / "data" / "refusalbench_bio" / "trials_long.parquet")
    counted = trials.group_by(["model", "tier"]).aggregate(
        [("refused_strict", "sum"), ("refused_strict", "count")]
    )
    published = {
        (row["model"], row["tier"]): (row["refused_strict_sum"], row["refused_strict_count"])
        for row in counted.to_pylist()
    }
    finding = measure_rates(
        refusalbench, success="non_refusal", by="category", metrics="refusal_rate"
    )
    found = {
        (claim.scope.target, claim.scope.by["category"]): (claim.events, claim.trials)
        for claim in finding.claims
    }
    assert found == published
