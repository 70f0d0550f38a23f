"""The smallest set of items that tells a roster apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from safemetry.audits.fingerprint import separating_items
from safemetry.errors import InputError

NAMES = ["a", "b", "c", "d", "e"]


def separate(codes, **choices):
    items = [f"item-{place}" for place in range(codes.shape[-1])]
    chosen = {"disagreement": 0.02, "rng": np.random.default_rng(1)} | choices
    return separating_items(
        np.atleast_3d(codes).reshape(-1, *codes.shape[-2:]), NAMES, items, **chosen
    )


@pytest.fixture(scope="module")
def codes():
    return np.random.default_rng(5).integers(0, 2, (5, 14)).astype(np.int8)


def differing(codes, items):
    return min(
        int((codes[i, items] != codes[k, items]).sum()) for i, k in combinations(range(5), 2)
    )


@pytest.mark.parametrize("wanted", [1, 2])
def test_the_exact_set_is_the_smallest_there_is(codes, wanted):
    found = separate(codes, criterion="differences", differences=wanted, method="exact")
    places = [int(item.removeprefix("item-")) for item in found.items]
    assert found.method == "exact"
    assert found.inseparable == ()
    assert differing(codes, places) >= wanted
    smaller = combinations(range(14), len(places) - 1)
    assert max(differing(codes, list(items)) for items in smaller) < wanted
    greedy = separate(codes, criterion="differences", differences=wanted, method="greedy")
    assert len(greedy.items) >= len(places)
    assert differing(codes, [int(item[5:]) for item in greedy.items]) >= wanted


def test_copies_cannot_be_separated_and_the_rest_can(codes):
    copied = codes.copy()
    copied[4] = copied[1]
    for criterion in ("error", "differences"):
        found = separate(copied, criterion=criterion, differences=1)
        assert found.inseparable == (("b", "e"),)
        assert len(found.pairs) == 9
        assert found.worst_error <= 0.08


def test_expected_errors_keep_the_stated_rate_with_rerun_noise():
    rng = np.random.default_rng(6)
    chances = rng.beta(0.1, 0.1, (5, 120))
    runs = (rng.random((4, 5, 120)) < chances).astype(np.int8)
    found = separate(runs, disagreement=None, error=0.05, method="greedy")
    assert found.inseparable == ()
    assert len(found.items) < 40
    assert found.worst_error <= 0.07
    places = [int(item[5:]) for item in found.items]
    # Fresh runs of the true targets are told apart as often as stated: by what was seen before.
    seen = runs[..., places].mean(axis=0)
    logs = np.log(np.stack([1 - seen, seen]).clip(0.02))
    fresh = rng.random((2000, 5, len(places))) < chances[:, places]
    merits = np.einsum("skj,ij->ski", fresh, logs[1]) + np.einsum("skj,ij->ski", ~fresh, logs[0])
    own = merits[:, np.arange(5), np.arange(5)]
    wrong = (merits > own[..., None]).mean(axis=0)
    assert wrong.max() <= 0.1
    assert wrong[~np.eye(5, dtype=bool)].mean() <= 0.05
    assert min(found.identified.values()) > 0.8


def test_a_stricter_error_takes_more_items():
    rng = np.random.default_rng(7)
    runs = (rng.random((4, 5, 120)) < rng.beta(0.2, 0.2, (5, 120))).astype(np.int8)
    sizes = [
        len(separate(runs, disagreement=None, error=error, method="greedy").items)
        for error in (0.2, 0.01)
    ]
    assert sizes[0] < sizes[1]


def test_a_roster_of_copies_has_no_set():
    found = separate(np.ones((5, 6), np.int8))
    assert found.items == found.pairs == ()
    assert len(found.inseparable) == 10
    assert found.worst_error is None
    assert set(found.why) == {"worst_error", "mean_error"}


def test_choices_are_checked(codes):
    for wrong in (
        {"criterion": "magic"},
        {"method": "magic"},
        {"error": 0.5},
        {"differences": 0},
        {"disagreement": None},
    ):
        with pytest.raises(InputError):
            separate(codes, **wrong)
    with pytest.raises(InputError, match="shape"):
        separating_items(codes[None], NAMES[:3], list("ab"), rng=np.random.default_rng(1))
