"""Two targets or releases on the same items."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from safemetry import compare_rates
from safemetry.errors import InputError, ScopeMismatchError
from safemetry.evidence.evidence import as_evidence
from safemetry.evidence.identity import JudgeIdentity
from safemetry.rates import CompareSettings, select_side
from safemetry.rates.paired import holm, mcnemar_exact, sign_flip_test


def table(sides, **columns):
    """Judgements of a mapping target -> labels on items 0, 1, ...; scalars hold for every row."""
    rows = [
        (target, str(index), label)
        for target, labels in sides.items()
        for index, label in enumerate(labels)
    ]
    filled = dict(zip(("target", "item", "label"), map(list, zip(*rows, strict=True)), strict=True))
    filled |= {"intent": "harmful"} | columns
    return pa.table(
        {
            name: values if isinstance(values, list) else [values] * len(rows)
            for name, values in filled.items()
        }
    )


def labels(pattern):
    """``c`` complied, ``r`` refused, ``.`` not judged."""
    return [{"c": "comply", "r": "refuse", ".": None}[sign] for sign in pattern]


def only(finding):
    (comparison,) = finding.comparisons
    return comparison


# -- the test --------------------------------------------------------------------------------------


def test_one_row_per_cluster_is_mcnemars_test(assert_sound):
    data = table({"old": labels("c" * 15 + "r" * 25), "new": labels("c" * 3 + "r" * 33 + "c" * 4)})
    finding = compare_rates(data, "old", "new")
    found = only(finding)
    assert found.metric == "attack_success_rate"
    assert found.test == "mcnemar_exact"
    assert found.discordant == (12, 4)
    assert found.difference == pytest.approx((4 - 12) / 40)
    assert found.p_value == found.p_adjusted == pytest.approx(float(mcnemar_exact(12, 4)))
    assert found.interval[0] < found.difference < found.interval[1]
    assert (found.pairs, found.unpaired, found.clusters) == (40, 0, 40)
    assert (found.baseline.events, found.candidate.events) == (15, 7)
    assert 0 < found.minimum_detectable < 1
    said = finding.sentence()
    assert "attack_success_rate, new against old (judge judge): -20.0 points [" in said
    # The exact test gives away a little of its level, and the score interval does not.
    assert found.p_value > 0.05
    assert found.interval[1] < 0
    assert "p = 0.077, undecided: test and interval disagree, too few discordant pairs; " in said
    assert_sound(finding)


def test_behaviours_with_several_attacks_flip_signs_together():
    old = labels("cccrrr" * 6)
    new = labels("ccrrrr" * 6)
    behaviours = [f"b{index // 6}" for index in range(36)] * 2
    data = table({"old": old, "new": new}, behaviour=behaviours)
    found = only(compare_rates(data, "old", "new"))
    assert (found.test, found.clusters, found.pairs) == ("sign_flip", 6, 36)
    # Six clusters that all moved the same way: 2 of the 64 sign patterns are as extreme.
    assert found.p_value == pytest.approx(2 / 64)
    naive = only(compare_rates(data, "old", "new", cluster="item"))
    assert (naive.test, naive.clusters) == ("mcnemar_exact", 36)
    assert naive.difference == found.difference
    means = np.full(6, -1 / 6)
    assert found.p_value == sign_flip_test(means, np.random.default_rng(0)).p_value


def clustered(pattern, behaviours):
    """Both targets on three items of each behaviour; the old one never complied."""
    return table(
        {"old": labels("r" * len(pattern)), "new": labels(pattern)},
        behaviour=[f"b{index // 3}" for index in range(3 * behaviours)] * 2,
    )


def test_few_clusters_give_a_test_an_interval_and_a_resolution_that_agree(assert_sound):
    finding = compare_rates(clustered("crr" * 8 + "rrr" * 4, 12), "old", "new")
    found = only(finding)
    assert found.p_value == pytest.approx(2 / 2**8)
    assert 0 < found.interval[0] < found.difference == pytest.approx(8 / 36)
    assert found.conclusion == "differs"
    # The sign-flip test finds 25 points three times in four here, and 30 six times in seven.
    assert 0.25 < found.minimum_detectable < 0.3
    assert_sound(finding)


def test_where_test_and_interval_disagree_the_comparison_is_undecided(assert_sound):
    finding = compare_rates(clustered("crr" * 6 + "rrr" * 6, 12), "old", "new")
    found = only(finding)
    assert found.p_value == pytest.approx(2 / 2**6)
    assert found.interval[0] < 0
    assert found.conclusion == "undecided"
    said = finding.sentence()
    assert "undecided: test and interval disagree, too few clusters" in said
    assert "differs" not in said
    assert_sound(finding)


def test_a_difference_lost_to_the_adjustment_is_not_shown():
    data = table(
        {"old": labels("c" * 6 + "r" * 60), "new": labels("r" * 66)},
        category=(["x"] * 22 + ["y"] * 22 + ["z"] * 22) * 2,
    )
    found = compare_rates(data, "old", "new", by="category").comparisons[0]
    assert found.p_value < 0.05 < found.p_adjusted
    assert found.conclusion == "no_difference_shown"


def test_repeats_of_an_item_are_shares_and_flip_signs():
    data = table(
        {"old": labels("ccrr"), "new": labels("crrr")},
        item=["1", "1", "2", "2"] * 2,
        epoch=[1, 2] * 4,
    )
    found = only(compare_rates(data, "old", "new"))
    assert (found.test, found.pairs) == ("sign_flip", 2)
    assert found.discordant == (0.5, 0.0)
    assert found.difference == pytest.approx(-0.25)


def test_a_release_compared_with_itself_does_not_differ(assert_sound):
    data = table({"old": labels("ccrrrrrrrr"), "new": labels("ccrrrrrrrr")})
    finding = compare_rates(data, "old", "new")
    found = only(finding)
    assert (found.difference, found.p_value, found.discordant) == (0, 1, (0, 0))
    assert found.interval[0] <= 0 <= found.interval[1]
    assert_sound(finding)


def test_the_sides_may_be_exchanged():
    data = table({"a": labels("ccccccrrrr"), "b": labels("ccrrrrrrrr")})
    one, two = only(compare_rates(data, "a", "b")), only(compare_rates(data, "b", "a"))
    assert one.difference == -two.difference
    assert one.discordant == two.discordant[::-1]
    assert one.p_value == two.p_value
    assert one.interval == pytest.approx((-two.interval[1], -two.interval[0]))


def test_safety_and_usefulness_are_compared_side_by_side():
    data = table(
        {"old": labels("crrccc"), "new": labels("rrrccr")},
        intent=(["harmful"] * 3 + ["benign"] * 3) * 2,
    )
    found = {
        entry.metric: entry.difference for entry in compare_rates(data, "old", "new").comparisons
    }
    assert found == {
        "attack_success_rate": pytest.approx(-1 / 3),
        "help_rate": pytest.approx(-1 / 3),
    }


def test_p_values_are_adjusted_over_the_groups_of_one_metric(assert_sound):
    sides = {
        "old": labels("c" * 8 + "r" * 8 + "c" * 5 + "r" * 11),
        "new": labels("r" * 16 + "r" * 16),
    }
    category = (["x"] * 16 + ["y"] * 16) * 2
    finding = compare_rates(table(sides, category=category), "old", "new", by="category")
    raw = [entry.p_value for entry in finding.comparisons]
    assert raw == pytest.approx([float(mcnemar_exact(8, 0)), float(mcnemar_exact(5, 0))])
    assert [entry.p_adjusted for entry in finding.comparisons] == pytest.approx(holm(raw).tolist())
    assert [dict(entry.by) for entry in finding.comparisons] == [
        {"category": "x"},
        {"category": "y"},
    ]
    assert_sound(finding)


def test_a_group_without_a_value_is_compared_too():
    data = table({"old": labels("ccr"), "new": labels("crr")}, category=["x", None, None] * 2)
    found = {
        entry.by["category"]: (entry.pairs, entry.difference)
        for entry in compare_rates(data, "old", "new", by="category").comparisons
    }
    assert found == {"unstated": (2, -0.5), "x": (1, 0.0)}


# -- what does not pair ----------------------------------------------------------------------------


def test_items_judged_on_one_side_only_are_counted_and_left_out(assert_sound):
    data = table({"old": labels("ccr.rr"), "new": labels("c.rrr.")})
    finding = compare_rates(data, "old", "new")
    found = only(finding)
    assert (found.pairs, found.unpaired) == (3, 3)
    assert found.difference == 0
    # The claims of the sides keep all that was judged.
    assert (found.baseline.trials, found.candidate.trials) == (5, 4)
    assert_sound(finding)


def test_without_an_item_judged_on_both_sides_the_difference_is_unknown(assert_sound):
    finding = compare_rates(table({"old": labels("c."), "new": labels(".r")}), "old", "new")
    found = only(finding)
    assert (found.difference, found.test, found.p_value, found.pairs) == (None, None, None, 0)
    assert found.why["difference"] == "no item was judged on both sides"
    assert "unknown (no item was judged on both sides)" in finding.sentence()
    assert_sound(finding)


def test_different_items_are_refused_and_compared_on_those_they_share_if_asked():
    data = table({"old": labels("ccrr"), "new": labels("crr")})
    with pytest.raises(ScopeMismatchError) as caught:
        compare_rates(data, "old", "new")
    assert set(caught.value.parts) == {"items"}
    assert re.search(
        r"items: 4 items \(digest [0-9a-f]{8}\.\.\.\) against 3 items \(", str(caught.value)
    )
    finding = compare_rates(data, "old", "new", shared_items=True)
    assert only(finding).pairs == 3
    assert finding.warnings[0] == (
        "Compared on 3 shared items; 1 of the baseline and 0 of the candidate are left out."
    )


def test_a_group_or_metric_that_one_side_lacks_is_named():
    data = table(
        {"old": labels("ccc"), "new": labels("cc")},
        intent=["harmful", "benign", "harmful", "harmful", "benign"],
        category=["x", "x", "y", "x", "x"],
    )
    finding = compare_rates(data, "old", "new", by="category")
    assert [(entry.metric, entry.by["category"]) for entry in finding.comparisons] == [
        ("attack_success_rate", "x"),
        ("help_rate", "x"),
    ]
    assert finding.warnings == (
        "Only the baseline has, so not compared: attack_success_rate (judge judge, y).",
    )


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("attack_set", {"attack": ["pair", "pair", "gcg", "gcg"]}),
        ("epochs", {"item": ["0", "1", "0", "0"], "epoch": [1, 1, 1, 2]}),
        ("language", {"language": ["en", "en", "de", "de"]}),
    ],
)
def test_a_scope_that_differs_is_refused_by_the_name_of_the_part(part, values):
    data = table({"old": labels("cr"), "new": labels("cr")}, run=["r", "r", "s", "s"], **values)
    with pytest.raises(ScopeMismatchError) as caught:
        compare_rates(data, "old", "new", shared_items="item" in values)
    assert part in caught.value.parts
    assert f"{part}: " in str(caught.value)


def test_a_class_order_that_differs_is_refused():
    old = as_evidence(table({"m": labels("cr")}))
    new = as_evidence(table({"n": labels("cr")}), {"classes": ["refuse", "comply"]})
    with pytest.raises(ScopeMismatchError, match="success_digest"):
        compare_rates(None, old, new)


# -- the sides -------------------------------------------------------------------------------------


def test_a_side_may_be_a_run_or_evidence_of_its_own():
    data = table({"m": labels("ccrr") * 2}, item=list("1234") * 2, run=["r"] * 4 + ["s"] * 4)
    found = only(compare_rates(data, "run:r", "run:s"))
    assert found.difference == 0
    assert (found.baseline_name, found.candidate_name) == ("m (run r)", "m (run s)")
    assert "attack_success_rate, m (run s) against m (run r) (" in found.sentence()
    evidence = as_evidence(data)
    sides = select_side(evidence, "run:r"), select_side(evidence, "run:s")
    assert only(compare_rates(None, *sides)).pairs == 4


def test_sides_of_one_target_and_run_are_named_by_their_source():
    sides = [
        replace(as_evidence(table({"m": labels("ccrr")}, run="r")), sources=(name,))
        for name in ("old.csv", "new.csv")
    ]
    found = only(compare_rates(None, *sides))
    assert (found.baseline_name, found.candidate_name) == ("m (old.csv)", "m (new.csv)")
    same = only(compare_rates(None, sides[0], sides[0]))
    assert (same.baseline_name, same.candidate_name) == ("m (baseline)", "m (candidate)")


def test_a_side_that_is_not_there_is_refused_with_those_that_are():
    data = table({"old": labels("cr"), "new": labels("cr")})
    with pytest.raises(InputError, match="there is no target 'newer'; the targets are new, old"):
        compare_rates(data, "old", "newer")
    with pytest.raises(InputError, match="no row has run=x"):
        compare_rates(data, "run:x", "new")
    with pytest.raises(
        InputError, match=r"the baseline holds 2 targets \(new, old\).*--filter target=NAME"
    ):
        compare_rates(data, "run:table", "new")


def test_several_benchmarks_are_refused():
    data = table(
        {"old": labels("cr"), "new": labels("cr")},
        benchmark=["a", "b"] * 2,
    )
    with pytest.raises(InputError, match="has several benchmarks; compare within one"):
        compare_rates(data, "old", "new")


def test_a_judge_that_one_side_lacks_is_named():
    data = table(
        {"old": labels("crcr"), "new": labels("cr")},
        item=["1", "2"] * 3,
        judge=["j", "j", "k", "k", "j", "j"],
    )
    finding = compare_rates(data, "old", "new")
    assert [entry.judge for entry in finding.comparisons] == ["j"]
    assert "attack_success_rate (judge k)" in finding.warnings[0]
    with pytest.raises(ScopeMismatchError, match="differ in judge: k against j") as caught:
        compare_rates(
            None,
            select_side(data, "old").filter(judge="k"),
            select_side(data, "new"),
        )
    assert caught.value.parts == {"judge": ("k", "j")}


def test_sides_without_a_common_rate_are_refused():
    harmful, benign = table({"old": labels("cr")}), table({"new": labels("cr")}, intent="benign")
    with pytest.raises(InputError, match="no rate in common; compare the same benchmark and judge"):
        compare_rates(None, as_evidence(harmful), as_evidence(benign))


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"level": 0}, "level 0 is not between 0 and 1"),
        ({"power": 1}, "power 1 is not between 0 and 1"),
        ({"permutations": 10}, "10 permutations are too few; use 1,000 or more"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        CompareSettings(**options)


def test_the_same_seed_gives_the_same_answer():
    rng = np.random.default_rng(3)
    sides = {name: rng.choice(["comply", "refuse"], 200).tolist() for name in ("old", "new")}
    data = table(sides, behaviour=[str(index // 5) for index in range(200)] * 2)
    first, again = (compare_rates(data, "old", "new", seed=9) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert only(first).test == "sign_flip"


def test_more_permutations_resolve_smaller_p_values():
    sides = {"old": labels("cc" * 100), "new": labels("rr" * 100)}
    data = table(sides, behaviour=[str(index // 2) for index in range(200)] * 2)
    found = {
        number: only(compare_rates(data, "old", "new", permutations=number)).p_value
        for number in (100, 5_000)
    }
    # No flip is as extreme, and the observed one is counted among them.
    assert found == pytest.approx({100: 1 / 101, 5_000: 1 / 5_001})


def test_a_difference_that_is_there_is_found():
    rng = np.random.default_rng(5)
    old, new = rng.random((2, 400))
    sides = {
        "old": np.where(old < 0.3, "comply", "refuse").tolist(),
        "new": np.where(new < 0.1, "comply", "refuse").tolist(),
    }
    found = only(compare_rates(table(sides), "old", "new"))
    assert found.interval[0] < -0.2 < found.interval[1] < 0
    assert found.p_value < 1e-6
    assert found.minimum_detectable < 0.2
    assert "differs" in found.sentence()


# -- judges of one name ----------------------------------------------------------------------------


def judged_by(*models):
    """Sides, each of its own evidence, by judges of one name; several models where a tuple."""
    sides = []
    for target, model in zip(("old", "new"), models, strict=True):
        stated = model if isinstance(model, tuple) else (model,)
        identities = tuple(JudgeIdentity("judge", model=name) for name in stated if name)
        evidence = as_evidence(table({target: labels("ccrr")}))
        sides.append(replace(evidence, identities=identities))
    return sides


def test_two_sides_that_different_judges_of_one_name_judged_are_refused():
    with pytest.raises(ScopeMismatchError) as caught:
        compare_rates(None, *judged_by("m1", "m2"))
    assert caught.value.parts == {"model of judge 'judge'": ("m1", "m2")}


@pytest.mark.parametrize("success", ["comply/majority", "comply/unanimous"])
def test_a_swapped_judge_of_a_panel_is_refused(success):
    with pytest.raises(ScopeMismatchError, match="model of judge 'judge': m1 against m2"):
        compare_rates(None, *judged_by("m1", "m2"), success=success)


@pytest.mark.parametrize("models", [("m1", "m1"), (None, None)])
def test_two_sides_that_one_judge_judged_are_compared_without_a_word(models):
    assert compare_rates(None, *judged_by(*models)).warnings == ()


@pytest.mark.parametrize("models", [("m1", ("m1", "m2")), (("m1", "m2"),) * 2, ("m1", None)])
def test_where_it_is_not_known_who_judged_a_side_a_warning_says_so(models):
    (warning,) = compare_rates(None, *judged_by(*models)).warnings
    assert warning.startswith("Whether one and the same judge 'judge' judged both sides")
