"""Paired and unpaired comparisons hold their level and agree with independent programs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test, t
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep

from safemetry.rates.paired import (
    holm,
    mcnemar_exact,
    minimum_detectable_difference,
    minimum_detectable_difference_unpaired,
    paired_difference_interval,
    power_paired,
    sign_flip_test,
    tango_interval,
    unpaired_difference_interval,
)


@pytest.fixture(scope="module")
def studies(study_size):
    return round(10_000 * study_size)


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (8, 1), (5, 5), (30, 17), (0, 12)])
def test_mcnemar_equals_statsmodels(b, c):
    expected = mcnemar([[10, b], [c, 20]], exact=True).pvalue if b + c else 1.0
    assert float(mcnemar_exact(b, c)) == pytest.approx(expected, rel=1e-10)


def test_fractional_discordant_pairs_have_no_exact_test():
    with pytest.raises(ValueError, match="whole numbers"):
        mcnemar_exact(0.5, 2)


def test_sign_flips_of_single_pairs_are_the_exact_mcnemar_test():
    result = sign_flip_test([1] * 9 + [-1] * 3 + [0] * 50, np.random.default_rng(0))
    assert result.exact
    assert result.p_value == pytest.approx(float(mcnemar_exact(9, 3)))


def test_sign_flips_equal_scipys_permutation_test():
    differences = np.random.default_rng(4).normal(0.3, 1, 11)
    expected = permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    ours = sign_flip_test(differences, np.random.default_rng(0))
    assert ours.flips == 2**11
    assert ours.p_value == pytest.approx(expected.pvalue)


def test_drawn_flips_agree_with_all_flips():
    differences = np.random.default_rng(5).choice([-1, -0.5, 0.5, 1], 14, p=[0.1, 0.2, 0.3, 0.4])
    everything = sign_flip_test(differences, np.random.default_rng(0))
    drawn = sign_flip_test(differences, np.random.default_rng(0), permutations=16_000)
    assert everything.exact
    assert not drawn.exact
    # Four standard errors of a share of 16,000 draws.
    spread = np.sqrt(everything.p_value * (1 - everything.p_value) / 16_000)
    assert abs(drawn.p_value - everything.p_value) < 4 * spread + 1 / 16_000


def test_drawn_flips_depend_on_the_seed_only():
    differences = np.random.default_rng(6).normal(0.1, 1, 300)
    one, two = (sign_flip_test(differences, np.random.default_rng(9), 500) for _ in range(2))
    shuffled = sign_flip_test(
        np.random.default_rng(1).permutation(differences), np.random.default_rng(9), 500
    )
    assert one == two == shuffled
    assert 1 / 501 <= one.p_value <= 1


def test_equal_targets_have_a_p_value_of_one():
    assert sign_flip_test([0, 0, 0], np.random.default_rng(0)).p_value == 1
    assert sign_flip_test([], np.random.default_rng(0)).p_value == 1


def test_tango_interval_has_score_statistics_at_its_ends():
    """Independent of the solver: at each end the constrained score statistic is +/- z."""
    from scipy.optimize import minimize_scalar

    def statistic(delta, b, c, n):
        def loss(q):  # q = P(second only); the first-only probability is q + delta
            rest = 1 - 2 * q - delta
            parts = [(b, q + delta), (c, q), (n - b - c, rest)]
            return -sum(k * np.log(max(p, 1e-300)) for k, p in parts if k)

        bounds = (max(0.0, -delta), (1 - delta) / 2)
        q = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        return (b - c - n * delta) / np.sqrt(n * (2 * q + delta - delta**2))

    for b, c, n in [(12, 2, 60), (3, 5, 30), (1, 0, 25), (0, 0, 40)]:
        low, high = tango_interval(b, c, n)
        assert statistic(float(low), b, c, n) == pytest.approx(1.96, abs=1e-3)
        assert statistic(float(high), b, c, n) == pytest.approx(-1.96, abs=1e-3)


def test_tango_interval_is_symmetric_and_proper_at_the_edges():
    low, high = tango_interval([5, 2, 0, 10], [2, 5, 0, 0], [20, 20, 0, 10])
    assert low[0] == pytest.approx(-high[1])
    assert (low[2], high[2]) == (-1, 1)
    assert high[3] == pytest.approx(1)
    assert low[3] < 1
    with pytest.raises(ValueError, match="negative"):
        tango_interval(-1, 2, 5)


def test_single_pairs_are_compared_by_tango():
    result = paired_difference_interval([1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0], [1] * 6)
    assert np.allclose([result.lower, result.upper], tango_interval(3, 1, 6))
    assert result.method == "tango"
    assert result.effective_pairs == 6


def test_discordant_clusters_carry_the_degrees_of_freedom():
    spread = paired_difference_interval([1] * 8 + [0] * 4, [0] * 12, [3] * 12)
    assert spread.design_effect == pytest.approx((t.ppf(0.975, 7) / t.ppf(0.975, 35)) ** 2)
    assert spread.lower > 0
    # One cluster that outweighs the others does not become six by their number.
    heavy = paired_difference_interval([20] + [1] * 5, [0] * 6, [20] + [1] * 5)
    assert heavy.design_effect == pytest.approx((20**2 + 5) / 25)


def test_few_discordant_clusters_count_clusters_not_pairs():
    result = paired_difference_interval([3, 0, 0, 0, 0], [0, 0, 1, 0, 0], [4] * 5)
    assert result.design_effect == pytest.approx(4)
    assert result.effective_pairs == pytest.approx(5)
    assert result.discordant_rate == pytest.approx(0.2)


def test_without_a_pair_there_is_no_difference():
    assert paired_difference_interval([0], [0], [0]) is None


def test_pairs_that_are_all_discordant_survive_rounding():
    for first, second in [([2, 3], [0, 1]), ([3, 2, 1], [1, 1, 1]), ([7] * 3, [4, 5, 6])]:
        pairs = np.add(first, second)
        result = paired_difference_interval(first, second, pairs)
        assert -1 <= result.lower <= result.difference <= result.upper <= 1


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=30).filter(
        lambda rows: any(sum(row) for row in rows)
    ),
    st.randoms(use_true_random=False),
)
def test_exchanging_targets_flips_and_reordering_keeps_the_interval(rows, random):
    b, c, same = (np.array(column) for column in zip(*rows, strict=True))
    order = random.sample(range(len(rows)), len(rows))
    one = paired_difference_interval(b, c, b + c + same)
    two = paired_difference_interval(c[order], b[order], (b + c + same)[order])
    assert one.difference == pytest.approx(-two.difference)
    assert (one.lower, one.upper) == pytest.approx((-two.upper, -two.lower), abs=1e-9)
    assert -1 <= one.lower <= one.difference + 1e-9
    assert one.difference - 1e-9 <= one.upper <= 1


@pytest.mark.parametrize(("x", "n", "y", "m"), [(56, 70, 48, 80), (0, 10, 3, 12), (9, 9, 1, 9)])
def test_unpaired_interval_equals_statsmodels(x, n, y, m):
    expected = confint_proportions_2indep(x, n, y, m, method="newcomb", compare="diff")
    assert np.allclose(unpaired_difference_interval(x, n, y, m), expected, atol=1e-9)


def test_unpaired_interval_without_a_trial_rules_nothing_out():
    assert [float(end) for end in unpaired_difference_interval(0, 0, 1, 2)] == [-1, 1]


def test_holm_equals_statsmodels():
    p_values = np.random.default_rng(8).uniform(0, 0.2, 12)
    assert np.allclose(holm(p_values), multipletests(p_values, method="holm")[1])
    assert holm([]).size == 0
    with pytest.raises(ValueError, match="p_values"):
        holm([0.1, np.nan])


@pytest.mark.parametrize(("rate", "pairs"), list(product([0.02, 0.1, 0.3], [50, 200, 1000])))
def test_minimum_detectable_difference_has_its_power(rate, pairs):
    difference = minimum_detectable_difference(rate, pairs)
    if difference is None:
        return
    achieved = power_paired(difference, max(rate, difference), pairs)
    assert achieved == pytest.approx(0.8, abs=1e-6)
    assert power_paired(difference / 2, max(rate, difference), pairs) < 0.8


def test_zero_discordance_still_has_a_finite_resolution():
    none, little = (minimum_detectable_difference(rate, 300) for rate in (0.0, 1e-9))
    ceiling = 1 - 0.05 ** (1 / 300)
    assert none == minimum_detectable_difference(ceiling, 300)
    assert none >= little > 0


def test_too_few_pairs_detect_nothing():
    assert minimum_detectable_difference(0.5, 2) is None
    assert minimum_detectable_difference_unpaired(0.5, 2, 2) is None


def test_power_is_that_of_the_level_without_a_difference():
    assert power_paired(0.0, 0.2, 100) == 0.05
    with pytest.raises(ValueError, match="cannot exceed"):
        power_paired(0.3, 0.2, 100)


def test_unpaired_resolution_agrees_with_the_published_sample_size():
    from statsmodels.stats.proportion import power_proportions_2indep

    difference = minimum_detectable_difference_unpaired(0.3, 250, 250)
    power = power_proportions_2indep(difference, 0.3, 250, alpha=0.05, return_results=False)
    assert power == pytest.approx(0.8, abs=0.01)
    assert minimum_detectable_difference_unpaired(0.7, 250, 250) == pytest.approx(difference)


def discordant_clusters(studies, sizes, first, second, correlation, rng):
    """Outcomes of two targets that share behaviour effects within clusters."""
    mass = 1 / correlation - 1
    shape = (studies, sizes.size)
    p = rng.beta(first * mass, (1 - first) * mass, shape)
    q = rng.beta(second * mass, (1 - second) * mass, shape)
    only_first = rng.binomial(sizes, p * (1 - q))
    only_second = rng.binomial(sizes - only_first, (1 - p) * q / (1 - p * (1 - q)))
    return only_first, only_second


CLUSTER_SIZES = {
    "equal": np.full(60, 6),
    "unequal": np.random.default_rng(3).geometric(1 / 6, 60),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTER_SIZES)
@pytest.mark.parametrize(("first", "second"), [(0.3, 0.3), (0.4, 0.2), (0.05, 0.03), (0.1, 0.02)])
def test_paired_interval_covers_with_clusters(name, first, second, studies):
    rng, sizes = np.random.default_rng(17), CLUSTER_SIZES[name]
    studies //= 2
    b, c = discordant_clusters(studies, sizes, first, second, 0.3, rng)
    results = [paired_difference_interval(*row, sizes) for row in zip(b, c, strict=True)]
    held = [result.lower <= first - second <= result.upper for result in results]
    # Three standard errors below 94%.
    assert np.mean(held) >= 0.94 - 3 * np.sqrt(0.06 * 0.94 / studies)


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [12, 20])
@pytest.mark.parametrize("sizes", ["three", "six", "unequal"])
@pytest.mark.parametrize("correlation", [0.1, 0.3, 0.6])
@pytest.mark.parametrize(
    ("first", "second"), [(0.05, 0.03), (0.1, 0.02), (0.25, 0.01), (0.3, 0.1), (0.3, 0.3)]
)
def test_paired_interval_covers_with_few_clusters(
    clusters, sizes, correlation, first, second, studies
):
    rng, studies = np.random.default_rng(31), studies // 4
    unequal = np.random.default_rng(8).geometric(1 / 6, clusters)
    size = {"three": np.full(clusters, 3), "six": np.full(clusters, 6), "unequal": unequal}[sizes]
    b, c = discordant_clusters(studies, size, first, second, correlation, rng)
    results = [paired_difference_interval(*row, size) for row in zip(b, c, strict=True)]
    held = [result.lower <= first - second <= result.upper for result in results]
    assert np.mean(held) >= 0.94 - 3 * np.sqrt(0.06 * 0.94 / studies)


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "most"), [(12, 0.15), (20, 0.1), (60, 0.05)])
def test_interval_and_sign_flips_of_equal_clusters_seldom_disagree(clusters, most, studies):
    rng, sizes = np.random.default_rng(37), np.full(clusters, 3)
    b, c = discordant_clusters(studies // 20, sizes, 0.25, 0.01, 0.1, rng)
    disagree = []
    for first, second in zip(b, c, strict=True):
        result = paired_difference_interval(first, second, sizes)
        found = sign_flip_test((first - second) / sizes, rng, 2_000).p_value < 0.05
        disagree.append(found != (result.lower > 0 or result.upper < 0))
    assert np.mean(disagree) <= most


@pytest.mark.slow
def test_detectable_difference_of_few_clusters_is_found_by_sign_flips(studies):
    rng, sizes = np.random.default_rng(41), np.full(12, 3)
    observed = paired_difference_interval([1] * 8 + [0] * 4, [0] * 12, sizes)
    least = minimum_detectable_difference(observed.discordant_rate, observed.effective_pairs)
    clusters = rng.binomial(3, rng.beta(9 * least, 9 * (1 - least), (studies // 10, 12)))
    found = [sign_flip_test(row / 3, rng, 5_000).p_value < 0.05 for row in clusters]
    # Correlation .1 within clusters; the sign-flip test is discrete at 12 of them.
    assert 0.72 < np.mean(found) < 0.88


@pytest.mark.slow
@pytest.mark.parametrize(("b", "c"), [(0.1, 0.1), (0.2, 0.05), (0.02, 0.01)])
def test_tango_covers_near_its_level(b, c, studies):
    rng = np.random.default_rng(19)
    counts = rng.multinomial(150, [b, c, 1 - b - c], 20 * studies)
    low, high = tango_interval(counts[:, 0], counts[:, 1], 150)
    coverage = ((low <= b - c) & (b - c <= high)).mean()
    # A score interval holds its level on average over parameters, not at each of them.
    assert coverage >= 0.94 - 3 * np.sqrt(0.06 * 0.94 / (20 * studies))


@pytest.mark.slow
def test_sign_flips_hold_their_level_where_mcnemar_does_not(studies):
    rng, sizes = np.random.default_rng(23), np.full(40, 8)
    studies //= 2
    b, c = discordant_clusters(studies, sizes, 0.3, 0.3, 0.4, rng)
    flips = [sign_flip_test(d, rng, 500).p_value for d in (b - c) / sizes]
    assert np.mean(np.array(flips) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / studies)
    assert np.mean(np.array(flips) <= 0.05) > 0.01
    pairs = mcnemar_exact(b.sum(axis=1), c.sum(axis=1))
    assert (pairs <= 0.05).mean() > 0.12


@pytest.mark.slow
def test_minimum_detectable_difference_is_found_as_often_as_stated(studies):
    difference = minimum_detectable_difference(0.2, 400)
    b, c = (0.2 + difference) / 2, (0.2 - difference) / 2
    counts = np.random.default_rng(29).multinomial(400, [b, c, 0.8], 10 * studies)
    found = (mcnemar_exact(counts[:, 0], counts[:, 1]) <= 0.05).mean()
    # The exact test is discrete and gives away a few points of the approximate power.
    assert 0.72 < found < 0.82
