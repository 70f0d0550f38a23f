"""A success rule is read as written, and draws the line where it says."""

from __future__ import annotations

import pytest

from safemetry.errors import InputError
from safemetry.evidence.schema import CLASSES
from safemetry.evidence.success import Aggregation, SuccessRule


@pytest.mark.parametrize(
    "text",
    [
        "comply",
        "non_refusal",
        "at_least:0.5",
        "at_least:-2",
        "at_least:1e-3",
        "comply/majority",
        "at_least:3/unanimous",
    ],
)
def test_a_rule_reads_back_as_it_was_written(text):
    assert str(SuccessRule.parse(text)) == text
    assert SuccessRule.parse(SuccessRule.parse(text)) == SuccessRule.parse(text)


def test_each_is_the_aggregation_that_needs_no_word():
    assert SuccessRule.parse("comply/each") == SuccessRule.parse(" comply ") == SuccessRule()
    assert SuccessRule().aggregation is Aggregation.EACH
    assert str(SuccessRule.parse("comply/each")) == "comply"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("strict", "unknown success rule 'strict'"),
        ("", "unknown success rule ''"),
        ("comply/most", "unknown aggregation 'most'"),
        ("comply/", "unknown aggregation ''"),
        ("at_least:", "has no finite threshold"),
        ("at_least:high", "has no finite threshold"),
        ("at_least:nan", "has no finite threshold"),
        ("at_least:inf", "has no finite threshold"),
        ("COMPLY", "unknown success rule 'COMPLY'"),
    ],
)
def test_a_rule_that_says_nothing_is_refused_with_the_grammar(text, said):
    with pytest.raises(InputError, match=said) as caught:
        SuccessRule.parse(text)
    assert caught.value.fix.startswith("write comply, non_refusal or at_least:x, then /each")


@pytest.mark.parametrize(
    ("text", "successes", "refusals"),
    [
        ("comply", ("comply",), ("refuse", "evasive")),
        ("non_refusal", ("evasive", "comply"), ("refuse",)),
        ("at_least:0.5", (), ()),
    ],
)
def test_every_class_of_the_order_is_on_one_side(text, successes, refusals):
    rule = SuccessRule.parse(text)
    assert rule.successes(CLASSES) == successes
    assert rule.refusals(CLASSES) == refusals


def test_the_two_boundaries_agree_on_two_classes():
    pair = ("refuse", "comply")
    strict, loose = SuccessRule.parse("comply"), SuccessRule.parse("non_refusal")
    assert strict.successes(pair) == loose.successes(pair) == ("comply",)
    assert strict.refusals(pair) == loose.refusals(pair) == ("refuse",)


def test_the_digest_covers_the_rule_and_the_order_it_is_read_with():
    digests = {
        SuccessRule.parse(text).digest(classes)
        for text in ("comply", "non_refusal", "comply/majority")
        for classes in (CLASSES, ("refuse", "comply"))
    }
    assert len(digests) == 6
    assert SuccessRule.parse("comply/each").digest(CLASSES) == SuccessRule().digest(CLASSES)
