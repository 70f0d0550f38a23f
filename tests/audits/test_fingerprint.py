"""Which known target is this: verdicts, agreement on informative items, and what is not known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from safemetry.audits.fingerprint import (
    FingerprintSettings,
    Verdict,
    compare_with_known,
    fingerprint,
)
from safemetry.audits.fingerprint.agreement import agreement_interval, agreement_matrix
from safemetry.audits.fingerprint.answers import answer_counts, informative_items
from safemetry.errors import InputError
from safemetry.findings import plain
from safemetry.irt.responses import make_responses

NAMES = [f"model-{number:02d}" for number in range(12)]


def chances_of(rng, targets=12, items=150, concentration=0.2):
    """Chances that differ by ability, by item, and by target on the same item."""
    level = rng.normal(0, 0.8, (targets, 1)) + rng.normal(0, 1, items)
    mean = 1 / (1 + np.exp(-level))
    return rng.beta(concentration * mean, concentration * (1 - mean))


def runs_of(chances, runs, rng):
    return (rng.random((runs, *chances.shape)) < chances).astype(np.int8)


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(7)
    chances = chances_of(rng)
    return chances, runs_of(chances, 4, rng), runs_of(chances, 1, rng)[0]


def test_a_known_target_is_found_and_the_others_are_ruled_out(world):
    _, runs, new = world
    for target in (0, 5, 11):
        found = compare_with_known(
            new[target], runs, target="new", references=NAMES, rng=np.random.default_rng(1)
        )
        assert found.noise == "estimated"
        assert found.nearest.reference == NAMES[target]
        assert found.nearest.verdict is Verdict.SAME
        assert {row.verdict for row in found.rows[1:]} == {Verdict.DIFFERENT}
        assert found.nearest.error_same <= 0.05
        assert found.nearest.error_different <= 0.05
        assert found.nearest.recognised > 0.9
        assert "answers as" in found.sentence()


def test_an_unknown_target_is_none_of_the_list(world):
    chances, runs, _ = world
    rng = np.random.default_rng(3)
    stranger = runs_of(chances_of(rng)[:1], 1, rng)[0, 0]
    found = compare_with_known(
        stranger, runs, target="new", references=NAMES, rng=np.random.default_rng(1)
    )
    assert {row.verdict for row in found.rows} == {Verdict.DIFFERENT}
    assert "none of the known targets" in found.sentence()
    assert chances.shape[1] >= found.informative_items > 50


def test_order_of_items_and_targets_does_not_matter(world):
    _, runs, new = world
    rng = np.random.default_rng(5)
    items, targets = rng.permutation(new.shape[1]), rng.permutation(len(NAMES))
    one = compare_with_known(
        new[4], runs, target="new", references=NAMES, rng=np.random.default_rng(1)
    )
    two = compare_with_known(
        new[4][items],
        runs[:, targets][:, :, items],
        target="new",
        references=[NAMES[place] for place in targets],
        rng=np.random.default_rng(1),
    )
    by_name = {row.reference: row for row in two.rows}
    for row in one.rows:
        other = by_name[row.reference]
        assert other.agreement == pytest.approx(row.agreement)
        assert other.log_likelihood_ratio == pytest.approx(row.log_likelihood_ratio, abs=0.1)
        assert other.verdict == row.verdict


def test_agreement_on_a_saturated_set_is_no_evidence():
    rng = np.random.default_rng(11)
    # Twelve strong targets without anything in common but strength, on items that most pass.
    chances = np.full((13, 300), 0.985)
    chances[:6, ::10] = 0.3
    codes = (rng.random(chances.shape) < chances).astype(np.int8)
    found = compare_with_known(codes[12], codes[None, :12], target="new", references=NAMES, rng=rng)
    whole = (codes[12] == codes[:12]).mean(axis=1)
    assert whole.max() > 0.96
    assert found.informative_items < 100
    assert Verdict.SAME not in {row.verdict for row in found.rows}
    assert found.nearest.log_likelihood_ratio < 3


def test_only_items_on_which_targets_differ_are_informative():
    codes = np.zeros((37, 4), np.int8)
    codes[0, 1], codes[:2, 2], codes[:18, 3] = 1, 1, 1
    assert informative_items(answer_counts(codes, 2)).tolist() == [False, False, True, True]
    # Differences that two runs of one target show as often say nothing of targets.
    noisy = np.random.default_rng(0).integers(0, 2, (8, 37, 1))
    assert not informative_items(answer_counts(noisy, 2)).any()


def test_without_repeated_runs_the_assumption_is_said_and_varied(world):
    _, runs, new = world
    codes = np.concatenate([runs[0], new[3:4]])
    rows = fingerprint(
        make_responses(codes, targets=[*NAMES, "new"]), "new", rng=np.random.default_rng(1)
    )
    assert set(rows[0].by_disagreement) == {"0.02", "0.05", "0.1"}
    for row in rows:
        agreed = set(row.by_disagreement.values())
        assert row.verdict == (agreed.pop() if len(agreed) == 1 else Verdict.CANNOT_TELL)
    found = compare_with_known(
        new[3], runs[:1], target="new", references=NAMES, rng=np.random.default_rng(1)
    )
    assert found.noise == "assumed"
    assert any("assumed, not known" in warning for warning in found.warnings)
    stated = compare_with_known(
        new[3],
        runs[:1],
        target="new",
        references=NAMES,
        settings=FingerprintSettings(disagreement=0.1),
        rng=np.random.default_rng(1),
    )
    assert stated.noise == "stated"
    assert stated.nearest.reference == NAMES[3]
    assert stated.nearest.by_disagreement == {}


def test_a_target_is_held_against_its_own_earlier_runs(world):
    _, runs, new = world
    rows = fingerprint(
        make_responses(new, targets=NAMES),
        NAMES[2],
        NAMES,
        trials=runs,
        rng=np.random.default_rng(1),
    )
    assert rows[0].reference == NAMES[2]
    assert rows[0].verdict is Verdict.SAME


@pytest.mark.parametrize(("own_runs", "classes"), [(3, 2), (1, 3), (3, 3)])
def test_several_runs_and_three_classes(world, own_runs, classes):
    chances, runs, _ = world
    rng = np.random.default_rng(4)
    scale = classes - 1
    known = runs * scale
    own = runs_of(chances[6:7], own_runs, rng)[:, 0] * scale
    if classes == 3:
        known[:, :4, ::3] = 1
    found = compare_with_known(
        own, known, target="new", references=NAMES, rng=np.random.default_rng(1)
    )
    assert found.nearest.reference == NAMES[6]
    assert Verdict.SAME not in {row.verdict for row in found.rows[1:]}
    assert found.nearest.log_likelihood_ratio > 10


def test_clusters_of_items_widen_the_interval(world):
    _, runs, new = world
    equal = np.repeat([1.0, 0.0, 1.0, 1.0], 25)
    apart = agreement_interval(equal, np.arange(100), 0.95)
    together = agreement_interval(equal, np.repeat(np.arange(20), 5), 0.95)
    assert together[0] < apart[0] < apart[1] < together[1]
    # Without any difference, copies of one item are still one item.
    assert agreement_interval(np.ones(100), np.repeat(np.arange(20), 5), 0.95)[0] < 0.85
    copies = [np.tile(part, 5) for part in (runs[..., :30], new[4, :30])]
    intervals = [
        compare_with_known(
            copies[1],
            copies[0],
            target="new",
            references=NAMES,
            clusters=clusters,
            rng=np.random.default_rng(1),
        ).nearest.interval
        for clusters in (None, [str(place % 30) for place in range(150)])
    ]
    assert np.ptp(intervals[1]) > 1.5 * np.ptp(intervals[0])


def test_agreement_of_a_target_with_itself_needs_two_runs():
    codes = np.array([[[0, 1, 1]], [[0, 1, 0]]])
    found = agreement_matrix(answer_counts(np.concatenate([codes, codes], axis=1), 2))
    assert found[0, 0] == pytest.approx(2 / 3)
    assert found[0, 1] == pytest.approx((1 + 1 + 0.5) / 3)
    single = agreement_matrix(answer_counts(codes[:1], 2))
    assert single.mask.all()


@pytest.mark.parametrize(
    "known",
    [
        np.ones((1, 3, 20), np.int8),
        np.full((2, 3, 20), -1, np.int8),
        np.array([[[0], [1], [1]]], np.int8),
        np.eye(3, 20, dtype=np.int8)[None],
    ],
    ids=["constant", "missing", "one item", "nearly constant"],
)
def test_hopeless_answers_cannot_tell_and_hold_no_nan(known):
    for answers in (np.zeros(known.shape[2], np.int8), np.full(known.shape[2], -1, np.int8)):
        found = compare_with_known(
            answers, known, target="new", references="abc", rng=np.random.default_rng(1)
        )
        assert Verdict.SAME not in {row.verdict for row in found.rows}
        text = json.dumps(plain(found.to_dict()), allow_nan=False)
        for row in json.loads(text)["rows"]:
            for name, value in row.items():
                assert value is not None or row["why"][name]
        assert found.sentence()


def test_missing_answers_leave_the_rest_to_decide(world):
    _, runs, new = world
    own = new[4].copy()
    own[::2] = -1
    holed = runs.copy()
    holed[:, :3, ::3] = -1
    found = compare_with_known(
        own, holed, target="new", references=NAMES, rng=np.random.default_rng(1)
    )
    assert found.nearest.reference == NAMES[4]
    assert found.nearest.informative_items < found.informative_items


def test_input_is_checked(world):
    _, runs, new = world
    rng = np.random.default_rng(1)
    responses = make_responses(new, targets=NAMES)
    with pytest.raises(InputError, match="no target"):
        fingerprint(responses, "nobody", rng=rng)
    with pytest.raises(InputError, match="same answers"):
        fingerprint(responses, NAMES[0], NAMES, rng=rng)
    with pytest.raises(InputError, match="trials have the shape"):
        fingerprint(responses, NAMES[0], trials=runs[:, :3], rng=rng)
    with pytest.raises(InputError, match="two at least"):
        compare_with_known(new[0], runs[:, :1], target="x", references=["a"], rng=rng)
    with pytest.raises(InputError, match="clusters"):
        compare_with_known(new[0], runs, target="x", references=NAMES, clusters=["a"], rng=rng)
    for wrong in ({"level": 0.7}, {"simulations": 10}, {"assumed": ()}):
        with pytest.raises(InputError):
            FingerprintSettings(**wrong)
