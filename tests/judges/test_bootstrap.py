"""Resampling whole clusters."""

from __future__ import annotations

import numpy as np
import pytest

from safemetry.judges.agreement import bootstrap
from safemetry.judges.agreement.agreement_figures import AgreementSettings, pair_figures
from safemetry.judges.agreement.bootstrap import (
    acceleration,
    distinct,
    interval,
    multinomial_weights,
    resample,
    resampling_units,
)
from safemetry.judges.agreement.coefficients import Scale
from safemetry.judges.agreement.figure import bootstrapped, without_disagreement
from safemetry.judges.agreement.tables import PanelSums, cohen, gwet, krippendorff

THREE = Scale(np.arange(3), np.arange(3))
SHARES = [0.6, 0.1, 0.3]


def two_judges(clusters, size, accuracy, rng, shares=SHARES):
    """Tables of clusters ``(G, 9)``; what is hard is shared by a cluster, and so is the class."""
    skill = rng.beta(accuracy * 4, (1 - accuracy) * 4, (clusters, 1))
    main = rng.choice(3, (clusters, 1), p=shares)
    shape = (clusters, size)
    truth = np.where(rng.random(shape) < 0.6, main, rng.choice(3, shape, p=shares))
    one, other = (
        np.where(rng.random(shape) < skill, truth, rng.choice(3, shape, p=shares)) for _ in range(2)
    )
    cell = np.arange(clusters)[:, None] * 9 + one * 3 + other
    return np.bincount(cell.ravel(), minlength=clusters * 9).reshape(clusters, 9).astype(float)


def coefficients(sums):
    tables = sums.reshape(-1, 3, 3)
    of_panel = PanelSums.of_pair(tables)
    found = cohen(tables), gwet(of_panel), krippendorff(of_panel, "ordinal")
    return np.stack([one.coefficient for one in found], axis=1)


def test_few_clusters_stay_what_they_are():
    cluster = np.array([5, 2, 2, 9, 5])
    assert resampling_units(cluster, np.random.default_rng(0)).tolist() == [1, 0, 0, 2, 1]
    assert distinct(cluster) == 3
    assert not len(resampling_units(np.zeros(0, np.int64), np.random.default_rng(0)))


def test_many_clusters_are_put_together_whole_and_evenly():
    cluster = np.repeat(np.arange(10_000), 3)
    units = resampling_units(cluster, np.random.default_rng(0), most=256)
    assert (units.reshape(-1, 3) == units[::3, None]).all()
    assert np.ptp(np.bincount(units)) <= 3
    assert np.bincount(units).size == 256


def test_every_resample_draws_as_many_units_as_there_are():
    weights = multinomial_weights(50, 400, np.random.default_rng(0))
    assert (weights.sum(1) == 50).all()
    assert weights.var() == pytest.approx(1 - 1 / 50, abs=0.03)


def test_the_standard_error_of_a_mean_is_that_of_its_clusters():
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 9, 400)
    events = rng.binomial(sizes, rng.beta(1, 2, 400))
    sums = np.stack([events, sizes], axis=1).astype(float)
    found = resample(sums, lambda part: part[:, :1] / part[:, 1:], 4000, rng)
    rate = events.sum() / sizes.sum()
    linearised = np.sqrt(((events - rate * sizes) ** 2).sum() * 400 / 399) / sizes.sum()
    assert found.estimate[0] == rate
    assert found.draws.std() == pytest.approx(linearised, rel=0.05)


def test_groups_of_clusters_vary_as_the_clusters_do():
    """Random groups against single clusters and against the linearised error of each coefficient.

    The spread of 512 groups has a relative error of 3%, that of 2,000 draws 1.6%.
    """
    rng = np.random.default_rng(5)
    tables = two_judges(20_000, 4, 0.85, rng)
    units = resampling_units(np.arange(20_000), rng, most=512)
    grouped = np.stack([np.bincount(units, column) for column in tables.T], axis=1)
    one, other = (
        resample(sums, coefficients, 2000, rng).draws.std(0) for sums in (tables, grouped)
    )
    total = tables.sum(0)
    shifts = np.eye(9) * 1e-4 * total.sum()
    slope = (coefficients(total + shifts) - coefficients(total - shifts)) / (2e-4 * total.sum())
    influence = tables @ slope
    linearised = np.sqrt(((influence - influence.mean(0)) ** 2).sum(0))
    assert np.allclose(one, linearised, rtol=0.06)
    assert np.allclose(other, linearised, rtol=0.12)


def test_chunks_do_not_change_the_draws_of_a_seed(monkeypatch):
    tables = two_judges(60, 4, 0.85, np.random.default_rng(6))
    one = resample(tables, coefficients, 200, np.random.default_rng(1)).draws
    assert np.array_equal(one, resample(tables, coefficients, 200, np.random.default_rng(1)).draws)
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", 600)
    again = resample(tables, coefficients, 200, np.random.default_rng(1)).draws
    assert np.allclose(one, again, rtol=1e-12, atol=0)


def test_bca_is_the_percentile_interval_where_nothing_is_skewed():
    values = np.linspace(-1, 1, 2001)
    plain = interval(values, 0.0, 1000, method="percentile")
    assert np.allclose(interval(values, 0.0, 1000), plain, atol=1e-3)
    assert plain[0] == pytest.approx(-0.95, abs=2e-3)
    wider = interval(values, 0.0, 8, method="percentile")
    assert wider[0] < plain[0]
    # A long lower tail and the slope that goes with it move both ends down.
    assert interval(values, 0.0, 1000, skew=-0.05)[0] < plain[0]


def test_acceleration_is_the_skewness_of_the_units():
    values = np.random.default_rng(2).exponential(size=500)
    left_out = (values.sum() - values) / 499
    apart = values - values.mean()
    expected = (apart**3).sum() / (6 * (apart**2).sum() ** 1.5)
    assert acceleration(left_out) == pytest.approx(expected)
    assert acceleration(np.full(9, 0.3)) == 0.0
    assert acceleration(np.array([np.nan])) == 0.0


def test_what_resampling_cannot_show_is_said():
    few = np.zeros(0)
    alone = bootstrapped(0.4, few, few, 1, level=0.95, method="bca")
    assert (alone.estimate, alone.interval) == (0.4, None)
    assert "one cluster" in alone.why["interval"]
    values = np.where(np.arange(200) % 4, 0.5, np.nan)
    often = bootstrapped(0.4, values, few, 9, level=0.95, method="bca")
    assert often.interval is None
    assert "25%" in often.why["interval"]
    same = bootstrapped(1.0, np.ones(200), few, 9, level=0.95, method="bca")
    assert same.interval is None
    with pytest.raises(ValueError, match="too few"):
        resample(np.ones((4, 1)), lambda part: part, 20, np.random.default_rng(0))


def test_no_disagreement_is_no_certainty():
    found = without_disagreement(0.5, 100, 0.95)
    assert found.estimate == 1.0
    # At 0 of 100 the ceiling is 1 - .025 ** .01 = 3.62%.
    assert found.interval == pytest.approx((1 - 0.0362 / 0.5, 1.0), abs=1e-4)
    assert without_disagreement(0.5, 1, 0.95).interval[0] > -1.01


def test_pairs_of_a_million_verdicts_take_seconds_and_little_memory():
    rng = np.random.default_rng(8)
    truth = rng.choice(3, 100_000, p=SHARES)
    labels = np.stack(
        [np.where(rng.random(100_000) < 0.9, truth, rng.integers(0, 3, 100_000)) for _ in range(8)],
        axis=1,
    ).astype(np.int8)
    pairs = {(one, other): THREE for one in range(8) for other in range(one + 1, 8)}
    found = pair_figures(labels, np.arange(100_000), pairs, (3, 3), rng, AgreementSettings())
    assert found.draws.shape == (1000, 28, 6)
    kappa = [row["cohen"] for row in found.coefficients]
    errors = np.array([one.standard_error for one in kappa])
    assert all(one.interval[0] < one.estimate < one.interval[1] for one in kappa)
    # Independent rows of one design: all pairs have one error.
    assert np.ptp(errors) / errors.mean() < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clusters", "accuracy", "shares"),
    [(20, 0.8, SHARES), (50, 0.95, [0.8, 0.05, 0.15]), (200, 0.97, [0.9, 0.02, 0.08])],
)
def test_coverage(clusters, accuracy, shares, study_size):
    studies = round(4000 * study_size)
    rng = np.random.default_rng(2026)
    truth = coefficients(two_judges(400_000, 4, accuracy, rng, shares).sum(0)[None, :])[0]
    covered, shown = np.zeros(3), np.zeros(3)
    for _ in range(studies):
        found = resample(two_judges(clusters, 4, accuracy, rng, shares), coefficients, 400, rng)
        for place in range(3):
            figure = bootstrapped(
                found.estimate[place],
                found.draws[:, place],
                found.left_out[:, place],
                clusters,
                level=0.95,
                method="bca",
            )
            if figure.interval is not None:
                low, high = figure.interval
                covered[place] += low <= truth[place] <= high
                shown[place] += 1
    assert (shown >= 0.97 * studies).all()
    least = 0.94 - 3 * np.sqrt(0.94 * 0.06 / studies)
    assert (covered / shown >= least).all(), covered / shown
