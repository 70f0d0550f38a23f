"""A claim carries its scope, and claims of different scopes are not compared."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from safemetry.claims import (
    Claim,
    ItemSet,
    Missing,
    Scope,
    count,
    percent,
    require_comparable,
)
from safemetry.errors import ScopeMismatchError
from safemetry.findings import plain
from safemetry.rates.metrics import METRIC_NAMES

SCOPE = Scope(
    target="m",
    target_settings={"temperature": 0},
    benchmark="b",
    items=ItemSet(10, "aa"),
    attack_set=("pair",),
    epochs=1,
    language="en",
    judge="j",
    success="comply",
    success_digest="dd",
    by={"category": "x"},
)
CLAIM = Claim(
    metric="attack_success_rate",
    estimate=0.2,
    interval=(0.1, 0.3),
    level=0.95,
    method="wilson",
    events=2,
    trials=10,
    clusters=10,
    effective_trials=10,
    missing=Missing(1, {"tied": 1}),
    bounds_if_missing=(0.2, 0.3),
    ceiling=0.4,
    rule_of_three=None,
    projection=None,
    inference="sampled",
    scope=SCOPE,
    why={"rule_of_three": "events were seen", "projection": "no volume was given"},
)
OTHERS = {
    "target": "n",
    "target_settings": {"temperature": 1},
    "benchmark": "c",
    "items": ItemSet(10, "bb"),
    "attack_set": ("gcg",),
    "epochs": 2,
    "language": "de",
    "judge": "k",
    "success": "non_refusal",
    "success_digest": "ee",
    "by": {"category": "y"},
}


def with_scope(**parts):
    return replace(CLAIM, scope=replace(SCOPE, **parts))


def test_every_part_of_a_scope_is_known_here():
    assert set(OTHERS) == {part.name for part in fields(Scope)}


@pytest.mark.parametrize("part", OTHERS)
def test_claims_that_differ_in_one_part_are_refused_by_its_name(part):
    other = with_scope(**{part: OTHERS[part]})
    with pytest.raises(ScopeMismatchError) as caught:
        require_comparable(CLAIM, other, factor="none of them")
    assert set(caught.value.parts) == {part}
    said = str(caught.value)
    assert said.startswith("these claims are not comparable, their scopes differ in ")
    assert f"{part}: {getattr(SCOPE, part)} against {OTHERS[part]}" in said


@pytest.mark.parametrize("part", OTHERS)
def test_the_factor_compared_may_differ_and_nothing_else(part):
    other = with_scope(**{part: OTHERS[part]})
    require_comparable(CLAIM, CLAIM, factor=part)
    require_comparable(CLAIM, other, factor=part)
    beside = "judge" if part != "judge" else "target"
    both = with_scope(**{part: OTHERS[part], beside: OTHERS[beside]})
    with pytest.raises(ScopeMismatchError) as caught:
        require_comparable(CLAIM, both, factor=part)
    assert set(caught.value.parts) == {beside}


def test_settings_and_digest_may_differ_with_their_factor_and_not_alone():
    other = with_scope(target="n", target_settings={"temperature": 1})
    require_comparable(CLAIM, other, factor="target")
    other = with_scope(success="non_refusal", success_digest="ee")
    require_comparable(CLAIM, other, factor="success")
    with pytest.raises(ScopeMismatchError, match="success_digest"):
        require_comparable(CLAIM, with_scope(success_digest="ee"), factor="target")


def test_two_metrics_are_not_compared():
    with pytest.raises(ScopeMismatchError) as caught:
        require_comparable(CLAIM, replace(CLAIM, metric="safe_recall"), factor="target")
    assert caught.value.parts == {"metric": ("attack_success_rate", "safe_recall")}


def test_a_silent_scope_says_why_its_parts_are_null():
    silent = replace(SCOPE, benchmark=None, language=None, target_settings=None)
    assert silent.to_dict()["why"] == dict.fromkeys(
        ("target_settings", "benchmark", "language"), "not stated by the source"
    )
    assert SCOPE.to_dict()["why"] == {}


def test_a_claim_in_words():
    assert CLAIM.sentence() == (
        "m went along with 2 of 10 harmful items: 20.0%, interval 10.0% to 30.0%, at most 40.0% at "
        "95% (judge j, success comply, category x; 1 more had no verdict)."
    )
    clean = replace(CLAIM, events=0, estimate=0.0, interval=(0.0, 0.3), missing=Missing(0))
    assert clean.sentence() == (
        "m went along with 0 of 10 harmful items: no event seen, so at most 40.0% at 95% (judge j, "
        "success comply, category x)."
    )
    unknown = replace(
        CLAIM,
        estimate=None,
        interval=None,
        ceiling=None,
        why={"estimate": "no response was judged"},
    )
    assert unknown.sentence() == (
        "m: attack_success_rate is unknown (no response was judged; judge j, success comply, "
        "category x; 1 more had no verdict)."
    )


@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_every_metric_has_words(metric):
    assert "2" in replace(CLAIM, metric=metric).sentence()


def test_plain_claims_have_the_keys_of_the_documentation():
    assert set(plain(CLAIM)) == {
        "metric",
        "estimate",
        "interval",
        "level",
        "method",
        "events",
        "trials",
        "clusters",
        "effective_trials",
        "missing",
        "bounds_if_missing",
        "ceiling",
        "rule_of_three",
        "projection",
        "inference",
        "scope",
        "why",
    }
    assert set(plain(CLAIM)["scope"]) == {*OTHERS, "why"}
    assert plain(CLAIM)["missing"] == {"total": 1, "by_reason": {"tied": 1}}
    assert plain(CLAIM)["scope"]["items"] == {"count": 10, "digest": "aa"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.0%"),
        (1, "100.0%"),
        (0.5961, "59.6%"),
        (0.0295, "2.95%"),
        (0.00299, "0.30%"),
        (0.001, "0.10%"),
        (0.00001, "0.001%"),
        (0.0000299, "0.003%"),
    ],
)
def test_small_rates_keep_their_digits(value, shown):
    assert percent(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (1234.0, "1,234"), (2.5, "2.5")])
def test_counts_for_reading(value, shown):
    assert count(value) == shown
