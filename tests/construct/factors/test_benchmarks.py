"""Scores and abilities on several benchmarks, with their reliability."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from safemetry.construct.factors.benchmarks import cronbach_alpha, score_benchmarks
from safemetry.construct.factors.settings import Measure
from safemetry.errors import InputError
from safemetry.irt.responses import make_responses


def simulated(targets: int = 60, items: int = 20, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Two traits that correlate .6, with a benchmark each."""
    rng = np.random.default_rng(seed)
    theta = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], targets)
    linear = 1.5 * np.repeat(theta, items, axis=1) + rng.normal(size=2 * items)
    return theta, (rng.random(linear.shape) < 1 / (1 + np.exp(-linear))).astype(int)


MEMBERS = ["first"] * 20 + ["second"] * 20


@pytest.mark.parametrize("measure", list(Measure))
def test_scores_follow_the_traits(measure: Measure):
    theta, codes = simulated()
    found = score_benchmarks(make_responses(codes), MEMBERS, measure)
    assert [row.name for row in found.benchmarks] == ["first", "second"]
    for trait in range(2):
        assert np.corrcoef(theta[:, trait], found.values[:, trait])[0, 1] > 0.9
        reliability = found.benchmarks[trait].reliability
        assert reliability is not None
        assert 0.8 < reliability < 0.95
    assert not found.left_out


def test_means_are_over_the_items_that_were_answered():
    codes = simulated()[1]
    codes[4, :5] = -1
    found = score_benchmarks(make_responses(codes), MEMBERS)
    assert found.values[4, 0] == pytest.approx(codes[4, 5:20].mean())
    assert found.values[5, 1] == pytest.approx(codes[5, 20:].mean())


@pytest.mark.parametrize("measure", list(Measure))
def test_a_target_that_answered_less_than_half_has_no_score(measure: Measure):
    codes = simulated()[1]
    codes[4, :11] = -1
    codes[7] = -1
    found = score_benchmarks(make_responses(codes), MEMBERS, measure)
    assert np.isnan(found.values).nonzero()[0].tolist() == [4, 7, 7]
    assert [row.targets for row in found.benchmarks] == [58, 59]


def test_a_benchmark_that_tells_nobody_apart_is_left_out_by_name():
    codes = simulated()[1]
    codes[:, 20:] = 1
    codes[0, 20] = 0
    found = score_benchmarks(make_responses(codes), MEMBERS)
    assert found.values.shape == (60, 1)
    assert found.left_out == {"second": "1 of its 20 items tell targets apart"}


def test_ordered_outcomes_have_scores_and_abilities():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=80)
    codes = np.clip(np.round(1 + theta[:, None] + rng.normal(size=(80, 12))), 0, 2).astype(int)
    for measure in Measure:
        found = score_benchmarks(make_responses(codes), ["one"] * 12, measure)
        assert np.corrcoef(theta, found.values[:, 0])[0, 1] > 0.9


def test_items_and_benchmarks_must_fit():
    with pytest.raises(InputError, match="1 benchmarks are given for 40 items"):
        score_benchmarks(make_responses(simulated()[1]), ["a"])


# --- reliability ---------------------------------------------------------------------------------


def test_alpha_agrees_with_psych(shared: Path):
    with (shared / "oracle" / "data_SAT12.csv").open() as lines:
        codes = np.array(list(csv.reader(lines))[1:], float)
    with (shared / "oracle" / "psych_SAT12_alpha_total.csv").open() as lines:
        expected = float(next(csv.DictReader(lines))["raw_alpha"])
    assert cronbach_alpha(codes) == pytest.approx(expected, abs=1e-12)


def test_alpha_with_missing_cells_is_near_that_of_the_whole():
    rng = np.random.default_rng(2)
    codes = simulated(400)[1][:, :20].astype(float)
    whole = cronbach_alpha(codes)
    codes[rng.random(codes.shape) < 0.1] = np.nan
    assert cronbach_alpha(codes) == pytest.approx(whole, abs=0.02)


@pytest.mark.parametrize(
    "outcomes", [[[0.0], [1.0]], [[0, np.nan], [np.nan, 1], [1, np.nan]], [[0, 1], [1, 0.0]]]
)
def test_alpha_is_unknown_where_nothing_covaries(outcomes: list[list[float]]):
    assert cronbach_alpha(np.array(outcomes)) is None
