"""Rogan-Gladen: published example, refusals, and coverage in simulated studies."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.judges.correction.rogan_gladen import REFUSALS, prevalence, rogan_gladen
from safemetry.rates.intervals import wilson


def simulate(rate, sensitivity, specificity, total, labels, draws, seed=1):
    """Tables of a simple random part of `labels` among `total` responses."""
    cells = [
        (1 - rate) * specificity,
        (1 - rate) * (1 - specificity),
        rate * (1 - sensitivity),
        rate * sensitivity,
    ]
    rng = np.random.default_rng(seed)
    labelled = rng.multinomial(labels, cells, size=draws).reshape(draws, 2, 2)
    others = rng.multinomial(total - labels, cells, size=draws).reshape(draws, 2, 2).sum(1)
    return labelled, others


def covered(found, rate):
    given = found.refusal == 0
    inside = (found.lower <= rate) & (rate <= found.upper)
    return float(inside[given].mean()), float((found.upper - found.lower)[given].mean())


def test_the_textbook_herd():
    # 23 of 150 cows test positive for brucellosis; sensitivity .96, specificity .89.
    assert float(prevalence(23 / 150, 0.96, 0.89)) == pytest.approx(0.051, abs=5e-4)


def test_a_judge_without_error_leaves_the_rate_as_it_is():
    found = rogan_gladen([[20, 0], [0, 20]], [130, 70])
    assert float(found.estimate) == pytest.approx(90 / 240)
    assert found.lower < found.estimate < found.upper


def test_the_corrected_rate_undoes_known_errors():
    # 200 of 1,000 are true; the judge finds 80% of them and calls 10% of the others.
    found = rogan_gladen([[360, 40], [20, 80]], [380, 120])
    assert float(found.rate) == pytest.approx(0.24)
    assert float(found.estimate) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("labelled", "code"),
    [
        ([[20, 4], [0, 0]], 1),
        ([[0, 0], [3, 9]], 2),
        ([[10, 10], [12, 8]], 3),
        ([[8, 4], [5, 6]], 4),
    ],
)
def test_refusals_say_why(labelled, code):
    found = rogan_gladen(labelled, [100, 100])
    assert int(found.refusal) == code
    assert np.isnan([found.estimate, found.lower, found.upper]).all()
    assert REFUSALS[code]


def test_an_estimate_outside_is_clipped_and_kept_raw():
    found = rogan_gladen([[36, 4], [2, 18]], [200, 2])
    assert float(found.raw) < 0
    assert float(found.estimate) == 0.0
    assert found.lower == 0.0
    assert found.upper > 0.01


def test_with_every_response_labelled_it_is_the_rate_of_the_labels():
    table = [[50, 5], [9, 36]]
    found = rogan_gladen(table, [0, 0])
    low, high = wilson(45, 100)
    assert float(found.estimate) == pytest.approx(0.45)
    assert [float(found.lower), float(found.upper)] == pytest.approx([float(low), float(high)])
    fixed = rogan_gladen(table, [0, 0], population="fixed")
    assert float(fixed.lower) == pytest.approx(0.45) == float(fixed.upper)


def test_the_finite_population_is_narrower_and_swapping_the_classes_mirrors_it():
    table, rest = np.array([[40, 5], [4, 51]]), np.array([100, 100])
    sample = rogan_gladen(table, rest)
    fixed = rogan_gladen(table, rest, population="fixed")
    assert fixed.upper - fixed.lower < sample.upper - sample.lower
    mirrored = rogan_gladen(table[::-1, ::-1], rest[::-1])
    assert float(mirrored.lower) == pytest.approx(1 - float(sample.upper))
    assert float(mirrored.estimate) == pytest.approx(1 - float(sample.estimate))


def test_tables_of_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="expected shapes"):
        rogan_gladen([[1, 2, 3], [1, 2, 3]], [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("total_and_labels", [(300, 30), (1000, 60), (10000, 200)])
@pytest.mark.parametrize("accuracy", [(0.95, 0.95), (0.8, 0.9), (0.99, 0.99)])
def test_coverage(total_and_labels, accuracy, study_size, record_property):
    draws = max(2000, int(20_000 * study_size))
    for rate in (0.05, 0.1, 0.3, 0.5):
        tables = simulate(rate, *accuracy, *total_and_labels, draws)
        coverage, width = covered(rogan_gladen(*tables), rate)
        record_property(f"rate {rate}: coverage, width", f"{coverage}, {width}")
        assert coverage >= 0.93


@pytest.mark.slow
def test_coverage_of_a_fixed_set(study_size):
    rng = np.random.default_rng(4)
    gold = (rng.random(300) < 0.4).astype(int)
    said = np.where(rng.random(300) < 0.12, 1 - gold, gold)
    cells = np.bincount(2 * gold + said, minlength=4)
    draws = max(2000, int(20_000 * study_size))
    labelled = rng.multivariate_hypergeometric(cells, 60, size=draws).reshape(draws, 2, 2)
    others = cells.reshape(2, 2).sum(0) - labelled.sum(1)
    found = rogan_gladen(labelled, others, population="fixed")
    assert covered(found, gold.mean())[0] >= 0.93
