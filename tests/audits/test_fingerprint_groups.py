"""Near-duplicates and derived models come out as the groups that their answers support."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from safemetry.audits.fingerprint import FingerprintSettings, group_known
from safemetry.audits.fingerprint.groups import Separation, target_groups
from safemetry.errors import InputError

R1 = "deepseek/deepseek-r1"
DERIVED = ("perplexity/r1-1776", "microsoft/mai-ds-r1-fp8", "tngtech/deepseek-r1t-chimera")
STEALTH = ("openrouter/quasar-alpha", "openrouter/optimus-alpha")


def speechmap(shared, judge):
    path = shared / "data" / "speechmap_criticism" / f"matrix_ordinal_{judge}.csv"
    with path.open() as file:
        rows = list(csv.reader(file))[1:]
    codes = [[-1 if cell == "" else int(int(float(cell)) == 2) for cell in row[1:]] for row in rows]
    return np.array(codes, np.int8)[None], tuple(row[0] for row in rows)


def noisy_copies(rng, noise=0.04):
    """Ten targets; the last three answer as the first does, up to noise."""
    codes = rng.integers(0, 2, (10, 120)).astype(np.int8)
    codes[7:] = codes[0]
    flipped = rng.random(codes.shape) < noise
    return np.where(flipped, 1 - codes, codes)[None]


def test_copies_are_a_group_and_nothing_else_is():
    names = [str(place) for place in range(10)]
    (found,) = group_known(
        noisy_copies(np.random.default_rng(1)),
        names,
        settings=FingerprintSettings(disagreement=0.1),
        rng=np.random.default_rng(2),
    )
    assert [group.targets for group in found.groups] == [("0", "7", "8", "9")]
    assert found.groups[0].alike
    assert found.groups[0].beside == ()
    assert set(found.relatives("0")) == {"7", "8", "9"}
    assert found.kinship.likeness[0, 7] > 0.5
    assert found.kinship.likeness[0, 1] < 0.3
    with pytest.raises(InputError):
        found.relatives("nobody")


def test_two_runs_of_one_target_are_rarely_told_apart(study_size):
    apart = []
    for seed in range(max(round(100 * study_size), 8)):
        rng = np.random.default_rng(seed)
        codes = rng.integers(0, 2, (20, 120)).astype(np.int8)
        codes[19] = codes[0]
        flipped = rng.random(codes.shape) < 0.05
        (found,) = group_known(
            np.where(flipped, 1 - codes, codes)[None],
            [str(place) for place in range(20)],
            settings=FingerprintSettings(disagreement=0.095, simulations=200),
            rng=rng,
        )
        apart.append(not found.separation.linked[0, 19])
        others = ~found.separation.linked
        assert others[np.triu_indices(19, 1)].all()
    assert np.mean(apart) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(apart))


def test_a_chain_whose_ends_are_told_apart_is_no_group():
    tails = np.array([[1, 0.5, 0.001], [0.5, 1, 0.3], [0.001, 0.3, 1]])
    groups = target_groups(("a", "b", "c"), Separation(tails, np.full((3, 3), 9.0), 0.05))
    assert [group.targets for group in groups] == [("a", "b")]
    assert groups[0].beside == ("c",)


def test_hopeless_rosters_are_refused():
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="no item"):
        group_known(np.ones((1, 4, 9), np.int8), "abcd", rng=rng)
    with pytest.raises(InputError, match="shape"):
        group_known(np.ones((4, 9), np.int8), "abcd", rng=rng)


@pytest.mark.parametrize("judge", ["grok41fast", "gpt4o"])
def test_derived_models_of_speechmap(shared, judge):
    codes, names = speechmap(shared, judge)
    low, middle, high = group_known(
        codes, names, settings=FingerprintSettings(simulations=200), rng=np.random.default_rng(1)
    )
    assert (low.disagreement, high.disagreement) == (0.02, 0.1)
    for reading in (low, middle, high):
        # R1 itself refuses much that its derived models answer: it is told apart from all others.
        linked = reading.separation.linked[names.index(R1)]
        assert linked.sum() == 1
    # The derived models answer alike, and beyond what their abilities explain.
    likeness = middle.kinship.likeness
    for one in DERIVED:
        order = np.argsort(-likeness[names.index(one)])
        near = [names[place] for place in order if names[place] != one]
        assert set(DERIVED) - {one} <= set(near[:3])
    assert np.sort(likeness[names.index(R1)])[-2] < 0.2
    agreed = middle.agreement[names.index(DERIVED[0]), names.index(DERIVED[2])]
    assert agreed > 0.9
    assert middle.agreement[names.index(R1), names.index(DERIVED[0])] < 0.6


@pytest.mark.parametrize("judge", ["grok41fast", "gpt4o"])
def test_stealth_endpoints_of_speechmap_are_at_the_ceiling(shared, judge):
    codes, names = speechmap(shared, judge)
    (found,) = group_known(
        codes,
        names,
        settings=FingerprintSettings(disagreement=0.1),
        rng=np.random.default_rng(1),
    )
    quasar, optimus = (names.index(name) for name in STEALTH)
    linked = found.separation.linked
    assert linked[quasar, names.index("openai/gpt-4.1-2025-04-14")]
    assert linked[optimus, names.index("openai/gpt-4.1-2025-04-14")]
    assert linked[optimus, names.index("x-ai/grok-2-1212")]
    # They agree on 98% of the informative items, which is hardly evidence: so do the others there.
    assert found.agreement[quasar, optimus] > 0.97
    assert found.separation.ratios[quasar, optimus] < 3
    assert found.agreement[optimus, names.index("x-ai/grok-2-1212")] > 0.97
